"""Launch geometry as arithmetic on tuples: every element is met once, at the right place."""

from __future__ import annotations

import itertools
import math
from operator import attrgetter
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from micrograd_core.errors import ShapeError
from micrograd_cuda import gemm, geometry, kernels, units
from micrograd_cuda.geometry import Place
from micrograd_cuda.plans import span


def walked(walk: geometry.Walk) -> list[list[int]]:
    """Per operand the offset of each element, in the order of the result: what `locate` and `fetch` in the sources
    do."""
    found: list[list[int]] = [[] for _ in walk.strides]
    for position in itertools.product(*map(range, walk.shape)):
        count = min(walk.pack, walk.length - position[-1] * walk.pack)
        for offsets, strides in zip(found, walk.strides, strict=True):
            start = sum(i * s for i, s in zip(position, strides, strict=True))
            offsets += [start + (v if strides[-1] else 0) for v in range(count)]
    return found


@st.composite
def views(draw: Any) -> tuple[tuple[int, ...], list[np.ndarray]]:
    """Arrays that broadcast together, of many layouts."""
    ndim = draw(st.integers(0, 4))
    shape = tuple(draw(st.sampled_from([1, 2, 3, 4, 8])) for _ in range(ndim))
    arrays = []
    for _ in range(2):
        lengths = tuple(n if draw(st.booleans()) else 1 for n in shape)
        lengths = lengths[draw(st.integers(0, ndim)) :] if draw(st.booleans()) else lengths
        order = draw(st.permutations(range(len(lengths))))
        doubled, start = [lengths[i] * 2 for i in order], draw(st.integers(0, 3))
        base = np.zeros(math.prod(doubled) + 3, "float32")[start:][: math.prod(doubled)].reshape(doubled)
        view = base.transpose(np.argsort(order)) if order else base
        steps = [draw(st.sampled_from([1, 2, -1])) for _ in lengths]
        arrays.append(view[(..., *(_part(n, s) for n, s in zip(lengths, steps, strict=True)))])
    return shape, arrays


def _part(length: int, step: int) -> slice:
    """`length` elements of an axis twice as long."""
    return {1: slice(0, length), 2: slice(None, None, 2), -1: slice(length - 1, None, -1)}[step]


