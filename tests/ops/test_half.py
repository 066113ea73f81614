"""float16 and bfloat16: two bytes each, computed in float32 and rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, asarray, ones, zeros
from micrograd_core.array import functions
from micrograd_core.conformance.cases import NAMESPACE, draw
from micrograd_core.ops import TABLE, Array, Op, Sample
from tests.ops.definitions import defined, needs_complex

ml_dtypes = pytest.importorskip("ml_dtypes")
F = functions.FUNCTIONS
HALVES = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
SAMPLES = [
    pytest.param(op, sample, id=f"{op.name}-{i}")
    for op in TABLE.values()
    for i, sample in enumerate(op.samples)
    if not needs_complex(op)
    and not op.extension
    and "dtype" not in sample.params
    and any(isinstance(o, Array) and not o.dtype for o in sample.operands)
    and op.name not in ("nextafter", "floor_divide", "global_norm")  # whose result is wide
]


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("op", "sample"), SAMPLES)
@pytest.mark.filterwarnings("ignore:Mean of empty", "ignore:invalid value", "ignore:Degrees of freedom")
def test_every_operation_stays_in_the_dtype(op: Op, sample: Sample, dtype: str) -> None:
    given: list[Any] = []
    for o, flat in zip(sample.operands, draw(sample), strict=True):
        x = np.array(flat, dtype=o.dtype or dtype).reshape(o.shape) if isinstance(o, Array) else flat
        given.append(x)
    tensors = [asarray(x) if isinstance(x, np.ndarray) else x for x in given]
    function = F[op.name]
    result = function(tensors, **sample.params) if op.operands == -1 else function(*tensors, **sample.params)
    result = result if op.observe is None else op.observe(NAMESPACE, *result)
    wide = [x.astype("float64") if isinstance(x, np.ndarray) and x.dtype.itemsize == 2 else x for x in given]
    expected = defined(op, *wide, **sample.params)
    expected = np.asarray(expected if op.observe is None else op.observe(np, *expected))
    if result.dtype.is_floating:
        assert str(result.dtype) == dtype
        assert result._kernels.dtype(result._handle) is result.dtype
    found = np.asarray(result.tolist(), "float64").reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=8 * HALVES[dtype], atol=8 * HALVES[dtype])


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_have_the_dtype(dtype: str) -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], dtype=dtype)
    y = Tensor([[0.5, 0.25], [1.0, 2.0]], dtype=dtype)
    (((x @ y).tanh() * 0.5 + x[0] / 3).softmax() * y).sum().backward()
    for leaf in (x, y):
        assert leaf.grad is not None
        assert str(leaf.grad.dtype) == dtype
        assert leaf.grad._kernels.dtype(leaf.grad._handle) is leaf.dtype


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", HALVES)
def test_sums_are_accumulated_in_float32(dtype: str, axis: int) -> None:
    """Added one by one in the dtype itself, the sum stops growing at the inverse of its rounding."""
    x = ones((4096, 3) if axis == 0 else (3, 4096), dtype=dtype)
    assert x.sum(axis=axis).tolist() == [4096.0] * 3
    assert F["cumulative_sum"](x, axis=axis).max().item() == 4096.0
    assert x.mean(axis=axis).tolist() == [1.0] * 3
    assert x.var(axis=axis).tolist() == [0.0] * 3
    assert ((x.mT if axis == 0 else x) @ x[:, :1] if axis == 0 else x @ x.mT[:, :1]).tolist() == [[4096.0]] * 3
    naive = np.ones((), x.numpy().dtype)
    for _ in range(4096):
        naive = naive + np.ones((), naive.dtype)
    assert float(naive) < 4096


@pytest.mark.parametrize("dtype", HALVES)
def test_variances_and_softmaxes_are_rounded_once(dtype: str) -> None:
    numbers = 300 + np.arange(64) % 8 * (2.0 if dtype == "bfloat16" else 0.25)
    x = asarray(numbers, dtype="float64").astype(dtype)
    assert x.var(correction=0).item() == pytest.approx(np.var(x.astype("float64").numpy()), rel=HALVES[dtype])
    deviation = x - x.mean()
    assert (deviation * deviation).mean().item() != pytest.approx(numbers.var(), rel=HALVES[dtype])
    assert F["softmax"](x).sum().item() == pytest.approx(1, rel=0.02)
    assert x.log_softmax().tolist() == asarray(x.astype("float32").log_softmax(), dtype=dtype).tolist()


@pytest.mark.parametrize("dtype", HALVES)
def test_numbers_are_weak_beside_them(dtype: str) -> None:
    x = asarray([1.0, 2.0], dtype=dtype)
    for result in (x + 0.5, 2 * x, x**2, x / 3, F["where"](x > 1, x, 0.5), F["maximum"](x, 1.5), x // 2, x % 2):
        assert str(result.dtype) == dtype
        assert result._kernels.dtype(result._handle) is result.dtype
    assert (x + asarray([1.0], dtype="float32")).dtype.name == "float32"


@pytest.mark.parametrize("dtype", HALVES)
def test_views_writes_and_moves(dtype: str) -> None:
    x = zeros((2, 3), dtype=dtype)
    row, flipped = x[1], x.flip(0)
    x[1, 1:] = 2.5
    assert row.tolist() == [0.0, 2.5, 2.5]
    assert flipped.tolist()[0] == [0.0, 2.5, 2.5]
    x += 1
    assert x.mT.tolist() == [[1.0, 1.0], [1.0, 3.5], [1.0, 3.5]]
    assert x.astype("float32").numpy().dtype == np.float32
    assert x.astype("float32").astype(dtype).tolist() == x.tolist()
    assert x.numpy().dtype.itemsize == 2
    assert F["concat"]([x, x], axis=1).shape == (2, 6)
    assert np.from_dlpack(x.astype("float16")).tolist() == x.tolist()


@pytest.mark.parametrize("dtype", HALVES)
def test_long_norms_and_logarithms_of_sums_do_not_overflow_on_the_way(dtype: str) -> None:
    n = 100_000  # more than the greatest float16
    for f, value, slope in (
        (functions.FUNCTIONS["logsumexp"], 1 + np.log(n), 1 / n),
        (functions.FUNCTIONS["vector_norm"], n**0.5, n**-0.5),
        (lambda x: functions.FUNCTIONS["vector_norm"](x, ord=3), n ** (1 / 3), n ** (-2 / 3)),
    ):
        x = Tensor(np.ones(n), dtype=dtype)
        y = f(x)
        assert y.dtype is x.dtype
        assert y.item() == pytest.approx(value, rel=HALVES[dtype])
        y.backward()
        assert x.grad is not None
        assert x.grad[0].item() == pytest.approx(slope, rel=4 * HALVES[dtype], abs=2.0**-24)


@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_moments_of_more_numbers_than_float16_can_count(name: str, device: Device) -> None:
    numbers = 2.0 + np.arange(150_000) % 2
    x = Tensor(numbers, dtype="float16", device=device)
    y = F[name](x)
    y.backward()
    assert x.grad is not None
    slopes = {"mean": [1.0, 1.0], "var": [-1.0, 1.0], "std": [-1.0, 1.0]}[name]  # over n: ±0.5 doubled, or over 0.5
    assert y.item() == {"mean": 2.5, "var": 0.25, "std": 0.5}[name]
    assert x.grad[:2].tolist() == pytest.approx([slope / 150_000 for slope in slopes], rel=5e-3)


def test_the_next_number_is_that_of_the_dtype() -> None:
    one = asarray([1.0], dtype="bfloat16")
    assert F["nextafter"](one, 2.0).item() == 1 + 2.0**-7
    assert F["nextafter"](one.astype("float16"), 2.0).item() == 1 + 2.0**-10


def test_a_device_that_has_bfloat16_without_numpy() -> None:
    assert "bfloat16" in Device("cpu").kernels.backend.dtypes
    assert asarray([1.0, 3.0], dtype="bfloat16").numpy().dtype == ml_dtypes.bfloat16
    assert asarray(np.array([1.5], ml_dtypes.bfloat16)).dtype.name == "bfloat16"
