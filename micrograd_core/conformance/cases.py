"""What is tested: every sample of every operation, in every dtype the device has, through every memory layout."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from micrograd_core.adapters.array_api import ArrayAPIBackend
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.conformance.forms import ELEMENTWISE, HOST, IN_DTYPE, MOVED, REDUCTIONS, TWICE, changed
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES, bfloat16, integer_range, pack, unpack
from micrograd_core.engine.array import wrap
from micrograd_core.engine.ingest import read
from micrograd_core.interpreters.raw import Kernels
from micrograd_core.ops import TABLE, Array, Op, Sample
from micrograd_core.support.context import at_hand

# How a tensor of given numbers comes to lie in memory: (array, upload) → tensor. Arrays have at least one axis.
LAYOUTS: dict[str, Callable[[Any, Callable[[Any], Tensor]], Tensor]] = {
    "contiguous": lambda a, up: up(a),
    "transposed": lambda a, up: up(a.T).transpose(),
    "step 2": lambda a, up: up(np.repeat(a, 2, axis=-1))[..., ::2],
    "step -1": lambda a, up: up(a[..., ::-1])[..., ::-1],
    "offset": lambda a, up: up(np.concatenate([a[:1] if len(a) else np.ones_like(a, shape=(1, *a.shape[1:])), a]))[1:],
    "broadcast": lambda a, up: up(a[..., :1]).broadcast_to(a.shape),
}


def _shaped(operand: Array, values: list[Any]) -> list[Any]:
    """The drawn `values` as elements of the kind of matrix that was asked for, far from any singular one."""
    if not operand.kind or operand.kind == "ascending":
        return sorted(values) if operand.kind else values
    rows, columns = operand.shape[-2:]
    made = []
    for position, value in enumerate(values):
        matrix, i, j = position - position % (rows * columns), position // columns % rows, position % columns
        if operand.kind == "symmetric":
            value = (value + values[matrix + j * columns + i]) / 2
        if operand.kind == "turning":
            value += 8 * operand.high * ((j > i) - (j < i))
        made.append(value + 4 * operand.high * (i + 1) if i == j else value)
    return made


def draw(sample: Sample, seed: int = 0) -> list[list[Any] | float]:
    """Flat lists of deterministic numbers, one per `Array`; scalars as they are."""
    rng = random.Random(seed)
    flat: list[list[Any] | float] = []
    for operand in sample.operands:
        if not isinstance(operand, Array):
            flat.append(operand)
            continue
        values: list[Any] = [rng.uniform(operand.low, operand.high) for _ in range(math.prod(operand.shape))]
        if operand.dtype == "bool":
            values = [value > 0 for value in values]
        elif "int" in operand.dtype:
            values = [rng.randrange(int(operand.low), int(operand.high)) for _ in values]
        flat.append(_shaped(operand, values))
    return flat


def rounded(numbers: Any, dtype: str) -> Any:
    """Real numbers as the nearest ones of a dtype, in the host's array for it."""
    numbers = np.asarray(numbers)
    if dtype != "bfloat16":
        return numbers.astype(dtype)
    return np.array(unpack(pack(numbers.ravel().tolist(), bfloat16), bfloat16), "float32").reshape(numbers.shape)


def upload(array: Any, device: Device, dtype: str = "") -> Tensor:
    """A host array as a tensor, of the dtype it stands for."""
    if dtype != "bfloat16":
        return asarray(np.ascontiguousarray(array) if array.ndim else array, device=device)
    kernels = at_hand(device.kernels)
    handle = kernels.upload(pack(array.ravel().tolist(), bfloat16), array.shape, bfloat16)
    return wrap(Tensor, handle, kernels, bfloat16, None)


def download(x: Tensor) -> Any:
    """The elements of a tensor as a host array, in the dtype that `rounded` keeps them in."""
    data = memoryview(read(x._kernels, x._handle, x.dtype)).cast("B")
    if x.dtype is bfloat16:  # the upper half of a float32
        wide = np.frombuffer(data, "<u2").astype("<u4") << 16
        return wide.view("<f4").astype("float32").reshape(x.shape)
    return np.frombuffer(data, str(x.dtype)).reshape(x.shape)


def wide(x: Any, dtype: str = "") -> Any:
    """A floating array in the dtype in which the judge computes, or in another; all else as it is."""
    floating = isinstance(x, np.ndarray) and x.dtype.kind in "fc"
    return x.astype(dtype or WIDE.get(str(x.dtype), "float64")) if floating else x


