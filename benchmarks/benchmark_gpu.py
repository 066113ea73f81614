"""micrograd, torch and jax on the same GPU, against ceilings that are measured in the same run.

    python benchmarks/benchmark_gpu.py --out benchmarks/results

The ceilings are a large copy on the device and a large product of matrices. ``--device cpu --small`` runs it all on the
host with small sizes, to see that the program works; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

if __package__ in (None, ""):  # run as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import micrograd_core as mg
from benchmarks.gpu import record
from benchmarks.gpu.activity import activity, told
from micrograd_core import Device, Tensor, nn, optim

Run = Callable[[], Any]


class Sizes(NamedTuple):
    """How large the cases are."""

    elements: int  # of elementwise and row-wise cases
    columns: int
    side: int  # of products
    layers: tuple[int, ...]
    batches: tuple[int, ...]


FULL = Sizes(2**26, 4096, 8192, (784, 4096, 4096, 10), (8192, 128))
SMALL = Sizes(2**14, 64, 64, (20, 32, 32, 10), (32, 8))


# ── peers ────────────────────────────────────────────────────────────────────────────────────────────────────


class Micrograd:
    """What is measured here."""

    def __init__(self, device: str) -> None:
        self.device = Device(device)
        self.has_bfloat16 = "bfloat16" in self.device.kernels.backend.dtypes

    def wait(self, result: Any) -> None:
        self.device.synchronize()

    def array(self, x: Any, dtype: str) -> Any:
        return mg.asarray(x, device=self.device).astype(dtype)

    def elementwise(self, x: Any, y: Any, bias: Any) -> dict[str, Run]:
        recorded = Tensor(np.ones((4, 4), "float32"), device=self.device)
        return {
            "x + y": lambda: x + y,
            "x * 2": lambda: x * 2.0,
            "x + bias": lambda: x + bias,
            "relu": lambda: x.relu(),
            "exp": lambda: x.exp(),
            "softmax": lambda: x.softmax(),
            "log_softmax": lambda: x.log_softmax(),
            "sum": lambda: x.sum(),
            "sum over rows": lambda: x.sum(axis=0),
            "recorded (4, 4) + (4, 4)": lambda: recorded + recorded,
        }

    def copying(self, x: Any) -> Run:
        """Into memory that is there: `Tensor.copy` and jax's may share what nobody writes to."""
        to = mg.zeros_like(x)

        def run() -> Any:
            to[...] = x
            return to

        return run

    def product(self, x: Any, y: Any, precision: str) -> Run:
        def run() -> Any:
            mg.set_matmul_precision(precision)
            result = x @ y
            mg.set_matmul_precision("highest")
            return result

        return run

    def training(self, weights: list[Any], x: Any, targets: Any, half: bool) -> Run:
        layers: list[nn.Module] = []
        for weight in weights:
            linear = nn.Linear(weight.shape[1], weight.shape[0], device=self.device)
            linear.weight.data, linear.bias.data = self.array(weight, "float32"), linear.bias.data * 0
            layers += [linear, nn.ReLU()]
        model = nn.Sequential(*layers[:-1])
        rule = optim.Adam(model.parameters())
        x, targets = self.array(x, "float32"), mg.asarray(targets, device=self.device)

        def run() -> Any:
            rule.zero_grad()
            mg.set_matmul_precision("high")
            with mg.autocast("bfloat16") if half else nullcontext():
                loss = nn.cross_entropy(model(x), targets)
            loss.backward()
            rule.step()
            mg.set_matmul_precision("highest")
            return loss

        return run


