"""Operations as compiled kernels: the numbers of NumPy's kernels, for every size from one text."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from micrograd_core import Device, asarray, float32, layer_norm, layout
from micrograd_core.compiler import nests
from micrograd_core.compiler.fusion import Run, plan
from micrograd_core.compiler.nests import compositions_of_nests
from micrograd_core.compiler.passes import optimized, written
from micrograd_core.errors import IndexingError, ShapeError
from micrograd_core.interpreters.raw import compose
from micrograd_core.layout import Layout
from micrograd_core.ops import TABLE

pytest.importorskip("llvmlite")

from micrograd_cpu import eager, threads
from micrograd_cpu.kernels import KERNELS
from micrograd_cpu.llvm import Printer, tiles
from micrograd_cpu.scalars import constant, covers

LENGTHS = (2, 3, 5, 64, 257, 2049, 8195)  # of each tier, and both sides of blocks
REDUCTIONS = ("max", "mean", "min", "prod", "std", "sum", "var")
KINDS = ("normal", "large", "special", "repeated", "transposed")


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """However small the arrays; object code is shared by the tests of a process."""
    monkeypatch.setenv("MICROGRAD_CACHE", str(tmp_path_factory.getbasetemp() / "objects"))
    monkeypatch.setattr(eager, "SMALL", 1)
    with np.errstate(all="ignore"):
        yield


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, kind: str) -> Any:
    """An array of some kind."""
    if kind == "repeated":
        return np.broadcast_to(np.asarray(rng.normal(), dtype), shape)
    if kind == "transposed":
        return rng.normal(size=shape[::-1]).astype(dtype).T
    x = rng.normal(size=shape) * (100 if kind == "large" else 1)
    if kind == "special":
        x.ravel()[rng.integers(x.size, size=3)] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], 3)
    return x.astype(dtype)


def calls(name: str, shape: tuple[int, ...]) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Of an operation: how many operands of the shape, how many of its last axis, and parameters."""
    rows = len(shape) - 1
    if "gelu" in name:
        yield from ((1 + ("gradient" in name), 0, {"approximate": each}) for each in ("none", "tanh"))
    elif name == "logsumexp":
        yield from (
            (1, 0, {"axis": axis, "keepdims": keep}) for axis, keep in ((None, False), ((0,), True), ((rows,), False))
        )
    elif "softmax" in name:
        yield from ((1 + ("gradient" in name), 0, {"axis": axis}) for axis in {0, rows})
    elif name == "batch_norm":
        yield from ((1, 4, {"training": each, "eps": 1e-5}) for each in (True, False))
    elif name.startswith("batch_norm"):
        yield 2, int(name != "batch_norm_weight_gradient"), {"eps": 1e-5}
    elif ("norm" in name and name != "times_normal") or "standardize" in name:
        full = 1 + ("gradient" in name)
        vectors = {
            "layer_norm": 2,
            "rms_norm": 1,
            "rms_norm_gradient": 1,
            "standardize_gradient": 1,
            "layer_norm_gradients": 1,
        }.get(name, 0)
        yield full, vectors, {"axis": (rows,), "eps": 1e-5}
        if not vectors and "weight" not in name:
            yield full, 0, {"axis": (0,), "eps": 1e-5}
    else:
        op = TABLE[name]
        x = np.zeros(shape)
        yield op.operands, 0, {} if op.parameters is None else op.parameters(x, **op.samples[0].params)


def tolerance(x: Any, dtype: str, kind: str) -> Any:
    scale = np.max(np.abs(x[np.isfinite(x)]), initial=1)
    if kind == "repeated":
        scale *= 100  # a mean's rounding over the root of eps
    return (2e-5 if dtype == "float32" else 1e-12) * scale


