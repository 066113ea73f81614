"""The recorded graph and the sweep: accumulation, freeing, depth, modes, errors, functional derivatives."""

from __future__ import annotations

import asyncio
import gc
import operator
import sys
import threading
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

from micrograd_core import (
    Device,
    Tensor,
    asarray,
    batch_norm,
    enable_grad,
    grad,
    gradcheck,
    gradgradcheck,
    is_grad_enabled,
    layer_norm,
    nn,
    no_grad,
    value_and_grad,
    zeros,
)
from micrograd_core.array import functions
from micrograd_core.errors import DTypeError, GradcheckError, GraphError, ShapeError


def test_the_first_example(device: Device) -> None:
    x = Tensor([[1.0, -2.0], [3.0, 4.0]], device=device)
    y = (x.relu() * x).sum()
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[2.0, 0.0], [6.0, 8.0]]
    assert not x.grad.requires_grad


def test_gradients_accumulate_until_zeroed() -> None:
    x = Tensor([1.0, 2.0])
    for _ in range(2):
        (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 8.0]
    x.zero_grad()
    assert x.grad is None


def test_an_operand_used_often_gets_the_sum() -> None:
    x = Tensor(3.0)
    (x * x + x * 2 + x).backward()
    assert x.grad is not None
    assert x.grad.item() == 9.0


def test_shared_subgraphs_are_visited_once() -> None:
    x = Tensor(1.0, dtype="float64")
    y = x
    for _ in range(60):  # 2**60 paths
        y = y + y
    y.backward()
    assert x.grad is not None
    assert x.grad.item() == 2.0**60


def test_second_sweep_needs_retain_graph() -> None:
    x = Tensor([1.0, 2.0])
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 8.0]
    with pytest.raises(GraphError, match="retain_graph=True"):
        y.backward()
    h = x * 2
    h.sum().backward()
    with pytest.raises(GraphError, match="already swept"):
        (h * h).sum().backward()


def test_backward_from_a_leaf_is_the_identity() -> None:
    x = Tensor(2.0)
    x.backward()
    assert x.grad is not None
    assert x.grad.item() == 1.0


def test_backward_of_a_tensor_takes_a_cotangent() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    y = x * 2
    with pytest.raises(GraphError, match=r"shape \(3,\)"):
        y.backward()
    with pytest.raises(ShapeError, match="must be equal"):
        y.backward([1.0, 2.0])
    y.backward([1.0, 0.0, -1.0])
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 0.0, -2.0]


def test_backward_without_a_graph_says_why() -> None:
    with pytest.raises(GraphError, match="nothing was recorded"):
        zeros(()).backward()
    with pytest.raises(GraphError, match="int64 tensor has no gradient"):
        Tensor(3).backward()


def test_create_graph_gives_gradients_that_record(device: Device) -> None:
    x = Tensor(2.0, device=device)
    (x**3).backward(create_graph=True)
    first = x.grad
    assert first is not None
    assert first.requires_grad
    x.zero_grad()
    first.backward()
    assert x.grad is not None
    assert x.grad.item() == 12.0


def test_moves_between_devices_stay_in_the_graph(rawbuffer_device: Device) -> None:
    x = Tensor([1.0, 2.0], dtype="float64")
    y = (x.to(rawbuffer_device) * 3).to("cpu") * x
    assert y.device.is_cpu()
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.device.is_cpu()
    assert x.grad.tolist() == [6.0, 12.0]
    assert gradcheck(lambda x: (x.to("rawbuffer:1") ** 2).to("cpu") + x, x)
    assert gradgradcheck(lambda x: (x.to("rawbuffer:1") ** 3).to("cpu") * x, x)


