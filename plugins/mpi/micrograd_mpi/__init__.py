"""Training on more than one process: MPI's collectives as operations with gradients, and what stands on them.

Nothing of MPI is started before one of the names below is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from micrograd_mpi.checkpoints import load, save
    from micrograd_mpi.collectives import all_gather, all_reduce, all_to_all, broadcast, reduce_scatter, shift
    from micrograd_mpi.errors import WorldError
    from micrograd_mpi.job import World, world
    from micrograd_mpi.normalization import SyncBatchNorm, synchronized
    from micrograd_mpi.parallel import DataParallel, weighted
    from micrograd_mpi.sharded import Sharded

HOMES = {
    "checkpoints": ("load", "save"),
    "collectives": ("all_gather", "all_reduce", "all_to_all", "broadcast", "reduce_scatter", "shift"),
    "normalization": ("SyncBatchNorm", "synchronized"),
    "parallel": ("DataParallel", "weighted"),
    "sharded": ("Sharded",),
    "errors": ("WorldError",),
    "job": ("World", "world"),
}
"""The module of each name."""
__all__ = [
    "DataParallel", "Sharded", "SyncBatchNorm", "World", "WorldError", "all_gather", "all_reduce", "all_to_all",
    "broadcast", "load", "reduce_scatter", "save", "shift", "synchronized", "weighted", "world",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    home = next((home for home, names in HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return found
