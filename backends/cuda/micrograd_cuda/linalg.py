"""CuPy's linear algebra, in what it differs from the standard's.

Left to itself CuPy does not look whether cuSOLVER found an answer. Here it does: that is a wait, as it is in PyTorch.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from micrograd_core.adapters.array_api import functions
from micrograd_core.layout import broadcast_shapes
from micrograd_cuda.operands import Kernel

GEEV: Final = 12060
"""The first CUDA whose cuSOLVER has eigenvalues of matrices that are not Hermitian: 12.6."""


def table(xp: Any, errstate: Kernel) -> dict[str, Kernel]:
    """The functions of the capabilities ``linalg`` and ``eig``. `errstate` is that of `cupyx`."""
    own: dict[str, Kernel] = {
        "eig": lambda x: tuple(complex_of(xp, each) for each in xp.linalg.eig(x)),
        "eigvals": lambda x: complex_of(xp, xp.linalg.eigvals(x)),
        "solve": partial(solve, xp),
    }
    names = functions("linalg") + (functions("eig") if has_eig(xp) else [])
    return {name: partial(looked_at, own.get(name) or getattr(xp.linalg, name), errstate) for name in names}


def has_eig(xp: Any) -> bool:
    """Whether CuPy and CUDA are new enough for `eig` and `eigvals`."""
    return hasattr(xp.linalg, "eig") and xp.cuda.get_local_runtime_version() >= GEEV


def looked_at(function: Kernel, errstate: Kernel, *operands: Any, **params: Any) -> Any:
    """`function`, which raises ``LinAlgError`` where there is no answer."""
    with errstate(linalg="raise"):
        return function(*operands, **params)


def solve(xp: Any, x: Any, y: Any) -> Any:
    """With batches that broadcast."""
    if y.ndim > 1:
        batch = broadcast_shapes("solve", x.shape[:-2], y.shape[:-2])
        x, y = (xp.broadcast_to(each, batch + each.shape[-2:]) for each in (x, y))
    if not y.size:
        return xp.zeros(y.shape, dtype=y.dtype)  # CuPy divides by the number of unknowns
    return xp.linalg.solve(x, y)


def fourier(xp: Any) -> dict[str, Kernel]:
    """CuPy's transforms; of nothing, which cuFFT refuses, NumPy's."""

    def transform(name: str, x: Any, **params: Any) -> Any:
        if x.size:
            return getattr(xp.fft, name)(x, **params)
        import numpy as np

        return xp.asarray(getattr(np.fft, name)(np.zeros(x.shape, x.dtype), **params))

    return {name: partial(transform, name) for name in functions("fft") if hasattr(xp.fft, name)}


def complex_of(xp: Any, x: Any) -> Any:
    """Complex, also where there is nothing to compute."""
    return x if x.dtype.kind == "c" else x.astype(xp.result_type(x.dtype, xp.complex64))
