"""Programs as CUDA graphs: what a program launches is captured once, and from then on launched as one.

A graph reads and writes where it did when it was captured. So a program has a few graphs: one for each place that its
inputs come from again and again (an optimiser's state alternates between two), and for each set of memory that it
writes to. An input that is somewhere else at each call, such as a batch, is copied to where the graphs read it. Nothing
is written that anybody holds: where all that there is is held, the program runs one launch after the other.

What graphs compute in between lies in memory that all graphs of a device share: they run in order.

What processes compute together is in graphs that all of them captured together, or in none: at each call they tell each
other which graphs they could launch, and whether they would capture one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock, get_ident
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

from micrograd_core.compiler.program import Program, operation
from micrograd_core.support.dumping import dump
from micrograd_cuda.nests import function
from micrograd_cuda.runtime import CapturedProducts

GRAPHS: Final = "MICROGRAD_CUDA_GRAPHS"
"""The environment variable: 0 for no graphs, or the most memory that they share: bytes, or ``20%`` of the GPU's."""
WATCHED: Final = 3
"""Calls without a graph, from which is learnt which inputs come from elsewhere each time."""
MOST_GRAPHS: Final = 8
"""Of one program at a time."""
MOST_SETS: Final = 3
"""Of memory that the graphs of one program write to."""
LARGE: Final = 2**20
"""Bytes of an input from which on graphs read it at each of a few places, rather than where it is copied to."""
MOST_PLACES: Final = 3
LATEST: Final = 511  # captures of processes together that graphs can be of: a bit of what they tell each other for each
LAUNCHES: Final = 50
"""For so many launches a program may be captured once more, beyond the first eight times."""


class Loan:
    """Memory of a graph, as long as somebody holds what it was given out as."""

    def __init__(self, array: Any) -> None:
        self.array = array


class Output:
    """A result of graphs: where it is written, and whether anybody has it."""

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
        return cupy.ndarray(x.shape, x.dtype, cupy.cuda.MemoryPointer(memory, 0))


class Captured(NamedTuple):
    """One graph, the places that it reads, what it writes, and which of its processes' captures made it."""

    graph: Any
    places: list[Any]
    outputs: list[Output]
    number: int


class Aim:
    """Where a value that is about to be made is to be, while a program is captured by this thread."""

    def __init__(self) -> None:
        self.targets: list[Any] = []  # memory for each output
        self.thread = 0  # which captures; others may run the program meanwhile
        self.target: Any = None  # of the step that runs

    def __call__(self, place: int) -> None:
        """The output of that number is made next, or none: -1."""
        if self.thread == get_ident():
            self.target = self.targets[place] if 0 <= place < len(self.targets) else None


def groups(program: Program) -> set[Any]:
    """Of processes that compute parts of a program together."""
    return {step.params["group"] for step in program.steps if operation(step.op).collective}


CAPTURES = WeakKeyDictionary[Any, int]()  # how many the processes of a group have made together, on all devices


class Graphs:
    """What the graphs of one device share: a stream to capture on, and memory."""

    def __init__(self, backend: Any) -> None:
        self.backend, self.cupy, self.lock = backend, backend.cupy, Lock()
        self.programs: WeakValueDictionary[int, Graphed] = WeakValueDictionary()
        self._pool: Any = None
        if not re.fullmatch(r"\d+|\d+(\.\d+)?%", _most()):
            raise ValueError(f"{GRAPHS} is 0, a number of bytes, or a part of the memory such as 20%; got {_most()!r}")

    def _chunk(self, size: int) -> Any:
        """More memory, from the pool of everything else: its figures and limits are those of graphs, too."""
        with self.cupy.cuda.Stream.null:  # on which graphs run: what was freed there is free
            return self.backend.pool.malloc(size)

    def capture(self, run: Callable[..., Any], aim: Aim, inputs: list[Any], outputs: list[Any]) -> Any:
        """What `run` launches for inputs, as a graph that writes to outputs."""
        cuda = self.cupy.cuda
        if self._pool is None:
            self._workspace = self.cupy.ndarray(CapturedProducts.WORKSPACE, "uint8")
            self._stream = cuda.Stream(non_blocking=True)
            pool, most = cuda.MemoryPool(self._chunk), _most()
            if most.endswith("%"):
                pool.set_limit(fraction=float(most[:-1]) / 100)
            elif int(most) > 1:
                pool.set_limit(size=int(most))
            self._pool = pool
        stream, aim.targets, aim.thread = self._stream, outputs, get_ident()

        def allocate(size: int) -> Any:
            if aim.target is None or aim.target.nbytes != size:
                return self._pool.malloc(size)
            target, aim.target = aim.target, None
            return target.data

        capturing = self.backend.runtime.capturing(stream, self._workspace)
        with cuda.using_allocator(allocate), stream, capturing:
            try:
                stream.begin_capture()
                for x, to in zip(run(*inputs), outputs, strict=True):
                    if _place(x) != _place(to):
                        _copy(x, to, stream)
                return stream.end_capture()
            except BaseException:
                with suppress(Exception):
                    stream.end_capture()
                raise
            finally:
                aim.targets, aim.target, aim.thread = [], None, 0

    def drop(self) -> bool:
        """All graphs that nobody launches just now, with their memory; whether there was any."""
        if self.lock.locked():
            return False
        with self.lock:
            self.cupy.cuda.Stream.null.synchronize()
            programs, pool = [each() for each in self.programs.valuerefs()], self._pool
            if all(list(map(Graphed.drop, filter(None, programs)))) and pool is not None:
                pool.free_all_blocks()
                self._pool = self._workspace = None
            return pool is not None


