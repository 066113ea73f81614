"""Edge values, eager and under `jit`: the same numbers, in halves too, and the same refusals."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Device, Tensor, asarray, grad, jit
from micrograd_core.array import functions
from micrograd_core.dtypes import DTYPES, integer_range
from micrograd_core.errors import IndexingError
from micrograd_core.ops import TABLE, Op

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

F = functions.FUNCTIONS
INF, NAN = math.inf, math.nan
EXHAUSTIVE = bool(os.environ.get("MICROGRAD_EXHAUSTIVE"))
HALVES = ("float16", "bfloat16")
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
LEAST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}


def edges(dtype: str) -> list[float]:
    """Zeros, numbers around 1, the ends of what is normal and of what there is, infinities, NaN."""
    facts = mg.finfo(DTYPES[dtype])
    size = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, 20.0, facts.max, facts.smallest_normal, LEAST[dtype], facts.eps, INF]
    return [*size, *(-x for x in size), NAN]


PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "polygamma": [{"n": 1}, {"n": 2}], "threshold": [{"threshold": 0.1, "value": 20.0}],
    "gelu": [{}, {"approximate": "tanh"}], "logit": [{}, {"eps": 0.2}], "elu": [{}, {"alpha": 0.5}],
    "celu": [{}, {"alpha": 0.4}], "nan_to_num": [{}, {"nan": 1.0, "posinf": 2.0}], "astype": [],
}  # fmt: skip
REAL = [op for op in TABLE.values() if op.kind == "elementwise" and "real floating" in op.accepted(op.operands - 1)]
UNDEFINED = ("signbit", "copysign")
"""The sign of NaN is nobody's promise."""
EITHER_ZERO = ("maximum", "minimum", "elu", "selu", "celu")
"""Of 0.0 and -0.0 either may be the greater."""
CANCELLING = ("lerp", "digamma", "lgamma", "logaddexp")
"""Sums whose terms may cancel: what is left are roundings of these."""


def operands(op: Op, dtype: str) -> list[Tensor]:
    """Every edge, or every combination of two, a mask where one is wanted, and a third that goes through all."""
    xs = edges(dtype)
    xs = [x for x in xs if x == x] if op.name in UNDEFINED else xs
    columns = [np.array(each) for each in zip(*product(xs, repeat=min(op.operands, 2)), strict=True)]
    columns += [np.resize(np.array(xs[::-1]), columns[0].size)] * (op.operands - len(columns))
    made = []
    for i, each in enumerate(columns):
        mask = op.accepted(i) == {"bool"} or (op.name == "where" and i == 0)
        made.append(asarray(each > 0 if mask else each, dtype="bool" if mask else dtype, device=Device("cpu")))
    return made


