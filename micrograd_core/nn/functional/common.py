"""What the functions share: public names, reductions, writing in place, tables of numbers, absent batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.ops.network import patches
from micrograd_core.ops.network.windows import single
from micrograd_core.ops.shared import check_reduction

T: Final = FUNCTIONS


def publish(names: dict[str, Any], *others: str) -> list[str]:
    """Make the ``__all__`` of a module or package, from its globals: functions and classes of its own, and others."""
    home = names["__name__"]
    made = {name for name, each in names.items() if isinstance(each, type) or hasattr(each, "__code__")}
    own = [name for name in made if names[name].__module__.startswith(home) and name[0] != "_"]
    names["__all__"] = sorted([*own, *others])
    return list(names["__all__"])


def named(function: Callable[..., Any], name: str, rank: int) -> Callable[..., Any]:
    """A function over `rank` axes that another function made: its public name, and an example over so many axes.

    The docstring's own example is over two: it calls ``F.…2d`` on a tensor of shape (1, 1, n, n).
    """
    function.__name__ = function.__qualname__ = name
    text = re.sub(r"(?<=F\.)(\w+)2d", rf"\g<1>{rank}d", function.__doc__ or "")
    function.__doc__ = re.sub(r"\(1, 1, (\d+), \1\)", lambda m: f"(1, 1, {', '.join([m[1]] * rank)})", text)
    return function


def written(input: Tensor, function: Callable[..., Tensor], *args: Any) -> Tensor:
    """What ``inplace=True`` does: the result is written into `input`, of which a copy is the operand."""
    input[...] = function(input.copy(), *args)
    return input


def reduced(name: str, losses: Tensor, reduction: str) -> Tensor:
    """Losses added up, averaged, or left as they are."""
    check_reduction(name, reduction)
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


def per_axis(name: str, what: str, value: Any, rank: int) -> tuple[int, ...]:
    """One integer for each spatial axis; a single one, in a list or not, goes for all."""
    return patches.per_axis(name, what, single(value), rank, 0)


def with_batch(name: str, x: Any, rank: int) -> tuple[Tensor, bool]:
    """An input (batch, channels, *spatial), and whether its batch had been left out."""
    x = asarray(x)
    if x.ndim == rank + 1:
        return x.expand_dims(0), True
    if x.ndim != rank + 2:
        raise ShapeError(
            f"{name}: the input has {rank} spatial axes after (batch, channels), or after (channels); got {x.shape}"
        )
    return x, False


def without_batch(x: Tensor, absent: bool) -> Tensor:
    """A result as the input was."""
    return x[0] if absent else x


def numbers(values: Sequence[Any], like: Tensor, shape: Sequence[int], dtype: Any = None) -> Tensor:
    """A table of Python numbers beside a tensor: of its dtype unless another is named, on its device."""
    return asarray(list(values), dtype=dtype or like.dtype, device=like.device).reshape(tuple(shape))


def along(x: Tensor, axis: int, start: int | None = None, stop: int | None = None, step: int | None = None) -> Tensor:
    """``x[..., start:stop:step, ...]``."""
    return x[(*(slice(None),) * (axis % x.ndim), slice(start, stop, step))]
