"""Functional transforms: derivatives against formulas, finite differences and torch; batches against loops."""

from __future__ import annotations

import gc
import warnings
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import (
    Device,
    Tensor,
    asarray,
    grad,
    gradcheck,
    gradgradcheck,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jvp,
    no_grad,
    random,
    value_and_grad,
    vjp,
    vmap,
    zeros,
)
from micrograd_core.array import functions
from micrograd_core.conformance import cases
from micrograd_core.errors import DeviceMismatch, DTypeError, GraphError, ShapeError, TransformError
from micrograd_core.ops import TABLE, Array, Op, Sample

F = functions.FUNCTIONS
A = np.array([[1.0, 2.0, -1.0], [0.5, -0.3, 2.0]])
X = np.array([0.3, -1.2, 0.7])


def plain(x: Any, **options: Any) -> Tensor:
    return asarray(x, dtype="float64", **options)


def f(x: Tensor) -> Tensor:
    return (plain(A) @ x.sin()) * (x * x).sum()


def jacobian_of_f(x: Any) -> Any:
    return A * np.cos(x) * (x @ x) + np.outer(A @ np.sin(x), 2 * x)


# ── products and Jacobians ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("records", [False, True])
def test_products_with_the_jacobian(records: bool) -> None:
    x, u, v = Tensor(X, requires_grad=records), np.array([1.0, -2.0]), np.array([0.2, 0.5, -1.0])
    value, pull = vjp(f, x)
    np.testing.assert_allclose(value.detach().numpy(), f(plain(X)).detach().numpy())
    for scale in (1.0, 3.0):  # as often as wanted
        (g,) = pull(plain(scale * u))
        np.testing.assert_allclose(g.detach().numpy(), scale * u @ jacobian_of_f(X))
        assert g.requires_grad is value.requires_grad is records
    value, tangent = jvp(f, [x], [plain(v)])
    np.testing.assert_allclose(value.detach().numpy(), f(plain(X)).detach().numpy())
    np.testing.assert_allclose(tangent.detach().numpy(), jacobian_of_f(X) @ v)
    assert tangent.requires_grad is records
    assert x.grad is None


@pytest.mark.parametrize("records", [False, True])
def test_the_jacobian(records: bool, device: Device) -> None:
    x = Tensor(X, requires_grad=records, device=device)
    found = jacobian(lambda x: (plain(A, device=device) @ x.sin()) * (x * x).sum())(x)
    np.testing.assert_allclose(found.detach().numpy(), jacobian_of_f(X), rtol=1e-12)
    assert found.device is device
    assert found.requires_grad is records


def test_the_hessian_is_symmetric_and_right() -> None:
    def g(x: Tensor) -> Tensor:
        return (x**3).sum() * x[0] + (x[1] * x[2]).exp()

    found = hessian(g)(plain(X)).detach().numpy()
    np.testing.assert_allclose(found, found.T)
    for i, column in enumerate(np.eye(3)):
        step = 1e-6
        up, down = (grad(g)(plain(X + sign * step * column)).detach().numpy() for sign in (1, -1))
        np.testing.assert_allclose(found[i], (up - down) / (2 * step), rtol=1e-7, atol=1e-8)
    v = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(hvp(g, plain(X), plain(v)).detach().numpy(), found @ v)
    np.testing.assert_allclose(jvp(grad(g), [plain(X)], [plain(v)])[1].detach().numpy(), found @ v)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_against_torch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, w, v = rng.normal(size=(4, 3)), rng.normal(size=(3, 2)), rng.normal(size=(4, 3))

    def ours(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).tanh().softmax(axis=-1) * (x**2).sum()

    def theirs(x: Any, w: Any) -> Any:
        return (x @ w).tanh().softmax(-1) * (x**2).sum()

    tx, tw, tv = map(torch.tensor, (x, w, v))
    for argnums in (0, 1, (0, 1)):
        ours_found = jacobian(ours, argnums)(plain(x), plain(w))
        theirs_found = torch.func.jacrev(theirs, argnums)(tx, tw)
        pairs = [(ours_found, theirs_found)] if isinstance(argnums, int) else zip(ours_found, theirs_found, strict=True)
        for a, b in pairs:
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)
    h = hessian(lambda x: ours(x, plain(w))[0, 0] ** 2)(plain(x)).detach().numpy()
    expected = torch.func.hessian(lambda x: theirs(x, tw)[0, 0] ** 2)(tx).detach().numpy()
    np.testing.assert_allclose(h, expected, rtol=1e-9, atol=1e-12)
    ours_t = jvp(lambda x: ours(x, plain(w)), [plain(x)], [plain(v)])[1].detach().numpy()
    np.testing.assert_allclose(
        ours_t, torch.func.jvp(lambda x: theirs(x, tw), (tx,), (tv,))[1].detach().numpy(), rtol=1e-9, atol=1e-12
    )