@pytest.mark.parametrize("name", compositions_of_nests())
def test_numbers_are_those_of_the_kernels(name: str) -> None:
    """For rows of every tier, kinds of numbers, layouts, parameters, dtypes; one in some of all combinations."""
    rng = np.random.default_rng(sum(map(ord, name)))
    many = os.environ.get("MICROGRAD_EXHAUSTIVE", "0") not in ("", "0")
    compared = 0
    for i, (n, dtype, kind) in enumerate(product(LENGTHS, eager.FLOATS, KINDS)):
        if not many and (i + len(name)) % 17:
            continue
        shape = (int(rng.integers(1, 40)), n)
        if name == "layer_norm_gradients" and (n == 2 or kind == "repeated"):
            continue  # of numbers that are equal, or nearly, differences have no digits left, and are added up
        for full, vectors, params in calls(name, shape):
            operands = [drawn(rng, shape, dtype, kind) for _ in range(full)]
            operands += [drawn(rng, shape[-1:], dtype, "normal") for _ in range(vectors)]
            if name == "log_softmax_gradient":
                operands[1] = -np.abs(operands[1])
            if name == "batch_norm":
                operands[2] = np.abs(operands[2])  # a variance
            kernel, wide = KERNELS[name], [x.astype("float64") for x in operands]
            found = kernel(*operands, **params)
            if found is NotImplemented:
                # What reduces everything is split by rows, so that its program depends on lengths.
                assert 1 in shape or params.get("axis", 0) is None, (name, shape, kind)
                continue
            expected = reference(name, *wide, **params)
            pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
            for x, y in pairs:
                assert (x.dtype.name, x.shape) == (dtype, y.shape), (name, shape, kind)
                near = np.isclose(x, y, rtol=0, atol=tolerance(y, dtype, kind), equal_nan=True)
                assert near.all(), (name, shape, kind, params, x[~near][:4], y[~near][:4])
            compared += 1
    assert compared >= 3


SHAPES = st.tuples(
    st.integers(1, len(eager.TIERS) - 1).flatmap(
        lambda tier: st.integers(eager.TIERS[tier - 1] + 1, min(eager.TIERS[tier], 10_000))
    ),
    st.lists(st.integers(1, 9) | st.sampled_from((17, 40)), max_size=3).filter(lambda x: math.prod(x) <= 100),
    st.integers(0, 3),
).map(lambda x: (*x[1][: x[2]], x[0], *x[1][x[2] :]))
NAMES = sorted({*compositions_of_nests(), *REDUCTIONS})


