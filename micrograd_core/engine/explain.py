"""Errors are worded after the fact: a kernel is called without checks, and when it refuses, this says why."""

from __future__ import annotations

from typing import Any

from micrograd_core.engine.array import BaseTensor
from micrograd_core.errors import DTypeError, LinAlgError, MicrogradError, OutOfMemory, caused, one_of
from micrograd_core.ops import Op


def refusal(op: Op, position: int, x: BaseTensor) -> DTypeError:
    """The error for an operand of a kind of dtype that the operation does not take."""
    accepted = op.accepted(position)
    where = f" as operand {position + 1}" if op.operands > 1 else ""
    advice = "; convert it with x.astype('float32')" if "real floating" in accepted and "bool" not in accepted else ""
    return DTypeError(
        f"{op.name} takes {one_of(sorted(accepted))} dtypes{where}; got {x.dtype} (shape {x.shape}){advice}"
    )


def explain(op: Op, kernels: Any, operands: tuple[Any, ...], params: dict[str, Any], error: Exception) -> BaseException:
    """The error to raise when a kernel refused: our sentence where we know one, else its own with a note.

    It names its cause itself: ``raise error from error`` would be a reference cycle, which keeps all operands alive.
    """
    shapes = [getattr(x, "shape", ()) for x in operands]
    if op.check is not None:
        try:
            op.check(op.name, *shapes, **params)
        except MicrogradError as ours:
            return caused(ours, error)
    if isinstance(error, MicrogradError):
        return error
    if OutOfMemory.meant_by(error):
        return caused(OutOfMemory.on(kernels), error)
    if op.undefined and "LinAlgError" in type(error).__name__:  # every library has its own
        return caused(LinAlgError(f"{op.name}: {op.undefined}; got shape {' and '.join(map(str, shapes))}"), error)
    dtypes = [str(x.dtype) if isinstance(x, BaseTensor) else repr(x) for x in operands]
    error.add_note(f"in {op.name} on {kernels.device}: shapes {shapes}, dtypes {dtypes}, parameters {params}")
    return error


def explain_rule(op: Op, kernels: Any, error: Exception) -> Exception:
    """The error to raise when a rule's kernel refused; it names its cause itself, see `explain`."""
    if OutOfMemory.meant_by(error) and not isinstance(error, MicrogradError):
        error = caused(OutOfMemory.on(kernels), error)
    error.add_note(f"in the gradient of {op.name} on {kernels.device}; the graph is partly consumed: compute it again")
    return error