def test_jacobians_are_differentiable_and_nest() -> None:
    x = Tensor(X)
    (jacobian(f)(x) ** 2).sum().backward()
    assert x.grad is not None
    step = 1e-6
    for i, column in enumerate(np.eye(3)):
        up, down = ((jacobian_of_f(X + sign * step * column) ** 2).sum() for sign in (1, -1))
        np.testing.assert_allclose(x.grad.tolist()[i], (up - down) / (2 * step), rtol=1e-6)
    third = jacobian(jacobian(jacobian(lambda x: (x**4).sum())))(plain([2.0])).item()
    assert third == 48.0
    cubes = jacobian(jacobian(lambda x: x**3))(plain([1.0, 2.0])).detach().numpy()
    assert cubes.shape == (2, 2, 2)
    assert (cubes[0, 0, 0], cubes[1, 1, 1], cubes.sum()) == (6.0, 12.0, 18.0)


def test_hvp_and_jvp_in_a_loss() -> None:
    x, v = Tensor([1.0, 2.0], dtype="float64"), plain([1.0, 1.0])
    assert gradcheck(lambda x: hvp(lambda y: (y**4).sum(), x, v), x)
    assert gradcheck(lambda x: jvp(lambda y: y.exp() * y, [x], [v])[1], x)
    assert gradcheck(lambda v: jvp(lambda y: y.exp() * y, [x.detach()], [v])[1], Tensor([0.3, -1.0], dtype="float64"))


# ── structures of arguments ──────────────────────────────────────────────────────────────────────────────────

Pair = namedtuple("Pair", "left right")


def model(params: Any, x: Tensor) -> Any:
    hidden = (x @ params["layers"][0]).tanh() + params["bias"]
    return (hidden**2).sum()


PARAMS = {"layers": [np.ones((3, 2)) / 3], "bias": np.array([0.1, -0.1])}


def parameters() -> Any:
    return {"layers": [plain(PARAMS["layers"][0])], "bias": plain(PARAMS["bias"])}


def test_gradients_have_the_structure_of_the_arguments() -> None:
    params, x = parameters(), plain(X)
    value, found = value_and_grad(model)(params, x)
    assert value.shape == ()
    assert list(found) == ["layers", "bias"]
    expected = grad(lambda w, b: model({"layers": [w], "bias": b}, x), argnums=(0, 1))(
        params["layers"][0], params["bias"]
    )
    np.testing.assert_allclose(found["layers"][0].detach().numpy(), expected[0].detach().numpy())
    np.testing.assert_allclose(found["bias"].numpy(), expected[1].numpy())
    pair = grad(lambda p: (p.left * p.right).sum())(Pair(plain([2.0]), plain([3.0])))
    assert isinstance(pair, Pair)
    assert (pair.left.item(), pair.right.item()) == (3.0, 2.0)


def test_jacobians_and_hessians_of_structures() -> None:
    params, x = parameters(), plain(X)
    found = jacobian(lambda p, x: {"y": x @ p["layers"][0], "z": (p["bias"] * 2,)}, argnums=(0, 1))(params, x)
    assert found["y"][0]["layers"][0].shape == (2, 3, 2)
    assert found["y"][0]["bias"].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(found["y"][1].detach().numpy(), PARAMS["layers"][0].T)
    np.testing.assert_allclose(found["z"][0][0]["bias"].numpy(), 2 * np.eye(2))
    h = hessian(model)(params, x)
    flat = hessian(lambda b: model({**params, "bias": b}, x))(params["bias"])
    np.testing.assert_allclose(h["bias"]["bias"].numpy(), flat.numpy())
    assert h["bias"]["layers"][0].shape == (2, 3, 2)
    np.testing.assert_allclose(
        h["bias"]["layers"][0].detach().numpy(), np.moveaxis(h["layers"][0]["bias"].detach().numpy(), -1, 0), atol=1e-15
    )


