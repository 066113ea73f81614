"""A sample of the planted faults of `mutants`: the conformance suite notices them, and a sound kernel passes."""

from __future__ import annotations

from tests import mutants

OPERATIONS = ("multiply", "floor_divide", "argmax")
KINDS = (
    "wrong dtype", "zeros returned", "last element wrong", "100 ulp off", "offset lost", "strides ignored",
    "negative strides read forward", "input changed",
    "axis ignored: the first",
)  # fmt: skip


def test_a_sample_of_planted_faults_is_noticed() -> None:
    found = mutants.run(mutants.mutants(OPERATIONS, KINDS))
    assert len(found) == len(OPERATIONS) * len(KINDS)
    assert [judged for judged in found if judged.verdict in mutants.SURVIVED] == []
    assert sum(judged.verdict == "killed" for judged in found) > 15


def test_without_a_fault_nothing_is_noticed() -> None:
    (judged,) = mutants.run([("argmax", mutants.CONTROL)])
    assert judged.verdict == "equivalent"
