"""Update rules and schedules equal torch's over a hundred steps, eagerly and under jit; groups, averages, states."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor, asarray, jit, nn, optim, vmap
from micrograd_core.errors import GraphError, ShapeError, TraceError
from micrograd_core.optim.optimizers import LARGE
from tests.interrupts import EXHAUSTIVE

RULES: dict[str, tuple[str, dict[str, Any]]] = {}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "SGD": [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"momentum": 0.8, "dampening": 0.3}],
    "Adam": [{}, {"betas": (0.8, 0.95), "eps": 1e-5}, {"amsgrad": True}, {"decoupled_weight_decay": True}],
    "AdamW": [{}, {"amsgrad": True}, {"weight_decay": 0.0}],
    "RMSprop": [{}, {"momentum": 0.5}, {"centered": True}, {"centered": True, "momentum": 0.9, "alpha": 0.8}],
    "Adagrad": [{}, {"lr_decay": 0.1, "initial_accumulator_value": 0.2, "eps": 1e-3}],
    "Adadelta": [{}, {"rho": 0.7, "eps": 1e-3}],
    "NAdam": [{}, {"momentum_decay": 0.1}, {"decoupled_weight_decay": True}],
    "RAdam": [{}, {"betas": (0.7, 0.9)}, {"decoupled_weight_decay": True}],
    "Adamax": [{}, {"betas": (0.7, 0.9), "eps": 1e-3}],
    "Rprop": [{}, {"etas": (0.4, 1.5), "step_sizes": (1e-3, 0.5)}],
    "Lion": [{}, {"betas": (0.8, 0.9)}],
}
for name, options in OPTIONS.items():
    decays = [{}] if name == "Rprop" else [{}, {"weight_decay": 0.05}]
    ways = [{**decay, **up} for decay in decays for up in ({}, {"maximize": True})]
    for i, option in enumerate(options):
        sampled = ways if "MICROGRAD_EXHAUSTIVE" in os.environ or len(ways) < 4 else (ways[:3:2], ways[1::2])[i % 2]
        for way in sampled:
            rate = 0.002 if name == "NAdam" else 0.02  # which magnifies rounding where it has arrived
            hyper = {"lr": rate, **way, **option}
            RULES[f"{name} {hyper}"] = (name, hyper)

RNG = np.random.default_rng(0)
START, TARGET = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(3, 4))


def loss_of(p: Any, q: Any, target: Any, sign: float) -> Any:
    return sign * (((p - target) ** 4).mean() + ((p * q - 0.3) ** 2).mean())


def lion(params: list[Any], grads: list[Any], state: dict[int, Any], hyper: dict[str, Any]) -> list[Any]:
    """The paper's algorithm 2."""
    beta1, beta2 = hyper.get("betas", (0.9, 0.99))
    moved = []
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        g = -g if hyper.get("maximize") else g
        m = state.get(i, np.zeros_like(p))
        way = np.sign(beta1 * m + (1 - beta1) * g)
        moved.append(p - hyper["lr"] * (way + hyper.get("weight_decay", 0.0) * p))
        state[i] = beta2 * m + (1 - beta2) * g
    return moved


def run_of_torch(name: str, hyper: dict[str, Any], steps: int) -> list[Any]:
    torch = pytest.importorskip("torch")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # of what NAdam keeps
    try:
        p, q = (torch.tensor(x, requires_grad=True) for x in START)
        rule = None if name == "Lion" else getattr(torch.optim, name)([p, q], **hyper)
        state: dict[int, Any] = {}
        found = []
        for _ in range(steps):
            p.grad = q.grad = None
            loss_of(p, q, torch.tensor(TARGET), -1.0 if hyper.get("maximize") else 1.0).backward()
            if rule is None:
                arrays = [x.detach().numpy() for x in (p, q)]
                moved = lion(arrays, [x.grad.numpy() for x in (p, q)], state, hyper)
                with torch.no_grad():
                    for x, y in zip((p, q), moved, strict=True):
                        x.copy_(torch.tensor(y))
            else:
                rule.step()
            found.append([x.detach().numpy().copy() for x in (p, q)])
        return found
    finally:
        torch.set_default_dtype(before)


