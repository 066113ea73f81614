"""Convolutions by cuDNN and as products with patches, beside each other: what `patches_are_better` was decided by.

    python -m benchmarks.gpu.convolutions            # on cuda:0
    python -m benchmarks.gpu.convolutions --small

Of each shape the result (fwd), the image's gradient (data) and the weight's (filter): microseconds of kernels by a
profiler, or between events where there is none, of cuDNN, of patches, and their ratio. Where cuDNN is not there, or
does not take a shape, there is a dash in its place. It fails where the two ways have different numbers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, Final
from unittest import mock

import numpy as np

import micrograd_core as mg
from benchmarks.gpu.activity import activity, by_profiler, lister
from micrograd_core import Device
from micrograd_cuda import convolution
from micrograd_cuda.cudnn import CuDNN

Shape = tuple[int, ...]

CASES: Final[tuple[Shape, ...]] = (  # images, channels, height, width, outputs, side of the kernel
    (256, 1, 28, 28, 32, 3), (256, 3, 32, 32, 64, 3), (256, 4, 32, 32, 64, 3), (256, 8, 32, 32, 64, 3),
    (256, 16, 32, 32, 64, 3), (64, 3, 224, 224, 64, 7), (256, 64, 32, 32, 128, 3), (64, 256, 14, 14, 256, 3),
    (64, 512, 7, 7, 512, 3), (64, 64, 56, 56, 64, 3), (64, 16, 28, 28, 16, 5), (64, 64, 1, 1024, 64, 3),
)  # fmt: skip
SMALL: Final[tuple[Shape, ...]] = ((2, 1, 6, 5, 2, 3), (2, 8, 1, 7, 4, 5))
KINDS: Final = {"highest": ("float32", "highest"), "TF32": ("float32", "high"), "bfloat16": ("bfloat16", "high")}
"""Dtype and precision of products. highest: float32 without TF32."""
WAYS: Final = ("cuDNN", "patches")
FAR: Final = {"highest": 1e-5, "TF32": 5e-3, "bfloat16": 2e-2}
"""How far the ways may be apart, as part of the largest number."""


def library_of(device: Device) -> CuDNN | None:
    """What cuDNN is called through; ``None`` where there is none."""
    return CuDNN.of(device.kernels.backend.index)


def computed(case: Shape, dtype: str, device: Device) -> dict[str, Callable[[], Any]]:
    """The three convolutions of a shape, with a stride of 1, padded by half of the kernel."""
    images, channels, height, width, outputs, side = case
    rng = np.random.default_rng(0)
    shapes = (images, channels, height, width), (outputs, channels, side, side), (images, outputs, height, width)
    x, weight, g = (
        mg.asarray(rng.standard_normal(shape, "float32"), device=device).astype(dtype)._handle for shape in shapes
    )
    windows = {"groups": 1, "stride": (1, 1), "padding": (side // 2, side // 2), "dilation": (1, 1)}
    k = device.kernels
    return {
        "fwd": lambda: k.conv2d(x, weight, 0.0, **windows),
        "data": lambda: k.conv_transpose2d(g, weight, 0.0, output_padding=(0, 0), **windows),
        "filter": lambda: k.conv2d_weight_gradient(g, x, kernel_size=(side, side), **windows),
    }


def microseconds(run: Callable[[], Any], way: str, device: Device) -> tuple[float, Any] | None:
    """Of the kernels of one call, and its numbers; ``None`` where it is not computed in that way."""
    library = library_of(device)
    device.kernels.backend.runtime.plans.forget()  # the other way's
    if way == "cuDNN" and library is None:
        return None
    before = library.runs if library else 0
    with mock.patch.object(convolution, "patches_are_better", lambda *facts: way == "patches"):  # noqa: PT008
        found = np.asarray(device.kernels.astype(run(), dtype=device.kernels.backend.dtypes["float64"]).get())
        if way == "cuDNN" and library and library.runs == before:
            return None
        facts = activity(run, lambda result: device.synchronize(), str(device))
    return facts.get("device_seconds", facts.get("seconds_between_events", float("nan"))) * 1e6, found


def measured(case: Shape, kind: str, device: Device) -> tuple[str, list[str]]:
    """A line of the table, and what is wrong with it."""
    cells, wrong = [], []
    dtype, precision = KINDS[kind]
    mg.set_matmul_precision(precision)
    try:
        for name, run in computed(case, dtype, device).items():
            direct, patched = (microseconds(run, way, device) for way in WAYS)
            assert patched is not None
            if direct is None:
                cells.append(f"{'–':>8} {patched[0]:8.0f} {'–':>5}")
                continue
            cells.append(f"{direct[0]:8.0f} {patched[0]:8.0f} {direct[0] / patched[0]:5.2f}")
            apart = np.abs(direct[1] - patched[1]).max() / np.abs(patched[1]).max()
            if not apart <= FAR[kind]:  # so that NaN is wrong
                wrong.append(f"{case}, {kind}, {name}: the two ways are {apart:.1g} of the largest number apart")
    finally:
        mg.set_matmul_precision("highest")
    return f"{case!s:40} {kind:8} | {' | '.join(cells)}", wrong


def main(arguments: list[str] | None = None) -> int:
    """Print the table; how many lines have different numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0", help="default: %(default)s")
    parser.add_argument("--small", action="store_true", help="small shapes, to see that the program works")
    chosen = parser.parse_args(arguments)
    device, wrong = Device(chosen.device), []
    clock = "µs of kernels" if lister() is by_profiler else "µs between events"
    print(clock.ljust(50) + "| fwd cuDNN/patches       | data cuDNN/patches      | filter cuDNN/patches")
    for case in SMALL if chosen.small else CASES:
        for kind in KINDS:
            line, apart = measured(case, kind, device)
            print(line, flush=True)
            wrong += apart
    if library_of(device) is None:
        print("cuDNN is left out: it is not here, or switched off by MICROGRAD_CUDA_CUDNN=0")
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
