"""Scalars side by side: `Value`, jitted `Value`, micrograd, torch and jax.jit on the same numbers, in turns.

    python benchmarks/benchmark_value.py [--repeat 20] [--seconds 0.5] [--no-write]

`timing` says how it is timed: medians over rounds in which everyone has a turn. Everyone's numbers are compared first.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import process_time_ns
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import itertools

from benchmarks import report
from benchmarks.cases import readme_expression
from benchmarks.timing import Disturbance, Timing, interleave

RUST = {"add": "0.09–0.17", "multiply": "0.09–0.17", "pow": "0.09–0.17", "relu": "0.09–0.17", "readme": "12–14",
        "mlp": "45–50", "mlp-backward": "195–227", "chain": "fails at 10⁵"}  # fmt: skip
"""micrograd_rs in µs, measured on such a machine some time before 2026-11-21: quoted, not timed here."""
PEERS = {
    "value": ("micrograd_core", "micrograd-core"),
    "jit": ("micrograd_core", "micrograd-core"),
    "micrograd": ("micrograd.engine", "micrograd"),
    "torch": ("torch", "torch"),
    "jax-jit": ("jax", "jax"),
}
"""Module and distribution."""
ABOUT = {
    "add": "x + y, recorded", "multiply": "x * y, recorded", "pow": "x ** 3, recorded", "relu": "relu(x), recorded",
    "readme": "expression in micrograd's README, and gradients", "mlp": "MLP 10-20-20-1 on scalars, forward",
    "mlp-backward": "MLP 10-20-20-1 on scalars, and gradients",
    "mlp-step": "MLP 10-20-20-1 on scalars, gradients and update", "chain-300": "chain of 300 nodes, built and swept",
    "chain": "chain of 10⁶ nodes, per node, processor time",
}  # fmt: skip
SIZES = (10, 20, 20, 1)
NODES = 1_000_000
CHAINS = 5
RATE = 1e-9  # so small that the network stays the one whose numbers were compared

Run = Callable[[], Any]


class Peers:
    """The libraries that are installed, and what each runs for a case."""

    def __init__(self, names: Sequence[str]) -> None:
        self.modules: dict[str, Any] = {}
        self.left_out: dict[str, str] = {}
        for name in names:
            try:
                self.modules[name] = import_module(PEERS[name][0])
            except ImportError as error:
                self.left_out[name] = str(error)
        rng = random.Random(0)
        self.x = [rng.uniform(-1, 1) for _ in range(SIZES[0])]

    @property
    def leaves(self) -> dict[str, Callable[[float], Any]]:
        """By peer that can sweep a chain of `NODES`: what makes a number with a gradient."""
        makers: dict[str, Callable[[Any], Callable[[float], Any]]] = {
            "value": lambda module: module.Value,
            "torch": lambda module: lambda x: module.tensor(x, dtype=module.float64, requires_grad=True),
        }
        return {name: make(self.modules[name]) for name, make in makers.items() if name in self.modules}

    def runs(self, case: str) -> dict[str, Run]:
        """By peer; each returns the number that is compared."""
        made = {name: getattr(self, f"_{name.replace('-', '_')}")(case) for name in self.modules}
        return {name: run for name, run in made.items() if run is not None}

    def _scalars(self, case: str, value: Any, mlp: Any) -> Run | None:
        """Of libraries with micrograd's interface."""
        x, y = value(2.0), value(3.0)
        operations: dict[str, Run] = {
            "add": lambda: x + y, "multiply": lambda: x * y, "pow": lambda: x**3, "relu": lambda: x.relu(),
        }  # fmt: skip
        if case in operations:
            return operations[case]
        if case == "readme":

            def readme() -> Any:
                a, b = value(-4.0), value(2.0)
                readme_expression(Relu, a, b).backward()
                return a.grad

            return readme
        if case == "chain-300":
            return lambda: link(value, 300).grad
        random.seed(0)
        model, inputs = mlp(SIZES[0], list(SIZES[1:])), [value(each) for each in self.x]
        if case == "mlp":
            return lambda: model(inputs)

        def backward() -> Any:
            out = model(inputs)
            model.zero_grad()
            out.backward()
            return out

        def step() -> Any:
            out = backward()
            for p in model.parameters():
                p.data -= RATE * p.grad
            return out

        return {"mlp-backward": backward, "mlp-step": step}.get(case)

    def _value(self, case: str) -> Run | None:
        library = self.modules["value"]
        return self._scalars(case, library.Value, library.MLP)

    def _micrograd(self, case: str) -> Run | None:
        return self._scalars(case, self.modules["micrograd"].Value, import_module("micrograd.nn").MLP)

    def _jit(self, case: str) -> Run | None:
        library = self.modules["jit"]
        if case == "readme":
            compiled, a, b = (
                library.jit(lambda a, b: readme_expression(Relu, a, b)),
                library.Value(-4.0),
                library.Value(2.0),
            )

            def run() -> Any:
                a.grad = b.grad = 0.0
                compiled(a, b).backward()
                return a.grad

            return run
        if case not in ("mlp", "mlp-backward", "mlp-step"):
            return None
        random.seed(0)
        model = library.MLP(SIZES[0], list(SIZES[1:]))
        inputs = [library.Value(each) for each in self.x]
        if case == "mlp":
            forward = library.jit(lambda x: model(x))
            return lambda: forward(inputs)

        @library.jit
        def step(x: Any, rate: Any) -> Any:
            out = model(x)
            model.zero_grad()
            out.backward()
            if case == "mlp-step":
                for p in model.parameters():
                    p.data -= rate * p.grad
            return out.data

        return lambda: step(inputs, RATE)

    def _torch(self, case: str) -> Run | None:
        torch = self.modules["torch"]

        def scalar(number: float) -> Any:
            return torch.tensor(number, dtype=torch.float64, requires_grad=True)

        x, y = scalar(2.0), scalar(3.0)
        operations: dict[str, Run] = {
            "add": lambda: x + y, "multiply": lambda: x * y, "pow": lambda: x**3, "relu": lambda: x.relu(),
        }  # fmt: skip
        if case in operations:
            return operations[case]
        a, b = scalar(-4.0), scalar(2.0)

        def readme() -> Any:
            a.grad = b.grad = None
            readme_expression(Relu, a, b).backward()
            return a.grad

        if case == "readme":
            return readme
        weights = [(scalar(w), scalar(b)) for w, b in self._weights()]
        inputs = scalar(self.x)  # type: ignore[arg-type]

        def forward() -> Any:
            h = inputs
            for i, (w, bias) in enumerate(weights):
                h = w @ h + bias
                h = h.relu() if i < len(weights) - 1 else h
            return h[0]

        def backward() -> Any:
            for pair in weights:
                for p in pair:
                    p.grad = None
            out = forward()
            out.backward()
            return out

        def step() -> Any:
            out = backward()
            with torch.no_grad():
                for pair in weights:
                    for p in pair:
                        p -= RATE * p.grad
            return out

        return {"mlp": forward, "mlp-backward": backward, "mlp-step": step}.get(case)

    def _jax_jit(self, case: str) -> Run | None:
        jax = self.modules["jax-jit"]
        jax.config.update("jax_enable_x64", True)

        class JaxRelu:
            relu = staticmethod(jax.nn.relu)

        if case == "readme":
            both = jax.jit(jax.value_and_grad(lambda a, b: readme_expression(JaxRelu, a, b), argnums=(0, 1)))
            return lambda: jax.block_until_ready(both(-4.0, 2.0))[1][0]
        weights = [(jax.numpy.array(w), jax.numpy.array(b)) for w, b in self._weights()]
        inputs = jax.numpy.array(self.x)

        def forward(parameters: Any, h: Any) -> Any:
            for i, (w, bias) in enumerate(parameters):
                h = w @ h + bias
                h = jax.nn.relu(h) if i < len(parameters) - 1 else h
            return h[0]

        def update(parameters: Any, h: Any) -> Any:
            out, grads = jax.value_and_grad(forward)(parameters, h)
            return out, jax.tree.map(lambda p, g: p - RATE * g, parameters, grads)

        functions = {"mlp": forward, "mlp-backward": jax.value_and_grad(forward), "mlp-step": update}
        if case not in functions:
            return None
        compiled = jax.jit(functions[case])
        return lambda: jax.block_until_ready(compiled(weights, inputs))

    def _weights(self) -> list[tuple[Any, Any]]:
        """Those of a network seeded as the others are."""
        random.seed(0)
        rows = [
            [[random.uniform(-1, 1) for _ in range(nin)] for _ in range(nout)]
            for nin, nout in itertools.pairwise(SIZES)
        ]
        return [(each, [0.0] * len(each)) for each in rows]


