"""The Fourier transforms of the array API standard, on devices that claim the capability ``fft``.

A transform is linear, so its gradient rule is its transpose. With cotangents that are not conjugated
(`ops.standard.complex`), the matrix of a complex transform is its own transpose. Transforms of real numbers store half
of a symmetric spectrum, whose inner elements count twice: going one way they are halved, going the other doubled. A
transform over more or fewer elements than there are pads with zeros or crops, and its transpose does the opposite.
"""

from __future__ import annotations

from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any

from micrograd_core.dtypes import DType, float32, int64
from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, resolve_axes, resolve_axis
from micrograd_core.ops.record import ANY, FLOATING, INEXACT, Array, Op, Sample
from micrograd_core.ops.standard.complex import complex_dtype, real_dtype
from micrograd_core.ops.tangents import linear

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table

NORMS = ("backward", "ortho", "forward")


def _at_least_single(dtype: DType) -> DType:
    return float32 if dtype.bits == 16 else dtype


# ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────


def _check(name: str, lengths: Shape, shape: Shape, norm: str) -> None:
    if norm not in NORMS:
        raise ValueError(f"{name}: norm is 'backward', 'ortho' or 'forward'; got {norm!r}")
    if min(lengths, default=1) < 1:
        raise ShapeError(f"{name}: a transform is over at least one element; got {lengths} (shape {shape})")


