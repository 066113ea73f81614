"""Grad mode: whether what is computed is recorded, in this context and at each depth of `vmap`."""

from __future__ import annotations

from typing import Any

from micrograd_core.ground.context import during, grad_modes

grad_mode = grad_modes.get


def is_grad_enabled() -> bool:
    """Whether what is computed from tensors that record is recorded, in this context."""
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


class _GradMode(during):
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
    """Within ``with no_grad():`` (or a function decorated by ``@no_grad``) nothing is recorded."""

    enabled = False


class enable_grad(_GradMode):  # noqa: N801
    """The opposite of `no_grad`, for use inside it."""

    enabled = True
