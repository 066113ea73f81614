"""Values, first and second derivatives at the edges of domains: numbers written out, and generated against torch."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, Value, asarray, grad, gradgradcheck, jit, ones, scatter_reduce, vmap, zeros
from micrograd_core.array import functions
from micrograd_core.conformance import forms, values
from micrograd_core.conformance.cases import ROUNDING, rounded
from micrograd_core.errors import BackendNotFound, DeviceUnavailable
from micrograd_core.ops import TABLE
from tests.ops.definitions import DEFINITIONS, defined

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:.*degrees of freedom")

F = functions.FUNCTIONS
INF, NAN, LN2 = math.inf, math.nan, math.log(2)
Function = Callable[..., Tensor]


@pytest.fixture(params=["cpu", "rawbuffer:0", "strict:0"])
def anywhere(request: pytest.FixtureRequest) -> Device:
    """NumPy's kernels, compositions from the core kernels, and another array library."""
    try:
        return Device(request.param)
    except (BackendNotFound, DeviceUnavailable):
        pytest.skip(f"{request.param} is not installed")


def total(f: Function) -> Function:
    """Results added up with weights 1, 2, …, so that no derivative vanishes by symmetry."""

    def weighted(*xs: Any) -> Tensor:
        y = f(*xs)
        weights = np.arange(1.0, y.size + 1).reshape(y.shape)
        return (y * asarray(weights, dtype=y.dtype, device=xs[0].device)).sum()

    return weighted


def first(f: Function, xs: list[Any], device: Device, atol: float = 1e-300) -> list[Any]:
    """Gradients, the same by kernels, by recorded operations and inside `vmap`."""
    operands = [Tensor(x, device=device) for x in xs]
    f(*operands).backward()
    by_kernels = [x.grad.numpy() for x in operands]  # type: ignore[union-attr]
    operands = [Tensor(x, device=device) for x in xs]
    f(*operands).backward(create_graph=True)
    recorded = [x.grad.detach().numpy() for x in operands]  # type: ignore[union-attr]
    batch = [asarray(np.stack([x, x]), device=device) for x in xs]
    batched = [g.numpy()[1] for g in vmap(grad(f, argnums=tuple(range(len(xs)))))(*batch)]
    for others in (recorded, batched):
        for a, b in zip(by_kernels, others, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=atol)
    return by_kernels


def second(f: Function, xs: list[Any], device: Device) -> list[list[Any]]:
    """Derivatives of the sum of each gradient."""
    numbers = tuple(range(len(xs)))
    operands = [Tensor(x, device=device) for x in xs]

    def along(i: int) -> Function:
        return lambda *ys: grad(f, argnums=numbers)(*ys)[i].sum()

    return [[g.detach().numpy() for g in grad(along(i), argnums=numbers)(*operands)] for i in numbers]


def same(found: Any, expected: Any, rtol: float = 1e-12, atol: float = 1e-15) -> Any:
    return np.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)


# ── numbers written out ──────────────────────────────────────────────────────────────────────────────────────