def test_vjp_and_jvp_of_structures() -> None:
    params, x = parameters(), plain(X)

    def g(p: Any, x: Tensor) -> Any:
        return {"y": x @ p["layers"][0] + p["bias"], "s": (x.sum(),)}

    _, pull = vjp(g, params, x)
    gp, gx = pull({"y": plain([1.0, 2.0]), "s": (plain(10.0),)})
    assert gp["bias"].tolist() == [1.0, 2.0]
    np.testing.assert_allclose(gx.detach().numpy(), PARAMS["layers"][0] @ [1.0, 2.0] + 10)
    tangents = ({"layers": [zeros((3, 2), dtype="float64")], "bias": plain([1.0, 0.0])}, plain([1.0, 1.0, 1.0]))
    _, out = jvp(g, (params, x), tangents)
    np.testing.assert_allclose(out["y"].numpy(), PARAMS["layers"][0].sum(0) + np.array([1.0, 0.0]))
    assert out["s"][0].item() == 3.0
    both = hvp(model, (params, x), tangents)
    assert both[0]["bias"].shape == (2,)


def test_has_aux_passes_the_rest_on() -> None:
    def g(x: Tensor) -> Any:
        return (x * x).sum(), {"note": "seen", "x": x * 2}

    x = plain([1.0, 2.0])
    (value, aux), gradient = value_and_grad(g, has_aux=True)(x)
    assert (value.item(), aux["note"], gradient.tolist()) == (5.0, "seen", [2.0, 4.0])
    gradient, aux = grad(g, has_aux=True)(x)
    assert (gradient.tolist(), aux["note"]) == ([2.0, 4.0], "seen")
    assert jacobian(g, has_aux=True)(x)[1]["note"] == "seen"
    assert hessian(g, has_aux=True)(x)[0].tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert vjp(g, x, has_aux=True)[2]["note"] == "seen"
    assert jvp(g, [x], [x], has_aux=True)[2]["note"] == "seen"
    with pytest.raises(TypeError, match="must return a pair"):
        grad(lambda x: x.sum(), has_aux=True)(x)


