"""From tables to numbers: the same years later, on other rows; and what cannot be learned from, by row and column."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import micrograd_core as mg
from micrograd_core.data import DataError
from micrograd_train import Preparation, read, sets
from micrograd_train.notices import DataWarning

pa = pytest.importorskip("pyarrow")
fit = Preparation.fit


# ── what becomes of columns ──────────────────────────────────────────────────────────────────────────────────


def test_numbers_are_standardised_and_what_is_missing_becomes_their_mean() -> None:
    made = fit({"a": [1.0, 2.0, 6.0, None, math.nan], "b": [1, 0, 0, 0, 0]})
    x, y = made.apply({"b": [0, 1], "a": [3.0, None], "else": ["x", "y"]})
    assert (made.names, y, x.dtype) == (["a", "a is missing", "b"], None, np.float32)
    spread = np.std([1, 2, 6])
    np.testing.assert_allclose(x, [[0, 0, -0.5], [0, 1, 2]], atol=1e-6)
    np.testing.assert_allclose(made.apply({"a": [3 + spread], "b": [0]})[0][0, 0], 1, rtol=1e-6)
    made = fit({"a": [1.0, 2.0, 6.0, None]}, missing="median", indicator=False, standardize=False)
    assert made.apply({"a": [5, None]})[0].tolist() == [[5], [2]]


def test_numbers_of_all_types() -> None:
    import decimal

    expected = (np.arange(4) - 1.5) / np.sqrt(1.25)
    for values in (
        pa.array([0, 1, 2, 3], "uint8"), pa.array([0, 1, 2, 3], "float32"), [decimal.Decimal(i) for i in range(4)],
        pa.array(np.arange(4, dtype="float16")),
    ):  # fmt: skip
        np.testing.assert_allclose(fit({"a": values}).apply({"a": values})[0][:, 0], expected, rtol=1e-6)
    text = fit({"a": [0, 1, 2, 3]}).apply({"a": ["0", " 1 ", "2.0", ""]})[0][:, 0]
    np.testing.assert_allclose(text, [*expected[:3], 0], atol=1e-6)


def test_numbers_at_the_edges_of_what_there_is() -> None:
    for values in ([1e308, -1e308, 5e307], [1e-300, 0.0, 5e-301], [1e16, 1e16 + 2, 1e16 + 4], [2**63 - 1, 0, 5]):
        x, _ = fit({"a": values}).apply({"a": values})
        assert np.isfinite(x).all(), values
        assert len(set(x[:, 0].tolist())) > 1


def test_dates_are_numbers() -> None:
    day = datetime.date(2024, 1, 1)
    dates = [day, day + datetime.timedelta(1), day + datetime.timedelta(2)]
    times = [datetime.datetime(each.year, each.month, each.day) for each in dates]
    expected = (np.arange(3) - 1) / np.sqrt(2 / 3)
    made = fit({"a": dates})
    for values in (
        dates, times, pa.array(times, pa.timestamp("ns")), pa.array(times, pa.timestamp("s", "UTC")),
        pa.array(dates, "date64"),
    ):  # fmt: skip
        np.testing.assert_allclose(made.apply({"a": values})[0][:, 0], expected, rtol=1e-6)
    for values in ([datetime.time(i) for i in range(3)], [datetime.timedelta(i) for i in range(3)]):
        np.testing.assert_allclose(fit({"a": values}).apply({"a": values})[0][:, 0], expected, rtol=1e-6)
    assert made.apply({"a": [None, day]})[0][0, 0] == 0


def test_categories() -> None:
    table = {"s": ["b", "a", None, " b "], "t": [True, False, None, True], "n": [3, 1, 3, 1]}
    with pytest.warns(
        DataWarning, match=r"the column 's' writes the same in several ways, taken as one: ' b ' and 'b'"
    ):
        made = fit(table, categories=["n"])
    names = "s=a, s=b, s is missing, t=False, t=True, t is missing, n=1, n=3"
    assert made.names == names.split(", ")
    assert made.apply(table)[0].tolist() == [
        [0, 1, 0, 0, 1, 0, 0, 1], [1, 0, 0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1, 0, 1], [0, 1, 0, 0, 1, 0, 1, 0],
    ]  # fmt: skip
    other = {"s": [None, "b"], "t": ["true", "False"], "n": [1.0, 3.0]}  # as other files might have them
    assert made.apply(other)[0].tolist() == [[0, 0, 1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 0, 0, 1]]
    assert made.apply({"s": ["a"], "t": [1], "n": ["3"]})[0].tolist() == [[1, 0, 0, 0, 1, 0, 0, 1]]
    with pytest.warns(DataWarning):
        made = fit(table, categories=["n"], categorical="index")
    assert made.names == ["s", "t", "n"]
    assert made.cardinalities == {"s": 3, "t": 3, "n": 3}
    assert made.apply(table)[0].tolist() == [[2, 2, 2], [1, 1, 1], [0, 0, 2], [2, 2, 1]]


def test_categories_of_dictionaries_are_such_whatever_they_hold() -> None:
    table = {"a": pa.array([5, 7, 5]).dictionary_encode(), "b": pa.array(["x", "1", "2"]).dictionary_encode()}
    assert fit(table).names == ["a=5", "a=7", "b=1", "b=2", "b=x"]


def test_text_that_looks_like_numbers_elsewhere() -> None:
    made = fit({"a": ["1", "2", "x", "y"]})
    assert made.apply({"a": [1, 2]})[0].tolist() == made.apply({"a": [1.0, 2.0]})[0].tolist()
    assert fit({"a": ["true", "no"]}).apply({"a": [True, True]})[0].tolist() == [[0, 1], [0, 1]]


def test_what_was_never_seen_may_count_as_missing() -> None:
    table = {"s": ["a", "b", "a"], "t": ["u", None, "v"]}
    made = fit(table, unseen="missing")
    assert made.apply({"s": ["c", None], "t": ["w", "u"]})[0].tolist() == [[0, 0, 0, 0, 1], [0, 0, 1, 0, 0]]
    made = fit(table, unseen="missing", categorical="index")
    assert made.apply({"s": ["c", "b"], "t": ["w", "u"]})[0].tolist() == [[0, 0], [2, 1]]


def test_means_are_those_of_the_rows_to_train_on_and_categories_those_of_all() -> None:
    table = {"a": [0.0, 2.0, 100.0, None], "s": ["x", "y", "z", "z"], "y": [0.5, 1.5, 9.0, 9.0]}
    made = fit(table, "y", rows=np.array([0, 1]))
    x, y = made.apply(table)
    assert x[:, 0].tolist() == [-1, 1, 99, 0]
    assert y.tolist() == [-1, 1, 16, 16]
    assert made.names == ["a", "a is missing", "s=x", "s=y", "s=z"]


def test_what_teaches_nothing_is_left_out_with_a_warning() -> None:
    names = [f"name {i}" for i in range(30)]
    table = {"a": [1.5] * 30, "b": ["x"] * 30, "c": names, "d": [*range(30)], "e": [None, *[2.5] * 29]}
    with pytest.warns(DataWarning) as caught:
        made = fit(table)
    assert [str(each.message) for each in caught] == [
        "the column 'a' is left out: it is 1.5 in all rows",
        "the column 'b' is left out: it is 'x' in all rows",
        "the column 'c' is left out: it has 30 different texts in 30 rows, as names have, and nothing is learned from "
        "those; categories=['c'] takes it in",
        "the column 'd' counts the rows, from 0 to 29; if it is nothing but their number, leave it out with "
        "ignore=['d']",
    ]
    assert caught[0].filename == __file__
    assert made.names == ["d", "e", "e is missing"]
    assert made.apply({"d": [1], "e": [3.5]})[0][0, 1:].tolist() == [1, 0]
    assert [*made.left_out] == ["a", "b", "c"]
    assert len(fit({"c": names}, categories=["c"]).names) == 30
    with pytest.warns(DataWarning, match="it is 3 in all rows to train on"):
        fit({"a": [3, 3, 4], "b": [1, 2, 3]}, rows=[0, 1])
    assert fit({"a": [1, 2], "b": [3, 4]}, ignore="a").names == ["b"]


# ── targets ──────────────────────────────────────────────────────────────────────────────────────────────────

MANY = [*range(25)] * 2


@pytest.mark.parametrize(
    ("values", "task", "reason"),
    [
        (["b", "a", "b", "a"], "classification", "the target 'y' holds text: classification"),
        ([True, False], "classification", "the target 'y' holds truth values: classification"),
        ([10, 9, 10, 9], "classification", "the target 'y' holds integers, of which 2 are different: classification"),
        ([1, 2, 3, 4], "regression", "the target 'y' holds integers, of which 4 are different: regression"),
        (MANY, "regression", "the target 'y' holds integers, of which 25 are different: regression"),
        ([0.0, 1.0, 0.0, 1.0], "regression", "the target 'y' holds numbers: regression"),
    ],
)
def test_the_task_is_found_from_the_target(values: list[Any], task: str, reason: str) -> None:
    table = {"x": [*range(len(values))], "y": values}
    made = fit(table, "y")
    assert (made.task, made.reason, made.target) == (task, reason, "y")
    x, y = made.apply(table)
    assert x.shape == (len(values), 1)
    if task == "classification":
        assert (y.dtype, made.classes) == (np.int64, tuple(sorted(set(values))))
        assert made.inverse(y) == values
        assert made.inverse(mg.asarray(y)) == values
    else:
        assert y.dtype == np.float32
        np.testing.assert_allclose([y.mean(), y.std()], [0, 1], atol=1e-6)
        np.testing.assert_allclose(made.inverse(y), values, atol=1e-5)
    other = "regression" if task == "classification" else "classification"
    if not isinstance(values[0], str):
        made = fit(table, "y", task=other)
        assert made.reason.endswith(f": {other}, as was asked for")
        assert made.task == other
        np.testing.assert_allclose(made.inverse(made.apply(table)[1]), values, atol=1e-5)


def test_targets_stay_as_they_are_where_nothing_is_standardised() -> None:
    table = {"x": [1, 2, 3], "y": [0.5, 1.5, 8.0]}
    x, y = fit(table, "y", standardize=False).apply(table)
    assert (x[:, 0].tolist(), y.tolist()) == (table["x"], table["y"])


def test_tables_to_predict_from_have_no_target_or_nothing_in_it() -> None:
    table = {"x": [1, 2, 3, 4], "y": ["a", "b", "a", "b"]}
    made = fit(table, "y")
    assert made.apply({"x": [5]})[1] is None
    assert made.apply({"x": [5], "y": [None]})[1] is None
    assert made.apply({"x": [5], "y": ["b"]})[1].tolist() == [1]
    assert fit({"x": [1, 2]}).task is None


# ── round trips ──────────────────────────────────────────────────────────────────────────────────────────────

FLOATS = st.floats(-1e30, 1e30, allow_subnormal=False)
WORDS = st.sampled_from(["a", "b", "ü", "1", "0.5", "with space", "x" * 30])
CELLS = {
    "float": FLOATS, "int": st.integers(-(2**53), 2**53), "truth": st.booleans(), "text": WORDS,
    "date": st.dates(datetime.date(1600, 1, 1), datetime.date(2400, 1, 1)),
    "time": st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)),
}  # fmt: skip
TYPES = {
    "float": "float64",
    "int": "int64",
    "truth": "bool",
    "text": "string",
    "date": "date32",
    "time": pa.timestamp("us"),
}


@st.composite
def tables(draw: st.DrawFn) -> Any:
    """Columns of all types, some cells missing; rows that differ in each column but those of truth values and text."""
    n = draw(st.integers(2, 8))
    columns = {}
    for i, kind in enumerate(draw(st.lists(st.sampled_from([*CELLS]), min_size=1, max_size=4))):
        values: list[Any] = draw(st.lists(CELLS[kind], min_size=n, max_size=n, unique=kind not in ("truth", "text")))
        if draw(st.booleans()):
            values[draw(st.integers(0, n - 1))] = None
        column = pa.array(values, TYPES[kind])
        dictionary = kind in ("int", "text") and draw(st.booleans())
        columns[f"{kind} {i}"] = column.dictionary_encode() if dictionary else column
    columns["y"] = pa.array(draw(st.lists(FLOATS, min_size=n, max_size=n, unique=True)))
    return pa.table(columns)


@settings(derandomize=True, max_examples=120, deadline=None)
@given(tables(), st.sampled_from(["one-hot", "index"]), st.sampled_from(["mean", "median"]), st.booleans(), st.data())
def test_a_preparation_is_the_same_after_a_round_trip(
    table: Any, categorical: str, missing: str, standardize: bool, data: st.DataObject
) -> None:
    target = data.draw(st.sampled_from(["y", None]))
    task = data.draw(st.sampled_from(["classification", "regression", None])) if target else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        made = None
        with contextlib.suppress(DataError):  # no column is left, or there is text among numbers
            made = fit(
                table, target, task=task, categorical=categorical, missing=missing, standardize=standardize,
                indicator=data.draw(st.booleans()), unseen=data.draw(st.sampled_from(["error", "missing"])),
            )  # fmt: skip
    assume(made is not None)
    assert made is not None
    again = Preparation.from_json(json.loads(json.dumps(made.to_json(), allow_nan=False)))
    assert again == made
    assert Preparation.from_json(json.dumps(made.to_json())) == made
    x, y = made.apply(table)
    assert x.shape == (table.num_rows, len(made.names))
    assert np.isfinite(x).all()
    for other in (again.apply(table), again.apply(table.select(table.column_names[::-1]))):
        assert other[0].tobytes() == x.tobytes()
        assert (other[1] is None) == (y is None)
        assert y is None or other[1].tobytes() == y.tobytes()
    rows = data.draw(st.lists(st.integers(0, table.num_rows - 1), min_size=1, max_size=5))
    assert made.apply(table.take(rows))[0].tobytes() == x[rows].tobytes()
    if y is not None:
        values = table["y"].to_numpy()
        scale = np.abs(values).max()
        if made.task == "classification":
            assert made.inverse(y) == values.tolist()
        elif standardize:
            np.testing.assert_allclose(np.asarray(made.inverse(y)) / scale, values / scale, atol=1e-6)
    if standardize and missing == "mean":
        for i, name in enumerate(made.names):
            if (
                name in table.column_names
                and name[:4] in ("floa", "int ", "date", "time")
                and name not in made.cardinalities
            ):
                np.testing.assert_allclose(x[:, i].mean(), 0, atol=1e-5)


@pytest.mark.parametrize("name", ["digits", "iris", "wine", "breast_cancer", "diabetes", "moons"])
def test_built_in_sets_through_a_table(name: str, tmp_path: Path) -> None:
    found = sets.load(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # digits have pixels that are always 0
        made = fit(found, found.target)
    x, y = made.apply(found)
    assert made.task == found.task
    if found.classes:
        assert made.inverse(y) == [found.classes[i] for i in found.y]
        assert made.classes == tuple(sorted(found.classes))
    else:
        np.testing.assert_allclose(made.inverse(y), found.y, rtol=1e-4)
    np.testing.assert_allclose(x.astype("float64").mean(0), 0, atol=1e-4)
    assert len(made.names) <= math.prod(found.shape)


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_are_named_with_their_lines_where_those_are_known(tmp_path: Path) -> None:
    path = tmp_path / "my.csv"
    path.write_text("age,sex\n20,f\n30,m\n4x,f\n50,m\n")
    sentence = r"row 3 \(line 4 of my.csv\), column 'age': the text '4x' stands where a number belongs, as 3 other rows"
    with pytest.raises(DataError, match=sentence + r" have one; .* or take the column as categories=\['age'\]"):
        fit(read(path))
    assert len(fit(path, categories=["age"]).names) == 6
    path.write_text('age,sex\n20,"a\nb"\n30,a\n4x,a\n')
    with pytest.raises(DataError, match=r"row 3 of my.csv, column 'age'"):
        fit(path)
    path.write_text("age,sex\n20,f\n30,m\n")
    made = fit(path)
    path.write_text("age,sex\n20,f\nold,m\n")
    with pytest.raises(DataError, match=r"row 2 \(line 3 of my.csv\), column 'age': the text 'old' stands where a num"):
        made.apply(path)
    with pytest.raises(
        DataError, match=r"^row 1, column 'sex': the category 'w' was never seen; known are 'f' and 'm'"
    ):
        made.apply({"age": [1], "sex": ["w"]})


TABLE: dict[str, list[Any]] = {"age": [20, 30, 40, 50], "sex": ["f", "m", "f", "m"], "y": ["a", "b", "b", "a"]}
MADE = fit(TABLE, "y")
PLAIN = MADE.to_json()


def changed(**columns: Any) -> dict[str, Any]:
    return {**TABLE, **columns}


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: fit(TABLE, "why"), r"no column 'why' for target; there are 'age', 'sex' and 'y'$"),
    (lambda: fit(TABLE, "Sex "), r"no column 'Sex ' for target; .*\. Did you mean 'sex'\?"),
    (lambda: fit(TABLE, "y", ignore=["aeg"]), r"no column 'aeg' for ignore; .*\. Did you mean 'age'\?"),
    (lambda: fit(TABLE, "y", categories=["b"]), r"no column 'b' for categories"),
    (lambda: fit(TABLE, "y", ignore=["y"]), r"the column 'y' is the target, and cannot be ignored"),
    (lambda: fit(TABLE, "y", ignore=["sex", "age"]), r"no column is left .* 'sex' \(it was to be ignored\) and 'age'"),
    (lambda: fit({"y": [1, 2]}, "y"), r"no column is left to learn from: there is only the target"),
    (lambda: fit(TABLE, "y", task="cluster"), r"task is one of None, 'classification' and 'regression'; got 'cluster'"),
    (lambda: fit(TABLE, "y", categorical="hash"), r"categorical is one of 'one-hot' and 'index'; got 'hash'"),
    (lambda: fit(TABLE, "y", missing="zero"), r"missing is one of 'mean' and 'median'; got 'zero'"),
    (lambda: fit(TABLE, "y", unseen="skip"), r"unseen is one of 'error' and 'missing'; got 'skip'"),
    (lambda: fit(TABLE, "y", rows=[0, 4]), r"rows go from 0 to 3; got 0 to 4"),
    (lambda: fit(TABLE, "y", rows=[0.5]), r"rows are the numbers of the rows to train on, as split gives them"),
    (lambda: fit(changed(y=["a"] * 4), "y"), r"the target 'y' is 'a' in all rows; there is nothing to learn"),
    (lambda: fit(changed(y=[0.1] * 4), "y"), r"the target 'y' is 0.1 in all rows; there is nothing to learn"),
    (lambda: fit(changed(y=[0.1, 0.1, 1, 1]), "y", rows=[0, 1]), r"is 0.1 in all rows to train on; there is nothing"),
    (lambda: fit(changed(y=[None] * 4), "y"), r"the target 'y' holds nothing, in any row"),
    (lambda: fit(changed(y=[0.5, None, 1, math.nan]), "y"), r"the target 'y' is missing in 2 rows: 2 and 4; fill in"),
    (lambda: fit(changed(y=["a", "b", None, "a"]), "y"), r"the target 'y' is missing in row 3; fill in what belongs"),
    (lambda: fit(changed(y=[0.5, math.inf, 1, 2]), "y"), r"row 2, column 'y': inf is no number to learn from"),
    (lambda: fit(changed(y=[[1]] * 4), "y"), r"the target 'y' holds list<.*>; a target is numbers, text or truth"),
    (lambda: fit(changed(y=["1", "2", "x", "4"]), "y", task="regression"), r"row 3, column 'y': the text 'x' stands"),
    (lambda: fit(changed(y=["u", "v", "x", "4"]), "y", task="regression"), r"row 1, column 'y': the text 'u' stands"),
    (lambda: fit(changed(age=[1, 2, math.inf, 4]), "y"), r"row 3, column 'age': inf is no number to learn from"),
    (lambda: fit(changed(age=["1", "2", "O", "4"]), "y"), r"row 3, column 'age': the text 'O' stands where a number"),
    (lambda: fit(changed(age=[None] * 4), "y"), r"the column 'age' holds nothing, in any row; .* ignore=\['age'\]"),
    (lambda: fit(changed(sex=pa.array([None] * 4, "string")), "y"), r"the column 'sex' holds nothing, in any row"),
    (lambda: fit(changed(age=[math.nan] * 4), "y"), r"the column 'age' holds nothing, in any row"),
    (lambda: fit(changed(age=[None, None, 1, 2]), "y", rows=[0, 1]), r"holds nothing, in any row to train on"),
    (lambda: fit(changed(sex=[""] * 4), "y"), r"the column 'sex' holds nothing, in any row"),
    (lambda: fit(changed(age=[[1]] * 4), "y"), r"'age' holds list<.*>; a feature is a number, .* ignore=\['age'\]"),
    (lambda: fit(changed(age=[b"x"] * 4), "y"), r"'age' holds binary; a feature is a number"),
    (lambda: fit(pa.Table.from_arrays([pa.array([1])] * 2, ["a", "a"])), r"more than one column 'a'"),
    (lambda: MADE.apply({"age": [1]}), r"the table lacks the column 'sex'; it has 'age'$"),
    (lambda: MADE.apply({"Age": [1], "s": [2]}), r"lacks columns 'age' and 'sex'; .*Did you mean 'Age'\?"),
    (lambda: MADE.apply({"age": ["x"], "sex": ["f"]}), r"row 1, column 'age': the text 'x' stands where a number"),
    (lambda: MADE.apply({"age": ["4_0"], "sex": ["f"]}), r"row 1, column 'age': the text '4_0' stands where"),
    (lambda: MADE.apply({"age": [datetime.date(2024, 1, 1)], "sex": ["f"]}), r"'age' holds dates, and numbers belong"),
    (lambda: MADE.apply({"age": [[1]], "sex": ["f"]}), r"the column 'age' holds list<.*>, and numbers belong there"),
    (lambda: MADE.apply({"age": [-math.inf], "sex": ["f"]}), r"row 1, column 'age': -inf is no number"),
    (lambda: MADE.apply({"age": [1, 1e300], "sex": ["f", "m"]}), r"row 2, .*'age': 1e\+300 is too large beside"),
    (lambda: fit({"a": [1, 2]}, standardize=False).apply({"a": [1e39]}), r"row 1, .* 1e\+39 is too large beside"),
    (lambda: MADE.apply({"age": [1, 2], "sex": ["f", None]}), r"row 2, column 'sex': nothing stands there; known are"),
    (lambda: MADE.apply({"age": [1] * 3, "sex": ["f", "W", "n"]}), r"row 2, .* 'W' was never seen \(2 rows"),
    (lambda: MADE.apply(changed(y=["a", "b", "c", "a"])), r"row 3, .*: the class 'c' was never seen; known are"),
    (lambda: MADE.apply(changed(y=["a", None, None, "a"])), r"the target 'y' is missing in 2 rows: 2 and 3"),
    (lambda: fit({"d": [datetime.date(2024, 1, i) for i in (1, 2)]}).apply({"d": ["May"]}), r"where a date belongs"),
    (lambda: fit({"d": [datetime.date(2024, 1, i) for i in (1, 2)]}).apply({"d": [5]}), r"numbers, and dates belong"),
    (lambda: MADE.inverse(np.array([2])), r"classes are integers from 0 to 1, as argmax gives them"),
    (lambda: MADE.inverse(np.array([0.5])), r"classes are integers from 0 to 1, as argmax gives them"),
    (lambda: fit({"a": [1, 2]}).inverse([1]), r"this preparation has no target"),
    (lambda: Preparation.from_json({**PLAIN, "preparation": 3}), r"is of version 3, and 2 is known; upgrade"),
    (lambda: Preparation.from_json("[]"), r"this is no preparation as to_json gives it"),
    (lambda: Preparation.from_json("{"), r"this is no preparation as to_json gives it"),
    (lambda: Preparation.from_json({}), r"this is no preparation .* because of 'preparation'"),
    (lambda: Preparation.from_json({**PLAIN, "columns": []}), r"this is no preparation"),
    (lambda: Preparation.from_json({**PLAIN, "columns": [{"kind": "eval"}]}), r"because of 'eval'"),
    (lambda: Preparation.from_json({**PLAIN, "unseen": "run"}), r"this is no preparation"),
    (lambda: Preparation.from_json({**PLAIN, "left_out": [1]}), r"this is no preparation"),
    (lambda: Preparation.from_json({**PLAIN, "goal": {"name": "y"}}), r"because of center, classes, reason"),
    (lambda: Preparation.from_json(spoiled(scale="2")), r"because of scale='2'"),
    (lambda: Preparation.from_json(spoiled(scale=math.nan)), r"because of scale=nan"),
    (lambda: Preparation.from_json(spoiled(indicator=1)), r"because of indicator=1"),
    (lambda: Preparation.from_json(spoiled(scale=0)), r"because of scale=0"),
    (lambda: Preparation.from_json(spoiled(scale=10**400)), r"this is no preparation"),
    (lambda: Preparation.from_json("[" * 100_000), r"this is no preparation"),
    (lambda: Preparation.from_json({**PLAIN, "goal": {**PLAIN["goal"], "task": "run"}}), r"because of task='run'"),
    (lambda: Preparation.from_json({**PLAIN, "goal": {**PLAIN["goal"], "type": "run"}}), r"because of type='run'"),
]  # fmt: skip


def spoiled(**fields: Any) -> dict[str, Any]:
    return {**PLAIN, "columns": [{**PLAIN["columns"][0], **fields}]}


@pytest.mark.parametrize("case", range(len(REFUSED)), ids=[sentence[:40] for _, sentence in REFUSED])
def test_refusals_are_sentences(case: int) -> None:
    work, sentence = REFUSED[case]
    with pytest.raises(DataError, match=sentence):
        work()
