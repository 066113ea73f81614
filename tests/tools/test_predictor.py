"""`load_predictor` and ``micrograd predict``: rows of all kinds have the same answers, and come back as they were."""

from __future__ import annotations

import csv
import datetime
import io
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from micrograd_core.checkpoints import CheckpointError
from micrograd_core.data import DataError
from micrograd_core.tools.cli import main
from micrograd_train import load_predictor, read
from micrograd_train.notices import DataWarning
from tests.tools.flowers import rows, table
from tests.tools.houses import HEAD, houses

pa = pytest.importorskip("pyarrow")
BEFORE = Path(__file__).parent / "before"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Networks that predict a price and a kind of a house, and a species; and the tables that they learned from."""
    folder = tmp_path_factory.mktemp("predictor")
    houses(folder / "houses.csv")
    path = str(table(folder))
    words = ["--epochs", "5", "--hidden", "8"]
    for target in ("price", "kind"):
        made = ["train", str(folder / "houses.csv"), "--target", target, *words, "--out", str(folder / target)]
        assert main(made) == 0
    assert main(["train", path, "--target", "species", *words, "--out", str(folder / "species")]) == 0
    return folder


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["predict", *words]) == 0
    return capsys.readouterr().out


# ── the answers ──────────────────────────────────────────────────────────────────────────────────────────────


def kinds(path: Path) -> dict[str, Any]:
    """The same rows as everything that has rows."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    with path.open(encoding="utf-8", newline="") as file:
        texts = [{name: cell or None for name, cell in row.items()} for row in csv.DictReader(file)]
    typed = read(path)
    columns = {name: [row[name] for row in texts] for name in texts[0]}
    return {
        "a path": path,
        "the name of a file": str(path),
        "a dict of columns": typed.to_pydict(),
        "a dict of arrays": {name: np.array(column, dtype=object) for name, column in columns.items()},
        "a list of dicts": typed.to_pylist(),
        "a list of texts": texts,
        "an arrow table": typed,
        "a pandas frame": typed.to_pandas(),
        "a pandas frame of texts": pd.DataFrame(columns),
        "a polars frame": pl.from_arrow(typed),
        "a polars frame of texts": pl.DataFrame(columns),
    }


KINDS = (
    "a path", "the name of a file", "a dict of columns", "a dict of arrays", "a list of dicts", "a list of texts",
    "an arrow table", "a pandas frame", "a pandas frame of texts", "a polars frame", "a polars frame of texts",
)  # fmt: skip


