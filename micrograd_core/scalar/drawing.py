"""The graph as a picture: DOT and Mermaid text always, SVG where Graphviz's ``dot`` is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from micrograd_core.array.tensor import Tensor
from micrograd_core.engine.graph import Leaf, is_node, made_by, parents_of
from micrograd_core.scalar.bridge import Elements
from micrograd_core.scalar.packing import CONSTANT, operands, unpack, written
from micrograd_core.scalar.sweep import Block
from micrograd_core.scalar.value import Value, leaf

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 150


class Node(NamedTuple):
    """One box: an operation (empty for what was not computed), and lines about its result."""

    op: str
    lines: tuple[str, ...]


class Drawing:
    """What `draw` gives. A notebook shows it by itself; ``str()`` is the Mermaid text.

    Attributes
    ----------
    nodes : list of Node
        The root first.
    edges : list of (int, int)
        From operand to result, as positions in `nodes`.
    is_cut : bool
        Whether nodes were left out; the last node then says so.
    """

    def __init__(self, root: Value | Tensor, limit: int, names: Mapping[str, Value | Tensor]) -> None:
        self.nodes: list[Node] = []
        self.edges: list[tuple[int, int]] = []
        self.is_cut = False
        start: Any = root if isinstance(root, Value) or root._record is None else root._record
        numbers = {id(start): 0}
        called = {id(each): name for name, each in names.items()}
        waiting = [start]
        for each in waiting:  # grows on the way, breadth first: what is cut is far from the root
            node = describe(each)
            name = called.get(id(each.owner() if isinstance(each, Leaf) else each))
            self.nodes.append(node if name is None else Node(node.op, (name, *node.lines)))
            for child in children(each):
                if id(child) not in numbers:
                    if len(numbers) >= limit:
                        self.is_cut = True
                        continue
                    numbers[id(child)] = len(waiting)
                    waiting.append(child)
                self.edges.append((numbers[id(child)], numbers[id(each)]))
        if self.is_cut:
            self.nodes.append(Node("…", (f"cut after {limit} nodes: draw(x, limit=...) shows more",)))

    @property
    def dot(self) -> str:
        """The picture in Graphviz's language."""
        lines = ["digraph {", "  rankdir=LR", '  node [shape=box fontname="monospace" fontsize=10]']
        for number, node in enumerate(self.nodes):
            text = "\\n".join(_quoted(line, '"') for line in _text(node))
            style = "" if node.op else " style=rounded"
            lines.append(f'  n{number} [label="{text}"{style}]')
        return "\n".join([*lines, *(f"  n{a} -> n{b}" for a, b in self.edges), "}"]) + "\n"

    @property
    def mermaid(self) -> str:
        """The picture in Mermaid's language, which Markdown on many sites understands."""
        lines = ["flowchart LR"]
        for number, node in enumerate(self.nodes):
            text = "<br/>".join(line.replace('"', "#quot;") for line in _text(node))
            opening, closing = ("[", "]") if node.op else ("(", ")")
            lines.append(f'  n{number}{opening}"{text}"{closing}')
        return "\n".join([*lines, *(f"  n{a} --> n{b}" for a, b in self.edges)]) + "\n"

    def svg(self) -> str:
        """The picture as SVG.

        Raises
        ------
        RuntimeError
            When Graphviz is not installed.
        """
        if not _has_graphviz():
            raise RuntimeError(
                "drawing an SVG needs Graphviz's program dot, which is not on the PATH; install it (apt install "
                "graphviz, brew install graphviz), or use .mermaid or .dot, which are text"
            )
        import subprocess

        run = subprocess.run(["dot", "-Tsvg"], input=self.dot, capture_output=True, text=True, check=True, timeout=60)
        return run.stdout

    def save(self, path: str | Path) -> Path:
        """Write a file: ``.svg``, ``.dot`` or ``.mmd``, by its suffix."""
        from pathlib import Path

        path = Path(path)
        makers: dict[str, Callable[[], str]] = {
            ".svg": self.svg,
            ".dot": lambda: self.dot,
            ".mmd": lambda: self.mermaid,
        }
        if path.suffix not in makers:
            raise ValueError(f"a drawing is saved as .svg, .dot or .mmd; got {str(path)!r}")
        path.write_text(makers[path.suffix](), encoding="utf-8")
        return path

    def _repr_svg_(self) -> str | None:
        return self.svg() if _has_graphviz() else None

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": repr(self), "text/vnd.mermaid": self.mermaid}
        svg = self._repr_svg_()
        return bundle if svg is None else {**bundle, "image/svg+xml": svg}

    def __str__(self) -> str:
        return self.mermaid

    def __repr__(self) -> str:
        shown = len(self.nodes) - self.is_cut
        return f"<drawing of {shown} nodes{', cut' if self.is_cut else ''}: .mermaid, .dot, .svg(), .save(path)>"


