"""What a network says of rows, beside the rows; and how often it is right."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

from micrograd_core.data import DataError
from micrograd_core.ground import files
from micrograd_core.tools import arguments as common
from micrograd_core.tools.learning import measures
from micrograd_core.tools.learning.inputs import Rows
from micrograd_core.tools.learning.loop import outputs
from micrograd_core.tools.using.trained import Trained, load

MOST_CLASSES = 50
"""Whose probabilities each have a column."""


def predict(
    path: str,
    source: str,
    out: str | None = None,
    device: str | None = None,
    own: str | None = None,
    unseen: str = "error",
) -> tuple[Any, str | None]:
    """The rows of `source` with what the network says of each; they are written to `out`, if that is given.

    Returns
    -------
    table : pyarrow.Table
        The columns that were given, then ``predicted TARGET``, and ``probability of CLASS`` for each class.
    out : str or None

    Raises
    ------
    DataError
        When the rows are not such as the network was trained on: with the row and the column.
    CannotWrite
    """
    if out is not None:
        _writer(out)
        files.check(Path(out))
    trained = load(path, device, own)
    inputs = trained.inputs
    if inputs.preparation is not None and unseen != inputs.preparation.unseen:
        inputs = replace(inputs, preparation=replace(inputs.preparation, unseen=unseen))
    table = _with_predictions(replace(trained, inputs=inputs), inputs.rows(source))
    if out is not None:
        files.write({Path(out): _writer(out)(table)})
    return table, out


def _with_predictions(trained: Trained, rows: Rows) -> Any:
    import pyarrow as pa

    inputs, table = trained.inputs, rows.table
    out = outputs(trained.model, rows.x, trained.device)
    columns: dict[str, Any] = {}
    if inputs.task == "regression":
        assert inputs.preparation is not None
        columns[f"predicted {inputs.target}"] = inputs.preparation.inverse(out.reshape(-1))
    elif inputs.task == "sequence":
        said = out.argmax(axis=-1)
        for i in range(said.shape[1]):
            columns[f"predicted {inputs.target} {i}"] = [str(inputs.classes[j]) for j in said[:, i].tolist()]
    else:
        chances = measures.probabilities(out)
        columns[f"predicted {inputs.target}"] = [inputs.classes[i] for i in chances.argmax(axis=1).tolist()]
        if len(inputs.classes) <= MOST_CLASSES:
            for i, name in enumerate(inputs.classes):
                columns[f"probability of {name}"] = chances[:, i]
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    return table


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────


def as_text(table: Any, delimiter: str) -> str:
    """A table as CSV; numbers with as many digits as it takes to tell float32 apart."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(table.column_names)
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        writer.writerow(["" if each is None else f"{each:.7g}" if isinstance(each, float) else each for each in row])
    return text.getvalue()


def _parquet(table: Any) -> bytes:
    import pyarrow.parquet

    content = io.BytesIO()
    pyarrow.parquet.write_table(table.replace_schema_metadata(), content)
    return content.getvalue()


WRITERS = {
    ".csv": lambda table: as_text(table, ",").encode(),
    ".tsv": lambda table: as_text(table, "\t").encode(),
    ".parquet": _parquet,
    ".json": lambda table: (common.json_text(table.to_pylist()) + "\n").encode(),
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
    trained = load(path, device, own)
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
    table = common.aligned(rows)
    return f"{table}\n\naccuracy {result['accuracy']:.2%}, loss {result['loss']:.4f} on {result['rows']:,} rows"
