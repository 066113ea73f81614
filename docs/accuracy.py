"""How exact elementwise operations are, beside mpmath: ``python docs/accuracy.py`` measures, and writes accuracy.md.

Errors are in units in the last place (ulp) of the exact result, where that is a normal number. Points are drawn: over
all exponents, near roots and thresholds, near overflow and underflow, among subnormal numbers. Of them
`tests/ops/test_accuracy.py` holds a small sample against `BOUND`.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import mpmath
import numpy as np
from mpmath import mp

import micrograd_core as mg
from micrograd_core import Device, jit
from micrograd_core.array import functions
from micrograd_core.ops import TABLE, Op

PAGE = Path(__file__).with_suffix(".md")
BOUND = 4.0
"""Units in the last place that no operation may be off."""
PRECISION = 300
"""Bits that mpmath computes with."""
DTYPES = ("float32", "float64")
WAYS = ("eager", "large", "jit")
"""Kernels of small arrays; those of large ones, which the cpu compiles from `SMALL` elements on; `jit`."""
SMALL = 1 << 14


# ── what is exact ────────────────────────────────────────────────────────────────────────────────────────────

EXACT = frozenset(
    "maximum minimum negative positive clip relu relu_gradient floor ceil trunc round copysign nextafter abs sign real "
    "imag complex conj where astype copy nan_to_num masked_fill hardtanh relu6 hardshrink threshold".split()
)
"""Operations that return one of their operands, or a number beside it: there is nothing to round."""
ROUNDED = frozenset(
    op.name
    for op in TABLE.values()
    if op.kind == "elementwise" and op.accepted(0) & {"real floating"} and op.result == "same" and op.name not in EXACT
)
"""All others whose results are real floats."""


def _lgamma(x: Any) -> Any:
    if x > 0:
        return mp.loggamma(x)
    return mp.inf if x == mp.floor(x) else mp.log(mp.pi / abs(mp.sinpi(x))) - mp.loggamma(1 - x)


def _tanhshrink(x: Any) -> Any:
    with mp.workprec(PRECISION + 4 * max(0, -mp.mag(x))):
        return x - mp.tanh(x)


def _trigamma(x: Any) -> Any:
    if x <= 0:
        return mp.inf if x == mp.floor(x) else (mp.pi / mp.sinpi(x)) ** 2 - _trigamma(1 - x)
    if x > 1e9:
        return 1 / x + 1 / (2 * x**2) + 1 / (6 * x**3) - 1 / (30 * x**5) + 1 / (42 * x**7)
    return mp.zeta(2, x)


def _digamma(x: Any) -> Any:
    return mp.digamma(x) if x > 0 or x == mp.floor(x) else mp.digamma(1 - x) - mp.pi * mp.cospi(x) / mp.sinpi(x)


def _remainder(x: Any, y: Any) -> Any:
    with mp.workprec(4400):
        return x - y * mp.floor(x / y)


def _fmod(x: Any, y: Any) -> Any:
    with mp.workprec(4400):
        quotient = x / y
        return x - y * (mp.floor(quotient) if quotient > 0 else mp.ceil(quotient))


OWN: dict[str, Callable[..., Any]] = {
    "remainder": _remainder,
    "fmod": _fmod,
    "floor_divide": lambda x, y: mp.floor(x / y),
    "atan2": lambda x, y: mp.atan2(x, y) if x else None,  # the sign of a 0, which mpmath has not, decides
    "erf": mp.erf,
    "erfc": mp.erfc,
    "erfinv": mp.erfinv,
    "gelu": lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2,
    "times_normal": lambda x, y: x * mp.erfc(-y / mp.sqrt(2)) / 2,
    "tanhshrink": _tanhshrink,
    "softshrink": lambda x: x - max(min(x, mp.mpf(0.5)), mp.mpf(-0.5)),
    "hardsigmoid": lambda x: max(min(x + 3, mp.mpf(6)), mp.mpf(0)) / 6,
    "lgamma": _lgamma,
    "digamma": _digamma,
    "polygamma": _trigamma,
    "i0": lambda x: mp.besseli(0, x),
    "i1": lambda x: mp.besseli(1, x),
}
"""Definitions where that of the tests asks for arrays, or loses digits that mpmath keeps."""


class Mathematics:
    """``np`` for the definitions of the tests, on one number of mpmath."""

    where = staticmethod(lambda condition, x, y: x if condition else y)
    clip = staticmethod(lambda x, low, high: max(min(x, high), low))
    add, subtract, multiply, divide = operator.add, operator.sub, operator.mul, operator.truediv
    abs, maximum, minimum, pow = abs, max, min, mp.power
    square, reciprocal = staticmethod(lambda x: x * x), staticmethod(lambda x: 1 / x)
    exp2, log2 = staticmethod(lambda x: mp.power(2, x)), staticmethod(lambda x: mp.log(x, 2))
    logaddexp = staticmethod(lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))))

    def __getattr__(self, name: str) -> Any:
        return getattr(mp, name)


def reference(op: Op) -> Callable[..., Any]:
    """What an operation is of numbers of mpmath."""
    from tests.ops.definitions import DEFINITIONS  # beside this folder, and in no package

    return OWN.get(op.name) or functools.partial(DEFINITIONS.get(op.name, op.reference), Mathematics())


PARAMETERS: dict[str, dict[str, Any]] = {"polygamma": {"n": 1}}

DOMAIN: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt"), (0.0, math.inf)),
    "log1p": (-1.0, math.inf), "acosh": (1.0, math.inf), "logit": (0.0, 1.0),
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), (-1.0, 1.0)),
    **dict.fromkeys(("exp", "expm1", "exp2", "sinh", "cosh", "i0", "i1"), (-1200.0, 1200.0)),
}  # fmt: skip
"""Where there is a result; of exponentials, one that is not 0 or infinite."""


def _of_reflection(x: Any) -> Any:
    return 0 if x > -0.5 else abs(mp.log(mp.pi / abs(mp.sinpi(x)))) + abs(mp.loggamma(1 - x))


def _of_cotangent(x: Any) -> Any:
    return 0 if x > 0.5 else 1 + abs(mp.pi * mp.cospi(x) / mp.sinpi(x)) + abs(mp.digamma(1 - x))


TERMS: dict[str, tuple[str, Callable[..., Any]]] = {
    "lgamma": ("below -1/2, `log(pi / sin(pi x))` and `lgamma(1 - x)`", _of_reflection),
    "digamma": ("below 1/2, `pi cot(pi x)` and `digamma(1 - x)`, of which `1 - x` rounds", _of_cotangent),
    "logaddexp": (
        "the greater operand and `log(1 + exp(-d))`, of which `d = |x1 - x2|` rounds",
        lambda x, y: max(abs(max(x, y)), abs(x - y) * mp.log1p(mp.exp(-abs(x - y)))),
    ),
    "lerp": ("`x1` and `x3 (x2 - x1)`", lambda x, y, w: abs(x) + abs(w) * (abs(y) + abs(x))),
}
"""Sums whose terms may cancel, where no digits of theirs are enough: errors are in units of the terms."""


# ── points ───────────────────────────────────────────────────────────────────────────────────────────────────

PLACES = (
    *(0.25, 0.375, 0.46875, 0.5, 0.55, 0.625, 0.75, 0.98, 1.0, 1.25, 1.4616321449683622, 1.5, 2.0, 2.5, 3.0, 3.7, 4.0),
    *(5.2, 6.0, 6.9, 8.0, 8.3, 9.0, 9.2, 10.2, 13.0, 14.2, 16.6, 17.3, 20.0, 22.0, 26.5, 28.0, 30.0, 36.04, 36.7),
    *(37.5, 38.4, 40.0, 44.0, 80.0, 86.0, 87.3, 88.0, 88.7, 103.0, 126.0, 128.0, 149.0, 200.0, 350.0, 700.0, 708.0),
    *(708.4, 709.78, 712.0, 744.0, 1021.0, 1024.0, 1074.0, 71476.0, 1e5, 2.0**22, 1e9, 2.0**24, 2.0**53, 1e16, 1e22),
    *(math.pi / 4 * n for n in (1, 2, 3, 4, 8, 16, 1000, 1e6)), math.log(2), 2 * math.log(2), math.log(2) / 2,
)  # fmt: skip
"""Where functions change what they compute by, have roots, or leave the range of a dtype; and their negatives."""


def numbers(dtype: str, count: int, rng: Any) -> Any:
    """Numbers of one operand: `count` of each kind, twice as many where most is computed."""
    type = np.dtype(dtype).type
    facts = np.finfo(dtype)
    sign = lambda x: x * rng.choice([-1.0, 1.0], len(x))  # noqa: E731
    places = rng.choice(PLACES, 2 * count)
    digits = facts.nmant
    kinds = [
        rng.uniform(-2, 2, 2 * count),
        rng.uniform(-45, 45, 2 * count),
        rng.uniform(-750, 750, count) if dtype == "float64" else rng.uniform(-110, 110, count),
        sign(2.0 ** rng.uniform(-30, 10, 2 * count)),
        sign(places * (1 + rng.integers(-4, 5, 2 * count) * 2.0**-digits)),
        sign(places * (1 + rng.uniform(-0.02, 0.02, 2 * count))),
        sign(1 - 2.0 ** rng.uniform(-digits - 1, -1, count)),
        sign(1 + 2.0 ** rng.uniform(-digits, 0, count)),
        sign(2.0 ** rng.uniform(facts.minexp - digits, facts.minexp, count)),
        rng.integers(-60, 60, count).astype("float64"),
    ]
    found = np.concatenate([*kinds, sign(2.0 ** rng.uniform(facts.minexp, facts.maxexp - 1e-9, 2 * count))])
    return found.astype(type)


def points(op: Op, dtype: str, count: int, seed: int = 0) -> list[Any]:
    """Operands of an operation."""
    rng = np.random.default_rng(seed)
    low, high = DOMAIN.get(op.name, (-math.inf, math.inf))
    operands = [numbers(dtype, count, rng) for _ in range(op.operands)]
    if op.operands == 1:
        (x,) = operands
        x = np.abs(x) if low == 0 else x
        return [x[(low <= x) & (x <= high)]]
    operands = [rng.permutation(x) for x in operands]
    x, y, *others = operands
    with np.errstate(all="ignore"):
        near = (x * (1 + rng.integers(-4, 5, x.size) * np.finfo(dtype).eps)).astype(dtype)
        if op.name == "pow":
            x = np.abs(x)
            size = np.abs(np.log2(x, dtype="float64"))
            top = -np.finfo(dtype).minexp / np.where((size > 0) & np.isfinite(size), size, 1)
            near = (rng.uniform(-1, 1, x.size) * top).astype(dtype)
            y = np.where(rng.random(x.size) < 0.7, near, y)
        elif op.name in ("remainder", "fmod", "floor_divide"):
            y = np.where(np.abs(x / y) < 2.0**20, y, (x / rng.uniform(0.5, 1000, x.size)).astype(dtype))
        elif op.name == "times_normal":  # beside a share that is subnormal the other operand is no large number
            x = np.where(np.abs(x) < 45, x, rng.uniform(-45, 45, x.size).astype(dtype))
            y = np.where(rng.random(x.size) < 0.5, x, y)
        elif op.name == "logaddexp":
            y = np.where(rng.random(x.size) < 0.5, x + rng.uniform(-40, 40, x.size).astype(dtype), y)
        else:
            y = np.where(rng.random(x.size) < 0.2, near * rng.choice([-1, 1], x.size).astype(dtype), y)
        if op.name == "lerp":
            others = [rng.uniform(0, 1, x.size).astype(dtype)]
    return [np.asarray(each, dtype) for each in (x, y, *others)]


# ── measuring ────────────────────────────────────────────────────────────────────────────────────────────────


class Worst(NamedTuple):
    """The greatest error, and where."""

    ulps: float
    at: tuple[float, ...]


def exact(op: Op, operands: list[Any]) -> list[Any]:
    """The results with all their digits, and how large their terms are.

    ``None`` where there is no result that is real and finite.
    """
    definition, terms = reference(op), TERMS.get(op.name, ("", lambda *xs: mp.zero))[1]
    found: list[Any] = []
    for each in zip(*(x.tolist() for x in operands), strict=True):
        try:
            xs = [mpmath.mpf(x) for x in each]
            result = definition(*xs)
            real = isinstance(result, mpmath.mpf) and mp.isfinite(result)
            found.append((result, max(abs(result), terms(*xs))) if real else None)
        except (ValueError, ZeroDivisionError, OverflowError, mpmath.libmp.NoConvergence):
            found.append(None)
    return found


def ways(op: Op) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions of NumPy arrays, by `WAYS`."""
    function = functools.partial(functions.FUNCTIONS[op.name], **PARAMETERS.get(op.name, {}))
    compiled = jit(lambda *xs: function(*xs))

    def called(f: Callable[..., Any], repeats: Callable[[int], int]) -> Callable[..., Any]:
        def result(*arrays: Any) -> Any:
            size = arrays[0].size
            times = repeats(size)
            with np.errstate(all="ignore"):
                tensors = [mg.asarray(np.tile(x, times), device=Device("cpu")) for x in arrays]
                return f(*tensors).detach().numpy()[-size:]

        return result

    def small(*arrays: Any) -> Any:
        step, plain = SMALL // 2, called(function, lambda n: 1)
        parts = [plain(*(x[i : i + step] for x in arrays)) for i in range(0, arrays[0].size, step)]
        return np.concatenate(parts)

    yield "eager", small
    yield "large", called(function, lambda n: -(-SMALL // n))
    yield "jit", called(compiled, lambda n: 1)


def worst(found: Any, wanted: Iterable[Any], operands: list[Any]) -> Worst:
    """The greatest error among normal results; infinite where an infinity, NaN or 0 is none."""
    facts, most = np.finfo(found.dtype), Worst(0.0, ())
    digits, least = facts.nmant + 1, facts.minexp
    top, tiny = mpmath.mpf(float(facts.max)), mpmath.mpf(float(facts.smallest_normal))
    near_top = top * (1 - mpmath.ldexp(1, 4 - digits))
    for i, (got, pair) in enumerate(zip(found.tolist(), wanted, strict=True)):
        if pair is None:
            continue
        e, terms = pair
        size = abs(e)
        infinite = got == math.copysign(math.inf, e)
        if size > near_top and (infinite or size > top):
            wrong = not (infinite or abs(got) >= near_top)
            ulps = math.inf if wrong else 0.0
        elif size < tiny:
            ulps = 0.0 if abs(got) <= tiny * (1 + mpmath.ldexp(1, 4 - digits)) else math.inf
        elif not math.isfinite(got):
            ulps = math.inf
        else:
            unit = mpmath.ldexp(1, max(mp.mag(terms), least + 1) - digits)
            ulps = float(abs(mpmath.mpf(got) - e) / unit)
        if ulps > most.ulps:
            most = Worst(ulps, tuple(float(x[i]) for x in operands))
    return most


def measured(name: str, dtype: str, count: int, seed: int = 0) -> dict[str, Worst]:
    """Of each way, the worst of an operation."""
    op = TABLE[name]
    operands = points(op, dtype, count, seed)
    with mp.workprec(PRECISION):
        wanted = exact(op, operands)
        return {way: worst(f(*operands), wanted, operands) for way, f in ways(op)}


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────

HEAD = """# How exact operations are

The greatest errors of elementwise operations on the cpu beside mpmath, in units in the last place (ulp) of the exact
result, among some thousand points each: all exponents, roots, thresholds, the edges of overflow and underflow,
subnormal operands. Half a unit is what rounding costs. Results that are subnormal may have fewer digits, and are not
counted. `python docs/accuracy.py` writes this page; `tests/ops/test_accuracy.py` holds every operation to
{bound:g} ulp.

*Eager* is what small arrays are computed by, NumPy or kernels of it; *large* are arrays from {small} elements on, for
which loops are compiled (with llvmlite); *jit* are those of programs.

float16 and bfloat16 are computed in float32 and rounded once.
"""


def _shown(ulps: float) -> str:
    return f"{ulps:.2f}"


def page(count: int) -> str:
    """The whole page."""
    lines = [HEAD.format(bound=BOUND, small=SMALL)]
    lines += ["| operation | " + " | ".join(f"{dtype} {way}" for dtype in DTYPES for way in WAYS) + " |"]
    lines += ["|---|" + "---:|" * (len(DTYPES) * len(WAYS))]
    for name in sorted(ROUNDED):
        found = [w.ulps for dtype in DTYPES for w in measured(name, dtype, count).values()]
        lines.append(f"| `{name}` | " + " | ".join(map(_shown, found)) + " |")
    lines += ["", "Where terms of a sum cancel, errors are counted in units of the greater term: only it is known.", ""]
    lines += ["| operation | terms |", "|---|---|", *(f"| `{name}` | {about} |" for name, (about, _) in TERMS.items())]
    exact = ", ".join(f"`{name}`" for name in sorted(EXACT))
    lines += ["", f"Nothing is rounded by {exact}, and by comparisons and what else gives bools and integers."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(PAGE.parents[1]))
    count, names = int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2:]
    if not names:
        PAGE.write_text(page(count), encoding="utf-8")
    for name, dtype in product(names, DTYPES):
        each = measured(name, dtype, count)
        print(f"{name:16} {dtype:8}", *[f"{way} {w.ulps:.4g} at {w.at}" for way, w in each.items()], flush=True)
