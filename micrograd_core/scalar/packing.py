"""Long chains of scalars, packed: nodes that only the next one refers to become lists of numbers in one block.

Python's garbage collector looks for cycles at every living object, whenever their number has grown by a quarter; for a
million nodes that takes longer than to build and sweep them. Numbers in a list do not count. What a program can see
stays as it was: a node that anybody else holds is never packed, and who asks for operands gets them back as nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from micrograd_core.ground.owners import counter
from micrograd_core.scalar.rules import BINARY, REFLECTED
from micrograd_core.scalar.sweep import BLOCK, Block, refuse_underway, sweeping, underway

LONG = 255
"""Operations after which a chain is packed. Python keeps integers up to 256 ready."""

CONSTANT = "constant"  # marks a value that stands for a number in somebody's operands
new = object.__new__
references, operand = counter(), attrgetter("_a")


class Run(Block):
    """Consecutive operations, the last one first: each has the result of the one after it as its first operand.

    `inputs` are their second operands, None for constants, and at the end the first operand of the earliest.
    """

    __slots__ = ("by_first", "by_second", "data", "names")

    def __init__(self, nodes: list[Any]) -> None:
        super().__init__("run", [*[x._b for x in nodes], nodes[-1]._a], 1)
        self.names = [x._name for x in nodes]
        self.data = [x._data for x in nodes]
        self.by_first = [x._da for x in nodes]
        self.by_second = [x._db for x in nodes]  # of a constant, the constant

    def pull(self, gradients: list[Any]) -> Iterable[Any]:
        """Operation after operation, by the chain rule."""
        (g,) = gradients
        self._grad = g  # for `unpack`: that of the result can be assigned
        found: list[Any] = []
        keep = found.append
        for da, b, db in zip(self.by_first, self.inputs, self.by_second, strict=False):
            keep(None if b is None else g * db)
            g = g * da
        keep(g)
        return found


def pack(value: Any) -> int:
    """Pack the operations before `value` whose results nobody else holds, as far as they were not packed before.

    Returns
    -------
    int
        0: the length of the chain from here.
    """
    if underway:  # in another thread, or around the hook that called this
        return 0
    with sweeping: _pack(value)  # fmt: skip  # noqa: E701
    return 0


def _pack(value: Any) -> None:
    # A node whose only reference is the operand slot of the next one is in nobody's hands: no program can ask for it,
    # and none can tell if it becomes a number in a list. Weak references do not count, and are asked for beside.
    kind = value.__class__
    nodes: list[Any] = []
    x = value
    for _ in range(LONG):
        held = references(operand(x)) != ALONE  # asked before `a` refers to it too
        a = x._a
        if a.__class__ is not kind or a._a is None or a._a._a is BLOCK:
            break
        if held or a.__weakref__ is not None:
            _replace(nodes)
            nodes = []
        else:
            nodes.append(a)
        x = a
    _replace(nodes)
    value._depth = 0  # not again for the next operation on it


def _replace(nodes: list[Any]) -> None:
    if nodes and hasattr(nodes[-1], "_grad"):  # swept, as is all before a swept node: what was found there stays
        nodes = [x for x in nodes if not hasattr(x, "_grad")]
    if len(nodes) > 1:
        last = nodes[0]  # which stays, as the result of the block
        last._a, last._da, last._b = Run(nodes), 0, None


def unpack(value: Any) -> None:
    """Give a packed node its operands back. Any other is left as it is."""
    with sweeping: _unpack(value)  # fmt: skip  # noqa: E701


def _unpack(value: Any) -> None:
    run = value._a
    if run.__class__ is not Run:
        return
    if underway:
        refuse_underway("asked for the operands of", [run])
    steps = list(zip(run.names, run.data, run.by_first, run.inputs, run.by_second, strict=False))
    a = run.inputs[-1]
    nodes: list[Any] = []
    for name, data, da, b, db in steps[:0:-1]:
        a = unpacked(value.__class__, name, data, a, da, b, db)
        nodes.insert(0, a)
    if hasattr(run, "_grad"):
        g = run._grad
        for x, da in zip(nodes, run.by_first, strict=False):
            g = x._grad = 0.0 + g * da
    _, _, da, b, db = steps[0]
    value._a, value._da, value._b, value._db = a, da, b, db  # all or nothing, whatever interrupts


def unpacked(kind: Any, name: str, data: Any, a: Any, da: Any, b: Any = None, db: Any = None) -> Any:
    """A node that no chain is counted for."""
    x = new(kind)
    x._data, x._a, x._da, x._b, x._db, x._name, x._uses, x._depth = data, a, da, b, db, name, 0, 0
    return x


def look_inside(value: Any) -> None:
    """Give a result of a block that can be opened the operands it would have without the block, for who asks."""
    with sweeping: _look_inside(value)  # fmt: skip  # noqa: E701


def _look_inside(value: Any) -> None:
    _unpack(value)
    block = value._a
    if not isinstance(block, Block) or not value._name:
        return
    if underway:
        refuse_underway("asked for the operands of", [block])
    if (nodes := block.opened()) is not None:
        x = nodes[value._da]
        value._a, value._da, value._b, value._db, value._name = x._a, x._da, x._b, x._db, x._name


def operands(value: Any, leaf: Callable[[float], Any]) -> list[Any]:
    """What a value was computed from, in order; a constant as a value that `leaf` makes for the occasion."""
    unpack(value)
    a, b, name = value._a, value._b, value._name
    if a is None or isinstance(a, Block):
        return [] if a is None else [x for x in a.inputs if x is not None]
    if b is None and name in BINARY and name != "**":  # a constant exponent is in the name, as in micrograd
        b = leaf(float(value._db))
        b._db = CONSTANT
    return [x for x in ((b, a) if name in REFLECTED else (a, b)) if x is not None]


def written(value: Any) -> str:
    """The operation of a node, as micrograd writes it; a block is left shut."""
    unpack(value)
    name: str = value._name
    if name == "**" and value._b is None:
        return f"**{value._db}"
    return {"relu": "ReLU", **REFLECTED}.get(name, name)


class _Link:
    __slots__ = ("_a",)
    _a: _Link


_link = _Link()
_link._a = _Link()
ALONE = references(operand(_link))
"""What is counted for an operand that nobody but its node refers to. Where nothing is counted, nothing is packed."""
