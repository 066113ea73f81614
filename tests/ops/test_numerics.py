"""Numbers at the edges: where the naive formula fails, ties, NaN, infinities, zeros; and torch's gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, asarray
from micrograd_core.array import functions
from micrograd_core.conformance.cases import draw
from micrograd_core.ops import TABLE, Array, Op, Sample

F = functions.FUNCTIONS


def values(x: Tensor) -> Any:
    return x.tolist()


def test_softmaxes_and_logsumexp_do_not_overflow(device: Device) -> None:
    x = Tensor([[1000.0, 1000.0], [-1000.0, 0.0]], device=device)
    assert values(x.logsumexp(axis=1)) == pytest.approx([1000.6931], rel=1e-6) or values(x.logsumexp(axis=1))[1] == 0.0
    np.testing.assert_allclose(x.softmax().detach().numpy(), [[0.5, 0.5], [0.0, 1.0]])
    np.testing.assert_allclose(x.log_softmax().detach().numpy(), [[-math.log(2)] * 2, [-1000.0, 0.0]], rtol=1e-6)
    x.logsumexp(axis=1).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [[0.5, 0.5], [0.0, 1.0]])


def test_logsumexp_of_infinities(device: Device) -> None:
    x = asarray([[-math.inf, -math.inf], [math.inf, 1.0]], device=device)
    with np.errstate(divide="ignore"):
        assert values(x.logsumexp(axis=1)) == [-math.inf, math.inf]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spec", ["cpu", "rawbuffer:0", "strict:0"])
def test_the_gamma_function_has_its_poles_however_far_out(spec: str, dtype: str) -> None:
    odd = [-float(2**p + n) for p in ((21, 22, 23) if dtype == "float32" else (50, 51, 52)) for n in (1, 3, 101)]
    x = asarray([-1.0, -3.0, *odd], dtype=dtype, device=spec)
    with np.errstate(all="ignore"):
        assert values(F["lgamma"](x)) == [math.inf] * len(x)
        assert np.isnan(values(F["digamma"](x))).all()
    with np.errstate(all="raise"):
        assert values(F["lgamma"](asarray([-2.5, -1.5, -(2.0**19) - 0.5], device="cpu"))) == pytest.approx(
            [math.lgamma(each) for each in (-2.5, -1.5, -(2.0**19) - 0.5)], rel=1e-5
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spec", ["cpu", "rawbuffer:0", "strict:0"])
def test_expm1_overflows_no_sooner_than_its_result(spec: str, dtype: str) -> None:
    top = math.log(np.finfo(dtype).max)
    x = np.linspace(0.9 * top, 0.9999 * top, 20).astype(dtype)
    np.testing.assert_allclose(values(F["expm1"](asarray(x, device=spec))), np.expm1(x), rtol=1e-4)


def test_sigmoid_and_tanh_tails(device: Device) -> None:
    x = Tensor([-1000.0, -40.0, 0.0, 40.0, 1000.0], dtype="float64", device=device)
    s = values(x.sigmoid())
    assert s[0] == 0.0
    assert s[1] == pytest.approx(math.exp(-40), rel=1e-12)
    assert s[2:] == [0.5, 1.0, 1.0]
    assert values(x.tanh()) == [-1.0, -1.0, 0.0, 1.0, 1.0]
    (x.sigmoid() + x.tanh()).sum().backward()
    assert x.grad is not None
    assert all(map(math.isfinite, values(x.grad)))


def test_small_arguments_keep_their_digits(device: Device) -> None:
    x = asarray([1e-12, -1e-12, 1e-300], dtype="float64", device=device)
    for name in ("expm1", "log1p", "tanh"):
        np.testing.assert_allclose(F[name](x).numpy(), x.numpy(), rtol=1e-11)


def test_variance_of_large_numbers_with_small_spread(device: Device) -> None:
    noise = np.array([0.25, -0.5, 0.75, -0.5])
    x = asarray(1e8 + noise, device=device)
    assert x.var(correction=0).item() == pytest.approx(noise.var(), rel=1e-6)


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("correction", [2, 3.5])
def test_a_variance_without_degrees_of_freedom_is_nan(name: str, correction: float, device: Device) -> None:
    x = asarray([[1.0, 2.0], [3.0, 5.0]], device=device)
    assert all(map(math.isnan, values(F[name](x, axis=1, correction=correction))))


def test_cross_entropy_of_confident_logits(device: Device) -> None:
    logits = Tensor([[500.0, -500.0], [500.0, -500.0]], device=device)
    loss = F["cross_entropy"](logits, asarray([0, 1], device=device), reduction="none")
    assert values(loss) == [0.0, 1000.0]
    loss.sum().backward()
    assert logits.grad is not None
    assert values(logits.grad) == [[0.0, 0.0], [1.0, -1.0]]


@pytest.mark.parametrize("target", [2, -1])
def test_cross_entropy_is_never_silently_wrong(target: int) -> None:
    with pytest.raises(IndexError, match="class indices from 0 to 1"):
        F["cross_entropy"](Tensor([[1.0, 2.0]]), asarray([target]))
    assert math.isnan(
        F["cross_entropy"](Tensor([[1.0, 2.0]], device="rawbuffer"), asarray([target], device="rawbuffer")).item()
    )


def test_ties_share_the_gradient_evenly(device: Device) -> None:
    x = Tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], dtype="float64", device=device)
    (x.max(axis=1) + x.min(axis=1)).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [[1.0, 0.5, 0.5], [2 / 3] * 3])
    a, b = Tensor([1.0, 2.0], device=device), Tensor([1.0, 1.0], device=device)
    (F["maximum"](a, b) + F["minimum"](a, b)).sum().backward()
    assert a.grad is not None
    assert values(a.grad) == [1.0, 1.0]
    c = Tensor([1.0, 2.0], device=device)
    F["maximum"](c, 1.0).sum().backward()
    assert c.grad is not None
    assert values(c.grad) == [0.5, 1.0]


def test_gradients_at_kinks_and_zeros(device: Device) -> None:
    for name, expected in (("relu", 0.0), ("abs", 0.0), ("sign", 0.0), ("square", 0.0)):
        x = Tensor(0.0, device=device)
        F[name](x).backward()
        assert x.grad is not None
        assert x.grad.item() == expected
    for exponent, expected in ((0, 0.0), (1, 1.0), (2, 0.0), (3.0, 0.0)):
        x = Tensor(0.0, device=device)
        y = x**exponent
        assert y.item() == float(exponent == 0)
        y.backward()
        assert x.grad is not None
        assert x.grad.item() == expected
    base, exponent_ = Tensor(0.0, device=device), Tensor(0.0, device=device)
    (base**exponent_).backward()
    assert base.grad is not None
    assert exponent_.grad is not None
    assert base.grad.item() == 0.0
    assert exponent_.grad.item() == 0.0


def test_where_keeps_nan_of_the_branch_not_taken_out(device: Device) -> None:
    x = Tensor([0.0, 4.0], device=device)
    with np.errstate(divide="ignore"):
        y = F["where"](x > 0, x.log(), 0.0)
        assert values(y)[0] == 0.0
        safe = F["where"](x > 0, x, 1.0).log()
    safe.sum().backward()
    assert x.grad is not None
    assert values(x.grad) == [0.0, 0.25]


def test_nan_propagates_through_extrema_and_comparisons(device: Device) -> None:
    x = asarray([1.0, math.nan, 3.0], device=device)
    assert math.isnan(x.max().item())
    assert math.isnan(x.min().item())
    assert x.argmax().item() == 1
    assert math.isnan(values(F["maximum"](x, 2.0))[1])
    assert values(x <= 5.0) == [True, False, True]
    assert values(x != x) == [False, True, False]
    assert values(F["isnan"](x)) == [False, True, False]
    assert values(F["isfinite"](asarray([math.inf, 1.0], device=device))) == [False, True]


def test_integers_wrap_and_extrema_of_the_type_survive(device: Device) -> None:
    x = asarray([-128, 127], dtype="int8", device=device)
    assert x.min().item() == -128
    assert x.max().item() == 127
    assert values(F["minimum"](x, 0)) == [-128, 0]
    assert values(-asarray([1, 0], dtype="uint8", device=device)) == [255, 0]
    assert values(~asarray([1, 0], dtype="uint8", device=device)) == [254, 255]


def test_empty_reductions(device: Device) -> None:
    x = zeros = asarray([], device=device)
    assert x.sum().item() == 0.0
    assert zeros.any().item() is False
    assert x.all().item() is True


CASES = [
    pytest.param(op, sample, id=f"{op.name}-{i}")
    for op in TABLE.values()
    for i, sample in enumerate(op.samples)
    if (
        op.differentiable
        and op.name
        in ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "sigmoid", "relu", "abs", "square")
    )
    or op.name in ("add", "subtract", "multiply", "divide", "pow", "maximum", "minimum", "matmul")
]


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_elementwise_values_and_gradients_equal_torch(op: Op, sample: Sample) -> None:
    torch = pytest.importorskip("torch")
    drawn = [
        np.array(flat).reshape(o.shape) if isinstance(o, Array) else flat
        for o, flat in zip(sample.operands, draw(sample), strict=True)
    ]
    ours = [Tensor(x) if isinstance(x, np.ndarray) else x for x in drawn]
    theirs = [torch.tensor(x, requires_grad=True) if isinstance(x, np.ndarray) else torch.tensor(x) for x in drawn]
    result, expected = F[op.name](*ours), getattr(torch, op.name)(*theirs)
    np.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=1e-12, atol=1e-14)
    (result * result).sum().backward()
    (expected * expected).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(a, Tensor):
            assert a.grad is not None
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "var", "std", "logsumexp"])
def test_reductions_equal_torch(name: str, axis: Any) -> None:
    torch = pytest.importorskip("torch")
    data = np.random.default_rng(0).integers(0, 3, size=(3, 4)).astype(float)
    x, y = Tensor(data), torch.tensor(data, requires_grad=True)
    ours = F[{"amax": "max", "amin": "min"}.get(name, name)](x, axis=axis)
    dims = {"dim": tuple(range(2)) if axis is None else axis}
    theirs = getattr(torch, name)(y, **dims, **({"correction": 0} if name in ("var", "std") else {}))
    (ours * ours).sum().backward()
    (theirs * theirs).sum().backward()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-10, atol=1e-12)
