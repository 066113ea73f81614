"""What `micrograd_core.nn.functional` says of what draws random numbers, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core.nn import functional as F  # noqa: N812

# ── what draws ───────────────────────────────────────────────────────────────────────────────────────────────


def test_dropouts_drop_and_keep_the_mean() -> None:
    mg.random.manual_seed(0)
    x = mg.Tensor(np.ones((40, 50, 3, 2)))
    for function, whole in ((F.dropout, False), (F.dropout2d, True)):
        y = function(x, 0.25)
        values = set(np.unique(y.detach().numpy().round(12)))
        assert values == {0.0, round(4 / 3, 12)}
        assert abs(y.detach().numpy().mean() - 1) < 0.05
        assert (np.ptp(y.detach().numpy(), axis=(2, 3)) == 0).all() is np.bool_(whole)
        assert np.array_equal(function(x, 0.25, training=False).detach().numpy(), x.detach().numpy())
        assert not function(x, 1.0).detach().numpy().any()
    x.grad = None
    (y := F.dropout1d(x[:, :, :, 0], 0.5)).sum().backward()
    assert np.array_equal(x.grad.detach().numpy()[..., 0], y.detach().numpy())
    assert (np.ptp(F.dropout3d(mg.ones((20, 30, 2, 2, 2)), 0.5).numpy(), axis=(2, 3, 4)) == 0).all()
    with pytest.raises(ValueError, match="p, the probability of a zero, is between 0 and 1; got 1.5"):
        F.dropout(x, 1.5)
    with pytest.raises(mg.errors.ShapeError, match=r"dropout1d: the input has 2 or 3 axes; got shape \(40, 50, 3, 2\)"):
        F.dropout1d(x)


def test_alpha_dropout_keeps_mean_and_variance_and_is_off_by_default() -> None:
    mg.random.manual_seed(0)
    x = mg.random.normal((200, 200), dtype="float64")
    for function in (F.alpha_dropout, F.feature_alpha_dropout):
        assert np.array_equal(function(x).numpy(), x.numpy())
        y = function(x, 0.3, training=True).numpy()
        assert abs(y.mean()) < 0.03
        assert abs(y.std() - 1) < 0.03
    channels = F.feature_alpha_dropout(mg.ones((30, 40, 5)), 0.5, True).numpy()
    assert (np.ptp(channels, axis=2) < 1e-6).all()
    assert len(np.unique(channels[:, :, 0].round(5))) == 2


def test_gumbel_softmax_is_a_distribution_and_hard_one_hot_with_its_gradient() -> None:
    mg.random.manual_seed(0)
    logits = mg.Tensor(np.log(np.array([[0.2, 0.3, 0.5]] * 4000)))
    soft, hard = F.gumbel_softmax(logits, tau=0.5), F.gumbel_softmax(logits, hard=True)
    np.testing.assert_allclose(soft.detach().numpy().sum(axis=-1), 1)
    assert set(np.unique(hard.detach().numpy().round(12))) == {0.0, 1.0}
    np.testing.assert_allclose(hard.detach().numpy().mean(axis=0), [0.2, 0.3, 0.5], atol=0.03)
    (hard * mg.asarray([1.0, 2.0, 3.0])).sum().backward()
    assert abs(logits.grad.numpy()).sum() > 1


def test_rrelu_draws_slopes_while_training() -> None:
    mg.random.manual_seed(0)
    y = F.rrelu(mg.Tensor(-np.ones(1000)), 0.1, 0.3, training=True).detach().numpy()
    assert -0.3 <= y.min() < -0.28
    assert -0.12 < y.max() <= -0.1
    x = mg.Tensor(-np.ones(3)) * 1
    assert F.rrelu_(x, 0.1, 0.3, True) is x


def test_attention_drops_weights() -> None:
    mg.random.manual_seed(0)
    q = mg.random.normal((2, 3, 4))
    dropped = F.scaled_dot_product_attention(q, q, mg.ones((2, 3, 1)), dropout_p=0.5).numpy()
    assert len(np.unique(dropped.round(5))) > 3
    causal = [F.scaled_dot_product_attention(q, q, q, None, p, True).numpy() for p in (0.0, 1e-9)]
    np.testing.assert_allclose(*causal, rtol=1e-6)


def test_fractional_pooling_draws_where_windows_lie() -> None:
    mg.random.manual_seed(0)
    x = mg.asarray(np.arange(63.0).reshape(1, 1, 7, 9))
    drawn = {tuple(F.fractional_max_pool2d(x, 2, 4).numpy().ravel()) for _ in range(20)}
    assert len(drawn) > 3


def test_a_row_s_gradient_is_divided_by_how_often_it_is_named_in_bags_too() -> None:
    """torch divides by something else in bags, on the cpu; so the definition is held against."""
    weight = mg.Tensor(np.ones((6, 1)))
    F.embedding_bag(mg.asarray([[0, 4, 4], [4, 5, 5]]), weight, mode="sum", scale_grad_by_freq=True).sum().backward()
    assert weight.grad.numpy().ravel().tolist() == [1, 0, 0, 0, 1, 1]


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────

ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: F.conv2d(mg.ones((3, 3)), mg.ones((1, 1, 2, 2))), ValueError, r"conv2d: the input has 2 spatial axes"),
    (lambda: F.conv1d(mg.ones((1, 1, 5)), mg.ones((1, 1, 2)), stride=2, padding="same"), ValueError, "needs stride 1"),
    (lambda: F.conv3d(mg.ones((1, 3, 3, 3, 3)), mg.ones((1, 2, 2, 2, 2))), ValueError, "do not fit in 1 groups"),
    (lambda: F.max_pool2d(mg.ones((1, 1, 3, 3)), 2, padding=2), ValueError, "padding at most half the kernel"),
    (lambda: F.max_pool1d(mg.ones((1, 1, 3)), 5), ValueError, r"a kernel of \(5,\) .* does not fit into \(3,\)"),
    (lambda: F.pad(mg.ones((2, 3)), (1,)), ValueError, r"pad: \[1\] is not a pair"),
    (lambda: F.pad(mg.ones((2, 3)), (1, 1), "mirror"), ValueError, "mode is 'constant', 'reflect', 'replicate' or"),
    (lambda: F.pad(mg.ones((2, 3)), (-2, -2)), ValueError, "takes away more than there is"),
    (lambda: F.interpolate(mg.ones((1, 1, 4)), 3, mode="bilinear"), ValueError, "not for shape .* try 'nearest'"),
    (lambda: F.interpolate(mg.ones((1, 1, 4))), ValueError, "give either size or scale_factor"),
    (lambda: F.grid_sample(mg.ones((1, 1, 2, 2)), mg.ones((1, 2, 2, 3))), ValueError, "do not fit"),
    (lambda: F.group_norm(mg.ones((2, 3)), 2), ValueError, "2 groups do not divide the channels"),
    (
        lambda: F.layer_norm(mg.ones((2, 3)), (2,)),
        ValueError,
        r"normalized_shape \(2,\) is not how shape \(2, 3\) ends",
    ),
    (lambda: F.batch_norm(mg.ones((2, 3)), None, None), ValueError, "without training it needs running_mean"),
    (lambda: F.glu(mg.ones(3)), ValueError, "must be even"),
    (lambda: F.embedding(mg.asarray([0]), mg.ones((2, 2)), sparse=True), ValueError, "leave sparse=False"),
    (lambda: F.embedding(mg.asarray([0]), mg.ones((2, 2)), padding_idx=2), ValueError, "names none of the 2 rows"),
    (lambda: F.mse_loss(mg.ones(2), mg.ones(2), reduction="avg"), ValueError, "reduction is 'mean', 'sum' or 'none'"),
    (lambda: F.ctc_loss(mg.ones((3, 1, 2)), mg.asarray([[1]]), (4,), (1,)), ValueError, "do not fit log_probs"),
    (lambda: F.pixel_shuffle(mg.ones((3, 2, 2)), 2), ValueError, r"no multiple of 2 \*\* 2"),
    (lambda: F.prelu(mg.ones((2, 3)), mg.ones(2)), ValueError, "does not fit the channels"),
    (lambda: F.scaled_dot_product_attention(*[mg.ones((2, 2))] * 4, is_causal=True), ValueError, "not both"),
    (lambda: F.relu_(mg.Tensor([1.0])), RuntimeError, "leaf|requires|written"),
]


@pytest.mark.parametrize(("call", "kind", "says"), ERRORS)
def test_errors_say_what_to_type(call: Callable[[], Any], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


@pytest.mark.parametrize("word", ["size_average", "reduce"])
def test_what_torch_no_longer_recommends_says_what_to_write(word: str) -> None:
    x = mg.asarray([1.0])
    for function in (F.mse_loss, lambda x, y, **given: mg.nn.MSELoss(**given), mg.nn.mse_loss):
        with pytest.raises(TypeError, match=f"instead of {word}=: write reduction='mean', 'sum' or 'none'"):
            function(x, x, **{word: False})
