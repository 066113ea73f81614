"""Attention of bfloat16 on a GPU: the kernels, what they stand for, and torch's; times, and largest differences.

    python -m benchmarks.gpu.attention                # on cuda:0, with dated JSON in benchmarks/results
    python -m benchmarks.gpu.attention --tiles        # also every shape of a block that kernels may have
    python -m benchmarks.gpu.attention --small --calls 1

Calls queue up behind a long product, so that what the host does costs nothing. Differences are those to torch in
float32, by the largest number. TFLOP/s count two products for the result and five for the gradients, of what is seen.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import micrograd_core as mg
from benchmarks.gpu import record

Run = Callable[[], Any]
TILES: dict[str, dict[int, list[tuple[int, ...]]]] = {
    "attention": {64: [(4, 2, 64), (4, 2, 96), (4, 2, 128)], 128: [(4, 2, 64), (4, 2, 48), (4, 2, 32)]},
    "attention_query_gradient": {64: [(4, 2, 64), (4, 2, 32)], 128: [(4, 2, 32), (8, 1, 64)]},
    "attention_source_gradients": {64: [(4, 2, 32), (8, 2, 64, 2)], 128: [(8, 2, 64, 2), (8, 1, 64), (8, 2, 32, 2)]},
}
"""As in micrograd_cuda, by features."""


class Case(NamedTuple):
    """Heads of so many sources, and as many targets, or a few: one is the next word of a text."""

    batch: int
    heads: int
    length: int
    features: int
    causal: bool
    few: int = 0

    @property
    def work(self) -> float:
        """Operations of the result."""
        pairs = self.length * (self.few or self.length)
        return 4 * self.batch * self.heads * pairs * self.features / (2 if self.causal else 1)

    def __str__(self) -> str:
        few = f", targets {self.few}" if self.few else ""
        return f"{self.batch} x {self.heads} x {self.length} x {self.features}{' causal' * self.causal}{few}"


FULL = (
    Case(16, 8, 512, 64, True),
    Case(4, 16, 2048, 64, True),
    Case(4, 16, 2048, 128, False),
    Case(1, 16, 8192, 64, True),
    Case(1, 12, 1024, 64, False, 1),
    Case(8, 32, 4096, 128, False, 1),
)
SMALL = Case(1, 2, 70, 64, True), Case(1, 1, 70, 128, False), Case(1, 2, 70, 64, False, 1)


class Timer:
    """By events, of calls behind a product that takes the device longer than they take the host."""

    def __init__(self, device: str, calls: int, small: bool) -> None:
        import cupy

        self.cupy, self.calls = cupy, calls
        self.long = mg.ones((64, 64) if small else (8192, 8192), device=device)

    def __call__(self, run: Run) -> float:
        for _ in range(3):
            run()
        spent = []
        for _ in range(3):
            start, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
            ahead = self.long @ self.long
            start.record()
            for _ in range(self.calls):
                run()
            end.record()
            end.synchronize()
            spent.append(float(self.cupy.cuda.get_elapsed_time(start, end)) * 1e-3 / self.calls)
            del ahead
        return min(spent)


def ours(case: Case, device: str) -> tuple[Run, Run, Callable[[], list[Any]]]:
    """The result, the result with gradients, and the numbers of both."""
    xs = []
    for a in numbers(case):
        xs.append(mg.asarray(a, device=device).astype("bfloat16").detach())
    *leaves, g = xs
    attend: Any = mg.scaled_dot_product_attention
    for x in leaves:
        x.requires_grad = True

    def forward() -> Any:
        with mg.no_grad():
            return attend(*leaves, is_causal=case.causal)

    def both() -> list[Any]:
        for x in leaves:
            x.grad = None
        out = attend(*leaves, is_causal=case.causal)
        out.backward(g)
        return [out, *(x.grad for x in leaves)]

    return forward, both, lambda: [np.asarray(x.detach().astype("float32").numpy()) for x in both()]


def torchs(case: Case, dtype: str) -> tuple[Run, Run, Callable[[], list[Any]]]:
    """The same of torch; in another dtype of the numbers that bfloat16 has."""
    import torch

    kind = getattr(torch, dtype)
    *leaves, g = (torch.tensor(a, device="cuda", dtype=torch.bfloat16).to(kind) for a in numbers(case))
    for x in leaves:
        x.requires_grad_()
    attend = torch.nn.functional.scaled_dot_product_attention

    def forward() -> Any:
        with torch.no_grad():
            return attend(*leaves, is_causal=case.causal)

    def both() -> list[Any]:
        for x in leaves:
            x.grad = None
        out = attend(*leaves, is_causal=case.causal)
        out.backward(g)
        return [out, *(x.grad for x in leaves)]

    return forward, both, lambda: [x.detach().float().cpu().numpy() for x in both()]


def numbers(case: Case) -> list[Any]:
    """Query, key, value and the cotangent."""
    rng, targets = np.random.default_rng(0), case.few or case.length
    lengths = targets, case.length, case.length, targets
    return [rng.standard_normal((case.batch, case.heads, n, case.features), "float32") for n in lengths]


@contextmanager
def composed(device: str) -> Iterator[None]:
    """Meanwhile there are no tensor cores for the kernels."""
    runtime = mg.Device(device).kernels.backend.runtime
    known, runtime.capability = runtime.capability, 0
    try:
        yield
    finally:
        runtime.capability = known


def tiles(case: Case, device: str, timer: Timer) -> dict[str, Any]:
    """What the result, or all with gradients, takes with each shape of each kernel's block."""
    from micrograd_cuda import attention

    forward, both, _ = ours(case, device)
    found: dict[str, Any] = {}
    plans = mg.Device(device).kernels.backend.runtime.plans
    for name, choices in TILES.items():
        key = name, 64 if case.features <= 64 else 128
        usual = attention.SHAPES[key]
        for shape in choices[key[1]]:
            attention.SHAPES[key] = shape
            plans.forget()
            try:
                spent: Any = timer(forward if name == "attention" else both) * 1e6
                print(f"    {name} {shape}: {spent:.1f} µs{' (in use)' * (shape == usual)}", flush=True)
            except Exception as error:
                spent = f"{type(error).__name__}: {error}"
                print(f"    {name} {shape}: {spent}", flush=True)
            found[f"{name} {shape}"] = spent
        attention.SHAPES[key] = usual
    plans.forget()
    return found


