"""Numbers and dates in text: percent, money, thousands, days; what is uncertain stays text."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from micrograd_core.data import DataError
from micrograd_train import Preparation
from micrograd_train.notices import DataWarning
from micrograd_train.tables import preparation
from micrograd_train.tables.written import Written, best

pytest.importorskip("pyarrow")
DAY = (datetime.date(2024, 5, 31) - datetime.date(1970, 1, 1)).days


@pytest.mark.parametrize(
    ("way", "unit", "text", "value"),
    [
        (".", "%", "24%", 24), (".", "%", " 24.5 % ", 24.5), (".", "%", "24", 24), (".", "", "24%", None),
        (".", "$", "$1,000.20", 1000.2), (".", "$", "-$5", -5), (".", "$", "$-5", -5), (".", "$", "1.5$", 1.5),
        (".", "$", "€5", None), (".", "$", "$1,00", None), (".", "$", "$1,000,00", None), (".", "USD", "USD 5", 5),
        (".", "", "+3", 3), (".", "", "−3", -3), (".", "", "1e5", 1e5), (".", "", ".5", 0.5), (".", "", "5.", 5),
        (".", "", "1'000.5", 1000.5), (".", "", "1 000", 1000), (".", "", "0,123", None), (".", "", "", None),
        (".", "", ".", None), (".", "", "-", None), (".", "", "1_000", None), (".", "", "٣", 3),
        (",", "€", "1.000,20 €", 1000.2), (",", "€", "1.5 €", None), (",", "", "1,5", 1.5),
        (",", "", "1.234.567", 1234567),
        ("dmy", "", "31.5.2024", DAY), ("dmy", "", "31/05/24", DAY), ("dmy", "", "5.31.2024", None),
        ("dmy", "", "2024-05-31", DAY),
        ("mdy", "", "5/31/2024", DAY), ("ymd", "", "2024-05-31", DAY), ("ymd", "", "2024/5/31", DAY),
        ("ymd", "", "2024-05-31T12:00:00Z", DAY + 0.5), ("ymd", "", "2024-05-31 14:00+02:00", DAY + 0.5),
        ("dmy", "", "31.5.2024 18:00", DAY + 0.75), ("dmy", "", "31.2.2024", None), ("dmy", "", "1.2.3.4", None),
        ("dmy", "", "31.5-2024", None), ("ymd", "", "24-05-31", None),
    ],
)  # fmt: skip
def test_a_text_is_what_it_says(way: str, unit: str, text: str, value: float | None) -> None:
    assert Written(way, unit).parse(text) == value


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["24%", "3 %"], (".", "%")),
        (["$1,234", "$5,678"], (".", "$")),  # money has no three digits after its point
        (["€1.234", "€5.678"], (",", "€")),
        (["$1.234", "$5.678"], (".", "$")),
        (["1,234", "5,678"], None),  # thousands, or fractions
        (["1,234", "5,678", "987"], (".", "")),
        (["1,234", "5,678.5"], (".", "")),
        (["1.234,5", "5"], (",", "")),
        (["1/2/2024", "2/1/2024"], None),
        (["1/2/2024", "13/1/2024"], ("dmy", "")),
        (["1/2/2024", "1/13/2024"], ("mdy", "")),
        (["1/1/2024", "2/2/2024"], ("dmy", "")),  # which is the same either way
        (["$5", "€5"], None),
        (["a", "b"], None),
    ],
)
def test_columns_show_how_they_are_written(texts: list[str], expected: tuple[str, str] | None) -> None:
    assert best(texts, [1] * len(texts))[0] == (None if expected is None else Written(*expected))


NUMBERS = st.integers(-(10**9), 10**9).map(lambda cents: cents / 100)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.lists(NUMBERS, min_size=3, max_size=30, unique=True), st.sampled_from("$ € %".split()), st.booleans())
def test_numbers_are_the_same_however_they_are_written(values: list[float], unit: str, commas: bool) -> None:
    texts = [f"{each:,.2f}{unit}" for each in values]
    if commas:
        texts = [each.translate({44: 46, 46: 44}) for each in texts]
    with pytest.warns(DataWarning, match="is read as"):
        made = Preparation.fit({"x": texts})
    expected = Preparation.fit({"x": values}).apply({"x": values})[0]
    np.testing.assert_array_equal(made.apply({"x": texts})[0], expected)
    np.testing.assert_array_equal(made.apply({"x": values})[0], expected)  # as a file with real numbers has them
    again = Preparation.from_json(json.dumps(made.to_json()))
    assert again == made
    assert made.texts == ["x"]


@settings(derandomize=True, max_examples=100, deadline=None)
@given(
    st.lists(st.dates(datetime.date(1000, 1, 1)), min_size=2, max_size=20, unique=True),
    st.sampled_from(["{d}.{m}.{y}", "{m}/{d}/{y}", "{y}/{m:02}/{d:02}", "{y}-{m:02}-{d:02}", "{d:02}-{m:02}-{y}"]),
)
def test_dates_are_the_same_however_they_are_written(days: list[datetime.date], how: str) -> None:
    days = [*days, datetime.date(2024, 5, 31)]  # which is a date in one way only
    texts = [how.format(y=each.year, m=each.month, d=each.day) for each in days]
    with pytest.warns(DataWarning, match="is read as dates"):
        made = Preparation.fit({"x": texts})
    np.testing.assert_array_equal(made.apply({"x": texts})[0], Preparation.fit({"x": days}).apply({"x": days})[0])
    np.testing.assert_array_equal(made.apply({"x": days})[0], made.apply({"x": texts})[0])


def test_targets_are_read_as_columns_are() -> None:
    table = {"x": [1, 2, 3, 4], "y": ["$1,000.20", "$2", "$3.50", "$4"]}
    with pytest.warns(DataWarning, match=r"'y' is read as money: '\$1,000.20' is 1000.2; categories=\['y'\] keeps"):
        made = Preparation.fit(table, "y")
    assert made.reason == "the target 'y' holds money: regression"
    np.testing.assert_allclose(made.inverse(made.apply(table)[1]), [1000.2, 2, 3.5, 4], rtol=1e-5)
    assert Preparation.fit(table, "y", categories=["y"]).classes == ("$1,000.20", "$2", "$3.50", "$4")
    table = {"x": [1, 2, 3, 4], "y": ["No", " no ", "yes", "No"]}
    with pytest.warns(DataWarning, match="'y' writes the same in several ways, taken as one: ' no ' and 'No'"):
        made = Preparation.fit(table, "y")
    assert (made.classes, made.apply({"x": [1], "y": ["YES"]})[1].tolist()) == (("No", "yes"), [1])
    assert Preparation.fit(table, "y", categories=["y"]).classes == ("No", "no", "yes")


def test_what_is_written_otherwise_is_refused() -> None:
    with pytest.warns(DataWarning):
        made = Preparation.fit({"x": ["5%", "6%", "7.5%"]})
    with pytest.raises(DataError, match=r"row 2, column 'x': the text '\$5' stands where a number belongs, .* in %"):
        made.apply({"x": ["5%", "$5"]})
    with pytest.warns(DataWarning):
        made = Preparation.fit({"x": ["31.5.2024", "1.6.2024"]})
    with pytest.raises(DataError, match="row 1, column 'x': the text '5/31/2024' stands where a date belongs"):
        made.apply({"x": ["5/31/2024"]})


# ── categories ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_case_of_letters_and_spaces_tell_nothing() -> None:
    table = {"x": ["No", " no ", "Yes", "YES", "No", None]}
    with pytest.warns(DataWarning, match=r"taken as one: ' no ', 'No', 'YES' and 'Yes'; categories=\['x'\] keeps"):
        made = Preparation.fit(table)
    assert made.names == ["x=No", "x=YES", "x is missing"]
    assert made.apply({"x": ["NO", "yes "]})[0].tolist() == [[1, 0, 0], [0, 1, 0]]
    with pytest.raises(DataError, match="the category 'maybe' was never seen"):
        made.apply({"x": ["maybe"]})
    assert Preparation.fit(table, categories=["x"]).names == [
        "x=No", "x=YES", "x=Yes", "x=no", "x is missing",
    ]  # fmt: skip


def many(levels: int, rows: int) -> dict[str, Any]:
    return {"k": [f"k{i // 2 % levels if i % 2 else i % 7}" for i in range(rows)], "x": [*range(rows)]}


def test_rare_ones_of_very_many_categories_share_an_input() -> None:
    table = many(900, 4000)
    with pytest.warns(DataWarning) as caught:
        made = Preparation.fit(table, ignore=["x"])
    assert str(caught[0].message) == (
        "the column 'k' has 900 different texts: the 256 commonest have an input each, and all others one together; "
        "categories=['k'] gives each its own, and ignore=['k'] leaves the column out"
    )
    assert len(made.names) == 257
    assert made.names[-1] == "k is another"
    x, _ = made.apply(table)
    assert (x.sum(axis=1) == 1).all()
    (column,) = made.columns
    rare = next(each for each in table["k"] if each not in column.values)  # type: ignore[union-attr]
    assert made.apply({"k": [rare, "never seen"]})[0][:, -1].tolist() == [1, 1]
    with pytest.raises(DataError, match="nothing stands there"):
        made.apply({"k": [None]})
    assert len(Preparation.fit(table, ignore=["x"], categories=["k"]).names) == 900


def test_what_would_not_fit_into_memory_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "most_bytes", lambda: 4 << 20)
    table = many(900, 4000)
    sentence = (
        r"4,000 rows of 900 inputs would take 13 MiB, and at most \d MiB, .* The column 'k' makes 900 of them: leave "
        r"it out with ignore=\['k'\], or give fewer rows at a time"
    )
    with pytest.raises(DataError, match=sentence):
        Preparation.fit(table, ignore=["x"], categories=["k"])
    monkeypatch.setattr(preparation, "most_bytes", lambda: 8 << 20)
    made = Preparation.fit(many(900, 1800), ignore=["x"], categories=["k"])
    monkeypatch.setattr(np, "empty", None)
    with pytest.raises(DataError, match=sentence):
        made.apply(table)


# ── files of the version before ──────────────────────────────────────────────────────────────────────────────

BEFORE = {
    "preparation": 1,
    "columns": [
        {"kind": "number", "name": "a", "dates": False, "fill": 2.0, "center": 2.0, "scale": 1.0, "indicator": True},
        {"kind": "category", "name": "s", "type": "text", "values": ["Yes", "no"], "missing": False,
         "encoding": "one-hot"},
    ],
    "goal": {
        "name": "y", "task": "classification", "reason": "", "type": "text", "classes": ["b", "c"],
        "center": 0.0, "scale": 1.0,
    },
    "left_out": {},
    "unseen": "error",
}  # fmt: skip


def test_a_preparation_of_version_1_does_what_it_did() -> None:
    made = Preparation.from_json(json.dumps(BEFORE))
    assert made.apply({"a": [3, None], "s": ["Yes", "no"]})[0].tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]
    with pytest.raises(DataError, match="the category 'yes' was never seen"):
        made.apply({"a": [3], "s": ["yes"]})
    assert made.to_json()["preparation"] == 2
    assert Preparation.from_json(made.to_json()) == made
