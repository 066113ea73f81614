"""Why a machine has no cuda device: each reason from facts alone, and what this very machine says."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import warnings
from importlib.util import find_spec
from typing import Any

import pytest

from micrograd_core import Device
from micrograd_core.errors import DeviceUnavailable
from micrograd_cuda import plugin, probe, storage
from micrograd_cuda.probe import Facts, compiler_verdict, verdict

READY = Facts(driver=13000, devices=2, cupy="14.2.0", built_for=13, conflicts=("cupy-cuda13x",))


def test_nothing_speaks_against_a_machine_that_has_all() -> None:
    assert verdict(READY, 1) is None
    assert verdict(READY._replace(built_for=12, driver=12090)) is None
    assert verdict(READY._replace(built_for=12)) is None  # a newer driver runs older programs
    assert verdict(READY._replace(built_for=None, conflicts=("cupy",))) is None  # built here


REASONS = {
    "no driver": (
        Facts(driver_error="libcuda.so.1: cannot open shared object file"),
        0,
        "there is no NVIDIA driver (libcuda.so.1: cannot open shared object file)",
        "install the driver of your GPU",
    ),
    "old driver": (READY._replace(driver=11080), 0, "CUDA up to 11.8, and 12.0 is the oldest", "update the NVIDIA"),
    "no device": (
        READY._replace(devices=0, driver_error="CUDA_ERROR_NO_DEVICE"),
        0,
        "the driver finds no device (CUDA_ERROR_NO_DEVICE)",
        "CUDA_VISIBLE_DEVICES",
    ),
    "one device": (READY._replace(devices=1), 1, "this machine has 1 CUDA device", "use cuda:0"),
    "two devices": (READY, 2, "this machine has 2 CUDA devices", "use cuda:0 to cuda:1"),
    "no CuPy, driver 12": (
        READY._replace(cupy=None, driver=12040),
        0,
        "CuPy is not installed, and the driver runs CUDA 12.4",
        "pip install 'micrograd-cuda[cuda12]'",
    ),
    "no CuPy, driver 13": (READY._replace(cupy=None), 0, "runs CUDA 13.0", "pip install 'micrograd-cuda[cuda13]'"),
    "old CuPy": (READY._replace(cupy="13.6.0"), 0, "CuPy 13.6.0 is too old: 14.0 is the oldest", "cuda13"),
    "CuPy for a newer CUDA": (
        READY._replace(driver=12080),
        0,
        "CuPy 14.2.0 was built for CUDA 13, the driver runs CUDA 12.8",
        "pip uninstall cupy-cuda13x; pip install 'micrograd-cuda[cuda12]'",
    ),
    "two CuPys": (
        READY._replace(conflicts=("cupy-cuda12x", "cupy-cuda13x")),
        0,
        "installed over each other: cupy-cuda12x, cupy-cuda13x",
        "pip uninstall cupy-cuda12x cupy-cuda13x",
    ),
}


@pytest.mark.parametrize("case", REASONS)
def test_a_reason_and_what_to_do(case: str) -> None:
    facts, index, reason, remedy = REASONS[case]
    found = verdict(facts, index)
    assert found is not None
    assert reason in found[0]
    assert remedy in found[1]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("libnvrtc.so.13: cannot open shared object file: No such file or directory", "NVRTC"),
        ("CuPy failed to load libnvrtc.so.12", "NVRTC"),
        ('carray.cuh(4): catastrophic error: cannot open source file "cuda_fp16.h"', "the CUDA headers are missing"),
        ("Failed to find CUDA headers", "the CUDA headers are missing"),
        ('Failure finding "libcublasLt.so.13": No such file\n  listdir("lib"):\n    libnvrtc.so.13', "cuBLAS"),
        ('Failure finding "libnvrtc.so.13": No such file\n  listdir("lib"):\n    libcublas.so.13', "NVRTC"),
        ("nvrtc: error: invalid value for --gpu-architecture (-arch)", "too old for it"),
        ("cudaErrorNoKernelImageForDevice: no kernel image is available", "too old for it"),
    ],
)
def test_what_is_missing_to_compile(message: str, reason: str) -> None:
    found = compiler_verdict(message, 13000)
    assert found is not None
    assert reason in found[0]
    assert "micrograd-cuda[cuda13]" in found[1]


def test_other_errors_of_a_first_kernel_are_not_explained_away() -> None:
    assert compiler_verdict("cudaErrorIllegalAddress: an illegal memory access was encountered", 13000) is None


@pytest.mark.parametrize("address", ["x", "-1", "01", "1.0"])
def test_an_address_that_is_no_number(address: str) -> None:
    with pytest.raises(DeviceUnavailable, match=r'a GPU is named by its number; write Device\("cuda:0"\)'):
        plugin.micrograd_open(address)


class Library:
    """What the driver's library answers."""

    def __init__(self, version: int, status: int = 0, devices: int = 0) -> None:
        self.version, self.status, self.devices = version, status, devices

    def cuDriverGetVersion(self, to: Any) -> int:  # noqa: N802
        ctypes.cast(to, ctypes.POINTER(ctypes.c_int))[0] = self.version
        return 0

    def cuInit(self, flags: int) -> int:  # noqa: N802
        return self.status

    def cuDeviceGetCount(self, to: Any) -> int:  # noqa: N802
        ctypes.cast(to, ctypes.POINTER(ctypes.c_int))[0] = self.devices
        return 0

    def cuGetErrorName(self, status: int, to: Any) -> int:  # noqa: N802
        ctypes.cast(to, ctypes.POINTER(ctypes.c_char_p))[0] = b"CUDA_ERROR_NO_DEVICE"
        return 0