def draw(root: Value | Tensor, *, limit: int = LIMIT, names: Mapping[str, Value | Tensor] | None = None) -> Drawing:
    """The graph that a Value or a tensor was computed in.

    Parameters
    ----------
    root : Value or Tensor
    limit : int
        Nodes that are drawn; those furthest from the root are cut, with a note.
    names : mapping from str to Value or Tensor, optional
        What some of them are called; their boxes say it.

    Examples
    --------
    >>> a = Value(2.0)
    >>> b = (a * 3).relu()
    >>> b.backward()
    >>> print(draw(b))
    flowchart LR
      n0["ReLU<br/>data 6<br/>grad 1"]
      n1["*<br/>data 6<br/>grad 1"]
      n2("data 2<br/>grad 3")
      n3("data 3")
      n1 --> n0
      n2 --> n1
      n3 --> n1
    <BLANKLINE>
    """
    if not isinstance(root, (Value, Tensor)):
        raise TypeError(f"draw takes a Value or a Tensor; got {type(root).__name__}")
    if limit < 1:
        raise ValueError(f"draw: limit must be at least 1; got {limit}")
    return Drawing(root, limit, names or {})


def children(node: Any) -> Iterator[Any]:
    """What a node was computed from."""
    if isinstance(node, Value):
        unpack(node)
        a = node._a
        yield from [a] if isinstance(a, Block) and _is_result(node) else operands(node, leaf)
    elif isinstance(node, Block):
        inputs = list(dict.fromkeys(x for x in node.inputs if x is not None))
        yield from [node.record] if isinstance(node, Elements) else inputs
    elif isinstance(node, Leaf):
        yield from dict.fromkeys(x for x in node.values or () if x is not None)
    elif is_node(node):
        yield from (parent for parent in parents_of(node) if is_node(parent) or isinstance(parent, Leaf))


def _is_result(value: Value) -> bool:
    return value._name != ""  # a parameter refers to its matrix, and is a leaf all the same


def describe(node: Any) -> Node:
    """What to write into the box of a node."""
    if isinstance(node, Value):
        is_constant = getattr(node, "_db", None) is CONSTANT
        numbers = (f"data {node._number():.4g}",) + (() if is_constant else (f"grad {node._gradient():.4g}",))
        return Node("" if is_constant else written(node), numbers if node._on_host else (*numbers, str(node.device)))
    if isinstance(node, Block):
        return Node(node.label, (f"{node.width} result{'s' * (node.width != 1)}",))
    if isinstance(node, Leaf):
        if node.values is not None:
            return Node("stack", (f"{len(node.values)} Values",))
        owner = node.owner()
        return Node("", ("a tensor that is gone",)) if owner is None else Node("", _about(owner))
    if is_node(node):
        if not node:
            return Node("", ("freed by backward()",))
        op, kernels, _, out = made_by(node)
        place = () if kernels.device.is_cpu() else (str(kernels.device),)
        result = f"{kernels.dtype(out)} {tuple(out.shape)}" if hasattr(out, "shape") else f"{len(out)} results"
        return Node(op.name, (result, *place))
    return Node("", _about(node))


def _about(tensor: Tensor) -> tuple[str, ...]:
    lines = [f"{tensor.dtype} {tensor.shape}"]
    if tensor.size == 1:
        lines.append(f"data {tensor.item():.4g}")
    if tensor.grad is not None:
        lines.append(f"grad {tensor.grad.item():.4g}" if tensor.size == 1 else f"grad {tensor.shape}")
    return (*lines, *(() if tensor.device.is_cpu() else (str(tensor.device),)))


def _has_graphviz() -> bool:
    import shutil

    return shutil.which("dot") is not None


def _text(node: Node) -> list[str]:
    return [*([node.op] if node.op else []), *node.lines]


def _quoted(text: str, mark: str) -> str:
    return text.replace("\\", "\\\\").replace(mark, "\\" + mark)
