"""Calls that do not fit a function, and what to type: said after the fact, so that calls that fit pay nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

FIRST: Final = "tensors come first, and have no names"
HERE: Final = "leave it out"
PLAIN: Final = "convert before: x.astype(dtype)"

ARGUMENTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("input", "other", "self", "a", "b", "x", "y", "x1", "x2", "arr", "ary", "array", "arrays"), FIRST),
    **dict.fromkeys(("tensor", "tensors", "mat2", "vec", "vec2", "exponent", "end", "start", "stop", "tensor1"), FIRST),
    **dict.fromkeys(("condition", "indices", "index", "source", "src", "values", "elements", "test_elements"), FIRST),
    **dict.fromkeys(("A", "B", "boundaries", "sorted_sequence", "v", "n", "object", "data"), FIRST),
    **dict.fromkeys(("order", "copy", "subok", "casting", "like", "layout", "memory_format", "pin_memory"), HERE),
    **dict.fromkeys(("names", "inplace", "overwrite_input", "non_blocking", "kind", "sparse_grad", "driver"), HERE),
    **dict.fromkeys(
        ("extobj", "signature", "ndmin", "out_int32", "hermitian", "optimize", "sparse", "is_coalesced"), HERE
    ),
    "out": "write x[...] = the result",
    "where": "select before, with mg.where(condition, x, 0), or what else changes nothing",
    "initial": "combine it with the result",
    "dtype": PLAIN,
    "unbiased": "unbiased=True is correction=1, unbiased=False is correction=0",
    "ddof": "ddof=n is correction=n",
    "size": "write shape=",
    "steps": "write num=",
    "base": "write base ** mg.linspace(start, stop, num)",
    "value": "write fill_value=",
    "alpha": "multiply before: mg.add(x, alpha * y)",
    "rounding_mode": "write mg.floor_divide(x, y), or mg.trunc(x / y)",
    "decimals": "write mg.round(x * 10**n) / 10**n",
    "weight": "tensors and numbers come first, and have no names",
    "right": "right=True is side='right'",
    "sorter": "sort before",
    "a_min": "write min=",
    "a_max": "write max=",
    "m": "the number of columns comes second: mg.eye(3, 4)",
    "M": "the number of columns comes second: mg.eye(3, 4)",
    "N": "the number of rows comes first: mg.eye(3)",
    "shifts": "write shift=",
    "offset": "write k=",
    "repeats": "write repeats second",
    "reps": "write repetitions second: mg.tile(x, (2, 1))",
    "dim0": "write dim by position: x.transpose(0, 1)",
    "dim1": "write dim by position: x.transpose(0, 1)",
    "generator": "set a seed with mg.random.manual_seed(seed)",
    "retstep": "the step is (stop - start) / (num - 1)",
    "split_size_or_sections": "it comes second: mg.split(x, 2)",
    "axis": "it works on all elements, or on the last axes",
    "dim": "it works on all elements, or on the last axes",
    "keepdims": "write mg.expand_dims(result, axis)",
    "keepdim": "write mg.expand_dims(result, axis)",
    "density": "divide by its sum",
    "weights": "multiply before",
    "method": "it is linear",
    "interpolation": "it is linear",
}
"""Words that PyTorch's and NumPy's functions take, and what to type where a function here takes no such."""

Function = TypeVar("Function", bound=Callable[..., Any])


def unbound(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception) -> Any:
    """The error of a call: with what to type, if the function takes no such arguments; else as it is."""
    from inspect import Parameter, signature  # which takes as long to import as all else

    shape, name = signature(function), function.__name__
    try:
        shape.bind(*args, **kwargs)
        return error
    except TypeError:
        pass
    places = [x for x in shape.parameters.values() if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
    named = {x.name for x in shape.parameters.values() if x.kind in (x.KEYWORD_ONLY, x.POSITIONAL_OR_KEYWORD)}
    said = [f"{word}=: {ARGUMENTS[word]}" for word in kwargs if word not in named and word in ARGUMENTS]
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
    worded = TypeError("; ".join([str(error), *said, f"it is called as {name}{plain}"]))
    return worded.with_traceback(None)


def advising(function: Function) -> Function:
    """The function, whose errors about its arguments say what to type."""

    @functools.wraps(function)
    def advised(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            found = unbound(function, args, kwargs, error)
            if found is error:
                raise
        raise found

    return advised  # type: ignore[return-value]
