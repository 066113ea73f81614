"""Storage: CuPy arrays as strided memory of one GPU, and the backend itself.

Memory comes from CuPy's pool, so that it is shared with whatever else uses CuPy; work goes to CuPy's current stream.
Every member makes its GPU the current one for as long as it runs, and costs nothing for that where it already is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import get_ident
from typing import Any, Final, NamedTuple

from micrograd_core.adapters.array_api import ArrayAPIBackend, put
from micrograd_core.backend import matmul_precision
from micrograd_core.compiler.program import Program
from micrograd_core.dtypes import DTYPES
from micrograd_core.errors import OutOfMemory
from micrograd_core.layout import Key, Layout, Shape
from micrograd_core.support.signatures import Parameters
from micrograd_cuda import linalg, transfer
from micrograd_cuda.graphs import GRAPHS, Graphed, Graphs, groups
from micrograd_cuda.kernels import table
from micrograd_cuda.namespace import Namespace, widened
from micrograd_cuda.nests import function
from micrograd_cuda.plans import span
from micrograd_cuda.runtime import CuPyRuntime

PACKED: Final = Parameters(("*operands", "**params"), (), {})
"""Of a kernel that is not written in Python, or packs its own."""
MOST_HELD: Final = 256
"""Calls whose operands a stream of its own keeps before the streams around it are told to wait for them."""


class Level(NamedTuple):
    """A stream within another, and what its work reads: the pool may give that to the other as soon as it is freed."""

    outer: Any
    inner: Any
    held: list[Any]

    def join(self) -> None:
        """The outer stream waits; then what is freed is so for both."""
        self.outer.wait_event(self.inner.record())


class CUDABackend(ArrayAPIBackend):
    """One GPU, through CuPy."""

    capabilities = frozenset(
        "array-api boolean-indexing complex data-dependent-shapes dlpack fft jit linalg random strided".split()
    )

    def __init__(self, cupy: Any, xp: Any, errstate: Callable[..., Any], index: int) -> None:
        self.cupy, self.index = cupy, index
        self._guarded: dict[str, tuple[Any, Any]] = {}  # what is guarded, and how, by operation
        self.holding: dict[int, list[Level]] = {}  # streams of their own by thread, the innermost last
        self.runtime = CuPyRuntime(cupy)
        dtypes = {name: cupy.dtype(name) for name in DTYPES if name != "bfloat16"}
        with suppress(ImportError):
            import ml_dtypes  # NumPy's dtype of that name, which CuPy takes

            dtypes["bfloat16"] = cupy.dtype(ml_dtypes.bfloat16)
            xp = Namespace(xp, partial(widened, dtypes["bfloat16"], xp.float32))
        own = table(xp, self.runtime, matmul_precision)
        self.own = frozenset(own)
        solvers, self._fourier = linalg.table(xp, errstate), linalg.fourier(xp)
        if "eig" in solvers:
            self.capabilities |= {"eig"}
        super().__init__(xp, f"cuda:{index}", dtypes=dtypes, kernels=own | solvers | self._fourier)
        self.pool = cupy.get_default_memory_pool()
        self.uploads = transfer.Uploads(cupy)
        self._several = cupy.cuda.runtime.getDeviceCount() > 1
        self._upload, self._download = self.guarded(self.uploads.upload), self.guarded(self.uploads.download)
        self.graphs, self.shared = os.environ.get(GRAPHS) != "0", Graphs(self)
        self._idle: list[Any] = []  # streams to use again: the pool keeps memory apart for each

    def compile(self, program: Program) -> Callable[..., Any]:
        """With fewer launches, and as a graph when it is called again and again.

        Not what has Fourier transforms: CuPy gives the memory of cuFFT's plans to others when it forgets a plan. Nor
        what processes of several groups compute, who could not decide alike, or send through the host.
        """
        together = groups(program)
        fits = not any(step.op in self._fourier for step in program.steps) and len(together) < 2
        graphed = self.graphs and program.types and fits and all(each.is_on_stream for each in together)
        return self.guarded(Graphed(self, program) if graphed else function(self, program), again=not together)

    @classmethod
    def open(cls, index: int) -> CUDABackend:
        """The GPU of that number, after a first computation that shows whether CuPy can compile for it."""
        import array_api_compat.cupy as xp
        import cupy
        from cupyx import errstate

        with cupy.cuda.Device(index):
            (cupy.zeros((), "float16") + 1).get()
            return cls(cupy, xp, errstate, index)

    def kernel(self, op: str) -> Callable[..., Any] | None:
        """One of the kernels, or the namespace's function."""
        found = super().kernel(op)
        if found is None:
            return None
        kept = self._guarded.get(op)  # optimisers ask for theirs at each step
        if kept is None or kept[0] is not found:
            kept = self._guarded[op] = found, self.guarded(found)
        return kept[1]

    def guarded(self, kernel: Callable[..., Any], again: bool = True) -> Callable[..., Any]:
        """`kernel`, and our words for a lack of memory; on this GPU, whichever of several is the current one.

        Not `again` where a part of what it does has been sent to other processes.
        """
        parameters, exhausted = Parameters.of(kernel) or PACKED, self.cupy.cuda.memory.OutOfMemoryError
        operands = ", ".join([*(x for x in parameters.positional if not x.startswith("**")), ""])
        lines = (
            f"try: _result = _kernel({parameters.given()})",
            "except _exhausted as _error:",
            f"    _result = _backend.with_less(_error, {'_kernel' if again else None}, {parameters.given()})",
            f"if _holding: _backend.hold(({operands}))",
            "return _result",
        )
        known = {"_kernel": kernel, "_exhausted": exhausted, "_holding": self.holding, "_backend": self}
        single = parameters.function(lines, known)
        if not self._several:
            return single
        current, device = self.cupy.cuda.runtime.getDevice, self.cupy.cuda.Device

        def placed(*operands: Any, **params: Any) -> Any:
            if current() == self.index:
                return single(*operands, **params)
            with device(self.index):
                return single(*operands, **params)

        return placed

    def with_less(self, error: Exception, kernel: Callable[..., Any] | None, *operands: Any, **params: Any) -> Any:
        """When memory ran out: again, with what graphs had of it; or an error that tells what there is."""
        if self.shared.drop() and kernel is not None:
            try:
                return kernel(*operands, **params)
            except self.cupy.cuda.memory.OutOfMemoryError as found:
                error = found
        # CuPy says: "Out of memory allocating 1,024 bytes (allocated so far: …".
        figures, asked = self.memory(), re.search(r"allocating ([\d,]+) bytes", str(error))
        wanted = int(asked[1].replace(",", "")) if asked else None
        raise OutOfMemory(self.device, wanted, figures["in_use"], figures["reserved"]) from error

    # ── moving ───────────────────────────────────────────────────────────────────────────────────────────────

    def from_host(self, data: Any, shape: Shape, dtype: Any) -> Any:
        """Asynchronous; the bytes may change as soon as this returns."""
        return self._upload(data, shape, dtype)

    def to_host(self, x: Any) -> Any:
        """Through pinned memory; returns when the bytes are there."""
        return self._download(x)

    def receive(self, x: Any, source: Any) -> Any:
        """From another GPU directly, from elsewhere through the host."""
        if isinstance(source, CUDABackend):
            return transfer.from_peer(self.cupy, x, source.index, self.index)
        name = next(name for name, native in source.dtypes.items() if native == x.dtype)
        return self.from_host(source.to_host(x), tuple(x.shape), self.dtypes[name])

    def from_dlpack(self, x: Any) -> Any:
        """The memory of another library's array on this GPU, without a copy."""
        self.runtime.remembered.expose()
        return self.guarded(self.cupy.from_dlpack)(x)

    def to_dlpack(self, x: Any) -> Any:
        """The array itself. Nothing is known any more of what others may write."""
        self.runtime.remembered.expose()
        return x

    # ── memory ───────────────────────────────────────────────────────────────────────────────────────────────

    def layout(self, x: Any) -> Layout:
        """CuPy's strides in elements; the offset is from the start of the allocation."""
        size = x.dtype.itemsize
        return Layout(x.shape, tuple(stride // size for stride in x.strides), (x.data.ptr - x.data.mem.ptr) // size)

    def shares_memory(self, x: Any, y: Any) -> bool:
        """Whether the bytes that one spans overlap those of the other."""
        (first, last), (start, stop) = span(x, self.runtime.address), span(y, self.runtime.address)
        return max(first, start) < min(last, stop)

    def assign(self, x: Any, values: Any, key: Key) -> bool:
        """Assignment; what repeats one element cannot be assigned to. Values that overlap are copied first."""
        if any(not stride and length > 1 for stride, length in zip(x.strides, x.shape, strict=True)):
            return False
        self.runtime.remembered.forget()
        overlaps = hasattr(values, "shape") and self.shares_memory(x, values)
        self.guarded(lambda x, values: put(self.xp, x, values.copy() if overlaps else values, key))(x, values)
        return True

    def memory(self) -> dict[str, int]:
        """Of CuPy's pool on this GPU, which other users of CuPy share."""
        with self.cupy.cuda.Device(self.index):
            return {"in_use": int(self.pool.used_bytes()), "reserved": int(self.pool.total_bytes())}

    def release_memory(self) -> None:
        """Graphs, which are captured anew, and the pool's free blocks, pinned ones too, back to the driver."""
        with self.cupy.cuda.Device(self.index):
            self.shared.drop()
            self.pool.free_all_blocks()
        self.uploads.release()

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────

    def synchronize(self) -> None:
        """Until all streams of this GPU are done."""
        with self.cupy.cuda.Device(self.index):
            self.cupy.cuda.runtime.deviceSynchronize()

    @contextmanager
    def stream(self) -> Iterator[Any]:
        """A stream of its own, in order with the one around it: it starts after, and what follows waits for it."""
        with self.cupy.cuda.Device(self.index):
            outer = self.cupy.cuda.get_current_stream()
            inner = self._idle.pop() if self._idle else self.cupy.cuda.Stream(non_blocking=True)
            inner.wait_event(outer.record())
            thread = get_ident()
            levels = self.holding.setdefault(thread, [])
            levels.append(Level(outer, inner, []))
            try:
                with inner:
                    yield inner
            finally:
                left = levels.pop()
                left.join()
                if levels:
                    levels[-1].held.extend(left.held)  # it may be older than that stream too
                else:
                    del self.holding[thread]
                self._idle.append(inner)

    def hold(self, operands: tuple[Any, ...]) -> None:
        """Until the streams around this thread's wait for it: the pool takes what is freed for theirs."""
        if not (levels := self.holding.get(get_ident())):
            return
        held = levels[-1].held
        held.append([list(x) if isinstance(x, list) else x for x in operands])
        if len(held) >= MOST_HELD:
            for level in reversed(levels):
                level.join()
                level.held.clear()
