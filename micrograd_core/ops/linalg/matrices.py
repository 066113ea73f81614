"""The linear algebra extension of the array API standard, on devices that claim the capability ``linalg``.

What is here needs factorisations; `micrograd_core.ops.linalg.norms` has the rest. The rules are in `matrix_calculus`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, broadcast_shapes
from micrograd_core.ops.batching import leading, products
from micrograd_core.ops.linalg import matrix_calculus as calculus
from micrograd_core.ops.record import INEXACT, SAME, Array, Op, Sample
from micrograd_core.ops.shared import at_least_single, calls, chosen, complex_dtype, real_dtype, to_int64, whole

# ── what is returned ─────────────────────────────────────────────────────────────────────────────────────────


class EigResult(NamedTuple):
    """Eigenvalues in any order, and eigenvectors of length 1 as columns."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and orthonormal eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """A matrix with orthonormal columns, and an upper triangular one."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values in descending order, right singular vectors as rows."""

    U: Any
    S: Any
    Vh: Any


# ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────


def matrix_stack(name: str, shape: Shape, *, square: bool = False) -> None:
    """Refuse what is not a matrix, or a stack of them."""
    if len(shape) < 2:
        raise ShapeError(f"{name}: a matrix has two axes, and a stack of them more; got shape {shape}")
    if square and shape[-1] != shape[-2]:
        raise ShapeError(f"{name}: the matrix must be square; got shape {shape}")


def _cholesky_parameters(x: Any, /, *, upper: bool = False) -> dict[str, Any]:
    """The lower triangular L (or upper U) with ``x = L L^H = U^H U`` for a symmetric, positive definite matrix."""
    matrix_stack("cholesky", x.shape, square=True)
    return {"upper": bool(upper)}


def _qr_parameters(x: Any, /, *, mode: str = "reduced") -> dict[str, Any]:
    """``x = Q R``: orthonormal columns times an upper triangle.

    The gradient is defined for ``mode='reduced'`` (and for matrices that are not tall), where the leading columns
    are independent.
    """
    matrix_stack("qr", x.shape)
    return {"mode": chosen("qr", "mode", mode, ("reduced", "complete"))}


def _svd_parameters(x: Any, /, *, full_matrices: bool = True) -> dict[str, Any]:
    """``x = U diag(S) Vh``: singular vectors, and singular values, descending.

    With ``full_matrices`` U and Vh are square; only ``full_matrices=False`` has gradients of the vectors of a
    matrix that is not. They are NaN where a singular value repeats; those of the values alone are not.
    """
    matrix_stack("svd", x.shape)
    return {"full_matrices": bool(full_matrices)}


def _solve_parameters(x1: Any, x2: Any, /) -> dict[str, Any]:
    """The ``x`` of ``x1 x = x2`` for square ``x1``; ``x2`` is a vector if it has one axis, else matrices."""
    matrix_stack("solve", x1.shape, square=True)
    rows = getattr(x2, "shape", ())[-2:][:1]
    if rows != x1.shape[-1:]:
        raise ShapeError(
            f"solve: shapes {x1.shape} and {getattr(x2, 'shape', ())} do not fit (..., n, n) and (n,) or (..., n, k)"
        )
    if len(x2.shape) > 1:
        broadcast_shapes("solve", x1.shape[:-2], x2.shape[:-2])
    return {}


def _power_parameters(x: Any, /, n: int) -> dict[str, Any]:
    """A square matrix multiplied by itself `n` times; inverted first if that is negative."""
    matrix_stack("matrix_power", x.shape, square=True)
    return {"n": whole("matrix_power", "the exponent", n)}


# ── shapes of results ────────────────────────────────────────────────────────────────────────────────────────


def _eigen_shapes(x: Any) -> tuple[Shape, Shape]:
    return x.shape[:-1], x.shape


def _svd_shapes(x: Any, *, full_matrices: bool) -> tuple[Shape, Shape, Shape]:
    *stack, rows, columns = x.shape
    least = min(rows, columns)
    left, right = (rows, columns) if full_matrices else (least, least)
    return (*stack, rows, left), (*stack, least), (*stack, right, columns)


def _qr_shapes(x: Any, *, mode: str) -> tuple[Shape, Shape]:
    *stack, rows, columns = x.shape
    inner = rows if mode == "complete" else min(rows, columns)
    return (*stack, rows, inner), (*stack, inner, columns)


def _solve_shape(x: Any, y: Any) -> Shape:
    if len(y.shape) == 1:
        return x.shape[:-1]  # type: ignore[no-any-return]
    return (*broadcast_shapes("solve", x.shape[:-2], y.shape[:-2]), *y.shape[-2:])


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────

