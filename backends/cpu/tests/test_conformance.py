"""The conformance suite on the host."""

from micrograd_core.conformance import Conformance


class TestCPU(Conformance):
    """Every operation, dtype and layout, through NumPy."""

    device = "cpu"
