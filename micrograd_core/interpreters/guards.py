"""A kernel's results held against the op table while the kernel is new: a wrong dtype or shape corrupts silently.

Checking costs more than a small kernel, so a kernel is taken at its word after `QUIET` calls in a row of which nothing
was new, and is then called without a detour. It is looked at again when the device meets a dtype for the first time.
With ``MICROGRAD_CHECK=1`` in the environment every call is checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from micrograd_core.compiler.specs import TensorSpec, expected_parts
from micrograd_core.errors import KernelBroken
from micrograd_core.ops import CORE_KERNELS, Op
from micrograd_core.ops.shared import is_scalar

if TYPE_CHECKING:
    from micrograd_core.interpreters.raw import Kernels

EACH: Final = 4
"""Calls that are checked of each combination of dtypes."""

QUIET: Final = 32
"""Calls in a row without a new combination of dtypes, after which a kernel is no longer looked at."""


class Guard:
    """A kernel that is looked at: called in its place, until nothing new comes."""

    __slots__ = ("always", "function", "kernels", "left", "op", "seen", "settled")

    def __init__(self, op: Op, function: Callable[..., Any], settled: Callable[..., Any], kernels: Kernels) -> None:
        self.op, self.function, self.settled, self.kernels = op, function, settled, kernels
        self.seen: dict[Any, int] = {}  # how often, by the dtypes of operands and parameters
        self.left, self.always = QUIET, os.environ.get("MICROGRAD_CHECK", "0") not in ("", "0")

    def __call__(self, *operands: Any, **params: Any) -> Any:  # noqa: D102
        op, kernels = self.op, self.kernels
        result = self.function(*operands, **params)
        if result is NotImplemented and op.compose is not None:
            self.settled = kernels.either(op, self.function)
            result = op.compose(kernels, *operands, **params)
        dtypes = (*[getattr(x, "dtype", x.__class__) for x in operands], params.get("dtype"))
        count = self.seen.get(dtypes, 0)
        if count < EACH or self.always:
            self.check(operands, params, result)
            self.seen[dtypes] = count + 1
        self.left = self.left - 1 if count else QUIET
        if self.left <= 0 and not self.always:
            kernels.settle(self)
        return result

    def check(self, operands: tuple[Any, ...], params: dict[str, Any], result: Any) -> None:
        """Raise unless `result` is what the op table says.

        Raises
        ------
        KernelBroken
        ShapeError
            When the operands' shapes do not fit, so that the kernel should have raised.
        """
        op, kernels = self.op, self.kernels
        if op.parts is not None and (not isinstance(result, tuple) or len(result) != len(op.parts._fields)):
            raise self.broken(_described(result), f"a tuple of {', '.join(op.parts._fields)}")
        specs = [x if is_scalar(x) else kernels.spec(x) for x in operands]
        if params.get("dtype") is not None:
            params = {**params, "dtype": kernels.core(params["dtype"])}
        known = all(is_scalar(x) or all(isinstance(n, int) for n in x.shape) for x in specs)
        roles, parts = ([""], [result]) if op.parts is None else ([f" as {name}" for name in op.parts._fields], result)
        for role, part, wanted in zip(roles, parts, expected_parts(op, tuple(specs), params, known), strict=True):
            found = self.spec(part, str(wanted))
            if found.dtype is not wanted.dtype or wanted.shape not in (None, found.shape):
                given = ", ".join(repr(x) if is_scalar(x) else str(x) for x in specs)
                raise self.broken(f"{found}{role}", f"{wanted}{given and f' for {given}'}")

    def spec(self, result: Any, wanted: str) -> TensorSpec:
        """What a kernel returned, if it is a handle of the device."""
        if is_scalar(result) or not hasattr(result, "shape") or not hasattr(result, "dtype"):
            raise self.broken(_described(result), wanted)
        try:
            return self.kernels.spec(result)
        except (KeyError, TypeError):
            dtypes = ", ".join(self.kernels.backend.dtypes)
            raise self.broken(f"the dtype {result.dtype!r}, none of the device's ({dtypes})", wanted) from None

    def broken(self, returned: str, wanted: str) -> KernelBroken:
        """The error, with what the backend's author can do."""
        name = self.op.name
        remedy = "Mend the kernel"
        if self.op.compose is not None and name not in CORE_KERNELS:
            remedy += f", or return None for {name!r} from kernel(): the core then composes it"
        elif returned == "NotImplemented":
            remedy += f": {name!r} has no composition, so that it cannot decline"
        return KernelBroken(self.kernels.backend.device, name, returned, wanted, remedy)


def _described(x: Any) -> str:
    return "NotImplemented" if x is NotImplemented else f"a {type(x).__name__}"
