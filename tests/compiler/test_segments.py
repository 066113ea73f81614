"""Steps that compiled code does in one call: products by BLAS among nests, in memory that they share."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from itertools import product
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device
from micrograd_core.compiler.fusion import Call, Plan, Run, plan
from micrograd_core.compiler.passes import optimized
from micrograd_core.compiler.program import Program, Ref, Step, typed
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.dtypes import DTYPES
from micrograd_core.layout import Layout

pytest.importorskip("llvmlite")
from micrograd_cpu import blas, compiled, entries, products, segments as segments_module, threads
from micrograd_cpu.scalars import covers
from micrograd_cpu.segments import Product, Segment, makes, reads, segments

EXHAUSTIVE = os.environ.get("MICROGRAD_EXHAUSTIVE") == "1"
F32 = DTYPES["float32"]


def multiply_add(shapes: list[tuple[int, ...]], dtype: str = "float32", transposed: str = "") -> Program:
    """``relu(x @ y * 2 + z) @ w``, operands as they come or transposed first."""
    steps: list[Step] = []
    names = {name: Ref(i) for i, name in enumerate("xyzw")}
    for name in transposed:
        steps.append(Step("permute_dims", (names[name],), {"axes": (1, 0)}))
        names[name] = Ref(3 + len(steps))
    at = 4 + len(steps)
    steps += [
        Step("matmul", (names["x"], names["y"]), {}),
        Step("multiply", (Ref(at), 2.0), {}),
        Step("add", (Ref(at + 1), names["z"]), {}),
        Step("relu", (Ref(at + 2),), {}),
        Step("matmul", (Ref(at + 3), names["w"]), {}),
    ]
    return typed(Program(4, steps, (Ref(at + 4),)), [TensorSpec(shape, DTYPES[dtype]) for shape in shapes])


def lying(x: Any, way: str) -> Any:
    """The same numbers, otherwise in memory."""
    if way == "transposed":
        return np.asfortranarray(x)
    if way == "rows apart":
        return np.repeat(x, 3, axis=0)[::3]
    if way == "in a frame":
        return np.pad(x, ((1, 2), (3, 1)))[1:-2, 3:-1]
    if way == "every second":
        return np.repeat(x, 2, axis=1)[:, ::2]
    return x[::-1].copy()[::-1] if way == "backwards" else x


WAYS = ("as usual", "transposed", "rows apart", "in a frame", "every second", "backwards")
VARIANTS = ("", "x", "yw", "xyzw")
SIZES = [(5, 7, 3, 4), (1, 6, 4, 2), (4, 1, 5, 1), (3, 4, 1, 6), (33, 40, 17, 9)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize("sizes", SIZES)
def test_products_of_operands_that_lie_in_any_way(sizes: tuple[int, ...], dtype: str) -> None:
    m, k, n, p = sizes
    rng = np.random.default_rng(m)
    sample = SIZES.index(sizes) + len(dtype)
    for transposed in VARIANTS if EXHAUSTIVE else VARIANTS[sample % 4 :][:1]:
        shapes = {"x": (m, k), "y": (k, n), "z": (m, n), "w": (n, p)}
        arrays = {name: rng.integers(-4, 5, shape).astype(dtype) for name, shape in shapes.items()}
        expected = np.maximum(arrays["x"] @ arrays["y"] * 2 + arrays["z"], 0) @ arrays["w"]
        given = [np.ascontiguousarray(x.T) if name in transposed else x for name, x in arrays.items()]
        run = Device("cpu").kernels.compile(multiply_add([x.shape for x in given], dtype, transposed))
        for i, way in [*enumerate(WAYS)][:: 1 if EXHAUSTIVE else 3]:
            handles = [lying(x, WAYS[(i + j) % len(WAYS)] if way != WAYS[0] else way) for j, x in enumerate(given)]
            for _ in range(2):
                (found,) = run(*handles)
                np.testing.assert_array_equal(found, expected)
                assert not any(np.shares_memory(found, x) for x in handles)


def planned(program: Program) -> tuple[Plan, list[Any]]:
    program = optimized(program, covers)
    inputs = [(Layout.contiguous(x.shape), x) for x in program.types[: program.inputs]]
    found = plan(program, [layout for layout, _ in inputs], covers)
    return found, segments(found, inputs, compiled._shared, compiled._multiplied)


@pytest.mark.skipif(not blas.routines("float32"), reason="NumPy has another BLAS here")
def test_a_program_of_products_and_nests_is_one_call() -> None:
    found, steps = planned(multiply_add([(7, 5), (3, 7), (5, 3), (3, 4)], transposed="xy"))
    assert sum(isinstance(step, Call) for step in found.steps) == 4, "two transposes and two products"
    (segment,) = steps
    assert isinstance(segment, Segment)
    assert segment.inputs == (0, 1, 2, 3)
    assert len(segment.outputs) == 1
    assert len(segment.places) == 2
    assert str(blas.TRANSPOSED) in "".join(map(str, segment.steps)) or any(
        each.left.transposed for each in segment.steps if not isinstance(each, Run)
    )


def test_values_in_an_arena_do_not_overlap_while_they_are_needed() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        steps: list[Step] = []
        for i in range(int(rng.integers(5, 25))):
            a, b = (Ref(int(n)) for n in rng.integers(max(0, i - 4), 2 + i, 2))
            steps.append(Step("matmul" if rng.random() < 0.6 else "add", (a, b), {}))
        program = typed(
            Program(2, steps, (Ref(len(steps) + 1), Ref(len(steps) // 2 + 2))), [TensorSpec((6, 6), F32)] * 2
        )
        for segment in planned(program)[1]:
            assert isinstance(segment, Segment)
            last = {n: i for i, step in enumerate(segment.steps) for n in (*makes(step), *reads(step))}
            first = {n: i for i, step in enumerate(segment.steps) for n in makes(step)}
            for a, b in product(segment.places, repeat=2):
                if a < b and first[a] <= last[b] and first[b] <= last[a]:
                    assert abs(segment.places[a] - segment.places[b]) >= 6 * 6 * 4
            assert all(place + 144 <= segment.size for place in segment.places.values())
        x, y = (rng.normal(size=(6, 6)).astype("float32") / 4 for _ in range(2))
        values = [x, y]
        for step in steps:
            a, b = (values[each.number] for each in step.operands)
            values.append(a @ b if step.op == "matmul" else a + b)
        run = Device("cpu").kernels.compile(program)
        for found, expected in zip(run(x, y), (values[-1], values[len(steps) // 2 + 2]), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def viewed(rng: np.random.Generator, steps: list[Step], number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """How an input is to look of which steps make a view of a shape: axes in another order, or cut out."""
    if rng.random() < 0.3:
        return shape
    if len(shape) > 2 and rng.random() < 0.3:  # one of several along a new axis
        key = (*[slice(0, n, 1) for n in shape[:-1]], 1, slice(0, shape[-1], 1))
        steps.append(Step("getitem", (Ref(number),), {"key": key}))
        return (*shape[:-1], 3, shape[-1])
    axes = tuple(map(int, rng.permutation(len(shape))))
    if rng.random() < 0.5:  # as gradients have it
        axes = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    steps.append(Step("permute_dims", (Ref(number),), {"axes": axes}))
    return tuple([shape[axes.index(axis)] for axis in range(len(shape))])


def of_stacks(rng: np.random.Generator, dtype: str, count: int) -> Program:
    """Some ``x @ y + 1`` of stacks of matrices that broadcast, each perhaps through a view."""
    steps: list[Step] = []
    types: list[TensorSpec] = []
    results: list[Ref] = []
    for _ in range(count):
        m, k, n = map(int, rng.choice([1, 2, 3, 5, 9, 17], 3))
        stack = tuple(map(int, rng.choice([1, 2, 3, 4], int(rng.integers(0, 4)))))
        stacks = [tuple([length if rng.random() < 0.8 else 1 for length in stack]) for _ in "xy"]
        stacks = [each[int(rng.integers(len(each) + 1)) :] if rng.random() < 0.4 else each for each in stacks]
        operands = []
        for shape in ((*stacks[0], m, k), (*stacks[1], k, n)):
            before = len(steps)
            types.append(TensorSpec(viewed(rng, steps, len(types), shape), DTYPES[dtype]))
            operands.append(Ref(2 * count + before if len(steps) > before else len(types) - 1))
        steps += [Step("matmul", tuple(operands), {}), Step("add", (Ref(2 * count + len(steps)), 1.0), {})]
        results.append(Ref(2 * count + len(steps) - 1))
    return typed(Program(2 * count, steps, results), types)


def computed(program: Program, arrays: list[Any]) -> list[Any]:
    """A program by NumPy's functions."""
    by: dict[str, Any] = {
        "getitem": lambda x, key: x[key], "permute_dims": lambda x, axes: x.transpose(axes),
        "reshape": lambda x, shape: x.reshape(shape), "matmul": np.matmul, "add": np.add,
    }  # fmt: skip
    values = list(arrays)
    for step in program.steps:
        operands = [values[x.number] if isinstance(x, Ref) else x for x in step.operands]
        values.append(by[step.op](*operands, **step.params))
    return [values[x.number] for x in program.outputs]


