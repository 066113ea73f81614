"""Languages in which nests are printed: for each, a table of spellings.

A spelling is a template: ``{0}`` and ``{1}`` are operands, ``{T}`` is a type, ``{x}`` a value. `text.Printer` reads them;
a device that has another dialect replaces what differs: ``OPENCL._replace(types={...})``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from micrograd_core.compiler.program import operation
from micrograd_core.dtypes import DType, bool_


class Language(NamedTuple):
    """How a language spells what stands in a nest."""

    types: Mapping[str, str]
    """Core dtype to the type of a number in a line. Operations of other dtypes stay calls."""
    memory: Mapping[str, str] = {}
    """The same of a number in a buffer, where it is another type."""
    functions: Mapping[str, str] = {}
    """Primitives of floats, beside those that every language has (`ARITHMETIC`)."""
    let: str = "const {T} {name} = {x};"
    var: str = "{T} {name} = {x};"
    loop: str = "for ({I} {i} = 0; {i} < {n}; {i}++) {{"
    scratch: str = "{T} {name}[{n}];"
    cast: str = "({T})({x})"
    casts: Mapping[tuple[str, str], str] = {}
    """Conversions from one core dtype to another that are not written as `cast`."""
    choice: str = "({c} ? {a} : {b})"
    literals: Mapping[str, str] = {"float32": "{x!r}f", "int64": "{x}LL", "uint64": "{x}ULL"}
    """Core dtype to how a finite number is written, if not in Python's way."""
    infinity: str = "INFINITY"
    nan: str = "NAN"
    isnan: str = "({0} != {0})"
    exact: str = "{x}"
    """A float that the compiler must round, and may not move through a sum: WGSL's compilers reassociate."""
    boolean: str = "{x}"
    """A truth value of a line, as one of memory."""
    index: str = "long"
    """The type of counters and places."""
    integer: str = "m[{n}]"
    """The n-th integer that a launch passes."""
    power: str = "power_{name}({0}, {1})"
    """An integer power, with a natural exponent."""
    preamble: str = ""
    """What stands before a kernel: the functions that spellings use."""

    def covers(self, name: str, operands: tuple[Any, ...]) -> bool:
        """Whether a line of a nest computes a primitive of such operands."""
        name = operation(name).combine or name
        arrays = [x for x in operands if hasattr(x, "shape")]
        if not arrays or any(x.dtype.name not in self.types for x in arrays):
            return False
        dtype = arrays[-1].dtype  # of `where` the first may be the condition
        if name == "pow" and dtype.is_integer:  # of a negative exponent the kernel says that there is no such power
            exponent = operands[1]
            return dtype.kind == "unsigned integer" if hasattr(exponent, "shape") else 0 <= int(exponent) < 2**31
        if name in self.functions and dtype.is_floating:
            return True
        return name in ANY or (name in ARITHMETIC and dtype is not bool_) or (name in BITWISE and not dtype.is_floating)

    def number(self, x: Any, dtype: DType) -> str:
        """A known number."""
        if dtype is bool_:
            return "true" if x else "false"
        if dtype.is_floating and not abs(x) < float("inf"):
            return self.nan if x != x else f"({'-' if x < 0 else ''}{self.infinity})"
        if x == -(1 << dtype.bits - 1) and dtype.kind == "signed integer":  # no literal is: it would be one more, negated
            return f"({self.number(x + 1, dtype)} - {self.number(1, dtype)})"
        x = float(x) if dtype.is_floating else int(x)
        return self.converted(f"({self.literals.get(dtype.name, '{x!r}').format(x=x)})", dtype)

    def converted(self, x: str, dtype: DType) -> str:
        """A value as one of a dtype."""
        return self.cast.format(T=self.types[dtype.name], x=x)

    def chosen(self, condition: str, x: str, y: str) -> str:
        """One of two values."""
        return self.choice.format(c=condition, a=x, b=y)


INFIX: Final = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=", "equal": "==", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}  # fmt: skip
"""Operators that all these languages share."""
ANY: Final = frozenset(("where", "copy", "astype", "equal", "not_equal"))
"""Primitives of every dtype."""
BITWISE: Final = frozenset(("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert"))
"""Primitives of integers and truth values."""
ARITHMETIC: Final = frozenset((
    "add", "subtract", "multiply", "negative", "abs", "maximum", "minimum", "less", "less_equal", "greater",
    "greater_equal", "isnan",
))  # fmt: skip
"""Primitives of all numbers."""

_INTEGERS: Final = {
    "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long", "uint8": "unsigned char",
    "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
}  # fmt: skip
_FUNCTIONS: Final = {
    "divide": "{0} / {1}", "pow": "pow({0}, {1})", "copysign": "copysign({0}, {1})", "abs": "fabs({0})",
    "round": "rint({0})", "signbit": "(signbit({0}) != 0)", "atan2": "atan2({0}, {1})", "remainder": "",
    **{
        name: name + "({0})"
        for name in "exp expm1 log log1p log2 log10 sqrt sin cos tan tanh sinh cosh asinh acosh atanh erf erfc floor ceil "
        "trunc".split()
    },
    "asin": "asin({0})", "acos": "acos({0})", "atan": "atan({0})",
}  # fmt: skip


def powers(types: Mapping[str, str], function: str = "") -> str:
    """Integer powers by squaring, as functions of a language like C."""
    return "".join(
        f"{function}{T} power_{name}({T} x, {T} n) {{\n"
        f"    {T} result = 1;\n    for (; n > 0; n >>= 1) {{ if (n & 1) result *= x; x *= x; }}\n    return result;\n}}\n"
        for name, T in types.items()
        if "int" in name
    )


C: Final = Language(
    types={"bool": "_Bool", **_INTEGERS, "float32": "float", "float64": "double"},
    functions={name: text for name, text in _FUNCTIONS.items() if text},
    preamble="#include <tgmath.h>\n" + powers(_INTEGERS, "static "),
)
"""C11, with the functions of ``<tgmath.h>``, which take floats of either size."""
_OPENCL: Final = {
    "int8": "char", "int16": "short", "int32": "int", "int64": "long", "uint8": "uchar", "uint16": "ushort",
    "uint32": "uint", "uint64": "ulong",
}  # fmt: skip
OPENCL: Final = Language(
    types={"bool": "bool", **_OPENCL, "float32": "float", "float64": "double"},
    memory={"bool": "uchar"},
    functions=C.functions,
    literals={"float32": "{x!r}f", "int64": "{x}L", "uint64": "{x}UL"},
    preamble="#pragma OPENCL FP_CONTRACT OFF\n" + powers(_OPENCL),
)
"""OpenCL C 1.2."""
