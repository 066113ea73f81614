"""Kernels of poolings. With llvmlite, maxima and their gradients are loops, printed for each shape of window."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import product
from typing import Any, Final

import numpy as np

from micrograd_core.layout import Shape
from micrograd_core.ops.network.patches import lengths_of
from micrograd_cpu.convolution import dense, divided, functions_of_range, pair
from micrograd_cpu.patches import inside, of_ranks, padded, windows

Window = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
"""Kernel, stride and dilation of two axes."""

APART: Final = (
    '!0 = distinct !{}\n!1 = distinct !{!1, !{!"llvm.loop.parallel_accesses", !0}, '
    '!{!"llvm.loop.vectorize.width", i32 4}}'
)
"""Of a loop whose turns write to places of their own: LLVM cannot see that, and makes vectors only where it knows."""
LARGEST: Final = 32
"""Elements of a window whose loops are printed: one line for each."""
SHARED: Final = 2_000_000
"""Elements of windows from which on a second thread is worth waking."""


def _text(window: Window, type: str) -> str:
    """``@greatest(begin, end, sizes, out, x)`` and ``@spread(begin, end, sizes, out, x, g)``, of a range of planes."""
    from micrograd_cpu.entries import part

    texts, declared = list[str](), set[str]()
    spread = partial(_spread, _overlapping(window))
    for name, arrays, body in (("greatest", ("out", "x"), _greatest), ("spread", ("out", "x", "g"), spread)):
        code = _over_windows(window, type, body)
        pointers = [f"ptr noalias {'' if each == 'out' else 'readonly '}%{each}" for each in ("sizes", *arrays)]
        texts += [
            code.whole(f"void @{name}", ["i64 %begin", "i64 %end", *pointers]),
            part(f"{name}_arrays", name, 1 + len(arrays)),
        ]  # fmt: skip
        declared |= code.declared
    return "\n\n".join([*texts, *sorted(declared), APART]) + "\n"


def _overlapping(window: Window) -> bool:
    return any(d * (k - 1) >= s for k, s, d in zip(*window, strict=True))


def _over_windows(window: Window, type: str, body: Callable[[Any, str, list[str]], None]) -> Any:
    """Loops over planes and positions; `body` gets the position's place, and those of what it sees."""
    from micrograd_cpu.correlation import Code

    kernel, stride, dilation = window
    c = Code(type, 1)
    height, width, rows, columns = (c.integer("%sizes", i) for i in range(4))

    def plane(n: str) -> None:
        def row(y: str) -> None:
            line = c.times(c.add(c.times(n, height), c.times(y, stride[0])), width)
            results = c.times(c.add(c.times(n, rows), y), columns)

            def position(x: str) -> None:
                first = c.add(line, c.times(x, stride[1]))
                seen = [
                    c.add(c.add(first, c.times(width, dilation[0] * i)), dilation[1] * j)
                    for i, j in product(range(kernel[0]), range(kernel[1]))
                ]
                start = len(c.lines)
                body(c, c.add(results, x), seen)
                if not _overlapping(window):
                    c.lines[start:] = [
                        f"{line}, !llvm.access.group !0" if " load " in line or " store " in line else line
                        for line in c.lines[start:]
                    ]

            c.loop("0", columns, position, about="" if _overlapping(window) else ", !llvm.loop !1")

        c.loop("0", rows, row)

    c.loop("%begin", "%end", plane)
    return c


def _most(c: Any, seen: list[str]) -> tuple[str, list[str]]:
    """The greatest of what is seen, and all of it."""
    values = [c.read(c.place("%x", each)) for each in seen]
    most = values[0]
    for each in values[1:]:
        most = c.intrinsic("maximum", c.type, most, each)
    return most, values


def _greatest(c: Any, at: str, seen: list[str]) -> None:
    c.write(_most(c, seen)[0], c.place("%out", at))


