"""How large what is compiled may be, and where its lines stand: counted, because the time is the machine's."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device
from micrograd_core.compiler import fusion
from micrograd_core.compiler.executor import straight_line
from micrograd_core.compiler.fusion import Plan, Run, plan
from micrograd_core.compiler.nests import Nest, size, varying
from micrograd_core.compiler.passes import optimized, written
from micrograd_core.compiler.program import Program
from micrograd_core.dtypes import DTYPES
from micrograd_core.layout import Layout

pytest.importorskip("llvmlite")

from micrograd_cpu import compiled, objects, segments
from micrograd_cpu.llvm import module, modules
from micrograd_cpu.scalars import covers

MANY = os.environ.get("MICROGRAD_EXHAUSTIVE", "0") not in ("", "0")
UNARY = "exp expm1 log log1p log2 log10 sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh erf erfc".split()
UNARY += "sigmoid softplus mish gelu silu log_sigmoid sqrt".split()
BINARY = "pow floor_divide remainder logaddexp atan2 hypot divide".split()
BROADCASTS = {"row": (64, 1), "column": (1, 48), "scalar": ()}
SHAPE = (64, 48)
ENDINGS = ("element", "sum of rows", "sum of columns")
DEAR = re.compile(r"@micrograd\.\w+|@llvm\.sqrt|fdiv|@llvm\.pow")


@pytest.fixture(autouse=True)
def _off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROGRAD_CACHE", "off")


def planned(f: Any, *types: tuple[tuple[int, ...], str]) -> tuple[Program, Plan]:
    program = written(f, [(shape, DTYPES[dtype]) for shape, dtype in types], {})
    assert program is not None
    layouts = [Layout.contiguous(shape) for shape, _ in types]
    return program, plan(optimized(program, covers), layouts, covers)


def nests(found: Plan) -> list[Nest]:
    return [step.nest for step in found.steps if isinstance(step, Run)]


def innermost(ir: str) -> list[str]:
    """The text of each loop that has no other in it."""
    found = []
    for function in ir.split("\ndefine "):
        for n in re.findall(r"^head(\d+):", function, re.MULTILINE):
            loop = function.split(f"\nhead{n}:")[1].split(f"\nexit{n}:")[0]
            if "\nhead" not in loop:
                found.append(loop)
    return found


def dear(ir: str) -> int:
    return sum(len(DEAR.findall(loop)) for loop in innermost(ir))


def composed(op: str, ending: str, broadcast: bool) -> Any:
    def f(k: Any, x: Any, y: Any = None) -> Any:
        operands = [k.broadcast_to(each, shape=SHAPE) if broadcast else each for each in (x, y) if each is not None]
        found = getattr(k, op)(*operands, **({"approximate": "none"} if op == "gelu" else {}))
        if ending == "element":
            return found
        return k.sum(found, axis=(1 if ending == "sum of rows" else 0,), keepdims=False)

    return f


def numbers(kind: str, dtype: str, op: str) -> Any:
    low, high = (1.1, 3.0) if op == "acosh" else (0.1, 0.9)
    return np.random.default_rng(1).uniform(low, high, BROADCASTS[kind]).astype(dtype)


CASES = [
    (op, kind, dtype, ending)
    for op in (*UNARY, *BINARY)
    for kind in BROADCASTS
    for dtype in ("float32", "float64")
    for ending in ENDINGS
]


@pytest.mark.parametrize(("op", "kind", "dtype", "ending"), CASES if MANY else random.Random(3).sample(CASES, 60))
def test_a_function_of_a_broadcast_is_computed_outside_the_loop_that_repeats_it(
    op: str, kind: str, dtype: str, ending: str
) -> None:
    type = BROADCASTS[kind], dtype
    types = [type] * (2 if op in BINARY else 1)
    program, found = planned(composed(op, ending, True), *types)
    ir = module(nests(found))
    # The innermost loop goes along rows; where columns are summed, down a tile of them.
    repeated = kind != "column" if ending != "sum of columns" else kind == "scalar"
    if repeated:
        assert dear(ir) == 0, ir
    for nest in nests(found):
        assert size(nest) <= fusion.PROCESSOR.lines
    x = [numbers(kind, dtype, op)] * len(types)
    (result,) = Device("cpu").kernels.compile(program)(*x)
    wide = [np.broadcast_to(each, SHAPE).astype("float64") for each in x]
    k = Device("cpu").kernels
    exact = composed(op, ending, False)(k, *wide)
    np.testing.assert_allclose(
        result, exact, rtol=2e-5 if dtype == "float32" else 1e-12, atol=1e-6 if dtype == "float32" else 1e-13
    )


def test_a_function_of_what_a_tile_of_rows_repeats_is_computed_once_a_row() -> None:
    def f(k: Any, x: Any, y: Any) -> Any:
        return k.sum(k.multiply(x, k.sin(k.broadcast_to(y, shape=SHAPE))), axis=(0,), keepdims=False)

    program, found = planned(f, (SHAPE, "float64"), ((1, 48), "float64"))
    ir = module(nests(found))
    sums = [loop for loop in innermost(ir) if "fadd reassoc double" in loop]
    assert sums
    assert not any("@micrograd" in loop for loop in sums)
    x, y = np.random.default_rng(0).normal(size=SHAPE), np.linspace(0, 3, 48)[None]
    np.testing.assert_allclose(
        Device("cpu").kernels.compile(program)(x, y)[0], (x * np.sin(y)).sum(0), rtol=1e-12, atol=1e-13
    )


def test_a_load_from_an_array_without_elements_stays_in_its_loop() -> None:
    def f(k: Any, x: Any, y: Any) -> Any:
        return k.sum(k.multiply(x, k.exp(k.broadcast_to(y, shape=(3, 0)))), axis=(1,), keepdims=False)

    program, found = planned(f, ((3, 0), "float64"), ((3, 1), "float64"))
    for nest in nests(found):
        assert all(-1 in axes for axes in varying(nest).values())
    found_ = Device("cpu").kernels.compile(program)(np.ones((3, 0)), np.ones((3, 1)))
    np.testing.assert_array_equal(found_[0], np.zeros(3))


# ── the size of what is compiled ─────────────────────────────────────────────────────────────────────────────


def generated(seed: int, length: int) -> Any:
    """A program of so many steps: functions and arithmetic of rows, columns and scalars, shared values, reductions."""

    def f(k: Any, x: Any, row: Any, column: Any, scalar: Any) -> Any:
        rng = random.Random(seed)
        pool = [k.broadcast_to(each, shape=SHAPE) for each in (row, column, scalar)]
        pool = [rng.choice(pool)] if seed % 3 == 0 else [x, *pool]
        last = pool[-1]
        until = len(k.builder.steps) + length
        while len(k.builder.steps) < until:
            x = last if rng.random() < 0.6 else rng.choice(pool)
            kind = rng.random()
            if kind < 0.45:
                op = rng.choice("exp log1p sin cos tanh erf sigmoid softplus mish silu expm1 atan".split())
                last = getattr(k, op)(k.abs(k.tanh(x) if op in ("exp", "expm1") else x))
            elif kind < 0.9:
                last = k.multiply(getattr(k, rng.choice(("add", "subtract", "maximum")))(x, rng.choice(pool)), 0.5)
            else:
                axis = rng.choice(((0,), (1,), (0, 1)))
                last = k.subtract(x, k.mean(x, axis=axis, keepdims=True))
            pool = [*pool[-11:], last]
        for each in pool[:-1]:
            last = k.add(last, each)
        return last

    return f


TYPES = (SHAPE, (64, 1), (1, 48), ())


@pytest.mark.parametrize("length", [1, 3, 10, 30, 100, 300])
@pytest.mark.parametrize("seed", range(30) if MANY else range(4))
def test_nests_and_modules_are_bounded_and_grow_with_the_program(seed: int, length: int) -> None:
    dtype = ("float32", "float64")[seed % 2]
    program, found = planned(generated(seed, length), *[(shape, dtype) for shape in TYPES])
    sizes = [size(each) for each in nests(found)]
    assert max(sizes) <= fusion.PROCESSOR.lines
    assert sum(sizes) <= 40 * len(optimized(program, covers).steps) + 40
    texts = modules(nests(found))
    assert len(texts) <= 2 * sum(sizes) // fusion.PROCESSOR.lines + 1
    for text in texts:
        assert len(re.findall(r"^define void @nest", text, re.MULTILINE)) >= 1


@pytest.mark.parametrize("length", [10, 60, 150, 300] if MANY else [10, 100])
@pytest.mark.parametrize("seed", range(30) if MANY else range(3))
def test_programs_that_are_split_have_the_numbers_of_numpy(seed: int, length: int) -> None:
    program, _ = planned(generated(seed, length), *[(shape, "float64") for shape in TYPES])
    rng = np.random.default_rng(seed)
    given = [rng.uniform(0.1, 1.0, shape) for shape in TYPES]
    kernels = Device("cpu").kernels
    expected = straight_line(program, lambda op: getattr(kernels, op))(*given)
    (found,) = kernels.compile(program)(*given)
    np.testing.assert_allclose(found, expected[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", ["elements", "functions", "functions of rows"])
def test_what_each_loop_over_a_row_computes_again_is_part_of_the_size(form: str) -> None:
    def f(k: Any, x: Any) -> Any:
        for _ in range(60):
            mean = k.mean(x, axis=(1,), keepdims=True)
            x = k.subtract(x, k.tanh(mean) if form == "functions of rows" else mean)
            x = k.tanh(x) if form == "functions" else x
        return x

    program, found = planned(f, (SHAPE, "float64"))
    sizes = [size(each) for each in nests(found)]
    assert len(sizes) > 1
    assert max(sizes) <= fusion.PROCESSOR.lines
    x = np.random.default_rng(0).normal(size=SHAPE)
    expected = x
    for _ in range(60):
        mean = expected.mean(1, keepdims=True)
        expected = expected - (np.tanh(mean) if form == "functions of rows" else mean)
        expected = np.tanh(expected) if form == "functions" else expected
    np.testing.assert_allclose(Device("cpu").kernels.compile(program)(x)[0], expected, rtol=1e-9, atol=1e-12)


def layers(k: Any, x: Any) -> Any:
    for i in range(40):
        x = k.tanh(k.add(k.sin(k.add(k.sum(x, axis=(1,), keepdims=True), x)), 0.1 * i))
    return x


@pytest.mark.parametrize("known", [True, False])
def test_code_of_several_modules_is_linked(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "PLAIN", objects.PLAIN if known else frozenset({"linker"}))
    program, found = planned(layers, (SHAPE, "float64"))
    assert len(modules(nests(found))) > 1
    x = np.random.default_rng(0).normal(size=SHAPE)
    expected = x
    for i in range(40):
        expected = np.tanh(np.sin(expected.sum(1, keepdims=True) + expected) + 0.1 * i)
    np.testing.assert_allclose(Device("cpu").kernels.compile(program)(x)[0], expected, rtol=1e-6, atol=1e-6)


def test_nests_that_are_the_same_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(k: Any, x: Any, w: Any) -> Any:
        for _ in range(5):
            x = k.tanh(k.add(k.matmul(x, w), x))
        return x

    texts = list[str]()
    compile = objects.compiled
    monkeypatch.setattr(objects, "compiled", lambda ir, *how: texts.append(ir) or compile(ir, *how))
    program, found = planned(f, ((8, 8), "float64"), ((8, 8), "float64"))
    assert len(nests(found)) == 5
    x, w = np.random.default_rng(0).normal(size=(2, 8, 8))
    expected = x
    for _ in range(5):
        expected = np.tanh(expected @ w + expected)
    np.testing.assert_allclose(Device("cpu").kernels.compile(program)(x, w)[0], expected, rtol=1e-9)
    assert sum(text.count("define void @nest") for text in texts) == 1


def test_functions_that_call_many_steps_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(k: Any, x: Any, w: Any) -> Any:
        for _ in range(300):
            x = k.tanh(k.add(k.matmul(x, w), x))
        return x

    texts = list[str]()
    compile = objects.compiled
    monkeypatch.setattr(objects, "compiled", lambda ir, *how: texts.append(ir) or compile(ir, *how))
    program, _ = planned(f, ((8, 8), "float64"), ((8, 8), "float64"))
    x, w = np.random.default_rng(0).normal(size=(2, 8, 8)) / 8
    expected = x
    for _ in range(300):
        expected = np.tanh(expected @ w + expected)
    np.testing.assert_allclose(Device("cpu").kernels.compile(program)(x, w)[0], expected, rtol=1e-6, atol=1e-9)
    calls = [text for text in texts if "define ptr @call" in text]
    assert sum(text.count("define ptr @call") for text in calls) == -(-600 // segments.STEPS)
    assert all(text.count("define ptr @call") == 1 or len(text) <= compiled.LONGEST for text in calls)


# ── nothing hangs, and Ctrl-C is heard ───────────────────────────────────────────────────────────────────────

EXAMPLES = {
    "repeated rows": """