@pytest.mark.parametrize("target", ["price", "kind", "species"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_predictor_says_what_the_command_says(
    kind: str, target: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / ("my.csv" if target == "species" else "houses.csv")
    predictor = load_predictor(folder / target)
    given = kinds(path)
    assert sorted(given) == sorted(KINDS)
    expected = json.loads(said(capsys, str(folder / target), str(path), "--json"))["predictions"]
    found = predictor.predict(given[kind])
    assert found.tolist() == [row[f"predicted {target}"] for row in expected]
    if target == "price":
        with pytest.raises(DataError, match="'price' is a number, and has no probabilities; use predict"):
            predictor.probabilities(given[kind])
        return
    chances = [[row[f"probability of {name}"] for name in predictor.classes] for row in expected]
    np.testing.assert_array_equal(predictor.probabilities(given[kind]), chances)


def test_arrays_have_the_columns_in_their_order(folder: Path) -> None:
    predictor = load_predictor(folder / "species")
    frame = read(folder / "my.csv")
    expected = predictor.predict(frame)
    assert predictor.columns == ("length", "width", "colour")
    rows = np.array([frame[name].to_pylist() for name in predictor.columns], dtype=object).T
    assert predictor.predict(rows).tolist() == expected.tolist()
    assert predictor.predict(rows.astype(str)).tolist() == expected.tolist()
    named = np.array([*map(tuple, rows)], dtype=[("length", float), ("width", float), ("colour", "U4")])
    assert predictor.predict(named[["colour", "width", "length"]]).tolist() == expected.tolist()
    with pytest.raises(DataError, match=r"\(rows, 3\), for 'length', 'width' and 'colour'; got \(90, 2\)"):
        predictor.predict(rows[:, :2])


def test_images_are_arrays_and_pixels_are_columns(tmp_path: Path) -> None:
    from micrograd_train import sets

    assert main(["train", "digits", "--epochs", "1", "--hidden", "8", "--out", str(tmp_path / "digits")]) == 0
    predictor = load_predictor(tmp_path / "digits")
    digits = sets.load("digits")
    flat = digits.x[:5].reshape(5, -1)
    found = predictor.predict(flat)
    assert found.tolist() == predictor.predict(dict(zip(digits.names, flat.T, strict=True))).tolist()
    assert set(found.tolist()) <= set(digits.classes)


def test_one_dict_of_values_is_one_row(folder: Path) -> None:
    predictor = load_predictor(str(folder / "species" / "model.safetensors"))
    assert predictor.predict({"length": 1.4, "width": 3.4, "colour": "red"}).shape == (1,)
    assert repr(predictor) == "<Predictor of 'species' (classification) from length, width, colour>"


def test_what_rows_get_wrong_is_said(folder: Path) -> None:
    predictor = load_predictor(folder / "species")
    good = {"length": [1.4, 5.1], "width": [3.4, 3.0], "colour": ["red", "blue"]}
    for changed, words in (
        ({"colour": ["red", "green"]}, r"row 2, column 'colour': the category 'green' was never seen;"),
        ({"colour": ["red", None]}, r"row 2, column 'colour': nothing stands there"),
        ({"width": ["3.4", "wide"]}, r"row 2, column 'width': the text 'wide' stands where a number belongs"),
        ({"width": [3.4, "wide"]}, r"in the column 'width', .*'wide'"),
        ({"width": [[1], [2]]}, r"the column 'width' holds list<.*>, and numbers belong there"),
        ({"width": [3.4]}, r"not a table: .*length"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=words):
            predictor.predict({**good, **changed})
    with pytest.raises(DataError, match="the table lacks the column 'width'; it has 'length' and 'colour'"):
        predictor.predict({name: good[name] for name in ("length", "colour")})
    with pytest.raises(DataError, match="a table is .* got a int"):
        predictor.predict(3)
    assert load_predictor(folder / "species", unseen="missing").predict({**good, "colour": ["x", "y"]}).shape == (2,)
    with pytest.raises(DataError, match="unseen is one of 'error' and 'missing'; got 'skip'"):
        load_predictor(folder / "species", unseen="skip")
    with pytest.raises(CheckpointError):
        load_predictor(folder)


@pytest.mark.parametrize("target", ["species", "length"])
def test_what_the_version_before_wrote_says_what_it_said(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(tmp_path)
    found = csv.DictReader(io.StringIO(said(capsys, str(BEFORE / f"{target}.safetensors"), str(path))))
    expected = json.loads((BEFORE / "said.json").read_text())[target]
    (name,) = {name for row in expected for name in row if name == f"predicted {target}"}
    for row, before in zip(found, expected, strict=False):  # the first rows
        if target == "species":
            assert row[name] == before[name]
        for each, x in before.items():
            if each != "predicted species":
                assert float(row[each]) == pytest.approx(float(x), rel=1e-4)
    assert main(["inspect", str(BEFORE / f"{target}.safetensors")]) == 0


# ── what was given ───────────────────────────────────────────────────────────────────────────────────────────

TEXTS = st.one_of(
    st.sampled_from(
        [
            *[
                "",
                " ",
                "007",
                "1e5",
                "+3",
                "24%",
                "$1,000.20",
                "31.5.2024",
                "NA",
                "null",
                "-",
                "?",
                "true",
                "1.50",
                "'",
            ],
            *["1,5", "1234567.89", "12345678901234567890", "2024-05-31", "12:30", " x ", '"', '""', "a\nb", "a\r\nb"],
            *[";", "\t", "é"],
        ]
    ),
    st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufeff"), max_size=6),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.data())
def test_the_fields_of_a_file_come_back_as_they_stood(folder: Path, data: st.DataObject) -> None:
    delimiter = data.draw(st.sampled_from(",;\t"))
    quoting = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
    known = [line.split(",")[:3] for line in rows(data.draw(st.integers(1, 5)))]
    count, names = len(known) - 1, [" a", "b;,", 'c"', "", "é"][: data.draw(st.integers(1, 5))]
    own = [data.draw(st.lists(TEXTS, min_size=count, max_size=count)) for _ in names]
    cells = [[*known[0], *names], *([*row, *more] for row, more in zip(known[1:], zip(*own, strict=True), strict=True))]
    with tempfile.TemporaryDirectory() as place:
        path, out = Path(place, "new.csv"), Path(place, data.draw(st.sampled_from(["out.csv", "out.tsv"])))
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=delimiter, quoting=quoting).writerows(cells)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # a column without a name
            assert main(["predict", str(folder / "species"), str(path), "--out", str(out)]) == 0
        separator = "\t" if out.suffix == ".tsv" else ";" if delimiter == ";" else ","
        with out.open(encoding="utf-8", newline="") as file:
            found = [*csv.reader(file, delimiter=separator)]
    assert [row[: len(cells[0])] for row in found] == cells
    assert found[0][len(cells[0])] == "predicted species"


def test_the_types_of_a_frame_come_back_as_they_were(folder: Path, tmp_path: Path) -> None:
    import decimal

    import pyarrow.parquet

    given = {
        **{name: pa.array(column) for name, column in read(folder / "my.csv").slice(0, 2).to_pydict().items()},
        "i": pa.array([2**63 - 1, None], "int64"),
        "f": pa.array([1234567.89, float("nan")], "float64"),
        "g": pa.array([0.1, None], "float32"),
        "d": pa.array([decimal.Decimal("1.50"), None]),
        "t": pa.array([0, 1], pa.timestamp("ns", "UTC")),
        "c": pa.array(["x", None]).dictionary_encode(),
        "l": pa.array([[1, 2], []]),
        "b": pa.array([b"\0", None]),
    }
    frame = pa.table(given)
    pyarrow.parquet.write_table(frame, tmp_path / "new.parquet")
    for out in ("out.parquet", "out.csv"):
        assert (
            main(["predict", str(folder / "species"), str(tmp_path / "new.parquet"), "--out", str(tmp_path / out)]) == 0
        )
    found = pyarrow.parquet.read_table(tmp_path / "out.parquet").select(frame.column_names)
    assert found.schema.types == frame.schema.types
    assert found.drop_columns(["f"]).equals(frame.drop_columns(["f"]))
    assert str(found["f"].to_pylist()) == str([1234567.89, float("nan")])
    (row, _) = csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text()))
    assert [row[name] for name in "ifgd"] == ["9223372036854775807", "1234567.89", "0.1", "1.50"]


def test_what_was_trained_on_texts_is_read_from_them(folder: Path) -> None:
    predictor = load_predictor(folder / "price")
    row = dict(
        zip(HEAD, ["01001", "$20,000.50", "40.0%", "31.5.2018", " NO ", "+4", "30", "true", "large"], strict=False)
    )
    typed = {
        **row,
        "tax": 20000.5,
        "share": 40,
        "sold": datetime.date(2018, 5, 31),
        "garage": "no",
        "rooms": 4,
        "age": 30,
    }
    columns = {name: [cell] for name, cell in typed.items()}
    assert predictor.predict(row).tolist() == predictor.predict(columns).tolist()
    with pytest.raises(DataError, match=r"row 1, column 'tax': the text '€5' stands where a number belongs, .* in \$"):
        predictor.predict({**row, "tax": "€5"})
