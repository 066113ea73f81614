"""What becomes of handles: writes into them, their memory, other threads, and programs that are called again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
import pytest

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.conformance.base import Suite, others
from micrograd_core.conformance.cases import DEFINITIONS, LAYOUTS, download, rounded, upload
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES
from micrograd_core.ops import TABLE
from micrograd_core.transforms.jit import jit

ALL: Final = slice(None)
KEYS: Final[tuple[Any, ...]] = (
    ..., 1, slice(1, None), slice(None, None, -1), (ALL, slice(None, None, 2)), (ALL, slice(None, None, -2)),
    (slice(1, None), slice(2)), (2, -1), (..., None, 0),
)  # fmt: skip
"""What is written to, of three rows and four columns."""
PAIRS: Final = [(name, tuple(LAYOUTS)[i - further]) for i, name in enumerate(LAYOUTS) for further in (0, 1)]
"""How two operands lie in memory."""
AXES: Final = (None, (0,), (-1,), (0, 1), (1, 0), (2, 0), (0, -1), (2, 0, 1))
"""Axes of three, in any order."""


PROGRAMS: Final[dict[str, Callable[[Any, Any], tuple[Any, ...]]]] = {
    "sums": lambda x, y: ((x * y + x).sum(axis=0), (x * y + x).sum(axis=1), (x * y + x).sum(axis=(1, 0)), y.sum()),
    "nearly equal": lambda x, y: (x + 1.0, x + 1.5, x * 2.0, x * -2.0, x - y, y - x, x * 0.0, x * -0.0, x[:2], x[1:]),
    "rows": lambda x, y: (x[0] * 2 + y[1], x[1] * 2 + y[0], x[-1] + y[..., ::-1][0], x[:, 1] - y[:, 2]),
    "copies": lambda x, y: (x.mT, y[1:], x + 0.0, y * 1.0, x.reshape(4, 3), y[::-1]),
}  # fmt: skip
"""Functions of two matrices of three rows and four columns, of NumPy's arrays and of tensors."""


