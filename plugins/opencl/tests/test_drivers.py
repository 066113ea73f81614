"""Drivers that are there and do not work."""

from types import SimpleNamespace

import pytest

from micrograd_core.errors import DeviceUnavailable, OutOfMemory


def test_a_driver_that_compiles_nothing_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    cl = pytest.importorskip("pyopencl")
    from micrograd_opencl import plugin, storage

    class Program:
        def __init__(self, context: object, source: str) -> None: ...

        def build(self, options: object) -> None:
            raise cl.RuntimeError("unknown target CPU 'generic'")

    device = SimpleNamespace(
        name="a processor ", extensions="", platform=SimpleNamespace(name="A driver"), single_fp_config=0,
        max_parameter_size=1024, max_compute_units=2, type=cl.device_type.CPU, local_mem_type=2,
    )  # fmt: skip
    for name, stand_in in (("Program", Program), ("Context", list), ("CommandQueue", list)):
        monkeypatch.setattr(storage.cl, name, stand_in)
    monkeypatch.setattr(plugin, "devices", lambda: [device])
    with pytest.raises(
        DeviceUnavailable, match="A driver, compiles nothing for this a processor.*install another driver"
    ):
        plugin.micrograd_open("0")


def test_what_a_driver_reports_is_one_of_our_errors() -> None:
    cl = pytest.importorskip("pyopencl")
    from micrograd_opencl.storage import OpenCLBackend

    backend = object.__new__(OpenCLBackend)
    backend.device = "opencl:0"
    for kind, code, expected, words in (
        (
            cl.RuntimeError,
            "DEVICE_NOT_AVAILABLE",
            DeviceUnavailable,
            "its driver has lost it.*start anew, from a checkp",
        ),
        (cl.MemoryError, "MEM_OBJECT_ALLOCATION_FAILURE", OutOfMemory, "out of memory on opencl:0"),
        (cl.RuntimeError, "OUT_OF_RESOURCES", cl.RuntimeError, "OUT_OF_RESOURCES"),
    ):

        def fails(kind: type[Exception] = kind, code: str = code) -> None:
            raise kind(cl._cl._ErrorRecord("", getattr(cl.status_code, code), "clFinish"))

        backend._queue = SimpleNamespace(finish=fails)
        with pytest.raises(expected, match=words):
            backend.synchronize()