def test_constants_and_identities() -> None:
    x = plain([1.0, 2.0])
    assert jacobian(lambda x: plain([1.0]))(x).tolist() == [[0.0, 0.0]]
    assert jacobian(lambda x: x)(x).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert jvp(lambda x: plain([1.0]), [x], [x])[1].tolist() == [0.0]
    assert vjp(lambda x: (x, x * 2), x)[1]((x, x))[0].tolist() == [3.0, 6.0]
    assert jacobian(lambda x: x[:0])(x).shape == (0, 2)
    assert hessian(lambda x: x.sum())(x).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with no_grad():
        assert jacobian(lambda x: x * x)(Tensor([3.0])).tolist() == [[6.0]]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: vjp(lambda x: x * 2, zeros(2))[1](zeros(3)), ShapeError, r"cotangent has shape \(3,\).*\(2,\)"),
        (lambda: vjp(lambda x: (x, x), zeros(2))[1](zeros(2)), TypeError, r"structure \('\*', '\*'\); got '\*'"),
        (lambda: vjp(lambda x: 1.0, zeros(2)), TypeError, "must return tensors; it returned float"),
        (lambda: vjp(lambda x: x.argmax(), zeros(2)), DTypeError, "returned a int64 tensor"),
        (lambda: vjp(lambda x: x, 1.0), TypeError, "must be a Tensor"),
        (lambda: jvp(lambda x: x, [zeros(2)], [zeros(3)]), ShapeError, r"shape \(2,\)"),
        (lambda: jvp(lambda x: x, [zeros(2)], []), TypeError, "the tangents must have the structure"),
        (lambda: jacobian(lambda x: x)(Tensor([1])), DTypeError, "only floating"),
        (lambda: jacobian(lambda x: x, argnums=1)(zeros(2)), TypeError, "argnums=1"),
        (lambda: hessian(lambda x: x)(zeros(2)), GraphError, "scalar"),
        (lambda: grad(lambda p: p["w"].sum())({"w": zeros(2), "n": 3}), TypeError, "must be a Tensor .* got int"),
    ],
)
def test_mistakes_get_a_sentence(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


# ── vmap ─────────────────────────────────────────────────────────────────────────────────────────────────────

SIZE = 3
BATCHABLE = [
    pytest.param(op, sample, id=f"{op.name}-{i}") for op in TABLE.values() for i, sample in enumerate(op.samples)
]


def operands_of(sample: Sample, seed: int) -> list[Any]:
    return [
        np.array(values, dtype=operand.dtype or "float64").reshape(operand.shape)
        if isinstance(operand, Array)
        else values
        for operand, values in zip(sample.operands, cases.draw(sample, seed), strict=True)
    ]


def call(op: Op, operands: Any, params: Any) -> Any:
    function = F[op.name]
    return function(operands, **params) if op.operands == -1 else function(*operands, **params)


def flat(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


@pytest.mark.sampled
@pytest.mark.parametrize(("op", "sample"), BATCHABLE)
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:Degrees of freedom", "ignore:divide by zero")
@pytest.mark.filterwarnings("ignore:vmap. there is no batching rule for 'argwhere'")
def test_batches_of_every_operation(op: Op, sample: Sample) -> None:
    """Each operand batched alone, and all together, against a loop; and the gradients."""
    drawn = [operands_of(sample, seed) for seed in range(SIZE)]
    arrays = [i for i, operand in enumerate(sample.operands) if isinstance(operand, Array)]
    for batched in {*((i,) for i in arrays), tuple(arrays)}:
        given = [
            np.stack([row[i] for row in drawn]) if i in batched else drawn[0][i] for i in range(len(sample.operands))
        ]
        rows = [[row[i] if i in batched else drawn[0][i] for i in range(len(row))] for row in drawn]
        axes = tuple(0 if i in batched else None for i in range(len(given)))
        floating = [isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in given]

        def inputs(values: Any, floating: Any = floating) -> list[Any]:
            return [
                Tensor(x, requires_grad=each) if isinstance(x, np.ndarray) else x
                for x, each in zip(values, floating, strict=True)
            ]

        whole = inputs(given)
        try:
            found = flat(vmap(lambda *xs: call(op, xs, sample.params), axes, randomness="same")(*whole))
        except TransformError as error:
            if "depends on the numbers" in str(error):
                return
            raise
        separate = [inputs(row) for row in rows]
        expected = [flat(call(op, row, sample.params)) for row in separate]
        for i, result in enumerate(found):
            each = [part[i] for part in expected]
            assert result.dtype is each[0].dtype
            np.testing.assert_allclose(
                result.detach().numpy(), np.stack([x.detach().numpy() for x in each]), rtol=1e-12, atol=1e-14
            )
            if not result.requires_grad:
                continue
            for x in (result, *each):
                x.backward(np.ones(x.shape), retain_graph=True)  # parts of one result
            for j in batched:
                if floating[j] and whole[j].grad is not None:
                    gradients = [row[j].grad.numpy() for row in separate]
                    np.testing.assert_allclose(whole[j].grad.numpy(), np.stack(gradients), rtol=1e-9, atol=1e-12)
            for x in [*whole, *(x for row in separate for x in row)]:
                if isinstance(x, Tensor):
                    x.zero_grad()


def test_no_operation_of_the_table_needs_a_loop() -> None:
    from micrograd_core.transforms.vmap import _rule

    assert [op.name for op in TABLE.values() if op.operands and op.compose is None and _rule(op) is None] == []


def test_an_operation_without_a_rule_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from micrograd_core.transforms import vmap as module
    from micrograd_core.transforms.vmap import BatchTable

    monkeypatch.setattr(module, "_rule", lambda op: None)
    x = plain(A)
    monkeypatch.setattr(x._kernels, "batched", {}, raising=False)  # tables bind their operations once
    with pytest.warns(RuntimeWarning, match="no batching rule for 'sin'; it runs once for each of the 2 examples"):
        found = vmap(lambda x: x.sin())(x)
    np.testing.assert_allclose(found.detach().numpy(), np.sin(A))
    assert isinstance(BatchTable.over(x._kernels, 1), BatchTable)


def test_axes_in_and_out() -> None:
    x, y = plain(np.arange(24.0).reshape(2, 3, 4)), plain(np.arange(3.0))
    found = vmap(lambda x, y: x * y + x.sum(), in_axes=(1, 0), out_axes=-1)(x, y)
    expected = np.stack([x.detach().numpy()[:, i] * i + x.detach().numpy()[:, i].sum() for i in range(3)], axis=-1)
    np.testing.assert_allclose(found.detach().numpy(), expected)
    pair = vmap(lambda p: (p["a"] + p["b"][0], p["a"].sum()), in_axes=({"a": 0, "b": None},), out_axes=(1, 0))(
        {"a": plain(A), "b": [plain(X)]}
    )
    np.testing.assert_allclose(pair[0].detach().numpy(), (A + X).T)
    np.testing.assert_allclose(pair[1].detach().numpy(), A.sum(1))
    np.testing.assert_allclose(
        vmap(lambda x, *, y: x @ y)(plain(A), y=plain(2 * A)).detach().numpy(), 2 * (A * A).sum(1)
    )
    assert vmap(lambda x: 2.0)(plain(A)).tolist() == [2.0, 2.0]
    assert vmap(lambda x: plain(X), out_axes=1)(plain(A)).shape == (3, 2)


def test_batches_nest_and_compose_with_gradients_both_ways() -> None:
    x, w = plain(A), Tensor(X)
    outer = vmap(lambda a: vmap(lambda b: a * b)(plain(X)))(plain(X))
    np.testing.assert_allclose(outer.detach().numpy(), np.outer(X, X))
    cross = vmap(lambda a: vmap(lambda b: (a * b).sum() + a[0])(x))(x)
    np.testing.assert_allclose(cross.detach().numpy(), A @ A.T + A[:, :1])

    def loss(w: Tensor, x: Tensor) -> Tensor:
        return ((w * x).sum() - 1) ** 2

    per_example = vmap(grad(loss), in_axes=(None, 0))(w, x)
    expected = np.stack([2 * (X @ row - 1) * row for row in A])
    np.testing.assert_allclose(per_example.detach().numpy(), expected)
    per_example.sum().backward()  # through the gradient, to what was closed over by nobody: the argument w
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), sum(2 * row * row.sum() for row in A))
    total = grad(lambda w: vmap(lambda x: loss(w, x))(x).sum())(plain(X))
    np.testing.assert_allclose(total.detach().numpy(), expected.sum(0))
    hessians = vmap(hessian(loss), in_axes=(None, 0))(plain(X), x)
    np.testing.assert_allclose(hessians.detach().numpy(), np.stack([2 * np.outer(row, row) for row in A]))
    jacobians = vmap(jacobian(lambda x: x.sin()))(x)
    np.testing.assert_allclose(jacobians.detach().numpy(), np.stack([np.diag(np.cos(row)) for row in A]))


