"""The boundary: moves, writes, memory, threads, deep graphs, and what the backend says of itself.

Also what becomes of handles, and refusals: bad operands are answered by an error that names the operation and what was
wrong, and nothing breaks.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
import pytest

from micrograd_core import errors, random
from micrograd_core.array.creation import arange, full, zeros
from micrograd_core.array.functions import FUNCTIONS, is_lenient
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.backend import CAPABILITIES, PROTOCOL
from micrograd_core.conformance.base import Suite, kept, others
from micrograd_core.conformance.cases import DEFINITIONS, LAYOUTS, Case, cases, download, rounded, upload
from micrograd_core.conformance.kernels import at_once
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES
from micrograd_core.engine.modes import enable_grad
from micrograd_core.ops import TABLE, Op
from micrograd_core.ops.record import BITS, BOOLEAN
from micrograd_core.transforms.jit import jit


class Boundary(Suite):
    """The device as a whole."""

    def test_protocol_and_capabilities(self, opened: Device) -> None:
        """The version this core speaks; words of the vocabulary."""
        assert opened.kernels.backend.protocol <= PROTOCOL
        assert opened.capabilities <= set(CAPABILITIES)

    def test_round_trip(self, dtype: str, opened: Device) -> None:
        """Host to device and back, for every layout, 0-d and empty."""
        for shape in ((3, 4), (5,), (), (0, 3)):
            size = int(np.prod(shape))
            numbers = np.arange(size) % 2 == 1 if dtype == "bool" else np.arange(size)
            array = rounded(numbers, dtype).reshape(shape)
            for name, layout in LAYOUTS.items():
                if name == "broadcast" or (0 in shape and name == "offset"):
                    continue
                up = partial(upload, device=opened, dtype=dtype)
                x = layout(array, up) if shape else up(array)
                assert x.tolist() == array.tolist(), f"{dtype} {shape} {name}: came back as {x.tolist()}"
                assert str(x.dtype) == dtype, f"{dtype}: became {x.dtype}"

    def test_moves_between_devices_keep_numbers_and_gradients(self, dtype: str, opened: Device) -> None:
        """To each other device at hand and back, inside the graph."""
        elsewhere = [device for device in others(opened) if dtype in device.kernels.backend.dtypes]
        if not elsewhere:
            pytest.skip("there is no other device with this dtype to move to")
        for other in elsewhere:
            x = upload(rounded(np.arange(6).reshape(2, 3).T, dtype), opened, dtype)
            there = x.mT.to(other)
            assert there.device is other
            assert there.tolist() == x.mT.tolist(), f"{dtype}: arrived on {other} as {there.tolist()}"
            assert there.to(opened).tolist() == x.mT.tolist(), f"{dtype}: came back from {other} as something else"
            if DTYPES[dtype].kind == "real floating":
                x = Tensor(x)
                (x.to(other) * 3).to(opened).sum().backward()
                assert x.grad is not None
                assert x.grad.device is opened
                assert x.grad.tolist() == [[3.0, 3.0]] * 3

    def test_writing(self, opened: Device) -> None:
        """In place, and seen by views, or not at all: then the core copies."""
        x = zeros((3, 4), device=opened)
        x[1, ::2] = 5.0
        x[:, -1] = asarray([1.0, 2.0, 3.0], device=opened)
        assert x.tolist() == [[0.0, 0.0, 0.0, 1.0], [5.0, 0.0, 5.0, 2.0], [0.0, 0.0, 0.0, 3.0]]

    def test_memory_returns_after_use(self, opened: Device) -> None:
        """What a graph held is given back when it dies, if the device tells."""
        opened.synchronize()
        if "in_use" not in opened.memory():
            pytest.skip("memory() does not tell 'in_use'")

        def work() -> None:
            x = Tensor(np.ones((64, 64), "float32"), device=opened)
            (x.exp() * x).sum().backward()
            del x
            full((64, 64), 0.5, device=opened), arange(64, device=opened)
            if "random" in opened.capabilities:
                with random.use_generator(7):
                    random.uniform((64,), device=opened), random.permutation(64, device=opened)
                    random.randint((64,), 0, 9, device=opened)

        leaked = kept(opened, work)
        assert leaked <= 0, f"{leaked} bytes stay in use after a graph has died"

    def test_deep_graphs(self, opened: Device) -> None:
        """A chain of 10⁵ operations builds, sweeps and dies."""
        x = Tensor(1.0, device=opened)
        y = x
        for _ in range(100_000):
            y = -y
        y.backward()
        assert x.grad is not None
        assert x.grad.item() == 1.0

    def test_threads(self, opened: Device) -> None:
        """Four threads compute at the same time, each its own graph."""

        def work() -> Tensor:
            x = Tensor(np.arange(1.0, 9.0, dtype="float32"), device=opened)
            with enable_grad():
                for _ in range(20):
                    x.zero_grad()
                    (x * x).sum().backward()
            assert x.grad is not None
            total: Tensor = x.grad.sum()
            return total

        assert work().item() == 72.0
        at_once({f"thread {n}": work for n in range(4)})

    def test_results_repeat(self, opened: Device) -> None:
        """The same inputs give the same bits."""
        x = asarray(np.random.default_rng(0).normal(size=(33, 17)).astype("float32"), device=opened)
        first, second = ((x @ x.mT).softmax().sum(axis=0).tolist() for _ in range(2))
        assert first == second


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


# ── refusals ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Refusals(Suite):
    """What must not work, one operation at a time, and how the error reads."""

    def test_refuses_dtypes(self, op: str, opened: Device) -> None:
        """Naming the operation and the dtype, whatever operand has it."""
        for case, position, operands in _operands(op, opened):
            wrong = _refused(case.op, position, opened)
            if wrong is not None:
                operands[position] = zeros(operands[position].shape, dtype=wrong, device=opened)
                with pytest.raises(errors.DTypeError, match=rf"{op}\b.*{wrong}"):
                    case.call(operands)

    def test_refuses_shapes(self, op: str, opened: Device) -> None:
        """With the sentence of the op's own check, which names the operation and the shapes."""
        for case, position, operands in _operands(op, opened):
            operand = operands[position]
            if operand.ndim:
                longer = tuple(length + 1 for length in operand.shape)
                operands[position] = zeros(longer, dtype=operand.dtype, device=opened)
                expected = _complaint(case, operands)
                if expected is not None:
                    assert re.match(r"\w+: .*\(", str(expected)), f"the sentence lacks operation or shapes: {expected}"
                    with pytest.raises(type(expected), match=re.escape(str(expected))):
                        case.call(operands)

    def test_refuses_axes(self, op: str, opened: Device) -> None:
        """Naming the operation and the axis."""
        parameters = TABLE[op].parameters
        if parameters is None or "axis" not in inspect.signature(parameters).parameters:
            return
        for case in _samples(op, opened):
            if "axis" in case.sample.params and isinstance(case.sample.params["axis"], int):
                with pytest.raises(errors.ShapeError, match=rf"{op}: axis 9"):
                    case.call(case.tensors(opened), axis=9)

    def test_refuses_operands_on_another_device(self, op: str, opened: Device) -> None:
        """Naming the operation, both devices and both shapes."""
        elsewhere = next(iter(others(opened)), None)
        if elsewhere is None:
            pytest.skip("there is no other device to mix with")
        for case in _samples(op, opened):
            operands = case.tensors(opened)
            tensors = [i for i, x in enumerate(operands) if isinstance(x, Tensor)]
            if len(tensors) < 2 or str(operands[tensors[-1]].dtype) not in elsewhere.kernels.backend.dtypes:
                continue
            operands[tensors[-1]] = operands[tensors[-1]].to(elsewhere)
            with pytest.raises(errors.DeviceMismatch, match=op) as caught:
                case.call(operands)
            for x in (operands[tensors[0]], operands[tensors[-1]]):
                assert f"{x.device} (shape {x.shape})" in str(caught.value)

    def test_refuses_indices_out_of_range(self, opened: Device) -> None:
        """Naming the index and the shape, to read and to write."""
        x = zeros((2, 3), device=opened)
        with pytest.raises(errors.IndexingError, match=r"5.*\(2, 3\)|5.*axis 1"):
            x[0, 5]
        with pytest.raises(errors.IndexingError, match=r"5.*\(2, 3\)|5.*axis 1"):
            x[0, 5] = 1.0
        assert x.tolist() == [[0.0] * 3] * 2
        for row in (-1, 2):  # of an embedding, which the device need not look at: then there is no number
            with suppress(errors.IndexingError):
                rows = FUNCTIONS["embedding"](asarray([row, 0], device=opened), x)
                assert str(rows.tolist()) == "[[nan, nan, nan], [0.0, 0.0, 0.0]]"

    def test_refuses_dtypes_that_the_device_lacks(self, opened: Device) -> None:
        """Naming the dtype, the device and what it has."""
        has = opened.kernels.backend.dtypes
        for name in DTYPES:
            if name not in has:
                with pytest.raises(errors.UnsupportedDType, match=f"does not support {name}; it has .*float32"):
                    zeros(2, dtype=name, device=opened)

    def test_refuses_what_does_not_fit_into_memory(self, opened: Device) -> None:
        """With `OutOfMemory`, which names the device; what was there before is unharmed."""
        x = Tensor([1.0, 2.0], device=opened)
        y = x * x
        with pytest.raises(errors.OutOfMemory, match=str(opened)):
            zeros(2**58, device=opened)
        y.sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2.0, 4.0]

    def test_refuses_operands_that_are_not_numbers(self, opened: Device) -> None:
        """Naming the operation and the type."""
        x = asarray(np.ones(2, "float32"), device=opened)
        with pytest.raises(TypeError):
            x + "1"
        with pytest.raises(TypeError, match="str"):
            asarray("1", device=opened)