def _one(name: str, *, to_real: bool = False) -> Any:
    """Of a transform along one axis; `to_real`: from half a spectrum, by default of an even number of elements."""

    def parameters(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> dict[str, Any]:
        axis = resolve_axis(name, axis, len(x.shape))
        length = x.shape[axis]
        n = (2 * (length - 1) if to_real else length) if n is None else index(n)
        _check(name, (n,), x.shape, norm)
        return {"n": n, "axis": axis, "norm": norm}

    return parameters


def _many(name: str, *, to_real: bool = False) -> Any:
    """Of a transform along several axes, by default all of them, or the last ones that `s` has lengths for."""

    def parameters(
        x: Any, /, *, s: tuple[int, ...] | None = None, axes: tuple[int, ...] | None = None, norm: str = "backward"
    ) -> dict[str, Any]:
        ndim = len(x.shape)
        if axes is None:
            axes = tuple(range(ndim if s is None else -len(s), ndim)) if s is not None else tuple(range(ndim))
        axes = resolve_axes(name, tuple(axes), ndim) or ()
        lengths = tuple(x.shape[axis] for axis in axes)
        if s is None:
            s = (*lengths[:-1], 2 * (lengths[-1] - 1)) if to_real and lengths else lengths
        s = tuple(map(index, s))
        if len(s) != len(axes) or not axes:
            raise ShapeError(f"{name}: s {s} must give one length for each of the axes {axes} (shape {x.shape})")
        _check(name, s, x.shape, norm)
        return {"s": s, "axes": axes, "norm": norm}

    return parameters


def _shift_parameters(name: str) -> Any:
    def parameters(x: Any, /, *, axes: int | tuple[int, ...] | None = None) -> dict[str, Any]:
        resolved = resolve_axes(name, axes, len(x.shape))
        return {"axes": tuple(range(len(x.shape))) if resolved is None else resolved}

    return parameters


# ── shapes of results ────────────────────────────────────────────────────────────────────────────────────────


def _lengths(x: Any, *, norm: str, n: int = 0, axis: int = 0, s: Shape = (), axes: Shape = ()) -> Shape:
    asked = dict(zip(axes or (axis,), s or (n,), strict=True))
    return tuple(asked.get(each, length) for each, length in enumerate(x.shape))


def _half_lengths(x: Any, **params: Any) -> Shape:
    """Of a spectrum whose other half repeats it along the last axis."""
    last = params["axes"][-1] if "axes" in params else params["axis"]
    return tuple(n // 2 + 1 if axis == last else n for axis, n in enumerate(_lengths(x, **params)))


# ── rules and compositions ───────────────────────────────────────────────────────────────────────────────────


def _piece(k: Table, x: Any, axis: int, start: int, stop: int) -> Any:
    return k.getitem(
        x, key=tuple(slice(start, stop, 1) if i == axis else slice(0, n, 1) for i, n in enumerate(x.shape))
    )


def _fit(k: Table, g: Any, shape: Shape, axis: int) -> Any:
    """`g` cropped, or padded with zeros, to the length of `shape` along `axis`."""
    length, wanted = g.shape[axis], shape[axis]
    if length >= wanted:
        return g if length == wanted else k.copy(_piece(k, g, axis, 0, wanted))
    rest = (*g.shape[:axis], wanted - length, *g.shape[axis + 1 :])
    return k.concat(g, k.full(shape=rest, fill_value=0, dtype=g.dtype), axis=axis)


def _inner_times(k: Table, g: Any, factor: float, n: int, axis: int) -> Any:
    """Half a spectrum of `n` elements with those multiplied that stand for two: not the first, nor the middle one."""
    position = k.arange(g.shape[axis], dtype=int64)
    single = k.equal(position, 0)
    if n % 2 == 0:
        single = k.logical_or(single, k.equal(position, n // 2))
    single = k.reshape(single, shape=(g.shape[axis],) + (1,) * (len(g.shape) - axis - 1))
    return k.where(single, g, k.multiply(g, factor))


def _complex_rule(name: str) -> Any:
    def rule(k: Table, g: Any, out: Any, x: Any, *, n: int, axis: int, norm: str) -> Any:
        return _fit(k, getattr(k, name)(g, n=n, axis=axis, norm=norm), x.shape, axis)

    return rule


def _complex_rule_of_many(name: str) -> Any:
    def rule(k: Table, g: Any, out: Any, x: Any, *, s: Shape, axes: Shape, norm: str) -> Any:
        g = getattr(k, name)(g, s=s, axes=axes, norm=norm)
        for axis in axes:
            g = _fit(k, g, x.shape, axis)
        return g

    return rule


def _from_real_rule(transpose: str) -> Any:
    """Of a transform that gives half a spectrum; its transpose makes the whole one real again."""

    def rule(k: Table, g: Any, out: Any, x: Any, *, n: int, axis: int, norm: str) -> Any:
        halved = _inner_times(k, g, 0.5, n, axis)
        return _fit(k, getattr(k, transpose)(halved, n=n, axis=axis, norm=norm), x.shape, axis)

    return rule


def _to_real_rule(transpose: str) -> Any:
    """Of a transform that takes half a spectrum; its transpose gives that half, for the whole."""

    def rule(k: Table, g: Any, out: Any, x: Any, *, n: int, axis: int, norm: str) -> Any:
        half = getattr(k, transpose)(g, n=n, axis=axis, norm=norm)
        return _fit(k, _inner_times(k, half, 2, n, axis), x.shape, axis)

    return rule


def _one_by_one(name: str) -> Any:
    def compose(k: Table, x: Any, *, s: Shape, axes: Shape, norm: str) -> Any:
        for n, axis in zip(s, axes, strict=True):
            x = getattr(k, name)(x, n=n, axis=axis, norm=norm)
        return x

    return compose


def _rfftn(k: Table, x: Any, *, s: Shape, axes: Shape, norm: str) -> Any:
    x = k.rfft(x, n=s[-1], axis=axes[-1], norm=norm)
    return k.fftn(x, s=s[:-1], axes=axes[:-1], norm=norm) if len(s) > 1 else x


def _irfftn(k: Table, x: Any, *, s: Shape, axes: Shape, norm: str) -> Any:
    x = k.ifftn(x, s=s[:-1], axes=axes[:-1], norm=norm) if len(s) > 1 else x
    return k.irfft(x, n=s[-1], axis=axes[-1], norm=norm)


_OPPOSITE = dict(zip(NORMS, reversed(NORMS), strict=True))


def _hfft(k: Table, x: Any, *, n: int, axis: int, norm: str) -> Any:
    return k.irfft(k.conj(x), n=n, axis=axis, norm=_OPPOSITE[norm])


def _ihfft(k: Table, x: Any, *, n: int, axis: int, norm: str) -> Any:
    return k.conj(k.rfft(x, n=n, axis=axis, norm=_OPPOSITE[norm]))


def _shift(k: Table, x: Any, axes: Shape, *, inverse: bool) -> Any:
    """Each axis cut in two, and the halves exchanged."""
    for axis in axes:
        length = x.shape[axis]
        cut = length // 2 if inverse else (length + 1) // 2
        x = k.concat(_piece(k, x, axis, cut, length), _piece(k, x, axis, 0, cut), axis=axis)
    return x


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────

_ONE = (
    Sample(Array((6,))),
    Sample(Array((2, 5))),
    Sample(Array((4, 2)), axis=0, norm="ortho"),
    Sample(Array((2, 4)), n=7, norm="forward"),
    Sample(Array((3, 6)), n=4),
)
_MANY = (
    Sample(Array((3, 4))),
    Sample(Array((2, 3, 4)), axes=(0, 2), norm="ortho"),
    Sample(Array((2, 3, 5)), s=(4, 3), axes=(1, 2), norm="forward"),
    Sample(Array((5,))),
)
_DIFFERENT = "``norm`` says which way divides by the number of elements: 'backward', 'forward', or 'ortho' half each."


def _transform(name: str, doc: str, **facts: Any) -> Op:
    """A record whose reference is NumPy's function of the same name."""

    def reference(np: Any, x: Any, **params: Any) -> Any:
        return getattr(np.fft, name)(x, **params)

    facts |= {"extension": "fft", "capability": "fft", "standard": True, "tangent": linear, "reference": reference}
    return Op(name, f"{doc} {_DIFFERENT}", **facts)


_complex = partial(_transform, accepts=INEXACT, cast=complex_dtype, shape=_lengths)
_from_real = partial(_transform, accepts=FLOATING, cast=_at_least_single, result=complex_dtype, shape=_half_lengths)
_to_real = partial(_transform, accepts=INEXACT, cast=complex_dtype, result=real_dtype, shape=_lengths)


def _shifting(name: str, doc: str, *, inverse: bool) -> Op:
    other = "fftshift" if inverse else "ifftshift"
    return Op(
        name,
        doc,
        extension="fft",
        accepts=ANY,
        parameters=_shift_parameters(name),
        tangent=linear,
        gradient=(lambda k, g, out, x, *, axes: getattr(k, other)(g, axes=axes),),
        compose=lambda k, x, *, axes: _shift(k, k.copy(x), axes, inverse=inverse),
        samples=(
            Sample(Array((5,))),
            Sample(Array((4, 3))),
            Sample(Array((2, 3)), axes=1),
            Sample(Array((3,)), axes=()),
        ),
        reference=lambda np, x, axes=None: getattr(np.fft, name)(x, axes=axes),
    )


OPS = (
    _complex(
        "fft",
        "Discrete Fourier transform, ``sum_j x[j] exp(-2 pi i j k / n)``, along one axis.",
        parameters=_one("fft"),
        gradient=(_complex_rule("fft"),),
        samples=_ONE,
    ),
    _complex("ifft", "Inverse of `fft`.", parameters=_one("ifft"), gradient=(_complex_rule("ifft"),), samples=_ONE),
    _complex(
        "fftn",
        "`fft` along several axes.",
        parameters=_many("fftn"),
        gradient=(_complex_rule_of_many("fftn"),),
        compose=_one_by_one("fft"),
        samples=_MANY,
    ),
    _complex(
        "ifftn",
        "Inverse of `fftn`.",
        parameters=_many("ifftn"),
        gradient=(_complex_rule_of_many("ifftn"),),
        compose=_one_by_one("ifft"),
        samples=_MANY,
    ),
    _from_real(
        "rfft",
        "`fft` of real numbers: the first ``n // 2 + 1`` elements, which the others repeat conjugated.",
        parameters=_one("rfft"),
        gradient=(_from_real_rule("hfft"),),
        samples=_ONE,
    ),
    _to_real(
        "irfft",
        "Inverse of `rfft`; `n`, the number of real elements, is by default the even one that fits.",
        parameters=_one("irfft", to_real=True),
        gradient=(_to_real_rule("ihfft"),),
        samples=_ONE,
    ),
    _from_real(
        "rfftn",
        "`rfft` along the last of several axes, `fft` along the others.",
        parameters=_many("rfftn"),
        compose=_rfftn,
        samples=_MANY,
    ),
    _to_real("irfftn", "Inverse of `rfftn`.", parameters=_many("irfftn", to_real=True), compose=_irfftn, samples=_MANY),
    _to_real(
        "hfft",
        "`fft` of half a signal whose other half repeats it conjugated: real numbers.",
        parameters=_one("hfft", to_real=True),
        gradient=(_to_real_rule("rfft"),),
        compose=_hfft,
        samples=_ONE,
    ),
    _from_real(
        "ihfft",
        "Inverse of `hfft`.",
        parameters=_one("ihfft"),
        gradient=(_from_real_rule("irfft"),),
        compose=_ihfft,
        samples=_ONE,
    ),
    _shifting(
        "fftshift", "The element of frequency 0 moved to the middle of each of `axes` (default: all).", inverse=False
    ),
    _shifting("ifftshift", "Inverse of `fftshift`.", inverse=True),
)
