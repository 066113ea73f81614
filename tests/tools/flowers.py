"""A small table to learn from, for tests of the commands."""

from __future__ import annotations

import random
from pathlib import Path

CENTRES = {"setosa": (1.4, 3.4), "versicolor": (4.3, 2.8), "virginica": (5.6, 3.0)}


def rows(count: int = 90, seed: int = 0) -> list[str]:
    """Lines of a CSV: two numbers, a colour, and the species."""
    numbers = random.Random(seed)
    lines = ["length,width,colour,species"]
    for i in range(count):
        name = list(CENTRES)[i % 3]
        length, width = (numbers.gauss(centre, 0.3) for centre in CENTRES[name])
        lines.append(f"{length:.2f},{width:.2f},{numbers.choice(['red', 'blue'])},{name}")
    return lines


def table(folder: Path, change: dict[int, str] | None = None, name: str = "my.csv", count: int = 90) -> Path:
    """Such a table as a file; lines in `change` are others."""
    lines = rows(count)
    for line, text in (change or {}).items():
        lines[line] = text
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


QUICK = ("--epochs", "3", "--hidden", "8")
