"""Warnings that point at the user's line: the innermost that is not of this library.

An array library may warn from C, and then names the innermost line of Python, which calls its function: one of ours. A
module that calls kernels therefore withholds warnings: it has no registry, in which Python notes what it has warned of,
but `WITHHELD` in its place. Python finds that as it is about to warn, and refuses; the kernel is called again then, as
if by the user's line. What calls a kernel that does not warn does nothing for it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from types import FrameType, FunctionType
from typing import Any, Final

BETWEEN: Final = frozenset({"micrograd_core", "contextlib", "functools"})
"""Packages whose frames are passed over: the library, and what stands between it and who called it."""


def _refusal(registry: Any) -> tuple[Any, ...] | None:
    """What this Python says where it should warn and note it there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            warnings.warn_explicit("", RuntimeWarning, "", 0, registry=registry)
        except TypeError as error:
            return error.args
    return None


REFUSED: Final = _refusal(())
WITHHELD: Final[Any] = () if REFUSED else {}
"""A module's ``__warningregistry__``. It is false, so that ``unittest``, which empties registries, leaves it alone.

A Python that does not refuse it gives its warnings as ever, with a line of ours.
"""


def users_line(frame: FrameType) -> tuple[FrameType, int]:
    """The innermost frame that is not of this library, and how many lie below."""
    level = 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in BETWEEN:
        frame, level = frame.f_back, level + 1
    return frame, level


def warn(message: str) -> None:
    """Give a `RuntimeWarning`, as if the user's line had."""
    _, level = users_line(sys._getframe(1))
    warnings.warn(message, RuntimeWarning, stacklevel=level + 1)


def unless_withheld(error: Exception, home: Any, name: str, handles: Sequence[Any], params: dict[str, Any]) -> Any:
    """Raise the error of a kernel, ``home.name``; or call it again, if it failed only because it wanted to warn.

    It is called in a frame that says of itself what that of the user's line would.
    """
    try:
        if error.__class__ is not TypeError or error.args != REFUSED:
            raise error
        frame, _ = users_line(sys._getframe(1))
        code = CALL.replace(
            co_filename=frame.f_code.co_filename, co_name=frame.f_code.co_name, co_firstlineno=frame.f_lineno
        )
        try:
            return FunctionType(code, frame.f_globals)(getattr(home, name), handles, params)
        except Exception as told:
            told.__context__ = None  # that it was withheld first is nobody's business
            raise
    finally:
        del error  # it leads here, and to all operands


def again(
    error: Exception,
    explain: Callable[..., BaseException],
    op: Any,
    kernels: Any,
    operands: Any,
    handles: Any,
    params: dict[str, Any],
) -> Any:
    """What a kernel gives that failed only as its warning was withheld; else raise what `explain` says of the error."""
    try:
        return unless_withheld(error, kernels, op.name, handles, params)
    except Exception as found:
        raise explain(op, kernels, operands, params, found)  # noqa: B904 (it names its cause)
    finally:
        del error  # it leads here, and to all operands


CALL: Final = (lambda kernel, handles, params: kernel(*handles, **params)).__code__
