"""The engine asks of a tensor what `BaseTensor` has: methods are those of the room above, which calls the engine."""

from __future__ import annotations

from typing import Any

import pytest

from micrograd_core import Tensor
from micrograd_core.array.places import At
from micrograd_core.engine.apply import accumulated, apply, binary
from micrograd_core.engine.array import BaseTensor, detach
from micrograd_core.engine.backward import backward
from micrograd_core.engine.graph import Leaf
from micrograd_core.engine.ingest import as_array, elements, read
from micrograd_core.engine.keys import getitem, updated
from micrograd_core.engine.modes import autocast
from micrograd_core.engine.write import write
from micrograd_core.ops import TABLE


class Bare(BaseTensor):
    """A tensor without methods."""

    __slots__ = ()


def bare(data: Any, dtype: Any = "float32") -> Any:
    return as_array(Bare, data, dtype=dtype)  # type: ignore[type-var]


def leaf(data: Any) -> Any:
    x = bare(data)
    x._record, x._grad = Leaf(x), None
    return x


def numbers(x: Any) -> Any:
    assert type(x) is Bare
    return elements(read(x._kernels, x._handle, x.dtype), x.shape, x.dtype)


KEYS: dict[str, tuple[Any, Any]] = {
    "an integer": (1, [[1.0, 2.0], [9.0, 9.0]]),
    "a slice": ((slice(None), slice(1, None)), [[1.0, 9.0], [3.0, 9.0]]),
    "integers": ([1], [[1.0, 2.0], [9.0, 9.0]]),
    "a mask": ([[True, False], [False, True]], [[9.0, 2.0], [3.0, 9.0]]),
    "a mask of rows": ([False, True], [[1.0, 2.0], [9.0, 9.0]]),
    "a mask and an integer": (([True, False], 1), [[1.0, 9.0], [3.0, 4.0]]),
    "true": ((True, 0), [[9.0, 9.0], [3.0, 4.0]]),
}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("value", ["a number", "an integer tensor"])
@pytest.mark.parametrize("key", KEYS)
def test_keys_and_writes(key: str, value: str, recorded: bool) -> None:
    entry, after = KEYS[key]
    made: Any = 9.0 if value == "a number" else bare(9, "int64")
    data = [[1.0, 2.0], [3.0, 4.0]]
    x = binary("multiply")[0](leaf(data), 1.0) if recorded else bare(data)
    assert numbers(updated(x, entry, made)) == numbers(At(x)[entry].set(made)) == after
    write(x if recorded else detach(x), entry, made)
    assert numbers(x) == after
    assert set(map(float, str(numbers(getitem(x, entry))).replace("[", "").replace("]", "").split(","))) == {9.0}


def test_a_write_through_a_view_in_the_graph() -> None:
    a = leaf([[1.0, 2.0], [3.0, 4.0]])
    x = binary("multiply")[0](a, 3.0)
    write(getitem(x, 0), 1, 5.0)
    assert numbers(x) == [[3.0, 5.0], [9.0, 12.0]]
    backward(apply(TABLE["sum"], (x,), {"axis": None, "keepdims": False}))
    assert numbers(a._grad) == [[3.0, 0.0], [3.0, 3.0]]


def test_sums_in_another_dtype() -> None:
    for dtype in ("float64", "float32", None):
        out = accumulated(TABLE["sum"], bare([1.0, 2.0]), dtype=dtype, axis=None, keepdims=False)
        assert (numbers(out), str(out.dtype)) == (3.0, dtype or "float32")
    small = accumulated(TABLE["sum"], bare([100, 100], "int8"), dtype="int8", axis=None, keepdims=False)
    assert (numbers(small), str(small.dtype)) == (-56, "int8")


def test_autocast() -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    with autocast("float16"):
        product, root = apply(TABLE["matmul"], (x, x)), apply(TABLE["exp"], (bare([0.0], "float16"),))
    assert (str(product.dtype), str(root.dtype)) == ("float16", "float32")


def test_each_class_of_tensors_gets_its_own() -> None:
    for kind in (Bare, Tensor, Bare):
        x: Any = as_array(kind, [1.0, 2.0])  # type: ignore[type-var]
        x._record, x._grad = Leaf(x), None
        total = apply(TABLE["sum"], (binary("multiply")[0](x, x),), {"axis": None, "keepdims": False})
        backward(total, create_graph=True)
        assert type(x._grad) is kind
