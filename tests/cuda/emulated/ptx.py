"""PTX, the assembly that NVRTC makes, on the host: to C, each kernel a function that runs a grid's threads in turn.

    kernel_NAME(const unsigned sizes[6], size_t dynamic, char* shared, void** parameters)

returns null, or a sentence that says what went wrong: a misaligned address, a trap, threads that wait for each other.
`sizes` are those of the grid and of the block; `shared` lies below 4 GiB, since PTX holds its addresses in 32 bits.

Most instructions are an expression in a table, over operands x, y, z of the instruction's type. What has none is
refused, with the instruction named. Not for speed, and not for races: threads take turns, and nothing runs at once.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

PRELUDE: Final = Path(__file__).with_name("prelude.h")
FLAGS: Final = "-march=native -ffp-contract=off -fno-strict-aliasing -frounding-math -fwrapv -w -shared -fPIC".split()
LARGE: Final = 400_000  # characters of C that gcc takes too long to optimise


class Untranslatable(Exception):
    """PTX that this module has no C for."""


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────

FLOATS: Final = {"f16": "f64", "bf16": "f64", "f32": "f32", "f64": "f64"}  # the type that they are computed in
PAIRS: Final = {"f16x2": "f16", "bf16x2": "bf16"}
TYPES: Final = {f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)} | {*FLOATS, *PAIRS, "pred", "b128"}
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

# Over operands x, y, z, w; {bits} is the type's width, {type} its name.
ANY: Final = {"mov": "x", "cvta": "x", "selp": "z ? x : y", "and": "x & y", "or": "x | y", "xor": "x ^ y", "cnot": "!x"}
INTEGER: Final = ANY | {
    "not": "~x",
    "add": "x + y",
    "sub": "x - y",
    "addc": "x + y",
    "subc": "x - y",
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
    "lop3": "logic(x, y, z, w)",
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
    "testp.finite": "isfinite(x)",
    "testp.infinite": "isinf(x)",
    "testp.notanumber": "isnan(x)",
    "testp.normal": "isnormal(x)",
}
PREDICATE: Final = ANY | {"not": "!x"}

# The types of the operands where they are not all the instruction's: t its own, u u32, p a predicate, 2 twice as wide.
OPERANDS: Final = {"selp": "ttp", "shl": "tu", "shr": "tu", "bfe": "tuu", "bfi": "ttuu", "mad.wide": "tt2"}
RESULTS: Final = {"mul.wide": "2", "mad.wide": "2", **dict.fromkeys(("popc", "clz", "bfind", "bfind.shiftamt"), "u")}
RESULTS |= {name: "p" for name in FLOATING if name.startswith("testp")}

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
NOTHING: Final = {"membar", "fence", "nanosleep", "prefetch", "discard", "griddepcontrol"}
MEETING: Final = re.compile(r"\b(?:bar|barrier|shfl|vote|match|redux)\.")  # where a thread waits for others


def bits(kind: str) -> int:
    return 8 if kind == "pred" else int(kind[1:].lstrip("f")) if kind not in PAIRS else 32


def unsigned(kind: str) -> str:
    """The C type of a register, or of what lies in memory: bits."""
    return f"u{bits(kind)}"


def number(kind: str) -> str:
    """The C type that values of a type are computed in."""
    if kind in FLOATS:
        return FLOATS[kind]
    return kind if kind[0] == "s" else unsigned(kind)


# ── parsing ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Instruction(NamedTuple):
    """``@!%p1 setp.lt.and.f32 %p2, %f1, 0f00000000, %p3``."""

    text: str
    guard: str
    name: str
    modifiers: list[str]
    operands: list[str]

    @property
    def types(self) -> list[str]:
        return [each for each in self.modifiers if each in TYPES]

    @property
    def type(self) -> str:
        """The last: of two, that of what is read."""
        return (self.types or ["b32"])[-1]


class Variable(NamedTuple):
    space: str
    kind: str
    name: str
    count: int
    align: int
    extern: bool
    values: list[str]

    @property
    def size(self) -> int:
        return bits(self.kind) // 8 * self.count


@dataclass
class Function:
    name: str
    entry: bool
    results: list[Variable]
    parameters: list[Variable]
    body: str


COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
HEADER: Final = re.compile(r"\s*\.(?:version|target|address_size|file|pragma)\b[^\n]*")
FUNCTION: Final = re.compile(
    r"\s*(?:\.(?:visible|weak|extern|common)\s+)*\.(entry|func)\s*(?:\(([^)]*)\))?\s*([$\w]+)\s*(?:\(([^)]*)\))?[^;{]*([;{])"
)
STATEMENT: Final = re.compile(r"\s*(?:([$\w]+)\s*:(?!:)|([{}])|([^;{}]*(?:\{[^}]*\}[^;{}]*)*);)")
INSTRUCTION: Final = re.compile(r"(?:@(!?%?\w+)\s+)?(\w+)((?:[.:]+\w+)*)\s*(.*)", re.DOTALL)
VARIABLE: Final = re.compile(
    r"((?:\.(?:visible|weak|extern|common)\s+)*)\.(global|const|shared|local|param)\s*(?:\.align\s+(\d+)\s*)?"
    r"\.(\w+)\s+(?:\.ptr\s*(?:\.(?!align)\w+\s*)?(?:\.align\s+\d+\s*)?)?([$\w]+)\s*((?:\[\d*\])*)\s*(?:=\s*(.*))?",
    re.DOTALL,
)


def split(text: str) -> list[str]:
    """At commas outside of brackets."""
    parts = re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,{[(])+", text)
    return [part.strip() for part in parts if part.strip()]


def parse_variable(text: str) -> Variable:
    found = VARIABLE.fullmatch(text.strip())
    if not found:
        raise Untranslatable(text[:200])
    linkage, space, align, kind, name, shape, values = found.groups()
    count = 1
    for length in re.findall(r"\[(\d*)\]", shape):
        count *= int(length or 0)
    initial = split((values or "").strip("{} \n"))
    return Variable(space, kind, name, count, int(align or 8), "extern" in linkage, initial)


def parse_instruction(text: str) -> Instruction:
    found = INSTRUCTION.fullmatch(text)
    if not found:
        raise Untranslatable(text)
    guard, name, modifiers, operands = found.groups()
    return Instruction(text, guard or "", name, re.split(r"[.:]+", modifiers)[1:], split(operands))


def parse(text: str) -> Iterator[Variable | Function]:
    """A module's variables, and its functions that have a body."""
    text = HEADER.sub("", COMMENT.sub("", text))
    at = 0
    while text[at:].strip():
        head = FUNCTION.match(text, at)
        if not head:
            end = STATEMENT.match(text, at)
            if not end or not end[3]:
                raise Untranslatable(text[at : at + 200])
            yield parse_variable(end[3])
            at = end.end()
            continue
        at = head.end()
        if head[5] == ";":
            continue
        start, depth = at, 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        results, parameters = ([parse_variable(each) for each in split(head[group] or "")] for group in (2, 4))
        yield Function(head[3], head[1] == "entry", results, parameters, text[start : at - 1])


