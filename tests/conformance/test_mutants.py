"""A sample of the planted faults of `mutants`: the conformance suite notices them, and a sound kernel passes."""

from __future__ import annotations

import pytest

from tests import mutants


@pytest.mark.parametrize("operation", ["subtract", "take", "softmax"])
def test_every_kind_of_planted_fault_is_noticed_but_those_that_the_page_lists(operation: str) -> None:
    found = mutants.run(mutants.mutants([operation]))
    assert len(found) == len(mutants.KINDS) - 1
    survived = {(judged.op, judged.kind) for judged in found if judged.verdict in mutants.SURVIVED}
    unexpected = survived - mutants.listed() - {(each.op, each.kind) for each in found if mutants.is_open(each)}
    assert unexpected == set()
    assert sum(judged.verdict == "killed" for judged in found) > 25


def test_without_a_fault_nothing_is_noticed() -> None:
    (judged,) = mutants.run([("argmax", mutants.CONTROL)])
    assert judged.verdict == "equivalent"
