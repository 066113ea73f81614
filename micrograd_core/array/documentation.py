"""Docstrings in NumPy's style: of the functions that come from the op table, and of modules made from a function."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any, Final, NamedTuple

from micrograd_core.ops import SAME, Array, Op
from micrograd_core.ops.core.movement import requested
from micrograd_core.ops.shared import at_least_single, complex_dtype, real_dtype, to_bool, to_int64

FILE: Final = __file__.replace("documentation.py", "parameters.txt")
RESULTS: Final[dict[Any, str]] = {
    SAME: "the operands' common dtype",
    requested: "the dtype asked for",
    to_bool: "bool dtype",
    to_int64: "int64 dtype",
    real_dtype: "the dtype of the operands' real parts",
    complex_dtype: "the complex dtype that goes with the operands'",
    at_least_single: "the operands' common dtype, or float32 for halves",
}
"""`Op.result` in words."""
RAISES: Final = "DeviceMismatch DTypeError ShapeError UnsupportedOp OutOfMemory".split()


@cache
def meanings() -> dict[str, str]:
    """What parameters mean, by name, or by operation and name."""
    with open(FILE, encoding="utf-8") as lines:
        return dict(line.rstrip("\n").split(": ", 1) for line in lines if not line.startswith("#"))


def docstring(op: Op, function: Any) -> str:
    """The whole docstring, in NumPy's style, of the function of an operation."""
    shown = parameters(function)
    count = 1 if op.operands == -1 else op.operands
    names = [each.name for each in shown]
    said = re.sub(r"``x([1-9])``", lambda m: f"`{names[int(m[1]) - 1]}`" if int(m[1]) <= count else m[0], op.doc)
    grad = f"Not differentiable: {op.gradient}." if isinstance(op.gradient, str) else "Differentiable to any order."
    rows = [_operand(op, i, each) for i, each in enumerate(shown[:count])]
    rows += [_parameter(op, each) for each in shown[count:]]
    if op.parts is None:
        kind, result = "Tensor", f"Of {RESULTS.get(op.result, 'the dtype told above')}."
        if op.result is SAME and op.cast is not None:
            result = "Of the dtype that the operands are computed in."
    else:
        kind, result = f"named tuple of Tensor: {', '.join(op.parts._fields)}", op.parts.__doc__ or ""
    undefined = f"\nLinAlgError\n    When {op.undefined}." if op.undefined else ""
    return (
        f"{said}\n\n{grad}\n\nParameters\n----------\n" + "\n".join(rows) + f"\n\nReturns\n-------\n{kind}\n"
        f"    {result}\n\nRaises\n------\n{', '.join(RAISES)}{undefined}\n"
        + (f"\nExamples\n--------\n>>> import micrograd_core as mg\n{example(op, names)}\n" if op.samples else "")
    )


def sections(doc: str) -> dict[str, str]:
    """The text under each heading of a docstring, and under ``""`` the text before the first heading."""
    lines = doc.expandtabs().splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    text = "\n".join([*lines[:1], *(line[indent:] for line in lines[1:])])
    parts = re.split(r"^([A-Z]\w+)\n-{3,}\n", text, flags=re.M)
    return {"": parts[0].strip(), **dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))}


def module_docstring(function: Any, origin: str, inputs: int, left_out: frozenset[str], name: str) -> str:
    """The docstring of a module that calls a function: the function's own, split into arguments and operands.

    Parameters
    ----------
    function
        The function, whose docstring is in NumPy's style.
    origin : str
        A sentence that says which function it is.
    inputs : int
        How many of its arguments are operands of a call; the others are given when the module is made.
    left_out : frozenset of str
        The function's arguments that the module does not take.
    name : str
        How an example spells the module.
    """
    found = sections(function.__doc__ or "")
    names = [each.name for each in parameters(function)]
    taken = [each for each in names[inputs:] if each not in left_out and each[0] != "_"]
    operands, result = _rows(found.get("Parameters", ""), names[:inputs]), found.get("Returns", "")

    def called(line: re.Match[str]) -> str:
        given = line[2].split(", ", inputs)
        if line[1] != function.__name__:
            return line[0]
        return f">>> y = {name}({''.join(given[inputs:])})({', '.join(given[:inputs])})"

    shown = re.sub(r"^>>> y = (?:F|mg)\.(\w+)\((.*)\)$", called, found.get("Examples", ""), flags=re.M)
    shown = shown if " F." in shown else shown.replace(">>> F = mg.nn.functional\n", "")
    text = {
        "Parameters": _rows(found.get("Parameters", ""), taken),
        "Shapes": f"{operands}\nresult : {result}" if result else operands,
        "Raises": found.get("Raises", ""),
        "Examples": shown,
    }
    return _joined([found[""], origin], text)