class Handles(Suite):
    """What a device could forget, or mix up, between two calls."""

    def test_assignments(self, dtype: str, opened: Device) -> None:
        """Numbers, rows, matrices and parts of the same memory, into memory of any layout."""
        array = rounded(np.arange(12) % 5 > 1 if dtype == "bool" else np.arange(12), dtype).reshape(3, 4)
        up = partial(upload, device=opened, dtype=dtype)
        for (name, layout), key in product(LAYOUTS.items(), KEYS):
            for what, value in _values(array, key):
                written, x = array.copy() if name != "broadcast" else np.repeat(array[:, :1], 4, 1), layout(array, up)
                if what == "itself, backwards":
                    written[key], x[key] = written[::-1, ::-1][key].copy(), x[::-1, ::-1][key]
                else:
                    written[key], x[key] = value, value if np.isscalar(value) else up(value)
                assert np.array_equal(download(x), written), f"{dtype}, {name}: x[{key}] = {what} gives {x.tolist()}"

    def test_host_memory_stays_the_hosts(self, dtype: str, opened: Device) -> None:
        """What is written to the host's memory after it was sent does not reach the device, nor the other way round."""
        kernels = opened.kernels
        sent = bytes(range(64)) * 4 if dtype != "bool" else bytes([0, 1] * 128)
        data = bytearray(sent)
        x = kernels.upload(data, (len(data) // DTYPES[dtype].itemsize,), DTYPES[dtype])
        data[:] = bytes(len(data))
        assert bytes(kernels.to_host(x)) == sent, f"{dtype}: from_host keeps the host's memory"

    def test_strided_memory_is_received(self, opened: Device) -> None:
        """From other devices, whatever its layout there."""
        array = np.arange(12, dtype="float32").reshape(3, 4)
        for other, (name, layout) in product(others(opened), LAYOUTS.items()):
            x = layout(array, partial(asarray, device=other))
            assert x.to(opened).tolist() == x.tolist(), f"{name}: arrived from {other} as {x.to(opened).tolist()}"

    def test_other_threads_read(self, opened: Device) -> None:
        """What one thread made another reads, computes with, differentiates and frees."""
        made: list[Any] = []

        def work() -> None:
            x = Tensor(np.arange(6, dtype="float32"), device=opened)
            made[:] = x, (x * x).sum(), asarray([[1.0, 2.0], [3.0, 4.0]], device=opened).mT, given.tolist()

        given = asarray(np.arange(3, dtype="float32"), device=opened) * 2
        with ThreadPoolExecutor(1) as threads:
            threads.submit(work).result()
        assert made[0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        assert made[3] == [0.0, 2.0, 4.0]
        assert made[2].tolist() == [[1.0, 3.0], [2.0, 4.0]]
        made[1].backward()
        assert made[0].grad.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]

    def test_axes_and_keepdims(self, op: str, opened: Device) -> None:
        """Reductions over axes in any order, with each of their other parameters."""
        if TABLE[op].operands != 1 or not opened.kernels.is_native(op):
            return
        function, reference = FUNCTIONS[op], TABLE[op].reference
        known = inspect.signature(function).parameters
        if "keepdims" not in known or "tuple" not in str(getattr(known.get("axis"), "annotation", "")):
            return
        array = rounded((np.arange(24) * 7 % 5 - 1.5), "float32").reshape(2, 3, 4)
        corrections = ({}, {"correction": 1.0}) if "correction" in known else ({},)
        for axis, keepdims, more in product(AXES, (False, True), corrections):
            params = {"axis": axis, "keepdims": keepdims, **more}
            wanted = np.asarray(reference(DEFINITIONS, array.astype("float64"), **params))
            found = download(function(asarray(array, device=opened), **params))
            assert found.shape == wanted.shape, f"{op} of (2, 3, 4) with {params} has the shape {found.shape}"
            assert np.allclose(found, wanted, rtol=1e-4), f"{op} with {params} is {found.tolist()}"

    @pytest.mark.parametrize("program", PROGRAMS)
    def test_programs_called_again(self, program: str, opened: Device) -> None:
        """One function under `jit`, of operands that lie otherwise in memory, and were written to in between."""
        function, compiled = PROGRAMS[program], jit(PROGRAMS[program])
        up = partial(asarray, device=opened)
        for number, (first, second) in enumerate(PAIRS):
            arrays = [(np.arange(12.0).reshape(3, 4) - factor * number).astype("float32") for factor in (1, 2)]
            tensors = [LAYOUTS[name](a, up) for name, a in zip((first, second), arrays, strict=True)]
            for _ in range(2):
                seen = [download(x).copy() for x in tensors]
                results = compiled(*tensors)
                _compared(results, function(*seen), f"{program} of {first} and {second} memory")
                for x in tensors:
                    x[1] = x[0] + 0.5  # neither results nor the next call may be those of before
                _compared(results, function(*seen), f"{program}, after a write to its operands,")
                kept = [download(x).copy() for x in tensors]
                for y in results:
                    y *= 0.0
                for x, before in zip(tensors, kept, strict=True):
                    assert np.array_equal(download(x), before), f"{program}: a write to a result reaches an operand"


def _values(array: Any, key: Any) -> Iterator[tuple[str, Any]]:
    """What may be written to ``array[key]``."""
    part = array[::-1][key]
    yield "a number", array[0, 3].item()
    yield "an array", part
    if part.ndim:
        yield "one for all", part[:1] if part.ndim == 1 else part[..., :1]
    yield "itself, backwards", None


def _compared(results: tuple[Tensor, ...], wanted: tuple[Any, ...], name: str) -> None:
    for position, (found, expected) in enumerate(zip(results, wanted, strict=True)):
        numbers = download(found)
        equal = np.allclose(numbers, expected, rtol=1e-5) and np.array_equal(np.signbit(numbers), np.signbit(expected))
        assert equal, f"{name} gives as result {position} {found.tolist()}, not {np.asarray(expected).tolist()}"