class Graphed:
    """A program as a function of its input handles, captured when it is called again and again."""

    def __init__(self, backend: Any, program: Program) -> None:
        self.cupy, self.shared, self._aim, self._lock = backend.cupy, backend.shared, Aim(), Lock()
        self._plain = function(backend, program, self._aim)
        self._group = next(iter(groups(program)), None)
        types = [program.types[x.number] for x in program.outputs]
        self._types = [(x.shape, backend.dtypes[x.dtype.name]) for x in types]
        self._watched: list[list[Any]] = []  # places of the inputs of the first calls
        self._made: list[Any] = []  # places of the outputs of the last of these
        self._moving: set[int] = set()  # inputs that come from elsewhere each time
        self._copied = {j for j, x in enumerate(types) if not x.shape}  # outputs that are held for long, as losses are
        self._launches = self._captures = 0
        self._refused = False
        self._forget()
        self.shared.programs[id(self)] = self

    def _forget(self) -> None:
        self._graphs: list[Captured] = []  # the last that was launched at the end
        self._sets: list[list[Output]] = []
        self._staged: dict[int, Any] = {}

    def drop(self) -> bool:
        """Forget all graphs, unless one is launched just now; the next call captures anew."""
        if self._lock.locked():
            return False
        with self._lock:
            self._forget()
            self._refused = False
        return True

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """The program's outputs."""
        stream = self.cupy.cuda.get_current_stream()
        plain = stream.ptr or self._refused or not all(hasattr(x, "data") for x in inputs)
        if plain or self._lock.locked():  # by another thread, or where a signal came
            self._common(0)
            return self._plain(*inputs)
        with self._lock:  # which no interrupt leaves held
            return self._called(stream, inputs)

    def _called(self, stream: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        places = [*map(_place, inputs)]
        if len(self._watched) < WATCHED:
            self._common(0)
            return self._watch(places, inputs)
        for i in self._moving:
            places[i] = None
        found = (self._of_all if self._group else self._found)(places, inputs)
        if found is None:
            return self._plain(*inputs)
        self._launches += 1
        for i, to in self._staged.items():
            _copy(inputs[i], to, stream)
        found.graph.launch(stream)
        return tuple([
            self._copy_of(x.array, stream) if j in self._copied else x.lend(self.cupy)
            for j, x in enumerate(found.outputs)
        ])  # fmt: skip

    def _copy_of(self, x: Any, stream: Any) -> Any:
        out = self.cupy.ndarray(x.shape, x.dtype)
        _copy(x, out, stream)
        return out

    def _watch(self, places: list[Any], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """A call without a graph. What is small and moves is copied, unless it is what the last call made."""
        before = self._watched[-1] if self._watched else places
        small = [i for i, x in enumerate(inputs) if x.nbytes < LARGE]
        self._moving |= {i for i in small if places[i] != before[i] and places[i] not in self._made}
        self._watched.append(places)
        outputs = self._plain(*inputs)
        self._made = [_place(x) for x in outputs if getattr(x, "nbytes", 0)]
        return outputs

    def _free(self, outputs: list[Output]) -> bool:
        """Whether nobody holds any of a set."""
        return not any(x.held for x in outputs)

    def _found(self, places: list[Any], inputs: tuple[Any, ...]) -> Captured | None:
        """A graph that reads there, and writes what nobody holds; another one, if that may pay."""
        for k in range(len(self._graphs) - 1, -1, -1):
            captured = self._graphs[k]
            if captured.places == places and self._free(captured.outputs):
                self._graphs.append(self._graphs.pop(k))
                return captured
        return self._anew(places, inputs) if self._may_capture() else None

    def _common(self, bits: int) -> int:
        """Those that the other processes give, too."""
        return bits if self._group is None else int(self._group.common(bits))

    def _of_all(self, places: list[Any], inputs: tuple[Any, ...]) -> Captured | None:
        """A graph that all processes captured together, and can launch; or one that they capture now."""
        captures = CAPTURES.get(self._group, 0)
        latest = [x for x in self._graphs if captures - x.number < LATEST]
        usable = {1 + x.number % LATEST: x for x in latest if x.places == places and self._free(x.outputs)}
        common = self._common(sum(1 << bit for bit in usable) | self._may_capture())
        found = usable.get(common.bit_length() - 1)
        if common == 1:
            CAPTURES[self._group] = captures + 1
            found = self._anew(places, inputs)
            if not self._common(found is not None):  # where one has none, the others do not launch theirs
                self._graphs, found = [x for x in self._graphs if x is not found], None
        self._graphs.sort(key=lambda x: x is found)
        return found

    def _may_capture(self) -> bool:
        """Whether another graph may pay."""
        return self._captures <= 8 + self._launches // LAUNCHES and not self.shared.lock.locked()

    def _anew(self, places: list[Any], inputs: tuple[Any, ...]) -> Captured | None:
        """Another graph."""
        self._captures += 1
        try:
            with self.shared.lock:
                self._settle(places, inputs)
                return self._capture(places, inputs)
        except Exception as error:  # of whatever kind: without a graph it is said, or goes well
            dump(partial("no CUDA graph of this program: {}".format, error))
            self._forget()
            self._refused = True
            return None

    def _settle(self, places: list[Any], inputs: tuple[Any, ...]) -> None:
        """Inputs that turn out to move are copied from now on, and so are outputs that are held for long."""
        own = {_place(x.array) for each in self._sets for x in each}
        seen = [{each.places[i] for each in self._graphs} - own for i in range(len(places))]
        most = [1 if x.nbytes < LARGE else MOST_PLACES for x in inputs]
        moving = {i for i, at in enumerate(places) if seen[i] and len(seen[i] | {at} - own) > most[i]}
        if moving:
            self._moving |= moving
            self._forget()
            for i in moving:
                places[i] = None
        if len(self._sets) == MOST_SETS and not any(map(self._free, self._sets)):
            counts = [sum(x.held for x in each) for each in zip(*self._sets, strict=True)]
            self._copied |= {j for j, count in enumerate(counts) if count > 1}
            self._forget()
        if len(self._graphs) == MOST_GRAPHS:
            del self._graphs[0]

    def _capture(self, places: list[Any], inputs: tuple[Any, ...]) -> Captured:
        empty = self.cupy.ndarray
        for i in self._moving - self._staged.keys():
            self._staged[i] = empty(inputs[i].shape, inputs[i].dtype)
        outputs = next(filter(self._free, self._sets), None)
        if outputs is None:
            outputs = [Output(empty(shape, dtype)) for shape, dtype in self._types]
            self._sets.append(outputs)
        read = [self._staged.get(i, x) for i, x in enumerate(inputs)]
        graph = self.shared.capture(self._plain, self._aim, read, [x.array for x in outputs])
        self._graphs.append(Captured(graph, places, outputs, CAPTURES.get(self._group, 0) if self._group else 0))
        return self._graphs[-1]


def _most() -> str:
    return os.environ.get(GRAPHS) or "1"


def _place(x: Any) -> Any:
    """Where an array lies, and how."""
    return x.data.ptr, x.strides


def _copy(x: Any, to: Any, stream: Any) -> None:
    """Into memory of the same shape, on a stream that is the current one."""
    if x.flags.c_contiguous and to.flags.c_contiguous:
        to.data.copy_from_device_async(x.data, x.nbytes, stream)
    else:
        to[...] = x
