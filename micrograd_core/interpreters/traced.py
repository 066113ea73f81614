"""A device's kernel table that computes, and writes down what it computes: how `jit` sees a function.

Everything above runs as ever, with this table in the place of the device's own: recording, sweeps, batches, optimisers.
Its handles hold the device's handles, so shapes, dtypes and errors are the device's, and numbers are there; but nobody
may read them, since the program that comes of it would be that of these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from micrograd_core.backend import PROTOCOL
from micrograd_core.compiler.builder import INPUT, Builder
from micrograd_core.compiler.program import Ref, Step
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.dtypes import DTYPES, DType, pack, uint64
from micrograd_core.errors import TraceError
from micrograd_core.interpreters.host import DeviceNumber, HostNumber, Position
from micrograd_core.interpreters.raw import Kernels
from micrograd_core.layout import Shape
from micrograd_core.ops import TABLE, Op
from micrograd_core.ops.standard.random import PLACE, place_of
from micrograd_core.support.context import programs

UNSHAPED: Final = frozenset({"argwhere"})
"""Operations whose shape depends on numbers; nonzero, unique and masks as indices stand on them."""
PACKAGE: Final = str(Path(__file__).parents[1])
"""The folder of this package: lines in it are not the user's."""


def with_line(error: Exception) -> Exception:
    """An error that was raised inside a traced function, with the user's line in its sentence."""
    line, trace = "", error.__traceback__
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
            line = f" (in {trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})"
        trace = trace.tb_next
    if line and ", line " not in str(error):
        error.args = (f"{error}{line}",)
    return error


class Traced:
    """A handle of the device, and which value of the program it is.

    A write into its memory makes it another value; a `view` of it, ``(base, op, params)``, is computed again when it is
    asked for next.
    """

    __slots__ = ("_real", "_ref", "dtype", "shape", "trace", "view", "writes")

    def __init__(self, trace: Recorder, ref: Ref, real: Any, spec: TensorSpec) -> None:
        self.trace, self._ref, self._real, self.shape, self.dtype = trace, ref, real, spec.shape, spec.dtype
        self.view: tuple[Traced, Op | None, dict[str, Any]] | None = None
        self.writes = 0  # into the memory, as far as they are in `ref`

    @property
    def ref(self) -> Ref:
        """Which value it is."""
        return self.up_to_date()._ref

    @property
    def real(self) -> Any:
        """The handle of the device."""
        return self.up_to_date()._real

    @property
    def root(self) -> Traced:
        """What it is a view of, in the end."""
        root = self
        while root.view is not None:
            root = root.view[0]
        return root

    def up_to_date(self) -> Traced:
        """Itself, computed again where what it is a view of was written to."""
        if self.view is not None and self.writes != self.root.writes:
            base, op, params = self.view
            made = base if op is None else self.trace.emit(op, base, **params)
            self._ref, self._real, self.writes = made.ref, made.real, self.root.writes
        return self

    def look_at(self, base: Traced, op: Op | None, params: dict[str, Any]) -> None:
        """Be a view of `base`; without an `op`, of all of it as it is."""
        self.view, self.writes = (base, op, params), base.root.writes