def test_a_leaf_off_the_device_of_the_loss_gets_its_gradient_at_home(rawbuffer_device: Device) -> None:
    x = Tensor([1.0, 2.0], device=rawbuffer_device)
    (x.cpu() * 5).sum().backward()
    (x.to("rawbuffer:1") * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.device is rawbuffer_device
    assert x.grad.tolist() == [7.0, 7.0]


def test_unneeded_gradients_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = Device("cpu").kernels
    calls = []
    matmul = kernels.matmul
    monkeypatch.setattr(kernels, "matmul", lambda x, y: calls.append(1) or matmul(x, y))
    data, weight = asarray(np.ones((4, 3))), Tensor(np.ones((3, 2)))
    (data @ weight).sum().backward()
    assert len(calls) == 2  # one forward, one for the weight; none for the data


def counted(monkeypatch: pytest.MonkeyPatch, device: Device, *names: str) -> list[str]:
    """Which of these kernels are called from now on."""
    called: list[str] = []

    def noting(name: str) -> Any:
        kernel = getattr(device.kernels, name)

        def noted(*operands: Any, **params: Any) -> Any:
            called.append(name)
            return kernel(*operands, **params)

        return noted

    for name in names:
        monkeypatch.setattr(device.kernels, name, noting(name))
    return called


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_product_with_itself_has_one_cotangent(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    numbers = [1.5, -2.0, 0.25]
    x = Tensor(numbers, dtype=dtype, requires_grad=True)  # before: a dtype that is new has all kernels looked at again
    called = counted(monkeypatch, Device("cpu"), "multiply", "add", "square_gradient")
    (x * x).sum().backward()
    assert [each for each in called if each != "multiply"] == ["square_gradient"]
    assert x.grad is not None
    assert x.grad.tolist() == [2 * each for each in numbers]
    y, z = (Tensor(numbers, dtype=dtype, requires_grad=True) for _ in range(2))
    (y * z).sum().backward()
    assert called.count("square_gradient") == 1  # two tensors are two, whatever is in them


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "pow"])
def test_an_operation_on_one_tensor_twice_has_the_gradient_of_both(name: str) -> None:
    operation = getattr(operator, name)
    numbers = [0.5, 2.0, 3.0]
    x = Tensor(numbers, requires_grad=True)
    operation(x, x).sum().backward()
    y, z = (Tensor(numbers, requires_grad=True) for _ in range(2))
    operation(y, z).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert z.grad is not None
    assert x.grad.tolist() == (y.grad + z.grad).tolist()


def test_a_product_with_itself_to_any_order() -> None:
    rng = np.random.default_rng(0)
    x = Tensor(rng.normal(size=(3, 4)), requires_grad=True)
    assert gradcheck(lambda x: x * x * x, (x,))
    assert gradgradcheck(lambda x: (x * x) * (x * x).tanh(), (x,))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("norm", ["layer_norm", "batch_norm"])
