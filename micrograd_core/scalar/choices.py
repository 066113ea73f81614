"""Python's `max` and `min` for functions of Values under `jit`, where comparing would decide for all later calls."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from micrograd_core.scalar.value import Value
from micrograd_core.support.context import tracing


def _chosen(python: Callable[..., Any], given: tuple[Any, ...], options: dict[str, Any]) -> Any:
    values = list(given[0] if len(given) == 1 else given)
    trace = tracing.get()
    if trace is None or "key" in options or not any(isinstance(x, Value) for x in values):
        return python(values, **options)
    return reduce(partial(trace.choose, python.__name__), values)


def max(*values: Any, **options: Any) -> Any:
    """The greatest of numbers and Values, given one by one or in an iterable, as Python's `max` finds it.

    Parameters
    ----------
    *values : Value or float, or one iterable of these
        What to choose from. Under `jit` the choice is a step of the program, made anew at each call.
    **options
        ``key`` and ``default``, as Python's `max` has them. With ``key`` Values are compared, which `jit` refuses.

    Returns
    -------
    Value or float
        The first of the greatest.

    Raises
    ------
    ValueError
        If there is nothing to choose from, and no ``default``.

    Examples
    --------
    >>> from micrograd_core import Value, jit
    >>> from micrograd_core.scalar import max
    >>> jit(lambda x, y: max(x, y) * 2)(Value(1.0), Value(3.0)).data
    6.0
    """
    return _chosen(builtins.max, values, options)


def min(*values: Any, **options: Any) -> Any:
    """The least of numbers and Values; `max` says how.

    Parameters
    ----------
    *values : Value or float, or one iterable of these
        What to choose from.
    **options
        ``key`` and ``default``, as Python's `min` has them.

    Returns
    -------
    Value or float
        The first of the least.

    Raises
    ------
    ValueError
        If there is nothing to choose from, and no ``default``.

    Examples
    --------
    >>> from micrograd_core import Value, jit
    >>> from micrograd_core.scalar import min
    >>> jit(lambda x, y: min(x, y) * 2)(Value(1.0), Value(3.0)).data
    2.0
    """
    return _chosen(builtins.min, values, options)
