"""Never a silently wrong gradient: ways in which numbers, graphs and tensors could slip past one another."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any

import numpy as np
import pytest

from micrograd_core import (
    Tensor,
    Value,
    asarray,
    detect_anomaly,
    enable_grad,
    full,
    grad,
    is_grad_enabled,
    nn,
    no_grad,
    optim,
    zeros,
)
from micrograd_core.array import functions
from micrograd_core.dtypes import float32
from micrograd_core.errors import DTypeError, GraphError, OutOfMemory, ShapeError

F = functions.FUNCTIONS


def values(x: Tensor | None) -> Any:
    assert x is not None
    return x.tolist()


# ── memory that somebody else has saved ──────────────────────────────────────────────────────────────────────


def test_a_tensor_made_from_a_tensor_is_a_copy() -> None:
    x = Tensor([1.0, 2.0])
    loss = (x * x).sum()
    y = Tensor(x, requires_grad=False)
    y[0] = 100.0
    loss.backward()
    assert x.tolist() == [1.0, 2.0]
    assert values(x.grad) == [2.0, 4.0]
    assert Tensor(x).is_leaf


def test_a_frozen_leaf_that_is_written_leaves_earlier_records_alone() -> None:
    p, q = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    loss = (p * q).sum()
    p.requires_grad = False
    p[0] = 100.0
    loss.backward()
    assert p.tolist() == [100.0, 2.0]
    assert values(q.grad) == [1.0, 2.0]


def test_a_recorded_sweep_notices_writes_too() -> None:
    w, v, data = Tensor([1.0, 2.0]), Tensor(5.0), asarray([3.0, 4.0])
    ((w * data).sum() * v).backward(create_graph=True)
    g = w.grad
    assert g is not None
    v.zero_grad()
    data[0] = 100.0
    with pytest.raises(GraphError, match="written in place"):
        g.sum().backward()


def test_a_variable_of_grad_is_not_the_users_memory_to_change() -> None:
    w, x = Tensor([1.0, 2.0]), asarray([3.0, 4.0])
    h = grad(lambda v: (w * v * v).sum())(x)
    x[0] = 100.0  # a batch buffer that is filled again
    h.sum().backward()
    assert values(w.grad) == [6.0, 8.0]


def test_momentum_keeps_its_own_copy_of_the_gradient() -> None:
    p = Tensor([1.0, 2.0])
    rule = optim.SGD([p], lr=0.1, momentum=0.9)
    for _ in range(2):
        (p * 3).sum().backward()
        rule.step()
        assert p.grad is not None
        p.grad[...] = 0.0
    np.testing.assert_allclose(p.detach().numpy(), [0.13, 1.13], rtol=1e-5)


def test_grad_leaves_the_callers_graph_whole() -> None:
    w = Tensor([1.0, 2.0])
    squared = w * w
    with no_grad():
        assert grad(lambda x: (x * squared).sum())(asarray([1.0, 1.0])).tolist() == [1.0, 4.0]
    squared.sum().backward()
    assert values(w.grad) == [2.0, 4.0]
    with pytest.raises(ValueError, match="twice"):
        grad(lambda a, b: a * b, argnums=(0, 0))


# ── augmented assignment ─────────────────────────────────────────────────────────────────────────────────────


def test_augmented_assignment_writes_where_a_write_is_real() -> None:
    a = zeros((2, 2))
    b, row = a, a[0]
    b += 1
    row *= 5
    a /= 2
    assert a is b
    assert a.tolist() == [[2.5, 2.5], [0.5, 0.5]]
    n = asarray([6, 3])
    n &= 2
    n |= 4
    n ^= 1
    assert n.tolist() == [7, 7]


def test_the_hand_written_descent_loop_works_or_says_how() -> None:
    p = Tensor([1.0, 2.0])
    (p * p).sum().backward()
    assert p.grad is not None
    with pytest.raises(GraphError, match=r"no_grad\(\)"):
        p -= 0.1 * p.grad
    with no_grad():
        p -= 0.1 * p.grad
    np.testing.assert_allclose(p.detach().numpy(), [0.8, 1.6], rtol=1e-6)
    p.data -= 0.1 * p.grad
    np.testing.assert_allclose(p.detach().numpy(), [0.6, 1.2], rtol=1e-6)
    assert p.is_leaf


def test_augmented_assignment_on_a_computed_tensor_stays_in_the_graph() -> None:
    x = Tensor([1.0, 2.0])
    y = x * 3
    early = y.sum()
    y *= y
    (y.sum() + early).backward()
    assert values(x.grad) == [21.0, 39.0]
    with pytest.raises(ShapeError):
        y += zeros((3, 2))


# ── what does not fit ────────────────────────────────────────────────────────────────────────────────────────


def test_recorded_elements_of_a_list_are_not_detached_in_passing() -> None:
    a = Tensor(2.0)
    with pytest.raises(GraphError, match=r"stack\(\[\.\.\.\]\)"):
        Tensor([a * 2, 1.0])
    F["stack"]([a * 2, asarray(1.0)]).sum().backward()
    assert values(a.grad) == 2.0
    assert Tensor([asarray(1.0), asarray(2.0)]).tolist() == [1.0, 2.0]


def test_floats_are_not_truncated_into_integer_tensors() -> None:
    n = zeros(2, dtype="int64")
    for value in (1.9, Tensor(1.9), asarray([1.9, 2.0])):
        with pytest.raises(DTypeError):
            n[:] = value
    with pytest.raises(DTypeError, match="float"):
        full((2,), float("nan"), dtype="int64")


def test_labels_of_narrow_dtypes_count_far_enough(device: Any) -> None:
    if str(device) == "cpu" or "uint8" in device.kernels.backend.dtypes:
        logits = zeros((1, 300), device=device)
        loss = F["cross_entropy"](logits, asarray(np.array([3], "uint8"), device=device))
        assert loss.item() == pytest.approx(np.log(300), rel=1e-5)
        assert F["one_hot"](asarray(np.array([3], "uint8"), device=device), 300).sum().item() == 1.0


def test_a_label_that_names_no_class_spoils_the_gradient_visibly(device: Any) -> None:
    if str(device) == "cpu":
        return
    logits = Tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    F["cross_entropy"](logits, asarray([0, -7], device=device)).backward()
    assert np.isnan(logits.grad.numpy()[1]).all()  # type: ignore[union-attr]
    assert np.isfinite(logits.grad.numpy()[0]).all()  # type: ignore[union-attr]


def test_the_mean_of_many_half_precision_numbers() -> None:
    x = Tensor(np.ones(70_000, "float16"))
    y = x.mean()
    y.backward()
    assert y.item() == 1.0
    assert values(x.grad)[0] == pytest.approx(1 / 70_000, rel=0.01)


def test_the_cotangent_is_cast_to_the_graphs_dtype() -> None:
    for gradient in (asarray([1, 1]), Tensor([1.0, 1.0], dtype="float64")):
        x = Tensor([1.0, 2.0])
        (x * 3).backward(gradient, create_graph=True)
        assert x.grad is not None
        assert x.grad.dtype is float32
        leaf = Tensor([1.0, 2.0])
        leaf.backward(gradient, create_graph=True)
        assert leaf.grad is not gradient


def test_create_graph_records_inside_no_grad() -> None:
    x = Tensor(2.0)
    y = x**3
    with no_grad():
        y.backward(create_graph=True)
    assert x.grad is not None
    assert x.grad.requires_grad


def test_the_mixed_second_derivative_of_a_power_at_exponent_0() -> None:
    x, n = Tensor(2.0, dtype="float64"), Tensor(0.0, dtype="float64")
    dx = grad(lambda x, n: x**n)
    assert grad(lambda n: dx(x, n))(n).item() == 0.5


# ── memory and errors ────────────────────────────────────────────────────────────────────────────────────────


def test_a_gradient_that_records_does_not_keep_itself_alive() -> None:
    gc.disable()
    try:
        x = Tensor([1.0, 2.0])
        (x * x).sum().backward(create_graph=True)
        alive = weakref.ref(x.grad)
        del x
        assert alive() is None
    finally:
        gc.enable()


def test_numbers_do_not_slip_out_of_their_graph() -> None:
    v, x = Value(2.0), Tensor(3.0)
    for data in ([v], [[v, 1.0]], (1.0, v)):
        with pytest.raises(GraphError, match=r"use Value.stack\(\[...\]\), or the .data of each"):
            asarray(data)
    assert Value.stack([v, 1.0]).tolist() == [2.0, 1.0]
    for wrong in (
        lambda: full((2,), v),
        lambda: F["pad"](Tensor([1.0]), 1, constant_values=x),
        lambda: F["pad"](Tensor([1.0]), 1, constant_values=v),
        lambda: full((2,), None),
    ):
        with pytest.raises(TypeError, match=r"(full|pad) takes a number here; got (Value|Tensor|NoneType)"):
            wrong()
    padded = F["pad"](Tensor([1.0]), 1, constant_values=np.float64(2.5))
    assert padded.detach().numpy().dtype == np.float32
    assert padded.tolist() == [2.5, 1.0, 2.5]


def _refused_by_our_check(x: Tensor) -> None:
    x @ Tensor([[1.0]])


def _refused_by_a_kernel(x: Tensor) -> None:
    nn.cross_entropy(x, asarray([9]))


def _refused_in_the_sweep(x: Tensor) -> None:
    y = (x * 2).sum()
    y.register_hook(lambda g: g + asarray([1.0, 2.0, 3.0])[:2])  # a shape that does not fit
    y.backward()


def _fine_in_search_of_anomalies(x: Tensor) -> None:
    with detect_anomaly():
        y = (x * 2).sum()
    y.backward()
    raise ValueError


@pytest.mark.parametrize(
    "refused", [_refused_by_our_check, _refused_by_a_kernel, _refused_in_the_sweep, _fine_in_search_of_anomalies]
)
def test_an_error_keeps_nothing_alive(refused: Any) -> None:
    with contextlib.suppress(ValueError, IndexError):
        refused(Tensor([[1.0, 2.0, 3.0]]))  # imports what errors and kernels need, which leaves garbage once
    gc.collect()
    gc.disable()
    try:
        x = Tensor([[1.0, 2.0, 3.0]])
        alive = weakref.ref(x)
        with contextlib.suppress(ValueError, IndexError):
            refused(x)
        assert x.requires_grad
        del x
        assert alive() is None
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_running_out_of_memory_in_a_sweep_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Tensor([1.0, 2.0])
    y = (x * 3.0).sum()

    def multiply(*operands: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(x._kernels, "multiply", multiply)
    with pytest.raises(OutOfMemory, match="out of memory on cpu") as caught:
        y.backward()
    assert any("in the gradient of multiply" in note for note in caught.value.__notes__)
    assert x.grad is None


def test_networks_may_refer_back_tie_weights_and_move(rawbuffer_device: Any) -> None:
    class Child(nn.Module):
        parent: Any = None

        def __init__(self) -> None:
            self.layer = nn.Linear(2, 2)

    class Parent(nn.Module):
        def __init__(self) -> None:
            self.child = Child()
            self.child.parent = self
            self.tied = self.child.layer.weight
            self.more = {"a": (nn.Linear(1, 1), [Tensor([1.0])])}
            self.last = self.tied * 2  # computed: not a parameter

    model = Parent()
    names = [name for name, _ in model.named_parameters()]
    assert names == ["tied", "child.layer.bias", "more.a.0.weight", "more.a.0.bias", "more.a.1.0"]
    rule = optim.SGD(model.parameters(), lr=0.1)
    before = model.parameters()
    model.to("cpu")
    assert all(a is b for a, b in zip(before, model.parameters(), strict=True))
    model.to(rawbuffer_device)
    assert model.tied is model.child.layer.weight
    assert all(p.device is rawbuffer_device for p in model.parameters())
    (model.tied * model.tied).sum().backward()
    with pytest.raises(GraphError, match="make the optimiser after moving"):
        rule.step()


def test_modes_as_decorators_with_and_without_parentheses() -> None:
    @no_grad
    def bare() -> bool:
        return is_grad_enabled()

    @enable_grad()
    def called() -> bool:
        return is_grad_enabled()

    assert not bare()
    with no_grad():
        assert called()

    def generator() -> Any:
        yield is_grad_enabled()

    async def coroutine() -> None: ...

    for function in (generator, coroutine):
        with pytest.raises(TypeError, match="generator or a coroutine"):
            no_grad(function)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: F["mse_loss"](zeros((4, 1)), zeros(4)), ShapeError, "must be equal"),
        (lambda: F["cross_entropy"](zeros((4, 2)), 1), ShapeError, r"targets of shape \(\)"),
        (lambda: Tensor(np.array(["2020-01-01"], "datetime64[D]")), DTypeError, "datetime64"),
        (lambda: zeros(2).sum(along=0), TypeError, r"^sum\(\) got an unexpected keyword argument 'along'"),
        (lambda: zeros(2).var(ddof=1), TypeError, r"^var\(\) got an unexpected keyword argument 'ddof'"),
        (lambda: optim.SGD([x := Tensor([1.0]), x]), ValueError, "same parameter twice"),
        (lambda: optim.SGD(Tensor([1.0])), TypeError, r"write \[x\]"),
        (lambda: optim.SGD([Tensor([1.0])], lr=float("nan")), ValueError, "lr must be a number"),
        (lambda: optim.Adam([Tensor([1.0])], betas=0.9), ValueError, "two numbers"),
    ],
)
def test_likely_mistakes_get_a_sentence(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_what_is_typed_in_the_first_ten_minutes() -> None:
    loss = Tensor(0.123456)
    assert f"{loss:.3f}" == "0.123"
    assert f"{asarray([1.0])}" == "Tensor([1.])"
    assert zeros(3, requires_grad=True).requires_grad
    assert asarray([1.0], requires_grad=True).requires_grad
    assert (asarray([1, 2, 3]) == asarray([1, 0, 3])).sum().item() == 2
    assert zeros((1, 3, 1)).squeeze().shape == (3,)
    assert F["exp"](0.0).item() == 1.0
    assert F["relu"]([-1.0, 2.0]).tolist() == [0.0, 2.0]
    assert F["cross_entropy"](zeros(3), 2).item() == pytest.approx(np.log(3))
    assert F["where"](True, zeros(2), 1.0).tolist() == [0.0, 0.0]
    assert Tensor(np.float64(1.5)).dtype.name == "float64"
    assert zeros((0, 3)).softmax(axis=0).shape == (0, 3)
    assert asarray([0.5]).log1p().item() == pytest.approx(np.log1p(0.5))
