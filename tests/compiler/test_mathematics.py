"""Elementary functions in LLVM IR, against mpmath to the last digits, and their special values."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

llvmlite = pytest.importorskip("llvmlite")
mpmath = pytest.importorskip("mpmath")

import micrograd_core as mg  # noqa: E402
from micrograd_core import Device, Tensor, dtypes, jit  # noqa: E402
from micrograd_cpu import objects  # noqa: E402
from micrograd_cpu.kernels import KERNELS  # noqa: E402
from micrograd_cpu.mathematics import BINARY, FUNCTIONS, definition  # noqa: E402

DTYPES = {"float": np.float32, "double": np.float64}
INF, NAN = math.inf, math.nan


@cache
def compiled(op: str, type: str) -> Callable[..., Any]:
    """A function of arrays, through a loop that LLVM makes vectors of."""
    text, declared = definition(op, type)
    count = 2 if op.partition(".")[0] in BINARY else 1
    loads = "".join(
        f"  %p{i} = getelementptr {type}, ptr %a{i}, i64 %i\n  %x{i} = load {type}, ptr %p{i}\n" for i in range(count)
    )
    given = ", ".join(f"ptr %a{i}" for i in range(count))
    suffix = {"float": "f32", "double": "f64"}[type]
    ir = (
        "\n".join([text, *sorted(declared)])
        + f"""
