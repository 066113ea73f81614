"""A GPT on scalars: every weight and every number on the way is a `Value`. One training step under `jit`.

Run as a script, it measures that step beside the same step in C (`gpt.c`), which needs a C compiler.
"""

from __future__ import annotations

import ctypes
import random
import statistics
import subprocess
import tempfile
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from micrograd_core import Value, jit

VOCABULARY, WIDTH, HEADS, LENGTH = 27, 16, 4, 16
HEAD = WIDTH // HEADS

Vector = list[Any]
Matrix = list[Vector]


def matrix(rng: random.Random, rows: int, columns: int, scale: float = 0.08) -> Matrix:
    """Weights drawn at random."""
    return [[Value(rng.gauss(0.0, scale)) for _ in range(columns)] for _ in range(rows)]


def weights(seed: int = 0) -> dict[str, Matrix]:
    """One block's weights, and the embeddings of tokens and positions."""
    rng = random.Random(seed)
    shapes = {
        "tokens": (VOCABULARY, WIDTH), "positions": (LENGTH, WIDTH), "query": (WIDTH, WIDTH), "key": (WIDTH, WIDTH),
        "value": (WIDTH, WIDTH), "attended": (WIDTH, WIDTH), "up": (4 * WIDTH, WIDTH), "down": (WIDTH, 4 * WIDTH),
    }  # fmt: skip
    return {name: matrix(rng, *shape) for name, shape in shapes.items()}


def linear(x: Vector, w: Matrix) -> Vector:
    """``w @ x``."""
    return [dot(row, x) for row in w]


def dot(x: Sequence[Any], y: Sequence[Any]) -> Any:
    """The sum of products."""
    return sum(a * b for a, b in zip(x, y, strict=True))


def softmax(scores: Vector) -> Vector:
    """Weights that add up to 1."""
    powers = [x.exp() for x in scores]
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


def training(length: int = 6) -> Callable[[], float]:
    """A function that takes one step of gradient descent on a text of so many tokens, and returns its loss."""
    w = weights()
    parameters = [x for each in w.values() for row in each for x in row]
    tokens = [random.Random(i).randrange(VOCABULARY) for i in range(length + 1)]

    @jit
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

    return lambda: float(step(0.1).data)


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


if __name__ == "__main__":
    start = time.thread_time()
    ours, theirs = training(), in_c()
    losses = [(ours(), theirs()) for _ in range(5)]
    print(f"first call: {time.thread_time() - start:.2f} s; losses {losses}")
    rounds = [(_microseconds(ours, 50), _microseconds(theirs, 500)) for _ in range(7)]
    jitted, c = (statistics.median(each) for each in zip(*rounds, strict=True))
    print(f"under jit {jitted:,.1f} µs, in C {c:,.1f} µs, {jitted / c:,.1f} times")
