"""Long chains of scalars are packed, and nobody can tell but the garbage collector."""

from __future__ import annotations

import contextlib
import gc
import random
import runpy
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from micrograd_core import Device, Value, draw, jit
from micrograd_core.scalar import packing
from micrograd_core.scalar.sweep import reachable

STEPS: tuple[Callable[[Any, Any, Any, Any], Any], ...] = (
    lambda y, x, w, earlier: y + x,
    lambda y, x, w, earlier: y * w,
    lambda y, x, w, earlier: w * y,
    lambda y, x, w, earlier: y - 0.25,
    lambda y, x, w, earlier: y / 1.01,
    lambda y, x, w, earlier: 1.0 - y,
    lambda y, x, w, earlier: (y + 30.0).relu() - 30.0,
    lambda y, x, w, earlier: (y * 0.1).tanh() * 10.0,
    lambda y, x, w, earlier: y - (y * 0.1) ** 2,
    lambda y, x, w, earlier: y + x * w,
    lambda y, x, w, earlier: y * (w + 2.0) ** x,
    lambda y, x, w, earlier: y + 0.1 * earlier,
)
"""Slopes near 1, so that what a long chain begins with still matters at its end."""


def chain(length: int, place: str = "cpu") -> tuple[Any, Any, Any]:
    """The end of a long chain, and its leaves."""
    x, w = Value(1.0, place), Value(0.99, place)
    y = x
    for _ in range(length // 2):
        y = y * w + x
    return y, x, w


def program(seed: int, length: int, keep: Callable[[int, Any], object]) -> tuple[Any, Any, Any]:
    """The end of a random computation, and its leaves; `keep` gets each step's number and result."""
    choice = random.Random(seed)
    x, w = Value(0.75), Value(-0.99)
    y = earlier = x
    for i in range(length):
        y = choice.choice(STEPS)(y, x, w, earlier)
        keep(i, y)
        if choice.random() < 0.01:
            earlier = y
        if choice.random() < 0.002:
            y = x - y  # a chain of first operands ends here
    return y, x, w


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), length=st.integers(1, 1500), every=st.sampled_from([10, 100, 300, 1000]))
def test_a_graph_is_swept_and_drawn_as_if_every_node_were_held(seed: int, length: int, every: int) -> None:
    everything: dict[int, Any] = {}
    some: dict[int, Any] = {}
    whole = program(seed, length, everything.__setitem__)
    parts = program(seed, length, lambda i, y: some.__setitem__(i, y) if i % every == 0 else None)
    for _ in range(2):
        whole[0].backward()
        parts[0].backward()
    assert parts[0].data == whole[0].data
    assert [x.grad for x in parts[1:]] == pytest.approx([x.grad for x in whole[1:]], rel=1e-9)
    assert [x.grad for x in some.values()] == pytest.approx([everything[i].grad for i in some], rel=1e-9)
    assert draw(parts[0], limit=10**5).mermaid == draw(whole[0], limit=10**5).mermaid
    parts[0].backward()  # what was drawn is still a graph
    assert parts[1].grad == pytest.approx(1.5 * whole[1].grad, rel=1e-9)


@pytest.mark.parametrize("step", [lambda y, x, w: y * w + x, lambda y, x, w: x + w * y], ids=["first", "second"])
def test_a_long_chain_is_little_work_for_the_garbage_collector(step: Callable[[Any, Any, Any], Any]) -> None:
    x, w = Value(1.0), Value(0.99)
    y = step(x, x, w)  # which imports what it needs
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(10_000):
        y = step(y, x, w)
    gc.collect()
    assert len(gc.get_objects()) - before < 2000
    assert y.data == pytest.approx(100.0)


@pytest.mark.parametrize("place", ["cpu", "rawbuffer:0", "strict:0"])
def test_a_chain_on_any_device_has_its_gradients(place: str) -> None:
    y, x, w = chain(600, place)
    y.backward()
    assert y._prev
    assert all(node.device == Device(place) for node in y._prev)
    assert x.grad == pytest.approx(sum(0.99**i for i in range(301)))
    assert w.grad == pytest.approx(sum(i * 0.99 ** (i - 1) for i in range(301)))


def computed_operand(node: Any) -> Any:
    """The operand that is not a leaf, if there is one."""
    return next((x for x in node._prev if x._op), None)


