"""The book of opened devices, and the lock under which devices are opened and plugins loaded."""

from __future__ import annotations

from typing import Any, Final

from micrograd_core.support.locks import lock

OPENED: Final[dict[str, Any]] = {}
"""Each `Device` by every spelling used so far."""
REFUSED: Final[dict[str, Exception]] = {}
"""Why `Device.is_available` said no, by spelling."""
OPENING: Final = lock()
"""One for devices and for plugins: two would be taken in either order, since a plugin may open devices on import."""


def forget(name: str) -> None:
    """Forget a device: the next ``Device(name)`` opens it anew. Tensors on it stay usable.

    Parameters
    ----------
    name : str
        The name of the plugin, such as ``"cuda"``; all its devices are forgotten, and which could not be opened.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.Device.forget("abacus")
    """
    with OPENING:
        for spec in [spec for spec in OPENED if spec.partition(":")[0] == name]:
            del OPENED[spec]
        REFUSED.clear()
