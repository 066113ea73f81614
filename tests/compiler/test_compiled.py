"""What the cpu backend compiles: the same numbers as its kernels in a row, on programs by generation."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor
from micrograd_core.compiler.executor import straight_line
from micrograd_core.compiler.program import Program, Ref, Step, typed
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.conformance.cases import cases
from micrograd_core.dtypes import DTYPES
from micrograd_core.errors import MicrogradError

sys.path.insert(0, str(Path(__file__).parent))
import generated

pytest.importorskip("llvmlite")

from micrograd_core.support import code_cache
from micrograd_cpu import compiled, entries, objects, threads
from micrograd_cpu.half import as_half

MANY = os.environ.get("MICROGRAD_EXHAUSTIVE", "0") not in ("", "0")
ROUNDING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MICROGRAD_CACHE", "off")
    with np.errstate(all="ignore"):
        yield


def in_a_row(program: Program, *handles: Any) -> tuple[Any, ...]:
    """What a program means."""
    kernels = Device("cpu").kernels
    return straight_line(program, lambda op: getattr(kernels, op))(*handles)


def one(op: str, *types: TensorSpec, **params: Any) -> Program:
    """A program of one step."""
    refs = tuple(Ref(n) for n in range(len(types)))
    return typed(Program(len(types), (Step(op, refs, params),), (Ref(len(types)),)), types)


def assert_bits(found: Any, expected: Any, about: Any) -> None:
    """The same dtype, shape and numbers; zeros have the same sign."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), about
    f, e = np.asarray(found), np.asarray(expected)
    if f.dtype.name in ROUNDING:
        f, e = f.astype("float64"), e.astype("float64")
        same = (f == e) & (np.signbit(f) == np.signbit(e)) | (np.isnan(f) & np.isnan(e))
    else:
        same = f == e
    assert same.all(), f"{about}\n{found}\n{expected}"


def check(program: Program, handles: list[Any], about: str) -> None:
    found = Device("cpu").kernels.compile(program)(*handles)
    for x, y, ref in zip(found, in_a_row(program, *handles), program.outputs, strict=True):
        assert_bits(x, y, f"{about}: {ref} of\n{program}")


@pytest.mark.parametrize("seed", range(600 if MANY else 40))
def test_programs_of_small_integers_agree_to_the_last_bit(seed: int) -> None:
    """Signs of zeros aside, which sums of integers in floats have as it comes."""
    rng = random.Random(seed)
    program = generated.exact(rng, rng.randrange(1, 14))
    handles = generated.handles(rng, program, Device("cpu"), "integers")
    found = Device("cpu").kernels.compile(program)(*handles)
    for x, y, ref in zip(found, in_a_row(program, *handles), program.outputs, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape), program
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y), err_msg=f"{ref} of\n{program}")


@pytest.mark.parametrize("seed", range(300 if MANY else 20))
def test_arithmetic_of_special_values_agrees_to_the_last_bit(seed: int) -> None:
    rng = random.Random(seed)
    program = generated.special(rng, rng.randrange(1, 10), rng.choice(("float32", "float64", "float16", "bfloat16")))
    for numbers in ("special", "smooth"):  # of any numbers, of which every primitive is rounded as the dtype says
        check(program, generated.handles(rng, program, Device("cpu"), numbers), f"seed {seed}")


@pytest.mark.parametrize("source", ["float64", "float32", "float16", "int64", "int8", "uint32", "bool"])
def test_casts_are_those_of_the_kernels(source: str) -> None:
    """Half way between two float16 numbers too, and next to it, where rounding twice would go wrong."""
    kernels = Device("cpu").kernels
    middle = np.arange(2049.0, 4095.0, 2) * np.array([1.0, 2.0**-12, 2.0**-30])[:, None]
    numbers = np.concatenate([(middle * (1 + e)).ravel() for e in (0, 1e-12, -1e-12)] + [[0.0, -0.0, 1e-9, 3.0]])
    if not source.startswith("float"):
        numbers = np.array([0, 1, 5, 100, 127] + [2**24 + 1, 2**31 + 129] * (source in ("int64", "uint32")))
        numbers = np.concatenate([numbers, -numbers]) if source.startswith("int") else numbers
    x = kernels.astype(numbers, dtype=DTYPES[source])
    for target in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "uint64", "bool"):
        y = x
        if "int" in target and source.startswith("float"):  # what does not fit is nobody's promise
            y = kernels.astype(np.minimum(numbers, 100), dtype=DTYPES[source])
        program = one("astype", TensorSpec(y.shape, DTYPES[source]), dtype=DTYPES[target])
        check(program, [y], f"{source} to {target}")


