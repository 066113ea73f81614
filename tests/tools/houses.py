"""A table as people keep them: postal codes, money, percentages, dates, empty cells."""

from __future__ import annotations

import csv
import datetime
import random
from pathlib import Path

HEAD = ["zip", "tax", "share", "sold", "garage", "rooms", "age", "heated", "kind", "price"]
CODES = ("01001", "02139", "90210")


def houses(path: Path, count: int = 120, seed: int = 0) -> Path:
    """Rows whose kind and price follow from the others."""
    draw = random.Random(seed)
    rows = []
    for i in range(count):
        rooms, share = draw.randrange(1, 8), draw.random()
        day = datetime.date(2015, 1, 1) + datetime.timedelta(draw.randrange(3000))
        price = 50_000 * rooms + 20_000 * share + draw.gauss(0, 5_000)
        rows.append([
            CODES[i % 3], f"${price / 10:,.2f}", f"{100 * share:.1f}%", f"{day.day}.{day.month}.{day.year}",
            draw.choice([" no ", "No", "yes", "YES"]), f"+{rooms}", "" if i % 9 == 4 else 20 + draw.randrange(50),
            draw.choice(["true", "false", ""]), "large" if rooms > 4 else "small", f"{price:.2f}",
        ])  # fmt: skip
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([HEAD, *rows])
    return path
