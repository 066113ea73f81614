"""A pytest plugin that leaves the conformance suite few operations, where a page's reader runs all.

They are ``copy``, ``exp`` and ``sum``; with STAND_IN_EVERY=8 every eighth operation of the table.
"""

import os

from micrograd_core.conformance import forms
from micrograd_core.ops import TABLE

every = int(os.environ.get("STAND_IN_EVERY", "0"))
kept = set([*TABLE][::every]) if every else {"copy", "exp", "sum"}
for op in TABLE.values():
    if op.name not in kept:
        op.samples = ()
for names in (forms.ELEMENTWISE, forms.REDUCTIONS):
    names[:] = [name for name in names if name in kept]
for name in [*forms.MOVED]:
    if name not in kept:
        del forms.MOVED[name]
