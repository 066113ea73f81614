"""Threads that share a loop, and NumPy's functions of large arrays, which nobody can tell from compiled ones."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from micrograd_core import Tensor

pytest.importorskip("llvmlite")

from micrograd_cpu import compiled, eager, elementwise, team
from micrograd_cpu.kernels import KERNELS

SHAPE = (13, 50)
KINDS = ("same", "repeated", "row", "column", "transposed", "offset", "number", "numbers")
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 3.5, 1e-40, 1e38, -2.5, 0.5, 1.5])
FROM = 4
"""Which word says from how many elements on."""


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """All functions that look at sizes, and find most arrays large."""
    monkeypatch.setenv("MICROGRAD_CACHE", str(tmp_path_factory.getbasetemp() / "objects"))
    monkeypatch.setattr(compiled._Threads, "count", 3)
    elementwise.begin()
    before = [each.words[FROM] for each in elementwise._ALIVE]
    for each in elementwise._ALIVE:
        each.words[FROM] = 64
    with np.errstate(all="ignore"):
        yield elementwise._ALIVE
    for each, least in zip(elementwise._ALIVE, before, strict=True):
        each.words[FROM] = least


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, special: bool = False) -> Any:
    if dtype in "efdF":
        return (rng.choice(SPECIAL, shape) if special or rng.random() < 0.5 else rng.normal(size=shape)).astype(dtype)
    return rng.integers(0, 2 if dtype == "?" else 100, size=shape).astype(dtype)


def operands(rng: np.random.Generator, kind: str, dtype: str, count: int) -> list[Any]:
    found: list[Any] = [drawn(rng, SHAPE, dtype, kind == "same") for _ in range(count)]
    last = {
        "repeated": lambda: np.broadcast_to(drawn(rng, (), dtype), SHAPE),
        "row": lambda: drawn(rng, SHAPE[1:], dtype),
        "column": lambda: drawn(rng, (SHAPE[0], 1), dtype),
        "transposed": lambda: drawn(rng, SHAPE[::-1], dtype).T,
        "offset": lambda: drawn(rng, (SHAPE[0] + 1, SHAPE[1]), dtype)[1:],
        "number": lambda: 2,
        "numbers": lambda: np.float32(2),
    }
    return [*found[:-1], last[kind]()] if kind in last else found


def bits(x: Any) -> Any:
    """What tells numbers apart, signs of zeros too; one NaN is as good as another."""
    parts = [x.real, x.imag] if x.dtype.kind == "c" else [x]
    same = [np.where(np.isnan(each), np.nan, each) if each.dtype.kind == "f" else each for each in parts]
    return [
        x.dtype.str,
        x.shape,
        *[np.where(np.isnan(y), 0, np.signbit(y)).tobytes() for y in same if y.dtype.kind == "f"],
    ]


def test_no_bit_tells_whether_an_operation_was_compiled(looking: list[Any]) -> None:
    """Every function, dtype, kind of operands: the first time and later."""
    rng = np.random.default_rng(0)
    compared = 0
    many = os.environ.get("MICROGRAD_EXHAUSTIVE", "0") not in ("", "0")
    for each in looking:
        for i, dtype in enumerate("fdilbB?eF"):
            for j, kind in enumerate(KINDS):
                if not many and (3 * i + j + len(each.name)) % 11 and (dtype, kind) != ("f", "same"):
                    continue
                given = operands(rng, kind, dtype, each.ufunc.nin)
                try:
                    expected = each.ufunc(*given)
                except TypeError:
                    continue
                for _ in range(3):
                    found = KERNELS[each.name](*given)
                    assert bits(found) == bits(expected), (each.name, dtype, kind)
                    assert np.array_equal(found, expected, equal_nan=found.dtype.kind in "fc"), (each.name, dtype, kind)
                compared += 1
    assert compared > 150
    assert sum(made is not None for made in eager._MADE.values()) > 15


def test_an_argument_with_a_name_and_an_error_are_numpys(looking: list[Any]) -> None:
    x, out = np.ones((20, 20), "float32"), np.zeros((20, 20), "float32")
    assert KERNELS["multiply"](x, x, out=out) is out
    assert out.sum() == 400
    for _ in range(3):
        with pytest.raises(ValueError, match="could not be broadcast together"):
            KERNELS["multiply"](x, np.ones((3, 7), "float32"))
        with pytest.raises(TypeError):
            KERNELS["multiply"](x)


def test_gradients_of_large_tensors(looking: list[Any]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 30)).astype("float32"), rng.normal(size=30).astype("float32")
    for _ in range(3):
        x, y = Tensor(a), Tensor(b)
        ((x * y + x) * x).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 2 * a * (b + 1), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(y.grad.numpy(), (a * a).sum(axis=0), rtol=1e-5)


def test_threads_of_python_share_loops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One leads the helpers, others find them taken; all get the same bits."""
    monkeypatch.setattr(compiled, "LARGE", 1)
    monkeypatch.setattr(compiled._Threads, "count", 4)
    kernel = eager.compiled(lambda k, x: k.softmax(x, axis=1), lambda x: None)
    x = np.random.default_rng(0).normal(size=(257, 300)).astype("float32")
    expected, found, begin = kernel(x).tobytes(), list[bool](), threading.Barrier(4)

    def work() -> None:
        begin.wait()
        found.extend(kernel(x).tobytes() == expected for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert found == [True] * 800


def test_who_leads_waits_for_those_who_have_begun() -> None:
    began, done = threading.Event(), list[int]()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    def part(job: int, number: int) -> None:
        if number:
            began.set()
            time.sleep(0.05)
            done.append(number)
        else:
            began.wait(60)

    job = (ctypes.c_int64 * 1)(ctypes.cast(part, ctypes.c_void_p).value or 0)
    for _ in range(3):
        began.clear()
        team.do(job, 2, lambda: None)
        assert done == [1]
        done.clear()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_process_that_is_forked_off_has_helpers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "LARGE", 1)
    monkeypatch.setattr(compiled._Threads, "count", 3)
    kernel = eager.compiled(lambda k, x: k.softmax(x, axis=1), lambda x: None)
    x = np.random.default_rng(0).normal(size=(257, 300)).astype("float32")
    expected = kernel(x).tobytes()
    child = os.fork()
    if not child:
        os._exit(0 if all(kernel(x).tobytes() == expected for _ in range(20)) else 1)
    assert os.waitpid(child, 0)[1] == 0
