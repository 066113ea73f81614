"""Elementary functions as LLVM IR: straight lines without branches, so that loops around them become vectors.

Each reduces its argument to a small interval, where a polynomial is enough, and puts the result together; special
values follow the array API standard. Coefficients were fitted by Remez's exchange algorithm, to the relative error that
is stated. Of large angles, where the quarter turns in them are no longer known, the C
library's functions take care, one number at a time. Errors are below 2 ulp; tests hold them against mpmath.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from ctypes import c_float
from functools import partialmethod
from typing import Any, Final, NamedTuple

from micrograd_core.ops.network.activations import TAIL
from micrograd_cpu.lines import SUFFIX, Lines


class Format(NamedTuple):
    """A floating-point format: the type, that of its bits, and of fractions how many there are."""

    name: str
    bits: str
    fraction: int
    bias: int

    @property
    def least(self) -> float:
        """The smallest number with all digits."""
        return 2.0 ** (1 - self.bias)


FORMATS: Final = {"float": Format("float", "i32", 23, 127), "double": Format("double", "i64", 52, 1023)}

# Of each, float32's and float64's.
EXP: Final = {  # (exp(r) - 1 - r) / r**2, for |r| <= log(2) / 2; exp is off by 2**-28, 2**-61
    "float": (
        0.49999993447796732993, 0.16666520631710260441, 0.04166838804526564281, 0.0083687168796571127696,
        0.0013814598648960449938,
    ),
    "double": (
        0.49999999999999999984, 0.16666666666666677628, 0.041666666666666704966, 0.0083333333333206545361,
        0.00138888888888650229, 0.00019841269888893192772, 0.000024801587364161871543, 2.7557241163830138577e-6,
        2.7557239672978707192e-7, 2.511017896076569145e-8, 2.0925396466472852306e-9,
    ),
}  # fmt: skip
LOG: Final = {  # (2 atanh(s) / s - 2) / s**2 in s**2, for |s| <= 0.1716; off by 2**-29, 2**-51
    "float": (0.66666666543550369643, 0.40000130375647701999, 0.28549884181620733591, 0.23355303815157441415),
    "double": (
        0.66666666666666701892, 0.39999999999885466932, 0.28571428632210414431, 0.22222210135824253329,
        0.18182960685029313638, 0.15329380010825129012, 0.14644969465357368429,
    ),
}  # fmt: skip
TANH: Final = {  # (tanh(x) / x - 1) / x**2 in x**2, for |x| <= 0.625; off by 2**-29, 2**-57
    "float": (
        -0.33333333180707493986, 0.13333304570289158298, -0.053959450830536055703, 0.021770176286857391836,
        -0.0083473000590639972736, 0.0022958517699770725998,
    ),
    "double": (
        -0.33333333333333332952, 0.1333333333333304959, -0.053968253967904315692, 0.021869488519267084933,
        -0.0088632351078568805661, 0.0035921217982003317926, -0.0014557757025379789588, 0.00058966176267965974889,
        -0.00023759317593664380676, 0.000092574334399201778934, -0.000031202757576230788861, 6.4851175156524370949e-6,
    ),
}  # fmt: skip
SIN: Final = {  # (sin(r) / r - 1) / r**2 in r**2, for |r| <= pi / 4; off by 2**-34, 2**-66
    "float": (-0.16666666663628969693, 0.0083333317869727174125, -0.00019840039616154962571, 2.7243860181176430862e-6),
    "double": (
        -0.16666666666666666665, 0.0083333333333333312602, -0.00019841269841264568455, 2.7557319218956504391e-6,
        -2.5052106100791479611e-8, 1.6058510951143185504e-10, -7.5854905097104107087e-13,
    ),
}  # fmt: skip
COS: Final = {  # (cos(r) - 1 + r**2 / 2) / r**4 in r**2, for |r| <= pi / 4; off by 2**-28, 2**-70
    "float": (0.041666664541395655095, -0.0013888279975291058159, 0.000024542973549615289269),
    "double": (
        0.041666666666666666666, -0.0013888888888888887736, 0.000024801587301584370248, -2.7557319221189975071e-7,
        2.0876755717852179877e-9, -1.1470449392393549069e-11, 4.7452008206743177739e-14,
    ),
}  # fmt: skip
LN2: Final = {  # in two parts; the first has few digits, so that a multiple of it is exact
    "float": (0.693145751953125, 1.4286068203094173e-06),
    "double": (0.6931471803691238165, 1.9082149292705877e-10),
}
BASES: Final = {
    "log2": (1.4426950408889634, 2.0355273740931033e-17),
    "log10": (0.4342944819032518, 1.098319650216765e-17),
}
"""1 / log(base) in two parts."""
ATANH: Final = tuple(2 / n for n in range(5, 29, 2))
"""Of powers of ``s**2`` in ``(2 atanh(s) / s - 2) / s**2 - 2/3``: all that float64 notices for ``s <= 0.1716``."""
ERF: Final = {  # erf(x) / x - 1 in x**2, for |x| <= 1; off by 2**-29, 2**-68
    "float": (
        0.12837916571761753191, -0.37612625749360153787, 0.11283584177284894001, -0.026853766302429021033,
        0.0051882315554243321285, -0.00080092666409513015796, 0.000078505291530870125864,
    ),
    "double": (
        0.12837916709551257389, -0.37612638903183752368, 0.11283791670955119672, -0.026866170645129717356,
        0.0052239776254218922476, -0.00085483270218390189490, 0.00012055332898729713056, -0.000014925647445967418693,
        1.6462043009023765299e-6, -1.6364608731581113983e-7, 1.4792091038560596941e-8, -1.2162703053845511298e-9,
        8.7025694372660856059e-11, -4.2209544000693351811e-12,
    ),
}  # fmt: skip
ERFC: Final = {  # (1 + 2 y) exp(y**2) erfc(y) in (y - a) / (y + a) for y >= 1/2, and a; off by 2**-27, 2**-56
    "float": (
        2.0,
        (
            1.27697838526752101, -0.0927637622981086627, -0.166030858451825363, 0.164048704975220645,
            -0.0542107477958136396, -0.00800558567140545886, 0.0086567164303942044, 0.00114714026952200043,
            -0.00126191969968727738, -0.000227515469706356207,
        ),
    ),
    "double": (
        4.0,
        (
            1.2329951186255525098, -0.13962111684056288645, 0.015379652102619763865, 0.068097054254736597716,
            -0.1010390660363011464, 0.093732834996823863527, -0.066330365812564015474, 0.037167515561852274481,
            -0.016197734048423182246, 0.005031969763569823107, -0.00075777340486861808524, -0.00019925556126316657641,
            0.00015062247159064182201, -0.000024402941513845867256, -0.000011225283061606759088,
            5.7172952647489462589e-6, 3.0195639677709222962e-7, -8.3424042552742965483e-7, 6.2389128201488622509e-8,
            1.145613223244342e-7, -7.7789081414698718753e-9, -1.3386265014525818353e-8, -1.7176219807069608585e-9,
        ),
    ),
}  # fmt: skip
VANISHING: Final = {"float": 10.2, "double": 28.0}
"""Where erfc is 0."""
FURTHEST_NORMAL: Final = {"float": 18.0, "double": 53.0}
"""Where ``exp(-y**2 / 2)`` is no longer a product of two powers of 2 and a number near 1."""


NORMAL: Final = [  # of float32, exp(y**2 / 2) times the normal distribution function of -y, for y >= 0, as a quotient
    [factor * c * 0.5 ** (n / 2) for n, c in enumerate(reversed(part))]
    for factor, part in zip((0.5, 1.0), TAIL["float32"], strict=True)
]
QUARTER: Final = {  # pi / 2 in three parts, each the nearest number to what the ones before leave
    "float": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "double": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
FURTHEST: Final = {
    **{name: {"float": 1e5, "double": 1e9} for name in ("sin", "cos")},
    **{name: {"float": 2.0**22, "double": 2.0**51} for name in ("floor_divide", "remainder")},
}
"""Beyond these arguments, and of divisions these quotients, functions are the C library's."""
DIVISIONS: Final = ("floor_divide", "remainder")
BINARY: Final = ("pow", "times_normal", *DIVISIONS)


