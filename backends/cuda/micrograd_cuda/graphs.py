"""Programs as CUDA graphs: what a program launches is captured once, and from then on launched as one.

A graph reads and writes where it did when it was captured. An input that comes from elsewhere is copied to where the
graph reads it, unless it is what the last launch wrote: of all that a program writes there are two copies, and two
graphs, each of which reads what the other wrote. Nothing is written that anybody holds: then the program runs without a
graph, one launch after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any, Final, NamedTuple
from weakref import ref

from micrograd_core.compiler.program import Program
from micrograd_cuda.nests import function
from micrograd_cuda.runtime import CapturedProducts

GRAPHS: Final = "MICROGRAD_CUDA_GRAPHS"
"""The environment variable that, at 1, has programs captured."""
MOST_CAPTURES: Final = 8
"""After so many of one program, whose calls are too different, it is no more captured."""


class Loan:
    """Memory of a graph, as long as somebody holds what it was given out as."""

    def __init__(self, array: Any) -> None:
        self.array = array


class Output:
    """A result of a graph: where it is written, and whether anybody has it."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self._loan: Callable[[], Loan | None] = lambda: None

    @property
    def held(self) -> bool:
        """Whether what was given out is still there."""
        return self._loan() is not None

    def lend(self, cupy: Any) -> Any:
        """As an array that tells when nobody has it any more, or a part of it."""
        x = self.array
        loan = Loan(x)
        self._loan = ref(loan)
        memory = cupy.cuda.UnownedMemory(x.data.ptr, x.nbytes, loan, x.data.device_id)
        return cupy.ndarray(x.shape, x.dtype, cupy.cuda.MemoryPointer(memory, 0), x.strides)


class Captured(NamedTuple):
    """One graph, where it reads, and what it writes."""

    graph: Any
    inputs: list[Any]
    outputs: list[Output]
    pool: Any  # what the graph computes in between lies there, and nothing else


