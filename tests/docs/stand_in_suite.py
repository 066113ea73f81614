"""A pytest plugin that leaves the conformance suite the cases of two operations, where a page's reader runs all."""

from micrograd_core.ops import TABLE

for op in TABLE.values():
    if op.name not in ("copy", "exp"):
        op.samples = ()
