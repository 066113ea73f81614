"""Numbers and dates as people write them in text: in which way a column is written, and what a cell is then."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

MONEY: Final = "$€£¥₹₽₩₺₪₴₦฿¢ USD EUR GBP CHF JPY CNY INR SEK NOK DKK PLN CZK BRL CAD AUD"
POINTS: Final = ("$", "£", "USD", "GBP", "CAD", "AUD")
"""Money that is always written with a point before the fraction."""
_UNIT: Final = r"(?:[%‰°" + MONEY.split()[0] + "]|" + "|".join(MONEY.split()[1:]) + ")"
_DATE: Final = re.compile(
    r"(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})(?:[ T](\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?\s?(Z|[+-]\d{2}:?\d{2})?)?"
)
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()


def _pattern(mark: str, between: str) -> re.Pattern[str]:
    """A number with `mark` before its fraction, and some of `between` between its thousands."""
    whole = rf"[1-9]\d{{0,2}}(?:(?P<gap>[{between}'’ \u00a0\u202f])\d{{3}})(?:(?P=gap)\d{{3}})*|\d*"
    return re.compile(
        rf"(?P<sign>[+−-]?)\s?(?P<before>{_UNIT}?)\s?(?P<inner>[+−-]?)(?=[{mark}]?\d)(?P<whole>{whole})"
        rf"(?:[{mark}](?P<fraction>\d*))?(?P<power>[eE][+-]?\d+)?\s?(?P<after>{_UNIT}?)"
    )


_NUMBERS: Final = {".": _pattern(".", ","), ",": _pattern(",", ".")}
_ORDERS: Final = {"ymd": (0, 1, 2), "dmy": (2, 1, 0), "mdy": (2, 0, 1)}
"""Where in a date are year, month and day."""
WAYS: Final = (*_NUMBERS, *_ORDERS)


class Written(NamedTuple):
    """How the texts of a column are written.

    `way` is ``"."`` or ``","``, which stands before the fraction of numbers, or the order of a date: ``"dmy"``. `unit`
    is what stands beside the numbers.
    """

    way: str
    unit: str = ""

    @property
    def dates(self) -> bool:
        """Whether the texts are dates."""
        return self.way in _ORDERS

    @property
    def kind(self) -> str:
        """What the texts are, for sentences."""
        named = {"%": "percentages", "": "numbers", "‰": "numbers", "°": "numbers"}
        return "dates" if self.dates else named.get(self.unit, "money")

    def parse(self, text: str) -> float | None:
        """The number of a text, of a date its days since 1970; None where it is written in another way."""
        found = _READ[self.way](self.way, text.strip())
        if found is None and self.dates:  # which can be nothing else
            found = _days("ymd", text.strip())
        return found[0] if found is not None and found[1] in ("", self.unit) else None

    def told(self, text: str) -> str:
        """What a text is read as, for sentences."""
        value = self.parse(text) or 0.0
        return day(value) if self.dates else f"{value:.10g}"


def day(days: float) -> str:
    """Days since 1970 as a date."""
    whole = math.floor(days) + _EPOCH
    return datetime.date.fromordinal(min(max(whole, 1), datetime.date.max.toordinal())).isoformat()


def number(text: str) -> float | None:
    """The number that a text is, if it is one without anything beside it."""
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


def _number(way: str, text: str) -> tuple[float, str] | None:
    found = _NUMBERS[way].fullmatch(text)
    if found is None or (found["sign"] and found["inner"]) or (found["before"] and found["after"]):
        return None
    digits = re.sub(r"\D", "", found["whole"])
    sign = "-" if found["sign"] + found["inner"] in ("-", "−") else ""
    value = float(f"{sign}{digits}.{found['fraction'] or 0}{found['power'] or ''}")
    return value, found["before"] or found["after"]


def _days(way: str, text: str) -> tuple[float, str] | None:
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    parts = [found[1], found[3], found[4]]
    year, month, date = (parts[i] for i in _ORDERS[way])
    if len(year) not in (2, 4) or max(len(month), len(date)) > 2 or (way == "ymd" and len(year) == 2):
        return None
    full = int(year) if len(year) == 4 else int(year) + (2000 if int(year) < 69 else 1900)
    hour, minute, second = int(found[5] or 0), int(found[6] or 0), float(found[7] or 0)
    try:
        days = datetime.date(full, int(month), int(date)).toordinal() - _EPOCH
    except ValueError:
        return None
    if hour > 24 or minute > 59 or second >= 61:
        return None
    zone = (found[8] or "Z").replace(":", "")
    ahead = 0 if zone == "Z" else int(f"{zone[0]}1") * (60 * int(zone[1:3]) + int(zone[3:]))
    return days + (3600 * hour + 60 * (minute - ahead) + second) / 86400, ""


_READ: Final[dict[str, Callable[[str, str], tuple[float, str] | None]]] = {
    **dict.fromkeys(_NUMBERS, _number),
    **dict.fromkeys(_ORDERS, _days),
}


def best(texts: Sequence[str], counts: Sequence[int]) -> tuple[Written | None, int]:
    """The way in which most of some texts are written, and how many of the rows are; None where nothing is certain.

    `counts` are the rows that each text has. ``1,234`` may be a thousand or a fraction, and ``1/2/2024`` is a day of
    January or of February: such texts alone decide nothing.
    """
    found = {way: [_READ[way](way, text) for text in texts] for way in WAYS}
    units = {each[1] for reads in found.values() for each in reads if each is not None} - {""}
    if len(units) > 1:
        return None, 0
    unit = next(iter(units), "")
    fits = {
        way: sum(count for each, count in zip(reads, counts, strict=True) if each is not None)
        for way, reads in found.items()
    }
    most = max(fits.values())
    first, *others = [way for way in WAYS if fits[way] == most]
    if not most or not others or all(found[first] == found[other] for other in others):
        return (Written(first, unit) if most else None), most
    if first not in _NUMBERS:
        return None, most
    bare = sum(count for text, count in zip(texts, counts, strict=True) if re.fullmatch(r"\D*\d{1,3}\D*", text))
    if unit in POINTS:
        return Written(".", unit), most
    if unit in ("", "%", "‰", "°") and 10 * bare < most:
        return None, most
    sizes = {way: sum(abs(each[0]) for each in found[way] if each is not None) for way in (first, *others)}
    return Written(max(sizes, key=lambda way: sizes[way]), unit), most  # the separator is one between thousands
