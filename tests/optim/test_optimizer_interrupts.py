"""What an interrupt, or a lack of memory, at any line leaves behind: nothing half done."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, GradScaler, Tensor, asarray, nn, optim
from micrograd_core.errors import GraphError
from micrograd_core.optim import Optimizer
from tests.interrupts import EXHAUSTIVE, interrupted

WHOLE = (
    "base.py",
    "optimizers.py",
    "assignments.py",
    "scaling.py",
    "factors.py",
    "schedules.py",
    "test_optimizer_interrupts.py",
)

RULES: dict[str, Callable[[list[Tensor]], Optimizer]] = {
    "sgd": lambda params: optim.SGD(params, lr=0.1, weight_decay=0.01),
    "momentum": lambda params: optim.SGD(params, lr=0.1, momentum=0.9, dampening=0.2),
    "nesterov": lambda params: optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda params: optim.Adam(params, lr=0.1, weight_decay=0.01),
    "adamw": lambda params: optim.AdamW(params, lr=0.1),
    "rmsprop": lambda params: optim.RMSprop(params, lr=0.1, weight_decay=0.01),
    "rmsprop with momentum": lambda params: optim.RMSprop(params, lr=0.1, momentum=0.9),
}


# ── a device's kernels for many parameters ───────────────────────────────────────────────────────────────────


def sgd_step(
    params: Any, grads: Any, velocities: Any, *, lr: float, momentum: float, dampening: float, weight_decay: float,
    nesterov: bool,
) -> Any:  # fmt: skip
    """SGD, with states in new memory."""
    grads = [g + weight_decay * p for p, g in zip(params, grads, strict=True)]
    made = [
        g.copy() if v is None else momentum * v + (1 - dampening) * g for v, g in zip(velocities, grads, strict=True)
    ]
    ways = [g + momentum * v if nesterov else v for g, v in zip(grads, made, strict=True)] if momentum else grads
    return [np.asarray(p - lr * way) for p, way in zip(params, ways, strict=True)], made


def adam_step(
    params: Any, grads: Any, firsts: Any, seconds: Any, *, step: float, betas: Any, eps: float, weight_decay: float,
    shrink: float,
) -> Any:  # fmt: skip
    """Adam, with states in new memory."""
    grads = [g + weight_decay * p for p, g in zip(params, grads, strict=True)]
    firsts = [
        np.asarray((1 - betas[0]) * g + (0 if m is None else betas[0] * m)) for m, g in zip(firsts, grads, strict=True)
    ]
    seconds = [
        np.asarray((1 - betas[1]) * g * g + (0 if v is None else betas[1] * v))
        for v, g in zip(seconds, grads, strict=True)
    ]
    moved = [
        np.asarray(p * shrink - step * m / (np.sqrt(v) + eps)) for p, m, v in zip(params, firsts, seconds, strict=True)
    ]
    return moved, firsts, seconds


def in_place(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """As the cuda backend's: states that there are are written where they are, after all that may fail."""

    def step(params: Any, grads: Any, *states: Any, **hyper: Any) -> Any:
        moved, *found = kernel(params, grads, *states, **hyper)
        for old, new in zip(states, found, strict=True):
            for i, (before, after) in enumerate(zip(old, new, strict=True)):
                if before is not None:
                    before[...] = after
                    new[i] = before
        return moved, *found

    return step


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Give the cpu such kernels, which write states in place or not."""
    backend = Device("cpu").kernels.backend
    own = backend.kernel

    def give(writes: bool) -> None:
        found = {"sgd_step": sgd_step, "adam_step": adam_step}
        kernels = {name: in_place(kernel) for name, kernel in found.items()} if writes else found
        monkeypatch.setattr(backend, "kernel", lambda name: kernels.get(name) or own(name))

    return give


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────


def made(rule: str, path: str, steps: int = 0) -> Optimizer:
    """A rule over four parameters, one of them without a gradient, after some steps."""
    rng = np.random.default_rng(0)
    shapes: list[tuple[int, ...]] = [(2,), (3, 1), (), (2, 2)]
    found = []
    for i, shape in enumerate(shapes):
        numbers, slope = rng.normal(size=shape), rng.normal(size=shape)
        if path == "complex" and i != 1:
            numbers, slope = numbers + 1j, slope - 2j * rng.normal(size=shape)
        p = Tensor(numbers, device="rawbuffer" if path == "rawbuffer" else "cpu")
        if i != 2:
            p.grad = asarray(slope, device=p.device)
        found.append(p)
    stepper = RULES[rule](found)
    for _ in range(steps):
        stepper.step()
    return stepper


def snapshots(rule: Optimizer) -> list[Any]:
    """For each parameter its numbers, and what is kept for it."""
    kept = {name: x.tolist() for name, x in rule.state_dict().items()}
    return [
        (p.tolist(), {name: x for name, x in kept.items() if name.startswith(f"{i}.")})
        for i, p in enumerate(rule.params)
    ]


PATHS = [(rule, path) for rule in RULES for path in ("one by one", "complex")]
PATHS += [(rule, "rawbuffer") for rule in (RULES if EXHAUSTIVE else ("nesterov", "adam"))]
PATHS += [(rule, "together") for rule in RULES if not rule.startswith("rmsprop")]


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize(("rule", "path"), PATHS)
def test_a_parameter_and_its_state_are_both_before_or_both_after_the_step(
    rule: str, path: str, steps: int, together: Callable[[bool], None]
) -> None:
    if path == "together":
        together(False)
        assert made(rule, path)._together
    expected = [snapshots(made(rule, path, steps + i)) for i in range(3)]
    seen = set()
    for line, stepper in interrupted(lambda: made(rule, path, steps), Optimizer.step, WHOLE):
        found = snapshots(stepper)
        assert found[2] == expected[0][2]  # it has no gradient, and never moves
        done = {i: [each[i] for each in expected[:2]].index(found[i]) for i in (0, 1, 3)}  # raises if it is neither
        seen.add(tuple(done.values()))
        stepper.step()
        again = snapshots(stepper)
        assert all(again[i] == expected[1 + steps_done][i] for i, steps_done in done.items()), line
    if path == "together":
        assert seen == {(0, 0, 0), (1, 1, 1)}  # all of the group, or none
    else:
        assert {(0, 0, 0), (1, 0, 0), (1, 1, 0)} <= seen <= {(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1)}


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("rule", ["momentum", "adam"])
def test_states_that_a_kernel_writes_in_place_are_never_torn(
    rule: str, steps: int, together: Callable[[bool], None]
) -> None:
    together(True)
    expected = [snapshots(made(rule, "together", steps + i)) for i in range(3)]
    for _, stepper in interrupted(lambda: made(rule, "together", steps), Optimizer.step, WHOLE):
        found = snapshots(stepper)
        moved = [p for p, _ in found]
        after = moved == [p for p, _ in expected[1]]
        assert after or moved == [p for p, _ in expected[0]]
        if after or not steps:  # the first step makes the states, and has nothing to write to
            assert found == expected[int(after)]
        stepper.step()
        if after or not steps:
            assert snapshots(stepper) == expected[int(after) + 1]
        assert all(np.isfinite(p).all() for p, _ in snapshots(stepper))


def test_nothing_moves_when_one_parameter_was_moved_or_converted() -> None:
    changes: list[dict[str, str]] = [{"device": "rawbuffer"}, {"dtype": "float64"}]
    for change in changes:
        first, second = nn.Linear(2, 1), nn.Linear(2, 1)
        rule = optim.SGD([*first.parameters(), *second.parameters()], lr=1.0)
        second.to(**change)
        for p in rule.params:
            p.grad = Tensor(np.ones(p.shape), dtype=p.dtype, device=p.device, requires_grad=False)
        before = snapshots(rule)
        with pytest.raises(
            GraphError, match="was float32 on cpu, and is now .* make the optimiser after moving or con"
        ):
            rule.step()
        assert snapshots(rule) == before


# ── the rest of a training step ──────────────────────────────────────────────────────────────────────────────


def gradients(rule: Optimizer) -> list[Any]:
    return [None if p.grad is None else p.grad.tolist() for p in rule.params]


@pytest.mark.parametrize(
    "act",
    [lambda rule: optim.clip_grad_norm(rule.params, 0.5), lambda rule: optim.clip_grad_value(rule.params, 0.2)],
    ids=["norm", "value"],
)
def test_all_gradients_are_clipped_or_none(act: Callable[[Optimizer], Any]) -> None:
    whole = made("sgd", "one by one")
    before = gradients(whole)
    act(whole)
    after = gradients(whole)
    assert before != after
    for _, rule in interrupted(lambda: made("sgd", "one by one"), act, WHOLE):
        assert gradients(rule) in (before, after)


def test_zero_grad_can_be_called_again() -> None:
    before = gradients(made("sgd", "one by one"))
    for _, rule in interrupted(lambda: made("sgd", "one by one"), Optimizer.zero_grad, WHOLE):
        assert all(g is None or g == old for g, old in zip(gradients(rule), before, strict=True))
        rule.zero_grad()
        assert gradients(rule) == [None] * 4


@pytest.mark.parametrize("path", ["one by one", "complex"])
def test_an_optimiser_loads_all_or_nothing(path: str) -> None:
    new, old = made("adam", path, 3), made("adam", path, 1)
    state = new.state_dict()
    both = [{name: x.tolist() for name, x in each.state_dict().items()} for each in (old, new)]
    for _, rule in interrupted(lambda: made("adam", path, 1), lambda rule: rule.load_state_dict(state), WHOLE):
        assert {name: x.tolist() for name, x in rule.state_dict().items()} in both
        rule.step()


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3, generator=Random(0)), nn.BatchNorm1d(3), nn.Linear(3, 1, generator=Random(0)))


def numbers(model: nn.Module) -> Any:
    grads = [None if p.grad is None else (p.grad.dtype, p.grad.tolist()) for p in model.parameters()]
    return {name: (x.dtype, x.device, x.tolist()) for name, x in model.state_dict().items()}, grads


@pytest.mark.parametrize(
    "act",
    [
        lambda model: model.load_state_dict({name: x + 1 for name, x in model.state_dict().items()}),
        lambda model: model.to(dtype="float64"),
        lambda model: model.to("rawbuffer"),
    ],
    ids=["load", "convert", "move"],
)
def test_a_network_loads_and_converts_and_moves_all_or_nothing(act: Callable[[nn.Module], Any]) -> None:
    def learnt() -> nn.Module:
        model = network()
        (model(Tensor([[1.0, 2.0], [3.0, 5.0]])) ** 2).sum().backward()
        return model

    model = learnt()
    before = numbers(model)
    act(model)
    after = numbers(model)
    assert before != after
    for _, model in interrupted(learnt, act, WHOLE):
        assert numbers(model) in (before, after)


class Scaled:
    """A rule with gradients of a scaled loss, and their scaler."""

    def __init__(self, ready: bool = False) -> None:
        self.rule, self.scaler = made("momentum", "one by one"), GradScaler(8.0, interval=1)
        for p in self.rule.params:
            if p.grad is not None:
                p.grad = p.grad * 8.0
        if ready:
            self.scaler.step(self.rule)

    def told(self) -> Any:
        scaler = self.scaler
        return scaler.factor, scaler.good_steps, scaler._finite, len(scaler._unscaled), gradients(self.rule)


@pytest.mark.parametrize("what", ["unscale", "update"])
def test_a_scaler_has_unscaled_and_updated_all_or_nothing(what: str) -> None:
    ready = what == "update"

    def act(x: Scaled) -> None:
        x.scaler.update() if ready else x.scaler.unscale(x.rule)

    whole = Scaled(ready)
    before = whole.told()
    act(whole)
    for _, x in interrupted(lambda: Scaled(ready), act, WHOLE):
        assert x.told() in (before, whole.told())


def test_a_step_of_a_scaler_can_be_taken_again() -> None:
    expected = [snapshots(made("momentum", "one by one", i)) for i in range(3)]
    for _, x in interrupted(Scaled, lambda x: x.scaler.step(x.rule), WHOLE):
        done = [[expected[k][i] for k in (0, 1)].index(each) for i, each in enumerate(snapshots(x.rule))]
        assert x.scaler.step(x.rule)
        assert all(
            each == expected[done[i] + 1][i] or i == 2 for i, each in enumerate(snapshots(x.rule))
        )  # with gradients that were unscaled once


def test_a_schedule_has_gone_on_or_not() -> None:
    def schedule() -> optim.Schedule:
        rule = optim.SGD([Tensor([1.0])], lr=1.0)
        return optim.Schedule(rule, optim.linear_warmup(4, optim.cosine(4)))

    rates = {(0, 0.25), (1, 0.5)}
    found = {(x.count, x.optimizer.lr) for _, x in interrupted(schedule, optim.Schedule.step, WHOLE)}
    assert found == rates
