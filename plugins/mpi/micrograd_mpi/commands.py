"""``micrograd world``, and what ``micrograd devices`` says of the job's processes."""

from __future__ import annotations

import argparse
import importlib
import platform
from typing import Any

from micrograd_core.tools import arguments as common
from micrograd_mpi.errors import WorldError
from micrograd_mpi.starters import started


def add(commands: common.Commands) -> None:
    """Add ``micrograd world``."""
    parser = common.command(
        commands, "world", "say which processes train together, and how their numbers travel",
        ["mpiexec -n 2 micrograd world", "mpiexec -n 2 micrograd world --json"],
    )  # fmt: skip
    common.add_json(parser)
    parser.set_defaults(run=_world)


def _world(options: argparse.Namespace) -> int:
    facts, text = _examined()
    if facts is not None:
        common.tell(options, facts, text)
    return 0


def told() -> str:
    """What ``micrograd devices`` says below its table, where several processes were started."""
    return _examined()[1] if started()[1] > 1 else ""


def _examined() -> tuple[dict[str, Any] | None, str]:
    """Facts of all ranks, and the same as text; on rank 0 only."""
    try:
        importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise WorldError(f"mpi4py finds no MPI: {error}; pip install 'micrograd-mpi[mpich]' brings one") from error
    from micrograd_core import arange
    from micrograd_mpi.collectives import all_reduce
    from micrograd_mpi.job import library, world
    from micrograd_mpi.nccl import Communicator
    from micrograd_mpi.transport import kinds_of_memory

    group = world()
    total = all_reduce(arange(4, dtype="float32") + group.rank, group=group).tolist()
    right = [group.size * i + sum(range(group.size)) for i in range(4)]
    group.agree(sum_over_all_ranks=total)
    rows = group.gather({"rank": group.rank, "machine": platform.node(), "local rank": group.local_rank})
    if group.rank:
        return None, ""
    gpu = "by NCCL" if Communicator.is_possible() else "by MPI" if "cuda" in kinds_of_memory(group) else "over the host"
    facts = {
        "ranks": rows,
        "mpi": library(),
        "memory of the host": "as it is",
        "memory of NVIDIA GPUs": gpu,
        "works": total == right,
    }
    machines = dict.fromkeys(row["machine"] for row in rows)
    lines = [
        f"world: {group.size} ranks on {', '.join(machines)}: {facts['mpi']}",
        f"  a sum over all ranks {'is right' if facts['works'] else f'is wrong: {total} instead of {right}'}",
        f"  the host's memory travels as it is, that of NVIDIA GPUs {gpu}, that of other devices over the host",
    ]
    return facts, "\n".join(lines)
