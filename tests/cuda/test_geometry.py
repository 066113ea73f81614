"""Launch geometry as arithmetic on tuples: every element is met once, at the right place."""

from __future__ import annotations

import itertools
import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from micrograd_core.errors import ShapeError
from micrograd_cuda import gemm, geometry, kernels, units
from micrograd_cuda.geometry import Place


def walked(walk: geometry.Walk) -> list[list[int]]:
    """Per operand the offset of each element, in the order of the result: what `locate` and `fetch` in the sources
    do."""
    found: list[list[int]] = [[] for _ in walk.strides]
    for position in itertools.product(*map(range, walk.shape)):
        for offsets, strides in zip(found, walk.strides, strict=True):
            start = sum(i * s for i, s in zip(position, strides, strict=True))
            offsets += [start + (v if strides[-1] else 0) for v in range(walk.pack)]
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
        base = np.zeros([lengths[i] * 2 for i in order], "float32")
        view = base.transpose(np.argsort(order)) if order else base
        steps = [draw(st.sampled_from([1, 2, -1])) for _ in lengths]
        arrays.append(view[tuple(_part(n, s) for n, s in zip(lengths, steps, strict=True))])
    return shape, arrays


def _part(length: int, step: int) -> slice:
    """`length` elements of an axis twice as long."""
    return {1: slice(0, length), 2: slice(None, None, 2), -1: slice(length - 1, None, -1)}[step]


