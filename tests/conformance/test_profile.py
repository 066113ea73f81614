"""What to make native first: kernel calls counted, and the list that ``micrograd conformance --profile`` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from micrograd_core import Device, asarray, plugins
from micrograd_core.conformance import profile
from micrograd_core.conformance.profile import Call, ranked
from micrograd_core.ops import CORE_KERNELS, TABLE
from micrograd_core.optim import AdamW
from micrograd_core.plugins import hookimpl
from micrograd_core.tools import cli
from micrograd_rawbuffer.storage import RawBufferBackend

BOUNDS = {"mlp": 138, "cnn": 297, "transformer": 540}
"""Kernel calls of a step where a device has the core kernels only. Fewer are welcome: write the number here."""


def adam_step(params: Any, grads: Any, *moments: Any, **hyper: Any) -> Any:
    """The optimiser's kernel, as the optimiser does without it."""
    rule = AdamW.__new__(AdamW)
    vars(rule).update(betas=hyper["betas"], amsgrad=False)
    rule.corrected = lambda t: (hyper["step"], hyper["eps"])  # type: ignore[method-assign]
    table, found = Device("called").kernels, []
    for p, g, m, v in zip(params, grads, *moments, strict=True):
        state = {"step": 1} if m is None else {"step": 2, "m": m, "v": v}
        moved = rule.update(table, table.multiply(p, hyper["shrink"]), g, state)
        found.append((moved, state["m"], state["v"]))
    return zip(*found, strict=True)


class Called(RawBufferBackend):
    """Counts for itself, with kernels for the names in `written`: they compute as the compositions do."""

    def __init__(self, written: frozenset[str] = frozenset()) -> None:
        super().__init__("called:0")
        self.calls, self.depth, self.written = 0, 0, written

    def kernel(self, op: str) -> Any:
        function = super().kernel(op) if op in CORE_KERNELS or op == "copy" else None
        if function is None and op in self.written:

            def function(*operands: Any, **params: Any) -> Any:
                if op == profile.UPDATE:
                    return adam_step(*operands, **params)
                table = Device("called").kernels
                composed: Any = TABLE[op].compose
                return composed(table, *operands, **params)

        if function is None:
            return None

        def counted(*operands: Any, **params: Any) -> Any:
            self.calls += self.depth == 0
            self.depth += 1
            try:
                return function(*operands, **params)
            finally:
                self.depth -= 1

        return counted


@pytest.fixture
def called() -> Iterator[Any]:
    def use(written: frozenset[str] = frozenset()) -> Called:
        class Plugin:
            @hookimpl
            def micrograd_open(self, address: str) -> Any:
                return backend

        backend = Called(written)
        plugins.unregister("called")
        Device.forget("called")
        plugins.register("called", Plugin())
        return backend

    yield use
    plugins.unregister("called")
    Device.forget("called")


@pytest.mark.parametrize("step", profile.STEPS)
def test_the_profile_counts_what_kernels_count(step: str, called: Any) -> None:
    backend = called()
    device = profile.counted_device("called:0")
    counts: list[int] = []
    clear = list.clear

    class Root(list):  # type: ignore[type-arg]
        def clear(self) -> None:
            counts.append(backend.calls)
            clear(self)

    device.kernels.open[0].parts = Root()
    calls = profile.step(step, device)
    assert sum(call.cost() for call in calls) == backend.calls - counts[-1]


@pytest.mark.parametrize("step", profile.STEPS)
def test_the_optimiser_has_one_kernel_for_all_parameters(step: str, called: Any) -> None:
    called()
    composed = profile.step(step, profile.counted_device("called:0"))
    called(frozenset({profile.UPDATE}))
    written = profile.step(step, profile.counted_device("called:0"))
    assert [call.op for call in written] == [call.op for call in composed]
    assert [call.cost() for call in written if call.op == profile.UPDATE] == [1]
    assert sum(call.cost() for call in written) == sum(call.cost(frozenset({profile.UPDATE})) for call in composed)


@pytest.mark.parametrize("step", profile.STEPS)
def test_compositions_grow_no_longer(step: str, called: Any) -> None:
    called()
    calls = profile.step(step, profile.counted_device("called:0"))
    assert sum(call.cost() for call in calls) <= BOUNDS[step]


def test_what_the_list_promises_is_saved(called: Any) -> None:
    """The first kernels of the list written, the count is what the list said would be left."""
    called()
    device = profile.counted_device("called:0")
    advice = ranked({name: profile.step(name, device) for name in profile.STEPS})
    assert [each.total for each in advice] == sorted((each.total for each in advice), reverse=True)
    for many in (1, 5):
        called(frozenset(each.op for each in advice[:many]))
        device = profile.counted_device("called:0")
        left = sum(call.cost() for name in profile.STEPS for call in profile.step(name, device))
        assert left == advice[many - 1].left


def made(op: str, *parts: Call, native: bool = False) -> Call:
    call = Call(op, native)
    call.parts = list(parts)
    return call


def test_costs_and_savings_by_hand() -> None:
    leaf = made("add", native=True)
    softmax = made("softmax", leaf, made("subtract", leaf, leaf), leaf)
    steps = {"one": [softmax, made("subtract", leaf, leaf), leaf], "two": [made("constant")]}
    assert softmax.cost() == 4
    assert softmax.cost(frozenset({"subtract"})) == 3
    assert softmax.cost(frozenset({"softmax"})) == 1
    assert made("constant").cost() == 0
    assert made("declined", leaf, leaf, native=True).cost() == 2
    assert [(each.op, each.calls, each.total, each.left) for each in ranked(steps)] == [
        ("softmax", 1, 3, 4),
        ("subtract", 1, 1, 3),
    ]


def test_the_command_prints_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["conformance", "rawbuffer", "--profile"]) == 0
    printed = capsys.readouterr().out
    assert "training step on rawbuffer:0" in printed
    assert re.search(r"^   1 adam_step +3 +\d+", printed, re.M)
    for name, bound in BOUNDS.items():
        assert re.search(rf"^ +{name} +{bound} +\d+$", printed, re.M), printed
    assert cli.main(["conformance", "cpu", "--profile"]) == 0
    assert "matmul" not in capsys.readouterr().out.partition("Write next")[2]


def test_nothing_is_left_on_the_device_that_was_profiled() -> None:
    x = asarray([1.0], device="rawbuffer")
    profile.report("rawbuffer")
    assert Device("rawbuffer").kernels is x._kernels
    assert x._kernels.__class__.__name__ == "Kernels"
