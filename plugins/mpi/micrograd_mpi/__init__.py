"""Training on more than one process: MPI's collectives as operations with gradients, and what stands on them."""

from micrograd_mpi.collectives import all_gather, all_reduce, all_to_all, broadcast, reduce_scatter, shift
from micrograd_mpi.parallel import DataParallel, weighted
from micrograd_mpi.world import World, WorldError, world

__all__ = [
    "DataParallel", "World", "WorldError", "all_gather", "all_reduce", "all_to_all", "broadcast", "reduce_scatter", "shift", "weighted",
    "world",
]  # fmt: skip
