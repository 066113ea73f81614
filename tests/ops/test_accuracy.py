"""Elementwise operations beside mpmath: no more units in the last place than the page of their accuracy promises."""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mpmath")

from micrograd_core import Device, asarray
from micrograd_core.array import functions
from micrograd_core.ops import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.py"
COUNT = 400 if os.environ.get("MICROGRAD_EXHAUSTIVE") else 25
"""Points of each kind."""
DEFECTS = {  # points that were once far off
    "gelu": [-36.0, -37.6, -12.566376, -13.1], "silu": [-88.97, -713.08, -91.5], "mish": [-91.07, -713.98],
    "tanhshrink": [1e-4, 3.2e-102, 0.3], "lgamma": [1e-323, 1.4e-45, 2.5], "logit": [0.506, 0.49732],
    "digamma": [1.4616321449683623, 1.4545604], "i0": [75.0898, 713.0, 18.14], "i1": [75.0898, 18.14],
    "erf": [0.4688, -1.02], "erfc": [0.5455, 26.5],
}  # fmt: skip


@pytest.fixture(scope="module")
def accuracy() -> Any:
    """The program that writes the page."""
    spec = importlib.util.spec_from_file_location("accuracy", PAGE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["accuracy"] = module
    spec.loader.exec_module(module)
    return module


def test_every_operation_is_measured_or_rounds_nothing(accuracy: Any) -> None:
    """Of those whose results are real floats: mpmath computes all by their records, or by definitions of its own."""
    for name in accuracy.ROUNDED:
        found = accuracy.exact(TABLE[name], [x[:40] for x in accuracy.points(TABLE[name], "float64", 3)])
        assert any(each is not None for each in found), name
    assert accuracy.OWN.keys() <= accuracy.ROUNDED
    assert TABLE.keys() >= accuracy.EXACT


NAMES = sorted(op.name for op in TABLE.values() if op.kind == "elementwise")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_errors_are_within_the_bound(accuracy: Any, name: str, dtype: str) -> None:
    if name not in accuracy.ROUNDED:
        pytest.skip("nothing is rounded")
    for way, worst in accuracy.measured(name, dtype, COUNT).items():
        assert worst.ulps <= accuracy.BOUND, f"{name} of {dtype}, {way}: {worst.ulps} ulp at {worst.at}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", DEFECTS)
def test_points_that_were_once_far_off(accuracy: Any, name: str, dtype: str) -> None:
    op = TABLE[name]
    points = [np.array(DEFECTS[name], dtype)]
    with accuracy.mp.workprec(accuracy.PRECISION):
        wanted = accuracy.exact(op, points)
        for way, f in accuracy.ways(op):
            worst = accuracy.worst(f(*points), wanted, points)
            assert worst.ulps <= accuracy.BOUND, f"{name} of {dtype}, {way}: {worst.ulps} ulp at {worst.at}"


def test_the_gate_notices_an_error(accuracy: Any) -> None:
    """Five units, an infinity, NaN, and a 0 where there is a number."""
    x = np.array([0.75], "float32")
    with accuracy.mp.workprec(accuracy.PRECISION):
        wanted = accuracy.exact(TABLE["sqrt"], [x])
        right = np.sqrt(x)
        assert accuracy.worst(right, wanted, [x]).ulps < 1
        for wrong in (right + 5 * np.spacing(right), right * np.inf, right * np.nan, right * 0):
            assert accuracy.worst(wrong.astype("float32"), wanted, [x]).ulps > accuracy.BOUND


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_limits_at_the_infinities(dtype: str) -> None:
    x = asarray([np.inf], dtype=dtype, device=Device("cpu"))
    for name in ("gelu", "silu", "mish", "tanhshrink", "lgamma", "i0"):
        assert functions.FUNCTIONS[name](x).tolist() == [np.inf]


def test_gelu_at_many_more_points() -> None:
    x = np.random.default_rng(0).uniform(-12.9, 6, 300_000).astype("float32")
    exact = np.array([each * math.erfc(-each * math.sqrt(0.5)) / 2 for each in x.astype("float64")])
    units = np.abs(functions.FUNCTIONS["gelu"](asarray(x)).numpy() - exact) / np.spacing(
        np.abs(exact).astype("float32")
    )
    assert units.max() < (6 if importlib.util.find_spec("llvmlite") else 40)  # compiled, and composed
