"""`Value`, micrograd's scalar: its rules and its sweep, long chains packed, `jit`, and the bridge to tensors."""

from __future__ import annotations

from typing import Any

HOMES = {"Value": "value", "max": "choices", "min": "choices"}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
