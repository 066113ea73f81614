"""The same work on several devices of micrograd, side by side: basic operations, a network forward, and with gradients.

It fails where a device gives other numbers than the first.

python benchmarks/benchmark_device.py --devices cpu cuda
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

if __package__ in (None, ""):  # run as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.gpu import record
from micrograd_core import Device, Tensor, no_grad
from micrograd_core.nn import Linear, ReLU, Sequential, cross_entropy

LARGE = 2_000_000


def cases(device: Device, size: int) -> dict[str, Callable[[], Any]]:
    """Functions to time, by name."""
    rng = np.random.default_rng(0)
    x, y = (Tensor(rng.normal(size=size).astype("float32"), device=device, requires_grad=False) for _ in range(2))
    side = max(16, int(size**0.5) // 2)
    a, b = (
        Tensor(rng.normal(size=(side, side)).astype("float32"), device=device, requires_grad=False) for _ in range(2)
    )
    draw = random.Random(0)
    layers = [Linear(inputs, outputs, generator=draw) for inputs, outputs in pairwise((64, 256, 256, 10))]
    model = Sequential(layers[0], ReLU(), layers[1], ReLU(), layers[2]).to(device)
    batch = Tensor(rng.normal(size=(256, 64)).astype("float32"), device=device, requires_grad=False)
    targets = Tensor(rng.integers(10, size=256), device=device)

    def forward() -> Any:
        with no_grad():
            return model(batch)

    def both() -> Any:
        model.zero_grad()
        loss = cross_entropy(model(batch), targets)
        loss.backward()
        return loss

    return {
        f"x + y, {size:,}": lambda: x + y,
        f"x * y, {size:,}": lambda: x * y,
        f"relu(x), {size:,}": lambda: x.relu(),
        f"exp(x), {size:,}": lambda: x.exp(),
        f"sum(x), {size:,}": lambda: x.sum(),
        f"x @ y, ({side}, {side})": lambda: a @ b,
        "MLP 64-256-256-10, batch 256, forward": forward,
        "MLP 64-256-256-10, batch 256, forward and backward": both,
    }


def seconds(run: Callable[[], Any], device: Device, budget: float) -> float:
    """The median time of a call, its work on the device included."""
    for _ in range(3):
        run()
    device.synchronize()
    samples, end = [], time.perf_counter() + budget
    while len(samples) < 5 or (time.perf_counter() < end and len(samples) < 200):
        start = time.perf_counter()
        run()
        device.synchronize()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def disagreements(devices: list[Device], size: int) -> list[str]:
    """Cases whose numbers differ from the first device's by more than rounding; what is not finite does."""
    wrong, expected = [], {name: run().detach().numpy() for name, run in cases(devices[0], size).items()}
    for device in devices:
        for name, run in cases(device, size).items():
            exact = expected[name]
            if not np.abs(run().detach().numpy() - exact).max() <= 1e-4 * np.abs(exact).max():  # so that NaN is wrong
                wrong.append(f"{name}: on {device} it has other numbers than on {devices[0]}")
    return wrong


def main(arguments: list[str] | None = None) -> int:
    """Time, print a table, and keep the figures; how many cases have wrong numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", nargs="+", default=["cpu", "cuda"], help="default: %(default)s")
    parser.add_argument("--size", type=int, default=LARGE, help="elements of the large tensors; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each case on each device; default: %(default)s")
    parser.add_argument("--out", type=Path, help="folder for the JSON; default: none is written")
    chosen = parser.parse_args(arguments)
    devices = [Device(name) for name in chosen.devices]
    wrong = disagreements(devices, chosen.size)
    columns = [
        {name: seconds(run, device, chosen.seconds) for name, run in cases(device, chosen.size).items()}
        for device in devices
    ]
    print("µs".ljust(52), *(str(device).rjust(12) for device in devices))
    for name in columns[0]:
        print(name.ljust(52), *(f"{column[name] * 1e6:12.1f}" for column in columns))
    figures = {str(device): column for device, column in zip(devices, columns, strict=True)}
    if chosen.out:
        print(f"written to {record.write('device', {'seconds': figures}, chosen.out)}")
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
