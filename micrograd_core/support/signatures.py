"""Functions written out for the parameters of another: handing these on costs a quarter of what packing them does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any, Final, NamedTuple

PACKS: Final = 0x04 | 0x08
"""The flags of code that takes ``*args`` or ``**kwargs``."""


class Parameters(NamedTuple):
    """Of a function, all of them by name."""

    positional: tuple[str, ...]
    keyword: tuple[str, ...]  # those that are nothing else
    defaults: Mapping[str, Any]

    @classmethod
    def of(cls, function: Any) -> Parameters | None:
        """``None`` of what packs some, or is not written in Python. Those of a method are without the first."""
        bound = isinstance(function, MethodType)
        plain = function.__func__ if bound else function
        if not isinstance(plain, FunctionType) or plain.__code__.co_flags & PACKS:
            return None
        code, count = plain.__code__, plain.__code__.co_argcount
        positional, last = code.co_varnames[:count], plain.__defaults__ or ()
        defaults = dict(zip(positional[count - len(last) :], last, strict=True)) | (plain.__kwdefaults__ or {})
        return cls(positional[bound:], code.co_varnames[count : count + code.co_kwonlyargcount], defaults)

    def named(self, operands: int) -> tuple[str, ...]:
        """Those that are no operands."""
        return (*self.positional[operands:], *self.keyword)

    def given(self, operands: int | None = None) -> str:
        """All, as they are handed on: by name those that are keywords, and others after so many `operands`."""
        names = (*self.positional, *self.keyword)
        count = len(self.positional) if operands is None else operands
        return ", ".join(name if i < count else f"{name}={name}" for i, name in enumerate(names))

    def function(self, lines: Sequence[str], known: Mapping[str, Any]) -> Callable[..., Any]:
        """A function of them whose body is `lines`, in which `known` names are there; those begin with ``_``."""
        spelled = {x: f"{x}=_default_{x}" if x in self.defaults else x for x in (*self.positional, *self.keyword)}
        first, last = ([spelled[x] for x in names] for names in (self.positional, self.keyword))
        header = ", ".join([*first, *(["*"] if last else []), *last])
        there = {f"_default_{name}": x for name, x in self.defaults.items()} | dict(known)
        exec("\n    ".join([f"def function({header}):", *lines]), there)
        made: Callable[..., Any] = there.pop("function")  # which is then in no cycle
        return made
