"""Mixed precision: which operations autocast casts, float32 master weights, and gradients that survive float16."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Device, GradScaler, Tensor, amp, autocast, nn, optim
from micrograd_core.errors import DTypeError
from micrograd_core.ops import TABLE


@pytest.fixture
def x() -> Tensor:
    return Tensor(np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4))


def test_products_are_half_and_exponentials_float32(x: Tensor) -> None:
    with autocast("float16"):
        y = x @ x.mT
        assert str(y.dtype) == "float16"
        assert str(y.softmax().dtype) == "float32"
        assert str(y.exp().dtype) == "float32"
        assert str(y.sum().dtype) == "float32"
        assert str(y.relu().dtype) == "float16"  # not in the policy: as it comes
        assert str((y + x[:, :3]).dtype) == "float32"  # promoted
        assert str(mg.linear(x, x, 0.0).dtype) == "float16"
    assert str((x @ x.mT).dtype) == "float32"


def test_float64_and_integers_are_left_alone() -> None:
    with autocast("float16"):
        assert str((Tensor([[1.0]], dtype="float64") @ Tensor([[1.0]], dtype="float64")).dtype) == "float64"
        assert str(mg.sum(mg.arange(3)).dtype) == "int64"


def test_gradients_arrive_in_the_parameters_dtype(x: Tensor) -> None:
    with autocast("float16"):
        loss = ((x @ x.mT) * 0.5).sum()
    loss.backward()
    assert x.grad is not None
    assert str(x.grad.dtype) == "float32"
    array = np.asarray(x.tolist())
    np.testing.assert_allclose(np.asarray(x.grad.tolist()), np.tile(array.sum(axis=0), (3, 1)), atol=2e-3)


def test_a_loss_in_half_precision_is_computed_in_float32(device: Device) -> None:
    logits = Tensor([[1.0, 2.0, 3.0]], device=device)
    with autocast("float16"):
        loss = nn.cross_entropy(logits.astype("float16"), mg.asarray([2], device=device))
    assert str(loss.dtype) == "float32"
    assert loss.item() == pytest.approx(-math.log(math.exp(3) / sum(map(math.exp, (1, 2, 3)))), rel=1e-3)


def test_off_within_on_and_as_a_decorator(x: Tensor) -> None:
    @autocast("float16")
    def product() -> Tensor:
        with autocast(enabled=False):
            assert str((x @ x.mT).dtype) == "float32"
        return x @ x.mT

    assert str(product().dtype) == "float16"
    assert str(product().dtype) == "float16"


def test_other_threads_and_tasks_do_not_see_it(x: Tensor) -> None:
    found: list[str] = []
    with autocast("float16"):
        thread = threading.Thread(target=lambda: found.append(str((x @ x.mT).dtype)))
        thread.start()
        thread.join()
    assert found == ["float32"]

    async def inside() -> None:
        with autocast("float16"):
            await asyncio.sleep(0.01)
            found.append(str((x @ x.mT).dtype))

    async def outside() -> None:
        await asyncio.sleep(0.005)
        found.append(str((x @ x.mT).dtype))

    async def both() -> None:
        await asyncio.gather(inside(), outside())

    asyncio.run(both())
    assert found == ["float32", "float32", "float16"]


def test_only_half_types() -> None:
    with pytest.raises(DTypeError, match="autocast: the dtype is float16 or bfloat16; got float64"):
        autocast("float64")


def test_the_policy_names_no_operation_of_integers_or_views() -> None:
    for name in amp.POLICY:
        assert TABLE[name].differentiable, name
        assert not TABLE[name].view, name
    assert amp.POLICY["matmul"] == amp.HALF
    assert amp.POLICY["softmax"] == amp.FULL


def test_recorded_and_unrecorded_operations_compute_in_the_same_dtype(x: Tensor) -> None:
    half = Tensor(np.linspace(0.1, 1, 9).reshape(3, 3), dtype="bfloat16")
    for f in (
        lambda: mg.einsum("ij,kj->ik", x, x),
        lambda: mg.tensordot(x, x.T, axes=1),
        lambda: mg.linalg.trace(half),
        lambda: half.at[mg.asarray([0, 0])].multiply(half[:2]),
    ):
        with autocast("bfloat16"):
            recorded = f()
            with mg.no_grad():
                plain = f()
        assert recorded.requires_grad
        assert recorded.dtype is plain.dtype
        assert recorded.dtype is mg.bfloat16
        assert recorded.tolist() == plain.tolist()


def test_gradient_rules_compute_in_the_dtypes_of_what_was_recorded() -> None:
    matrix = np.array([[2.0, 0.3], [0.1, 1.7]], dtype="float32")
    expected = Tensor(matrix)
    mg.linalg.inv(expected).sum().backward()
    for create_graph in (False, True):
        found = Tensor(matrix)
        with autocast("bfloat16"):
            mg.linalg.inv(found).sum().backward(create_graph=create_graph)
        assert found.grad.dtype is mg.float32
        np.testing.assert_allclose(found.grad.detach().numpy(), expected.grad.detach().numpy(), rtol=1e-6)
    with autocast("bfloat16"):
        batch = mg.vmap(mg.grad(lambda a: mg.linalg.inv(a).sum()))(mg.stack([expected, expected]))
    np.testing.assert_allclose(batch[1].detach().numpy(), expected.grad.detach().numpy(), rtol=1e-6)


def test_a_checkpoint_computes_again_in_the_precision_of_the_first_time(x: Tensor) -> None:
    found = []
    for wrap in (lambda f, *args: f(*args), mg.checkpoint):
        w = Tensor(np.linspace(-0.9, 0.8, 12, dtype="float32").reshape(4, 3))
        with autocast("bfloat16"):
            y = wrap(lambda x, w=w: (x @ w).exp(), x)
        y.sum().backward()
        found.append(w.grad.tolist())
    assert found[0] == found[1]


# ── precision of products ────────────────────────────────────────────────────────────────────────────────────


def test_the_precision_belongs_to_the_context() -> None:
    assert amp.matmul_precision() == "highest"
    mg.set_matmul_precision("high")
    try:
        assert amp.matmul_precision() == "high"
        seen: list[str] = []
        thread = threading.Thread(target=lambda: seen.append(amp.matmul_precision()))
        thread.start()
        thread.join()
        assert seen == ["highest"]
    finally:
        mg.set_matmul_precision("highest")
    with pytest.raises(ValueError, match=r"the precision is 'highest', 'high' or 'medium'; got 'low'"):
        mg.set_matmul_precision("low")


# ── GradScaler ───────────────────────────────────────────────────────────────────────────────────────────────


def test_small_gradients_survive_float16() -> None:
    tiny = 2.0**-20
    for scale, expected in ((1.0, 0.0), (2.0**16, tiny * 2.0**-8)):
        w = Tensor([1.0], dtype="float32")
        scaler, rule = GradScaler(scale), optim.SGD([w], lr=1.0)
        loss = (w.astype("float16") * 2.0**-8).astype("float32").sum() * tiny
        scaler.scale(loss).backward()
        scaler.unscale(rule)
        assert w.grad is not None
        assert w.grad.item() == expected


def test_a_step_with_an_infinite_gradient_is_left_out(device: Device) -> None:
    w = Tensor([1.0, 2.0], device=device)
    scaler, rule = GradScaler(8.0, interval=2), optim.SGD([w], lr=0.5)
    for bad in (math.inf, math.nan):
        w.grad = mg.asarray([1.0, bad], device=device)
        assert not scaler.step(rule)
        scaler.update()
    assert w.tolist() == [1.0, 2.0]
    assert scaler.factor == 2.0
    for expected in (2.0, 4.0, 4.0, 8.0):  # it doubles after every two good steps
        w.grad = mg.asarray([0.0, 4.0 * scaler.factor], device=device)
        before = w.tolist()[1]
        assert scaler.step(rule)
        scaler.update()
        assert w.tolist()[1] == before - 2.0  # the gradient was divided again
        assert scaler.factor == expected


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_scaler_finds_what_is_not_finite_and_nothing_else(dtype: str) -> None:
    largest = np.finfo(dtype).max
    for other, finite in (
        (largest, True),
        (-largest, True),
        (0.0, True),
        (np.inf, False),
        (-np.inf, False),
        (np.nan, False),
    ):
        params = [Tensor(np.zeros(n, dtype)) for n in (3, 20_000, 0)]
        for p in params:
            p.grad = mg.asarray(np.full(p.shape, largest, dtype))
        params[1].grad[777] = other
        scaler = GradScaler(1.0)
        assert scaler.step(optim.SGD(params, lr=0.0)) == finite


@pytest.mark.parametrize("fault", [1.0, math.inf, math.nan])
@pytest.mark.parametrize("kind", ["alike", "mixed", "complex", "recorded"])
def test_a_device_may_unscale_all_gradients_at_once(kind: str, fault: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one real dtype, that are in no graph; others one by one, and each way the numbers are the same."""
    asked, kernel_of = list[int](), Device("cpu").kernels.backend.kernel

    def unscale(grads: list[Any], factor: float) -> tuple[list[Any], Any]:
        asked.append(len(grads))
        made = [(g * factor).astype(g.dtype) for g in grads]
        return made, np.float32(0 if all(np.isfinite(g).all() for g in made) else math.inf)

    monkeypatch.setattr(
        Device("cpu").kernels.backend, "kernel", lambda name: unscale if name == "unscale" else kernel_of(name)
    )
    dtypes = {"mixed": ["float32", "float64"], "complex": ["complex64"] * 2}.get(kind, ["float32"] * 2)
    params = [Tensor(np.ones(n), dtype=dtype) for n, dtype in zip((3, 4), dtypes, strict=True)]
    for p in params:
        p.grad = Tensor(np.full(p.shape, 8.0 * fault), dtype=p.dtype, requires_grad=kind == "recorded")
    scaler, rule = GradScaler(4.0), optim.SGD(params, lr=1.0)
    with np.errstate(invalid="ignore"):  # of complex infinities
        scaler.unscale(rule)
    assert asked == ([2] if kind == "alike" else [])
    for p in params:
        assert p.grad is not None
        np.testing.assert_array_equal(p.grad.detach().numpy().real, 2.0 * fault)
    assert scaler.step(rule) == math.isfinite(fault)


