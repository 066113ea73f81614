"""Refusals: bad operands are answered by an error that names the operation and what was wrong, and nothing breaks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from micrograd_core import errors
from micrograd_core.array.creation import zeros
from micrograd_core.array.functions import is_lenient
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.conformance.base import Suite, others
from micrograd_core.conformance.cases import Case, cases
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES
from micrograd_core.engine.apply import INTEGERS
from micrograd_core.ops import TABLE, Op
from micrograd_core.ops.record import BOOLEAN


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
        accepted |= INTEGERS if "real floating" in accepted else BOOLEAN if op.operands != 1 else frozenset()
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
