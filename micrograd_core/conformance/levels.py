"""Levels: each word of `Backend.capabilities` is a promise, and a claimed promise is tested."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

import micrograd_core
from micrograd_core.array.tensor import asarray, shares_memory
from micrograd_core.backend import CAPABILITIES, STANDS_ON
from micrograd_core.compiler.executor import straight_line
from micrograd_core.compiler.program import Program, Ref, Step, typed
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.conformance.base import Suite
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES
from micrograd_core.ops import TABLE


def strided(device: Device) -> None:
    """Layouts are told as they are; views share memory, and see what is written to their base."""
    x = asarray(np.arange(12.0).astype("float32").reshape(3, 4), device=device)
    for view, strides, offset in ((x.mT, (1, 4), 0), (x[::2, 1:], (8, 1), 1), (x[::-1], (-4, 1), 8), (x[1], (1,), 4)):
        told = (view.strides, view.offset)
        assert told == (strides, offset), f"layout() tells {view.layout}, not {strides} from {offset}"
        assert shares_memory(view, x), f"a view with strides {strides} does not share memory with its base"
    row = x[1]
    x[1, 0] = 100.0
    assert row.tolist()[0] == 100.0, "a write to the base is not seen by its view"


def dlpack(device: Device) -> None:
    """Handles export their memory, of any layout, without a copy."""
    x = asarray(np.arange(12.0).astype("float32").reshape(3, 4), device=device)
    for view in (x, x.mT, x[1:, ::2]):
        kind, index = view._handle.__dlpack_device__()
        assert isinstance(index, int)
        if kind == 1:  # kDLCPU: NumPy can look at it
            seen = np.from_dlpack(view._handle)
            assert seen.tolist() == view.tolist(), f"DLPack shows {seen.tolist()}, not {view.tolist()}"
            assert np.shares_memory(seen, np.from_dlpack(view._handle)), "two exports of one handle are two copies"


# Kernels of random numbers whose results are the same bits everywhere: names, dtypes, parameters.
RANDOM: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    *(("random_uniform", dtype, {}) for dtype in ("float16", "float32", "float64")),
    ("random_integers", "int64", {"low": -(1 << 63), "high": 1 << 63}),
    ("random_integers", "int64", {"low": -5, "high": (1 << 40) - 5}),
    ("random_integers", "int32", {"low": -7, "high": 1000}),
    ("random_integers", "uint8", {"low": 0, "high": 256}),
    ("random_permutation", "int64", {"shape": (55,)}),
    ("random_uniform", "float32", {"shape": (5003,)}),
    ("random_integers", "int32", {"low": 0, "high": 1 << 31, "shape": (5003,)}),
)


HOST_BYTES: Final = SimpleNamespace(upload=lambda data, shape, dtype: data)
"""A kernel table for the compositions of random numbers, which only upload."""


def random(device: Device) -> None:
    """The device has kernels of its own for random numbers; `Levels.test_random_numbers` says which numbers."""
    missing = [name for name, _, _ in RANDOM if not device.kernels.is_native(name)]
    assert not missing, f"'random' is claimed, but there is no kernel for {', '.join(dict.fromkeys(missing))}"


def array_api(device: Device) -> None:
    """No function is missing; each is tested with its samples."""
    main = [op for op in TABLE.values() if op.standard and not op.extension]
    missing = [op.name for op in main if not device.kernels.provides(op)]
    assert not missing, f"'array-api' is claimed, but {', '.join(missing)} cannot be computed"


def boolean_indexing(device: Device) -> None:
    """A mask selects, in C order, and names what is written."""
    array = np.arange(12.0).astype("float32").reshape(3, 4)
    x = asarray(array, device=device)
    for mask in (array > 4, array[:, 0] > 3, np.zeros((3, 4), "bool")):
        selected, expected = x[asarray(mask, device=device)], array[mask].tolist()
        assert selected.device is device
        assert selected.tolist() == expected, f"a mask selects {selected.tolist()}, not {expected}"
    written = array.copy()
    written[array > 4] = -1.0
    x[x > 4] = -1.0
    assert x.tolist() == written.tolist(), f"writing through a mask gives {x.tolist()}, not {written.tolist()}"


def data_dependent_shapes(device: Device) -> None:
    """How many results there are depends on the numbers."""
    x = asarray(np.array([3, 0, 3, 1, 0, 0]), device=device)
    (positions,) = micrograd_core.nonzero(x)
    values, counts = micrograd_core.unique_counts(x)
    assert positions.tolist() == [0, 2, 3], f"nonzero gives {positions.tolist()}"
    found = dict(zip(values.tolist(), counts.tolist(), strict=True))
    assert found == {0: 3, 1: 1, 3: 2}, f"unique_counts gives {found}"


def jit(device: Device) -> None:
    """A compiled program computes what its kernels in a row do."""
    kernels = device.kernels
    given = TensorSpec((3, 4), DTYPES["float32"])
    steps = (
        Step("multiply", (Ref(0), Ref(1)), {}),
        Step("add", (Ref(2), 0.5), {}),
        Step("exp", (Ref(3),), {}),
        Step("sum", (Ref(4),), {"axis": (1,), "keepdims": False}),
        Step("less", (Ref(3), 0.5), {}),
        Step("astype", (Ref(6),), {"dtype": given.dtype}),
    )
    program = typed(Program(2, steps, (Ref(5), Ref(3), Ref(7), Ref(0))), [given, given])
    array = np.linspace(-1, 1, 12).astype("float32").reshape(3, 4)
    compiled, row = kernels.compile(program), straight_line(program, lambda op: getattr(kernels, op))
    for one in (array, array + 1):  # what is compiled serves other handles too
        handles = [asarray(each, device=device)._handle for each in (one, one[::-1].copy())]
        for output, found, expected in zip(program.outputs, compiled(*handles), row(*handles), strict=True):
            spec = program.types[output.number]
            said = kernels.spec(found)
            assert said == spec, f"a compiled program returns {said} for {output}, which is {spec} in\n{program}"
            first, second = (np.frombuffer(kernels.to_host(each), "float32") for each in (found, expected))
            near = np.allclose(first, second, rtol=1e-5)
            assert near, f"a compiled program gives other numbers for {output} than its kernels in a row:\n{program}"


_OF_WORDS = (array_api, boolean_indexing, data_dependent_shapes, dlpack, jit, random, strided)
LEVELS: Final[dict[str, Callable[[Device], None]]] = {each.__name__.replace("_", "-"): each for each in _OF_WORDS}
"""Word to test. `complex`, `linalg`, `eig` and `fft` are tested by the samples of the operations that need them."""


class Levels(Suite):
    """One test a word."""

    def test_level(self, word: str, opened: Device) -> None:
        """What `CAPABILITIES` promises for the word, if it is claimed."""
        if word not in opened.capabilities:
            pytest.skip(f"add {word!r} to capabilities if {CAPABILITIES[word]}")
        unclaimed = sorted(STANDS_ON.get(word, frozenset()) - opened.capabilities)
        assert not unclaimed, f"{word!r} is claimed without {', '.join(unclaimed)}"
        if word in LEVELS:
            LEVELS[word](opened)
            return
        for op in [op for op in TABLE.values() if op.capability == word]:
            assert getattr(opened.kernels, op.name) is not None, f"{word!r} is claimed, but there is no {op.name}"

    def test_random_numbers(self, opened: Device) -> None:
        """Bit by bit those of `micrograd_core.ops.standard.random`, whoever makes them."""
        for name, dtype, params in RANDOM:
            if dtype not in opened.kernels.backend.dtypes:
                continue
            place = {"shape": (5, 11), "dtype": DTYPES[dtype], "key": 3 << 64 | 5, "block": (1 << 64) - 1, **params}
            found = bytes(opened.kernels.to_host(getattr(opened.kernels, name)(**place)))
            expected = TABLE[name].compose(HOST_BYTES, **place)  # type: ignore[misc]
            assert found == expected, f"{name} gives other {dtype} numbers than the specification: {found[:64].hex()}"