def held(x: Tensor, expected: Any) -> Any:
    """The elements of a tensor in the dtype in which they are judged: that of what is expected, or the widest."""
    exact = expected.dtype.kind in "biu"
    return download(x).astype(expected.dtype if exact else "complex128" if x.dtype.is_complex else "float64")


def apart(found: Any, expected: Any, allowed: Any) -> Any:
    """Where numbers are further apart than is allowed. Integers are equal, or apart; two NaN are the same."""
    with np.errstate(all="ignore"):
        if expected.dtype.kind in "biu":
            return found != expected
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        return ~(same | np.isfinite(expected) & (np.abs(found - expected) <= allowed))


NAMESPACE = SimpleNamespace(**FUNCTIONS)  # as NumPy is one


class Definitions:
    """NumPy's namespace; what it lacks is composed of its functions, as the op table says."""

    kernels = Kernels(ArrayAPIBackend(np, "numpy:0"))

    def __getattr__(self, name: str) -> Any:
        if hasattr(np, name) or name not in TABLE:
            return getattr(np, name)
        parameters, function = TABLE[name].parameters, getattr(self.kernels, name)

        def definition(*arrays: Any, **params: Any) -> Any:
            return function(*arrays, **(parameters(*arrays, **params) if parameters else params))

        return definition


DEFINITIONS = Definitions()
"""What the references of records compute with."""
WIDEST = {"float64", "complex128"}
"""Dtypes of a device in which gradients go through every layout."""
WIDE = {"complex128": "complex128", "complex64": "complex128"}
"""Where the judge computes what a case of a dtype should give; float64 for all else."""
HALF = {"bfloat16": "float16"}
"""Where NumPy's own error in a dtype is measured, if not in that dtype."""
ROUNDING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "complex64": 2.0**-23}
"""From 1 to the next number of a dtype; 2**-52 for all else."""
IN_FULL = frozenset("bool int8 int32 int64 uint8 float16 float32 float64 complex64 complex128".split())
"""Dtypes whose cases go through every layout. Those of the others go through two, which change from sample to sample:
kernels for them are seldom written by hand."""


class Case(NamedTuple):
    """One call of one operation."""

    op: Op
    number: int
    dtype: str
    layout: str
    shape: tuple[int, ...] | None = None  # of all operands, in place of the sample's
    form: str = ""  # of `FORMS`: what else of the operands is not the sample's

    @property
    def id(self) -> str:
        """Such as ``add-0-float32-transposed``."""
        size = "" if self.shape is None else f"-{'x'.join(map(str, self.shape))}"
        form = f", {self.form}" if self.form else ""
        return f"{self.op.name}-{self.number}-{self.dtype}-{self.layout.replace(' ', '')}{size}{form}"

    @property
    def sample(self) -> Sample:
        """The operands' shapes and the parameters."""
        sample = self.op.samples[self.number]
        if self.shape is None:
            return sample
        changed = [x._replace(shape=self.shape) if isinstance(x, Array) else x for x in sample.operands]
        return Sample(*changed, **sample.params)

    def dtype_of(self, position: int) -> str:
        """The dtype of one operand. One of its own it keeps if it is apart from the others, or bool."""
        own: str = self.sample.operands[position].dtype  # type: ignore[union-attr]
        return own if own == "bool" or (own and position in self.op.separate) else self.dtype

    def arrays(self) -> list[Any]:
        """The operands as NumPy arrays in the case's dtype, and Python scalars."""
        found: list[Any] = []
        sample, ranks = self.sample, [len(x.shape) for x in self.sample.operands if isinstance(x, Array)]
        for position, (operand, values) in enumerate(zip(sample.operands, draw(sample), strict=True)):
            if not isinstance(operand, Array):
                found.append(values + 0.25 if self.form == "backwards" and isinstance(values, float) else values)
                continue
            dtype = self.dtype_of(position)
            kind = DTYPES[dtype].kind
            numbers: Any = np.array(values, dtype="float64")
            if "integer" in kind and not operand.dtype:
                numbers = np.abs(np.round(2 * numbers))
            if kind == "unsigned integer":
                numbers = np.abs(numbers)
            if kind == "complex floating" and operand.kind != "symmetric":
                numbers = numbers + 0.5j * np.roll(numbers, 1)
            array = rounded(numbers > 0 if kind == "bool" else numbers, dtype).reshape(operand.shape)
            if self.layout == "broadcast" and array.ndim:
                array = np.broadcast_to(array[..., :1], array.shape)
            longer = self.form == "longer" and min(ranks) < array.ndim == max(ranks)
            if longer or self.form not in ("", TWICE, "longer"):
                # numbers that mean something else than those of the others
                own = dtype != self.dtype or (position in self.op.separate and operand.dtype != "")
                array = rounded(changed(array, self.form, dtype, position, own=own), dtype)
            found.append(array)
        if self.form == TWICE:
            found[0] = found[1]
        return found

    def tensors(self, device: Device, *, requires_grad: bool = False) -> list[Any]:
        """The operands on a device, laid out as the case says."""
        found: list[Any] = []
        for position, array in enumerate(self.arrays()):
            if not isinstance(array, np.ndarray):
                found.append(array)
                continue
            up = partial(upload, device=device, dtype=self.dtype_of(position))
            tensor = LAYOUTS[self.layout](array, up) if array.ndim else up(array)
            if requires_grad and tensor.dtype.is_floating:
                tensor.requires_grad = True
            found.append(tensor)
        if self.form == TWICE:
            found[0] = found[1]
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
        """What NumPy's functions give, computed in float64 (or in `dtype`) where the case is floating."""
        if dtype and self.op.cast is not None:
            dtype = self.op.cast(DTYPES[dtype]).name
        with np.errstate(all="ignore"):
            return self.define([wide(x, HALF.get(dtype, dtype)) for x in self.arrays()])

    def define(self, arrays: list[Any]) -> Any:
        """The operation's definition of NumPy arrays; of several results, what is determined about them."""
        result = self.op.reference(DEFINITIONS, *arrays, **self.sample.params)
        return np.asarray(result if self.op.observe is None else self.op.observe(np, *result))


