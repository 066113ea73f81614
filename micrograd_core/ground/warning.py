"""Warnings that point at the user's line: the innermost that is not of this library.

An array library may warn from C, and then names the innermost line of Python, which calls its function: one of ours. A
module that calls kernels, or is made of them, therefore withholds warnings: it has no registry, in which Python notes
what it has warned of, but `WITHHELD` in its place. Python finds that as it is about to warn, and refuses; what was
called, a kernel or a gradient's rule, has changed nothing, and is called again then: as if by the user's line, and with
NumPy told to leave the wording to us. What does not warn does nothing for it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
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


def withhold(package: str) -> None:
    """Let the modules of a package that are loaded withhold warnings.

    Their functions are called by who knows `unless_withheld`: an operation, a sweep, a step of an optimiser.
    """
    for name, module in [*sys.modules.items()]:
        if name == package or name.startswith(f"{package}."):
            vars(module)["__warningregistry__"] = WITHHELD


def users_line(frame: FrameType) -> tuple[FrameType, int]:
    """The innermost frame that is not of this library, and how many lie below."""
    level = 1
    while frame.f_back is not None and _is_ours(frame.f_globals):
        frame, level = frame.f_back, level + 1
    return frame, level


def _is_ours(scope: dict[str, Any]) -> bool:
    return scope.get("__warningregistry__") is WITHHELD or str(scope.get("__name__")).partition(".")[0] in BETWEEN


def warn(message: str) -> None:
    """Give a `RuntimeWarning`, as if the user's line had."""
    _, level = users_line(sys._getframe(1))
    warnings.warn(message, RuntimeWarning, stacklevel=level + 1)


def unless_withheld(error: Exception, function: Callable[..., Any], operands: Sequence[Any], params: Any) -> Any:
    """Raise the error of a function; or call it again, if it failed only because it wanted to warn.

    It is called in a frame that says of itself what that of the user's line would.
    """
    try:
        if not _is_refusal(error):
            raise error
        frame, _ = users_line(sys._getframe(1))
        code = CALL.replace(
            co_filename=frame.f_code.co_filename, co_name=frame.f_code.co_name, co_firstlineno=frame.f_lineno
        )
        called = FunctionType(code, frame.f_globals)
        try:
            with _worded_here(frame):
                return called(function, operands, params)
        except Exception as told:
            told.__context__ = None  # that it was withheld first is nobody's business
            if not _is_refusal(told):
                raise
            return _with_lines_of_ours(told, called, function, operands, params)
    finally:
        del error  # it leads here, and to all operands


def _is_refusal(error: Exception) -> bool:
    return error.__class__ is TypeError and error.args == REFUSED


def _worded_here(frame: FrameType) -> AbstractContextManager[Any]:
    """A context in which NumPy hands over, as text, what it would warn of."""
    numpy: Any = sys.modules.get("numpy")
    modes: dict[str, str] = {} if numpy is None else numpy.geterr()
    if "warn" not in modes.values():
        return nullcontext()
    now: Any = {kind: "log" if mode == "warn" else mode for kind, mode in modes.items()}
    context: AbstractContextManager[Any] = numpy.errstate(**now, call=_Log(frame, modes, numpy.geterrcall()))
    return context


class _Log:
    """What NumPy writes to, and calls, in that context: warnings are the user's line's, the rest as `before`."""

    def __init__(self, frame: FrameType, modes: dict[str, str], before: Any) -> None:
        self.file, self.line, self.scope = frame.f_code.co_filename, frame.f_lineno, frame.f_globals
        self.modes, self.before = modes, before

    def write(self, text: str) -> None:
        """A line, such as ``Warning: divide by zero encountered in log``."""
        message = text.removeprefix("Warning: ").rstrip()
        kind = next((kind for words, kind in KINDS.items() if message.startswith(words)), "")
        if self.modes.get(kind) == "log":
            self.before.write(text)
            return
        registry = self.scope.setdefault("__warningregistry__", {})
        warnings.warn_explicit(
            message,
            RuntimeWarning,
            self.file,
            self.line,
            self.scope.get("__name__"),
            None if registry is WITHHELD else registry,
        )

    def __call__(self, kind: str, flag: int) -> None:
        self.before(kind, flag)


KINDS: Final = {"divide by zero": "divide", "overflow": "over", "underflow": "under", "invalid value": "invalid"}
"""How NumPy's sentences begin, and what `numpy.errstate` calls that."""


def _with_lines_of_ours(refusal: Exception, called: Callable[..., Any], *call: Any) -> Any:
    """What is called, while modules do warn: of what is not about numbers, several functions deep."""
    scopes = []
    try:
        while True:
            trace: Any = refusal.__traceback__
            while trace.tb_next is not None:
                trace = trace.tb_next
            scopes.append(trace.tb_frame.f_globals)
            scopes[-1]["__warningregistry__"] = {}
            try:
                return called(*call)
            except Exception as told:
                told.__context__ = None
                if not _is_refusal(told):
                    raise
                refusal = told
    finally:
        for scope in scopes:
            scope["__warningregistry__"] = WITHHELD
        del refusal


def again(
    error: Exception,
    explain: Callable[..., BaseException],
    op: Any,
    kernels: Any,
    operands: Any,
    handles: Any,
    params: dict[str, Any],
    rule: Callable[..., Any] | None = None,
) -> Any:
    """What a kernel, or a rule, gives that failed only as its warning was withheld; else raise what `explain` says."""
    try:
        if not _is_refusal(error):
            raise error
        return unless_withheld(error, rule or getattr(kernels, op.name), handles, params)
    except Exception as found:
        raise explain(op, kernels, operands, params, found)  # noqa: B904 (it names its cause)
    finally:
        del error  # it leads here, and to all operands


CALL: Final = (lambda kernel, handles, params: kernel(*handles, **params)).__code__
