"""What kernels need of a device: fresh memory, a compiled unit as a function, and cuBLAS.

Kernels ask a `CuPyRuntime` for them. A `Recorder` of plans has the same methods, and so has the runtime of the tests,
by which the very same launches run on the host, where g++ compiles the sources.
"""

from __future__ import annotations

import array
import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Final
from weakref import ref

from micrograd_core.layout import Shape
from micrograd_core.support.code_cache import read, write
from micrograd_cuda.biased import TYPES, BiasedProducts, short
from micrograd_cuda.cudnn import Convolved, CuDNN
from micrograd_cuda.gemm import TYPE, Product
from micrograd_cuda.geometry import ITEMSIZE
from micrograd_cuda.library import Library, one_and_zero
from micrograd_cuda.plans import Plans
from micrograd_cuda.units import Unit, name_of_kernel, text

Launch = Callable[[tuple[int, int], tuple[Any, ...]], None]

OPTIONS: Final = ("-std=c++17", "--device-as-default-execution-space")
"""Of NVRTC, beside the architecture of the device. Without the second, which not every CuPy adds, NVRTC before 13.2
takes generic lambdas for functions of the host."""


class Remembered:
    """What a kernel found on its way over some arrays, until another one asks for it.

    Whoever computes a loss will as a rule want its gradient next, for which each row's maximum and denominator are
    there; whoever computes the gradient of relu, or of a norm's weight, that of a bias, which is the sum over leading
    axes. Each is given out once: a sum is its owner's then. It is forgotten with any of the arrays, and all is as soon
    as something is written in place. Once memory has been shared with another library, which writes without a word,
    only what is said of an array just made is kept. Elsewhere nothing is found: memory that one stream frees is not to
    be read by another, and what a graph computes is computed again each time.
    """

    def __init__(self, scope: Callable[[], Any] = lambda: None) -> None:
        self._scope = scope  # says what work is in order with
        self._found: dict[tuple[Any, ...], tuple[list[Any], Any, Any]] = {}
        self._exposed = False

    def keep(self, arrays: tuple[Any, ...], facts: Any, value: Any, *, made: bool) -> None:
        """In place of what was kept of these arrays, which are `made` just now, or given."""
        if self._exposed and not made:
            return
        key = self._scope(), *map(id, arrays)
        self._found[key] = [ref(x, lambda _: self._found.pop(key, None)) for x in arrays], facts, value

    def take(self, arrays: tuple[Any, ...], facts: Any) -> Any:
        """What was kept of these very arrays with the same facts, and is no longer; else ``None``."""
        if not self._found:
            return None
        key = self._scope(), *map(id, arrays)
        found = self._found.get(key)
        if found is None or found[1] != facts or any(each() is not x for each, x in zip(found[0], arrays, strict=True)):
            return None
        return found[2] if self._found.pop(key, None) is found else None  # another thread may write meanwhile

    def __len__(self) -> int:
        """How much is kept."""
        return len(self._found)

    def forget(self) -> None:
        """All: something is written in place."""
        self._found.clear()

    def expose(self) -> None:
        """All, and what is said of given arrays from now on: another library has a way to some memory."""
        self._exposed = True
        self.forget()


def pointer_class(cupy: Any) -> Any:
    """What CuPy takes for the address of an argument's bytes: the quickest of its ways to pass a struct."""

    class Pointer(cupy.cuda.function.CPointer):  # type: ignore[misc]
        def __init__(self, numbers: array.array[int]) -> None:
            super().__init__(numbers.buffer_info()[0])
            self.numbers = numbers  # kept alive

    return Pointer


class CapturedProducts(Library):
    """cuBLAS for a stream that captures: CuPy's own module refuses to call it then. A handle for each device."""

    WORKSPACE: Final = 32 << 20  # bytes that cuBLAS recommends

    def __init__(self, version: int, device: int) -> None:
        super().__init__(ctypes.CDLL(f"libcublas.so.{version // 10000}"), "cublasCreate_v2")  # CuPy has loaded it
        self.lock, self.handle = self._lock, self._handle.value or 0
        for name, types in CALLED.items():
            # With the types told, numbers are handed on as they are; CuPy's functions have names without "cublas".
            getattr(self._library, name).argtypes = [KINDS[each] for each in types]
            setattr(self, f"{name[6].lower()}{name[7:]}", partial(self._call, name))

    def use(self, stream: int, workspace: int, size: int) -> None:
        """Of products from here on."""
        self._call("cublasSetStream_v2", self.handle, stream)
        self._call("cublasSetWorkspace_v2", self.handle, workspace, size)
        self._call("cublasSetMathMode", self.handle, 0)