def test_a_scaler_goes_on_from_its_state() -> None:
    w = Tensor([1.0])
    rule = optim.SGD([w], lr=0.5)

    def run(scaler: GradScaler, gradients: list[float]) -> list[float]:
        scales = []
        for g in gradients:
            w.grad = mg.asarray([g])
            scaler.step(rule)
            scaler.update()
            scales.append(scaler.factor)
        return scales

    gradients = [1.0, math.inf, 2.0, 3.0, math.nan, 4.0, 5.0, 6.0, 7.0, 8.0]
    straight = run(GradScaler(8.0, growth=4.0, backoff=0.25, interval=3), gradients)
    for stop in range(len(gradients)):
        first, again = GradScaler(8.0, growth=4.0, backoff=0.25, interval=3), GradScaler()
        before = run(first, gradients[:stop])
        w.grad = mg.asarray([math.inf])
        again.step(rule)  # what was not updated is forgotten
        again.load_state_dict(first.state_dict())
        assert again.state_dict() == first.state_dict()
        assert before + run(again, gradients[stop:]) == straight


def test_states_of_scalers_have_torchs_names() -> None:
    torch = pytest.importorskip("torch")
    theirs, ours = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2), GradScaler(8.0, interval=2)
    theirs.scale(torch.ones(()))  # it makes its scale at the first use
    assert list(ours.state_dict().items()) == list(theirs.state_dict().items())
    w, v = Tensor([1.0]), torch.ones(1, requires_grad=True)
    rules = optim.SGD([w], lr=0.5), torch.optim.SGD([v], lr=0.5)
    for g in (math.inf, 1.0, math.nan, 1.0, 1.0, 1.0):
        w.grad, v.grad = mg.asarray([g]), torch.tensor([g])
        for scaler, rule in zip((ours, theirs), rules, strict=True):
            scaler.step(rule)
            scaler.update()
        assert ours.state_dict() == theirs.state_dict()
        again = GradScaler()
        again.load_state_dict(theirs.state_dict())
        assert again.state_dict() == ours.state_dict()
        theirs.load_state_dict(again.state_dict())


