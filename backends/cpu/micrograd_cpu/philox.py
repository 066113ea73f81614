"""Philox4x64-10 as LLVM IR: the words that `micrograd_core.ops.standard.random` specifies, in the middle of a loop.

A block of the generator is eight numbers of 32 bits. So a loop does not make them one by one: `@micrograd.draw` fills
memory of the loop's own with the words of so many blocks, just before they are needed, and the loop reads them there.
Loops that take numbers in another order fill it with one block for each.
"""

from __future__ import annotations

from typing import Final

from micrograd_core.ops.standard.random import MULTIPLIERS, PLACE, WEYL
from micrograd_cpu.lines import Lines

ROUNDS: Final = 10


def _product(c: Lines, x: str, factor: int) -> tuple[str, str]:
    """The upper and the lower half."""
    wide = c.emit(f"mul i128 {c.emit(f'zext i64 {x} to i128')}, {factor}")
    upper = c.emit(f"lshr i128 {wide}, 64")
    return c.emit(f"trunc i128 {upper} to i64"), c.emit(f"trunc i128 {wide} to i64")


def _block(c: Lines, number: str, place: list[str]) -> list[str]:
    """The four words of the block that is so many after the place, which has the counter's words and the key's."""
    counter, carry = list[str](), number
    for word in place[:4]:
        counter.append(c.emit(f"add i64 {word}, {carry}"))
        carry = c.emit(f"zext i1 {c.emit(f'icmp ult i64 {counter[-1]}, {word}')} to i64")
    x, y, z, w = counter
    for i in range(ROUNDS):
        low, high = (c.emit(f"add i64 {key}, {_signed(i * step)}") for key, step in zip(place[4:], WEYL, strict=True))
        (upper0, lower0), (upper1, lower1) = _product(c, x, MULTIPLIERS[0]), _product(c, z, MULTIPLIERS[1])
        x = c.emit(f"xor i64 {c.emit(f'xor i64 {upper1}, {y}')}, {low}")
        z = c.emit(f"xor i64 {c.emit(f'xor i64 {upper0}, {w}')}, {high}")
        y, w = lower1, lower0
    return [x, y, z, w]


def _signed(x: int) -> int:
    return (x + (1 << 63)) % (1 << 64) - (1 << 63)


def text() -> str:
    """The function."""
    c = Lines()
    place = [c.emit(f"load i64, ptr {c.at('%place', 'i64', i)}") for i in range(PLACE)]

    def block(n: str) -> None:
        start = c.emit(f"shl i64 {c.emit(f'sub i64 {n}, %begin')}, 2")
        for i, word in enumerate(_block(c, n, place)):
            c.do(f"store i64 {word}, ptr {c.at('%out', 'i64', c.emit(f'add i64 {start}, {i}'))}")

    c.loop("%begin", "%end", block)
    arguments = "ptr noalias %out, i64 %begin, i64 %end, ptr noalias readonly %place"
    return c.defined(f"define internal void @micrograd.draw({arguments}) nounwind noinline")
