"""A GPT on scalars: every weight and every number on the way is a `Value`. One training step under `jit`.

Run as ``python -m benchmarks.gpt``, it measures that step beside the same program on the least class that does it in
Python (`Plain`), and beside the same step in C (`gpt.c`), which needs a C compiler.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks import report
from micrograd_core import Value, jit
from micrograd_core.scalar import jit as scalar_jit, max

VOCABULARY, WIDTH, HEADS, LENGTH = 27, 16, 4, 16
HEAD = WIDTH // HEADS

RESULTS = Path(__file__).parent / "results"

Vector = list[Any]
Matrix = list[Vector]


class Plain:
    """The least that such a program needs: a number, what it was computed from, and the derivatives by that."""

    __slots__ = ("data", "grad", "slopes", "sources")

    def __init__(self, data: float, sources: tuple[Any, ...] = (), slopes: tuple[float, ...] = ()) -> None:
        self.data, self.grad, self.sources, self.slopes = data, 0.0, sources, slopes

    def __add__(self, other: Any) -> Plain:
        other = other if isinstance(other, Plain) else Plain(other)
        return Plain(self.data + other.data, (self, other), (1.0, 1.0))

    def __mul__(self, other: Any) -> Plain:
        other = other if isinstance(other, Plain) else Plain(other)
        return Plain(self.data * other.data, (self, other), (other.data, self.data))

    def __pow__(self, other: float) -> Plain:
        return Plain(self.data**other, (self,), (other * self.data ** (other - 1),))

    def exp(self) -> Plain:
        """The exponential."""
        e = math.exp(self.data)
        return Plain(e, (self,), (e,))

    def log(self) -> Plain:
        """The natural logarithm."""
        return Plain(math.log(self.data), (self,), (1 / self.data,))

    def relu(self) -> Plain:
        """The greater of the number and 0."""
        return Plain(max(0.0, self.data), (self,), (float(self.data > 0),))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Plain:
        return self * -1

    def __sub__(self, other: Any) -> Plain:
        return self + -other

    def __truediv__(self, other: Any) -> Plain:
        return self * other**-1

    def backward(self) -> None:
        """Add the derivatives of this to those of all that it was computed from."""
        order, seen, stack = list[Plain](), {id(self)}, [(self, iter(self.sources))]
        while stack:
            node, left = stack[-1]
            source = next((x for x in left if id(x) not in seen), None)
            if source is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(id(source))
                stack.append((source, iter(source.sources)))
        self.grad = 1.0
        for node in reversed(order):
            for source, slope in zip(node.sources, node.slopes, strict=True):
                source.grad += slope * node.grad


def matrix(rng: random.Random, rows: int, columns: int, kind: Any, scale: float = 0.08) -> Matrix:
    """Weights drawn at random."""
    return [[kind(rng.gauss(0.0, scale)) for _ in range(columns)] for _ in range(rows)]


def weights(seed: int = 0, kind: Any = Value) -> dict[str, Matrix]:
    """One block's weights, and the embeddings of tokens and positions."""
    rng = random.Random(seed)
    shapes = {
        "tokens": (VOCABULARY, WIDTH), "positions": (LENGTH, WIDTH), "query": (WIDTH, WIDTH), "key": (WIDTH, WIDTH),
        "value": (WIDTH, WIDTH), "attended": (WIDTH, WIDTH), "up": (4 * WIDTH, WIDTH), "down": (WIDTH, 4 * WIDTH),
    }  # fmt: skip
    return {name: matrix(rng, *shape, kind) for name, shape in shapes.items()}


def linear(x: Vector, w: Matrix) -> Vector:
    """``w @ x``."""
    return [dot(row, x) for row in w]


def dot(x: Sequence[Any], y: Sequence[Any]) -> Any:
    """The sum of products."""
    return sum(a * b for a, b in zip(x, y, strict=True))


def softmax(scores: Vector) -> Vector:
    """Weights that add up to 1."""
    top = max(x.data for x in scores)
    powers = [(x - top).exp() for x in scores]
    total = sum(powers)
    return [x / total for x in powers]


def normalised(x: Vector) -> Vector:
    """A vector divided by its root mean square."""
    scale = (dot(x, x) / len(x) + 1e-5) ** -0.5
    return [each * scale for each in x]


