"""The weights of attention: masks, their gradients, batches, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core.errors import ShapeError

RNG = np.random.default_rng(0)


def composed(scores: mg.Tensor, mask: mg.Tensor) -> mg.Tensor:
    """The same of the operations that they are made of."""
    seen = mg.asarray(np.tri(*scores.shape[-2:], dtype=bool))
    return mg.softmax(mg.where(seen, scores, -np.inf) + mask, axis=-1)


@pytest.mark.parametrize("shape", [(4, 5), (2, 1, 5), (2, 4, 5)])
def test_numbers_that_are_added_have_a_gradient(shape: tuple[int, ...]) -> None:
    numbers, g = RNG.normal(size=(2, 4, 5)), mg.asarray(RNG.normal(size=(2, 4, 5)))
    added, found = RNG.normal(size=shape), []
    for function in (lambda x, m: mg.attention_weights(x, m, is_causal=True), composed):
        x, m = mg.Tensor(numbers), mg.Tensor(added)
        (function(x, m) * g).sum().backward()
        assert x.grad is not None
        assert m.grad is not None
        found.append((x.grad.numpy(), m.grad.numpy()))
    for ours, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-10, atol=1e-12)


def test_a_batch_of_examples_is_each_of_them() -> None:
    scores, mask = (mg.asarray(RNG.normal(size=(3, 4, 5))) for _ in range(2))
    found = mg.vmap(lambda x, m: mg.attention_weights(x, m, is_causal=True))(scores, mask)
    np.testing.assert_allclose(found.numpy(), composed(scores, mask).numpy(), rtol=1e-12)


def test_what_does_not_fit_is_refused() -> None:
    x = mg.asarray(np.zeros((3, 4)))
    with pytest.raises(ShapeError, match=r"scores have axes \(\.\.\., targets, sources\); got shape \(4,\)"):
        mg.attention_weights(x[0])
    with pytest.raises(ShapeError, match=r"mask of shape \(3,\) does not broadcast to that of the scores, \(3, 4\)"):
        mg.attention_weights(x, x[:, 0])
    with pytest.raises(ShapeError, match=r"have the same axes .* got \(4,\) and \(3, 4\)"):
        mg.attention_weights_gradient(x[0], x)
    with pytest.raises(ShapeError, match=r"the key selects shape \(4,\) of \(3, 4\); got \(3,\)"):
        mg.getitem_gradient(x[:, 0], shape=(3, 4), key=1)
