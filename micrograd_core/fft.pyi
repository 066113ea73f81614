# Made by docs/stubs.py from the source and the op table.
from micrograd_core.array.tensor import ArrayLike, Tensor
from micrograd_core.device import Device
from typing import Any

def fftfreq(n: int, /, *, d: float=1.0, dtype: Any=None, device: str | Device | None=None) -> Tensor: ...

def rfftfreq(n: int, /, *, d: float=1.0, dtype: Any=None, device: str | Device | None=None) -> Tensor: ...

def fft(x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: str = 'backward', dim: int = ..., dims: int = ...) -> Tensor:
    """Discrete Fourier transform, ``sum_j x[j] exp(-2 pi i j k / n)``, along one axis. ``norm`` says which way divides by the number of elements: 'backward', 'forward', or 'ortho' half each."""

def ifft(x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: str = 'backward', dim: int = ..., dims: int = ...) -> Tensor:
    """Inverse of `fft`. ``norm`` says which way divides by the number of elements: 'backward', 'forward', or 'ortho' half each."""

def fftn(x: ArrayLike, /, *, s: tuple[int, ...] | None = None, axes: tuple[int, ...] | None = None, norm: str = 'backward', dim: tuple[int, ...] | None = ..., dims: tuple[int, ...] | None = ...) -> Tensor:
    """`fft` along several axes. ``norm`` says which way divides by the number of elements: 'backward', 'forward', or 'ortho' half each."""

def ifftn(x: ArrayLike, /, *, s: tuple[int, ...] | None = None, axes: tuple[int, ...] | None = None, norm: str = 'backward', dim: tuple[int, ...] | None = ..., dims: tuple[int, ...] | None = ...) -> Tensor:
    """Inverse of `fftn`. ``norm`` says which way divides by the number of elements: 'backward', 'forward', or 'ortho' half each."""

def rfft(x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: str = 'backward', dim: int = ..., dims: int = ...) -> Tensor:
    """`fft` of real numbers: the first ``n // 2 + 1`` elements, which the others repeat conjugated. ``norm`` says which way divides by the number of elements: 'backward', 'forward', or 'ortho' half each."""

def irfft(x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: str = 'backward', dim: int = ..., dims: int = ...) -> Tensor:
    """Inverse of `rfft`; `n`, the number of real elements, is by default the even one that fits. ``norm`` says which way divides by the number of elements: 'backward', 'forward', or 'ortho' half each."""

def rfftn(x: ArrayLike, /, *, s: tuple[int, ...] | None = None, axes: tuple[int, ...] | None = None, norm: str = 'backward', dim: tuple[int, ...] | None = ..., dims: tuple[int, ...] | None = ...) -> Tensor:
    """`rfft` along the last of several axes, `fft` along the others. ``norm`` says which way divides by the number of elements: 'backward', 'forward', or 'ortho' half each."""

def irfftn(x: ArrayLike, /, *, s: tuple[int, ...] | None = None, axes: tuple[int, ...] | None = None, norm: str = 'backward', dim: tuple[int, ...] | None = ..., dims: tuple[int, ...] | None = ...) -> Tensor:
    """Inverse of `rfftn`. ``norm`` says which way divides by the number of elements: 'backward', 'forward', or 'ortho' half each."""

def hfft(x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: str = 'backward', dim: int = ..., dims: int = ...) -> Tensor:
    """`fft` of half a signal whose other half repeats it conjugated: real numbers. ``norm`` says which way divides by the number of elements: 'backward', 'forward', or 'ortho' half each."""

def ihfft(x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: str = 'backward', dim: int = ..., dims: int = ...) -> Tensor:
    """Inverse of `hfft`. ``norm`` says which way divides by the number of elements: 'backward', 'forward', or 'ortho' half each."""

def fftshift(x: ArrayLike, /, *, axes: int | tuple[int, ...] | None = None, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ...) -> Tensor:
    """The element of frequency 0 moved to the middle of each of `axes` (default: all)."""

def ifftshift(x: ArrayLike, /, *, axes: int | tuple[int, ...] | None = None, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ...) -> Tensor:
    """Inverse of `fftshift`."""

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]
