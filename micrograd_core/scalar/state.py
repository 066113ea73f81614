"""How a compiled function of Values reads and writes them: one by one in Python, or whole matrices for machine code."""

from __future__ import annotations

from typing import Any

from micrograd_core.compiler.builder import INPUT
from micrograd_core.compiler.program import Ref
from micrograd_core.compiler.python import name
from micrograd_core.dtypes import float64
from micrograd_core.scalar.parameters import Matrix, Parameter


class State:
    """How the compiled function reads and writes values: as lines of Python, and the names they use."""

    def __init__(self, trace: Any, single: bool) -> None:
        self.k, self.single = trace.k, single
        self.names: dict[str, Any] = {}
        self._named: dict[int, str] = {}
        assigned = {"_data": trace.written, "_grad": trace.slopes}
        self.writes = [  # to an argument, or to a value that is kept
            (slot, value if at is None else None, at, x)
            for slot in assigned for value, x in assigned[slot].values() for at in [trace.position(value)]
        ]  # fmt: skip
        self.written = [x for *_, x in self.writes]

    def _name(self, thing: Any) -> str:
        if id(thing) not in self._named:
            self._named[id(thing)] = f"v{len(self.names)}"
            self.names[self._named[id(thing)]] = thing
        return self._named[id(thing)]

    def has(self, x: Ref) -> bool:
        """Whether a value is read, not computed."""
        return bool(self.k.steps[x.number].op == INPUT)

    def read(self, inputs: list[Ref]) -> list[str]:
        """Lines that fill the inputs of a program."""
        lines, matrices = [], dict[tuple[str, str], str]()
        for position, x in enumerate(inputs):
            local, (kind, what) = name(position), self.k.steps[x.number].operands
            if kind == "argument":
                lines.append(f"{local} = flat[{what}]._data")
            elif kind == "number":
                lines.append(f"{local} = flat[{what}]")
            elif kind == "argument grad":
                lines.append(f"{local} = flat[{what}]._gradient()")
            elif isinstance(what, Parameter):
                matrix, part = self._name(what._a), "data" if kind == "data" else "slopes"
                whole = matrices.get((matrix, part))
                if whole is None:
                    whole = matrices[matrix, part] = f"{matrix}_{part}"
                    lines.append(f"{whole} = {matrix}.all_{part}()")
                lines.append(f"{local} = {whole}[{what._da}]")
            else:
                lines.append(f"{local} = {self._name(what)}.{'_data' if kind == 'data' else '_gradient()'}")
        return lines

    def at_once(self, inputs: list[Ref], width: int) -> Any:
        """The same for machine code, which takes and gives whole matrices; ``None`` where there are other cells.

        Returns
        -------
        tuple
            The outputs in the order in which the machine gives them, what it takes, what the program reads of that,
            what it gives, and the lines of Python around it.
        """
        given: dict[str, tuple[int, ...] | None] = {}  # by expression: of a matrix the shape
        reads = list[tuple[int, int]]()
        for x in inputs:
            kind, what = self.k.steps[x.number].operands
            if isinstance(what, Parameter):
                if what._a.tensor.dtype is not float64:
                    return None
                text = f"{self._name(what._a)}.handle_of_{'data' if kind == 'data' else 'slopes'}()"
                given.setdefault(text, what._a.shape)
                reads.append(([*given].index(text), what._da))
                continue
            if kind in ("argument", "number"):
                text = f"flat[{what}]" if kind == "number" else f"flat[{what}]._data"
            elif kind == "argument grad":
                text = f"flat[{what}]._gradient()"
            else:
                text = f"{self._name(what)}.{'_data' if kind == 'data' else '_gradient()'}"
            given.setdefault(text, None)
            reads.append(([*given].index(text), 0))
        matrices = dict[tuple[Matrix, str], dict[int, int]]()
        loose, assigned = [*range(width)], list[str]()
        for i, (slot, value, position, _) in enumerate(self.writes, width):
            if isinstance(value, Parameter):
                matrices.setdefault((value._a, slot), {})[value._da] = i
                continue
            way = "_assign" if slot == "_data" else "_assign_gradient"
            target = f"{self._name(value)}.{slot} = " if position is None else f"flat[{position}].{way}("
            at = len(loose) if not self.single else len(loose) - width + 1
            assigned.append(f"{target}loose[{at}]{')' * (position is not None)}")
            loose.append(i)
        together = loose[1:width] if self.single else []
        loose = [loose[0], *loose[width:]] if self.single else loose
        shapes: list[tuple[int, ...]] = [(len(loose),)]
        order = loose
        for n, ((matrix, slot), cells) in enumerate(matrices.items()):
            if len(cells) < matrix.width or matrix.tensor.dtype is not float64:
                return None
            shapes.append(matrix.shape)
            order += [cells[i] for i in range(matrix.width)]
            part = "data" if slot == "_data" else "slopes"
            assigned.append(f"{self._name(matrix)}.set_handle_of_{part}(m{n})")
        returned = "loose" if shapes[0] == (width,) else f"loose[:{width}]"
        if self.single:
            returned = f"loose[0], m{len(shapes) - 1}"
            shapes.append((len(together),))
            order = [*order, *together]
        lines = [
            f"found = machine({', '.join(given)})",
            "if found is None: return otherwise(flat)",
            f"loose, {''.join(f'm{n}, ' for n in range(len(shapes) - 1))}= found",
            *assigned,
            f"return {returned}",
        ]
        return order, list(given.values()), reads, shapes, lines

    def write(self, texts: list[str]) -> list[str]:
        """Lines that carry out what the function assigned: `texts` is what was `written`."""
        lines, matrices = [], dict[tuple[Matrix, str], dict[int, str]]()
        for (slot, value, position, _), text in zip(self.writes, texts, strict=True):
            if isinstance(value, Parameter):
                matrices.setdefault((value._a, slot), {})[value._da] = text
            elif position is None:
                lines.append(f"{self._name(value)}.{slot} = {text}")
            else:
                lines.append(f"flat[{position}].{'_assign' if slot == '_data' else '_assign_gradient'}({text})")
        for (matrix, slot), cells in matrices.items():
            part = "data" if slot == "_data" else "slopes"
            whole = self._name(matrix)
            if len(cells) == matrix.width:
                listed = ", ".join(cells[i] for i in range(matrix.width))
                lines.append(f"{whole}.set_all_{part}([{listed}])")
            else:
                lines.append(f"cells = {whole}.all_{part}()")
                lines += [f"cells[{i}] = {x}" for i, x in cells.items()]
                lines.append(f"{whole}.set_all_{part}(cells)")
        return lines
