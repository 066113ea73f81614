"""Launches and time of training steps on devices that compile, beside the cpu, and tinygrad on the same OpenCL driver.

    uv run --group devices --with tinygrad python -m benchmarks.benchmark_steps --out benchmarks/results

Forward, backward and Adam of a perceptron with dropout, two convolutions, and a language model of one block; eager
and under `jit`, tinygrad lazy and under its `TinyJit`. Rounds are interleaved; the record has medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import micrograd_core as mg
from benchmarks.report import environment
from micrograd_core import nn, optim

BATCH, TOKENS, WIDTH, HEADS, WORDS = 8, 32, 64, 4, 65


class Block(nn.Module):
    """A language model of one block."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH, device=device), nn.Embedding(TOKENS, WIDTH, device=device)
        self.before, self.between, self.after = (nn.LayerNorm(WIDTH, device=device) for _ in range(3))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, device=device), nn.Linear(WIDTH, WIDTH, device=device)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, device=device), nn.Linear(4 * WIDTH, WIDTH, device=device)
        self.head = nn.Linear(WIDTH, WORDS, device=device)
        self.position = mg.arange(TOKENS, device=device)

    def forward(self, text: Any) -> Any:
        x = self.words(text) + self.places(self.position)
        q, k, v = (
            each.reshape(BATCH, TOKENS, HEADS, -1).permute(0, 2, 1, 3) for each in self.qkv(self.before(x)).chunk(3, -1)
        )
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.permute(0, 2, 1, 3).reshape(BATCH, TOKENS, WIDTH))
        x = x + self.down(nn.functional.gelu(self.up(self.between(x))))
        return self.head(self.after(x)).reshape(-1, WORDS)


def numbers(name: str) -> tuple[Any, Any]:
    """What a program is given, and what it aims at."""
    rng = np.random.default_rng(0)
    if name == "GPT":
        return rng.integers(WORDS, size=(BATCH, TOKENS)), rng.integers(WORDS, size=BATCH * TOKENS)
    shape = (64, 64) if name == "MLP" else (32, 1, 8, 8)
    return rng.normal(size=shape).astype("float32"), rng.integers(10, size=shape[0])


def ours(name: str, device: str, jitted: bool) -> Callable[[], float]:
    """A step, which gives its loss."""
    model: Any = {
        "MLP": lambda: nn.Sequential(
            nn.Linear(64, 128, device=device), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10, device=device)
        ),
        "CNN": lambda: nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, device=device), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1, device=device), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(64, 10, device=device),
        ),
        "GPT": lambda: Block(device),
    }[name]()  # fmt: skip
    given, aim = (mg.asarray(each, device=device) for each in numbers(name))
    rule = optim.Adam(model.parameters(), lr=1e-3)

    def step(given: Any, aim: Any) -> Any:
        rule.zero_grad()
        loss = nn.functional.cross_entropy(model(given), aim)
        loss.backward()
        rule.step()
        return loss

    run = mg.jit(step) if jitted else step
    return lambda: run(given, aim).item()


def tinygrads(name: str, jitted: bool) -> Callable[[], float]:
    """The same step by tinygrad, on the device that ``CL`` is."""
    from tinygrad import Tensor, TinyJit, nn as tiny

    Tensor.training = True
    if name == "GPT":
        words, places = tiny.Embedding(WORDS, WIDTH), tiny.Embedding(TOKENS, WIDTH)
        norms = [tiny.LayerNorm(WIDTH) for _ in range(3)]
        sizes = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH), (WIDTH, WORDS))
        qkv, out, up, down, head = layers = [tiny.Linear(*each) for each in sizes]
        model: Any = [words, places, *norms, *layers]

        def forward(text: Any) -> Any:
            x = words(text) + places(Tensor.arange(TOKENS))
            q, k, v = (
                each.reshape(BATCH, TOKENS, HEADS, -1).permute(0, 2, 1, 3) for each in qkv(norms[0](x)).chunk(3, -1)
            )
            seen = q.scaled_dot_product_attention(k, v, is_causal=True)
            x = x + out(seen.permute(0, 2, 1, 3).reshape(BATCH, TOKENS, WIDTH))
            x = x + down(up(norms[1](x)).gelu())
            return head(norms[2](x)).reshape(-1, WORDS)
    else:
        linear = [tiny.Linear(64, 128), tiny.Linear(128, 10)]
        convolutions = [tiny.Conv2d(1, 8, 3, padding=1), tiny.Conv2d(8, 16, 3, padding=1), tiny.Linear(64, 10)]
        model = linear if name == "MLP" else convolutions

        def forward(x: Any) -> Any:
            if name == "MLP":
                return linear[1](linear[0](x).relu().dropout(0.1))
            for each in convolutions[:2]:
                x = each(x).relu().max_pool2d(2)
            return convolutions[2](x.flatten(1))

    rule = tiny.optim.Adam(tiny.state.get_parameters(model), lr=1e-3)
    given, aim = (Tensor(each).realize() for each in numbers(name))

    def step(given: Any, aim: Any) -> Any:
        rule.zero_grad()
        loss = forward(given).sparse_categorical_crossentropy(aim).backward()
        return loss.realize(*rule.schedule_step())

    run = TinyJit(step) if jitted else step
    return lambda: float(run(given, aim).item())


