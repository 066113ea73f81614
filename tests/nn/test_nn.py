"""Modules and optimisers; step by step against torch where it is installed."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, asarray, jit, nn, optim
from micrograd_core.errors import DTypeError, GraphError, ShapeError


def network(device: Device | str = "cpu", seed: int = 0) -> nn.Sequential:
    rng = random.Random(seed)
    return nn.Sequential(
        nn.Linear(3, 5, generator=rng, device=device), nn.ReLU(), nn.Linear(5, 2, generator=rng, device=device)
    )


def test_parameters_have_names_and_come_once() -> None:
    model = network()
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    tied = nn.Sequential(model[0], model[0])
    assert len(tied.parameters()) == 2
    assert repr(model) == "Sequential(Linear(3, 5), ReLU(), Linear(5, 2))"
    assert nn.Linear(3, 2, bias=False).bias is None


def test_linear_starts_within_its_bounds_and_reproducibly() -> None:
    a, b = nn.Linear(16, 100, generator=random.Random(1)), nn.Linear(16, 100, generator=random.Random(1))
    assert a.weight.tolist() == b.weight.tolist()
    assert abs(a.weight.detach().numpy()).max() <= 0.25
    assert a.weight.detach().numpy().std() == pytest.approx(0.5 / np.sqrt(12), rel=0.1)
    with pytest.raises(ShapeError, match="at least 1"):
        nn.Linear(0, 1)


def test_forward_takes_any_leading_axes(device: Device) -> None:
    layer = nn.Linear(3, 2, device=device)
    x = np.arange(12.0, dtype="float32").reshape(2, 2, 3)
    expected = x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
    np.testing.assert_allclose(layer(asarray(x, device=device)).detach().numpy(), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(NotImplementedError, match="defines no forward"):
        nn.Module()(1)


def test_training_on_every_device_gives_the_same_numbers() -> None:
    results = []
    for name in ("cpu", "rawbuffer"):
        model = network(name)
        rule = optim.Adam(model.parameters(), lr=0.05)
        x, t = asarray([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]], device=name), asarray([0, 1], device=name)
        losses = []
        for _ in range(10):
            loss = nn.cross_entropy(model(x), t)
            rule.zero_grad()
            loss.backward()
            rule.step()
            losses.append(loss.item())
        results.append(losses)
        assert losses[-1] < losses[0] / 2
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4)


def test_state_goes_there_and_back_whole_or_not_at_all() -> None:
    a, b = network(seed=1), network(seed=2)
    b.load_state_dict(a.state_dict())
    assert [p.tolist() for p in a.parameters()] == [p.tolist() for p in b.parameters()]
    assert all(p.requires_grad and p.is_leaf for p in b.parameters())
    a.layers[0].weight.data = a.layers[0].weight.data * 0  # type: ignore[attr-defined]
    assert any(any(row) for row in b.layers[0].weight.tolist())  # type: ignore[attr-defined]
    before = [p.tolist() for p in b.parameters()]
    state: dict[str, Any] = {name: x.numpy() for name, x in a.state_dict().items()}
    del state["0.bias"]
    state["extra"], state["2.bias"] = np.zeros(1), np.zeros(7)
    with pytest.raises(
        ShapeError, match=r"'0.bias' is missing; 'extra' is not a parameter or buffer.*shape \(7,\), not \(2,\)"
    ):
        b.load_state_dict(state)
    assert [p.tolist() for p in b.parameters()] == before


def test_modules_move_to_a_device() -> None:
    model = network()
    numbers = [p.tolist() for p in model.parameters()]
    assert model.to("rawbuffer") is model
    assert all(p.device is Device("rawbuffer") and p.is_leaf and p.requires_grad for p in model.parameters())
    assert [p.tolist() for p in model.parameters()] == numbers


def test_optimisers_refuse_what_they_cannot_use() -> None:
    x = Tensor([1.0])
    for wrong, error, words in (
        (lambda: optim.SGD([]), ValueError, "no parameters"),
        (lambda: optim.SGD([x], lr=-1), ValueError, "lr must be a number, not negative"),
        (lambda: optim.Adam([x], betas=(1.0, 0.9)), ValueError, r"betas must be two numbers in \[0, 1\)"),
        (lambda: optim.AdamW([x], betas=0.9), ValueError, "AdamW: betas must be two numbers"),  # type: ignore[arg-type]
        (lambda: optim.RMSprop([x], alpha=1.5), ValueError, "alpha must be a number, not negative, and less than 1"),
        (lambda: optim.SGD([x], dampening=float("nan")), ValueError, "dampening must be a number"),
        (lambda: optim.SGD([x], nesterov=True), ValueError, "nesterov needs momentum"),
        (lambda: optim.SGD([x * 2]), GraphError, "not computed"),
        (lambda: optim.SGD([asarray([1.0])]), GraphError, "require gradients"),
    ):
        with pytest.raises(error, match=words):
            wrong()


def test_a_step_leaves_recorded_graphs_and_parameters_without_gradient_alone() -> None:
    w, unused = Tensor([2.0]), Tensor([1.0])
    rule = optim.SGD([w, unused], lr=0.5)
    first, second = (w * w).sum(), (w * w * w).sum()
    first.backward()
    rule.step()
    assert w.tolist() == [0.0]
    assert unused.tolist() == [1.0]
    w.zero_grad()
    second.backward()  # at the numbers it was computed with
    assert w.grad is not None
    assert w.grad.tolist() == [12.0]


RULES = {
    "sgd": ("SGD", {"lr": 0.1}),
    "momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    "nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "adam": ("Adam", {"lr": 0.05}),
    "adamw": ("AdamW", {"lr": 0.05, "weight_decay": 0.1}),
    "adamw-without-decay": ("AdamW", {"lr": 0.05, "weight_decay": 0.0}),
    "rmsprop": ("RMSprop", {"lr": 0.05}),
    "rmsprop-momentum": ("RMSprop", {"lr": 0.02, "alpha": 0.9, "momentum": 0.9, "weight_decay": 0.1}),
    "adam-decay": ("Adam", {"lr": 0.05, "betas": (0.8, 0.99), "eps": 1e-6, "weight_decay": 0.1}),
}


@pytest.mark.parametrize("rule", RULES)
def test_optimisers_equal_torch_step_by_step(rule: str) -> None:
    torch = pytest.importorskip("torch")
    name, hyper = RULES[rule]
    rng = np.random.default_rng(0)
    start, target = rng.normal(size=(2, 4, 3))
    ours = Tensor(start)
    theirs = torch.tensor(start, requires_grad=True)
    our_rule, their_rule = getattr(optim, name)([ours], **hyper), getattr(torch.optim, name)([theirs], **hyper)
    for _ in range(20):
        our_rule.zero_grad()
        their_rule.zero_grad()
        ((ours - target) ** 4).mean().backward()
        ((theirs - torch.tensor(target)) ** 4).mean().backward()
        our_rule.step()
        their_rule.step()
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12, atol=1e-14)


def run(rule: Any, params: list[Tensor], steps: int) -> None:
    for _ in range(steps):
        rule.zero_grad()
        sum((abs(p - 0.5) ** 4).mean() for p in params).backward()
        rule.step()


@pytest.mark.parametrize("device", ["cpu", "rawbuffer:0"])
@pytest.mark.parametrize("rule", RULES)
def test_a_run_that_was_saved_goes_on_to_the_last_bit(rule: str, device: str) -> None:
    name, hyper = RULES[rule]
    dtypes = ["float32", "float64", *["complex128"][: device == "cpu"]]
    params = [Tensor(np.arange(6.0).reshape(2, 3) / 6, dtype=d, device=device, requires_grad=True) for d in dtypes]
    first = getattr(optim, name)(params, **hyper)
    run(first, params, 4)
    saved = {name: x.numpy() for name, x in first.state_dict().items()}
    copies = [Tensor(p.numpy(), device=device, requires_grad=True) for p in map(Tensor.detach, params)]
    run(first, params, 3)
    second = getattr(optim, name)(copies, **hyper)
    second.load_state_dict(saved)
    run(second, copies, 3)
    for p, q in zip(params, copies, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
    assert [x.dtype for x in second.state_dict().values()] == [x.dtype for x in first.state_dict().values()]


def test_a_state_that_does_not_fit_is_refused_whole() -> None:
    x, y = Tensor([1.0, 2.0]), Tensor([[3.0]])
    rule = optim.Adam([x, y], lr=0.1)
    assert rule.state_dict() == {}
    run(rule, [x], 2)
    saved = rule.state_dict()
    assert {name: value.shape for name, value in saved.items()} == {"0.step": (), "0.m": (2,), "0.v": (2,)}
    wrong = {"0.step": 3, "0.m": [1.0, 2.0, 3.0], "1.velocity": [[0.0]], "2.m": 0.0}
    with pytest.raises(ShapeError) as caught:
        rule.load_state_dict(wrong)
    assert str(caught.value) == (
        "load_state_dict: '0.v' is missing; '0.m' has shape (3,), not (2,); "
        "'1.velocity' is nothing that this Adam keeps; '2.m' is nothing that this Adam keeps"
    )
    for name, value in rule.state_dict().items():
        assert value.tolist() == saved[name].tolist()
    rule.load_state_dict({})
    assert rule.state_dict() == {}


def test_a_saved_state_and_the_rules_own_do_not_share_memory() -> None:
    x = Tensor([1.0, 2.0])
    rule = optim.Adam([x], lr=0.1)
    run(rule, [x], 1)
    saved = rule.state_dict()
    rule.load_state_dict(saved)
    before = saved["0.m"].tolist()
    for taken in (saved, rule.state_dict()):
        taken["0.m"][0] = 99.0
        assert rule.state_dict()["0.m"].tolist() == before


@pytest.mark.parametrize("number", [np.float64, np.float32])
@pytest.mark.parametrize("rule", RULES)
def test_hyperparameters_of_numpy_do_not_widen_parameters(rule: str, number: Any) -> None:
    name, hyper = RULES[rule]
    x, y = Tensor([1.0, 2.0]), Tensor([1.0, 2.0])
    theirs = {k: tuple(map(number, v)) if isinstance(v, tuple) else v and number(v) for k, v in hyper.items()}
    rules = getattr(optim, name)([x], **hyper), getattr(optim, name)([y], **theirs)
    for step in range(3):
        for rule_, p in zip(rules, (x, y), strict=True):
            p.grad = asarray([0.5, -3.0])
            optim.clip_grad_norm([p], number(1))
            assert p.grad is not None
            assert p.grad.numpy().dtype == np.float32
            rule_.lr = number(0.1 * 0.5**step)
            rule_.step()
    assert y.detach().numpy().dtype == np.float32
    np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-5)


def test_network_gradients_equal_torch() -> None:
    torch = pytest.importorskip("torch")
    model = network()
    x, t = np.random.default_rng(0).normal(size=(6, 3)).astype("float32"), np.array([0, 1, 1, 0, 1, 0])
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    theirs.load_state_dict(
        {name.removeprefix("layers."): torch.tensor(p.numpy()) for name, p in model.state_dict().items()}
    )
    loss, their_loss = (
        nn.cross_entropy(model(asarray(x)), asarray(t)),
        torch.nn.functional.cross_entropy(theirs(torch.tensor(x)), torch.tensor(t)),
    )
    loss.backward()
    their_loss.backward()
    assert loss.item() == pytest.approx(their_loss.item(), rel=1e-6)
    for ours, other in zip(model.parameters(), theirs.parameters(), strict=True):
        assert ours.grad is not None
        np.testing.assert_allclose(ours.grad.numpy(), other.grad.numpy(), rtol=1e-5, atol=1e-7)


def with_gradients(*gradients: Any) -> list[Tensor]:
    parameters = [Tensor(np.ones_like(g)) for g in gradients]
    for p, g in zip(parameters, gradients, strict=True):
        (p * asarray(g)).sum().backward()
    return parameters


SETS = {
    "several": [(3, 4), (5,), ()], "one": [(7,)], "none": [], "an empty one": [(0,), (3,)], "zeros": [(2,), (2,)],
}  # fmt: skip


def clipped(gradients: list[Any], limit: float, order: float, compiled: bool) -> tuple[float, list[Any]]:
    ours = with_gradients(*gradients)
    if compiled and ours:
        norm = jit(lambda: optim.clip_grad_norm(ours, limit, order))().item()
    else:
        norm = optim.clip_grad_norm(ours, limit, norm_type=order)
    return norm, [p.grad.numpy() for p in ours if p.grad is not None]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("order", [2.0, 1, 3, 0.5, math.inf])
@pytest.mark.parametrize("name", SETS)
def test_clipping_by_the_common_norm_is_that_of_numpy_and_torch(name: str, order: float, compiled: bool) -> None:
    rng = np.random.default_rng(0)
    gradients = [rng.normal(size=shape) * (name != "zeros") for shape in SETS[name]]
    flat = np.abs(np.concatenate([g.ravel() for g in gradients])) if gradients else np.zeros(0)
    norm = flat.max(initial=0.0) if order == math.inf else np.sum(flat**order) ** (1 / order)
    for limit in (0.5, 100.0, max(float(norm), 1.0)):
        found, changed = clipped(gradients, limit, order, compiled)
        assert found == pytest.approx(norm, rel=1e-12)
        for g, before in zip(changed, gradients, strict=True):
            np.testing.assert_allclose(g, before * min(1.0, limit / (norm + 1e-6)), rtol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("scale", [1e-30, 1e-4, 1.0, 1e4, 1e30, math.inf, math.nan])
def test_the_norm_of_float32_neither_overflows_nor_vanishes(scale: float, dtype: str, compiled: bool) -> None:
    rng, sets = np.random.default_rng(0), [(3, 40, 50), (7,), (), (0, 2), (400,)]
    parameters = [Tensor(np.zeros(shape), dtype=dtype) for shape in sets]
    with np.errstate(all="ignore"):
        for p in parameters:
            drawn = rng.normal(size=p.shape).astype("float32")
            p.grad = asarray(np.float32(scale) * drawn).astype(dtype)
    before = np.concatenate([p.grad.astype("float64").numpy().ravel() for p in parameters if p.grad is not None])
    expected = np.sqrt(np.sum(before**2))
    clip = lambda: optim.clip_grad_norm(parameters, 0.5)  # noqa: E731
    with np.errstate(invalid="ignore"):  # 0 / 0 of an infinite norm
        norm: Any = jit(clip)() if compiled else clip()
    assert float(norm) == pytest.approx(expected, rel=1e-6, nan_ok=True)
    after = np.concatenate([p.grad.astype("float64").numpy().ravel() for p in parameters if p.grad is not None])
    factor = min(1.0, 0.5 / (expected + 1e-6)) if math.isfinite(expected) else math.nan
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6}[dtype]
    np.testing.assert_allclose(after, before * factor, rtol=2 * tolerance, atol=1e-7 if dtype == "float16" else 0)


@pytest.mark.parametrize("order", [2.0, 1, 3, math.inf])
@pytest.mark.parametrize("name", SETS)
def test_clipping_equals_torch(name: str, order: float) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    gradients = [rng.normal(size=shape) * (name != "zeros") for shape in SETS[name] if 0 not in shape]
    for limit in (0.5, 3.0, 100.0):
        found, changed = clipped(gradients, limit, order, False)
        theirs = [torch.zeros(g.shape, dtype=torch.float64) for g in gradients]
        for p, g in zip(theirs, gradients, strict=True):
            p.grad = torch.tensor(g)
        expected = torch.nn.utils.clip_grad_norm_(theirs, limit, order).item()
        assert found == pytest.approx(expected, rel=1e-12)
        for g, q in zip(changed, theirs, strict=True):
            np.testing.assert_allclose(g, q.grad.numpy(), rtol=1e-12)


def test_clipping_refuses_what_is_no_norm() -> None:
    p = Tensor(np.ones(2))
    p.grad = asarray(np.array([np.inf, 1.0]))
    for order in (0, -1, math.nan):
        with pytest.raises(ValueError, match="norm_type must be positive"):
            optim.clip_grad_norm([p], 1.0, order)
    with pytest.raises(RuntimeError, match="the norm of all gradients is inf"):
        optim.clip_grad_norm([p], 1.0, error_if_nonfinite=True)
    assert p.grad is not None
    assert p.grad.tolist() == [np.inf, 1.0]
    with pytest.raises(ValueError, match="under jit reads no numbers"):
        jit(lambda: optim.clip_grad_norm([p], 1.0, error_if_nonfinite=True))()
    assert optim.clip_grad_norm(p, 1.0) == np.inf  # one tensor is not its rows
    assert np.isnan(p.grad.numpy()).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_clipping_many_gradients_in_a_half_type(dtype: str) -> None:
    p = Tensor(np.zeros(100_000), dtype=dtype)
    p.grad = asarray(np.ones(100_000), dtype=dtype)
    assert optim.clip_grad_norm([p], 1.0) == pytest.approx(100_000**0.5)
    assert p.grad is not None
    np.testing.assert_allclose(p.grad.astype("float32").numpy(), 100_000**-0.5, rtol=1e-2)


def test_the_norm_of_all_gradients_is_read_at_once(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    params = [Tensor(np.ones(n, dtype), device=device) for n, dtype in ((1, "float32"), (4, "float32"), (0, "float32"))]
    for p in params:
        p.grad = p.detach() * 2.0
    reads: list[Any] = []
    read = device.kernels.to_host
    monkeypatch.setattr(device.kernels, "to_host", lambda x: reads.append(x) or read(x))
    assert optim.clip_grad_norm(params, 1.0) == pytest.approx(20**0.5)
    assert len(reads) == 1
    assert params[1].grad is not None
    assert params[1].grad.tolist() == pytest.approx([20**-0.5 * 2] * 4)


def test_clipping_complex_gradients() -> None:
    p = Tensor([1j, 1j], dtype="complex128")
    p.grad = Tensor([3 + 4j, 12j], dtype="complex128")
    with pytest.raises(DTypeError, match="clip_grad_value: complex128 numbers have no order; use clip_grad_norm"):
        optim.clip_grad_value([p], 1)
    assert optim.clip_grad_norm([p], 1.0) == pytest.approx(13)
    assert p.grad is not None
    np.testing.assert_allclose(p.grad.detach().numpy(), np.array([3 + 4j, 12j]) / 13)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_complex_parameters_move_as_torchs_do(name: str) -> None:
    torch = pytest.importorskip("torch")
    options = {"lr": 0.1, "weight_decay": 0.1} | ({"momentum": 0.9} if name in ("SGD", "RMSprop") else {})
    start = [3 + 4j, 1j]
    p = Tensor(start, dtype="complex128", requires_grad=True)
    q = torch.tensor(start, dtype=torch.complex128, requires_grad=True)
    ours, theirs = getattr(optim, name)([p], **options), getattr(torch.optim, name)([q], **options)
    for _ in range(3):
        for rule, x in ((ours, p), (theirs, q)):
            rule.zero_grad()
            (abs(x) ** 2).sum().backward()
            rule.step()
    np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-7)


def test_clipping_survives_numbers_whose_squares_do_not() -> None:
    (p,) = with_gradients(np.array([3e200, 4e200]))
    assert optim.clip_grad_norm([p, Tensor([1.0])], 1.0) == pytest.approx(5e200)
    assert p.grad is not None
    np.testing.assert_allclose(p.grad.numpy(), [0.6, 0.8])
    (q,) = with_gradients(np.array([np.inf, 1.0]))
    assert optim.clip_grad_norm([q], 1.0) == np.inf
    assert q.grad is not None
    assert np.isnan(q.grad.numpy()).all()
    (r,) = with_gradients(np.array([-7.0, 0.5, 7.0]))
    optim.clip_grad_value([r], 1)
    assert r.grad is not None
    assert r.grad.tolist() == [-1.0, 0.5, 1.0]
    for wrong in (lambda: optim.clip_grad_norm([r], 0), lambda: optim.clip_grad_value([r], -1)):
        with pytest.raises(ValueError, match="must be positive"):
            wrong()
    largest = Tensor(np.zeros(2, "float32"))
    largest.grad = asarray(np.array([3e38, -3e38], "float32"))
    assert optim.clip_grad_norm([largest], 1.0) == pytest.approx(3e38 * 2**0.5, rel=1e-6)
    np.testing.assert_allclose(largest.grad.numpy(), [0.5**0.5, -(0.5**0.5)], rtol=1e-6)


def test_schedules_multiply_the_first_rate() -> None:
    rule = optim.SGD([Tensor([1.0])], lr=2.0)
    schedule = optim.Schedule(rule, optim.linear_warmup(4, optim.cosine(4, floor=0.5)))
    rates = [rule.lr]
    for _ in range(9):
        schedule.step()
        rates.append(rule.lr)
    half = 1.0 + 0.5 * (1 + np.cos(np.pi / 4))
    assert rates == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0, half, 1.5, 3.0 - half, 1.0, 1.0])
    later = optim.Schedule(optim.SGD([Tensor([1.0])], lr=2.0), schedule.factor, start=5)
    assert later.optimizer.lr == rates[5]
    later.step()
    assert later.optimizer.lr == rates[6]
    for schedule_of in (optim.cosine, optim.step_decay):
        with pytest.raises(ValueError, match=f"{schedule_of.__name__}: the number of steps must be at least 1; got 0"):
            schedule_of(0)
