"""The op table: one record per operation, and no other list of operations anywhere. See `micrograd_core.ops.record`.

`core` is what an evening's reading takes: elementwise arithmetic, shapes, reductions, matrix products. `standard` is
what else the array API has, `linalg` its extension of that name and products beyond `matmul`, `network` what networks
are made of. Beside the packages stand the record itself, what records share, and the usual tangents.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any, Final

from micrograd_core.ops.record import CORE_KERNELS, SAME, Array, Op, Rule, Sample

FAMILIES = tuple(
    "core.elementwise core.movement core.reductions core.matmul standard.rounding standard.transcendental "
    "standard.complex standard.arrangement standard.indexing standard.sorting linalg.products linalg.matrices "
    "linalg.norms standard.fft standard.random network.activations network.softmax network.normalization "
    "network.patches network.convolution network.dropout network.attention network.recurrent network.losses "
    "standard.construction standard.special standard.elementary standard.scans network.piecewise standard.selection "
    "standard.statistics network.resampling network.shuffling network.windows network.groups network.margins "
    "network.bags".split()
)
"""The modules that have operations, in the order of the documentation. The engine needs the first four."""


def family(name: str) -> Any:
    """The module of a family, whose `OPS` are its operations."""
    return import_module(f"{__name__}.{name}")


class OpTable(MutableMapping[str, Op]):
    """Operations by name. Looking one up imports families, in their order, until one has it."""

    def __init__(self) -> None:
        self._known: dict[str, Op] = {}
        self._waiting = FAMILIES

    def _import(self, name: str) -> None:
        """Import a family, as another thread may do at the same time."""
        self._known.update((op.name, op) for op in family(name).OPS)
        self._waiting = tuple(each for each in self._waiting if each != name)

    def __getitem__(self, name: str) -> Op:
        while name not in self._known and (waiting := self._waiting):
            self._import(waiting[0])
        return self._known[name]

    def __setitem__(self, name: str, op: Op) -> None:
        self._known[name] = op

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        while waiting := self._waiting:
            self._import(waiting[0])
        return iter(self._known)

    def __len__(self) -> int:
        return sum(1 for _ in self)


TABLE: Final = OpTable()


def rules(name: str) -> tuple[Rule, ...]:
    """The gradient rules of an operation that is differentiable in all operands, one each."""
    return tuple(rule for rule in TABLE[name].gradient if rule is not None)


__all__ = ["CORE_KERNELS", "FAMILIES", "SAME", "TABLE", "Array", "Op", "Rule", "Sample", "family", "rules"]
