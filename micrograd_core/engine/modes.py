"""The modes of this context: whether operations record, at each depth of `vmap`; and `autocast`, a half type for some.

What `autocast` does with each operation says the record, `Op.autocast`. Most take their operands as they come: where a
half type meets float32, promotion makes it float32. Parameters stay as they are, float32 as a rule: what is cast is the
copy that an operation takes, the cast is recorded, and gradients arrive in the parameter's own dtype. These float32
"master weights" are what the optimiser moves.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import Any, Final

from micrograd_core.dtypes import DType, bfloat16, dtype as as_dtype, float16, float32
from micrograd_core.errors import DTypeError
from micrograd_core.ops.record import HALF, Op
from micrograd_core.support.context import during, grad_modes, half_types

grad_mode = grad_modes.get


def is_grad_enabled() -> bool:
    """Whether operations on tensors that require gradients are recorded, in this context.

    Returns
    -------
    bool

    Examples
    --------
    >>> import micrograd_core as mg
    >>> with mg.no_grad():
    ...     print(mg.is_grad_enabled())
    False
    """
    mode = grad_mode()
    return mode if mode.__class__ is bool else mode[-1]


def records_at(depth: int) -> bool:
    """Whether operations on tensors of this depth of `vmap` are recorded."""
    mode = grad_mode()
    return mode if mode.__class__ is bool else mode[min(depth, len(mode) - 1)]


def recording(enabled: bool, depth: int) -> during:
    """Within ``with recording(enabled, depth):`` operations of that depth are recorded or not; below it as before."""
    mode = grad_mode()
    modes = (mode,) if mode.__class__ is bool else mode
    modes += modes[-1:] * (depth + 1 - len(modes))
    modes = (*modes[:depth], enabled, *modes[depth + 1 :])
    return during(grad_modes, enabled if all(each is enabled for each in modes) else modes)


_SUSPENDS = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


class _NotCalled(ABCMeta):
    """The class of grad modes: ``with no_grad:`` says what to type."""

    def __enter__(cls, *error: object) -> None:
        raise TypeError(f"write `with {cls.__name__}():`, with brackets")

    __exit__ = __enter__


class _GradMode(during, metaclass=_NotCalled):
    """Sets the grad mode of this context, at all depths; threads and asyncio tasks do not see each other's."""

    enabled: bool

    def __new__(cls, function: Any = None) -> Any:
        mode = super().__new__(cls)
        if function is None:
            return mode
        mode.__init__()  # type: ignore[misc]
        return mode(function)  # used as a decorator without parentheses

    def __init__(self) -> None:
        super().__init__(grad_modes, self.enabled)

    def __call__(self, function: Any) -> Any:
        """Decorate a function."""
        if function.__code__.co_flags & _SUSPENDS:
            raise TypeError(
                f"{type(self).__name__}: {function.__name__} is a generator or a coroutine, which a decorator does not "
                f"cover; write `with {type(self).__name__}():` inside it"
            )
        return super().__call__(function)


class no_grad(_GradMode):  # noqa: N801
    """Record nothing within ``with no_grad():``, or in a function decorated with ``@no_grad``.

    Only this context is meant: threads and asyncio tasks do not see each other's grad mode.

    Parameters
    ----------
    function : function, optional
        To decorate, where it is used as ``@no_grad``. Generators and coroutines are refused with TypeError.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([1.0, 2.0])
    >>> with mg.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    enabled = False


class enable_grad(_GradMode):  # noqa: N801
    """Record operations again within ``with enable_grad():``, inside a `no_grad` block.

    Parameters
    ----------
    function : function, optional
        To decorate, where it is used as ``@enable_grad``. Generators and coroutines are refused with TypeError.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([1.0, 2.0])
    >>> with mg.no_grad(), mg.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    enabled = True


autocast_dtype = half_types.get
"""The half type of this context, or None."""
contexts: Final[list[bool]] = []
"""Not empty once there was any `autocast`. Until then operations do not look at what to cast: it costs nothing."""


class autocast(during):  # noqa: N801
    """Within ``with autocast("float16"):`` operations compute in the dtype that their records say.

    Only this context is meant: threads and asyncio tasks do not see each other's. `backward` may run outside: the
    casts are part of the record.

    Parameters
    ----------
    half, dtype : DType or str
        By position or by name: ``float16`` (10 bits of mantissa; needs a `GradScaler`) or ``bfloat16`` (7 bits, the
        range of float32).
    enabled : bool
        ``False`` switches an outer ``autocast`` off.

    Raises
    ------
    DTypeError
        For a dtype that is neither.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((2, 3))
    >>> with mg.autocast("float16"):
    ...     y = x @ x.mT
    >>> y.dtype
    micrograd_core.float16
    """

    def __init__(self, half: Any = "float16", /, *, dtype: Any = None, enabled: bool = True) -> None:
        if isinstance(half, str) and half.partition(":")[0] in ("cpu", "cuda"):
            raise TypeError(f"autocast casts on every device: write autocast('{as_dtype(dtype or 'bfloat16')}')")
        chosen = as_dtype(half if dtype is None else dtype)
        if chosen not in (float16, bfloat16):
            raise DTypeError(f"autocast: the dtype is float16 or bfloat16; got {chosen}")
        self.dtype = chosen if enabled else None
        super().__init__(half_types, self.dtype)
        contexts[:] = [True]


def suspended() -> during:
    """Nothing is cast inside: what an operation or a gradient rule computes has the dtypes it was begun with."""
    return during(half_types, None)


def cast_to(op: Op) -> DType | None:
    """What float16, bfloat16 and float32 operands of an operation are cast to in this context, by its record."""
    half = half_types.get()
    if half is None or not op.autocast:
        return None
    return half if op.autocast == HALF else float32
