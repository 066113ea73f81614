"""The op table bound to one opened device: name → plain function on handles, resolved once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from types import FunctionType
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from micrograd_core.backend import member
from micrograd_core.compiler.program import operation
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.dtypes import DTYPES, DType, pack
from micrograd_core.errors import UnsupportedDType, UnsupportedOp
from micrograd_core.interpreters.guards import QUIET, Guard
from micrograd_core.layout import Shape
from micrograd_core.ops import CORE_KERNELS, TABLE, Op
from micrograd_core.ops.core.movement import requested
from micrograd_core.support.signatures import Parameters


def in_python(function: Any) -> bool:
    """Whether a function is written in Python, rather than a builtin or a ufunc, which have no way to decline."""
    function = getattr(function, "func", function)  # of a partial, which may be one of a method
    function = getattr(function, "__func__", function)
    return isinstance(function, FunctionType) or any(
        isinstance(vars(kind).get("__call__"), FunctionType) for kind in type(function).__mro__
    )


def compose(name: str, backend: Any) -> Callable[..., Any]:
    """The op table's composition of an operation, as a function on handles: for kernels that do a part themselves.

    Parameters
    ----------
    name : str
        An operation that has a composition: any but the core kernels, and what a capability stands for.
    backend : Backend
        The device whose kernels it is composed of.

    Raises
    ------
    KeyError
        When there is no such operation, or no composition of it.
    """
    composition = operation(name).compose
    if composition is None:
        raise KeyError(f"{name!r} has no composition: a device that has it has a kernel for it")

    def composed(*operands: Any, **params: Any) -> Any:
        kernels = Kernels.of(backend)
        if params.get("dtype") is not None:  # a step of a program gives the device's own
            params["dtype"] = kernels.core(params["dtype"])
        return composition(kernels, *operands, **params)

    return composed


def renew(backend: Any, names: Iterable[str]) -> None:
    """Have a device asked for some of its kernels anew, which has better ones by now."""
    kernels = Kernels.of(backend)
    for name in names:
        kernels._settled.pop(name, None)
        vars(kernels).pop(name, None)


class Kernels:
    """What gradient rules and compositions call ``k`` when they run on handles.

    ``k.add(x, y)`` is the device's own function, or the op table's composition from others. Beside the table there are
    the backend's members under their own names (`layout`, `to_host`, …), and the few helpers below.
    """

    device: Any  # the `Device` that stands for it
    depth = 0  # tables above this one, for tensors inside `vmap`, have a positive depth

    _of: ClassVar[WeakValueDictionary[int, Kernels]] = WeakValueDictionary()  # by the identity of their backend

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self._of.setdefault(id(backend), self)
        self._native = {DTYPES[name]: native for name, native in backend.dtypes.items()}
        self._core = {native: dtype for dtype, native in self._native.items()}
        self._met: dict[DType, Any] = {}
        self._settled: dict[str, Guard] = {}
        self.one = lru_cache(maxsize=None)(lambda dtype: self.upload(pack([1], dtype), (), dtype))
        """The 0-d handle of 1, where every sweep starts."""
        self._cached = lru_cache(maxsize=256)(self._constant)  # kernels never mutate an input

    @classmethod
    def of(cls, backend: Any) -> Kernels:
        """The table of a backend: that of its device, or a new one where it was never opened."""
        return cls._of.get(id(backend)) or cls(backend)

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
        found = kernel
        if op.result is requested:
            found = lambda *operands, dtype, **params: kernel(*operands, dtype=self.native(dtype), **params)  # noqa: E731
        may_decline = op.compose is not None and in_python(found)
        return Guard(op, found, self.either(op, found) if may_decline else found, self)

    def either(self, op: Op, kernel: Any) -> Callable[..., Any]:
        """A kernel, and the composition for calls to which it says ``NotImplemented``."""
        compose: Any = op.compose

        def either(*operands: Any, **params: Any) -> Any:
            result = kernel(*operands, **params)
            return compose(self, *operands, **params) if result is NotImplemented else result

        parameters, wanted = Parameters.of(kernel), Parameters.of(compose)
        if parameters is None or wanted is None or {*parameters.named(op.operands)} - {*wanted.named(op.operands + 1)}:
            return either  # the kernel takes more, such as ``out``
        given = parameters.given(op.operands)
        lines = f"_r = _kernel({given})", f"return _compose(_k, {given}) if _r is NotImplemented else _r"
        return parameters.function(lines, {"_kernel": kernel, "_compose": compose, "_k": self})

    def settle(self, guard: Guard) -> None:
        """Call a kernel without its guard from now on."""
        if vars(self).get(guard.op.name) is guard:  # no other has come in its place
            self._settled[guard.op.name] = guard
            setattr(self, guard.op.name, guard.settled)

    def _meet(self, dtype: DType) -> None:
        """A dtype is there for the first time: kernels may not know it, so all are looked at again."""
        self._met[dtype] = self._native[dtype]
        while self._settled:
            name, guard = self._settled.popitem()
            guard.left = QUIET
            setattr(self, name, guard)

    def core(self, dtype: Any) -> DType:
        """The core dtype of a native one; a core dtype as it is."""
        return dtype if isinstance(dtype, DType) else self._core[dtype]

    def spec(self, x: Any) -> TensorSpec:
        """Shape and core dtype of a handle."""
        dtype = self._core[x.dtype]
        if dtype not in self._met:
            self._meet(dtype)
        return TensorSpec(tuple(x.shape), dtype)

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

    def attempt(self, name: str, *operands: Any, **params: Any) -> Any:
        """What the device's own kernel gives; ``NotImplemented`` where there is none, or it declines."""
        kernel = self.backend.kernel(name)
        return NotImplemented if kernel is None else kernel(*operands, **params)

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
        if dtype in self._native:
            if dtype not in self._met:
                self._meet(dtype)
            return self._native[dtype]
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
        return self.upload(pack(list(values), core := self.core(dtype)), shape, core)

    def transfer(self, x: Any, *, source: Kernels, target: Kernels) -> Any:
        """Move a handle of `source` to `target`: the one operation that spans two devices."""
        target.native(source.dtype(x))  # refuses what the device lacks
        return target.receive(x, source.backend)
