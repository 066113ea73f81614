"""Warnings point at the line of the user's program, however deep they arise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import micrograd_core as mg
from micrograd_core import Device, plugins
from micrograd_core.errors import DeviceUnavailable
from micrograd_core.ground.warning import warn
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
