"""What the array API standard asks of an array: its operators, its namespace, DLPack. `Tensor` inherits it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from micrograd_core.device import Device
from micrograd_core.engine.apply import apply_single, binary
from micrograd_core.engine.array import BaseTensor, refuse_leaf, storage
from micrograd_core.engine.write import write
from micrograd_core.errors import GraphError, UnsupportedOp
from micrograd_core.ops import TABLE, Op

if TYPE_CHECKING:
    from micrograd_core.array.tensor import Tensor

VERSION: Final = "2025.12"
VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

# ── methods made from the op table ───────────────────────────────────────────────────────────────────────────


def seldom(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator and its reflection, as `binary` makes them; their family is imported when one is first used."""
    made = cache(partial(binary, name))
    return lambda x, y: made()[0](x, y), lambda x, y: made()[1](x, y)


def augmented(operator: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """An operator such as ``x += y``: ``x[...] = x + y``, by the rules of `write`."""

    def method(x: Tensor, y: Any) -> Any:
        refuse_leaf(x)
        if (result := operator(x, y)) is NotImplemented:
            return result
        write(x, ..., result, y)
        return x

    return method


def unary(name: str) -> Callable[[Any], Tensor]:
    """A method without parameters."""
    op: Op | None = None

    def method(x: Tensor) -> Tensor:
        nonlocal op
        op = op or TABLE[name]  # whose family is imported here
        return apply_single(op, x)

    method.__name__, method.__doc__ = name, f"``mg.{name}(x)``, with `mg` for `micrograd_core`."
    return method


# ── the class ────────────────────────────────────────────────────────────────────────────────────────────────


class Operators(BaseTensor):
    """Operators from the op table, and the doors to other libraries."""

    __slots__ = ()

    __add__, __radd__ = binary("add")
    __sub__, __rsub__ = binary("subtract")
    __mul__, __rmul__ = binary("multiply")
    __truediv__, __rtruediv__ = binary("divide")
    __floordiv__, __rfloordiv__ = seldom("floor_divide")
    __mod__, __rmod__ = seldom("remainder")
    __pow__, __rpow__ = binary("pow")
    __matmul__, __rmatmul__ = binary("matmul")
    __and__, __rand__ = binary("bitwise_and")
    __or__, __ror__ = binary("bitwise_or")
    __xor__, __rxor__ = binary("bitwise_xor")
    __lshift__, __rlshift__ = seldom("bitwise_left_shift")
    __rshift__, __rrshift__ = seldom("bitwise_right_shift")
    __lt__, __gt__ = binary("less")[0], binary("greater")[0]
    __le__, __ge__ = binary("less_equal")[0], binary("greater_equal")[0]
    __eq__, __ne__ = binary("equal")[0], binary("not_equal")[0]
    __hash__ = object.__hash__
    __neg__ = unary("negative")
    __pos__ = unary("positive")
    __abs__ = unary("abs")
    __invert__ = unary("bitwise_invert")

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        if api_version is not None and api_version not in VERSIONS:
            raise ValueError(f"micrograd_core follows the array API {', '.join(VERSIONS)}; not {api_version!r}")
        return sys.modules[__name__.partition(".")[0]]

    def to_device(self: Any, device: str | Device, /, *, stream: Any = None) -> Any:
        """Copy to another device, as the array API spells `Tensor.to`.

        Parameters
        ----------
        device : Device or str
            Where the copy is.
        stream : None
            Streams are not supported.

        Returns
        -------
        Tensor
            This tensor itself if it is there already.

        Raises
        ------
        ValueError
            When a stream is given.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.zeros(2).to_device("cpu").device
        Device('cpu')
        """
        if stream is not None:
            raise ValueError("to_device: tensors have no streams; leave stream=None")
        return self.to(device)

    def __dlpack_device__(self: Any) -> tuple[int, int]:
        kind, index = self._exported().__dlpack_device__()
        return int(kind), index

    def __dlpack__(
        self: Any, *, stream: Any = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        if self.requires_grad:
            raise GraphError("this tensor records gradients, which DLPack cannot carry; export x.detach()")
        handle, own = self._exported(), self.__dlpack_device__()
        if dl_device is None or (int(dl_device[0]), dl_device[1]) == own:
            if copy:  # which not every library does itself
                handle, copy = self._kernels.copy(handle), None
            else:
                storage(self).exported = True
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


for _name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
    setattr(Operators, f"__i{_name}__", augmented(getattr(Operators, f"__{_name}__")))
