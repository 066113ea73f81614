"""Who started this process, and of how many: looked up without MPI."""

from __future__ import annotations

import os

STARTERS = {
    "PMI_SIZE": "mpiexec",
    "PMIX_SIZE": "mpiexec",
    "OMPI_COMM_WORLD_SIZE": "Open MPI's mpiexec",
    "SLURM_NTASKS": "srun",
    "MV2_COMM_WORLD_SIZE": "mpiexec",
}
"""Variables in which those that start processes say how many they are."""


def started() -> tuple[str, int]:
    """Who started this process, and how many there are; ``("", 1)`` for one that is alone."""
    for name, starter in STARTERS.items():
        count = os.environ.get(name, "")
        if count.isdigit() and int(count) > 1 and (name != "SLURM_NTASKS" or "SLURM_PROCID" in os.environ):
            return starter, int(count)
    return "", 1
