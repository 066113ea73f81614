"""Passes: the same numbers, in fewer steps or in steps that nests can hold."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Device
from micrograd_core.compiler import passes
from micrograd_core.compiler.executor import straight_line
from micrograd_core.compiler.passes import apart, by_rows, constants, side_by_side, simplify
from micrograd_core.compiler.program import Program, Ref, Step, typed, width
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.compiler.views import role
from micrograd_core.conformance.cases import draw
from micrograd_core.dtypes import DType, bool_, float32, float64, int32
from micrograd_core.ops import CORE_KERNELS, TABLE
from micrograd_core.ops.record import APART, CALL
from micrograd_cpu.scalars import covers

sys.path.insert(0, str(Path(__file__).parent))
import generated

X = TensorSpec((3, 4), float32)
expand, optimized = partial(passes.expand, covers=covers), partial(passes.optimized, covers=covers)


def steps(program: Program) -> list[str]:
    return [str(step) for step in program.steps]


def traced(*made: Step, types: tuple[TensorSpec, ...] = (X,)) -> Program:
    """A program that returns its last value."""
    return typed(Program(len(types), made, (Ref(len(types) + len(made) - 1),)), types)


def run(program: Program, *handles: Any) -> tuple[Any, ...]:
    kernels = Device("cpu").kernels
    with np.errstate(all="ignore"):
        return straight_line(program, lambda op: getattr(kernels, op))(*handles)


# ── one by one ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_operation_becomes_the_primitives_that_it_is_composed_of() -> None:
    program = expand(traced(Step("softsign", (Ref(0),), {})))
    assert steps(program) == ["abs(%0)", "add(%1, 1)", "divide(%0, %2)"]


@pytest.mark.parametrize(
    ("step", "type"),
    [
        (Step("sort", (Ref(0),), {"axis": 1, "descending": False, "stable": True}), X),
        (Step("matmul", (Ref(0), Ref(0)), {}), TensorSpec((3, 3), float32)),
        (Step("remainder", (Ref(0), Ref(0)), {}), X),
        (Step("cumulative_sum", (Ref(0),), {"axis": 1, "include_initial": False}), X),
        (Step("exp", (Ref(0),), {}), TensorSpec((3,), DType("complex64", "complex floating", 64, "f"))),
    ],
)
def test_what_nests_do_not_hold_stays_a_call(step: Step, type: TensorSpec) -> None:
    program = Program(1, (step,), (Ref(1),), (type, type))
    assert expand(program).steps == program.steps


def test_a_primitive_that_a_device_does_not_cover_keeps_what_is_composed_of_it_whole() -> None:
    program = traced(Step("gelu", (Ref(0),), {"approximate": "none"}))
    assert expand(program, covers=lambda name, operands: name not in ("erfc", "times_normal")).steps == program.steps


def test_two_byte_floats_are_rounded_once() -> None:
    program = expand(traced(Step("sigmoid", (Ref(0),), {}), types=(TensorSpec((3,), DTYPE["float16"]),)))
    assert [x.dtype.name for x in program.types].count("float16") == 2  # the input, and the output
    assert "sigmoid" not in {step.op for step in program.steps}


DTYPE = {name: generated.DTYPES[name] for name in ("float16",)}


def test_a_layer_is_apart_from_its_bias() -> None:
    program = traced(
        Step("linear", (Ref(0), Ref(1), Ref(2)), {}), types=(X, TensorSpec((5, 4), float32), TensorSpec((5,), float32))
    )
    assert [step.op for step in expand(program).steps] == ["permute_dims", "matmul", "add"]


@pytest.mark.parametrize(
    ("step", "dtype", "same"),
    [
        (Step("multiply", (Ref(0), 1.0), {}), float32, True),
        (Step("multiply", (1, Ref(0)), {}), int32, True),
        (Step("add", (Ref(0), 0.0), {}), float32, False),  # of -0.0 it is 0.0
        (Step("add", (Ref(0), -0.0), {}), float32, True),
        (Step("add", (Ref(0), 0), {}), float32, False),
        (Step("add", (0, Ref(0)), {}), int32, True),
        (Step("subtract", (Ref(0), 0.0), {}), float32, True),
        (Step("subtract", (Ref(0), -0.0), {}), float32, False),
        (Step("subtract", (0.0, Ref(0)), {}), float32, False),
        (Step("divide", (Ref(0), 1), {}), float32, True),
        (Step("divide", (1, Ref(0)), {}), float32, False),
        (Step("multiply", (Ref(0), 0.0), {}), float32, False),  # of infinity it is NaN
        (Step("pow", (Ref(0), 1.0), {}), float32, True),
        (Step("astype", (Ref(0),), {"dtype": float32}), float32, True),
        (Step("astype", (Ref(0),), {"dtype": float64}), float32, False),
        (Step("copy", (Ref(0),), {}), float32, True),
    ],
)
def test_a_step_that_changes_nothing_goes(step: Step, dtype: DType, same: bool) -> None:
    program = simplify(traced(step, types=(TensorSpec((11,), dtype),)))
    assert (program.outputs == (Ref(0),)) is same
    numbers = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3.4e38, 0.5, -2.0]
    x = np.array(numbers).astype(dtype.name) if dtype is float32 else np.arange(11, dtype=dtype.name)
    (found,), (expected,) = run(program, x), run(traced(step, types=(TensorSpec((11,), dtype),)), x)
    np.testing.assert_array_equal(found, expected)
    if dtype.is_floating:
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("key", [
    (slice(0, 3, 1), 2), (1, 2), (0, slice(0, 4, 1)), (slice(0, 3, 1), slice(0, 4, 1)), (slice(1, 2, 1), 1),
    (None, slice(0, 3, 1), 2),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [float32, int32, bool_])
@pytest.mark.parametrize("repeated", [False, True])
def test_a_write_at_one_place_is_a_choice(repeated: bool, key: Any, dtype: DType) -> None:
    x = np.arange(12).reshape(3, 4).astype(dtype.name)
    values = np.asarray(x[key] + np.ones((), dtype.name), order="C")
    values = values.reshape(-1)[:1].reshape(()) if repeated else values
    types = TensorSpec((3, 4), dtype), TensorSpec(values.shape, dtype)
    program = traced(Step("scatter", (Ref(0), Ref(1)), {"key": key}), types=types)
    found = expand(program)
    whole = all(isinstance(each, slice) for each in key)
    assert (steps(found) == steps(program)) == (whole or len(key) > 2 or any(each == slice(1, 2, 1) for each in key))
    (expected,), (numbers,) = run(program, x, values), run(found, x, values)
    assert np.array_equal(numbers, expected)


def test_what_is_undone_goes() -> None:
    twice = traced(Step("negative", (Ref(0),), {}), Step("negative", (Ref(1),), {}))
    assert simplify(twice).steps == ()
    assert steps(simplify(traced(Step("pow", (Ref(0), 3.0), {})))) == ["multiply(%0, %0)", "multiply(%1, %0)"]
    assert steps(simplify(traced(Step("pow", (Ref(0), 2.5), {})))) == ["pow(%0, 2.5)"]


def test_equal_steps_are_one_and_unwanted_ones_go() -> None:
    program = traced(
        Step("exp", (Ref(0),), {}), Step("sin", (Ref(0),), {}), Step("exp", (Ref(0),), {}),
        Step("multiply", (Ref(1), Ref(3)), {}),
    )  # fmt: skip
    assert steps(simplify(program)) == ["exp(%0)", "multiply(%1, %1)"]


def test_a_tensor_of_one_value_is_a_number() -> None:
    full = Step("full", (), {"shape": (), "fill_value": 2, "dtype": float32})
    assert steps(constants(traced(full, Step("multiply", (Ref(0), Ref(1)), {})))) == ["multiply(%0, 2.0)"]
    wider = Step("full", (), {"shape": (5, 3, 4), "fill_value": 2, "dtype": float32})
    assert len(constants(traced(wider, Step("multiply", (Ref(0), Ref(1)), {}))).steps) == 2  # which tells the shape
    both = traced(full, Step("multiply", (Ref(1), Ref(1)), {}))
    assert len(constants(both).steps) == 2  # and the dtype
    no = Step("full", (), {"shape": (), "fill_value": 0, "dtype": bool_})
    program = traced(no, Step("bitwise_or", (Ref(0), Ref(1)), {}), types=(TensorSpec((3,), bool_),))
    assert steps(constants(program)) == ["bitwise_or(%0, False)"]


@pytest.mark.parametrize(("shape", "axis", "rows"), [
    ((4, 5, 3), None, (4,)), ((2, 10, 3), (2, 1, 0), (2, 10)), ((5, 3, 4), (0, 1), ()), ((60,), None, ()),
    ((30, 2), None, ()), ((3, 2, 2), None, ()),
])  # fmt: skip
@pytest.mark.parametrize(("op", "keepdims"), [("sum", False), ("max", True)])
def test_a_reduction_of_everything_goes_by_rows(
    shape: tuple[int, ...], axis: Any, rows: Any, op: str, keepdims: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "LARGE", 60)
    monkeypatch.setattr(passes, "ROWS", 3)
    program = traced(Step(op, (Ref(0),), {"axis": axis, "keepdims": keepdims}), types=(TensorSpec(shape, float32),))
    found = by_rows(program)
    assert len(found.steps) == (2 if rows else 1)
    if rows:
        assert found.types[1].shape == (*rows, *(1,) * (len(shape) - len(rows)))
    x = np.arange(math.prod(shape), dtype="float32").reshape(shape)
    (expected,), (numbers,) = run(program, x), run(found, x)
    assert np.shape(numbers) == np.shape(expected)
    assert np.array_equal(numbers, expected)


@pytest.mark.parametrize(("size", "kernel", "dilation", "view"), [
    ((6,), (3,), (1,), True), ((4, 6), (2, 3), (1, 1), True), ((2, 4, 2), (2, 2, 1), (1, 1, 1), True),
    ((5,), (2,), (1,), False), ((4, 4), (2, 2), (1, 2), False),
])  # fmt: skip
def test_windows_that_lie_side_by_side_are_a_view(size: Any, kernel: Any, dilation: Any, view: bool) -> None:
    params = {"kernel_size": kernel, "stride": kernel, "padding": (0,) * len(size), "dilation": dilation}
    program = traced(Step("patches", (Ref(0),), {"fill": 0.0, **params}), types=(TensorSpec((2, 3, *size), float32),))
    seen = program.types[-1].shape
    back = traced(Step("patches_gradient", (Ref(0),), {"size": size, **params}), types=(TensorSpec(seen, float32),))
    for each, names in ((program, ["reshape", "permute_dims"]), (back, ["permute_dims", "copy", "reshape"])):
        found = side_by_side(each)
        assert [step.op for step in found.steps] == (names if view else [each.steps[0].op])
        x = np.arange(math.prod(each.types[0].shape), dtype="float32").reshape(each.types[0].shape)
        (numbers,), (expected,) = run(found, x), run(each, x)
        np.testing.assert_array_equal(numbers, expected)


@pytest.mark.parametrize("more", [{"stride": (1,)}, {"padding": (1,)}])
def test_windows_that_overlap_or_are_padded_are_none(more: Any) -> None:
    params = {"kernel_size": (2,), "stride": (2,), "padding": (0,), "dilation": (1,), "fill": 0.0, **more}
    program = traced(Step("patches", (Ref(0),), params), types=(TensorSpec((1, 1, 4), float32),))
    assert side_by_side(program).steps == program.steps


def test_outputs_are_memory_of_their_own_where_they_were() -> None:
    program = typed(
        Program(
            1, (Step("multiply", (Ref(0), 1.0), {}), Step("multiply", (Ref(0), 1.0), {})), (Ref(1), Ref(2), Ref(0))
        ),
        [X],
    )
    x = np.ones((3, 4), "float32")
    outputs = run(optimized(program), x)
    assert outputs[2] is x
    assert not any(np.shares_memory(a, b) for a, b in ((outputs[0], x), (outputs[1], x), (outputs[0], outputs[1])))
    view = traced(Step("permute_dims", (Ref(0),), {"axes": (1, 0)}))
    assert apart(view, view) == view


# ── by generation ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("each", [expand, constants, simplify, optimized])
def test_numbers_are_the_same(each: Callable[[Program], Program]) -> None:
    fewer = 0
    for seed in range(150):
        rng = random.Random(seed)
        program = generated.exact(rng, rng.randrange(1, 14))
        after = each(program)
        handles = generated.handles(rng, program, Device("cpu"), "integers")
        assert after.inputs == program.inputs
        for x, y in zip(run(after, *handles), run(program, *handles), strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y), err_msg=f"{program}\n{after}")
        fewer += len(program.steps) - len(after.steps)
        assert each is constants or len(after.steps) <= len(program.steps) or each in (expand, optimized)
    assert fewer > 0


def test_what_is_expanded_is_fusible() -> None:
    for seed in range(50):
        program = expand(generated.smooth(random.Random(seed), 6, "float32"))
        kinds = {
            role(s.op, [program.types[x.number] for x in s.operands if isinstance(x, Ref)], covers)
            for s in program.steps
        }
        assert CALL not in kinds


def test_programs_are_printed_after_each_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    optimized(traced(Step("silu", (Ref(0),), {})))
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("MICROGRAD_JIT_DUMP", "1")
    optimized(traced(Step("silu", (Ref(0),), {})))
    shown = capsys.readouterr().err
    assert [line.partition(":")[0] for line in shown.splitlines() if line.startswith("#")] == [
        "# as traced", "# expand", "# constants", "# simplify", "# by_rows", "# apart",
    ]  # fmt: skip
    assert "= silu(%0)" in shown
    assert "# simplify: Steps that return an operand as it is" in shown
    assert shown.count("= exp(") + shown.count("(nothing changes)") == 5  # each program once
    assert "(nothing changes)" in shown


# ── a device that computes little ────────────────────────────────────────────────────────────────────────────

CALLED = {"erf", "erfc", "erfinv", "gelu", "gelu_gradient", "times_normal", "prod"}
"""Operations whose compositions, or those of what they call, read arrays of coefficients or join arrays."""


def of_the_core(name: str, operands: tuple[Any, ...]) -> bool:
    """What every device provides, and nothing else."""
    return name in CORE_KERNELS


def called(program: Program, has: Callable[[str, tuple[Any, ...]], bool]) -> set[str]:
    """The kernels that a program calls; a copy keeps outputs apart."""
    arrays = [(s, [program.types[x.number] for x in s.operands if isinstance(x, Ref)]) for s in program.steps]
    return {step.op for step, given in arrays if role(step.op, given, has) == CALL} - {"copy"}


@pytest.mark.parametrize("name", sorted({op.name for op in TABLE.values() if op.lowering not in (CALL, APART)}))
def test_what_a_device_lacks_is_composed_for_it(name: str) -> None:
    """Whatever all primitives compute, those of the core compute within a few roundings."""
    op, missed = TABLE[name], set[str]()
    for sample in op.samples:
        given = [mg.zeros(x.shape, dtype=x.dtype or "float64") if isinstance(x, tuple) else x for x in sample.operands]
        params = op.parameters(*given, **sample.params) if op.parameters else {}
        given += op.optional[len(given) - op.operands :] if 0 <= len(given) < op.operands else ()
        types = tuple(TensorSpec(x.shape, x.dtype) for x in given if isinstance(x, mg.Tensor))
        refs = iter(map(Ref, range(len(types))))
        step = Step(name, tuple(next(refs) if isinstance(x, mg.Tensor) else x for x in given), params)
        program = typed(
            Program(len(types), (step,), tuple(map(Ref, range(len(types), len(types) + width(name))))), types
        )
        if called(expand(program), covers):
            continue
        found = optimized(program, covers=of_the_core)
        lacking = called(found, of_the_core)
        assert lacking <= {name} & CALLED
        missed |= lacking
        if lacking:
            continue
        drawn = [x for x in draw(sample) if isinstance(x, list)]
        handles = [np.array(x, y.dtype.name).reshape(y.shape) for x, y in zip(drawn, types, strict=True)]
        for x, y in zip(run(found, *handles), run(program, *handles), strict=True):
            scale = np.max(np.abs(y), initial=0) if op.kind != "elementwise" else np.abs(y)
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            if x.dtype.kind != "f":
                np.testing.assert_array_equal(x, y)
            else:
                assert (np.abs(x - y) <= 8 * np.spacing(scale)).all(), (np.abs(x - y) / np.spacing(scale)).max()
    assert missed == {name} & CALLED