def method_docstring(origin: str, name: str, function: Any) -> str:
    """The docstring of a tensor's method that calls a function: the function's own, without its first parameter.

    Parameters
    ----------
    origin : str
        A sentence that says which function it is.
    name : str
        What the method is called.
    function
        The function, whose docstring is in NumPy's style.
    """
    found = sections(function.__doc__ or "")
    first, taken = parameters(function)[0].name, found.pop("Parameters", "")
    names = [each for head in re.findall(r"^\S[^:\n]*", taken, flags=re.M) for each in head.strip().split(", ")]
    call = rf"\bmg\.{function.__name__}\(((?:mg\.)?\w+(?:\([^()]*\))?)(?:, |(?=\)))"
    shown = re.sub(call, rf"\1.{name}(", found.pop("Examples", ""))
    text = {"Parameters": _rows(taken, [each for each in names if each != first]), **found, "Examples": shown}
    return _joined([f"{origin} Here `{first}` is the tensor.", text.pop("")], text)


def _joined(sentences: list[str], text: dict[str, str]) -> str:
    """Sentences, and the sections that are not empty."""
    told = [f"{heading}\n{'-' * len(heading)}\n{each}" for heading, each in text.items() if each]
    return "\n\n".join([*sentences, *told])


def _rows(section: str, names: list[str]) -> str:
    """The rows of a section of parameters that describe some of them."""
    kept = []
    for row in re.split(r"\n(?=\S)", section):
        head, *body = row.splitlines() or [""]
        told, colon, kind = head.partition(" : ")
        some = [each for each in told.split(", ") if each in names]
        kept += ["\n".join([f"{', '.join(some)}{colon}{kind}", *body])] if some else []
    return "\n".join(kept)


class _Parameter(NamedTuple):
    name: str
    annotation: str
    default: str  # empty where there is none


def parameters(function: Any) -> list[_Parameter]:
    """The parameters that a signature shows. Importing `inspect` would take longer than all of this."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    known = dict(zip(names[: code.co_argcount][::-1], defaults[::-1], strict=False)) | (function.__kwdefaults__ or {})
    annotations = function.__annotations__
    return [
        _Parameter(name, str(annotations.get(name, "Any")), repr(known[name]) if name in known else "")
        for name in names
    ]


def _operand(op: Op, position: int, parameter: _Parameter) -> str:
    kinds = ", ".join(sorted(op.accepted(position if op.operands > 0 else 0)))
    kind = "sequence of Tensor" if op.operands == -1 else "Tensor or number"
    optional = ", optional" if parameter.default else ""
    return f"{parameter.name} : {kind}{optional}\n    Of {kinds} dtype."


def _parameter(op: Op, parameter: _Parameter) -> str:
    name, annotation, default = parameter
    facts = [annotation.replace(" | ", " or ")] * (annotation != "Any") + [f"default {default}"] * bool(default)
    said = meanings().get(f"{op.name}.{name}") or meanings().get(name, "Of the operation.")
    return f"{name}{' : ' * bool(facts)}{', '.join(facts)}\n    {said}"


def example(op: Op, names: list[str]) -> str:
    """A call that runs, as Python: its arrays have the names of the parameters."""
    sample = op.samples[0]
    given = [_array(each) if isinstance(each, Array) else repr(each) for each in sample.operands]
    made = []
    if op.operands == -1:
        given = [f"[{', '.join(given)}]"]
    else:
        made = [f">>> {name} = {each}" for name, each in zip(names, given, strict=False) if each.startswith("mg.")]
        given = [name if each.startswith("mg.") else each for name, each in zip(names, given, strict=False)]
    parameters = op.parameters and op.parameters.__code__
    unnamed = parameters.co_varnames[: parameters.co_posonlyargcount] if parameters else ()
    settings = [repr(value) if name in unnamed else f"{name}={value!r}" for name, value in sample.params.items()]
    place = f"{op.extension}." if op.extension else ""
    return "\n".join([*made, f">>> y = mg.{place}{op.name}({', '.join([*given, *settings])})"])


def _array(x: Array) -> str:
    if x.kind in ("dominant", "symmetric", "turning") and x.shape[-1] == x.shape[-2]:
        return f"mg.eye({x.shape[-1]})" if len(x.shape) == 2 else f"mg.eye({x.shape[-1]}).broadcast_to({x.shape})"
    if x.kind == "ascending" and not x.dtype:
        return f"mg.linspace({x.low}, {x.high}, {math.prod(x.shape)}).reshape({x.shape})"
    whole = x.dtype.startswith(("int", "uint"))
    value: Any = int((x.low + x.high) // 2) if whole else (x.low + x.high) / 2 or 0.5
    dtype = f', dtype="{x.dtype}"' if x.dtype else ""
    return f"mg.full({x.shape}, {True if x.dtype == 'bool' else value}{dtype})"
