"""Programs captured as CUDA graphs, by generation: whatever is given, held and rewritten, the numbers are NumPy's.

On a GPU, or an emulated one. ``GRAPH_CASES`` is how many cases there are; ``GRAPH_SEED``, which is the first.
"""

from __future__ import annotations

import os
import random as choices
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, jit, no_grad

CASES, FIRST = int(os.environ.get("GRAPH_CASES", "60")), int(os.environ.get("GRAPH_SEED", "0"))
pytestmark = [
    pytest.mark.skipif(not Device.is_cuda_available(), reason="there is no GPU, and no emulated one"),
    pytest.mark.filterwarnings("ignore:jit:RuntimeWarning"),  # each way in which inputs are one is a trace
]

FUNCTIONS: dict[str, Callable[[Any, Any, Any], tuple[Any, ...]]] = {
    "products": lambda a, b, c: (a * 0.5 + b @ c / b.shape[0], (b + 1.0) * 0.25, (a * c).sum()),
    "rows": lambda a, b, c: ((a - b).mean(axis=1, keepdims=True) + c, (b * 0.5).mT, c.max(axis=0)),
    "views": lambda a, b, c: (a.mT + 1.0, b, c[1:] * 0.5, b[::2]),
    "steps": lambda a, b, c: (a - b * 0.1, b * 0.5 + a * 0.25, (c * c).sum(axis=(0, 1))),
    "same": lambda a, b, c: (a * 0.5, a * 0.5, b * 0.5 + 1.0, a.mT * c),
}
"""Of arrays, which NumPy computes as well. What comes out at the first places can be given back as inputs."""
SIZES = (8, 8, 8, 520)  # one beyond what is copied without asking
WAYS = ("back", "back", "back", "same", "new", "turned", "strided", "alias", "rewritten")


class Case:
    """A function under `jit`, its inputs, and what is held of its outputs; each beside NumPy's array."""

    def __init__(self, seed: int) -> None:
        self.pick, self.rng, self.gpu = choices.Random(seed), np.random.default_rng(seed), Device("cuda")
        self.function, self.size = FUNCTIONS[self.pick.choice([*FUNCTIONS])], self.pick.choice(SIZES)
        self.jitted = jit(self.function)
        self.held: list[tuple[Tensor, Any]] = []
        self.now = [self.new("new") for _ in range(3)]
        self.ways = [self.pick.sample(WAYS, 2) for _ in range(3)]  # an input comes in few ways, so that graphs repeat

    def new(self, way: str) -> tuple[Tensor, Any]:
        """Numbers that were not there before, as a matrix that lies in that way."""
        n = self.size
        a = self.rng.integers(-4, 5, (2 * n, n) if way == "strided" else (n, n)).astype("float32")
        x = Tensor(a, device=self.gpu, requires_grad=False)
        return {"turned": lambda: (x.mT, a.T), "strided": lambda: (x[::2], a[::2])}.get(way, lambda: (x, a))()

    def call(self) -> list[tuple[Tensor, Any]]:
        """The outputs, from this thread or another, on this stream or another."""
        given = [x for x, _ in self.now]
        where = self.pick.random()
        with self.gpu.stream() if where < 0.05 else nullcontext(), no_grad():
            if 0.05 <= where < 0.1:
                with ThreadPoolExecutor(1) as pool:
                    found = pool.submit(lambda: self.called(given)).result()
            else:
                found = self.called(given)
        return [*zip(found, self.function(*[a for _, a in self.now]), strict=True)]

    def called(self, given: list[Tensor]) -> tuple[Tensor, ...]:
        with no_grad():
            found: tuple[Tensor, ...] = self.jitted(*given)
        return found

    def next(self, i: int, pairs: list[tuple[Tensor, Any]]) -> None:
        """The input of that number, for the next call."""
        way, n = self.pick.choice(self.ways[i]), self.size
        back = [pair for pair in pairs if pair[1].shape == (n, n)]
        if way == "back" and back:
            self.now[i] = back[i % len(back)]
        elif way == "alias":
            self.now[i] = self.now[self.pick.randrange(3)]
        elif way == "rewritten":
            x, _ = self.now[i]
            values = self.rng.integers(-4, 5, (n, n)).astype("float32")
            with no_grad():
                copied = x.copy()
            copied[...] = Tensor(values, device=self.gpu, requires_grad=False)
            self.now[i] = copied, values
            copied[0] = 2.0  # and once more, where it lies
            values[0] = 2.0
        elif way in ("new", "turned", "strided"):
            self.now[i] = self.new(way)

    def look(self) -> None:
        """What is held is as it was."""
        for x, a in self.held:
            np.testing.assert_allclose(x.numpy(), a, rtol=1e-4, atol=1e-4 * np.abs(a).max())

    def run(self, calls: int = 16) -> None:
        """All calls of a case."""
        pick, held = self.pick, self.held
        for _ in range(calls):
            pairs = self.call()
            if pick.random() < 0.5:
                held.append(pick.choice(pairs))
            if pick.random() < 0.3:
                x, a = pick.choice(pairs)
                if a.ndim == 2:
                    held.append((x[1:, ::2], a[1:, ::2]))
            if held and pick.random() < 0.5:
                held.pop(pick.randrange(len(held)))
            if pick.random() < 0.2:
                self.look()
            if pick.random() < 0.02:
                self.gpu.release_memory()
                held += [self.new("new") for _ in range(6)]  # where graphs were
            for i in range(3):
                self.next(i, pairs)
            del pairs
        self.look()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES, 20))
def test_whatever_is_given_and_held_the_numbers_are_right(seed: int) -> None:
    for each in range(seed, min(seed + 20, FIRST + CASES)):
        try:
            Case(each).run()
        except Exception as error:
            raise AssertionError(f"case {each}: GRAPH_SEED={each} GRAPH_CASES=1") from error
