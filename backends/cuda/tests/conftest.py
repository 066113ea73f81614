"""Without the package there is nothing to test here; without g++ there is no host to play a GPU on."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # what the tests share lies beside them
SAMPLING = run_path(str(Path(__file__).parents[3] / "tests" / "sampling.py"))  # as of the core's
collect_ignore_glob = [] if find_spec("micrograd_cuda") else ["test_*.py"]  # uv sync --group cuda


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is decided once more, and not kept: for tests that change what is decided by."""
    from micrograd_core import Device
    from micrograd_cuda import gemm

    monkeypatch.setattr(gemm, "product", lru_cache(gemm.product.__wrapped__))
    for name in ("cuda", "played"):
        if Device.is_cuda_available() if name == "cuda" else _played():
            monkeypatch.setattr(Device(name).kernels.backend.runtime.plans, "kept", {})


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Take samples; and of the suite played on the host only what the cuda backend computes itself, not NumPy."""
    SAMPLING["leave_out"](SAMPLING["left"]([item for item in items if not item.cls]), config, items)
    if not find_spec("micrograd_cuda") or not items:
        return
    from micrograd_core import Device

    own = Device("played").kernels.backend.own if _played() else ()
    others = [
        item
        for item in items
        if getattr(item.cls, "device", "") == "played:0"
        and "case" in getattr(getattr(item, "callspec", None), "params", {})
        and item.callspec.params["case"].op.name not in own
    ]
    SAMPLING["leave_out"](others, config, items)


def _played() -> bool:
    import host

    return host.COMPILER is not None


def pytest_configure(config: Any) -> None:
    """Make ``Device("played")`` known, also to the process that only controls parallel workers."""
    if find_spec("micrograd_cuda"):
        import played

        if _played():
            played.register()
    if os.environ.get("MICROGRAD_CUDA_REQUIRED") == "1":
        from micrograd_core import Device
        from micrograd_core.errors import DeviceUnavailable

        try:
            Device("cuda")
        except DeviceUnavailable as error:
            raise pytest.UsageError(str(error)) from None
    if os.environ.get("MICROGRAD_CUDA_POOL") == "0":
        import cupy

        cupy.cuda.set_allocator(None)  # each array has memory of its own, whose ends tools can see
