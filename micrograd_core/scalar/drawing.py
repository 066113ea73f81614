"""The graph as a picture: DOT and Mermaid text always, SVG where Graphviz's ``dot`` is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from micrograd_core.array.tensor import Tensor
from micrograd_core.engine.graph import Leaf, is_node, made_by, parents_of
from micrograd_core.scalar.bridge import Elements
from micrograd_core.scalar.graph import CONSTANT, operands, written
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
        written: dict[str, Callable[[], str]] = {
            ".svg": self.svg, ".dot": lambda: self.dot, ".mmd": lambda: self.mermaid,
        }  # fmt: skip
        if path.suffix not in written:
            raise ValueError(f"a drawing is saved as .svg, .dot or .mmd; got {str(path)!r}")
        path.write_text(written[path.suffix](), encoding="utf-8")
        return path

    def _repr_svg_(self) -> str | None:
        return self.svg() if _has_graphviz() else None

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


def children(node: Any) -> Iterator[Any]:
    """What a node was computed from."""
    if isinstance(node, Value):
        a = node._a  # a parameter refers to its matrix, and is a leaf all the same
        yield from [a] if isinstance(a, Block) and node._name else operands(node, leaf)
    elif isinstance(node, Elements):
        yield node.record
    elif isinstance(node, (Block, Leaf)):
        inputs = node.inputs if isinstance(node, Block) else node.values or ()
        yield from dict.fromkeys(x for x in inputs if x is not None)
    elif is_node(node):
        yield from (parent for parent in parents_of(node) if is_node(parent) or isinstance(parent, Leaf))


def describe(node: Any) -> Node:
    """What to write into the box of a node."""
    if isinstance(node, Value):
        is_constant = getattr(node, "_db", None) is CONSTANT
        numbers = (f"data {node._number():.4g}",) + (() if is_constant else (f"grad {node._gradient():.4g}",))
        return Node("" if is_constant else written(node), (*numbers, *_place(node)))
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
        result = f"{kernels.dtype(out)} {tuple(out.shape)}" if hasattr(out, "shape") else f"{len(out)} results"
        return Node(op.name, (result, *_place(kernels)))
    return Node("", _about(node))


def _about(tensor: Tensor) -> tuple[str, ...]:
    lines = [f"{tensor.dtype} {tensor.shape}"]
    if tensor.size == 1:
        lines.append(f"data {tensor.item():.4g}")
    if tensor.grad is not None:
        lines.append(f"grad {tensor.grad.item():.4g}" if tensor.size == 1 else f"grad {tensor.shape}")
    return (*lines, *_place(tensor))


def _place(x: Any) -> tuple[str, ...]:
    return () if x.device.is_cpu() else (str(x.device),)


def _has_graphviz() -> bool:
    import shutil

    return shutil.which("dot") is not None