def place(x: np.ndarray) -> Place:
    strides = tuple(s // x.itemsize for s in x.strides)
    return Place(x.shape, strides, True)


@given(views())
def test_a_walk_meets_what_broadcasting_meets(case: tuple[tuple[int, ...], list[np.ndarray]]) -> None:
    _, arrays = case
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    walk = geometry.walk(shape, tuple(map(place, arrays)), 4)
    assert walk is not None
    assert walk.packs * walk.pack == math.prod(shape)
    for x, offsets in zip(arrays, walked(walk), strict=True):
        wide = np.broadcast_to(x, shape)
        expected = [sum(i * s // 4 for i, s in zip(at, wide.strides, strict=True)) for at in np.ndindex(*shape)]
        assert offsets == expected


def test_contiguous_operands_become_one_axis_of_packs() -> None:
    same = Place((2, 3, 4), (12, 4, 1), True)
    found = geometry.elementwise("Add", "float32", "NEITHER", (same, same))
    assert found is not None
    assert found.walk == geometry.Walk("int", 4, (6,), ((4,), (4,)))
    assert found.unit.arguments == ("Add", "float", "int", "1", "4", "NEITHER")


def test_a_bias_is_read_in_packs_and_a_column_once_per_pack() -> None:
    x, bias, column = Place((64, 32), (32, 1), True), Place((32,), (1,), True), Place((64, 1), (1, 1), True)
    rows = geometry.walk((64, 32), (x, bias), 4)
    assert rows == geometry.Walk("int", 4, (64, 8), ((32, 4), (0, 4)))
    assert geometry.walk((64, 32), (x, column), 4) == geometry.Walk("int", 4, (64, 8), ((32, 4), (1, 0)))


@pytest.mark.parametrize("change", ["misaligned", "odd length", "step 2", "odd row"])
def test_what_does_not_fit_packs_goes_one_by_one(change: str) -> None:
    shape, strides, aligned = (8, 8), (8, 1), True
    if change == "misaligned":
        aligned = False
    if change == "odd length":
        shape, strides = (8, 7), (8, 1)
    if change == "step 2":
        strides = (16, 2)
    if change == "odd row":
        strides = (9, 1)
    walk = geometry.walk(shape, (Place(shape, strides, aligned),), 4)
    assert walk is not None
    assert walk.pack == 1


def test_large_tensors_are_counted_in_64_bits() -> None:
    for size, counter in ((2**29, "int"), (2**30, "Long"), (2**33, "Long")):
        walk = geometry.walk((size,), (Place((size,), (1,), True),), 2)
        assert walk is not None
        assert walk.counter == counter
    far = geometry.walk((2,), (Place((2,), (2**31,), True),), 4)
    assert far is not None
    assert far.counter == "Long"  # few elements, far from each other
    assert geometry.blocks(2**45) == 2**31 - 1


def test_shapes_that_do_not_broadcast_are_the_cores_sentence() -> None:
    with pytest.raises(ShapeError, match=r"add: shapes \(2, 3\) and \(2, 4\) do not broadcast"):
        geometry.elementwise("Add", "float32", "NEITHER", (Place((2, 3), (3, 1), True), Place((2, 4), (4, 1), True)))


def test_too_many_axes_are_left_to_others() -> None:
    shape = (2,) * 9
    strides = tuple(3 * 4**i for i in range(9))
    assert geometry.elementwise("Exp", "float32", "", (Place(shape, strides, True),)) is None


@pytest.mark.parametrize("dtype", units.ELEMENT)
@pytest.mark.parametrize("columns", [1, 2, 10, 31, 32, 100, 1000, 1024, 4096, 50257, 200_000])
def test_rows_are_shared_out_completely(columns: int, dtype: str) -> None:
    for operands in (1, 2):
        launch = geometry.row_launch(1000, columns, dtype, operands, True)
        assert launch.group & (launch.group - 1) == 0
        assert launch.block % launch.group == 0
        assert launch.block <= 1024
        assert columns % launch.pack == 0
        assert launch.grid[0] * (launch.block // launch.group) >= 1000
        if launch.items:
            assert launch.group * launch.items * launch.pack >= columns
            assert launch.items * launch.pack * operands <= 32


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 8192, 1_000_000])
@pytest.mark.parametrize("columns", [1, 32, 33, 4096])
def test_bands_cover_all_rows(rows: int, columns: int) -> None:
    launch = geometry.column_launch(rows, columns)
    assert launch.band * launch.bands >= rows
    assert launch.band * (launch.bands - 1) < rows
    assert launch.grid[0] * 32 >= columns
    assert launch.bands <= 65535


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
        facts = [(z.ctypes.data, z.shape, tuple(s // 4 for s in z.strides)) for z in (x, y)]
        assert geometry.spans_overlap(facts[0], facts[1], (4, 4)) == np.may_share_memory(x, y)


# ── products ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_transposed_operands_are_not_copied() -> None:
    a, b = Place((5, 7), (7, 1), True), Place((7, 3), (3, 1), True)
    a_t, b_t = Place((5, 7), (1, 5), True), Place((7, 3), (1, 7), True)
    for x, y in itertools.product((a, a_t), (b, b_t)):
        call = gemm.product(x, y)
        assert isinstance(call, gemm.Product)
        assert (call.m, call.n, call.k) == (3, 5, 7)
        assert (call.first.transposed, call.second.transposed) == (y is b_t, x is a_t)


def test_rows_of_a_larger_matrix_are_read_where_they_are() -> None:
    call = gemm.product(Place((4, 5), (100, 1), True), Place((5, 6), (1, 200), True))
    assert isinstance(call, gemm.Product)
    assert (call.second.leading, call.first.leading) == (100, 200)


def test_what_has_no_neighbours_is_copied() -> None:
    assert gemm.product(Place((4, 5), (20, 2), True), Place((5, 6), (6, 1), True)) == 0
    assert gemm.product(Place((4, 5), (5, 1), True), Place((5, 6), (0, 0), True)) == 1
    assert gemm.product(Place((4, 5), (-5, 1), True), Place((5, 6), (6, 1), True)) == 0


def test_one_matrix_serves_a_whole_batch() -> None:
    call = gemm.product(Place((8, 4, 5), (20, 5, 1), True), Place((5, 6), (6, 1), True))
    assert isinstance(call, gemm.Product)
    assert (call.batches, call.second.batch, call.first.batch, call.shape) == (8, 20, 0, (8, 4, 6))


def test_products_that_the_library_cannot_express_are_left_to_the_namespace() -> None:
    x = Place((2, 3, 4, 5), (1000, 20, 5, 1), True)  # a batch of two strides
    assert gemm.product(x, Place((5, 6), (6, 1), True)) is None
    huge = 2**31
    assert gemm.product(Place((huge, 2), (2, 1), True), Place((2, 2), (2, 1), True)) is None


def test_precision() -> None:
    assert gemm.compute_type("float32", "highest") == gemm.COMPUTE_32F
    assert gemm.compute_type("float32", "high") == gemm.COMPUTE_TF32
    assert gemm.compute_type("float32", "medium") == gemm.COMPUTE_16BF
    assert gemm.compute_type("float64", "medium") == gemm.COMPUTE_64F
    for half in ("float16", "bfloat16"):
        assert gemm.compute_type(half, "highest") == gemm.COMPUTE_32F