def assert_same(
    found: Tensor, expected: Tensor, roundings: float, about: str, terms: float = 0.0, signs: bool = True
) -> None:
    """The same NaN, infinities and signs of zero; numbers up to some roundings of the dtype."""
    assert found.dtype is expected.dtype, about
    if not found.dtype.is_floating:
        np.testing.assert_array_equal(found.numpy(), expected.numpy(), err_msg=about)
        return
    if found.dtype.is_complex:
        for part in (mg.real, mg.imag):
            assert_same(part(found), part(expected), roundings, about, terms, signs)
        return
    name = found.dtype.name
    a, b = (x.astype("float64").detach().numpy() for x in (found, expected))
    greatest = mg.finfo(found.dtype).max
    # at the end of the range a rounding decides whether a result is infinite
    end = (np.abs(a) >= greatest * (1 - 8 * ROUNDING[name])) & (np.abs(b) >= greatest * (1 - 8 * ROUNDING[name]))
    near = np.abs(a - b) <= roundings * (ROUNDING[name] * 2 * np.maximum(np.abs(b), terms) + LEAST[name])
    same = (a == b) | near | (np.isnan(a) & np.isnan(b)) | (end & (np.sign(a) == np.sign(b)))
    assert same.all(), f"{about}: {a[~same][:5]} and {b[~same][:5]} at {np.argwhere(~same).ravel()[:5]}"
    differ = (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    assert not signs or not differ.any(), f"{about}: signs of zero at {np.argwhere(differ).ravel()[:5]}"


@pytest.mark.parametrize("dtype", [*HALVES, "float32", "float64"])
@pytest.mark.parametrize("name", sorted(op.name for op in REAL))
def test_edges_are_the_same_under_jit(name: str, dtype: str) -> None:
    op = TABLE[name]
    for params in PARAMETERS.get(name, [{}]):
        xs = operands(op, dtype)

        def f(*xs: Tensor, params: dict[str, Any] = params) -> Tensor:
            return F[name](*xs, **params)  # type: ignore[no-any-return]

        # a function that a half's nest rounds once may be rounded by each of its steps without
        terms = 1.0 if name in CANCELLING else 0.0
        assert_same(jit(f)(*xs), f(*xs), 8, f"{name} of {dtype}, {params}", terms, name not in EITHER_ZERO)


@pytest.mark.parametrize("dtype", [*HALVES, "float32", "float64"])
def test_infinities_become_the_ends_of_the_dtype(dtype: str) -> None:
    x = asarray([INF, -INF, NAN, 1.0], dtype=dtype)
    end = mg.finfo(x.dtype).max
    for f in (mg.nan_to_num, jit(mg.nan_to_num), jit(lambda x: mg.nan_to_num(x * 1) + 0)):
        assert f(x).tolist() == [end, -end, 0.0, 1.0]


# ── special cases of the standard, and their gradients ───────────────────────────────────────────────────────

SPECIAL: list[tuple[str, Callable[[Tensor], Tensor], float, float, float]] = [  # value and gradient at a point
    ("x ** 0.5", lambda x: x**0.5, -INF, INF, -0.0),
    ("x ** 0.5", lambda x: x**0.5, -0.0, 0.0, INF),
    ("x ** -0.5", lambda x: x**-0.5, -INF, 0.0, NAN),
    ("x ** -0.5", lambda x: x**-0.5, -0.0, INF, NAN),
    ("sqrt", mg.sqrt, -0.0, -0.0, -INF),
    ("sign", mg.sign, -0.0, 0.0, 0.0),
    ("sign", mg.sign, 0.0, 0.0, 0.0),
    ("sign", mg.sign, NAN, NAN, 0.0),
]


@pytest.mark.parametrize("dtype", [*HALVES, "float32", "float64"])
@pytest.mark.parametrize(("text", "f", "at", "value", "slope"), SPECIAL, ids=[f"{x[0]} at {x[2]}" for x in SPECIAL])
def test_special_cases(text: str, f: Any, at: float, value: float, slope: float, dtype: str) -> None:
    x = Tensor(np.full(3, at), dtype=dtype)
    eager, compiled = f(x).detach(), jit(f)(x).detach()
    assert_same(compiled, eager, 0, text)
    assert_same(eager, asarray(np.full(3, value), dtype=dtype), 0, text)
    slopes = [g(x) for g in (grad(lambda x: f(x).sum()), jit(grad(lambda x: f(x).sum())))]
    assert_same(slopes[1], slopes[0], 2, text)


# ── casts ────────────────────────────────────────────────────────────────────────────────────────────────────

INTEGERS = [name for name, x in DTYPES.items() if x.is_integer]
FLOATS = [*HALVES, "float32", "float64"]
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "turned": lambda x: mg.flip(x),
    "strided": lambda x: mg.repeat(x, 3)[::3],
    "0-d": lambda x: x[3],
    "large": lambda x: mg.tile(x, (20_000 // x.size + 1,)),
    "a matrix": lambda x: mg.broadcast_to(x, (3, x.size)).mT,
}


def out_of_range(target: str) -> list[float]:
    low, high = integer_range(DTYPES[target])
    ends = [float(end) + step for end in (low, high, high + 1) for step in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    return [NAN, INF, -INF, -0.0, 0.5, -0.5, -1.0, 1.5, -1.5, 300.7, 7e4, -7e4, 3e9, -3e9, 1e19, -1e19, 1e30, *ends]


def saturated(x: float, target: str) -> int:
    low, high = integer_range(DTYPES[target])
    return 0 if math.isnan(x) else low if x <= low else high if x >= high else math.trunc(x)


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_a_float_beyond_the_range_of_integers_is_the_nearest_one_and_nan_is_0(source: str, target: str) -> None:
    x = asarray(out_of_range(target), dtype="float64").astype(source)
    for layout, lay in LAYOUTS.items():
        laid = lay(x)
        numbers = laid.astype("float64").numpy()
        expected = [saturated(each, target) for each in numbers.ravel().tolist()]
        for how, f in (("eager", lambda x: x.astype(target)), ("jit", jit(lambda x: x.astype(target)))):
            found = f(laid)
            assert found.dtype.name == target
            assert np.ravel(found.numpy()).tolist() == expected, f"{source} to {target}, {layout}, {how}"


@pytest.mark.parametrize(("source", "target"), list(product(INTEGERS, INTEGERS)))
def test_integers_wrap_around_in_narrower_ones(source: str, target: str) -> None:
    low, high = integer_range(DTYPES[source])
    numbers = [n for n in (low, low + 1, -300, -129, -1, 0, 1, 127, 128, 255, 256, 70_000, high) if low <= n <= high]
    x = asarray(np.array(numbers, source))
    expected = x.numpy().astype(target).tolist()
    assert x.astype(target).tolist() == jit(lambda x: x.astype(target))(x).tolist() == expected


def test_a_cast_that_saturates_warns_of_nothing() -> None:
    import warnings

    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        assert asarray([NAN, 1e30, 2.0]).astype("int32").tolist() == [0, 2**31 - 1, 2]


# ── indices that name nothing ────────────────────────────────────────────────────────────────────────────────

X = np.arange(12.0).reshape(4, 3)
REFUSED: dict[str, tuple[Callable[..., Tensor], Any, Any]] = {  # a function of numbers and indices; good, and bad ones
    "take": (lambda x, i: mg.take(x, i, axis=0), [0, 3], [0, 7]),
    "take from the end": (lambda x, i: mg.take(x, i, axis=0), [0, -4], [0, -5]),
    "take along an axis": (lambda x, i: mg.take_along_axis(x, i, axis=0), [[0, 1, 3]], [[0, 1, 9]]),
    "getitem": (lambda x, i: x[i], [0, 3], [0, 4]),
    "getitem beside a slice": (lambda x, i: x[1:, i], [0, 2], [0, 3]),
    "getitem by two": (lambda x, i: x[i, i], [0, 2], [0, 3]),
    "at add": (lambda x, i: x.at[i].add(1.0), [0, 3], [0, 4]),
    "at set": (lambda x, i: x.at[i].set(1.0), [0, 3], [0, 4]),
    "at multiply": (lambda x, i: x.at[i].multiply(2.0), [0, 3], [0, 4]),
    "at max": (lambda x, i: x.at[i].max(2.0), [0, 3], [0, 4]),
    "at min": (lambda x, i: x.at[i].min(2.0), [0, 3], [-5, 0]),
    "gather": (lambda x, i: F["gather"](x, i, 0), [[0, 1, 3]], [[0, 1, 4]]),
    "index_select": (lambda x, i: x.index_select(0, i), [0, 3], [0, 4]),
    "index_add": (lambda x, i: F["index_add"](x, i, x[:2], axis=0), [0, 3], [0, 4]),
    "add_along_axis": (lambda x, i: F["add_along_axis"](x, i, x[:1], axis=0), [[0, 1, 3]], [[0, 1, 4]]),
    "embedding": (lambda x, i: F["embedding"](i, x), [0, 3], [0, 4]),
    "cross_entropy": (lambda x, i: F["cross_entropy"](x, i), [0, 1, 2, -100], [0, 1, 2, 3]),
    "cross_entropy of each": (lambda x, i: F["cross_entropy"](x, i, reduction="none"), [0, 1, 2, 0], [0, 1, 2, -1]),
    "cross_entropy with smooth labels": (
        lambda x, i: F["cross_entropy"](x, i, label_smoothing=0.1), [0, 1, 2, 0], [0, 1, 2, 3],
    ),
    "cross_entropy that ignores": (lambda x, i: F["cross_entropy"](x, i, ignore_index=7), [0, 7, 2, 0], [0, 7, 2, 3]),
    "cross_entropy of a batch": (lambda x, i: F["cross_entropy"](x.mT[None], i), [[0, 1, 2, 2]], [[0, 1, 2, 3]]),
    "nll_loss": (lambda x, i: F["nll_loss"](x, i), [0, 1, 2, 0], [0, 1, 2, 3]),
    "multi_margin_loss": (lambda x, i: mg.nn.functional.multi_margin_loss(x, i), [0, 1, 2, 0], [0, 1, 2, 3]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("name", REFUSED)
def test_an_index_that_names_nothing_is_an_error_under_jit_too(name: str, dtype: str) -> None:
    """Of the same class, with the same sentence, also when the program was made for good ones; so are gradients."""
    f, good, bad = REFUSED[name]
    x, good, bad = Tensor(X), asarray(np.array(good, dtype)), asarray(np.array(bad, dtype))
    with pytest.raises(IndexingError) as eager:
        f(x, bad)
    compiled = jit(f)
    for _ in range(2):
        np.testing.assert_allclose(compiled(x, good).detach().numpy(), f(x, good).detach().numpy())
    with pytest.raises(IndexingError) as found:
        compiled(x, bad)
    assert str(found.value) == str(eager.value)
    np.testing.assert_allclose(compiled(x, good).detach().numpy(), f(x, good).detach().numpy())
    both = jit(mg.value_and_grad(lambda x, i: f(x, i).sum()))
    both(x, good)
    with pytest.raises(IndexingError):
        both(x, bad)


@pytest.mark.parametrize("loss", ["cross_entropy", "nll_loss", "embedding", "take"])
def test_a_step_that_is_refused_leaves_everything_as_it_was(loss: str) -> None:
    """Parameters, what the optimiser keeps, gradients and the generator."""
    mg.random.manual_seed(0)
    weight = Tensor(np.linspace(-1, 1, 12).reshape(4, 3))
    optimizer = mg.optim.Adam([weight], lr=0.1)
    x = asarray(X.T.copy())

    def step(i: Tensor) -> Tensor:
        optimizer.zero_grad()
        y = F["dropout"](x @ weight, p=0.1)
        if loss in ("cross_entropy", "nll_loss"):
            value = F[loss](y, i)
        else:
            value = (F["embedding"](i, weight) if loss == "embedding" else mg.take(weight, i, axis=0)).sum() + y.sum()
        value.backward()
        optimizer.step()
        return value

    compiled = jit(step)
    good, bad = asarray([0, 1, 2]), asarray([0, 1, 7])
    for _ in range(3):
        compiled(good)

    def state() -> Any:
        assert weight.grad is not None
        kept = {name: np.asarray(x).tolist() for name, x in _leaves(optimizer.state_dict())}
        return weight.tolist(), weight.grad.tolist(), kept

    before, place = state(), mg.random.default_generator().state
    with pytest.raises(IndexingError):
        compiled(bad)
    assert state() == before
    assert mg.random.default_generator().state == place
    after = compiled(good).item()
    assert math.isfinite(after)


def _leaves(x: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(x, dict):
        return [leaf for key, each in x.items() for leaf in _leaves(each, f"{path}.{key}")]
    if isinstance(x, (list, tuple)):
        return [leaf for i, each in enumerate(x) for leaf in _leaves(each, f"{path}.{i}")]
    return [(path, x.numpy() if isinstance(x, Tensor) else x)]
