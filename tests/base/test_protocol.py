"""What docs/protocol.md says the core guarantees: every kernel call is watched, over all operations and gradients."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, asarray, plugins, use_device, value_and_grad
from micrograd_core.array import functions
from micrograd_core.backend import PROTOCOL, Backend
from micrograd_core.conformance.cases import cases, is_differentiable
from micrograd_core.dtypes import DTYPES, check_scalar, integer_range
from micrograd_core.errors import DTypeError, MicrogradError
from micrograd_core.layout import Layout, broadcast_shapes
from micrograd_core.ops import CORE_KERNELS, SAME, TABLE
from micrograd_core.ops.core.movement import requested
from micrograd_core.plugins import hookimpl
from micrograd_cpu.storage import CPUBackend

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

from signatures import kernel_signature

EXHAUSTIVE = os.environ.get("MICROGRAD_EXHAUSTIVE") == "1"
PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()


def total(x: Any, *, axis: Any, keepdims: bool) -> Any:
    """In the dtype of `x`, as a kernel does it."""
    return np.add.reduce(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


class Watched(CPUBackend):
    """NumPy with those kernels only that have no composition, so that compositions are run; each call is checked."""

    capabilities = frozenset({"complex", "eig", "fft", "linalg", "strided"})

    def __init__(self) -> None:
        super().__init__()
        self.device = "watched:0"
        self.running = ""
        self.complaints: set[str] = set()
        self.seen: set[str] = set()

    def kernel(self, op: str) -> Callable[..., Any] | None:
        plain = total if op == "sum" else super().kernel(op)
        if plain is None or (op not in CORE_KERNELS | PARTS and TABLE[op].compose is not None):
            return None

        def watched(*operands: Any, **params: Any) -> Any:
            self.seen.add(op)
            before = [x.tobytes() if isinstance(x, (np.ndarray, np.generic)) else x for x in operands]
            self.complaints |= {f"{self.running}: {op}: {each}" for each in broken(op, operands, params)}
            result = plain(*operands, **params)
            after = [x.tobytes() if isinstance(x, (np.ndarray, np.generic)) else x for x in operands]
            if before != after:
                self.complaints.add(f"{self.running}: {op}: an input changed")
            return result

        return watched

    @contextlib.contextmanager
    def noting_errors(self) -> Iterator[None]:
        """A refusal of the core's own is fine; what NumPy cannot compute should not have been asked of it."""
        before = set(self.complaints)
        try:
            yield
        except MicrogradError:
            self.complaints = before
        except Exception as error:
            if "negative integer powers" not in str(error):  # nor does the standard define them
                self.complaints.add(f"{self.running}: {type(error).__name__}: {error}")


PARTS = {"real", "imag"}  # which have a composition for real numbers only
NAMES = {native: name for name, native in CPUBackend().dtypes.items()}


