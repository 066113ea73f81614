"""Charts as SVG that stands in a page: its colours are the page's, so that they change with light and dark.

What is under the pointer is told by ``<title>`` elements, which need no script.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

WIDTH, HEIGHT = 460, 290
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 38
COLOURS = 10
"""How many colours the page has: ``--c0`` and so on."""


class Series(NamedTuple):
    """A line of a chart."""

    label: str
    values: Sequence[float]
    colour: int


class Axis(NamedTuple):
    """From numbers to places in the picture."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def at(self, x: float) -> float:
        """The place of a number."""
        low, high, x = (math.log10(each) if self.log else each for each in (self.low, self.high, x))
        return self.start + (x - low) / (high - low or 1) * (self.stop - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round numbers along the axis."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.floor(math.log10(self.high))
            for marks in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
                found = [m * 10.0**i for i in range(first, last + 1) for m in marks]
                found = [x for x in found if self.low <= x <= self.high]
                if len(found) >= 3:
                    break
            return found[:: max(-(-len(found) // (most + 1)), 1)]
        span = self.high - self.low or 1.0
        step = 10.0 ** math.floor(math.log10(span / most))
        step *= next(m for m in (1, 2, 2.5, 5, 10) if span / (m * step) <= most)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def number(x: float) -> str:
    """A number in few characters."""
    return f"{x:,.0f}" if x == int(x) and abs(x) < 1e6 else f"{x:.3g}"


def percent(x: float) -> str:
    """A fraction in percent."""
    return f"{100 * x:.4g} %"


def _frame(body: Iterable[str], label: str, width: float = WIDTH, height: float = HEIGHT) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">'
        + "".join(body)
        + "</svg>"
    )


def _axes(across: Axis, up: Axis, names: tuple[str, str], shown: Any = number, shown_across: Any = number) -> list[str]:
    body = []
    for tick in up.ticks():
        y = up.at(tick)
        body.append(f'<line class="grid" x1="{LEFT}" x2="{across.stop:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        body.append(f'<text class="tick end" x="{LEFT - 7}" y="{y + 4:.1f}">{shown(tick)}</text>')
    for tick in across.ticks(6):
        x = across.at(tick)
        body.append(f'<text class="tick middle" x="{x:.1f}" y="{up.start + 17:.1f}">{shown_across(tick)}</text>')
    middle = (across.start + across.stop) / 2
    body.append(f'<text class="name middle" x="{middle:.1f}" y="{up.start + 34:.1f}">{escape(names[0])}</text>')
    if names[1]:
        y = (up.start + up.stop) / 2
        body.append(
            f'<text class="name middle" transform="translate(12 {y:.1f}) rotate(-90)">{escape(names[1])}</text>'
        )
    return body


def lines(series: Sequence[Series], name: str, best: int = 0, log: bool = False, shown: Any = number) -> str:
    """Figures by epoch; `best` is marked."""
    every = [x for each in series for x in each.values if math.isfinite(x) and (x > 0 or not log)]
    low, high = (min(every), max(every)) if every else (0.1, 1.0)
    if not log:
        margin = 0.06 * (high - low) or 0.1
        low, high = low - margin, high + margin
    elif high <= low * 1.01:
        low, high = low / 2, high * 2
    count = max(len(each.values) for each in series)
    across = Axis(1, max(count, 2), LEFT, WIDTH - RIGHT)
    up = Axis(low, high, HEIGHT - BOTTOM, TOP, log)
    body = _axes(across, up, ("epoch", ""), shown)
    if best and count > 1:
        x = across.at(best)
        body.append(f'<line class="best" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        side, move = ("end", -5) if x > WIDTH / 2 else ("", 5)
        body.append(f'<text class="tick told {side}" x="{x + move:.1f}" y="{TOP + 10}">kept: epoch {best}</text>')
    for each in series:
        places = [
            f"{across.at(i + 1):.1f},{up.at(x):.1f}"
            for i, x in enumerate(each.values)
            if math.isfinite(x) and (x > 0 or not log)
        ]
        told = f"{escape(each.label)}: {shown(each.values[-1])} at the end" if each.values else ""
        body.append(
            f'<polyline class="line" style="stroke:var(--c{each.colour})" points="{" ".join(places)}">'
            f"<title>{told}</title></polyline>"
        )
        if len(places) == 1:
            left, down = places[0].split(",")
            body.append(f'<circle r="4" cx="{left}" cy="{down}" style="fill:var(--c{each.colour})"/>')
    return _legend([(each.label, each.colour) for each in series]) + _frame(body, f"{name} by epoch")


def _legend(entries: Sequence[tuple[str, int]]) -> str:
    items = "".join(
        f'<span><i style="background:var(--c{colour % COLOURS})"></i>{escape(label)}</span>'
        for label, colour in entries
    )
    return f'<div class="legend">{items}</div>'


def scatter(true: Sequence[float], said: Sequence[float], name: str) -> str:
    """What is said over what is true; on the line where both are equal all is right."""
    low, high = min(*true, *said), max(*true, *said)
    margin = 0.05 * (high - low) or 1.0
    across = Axis(low - margin, high + margin, LEFT, WIDTH - RIGHT)
    up = Axis(low - margin, high + margin, HEIGHT - BOTTOM, TOP)
    body = _axes(across, up, (f"{name}, true", "predicted"))
    ends = (across.low, across.high)
    body.append(
        '<line class="best" '
        + " ".join(f'x{i}="{across.at(x):.1f}" y{i}="{up.at(x):.1f}"' for i, x in enumerate(ends, 1))
        + "/>"
    )
    body += [
        f'<circle class="dot" cx="{across.at(t):.1f}" cy="{up.at(s):.1f}" r="3.5">'
        f"<title>true {number(t)}, predicted {number(s)}</title></circle>"
        for t, s in zip(true, said, strict=True)
    ]
    return _frame(body, f"{name}: predicted over true")


def histogram(values: Sequence[float], name: str, most: int = 30) -> str:
    """How often errors of each size come."""
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 1, high + 1
    bins = max(5, min(most, round(2 * len(values) ** (1 / 3))))
    counts = [0] * bins
    for x in values:
        counts[min(int((x - low) / (high - low) * bins), bins - 1)] += 1
    across, up = Axis(low, high, LEFT, WIDTH - RIGHT), Axis(0, max(counts) * 1.08, HEIGHT - BOTTOM, TOP)
    body = _axes(across, up, (name, "rows"))
    width = (across.stop - across.start) / bins
    for i, count in enumerate(counts):
        x, y = across.start + i * width, up.at(count)
        start, stop = (low + (high - low) * j / bins for j in (i, i + 1))
        body.append(
            f'<rect class="bar" x="{x + 1:.1f}" y="{y:.1f}" width="{max(width - 2, 1):.1f}" '
            f'height="{up.start - y:.1f}"><title>{number(start)} to {number(stop)}: {count:,} rows</title></rect>'
        )
    if low < 0 < high:
        x = across.at(0)
        body.append(f'<line class="best" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{up.start}"/>')
    return _frame(body, name)


def bars(entries: Sequence[tuple[str, float]], label: str) -> str:
    """A row of HTML for each entry; the longest bar is as wide as there is room."""
    most = max((x for _, x in entries), default=1.0) or 1.0
    rows = "".join(
        f'<div class="row"><span class="key" title="{escape(name)}">{escape(name)}</span>'
        f'<span class="track"><i style="width:{max(100 * x / most, 0.5):.1f}%"></i></span>'
        f'<span class="value">{percent(round(x, 4))}</span></div>'
        for name, x in entries
    )
    return f'<div class="bars" role="img" aria-label="{escape(label)}">{rows}</div>'


def matrix(counts: Sequence[Sequence[int]], names: Sequence[str]) -> str:
    """A confusion matrix as a table; a cell is the darker the more of its row it has."""
    head = "".join(f"<th scope=col><span>{escape(name)}</span></th>" for name in names)
    rows = []
    for i, row in enumerate(counts):
        total = sum(row) or 1
        cells = []
        for j, count in enumerate(row):
            share = count / total
            kind = "right" if i == j else "wrong"
            told = f"{names[i]} taken for {names[j]}" if i != j else f"{names[i]}, found"
            strong = " strong" if share > 0.55 else ""
            cells.append(
                f'<td class="{kind}{strong}" style="--a:{0.9 * share if count else 0:.2f}" '
                f'title="{escape(told)}: {count:,} of {sum(row):,}">{count or "·"}</td>'
            )
        rows.append(f"<tr><th scope=row>{escape(names[i])}</th>{''.join(cells)}</tr>")
    return (
        '<div class="scroll"><table class="matrix"><thead><tr><th class="corner">true ↓<br>predicted →</th>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


# ── pictures ─────────────────────────────────────────────────────────────────────────────────────────────────


def png(pixels: Any) -> bytes:
    """A PNG of an array (height, width, channels) of uint8: grey, RGB or RGBA by its channels."""
    height, width, channels = pixels.shape
    kind = {1: 0, 3: 2, 4: 6}[channels]

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    rows = b"".join(b"\0" + pixels[i].tobytes() for i in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def address(picture: bytes) -> str:
    """A picture as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def image(pixels: Any, label: str) -> str:
    """An image of an array (channels, height, width) of numbers from 0 to 1; of one channel, grey."""
    import numpy as np

    shown = np.clip(np.asarray(pixels) * 255, 0, 255).round().astype("uint8").transpose(1, 2, 0)
    return f'<img class="pixels" alt="{escape(label)}" src="{address(png(np.ascontiguousarray(shown)))}">'


def heat(shares: Any, label: str) -> str:
    """An array (height, width) of numbers from 0 on, the largest in full colour and 0 in none."""
    import numpy as np

    shade = np.empty((*shares.shape, 4), dtype="uint8")
    shade[..., :3] = RGB[0]
    shade[..., 3] = (255 * shares / (shares.max() or 1.0)).round()
    return f'<img class="pixels" alt="{escape(label)}" src="{address(png(shade))}">'


RGB = (
    (47, 111, 222), (226, 109, 43), (38, 156, 108), (201, 70, 130), (124, 92, 214), (193, 150, 20), (28, 158, 186),
    (214, 72, 72), (120, 150, 50), (130, 118, 108),
)  # fmt: skip
"""``--c0`` and so on, for pictures, which do not change with light and dark."""


def plane(edge: dict[str, Any], classes: Sequence[str], true: Any, names: tuple[str, str]) -> str:
    """Which class is said where, by colour, the paler the less sure; and examples as they truly are."""
    import numpy as np

    chances = edge["chances"]
    said = chances.argmax(axis=-1)
    colours = np.array([RGB[i % COLOURS] for i in range(len(classes))], dtype="float64")[said]
    floor = 1 / len(classes)
    sure = (chances.max(axis=-1) - floor) / (1 - floor)
    shade = np.concatenate([colours, (40 + 110 * sure)[..., None]], axis=-1).round().astype("uint8")[::-1]
    across = Axis(float(edge["across"][0]), float(edge["across"][-1]), LEFT, WIDTH - RIGHT)
    up = Axis(float(edge["up"][0]), float(edge["up"][-1]), HEIGHT - BOTTOM, TOP)
    body = [
        f'<image href="{address(png(np.ascontiguousarray(shade)))}" x="{LEFT}" y="{TOP}" '
        f'width="{WIDTH - RIGHT - LEFT}" height="{HEIGHT - BOTTOM - TOP}" preserveAspectRatio="none"/>',
        *_axes(across, up, names),
    ]
    body += [
        f'<circle class="point" cx="{across.at(x):.1f}" cy="{up.at(y):.1f}" r="3.2" '
        f'style="fill:var(--c{int(i) % COLOURS})"><title>{escape(str(classes[int(i)]))}</title></circle>'
        for (x, y), i in zip(edge["points"].tolist(), true, strict=False)
    ]
    return _legend([(str(each), i) for i, each in enumerate(classes)]) + _frame(body, "what is said where")
