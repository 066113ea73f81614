"""Tests that all ranks of a job run together: ``mpiexec -n 3 python -m pytest plugins/mpi/tests/ranks``.

A rank that fails goes on with the next test; those that wait for it say so after a few seconds, and fail as well.
"""

from __future__ import annotations

import pytest
from micrograd_mpi import World, world


@pytest.fixture(scope="session")
def job() -> World:
    """All ranks."""
    return world(timeout=30)


@pytest.fixture(autouse=True)
def together(job: World) -> None:
    """Tests begin together."""
    job.barrier()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A single rank is told that it is alone, which is right, and no failure."""
    if world().size == 1:
        for each in items:
            each.add_marker(pytest.mark.filterwarnings("ignore:DataParallel. there is one rank only"))