# name, operands: value, gradients, second derivatives (None: whatever)
POINTS: list[tuple[str, tuple[float, ...], float, tuple[float, ...], Any]] = [
    ("logaddexp", (2.0, 2.0), 2 + LN2, (0.5, 0.5), ((0.25, -0.25), (-0.25, 0.25))),
    ("logaddexp", (0.0, -0.0), LN2, (0.5, 0.5), ((0.25, -0.25), (-0.25, 0.25))),
    ("logaddexp", (INF, INF), INF, (0.5, 0.5), ((0, 0), (0, 0))),
    ("logaddexp", (-INF, -INF), -INF, (0.5, 0.5), ((0, 0), (0, 0))),
    ("logaddexp", (-INF, 1.0), 1.0, (0, 1), ((0, 0), (0, 0))),
    ("hypot", (0.0, 0.0), 0.0, (0, 0), ((0, 0), (0, 0))),
    ("hypot", (3.0, 0.0), 3.0, (1, 0), ((0, 0), (0, 1 / 3))),
    ("atan2", (0.0, 0.0), 0.0, (0, 0), ((0, 0), (0, 0))),
    ("atan2", (1.0, 0.0), math.pi / 2, (0, -1), ((0, 1), (1, 0))),
    ("acosh", (1.0,), 0.0, (INF,), ((-INF,),)),
    ("acosh", (1e300,), math.acosh(1e300), (1e-300,), ((0,),)),
    ("asin", (1.0,), math.pi / 2, (INF,), ((INF,),)),
    ("asin", (-1.0,), -math.pi / 2, (INF,), ((-INF,),)),
    ("asin", (0.0,), 0.0, (1,), ((0,),)),
    ("asin", (1e-20,), 1e-20, (1,), ((1e-20,),)),
    ("acos", (1.0,), 0.0, (-INF,), ((-INF,),)),
    ("acos", (-1.0,), math.pi, (-INF,), ((INF,),)),
    ("atanh", (1.0,), INF, (INF,), ((INF,),)),
    ("atanh", (-1.0,), -INF, (INF,), ((-INF,),)),
    ("atan", (1.7e308,), math.pi / 2, (0,), ((0,),)),
    ("pow", (NAN, 0.0), 1.0, (0, NAN), None),
    ("pow", (0.0, 0.0), 1.0, (0, 0), ((0, 0), (0, 0))),
    ("pow", (0.0, 1.0), 0.0, (1, 0), ((0, 1), (0, 0))),
    ("pow", (0.0, 2.0), 0.0, (0, 0), ((2, 0), (0, 0))),
    ("pow", (0.0, 0.5), 0.0, (INF, 0), ((-INF, NAN), (NAN, 0))),
    ("pow", (0.0, -1.0), INF, (-INF, -INF), ((INF, INF), (INF, INF))),
    ("pow", (0.0, -2.0), INF, (-INF, -INF), ((INF, INF), (INF, INF))),
    ("pow", (2.0, 0.0), 1.0, (0, LN2), ((0, 0.5), (0.5, LN2**2))),
    ("pow", (-2.0, 3.0), -8.0, (12, NAN), ((-12, NAN), (NAN, NAN))),
    ("pow", (-2.0, -1.0), -0.5, (-0.25, NAN), ((-0.25, NAN), (NAN, NAN))),
    ("pow", (-2.0, 0.0), 1.0, (0, NAN), None),
    ("pow", (INF, 0.0), 1.0, (0, INF), None),
    ("maximum", (1.0, 1.0), 1.0, (0.5, 0.5), ((0, 0), (0, 0))),
    ("divide", (1.0, 0.0), INF, (INF, -INF), ((0, -INF), (-INF, INF))),
    ("sqrt", (0.0,), 0.0, (INF,), ((-INF,),)),
    ("log", (0.0,), -INF, (INF,), ((-INF,),)),
    ("relu", (0.0,), 0.0, (0,), ((0,),)),
    ("abs", (0.0,), 0.0, (0,), ((0,),)),
]


@pytest.mark.parametrize(
    ("name", "xs", "value", "slopes", "curvature"), POINTS, ids=[f"{name}{xs}" for name, xs, *_ in POINTS]
)
def test_derivatives_at_a_point(
    name: str, xs: tuple[float, ...], value: float, slopes: Any, curvature: Any, anywhere: Device
) -> None:
    arrays = [np.array(x) for x in xs]
    assert same(F[name](*(asarray(x, device=anywhere) for x in arrays)).numpy(), value)
    assert same(first(F[name], arrays, anywhere), slopes).all()
    if curvature is not None:
        assert same(second(F[name], arrays, anywhere), curvature).all()


@pytest.mark.parametrize(
    ("x", "n", "value", "slope", "curvature"),
    [
        (NAN, 0, 1, 0, 0), (0.0, 0, 1, 0, 0), (INF, 0.0, 1, 0, 0), (0.0, 1, 0, 1, 0), (0.0, 2, 0, 0, 2),
        (0.0, 0.5, 0, INF, -INF), (0.0, -1, INF, -INF, INF), (-2.0, 3, -8, 12, -12), (-2.0, -1, -0.5, -0.25, -0.25),
        (-2.0, 0.5, NAN, NAN, NAN),
    ],
)  # fmt: skip
def test_powers_with_a_number_as_the_exponent(
    x: float, n: float, value: float, slope: float, curvature: float, anywhere: Device
) -> None:
    def f(y: Tensor) -> Tensor:
        return y**n

    assert same(f(asarray(x, dtype="float64", device=anywhere)).numpy(), value)
    assert same(first(f, [np.array(x)], anywhere), slope)
    assert same(second(f, [np.array(x)], anywhere), curvature)


