"""`Layout` against NumPy's strides, for every view it can express."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Layout, broadcast_shapes

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def numpys(view: Any, base: Any) -> list[int]:
    """Positions in `base` (an arange) of the elements of `view`, in C order."""
    return [int(value) for value in view.ravel()]


@given(data=st.data(), shape=SHAPES)
def test_views_of_views_reach_the_elements_that_numpys_do(data: st.DataObject, shape: tuple[int, ...]) -> None:
    array: Any = np.arange(int(np.prod(shape))).reshape(shape)
    layout = Layout.contiguous(shape)
    for _ in range(3):
        kind = data.draw(st.sampled_from(["index", "permute", "broadcast"]))
        if kind == "index":
            key = data.draw(hnp.basic_indices(array.shape, allow_newaxis=True))
            array, layout = np.asarray(array[key]), layout.index(key)
        elif kind == "permute":
            axes = data.draw(st.permutations(range(array.ndim)))
            array, layout = array.transpose(axes), layout.permute(axes)
        elif array.size < 200:
            target = (2, *array.shape)
            array, layout = np.broadcast_to(array, target), layout.broadcast_to(target)
        assert layout.shape == array.shape
        assert list(layout.indices()) == numpys(array, None)
        assert layout.size == array.size
        if layout.size:
            assert layout.may_overlap == (len(set(layout.indices())) < layout.size)
        if layout.is_contiguous and layout.size:
            assert list(layout.indices()) == list(range(layout.offset, layout.offset + layout.size))


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(-9, 9)), max_size=4))
def test_elements_of_a_layout_that_cannot_overlap_are_apart(axes: list[tuple[int, int]]) -> None:
    layout = Layout(tuple(length for length, _ in axes), tuple(stride for _, stride in axes), 100)
    assert layout.may_overlap or len(set(layout.indices())) == layout.size


@given(data=st.data(), shape=hnp.array_shapes(min_dims=1, max_dims=4, max_side=6))
def test_reshape_is_a_view_exactly_when_numpys_is(data: st.DataObject, shape: tuple[int, ...]) -> None:
    base: Any = np.arange(int(np.prod(shape))).reshape(shape)
    key = data.draw(hnp.basic_indices(shape, allow_ellipsis=False))
    axes = None
    array, layout = np.asarray(base[key]), Layout.contiguous(shape).index(key)
    axes = data.draw(st.permutations(range(array.ndim)))
    array, layout = array.transpose(axes), layout.permute(axes)
    size = array.size
    lengths = []
    rest = max(size, 1)
    for _ in range(data.draw(st.integers(0, 3))):
        divisors = [d for d in range(1, rest + 1) if rest % d == 0]
        lengths.append(data.draw(st.sampled_from(divisors)))
        rest //= lengths[-1]
    target = (*lengths, rest) if size else (0, *lengths)
    expected: Any = array.reshape(target)
    found = layout.reshape(target)
    if found is None:
        assert not np.shares_memory(expected, base)
    else:
        assert list(found.indices()) == numpys(expected, None)
        if size > 1:
            assert np.shares_memory(expected, base)


@given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, max_side=4, min_side=0))
def test_broadcast_shapes_is_numpys(shapes: Any) -> None:
    assert broadcast_shapes("add", *shapes.input_shapes) == shapes.result_shape


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match="axis -1 has lengths 2 and 3"):
        broadcast_shapes("add", (2,), (4, 3))
    with pytest.raises(ShapeError, match="does not broadcast to"):
        Layout.contiguous((2, 3)).broadcast_to((3,))
    with pytest.raises(ShapeError, match="different sizes"):
        Layout.contiguous((2, 3)).reshape((4,))


def test_every_method_is_drawn() -> None:
    page = (Path(__file__).parents[2] / "docs" / "layout.md").read_text()
    own = vars(Layout)
    methods = [name for name, _ in inspect.getmembers(Layout, callable) if name in own and not name.startswith("_")]
    assert sorted(re.findall(r"^## (\w+)\(", page, re.M)) == sorted(methods)
    assert all(f"`{name}`" in page for name in ("is_contiguous", "may_overlap", "size"))