def logits(w: dict[str, Matrix], token: int, position: int, keys: Matrix, values: Matrix) -> Vector:
    """Scores of the next token. `keys` and `values` are those of the tokens before, and get this one's."""
    x = normalised([a + b for a, b in zip(w["tokens"][token], w["positions"][position], strict=True)])
    before = normalised(x)
    query = linear(before, w["query"])
    keys.append(linear(before, w["key"]))
    values.append(linear(before, w["value"]))
    attended: Vector = []
    for head in range(HEADS):
        part = slice(head * HEAD, (head + 1) * HEAD)
        shares = softmax([dot(query[part], key[part]) / HEAD**0.5 for key in keys])
        attended += [dot(shares, column) for column in zip(*(value[part] for value in values), strict=True)]
    x = [a + b for a, b in zip(x, linear(attended, w["attended"]), strict=True)]
    hidden = [each.relu() ** 2 for each in linear(normalised(x), w["up"])]
    x = [a + b for a, b in zip(x, linear(hidden, w["down"]), strict=True)]
    return linear(x, w["tokens"])


def training(length: int = 6, kind: Any = Value) -> Callable[[], float]:
    """A function that takes one step of gradient descent on a text of so many tokens, and returns its loss.

    Of Values it is compiled; of `Plain` numbers Python runs it.
    """
    w = weights(kind=kind)
    parameters = [x for each in w.values() for row in each for x in row]
    tokens = [random.Random(i).randrange(VOCABULARY) for i in range(length + 1)]

    def step(rate: float) -> Any:
        keys: Matrix = []
        values: Matrix = []
        losses = []
        for position in range(length):
            chances = softmax(logits(w, tokens[position], position, keys, values))
            losses.append(-chances[tokens[position + 1]].log())
        loss = sum(losses) / length
        for each in parameters:
            each.grad = 0.0
        loss.backward()
        for each in parameters:
            each.data = each.data - rate * each.grad
        return loss

    taken = jit(step) if kind is Value else step
    return lambda: float(taken(0.1).data)


def in_c(length: int = 6) -> Callable[[], float]:
    """The same function, compiled by the C compiler of this machine."""
    library = Path(tempfile.mkdtemp()) / "gpt.so"
    flags = ["-O3", "-march=native", "-shared", "-fPIC", "-o", str(library)]
    subprocess.run(["cc", *flags, str(Path(__file__).with_name("gpt.c")), "-lm"], check=True)
    step = ctypes.CDLL(str(library)).step
    step.restype = ctypes.c_double
    numbers = array("d", [x.data for each in weights().values() for row in each for x in row])
    tokens = array("i", [random.Random(i).randrange(VOCABULARY) for i in range(length + 1)])
    given = (ctypes.c_double * len(numbers)).from_buffer(numbers), (ctypes.c_int * len(tokens)).from_buffer(tokens)
    return lambda: float(step(*given, length, ctypes.c_double(0.1)))


def _microseconds(step: Callable[[], float], times: int) -> float:
    """The processor's time of a call, as the median."""
    found = []
    for _ in range(times):
        start = time.thread_time_ns()
        step()
        found.append((time.thread_time_ns() - start) / 1000)
    return statistics.median(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the step in turns, after comparing losses; show and keep the figures."""
    parser = argparse.ArgumentParser(prog="benchmarks.gpt", description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=9, help="rounds; default: %(default)s")
    parser.add_argument("--one-by-one", action="store_true", help="leave each Value alone, where one matrix holds them")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON; default: %(default)s")
    chosen = parser.parse_args(arguments)
    jitted, own, c = training(), training(kind=Plain), in_c()
    with patch.object(scalar_jit, "gather") if chosen.one_by_one else nullcontext():
        losses = [(jitted(), own(), c()) for _ in range(5)]
    assert all(math.isclose(x, y, rel_tol=1e-9) for each in losses for x, y in pairwise(each)), losses
    times = {"jit": (jitted, 50), "own": (own, 1), "c": (c, 500)}
    rounds = [{name: _microseconds(*each) for name, each in times.items()} for _ in range(chosen.repeat)]
    figures = {f"{name}_us": statistics.median(each[name] for each in rounds) for name in times}
    figures |= {
        "jit_by_c": statistics.median(each["jit"] / each["c"] for each in rounds),
        "own_by_jit": statistics.median(each["own"] / each["jit"] for each in rounds),
    }
    print(*(f"{name} {value:,.1f}" for name, value in figures.items()), sep="  ")
    name = "gpt-values-one-by-one" if chosen.one_by_one else "gpt-values"
    cases = {name: {"about": "step of a GPT on scalars, 1 block 16 wide, 6 tokens", **figures}}
    result = {"cases": cases, "environment": report.environment(), "settings": {"repeat": chosen.repeat}}
    print(f"written to {report.write(result, chosen.out, name)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
