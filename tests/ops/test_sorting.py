"""Order, sets and searching: values against NumPy, gradients against finite differences and torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import micrograd_core as mg
from micrograd_core import Device, Tensor, asarray, gradcheck, gradgradcheck
from micrograd_core.dtypes import int64
from micrograd_core.errors import DTypeError, ShapeError
from micrograd_core.ops import TABLE

DEVICES = ("cpu", "rawbuffer")


@settings(deadline=None, max_examples=60)
@given(
    array=st.sampled_from(("float64", "int32", "uint8", "bool")).flatmap(
        lambda dtype: hnp.arrays(
            dtype,
            hnp.array_shapes(max_dims=3, min_side=0, max_side=6),
            elements=st.sampled_from([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]) if dtype == "float64" else None,
        )
    ),
    data=st.data(),
)
def test_sorting_is_numpys_and_stable(array: Any, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    descending = data.draw(st.booleans())
    key = array if not descending else -array if array.dtype.kind == "f" else ~array
    positions = np.argsort(key, axis=axis, kind="stable")
    for device in DEVICES:
        x = asarray(array, device=device)
        np.testing.assert_array_equal(mg.argsort(x, axis=axis, descending=descending).numpy(), positions)
        ordered = mg.sort(x, axis=axis, descending=descending)
        assert ordered.dtype is x.dtype
        np.testing.assert_array_equal(ordered.numpy(), np.take_along_axis(array, positions, axis))


@pytest.mark.parametrize("length", [1, 2, 3, 8, 13, 33])
def test_the_network_sorts_as_the_kernel_does(length: int) -> None:
    array = np.random.default_rng(length).integers(0, 9, (3, length)).astype("float64")
    array[0, ::4] = np.nan
    kernels = Device("cpu").kernels
    for name in ("sort", "argsort"):
        for descending in (False, True):
            compose = TABLE[name].compose
            assert compose is not None
            found = compose(kernels, array, axis=1, descending=descending, stable=True)
            expected = getattr(kernels, name)(array, axis=1, descending=descending, stable=True)
            np.testing.assert_array_equal(found, expected)


def test_complex_numbers_are_sorted_by_their_parts() -> None:
    x = asarray(np.array([1 + 2j, 0 + 5j, 1 - 1j, 0 + 5j]))
    assert mg.argsort(x).tolist() == [1, 3, 2, 0]
    assert mg.sort(x, descending=True).tolist() == [1 + 2j, 1 - 1j, 5j, 5j]
    compose = TABLE["argsort"].compose
    assert compose is not None
    params = {"axis": 0, "descending": False, "stable": True}
    assert compose(Device("cpu").kernels, x.numpy(), **params).tolist() == [1, 3, 2, 0]


def test_the_gradient_of_a_sort_goes_back_to_where_elements_were(device: Device) -> None:
    x = Tensor(np.random.default_rng(0).permutation(12).reshape(3, 4) * 1.0, device=device)
    for axis in (0, 1):
        assert gradcheck(lambda x, axis=axis: mg.sort(x, axis=axis) ** 2, x)
        assert gradgradcheck(lambda x, axis=axis: mg.sort(x, axis=axis, descending=True) ** 3, x)
    tied = Tensor([2.0, 1.0, 2.0], device=device)
    (mg.sort(tied) * asarray([1.0, 2.0, 3.0], device=device)).sum().backward()
    assert tied.grad is not None
    assert tied.grad.tolist() == [2.0, 1.0, 3.0]


@pytest.mark.parametrize("largest", [True, False])
def test_topk_gives_values_and_places(largest: bool, device: Device) -> None:
    array = np.random.default_rng(0).permutation(12).reshape(3, 4) * 1.0
    x = Tensor(array, device=device)
    values, indices = mg.topk(x, 2, axis=0, largest=largest)
    expected = np.argsort(-array if largest else array, axis=0)[:2]
    np.testing.assert_array_equal(indices.numpy(), expected)
    np.testing.assert_array_equal(values.detach().numpy(), np.take_along_axis(array, expected, 0))
    assert gradcheck(lambda x: mg.topk(x, 2, largest=largest).values ** 2, x)
    assert gradgradcheck(lambda x: mg.topk(x, 2, largest=largest).values ** 3, x)
    assert mg.topk(x, 0).values.shape == (3, 0)
    with pytest.raises(ShapeError, match=r"topk: k is 0 to 4, the length of axis -1 of shape \(3, 4\); got 5"):
        mg.topk(x, 5)


def test_gradients_are_torchs() -> None:
    torch = pytest.importorskip("torch")
    array = np.random.default_rng(0).normal(size=(3, 5))
    for ours, theirs in (
        (lambda x: mg.sort(x, descending=True), lambda y: torch.sort(y, descending=True).values),
        (lambda x: mg.topk(x, 3).values, lambda y: torch.topk(y, 3).values),
        (lambda x: mg.diff(x, n=2), lambda y: torch.diff(y, n=2)),
        (lambda x: mg.take_along_axis(x, mg.argsort(x)), lambda y: torch.take_along_dim(y, torch.argsort(y), 1)),
    ):
        x, y = Tensor(array), torch.tensor(array, requires_grad=True)
        (ours(x) ** 3).sum().backward()
        (theirs(y) ** 3).sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-12)


@settings(deadline=None, max_examples=50)
@given(
    x=hnp.arrays("float64", st.integers(0, 6), elements=st.sampled_from([0.0, 1.0, 2.0, np.inf, np.nan])),
    y=hnp.arrays(
        "float64", hnp.array_shapes(min_dims=0, max_dims=2), elements=st.sampled_from([-1.0, 0.0, 1.5, 2.0, np.nan])
    ),
    side=st.sampled_from(("left", "right")),
)
def test_searching_is_numpys(x: Any, y: Any, side: str) -> None:
    order = np.argsort(x)
    for device in DEVICES:
        a, b = asarray(x, device=device), asarray(y, device=device)
        found = mg.searchsorted(a, b, side=side, sorter=asarray(order, device=device))
        np.testing.assert_array_equal(found.numpy(), np.searchsorted(x, y, side=side, sorter=order))
        assert found.dtype is int64


@settings(deadline=None, max_examples=50)
@given(
    array=st.sampled_from(("float64", "int8", "bool")).flatmap(
        lambda dtype: hnp.arrays(
            dtype,
            hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=6),
            elements=st.sampled_from([0.0, 1.0, -2.5, np.inf, np.nan]) if dtype == "float64" else None,
        )
    )
)
def test_sets_are_numpys(array: Any) -> None:
    expected = np.unique(array, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    for device in DEVICES:
        found = mg.unique_all(asarray(array, device=device))
        np.testing.assert_array_equal(found.values.numpy(), expected[0])
        np.testing.assert_array_equal(found.indices.numpy(), expected[1])
        np.testing.assert_array_equal(found.counts.numpy(), expected[3])
        np.testing.assert_array_equal(found.values[found.inverse_indices].numpy(), array)
        assert found.inverse_indices.shape == array.shape
        assert sorted(np.asarray(found.inverse_indices.numpy()).ravel()) == sorted(expected[2].ravel())
        x = asarray(array, device=device)
        np.testing.assert_array_equal(mg.unique_values(x).numpy(), expected[0])
        np.testing.assert_array_equal(mg.unique_counts(x).counts.numpy(), expected[3])
        np.testing.assert_array_equal(mg.unique_inverse(x).inverse_indices.numpy(), found.inverse_indices.numpy())


def test_the_gradient_of_a_set_goes_to_first_elements(device: Device) -> None:
    x = Tensor([3.0, 1.0, 3.0, 2.0], device=device)
    (mg.unique_values(x) * asarray([1.0, 10.0, 100.0], device=device)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [100.0, 1.0, 0.0, 10.0]


def test_indices_of_what_is_not_zero(device: Device) -> None:
    array = np.array([[0.0, 2.0, np.nan], [-0.0, 0.0, 3.0]])
    x = asarray(array, device=device)
    for found, expected in zip(mg.nonzero(x), np.nonzero(array), strict=True):
        assert found.tolist() == expected.tolist()
    assert x[mg.nonzero(x)].tolist()[0] == 2.0
    assert [each.shape for each in mg.nonzero(mg.zeros((0, 3), device=device))] == [(0,), (0,)]
    with pytest.raises(ShapeError, match="nonzero: a 0-d tensor"):
        mg.nonzero(asarray(1.0, device=device))


def test_differences_with_ends(device: Device) -> None:
    array = np.array([[1.0, 4.0, 9.0]])
    x, end = Tensor(array, device=device), asarray([[16.0]], dtype="float64", device=device)
    expected = np.diff(array, n=2, prepend=[[16.0]], append=[[16.0]])
    assert mg.diff(x, n=2, prepend=end, append=end).tolist() == expected.tolist()
    assert gradcheck(lambda x: mg.diff(x, n=2, append=end), x)
    with pytest.raises(ValueError, match="diff: n is how often"):
        mg.diff(x, n=-1)


def test_membership(device: Device) -> None:
    x = asarray([[1, 2], [3, 1]], device=device)
    assert mg.isin(x, [1, 5]).tolist() == [[True, False], [False, True]]
    assert mg.isin(x, 2, invert=True).tolist() == [[True, False], [True, True]]
    assert mg.isin(asarray([float("nan")], device=device), [float("nan")]).tolist() == [False]


def test_ordering_refuses_what_has_no_order(device: Device) -> None:
    with pytest.raises(ShapeError, match="sort: axis -1 is out of range"):
        mg.sort(asarray(1.0, device=device))
    with pytest.raises(ShapeError, match=r"searchsorted: the sorted tensor must be 1-d; it has shape \(1, 1\)"):
        mg.searchsorted(asarray([[1.0]], device=device), asarray([1.0], device=device))
    with pytest.raises(ValueError, match="side is 'left' or 'right'; got 'up'"):
        mg.searchsorted(asarray([1.0], device=device), asarray([1.0], device=device), side="up")
    assert mg.isin(asarray([1, 2], device=device), asarray([1.0, 2.5], device=device)).tolist() == [True, False]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint64", "float64"])
def test_a_number_is_sought_in_the_dtype_of_the_tensor(dtype: str, device: Device) -> None:
    values = asarray([0, 3], dtype=dtype, device=device)
    assert mg.isin(3, values).item() is True
    assert mg.isin(4, values, invert=True).item() is True
    assert mg.isin(3, values).device is device
    assert mg.searchsorted(values, 2).item() == 1
    with pytest.raises(DTypeError, match=f"isin: the Python complex 1j does not go with a {dtype} tensor"):
        mg.isin(1j, values)
