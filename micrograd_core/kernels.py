"""The op table bound to one opened device: name → plain function on handles, resolved once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from micrograd_core.backend import member
from micrograd_core.dtypes import DTYPES, DType, pack
from micrograd_core.errors import UnsupportedDType, UnsupportedOp
from micrograd_core.layout import Shape
from micrograd_core.ops import CORE_KERNELS, TABLE, Op
from micrograd_core.ops.movement import requested

if TYPE_CHECKING:
    from micrograd_core.device import Device


class Kernels:
    """What gradient rules and compositions call ``k`` when they run on handles.

    ``k.add(x, y)`` is the device's own function, or the op table's composition from others. Beside the table there are
    the backend's members under their own names (`layout`, `to_host`, …), and the few helpers below.
    """

    device: Device
    depth = 0  # tables above this one, for tensors inside `vmap`, have a positive depth

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self._native = {DTYPES[name]: native for name, native in backend.dtypes.items()}
        self._core = {native: dtype for dtype, native in self._native.items()}
        self._ones: dict[DType, Any] = {}
        self._cached = lru_cache(maxsize=256)(self._constant)  # kernels never mutate an input

    def __getattr__(self, name: str) -> Any:
        """Reached on the first use of a name only: what is resolved here becomes an attribute."""
        if name in TABLE:
            function = self._bind(name)
        elif name.startswith("__"):
            raise AttributeError(name)
        else:
            function = member(self.backend, name)
        setattr(self, name, function)
        return function

    def _bind(self, name: str) -> Callable[..., Any]:
        op = TABLE[name]
        if not self.provides(op):
            why = f"it needs the capability {op.capability!r}, which the backend does not claim"
            raise UnsupportedOp(name, self.backend.device, because=why)
        kernel = self.backend.kernel(name)
        if kernel is None and op.compose is not None:
            return partial(op.compose, self)
        if kernel is None:
            raise UnsupportedOp(name, self.backend.device)
        if getattr(kernel, "declines", False):
            return self._either(kernel, op.compose)
        if op.result is not requested:
            return kernel  # type: ignore[no-any-return]

        def with_native_dtype(*operands: Any, dtype: Any, **params: Any) -> Any:
            return kernel(*operands, dtype=self.native(dtype), **params)

        return with_native_dtype

    def _either(self, kernel: Any, compose: Any) -> Callable[..., Any]:
        """A kernel that says ``NotImplemented`` to some dtypes, and the composition for those."""

        def either(*operands: Any, **params: Any) -> Any:
            result = kernel(*operands, **params)
            return compose(self, *operands, **params) if result is NotImplemented else result

        return either

    def provides(self, op: Op) -> bool:
        """Whether the backend claims the capability that an operation needs, if it needs one."""
        return not op.capability or op.capability in member(self.backend, "capabilities")

    @property
    def root(self) -> Kernels:
        """The table of the device itself, from that of any depth."""
        return self

    def beside(self, kernels: Kernels) -> Kernels:
        """The table of this depth on the device of `kernels`."""
        return kernels

    def is_native(self, name: str) -> bool:
        """Whether the device has a kernel of its own for an operation."""
        return name in CORE_KERNELS or (self.provides(TABLE[name]) and self.backend.kernel(name) is not None)

    def dtype(self, x: Any) -> DType:
        """The core dtype of a handle."""
        return self._core[x.dtype]

    def native(self, dtype: Any) -> Any:
        """The device's own dtype object for a core dtype; a native one is returned as it is.

        Raises
        ------
        UnsupportedDType
            When the device does not have it.
        """
        native = self._native.get(dtype)
        if native is not None:
            return native
        if isinstance(dtype, DType):
            raise UnsupportedDType(dtype.name, self.backend.device, self.backend.dtypes)
        return dtype

    def upload(self, data: Any, shape: Shape, dtype: DType) -> Any:
        """A fresh handle with the elements of C-order `data`."""
        return self.backend.from_host(data, shape, self.native(dtype))

    def constant(self, values: Any, shape: Shape, dtype: Any) -> Any:
        """A cached handle of a few numbers that compositions need (0-d fills, index ranges)."""
        return self._cached(values, shape, dtype, str(values))  # the text keeps -0.0 apart from 0.0

    def _constant(self, values: Any, shape: Shape, dtype: Any, text: str) -> Any:
        core = dtype if isinstance(dtype, DType) else self._core[dtype]
        return self.upload(pack(list(values), core), shape, core)

    def transfer(self, x: Any, *, source: Kernels, target: Kernels) -> Any:
        """Move a handle of `source` to `target`: the one operation that spans two devices."""
        dtype = source.dtype(x)
        if dtype not in target._native:
            raise UnsupportedDType(dtype.name, target.backend.device, target.backend.dtypes)
        return target.receive(x, source.backend)

    def one(self, dtype: DType) -> Any:
        """The 0-d handle of 1, where every sweep starts."""
        handle = self._ones.get(dtype)
        if handle is None:
            handle = self._ones[dtype] = self.upload(pack([1], dtype), (), dtype)
        return handle
