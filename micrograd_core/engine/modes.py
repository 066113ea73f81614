"""Grad mode: whether what is computed is recorded, in this context and at each depth of `vmap`."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

from micrograd_core.support.context import during, grad_modes

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
