"""Programs as printed functions: one line for a step, and values that die after their last use."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from micrograd_core.compiler.executor import bound, straight_line
from micrograd_core.compiler.program import Program, Ref, Step


class Value:
    """A handle that can be watched."""


def test_a_value_dies_after_its_last_use() -> None:
    made: list[Any] = []
    alive: list[list[int]] = []

    def kernel(*operands: Any) -> Value:
        alive.append([i for i, each in enumerate(made) if each() is not None])
        value = Value()
        made.append(weakref.ref(value))
        return value

    steps = (
        Step("exp", (Ref(0),), {}),
        Step("log", (Ref(1),), {}),
        Step("add", (Ref(1), Ref(2)), {}),
        Step("sqrt", (Ref(0),), {}),  # which nobody reads
        Step("tanh", (Ref(3),), {}),
    )
    found = straight_line(Program(1, steps, (Ref(5), Ref(3), 2.0)), lambda op: kernel)(Value())
    assert alive == [[], [0], [0, 1], [2], [2]]
    assert [each() for each in made] == [None, None, found[1], None, found[0]]
    assert found[2] == 2.0


def test_what_a_kernel_declines_is_composed() -> None:
    step = Step("tanh", (Ref(0),), {})
    composed: Any = lambda op: lambda x: (op, x)  # noqa: E731
    assert bound(step, lambda op: lambda x: NotImplemented, composed)(3) == ("tanh", 3)
    assert bound(step, lambda op: None, composed)(3) == ("tanh", 3)
    assert bound(step, lambda op: lambda x: -x, composed)(3) == -3
    with pytest.raises(KeyError, match="the program needs a kernel for 'tanh'"):
        bound(step, lambda op: None)
