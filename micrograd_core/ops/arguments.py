"""Calls that do not fit a function, and what to type: said after the fact, so that calls that fit pay nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

FIRST: Final = "give it by position, without a name"
HERE: Final = "leave it out"
WORDS: Final[Mapping[str, str]] = {
    FIRST: "input other a b x y x1 x2 arr ary array arrays tensor tensors tensor1 tensor2 mat2 vec2 exponent end start "
    "stop condition indices index source src values elements element test_elements A boundaries sorted_sequence v n "
    "object chunks equation operands ext_tensor fp xp from_ to func input1 input2 real imag val k obj shape shapes "
    "arrays_and_dtypes indices_or_sections split_size_or_sections dims dim0 dim1 repeats reps weight M m N p1 p2 self",
    HERE: "order copy subok casting like layout memory_format pin_memory names inplace overwrite_input kind "
    "sparse_grad signature ndmin out_int32 optimize sparse assume_unique compute_mode chunk_size max_work mean "
    "output_size device requires_grad non_blocking",
    "write x[...] = the result": "out",
    "select before, with mg.where(condition, x, 0), or what else changes nothing": "where",
    "combine it with the result": "initial",
    "convert before: x.astype(dtype)": "dtype",
    "unbiased=True is correction=1, unbiased=False is correction=0": "unbiased",
    "ddof=n is correction=n": "ddof",
    "bias=True is correction=0": "bias",
    "rowvar=False is the function of x.T": "rowvar",
    "write shape=": "size",
    "write num=": "steps",
    "write fill_value=": "value",
    "write shift=": "shifts",
    "write k=": "offset",
    "write min=": "a_min",
    "write max=": "a_max",
    "write in_axes=": "in_dims",
    "write out_axes=": "out_dims",
    "write base ** mg.linspace(start, stop, num)": "base",
    "multiply before: mg.add(x, alpha * y)": "alpha",
    "multiply before": "weights aweights fweights",
    "write mg.floor_divide(x, y), or mg.trunc(x / y)": "rounding_mode",
    "write mg.round(x * 10**n) / 10**n": "decimals",
    "right=True is side='right'": "right",
    "sort before": "sorter",
    "write x % period": "period",
    "move axes before, with mg.moveaxis": "axes axisa axisb axisc",
    "it works on all elements, or along the last axes": "axis dim",
    "write mg.expand_dims(result, axis)": "keepdims keepdim",
    "the step is (stop - start) / (num - 1)": "retstep",
    "set a seed with mg.random.manual_seed(seed)": "generator",
    "divide the counts by their sum": "density",
    "it is linear": "method interpolation",
    "there is a tensor for each axis": "as_tuple",
    "indices are checked": "mode",
    "write reduction='mean', 'sum' or 'none'": "size_average reduce",
    "use micrograd_core.nn.functional": "ceil_mode count_include_pad",
}
ARGUMENTS: Final[Mapping[str, str]] = {word: advice for advice, words in WORDS.items() for word in words.split()}
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
    said = [f"instead of {word}=: {ARGUMENTS[word]}" for word in kwargs if word not in named and word in ARGUMENTS]
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
