"""Names from files on their way to a terminal, and tables: control characters could hide or forge what it shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""C0, DEL, C1, separators of lines, and what changes the direction of text."""


def printable(x: Any, keep: str = "") -> str:
    r"""``str(x)`` with control characters as Python writes them, such as ``\x1b``; those in `keep` stay.

    >>> printable("a\x1b[31m")
    'a\\x1b[31m'
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else repr(found[0])[1:-1], str(x))


def printable_json(text: str) -> str:
    """The same JSON in other letters: control characters stand only in its strings, and between them line ends."""
    return _CONTROL.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def aligned(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as a table for a terminal, the first one its head; numbers stand at the right."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [
        all(isinstance(cell, (int, float)) or _is_figure(str(cell)) for cell in column)
        for column in zip(*rows[1:], strict=True)
    ] or [False] * len(widths)
    lines = [
        "  ".join(
            cell.rjust(width) if end else cell.ljust(width) for cell, width, end in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)


def _is_figure(text: str) -> bool:
    return bool(text) and all(part[:1] in "0123456789-+.–~" for part in text.split())