def test_powers_of_the_number_0(anywhere: Device) -> None:
    n = np.array([-1.0, 0.0, 2.0, NAN])
    assert same(first(lambda m: (0**m).sum(), [n], anywhere), [-INF, 0, 0, NAN]).all()
    x = Tensor(n.astype("float32"), device=anywhere)
    (0.0**x).sum().backward()
    assert x.grad is not None
    assert str(x.grad.dtype) == "float32"


@pytest.mark.parametrize("compiled", [False, True])
def test_powers_of_scalars_follow_the_same_rule(compiled: bool) -> None:
    def f(x: Value, n: Value) -> Value:
        return x**n

    g = jit(f) if compiled else f
    for x, n, slopes in ((0.0, -1.0, (-INF, -INF)), (0.0, 0.0, (0, 0)), (0.0, 2.0, (0, 0)), (NAN, 0.0, (0, NAN)),
                         (2.0, 0.0, (0, LN2))):  # fmt: skip
        a, b = Value(x), Value(n)
        g(a, b).backward()
        assert same([a.grad, b.grad], slopes).all(), (x, n)


@pytest.mark.parametrize("dtype", ["complex128", "float64"])
def test_second_derivatives_of_powers_where_exponents_are_0(dtype: str) -> None:
    turn = 0.3j if dtype == "complex128" else 0
    x = Tensor(np.array([1.2, 0.7, 2.0, 1.5]) + turn, dtype=dtype)
    n = Tensor(np.array([0.0, 1.0, 2.0, -0.5]), dtype=dtype)
    assert gradgradcheck(F["pow"], [x, n])


def test_complex_powers_of_0_and_nan() -> None:
    z = Tensor(np.array([complex(NAN, 0), complex(0, NAN), 0j, 1j]), dtype="complex128")
    n = Tensor(np.zeros(4, "complex128"))
    y = z**n
    assert y.tolist()[2:] == [1, 1]
    F["real"](y.sum()).backward()
    assert z.grad is not None
    assert z.grad.tolist() == [0, 0, 0, 0]


# reduction, its parameters, x: value, gradient, derivative of the gradient's elements with weights 1, 2, …
VECTORS: list[tuple[str, dict[str, Any], list[float], float, list[float], list[float]]] = [
    ("var", {}, [2.5], 0, [0], [0]),
    ("std", {}, [2.5], 0, [0], [0]),
    ("std", {}, [2.0, 2.0, 2.0], 0, [0, 0, 0], [0, 0, 0]),
    ("std", {"correction": 1}, [0.0, 0.0], 0, [0, 0], [0, 0]),
    ("var", {}, [2.0, 2.0], 0, [0, 0], [-0.5, 0.5]),
    ("max", {}, [1.0, 3.0, 3.0], 3, [0, 0.5, 0.5], [0, 0, 0]),
    ("max", {}, [NAN, 1.0, 2.0], NAN, [1, 0, 0], [0, 0, 0]),
    ("min", {}, [1.0, NAN, NAN], NAN, [0, 0.5, 0.5], [0, 0, 0]),
    ("max", {}, [INF, INF, 1.0], INF, [0.5, 0.5, 0], [0, 0, 0]),
    ("logsumexp", {}, [1.0, 1.0], 1 + LN2, [0.5, 0.5], [-0.25, 0.25]),
    ("logsumexp", {}, [INF, 1.0, -INF], INF, [1, 0, 0], [0, 0, 0]),
    ("logsumexp", {}, [INF, INF, 1.0], INF, [0.5, 0.5, 0], [0, 0, 0]),
    ("logsumexp", {}, [-INF, -INF], -INF, [0.5, 0.5], [0, 0]),
    ("logsumexp", {}, [-INF, 1.0], 1, [0, 1], [0, 0]),
    ("logsumexp", {}, [1e300, 1e300], 1e300, [0.5, 0.5], [-0.25, 0.25]),
    ("vector_norm", {}, [0.0, 0.0], 0, [0, 0], [0, 0]),
    ("vector_norm", {"ord": 3}, [0.0, 0.0], 0, [0, 0], [0, 0]),
    ("vector_norm", {"ord": -1}, [0.0, 2.0, 3.0], 0, [0, 0, 0], [0, 0, 0]),
    ("vector_norm", {"ord": -1}, [INF, 1.0, 1.0], 0.5, [0, 0.25, 0.25], [0, 0.25, -0.25]),
    ("vector_norm", {"ord": 0.5}, [0.0, 4.0], 4, [0, 1], [0, 0]),
    ("prod", {}, [0.0, 2.0, 3.0], 0, [6, 0, 0], [12, 3, 2]),
    ("prod", {}, [0.0, 0.0, 3.0], 0, [0, 0, 0], [6, 3, 0]),
]


