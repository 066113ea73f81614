"""Printed nests: they compile, keep to their registers, and cost no more than the kernels of single operations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import array_api_compat.numpy as xp
import numpy as np
import pytest

import counted
import nvrtc
from host import Arrays, native
from micrograd_core.compiler.fusion import Run
from micrograd_core.compiler.passes import written
from micrograd_core.dtypes import DTYPES
from micrograd_core.layout import Layout
from micrograd_core.ops.standard.random import place_of
from micrograd_cuda import kernels, nests
from micrograd_cuda.runtime import OPTIONS
from micrograd_cuda.units import ELEMENT

pytestmark = pytest.mark.skipif(nvrtc.library() is None, reason=nvrtc.MISSING)


class Backend:
    """What a program asks of one: kernels on the host, counted."""

    def __init__(self) -> None:
        self.runtime = counted.CountedRuntime()
        self.own: frozenset[str] = frozenset()
        self.dtypes = {name: native(name) for name in DTYPES if name not in ("complex64", "complex128")}

    def kernel(self, op: str) -> Any:
        """There are none: all is computed by nests."""
        raise AssertionError(f"{op} is called")


Composition = Callable[..., Any]


def adam(k: Any, p: Any, g: Any, m: Any, v: Any, lr: Any) -> Any:
    first = k.add(k.multiply(m, 0.9), k.multiply(g, 0.1))
    second = k.add(k.multiply(v, 0.999), k.multiply(k.square(g), 0.001))
    return k.subtract(p, k.multiply(lr, k.divide(first, k.add(k.sqrt(second), 1e-8)))), first, second


def normalised(k: Any, x: Any, weight: Any) -> Any:
    def mean(x: Any) -> Any:
        return k.multiply(k.sum(x, axis=(1,), keepdims=True), 1 / x.shape[1])

    d = k.subtract(x, mean(x))
    return k.multiply(k.divide(d, k.sqrt(k.add(mean(k.square(d)), 1e-5))), weight)


def many(k: Any, *xs: Any) -> Any:
    """More than a thread has registers for in whole packs."""
    return functools.reduce(k.add, [k.exp(x) for x in xs])


NESTS: dict[str, tuple[Composition, list[tuple[int, ...]]]] = {
    "line": (lambda k, x, y: k.exp(k.add(x, y)), [(1003,), (1003,)]),
    "matrix": (lambda k, x, y: k.multiply(k.tanh(x), y), [(12, 64), (64,)]),
    "turned": (lambda k, x: k.where(k.less(x, 0.5), x, k.permute_dims(x, axes=(1, 0))), [(32, 32)]),
    "adam": (adam, [(250,), (250,), (250,), (250,), ()]),
    "rows": (normalised, [(6, 1024), (1024,)]),
    "short rows": (normalised, [(300, 24), (24,)]),
    "odd rows": (normalised, [(5, 501), (501,)]),
    "several axes": (lambda k, x: k.max(k.exp(x), axis=(1, 2), keepdims=False), [(3, 4, 40)]),
    "many": (many, [(256,)] * 20),
}


def programs(name: str, dtype: str, backend: Any) -> nests.Programs:
    composition, shapes = NESTS[name]
    program = written(composition, [(shape, DTYPES[dtype]) for shape in shapes], {})
    assert program is not None
    return nests.Programs(backend, program, lambda place: None)


def groups(name: str, dtype: str) -> Iterator[nests.Group]:
    owner = programs(name, dtype, Backend())
    found = owner.plan([None] * owner.program.inputs)
    owner.outputs = {}
    for step in found.steps:
        assert isinstance(step, Run)
        group = nests.Group(owner, step)
        group.members.append(step)
        yield group


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", NESTS)
def test_a_nest_of_each_family_compiles(name: str, architecture: str) -> None:
    """Without a warning, for memory that begins anywhere, and without a spilled register."""
    for dtype in ELEMENT:
        for group in groups(name, dtype):
            for aligned in (True, False) if dtype == "float32" else (True,):
                _, source = group.source(aligned)
                made = nvrtc.compile_text(source, architecture, OPTIONS)
                assert made.registers <= 128
                assert made.spilled <= 8, f"{made.spilled} bytes of {dtype}"  # around divisions


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", NESTS)
def test_a_nest_computes_what_it_says(name: str, dtype: str) -> None:
    """The PTX that NVRTC makes, run on the host: one launch, and float64's numbers within roundings."""
    backend, (composition, shapes) = Backend(), NESTS[name]
    given = [counted.numbers(backend.runtime, shape, dtype, seed) for seed, shape in enumerate(shapes)]
    if name == "adam":
        np.abs(given[3], out=given[3])
    results = programs(name, dtype, backend)(*given)
    exact = Exact()
    expected = composition(exact, *[x.astype("float64") for x in given])
    expected = expected if isinstance(expected, tuple) else (expected,)
    close = 1e-5 if dtype == "float32" else 6e-2
    for x, y in zip(results, expected, strict=True):
        np.testing.assert_allclose(x.astype("float64"), y, rtol=close, atol=close)
    assert len(backend.runtime.done) == 1


class Exact:
    """NumPy, as a composition calls it."""

    def __getattr__(self, name: str) -> Any:
        return {"permute_dims": np.permute_dims}.get(name) or getattr(np, name)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["add", "relu", "exp", "sigmoid"])
