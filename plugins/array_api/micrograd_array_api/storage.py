"""Storage: the backend itself, for any row of the table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from micrograd_array_api.kernels import put_forwards, stepping_back
from micrograd_array_api.namespaces import Namespace
from micrograd_core.adapters.array_api import ArrayAPIBackend, native_dtypes, put
from micrograd_core.layout import Key, Layout, Shape


class NamespaceBackend(ArrayAPIBackend):
    """One device of one array library; its arrays are the handles."""

    def __init__(self, own: Namespace, library: Any, xp: Any, device: str, place: Any) -> None:
        self._own = own
        self._scope = own.scope(library) if own.scope else None
        with (self._scope or nullcontext)():
            dtypes = {name: dtype for name, dtype in native_dtypes(xp, place).items() if name not in own.without}
        self._names = {dtype: name for name, dtype in dtypes.items()}
        self.capabilities = own.capabilities
        kernels = {} if own.steps_back else stepping_back(xp)
        super().__init__(xp, device, dtypes=dtypes, kernels=kernels, place=place)

    def kernel(self, op: str) -> Callable[..., Any] | None:
        """The namespace's function, in the scope that the library needs."""
        kernel, scope = super().kernel(op), self._scope
        if kernel is None or scope is None:
            return kernel

        def scoped(*operands: Any, **params: Any) -> Any:
            with scope():
                return kernel(*operands, **params)

        return scoped

    def from_host(self, data: Any, shape: Shape, dtype: Any) -> Any:
        """As the library takes bytes."""
        with (self._scope or nullcontext)():
            return self._own.upload(self.xp, data, shape, self._names[dtype], self.place)

    def to_host(self, x: Any) -> bytes:
        """As the library gives them."""
        return self._own.download(self.xp, x).tobytes()  # type: ignore[no-any-return]

    def layout(self, x: Any) -> Layout:
        """Where the library has strides; else as if it were contiguous."""
        return self._own.layout(x)

    def shares_memory(self, x: Any, y: Any) -> bool:
        """As far as the library has memory that can be written."""
        return self._own.shares_memory(x, y)

    def assign(self, x: Any, values: Any, key: Key) -> bool:
        """Where views would see it."""
        if not self._own.writable(x):
            return False
        (put if self._own.steps_back else put_forwards)(self.xp, x, values, key)
        return True
