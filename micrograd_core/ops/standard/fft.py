"""The Fourier transforms of the array API standard, on devices that claim the capability ``fft``.

A transform is linear, so its gradient rule is its transpose. With cotangents that are not conjugated
(`ops.standard.complex`), the matrix of a complex transform is its own transpose. Transforms of real numbers store half
of a symmetric spectrum, whose inner elements count twice: going one way they are halved, going the other doubled. A
transform over more or fewer elements than there are pads with zeros or crops, and its transpose does the opposite.
"""

from __future__ import annotations

from functools import partial
from operator import index
from typing import Any

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, resolve_axes, resolve_axis
from micrograd_core.ops.record import ANY, FLOATING, INEXACT, Handle, Op, Sample, Table
from micrograd_core.ops.shared import at_least_single, axes_of, calls, chosen, complex_dtype, cut, positions, real_dtype
from micrograd_core.ops.tangents import linear

NORMS = ("backward", "ortho", "forward")


# ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────


def _check(name: str, lengths: Shape, shape: Shape, norm: str) -> None:
    chosen(name, "norm", norm, NORMS)
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
            axes = tuple(range(0 if s is None else ndim - len(s), ndim))
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


# ── shapes of results ────────────────────────────────────────────────────────────────────────────────────────


def _lengths(x: Any, *, norm: str, n: int = 0, axis: int = 0, s: Shape = (), axes: Shape = ()) -> Shape:
    asked = dict(zip(axes or (axis,), s or (n,), strict=True))
    return tuple(asked.get(each, length) for each, length in enumerate(x.shape))


