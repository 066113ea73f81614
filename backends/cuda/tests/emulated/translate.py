"""PTX to C, so that the host runs it: each kernel a function that runs a grid's threads in turn.

    const char* kernel_NAME(const unsigned sizes[6], size_t dynamic, char* shared, void** parameters)

returns null, or a sentence that says what went wrong: a misaligned address, a trap, threads that wait for each other.
`sizes` are those of the grid and of the block; `shared` lies below 4 GiB, since PTX holds its addresses in 32 bits.
``sizes_NAME`` has the number of parameters, and the bytes of each.

Most instructions are an expression in a table, over operands x, y, z of the instruction's type. What has none is
refused, with the instruction named. Not for speed: threads take turns, in the order that EMULATED_ORDER says, and
nothing runs at once. With -DFIND_RACES accesses that nothing orders fail.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from .expressions import (
    ATOMIC,
    COMBINED,
    FLOATS_COMPARED,
    INTEGERS_COMPARED,
    MEETING,
    NOTHING,
    OPERANDS,
    RESULTS,
    ROUNDINGS,
    SPECIAL,
    TO_INTEGRAL,
    VOTES,
    row,
    table,
)
from .ptx import (
    FLOATS,
    PAIRS,
    Function,
    Instruction,
    Untranslatable,
    Variable,
    bits_of,
    listed,
    parse,
    parse_instruction,
    parse_variable,
    statements,
)

PRELUDE: Final = Path(__file__).with_name("prelude.h")
MACHINE: Final = os.environ.get("EMULATED_MACHINE", "native")  # whose instructions gcc may use
FLAGS: Final = (
    f"-march={MACHINE} -ffp-contract=off -fno-strict-aliasing -frounding-math -fwrapv -w -shared -fPIC".split()
)
OWN: Final = [PRELUDE.with_name(name) for name in ("translate.py", "expressions.py", "ptx.py", "prelude.h", "races.h")]
LARGE: Final = 400_000  # characters of C that gcc takes too long to optimise


def unsigned(kind: str) -> str:
    """The C type of a register, or of what lies in memory: bits."""
    return f"u{bits_of(kind)}"


def number(kind: str) -> str:
    """The C type that values of a type are computed in."""
    return FLOATS.get(kind) or (kind if kind[0] == "s" else unsigned(kind))


def c_name(name: str) -> str:
    return re.sub(r"\W", "_", name.lstrip("%"))


class Module:
    """What a module's functions share."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {}  # the address of each variable
        self.functions: set[str] = set()
        self.shared_size = 0
        self.declared: list[str] = []

    def declare(self, it: Variable) -> None:
        if it.space == "shared" and it.extern:
            self.places[it.name] = "((u64)P->shared + FIXED)"  # behind what has a size
        elif it.space == "shared":
            start = -(-self.shared_size // it.align) * it.align
            self.places[it.name], self.shared_size = f"((u64)P->shared + {start})", start + it.size
        else:
            own = f"g_{c_name(it.name)}"
            self.places[it.name] = f"(u64){own}"
            values = ", ".join(_immediate(value) or "0" for value in it.values)
            attributes = f"__attribute__((aligned({max(it.align, 8)}))) = {{{values}}}"
            self.declared.append(f"static {unsigned(it.kind)} {own}[{max(it.length, 1)}] {attributes};")

    def text(self) -> str:
        fixed = -(-self.shared_size // 128) * 128
        return "\n".join([f'#include "{PRELUDE.name}"', f"enum {{ FIXED = {fixed} }};", *self.declared])


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
        self.own = "T->" if self.waits else ""
        self.registers: dict[str, str] = {}
        self.arrays: dict[str, int] = {}
        self.places = {each.name: f"(u64)parameters[{i}]" for i, each in enumerate(function.parameters)}
        self.places |= {each.name: f"(u64)results[{i}]" for i, each in enumerate(function.results)}
        self.scopes: list[dict[str, str]] = [{}]
        self.tables: dict[str, list[str]] = {}
        self.lines: list[str] = []
        self.stops = 0
        self._statements()

    def _statements(self) -> None:
        label = ""
        for name, brace, text in statements(self.function.body):
            if name:
                label = name
                self.lines.append(f"L_{c_name(name)}:;")
            elif brace == "{":
                self.scopes.append({})
            elif brace:
                self.scopes.pop()
            elif text.startswith(".branchtargets"):
                self.tables[label] = listed(text.removeprefix(".branchtargets"))
            elif text.startswith("."):
                self._directive(text)
            elif text:
                self._instruction(parse_instruction(text))

    def _directive(self, text: str) -> None:
        register = re.match(r"\.reg\s+\.(\w+)\s+(.*)", text, re.DOTALL)
        if register:
            for name in listed(register[2]):
                many = re.fullmatch(r"(%?\w+)<(\d+)>", name)
                for each in [f"{many[1]}{i}" for i in range(int(many[2]))] if many else [name]:
                    own = f"r{len(self.registers)}_{c_name(each)}"
                    self.registers[own] = unsigned(register[1])
                    self.scopes[-1][each] = f"{self.own}{own}"
        elif text.startswith((".shared", ".extern")):
            self.module.declare(parse_variable(text))
        elif text.startswith((".local", ".param")):
            variable = parse_variable(text)
            own = f"a{len(self.arrays)}_{c_name(variable.name)}"
            self.arrays[own] = max(variable.size, 1)
            self.places[variable.name] = f"(u64){self.own}{own}"
        elif not text.startswith((".loc", ".pragma", ".file")):
            raise Untranslatable(text)

    def _instruction(self, it: Instruction) -> None:
        try:
            emit = SPECIFIC.get(it.name, Emitter.compute)
            code = "" if it.name in NOTHING else emit(self, it) + self._counted(it)
        except (Untranslatable, KeyError, IndexError, StopIteration) as error:
            raise Untranslatable(f"{it.text.strip()!r} in {self.function.name}: {error!r}") from error
        if it.guard:
            code = f"if ({self.bits(it.guard)}) {{ {code} }}"
        self.lines.append(f"COUNT(INSTRUCTIONS, 1) {code}")

    def _counted(self, it: Instruction) -> str:
        """What an instruction moves between the device's memory and registers."""
        if it.name not in MOVES or {"param", "local", "shared", "const"} & set(it.modifiers):
            return ""
        values = next((each for each in it.operands if each.startswith("{")), "")
        size = bits_of(it.type) // 8 * max(len(listed(values[1:-1])), 1)
        return "".join(f" COUNT({what}, {size})" for what in MOVES[it.name])

    # operands

    def register(self, name: str) -> str | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def bits(self, operand: str) -> str:
        """The bits of an operand, as an unsigned C expression; of a name in memory, its address."""
        if operand.startswith("!"):
            return f"!{self.bits(operand[1:])}"
        found = self.register(operand) or SPECIAL.get(operand) or _immediate(operand)
        found = found or self.places.get(operand) or self.module.places.get(operand)
        if not found:
            raise Untranslatable(f"{operand} is not declared")
        return found

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
        encoded = f"encode_{kind}({expression})" if kind in FLOATS else f"({number(kind)})({expression})"
        return f"{register} = {encoded};"

    # what most instructions are

    def compute(self, it: Instruction) -> str:
        """By one of the tables."""
        kind = it.type
        if "cc" in it.modifiers or it.name in ("addc", "subc", "madc"):
            return self._carried(it)
        name = row(it, table(kind))
        wide = f"{kind[0]}{2 * bits_of(kind)}" if kind[0] in "us" and bits_of(kind) < 64 else kind
        letters = {"t": kind, "u": "u32", "2": wide}
        kinds = [letters[each] for each in OPERANDS.get(name, "t" * (len(it.operands) - 1))]
        expression = table(kind)[name].format(bits=bits_of(kind), type=number(kind), f="f" if kind == "f32" else "")
        if kind == "f64" and "approx" in it.modifiers:
            expression = f"upper_half({expression})"
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

    def _carried(self, it: Instruction) -> str:
        """Sums of more bits than a register has: in 128 bits, of which the next is the carry."""
        kind, name = unsigned(it.type), it.name.removesuffix("c")
        carry = f"{self.own}carry" if it.name.endswith("c") else "0"
        x, y, *z = (f"(u128)({kind})({self.bits(each)})" for each in it.operands[1:])
        if name == "mad":
            product = f"({kind})({x} * {y} >> {bits_of(kind) if 'hi' in it.modifiers else 0})"
            total = f"(u128){product} + {z[0]} + {carry}"
        else:
            sign = {"add": "+", "sub": "-"}[name]
            total = f"{x} {sign} {y} {sign} {carry}"
        keep = f"{self.own}carry = total >> {bits_of(kind)} & 1;" if "cc" in it.modifiers else ""
        return f"{{ const u128 total = {total}; {self.put(it.operands[0], kind, 'total')} {keep} }}"

    def move(self, it: Instruction) -> str:
        """Of bits, also to and from several registers."""
        to, source = it.operands[:2]
        if to.startswith("{"):
            parts = listed(to[1:-1])
            width = bits_of(it.type) // len(parts)
            puts = [self.put(each, f"u{width}", f"whole >> {i * width}") for i, each in enumerate(parts)]
            return f"{{ const u64 whole = {self.bits(source)}; {' '.join(puts)} }}"
        if source.startswith("{"):
            parts = listed(source[1:-1])
            width = bits_of(it.type) // len(parts)
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
        """One or two predicates: the second is the other's opposite, combined in the same way."""
        kind, operands = it.type, it.operands
        table = FLOATS_COMPARED if kind in FLOATS else INTEGERS_COMPARED
        combine = next((COMBINED[each] for each in it.modifiers[1:] if each in COMBINED), "")
        with_it = f"{combine} ({self.bits(operands[3])} != 0)" if combine else ""
        yes, no = f"({table[it.modifiers[0]]}) {with_it}", f"!({table[it.modifiers[0]]}) {with_it}"
        first, *second = (each.strip() for each in operands[0].split("|"))
        code = self.assign(it, first, "pred", yes, operands[1:3], [kind] * 2)
        return code + "".join(self.assign(it, each, "pred", no, operands[1:3], [kind] * 2) for each in second)

    # memory

    def load(self, it: Instruction) -> str:
        """All is read before any of it is written: a destination may hold the address."""
        vector = it.operands[0].startswith("{")
        to = listed(it.operands[0][1:-1]) if vector else it.operands[:1]
        kind = it.type if it.type not in FLOATS else f"b{bits_of(it.type)}"
        width = bits_of(kind) // 8
        reads = [f"const {number(kind)} v{i} = READ({number(kind)}, at + {i * width});" for i in range(len(to))]
        puts = [self.put(each, kind, f"v{i}") for i, each in enumerate(to)]
        return self._at(it, it.operands[1], width * len(to), " ".join(reads + puts), "READS")

    def store(self, it: Instruction) -> str:
        vector = it.operands[1].startswith("{")
        values = listed(it.operands[1][1:-1]) if vector else it.operands[1:]
        kind = unsigned(it.type)
        width = bits_of(kind) // 8
        writes = [f"WRITE({kind}, at + {i * width}, {self.bits(each)});" for i, each in enumerate(values)]
        return self._at(it, it.operands[0], width * len(values), " ".join(writes), "WRITES")

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
        return self._at(it, operands[1], bits_of(kind) // 8, f"{read} {write}", "ATOMIC")

    def _at(self, it: Instruction, operand: str, width: int, code: str, what: str) -> str:
        own = {"param", "local"} & set(it.modifiers)
        checked = "" if own else f"ALIGNED(at, {width}); RACES(touch({what}, at, {width})) "
        return f"{{ const u64 at = {self.address(operand)}; {checked}{code} }}"

    # control

    def branch(self, it: Instruction) -> str:
        return f"goto L_{c_name(it.operands[0])};"

    def branch_by_table(self, it: Instruction) -> str:
        index, table = it.operands
        cases = [f"case {i}: goto L_{c_name(each)};" for i, each in enumerate(self.tables[table])]
        return f"switch ({self.bits(index)}) {{ {' '.join(cases)} }}"

    def leave(self, it: Instruction) -> str:
        return "T->thread.next = ENDED; return RUNS;" if self.waits else "return;"

    def trap(self, it: Instruction) -> str:
        return f'fail("trap in {self.function.name}");'

    def call(self, it: Instruction) -> str:
        """``call (result), name, (parameters)``; what CUDA itself offers prints, or ends."""
        groups = [listed(each[1:-1]) if each.startswith("(") else each for each in it.operands]
        results = groups.pop(0) if isinstance(groups[0], list) else []
        name, parameters = groups[0], groups[1] if len(groups) > 1 else []
        if name == "vprintf":
            return ";"
        if name == "__assertfail":
            return f'fail("an assertion failed in {self.function.name}");'
        if name not in self.module.functions:
            raise Untranslatable(f"{name} is not known")
        lists = [", ".join(f"(char*){self.places[each]}" for each in some) or "NULL" for some in (results, parameters)]
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
            return self._wait("WAITS_FOR_WARP", lanes=self.bits(it.operands[0]))
        if "sync" not in it.modifiers or len(it.operands) > 1:
            raise Untranslatable("only a barrier of all threads of a block")
        return self._wait("WAITS_FOR_BLOCK")

    def fence(self, it: Instruction) -> str:
        """Which makes what was written known beyond the block."""
        return "RACES(fence())" if {"gl", "gpu", "sys"} & set(it.modifiers) else ""

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

    # tensor cores

    def read_matrices(self, it: Instruction) -> str:
        """Of 8 by 8 halves, to whose rows lanes point."""
        if not {"m8n8", "shared", "b16"} <= set(it.modifiers):
            raise Untranslatable("only matrices of 8 by 8 halves in shared memory")
        to, turned = listed(it.operands[0][1:-1]), int("trans" in it.modifiers)
        puts = [self.put(each, "b32", f"matrix_row(&T->thread, {i}, {turned})") for i, each in enumerate(to)]
        at = self.address(it.operands[1])
        return f"ALIGNED({at}, 16); " + self._wait("WAITS_FOR_LANES", " ".join(puts), "~0u", at)

    def multiply_matrices(self, it: Instruction) -> str:
        """Lanes point to what they give: at two places in turn, as the first goes on before the last has read."""
        to, x, y, c = (listed(each[1:-1]) for each in it.operands)
        kind = it.types[1]
        if "m16n8k16" not in it.modifiers or it.types not in (["f32", kind, kind, "f32"] for kind in ("f16", "bf16")):
            raise Untranslatable("only products of 16 by 16 and 16 by 8 halves, added up in float32")
        self.arrays["fragments"], self.registers["turn"] = 64, "u32"
        given = "(u64)(T->fragments + 32 * T->turn)"
        fill = " ".join(f"at[{i}] = {self.bits(each)};" for i, each in enumerate((*x, *y)))
        before = f"T->turn = (T->turn + 1) & 1; {{ u32* const at = (u32*){given}; {fill} }} "
        product = "product_{}(&T->thread, {}, {})"
        puts = [self.put(each, "f32", product.format(kind, i, self.value(c[i], "f32"))) for i, each in enumerate(to)]
        return before + self._wait("WAITS_FOR_LANES", " ".join(puts), "~0u", given)

    def fetch(self, it: Instruction) -> str:
        """Bytes on their way into shared memory."""
        if "commit_group" in it.modifiers:
            return "fetches_committed(P->number);"
        if "wait_group" in it.modifiers:
            return f"fetches_awaited(P->number, {it.operands[0]});"
        if it.modifiers[:4] not in (["async", each, "shared", "global"] for each in ("cg", "ca")):
            raise Untranslatable("only copies to shared memory, by groups")
        to, source, size, *given = it.operands
        count = self.bits(given[0]) if given else size
        return f"fetch(P->number, {self.address(to)}, {self.address(source)}, {size}, {count});"

    # the whole

    def prototype(self) -> str:
        return f"static void f_{c_name(self.function.name)}(const Position* P, char** results, char** parameters)"

    def text(self) -> str:
        """The function, and its way in if it is a kernel."""
        name, lines = c_name(self.function.name), "\n".join(self.lines)
        registers = {"carry": "u32", **self.registers}
        arrays = " ".join(f"char {own}[{size}] __attribute__((aligned(16)));" for own, size in self.arrays.items())
        zeroed = " ".join(f"{kind} {own} = 0;" for own, kind in registers.items())
        if not self.function.entry:
            return f"{self.prototype()} {{\n{zeroed} {arrays}\n{lines}\n}}"
        launch = "const unsigned* sizes, size_t dynamic, char* shared, void** parameters"
        parameters = [each.size for each in self.function.parameters]
        sizes = ", ".join(map(str, [len(parameters), *parameters]))
        exported = f"const unsigned sizes_{name}[] = {{{sizes}}};\nconst char* kernel_{name}({launch}) {{"
        if not self.waits:
            return f"""static void run_{name}(const Position* P, void** parameters) {{
{zeroed} {arrays}
{lines}
}}
{exported} return run_apart(run_{name}, "{name}", sizes, dynamic, shared, parameters); }}"""
        fields = " ".join(f"{kind} {own};" for own, kind in registers.items())
        cases = " ".join(f"case {i}: goto S{i};" for i in range(1, self.stops + 1))
        return f"""typedef struct {{ Thread thread; {fields} {arrays} }} Thread_{name};
static State step_{name}(Thread* thread, void** parameters) {{
Thread_{name}* const T = (Thread_{name}*)thread;
const Position* const P = &thread->position;
switch (thread->next) {{ {cases} }}
{lines}
T->thread.next = ENDED; return RUNS;
}}
{exported}
return run_together(step_{name}, sizeof(Thread_{name}), "{name}", FIXED, sizes, dynamic, shared, parameters); }}"""


MOVES: Final = {
    "ld": ["BYTES_READ"], "ldu": ["BYTES_READ"], "st": ["BYTES_WRITTEN"],
    "atom": ["BYTES_READ", "BYTES_WRITTEN"], "red": ["BYTES_READ", "BYTES_WRITTEN"],
}  # fmt: skip
SPECIFIC: Final[dict[str, Callable[[Emitter, Instruction], str]]] = {
    "mov": Emitter.move,
    "selp": Emitter.select,
    "cvt": Emitter.convert,
    "setp": Emitter.compare,
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
    "membar": Emitter.fence,
    "fence": Emitter.fence,
    "shfl": Emitter.shuffle,
    "vote": Emitter.vote,
    "ldmatrix": Emitter.read_matrices,
    "mma": Emitter.multiply_matrices,
    "cp": Emitter.fetch,
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
    return "\n".join([module.text(), *prototypes, *(each.text() for each in emitted)])


def build(text: str, folder: Path, *more: str) -> Path:
    """A module of PTX as a shared library in a folder; made once. What cannot be translated is kept there.

    With `more` flags for gcc; ``-DCOUNTED`` has the library count what it does, ``-DFIND_RACES`` look for races.

    Raises
    ------
    Untranslatable
        With the instruction, or gcc's message, and the path of the PTX.
    """
    sources = b"".join(each.read_bytes() for each in OWN)
    key = hashlib.sha256(text.encode() + sources + "".join([MACHINE, *more]).encode()).hexdigest()[:32]
    library = folder / f"{key}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    try:
        code = translate(text)
        with tempfile.TemporaryDirectory(dir=folder) as work:  # another thread may be at it as well
            made = Path(work) / library.name
            flags = ["-O0" if len(code) > LARGE else "-O1", *FLAGS, *more, f"-I{PRELUDE.parent}"]
            command = ["gcc", *flags, "-x", "c", "-", "-o", str(made), "-lm"]
            done = subprocess.run(command, input=code, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Untranslatable(f"gcc: {done.stderr[:2000]}")
            made.replace(library)
    except Untranslatable as error:
        kept = folder / f"{key}.ptx"
        kept.write_text(text, encoding="utf-8")
        raise Untranslatable(f"{error}; the PTX is {kept}") from error
    return library