@hypothesis.settings(deadline=None, max_examples=100, derandomize=True)
@hypothesis.given(
    name=st.sampled_from(NAMES),
    shape=SHAPES,
    dtype=st.sampled_from(eager.FLOATS),
    kinds=st.lists(st.sampled_from(KINDS), min_size=2, max_size=2),
    data=st.data(),
)
def test_numbers_are_those_of_the_composition(
    name: str, shape: tuple[int, ...], dtype: str, kinds: list[str], data: st.DataObject
) -> None:
    """For lengths of every tier: none of them has become part of the text."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    if name in REDUCTIONS:
        axis = tuple(sorted(data.draw(st.sets(st.sampled_from(range(len(shape)))))))
        more = {"correction": 0} if name in ("std", "var") else {}
        full, vectors, params = 1, 0, {"axis": axis, "keepdims": data.draw(st.booleans()), **more}
    else:
        hypothesis.assume("batch" not in name or len(shape) > 1)
        full, vectors, params = data.draw(st.sampled_from([*calls(name, shape)]))
    hypothesis.assume(name != "layer_norm_gradients" or (shape[-1] > 2 and "repeated" not in kinds))
    hypothesis.assume(name != "times_normal" or "special" not in kinds)  # inf times what is 0 in one precision only
    operands = [drawn(rng, shape, dtype, kind) for kind in kinds[:full]]
    operands += [drawn(rng, shape[1:2] if "batch" in name else shape[-1:], dtype, "normal") for _ in range(vectors)]
    if name == "prod":
        operands = [np.exp(np.nan_to_num(x, posinf=1, neginf=-1) / x.size).astype(dtype) for x in operands]
    if name == "log_softmax_gradient":
        operands[1] = -np.abs(operands[1])
    if name == "batch_norm":
        operands[2] = np.abs(operands[2])
    found = KERNELS[name](*operands, **params)
    hypothesis.assume(found is not NotImplemented)
    wide = [x.astype("float64") for x in operands]
    own = name in ("max", "min", "sum")  # of which others are composed
    expected = getattr(np, name)(*wide, **params) if own else reference(name, *wide, **params)
    scale = max([1, *(np.max(np.abs(x[np.isfinite(x)]), initial=1) for x in operands)])
    for x, y in zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]:
        assert (x.dtype.name, x.shape) == (dtype, y.shape)
        near = np.isclose(
            x, y, rtol=1e-4, atol=30 * scale * tolerance(np.asarray(y), dtype, "repeated"), equal_nan=True
        )
        assert near.all(), (params, x[~near][:4], y[~near][:4])


def reference(name: str, *operands: Any, **params: Any) -> Any:
    """The op table's composition of NumPy's kernels, in float64."""
    return compose(name, Device("cpu").kernels.backend)(*operands, **params)


def test_all_sizes_have_one_text_and_repeat_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    KERNELS["softmax"](drawn(rng, (7, 100), "float32", "normal"), axis=1)
    before = len(eager._FUNCTIONS)
    for rows, n in ((3, 90), (90, 3), (1000, 17), (8, 256), (1, 80)):
        x = drawn(rng, (rows, n), "float32", "normal")
        first = KERNELS["softmax"](x, axis=1)
        assert first.tobytes() == KERNELS["softmax"](x, axis=1).tobytes()
        assert first.tobytes() == KERNELS["softmax"](np.asfortranarray(x), axis=1).tobytes()
        np.testing.assert_allclose(first.sum(axis=1), 1, rtol=1e-6)
    assert len(eager._FUNCTIONS) <= before + 1  # one row has no loop of rows


@pytest.mark.parametrize("most", eager.TIERS[1:-1])
def test_rows_of_a_tier_have_one_text_up_to_the_longest(most: int) -> None:
    """Scratch memory has room for each."""
    rng, made = np.random.default_rng(0), set[int]()
    for n in (eager.TIERS[eager.TIERS.index(most) - 1] + 1, most):
        x = rng.normal(size=(2049, n)).astype("float32")
        np.testing.assert_allclose(KERNELS["softmax"](x, axis=1).sum(axis=1), 1, rtol=1e-5)
        made.add(len(eager._FUNCTIONS))
    assert len(made) == 1


@pytest.mark.parametrize(
    "compose",
    [
        lambda k, x: k.add(x, x.shape[0] + 1),
        lambda k, x: k.multiply(x, 1 / x.shape[1]),
        lambda k, x: k.multiply(x, 2.0 * x.shape[1]),
        lambda k, x: k.multiply(x, math.log(x.shape[1])),
        lambda k, x: k.add(x, len(range(0, x.shape[0], 3))),
        lambda k, x: k.add(x, float(f"{x.shape[0]}")),
        lambda k, x: k.exp(x) if x.shape[0] < 100 else x,
        lambda k, x: k.exp(x) if x.shape[0] == 30 else x,
        lambda k, x: k.matmul(x, x),
        lambda k, x: k.reshape(x, shape=(x.shape[0] * x.shape[1], 1, 7)),
        lambda k, x: k.exp(k.reshape(x, shape=(x.shape[0] // 2, 2, x.shape[1]))),
    ],
)
def test_what_depends_on_lengths_in_another_way_goes_to_the_other_kernel(compose: Any) -> None:
    kernel = eager.compiled(compose, lambda x: "the other")
    assert str(kernel(np.ones((30, 40), "float32"))) == "the other"


LEAKS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "a stride": (layout, "contiguous_strides", lambda shape: tuple(len(range(math.prod(shape[i:]))) for i in range(2))),
    "a merged axis": (nests, "prod", lambda lengths: int(math.prod(lengths))),
    "a size that is printed": (Printer, "size", lambda self, value: f"{value}"),
    "a count that is printed": (Printer, "times", lambda self, length, step: str(-(-length // step))),
    "a loop without a rest": (Printer, "times", lambda self, length, step: self.size(length // step)),
    "a number": (Printer, "known", lambda self, value, dtype: constant(value, dtype)),
}


@pytest.mark.parametrize("leak", sorted(LEAKS))
def test_a_planner_or_printer_that_takes_a_length_for_a_number_is_noticed(
    leak: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compose(k: Any, x: Any) -> Any:
        return k.mean(k.exp(x), axis=(0,), keepdims=False)

    x = np.ones((300, 400), "float32")
    assert str(eager.compiled(compose, lambda x: "the other")(x)) != "the other"
    eager._MADE.clear()
    monkeypatch.setattr(*LEAKS[leak])
    assert str(eager.compiled(compose, lambda x: "the other")(x)) == "the other"
    eager._MADE.clear()


def test_lengths_as_numbers_of_the_formula_are_read_when_it_runs() -> None:
    kernel = eager.compiled(lambda k, x: k.add(k.divide(x, -x.shape[0]), x.shape[0] * x.shape[1]), lambda x: None)
    for shape in ((3, 4), (300, 41), (4, 9000), (5, 5)):
        found = kernel(np.full(shape, 6.0, "float32"))
        assert (found == np.float32(6) / -np.float32(shape[0]) + np.float32(shape[0] * shape[1])).all()


def test_programs_are_shown_with_the_names_of_lengths(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MICROGRAD_JIT_DUMP", "1")
    kernel = eager.compiled(lambda k, x: k.divide(x, -x.shape[0]), lambda x: "the other")
    assert (kernel(np.ones((3, 4), "float32")) < 0).all()
    assert "%1: float32[n0, n1] = divide(%0, -1*n0)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "x", [np.ones((4, 4), "int64"), np.ones((0, 4), "float32"), np.float32(1), np.ones((2, 2), "<c8")]
)
def test_what_is_not_covered_goes_to_the_other_kernel(x: Any) -> None:
    kernel = eager.compiled(lambda k, x: k.exp(x), lambda x: "the other")
    assert kernel(x) == kernel(x) == "the other"


def test_numbers_beside_arrays_are_told_apart() -> None:
    kernel = eager.compiled(lambda k, x, y: k.multiply(x, y), lambda x, y: x * y)
    x = np.ones((3, 5), "float32")
    for y in (0.0, -0.0, 2, 2.0, 3.5):
        assert kernel(x, y).tobytes() == (x * np.float32(y)).tobytes()


def test_an_error_is_the_kernels() -> None:
    x, weight = asarray(np.ones((4, 600), "float32")), asarray(np.ones((4, 6), "float32"))
    with pytest.raises(ShapeError, match=r"layer_norm: weight of shape \(4, 6\)"):
        layer_norm(x, weight)


def test_large_arrays_are_shared_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from micrograd_cpu import compiled

    x = np.random.default_rng(0).normal(size=(301, 1000)).astype("float32")
    kernel = eager.compiled(lambda k, x: k.softmax(x, axis=1), lambda x: None)
    alone = kernel(x)
    for count in (2, 5):
        monkeypatch.setattr(compiled, "LARGE", 1)
        monkeypatch.setattr(threads.Threads, "count", count)
        assert eager.compiled(lambda k, x: k.softmax(x, axis=1), lambda x: None)(x).tobytes() == alone.tobytes()


@pytest.mark.parametrize(
    "call", ['tanh(mg.asarray(np.ones((128, 128), "float32")))', "softmax(x[0])", "layer_norm(x[:2])"]
)
def test_small_arrays_load_no_compiler(call: str, tmp_path: Path) -> None:
    """Large ones do, and small ones of what NumPy has no function for."""
    script = """
