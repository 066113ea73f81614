"""Running reductions that the standard lacks: extremes and where they are, and ``logsumexp``.

Each takes ``log2(n)`` steps, in which every element is combined with the one 1, 2, 4, … before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from micrograd_core.ops.core.reductions import prefixes
from micrograd_core.ops.record import FLOATING, REAL, SAME, Array, Handle, Op, Sample, Table
from micrograd_core.ops.shared import in_float32, positions, to_int64
from micrograd_core.ops.tangents import zero


class Extremes(NamedTuple):
    """The extremes of the first 1, 2, … elements, and where they are: of equal ones the last."""

    values: Any
    indices: Any


def _extremes(name: str, which: str, beaten: str) -> Op:
    def compose(k: Table, x: Handle, *, axis: int = 0) -> Any:
        def combine(own: Handle, at: Handle, old: Handle, before: Handle) -> tuple[Any, Any]:
            holds = getattr(k, beaten)(old, own)
            if k.dtype(own).is_floating:  # NaN holds against numbers, and numbers not against it
                holds = k.logical_or(k.isnan(own), k.logical_and(holds, k.logical_not(k.isnan(old))))
            return k.where(holds, own, old), k.where(holds, at, before)

        return prefixes(k, combine, axis, x, k.broadcast_to(positions(k, x, axis), shape=x.shape))

    return Op(
        name,
        f"The {which} of the first 1, 2, … elements along `axis`, and where it is: of equal ones the last.",
        accepts=REAL,
        parts=Extremes,
        result=(SAME, to_int64),
        shape=lambda x, *, axis: (x.shape, x.shape),
        gradient=(lambda k, g, out, x, *, axis: k.add_along_axis(zero(k, x), out[1], g[0], axis=axis),),
        compose=compose,
        samples=(Sample((2, 5), axis=1), Sample(Array((4, 2), 0, 3, "int64"))),
    )


@in_float32
def _logcumsumexp(k: Table, x: Handle, *, axis: int = 0) -> Any:
    return prefixes(k, lambda later, earlier: (k.logaddexp(later, earlier),), axis, x)[0]


OPS = (
    _extremes("cummax", "greatest", "less_equal"),
    _extremes("cummin", "least", "greater_equal"),
    Op(
        "logcumsumexp",
        "``log(cumsum(exp(x)))`` along `axis`, without overflow.",
        accepts=FLOATING,
        autocast="float32",
        compose=_logcumsumexp,
        samples=(Sample((2, 5), axis=-1), Sample((2, 1))),
    ),
)