@pytest.mark.parametrize("converts", [True, False])
def test_each_float16_is_widened_and_narrowed(converts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the processor has no instruction for it: all numbers there are, and those around half way."""
    if converts and not compiled.converts_float16():
        pytest.skip("this processor has no such instruction")
    monkeypatch.setattr(compiled, "converts_float16", lambda: converts)
    every = np.arange(1 << 16, dtype="uint16").view("float16")
    check(one("astype", TensorSpec(every.shape, DTYPES["float16"]), dtype=DTYPES["float32"]), [every], "wider")
    finite = every[np.isfinite(every)].astype("float32")
    with np.errstate(over="ignore", invalid="ignore"):
        up = np.nextafter(every, np.float16(np.inf))[np.isfinite(every)].astype("float32")
    middle = (finite + np.where(np.isfinite(up), up, np.float32(65536))) / 2
    others = [np.nextafter(middle, np.float32(to)) for to in (np.inf, -np.inf)]
    special = np.array([np.inf, -np.inf, np.nan, 65504, 65520, -65520, 1e30, -1e-30, 2**-25, 0.0, -0.0], "float32")
    x = np.concatenate([finite, middle, *others, special])
    with np.errstate(over="ignore"):
        check(one("astype", TensorSpec(x.shape, DTYPES["float32"]), dtype=DTYPES["float16"]), [x], "narrower")


@pytest.mark.parametrize("seed", range(400 if MANY else 25))
def test_smooth_programs_agree_as_far_as_kernels_are_right(seed: int) -> None:
    """Within what the kernels' own distance from float64 is, and some roundings."""
    rng = random.Random(seed)
    dtype = rng.choice(("float32", "float64", "float16", "bfloat16"))
    program = generated.smooth(rng, rng.randrange(1, 8), dtype)
    handles = generated.handles(rng, program, Device("cpu"), "smooth")
    found, usual = Device("cpu").kernels.compile(program)(*handles), in_a_row(program, *handles)
    types = [TensorSpec(x.shape, DTYPES["float64"]) for x in program.types[: program.inputs]]
    exact = in_a_row(typed(program._replace(types=()), types), *[np.asarray(x).astype("float64") for x in handles])
    for x, y, truth, ref in zip(found, usual, exact, program.outputs, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape), program
        x, y = (np.asarray(each).astype("float64") for each in (x, y))
        allowed = 4 * np.abs(y - truth).max(initial=0) + 64 * ROUNDING[dtype] * (1 + np.abs(truth))
        wrong = ~(np.abs(x - y) <= allowed) & ~(np.isnan(x) & np.isnan(y)) & (x != y)
        assert not wrong.any(), f"{ref} of\n{program}\n{x[wrong]}\n{y[wrong]}\n{truth[wrong]}"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_extrema_are_nan_where_an_element_is(dtype: str) -> None:
    kernels = Device("cpu").kernels
    rows = np.random.default_rng(0).normal(size=(7, 37))
    rows[1, 36], rows[2, 0], rows[3, 17], rows[4, 5], rows[5] = np.nan, np.nan, np.nan, np.inf, -np.inf
    x = kernels.astype(rows, dtype=DTYPES[dtype])
    for op in ("max", "min"):
        for axis in ((0,), (1,), None):
            check(one(op, TensorSpec((7, 37), DTYPES[dtype]), axis=axis, keepdims=False), [x], f"{op} over {axis}")
    y = kernels.flip(x, axis=(0, 1))
    for op in ("maximum", "minimum"):
        check(one(op, *[TensorSpec((7, 37), DTYPES[dtype])] * 2), [x, y], op)


@pytest.mark.parametrize("shape", [(5, 130), (2, 3, 140), (600, 9), (130, 5), (1, 7), (7, 1)][: 6 if MANY else 3])
@pytest.mark.parametrize(
    "op", ["softmax", "var", "standardize_gradient", "logsumexp", "log_softmax"][: 5 if MANY else 3]
)
def test_rows_along_any_axis_in_any_order_of_memory(op: str, shape: tuple[int, ...]) -> None:
    """Rows one by one where their numbers are next to each other, else tiles of rows, the last one smaller."""
    rng = np.random.default_rng(0)
    for axis in range(len(shape)):
        params: dict[str, Any] = {"axis": axis if "softmax" in op else (axis,)}
        params |= {"keepdims": False} if op in ("logsumexp", "var") else {}
        params |= {"correction": 0.0} if op == "var" else {"eps": 1e-5} if "standardize" in op else {}
        count = 1 + ("gradient" in op)
        operands = (Ref(0), Ref(1), 1.0) if count == 2 else (Ref(0),)
        program = Program(count, (Step(op, operands, params),), (Ref(count),))
        program = typed(program, [TensorSpec(shape, DTYPES["float32"])] * count)
        x, y = (rng.normal(size=shape).astype("float32") for _ in range(2))
        for handles in ([x, y], [x.T.copy().T, y], [x[::-1], y])[: 3 if MANY else 2]:
            (found,), (expected,) = (
                f(*handles[: program.inputs]) for f in (compile(program), partial(in_a_row, program))
            )
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5, err_msg=f"{op} over {axis}")


