"""`detect_anomaly`: which operation, made by which line, first turned a gradient into NaN."""

from __future__ import annotations

import linecache
import sys
from functools import partial
from types import FrameType, SimpleNamespace
from typing import Any

from micrograd_core.array.tensor import Tensor
from micrograd_core.engine.array import wrap
from micrograd_core.engine.graph import is_node, made_by, parents_of, replace_op
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import AnomalyError
from micrograd_core.ops import Op
from micrograd_core.ops.record import Table
from micrograd_core.support.context import during

PACKAGE = __name__.partition(".")[0]


class LocatedOp(Op):
    """An operation in a record whose rules look at what they return, and know the line that made it."""

    def __init__(self, op: Op, line: str) -> None:
        vars(self).update(vars(op))
        rules, name = op.gradient, op.name
        if isinstance(rules, tuple):
            self.gradient = tuple(rule and partial(_checked, name, line, rule) for rule in rules)
        elif callable(rules):
            self.gradient = lambda asked: (rule and partial(_checked, name, line, rule) for rule in rules(asked))


def _checked(name: str, line: str, rule: Any, k: Table, g: Any, out: Any, *operands: Any, **params: Any) -> Any:
    """What a rule gives, if no NaN is in it."""
    d = rule(k, g, out, *operands, **params)
    if _has_nan(k, d):
        reason = (
            "which was NaN before it" if _has_nan(k, g) else
            "whose result is NaN itself" if _has_nan(k, out) else
            "which made a NaN of finite or infinite numbers"
        )  # fmt: skip
        raise AnomalyError(f"NaN in the gradient of {name}, {reason}; it was recorded by\n{line}")
    return d


def _has_nan(k: Table, x: Any) -> bool:
    """Whether a handle, a tensor, or one of several, holds a NaN."""
    if x is None:
        return False
    if isinstance(x, (tuple, list)):
        return any(_has_nan(k, part) for part in x)
    tensor = x.detach() if x.__class__ is Tensor else wrap(Tensor, x, k, k.dtype(x), None)
    while tensor._kernels.depth:  # inside vmap: look at the whole batch
        tensor = tensor._handle.value.detach()
    with no_grad():
        return bool(tensor.isnan().any())


def _line(frame: FrameType | None) -> str:
    """The innermost line outside this package."""
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        frame = frame.f_back
    if frame is None:
        return "  (no line of Python)"
    code, number = frame.f_code, frame.f_lineno
    text = linecache.getline(code.co_filename, number, frame.f_globals).strip()
    return f'  File "{code.co_filename}", line {number}, in {code.co_name}' + (f"\n    {text}" if text else "")


def _locate(frame: FrameType, event: str, result: Any) -> None:
    """A profile function: marks the record of each tensor that a function of this package returns."""
    if event != "return" or result.__class__ is not Tensor or not is_node(result._record):
        return
    record: Any = result._record
    while is_node(record) and record and (op := made_by(record)[0]).__class__ is Op:
        replace_op(record, LocatedOp(op, _line(frame)))
        record = parents_of(record)[0] if op.name == "part" else None


_PROFILER: Any = SimpleNamespace(get=sys.getprofile, set=sys.setprofile)
"""That of this thread, asked and set like a context variable."""


class detect_anomaly(during):  # noqa: N801
    """Within ``with detect_anomaly():`` each recorded operation remembers the line of yours that made it.

    A sweep over what was recorded there, inside the block or after it, stops at the first operation whose gradient is
    NaN. Everything this thread runs in the block is several times as slow (it is profiled: no other profiler can run),
    and every gradient is brought to the host to be looked at. Outside the block nothing costs anything.

    Raises
    ------
    AnomalyError
        From the sweep. It names the operation, says whether the NaN arose there, and gives the line.

    Examples
    --------
    >>> from micrograd_core import Tensor, detect_anomaly
    >>> x = Tensor([0.0, 1.0])
    >>> with detect_anomaly():
    ...     y = (x * float("nan")).sum()
    >>> y.backward()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    micrograd_core.errors.AnomalyError: NaN in the gradient of multiply, whose result is NaN ...
    """

    def __init__(self) -> None:
        super().__init__(_PROFILER, _locate)
