"""Transfer: host bytes to the GPU and back, and from GPU to GPU.

Copies go through page-locked ("pinned") host memory, which the GPU reads by itself: an upload returns before it has
arrived, and its pinned memory is kept until an event says that it has. Small downloads, which Python waits for, do
without.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Final

from micrograd_core.layout import Shape

SMALL: Final = 64 * 1024
"""Bytes up to which a plain copy to the host is faster than finding pinned memory for it."""


class Uploads:
    """Copies between host and GPU, and the pinned memory that is still being read."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.pinned = cupy.cuda.PinnedMemoryPool()
        self._reading: deque[tuple[Any, Any]] = deque()  # event, pinned memory: in the order of the copies
        self._lock = threading.RLock()

    def _stream(self) -> Any:
        """The current one, unless it captures: nobody would keep for a graph what a copy has to do with on the host."""
        stream = self.cupy.cuda.get_current_stream()
        if stream.is_capturing():
            raise RuntimeError("copies from and to the host cannot be part of a CUDA graph")
        return stream

    def _collect(self) -> None:
        """Give back what has been read."""
        with self._lock:
            while self._reading and self._reading[0][0].done:
                self._reading.popleft()

    def upload(self, data: Any, shape: Shape, dtype: Any) -> Any:
        """A fresh array with the C-order elements in `data`."""
        import numpy as np

        stream = self._stream()
        out = self.cupy.ndarray(shape, dtype)
        if not out.nbytes:
            return out
        flat = np.frombuffer(data, np.uint8)
        self._collect()
        staged = self.pinned.malloc(flat.nbytes)
        np.frombuffer(staged, np.uint8, flat.nbytes)[:] = flat
        out.data.copy_from_host_async(staged.ptr, flat.nbytes, stream)
        with self._lock:
            self._reading.append((stream.record(self.cupy.cuda.Event(disable_timing=True)), staged))
        return out

    def download(self, x: Any) -> Any:
        """C-order bytes of an array, whatever its strides."""
        import numpy as np

        stream, source = self._stream(), self.cupy.ascontiguousarray(x)
        if source.nbytes <= SMALL:
            flat = np.empty(source.nbytes, np.uint8)
        else:
            flat = np.frombuffer(self.pinned.malloc(source.nbytes), np.uint8, source.nbytes)  # which it keeps alive
        if flat.nbytes:
            source.data.copy_to_host_async(flat.ctypes.data, flat.nbytes, stream)
            stream.synchronize()
        return flat

    def release(self) -> None:
        """Give back all pinned memory that nobody reads."""
        self._collect()
        self.pinned.free_all_blocks()


def from_peer(cupy: Any, x: Any, source: int, target: int) -> Any:
    """A copy of an array of GPU `source` on GPU `target`: directly where the two are connected.

    The copy waits for what the source's stream has been given, and the source's stream for the copy, so that its
    memory is not used again too early.
    """
    with cupy.cuda.Device(source):
        x = cupy.ascontiguousarray(x)
        source_stream = cupy.cuda.get_current_stream()
        ready = source_stream.record()
    with cupy.cuda.Device(target):
        target_stream = cupy.cuda.get_current_stream()
        target_stream.wait_event(ready)
        out = cupy.ndarray(x.shape, x.dtype)
        if out.nbytes:
            out.data.copy_from_device_async(x.data, x.nbytes, target_stream)
        copied = target_stream.record()
    with cupy.cuda.Device(source):
        source_stream.wait_event(copied)
    return out