def training(name: str, hyper: dict[str, Any]) -> tuple[Any, Any, Any]:
    p, q = (Tensor(x, dtype="float64", requires_grad=True) for x in START)
    rule = getattr(optim, name)([p, q], **hyper)
    target, sign = asarray(TARGET), -1.0 if hyper.get("maximize") else 1.0

    def step() -> Any:
        rule.zero_grad()
        loss = loss_of(p, q, target, sign)
        loss.backward()
        rule.step()
        return loss

    return (p, q), rule, step


@pytest.mark.parametrize("case", RULES)
def test_a_rule_equals_that_of_torch_over_a_hundred_steps(case: str) -> None:
    name, hyper = RULES[case]
    expected = run_of_torch(name, hyper, 100)
    params, _, step = training(name, hyper)
    for each in expected:
        step()
        for p, wanted in zip(params, each, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_compiled_step_equals_an_eager_one_and_goes_on_after_saving(name: str) -> None:
    hyper = {"lr": 0.02, **OPTIONS[name][-1]}
    eager, _, step = training(name, hyper)
    compiled, rule, other = training(name, hyper)
    fast = jit(other)
    for _ in range(12):
        step()
        fast()
    for p, q in zip(eager, compiled, strict=True):
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=1e-9, atol=1e-10)
    assert fast.traces <= 3, "at first, with what is kept, and where RAdam changes its mind"
    saved = {key: x.numpy() for key, x in rule.state_dict().items()}
    twin, copied, again = training(name, hyper)
    for p, q in zip(compiled, twin, strict=True):
        q.data = p.detach().copy()
    copied.load_state_dict(saved)
    for _ in range(3):
        fast()
        again()
    for p, q in zip(compiled, twin, strict=True):
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    "name", ["Adadelta", "Lion", "Rprop"] if not EXHAUSTIVE else [each for each in OPTIONS if each != "LBFGS"]
)
def test_a_step_alone_under_jit_has_the_same_bits(name: str) -> None:
    draw = np.random.default_rng(0)
    start = [draw.normal(size=shape).astype("float32") for shape in ((3, 5), (5,), (2, 1))]
    runs = []
    for wrapped in (lambda step: step, jit):
        params = [Tensor(x) for x in start]
        rule = getattr(optim, name.split()[0])(params, lr=0.01)
        step, draw = wrapped(rule.step), np.random.default_rng(1)
        for _ in range(5):
            for p in params:
                p.grad = asarray(draw.normal(size=p.shape).astype("float32"))
            step()
        runs.append([p.tolist() for p in params])
    assert runs[0] == runs[1]


# ── groups ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [*OPTIONS][:-1])
def test_groups_have_their_own_hyperparameters(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours = [Tensor(x, dtype="float64", requires_grad=True) for x in START]
    theirs = [torch.tensor(x, requires_grad=True) for x in START]
    more = {} if name == "Rprop" else {"maximize": True}
    rules = [
        getattr(library, name)([{"params": [p], "lr": 0.05}, {"params": q, **more}], 0.01)
        for library, (p, q) in ((optim, ours), (torch.optim, theirs))
    ]
    ours.append(Tensor(TARGET, dtype="float64", requires_grad=True))
    theirs.append(torch.tensor(TARGET, requires_grad=True))

    def step(rule: Any, params: list[Any]) -> None:
        for p in params:
            p.grad = None
        sum(((p - 0.5) ** 4).mean() for p in params).backward()
        rule.step()

    for i in range(12):
        if i == 4:
            for rule, params in zip(rules, (ours, theirs), strict=True):
                rule.add_param_group({"params": [params[2]], "lr": 0.03})
        if i == 8:
            for rule in rules:
                rule.param_groups[1]["lr"] = 0.002
        for rule, params in zip(rules, (ours, theirs), strict=True):
            step(rule, params)
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-6, atol=1e-9)
    rule = rules[0]
    assert [group["lr"] for group in rule.param_groups] == [0.05, 0.002, 0.03]
    assert [len(group["params"]) for group in rule.param_groups] == [1, 1, 1]
    state = rule.state_dict()
    assert {key.partition(".")[0] for key in state} <= {"0", "1", "2"}
    twin, its_params = copy.deepcopy((rule, ours))
    assert twin.params[2] is its_params[2]
    rule.lr = 0.5
    assert [group["lr"] for group in rule.param_groups] == [0.5] * 3
    assert [group["lr"] for group in twin.param_groups] == [0.05, 0.002, 0.03]
    again = pickle.loads(pickle.dumps(twin))
    assert {key: x.tolist() for key, x in again.state_dict().items()} == {key: x.tolist() for key, x in state.items()}