class Torch:
    """Eager, with its fused Adam."""

    def __init__(self, device: str) -> None:
        import torch

        self.torch, self.place, self.has_bfloat16 = torch, device, True
        torch.zeros(1, device=device)

    def wait(self, result: Any) -> None:
        if self.place.startswith("cuda"):
            self.torch.cuda.synchronize()

    def array(self, x: Any, dtype: str) -> Any:
        return self.torch.asarray(x, device=self.place).to(getattr(self.torch, dtype))

    def elementwise(self, x: Any, y: Any, bias: Any) -> dict[str, Run]:
        torch = self.torch
        recorded = torch.ones((4, 4), device=self.place, requires_grad=True)
        return {
            "x + y": lambda: x + y,
            "x * 2": lambda: x * 2.0,
            "x + bias": lambda: x + bias,
            "relu": lambda: torch.relu(x),
            "exp": lambda: torch.exp(x),
            "softmax": lambda: torch.softmax(x, -1),
            "log_softmax": lambda: torch.log_softmax(x, -1),
            "sum": lambda: torch.sum(x),
            "sum over rows": lambda: torch.sum(x, 0),
            "recorded (4, 4) + (4, 4)": lambda: recorded + recorded,
        }

    def copying(self, x: Any) -> Run:
        to = self.torch.zeros_like(x)
        return lambda: to.copy_(x)

    def product(self, x: Any, y: Any, precision: str) -> Run:
        def run() -> Any:
            self.torch.set_float32_matmul_precision(precision)
            return x @ y

        return run

    def training(self, weights: list[Any], x: Any, targets: Any, half: bool) -> Run:
        torch = self.torch
        layers: list[Any] = []
        for weight in weights:
            linear = torch.nn.Linear(weight.shape[1], weight.shape[0], device=self.place)
            with torch.no_grad():
                linear.weight.copy_(self.array(weight, "float32"))
                linear.bias.zero_()
            layers += [linear, torch.nn.ReLU()]
        model = torch.nn.Sequential(*layers[:-1])
        rule = torch.optim.Adam(model.parameters(), fused=self.place.startswith("cuda"))
        x, targets = self.array(x, "float32"), self.array(targets, "int64")
        kind = self.place.partition(":")[0]

        def run() -> Any:
            torch.set_float32_matmul_precision("high")
            rule.zero_grad(set_to_none=True)
            with torch.autocast(kind, torch.bfloat16, enabled=half):
                loss = torch.nn.functional.cross_entropy(model(x), targets)
            loss.backward()
            rule.step()
            return loss

        return run


class Jax:
    """Each function compiled as a whole, which the other two are not; it records nothing."""

    def __init__(self, device: str) -> None:
        import jax

        self.jax, self.np, self.has_bfloat16 = jax, jax.numpy, True
        self.place = jax.devices("gpu" if device.startswith("cuda") else "cpu")[0]

    def wait(self, result: Any) -> None:
        self.jax.block_until_ready(result)

    def array(self, x: Any, dtype: str) -> Any:
        return self.jax.device_put(self.np.asarray(x, dtype=getattr(self.np, dtype)), self.place)

    def elementwise(self, x: Any, y: Any, bias: Any) -> dict[str, Run]:
        jit, jnn = self.jax.jit, self.jax.nn
        add, twice, relu = jit(lambda x, y: x + y), jit(lambda x: x * 2.0), jit(jnn.relu)
        exp, softmax, log_softmax = jit(self.np.exp), jit(jnn.softmax), jit(jnn.log_softmax)
        total, rows = jit(self.np.sum), jit(lambda x: self.np.sum(x, 0))
        return {
            "x + y": lambda: add(x, y),
            "x * 2": lambda: twice(x),
            "x + bias": lambda: add(x, bias),
            "relu": lambda: relu(x),
            "exp": lambda: exp(x),
            "softmax": lambda: softmax(x),
            "log_softmax": lambda: log_softmax(x),
            "sum": lambda: total(x),
            "sum over rows": lambda: rows(x),
        }

    def copying(self, x: Any) -> Run:
        negative = self.jax.jit(lambda x: -x)  # its copies may be none
        return lambda: negative(x)

    def product(self, x: Any, y: Any, precision: str) -> Run:
        asked = {"highest": "highest", "high": "tensorfloat32", "medium": "bfloat16"}[precision]
        matmul = self.jax.jit(lambda x, y: self.np.matmul(x, y, precision=asked))
        return lambda: matmul(x, y)

    def training(self, weights: list[Any], x: Any, targets: Any, half: bool) -> Run | None:
        return None  # without an optimiser of its own, what is measured would be ours


PEERS = {"micrograd": Micrograd, "torch": Torch, "jax": Jax}


