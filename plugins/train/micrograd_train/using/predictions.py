"""What a network says of rows, beside the rows; and how often it is right."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from micrograd_core.data import DataError
from micrograd_core.support import files
from micrograd_core.support.escaping import aligned
from micrograd_core.tools import arguments as common
from micrograd_train.learning import measures
from micrograd_train.learning.inputs import Rows
from micrograd_train.learning.loop import outputs
from micrograd_train.tables.reading import Fields, fields
from micrograd_train.using.trained import Predictor, load_predictor

MOST_CLASSES = 50
"""Whose probabilities each have a column."""


def predict(
    path: str,
    source: str,
    out: str | None = None,
    device: str | None = None,
    own: str | None = None,
    unseen: str = "error",
) -> tuple[Any, str]:
    """The rows of `source` with what the network says of each; they are written to `out`, if that is given.

    Returns
    -------
    table : pyarrow.Table
        The columns that were given, then ``predicted TARGET``, and ``probability of CLASS`` for each class.
    text : str
        The same as CSV. Of a text file, each field that was given stands there as it did.

    Raises
    ------
    DataError
        When the rows are not such as the network was trained on: with the row and the column.
    CannotWrite
    """
    if out is not None:
        _writer(out)
        files.check(Path(out))
    predictor = load_predictor(path, device=device, model=own, unseen=unseen)
    rows = predictor.inputs.rows(source)
    said = _said(predictor, rows)
    given = fields(source, rows.table)
    table = rows.table
    for name in said.column_names:
        table = table.append_column(name, said[name])
    if out is not None:
        files.write({Path(out): _writer(out)(table, said, given)})
    return table, as_text(table, said, given) if out is None else ""


def _said(predictor: Predictor, rows: Rows) -> Any:
    """What the network says of each row, as a table."""
    import pyarrow as pa

    inputs = predictor.inputs
    out = outputs(predictor.model, rows.x, predictor.device)
    answers = predictor.answers(out)
    if inputs.task == "sequence":
        every = {f"predicted {inputs.target} {i}": answers[:, i] for i in range(answers.shape[1])}
        return pa.table({name: [str(each) for each in column.tolist()] for name, column in every.items()})
    columns = {f"predicted {inputs.target}": pa.array(answers.tolist())}
    if len(inputs.classes) in range(1, MOST_CLASSES + 1):
        chances = measures.probabilities(out)
        columns |= {f"probability of {name}": pa.array(chances[:, i]) for i, name in enumerate(inputs.classes)}
    return pa.table(columns)


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────


def as_text(table: Any, said: Any, given: Fields | None, delimiter: str = "") -> str:
    """A table as CSV: each field of a text file as it stood there, then what the network said.

    Lines are separated as those that were given, unless a `delimiter` says otherwise. Numbers of a frame have all their
    digits, and those of the network as many as tell float32 apart.
    """
    import pyarrow as pa

    mark = given.decimal if given else "."
    delimiter = delimiter or (given.delimiter if given else ",")
    before = given.table if given else table.select(table.column_names[: table.num_columns - said.num_columns])
    columns = [
        (column.cast(pa.string()) if pa.types.is_floating(column.type) else column).to_pylist()
        for column in before.columns
    ]
    columns += [
        [f"{each:.7g}".replace(".", mark) if isinstance(each, float) else each for each in column.to_pylist()]
        for column in said.columns
    ]
    special = re.compile(f'[{re.escape(delimiter)}"\r\n]')

    def line(cells: Iterable[Any]) -> str:
        texts = ["" if each is None else str(each) for each in cells]
        return delimiter.join('"' + each.replace('"', '""') + '"' if special.search(each) else each for each in texts)

    head = [*before.column_names, *said.column_names]
    return "\n".join([line(head), *map(line, zip(*columns, strict=True))]) + "\n"


def _csv(table: Any, said: Any, given: Fields | None) -> bytes:
    return as_text(table, said, given, ";" if given and given.delimiter == ";" else ",").encode()


def _parquet(table: Any, said: Any, given: Fields | None) -> bytes:
    import pyarrow.parquet

    content = io.BytesIO()
    pyarrow.parquet.write_table(table.replace_schema_metadata(), content)
    return content.getvalue()


WRITERS = {
    ".csv": _csv,
    ".tsv": lambda table, said, given: as_text(table, said, given, "\t").encode(),
    ".parquet": _parquet,
    ".json": lambda table, said, given: (common.json_text(table.to_pylist()) + "\n").encode(),
}


def _writer(out: str) -> Any:
    kind = Path(out).suffix.lower()
    if kind not in WRITERS:
        raise DataError(f"--out {out}: predictions are written as {', '.join(WRITERS)}, by the file's suffix")
    return WRITERS[kind]


# ── judgements ───────────────────────────────────────────────────────────────────────────────────────────────


def evaluate(path: str, source: str, device: str | None = None, own: str | None = None) -> dict[str, Any]:
    """The figures of a network on the rows of `source`.

    Raises
    ------
    DataError
        When they lack the target, or are not such as the network was trained on.
    """
    trained = load_predictor(path, device=device, model=own)
    inputs = trained.inputs
    rows = inputs.rows(source)
    if rows.y is None:
        raise DataError(
            f"{Path(source).name!r} does not have the target {inputs.target!r}, which evaluate compares with; "
            "micrograd predict needs none"
        )
    seen = measures.judge(inputs, trained.model, rows.x, rows.y, trained.device)
    result = {"model": str(trained.path), "data": source, "task": inputs.task, "target": inputs.target}
    result |= seen["figures"]
    if "by_class" in seen:
        result |= {"classes": seen["by_class"], "confusion": seen["confusion"].tolist()}
    return result


def judgement(result: dict[str, Any]) -> str:
    """The figures for a terminal."""
    if "classes" not in result:
        return (
            f"R² {result['r2']:.4f}, root of the mean square error {result['rmse']:.4g}, "
            f"mean error {result['mae']:.4g} on {result['rows']:,} rows"
        )
    rows = [("class", "precision", "recall", "F1", "rows")]
    rows += [
        (each["class"], f"{each['precision']:.3f}", f"{each['recall']:.3f}", f"{each['f1']:.3f}", f"{each['rows']:,}")
        for each in result["classes"]
    ]
    table = aligned(rows)
    accuracy = f"accuracy {result['accuracy']:.2%}{measures.ranked(result)}"
    return f"{table}\n\n{accuracy}, loss {result['loss']:.4f} on {result['rows']:,} rows"
