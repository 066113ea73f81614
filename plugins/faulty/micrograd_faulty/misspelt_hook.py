"""A plugin whose hook asks for an argument that does not exist."""

from __future__ import annotations

from typing import Any

from micrograd_core.plugins import hookimpl


@hookimpl
def micrograd_open(adress: str) -> Any:
    """Never called: the misspelling is found before."""
