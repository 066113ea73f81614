"""The table of compiled code in docs/cuda.md is what the compiler makes of the sources today."""

from __future__ import annotations

from pathlib import Path

import pytest

import compiled
import nvrtc

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cuda.md"
MORE = 1.1  # than the page says: another NVRTC counts a little differently


def figures(lines: list[str]) -> dict[str, list[int]]:
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return {cell[0]: list(map(int, cell[1:])) for cell in cells if cell[-1].isdigit()}


@pytest.mark.skipif(nvrtc.library() is None, reason=nvrtc.MISSING)
def test_no_kernel_has_grown_beyond_what_the_page_says() -> None:
    found = figures(compiled.table())
    section = PAGE.read_text(encoding="utf-8").partition("## What the kernels are compiled to")[2].partition("\n## ")[0]
    told = figures(section.splitlines())
    assert told.keys() == found.keys()
    for kernel, (elements, instructions, registers, spilled) in told.items():
        assert found[kernel][0] == elements, kernel
        assert found[kernel][1] <= instructions * MORE, f"{kernel}: {found[kernel][1]} instructions"
        assert found[kernel][2] <= registers * MORE + 4, f"{kernel}: {found[kernel][2]} registers"
        assert found[kernel][3] <= spilled, kernel
