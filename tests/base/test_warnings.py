"""Warnings point at the line of the user's program, however deep they arise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Device, plugins
from micrograd_core.errors import DeviceUnavailable
from micrograd_core.support.warning import warn
from micrograd_core.transforms import vmap


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
    monkeypatch.setattr(vmap, "_rule", lambda op: None)
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

TWO = mg.asarray([1.0, 0.0])


def test_filters_and_modes_are_those_of_numpy() -> None:
    told = []
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in log"):
        mg.log(TWO)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="divide by zero encountered in log") as error:
            mg.log(TWO)
        assert any("in log on cpu: shapes [(2,)]" in note for note in error.value.__notes__)
        with np.errstate(all="ignore"):
            assert (TWO / 0.0).detach().numpy().tolist()[0] == np.inf
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
            TWO / 0.0
        with np.errstate(all="call", call=lambda kind, flag: told.append(kind)):
            mg.log(TWO)
    assert told == ["divide by zero"]


def test_an_error_of_a_warning_leaves_the_graph_and_the_gradients() -> None:
    x = mg.Tensor([3e38, 1.0])
    y = x * 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="overflow encountered"):
            y**3
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0]
    z = (x * 1.0).sum()
    x.grad = mg.asarray([3e38, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="overflow encountered in add"):
            z.backward(mg.asarray(3e38))
    assert x.grad.tolist() == [float(np.float32(3e38)), 0.0]


def test_an_optimiser_whose_step_raises_has_not_moved_anything() -> None:
    x = mg.Tensor([1.0, 3e38])
    x.grad = mg.asarray([1.0, 3e38])
    rule = mg.optim.Adam([x], lr=1.0)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        rule.step()
    assert x.tolist() == [1.0, float(np.float32(3e38))]
    assert rule.state_dict() == {}


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
