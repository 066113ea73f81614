"""Languages in which nests are printed: for each, a table of spellings.

A spelling is a template: ``{0}`` and ``{1}`` are operands, ``{T}`` is a type, ``{x}`` a value. `text.Printer` reads
them; a device that has another dialect replaces what differs: ``OPENCL._replace(types={...})``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, Final, NamedTuple

from micrograd_core.compiler.program import operation
from micrograd_core.compiler.views import DRAWN
from micrograd_core.dtypes import DType, bool_, float16, float32, integer_range, pack, unpack


class Language(NamedTuple):
    """How a language spells what stands in a nest."""

    types: Mapping[str, str]
    """Core dtype to the type of a number in a line. Operations of other dtypes stay calls."""
    memory: Mapping[str, str] = {}
    """Core dtype to the type of a number in a buffer, where that is another one."""
    functions: Mapping[str, str] = {}
    """Primitives of floats, beside those that every language has (`ARITHMETIC`)."""
    own: Mapping[str, Mapping[str, str]] = {}
    """Core dtype to primitives of its own: functions that the preamble has, and what integers of two words need."""
    let: str = "const {T} {name} = {x};"
    var: str = "{T} {name} = {x};"
    loop: str = "for ({I} {i} = 0; {i} < {n}; {i}++) {{"
    scratch: str = "{T} {name}[{n}];"
    cast: str = "({T})({x})"
    casts: Mapping[tuple[str, str], str] = {}
    """Conversions from one core dtype to another that are not written as `cast`."""
    choice: str = "({c} ? {a} : {b})"
    literals: Mapping[str, str] = {"float32": "{x}f", "int64": "{x}LL", "uint64": "{x}ULL"}
    """Core dtype to how a finite number is written, if not in plain digits; those of floats are hexadecimal.

    ``{low}`` and ``{high}`` are the words of an integer.
    """
    infinity: str = "INFINITY"
    nan: str = "NAN"
    isnan: str = "({0} != {0})"
    exact: str = "{x}"
    """A float that the compiler must round, and may not move through a sum: WGSL's compilers reassociate."""
    rounded: Mapping[str, str] = {}
    """Core dtype to how a result is rounded to it, where lines compute in a wider type."""
    boolean: str = "{x}"
    """A truth value of a line, as one of memory."""
    counter: str = "long"
    """The type of counters and places."""
    places: Mapping[str, str] = {}
    """Core dtype to the function that makes an index a counter, where some have no place in one."""
    integer: str = "m[{n}]"
    """The n-th integer that a launch passes."""
    power: str = "power_{name}({0}, {1})"
    """An integer power, with a natural exponent."""
    draws: str = ""
    """Four words of random numbers as ``x``, from the six of a place in a stream and the number of a block.

    The preamble has ``uniform_float32(…, first, more)``, a number from a place on, and ``fraction_float32(word, odd)``;
    for float64, too; ``scaled(word, low, span)`` and ``marked(word, mask, i)``. Without it the host draws.
    """
    barrier: str = ""
    """Where units of a workgroup wait for one another."""
    preamble: str = ""
    """What stands before a kernel: the functions that spellings use."""

    def covers(self, name: str, operands: tuple[Any, ...]) -> bool:
        """Whether a line of a nest computes a primitive of such operands."""
        if name == DRAWN:
            return bool(self.draws)
        name = operation(name).combine or name
        arrays = [x for x in operands if hasattr(x, "shape")]
        if not arrays or any(x.dtype.name not in self.types for x in arrays):
            return False
        dtype = arrays[-1].dtype  # of `where` the first may be the condition
        if name == "pow" and dtype.is_integer:  # of a negative exponent the kernel says that there is no such power
            exponent = operands[1]
            return dtype.kind == "unsigned integer" if hasattr(exponent, "shape") else 0 <= int(exponent) < 2**31
        if name in self.primitives(dtype) or (name == "floor" and dtype.is_integer):
            return True
        return name in ANY or (name in ARITHMETIC and dtype is not bool_) or (name in BITWISE and not dtype.is_floating)

    def primitives(self, dtype: DType) -> Mapping[str, str]:
        """Those that are no operators, with how they are spelled."""
        functions = self.functions if dtype.is_floating else {}
        return {**functions, **self.own.get(dtype.name, {})}

    def memory_of(self, dtype: DType) -> str:
        """The type of a number in a buffer."""
        return self.memory.get(dtype.name, self.types[dtype.name])

    def number(self, x: Any, dtype: DType) -> str:
        """A known number."""
        if dtype is bool_:
            return "true" if x else "false"
        if dtype.is_floating and not abs(x) < (65520.0 if dtype is float16 else float("inf")):
            return self.converted(self.nan if x != x else f"{'-' if x < 0 else ''}{self.infinity}", dtype)
        literal = self.literals.get(dtype.name, "{x}")
        # The least integer has no literal: it would be one more, negated.
        if dtype.kind == "signed integer" and x == integer_range(dtype)[0] and "{x}" in literal:
            return f"({self.number(x + 1, dtype)} - {self.number(1, dtype)})"
        exact = self.exact if dtype.is_floating and not x else "{x}"  # some drivers know that a product with 0 is 0
        x = unpack(pack([x], dtype), dtype)[0].hex() if dtype.is_floating else int(x)  # rounded to the dtype
        words = {} if dtype.is_floating else {"low": x & 0xFFFFFFFF, "high": x >> 32 & 0xFFFFFFFF}
        return exact.format(x=self.converted(f"({literal.format(x=x, **words)})", dtype))

    def converted(self, x: str, dtype: DType, source: str = "") -> str:
        """A value as one of a dtype, from another one; counters are like int32."""
        return self.casts.get((source, dtype.name), self.cast).format(x, T=self.types[dtype.name], x=x)

    def spelled(self, op: str, given: Sequence[str], dtypes: Sequence[DType], result: DType) -> str:
        """A primitive of operands, as an expression."""
        dtype = dtypes[-1]
        if (own := self.primitives(dtype).get(op)) is not None:
            return own.format(*given)
        first, last = given[0], given[-1]
        nan = self.isnan.format(first) if dtype.is_floating else ""
        match op:
            case "pow":
                return self.power.format(*given, name=result.name)
            case "maximum" | "minimum":
                either, sign = f"{nan} || " if nan else "", ">" if op == "maximum" else "<"
                return self.chosen(f"{either}{first} {sign} {last}", first, last)
            case "negative" if dtype.kind == "unsigned integer":
                return f"{self.number(0, dtype)} - {first}"
            case "abs" if dtype.kind != "unsigned integer":
                return self.chosen(f"{first} < 0", self.converted(f"-{first}", dtype), first)
            case "where":
                return self.chosen(*given)
            case "isnan":
                return nan or "false"
            case "astype":
                return self.nearest(first, dtypes[0], result)
        operators = OPERATORS | TRUTH if result is bool_ else OPERATORS
        return operators[op].format(*given)

    def nearest(self, x: str, source: DType, target: DType) -> str:
        """A value of one dtype as one of another: the nearest that it has, and 0 for NaN."""
        if source is target:
            return x
        if (source.name, target.name) in self.casts:
            return self.converted(x, target, source.name)
        if target is bool_:
            return f"{x} != {self.number(0, source)}"
        plain = self.converted(x, target)
        if not source.is_floating or not target.is_integer:
            return plain
        low, high = integer_range(target)
        wide = float32 if source.bits == 16 else source  # which has these
        above, below = (f"{x} {sign} {self.number(float(n), wide)}" for sign, n in ((">=", high + 1), ("<", low)))
        inside = self.chosen(above, self.number(high, target), plain)
        inside = self.chosen(below, self.number(low, target), inside)
        return self.chosen(self.isnan.format(x), self.number(0, target), inside)

    def begun(self, how: str, type: str) -> str:
        """How a definition begins, by `let` or `var`: ``const float``, or ``let``."""
        beginning: str = getattr(self, how).partition("{name}")[0]
        return beginning.format(T=type).rstrip()

    def chosen(self, condition: str, x: str, y: str) -> str:
        """One of two values."""
        return self.choice.format(c=condition, a=x, b=y)