def broken(op: str, operands: tuple[Any, ...], params: dict[str, Any]) -> Iterator[str]:
    """In what a kernel call is not as the page promises."""
    numbers = [x for x in operands if type(x) in (bool, int, float, complex)]
    handles = [x for x in operands if type(x) not in (bool, int, float, complex)]
    promoted = handles[1:] if op == "where" else handles
    if not promoted or not all(isinstance(x, (np.ndarray, np.generic)) and x.dtype in NAMES for x in handles):
        yield f"operands {operands}"
        return
    if op not in CORE_KERNELS:  # their operands are those of the operation
        return
    for position, x in enumerate(operands):
        kind = "bool" if op == "where" and not position else DTYPES[NAMES[promoted[0].dtype]].kind
        if kind not in TABLE[op].accepted(position):
            yield f"{kind} operands"
        if type(x) in (bool, int, float, complex):
            try:
                check_scalar(op, x, DTYPES[NAMES[promoted[0].dtype]])
            except DTypeError as error:
                yield str(error)
    named = re.sub(r".*\*, |\)$", "", kernel_signature(TABLE[op])).split(", ") if params else []
    if not promoted or not all(isinstance(x, (np.ndarray, np.generic)) for x in handles):
        yield f"operands {operands}"
        return
    if len({x.dtype for x in promoted}) > 1 or (op == "where" and handles[0].dtype != np.bool_):
        yield f"dtypes {[x.dtype for x in handles]} beside {numbers}"
    if op == "sum" and handles[0].dtype == np.bool_:
        yield "a sum of bools"
    if list(params) != [name for name in named if name in params] or len(params) != len(named):
        yield f"parameters {list(params)}, not {named}"
    shape = handles[0].shape
    if "axis" in params:
        axis = params["axis"]
        if axis is not None and not (
            type(axis) is tuple
            and len(set(axis)) == len(axis)
            and all(type(each) is int and 0 <= each < len(shape) for each in axis)
        ):
            yield f"axis {axis} of {shape}"
        if op == "max" and 0 in (shape if axis is None else [shape[each] for each in axis]):
            yield f"no elements: {axis} of {shape}"
    if "axes" in params and sorted(params["axes"]) != list(range(len(shape))):
        yield f"axes {params['axes']} of {shape}"
    if op == "reshape" and (min(params["shape"], default=0) < 0 or math.prod(params["shape"]) != math.prod(shape)):
        yield f"shape {params['shape']} of {shape}"
    if op == "broadcast_to" and broadcast_shapes(op, shape, params["shape"]) != params["shape"]:
        yield f"shape {params['shape']} of {shape}"
    if op == "astype" and params["dtype"] not in CPUBackend().dtypes.values():
        yield f"dtype {params['dtype']!r}"
    if "key" in params:
        entries = [entry for entry in params["key"] if entry is not None]
        if type(params["key"]) is not tuple or len(entries) != len(shape):
            yield f"key {params['key']} of {shape}"
        for entry, length in zip(entries, shape, strict=False):
            if isinstance(entry, slice):
                whole = type(entry.start) is int and type(entry.step) is int
                if not whole or (entry.stop is None) > (entry.step < 0) or (entry.stop or 0) < 0:
                    yield f"the slice {entry} of {length}"
                elif not range(length)[entry] and not (0 <= entry.start == entry.stop <= length and entry.step == 1):
                    yield f"the empty slice {entry} of {length}"
            elif type(entry) is not int or not 0 <= entry < length:
                yield f"the index {entry} of {length}"


@pytest.fixture
def watched() -> Iterator[Device]:
    class Plugin:
        @hookimpl
        def micrograd_open(self, address: str) -> Any:
            return Watched()

    plugins.register("watched", Plugin())
    yield Device("watched")
    plugins.unregister("watched")


def test_kernels_get_what_the_page_promises(watched: Device) -> None:
    """Of every operation and every gradient rule, with every sample, in dtypes of every kind."""
    backend = watched.kernels.backend
    for case in cases(tuple(backend.dtypes), watched.capabilities):
        if case.layout not in ("contiguous", "step -1") or (
            case.dtype in ("int8", "int32", "float32", "complex64") and not EXHAUSTIVE
        ):
            continue
        backend.running = case.id
        with np.errstate(all="ignore"):
            case.call(case.tensors(watched))
            if case.layout != "contiguous" or not is_differentiable(case):
                continue
            operands = case.tensors(watched, requires_grad=True)
            varied = [i for i, x in enumerate(operands) if getattr(x, "requires_grad", False)]
            if varied:
                value_and_grad(lambda *xs, case=case: (abs(case.call(list(xs))) ** 2).sum(), varied)(*operands)[1][
                    0
                ].sum()
    assert not sorted(backend.complaints)
    assert backend.seen >= CORE_KERNELS


@pytest.mark.parametrize("dtype", sorted(CPUBackend().dtypes))
def test_numbers_beside_a_tensor_fit_its_dtype(watched: Device, dtype: str) -> None:
    """By generation: the ends of each dtype in the place of each operand, and gradients where there are some."""
    backend, kind = watched.kernels.backend, DTYPES[dtype].kind
    whole = list(integer_range(DTYPES[dtype])) if "integer" in kind else []
    edges = [*whole, 1] if whole else [False, True] if kind == "bool" else [-2.5, -0.0, 0.0, 1.0, math.inf, math.nan]
    for op in TABLE.values():
        if op.operands not in (2, 3) or op.parameters is not None or not provided(op, kind):
            continue
        x = asarray(np.ones(2, bool if kind == "bool" else "int8"), device=watched).astype(dtype)
        x.requires_grad = "floating" in kind
        places = [i for i in range(op.operands) if i not in op.separate]
        for scalars in itertools.product((False, True), repeat=len(places)):
            for edge in edges if any(scalars) and not all(scalars) else ():
                operands = [asarray([True, False], device=watched)] * (op.operands - len(places))
                operands += [edge if scalar else x for scalar in scalars]
                backend.running = f"{op.name}({', '.join('x' if y is x else repr(y) for y in operands)})"
                with np.errstate(all="ignore"), use_device(watched), backend.noting_errors():
                    found = functions.FUNCTIONS[op.name](*operands)
                    if found.requires_grad:
                        abs(found).sum().backward()
                    elif whole and op.name not in UNDEFINED:
                        there = [y.to("cpu") if isinstance(y, Tensor) else y for y in operands]
                        assert found.tolist() == functions.FUNCTIONS[op.name](*there).tolist(), backend.running
    assert not sorted(backend.complaints)