def _samples(op: str, device: Device) -> Iterable[Case]:
    """One case per sample of an operation."""
    first: dict[int, Case] = {}
    for case in cases(device.kernels.backend.dtypes, device.capabilities, only=op):
        first.setdefault(case.number, case)
    return first.values()


def _operands(op: str, device: Device) -> Iterator[tuple[Case, int, list[Any]]]:
    """For each tensor among the operands of a sample: the case, its position, and all operands, made anew."""
    for case in _samples(op, device):
        for position, operand in enumerate(case.tensors(device)):
            if isinstance(operand, Tensor):
                yield case, position, case.tensors(device)


def _refused(op: Op, position: int, device: Device) -> str | None:
    """A dtype that the device has and the operation does not take there, nor its function in another."""
    accepted = op.accepted(position)
    if position not in op.separate:  # what is of a lower kind becomes what the others are, or what is needed
        accepted |= BITS if "real floating" in accepted else BOOLEAN if op.operands != 1 else frozenset()
    if is_lenient(op):
        accepted = frozenset(dtype.kind for dtype in DTYPES.values()) if op.accepts == BOOLEAN else accepted | BOOLEAN
    return next(
        (name for name in device.kernels.backend.dtypes if name in DTYPES and DTYPES[name].kind not in accepted), None
    )


def _complaint(case: Case, operands: list[Any]) -> errors.MicrogradError | None:
    """What the op table says of shapes, or ``None`` if they fit."""
    op, params = case.op, case.sample.params
    try:
        canonical = op.parameters(*operands, **params) if op.parameters is not None else params
        if op.check is not None:
            op.check(op.name, *(getattr(x, "shape", ()) for x in operands), **canonical)
    except errors.MicrogradError as error:
        return error
    return None
