"""What follows when a kernel did not end as it should: it wanted to warn, and is called again; or it failed."""

from __future__ import annotations

from typing import Any

from micrograd_core.engine.explain import explain
from micrograd_core.ground.warning import unless_withheld
from micrograd_core.ops import Op


def after(error: Exception, op: Op, kernels: Any, operands: Any, handles: Any, params: dict[str, Any]) -> Any:
    """What a kernel gives that failed only as its warning was withheld; else raise the error that says why."""
    try:
        return unless_withheld(error, kernels, op.name, handles, params)
    except Exception as found:
        raise explain(op, kernels, operands, params, found)
    finally:
        del error  # it leads here, and to all operands