@pytest.mark.parametrize(
    ("name", "params", "x", "value", "slopes", "curvature"), VECTORS, ids=[f"{v[0]}{v[1] or ''}{v[2]}" for v in VECTORS]
)
def test_derivatives_of_reductions(
    name: str, params: Any, x: Any, value: float, slopes: Any, curvature: Any, anywhere: Device
) -> None:
    def f(y: Tensor) -> Tensor:
        return F[name](y, **params)

    data = np.array(x)
    assert same(f(asarray(data, device=anywhere)).numpy(), value)
    assert same(first(f, [data], anywhere)[0], slopes).all()
    assert same(grad(total(grad(f)))(Tensor(data, device=anywhere)).detach().numpy(), curvature).all()


# what stands in the way of the cotangent, operands, which of them get it: 1, half of it, or 0
BRANCHES: dict[str, tuple[Function, list[list[float]], list[list[float]]]] = {
    "where": (lambda x, y: F["where"](x > y, x, y), [[1.0, 2.0], [2.0, 1.0]], [[0, 1], [1, 0]]),
    "clip": (lambda x: F["clip"](x, -1.0, 1.0), [[-2.0, 0.0, 2.0, 1.0]], [[0, 1, 0, 1]]),
    "clip, bounds": (F["clip"], [[-2.0, 0.0], [-1.0, -1.0], [1.0, 1.0]], [[0, 1], [1, 0], [0, 0]]),
    "relu": (F["relu"], [[-1.0, 0.0, 1.0]], [[0, 0, 1]]),
    "hardtanh": (F["hardtanh"], [[-2.0, 0.0, 1.0]], [[0, 1, 0]]),
    "maximum": (F["maximum"], [[1.0, 2.0, 3.0], [2.0, 1.0, 3.0]], [[0, 1, 0.5], [1, 0, 0.5]]),
    "minimum": (F["minimum"], [[1.0, 2.0, 3.0], [2.0, 1.0, 3.0]], [[1, 0, 0.5], [0, 1, 0.5]]),
    "max": (F["max"], [[1.0, 3.0, 2.0]], [[0, 1, 0]]),
    "max, axis": (lambda x: F["max"](x, axis=0), [[1.0, 3.0, 3.0]], [[0, 0.5, 0.5]]),
    "min": (F["min"], [[1.0, 3.0, 3.0]], [[1, 0, 0]]),
    "std": (F["std"], [[2.0, 2.0]], [[0, 0]]),
    "std of one": (F["std"], [[2.0]], [[0]]),
    "vector_norm": (lambda x: F["vector_norm"](x, ord=3), [[0.0, 0.0]], [[0, 0]]),
}


@pytest.mark.parametrize("cotangent", [INF, -INF, NAN, 2.0])
@pytest.mark.parametrize("name", BRANCHES)
def test_no_cotangent_leaks_through_a_dead_branch(name: str, cotangent: float, anywhere: Device) -> None:
    f, xs, shares = BRANCHES[name]
    for create_graph in (False, True):
        operands = [Tensor(np.array(x), device=anywhere) for x in xs]
        y = f(*operands)
        y.backward(asarray(np.full(y.shape, cotangent), device=anywhere), create_graph=create_graph)
        for x, share in zip(operands, shares, strict=True):
            assert x.grad is not None
            expected = [s * cotangent if s else 0.0 for s in share]
            np.testing.assert_array_equal(x.grad.detach().numpy(), expected)