def number(value: float, type: str) -> str:
    """A constant: LLVM writes those of both formats as a double's bits."""
    value = c_float(value).value if type == "float" else value
    return f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"


class Code(Lines):
    """Numbers of a format; a value is its name."""

    def __init__(self, format: Format) -> None:
        super().__init__()
        self.format = format

    def number(self, x: Any) -> str:
        """A value, or a constant."""
        return x if isinstance(x, str) else number(x, self.format.name)

    def infix(self, op: str, x: Any, y: Any) -> str:
        """An instruction of two numbers."""
        return self.emit(f"{op} {self.format.name} {self.number(x)}, {self.number(y)}")

    add = partialmethod[str](infix, "fadd")
    sub = partialmethod[str](infix, "fsub")
    mul = partialmethod[str](infix, "fmul")
    div = partialmethod[str](infix, "fdiv")

    def neg(self, x: Any) -> str:
        """``-x``."""
        return self.emit(f"fneg {self.format.name} {x}")

    def call(self, name: str, *xs: Any) -> str:
        """An intrinsic function of numbers of the format."""
        return self.intrinsic(name, self.format.name, *map(self.number, xs))

    def fma(self, x: Any, y: Any, z: Any) -> str:
        """``x * y + z``, rounded once."""
        return self.call("fma", x, y, z)

    def abs(self, x: str) -> str:
        """``|x|``."""
        return self.call("fabs", x)

    def compare(self, how: str, x: Any, y: Any) -> str:
        """A comparison, such as ``olt``: less, and not NaN."""
        return self.emit(f"fcmp {how} {self.format.name} {self.number(x)}, {self.number(y)}")

    def both(self, x: str, y: str) -> str:
        """Whether two conditions hold."""
        return self.emit(f"and i1 {x}, {y}")

    def where(self, condition: str, x: Any, y: Any) -> str:
        """One number or the other."""
        type = self.format.name
        return self.emit(f"select i1 {condition}, {type} {self.number(x)}, {type} {self.number(y)}")

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """By Horner's scheme; coefficients by rising powers."""
        *rest, total = [self.number(c) for c in coefficients]
        for each in reversed(rest):
            total = self.fma(total, x, each)
        return total

    def in_pairs(self, x: str, square: str, coefficients: Sequence[float]) -> str:
        """A polynomial by Estrin's scheme, whose steps wait less for each other; `square` is that of `x`."""
        terms, power, next_power = [self.number(c) for c in coefficients], x, square
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=False)
            terms = [self.fma(power, odd, even) for even, odd in pairs] + terms[len(terms) // 2 * 2 :]
            power, next_power = next_power, self.mul(next_power, next_power) if len(terms) > 2 else ""
        return terms[0]

    # ── bits ─────────────────────────────────────────────────────────────────────────────────────────────────

    def to_bits(self, x: str) -> str:
        """The bits of a number, as an integer."""
        return self.emit(f"bitcast {self.format.name} {x} to {self.format.bits}")

    def from_bits(self, x: str) -> str:
        """The number that has these bits."""
        return self.emit(f"bitcast {self.format.bits} {x} to {self.format.name}")

    def whole(self, op: str, x: str, y: int | str) -> str:
        """An instruction of integers."""
        return self.emit(f"{op} {self.format.bits} {x}, {y}")

    @property
    def shifter(self) -> float:
        """Added to a small number it rounds that to an integer, which are then the lowest bits. NaN stays NaN."""
        return 1.5 * 2.0**self.format.fraction

    def rounded(self, x: str, factor: float) -> tuple[str, str]:
        """The nearest integer to a product, and the bits at whose end it stands."""
        shifted = self.fma(x, factor, self.shifter)
        return self.sub(shifted, self.shifter), self.to_bits(shifted)

    def power_of_2(self, n: str) -> str:
        """``2**n`` of an integer in the range of exponents, as a float."""
        return self.exponent(self.to_bits(self.add(n, self.shifter)))

    def exponent(self, bits: str) -> str:
        """``2**n``, where the last bits of `bits` are the integer."""
        bits = self.whole("shl", bits, self.format.fraction)
        return self.from_bits(self.whole("add", bits, self.format.bias << self.format.fraction))


# ── exponentials ─────────────────────────────────────────────────────────────────────────────────────────────


def _reduced(c: Code, x: str, less: str = "") -> tuple[str, str]:
    """``x - less = n log(2) + r``: n, and ``exp(r) - 1``; `less` is a rounding of `x`."""
    type = c.format.name
    n, _ = c.rounded(x, 1 / math.log(2))
    r = c.fma(n, -LN2[type][0], x)
    r = c.fma(n, -LN2[type][1], c.sub(r, less) if less else r)
    square = c.mul(r, r)
    return n, c.fma(square, c.in_pairs(r, square, EXP[type]), r)


def _exp(c: Code, x: str, lost: str = "") -> str:
    """``2**n exp(r)``, of `x` and what it has `lost`.

    By two powers of 2: one alone may be beyond the exponents, where the result is not.

    Where it is 0 nothing is computed: products that underflow take processors ten times as long, and masks are full of
    minus infinities.
    """
    nothing = c.compare("olt", x, -104.0 if c.format.name == "float" else -746.0)
    n, p = _limited(c, x, c.neg(lost) if lost else "")
    return c.where(nothing, 0.0, _scaled(c, c.add(p, 1.0), n))


def _limited(c: Code, x: str, less: str = "") -> tuple[str, str]:
    """As `_reduced`, of at most a number whose exponential is infinite."""
    most = 140.0 if c.format.name == "float" else 800.0
    return _reduced(c, c.where(c.compare("ogt", x, most), most, x), less)


def _scaled(c: Code, x: str, n: str) -> str:
    """``2**n x``."""
    half, rest = _halves(c, n)
    return c.mul(c.mul(x, half), rest)


def _halves(c: Code, n: str) -> tuple[str, str]:
    """Two powers of 2 whose product is ``2**n``."""
    half, bits = c.rounded(n, 0.5)
    return c.exponent(bits), c.power_of_2(c.sub(n, half))


def _expm1(c: Code, x: str) -> str:
    """``2 (h p + (h - 1/2))`` with ``h = 2**(n-1)``, which is a number where ``2**n`` is no longer."""
    most = 89.0 if c.format.name == "float" else 710.0  # where the result is infinite, and n and r have the same sign
    y = c.where(c.compare("olt", x, -60.0), -60.0, x)
    y = c.where(c.compare("ogt", y, most), most, y)
    n, p = _reduced(c, y)
    h = c.power_of_2(c.sub(n, 1.0))
    result = c.mul(c.fma(h, p, c.sub(h, 0.5)), 2.0)
    return c.where(c.compare("olt", c.abs(x), 2.0 ** -(c.format.fraction + 3)), x, result)


def _tanh(c: Code, x: str) -> str:
    """``x + x**3 P(x**2)`` near 0, else ``1 - 2 / (exp(2 |x|) + 1)`` with the sign of `x`."""
    z = c.mul(x, x)
    near = c.fma(c.mul(x, z), c.polynomial(z, TANH[c.format.name]), x)
    size = c.abs(x)
    far = c.sub(1.0, c.div(2.0, c.add(_exp(c, c.mul(size, 2.0)), 1.0)))
    return c.call("copysign", c.where(c.compare("olt", size, 0.625), near, far), x)


# ── logarithms ───────────────────────────────────────────────────────────────────────────────────────────────


def _parts(c: Code, x: str) -> tuple[str, str]:
    """``x = 2**e m`` of a positive number with all digits: e, and m between sqrt(1/2) and sqrt(2)."""
    fraction, bias = c.format.fraction, c.format.bias
    bits = c.to_bits(x)
    scale = bias + fraction << fraction  # the bits of 2.0**fraction
    e = c.from_bits(c.whole("or", c.whole("lshr", bits, fraction), scale))
    e = c.sub(e, 2.0**fraction + bias)
    m = c.whole("and", bits, (1 << fraction) - 1)
    m = c.from_bits(c.whole("or", m, bias << fraction))
    big = c.compare("ogt", m, math.sqrt(2))
    return c.where(big, c.add(e, 1.0), e), c.where(big, c.mul(m, 0.5), m)


def _together(c: Code, e: str, f: str, rest: Any) -> str:
    """``e log(2) + log(1 + f) + rest``; ``log(1 + f) = f - (f**2/2 - s (f**2/2 + R))`` with ``s = f / (2 + f)``."""
    type = c.format.name
    s = c.div(f, c.add(f, 2.0))
    z = c.mul(s, s)
    half = c.mul(c.mul(f, f), 0.5)
    series = c.mul(z, c.polynomial(z, LOG[type]))
    low = c.fma(e, LN2[type][1], rest)
    inner = c.sub(c.sub(half, c.fma(s, c.add(half, series), low)), f)
    return c.fma(e, LN2[type][0], c.neg(inner))


def _defined(c: Code, x: str, pole: float, result: str) -> str:
    """Minus infinity at the pole, NaN below; infinity and NaN are what they were."""
    result = c.where(c.compare("olt", x, math.inf), result, x)
    result = c.where(c.compare("oeq", x, pole), -math.inf, result)
    return c.where(c.compare("olt", x, pole), math.nan, result)


def _any_parts(c: Code, x: str) -> tuple[str, str]:
    """``x = 2**e m`` of a positive number, which may be subnormal."""
    shift = c.format.fraction + 2
    small = c.compare("olt", x, c.format.least)
    e, m = _parts(c, c.where(small, c.mul(x, 2.0**shift), x))
    return c.where(small, c.sub(e, float(shift)), e), m


def _log(c: Code, x: str) -> str:
    e, m = _any_parts(c, x)
    return _defined(c, x, 0.0, _together(c, e, c.sub(m, 1.0), 0.0))


def _log1p(c: Code, x: str) -> str:
    """What ``1 + x`` loses, as a part of it, is added to the logarithm."""
    u = c.add(x, 1.0)
    e, m = _parts(c, u)
    lost = c.where(c.compare("ogt", x, 1.0), c.sub(1.0, c.sub(u, x)), c.sub(x, c.sub(u, 1.0)))
    near = c.compare("oeq", e, 0.0)  # there x itself is the fraction
    f = c.where(near, x, c.sub(m, 1.0))
    result = _together(c, e, f, c.where(near, 0.0, c.div(lost, u)))
    result = c.where(c.compare("olt", c.abs(x), 2.0 ** -(c.format.fraction + 3)), x, result)
    return _defined(c, x, -1.0, result)


# ── trigonometry ─────────────────────────────────────────────────────────────────────────────────────────────


def _turned(quarters: int) -> Callable[[Code, str], str]:
    """The sine of an angle that is turned by so many quarters."""

    def function(c: Code, x: str) -> str:
        type, bits = c.format.name, c.format.bits
        n, at = c.rounded(x, 2 / math.pi)
        r = x
        for part in QUARTER[type]:
            r = c.fma(n, -part, r)
        z = c.mul(r, r)
        sine = c.fma(c.mul(r, z), c.polynomial(z, SIN[type]), r)
        cosine = c.fma(c.mul(z, z), c.polynomial(z, COS[type]), c.fma(z, -0.5, 1.0))
        at = c.whole("add", at, quarters)
        odd = c.emit(f"icmp ne {bits} {c.whole('and', at, 1)}, 0")
        back = c.emit(f"icmp ne {bits} {c.whole('and', at, 2)}, 0")
        found = c.where(odd, cosine, sine)
        found = c.where(back, c.neg(found), found)
        return found if quarters else c.where(c.compare("oeq", x, 0.0), x, found)

    return function


# ── the error function ───────────────────────────────────────────────────────────────────────────────────────


def _tail(c: Code, y: str, exact: bool) -> str:
    """``erfc(y)`` for ``y >= 1/2``; if `exact`, with what its factors lose.

    Where it is 0 it is computed of a smaller number: see `_exp`.
    """
    nothing = c.compare("ogt", y, VANISHING[c.format.name])
    y = c.where(nothing, 1.0, y)
    square = c.mul(y, y)
    lost = c.fma(y, y, c.neg(square))
    n, q = _reduced(c, c.neg(square), lost)
    return c.where(nothing, 0.0, _scaled(c, _of_tail(c, y, q, exact), n))


def _of_tail(c: Code, y: str, q: str, exact: bool) -> str:
    """``(1 + q) P / (1 + 2 y)``: ``erfc(y)`` but for a power of 2 if ``1 + q`` is ``exp(-y**2)`` but for it.

    If `exact`, with what P, sum and quotient lose.
    """
    a, coefficients = ERFC[c.format.name]
    first, *rest = coefficients
    t = c.div(c.sub(y, a), c.add(y, a))
    slope = c.polynomial(t, rest)
    p, below = c.fma(slope, t, first), c.fma(y, 2.0, 1.0)
    if not exact:
        part = c.div(p, below)
        return c.fma(part, q, part)
    reciprocal = c.div(1.0, below)
    p_lost, below_lost = c.fma(slope, t, c.sub(first, p)), c.fma(y, 2.0, c.sub(1.0, below))
    part = c.mul(p, reciprocal)
    left = c.fma(c.neg(part), below, p)
    left = c.mul(c.add(c.fma(c.neg(part), below_lost, left), p_lost), reciprocal)
    return c.add(part, c.fma(part, q, left))


def _erf(c: Code, x: str) -> str:
    """``x + x P(x**2)`` near 0, else ``1 - erfc(|x|)`` with the sign of `x`."""
    z, size = c.mul(x, x), c.abs(x)
    near = c.fma(x, c.polynomial(z, ERF[c.format.name]), x)
    far = c.sub(1.0, _tail(c, size, exact=False))
    return c.call("copysign", c.where(c.compare("olt", size, 1.0), near, far), x)


def _erfc(c: Code, x: str) -> str:
    """``1 - x - x P(x**2)`` near 0; on the left 2 less the tail on the right."""
    z, size = c.mul(x, x), c.abs(x)
    near = c.fma(c.neg(x), c.polynomial(z, ERF[c.format.name]), c.sub(1.0, x))
    tail = _tail(c, size, exact=True)
    far = c.where(c.compare("olt", x, 0.0), c.sub(2.0, tail), tail)
    return c.where(c.compare("olt", size, 0.5), near, far)


def _times_normal(c: Code, x: str, y: str) -> str:
    """``p = x exp(-y**2 / 2) R(|y|)``; on the right ``x - p``. The square keeps what it rounds off."""
    type, size, square = c.format.name, c.abs(y), c.mul(y, y)
    nothing = c.compare("ogt", size, FURTHEST_NORMAL[type])
    lost = c.mul(c.fma(y, y, c.neg(square)), 0.5)
    n, q = _limited(c, c.mul(square, -0.5))  # as the exponential function does it, which the gradient shares
    q = c.sub(q, c.fma(lost, q, lost))
    if type == "double":
        part = c.mul(_of_tail(c, c.mul(size, 0.5**0.5), q, exact=True), 0.5)
    else:  # which is quicker, and has enough digits
        above, below = (c.in_pairs(size, square, each) for each in NORMAL)
        reciprocal = c.div(1.0, below)
        part = c.mul(above, reciprocal)
        left = c.mul(c.fma(c.neg(part), below, above), reciprocal)
        part = c.add(part, c.fma(part, q, left))
    half, rest = _halves(c, n)
    part = c.mul(part, half)  # times `x` before it can be subnormal
    tail = c.where(nothing, 0.0, c.mul(part, rest))
    product = c.where(nothing, c.mul(x, 0.0), c.mul(c.mul(x, part), rest))
    return c.where(c.compare("ogt", y, 0.0), c.mul(x, c.sub(1.0, tail)), product)


# ── powers ───────────────────────────────────────────────────────────────────────────────────────────────────


def _both_parts(c: Code, x: str, y: str) -> tuple[str, str]:
    """A product, and what it rounds off."""
    product = c.mul(x, y)
    return product, c.fma(x, y, c.neg(product))


def _sum_in_parts(c: Code, x: str, y: str) -> tuple[str, str]:
    """A sum, and what it rounds off; `x` is the greater part."""
    total = c.add(x, y)
    return total, c.add(c.sub(x, total), y)


def _times(c: Code, x: tuple[str, str], y: tuple[Any, Any]) -> tuple[str, str]:
    """A product of numbers in two parts."""
    high, low = _both_parts(c, x[0], y[0])
    return _sum_in_parts(c, high, c.fma(x[0], y[1], c.fma(x[1], y[0], low)))


def _log_in_parts(c: Code, x: str) -> tuple[str, str]:
    """The logarithm of a float64 to ten bits more than it has: ``e log(2) + 2 s + s**3 P(s**2)``, as `_together`."""
    e, m = _any_parts(c, x)
    f = c.sub(m, 1.0)
    below, below_lost = _sum_in_parts(c, c.number(2.0), f)
    high = c.div(f, below)
    left = c.fma(c.neg(high), below, f)
    s = high, c.div(c.fma(c.neg(high), below_lost, left), below)
    z = _times(c, s, s)
    tail = c.mul(z[0], c.in_pairs(z[0], c.mul(z[0], z[0]), ATANH))
    third = _sum_in_parts(c, c.number(2 / 3), c.add(tail, 3.700743415417188e-17))
    cubic = _times(c, _times(c, s, z), third)
    total, lost = _sum_in_parts(c, c.mul(s[0], 2.0), cubic[0])
    lost = c.fma(s[1], 2.0, c.add(lost, cubic[1]))
    whole = c.mul(e, LN2["double"][0])
    result, more = _sum_in_parts(c, whole, total)
    return _sum_in_parts(c, result, c.add(more, c.fma(e, LN2["double"][1], lost)))


def _log_to(base: str) -> Callable[[Code, str], str]:
    """Of a float64; powers of the base give integers."""
    return lambda c, x: _defined(c, x, 0.0, _times(c, _log_in_parts(c, x), BASES[base])[0])


def _pow(c: Code, x: str, y: str, exact: bool = True) -> str:
    """``exp(y log|x|)`` with the sign that an odd `y` leaves.

    For an `exact` result the logarithm has more digits than its dtype; for float32's, float64 has enough.
    """
    size = c.abs(x)
    if exact:
        log, log_lost = _log_in_parts(c, size)
        log = _defined(c, size, 0.0, log)
        product, lost = _both_parts(c, y, log)
        lost = c.where(c.compare("olt", c.abs(product), 800.0), c.fma(y, log_lost, lost), 0.0)
    else:
        product, lost = c.mul(y, _log(c, size)), ""
    result = _exp(c, product, lost)
    whole = c.compare("oeq", c.call("floor", y), y)
    half = c.mul(y, 0.5)
    odd = c.both(whole, c.compare("une", c.call("floor", half), half))
    negative = c.emit(f"icmp slt {c.format.bits} {c.to_bits(x)}, 0")
    result = c.where(c.both(odd, negative), c.neg(result), result)
    finite_below_0 = c.both(c.compare("olt", x, 0.0), c.compare("ogt", x, -math.inf))
    broken = c.both(finite_below_0, c.emit(f"xor i1 {whole}, true"))
    result = c.where(c.both(broken, c.compare("ord", y, y)), math.nan, result)
    unit = c.both(c.compare("oeq", size, 1.0), c.compare("oeq", c.abs(y), math.inf))
    result = c.where(unit, 1.0, result)
    result = c.where(c.compare("oeq", x, 1.0), 1.0, result)
    return c.where(c.compare("oeq", y, 0.0), 1.0, result)


# ── divisions ────────────────────────────────────────────────────────────────────────────────────────────────


def _rest(c: Code, x: str, y: str) -> str:
    """C's ``fmod`` where the quotient is no larger than `FURTHEST`: exact, for the quotient is at most 1 too large."""
    x_size, y_size = c.abs(x), c.abs(y)
    quotient = c.call("trunc", c.div(x_size, y_size))
    rest = c.fma(c.neg(quotient), y_size, x_size)
    rest = c.where(c.compare("olt", rest, 0.0), c.add(rest, y_size), rest)
    by_infinity = c.both(c.compare("oeq", y_size, math.inf), c.compare("olt", x_size, math.inf))
    return c.call("copysign", c.where(by_infinity, x_size, rest), x)


def _moved_rest(c: Code, y: str, rest: str) -> tuple[str, str]:
    """A rest with the sign of `y`, and whether it was moved there. NumPy's steps, as they round."""
    sign_differs = c.emit(f"xor i1 {c.compare('olt', y, 0.0)}, {c.compare('olt', rest, 0.0)}")
    moved = c.both(c.compare("une", rest, 0.0), sign_differs)
    found = c.where(moved, c.add(rest, y), rest)
    return c.where(c.compare("oeq", rest, 0.0), c.call("copysign", 0.0, y), found), moved


def _remainder(c: Code, x: str, y: str, rest: str) -> str:
    return _moved_rest(c, y, rest)[0]


def _floor_divide(c: Code, x: str, y: str, rest: str) -> str:
    """NumPy's of finite numbers; else the quotient's floor."""
    _, moved = _moved_rest(c, y, rest)
    divided = c.div(c.sub(x, rest), y)
    divided = c.where(moved, c.sub(divided, 1.0), divided)
    floor = c.call("floor", divided)
    floor = c.where(c.compare("ogt", c.sub(divided, floor), 0.5), c.add(floor, 1.0), floor)
    quotient = c.div(x, y)
    found = c.where(c.compare("oeq", divided, 0.0), c.call("copysign", 0.0, quotient), floor)
    plain = c.call("floor", quotient)
    finite = c.both(c.compare("olt", c.abs(plain), math.inf), c.compare("olt", c.abs(y), math.inf))
    return c.where(finite, found, plain)


FUNCTIONS: Final[dict[str, Callable[..., str]]] = {
    "exp": _exp, "expm1": _expm1, "log": _log, "log1p": _log1p, "tanh": _tanh, "sin": _turned(0), "cos": _turned(1),
    "erf": _erf, "erfc": _erfc, "times_normal": _times_normal, "pow": _pow, "log2": _log_to("log2"),
    "log10": _log_to("log10"), "floor_divide": _floor_divide, "remainder": _remainder,
}  # fmt: skip
IN_FLOAT64: Final[dict[str, Callable[..., str]]] = {
    "pow": lambda c, x, y: _pow(c, x, y, exact=False),
    **{name: lambda c, x, base=base: c.mul(_log(c, x), base) for name, (base, _) in BASES.items()},
}
"""Functions of float32 that float64 computes, which has enough digits."""
QUIET: Final = "nounwind willreturn memory(none)"


def _far(c: Code, op: str, x: str, y: str = "") -> str:
    """Whether arguments are beyond `FURTHEST`."""
    furthest = FURTHEST[op][c.format.name]
    if not y:
        return c.compare("ogt", c.abs(x), furthest)
    finite = c.both(c.compare("olt", c.abs(x), math.inf), c.compare("une", y, 0.0))
    return c.both(c.compare("ogt", c.abs(c.div(x, y)), furthest), finite)


def _branched(c: Code, far: str, near: str, other: str) -> str:
    """One value, or where it is far another, which is computed there only."""
    type = c.format.name
    c.lines += [f"  br i1 {far}, label %beyond, label %done", "beyond:", f"  %other = {other}", "  br label %done"]
    c.lines += ["done:", f"  %found = phi {type} [ {near}, %entry ], [ %other, %beyond ]"]
    return "%found"


def definitions(functions: set[tuple[str, str]], declared: set[str]) -> list[str]:
    """Functions of a module by name and type, in order; `declared` gets what they need."""
    found = [definition(*each) for each in sorted(functions)]
    declared.update(*(needs for _, needs in found))
    return [text for text, _ in found]


def definition(name: str, type: str) -> tuple[str, set[str]]:
    """A function of the module, ``@micrograd.exp.f32``, and what it needs to be declared.

    ``sin.near`` is that of arguments that are not beyond `FURTHEST`, and ``sin.far`` says whether some are.
    """
    op, _, which = name.partition(".")
    arguments = ["%x", "%y"] if op in BINARY else ["%x"]
    given = ", ".join(f"{type} {x}" for x in arguments)
    c, made = Code(FORMATS[type]), type
    if op in IN_FLOAT64 and type == "float":
        c = Code(FORMATS["double"])
        wide = [c.emit(f"fpext float {x} to double") for x in arguments]
        result = c.emit(f"fptrunc double {IN_FLOAT64[op](c, *wide)} to float")
    elif which == "far":
        result, made = _far(c, op, *arguments), "i1"
    elif op in DIVISIONS:
        rest = _rest(c, *arguments)
        if not which:
            rest = _branched(c, _far(c, op, *arguments), rest, f"frem {type} %x, %y")
        result = FUNCTIONS[op](c, *arguments, rest)
    else:
        result = FUNCTIONS[op](c, *arguments)
        if op in FURTHEST and not which:
            external = op + "f" if type == "float" else op
            c.declared.add(f"declare {type} @{external}({type}) {QUIET}")
            result = _branched(c, _far(c, op, "%x"), result, f"call {type} @{external}({type} %x)")
    head = f"define internal {made} @micrograd.{name}.{SUFFIX[type]}({given}) alwaysinline {QUIET}"
    return c.defined(head, f"{made} {result}"), c.declared