def test_groups_are_added_to_a_rule_of_one() -> None:
    x, y = Tensor([1.0]), Tensor([2.0])
    rule = optim.SGD([x], lr=0.5, momentum=0.9)
    (x * 2 + y).sum().backward()
    rule.step()
    rule.add_param_group({"params": y, "momentum": 0.0})
    rule.step()
    assert x.item() == pytest.approx(1 - 1.0 - 1.9)
    assert y.tolist() == [1.5]
    assert rule.params == [x, y]


def test_groups_that_do_not_fit_are_refused() -> None:
    x, y = Tensor([1.0]), Tensor([2.0])
    rule = optim.Adam([x], lr=0.1)
    for wrong, error, words in (
        (lambda: rule.add_param_group({"params": [x]}), ValueError, "the same parameter twice"),
        (lambda: rule.add_param_group([y]), TypeError, "a group is a dict with 'params'"),  # type: ignore[arg-type]
        (lambda: rule.add_param_group({"params": y, "rate": 1}), TypeError, "has params, lr, betas.*got 'rate'"),
        (lambda: rule.add_param_group({"params": y, "lr": -1}), ValueError, "lr must be a number, not negative"),
        (lambda: rule.add_param_group({"params": [asarray([1.0])]}), GraphError, "require gradients"),
        (lambda: optim.Adam([{"params": []}]), ValueError, "no parameters"),
        (lambda: optim.LBFGS([{"params": [x]}]), ValueError, "no groups of parameters"),
    ):
        with pytest.raises(error, match=words):
            wrong()
        assert rule.params == [x]


# ── the whole loss at once ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("rate", [1.0, 0.1])
def test_lbfgs_equals_that_of_torch(search: str | None, rate: float) -> None:
    torch = pytest.importorskip("torch")
    found: dict[str, Any] = {}
    for library in ("torch", "ours"):
        if library == "torch":
            x = torch.tensor([-1.2, 1.0, 0.5, 2.0], dtype=torch.float64, requires_grad=True)
            rule = torch.optim.LBFGS([x], lr=rate, max_iter=4, history_size=3, line_search_fn=search)
        else:
            x = Tensor([-1.2, 1.0, 0.5, 2.0], dtype="float64", requires_grad=True)
            rule = optim.LBFGS([x], lr=rate, max_iter=4, history_size=3, line_search_fn=search)
        calls = [0]

        def closure(x: Any = x, rule: Any = rule, calls: Any = calls) -> Any:
            calls[0] += 1
            rule.zero_grad()
            loss = ((1 - x[:-1]) ** 2).sum() + 5 * ((x[1:] - x[:-1] ** 2) ** 2).sum() if search else (
                (x * x * asarray_like(x)).sum()
            )  # fmt: skip
            loss.backward()
            return loss

        values = []
        for i in range(25):
            if library == "ours" and i == 10:  # a copy goes on alike
                saved = {key: each.numpy() for key, each in rule.state_dict().items()}
                rule.load_state_dict({})
                rule.load_state_dict(saved)
            values.append([rule.step(closure).item(), *x.tolist()])
        found[library] = (values, calls[0])
    np.testing.assert_allclose(found["ours"][0], found["torch"][0], rtol=1e-6, atol=1e-9)
    assert found["ours"][1] == found["torch"][1], "as often"


def asarray_like(x: Any) -> Any:
    return asarray([1.0, 2.0, 3.0, 0.5]) if isinstance(x, Tensor) else x.new_tensor([1.0, 2.0, 3.0, 0.5])


