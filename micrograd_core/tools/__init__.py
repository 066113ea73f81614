"""The command ``micrograd``: the doctor, a new backend's scaffold, training; and `load_predictor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from micrograd_core.tools.using.trained import Predictor, load_predictor

__all__ = ["Predictor", "load_predictor"]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Late, so that ``micrograd --help`` imports nothing that trains."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from micrograd_core.tools.using import trained

        return getattr(trained, name)
