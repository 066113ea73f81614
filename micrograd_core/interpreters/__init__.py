"""Interpreters of the op table: what gradient rules and compositions call ``k``. What one must do says `table`.

`raw` computes on a device's handles, `floats` on Python's floats, `expressions` writes down what would be computed.
`compiler.specs` knows shapes and dtypes. Those that are made of tensors stand where tensors are:
`engine.apply.Recorded` records, `transforms.vmap.BatchTable` sees a batch as one more axis.
"""