def test_lbfgs_says_what_it_needs() -> None:
    rule = optim.LBFGS([Tensor([1.0])])
    with pytest.raises(TypeError, match="takes a closure"):
        rule.step()
    with pytest.raises(TraceError, match="call step\\(\\) outside"):
        jit(lambda: rule.step(lambda: None))()


# ── schedules ────────────────────────────────────────────────────────────────────────────────────────────────

SCHEDULES: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "step": (lambda r: optim.Schedule(r, optim.step_decay(7, 0.5)), lambda s, r: s.StepLR(r, 7, 0.5)),
    "exponential": (lambda r: optim.Schedule(r, optim.exponential(0.97)), lambda s, r: s.ExponentialLR(r, 0.97)),
    "multistep": (lambda r: optim.Schedule(r, optim.multistep([30, 5, 5])), lambda s, r: s.MultiStepLR(r, [5, 5, 30])),
    "polynomial": (lambda r: optim.Schedule(r, optim.polynomial(60, 2.0)), lambda s, r: s.PolynomialLR(r, 60, 2.0)),
    "linear": (lambda r: optim.Schedule(r, optim.linear(20, 0.25, 0.8)), lambda s, r: s.LinearLR(r, 0.25, 0.8, 20)),
    "constant": (lambda r: optim.Schedule(r, optim.constant(9, 0.25)), lambda s, r: s.ConstantLR(r, 0.25, 9)),
    "lambda": (
        lambda r: optim.Schedule(r, [halves, thirds]), lambda s, r: s.LambdaLR(r, [halves, thirds])
    ),
    "restarts": (
        lambda r: optim.Schedule(r, optim.cosine_restarts(5, 2)), lambda s, r: s.CosineAnnealingWarmRestarts(r, 5, 2)
    ),
    "restarts, even": (
        lambda r: optim.Schedule(r, optim.cosine_restarts(9)), lambda s, r: s.CosineAnnealingWarmRestarts(r, 9)
    ),
    "sequential": (
        lambda r: optim.SequentialLR(r, [optim.linear(5), optim.step_decay(7, 0.5), optim.exponential(0.9)], [5, 40]),
        lambda s, r: s.SequentialLR(
            r, [s.LinearLR(r, total_iters=5), s.StepLR(r, 7, 0.5), s.ExponentialLR(r, 0.9)], [5, 40]
        ),
    ),
    "chained": (
        lambda r: optim.ChainedScheduler(r, [optim.Schedule(r, optim.linear(5)), optim.exponential(0.9)]),
        lambda s, r: s.ChainedScheduler([s.LinearLR(r, total_iters=5), s.ExponentialLR(r, 0.9)]),
    ),
    "one cycle": (
        lambda r: optim.OneCycle(r, [0.3, 0.2], 100), lambda s, r: s.OneCycleLR(r, [0.3, 0.2], 100)
    ),
    "one cycle, three": (
        lambda r: optim.OneCycle(r, 0.3, 100, 0.4, "linear", three_phase=True),
        lambda s, r: s.OneCycleLR(r, 0.3, 100, pct_start=0.4, anneal_strategy="linear", three_phase=True),
    ),
}  # fmt: skip