def compile(program: Program) -> Any:
    return Device("cpu").kernels.compile(program)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_two_byte_floats_are_rounded_after_each_primitive(dtype: str) -> None:
    kernels, x = Device("cpu").kernels, TensorSpec((200,), DTYPES[dtype])
    steps = (Step("multiply", (Ref(0), Ref(1)), {}), Step("add", (Ref(2), Ref(0)), {}), Step("sqrt", (Ref(3),), {}))
    program = typed(Program(2, (*steps, Step("subtract", (Ref(4), Ref(1)), {})), (Ref(5),)), [x, x])
    numbers = np.random.default_rng(0).uniform(0.5, 2, (2, 200))
    check(program, [kernels.astype(each, dtype=DTYPES[dtype]) for each in numbers], dtype)


def test_nan_is_equal_to_nothing() -> None:
    x = np.array([np.nan, 1.0, np.inf, -0.0])
    for op in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        for y in (x, x[::-1]):
            check(one(op, *[TensorSpec((4,), DTYPES["float64"])] * 2), [x, y], op)


def test_what_a_kernel_returns_in_another_order_is_read_in_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Device("cpu").kernels.backend
    right = backend.kernel
    monkeypatch.setattr(backend, "kernel", lambda op: lambda *a, **k: np.asfortranarray(right(op)(*a, **k)))
    steps = (
        Step("sort", (Ref(0),), {"axis": 1, "descending": False, "stable": True}), Step("exp", (Ref(1),), {}),
    )  # fmt: skip
    program = typed(Program(1, steps, (Ref(2),)), [TensorSpec((3, 4), DTYPES["float64"])])
    x = np.random.default_rng(0).normal(size=(3, 4))
    np.testing.assert_allclose(compiled.function(program, backend)(x)[0], np.exp(np.sort(x, axis=1)))


# ── every operation ──────────────────────────────────────────────────────────────────────────────────────────


def test_every_operation_compiles_to_what_its_kernel_says() -> None:
    """One sample of each and dtype in turn; with MICROGRAD_EXHAUSTIVE=1 all, in each layout."""
    device, seen = Device("cpu"), set()
    dtypes = ("float32", "float64", "int32", "uint8", "bool", "float16", "bfloat16")
    for count, case in enumerate(cases(dtypes, ())):
        wanted = MANY or (case.layout == "contiguous" and count % 16 == 0)
        if not wanted or case.form or case.op.observe is not None or case.op.parts is not None:
            continue
        try:
            operands, params = prepared(case)
            arrays = [x for x in operands if isinstance(x, Tensor)]
            given = iter(range(len(arrays)))
            refs = tuple([Ref(next(given)) if isinstance(x, Tensor) else x for x in operands])
            program = Program(len(arrays), (Step(case.op.name, refs, params),), (Ref(len(arrays)),))
            program = typed(program, [TensorSpec(x.shape, x.dtype) for x in arrays])
        except MicrogradError:  # the dtype is not for this operation, or the shape depends on numbers
            continue
        handles = [x._handle for x in arrays]
        (found,), (expected,) = device.kernels.compile(program)(*handles), in_a_row(program, *handles)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), case.id
        found, expected = np.asarray(found), np.asarray(expected)
        if expected.dtype.kind in "biu":
            np.testing.assert_array_equal(found, expected, err_msg=case.id)
        else:
            near = 8 * ROUNDING[expected.dtype.name]
            found, expected = found.astype("float64"), expected.astype("float64")
            scale = np.abs(expected).max(initial=0)
            np.testing.assert_allclose(found, expected, rtol=near, atol=near * scale, err_msg=case.id)
        seen.add(case.op.name)
    assert len(seen) > (130 if MANY else 60)


