"""The page kernels.md, which ``python docs/generate.py`` writes from the op table: what each kernel is called with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import operations
from signatures import kernel_signature

import micrograd_core as mg
from micrograd_core import Device, ops
from micrograd_core.array.documentation import RESULTS
from micrograd_core.dtypes import DTYPES, DType
from micrograd_core.ops import CORE_KERNELS, SAME, TABLE, Array, Op
from micrograd_core.ops.core.movement import requested

PAGE = Path(__file__).with_suffix(".md")

HEAD = """# Kernels

What a device's kernel for each operation is called with and what it returns, as `python docs/generate.py` writes it out
of the op table. [protocol.md](protocol.md#kernels) says what holds for all of them; those in bold are core, all others
may be left to the core's composition.

Operands come by position, parameters as the signature says. For each parameter there is what it may be, with an
example: *integer* alone is 0 or greater. *Given* are the kinds of dtype that reach the kernel, after what the core
converts; of several operands with different demands, each. *Returned* is the dtype of the result, and whether its
memory is its own. *Rules* says for which operands the core's gradient rule may hand on the cotangent itself, or a view
of it: a kernel never writes to an operand, so that nothing follows for it.
"""


def kind(value: Any) -> str:
    """What a canonical parameter is, in words."""
    if value is None:
        return "`None`"
    if isinstance(value, (bool, float, str, DType)):
        return {bool: "bool", float: "number", str: "one of"}.get(type(value), "dtype")
    if isinstance(value, int):
        return "integer" if value >= 0 else "negative integer"
    if isinstance(value, tuple):
        return _kind_of_entries(value)
    return "dtype"  # a device's own


def _kind_of_entries(entries: tuple[Any, ...]) -> str:
    if any(isinstance(each, slice) or each is None for each in entries):
        return "key"
    if any(isinstance(each, tuple) for each in entries):
        return "nested tuples"
    if any(isinstance(each, int) and each < 0 for each in entries):
        return "tuple of integers of either sign"
    return "tuple of integers"


def received(op: Op) -> Iterator[dict[str, Any]]:
    """The parameters that the kernel gets in each of the operation's samples."""
    if op.operands == 0:
        yield from created()[op.name]
    if op.parameters is None:
        return
    for sample in op.samples:
        operands = [
            mg.zeros(each.shape, dtype=each.dtype or "float32") if isinstance(each, Array) else each
            for each in sample.operands
        ]
        yield op.parameters(*operands, **sample.params)


@cache
def created() -> dict[str, list[dict[str, Any]]]:
    """What reaches the kernels of operations without operands, which have no samples: seen on the way to the CPU's."""
    kernels, seen = Device("cpu").kernels, {}
    names = [op.name for op in TABLE.values() if op.operands == 0]
    usual = {name: getattr(kernels, name) for name in names}

    def watched(name: str) -> Any:
        def watch(*given: Any, **params: Any) -> Any:
            first = kernel_signature(TABLE[name]).partition("(")[2].partition(",")[0]
            seen.setdefault(name, []).append({**({first: given[0]} if given else {}), **params})
            return usual[name](*given, **params)

        return watch

    for name in names:
        setattr(kernels, name, watched(name))
    try:
        mg.full((2, 3), 0.5), mg.full((), 7), mg.full((2,), True), mg.arange(4)
        TABLE["repeat"].compose(kernels, mg.zeros((3,))._handle, repeats=(2, 0, 1), axis=0)  # type: ignore[misc]
        with mg.random.use_generator(7):
            mg.random.uniform((2, 3)), mg.random.normal((2, 3)), mg.random.permutation(4)
            mg.random.randint((2,), 0, 9)
    finally:
        for name, function in usual.items():
            setattr(kernels, name, function)
    return seen


def parameters(op: Op) -> dict[str, dict[str, list[Any]]]:
    """For each parameter its kinds, each with the values that samples have."""
    found: dict[str, dict[str, list[Any]]] = {}
    for params in received(op):
        for name, value in params.items():
            what = "key" if name == "key" and isinstance(value, tuple) else kind(value)
            values = found.setdefault(name, {}).setdefault(what, [])
            if value not in values:
                values.append(value)
    return found


def described(op: Op) -> str:
    """The parameters in one cell of the table."""
    return "; ".join(
        f"`{name}`: {' or '.join(_example(op, what, values) for what, values in kinds.items())}"
        for name, kinds in parameters(op).items()
    )


def _example(op: Op, what: str, values: list[Any]) -> str:
    if what in ("`None`", "bool"):
        return what
    if what == "dtype":
        return "native dtype" if op.result is requested else f"the core's dtype, as `{_written(values[0])}`"
    if what == "one of":
        return "one of " + ", ".join(f"`{value!r}`" for value in values)
    longest = max(values, key=lambda value: len(value) if isinstance(value, tuple) else 0)
    return f"{what}, as `{_written(longest)}`"


def _written(value: Any) -> str:
    """As a reader would type it."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, slice):
        return ":".join("" if part is None else str(part) for part in (value.start, value.stop, value.step))
    if isinstance(value, tuple):
        return f"({', '.join(map(_written, value))}{',' * (len(value) == 1)})"
    return repr(value)


def given(op: Op) -> str:
    """The kinds of dtype that reach the kernel."""
    accepted = op.accepts if isinstance(op.accepts, tuple) else (op.accepts,)
    if op.operands == 0:
        return ""
    if op.cast is not None:
        accepted = tuple(
            frozenset(op.cast(each).kind for each in DTYPES.values() if each.kind in kinds) for kinds in accepted
        )
    names = [operations.KINDS.get(each, ", ".join(sorted(each))) for each in accepted]
    return names[0] if len(set(names)) == 1 else "; ".join(names)


def returned(op: Op) -> str:
    """Dtype and memory of the result."""
    if op.parts is not None:
        dtype = f"tuple ({', '.join(op.parts._fields)})"
    elif op.result is SAME:
        dtype = "same dtype"
    elif op.result is requested:
        dtype = "`dtype`"
    else:
        dtype = RESULTS.get(op.result, "`dtype`, or the same").removesuffix(" dtype")
    return f"{dtype}; {'a view, or fresh' if op.view else 'fresh'}"


def rules(op: Op) -> str:
    """Where gradient rules hand on memory."""
    aliased = op.gradient_aliases
    if not aliased:
        return ""
    positions = range(max(op.operands, 1)) if isinstance(aliased, range) else aliased
    named = kernel_signature(op).partition("(")[2].rstrip(")").split(", ")
    return "all" if op.operands == -1 else ", ".join(f"`{named[position]}`" for position in positions)


def row(op: Op) -> str:
    """One line of the table."""
    name = f"**`{kernel_signature(op)}`**" if op.name in CORE_KERNELS else f"`{kernel_signature(op)}`"
    note = " ".join(op.doc.split()).replace("``", "`")
    if op.undefined:
        what = op.undefined.partition(" (")[0].partition(":")[0]
        note += f" Raises an error whose class is called `LinAlgError` when {what}."
    if op.optional:
        names = kernel_signature(op).partition("(")[2].split(", ")[op.operands - len(op.optional) : op.operands]
        numbers = [f"`{name}` is the number {value}" for name, value in zip(names, op.optional, strict=True)]
        note += f" Where the user gives none, {' and '.join(numbers)}."
    if op.capability:
        note += f" Asked of who claims `{op.capability}`."
    cells = (name, described(op), given(op), returned(op), rules(op), note)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page() -> str:
    """The whole page, a section per module of `micrograd_core.ops`."""
    parts = [HEAD]
    for family in map(ops.family, ops.FAMILIES):
        title = (family.__doc__ or "").partition("\n")[0].rstrip(".").partition(". ")[0].partition(":")[0]
        parts += ["", f"## {title.replace('``', '`')}", ""]
        parts += ["| kernel | parameters | given | returned | rules | what it computes |", "|---|---|---|---|---|---|"]
        parts += map(row, family.OPS)
    return "\n".join(parts) + "\n"


def axes() -> str:
    """The kinds of `axis`, and the operations that take each: they are not one."""
    by_kinds: dict[str, list[str]] = {}
    for op in TABLE.values():
        if kinds := parameters(op).get("axis"):
            words = sorted(kinds, key=lambda what: (what == "`None`", what))
            by_kinds.setdefault(" or ".join(words), []).append(f"`{op.name}`")
    lines = ["| `axis` is | of the operations |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {kinds} | {', '.join(names)} |" for kinds, names in sorted(by_kinds.items()))])
