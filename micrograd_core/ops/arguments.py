"""Calls that do not fit a function, and what to type: said after the fact, so that calls that fit pay nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def unbound(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception) -> Any:
    """The error of a call: with what to type, if the function takes no such arguments; else as it is."""
    from inspect import Parameter, signature  # which takes as long to import as all else

    from micrograd_core.suggestions import table

    shape, name = signature(function), function.__name__
    with suppress(TypeError):
        shape.bind(*args, **kwargs)
        return error
    places = [x for x in shape.parameters.values() if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
    named = {x.name for x in shape.parameters.values() if x.kind in (x.KEYWORD_ONLY, x.POSITIONAL_OR_KEYWORD)}
    words = table("argument")
    said = [f"instead of {word}=: {words[word]}" for word in kwargs if word not in named and word in words]
    tail = args[len(places) - 1 :]
    if len(tail) > 1 and all(x.__class__ is int for x in tail):
        before = "".join(f"{x.name}, " for x in places[:-1])
        said.append(f"several numbers are one tuple: {name}({before}{tail})")
    elif len(tail) > 1 and "dtype" in named:
        said.append("all else is named, such as dtype='float64'")
    plain = shape.replace(
        parameters=[x.replace(annotation=Parameter.empty) for x in shape.parameters.values()],
        return_annotation=Parameter.empty,
    )
    return TypeError("; ".join([str(error), *said, f"it is called as {name}{plain}"]))


def advising(function: Function, respelled: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> Function:
    """The function, whose errors about its arguments say what to type; named ones may be `respelled` first."""

    @functools.wraps(function)
    def advised(*args: Any, **kwargs: Any) -> Any:
        if kwargs and respelled is not None:
            kwargs = respelled(kwargs)
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            found = unbound(function, args, kwargs, error)
            if found is error:
                raise
        raise found

    return advised  # type: ignore[return-value]
