"""Scalar primitives as LLVM IR: one table of instructions by kind of dtype, conversions, and two-byte floats.

bool is ``i1`` in a line and a byte in memory; float16 and bfloat16 are float32 in a line, rounded after each primitive.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Final

from micrograd_core.compiler.program import operation
from micrograd_core.compiler.views import DRAWN
from micrograd_core.dtypes import DType, bfloat16, bool_, float16, float32, float64, integer_range
from micrograd_cpu.lines import SUFFIX, Lines
from micrograd_cpu.mathematics import DIVISIONS, FUNCTIONS, FURTHEST, number

TYPES: Final = {
    "bool": "i1", "int8": "i8", "uint8": "i8", "int16": "i16", "uint16": "i16", "int32": "i32", "uint32": "i32",
    "int64": "i64", "uint64": "i64", "float16": "float", "bfloat16": "float", "float32": "float", "float64": "double",
}  # fmt: skip
"""Of a number in a line."""
MEMORY: Final = {**TYPES, "bool": "i8", "float16": "half", "bfloat16": "i16"}
"""Of a number in a buffer."""
BITS: Final = {"float": "i32", "double": "i64"}

# An operation of floats, signed integers, unsigned integers, bools; "" where it is not one of the standard, or here.
# `@name` calls an intrinsic function; "=" is the operand itself.
_TABLE: Final[dict[str, tuple[str, str, str, str]]] = {
    "add": ("fadd", "add", "add", ""),
    "subtract": ("fsub", "sub", "sub", ""),
    "multiply": ("fmul", "mul", "mul", ""),
    "divide": ("fdiv", "", "", ""),
    "maximum": ("@maximum", "@smax", "@umax", ""),
    "minimum": ("@minimum", "@smin", "@umin", ""),
    "less": ("fcmp olt", "icmp slt", "icmp ult", "icmp ult"),
    "less_equal": ("fcmp ole", "icmp sle", "icmp ule", "icmp ule"),
    "greater": ("fcmp ogt", "icmp sgt", "icmp ugt", "icmp ugt"),
    "greater_equal": ("fcmp oge", "icmp sge", "icmp uge", "icmp uge"),
    "equal": ("fcmp oeq", "icmp eq", "icmp eq", "icmp eq"),
    "not_equal": ("fcmp une", "icmp ne", "icmp ne", "icmp ne"),
    "bitwise_and": ("", "and", "and", "and"),
    "bitwise_or": ("", "or", "or", "or"),
    "bitwise_xor": ("", "xor", "xor", "xor"),
    "bitwise_invert": ("", "xor -1", "xor -1", "xor true"),
    "negative": ("fneg", "neg", "neg", ""),
    "abs": ("@fabs", "abs", "=", ""),
    "sqrt": ("@sqrt", "", "", ""),
    **{op: (f"@{op}", "=", "=", "") for op in ("floor", "ceil", "trunc")},
    "round": ("@roundeven", "=", "=", ""),
    "copysign": ("@copysign", "", "", ""),
    "isnan": ("isnan", "", "", ""),
    "signbit": ("signbit", "", "", ""),
    "copy": ("=", "=", "=", "="),
    "where": ("select", "select", "select", "select"),
    "astype": ("convert", "convert", "convert", "convert"),
    **dict.fromkeys(FUNCTIONS, ("function", "", "", "")),
    **{op: ("function", op, op, "") for op in DIVISIONS},
}
HALVES: Final = (float16, bfloat16)


def kind(dtype: DType) -> int:
    """The column of a dtype in the table."""
    return 0 if dtype.is_floating else {"signed integer": 1, "unsigned integer": 2}.get(dtype.kind, 3)


def covers(name: str, operands: tuple[Any, ...]) -> bool:
    """Whether a primitive of such operands can be printed."""
    arrays = [x for x in operands if hasattr(x, "shape")]
    if name == DRAWN:
        return sys.byteorder == "little"  # halves of a word are read where they lie
    name = operation(name).combine or name
    if name not in _TABLE or not arrays or any(x.dtype.is_complex for x in arrays):
        return False
    dtype = arrays[-1].dtype  # of `where` the first may be the condition
    if name == "astype" and dtype is float64:
        return True
    return bool(_TABLE[name][kind(dtype)])


def constant(value: Any, dtype: DType) -> str:
    """A known number."""
    type = TYPES[dtype.name]
    if dtype is bool_:
        return "true" if value else "false"
    if type in ("float", "double"):
        return number(float(value), type)
    bits = dtype.bits
    return str((int(value) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))


class Scalars(Lines):
    """Writes the instructions of lines; `functions` gathers those of `mathematics`."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: set[tuple[str, str]] = set()
        self.careful = True  # whether functions take any argument, which costs branches
        self.contracts = False  # whether a product and a sum may be rounded once

    # ── memory ───────────────────────────────────────────────────────────────────────────────────────────────

    def load(self, pointer: str, dtype: DType) -> str:
        """A number from memory."""
        found = self.emit(f"load {MEMORY[dtype.name]}, ptr {pointer}")
        if dtype is bool_:
            return self.emit(f"icmp ne i8 {found}, 0")
        return self.widened(found, dtype)

    def store(self, value: str, pointer: str, dtype: DType) -> None:
        """A number to memory."""
        if dtype is bool_:
            value = self.emit(f"zext i1 {value} to i8")
        elif dtype in HALVES:
            value = self.narrowed(value, dtype)
        self.do(f"store {MEMORY[dtype.name]} {value}, ptr {pointer}")

    def widened(self, value: str, dtype: DType) -> str:
        """What two bytes hold, as float32."""
        if dtype is float16:
            return self.emit(f"fpext half {value} to float")
        if dtype is bfloat16:
            bits = self.emit(f"shl i32 {self.emit(f'zext i16 {value} to i32')}, 16")
            return self.emit(f"bitcast i32 {bits} to float")
        return value

    def narrowed(self, value: str, dtype: DType) -> str:
        """Float32 as two bytes, to the nearest, ties to even."""
        if dtype is float16:
            return self.emit(f"fptrunc float {value} to half")
        bits = self.emit(f"bitcast float {value} to i32")
        odd = self.emit(f"and i32 {self.emit(f'lshr i32 {bits}, 16')}, 1")
        up = self.emit(f"add i32 {self.emit(f'add i32 {bits}, 32767')}, {odd}")
        nan = self.emit(f"fcmp uno float {value}, {value}")
        quiet = self.emit(f"or i32 {bits}, 4194304")  # which stays NaN without its lower digits
        chosen = self.emit(f"select i1 {nan}, i32 {quiet}, i32 {up}")
        return self.emit(f"trunc i32 {self.emit(f'lshr i32 {chosen}, 16')} to i16")

    def rounded(self, value: str, dtype: DType) -> str:
        """A result in the digits of its dtype."""
        return self.widened(self.narrowed(value, dtype), dtype) if dtype in HALVES else value

    # ── primitives ───────────────────────────────────────────────────────────────────────────────────────────

    def compute(self, op: str, operands: list[str], dtypes: list[DType], result: DType) -> str:
        """One primitive; `dtypes` are those of the operands."""
        dtype = dtypes[-1]
        how, type = _TABLE[op][kind(dtype)], TYPES[dtype.name]
        x, y = operands[0], operands[-1]
        if how == "=":
            return x
        if how == "convert":
            return self.convert(x, dtype, result)
        if how == "select":
            return self.emit(f"select i1 {x}, {type} {operands[1]}, {type} {y}")
        if how == "function":
            found = self.function(op, type, operands, dtype)
        elif how.startswith("@"):
            found = self.intrinsic(how[1:], type, *operands)
        elif how in OF_ONE:
            found = OF_ONE[how](self, type, x)
        elif how in DIVISIONS:
            found = divided(self, dtype, x, y)[DIVISIONS.index(how)]
        elif how.startswith("xor "):
            return self.emit(f"xor {type} {x}, {how[4:]}")
        else:
            flag = " contract" if self.contracts and how in CONTRACTED else ""
            found = self.emit(f"{how}{flag} {type} {', '.join(operands)}")
        return self.rounded(found, result)

    def function(self, op: str, type: str, operands: list[str], dtype: DType) -> str:
        """One of `mathematics`."""
        given = ", ".join(f"{type} {x}" for x in operands)

        def call(name: str, result: str) -> str:
            self.functions.add((name, type))
            return self.emit(f"call {result} @micrograd.{name}.{SUFFIX[type]}({given})")

        if op not in FURTHEST or self.careful:
            return call(op, type)
        self.note(call(f"{op}.far", "i1"))
        return call(f"{op}.near", type)

    def note(self, far: str) -> None:
        """Some argument is beyond what a function without branches can do."""

    def convert(self, x: str, source: DType, target: DType) -> str:
        """As NumPy casts; floats to integers as `casts` does."""
        old, new = TYPES[source.name], TYPES[target.name]
        if source is target:
            return x
        if target is bool_:
            zero = constant(0, source)
            return self.emit(f"fcmp une {old} {x}, {zero}" if source.is_floating else f"icmp ne {old} {x}, {zero}")
        if source.is_floating:
            return self.to_float(x, source, target) if target.is_floating else self.to_integer(x, old, target)
        signed = source.kind == "signed integer"
        if target.is_floating:
            return self.rounded(self.emit(f"{'sitofp' if signed else 'uitofp'} {old} {x} to {new}"), target)
        if old == new:
            return x
        wider = int(new[1:]) > int(old[1:])
        return self.emit(f"{('sext' if signed else 'zext') if wider else 'trunc'} {old} {x} to {new}")

    def to_float(self, x: str, source: DType, target: DType) -> str:
        """A float of another dtype, rounded once."""
        if source is float64 and target in HALVES:
            x = self.emit(f"fptrunc double {self.to_odd(x, target)} to float")
        elif source is float64:
            x = self.emit(f"fptrunc double {x} to float")
        elif target is float64:
            return self.emit(f"fpext float {x} to double")
        return self.rounded(x, target)

    def to_odd(self, x: str, target: DType) -> str:
        """For float16, a double whose last digits tell that others were lost, so that rounding twice is rounding once.

        bfloat16 numbers are what ml_dtypes makes of them, through float32.
        """
        if target is bfloat16:
            return x
        bits = self.emit(f"bitcast double {x} to i64")
        lost = self.emit(f"icmp ne i64 {self.emit(f'and i64 {bits}, 536870911')}, 0")  # the 29 digits beyond float32's
        kept = self.emit(f"and i64 {bits}, -536870912")
        marked = self.emit(f"or i64 {kept}, 536870912")
        return self.emit(f"bitcast i64 {self.emit(f'select i1 {lost}, i64 {marked}, i64 {kept}')} to double")

    def to_integer(self, x: str, type: str, target: DType) -> str:
        """The integer towards 0; what is beyond the range is the nearest there is, and NaN is 0.

        By comparisons, of which LLVM makes vectors; of its own saturating conversion it makes few.
        """

        def where(condition: str, y: str, z: str, kind: str = type) -> str:
            return self.emit(f"select i1 {self.emit(f'fcmp {condition}')}, {kind} {y}, {kind} {z}")

        new, signed = TYPES[target.name], target.kind == "signed integer"
        low, high = (-(1 << target.bits - 1), 1 << target.bits - 1) if signed else (0, 1 << target.bits)
        least, beyond = number(float(low), type), number(float(high), type)
        known = where(f"ord {type} {x}, {x}", x, number(0.0, type))
        safe = where(f"olt {type} {known}, {least}", least, known)
        if target.bits < 32:  # whose ends floats have
            most = number(float(high - 1), type)
            safe = where(f"ogt {type} {safe}, {most}", most, safe)
            return self.emit(f"trunc i32 {self.emit(f'fptosi {type} {safe} to i32')} to {new}")
        safe = where(f"oge {type} {safe}, {beyond}", number(0.0, type), safe)
        found = self.emit(f"{'fptosi' if signed else 'fptoui'} {type} {safe} to {new}")
        return where(f"oge {type} {x}, {beyond}", constant(high - 1, target), found, new)