OPERATORS: Final = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "divide": "{0} / {1}", "less": "{0} < {1}",
    "less_equal": "{0} <= {1}", "greater": "{0} > {1}", "greater_equal": "{0} >= {1}", "equal": "{0} == {1}",
    "not_equal": "!({0} == {1})", "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}",
    "bitwise_invert": "~{0}", "negative": "-{0}", "abs": "{0}", "copy": "{0}", "floor": "{0}",
}  # fmt: skip
"""Operators that all these languages share, and what is its operand (the size of an unsigned integer)."""
TRUTH: Final = {"bitwise_xor": "{0} != {1}", "bitwise_invert": "!{0}"}
"""Those that are others where the result is a truth value."""
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


def _calls(names: str) -> dict[str, str]:
    """Functions of one operand that are called as their operations are."""
    return {name: name + "({0})" for name in names.split()}


_FUNCTIONS: Final = {
    "divide": "{0} / {1}", "pow": "pow({0}, {1})", "copysign": "copysign({0}, {1})", "abs": "fabs({0})",
    "round": "rint({0})", "signbit": "(signbit({0}) != 0)", "atan2": "atan2({0}, {1})",
    **_calls(
        "exp expm1 log log1p log2 log10 sqrt sin cos tan asin acos atan tanh sinh cosh asinh acosh atanh erf erfc "
        "floor ceil trunc"
    ),
}  # fmt: skip


