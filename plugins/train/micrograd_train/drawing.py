"""``micrograd draw``: the graph of an expression or of a network as a picture, without Graphviz."""

from __future__ import annotations

import argparse
import ast
import io
import itertools
import operator
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from micrograd_core.errors import MicrogradError
from micrograd_core.support import files
from micrograd_core.tools import arguments as common
from micrograd_train import options as own

if TYPE_CHECKING:
    from micrograd_core.drawing import Drawing

LETTER, LINE, PAD = 7.3, 16.0, 9.0
"""Of a box: the width of a letter, the height of a line, and what is around them."""
BESIDE, BELOW = 46.0, 18.0
"""Between boxes."""


class ExpressionError(MicrogradError, ValueError):
    """What cannot be drawn."""


def add_draw(commands: common.Commands) -> None:
    """``micrograd draw``."""
    parser = common.command(
        commands,
        "draw",
        "draw the graph of an expression with its gradients, or of a trained network",
        [
            'micrograd draw "(a * b + c).relu()" a=2 b=-3 c=10 --out graph.svg',
            'micrograd draw "tanh(w * x)" w=0.5 x=2',
            "micrograd draw runs/my --out network.png",
        ],
    )
    parser.add_argument("what", metavar="WHAT", help="an expression of numbers and names, or a model.safetensors")
    parser.add_argument("values", nargs="*", metavar="NAME=NUMBER", help="what the names in an expression stand for")
    parser.add_argument("--out", metavar="FILE", help=".svg, .png, .dot or .mmd (default: Mermaid text on stdout)")
    parser.add_argument(
        "--limit",
        type=own.positive_int,
        default=150,
        metavar="N",
        help="boxes that are drawn, those nearest to the result",
    )
    common.add_json(parser)
    parser.set_defaults(run=_draw)


def _draw(options: argparse.Namespace) -> int:
    if options.out is not None and Path(options.out).suffix not in FORMATS:
        raise ExpressionError(
            f"--out {options.out}: a drawing is written as {', '.join(FORMATS)}, by the file's suffix"
        )
    if options.out is not None:
        files.check(Path(options.out))
    drawing, value = drawn(options.what, options.values, options.limit)
    if options.out is not None:
        files.write({Path(options.out): FORMATS[Path(options.out).suffix](drawing)})
    result = {
        "value": value,
        "nodes": [{"operation": node.op, "lines": list(node.lines)} for node in drawing.nodes],
        "edges": drawing.edges,
        "out": options.out,
    }
    shown = len(drawing.nodes) - drawing.is_cut
    text = str(drawing).rstrip() if options.out is None else f"wrote {shown} boxes to {options.out}"
    common.tell(options, result, text)
    return 0


def drawn(what: str, values: Sequence[str], limit: int) -> tuple[Drawing, float | None]:
    """The drawing of an expression, with gradients, and its value; or of a network for one random example."""
    from micrograd_core.drawing import draw

    if Path(what).exists() or what.endswith(".safetensors"):
        from micrograd_train.using.inspection import sample
        from micrograd_train.using.trained import load_predictor

        if values:
            raise ExpressionError(f"{values[0]!r}: names have values in an expression; {what!r} is a file")
        trained = load_predictor(what)
        out = trained.model(sample(trained.inputs, 1, trained.device))
        return draw(out, limit=limit, names=dict(trained.model.named_parameters())), None
    value, names = evaluated(what, values)
    value.backward()
    return draw(value, limit=limit, names=names), value.data


# ── expressions ──────────────────────────────────────────────────────────────────────────────────────────────

OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
FUNCTIONS = ("relu", "tanh", "exp", "log", "sigmoid", "sqrt", "sin", "cos", "abs")


