"""What is computed: one table of cases, each a program that every peer runs on the same numbers.

A program is written once, against operators and the few functions of a peer ``p``: `relu`, `sum`, `tanh` and
`cross_entropy`. Its kind says what is timed, and names the method of a peer that prepares it:

- ``operation``: the program forward, recording what a gradient would need;
- ``gradient``: forward to a scalar, and backward to all inputs;
- ``training``: forward, backward and the optimiser's update of a multi-layer perceptron;
- ``network``: as ``gradient``, of a layer or loss that only peers with such functions have;
- ``scalars``: as ``gradient``, on scalars instead of arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Draw = Callable[[np.random.Generator], Arrays]


@dataclass(frozen=True)
class Case:
    """One row of the results."""

    name: str
    group: str
    """What ``--cases`` selects several by."""
    kind: str
    about: str
    program: Callable[..., Any]
    draw: Draw
    """The inputs by name, from a random generator; positional arguments of the program in this order."""
    optimizer: str = ""
    tolerance: float = 1e-4
    """How far peers may differ, in units of the greatest number in an array."""

    def arrays(self, seed: int = 0) -> Arrays:
        """The same inputs for every peer and every run."""
        return self.draw(np.random.default_rng(seed))


# ── inputs ───────────────────────────────────────────────────────────────────────────────────────────────────


def uniform(**shapes: tuple[int, ...]) -> Draw:
    """Arrays of float32, all numbers below 1 in size, so that a chain of products stays finite."""
    return lambda rng: {name: rng.uniform(-0.9, 0.9, shape).astype("float32") for name, shape in shapes.items()}


def batch_and_parameters(batch: int, *sizes: int) -> Draw:
    """Inputs, class indices, then a weight (outputs, inputs) and a bias for each layer, as `Linear` draws them."""

    def draw(rng: np.random.Generator) -> Arrays:
        x, targets = rng.normal(size=(batch, sizes[0])).astype("float32"), rng.integers(sizes[-1], size=batch)
        arrays: Arrays = {"x": x, "targets": targets}
        for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
            bound = inputs**-0.5
            arrays[f"weight{layer}"] = rng.uniform(-bound, bound, (outputs, inputs)).astype("float32")
            arrays[f"bias{layer}"] = rng.uniform(-bound, bound, outputs).astype("float32")
        return arrays

    return draw


def logits_and_classes(batch: int, classes: int) -> Draw:
    """Normal logits, and class indices."""
    return lambda rng: {
        "logits": rng.normal(size=(batch, classes)).astype("float32"),
        "targets": rng.integers(classes, size=batch),
    }


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────────


def chain(p: Any, x: Any, y: Any, z: Any) -> Any:
    """A thousand operations, each too small to matter: what is left is the cost of recording and sweeping."""
    for _ in range(500):
        x = x * y + z
    return p.sum(x)


def matmul_squared(p: Any, x: Any, y: Any) -> Any:
    """The square makes the gradient that enters the products a dense matrix, not a repeated 1."""
    z = x @ y
    return p.sum(z * z)


def squared(p: Any, y: Any) -> Any:
    """A scalar whose gradient by `y` is not a repeated 1."""
    return p.sum(y * y)


def perceptron(p: Any, x: Any, targets: Any, *parameters: Any) -> Any:
    """Linear layers with ReLU between them, and the mean cross-entropy."""
    last = len(parameters) - 2
    for i in range(0, len(parameters), 2):
        x = x @ parameters[i].T + parameters[i + 1]
        if i < last:
            x = p.relu(x)
    return p.cross_entropy(x, targets)


def elementwise(p: Any, x: Any, y: Any) -> Any:
    """What reads and writes memory more than it computes, unless a compiler makes one loop of it."""
    return p.sum(p.tanh(x * y + x))


def product_and_elements(p: Any, x: Any, y: Any) -> Any:
    """A product that no loop takes in, and elementwise operations after it that one does."""
    return p.sum(p.relu(x @ y + x * y))


def affine(p: Any, x: Any, w: Any, b: Any) -> Any:
    """Three numbers read and one written for an addition, a product and a maximum: bandwidth, and nothing else."""
    return p.relu(x * w + b)


ROWS = ("weight", "bias")
LAYERS: dict[str, tuple[str, Callable[..., Any], tuple[str, ...]]] = {
    "gelu": ("sum(gelu(x) ** 2)", lambda p, x: squared(p, p.gelu(x)), ()),
    "softmax": ("sum(softmax(x) ** 2)", lambda p, x: squared(p, p.softmax(x)), ()),
    "layer-norm": ("sum(layer_norm(x) ** 2)", lambda p, x, *rows: squared(p, p.layer_norm(x, *rows)), ROWS),
    "batch-norm": ("sum(batch_norm(x) * x)", lambda p, x, *rows: p.sum(p.batch_norm(x, *rows) * x), ROWS),
}
"""What a network is made of beside products, by name: a scalar of it, and its operands that are rows.
The squares of a standardised column always have the same sum, so that one is multiplied by its input instead."""


def readme_expression(p: Any, a: Any, b: Any) -> Any:
    """The expression in the README of karpathy/micrograd."""
    c = a + b
    d = a * b + b**3
    c = c + (c + 1)
    c = c + (1 + c + (-a))
    d = d + (d * 2 + p.relu(b + a))
    d = d + (3 * d + p.relu(b - a))
    e = c - d
    f = e**2
    return f / 2.0 + 10.0 / f


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────

ONE, TWO, THREE = (uniform(**dict.fromkeys(names, (4, 4))) for names in ("x", "xy", "xyz"))
SIZES = {"": (64, 512), "-large": (512, 1000)}
OPTIMIZERS = (("sgd", "SGD"), ("adam", "Adam"))

TABLE = (
    Case("add", "operations", "operation", "x + y, (4, 4)", lambda p, x, y: x + y, TWO),
    Case("multiply", "operations", "operation", "x * y, (4, 4)", lambda p, x, y: x * y, TWO),
    Case("matmul", "operations", "operation", "x @ y, (4, 4)", lambda p, x, y: x @ y, TWO),
    Case("relu", "operations", "operation", "relu(x), (4, 4)", lambda p, x: p.relu(x), ONE),
    Case("sum", "operations", "operation", "sum(x), (4, 4)", lambda p, x: p.sum(x), ONE),
    Case("multiply-sum", "small", "gradient", "sum(x * y), (4, 4), and gradients", lambda p, x, y: p.sum(x * y), TWO),
    Case("chain-1000", "small", "gradient", "1000 of x * y + z, (4, 4), and gradients", chain, THREE),
    Case(
        "elementwise-1000",
        "large",
        "gradient",
        "sum(tanh(x * y + x)), (1000, 1000), and gradients",
        elementwise,
        uniform(x=(1000, 1000), y=(1000, 1000)),
    ),
    Case(
        "matmul-512",
        "large",
        "gradient",
        "sum((x @ y) ** 2), (512, 512), and gradients",
        matmul_squared,
        uniform(x=(512, 512), y=(512, 512)),
    ),
    Case(
        "mlp-small-sgd",
        "training",
        "training",
        "step of an MLP 64-128-10, batch 64, SGD",
        perceptron,
        batch_and_parameters(64, 64, 128, 10),
        optimizer="sgd",
    ),
    Case(
        "mlp-small-adam",
        "training",
        "training",
        "step of an MLP 64-128-10, batch 64, Adam",
        perceptron,
        batch_and_parameters(64, 64, 128, 10),
        optimizer="adam",
    ),
    Case(
        "mlp-large-sgd",
        "training",
        "training",
        "step of an MLP 784-512-512-10, batch 128, SGD",
        perceptron,
        batch_and_parameters(128, 784, 512, 512, 10),
        optimizer="sgd",
    ),
    Case(
        "conv2d",
        "networks",
        "network",
        "sum(conv2d(x) ** 2), (8, 3, 32, 32) to 16 channels by 3 × 3, and gradients",
        lambda p, x, weight, bias: squared(p, p.conv2d(x, weight, bias, padding=1)),
        uniform(x=(8, 3, 32, 32), weight=(16, 3, 3, 3), bias=(16,)),
    ),
    Case(
        "attention",
        "networks",
        "network",
        "sum(attention(q, k, v) ** 2), (2, 4, 64, 32), and gradients",
        lambda p, q, k, v: squared(p, p.attention(q, k, v)),
        uniform(q=(2, 4, 64, 32), k=(2, 4, 64, 32), v=(2, 4, 64, 32)),
    ),
    *(
        Case(
            f"{layer}{suffix}",
            "networks",
            "network",
            f"{about}, {shape}, and gradients",
            program,
            uniform(x=shape, **dict.fromkeys(rows, shape[-1:])),
        )
        for layer, (about, program, rows) in LAYERS.items()
        for suffix, shape in SIZES.items()
    ),
    *(
        Case(
            f"cross-entropy{suffix}",
            "networks",
            "network",
            f"cross_entropy, {shape}, and gradient",
            lambda p, logits, targets: p.cross_entropy(logits, targets),
            logits_and_classes(*shape),
        )
        for suffix, shape in SIZES.items()
    ),
    Case(
        "relu-sum", "compiled", "gradient", "sum(relu(x @ y + x * y)), (4, 4), and gradients", product_and_elements, TWO
    ),
    *(
        Case(
            f"elementwise-{n}",
            "compiled",
            "gradient",
            f"sum(tanh(x * y + x)), ({n}, {n}), and gradients",
            elementwise,
            uniform(x=(n, n), y=(n, n)),
        )
        for n in (100, 3200)
    ),
    *(
        Case(
            f"mlp-deep-{optimizer}",
            "compiled",
            "training",
            f"step of an MLP 64-128-64-10, batch 32, {title}",
            perceptron,
            batch_and_parameters(32, 64, 128, 64, 10),
            optimizer=optimizer,
        )
        for optimizer, title in OPTIMIZERS
    ),
    *(
        Case(
            f"mlp-digits{suffix}-{optimizer}",
            "compiled",
            "training",
            f"step of an MLP 784-512-256-10, batch {batch}, {title}",
            perceptron,
            batch_and_parameters(batch, 784, 512, 256, 10),
            optimizer=optimizer,
            tolerance=1e-3,  # Adam divides by the size of gradients: the rounding of the smallest shows
        )
        for suffix, batch in (("", 128), ("-large", 1024))
        for optimizer, title in OPTIMIZERS
    ),
    Case(
        "affine-large",
        "compiled",
        "operation",
        "relu(x * w + b), ten million",
        affine,
        uniform(**dict.fromkeys("xwb", (10_000_000,))),
    ),
    Case(
        "readme",
        "scalars",
        "scalars",
        "expression in micrograd's README, and gradients",
        readme_expression,
        lambda rng: {"a": np.float32(-4.0), "b": np.float32(2.0)},  # type: ignore[dict-item]
    ),
)

CASES = {case.name: case for case in TABLE}
GROUPS = list(dict.fromkeys(case.group for case in TABLE))


def select(names: list[str]) -> list[Case]:
    """Cases by name or by group, in the order of the table; all of them for no names.

    Raises
    ------
    ValueError
        For a name that is neither.
    """
    unknown = [name for name in names if name not in CASES and name not in GROUPS]
    if unknown:
        known = f"cases {', '.join(CASES)} and groups {', '.join(GROUPS)}"
        raise ValueError(f"no case or group is named {', '.join(unknown)}; there are {known}")
    return [case for case in TABLE if not names or case.name in names or case.group in names]
