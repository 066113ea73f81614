"""Operations of networks: equal to torch in values and gradients, and right where a naive formula fails."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Device, Tensor, asarray, gradcheck, gradgradcheck
from micrograd_core.errors import DTypeError, ShapeError
from micrograd_core.ops import TABLE


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def values(x: Tensor | None) -> Any:
    assert x is not None
    return x.detach().numpy()


# ── torch ────────────────────────────────────────────────────────────────────────────────────────────────────

X, W = drawn(2, 4, 6, 7), drawn(6, 2, 3, 2, seed=1)
SCALES = abs(drawn(4))


def like(x: Any, array: Any) -> Any:
    """A constant for torch."""
    return x.new_tensor(array)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Any]]] = {
    "gelu": (mg.gelu, lambda f, x: f.gelu(x), [drawn(50) * 3]),
    "gelu tanh": (
        lambda x: mg.gelu(x, approximate="tanh"),
        lambda f, x: f.gelu(x, approximate="tanh"),
        [drawn(50) * 3],
    ),
    "silu": (mg.silu, lambda f, x: f.silu(x), [drawn(50) * 5]),
    "mish": (mg.mish, lambda f, x: f.mish(x), [drawn(50) * 5]),
    "elu": (lambda x: mg.elu(x, alpha=0.7), lambda f, x: f.elu(x, 0.7), [drawn(50) * 5]),
    "leaky_relu": (mg.leaky_relu, lambda f, x: f.leaky_relu(x), [np.array([-2.0, 0.0, 3.0])]),
    "softplus": (mg.softplus, lambda f, x: f.softplus(x), [drawn(50) * 5]),
    "log_sigmoid": (mg.log_sigmoid, lambda f, x: f.logsigmoid(x), [drawn(50) * 5]),
    "hardtanh": (mg.hardtanh, lambda f, x: f.hardtanh(x), [np.array([-2.0, -1.0, 0.5, 1.0, 3.0])]),
    "conv2d": (
        lambda x, w, b: mg.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
        lambda f, x, w, b: f.conv2d(x, w, b, (2, 1), (1, 2), (1, 2), 2),
        [X, W, drawn(6)],
    ),
    "conv1d": (lambda x, w: mg.conv1d(x, w), lambda f, x, w: f.conv1d(x, w), [drawn(2, 3, 5), drawn(4, 3, 5)]),
    "conv_transpose2d": (
        lambda x, w: mg.conv_transpose2d(x, w, stride=3, padding=1, output_padding=2, groups=2),
        lambda f, x, w: f.conv_transpose2d(x, w, None, 3, 1, 2, 2),
        [X, drawn(4, 3, 2, 3)],
    ),
    "max_pool2d": (lambda x: mg.max_pool2d(x, 3, stride=2, padding=1), lambda f, x: f.max_pool2d(x, 3, 2, 1), [X]),
    "avg_pool2d": (lambda x: mg.avg_pool2d(x, 3, padding=1), lambda f, x: f.avg_pool2d(x, 3, padding=1), [X]),
    "batch_norm": (
        lambda x, w, b: mg.batch_norm(x, weight=w, bias=b, training=True),
        lambda f, x, w, b: f.batch_norm(x, None, None, w, b, True),
        [X, drawn(4), drawn(4, seed=1)],
    ),
    "layer_norm": (
        lambda x, w, b: mg.layer_norm(x, w, b, axis=(-2, -1)),
        lambda f, x, w, b: f.layer_norm(x, (6, 7), w, b),
        [X, drawn(6, 7), drawn(6, 7, seed=1)],
    ),
    "attention": (
        lambda q, k, v: mg.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
        [drawn(2, 3, 4, 5), drawn(2, 3, 6, 5, seed=1), drawn(2, 3, 6, 2, seed=2)],
    ),
    "attention with a mask": (
        lambda q, k, v, m: mg.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.3),
        lambda f, q, k, v, m: f.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.3),
        [drawn(2, 4, 5), drawn(2, 6, 5, seed=1), drawn(2, 6, 2, seed=2), drawn(4, 6)],
    ),
    "huber_loss": (
        lambda x, y: mg.huber_loss(x, y, delta=0.7, reduction="sum"),
        lambda f, x, y: f.huber_loss(x, y, reduction="sum", delta=0.7),
        [drawn(20), drawn(20, seed=1)],
    ),
    "l1_loss": (mg.l1_loss, lambda f, x, y: f.l1_loss(x, y), [np.array([1.0, 2.0, 0.0]), np.array([1.0, 0.0, 5.0])]),
    "bce": (
        lambda x, y: mg.binary_cross_entropy_with_logits(x, y, asarray(SCALES), asarray(SCALES * 2)),
        lambda f, x, y: f.binary_cross_entropy_with_logits(x, y, like(x, SCALES), pos_weight=like(x, SCALES * 2)),
        [drawn(5, 4) * 5, abs(drawn(5, 4))],
    ),
    "kl_div": (
        lambda x, y: mg.kl_div(x, y, reduction="batchmean"),
        lambda f, x, y: f.kl_div(x, y, reduction="batchmean"),
        [drawn(3, 4), np.array([[0.0, 0.5, 0.25, 0.25]] * 3)],
    ),
    "kl_div of logarithms": (
        lambda x, y: mg.kl_div(x, y, log_target=True),
        lambda f, x, y: f.kl_div(x, y, log_target=True, reduction="mean"),
        [drawn(3, 4), drawn(3, 4, seed=1)],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore:reduction. 'mean'")
def test_values_and_gradients_equal_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs, arrays = FUNCTIONS[name]
    xs, ys = [Tensor(x) for x in arrays], [torch.tensor(x, requires_grad=True) for x in arrays]
    out, expected = ours(*xs), theirs(torch.nn.functional, *ys)
    np.testing.assert_allclose(values(out), expected.detach().numpy(), rtol=1e-11, atol=1e-12)
    (out * out).sum().backward()
    (expected * expected).sum().backward()
    for x, y in zip(xs, ys, strict=True):
        if name == "kl_div" and x is xs[1]:
            continue  # torch's is log(0) where a probability is 0
        np.testing.assert_allclose(values(x.grad), y.grad.numpy(), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("loss", [mg.mse_loss, mg.kl_div])
def test_a_loss_of_one_target_for_all_has_the_gradient_of_all(loss: Callable[..., Tensor]) -> None:
    x, y = Tensor([[0.1, 0.2, 0.3]], requires_grad=True), Tensor(0.5, requires_grad=True)
    assert gradcheck(loss, [x.astype("float64"), y.astype("float64")])
    loss(x, y).backward()
    assert x.grad is not None
    assert x.grad.shape == (1, 3)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["indices", "probabilities"])
def test_cross_entropy_equals_torch(kind: str, label_smoothing: float, reduction: str, device: Device) -> None:
    torch = pytest.importorskip("torch")
    for shape, weight, ignored in itertools.product(((5, 4), (2, 4, 3)), (None, [0.5, 0.0, 2.0, 1.0]), (-100, 1)):
        logits = drawn(*shape)
        if kind == "indices":
            targets = np.random.default_rng(0).integers(4, size=(shape[0], *shape[2:]))
            targets.flat[1] = ignored
        else:
            targets = np.random.default_rng(0).uniform(size=shape)
        x, t, w = Tensor(logits, device=device), Tensor(targets, device=device), None
        y, u, v = torch.tensor(logits, requires_grad=True), torch.tensor(targets), None
        if weight is not None:
            w, v = asarray(weight, dtype="float64", device=device), torch.tensor(weight, dtype=torch.float64)
        u.requires_grad = kind == "probabilities"
        options = {"ignore_index": ignored if kind == "indices" else -100, "label_smoothing": label_smoothing}
        out = mg.cross_entropy(x, t, w, reduction=reduction, **options)
        expected = torch.nn.functional.cross_entropy(y, u, v, reduction=reduction, **options)
        np.testing.assert_allclose(values(out), expected.detach().numpy(), rtol=1e-12, atol=1e-13)
        (out * out).sum().backward()
        (expected * expected).sum().backward()
        np.testing.assert_allclose(values(x.grad), y.grad.numpy(), rtol=1e-10, atol=1e-12)
        if kind == "probabilities":
            np.testing.assert_allclose(values(t.grad), u.grad.numpy(), rtol=1e-10, atol=1e-12)
        elif not label_smoothing:
            np.testing.assert_allclose(
                values(mg.nll_loss(x.log_softmax(axis=1), t, w, ignore_index=ignored, reduction=reduction)),
                expected.detach().numpy(),
                rtol=1e-12,
                atol=1e-13,
            )


# ── where the naive form fails ───────────────────────────────────────────────────────────────────────────────


def test_the_error_functions_are_exact_everywhere(device: Device) -> None:
    points = [*np.linspace(-6, 6, 241), 1e-300, -1e-12, 0.46875, 4.0, 10.0, 26.0, -30.0]
    x = asarray(points, dtype="float64", device=device)
    np.testing.assert_allclose(values(mg.erf(x)), [math.erf(p) for p in points], rtol=1e-15)
    np.testing.assert_allclose(values(mg.erfc(x)), [math.erfc(p) for p in points], rtol=2e-15)
    ends = asarray([math.inf, -math.inf, math.nan], dtype="float64", device=device)
    assert values(mg.erf(ends)).tolist()[:2] == [1.0, -1.0]
    assert values(mg.erfc(ends)).tolist()[:2] == [0.0, 2.0]
    assert math.isnan(values(mg.erf(ends))[2])


def test_gelu_keeps_the_digits_of_its_left_tail(device: Device) -> None:
    """``1 + erf(-10 / sqrt(2))`` is 0."""
    x = Tensor([-10.0, -30.0], dtype="float64", device=device)
    exact = [-10 * math.erfc(10 / 2**0.5) / 2, -30 * math.erfc(30 / 2**0.5) / 2]
    np.testing.assert_allclose(values(mg.gelu(x)), exact, rtol=1e-12)
    single = mg.gelu(asarray([-10.0, -3.0, 3.0], device=device))
    np.testing.assert_allclose(values(single)[1:], [-3 * math.erfc(3 / 2**0.5) / 2, 2.9959502], rtol=2e-6)
    np.testing.assert_allclose(values(single)[0], exact[0], rtol=2e-5)
    assert values(mg.gelu(x, approximate="tanh"))[0] < 0


def test_softplus_and_log_sigmoid_far_out(device: Device) -> None:
    """``log(1 + exp(100))`` overflows in float32, ``log(1 + exp(-100))`` is log(1)."""
    x = Tensor([-100.0, -20.0, 0.0, 100.0], dtype="float64", device=device)
    expected = [math.exp(-100), math.log1p(math.exp(-20)), math.log(2), 100.0]
    np.testing.assert_allclose(values(mg.softplus(x)), expected, rtol=1e-14)
    np.testing.assert_allclose(values(mg.log_sigmoid(-x)), [-e for e in expected], rtol=1e-14)
    assert values(mg.softplus(asarray([1000.0, -1000.0], device=device))).tolist() == [1000.0, 0.0]
    for f in (mg.softplus, mg.silu, mg.mish, mg.log_sigmoid, mg.elu, mg.gelu, mg.sigmoid):
        y = Tensor([-1000.0, -90.0, 90.0, 1000.0], device=device)
        f(y).sum().backward()
        assert np.isfinite(values(y.grad)).all(), f.__name__


def test_binary_cross_entropy_of_confident_logits(device: Device) -> None:
    """``log(1 - sigmoid(100))`` is log(0)."""
    x = Tensor([100.0, -100.0, 100.0, -100.0], dtype="float64", device=device)
    y = asarray([1.0, 0.0, 0.0, 1.0], dtype="float64", device=device)
    loss = mg.binary_cross_entropy_with_logits(x, y, reduction="none")
    np.testing.assert_allclose(values(loss), [math.exp(-100), math.exp(-100), 100.0, 100.0], rtol=1e-14)
    loss.sum().backward()
    tail = math.exp(-100)
    np.testing.assert_allclose(values(x.grad), [-tail, tail, 1.0, -1.0], rtol=1e-13)


def test_layer_norm_of_large_numbers_with_small_spread(device: Device) -> None:
    """``mean(x**2) - mean(x)**2`` has no digits left."""
    noise = np.array([[0.25, -0.5, 0.75, -0.5]])
    x = asarray(1e7 + noise, dtype="float64", device=device)
    expected = noise / np.sqrt(noise.var() + 1e-5)
    np.testing.assert_allclose(values(mg.layer_norm(x)), expected, rtol=1e-6)


def test_rows_without_spread_standardise_to_zero(device: Device) -> None:
    x = Tensor([[3.0, 3.0, 3.0]], dtype="float64", device=device)
    y = mg.layer_norm(x)
    assert values(y).tolist() == [[0.0, 0.0, 0.0]]
    (y * asarray([1.0, 2.0, 4.0], dtype="float64", device=device)).sum().backward()
    assert np.isfinite(values(x.grad)).all()


def test_half_precision_adds_up_in_single() -> None:
    x = asarray(np.ones((1, 4096), "float16") * 32)
    assert values(mg.rms_norm(x))[0, 0] == 1.0  # 4096 * 32**2 is beyond float16
    assert values(mg.softmax(asarray(np.zeros((1, 2**17), "float16"))))[0, 0] == np.float16(2.0**-17)
    picture, kernel = asarray(np.full((1, 256, 3, 3), 8, "float16")), asarray(np.full((1, 256, 3, 3), 4, "float16"))
    assert values(mg.conv2d(picture, kernel * 0.125))[0, 0, 0, 0] == 9216.0
    losses = mg.mse_loss(asarray(np.full(4096, 8, "float16")), asarray(np.zeros(4096, "float16")))
    assert values(losses) == 64.0
    logits = asarray(np.zeros((2**12, 2**5), "float16"))
    loss = mg.cross_entropy(logits, asarray(np.zeros(2**12, "int64")))
    assert values(loss) == np.float16(math.log(32))
    for result in (loss, losses, mg.layer_norm(x), mg.gelu(x), mg.max_pool2d(picture, 2)):
        assert str(result.dtype) == "float16"


# ── edges ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_ignored_positions_have_no_say_whatever_their_logits(device: Device) -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]], device=device)
    mg.cross_entropy(x, asarray([0, -100, 1], device=device)).backward()
    assert values(x.grad)[1].tolist() == [0.0, 0.0]
    assert mg.cross_entropy(x, asarray([0, -100, 1], device=device)).item() == pytest.approx(
        mg.cross_entropy(x[::2], asarray([0, 1], device=device)).item(), rel=1e-6
    )


def test_a_mean_over_no_positions_is_nan_and_moves_nothing(device: Device) -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    with np.errstate(invalid="ignore"):
        loss = mg.cross_entropy(x, asarray([-100, -100], device=device))
    assert math.isnan(loss.item())
    loss.backward()
    assert values(x.grad).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert mg.cross_entropy(x, asarray([-100, -100], device=device), reduction="sum").item() == 0.0
    y = Tensor(np.zeros((0, 3)), device=device)
    empty = asarray(np.zeros(0, "int64"), device=device)
    assert mg.cross_entropy(y, empty, reduction="sum").item() == 0.0
    assert mg.cross_entropy(y, empty, reduction="none").shape == (0,)


def test_impossible_classes_that_nobody_aims_at_cost_nothing(device: Device) -> None:
    x = Tensor([[0.0, -math.inf, 0.0]], device=device)
    loss = mg.cross_entropy(x, asarray([0], device=device))
    assert loss.item() == pytest.approx(math.log(2))
    loss.backward()
    np.testing.assert_allclose(values(x.grad), [[-0.5, 0.0, 0.5]], rtol=1e-6)


@pytest.mark.parametrize("index", [4, -1])
def test_embedding_is_never_silently_wrong(index: int) -> None:
    table = np.ones((4, 2))
    with pytest.raises(IndexError, match="indices must be from 0 to 3"):
        mg.embedding(asarray([0, index]), Tensor(table))
    out = mg.embedding(asarray([0, index], device="rawbuffer"), Tensor(table, device="rawbuffer"))
    assert values(out)[0].tolist() == [1.0, 1.0]
    assert np.isnan(values(out)[1]).all()


def test_rows_used_twice_receive_both_gradients(device: Device) -> None:
    table = Tensor(np.zeros((3, 2)), device=device)
    out = mg.embedding(asarray([[0, 2], [2, 2]], device=device), table)
    (out * asarray([1.0, 10.0], dtype="float64", device=device)).sum().backward()
    assert values(table.grad).tolist() == [[1.0, 10.0], [0.0, 0.0], [3.0, 30.0]]


@pytest.mark.parametrize("mask", ["bool", "float64"])
def test_who_may_look_nowhere_gets_zero_rather_than_nan(mask: str, device: Device) -> None:
    q, k, v = (Tensor(drawn(2, 3, 4, seed=seed), device=device) for seed in range(3))
    allowed = np.array([[True, False, True], [False, False, False], [True, True, True]])
    given = allowed if mask == "bool" else np.where(allowed, 0.0, -np.inf)
    out = mg.scaled_dot_product_attention(q, k, v, attn_mask=asarray(given, device=device))
    assert values(out)[:, 1].tolist() == [[0.0] * 4] * 2
    out.sum().backward()
    for x in (q, k, v):
        assert np.isfinite(values(x.grad)).all()
    assert values(q.grad)[:, 1].tolist() == [[0.0] * 4] * 2


def test_tied_maxima_of_a_window_share_its_gradient(device: Device) -> None:
    x = Tensor([[[[1.0, 1.0], [0.0, 1.0]]]], dtype="float64", device=device)
    mg.max_pool2d(x, 2).sum().backward()
    np.testing.assert_allclose(values(x.grad)[0, 0], [[1 / 3, 1 / 3], [0.0, 1 / 3]])


def test_padding_never_wins_a_maximum(device: Device) -> None:
    x = asarray([[[-5.0, -3.0, -4.0]]], device=device)
    assert values(mg.max_pool1d(x, 3, stride=1, padding=1)).tolist() == [[[-3.0, -3.0, -3.0]]]
    assert values(mg.avg_pool1d(x, 2, stride=1, padding=1)).tolist() == [[[-2.5, -4.0, -3.5, -2.0]]]


def test_empty_batches_pass(device: Device) -> None:
    x = Tensor(np.zeros((0, 3, 5, 5)), device=device)
    weight = Tensor(np.ones((2, 3, 3, 3)), device=device)
    y = mg.max_pool2d(mg.conv2d(x, weight, padding=1), 2)
    assert y.shape == (0, 2, 2, 2)
    y.sum().backward()
    assert values(weight.grad).tolist() == np.zeros((2, 3, 3, 3)).tolist()
    assert mg.layer_norm(x).shape == x.shape
    assert mg.scaled_dot_product_attention(*[Tensor(np.zeros((0, 2, 4)), device=device)] * 3).shape == (0, 2, 4)


def test_convolution_is_differentiable_to_second_order_with_all_its_parameters() -> None:
    x, w, b = Tensor(drawn(1, 4, 4, 3)), Tensor(drawn(4, 2, 2, 2, seed=1)), Tensor(drawn(4, seed=2))

    def f(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return mg.conv2d(x, w, b, stride=2, padding=1, dilation=(2, 1), groups=2)

    assert gradcheck(f, [x, w, b])
    assert gradgradcheck(f, [x, w, b])


def test_operands_may_be_left_out_named_or_none() -> None:
    x, weight, bias = Tensor(drawn(2, 3)), Tensor(drawn(3, seed=1)), Tensor(drawn(3, seed=2))
    plain = values(mg.layer_norm(x))
    np.testing.assert_array_equal(values(mg.layer_norm(x, None, None)), plain)
    np.testing.assert_allclose(
        values(mg.layer_norm(x, bias=bias, weight=weight)), plain * values(weight) + values(bias)
    )
    with pytest.raises(TypeError, match="conv2d takes at least 2 operands; got 1"):
        mg.conv2d(x)
    with pytest.raises(TypeError, match="unexpected keyword argument 'epsilon'"):
        mg.layer_norm(x, epsilon=1.0)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: mg.conv2d(x, x), ShapeError, r"weight is \(outputs.*4 axes"),
        (lambda x: mg.conv_transpose1d(x[None], x[None], output_padding=1), ShapeError, "less than the stride"),
        (lambda x: mg.patches(x, kernel_size=2), ShapeError, "axes batch, channels and spatial"),
        (lambda x: mg.batch_norm(x, weight=x), ShapeError, "one number for each of its 3 channels"),
        (lambda x: mg.cross_entropy(x, asarray([0, 1, 2])), ShapeError, r"targets of shape \(3,\).*or floating prob"),
        (lambda x: mg.cross_entropy(x, asarray([0.0, 1.0])), ShapeError, r"float32 targets of shape \(2,\).*integer"),
        (
            lambda x: mg.cross_entropy(x, x.astype("int64")),
            ShapeError,
            r"int64 targets of shape \(2, 3\).*: \(2,\), or",
        ),
        (lambda x: mg.cross_entropy(x[0], 1.5), ShapeError, r"float targets of shape \(\)"),
        (lambda x: mg.cross_entropy(x, asarray([0, 1]), weight=x[0, :2]), ShapeError, "each of the 3 classes"),
        (lambda x: mg.cross_entropy(x, asarray([0, 1]), label_smoothing=2.0), ValueError, "between 0 and 1; got 2.0"),
        (lambda x: mg.nll_loss(x, x), ShapeError, "one integer class index for each position"),
        (lambda x: mg.nll_loss(x, x[:, 0]), DTypeError, "takes signed integer or unsigned"),
        (lambda x: mg.l1_loss(x, x[0]), ShapeError, r"shapes \(2, 3\) and \(3,\) must be equal"),
        (lambda x: mg.huber_loss(x, x, delta=0), ValueError, "delta must be positive"),
        (lambda x: mg.kl_div(x, x, reduction="avg"), ValueError, "'mean', 'sum', 'batchmean' or 'none'; got 'avg'"),
        (lambda x: mg.gelu(x, approximate="erf"), ValueError, "approximate is none or tanh; got 'erf'"),
        (lambda x: mg.hardtanh(x, min_val=2), ValueError, "min_val must not exceed"),
        (lambda x: mg.embedding(asarray([0]), x[0]), ShapeError, r"number of embeddings, features.*\(3,\)"),
        (lambda x: mg.scaled_dot_product_attention(x, x, x[:1]), ShapeError, r"value \(1, 3\) do not fit"),
        (lambda x: mg.scaled_dot_product_attention(x, x, x, x), ShapeError, "attn_mask of shape"),
        (lambda x: mg.max_pool2d(x[None, None], (2, 2, 2)), ShapeError, "kernel_size is an integer, or 2 of them"),
    ],
)
def test_errors_name_what_does_not_fit(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(Tensor(drawn(2, 3)))


@pytest.mark.parametrize("shape", [(4, 3), (3, 3, 5), (2, 3, 4, 5)])
def test_the_gradient_of_batch_norm_asks_kernels_for_what_they_take(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    """A weight by channel is none along the axes: it would broadcast to a wrong gradient, or to none."""
    kernels, taken = Device("cpu").kernels, []
    real = kernels.standardize_gradient

    def spied(g: Any, x: Any, weight: Any = 1.0, **params: Any) -> Any:
        taken.append(getattr(weight, "shape", ()) in ((), tuple(x.shape[i] for i in params["axis"])))
        return real(g, x, weight, **params)

    monkeypatch.setattr(kernels, "standardize_gradient", spied)
    compose: Any = TABLE["batch_norm_gradient"].compose
    composed = partial(compose, kernels)  # what a device without a kernel runs
    monkeypatch.setattr(kernels, "batch_norm_gradient", composed)
    x = Tensor(drawn(*shape), requires_grad=True)
    mg.batch_norm(x, weight=Tensor(drawn(3)), training=True).sum().backward()
    assert taken == [True]
