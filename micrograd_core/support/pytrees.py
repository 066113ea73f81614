"""Arguments and results that are tensors in dicts, lists and tuples: taken apart into leaves, and put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any


def flatten(tree: Any) -> tuple[list[Any], Callable[[Iterable[Any]], Any]]:
    """The leaves (whatever is no dict, list or tuple) in order, and the function that puts others in their places.

    Examples
    --------
    >>> leaves, rebuild = flatten({"a": 1, "b": (2, [3])})
    >>> leaves, rebuild(x * 10 for x in leaves)
    ([1, 2, 3], {'a': 10, 'b': (20, [30])})
    """
    leaves: list[Any] = []
    build = _take(tree, leaves)
    return leaves, lambda values: build(iter(values))


def _take(node: Any, leaves: list[Any]) -> Callable[[Any], Any]:
    """Add the leaves of a node to the list; the function that builds it again from an iterator."""
    if isinstance(node, dict):
        parts = {key: _take(value, leaves) for key, value in node.items()}
        if type(node) is dict:
            return lambda rest: {key: part(rest) for key, part in parts.items()}
        return lambda rest: _filled(copy(node), parts, rest)
    if isinstance(node, (list, tuple)):
        items, kind = [_take(value, leaves) for value in node], type(node)
        if hasattr(kind, "_fields"):
            return lambda rest: kind(*[part(rest) for part in items])
        return lambda rest: kind([part(rest) for part in items])
    leaves.append(node)
    return next


def _filled(made: Any, parts: dict[Any, Callable[[Any], Any]], rest: Any) -> Any:
    """A dict of a class of its own, with its entries replaced."""
    for key, part in parts.items():
        made[key] = part(rest)
    return made


def like(tree: Any, other: Any, what: str) -> list[Any]:
    """The leaves of `other`, which must have the structure of `tree`.

    Raises
    ------
    TypeError
        When it has not; `what` says of which argument.
    """
    (leaves, rebuild), (found, rebuilt) = flatten(tree), flatten(other)
    marks = list(range(len(leaves)))
    if len(found) != len(leaves) or rebuild(marks) != rebuilt(marks):
        shape, wrong = rebuild("*" * len(leaves)), rebuilt("*" * len(found))
        raise TypeError(f"{what} must have the structure {shape!r}; got {wrong!r}")
    return found


def prefix(axes: Any, tree: Any, what: str) -> list[Any]:
    """One entry of `axes` for each leaf of `tree`; an entry in place of a dict, list or tuple holds for all of it."""
    if isinstance(axes, dict) and isinstance(tree, dict) and axes.keys() == tree.keys():
        return [each for key in tree for each in prefix(axes[key], tree[key], what)]
    if isinstance(axes, (list, tuple)) and isinstance(tree, (list, tuple)) and len(axes) == len(tree):
        return [each for pair in zip(axes, tree, strict=True) for each in prefix(*pair, what)]
    if isinstance(axes, (dict, list, tuple)):
        raise TypeError(f"{what}={axes!r} does not fit the structure {flatten(tree)[1](iter(lambda: '*', None))!r}")
    return [axes] * len(flatten(tree)[0])
