"""The conformance suite on the first WebGPU device."""

from micrograd_core.conformance import Conformance


class TestWebGPU(Conformance):
    """Every operation, dtype and layout."""

    device = "wgpu:0"
