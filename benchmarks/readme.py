"""The README's tables, from a record of all cases and peers: ``python benchmarks/readme.py results/….json``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.cases import CASES
from benchmarks.report import ROOT, cell, in_markdown

Peers = Mapping[str, Any]
"""The peers' timings of one case."""

ENGINES = ("numpy", "micrograd", "torch", "jax", "jax-jit", "autograd", "mygrad", "karpathy")
COMPILERS = ("micrograd", "micrograd-jit", "torch", "torch-compile", "jax-jit")
QUICKEST, LIMIT = ("torch", "torch-compile", "jax-jit"), ("products", "c")


def _ratio(one: str, *others: str) -> Callable[[Peers], str]:
    """Of one to the quickest of the others that take part: the median over the rounds."""

    def ratio(peers: Peers) -> str:
        found = [(peers[name]["median_us"], name) for name in others if name in peers]
        return f"{peers[one]['ratio_to'][min(found)[1]]:.2f}" if found and one in peers else "–"

    return ratio


def _limit(peers: Peers) -> str:
    return next((cell(peers[name], False) for name in LIMIT if name in peers), "–")


TABLES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], Mapping[str, Callable[[Peers], str]]]] = {
    "engines": (
        ("operations", "small", "large", "training", "scalars"),
        ENGINES,
        {"micrograd ÷ numpy": _ratio("micrograd", "numpy"), "micrograd ÷ torch": _ratio("micrograd", "torch")},
    ),
    "compilers": (
        ("small", "elementwise-1000", "networks", "compiled"),
        COMPILERS,
        {
            "limit": _limit,
            "micrograd ÷ torch": _ratio("micrograd", "torch"),
            "`jit` ÷ quickest": _ratio("micrograd-jit", *QUICKEST),
            "`jit` ÷ limit": _ratio("micrograd-jit", *LIMIT),
        },
    ),
}
"""Each table's cases or groups, peers, and what is reckoned from them."""


def table(record: Mapping[str, Any], name: str) -> str:
    """One of `TABLES`, as Markdown."""
    groups, peers, reckoned = TABLES[name]
    rows = [["µs", *("`jit`" if peer == "micrograd-jit" else peer for peer in peers), *reckoned]]
    for case in CASES.values():
        if (case.name not in groups and case.group not in groups) or case.name not in record["cases"]:
            continue
        timed = record["cases"][case.name]["peers"]
        if not timed.keys() & set(peers):
            continue
        cells = [cell(timed.get(peer), case.kind in record["peers"].get(peer, {}).get("notes", ())) for peer in peers]
        rows.append([case.about, *cells, *(each(timed) for each in reckoned.values())])
    return in_markdown(rows).rstrip()


def insert(page: str, name: str, text: str) -> str:
    """The page with a table between the two lines that name it.

    Raises
    ------
    ValueError
        If the page has no such place.
    """
    first, last = f"<!-- table: {name} -->\n", "<!-- end -->"
    before, found, after = page.partition(first)
    _, ended, after = after.partition(last)
    if not found or not ended:
        raise ValueError(f"the page has no place for the table {name!r}: a line {first.strip()}, and {last} after it")
    return f"{before}{first}\n{text}\n\n{last}{after}"


def main() -> None:
    """Write them."""
    record = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    readme = ROOT / "README.md"
    page = readme.read_text(encoding="utf-8")
    for name in TABLES:
        page = insert(page, name, table(record, name))
    readme.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
