"""docs/scale.md shows figures that were measured, and what the model makes of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import scale, scale_model
from benchmarks.scale_model import Network, Step, exposed, simulated, sum_on_gpus

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/scale.md").read_text(encoding="utf-8")
RECORD = re.search(r"results/([\w.-]+-scale-[\w.-]+\.json)", PAGE)


def figures() -> dict[str, Any]:
    assert RECORD is not None
    found: dict[str, Any] = json.loads((ROOT / "benchmarks/results" / RECORD[1]).read_text(encoding="utf-8"))
    return found


def test_the_page_shows_the_record_and_what_the_model_says() -> None:
    assert scale.table(figures()) in PAGE
    assert scale_model.check_table(figures()) in PAGE
    assert scale_model.prediction_table() in PAGE


def test_the_model_is_within_15_percent_of_what_was_measured() -> None:
    for name, said, measured in scale_model.checked(figures()):
        assert said == pytest.approx(measured, rel=0.15), name


def test_a_step_costs_less_to_average_than_torchs() -> None:
    found = figures()
    for name, ways in found["micrograd"].items():
        theirs = found["torch"][name]["eager averaged"] - found["torch"][name]["eager not averaged"]
        assert ways["eager averaged"] - ways["eager not averaged"] < theirs


def test_the_model_follows_from_links_and_bytes() -> None:
    network = Network(within=100e9, between=10e9, reached=1.0, step_within=0.0, step_between=0.0, gpus=8)
    assert sum_on_gpus(1e9, 1, network) == 0.0
    assert sum_on_gpus(1e9, 2, network) == pytest.approx(2 / 2 * 1e9 / 100e9)
    assert sum_on_gpus(1e9, 8, network) == pytest.approx(2 * 7 / 8 * 1e9 / 100e9)
    assert sum_on_gpus(1e9, 16, network) == pytest.approx(2 * 7 / 8 * 1e9 / 100e9 + 2 / 2 * (1e9 / 8) / 10e9)
    one = Step(alone=1.0, backward=0.6, sent=8e9, bucket=1e9)
    bucket = sum_on_gpus(1e9, 8, network)
    assert exposed(one, 8, network) == pytest.approx(bucket)  # all but the last bucket is hidden
    slow = network._replace(within=1e9)
    assert exposed(one, 8, slow) == pytest.approx(8 * sum_on_gpus(1e9, 8, slow) - 0.6 * 7 / 8)


def test_stragglers_cost_more_the_more_ranks_there_are() -> None:
    step, network = Step(alone=1.0, backward=0.6, sent=1e6), Network()
    times = [simulated(step, ranks, network) for ranks in (1, 8, 64, 512)]
    assert times == sorted(times)
    assert simulated(step, 64, network, spread=0.0, stragglers=0.0) == pytest.approx(1.0 + exposed(step, 64, network))
    assert simulated(step, 64, network, spread=0.0, stragglers=1.0) == pytest.approx(1.5 + exposed(step, 64, network))
