"""Tables as people have them: what is read as it is meant, what is refused with a sentence, and what is said of it."""

from __future__ import annotations

import csv
import datetime
import html
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from micrograd_core.tools.cli import main
from micrograd_train import read

HEAD = ["Kunde", "seit", "Länge", "Größe", "aktiv", "Farbe", "Stadt"]
TARGET = ["--target", "Stadt"]
QUICK = ["--epochs", "2", "--hidden", "4"]
Cells = list[list[str]]


def customers(count: int = 60, seed: int = 0) -> Cells:
    """Rows with numbers of customers, dates, empty cells, truth values, and names with letters of all kinds."""
    draw = random.Random(seed)
    rows = []
    for i in range(count):
        town = draw.randrange(3)
        since = datetime.date(2023, 1, 1) + datetime.timedelta(days=draw.randrange(600))
        length = "" if i % 11 == 5 else f"{draw.gauss(2 * town, 1):.3f}"
        rows.append([
            f"KD-{1000 + i}", since.isoformat(), length, f"{1000 * draw.gauss(-town, 1):.2f}",
            draw.choice(["true", "false"]), draw.choice(["rot", "grün", ""]), ["Zürich", "Łódź", "São Paulo"][town],
        ])  # fmt: skip
    return rows


def written(path: Path, rows: Cells, head: list[str] = HEAD, delimiter: str = ",", encoding: str = "utf-8") -> str:
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([head, *rows])
    return str(path)


def each(column: int, change: Callable[[str], str]) -> Cells:
    """Customers with one column written in another way."""
    return [[*row[:column], change(row[column]), *row[column + 1 :]] for row in customers()]


def european(rows: Cells) -> Cells:
    return [[cell.replace(".", ",") if i in (2, 3) else cell for i, cell in enumerate(row)] for row in rows]


@pytest.mark.parametrize(
    ("rows", "how"),
    {
        "a mark at its beginning": (customers(), {"encoding": "utf-8-sig"}),
        "what spreadsheets call Unicode": (customers(), {"encoding": "utf-16", "delimiter": "\t"}),
        "semicolons and commas": (european(customers()), {"delimiter": ";"}),
        "the same with a mark": (european(customers()), {"delimiter": ";", "encoding": "utf-8-sig"}),
        "tabs and commas": (european(customers()), {"delimiter": "\t"}),
    }.values(),
)
def test_all_ways_to_write_a_table_are_the_same_table(tmp_path: Path, rows: Cells, how: dict[str, Any]) -> None:
    plain = read(written(tmp_path / "plain.csv", customers()))
    assert read(written(tmp_path / "my.csv", rows, **how)).equals(plain)


@pytest.mark.parametrize(
    ("cells", "delimiter", "expected"),
    [
        (["1,5", "2", "-3,25"], ";", [1.5, 2.0, -3.25]),
        (["1.234,5", "12", "1.234.567,25"], ";", [1234.5, 12.0, 1234567.25]),
        (["1,5", "", "x"], ";", ["1,5", None, "x"]),
        (["1,5", "", "2,5"], "\t", [1.5, None, 2.5]),
        (["1,234", "5,678"], ";", ["1,234", "5,678"]),  # thousands, or fractions: nothing tells
        (["1,5", "3"], ",", ["1,5", "3"]),  # where commas separate, these are lists
        (["1.5", "3"], ";", [1.5, 3.0]),
        (["1,5,6", "3"], ";", ["1,5,6", "3"]),
    ],
)
def test_commas_are_fractions_where_that_is_certain(
    tmp_path: Path, cells: list[str], delimiter: str, expected: list[Any]
) -> None:
    path = written(tmp_path / "a.csv", [["k", cell] for cell in cells], ["kind", "x"], delimiter)
    assert read(path)["x"].to_pylist() == expected


def test_one_column_tells_of_the_others(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", [["1,234", "1,5"], ["5,678", "2,5"]], ["x", "y"], ";")
    assert read(path)["x"].to_pylist() == [1.234, 5.678]


def test_three_commands_with_european_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "my.csv", european(customers(120)), delimiter=";")
    new = [[*row[:3], "1,234", *row[4:-1]] for row in european(customers(4, seed=1))]  # thousands, for all one knows
    written(tmp_path / "new.csv", new, HEAD[:-1], ";")
    assert main(["train", "my.csv", *TARGET, "--epochs", "30"]) == 0
    assert float(capsys.readouterr().out.split()[2].rstrip("%")) > 60
    assert main(["predict", "runs/my", "new.csv", "--out", "predictions.csv"]) == 0
    with Path("predictions.csv").open(encoding="utf-8") as file:
        found = list(csv.DictReader(file, delimiter=";"))  # as it came, and numbers with its commas
    assert [row["Größe"] for row in found] == ["1,234"] * 4
    assert re.fullmatch(r"[01],\d+|\d,\d+e-\d+", found[0]["probability of Zürich"])
    assert {row["predicted Stadt"] for row in found} <= {"Zürich", "Łódź", "São Paulo"}


