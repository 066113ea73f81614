"""Every kernel of the cpu gives arrays of two-byte floats that compute in float32: a plain one would promote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from micrograd_core import Device, Tensor
from micrograd_core.conformance.cases import contiguous, is_differentiable
from micrograd_core.errors import MicrogradError
from micrograd_core.ops import TABLE

Half = pytest.importorskip("micrograd_cpu.half").Half
HALVES = np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)


def watched(name: str, kernel: Callable[..., Any], plain: set[str]) -> Callable[..., Any]:
    """A kernel that takes note when it makes a plain array of operands that are none."""

    def is_plain(x: Any) -> bool:
        return x.__class__ is not Half and getattr(x, "dtype", None) in HALVES

    def watching(*operands: Any, **params: Any) -> Any:
        result = kernel(*operands, **params)
        parts = result if isinstance(result, tuple) else (result,)
        if any(map(is_plain, parts)) and not any(map(is_plain, operands)):
            plain.add(name)
        return result

    return watching


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_kernel_gives_arrays_that_round_once(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device, plain, ran = Device("cpu"), set[str](), 0
    for name in TABLE:
        kernel = getattr(device.kernels, name, None)
        if kernel is not None:
            monkeypatch.setattr(device.kernels, name, watched(name, kernel, plain))
    for op in TABLE.values():
        for case in contiguous(op, dtype, device):
            operands = case.tensors(device, requires_grad=is_differentiable(case))
            try:
                out = case.call(operands)
            except (MicrogradError, TypeError):  # of an operation that takes host data
                continue
            ran += 1
            if isinstance(out, Tensor) and out.requires_grad:
                abs(out).sum().backward()
    assert plain == set()
    assert ran > 400