def halves(step: int) -> float:
    return 0.5 ** (step // 10)


def thirds(step: int) -> float:
    return 1 / (1 + step / 3)


def two_groups(library: Any, rule: str) -> Any:
    make = Tensor if library is optim else pytest.importorskip("torch").tensor
    params = [make([1.0], requires_grad=True) for _ in range(2)]
    return getattr(library, rule)([{"params": [params[0]]}, {"params": [params[1]], "lr": 0.04}], lr=0.1)


def told(rule: Any) -> list[Any]:
    return [[g["lr"], g["betas"][0] if "betas" in g else g["momentum"]] for g in rule.param_groups]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_equals_that_of_torch(name: str, kind: str) -> None:
    torch = pytest.importorskip("torch")
    make, reference = SCHEDULES[name]
    ours, theirs = two_groups(optim, kind), two_groups(torch.optim, kind)
    schedule, other = make(ours), reference(torch.optim.lr_scheduler, theirs)
    for i in range(99):
        for a, b in zip(told(ours), told(theirs), strict=True):
            assert a == pytest.approx(b, rel=1e-9, abs=1e-12), i
        if i == 50:
            ours, schedule = pickle.loads(pickle.dumps((ours, schedule)))
        if i == 70:  # in a new run
            saved = schedule.state_dict()
            ours = two_groups(optim, kind)
            schedule = make(ours)
            schedule.load_state_dict(saved)
        schedule.step()
        other.step()


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("kind", ["rel", "abs"])
def test_a_plateau_equals_that_of_torch(mode: str, kind: str) -> None:
    torch = pytest.importorskip("torch")
    hyper = {"mode": mode, "factor": 0.5, "patience": 2, "threshold": 0.02, "threshold_mode": kind, "cooldown": 1}
    ours, theirs = two_groups(optim, "SGD"), two_groups(torch.optim, "SGD")
    schedule = optim.ReduceLROnPlateau(ours, min_lr=[0.001, 0.01], **hyper)
    other = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, min_lr=[0.001, 0.01], **hyper)
    rng = np.random.default_rng(1)
    for i, metric in enumerate(rng.normal(size=60).cumsum() * 0.1 + 1):
        schedule.step(asarray(metric))
        other.step(metric)
        if i == 30:
            saved = schedule.state_dict()
            schedule.step(1e9 if mode == "min" else -1e9)
            schedule.load_state_dict(saved)
        assert [g["lr"] for g in ours.param_groups] == pytest.approx([g["lr"] for g in theirs.param_groups], rel=1e-12)
    assert ours.param_groups[0]["lr"] < 0.1


def test_a_run_that_is_taken_up_again_does_not_decay_twice() -> None:
    rule = optim.SGD([Tensor([1.0])], lr=1.0)
    schedule = optim.Schedule(rule, optim.exponential(0.5))
    for _ in range(3):
        schedule.step()
    assert rule.lr == 0.125
    assert optim.Schedule(copy.deepcopy(rule), optim.exponential(0.5), start=3).optimizer.lr == 0.125
    fresh = optim.SGD([Tensor([1.0])], lr=1.0)
    optim.Schedule(fresh, optim.exponential(0.5), start=3)
    assert fresh.lr == 0.125
    optim.Schedule(rule, optim.exponential(0.5))
    assert rule.lr == 0.125, "a new schedule begins with the rate of now"


