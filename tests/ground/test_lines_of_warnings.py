"""NumPy's warnings name the user's line from within every operation and its gradients, eager, compiled, in batches."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor
from micrograd_core.conformance.cases import Case, cases
from micrograd_core.errors import MicrogradError
from micrograd_core.ops import TABLE, Op

CPU: Final = mg.Device("cpu")
FILLS: Final = {
    "zero": [0.0],
    "infinite": [np.inf, -np.inf, 1.0],
    "huge": [1e30, -1e30, 2e38],
    "mixed": [-1.0, 0.0, np.inf, np.nan, 1e-30, 3e38],
}
EXHAUSTIVE: Final = os.environ.get("MICROGRAD_EXHAUSTIVE", "0") == "1"
DTYPES: Final = ("float32", "float64", "float16", "complex64", "int32") if EXHAUSTIVE else ("float32",)
REFUSALS: Final = (MicrogradError, ValueError, TypeError, ArithmeticError, NotImplementedError)
IN_PYTHON: Final = ("numpy/fft/_pocketfft.py", "numpy/linalg/_linalg.py")
"""What NumPy itself has written in Python names a line of its own, whoever calls it."""
Seen = list[warnings.WarningMessage]


def drawn(names: list[str]) -> Iterator[tuple[Case, str]]:
    """Calls of operations, and what their operands are filled with; by turns, unless all are asked for."""
    turn = 0
    for name in names:
        for case in cases(CPU.kernels.backend.dtypes, CPU.capabilities, only=name):
            if case.layout != "contiguous" or case.dtype not in DTYPES:
                continue
            for i, fill in enumerate(["zero", "huge"] if iterates(case.op) else FILLS):
                if EXHAUSTIVE or (turn + i) % 4 == 0:
                    yield case, fill
            turn += 1


def iterates(op: Op) -> bool:
    """Whether it may look for singular values, which LAPACK does for ever where a number is infinite."""
    return op.extension == "linalg" or op.capability in ("linalg", "eig") or "matrix" in op.name


def filled(case: Case, fill: str, records: bool = False) -> list[Any]:
    """Operands of a case, of which all floating ones are made of such numbers."""
    found = []
    with np.errstate(all="ignore"):
        for i, x in enumerate(case.tensors(CPU)):
            if isinstance(x, Tensor) and x.dtype.is_floating:
                numbers = np.resize(np.array(FILLS[fill][i % 2 :] or FILLS[fill]), x.shape)
                x = mg.asarray(numbers, dtype=x.dtype)
                x.requires_grad = records
            found.append(x)
    return found


def seen(act: Callable[..., Any], *args: Any) -> tuple[Any, Seen]:
    """What a call gives, if it is not refused, and what it warns of."""
    found = None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with suppress(*REFUSALS):
            found = act(*args)
    return found, [each for each in told if "no batching rule" not in str(each.message)]


def call(case: Case, operands: list[Any]) -> Any:
    return case.call(operands)


def back(total: Tensor, again: bool) -> None:
    total.backward(create_graph=again)


def compiled(f: Any, operands: list[Any]) -> Any:
    return f(*operands)


def named(act: Callable[..., Any], told: Seen) -> list[str]:
    """Those that name another line than the one of `act`."""
    line = act.__code__.co_firstlineno + 1
    return [
        f"{x.filename}:{x.lineno}: {x.message}"
        for x in told
        if (x.filename, x.lineno) != (__file__, line) and not x.filename.endswith(IN_PYTHON)
    ]


def total_of(out: Any) -> Tensor:
    with np.errstate(all="ignore"):
        total: Tensor = mg.real(out).sum() if out.dtype.is_complex else out.sum()
    return total


def eager(case: Case, fill: str) -> tuple[list[str], int]:
    """Forward, and both gradients."""
    operands = filled(case, fill, records=True)
    out, told = seen(call, case, operands)
    wrong, count = named(call, told), len(told)
    leaves = [x for x in operands if isinstance(x, Tensor) and x.requires_grad]
    if not isinstance(out, Tensor) or not out.requires_grad:
        return wrong, count
    total = total_of(out)
    _, told = seen(back, total, True)
    wrong, count = wrong + named(back, told), count + len(told)
    firsts = [x.grad for x in leaves if x.grad is not None and x.grad.requires_grad]
    if firsts:
        with np.errstate(all="ignore"):
            total = sum((total_of(g) for g in firsts), mg.asarray(0.0))
        _, told = seen(back, total, False)
        wrong, count = wrong + named(back, told), count + len(told)
    return wrong, count


def under_jit(case: Case, fill: str) -> tuple[list[str], int]:
    """A compiled function: as it is traced, and as it runs."""
    operands, wrong, count = filled(case, fill), [], 0
    f = mg.jit(lambda *xs: case.call(list(xs)))
    for _ in range(3):
        _, told = seen(compiled, f, operands)
        wrong, count = wrong + named(compiled, told), count + len(told)
    return wrong, count


WAYS = (eager,)
GROUPS: Final = 8


@pytest.mark.parametrize("group", range(GROUPS))
def test_of_all_operations(group: int) -> None:
    wrong, count = [], 0
    for case, fill in drawn([*TABLE][group::GROUPS]):
        for way in WAYS:
            found, told = way(case, fill)
            wrong += [f"{way.__name__} {case.id} {fill}: {each}" for each in found]
            count += told
    print(count)
    assert not wrong, "\n".join(dict.fromkeys(wrong))
    assert count > 50
