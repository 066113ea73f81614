"""Optimisers with the kernel that steps all parameters at once, against the rules written with operations."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cases import played_only
from micrograd_core import Device, Tensor, nn, optim

pytestmark = played_only

RULES: list[Callable[[Any], optim.Optimizer]] = [
    lambda params: optim.SGD(params, lr=0.1),
    lambda params: optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01),
    lambda params: optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
    lambda params: optim.SGD(params, lr=0.1, momentum=0.5, dampening=0.2),
    lambda params: optim.Adam(params, lr=0.01),
    lambda params: optim.Adam(params, lr=0.01, betas=(0.5, 0.9), weight_decay=0.1),
    lambda params: optim.AdamW(params, lr=0.1, weight_decay=0.3),
    lambda params: optim.RMSprop(params, lr=0.01),
]


def trained(device: str, rule: Callable[[Any], optim.Optimizer], dtype: str) -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = [(3, 5), (5,), (), (1, 1), (4097,)]
    params = [Tensor(rng.normal(size=shape).astype(dtype), device=device) for shape in shapes]
    wanted = [Tensor(rng.normal(size=shape).astype(dtype), device=device, requires_grad=False) for shape in shapes]
    stepper = rule(params)
    for step in range(4):
        stepper.zero_grad()
        loss = sum(((p - t) ** 2).sum() for p, t in zip(params[step == 1 :], wanted[step == 1 :], strict=True))
        loss.backward()  # the first parameter has no gradient in the second step
        stepper.step()
    return [np.asarray(p.tolist()) for p in params]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
def test_the_kernel_steps_as_the_rule_does(rule: Callable[[Any], optim.Optimizer], dtype: str) -> None:
    ours, reference = trained("played", rule, dtype), trained("cpu", rule, dtype)
    for x, y in zip(ours, reference, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-7)


def test_all_parameters_move_in_one_launch() -> None:
    device = Device("played")
    launched = device.kernels.backend.runtime.launched
    params = [Tensor(np.ones((n, 3), "float32"), device=device) for n in range(1, 49)]
    rule = optim.Adam(params)
    for p in params:
        p.grad = Tensor(np.ones(p.shape, "float32"), device=device, requires_grad=False)
    del launched[:]
    rule.step()
    assert [unit.family for unit in launched] == ["adam"]
    params.append(Tensor(np.ones(3, "float32"), device=device))
    rule = optim.Adam(params)
    params[-1].grad = params[-1].detach()
    del launched[:]
    rule.step()
    assert [unit.family for unit in launched] == ["adam", "adam"]  # a launch takes 48 of them


def kernel() -> Any:
    """A step of Adam, of lists of arrays."""
    return Device("played").kernels.backend.kernel("adam_step")


def arrays(shapes: list[tuple[int, ...]], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [
        Tensor(rng.normal(size=shape).astype("float32"), device="played", requires_grad=False)._handle
        for shape in shapes
    ]


HYPER: dict[str, Any] = {"betas": (0.9, 0.99), "eps": 1e-3, "weight_decay": 0.0, "shrink": 1.0}


def stepped(p: Any, g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
    """The rule, in float64."""
    m = m * 0.9 + g * 0.1
    v = v * 0.99 + g * g * 0.01
    return p - 0.1 * m / (np.sqrt(v) + 1e-3), m, v


# What happens between steps: to parameters, gradients, states; to the order of all of them.
BETWEEN = ("nothing", "parameter", "layout", "gradient", "state", "states", "order", "fewer", "other")


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_replaced_between_steps_is_what_is_stepped(seed: int) -> None:
    pick = random.Random(seed)
    adam = kernel()
    shapes = [(pick.randrange(1, 9),) for _ in range(pick.choice([3, 50]))]
    sets = []
    for k in range(2):  # two optimisers, by turns
        params = arrays(shapes, k)
        wide = [[np.asarray(x, "float64") for x in params], *([np.zeros(x.shape) for x in params] for _ in range(2))]
        sets.append([params, [None] * len(params), [None] * len(params), wide])
    for step in range(8):
        for k, (params, firsts, seconds, wide) in enumerate(sets):
            grads = arrays([p.shape for p in params], 100 * k + step)
            what, i = pick.choice(BETWEEN) if step > 1 else "nothing", pick.randrange(len(params))
            copies = {"parameter": params, "gradient": grads, "state": firsts}
            if what in copies:
                copies[what][i] = copies[what][i].copy() * 2
                if what != "gradient":
                    wide[what == "state"][i] = np.asarray(copies[what][i], "float64")
            elif what == "layout":
                params[i] = np.repeat(params[i], 2)[::2]
            elif what == "states":
                firsts[:], seconds[:] = [x.copy() for x in firsts], [x.copy() for x in seconds]
            elif what == "order":
                for each in (params, grads, firsts, seconds, *wide):
                    each.reverse()
            elif what == "fewer" and len(params) > 1:
                for each in (params, grads, firsts, seconds, *wide):
                    del each[i]
            elif what == "other":
                params[i] = params[i].copy()
            found = [np.asarray(x, "float64") for x in grads]
            params[:], firsts[:], seconds[:] = map(list, adam(params, grads, firsts, seconds, step=0.1, **HYPER))
            moved = [stepped(*each) for each in zip(wide[0], found, wide[1], wide[2], strict=True)]
            for each, numbers in zip(wide, zip(*moved, strict=True), strict=True):
                each[:] = numbers
            for ours, exact in zip((params, firsts, seconds), wide, strict=True):
                for x, y in zip(ours, exact, strict=True):
                    np.testing.assert_allclose(np.asarray(x, "float64"), y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", [3, 4096 + 5])
def test_means_of_half_precision_are_kept_in_float32(dtype: str, size: int) -> None:
    """An average of numbers that differ little from it would stand still in 8 bits."""
    native = Device("played").kernels.backend.dtypes[dtype]
    (p, g), moments = (x.astype(native) for x in arrays([(size,)] * 2, 0)), [None, None]
    exact = [np.asarray(p, "float64"), 0.0, 0.0]
    for _ in range(300):
        (moved,), *kept = kernel()([p], [g], *([x] for x in moments), step=0.0, **HYPER)
        moments = [x for (x,) in kept]
        _, *exact[1:] = stepped(exact[0], np.asarray(g, "float64"), *exact[1:])
    assert moved.dtype == native
    assert [x.dtype for x in moments] == ["float32"] * 2
    for x, y in zip(moments, exact[1:], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4)


def test_what_was_recorded_before_the_step_keeps_its_numbers() -> None:
    w = Tensor([2.0, 3.0], device="played")
    y = (w * w).sum()
    w.grad = Tensor([1.0, 1.0], device="played", requires_grad=False)
    optim.SGD([w], lr=1.0).step()
    assert w.tolist() == [1.0, 2.0]
    w.zero_grad()
    y.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [4.0, 6.0]


def test_a_network_learns() -> None:
    model = nn.Sequential(nn.Linear(2, 16, generator=random.Random(0)), nn.ReLU(), nn.Linear(16, 2)).to("played")
    x = Tensor([[0, 0], [0, 1], [1, 0], [1, 1]], dtype="float32", device="played", requires_grad=False)
    t = Tensor([0, 1, 1, 0], device="played")
    rule = optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        rule.zero_grad()
        loss = nn.cross_entropy(model(x), t)
        loss.backward()
        rule.step()
    assert loss.item() < 0.05
