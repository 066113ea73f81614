"""All that belongs to a context (a thread, an asyncio task), and setting it for a while: no interrupt leaves it set.

The variables are here together; what they mean to a user, and who sets them, say the modules that each of them names.

A signal handler runs, and may raise (Ctrl-C raises KeyboardInterrupt), when Python begins one of its functions, after
any call, and when a loop goes back; never inside a function written in C. So what sets the variable is in a ``try``
that sets it back, without a call in between. And what ends the block is written in C throughout: an ``__exit__`` in
Python would be a function that begins, and an interrupt that waited for the end of a long product would come just there
and leave the variable set.

Where a profiler in Python is told of the call of ``__exit__`` (`detect_anomaly` is one), that is a function that
begins, too: there the last mode may stay on.
"""

from __future__ import annotations

import gc
import math
import os
from contextlib import ContextDecorator
from contextvars import ContextVar
from io import IOBase
from itertools import repeat
from operator import is_
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakSet

from micrograd_core.errors import TransformError

if TYPE_CHECKING:
    from collections.abc import Callable

    from micrograd_core.dtypes import DType

_NEVER: Final = object()  # the value of no variable


class during(IOBase, ContextDecorator):  # noqa: N801
    """Within ``with during(variable, value):`` a context variable has a value; then again the one it had before.

    One object may be entered several times, also inside itself; ``as`` gives the value. It is no file: but the
    ``__exit__`` of files is written in C, and does nothing but to call ``close()``.
    """

    closed = True  # nothing is to be done when it is thrown away

    def __init__(self, variable: ContextVar[Any], value: Any) -> None:
        self._variable, self._value = variable, value
        self._before: list[Any] = []  # values from outside, one for each block that is entered
        put_back = map(variable.set, iter(self._before.pop, _NEVER))  # each step takes the last value and sets it
        # It must give something false, so that what was raised in the block goes on; a token of a variable is true.
        self.close = map(is_, put_back, repeat(_NEVER)).__next__  # type: ignore[assignment]

    def _recreate_cm(self) -> Self:  # a decorated function enters a fresh one at each call
        fresh = type(self).__new__(type(self))
        during.__init__(fresh, self._variable, self._value)
        return fresh

    def __enter__(self) -> Any:
        outside, before = len(self._before), self._variable.get()
        try:
            self._before.append(before)
            self._variable.set(self._value)
            return self._value
        except BaseException:
            del self._before[outside:]
            self._variable.set(before)
            raise


class without_collection(IOBase):  # noqa: N801
    """Within it nobody looks for garbage in cycles: where a great many objects are made that live on.

    A child forked meanwhile by another thread collects again.
    """

    closed = True
    entered: Final[WeakSet[Any]] = WeakSet()

    def __init__(self) -> None:
        self.close = gc.enable if gc.isenabled() else str  # type: ignore[assignment, method-assign]  # both give nothing

    def __enter__(self) -> Any:
        try:
            if self.close is gc.enable:
                self.entered.add(self)  # until the block has ended, and it is thrown away
            gc.disable()
        except BaseException:
            self.close()
            raise


def _in_child() -> None:
    if without_collection.entered:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


# ── the variables ────────────────────────────────────────────────────────────────────────────────────────────

grad_modes: ContextVar[Any] = ContextVar("micrograd_grad_mode", default=True)
"""Whether operations record: True or False everywhere, or a tuple with one bool for each depth of `vmap`; what is
deeper is as the last. A sweep inside `vmap` is not to be recorded at its own depth, and is to be at those below, whose
graphs go through it. See `engine.modes`."""

half_types: ContextVar[DType | None] = ContextVar("micrograd_autocast", default=None)
"""The half type in which operations compute, if any: `engine.modes`."""

precisions: ContextVar[str] = ContextVar("micrograd_matmul_precision", default="highest")
"""In what float32 products are computed: `engine.modes`."""

default_devices: ContextVar[Any] = ContextVar("micrograd_default_device", default=None)
"""Where tensors are made when nobody says; without it the environment decides: `device`."""

generators: ContextVar[Any] = ContextVar("micrograd_generator", default=None)
"""Where random numbers come from when nobody says; without it from the process's generator: `random`."""

saved_states: ContextVar[tuple[dict[Any, Any], ...]] = ContextVar("micrograd_saved_states", default=())
"""Who takes note of the generators that are drawn from, and of where each stood before: `random.saving_states`."""

restored_generators: ContextVar[dict[Any, Any] | None] = ContextVar("micrograd_restored_generators", default=None)
"""Which generators stand in for others: `random.restore_states`."""

forking: ContextVar[list[tuple[Any, int]]] = ContextVar("micrograd_forking")
"""The numbers that a child about to be forked gets for its generators: `random`."""

computing_again: ContextVar[bool] = ContextVar("micrograd_computing_again", default=False)
"""Whether a checkpoint is running its function once more, and what that does besides was done before."""

tracing: ContextVar[Any] = ContextVar("micrograd_trace", default=None)
"""A `scalar.jit.Trace` that takes note of what Values do."""

programs: ContextVar[Any] = ContextVar("micrograd_program", default=None)
"""A `transforms.tracing.Trace` that writes down what tensors do, while a function under `jit` is traced."""


def is_traced() -> bool:
    """Whether `jit` traces a function here: what it asks for is written down, and done at each call of the program."""
    return programs.get() is not None


stand_ins: ContextVar[tuple[tuple[Any, Any], ...]] = ContextVar("micrograd_stand_ins", default=())
"""Pairs of tensors: the first is what the second was, for the time of a call. See `engine.array`."""

levels: ContextVar[tuple[Any, ...]] = ContextVar("micrograd_vmap_levels", default=())
"""The calls of `vmap` that this context is inside of, outermost first: `transforms.vmap.Level`."""

making: ContextVar[Callable[[int], None] | None] = ContextVar("micrograd_making", default=None)
"""What is told, before each module and each new tensor is made, how many elements it has; it may refuse by raising:
`checkpoints.structure`."""


def about_to_make(elements: int) -> None:
    """Tell `making`, if anything listens."""
    if (told := making.get()) is not None:
        told(elements)


def depth() -> int:
    """How many calls of `vmap` this context is inside of."""
    return len(levels.get())


def at_hand(root: Any) -> Any:
    """The kernel table of tensors that are made from data here: a device's own, or the one that `jit` looks through."""
    trace = programs.get()
    return root if trace is None else trace.table_over(root)


def at_depth(root: Any) -> Any:
    """The kernel table of tensors that are made here: a device's own, or inside `vmap` that of the innermost level."""
    around, root = levels.get(), at_hand(root)
    return around[-1].table(root, len(around)) if around else root


def draws() -> int:
    """How many sets of random numbers one drawing takes: one, or inside `vmap` perhaps one for each example.

    Raises
    ------
    TransformError
        When a `vmap` around this does not say.
    """
    around = levels.get()
    if any(level.randomness == "error" for level in around):
        raise TransformError(
            "random numbers are drawn inside vmap, which does not say whether each example gets its own: write "
            'vmap(f, randomness="different"), or randomness="same" for the same numbers in all'
        )
    return math.prod(level.size for level in around if level.randomness == "different")
