"""Sums and products of two large arrays, which threads share."""

from __future__ import annotations

import gc
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import micrograd_core as mg
from micrograd_core import asarray
from micrograd_core.dtypes import DTYPES
from micrograd_core.interpreters.raw import Kernels
from micrograd_cpu import pairs, target, threads
from micrograd_cpu.storage import CPUBackend

pytestmark = pytest.mark.skipif(
    {"pairs", "calls"} & target.PLAIN or not pairs.FLAGS,
    reason="NumPy adds, or how this processor numbers its flags is not known",
)
SHAPES = ((300_001,), (263, 1024), (3, 1, 100_000))


def drawn(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.fixture(scope="module")
def kernels() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads.Threads, "count", 3)
        pairs.fronts.cache_clear()
        yield pairs.fronts()
        pairs.fronts.cache_clear()


@pytest.mark.parametrize("name", pairs.PAIRS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_arrays_give_the_bits_that_numpy_gives(
    kernels: Any, name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = list[int]()
    together = threads.together
    monkeypatch.setattr(pairs, "together", lambda *given: taken.append(1) or together(*given))
    for shape in SHAPES:
        x, y = drawn(shape, dtype, 0), drawn(shape, dtype, 1)
        number = np.broadcast_to(np.asarray(0.3, dtype), shape)
        for left, right in ((x, y), (x, x), (number, y), (x, number)):
            expected = getattr(np, name)(left, right)
            found = kernels[name](left, right)
            assert (found.dtype, found.tobytes()) == (expected.dtype, expected.tobytes())
    assert len(taken) == 4 * len(SHAPES)


@pytest.mark.parametrize("name", pairs.PAIRS)
def test_other_operands_are_numpys(kernels: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "together", lambda *given: pytest.fail("these are not for threads"))
    x = drawn((600, 600), "float32", 0)
    unaligned = np.frombuffer(b"\1" + x.tobytes(), "uint8")[1:].view("float32").reshape(x.shape)
    others: list[Any] = [x[0], x.T, x.astype("float64"), x[:, :1], 2.0, np.float32(3), unaligned, x[0, 0, ...]]
    pairs_of = [(x, each) for each in others] + [(each, x) for each in others]
    pairs_of += [(x[:3, :4], x[:3, :4]), (np.broadcast_to(np.float32(2), x.shape),) * 2, (3, 4.0)]
    for left, right in pairs_of:
        expected, found = getattr(np, name)(left, right), kernels[name](left, right)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    whole = np.arange(1, 500_001)
    np.testing.assert_array_equal(kernels[name](whole, whole), getattr(np, name)(whole, whole))


def test_operands_that_do_not_fit_are_refused(kernels: Any) -> None:
    with pytest.raises(ValueError, match="broadcast"):
        kernels["add"](np.ones((600, 600)), np.ones((600, 601)))
    with pytest.raises(TypeError):
        kernels["add"](np.ones((600, 600)))


@pytest.mark.parametrize(
    ("name", "x", "y", "said"),
    [
        ("multiply", 1e30, 1e30, "overflow"),
        ("add", 3e38, 3e38, "overflow"),
        ("subtract", np.inf, np.inf, "invalid"),
        ("divide", 1.0, 0.0, "divide by zero"),
    ],
)
def test_what_numpy_warns_of_is_warned_of(
    kernels: Any, name: str, x: float, y: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever in the arrays it is, and every time; and not once more after that."""
    left, right = np.ones(500_000, "float32"), np.ones(500_000, "float32")
    monkeypatch.setattr(asarray(left)._kernels, name, kernels[name])
    operator = getattr(mg, name)
    for place in (0, 250_001, -1):
        left[place], right[place] = x, y
        with pytest.warns(RuntimeWarning, match=said) as warned:
            found = operator(asarray(left), asarray(right))
        assert len(warned) == 1
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match=said):
            kernels[name](left, right)
        with np.errstate(all="ignore"):
            assert np.asarray(found).tobytes() == getattr(np, name)(left, right).tobytes()
        left[place], right[place] = 1, 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            operator(asarray(left), asarray(right))


def test_a_table_has_them_once_something_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.Threads, "count", 2)
    pairs.fronts.cache_clear()
    backend = CPUBackend()
    table = Kernels.of(backend)
    x = np.ones((3, 4), "float32")
    for _ in range(100):
        table.multiply(x, x)
    assert backend.kernel("multiply") is np.multiply is table.multiply
    table.softmax(drawn((511, 257), "float32", 0), axis=1)
    assert backend.kernel("multiply") is pairs.fronts()["multiply"]
    table.native(DTYPES["int16"])  # which is there for the first time: all kernels are looked at again
    for _ in range(100):
        table.multiply(x, x)
    assert table.multiply is backend.kernel("multiply")
    pairs.fronts.cache_clear()


def test_kernels_of_a_backend_made_of_this_one_stay(kernels: Any) -> None:
    backend = CPUBackend()
    own = lambda x, y: x  # noqa: E731
    backend.kernels = {**backend.kernels, "add": own}
    backend._pairs_by_threads()
    assert backend.kernel("add") is own
    assert backend.kernel("multiply") is pairs.fronts()["multiply"]


def test_slices_without_elements_are_numpys(kernels: Any) -> None:
    x = np.ones((1 << 19, 3), "float32")[:, :0]
    for kernel in kernels.values():
        assert kernel(x, x).shape == (1 << 19, 0)


def test_what_is_too_small_is_told_where_somebody_asked(kernels: Any) -> None:
    x = np.full(400_000, 1e-30, "float32")
    assert kernels["multiply"](x, x).max() == 0
    with np.errstate(under="raise"), pytest.raises(FloatingPointError, match="underflow"):
        kernels["multiply"](x, x)


def test_flags_are_those_of_one_call(kernels: Any) -> None:
    """Of two threads that compute at once, each is told of its own numbers."""
    large, small, found = np.full(400_000, 3e38, "float32"), np.ones(400_000, "float32"), list[str]()

    def work(x: Any) -> None:
        for _ in range(100):
            try:
                with np.errstate(over="raise"):
                    kernels["add"](x, x)
                found.append("nothing")
            except FloatingPointError:
                found.append("overflow")

    both = [threading.Thread(target=work, args=(x,)) for x in (large, small)]
    for each in both:
        each.start()
    for each in both:
        each.join(60)
    assert sorted(found) == ["nothing"] * 100 + ["overflow"] * 100


def test_one_thread_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.Threads, "count", 1)
    pairs.fronts.cache_clear()
    assert pairs.fronts() == {}
    pairs.fronts.cache_clear()


def test_helpers_that_fell_asleep_are_woken(kernels: Any) -> None:
    x, y = drawn((300_000,), "float32", 0), drawn((300_000,), "float32", 1)
    for pause in (0, 0.02, 0, 0.02):
        time.sleep(pause)
        assert kernels["multiply"](x, y).tobytes() == (x * y).tobytes()


def test_a_front_goes_with_all_that_it_holds() -> None:
    made = pairs.front(np.add, pairs.large("add", np.add))
    for _ in range(3):
        gc.collect()
        assert made(np.ones(400_000), np.ones(400_000))[-1] == 2
