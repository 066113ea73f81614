"""Training that was interrupted and goes on from a checkpoint equals training that never stopped, to the last bit."""

from __future__ import annotations

import inspect
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import micrograd_core as mg
from micrograd_core import asarray, nn, optim
from micrograd_core.checkpoints import load, save
from tests.interrupts import EXHAUSTIVE, ROOT

SCALED = "SGD with a scale"
RULES: dict[str, Callable[[Any], Any]] = {
    **{
        name: partial(kind, lr=0.01)
        for name in optim.__all__
        if inspect.isclass(kind := getattr(optim, name))
        and issubclass(kind, optim.Optimizer)
        and kind is not optim.Optimizer
    },
    "SGD with momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "SGD of Nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    SCALED: lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "RMSprop with momentum": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.9),
}
CASES = [
    (rule, jitted)
    for rule in RULES
    for jitted in (False, True)
    if not jitted or rule == "AdamW" or (EXHAUSTIVE and rule != SCALED)
]


class Rows:
    """Shuffled batches that go on where they were."""

    def __init__(self, count: int, size: int) -> None:
        self.count, self.size, self.draw, self.order, self.at = count, size, random.Random(0), list[int](), 0

    def state_dict(self) -> dict[str, Any]:
        return {"order": self.order, "at": self.at, "draw": self.draw.getstate()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.order, self.at = state["order"], state["at"]
        self.draw.setstate(state["draw"])

    def __iter__(self) -> Iterator[list[int]]:
        while True:
            if self.at >= len(self.order):
                self.order, self.at = self.draw.sample(range(self.count), self.count), 0
            self.at += self.size
            yield self.order[self.at - self.size : self.at]


class Run:
    """Everything that a training has, made anew with other numbers each time."""

    def __init__(self, name: str, jitted: bool, seed: int) -> None:
        mg.random.manual_seed(seed)
        self.model = nn.Sequential(
            nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 8),
            nn.Dropout(0.2, generator=mg.random.Generator(seed)), nn.Linear(8, 3),
        )  # fmt: skip
        self.rule = RULES[name](self.model.parameters())
        self.schedule = optim.Schedule(self.rule, optim.linear_warmup(4, optim.cosine(20)))
        self.scaler = mg.GradScaler(2.0**64, growth=16.0, interval=3)
        self.data = Rows(30, 6)
        self.x = mg.random.normal((30, 5), generator=mg.random.Generator(7))
        self.y = asarray([i % 3 for i in range(30)])
        model, rule, schedule, scaler = self.model, self.rule, self.schedule, self.scaler

        def backward(x: Any, y: Any) -> Any:
            loss = mg.cross_entropy(model(x), y)
            rule.zero_grad()
            (scaler.scale(loss) if name == SCALED else loss).backward()
            return loss

        def step(x: Any, y: Any) -> Any:
            if name == "LBFGS":  # which computes the loss as often as it likes
                loss = rule.step(lambda: backward(x, y))
            else:
                loss = backward(x, y)
                if name == SCALED:
                    scaler.step(rule)
                    scaler.update()
                else:
                    rule.step()
            schedule.step()
            return loss

        self.step = mg.jit(step) if jitted else step

    def go(self, steps: int) -> list[float]:
        rows = iter(self.data)
        losses = []
        for _ in range(steps):
            batch = asarray(next(rows))
            losses.append(self.step(mg.take(self.x, batch, axis=0), mg.take(self.y, batch, axis=0)).item())
            random.random()  # as augmentations draw
        return losses

    @property
    def parts(self) -> dict[str, Any]:
        return {
            "model": self.model, "optimizer": self.rule, "schedule": self.schedule, "scaler": self.scaler,
            "data": self.data, "random": True,
        }  # fmt: skip

    def facts(self) -> Any:
        states = self.model.state_dict(), self.rule.state_dict()
        return (
            [{name: x.tolist() if isinstance(x, mg.Tensor) else x for name, x in state.items()} for state in states],
            self.rule.lr,
            self.scaler.state_dict(),
            random.random(),
            mg.random.uniform().item(),
        )


@pytest.mark.parametrize(("rule", "jitted"), CASES)
def test_a_run_that_goes_on_equals_one_that_never_stopped(tmp_path: Path, rule: str, jitted: bool) -> None:
    steps = 14
    whole = Run(rule, jitted, seed=1)
    random.seed(3)
    losses = whole.go(steps)
    wanted = whole.facts()
    draw = random.Random(rule)
    for stop in range(steps) if EXHAUSTIVE else draw.sample(range(1, steps), 2 - jitted):
        first = Run(rule, jitted, seed=1)
        random.seed(3)
        before = first.go(stop)
        save(tmp_path / "a", **first.parts)
        first.go(2)  # what was done after the last checkpoint is lost
        random.seed(4)
        second = Run(rule, jitted, seed=2)
        if draw.random() < 0.5:
            second.go(3)  # a program that is there already, and moments
        load(tmp_path / "a", **second.parts)
        assert before + second.go(steps - stop) == losses
        assert second.facts() == wanted


KILLED = """
import os, random, signal, sys
sys.path.insert(0, ".")
from tests.checkpoints.test_resume import Run
from micrograd_core.checkpoints import load, save

path, kill, steps = sys.argv[1], int(sys.argv[2]), 12
run, done = Run("AdamW", False, seed=1), 0
random.seed(3)
if os.path.exists(path):
    done = load(path, **run.parts).meta["done"]
while done < steps:
    run.go(1)
    done += 1
    save(path, **run.parts, meta={"done": done})
    if done == kill:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_goes_on(tmp_path: Path) -> None:
    def ends(name: str, kill: int) -> int:
        command = [sys.executable, "-c", KILLED, str(tmp_path / name), str(kill)]
        return subprocess.run(command, cwd=ROOT, capture_output=True).returncode

    assert ends("whole", 0) == 0
    assert ends("killed", 5) == -9
    assert ends("killed", 0) == 0
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "killed").read_bytes()


def test_a_learning_rate_that_was_set_by_hand_goes_on(tmp_path: Path) -> None:
    rule = optim.Adam([mg.ones(2, requires_grad=True)], lr=0.5)
    rule.lr = 0.25
    save(tmp_path / "a", optimizer=rule)
    again = optim.Adam([mg.ones(2, requires_grad=True)], lr=0.5)
    load(tmp_path / "a", optimizer=again)
    assert again.lr == 0.25


def test_several_of_a_kind_go_on(tmp_path: Path) -> None:
    def pair() -> list[Any]:
        return [optim.SGD([mg.ones(2, requires_grad=True)], lr=lr, momentum=0.9) for lr in (0.5, 0.25)]

    rules = pair()
    for rule in rules:
        rule.params[0].sum().backward()
        rule.step()
    save(tmp_path / "a", optimizer=rules, data={"train": Rows(3, 1), "test": [Rows(2, 1)]})
    others = pair()
    load(tmp_path / "a", optimizer=others, data={"train": Rows(3, 1), "test": [Rows(2, 1)]})
    assert [rule.state_dict()["0.velocity"].tolist() for rule in others] == [[1.0, 1.0]] * 2
