"""PTX, the assembly that NVRTC makes, read: a module's variables, its functions, and the instructions of each.

.visible .entry twice(.param .u64 twice_param_0)
{
    .reg .f32 %f<3>;
    @%p1 bra $L__BB0_2;
    add.ftz.f32 %f2, %f1, 0f3F800000;
$L__BB0_2:
    ret;
}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

FLOATS: Final = {"f16": "f64", "bf16": "f64", "f32": "f32", "f64": "f64"}  # the type that they are computed in
PAIRS: Final = {"f16x2": "f16", "bf16x2": "bf16"}
TYPES: Final = {f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)} | {*FLOATS, *PAIRS, "pred"}


class Untranslatable(Exception):
    """PTX that there is no C for."""


def bits_of(kind: str) -> int:
    """How many a type has; a predicate takes a byte."""
    return {"pred": 8, "bf16": 16}.get(kind) or (32 if kind in PAIRS else int(kind[1:]))


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
    length: int
    align: int
    extern: bool
    values: list[str]

    @property
    def size(self) -> int:
        return bits_of(self.kind) // 8 * self.length


class Function(NamedTuple):
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


def listed(text: str) -> list[str]:
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
    initial = listed((values or "").strip("{} \n"))
    return Variable(space, kind, name, count, int(align or 8), "extern" in linkage, initial)


def parse_instruction(text: str) -> Instruction:
    found = INSTRUCTION.fullmatch(text)
    if not found:
        raise Untranslatable(text)
    guard, name, modifiers, operands = found.groups()
    return Instruction(text, guard or "", name, re.split(r"[.:]+", modifiers)[1:], listed(operands))


def statements(body: str) -> Iterator[tuple[str, str, str]]:
    """Of a function: each a label, a brace that opens or closes a scope, or a text; the others are empty."""
    at = 0
    while found := STATEMENT.match(body, at):
        at = found.end()
        yield found[1] or "", found[2] or "", found[3] or ""
    if body[at:].strip():
        raise Untranslatable(body[at : at + 200])


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
        results, parameters = ([parse_variable(each) for each in listed(head[group] or "")] for group in (2, 4))
        yield Function(head[3], head[1] == "entry", results, parameters, text[start : at - 1])