CONTRACTED: Final = frozenset(("fadd", "fsub", "fmul"))
OF_ONE: Final[dict[str, Any]] = {
    "neg": lambda s, t, x: s.emit(f"sub {t} 0, {x}"),
    "abs": lambda s, t, x: s.intrinsic("abs", t, x, more="i1 false"),
    "isnan": lambda s, t, x: s.emit(f"fcmp uno {t} {x}, {x}"),
    "signbit": lambda s, t, x: s.emit(f"icmp slt {BITS[t]} {s.emit(f'bitcast {t} {x} to {BITS[t]}')}, 0"),
}
"""Primitives of one operand that are more than an instruction."""


def divided(s: Scalars, dtype: DType, x: str, y: str) -> tuple[str, str]:
    """Quotient and rest of integers, rounded down; by 0 both are 0, and the least number by -1 is itself.

    Processors stop at both of these, so that 1 takes the place of such divisors.
    """
    type, signed = TYPES[dtype.name], dtype.kind == "signed integer"
    by_0 = s.emit(f"icmp eq {type} {y}, 0")
    odd = by_0
    if signed:
        by_less_1 = s.emit(f"icmp eq {type} {y}, -1")
        odd = s.emit(f"or i1 {by_0}, {by_less_1}")
    divisor = s.emit(f"select i1 {odd}, {type} 1, {type} {y}")
    quotient, rest = (s.emit(f"{'s' if signed else 'u'}{each} {type} {x}, {divisor}") for each in ("div", "rem"))
    if signed:
        negative = s.emit(f"sub {type} 0, {x}")
        quotient = s.emit(f"select i1 {by_less_1}, {type} {negative}, {type} {quotient}")
        inexact = s.emit(f"icmp ne {type} {rest}, 0")
        differ = s.emit(f"icmp slt {type} {s.emit(f'xor {type} {rest}, {divisor}')}, 0")
        down = s.emit(f"and i1 {inexact}, {differ}")
        quotient = s.emit(f"select i1 {down}, {type} {s.emit(f'sub {type} {quotient}, 1')}, {type} {quotient}")
        rest = s.emit(f"select i1 {down}, {type} {s.emit(f'add {type} {rest}, {divisor}')}, {type} {rest}")
    quotient = s.emit(f"select i1 {by_0}, {type} 0, {type} {quotient}")
    return quotient, rest


# ── reductions ───────────────────────────────────────────────────────────────────────────────────────────────


def accumulator(dtype: DType) -> DType:
    """In which dtype numbers are combined."""
    return float32 if dtype in HALVES else dtype


def start(op: str, dtype: DType, empty: bool) -> str:
    """What a reduction starts from. Not 0.0 for sums: -0.0 alone is -0.0."""
    if op == "sum":
        return constant(-0.0 if dtype.is_floating and not empty else 0, dtype)
    if op == "prod":
        return constant(1, dtype)
    low, high = (-math.inf, math.inf) if dtype.is_floating else integer_range(dtype)
    return constant(low if op == "max" else high, dtype)


COMBINE: Final = {"add": ("fadd reassoc", "add"), "multiply": ("fmul reassoc", "mul")}
"""Floats may be added in another order: those of a loop become some partial sums, one for each place in a vector."""


def combine(s: Scalars, op: str, dtype: DType, x: str, y: str) -> str:
    """Two numbers of a reduction as one."""
    op = operation(op).combine
    if op in COMBINE:
        return s.emit(f"{COMBINE[op][0 if dtype.is_floating else 1]} {TYPES[dtype.name]} {x}, {y}")
    return s.compute(op, [x, y], [dtype, dtype], dtype)
