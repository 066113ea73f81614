"""Attention's weights in one kernel each way, and products of heads, whichever way these lie: numbers and launches."""

from __future__ import annotations

import math
import os
import random
from typing import Any

import numpy as np
import pytest

import host
from cases import NO_COMPILER
from micrograd_core import Device, Tensor
from micrograd_core.array.functions import FUNCTIONS
from micrograd_cuda import gemm

DEVICE = "cuda" if Device.is_cuda_available() else "played"
pytestmark = pytest.mark.skipif(DEVICE == "played" and host.COMPILER is None, reason=NO_COMPILER)

TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 5e-6, "float64": 1e-12}
MASKS = ("none", "matrix", "sources", "targets", "batch", "whole", "turned", "heads")


def tensor(a: Any, dtype: str) -> Tensor:
    """On the device; bools stay bools."""
    x = Tensor(a, device=DEVICE, requires_grad=False)
    return x if a.dtype == bool else x.astype(dtype)


def mask_of(kind: str, boolean: bool, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """A mask as rows, columns or wholes of scores, in numbers that all dtypes have; some rows are hidden."""
    batch, heads, targets, sources = shape
    shapes = {
        "matrix": (targets, sources), "sources": (batch, 1, 1, sources), "targets": (targets, 1),
        "heads": (heads, 1, 1), "batch": (batch, 1, targets, sources), "whole": shape, "turned": (sources, targets),
    }  # fmt: skip
    made = rng.random(shapes[kind]) < 0.7
    if made.shape[-1] > 1 and made.shape[-2] > 2:
        made[..., 1, :] = False
    made = made if boolean else np.where(made, rng.integers(-4, 5, made.shape) / 4, -np.inf)
    return made.astype(bool if boolean else "float64")


def expected(scores: Any, mask: Any, causal: bool) -> tuple[Any, Any]:
    """Weights by their definition, and the scores that they are of."""
    scores = scores.astype("float64")
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = np.max(scores, axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total), scores


SHAPES = [(1, 1, 1, 1), (2, 3, 5, 8), (2, 2, 3, 7), (1, 2, 9, 64), (1, 1, 4, 514), (1, 1, 3, 1030), (2, 1, 12, 6)]
LONG = (1, 1, 3, 65544)  # beyond what registers keep
ALL = os.environ.get("MICROGRAD_EXHAUSTIVE") == "1"
COMBINATIONS = [
    (shape, dtype, kind, boolean, causal)
    for shape in [*SHAPES, LONG]
    for dtype in TOLERANCE
    for kind in MASKS
    for boolean in (True, False)
    for causal in (True, False)
    if kind != "none" or boolean
]


@pytest.mark.parametrize(
    ("shape", "dtype", "kind", "boolean", "causal"), COMBINATIONS if ALL else random.Random(5).sample(COMBINATIONS, 40)
)
def test_weights_and_their_gradient(shape: Any, dtype: str, kind: str, boolean: bool, causal: bool) -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(-16, 17, shape) / 8  # which every dtype has
    mask = None if kind == "none" else mask_of(kind, boolean, shape, rng)
    given = 0.0 if mask is None else tensor(mask, dtype)
    if kind == "turned":
        mask, given = mask.T, given.mT
    x = tensor(scores, dtype)
    weights, _ = expected(scores, mask, causal)
    out = FUNCTIONS["attention_weights"](x, given, is_causal=causal)
    assert str(out.dtype) == dtype
    found = np.asarray(out.astype("float64").tolist())
    np.testing.assert_allclose(found, weights, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    np.testing.assert_array_equal(found[weights == 0], 0)
    g = rng.integers(-8, 9, shape) / 8
    moved = FUNCTIONS["attention_weights_gradient"](tensor(g, dtype), out, is_causal=causal)
    wanted = found * (g - (g * found).sum(axis=-1, keepdims=True))
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(np.asarray(moved.astype("float64").tolist()), wanted, rtol=tolerance, atol=tolerance)


def test_what_a_causal_row_does_not_see_may_be_no_number() -> None:
    x = np.where(np.tri(6, 8, dtype=bool), 1.0, np.nan)
    out = FUNCTIONS["attention_weights"](tensor(x, "float32"), is_causal=True)
    np.testing.assert_allclose(out.detach().numpy(), np.tri(6, 8) / np.arange(1, 7)[:, None], rtol=1e-6)


@pytest.mark.parametrize("top", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_as_in_softmax(top: float) -> None:
    x = np.array([[1.0, top, 2.0, 0.5], [0.0, 1.0, 2.0, 3.0], [top] * 4])
    plain = FUNCTIONS["softmax"](tensor(x, "float32"), axis=-1).detach().numpy()
    np.testing.assert_array_equal(FUNCTIONS["attention_weights"](tensor(x, "float32")).numpy(), plain)


# ── products of heads ────────────────────────────────────────────────────────────────────────────────────────


def laid(rng: np.random.Generator, batch: tuple[int, ...], rows: int, columns: int, pick: random.Random) -> Any:
    """Matrices whose batch, rows and columns are in memory in any order, with other numbers between."""
    shape = (*batch, rows, columns)
    order = list(range(len(shape)))
    if pick.random() < 0.8:
        pick.shuffle(order)
    room = [shape[axis] * pick.choice([1, 1, 2]) for axis in order]
    memory = rng.integers(-4, 5, room) / 4
    view = memory[tuple(slice(0, shape[axis]) for axis in order)]
    return memory, tuple(slice(0, shape[axis]) for axis in order), np.argsort(order), view


@pytest.mark.parametrize("seed", range(400 if ALL else 60))
def test_batches_are_multiplied_whichever_way_they_lie(seed: int, anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """By copies, and by several calls."""
    pick, rng = random.Random(seed), np.random.default_rng(seed)
    monkeypatch.setattr(gemm, "COPIED", pick.choice([0, gemm.COPIED]))
    dtype = pick.choice(["float16", "bfloat16", "float32", "float64"])
    batch = tuple(pick.choice([1, 2, 3]) for _ in range(pick.randrange(4)))
    n, k, m = (pick.choice([1, 2, 5]) for _ in range(3))
    sides = []
    for rows, columns in ((n, k), (k, m)):
        own = tuple(1 if pick.random() < 0.2 else each for each in batch)
        own = own[pick.randrange(len(own) + 1) if pick.random() < 0.2 else 0 :]
        memory, key, order, view = laid(rng, own, rows, columns, pick)
        x = tensor(memory, dtype)[key].permute_dims(tuple(map(int, order)))
        sides.append((x, view.transpose(order)))
    (x, a), (y, b) = sides
    found = (x @ y).astype("float64")
    np.testing.assert_array_equal(np.asarray(found.tolist()).reshape(found.shape), a @ b)


# ── gradients of what is selected ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(400 if ALL else 60))
def test_what_a_key_selects_has_its_gradient_where_it_came_from(seed: int) -> None:
    """Whichever way the cotangent lies."""
    pick, rng = random.Random(seed), np.random.default_rng(seed)
    dtype = pick.choice(["float16", "bfloat16", "float32", "float64"])
    shape = tuple(pick.choice([1, 2, 3, 8, 16]) for _ in range(pick.randrange(1, 5)))
    key: list[Any] = []
    for length in shape:
        start, step = pick.randrange(length), pick.choice([1, 1, 2, -1])
        whole = pick.random() < 0.5
        entry = slice(None) if whole else pick.choice([start, slice(start, None, step), slice(None, start + 1, 1)])
        key += [None, entry] if pick.random() < 0.1 else [entry]
    place = np.zeros(shape)[tuple(key)].shape
    memory, cut, order, view = laid(rng, place, 1, 1, pick)
    g, a = tensor(memory, dtype)[cut].permute_dims(tuple(map(int, order))), view.transpose(order)
    found = FUNCTIONS["getitem_gradient"](g[..., 0, 0], shape=shape, key=tuple(key))
    expected = np.zeros(shape)
    expected[tuple(key)] = a[..., 0, 0]
    np.testing.assert_array_equal(np.asarray(found.astype("float64").tolist()).reshape(shape), expected)
