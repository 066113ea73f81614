"""`GradScaler` in a function under `jit`, which reads no number: beside the same steps without `jit`."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Device, GradScaler, Tensor, jit, optim
from micrograd_core.errors import TraceError

pytestmark = pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")

RULES: dict[str, Callable[[Any], optim.Optimizer]] = {
    "SGD": lambda params: optim.SGD(params, lr=0.1, weight_decay=0.01),
    "momentum": lambda params: optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda params: optim.Adam(params, lr=0.1, weight_decay=0.1),
    "amsgrad": lambda params: optim.Adam(params, lr=0.1, amsgrad=True, maximize=True),
    "AdamW": lambda params: optim.AdamW([{"params": params[:1], "lr": 0.2}, {"params": params[1:]}], lr=0.1),
    "RMSprop": lambda params: optim.RMSprop(params, lr=0.01, momentum=0.5, centered=True),
    "Adagrad": lambda params: optim.Adagrad(params, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.1),
    "Adadelta": optim.Adadelta,
    "Adamax": lambda params: optim.Adamax(params, lr=0.1),
    "Lion": lambda params: optim.Lion(params, lr=0.1),
}


class Training:
    """Parameters, their rule, a scaler, and a step of all, compiled or not."""

    def __init__(self, rule: Callable[[Any], optim.Optimizer], *, clip: float = 0.0, dtype: str = "float32") -> None:
        rng = np.random.default_rng(0)
        self.params = [Tensor(rng.normal(size=shape), dtype=dtype) for shape in ((2,), (3, 2), ())]
        self.rule, self.scaler = rule(self.params), GradScaler(8.0, interval=3)

        def step(x: Tensor) -> Any:
            self.rule.zero_grad()
            v, w, b = self.params
            loss = ((w @ (v * x) + b) ** 2).sum()
            self.scaler.scale(loss).backward()
            if clip:
                self.scaler.unscale(self.rule)
                optim.clip_grad_norm(self.params, clip)
            stepped = self.scaler.step(self.rule)
            self.scaler.update()
            return loss.detach(), stepped

        self.eager, self.compiled = step, jit(step)

    def run(self, way: str, x: float) -> list[Any]:
        loss, stepped = getattr(self, way)(mg.asarray([x, 1.0], dtype=self.params[0].dtype))
        found = [loss.item(), bool(stepped), *self.scaler.state_dict().values()]
        return found + [p.detach().astype("float64").numpy() for p in self.params]


def agree(first: Training, second: Training, rtol: float = 2e-5) -> None:
    """All that the rules keep; what begins with a number is there, in a program that left out the first step."""
    found, other = first.rule.state_dict(), second.rule.state_dict()
    assert not other.keys() - found.keys()
    for name, x in other.items():
        np.testing.assert_allclose(x.numpy(), found[name].numpy(), rtol=rtol, atol=1e-7, err_msg=name)


def numbers(seed: int) -> list[float]:
    """Inputs, of which some give infinite gradients; the first two do, as with a scale that is too large at first."""
    rng = np.random.default_rng(seed)
    drawn = [math.inf if rng.random() < 0.3 else float(rng.normal()) for _ in range(10)]
    return [math.inf, math.nan, *drawn] if seed % 2 else drawn


@pytest.mark.parametrize(("seed", "clip"), [(1, 0.0), (2, 0.5)])
@pytest.mark.parametrize("name", RULES)
def test_a_compiled_step_is_that_without_jit(name: str, seed: int, clip: float) -> None:
    ours, plain = (Training(RULES[name], clip=clip) for _ in range(2))
    for x in numbers(seed):
        for found, expected in zip(ours.run("compiled", x), plain.run("eager", x), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
    agree(ours, plain)
    assert ours.compiled.traces == 2  # before a rule keeps something, and after


@pytest.mark.parametrize("name", ["momentum", "Adam", "Adagrad"])
@pytest.mark.parametrize("seed", range(2))
def test_steps_with_and_without_jit_go_on_from_each_other(name: str, seed: int) -> None:
    """In any order, with copies and states in between."""
    rng, ours, plain = np.random.default_rng(seed), Training(RULES[name]), Training(RULES[name])
    for x in numbers(seed):
        way = str(rng.choice(["eager", "compiled"]))
        for found, expected in zip(ours.run(way, x), plain.run("eager", x), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
        if rng.random() < 0.3:
            ours.rule.load_state_dict(ours.rule.state_dict())
            ours.scaler.load_state_dict(ours.scaler.state_dict())
        agree(ours, plain)
        twin = copy.deepcopy((ours.params, ours.rule))[1]
        for name_, y in twin.state_dict().items():
            np.testing.assert_array_equal(y.numpy(), ours.rule.state_dict()[name_].numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_parameters_of_other_dtypes(dtype: str) -> None:
    ours, plain = (Training(RULES["Adam"], dtype=dtype) for _ in range(2))
    for x in (0.5, math.inf, 0.25, math.nan, 0.1):
        with np.errstate(all="ignore"):
            both = [ours.run("compiled", x), plain.run("eager", x)]
        for found, expected in zip(*both, strict=True):
            np.testing.assert_allclose(found, expected, rtol={"float64": 1e-12}.get(dtype, 0.02), atol=1e-3)


def test_the_rate_of_a_schedule_and_the_scale_are_looked_up_at_each_call() -> None:
    ours, plain = (Training(RULES["Adam"]) for _ in range(2))
    for i in range(8):
        for each in (ours, plain):
            each.rule.lr = 0.1 / (i + 1)
        for found, expected in zip(ours.run("compiled", 0.5), plain.run("eager", 0.5), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
    assert ours.compiled.traces == 2


def test_update_may_be_called_outside(device: Device) -> None:
    w = Tensor([1.0, 2.0], device=device)
    rule, scaler = optim.Adam([w], lr=0.1), GradScaler(4.0, interval=2)

    @jit
    def step(x: Tensor) -> Any:
        rule.zero_grad()
        scaler.scale((w * x).sum()).backward()
        return scaler.step(rule)

    scales, steps = [], []
    for x in (1.0, math.inf, 1.0, 1.0, 1.0):
        steps.append(bool(step(mg.asarray([x, 1.0], device=device))))
        scaler.update()
        scales.append(scaler.get_scale())
    assert steps == [True, False, True, True, True]
    assert scales == [4.0, 2.0, 2.0, 4.0, 4.0]
    assert rule.state_dict()["0.step"].item() == 4


class Anchored(optim.Adam):
    """A rule of one's own, which may keep anything."""

    kept = (*optim.Adam.kept, "anchor")

    def update(self, k: Any, p: Any, g: Any, state: dict[str, Any]) -> Any:
        state["anchor"] = state.get("anchor", p)
        return k.add(k.multiply(super().update(k, p, g, state), 0.5), k.multiply(state["anchor"], 0.5))


