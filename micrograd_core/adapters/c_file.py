"""A program as lines of C that need no Python: it runs on a device that writes down what it would launch.

Nests are loops, and templates, products aside, are those of every compiled device. Memory is freed after its last use.
What every file has is in ``c_file.txt``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from string import Template
from typing import Any, Final

from micrograd_core.adapters import templates
from micrograd_core.adapters.compiled import CompiledBackend
from micrograd_core.adapters.strided import Strided
from micrograd_core.compiler.languages import C
from micrograd_core.compiler.lengths import Length, actual
from micrograd_core.compiler.nests import Nest, Place
from micrograd_core.compiler.program import Program, short
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.compiler.text import Given, Printer
from micrograd_core.dtypes import DType, unpack
from micrograd_core.errors import ProgramError
from micrograd_core.layout import Layout, broadcast_shapes
from micrograd_core.ops import TABLE

FILE: Final = Template(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))


class LoopPrinter(Printer):
    """Prints a nest as loops over its axes, with the numbers of one launch; buffers begin with their first elements."""

    def __init__(self, nest: Nest, integers: Sequence[int], lengths: Sequence[int]) -> None:
        super().__init__(nest, C, 0)
        self.known = integers, lengths

    def integer(self, x: Any) -> str:
        """A length, a stride or an offset."""
        integers, lengths = self.known
        return str(actual(x, lengths) if isinstance(x, Length) else integers[x.position] if isinstance(x, Given) else x)

    def place(self, buffer: int | None, place: Place) -> str:
        """Where an element lies in its buffer."""
        return super().place(None, place)

    def counters(self, unit: str, first: int, lengths: Sequence[Any]) -> None:
        """A loop for each axis."""
        self.lines += _loops([*map(self.integer, lengths)])


def _loops(lengths: Sequence[Any]) -> list[str]:
    return [f"for (long c{i} = 0; c{i} < {n}; c{i}++) {{" for i, n in enumerate(lengths)]


class CFile(CompiledBackend):
    """Buffers are names. `functions` and `lines` are what was written down, `live` the buffers that are to be freed."""

    language, threads = C, 1

    def __init__(self) -> None:
        super().__init__("c:0")
        self.functions, self.lines, self.live = dict[str, str](), list[str](), dict[str, DType]()
        self.kernels["matmul"], self._count, self._pool = self.matmul, 0, self

    def take(self, count: int, dtype: DType, size: int) -> str:
        """A name."""
        name, self._count = f"b{self._count}", self._count + 1
        self.live[name] = dtype
        self.lines.append(f"NEW({C.types[dtype.name]}, {name}, {size})")
        return name

    def give(self, count: int, dtype: DType, size: int, buffer: str) -> None:
        """After the last use."""
        del self.live[buffer]
        self.lines.append(f"free({buffer});")

    def write(self, buffer: str, data: Any) -> None:
        """A constant."""
        dtype, size = self.live[buffer], memoryview(data).nbytes
        numbers = ", ".join([C.number(x, dtype) for x in unpack(data, dtype)])
        self.lines.append(f"memcpy({buffer}, (const {C.types[dtype.name]}[]){{{numbers}}}, {size});")

    def read_range(self, buffer: str, start: int, end: int) -> Any:
        """There are no numbers yet."""
        raise LookupError("what the host computes of the device's numbers")

    def _on_host(self, asked: str, op: str, out: Strided, operands: list[Any]) -> None:
        raise LookupError(f"{op!r} of such {out.dtype}")

    def run(self, key: Hashable, nest: Callable[[], Nest], units: int, integers: Sequence[int],
            handles: Sequence[Any], lengths: Sequence[int] = (), text: Any = None) -> None:  # fmt: skip
        """A call of a function, which is printed where there is none such."""
        made, numbers = nest(), [*(0 for _ in handles), *integers]
        given = [(i, x) for i, x in enumerate(made.buffers) if x.role != "scratch"]
        types = [f"{'const ' * (x.role == 'in')}{C.types[x.dtype.name]} *restrict p{i}" for i, x in given]
        if text is None:
            body = LoopPrinter(made, numbers, lengths).body() + "\n" + "}" * len(made.kept)
        else:
            places = ", ".join(f"at{i} = 0" for i, _ in given)
            known = f"static const long m[] = {{{', '.join(map(str, numbers))}}}; const long {places};"
            body = f"{known}\nfor (long u = 0; u < {units}; u++) {{\n{text()}\n}}"
        function = f"({', '.join(types)}) {{\n{body}\n}}\n"
        name = self.functions.setdefault(function, f"f{len(self.functions)}")
        self.lines.append(f"{name}({', '.join(f'{x.buffer or 0} + {x.layout.offset}' for x in handles)});")

    def matmul(self, x: Strided, y: Strided) -> Any:
        """By lines that may call a BLAS; integers and vectors by a template."""
        if x.dtype is not y.dtype or not x.dtype.is_floating or 1 in (len(x.shape), len(y.shape)) or 0 in x.shape:
            return templates.matmul(self, x, y)
        batch, (m, k), n = broadcast_shapes("matmul", x.shape[:-2], y.shape[:-2]), x.shape[-2:], y.shape[-1]
        terms, given = [], [self.empty((*batch, m, n), x.dtype), self._contiguous(x), self._contiguous(y)]
        for each in given:
            lead = each.layout.broadcast_to((*batch, *each.shape[-2:])).strides[:-2]
            at = [str(each.layout.offset), *(f"{step} * c{i}" for i, step in enumerate(lead) if step)]
            terms.append(f"{each.buffer}[{' + '.join(at)}]")
        line = f"PRODUCT({C.types[x.dtype.name]}, {m}, {k}, {n}, {', '.join(terms)})"
        self.lines += [*_loops(batch), line, "}" * len(batch)] if given[0].layout.size else []
        return given[0]


def size_of(type: TensorSpec) -> int:
    """The bytes of an array."""
    return math.prod(type.shape) * type.dtype.itemsize


def code(program: Program) -> tuple[list[str], list[str], list[str], list[str]]:
    """Functions; lines that compute from the inputs ``v0``, ``v1``, …; where outputs are; what is to be freed then.

    Raises
    ------
    ProgramError
        For what there is no C for.
    """
    types, device, made = program.types, CFile(), ""
    for x in types:
        if x.dtype.name not in C.types:
            raise ProgramError(f"export: C has no {x.dtype}, and the program {short(x)}; compute in float32 or float64")
    given = [Strided(f"v{i}", Layout.contiguous(x.shape), x.dtype) for i, x in enumerate(types[: program.inputs])]
    for step, numbers in program.numbered():
        if device.kernel(step.op) is None and TABLE[step.op].compose is None:
            made = f"{step.op!r}, which makes {', '.join(short(types[n]) for n in numbers)}"
    try:
        found = device.compile(program)(*given)
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        made = made or str(error)
        raise ProgramError(f"export: there is no C for {made}; compute it outside of the function") from error
    owned = {x.buffer for x in given}  # state may be overwritten before an output is read
    kept = [
        x if x.layout == Layout.contiguous(x.shape) and x.buffer not in owned else device.kernels["copy"](x)
        for x in found
    ]
    functions = [f"static void {name}{function}" for function, name in device.functions.items()]
    return functions, [*device.lines], [str(x.buffer or "out") for x in kept], [*device.live]