f = mg.jit(lambda x: mg.mish(mg.sin(mg.broadcast_to(x[:, None], (64, 64)))))
f(mg.asarray(np.linspace(-1, 1, 64)))
""",
    "a repeated number": """
f = mg.jit(lambda c: mg.logaddexp(mg.atan(mg.broadcast_to(c, (64,))), c))
f(mg.asarray(0.7))
""",
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_compiling_ends(example: str) -> None:
    text = f"import numpy as np, micrograd_core as mg\n{EXAMPLES[example]}\nprint('compiled')"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.stdout == "compiled\n", done.stderr


LARGE = """
import signal, sys, numpy as np, micrograd_core as mg
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background is born without
def f(x):
    for i in range(2000):
        x = mg.tanh(mg.sin(mg.sum(x, axis=1, keepdims=True) + x) + 0.001 * i)
    return x
import micrograd_cpu.objects as objects
compile, begun = objects.compiled, []
def compiled(*given):
    if not begun:
        begun.append(1)
        print("compiling", flush=True)
    return compile(*given)
objects.compiled = compiled
try:
    mg.jit(f)(mg.asarray(np.ones((16, 16))))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    print(mg.jit(lambda x: mg.exp(x) + 1)(mg.asarray(np.zeros(2))).tolist(), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of a process of its own")
def test_ctrl_c_ends_compiling_and_the_next_program_compiles() -> None:
    with subprocess.Popen([sys.executable, "-c", LARGE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "compiling\n"
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert rest == "interrupted\n[2.0, 2.0]\n"
