"""LLVM IR that is being written: the lines of a function, names for its values, and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

SUFFIX: Final = {"float": "f32", "double": "f64", **{f"i{n}": f"i{n}" for n in (1, 8, 16, 32, 64)}}
"""What intrinsic functions of a type have at the end of their names."""


class Lines:
    """A function's text. `emit` takes an instruction and gives the name of its value; `declared` gathers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.declared: set[str] = set()
        self.count, self.blocks, self.block = 0, 0, "entry"

    def emit(self, text: str) -> str:
        """An instruction that makes a value: its name."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def do(self, text: str) -> None:
        """An instruction without a value."""
        self.lines.append(f"  {text}")

    def intrinsic(self, name: str, type: str, *operands: str, more: str = "") -> str:
        """A call of ``@llvm.name``; `more` is a constant argument."""
        given = ", ".join([f"{type} {x}" for x in operands] + ([more] if more else []))
        types = ", ".join([type] * len(operands) + ([more.split()[0]] if more else []))
        self.declared.add(f"declare {type} @llvm.{name}.{SUFFIX[type]}({types})")
        return self.emit(f"call {type} @llvm.{name}.{SUFFIX[type]}({given})")

    def alloca(self, type: str, count: int = 1) -> str:
        """Memory of the function, for a vector's alignment."""
        name = f"%a{len(self.allocas)}"
        self.allocas.append(f"  {name} = alloca [{count} x {type}], align 64")
        return name

    def at(self, base: str, type: str, index: int | str) -> str:
        """The address of a number."""
        return self.emit(f"getelementptr inbounds {type}, ptr {base}, i64 {index}")

    def label(self, name: str) -> None:
        """The start of a block."""
        self.lines.append(f"{name}:")
        self.block = name

    def loop(self, begin: str, end: str, body: Callable[[str], None], step: int | str = 1, about: str = "") -> None:
        """``for counter in begin .. end``; `about` is metadata of the loop."""
        self.blocks += 1
        n = self.blocks
        self.do(f"br label %head{n}")
        before = self.block
        self.label(f"head{n}")
        at = len(self.lines)
        self.lines.append("")  # the counter, once its block is known
        self.do(f"%more{n} = icmp slt i64 %c{n}, {end}")
        self.do(f"br i1 %more{n}, label %body{n}, label %exit{n}")
        self.label(f"body{n}")
        body(f"%c{n}")
        self.do(f"%next{n} = add nuw nsw i64 %c{n}, {step}")
        self.do(f"br label %head{n}{about}")
        self.lines[at] = f"  %c{n} = phi i64 [ {begin}, %{before} ], [ %next{n}, %{self.block} ]"
        self.label(f"exit{n}")

    def unravelled(self, counter: str, lengths: Sequence[int | str]) -> list[str]:
        """The counters of several axes from that of all."""
        found: list[str] = []
        for length in reversed(lengths[1:]):
            found.append(self.emit(f"urem i64 {counter}, {length}"))
            counter = self.emit(f"udiv i64 {counter}, {length}")
        return [*found, counter][::-1] if lengths else []

    def defined(self, head: str, result: str = "void") -> str:
        """The whole, which returns `result`."""
        return "\n".join([f"{head} {{", "entry:", *self.allocas, *self.lines, f"  ret {result}", "}"])