class Relu:
    """The one function of the README expression, for whoever has it as a method."""

    @staticmethod
    def relu(x: Any) -> Any:
        return x.relu()


def compare(case: str, runs: dict[str, Run]) -> None:
    """Stop where peers disagree."""
    found = {}
    for name, run in runs.items():
        out = run()
        while isinstance(out, tuple):
            out = out[0]
        found[name] = float(getattr(out, "data", out) if not hasattr(out, "item") else out.item())
    first = next(iter(found.values()))
    if not all(abs(each - first) <= 1e-6 * max(abs(first), 1.0) for each in found.values()):
        raise SystemExit(f"stopped: {case}: the peers disagree: {found}")


def chain(value: Callable[[float], Any]) -> float:
    """Microseconds a node to build and sweep a chain, with the garbage collector running.

    It takes seconds, in which others would have their turn on a busy machine; so processor time is what is counted.
    The peers do not take turns: memory that one has just given back by the million is work for the next.
    """
    gc.collect()
    start = process_time_ns()
    link(value, NODES)
    return (process_time_ns() - start) / NODES / 1e3


def link(value: Any, nodes: int) -> Any:
    """Build and sweep a chain; its start."""
    x, w = value(1.0), value(0.999999)
    y = x
    for _ in range(nodes // 2):
        y = y * w + x
    y.backward()
    return x


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit status."""
    parser = argparse.ArgumentParser(prog="benchmark_value", description="Time scalars side by side.")
    parser.add_argument("--repeat", type=int, default=20, help="rounds; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=0.5, help="per peer and case; default: %(default)s")
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--cases", nargs="+", choices=list(ABOUT), default=list(ABOUT))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--no-write", action="store_true", help="write no JSON")
    chosen = parser.parse_args(arguments)
    peers = Peers(chosen.peers)
    about = report.environment()
    cases: dict[str, Any] = {}
    for case in chosen.cases:
        print(f"{case} …", file=sys.stderr)
        with Disturbance() as others:
            if case == "chain":
                timings = {name: Timing(1, tuple(chain(x) for _ in range(CHAINS))) for name, x in peers.leaves.items()}
            else:
                runs = peers.runs(case)
                compare(case, runs)
                timings = interleave(runs, repeat=chosen.repeat, seconds=chosen.seconds, seed=case)
        cases[case] = {"about": ABOUT[case], "busy_elsewhere": others.cores, "peers": _kept(timings)}
    result = {
        "environment": about,
        "settings": {"repeat": chosen.repeat, "seconds": chosen.seconds},
        "cases": cases,
        "peers": {name: _version(name) for name in peers.modules},
        "left_out": peers.left_out,
        "micrograd_rs": {"measured": "before 2026-11-21", "us": RUST},
    }
    print(table(result))
    if not chosen.no_write:
        print(f"written to {report.write(result, chosen.out, 'value')}", file=sys.stderr)
    return 0


def _kept(timings: dict[str, Timing]) -> dict[str, Any]:
    kept = {}
    for name, timing in timings.items():
        low, middle, high = (round(each, 3) for each in timing.quartiles)
        ratio = {"micrograd": round(timing.ratio(timings["micrograd"]), 4)} if "micrograd" in timings else {}
        best = round(min(timing.samples), 3)
        kept[name] = {"q1_us": low, "median_us": middle, "q3_us": high, "best_us": best, "ratio_to": ratio}
    return kept


def _version(name: str) -> str:
    try:
        return version(PEERS[name][1])
    except PackageNotFoundError:
        return "unknown"


def table(result: dict[str, Any]) -> str:
    """Medians in microseconds as Markdown, with the median ratio of the round to micrograd."""
    names = [name for name in PEERS if name in result["peers"]]
    rust = "micrograd_rs, quoted"
    rows = [["µs", *names, rust, "value ÷ micrograd"], ["---", *["---:"] * (len(names) + 2)]]
    for name, case in result["cases"].items():
        cells = [f"{case['peers'][peer]['median_us']:,.2f}" if peer in case["peers"] else "–" for peer in names]
        ratio = case["peers"]["value"]["ratio_to"].get("micrograd") if "value" in case["peers"] else None
        quoted = result["micrograd_rs"]["us"].get(name, "–")
        rows.append([case["about"], *cells, quoted, "–" if ratio is None else f"{ratio:.3f}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    sys.exit(main())
