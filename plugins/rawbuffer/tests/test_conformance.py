"""The conformance suite on plain buffers."""

from micrograd_core.conformance import Conformance


class TestRawBuffer(Conformance):
    """Every operation, dtype and layout, in pure Python."""

    device = "rawbuffer:0"
