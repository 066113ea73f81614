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

from micrograd_cpu import objects  # noqa: E402
from micrograd_cpu.mathematics import FUNCTIONS, definition  # noqa: E402

DTYPES = {"float": np.float32, "double": np.float64}
INF, NAN = math.inf, math.nan


@cache
def compiled(op: str, type: str) -> Callable[..., Any]:
    """A function of arrays, through a loop that LLVM makes vectors of."""
    text, declared = definition(op, type)
    count = 2 if op == "pow" else 1
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
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (count + 1), ctypes.c_int64)(library.address("run"))

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
        "log1p": [np.exp(rng.uniform(-80, 80, count)), rng.uniform(-0.99999, 0, count)],
        "tanh": [rng.uniform(-20, 20, count)],
        "sin": [rng.uniform(-1e5, 1e5, count), np.arange(1, count) * np.pi / 2, rng.uniform(-1e12, 1e12, 50)],
        "erf": [rng.uniform(-6, 6, count)],
        "erfc": [rng.uniform(-6, 26 if wide else 9, count)],
    }
    more["cos"] = more["sin"]
    found = np.concatenate([*near, *more[op]]).astype(DTYPES[type])
    return np.abs(found) if op == "log" else found[found > -1] if op == "log1p" else found


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("op", sorted(set(FUNCTIONS) - {"pow"}))
def test_errors_are_below_two_units_in_the_last_place(op: str, type: str) -> None:
    x = points(op, type, 250)
    assert_near(compiled(op, type)(x), [getattr(mpmath, op)(mpmath.mpf(float(each))) for each in x], x, op, type)


def assert_near(found: Any, exact: Any, x: Any, op: str, type: str) -> None:
    dtype = DTYPES[type]
    with mpmath.workprec(200), np.errstate(all="ignore"):
        for got, e, at in zip(found, exact, x, strict=True):
            rounded = dtype(float(e))
            if np.isfinite(rounded) and rounded != 0:
                ulps = abs(mpmath.mpf(float(got)) - e) / mpmath.mpf(float(np.spacing(np.abs(rounded))))
                assert ulps < 2.0, f"{op}({at}) is {got}, not {rounded}: {float(ulps)} ulp"


@pytest.fixture(autouse=True)
def _digits() -> Any:
    with mpmath.workprec(200):
        yield


def test_powers_of_float32() -> None:
    rng = np.random.default_rng(0)
    x, y = np.exp(rng.uniform(-20, 20, 500)).astype("f"), rng.uniform(-4, 4, 500).astype("f")
    exact = [mpmath.power(mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in zip(x, y, strict=True)]
    assert_near(compiled("pow", "float")(x, y), exact, x, "pow", "float")


SPECIAL = {
    "exp": ((0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (1e4, INF), (-1e4, 0.0), (NAN, NAN)),
    "expm1": ((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (1e4, INF), (-1e4, -1), (NAN, NAN), (1e-44, 1e-44)),
    "log": ((0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (-INF, NAN), (NAN, NAN)),
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


def test_special_powers_are_those_of_numpy() -> None:
    edges = [0.0, -0.0, INF, -INF, NAN, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e30, -1e30, 3e38]
    x, y = (each.ravel() for each in np.meshgrid(np.array(edges, "f"), np.array(edges, "f")))
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    found = compiled("pow", "float")(x, y)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(found)[zeros], np.signbit(expected)[zeros])