import sys
import numpy as np
import micrograd_core as mg
x = mg.Tensor(np.ones((100, 100), "float32"), requires_grad=True)
mg.exp(mg.relu(mg.sin(x))).sum().backward()
print("llvmlite" in sys.modules)
{}
print("llvmlite" in sys.modules)
""".format(f"mg.{call}")
    environment = os.environ | {"MICROGRAD_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_reductions_are_those_of_numpy() -> None:
    """Over every set of axes, of numbers that lie in order; what lies otherwise is NumPy's anyway."""
    rng = np.random.default_rng(0)
    shapes = ((3, 4), (5, 1, 7), (64, 512), (1, 9), (4, 3, 2, 5), (1000, 600), (600_001,), (20, 1, 30_000))
    compared = 0
    for shape in shapes:
        for count in range(len(shape) + 1):
            for axis in combinations(range(len(shape)), count):
                name, dtype = REDUCTIONS[compared % 7], eager.FLOATS[compared // 7 % 2]
                x = rng.normal(size=shape).astype(dtype)
                if name == "prod":
                    x = np.exp(x / x.size).astype(dtype)
                if compared % 5 == 0:
                    x.ravel()[rng.integers(x.size)] = rng.choice([np.nan, np.inf])
                more = {"correction": 0} if name in ("std", "var") else {}
                given: dict[str, Any] = {"axis": axis if compared % 3 or count < len(shape) else None}
                given["keepdims"] = bool(compared % 2)
                found = KERNELS[name](x, **given, **more)
                if found is NotImplemented:
                    found = compose(name, Device("cpu").kernels.backend)(x, **given, **more)
                wide = getattr(np, name)(x.astype("float64"), **given, **({"ddof": 0} if more else {}))
                assert (np.shape(found), found.dtype) == (np.shape(wide), dtype), (name, shape, axis)
                scale = np.max(np.abs(x), initial=1, where=np.isfinite(x)) * max(1, x.size**0.5)
                error = 2e-6 if dtype == "float32" else 1e-13
                np.testing.assert_allclose(found, wide, rtol=2 * error, atol=error * scale, err_msg=f"{name} {shape}")
                compared += 1
    assert compared > 40


def test_a_large_sum_does_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:

    x = np.random.default_rng(0).normal(size=(1000, 1200)).astype("float32")
    found = set()
    for count in (1, 2, 3, 7):
        monkeypatch.setattr(threads.Threads, "count", count)
        for axis in (None, (0,), (1,)):
            found.add((axis, eager.reduction("sum")(x, axis=axis, keepdims=False).tobytes()))
    assert len(found) == 3


def test_shapes_of_one_kind_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written, make = list[Any](), eager._made
    monkeypatch.setattr(eager, "_made", lambda *given: written.append(given) or make(*given))
    kernel = eager.compiled(lambda k, x: k.softmax(k.negative(x), axis=1), lambda x: None)
    for rows in range(300, 310):
        for n in (260, 1000):
            x = np.random.default_rng(rows).normal(size=(rows, n)).astype("float32")
            np.testing.assert_allclose(kernel(x).sum(axis=1), 1, rtol=1e-6)
    assert len(written) == 1


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(9, 30), (4, 7, 5), (11,)])
def test_cross_entropy_of_classes_is_one_loop(shape: tuple[int, ...], reduction: str) -> None:
    rng = np.random.default_rng(len(shape))
    axis = int(len(shape) > 1)
    positions = shape[:axis] + shape[axis + 1 :]
    x = rng.normal(size=shape).astype("float32")
    given: dict[str, Any] = {"ignore_index": -100, "label_smoothing": 0.0, "reduction": reduction}
    for dtype in ("int64", "int32", "uint8"):
        targets = np.asarray(rng.integers(shape[axis], size=positions), dtype)
        g = np.asarray(rng.normal(size=positions if reduction == "none" else ()), "float32")
        wide = x.astype("float64")
        p = np.exp(wide) / np.exp(wide).sum(axis=axis, keepdims=True)
        own = np.expand_dims(targets, axis) == np.arange(shape[axis]).reshape(-1, *(1,) * (len(shape) - axis - 1))
        losses = -np.log((p * own).sum(axis=axis))
        loss = losses if reduction == "none" else getattr(losses, reduction)()
        share = np.expand_dims(g, axis) if reduction == "none" else g / (losses.size if reduction == "mean" else 1)
        np.testing.assert_allclose(KERNELS["cross_entropy"](x, targets, 1.0, **given), loss, rtol=1e-5)
        found = KERNELS["cross_entropy_gradient"](g, x, targets, 1.0, **given)
        np.testing.assert_allclose(found, (p - own) * share, rtol=1e-5, atol=1e-7)
        targets = targets + np.asarray(shape[axis], dtype)
        for name, before in (("cross_entropy", ()), ("cross_entropy_gradient", (g,))):
            with pytest.raises(IndexingError, match="cross_entropy: targets must be class indices"):
                KERNELS[name](*before, x, targets, 1.0, **given)


