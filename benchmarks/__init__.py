"""Benchmarks: micrograd and its peers side by side, in one interleaved run. See README.md here.

`cases` says what is computed, `peers` by whom, `check` that they agree, `timing` how it is timed, `report` what is kept
and shown; `run` is the command.
"""
