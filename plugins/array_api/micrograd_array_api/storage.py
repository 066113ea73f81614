"""Storage and transfer: the backend itself, for any row of the table. Kernels are the namespace's own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from micrograd_array_api.namespaces import Namespace
from micrograd_core.adapters.array_api import ArrayAPIBackend, native_dtypes, put, put_forwards, steps_back
from micrograd_core.compiler.executor import straight_line
from micrograd_core.compiler.program import Program
from micrograd_core.interpreters.raw import compose
from micrograd_core.layout import Key, Shape


class NamespaceBackend(ArrayAPIBackend):
    """One device of one array library; its arrays are the handles."""

    def __init__(self, own: Namespace, library: Any, xp: Any, device: str, place: Any) -> None:
        self.scope: Callable[[], Any] = own.scope(library) if own.scope else nullcontext
        with self.scope():
            dtypes = {name: dtype for name, dtype in native_dtypes(xp, place).items() if name not in own.without}
            super().__init__(xp, device, dtypes=dtypes, place=place)
            self._put = put if steps_back(xp) else put_forwards
        self._names = {dtype: name for name, dtype in dtypes.items()}
        self._own, self.layout, self._compiler = own, own.layout, own.compiler(library)
        self.capabilities, self.known_failures = own.capabilities, own.known_failures
        if "linalg" in own.capabilities and hasattr(xp.linalg, "eig"):  # since the standard of 2025.12
            self.capabilities |= {"eig"}

    def kernel(self, op: str) -> Callable[..., Any] | None:
        """The namespace's function, in the scope that the library needs."""
        kernel = super().kernel(op)
        if kernel is not None and op in ("floor_divide", "remainder"):
            kernel = _composed_at_zero(kernel)
        if kernel is None or self._own.scope is None:
            return kernel

        def scoped(*operands: Any, **params: Any) -> Any:
            with self.scope():
                return kernel(*operands, **params)

        return scoped

    def from_host(self, data: Any, shape: Shape, dtype: Any) -> Any:
        """Through a fresh NumPy array. NumPy lacks bfloat16, the upper half of a float32."""
        name = self._names[dtype]
        half = name == "bfloat16"
        array = np.array(np.frombuffer(data, "uint16" if half else name)).reshape(shape)
        with self.scope():
            if half:
                wide = (array.astype("uint32") << 16).view("float32")
                return self.xp.astype(self.xp.asarray(wide, device=self.place), dtype)
            return self.xp.asarray(array, dtype=dtype, device=self.place)

    def to_host(self, x: Any) -> bytes:
        """Through NumPy."""
        if self._names[x.dtype] != "bfloat16":
            return np.asarray(self._own.on_host(x)).tobytes()
        wide = np.asarray(self._own.on_host(self.xp.astype(x, self.dtypes["float32"])))
        return (np.ascontiguousarray(wide).view("uint32") >> 16).astype("uint16").tobytes()

    def compile(self, program: Program) -> Callable[..., Any]:
        """By the library's own compiler, where it has one; what that cannot trace runs as kernels in a row."""
        row = straight_line(program, self.kernel, partial(compose, backend=self), self.dtypes)
        if self._compiler is None:
            return row
        chosen: list[Callable[..., Any]] = [self._compiler(row)]

        def run(*handles: Any) -> Any:
            with self.scope():
                try:
                    return chosen[0](*handles)
                except Exception:
                    if chosen[0] is row:
                        raise
                    found = row(*handles)  # whose own errors are told; else the compiler's fault
                    chosen[0] = row
                    return found

        return run

    def shares_memory(self, x: Any, y: Any) -> bool:
        """Whether their spans overlap; of immutable arrays, no."""
        if self._own.span is None or x is y:
            return x is y
        (start, end), (other, other_end) = self._own.span(x), self._own.span(y)
        return start < other_end and other < end

    def assign(self, x: Any, values: Any, key: Key) -> bool:
        """Where views would see it. Values that overlap are copied first: in what order a library writes is its own."""
        if self._own.writable(x):
            if hasattr(values, "shape") and self.shares_memory(x, values):
                values = self.xp.asarray(values, copy=True)
            self._put(self.xp, x, values, key)
            return True
        return False


def _composed_at_zero(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A division that some libraries refuse for integers: the core's gives 0 there."""

    def divided(x: Any, y: Any) -> Any:
        try:
            return kernel(x, y)
        except (ZeroDivisionError, RuntimeError) as error:
            if "ZeroDivision" not in repr(error):
                raise
            return NotImplemented

    return divided
