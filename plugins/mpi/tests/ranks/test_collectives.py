"""Every collective, by every transform, against what NumPy makes of all ranks' numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from micrograd_mpi import (
    World,
    WorldError,
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    parallel,
    reduce_scatter,
    shift,
    weighted,
)  # fmt: skip

import micrograd_core as mg
from micrograd_core.errors import ShapeError

REDUCE = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod}


def _parts(x: Any, n: int) -> Any:
    return x.reshape(n, -1, *x.shape[1:])


def meanings(n: int) -> dict[str, tuple[Any, Any]]:
    """By name: the function of tensors, and that of all ranks' arrays, (ranks, ...), which gives those of all ranks."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, reduce in REDUCE.items():
        found[f"all_reduce {name}"] = (
            partial(all_reduce, reduction=name),
            lambda xs, reduce=reduce: [reduce(xs, axis=0)] * n,
        )
    for name in ("sum", "mean"):
        found[f"reduce_scatter {name}"] = (
            partial(reduce_scatter, reduction=name),
            lambda xs, name=name: list(_parts(REDUCE[name](xs, axis=0), n)),
        )
    found["all_gather"] = all_gather, lambda xs: [np.concatenate(list(xs))] * n
    found["broadcast"] = partial(broadcast, root=n - 1), lambda xs: [xs[n - 1]] * n
    found["all_to_all"] = (
        all_to_all,
        lambda xs: [np.concatenate([_parts(x, n)[rank] for x in xs]) for rank in range(n)],
    )
    for by in (1, -1, n + 1):
        found[f"shift {by}"] = partial(shift, by=by), lambda xs, by=by: [xs[(r - by) % n] for r in range(n)]
    return found


NAMES = list(meanings(1))
NAMES[-1] = "shift further"


def named(name: str, n: int) -> tuple[Any, Any]:
    """By its name in `NAMES`, which is the same on any number of ranks."""
    return list(meanings(n).values())[NAMES.index(name)]


def inputs(n: int, dtype: str = "float64", rest: tuple[int, ...] = (3,)) -> Any:
    """The same on all ranks: the arrays of each."""
    rng = np.random.default_rng(7)
    return rng.uniform(0.5, 2.0, size=(n, 2 * n, *rest)).astype(dtype)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", ["eager", "jit", "vmap", "strided"])
def test_gives_what_numpy_makes_of_all_ranks(job: World, name: str, way: str) -> None:
    f, meaning = named(name, job.size)
    xs = inputs(job.size)
    x = mg.asarray(xs[job.rank])
    expected = meaning(xs)[job.rank]
    if way == "vmap":
        found = mg.vmap(f)(mg.stack([x, x + 1]))[0]
    elif way == "strided":
        found = f(mg.asarray(np.repeat(xs[job.rank], 2, axis=0))[::2])
    else:
        found = (mg.jit(f) if way == "jit" else f)(x)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", ["eager", "jit", "grad of jit", "jit of grad", "create_graph"])
def test_gradients_are_those_of_the_sum_of_all_ranks_losses(job: World, name: str, way: str) -> None:
    f, meaning = named(name, job.size)
    n, rank = job.size, job.rank
    xs = inputs(n, rest=(2,))
    weights = [np.random.default_rng(r).normal(size=out.shape) for r, out in enumerate(meaning(xs))]

    def total(arrays: Any) -> float:
        return sum(float((w * out**2).sum()) for w, out in zip(weights, meaning(arrays), strict=True))

    def loss(x: mg.Tensor) -> mg.Tensor:
        return (mg.asarray(weights[rank]) * f(x) ** 2).sum()

    x = mg.Tensor(xs[rank], dtype="float64")
    if way == "grad of jit":
        found = mg.grad(mg.jit(loss))(x)
    elif way == "jit of grad":
        found = mg.jit(mg.grad(loss))(x)
    else:
        (mg.jit(loss) if way == "jit" else loss)(x).backward(create_graph=way == "create_graph")
        assert x.grad is not None
        found = x.grad.detach()
    expected, step = np.zeros_like(xs[rank]), 1e-6
    for place in np.ndindex(*xs[rank].shape):
        more, less = xs.copy(), xs.copy()
        more[rank][place] += step
        less[rank][place] -= step
        expected[place] = (total(more) - total(less)) / (2 * step)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reduction", ["max", "min"])
def test_ranks_that_have_the_same_extreme_share_its_gradient(job: World, reduction: str) -> None:
    x = mg.Tensor([1.0, float(job.rank)])
    (all_reduce(x, reduction) * mg.asarray([1.0, 2.0])).sum().backward()
    winner = job.size - 1 if reduction == "max" else 0
    assert x.grad.tolist() == [1.0, 2.0 * job.size if job.rank == winner else 0.0]


