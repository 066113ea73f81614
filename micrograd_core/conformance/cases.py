"""What is tested: every sample of every operation, in every dtype the device has, through every memory layout."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES
from micrograd_core.functions import FUNCTIONS
from micrograd_core.ops import TABLE, Array, Op, Sample
from micrograd_core.tensor import Tensor, asarray

# How a tensor of given numbers comes to lie in memory: (array, upload) → tensor. Arrays have at least one axis.
LAYOUTS: dict[str, Callable[[Any, Callable[[Any], Tensor]], Tensor]] = {
    "contiguous": lambda a, up: up(a),
    "transposed": lambda a, up: up(a.T).transpose(),
    "step 2": lambda a, up: up(np.repeat(a, 2, axis=-1))[..., ::2],
    "step -1": lambda a, up: up(a[..., ::-1])[..., ::-1],
    "offset": lambda a, up: up(np.concatenate([a[:1] if len(a) else np.ones_like(a, shape=(1, *a.shape[1:])), a]))[1:],
    "broadcast": lambda a, up: up(a[..., :1]).broadcast_to(a.shape),
}

NAMESPACE = SimpleNamespace(**FUNCTIONS)  # as NumPy is one

FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
OTHERS = ("bool", "int8", "int32", "int64", "uint8")
WIDE = {"float64": "float64", "complex128": "complex128", "complex64": "complex128"}
"""Where the judge computes what a case of a dtype should give; float64 for all else."""


class Case(NamedTuple):
    """One call of one operation."""

    op: Op
    number: int
    dtype: str
    layout: str

    @property
    def id(self) -> str:
        """Such as ``add-0-float32-transposed``."""
        return f"{self.op.name}-{self.number}-{self.dtype}-{self.layout.replace(' ', '')}"

    @property
    def sample(self) -> Sample:
        """The operands' shapes and the parameters."""
        return self.op.samples[self.number]

    def arrays(self) -> list[Any]:
        """The operands as NumPy arrays in the case's dtype, and Python scalars."""
        found: list[Any] = []
        for operand, values in zip(self.sample.operands, self.sample.draw(), strict=True):
            if not isinstance(operand, Array):
                found.append(values)
                continue
            kind = DTYPES[operand.dtype or self.dtype].kind
            numbers: Any = np.array(values, dtype="float64")
            if "integer" in kind and not operand.dtype:
                numbers = np.abs(np.round(2 * numbers))
            if kind == "complex floating" and operand.kind != "symmetric":
                numbers = numbers + 0.5j * np.roll(numbers, 1)
            array = (
                (numbers > 0 if kind == "bool" else numbers).astype(operand.dtype or self.dtype).reshape(operand.shape)
            )
            if self.layout == "broadcast" and array.ndim:
                array = np.broadcast_to(array[..., :1], array.shape)
            found.append(array)
        return found

    def tensors(self, device: Device, *, requires_grad: bool = False) -> list[Any]:
        """The operands on a device, laid out as the case says."""

        def up(array: Any) -> Tensor:
            return asarray(np.ascontiguousarray(array) if array.ndim else array, device=device)

        found: list[Any] = []
        for array in self.arrays():
            if not isinstance(array, np.ndarray):
                found.append(array)
                continue
            tensor = LAYOUTS[self.layout](array, up) if array.ndim else up(array)
            if requires_grad and tensor.dtype.is_floating:
                tensor.requires_grad = True
            found.append(tensor)
        return found

    def call(self, operands: list[Any], **changed: Any) -> Tensor:
        """The operation on `operands`, with the sample's parameters or `changed` ones.

        Of several results, what is determined about them.
        """
        function, params = FUNCTIONS[self.op.name], {**self.sample.params, **changed}
        result = function(operands, **params) if self.op.operands == -1 else function(*operands, **params)
        return result if self.op.observe is None else self.op.observe(NAMESPACE, *result)

    def vary(self, operands: list[Any]) -> Tensor:
        """`call` on what stays symmetric if it is meant to be, however the operands are moved."""
        kinds = [getattr(operand, "kind", "") for operand in self.sample.operands]
        return self.call([symmetric(x) if kind == "symmetric" else x for x, kind in zip(operands, kinds, strict=True)])

    def expected(self, dtype: str = "") -> Any:
        """NumPy's answer, computed in float64 (or in `dtype`) where the case is floating."""
        if dtype and self.op.cast is not None:
            dtype = self.op.cast(DTYPES[dtype]).name
        arrays = [
            x.astype(dtype or WIDE.get(str(x.dtype), "float64"))
            if isinstance(x, np.ndarray) and x.dtype.kind in "fc"
            else x
            for x in self.arrays()
        ]
        with np.errstate(all="ignore"):
            result = self.op.reference(np, *arrays, **self.sample.params)
            return np.asarray(result if self.op.observe is None else self.op.observe(np, *result))


def symmetric(x: Tensor) -> Tensor:
    """The symmetric, or Hermitian, part of matrices."""
    result: Tensor = (x + (NAMESPACE.conj(x) if x.dtype.is_complex else x).mT) * 0.5
    return result


def cases(
    dtypes: Collection[str], capabilities: Collection[str], *, floating_only: bool = False, only: str = ""
) -> Iterator[Case]:
    """All cases for a device with these dtypes and capabilities, or those of one operation."""
    floats = FLOATS + COMPLEX if "complex" in capabilities else FLOATS
    for op in [TABLE[only]] if only else TABLE.values():
        if op.capability and op.capability not in capabilities:
            continue
        for number, sample in enumerate(op.samples):
            arrays = [operand for operand in sample.operands if isinstance(operand, Array)]
            own = [
                operand.dtype
                for i, operand in enumerate(sample.operands)
                if isinstance(operand, Array) and i not in op.separate
            ]
            if any(operand.dtype and operand.dtype not in dtypes for operand in arrays):
                continue
            free = not own or not all(own)
            for dtype in (floats if floating_only else floats + OTHERS) if free else (own[0],):
                if (
                    dtype not in dtypes
                    or (free and not _accepts(op, sample, dtype))
                    or (floating_only and dtype not in floats)
                ):
                    continue
                special = any(operand.kind for operand in arrays)  # repeating a column makes a matrix singular
                for layout in LAYOUTS if any(operand.shape for operand in arrays) else ("contiguous",):
                    if not (special and layout == "broadcast"):
                        yield Case(op, number, dtype, layout)


def _accepts(op: Op, sample: Sample, dtype: str) -> bool:
    """Whether a sample without a dtype of its own makes sense in `dtype`."""
    kind = DTYPES[dtype].kind
    scalars = [operand for operand in sample.operands if isinstance(operand, float)]
    if kind == "complex floating" and DTYPES[sample.params.get("dtype", dtype)].kind != kind:
        return False  # which part is meant has to be said
    return all(kind in op.accepted(i) for i in range(abs(op.operands)) if i not in op.separate) and not (
        scalars and "floating" not in kind
    )


def is_differentiable(case: Case) -> bool:
    """Whether finite differences of a case are a derivative."""
    arrays = [o for o in case.sample.operands if not isinstance(o, (int, float))]
    floating = case.dtype in ("float64", "complex128") and case.sample.params.get("dtype") not in ("bool", "float32")
    singular = case.op.name == "std" and case.layout == "broadcast"  # no deviation, and so no derivative
    own_dtype = bool(arrays) and all(operand.dtype for operand in arrays)
    return case.op.differentiable and floating and not singular and not own_dtype
