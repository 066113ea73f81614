"""Training on several ranks gives what one process gives with whole batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from micrograd_mpi import DataParallel, Sharded, SyncBatchNorm, World, WorldError, load, save, synchronized, weighted

import micrograd_core as mg
from micrograd_core import nn, optim
from micrograd_core.data import batches

ROWS = 24
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(ROWS, 5)), RNG.normal(size=(ROWS, 3))


def network(dtype: str = "float64", seed: int = 1) -> nn.Sequential:
    mg.random.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(5, 7, dtype=dtype), nn.Tanh(), nn.Linear(7, 7, dtype=dtype), nn.Tanh(), nn.Linear(7, 3, dtype=dtype)
    )


def error(model: Any, x: mg.Tensor, y: mg.Tensor) -> mg.Tensor:
    return ((model(x) - y) ** 2).mean()


def part(job: World, array: Any, rows: int = ROWS) -> mg.Tensor:
    return mg.asarray(array[rows * job.rank // job.size : rows * (job.rank + 1) // job.size])


def trained(steps: int, rule: Callable[[Any], Any], clip: float = 0.0, model: Any = None) -> list[Any]:
    """The parameters after some steps in one process, with whole batches."""
    model = network() if model is None else model
    optimizer = rule(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        error(model, mg.asarray(X), mg.asarray(Y)).backward()
        if clip:
            optim.clip_grad_norm(model.parameters(), clip)
        optimizer.step()
    return [p.detach().numpy() for p in model.parameters()]


def assert_same(model: Any, expected: list[Any], tolerance: float = 1e-13) -> None:
    for p, e in zip(model.parameters(), expected, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), e, rtol=tolerance, atol=tolerance)


def adam(params: Any) -> optim.Optimizer:
    return optim.Adam(params, lr=1e-2)


def sgd(params: Any) -> optim.Optimizer:
    return optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True)


@pytest.mark.parametrize("rule", [adam, sgd])
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("options", [{}, {"overlap": False}, {"bucket_mib": 3e-4}, {"bucket_mib": 1e-9}], ids=str)
def test_ranks_train_as_one_process_with_the_whole_batch(job: World, rule: Any, jit: bool, options: Any) -> None:
    model = DataParallel(network(), job, **options)
    optimizer = rule(model.parameters())
    x, y = part(job, X), part(job, Y)

    def step(x: mg.Tensor, y: mg.Tensor) -> mg.Tensor:
        optimizer.zero_grad()
        loss = error(model, x, y)
        loss.backward()
        optim.clip_grad_norm(model.parameters(), 0.5)
        optimizer.step()
        return loss

    run = mg.jit(step) if jit else step
    for _ in range(6):
        run(x, y)
    if jit:
        assert run.traces <= 2
    assert_same(model, trained(6, rule, clip=0.5))


def test_ranks_give_the_bits_of_one_process_where_sums_are_exact(job: World) -> None:
    """Small integers: no sum is rounded, in whatever order it is taken; three ranks round the mean."""
    x, y = np.arange(ROWS * 5).reshape(ROWS, 5) % 7 - 3.0, np.arange(ROWS * 3).reshape(ROWS, 3) % 5 - 2.0
    model = nn.Linear(5, 3, dtype="float64")
    model.weight.data, model.bias.data = mg.ones((3, 5), dtype="float64"), mg.zeros((3,), dtype="float64")
    own = DataParallel(model, job)
    ((own(part(job, x)) - part(job, y)) ** 2).sum().backward()
    out = x @ np.ones((5, 3)) - y
    for p, expected in zip(model.parameters(), (2 * out.T @ x, 2 * out.sum(axis=0)), strict=True):
        np.testing.assert_array_max_ulp(p.grad.numpy() * job.size, expected, 0 if job.size in (1, 2, 4) else 1)


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_uneven_parts_count_by_their_examples(job: World, jit: bool) -> None:
    rows = ROWS - 1
    reference = network()
    error(reference, mg.asarray(X[:rows]), mg.asarray(Y[:rows])).backward()
    model = DataParallel(network(), job)
    edges = [0, *sorted(RNG.choice(np.arange(1, rows), job.size - 1, replace=False)), rows]
    edges = job.on_first(lambda: [int(each) for each in edges])
    own = slice(edges[job.rank], edges[job.rank + 1])

    def step(x: mg.Tensor, y: mg.Tensor) -> list[Any]:
        weighted(error(model, x, y), x.shape[0], job).backward()
        return [p.grad for p in model.parameters()]

    found = (mg.jit(step) if jit else step)(mg.asarray(X[own]), mg.asarray(Y[own]))
    for g, p in zip(found, reference.parameters(), strict=True):
        np.testing.assert_allclose(g.numpy(), p.grad.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_what_was_added_up_without_sync_goes_into_the_next_mean(job: World, jit: bool) -> None:
    reference = network()
    for _ in range(3):
        error(reference, mg.asarray(X), mg.asarray(Y)).backward()
    model = DataParallel(network(), job)
    x, y = part(job, X), part(job, Y)

    def turn(x: mg.Tensor, y: mg.Tensor) -> mg.Tensor:
        loss = error(model, x, y)
        loss.backward()
        return loss

    run = mg.jit(turn) if jit else turn
    with model.no_sync():
        run(x, y)
        before = job.state.told[0]
        run(x, y)
        assert job.state.told[0] == before
    run(x, y)
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_gradients_are_sent_in_half_precision_where_asked(job: World, dtype: str, jit: bool) -> None:
    reference = network("float32")
    error(reference, mg.asarray(X, dtype="float32"), mg.asarray(Y, dtype="float32")).backward()
    model = DataParallel(network("float32"), job, reduce_dtype=dtype)

    def turn(x: mg.Tensor, y: mg.Tensor) -> list[Any]:
        error(model, x, y).backward()
        return [p.grad for p in model.parameters()]

    x, y = (part(job, each).astype("float32") for each in (X, Y))
    found = (mg.jit(turn) if jit else turn)(x, y)
    for g, p in zip(found, reference.parameters(), strict=True):
        assert g.dtype == mg.float32
        np.testing.assert_allclose(g.numpy(), p.grad.numpy(), rtol=0, atol=0.02 * float(abs(p.grad).max()))


def test_parameters_of_several_dtypes_and_frozen_ones(job: World) -> None:
    model = nn.Sequential(nn.Linear(5, 4, dtype="float64"), nn.Linear(4, 3, dtype="float64"))
    extra = nn.Linear(3, 2, dtype="float32")
    model[0].bias.requires_grad = False

    class Both(nn.Module):
        def __init__(self) -> None:
            self.first, self.second = model, extra

        def forward(self, x: mg.Tensor) -> mg.Tensor:
            return self.second(self.first(x).astype("float32"))

    own = DataParallel(Both(), job)
    (own(part(job, X)) ** 2).mean().backward()
    grads = [None if p.grad is None else p.grad.numpy() for p in own.parameters()]
    assert [g is None for g in grads] == [name == "first.0.bias" for name, _ in own.named_parameters()]
    for p in own.parameters():
        p.grad = None
    (own.module(mg.asarray(X)) ** 2).mean().backward()
    for p, g in zip(own.parameters(), grads, strict=True):
        if g is not None:
            np.testing.assert_allclose(g, p.grad.numpy(), rtol=2e-5, atol=1e-6)


def test_a_parameter_that_one_rank_does_not_use_counts_as_zero(job: World) -> None:
    class Choice(nn.Module):
        def __init__(self) -> None:
            self.a, self.b = nn.Linear(5, 1, dtype="float64"), nn.Linear(5, 1, dtype="float64")

        def forward(self, x: mg.Tensor, both: bool) -> mg.Tensor:
            return self.a(x) + self.b(x) if both else self.a(x)

    model = DataParallel(Choice(), job, bucket_mib=1e-9)
    x = mg.ones((2, 5), dtype="float64")
    model(x, job.rank == 0).sum().backward()
    np.testing.assert_allclose(model.a.weight.grad.numpy(), 2.0)
    np.testing.assert_allclose(model.b.weight.grad.numpy(), 2.0 / job.size)


def test_a_model_that_is_called_twice_before_one_backward(job: World) -> None:
    model = DataParallel(network(), job)
    x, y = part(job, X), part(job, Y)
    (error(model, x, y) + 2 * error(model, x, y)).backward()
    reference = network()
    (3 * error(reference, mg.asarray(X), mg.asarray(Y))).backward()
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-12, atol=1e-14)


def test_a_sweep_may_be_kept_and_repeated(job: World) -> None:
    model = DataParallel(network(), job)
    loss = error(model, part(job, X), part(job, Y))
    loss.backward(retain_graph=True)
    once = [p.grad.numpy().copy() for p in model.parameters()]
    loss.backward()
    for p, g in zip(model.parameters(), once, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), 2 * g, rtol=1e-12)


def test_gradients_of_gradients_are_means_too(job: World) -> None:
    def penalty(model: Any, x: mg.Tensor, y: mg.Tensor) -> list[Any]:
        error(model, x, y).backward(create_graph=True)
        total = sum((p.grad**2).sum() for p in model.parameters())
        for p in model.parameters():
            p.grad = None
        total.backward()
        return [p.grad.detach().numpy() for p in model.parameters()]

    model = DataParallel(network(), job)
    found = penalty(model, part(job, X), part(job, Y))
    for a, b in zip(found, penalty(network(), mg.asarray(X), mg.asarray(Y)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


class Checkpointed(nn.Module):
    """A network whose inner layers are computed once more in the backward."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        return mg.checkpoint(self.inner, x)