def main() -> int:
    """Print a table; 1 where numbers are far from torch's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--tiles", action="store_true")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    timer, figures, far = Timer(chosen.device, chosen.calls, chosen.small), dict[str, Any](), 0
    try:
        import torch

        peers = torch.cuda.is_available()
    except ImportError:
        peers = False
    print("µs (TFLOP/s): the result; with gradients; largest differences to float32 of result, query, key, value")
    for case in SMALL if chosen.small else FULL:
        print(case, flush=True)
        wanted = torchs(case, "float32")[2]() if peers else None
        row: dict[str, Any] = {}
        for name in ("kernels", "composed", *["torch"] * peers):
            try:
                forward, both, values = torchs(case, "bfloat16") if name == "torch" else ours(case, chosen.device)
                if name == "composed":
                    with composed(chosen.device):
                        times, made = [timer(forward), timer(both)], values()
                else:
                    times, made = [timer(forward), timer(both)], values()
            except Exception as error:
                print(f"  {name}: {type(error).__name__}: {error}", flush=True)
                far += name == "kernels"
                continue
            rates = [case.work * factor / spent / 1e12 for factor, spent in zip((1, 3.5), times, strict=True)]
            apart = [float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(made, wanted or made, strict=True)]
            told = "; ".join(f"{t * 1e6:8.1f} ({rate:5.1f})" for t, rate in zip(times, rates, strict=True))
            print(f"  {name:9} {told}; {' '.join(f'{x:.1e}' for x in apart)}", flush=True)
            row[name] = {"seconds": times, "teraflops": rates, "apart": apart}
            far += name == "kernels" and max(apart) > 2e-2
        if chosen.tiles:
            row["tiles"] = tiles(case, chosen.device, timer)
        figures[str(case)] = row
    if chosen.out:
        print(record.write("attention", {"cases": figures}, chosen.out))
    return int(far > 0)


if __name__ == "__main__":
    sys.exit(main())
