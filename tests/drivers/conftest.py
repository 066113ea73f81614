"""Devices that compile for a driver, where there is one; in an environment with neither the tests are skipped."""

import pytest

import micrograd_core as mg
from micrograd_core.errors import BackendNotFound, DeviceUnavailable


@pytest.fixture(scope="session", params=["opencl:0", "wgpu:0"])
def driver(request: pytest.FixtureRequest) -> mg.Device:
    try:
        return mg.Device(request.param)
    except (BackendNotFound, DeviceUnavailable) as error:
        pytest.skip(str(error))