def test_schedules_of_groups_under_jit() -> None:
    x, y = Tensor([1.0]), Tensor([1.0])
    rule = optim.SGD([{"params": [x]}, {"params": [y], "lr": 1.0}], lr=0.5)
    schedule = optim.Schedule(rule, optim.exponential(0.5))

    @jit
    def step() -> Any:
        rule.zero_grad()
        (x + y).sum().backward()
        rule.step()
        schedule.step()

    for _ in range(4):
        step()
    assert (x.item(), y.item()) == (1 - 0.5 * 1.875, 1 - 1.875)
    assert step.traces <= 2
    with pytest.raises(TraceError, match="cycle_momentum=False"):
        jit(optim.OneCycle(optim.Adam([x]), 0.1, 5).step)()
    with pytest.raises(TraceError, match="call it outside"):
        jit(optim.ReduceLROnPlateau(rule).step)(x)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda r: optim.Schedule(r, [halves]), "a factor for each group of parameters, of which there are 2; got 1"),
        (lambda r: optim.SequentialLR(r, [halves, thirds], []), "a milestone for each of 2 factors but the first"),
        (lambda r: optim.OneCycle(r, [0.1], 5), "one rate for each of 2 groups"),
        (lambda r: optim.OneCycle(r, 0.1, 0), "at least 1; got 0"),
        (lambda r: optim.OneCycle(optim.Adagrad(r.params), 0.1, 5), "Adagrad has no momentum to cycle"),
        (lambda r: optim.ReduceLROnPlateau(r, "least"), "mode is 'min' or 'max'"),
        (lambda r: optim.ReduceLROnPlateau(r, factor=2), "less than 1; got 2"),
        (lambda r: optim.Schedule(r, halves).load_state_dict({"count": 3}), "the state has count, bases"),
        (lambda r: optim.EMA(r.params, 2.0), "decay is between 0 and 1"),
    ],
)
def test_schedules_refuse_what_does_not_fit(make: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make(two_groups(optim, "SGD"))


# ── averages ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("compiled", [False, True])
def test_averages_equal_those_of_torch(compiled: bool) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = nn.Linear(3, 2).double(), torch.nn.Linear(3, 2).double()
    theirs.load_state_dict({key: torch.tensor(x.numpy()) for key, x in ours.state_dict().items()})
    swa = torch.optim.swa_utils
    other = swa.AveragedModel(theirs, multi_avg_fn=swa.get_ema_multi_avg_fn(0.8))
    other.update_parameters(theirs)  # a copy at first
    average = optim.EMA(ours, 0.8)
    rules = optim.SGD(ours.parameters(), 0.1), torch.optim.SGD(theirs.parameters(), 0.1)

    def step() -> None:
        rules[0].zero_grad()
        (ours(mg.ones((1, 3), dtype="float64")) ** 2).sum().backward()
        rules[0].step()
        average.update()

    run = jit(step) if compiled else step
    for _ in range(10):
        run()
        rules[1].zero_grad()
        (theirs(torch.ones((1, 3), dtype=torch.float64)) ** 2).sum().backward()
        rules[1].step()
        other.update_parameters(theirs)
    for (name, x), y in zip(average.state_dict().items(), other.module.state_dict().values(), strict=True):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-12, err_msg=name)
    own = [p.tolist() for p in ours.parameters()]
    with suppress(KeyError), average.applied():
        assert ours.weight.tolist() == average.state_dict()["weight"].tolist() != own[0]
        raise KeyError
    assert [p.tolist() for p in ours.parameters()] == own
    again = optim.EMA(ours, 0.8)
    again.load_state_dict({name: x.numpy() for name, x in average.state_dict().items()})
    again.copy_to()
    assert ours.weight.tolist() == average.state_dict()["weight"].tolist()
    with pytest.raises(ShapeError, match="the names are weight, bias; got x"):
        again.load_state_dict({"x": 1.0})


# ── modules as functions ─────────────────────────────────────────────────────────────────────────────────────


def test_a_module_is_called_with_other_parameters_and_is_as_before() -> None:
    torch = pytest.importorskip("torch")
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 4))
    model[3].weight = nn.Linear(4, 4).weight
    state, before = model.state_dict(), {key: x.tolist() for key, x in model.state_dict().items()}
    others = {
        key: Tensor(x.numpy() * 2.0, requires_grad="running" not in key) for key, x in state.items() if "num" not in key
    }
    x = asarray(np.random.default_rng(0).normal(size=(5, 3)).astype("f4"))
    y = nn.functional_call(model, others, x)
    twin = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh(), torch.nn.Linear(4, 4))
    given = {
        key: torch.tensor(value.detach().numpy(), requires_grad="running" not in key) for key, value in others.items()
    }
    expected = torch.func.functional_call(twin, given, torch.tensor(x.numpy()))
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    (y * y).sum().backward()
    (expected * expected).sum().backward()
    for key, value in given.items():
        if value.grad is not None:
            np.testing.assert_allclose(others[key].grad.numpy(), value.grad.numpy(), rtol=1e-3, atol=1e-5, err_msg=key)
    assert all(p.grad is None for p in model.parameters())
    assert {key: x.tolist() for key, x in model.state_dict().items() if "tracked" not in key} == {
        key: value for key, value in before.items() if "tracked" not in key
    }
    with pytest.raises(ShapeError):
        nn.functional_call(model, others, x[:, :2])
    assert model[0].weight.tolist() == before["0.weight"]
    with pytest.raises(KeyError, match="'w' is no parameter or buffer of this Sequential; it has 0.weight"):
        nn.functional_call(model, {"w": x}, x)


