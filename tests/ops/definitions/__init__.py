"""What operations are, in NumPy and independent of every kernel: of those whose record leaves it to the composition."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from micrograd_core.ops import Op
from micrograd_core.ops.record import COMPLEX

DEFINITIONS: Final[dict[str, Callable[..., Any]]] = {
    name: definition
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py"))
    for name, definition in import_module(f"{__name__}.{path.stem}").DEFINITIONS.items()
}


def needs_complex(op: Op) -> bool:
    """Whether operands or results are complex whatever the dtypes: on many devices that is not to be had."""
    return op.accepts == COMPLEX or op.capability == "complex"


def defined(op: Op, *arrays: Any, **params: Any) -> Any:
    """The result, or results, by the definition here, by that of the record, or by NumPy's function of that name."""
    return partial(DEFINITIONS.get(op.name, op.reference), np)(*arrays, **params)
