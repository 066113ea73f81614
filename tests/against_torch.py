"""The same calls to this library and to torch: values, first and second gradients side by side.

A call names its arrays by shape; both libraries get the same numbers. Without torch, the tests that import this are
skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from tests.interrupts import EXHAUSTIVE

torch = pytest.importorskip("torch")


class A:
    """A float array, with a gradient unless said otherwise; `kind` is what is done to the numbers."""

    def __init__(
        self,
        *shape: int,
        low: float = -2.0,
        high: float = 2.0,
        grad: bool = True,
        kind: Callable[..., Any] | None = None,
    ) -> None:
        self.shape, self.low, self.high, self.grad, self.kind = shape, low, high, grad, kind

    def draw(self, rng: np.random.Generator) -> Any:
        drawn = rng.uniform(self.low, self.high, self.shape)
        return drawn if self.kind is None else self.kind(drawn)


class N:
    """Integers, or what is given."""

    def __init__(self, *shape: int, low: int = 0, high: int = 3, given: Any = None) -> None:
        self.shape, self.low, self.high, self.given = shape, low, high, given

    def draw(self, rng: np.random.Generator) -> Any:
        return rng.integers(self.low, self.high, self.shape) if self.given is None else np.array(self.given)


class Call:
    """Arguments of one call, and to which order torch has gradients."""

    def __init__(self, *args: Any, order: int = 2, tolerance: float = 1e-9, **kwargs: Any) -> None:
        self.args, self.order, self.tolerance, self.kwargs = args, order, tolerance, kwargs

    def __repr__(self) -> str:
        parts = [str(each.shape) if isinstance(each, (A, N)) else str(each) for each in flat(list(self.args))]
        return ",".join([*parts, *(f"{k}={getattr(v, 'shape', v)}" for k, v in self.kwargs.items())])


def put(library: str, value: Any, numbers: Any) -> Any:
    """An argument for one of the two libraries."""
    if not isinstance(value, (A, N)):
        return value
    wanted = isinstance(value, A) and value.grad
    if library == "torch":
        return torch.tensor(numbers, requires_grad=wanted)
    return mg.Tensor(numbers, requires_grad=wanted)


def flat(values: list[Any]) -> list[Any]:
    """Arguments, of which some may be lists of arrays."""
    return [each for value in values for each in (flat(value) if isinstance(value, list) else [value])]


def given(call: Call, library: str) -> tuple[list[Any], dict[str, Any], list[Any]]:
    """Arguments, and the leaves among them."""
    rng = np.random.default_rng(0)
    drawn: dict[int, Any] = {}

    def one(value: Any) -> Any:
        if isinstance(value, list):
            return [one(each) for each in value]
        if id(value) not in drawn or not isinstance(value, (A, N)):
            numbers = value.draw(rng) if isinstance(value, (A, N)) else None
            drawn[id(value)] = put(library, value, numbers)
        return drawn[id(value)]

    args, kwargs = [one(each) for each in call.args], {name: one(each) for name, each in call.kwargs.items()}
    if library == "torch" and isinstance(kwargs.get("dtype"), str):
        kwargs["dtype"] = getattr(torch, kwargs["dtype"])
    arrays = {id(v): v for v in flat([*call.args, *call.kwargs.values()]) if isinstance(v, A) and v.grad}
    leaves = [drawn[each] for each in arrays]
    return args, kwargs, leaves


def as_array(x: Any) -> Any:
    """The numbers of a tensor of either library."""
    return np.array(x.detach().numpy() if isinstance(x, mg.Tensor) else x.detach().numpy(force=True))


def parts(out: Any) -> list[Any]:
    return [each for each in (out if isinstance(out, tuple) else (out,)) if each is not None]


def weights(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape)


def run(call: Call, function: Callable[..., Any], library: str) -> list[Any]:
    """Values, gradients, gradients of gradients, and the arguments afterwards, as NumPy arrays."""
    args, kwargs, leaves = given(call, library)
    in_place = kwargs.get("inplace") or function.__name__.endswith("_")
    operands = [args[0] * 1, *args[1:]] if in_place else args
    if function.__name__ == "ctc_loss":  # torch's gradient is right only of logits that log_softmax comes after
        operands = [(torch if library == "torch" else mg).log_softmax(args[0], -1), *args[1:]]
    out = parts(function(*operands, **kwargs))
    if in_place:
        assert out[0] is operands[0]
    found = [as_array(each) for each in out]
    wrap: Any = torch.tensor if library == "torch" else mg.asarray
    for _ in range(call.order):  # a gradient that is not recorded is constant: its own are zeros, as are missing ones
        summed = [
            (x * wrap(weights(tuple(x.shape), 7 * i).astype(str(x.dtype).rpartition(".")[2]))).sum()
            for i, x in enumerate(out)
            if x is not None and x.requires_grad
        ]
        out = gradients(sum(summed[1:], summed[0]), leaves, library) if summed else [None] * len(leaves)
        shapes = [tuple(x.shape) for x in leaves]
        found += [np.zeros(n) if g is None else as_array(g) for n, g in zip(shapes, out, strict=True)]
    return found + [as_array(x) for x in args if hasattr(x, "detach")]


def gradients(total: Any, leaves: list[Any], library: str) -> list[Any]:
    if library == "torch":
        return list(torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True))
    for x in leaves:
        x.grad = None
    total.backward(create_graph=True)
    return [x.grad for x in leaves]


def sampled(calls: dict[str, list[Call]]) -> list[Any]:
    """The calls as parameters of a test: of a name with more than ten every third, unless all are asked for."""
    return [
        pytest.param(name, call, id=f"{name}-{call}"[:80])
        for name, each in calls.items()
        for i, call in enumerate(each)
        if EXHAUSTIVE or len(each) <= 10 or i % 3 == 2
    ]


def compare(call: Call, ours: Callable[..., Any], theirs: Callable[..., Any]) -> None:
    """Both, to the last digits."""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the other ones stop at first order
        expected = run(call, theirs, "torch")
    found = run(call, ours, "mg")
    assert [x.shape for x in found] == [x.shape for x in expected]
    for mine, its in zip(found, expected, strict=True):
        tolerance = 1e-5 if "dtype" in call.kwargs else call.tolerance
        np.testing.assert_allclose(mine, its, rtol=tolerance, atol=tolerance * 10)
