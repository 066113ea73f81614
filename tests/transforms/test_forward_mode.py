"""Tangents of every operation beside its gradients; products with Jacobians from the right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import (
    Device,
    Tensor,
    asarray,
    custom_jvp,
    grad,
    jacfwd,
    jacobian,
    jvp,
    linearize,
    no_grad,
    vjp,
    vmap,
)
from micrograd_core.array import functions
from micrograd_core.conformance.cases import draw
from micrograd_core.errors import DTypeError, GraphError, ShapeError
from micrograd_core.ops import TABLE, Array, Op, Sample

F = functions.FUNCTIONS
DIFFERENTIABLE = [
    pytest.param(op, sample, id=f"{op.name}-{i}")
    for op in TABLE.values()
    if op.operands and op.differentiable
    for i, sample in enumerate(op.samples)
    if any(isinstance(x, Array) and x.dtype in ("", "complex128") for x in sample.operands)
]
SYMMETRIC_OPERANDS = ("cholesky", "eigh", "eigvalsh")


def drawn(op: Op, sample: Sample, is_complex: bool) -> list[Any]:
    """Operands: arrays of float64, or complex ones near the real line; the others as the sample has them."""
    rng, operands = np.random.default_rng(0), []
    for i, (x, values) in enumerate(zip(sample.operands, draw(sample, 3), strict=True)):
        if isinstance(x, Array):
            values = np.array(values, dtype=x.dtype or "float64").reshape(x.shape)
            if is_complex and values.dtype == "float64" and i not in op.separate:
                values = np.asarray(values + 0.3j * rng.normal(size=x.shape))
        operands.append(values)
    return operands


def function_of(op: Op, sample: Sample, operands: list[Any]) -> tuple[Any, list[np.ndarray]]:
    """An operation as a function of its floating operands, and those."""
    places = [i for i, x in enumerate(operands) if isinstance(x, np.ndarray) and x.dtype.kind in "fc"]

    def f(*xs: Tensor) -> Any:
        full = [asarray(x) if isinstance(x, np.ndarray) else x for x in operands]
        for i, x in zip(places, xs, strict=True):
            full[i] = x
        found: Any = F[op.name](full, **sample.params) if op.operands == -1 else F[op.name](*full, **sample.params)
        return op.observe(mg, *found) if op.observe else found

    return f, [operands[i] for i in places]


def like(rng: Any, x: Any, symmetric: bool = False) -> np.ndarray:
    found = rng.normal(size=x.shape) + (1j * rng.normal(size=x.shape) if np.iscomplexobj(x) else 0)
    return found + found.conj().mT if symmetric else found


def inner(x: Any, y: Any) -> float:
    return float(np.sum(np.real(np.conj(x) * y)))


@pytest.mark.sampled
@pytest.mark.parametrize("is_complex", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize(("op", "sample"), DIFFERENTIABLE)
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero", "ignore:Degrees of freedom")
def test_tangents_agree_with_gradients(op: Op, sample: Sample, is_complex: bool) -> None:
    """``<g, J t> = <J^T g, t>``, for all operands together and for each alone."""
    together = [i for i in range(len(sample.operands)) if i not in op.separate]
    if is_complex and (op.name == "astype" or not all("complex floating" in op.accepted(i) for i in together)):
        return
    f, arrays = function_of(op, sample, drawn(op, sample, is_complex))
    rng, xs = np.random.default_rng(1), [asarray(x) for x in arrays]
    if not f(*xs).dtype.is_floating:  # a cast
        return
    value, pull = vjp(f, *xs)
    cotangent = like(rng, value.detach().numpy())
    gradients = [g.detach().numpy() for g in pull(asarray(cotangent))]
    tangents = [like(rng, x, op.name in SYMMETRIC_OPERANDS) for x in arrays]
    subsets = [range(len(xs)), *([i] for i in range(len(xs)) if len(xs) > 1)]
    _, push = linearize(f, *xs)
    for subset in subsets:
        given = [asarray(t if i in subset else 0 * t) for i, t in enumerate(tangents)]
        moved = push(*given)
        assert (moved.shape, moved.dtype) == (value.shape, value.dtype)
        expected = sum(inner(gradients[i], tangents[i]) for i in subset)
        narrow = moved.dtype.bits < 64  # a cast
        np.testing.assert_allclose(
            inner(cotangent, moved.detach().numpy()), expected, rtol=1e-5 if narrow else 1e-8, atol=1e-9
        )


@pytest.mark.sampled
@pytest.mark.parametrize(("op", "sample"), DIFFERENTIABLE)
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero", "ignore:Degrees of freedom")
def test_jacobians_forward_and_backward_are_equal(op: Op, sample: Sample) -> None:
    """Batches of tangents, through the recorded operations."""
    f, arrays = function_of(op, sample, drawn(op, sample, False))
    if any(np.iscomplexobj(x) for x in arrays) or sum(x.size for x in arrays) > 40 or op.name in SYMMETRIC_OPERANDS:
        return
    xs = [asarray(x) for x in arrays]
    if f(*xs).dtype.kind != "real floating":
        return
    argnums = tuple(range(len(xs)))
    for forward, backward in zip(jacfwd(f, argnums)(*xs), jacobian(f, argnums)(*xs), strict=True):
        rtol = 1e-5 if forward.dtype is not backward.dtype else 1e-9  # a cast
        np.testing.assert_allclose(forward.detach().numpy(), backward.detach().numpy(), rtol=rtol, atol=1e-11)


def test_most_operations_have_a_tangent_rule_of_their_own() -> None:
    """The others are transposed: slower, and as right. This list may shrink."""
    without = {op.name for op in TABLE.values() if op.differentiable and op.gradient is not None and op.tangent is None}
    fused = {
        "scaled_dot_product_attention"
    }  # where a device computes it at once; elsewhere its composition is recorded
    assert without - fused == set(
        "sign index_max index_min index_scale cholesky eig eigh svd qr pinv slogdet cofactor "
        "cross_entropy nll_loss adaptive_max_pool_with_indices cummax cummin "
        "fractional_max_pool_with_indices glu gru lstm max_pool_with_indices rnn".split()
    )


def test_linearize_runs_the_function_once() -> None:
    runs = []

    def f(x: Tensor, p: Any) -> Any:
        runs.append(1)
        return {"y": x * p["w"], "s": (x.sum(),)}

    x, w = asarray([1.0, 2.0]), asarray([3.0, 4.0])
    value, push = linearize(f, x, {"w": w})
    assert value["y"].tolist() == [3.0, 8.0]
    for scale in (1.0, 2.0):
        t = push(scale * x, {"w": asarray([0.0, 1.0])})
        assert t["y"].tolist() == [3.0 * scale, 8.0 * scale + 2.0]
        assert t["s"][0].item() == 3.0 * scale
    assert runs == [1]
    value, push, seen = linearize(lambda x: (x * 2, "seen"), x, has_aux=True)
    assert (seen, push(x).tolist()) == ("seen", [2.0, 4.0])


def test_a_tangent_owns_its_memory() -> None:
    for f in (lambda x: x, lambda x: x[::-1], lambda x: x.reshape(2, 1), lambda x: x + 1.0, lambda x: (x, x * 1, x)):
        t = asarray([1.0, 2.0])
        found = jvp(f, [asarray([5.0, 6.0])], [t])[1]
        for each in found if isinstance(found, tuple) else (found,):
            each[...] = 7.0
            assert t.tolist() == [1.0, 2.0]
        if isinstance(found, tuple):
            found[0][...] = 1.0
            assert found[2].tolist() == [7.0, 7.0]


def test_tangents_are_constants_of_what_does_not_depend_on_them(rawbuffer_device: Device) -> None:
    x = asarray([1.0, 2.0])
    assert jvp(lambda x: asarray([3.0]), [x], [x])[1].tolist() == [0.0]
    assert jvp(lambda x: x.detach() * 2, [x], [x])[1].tolist() == [0.0, 0.0]
    assert jvp(lambda x: x.floor() + x, [x], [x])[1].tolist() == [1.0, 2.0]
    with no_grad():
        assert jvp(lambda x: x * x, [Tensor([3.0])], [asarray([1.0])])[1].tolist() == [6.0]
    there = jvp(lambda x: (x.to(rawbuffer_device) ** 2).to("cpu"), [x], [x])[1]
    assert there.tolist() == [2.0, 8.0]
    assert jacfwd(lambda x: x[:0])(x).shape == (0, 2)
    assert jacfwd(lambda x: x * 2)(x[:0]).shape == (0, 0)


def test_tangents_record_where_something_around_does() -> None:
    x, w = asarray([0.3, -1.0], dtype="float64"), Tensor(2.0, dtype="float64")
    _, t = jvp(lambda x: (w * x).sin(), [x], [x])
    (t**2).sum().backward()
    u = w.item() * x.detach().numpy()
    expected = np.sum(2 * u * np.cos(u) * x.detach().numpy() * (np.cos(u) - u * np.sin(u)))
    np.testing.assert_allclose(w.grad.item(), expected)
    nested = grad(lambda t: (jvp(lambda x: x**3, [x], [t])[1] ** 2).sum())(x)
    np.testing.assert_allclose(nested.detach().numpy(), 2 * (3 * x.detach().numpy() ** 2) ** 2 * x.detach().numpy())


def test_forward_over_forward_is_the_second_derivative() -> None:
    x = asarray([1.0, 2.0], dtype="float64")

    def along(f: Any) -> Any:
        return lambda x: jvp(f, [x], [mg.ones_like(x)])[1]

    assert along(along(along(lambda x: x**4)))(x).tolist() == [24.0, 48.0]
    assert vmap(along(along(lambda x: x**4)))(x).tolist() == [12.0, 48.0]


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_against_torch_nested_in_batches() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    xs, w = rng.normal(size=(4, 3)), rng.normal(size=(3, 2))

    def ours(w: Tensor) -> Any:
        return lambda x: ((x @ w).tanh().softmax(axis=-1) * (x**2).sum()).sum(axis=-1) + (x @ w).exp()[0]

    def theirs(w: Any) -> Any:
        return lambda x: ((x @ w).tanh().softmax(-1) * (x**2).sum()).sum(-1) + (x @ w).exp()[0]

    pairs = {
        "hessian": (mg.hessian, torch.func.hessian),
        "jacfwd of grad": (lambda f: jacfwd(grad(f)), lambda f: torch.func.jacfwd(torch.func.grad(f))),
        "jacobian of jacfwd": (lambda f: jacobian(jacfwd(f)), lambda f: torch.func.jacrev(torch.func.jacfwd(f))),
        "jvp of grad": (
            lambda f: lambda x: jvp(grad(f), (x,), (x,))[1],
            lambda f: lambda x: torch.func.jvp(torch.func.grad(f), (x,), (x,))[1],
        ),
        "grad of jvp": (
            lambda f: grad(lambda x: jvp(f, (x,), (x,))[1]),
            lambda f: torch.func.grad(lambda x: torch.func.jvp(f, (x,), (x,))[1]),
        ),
        "vjp of vjp": (
            lambda f: lambda x: vjp(lambda x: vjp(f, x)[1](f(x))[0], x)[1](x)[0],
            lambda f: lambda x: torch.func.vjp(lambda x: torch.func.vjp(f, x)[1](f(x))[0], x)[1](x)[0],
        ),
    }
    for name, (transform, torch_transform) in pairs.items():
        found = grad(lambda w, t=transform: (vmap(t(ours(w)))(asarray(xs)) ** 2).sum())(asarray(w))
        expected = torch.func.grad(
            lambda w, t=torch_transform: (torch.func.vmap(t(theirs(w)))(torch.tensor(xs)) ** 2).sum()
        )(torch.tensor(w))
        atol = 1e-12 * float(expected.abs().max())
        np.testing.assert_allclose(
            found.detach().numpy(), expected.detach().numpy(), rtol=1e-9, atol=atol, err_msg=name
        )


# ── custom_jvp ───────────────────────────────────────────────────────────────────────────────────────────────


@custom_jvp
def scaled(x: Tensor, scale: float, y: Tensor) -> Any:
    """A product that says its derivative is ten times what it is."""
    return x * y * scale, lambda tx, ty: (tx * y + x * ty) * (10 * scale)


def test_a_function_with_a_tangent_of_its_own_has_it_in_both_modes() -> None:
    x, y = asarray([1.0, 2.0]), asarray([3.0, 4.0])
    value, t = jvp(lambda x: scaled(x, 2.0, y), [x], [x])
    assert (value.tolist(), t.tolist()) == ([6.0, 16.0], [60.0, 160.0])
    gx, gy = grad(lambda x, y: scaled(x, 2.0, y).sum(), argnums=(0, 1))(x, y)
    assert (gx.tolist(), gy.tolist()) == ([60.0, 80.0], [20.0, 40.0])
    assert jacobian(lambda x: scaled(x, 2.0, y))(x).tolist() == jacfwd(lambda x: scaled(x, 2.0, y))(x).tolist()
    assert mg.hessian(lambda x: scaled(x, 1.0, x).sum())(x).tolist() == [[20.0, 0.0], [0.0, 20.0]]
    assert vmap(grad(lambda x: scaled(x, 1.0, x)))(x).tolist() == [20.0, 40.0]
    assert grad(lambda x: vmap(lambda x: scaled(x, 1.0, x))(x).sum())(x).tolist() == [20.0, 40.0]
    assert scaled(x, 1.0, y).requires_grad is False
    assert scaled.__doc__ == "A product that says its derivative is ten times what it is."


@custom_jvp
def rotated(z: Tensor) -> Any:
    return z * 1j, lambda t: t * 1j


def test_a_complex_tangent_is_transposed_by_the_convention_of_gradients() -> None:
    z, g = asarray([1 + 2j, 3 - 1j]), asarray([1 - 1j, 2 + 5j])
    assert vjp(rotated, z)[1](g)[0].tolist() == vjp(lambda z: z * 1j, z)[1](g)[0].tolist()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: custom_jvp(lambda x: x)(x), TypeError, "custom_jvp returns a pair, its result"),
        (lambda x: jvp(custom_jvp(lambda x: (x * 1, lambda t: 1.0)), [x], [x]), TypeError, "is a Tensor; got float"),
        (lambda x: jvp(custom_jvp(lambda x: (x * 1, lambda t: t[:1])), [x], [x]), ShapeError, r"the result \(2,\)"),
        (lambda x: linearize(lambda x: x, x)[1](x[:1]), ShapeError, r"tangent has shape \(1,\).*\(2,\)"),
        (lambda x: linearize(lambda x: x, x)[1](), TypeError, "linearize: the tangents must have the structure"),
        (lambda x: linearize(lambda x: x.argmax(), x), DTypeError, "returned a int64 tensor"),
        (lambda x: jacfwd(lambda x: x + 1j)(x), DTypeError, "jacfwd: a complex function has no single matrix"),
        (lambda x: swept_already(x), GraphError, "already swept"),
    ],
)
def test_mistakes_get_a_sentence(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(asarray([1.0, 2.0]))


def swept_already(x: Tensor) -> Any:
    w = Tensor([1.0, 1.0])
    y = w * 2
    y.sum().backward()
    return jvp(lambda x: x * y, [x], [x])
