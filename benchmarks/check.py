"""Before anything is timed: all peers must compute the same numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.cases import Case
from benchmarks.peers import Prepared


class Disagreement(ValueError):
    """A peer computes other numbers than the one it is compared with."""


def check(case: Case, prepared: Mapping[str, Prepared]) -> None:
    """Compare every number of every peer with the first peer that has it.

    Raises
    ------
    Disagreement
        Naming case, peer, number and difference.
    """
    reference: dict[str, tuple[str, np.ndarray]] = {}
    for peer, each in prepared.items():
        for name, found in each.numbers().items():
            first, expected = reference.setdefault(name, (peer, found))
            if found.shape != expected.shape:
                shapes = f"{peer} gives it shape {found.shape}, {first} {expected.shape}"
                raise Disagreement(f"{case.name}: {peer} and {first} disagree about {name}: {shapes}")
            difference = float(np.max(np.abs(found.astype("float64") - expected), initial=0.0))
            allowed = case.tolerance * float(np.max(np.abs(expected), initial=1e-30))
            if not difference <= allowed:  # so that NaN fails
                differ = f"they differ by {difference:.3g}, {allowed:.3g} is allowed"
                raise Disagreement(f"{case.name}: {peer} and {first} disagree about {name}: {differ}")
