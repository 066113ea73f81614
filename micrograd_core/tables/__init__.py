"""Interpreters of the op table: what gradient rules and compositions call ``k``.

`raw` computes on a device's handles, `floats` on Python's floats, `expressions` writes down what would be computed.
`compiler.outlines` knows shapes and dtypes. Those that are made of tensors stand where tensors are:
`engine.apply.Recorded` records, `transforms.batching.BatchTable` sees a batch as one more axis.
"""
