"""What the array API standard asks of an array: its operators, its namespace, DLPack. `Tensor` inherits it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from micrograd_core.device import Device
from micrograd_core.engine.apply import apply_single, binary
from micrograd_core.engine.array import BaseTensor, refuse_leaf
from micrograd_core.engine.write import write
from micrograd_core.errors import GraphError, UnsupportedOp
from micrograd_core.ops import TABLE

if TYPE_CHECKING:
    from micrograd_core.array.tensor import Tensor

VERSION: Final = "2025.12"
VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

# ── methods made from the op table ───────────────────────────────────────────────────────────────────────────


def augmented(name: str) -> Callable[[Any, Any], Any]:
    """An operator such as ``x += y``: ``x[...] = x + y``, by the rules of `write`."""
    operator, _ = binary(name)

    def method(x: Tensor, y: Any) -> Any:
        refuse_leaf(x)
        if (result := operator(x, y)) is NotImplemented:
            return result
        write(x, ..., result, y)
        return x

    return method


def unary(name: str) -> Callable[[Any], Tensor]:
    """A method without parameters."""
    op = TABLE[name]

    def method(x: Tensor) -> Tensor:
        return apply_single(op, x)

    method.__name__, method.__doc__ = name, op.doc
    return method


# ── the class ────────────────────────────────────────────────────────────────────────────────────────────────


class Operators(BaseTensor):
    """Operators from the op table, and the doors to other libraries."""

    __slots__ = ()

    __add__, __radd__ = binary("add")
    __sub__, __rsub__ = binary("subtract")
    __mul__, __rmul__ = binary("multiply")
    __truediv__, __rtruediv__ = binary("divide")
    __floordiv__, __rfloordiv__ = binary("floor_divide")
    __mod__, __rmod__ = binary("remainder")
    __pow__, __rpow__ = binary("pow")
    __matmul__, __rmatmul__ = binary("matmul")
    __and__, __rand__ = binary("bitwise_and")
    __or__, __ror__ = binary("bitwise_or")
    __xor__, __rxor__ = binary("bitwise_xor")
    __lshift__, __rlshift__ = binary("bitwise_left_shift")
    __rshift__, __rrshift__ = binary("bitwise_right_shift")
    __lt__, __gt__ = binary("less")[0], binary("greater")[0]
    __le__, __ge__ = binary("less_equal")[0], binary("greater_equal")[0]
    __eq__ = binary("equal")[0]
    __ne__ = binary("not_equal")[0]
    __hash__ = object.__hash__
    __iadd__ = augmented("add")
    __isub__ = augmented("subtract")
    __imul__ = augmented("multiply")
    __itruediv__ = augmented("divide")
    __ifloordiv__ = augmented("floor_divide")
    __imod__ = augmented("remainder")
    __ipow__ = augmented("pow")
    __imatmul__ = augmented("matmul")
    __iand__ = augmented("bitwise_and")
    __ior__ = augmented("bitwise_or")
    __ixor__ = augmented("bitwise_xor")
    __ilshift__ = augmented("bitwise_left_shift")
    __irshift__ = augmented("bitwise_right_shift")
    __neg__ = unary("negative")
    __pos__ = unary("positive")
    __abs__ = unary("abs")
    __invert__ = unary("bitwise_invert")

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        if api_version is not None and api_version not in VERSIONS:
            raise ValueError(f"micrograd_core follows the array API {', '.join(VERSIONS)}; not {api_version!r}")
        return sys.modules[__name__.partition(".")[0]]

    def to_device(self: Any, device: str | Device, /, *, stream: Any = None) -> Any:
        """`Tensor.to`, as the array API spells it. Streams are not supported."""
        if stream is not None:
            raise ValueError("to_device: tensors have no streams; leave stream=None")
        return self.to(device)

    def __dlpack_device__(self: Any) -> tuple[int, int]:
        kind, index = self._exported().__dlpack_device__()
        return int(kind), index

    def __dlpack__(
        self: Any,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if self.requires_grad:
            raise GraphError("this tensor records gradients, which DLPack cannot carry; export x.detach()")
        handle, own = self._exported(), self.__dlpack_device__()
        if dl_device is None or (int(dl_device[0]), dl_device[1]) == own:
            if copy:  # which not every library does itself
                handle, copy = self._kernels.copy(handle), None
        elif copy is False:
            raise BufferError(f"memory of {self.device} cannot be seen from another device without a copy")
        options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return handle.__dlpack__(**{name: value for name, value in options.items() if value is not None})

    def _exported(self: Any) -> Any:
        """The handle, as something with DLPack's methods."""
        if "dlpack" not in self.device.capabilities:
            raise UnsupportedOp("DLPack", str(self.device), because="its backend does not export memory")
        if not hasattr(self._handle, "__dlpack__"):  # NumPy's scalars, which are nobody's memory
            self._handle = self._kernels.copy(self._handle)
        return self.device.kernels.to_dlpack(self._handle)
