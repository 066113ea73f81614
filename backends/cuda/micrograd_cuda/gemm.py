"""Matrix products for cuBLAS: which operand it reads transposed, and which has to be copied first. Pure functions.

cuBLAS stores columns after each other, we store rows: a row-major matrix is its transpose to cuBLAS. It is therefore
asked for ``(x @ y).T = y.T @ x.T``, where `y` comes first and neither needs to be moved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product as every
from typing import Any, Final, NamedTuple

from micrograd_core.layout import Shape, broadcast_shapes, contiguous_strides
from micrograd_cuda.geometry import Place, broadcast_strides, collapse

MOST: Final = 2**31 - 1  # cuBLAS counts rows, columns and leading dimensions in ints

TYPE: Final = {"float16": 2, "bfloat16": 14, "float32": 0, "float64": 1, "complex64": 4, "complex128": 5}
"""cudaDataType_t of what cuBLAS multiplies."""

COPIED: Final = 2**20
"""Elements that are copied in the time that one call more takes: about 4 µs."""

COMPUTE_32F, COMPUTE_64F, COMPUTE_TF32, COMPUTE_16BF = 68, 70, 77, 75  # cublasComputeType_t


def compute_type(dtype: str, precision: str) -> int:
    """In what cuBLAS multiplies and adds: half types in float32; float32 as `set_matmul_precision` says."""
    if dtype in ("float64", "complex128"):
        return COMPUTE_64F
    by_precision = {"highest": COMPUTE_32F, "high": COMPUTE_TF32, "medium": COMPUTE_16BF}
    return by_precision[precision] if dtype in ("float32", "complex64") else COMPUTE_32F


class Operand(NamedTuple):
    """A matrix as cuBLAS is told of it."""

    transposed: bool
    leading: int  # elements between its columns, as cuBLAS sees them
    batch: int  # elements between two matrices of the batch; 0: the same one for all


class Product(NamedTuple):
    """Calls of cublasGemmStridedBatchedEx. `first` and `second` are its A and B: our `y` and `x`."""

    m: int
    n: int
    k: int
    first: Operand
    second: Operand
    batches: int
    shape: Shape  # of the result; where `k` is 0 it is all zeros, and there is nothing to call
    apart: int = 0  # elements between two results of the batch
    starts: tuple[tuple[int, int, int], ...] = ((0, 0, 0),)  # of each call: the elements where `y`, `x`, result begin


def matrix(place: Place) -> tuple[bool, int] | None:
    """Whether cuBLAS has to transpose a row-major (…, rows, columns) matrix's image, and its leading dimension.

    ``None``: neither axis has neighbours next to each other, so that the matrix must be copied.
    """
    (rows, columns), (down, right) = place.shape[-2:], place.strides[-2:]
    if (right == 1 or columns <= 1) and (down >= max(1, columns) or rows <= 1):
        return False, max(down if rows > 1 else columns, 1)
    if (down == 1 or rows <= 1) and (right >= max(1, rows) or columns <= 1):
        return True, max(right if columns > 1 else rows, 1)
    return None


def calls(lengths: Shape) -> int:
    """How many it takes, with the longest of the axes as a batch."""
    return math.prod(lengths) // max(lengths)


def to_copy(batch: Shape, lengths: Shape, matrices: tuple[Place, Place]) -> int | None:
    """The operand that is better copied than multiplied in several calls, as its axes do not continue each other.

    Heads of attention are such: (batch, heads, positions, features) of memory in which positions come before heads.
    `lengths` are those of the batch, collapsed.
    """
    places = (Place(x.shape[:-2], contiguous_strides(x.shape)[:-2], 16) for x in matrices)
    packed = tuple(broadcast_strides(each, batch) for each in places)
    parted = [i for i, x in enumerate(matrices) if len(collapse(x.shape[:-2], (x.strides[:-2],))[0]) > 1]
    fewer = calls(lengths) - calls(collapse(batch, packed)[0])
    return parted[0] if parted and sum(math.prod(matrices[each].shape) for each in parted) < fewer * COPIED else None


def starts(lengths: Shape, steps: Sequence[Shape], batched: int) -> tuple[tuple[int, ...], ...]:
    """Where the calls begin that have one of some axes as a batch: for each, so many elements by each of `steps`."""
    others = [axis for axis in range(len(lengths)) if axis != batched]
    return tuple(
        tuple(sum(i * step[axis] for i, axis in zip(at, others, strict=True)) for step in steps)
        for at in every(*(range(lengths[axis]) for axis in others))
    )


@lru_cache(maxsize=4096)
def product(x: Place, y: Place) -> Product | int | None:
    """The calls for ``x @ y``; 0 or 1 for the operand that must be copied first; ``None`` for more than ints count.

    Raises
    ------
    ValueError
        For shapes that do not fit, which the core words.
    """
    if not x.shape or not y.shape or x.shape[-1] != y.shape[-2 if len(y.shape) > 1 else 0]:
        raise ValueError(f"matmul: shapes {x.shape} and {y.shape} do not fit")
    batch = broadcast_shapes("matmul", x.shape[:-2], y.shape[:-2])
    shape = (*batch, *x.shape[-2:-1], *(y.shape[-1:] if len(y.shape) > 1 else ()))
    if 0 in x.shape or 0 in y.shape:  # nothing to multiply, and no strides to speak of: CuPy has zeros there
        return Product(0, 0, 0, Operand(False, 1, 0), Operand(False, 1, 0), 1, shape)
    if len(x.shape) == 1:  # a row, which the result does not have
        x = Place((1, *x.shape), (0, *x.strides), 16)
    if len(y.shape) == 1:  # a column
        y = Place((*y.shape, 1), (*y.strides, 0), 16)
    own = tuple(broadcast_strides(Place(each.shape[:-2], each.strides[:-2], 16), batch) for each in (x, y))
    lengths, steps = collapse(batch, own)
    of_x, of_y = (matrix(each) for each in (x, y))
    if of_x is None or of_y is None:
        return 0 if of_x is None else 1
    (rows, inner), columns = x.shape[-2:], y.shape[-1]
    if max(rows, inner, columns, of_x[1], of_y[1], *lengths) > MOST:
        return None
    if len(lengths) > 1 and (copied := to_copy(batch, lengths, (x, y))) is not None:
        return copied
    transposed, leading = of_x
    if len(lengths) == 1 and steps == ((rows * leading,), (0,)) and not transposed and rows * lengths[0] <= MOST:
        rows, lengths, steps = rows * lengths[0], (1,), ((0,), (0,))  # a matrix for all: their rows are those of one
    batched = max(range(len(lengths)), key=lengths.__getitem__)
    for position, step in enumerate(steps):
        if step[batched] < 0:
            return position
    second, first = (Operand(*each, step[batched]) for each, step in zip((of_x, of_y), steps, strict=True))
    apart = contiguous_strides((*lengths, rows, columns))[:-2]
    begin: Any = starts(lengths, (steps[1], steps[0], apart), batched)
    return Product(columns, rows, inner, first, second, lengths[batched], shape, apart[batched], begin)
