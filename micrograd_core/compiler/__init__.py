"""Programs: what a function computes, as flat steps over numbered values whose shapes and dtypes are known.

`program` is the representation, which `Backend.compile` is given; `builder` writes one while a function is traced;
`specs` knows shapes and dtypes; `python` prints a program of scalars. For backends that compile, `passes` makes a
program simpler, `writer` is what they write with, `fusion` takes it apart into kernel calls and loop nests, which
`assembly` puts together, and `nests` says what one is. `text` prints them in one of the `languages`, `packs` for GPUs.
With symbolic `lengths`, one serves all sizes.
"""
