"""Programs: how they read, what is refused, the types of their values, and that all who run one say the same."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, Value, asarray, float32, float64, int32, jit
from micrograd_core.compiler import python
from micrograd_core.compiler.builder import INPUT, Builder
from micrograd_core.compiler.executor import straight_line
from micrograd_core.compiler.program import Program, Ref, Step, typed
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.conformance import levels
from micrograd_core.conformance.cases import Case, cases
from micrograd_core.errors import MicrogradError, ProgramError, ShapeError
from micrograd_core.interpreters.floats import EXACT, Floats

X = TensorSpec((3, 4), float32)
SUM = Step("sum", (Ref(1),), {"axis": (0,), "keepdims": False})
DOUBLED = Program(1, (Step("multiply", (Ref(0), 2.0), {}), SUM), (Ref(2), Ref(1)))


# ── reading one ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_program_reads_a_line_for_each_step() -> None:
    assert str(DOUBLED) == (
        "program(%0)\n"
        "    %1 = multiply(%0, 2.0)\n"
        "    %2 = sum(%1, axis=(0,), keepdims=False)\n"
        "    return %2, %1"
    )  # fmt: skip
    cast = Step("astype", (Ref(1),), {"dtype": int32})
    program = Program(2, (Step("add", (Ref(0), Ref(1)), {}), cast), (Ref(3),))
    assert str(typed(program, [X, TensorSpec((), float32)])) == (
        "program(%0: float32[3, 4], %1: float32[])\n"
        "    %2: float32[3, 4] = add(%0, %1)\n"
        "    %3: int32[] = astype(%1, dtype=int32)\n"
        "    return %3"
    )  # fmt: skip


def test_the_parts_of_a_step_are_values_of_their_own() -> None:
    program = Program(1, (Step("qr", (Ref(0),), {"mode": "reduced"}), Step("matmul", (Ref(1), Ref(2)), {})), (Ref(3),))
    assert "%1, %2 = qr(%0, mode='reduced')\n    %3 = matmul(%1, %2)" in str(program)
    array = np.array([[2.0, 1.0], [1.0, 3.0]])
    (product,) = Device("cpu").kernels.compile(program)(array)
    np.testing.assert_allclose(product, array)


def test_a_traced_function_of_values_shows_its_program() -> None:
    f: Any = jit(lambda x, y: (x * y).relu())
    assert f.program is None
    f(Value(2.0), Value(3.0))
    assert str(f.program) == (
        "program(%0: float64[], %1: float64[])\n"
        "    %2: float64[] = multiply(%0, %1)\n"
        "    %3: float64[] = relu(%2)\n"
        "    %4: float64[] = relu_gradient(1.0, %3)\n"
        "    %5: float64[] = multiply(%4, %1)\n"
        "    %6: float64[] = multiply(%4, %0)\n"
        "    return %3, %5, %6"
    )


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda: Program(1, (Step("exp", (Ref(1),), {}),), ()), ProgramError,
            r"step 0, exp\(%1\), takes %1, but only values up to %0 are there by then: a step takes what comes before",
        ),
        (
            lambda: Program(1, (Step("exp", (Ref(0),), {}), Step("add", (Ref(0), Ref(3)), {}), SUM), ()), ProgramError,
            r"step 1, add\(%0, %3\), takes %3, but only values up to %1 are there",
        ),
        (lambda: Program(0, (Step("exp", (Ref(0),), {}),), ()), ProgramError, "takes %0, but no value is there"),
        (lambda: Program(2, (), (Ref(-1),)), ProgramError, "the program returns %-1, but only values up to %1 are"),
        (lambda: Program(2, (), (Ref(0), Ref(2))), ProgramError, "the program returns %2, but only"),
        (lambda: Program(1, (Step("add", (Ref(0),), {}),), ()), ProgramError, r"add\(%0\) has 1 operands; add takes 2"),
        (lambda: Program(1, (Step("ad", (Ref(0), 1), {}),), ()), KeyError, "no operation is called 'ad'; did you mean"),
        (lambda: Program(1, (Step("teleport", (Ref(0),), {}),), ()), KeyError, "no operation is called 'teleport'"),
        (lambda: Program(2, (), (Ref(0),), (X,)), ProgramError, "the program has 2 values, and types of 1: every"),
        (lambda: typed(DOUBLED, [X, X]), ProgramError, "the program takes 1 values; got the types of 2"),
        (
            lambda: typed(Program(2, (Step("add", (Ref(0), Ref(1)), {}),), ()), [X, X._replace(shape=(3,))]),
            ShapeError,
            r"\(3, 4\) and \(3,\)",
        ),
        (
            lambda: typed(Program(1, (Step("argwhere", (Ref(0),), {}),), (Ref(1),)), [X]), ProgramError,
            r"the shape of %1 = argwhere\(%0\) does not follow from those of its operands; give types to Program",
        ),
        (lambda: Device("cpu").kernels.compile(DOUBLED)(1, 2), TypeError, "the program takes 1 handles; got 2"),
        (lambda: straight_line(DOUBLED, lambda op: None), KeyError, "the program needs a kernel for 'multiply'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(make: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()
    assert issubclass(ProgramError, MicrogradError)
    assert issubclass(ProgramError, ValueError)


def test_programs_compare_and_pickle() -> None:
    program = typed(DOUBLED, [X])._replace(donated=frozenset({0}))
    again = pickle.loads(pickle.dumps(program))
    assert again == program
    assert type(again) is Program
    assert program != DOUBLED
    assert again.donated == Program(*program).donated == {0}


# ── types, and running ───────────────────────────────────────────────────────────────────────────────────────

UNSHAPED = {"argwhere"}


def prepared(case: Case) -> tuple[list[Any], dict[str, Any]]:
    """The operands and parameters that the kernel of a case gets."""
    operands: list[Any] = case.tensors(Device("cpu"))
    params = {} if case.op.parameters is None else case.op.parameters(*operands, **case.sample.params)
    if case.op.cast is not None:
        cast = case.op.cast
        operands = [
            x.astype(cast(x.dtype)) if isinstance(x, Tensor) and i not in case.op.separate else x
            for i, x in enumerate(operands)
        ]
    operands += case.op.optional[len(operands) - case.op.operands :] if len(operands) < case.op.operands else ()
    return operands, params


def test_types_are_those_that_kernels_return() -> None:
    """By generation: each sample of each operation is a program of one step."""
    kernels, seen = Device("cpu").kernels, set()
    for case in cases(("float32", "int64", "bool"), ()):
        if case.layout != "contiguous" or case.op.observe is not None or case.op.name in UNSHAPED:
            continue
        operands, params = prepared(case)
        arrays = [x for x in operands if isinstance(x, Tensor)]
        given = iter(range(len(arrays)))
        refs = tuple(Ref(next(given)) if isinstance(x, Tensor) else x for x in operands)
        program = Program(len(arrays), (Step(case.op.name, refs, params),), (Ref(len(arrays)),))
        program = typed(program, [TensorSpec(x.shape, x.dtype) for x in arrays])
        run = straight_line(program, lambda op: getattr(kernels, op))
        with np.errstate(all="ignore"):
            (found,) = run(*(x._handle for x in arrays))
            expected = case.call(case.tensors(Device("cpu")))
        assert kernels.spec(found) == program.types[-1], case.id
        np.testing.assert_array_equal(found, expected._handle, err_msg=case.id)
        seen.add(case.op.name)
    assert len(seen) > 150


def test_dtypes_are_the_cores_until_a_kernel_gets_them() -> None:
    device = Device("cpu")
    steps = (
        Step("astype", (Ref(0),), {"dtype": int32}),
        Step("full", (), {"shape": (2,), "fill_value": 3, "dtype": int32}),
        Step("add", (Ref(1), Ref(2)), {}),
    )
    program = typed(Program(1, steps, (Ref(3),)), [TensorSpec((2,), float32)])
    for native in (
        program,
        program._replace(steps=(steps[0]._replace(params={"dtype": np.dtype("int32")}), *steps[1:])),
    ):
        (out,) = device.kernels.compile(native)(asarray([1.9, -1.9], dtype="float32")._handle)
        assert (out.dtype, out.tolist()) == (np.dtype("int32"), [4, 2])
    assert program.types[-1] == TensorSpec((2,), int32)


@pytest.mark.parametrize("device", ["cpu", "rawbuffer"])
def test_devices_compile_as_the_conformance_suite_says(device: str) -> None:
    levels.jit(Device(device))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda a, b, *rest: (a, b * 1.01, *rest), r"gives other numbers for %3 .*program\(%0: float32\[3, 4\]"),
        (lambda a, b, c, d: (a, b, c.astype("float64"), d), "returns float64 .* for %7, which is float32"),
        (lambda *outputs: outputs[:3], "shorter"),
    ],
)  # fmt: skip
def test_a_device_that_compiles_wrongly_is_found_out(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., Any], words: str
) -> None:
    kernels = Device("cpu").kernels
    right = kernels.compile
    monkeypatch.setattr(kernels, "compile", lambda program: lambda *handles: wrong(*right(program)(*handles)))
    with pytest.raises((AssertionError, ValueError), match=f"(?s){words}"):
        levels.jit(Device("cpu"))


# ── printing ─────────────────────────────────────────────────────────────────────────────────────────────────

UNARY = ("negative", "square", "relu", "abs", "exp", "log", "sqrt", "sin", "tanh", "sigmoid", "sign", "log1p", "cos")
BINARY = ("add", "subtract", "multiply", "divide", "pow", "relu_gradient")
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.25, 1e300, math.inf, -math.inf, math.nan)


def drawn(rng: random.Random, length: int) -> Program:
    """A program of scalars."""
    steps: list[Step] = []
    for number in range(2, 2 + length):
        op = rng.choice((*UNARY, *BINARY, *BINARY))
        count = 1 if op in UNARY else 2
        operands: list[Any] = [rng.choice(NUMBERS) if rng.random() < 0.2 else Ref(rng.randrange(number)) for _ in "ab"]
        operands[0] = Ref(rng.randrange(number))
        steps.append(Step(op, tuple(operands[:count]), {}))
    return typed(Program(2, steps, [Ref(n) for n in range(2 + length)]), [TensorSpec((), float64)] * 2)


def printed(program: Program) -> Callable[[Sequence[float]], tuple[float, ...]]:
    scope = {**python.CONSTANTS, **EXACT, **python.FUNCTIONS}
    reads = [(n, None) for n in range(program.inputs)]
    exec(python.source(program, reads, [len(program.outputs)]), scope)
    return lambda numbers: scope["run"](*numbers)[0]  # type: ignore[no-any-return]


def test_printed_programs_and_kernels_in_a_row_have_the_same_numbers() -> None:
    """By generation, the last bit included; where Python raises, what is printed does, and kernels go on."""
    rng, raised = random.Random(0), 0
    for _ in range(400):
        program = drawn(rng, rng.randrange(1, 12))
        numbers = [rng.choice(NUMBERS) if rng.random() < 0.3 else rng.uniform(-4, 4) for _ in range(2)]
        expected = straight_line(program, lambda op: getattr(Floats, op))(*numbers)
        try:
            found = printed(program)(numbers)
        except (ArithmeticError, ValueError):
            raised += 1
            continue
        assert [*map(repr, map(float, found))] == [*map(repr, map(float, expected))], f"{program}\nof {numbers}"
    assert 0 < raised < 200, raised


def test_what_jit_runs_is_what_its_program_says() -> None:
    def f(x: Value, y: Value) -> Value:
        return ((x * y + x**3).tanh() - y.exp() / 2.0).relu() + x * 0.25

    compiled: Any = jit(f)
    for numbers in ((2.0, -3.0), (0.5, 0.1), (-1.0, 0.7)):
        leaves = [*map(Value, numbers)]
        out = compiled(*leaves)
        out.backward()
        said = straight_line(compiled.program, lambda op: getattr(Floats, op))(*numbers)
        assert said == pytest.approx((out.data, *(x.grad for x in leaves)), rel=1e-15)


# ── writing one down ─────────────────────────────────────────────────────────────────────────────────────────


def read(builder: Builder) -> Callable[[Ref], bool]:
    return lambda x: builder.steps[x.number].op == INPUT


def test_equal_steps_are_one_value_and_equal_numbers_need_not_be_equal() -> None:
    k = Builder()
    x = k.emit(Step(INPUT, ("x",), {}), X)
    assert k.emit(Step("multiply", (x, 2.0), {}), X) == k.emit(Step("multiply", (x, 2.0), {}), X)
    for one, other in ((0.0, -0.0), (1, True), (1, 1.0), ((1,), (1.0,)), ([1], (1,)), (slice(0, 1), slice(0, 2))):
        steps = [Step("full", (), {"shape": (), "fill_value": each}) for each in (one, other, one)]
        first, second, third = (k.emit(each, X) for each in steps)
        assert first == third != second
    handle = np.ones(3)
    assert k.emit(Step("take", (x, handle), {}), X) != k.emit(Step("take", (x, np.ones(3)), {}), X)
    assert k.emit(Step("take", (x, handle), {}), X) == k.emit(Step("take", (x, handle), {}), X)


def test_a_program_has_what_leads_from_what_is_given_to_what_is_wanted() -> None:
    k = Builder()
    first = k.emit(Step(INPUT, ("first",), {}), X)
    double = k.emit(Step("multiply", (first, 2.0), {}), X)
    k.emit(Step("exp", (double,), {}), X)  # which nobody wants
    late = k.emit(Step(INPUT, ("late",), {}), X)
    total = k.emit(Step("add", (double, late), {}), X)
    program, inputs = k.program([total, double, 0.5], read(k))
    assert str(program) == (
        "program(%0: float32[3, 4], %1: float32[3, 4])\n"
        "    %2: float32[3, 4] = multiply(%0, 2.0)\n"
        "    %3: float32[3, 4] = add(%2, %1)\n"
        "    return %3, %2, 0.5"
    )
    assert inputs == [first, late]
    rest, inputs = k.program([total], lambda x: x in (double, late))
    assert (len(rest.steps), inputs) == (1, [double, late])
    assert straight_line(program, lambda op: getattr(Floats, op))(1.0, 10.0) == (12.0, 2.0, 0.5)


def test_parts_that_nobody_wants_are_there_too() -> None:
    k = Builder()
    x = k.emit(Step(INPUT, ("x",), {}), TensorSpec((2, 2), float32))
    sign, log = k.emit_parts(Step("slogdet", (x,), {}), [TensorSpec((), float32)] * 2)
    assert (sign, log) == k.emit_parts(Step("slogdet", (x,), {}), [TensorSpec((), float32)] * 2)
    twice = k.emit(Step("multiply", (log, 2.0), {}), TensorSpec((), float32))
    program, _ = k.program([twice], read(k))
    assert "%1: float32[], %2: float32[] = slogdet(%0)\n    %3: float32[] = multiply(%2, 2.0)" in str(program)
