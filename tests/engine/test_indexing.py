"""Keys of every kind, updates and writes: values against NumPy, gradients against finite differences and torch."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import micrograd_core as mg
from micrograd_core import Device, Tensor, asarray, gradcheck, gradgradcheck, no_grad, ones, shares_memory, zeros
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.dtypes import float32, int64
from micrograd_core.errors import DTypeError, GraphError, IndexingError, ShapeError

take, take_along_axis, index_add = (FUNCTIONS[name] for name in ("take", "take_along_axis", "index_add"))


# ── keys that hold arrays ────────────────────────────────────────────────────────────────────────────────────


@st.composite
def advanced_keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Integers, slices, ``None``, ``...``, integer arrays that broadcast, and masks, in any order."""
    places = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3))
    key: list[Any] = []
    axis = 0
    while axis < len(shape):
        kind = draw(st.sampled_from(("slice", "int", "array", "array", "mask", "none", "stop")))
        length = shape[axis]
        if kind == "stop":
            break
        if kind == "none":
            key.append(None)
            continue
        if kind == "slice" or not length:
            key.append(draw(st.slices(length)))
        elif kind == "int":
            key.append(draw(st.integers(-length, length - 1)))
        elif kind == "array":
            shrunk = tuple(draw(st.sampled_from((1, n))) for n in places)[draw(st.integers(0, len(places))) :]
            key.append(draw(hnp.arrays("int64", shrunk, elements=st.integers(-length, length - 1))))
        else:
            # a mask broadcasts with the other arrays only if as many of it are true, or one
            mask = np.zeros(shape[axis : axis + draw(st.integers(1, 2))], bool)
            axis += mask.ndim - 1
            if mask.size:
                mask.flat[draw(st.integers(0, mask.size - 1))] = True
            key.append(mask)
        axis += 1
    if draw(st.booleans()):
        key.insert(draw(st.integers(0, len(key))), ...)
    return tuple(key)