def test_second_derivatives_through_a_batch() -> None:
    assert gradcheck(lambda x: vmap(lambda row: row.softmax() * row.sum())(x), Tensor(A))
    assert gradgradcheck(lambda x: vmap(lambda row: row.softmax() * row.sum())(x), Tensor(A))
    assert gradgradcheck(lambda x, w: vmap(lambda row: (row @ w).tanh())(x), [Tensor(A), Tensor(np.ones((3, 2)) / 3)])


def test_closed_over_tensors_and_constants_are_shared() -> None:
    w = Tensor(X)

    def g(x: Tensor) -> Tensor:
        mask = asarray([True, False, True])
        return F["where"](mask, x, 0.0) * w + zeros(3, dtype="float64") + F["concat"]([x[:1], w[1:]])

    found = vmap(g)(plain(A))
    np.testing.assert_allclose(found.detach().numpy(), A * [1, 0, 1] * X + np.stack([[a, *X[1:]] for a in A[:, 0]]))
    found.sum().backward()
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), A.sum(0) * [1, 0, 1] + [0, 2, 2])


def test_writes_inside_vmap() -> None:
    def g(x: Tensor) -> Tensor:
        y = x * 1
        y[0] = x[1] * 10
        y += 1
        return y

    np.testing.assert_allclose(
        vmap(g)(plain(A)).detach().numpy(), np.stack([[10 * a[1] + 1, a[1] + 1, a[2] + 1] for a in A])
    )

    def into_unbatched(x: Tensor) -> Tensor:
        y = zeros(3, dtype="float64")
        y[0] = x[1]
        return y

    with pytest.raises(GraphError, match="start from one that is batched"):
        vmap(into_unbatched)(plain(A))