TEMPLATES: Final = Path(__file__).with_name("templates")


IN_C: Final = (
    (r"fn (\w+)\((.*?)\) -> (\S+) {", r"\3 \1(\2) {"), (r"(\w+): (\w+)(?=[,)])", r"\2 \1"),
    (r"(?s)let (\w+) = array<(\w+), (\d+)>\((.*?)\);", r"const \2 \1[\3] = {\4};"),
    (r"let (\w+): (\S+)", r"const \2 \1"), (r"var (\w+): (\S+)", r"\2 \1"),
    (r"bitcast<f32>\(m\[1\]\)", "INFINITY"), (r"bitcast<f32>\(m\[2\]\)", "NAN"), (r"bitcast<(\w+)>", r"as_\1"),
    (r"(vec\d)<(\w+)>", r"\1_\2"), (r"\babs\(", "fabs("), (r"\bround\(", "rint("), ("countLeadingZeros", "clz"),
    (r"(?<![\w.])(\d+\.\d+(?:e[+-]?\d+)?)(?![\w.])", r"\1f"),
)  # fmt: skip
"""How what stands in ``functions.txt`` is written in languages like C: patterns, and what they become."""


def in_c() -> str:
    """The functions of ``functions.txt`` in OpenCL C, for what ``opencl.txt`` defines."""
    own, text = (TEMPLATES.joinpath(f"{x}.txt").read_text(encoding="utf-8") for x in ("opencl", "functions"))
    for pattern, replacement in IN_C:
        text = re.sub(pattern, replacement, text)
    return own + text


def preamble(function: str, types: Mapping[str, str], upper: str = "", suffix: str = "ull") -> str:
    """Integer powers, and random numbers, in a language like C, which has `upper` halves of products of words."""
    power, random = (Template(TEMPLATES.joinpath(f"{x}.txt").read_text(encoding="utf-8")) for x in ("power", "random"))
    text = "".join([power.substitute(function=function, T=T, name=name) for name, T in types.items()])
    facts = {"function": function, "upper": upper, "word": types["uint64"], "suffix": suffix}
    return text + random.substitute(facts) * bool(upper)