@pytest.mark.parametrize("name", ["all_reduce sum", "all_gather", "all_to_all", "broadcast"])
def test_tangents_go_the_same_way(job: World, name: str) -> None:
    f, meaning = named(name, job.size)
    xs = inputs(job.size)
    _, tangent = mg.jvp(f, [mg.asarray(xs[job.rank])], [mg.asarray(xs[job.rank] * 3)])
    np.testing.assert_allclose(tangent.numpy(), meaning(xs * 3)[job.rank], rtol=1e-13)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "complex64", "complex128"]
)
def test_every_dtype_travels(job: World, dtype: str) -> None:
    n = job.size
    xs = [mg.astype(mg.asarray(np.arange(2 * n) % 5 + r), dtype) for r in range(n)]
    x = xs[job.rank]
    for f, expected in (
        (all_gather, mg.concat(xs)),
        (shift, xs[(job.rank - 1) % n]),
        (broadcast, xs[0]),
        (all_to_all, mg.concat([each[2 * job.rank : 2 * job.rank + 2] for each in xs])),
    ):
        assert f(x).dtype == x.dtype
        assert mg.all(mg.equal(f(x), expected)).item()
    if dtype != "bool":
        total = xs[0]
        for each in xs[1:]:
            total = total + each
        assert mg.all(mg.equal(all_reduce(x), total)).item()


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (257, 129)])
def test_every_shape_is_reduced(job: World, shape: tuple[int, ...]) -> None:
    for dtype in ("float32", "bfloat16"):
        x = mg.ones(shape, dtype=dtype) * (job.rank + 1)
        np.testing.assert_array_equal(
            mg.astype(all_reduce(x), "float32").numpy(), np.full(shape, sum(range(job.size + 1)), "float32")
        )


def test_half_types_are_added_in_float32(job: World) -> None:
    x = mg.full((5,), 256.0 if job.rank == 0 else 0.75, dtype="bfloat16")
    exact = 256 + 0.75 * (job.size - 1)
    assert all_reduce(x).tolist() == [mg.asarray(exact, dtype="bfloat16").item()] * 5


@pytest.mark.parametrize("device", ["rawbuffer:0", "strict:0"])
def test_devices_whose_memory_mpi_cannot_see_go_over_the_host(job: World, device: str) -> None:
    x = mg.asarray([1.0, 2.0, 3.0], device=device, dtype="float32") * (job.rank + 1)
    assert all_reduce(x).tolist() == [sum(range(job.size + 1)) * each for each in (1.0, 2.0, 3.0)]
    assert all_gather(x).shape == (3 * job.size,)
    assert str(all_reduce(x).device) == device


def test_the_ranks_of_a_part_are_a_world_of_their_own(job: World) -> None:
    part = job.split(job.rank % 2)
    mates = [rank for rank in range(job.size) if rank % 2 == job.rank % 2]
    assert (part.rank, part.size) == (mates.index(job.rank), len(mates))
    assert all_reduce(mg.asarray([1.0 * job.rank]), group=part).tolist() == [sum(mates)]


def test_programs_keep_collectives_in_the_order_of_the_calls(job: World) -> None:
    def f(x: mg.Tensor) -> mg.Tensor:
        a = all_reduce(x * 2)
        b = all_reduce(mg.exp(x), "max")
        c = all_gather(x.reshape(-1))
        return a.sum() + b.sum() + (c * c).sum()

    program = mg.jit(f)
    x = mg.asarray(inputs(job.size)[job.rank])
    np.testing.assert_allclose(program(x).item(), f(x).item(), rtol=1e-12)
    names = [step.op for step in program.program.steps if step.op in ("all_reduce", "all_gather")]
    assert names == ["all_reduce", "all_reduce", "all_gather"]
    before = job.state.told[0]
    program(x)
    assert job.state.told[0] - before == 3


def test_programs_keep_collectives_that_only_other_ranks_want(job: World) -> None:
    def f(x: mg.Tensor) -> mg.Tensor:
        total = all_reduce(x)
        return total if job.rank == 0 else x

    def g(x: mg.Tensor) -> mg.Tensor:
        total = all_reduce(x * x)
        loss = (x * x).sum()
        return loss + total.sum() if job.rank == 0 else loss

    x = mg.asarray([1.0 + job.rank])
    for function in (f, g):
        assert mg.jit(function)(x).tolist() == function(x).tolist()


