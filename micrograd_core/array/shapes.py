"""Pieces and places: splitting, diagonals over any axes, repetition by PyTorch's name."""

from __future__ import annotations

from typing import Any, Final

from micrograd_core.array.functions import FUNCTIONS, both_spellings
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.layout import is_integer, resolve_axis
from micrograd_core.ops.arguments import advising

F: Final = FUNCTIONS


@both_spellings
def split(x: Any, split_size_or_sections: Any, /, axis: int = 0) -> tuple[Tensor, ...]:
    """Pieces along `axis` of a length, the last one shorter, or of the lengths of a list: as PyTorch, not NumPy. Views.

    Raises
    ------
    ShapeError
        When the lengths do not add up to that of the axis.
    """
    x = asarray(x)
    at = resolve_axis("split", axis, x.ndim)
    length = x.shape[at]
    if is_integer(split_size_or_sections):
        size = int(split_size_or_sections)
        if size < 1:
            raise ShapeError(f"split: pieces have a length of at least 1; got {size}")
        starts: list[int] = list(range(0, length, size)) or [0]
        bounds = list(zip(starts, [*starts[1:], length], strict=True))
    else:
        sections = [int(each) for each in split_size_or_sections]
        if sum(sections) != length or min(sections, default=0) < 0:
            raise ShapeError(f"split: sections {sections} do not add up to {length}, the length of axis {axis}")
        ends = [sum(sections[: i + 1]) for i in range(len(sections))]
        bounds = [(end - n, end) for end, n in zip(ends, sections, strict=True)]
    return tuple(x.slice(at, start, stop) for start, stop in bounds)


@both_spellings
def chunk(x: Any, chunks: int, /, axis: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` pieces along `axis`, of one length but for the last. Views."""
    x = asarray(x)
    if chunks < 1:
        raise ShapeError(f"chunk: there is at least one piece; got {chunks}")
    at = resolve_axis("chunk", axis, x.ndim)
    return split(x, max(-(-x.shape[at] // chunks), 1), at)


@both_spellings
def repeat_interleave(x: Any, repeats: Any, /, axis: int | None = None) -> Tensor:
    """Each element (each slice along `axis`) repeated: `repeat`, by PyTorch's name."""
    return F["repeat"](x, repeats, axis=axis)


@both_spellings
def diagonal(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonals over two axes, along a new last axis; `offset` above the main one."""
    x = asarray(x)
    first, second = (resolve_axis("diagonal", axis, x.ndim) for axis in (axis1, axis2))
    if first == second:
        raise ShapeError(f"diagonal: axes {axis1} and {axis2} are the same")
    return F["diagonal"](F["moveaxis"](x, (first, second), (-2, -1)), offset=offset)


@both_spellings
def trace(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sum of the diagonal over two axes."""
    return F["sum"](diagonal(x, offset, axis1, axis2), axis=-1)


@advising
def flatten(x: Any, /, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The axes from `start_dim` to `end_dim` made one."""
    return asarray(x).flatten(start_dim, end_dim)