def test_modules_losses_and_moves_inside_vmap(rawbuffer_device: Device) -> None:
    from micrograd_core import nn

    layer = nn.Linear(3, 2, dtype="float64")
    x, t = plain(A), asarray([0, 1])
    losses = vmap(lambda x, t: nn.cross_entropy(layer(x), t))(x, t)
    np.testing.assert_allclose(
        losses.detach().numpy(), F["cross_entropy"](layer(x), t, reduction="none").detach().numpy()
    )
    moved = vmap(lambda x: (x.to(rawbuffer_device) * 2).to("cpu") + x)(Tensor(A))
    np.testing.assert_allclose(moved.detach().numpy(), 3 * A)
    moved.sum().backward()
    there = jacobian(lambda x: (x.to(rawbuffer_device) ** 2).to("cpu"))(plain(X))
    np.testing.assert_allclose(there.detach().numpy(), np.diag(2 * X))


def draws(x: Tensor, generator: Any) -> Tensor:
    dropped = F["dropout"](x, 0.5, generator=generator)
    integers = random.randint(3, 0, 100, generator=generator) + random.permutation(3, generator=generator)
    normal = random.normal(3, dtype="float64", generator=generator)
    return dropped + integers.astype("float64") + random.uniform(3, dtype="float64", generator=generator) + normal


def test_random_numbers_inside_vmap_are_refused_unless_it_says_which() -> None:
    for draw in (lambda x: draws(x, random.Generator(0)), lambda x: F["dropout"](x, generator=1)):
        with pytest.raises(TransformError, match=r'randomness="different"\), or randomness="same"'):
            vmap(draw)(plain(A))
    assert vmap(lambda x: F["dropout"](x, 0.5, training=False))(plain(A)).tolist() == A.tolist()
    with pytest.raises(ValueError, match="randomness is 'error', 'different' or 'same'; got 'none'"):
        vmap(lambda x: x, randomness="none")


def test_random_numbers_inside_vmap_are_the_same_or_those_of_a_greater_draw() -> None:
    ones = plain(np.ones((4, 3)))
    same = vmap(lambda x: draws(x, random.Generator(0)), randomness="same")(ones).detach().numpy()
    np.testing.assert_array_equal(same, np.stack([draws(ones[0], random.Generator(0)).detach().numpy()] * 4))
    g = random.Generator(0)
    different = vmap(lambda x: draws(x, g), randomness="different")(ones).detach().numpy()
    assert len({tuple(row) for row in different}) == 4
    whole = vmap(lambda x: random.uniform(3, generator=g), randomness="different")(ones).detach().numpy()
    g.state = g.state[0], g.state[1] - 2, g.state[2]
    np.testing.assert_array_equal(whole, random.uniform((4, 3), generator=g).detach().numpy())
    before = g.state
    vmap(lambda x: random.permutation(5, generator=g), randomness="different")(ones)
    assert g.state[1] == before[1] + 8  # nobody else is given these numbers
    assert vmap(lambda x: random.permutation(5, generator=g), randomness="different")(ones).sum().item() == 40


@pytest.mark.parametrize("inner", ["same", "different"])
@pytest.mark.parametrize("outer", ["same", "different"])
def test_nested_batches_each_say_what_their_random_numbers_are(outer: str, inner: str) -> None:
    def nested(f: Any) -> Any:
        return vmap(vmap(f, randomness=inner), randomness=outer)(plain(np.ones((3, 4, 20)))).detach().numpy()

    def mask(x: Tensor) -> Tensor:
        return F["dropout"](x, 0.5, generator=g)

    g = random.Generator(0)
    found = nested(mask)
    assert len({row.tobytes() for row in found[:, 0]}) == (3 if outer == "different" else 1)
    assert len({row.tobytes() for row in found[0]}) == (4 if inner == "different" else 1)
    for derivative in (grad(lambda x: mask(x).sum()), lambda x: jvp(mask, [x], [x])[1]):
        g = random.Generator(0)
        np.testing.assert_array_equal(nested(derivative), found)
    g = random.Generator(0)
    x = Tensor(np.ones((3, 4, 20)))
    vmap(vmap(mask, randomness=inner), randomness=outer)(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), found)


