"""Random numbers within compiled loops: the bits that the generator's kernel draws, wherever a loop begins."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor, asarray, jit, random
from micrograd_core.dtypes import DTYPES
from micrograd_core.errors import DTypeError, ShapeError
from micrograd_core.ops.standard.random import place_of, start_at

pytest.importorskip("llvmlite")

from micrograd_cpu import compiled, eager, entries, llvm, threads
from micrograd_cpu.kernels import KERNELS

SHAPES: tuple[tuple[int, ...], ...] = (
    (), (1,), (7,), (8,), (9,), (511,), (513,), (3, 5, 7), (31, 17), (2, 8200), (1, 40), (600, 1000), (0, 4),
)  # fmt: skip
SEEDS = (0, 7, (1 << 64) - 1, (1 << 128) - 1)
BLOCKS = (0, 1, 12345, (1 << 64) - 1, (1 << 192) - 1, (1 << 256) - 1)  # some carry into the next word, or wrap
MANY = os.environ.get("MICROGRAD_EXHAUSTIVE", "0") not in ("", "0")

FORMULAS: dict[str, Callable[[Any, float], Any]] = {
    "alone": lambda x, p: mg.dropout(x, p),
    "fused": lambda x, p: mg.dropout(mg.relu(x) + 1, p) * 2,
    "twice": lambda x, p: mg.dropout(mg.dropout(x, p), p) + random.uniform(x.shape, dtype=x.dtype),
    "transposed": lambda x, p: mg.dropout(mg.permute_dims(x, tuple(range(x.ndim))[::-1]), p),
    "of rows": lambda x, p: mg.max(mg.dropout(x + 4, p), axis=-1) if x.ndim and x.size else mg.dropout(x, p),
    "of columns": lambda x, p: mg.max(mg.dropout(x + 4, p), axis=0) if x.ndim and x.size else mg.dropout(x, p),
    "across rows": lambda x, p: mg.max(mg.dropout(x.T, p), axis=0) if x.ndim == 2 and x.size else mg.dropout(x, p),
    "of all": lambda x, p: mg.max(mg.dropout(x + 4, p)) if x.size else mg.dropout(x, p),
    "after a reduction": lambda x, p: (
        mg.dropout(x - mg.max(x, axis=-1, keepdims=True), p) if x.ndim and x.size else mg.dropout(x, p)
    ),
}
"""Exact ones, but for the draws."""


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("MICROGRAD_CACHE", str(tmp_path_factory.getbasetemp() / "objects"))


def numbers(x: Any) -> Any:
    return np.asarray(x.astype(mg.float64).detach().numpy())


@pytest.mark.parametrize("name", FORMULAS)
def test_a_program_draws_what_eager_work_draws(name: str) -> None:
    """At every position of the generator that three calls come to, for lengths that share a block or begin one."""
    rng = np.random.default_rng(len(name))
    for i, (shape, dtype, p) in enumerate(product(SHAPES, ("float32", "float64", "float16", "bfloat16"), (0.1, 0.9))):
        if not MANY and (i + len(name)) % 13:
            continue
        x = asarray(rng.normal(size=shape).astype("float32")).astype(DTYPES[dtype])
        function, step = FORMULAS[name], jit(lambda x, p=p, f=FORMULAS[name]: f(x, p))
        for seed, before in ((SEEDS[i % len(SEEDS)], i % 5),):
            random.manual_seed(seed)
            random.uniform((before,))
            expected = [numbers(function(x, p)) for _ in range(3)] + [numbers(random.uniform((3,)))]
            random.manual_seed(seed)
            random.uniform((before,))
            found = [numbers(step(x)) for _ in range(3)] + [numbers(random.uniform((3,)))]
            for one, other in zip(found, expected, strict=True):
                assert one.tobytes() == other.tobytes(), (shape, dtype, p, seed)
        assert step.traces == 1


def by_numpy(shape: tuple[int, ...], dtype: str, key: int, block: int) -> Any:
    count = int(np.prod(shape))
    raw = np.random.Philox(key=key, counter=(block - 1) % (1 << 256)).random_raw(count + 1)
    if dtype == "float64":
        return (raw[:count] >> np.uint64(11)).reshape(shape) * 0.5**53
    return ((raw.view("uint32")[:count] >> np.uint32(8)).astype("float32") * np.float32(0.5**24)).reshape(shape)


@pytest.mark.parametrize("inner", ["in a row", "one by one"])
def test_every_place_of_the_stream(monkeypatch: pytest.MonkeyPatch, inner: str) -> None:
    """Also where the counter carries; by blocks, and where a loop must make each number for itself."""
    if inner == "one by one":
        monkeypatch.setattr(llvm.Printer, "in_a_row", lambda self, place: False)
    for i, (key, block) in enumerate(product(SEEDS, BLOCKS)):
        shape, dtype = ((37,), (4, 33), (3, 515))[i % 3], ("float32", "float64")[i % 2]

        def draw(place: Any, shape: Any = shape, dtype: Any = dtype) -> Any:
            return mg.random_uniform_from(place, shape, dtype=dtype) * 1.0

        place = asarray(np.array(place_of(key, block), "uint64"))
        assert start_at(place.detach().numpy()) == {"key": key, "block": block}
        found = jit(draw)(place).detach().numpy()
        assert np.array_equal(found, by_numpy(shape, dtype, key, block)), (key, block, shape, dtype)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_threads_draw_the_same(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(threads.Threads, "count", count)
    monkeypatch.setattr(compiled, "LARGE", 1)
    for shape in ((100_003,), (301, 333)):
        step = jit(lambda x: mg.dropout(x, 0.5) * 2)
        random.manual_seed(3)
        found = step(asarray(np.ones(shape, "float32"))).detach().numpy()
        assert np.array_equal(found, np.where(by_numpy(shape, "float32", 3, 1) < 0.5, 0, 4).astype("float32"))


def test_large_arrays_are_dropped_by_a_loop_without_jit() -> None:
    rng = np.random.default_rng(0)
    for i, (dtype, key, block) in enumerate(product(eager.FLOATS, SEEDS, BLOCKS)):
        if not MANY and i % 5:
            continue
        x = rng.normal(size=((eager.SMALL,), (131, 127), (3, 5, 1201))[i % 3]).astype(dtype)
        x = x.T if i % 2 else x
        found = KERNELS["dropout"](x, p=0.25, key=key, block=block)
        scaled = np.multiply(x, 1 / 0.75, dtype=dtype)
        expected = np.where(by_numpy(x.shape, "float32", key, block) < 0.25, 0, scaled)
        assert found.dtype == dtype
        assert np.array_equal(found, expected), (x.shape, dtype, key, block)


def test_the_gradient_drops_the_same_numbers() -> None:
    x = Tensor(np.ones((33, 47), "float32"))

    def step() -> Any:
        x.grad = None
        y = mg.dropout(x * 2, 0.5)
        y.sum().backward()
        return y

    random.manual_seed(11)
    first, again = step(), x.grad
    random.manual_seed(11)
    compiled_step = jit(step)
    y = compiled_step()
    assert again is not None
    assert x.grad is not None
    assert np.array_equal(y.detach().numpy(), first.detach().numpy())
    assert np.array_equal(x.grad.numpy(), again.detach().numpy())
    y = compiled_step()  # further on in the stream
    assert not np.array_equal(y.detach().numpy(), first.detach().numpy())
    assert np.array_equal(x.grad.numpy() > 0, y.detach().numpy() > 0)


def test_numbers_are_drawn_in_the_loop_that_uses_them() -> None:
    step = jit(lambda x: mg.relu(mg.dropout(mg.relu(x), 0.5)))
    x = asarray(np.ones((30, 40), "float32"))
    step(x)
    assert "random_uniform_from(%1, shape=(30, 40), dtype=float32)" in str(step.program)
    source = step.lower(x).source
    assert source.count("define void @nest") == 1
    assert "call void @micrograd.draw(" in source


def test_without_a_compiler_a_program_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "compiles", lambda: False)
    x = asarray(np.ones((30, 41), "float32"))
    random.manual_seed(5)
    expected = [mg.dropout(x, 0.5).detach().numpy() for _ in range(2)]
    random.manual_seed(5)
    step = jit(lambda x: mg.dropout(x, 0.5))
    assert all(np.array_equal(step(x).detach().numpy(), each) for each in expected)


def test_a_place_is_six_words() -> None:
    with pytest.raises(ShapeError, match=r"is 6 words, the counter's four and the key's two; got shape \(5,\)"):
        mg.random_uniform_from(mg.zeros((5,), dtype=mg.uint64), (3,))
    with pytest.raises(DTypeError, match="the words of a place are uint64; got uint8"):
        mg.random_uniform_from(mg.zeros((6,), dtype=mg.uint8), (3,))
    with pytest.raises(DTypeError, match="fractions have a floating-point dtype; got int32"):
        mg.random_uniform_from(asarray(np.zeros(6, "uint64")), (3,), dtype=mg.int32)