UNDEFINED = {"bitwise_left_shift", "bitwise_right_shift", "floor_divide", "remainder", "pow"}  # for some numbers


def provided(op: Any, kind: str) -> bool:
    return all(kind in op.accepted(i) for i in range(op.operands) if i not in op.separate)


def test_the_watch_notices(watched: Device) -> None:
    x = np.ones((2, 3))
    calls = [
        ("sum", (x,), {"axis": (-1,), "keepdims": False}),
        ("sum", (x,), {"axis": 1, "keepdims": False}),
        ("sum", (x,), {"axis": (1,)}),
        ("sum", (x.astype(bool),), {"axis": None, "keepdims": False}),
        ("max", (x[:0],), {"axis": None, "keepdims": False}),
        ("add", (x, x.astype("float32")), {}),
        ("add", (x.astype("int64"), 0.5), {}),
        ("add", (1, 2), {}),
        ("reshape", (x,), {"shape": (-1,)}),
        ("getitem", (x,), {"key": (0,)}),
        ("getitem", (x,), {"key": (slice(None), 0)}),
        ("getitem", (x,), {"key": (slice(1, 0, 1), 0)}),
        ("where", (x, x, 0.0), {}),
        ("where", (x > 0, x.astype("uint8"), -1), {}),
        ("add", (x.astype("int8"), 128), {}),
        ("less", (x.astype("complex64"), x.astype("complex64")), {}),
        ("equal", (x, True), {}),
    ]
    for op, operands, params in calls:
        assert [*broken(op, operands, params)], (op, params)
    assert not [*broken("getitem", (x,), {"key": (slice(1, None, -1), None, 0)})]


def test_kinds_of_members_and_kernels_are_all_on_the_page() -> None:
    assert f"version {PROTOCOL}." in PAGE
    assert f"the {len(CORE_KERNELS)} core kernels" in PAGE
    methods = [name for name, each in vars(Backend).items() if inspect.isfunction(each) and not name.startswith("_")]
    headings = re.findall(r"^### `(\w+)", PAGE, re.M)
    assert sorted(headings) == sorted([*Backend.__annotations__, *methods])
    rows = re.findall(r"^\| `(\w+)\((.*)\)` \|.*\| (.*); (.*) \|$", PAGE, re.M)
    assert {name for name, *_ in rows} == CORE_KERNELS
    for name, arguments, dtype, memory in rows:
        op = TABLE[name]
        assert f"{name}({arguments})" == kernel_signature(op)
        assert dtype == ("same dtype" if op.result is SAME else "`dtype`" if op.result is requested else "bool")
        assert (memory == "fresh") is not op.view


def test_a_plain_class_without_the_optional_members_is_a_backend() -> None:
    """By structure: the page says which members are required, and these are."""

    class Plain:
        device, protocol = "plain:0", 1
        dtypes = CPUBackend().dtypes
        from_host = staticmethod(CPUBackend.from_host)
        to_host = staticmethod(CPUBackend.to_host)
        kernel = staticmethod(CPUBackend().kernel)

    class Plugin:
        @hookimpl
        def micrograd_open(self, address: str) -> Any:
            return Plain()

    required = re.findall(r"^\| \[`(\w+).*\| required \|", PAGE, re.M)
    assert set(required) == {name for name in vars(Plain) if not name.startswith("_")}
    plugins.register("plain", Plugin())
    try:
        device = Device("plain")
        assert device.kernels.layout(np.ones((2, 3)).T) == Layout.contiguous((3, 2))
        assert device.memory() == {}
    finally:
        plugins.unregister("plain")
