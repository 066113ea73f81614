"""Rows of any length against float64 NumPy, on the host and as the PTX that a GPU gets; what that reads and writes.

A sample of lengths, dtypes and functions; all of them with MICROGRAD_EXHAUSTIVE=1 in the environment.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from functools import cache
from typing import Any

import array_api_compat.numpy as xp
import numpy as np
import pytest

import nvrtc
from cases import played_only
from counted import CountedRuntime, counts, numbers
from host import Arrays, HostRuntime
from micrograd_cuda.kernels import table

pytestmark = [played_only, pytest.mark.skipif(nvrtc.library() is None, reason=nvrtc.MISSING)]
pytest.importorskip("ml_dtypes")

TOLERANCE = {"bfloat16": 1e-2, "float16": 2e-3, "float32": 5e-6, "float64": 1e-12}
LENGTHS = (1, 7, 8191, 32_769, 50_257)
RUNTIMES: dict[str, Callable[[], HostRuntime]] = {"host": HostRuntime, "ptx": CountedRuntime}


@cache
def kernels(runtime: str) -> tuple[dict[str, Any], HostRuntime]:
    found = RUNTIMES[runtime]()
    return table(Arrays(xp), found), found


def logits(runtime: HostRuntime, columns: int, dtype: str) -> Any:
    """Five rows: plain ones; far from 0; with what no softmax sees; of nothing else; and one that has no softmax."""
    x = numbers(runtime, (5, columns), dtype)
    x[1] = (x[1].astype("float64") * 3 + 70).astype(x.dtype)
    x[2, ::2] = -np.inf
    if columns > 1:
        x[2, 1] = 3
    x[3] = -np.inf
    x[4, columns // 2] = np.inf
    return x


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def log_softmax(x: Any) -> Any:
    shifted = x - x.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def slope(x: Any, targets: Any) -> Any:
    """The gradient of the sum of the losses."""
    hot = np.arange(x.shape[1]) == targets[:, None]
    return (softmax(x) - hot) * (targets >= 0)[:, None]


def check(found: Any, expected: Any, dtype: str, scale: float = 1.0) -> None:
    tolerance = TOLERANCE[dtype] * scale
    np.testing.assert_allclose(np.asarray(found, "float64"), expected, rtol=tolerance, atol=tolerance)


def of_softmax(name: str) -> Callable[..., None]:
    def checked(k: dict[str, Any], runtime: HostRuntime, columns: int, dtype: str) -> None:
        x = logits(runtime, columns, dtype)
        wide = x.astype("float64")
        with np.errstate(all="ignore"):
            expected = {"softmax": softmax, "log_softmax": log_softmax}[name](wide)
        check(k[name](x, axis=1), expected, dtype, 40)

    return checked


def of_logsumexp(k: dict[str, Any], runtime: HostRuntime, columns: int, dtype: str) -> None:
    x = logits(runtime, columns, dtype)
    wide = x.astype("float64")
    top = wide.max(axis=1)
    with np.errstate(all="ignore"):
        finite = top + np.log(np.exp(wide - top[:, None]).sum(axis=1))
    check(k["logsumexp"](x, axis=(1,), keepdims=False), np.where(np.isfinite(top), finite, top), dtype, 4)


def of_gradient(name: str) -> Callable[..., None]:
    def checked(k: dict[str, Any], runtime: HostRuntime, columns: int, dtype: str) -> None:
        g, out = numbers(runtime, (3, columns), dtype, 1), numbers(runtime, (3, columns), dtype, 2)
        a, b = g.astype("float64"), out.astype("float64")
        total = (a * b if name == "softmax_gradient" else a).sum(axis=1, keepdims=True)
        expected = b * (a - total) if name == "softmax_gradient" else a - np.exp(b) * total
        scale = 1 + np.abs(total).max() * np.exp(np.abs(b).max()) / 10
        check(k[name](g, out, axis=1), expected, dtype, scale)

    return checked


def of_cross_entropy(k: dict[str, Any], runtime: HostRuntime, columns: int, dtype: str) -> None:
    x, targets = logits(runtime, columns, dtype), np.array([columns - 1, 0, -100, min(1, columns - 1), 0])
    x[3] = x[0]
    x[3, :-1] = -np.inf  # its target may have no chance
    x[4], targets[4] = x[1], -100
    wide, kept = x.astype("float64"), targets >= 0
    with np.errstate(all="ignore"):
        losses = np.where(kept, -log_softmax(wide)[np.arange(5), np.maximum(targets, 0)], 0)
        gradient = slope(wide, targets)
    g = numbers(runtime, (), dtype)
    for reduction in ("none", "sum", "mean"):
        found = k["cross_entropy"](x, targets, 1.0, reduction=reduction)
        total = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / kept.sum()}[reduction]
        check(found, total, dtype, 40)
        each = g if reduction != "none" else np.broadcast_to(g, 5).copy()
        share = float(g) / (kept.sum() if reduction == "mean" else 1)
        found = k["cross_entropy_gradient"](each, x, targets, 1.0, reduction=reduction)
        check(found, gradient * share, dtype)


CHECKS: dict[str, Callable[..., None]] = {
    "softmax": of_softmax("softmax"),
    "log_softmax": of_softmax("log_softmax"),
    "logsumexp": of_logsumexp,
    "softmax_gradient": of_gradient("softmax_gradient"),
    "log_softmax_gradient": of_gradient("log_softmax_gradient"),
    "cross_entropy": of_cross_entropy,
}
ALL = list(itertools.product(CHECKS, LENGTHS, TOLERANCE, RUNTIMES))
STEP = 1 if os.environ.get("MICROGRAD_EXHAUSTIVE") == "1" else 13  # prime to all counts: each kind of case stays


@pytest.mark.parametrize(("name", "columns", "dtype", "runtime"), ALL[::STEP])
def test_rows_of_any_length_are_numpys(name: str, columns: int, dtype: str, runtime: str) -> None:
    k, found = kernels(runtime)
    if runtime == "ptx" and dtype == "float64" and columns > 8191:
        pytest.skip("too slow, and the same text as on the host")
    with np.errstate(all="ignore"):
        CHECKS[name](k, found, columns, dtype)


# ── what is read and written ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("columns", [4097, 50_257])
def test_a_loss_reads_each_logit_once_and_its_gradient_too_and_writes_once(columns: int) -> None:
    def forward(k: dict[str, Any], runtime: CountedRuntime) -> Callable[[], Any]:
        x, targets = numbers(runtime, (3, columns), "bfloat16"), np.array([5, -100, columns - 1])
        return lambda: k["cross_entropy"](x, targets, 1.0, reduction="mean")

    def backward(k: dict[str, Any], runtime: CountedRuntime) -> Callable[[], Any]:
        x, targets = numbers(runtime, (3, columns), "bfloat16"), np.array([5, -100, columns - 1])
        k["cross_entropy"](x, targets, 1.0, reduction="mean")
        g = numbers(runtime, (), "bfloat16")
        return lambda: k["cross_entropy_gradient"](g, x, targets, 1.0, reduction="mean")

    size = 3 * columns * 2
    once = counts(forward)
    assert once.launches == 1
    assert once.read <= 1.02 * size
    assert once.written <= 0.02 * size
    again = counts(backward)
    assert again.launches == 1
    assert again.read <= 1.5 * size  # each thread reads its row's statistics, which the cache has
    assert size <= again.written <= 1.001 * size


def test_rows_of_odd_length_are_about_as_cheap_as_even_ones() -> None:
    """What lies before the first whole pack and behind the last is little."""

    def softmax_of(columns: int) -> float:
        def work(k: dict[str, Any], runtime: CountedRuntime) -> Callable[[], Any]:
            x = numbers(runtime, (2, columns), "float16")
            return lambda: k["softmax"](x, axis=1)

        return counts(work).instructions / columns

    assert softmax_of(4097) <= 1.15 * softmax_of(4096)
    assert softmax_of(50_257) <= 1.15 * softmax_of(50_256)


# ── what the gradient finds ──────────────────────────────────────────────────────────────────────────────────


def gradient_launches(before: Callable[[dict[str, Any], HostRuntime, Any, Any], tuple[Any, Any]]) -> list[str]:
    """Of the gradient of the mean of losses whose sum has been computed; `before` may change what it is given."""
    k, runtime = kernels("host")
    x, targets = numbers(runtime, (3, 10), "float32"), np.array([1, 2, -100])
    k["cross_entropy"](x, targets, 1.0, reduction="sum")
    x, targets = before(k, runtime, x, targets)
    del runtime.launched[:]
    found = k["cross_entropy_gradient"](numbers(runtime, (), "float32"), x, targets, 1.0, reduction="mean")
    launched = [unit.family for unit in runtime.launched]
    g, kept = float(numbers(runtime, (), "float32")), targets >= 0
    expected = slope(x.astype("float64"), targets) * g / kept.sum()
    check(found, expected, "float32")
    return launched


def test_a_gradient_finds_what_the_loss_computed_of_the_same_operands() -> None:
    assert gradient_launches(lambda k, runtime, x, targets: (x, targets)) == ["cross_entropy_gradient"]


def other_targets(k: dict[str, Any], runtime: HostRuntime, x: Any, targets: Any) -> tuple[Any, Any]:
    return x, np.array([1, -100, -100])


def other_logits(k: dict[str, Any], runtime: HostRuntime, x: Any, targets: Any) -> tuple[Any, Any]:
    return x + 1, targets


def changed_logits(k: dict[str, Any], runtime: HostRuntime, x: Any, targets: Any) -> tuple[Any, Any]:
    x[0] *= 2
    runtime.remembered.forget()
    return x, targets


@pytest.mark.parametrize("before", [other_targets, other_logits, changed_logits])
def test_it_computes_it_anew_for_others(before: Any) -> None:
    assert gradient_launches(before) == ["cross_entropy", "cross_entropy_gradient"]