def counted(device: str) -> Callable[[], int]:
    """How many kernels were launched so far, where a device tells."""
    if device == "tinygrad":
        import pyopencl  # whose loader finds the driver

        os.environ |= {"DEV": "CL", "CL": "1", "TRAINING": "1"}
        for path in (Path(pyopencl.__file__).parent / ".libs").glob("libOpenCL*"):
            os.environ.setdefault("OPENCL_PATH", str(path))
        from tinygrad.helpers import GlobalCounters

        return lambda: int(GlobalCounters.kernel_count)
    backend, count = mg.Device(device).kernels.backend, [0]
    launch = getattr(backend, "launch", None)
    if launch is None:
        return lambda: 0

    def counting(*given: Any) -> Any:
        count[0] += 1
        return launch(*given)

    backend.launch = counting
    return lambda: count[0]


def driver(device: str) -> str:
    """What runs a device, where that is not this package."""
    backend: Any = mg.Device(device).kernels.backend
    platform, info = getattr(getattr(backend, "opencl", None), "platform", None), getattr(backend, "info", {})
    return f"{platform.name} {platform.version}" if platform else " ".join(map(str, info.values()))


ROW = 20
"""Steps after each other, as in a training; threads of the device that ran before are asleep by then."""


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", nargs="+", default=["cpu", "opencl:0", "wgpu:0", "tinygrad"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    count = {device: counted(device) for device in options.devices}
    rows = []
    for name in ("MLP", "CNN", "GPT"):
        steps = {
            (device, jitted): tinygrads(name, jitted) if device == "tinygrad" else ours(name, device, jitted)
            for device in options.devices
            for jitted in (False, True)
        }
        taken: dict[Any, list[float]] = {each: [] for each in steps}
        launches = {}
        for each, step in steps.items():
            for _ in range(4):  # builds, and captures
                first = step()
            before = count[each[0]]()
            assert np.isfinite(first)
            assert step() < 10
            launches[each] = count[each[0]]() - before
        for _ in range(options.rounds):
            for each, step in steps.items():
                for _ in range(ROW):
                    start = time.perf_counter()
                    step()
                    taken[each].append(time.perf_counter() - start)
        for (device, jitted), times in taken.items():
            row = {
                "program": name, "device": device, "jit": jitted, "launches": launches[device, jitted],
                "ms": round(1e3 * statistics.median(times), 2), "least": round(1e3 * min(times), 2),
            }  # fmt: skip
            rows.append(row)
            print(
                f"{name} {device:9s} {'jit' if jitted else '   '} {row['launches']:5d} {row['ms']:9.2f} ms", flush=True
            )
    if options.out:
        own = [each for each in options.devices if each != "tinygrad"]
        about = {**environment(), "versions": {}, "drivers": {each: driver(each) for each in own}}
        for each in ("numpy", "pyopencl", "wgpu", "tinygrad"):
            with suppress(ImportError):
                about["versions"][each] = version(each)
        path = options.out / f"{about['date'][:10]}-steps-{about['commit']}.json"
        path.write_text(json.dumps({"environment": about, "rows": rows}, indent=1) + os.linesep, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
