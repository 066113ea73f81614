"""What is computed: one table of cases, each a program that every peer runs on the same numbers.

A program is written once, against operators and the few functions of a peer ``p``: `relu`, `sum`, `tanh` and
`cross_entropy`. Its kind says what is timed, and names the method of a peer that prepares it:

- ``operation``: the program forward, recording what a gradient would need;
- ``gradient``: forward to a scalar, and backward to all inputs;
- ``training``: forward, backward and the optimiser's update of a multi-layer perceptron;
- ``network``: as ``gradient``, of a layer or loss that only peers with such functions have;
- ``model``: as ``training``, of a model that is written in functions of such peers;
- ``scalars``: as ``gradient``, on scalars instead of arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, pairwise
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


def images_and_classes(rng: np.random.Generator) -> Arrays:
    """A batch of digits' size, and the weights of two convolutions and a linear layer."""
    arrays: Arrays = {"x": rng.uniform(size=(64, 1, 8, 8)).astype("float32"), "targets": rng.integers(10, size=64)}
    shapes: dict[str, tuple[int, ...]] = {
        "convolution0": (16, 1, 3, 3),
        "convolution1": (32, 16, 3, 3),
        "linear": (10, 128),
    }
    for name, shape in shapes.items():
        bound = np.prod(shape[1:]) ** -0.5
        arrays[f"{name}_weight"] = rng.uniform(-bound, bound, shape).astype("float32")
        arrays[f"{name}_bias"] = rng.uniform(-bound, bound, shape[0]).astype("float32")
    return arrays


STRIDES = (1, 1, 2, 1, 2, 1, 2, 1)
"""Of the blocks of ResNet-18: with each stride of 2 there are twice as many channels."""


def small_images_and_classes(rng: np.random.Generator) -> Arrays:
    """A batch of CIFAR's size, and the parameters of ResNet-18."""
    arrays: Arrays = {"x": rng.normal(size=(8, 3, 32, 32)).astype("float32"), "targets": rng.integers(10, size=8)}
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7)]
    width = 64
    for stride in STRIDES:
        before, width = width, width * stride
        shapes += [(width, before, 3, 3), (width, width, 3, 3), *[(width, before, 1, 1)] * (stride - 1)]
    for i, shape in enumerate(shapes):
        scale = (2 / np.prod(shape[1:])) ** 0.5
        arrays[f"convolution{i}"] = rng.normal(0, scale, shape).astype("float32")
        arrays[f"norm{i}_weight"] = rng.uniform(0.9, 1.1, shape[0]).astype("float32")
        arrays[f"norm{i}_bias"] = rng.uniform(-0.1, 0.1, shape[0]).astype("float32")
    arrays["linear_weight"] = rng.normal(0, width**-0.5, (10, width)).astype("float32")
    arrays["linear_bias"] = np.zeros(10, "float32")
    return arrays


def block_parameters(rng: np.random.Generator, name: str, width: int) -> Arrays:
    """Of a transformer's block: norms, projections to and from the heads, a perceptron four times as wide."""
    arrays: Arrays = {}
    shapes = {
        "project": (3 * width, width),
        "merge": (width, width),
        "up": (4 * width, width),
        "down": (width, 4 * width),
    }
    for norm in ("norm0", "norm1"):
        arrays[f"{name}_{norm}_weight"] = rng.uniform(0.9, 1.1, width).astype("float32")
        arrays[f"{name}_{norm}_bias"] = rng.uniform(-0.1, 0.1, width).astype("float32")
    for layer, (outputs, inputs) in shapes.items():
        arrays[f"{name}_{layer}_weight"] = rng.normal(0, inputs**-0.5, (outputs, inputs)).astype("float32")
        if layer != "project":  # a bias of keys changes nothing: its gradient would be rounding alone
            arrays[f"{name}_{layer}_bias"] = rng.normal(0, 0.02, outputs).astype("float32")
    return arrays


def block_arrays(rng: np.random.Generator) -> Arrays:
    """A batch of vectors, and the parameters of a block."""
    return {"x": rng.normal(size=(4, 64, 128)).astype("float32"), **block_parameters(rng, "block", 128)}


def text_and_parameters(rng: np.random.Generator) -> Arrays:
    """Characters and those after them, and the 358 961 parameters of a transformer of four blocks, 84 wide."""
    count, length, width = 65, 64, 84
    text = rng.integers(count, size=(16, length + 1))
    arrays: Arrays = {"x": text[:, :-1].copy(), "targets": text[:, 1:].reshape(-1)}
    arrays["tokens"] = rng.normal(0, 0.1, (count, width)).astype("float32")
    arrays["places"] = rng.normal(0, 0.1, (length, width)).astype("float32")
    for i in range(4):
        arrays |= block_parameters(rng, f"block{i}", width)
    arrays["norm_weight"], arrays["norm_bias"] = np.ones(width, "float32"), np.zeros(width, "float32")
    arrays["head_weight"] = rng.normal(0, width**-0.5, (count, width)).astype("float32")
    arrays["head_bias"] = np.zeros(count, "float32")
    return arrays


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