class Graphed:
    """A program as a function of its input handles, captured when it is called for the third time."""

    def __init__(self, backend: Any, program: Program) -> None:
        self.backend, self.program, self.cupy = backend, program, backend.cupy
        self._plain = function(backend, program, self._aim)
        self._lock = Lock()
        self._pairs: dict[int, int] = {}  # inputs that the last call wrote, and as which output
        self._given: list[list[Any]] = []  # places of the inputs of the calls so far
        self._made: list[Any] = []  # places of the last call's outputs
        self._moving: set[int] = set()  # inputs that come from elsewhere each time
        self._copied: set[int] = set()  # outputs that are held for long
        self._captures = 0
        self._stream: Any = None
        self._targets: dict[int, Any] = {}  # while a graph is captured: where outputs are to be
        self._target: Any = None  # of the step that runs
        self._workspace: Any = None
        self._forget()

    def _forget(self) -> None:
        self._graphs: list[Captured | None] = [None, None]
        self._next = 0
        self._twins: dict[int, Output] = {}  # where the first graph reads what the second will write
        self._staged: dict[int, Any] = {}

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """The program's outputs."""
        if not self._lock.acquire(blocking=False):  # by another thread
            return self._plain(*inputs)
        try:
            return self._called(inputs)
        finally:
            self._lock.release()

    def _called(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        stream = self.cupy.cuda.get_current_stream()
        arrays = all(hasattr(x, "data") for x in inputs)
        if self._captures > MOST_CAPTURES or self.backend.holding or not arrays or stream.is_capturing():
            return self._plain(*inputs)
        places = [*map(_place, inputs)]
        if len(self._given) < 2:
            return self._watched(places, inputs)
        if self._stream is None:
            self._learn()
            self._stream = stream
        k = self._next
        if stream != self._stream or not self._fits(k, places):
            return self._plain(*inputs)
        captured = self._graphs[k]
        if captured is None:
            try:
                captured = self._graphs[k] = self._capture(k, inputs)
            except Exception:  # of whatever kind: without a graph it is said, or goes well
                self._captures = MOST_CAPTURES + 1
                self._forget()
                return self._plain(*inputs)
        for x, to in zip(inputs, captured.inputs, strict=True):
            if _place(x) != _place(to):
                _copy(x, to, stream)
        captured.graph.launch(stream)
        self._next = 1 - k
        return tuple([
            x.array.copy() if j in self._copied else x.lend(self.cupy) for j, x in enumerate(captured.outputs)
        ])  # fmt: skip

    # how calls are alike

    def _watched(self, places: list[Any], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """A call without a graph, and what can be learnt from it: which inputs are what the last call wrote."""
        first = {at: i for i, at in reversed([*enumerate(places)])}  # of inputs that are one now, and may differ later
        self._pairs = {first[at]: j for j, at in enumerate(self._made) if at in first}
        self._given.append(places)
        outputs = self._plain(*inputs)
        self._made = [_place(x) if getattr(x, "nbytes", 0) else None for x in outputs]
        self._copied |= {j for j, x in enumerate(outputs) if not getattr(x, "shape", ())}  # losses
        return outputs

    def _learn(self) -> None:
        """From two calls."""
        first, second = self._given
        self._moving |= {i for i in range(len(first)) if first[i] != second[i] and i not in self._pairs}
        self._pairs = {i: j for i, j in self._pairs.items() if j not in self._copied}

    def _fits(self, k: int, places: list[Any]) -> bool:
        """Whether a graph can be launched for such inputs: nobody holds what it writes, or what is copied first."""
        captured, other = self._graphs[k], self._graphs[1 - k]
        if captured is None:  # it will read what the other wrote
            read = {i: other.outputs[j] for i, j in self._pairs.items()} if other else {}
            return not any(x.held and _place(x.array) != places[i] for i, x in read.items())
        held = {j for j, x in enumerate(captured.outputs) if x.held}
        moved = {i for i, at in enumerate(places) if at != _place(captured.inputs[i])}
        fixed = {i for i in moved if i not in self._pairs and i not in self._moving}
        if fixed or held - set(self._pairs.values()):
            self._moving |= fixed
            self._copied |= held - set(self._pairs.values())
            self._captures += 1  # anew: calls are other than they seemed
            self._forget()
            return True
        written = other.outputs if other else self._twins
        return not held and not any(written[self._pairs[i]].held for i in moved if i in self._pairs)

    # capture

    def _aim(self, place: int) -> None:
        """A value is about to be made: if it is an output, while a graph is captured, it has a place to be in."""
        self._target = self._targets.get(place)

    def _allocate(self, size: int) -> Any:
        """What CuPy takes memory from meanwhile: the graphs' own, which nobody else gets."""
        target = self._target
        if target is not None and target.nbytes == size:
            self._target = None
            return target.data
        return self._pool.malloc(size)  # a graph's own: streams that are gone leave their memory to those that come

    def _capture(self, k: int, inputs: tuple[Any, ...]) -> Captured:
        cupy, other, stream = self.cupy, self._graphs[1 - k], self.cupy.cuda.Stream(non_blocking=True)
        twins, self._pool = other.outputs if other else self._twins, cupy.cuda.MemoryPool()
        if self._workspace is None:
            self._workspace = cupy.ndarray(CapturedProducts.WORKSPACE, "uint8")
        for i, x in enumerate(inputs):
            if i in self._moving and i not in self._staged:
                self._staged[i] = cupy.ndarray(x.shape, x.dtype)
            elif i in self._pairs and other is None:
                self._twins[self._pairs[i]] = Output(cupy.ndarray(x.shape, x.dtype))
        places = [
            self._staged[i] if i in self._moving else twins[self._pairs[i]].array if i in self._pairs else x
            for i, x in enumerate(inputs)
        ]
        self._targets = {j: x.array for j, x in self._twins.items()} if other else {}
        capturing = self.backend.runtime.capturing(stream, self._workspace)
        with cupy.cuda.using_allocator(self._allocate), stream, capturing:
            stream.begin_capture()
            try:
                outputs = list(self._plain(*places))
                for j, to in self._targets.items():
                    if outputs[j].data.ptr != to.data.ptr:
                        _copy(outputs[j], to, stream)
                        outputs[j] = to
                graph = stream.end_capture()
            except BaseException:
                with suppress(Exception):
                    stream.end_capture()
                raise
            finally:
                self._targets, self._target = {}, None
        self._captures += 1
        owned, spans = {x.data.mem.ptr for x in places}, list[tuple[int, int]]()
        for j, x in enumerate(outputs):  # a view of an input, or of another output, is nobody's to keep
            start, end = x.data.ptr, x.data.ptr + x.nbytes
            overlaps = any(start < other[1] and other[0] < end for other in spans)
            if x.data.mem.ptr in owned or overlaps or not x.flags.c_contiguous:
                self._copied.add(j)
            spans.append((start, end))
        if not self._copied.isdisjoint(self._pairs.values()):
            raise ValueError("what the next call reads may be memory of the user")
        return Captured(graph, places, [Output(x) for x in outputs], self._pool)


def _place(x: Any) -> Any:
    """Where an array lies, and how."""
    return x.data.ptr, x.strides


def _copy(x: Any, to: Any, stream: Any) -> None:
    """Into memory of the same shape, on a stream that is the current one."""
    if x.flags.c_contiguous and to.flags.c_contiguous:
        to.data.copy_from_device_async(x.data, x.nbytes, stream)
    else:
        to[...] = x
