"""The graph as a picture: DOT and Mermaid text always, SVG where Graphviz's ``dot`` is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from micrograd_core.array.tensor import Tensor
from micrograd_core.engine.graph import Leaf, is_node, made_by, parents_of
from micrograd_core.scalar.bridge import Elements
from micrograd_core.scalar.sweep import Block
from micrograd_core.scalar.value import CONSTANT, Value, operands, written

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
            op, lines, operands = described(each)
            name = called.get(id(each.owner() if isinstance(each, Leaf) else each), "")
            self.nodes.append(Node(op, (*([name] if name else []), *lines)))
            for child in operands:
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
        head = ["digraph {", "  rankdir=LR", '  node [shape=box fontname="monospace" fontsize=10]']
        quotes = {"\\": r"\\", '"': r"\""}
        return self._written(head, "->", r"\n", quotes, (' [label="{}"]', ' [label="{}" style=rounded]'), ["}"])

    @property
    def mermaid(self) -> str:
        """The picture in Mermaid's language, which Markdown on many sites understands."""
        return self._written(["flowchart LR"], "-->", "<br/>", {'"': "#quot;"}, ('["{}"]', '("{}")'))

    def _written(
        self, head: list[str], arrow: str, newline: str, quotes: dict[str, str], boxes: tuple[str, str], end: Any = ()
    ) -> str:
        """The picture in a language: `boxes` are templates, of what was computed and of what was not."""
        lines, escaped = head, str.maketrans(quotes)
        for number, (op, about) in enumerate(self.nodes):
            text = newline.join(line.translate(escaped) for line in (op, *about) if line)
            lines.append(f"  n{number}{boxes[not op].format(text)}")
        return "\n".join([*lines, *(f"  n{a} {arrow} n{b}" for a, b in self.edges), *end]) + "\n"

    def svg(self) -> str:
        """The picture as SVG.

        Raises
        ------
        RuntimeError
            When Graphviz is not installed.
        """
        if shutil.which("dot") is None:
            raise RuntimeError(
                "drawing an SVG needs Graphviz's program dot, which is not on the PATH; install it (apt install "
                "graphviz, brew install graphviz), or use .mermaid or .dot, which are text"
            )
        run = subprocess.run(["dot", "-Tsvg"], input=self.dot, capture_output=True, text=True, check=True, timeout=60)
        return run.stdout

    def save(self, path: str | Path) -> Path:
        """Write a file: ``.svg``, ``.dot`` or ``.mmd``, by its suffix."""
        path = Path(path)
        texts: dict[str, Callable[[], str]] = {".svg": self.svg, ".dot": lambda: self.dot, ".mmd": lambda: self.mermaid}
        if path.suffix not in texts:
            raise ValueError(f"a drawing is saved as .svg, .dot or .mmd; got {str(path)!r}")
        path.write_text(texts[path.suffix](), encoding="utf-8")
        return path

    def _repr_svg_(self) -> str | None:
        return self.svg() if shutil.which("dot") else None

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": repr(self), "text/vnd.mermaid": self.mermaid, "image/svg+xml": self._repr_svg_()}
        return {kind: text for kind, text in bundle.items() if text is not None}

    def __str__(self) -> str:
        return self.mermaid

    def __repr__(self) -> str:
        shown = len(self.nodes) - self.is_cut
        return f"<drawing of {shown} nodes{', cut' if self.is_cut else ''}: .mermaid, .dot, .svg(), .save(path)>"


def draw(root: Value | Tensor, *, limit: int = LIMIT, names: Mapping[str, Value | Tensor] | None = None) -> Drawing:
    """The graph of nodes that a Value or a tensor was computed from.

    Parameters
    ----------
    root : Value or Tensor
        The result whose graph is drawn.
    limit : int
        The greatest number of nodes; those furthest from the root are cut, with a note.
    names : mapping from str to Value or Tensor, optional
        Names of some nodes, which their boxes show.

    Returns
    -------
    Drawing
        Its ``str()`` is the graph in Mermaid's language; notebooks show a picture.

    Raises
    ------
    TypeError, ValueError
        When `root` is something else, or `limit` is less than 1.

    Examples
    --------
    >>> from micrograd_core import Value, draw
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


def described(node: Any) -> tuple[str, list[str], Iterable[Any]]:
    """What to write into the box of a node, as in `Node`, and what it was computed from."""
    if isinstance(node, Value):
        is_constant = getattr(node, "_db", None) is CONSTANT
        gradient = [] if is_constant else [f"grad {node._gradient():.4g}"]
        block = [node._a] if isinstance(node._a, Block) and node._name else None  # a parameter's matrix is none
        lines = [f"data {node._number():.4g}", *gradient, *_place(node)]
        return "" if is_constant else written(node), lines, block or operands(node)
    values = node.inputs if isinstance(node, Block) else node.values if isinstance(node, Leaf) else None
    if values is not None:
        inputs = [x for x in dict.fromkeys(values) if x is not None]
        if isinstance(node, Leaf):
            return "stack", [f"{len(values)} Values"], inputs
        inputs = [node.record] if isinstance(node, Elements) else inputs
        return node.label, [f"{node.width} result{'s' * (node.width != 1)}"], inputs
    if is_node(node):
        if not node:
            return "", ["freed by backward()"], ()
        op, kernels, _, out = made_by(node)
        result = f"{kernels.dtype(out)} {tuple(out.shape)}" if hasattr(out, "shape") else f"{len(out)} results"
        inputs = [x for x in parents_of(node) if is_node(x) or isinstance(x, Leaf)]
        return op.name, [result, *_place(kernels)], inputs
    tensor = node.owner() if isinstance(node, Leaf) else node
    if tensor is None:
        return "", ["a tensor that is gone"], ()
    lines, one = [f"{tensor.dtype} {tensor.shape}"], tensor.size == 1
    lines += [f"data {tensor.item():.4g}"] if one else []
    if tensor.grad is not None:
        lines.append(f"grad {tensor.grad.item():.4g}" if one else f"grad {tensor.shape}")
    return "", [*lines, *_place(tensor)], ()


def _place(x: Any) -> list[str]:
    return [] if x.device.is_cpu() else [str(x.device)]