# ── generated: all elementwise operations and reductions, against torch ──────────────────────────────────────

EXHAUSTIVE = os.environ.get("MICROGRAD_EXHAUSTIVE") == "1"
HUGE, TINY = 1.7976931348623157e308, 5e-324
LINE = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 30.0, -30.0, 800.0, -800.0, 1e300, -1e300, 1e-300, HUGE, -HUGE,
        TINY, INF, -INF, NAN]  # fmt: skip
PLANE = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, INF, -INF, NAN, 1e300, -1e300]
if EXHAUSTIVE:
    PLANE += [-0.5, -3.0, 30.0, -30.0, 800.0, 1e-300, -1e-300, HUGE, TINY]
LINE_NAMES = (
    "negative positive square reciprocal relu floor ceil trunc round exp expm1 log log1p log2 log10 sqrt sigmoid sin "
    "cos tan asin acos atan sinh cosh tanh asinh acosh atanh abs sign erf erfc leaky_relu elu gelu silu mish hardtanh "
    "softplus log_sigmoid"
).split()
PLANE_NAMES = ("add subtract multiply divide pow maximum minimum hypot remainder copysign logaddexp atan2").split()
SPELT = {"log_sigmoid": "logsigmoid"}


def wide(*xs: Any) -> Any:
    """Where squares, of which many of torch's derivatives are made, leave the range of float64."""
    size = np.max(np.abs(xs), axis=0)
    return (size > 1e150) & (size < INF) | (size < 1e-150) & (size > 0)


# Where we differ from torch on purpose, as a function of the operands.
DIFFERENT: dict[str, tuple[Callable[..., Any], str]] = {
    "sign": (np.isnan, "NaN of NaN, as in the standard; torch's is 0"),
    "acosh": (np.isinf, "torch squares x, and multiplies the infinity by 0"),
    "elu": (lambda x: x == 0, "the second derivative jumps; ours is the mean of both sides"),
    "mish": (lambda x: x > 700, "torch's exponential overflows"),
    "hypot": (lambda x, y: (x == 0) & (y == 0), "0 at the origin, where torch's is NaN"),
    "atan2": (lambda x, y: (x == 0) & (y == 0) | wide(x, y), "0 at the origin, where torch's is NaN; it squares x"),
    "logaddexp": (lambda x, y: ~(np.abs(np.subtract(x, y)) < 700), "torch's exponentials overflow; infinities tie"),
    "copysign": (lambda x, y: (np.abs(x) < 1e-300) | np.isinf(x), "torch divides by x"),
    "remainder": (
        lambda x, y: np.isinf(y) | np.isinf(x) | (np.abs(x) > 1e15 * np.abs(y)) | (np.abs(x) == HUGE),
        "the quotient is that of the standard, floor(x / y): -0 where torch takes -1; and it has digits",
    ),
    "pow": (
        lambda x, n: (n == 0) | (x == 0) & (n > 0) | (np.abs(x) == TINY),
        "torch takes 0 for the mixed derivative 1 / x at n == 0, and 0 times infinity for those of 0**n; ours has "
        "no finite 1 / x of subnormals",
    ),
}


def by_torch(torch: Any, f: Function, xs: list[Any]) -> tuple[Any, list[Any], list[list[Any]]]:
    """Value, gradients and second derivatives, as `first` and `second` give them."""
    ys = [torch.tensor(x, requires_grad=True) for x in xs]
    result = f(*ys)

    def numbers(g: Any, y: Any) -> Any:
        return torch.zeros_like(y).numpy(force=True) if g is None else g.numpy(force=True)

    if not result.requires_grad:
        slopes = [None] * len(ys)
    else:
        weights = torch.arange(1.0, result.numel() + 1, dtype=torch.float64).reshape(result.shape)
        loss = (result * weights).sum() if len(xs) == 1 and f.__name__ == "reduced" else result.sum()
        slopes = torch.autograd.grad(loss, ys, create_graph=True, allow_unused=True)
    curvature = []
    for g in slopes:
        again = [None] * len(ys)
        if g is not None and g.requires_grad:
            again = torch.autograd.grad(g.sum(), ys, retain_graph=True, allow_unused=True)
        curvature.append([numbers(h, y) for h, y in zip(again, ys, strict=True)])
    return numbers(result.detach(), ys[0]), [numbers(g, y) for g, y in zip(slopes, ys, strict=True)], curvature


