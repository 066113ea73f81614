"""The first WebGPU device, where there is one."""

import pytest

import micrograd_core as mg
from micrograd_core.errors import DeviceUnavailable


@pytest.fixture(scope="session")
def device() -> mg.Device:
    try:
        return mg.Device("wgpu:0")
    except DeviceUnavailable as error:
        pytest.skip(str(error))
