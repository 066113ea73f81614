"""Storage and kernels: WebGPU's buffers, and the nests of the core as WGSL."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple

import wgpu

from micrograd_core.adapters.compiled import CompiledBackend
from micrograd_core.compiler.languages import WGSL
from micrograd_core.compiler.nests import Nest
from micrograd_core.dtypes import DType
from micrograd_core.errors import DeviceUnavailable, OutOfMemory

GROUP: Final = 64
"""Threads of a workgroup."""
MOST_GROUPS: Final = 65535
"""Workgroups of a launch; each thread computes several units where there are more."""
NUMBERS: Final = 4096
"""Lists of integers that are kept on the device: a step passes the same ones again."""
TOGETHER: Final = 256
"""Launches that are submitted at once: a submission of its own takes longer than most kernels."""
USAGE: Final = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
SHARED: Final = "max-compute-workgroup-storage-size"
LOST: Final = "its driver has lost it, and all that was in its memory", "start anew, from a checkpoint"
KERNEL: Final = """{preamble}{bindings}
@compute @workgroup_size({group})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) place: u32,
        @builtin(num_workgroups) groups: vec3<u32>) {{
{starts}
let t = i32(place); let n = m[0];
for (var w = i32(id.x); w * {group} < n; w += i32(groups.x)) {{
let u = w * {group} + t;
{text}
}} }}
"""


class Buffer(NamedTuple):
    """Memory of the device. A truth value takes four bytes there: WGSL has no narrower numbers."""

    memory: Any
    dtype: DType

    @property
    def width(self) -> int:
        """How many bytes the device has for one of an element."""
        return 4 // self.dtype.itemsize if self.dtype.itemsize < 4 else 1


class WebGPUBackend(CompiledBackend):
    """One WebGPU device."""

    language, group, tile = WGSL, GROUP, 64

    def __init__(self, name: str, adapter: Any) -> None:
        names = "max-storage-buffers-per-shader-stage", "max-buffer-size", "max-storage-buffer-binding-size", SHARED
        limits = {each: adapter.limits[each] for each in names}
        self.info, buffers = adapter.info, limits[names[0]] - 1  # one is for the integers
        self.limits = self.limits._replace(buffers=buffers)
        if adapter.info["adapter_type"] != "CPU":
            self.threads, self.lanes = 1 << 14, GROUP
            self.group_memory = limits[SHARED]
        super().__init__(name)
        self._gpu = adapter.request_device_sync(required_limits=limits)
        self._most = min(limits["max-buffer-size"], limits["max-storage-buffer-binding-size"])
        self._guard = threading.RLock()
        self._numbers = lru_cache(NUMBERS)(self._uploaded_numbers)
        self._encoder: Any = None
        self._pass: Any = None
        self._waiting = 0

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """One thread at a time; what a driver reports is one of our errors."""
        with self._guard:
            try:
                yield
            except wgpu.GPUOutOfMemoryError as error:
                raise OutOfMemory(self.device) from error
            except wgpu.GPUError as error:
                if "lost" not in str(error):
                    raise
                raise DeviceUnavailable(self.device, *LOST) from error

    # ── memory ───────────────────────────────────────────────────────────────────────────────────────────────

    def alloc(self, count: int, dtype: DType) -> Buffer:
        """A buffer of the device."""
        size = count * max(dtype.itemsize, 4)
        if size > self._most:
            raise MemoryError
        with self._guarded():
            return Buffer(self._gpu.create_buffer(size=size, usage=USAGE), dtype)

    def write(self, buffer: Buffer, data: Any) -> None:
        """After what was launched before."""
        flat = memoryview(data).cast("B")
        with self._guarded():
            self.synchronize()
            self._gpu.queue.write_buffer(buffer.memory, 0, array("I", flat) if buffer.width > 1 else flat)

    def read_range(self, buffer: Buffer, start: int, end: int) -> Any:
        """Wait for what was launched before."""
        with self._guarded():
            self.synchronize()
            width = buffer.width
            data = self._gpu.queue.read_buffer(buffer.memory, start * width, (end - start) * width).cast("B")
        return bytes(data[::width])

    # ── kernels ──────────────────────────────────────────────────────────────────────────────────────────────

    def build(self, text: str, nest: Nest) -> Any:
        """A compute pipeline."""
        given = [(i, b) for i, b in enumerate(nest.buffers) if b.role in ("in", "out")]
        shared = [(i, b) for i, b in enumerate(nest.buffers) if b.role == "shared"]
        bindings = "\n".join(
            f"@group(0) @binding({n + 1}) var<storage, {'read' if b.role == 'in' else 'read_write'}> p{i}: "
            f"array<{WGSL.memory_of(b.dtype)}>;"
            for n, (i, b) in enumerate(given)
        )
        bindings += "".join(f"\nvar<workgroup> p{i}: array<{WGSL.memory_of(b.dtype)}, {b.size}>;" for i, b in shared)
        starts = "\n".join(f"let at{i} = m[{i + 3}];" for i, _ in given)
        source = KERNEL.format(preamble=WGSL.preamble, bindings=bindings, group=GROUP, starts=starts, text=text)
        with self._guarded():
            module = self._gpu.create_shader_module(code=source)
            return self._gpu.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})

    def _uploaded_numbers(self, integers: Sequence[int]) -> Any:
        """With infinity and NaN, whose bits shaders may not make."""
        numbers = array("i", [integers[0], 0x7F800000, 0x7FC00000, *integers[1:]])
        return self._gpu.create_buffer_with_data(data=numbers, usage=USAGE)

    def launch(self, function: Any, units: int, integers: Sequence[int], buffers: Sequence[Buffer]) -> None:
        """Record it; it is submitted with others."""
        with self._guarded():
            given = [self._numbers((units, *integers)), *(x.memory for x in buffers)]
            entries = [{"binding": n, "resource": {"buffer": memory}} for n, memory in enumerate(given)]
            group = self._gpu.create_bind_group(layout=function.get_bind_group_layout(0), entries=entries)
            if self._pass is None:
                self._encoder = self._gpu.create_command_encoder()
                self._pass = self._encoder.begin_compute_pass()
            self._pass.set_pipeline(function)
            self._pass.set_bind_group(0, group)
            self._pass.dispatch_workgroups(min(-(-units // GROUP), MOST_GROUPS))
            self._waiting += 1
            if self._waiting >= TOGETHER:
                self.synchronize()

    def synchronize(self) -> None:
        """Submit what was recorded; reading waits for it."""
        with self._guarded():
            if self._pass is not None:
                recorded, self._pass, self._waiting = self._pass, None, 0  # an error leaves nothing behind
                recorded.end()
                self._gpu.queue.submit([self._encoder.finish()])
