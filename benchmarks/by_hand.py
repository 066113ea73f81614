"""Gradients worked out by hand in NumPy: what a case costs without an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def multiply_sum(x: Any, y: Any) -> Any:
    return (x * y).sum(), (y.copy(), x.copy())


def chain(x: Any, y: Any, z: Any) -> Any:
    steps = []
    for _ in range(500):
        steps.append(x)
        x = x * y + z
    g, g_y, g_z = np.ones_like(x), np.zeros_like(y), np.zeros_like(z)
    for step in reversed(steps):
        g_z += g
        g_y += g * step
        g = g * y
    return x.sum(), (g, g_y, g_z)


def elementwise(x: Any, y: Any) -> Any:
    t = np.tanh(x * y + x)
    g = 1 - t * t
    return t.sum(), (g * y + g, g * x)


def product_and_elements(x: Any, y: Any) -> Any:
    z = np.maximum(x @ y + x * y, 0)
    g = (z > 0).astype(x.dtype)
    return z.sum(), (g @ y.T + g * y, x.T @ g + g * x)


def matmul(x: Any, y: Any) -> Any:
    z = x @ y
    g = 2 * z
    return (z * z).sum(), (g @ y.T, x.T @ g)


def perceptron(x: Any, targets: Any, *parameters: Any) -> Any:
    inputs = [x]
    for i in range(0, len(parameters) - 2, 2):
        inputs.append(np.maximum(inputs[-1] @ parameters[i].T + parameters[i + 1], 0))
    logits = inputs[-1] @ parameters[-2].T + parameters[-1]
    logits -= logits.max(axis=1, keepdims=True)
    e = np.exp(logits)
    total = e.sum(axis=1, keepdims=True)
    rows = np.arange(len(targets))
    loss = (np.log(total[:, 0]) - logits[rows, targets]).mean()
    g = e / total
    g[rows, targets] -= 1
    g /= np.float32(len(targets))
    gradients: list[Any] = []
    for i in range(len(parameters) - 2, -1, -2):
        gradients[:0] = [g.T @ inputs[i // 2], g.sum(axis=0)]
        if i:
            g = (g @ parameters[i]) * (inputs[i // 2] > 0)
    return loss, gradients


BY_HAND: dict[str, Callable[..., Any]] = {
    "multiply-sum": multiply_sum,
    "chain-1000": chain,
    **dict.fromkeys(("elementwise-100", "elementwise-1000", "elementwise-3200"), elementwise),
    "relu-sum": product_and_elements,
    "matmul-512": matmul,
    "training": perceptron,
}
"""Value and gradients of a case, or of all cases of a kind."""
