"""`jit` of every operation: the same numbers as without it, and the same gradients to second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from micrograd_core.array.tensor import Tensor
from micrograd_core.conformance.base import Suite
from micrograd_core.conformance.cases import ROUNDING, Case, download
from micrograd_core.conformance.operations import gradients_of
from micrograd_core.device import Device
from micrograd_core.errors import TraceError
from micrograd_core.interpreters.traced import UNSHAPED
from micrograd_core.transforms.jit import jit

ROUNDINGS = 64
"""By how many a compiled program may differ, relative to the greatest number of the result: its sums have an order of
their own, and what is fused is rounded less often."""


class Compiled(Suite):
    """Each sample inside a traced function."""

    def test_jit(self, case: Case, opened: Device) -> None:
        """The result, and that it is traced once."""
        operands = case.tensors(opened)
        if case.op.name in UNSHAPED:
            with pytest.raises(TraceError, match="depends on numbers"):
                jit(_taking(case.call))(*operands)
            return
        _agree(case, case.call, operands)

    def test_jit_first_gradient(self, case: Case, opened: Device) -> None:
        """The gradients of all operands, taken inside and outside."""
        operands = case.tensors(opened, requires_grad=True)
        _agree(case, gradients_of(case.vary, operands), operands)
        compiled = jit(_taking(case.vary))
        _agree(case, gradients_of(lambda xs: compiled(*xs), operands), operands, gradients_of(case.vary, operands))

    def test_jit_second_gradient(self, case: Case, opened: Device) -> None:
        """The gradients of the gradients, likewise."""
        operands = case.tensors(opened, requires_grad=True)
        twice = gradients_of(gradients_of(case.vary, operands), operands)
        _agree(case, twice, operands)
        compiled = jit(_taking(case.vary))
        _agree(case, gradients_of(gradients_of(lambda xs: compiled(*xs), operands), operands), operands, twice)


def _taking(f: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    return lambda *operands: f(list(operands))


def _agree(case: Case, f: Callable[[list[Any]], Any], operands: list[Any], plain: Any = None) -> None:
    """Compiled twice over, in two calls: shapes, dtypes, and numbers but for rounding."""
    with np.errstate(all="ignore"):
        wanted = (plain or f)(operands)
        compiled = jit(_taking(f)) if plain is None else _taking(f)
        for _ in range(2):
            found = compiled(*operands)
            pairs = zip(_listed(found), _listed(wanted), strict=True)
            for one, other in pairs:
                _same(case.id, one, other)


def _listed(x: Any) -> list[Tensor]:
    return list(x) if isinstance(x, (tuple, list)) else [x]


def _same(name: str, found: Tensor, wanted: Tensor) -> None:
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), (
        f"{name}: jit gives {found.dtype} of shape {found.shape}, and without it {wanted.dtype} of shape {wanted.shape}"
    )
    one, other = download(found), download(wanted)
    if one.dtype.kind not in "fcV":
        assert one.tolist() == other.tolist(), f"{name}: jit gives {one.tolist()}, and without it {other.tolist()}"
        return
    held = "complex128" if found.dtype.is_complex else "float64"
    one, other = one.astype(held), other.astype(held)
    size = np.abs(other[np.isfinite(other)]).max(initial=1.0)
    allowed = ROUNDINGS * ROUNDING.get(str(found.dtype), 2.0**-52) * size
    with np.errstate(invalid="ignore"):
        same = (one == other) | (np.isnan(one) & np.isnan(other)) | (np.abs(one - other) <= allowed)
    assert same.all(), f"{name}: jit gives {one[~same][:4].tolist()}, and without it {other[~same][:4].tolist()}"