def evaluated(text: str, values: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """The Value of an expression, and those of its names. It is read, not run: there is nothing in it but arithmetic.

    Raises
    ------
    ExpressionError
    """
    from micrograd_core.scalar.value import Value

    names: dict[str, Any] = {}
    for each in values:
        name, _, number = each.partition("=")
        try:
            names[name.strip()] = Value(float(number))
        except ValueError:
            raise ExpressionError(f"{each!r}: write what a name stands for as name=number, such as a=2") from None
    try:
        tree = ast.parse(text, mode="eval").body
        found = _computed(tree, names, text)
    except SyntaxError as error:
        raise ExpressionError(
            f"{text!r} is neither a file nor an expression: {error.msg}; an expression is such as '(a * b + c).relu()'"
        ) from None
    except (ArithmeticError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, MicrogradError):
            raise
        raise ExpressionError(f"{text!r} cannot be computed: {error}") from None
    if not isinstance(found, Value):
        raise ExpressionError(f"{text!r} has no names in it; there is nothing to draw")
    return found, names


def _computed(tree: Any, names: dict[str, Any], text: str) -> Any:
    if isinstance(tree, ast.Constant) and type(tree.value) in (int, float):
        return tree.value
    if isinstance(tree, ast.Name):
        if tree.id not in names:
            raise ExpressionError(f"{text!r}: what is {tree.id}? Write {tree.id}=NUMBER after the expression")
        return names[tree.id]
    if isinstance(tree, ast.BinOp) and type(tree.op) in OPERATORS:
        return OPERATORS[type(tree.op)](_computed(tree.left, names, text), _computed(tree.right, names, text))
    if isinstance(tree, ast.UnaryOp) and type(tree.op) in OPERATORS:
        return OPERATORS[type(tree.op)](_computed(tree.operand, names, text))
    if isinstance(tree, ast.Call) and not tree.keywords:
        called = tree.func
        method = isinstance(called, ast.Attribute)
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        operands = [called.value] if isinstance(called, ast.Attribute) else []
        operands += tree.args
        if name in FUNCTIONS and len(operands) == 1:
            x = _computed(operands[0], names, text)
            if isinstance(x, (int, float)):
                raise ExpressionError(f"{text!r}: {name} takes what has a name in it")
            return getattr(x, name)()
        if name not in FUNCTIONS and not (method and not name):
            raise ExpressionError(f"{text!r}: there is no function {name!r}; there are {', '.join(FUNCTIONS)}")
    raise ExpressionError(
        f"{text!r}: {ast.unparse(tree)!r} cannot be drawn; an expression has numbers, names, + - * / ** and "
        f"{', '.join(FUNCTIONS)}"
    )


# ── where boxes stand ────────────────────────────────────────────────────────────────────────────────────────


class Box(NamedTuple):
    """A box in the picture: its left upper corner and its size."""

    x: float
    y: float
    width: float
    height: float


class Arranged(NamedTuple):
    """Boxes by node, and for each edge what it leads through, from the box of the operand to that of the result."""

    boxes: list[Box]
    ways: list[list[Box]]


def arranged(drawing: Drawing) -> Arranged:
    """A place for each node: operands left of results, near to what they are connected with.

    An edge that passes a layer has a place of its own there, so that it goes around boxes (Sugiyama et al. 1981).
    """
    count = len(drawing.nodes)
    depth = _depths(count, drawing.edges)
    lines = [[*([node.op] if node.op else []), *node.lines] for node in drawing.nodes]
    sizes = [(LETTER * max(map(len, text)) + 2 * PAD, LINE * len(text) + PAD) for text in lines]
    after: list[list[int]] = [[] for _ in range(count)]
    before: list[list[int]] = [[] for _ in range(count)]
    ways = []
    for a, b in drawing.edges:
        way = [a]
        for level in range(depth[a] - 1, depth[b], -1):
            way.append(len(sizes))
            sizes.append((0.0, 0.0))
            depth.append(level)
            after.append([])
            before.append([])
        way.append(b)
        ways.append(way)
        for i, j in itertools.pairwise(way):
            after[i].append(j)
            before[j].append(i)
    layers = [[i for i in range(len(sizes)) if depth[i] == level] for level in range(max(depth) + 1)]
    middle = [0.0] * len(sizes)
    for layer in layers:
        _stack(layer, middle, sizes)
    for turn in range(12):
        neighbours = after if turn % 2 == 0 else before
        for layer in layers if turn % 2 == 0 else layers[::-1]:
            for i in layer:
                if neighbours[i]:
                    middle[i] = sum(middle[j] for j in neighbours[i]) / len(neighbours[i])
            layer.sort(key=lambda i: middle[i])
            _apart(layer, middle, sizes)
    top = min(middle[i] - sizes[i][1] / 2 for i in range(len(sizes))) - PAD
    boxes = [Box(0, 0, 0, 0)] * len(sizes)
    left = PAD
    for layer in layers[::-1]:
        wide = max(sizes[i][0] for i in layer)
        for i in layer:
            width, height = sizes[i] if i < count else (wide, 0.0)
            boxes[i] = Box(left + (wide - width) / 2, middle[i] - height / 2 - top, width, height)
        left += wide + BESIDE
    return Arranged(boxes[:count], [[boxes[i] for i in way] for way in ways])


def _depths(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """How far each node is from the result, by the longest way."""
    before: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for a, b in edges:
        before[b].append(a)
        waiting[a] += 1
    depth = [0] * count
    ready = [i for i in range(count) if not waiting[i]]
    for i in ready:  # grows on the way: each node when all that it goes into have their depth
        for a in before[i]:
            depth[a] = max(depth[a], depth[i] + 1)
            waiting[a] -= 1
            if not waiting[a]:
                ready.append(a)
    return depth


def _stack(layer: list[int], middle: list[float], sizes: list[tuple[float, float]]) -> None:
    y = 0.0
    for i in layer:
        middle[i] = y + sizes[i][1] / 2
        y += sizes[i][1] + BELOW


def _apart(layer: list[int], middle: list[float], sizes: list[tuple[float, float]]) -> None:
    """Move boxes of a layer that overlap, half of it up and half down."""
    wanted = sum(middle[i] for i in layer)
    low = float("-inf")
    for i in layer:
        middle[i] = max(middle[i], low + sizes[i][1] / 2)
        low = middle[i] + sizes[i][1] / 2 + BELOW
    shift = (wanted - sum(middle[i] for i in layer)) / len(layer)
    for i in layer:
        middle[i] += shift


# ── formats ──────────────────────────────────────────────────────────────────────────────────────────────────

STYLE = """
text { font: 12px ui-monospace, Menlo, "DejaVu Sans Mono", monospace; fill: #1b2330; text-anchor: middle; }
text.op { font-weight: bold; } rect { fill: #fff; stroke: #5d6878; } rect.op { fill: #e4edfd; stroke: #2f6fde; }
path { fill: none; stroke: #8a94a3; } path.head { fill: #8a94a3; stroke: none; }
@media (prefers-color-scheme: dark) {
text { fill: #e6eaf0; } rect { fill: #1a2029; stroke: #98a3b3; } rect.op { fill: #1e2f4d; stroke: #6ea0ff; }
}"""


def _size(boxes: list[Box]) -> tuple[float, float]:
    return max(each.x + each.width for each in boxes) + PAD, max(each.y + each.height for each in boxes) + PAD


def _curves(way: list[Box]) -> list[tuple[float, float]]:
    """From the right of the first box to the left of the last: the start, then two handles and an end for each part."""
    points = [(way[0].x + way[0].width, way[0].y + way[0].height / 2)]
    for i, box in enumerate(way[1:], 1):
        x, y = points[-1]
        end, to = box.x - 5 * (i == len(way) - 1), box.y + box.height / 2
        bend = max((end - x) / 2, 12)
        points += [(x + bend, y), (end - bend, to), (end, to)]
        if i < len(way) - 1:  # straight through its place in the layer
            points += [(end, to), (end + box.width, to), (end + box.width, to)]
    return points


def svg(drawing: Drawing) -> str:
    """The picture as SVG."""
    boxes, ways = arranged(drawing)
    width, height = _size(boxes)
    body = []
    for way in ways:
        (x, y), *handles = _curves(way)
        end, to = handles[-1]
        body.append(f'<path d="M{x:.1f} {y:.1f} C{" ".join(f"{p:.1f} {q:.1f}" for p, q in handles)}"/>')
        body.append(f'<path class="head" d="M{end + 5:.1f} {to:.1f} l-8 -4 v8 z"/>')
    for node, box in zip(drawing.nodes, boxes, strict=True):
        kind, round = (' class="op"', 4) if node.op else ("", 12)
        body.append(
            f'<rect{kind} x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
            f'rx="{round}"/>'
        )
        for i, line in enumerate([*([node.op] if node.op else []), *node.lines]):
            bold = ' class="op"' if node.op and not i else ""
            x, y = box.x + box.width / 2, box.y + PAD / 2 + LINE * (i + 0.75)
            body.append(f'<text{bold} x="{x:.1f}" y="{y:.1f}">{escape(line)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}"><style>{STYLE}</style>{"".join(body)}</svg>\n'
    )


def png(drawing: Drawing) -> bytes:
    """The picture as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch, PathPatch
    from matplotlib.path import Path as Curve

    boxes, ways = arranged(drawing)
    width, height = _size(boxes)
    scale = min(2.0, 30000 / max(width, height))  # matplotlib's pictures end at 2**16
    figure = Figure(figsize=(width / 72, height / 72), dpi=72 * scale)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    for way in ways:
        points = _curves(way)
        codes = [Curve.MOVETO, *[Curve.CURVE4] * (len(points) - 1)]
        axes.add_patch(PathPatch(Curve(points, codes), fill=False, edgecolor="#8a94a3"))
        x, y = points[-1]
        axes.fill([x + 5, x - 3, x - 3], [y, y - 4, y + 4], color="#8a94a3", linewidth=0)
    for node, box in zip(drawing.nodes, boxes, strict=True):
        face, edge, round = ("#e4edfd", "#2f6fde", 4) if node.op else ("#ffffff", "#5d6878", 10)
        style = f"round,pad=0,rounding_size={round}"
        axes.add_patch(FancyBboxPatch((box.x, box.y), box.width, box.height, style, facecolor=face, edgecolor=edge))
        for i, line in enumerate([*([node.op] if node.op else []), *node.lines]):
            axes.text(
                box.x + box.width / 2,
                box.y + PAD / 2 + LINE * (i + 0.5),
                line,
                ha="center",
                va="center",
                fontfamily="monospace",
                fontsize=10,
                fontweight="bold" if node.op and not i else "normal",
                parse_math=False,
            )
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


FORMATS: dict[str, Callable[[Drawing], bytes]] = {
    ".svg": lambda drawing: svg(drawing).encode(),
    ".png": png,
    ".dot": lambda drawing: drawing.dot.encode(),
    ".mmd": lambda drawing: drawing.mermaid.encode(),
}
"""By the file's suffix."""
