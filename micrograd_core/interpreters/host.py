"""Python's numbers in a traced function that change from call to call: a learning rate, the number of a step.

What is computed from them is written down, as the program is for tensors, and computed again at each call. What is
decided by them (``if step > 1:``) becomes a condition: where it comes out otherwise, the function is traced anew.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from micrograd_core.errors import TraceError


class Position(int):
    """A place in a generator's stream: so many blocks (`delta`) from where the generator stands when called."""

    generator: Any
    delta: int

    @classmethod
    def of(cls, block: int, generator: Any, delta: int) -> Position:
        """Block number `block`."""
        made = cls(block)
        made.generator, made.delta = generator, delta
        return made

    def __add__(self, other: int) -> Position:
        return Position.of(int(self) + other, self.generator, self.delta + other)


class Host:
    """What is computed with Python's numbers at each call, in order.

    An entry is a function without arguments that reads a number; or a function with the indices of earlier entries, or
    numbers, in `given`. An entry that is `expected` to be something is a condition. `transforms.codegen` makes Python
    of them.
    """

    def __init__(self) -> None:
        self.entries: list[tuple[Callable[..., Any], tuple[Any, ...], Any]] = []
        self._known: dict[Any, HostNumber] = {}

    def read(self, key: Any, getter: Any, value: Any) -> HostNumber:
        """A number that is looked up at each call; the same `key` is the same number."""
        if key not in self._known:
            self._known[key] = self._add(getter, (), value)
        return self._known[key]

    def act(self, action: Callable[[], Any]) -> None:
        """Something that is done at each call, between what comes before and after."""
        self._known = {}  # what is read later is read anew
        self.entries.append((action, (), None))

    def compute(self, function: Callable[..., Any], *given: Any) -> Any:
        """A number from others."""
        if any(x.__class__ is DeviceNumber for x in given):
            return NotImplemented  # that computes it
        for x in given:
            if x.__class__ is not HostNumber and not isinstance(x, (int, float)):
                raise TraceError(
                    f"jit: a learning rate or the number of a step meets a {type(x).__name__} inside a traced "
                    "function, where only optimisers use them with tensors; keep it in a 0-d tensor instead"
                )
        key = function, *[("host", x.index) if x.__class__ is HostNumber else (type(x), x) for x in given]
        if key not in self._known:
            value = function(*[x.value if x.__class__ is HostNumber else x for x in given])
            self._known[key] = self._add(function, given, value)
        return self._known[key]

    def decide(self, function: Callable[..., Any], *given: Any) -> bool:
        """A condition, as it comes out now."""
        made = self.compute(function, *given)
        self.entries[made.index] = (*self.entries[made.index][:2], bool(made.value))
        return bool(made.value)

    def close(self) -> None:
        """Nothing is written down any more."""
        self._known = {}

    def _add(self, function: Callable[..., Any], given: tuple[Any, ...], value: Any) -> HostNumber:
        named = tuple([_At(x.index) if x.__class__ is HostNumber else x for x in given])
        self.entries.append((function, named, None))
        return HostNumber(self, len(self.entries) - 1, value)


class _At(int):
    """The index of an entry, to tell it from a number."""


def index_of(x: Any) -> int | None:
    """Of an operand of an entry, the index of the earlier entry that it is; ``None`` of a number."""
    return int(x) if x.__class__ is _At else None


class HostNumber:
    """A number that is computed at each call; `value` is what it is in this one."""

    __slots__ = ("host", "index", "value")

    def __init__(self, host: Host, index: int, value: Any) -> None:
        self.host, self.index, self.value = host, index, value

    def _read(self) -> Any:
        raise TraceError(
            "jit: a learning rate or the number of a step goes through a function of Python inside a traced function "
            "(math, round, an index), which would fix it for all later calls; use arithmetic and comparisons, or set "
            "it outside"
        )

    __float__ = __int__ = __index__ = __round__ = __trunc__ = _read

    def __bool__(self) -> bool:
        return self.host.decide(bool, self)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return repr(self.value)


ARITHMETIC: Final = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
for _name in (*ARITHMETIC, "neg", "pos", "abs"):
    setattr(HostNumber, f"__{_name}__", lambda *xs, f=operator.__dict__[_name]: xs[0].host.compute(f, *xs))
for _name in ARITHMETIC:
    setattr(HostNumber, f"__r{_name}__", lambda x, y, f=operator.__dict__[_name]: x.host.compute(f, y, x))
for _name in ("lt", "le", "eq", "ne", "gt", "ge"):
    setattr(HostNumber, f"__{_name}__", lambda x, y, f=operator.__dict__[_name]: x.host.decide(f, x, y))


class DeviceNumber:
    """A number that a program computes: a handle of shape (), with Python's arithmetic."""

    __slots__ = ("handle", "kernels")

    def __init__(self, kernels: Any, handle: Any) -> None:
        self.kernels, self.handle = kernels, handle

    def _with(self, op: str, x: Any, y: Any) -> DeviceNumber:
        given = [each.handle if each.__class__ is DeviceNumber else each for each in (x, y)]
        return DeviceNumber(self.kernels, getattr(self.kernels, op)(*given))

    def __neg__(self) -> DeviceNumber:
        return self._with("multiply", self, -1)


for _name, _op in {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "pow"}.items():
    setattr(DeviceNumber, f"__{_name}__", lambda x, y, op=_op: x._with(op, x, y))
    setattr(DeviceNumber, f"__r{_name}__", lambda x, y, op=_op: x._with(op, y, x))