def test_warnings_of_cupy_do_not_make_a_device_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where warnings are errors, as here, one of CuPy beside a newer NumPy would."""

    def opened(index: int) -> str:
        warnings.warn("NumPy is newer than it was built for", stacklevel=2)
        return f"device {index}"

    monkeypatch.setattr(probe, "facts", lambda: READY)
    monkeypatch.setattr(storage.CUDABackend, "open", opened)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plugin.micrograd_open("1") == "device 1"


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    probe.driver.cache_clear()

    def pretend(answer: Any) -> None:
        def load(name: str) -> Any:
            assert name == probe.DRIVER
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(probe.ctypes, "CDLL", load)

    yield pretend
    probe.driver.cache_clear()


def test_what_the_driver_answers_becomes_facts(library: Any) -> None:
    library(Library(12040, devices=3))
    assert probe.driver() == Facts(driver=12040, devices=3)
    assert plugin.micrograd_addresses() == ["0", "1", "2"]


def test_a_driver_without_a_device(library: Any) -> None:
    library(Library(13000, status=100))
    assert probe.driver() == Facts(driver=13000, driver_error="CUDA_ERROR_NO_DEVICE")
    assert plugin.micrograd_addresses() == ["0"]  # which says why


def test_no_driver(library: Any) -> None:
    library(OSError("libcuda.so.1: cannot open shared object file"))
    assert probe.driver() == Facts(driver_error="libcuda.so.1: cannot open shared object file")
    with pytest.raises(DeviceUnavailable, match="there is no NVIDIA driver"):
        plugin.micrograd_open("")


def test_listing_imports_neither_numpy_nor_cupy() -> None:
    code = (
        "import sys; from micrograd_core import Device, plugins; plugins.call('cuda', 'micrograd_addresses');"
        "Device.is_cuda_available() or print([m for m in ('numpy', 'cupy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() in ("", "[]")


@pytest.mark.skipif(Device.is_cuda_available(), reason="this machine has a GPU")
def test_asking_again_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Device.is_cuda_available()
    monkeypatch.setattr(probe, "facts", lambda: pytest.fail("the machine was looked at again"))
    assert not Device.is_cuda_available()


@pytest.mark.skipif(Device.is_cuda_available(), reason="this machine has a GPU")
def test_the_doctor_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    from micrograd_core.tools.cli import main

    main(["devices"])
    printed = capsys.readouterr().out
    assert re.search(r"^cuda:0 +unavailable +micrograd-cuda", printed, re.MULTILINE)
    assert "device 'cuda:0' is unavailable: " in printed


@pytest.mark.skipif(find_spec("cupy") is None, reason="CuPy is not installed")
def test_the_installed_cupy_is_found_without_importing_it() -> None:
    found = probe.facts()
    assert found.cupy is not None
    assert probe.version_of(found.cupy) >= probe.OLDEST_CUPY
    assert len(found.conflicts) == 1