@pytest.mark.parametrize("name", LINE_NAMES + PLANE_NAMES)
def test_elementwise_derivatives_equal_torchs(name: str, anywhere: Device) -> None:
    torch = pytest.importorskip("torch")
    spelt = SPELT.get(name, name)
    theirs = getattr(torch, spelt, None) or getattr(torch.nn.functional, spelt)
    if name == "softplus":  # torch's own is linear from 20 on
        theirs = lambda x: -torch.nn.functional.logsigmoid(-x)  # noqa: E731
    xs = [np.array(LINE)] if name in LINE_NAMES else [np.array(x) for x in zip(*product(PLANE, PLANE), strict=True)]
    value, slopes, curvature = by_torch(torch, theirs, xs)
    found = F[name](*(asarray(x, device=anywhere) for x in xs)).numpy()
    lost = np.isnan(found)  # derivatives of what is NaN are not compared
    different = DIFFERENT[name][0](*xs) if name in DIFFERENT else np.zeros(found.shape, bool)

    def f(*ys: Tensor) -> Tensor:
        return F[name](*ys).sum()

    def compare(what: str, ours: Any, torchs: Any, left_out: Any) -> Any:
        left_out = left_out | wide(*xs) & np.isnan(torchs)
        agree = same(ours, torchs, rtol=1e-9)
        wrong = np.flatnonzero(~agree & ~left_out & ~different)
        points = [(tuple(float(x[i]) for x in xs), float(ours[i]), float(torchs[i])) for i in wrong]
        assert not points, f"{what} at (operands, ours, torch's): {points[:5]}"
        return ~agree & ~left_out

    differs = compare("value", found, value, np.zeros(found.shape, bool))
    for i, g in enumerate(first(f, xs, anywhere)):
        differs |= compare(f"derivative {i}", g, slopes[i], lost)
    for i, row in enumerate(second(f, xs, anywhere)):
        for j, h in enumerate(row):
            differs |= compare(f"derivative {i}, {j}", h, curvature[i][j], lost)
    assert differs.any() == (name in DIFFERENT) or not anywhere.is_cpu(), (
        "a difference that is no more does not belong into the table"
    )


