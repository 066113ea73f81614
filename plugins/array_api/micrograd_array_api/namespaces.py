"""The table: in what each array library differs from an array API namespace over the host's memory.

It imports no array library: what needs one receives it. Another library is another row here and another entry point.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from micrograd_array_api import transfer
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


def torch_shares(x: Any, y: Any) -> bool:
    """Whether the spans of two tensors overlap in one storage. Torch has no negative strides."""
    if x.untyped_storage().data_ptr() != y.untyped_storage().data_ptr() or not x.numel() or not y.numel():
        return False
    (first, last), (start, stop) = (
        (z.storage_offset(), z.storage_offset() + sum((n - 1) * s for n, s in zip(z.shape, z.stride(), strict=True)))
        for z in (x, y)
    )
    return bool(first <= stop and start <= last)


class Namespace(NamedTuple):
    """One row; the defaults are what the standard promises, which is neither views nor strides."""

    library: str  # what has to be installed, as it is imported
    module: str  # the namespace over it
    addresses: tuple[str, ...]  # what is worth trying; the first is the default
    locate: Callable[[Any, str], tuple[str, Any]] = only  # (library, address) -> canonical address, its own device
    upload: Callable[..., Any] = transfer.upload
    download: Callable[[Any, Any], Any] = transfer.download
    scope: Callable[[Any], Callable[[], AbstractContextManager[Any]]] | None = None  # entered around computations
    without: frozenset[str] = frozenset()  # dtypes that exist by name but cannot compute
    steps_back: bool = True  # keys may hold slices of negative step
    writable: Callable[[Any], bool] = lambda x: False  # `x[key] = values` writes what views of `x` see
    shares_memory: Callable[[Any, Any], bool] = lambda x, y: x is y
    capabilities: frozenset[str] = frozenset()
    layout: Callable[[Any], Layout] = lambda x: Layout.contiguous(tuple(x.shape))
    lacks: Mapping[str, str] = MappingProxyType({})  # (start of) a test's case -> what the library lacks


NAMESPACES: Final = {
    "strict": Namespace(
        "array_api_strict",
        "array_api_strict",
        ("0",),
        download=transfer.dlpack_download,  # the standard's way, and the only one that all its versions have
        writable=lambda x: bool(transfer.dlpack_download(None, x).flags.writeable),
        shares_memory=transfer.dlpack_shares,
    ),
    "torch": Namespace(
        "torch",
        "array_api_compat.torch",
        ("cpu", "mps" if sys.platform == "darwin" else "cuda:0"),
        torch_device,
        upload=transfer.torch_upload,
        download=transfer.torch_download,
        without=frozenset({"uint16", "uint32", "uint64"}),  # storage only: hardly any function takes them
        steps_back=False,
        writable=lambda x: 0 not in [s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1],
        shares_memory=torch_shares,
        layout=lambda x: Layout(tuple(x.shape), x.stride(), x.storage_offset()),
    ),
    # Arrays are immutable. JAX has no 64-bit dtypes unless told, which every device must; it is told around each
    # computation rather than for the process, where it would change what the user's own JAX code computes.
    "jax": Namespace("jax", "jax.numpy", ("cpu",), jax_device, scope=lambda jax: partial(jax.enable_x64, True)),
    # `x[key] = values` gives `x` a new graph, which its views do not see: as good as immutable.
    "dask": Namespace(
        "dask",
        "array_api_compat.dask.array",
        ("0",),
        lacks={"getitem-4-grad": "assigning to an empty selection fails unless the values have length 1"},
    ),
}