REFUSED: dict[str, tuple[Callable[[Any], optim.Optimizer], str]] = {
    "NAdam": (optim.NAdam, "NAdam"),
    "RAdam": (optim.RAdam, "RAdam"),
    "Rprop": (optim.Rprop, "Rprop"),
    "LBFGS": (optim.LBFGS, "LBFGS"),
    "dampening": (lambda params: optim.SGD(params, momentum=0.9, dampening=0.5), "SGD with dampening"),
    "of a group": (
        lambda params: optim.SGD([{"params": params[:1]}, {"params": params[1:], "dampening": 0.5}], momentum=0.9),
        "SGD with dampening",
    ),
    "own": (Anchored, "Anchored"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_program_cannot_leave_out_is_refused(name: str) -> None:
    """And nothing has changed then."""
    rule, said = REFUSED[name]
    training = Training(rule)
    before = [p.tolist() for p in training.params]
    sentence = rf"a program cannot leave out a step of {said}; call scaler.step\(rule\) outside the function"
    with pytest.raises(TraceError, match=sentence):
        training.run("compiled", 0.5)
    assert [p.tolist() for p in training.params] == before
    assert training.scaler.state_dict() == GradScaler(8.0, interval=3).state_dict()
    assert training.rule.state_dict() == {}


def test_dampening_without_momentum_keeps_nothing() -> None:
    ours, plain = (Training(lambda params: optim.SGD(params, lr=0.1, dampening=0.5)) for _ in range(2))
    for x in (math.inf, 0.5, 0.25):
        for found, expected in zip(ours.run("compiled", x), plain.run("eager", x), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-5)


@pytest.mark.parametrize("scale", [2.0**126, 1e39, 2.0**-140])
def test_a_scale_stays_in_the_range_that_losses_have(scale: float) -> None:
    """As without jit; a scale that were infinite, or 0, would leave all steps out for ever."""
    both = [Training(RULES["SGD"], dtype="float64") for _ in range(2)]
    for each in both:
        each.scaler = GradScaler(scale, interval=1)
    for x in (0.1, 0.1, math.inf, 0.1, math.inf, math.inf, 0.1):
        ours, plain = both[0].run("compiled", x), both[1].run("eager", x)
        for found, expected in zip(ours, plain, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12)
    w = Tensor([1.0])
    rule, scaler = optim.SGD([w], lr=1e-4), GradScaler(2.0**126, interval=1)
    for _ in range(5):
        rule.zero_grad()
        scaler.scale((w * w * 0.1).sum()).backward()
        assert scaler.step(rule)
        scaler.update()
    assert scaler.get_scale() == 2.0**127


def test_gradients_of_float64_are_divided_in_float64() -> None:
    p = Tensor([1.0], dtype="float64")
    rule, scaler = optim.SGD([p], lr=1.0), GradScaler(1000.0)

    @jit
    def step(x: Tensor) -> Tensor:
        rule.zero_grad()
        scaler.scale((p.detach() * 0 + p * x).sum()).backward()
        scaler.unscale(rule)
        assert p.grad is not None
        g = p.grad.copy()
        scaler.step(rule)
        scaler.update()
        return g

    for _ in range(3):
        assert step(mg.asarray([1 / 3], dtype="float64")).item() == pytest.approx(1 / 3, rel=1e-15)


def test_parts_may_be_outside_without_another_trace() -> None:
    """`update`, or all after the gradients are divided and clipped; the scale is looked up at each call."""
    p = Tensor([1.0, 2.0])
    rule, scaler = optim.NAdam([p], lr=0.01), GradScaler(8.0, interval=2)

    @jit
    def gradients(x: Tensor) -> Any:
        rule.zero_grad()
        scaler.scale((p * p * x).sum()).backward()
        scaler.unscale(rule)
        return optim.clip_grad_norm([p], 0.5)

    steps = []
    for x in (1.0, 1.0, math.inf, 1.0, 1.0, 1.0):
        gradients(mg.asarray(x))
        steps.append(scaler.step(rule))
        scaler.update()
    assert steps == [True, True, False, True, True, True]
    assert scaler.get_scale() == 16.0
    assert gradients.traces == 2  # at first there is no `.grad`

    ours = Training(RULES["Adam"])

    def without_update(x: Tensor) -> Any:
        ours.rule.zero_grad()
        v, w, b = ours.params
        ours.scaler.scale(((w @ (v * x) + b) ** 2).sum()).backward()
        return ours.scaler.step(ours.rule)

    step = jit(without_update)
    for x in (0.1, 0.2, math.nan, 0.1, 0.3, 0.2):
        assert bool(step(mg.asarray([x, 1.0]))) is not math.isnan(x)
        ours.scaler.update()
    assert step.traces == 2


def test_what_one_rule_finds_counts_for_all() -> None:
    first, second = Tensor([1.0]), Tensor([1.0])
    rules, scaler = [optim.SGD([p], lr=0.1) for p in (first, second)], GradScaler(4.0)

    @jit
    def step(x: Tensor, y: Tensor) -> Any:
        for rule in rules:
            rule.zero_grad()
        scaler.scale((first * x + second * y).sum()).backward()
        for rule in rules:
            scaler.unscale(rule)
        found = [scaler.step(rule) for rule in rules]
        scaler.update()
        return found

    for x, y in ((math.inf, 1.0), (1.0, math.nan), (1.0, 1.0)):
        both = [bool(each) for each in step(mg.asarray([x]), mg.asarray([y]))]
        assert both == [math.isfinite(x + y)] * 2
    assert first.tolist() == second.tolist() == pytest.approx([0.9])
    assert scaler.get_scale() == 1.0


def test_without_a_gradient_a_step_moves_nothing_and_says_so() -> None:
    training = Training(RULES["Adam"])

    def step() -> Any:
        found = training.scaler.step(training.rule)
        training.scaler.update()
        return found

    with pytest.warns(RuntimeWarning, match="moves nothing"):
        assert jit(step)()
    assert training.scaler.good_steps == 1


def test_a_gradient_without_elements_is_finite() -> None:
    p = Tensor(np.zeros((0, 2)))
    rule, scaler = optim.SGD([p], lr=0.1), GradScaler(4.0)

    @jit
    def step() -> Any:
        scaler.scale((p * 2).sum()).backward()
        found = scaler.step(rule), optim.clip_grad_norm([p], 1.0)
        scaler.update()
        return found

    assert step() == (True, 0.0)
    assert scaler.good_steps == 1


def test_a_scaler_of_a_program_scales_elsewhere_too(device: Device) -> None:
    training = Training(RULES["SGD"])
    training.run("compiled", 0.5)
    assert training.scaler.scale(mg.asarray(2.0, device=device)).item() == 16.0
    assert training.scaler.state_dict()["_growth_tracker"] == 1


def test_mistakes_get_a_sentence_in_a_program_too() -> None:
    w = Tensor([1.0])
    rule, scaler = optim.SGD([w], lr=0.5), GradScaler()

    def twice() -> None:
        (w * 2).sum().backward()
        scaler.unscale(rule)
        scaler.unscale(rule)

    def again() -> None:
        (w * 2).sum().backward()
        scaler.step(rule)
        scaler.step(rule)

    for f in (again, jit(again)):
        with pytest.raises(ValueError, match=r"step\(\) was already called for this rule since the last update\(\)"):
            f()
    scaler.update()
    with pytest.raises(ValueError, match="already unscaled"):
        jit(twice)()
    with pytest.raises(ValueError, match=r"call step\(\) before update\(\)"):
        jit(lambda: scaler.update())()