@pytest.mark.parametrize(
    ("change", "sentence"),
    {
        "missing": ({"scale": None}, r"a state has scale, growth_factor, .*_growth_tracker; got growth_factor"),
        "unknown": ({"size": 1}, "got scale, .*, size"),
        "range": ({"backoff_factor": 2.0}, "backoff between 0 and 1"),
        "steps": ({"_growth_tracker": 2000}, "_growth_tracker must be from 0 to below 2000; got 2000"),
    }.values(),
)
def test_a_state_that_is_none_changes_nothing(change: dict[str, Any], sentence: str) -> None:
    scaler = GradScaler(4.0)
    state = {name: x for name, x in (GradScaler(8.0).state_dict() | change).items() if x is not None}
    with pytest.raises(ValueError, match=sentence):
        scaler.load_state_dict(state)
    assert scaler.state_dict() == GradScaler(4.0).state_dict()


def test_mistakes_get_a_sentence() -> None:
    with pytest.raises(ValueError, match="growth above 1"):
        GradScaler(growth=0.5)
    w = Tensor([1.0])
    scaler, rule = GradScaler(), optim.SGD([w], lr=0.5)
    with pytest.raises(ValueError, match=r"call step\(\) before update\(\)"):
        scaler.update()
    (w * 2).sum().backward()
    scaler.unscale(rule)
    with pytest.raises(ValueError, match="already unscaled"):
        scaler.unscale(rule)


def test_a_network_learns_in_float16_with_float32_weights() -> None:
    import random

    rng = random.Random(0)
    model = nn.Sequential(nn.Linear(2, 16, generator=rng), nn.ReLU(), nn.Linear(16, 2, generator=rng))
    x = Tensor([[0, 0], [0, 1], [1, 0], [1, 1]], dtype="float32", requires_grad=False)
    t = Tensor([0, 1, 1, 0])
    scaler, rule = GradScaler(), optim.Adam(model.parameters(), lr=0.05)
    for _ in range(100):
        rule.zero_grad()
        with autocast("float16"):
            loss = nn.cross_entropy(model(x), t)
        scaler.scale(loss).backward()
        scaler.step(rule)
        scaler.update()
    assert loss.item() < 0.05
    assert {str(p.dtype) for p in model.parameters()} == {"float32"}