matrix = partial(Array, low=-0.125, high=0.125, kind="dominant")
_SHAPES = ((3, 3), (2, 2, 2), (1, 1), (0, 2, 2))
_SQUARE, _SYMMETRIC, _TURNING = (
    tuple(Sample(matrix(shape, kind=kind)) for shape in _SHAPES) for kind in ("dominant", "symmetric", "turning")
)
_ANY_SHAPE = tuple(Sample(matrix(shape)) for shape in ((3, 3), (4, 2), (2, 3), (2, 3, 2), (0, 2, 2)))

LINALG = partial(
    Op,
    extension="linalg",
    standard=True,
    capability="linalg",
    accepts=INEXACT,
    cast=at_least_single,
    batching=leading,
    undefined="the iteration did not converge, as for infinite or NaN elements",
)
_SINGULAR = "the matrix is singular, and has no inverse (pinv has the one of least norm)"


def _of_matrices(name: str, doc: str, *, square: bool = True, **facts: Any) -> Op:
    """An operation without parameters, of square matrices unless told otherwise."""

    def parameters(x: Any, /) -> dict[str, Any]:
        matrix_stack(name, x.shape, square=square)
        return {}

    return LINALG(name, doc, parameters=parameters, **{"samples": _SQUARE, **facts})


def _of_a_rank(name: str, doc: str, **facts: Any) -> Op:
    """An operation for which singular values up to ``rtol`` times the largest count as zero."""

    def parameters(x: Any, /, *, rtol: Any = None) -> dict[str, Any]:
        matrix_stack(name, x.shape)
        if not hasattr(rtol, "tolist"):
            return {"rtol": None if rtol is None else ((), (float(rtol),))}
        broadcast_shapes(name, tuple(rtol.shape), x.shape[:-2])
        return {"rtol": (tuple(rtol.shape), tuple(map(float, rtol.reshape(-1).tolist())))}

    def reference(np: Any, x: Any, rtol: Any = None) -> Any:
        return getattr(np.linalg, name)(x, rtol=1e-12 if rtol is None else rtol)

    return LINALG(name, doc, standard=False, parameters=parameters, reference=reference, **facts)


_of_eigenvalues = partial(_of_matrices, capability="eig", samples=(*_TURNING, _SQUARE[0]))


def _flip_free(u: Any, middle: Any, vh: Any) -> Any:
    """``u diag(middle) vh``, which the signs (phases) that vectors come with do not change."""
    return (u * middle[..., None, :]) @ vh


