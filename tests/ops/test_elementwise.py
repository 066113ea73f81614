"""The elementwise functions of the array API at the edges: special values, stable forms, kinks; torch's gradients."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, asarray, gradcheck
from micrograd_core.array import functions
from micrograd_core.interpreters.raw import Kernels
from micrograd_core.ops import CORE_KERNELS, TABLE
from micrograd_cpu.storage import CPUBackend

F = functions.FUNCTIONS
INF, NAN = math.inf, math.nan
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-300, 1e300, -1e300, INF, -INF, NAN]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def composed(name: str, *operands: Any) -> Any:
    """By the composition, on cpu, whatever kernels there are."""
    device = Device("cpu")
    handles = [asarray(x, dtype="float64")._handle if isinstance(x, list) else x for x in operands]
    compose = TABLE[name].compose
    assert compose is not None
    with np.errstate(all="ignore"):  # nobody calls it again whose warnings were withheld
        return np.asarray(compose(device.kernels, *handles))


def same(found: Any, expected: Any, rtol: float = 4e-15) -> None:
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=0)
    zero = np.asarray(expected) == 0
    np.testing.assert_array_equal(np.signbit(found)[zero], np.signbit(expected)[zero])


UNARY = {
    "trunc": np.trunc, "ceil": np.ceil, "round": np.round, "sinh": np.sinh, "tanh": np.tanh, "asinh": np.arcsinh,
    "atan": np.arctan, "atanh": np.arctanh, "expm1": np.expm1, "log1p": np.log1p, "reciprocal": np.reciprocal,
    "cosh": np.cosh, "acosh": np.arccosh, "asin": np.arcsin, "acos": np.arccos, "log2": np.log2, "log10": np.log10,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_compositions_at_special_values(name: str) -> None:
    x = [*EDGES, 1e-8, -1e-8, 25.0, 700.0, 710.0, -710.4, 0.99, 1.01]
    same(composed(name, x), UNARY[name](np.array(x)))


BINARY = {
    "atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign, "logaddexp": np.logaddexp,
    "nextafter": np.nextafter, "remainder": np.remainder,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_compositions_of_pairs_at_special_values(name: str) -> None:
    edges = [x for x in EDGES if name != "remainder" or abs(x) in (0, INF) or 1e-10 < abs(x) < 1e10]
    x, y = (list(column) for column in zip(*product(edges, edges), strict=True))
    expected = BINARY[name](np.array(x), np.array(y))
    found = composed(name, x, y)
    kept = ~(np.isnan(np.array(y)) if name == "copysign" else np.zeros(len(x), bool))  # no arithmetic tells NaN's sign
    same(found[kept], expected[kept])


@pytest.mark.parametrize("name", ["floor_divide", "native"])
def test_floor_division_is_the_floor_of_the_quotient(name: str) -> None:
    """Where an infinity is involved NumPy gives what Python's ``//`` would."""
    x, y = (list(column) for column in zip(*product(EDGES, EDGES), strict=True))
    a, b = np.array(x), np.array(y)
    found = composed(name, x, y) if name in TABLE else (asarray(a) // asarray(b)).numpy()
    involved = ~(np.isfinite(a) & np.isfinite(b)) | (b == 0)
    same(found[involved], np.floor(a / b)[involved])
    same(found[~involved], np.floor_divide(a, b)[~involved])
    assert (asarray([INF, -3.0, 1.0], dtype="float64") // asarray([2.0, INF, 0.1], dtype="float64")).tolist() == [
        INF, -0.0, 9.0,
    ]  # fmt: skip
    assert np.isnan(np.floor_divide(INF, 2.0))
    assert np.floor_divide(-3.0, INF) == -1


@pytest.mark.parametrize(
    ("z", "expm1", "tanh"),
    [
        (complex(INF, NAN), complex(INF, NAN), 1 + 0j),
        (complex(-INF, NAN), complex(-1, 0), -1 + 0j),
        (complex(INF, 0.0), complex(INF, 0.0), 1 + 0j),
        (complex(-INF, INF), complex(-1, 0), -1 + 0j),
        (complex(NAN, 0.0), complex(NAN, 0.0), complex(NAN, 0.0)),
        (complex(0.0, INF), complex(NAN, NAN), complex(0.0, NAN)),
        (complex(1.0, INF), complex(NAN, NAN), complex(NAN, NAN)),
        (complex(-0.0, 0.0), 0j, complex(-0.0, 0.0)),
    ],
)
def test_special_values_of_complex_functions(z: complex, expm1: complex, tanh: complex) -> None:
    for name, expected in (("expm1", expm1), ("tanh", tanh)):
        found = F[name](asarray([z], dtype="complex128")).tolist()[0]
        for a, b in ((found.real, expected.real), (found.imag, expected.imag)):
            assert (math.isnan(a) and math.isnan(b)) or a == b, (name, z, found)


@pytest.mark.parametrize("angle", [1.0, 2.0, 1.8e153, 5e-324])
def test_the_complex_tanh_of_infinity_has_the_sign_of_the_angle(angle: float) -> None:
    for real in (INF, -INF):
        for imag in (angle, -angle):
            found = F["tanh"](asarray([complex(real, imag)])).tolist()[0]
            assert found == complex(math.copysign(1, real), 0)
            assert math.copysign(1, found.imag) == math.copysign(1, imag)


def test_complex_functions_keep_their_digits() -> None:
    z = np.array([1e-12 + 1e-12j, 1e-9 - 2j, 30 + 1j, -20 - 3j, 400 + 2j, 1.5 + 1.5j])
    exact = np.array([complex(1e-12, 1e-12), *np.expm1(z[1:])])
    np.testing.assert_allclose(F["expm1"](asarray(z)).numpy(), exact, rtol=1e-11)
    np.testing.assert_allclose(F["tanh"](asarray(z)).numpy(), np.tanh(z), rtol=1e-14)


# stable form, naive form, where, what it should be
STABLE = {
    "logaddexp": (lambda x: F["logaddexp"](x, x), lambda x: F["log"](F["exp"](x) * 2), 1000.0, 1000 + math.log(2)),
    "log1p": (lambda x: F["log1p"](x), lambda x: F["log"](x + 1), 1e-17, 1e-17),
    "expm1": (lambda x: F["expm1"](x), lambda x: F["exp"](x) - 1, 1e-17, 1e-17),
    "sigmoid": (lambda x: F["sigmoid"](x), lambda x: 1 - 1 / (F["exp"](x) + 1), -40.0, math.exp(-40)),
    "hypot": (lambda x: F["hypot"](x, x), lambda x: F["sqrt"](x * x + x * x), 1e200, math.sqrt(2) * 1e200),
    "hypot, small": (lambda x: F["hypot"](x, x), lambda x: F["sqrt"](x * x + x * x), 1e-200, math.sqrt(2) * 1e-200),
    "asinh": (lambda x: F["asinh"](x), lambda x: F["log"](x + F["sqrt"](x * x + 1)), 1e-10, 1e-10),
    "asinh, large": (lambda x: F["asinh"](x), lambda x: F["log"](x + F["sqrt"](x * x + 1)), 1e200, math.asinh(1e200)),
    "atanh": (lambda x: F["atanh"](x), lambda x: F["log"]((x + 1) / (1 - x)) / 2, 1e-15, 1e-15),
    "sinh": (lambda x: F["sinh"](x), lambda x: (F["exp"](x) - F["exp"](-x)) / 2, 1e-12, 1e-12),
    "cosh": (lambda x: F["cosh"](x), lambda x: (F["exp"](x) + F["exp"](-x)) / 2, 710.0, math.cosh(710.0)),
    "tanh": (lambda x: F["tanh"](x), lambda x: (F["exp"](2 * x) - 1) / (F["exp"](2 * x) + 1), 1e-12, 1e-12),
    "acos": (lambda x: F["acos"](1 - x), lambda x: F["sqrt"](1 - (1 - x) ** 2), 1e-6, math.acos(1 - 1e-6)),
}


@pytest.mark.parametrize("name", STABLE)
def test_stable_where_the_formula_fails(name: str, device: Device) -> None:
    stable, naive, at, expected = STABLE[name]
    x = asarray(at, dtype="float64", device=device)
    assert stable(x).item() == pytest.approx(expected, rel=1e-13, abs=0)
    assert naive(x).item() != pytest.approx(expected, rel=1e-13, abs=0)


def test_variance_where_the_one_pass_formula_fails(device: Device) -> None:
    noise = np.array([0.25, -0.5, 0.75, -0.5])
    x = asarray(1e8 + noise, device=device)
    assert x.var(correction=0).item() == pytest.approx(noise.var(), rel=1e-7)
    assert ((x * x).mean() - x.mean() * x.mean()).item() != pytest.approx(noise.var(), rel=0.1)


def test_gradients_of_stable_forms_are_finite(device: Device) -> None:
    for name, at, expected in (("hypot", 1e200, math.sqrt(0.5)), ("hypot", 0.0, 0.0), ("logaddexp", 1e3, 0.5),
                               ("logaddexp", -INF, 0.5), ("atan2", 0.0, 0.0), ("atan2", 1e200, 5e-201)):  # fmt: skip
        x, y = (Tensor(at, dtype="float64", device=device) for _ in range(2))
        F[name](x, y).backward()
        assert x.grad is not None
        assert x.grad.item() == pytest.approx(expected, rel=1e-12)
    for name in ("floor", "ceil", "trunc", "round", "sign", "abs", "copysign", "relu"):
        z = Tensor(0.0, device=device)
        (F[name](z, 1.0) if name == "copysign" else F[name](z)).backward()
        assert z.grad is not None
        assert z.grad.item() == 0.0


def test_clip_gives_the_gradient_to_what_won(device: Device) -> None:
    x = Tensor([-2.0, -1.0, 0.0, 1.0, 2.0], device=device)
    low, high = Tensor(-1.0, device=device), Tensor(1.0, device=device)
    F["clip"](x, low, high).sum().backward()
    assert x.grad is not None
    assert low.grad is not None
    assert high.grad is not None
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]
    assert (low.grad.item(), high.grad.item()) == (1.0, 1.0)
    assert F["clip"](x, 0).tolist() == [0.0, 0.0, 0.0, 1.0, 2.0]
    assert F["clip"](x, max=0).tolist() == [-2.0, -1.0, 0.0, 0.0, 0.0]
    assert F["clip"](asarray([5, 300], dtype="int64", device=device), max=7).tolist() == [5, 7]
    assert all(
        map(math.isnan, F["clip"](asarray([NAN, 1.0], device=device), 0.0, asarray([1.0, NAN], device=device)).tolist())
    )


