"""Complex numbers: their parts, conjugate, modulus and phase; and what their gradients mean.

Inside a sweep cotangents are *bilinear*: ``g`` stands for the change ``Re(g dz)`` of a real result. A holomorphic
function then has the same rule as on the real line, ``g f'(z)``, with nothing conjugated, and one table serves both.
At the ends users see the convention of PyTorch: ``z.grad`` is the conjugate, ``dL/dRe(z) + i dL/dIm(z)``, the direction
of steepest ascent (K. Kreutz-Delgado, The Complex Gradient Operator and the CR-Calculus, 2009).

The rules below are of functions that are not holomorphic: each is ``Re(g df)`` written as ``Re(... dz)``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from micrograd_core.dtypes import COMPLEX_OF
from micrograd_core.errors import UnsupportedOp
from micrograd_core.ops.record import COMPLEX, FLOATING, Array, Handle, Op, Operand, Sample, Table
from micrograd_core.ops.shared import arrays, complex_dtype, elementwise, in_dtype_of, real_dtype
from micrograd_core.ops.tangents import linear


def as_complex(k: Table, x: Handle) -> Handle:
    """`x` with an imaginary part of 0, if it is real."""
    dtype = k.dtype(x)
    return x if dtype.is_complex else k.astype(x, dtype=COMPLEX_OF[dtype])


def _needs_complex(name: str, otherwise: Any) -> Any:
    """The composition for real dtypes; complex numbers can be taken apart by a kernel only."""

    def compose(k: Table, x: Handle) -> Any:
        if k.dtype(x).is_complex:
            device: Any = k.device
            raise UnsupportedOp(name, device, because="complex numbers need a kernel of that name")
        return otherwise(k, x)

    return compose


def _complex(k: Table, x: Operand, y: Operand) -> Handle:
    x, y = (as_complex(k, each) for each in arrays(k, x, y))
    return k.add(x, k.multiply(y, 1j))


def _complex_reference(np: Any, x: Any, y: Any) -> Any:
    result = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), np.result_type(x, y, np.complex64))
    result.real, result.imag = x, y  # a sum would spoil infinities and the sign of zero
    return result


def _abs(k: Table, x: Handle) -> Handle:
    if k.dtype(x).is_complex:
        return k.hypot(k.real(x), k.imag(x))
    if k.dtype(x).kind == "unsigned integer":  # whose negative wraps
        return k.add(x, 0)
    return k.add(k.maximum(x, k.negative(x)), 0)  # -0.0 + 0 is 0.0


def _abs_rule(k: Table, g: Handle, out: Handle, x: Handle) -> Handle:
    """``g conj(z) / |z|``, and 0 at 0."""
    if k.dtype(x).is_complex:
        return k.multiply(k.astype(g, dtype=x.dtype), k.conj(k.sign(x)))
    return k.multiply(g, k.sign(x))


def _sign(k: Table, x: Handle) -> Handle:
    """-1, 0 or 1; ``z / |z|`` after a division by the larger part, so that neither overflows nor vanishes."""
    if not k.dtype(x).is_complex:
        rest = k.add(x, 0.0) if k.dtype(x).is_floating else x  # of -0.0 too it is 0.0
        positive = k.where(k.less(0, x), 1, rest)
        return positive if k.dtype(x).kind == "unsigned integer" else k.where(k.less(x, 0), -1, positive)
    largest = k.maximum(k.abs(k.real(x)), k.abs(k.imag(x)))
    scaled = k.divide(x, as_complex(k, k.where(k.equal(largest, 0), 1, largest)))
    modulus = k.abs(scaled)
    return k.divide(scaled, as_complex(k, k.where(k.equal(largest, 0), 1, modulus)))


def _sign_rule(k: Table, g: Handle, out: Handle, x: Handle) -> Handle:
    """``(g - Re(g s) conj(s)) / |z|`` with ``s = sign(z)``: only turning changes it. Steps have derivative 0."""
    if not k.dtype(x).is_complex:
        return k.full(shape=x.shape, fill_value=0, dtype=x.dtype)
    modulus = k.abs(x)
    along = k.multiply(as_complex(k, k.real(k.multiply(g, out))), k.conj(out))
    turn = k.divide(k.subtract(g, along), as_complex(k, k.where(k.equal(modulus, 0), 1, modulus)))
    return k.where(k.equal(modulus, 0), 0, turn)


_ELEMENTWISE = partial(Op, kind="elementwise", standard=True, samples=(Sample((2, 3)), Sample(()), Sample((0, 2))))
_PART = partial(_ELEMENTWISE, result=real_dtype, tangent=linear)

OPS = (
    _ELEMENTWISE(
        "abs",
        "Absolute value, or modulus; the gradient at 0 is 0.",
        scalar="abs({})",
        result=real_dtype,
        tangent=lambda op, k, tangents, out, x: k.real(k.multiply(k.conj(k.sign(x)), *tangents)),
        gradient=(_abs_rule,),
        compose=_abs,
    ),
    _ELEMENTWISE(
        "sign",
        "-1, 0 or 1; of complex numbers ``z / |z|``, or 0; NaN for NaN.",
        scalar="sign({})",
        gradient=(_sign_rule,),
        compose=_sign,
    ),
    _PART(
        "real",
        "Real part; real numbers as they are.",
        gradient=(lambda k, g, out, x: k.astype(g, dtype=x.dtype),),
        compose=_needs_complex("real", lambda k, x: k.positive(x)),
    ),
    _PART(
        "imag",
        "Imaginary part of complex numbers.",
        accepts=COMPLEX,
        gradient=(lambda k, g, out, x: k.multiply(k.astype(g, dtype=x.dtype), -1j),),
        compose=_needs_complex("imag", lambda k, x: k.multiply(x, 0)),
        samples=(Sample(Array((2, 3), dtype="complex128")),),
    ),
    elementwise(
        "complex",
        "The complex number of real part ``x1`` and imaginary part ``x2``, as torch's.",
        accepts=FLOATING,
        result=complex_dtype,
        tangent=linear,
        gradient=(
            lambda k, g, out, x, y: in_dtype_of(k, k.real(g), x),  # half precision has complex numbers of float32
            lambda k, g, out, x, y: in_dtype_of(k, k.negative(k.imag(g)), y),
        ),
        compose=_complex,
        capability="complex",
        samples=(Sample((2, 3), (3,)), Sample((), ())),
        reference=_complex_reference,
    ),
    _ELEMENTWISE(
        "conj",
        "Complex conjugate; real numbers as they are.",
        tangent=linear,
        gradient=(lambda k, g, out, x: k.conj(g),),
        compose=lambda k, x: (
            k.subtract(as_complex(k, k.real(x)), k.multiply(as_complex(k, k.imag(x)), 1j))
            if k.dtype(x).is_complex
            else k.positive(x)
        ),
    ),
)