def test_collectives_of_equal_numbers_are_not_one(job: World) -> None:
    """What is equal on one rank, as x and ``x * 1.0``, is not on the others."""

    def f(x: mg.Tensor) -> tuple[mg.Tensor, ...]:
        return all_reduce(x), all_reduce(x * float(job.rank)), all_reduce(x + 1.0), all_gather(x), all_gather(x)

    def g(x: mg.Tensor) -> mg.Tensor:
        return weighted(x.sum(), 4, job) + weighted((x * 2.0).sum(), 4 - job.rank % 2, job)

    x = mg.asarray([1.0 + job.rank])
    assert [y.tolist() for y in mg.jit(f)(x)] == [y.tolist() for y in f(x)]
    assert mg.jit(g)(x).item() == pytest.approx(g(x).item(), rel=1e-6)


def test_tracing_sends_nothing_so_that_ranks_may_trace_at_different_times(job: World) -> None:
    f = mg.jit(lambda x: all_reduce(x.sum()))
    for turn in range(3):  # each rank meets its second shape at another call
        x = mg.ones((2 + (turn == job.rank),))
        expected = sum(2 + (turn == rank) for rank in range(job.size))
        assert f(x).item() == expected


def test_bad_input_is_refused_before_anything_is_sent(job: World) -> None:
    before = job.state.told[0]
    x = mg.ones((job.size + 1, 2))
    with pytest.raises(ValueError, match=r"all_reduce: reduction is one of sum, mean, max, min, prod; got 'avg'"):
        all_reduce(x, "avg")
    with pytest.raises(TypeError, match="the mean of int64 is no int64"):
        all_reduce(mg.asarray([1, 2]), "mean")
    with pytest.raises(TypeError, match="there is no sum of bool"):
        all_reduce(mg.asarray([True]))
    with pytest.raises(TypeError, match="complex64 numbers have no order"):
        all_reduce(mg.astype(x, "complex64"), "max")
    with pytest.raises(ValueError, match=f"root is a rank from 0 to {job.size - 1}; got {job.size}"):
        broadcast(x, root=job.size)
    with pytest.raises(ShapeError, match=r"all_gather: the first axis is parted among 1 ranks; got shape \(\)"):
        all_gather(mg.asarray(1.0))
    if job.size > 1:
        with pytest.raises(ShapeError, match=f"parted among {job.size} ranks"):
            reduce_scatter(x)
        with pytest.raises(ShapeError, match=f"parted among {job.size} ranks"):
            all_to_all(x)
    with pytest.raises(WorldError, match="a function under jit is being traced"):
        mg.jit(lambda x: (job.barrier(), x)[1])(x)
    assert job.state.told[0] == before


def test_ranks_agree_or_all_of_them_say_who_does_not(job: World) -> None:
    job.agree(seed=3, shape=(1, 2))
    if job.size > 1:
        with pytest.raises(WorldError, match=r"do not agree on seed: rank 0 has 0; rank 1 has 1"):
            job.agree(seed=job.rank)
    with pytest.raises(WorldError, match=f"the loss became nan on rank {job.size - 1}, of {job.size} ranks"):
        job.all_finite(float("nan") if job.rank == job.size - 1 else 1.0, "the loss")
    job.all_finite(1.0, "the loss")


def test_bits_that_all_ranks_give(job: World) -> None:
    highest = 1 << 62
    assert job.common(highest | 1 << job.rank | 1 << 9) == highest | 1 << 9 | (1 if job.size == 1 else 0)
    assert job.common(7 if job.rank else 0) == 0


def test_operations_of_other_distributions_have_a_docstring(job: World) -> None:
    assert {"shift", parallel.READY.name} <= {*mg.__all__}
    assert "place\n    Of the operation." in mg.ready.__doc__


def test_a_timeout_is_seconds(job: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROGRAD_MPI_TIMEOUT", "soon")
    with pytest.raises(WorldError, match="MICROGRAD_MPI_TIMEOUT is a number of seconds; got 'soon'"):
        World()


def test_an_error_on_the_first_rank_is_raised_on_all(job: World) -> None:
    assert job.on_first(lambda: job.rank) == 0

    def fails() -> None:
        raise OSError("no space left")

    with pytest.raises(OSError if job.rank == 0 else WorldError, match="no space left"):
        job.on_first(fails)


def test_numbers_of_what_is_sent_do_not_change_while_it_is_under_way(job: World) -> None:
    for turn in range(20):
        x = mg.full((1000,), float(turn + job.rank))
        total = all_reduce(x)
        x += 1e6
        assert total.tolist()[0] == sum(turn + rank for rank in range(job.size))
