"""Gradient rules and compositions of the linear algebra in `micrograd_core.ops.linalg.matrices`.

Matrices are the last two axes; everything is batched over the others. Sources:

- Giles 2008, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation";
- Murray 2016, "Differentiation of the Cholesky decomposition";
- Walter and Lehmann 2010, "Algorithmic differentiation of linear algebra functions" (QR); Roberts and Roberts 2020,
  "QR and LQ decomposition matrix backpropagation algorithms" (wide matrices);
- Boeddeker et al. 2017, "On the computation of complex-valued gradients with application to statistically optimum
  beamforming" (eigenvectors of any matrix);
- Wan and Zhang 2019, "Automatic differentiation for complex valued SVD";
- Golub and Pereyra 1973, "The differentiation of pseudo-inverses".

A symmetric matrix is read by one of its triangles; its gradient is symmetric. Where a derivative does not exist
(vectors that belong to an eigenvalue or singular value that occurs twice), the gradient is NaN.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from micrograd_core.dtypes import int64
from micrograd_core.errors import GraphError
from micrograd_core.layout import Shape
from micrograd_core.ops.core.matmul import column, row, transposed
from micrograd_core.ops.record import Handle, Table
from micrograd_core.ops.shared import cut, in_dtype_of
from micrograd_core.ops.tangents import total

# ── small parts of rules ─────────────────────────────────────────────────────────────────────────────────────


def conj(k: Table, x: Handle) -> Handle:
    """The complex conjugate; of real numbers, they themselves."""
    return k.conj(x) if k.dtype(x).is_complex else x


def _h(k: Table, x: Handle) -> Handle:
    """The conjugate transpose."""
    return conj(k, transposed(k, x))


def product(k: Table, *matrices: Handle) -> Handle:
    """From left to right."""
    return reduce(k.matmul, matrices)


def per_matrix(k: Table, x: Handle) -> Handle:
    """One number per matrix: two axes of length 1 at the end."""
    return k.reshape(x, shape=(*x.shape, 1, 1))


def _position(k: Table, rows: int, columns: int) -> tuple[Any, Any]:
    """Row and column numbers, which broadcast to a matrix."""
    return k.reshape(k.arange(rows, dtype=int64), shape=(rows, 1)), k.arange(columns, dtype=int64)


def _eye(k: Table, x: Handle, n: int) -> Handle:
    """The identity, in the dtype of `x`."""
    return k.astype(k.equal(*_position(k, n, n)), dtype=x.dtype)


def _triangle(k: Table, x: Handle, diagonal: float) -> Handle:
    """The lower triangle of `x`, with its diagonal multiplied by `diagonal`."""
    i, j = _position(k, *x.shape[-2:])
    return k.where(k.less(j, i), x, k.where(k.equal(i, j), k.multiply(x, diagonal), 0))


def _hermitian(k: Table, x: Handle) -> Handle:
    """``(x + x^H) / 2``."""
    return k.multiply(k.add(x, _h(k, x)), 0.5)


def _columns(k: Table, x: Handle, start: int, stop: int) -> Handle:
    return cut(k, x, len(x.shape) - 1, start, stop)


def conjugate_calculus(rule: Any) -> Any:
    """A rule from the literature, where ``dL = Re tr(G^H dX)``, for the sweep, where ``dL = Re sum(g dX)``."""

    def bilinear(k: Table, g: Any, out: Any, x: Handle, **params: Any) -> Handle:
        g = tuple(each if each is None else conj(k, each) for each in g) if isinstance(g, tuple) else conj(k, g)
        return conj(k, rule(k, g, out, x, **params))

    return bilinear


# ── solving ──────────────────────────────────────────────────────────────────────────────────────────────────


def _solved(k: Table, a: Handle, b: Handle, vectors: bool) -> Handle:
    """The solution for `b`, of which `vectors` may be one for each matrix of a stack."""
    return k.reshape(k.solve(a, column(k, b)), shape=b.shape) if vectors and len(b.shape) > 1 else k.solve(a, b)


def solve_right(k: Table, g: Handle, out: Handle, a: Handle, b: Handle) -> Handle:
    """``A^-T g`` (Giles, 2.3.1)."""
    return _solved(k, transposed(k, a), g, len(b.shape) == 1)


def solve_left(k: Table, g: Handle, out: Handle, a: Handle, b: Handle) -> Handle:
    """``-(A^-T g) out^T``."""
    g = solve_right(k, g, out, a, b)
    if len(b.shape) == 1:
        g, out = column(k, g), column(k, out)
    return k.negative(k.matmul(g, transposed(k, out)))


def inv(k: Table, x: Handle) -> Handle:
    """The solution of ``x y = identity``."""
    return k.solve(x, _eye(k, x, x.shape[-1]))


def inv_rule(k: Table, g: Handle, out: Handle, x: Handle) -> Handle:
    """``-out^T g out^T`` (Giles, 2.2.3)."""
    turned = transposed(k, out)
    return k.negative(product(k, turned, g, turned))


def solve_tangent(op: Any, k: Table, tangents: Any, out: Handle, a: Handle, b: Handle) -> Handle:
    """``A^-1 (db - dA out)``."""
    da, db = tangents
    vectors = len(b.shape) == 1
    if da is not None:
        moved = k.negative(k.matmul(da, column(k, out) if vectors else out))
        db = total(k, (db, k.reshape(moved, shape=moved.shape[:-1]) if vectors else moved))
    return _solved(k, a, db, vectors)


def inv_tangent(op: Any, k: Table, tangents: Any, out: Handle, x: Handle) -> Handle:
    """``-A^-1 dA A^-1``."""
    return k.negative(product(k, out, tangents[0], out))


def det_tangent(op: Any, k: Table, tangents: Any, out: Handle, x: Handle) -> Handle:
    """The sum of cofactors times tangents."""
    return k.sum(k.multiply(k.cofactor(x), tangents[0]), axis=(len(x.shape) - 2, len(x.shape) - 1), keepdims=False)


def matrix_power(k: Table, x: Handle, *, n: int) -> Any:
    """By repeated squaring."""
    if n == 0:
        first, _ = _position(k, *x.shape[-2:])
        return k.where(k.equal(first, first), _eye(k, x, x.shape[-1]), x)  # nothing of x, whose gradient is 0
    square = k.inv(x) if n < 0 else x
    n, result = abs(n), None
    while n:
        if n % 2:
            result = square if result is None else k.matmul(result, square)
        n //= 2
        square = k.matmul(square, square) if n else square
    return k.copy(result) if result is x else result


# ── determinants ─────────────────────────────────────────────────────────────────────────────────────────────


def slogdet_rule(k: Table, g: Any, out: Any, x: Handle) -> Handle:
    """``g A^-T`` for the logarithm (Giles, 2.2.4); the sign turns with the imaginary part of ``tr(A^-1 dA)``."""
    sign, logabsdet = g
    terms = [] if logabsdet is None else [in_dtype_of(k, logabsdet, x)]
    if not k.dtype(x).is_complex:
        terms = terms or [k.multiply(sign, 0)]
    elif sign is not None:
        terms.append(k.multiply(in_dtype_of(k, k.imag(k.multiply(sign, out[0])), x), 1j))
    return k.multiply(per_matrix(k, total(k, terms)), k.inv(transposed(k, x)))


def det(k: Table, x: Handle) -> Handle:
    """The sign times the absolute value."""
    sign, logabsdet = k.slogdet(x)
    return k.multiply(sign, in_dtype_of(k, k.exp(logabsdet), x))


def cofactor(k: Table, x: Handle) -> Handle:
    """With ``x = U S Vh``: ``det(U Vh) conj(U P Vh)``, where P holds the products of all other singular values."""
    u, s, vh = k.svd(x, full_matrices=True)
    others = k.where(k.equal(*_position(k, *x.shape[-2:])), 1, row(k, s))
    absent = k.equal(others, 0)
    last = (len(others.shape) - 1,)
    products = k.exp(k.sum(k.log(k.where(absent, 1, others)), axis=last, keepdims=False))
    products = k.where(k.any(absent, axis=last, keepdims=False), 0, products)
    turn = k.multiply(k.det(u), k.det(vh))
    return k.multiply(per_matrix(k, turn), conj(k, k.matmul(k.multiply(u, row(k, in_dtype_of(k, products, x))), vh)))


def cofactor_rule(k: Table, g: Handle, out: Handle, x: Handle) -> Handle:
    """From ``out = det(A) A^-T``: ``sum(g out) A^-T - A^-T g^T out``, where A can be inverted."""
    inverse = k.inv(transposed(k, x))
    along = k.sum(k.multiply(g, out), axis=(len(x.shape) - 2, len(x.shape) - 1), keepdims=True)
    return k.subtract(k.multiply(along, inverse), product(k, inverse, transposed(k, g), out))


# ── factorisations ───────────────────────────────────────────────────────────────────────────────────────────


def cholesky_rule(k: Table, g: Handle, out: Handle, x: Handle, *, upper: bool) -> Handle:
    """``L^-H tril(L^H G) L^-1`` with half the diagonal, made symmetric (Murray, 10)."""
    lower, g = (_h(k, out), _h(k, g)) if upper else (out, g)
    adjoint = _h(k, lower)
    middle = _triangle(k, k.matmul(adjoint, g), 0.5)
    half = k.solve(adjoint, middle)  # L^-H P, then (L^-H (L^-H P)^H)^H
    return _hermitian(k, k.solve(adjoint, _h(k, half)))


def _reciprocal_gaps(k: Table, values: Handle, like: Handle, *, squared: bool = False) -> Handle:
    """``1 / (values_j - values_i)``, or of their squares; 0 on the diagonal, infinite where values repeat."""
    across, down = row(k, values), column(k, values)
    gaps = k.subtract(across, down)
    gaps = k.multiply(gaps, k.add(across, down)) if squared else gaps
    n = values.shape[-1]
    return in_dtype_of(k, k.divide(1, k.where(k.equal(*_position(k, n, n)), math.inf, gaps)), like)


def eigh_rule(k: Table, g: Any, out: Any, x: Handle) -> Any:
    """``V (diag(g) + V^H G / gaps) V^H`` (Giles, 3.1), made symmetric."""
    (values, vectors), (g_values, g_vectors) = out, g
    adjoint = _h(k, vectors)
    terms = []
    if g_values is not None:
        terms.append(product(k, k.multiply(vectors, row(k, in_dtype_of(k, g_values, x))), adjoint))
    if g_vectors is not None:
        turned = k.multiply(k.matmul(adjoint, g_vectors), _reciprocal_gaps(k, values, x))
        terms.append(_hermitian(k, product(k, vectors, turned, adjoint)))
    return total(k, terms)


def eig_rule(k: Table, g: Any, out: Any, x: Handle) -> Handle:
    """``V^-H (diag(g) + M / conj(gaps)) V^H``, ``M = V^H G - V^H V diag(Re(V^H G))`` (Boeddeker et al., 4.77).

    What is taken off in M keeps the vectors' lengths; of their phases the rule says that they do not turn.
    """
    (values, vectors), (g_values, g_vectors) = out, g
    adjoint = _h(k, vectors)
    diagonal = k.equal(*_position(k, *x.shape[-2:]))
    terms = []
    if g_values is not None:
        terms.append(k.where(diagonal, row(k, g_values), 0))
    if g_vectors is not None:
        turned = k.matmul(adjoint, g_vectors)
        along = k.where(diagonal, in_dtype_of(k, k.real(turned), vectors), 0)
        turned = k.subtract(turned, product(k, adjoint, vectors, along))
        gaps = k.subtract(row(k, values), column(k, values))
        terms.append(k.where(diagonal, 0, k.divide(turned, conj(k, k.where(diagonal, 1, gaps)))))
    found = k.solve(adjoint, k.matmul(total(k, terms), adjoint))
    return found if k.dtype(x).is_complex else k.real(found)


def svd_rule(k: Table, g: Any, out: Any, x: Handle, *, full_matrices: bool) -> Any:
    """Wan and Zhang, 3, with what lies outside the spaces of U and V for matrices that are not square."""
    (u, s, vh), (g_u, g_s, g_vh) = out, g
    rows, columns = x.shape[-2:]
    if full_matrices and rows != columns and not (g_u is None and g_vh is None):
        raise GraphError(
            f"svd: the vectors that complete a matrix of shape {x.shape} are arbitrary, and have no gradient; "
            "pass full_matrices=False"
        )
    if full_matrices:
        n = min(rows, columns)
        u, vh = _columns(k, u, 0, n), transposed(k, _columns(k, transposed(k, vh), 0, n))
    s_like = in_dtype_of(k, s, x)
    scale = row(k, s_like)
    across = k.reshape(s_like, shape=(*s.shape, 1))
    terms, inner = [], []
    if g_s is not None:
        terms.append(product(k, k.multiply(u, row(k, in_dtype_of(k, g_s, x))), vh))
    if g_u is not None or g_vh is not None:
        within = _reciprocal_gaps(k, s, x, squared=True)
    if g_u is not None:
        projected = k.matmul(_h(k, u), g_u)
        inner.append(k.multiply(k.multiply(_skew(k, projected), within), scale))
        if k.dtype(x).is_complex:  # the phase of each pair of vectors
            phase = k.where(k.equal(*_position(k, *projected.shape[-2:])), _skew(k, projected), 0)
            inner.append(k.divide(phase, k.multiply(scale, 2)))
        if rows > columns:
            outside = k.divide(k.subtract(g_u, k.matmul(u, projected)), scale)
            terms.append(k.matmul(outside, vh))
    if g_vh is not None:
        projected = k.matmul(vh, _h(k, g_vh))
        inner.append(k.multiply(across, k.multiply(_skew(k, projected), within)))
        if columns > rows:
            outside = k.divide(k.subtract(g_vh, k.matmul(_h(k, projected), vh)), across)
            terms.append(k.matmul(u, outside))
    if inner:
        terms.append(product(k, u, total(k, inner), vh))
    return total(k, terms)


def _skew(k: Table, x: Handle) -> Handle:
    return k.subtract(x, _h(k, x))


def qr_rule(k: Table, g: Any, out: Any, x: Handle, *, mode: str) -> Handle:
    """``(G_Q + Q copyltu(M)) R^-H`` with ``M = R G_R^H - G_Q^H Q`` (Walter and Lehmann, 3.3).

    Of a wide matrix, the columns beyond the square part are ``Q R``'s and no more (Roberts and Roberts, 3).
    """
    (q, r), (g_q, g_r) = out, g
    rows, columns = x.shape[-2:]
    if mode == "complete" and rows > columns:
        raise GraphError(
            f"qr: the columns that complete Q for a matrix of shape {x.shape} are arbitrary, and have no gradient; "
            "pass mode='reduced'"
        )
    beyond = None
    if columns > rows:
        if g_r is not None:
            beyond = _columns(k, g_r, rows, columns)
            more = k.matmul(_columns(k, x, rows, columns), _h(k, beyond))
            g_q = more if g_q is None else k.add(g_q, more)
            g_r = _columns(k, g_r, 0, rows)
        r = _columns(k, r, 0, rows)
    terms = [] if g_r is None else [k.matmul(r, _h(k, g_r))]
    terms += [] if g_q is None else [k.negative(k.matmul(_h(k, g_q), q))]
    below = _triangle(k, total(k, terms), 0.5)
    inside = k.matmul(q, k.add(below, _h(k, below)))
    inside = inside if g_q is None else k.add(inside, g_q)
    square = _h(k, k.solve(r, _h(k, inside)))
    if columns > rows:
        if beyond is None:
            beyond = k.full(shape=(*x.shape[:-1], columns - rows), fill_value=0, dtype=x.dtype)
        square = k.concat(square, k.matmul(q, beyond), axis=len(x.shape) - 1)
    return k.copy(square)  # in C order, as gradients are


# ── what follows from singular values ────────────────────────────────────────────────────────────────────────


def _cutoff(k: Table, s: Handle, shape: Shape, rtol: Any) -> Handle:
    """The greatest singular value that counts as zero; by default the rounding of the largest one."""
    largest = k.max(s, axis=(len(s.shape) - 1,), keepdims=True)
    if rtol is None:
        epsilon = 2.0**-52 if k.dtype(s).bits == 64 else 2.0**-23
        return k.multiply(largest, max(shape[-2:]) * epsilon)
    return k.multiply(largest, k.constant(rtol[1], (*rtol[0], 1), k.dtype(s)))


def pinv(k: Table, x: Handle, *, rtol: Any) -> Handle:
    """``V S^-1 U^H``, without what belongs to singular values that count as zero."""
    if 0 in x.shape[-2:]:
        return k.full(shape=(*x.shape[:-2], x.shape[-1], x.shape[-2]), fill_value=0, dtype=x.dtype)
    u, s, vh = k.svd(x, full_matrices=False)
    kept = k.less(_cutoff(k, s, x.shape, rtol), s)
    reciprocal = k.where(kept, k.divide(1, k.where(kept, s, 1)), 0)
    return k.matmul(k.multiply(_h(k, vh), row(k, in_dtype_of(k, reciprocal, x))), _h(k, u))


def pinv_rule(k: Table, g: Handle, out: Handle, x: Handle, *, rtol: Any) -> Handle:
    """Golub and Pereyra, 4.12: right for any rank, as long as that does not change."""
    p, adjoint, g_h = out, _h(k, out), _h(k, g)
    direct = product(k, adjoint, g, adjoint)
    rows, columns = x.shape[-2:]
    left = k.subtract(_eye(k, x, rows), k.matmul(x, p))
    right = k.subtract(_eye(k, x, columns), k.matmul(p, x))
    return k.subtract(k.add(product(k, left, g_h, p, adjoint), product(k, adjoint, p, g_h, right)), direct)


def matrix_rank(k: Table, x: Handle, *, rtol: Any) -> Handle:
    """How many singular values do not count as zero."""
    if 0 in x.shape[-2:]:
        return k.full(shape=x.shape[:-2], fill_value=0, dtype=int64)
    s = k.svdvals(x)
    counted = k.astype(k.less(_cutoff(k, s, x.shape, rtol), s), dtype=int64)
    return k.sum(counted, axis=(len(s.shape) - 1,), keepdims=False)
