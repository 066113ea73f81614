"""What a tensor is: data in and out, views and their layouts, writing in place, operators, errors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from micrograd_core import Device, Tensor, arange, asarray, full, jit, linalg, nn, no_grad, ones, shares_memory, zeros
from micrograd_core.array import functions
from micrograd_core.dtypes import bool_, float32, float64, int64
from micrograd_core.errors import DeviceMismatch, DTypeError, GraphError, IndexingError, ShapeError, UnsupportedDType

# ── data ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.0, "float32"),
        (1, "int64"),
        (True, "bool"),
        ([1, 2.5], "float32"),
        ([[True], [False]], "bool"),
        ([], "float32"),
    ],
)
def test_dtype_of_python_data(data: Any, dtype: str, device: Device) -> None:
    x = Tensor(data, device=device)
    assert str(x.dtype) == dtype
    assert x.tolist() == (data if data != [1, 2.5] else [1.0, 2.5])


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]
)
def test_numpy_arrays_keep_dtype_and_values_in_every_layout(dtype: str) -> None:
    for array in (
        np.arange(12).reshape(3, 4).astype(dtype),
        np.arange(12).astype(dtype).reshape(3, 4).T,
        np.arange(12).astype(dtype)[::-2],
        np.array(5).astype(dtype),
        np.zeros((0, 3), dtype),
    ):
        x = asarray(array)
        assert x.dtype.name == dtype
        assert x.shape == array.shape
        assert x.tolist() == array.tolist()
        np.testing.assert_array_equal(x.numpy(), array)


def test_data_is_copied() -> None:
    array = np.zeros(3)
    x = Tensor(array)
    array[0] = 1
    assert x.tolist() == [0.0, 0.0, 0.0]
    out = x.detach().numpy()
    out[0] = 5
    assert x.tolist() == [0.0, 0.0, 0.0]


def test_lists_of_arrays_and_numpy_scalars() -> None:
    assert Tensor([np.float64(1.5), np.float64(2)]).tolist() == [1.5, 2.0]
    assert Tensor([np.arange(3), np.arange(3)]).tolist() == [[0, 1, 2], [0, 1, 2]]
    assert Tensor([np.int32(4)]).dtype is int64


@pytest.mark.parametrize("data", ["text", None, {"a": 1}, ["a"], [None], object()])
def test_data_that_is_no_number(data: Any) -> None:
    with pytest.raises(DTypeError, match="numbers"):
        Tensor(data)


@pytest.mark.parametrize("data", [[[1, 2], [3]], [[1], 2], [[[1]], [2]]])
def test_ragged_data(data: Any) -> None:
    with pytest.raises(ShapeError, match="ragged"):
        Tensor(data)


def test_numbers_that_do_not_fit_the_dtype() -> None:
    with pytest.raises(DTypeError, match="does not fit int8"):
        Tensor([300], dtype="int8")
    with pytest.raises(DTypeError, match="'flaot32' is not a dtype"):
        Tensor([1], dtype="flaot32")


def test_a_dtype_the_device_lacks() -> None:
    with pytest.raises(UnsupportedDType, match="rawbuffer:0 does not support complex64"):
        Tensor([1j], device="rawbuffer")


def test_repr_round_numbers_flags_and_large_tensors(device: Device) -> None:
    where = "" if device.is_cpu() else ", device='rawbuffer:0'"
    assert repr(asarray([1.0, 2.5], device=device)) == f"Tensor([ 1., 2.5]{where})"
    assert repr(Tensor(3.0, device=device)) == f"Tensor(3.{where}, requires_grad=True)"
    assert repr(asarray(zeros((0, 2), device=device))) == f"Tensor([], shape=(0, 2), dtype=float32{where})"
    if device.is_cpu():
        text = repr(arange(10_000).reshape(100, 100))
        assert "..." in text
        assert "9999" in text
        assert len(text) < 1000


def test_pickle_and_deepcopy_keep_numbers_dtype_device_and_flag(device: Device) -> None:
    x = Tensor([[1.0, 2.0]], dtype="float64", device=device)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert (y.tolist(), y.dtype, y.device, y.requires_grad) == (x.tolist(), x.dtype, x.device, True)
        assert not shares_memory(x, y)


def test_python_numbers_from_one_element() -> None:
    assert float(asarray([2.5])) == 2.5
    assert int(Tensor(3)) == 3
    assert bool(Tensor(1.0))
    assert [10, 20, 30][Tensor(1)] == 20
    with pytest.raises(ShapeError, match="one element"):
        Tensor([1.0, 2.0]).item()
    with pytest.raises(ShapeError, match="ambiguous"):
        bool(Tensor([1.0, 2.0]))
    with pytest.raises(TypeError, match="0-d integer"):
        [1][Tensor(0.0)]
    with pytest.raises(TypeError, match="no length"):
        len(Tensor(1.0))
    assert [row.tolist() for row in Tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]


def test_conversion_to_numpy_says_what_to_do(rawbuffer_device: Device) -> None:
    np.testing.assert_array_equal(np.asarray(asarray([1.0, 2.0])), [1.0, 2.0])
    with pytest.raises(TypeError, match="detach"):
        np.asarray(Tensor([1.0]))
    with pytest.raises(TypeError, match="rawbuffer:0"):
        np.asarray(asarray([1.0], device=rawbuffer_device))


def test_creation(device: Device) -> None:
    assert zeros((2,), device=device).tolist() == [0.0, 0.0]
    assert ones(2, dtype="int64", device=device).tolist() == [1, 1]
    assert full((), -0.0, device=device).tolist() == 0.0
    assert str(full((), -0.0, device=device).tolist()) == "-0.0"
    assert arange(5, device=device).tolist() == [0, 1, 2, 3, 4]
    assert arange(5, 0, -2, device=device).tolist() == [5, 3, 1]
    assert arange(0.0, 1.0, 0.25, device=device).tolist() == [0.0, 0.25, 0.5, 0.75]
    assert not zeros(2).requires_grad
    with pytest.raises(ShapeError, match="negative"):
        zeros((2, -1))


# ── views ────────────────────────────────────────────────────────────────────────────────────────────────────

VIEWS = {
    "transpose": (lambda x: x.transpose(0, 1), (1, 4), 0),
    "step": (lambda x: x[:, ::2], (4, 2), 0),
    "reverse": (lambda x: x[::-1], (-4, 1), 8),
    "slice": (lambda x: x.slice(1, 1, 3), (4, 1), 1),
    "broadcast": (lambda x: x[:, :1].broadcast_to(3, 5), (4, 0), 0),
    "row": (lambda x: x[1], (1,), 4),
    "element": (lambda x: x[1, 2], (), 6),
    "reshape": (lambda x: x.reshape(2, 6), (6, 1), 0),
    "newaxis": (lambda x: x[None, 1:], None, 4),
    "flip": (lambda x: x.flip(1), (4, -1), 3),
    "empty": (lambda x: x[3:], None, None),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory_and_stay_in_the_graph(name: str, device: Device) -> None:
    view, strides, offset = VIEWS[name]
    x = Tensor(np.arange(12.0).reshape(3, 4), device=device)
    y = view(x)
    assert strides is None or y.strides == strides
    assert offset is None or y.offset == offset
    assert y.size == 0 or shares_memory(x, y)
    assert y.requires_grad
    (y * y).sum().backward()
    expected = np.zeros((3, 4))
    np.add.at(expected.ravel(), view_indices(view), 2 * np.arange(12.0)[view_indices(view)])
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), expected)


def view_indices(view: Any) -> Any:
    """Which elements of a (3, 4) array a view shows, repeats included."""
    return np.asarray(view(asarray(np.arange(12).reshape(3, 4))).numpy()).ravel()


def test_the_transpose_of_the_readme() -> None:
    t = Tensor([[1, 2, 3], [4, 5, 6.0]]).transpose(0, 1)
    assert t.strides == (1, 3)
    assert t.tolist() == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
    assert not t.is_contiguous()
    assert t.contiguous().strides == (2, 1)
    assert t.contiguous().contiguous() is not t


def test_transposes_in_all_spellings() -> None:
    x = zeros((2, 3, 4))
    assert x.transpose().shape == (4, 3, 2)
    assert x.transpose(1, 2, 0).shape == (3, 4, 2)
    assert x.transpose((1, 2, 0)).shape == (3, 4, 2)
    assert x.transpose(-1, 0).shape == (4, 3, 2)
    assert x.mT.shape == (2, 4, 3)
    assert x[0].T.shape == (4, 3)
    with pytest.raises(ShapeError, match="T is for matrices"):
        _ = x.T
    with pytest.raises(ShapeError, match="once"):
        x.permute_dims(0, 1)


@given(
    data=st.data(),
    array=hnp.arrays(
        "float64", hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4), elements=st.floats(-9, 9)
    ),
)
def test_basic_indexing_is_numpys(data: st.DataObject, array: Any) -> None:
    key = data.draw(hnp.basic_indices(array.shape, allow_newaxis=True))
    for device in ("cpu", "rawbuffer"):
        np.testing.assert_array_equal(asarray(array, device=device)[key].numpy(), array[key])


@given(
    data=st.data(),
    array=hnp.arrays("float32", hnp.array_shapes(max_dims=4, max_side=4), elements=st.floats(-9, 9, width=32)),
)
def test_chains_of_views_are_numpys(data: st.DataObject, array: Any) -> None:
    """Random views of views, then a reshape of the result: strides and copies as needed."""
    xs = [asarray(array, device=device) for device in ("cpu", "rawbuffer")]
    for _ in range(3):
        if data.draw(st.booleans()):
            axes = data.draw(st.permutations(range(array.ndim)))
            array, xs = array.transpose(axes), [x.permute_dims(tuple(axes)) for x in xs]
        else:
            key = data.draw(hnp.basic_indices(array.shape))
            array, xs = np.asarray(array[key]), [x[key] for x in xs]
    flat = array.reshape(-1)
    for x in xs:
        np.testing.assert_array_equal(x.numpy(), array)
        np.testing.assert_array_equal(x.reshape(-1).numpy(), flat)


@given(shapes=hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3))
def test_broadcasting_is_numpys_and_gradients_sum_back(shapes: Any) -> None:
    a, b = (np.random.default_rng(0).normal(size=shape) for shape in shapes.input_shapes)
    x, y = Tensor(a), Tensor(b)
    z = x * y
    assert z.shape == shapes.result_shape
    np.testing.assert_array_equal(z.detach().numpy(), a * b)
    z.sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    full = np.ones(shapes.result_shape)
    for leaf, other, own in ((x, b, a), (y, a, b)):
        expected = full * other
        extra = expected.ndim - own.ndim
        axes = (*range(extra), *(i + extra for i, n in enumerate(own.shape) if n == 1))
        np.testing.assert_allclose(
            leaf.grad.numpy(), expected.sum(axis=axes).reshape(own.shape), rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize(
    "key",
    [
        5,
        (0, 0, 0),
        -4,
        (slice(None), 4),
        1.0,
        "a",
        (..., ...),
        slice(None, None, 0),
        [0, 3],
        [0.5],
        (..., [0], ...),
        ([0], 1, 2),
        [True, False],
        ([0, -4], 1),
        (True, 5),
        ([[0]], 4),
    ],
)
def test_bad_keys_say_what_fits(key: Any) -> None:
    with pytest.raises(IndexingError, match="getitem|take"):
        zeros((3, 4))[key]


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_writing_is_real_where_nothing_is_recorded(device: Device) -> None:
    x = zeros((2, 3), device=device)
    row = x[1]
    x[1, 0] = 5
    row[1:] = [7.0, 8.0]
    assert x.tolist() == [[0.0, 0.0, 0.0], [5.0, 7.0, 8.0]]
    assert row.tolist() == [5.0, 7.0, 8.0]
    x[:, ::-1] = x.copy()
    assert x.tolist() == [[0.0, 0.0, 0.0], [8.0, 7.0, 5.0]]
    x[:] = x[:, ::-1]
    assert x.tolist() == [[0.0, 0.0, 0.0], [5.0, 7.0, 8.0]]


def test_a_saved_operand_that_is_written_is_caught(device: Device) -> None:
    data, w = asarray([1.0, 2.0], device=device), Tensor([3.0, 4.0], device=device)
    loss = (w * data).sum()
    data[0] = 100.0
    with pytest.raises(GraphError, match="multiply.*written in place"):
        loss.backward()
    assert w.grad is None
    (w * data).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [100.0, 2.0]


def test_a_write_through_a_view_is_caught_too(device: Device) -> None:
    data, w = asarray([[1.0, 2.0], [3.0, 4.0]], device=device), Tensor([3.0, 4.0], device=device)
    row = data[0]
    loss = (w * row).sum()
    data[:, 0] = 9.0
    with pytest.raises(GraphError, match="written in place"):
        loss.backward()


def test_filling_a_buffer_with_recorded_values_records(device: Device) -> None:
    w = Tensor([2.0, 3.0], device=device)
    out = zeros((2, 2), device=device)
    out[0] = w * w
    out[1, 0] = w[1]
    assert out.requires_grad
    (out * asarray([[1.0, 2.0], [3.0, 4.0]], device=device)).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [4.0, 15.0]


def test_overwriting_a_computed_tensor_keeps_its_earlier_uses_right(device: Device) -> None:
    x = Tensor([1.0, 2.0, 3.0], device=device)
    y = x * 2
    early = (y * y).sum()
    y[0] = 10.0
    (early + (y * y).sum()).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [8.0, 32.0, 48.0]


def test_leaves_are_written_under_no_grad_only(device: Device) -> None:
    w = Tensor([1.0, 2.0], device=device)
    with pytest.raises(GraphError, match="no_grad"):
        w[0] = 5.0
    loss = (w * w).sum()
    with no_grad():
        w[0] = 5.0
    assert w.tolist() == [5.0, 2.0]
    assert w.is_leaf
    loss.backward()  # of what it was computed from
    assert w.grad is not None
    assert w.grad.tolist() == [2.0, 4.0]


def test_writes_that_others_would_miss_are_refused() -> None:
    w = Tensor([1.0, 2.0])
    with pytest.raises(GraphError, match="shares memory with another"):
        w.detach()[0] = 5.0
    view = w[:1]
    with no_grad(), pytest.raises(GraphError, match="shares memory with another"):
        w[0] = 5.0
    y = w * 2
    part = y[1:]
    with pytest.raises(GraphError, match="shares memory with another"):
        y[0] = 1.0
    del part, view
    y[0] = 1.0
    with no_grad():
        w[0] = 5.0
    assert w.tolist() == [5.0, 2.0]
    assert y.tolist() == [1.0, 4.0]


def test_broadcast_views_and_results_of_0d_reductions_can_be_written_only_as_their_own() -> None:
    x = zeros((1, 3))
    wide = x.broadcast_to(2, 3)
    with pytest.raises(GraphError, match="shares memory"):
        wide[0, 0] = 1.0
    total = x.sum()
    total[()] = 4.0
    assert total.item() == 4.0


def test_values_that_do_not_fit() -> None:
    x = zeros((2, 3))
    with pytest.raises(ShapeError, match="do not fit into shape"):
        x[0] = [1.0, 2.0]
    with pytest.raises(IndexingError):
        x[5] = 1.0
    assert x.tolist() == [[0.0] * 3] * 2


def test_data_can_be_replaced() -> None:
    w = Tensor([1.0, 2.0])
    (w * w).sum().backward()
    assert w.grad is not None
    w.data -= 0.5 * w.grad
    assert w.tolist() == [0.0, 0.0]
    assert w.requires_grad
    with pytest.raises(ShapeError, match="data has shape"):
        w.data = [1.0]
    fresh = zeros(2)
    w.data = fresh
    with pytest.raises(GraphError, match="shares memory"):
        fresh[0] = 1.0


# ── operators ────────────────────────────────────────────────────────────────────────────────────────────────


def test_scalars_on_either_side_are_weak(device: Device) -> None:
    x = Tensor([1.0, 2.0], device=device)
    for result, expected in (
        (2 * x + 1, [3.0, 5.0]),
        (1 - x, [0.0, -1.0]),
        (2 / x, [2.0, 1.0]),
        (2**x, [2.0, 4.0]),
        (x**-1, [1.0, 0.5]),
        (-x, [-1.0, -2.0]),
        (np.float64(2) * x, [2.0, 4.0]),
        (x * np.int64(3), [3.0, 6.0]),
    ):
        assert result.dtype is float32
        assert result.tolist() == expected
    assert (x > 1.5).tolist() == [False, True]
    assert (x < 1.5).tolist() == [True, False]
    assert (x == x).dtype is bool_
    assert (~(x >= 2)).tolist() == [True, False]
    n = Tensor([5, 3], device=device)
    assert (n & 1).tolist() == [1, 1]
    assert (6 ^ n).tolist() == [3, 5]
    assert x != None  # noqa: E711


def test_numpy_arrays_on_either_side() -> None:
    x = Tensor([1.0, 2.0], dtype="float64")
    for result in (x * np.array([3.0, 4.0]), np.array([3.0, 4.0]) * x):
        assert isinstance(result, Tensor)
        assert result.tolist() == [3.0, 8.0]
        assert result.requires_grad


def test_promotion_follows_the_standard() -> None:
    assert (Tensor([1.0]) + Tensor([1.0], dtype="float64")).dtype is float64
    assert (Tensor([1], dtype="int8") + Tensor([1], dtype="uint8")).dtype.name == "int16"
    x, y = Tensor([2.0]), Tensor([3.0], dtype="float64")
    (x * y).sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is float32
    for bad in (
        lambda: Tensor([1]) & 0.5,
        lambda: -Tensor([True]),
        lambda: Tensor([True]) - Tensor([True]),
        lambda: Tensor([1.0]) + True,
        lambda: Tensor([1], dtype="uint64") + Tensor([1]),
    ):
        with pytest.raises(DTypeError, match=r"(undefined|takes).*(astype|write)"):
            bad()
    with pytest.raises(DTypeError, match="outside int8"):
        Tensor([1], dtype="int8") + 300


INTEGER_MEETINGS: list[tuple[Any, str, Any]] = [
    (lambda x: x * 0.5, "float32", [0.0, 0.5, 1.0]),
    (lambda x: 0.5 * x, "float32", [0.0, 0.5, 1.0]),
    (lambda x: x / 2, "float32", [0.0, 0.5, 1.0]),
    (lambda x: x.sum() / 2, "float32", 1.5),
    (lambda x: x + 1j, "complex64", [1j, 1 + 1j, 2 + 1j]),
    (lambda x: x * Tensor([1.0, 2.0, 3.0], dtype="float64"), "float64", [0.0, 2.0, 6.0]),
    (lambda x: x / Tensor([1.0, 2.0, 4.0], dtype="float16"), "float16", [0.0, 0.5, 0.5]),
    (lambda x: functions.FUNCTIONS["sqrt"](x * x), "float32", [0.0, 1.0, 2.0]),
    (lambda x: x.mean(), "float32", 1.0),
    (lambda x: (x > 0) * 3, "int64", [0, 3, 3]),
    (lambda x: (x > 0) * Tensor([1.5, 2.5, 3.5]), "float32", [0.0, 2.5, 3.5]),
    (lambda x: (x > 0) + x, "int64", [0, 2, 3]),
    (lambda x: functions.FUNCTIONS["concat"]([x, Tensor([1.0])]), "float32", [0.0, 1.0, 2.0, 1.0]),
]


@pytest.mark.parametrize(("f", "dtype", "wanted"), INTEGER_MEETINGS)
def test_integers_that_meet_floats_become_floats(f: Any, dtype: str, wanted: Any) -> None:
    found = f(asarray([0, 1, 2]))
    assert found.dtype.name == dtype
    assert found.tolist() == wanted
    assert jit(f)(asarray([0, 1, 2])).tolist() == wanted


def test_gradients_flow_where_integers_meet_floats() -> None:
    x = Tensor([1.0, 2.0])
    (x * asarray([2, 3])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 3.0]


def test_integers_are_not_written_with_floats() -> None:
    x = asarray([1, 2])
    with pytest.raises(DTypeError, match="float32 value does not fit into a int64"):
        x *= 0.5
    assert x.tolist() == [1, 2]


def test_sums_of_small_integers_do_not_overflow() -> None:
    assert Tensor([100, 100], dtype="int8").sum().tolist() == 200
    assert Tensor([100, 100], dtype="int8").sum().dtype is int64


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: zeros((2, 3)) + zeros((2, 4)), ShapeError, r"add: shapes \(2, 3\) and \(2, 4\) do not broadcast"),
        (lambda: zeros((2, 3)) @ zeros((2, 3)), ShapeError, r"matmul: shapes .* \(3\) must equal"),
        (lambda: zeros(()) @ zeros(2), ShapeError, "0-d"),
        (lambda: zeros((2, 3)).sum(axis=2), ShapeError, "sum: axis 2 is out of range"),
        (lambda: zeros((2, 3)).sum(axis=(0, 0)), ShapeError, "twice"),
        (lambda: zeros((2, 3)).reshape(4), ShapeError, "reshape: 6 elements"),
        (lambda: zeros((0,)).max(), ShapeError, "no result exists"),
        (lambda: ~Tensor([1.0]), DTypeError, r"bitwise_invert takes .* got float32"),
        (lambda: Tensor([1.0]) & Tensor([2]), DTypeError, "bitwise_and takes"),
        (lambda: Tensor([1.0]) + "a", TypeError, "unsupported operand"),
        (lambda: functions.FUNCTIONS["add"](Tensor([1.0]), "a"), TypeError, "add: operands are tensors and numbers"),
        (lambda: functions.FUNCTIONS["add"](Tensor([1.0])), TypeError, "takes 2 operands"),
        (
            lambda: functions.FUNCTIONS["concat"]([zeros((2, 3)), zeros((3, 2))]),
            ShapeError,
            "may differ only along axis 0",
        ),
        (
            lambda: functions.FUNCTIONS["mse_loss"](zeros(2), zeros(2), reduction="avg"),
            ValueError,
            "'mean', 'sum' or 'none'",
        ),
    ],
)
def test_bad_operands_get_a_sentence(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_mixing_devices_names_op_devices_and_shapes(rawbuffer_device: Device) -> None:
    x, y = zeros((2, 3)), zeros((3,), device=rawbuffer_device)
    for mix in (lambda: x + y, lambda: y @ x, lambda: functions.FUNCTIONS["where"](x > 0, x, y)):
        with pytest.raises(DeviceMismatch, match=r"(add|matmul|where): .*cpu \(shape \(2, 3\)\).*\.to\(") as caught:
            mix()
        assert "rawbuffer:0" in str(caught.value)
        assert isinstance(caught.value, ValueError)
    with pytest.raises(DeviceMismatch, match="the host"):
        y * np.ones(3)


def test_integers_and_arrays_of_numpy_are_integers_where_shapes_are_meant() -> None:
    two, x = np.int64(2), Tensor(np.arange(4.0).reshape(2, 2))
    assert x.reshape(np.array([4, 1])).shape == (4, 1)
    assert x.reshape(two * two).shape == (4,)
    call = functions.FUNCTIONS
    assert call["pad"](x, two).shape == (6, 6)
    assert call["pad"](x, np.array([1, 0])).shape == call["pad"](x, np.array([[1, 0], [0, 1]])).shape == (3, 3)
    assert call["tensordot"](x, x, axes=np.int64(1)).tolist() == (x @ x).tolist()
    assert call["tensordot"](x, x, axes=np.array([[1], [0]])).tolist() == (x @ x).tolist()
    assert linalg.matrix_power(x, two).tolist() == (x @ x).tolist()
    assert nn.Conv2d(two, two, two)(Tensor(np.ones((1, 2, 4, 4)), dtype="float32")).shape == (1, 2, 3, 3)


def test_out_of_memory_names_the_device_and_loses_nothing() -> None:
    from micrograd_core.errors import OutOfMemory

    x = Tensor([1.0])
    y = x * 2
    with pytest.raises(OutOfMemory, match="out of memory on cpu"):
        y.broadcast_to(1 << 45).exp()
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0]


def test_of_numbers_alone_the_widest_decides() -> None:
    condition = asarray([True, False])
    for first, second, dtype in ((1, 2.5, "float32"), (2.5, 1, "float32"), (True, 3, "int64"), (1.0, 2j, "complex64")):
        out = functions.FUNCTIONS["where"](condition, first, second)
        assert (out.tolist(), str(out.dtype)) == ([first, second], dtype)
