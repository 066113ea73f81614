"""Fixtures: the devices that the core's tests run on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from bytes_backend import Plugin

from micrograd_core import Device, plugins


@pytest.fixture(scope="session", autouse=True)
def _bytes_plugin() -> Iterator[None]:
    plugins.register("bytes", Plugin())
    yield
    plugins.unregister("bytes")


@pytest.fixture(params=["cpu", "bytes"])
def device(request: pytest.FixtureRequest) -> Device:
    """Each device in turn."""
    return Device(request.param)


@pytest.fixture
def bytes_device() -> Device:
    """The pure Python device."""
    return Device("bytes")
