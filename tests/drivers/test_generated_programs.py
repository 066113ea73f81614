"""Generated functions with their gradients under `jit`, beside float64 on the cpu: ``GENERATED=400`` runs more."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Device, jit, plugins
from micrograd_core.nn import functional as F  # noqa: N812
from tests.adapters import toy_c, toy_groups

COUNT = int(os.environ.get("GENERATED", "8"))
SHAPES = [((4, 6), (6, 4), (4, 6)), ((2, 3, 8), (8, 8), (2, 3, 8)), ((33, 65), (65, 33), (33, 65))]


class Chosen(NamedTuple):
    """What a step may take: a value, one of its shape, a matrix that it may be multiplied with, and integers."""

    x: Any
    y: Any
    matrix: Any
    integers: Any


def rows(c: Chosen) -> Any:
    return c.integers % c.x.shape[0]


STEPS: dict[str, Callable[[Chosen], Any]] = {
    "exp": lambda c: (c.x * 0.3).tanh().exp(),
    "sin": lambda c: c.x.sin(),
    "add": lambda c: c.x + c.y,
    "multiply": lambda c: c.x * c.y.tanh(),
    "product": lambda c: c.x if c.matrix is None else c.x @ c.matrix * 0.2,
    "sum": lambda c: c.x.sum(axis=0) * 0.1 if c.x.ndim > 1 else c.x.cos(),
    "mean": lambda c: c.x.mean(axis=-1, keepdims=True) + c.x,
    "greatest": lambda c: c.x.sin().max(axis=-1) if c.x.ndim > 1 else c.x,
    "deviation": lambda c: c.x / (1 + c.x.std(axis=-1, keepdims=True, correction=0)),
    "softmax": lambda c: F.softmax(c.x, dim=-1),
    "norm": lambda c: F.layer_norm(c.x, c.x.shape[-1:]),
    "relu": lambda c: F.relu(c.x),
    "choice": lambda c: mg.where(c.x > c.y, c.x, c.y * 0.5),
    "backwards": lambda c: c.x[..., ::-1],
    "part": lambda c: c.x[..., 1:] if c.x.shape[-1] > 2 else c.x * 2,
    "transposed": lambda c: c.x.mT if c.x.ndim > 1 else c.x * 1.5,
    "flat": lambda c: c.x.reshape(-1) if c.x.ndim > 1 else c.x.reshape(1, -1),
    "joined": lambda c: mg.concat([c.x, c.y], axis=0) * 0.5 if c.x.shape[0] < 20 else c.x,
    "running": lambda c: mg.cumulative_sum(c.x, axis=-1) * 0.2,
    "sorted": lambda c: mg.sort(c.x, axis=-1),
    "taken": lambda c: mg.take(c.x, rows(c), axis=0) * 0.7,
    "embedded": lambda c: F.embedding(rows(c), c.x) if c.x.ndim == 2 else c.x * 1.1,
    "added": lambda c: mg.index_add(c.x, rows(c), mg.take(c.y, rows(c), axis=0), axis=0) * 0.3,
    "windows": lambda c: F.conv1d(c.x.reshape(1, 1, -1), mg.full((2, 1, 3), 0.2, device=c.x.device, dtype=c.x.dtype))[
        0
    ],
}


def function(seed: int) -> tuple[Callable[..., Any], list[Any]]:
    """A function of three arrays and integers: a loss, values on the way, gradients, moved parameters; and operands."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    picks = [(rng.choice([*STEPS]), rng.random(), rng.random()) for _ in range(rng.randint(6, 22))]

    def values(*given: Any) -> list[Any]:
        *found, integers = given
        for name, first, second in picks:
            x = found[int(first * len(found))]
            alike = [each for each in found if each.shape == x.shape]
            fit = [each for each in found if each.ndim == 2 and each.shape[0] == x.shape[-1]]
            pick = Chosen(x, alike[int(second * len(alike))], fit[int(second * len(fit))] if fit else None, integers)
            found.append(STEPS[name](pick) if x.size < 4000 else x * 0.5)
        return found[-4:]

    def loss(*given: Any) -> Any:
        found = values(*given)
        return sum(((each * each).mean() for each in found), start=0 * given[0].sum()), tuple(found)

    def f(*given: Any) -> Any:
        (total, found), gradients = mg.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(*given)
        moved = [p * 0.9 - g * g for p, g in zip(given, gradients, strict=False)]
        return (total, *found, *gradients, *moved)

    operands = [numbers.standard_normal(shape).astype(np.float32) for shape in rng.choice(SHAPES)]
    return f, [*operands, numbers.integers(0, 50, 5)]


@pytest.fixture(scope="module")
def toy() -> Iterator[Device]:
    plugins.register("toy-groups", toy_groups.Plugin())
    yield Device("toy-groups:1")
    plugins.unregister("toy-groups")


def judged(seed: int, device: Device) -> None:
    """As near to float64 as the cpu's float32 is, and a bit more; compiled once, and called again."""
    f, operands = function(seed)

    def found(run: Callable[..., Any], where: Device, dtype: str) -> list[Any]:
        given = [mg.asarray(x.astype(dtype) if x.dtype == np.float32 else x, device=where) for x in operands]
        return [np.asarray(x.to("cpu")) for x in run(*given)]

    wide, narrow = (found(f, Device("cpu"), dtype) for dtype in ("float64", "float32"))
    compiled = jit(f)
    for _ in range(2):
        for x, exact, near in zip(found(compiled, device, "float32"), wide, narrow, strict=True):
            assert x.shape == exact.shape
            scale = max(np.abs(exact).max(initial=0), 1e-3)
            apart, rounded = (np.abs(each - exact).max(initial=0) / scale for each in (x, near))
            assert apart <= 2e-5 + 30 * rounded, (apart, rounded)


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_generated_function_on_a_driver(seed: int, driver: Device) -> None:
    judged(seed, driver)


@pytest.mark.skipif(toy_c.COMPILER is None, reason="there is no C compiler")
@pytest.mark.parametrize("seed", range(COUNT))
def test_a_generated_function_on_a_toy_with_workgroups(seed: int, toy: Device) -> None:
    judged(seed, toy)


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_generated_function_on_the_cpu(seed: int) -> None:
    judged(seed, Device("cpu"))