@pytest.mark.parametrize("where", ["inside", "around"])
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_checkpoints_inside_and_around(job: World, where: str, jit: bool) -> None:
    reference = network()
    error(reference, mg.asarray(X), mg.asarray(Y)).backward()
    model = DataParallel(Checkpointed(network()) if where == "inside" else network(), job)

    def turn(x: mg.Tensor, y: mg.Tensor) -> list[Any]:
        out = mg.checkpoint(model, x) if where == "around" else model(x)
        ((out - y) ** 2).mean().backward()
        return [p.grad for p in model.parameters()]

    found = (mg.jit(turn) if jit else turn)(part(job, X), part(job, Y))
    for g, p in zip(found, reference.parameters(), strict=True):
        np.testing.assert_allclose(g.numpy(), p.grad.numpy(), rtol=1e-12, atol=1e-14)


def test_autocast_and_evaluation(job: World) -> None:
    model = DataParallel(network("float32"), job)
    x = part(job, X).astype("float32")
    with mg.amp.autocast("bfloat16"):
        loss = (model(x).astype("float32") ** 2).mean()
    loss.backward()
    assert all(p.grad is not None and p.grad.dtype == mg.float32 for p in model.parameters())
    before = job.state.told[0]
    with mg.no_grad():
        model(x)
    assert job.state.told[0] == before
    model.eval()
    assert not model.training
    assert list(model.state_dict()) == list(model.module.state_dict())


