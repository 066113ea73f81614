"""The table: in what each array library differs from an array API namespace over the host's memory.

It imports no array library: what needs one receives it. Another library is another row here and another entry point.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from micrograd_core.layout import Layout


def only(library: Any, address: str) -> tuple[str, Any]:
    """The one device of a library that has no others."""
    if address != "0":
        raise ValueError(f"{library.__name__} has one device, 0")
    return address, None


def torch_device(torch: Any, address: str) -> tuple[str, Any]:
    """As torch spells them; an allocation tells whether it is there."""
    found = torch.empty(0, device=address).device
    return (found.type if found.type in ("cpu", "mps") else str(found)), found


def jax_device(jax: Any, address: str) -> tuple[str, Any]:
    """A platform and an index."""
    platform, _, index = address.partition(":")
    found = jax.devices(platform)[int(index or 0)]
    return (platform if address in ("cpu", "cpu:0") else f"{platform}:{index or 0}"), found


def seen_by_numpy(x: Any) -> Any:
    """The same memory as a NumPy array."""
    import numpy as np

    return np.from_dlpack(x)


def strict_span(x: Any) -> tuple[int, int]:
    """First address and end, in bytes, as NumPy tells them."""
    from numpy.lib.array_utils import byte_bounds

    return byte_bounds(seen_by_numpy(x))


def torch_span(x: Any) -> tuple[int, int]:
    """Likewise. Torch has no negative strides."""
    last = sum((length - 1) * stride for length, stride in zip(x.shape, x.stride(), strict=True))
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.itemsize * (x.numel() > 0)


class Namespace(NamedTuple):
    """One row; the defaults are what the standard promises, which is neither views nor strides."""

    library: str  # what has to be installed, as it is imported
    module: str  # the namespace over it
    addresses: tuple[str, ...]  # what is worth trying; the first is the default
    locate: Callable[[Any, str], tuple[str, Any]] = only  # (library, address) -> canonical address, its own device
    scope: Callable[[Any], Callable[[], Any]] | None = None  # (library) -> a context for each computation
    without: frozenset[str] = frozenset()  # dtypes that exist by name but cannot compute
    on_host: Callable[[Any], Any] = lambda x: x  # as NumPy takes it
    writable: Callable[[Any], bool] = lambda x: False  # `x[key] = values` writes what views of `x` see
    span: Callable[[Any], tuple[int, int]] | None = None  # where the memory is that others may share
    layout: Callable[[Any], Layout] = lambda x: Layout.contiguous(tuple(x.shape))
    capabilities: frozenset[str] = frozenset()
    compiler: Callable[[Any], Callable[[Any], Any] | None] = lambda library: None  # of functions of arrays, if any
    known_failures: Mapping[str, str] = MappingProxyType({})  # tests of the suite -> what the library lacks


STANDARD: Final = frozenset({"array-api", "boolean-indexing", "complex", "data-dependent-shapes", "fft", "linalg"})

NAMESPACES: Final = {
    "strict": Namespace(
        "array_api_strict",
        "array_api_strict",
        ("0",),
        writable=lambda x: bool(seen_by_numpy(x).flags.writeable),
        span=strict_span,
        capabilities=STANDARD,
    ),
    "torch": Namespace(
        "torch",
        "array_api_compat.torch",
        ("cpu", "mps" if sys.platform == "darwin" else "cuda:0"),
        torch_device,
        without=frozenset({"uint16", "uint32", "uint64"}),  # storage only: hardly any function takes them
        on_host=lambda x: x.cpu().resolve_conj(),
        writable=lambda x: 0 not in [s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1],
        span=torch_span,
        capabilities=STANDARD,
        layout=lambda x: Layout(tuple(x.shape), x.stride(), x.storage_offset()),
        compiler=lambda torch: torch.compile if os.environ.get("MICROGRAD_TORCH_COMPILE") == "1" else None,
        known_failures={
            "test_special_values[pow-complex*]": "0 ** 0 of complex numbers is NaN, not 1",
            "test_forms[pow-complex*]": "0 ** 0 of complex numbers is NaN, not 1",
            "test_forms[remainder-*float*]": "a remainder of 0 has the sign of the first operand, not of the second",
            **{f"test_forms[*fft-{dtype}]": "transforms of no rows are refused" for dtype in ("float32", "complex64")},
        },
    ),
    # Arrays are immutable. JAX has no 64-bit dtypes unless told, which every device must; it is told around each
    # computation rather than for the process, where it would change what the user's own JAX code computes.
    "jax": Namespace(
        "jax",
        "jax.numpy",
        ("cpu",),
        jax_device,
        scope=lambda jax: partial(jax.enable_x64, True),
        capabilities=STANDARD | {"jit"},
        compiler=lambda jax: jax.jit,
    ),
    # `x[key] = values` gives `x` a new graph, which its views do not see: as good as immutable.
    "dask": Namespace(
        "dask",
        "array_api_compat.dask.array",
        ("0",),
        known_failures={
            "test_deep_graphs": "not run: each operation copies the names of all tasks before it; 100,000 take hours",
            "test_refuses_what_does_not_fit_into_memory": "not run: memory is asked for when numbers are read",
        },
    ),
}