def test_neighbours_of_every_float(device: Device) -> None:
    for dtype in ("float32", "float64") if device.is_cpu() else ("float16", "float32", "float64"):
        info = np.finfo(dtype)
        least = float(info.smallest_subnormal)
        numbers = [0.0, -0.0, 1.0, -1.0, 1.5, float(info.max), float(info.tiny), least, -least, INF, -INF, NAN,
                   float(info.tiny) * 3, float(info.tiny) / 2, float(info.tiny) * 2**11]  # fmt: skip
        x, y = np.array(list(product(numbers, [INF, -INF, 0.0, NAN])), dtype).T
        found = F["nextafter"](asarray(x, device=device), asarray(y, device=device)).numpy()
        np.testing.assert_array_equal(found, np.nextafter(x, y))


TORCH = {name: name for name in ("acos", "asin", "atan", "sinh", "cosh", "asinh", "atanh", "tan", "log2", "log10")}


@pytest.mark.parametrize("name", [*TORCH, "acosh", "reciprocal", "trunc", "round"])
def test_gradients_equal_torchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    data = np.array([0.1, 0.5, 0.9]) + (1.0 if name == "acosh" else 0.0)
    x, y = Tensor(data), torch.tensor(data, requires_grad=True)
    F[name](x).sum().backward()
    getattr(torch, name)(y).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ["hypot", "atan2", "logaddexp", "copysign", "remainder", "maximum", "minimum"])
