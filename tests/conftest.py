"""Fixtures: the devices that the core's tests run on."""

from __future__ import annotations

import os

import pytest

from micrograd_core import Device

os.environ["SCIPY_ARRAY_API"] = "1"  # SciPy looks once, when it is imported


@pytest.fixture(params=["cpu", "rawbuffer"])
def device(request: pytest.FixtureRequest) -> Device:
    """Each device in turn."""
    return Device(request.param)


@pytest.fixture
def rawbuffer_device() -> Device:
    """The pure Python device."""
    return Device("rawbuffer")
