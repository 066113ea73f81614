"""Where gradients stop, and what has a gradient of its own, under `jit`: every derivative is that without `jit`.

A function with a stop (of `STOPS`), a derivative of it (of `DERIVATIVES`), `jit` inside, outside or both, and `vmap`
around none, the function or the derivative. A sample runs; with MICROGRAD_EXHAUSTIVE=1 the whole product.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor, asarray, checkpoint, custom_gradient, custom_jvp, jit, nn, no_grad
from micrograd_core.errors import GraphError, TransformError

EVERY = os.environ.get("MICROGRAD_EXHAUSTIVE") == "1"

# ── functions of a vector, of which something stops or has its own rule ─────────────────────────────────────────

other = Tensor([0.7, -1.2, 0.4])
frozen = asarray([1.5, -0.5, 2.0])
network = nn.Sequential(nn.Linear(3, 4, dtype="float64"), nn.Tanh(), nn.Linear(4, 3, dtype="float64"))
for each in network.parameters():
    each.requires_grad = False


def detached(x: Any) -> Any:
    return (x * 2 - (1 + 0.9 * (x * 3).detach())) ** 2 + x**3 * x.detach()


def without_grad(x: Any) -> Any:
    with no_grad():
        scale = (x * x + 1).sin()
        shift = scale * 2
    return (x * scale).exp() + shift * x


@custom_gradient
def _ruled(x: Any) -> Any:
    y = x.exp()
    return y * 1.0, lambda g: g * y * x  # not the derivative, to be told from it


def ruled(x: Any) -> Any:
    return _ruled(x * 0.5) * x


@custom_gradient
def _clipped(x: Any) -> Any:
    return x.sin(), lambda g: mg.maximum(mg.minimum(g, 0.5), -0.5) * x


def clipped(x: Any) -> Any:
    return _clipped(x * 2) * x.detach() + x**2


@custom_gradient
def _closing(x: Any) -> Any:
    return x * other, lambda g: g * other * other.detach() * x.cos()


def closing(x: Any) -> Any:
    return _closing(x) ** 2


@custom_gradient
def _stopping(x: Any) -> Any:
    y = x**3
    return y, lambda g: g * (3 * x.detach() ** 2) + g.detach() * x


def stopping(x: Any) -> Any:
    return _stopping(x.sin()) * x


@custom_gradient
def my_sin(x: Any) -> Any:
    return x.detach().sin(), lambda g: g * my_cos(x)


@custom_gradient
def my_cos(x: Any) -> Any:
    return x.detach().cos(), lambda g: -g * my_sin(x)


def mutual(x: Any) -> Any:
    return my_sin(x * x) + x


@custom_jvp
def _pushed(x: Any) -> Any:
    return x.tanh(), lambda t: t * (2 - x.tanh() ** 2)


def pushed(x: Any) -> Any:
    return _pushed(x * 1.5) * x


@custom_gradient
def _two(x: Any, y: Any) -> Any:
    return x * y.sin(), lambda g: (g * 2, g * x.detach())


def of_two(x: Any) -> Any:
    return _two(x, x * x.detach()) + _two(x.detach(), x)


def straight_through(x: Any) -> Any:
    soft = (x * 3).sigmoid()
    hard = (soft > 0.5).astype(soft.dtype)
    return (hard - soft.detach() + soft) * x


def hard_gumbel(x: Any) -> Any:
    soft = mg.softmax(x, axis=-1)
    hard = mg.one_hot(mg.argmax(soft, axis=-1), 3).astype(soft.dtype)
    return (hard - soft.detach() + soft) * x.exp()


def frozen_parameters(x: Any) -> Any:
    return network(x * frozen) * x


def other_parameter(x: Any) -> Any:
    return (x * other) ** 2 * other.detach()


def integers(x: Any) -> Any:
    steps = (x * 4).astype("int64")
    return x * steps.astype(x.dtype) * x + mg.take(x, mg.argsort(x)) * mg.sign(x)


def checkpointed(x: Any) -> Any:
    return checkpoint(lambda x: (x * 2).sin() * x.detach() + detached(x), x) * other


def checkpointed_rule(x: Any) -> Any:
    return checkpoint(lambda x: ruled(x) + mutual(x), x * x)


def written(x: Any) -> Any:
    y = x * 2
    y[0] = y[1].detach() * y[2]
    return y * x


def hooked(x: Any) -> Any:
    y = x * x
    if y.requires_grad:
        y.register_hook(lambda g: g * 3 * y.detach())
    return y.sin()


def gradient_inside(x: Any) -> Any:
    return mg.grad(lambda x: (x**3 * x.detach()).sum())(x) * x.sin()


def jitted_inside(x: Any) -> Any:
    return _jitted(x) * x


_jitted = jit(lambda x: (x * x.detach()).exp())


def dropped(x: Any) -> Any:
    return mg.dropout(x * x.detach(), 0.4, generator=7) * x + mg.dropout(x**2, 0.5, generator=3)


def parts(x: Any) -> Any:
    matrix = x[:, None] * x.detach()[None, :] + asarray(np.diag([3.0, 8.0, 15.0]))
    values, vectors = mg.linalg.eigh(matrix + matrix.T)
    return values + vectors[0] ** 2 * x.detach() + values.detach() * x


STOPS: dict[str, Callable[[Any], Any]] = {
    each.__name__: each
    for each in (
        detached, without_grad, ruled, clipped, closing, stopping, mutual, pushed, of_two, straight_through,
        hard_gumbel, frozen_parameters, other_parameter, integers, checkpointed, checkpointed_rule, written, hooked,
        gradient_inside, jitted_inside, dropped, parts,
    )
}  # fmt: skip

# ── derivatives, each a function of `f`, which takes a vector to a vector, that takes a vector to tensors ─────────

V = np.asarray([0.3, -0.8, 1.1])


def _total(f: Any) -> Any:
    return lambda x: f(x).sum()


DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: mg.grad(_total(f)),
    "value_and_grad": lambda f: mg.value_and_grad(_total(f)),
    "grad of grad": lambda f: mg.grad(_total(mg.grad(_total(f)))),
    "third": lambda f: mg.grad(_total(mg.grad(_total(mg.grad(_total(f)))))),
    "jvp": lambda f: lambda x: mg.jvp(f, [x], [asarray(V)]),
    "jvp of grad": lambda f: lambda x: mg.jvp(mg.grad(_total(f)), [x], [asarray(V)]),
    "grad of jvp": lambda f: mg.grad(lambda x: mg.jvp(f, [x], [asarray(V)])[1].sum()),
    "jvp of jvp": lambda f: lambda x: mg.jvp(lambda x: mg.jvp(f, [x], [asarray(V)])[1], [x], [x * 0 + 1]),
    "vjp": lambda f: lambda x: _pulled(mg.vjp(f, x)),
    "linearize": lambda f: lambda x: _pushed_forward(mg.linearize(f, x)),
    "jacfwd": mg.jacfwd,
    "jacrev": mg.jacrev,
    "jacobian": mg.jacobian,
    "jacfwd of jacrev": lambda f: mg.jacfwd(mg.jacrev(f)),
    "hessian": lambda f: mg.hessian(_total(f)),
    "hvp": lambda f: lambda x: mg.hvp(_total(f), x, asarray(V)),
    "penalty": lambda f: mg.grad(lambda x: (mg.grad(_total(f))(x) ** 2).sum() + f(x).sum()),
}


def _pulled(found: Any) -> Any:
    value, pull = found
    return value, pull(asarray(V))


def _pushed_forward(found: Any) -> Any:
    value, push = found
    return value, push(asarray(V)), push(asarray(V * 2))


PLACES = ("inside", "outside", "both")
BATCHES = ("alone", "vmap of the function", "vmap of the derivative")
POINT = np.asarray([0.6, -1.3, 0.9])
POINTS = np.asarray([[0.6, -1.3, 0.9], [1.1, 0.2, -0.4]])


def composed(stop: str, derivative: str, place: str, batch: str) -> tuple[Any, Any]:
    """What `jit` gives, after two calls, and what it is without."""
    f, d = STOPS[stop], DERIVATIVES[derivative]

    def with_jit(g: Any, here: bool) -> Any:
        return jit(lambda x: g(x)) if here else g

    found = []
    for jitted in (True, False):
        inside, outside = jitted and place != "outside", jitted and place != "inside"
        inner = with_jit(f, inside)
        if batch == "vmap of the function":
            one = inner
            inner = with_jit(lambda x, one=one: mg.vmap(lambda s: one(x * s))(asarray([1.0, 0.5])).sum(0), inside)
        whole = d(inner)
        if batch == "vmap of the derivative":
            whole = mg.vmap(whole)
        whole = with_jit(whole, outside)
        point = asarray(POINTS if batch == "vmap of the derivative" else POINT)
        try:
            with mg.no_grad():  # parameters that are closed over record nothing beyond
                first = whole(point)
                found.append([x.detach().numpy() for x in mg_leaves(whole(point))] if jitted else None)
                again = [x.detach().numpy() for x in mg_leaves(first)]
                found[-1] = [*(found[-1] or again), *again]
        except (GraphError, TransformError) as error:
            found.append(type(error))
    return found[0], found[1]


def mg_leaves(x: Any) -> list[Any]:
    if isinstance(x, (tuple, list)):
        return [leaf for each in x for leaf in mg_leaves(each)]
    return [x]


PRODUCT = list(itertools.product(STOPS, DERIVATIVES, PLACES, BATCHES))
SAMPLE = PRODUCT if EVERY else random.Random(5).sample(PRODUCT, 240)


@pytest.mark.parametrize("stop", STOPS)
def test_derivatives_with_stops_are_those_without_jit(stop: str) -> None:
    wrong = []
    for each in SAMPLE:
        if each[0] == stop:
            found, expected = composed(*each)
            if isinstance(expected, type) or isinstance(found, type):
                same = found is expected
            else:
                same = len(found) == len(expected) and all(
                    np.allclose(x, y, rtol=1e-9, atol=1e-11) for x, y in zip(found, expected, strict=True)
                )
            if not same:
                wrong.append((each, found, expected))
    assert not wrong, f"{len(wrong)} wrong, first {wrong[:3]}"


# ── what the product does not reach: parameters, and what is refused ────────────────────────────────────────────


def test_a_stop_holds_at_first_order_where_the_parameter_records() -> None:
    def q(w: Any) -> Any:
        return ((w * 2 - (1.0 + 0.9 * (w * 3).detach())) ** 2).sum()

    w = Tensor([1.0])
    assert np.allclose(mg.value_and_grad(jit(q))(w)[1].tolist(), [-6.8])
    f = jit(lambda x: x * x.detach())
    x = asarray([3.0])
    assert mg.jvp(f, [x], [asarray([1.0])])[1].tolist() == [3.0]
    assert mg.jacrev(f)(x).tolist() == [[3.0]]


@pytest.mark.parametrize("stop", STOPS)
def test_a_gradient_that_records_reaches_parameters_as_without_jit(stop: str) -> None:
    def second(f: Any) -> list[Any]:
        w = Tensor(POINT)
        other.grad = None
        (first,) = [mg.grad(_total(lambda x: f(x * w)))(w)]
        (first**2).sum().backward()
        return [w.grad.numpy(), None if other.grad is None else other.grad.numpy()]

    found, expected = second(jit(lambda x: STOPS[stop](x))), second(STOPS[stop])
    for x, y in zip(found, expected, strict=True):
        assert (x is None) == (y is None)
        assert x is None or np.allclose(x, y, rtol=1e-9)


def test_create_graph_through_a_hard_sample_of_gumbel_softmax() -> None:
    def loss(f: Any) -> list[Any]:
        w = Tensor(POINT)
        mg.random.manual_seed(3)
        (f(w) ** 2).sum().backward(create_graph=True)
        (w.grad**2).sum().backward()
        return w.grad.tolist()  # type: ignore[no-any-return]

    f = lambda w: nn.functional.gumbel_softmax(w * 2, hard=True) * mg.exp(w)  # noqa: E731
    expected = loss(f)
    assert any(expected)
    assert np.allclose(loss(jit(f)), expected)


def test_a_recorded_derivative_of_dropout_has_the_numbers_of_its_own_call() -> None:
    def found(f: Any) -> list[Any]:
        mg.random.manual_seed(3)
        seen = []
        for _ in range(3):
            w = Tensor([0.5, -1.0, 2.0, 0.3, 1.5, -0.7, 0.9, 1.1], dtype="float64")
            f(w).backward(create_graph=True)
            (w.grad**2).sum().backward()
            seen.append(w.grad.tolist())
        return seen

    f = lambda w: mg.dropout(w**3, 0.5).sum()  # noqa: E731
    expected = found(f)
    assert expected[0] != expected[1] != expected[2]
    assert np.allclose(found(jit(f)), expected)


def test_rules_within_rules_are_refused_beyond_the_fourth_order() -> None:
    def nth(f: Any, n: int) -> Any:
        for _ in range(n):
            f = mg.grad(lambda x, f=f: f(x).sum())
        return f

    x = asarray([0.4, 0.9])
    f = jit(lambda x: my_sin(x))
    assert np.allclose(nth(f, 4)(x).tolist(), np.sin([0.4, 0.9]))
    with pytest.raises(GraphError, match="order above 4.*call the function without jit"):
        nth(f, 7)(x)


def test_a_rule_that_does_not_record_says_so_only_where_it_has_to() -> None:
    @custom_gradient
    def counted(x: Any) -> Any:
        def gradient(g: Any) -> Any:
            if g.requires_grad:
                raise GraphError("once only")
            return g * 2

        return x * 1, gradient

    f = jit(lambda x: counted(x).sum())
    assert mg.grad(f)(asarray([1.0])).tolist() == [2.0]
    with pytest.raises(GraphError, match="once only; call the function without jit"):
        mg.jacrev(mg.grad(f))(asarray([1.0]))


def test_a_hook_sees_complex_gradients_as_without_jit() -> None:
    def f(z: Any) -> Any:
        y = z * z
        if y.requires_grad:
            y.register_hook(lambda g: g * (1 + 2j) * y.detach())
        return (y * y.conj()).real.sum()

    def first(f: Any) -> Any:
        return mg.grad(lambda z: (mg.grad(f)(z) * (0.3 - 1j)).real.sum())(asarray([0.4 - 0.3j, 1.0 + 0.7j]))

    assert np.allclose(first(jit(f)).tolist(), first(f).tolist())


def test_a_write_to_what_a_program_computed_from_is_noticed_by_a_derivative_that_records() -> None:
    x, w = asarray([1.0, 2.0]), Tensor([3.0, 4.0])
    y = jit(lambda w: (w + x) * w)(w)
    x[...] = asarray([5.0, 6.0])
    with pytest.raises(GraphError, match="written in place since"):
        y.sum().backward(create_graph=True)