def test_ranks_start_with_what_the_first_has_and_are_told(job: World) -> None:
    own = network(seed=job.rank)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = DataParallel(own, job)
    if job.size > 1:
        assert any("rank 1" in str(each.message) and "other numbers than rank 0" in str(each.message) for each in told)
    assert_same(model, [p.detach().numpy() for p in network(seed=0).parameters()], 0.0)


def test_other_models_are_refused_on_every_rank(job: World) -> None:
    if job.size == 1:
        return
    model = nn.Linear(5, 3 if job.rank != 1 else 4)
    with pytest.raises(WorldError, match=r"rank 1 has another model than rank 0: 'weight' of shape \(4, 5\), float32"):
        DataParallel(model, job)


def test_a_gradient_that_is_not_finite_is_named_on_every_rank(job: World) -> None:
    x = np.array(X[:4])
    if job.rank == job.size - 1:
        x[2, 1] = np.nan
    model = DataParallel(network(), job)
    with pytest.raises(WorldError, match=f"the gradient of '.*' on rank {job.size - 1} of {job.size} is not finite"):
        error(model, mg.asarray(x), mg.asarray(Y[:4])).backward()
    with pytest.raises(WorldError, match="is not finite"):  # in the first of several buckets
        error(DataParallel(network(), job, bucket_mib=1e-5), mg.asarray(x), mg.asarray(Y[:4])).backward()
    assert not job.state.pending
    model = DataParallel(network(), job, check_finite=False)
    error(model, mg.asarray(x), mg.asarray(Y[:4])).backward()
    assert np.isnan(model.module[0].weight.grad.numpy()).any()


def test_bad_options_are_refused(job: World) -> None:
    with pytest.raises(ValueError, match="bucket_mib is a size above 0; got 0"):
        DataParallel(network(), job, bucket_mib=0)
    with pytest.raises(ValueError, match="reduce_dtype is 'bfloat16', 'float16' or None; got 'float64'"):
        DataParallel(network(), job, reduce_dtype="float64")


# ── sharded ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("rule", [adam, sgd])
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_a_sharded_optimiser_moves_as_a_whole_one(job: World, rule: Any, jit: bool) -> None:
    model = DataParallel(network(), job)
    optimizer = Sharded(model, rule, max_norm=0.5)
    x, y = part(job, X), part(job, Y)

    def step(x: mg.Tensor, y: mg.Tensor) -> mg.Tensor:
        optimizer.zero_grad()
        loss = error(model, x, y)
        loss.backward()
        optimizer.step()
        return loss

    run = mg.jit(step) if jit else step
    for _ in range(5):
        run(x, y)
    assert_same(model, trained(5, rule, clip=0.5), 1e-6)  # the norm is one of float32
    kept = sum(x.size for name, x in optimizer.rule.state_dict().items() if x.ndim)
    whole = sum(x.size for x in optimizer.state_dict().values() if x.ndim)
    assert kept <= whole // job.size + 2