def on(device: Any, key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key whose arrays are tensors."""
    return tuple(asarray(each, device=device) if isinstance(each, np.ndarray) else each for each in key)


def selected(array: Any, key: tuple[Any, ...]) -> Any:
    """NumPy's answer, or its error: arrays that do not broadcast, or that ``...`` moved to other axes."""
    try:
        return array[key]
    except IndexError as error:
        return error


@settings(deadline=None, max_examples=50)
@given(data=st.data(), shape=hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
def test_advanced_indexing_is_numpys(data: st.DataObject, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype="float64").reshape(shape)
    key = data.draw(advanced_keys(shape))
    expected = selected(array, key)
    for device in ("cpu", "rawbuffer"):
        x = Tensor(array, device=device)
        if isinstance(expected, IndexError):
            if device == "cpu" or "out of bounds" not in str(expected):  # which others cannot tell at once
                with pytest.raises((IndexingError, ShapeError)):
                    x[on(device, key)]
            continue
        result = x[on(device, key)]
        np.testing.assert_array_equal(result.detach().numpy(), expected)
        weights = np.random.default_rng(0).uniform(1, 2, result.shape)
        (result * asarray(weights, device=device)).sum().backward()
        gradient = np.zeros(shape)
        np.add.at(gradient, key, weights)
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-12, atol=1e-12)


@settings(deadline=None, max_examples=50)
@given(data=st.data(), shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
def test_updates_are_numpys(data: st.DataObject, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(-3, 4, shape).astype("float64")
    key = data.draw(advanced_keys(shape))
    expected = selected(array, key)
    if isinstance(expected, IndexError):
        return
    value = np.random.default_rng(1).integers(-3, 4, expected.shape).astype("float64")
    if data.draw(st.booleans()):
        value = np.float64(2)
    for device in ("cpu", "rawbuffer"):
        x, v = asarray(array, device=device), asarray(value, device=device)
        at = x.at[on(device, key)]
        for name, ufunc in (("add", np.add), ("multiply", np.multiply), ("min", np.minimum), ("max", np.maximum)):
            wanted = array.copy()
            ufunc.at(wanted, key, value)
            np.testing.assert_array_equal(getattr(at, name)(v).detach().numpy(), wanted, err_msg=name)
        wanted = array.copy()
        wanted[key] = value
        np.testing.assert_array_equal(at.set(v).detach().numpy(), wanted)
        np.testing.assert_array_equal(at.get().detach().numpy(), expected)
        np.testing.assert_array_equal(x.detach().numpy(), array)
        view = x[...]
        x[on(device, key)] = v
        np.testing.assert_array_equal(x.detach().numpy(), wanted)
        np.testing.assert_array_equal(view.detach().numpy(), wanted)


KEYS = {
    "rows": lambda: [2, 0, 2],
    "matrix": lambda: (np.array([[0, 1], [2, -1]]),),
    "pairs": lambda: ([0, 2, 2], [1, 0, 0]),
    "mixed": lambda: (slice(None, None, -1), [1, 1]),
    "apart": lambda: ([0, 1], None, [1, 0]),
    "mask": lambda: np.arange(6).reshape(3, 2) % 2 == 0,
    "rows by mask": lambda: [True, False, True],
    "row of mask": lambda: (1, [True, False]),
    "slice": lambda: (slice(1, None), 0),
    "nothing": lambda: ([], 0),
}


@pytest.mark.parametrize("name", KEYS)
def test_gradients_of_indexing(name: str, device: Device) -> None:
    x = Tensor(np.linspace(-1, 1, 6).reshape(3, 2), device=device)
    key = KEYS[name]()
    assert gradcheck(lambda x: x[key] * x[key], x)
    assert gradgradcheck(lambda x: x[key] ** 3, x)


@pytest.mark.parametrize("update", ["set", "add", "multiply", "min", "max"])
@pytest.mark.parametrize("name", KEYS)
def test_gradients_of_updates(name: str, update: str, device: Device) -> None:
    x = Tensor(np.linspace(-1, 1, 6).reshape(3, 2), device=device)
    key = KEYS[name]()
    v = Tensor(np.random.default_rng(0).normal(size=x[key].shape), device=device)

    def f(x: Tensor, v: Tensor) -> Tensor:
        return getattr((x * x).at[key], update)(v.sin()) * x

    assert gradcheck(f, [x, v])
    assert gradgradcheck(f, [x, v])


@pytest.mark.parametrize("zeros_at", [(), (0,), (0, 1), (0, 1, 2)])
def test_products_at_repeated_indices_are_differentiable_where_factors_vanish(zeros_at: tuple[int, ...]) -> None:
    factors = np.array([0.5, -1.5, 2.0, 3.0])
    factors[list(zeros_at)] = 0
    x, v = Tensor(np.array([2.0, 7.0])), Tensor(factors)
    assert gradcheck(lambda x, v: x.at[[0, 0, 0, 1]].multiply(v), [x, v])
    if len(zeros_at) < 3:
        assert gradgradcheck(lambda x, v: x.at[[0, 0, 0, 1]].multiply(v), [x, v])


def test_the_last_of_several_values_counts_and_the_others_get_no_gradient(device: Device) -> None:
    x, v = Tensor([1.0, 2.0, 3.0], device=device), Tensor([4.0, 5.0, 6.0], device=device)
    y = x.at[[2, 0, 2]].set(v)
    assert y.tolist() == [5.0, 2.0, 6.0]
    y.sum().backward()
    assert x.grad is not None
    assert v.grad is not None
    assert x.grad.tolist() == [0.0, 1.0, 0.0]
    assert v.grad.tolist() == [0.0, 1.0, 1.0]


def test_ties_of_an_update_share_its_gradient(device: Device) -> None:
    x, v = Tensor([2.0, 0.0], device=device), Tensor([2.0, 2.0, 1.0], device=device)
    x.at[[0, 0, 1]].max(v).sum().backward()
    assert x.grad is not None
    assert v.grad is not None
    np.testing.assert_allclose(x.grad.tolist(), [1 / 3, 0], rtol=1e-6)
    np.testing.assert_allclose(v.grad.tolist(), [1 / 3, 1 / 3, 1], rtol=1e-6)


def test_gradients_are_torchs() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    array, rows, columns = rng.normal(size=(5, 4, 3)), np.array([[0, -1], [2, 2]]), np.array([1, 3])
    keys = (rows,), (rows, columns), (slice(1, 4), columns), (rows, slice(None), [0, 2]), (array > 0,), (..., [2, 2])
    for key in keys:
        x, y = Tensor(array), torch.tensor(array, requires_grad=True)
        (x[key] ** 3).sum().backward()
        (y[tuple(torch.tensor(k) if isinstance(k, np.ndarray) else k for k in key)] ** 3).sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-12)


def test_basic_keys_give_views_and_array_keys_fresh_memory(device: Device) -> None:
    x = zeros((3, 4), device=device)
    assert shares_memory(x[1:, None], x)
    for key in ([0, 1], (slice(None), [0]), x == 0):
        assert not shares_memory(x[key], x)


def test_scalars_in_keys(device: Device) -> None:
    x = asarray(np.arange(12.0).reshape(3, 4), device=device)
    two = asarray(2, device=device)
    assert x[two].tolist() == x[2].tolist()
    assert shares_memory(x[two, 1:], x)
    assert x[np.int64(1), np.array(2)].item() == 6
    assert x[True].shape == (1, 3, 4)
    assert x[False].shape == (0, 3, 4)
    assert x[asarray(True, device=device), 0].shape == (1, 4)
    assert x[()].shape == (3, 4)
    assert x.sum()[()].item() == 66
    assert x.sum()[None].shape == (1,)
    assert asarray(5.0, device=device)[asarray(True, device=device)].tolist() == [5.0]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_tensors_and_empty_selections(shape: tuple[int, ...], device: Device) -> None:
    x = Tensor(np.zeros(shape), device=device)
    nothing: list[int] = []
    assert x[nothing].shape == (0, *shape[1:])
    assert x[x > 0].shape == (0,)
    assert x.at[nothing].add(1.0).shape == shape
    x[nothing].sum().backward()
    assert x.grad is not None
    assert x.grad.shape == shape
    with no_grad():
        x[x == 0] = 1.0
    assert x.shape == shape


INDEX_ERRORS = {
    "take": (lambda x: take(x, asarray([0, 3]), axis=0), r"take: index 3 is out of range for axis 0 of length 3"),
    "negative": (lambda x: x[:, [0, -5]], r"take: index -5 is out of range for axis 1 of length 4 \(shape \(3, 4\)\)"),
    "nothing": (lambda x: x[:0][:, [4]], r"take: index 4 is out of range for axis 1 of length 4"),
    "pair": (lambda x: x[[0, 3], [0, 1]], r"getitem: index 3 is out of range for axis 0 of length 3"),
    "write": (lambda x: operator.setitem(x, [0, 9], 1.0), r"index 9 is out of range"),
    "along": (lambda x: take_along_axis(x, asarray([[4]])), r"take_along_axis: index 4 is out of range for axis 1"),
    "add": (lambda x: index_add(x, asarray([5]), 1.0), r"index_add: index 5 is out of range for axis 0 of length 3"),
    "mask": (
        lambda x: x[[True, False]],
        r"boolean index of shape \(2,\) does not fit the axes from 0 on of shape \(3, 4\)",
    ),
    "mask write": (lambda x: operator.setitem(x, asarray([[True]]), 1.0), r"boolean index of shape \(1, 1\)"),
    "float": (lambda x: x[[0.0, 1.0]], r"integers or booleans; got float32 of shape \(2,\).*astype"),
    "too many": (lambda x: x[[0], 0, 0], r"3 indices for shape \(3, 4\), which has 2 axes"),
    "broadcast": (lambda x: x[[0, 1], [0, 1, 2]], r"linear_index: shapes \(2,\) and \(3,\) do not broadcast"),
    "axis": (lambda x: take(x, asarray([0])), r"take: an axis is needed for shape \(3, 4\).*reshape"),
    "lanes": (
        lambda x: take_along_axis(x, asarray([0])),
        r"take_along_axis: indices of shape \(1,\) need as many axes",
    ),
}


@pytest.mark.parametrize("name", INDEX_ERRORS)
def test_index_errors_name_what_was_asked_and_what_fits(name: str) -> None:
    call, words = INDEX_ERRORS[name]
    with pytest.raises((IndexingError, ShapeError), match=words):
        call(zeros((3, 4)))


def test_out_of_range_where_the_device_cannot_tell() -> None:
    x = asarray([1.0, 2.0], device="rawbuffer")
    assert np.isnan(x[[0, 2]].detach().numpy()).tolist() == [False, True]
    assert asarray([1, 2], device="rawbuffer")[[0, 2]].tolist() == [1, 0]
    assert x.at[[0, 2]].add(5.0).tolist() == [6.0, 2.0]
    assert np.isnan(asarray([[1.0, 2.0]], device="rawbuffer")[[0, 0], [0, 2]].detach().numpy()).tolist() == [
        False,
        True,
    ]


def test_values_of_updates_must_fit(device: Device) -> None:
    x = zeros((3, 4), device=device)
    with pytest.raises(ShapeError, match=r"index_set: values of shape \(3,\) do not fit shape \(2, 4\)"):
        x[[0, 1]] = [1.0, 2.0, 3.0]
    with pytest.raises(DTypeError, match="does not fit into a int64"):
        zeros(3, dtype="int64", device=device)[[0, 1]] = asarray([0.5, 1.5], device=device)
    with pytest.raises(DTypeError, match="undefined"):
        zeros(3, dtype="int64", device=device).at[[0]].add(0.5)
    assert x.tolist() == [[0.0] * 4] * 3


def test_updates_keep_the_dtype(device: Device) -> None:
    x = zeros(3, dtype="float32", device=device)
    assert x.at[[0, 0]].add(asarray([1, 2], device=device)).dtype is float32
    counts = zeros(3, dtype="int8", device=device).at[[1, 1, 2]].add(1)
    assert counts.tolist() == [0, 2, 1]
    assert str(counts.dtype) == "int8"
    big = asarray([2**63, 5], dtype="uint64", device=device)
    assert big[[0, 1, 0]].tolist() == [2**63, 5, 2**63]
    assert asarray([True, False], device=device)[[1, 0]].tolist() == [False, True]


def test_huge_axes_that_hold_nothing_are_cheap() -> None:
    x = ones((1, 1)).broadcast_to(1 << 40, 1)
    assert x[[1 << 39, -1]].tolist() == [[1.0], [1.0]]
    assert x[(1 << 40) - 1, 0].item() == 1.0


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_writes_by_arrays_are_real_where_nothing_is_recorded(device: Device) -> None:
    x = zeros((3, 2), device=device)
    row, every = x[1], x[...]
    x[[0, 1]] = asarray([[1.0, 2.0], [3.0, 4.0]], device=device)
    x[x > 3] = -1.0
    assert row.tolist() == [3.0, -1.0]
    assert every.tolist() == [[1.0, 2.0], [3.0, -1.0], [0.0, 0.0]]
    every[:, [1]] += 10.0
    assert x.tolist() == [[1.0, 12.0], [3.0, 9.0], [0.0, 10.0]]


def test_overlapping_writes_read_first(device: Device) -> None:
    x = asarray(np.arange(6.0), device=device)
    x[1:] = x[:-1]
    assert x.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    x[[5, 4, 3, 2, 1, 0]] = x
    assert x.tolist() == [4.0, 3.0, 2.0, 1.0, 0.0, 0.0]
    x[::-1] += x
    assert x.tolist() == [4.0, 3.0, 3.0, 3.0, 3.0, 4.0]


def test_augmented_writes_to_elements_are_real_where_nothing_is_recorded(device: Device) -> None:
    x = zeros((2, 2), device=device)
    row = x[0]
    x[0] += 1
    x[0, 1] *= 5
    x[[1, 1]] += 2  # read once, written twice: as NumPy has it
    assert x.tolist() == [[1.0, 5.0], [2.0, 2.0]]
    assert row.tolist() == [1.0, 5.0]
    row += 1
    assert x.tolist() == [[2.0, 6.0], [2.0, 2.0]]


def test_a_buffer_filled_by_augmented_writes_records(device: Device) -> None:
    w = Tensor([2.0, 3.0], device=device)
    total = zeros((3, 2), device=device)
    for i in range(3):
        total[i] += w * (i + 1)
        total[i, 0] *= w[1]
    assert total.tolist() == [[6.0, 3.0], [12.0, 6.0], [18.0, 9.0]]
    total.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [18.0, 6.0 + 12.0]


def test_augmented_writes_to_computed_tensors_stay_in_the_graph(device: Device) -> None:
    def f(x: Tensor) -> Tensor:
        y = x * x
        early = y.sum()
        y[0] += x[1]
        y[1:] *= y[:-1]
        y[[0, 2]] -= 1.0
        y[-1] **= 2
        return y * early

    x = Tensor(np.array([0.5, -1.0, 2.0]), device=device)
    expected = np.array([0.25 - 1, -0.75, 4.0])
    expected = np.array([expected[0] - 1, 1 * expected[0], (4 * 1 - 1) ** 2]) * 5.25
    np.testing.assert_allclose(f(x).detach().numpy(), expected, rtol=1e-12)
    assert gradcheck(f, x)
    assert gradgradcheck(f, x)


def test_writes_through_indexed_tensors_reach_what_they_were_indexed_from(device: Device) -> None:
    w = Tensor([2.0, 3.0], device=device)
    y = (w * w).reshape(1, 2).broadcast_to(2, 2).copy()
    early = y.sum()
    row = y[1]
    row[0] = w[1]
    assert row.tolist() == [3.0, 9.0]
    value = row.sum()
    with pytest.raises(GraphError, match="shares memory with another"):
        y[0][1] = 7.0  # the row would have to see this one
    del row
    y[0][1] = 7.0
    assert y.tolist() == [[4.0, 7.0], [3.0, 9.0]]
    (early + (y * 2).sum() + value).backward()
    assert w.grad is not None
    assert w.grad.tolist() == [4 * 2 + 2 * 4, 4 * 3 + 3 + 3 * 6]


def test_what_was_indexed_sees_the_write_it_is_the_value_of(device: Device) -> None:
    w = Tensor([2.0, 3.0, 5.0], device=device)
    y = w * 1
    head = y[:2]
    y[1:] = head
    assert (y.tolist(), head.tolist()) == ([2.0, 2.0, 3.0], [2.0, 2.0])
    tail = y[1:]
    tail *= head
    assert (y.tolist(), head.tolist(), tail.tolist()) == ([2.0, 4.0, 6.0], [2.0, 4.0], [4.0, 6.0])
    (y.sum() + head[1] + tail[1]).backward()  # w0 + 2 w0**2 + 2 w0 w1
    assert w.grad is not None
    assert w.grad.tolist() == [1 + 4 * 2.0 + 2 * 3.0, 2 * 2.0, 0.0]


def test_a_detached_part_is_not_what_was_indexed(device: Device) -> None:
    w = Tensor([2.0, 3.0], device=device)
    y = w * 1
    with no_grad():
        part = y[:1]
    with pytest.raises(GraphError, match="shares memory with another"):
        part[0] = w[1]
    assert y.tolist() == [2.0, 3.0]


def test_writes_that_a_third_would_miss_are_refused(device: Device) -> None:
    w = Tensor([2.0, 3.0], device=device)
    y = w * w
    other = y.reshape(2, 1)
    before = y.tolist()
    with pytest.raises(GraphError, match="shares memory with another"):
        y[0] += 1
    part = y[:1]
    with pytest.raises(GraphError, match="shares memory with another"):
        part[0] = 1.0
    assert (y.tolist(), part.tolist(), other.tolist()) == (before, before[:1], [[each] for each in before])


def test_leaves_are_refused_whichever_way_they_are_written(device: Device) -> None:
    w = Tensor([[1.0, 2.0]], device=device)
    for write in (
        lambda: operator.setitem(w, [0], 5.0),
        lambda: operator.setitem(w, w > 1, 5.0),
        lambda: operator.setitem(w[0], 0, 5.0),
        lambda: operator.setitem(w, 0, operator.iadd(w[0], 1.0)),
    ):
        with pytest.raises(GraphError, match="leaf that records gradients"):
            write()
    with no_grad():
        w[[0]] = 5.0
        w[0, 1] += 1.0
    assert w.tolist() == [[5.0, 6.0]]
    assert w.is_leaf


def test_a_write_by_arrays_is_noticed_by_what_saved_the_memory(device: Device) -> None:
    data, w = asarray([1.0, 2.0], device=device), Tensor([3.0, 4.0], device=device)
    loss = (w * data).sum()
    data[[0]] = 100.0
    with pytest.raises(GraphError, match="written in place"):
        loss.backward()


def test_assigning_the_very_view_records_its_own_gradient() -> None:
    x = zeros(2)
    view = x[:1]
    view.requires_grad = True
    x[:1] = view
    x.sum().backward()
    assert view.grad is not None
    assert view.grad.tolist() == [1.0]
    y = zeros(2)
    leaf = Tensor([5.0])
    y[:1] = leaf
    y[:1] = y[:1]
    y.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [1.0]


def test_library_code_that_overwrites_its_intermediates_stays_differentiable(device: Device) -> None:
    """A tridiagonal solve written with assignments, as in a textbook."""

    def solve(lower: Tensor, diagonal: Tensor, rhs: Tensor) -> Tensor:
        d, b, x = diagonal * 1.0, rhs * 1.0, zeros(3, dtype="float64", device=device)
        for i in range(1, 3):
            factor = lower[i - 1] / d[i - 1]
            d[i] -= factor * lower[i - 1]
            b[i] -= factor * b[i - 1]
        x[2] = b[2] / d[2]
        for i in (1, 0):
            x[i] = (b[i] - lower[i] * x[i + 1]) / d[i]
        return x

    arrays = np.array([0.3, -0.4]), np.array([2.0, 3.0, 1.5]), np.array([1.0, 2.0, -1.0])
    tensors = [Tensor(each, device=device) for each in arrays]
    matrix = np.diag(arrays[1]) + np.diag(arrays[0], 1) + np.diag(arrays[0], -1)
    np.testing.assert_allclose(solve(*tensors).detach().numpy(), np.linalg.solve(matrix, arrays[2]), rtol=1e-12)
    assert gradcheck(solve, tensors)
    assert gradgradcheck(solve, tensors)


def test_where_indices_come_from(device: Device) -> None:
    x = asarray([[0.0, 2.0], [0.0, 3.0]], device=device)
    rows = FUNCTIONS["argwhere"](x)
    assert rows.tolist() == [[0, 1], [1, 1]]
    assert rows.dtype is int64
    assert x[rows[:, 0], rows[:, 1]].tolist() == [2.0, 3.0]
    assert mg.asarray(x[rows[:, 0], rows[:, 1]]).device is device


@pytest.mark.parametrize(
    ("shape", "mask"), [((1,), (0,)), ((2, 3), (0,)), ((2, 3), (2, 0)), ((2, 3), (0, 0)), ((0,), (0,))]
)
def test_a_mask_may_have_no_length_along_an_axis(shape: tuple[int, ...], mask: tuple[int, ...], device: Device) -> None:
    x, key = mg.ones(shape, device=device), mg.zeros(mask, dtype="bool", device=device)
    assert x[key].shape == (0, *shape[len(mask) :])
    x[key] = 5.0
    assert x.tolist() == mg.ones(shape).tolist()
    with pytest.raises(IndexError, match=r"boolean index of shape \(2, 1\) .* must be equal, or 0"):
        mg.ones((2, 3), device=device)[mg.zeros((2, 1), dtype="bool", device=device)]