def test_what_is_held_keeps_its_identity_and_what_is_watched_its_life() -> None:
    x = Value(2.0)
    y = held = x * 1.0
    watched = []
    for _ in range(500):
        y = y * 1.0 + 0.0
        watched.append(weakref.ref(y))
    y.backward()
    assert held.grad == 1.0
    node = y
    for reference in reversed(watched):
        assert reference() is node
        node = computed_operand(computed_operand(node))
    assert node is held


def test_a_chain_can_be_walked_back_to_its_start() -> None:
    y, x, w = chain(2_000)
    y.backward()
    node, ops, slope = y, [], 1.0
    while node is not None:
        assert node.grad == pytest.approx(slope)
        ops.append(node._op)
        slope *= 0.99 if node._op == "*" else 1.0
        last, node = node, computed_operand(node)
    assert ops == ["+", "*"] * 1000
    assert last._prev == {x, w}


def test_a_chain_that_was_walked_goes_on() -> None:
    y, x, w = chain(1_000)
    for _ in range(3):
        for _ in range(200):
            y = y * w
        assert len(draw(y, limit=10**5).nodes) > 1000
    y.backward()
    end, start, factor = 0.99**600, sum(0.99**i for i in range(501)), sum(i * 0.99 ** (i - 1) for i in range(501))
    assert x.grad == pytest.approx(end * start)
    assert w.grad == pytest.approx(end * factor + 600 * 0.99**599 * start)


def test_a_chain_that_was_swept_and_goes_on_keeps_what_the_sweep_found() -> None:
    pictures = []
    for hold in (True, False):
        y, held = Value(1.0), []
        for i in range(700):
            y = y * 0.99
            if hold:
                held.append(y)
            if i == 400:
                y.backward()
        pictures.append(draw(y, limit=10**5).mermaid)
    assert pictures[0] == pictures[1]


def test_assigning_the_gradient_of_a_result_says_nothing_about_its_operands() -> None:
    y, x, w = chain(600)
    y.backward()
    node, expected, slope = y, 1.0, 1.0
    while node is not None:
        assert node.grad == pytest.approx(expected)
        node.grad = 7.0
        node = next((each for each in node._prev if each is not x and each is not w), None)
        expected *= slope
        slope = 0.99 / slope  # of + and * in turn


def test_many_operations_on_the_end_of_a_chain_do_not_walk_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    count = packing.references
    monkeypatch.setattr(packing, "references", lambda x: asked.append(0) or count(x))
    y, held = Value(1.0), []
    for _ in range(packing.LONG):
        y = y * 1.0
        held.append(y)
    for _ in range(100):
        y * 1.0
    assert 0 < len(asked) <= packing.LONG


def test_an_interpreter_that_counts_no_references_packs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "getrefcount")
    alone = runpy.run_path(packing.__file__)
    monkeypatch.setattr(packing, "references", alone["references"])
    monkeypatch.setattr(packing, "ALONE", alone["ALONE"])
    y, *_ = chain(1000)
    assert type(y._a._a) is Value
    assert not any(type(node) is packing.Run for node in reachable(y))


def test_a_traced_function_follows_a_packed_chain() -> None:
    y, x, _ = chain(1_000)
    scaled = jit(lambda a: a * y)
    a = Value(3.0)
    scaled(a).backward()
    assert a.grad == pytest.approx(y.data)
    x.data = 2.0
    assert scaled(a).data == pytest.approx(3.0 * 2.0 * y.data)


def grow(y: Any) -> None:
    for _ in range(400):
        y = y * 1.0


def test_threads_may_sweep_a_chain_that_another_packs() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            shared, x, _ = chain(200)
            grown = threading.Thread(target=grow, args=(shared,))
            grown.start()
            for _ in range(20):
                x.grad = 0.0
                shared.backward()
                assert x.grad == pytest.approx(sum(0.99**i for i in range(101)))
            grown.join()
    finally:
        sys.setswitchinterval(interval)


class Interrupted(Exception):
    """What a signal raises, as Ctrl-C does."""


def interrupt(*_: Any) -> None:
    raise Interrupted


def test_an_interrupt_leaves_nothing_locked() -> None:
    delay = random.Random(0)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(800):
            y = x = Value(1.0)
            with contextlib.suppress(Interrupted):
                signal.setitimer(signal.ITIMER_REAL, delay.uniform(5e-5, 2e-3))
                while True:
                    y = y * 1.0
            swept = threading.Thread(target=y.backward, daemon=True)
            swept.start()
            swept.join(timeout=30)
            assert x.grad == 1.0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
