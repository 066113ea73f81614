"""`micrograd_core.torch.func` beside `torch.func`, where PyTorch is installed; and beside what is known without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core.torch as ours

X = np.array([0.5, -1.0, 2.0], dtype="float32")
LEFT_OUT = {"debug_unwrap", "functionalize", "rearrange", "replace_all_batch_norm_modules_"}


def layers(t: Any, numbers: int) -> list[Any]:
    """Layers with weights that are known."""
    made = [t.nn.Linear(3, 2) for _ in range(numbers)]
    for i, layer in enumerate(made):
        with t.no_grad():
            layer.weight.copy_(t.tensor(np.arange(6, dtype="float32").reshape(2, 3) + i))
            layer.bias.copy_(t.tensor(np.full(2, i, "float32")))
    return made


def normed(t: Any) -> list[Any]:
    """The running mean of two batch norms, stacked."""
    return [t.func.stack_module_state([t.nn.BatchNorm1d(2), t.nn.BatchNorm1d(2)])[1]["running_mean"]]


def ensemble(t: Any, x: Any) -> list[Any]:
    """Three networks as one, on the same input, and the gradient by their weights."""
    models = layers(t, 3)
    parameters, buffers = t.func.stack_module_state(models)
    assert not buffers

    def loss(parameters: Any, x: Any) -> Any:
        return (t.func.functional_call(models[0], parameters, (x,)) ** 2).sum()

    gradients = t.func.vmap(t.func.grad(loss), in_dims=(0, None))(parameters, x)
    leaves = [value.requires_grad and value.is_leaf for value in parameters.values()]
    assert all(leaves)
    return [gradients["weight"], gradients["bias"], parameters["weight"]]


CALLS: dict[str, Callable[[Any, Any], list[Any]]] = {
    "functional_call": lambda t, x: [t.func.functional_call(layers(t, 1)[0], {"bias": t.ones(2)}, x)],
    "functional_call, one argument": lambda t, x: [t.func.functional_call(layers(t, 1)[0], {}, x)],
    "grad": lambda t, x: list(t.func.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, x + 1)),
    "grad_and_value": lambda t, x: list(t.func.grad_and_value(lambda x: (x * x).sum())(x)),
    "grad_and_value, aux": lambda t, x: [
        *(both := t.func.grad_and_value(lambda x: ((x * x).sum(), x + 1), has_aux=True)(x))[:1], *both[1],
    ],
    "hessian": lambda t, x: [t.func.hessian(lambda x: (x * x * x).sum())(x)],
    "jacfwd": lambda t, x: [t.func.jacfwd(t.sin)(x)],
    "jacrev": lambda t, x: [t.func.jacrev(t.sin)(x)],
    "jvp": lambda t, x: list(t.func.jvp(t.sin, (x,), (x,))),
    "jvp, aux": lambda t, x: list(t.func.jvp(lambda x: (t.sin(x), x + 1), (x,), (x,), has_aux=True)),
    "linearize": lambda t, x: [(both := t.func.linearize(t.sin, x))[0], both[1](x)],
    "vjp of one": lambda t, x: [(both := t.func.vjp(t.sin, x))[0], *both[1](x)],
    "vjp of two": lambda t, x: [(both := t.func.vjp(t.mul, x, x + 1))[0], *both[1](x)],
    "vjp, aux": lambda t, x: [(all := t.func.vjp(lambda x: (t.sin(x), x + 1), x, has_aux=True))[2], *all[1](x)],
    "vmap": lambda t, x: [t.vmap(lambda x, y: x * y, in_dims=(0, None), out_dims=1)(x, x)],
    "vmap in chunks": lambda t, x: [t.func.vmap(lambda x: x * x, chunk_size=2)(x)],
    "ensemble": ensemble,
    "buffers": lambda t, x: normed(t),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, about itself
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", CALLS)
def test_a_transform_gives_what_torch_gives(name: str) -> None:
    theirs = pytest.importorskip("torch")
    found, wanted = CALLS[name](ours, ours.tensor(X)), CALLS[name](theirs, theirs.tensor(X))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-5)


def test_names_are_those_of_torch() -> None:
    theirs = pytest.importorskip("torch")
    assert set(ours.func.__all__) == set(theirs.func.__all__) - LEFT_OUT


def test_gradients_come_before_values() -> None:
    gradient, value = ours.func.grad_and_value(lambda x: (x * x).sum())(ours.tensor(X))
    assert gradient.tolist() == [1.0, -2.0, 4.0]
    assert value.item() == 5.25
    assert isinstance(ours.func.vjp(ours.sin, ours.tensor(X))[1](ours.tensor(X)), tuple)
