"""The conformance suite on the first OpenCL device."""

from micrograd_core.conformance import Conformance


class TestOpenCL(Conformance):
    """Every operation, dtype and layout."""

    device = "opencl:0"