ROWS = {
    "distinct": [1.0, 3.0, -2.0], "tied": [1.0, 3.0, 3.0], "all tied": [2.0, 2.0, 2.0], "zeros": [0.0, 0.0, 0.0],
    "one zero": [0.0, 2.0, 3.0], "two zeros": [0.0, 0.0, 3.0], "signed zeros": [-0.0, 0.0, 1.0], "one": [2.5],
    "one, zero": [0.0], "infinite": [INF, 1.0, 2.0], "-infinite": [-INF, 1.0, 2.0], "infinities": [INF, INF, 1.0],
    "-infinities": [-INF, -INF, 1.0], "all -inf": [-INF, -INF, -INF], "both": [INF, -INF, 1.0], "nan": [NAN, 1.0, 2.0],
    "one, nan": [NAN], "one, infinite": [INF], "large": [1000.0, 999.0, -1000.0], "huge": [1e300, 1e300, -1e300],
    "tiny": [1e-300, -1e-300, TINY],
}  # fmt: skip
SCALED = {"huge", "tiny"}
INFINITE = {"infinite", "-infinite", "infinities", "-infinities", "all -inf", "both", "one, infinite"}
NULL = {"zeros", "one, zero"}
WITH_ZERO = NULL | {"one zero", "two zeros", "signed zeros"}
REDUCTIONS: dict[str, tuple[Function, Callable[..., Any], set[str], str]] = {
    "sum": (F["sum"], lambda torch, x: x.sum(), set(), ""),
    "mean": (F["mean"], lambda torch, x: x.mean(), set(), ""),
    "max": (F["max"], lambda torch, x: x.max(), set(), ""),
    "min": (F["min"], lambda torch, x: x.min(), set(), ""),
    "max, axis": (lambda x: F["max"](x, axis=0), lambda torch, x: x.amax(0), set(), ""),
    "min, axis": (lambda x: F["min"](x, axis=0), lambda torch, x: x.amin(0), set(), ""),
    "var": (F["var"], lambda torch, x: x.var(correction=0), set(), ""),
    "var, 1": (lambda x: F["var"](x, correction=1), lambda torch, x: x.var(correction=1), set(), ""),
    "std": (F["std"], lambda torch, x: x.std(correction=0), set(), ""),
    "std, 1": (lambda x: F["std"](x, correction=1), lambda torch, x: x.std(correction=1), set(), ""),
    "softmax": (F["softmax"], lambda torch, x: x.softmax(0), set(), ""),
    "log_softmax": (F["log_softmax"], lambda torch, x: x.log_softmax(0), set(), ""),
    "cumulative_sum": (F["cumulative_sum"], lambda torch, x: x.cumsum(0), set(), ""),
    "prod": (F["prod"], lambda torch, x: x.prod(), INFINITE | SCALED, "torch divides the product by x"),
    "cumulative_prod": (
        F["cumulative_prod"], lambda torch, x: x.cumprod(0), INFINITE | SCALED, "torch divides the product by x",
    ),
    "logsumexp": (
        F["logsumexp"], lambda torch, x: x.logsumexp(0), INFINITE | {"huge"},
        "torch's derivative is exp(x - result): NaN between infinities, without digits of a large result",
    ),
    **{
        f"vector_norm, {ord}": (
            lambda x, ord=ord: F["vector_norm"](x, ord=ord),
            lambda torch, x, ord=ord: torch.linalg.vector_norm(x, ord=ord),
            apart,
            "torch's powers overflow and vanish, and are 0 times infinity at 0",
        )
        for ord, apart in (
            (1, set()), (2, NULL | SCALED), (3, SCALED), (1.5, WITH_ZERO | SCALED), (0.5, WITH_ZERO | SCALED),
            (-1, WITH_ZERO | SCALED), (INF, set()), (-INF, set()),
        )
    },
}  # fmt: skip


CANCELLED = 1e-15
"""What slopes that cancel leave, as ``1 - 3 * (1 / 3)`` does: the order of additions decides."""


@pytest.mark.parametrize("name", REDUCTIONS)
def test_derivatives_of_reductions_equal_torchs(name: str, anywhere: Device) -> None:
    torch = pytest.importorskip("torch")
    f, theirs, apart, _ = REDUCTIONS[name]

    def reduced(x: Any) -> Any:
        return theirs(torch, x)

    different = set()
    for row, numbers in ROWS.items():
        data = np.array(numbers)
        value, slopes, curvature = by_torch(torch, reduced, [data])
        found = f(asarray(data, device=anywhere)).numpy()
        agree = same(found, value).all()
        if not np.isnan(found).any():
            agree &= same(first(total(f), [data], anywhere, atol=CANCELLED), slopes, rtol=1e-9, atol=CANCELLED).all()
            agree &= same(second(total(f), [data], anywhere)[0], curvature[0], rtol=1e-9, atol=1e-12).all()
        if not agree:
            different.add(row)
    assert different <= apart
    assert bool(different) == bool(apart), "a difference that is no more does not belong into the table"


# ── complex numbers, against NumPy ───────────────────────────────────────────────────────────────────────────

PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, INF, -INF, NAN, 1e300, 1e-300]
COMPLEX = {name: name for name in (
    "negative positive square reciprocal exp log log1p log2 log10 sqrt sin cos tan sinh cosh abs sign real imag conj "
    "round isnan isinf isfinite"
).split()} | {a: f"arc{a[1:]}" for a in ("asin", "acos", "atan", "asinh", "acosh", "atanh")}  # fmt: skip


def equal_parts(found: Any, expected: Any) -> None:
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(found, part), getattr(expected, part), rtol=1e-13, atol=0)


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_functions_at_special_values_are_numpys(name: str, dtype: str) -> None:
    z = np.array([complex(a, b) for a in PARTS for b in PARTS], dtype)
    equal_parts(F[name](asarray(z)).numpy(), getattr(np, COMPLEX[name])(z))


