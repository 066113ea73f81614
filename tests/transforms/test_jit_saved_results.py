"""A derivative may read a result in its own memory: whoever writes then, gradients are those of eager work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor


def wrapped_in_nothing(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return f


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    **{name: getattr(mg, name) for name in ("relu", "exp", "tanh", "sigmoid", "softmax")},
    "transposed": lambda x: mg.exp(x).T,
    "a row of it": lambda x: mg.exp(x)[0:1],
}


def added(y: Tensor) -> Tensor:
    y += 1
    return y


def element(y: Tensor) -> Tensor:
    y[0, 0] = 5.0
    return y


def unrecorded(y: Tensor) -> Tensor:
    with mg.no_grad():
        y.mul_(3.0)
    return y


def detached(y: Tensor) -> Tensor:
    y.detach()[0] = 9.0
    return y


def detached_whole(y: Tensor) -> Tensor:
    d = y.detach()
    d += 9.0
    return y


def data(y: Tensor) -> Tensor:
    y.data.mul_(4.0)
    return y


def through_a_view(y: Tensor) -> Tensor:
    row = y[0]
    row += 1.0
    return y


def transposed(y: Tensor) -> Tensor:
    y.T[0] = 3.0
    return y


def after_a_sweep(y: Tensor) -> Tensor:
    y.sum().backward(retain_graph=True)
    y[0] = 1.0
    return y


WRITES = (added, element, unrecorded, detached, detached_whole, data, through_a_view, transposed, after_a_sweep)


def outcome(
    how: Callable[[Callable[[Tensor], Tensor]], Callable[[Tensor], Tensor]],
    function: Callable[[Tensor], Tensor],
    write: Callable[[Tensor], Tensor],
) -> Any:
    """The gradient and the result after a write, or the error."""
    x = Tensor([[-1.0, 2.0], [3.0, 0.5]])
    f = how(lambda x: function(x * 2))
    try:
        for _ in range(2):  # the second call replays
            x.zero_grad()
            y = write(f(x))
            (y * y).sum().backward()
    except (mg.errors.GraphError, RuntimeError) as error:
        return type(error)
    return np.asarray(x.grad), np.asarray(y.detach())


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_write_into_a_result_changes_no_gradient(name: str, write: Callable[[Tensor], Tensor]) -> None:
    expected, found = (outcome(how, ACTIVATIONS[name], write) for how in (wrapped_in_nothing, mg.jit))
    if isinstance(expected, type):
        assert found is expected
        return
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_what_a_derivative_reads_of_a_result_is_no_copy() -> None:
    f = mg.jit(lambda x, y: (mg.relu(x * y), mg.exp(x)))
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, -4.0])
    found = f(x, y)
    assert len(f.program.outputs) == 2
    sum(each.sum() for each in found).backward()
    np.testing.assert_allclose(np.asarray(x.grad), [3 + np.e, np.e**2], rtol=1e-6)
    assert y.grad.tolist() == [1.0, 0.0]


def test_a_result_that_is_returned_twice_is_two() -> None:
    def twice(x: Tensor) -> tuple[Tensor, Tensor]:
        y = mg.exp(x)
        return y, y

    x = Tensor([0.0, 1.0])
    first, second = mg.jit(twice)(x)
    (first * 2 + second).sum().backward()
    np.testing.assert_allclose(np.asarray(x.grad), 3 * np.exp([0.0, 1.0]), rtol=1e-6)