# ── timing ───────────────────────────────────────────────────────────────────────────────────────────────────


def seconds(run: Run, wait: Callable[[Any], None], budget: float) -> float:
    """The median over samples of the time per call, each sample of calls enough to hide a synchronization."""
    wait(run())
    start = time.perf_counter()
    wait(run())
    calls = max(1, min(1000, math.ceil(0.02 / max(time.perf_counter() - start, 1e-6))))
    samples, end = [], time.perf_counter() + budget
    while len(samples) < 3 or (time.perf_counter() < end and len(samples) < 50):
        start = time.perf_counter()
        for _ in range(calls):
            result = run()
        wait(result)
        samples.append((time.perf_counter() - start) / calls)
    return statistics.median(samples)


class Work(NamedTuple):
    """What one peer does in one case."""

    case: str
    peer: str
    run: Run
    facts: dict[str, float]


def work(peers: dict[str, Any], sizes: Sizes) -> Iterator[Work]:
    """Every case of every peer that has it."""
    rng = np.random.default_rng(0)
    shape = (sizes.elements // sizes.columns, sizes.columns)
    x, y = (rng.standard_normal(shape, "float32") for _ in range(2))
    bias = rng.standard_normal(sizes.columns, "float32")
    for dtype, itemsize in (("float32", 4), ("bfloat16", 2)):
        for name, peer in peers.items():
            if dtype == "bfloat16" and not peer.has_bfloat16:
                continue
            runs = peer.elementwise(*(peer.array(each, dtype) for each in (x, y, bias)))
            for case, run in runs.items():
                small = case.startswith("recorded")
                if small and dtype != "float32":
                    continue
                moved = {"x + y": 3, "sum": 1, "sum over rows": 1}.get(case, 2) * itemsize * sizes.elements
                yield Work(f"{case}, {dtype}", name, run, {} if small else {"bytes": moved})
    x, y = (rng.standard_normal((sizes.side, sizes.side), "float32") for _ in range(2))
    operations = 2 * sizes.side**3
    kinds = [("float32", "highest"), ("float32", "high"), ("float16", "highest"), ("bfloat16", "highest")]
    for dtype, precision in kinds:
        label = {"highest": dtype, "high": "TF32"}[precision]
        for name, peer in peers.items():
            if dtype == "bfloat16" and not peer.has_bfloat16:
                continue
            run = peer.product(peer.array(x, dtype), peer.array(y, dtype), precision)
            yield Work(f"matmul {sizes.side}, {label}", name, run, {"operations": operations})
    weights = [
        (rng.standard_normal((outputs, inputs)) * (2 / inputs) ** 0.5).astype("float32")
        for inputs, outputs in zip(sizes.layers[:-1], sizes.layers[1:], strict=True)
    ]
    for batch in sizes.batches:
        x = rng.standard_normal((batch, sizes.layers[0]), "float32")
        targets = rng.integers(sizes.layers[-1], size=batch)
        for half in (False, True):
            case = f"MLP {'-'.join(map(str, sizes.layers))}, batch {batch}, {'bfloat16' if half else 'TF32'}, Adam"
            for name, peer in peers.items():
                if half and not peer.has_bfloat16:
                    continue
                trained = peer.training(weights, x, targets, half)
                if trained is not None:
                    yield Work(case, name, trained, {})


def measure(device: str, sizes: Sizes, budget: float) -> dict[str, Any]:
    """All figures by case and peer, and the ceilings."""
    left_out: dict[str, str] = {}
    peers: dict[str, Any] = {}
    for name, make in PEERS.items():
        try:
            peers[name] = make(device)
        except Exception as error:  # not installed, or without this device
            if name == "micrograd":
                raise
            left_out[name] = f"{type(error).__name__}: {error}"
    found: dict[str, dict[str, Any]] = {}
    later: list[tuple[dict[str, Any], str, Run]] = []
    for case, name, run, facts in work(peers, sizes):
        row = found.setdefault(case, {"seconds": {}, "activity": {}, **facts})
        row["seconds"][name] = seconds(run, peers[name].wait, budget)
        later.append((row, name, run))
    shape = (sizes.elements // sizes.columns, sizes.columns)
    ceiling = _copy_ceiling(peers, np.random.default_rng(0).standard_normal(shape, "float32"), budget)
    # A profiler stays with its process, and each launch takes longer from then on: nothing is timed after it.
    for row, name, run in later:
        try:
            on = device if name == "micrograd" else "cpu"
            row["activity"][name] = activity(run, peers[name].wait, on)
        except RuntimeError as error:  # the profiler's: the figures without it are still worth having
            row["activity"][name], left_out["the profiler"] = {}, str(error)
    return {"copy_bytes_per_second": ceiling, "left_out": left_out, "cases": found}


FAR = {"bfloat16": 2e-2, "float16": 5e-3, "TF32": 5e-3}
"""How far a number may be from the host's, as part of the largest one, by what is in a case's name; others: 1e-5."""


def disagreements(device: str) -> list[str]:
    """Cases whose numbers are others than the host's, in small sizes; what is not finite is."""
    wrong = []
    expected: dict[str, Any] = {}
    for case, name, run, _ in work({"cpu": Micrograd("cpu"), device: Micrograd(device)}, SMALL):
        found = np.asarray(run().detach().astype("float64").tolist())
        exact = expected.setdefault(case, found)
        allowed = next((far for word, far in FAR.items() if word in case), 1e-5) * np.abs(exact).max()
        if found.shape != exact.shape or not np.abs(found - exact).max() <= allowed:  # so that NaN is wrong
            wrong.append(f"{case}: on {name} it has other numbers than on the host")
    return wrong


def _copy_ceiling(peers: dict[str, Any], x: Any, budget: float) -> float:
    """Bytes read and written per second by a copy on the device, by whoever is fastest at it."""
    return (
        2
        * x.nbytes
        / min(seconds(peer.copying(peer.array(x, "float32")), peer.wait, budget) for peer in peers.values())
    )


def table(figures: dict[str, Any]) -> str:
    """For a terminal: microseconds, the ratio to torch, the fraction of the ceiling."""
    ceiling = figures["copy_bytes_per_second"]
    lines = [f"copy on the device: {ceiling / 1e9:,.0f} GB/s", ""]
    lines.append("µs".ljust(46) + "".join(name.rjust(12) for name in [*PEERS, "÷ torch", "of ceiling"]))
    for case, row in figures["cases"].items():
        times = row["seconds"]
        cells = [f"{times[name] * 1e6:12,.1f}" if name in times else "–".rjust(12) for name in PEERS]
        ours, theirs = times.get("micrograd"), times.get("torch")
        cells.append(f"{ours / theirs:12.2f}" if ours and theirs else "–".rjust(12))
        if ours and "bytes" in row:
            cells.append(f"{row['bytes'] / ours / ceiling:11.0%} ")
        elif ours and "operations" in row:
            cells.append(f"{row['operations'] / ours / 1e12:8.0f} TF/s")
        lines.append(case.ljust(46) + "".join(cells))
    lines += ["", "launches, and µs on the device"]
    for case, row in figures["cases"].items():
        for name, facts in row["activity"].items():
            lines += [f"{case.ljust(46)}{name.rjust(12)}: {told(facts)}"] if facts else []
            if "MLP" in case:
                longest = facts.get("longest", {}).items()
                lines += [f"    {count:g} × {kernel}, {spent * 1e6:,.1f}" for kernel, (count, spent) in longest]
    return "\n".join([*lines, *(f"{name} is left out: {why}" for name, why in figures["left_out"].items())])


def main(arguments: list[str] | None = None) -> int:
    """Time, print a table, and keep the figures; how many cases have wrong numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0", help="default: %(default)s")
    parser.add_argument("--small", action="store_true", help="small sizes, to see that the program works")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each case and peer; default: %(default)s")
    parser.add_argument("--out", type=Path, help="folder for the JSON; default: none is written")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # jax would take most of the memory
    wrong = disagreements(chosen.device)
    figures = measure(chosen.device, SMALL if chosen.small else FULL, chosen.seconds)
    print(table(figures))
    if chosen.out:
        print(f"written to {record.write('peers', figures, chosen.out)}")
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