# ── emission ────────────────────────────────────────────────────────────────────────────────────────────────────


def c_name(name: str) -> str:
    return re.sub(r"\W", "_", name.lstrip("%"))


@dataclass
class Module:
    """What a module's functions share."""

    globals: dict[str, str] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)  # an offset into shared memory
    functions: set[str] = field(default_factory=set)
    shared_size: int = 0
    declared: list[str] = field(default_factory=list)

    def declare(self, variable: Variable) -> None:
        name, align = variable.name, variable.align
        if variable.space == "shared" and variable.extern:
            self.shared[name] = "DYNAMIC"
        elif variable.space == "shared":
            start = -(-self.shared_size // align) * align
            self.shared[name], self.shared_size = str(start), start + variable.size
        else:
            self.globals[name] = f"g_{c_name(name)}"
            values = ", ".join(_immediate(value) or "0" for value in variable.values)
            self.declared.append(
                f"static {unsigned(variable.kind)} g_{c_name(name)}[{max(variable.count, 1)}]"
                f" __attribute__((aligned({max(align, 8)}))){f' = {{{values}}}' if values else ''};"
            )


def _immediate(text: str) -> str | None:
    """A number as C's bits."""
    if re.match(r"0[fFdD]", text):
        return f"0x{text[2:]}ull"
    if re.match(r"-?\d", text):
        return f"{int(text.rstrip('U'), 0) & (1 << 64) - 1:#x}ull"
    return None


class Emitter:
    """One function's C. `T` is its thread where it can wait, `P` the thread's position."""

    def __init__(self, module: Module, function: Function) -> None:
        self.module, self.function = module, function
        self.waits = function.entry and bool(MEETING.search(function.body))
        self.registers: dict[str, str] = {}
        self.arrays: dict[str, int] = {}
        self.places: dict[str, str] = {each.name: f"parameters[{i}]" for i, each in enumerate(function.parameters)}
        self.places |= {each.name: f"results[{i}]" for i, each in enumerate(function.results)}
        self.scopes: list[dict[str, tuple[str, str]]] = [{}]
        self.tables: dict[str, list[str]] = {}
        self.lines: list[str] = []
        self.stops = 0
        self._statements()

    def _statements(self) -> None:
        body, at, label = self.function.body, 0, ""
        while found := STATEMENT.match(body, at):
            at = found.end()
            name, brace, text = found.groups()
            if name:
                label = name
                self.lines.append(f"L_{c_name(name)}:;")
            elif brace == "{":
                self.scopes.append({})
            elif brace:
                self.scopes.pop()
            elif text.startswith(".branchtargets"):
                self.tables[label] = split(text.removeprefix(".branchtargets"))
            elif text.startswith("."):
                self._directive(text)
            elif text:
                self._instruction(parse_instruction(text))
        if body[at:].strip():
            raise Untranslatable(body[at : at + 200])

    def _directive(self, text: str) -> None:
        register = re.match(r"\.reg\s+\.(\w+)\s+(.*)", text, re.DOTALL)
        if register:
            for name in split(register[2]):
                many = re.fullmatch(r"(%?\w+)<(\d+)>", name)
                for each in [f"{many[1]}{i}" for i in range(int(many[2]))] if many else [name]:
                    own = f"r{len(self.registers)}_{c_name(each)}"
                    self.registers[own] = unsigned(register[1])
                    self.scopes[-1][each] = (f"{'T->' if self.waits else ''}{own}", unsigned(register[1]))
        elif text.startswith((".shared", ".extern")):
            self.module.declare(parse_variable(text))
        elif text.startswith((".local", ".param")):
            variable = parse_variable(text)
            own = f"a{len(self.arrays)}_{c_name(variable.name)}"
            self.arrays[own] = max(variable.size, 1)
            self.places[variable.name] = f"{'T->' if self.waits else ''}{own}"
        elif not text.startswith((".loc", ".pragma", ".file")):
            raise Untranslatable(text)

    def _instruction(self, it: Instruction) -> None:
        try:
            emit = SPECIFIC.get(it.name, Emitter.compute)
            code = "" if it.name in NOTHING else emit(self, it)
        except (Untranslatable, KeyError, IndexError, StopIteration) as error:
            raise Untranslatable(f"{it.text.strip()!r} in {self.function.name}: {error!r}") from error
        if it.guard:
            code = f"if ({self.bits(it.guard)}) {{ {code} }}"
        self.lines.append(code)

    # operands

    def register(self, name: str) -> tuple[str, str] | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def bits(self, operand: str) -> str:
        """The bits of an operand, as an unsigned C expression."""
        if operand.startswith("!"):
            return f"!{self.bits(operand[1:])}"
        register = self.register(operand)
        if register:
            return register[0]
        return SPECIAL.get(operand) or _immediate(operand) or self.symbol(operand)

    def symbol(self, name: str) -> str:
        """The address of what has a name."""
        if name in self.places:
            return f"(u64){self.places[name]}"
        if name in self.module.shared:
            return f"((u64)P->shared + {self.module.shared[name]})"
        if name in self.module.globals:
            return f"(u64){self.module.globals[name]}"
        raise Untranslatable(f"{name} is not declared")

    def address(self, operand: str) -> str:
        found = re.fullmatch(r"\[\s*([%$\w]+)\s*(?:\+\s*(-?\w+))?\s*\]", operand)
        if not found:
            raise Untranslatable(f"the address {operand}")
        return f"(u64){self.bits(found[1])} + {_immediate(found[2] or '0')}"

    def value(self, operand: str, kind: str) -> str:
        """An operand as a number of a type."""
        raw = self.bits(operand)
        return f"decode_{kind}({raw})" if kind in FLOATS else f"({number(kind)})({raw})"

    def put(self, operand: str, kind: str, expression: str) -> str:
        """Store a number of a type; a register may be wider, and takes the sign."""
        if operand == "_":
            return f"(void)({expression});"
        register = self.register(operand)
        if not register:
            raise Untranslatable(f"{operand} is no register")
        bits = f"encode_{kind}({expression})" if kind in FLOATS else f"({number(kind)})({expression})"
        return f"{register[0]} = {bits};"

    # what most instructions are

    def compute(self, it: Instruction) -> str:
        """By one of the tables."""
        kind = it.type
        if kind in PAIRS:
            return self._halves(it, PAIRS[kind])
        if "cc" in it.modifiers or it.name in ("addc", "subc", "madc"):
            return self._carried(it)
        name = _row(it, _table(kind))
        wide = f"{kind[0]}{2 * bits(kind)}" if kind[0] in "us" and bits(kind) < 64 else kind
        letters = {"t": kind, "u": "u32", "p": "pred", "2": wide}
        kinds = [letters[each] for each in OPERANDS.get(name, "t" * (len(it.operands) - 1))]
        expression = _table(kind)[name].format(bits=bits(kind), type=number(kind), f="f" if kind == "f32" else "")
        if kind == "f64" and "approx" in it.modifiers:
            expression = f"upper_half({expression})"
        if len(it.operands) == 4 and name in ("min", "max"):  # of three
            expression = f"{expression[:-2]}{expression.replace('x, y', 'y, z')})"
        if "sat" in it.modifiers and kind == "s32":
            expression = f"clamp_s32((f64){expression})"
        return self.assign(it, it.operands[0], letters[RESULTS.get(name, "t")], expression, it.operands[1:], kinds)

    def assign(
        self, it: Instruction, to: str, result: str, expression: str, operands: Sequence[str], kinds: Sequence[str]
    ) -> str:
        """``{ const f32 x = …, y = …; to = expression; }`` with what modifiers say: rounding, .ftz, .sat."""
        flush = "ftz" in it.modifiers
        rounding = next((each for each in it.modifiers if each in ROUNDINGS), "rn")
        names = []
        for name, operand, kind in zip("xyzw", operands, kinds, strict=False):
            value = self.value(operand, kind)
            names.append(f"{number(kind)} {name} = {f'flushed({value})' if flush and kind == 'f32' else value};")
        if "sat" in it.modifiers and result in FLOATS:
            expression = f"saturated({expression})"
        if rounding == "rn":
            read = " ".join(f"const {each}" for each in names)
        elif result in ("f16", "bf16"):
            raise Untranslatable("halves are rounded to nearest only")
        else:
            read = " ".join(f"volatile {each}" for each in names)
            read += f" fesetround({ROUNDINGS[rounding]}); volatile {number(result)} rounded = {expression};"
            read, expression = f"{read} fesetround(FE_TONEAREST);", "rounded"
        if flush and result == "f32":
            expression = f"flushed({expression})"
        return f"{{ {read} {self.put(to, result, expression)} }}"

    def _halves(self, it: Instruction, half: str) -> str:
        """Two halves, one after the other."""
        expression = FLOATING[_row(it, FLOATING)].format(f="")
        operands = zip("xyz", it.operands[1:], strict=False)
        read = " ".join(f"const f64 {name} = decode_{half}({self.bits(each)} >> i);" for name, each in operands)
        put = self.put(it.operands[0], "b32", "both")
        return (
            f"{{ u32 both = 0; for (int i = 0; i < 32; i += 16) {{ {read}"
            f" both |= (u32)encode_{half}({expression}) << i; }} {put} }}"
        )

    def _carried(self, it: Instruction) -> str:
        """Sums of more bits than a register has: in 128 bits, of which the next is the carry."""
        kind = f"u{bits(it.type)}"
        name = it.name.removesuffix("c") if it.name.endswith("c") else it.name
        carry = "carry" if it.name.endswith("c") else "0"
        x, y, *z = (f"(u128)({kind})({self.bits(each)})" for each in it.operands[1:])
        carry = f"T->{carry}" if self.waits and carry == "carry" else carry
        if name == "mad":
            product = f"({kind})({x} * {y} >> {bits(kind) if 'hi' in it.modifiers else 0})"
            total = f"(u128){product} + {z[0]} + {carry}"
        else:
            sign = {"add": "+", "sub": "-"}[name]
            total = f"{x} {sign} {y} {sign} {carry}"
        keep = f"{'T->' if self.waits else ''}carry = total >> {bits(kind)} & 1;" if "cc" in it.modifiers else ""
        return f"{{ const u128 total = {total}; {self.put(it.operands[0], kind, 'total')} {keep} }}"

    def move(self, it: Instruction) -> str:
        """Of bits, also to and from several registers."""
        to, source = it.operands[:2]
        if to.startswith("{"):
            parts = split(to[1:-1])
            width = bits(it.type) // len(parts)
            puts = [self.put(each, f"u{width}", f"whole >> {i * width}") for i, each in enumerate(parts)]
            return f"{{ const u64 whole = {self.bits(source)}; {' '.join(puts)} }}"
        if source.startswith("{"):
            parts = split(source[1:-1])
            width = bits(it.type) // len(parts)
            whole = " | ".join(f"(u64)(u{width}){self.bits(each)} << {i * width}" for i, each in enumerate(parts))
            return self.put(to, "b64", whole)
        return self.put(to, "b64", self.bits(source))

    def select(self, it: Instruction) -> str:
        to, yes, no, predicate = it.operands
        return self.put(to, "b64", f"{self.bits(predicate)} ? {self.bits(yes)} : {self.bits(no)}")

    def convert(self, it: Instruction) -> str:
        to, source = it.types[0], it.types[-1]
        integral = next((TO_INTEGRAL[each] for each in it.modifiers if each in TO_INTEGRAL), "")
        if to in PAIRS:  # the first operand is the upper half
            upper, lower = (f"(u32)encode_{PAIRS[to]}({self.value(each, source)})" for each in it.operands[1:])
            return self.put(it.operands[0], "b32", f"{upper} << 16 | {lower}")
        if {"relu", "rna", "rs"} & set(it.modifiers):
            raise Untranslatable("a conversion of this kind")
        expression = f"{integral}(x)" if integral else "x"
        if source in FLOATS and to not in FLOATS:
            expression = f"clamp_{to}({expression if integral else 'trunc(x)'})"
        elif "sat" in it.modifiers and to not in FLOATS:
            expression = f"clamp_{to}(x)"
        return self.assign(it, it.operands[0], to, expression, it.operands[1:], [source])

    def compare(self, it: Instruction) -> str:
        """``setp`` gives one or two predicates, ``set`` all ones or 1.0."""
        kind, operands = it.type, it.operands
        table = FLOATS_COMPARED if kind in FLOATS else INTEGERS_COMPARED
        combine = next((COMBINED[each] for each in it.modifiers[1:] if each in COMBINED), "")
        with_it = f"{combine} ({self.bits(operands[3])} != 0)" if combine else ""
        yes, no = f"({table[it.modifiers[0]]}) {with_it}", f"!({table[it.modifiers[0]]}) {with_it}"
        if it.name == "set":
            result = it.types[0]
            value = f"({yes}) ? {'1' if result in FLOATS else '-1'} : 0"
            return self.assign(it, operands[0], result, value, operands[1:3], [kind] * 2)
        first, *second = (each.strip() for each in operands[0].split("|"))
        code = self.assign(it, first, "pred", yes, operands[1:3], [kind] * 2)
        return code + "".join(self.assign(it, each, "pred", no, operands[1:3], [kind] * 2) for each in second)

    # memory

    def load(self, it: Instruction) -> str:
        """All is read before any of it is written: a destination may hold the address."""
        vector = it.operands[0].startswith("{")
        to = split(it.operands[0][1:-1]) if vector else it.operands[:1]
        kind = it.type if it.type not in FLOATS else f"b{bits(it.type)}"
        width = bits(kind) // 8
        reads = [f"const {number(kind)} v{i} = READ({number(kind)}, at + {i * width});" for i in range(len(to))]
        puts = [self.put(each, kind, f"v{i}") for i, each in enumerate(to)]
        return self._at(it, it.operands[1], width * len(to), " ".join(reads + puts))

    def store(self, it: Instruction) -> str:
        vector = it.operands[1].startswith("{")
        values = split(it.operands[1][1:-1]) if vector else it.operands[1:]
        kind = unsigned(it.type)
        width = bits(kind) // 8
        writes = [f"WRITE({kind}, at + {i * width}, {self.bits(each)});" for i, each in enumerate(values)]
        return self._at(it, it.operands[0], width * len(values), " ".join(writes))

    def atomic(self, it: Instruction) -> str:
        """Threads take turns, so nothing comes between."""
        kind, operands = it.type, it.operands if it.name == "atom" else ["_", *it.operands]
        stored, computed = unsigned(kind), number(kind)
        after = ATOMIC[next(each for each in it.modifiers if each in ATOMIC)]
        names = [f"const {computed} {n} = {self.value(v, kind)};" for n, v in zip("yz", operands[2:], strict=False)]
        was = f"decode_{kind}(bits)" if kind in FLOATS else f"({computed})bits"
        result = f"encode_{kind}({after})" if kind in FLOATS else after
        read = f"const {stored} bits = READ({stored}, at); const {computed} x = {was}; {' '.join(names)}"
        write = f"WRITE({stored}, at, {result}); {self.put(operands[0], stored, 'bits')}"
        return self._at(it, operands[1], bits(kind) // 8, f"{read} {write}")

    def _at(self, it: Instruction, operand: str, width: int, code: str) -> str:
        checked = "" if {"param", "local"} & set(it.modifiers) else f"ALIGNED(at, {width}); "
        return f"{{ const u64 at = {self.address(operand)}; {checked}{code} }}"

    # control

    def branch(self, it: Instruction) -> str:
        return f"goto L_{c_name(it.operands[0])};"

    def branch_by_table(self, it: Instruction) -> str:
        """The table may follow: it is filled in when the function is whole."""
        return f"switch ({self.bits(it.operands[0])}) {{ TABLE({it.operands[1]}) }}"

    def leave(self, it: Instruction) -> str:
        if not self.waits:
            return "return;"
        return "T->thread.next = ENDED; return RUNS;"

    def trap(self, it: Instruction) -> str:
        return f'fail("trap in {self.function.name}");'

    def call(self, it: Instruction) -> str:
        """``call (result), name, (parameters)``; what CUDA itself offers prints, or ends."""
        groups = [split(each[1:-1]) if each.startswith("(") else each for each in it.operands]
        results = groups.pop(0) if isinstance(groups[0], list) else []
        name, parameters = groups[0], groups[1] if len(groups) > 1 else []
        if name == "vprintf":
            return ";"
        if name == "__assertfail":
            return f'fail("an assertion failed in {self.function.name}");'
        if name not in self.module.functions:
            raise Untranslatable(f"{name} is not known")
        lists = [
            ", ".join(f"(char*){self.places[each]}" for each in group) or "NULL" for group in (results, parameters)
        ]
        return f"f_{c_name(str(name))}(P, (char*[]){{{lists[0]}}}, (char*[]){{{lists[1]}}});"

    # other threads

    def _wait(self, state: str, after: str = "", lanes: str = "", given: str = "0") -> str:
        """Return, and go on here when the others have come."""
        if not self.waits:
            raise Untranslatable("only a kernel itself waits for other threads")
        self.stops += 1
        before = f"T->thread.lanes = {lanes}; T->thread.given = {given}; " if lanes else ""
        return f"{before}T->thread.next = {self.stops}; return {state}; S{self.stops}:; {after}"

    def barrier(self, it: Instruction) -> str:
        if it.modifiers[0] == "warp":
            return self._wait("WAITS_FOR_LANES", lanes=self.bits(it.operands[0]))
        if "sync" not in it.modifiers or len(it.operands) > 1:
            raise Untranslatable("only a barrier of all threads of a block")
        return self._wait("WAITS_FOR_BLOCK")

    def shuffle(self, it: Instruction) -> str:
        to, given, by, bounds, lanes = it.operands
        first, *second = (each.strip() for each in to.split("|"))
        value = f"shuffled(&T->thread, '{it.modifiers[1][0]}', {self.bits(by)}, {self.bits(bounds)}, &within)"
        puts = [self.put(first, "b32", value), *(self.put(each, "pred", "within") for each in second)]
        return self._wait("WAITS_FOR_LANES", f"{{ u8 within; {' '.join(puts)} }}", self.bits(lanes), self.bits(given))

    def vote(self, it: Instruction) -> str:
        to, given, lanes = it.operands
        value = VOTES[it.modifiers[1]].replace("W", "(&T->thread)")
        after = self.put(to, "b32" if it.modifiers[1] == "ballot" else "pred", value)
        return self._wait("WAITS_FOR_LANES", after, self.bits(lanes), f"{self.bits(given)} != 0")

    def match(self, it: Instruction) -> str:
        to, given, lanes = it.operands
        after = self.put(to, "b32", f"equal_lanes(&T->thread, {self.bits(given)})")
        return self._wait("WAITS_FOR_LANES", after, self.bits(lanes), self.bits(given))

    def reduce(self, it: Instruction) -> str:
        to, given, lanes = it.operands
        kind, after = number(it.type), ATOMIC[it.modifiers[1]]
        step = f"const {kind} y = (u32)T->thread.taken[i]; x = any++ ? ({after}) : y;"
        loop = f"{{ {kind} x; int any = 0; EACH_LANE(&T->thread, i) {{ {step} }} {self.put(to, it.type, 'x')} }}"
        return self._wait("WAITS_FOR_LANES", loop, self.bits(lanes), self.bits(given))

    def active(self, it: Instruction) -> str:
        return self.put(it.operands[0], "b32", "T->thread.alive" if self.waits else "1u << P->lane")

    # the whole

    def text(self) -> str:
        """The function, and its way in if it is a kernel."""
        name, registers = c_name(self.function.name), {"carry": "u32", **self.registers}
        lines = "\n".join(self.lines).replace("DYNAMIC", f"{-(-self.module.shared_size // 128) * 128}")
        lines = re.sub(r"TABLE\(([$\w]+)\)", lambda found: self._cases(found[1]), lines)
        arrays = " ".join(f"char {own}[{size}] __attribute__((aligned(16)));" for own, size in self.arrays.items())
        if not self.function.entry:
            zeroed = " ".join(f"{kind} {own} = 0;" for own, kind in registers.items())
            return f"{self.prototype()} {{\n{zeroed} {arrays}\n{lines}\n}}"
        launch = "const unsigned* sizes, size_t dynamic, char* shared, void** parameters"
        exported = f"const char* kernel_{name}({launch}) {{"
        if not self.waits:
            zeroed = " ".join(f"{kind} {own} = 0;" for own, kind in registers.items())
            whole = f"static void run_{name}(const Position* P, void** parameters) {{\n{zeroed} {arrays}\n{lines}\n}}"
            return f"{whole}\n{exported} return run_apart(run_{name}, sizes, dynamic, shared, parameters); }}"
        fields = " ".join(f"{kind} {own};" for own, kind in registers.items())
        cases = " ".join(f"case {i}: goto S{i};" for i in range(1, self.stops + 1))
        fixed = -(-self.module.shared_size // 128) * 128
        return f"""typedef struct {{ Thread thread; {fields} {arrays} }} Thread_{name};
static State step_{name}(Thread* thread, void** parameters) {{
Thread_{name}* const T = (Thread_{name}*)thread; const Position* const P = &thread->position;
switch (thread->next) {{ {cases} }}
{lines}
T->thread.next = ENDED; return RUNS;
}}
{exported}
return run_together(step_{name}, sizeof(Thread_{name}), "{name}", {fixed}, sizes, dynamic, shared, parameters); }}"""

    def prototype(self) -> str:
        name = c_name(self.function.name)
        return f"static void f_{name}(const Position* P, char** results, char** parameters)"

    def _cases(self, table: str) -> str:
        return " ".join(f"case {i}: goto L_{c_name(each)};" for i, each in enumerate(self.tables[table]))


def _table(kind: str) -> dict[str, str]:
    if kind == "pred":
        return PREDICATE
    return FLOATING if kind in FLOATS else SIGNED if kind[0] == "s" else UNSIGNED


def _row(it: Instruction, table: dict[str, str]) -> str:
    """The longest name that has an expression: ``mul.wide`` before ``mul``."""
    chosen = [each for each in it.modifiers if each not in TYPES]
    candidates = [".".join((it.name, *chosen[:2])), *(f"{it.name}.{each}" for each in chosen), it.name]
    found = next((each for each in candidates if each in table), None)
    if found is None:
        raise Untranslatable("no expression is known for it")
    return found


SPECIFIC: Final[dict[str, Callable[[Emitter, Instruction], str]]] = {
    "mov": Emitter.move,
    "selp": Emitter.select,
    "cvt": Emitter.convert,
    "setp": Emitter.compare,
    "set": Emitter.compare,
    "ld": Emitter.load,
    "ldu": Emitter.load,
    "st": Emitter.store,
    "atom": Emitter.atomic,
    "red": Emitter.atomic,
    "bra": Emitter.branch,
    "brx": Emitter.branch_by_table,
    "ret": Emitter.leave,
    "exit": Emitter.leave,
    "trap": Emitter.trap,
    "call": Emitter.call,
    "bar": Emitter.barrier,
    "barrier": Emitter.barrier,
    "shfl": Emitter.shuffle,
    "vote": Emitter.vote,
    "match": Emitter.match,
    "redux": Emitter.reduce,
    "activemask": Emitter.active,
}


def translate(text: str) -> str:
    """C for a module of PTX.

    Raises
    ------
    Untranslatable
        With the instruction.
    """
    module, functions = Module(), []
    for each in parse(text):
        if isinstance(each, Variable):
            module.declare(each)
        else:
            functions.append(each)
            module.functions.add(each.name)
    emitted = [Emitter(module, function) for function in functions]
    prototypes = [f"{each.prototype()};" for each in emitted if not each.function.entry]
    return "\n".join([f'#include "{PRELUDE.name}"', *module.declared, *prototypes, *(each.text() for each in emitted)])


def build(text: str, folder: Path) -> Path:
    """A module of PTX as a shared library in a folder; made once. What cannot be translated is kept there.

    Raises
    ------
    Untranslatable
        With the instruction, or gcc's message, and the path of the PTX.
    """
    key = hashlib.sha256(text.encode() + Path(__file__).read_bytes() + PRELUDE.read_bytes()).hexdigest()[:32]
    library = folder / f"{key}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    made, kept = folder / f"{key}.{os.getpid()}.so", folder / f"{key}.ptx"
    try:
        code = translate(text)
        optimisation = "-O0" if len(code) > LARGE else "-O1"
        command = ["gcc", optimisation, *FLAGS, f"-I{PRELUDE.parent}", "-x", "c", "-", "-x", "none", "-o", made, "-lm"]
        done = subprocess.run(command, input=code, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Untranslatable(f"gcc: {done.stderr[:2000]}")
    except Untranslatable as error:
        kept.write_text(text, encoding="utf-8")
        raise Untranslatable(f"{error}; the PTX is {kept}") from error
    made.replace(library)
    return library