def prepared(case: Any) -> tuple[list[Any], dict[str, Any]]:
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


# ── sums ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((511,), (0,)), ((513,), (0,)), ((100_003,), (0,)), ((1_000_000,), None), ((3, 1025), (1,)), ((1025, 3), (0,)),
        ((700, 130), (0,)), ((30, 5, 40), (0, 2)), ((30, 40, 5), (0, 1)), ((2, 600, 2, 3), (1, 3)), ((600, 1), (0, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_sums_are_right_to_a_few_roundings(shape: tuple[int, ...], axis: Any, dtype: str) -> None:
    x = np.random.default_rng(0).uniform(0, 0.1, shape).astype(dtype)
    program = one("sum", TensorSpec(shape, DTYPES[dtype]), axis=axis, keepdims=False)
    (found,) = Device("cpu").kernels.compile(program)(as_half(x))
    expected = np.sum(x.astype("longdouble"), axis=axis)
    near = {"float32": 4e-7, "float64": 1e-14, "float16": 1e-3}[dtype]
    np.testing.assert_allclose(np.asarray(found, "longdouble"), expected, rtol=near)


# ── what a function of a program promises ────────────────────────────────────────────────────────────────────

X = TensorSpec((300, 500), DTYPES["float32"])
SOFTMAX = one("softmax", X, axis=1)


def test_results_do_not_depend_on_how_many_threads_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=X.shape).astype("float32")
    programs = [SOFTMAX, one("softmax", X, axis=0), one("gelu", X, approximate="none"), one("sin", X)]
    programs.append(one("sum", X, axis=(0,), keepdims=False))
    found = []
    for count in (1, 2, 7):
        monkeypatch.setattr(compiled, "LARGE", 0)
        monkeypatch.setattr(threads.Threads, "count", count)
        layouts = (x, x.T.copy().T)
        found.append([Device("cpu").kernels.compile(p)(each)[0].tobytes() for p in programs for each in layouts])
    assert all(each == found[0] for each in found)


def test_small_programs_run_on_the_thread_that_calls_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads.Threads, "reserve", lambda count: pytest.fail("threads for so little"))
    small = X._replace(shape=(200, 500))
    Device("cpu").kernels.compile(one("exp", small))(np.ones(small.shape, "float32"))


def test_outputs_are_fresh_memory() -> None:
    program = Program(1, (Step("multiply", (Ref(0), 1.0), {}), Step("exp", (Ref(0),), {})), (Ref(1), Ref(2)))
    run = Device("cpu").kernels.compile(typed(program, [X]))
    x = np.ones(X.shape, "float32")
    outputs = [*run(x), *run(x)]
    assert not any(np.shares_memory(a, b) for a in outputs for b in [x, *(c for c in outputs if c is not a)])


@pytest.mark.parametrize(
    ("handles", "words"),
    [
        ((), "the program takes 1 handles; got 0"),
        (
            (np.ones((300, 501), "float32"),),
            r"for a float32 of shape \(300, 500\) as input 0; got a float32 of shape \(300",
        ),
        ((np.ones((300, 500)),), "as input 0; got a float64"),
    ],
)
def test_other_inputs_than_it_was_compiled_for_are_refused(handles: tuple[Any, ...], words: str) -> None:
    run = Device("cpu").kernels.compile(SOFTMAX)
    run(np.ones(X.shape, "float32"))
    with pytest.raises(TypeError, match=words):
        run(*handles)