def symmetric(x: Tensor) -> Tensor:
    """The symmetric, or Hermitian, part of matrices."""
    result: Tensor = (x + (NAMESPACE.conj(x) if x.dtype.is_complex else x).mT) * 0.5
    return result


def cases(
    dtypes: Collection[str], capabilities: Collection[str], *, floating_only: bool = False, only: str = "",
    native: Callable[[str], bool] | None = None,
) -> Iterator[Case]:  # fmt: skip
    """All cases for a device with these dtypes and capabilities, or those of one operation.

    Operations that are not `native` to the device go through two layouts in each dtype, which change from sample to
    sample: the kernels that they are composed of go through all.
    """
    for op in [TABLE[only]] if only else TABLE.values():
        if op.capability and op.capability not in capabilities:
            continue
        for number, sample in enumerate(op.samples):
            arrays = [operand for operand in sample.operands if isinstance(operand, Array)]
            special = any(operand.kind for operand in arrays)  # repeating a column makes a matrix singular
            layouts = list(LAYOUTS)[: -1 if special else None] if any(x.shape for x in arrays) else ["contiguous"]
            for turn, dtype in enumerate(_dtypes(op, sample, dtypes, capabilities)):
                if floating_only and not (DTYPES[dtype].is_floating and sample.params.get("dtype", dtype) in dtypes):
                    continue
                full = dtype in (WIDEST & set(dtypes) or IN_FULL) if floating_only else dtype in IN_FULL
                full = full and (native is None or native(op.name))
                tied = floating_only and dtype in ROUNDING  # a definition has no derivative where max finds equals
                whole = full and {operand.dtype for operand in arrays} <= {"", dtype}
                for place, layout in enumerate(layouts):
                    if layout == "broadcast" and tied:
                        continue
                    if whole or place in (0, 1 + (number + turn) % (len(LAYOUTS) - 1)):
                        yield Case(op, number, dtype, layout)


def contiguous(op: Op, dtype: str, device: Device) -> list[Case]:
    """The cases of an operation in one dtype, laid out as they come."""
    found = cases(device.kernels.backend.dtypes, device.capabilities, only=op.name)
    return [case for case in found if case.dtype == dtype and case.layout == "contiguous"]


def formed(dtypes: Collection[str], capabilities: Collection[str]) -> dict[str, tuple[Op, str]]:
    """Operations in every dtype that one of their samples goes through, such as ``add-float32``."""
    found = cases(dtypes, capabilities)
    return {f"{case.op.name}-{case.dtype}": (case.op, case.dtype) for case in found if case.op.operands}


def _dtypes(op: Op, sample: Sample, dtypes: Collection[str], capabilities: Collection[str]) -> list[str]:
    """Those of a device that a sample makes sense in.

    A sample that says dtypes of operands that promote together says them of one kind, in which it is at home: integers
    go through all integer dtypes that hold its numbers.
    """
    operands = [(i, x) for i, x in enumerate(sample.operands) if isinstance(x, Array)]
    if any(x.dtype not in dtypes for i, x in operands if x.dtype and (i in op.separate or x.dtype == "bool")):
        return []
    own = [x for i, x in operands if i not in op.separate]
    said = {x.dtype for x in own}
    had = [name for name in DTYPES if name in dtypes and ("complex" in capabilities or not DTYPES[name].is_complex)]
    fitting = [name for name in had if all(_holds(name, x, op) for x in own)]
    return [name for name in fitting if _accepts(op, sample, name) or name in said]