def _half_lengths(x: Any, **params: Any) -> Shape:
    """Of a spectrum whose other half repeats it along the last axis."""
    last = params["axes"][-1] if "axes" in params else params["axis"]
    return tuple(n // 2 + 1 if axis == last else n for axis, n in enumerate(_lengths(x, **params)))


# ── rules and compositions ───────────────────────────────────────────────────────────────────────────────────


def _fit(k: Table, g: Handle, shape: Shape, axis: int) -> Handle:
    """`g` cropped, or padded with zeros, to the length of `shape` along `axis`."""
    length, wanted = g.shape[axis], shape[axis]
    if length >= wanted:
        return g if length == wanted else k.copy(cut(k, g, axis, 0, wanted))
    rest = (*g.shape[:axis], wanted - length, *g.shape[axis + 1 :])
    return k.concat(g, k.full(shape=rest, fill_value=0, dtype=g.dtype), axis=axis)


def _inner_times(k: Table, g: Handle, factor: float, n: int, axis: int) -> Handle:
    """Half a spectrum of `n` elements with those multiplied that stand for two: not the first, nor the middle one."""
    position = positions(k, g, axis)
    single = k.equal(position, 0)
    if n % 2 == 0:
        single = k.logical_or(single, k.equal(position, n // 2))
    return k.where(single, g, k.multiply(g, factor))


def _rule(transpose: str, before: float, after: float) -> Any:
    """The transform `transpose` of the cotangent; what stands for two in half a spectrum is multiplied before or after.

    A factor of 0 is for a whole spectrum.
    """

    def rule(k: Table, g: Handle, out: Handle, x: Handle, *, n: int, axis: int, norm: str) -> Handle:
        g = _inner_times(k, g, before, n, axis) if before else g
        g = getattr(k, transpose)(g, n=n, axis=axis, norm=norm)
        return _fit(k, _inner_times(k, g, after, n, axis) if after else g, x.shape, axis)

    return rule


def _one_by_one(others: str, last: str, *, last_first: bool = False) -> Any:
    """Along each axis: the last one by the transform `last`, which comes first or last, the others by `others`."""

    def compose(k: Table, x: Handle, *, s: Shape, axes: Shape, norm: str) -> Handle:
        steps = list(zip((*[others] * (len(s) - 1), last), s, axes, strict=True))
        for name, n, axis in reversed(steps) if last_first else steps:
            x = getattr(k, name)(x, n=n, axis=axis, norm=norm)
        return x

    return compose


_OPPOSITE = dict(zip(NORMS, reversed(NORMS), strict=True))


def _hfft(k: Table, x: Handle, *, n: int, axis: int, norm: str) -> Handle:
    return k.irfft(k.conj(x), n=n, axis=axis, norm=_OPPOSITE[norm])


def _ihfft(k: Table, x: Handle, *, n: int, axis: int, norm: str) -> Handle:
    return k.conj(k.rfft(x, n=n, axis=axis, norm=_OPPOSITE[norm]))


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────

_ONE = (Sample((6,)), Sample((5, 2), axis=0, norm="ortho"), Sample((2, 4), n=7, norm="forward"), Sample((3, 6), n=4))
_MANY = (Sample((3, 4)), Sample((5,), norm="ortho"), Sample((2, 3, 5), s=(4, 3), axes=(0, 2), norm="forward"))
_DIFFERENT = "``norm`` says which way divides by the number of elements: 'backward', 'forward', or 'ortho' half each."


def _transform(name: str, doc: str, *, to_real: bool = False, **facts: Any) -> Op:
    """A transform along one axis, or, if its name ends with n, along several."""
    parameters, samples = (_many, _MANY) if name.endswith("n") else (_one, _ONE)
    facts |= {"parameters": parameters(name, to_real=to_real), "samples": samples, "tangent": linear}
    return Op(name, f"{doc} {_DIFFERENT}", extension="fft", capability="fft", standard=True, **facts)


_complex = partial(_transform, accepts=INEXACT, cast=complex_dtype, shape=_lengths)
_from_real = partial(_transform, accepts=FLOATING, cast=at_least_single, result=complex_dtype, shape=_half_lengths)
_to_real = partial(_transform, accepts=INEXACT, cast=complex_dtype, result=real_dtype, shape=_lengths, to_real=True)


def _shifting(name: str, doc: str, *, inverse: bool) -> Op:
    """Each axis cut in two, and the halves exchanged."""

    def parameters(x: Any, /, *, axes: int | tuple[int, ...] | None = None) -> dict[str, Any]:
        return {"axes": axes_of(name, x, axes)}

    def compose(k: Table, x: Handle, *, axes: Shape) -> Handle:
        return k.roll(x, shift=tuple(x.shape[axis] // 2 * (-1 if inverse else 1) for axis in axes), axis=axes)

    return Op(
        name,
        doc,
        extension="fft",
        accepts=ANY,
        parameters=parameters,
        compose=compose,
        samples=(Sample((5,)), Sample((4, 3)), Sample((2, 3), axes=1), Sample((3,), axes=())),
    )


OPS = calls(
    _complex(
        "fft",
        "Discrete Fourier transform, ``sum_j x[j] exp(-2 pi i j k / n)``, along one axis.",
        gradient=(_rule("fft", 0, 0),),
    ),
    _complex("ifft", "Inverse of `fft`.", gradient=(_rule("ifft", 0, 0),)),
    _complex("fftn", "`fft` along several axes.", compose=_one_by_one("fft", "fft")),
    _complex("ifftn", "Inverse of `fftn`.", compose=_one_by_one("ifft", "ifft")),
    _from_real(
        "rfft",
        "`fft` of real numbers: the first ``n // 2 + 1`` elements, which the others repeat conjugated.",
        gradient=(_rule("hfft", 0.5, 0),),
    ),
    _to_real(
        "irfft",
        "Inverse of `rfft`; `n`, the number of real elements, is by default the even one that fits.",
        gradient=(_rule("ihfft", 0, 2),),
    ),
    _from_real(
        "rfftn",
        "`rfft` along the last of several axes, `fft` along the others.",
        compose=_one_by_one("fft", "rfft", last_first=True),
    ),
    _to_real("irfftn", "Inverse of `rfftn`.", compose=_one_by_one("ifft", "irfft")),
    _to_real("hfft", "`fft` of half a signal whose other half repeats it conjugated: real numbers.", compose=_hfft),
    _from_real("ihfft", "Inverse of `hfft`.", compose=_ihfft),
    _shifting(
        "fftshift", "The element of frequency 0 moved to the middle of each of `axes` (default: all).", inverse=False
    ),
    _shifting("ifftshift", "Inverse of `fftshift`.", inverse=True),
)