def test_gradients_of_a_norm_at_once_are_rounded_once(norm: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    numbers = [Tensor(rng.normal(size=shape), dtype=dtype) for shape in ((6, 4), (4,), (4,))]

    def loss(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        made = (
            layer_norm(x, weight, bias)
            if norm == "layer_norm"
            else batch_norm(x, None, None, weight, bias, training=True)
        )
        return (made.astype("float32") ** 3).sum()

    every: Any = grad(loss, argnums=(0, 1, 2))
    narrow, wide = every(*numbers), every(*[each.astype("float32") for each in numbers])
    for x, y in zip(narrow, wide, strict=True):
        assert x.dtype.name == dtype
        scale = float(y.abs().max().item())
        assert float((x.astype("float32") - y).abs().max().item()) < 0.02 * scale


@pytest.mark.parametrize("norm", ["layer_norm", "batch_norm"])
@pytest.mark.parametrize("frozen", ["", "x", "weight", "bias"])
def test_gradients_of_a_norm_are_made_at_once_where_all_are_wanted(
    monkeypatch: pytest.MonkeyPatch, norm: str, frozen: str
) -> None:
    rng = np.random.default_rng(0)
    values = {"x": rng.normal(size=(6, 4)), "weight": rng.normal(size=4), "bias": rng.normal(size=4)}
    alone = "standardize_gradient" if norm == "layer_norm" else "batch_norm_gradient"
    called = counted(monkeypatch, Device("cpu"), f"{norm}_gradients", alone)

    def run(values: dict[str, np.ndarray], frozen: str) -> tuple[Any, dict[str, Tensor]]:
        given = {name: Tensor(each, requires_grad=name != frozen) for name, each in values.items()}
        x, *others = given.values()
        made = layer_norm(x, *others) if norm == "layer_norm" else batch_norm(x, None, None, *others, training=True)
        return made, given

    made, given = run(values, frozen)
    (made * made * made).sum().backward()
    assert called.count(f"{norm}_gradients") == (not frozen)
    assert called.count(alone) == (frozen not in ("", "x"))
    for name, each in given.items():
        if name != frozen:
            step = np.zeros_like(values[name])
            step.flat[1] = 1e-6
            sums = [
                float((run({**values, name: values[name] + sign * step}, "")[0] ** 3).sum().item()) for sign in (1, -1)
            ]
            assert each.grad is not None
            assert abs(np.asarray(each.grad).flat[1] - (sums[0] - sums[1]) / 2e-6) < 1e-5


# ── depth, memory ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("swept", [True, False])
def test_deep_chains_build_sweep_and_die_without_recursion(swept: bool) -> None:
    x = Tensor(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1.0
    if swept:
        y.backward()
        assert x.grad is not None
        assert x.grad.item() == 1.0
    del y


def test_a_million_operations_die_without_recursion() -> None:
    y = Tensor(1.0)
    for _ in range(1_000_000):
        y = -y
    del y


def test_a_graph_is_freed_by_reference_count_alone() -> None:
    gc.disable()
    try:
        x = Tensor([1.0, 2.0])
        h = x * 2
        alive = weakref.ref(h)
        y = h.exp().sum()
        del h
        assert alive() is None  # a record holds handles, not tensors
        y.backward()
        ((x * 2).exp() @ x).backward()  # what is kept for good is there
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(50):
            ((x * 2).exp() @ x).backward()
        x.zero_grad()
        assert len(gc.get_objects()) <= before + 5
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_consumed_graph_frees_what_the_user_does_not_hold() -> None:
    x = Tensor(np.ones(1000))
    hidden = x * 2
    saved = weakref.ref(hidden._handle)
    loss = hidden.exp().sum()
    del hidden
    assert saved() is not None
    loss.backward()
    assert saved() is None
    assert loss.requires_grad


def test_training_leaves_no_garbage_and_memory_flat() -> None:
    from micrograd_core import nn, optim

    x, t = asarray(np.ones((8, 4), "float32")), asarray(np.zeros((8,), "int64"))
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    rule = optim.Adam(model.parameters())

    def steps(count: int) -> None:
        for _ in range(count):
            loss = functions.FUNCTIONS["cross_entropy"](model(x), t)
            rule.zero_grad()
            loss.backward()
            rule.step()

    gc.disable()
    try:
        steps(1)  # loads the compiler
        gc.collect()  # what that and other tests left
        tracemalloc.start()
        steps(3000)  # fills the interpreter's free lists
        start = tracemalloc.get_traced_memory()[0]
        steps(1000)
        grown = tracemalloc.get_traced_memory()[0] - start
        tracemalloc.stop()
        assert gc.collect() == 0
        assert grown < 5_000, f"{grown} bytes in 1000 steps"
    finally:
        gc.enable()


# ── modes ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_grad_records_nothing_and_nests() -> None:
    x = Tensor([1.0])
    with no_grad():
        assert not (x * 2).requires_grad
        with enable_grad():
            assert (x * 2).requires_grad
        assert not is_grad_enabled()
    assert (x * 2).requires_grad

    @no_grad()
    def evaluate() -> Tensor:
        return x * 2

    assert not evaluate().requires_grad
    assert (x * 2).requires_grad


def test_grad_mode_belongs_to_the_thread() -> None:
    seen = []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append(is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_grad_mode_belongs_to_the_task() -> None:
    async def work(disable: bool) -> bool:
        if not disable:
            await asyncio.sleep(0)
            return is_grad_enabled()
        with no_grad():
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return is_grad_enabled()

    async def both() -> list[bool]:
        return list(await asyncio.gather(work(True), work(False)))

    assert asyncio.run(both()) == [False, True]


def test_threads_may_share_leaves() -> None:
    x = Tensor(np.zeros(100))

    def work() -> None:
        for _ in range(200):
            (x * 1.0).sum().backward()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert x.grad is not None
    assert x.grad.tolist() == [800.0] * 100


def test_requires_grad_is_by_dtype_and_settable() -> None:
    assert Tensor([1.0]).requires_grad
    assert not Tensor([1]).requires_grad
    assert not asarray([1.0]).requires_grad
    assert not Tensor([1.0], requires_grad=False).requires_grad
    x = asarray([1.0])
    x.requires_grad = True
    assert (x * 2).requires_grad
    with pytest.raises(DTypeError, match="only floating-point"):
        Tensor([1], requires_grad=True)
    with pytest.raises(GraphError, match="detach"):
        (x * 2).requires_grad = False


def test_grad_can_be_assigned_but_must_fit() -> None:
    x = Tensor([1.0, 2.0])
    x.grad = [3.0, 4.0]  # type: ignore[assignment]
    (x * 1).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 5.0]
    with pytest.raises(ShapeError, match="grad has shape"):
        x.grad = [1.0]  # type: ignore[assignment]
    with pytest.raises(GraphError, match="not computed"):
        (x * 2).grad = x


# ── functional ───────────────────────────────────────────────────────────────────────────────────────────────


def test_grad_of_a_function(device: Device) -> None:
    x = asarray([1.0, 2.0], device=device)
    g = grad(lambda x: (x * x).sum())(x)
    assert g.tolist() == [2.0, 4.0]
    assert not g.requires_grad
    assert x.grad is None


def test_grad_leaves_dot_grad_alone_and_nests() -> None:
    x = Tensor(2.0, dtype="float64")
    d = lambda x: (x**4).sum()  # noqa: E731
    for expected in (32.0, 48.0, 48.0, 24.0, 0.0):
        d = grad(d)
        assert d(x).item() == expected
    assert x.grad is None


def test_value_and_grad_of_several_arguments() -> None:
    value, (gx, gy) = value_and_grad(lambda x, y, n: (x * y).sum() * n, argnums=(0, 1))(
        Tensor([1.0, 2.0]), Tensor([3.0, 4.0]), 2
    )
    assert value.item() == 22.0
    assert gx.tolist() == [6.0, 8.0]
    assert gy.tolist() == [2.0, 4.0]


def test_grad_through_a_closure_records_it() -> None:
    w = Tensor(3.0)
    g = grad(lambda x: w * x * x)(asarray(2.0))
    assert g.item() == 12.0
    g.backward()
    assert w.grad is not None
    assert w.grad.item() == 4.0


def test_grad_works_under_no_grad_and_of_constants() -> None:
    with no_grad():
        g = grad(lambda x: x * x)(Tensor(3.0))
    assert g.item() == 6.0
    assert not g.requires_grad
    assert grad(lambda x: asarray(1.0))(Tensor([1.0, 2.0])).tolist() == [0.0, 0.0]
    assert grad(lambda x: x)(Tensor(1.0)).item() == 1.0


def test_grad_of_something_else_is_an_error() -> None:
    with pytest.raises(GraphError, match="scalar"):
        grad(lambda x: x * 2)(Tensor([1.0, 2.0]))
    with pytest.raises(TypeError, match="the function must return tensors; it returned float"):
        grad(lambda x: 1.0)(Tensor(1.0))
    with pytest.raises(TypeError, match="must be a Tensor"):
        grad(lambda x: x)(1.0)
    with pytest.raises(DTypeError, match="only floating"):
        grad(lambda x: x)(Tensor(1))
    with pytest.raises(TypeError, match="argnums=1"):
        grad(lambda x: x, argnums=1)(Tensor(1.0))


def test_gradcheck_finds_a_wrong_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    from micrograd_core.ops import TABLE

    monkeypatch.setattr(TABLE["exp"], "gradient", (lambda k, g, out, x: k.multiply(g, x),))
    with pytest.raises(GradcheckError, match="analytic = ") as caught:
        gradcheck(lambda x: x.exp(), Tensor([0.5, 1.0], dtype="float64"))
    assert caught.value.facts["element"] == 0
    with pytest.raises(DTypeError, match="float64"):
        gradcheck(lambda x: x, Tensor([1.0]))


@pytest.mark.parametrize("name", ["Linear", "Conv2d"])
def test_a_weight_keeps_the_gradient_that_was_computed_for_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, shape = (nn.Linear(3, 2), (2, 3)) if name == "Linear" else (nn.Conv2d(3, 2, 2), (2, 3, 4, 4))
    copied: list[Any] = []
    kernels = Device("cpu").kernels
    monkeypatch.setattr(kernels, "copy", lambda x: copied.append(x) or x, raising=False)
    layer(Tensor(np.ones(shape, "float32"))).sum().backward()
    assert not copied


def test_gradients_of_two_biases_of_one_sum_are_memory_of_their_own() -> None:
    x, weight, first, second = (Tensor(np.ones(shape)) for shape in ((3,), (2, 3), (2,), (2,)))
    linear = functions.FUNCTIONS["linear"]
    ((linear(x, weight, first) + linear(x, weight, second)) * Tensor([1.0, 1.0])).sum().backward()
    assert first.grad is not None
    assert second.grad is not None
    first.grad[0] = 5.0
    assert second.grad.tolist() == [1.0, 1.0]