C: Final = Language(
    types={"bool": "_Bool", **_INTEGERS, "float32": "float", "float64": "double"},
    functions=_FUNCTIONS,
    draws="word x[4]; philox({place}, {block}, x);",
    preamble="#include <stdbool.h>\n#include <tgmath.h>\n"
    "#define mul_hi(x, y) (word)((unsigned __int128)(x) * (y) >> 64)\n" + preamble("static", _INTEGERS, "mul_hi"),
)
"""C11, with the functions of ``<tgmath.h>``, which take floats of either size."""
CUDA: Final = C._replace(
    types={**C.types, "bool": "bool", "float16": "float", "bfloat16": "float"},
    memory={"bool": "unsigned char", "float16": "Half", "bfloat16": "Bfloat16"},
    infinity="__int_as_float(0x7f800000)",
    nan="__int_as_float(0x7fc00000)",
    casts={("float64", name): "to_odd({0})" for name in ("float16", "bfloat16")},
    rounded={"float16": "widen(narrowed<Half>({x}))", "bfloat16": "widen(narrowed<Bfloat16>({x}))"},
    barrier="__syncthreads();",
    preamble=preamble("__device__ __forceinline__", _INTEGERS, "__umul64hi"),
)
"""CUDA C++, where a header has the types ``Half`` and ``Bfloat16``, and says how numbers become one (`packs`)."""
_OPENCL: Final = {
    "int8": "char", "int16": "short", "int32": "int", "int64": "long", "uint8": "uchar", "uint16": "ushort",
    "uint32": "uint", "uint64": "ulong",
}  # fmt: skip
_PROGRAMS: Final = {
    "pow": "power({0}, {1})", "exp": "natural_exp({0}, 0)", "expm1": "exp_less_1({0})", "log": "natural_log({0}, 0)",
    "log1p": "log_beyond_1({0})", "sin": "sine({0}, 0)", "cos": "sine({0}, 1)", "tan": "tangent({0})",
    "tanh": "hyperbolic_tangent({0})", "erf": "error_function({0})", "erfc": "error_rest({0})",
    "times_normal": "times_normal({0}, {1})",
}  # fmt: skip
"""Functions of ``functions.txt``."""
OPENCL: Final = Language(
    types={"bool": "bool", **_OPENCL, "float32": "float", "float64": "double"},
    memory={"bool": "uchar"},
    functions=C.functions,
    own={"float32": _PROGRAMS, "float64": {"cos": "cosine({0})"}},
    literals={"float32": "{x}f", "int64": "{x}L", "uint64": "{x}UL"},
    draws=C.draws,
    barrier="barrier(CLK_LOCAL_MEM_FENCE);",
    preamble="#pragma OPENCL FP_CONTRACT OFF\n" + in_c() + preamble("", _OPENCL, "mul_hi", "UL"),
)
"""OpenCL C 1.2."""
# An entry point in Metal takes buffers by index: ``kernel void run(constant long& n [[buffer(0)]], constant long* m
# [[buffer(1)]], device float* p0 [[buffer(2)]], device uchar* p1 [[buffer(3)]], …, uint first
# [[thread_position_in_grid]], uint step [[threads_per_grid]])``, and goes over ``u`` from `first` by `step`.
METAL: Final = OPENCL._replace(
    own={},
    types={name: T for name, T in OPENCL.types.items() if name != "float64"},
    functions={name: text for name, text in C.functions.items() if name not in ("expm1", "log1p", "erf", "erfc")},
    draws="",
    barrier="threadgroup_barrier(mem_flags::mem_threadgroup);",
    preamble="#include <metal_stdlib>\nusing namespace metal;\n" + preamble("", _OPENCL),
)
"""Metal's language, to be compiled without fast mathematics."""
_LONG: Final = {
    "add": "add({0}, {1})", "subtract": "subtract({0}, {1})", "multiply": "multiply({0}, {1})",
    "negative": "negated({0})", "equal": "all({0} == {1})", "not_equal": "any({0} != {1})",
}  # fmt: skip
WGSL: Final = Language(
    types={"bool": "bool", "int32": "i32", "int64": "word", "uint32": "u32", "uint64": "word", "float32": "f32"},
    memory={"bool": "u32"},
    functions={
        "divide": "{0} / {1}", "abs": "abs({0})", "signbit": "negative({0})", "isfinite": "finite({0})", **_PROGRAMS,
        **_calls("sqrt floor ceil trunc round"),
    },
    let="let {name} = {x};", var="var {name}: {T} = {x};", loop="for (var {i} = 0; {i} < {n}; {i}++) {{",
    scratch="var {name}: array<{T}, {n}>;", cast="{T}({x})",
    own={
        name: {
            **_LONG, "less": f"less_{name}({{0}}, {{1}})", "less_equal": f"!less_{name}({{1}}, {{0}})",
            "greater": f"less_{name}({{1}}, {{0}})", "greater_equal": f"!less_{name}({{0}}, {{1}})",
            "maximum": f"select({{1}}, {{0}}, less_{name}({{1}}, {{0}}))",
            "minimum": f"select({{1}}, {{0}}, less_{name}({{0}}, {{1}}))", "abs": abs,
        }
        for name, abs in (("int64", "select({0}, negated({0}), below({0}))"), ("uint64", "{0}"))
    },
    casts={
        ("float32", "bool"): "(nan({0}) || {0} != 0f)", ("int64", "uint64"): "{0}", ("uint64", "int64"): "{0}",
        **{
            (one, other): text
            for name in ("int64", "uint64")
            for one, other, text in (
                ("bool", name, "word(select(0u, 1u, {0}), 0u)"), (name, "bool", "any({0} != word())"),
                ("int32", name, "extended({0})"), (name, "int32", "i32(({0}).x)"),
                ("uint32", name, "word({0}, 0u)"), (name, "uint32", "({0}).x"),
                ("float32", name, f"float_to_{name}({{0}})"), (name, "float32", f"{name}_to_float({{0}})"),
            )
        },
    },
    choice="select({b}, {a}, {c})", places={"int64": "place_int64", "uint64": "place_uint64"},
    literals={"float32": "{x}f", "int64": "word({low}u, {high}u)", "uint64": "word({low}u, {high}u)"},
    infinity="bitcast<f32>(m[1])", nan="bitcast<f32>(m[2])", isnan="nan({0})", exact="exact({x})",
    boolean="select(0u, 1u, {x})", counter="i32", integer="m[{n} + 3]",
    draws="var x = philox({place}, {block});", barrier="workgroupBarrier();",
    preamble="".join(TEMPLATES.joinpath(f"{x}.txt").read_text(encoding="utf-8") for x in ("wgsl", "functions")),
)  # fmt: skip
"""WebGPU's language. Its compilers may reassociate sums and forget NaN; NaN and infinity come as integers."""
