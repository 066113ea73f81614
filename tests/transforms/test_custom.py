"""Hooks, functions with gradients of their own, checkpoints, and the search for a NaN."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import (
    Device,
    Tensor,
    asarray,
    checkpoint,
    custom_gradient,
    custom_jvp,
    detect_anomaly,
    grad,
    gradcheck,
    gradgradcheck,
    jacobian,
    jvp,
    nn,
    no_grad,
    optim,
    random,
    vmap,
)
from micrograd_core.array import functions
from micrograd_core.errors import AnomalyError, GraphError, ShapeError

F = functions.FUNCTIONS


def values(x: Tensor | None) -> Any:
    assert x is not None
    return x.tolist()


# ── hooks ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_hooks_see_the_whole_gradient_of_leaves_and_of_computed_tensors(device: Device) -> None:
    x = Tensor([1.0, 2.0], device=device)
    h = x * 3
    early = (h * h).sum()  # uses h before the hook is there
    seen: dict[str, Any] = {}
    x.register_hook(lambda g: seen.update(x=g.tolist()))
    h.register_hook(lambda g: seen.update(h=g.tolist()))
    (early + h.sum()).backward()
    assert seen == {"x": [21.0, 39.0], "h": [7.0, 13.0]}
    assert values(x.grad) == [21.0, 39.0]


def test_hooks_replace_gradients_in_the_order_they_came() -> None:
    x = Tensor([1.0, 2.0])
    h = x * 1
    h.register_hook(lambda g: g + 1)
    h.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: -g)
    h.sum().backward()
    assert values(x.grad) == [-20.0, -20.0]


def test_a_removed_hook_is_not_called() -> None:
    x = Tensor([1.0])
    h = x * 1
    handles = [x.register_hook(lambda g: g * 2), h.register_hook(lambda g: g * 3), h.register_hook(lambda g: g * 5)]
    h.sum().backward(retain_graph=True)
    handles[0].remove()
    handles[1].remove()
    handles[1].remove()
    x.zero_grad()
    h.sum().backward()
    assert values(x.grad) == [5.0]


def test_hooks_are_differentiated_too() -> None:
    def f(x: Tensor) -> Tensor:
        h = x * x
        h.register_hook(lambda g: g * h.detach())
        return (h * x).sum()

    x = Tensor([2.0], dtype="float64")
    y = f(x)
    y.backward(create_graph=True)
    assert values(x.grad) == [2 * 2 * 2 * 4 + 4.0]
    assert x.grad is not None
    assert x.grad.requires_grad
    assert grad(f)(x.detach()).tolist() == [36.0]


def test_what_a_hook_writes_or_keeps_harms_nobody() -> None:
    x = Tensor([1.0, 2.0])
    kept: list[Tensor] = []
    a, b = x + 1, x + 2

    def spoil(g: Tensor) -> None:
        kept.append(g)
        g[0] = 100.0

    a.register_hook(spoil)
    (a + b).sum().backward()
    assert values(x.grad) == [2.0, 2.0]
    x.register_hook(kept.append)
    (x * 2).sum().backward()
    assert x.grad is not None
    x.grad[...] = 0.0
    assert kept[-1].tolist() == [2.0, 2.0]


def test_hooks_of_views_batches_and_complex_numbers() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    row = x[0]
    row.register_hook(lambda g: g * 7)
    (row.sum() + x.sum()).backward()
    assert values(x.grad) == [[8.0, 8.0], [1.0, 1.0]]

    def f(x: Tensor) -> Tensor:
        h = x * x
        h.register_hook(lambda g: g * 10)
        return h.sum()

    assert vmap(grad(f))(asarray([[1.0], [2.0]])).tolist() == [[20.0], [40.0]]
    seen: list[Any] = []
    z = Tensor([1.0 + 2.0j])
    w = z * 1
    w.register_hook(lambda g: seen.append(g.tolist()))
    z.register_hook(lambda g: seen.append(g.tolist()))
    F["square"](F["abs"](w)).sum().backward()
    np.testing.assert_allclose(seen, [[2 + 4j], [2 + 4j]], rtol=1e-6)
    np.testing.assert_allclose(values(z.grad), [2 + 4j], rtol=1e-6)


def test_a_hook_that_may_not_be_or_gives_nonsense() -> None:
    with pytest.raises(GraphError, match="requires_grad = True"):
        asarray([1.0]).register_hook(print)
    x = Tensor([1.0])
    h = x * 2
    h.sum().backward()
    with pytest.raises(GraphError, match="already swept"):
        h.register_hook(print)
    for wrong, error in ((lambda g: 1.0, TypeError), (lambda g: g.reshape(1, 1), ShapeError)):
        x = Tensor([1.0])
        x.register_hook(wrong)
        with pytest.raises(error, match="hook"):
            (x * 2).sum().backward()


def test_hooks_and_their_graph_die_by_reference_count() -> None:
    gc.disable()
    try:
        x = Tensor([1.0])
        h = x * 2
        alive = weakref.ref(h)
        handle = h.register_hook(lambda g: g * 2)
        y = h.sum()
        del h
        assert alive() is None
        y.backward()
        assert values(x.grad) == [4.0]
        x.zero_grad()
        del y, handle
        left = []
        for _ in range(3):  # what is made once, such as a compiled kernel, may leave something to collect
            gc.collect()
            before = len(gc.get_objects())
            for _ in range(20):
                h = x * 2
                h.register_hook(lambda g: g)
                h.sum().backward()
            x.zero_grad()
            left.append((len(gc.get_objects()) > before + 5, gc.collect()))
        assert (False, 0) in left
    finally:
        gc.enable()


# ── gradients given by the user ──────────────────────────────────────────────────────────────────────────────


@custom_gradient
def log1pexp(x: Tensor) -> Any:
    """``log(1 + exp(x))``, with a gradient that does not overflow."""
    e = F["exp"](x)
    return F["log"](1 + e), lambda g: g * (1 - 1 / (1 + e))


@custom_gradient
def product(x: Tensor, n: int, y: Tensor) -> Any:
    return x * y * n, lambda g: (g * y * n, g * x * n)


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
def test_a_given_gradient_is_used_and_differentiated_again() -> None:
    assert log1pexp.__name__ == "log1pexp"
    x = Tensor([100.0, 0.0, -1.0])
    log1pexp(x).sum().backward()
    assert np.isnan(grad(lambda x: F["log"](1 + F["exp"](x)).sum())(asarray([100.0])).detach().numpy()).all()
    np.testing.assert_allclose(values(x.grad), [1.0, 0.5, 1 / (1 + np.e)], rtol=1e-6)
    x = Tensor([0.3, -1.0], dtype="float64")
    assert gradcheck(log1pexp, x)
    assert gradgradcheck(log1pexp, x)
    pair = [Tensor([0.3, -1.0], dtype="float64"), 3, Tensor([[2.0], [0.5]], dtype="float64")]
    with pytest.raises(ShapeError, match=r"argument 0 has shape \(2, 2\), the argument \(2,\)"):
        product(*pair).sum().backward()  # broadcasting is the function's own business
    pair[2] = Tensor([2.0, 0.5], dtype="float64")
    assert gradcheck(product, pair)
    assert gradgradcheck(product, pair)


def test_a_gradient_may_be_wrong_on_purpose(device: Device) -> None:
    @custom_gradient
    def straight_through(x: Tensor) -> Any:
        return F["floor"](x), lambda g: g

    x = Tensor([1.7, 2.2], device=device)
    (straight_through(x) * asarray([1.0, 3.0], device=device)).sum().backward()
    assert values(x.grad) == [1.0, 3.0]
    assert straight_through(x.detach()).requires_grad is False
    with no_grad():
        assert straight_through(x).requires_grad is False


def test_given_gradients_under_transforms() -> None:
    x = asarray([0.3, -1.0, 2.0], dtype="float64")
    expected = 1 / (1 + np.exp(-x.detach().numpy()))
    np.testing.assert_allclose(jacobian(log1pexp)(x).detach().numpy(), np.diag(expected))
    np.testing.assert_allclose(vmap(grad(log1pexp))(x).detach().numpy(), expected)
    np.testing.assert_allclose(grad(lambda x: vmap(log1pexp)(x).sum())(x).detach().numpy(), expected)
    np.testing.assert_allclose(
        jacobian(jacobian(log1pexp))(x).detach().numpy().sum(), (expected * (1 - expected)).sum()
    )


def test_the_gradient_is_asked_once_for_all_arguments() -> None:
    calls = []

    @custom_gradient
    def f(x: Tensor, y: Tensor, options: Any) -> Any:
        return x * y + options["z"], lambda g: calls.append(1) or (g * y, g * x, None)  # type: ignore[func-returns-value]

    x, y, z = Tensor([2.0]), Tensor([3.0]), Tensor([5.0])
    out = f(x, y, {"z": z})
    out.sum().backward(retain_graph=True)
    out.sum().backward()
    assert len(calls) == 2
    assert (values(x.grad), values(y.grad), values(z.grad)) == ([6.0], [4.0], [0.0])


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda x: x * 2, TypeError, "returns a pair"),
        (lambda x: (x * 2, 3), TypeError, "returns a pair"),
        (lambda x: (2.0, lambda g: g), TypeError, "one Tensor; it returned float"),
        (lambda x: (x * 2, lambda g: (g, g)), TypeError, "returned 2 for 1 arguments"),
        (lambda x: (x * 2, lambda g: g.sum()), ShapeError, r"shape \(\), the argument \(2,\)"),
    ],
)
def test_functions_that_do_not_keep_the_form(f: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        custom_gradient(f)(Tensor([1.0, 2.0])).sum().backward()


# ── checkpoints ──────────────────────────────────────────────────────────────────────────────────────────────


def block(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(4):
        x = (x @ w).tanh() * 1.1
    return x


def test_checkpoints_have_the_same_values_and_gradients(device: Device) -> None:
    x, w = (Tensor(np.linspace(-1, 1, 9).reshape(3, 3) + shift, device=device) for shift in (0.0, 0.1))
    results = []
    for f in (block, lambda x, w: checkpoint(block, x, w)):
        y = f(x, w)
        (y * y).sum().backward()
        results.append([y.detach().numpy(), values(x.grad), values(w.grad)])
        x.zero_grad()
        w.zero_grad()
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_checkpoints_to_second_order_nested_and_under_transforms() -> None:
    x, w = (Tensor(np.linspace(-1, 1, 4).reshape(2, 2) + shift) for shift in (0.0, 0.1))

    def once(x: Tensor, w: Tensor) -> Tensor:
        return checkpoint(lambda x: (x @ w).tanh(), x)  # w is closed over

    def twice(x: Tensor, w: Tensor) -> Tensor:
        return checkpoint(lambda x, w: once(once(x, w), w) * x, x, w=w)

    def direct(x: Tensor, w: Tensor) -> Tensor:
        return ((x @ w).tanh() @ w).tanh() * x

    for f in (once, twice):
        assert gradcheck(f, [x, w])
    assert gradgradcheck(twice, [x, w])
    expected = jacobian(direct)(x.detach(), w.detach()).detach().numpy()
    np.testing.assert_allclose(jacobian(twice)(x.detach(), w.detach()).detach().numpy(), expected, atol=1e-15)
    np.testing.assert_allclose(
        vmap(jacobian(twice), in_axes=(0, None))(x.detach().reshape(2, 1, 2), w.detach()).detach().numpy(),
        vmap(jacobian(direct), in_axes=(0, None))(x.detach().reshape(2, 1, 2), w.detach()).detach().numpy(),
    )
    frozen = Tensor([[2.0, 0.0], [0.0, 2.0]], dtype="float64")
    per_row = vmap(jacobian(lambda x: once(x, frozen)))(x.detach())
    np.testing.assert_allclose(
        per_row.detach().numpy(), vmap(jacobian(lambda x: (x @ frozen).tanh()))(x.detach()).detach().numpy()
    )
    rows = jacobian(lambda x: once(x, frozen))(x.detach()).detach().numpy()
    np.testing.assert_allclose(rows, jacobian(lambda x: (x @ frozen).tanh())(x.detach()).detach().numpy())


def test_checkpoints_inside_and_around_gradients() -> None:
    """What is closed over may be the variable of a transform, or computed from one; and `f` may use gradients."""
    x = asarray([0.5, -1.0], dtype="float64")
    w = Tensor([2.0, 3.0], dtype="float64")

    def closes_over_variable(w: Tensor) -> Tensor:
        w.register_hook(lambda g: g * 1)
        return checkpoint(lambda x: (x * w).sin(), x).sum()

    def closes_over_computed(w: Tensor) -> Tensor:
        h = w * w
        return checkpoint(lambda x: (x * h).sin(), x).sum()

    def penalty(w: Tensor) -> Tensor:
        return checkpoint(lambda w: (grad(lambda v: (v.sin() * w).sum())(w * w) ** 2).sum(), w)

    plain = {
        closes_over_variable: lambda w: (x * w).sin().sum(),
        closes_over_computed: lambda w: (x * w * w).sin().sum(),
        penalty: lambda w: ((w * (w * w).cos()) ** 2).sum(),
    }
    for f, expected in plain.items():
        for point in (w, w.detach()):
            np.testing.assert_allclose(grad(f)(point).detach().numpy(), grad(expected)(point).detach().numpy())
            np.testing.assert_allclose(
                jacobian(grad(f))(point).detach().numpy(), jacobian(grad(expected))(point).detach().numpy()
            )


class Checkpointed(mg.nn.Module):
    """A layer whose inner part is computed once more, in one checkpoint or in two within each other."""

    def __init__(self, deep: int) -> None:
        self.a, self.b, self.deep = mg.nn.Linear(3, 4, dtype="float64"), mg.nn.Linear(4, 2, dtype="float64"), deep

    def forward(self, x: Tensor) -> Tensor:
        inner = lambda x: (self.a(x)).tanh()  # noqa: E731
        for _ in range(self.deep):
            inner = partial(checkpoint, inner)  # type: ignore[assignment]
        return self.b(inner(x))


@pytest.mark.parametrize("deep", [1, 2])
@pytest.mark.parametrize("way", ["backward", "jit", "grad", "second", "vmap", "within"])
def test_a_checkpoint_in_a_functional_call_leads_to_the_tensors_that_were_given(deep: int, way: str) -> None:
    mg.random.manual_seed(0)
    model, x = Checkpointed(deep), mg.asarray([[0.3, -1.0, 2.0], [1.0, 0.5, -0.5]])
    given = {name: p.detach() * 0.5 for name, p in model.named_parameters()}

    def loss(given: dict[str, Tensor]) -> Tensor:
        outer = partial(mg.nn.functional_call, model, given)
        return ((checkpoint(outer, x) if way == "within" else outer(x)) ** 2).sum()

    def found() -> dict[str, Tensor]:
        if way == "vmap":
            many = {name: mg.stack([p, 2 * p]) for name, p in given.items()}
            return {name: g[0] for name, g in mg.vmap(mg.grad(loss))(many).items()}
        if way in ("grad", "within"):
            return mg.grad(loss)(given)
        if way == "second":
            return mg.grad(lambda given: sum((g**2).sum() for g in mg.grad(loss)(given).values()))(given)
        leaves = {name: Tensor(p) for name, p in given.items()}
        (mg.jit(loss) if way == "jit" else loss)(leaves).backward()
        return {name: p.grad for name, p in leaves.items()}  # type: ignore[misc]

    once_more = found()
    model.deep = 0
    for name, g in found().items():
        assert mg.abs(g).sum().item() > 0
        assert mg.abs(g - once_more[name]).max().item() < 1e-12
    assert all(p.grad is None for p in model.parameters())


def test_checkpoints_hold_less_memory() -> None:
    def count(use: bool) -> tuple[int, int]:
        made: list[Any] = []

        def layer(x: Tensor) -> Tensor:
            for _ in range(10):
                x = (x * 1.5).sin()
                made.append(weakref.ref(x._handle))
            return x

        x = Tensor(np.ones(100))
        y = x
        for _ in range(5):
            y = checkpoint(layer, y) if use else layer(y)
        held = sum(each() is not None for each in made)
        most = 0

        def watch(g: Tensor) -> None:
            nonlocal most
            most = max(most, sum(each() is not None for each in made))

        x.register_hook(watch)
        y.sum().backward()
        return held, most

    assert count(False)[0] == 50
    held, most = count(True)
    assert held == 5  # the results alone
    assert most <= 11  # and one layer at a time


def test_checkpoints_draw_the_same_random_numbers() -> None:
    own = random.Generator(7)
    masks: list[Any] = []

    def noisy(x: Tensor) -> Tensor:
        mask = random.bernoulli(x.shape, 0.5, dtype="float64")
        other = random.uniform(x.shape, dtype="float64", generator=own)
        masks.append((mask.tolist(), other.tolist()))
        return x * mask * other

    x = Tensor(np.ones(20))
    random.manual_seed(3)
    with random.use_generator(5):
        y = checkpoint(noisy, x)
    between = random.uniform(2).tolist()
    y.sum().backward()
    assert masks[0] == masks[1]
    np.testing.assert_allclose(values(x.grad), np.array(masks[0][0]) * masks[0][1])
    random.manual_seed(3)
    assert random.uniform(2).tolist() == between
    assert random.uniform(2, generator=own).tolist() != masks[0][1][:2]  # and the stream goes on behind them


def test_a_network_in_checkpoints_trains_as_without() -> None:
    def train(wrap: Any) -> Any:
        with random.use_generator(0):
            model = nn.Sequential(*[nn.Linear(4, 4, dtype="float64") for _ in range(3)])
            for p in model.parameters():
                p.data = random.uniform(p.shape, -0.5, 0.5, dtype="float64")
        rule = optim.SGD(model.parameters(), lr=0.1)
        x = asarray(np.linspace(-1, 1, 12).reshape(3, 4))
        for _ in range(3):
            y = x
            for layer in model.layers:
                y = wrap(lambda y, layer=layer: layer(y).relu(), y)
            rule.zero_grad()
            (y * y).sum().backward()
            rule.step()
        return [p.tolist() for p in model.parameters()]

    assert train(checkpoint) == train(lambda f, y: f(y))


def test_checkpoints_without_anything_to_record_are_just_calls() -> None:
    x = asarray([1.0, 2.0])
    assert checkpoint(lambda x, n: x * n, x, n=3).tolist() == [3.0, 6.0]
    assert not checkpoint(lambda x: x * 2, x).requires_grad
    with no_grad():
        assert not checkpoint(lambda x: x * 2, Tensor([1.0])).requires_grad
    w = Tensor([5.0])
    for f in (lambda: w, lambda: w * 1):
        w.zero_grad()
        checkpoint(f).sum().backward()
        assert values(w.grad) == [1.0]
    identity = Tensor([1.0])
    checkpoint(lambda x: x, identity).sum().backward()
    assert values(identity.grad) == [1.0]
    passed = Tensor([1.0])
    checkpoint(lambda p: p["a"][0] * 3, {"a": [passed]}).sum().backward()
    assert values(passed.grad) == [3.0]


def test_a_checkpoint_whose_tensors_changed_refuses() -> None:
    w = Tensor([3.0])
    y = checkpoint(lambda x: x * w, Tensor([2.0]))
    w.data = asarray([100.0])
    with pytest.raises(GraphError, match="checkpoint.*no longer"):
        y.sum().backward()
    x = Tensor([2.0])
    h = x * x
    y = checkpoint(lambda: h * 3)
    h.sum().backward()
    with pytest.raises(GraphError, match="pass to checkpoint"):
        y.sum().backward()
    data = asarray([1.0])
    y = checkpoint(lambda x: x * data * asarray([2.0]), x)
    data[0] = 5.0
    with pytest.raises(GraphError, match="an operand of checkpoint .* was written in place"):
        y.sum().backward()
    with pytest.raises(TypeError, match="one Tensor; it returned tuple"):
        checkpoint(lambda x: (x, x), x)


def test_deep_chains_of_checkpoints_do_not_recurse() -> None:
    x = Tensor(1.0)
    y = x
    for _ in range(3000):
        y = checkpoint(lambda y: y + 1.0, y)
    y.backward()
    assert values(x.grad) == 1.0


def test_checkpoints_and_given_gradients_leave_no_garbage() -> None:
    def work() -> None:
        x = Tensor([0.5, 1.0])
        checkpoint(lambda x: log1pexp(x) * x, x).sum().backward()

    work()
    gc.disable()
    try:
        gc.collect()
        work()
        assert gc.collect() == 0
    finally:
        gc.enable()


# ── the search for a NaN ─────────────────────────────────────────────────────────────────────────────────────

quiet = pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")  # NumPy's own


@quiet
def test_the_operation_and_the_line_are_named(device: Device) -> None:
    x = Tensor([0.0, 1.0], device=device)
    with detect_anomaly():
        root = x.sqrt()  # the line
        y = (root * 0.0).sum()
    with pytest.raises(AnomalyError) as caught:
        y.backward()
    message = str(caught.value)
    assert "NaN in the gradient of sqrt, which made a NaN of finite or infinite numbers" in message
    assert "root = x.sqrt()  # the line" in message
    assert __file__ in message
    assert "test_the_operation_and_the_line_are_named" in message


@quiet
def test_a_nan_that_came_from_elsewhere_is_told_apart() -> None:
    x = Tensor([1.0, 2.0])
    with detect_anomaly():
        y = x * 2
    with pytest.raises(AnomalyError, match="multiply, which was NaN before it"):
        y.backward([float("nan"), 1.0])
    x = Tensor([-1.0])
    with detect_anomaly():
        z = x.sqrt().sum()
        with pytest.raises(AnomalyError, match="sqrt, whose result is NaN itself"):
            z.backward()


@quiet
def test_library_code_is_skipped_for_the_users_line() -> None:
    model = nn.Linear(2, 1)
    with detect_anomaly():
        loss = model(asarray([[float("nan"), 1.0]])).sum()  # through nn
    with pytest.raises(AnomalyError, match="# through nn"):
        loss.backward()


@quiet
def test_recorded_sweeps_batches_and_custom_functions_are_looked_at() -> None:
    x = asarray([0.0, 1.0])
    with detect_anomaly():
        with pytest.raises(AnomalyError, match="sqrt"):
            grad(lambda x: (x.sqrt() * 0.0).sum())(x)
        with pytest.raises(AnomalyError, match="sqrt"):
            vmap(grad(lambda x: x.sqrt() * 0.0))(x)
        with pytest.raises(AnomalyError, match="sqrt"):
            jacobian(lambda x: x.sqrt() * 0.0)(x)
        with pytest.raises(AnomalyError, match="log"):
            checkpoint(lambda x: (x * 0.0).log() * 0.0, Tensor([1.0])).sum().backward()
        leaf = Tensor([0.0])
        (leaf**1.5).sum().backward(create_graph=True)
        assert leaf.grad is not None
        with pytest.raises(AnomalyError):
            (leaf.grad * 0.0).sum().backward()


@quiet
def test_sound_gradients_pass_and_nothing_stays_behind() -> None:
    x = Tensor([1.0, 2.0])
    profile = sys.getprofile()
    with detect_anomaly():
        with detect_anomaly():
            y = (x.sqrt() * F["softmax"](x)).sum()
        y.backward()
        assert sys.getprofile() is not profile
    assert sys.getprofile() is profile
    expected = grad(lambda x: (x.sqrt() * F["softmax"](x)).sum())(x.detach()).tolist()
    assert values(x.grad) == expected
    with pytest.raises(ZeroDivisionError), detect_anomaly():
        raise ZeroDivisionError
    assert sys.getprofile() is profile
    outside = (Tensor([0.0]).sqrt() * 0.0).sum()
    outside.backward()  # recorded outside: nobody looks


@quiet
def test_other_threads_are_not_searched() -> None:
    seen = []
    with detect_anomaly():
        thread = threading.Thread(target=lambda: seen.append(sys.getprofile()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_a_tangent_rule_that_writes_to_its_tangent_writes_to_no_other() -> None:
    @custom_jvp
    def doubled(x: Any) -> Any:
        def push(t: Any) -> Any:
            t *= 2
            return t

        return x * 2, push

    direction = asarray([1.0, -2.0])
    _, t = jvp(lambda x: doubled(x) + x, [asarray([3.0, 4.0])], [direction])
    assert t.tolist() == [3.0, -6.0]
    assert direction.tolist() == [1.0, -2.0]