@pytest.mark.parametrize(
    ("rows", "note"),
    {
        "names": (customers(), r"'Kunde' is left out: it has 60 different texts .*; --categories Kunde takes it in"),
        "dates": (
            each(1, lambda day: "{2}.{1}.{0}".format(*map(int, day.split("-")))),
            r"'seit' is read as dates: '\d+\.\d+\.202\d' is 202\d-\d\d-\d\d; --categories seit keeps the texts",
        ),
        "money": (each(3, lambda x: f"{x} €"), r"'Größe' is read as money: '(-?[\d.]+) €' is (-?[\d.]+); --categories"),
        "shares": (each(3, lambda x: f"{x}%"), r"'Größe' is read as percentages: '-?[\d.]+%' is -?[\d.]+;"),
        "thousands": (each(3, lambda x: f"{float(x):,.2f}"), r"'Größe' is read as numbers: '-?\d,\d+\.\d\d' is "),
        "unclear dates": (
            each(1, lambda day: "/".join([day[9:].replace("0", "1"), *day.split("-")[1::-1]])),
            "'seit' .* can be read in two ways; write dates as 2024-05-31",
        ),
        "no date": (
            [
                [*row[:1], "never" if i == 4 else f"{row[1][8:]}.{row[1][5:7]}.{row[1][:4]}", *row[2:]]
                for i, row in enumerate(customers())
            ],
            r"row 5 \(line 6 of my.csv\), column 'seit': 'never' is no date, and most others are one",
        ),
        "postal codes": (
            [[["01001", "90210"][i % 2], *row[1:]] for i, row in enumerate(customers())],
            "'Kunde' is taken as text: '01001' begins with a zero, which a number would lose",
        ),
        "cases": (
            [[*row[:5], ["red", " Red", "RED ", "blue"][i % 4], row[6]] for i, row in enumerate(customers())],
            "'Farbe' writes the same in several ways, taken as one: ' Red', 'RED ' and 'red'; --categories Farbe keeps",
        ),
        "cases of the target": (
            [[*row[:6], row[6].upper() if i % 3 else f" {row[6]}"] for i, row in enumerate(customers())],
            "'Stadt' writes the same in several ways",
        ),
        "places": (
            [[str(i), *row[1:]] for i, row in enumerate(customers())],
            "'Kunde' counts the rows, from 0 to 59; .* leave it out with --ignore Kunde",
        ),
    }.values(),
)
def test_what_is_probably_not_meant_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rows: Cells, note: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", written(tmp_path / "my.csv", rows), *TARGET, *QUICK]) == 0
    said = capsys.readouterr().err
    assert re.search(note, said)
    assert "=['" not in said
    page = html.unescape(Path("runs/my/report.html").read_text(encoding="utf-8"))
    assert re.search(note, page)
    assert "=['" not in page


OTHER = next(row for row in customers() if row[6] != customers()[0][6])
REFUSED: dict[str, tuple[Cells, dict[str, Any], str]] = {
    "a head": ([], {}, "a table without rows; there is nothing to learn from"),
    "one row": (customers(1), {}, "is '.*' in all rows; there is nothing to learn"),
    "two rows": (
        [customers()[0], OTHER],
        {},
        "occurs once, in row 1, and cannot be in more than one part; add rows of it, leave that row out$",
    ),
    "one class": (each(6, lambda town: "Bern"), {}, "'Stadt' is 'Bern' in all rows; there is nothing to learn"),
    "two of a name": (
        customers(),
        {"head": [*HEAD[:3], "Länge", *HEAD[4:]]},
        "more than one column 'Länge'; give each a name of its own",
    ),
    "another encoding": (
        each(6, lambda town: town[0].replace("Ł", "L")),
        {"encoding": "cp1252"},
        "not UTF-8 text: line 1 has a byte 0xe4; save it as UTF-8$",
    ),
    "an empty target": (
        [*customers()[:3], [*customers()[3][:6], ""], *customers()[4:]],
        {},
        "'Stadt' is missing in row 4; fill in what belongs there",
    ),
    "a cell too many": (
        [*customers()[:3], [*customers()[3], "?"], *customers()[4:]],
        {},
        "line 5 of my.csv has 8 cells, and the first line 7",
    ),
}


@pytest.mark.parametrize("case", ["nothing", *REFUSED])
def test_what_cannot_be_learned_from_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if case == "nothing":
        Path("my.csv").touch()
        sentence = "'my.csv' is empty"
    else:
        rows, how, sentence = REFUSED[case]
        written(tmp_path / "my.csv", rows, **how)
    assert main(["train", "my.csv", *TARGET, *QUICK]) == 2
    assert re.search(sentence, capsys.readouterr().err.strip())
    assert [each.name for each in tmp_path.iterdir()] == ["my.csv"]


def test_columns_are_left_out_and_taken_as_kinds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "my.csv", [[str(i % 4), *row[1:]] for i, row in enumerate(customers())])
    words = ["train", "my.csv", *TARGET, *QUICK, "--ignore", "seit", "Länge", "--categories", "Kunde"]
    assert main(words) == 0
    assert main(["inspect", "runs/my"]) == 0
    said = capsys.readouterr().out
    assert "left out: seit: it was to be ignored" in said
    assert re.search(r"Kunde +.*0, 1, 2", said)
    assert main(["train", "--config", "runs/my/config.toml", "--out", "again"]) == 0
    assert main(["inspect", "again"]) == 0
    assert "left out: Länge: it was to be ignored" in capsys.readouterr().out
    assert main(["train", "my.csv", *TARGET, "--ignore", "Seit"]) == 2
    assert "there is no column 'Seit' for ignore" in capsys.readouterr().err
    assert main(["train", "digits", "--ignore", "pixel_0_0"]) == 2
    assert "digits has no columns, and --ignore is for tables" in capsys.readouterr().err


def test_a_new_kind_is_refused_with_the_option_that_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "my.csv", customers())
    written(tmp_path / "new.csv", each(5, lambda colour: "blau"))
    assert main(["train", "my.csv", *TARGET, *QUICK]) == 0
    assert main(["predict", "runs/my", "new.csv"]) == 2
    assert "With --unseen missing such rows count as missing" in capsys.readouterr().err
    assert main(["predict", "runs/my", "new.csv", "--unseen", "missing", "--out", "a.csv"]) == 0