class Recorder:
    """One program that is being written, and where its inputs come from.

    `sources` has, by the number of an input, a tuple that says from where: the first word says how to read the rest.
    """

    def __init__(self) -> None:
        self.builder = Builder()
        self.sources: dict[int, tuple[Any, ...]] = {}
        self.over = False
        self.table: Any = None  # a `TracedTable`, once a tensor was met
        self._real: list[Any] = []  # what identities in keys refer to

    def table_over(self, root: Kernels) -> Any:
        """The table that writes down what a device is asked for. One program runs on one device."""
        if self.table is None:
            self.table = TracedTable(root, self)
        if self.table.root_below is not root:
            raise TraceError(
                f"jit: the function computes on {self.table.device} and on {root.device}; a program runs on one "
                "device. Move tensors before the call"
            )
        return self.table

    def given(self, ref: Ref) -> bool:
        """Whether a value is an input."""
        return self.builder.steps[ref.number].op == INPUT

    def input(self, source: tuple[Any, ...], real: Any, key: Any = None) -> Traced:
        """A value that is read at each call; the same `key` (by default, the handle) is the same value."""
        spec = self.table.root_below.spec(real)
        ref = self.builder.emit(Step(INPUT, source, {}), spec, (INPUT, id(real) if key is None else key))
        self._real.append(real)
        self.sources.setdefault(ref.number, source)
        return Traced(self, ref, real, spec)

    def close(self) -> None:
        """The program is written: handles that are still about are of no use any more."""
        self.over = True
        if self.table is not None:
            for name in (*TABLE, "recorded", "batched"):  # they refer back
                vars(self.table).pop(name, None)

    def emit(self, op: Op, *operands: Any, **params: Any) -> Any:
        """Compute an operation on the device, and write it down."""
        if self.over:
            raise TraceError(
                f"{op.name}: a tensor has left the function under jit that it was made in; return it from that "
                "function instead of storing it"
            )
        table = self.table
        if programs.get() is not self:
            raise TraceError(
                f"{op.name}: another thread traces a function under jit that reaches this tensor; call that function "
                "once before threads share what it reaches"
            )
        real = getattr(table.root_below, op.name)
        if "block" in params and params["block"].__class__ is Position:
            place: Position = params["block"]
            stream = TABLE["random_uniform_from"]
            if op.name == "random_uniform" and params["dtype"].bits >= 32 and table.root_below.is_native(stream.name):
                source = "place", place.generator, place.delta
                made = table.root_below.upload(pack(place_of(params["key"], int(place)), uint64), (PLACE,), uint64)
                start = self.input(source, made, ("place", id(place.generator), place.delta))
                return self.emit(stream, start, shape=params["shape"], dtype=params["dtype"])
            made = real(**{**params, "block": int(place)})
            key = ("draw", op.name, id(place.generator), place.delta, repr(params))
            return self.input(("draw", op.name, params, place.generator, place.delta), made, key)
        for x in params.values():
            if x.__class__ is HostNumber:
                float(x)  # refuses
        drawn = "block" in params and not table.root_below.is_native(op.name)
        if not op.operands and (operands or drawn):  # numbers that are known
            made = real(*operands, **params)
            return self.input(("constant", made), made, ("made", op.name, operands, repr(params)))
        beside = next((x.dtype for x in operands if x.__class__ is Traced), None)
        handles = [self.operand(op, x, beside) for x in operands]
        given = [x.real if x.__class__ is Traced else x for x in handles]
        made = real(*given, **params)
        step = Step(op.name, tuple([x.ref if x.__class__ is Traced else x for x in handles]), params)
        if op.parts is not None:
            specs = [table.root_below.spec(x) for x in made]
            refs = self.builder.emit_parts(step, specs)
            return tuple([Traced(self, *each) for each in zip(refs, made, specs, strict=True)])
        spec = table.root_below.spec(made)
        out = Traced(self, self.builder.emit(step, spec), made, spec)
        if op.view and handles[0].__class__ is Traced and table.root_below.shares_memory(made, given[0]):
            out.look_at(handles[0], op, params)
        return out

    def assign(self, x: Traced, values: Any, key: Any) -> bool:
        """Write into the memory of a handle, so that all its views see it. ``False`` where nothing leads back to it."""
        k, target = self.table, x
        new = k.scatter(x, values, key=key)
        while target.view is not None:
            base, op, params = target.view
            if op is TABLE["getitem"]:
                new = k.scatter(base, new, **params)
            elif op is not None and op.gradient_aliases and math.prod(base.shape) == math.prod(target.shape):
                rule: Any = op.gradient[0]
                new = k.reshape(rule(k, new, target, base, **params), shape=base.shape)
            elif op is not None:
                target = op.compose(k, base, **params) if op.compose is not None else base
                if target is base or target.root is not base.root:
                    return False
                continue
            target = base
        self.refuse_overlap(target)
        target._ref, target._real, target.writes = new.ref, new.real, target.writes + 1
        return True

    def refuse_overlap(self, root: Traced) -> None:
        """Refuse to write where what else would see it is not known."""

    def operand(self, op: Op, x: Any, beside: DType | None) -> Any:
        """An operand of a step: a handle of this trace, or a number."""
        if x.__class__ is Traced:
            if x.trace is not self:
                raise TraceError(f"{op.name}: a tensor is of another call of a function under jit; return it there")
            return x
        if x.__class__ is DeviceNumber:
            given = x.handle
            return given if beside in (None, given.dtype) else self.emit(TABLE["astype"], given, dtype=beside)
        if x.__class__ is HostNumber:
            dtype = beside or DTYPES["float32"]
            real = self.table.root_below.constant((x.value,), (), dtype)
            return self.input(("host", x.index, dtype), real, ("host", x.index, dtype))
        if isinstance(x, (bool, int, float, complex)):
            return x
        raise TraceError(unseen(op.name))


