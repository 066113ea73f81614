"""What one types, inside transforms and in other dtypes: calls that are held against torch, by `jit`, `vmap`, dtype.

The calls are those of the tables that hold functions and methods against torch in value and both gradients. CI takes
some, ``MICROGRAD_EXHAUSTIVE=1`` all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core.nn import functional as F  # noqa: N812
from tests.against_torch import A, Call, N, flat
from tests.array.test_names_torch import METHODS, SAME
from tests.interrupts import EXHAUSTIVE
from tests.nn.test_functional_torch import CALLS

READ = {
    "histogram": "reads the extremes", "masked_select": "has as many elements as the mask says",
    "one_hot": "reads the greatest class", "dim": "is a number",
    "numel": "is a number", "is_floating_point": "is an answer",
}  # fmt: skip
"""What is no function of a tensor whose numbers are not known yet."""


def method(name: str) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


TYPED: dict[str, tuple[Callable[..., Any], list[Call]]] = {
    **{f"F.{name}": (getattr(F, name), calls) for name, calls in CALLS.items()},
    **{f"mg.{name}": (getattr(mg, name), calls) for name, calls in SAME.items() if hasattr(mg, name)},
    **{f"x.{name}": (method(name), calls) for name, calls in METHODS.items() if name not in SAME},
}
EVERY = [(function, call, name) for name, (function, calls) in TYPED.items() for call in calls]


def some(step: int) -> list[Any]:
    """All calls, or one of so many."""
    chosen = EVERY if EXHAUSTIVE else EVERY[::step]
    return [pytest.param(*each, id=f"{each[2]}-{each[1]}"[:80]) for each in chosen]


class Bound:
    """A call as a function of its floating arrays, which are drawn as often as asked for."""

    def __init__(self, function: Callable[..., Any], call: Call, name: str) -> None:
        self.function, self.call, self.name = function, call, name
        every = flat([*call.args, *call.kwargs.values()])
        self.arrays = list({id(each): each for each in every if isinstance(each, A)}.values())

    def draw(self, seed: int, dtype: str = "float64") -> list[Any]:
        rng = np.random.default_rng(seed)
        return [np.asarray(each.draw(rng), dtype) for each in self.arrays]

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        places = {id(each): x for each, x in zip(self.arrays, tensors, strict=True)}
        rng = np.random.default_rng(7)

        def put(value: Any) -> Any:
            if isinstance(value, list):
                return [put(each) for each in value]
            if isinstance(value, N):
                drawn = mg.asarray(value.draw(rng))
                return drawn.astype(tensors[0].dtype) if drawn.dtype.is_floating and tensors else drawn
            return places[id(value)] if isinstance(value, A) else value

        args = [put(each) for each in self.call.args]
        kwargs = {key: put(each) for key, each in self.call.kwargs.items()}
        if kwargs.get("inplace") or self.name.endswith("_"):
            args[0] = args[0] * 1
        if self.name.endswith("_norm"):  # running statistics are changed
            args = [args[0], *(x * 1 if isinstance(x, mg.Tensor) else x for x in args[1:])]
        found = self.function(*args, **kwargs)
        found = found if isinstance(found, (tuple, list)) else (found,)
        return tuple(each for each in found if each is not None)


def numbers(found: Any) -> list[Any]:
    return [np.array(each.numpy()) for each in found]


def same(found: Any, expected: Any, rtol: float = 1e-9, atol: float = 1e-9) -> None:
    assert len(found) == len(expected)
    for mine, its in zip(found, expected, strict=True):
        assert mine.shape == its.shape
        np.testing.assert_allclose(mine.astype("complex128"), its.astype("complex128"), rtol=rtol, atol=atol)


def slopes(bound: Bound) -> Callable[..., tuple[Any, ...]]:
    """The gradients of what is floating among the results."""

    def total(*tensors: Any) -> Any:
        return sum(
            ((i + 1) * (x * x).sum() for i, x in enumerate(bound(*tensors)) if x.dtype.is_floating),
            mg.zeros((), dtype="float64"),
        )

    return mg.grad(total, argnums=tuple(range(len(bound.arrays))))  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("function", "call", "name"), some(13))
def test_jit_and_vmap_give_the_same(function: Callable[..., Any], call: Call, name: str) -> None:
    bound, bare = Bound(function, call, name), name.partition(".")[2]
    if bare in READ or not bound.arrays or (bare == "quantile" and len(bound.arrays) > 1):  # which reads its levels
        return
    near = 1e-5 if "dtype" in call.kwargs else 1e-9
    first, second = (list(map(mg.asarray, bound.draw(seed))) for seed in (0, 1))
    expected = [numbers(bound(*each)) for each in (first, second)]
    compiled = mg.jit(bound)
    for each, its in zip((first, second), expected, strict=True):
        same(numbers(compiled(*each)), its, near)
    rows = [mg.stack([x, y]) for x, y in zip(first, second, strict=True)]
    same(numbers(mg.vmap(bound)(*rows)), [np.stack(pair) for pair in zip(*expected, strict=True)], near)
    if any(x.dtype.is_floating for x in bound(*first)):
        gradient = slopes(bound)
        wanted = [numbers(gradient(*each)) for each in (first, second)]
        same(numbers(mg.jit(gradient)(*first)), wanted[0], near, 1e-7)
        same(numbers(mg.vmap(gradient)(*rows)), [np.stack(pair) for pair in zip(*wanted, strict=True)], near, 1e-7)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("function", "call", "name"), some(10))
def test_other_dtypes_are_kept_and_near(function: Callable[..., Any], call: Call, name: str, dtype: str) -> None:
    """Of the numbers as the dtype has them, what float64 gives, to the digits of the dtype."""
    bound = Bound(function, call, name)
    bare = name.partition(".")[2]
    if not bound.arrays or "dtype" in call.kwargs or bare == "double" or (bare in READ and name[0] == "x"):
        return
    given = [mg.asarray(x).astype(dtype) for x in bound.draw(0)]
    wide = bound(*(x.astype("float64") for x in given))
    found = bound(*given)
    assert [x.shape for x in found] == [x.shape for x in wide]
    own, eps = getattr(mg, dtype), mg.finfo(dtype).eps
    for mine, its in zip(found, wide, strict=True):
        assert mine.dtype is (own if its.dtype is mg.float64 else its.dtype)
        if its.dtype is mg.float64:
            mine, its = np.array(mine.astype("float64").numpy()), np.array(its.numpy())
            if bare == "nan_to_num" or (bare == "i0" and dtype == "float16"):  # the greatest number is each dtype's own
                top = mg.finfo(dtype).max
                mine, its = (np.clip(x, -top, top) for x in (mine, its))
            scale = np.abs(its[np.isfinite(its)]).max(initial=1.0)
            np.testing.assert_allclose(mine, its, rtol=32 * eps, atol=32 * eps * scale)
