"""Philox4x64-10 as LLVM IR: the words that `micrograd_core.ops.standard.random` specifies, in the middle of a loop.

A block of the generator is eight numbers of 32 bits. So a loop does not make them one by one: `@micrograd.draw` fills
memory of the loop's own with the words of so many blocks, just before they are needed, and the loop reads them there.
`@micrograd.drawn` is a single word, for loops that take numbers in another order.
"""

from __future__ import annotations

from typing import Final

from micrograd_core.ops.standard.random import MULTIPLIERS, PLACE, WEYL

ROUNDS: Final = 10


class _Code:
    """Lines of IR."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def emit(self, text: str) -> str:
        """One instruction, and the value it makes."""
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def product(self, x: str, factor: int) -> tuple[str, str]:
        """The upper and the lower half."""
        wide = self.emit(f"mul i128 {self.emit(f'zext i64 {x} to i128')}, {factor}")
        return self.emit(f"trunc i128 {self.emit(f'lshr i128 {wide}, 64')} to i64"), self.emit(
            f"trunc i128 {wide} to i64"
        )

    def block(self, number: str) -> list[str]:
        """The four words of the block that is so many after the place."""
        counter, carry = list[str](), number
        for i in range(4):
            counter.append(self.emit(f"add i64 %w{i}, {carry}"))
            carry = self.emit(f"zext i1 {self.emit(f'icmp ult i64 {counter[i]}, %w{i}')} to i64")
        a, b, c, d = counter
        for i in range(ROUNDS):
            low, high = (self.emit(f"add i64 %w{4 + j}, {_signed(i * WEYL[j])}") for j in (0, 1))
            (upper0, lower0), (upper1, lower1) = self.product(a, MULTIPLIERS[0]), self.product(c, MULTIPLIERS[1])
            a, c = (
                self.emit(f"xor i64 {self.emit(f'xor i64 {upper}, {word}')}, {key}")
                for upper, word, key in ((upper1, b, low), (upper0, d, high))
            )
            b, d = lower1, lower0
        return [a, b, c, d]


def _signed(x: int) -> int:
    return (x + (1 << 63)) % (1 << 64) - (1 << 63)


def text() -> str:
    """Both functions; `place` has the counter's words and the key's."""
    place = [
        line
        for i in range(PLACE)
        for line in (f"  %a{i} = getelementptr i64, ptr %place, i64 {i}", f"  %w{i} = load i64, ptr %a{i}")
    ]
    many, one = _Code(), _Code()
    words = many.block("%n")
    start = many.emit("shl i64 " + many.emit("sub i64 %n, %begin") + ", 2")
    for i, word in enumerate(words):
        at = many.emit(f"getelementptr i64, ptr %out, i64 {many.emit(f'add i64 {start}, {i}')}")
        many.lines.append(f"  store i64 {word}, ptr {at}")
    found, *rest = one.block("%block")
    for i, word in enumerate(rest, 1):
        found = one.emit(f"select i1 {one.emit(f'icmp eq i64 %which, {i}')}, i64 {word}, i64 {found}")
    return "\n".join(
        [
            "define internal void @micrograd.draw(ptr noalias %out, i64 %begin, i64 %end, ptr noalias readonly %place) "
            "nounwind noinline {",
            "entry:", *place, "  br label %head",
            "head:", "  %n = phi i64 [ %begin, %entry ], [ %next, %body ]", "  %more = icmp slt i64 %n, %end",
            "  br i1 %more, label %body, label %exit",
            "body:", *many.lines, "  %next = add i64 %n, 1", "  br label %head",
            "exit:", "  ret void", "}", "",
            "define internal i64 @micrograd.drawn(i64 %index, ptr noalias readonly %place) nounwind noinline {",
            "entry:", *place, "  %block = lshr i64 %index, 2", "  %which = and i64 %index, 3", *one.lines,
            f"  ret i64 {found}", "}",
        ]
    )  # fmt: skip
