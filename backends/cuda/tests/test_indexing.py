"""Embeddings and sums of rows by number, played on the host."""

from __future__ import annotations

from typing import Any

import array_api_compat.numpy as xp
import numpy as np
import pytest

from cases import played_only
from host import Arrays, HostRuntime
from micrograd_core import Device, Tensor
from micrograd_core.array.functions import FUNCTIONS
from micrograd_cuda.kernels import table

pytestmark = played_only
RNG = np.random.default_rng(0)
FLOATS = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-13}


@pytest.fixture(scope="module")
def kernels() -> Any:
    return table(Arrays(xp), HostRuntime())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("index", ["int64", "uint8"])
@pytest.mark.parametrize("columns", [8, 3])
def test_rows_are_gathered_and_their_gradients_added(kernels: Any, columns: int, index: str, dtype: str) -> None:
    weight = RNG.normal(size=(7, columns)).astype(dtype)
    indices = RNG.integers(0, 7, (4, 5)).astype(index)
    assert kernels["embedding"](indices, weight).tolist() == weight[indices].tolist()
    g = RNG.normal(size=(4, 5, columns)).astype(dtype)
    expected = np.zeros((9, columns))
    np.add.at(expected, indices, g)
    found = kernels["embedding_gradient"](g, indices, num_embeddings=9)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=FLOATS[dtype], atol=FLOATS[dtype])


def test_what_names_no_row_is_nan_and_receives_nothing(kernels: Any) -> None:
    weight, indices = np.ones((3, 2), "float32"), np.array([0, 3, -1, 2])
    assert np.isnan(kernels["embedding"](indices, weight)).all(axis=1).tolist() == [False, True, True, False]
    found = kernels["embedding_gradient"](np.ones((4, 2), "float32"), indices, num_embeddings=3)
    assert found.tolist() == [[1, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_slices_are_added_along_any_axis(kernels: Any, axis: int, dtype: str) -> None:
    x = RNG.normal(size=(4, 3, 6)).astype(dtype)[:, :, ::2].swapaxes(0, 2)
    indices = np.array([[0, -1, 2], [1, 1, -3]])
    shape = (*x.shape[:axis], 2, 3, *x.shape[axis + 1 :])
    for values in (RNG.normal(size=shape).astype(dtype), np.asarray(2.0, dtype), 1.5):
        expected = np.moveaxis(x.astype("float64"), axis, 0).copy()
        offered = np.moveaxis(np.broadcast_to(values, shape), (axis, axis + 1), (0, 1))
        np.add.at(expected, indices, offered)
        found = kernels["index_add"](x, indices, values, axis=axis)
        np.testing.assert_allclose(np.moveaxis(found, axis, 0), expected, rtol=FLOATS[dtype], atol=FLOATS[dtype])


def test_sums_have_one_order() -> None:
    """In float32 the order shows: what is sorted adds in the order of the indices, after what was there."""
    own = table(Arrays(xp), HostRuntime())
    values = np.array([[1e8], [1.0], [-1e8], [1.0]], "float32")
    assert own["embedding_gradient"](values, np.zeros(4, "int64"), num_embeddings=1).tolist() == [[1.0]]
    x = np.array([[-1e8]], "float32")
    assert own["index_add"](x, np.zeros(2, "int64"), values[:2], axis=0).tolist() == [[1.0]]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("count", "columns"), [(700, 8), (1000, 3)])
def test_an_index_that_comes_often_is_added_up_in_segments(count: int, columns: int, dtype: str) -> None:
    """The first in half of the places, the next in every fourth, and so on; some name no row."""
    runtime = HostRuntime()
    own = table(Arrays(xp), runtime)
    indices = np.array([(i & -i).bit_length() - 1 for i in range(1, count + 1)])
    indices[::50] = 99
    g = RNG.normal(size=(count, columns)).astype(dtype)
    expected = np.zeros((12, columns))
    np.add.at(expected, indices[indices < 12], g[indices < 12].astype("float64"))
    found = [own["embedding_gradient"](g, indices, num_embeddings=12) for _ in range(2)]
    assert [unit.family for unit in runtime.launched[:4]] == ["row_keys", "row_starts", "add_segments", "sorted_add"]
    assert found[0].tobytes() == found[1].tobytes()
    np.testing.assert_allclose(found[0], expected, rtol=FLOATS[dtype], atol=FLOATS[dtype] * 20)


def test_no_thread_adds_up_all_of_a_frequent_index() -> None:
    """In float32 the order shows: one after the other, each of the ones would be lost beside the first number."""
    own = table(Arrays(xp), HostRuntime())
    values = np.ones((4096, 1), "float32")
    values[0] = 1e9
    found = own["embedding_gradient"](values, np.zeros(4096, "int64"), num_embeddings=2)
    assert found.tolist() == [[1e9 + 4096 - 64], [0]]  # its own segment's ones are lost


@pytest.mark.parametrize("index", ["int64", "uint64", "int8"])
def test_keys_are_narrow_and_no_index_is_mistaken_for_another(index: str) -> None:
    runtime = HostRuntime()
    own = table(Arrays(xp), runtime)
    indices = np.array([1, 0, 1, 1 << 6], index)
    if index != "int8":
        indices[3] = (1 << 32) + 1  # 1, in 32 bits
    found = own["embedding_gradient"](np.ones((4, 2), "float32"), indices, num_embeddings=3)
    assert runtime.launched[0].arguments[0] == "int"
    assert found.tolist() == [[1, 1], [2, 2], [0, 0]]


def test_the_gradient_of_take_is_three_launches_and_a_sort() -> None:
    device = Device("played")
    launched = device.kernels.backend.runtime.launched
    x = Tensor(RNG.normal(size=(5, 3)).astype("float32"), device=device)
    y = FUNCTIONS["take"](x, Tensor([1, -1, 1], device=device), axis=0).sum()
    del launched[:]
    y.backward()
    # The cotangent of a sum is one number, of which rows are made: a copy.
    assert [unit.family for unit in launched] == ["row_keys", "unary", "row_starts", "sorted_add"]
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 0, 0], [2, 2, 2], [0, 0, 0], [0, 0, 0], [1, 1, 1]]