def _holds(dtype: str, operand: Array, op: Op) -> bool:
    """Whether an operand is at home in a dtype."""
    kind = DTYPES[dtype].kind
    if not operand.dtype or "integer" not in DTYPES[operand.dtype].kind:
        return not operand.dtype or DTYPES[operand.dtype].kind == kind
    if "shift" in op.name and DTYPES[dtype].bits < DTYPES[operand.dtype].bits:
        return False  # by more bits than there are
    return "integer" in kind and _fits(dtype, operand.low, operand.high)


def _fits(dtype: str, *numbers: float) -> bool:
    low, high = integer_range(DTYPES[dtype])
    return all(low <= number <= high for number in numbers)


def _accepts(op: Op, sample: Sample, dtype: str) -> bool:
    """Whether a sample without a dtype of its own makes sense in `dtype`."""
    kind = DTYPES[dtype].kind
    scalars = [each for each in (*sample.operands, *sample.params.values()) if isinstance(each, float)]
    whole: list[Any] = [each for each in sample.operands if isinstance(each, int)]
    if DTYPES[dtype].is_integer and not _fits(dtype, *whole):
        return False
    if kind == "complex floating" and DTYPES[sample.params.get("dtype", dtype)].kind != kind:
        return False  # which part is meant has to be said
    return all(kind in op.accepted(i) for i in range(abs(op.operands)) if i not in op.separate) and not (
        scalars and "floating" not in kind
    )


COMPILED = frozenset({"float32", "int32", "bool"})
"""Dtypes in which samples are tried under `jit`: one of each sort for which a compiler prints something of its own."""


def is_compiled(case: Case, derived: bool) -> bool:
    """Whether a case is tried under `jit`, or its derivatives are. Layouts are the kernels' business."""
    return case.layout == "contiguous" and case.dtype in (("float32",) if derived else COMPILED)


def is_differentiable(case: Case) -> bool:
    """Whether finite differences of a case are a derivative."""
    arrays = [o for o in case.sample.operands if not isinstance(o, (int, float))]
    floating = case.sample.params.get("dtype") not in ("bool", "float32")
    singular = case.op.name == "std" and case.layout == "broadcast"  # no deviation, and so no derivative
    own_dtype = bool(arrays) and all(operand.dtype for operand in arrays)
    return case.op.differentiable and floating and not singular and not own_dtype


# ── of any numbers and any lengths ───────────────────────────────────────────────────────────────────────────


def special(dtypes: Collection[str], capabilities: Collection[str]) -> dict[str, tuple[Op, str]]:
    """Elementwise operations and reductions in every dtype that they accept, such as ``maximum-float32``."""
    return _those((*ELEMENTWISE, *REDUCTIONS), DTYPES, dtypes, capabilities)


def large(dtypes: Collection[str], capabilities: Collection[str]) -> dict[str, tuple[Op, str]]:
    """Elementwise operations, reductions and `MOVED`, in one dtype of each kind: see `usual`."""
    return _those((*ELEMENTWISE, *REDUCTIONS, *MOVED), usual(dtypes), dtypes, capabilities)


def usual(dtypes: Collection[str]) -> list[str]:
    """One dtype of each kind: the one that kernels are most often written for."""
    kinds: dict[str, str] = {}
    for dtype in ("float32", "int32", "complex64", "bool", "uint8", *DTYPES):
        if dtype in dtypes:
            kinds.setdefault(DTYPES[dtype].kind, dtype)
    return list(kinds.values())


def _those(
    names: Iterable[str], wanted: Iterable[str], dtypes: Collection[str], capabilities: Collection[str]
) -> dict[str, tuple[Op, str]]:
    """Operations in each wanted dtype that a device has and they accept."""
    found: dict[str, tuple[Op, str]] = {}
    for name, dtype in product(names, wanted):
        op, kind = TABLE[name], DTYPES[dtype].kind
        if (
            dtype in dtypes
            and not (dtype in HOST and name in IN_DTYPE)
            and (not op.capability or op.capability in capabilities)
            and (kind != "complex floating" or "complex" in capabilities)
            and all(kind in op.accepted(i) for i in range(op.operands) if i not in op.separate)
        ):
            found[f"{name}-{dtype}"] = op, dtype
    return found