@pytest.mark.parametrize("name", ["expm1", "tanh"])
def test_two_complex_functions_follow_the_standard_where_numpy_does_not(name: str) -> None:
    """C99's special cases, which test_elementwise.py spells out: where NumPy loses an infinity or a real NaN."""
    z = np.array([complex(a, b) for a in PARTS for b in PARTS])
    found, numpys = F[name](asarray(z)).numpy(), getattr(np, name)(z)
    where = (np.isinf(z) | (z.real > 700)) | (np.isnan(z.real) & (z.imag == 0))
    equal_parts(found[~where], numpys[~where])
    assert F["expm1"](asarray(complex(NAN, 0.0))).numpy().imag == 0


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "pow"])
def test_complex_arithmetic_at_special_values_is_numpys(name: str) -> None:
    z = np.array([complex(a, b) for a in (0.0, -0.0, 1.0, INF, NAN, -2.5) for b in (0.0, -0.0, 1.0, -INF, NAN)])
    x, y = (np.array(column) for column in zip(*product(z, z), strict=True))
    numpys = {"pow": np.power}.get(name) or getattr(np, name)
    equal_parts(F[name](asarray(x), asarray(y)).numpy(), numpys(x, y))
    for scalar in (0, 1, 2, -1, 0.5, 1j, 0j):
        equal_parts(F[name](asarray(z), scalar).numpy(), numpys(z, scalar))
        equal_parts(F[name](scalar, asarray(z)).numpy(), numpys(scalar, z))


def test_copies_of_complex_infinities(anywhere: Device) -> None:
    if anywhere.type == "rawbuffer":
        pytest.skip("it has no complex numbers")
    z = np.array([complex(0, INF), complex(-0.0, NAN)])
    equal_parts(F["positive"](asarray(z, device=anywhere)).numpy(), z)


def test_large_arguments(anywhere: Device) -> None:
    x = np.array([1e300, -1e22, HUGE, 12345.678])
    for name in ("cos", "sin", "log1p"):
        np.testing.assert_allclose(
            F[name](asarray(abs(x), device=anywhere)).numpy(), getattr(np, name)(abs(x)), rtol=1e-12
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted({*forms.ELEMENTWISE} & DEFINITIONS.keys()))
def test_the_suite_holds_special_numbers_against_the_definition(name: str, dtype: str) -> None:
    """It computes with compositions what NumPy lacks."""
    op = TABLE[name]
    arrays = values.pairs(op, dtype)
    if not all("real floating" in op.accepted(i) for i in range(op.operands)) or op.separate:
        return
    found = values.defined(op, dtype, arrays)
    expected = rounded(defined(op, *(x.astype("float64") for x in arrays)), dtype).astype("float64")
    tiny = float(np.finfo(dtype).smallest_normal)
    np.testing.assert_allclose(found, expected, rtol=32 * ROUNDING.get(dtype, 2.0**-52), atol=8 * tiny)


# ── an index that names no element ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", [4, -5])
@pytest.mark.parametrize("run", ["eager", "jit", "vmap"])
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin", "mean", "replace"])
def test_scatter_writes_nothing_for_an_index_beyond_its_axis(reduce: str, run: str, place: int) -> None:
    x, src = zeros((2, 3, 4)), ones((2, 1, 2))

    def scattered(x: Tensor, index: Tensor, src: Tensor) -> Tensor:
        return scatter_reduce(x, -1, index, src, reduce)

    index = asarray([[[3, place]], [[-1, 0]]])
    if run == "vmap":  # nothing is read there: a write beyond has no effect
        found, kept = vmap(scattered)(x, index, src).numpy(), scattered(x, asarray([[[3, 3]], [[-1, 0]]]), src).numpy()
        at = np.arange(4) != 3
        np.testing.assert_array_equal(found[..., at], kept[..., at])
        return
    wrapped = jit(scattered) if run == "jit" else scattered
    for _ in range(2):  # the first call of `jit` is not like the others
        with pytest.raises(IndexError, match=rf"index {place} is out of range for axis \d of length 4"):
            wrapped(x, index, src)