OPS = calls(
    LINALG(
        "cholesky",
        parameters=_cholesky_parameters,
        shape=lambda x, *, upper: x.shape,
        gradient=(calculus.conjugate_calculus(calculus.cholesky_rule),),
        undefined="the matrix is not positive definite",
        samples=(*_SYMMETRIC, Sample(matrix((3, 3), kind="symmetric"), upper=True)),
    ),
    _of_eigenvalues(
        "eig",
        "Eigenvalues, in no particular order, and eigenvectors of length 1 of a square matrix; complex, also where "
        "they are real. The gradient of vectors is NaN where an eigenvalue repeats.",
        parts=EigResult,
        result=(complex_dtype, complex_dtype),
        shape=_eigen_shapes,
        gradient=(calculus.conjugate_calculus(calculus.eig_rule),),
        observe=lambda xp, w, v: _flip_free(v, w * w + w, xp.conj(v).mT),
        reference=lambda np, x: [part + 0j for part in np.linalg.eig(x)],
    ),
    _of_eigenvalues(
        "eigvals",
        "Eigenvalues of a square matrix, in no particular order; complex, also where they are real.",
        result=complex_dtype,
        compose=lambda k, x: k.copy(k.eig(x)[0]),
        reference=lambda np, x: np.linalg.eigvals(x) + 0j,
    ),
    _of_matrices(
        "eigh",
        "Eigenvalues, ascending, and orthonormal eigenvectors of a symmetric matrix. The gradient of vectors is NaN "
        "where an eigenvalue repeats; that of the values alone is not.",
        parts=EighResult,
        result=(real_dtype, SAME),
        shape=_eigen_shapes,
        gradient=(calculus.conjugate_calculus(calculus.eigh_rule),),
        samples=_SYMMETRIC,
        observe=lambda xp, w, v: _flip_free(v, w * w + w[..., :1], xp.conj(v).mT),
    ),
    _of_matrices(
        "eigvalsh",
        "Eigenvalues of a symmetric matrix, ascending.",
        result=real_dtype,
        compose=lambda k, x: k.copy(k.eigh(x)[0]),
        samples=_SYMMETRIC,
    ),
    LINALG(
        "svd",
        parameters=_svd_parameters,
        parts=SVDResult,
        result=(SAME, real_dtype, SAME),
        shape=_svd_shapes,
        gradient=(calculus.conjugate_calculus(calculus.svd_rule),),
        samples=(*(Sample(*sample.operands, full_matrices=False) for sample in _ANY_SHAPE), Sample(matrix((3, 3)))),
        observe=lambda xp, u, s, vh: _flip_free(u, s * s + s[..., :1], vh),
    ),
    _of_matrices(
        "svdvals",
        "Singular values, descending.",
        square=False,
        result=real_dtype,
        compose=lambda k, x: k.copy(k.svd(x, full_matrices=False)[1]),
        samples=_ANY_SHAPE,
    ),
    LINALG(
        "qr",
        parameters=_qr_parameters,
        parts=QRResult,
        result=(SAME, SAME),
        shape=_qr_shapes,
        gradient=(calculus.conjugate_calculus(calculus.qr_rule),),
        samples=(*_ANY_SHAPE, Sample(matrix((2, 3)), mode="complete")),
        observe=lambda xp, q, r: abs(q) @ abs(r) + q @ r,
    ),
    LINALG(
        "solve",
        operands=2,
        parameters=_solve_parameters,
        shape=_solve_shape,
        batching=products,
        tangent=calculus.solve_tangent,
        gradient=(calculus.solve_left, calculus.solve_right),
        undefined="the matrix is singular: no unique solution exists (pinv(x1) @ x2 is the one of least squares)",
        samples=(
            Sample(matrix((3, 3)), (3, 2)),
            Sample(matrix((3, 3)), (3,)),
            Sample(matrix((2, 3, 3)), (3,)),
            Sample(matrix((2, 1, 2, 2)), (3, 2, 1)),
            Sample(matrix((2, 2)), (2, 0)),
        ),
    ),
    _of_matrices(
        "inv",
        "The inverse of a square matrix.",
        tangent=calculus.inv_tangent,
        gradient=(calculus.inv_rule,),
        compose=calculus.inv,
        undefined=_SINGULAR,
    ),
    _of_a_rank(
        "pinv",
        "The Moore-Penrose inverse; singular values up to ``rtol`` times the largest count as zero. The gradient holds "
        "for any rank, as long as that does not change.",
        gradient=(calculus.conjugate_calculus(calculus.pinv_rule),),
        compose=calculus.pinv,
        samples=(*_ANY_SHAPE, Sample(matrix((3, 2)), rtol=1e-3)),
    ),
    _of_a_rank(
        "matrix_rank",
        "The number of singular values greater than ``rtol`` times the largest, as int64.",
        result=to_int64,
        gradient="a rank is an integer",
        compose=calculus.matrix_rank,
        samples=(*_ANY_SHAPE, Sample(matrix((3, 3)), rtol=0.5)),
    ),
    _of_matrices(
        "slogdet",
        "The sign of the determinant of a square matrix, and the logarithm of its absolute value.",
        parts=SlogdetResult,
        result=(SAME, real_dtype),
        shape=lambda x: (x.shape[:-2], x.shape[:-2]),
        gradient=(calculus.slogdet_rule,),
        undefined="",
        observe=lambda xp, sign, logabsdet: sign * 3 + logabsdet,
    ),
    _of_matrices(
        "det",
        "The determinant of a square matrix. Its gradient is the matrix of cofactors, also of a singular matrix; only "
        "the second one needs an inverse.",
        tangent=calculus.det_tangent,
        gradient=(lambda k, g, out, x: k.multiply(calculus.per_matrix(k, g), k.cofactor(x)),),
        compose=calculus.det,
        undefined="",
    ),
    _of_matrices(
        "cofactor",
        "``det(x) inv(x).mT`` of a square matrix, but defined for singular ones too: the gradient of `det`.",
        standard=False,
        gradient=(calculus.cofactor_rule,),
        compose=calculus.cofactor,
        reference=lambda np, x: np.linalg.det(x)[..., None, None] * np.linalg.inv(x).mT,
    ),
    LINALG(
        "matrix_power",
        standard=False,
        parameters=_power_parameters,
        compose=calculus.matrix_power,
        undefined=_SINGULAR,
        samples=tuple(Sample(matrix((3, 3)), n=n) for n in (0, 1, 2, 5, -1, -3)),
    ),
)
