"""Matrix products for cuBLAS: which operand it reads transposed, and which has to be copied first. Pure functions.

cuBLAS stores columns after each other, we store rows: a row-major matrix is its transpose to cuBLAS. It is therefore
asked for ``(x @ y).T = y.T @ x.T``, where `y` comes first and neither needs to be moved.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

from micrograd_core.layout import Shape, broadcast_shapes
from micrograd_cuda.geometry import Place, broadcast_strides, collapse

MOST: Final = 2**31 - 1  # cuBLAS counts rows, columns and leading dimensions in ints

TYPE: Final = {"float16": 2, "bfloat16": 14, "float32": 0, "float64": 1, "complex64": 4, "complex128": 5}
"""cudaDataType_t of what cuBLAS multiplies."""

COMPUTE_32F, COMPUTE_64F, COMPUTE_TF32, COMPUTE_16BF = 68, 70, 77, 75  # cublasComputeType_t


def compute_type(dtype: str, precision: str) -> int:
    """In what cuBLAS multiplies and adds: half types in float32; float32 as `set_matmul_precision` says."""
    if dtype in ("float64", "complex128"):
        return COMPUTE_64F
    if dtype in ("float32", "complex64"):
        return {"highest": COMPUTE_32F, "high": COMPUTE_TF32, "medium": COMPUTE_16BF}[precision]
    return COMPUTE_32F


class Operand(NamedTuple):
    """A matrix as cuBLAS is told of it."""

    transposed: bool
    leading: int  # elements between its columns, as cuBLAS sees them
    batch: int  # elements between two matrices of the batch; 0: the same one for all


class Product(NamedTuple):
    """One call of cublasGemmStridedBatchedEx. `first` and `second` are its A and B: our `y` and `x`."""

    m: int
    n: int
    k: int
    first: Operand
    second: Operand
    batches: int
    shape: Shape  # of the result; where `k` is 0 it is all zeros, and there is nothing to call


def matrix(rows: int, columns: int, strides: Shape) -> tuple[bool, int] | None:
    """Whether cuBLAS has to transpose a row-major (rows, columns) matrix's image, and its leading dimension.

    ``None``: neither axis has neighbours next to each other, so that the matrix must be copied.
    """
    down, right = strides
    if (right == 1 or columns <= 1) and (down >= max(1, columns) or rows <= 1):
        return False, max(down if rows > 1 else columns, 1)
    if (down == 1 or rows <= 1) and (right >= max(1, rows) or columns <= 1):
        return True, max(right if columns > 1 else rows, 1)
    return None


def as_matrices(x: Shape, y: Shape) -> tuple[Shape, Shape, Shape]:
    """Operands with vectors as a row and a column, and the shape of the result without those axes."""
    left, right = ((1, *x) if len(x) == 1 else x), ((*y, 1) if len(y) == 1 else y)
    batch = broadcast_shapes("matmul", left[:-2], right[:-2])
    return left, right, (*batch, *(left[-2:-1] if len(x) > 1 else ()), *(right[-1:] if len(y) > 1 else ()))


@lru_cache(maxsize=4096)
def product(x: Place, y: Place) -> Product | int | None:
    """The call for ``x @ y``; 0 or 1 for the operand that must be copied first; ``None`` where cuBLAS has no such call.

    Raises
    ------
    ValueError
        For shapes that do not fit, which the core words.
    """
    if not x.shape or not y.shape or x.shape[-1] != y.shape[-2 if len(y.shape) > 1 else 0]:
        raise ValueError(f"matmul: shapes {x.shape} and {y.shape} do not fit")
    left, right, shape = as_matrices(x.shape, y.shape)
    if 0 in x.shape or 0 in y.shape:  # nothing to multiply, and no strides to speak of: CuPy has zeros there
        return Product(0, 0, 0, Operand(False, 1, 0), Operand(False, 1, 0), 1, shape)
    strides = [x.strides, y.strides]
    if len(x.shape) == 1:
        strides[0] = (0, *x.strides)
    if len(y.shape) == 1:
        strides[1] = (*y.strides, 0)
    batch = broadcast_shapes("matmul", left[:-2], right[:-2])
    own = tuple(
        broadcast_strides(Place(each[:-2], stride[:-2], 16), batch)
        for each, stride in zip((left, right), strides, strict=True)
    )
    lengths, steps = collapse(batch, own)
    found = []
    for position, (each, stride) in enumerate(zip((left, right), strides, strict=True)):
        spelled = matrix(each[-2], each[-1], stride[-2:])
        if spelled is None:
            return position
        found.append(spelled)
    rows, inner, columns = left[-2], left[-1], right[-1]
    if len(lengths) > 1 or max(rows, inner, columns, found[0][1], found[1][1], math.prod(lengths)) > MOST:
        return None
    if any(step[0] < 0 for step in steps):
        return 0 if steps[0][0] < 0 else 1
    second, first = (Operand(*each, step[0]) for each, step in zip(found, steps, strict=True))
    return Product(columns, rows, inner, first, second, lengths[0] if batch else 1, shape)
