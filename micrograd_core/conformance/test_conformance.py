"""The suite for ``--device``."""

from micrograd_core.conformance.suite import Conformance


class TestConformance(Conformance):
    """Collected by ``pytest --pyargs micrograd_core.conformance``."""