def convolutions(p: Any, x: Any, targets: Any, *parameters: Any) -> Any:
    """Two convolutions, each pooled, and a linear layer."""
    for i in (0, 2):
        x = p.max_pool2d(p.relu(p.conv2d(x, parameters[i], parameters[i + 1], padding=1)), 2)
    return p.cross_entropy(p.linear(x.reshape((x.shape[0], -1)), *parameters[4:]), targets)


def residual_network(p: Any, x: Any, targets: Any, *parameters: Any) -> Any:
    """ResNet-18: of images of 32 × 32, its last blocks see 1 × 1."""
    left = iter(parameters)

    def layer(x: Any, stride: int) -> Any:
        weight, *rows = islice(left, 3)
        return p.batch_norm(p.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2), *rows)

    x = p.max_pool2d(p.relu(layer(x, 2)), 2)
    for stride in STRIDES:
        y = layer(p.relu(layer(x, stride)), 1)
        x = p.relu(y + (layer(x, stride) if stride > 1 else x))
    return p.cross_entropy(p.linear(x.reshape((x.shape[0], -1)), *left), targets)


HEADS = 4  # at least, and one for 64 features
BLOCK = 11
"""Parameters of a block."""


def block(p: Any, x: Any, *parameters: Any) -> Any:
    """Attention to what came before, then a perceptron at each position, each added to what it read."""
    project = parameters[4]
    norm0, norm1, merge, up, down = (parameters[i : i + 2] for i in (0, 2, 5, 7, 9))
    batch, length, width = x.shape
    count = max(HEADS, width // 64)
    heads = p.linear(p.layer_norm(x, *norm0), project).reshape((batch, length, 3, count, width // count))
    query, key, value = (p.permute(heads[:, :, i], (0, 2, 1, 3)) for i in range(3))
    seen = p.causal_attention(query, key, value)
    x = x + p.linear(p.permute(seen, (0, 2, 1, 3)).reshape((batch, length, width)), *merge)
    return x + p.linear(p.gelu(p.linear(p.layer_norm(x, *norm1), *up)), *down)


def squared_block(p: Any, x: Any, *parameters: Any) -> Any:
    """A scalar of it."""
    return squared(p, block(p, x, *parameters))


def gpt(p: Any, x: Any, targets: Any, tokens: Any, places: Any, *parameters: Any) -> Any:
    """The cross-entropy of the next characters."""
    x = p.embedding(x, tokens) + places
    for i in range(0, len(parameters) - 4, BLOCK):
        x = block(p, x, *parameters[i : i + BLOCK])
    logits = p.linear(p.layer_norm(x, *parameters[-4:-2]), *parameters[-2:])
    return p.cross_entropy(logits.reshape((-1, logits.shape[-1])), targets)


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
        tolerance=1e-3,  # of a million numbers that cancel
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
            tolerance=1e-3,
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
            # Adam divides by the size of gradients, so that the rounding of the smallest shows; and of half a million
            # activations one may be so near 0 that it is rounded to the other side.
            tolerance=1e-3 if batch == 128 else 1e-2,
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
        "attention-block",
        "compiled",
        "network",
        "sum(block(x) ** 2), (4, 64, 128), 4 heads, and gradients",
        squared_block,
        block_arrays,
    ),
    Case(
        "gpt",
        "compiled",
        "model",
        "step of a GPT, 4 blocks 84 wide, 360 k parameters, batch 16 of 64 characters, Adam",
        gpt,
        text_and_parameters,
        optimizer="adam",
        tolerance=3e-3,  # likewise
    ),
    Case(
        "cnn-digits",
        "compiled",
        "model",
        "step of a CNN on digits, 1-16-32 channels, batch 64, Adam",
        convolutions,
        images_and_classes,
        optimizer="adam",
        tolerance=3e-3,
    ),
    Case(
        "resnet-18",
        "networks",
        "network",
        "cross_entropy(ResNet-18), 11 M parameters, batch 8 of (3, 32, 32), and gradients",
        residual_network,
        small_images_and_classes,
        tolerance=3e-2,  # an activation near 0 that is rounded to the other side counts, of norms of 8 numbers
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

PRODUCED = (matmul_squared, perceptron, squared_block, gpt)
"""Programs that are products of matrices above all."""

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