def unseen(name: str) -> str:
    """What to do with a tensor that nothing leads to."""
    return (
        f"jit: {name} takes a tensor that is neither an argument of the function nor found in what it closes over "
        "(its closure, globals, and the attributes of what is there), so that a change of it would go unnoticed; pass "
        "it as an argument"
    )


class _TracedBackend:
    """The boundary's face of a device that is being traced."""

    protocol = PROTOCOL

    def __init__(self, real: Kernels, trace: Recorder) -> None:
        self.real, self.trace = real, trace
        self.device = real.backend.device
        self.dtypes = {name: DTYPES[name] for name in real.backend.dtypes}
        self.capabilities = frozenset(real.capabilities) - {"strided", "dlpack"}

    def from_host(self, data: Any, shape: Shape, dtype: DType) -> Traced:
        real = self.real.upload(data, shape, dtype)
        return self.trace.input(("constant", real), real)

    def to_host(self, x: Any) -> Any:
        raise TraceError(
            "jit: the numbers of a tensor are asked for inside a traced function, by bool(), float(), item(), "
            "tolist(), numpy() or print(); what is decided by them would be decided for all later calls. Choose with "
            "where(condition, a, b), return the tensor and read it outside, or call the function without jit"
        )

    def assign(self, x: Traced, values: Any, key: Any) -> bool:
        return "strided" in self.real.capabilities and self.trace.assign(x, values, key)

    def kernel(self, op: str) -> Callable[..., Any] | None:
        return None


class TracedTable(Kernels):
    """What `Kernels` is to a device, where a program is written down."""

    def __init__(self, real: Kernels, trace: Recorder) -> None:
        super().__init__(_TracedBackend(real, trace))
        self.root_below, self.device, self.recorder = real, real.device, trace

    def _bind(self, name: str) -> Callable[..., Any]:
        op, real = TABLE[name], self.root_below
        if self.recorder.over:
            return partial(self.recorder.emit, op)
        if name in UNSHAPED:
            return partial(_refuse_shapes, name)
        if name == "dropout" and op.compose is not None:  # numbers are drawn before a program runs
            return partial(op.compose, self)
        getattr(real, name)  # refuses what the device has not
        return partial(self.recorder.emit, op)

    def is_native(self, name: str) -> bool:
        """As on the device."""
        return self.root_below.is_native(name)

    def attempt(self, name: str, *operands: Any, **params: Any) -> Any:
        """A step, where the device has a kernel that takes it."""
        given = [x.real if x.__class__ is Traced else x for x in operands]
        declined = self.root_below.attempt(name, *given, **params) is NotImplemented
        return NotImplemented if declined else getattr(self, name)(*operands, **params)

    def _constant(self, values: Any, shape: Shape, dtype: Any, text: str) -> Any:
        real = self.root_below.constant(values, shape, dtype)
        return self.recorder.input(("constant", real), real)

    def transfer(self, x: Any, *, source: Kernels, target: Kernels) -> Any:
        """A program runs on one device."""
        raise TraceError(
            f"jit: a tensor is moved from {source.device} to {target.device} inside a traced function, and a program "
            "runs on one device; move it before the call, or after"
        )


def _refuse_shapes(name: str, *operands: Any, **params: Any) -> Any:
    raise TraceError(
        f"jit: the shape of what {name} gives (a mask as an index, nonzero, unique) depends on numbers, and a program "
        "has fixed shapes; use where(condition, a, b), or call the function without jit"
    )
