"""The table of compiled code in docs/cuda.md is what the compiler makes of the sources today."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import compiled
import nvrtc
from cases import played_only

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cuda.md"
MORE = 1.1  # than the page says: another NVRTC counts a little differently
COMPUTED = ("random_", "scaled_dot", "attention_gradients")  # arithmetic is what takes their time

pytestmark = [played_only, pytest.mark.skipif(nvrtc.library() is None, reason=nvrtc.MISSING)]
pytest.importorskip("ml_dtypes")


def figures(lines: list[str]) -> dict[str, list[float]]:
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return {cell[0]: list(map(float, cell[1:])) for cell in cells if cell[-1].isdigit()}


def test_no_operation_does_more_than_the_page_says() -> None:
    """Nor more than there is time for while memory is read and written, but for what is computed for longer."""
    found = figures(compiled.table())
    section = PAGE.read_text(encoding="utf-8").partition("## What the kernels are compiled to")[2].partition("\n## ")[0]
    told = figures(section.splitlines())
    assert told.keys() == found.keys()
    for name, (launches, instructions, _, read, written, registers, spilled) in told.items():
        ours = found[name]
        assert ours[0] <= launches, f"{name}: {ours[0]} launches"
        assert ours[1] <= instructions * MORE, f"{name}: {ours[1]} instructions"
        np.testing.assert_allclose(ours[3:5], (read, written), rtol=0.01, atol=0.02, err_msg=name)
        assert ours[5] <= registers * MORE + 4, f"{name}: {ours[5]} registers"
        assert ours[6] <= spilled, name
    assert not {name: row for name, row in found.items() if row[1] > row[2] and not name.startswith(COMPUTED)}