def test_tied_weights_are_one() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    w = Tensor([[0.0, 2.0], [1.0, 0.0]])
    x = asarray([[1.0, 3.0]])
    for given in ({"0.weight": w}, {"1.weight": w}, {"0.weight": w, "1.weight": w}):
        assert nn.functional_call(model, given, x).tolist() == (x @ w.mT @ w.mT).tolist()
    with pytest.raises(ValueError, match=r"names of one tensor, which is tied"):
        nn.functional_call(model, {"0.weight": w, "1.weight": w * 1}, x)


def test_an_ensemble_under_vmap() -> None:
    models = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LSTM(4, 2)) for _ in range(3)]
    for model in models:
        model.eval()
    parameters, buffers = nn.stack_modules(models)
    x = asarray(np.random.default_rng(0).normal(size=(5, 2, 3)).astype("f4"))
    assert not buffers

    def call(p: Any, x: Any) -> Any:
        return nn.functional_call(models[0], p, x)[0]

    for run in (vmap(call, in_axes=(0, None)), jit(vmap(call, in_axes=(0, None)))):
        y = run(parameters, x)
        for i, model in enumerate(models):
            np.testing.assert_allclose(y[i].detach().numpy(), model(x)[0].detach().numpy(), rtol=1e-5, atol=1e-6)
    y = vmap(call, in_axes=(0, None))(parameters, x)
    (y * y).sum().backward()
    for i, model in enumerate(models):
        out = model(x)[0]
        (out * out).sum().backward()
        for name, p in model.named_parameters():
            assert parameters[name].grad is not None
            np.testing.assert_allclose(parameters[name].grad[i].numpy(), p.grad.numpy(), rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="no networks"):
        nn.stack_modules([])
    with pytest.raises(TypeError, match="of one class; these are of Linear, Tanh"):
        nn.stack_modules([nn.Linear(1, 1), nn.Tanh()])
    with pytest.raises(ShapeError, match="the networks differ"):
        nn.stack_modules([nn.Linear(1, 1), nn.Linear(1, 2)])


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", OPTIONS)
def test_half_precision_is_stepped_and_kept_in_float32(name: str, dtype: str, jitted: bool) -> None:
    """As float32 would be, from the same numbers; also when it is loaded again."""
    rng, make = np.random.default_rng(0), getattr(optim, name)
    p = Tensor(rng.normal(size=7).astype("float32"), requires_grad=False).astype(dtype).requires_grad_()
    wide = p.detach().astype("float32").requires_grad_()
    rule, exact = make([p], lr=0.01), make([wide], lr=0.01)
    step = jit(rule.step) if jitted else rule.step
    for i in range(60):
        g = asarray(rng.normal(size=7).astype("float32") + 2.0, dtype=dtype)
        p.grad, wide.grad = g, g.astype("float32")
        step()
        exact.step()
        np.testing.assert_array_equal(
            p.detach().astype("float32").numpy(), wide.detach().astype(dtype).astype("float32").numpy()
        )
        with mg.no_grad():
            wide[...] = p.detach().astype("float32")
        if i == 30:
            other = make([p], lr=0.01)
            other.load_state_dict(rule.state_dict())
            rule, step = other, jit(other.step) if jitted else other.step
    assert {x.dtype.name for x in rule.state_dict().values() if x.shape} == ({"float32"} if rule.keeps() else set())


# ── large parameters, which a device may move in one pass ────────────────────────────────────────────────────────


