"""``micrograd bench``: a few kinds of work on this machine, beside the same in other installed libraries.

It is small, so that it takes seconds; ``benchmarks/`` in the repository has what is published.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from micrograd_core.support.escaping import aligned
from micrograd_core.tools import arguments as common

Work = Callable[[], Any]
SIZES = (64, 128, 10)
"""Widths of the network whose step is timed."""
BATCH = 64


def add_bench(commands: common.Commands) -> None:
    """``micrograd bench``."""
    parser = common.command(
        commands,
        "bench",
        "time a few kinds of work here, beside the other libraries that are installed",
        ["micrograd bench", "micrograd bench --device torch:cpu --seconds 0.5 --json"],
    )
    common.add_device(parser, "compute")
    parser.add_argument(
        "--seconds", type=common.positive_float, default=0.2, metavar="S", help="for each kind and library, at least"
    )
    common.add_json(parser)
    parser.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> int:
    rows = bench(options.device, options.seconds)
    common.tell(options, rows, told(rows))
    return 0


def bench(device: str | None = None, seconds: float = 0.2) -> list[dict[str, Any]]:
    """Microseconds by library, for each kind of work. All take turns, so that a busy moment meets each of them."""
    makers = {
        "micrograd": lambda: _eager("micrograd_core.torch", device), "numpy": _numpy, "torch": lambda: _eager("torch"),
        "jax": _jax,
    }  # fmt: skip
    libraries = {name: make() for name, make in makers.items() if _has(name)}
    rows = []
    for kind in next(iter(libraries.values())):
        works = {name: works[kind] for name, works in libraries.items() if kind in works}
        times: dict[str, list[float]] = {name: [] for name in works}
        counts = {}
        for name, work in works.items():
            work()
            started = time.perf_counter()
            work()
            counts[name] = max(1, int(0.02 / max(time.perf_counter() - started, 1e-7)))
        ends = time.perf_counter() + seconds * len(works)
        while time.perf_counter() < ends or len(times[next(iter(works))]) < 3:
            for name, work in works.items():
                started = time.perf_counter()
                for _ in range(counts[name]):
                    work()
                times[name].append((time.perf_counter() - started) / counts[name])
        rows.append({"work": kind, "microseconds": {name: 1e6 * median(each) for name, each in times.items()}})
    return rows


def told(rows: list[dict[str, Any]]) -> str:
    """The rows as a table; the last column is the ratio to the quickest of the others."""
    names = list(dict.fromkeys(name for row in rows for name in row["microseconds"]))
    cells: list[tuple[str, ...]] = [("µs", *names, "micrograd ÷ quickest")]
    for row in rows:
        found = row["microseconds"]
        others = [x for name, x in found.items() if not name.startswith("micrograd") and name != "numpy"]
        ratio = f"{found['micrograd'] / min(others):.2f}" if others else "–"
        cells.append((row["work"], *(f"{found[name]:,.1f}" if name in found else "–" for name in names), ratio))
    return aligned(cells)


def _has(name: str) -> bool:
    try:
        importlib.import_module({"micrograd": "micrograd_core"}.get(name, name))
    except ImportError:
        return False
    return True


def _arrays() -> dict[str, Any]:
    import numpy as np

    random = np.random.RandomState(0)
    return {
        "small": random.standard_normal((4, 4)).astype("float32"),
        "large": random.standard_normal((512, 512)).astype("float32"),
        "x": random.standard_normal((BATCH, SIZES[0])).astype("float32"),
        "y": random.randint(0, SIZES[-1], BATCH),
    }


KINDS = (
    "x * y, (4, 4)",
    "sum(x * y), (4, 4), and gradients",
    "sum(tanh(x)), (512, 512), and gradient",
    "sum(x @ y), (512, 512), and gradients",
    f"step of an MLP {'-'.join(map(str, SIZES))}, batch {BATCH}, Adam",
)


def _eager(library: str, device: str | None = None) -> dict[str, Work]:
    """The works of PyTorch, or of what has its names."""
    torch: Any = importlib.import_module(library)

    arrays = _arrays()
    a, b, large, other = (
        torch.tensor(arrays[name], requires_grad=True, device=device) for name in ("small", "small", "large", "large")
    )
    x, y = (torch.tensor(arrays[name], device=device) for name in ("x", "y"))
    first, last = (torch.nn.Linear(i, o, device=device) for i, o in itertools.pairwise(SIZES))
    model = torch.nn.Sequential(first, torch.nn.ReLU(), last)
    rule = torch.optim.Adam(model.parameters(), lr=1e-3)

    def swept(make: Work, *leaves: Any) -> Work:
        def work() -> None:
            for each in leaves:
                each.grad = None
            make().backward()

        return work

    def step() -> None:
        rule.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        rule.step()

    works = (
        lambda: a * b,
        swept(lambda: (a * b).sum(), a, b),
        swept(lambda: large.tanh().sum(), large),
        swept(lambda: (large @ other).sum(), large, other),
        step,
    )
    return dict(zip(KINDS, works, strict=True))


def _numpy() -> dict[str, Work]:
    a = _arrays()["small"]
    return {KINDS[0]: lambda: a * a}


def _jax() -> dict[str, Work]:
    jax: Any = importlib.import_module("jax")
    jnp: Any = importlib.import_module("jax.numpy")

    arrays = _arrays()
    a, large = jnp.asarray(arrays["small"]), jnp.asarray(arrays["large"])
    both = jax.jit(jax.grad(lambda a, b: (a * b).sum(), (0, 1)))
    tanh = jax.jit(jax.grad(lambda x: jnp.tanh(x).sum()))
    product = jax.jit(jax.grad(lambda a, b: (a @ b).sum(), (0, 1)))
    works = (
        lambda: (a * a).block_until_ready(),
        lambda: both(a, a)[0].block_until_ready(),
        lambda: tanh(large).block_until_ready(),
        lambda: product(large, large)[0].block_until_ready(),
    )
    return dict(zip(KINDS, works, strict=False))