def test_layouts_beyond_the_limit_are_copied() -> None:
    shape = (2, 3, 4, 5)
    run = Device("cpu").kernels.compile(one("exp", TensorSpec(shape, DTYPES["float32"])))
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    for axes in list(permutations(range(4)))[:14]:
        back = sorted(range(4), key=axes.__getitem__)
        y = np.ascontiguousarray(x.transpose(axes)).transpose(back)
        np.testing.assert_allclose(run(y)[0], np.exp(x), rtol=1e-6)
    assert len(run.compiled.plans) <= compiled.LAYOUTS + 1
    odd = np.zeros(240 // 2 * 3, "int16").view("uint8")[1 : 1 + 4 * 120].view("float32").reshape(shape)  # not aligned
    np.testing.assert_array_equal(run(odd)[0], np.ones(shape))
    record = np.zeros(shape, [("a", "u1"), ("x", "f4")])["x"]  # 5 bytes from one to the next
    np.testing.assert_array_equal(run(record)[0], np.ones(shape))


def test_scalars_of_numpy_are_handles_too() -> None:
    run = Device("cpu").kernels.compile(one("exp", TensorSpec((), DTYPES["float32"])))
    for x in (np.float32(1), np.array(1, "float32")):
        assert run(x)[0].shape == ()
        assert float(run(x)[0]) == pytest.approx(np.e)


def test_large_angles_take_the_careful_loop() -> None:
    """A few among many others, in vectors and beside them."""
    x = np.linspace(-3, 3, 1001)
    x[[3, 500, 1000]] = 1e15, -1e22, 12345678912345.0
    run = Device("cpu").kernels.compile(one("sin", TensorSpec((1001,), DTYPES["float64"])))
    np.testing.assert_allclose(run(x)[0], np.sin(x), rtol=1e-15, atol=1e-300)


def test_without_llvmlite_the_kernels_run_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "compiles", lambda: False)
    x = np.random.default_rng(0).normal(size=X.shape).astype("float32")
    for program in (SOFTMAX, one("logsumexp", X, axis=(1,), keepdims=True)):  # for which there is no kernel
        run = Device("cpu").kernels.compile(program)
        assert not hasattr(run, "compiled")
        assert_bits(run(x)[0], in_a_row(program, x)[0], program)


def test_the_doctor_says_what_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    from micrograd_cpu import storage

    assert storage.CPUBackend().advice == ""
    monkeypatch.setattr(storage, "find_spec", lambda name: None)
    assert "pip install 'micrograd-cpu[jit]'" in storage.CPUBackend().advice


# ── object code on disk ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of object code; what a process compiles once, such as how helpers wait, is there already."""
    compile_and_run()
    monkeypatch.setenv("MICROGRAD_CACHE", str(tmp_path / "objects"))
    return tmp_path / "objects"


def compile_and_run() -> None:
    x = np.random.default_rng(0).normal(size=X.shape).astype("float32")
    expected = np.exp(x) / np.exp(x).sum(-1, keepdims=True)  # not by a kernel: those are compiled too
    np.testing.assert_allclose(Device("cpu").kernels.compile(SOFTMAX)(x)[0], expected, rtol=1e-5)


def test_object_code_is_kept_and_found_again(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_and_run()
    assert kept.stat().st_mode & 0o777 == 0o700
    (file,) = kept.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(objects, "compiled", lambda *given: pytest.fail("it was there"))
    compile_and_run()


@pytest.mark.parametrize("harm", ["cut", "changed", "empty", "writable", "folder writable"])
def test_what_is_not_whole_or_not_ours_is_not_run(kept: Path, harm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_and_run()
    (file,) = kept.iterdir()
    data = file.read_bytes()
    texts = {"cut": data[:-9], "changed": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "empty": b""}
    file.write_bytes(texts.get(harm, data))
    file.chmod(0o622 if harm == "writable" else 0o600)
    kept.chmod(0o777 if harm == "folder writable" else 0o700)
    made: list[str] = []
    right = objects.compiled
    monkeypatch.setattr(objects, "compiled", lambda ir, *how: made.append(ir) or right(ir, *how))
    compile_and_run()
    assert len(made) == 1


def test_old_object_code_goes_when_there_is_too_much(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_and_run()
    (first,) = kept.iterdir()
    os.utime(first, (1, 1))
    monkeypatch.setattr(code_cache, "LIMIT", first.stat().st_size + 100)
    Device("cpu").kernels.compile(one("exp", X))(np.ones(X.shape, "float32"))
    assert first not in [*kept.iterdir()]


def test_a_folder_that_cannot_be_made_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MICROGRAD_CACHE", str(tmp_path / "file" / "objects"))
    compile_and_run()
    monkeypatch.setenv("MICROGRAD_CACHE", "off")
    assert code_cache.folder() is None
    monkeypatch.delenv("MICROGRAD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert code_cache.folder() == tmp_path / "micrograd"