def test_gradients_of_pairs_equal_torchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    data = [np.array([0.1, -0.5, 2.0, 3.0, 0.0]), np.array([-0.7, 0.2, 2.0, -1.5, 1.0])]
    xs, ys = [Tensor(x) for x in data], [torch.tensor(x, requires_grad=True) for x in data]
    F[name](*xs).sum().backward()
    getattr(torch, name)(*ys).sum().backward()
    for x, y in zip(xs, ys, strict=True):
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-12)


def test_where_with_nan_in_the_branch_not_taken(device: Device) -> None:
    x = Tensor([0.0, 4.0], dtype="float64", device=device)
    F["where"](x > 0, x, NAN).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 1.0]
    assert gradcheck(lambda x: F["where"](x > 1, x * x, x), Tensor([0.5, 2.0], dtype="float64", device=device))


# ── integers ─────────────────────────────────────────────────────────────────────────────────────────────────


class OneInteger(CPUBackend):
    """Core kernels only, and no integers but those of one dtype: a composition has to do without a wider one."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.dtypes = {name: self.dtypes[name] for name in ("bool", dtype, "float32")}

    def kernel(self, op: str) -> Any:
        return super().kernel(op) if op in CORE_KERNELS else None


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_are_divided_and_shifted_to_the_last_bit_in_their_own_dtype(dtype: str) -> None:
    k, info, rng = Kernels(OneInteger(dtype)), np.iinfo(dtype), np.random.default_rng(0)
    edges = [info.min, info.min + 1, 0, 1, 2, 3, info.max // 2, info.max - 1, info.max, *([-1, -2] if info.min else [])]
    pairs = np.array(list(product(edges, edges)), dtype)
    drawn = rng.integers(info.min, info.max, (1000, 2), dtype, endpoint=True)
    small = rng.integers(max(info.min, -99), 99, (1000, 2)).astype(dtype)
    x, y = np.concatenate([pairs, drawn, small]).T
    np.testing.assert_array_equal(k.floor_divide(x, y), np.floor_divide(x, y))
    np.testing.assert_array_equal(k.remainder(x, y), np.remainder(x, y))
    bits = rng.integers(0, info.bits, x.size).astype(dtype)
    np.testing.assert_array_equal(k.bitwise_right_shift(x, bits), np.right_shift(x, bits))
    np.testing.assert_array_equal(k.bitwise_left_shift(x, bits), np.left_shift(x, bits))