def _spread(overlapping: bool, c: Any, at: str, seen: list[str]) -> None:
    """The cotangent, shared by those that are the greatest; 0 / 0 where that is NaN, which nothing equals."""
    most, values = _most(c, seen)
    tied = [c.emit(f"fcmp oeq {c.type} {each}, {most}") for each in values]
    ones = [c.emit(f"uitofp i1 {each} to {c.type}") for each in tied]
    count = ones[0]
    for each in ones[1:]:
        count = c.emit(f"fadd {c.type} {count}, {each}")
    g = c.read(c.place("%g", at))
    even = c.emit(f"fdiv {c.type} 1.0, {count}")
    none = c.emit(f"fmul {c.type} 0.0, {even}")
    yes, no = (c.emit(f"fmul {c.type} {g}, {each}") for each in (even, none))
    for index, each in zip(seen, tied, strict=True):
        pointer = c.place("%out", index)
        share = c.emit(f"select i1 {each}, {c.type} {yes}, {c.type} {no}")
        before = c.read(pointer) if overlapping else "0.0"
        c.write(c.emit(f"fadd {c.type} {share}, {before}"), pointer)


@lru_cache(maxsize=64)
def _loops(kernel: Shape, stride: Shape, dilation: Shape, dtype: Any) -> list[Callable[..., None]] | None:
    """None where nothing can be compiled, or where the window is large."""
    window = pair(kernel, 1), pair(stride, 1), pair(dilation, 1)
    if math.prod(kernel) > LARGEST:
        return None
    return functions_of_range(dtype, partial(_text, window), {"greatest_arrays": 3, "spread_arrays": 4})


def _prepared(x: Any, positions: Shape, kernel: Shape) -> tuple[Any, int, bool]:
    """What the loops are told, how many planes there are, and whether these are worth two threads."""
    sizes, planes = np.array([*pair(x.shape[2:], 1), *pair(positions, 1)], np.int64), x.shape[0] * x.shape[1]
    return sizes, planes, planes * math.prod(positions) * math.prod(kernel) >= SHARED


def max_pool(x: Any, *, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Any:
    """The maximum of one view for each element of the kernel, or loops."""
    x = padded(x, padding, -math.inf)
    views = windows(x, kernel_size, stride, dilation)
    loops = _loops(kernel_size, stride, dilation, x.dtype)
    if loops is not None:
        x, out = dense(x), np.empty((*x.shape[:2], *views.shape[2 + len(padding) :]), x.dtype)
        sizes, planes, large = _prepared(x, out.shape[2:], kernel_size)
        divided(lambda begin, end: loops[0](begin, end, sizes, out, x), planes, large)
        return out
    first, *others = (views[:, :, *offset] for offset in np.ndindex(*kernel_size))
    out = np.array(first, order="C")
    for view in others:
        np.maximum(out, view, out=out)
    return out


def max_pool_gradient(g: Any, x: Any, *, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Any:
    """In loops, or not at all; cotangents of another shape are refused elsewhere."""
    loops, lengths = _loops(kernel_size, stride, dilation, x.dtype), (kernel_size, stride, padding, dilation)
    if loops is None or g.shape != (*x.shape[:2], *lengths_of("max_pool", x.shape[2:], *lengths)):
        return NotImplemented
    x, g = dense(padded(x, padding, -math.inf)), dense(g)
    out = np.zeros(x.shape, x.dtype)
    sizes, planes, large = _prepared(x, g.shape[2:], kernel_size)
    divided(lambda begin, end: loops[1](begin, end, sizes, out, x, g), planes, large)
    return dense(out[inside(padding)]) if any(padding) else out


def avg_pool(x: Any, *, kernel_size: Shape, stride: Shape, padding: Shape) -> Any:
    """The sum of one view for each element of the kernel."""
    views = windows(padded(x, padding, 0.0), kernel_size, stride, (1,) * len(padding))
    out = np.zeros((*x.shape[:2], *views.shape[2 + len(padding) :]), x.dtype)
    for offset in np.ndindex(*kernel_size):
        out += views[:, :, *offset]
    out /= math.prod(kernel_size)
    return out


POOLINGS: Final = of_ranks({"max_pool#d": max_pool, "max_pool#d_gradient": max_pool_gradient, "avg_pool#d": avg_pool})
