"""What each instruction of PTX computes: C over operands x, y, z, w, in tables.

{bits} is the width of the instruction's type, {type} what it is in C, {f} the f of fmaf.
"""

from __future__ import annotations

import re
from typing import Final

from .ptx import FLOATS, TYPES, Instruction, Untranslatable

ROUNDINGS: Final = {"rn": "FE_TONEAREST", "rz": "FE_TOWARDZERO", "rm": "FE_DOWNWARD", "rp": "FE_UPWARD"}
TO_INTEGRAL: Final = {"rni": "nearbyint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}

SPECIAL: Final = {
    **{f"%{it}.{axis}": f"P->{it}[{i}]" for it in ("tid", "ntid", "ctaid", "nctaid") for i, axis in enumerate("xyz")},
    "%laneid": "P->lane",
    "%warpid": "(P->number / WARP)",
    "%lanemask_eq": "(1u << P->lane)",
    "%lanemask_lt": "((1u << P->lane) - 1)",
    "%lanemask_le": "((2u << P->lane) - 1)",
    "%lanemask_gt": "~((2u << P->lane) - 1)",
    "%lanemask_ge": "~((1u << P->lane) - 1)",
    "%dynamic_smem_size": "P->dynamic",
    **dict.fromkeys(("%clock", "%clock64", "%globaltimer", "%smid"), "0"),
    "WARP_SZ": "32",
}

ANY: Final = {"cvta": "x", "and": "x & y", "or": "x | y", "xor": "x ^ y", "cnot": "!x"}
INTEGER: Final = ANY | {
    "not": "~x",
    "add": "x + y",
    "sub": "x - y",
    "mul.lo": "x * y",
    "mul.wide": "(s128)x * y",
    "mul.hi": "(s128)x * y >> {bits}",
    "mad.lo": "x * y + z",
    "mad.wide": "(s128)x * y + z",
    "mad.hi": "({type})((s128)x * y >> {bits}) + z",
    "sad": "(x < y ? y - x : x - y) + z",
    "neg": "-x",
    "abs": "x < 0 ? -x : x",
    "min": "x < y ? x : y",
    "max": "x > y ? x : y",
    "shl": "y < {bits} ? x << y : 0",
    "popc": "__builtin_popcountll(x)",
    "clz": "leading_zeros(x, {bits})",
    "brev": "reversed(x, {bits})",
    "bfi": "insert(x, y, z, w)",
    "bfind": "highest(x)",
    "bfind.shiftamt": "highest(x) == ~0u ? ~0u : {bits} - 1 - highest(x)",
    "prmt": "permute(x, y, z)",
    "shf.l.wrap": "((u64)y << 32 | x) << (z & 31) >> 32",
    "shf.l.clamp": "z < 32 ? ((u64)y << 32 | x) << z >> 32 : x",
    "shf.r.wrap": "((u64)y << 32 | x) >> (z & 31)",
    "shf.r.clamp": "((u64)y << 32 | x) >> (z < 32 ? z : 32)",
}
SIGNED: Final = INTEGER | {
    "div": "y == 0 ? -1 : y == -1 ? -x : x / y",
    "rem": "y == 0 ? x : y == -1 ? 0 : x % y",
    "shr": "x >> (y < {bits} ? y : {bits} - 1)",
    "bfe": "extract(x, y, z, {bits}, 1)",
}
UNSIGNED: Final = INTEGER | {
    "div": "y == 0 ? ({type})-1 : x / y",
    "rem": "y == 0 ? x : x % y",
    "shr": "y < {bits} ? x >> y : 0",
    "bfe": "extract(x, y, z, {bits}, 0)",
}
FLOATING: Final = ANY | {
    "add": "x + y",
    "sub": "x - y",
    "mul": "x * y",
    "div": "x / y",
    "fma": "fma{f}(x, y, z)",
    "mad": "fma{f}(x, y, z)",
    "neg": "-x",
    "abs": "fabs(x)",
    "min": "lesser(x, y)",
    "max": "greater(x, y)",
    "min.NaN": "lesser_or_nan(x, y)",
    "max.NaN": "greater_or_nan(x, y)",
    "copysign": "copysign(y, x)",
    "sqrt": "sqrt(x)",
    "rcp": "1 / x",
    "rsqrt": "1 / sqrt(x)",
    "sin": "sin(x)",
    "cos": "cos(x)",
    "tanh": "tanh(x)",
    "ex2": "exp2(x)",
    "lg2": "log2(x)",
}
PREDICATE: Final = ANY | {"not": "!x"}

# The types of the operands where they are not all the instruction's: t its own, u u32, 2 twice as wide.
OPERANDS: Final = {"shl": "tu", "shr": "tu", "bfe": "tuu", "bfi": "ttuu", "mad.wide": "tt2"}
RESULTS: Final = {"mul.wide": "2", "mad.wide": "2", **dict.fromkeys(("popc", "clz", "bfind", "bfind.shiftamt"), "u")}

INTEGERS_COMPARED: Final = {
    "eq": "x == y",
    "ne": "x != y",
    **dict.fromkeys(("lt", "lo"), "x < y"),
    **dict.fromkeys(("le", "ls"), "x <= y"),
    **dict.fromkeys(("gt", "hi"), "x > y"),
    **dict.fromkeys(("ge", "hs"), "x >= y"),
}
FLOATS_COMPARED: Final = INTEGERS_COMPARED | {  # with u, true of a NaN
    "ne": "x < y || x > y",
    "equ": "!(x < y || x > y)",
    "neu": "x != y",
    "ltu": "!(x >= y)",
    "leu": "!(x > y)",
    "gtu": "!(x <= y)",
    "geu": "!(x < y)",
    "num": "x == x && y == y",
    "nan": "x != x || y != y",
}
COMBINED: Final = {"and": "&", "or": "|", "xor": "^"}  # a comparison with a predicate

ATOMIC: Final = {  # what is there after; x was there
    "add": "x + y",
    "min": "x < y ? x : y",
    "max": "x > y ? x : y",
    "and": "x & y",
    "or": "x | y",
    "xor": "x ^ y",
    "exch": "y",
    "cas": "x == y ? z : x",
    "inc": "x >= y ? 0 : x + 1",
    "dec": "x == 0 || x > y ? y : x - 1",
}
VOTES: Final = {
    "ballot": "ballot(W)",
    "any": "ballot(W) != 0",
    "all": "ballot(W) == W->arrived",
    "uni": "ballot(W) == 0 || ballot(W) == W->arrived",
}
NOTHING: Final = {"nanosleep", "prefetch", "discard", "griddepcontrol"}
MEETING: Final = re.compile(r"\b(?:bar|barrier|shfl|vote|mma|ldmatrix)\.")  # where a thread waits for others


def table(kind: str) -> dict[str, str]:
    """That of a type."""
    if kind == "pred":
        return PREDICATE
    return FLOATING if kind in FLOATS else SIGNED if kind[0] == "s" else UNSIGNED


def row(it: Instruction, table: dict[str, str]) -> str:
    """The longest name that has an expression: ``mul.wide`` before ``mul``."""
    chosen = [each for each in it.modifiers if each not in TYPES]
    candidates = [".".join((it.name, *chosen[:2])), *(f"{it.name}.{each}" for each in chosen), it.name]
    found = next((each for each in candidates if each in table), None)
    if found is None:
        raise Untranslatable("no expression is known for it")
    return found