class Normed(optim.Optimizer):
    """A rule that looks at a whole parameter."""

    def update(self, k: Any, p: Any, g: Any, state: Any) -> Any:
        return k.subtract(p, k.multiply(g, k.max(k.abs(p), axis=None, keepdims=False)))


def test_rules_that_look_at_whole_parameters_are_not_sharded(job: World) -> None:
    with pytest.raises(ValueError, match="Normed does not treat each number by itself"):
        Sharded(DataParallel(network(), job), lambda params: Normed(params, lr=0.1))


# ── checkpoints, data, batch normalisation ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sharded", [False, True], ids=["whole", "sharded"])
def test_a_checkpoint_is_gone_on_with(job: World, sharded: bool, tmp_path_factory: Any) -> None:
    folder = Path(job.on_first(lambda: str(tmp_path_factory.mktemp("job"))))
    x, y = part(job, X), part(job, Y)

    def made(lr: float) -> tuple[Any, Any]:
        model = DataParallel(network(), job)
        rule = lambda params: optim.Adam(params, lr=lr)  # noqa: E731
        return model, (Sharded(model, rule) if sharded else rule(model.parameters()))

    def steps(model: Any, optimizer: Any, count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            error(model, x, y).backward()
            optimizer.step()

    model, optimizer = made(1e-2)
    steps(model, optimizer, 3)
    save(folder / "run.safetensors", model=model, optimizer=optimizer, meta={"epoch": 3})
    again, other = made(0.5)
    assert load(folder / "run.safetensors", model=again, optimizer=other).meta == {"epoch": 3}
    steps(again, other, 3)
    assert_same(again, trained(6, adam))
    plain = network()  # one process goes on, too
    rule = optim.Adam(plain.parameters(), lr=0.5)
    mg.checkpoints.load(folder / "run.safetensors", model=plain, optimizer=rule)
    for _ in range(3):
        rule.zero_grad()
        error(plain, mg.asarray(X), mg.asarray(Y)).backward()
        rule.step()
    assert_same(plain, trained(6, adam))
    with pytest.raises(OSError if job.rank == 0 else WorldError, match="nowhere"):
        save(folder / "nowhere" / "run.safetensors", model=model)


def test_parts_of_batches_are_those_of_one_process(job: World) -> None:
    whole = [y.tolist() for _, y in batches((X, np.arange(ROWS)), 7, seed=3, drop_last=True)]
    own = [y.tolist() for _, y in batches((X, np.arange(ROWS)), 7, seed=3, drop_last=True, part=(job.rank, job.size))]
    everyone = job.gather(own)
    assert [[row for part in parts for row in part] for parts in zip(*everyone, strict=True)] == whole
    assert all(max(map(len, parts)) - min(map(len, parts)) <= 1 for parts in zip(*everyone, strict=True))


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_goes_by_the_examples_of_all_ranks(job: World, jit: bool, momentum: Any) -> None:
    def layer() -> nn.Module:
        return nn.Sequential(nn.BatchNorm1d(5, momentum=momentum, dtype="float64"))

    rows = ROWS - 1  # uneven
    one, own = layer(), synchronized(layer(), job)
    assert isinstance(own[0], SyncBatchNorm)
    x = mg.Tensor(X[:rows], dtype="float64")
    (one(x) ** 3).sum().backward()
    mine = mg.Tensor(part(job, X, rows), dtype="float64")

    def turn(x: mg.Tensor) -> mg.Tensor:
        out = own(x)
        (out**3).sum().backward()
        return out

    (mg.jit(turn) if jit else turn)(mine)
    np.testing.assert_allclose(mine.grad.numpy(), part(job, x.grad.numpy(), rows).numpy(), rtol=1e-9, atol=1e-11)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        np.testing.assert_allclose(getattr(own[0], name).numpy(), getattr(one[0], name).numpy(), rtol=1e-6)
    own.eval()
    one.eval()
    np.testing.assert_allclose(own(x).detach().numpy(), one(x).detach().numpy(), rtol=1e-6)
    assert list(own.state_dict()) == list(one.state_dict())
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(own.train()(x).detach().numpy(), own.eval()(x).detach().numpy())
