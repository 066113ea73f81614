"""What the functions share: reductions and their old spelling, writing in place, tables of numbers, absent batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any, Final

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.ops.shared import check_reduction

T: Final = FUNCTIONS


def written(input: Tensor, function: Callable[..., Tensor], *args: Any) -> Tensor:
    """What ``inplace=True`` does: the result is written into `input`, of which a copy is the operand."""
    input[...] = function(input.copy(), *args)
    return input


def chosen_reduction(name: str, reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """The word for a reduction, which the flags of PyTorch's first versions go before."""
    if size_average is not None or reduce is not None:
        return "none" if reduce is False else "sum" if size_average is False else "mean"
    check_reduction(name, reduction, *(("batchmean",) if name == "kl_div" else ()))
    return reduction


def reduced(
    name: str, losses: Tensor, reduction: str, size_average: bool | None = None, reduce: bool | None = None
) -> Tensor:
    """Losses added up, averaged, or left as they are."""
    word = chosen_reduction(name, reduction, size_average, reduce)
    return losses if word == "none" else losses.mean() if word == "mean" else losses.sum()


def per_axis(name: str, what: str, value: Any, rank: int) -> tuple[int, ...]:
    """One integer for each spatial axis; a single one goes for all."""
    try:
        found = (index(value),) * rank if not isinstance(value, (tuple, list)) else tuple(map(index, value))
    except TypeError:
        raise ShapeError(f"{name}: {what} is an integer, or {rank} of them; got {value!r}") from None
    found = found * rank if len(found) == 1 else found
    if len(found) != rank:
        raise ShapeError(f"{name}: {what} is an integer, or {rank} of them; got {value!r}")
    return found


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


def chosen_axis(name: str, dim: int | None, ndim: int) -> int:
    """The axis of a softmax that names none: PyTorch's old rule, by the number of axes."""
    return dim if dim is not None else 0 if ndim in (0, 1, 3) else 1
