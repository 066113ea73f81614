"""A word of text from a model of GPT-2's size: the cache written where it lies, copied, and torch's.

    python benchmarks/benchmark_generation.py

The step reads one word and a cache of keys and values, and gives scores and the cache with those of that word. torch
writes into its cache in place, eager. Every program has its turn in each round; ratios are medians of those within
rounds. All three give the same scores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np

import micrograd_core as mg
from benchmarks import report
from benchmarks.run import RESULTS
from benchmarks.timing import Disturbance, interleave
from micrograd_models import GPT2

SIZES = {"vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12}
SMALL = {"vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 2}
LENGTHS = (128, 512, 1024)
WRITES, COPIES, TORCH = "micrograd-jit", "micrograd-jit, copied", "torch"


def ours(model: GPT2, length: int, donated: str) -> Callable[[], Any]:
    """The step under `jit`, at the middle of the cache; `donated` names what is given away."""
    step, state = mg.jit(model.advance, donate_argnames=donated.split()), [model.cache(1, length)]
    state[0] = state[0]._replace(position=mg.asarray(length // 2, dtype="int64"))
    word = mg.asarray([[1]], dtype="int64")

    def run() -> Any:
        with mg.no_grad():
            scores, cache = step(word, state[0])
        state[0] = cache._replace(position=mg.asarray(length // 2, dtype="int64"))
        return scores

    return run


def theirs(model: GPT2, length: int) -> Callable[[], Any]:
    """The same in torch."""
    import torch

    weights = {name: torch.from_numpy(np.asarray(p.detach()).copy()) for name, p in model.named_parameters()}
    functional, heads = torch.nn.functional, model.blocks[0].attention.heads
    width = weights["words.weight"].shape[1]
    shape = (1, heads, length, width // heads)
    caches = [(torch.zeros(shape), torch.zeros(shape)) for _ in model.blocks]
    place, words = torch.tensor([length // 2]), torch.tensor([[1]])
    mask = (torch.arange(length) <= length // 2)[None]

    def linear(x: Any, name: str) -> Any:
        return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(x: Any, name: str) -> Any:
        return functional.layer_norm(x, (width,), weights[f"{name}.weight"], weights[f"{name}.bias"])

    @torch.no_grad()
    def run() -> Any:
        x = weights["words.weight"][words] + weights["places.weight"][place]
        for i, (keys, values) in enumerate(caches):
            block, y = f"blocks.{i}", norm(x, f"blocks.{i}.norm1")
            query, key, value = (
                linear(y, f"{block}.attention.{part}").view(1, 1, heads, -1).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            keys.index_copy_(2, place, key)
            values.index_copy_(2, place, value)
            found = functional.scaled_dot_product_attention(query, keys, values, mask)
            x = x + linear(found.transpose(1, 2).reshape(1, 1, width), f"{block}.attention.output")
            y = functional.gelu(linear(norm(x, f"{block}.norm2"), f"{block}.perceptron.up"), approximate="tanh")
            x = x + linear(y, f"{block}.perceptron.down")
        return functional.linear(norm(x, "norm"), weights["words.weight"])

    return run


def main(arguments: list[str] | None = None) -> None:
    """Measure all, print a table, and keep a record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each case and program; default: %(default)s")
    parser.add_argument("--small", action="store_true", help="a small model, to see that it works")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON; default: %(default)s")
    chosen = parser.parse_args(arguments)
    mg.random.manual_seed(0)
    sizes = SMALL if chosen.small else SIZES
    model, found = GPT2(n_positions=max(LENGTHS), **sizes), dict[str, Any]()
    model.eval()
    print(f"| places of the cache | {WRITES}, ms | ÷ copied | ÷ torch |\n|---|---:|---:|---:|")
    for length in LENGTHS:
        runs = {WRITES: ours(model, length, "cache"), COPIES: ours(model, length, "")}
        with suppress(ImportError):
            runs[TORCH] = theirs(model, length)
        for _ in range(2):
            scores = {name: np.asarray(run()) for name, run in runs.items()}
        for name, each in scores.items():
            np.testing.assert_allclose(each, scores[WRITES], rtol=1e-3, atol=1e-3, err_msg=name)
        with Disturbance() as others:
            timings = interleave(runs, repeat=15, seconds=chosen.seconds)
        ratios = {name: round(timings[WRITES].ratio(timings[name]), 2) for name in (COPIES, TORCH) if name in timings}
        medians = {each: round(timing.quartiles[1], 1) for each, timing in timings.items()}
        found[str(length)] = {"microseconds": medians, "ratios": ratios, "cores_of_others": others.cores}
        cells = f"{medians[WRITES] / 1e3:.2f}", *(f"{ratios.get(each, float('nan')):.2f}" for each in (COPIES, TORCH))
        print(f"| {length} | {' | '.join(cells)} |", flush=True)
    print(
        report.write(
            {"environment": report.environment(), "sizes": sizes, "generation": found}, chosen.out, "generation"
        )
    )


if __name__ == "__main__":
    main()