def test_a_nest_of_one_operation_costs_what_its_own_kernel_does(name: str, dtype: str) -> None:
    """In bytes, and nearly in instructions."""
    operands, size = 1 + (name == "add"), 1 << 15

    def counts(launched: Callable[[Any, Any], Callable[[], Any]]) -> Any:
        backend = Backend()
        given = [counted.numbers(backend.runtime, (size,), dtype, seed) for seed in range(operands)]
        launched(backend, given)()
        (found,) = backend.runtime.done
        return found

    def nest(backend: Any, given: Any) -> Callable[[], Any]:
        program = written(lambda k, *xs: getattr(k, name)(*xs), [(x.shape, DTYPES[dtype]) for x in given], {})
        assert program is not None
        return lambda: nests.Programs(backend, program, lambda place: None)(*given)

    one = counts(nest)
    own = counts(lambda backend, given: lambda: kernels.table(Arrays(xp), backend.runtime)[name](*given))
    assert (one.read, one.written) == (own.read, own.written)
    assert one.instructions <= 1.15 * own.instructions


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_dropouts_mask_is_drawn_where_it_is_used(dtype: str) -> None:
    """Neighbours share a block of words; the bits are those of the kernel that draws into memory."""
    backend, size = Backend(), 1 << 12

    def dropped(k: Any, x: Any, place: Any) -> Any:
        drawn = k.random_uniform_from(place, shape=x.shape, dtype=DTYPES["float32"])
        return k.where(k.less(drawn, 0.25), 0, k.multiply(x, 2.0))

    program = written(dropped, [((size,), DTYPES[dtype]), ((6,), DTYPES["uint64"])], {})
    assert program is not None
    x, place = counted.numbers(backend.runtime, (size,), dtype), backend.runtime.empty((6,), native("uint64"))
    place[...] = place_of(3 << 64 | 5, (1 << 64) - 7)  # a carry on the way
    (found,) = nests.Programs(backend, program, lambda place: None)(x, place)
    drawn = np.random.Generator(np.random.Philox(key=3 << 64 | 5, counter=(1 << 64) - 8)).random(size, "float32")
    np.testing.assert_array_equal(found.astype("float32"), np.where(drawn < 0.25, 0, x.astype("float32") * 2))
    (done,) = backend.runtime.done
    assert done.instructions <= 60 * size
    assert done.written == size * x.itemsize
    assert done.read <= size * (x.itemsize + 12)  # a thread reads the place once


def test_rows_are_read_by_packs_and_written_once() -> None:
    """Three loops over a row read it three times, two of them where the nearest cache has it."""
    backend = Backend()
    given = [counted.numbers(backend.runtime, shape, "float32") for shape in ((4, 4096), (4096,))]
    program = written(normalised, [(x.shape, DTYPES["float32"]) for x in given], {})
    assert program is not None
    nests.Programs(backend, program, lambda place: None)(*given)
    (found,) = backend.runtime.done
    assert found.written == given[0].nbytes
    assert found.read <= 4.1 * given[0].nbytes


def test_packs_that_lie_between_multiples_of_their_size_are_read_by_elements() -> None:
    """Such as rows of a slice: a GPU refuses to load these at once."""

    def text(f: Composition, shape: tuple[int, ...]) -> str:
        program = written(f, [(shape, DTYPES["float32"])], {})
        assert program is not None
        owner = nests.Programs(Backend(), program, lambda place: None)
        (step,) = owner.plan([None]).steps
        assert isinstance(step, Run)
        return nests.Group(owner, step).body(True)

    whole = slice(0, 8, 1)
    assert "part<float, 4, true>" in text(lambda k, x: k.exp(k.getitem(x, key=(whole, slice(4, 12, 1)))), (8, 16))
    assert "part<float, 4, false>" in text(lambda k, x: k.exp(k.getitem(x, key=(whole, slice(1, 9, 1)))), (8, 16))
    assert "part<float, 4, false>" in text(lambda k, x: k.exp(k.getitem(x, key=(whole, slice(0, 8, 1)))), (8, 17))


def test_what_begins_anywhere_is_read_so() -> None:
    """By elements where memory begins between multiples of 16 bytes, and nothing beyond its end."""
    backend = Backend()
    memory = counted.numbers(backend.runtime, (1004,), "float32")
    program = written(NESTS["line"][0], [((1003,), DTYPES["float32"])] * 2, {})
    assert program is not None
    x = memory[1:]
    (found,) = nests.Programs(backend, program, lambda place: None)(x, x)
    np.testing.assert_allclose(found, np.exp(x.astype("float64") * 2), rtol=1e-5)


def test_layouts_of_inputs_are_planned_for() -> None:
    """A transposed input is read as it lies."""
    backend, x = Backend(), counted.numbers(Backend().runtime, (24, 40), "float32")
    owner = nests.Programs(
        backend, written(lambda k, x: k.multiply(x, 2.0), [((40, 24), DTYPES["float32"])], {}), lambda place: None
    )
    (found,) = owner(x.T)
    np.testing.assert_array_equal(found, 2 * x.T)
    assert owner.layout(x.T) == x.T.strides
    assert owner.layout(x) is None
    assert owner.plan([x.T.strides]).steps[0].nest.kept == (40, 24)
    assert Layout.contiguous((40, 24)).strides == (24, 1)
