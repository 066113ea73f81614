"""Interpreters of the op table: what gradient rules and compositions call ``k``. What one must do says `table`.

`raw` computes on a device's handles, `floats` on Python's floats, `expressions` writes down what would be computed.
`compiler.specs` knows shapes and dtypes. Those that are made of tensors stand where tensors are:
`engine.apply.Recorded` records, `transforms.vmap.BatchTable` sees a batch as one more axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from micrograd_core.engine.apply import Recorded
    from micrograd_core.interpreters.expressions import Expressions
    from micrograd_core.interpreters.floats import Floats
    from micrograd_core.interpreters.raw import Kernels
    from micrograd_core.ops.record import Table
    from micrograd_core.transforms.vmap import BatchTable

    def interpreters(a: Kernels, b: Recorded, c: BatchTable, d: Floats, e: Expressions) -> tuple[Table, ...]:
        """All there are, for the type checker to hold against `Table`."""
        return a, b, c, d, e
