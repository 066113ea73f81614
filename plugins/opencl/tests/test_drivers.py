"""Drivers that are there and do not work."""

from types import SimpleNamespace

import pytest

from micrograd_core.errors import DeviceUnavailable


def test_a_driver_that_compiles_nothing_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    cl = pytest.importorskip("pyopencl")
    from micrograd_opencl import plugin, storage

    class Program:
        def __init__(self, context: object, source: str) -> None: ...

        def build(self, options: object) -> None:
            raise cl.RuntimeError("unknown target CPU 'generic'")

    device = SimpleNamespace(
        name="a processor ", extensions="", platform=SimpleNamespace(name="A driver"), single_fp_config=0
    )
    for name, stand_in in (("Program", Program), ("Context", list), ("CommandQueue", list)):
        monkeypatch.setattr(storage.cl, name, stand_in)
    monkeypatch.setattr(plugin, "devices", lambda: [device])
    with pytest.raises(
        DeviceUnavailable, match="A driver, compiles nothing for this a processor.*install another driver"
    ):
        plugin.micrograd_open("0")