@pytest.mark.parametrize("count", [0, 3])
def test_stacks_of_products_are_those_of_numpy(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if count:  # all that can be shared is, and few vectors are taken one after the other
        monkeypatch.setattr(threads.Threads, "count", count)
        monkeypatch.setattr(compiled, "ALONE", (0, 0))
        monkeypatch.setattr(compiled, "LARGE", 1)
        monkeypatch.setattr(segments_module, "PACKED", 0)
        monkeypatch.setattr(segments_module, "NEAR", 0)
    rng = np.random.default_rng(count)
    kinds = dict.fromkeys(("stack", "call"), 0)
    for dtype in ("float32", "float64") * (20 if EXHAUSTIVE else 1):
        program = of_stacks(rng, dtype, 25)
        arrays = [rng.integers(-4, 5, x.shape).astype(dtype) for x in program.types[: program.inputs]]
        for step in planned(program)[1]:
            for x in step.steps if isinstance(step, Segment) else (step,):
                if isinstance(x, Call):
                    kinds["call"] += x.op == "matmul"
                elif isinstance(x, Product):
                    kinds["stack"] += bool(x.stack)
        run = Device("cpu").kernels.compile(program)
        for _ in range(2):
            for found, expected in zip(run(*arrays), computed(program, arrays), strict=True):
                np.testing.assert_array_equal(found, expected)
    if blas.routines("float32") and products.alone() is not None:
        assert kinds["stack"] > 10
        assert kinds["call"] < 10, "whose matrices have no axis in which elements are next to each other"


@pytest.mark.skipif(not blas.routines("float32") or products.alone() is None, reason="NumPy has another BLAS here")
@pytest.mark.parametrize(("length", "told", "expected"), [(64, 2, 2), (64, 1, 1), (2, 2, None)])
def test_no_more_threads_share_a_stack_than_openblas_is_told_to_use(
    length: int, told: int, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads.Threads, "count", 2)
    single, divided, found = products.alone(), threads.together, []
    assert single is not None

    def noted(share: Any, count: int, ranges: int, *arrays: Any, most: int) -> None:
        found.append((most, single.told()))
        divided(share, count, ranges, *arrays, most=most)

    monkeypatch.setattr(threads, "together", noted)
    x, y = np.ones((16, length, 64), "float32"), np.ones((16, 64, 64), "float32")
    program = typed(
        Program(2, (Step("matmul", (Ref(0), Ref(1)), {}),), (Ref(2),)), [TensorSpec(z.shape, F32) for z in (x, y)]
    )
    before = single.told()
    try:
        single.tell(told)
        assert (Device("cpu").kernels.compile(program)(x, y)[0] == 64).all()
        assert single.told() == told
    finally:
        single.tell(before)
    assert found == ([(expected, 1)] if expected else [])


@pytest.mark.skipif(not blas.routines("float32"), reason="NumPy has another BLAS here")
def test_many_matrices_times_one_are_one_product() -> None:
    types = [TensorSpec((2, 3, 4), F32), TensorSpec((4, 5), F32)]
    (segment,) = planned(typed(Program(2, (Step("matmul", (Ref(0), Ref(1)), {}),), (Ref(2),)), types))[1]
    assert isinstance(segment, Segment)
    (found,) = segment.steps
    assert isinstance(found, Product)
    assert (found.stack, found.sizes) == ((), (6, 5, 4))


def test_a_copy_that_a_product_reads_is_in_order() -> None:
    steps = (
        Step("permute_dims", (Ref(0),), {"axes": (1, 0, 2)}),
        Step("reshape", (Ref(2),), {"shape": (3, 8)}),
        Step("matmul", (Ref(3), Ref(1)), {}),
    )
    program = typed(Program(2, steps, (Ref(4),)), [TensorSpec((2, 3, 4), F32), TensorSpec((8, 5), F32)])
    x, y = np.arange(24, dtype="float32").reshape(2, 3, 4), np.arange(40, dtype="float32").reshape(8, 5)
    np.testing.assert_array_equal(Device("cpu").kernels.compile(program)(x, y)[0], computed(program, [x, y])[0])
    calls = [step.op for step in planned(program)[1] if isinstance(step, Call)]
    assert "matmul" not in calls or not blas.routines("float32")


def test_threads_have_an_arena_each() -> None:
    program = multiply_add([(128, 64), (64, 96), (128, 96), (96, 32)])
    assert planned(program)[1][0].size > entries.STACK or not blas.routines("float32")
    run = Device("cpu").kernels.compile(program)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        arrays = [rng.integers(-3, 4, x.shape).astype("float32") for x in program.types[:4]]
        x, y, z, w = arrays
        expected = np.maximum(x @ y * 2 + z, 0) @ w
        wrong.extend(i for i in range(100) if not np.array_equal(run(*arrays)[0], expected))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong


def test_calls_of_compiled_code_keep_no_references_and_are_freed() -> None:
    run = Device("cpu").kernels.compile(multiply_add([(4, 4)] * 4))
    arrays = [np.ones((4, 4), "float32") for _ in range(4)]
    run(*arrays)
    run(*map(np.asfortranarray, (np.arange(16.0, dtype="float32").reshape(4, 4) for _ in range(4))))
    before = [sys.getrefcount(x) for x in (*arrays, arrays[0].dtype, np.ndarray, None, True)]
    for _ in range(1000):
        run(*arrays)
    after = [sys.getrefcount(x) for x in (*arrays, arrays[0].dtype, np.ndarray, None, True)]
    assert max(abs(x - y) for x, y in zip(before, after, strict=True)) < 100
    there, enabled = weakref.ref(run.compiled), gc.isenabled()
    gc.disable()
    try:
        del run
        assert there() is None
    finally:
        if enabled:
            gc.enable()


def test_what_looks_otherwise_is_not_taken_for_what_it_was_compiled_for() -> None:
    program = typed(Program(1, (Step("exp", (Ref(0),), {}),), (Ref(1),)), [TensorSpec((2, 3), F32)])
    run = Device("cpu").kernels.compile(program)
    x = np.arange(6, dtype="float32").reshape(2, 3)

    class Other(np.ndarray):
        pass

    swapped = x.astype(x.dtype.newbyteorder())
    for _ in range(2):
        for given in (
            x,
            x.copy(order="F"),
            x[:, ::-1],
            x.view(Other),
            x[:1].repeat(2, axis=0),
            np.broadcast_to(x, x.shape),
        ):
            np.testing.assert_allclose(run(given)[0], np.exp(np.asarray(given)), rtol=1e-6)
        for wrong in (x.T, x[None], x.astype("float64"), x.view("int32"), x[:1], swapped):
            with pytest.raises(TypeError, match="the program was compiled for a float32"):
                run(wrong)
