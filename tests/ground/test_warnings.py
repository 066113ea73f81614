"""Warnings point at the line of the user's program, however deep they arise."""

from __future__ import annotations

import unittest
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Device, plugins
from micrograd_core.errors import DeviceUnavailable
from micrograd_core.ground.warning import warn
from micrograd_core.tables.guards import QUIET
from micrograd_core.transforms import batching


def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best device does not open."""

    def names() -> list[str]:
        return ["absent", "cpu"]

    def call(name: str, hook: str) -> int:
        return {"absent": 100, "cpu": 0}[name]

    def opened(spec: str) -> Device:
        if spec == "absent":
            raise DeviceUnavailable("absent", "it sleeps")
        return Device("cpu:0")

    monkeypatch.setattr(plugins, "names", names)
    monkeypatch.setattr(plugins, "call", call)
    monkeypatch.setattr(Device, "_open", opened)


def without_rules(monkeypatch: pytest.MonkeyPatch) -> mg.Tensor:
    x = mg.asarray([1.0, 2.0])
    monkeypatch.setattr(batching, "_rule", lambda op: None)
    monkeypatch.setattr(x._kernels, "batched", {}, raising=False)
    return x


def traced() -> Any:
    f = mg.jit(lambda x, n: x * n)
    for i in range(8):
        f(mg.ones(1), float(i))
    return f


def in_a_block() -> None:
    with mg.use_device("auto"):  # HERE
        pass


@mg.no_grad()
def decorated() -> None:
    mg.zeros(2, device="auto")  # HERE


@pytest.mark.parametrize(
    "act",
    [
        lambda: Device("absent", fallback="cpu"),  # HERE
        lambda: Device("auto"),  # HERE
        lambda: mg.zeros(3, device="auto"),  # HERE
        lambda: mg.Tensor([1.0]).to("auto"),  # HERE
        in_a_block,
        decorated,
    ],
    ids=range(6),
)
def test_of_devices(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    broken(monkeypatch)
    points_here(act)


def test_of_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    f = traced()
    points_here(lambda: f(mg.ones(1), 8.0))  # HERE
    x = without_rules(monkeypatch)
    points_here(lambda: mg.vmap(lambda x: x.sin())(x))  # HERE
    points_here(lambda: mg.vmap(mg.cos)(x))  # HERE


def test_without_any_other_frame_it_is_the_outermost() -> None:
    def ours(depth: int) -> None:
        scope: dict[str, Any] = {"__name__": "micrograd_core.made_up", "warn": warn}
        exec(f"def f(n): return f(n - 1) if n else warn('w')\nf({depth})", scope)

    points_here(lambda: ours(0), marked="exec(f")
    points_here(lambda: ours(5), marked="exec(f")


# ── what the array library warns of, from C ──────────────────────────────────────────────────────────────────

TWO, ZERO, LARGE = mg.asarray([1.0, 0.0]), mg.asarray([0.0, 0.0]), mg.asarray([1e30, 1e30])


def divided_in_place() -> None:
    x = LARGE * 1
    x /= ZERO  # HERE


SPEAKING: dict[str, Callable[[], Any]] = {
    "operator": lambda: LARGE * LARGE,  # HERE
    "operator-number": lambda: TWO / 0.0,  # HERE
    "operator-reflected": lambda: 1 / TWO,  # HERE
    "in-place": divided_in_place,
    "function": lambda: mg.log(TWO),  # HERE
    "function-of-two": lambda: mg.divide(TWO, ZERO),  # HERE
    "function-of-a-list": lambda: mg.sqrt([-1.0]),  # HERE
    "method": lambda: LARGE.exp(),  # HERE
    "dtypes": lambda: LARGE * mg.asarray([1e300], dtype="float64") * 1e300,  # HERE
    "in-no-grad": mg.no_grad()(lambda: mg.log(TWO)),  # HERE
    "recorded": lambda: mg.log(mg.Tensor([0.0], requires_grad=True)).sum().backward,  # HERE
}


@pytest.mark.parametrize("settled", [False, True], ids=["new", "settled"])
@pytest.mark.parametrize("name", SPEAKING)
def test_of_numbers(name: str, settled: bool) -> None:
    act = SPEAKING[name]
    if settled:  # the kernel is no longer looked at
        with np.errstate(all="ignore"):
            for _ in range(2 * QUIET):
                act()
    points_here(act)


def test_of_numbers_as_the_filters_want_it() -> None:
    def one() -> mg.Tensor:
        return mg.log(TWO)

    def another() -> mg.Tensor:
        return mg.log(TWO)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            one()
            another()
    assert [each.lineno for each in seen] == [f.__code__.co_firstlineno + 1 for f in (one, another)]  # once a line
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="divide by zero encountered in log") as told:
            one()
        assert told.value.__context__ is None
        assert any("in log on cpu: shapes [(2,)]" in note for note in told.value.__notes__)
        warnings.filterwarnings("ignore", "divide by zero", module=__name__)  # the module is the user's too
        assert one().numpy().tolist() == [0.0, -np.inf]


def test_of_numbers_as_numpy_was_told() -> None:
    told = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="ignore"):
            assert (TWO / 0.0).numpy().tolist()[0] == np.inf
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
            TWO / 0.0
        with np.errstate(all="call", call=lambda kind, flag: told.append(kind)):
            mg.log(TWO)
    assert told == ["divide by zero"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # unittest asks all modules for their registries
def test_of_numbers_in_threads_and_beside_unittest() -> None:
    class Case(unittest.TestCase):
        def runTest(self) -> None:  # noqa: N802
            for _ in range(2):
                with self.assertWarns(RuntimeWarning) as seen:
                    mg.log(TWO)
                assert seen.filename == __file__

    Case().debug()
    with ThreadPoolExecutor(4) as pool, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        list(pool.map(lambda _: mg.log(TWO), range(20)))
    assert {each.filename for each in seen} == {__file__}
    assert len(seen) == 20


def test_an_error_that_is_none_of_a_warning_is_told_as_before() -> None:
    with pytest.raises(mg.errors.ShapeError):
        mg.ones(2) + mg.ones(3)
    with pytest.raises(TypeError, match="operands are tensors and numbers"):
        mg.divide(TWO, object())


def points_here(act: Callable[[], Any], marked: str = "# HERE") -> None:
    """What `act` warns of names a line of this file that has the mark."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        act()
    found = [each for each in seen if each.category is RuntimeWarning]
    assert found
    assert {each.filename for each in found} == {__file__}
    with open(__file__, encoding="utf-8") as file:
        lines = file.readlines()
    assert all(marked in lines[each.lineno - 1] for each in found)
