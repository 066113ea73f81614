"""`summary`: what a network makes of an example, layer by layer."""

from __future__ import annotations

from typing import Any, NamedTuple

from micrograd_core.array.tensor import Tensor
from micrograd_core.engine.modes import no_grad
from micrograd_core.nn.module import Module
from micrograd_core.support import pytrees
from micrograd_core.support.escaping import aligned


class Row(NamedTuple):
    """One layer."""

    name: str
    kind: str
    output: str
    parameters: int


class Summary(NamedTuple):
    """What `summary` gives: ``str()`` of it is the table."""

    rows: list[Row]
    parameters: int
    buffers: int

    def __str__(self) -> str:
        rows = [(each.name, each.kind, each.output, f"{each.parameters:,}") for each in self.rows]
        buffers = f", and {self.buffers:,} numbers in buffers" if self.buffers else ""
        table = aligned([("layer", "kind", "output", "parameters"), *rows])
        return f"{table}\n{self.parameters:,} parameters{buffers}"

    def __repr__(self) -> str:
        return str(self)


def summary(model: Module, *sample: Any) -> Summary:
    """A table of the layers of a network: the shapes of what they give for an example, and their parameters.

    Parameters
    ----------
    model : Module
        Is called once, in `eval` mode and without gradients; its modes are put back.
    *sample
        The arguments of the call, such as ``mg.zeros((1, 3, 32, 32))``.

    Returns
    -------
    Summary
        Its ``str()`` is the table, and its ``rows`` are the rows. The parameters of a layer are those of the layers
        inside, too; the last line counts each once. A layer that is not called has the output ``-``.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> model = mg.nn.Sequential(mg.nn.Linear(4, 3), mg.nn.ReLU())
    >>> len(mg.nn.summary(model, mg.zeros((1, 4))).rows)
    3
    """
    modules = list(model.named_modules())
    outputs: dict[int, str] = {}

    def note(module: Module, args: Any, result: Any) -> None:
        shapes = [str(x.shape) if isinstance(x, Tensor) else type(x).__name__ for x in pytrees.flatten(result)[0]]
        outputs[id(module)] = ", ".join(shapes)

    before = [(module, vars(module).copy()) for _, module in modules]
    try:
        for _, module in modules:
            vars(module)["_after"] = {**module._after, note: note}
        with no_grad():
            model.eval()(*sample)
    finally:
        for module, attributes in before:
            for name in ("_after", "training"):
                if name in attributes:
                    vars(module)[name] = attributes[name]
                else:
                    vars(module).pop(name, None)
    rows = [
        Row(name or "·", module._line(), outputs.get(id(module), "-"), module._sizes()[0]) for name, module in modules
    ]
    return Summary(rows, *model._sizes())


__all__ = ["summary"]