@pytest.mark.parametrize("name", sorted(eager.GRADIENTS))
def test_gradients_at_once_are_nests_of_a_program_too(name: str) -> None:
    """No call of a kernel between them: what comes before and after fuses with them."""
    spec = [((64, 300), float32), ((64, 300), float32), ((300,), float32)]
    params: dict[str, Any] = {"eps": 1e-5, **({"axis": (1,)} if "layer" in name else {})}
    program = written(lambda k, *operands, **params: getattr(k, name)(*operands, **params), spec, params)
    assert program is not None
    planned = plan(optimized(program, covers), [Layout.contiguous(shape) for shape, _ in spec], covers)
    assert all(isinstance(step, Run) or step.op == "reshape" for step in planned.steps)


def test_sums_over_rows_that_share_a_number_are_taken_in_tiles() -> None:
    """What is the same for a whole row does not count: the numbers beside each other are in columns."""
    shapes = [(512, 300), (512, 300), (512, 1), (512, 1)]
    program = written(
        lambda k, g, x, mean, scale: k.sum(
            k.multiply(g, k.multiply(k.subtract(x, mean), scale)), axis=(0,), keepdims=False
        ),
        [(shape, float32) for shape in shapes],
        {},
    )
    assert program is not None
    (step,) = plan(optimized(program, covers), [Layout.contiguous(shape) for shape in shapes], covers).steps
    assert isinstance(step, Run)
    assert tiles(step.nest) > 1
