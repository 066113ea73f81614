"""Nests: how they read, what becomes one, what may not, and that playing them gives the program's numbers."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device
from micrograd_core.compiler.executor import straight_line
from micrograd_core.compiler.fusion import Call, Limits, Plan, Run, plan
from micrograd_core.compiler.nests import Compute, Load, Nest, Number, Place, Reduce, Store
from micrograd_core.compiler.passes import optimized, written
from micrograd_core.compiler.program import Program, Ref, Step, typed
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.dtypes import float32, int64
from micrograd_core.layout import Layout
from micrograd_cpu.scalars import covers

sys.path.insert(0, str(Path(__file__).parent))
import generated

X = TensorSpec((8, 6), float32)
ROW = {"axis": (1,), "keepdims": True}
Result = tuple[int, tuple[TensorSpec, ...], dict[str, Any]]


def planned(program: Program, layouts: list[Layout] | None = None) -> Plan:
    program = optimized(program, covers)
    usual = [Layout.contiguous(x.shape) for x in program.types[: program.inputs]]
    return plan(program, layouts or usual, covers)


def traced(*made: Step, types: tuple[TensorSpec, ...] = (X,), outputs: tuple[int, ...] = ()) -> Program:
    chosen = outputs or (len(types) + len(made) - 1,)
    return typed(Program(len(types), made, tuple(map(Ref, chosen))), types)


def nests(found: Plan) -> list[Nest]:
    return [step.nest for step in found.steps if isinstance(step, Run)]


# ── reading one ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_chain_is_one_loop() -> None:
    found = planned(traced(Step("softsign", (Ref(0),), {})))
    assert str(found) == (
        "%3 = nest(in0: float32[48], out1: float32[48])\n"
        "    for i < 48:\n"
        "        %0 = in0[i]\n"
        "        %1 = abs(%0)\n"
        "        %2 = %1 + 1\n"
        "        %3 = %0 / %2\n"
        "        out1[i] = %3\n"
        "  of %0\n"
        "return %3"
    )


def test_a_softmax_is_three_loops_in_a_row_and_its_exponentials_wait_in_scratch_memory() -> None:
    (nest,) = nests(planned(traced(Step("softmax", (Ref(0),), {"axis": 1}))))
    assert str(nest) == (
        "nest(in0: float32[48], out1: float32[48], scratch2: float32[6])\n"
        "    for i < 8:\n"
        "        for j < 6:\n"
        "            %0 = in0[6*i + j]\n"
        "            %1 max= %0\n"
        "        for j < 6:\n"
        "            %2 = in0[6*i + j]\n"
        "            %3 = %2 - %1\n"
        "            %4 = exp(%3)\n"
        "            %5 sum= %4\n"
        "            scratch2[j] = %4\n"
        "        %6 = 1 / %5\n"
        "        for j < 6:\n"
        "            %7 = scratch2[j]\n"
        "            %8 = %7 * %6\n"
        "            out1[6*i + j] = %8"
    )


G = TensorSpec((6,), float32)
ONE_NEST: dict[str, tuple[Step, tuple[TensorSpec, ...]]] = {
    "softmax": (Step("softmax", (Ref(0),), {"axis": 0}), (X,)),
    "softmax_gradient": (Step("softmax_gradient", (Ref(0), Ref(1)), {"axis": 1}), (X, X)),
    "log_softmax": (Step("log_softmax", (Ref(0),), {"axis": 1}), (X,)),
    "log_softmax_gradient": (Step("log_softmax_gradient", (Ref(0), Ref(1)), {"axis": 1}), (X, X)),
    "logsumexp": (Step("logsumexp", (Ref(0),), {"axis": (1,), "keepdims": False}), (X,)),
    "layer_norm": (Step("layer_norm", (Ref(0), Ref(1), Ref(2)), {"axis": (1,), "eps": 1e-5}), (X, G, G)),
    "standardize_gradient": (
        Step("standardize_gradient", (Ref(0), Ref(1), Ref(2)), {"axis": (1,), "eps": 1e-5}), (X, X, G),
    ),
    "rms_norm": (Step("rms_norm", (Ref(0), Ref(1)), {"axis": (1,), "eps": 1e-5}), (X, G)),
    "rms_norm_gradient": (Step("rms_norm_gradient", (Ref(0), Ref(1), Ref(2)), {"axis": (1,), "eps": 1e-5}), (X, X, G)),
    "var": (Step("var", (Ref(0),), {"axis": (0,), "correction": 1.0, "keepdims": False}), (X,)),
    "mse_loss": (Step("mse_loss", (Ref(0), Ref(1)), {"reduction": "mean"}), (X, X)),
    "nll_loss": (
        Step("cross_entropy", (Ref(0), Ref(1), 1.0),
             {"ignore_index": -100, "label_smoothing": 0.0, "reduction": "none"}), (X, TensorSpec((8,), int64)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_NEST)
def test_what_goes_over_the_same_rows_is_one_nest(name: str) -> None:
    step, types = ONE_NEST[name]
    found = planned(traced(step, types=types))
    assert [type(each) for each in found.steps] == [Run], found


def test_a_mean_over_all_rows_comes_after_the_nest_of_each_and_what_it_divides_by_before() -> None:
    params = {"ignore_index": -100, "label_smoothing": 0.0, "reduction": "mean"}
    found = planned(traced(Step("cross_entropy", (Ref(0), Ref(1), 1.0), params), types=(X, TensorSpec((8,), int64))))
    before, rows, *after = nests(found)
    assert (rows.kept, rows.reduced) == ((8,), (6,))
    assert all(each.reduced == (8,) for each in (before, *after))
    assert len(found.steps) == len(after) + 2


@pytest.mark.parametrize("calls", [1, 40])
def test_a_step_joins_the_nest_that_makes_what_it_reads_however_many_steps_lie_between(calls: int) -> None:
    """So a gradient takes along the slope of a function from where its input was, in place of all its parts."""
    steps = [Step("exp", (Ref(0),), {}), Step("multiply", (Ref(1), Ref(0)), {})]
    for _ in range(calls):
        steps += [Step("matmul", (Ref(len(steps)), Ref(0)), {}), Step("abs", (Ref(len(steps) + 1),), {})]
    slope = len(steps) + 1
    steps += [Step("add", (Ref(1), Ref(2)), {}), Step("multiply", (Ref(slope), Ref(slope - 1)), {})]
    square = TensorSpec((6, 6), float32)
    found = planned(traced(*steps, types=(square,)))
    first = found.steps[0]
    assert isinstance(first, Run)
    assert slope in first.outputs, found
    assert 1 not in first.outputs, found
    assert len(nests(found)) == calls + 1


COUNTERS = (
    Step("arange", (), {"stop": 6, "dtype": int64}),
    Step("reshape", (Ref(1),), {"shape": (6, 1)}),
    Step("less_equal", (Ref(1), Ref(2)), {}),  # %3, (6, 6): the lower triangle
)
CHOSEN = Step("where", (Ref(4), Ref(0), 0.0), {})
READERS: dict[str, tuple[Step, ...]] = {
    "as it is": (Step("where", (Ref(3), Ref(0), 0.0), {}),),
    "transposed": (Step("permute_dims", (Ref(3),), {"axes": (1, 0)}), CHOSEN),
    "backwards": (Step("flip", (Ref(3),), {"axis": (0,)}), CHOSEN),
    "one row of it": (Step("getitem", (Ref(3),), {"key": (3, slice(0, 6, 1))}), CHOSEN),
    "negated": (Step("bitwise_invert", (Ref(3),), {}), CHOSEN),
    "counted": (
        Step("astype", (Ref(3),), {"dtype": float32}),
        Step("sum", (Ref(4),), ROW),
        Step("add", (Ref(5), Ref(0)), {}),
    ),
    "in another order": (
        Step("reshape", (Ref(3),), {"shape": (36,)}),
        Step("reshape", (Ref(0),), {"shape": (36,)}),
        Step("where", (Ref(4), Ref(5), 0.0), {}),
        Step("reshape", (Ref(6),), {"shape": (6, 6)}),
    ),
    "by a call": (Step("sort", (Ref(3),), {"axis": 1, "descending": True, "stable": True}), CHOSEN),
}


@pytest.mark.parametrize("name", READERS)
def test_a_mask_that_counters_decide_is_computed_where_it_is_read(name: str) -> None:
    """No memory is written or read for it, unless a call takes it, or the counters have no strides in that order."""
    steps = (*COUNTERS, *READERS[name])
    last = len(steps)
    later = Step("matmul", (Ref(last), Ref(last)), {}), Step("where", (Ref(3), Ref(last + 1), -1.0), {})
    program = traced(*steps, *later, types=(TensorSpec((6, 6), float32),))
    found = planned(program)
    stored = [x.dtype.name for step in found.steps if isinstance(step, Run) for x in step.types]
    assert ("bool" in stored) == (name in ("in another order", "by a call")), found
    kernels = Device("cpu").kernels
    x = np.arange(36, dtype="float32").reshape(6, 6) - 9
    (expected,) = straight_line(program, lambda op: getattr(kernels, op))(x)
    np.testing.assert_array_equal(run(found, [x])[0], expected)


def test_a_mask_that_is_wanted_itself_is_stored() -> None:
    steps = (*COUNTERS, Step("where", (Ref(3), Ref(0), 0.0), {}))
    program = traced(*steps, types=(TensorSpec((6, 6), float32),), outputs=(3, 4))
    mask, chosen = run(planned(program), [np.ones((6, 6), "float32")])
    np.testing.assert_array_equal(mask, np.tri(6, dtype=bool))
    np.testing.assert_array_equal(chosen, np.tri(6, dtype="float32"))


COLUMN = (X, TensorSpec((8, 1), int64), TensorSpec((), float32))
ONCE: dict[str, tuple[tuple[Step, ...], int]] = {
    "a column": ((Step("astype", (Ref(1),), {"dtype": float32}), Step("add", (Ref(0), Ref(3)), {})), 1),
    "two steps of it": (
        (
            Step("astype", (Ref(1),), {"dtype": float32}),
            Step("negative", (Ref(3),), {}),
            Step("multiply", (Ref(0), Ref(4)), {}),
        ),
        1,
    ),
    "by a sum, too": (
        (
            Step("astype", (Ref(1),), {"dtype": float32}),
            Step("multiply", (Ref(0), Ref(3)), {}),
            Step("sum", (Ref(4),), ROW),
            Step("subtract", (Ref(4), Ref(5)), {}),
        ),
        1,
    ),
    "one number, divided": ((Step("divide", (Ref(2), 7.0), {}), Step("add", (Ref(0), Ref(3)), {})), 1),
    "a column, divided": (  # once a row, which is fewer divisions
        (
            Step("astype", (Ref(1),), {"dtype": float32}),
            Step("divide", (Ref(3), 7.0), {}),
            Step("add", (Ref(0), Ref(4)), {}),
        ),
        2,
    ),
    "of its own shape": (
        (
            Step("astype", (Ref(1),), {"dtype": float32}),
            Step("add", (Ref(0), Ref(3)), {}),
            Step("exp", (Ref(3),), {}),
            Step("multiply", (Ref(4), Ref(5)), {}),
        ),
        2,
    ),
}


@pytest.mark.parametrize("name", ONCE)
def test_what_is_the_same_along_a_row_is_computed_where_it_is_read(name: str) -> None:
    """Cheap steps from inputs are no loop of their own in front of the one that reads them."""
    steps, loops = ONCE[name]
    program = traced(*steps, types=COLUMN)
    found = planned(program)
    assert (len(nests(found)), len(found.steps)) == (loops, loops), found
    kernels = Device("cpu").kernels
    inputs = [np.arange(48, dtype="float32").reshape(8, 6), np.arange(8).reshape(8, 1), np.array(3, "float32")]
    (expected,) = straight_line(program, lambda op: getattr(kernels, op))(*inputs)
    np.testing.assert_array_equal(run(found, inputs)[0], expected)


@pytest.mark.parametrize("wanted", ["also a result", "by a call"])
def test_what_is_the_same_along_a_row_is_stored_for_others(wanted: str) -> None:
    steps = [Step("astype", (Ref(1),), {"dtype": float32}), Step("add", (Ref(0), Ref(3)), {})]
    if wanted == "by a call":
        steps.append(Step("sort", (Ref(3),), {"axis": 0, "descending": True, "stable": True}))
    program = traced(*steps, types=COLUMN, outputs=(4, 5) if wanted == "by a call" else (4, 3))
    inputs = [np.ones((8, 6), "float32"), np.arange(8).reshape(8, 1), np.array(3, "float32")]
    kernels = Device("cpu").kernels
    expected = straight_line(program, lambda op: getattr(kernels, op))(*inputs)
    for each, right in zip(run(planned(program), inputs), expected, strict=True):
        np.testing.assert_array_equal(each, right)


# ── what may not be one ──────────────────────────────────────────────────────────────────────────────────────


def test_what_a_call_needs_is_computed_before_it_and_what_needs_the_call_after() -> None:
    steps = (
        Step("exp", (Ref(0),), {}),
        Step("sort", (Ref(1),), {"axis": 1, "descending": False, "stable": True}),
        Step("add", (Ref(1), Ref(2)), {}),
    )
    found = planned(traced(*steps))
    assert [step.op if isinstance(step, Call) else "nest" for step in found.steps] == ["nest", "sort", "nest"]
    assert found.contiguous == {2}


def test_a_step_joins_no_nest_that_runs_before_what_it_reads() -> None:
    """It reads what the first nest makes, and a sort of it, which comes later."""
    steps = (
        Step("exp", (Ref(0),), {}),
        Step("sort", (Ref(1),), {"axis": 1, "descending": False, "stable": True}),
        Step("multiply", (Ref(1), Ref(2)), {}),
        Step("sum", (Ref(3),), ROW),
        Step("subtract", (Ref(1), Ref(4)), {}),
    )
    made: dict[int, int] = {}
    found = planned(traced(*steps, outputs=(1, 5)))
    for position, step in enumerate(found.steps):
        read = [x.number for x in step.operands] if isinstance(step, Call) else step.inputs
        assert all(n == 0 or made[n] < position for n in read), found
        for n in step.results if isinstance(step, Call) else step.outputs:
            made[n] = position


def test_other_axes_are_another_nest() -> None:
    steps = (Step("sum", (Ref(0),), ROW), Step("sum", (Ref(0),), {"axis": (0,), "keepdims": True}))
    found = planned(traced(*steps, outputs=(1, 2)))
    assert len(nests(found)) == 2
    x = np.arange(48, dtype="float32").reshape(8, 6)
    for sums, axis in zip(run(found, [x]), (1, 0), strict=True):
        np.testing.assert_array_equal(sums, x.sum(axis=axis, keepdims=True))


def test_transposed_values_of_a_nest_go_through_memory() -> None:
    square = TensorSpec((6, 6), float32)
    steps = (
        Step("exp", (Ref(0),), {}),
        Step("permute_dims", (Ref(1),), {"axes": (1, 0)}),
        Step("add", (Ref(1), Ref(2)), {}),
    )
    first, second = nests(planned(traced(*steps, types=(square,))))
    assert first.kept == (36,)
    assert second.kept == (6, 6)
    assert sorted(line.place.strides for line in second.parts[0].lines if isinstance(line, Load)) == [(1, 6), (6, 1)]


def test_views_of_inputs_are_places() -> None:
    key = (slice(None, None, -1), slice(1, None, 2))
    steps = (Step("getitem", (Ref(0),), {"key": key}), Step("exp", (Ref(1),), {}))
    (nest,) = nests(planned(traced(*steps)))
    (load,) = [line for line in nest.parts[0].lines if isinstance(line, Load)]
    assert load.place == Place(43, (-6, 2))


def test_inputs_are_read_where_they_lie() -> None:
    program = traced(Step("exp", (Ref(0),), {}))
    assert [nest.kept for nest in nests(planned(program, [Layout((8, 6), (1, 8))]))] == [(8, 6)]
    (nest,) = nests(planned(program, [Layout((8, 6), (12, 2))]))
    assert (nest.kept, nest.parts[0].lines[0]) == ((48,), Load(Ref(0), 0, Place(0, (2,))))
    (nest,) = nests(planned(program, [Layout((8, 6), (0, 1))]))
    assert Place(0, (0, 1)) in [line.place for line in nest.parts[0].lines if isinstance(line, Load)]


def test_a_view_that_no_strides_can_say_is_a_call() -> None:
    transposed = Step("permute_dims", (Ref(0),), {"axes": (1, 0)})
    steps = (transposed, Step("reshape", (Ref(1),), {"shape": (48,)}), Step("exp", (Ref(2),), {}))
    found = planned(traced(*steps))
    assert [step.op if isinstance(step, Call) else "nest" for step in found.steps] == [
        "permute_dims",
        "reshape",
        "nest",
    ]


@pytest.mark.parametrize("comparison", ["equal", "not_equal", "less", "greater_equal"])
def test_what_is_compared_with_an_extreme_of_its_row_is_the_same_number(comparison: str) -> None:
    """Some compilers compute a function otherwise in another loop: it is stored and read again, not computed twice."""

    def f(k: Any, x: Any) -> Any:
        y = k.sin(x)
        top = k.max(y, axis=(1,), keepdims=True)
        return k.astype(getattr(k, comparison)(y, top), dtype=float32), top

    program = written(f, [((8, 6), float32)], {})
    assert program is not None
    found = plan(program, [Layout.contiguous((8, 6))], covers, Limits(row_bytes=0))
    lines = [line for nest in nests(found) for part in nest.parts for line in part.lines]
    assert [x.op for x in lines if isinstance(x, Compute)].count("sin") == 1


@pytest.mark.parametrize("length", [0, 6])
def test_who_has_no_scratch_memory_is_asked_for_none(length: int) -> None:
    """Not for rows of nothing, either."""

    def f(k: Any, x: Any) -> Any:
        y = k.sin(x)
        return k.multiply(y, k.sum(k.multiply(y, y), axis=(1,), keepdims=True))

    program = written(f, [((8, length), float32)], {})
    assert program is not None
    layout = [Layout.contiguous((8, length))]
    for room in (0, 1 << 15):
        found = plan(optimized(program, covers), layout, covers, Limits(row_bytes=room))
        scratch = [x for nest in nests(found) for x in nest.buffers if x.role == "scratch"]
        assert bool(scratch) == (room > 0 and length > 0)


def test_long_chains_do_not_blow_up() -> None:
    """Each value is used twice: who followed every path would follow 2**300."""
    steps = [Step("max", (Ref(0),), ROW), Step("subtract", (Ref(0), Ref(1)), {})]
    for n in range(2, 300):
        steps.append(Step("minimum", (Ref(n), Ref(n)), {}) if n % 2 else Step("add", (Ref(n), Ref(n)), {}))
    steps += [Step("sum", (Ref(300),), ROW), Step("divide", (Ref(300), Ref(301)), {})]
    assert sum(len(part.lines) for nest in nests(planned(traced(*steps))) for part in nest.parts) < 1500


# ── playing nests ────────────────────────────────────────────────────────────────────────────────────────────


def played(nest: Nest, memory: list[Any]) -> None:
    """A nest, number by number, on flat arrays."""
    kernels = Device("cpu").kernels
    start = {"sum": 0, "prod": 1, "max": None, "min": None}
    combine = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}

    def at(place: Place, counters: tuple[int, ...]) -> int:
        return place.offset + sum(s * c for s, c in zip(place.strides, counters, strict=True))

    for row in product(*map(range, nest.kept)):
        known: dict[int, Any] = {}
        for part in nest.parts:
            totals: dict[int, Any] = {}
            turns: Iterator[tuple[int, ...]] = product(*map(range, nest.reduced))
            for line in part.lines:
                if isinstance(line, Reduce):
                    totals[line.result.number] = start[line.op]
            for inner in turns if part.inner else [(0,) * len(nest.reduced)]:
                for line in part.lines:

                    def value(x: Ref | Number, known: dict[int, Any] = known) -> Any:
                        return known[x.number] if isinstance(x, Ref) else x.value

                    if isinstance(line, Load):
                        place = at(line.place, (*row, *inner))
                        assert line.buffer is None or place >= 0
                        dtype = nest.types[line.result.number].name
                        found = np.array(place, dtype) if line.buffer is None else memory[line.buffer][place]
                        known[line.result.number] = np.asarray(found)
                    elif isinstance(line, Compute):
                        params = {"dtype": nest.types[line.result.number]} if line.op == "astype" else {}
                        found = getattr(kernels, line.op)(*map(value, line.operands), **params)
                        known[line.result.number] = np.asarray(found)
                    elif isinstance(line, Store):
                        memory[line.buffer][at(line.place, (*row, *inner))] = value(line.operand)
                    else:
                        n = line.result.number
                        before, now = totals[n], value(line.operand)
                        totals[n] = now if before is None else getattr(kernels, combine[line.op])(before, now)
            known.update({n: np.asarray(x).astype(nest.types[n].name) for n, x in totals.items()})


def run(found: Plan, handles: list[Any]) -> tuple[Any, ...]:
    kernels = Device("cpu").kernels
    values = dict(enumerate(handles))
    for step in found.steps:
        if isinstance(step, Call):
            operands = [values[x.number] if isinstance(x, Ref) else x for x in step.operands]
            result = getattr(kernels, step.op)(*operands, **step.params)
            (n,) = step.results
            values[n] = np.ascontiguousarray(result).reshape(result.shape) if n in found.contiguous else result
            continue
        outputs = [np.full(x.shape, 77).astype(x.dtype.name) for x in step.types]
        memory = [np.asarray(values[n]).reshape(-1) for n in step.inputs] + [x.reshape(-1) for x in outputs]
        memory += [np.zeros(x.size, x.dtype.name) for x in step.nest.buffers if x.role == "scratch"]
        played(step.nest, memory)
        values.update(zip(step.outputs, outputs, strict=True))
    return tuple([values[x.number] if isinstance(x, Ref) else x for x in found.outputs])


DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool")


@pytest.mark.parametrize("seed", range(120))
def test_played_nests_have_the_numbers_of_the_program(seed: int) -> None:
    """By generation; in contiguous memory, layouts are the backends' own tests."""
    rng = random.Random(seed)
    kind = rng.choice(("exact", "exact", "smooth"))
    program = (
        generated.exact(rng, rng.randrange(1, 12), DTYPES) if kind == "exact" else generated.smooth(rng, 5, "float64")
    )
    if sum(np.prod(x.shape) for x in program.types) > 3000:
        pytest.skip("too many numbers to play with")
    kernels = Device("cpu").kernels
    handles = [
        kernels.copy(x) for x in generated.handles(rng, program, Device("cpu"), "integers" if kind == "exact" else kind)
    ]
    with np.errstate(all="ignore"):
        expected = straight_line(program, lambda op: getattr(kernels, op))(*handles)
        found = planned(program)
        for x, y in zip(run(found, handles), expected, strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(
                np.asarray(x), np.asarray(y), rtol=1e-9, atol=1e-9, err_msg=f"{program}\n{found}"
            )
