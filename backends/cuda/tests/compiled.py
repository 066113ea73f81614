"""The table of compiled code in docs/cuda.md: what NVRTC makes of the kernels that count most; run it to print one.

Instructions are those of the PTX, as it stands: the way of whole packs, and what is beside it, for one thread's share.
They tell whether a kernel has grown, not how long it runs.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import nvrtc
from micrograd_cuda import geometry, kernels, units
from micrograd_cuda.geometry import Place
from micrograd_cuda.runtime import OPTIONS
from micrograd_cuda.units import ELEMENT, Unit

INSTRUCTION = re.compile(r"^\s+(?:@!?%\w+ )?[a-z][\w.:]*\s[^;]*;|^\s+ret;", re.MULTILINE)


class Row(NamedTuple):
    """A kernel, in one dtype."""

    kernel: str
    unit: Unit
    elements: int  # that one thread holds


def rows() -> list[Row]:
    """Elementwise functions on whole packs; functions of rows of 4096, and of 50 257."""
    found = []
    for dtype in ("float32", "bfloat16"):
        matrix = Place((4096, 4096), (4096, 1), 16)
        for functor, operands in (("Add", 2), ("Relu", 1), ("Exp", 1), ("Gelu", 1), ("GeluGradient", 2)):
            functor = kernels.OF_HALVES.get(functor, functor) if dtype == "bfloat16" else functor
            scalar = "NEITHER" if operands == 2 else ""
            launch = geometry.elementwise(functor, dtype, scalar, (matrix,) * operands)
            assert launch is not None
            found.append(Row(f"{functor}, {dtype}", launch.unit, launch.walk.pack))
        for family, resident in (("softmax", 1), ("softmax_gradient", 2), ("cross_entropy_gradient", 1), ("norm", 1),
                                 ("norm_gradient", 2)):  # fmt: skip
            for columns in (4096, 50_257) if family == "softmax" else (4096,):
                shape = geometry.row_launch(4096, columns, dtype, resident, 16)
                index = "Long" if "cross_entropy" in family else ""
                more = ["true"] if family.startswith("norm") else []
                unit = geometry.row_unit(shape, family, ELEMENT[dtype], index, *more)
                found.append(Row(f"{family} of {columns}, {dtype}", unit, shape.pack * max(shape.items, 1)))
        pieces = geometry.piece_launch(1, 2**26, geometry.ITEMSIZE[dtype], 16)
        found.append(
            Row(f"sum of all, {dtype}", geometry.piece_unit(pieces, ELEMENT[dtype], "float", "Sum"), pieces.pack)
        )
        bands = geometry.column_launch(2**16, 4096, geometry.ITEMSIZE[dtype], 16)
        columns_unit = geometry.relu_gradient_unit(bands, ELEMENT[dtype], "float")
        found.append(Row(f"relu_gradient_columns, {dtype}", columns_unit, bands.pack))
        adam = Unit("adam", (ELEMENT[dtype], str(16 // geometry.ITEMSIZE[dtype])), 256, ELEMENT[dtype])
        found.append(Row(f"Adam, {dtype}", adam, 16 // geometry.ITEMSIZE[dtype]))
    return found


def table(architecture: str = "sm_90") -> list[str]:
    """In Markdown."""
    lines = ["| kernel | elements | instructions | registers | bytes spilled |", "|---|---|---|---|---|"]
    for kernel, unit, elements in rows():
        made = nvrtc.compile_text(units.text(unit), architecture, OPTIONS)
        count = len(INSTRUCTION.findall(made.ptx.partition("{")[2]))
        lines.append(f"| {kernel} | {elements} | {count} | {made.registers} | {made.spilled} |")
    return lines


if __name__ == "__main__":
    print(*table(), sep="\n")