def test_batches_stay_on_their_device(rawbuffer_device: Device) -> None:
    """Also the ranges of integers that compositions make."""
    rows, weights = (
        asarray(each, device=rawbuffer_device) for each in ([[3.0, 1.0, 2.0], [1.0, 5.0, 4.0]], [1.0, 2.0, 3.0])
    )
    found = vmap(grad(lambda x: (F["sort"](x) * weights).sum()))(rows)
    assert found.device is rawbuffer_device
    assert found.tolist() == [[3.0, 1.0, 2.0], [1.0, 3.0, 2.0]]


def test_derivatives_inside_vmap_are_part_of_the_graphs_around_it() -> None:
    def cubes(w: Tensor) -> Any:
        return lambda x: w * x**3

    x, w = plain([1.0, 2.0, 3.0]), plain(2.0)
    squares = {
        "hessian": (lambda f, x: hessian(f)(x), lambda x: 6 * x),
        "jacobian": (lambda f, x: jacobian(f)(x), lambda x: 3 * x**2),
        "jacfwd": (lambda f, x: jacfwd(f)(x), lambda x: 3 * x**2),
        "hvp": (lambda f, x: hvp(f, x, x), lambda x: 6 * x**2),
        "jvp": (lambda f, x: jvp(f, [x], [x])[1], lambda x: 3 * x**3),
        "vjp": (lambda f, x: vjp(f, x)[1](x)[0], lambda x: 3 * x**3),
        "grad": (lambda f, x: grad(f)(x), lambda x: 3 * x**2),
    }
    for name, (derivative, per_w) in squares.items():
        loss = grad(lambda w, d=derivative: (vmap(lambda x: d(cubes(w), x))(x) ** 2).sum() + w**2)
        expected = sum(2 * 2.0 * per_w(each) ** 2 for each in (1.0, 2.0, 3.0)) + 4.0
        assert loss(w).item() == pytest.approx(expected), name
    again = grad(lambda x: vmap(grad(lambda x: mg.checkpoint(mg.sin, x)))(x).sum())(plain([0.5]))
    assert again.item() == pytest.approx(-np.sin(0.5))


def test_detach_and_no_grad_inside_vmap_cut_the_graphs_around_it() -> None:
    x = plain([1.0, 2.0])
    assert grad(lambda w: vmap(lambda x: (w * x).detach() * w)(x).sum())(plain(3.0)).item() == 9.0

    def silent(w: Tensor) -> Any:
        with no_grad():
            return w * 2

    assert grad(lambda w: vmap(lambda x: silent(w * x) * w)(x).sum())(plain(3.0)).item() == 18.0
    w = Tensor(3.0)
    with no_grad():
        assert not vmap(grad(lambda x: w * x**2))(x).requires_grad
    assert vmap(grad(lambda x: w * x**2))(x).requires_grad


def test_backward_and_hooks_inside_vmap_are_refused_where_they_would_miss_something() -> None:
    w = Tensor(2.0)
    with pytest.raises(TransformError, match=r"backward\(\) inside vmap .* take grad\(f\)"):
        vmap(lambda x: (w * x).backward())(plain([1.0, 2.0]))
    with pytest.raises(TransformError, match="a hook inside vmap"):
        vmap(lambda x: (w * x).register_hook(print))(plain([1.0, 2.0]))
    seen: list[Any] = []

    def hooked(x: Tensor) -> Tensor:
        y = w * x
        y.register_hook(lambda g: seen.append(g.shape))
        return y * x

    assert vmap(grad(hooked))(plain([1.0, 2.0])).tolist() == [4.0, 8.0]
    assert seen == [()]