define void @run({given}, ptr noalias %o, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
{loads}  %r = call {type} @micrograd.{op}.{suffix}({", ".join(f"{type} %x{i}" for i in range(count))})
  %q = getelementptr {type}, ptr %o, i64 %i
  store {type} %r, ptr %q
  %j = add i64 %i, 1
  %c = icmp slt i64 %j, %n
  br i1 %c, label %loop, label %done
done:
  ret void
}}
"""
    )
    library = objects.library(ir, ["run"])
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (count + 1), ctypes.c_int64)(library["run"])

    def call(*xs: Any) -> Any:
        arrays = [np.ascontiguousarray(x, DTYPES[type]) for x in xs]
        result = np.empty_like(arrays[0])
        function(*[x.ctypes.data for x in (*arrays, result)], result.size)
        assert library is not None  # which the code lives in
        return result

    return call


@pytest.fixture(autouse=True)
def _off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROGRAD_CACHE", "off")


def points(op: str, type: str, count: int) -> Any:
    """Where a function is hard: near 0, near its roots, over its whole range."""
    rng = np.random.default_rng(0)
    near = [rng.uniform(-2, 2, count), np.exp(rng.uniform(-30, 3, count)) * rng.choice([-1, 1], count)]
    wide = type == "double"
    more = {
        "exp": [rng.uniform(-700 if wide else -86, 709 if wide else 88, count)],
        "expm1": [rng.uniform(-40, 709 if wide else 88, count)],
        "log": [np.exp(rng.uniform(-80, 80, count)), rng.uniform(0.5, 2, count), np.array([3e-39, 1e-44])],
        "log2": [np.exp(rng.uniform(-80, 80, count)), rng.uniform(0.5, 2, count), np.array([3e-39, 1e-44])],
        "log10": [np.exp(rng.uniform(-80, 80, count)), rng.uniform(0.5, 2, count), np.array([3e-39, 1e-44])],
        "log1p": [np.exp(rng.uniform(-80, 80, count)), rng.uniform(-0.99999, 0, count)],
        "tanh": [rng.uniform(-20, 20, count)],
        "sin": [rng.uniform(-1e5, 1e5, count), np.arange(1, count) * np.pi / 2, rng.uniform(-1e12, 1e12, 50)],
        "erf": [rng.uniform(-6, 6, count)],
        "erfc": [rng.uniform(-6, 26 if wide else 9, count)],
    }
    more["cos"] = more["sin"]
    found = np.concatenate([*near, *more[op]]).astype(DTYPES[type])
    return np.abs(found) if op in ("log", "log2", "log10") else found[found > -1] if op == "log1p" else found


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("op", sorted(set(FUNCTIONS) - set(BINARY)))
def test_errors_are_below_two_units_in_the_last_place_or_one_where_parts_are_kept(op: str, type: str) -> None:
    x = points(op, type, 250)
    exact = {"log2": lambda x: mpmath.log(x, 2)}.get(op) or getattr(mpmath, op)
    assert_near(compiled(op, type)(x), [exact(mpmath.mpf(float(each))) for each in x], x, op, type)


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize(("op", "base"), [("log2", 2.0), ("log10", 10.0)])
def test_logarithms_of_powers_of_the_base_are_integers(op: str, base: float, type: str) -> None:
    n = np.arange(-37, 38)
    np.testing.assert_array_equal(compiled(op, type)([float(f"{base}e0") ** int(each) for each in n]), n)


def assert_near(found: Any, exact: Any, x: Any, op: str, type: str) -> None:
    dtype, bound = DTYPES[type], {"log2": 0.7, "log10": 0.7, "pow": 1.1}.get(op, 2.0)
    with mpmath.workprec(200), np.errstate(all="ignore"):
        for got, e, at in zip(found, exact, x, strict=True):
            rounded = dtype(float(e))
            if np.isfinite(rounded) and rounded != 0:
                ulps = abs(mpmath.mpf(float(got)) - e) / mpmath.mpf(float(np.spacing(np.abs(rounded))))
                assert ulps < bound, f"{op}({at}) is {got}, not {rounded}: {float(ulps)} ulp"


@pytest.fixture(autouse=True)
def _digits() -> Any:
    with mpmath.workprec(200):
        yield


@pytest.mark.parametrize("type", DTYPES)
def test_errors_of_powers_are_below_two_units_in_the_last_place(type: str) -> None:
    """Also where the result is large, so that it depends on digits of the logarithm that its dtype has not."""
    rng = np.random.default_rng(0)
    x = np.exp(np.concatenate([rng.uniform(-20, 20, 250), rng.uniform(-0.1, 0.1, 250), rng.uniform(-0.7, 0.7, 250)]))
    far = 7000 if type == "double" else 850
    y = np.concatenate([rng.uniform(-4, 4, 250), rng.uniform(-far, far, 250), rng.uniform(-far / 7, far / 7, 250)])
    x, y = x.astype(DTYPES[type]), y.astype(DTYPES[type])
    exact = [mpmath.power(mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in zip(x, y, strict=True)]
    assert_near(compiled("pow", type)(x, y), exact, x, "pow", type)


SPECIAL = {
    "exp": ((0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (1e4, INF), (-1e4, 0.0), (NAN, NAN)),
    "expm1": ((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (1e4, INF), (-1e4, -1), (NAN, NAN), (1e-44, 1e-44)),
    "log": ((0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (-INF, NAN), (NAN, NAN)),
    "log2": ((0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (-INF, NAN), (NAN, NAN)),
    "log10": ((0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (-INF, NAN), (NAN, NAN)),
    "log1p": (
        (0.0, 0.0),
        (-0.0, -0.0),
        (-1.0, -INF),
        (-2.0, NAN),
        (INF, INF),
        (-INF, NAN),
        (NAN, NAN),
        (-1e-44, -1e-44),
    ),
    "tanh": ((0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (1e4, 1), (NAN, NAN)),
    "sin": ((0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)),
    "cos": ((0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN), (NAN, NAN)),
    "erf": ((0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (1e4, 1), (NAN, NAN)),
    "erfc": ((0.0, 1), (INF, 0.0), (-INF, 2), (1e4, 0.0), (NAN, NAN)),
}


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("op", SPECIAL)
def test_special_values_are_those_of_the_standard(op: str, type: str) -> None:
    x, expected = np.array([*SPECIAL[op]] * 5, DTYPES[type]).T  # so many that there are vectors of them
    found = compiled(op, type)(x)
    np.testing.assert_array_equal(found, expected)
    finite = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[finite], np.signbit(expected)[finite])


EDGES = {
    "float": [0.0, -0.0, INF, -INF, NAN, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e30, -1e30, 3e38, 1e-44, -1e-44, 1e-38],
    "double": [0.0, -0.0, INF, -INF, NAN, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e300, -1e300, 1.7e308, 5e-324, -5e-324],
}  # fmt: skip
"""Special values, integers odd and even, and numbers with few digits."""


@pytest.mark.parametrize("type", DTYPES)
def test_special_powers_are_those_of_numpy(type: str) -> None:
    x, y = (each.ravel() for each in np.meshgrid(*[np.array(EDGES[type], DTYPES[type])] * 2))
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    found = compiled("pow", type)(x, y)
    np.testing.assert_allclose(found, expected, rtol=1e-6 if type == "float" else 1e-15)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(found)[zeros], np.signbit(expected)[zeros])


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("op", ["floor_divide", "remainder"])
def test_divisions_with_a_rest_are_those_of_the_kernels_to_the_last_bit(op: str, type: str) -> None:
    """Near an integer, beyond all digits, of zeros, infinities and NaN, with every combination of signs."""
    rng, dtype = np.random.default_rng(0), DTYPES[type]
    sizes = np.exp(rng.uniform(-60, 60, (2, 2000)))
    near = rng.uniform(0.1, 10, 2000), rng.integers(1, 50, 2000)
    x, y = (each.ravel() for each in np.meshgrid(*[np.array(EDGES[type])] * 2))
    x = np.concatenate([x, sizes[0], near[0].astype(dtype) * near[1], near[1] * 0.1, near[1]]).astype(dtype)
    y = np.concatenate([y, sizes[1], near[0], np.full(2000, 0.1), rng.integers(-9, 9, 2000)]).astype(dtype)
    signs = rng.choice([-1, 1], (2, x.size)).astype(dtype)
    x, y = x * signs[0], y * signs[1]
    with np.errstate(all="ignore"):
        expected = KERNELS[op](x, y)
    found = compiled(op, type)(x, y)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])
    with np.errstate(all="ignore"):
        close = ~(np.abs(x / y) > (2.0**22 if type == "float" else 2.0**51)) | (y == 0) | np.isinf(x)
    again = compiled(f"{op}.near", type)(x, y)  # what loops without branches compute, and what they leave to others
    np.testing.assert_array_equal(again[close], expected[close])


# ── of every dtype, in nests ─────────────────────────────────────────────────────────────────────────────────

INTEGERS = [x.name for x in dtypes.DTYPES.values() if x.is_integer]
HALVES = ["float16", "bfloat16"]


def every_pair(dtype: str) -> tuple[Tensor, Tensor]:
    """Of extremes, of what is near 0, and of some numbers between."""
    if dtype in HALVES:
        numbers: list[Any] = [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 2.5, -2.5, 7.0, -7.0, 0.1, -0.1, 3e4, -3e4, 6e-5]
    else:
        bits, unsigned = dtypes.DTYPES[dtype].bits, dtype.startswith("u")
        low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        numbers = [n for n in (low, low + 1, -7, -3, -2, -1, 0, 1, 2, 3, 7, 100, high - 1, high) if low <= n <= high]
    x, y = zip(*[(x, y) for x in numbers for y in numbers], strict=True)
    return tuple(mg.asarray(each, dtype=dtype, device=Device("cpu")) for each in (x, y))  # type: ignore[return-value]


def assert_same_bits(found: Tensor, expected: Tensor) -> None:
    assert found.dtype is expected.dtype
    one, other = found.astype("float64") if found.dtype.is_floating else found, expected
    other = other.astype("float64") if other.dtype.is_floating else other
    np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())
    if found.dtype.is_floating:
        numbers = ~np.isnan(other.detach().numpy())
        np.testing.assert_array_equal(
            np.signbit(one.detach().numpy())[numbers], np.signbit(other.detach().numpy())[numbers]
        )


@pytest.mark.parametrize("dtype", [*INTEGERS, *HALVES])
def test_divisions_of_every_dtype_are_those_of_the_kernels_and_one_nest(dtype: str) -> None:
    """Those by 0, and of the least number by -1, too."""
    x, y = every_pair(dtype)

    def both(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return mg.floor_divide(x, y), mg.remainder(x, y)

    compiled = jit(both)
    with np.errstate(all="ignore"):
        for found, expected in zip(compiled(x, y), both(x, y), strict=True):
            assert_same_bits(found, expected)
    assert compiled.source.count("define void @nest") == 1


@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers_of_integers_wrap_around_as_the_kernels_do(dtype: str) -> None:
    x, y = every_pair(dtype)

    def powers(x: Tensor, y: Tensor) -> list[Tensor]:
        of_numbers = [mg.pow(x, n) for n in (0, 1, 2, 3, 5, 8, 31, 63, 100)]
        return [*of_numbers, mg.pow(x, y), mg.pow(3, y)] if dtype.startswith("u") else of_numbers

    compiled = jit(powers)
    for found, expected in zip(compiled(x, y), powers(x, y), strict=True):
        assert_same_bits(found, expected)
    assert compiled.source.count("define void @nest") == 1


def test_a_negative_power_of_integers_is_refused_in_a_program_too() -> None:
    x, y = every_pair("int32")
    power = jit(lambda x, y: mg.pow(x, y))
    with pytest.raises(ValueError, match="negative integer powers"):
        mg.pow(x, y)
    with pytest.raises(ValueError, match="negative integer powers"):
        power(x, y)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_chain_with_logarithms_powers_and_rests_is_one_nest(dtype: str) -> None:
    x = mg.asarray(np.linspace(0.1, 9, 50).tolist(), dtype=dtype, device=Device("cpu"))

    def f(x: Tensor) -> Tensor:
        return mg.remainder(mg.log2(x) * mg.log10(x) + mg.pow(x, mg.sqrt(x)), x) + mg.floor_divide(x, 0.7)

    compiled = jit(f)
    tolerance = {"float16": 0.1, "float32": 1e-3, "float64": 1e-11}[dtype]
    np.testing.assert_allclose(compiled(x).detach().numpy(), f(x).detach().numpy(), atol=tolerance)
    assert compiled.source.count("define void @nest") == 1