KINDS: Final = {"p": ctypes.c_void_p, "i": ctypes.c_int, "l": ctypes.c_longlong}
CALLED: Final = {"cublasGemmEx": "piiiiippiipiippiiii", "cublasSetMathMode": "pi", "cublasSetStream_v2": "pp",
                 "cublasGemmStridedBatchedEx": "piiiiippiilpiilppiiliii", "cublasSetWorkspace_v2": "ppl"}  # fmt: skip
"""Functions, and the types of their arguments."""


class CuPyRuntime:
    """Through CuPy: its memory pool, its current stream, its cache of compiled kernels, its cuBLAS handle.

    ``empty(shape, dtype)`` is a fresh contiguous array of any numbers, aligned to 16 bytes; ``address(x)`` that of the
    first element; ``owners`` are the objects whose methods are kernels, by class. Strides of arrays are in bytes.
    """

    def __init__(self, cupy: Any) -> None:
        from cupy_backends.cuda.libs import cublas

        self.cupy, self.cublas = cupy, cublas
        self.address = attrgetter("data.ptr")
        self.array = self.empty = cupy.ndarray  # the constructor: what `cupy.empty` adds is parsing
        self.plans, self.owners = Plans(self), dict[type, Any]()
        self._struct = pointer_class(cupy)
        self._units: dict[Unit, Launch] = {}
        self._captured: dict[int, tuple[Any, int]] = {}  # cuBLAS, and its handle, of threads that capture
        self._counters: dict[tuple[int, int], Any] = {}  # by what work is in order with
        self.remembered = Remembered(self._scope)
        self._version: int | None = None  # of cuBLAS

    def _scope(self) -> tuple[int, int]:
        """A stream, and a thread: each may have a default stream of its own."""
        return self.cupy.cuda.get_current_stream().ptr, threading.get_ident()

    @cached_property
    def capability(self) -> int:
        """Of the current device, the compute capability: 90."""
        return int(self.cupy.cuda.Device().compute_capability)

    def captures(self) -> bool:
        """Whether this thread captures a graph."""
        return threading.get_ident() in self._captured

    def counter(self) -> Any:
        """An unsigned 0 on the device that launches of this stream count with, and leave at 0. A graph has its own."""
        kept = {} if self.captures() else self._counters
        key = self._scope()
        if key not in kept:
            kept[key] = self.cupy.zeros(1, "uint32")
        return kept[key]

    def bind(self, unit: Unit) -> Launch:
        """A unit as a function of the grid (blocks along x and y) and the kernel's arguments.

        It is compiled for the current device, which is that of all its launches. An argument is an array (its address
        is passed), an ``int`` (64 bits), a ``float`` (64 bits), or what `struct` made.
        """
        launch = self._units.get(unit)
        if launch is None:
            launch = self._units[unit] = self.bind_source(name_of_kernel(unit), text(unit), unit.block, unit.shared)
        return launch

    def bind_source(self, name: str, source: str, threads: int, shared: int = 0) -> Launch:
        """Compile a source that is not a unit, and bind its kernel."""
        function, block, more = self.compiled(source).get_function(name), (threads,), (shared,) * (shared > 0)
        if shared:  # a kernel has 48 KiB, and more where that is asked for
            driver = self.cupy.cuda.driver
            driver.funcSetAttribute(function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)

        def launch(grid: tuple[int, int], arguments: tuple[Any, ...]) -> None:
            function(grid, block, arguments, *more)

        return launch

    def compiled(self, source: str) -> Any:
        """A module for the current device. CuPy's own way to one has ``-ftz=true``: small numbers become 0."""
        capability = self.cupy.cuda.Device().compute_capability
        facts = source, OPTIONS, capability, self.cupy.__version__, self.cupy.cuda.nvrtc.getVersion()
        binary = read(repr(facts))
        if binary is None:
            binary, _ = self.cupy.cuda.compiler.compile_using_nvrtc(source, OPTIONS, capability)
            write(repr(facts), binary)
        module = self.cupy.cuda.function.Module()
        module.load(binary)
        return module

    def struct(self, numbers: Sequence[int], index: str) -> Any:
        """A struct of numbers of one type, ``"int"`` or ``"Long"``, to be passed by value: a launch copies it."""
        return self._struct(array.array("i" if index == "int" else "q", numbers))

    @contextmanager
    def capturing(self, stream: Any, workspace: Any) -> Iterator[None]:
        """Meanwhile this thread's products are of this stream, which captures, and have memory of the graph's own."""
        products = CapturedProducts.of(*self._cublas_here())
        assert products is not None
        with products.lock:
            products.use(stream.ptr, workspace.data.ptr, workspace.nbytes)
            self._captured[threading.get_ident()] = products, products.handle
            self.remembered.forget()  # the stream may have the number of one that was before
            try:
                yield
            finally:
                del self._captured[threading.get_ident()]
                self.remembered.forget()  # each launch computes anew what nobody else has

    def view(self, x: Any, offset: int, shape: Shape, strides: Shape) -> Any:
        """An array in the memory of another one, so many bytes from its first element; strides are in bytes."""
        return self.array(shape, x.dtype, x.data + offset, strides)

    def gemm(self, call: Product, dtype: str, compute: int) -> Callable[[Any, Any, Any], None]:
        """cublasGemmStridedBatchedEx: ``out = x @ y`` as a function of ``x``, ``y`` and ``out``, or their addresses.

        On the current stream. With `call.batches` of 1 as plain products.
        """
        one, zero = (factor.value for factor in one_and_zero(dtype)[:2])
        address, kind, a, b, itemsize = self.address, TYPE[dtype], call.first, call.second, ITEMSIZE[dtype]
        turned, other, (m, n, k) = int(a.transposed), int(b.transposed), call[:3]
        captured, cublas, handle_of = self._captured, self.cublas, self.cupy.cuda.device.get_cublas_handle
        starts = [tuple(start * itemsize for start in each) for each in call.starts]

        def run(x: Any, y: Any, out: Any) -> None:
            library, handle = (captured and captured.get(threading.get_ident())) or (cublas, handle_of())
            library.setMathMode(handle, FULL_SUMS)  # the handle is CuPy's, whose other users set modes of their own
            if x.__class__ is not int:
                x, y, out = map(address, (x, y, out))
            for first, second, to in starts:
                if call.batches == 1:
                    library.gemmEx(
                        handle, turned, other, m, n, k, one, y + first, kind, a.leading, x + second, kind, b.leading,
                        zero, out + to, kind, m, compute, DEFAULT_ALGORITHM,
                    )  # fmt: skip
                else:
                    library.gemmStridedBatchedEx(
                        handle, turned, other, m, n, k, one, y + first, kind, a.leading, a.batch,
                        x + second, kind, b.leading, b.batch,
                        zero, out + to, kind, m, call.apart, call.batches, compute, DEFAULT_ALGORITHM,
                    )  # fmt: skip

        return run

    def biased_gemm(self, call: Product, dtype: str, compute: int,
                    biased: bool) -> Callable[[Any, Any, Any, Any], bool] | None:  # fmt: skip
        """cublasLtMatmul: ``out = x @ y + bias`` of ``x``, ``y``, ``bias`` and ``out``; ``None`` of what it is not for.

        The function says False where there is nothing for arrays that lie so, and did nothing. On the current stream,
        also while it is captured. Two matrices of one batch have no bias each. Without a bias its place is not read.
        """
        wanted = dtype in TYPES and call.batches == 1 and (biased or short(call, TYPE[dtype]))
        products = BiasedProducts.of(*self._cublas_here()) if wanted else None
        if products is None:
            return None
        address = self.address

        def run(x: Any, y: Any, bias: Any, out: Any) -> bool:
            if x.__class__ is not int:
                x, y, bias, out = map(address, (x, y, bias, out))
            arrays = y, x, out, bias if biased else 0
            plan = products.plan_at(call, dtype, compute, arrays)
            return plan is not None and self._with_workspace(products, plan, *arrays)

        return run

    def _cublas_here(self) -> tuple[int, int]:
        """The version of cuBLAS, and the device, which is the current one."""
        if self._version is None:
            self._version = int(self.cublas.getVersion(self.cupy.cuda.device.get_cublas_handle()))
        return self._version, self.cupy.cuda.runtime.getDevice()

    def convolve(self, call: Convolved) -> Callable[[Any, Any, Any], bool] | None:
        """A convolution by cuDNN of arrays in C order at multiples of 16 bytes, into the third; the same."""
        library = CuDNN.of(self.cupy.cuda.runtime.getDevice())
        plan = None if library is None else library.plan(call)
        return None if library is None or plan is None else partial(self._with_workspace, library, plan)

    def _with_workspace(self, library: BiasedProducts | CuDNN, plan: Any, *arrays: Any) -> bool:
        """Run a plan on the current stream, with as much memory as it wants; False where that was refused."""
        workspace = self.empty((plan.workspace,), "uint8") if plan.workspace else None
        where = 0 if workspace is None else self.address(workspace)
        addresses = tuple([x if x.__class__ is int else self.address(x) for x in arrays])
        return library.run(plan, addresses, where, self.cupy.cuda.get_current_stream().ptr)


DEFAULT_ALGORITHM: Final = -1  # CUBLAS_GEMM_DEFAULT
FULL_SUMS: Final = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: parts of a sum are not rounded to halves