def test_what_vmap_cannot_do_it_says() -> None:
    x = plain(A)
    for read in (lambda x: x.sum().item(), lambda x: x if x.sum() > 0 else -x, lambda x: x.tolist()):
        with pytest.raises(TransformError, match="where"):
            vmap(read)(x)
    assert repr(vmap(lambda x: [repr(x), x][1])(x))
    kept: list[Tensor] = []
    vmap(lambda x: kept.append(x) or x)(x)  # type: ignore[func-returns-value]
    with pytest.raises(TransformError, match="has left the function"):
        kept[0] * 2
    with pytest.raises(TransformError, match="another call"):
        vmap(lambda x: kept[0])(x)
    for call_, error, words in (
        (lambda: vmap(lambda x, y: x)(x, plain(X)), ShapeError, r"2 examples \(shape \(2, 3\) along axis 0\) and 3"),
        (lambda: vmap(lambda x: x, in_axes=None)(x), ShapeError, "nothing is batched"),
        (lambda: vmap(lambda x: x)(plain(1.0)), ShapeError, r"shape \(\) has no axis"),
        (lambda: vmap(lambda x: x)(1.0), TypeError, "only tensors have a batch; got float"),
        (lambda: vmap(lambda x: x, in_axes=(0, 0))(x), TypeError, "2 entries, but the function was called with 1"),
        (lambda: vmap(lambda x: x, in_axes=("a",))(x), TypeError, "integers and None"),
        (lambda: vmap(lambda x: x, in_axes=([0],))(x), TypeError, r"in_axes=\[0\] does not fit"),
        (lambda: vmap(lambda x: "no")(x), TypeError, "returned str"),
        (lambda: vmap(lambda x: x + zeros(4))(x), ShapeError, "broadcast"),
        (lambda: vmap(lambda x: x + zeros(3, device="rawbuffer"))(x), DeviceMismatch, "rawbuffer"),
    ):
        with pytest.raises(error, match=words):
            call_()  # type: ignore[no-untyped-call]


def test_transforms_leave_no_garbage() -> None:
    def everything() -> None:
        x = plain(X)
        jacobian(f)(x)
        hessian(lambda x: f(x).sum())(x)
        vmap(grad(lambda x: (x * x).sum()))(plain(A))
        jvp(f, [x], [x])

    everything()
    gc.disable()
    try:
        left = []  # each time, for kernels settle and caches fill now and then; what leaks does so every time
        for _ in range(3):
            gc.collect()
            everything()
            left.append(gc.collect())
        assert min(left) == 0, left
    finally:
        gc.enable()


def test_no_warnings_in_common_use() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vmap(lambda x: mg.linear(x, plain(A), 0.0).relu().sum() if hasattr(mg, "linear") else x)(plain(A))


def test_complex_functions_follow_pytorchs_convention() -> None:
    torch = pytest.importorskip("torch")
    z, g, v = (np.array(x) for x in ([1 + 2j, -0.5j], [0.3 - 1j, 2 + 0.1j], [1j, 1 - 1j]))

    def ours(z: Tensor) -> Tensor:
        return z * z * F["conj"](z) + F["abs"](z)

    def theirs(z: Any) -> Any:
        return z * z * z.conj() + z.abs()

    value, pull = vjp(ours, asarray(z))
    expected, their_pull = torch.func.vjp(theirs, torch.tensor(z))
    np.testing.assert_allclose(value.detach().numpy(), expected.detach().numpy())
    np.testing.assert_allclose(pull(asarray(g))[0].detach().numpy(), their_pull(torch.tensor(g))[0].detach().numpy())
    tangent = jvp(ours, [asarray(z)], [asarray(v)])[1]
    step = 1e-6
    up, down = (theirs(torch.tensor(z + sign * step * v)).detach().numpy() for sign in (1, -1))
    np.testing.assert_allclose(tangent.detach().numpy(), (up - down) / (2 * step), rtol=1e-8)
    with pytest.raises(DTypeError, match="use vjp or jvp"):
        jacobian(ours)(asarray(z))


def test_factorisations_inside_transforms() -> None:
    from micrograd_core import linalg

    a = np.stack([A @ A.T + shift * np.eye(2) for shift in (0.0, 1.0, 2.0)])
    found = vmap(jacobian(lambda a: linalg.eigh(a).eigenvalues))(asarray(a)).detach().numpy()
    vectors = np.linalg.eigh(a).eigenvectors
    np.testing.assert_allclose(found, np.einsum("bik,bjk->bkij", vectors, vectors))
    inverse = np.linalg.inv(a[0])
    second = hessian(lambda a: linalg.slogdet(a).logabsdet)(asarray(a[0])).detach().numpy()
    np.testing.assert_allclose(second, -np.einsum("jk,li->ijkl", inverse, inverse))
