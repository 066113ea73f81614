"""A model as an ONNX file: the program that `jit` traces of it, each operation in the words of ONNX.

What has no such word is composed of operations that have one, as on a device that lacks a kernel. The program is traced
for two numbers of rows: what differs between the two is the batch, and stays open in the file.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.checkpoints.exported import Exported, ExportError
from micrograd_core.compiler.program import Program, Ref, Step
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.compiler.writer import Unwritten, Writer, rewritten
from micrograd_core.device import default_device
from micrograd_core.dtypes import unpack
from micrograd_core.engine.ingest import read
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import MicrogradError, MissingExtra, TraceError
from micrograd_core.nn import Module
from micrograd_core.ops import TABLE, Op
from micrograd_core.support import files
from micrograd_core.transforms.jit import Lowered, jit
from micrograd_models.spellings import OPSET, Fixed, Graph, Rows, Value, spelled, spelling

MOST_BYTES: Final = (1 << 31) - (1 << 20)
"""What a file of protocol buffers holds."""
BATCH: Final = "batch"


def write(model: Module, sample: Any, path: str | Path, batch: bool | None = None) -> Exported:
    """Write an ONNX file, as `micrograd_core.checkpoints.export_onnx` tells."""
    try:
        import onnx
    except ImportError as error:
        raise MissingExtra("export_onnx", "onnx", "models") from error
    place = next((x.device for _, x in model.named_tensors()), default_device())
    given = sample if type(sample) in (list, tuple) else [sample]
    arguments = [x if isinstance(x, Tensor) else asarray(x, device=place) for x in given]
    modes = [(module, module.training) for _, module in model.named_modules()]
    model.eval()
    try:
        with no_grad():
            graph, because = _graph(onnx, model, [x.detach() for x in arguments], batch)
    finally:
        for module, mode in modes:
            if module.training is not mode:
                module.training = mode
    if graph.size > MOST_BYTES:
        raise ExportError(
            f"export_onnx: the model takes {graph.size:,} bytes, and an ONNX file holds at most {MOST_BYTES:,}"
        )
    made = graph.model(version("micrograd-core"))
    onnx.checker.check_model(made)
    files.write({Path(path): made.SerializeToString()})
    return Exported(Path(path), graph.inputs, graph.outputs, OPSET, because)


def _graph(onnx: Any, model: Module, arguments: list[Tensor], batch: bool | None) -> tuple[Graph, str]:
    """The graph, and why its rows are fixed."""
    because = ""
    if batch is not False:
        try:
            return _written(onnx, model, arguments, _more_rows(arguments)), ""
        except Fixed as error:
            because = str(error)
        if batch:
            raise ExportError(f"export_onnx: the number of rows cannot stay open: {because}; leave out batch=True")
    return _written(onnx, model, arguments, None), because


def _more_rows(arguments: list[Tensor]) -> list[list[Tensor]]:
    """The arguments with two other numbers of rows; neither is 1, which operations may treat in a way of its own."""
    rows = {x.shape[0] for x in arguments if x.ndim}
    if len(rows) != 1 or not all(x.ndim for x in arguments) or 0 in rows:
        raise Fixed("the arguments have no first axis in common")
    (count,) = rows
    return [[_repeated(x, count + more) for x in arguments] for more in (1, 2)]


def _repeated(x: Tensor, rows: int) -> Tensor:
    places = asarray([i % x.shape[0] for i in range(rows)], dtype="int64", device=x.device)
    return FUNCTIONS["take"](x, places, axis=0)


class _Given(NamedTuple):
    """A result that was there before: the position of an argument, or a tensor."""

    owner: Any


class _Trace(NamedTuple):
    """A program, and what its inputs are."""

    program: Program
    sources: list[tuple[Any, ...]]
    outputs: list[Any]  # positions of the results among those of the program, or `_Given`; and their names
    names: list[str]
    kernels: Any


def _traced(model: Module, arguments: list[Tensor]) -> _Trace:
    try:
        lowered: Lowered = jit(lambda *xs: model(*xs)).lower(*arguments)
    except TraceError as error:
        raise ExportError(f"export_onnx: {str(error).removeprefix('jit: ')}") from error
    replay = lowered._replay
    if replay.changes:
        raise ExportError(
            "export_onnx: the model changes a tensor or an attribute of its own when it is called in eval mode; ONNX "
            "computes only"
        )
    outputs: list[Any] = []
    for each in replay.results:
        if each.kind == "tensor":
            outputs.append(each.what)
        elif each.kind == "given":
            outputs.append(_Given(each.what))
        else:
            raise ExportError("export_onnx: the model returns something that is no tensor")
    shown = replay.rebuild(list(range(len(outputs))))
    named = ["output"] if len(outputs) == 1 else [f"output_{i}" for i in range(len(outputs))]
    if isinstance(shown, dict) and list(shown.values()) == list(range(len(outputs))):
        named = list(map(str, shown))
    for source in replay.sources:
        if source[0] != "constant" and not (source[0] == "tensor" and isinstance(source[1], (int, Tensor))):
            why = "draws random numbers" if source[0] in ("draw", "place") else "depends on more than its arguments"
            raise ExportError(f"export_onnx: the model {why} in eval mode, which ONNX cannot")
    return _Trace(_expanded(model, arguments, replay.program), replay.sources, outputs, named, replay.kernels)


# ── operations that ONNX has ─────────────────────────────────────────────────────────────────────────────────


class _Speller(Writer):
    """Composes what ONNX has no word for."""

    def call(self, name: str, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if name == "arange" and operands:
            return super().call(name, operands, params)
        if spelled(name, operands, params):
            return self.step(name, operands, params)
        return self.composed(name, operands, params)


def _expanded(model: Module, arguments: list[Tensor], program: Program) -> Program:
    """The program made of operations that ONNX has; outputs are all its values, numbered as before."""

    def rule(k: Writer, step: Step, operands: tuple[Any, ...], types: Any) -> Any:
        if spelled(step.op, operands, step.params):
            return None
        op = TABLE[step.op]
        try:
            if op.parts is None:
                return k.composed(step.op, operands, step.params)
            if op.compose is None:
                raise Unwritten(step.op)
            return tuple(op.compose(k, *operands, **step.params))
        except (Unwritten, LookupError, AttributeError, TypeError, MicrogradError) as error:
            raise ExportError(
                f"export_onnx: ONNX has no counterpart of {step.op}{_where(model, arguments, step.op)}; compute it "
                "outside of the model, or of other operations"
            ) from error

    return rewritten(program, rule, _Speller(lambda name, operands: True))


def _where(model: Module, arguments: list[Tensor], wanted: str) -> str:
    """In which layer, and in which line, a model calls an operation. It is called once more, and watched."""
    found: list[str] = []
    names = {id(module): name for name, module in model.named_modules()}

    def watch(frame: Any, event: str, argument: Any) -> None:
        if event != "call" or found or frame.f_globals.get("__name__") != "micrograd_core.engine.apply":
            return
        if not any(isinstance(x, Op) and x.name == wanted for x in frame.f_locals.values()):
            return
        layer = line = ""
        while frame is not None:
            if frame.f_code is Module.__call__.__code__ and not layer and names.get(id(frame.f_locals["self"])):
                layer = f" in the layer {names[id(frame.f_locals['self'])]}, {frame.f_locals['self']._line()}"
            outside = not frame.f_globals.get("__name__", "").startswith("micrograd_core.")
            line = line or (f" ({frame.f_code.co_filename}, line {frame.f_lineno})" if outside else "")
            frame = frame.f_back
        found.append(f",{layer or ' in the model'}{line}")

    with _watched(watch):
        model(*arguments)
    return found[0] if found else ""


@contextmanager
def _watched(watch: Callable[[Any, str, Any], None]) -> Iterator[None]:
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)


# ── writing it down ──────────────────────────────────────────────────────────────────────────────────────────


def _written(onnx: Any, model: Module, arguments: list[Tensor], others: list[list[Tensor]] | None) -> Graph:
    """The graph of a call; where `others` are given, which are two with other numbers of rows, the rows are open."""
    if others is None:
        trace = twin = _traced(model, arguments)
        same = _Merged(0, 0)
    else:
        try:
            trace, twin = [_traced(model, each) for each in others]
        except ExportError:
            raise
        except Exception as error:
            raise Fixed(f"with another number of rows the model raises {type(error).__name__}: {error}") from error
        same = _Merged(others[0][0].shape[0], others[1][0].shape[0])
    program, other = trace.program, twin.program
    same.check([step.op for step in program.steps], [step.op for step in other.steps], "the operations")
    graph = Graph(onnx)
    taken = _names_of(model, len(arguments))
    tensors = {id(x): name for name, x in reversed(list(model.named_tensors()))}
    given: dict[int, Value] = {}
    for i, x in enumerate(arguments):
        given[i] = graph.input(taken[i], x.dtype, (Rows(1), *x.shape[1:]) if others else x.shape)
    values: list[Value] = []

    def parameter(x: Tensor) -> Value:
        return graph.tensor(tensors.get(id(x), ""), bytes(read(x._kernels, x._handle, x.dtype)), x.shape, x.dtype)

    def result(each: Any) -> Value:
        if isinstance(each, _Given):
            return given[each.owner] if isinstance(each.owner, int) else parameter(each.owner)
        number: int = program.outputs[each].number
        return values[number]

    sources = zip(trace.sources, twin.sources, program.types, other.types, strict=False)
    for (kind, what), (_, whats), here, there in list(sources)[: program.inputs]:
        if kind == "tensor" and isinstance(what, int):
            values.append(given[what])
        elif kind == "tensor":
            same.check(here, there, "a parameter")
            values.append(parameter(what))
        else:
            values.append(_constant(graph, same, trace.kernels, (what, whats), (here, there)))
    for (step, made), other_step in zip(program.numbered(), other.steps, strict=True):
        operands, params = same.of(step, other_step)
        shape: Any = same(program.types[made.start].shape, other.types[made.start].shape)
        out = TensorSpec(shape, program.types[made.start].dtype)
        operands = [values[x.number] if isinstance(x, Ref) else x for x in operands]
        values.append(Value(spelling(step.op)(graph, operands, params, out), out.dtype, shape))
    for name, each in zip(trace.names, trace.outputs, strict=True):
        graph.output(name, result(each))
    return graph


def _bytes(kernels: Any, handle: Any, spec: TensorSpec) -> bytes:
    return bytes(read(kernels, handle, spec.dtype))


def _constant(graph: Graph, same: _Merged, kernels: Any, handles: tuple[Any, Any], types: tuple[Any, Any]) -> Value:
    """Numbers that the model makes when it is called. Those that are all equal may be as many as there are rows."""
    data, others = [_bytes(kernels, handle, spec) for handle, spec in zip(handles, types, strict=True)]
    here, there = types
    if here == there:
        same.check(data, others, "a constant")
        return graph.tensor("", data, *here)
    counted = [unpack(each, here.dtype) == list(range(len(each) // here.dtype.itemsize)) for each in (data, others)]
    shape = same(here.shape, there.shape)
    if all(counted) and len(shape) == 1:
        name = spelling("arange")(graph, [], {"stop": shape[0]}, TensorSpec(shape, here.dtype))
        return Value(name, here.dtype, shape)
    one = data[: here.dtype.itemsize]
    if data != one * (len(data) // len(one)) or others != one * (len(others) // len(one)):
        raise Fixed(f"a constant of shape {here.shape} depends on it")
    single = graph.tensor("", one, (), here.dtype)
    return Value(graph.node("Expand", single.name, graph.shape(shape)), here.dtype, shape)


class _Merged:
    """Parts of two programs, for two numbers of rows, as one in which `Rows` stand for what grows with them."""

    def __init__(self, rows: int, others: int) -> None:
        self.rows, self.others = rows, others

    def check(self, x: Any, y: Any, what: str) -> None:
        """Refuse what is not the same."""
        if x != y:
            raise Fixed(f"{what} depend on it")

    def of(self, step: Step, other: Step) -> tuple[Any, Any]:
        """Operands and parameters."""
        try:
            return self(step.operands, other.operands), self(step.params, other.params)
        except Fixed as error:
            raise Fixed(f"{step.op}: {error}") from error

    def __call__(self, x: Any, y: Any) -> Any:
        if isinstance(x, slice) and isinstance(y, slice):
            return slice(self(x.start, y.start), self(x.stop, y.stop), self(x.step, y.step))
        if isinstance(x, Ref) or x.__class__ is not y.__class__:
            self.check(x, y, "operations")
            return x
        if isinstance(x, (tuple, list)) and len(x) == len(y):
            return tuple([self(a, b) for a, b in zip(x, y, strict=True)])
        if isinstance(x, dict):
            return {name: self(each, y.get(name)) for name, each in x.items()}
        if x == y or (x != x and y != y):
            return x
        if type(x) is int and x % self.rows == 0 and x // self.rows * self.others == y:
            return Rows(x // self.rows)
        raise Fixed(f"a number depends on it ({x} for {self.rows} rows, {y} for {self.others})")


def _names_of(model: Module, count: int) -> list[str]:
    """Names for the arguments: those of `forward`."""
    parameters: Sequence[Any] = list(inspect.signature(model.forward).parameters.values())
    plain = [x.name for x in parameters if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
    return [plain[i] if i < len(plain) else f"input_{i}" for i in range(count)]