def place(x: np.ndarray) -> Place:
    strides = tuple(s // x.itemsize for s in x.strides)
    return Place(x.shape, strides, geometry.power_of_two(x.ctypes.data, 16))


@settings(deadline=None)
@given(views())
def test_a_walk_meets_what_broadcasting_meets(case: tuple[tuple[int, ...], list[np.ndarray]]) -> None:
    _, arrays = case
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    walk = geometry.walk(shape, tuple(map(place, arrays)), 4)
    assert walk is not None
    assert walk.packs * walk.pack == math.prod(shape) or len(walk.shape) == 1
    for x, offsets, strides, access in zip(arrays, walked(walk), walk.strides, walk.accesses, strict=True):
        if strides[-1]:
            parts = [x.ctypes.data + offset * 4 for offset in offsets[:: walk.pack]]
            assert all(address % (access * 4) == 0 for address in parts)
        wide = np.broadcast_to(x, shape)
        expected = [sum(i * s // 4 for i, s in zip(at, wide.strides, strict=True)) for at in np.ndindex(*shape)]
        assert offsets == expected


def test_contiguous_operands_become_one_axis_of_packs() -> None:
    same = Place((2, 3, 4), (12, 4, 1), 16)
    found = geometry.elementwise("Add", "float32", "NEITHER", (same, same))
    assert found is not None
    assert (found.threads, found.counter, found.numbers) == (6, "int", [6, 24, 6, 4, 4])
    assert found.unit.arguments == ("Add", "float", "float", "NEITHER", "int", "1", "4", "4", "4")


def test_a_bias_is_read_in_packs_and_a_column_once_per_pack() -> None:
    x, bias, column = Place((64, 32), (32, 1), 16), Place((32,), (1,), 16), Place((64, 1), (1, 1), 16)
    rows = geometry.walk((64, 32), (x, bias), 4)
    assert rows == geometry.Walk("int", 4, 32, (64, 8), ((32, 4), (0, 4)), (4, 4))
    assert geometry.walk((64, 32), (x, column), 4) == geometry.Walk("int", 4, 32, (64, 8), ((32, 4), (1, 0)), (4, 4))


@pytest.mark.parametrize(
    ("shape", "strides", "alignment", "pack", "access"),
    [
        ((8, 8), (8, 1), 16, 4, 4),
        ((8, 8), (8, 1), 4, 4, 1),  # from x[1:]
        ((8, 8), (8, 1), 8, 4, 2),
        ((9, 7), (7, 1), 16, 4, 4),  # the last pack is not whole
        ((8, 7), (8, 1), 16, 1, 1),
        ((8, 6), (8, 1), 16, 2, 2),
        ((8, 8), (9, 1), 16, 4, 1),
        ((8, 8), (10, 1), 16, 4, 2),
        ((8, 8), (16, 2), 16, 1, 1),
        ((8, 8), (-8, -1), 16, 1, 1),
        ((8, 8), (0, 1), 16, 4, 4),
    ],
)
def test_packs_are_as_wide_as_shape_and_place_allow(
    shape: tuple[int, ...], strides: tuple[int, ...], alignment: int, pack: int, access: int
) -> None:
    walk = geometry.walk(shape, (Place(shape, strides, alignment),), 4)
    assert walk is not None
    assert (walk.pack, walk.accesses) == (pack, (access,))


def test_a_cast_writes_16_bytes_at_a_time() -> None:
    place = Place((64,), (1,), 16)
    narrowing, widening = (geometry.elementwise("Copy", *dtypes) for dtypes in (
        ("float32", "", (place,), "bfloat16"), ("float16", "", (place,), "float32")))  # fmt: skip
    assert narrowing is not None
    assert widening is not None
    assert narrowing.unit.arguments == ("Copy", "float", "Bfloat16", "int", "1", "8", "4")
    assert widening.unit.arguments == ("Copy", "Half", "float", "int", "1", "8", "8")


def test_large_tensors_are_counted_in_64_bits() -> None:
    for size, counter in ((2**29, "int"), (2**30, "Long"), (2**33, "Long")):
        walk = geometry.walk((size,), (Place((size,), (1,), 16),), 2)
        assert walk is not None
        assert walk.counter == counter
    far = geometry.walk((2,), (Place((2,), (2**31,), 16),), 4)
    assert far is not None
    assert far.counter == "Long"  # few elements, far from each other
    assert geometry.blocks(2**45) == 2**31 - 1


def test_shapes_that_do_not_broadcast_are_the_cores_sentence() -> None:
    with pytest.raises(ShapeError, match=r"add: shapes \(2, 3\) and \(2, 4\) do not broadcast"):
        geometry.elementwise("Add", "float32", "NEITHER", (Place((2, 3), (3, 1), 16), Place((2, 4), (4, 1), 16)))


def test_too_many_axes_are_left_to_others() -> None:
    shape = (2,) * 9
    strides = tuple(3 * 4**i for i in range(9))
    assert geometry.elementwise("Exp", "float32", "", (Place(shape, strides, 16),)) is None


@pytest.mark.parametrize("dtype", units.ELEMENT)
@pytest.mark.parametrize("columns", [1, 2, 10, 31, 32, 100, 1000, 1024, 4096, 50257, 200_000])
def test_rows_are_shared_out_completely(columns: int, dtype: str) -> None:
    for operands, alignment in ((1, 16), (2, 16), (2, 8), (1, geometry.ITEMSIZE[dtype])):
        launch = geometry.row_launch(1000, columns, dtype, operands, alignment)
        assert launch.group & (launch.group - 1) == 0
        assert launch.block % launch.group == 0
        assert launch.block <= 1024
        assert columns % launch.pack == 0
        assert alignment % (launch.pack * geometry.ITEMSIZE[dtype]) == 0
        assert launch.grid[0] * (launch.block // launch.group) >= 1000
        if launch.items:
            assert launch.group * launch.items * launch.pack >= columns
            assert launch.items * launch.pack * operands <= 32


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("rows", [1, 255, 256, 257, 8192, 1_000_000])
@pytest.mark.parametrize("columns", [1, 32, 33, 4096])
def test_bands_cover_all_rows(rows: int, columns: int, whole: bool) -> None:
    launch = geometry.channel_launch(geometry.Channels(False, rows, columns, 1), 4, 16, rows if whole else 256)
    assert launch.piece * launch.parts >= rows
    assert launch.piece * (launch.parts - 1) < rows
    assert launch.grid[0] * 32 * launch.pack >= columns
    assert columns % launch.pack == 0
    assert launch.parts <= (1 if whole else 4096)


def test_the_struct_of_an_optimisers_tensors_fits_a_kernels_parameters() -> None:
    longs = 1 + kernels.MOST_TENSORS * 6 + kernels.MOST_TENSORS + 1
    assert longs * 8 + 64 <= 4096
    text = units.source("optimizer")
    assert f"MOST = {kernels.MOST_TENSORS};" in text
    assert "PIECE = 256 * 16;" in text
    assert kernels.PIECE == 256 * 16
    assert kernels.pieces([1, 4096, 4097, 0]) == [0, 1, 2, 4, 4]


def test_overlap_is_of_bytes() -> None:
    base = np.zeros(24, "float32")
    views = [base[:12], base[12:], base[::2], base[23:5:-1], base[:0], base.reshape(4, 6)[:, :2]]
    for x, y in itertools.product(views, repeat=2):
        (first, last), (start, stop) = (span(z, attrgetter("ctypes.data")) for z in (x, y))
        assert (max(first, start) < min(last, stop)) == np.may_share_memory(x, y)


# ── products ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_transposed_operands_are_not_copied() -> None:
    a, b = Place((5, 7), (7, 1), 16), Place((7, 3), (3, 1), 16)
    a_t, b_t = Place((5, 7), (1, 5), 16), Place((7, 3), (1, 7), 16)
    for x, y in itertools.product((a, a_t), (b, b_t)):
        call = gemm.product(x, y)
        assert isinstance(call, gemm.Product)
        assert (call.m, call.n, call.k) == (3, 5, 7)
        assert (call.first.transposed, call.second.transposed) == (y is b_t, x is a_t)


def test_rows_of_a_larger_matrix_are_read_where_they_are() -> None:
    call = gemm.product(Place((4, 5), (100, 1), 16), Place((5, 6), (1, 200), 16))
    assert isinstance(call, gemm.Product)
    assert (call.second.leading, call.first.leading) == (100, 200)


def test_what_has_no_neighbours_is_copied() -> None:
    assert gemm.product(Place((4, 5), (20, 2), 16), Place((5, 6), (6, 1), 16)) == 0
    assert gemm.product(Place((4, 5), (5, 1), 16), Place((5, 6), (0, 0), 16)) == 1
    assert gemm.product(Place((4, 5), (-5, 1), 16), Place((5, 6), (6, 1), 16)) == 0


def test_nothing_is_multiplied_whatever_its_strides() -> None:
    for strides in ((0, 0, 0), (6, 3, 1)):  # CuPy's of an empty array, and NumPy's
        call = gemm.product(Place((0, 2, 3), strides, 16), Place((0, 3, 2), strides, 16))
        assert isinstance(call, gemm.Product)
        assert (call.k, call.shape) == (0, (0, 2, 2))


def test_one_matrix_serves_a_whole_batch() -> None:
    call = gemm.product(Place((8, 4, 5), (20, 5, 1), 16), Place((5, 6), (6, 1), 16))
    assert isinstance(call, gemm.Product)
    assert (call.m, call.n, call.k, call.batches, call.shape) == (6, 32, 5, 1, (8, 4, 6))  # rows of one product
    call = gemm.product(Place((8, 4, 5), (24, 5, 1), 16), Place((5, 6), (6, 1), 16))
    assert isinstance(call, gemm.Product)
    assert (call.batches, call.second.batch, call.first.batch, call.shape) == (8, 24, 0, (8, 4, 6))


def heads(batch: int, count: int, positions: int, features: int) -> Place:
    """Keys of attention, out of one matrix of queries, keys and values."""
    width = 3 * count * features
    return Place((batch, count, positions, features), (positions * width, features, width, 1), 16)


def test_axes_of_a_batch_that_do_not_continue_each_other_are_several_calls() -> None:
    x, y = heads(16, 4, 512, 128), Place((16, 4, 128, 512), (4 * 2**16, 2**16, 512, 1), 16)
    call = gemm.product(x, y)
    assert isinstance(call, gemm.Product)
    assert (call.batches, call.apart) == (16, 4 * 2**18)
    assert call.starts == tuple((2**16 * i, 128 * i, 2**18 * i) for i in range(4))


def test_small_operands_are_copied_rather_than_multiplied_in_several_calls() -> None:
    assert gemm.product(heads(16, 4, 32, 8), Place((16, 4, 8, 32), (1024, 256, 32, 1), 16)) == 0
    turned = Place((16, 4, 8, 32), (32 * 96, 8, 1, 96), 16)
    assert gemm.product(Place((16, 4, 32, 8), (1024, 256, 8, 1), 16), turned) == 1
    assert gemm.product(heads(16, 4, 32, 8), turned) == 0
    assert gemm.product(heads(1, 4, 32, 8), heads(1, 4, 8, 5)).starts == ((0, 0, 0),)
    spread = gemm.product(Place((3, 1, 4, 5), (20, 20, 5, 1), 16), Place((1, 2, 5, 6), (60, 30, 6, 1), 16))
    assert isinstance(spread, gemm.Product)  # nothing that could be copied would make it one call
    assert (spread.batches, len(spread.starts)) == (3, 2)


def test_products_of_more_than_ints_count_are_left_to_the_namespace() -> None:
    huge = 2**31
    assert gemm.product(Place((huge, 2), (2, 1), 16), Place((2, 2), (2, 1), 16)) is None


def test_precision() -> None:
    assert gemm.compute_type("float32", "highest") == gemm.COMPUTE_32F
    assert gemm.compute_type("float32", "high") == gemm.COMPUTE_TF32
    assert gemm.compute_type("float32", "medium") == gemm.COMPUTE_16BF
    assert gemm.compute_type("float64", "medium") == gemm.COMPUTE_64F
    for half in ("float16", "bfloat16"):
        assert gemm.compute_type(half, "highest") == gemm.COMPUTE_32F