def sgd_by_hand(
    p: Any, g: Any, v: Any, *, lr: float, momentum: float = 0.0, dampening: float = 0.0, nesterov: bool = False,
    weight_decay: float = 0.0,
) -> tuple[Any, Any]:  # fmt: skip
    """In float64."""
    g = g + weight_decay * p
    v = g if v is None else momentum * v + (1 - dampening) * g
    way = g + momentum * v if nesterov else v
    return p - lr * (way if momentum else g), v


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("options", [*OPTIONS["SGD"], {"momentum": 0.5, "weight_decay": 0.1}], ids=str)
def test_sgd_moves_large_parameters_as_small_ones(options: dict[str, Any], dtype: str) -> None:
    rng = np.random.default_rng(0)
    starts = [rng.normal(size=shape).astype(dtype) for shape in ((LARGE - 1,), (LARGE,), (257, 256), (3, 30_000))]
    params = [Tensor(x) for x in starts]
    params[3] = Tensor(starts[3].T.copy()).transpose(0, 1).detach().requires_grad_()
    rule = optim.SGD(params, lr=0.1, **options)
    expected: list[tuple[Any, Any]] = [(x.astype("float64"), None) for x in starts]
    for step in range(3):
        rule.lr = 0.1 / (step + 1)
        for i, p in enumerate(params):
            g = rng.normal(size=p.shape).astype(dtype)
            p.grad = asarray(g)
            expected[i] = sgd_by_hand(expected[i][0], g.astype("float64"), expected[i][1], lr=rule.lr, **options)
        rule.step()
    exact = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-14}[dtype]
    for p, (wanted, velocity), kept in zip(params, expected, rule.state, strict=True):
        np.testing.assert_allclose(p.detach().numpy().astype("float64"), wanted, rtol=exact, atol=exact)
        if options.get("momentum"):
            np.testing.assert_allclose(kept["velocity"], velocity, rtol=exact, atol=exact)


def test_a_rate_that_changes_compiles_nothing_anew() -> None:
    eager = pytest.importorskip("micrograd_cpu.eager")
    p = Tensor(np.zeros(LARGE, "float32"))
    rule = optim.SGD([p], lr=0.1, momentum=0.9, nesterov=True)
    found = []
    for step in range(6):
        rule.lr, rule.momentum = 0.1 / (step + 1), 0.9 - 0.01 * step
        p.grad = asarray(np.ones(LARGE, "float32"))
        rule.step()
        optim.clip_grad_norm([p], 0.5 + step)
        found.append(len(eager._FUNCTIONS))
    assert found[1:] == [found[1]] * 5  # the first step has no velocity


def test_what_a_device_declines_to_fuse_is_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = asarray(0.0)._kernels.backend
    own, asked = backend.kernel, list[Any]()

    def fused(compose: Any) -> Any:
        asked.append(compose)
        return lambda *operands: NotImplemented

    def moved() -> tuple[Any, float]:
        p = Tensor(np.linspace(-1, 1, 2 * LARGE, dtype="float32"))
        rule = optim.SGD([p], lr=0.1, momentum=0.9, nesterov=True)
        for _ in range(2):
            p.grad = p.detach() * 2
            norm = optim.clip_grad_norm([p], 1.0)
            rule.step()
        return p.detach().numpy(), norm

    numbers, norm = moved()
    monkeypatch.setattr(backend, "kernel", lambda name: fused if name == "fused" else own(name))
    others, other = moved()
    assert len(asked) == 2
    np.testing.assert_allclose(numbers, others, rtol=1e-6, atol=1e-7)
    assert norm == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_the_norm_of_large_and_small_gradients_neither_overflows_nor_vanishes(
    scale: float, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        eager = pytest.importorskip("micrograd_cpu.eager")
        monkeypatch.setattr(eager, "fused", lambda compose: lambda x: NotImplemented)
    rng = np.random.default_rng(0)
    shapes = [(3,), (0, 4), (1 << 14,), (200, 301), (), ((1 << 14) - 1,), (40_000,)]
    gradients = [(rng.normal(size=shape) * scale).astype("float32") for shape in shapes]
    params = [Tensor(np.zeros(shape, "float32")) for shape in shapes]
    for p, g in zip(params, gradients, strict=True):
        p.grad = asarray(g)
    params[3].grad = asarray(gradients[3].T.copy()).transpose(0, 1)
    exact = np.sqrt(sum(float((g.astype("float64") ** 2).sum()) for g in gradients))
    limit = max(exact / 2, 1e-6)
    assert optim.clip_grad_norm(params, limit) == pytest.approx(exact, rel=1e-7)
    factor = min(1.0, limit / (exact + 1e-6))
    for p, g in zip(params, gradients, strict=True):
        assert p.grad is not None
        np.testing.assert_allclose(p.grad.numpy(), g.astype("float64") * factor, rtol=1e-6)
