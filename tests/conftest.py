"""Fixtures: devices that the core's tests run on; the same draws for a test, whatever ran before it."""

from __future__ import annotations

import os
import random
import sys

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Device

os.environ["SCIPY_ARRAY_API"] = "1"  # SciPy looks once, when it is imported


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every default generator begins anew: what a test draws does not depend on which tests ran before it."""
    random.seed(0)
    np.random.seed(0)
    mg.random.manual_seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture(params=["cpu", "rawbuffer"])
def device(request: pytest.FixtureRequest) -> Device:
    """Each device in turn."""
    return Device(request.param)


@pytest.fixture
def rawbuffer_device() -> Device:
    """The pure Python device."""
    return Device("rawbuffer")
