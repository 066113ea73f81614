"""What the functions share: public names, reductions, writing in place, tables of numbers, absent batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final

from micrograd_core.array.documentation import docstring, parameters
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.ops import TABLE
from micrograd_core.ops.shared import both_spellings, check_reduction, other_spellings, parameter_names

T: Final = FUNCTIONS


def publish(names: dict[str, Any], *others: str) -> list[str]:
    """Make the ``__all__`` of a module or package, from its globals: functions and classes of its own, and others."""
    home = names["__name__"]
    made = {name for name, each in names.items() if isinstance(each, type) or hasattr(each, "__code__")}
    own = [name for name in made if names[name].__module__.startswith(home) and name[0] != "_"]
    names["__all__"] = sorted([*own, *others])
    return list(names["__all__"])


# ── functions of one operation ───────────────────────────────────────────────────────────────────────────────

PYTORCH: Final = {"axis": "dim", "keepdims": "keepdim"}


def of_operations(scope: dict[str, Any], operands: str, names: str, by_name: Sequence[str] = ("reduction",)) -> None:
    """Functions that are an operation each: PyTorch's names of `operands`, and the parameters that the record has.

    A name with ``!`` takes ``inplace``, one with ``!_`` has a twin ``name_``, too; after ``=`` stands an operation that
    is called otherwise. The parameters `by_name` come last, and are not taken by their place.
    """
    for word in names.split():
        written, _, called = word.partition("=")
        name, op = written.rstrip("!_"), called or written.rstrip("!_")
        _define(scope, name, op, operands.split(), by_name, "!" in written)
        if written.endswith("_"):
            _define(scope, f"{name}_", op, operands.split(), by_name, None)
            twin = scope[f"{name}_"]
            twin.__doc__ = f"`{name}`, written into `input`.\n{twin.__doc__.partition(chr(10))[2]}"


def _define(
    scope: dict[str, Any], name: str, op: str, first: list[str], by_name: Sequence[str], in_place: bool | None
) -> None:
    """Define a function as Python text, as `dataclasses` do: calls cost and fail as those of any other."""
    rest = parameters(T[op])[len(first) :]
    rest.sort(key=lambda each: by_name.index(each.name) if each.name in by_name else -1)
    told = [f"{each}: Tensor" for each in first]
    for i, each in enumerate(rest, len(first)):
        told += ["*"] * (each.name in by_name and "*" not in told)
        kind = "Tensor | None" if i < TABLE[op].operands else each.annotation
        told.append(f"{PYTORCH.get(each.name, each.name)}: {kind}" + f" = {each.default}" * bool(each.default))
    settings = "".join(f", {each.name}={PYTORCH.get(each.name, each.name)}" for each in rest)
    lines = [f"def {name}({', '.join(told + ['inplace: bool = False'] * bool(in_place))}) -> Tensor:"]
    if in_place is not False:
        lines += ["    if inplace:"] * bool(in_place) + [f"      input[...] = T[{op!r}](input.copy(){settings})"]
        lines += ["      return input"]
    if in_place is not None:
        lines += [f"    return T[{op!r}]({', '.join(first)}{settings})"]
    exec("\n".join(lines), globals(), made := dict[str, Any]())
    function = made[name]
    function.__module__ = scope["__name__"]
    text = docstring(TABLE[op], function).replace(f" y = mg.{op}(", f" y = F.{name}(")
    text = re.sub("`(axis|keepdims)`", lambda m: f"`{PYTORCH[m[1]]}`", text)
    function.__doc__ = text.replace(" as mg\n", " as mg\n>>> F = mg.nn.functional\n")
    scope[name] = both_spellings(function) if other_spellings(parameter_names(function)) else function


# ── over one to three axes ───────────────────────────────────────────────────────────────────────────────────


def of_rank(text: str | None, rank: int) -> str:
    """A docstring over two axes as one over `rank` axes: names that end in ``2d``, and shapes (…, …, n, n)."""
    named = re.sub(r"(?<=\w)2d(?![a-z0-9])", f"{rank}d", text or "")
    return re.sub(r"\((\d+, \d+), (\d+), \2\)", lambda m: f"({m[1]}, {', '.join([m[2]] * rank)})", named)


def over_axes(function: Callable[..., Any], name: str, rank: int) -> Callable[..., Any]:
    """A function of an input (batch, channels, *spatial) that another function made, with its public name.

    Its docstring speaks of `rank` spatial axes, and an input may come without a batch: then so does the result.
    """
    function.__name__ = function.__qualname__ = name
    function.__doc__ = of_rank(function.__doc__, rank)

    @wraps(function)
    def called(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        x, absent = with_batch(name, input, rank)
        return without_batch(function(x, *args, **kwargs), absent)

    return called


# ── arguments and results ────────────────────────────────────────────────────────────────────────────────────


def written(input: Tensor, function: Callable[..., Tensor], *args: Any) -> Tensor:
    """What ``inplace=True`` does: the result is written into `input`, of which a copy is the operand."""
    input[...] = function(input.copy(), *args)
    return input


def reduced(name: str, losses: Tensor, reduction: str) -> Tensor:
    """Losses added up, averaged, or left as they are."""
    check_reduction(name, reduction)
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


def check_padding(name: str, padding_idx: int | None, rows: int) -> int | None:
    """The row of the padding, counted from the first."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise ValueError(f"{name}: padding_idx {padding_idx} names none of the {rows} rows")
    return padding_idx % rows


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


def without_batch(x: Any, absent: bool) -> Any:
    """A result, or several, as the input was."""
    if isinstance(x, tuple):
        return tuple(without_batch(each, absent) for each in x)
    return x[0] if absent else x
