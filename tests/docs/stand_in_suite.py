"""A pytest plugin that leaves the conformance suite few operations, where a page's reader runs all.

They are ``copy`` and ``exp``; with STAND_IN_EVERY=4 every fourth operation of the table.
"""

import os

from micrograd_core.ops import TABLE

every = int(os.environ.get("STAND_IN_EVERY", "0"))
for number, op in enumerate(TABLE.values()):
    if number % every if every else op.name not in ("copy", "exp"):
        op.samples = ()
