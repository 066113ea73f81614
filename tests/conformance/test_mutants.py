"""A sample of the planted faults of `mutants`: the conformance suite notices them, and a sound kernel passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device
from micrograd_core.conformance import kernels
from micrograd_core.conformance.forms import FORMS, OPEN, WHY_OPEN
from micrograd_core.ops import TABLE
from tests import mutants


@pytest.mark.parametrize("operation", ["take", "softmax"])
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


ONLY: list[tuple[str, str, Callable[[Any], bool]]] = [
    *((form, name, when)
      for name in ("fft", "irfft", "hfft", "ifftn", "svdvals", "eigvalsh")
      for form, when in (("ones", lambda x: x.size > 1 and (x == 1).all()), ("zeros", lambda x: x.size and not x.any()),
                         ("tiled", lambda x: x.size > 20))),
    ("small", "fft", lambda x: 0 < abs(x).min() < 1e-15), ("huge", "mean", lambda x: abs(x).max() > 1e37),
    ("long", "cumulative_prod", lambda x: len(x) > 500),
]  # fmt: skip
"""Forms that show a fault where nothing else would: the operation is wrong there, and right elsewhere."""


@pytest.mark.parametrize(("form", "name", "when"), ONLY, ids=lambda x: x if isinstance(x, str) else "")
def test_a_fault_in_one_form_alone_is_noticed(
    form: str, name: str, when: Callable[[Any], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device("cpu")
    sound = getattr(device.kernels, name)

    def faulty(x: Any, **params: Any) -> Any:
        result = sound(x, **params)
        return result * 0.75 + 0.25 if x.size and when(x) else result

    def judged() -> int:
        wrong = 0
        for case in kernels.contiguous(TABLE[name], "float32", device):
            with np.errstate(all="ignore"):
                try:
                    kernels._check(case._replace(form=form), device)
                except AssertionError:
                    wrong += 1
        return wrong

    if name in ("fft", "hfft", "ifftn", "irfft"):
        monkeypatch.setattr(kernels, "contiguous", partial(of_complex, kernels.contiguous))
    assert name not in OPEN[form]
    assert judged() == 0
    monkeypatch.setattr(device.kernels, name, faulty)
    assert judged() > 0


def of_complex(cases: Callable[..., Any], op: Any, dtype: str, device: Device) -> Any:
    """The cases of real numbers, and of complex ones."""
    return [*cases(op, dtype, device), *cases(op, "complex64", device)]


def test_what_is_left_open_has_a_reason_and_is_an_operation() -> None:
    assert WHY_OPEN.keys() == {*FORMS, "sign of zero"} & WHY_OPEN.keys()
    for form, reasons in WHY_OPEN.items():
        listed = " ".join(reasons.values()).split()
        assert len(listed) == len(set(listed)), form
        assert set(listed) <= TABLE.keys(), form
        assert all(len(reason) > 15 for reason in reasons)
