# Made by docs/stubs.py from the source and the op table.
from collections.abc import Sequence
from micrograd_core.array.tensor import ArrayLike, Tensor
from typing import Any, NamedTuple

class EigResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class EighResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class SVDResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor

class QRResult(NamedTuple):
    Q: Tensor
    R: Tensor

class SlogdetResult(NamedTuple):
    sign: Tensor
    logabsdet: Tensor
SHARED: Any

def matrix_transpose(x: ArrayLike, /) -> Tensor:
    """The last two axes exchanged. A view."""

def tensordot(x1: ArrayLike, x2: ArrayLike, /, axes: int | tuple[Sequence[int], Sequence[int]] = 2, *, dim: int | tuple[Sequence[int], Sequence[int]] = ..., dims: int | tuple[Sequence[int], Sequence[int]] = ...) -> Tensor:
    """Sum of products over pairs of `axes`: the last N of the first operand with the first N of the second, or two sequences of them."""

def vecdot(x1: ArrayLike, x2: ArrayLike, /, axis: int = -1, *, dim: int = ..., dims: int = ...) -> Tensor:
    """Sum of products along `axis`, the first operand conjugated; the other axes broadcast."""

def outer(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """All products of the elements of two 1-d tensors."""

def cholesky(x: ArrayLike, /, *, upper: bool = False) -> Tensor:
    """The lower triangular L (or upper U) with ``x = L L^H = U^H U`` for a symmetric, positive definite matrix."""

def eig(x: ArrayLike, /) -> EigResult:
    """Eigenvalues, in no particular order, and eigenvectors of length 1 of a square matrix; complex, also where they are real. The gradient of vectors is NaN where an eigenvalue repeats."""

def eigvals(x: ArrayLike, /) -> Tensor:
    """Eigenvalues of a square matrix, in no particular order; complex, also where they are real."""

def eigh(x: ArrayLike, /) -> EighResult:
    """Eigenvalues, ascending, and orthonormal eigenvectors of a symmetric matrix. The gradient of vectors is NaN where an eigenvalue repeats; that of the values alone is not."""

def eigvalsh(x: ArrayLike, /) -> Tensor:
    """Eigenvalues of a symmetric matrix, ascending."""

def svd(x: ArrayLike, /, *, full_matrices: bool = True) -> SVDResult:
    """``x = U diag(S) Vh``: singular vectors, and singular values, descending. With ``full_matrices`` U and Vh are square; only ``full_matrices=False`` has gradients of the vectors of a matrix that is not. They are NaN where a singular value repeats; those of the values alone are not."""

def svdvals(x: ArrayLike, /) -> Tensor:
    """Singular values, descending."""

def qr(x: ArrayLike, /, *, mode: str = 'reduced') -> QRResult:
    """``x = Q R``: orthonormal columns times an upper triangle. The gradient is defined for ``mode='reduced'`` (and for matrices that are not tall), where the leading columns are independent."""

def solve(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The ``x`` of ``x1 x = x2`` for square ``x1``; ``x2`` is a vector if it has one axis, else matrices."""

def inv(x: ArrayLike, /) -> Tensor:
    """The inverse of a square matrix."""

def pinv(x: ArrayLike, /, *, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverse; singular values up to ``rtol`` times the largest count as zero. The gradient holds for any rank, as long as that does not change."""

def matrix_rank(x: ArrayLike, /, *, rtol: Any = None) -> Tensor:
    """The number of singular values greater than ``rtol`` times the largest, as int64."""

def slogdet(x: ArrayLike, /) -> SlogdetResult:
    """The sign of the determinant of a square matrix, and the logarithm of its absolute value."""

def det(x: ArrayLike, /) -> Tensor:
    """The determinant of a square matrix. Its gradient is the matrix of cofactors, also of a singular matrix; only the second one needs an inverse."""

def cofactor(x: ArrayLike, /) -> Tensor:
    """``det(x) inv(x).mT`` of a square matrix, but defined for singular ones too: the gradient of `det`."""

def matrix_power(x: ArrayLike, /, n: int) -> Tensor:
    """A square matrix multiplied by itself `n` times; inverted first if that is negative."""

def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: float | str | None = 'fro', keepdim: bool = ...) -> Tensor:
    """Of each matrix ``'fro'``, the root of the sum of squares; ``'nuc'``, 2 and -2, the sum, the largest and the least singular value; 1 and -1, the largest and the least sum of absolute values in a column; inf and -inf, in a row."""

def vector_norm(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False, ord: float = 2, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ..., keepdim: bool = ...) -> Tensor:
    """``sum(abs(x)**ord)**(1/ord)`` over `axis`; the largest and the least absolute value for inf and -inf, the number of nonzero elements for 0. Nothing overflows on the way, and the gradient at the zero vector is 0."""

def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Tensor:
    """The elements ``x[..., i, i + offset]``. A view where strides allow it."""

def trace(x: ArrayLike, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of the elements ``x[..., i, i + offset]``, in `dtype` if given. Integer results are 64 bits wide."""

def cross(x1: ArrayLike, x2: ArrayLike, /, axis: int = -1, *, dim: int = ..., dims: int = ...) -> Tensor:
    """The cross product of vectors of three elements along `axis`."""

def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Matrix product of the last two axes, broadcast over the others; 1-d operands are a row and a column."""

__all__ = [
    "cholesky",
    "cofactor",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
