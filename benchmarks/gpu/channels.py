"""Norms over channels and poolings on a GPU, beside torch: kernels' own time, and what moving the bytes would take.

    python -m benchmarks.gpu.channels                # on cuda:0
    python -m benchmarks.gpu.channels --small --device cpu

Of each case the forward pass and its gradients, by the device's clock (a profiler's sum of kernels), with the longest
kernels; the budget is what the passes that have to be would take at 3 TB/s. Numbers are compared with torch's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import micrograd_core as mg
from benchmarks import benchmark_gpu as gpu
from benchmarks.gpu.activity import activity, told
from micrograd_core.nn import functional as ours

BANDWIDTH = 3e12
"""Bytes a second of an H100, about."""


class Case(NamedTuple):
    """A function of an input and of some numbers for each channel."""

    name: str
    shape: tuple[int, ...]
    channels: int  # vectors of as many numbers as channels
    function: Callable[..., Any]  # of a library's functional module, the input and the vectors
    passes: float  # over the input, forward and backward


def normalised(f: Any, x: Any, weight: Any, bias: Any) -> Any:
    """By the batch's statistics."""
    return f.batch_norm(x, None, None, weight, bias, training=True)


def cases(small: bool) -> Iterator[Case]:
    """What networks ask for."""
    rows = (64, 32) if small else (8192, 4096)
    images = (4, 8, 8, 8) if small else (256, 64, 32, 32)
    yield Case("batch_norm", rows, 2, normalised, 8)
    yield Case("batch_norm, narrow", (rows[0] * 8, 64) if not small else (64, 8), 2, normalised, 8)
    yield Case("batch_norm", images, 2, normalised, 8)
    odd = (*images[:2], 7, 7)
    yield Case("batch_norm", odd, 2, normalised, 8)
    yield Case("max_pool 2 by 2", images, 0, lambda f, x: f.max_pool2d(x, 2), 1.25 + 2.25)
    yield Case("max_pool 3 by 3, stride 2", images, 0, lambda f, x: f.max_pool2d(x, 3, 2, 1), 1.25 + 2.25)
    yield Case("max_pool 3 by 3, stride 3", images, 0, lambda f, x: f.max_pool2d(x, 3, 3), 1.1 + 2.1)
    yield Case("avg_pool 2 by 2", images, 0, lambda f, x: f.avg_pool2d(x, 2), 1.25 + 1.25)


def prepared(case: Case, library: str, device: str, half: bool) -> tuple[Callable[[], Any], Callable[[], list[Any]]]:
    """A step, and its numbers on the host."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=case.shape).astype("float32")]
    arrays += [rng.uniform(0.5, 1.5, case.shape[1]).astype("float32") for _ in range(case.channels)]
    if library == "torch":
        import torch

        dtype = torch.bfloat16 if half else torch.float32
        xs = [torch.tensor(a, device=device, dtype=dtype).requires_grad_() for a in arrays]
        run: Any = lambda: case.function(torch.nn.functional, *xs)  # noqa: E731
        shape = tuple(run().shape)
        g = torch.tensor(np.random.default_rng(1).normal(size=shape), device=device, dtype=dtype)
    else:
        name = "bfloat16" if half else "float32"
        leaves = [mg.asarray(a, device=device).astype(name).detach() for a in arrays]
        for x in leaves:
            x.requires_grad = True
        xs = leaves
        run = lambda: case.function(ours, *xs)  # noqa: E731
        shape = tuple(run().shape)
        g = mg.asarray(np.random.default_rng(1).normal(size=shape).astype("float32"), device=device).astype(name)

    def step() -> Any:
        for x in xs:
            x.grad = None
        out = run()
        out.backward(g)
        return out

    def numbers() -> list[Any]:
        found = [step(), *(x.grad for x in xs)]
        if library == "torch":
            return [x.detach().float().cpu().detach().numpy() for x in found]
        return [np.asarray(x.detach().astype("float32").numpy()) for x in found]

    return step, numbers


def main() -> int:
    """Print what each case takes of each library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--libraries", nargs="+", default=["micrograd", "torch"])
    chosen = parser.parse_args()

    def wait(result: Any) -> None:
        mg.Device(chosen.device).synchronize()

    for half in (False, True):
        for case in cases(chosen.small):
            itemsize = 2 if half else 4
            budget = case.passes * float(np.prod(case.shape)) * itemsize / BANDWIDTH
            print(f"{case.name}, {case.shape}, {'bfloat16' if half else 'float32'}: budget {budget * 1e6:.0f} µs")
            results = {}
            for library in chosen.libraries:
                try:
                    step, numbers = prepared(case, library, chosen.device, half)
                    results[library] = numbers()
                    on = chosen.device if library == "micrograd" else "cpu"
                    spent, facts = gpu.seconds(step, wait, 0.1), activity(step, wait, on)
                except Exception as error:
                    print(f"  {library}: {type(error).__name__}: {error}")
                    continue
                print(f"  {library}: {', '.join(filter(None, [f'{spent * 1e6:.0f} µs', told(facts)]))}")
                for kernel, (times, each) in facts.get("longest", {}).items():
                    print(f"      {times:.0f} x {each / times * 1e6:.1f} µs {kernel}")
            if len(results) == 2:
                pairs = zip(*results.values(), strict=True)
                far = [float(np.abs(a - b).max() / max(1.0, np.abs(b).max())) for a, b in pairs]
                print(f"  apart: {', '.join(f'{x:.1e}' for x in far)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
