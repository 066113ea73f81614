"""Storage and kernels: OpenCL buffers, and the nests of the core as OpenCL C."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyopencl as cl

from micrograd_core.adapters.compiled import CompiledBackend
from micrograd_core.compiler.languages import OPENCL
from micrograd_core.compiler.nests import Nest
from micrograd_core.dtypes import DType
from micrograd_core.errors import DeviceUnavailable, OutOfMemory

NUMBERS: Final = 4096
"""Lists of integers that are kept on the device: a step passes the same ones again."""
MOST_ITEMS: Final = 1 << 16
"""Work items of a launch; each computes several units where there are more."""
KERNEL: Final = """{preamble}
__kernel void run(const long n, __global const long* m{pointers}) {{
{shared}{starts}
const long t = get_local_id(0);
for (long w = get_group_id(0); w * {group} < n; w += get_num_groups(0)) {{
const long u = w * {group} + t;
{text}
}} }}
"""
LOST: Final = "its driver has lost it, and all that was in its memory", "start anew, from a checkpoint"
OTHER: Final = "install another driver, such as Intel's: pip install 'micrograd-opencl[intel]'"
OPTIONS: Final = ["-cl-fp32-correctly-rounded-divide-sqrt"]


class OpenCLBackend(CompiledBackend):
    """One OpenCL device."""

    language = OPENCL

    def __init__(self, name: str, device: Any) -> None:
        double = "cl_khr_fp64" in device.extensions
        super().__init__(name, [each for each in OPENCL.types if double or each != "float64"])
        self.opencl, self._guard = device, threading.RLock()
        self.limits = self.limits._replace(buffers=device.max_parameter_size // 8 - 2)  # of pointers: two are ours
        self.group = self.lanes = 16 if device.type & cl.device_type.CPU else min(64, device.max_work_group_size)
        self.threads = device.max_compute_units * self.group * 2
        if device.local_mem_type == cl.device_local_mem_type.LOCAL:
            self.group_memory = device.local_mem_size
        self._context = cl.Context([device])
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        self._numbers = lru_cache(NUMBERS)(
            lambda x: cl.Buffer(self._context, flags, hostbuf=np.array([*x, 0], np.int64))
        )
        self._queue = cl.CommandQueue(self._context)
        self._options = OPTIONS if device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT else []
        try:
            self._kernel("__kernel void run() {}")
        except cl.RuntimeError:  # PoCL 3.0 does not know later processors
            reason = f"its driver, {device.platform.name.strip()}, compiles nothing for this {device.name.strip()}"
            raise DeviceUnavailable(name, reason, OTHER) from None

    # ── memory ───────────────────────────────────────────────────────────────────────────────────────────────

    def alloc(self, count: int, dtype: DType) -> Any:
        """A buffer of the device."""
        size = count * dtype.itemsize
        if size > self.opencl.max_mem_alloc_size:
            raise MemoryError
        with suppress(cl.LogicError), self._told():
            return cl.Buffer(self._context, cl.mem_flags.READ_WRITE, size)
        raise MemoryError

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What a driver reports is one of our errors."""
        try:
            yield
        except cl.MemoryError as error:
            raise OutOfMemory(self.device) from error
        except cl.RuntimeError as error:
            if error.code != cl.status_code.DEVICE_NOT_AVAILABLE:
                raise
            raise DeviceUnavailable(self.device, *LOST) from error

    def free(self, buffer: Any) -> None:
        """OpenCL keeps the memory until work that was launched has been done."""
        buffer.release()

    def write(self, buffer: Any, data: Any) -> None:
        """Wait until the bytes are there: the host's memory may change afterwards."""
        with self._told():
            cl.enqueue_copy(self._queue, buffer, np.frombuffer(data, np.uint8))

    def read_range(self, buffer: Any, start: int, end: int) -> Any:
        """Wait for what was launched before."""
        data = np.empty(end - start, np.uint8)
        with self._told():
            cl.enqueue_copy(self._queue, data, buffer, src_offset=start)
        return data

    def synchronize(self) -> None:
        """Until all that was launched is done."""
        with self._told():
            self._queue.finish()

    # ── kernels ──────────────────────────────────────────────────────────────────────────────────────────────

    def build(self, text: str, nest: Nest) -> Any:
        """A kernel."""
        types = [(i, OPENCL.memory_of(b.dtype), b) for i, b in enumerate(nest.buffers)]
        given = [(i, T) for i, T, b in types if b.role in ("in", "out")]
        shared = "".join(f"__local {T} p{i}[{b.size}];\n" for i, T, b in types if b.role == "shared")
        pointers = "".join(f", __global {T}* p{i}" for i, T in given)
        starts = "\n".join(f"const long at{i} = m[{i}];" for i, _ in given)
        facts = {"pointers": pointers, "shared": shared, "starts": starts, "group": self.group, "text": text}
        return self._kernel(KERNEL.format(preamble=OPENCL.preamble, **facts))

    def _kernel(self, source: str) -> Any:
        with warnings.catch_warnings():  # one for whatever a compiler has to say, such as that it has vectorized a loop
            warnings.simplefilter("ignore", cl.CompilerWarning)
            return cl.Kernel(cl.Program(self._context, source).build(self._options), "run")

    def launch(self, function: Any, units: int, integers: Sequence[int], buffers: Sequence[Any]) -> None:
        """In order with what was launched before."""
        items = min(-(-units // self.group) * self.group, MOST_ITEMS)
        with self._guard, self._told():  # a kernel keeps its arguments
            function(self._queue, (items,), (self.group,), np.int64(units), self._numbers(tuple(integers)), *buffers)
