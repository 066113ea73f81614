"""The arguments that an object was made with, so that one like it can be made again."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from micrograd_core.dtypes import DType
from micrograd_core.support.context import about_to_make

_PLAIN: Final = frozenset({type(None), bool, int, float, str, DType})


class Other:
    """What stands for an argument that is not kept, as it would live on with the object: of what type it was."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind


class Made:
    """The arguments of one call of a class.

    Kept are numbers, strings, dtypes, functions of this package, and lists, tuples and dicts of them.
    """

    __slots__ = ("args", "kwargs")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = tuple([x if x.__class__ in _PLAIN else _kept(x) for x in args])
        self.kwargs = {name: x if x.__class__ in _PLAIN else _kept(x) for name, x in kwargs.items()}


class _Signature:
    """What `inspect` finds where there is no constructor: it would take ``__new__`` for one."""

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        if instance is not None or owner.__init__ is not object.__init__:
            raise AttributeError("__signature__")
        from inspect import Signature

        return Signature()


class Remembered:
    """An object that knows what it was made with."""

    __signature__ = _Signature()

    if not TYPE_CHECKING:  # to checkers it would say that any arguments will do

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            """An object without attributes yet."""
            if (args or kwargs) and cls.__init__ is object.__init__:
                raise TypeError(f"{cls.__name__}() takes no arguments")
            about_to_make(0)
            self = super().__new__(cls)
            self.__dict__["_made"] = Made(args, kwargs)
            return self


def arguments(x: Any) -> dict[str, Any] | None:
    """What an object was made with, by the names of the parameters of its class; ``None`` if nobody knows.

    It is not known of what was copied in some other way than `copy` and `pickle` do, and where the class says to take
    other arguments than it does.
    """
    from inspect import signature

    made = vars(x).get("_made")
    try:
        return None if made is None else dict(signature(type(x)).bind(*made.args, **made.kwargs).arguments)
    except (TypeError, ValueError):
        return None


def rebuild(kind: type, named: dict[str, Any]) -> Any:
    """A new object of a class, from arguments by the names of its parameters."""
    from inspect import BoundArguments, signature

    bound = BoundArguments(signature(kind), named)
    return kind(*bound.args, **bound.kwargs)


def _kept(x: Any) -> Any:
    kind = x.__class__
    if kind in _PLAIN:
        return x
    if isinstance(x, int):  # such as a tensor's `size`
        return int(x)
    if kind in (list, tuple):
        return kind(map(_kept, x))
    if kind is dict:
        return {key: _kept(each) for key, each in x.items()}
    if kind is FunctionType and x.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return x
    return Other(kind.__name__)
