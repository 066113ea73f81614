"""``report.html``: one file that holds its style and its pictures, and no script."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files as resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from micrograd_core import __version__
from micrograd_train.options import as_options
from micrograd_train.report import charts

if TYPE_CHECKING:
    from micrograd_train.learning.inputs import Inputs
    from micrograd_train.report.results import Results

MOST_CLASSES, MOST_COLUMNS, MOST_SHOWN, MOST_POINTS = 30, 40, 12, 1500


def page(results: Results, folder: Path) -> str:
    """The page of a training whose files are in `folder`."""
    made = [make(results, folder) for make in (_curves, _confusion, _numbers, _looks, _rows, _data)]
    name, target = results.problem.name, results.problem.inputs.target
    template = resources("micrograd_train.report")
    return Template((template / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"{name} → {target}"),
        heading=f'{escape(name)} <span class="to">→</span> {escape(target)}',
        about=escape(f"{results.problem.about} {_sentence(results.problem.reason)}"),
        style=(template / "page.css").read_text(encoding="utf-8"),
        tiles="\n".join(_tiles(results)),
        sections="\n".join(each for each in made if each),
        footer=escape(f"micrograd-core {__version__} · {datetime.date.today():%d %B %Y} · {results.metrics['device']}"),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _section(title: str, hint: str, *body: str) -> str:
    said = f'<p class="hint">{escape(hint)}</p>' if hint else ""
    return f"<section><h2>{escape(title)}</h2>{said}{''.join(body)}</section>"


def _tiles(results: Results) -> list[str]:
    metrics, figures = results.metrics, results.metrics[results.part]
    if results.metric == "accuracy":
        told = [
            (charts.percent(round(figures["accuracy"], 4)), f"of the {results.part} rows are right"),
            (charts.percent(round(_commonest(results), 4)), "would be, if it always said the commonest"),
        ]
        if "auc" in figures:
            told += [
                (charts.percent(round(figures["balanced_accuracy"], 4)), "balanced: the mean over the classes"),
                (charts.number(figures["auc"]), "AUC; 1 is perfect, 0.5 is guessing"),
            ]
    else:
        told = [
            (f"{figures['r2']:.3f}", f"R² on the {results.part} rows; 1 is perfect"),
            (charts.number(figures["mae"]), f"mean error, in units of {results.problem.inputs.target}"),
            (charts.number(_of_the_mean(results)), "would be, if it always said the mean"),
        ]
    rows = metrics["rows"]
    told += [
        (f"{rows['train']:,}", "rows to learn from" + _others(rows)),
        (f"{metrics['parameters']:,}", f"parameters in the {results.settings.model}"),
        (f"{metrics['best_epoch']}", f"of {metrics['epochs']} epochs is kept"),
        (_duration(metrics["seconds"]), f"at {metrics['samples_per_second']:,} samples/s"),
    ]
    return [
        f'<div class="tile{" first" * (not i)}"><b>{escape(value)}</b><span>{escape(label)}</span></div>'
        for i, (value, label) in enumerate(told)
    ]


def _others(rows: dict[str, int]) -> str:
    others = [f"{count:,} {name}" for name, count in rows.items() if name != "train"]
    return f"; {', '.join(others)}" if others else ""


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _commonest(results: Results) -> float:
    import numpy as np

    true = results.seen["true"]
    learned = results.problem.parts["train"][1].reshape(-1)
    return float((true == np.bincount(learned).argmax()).mean())


def _of_the_mean(results: Results) -> float:
    import numpy as np

    assert results.problem.inputs.preparation is not None
    mean = results.problem.inputs.preparation.inverse(results.problem.parts["train"][1]).mean()
    return float(np.abs(results.seen["true"] - mean).mean())


def _curves(results: Results, folder: Path) -> str:
    metrics, metric = results.metrics, results.metric
    watched = "validation_loss" in metrics
    best = metrics["best_epoch"] if watched else 0
    shown: Callable[[float], str] = charts.percent if metric == "accuracy" else charts.number
    name = "accuracy" if metric == "accuracy" else "R²"
    drawn = []
    for title, train, other, log, text in (
        ("loss", "loss", "validation_loss", True, charts.number),
        (name, f"train_{metric}", f"validation_{metric}", False, shown),
    ):
        series = [charts.Series("train, while learning", metrics[train], 0)]
        series += [charts.Series("validation", metrics[other], 1)] if watched else []
        picture = charts.lines(series, title, best, log, text)
        drawn.append(f"<figure><figcaption>{title}</figcaption>{picture}</figure>")
    hint = "Validation rows are not learned from. The weights of the epoch with their lowest loss are kept."
    return _section("How it learned", hint if watched else "", f'<div class="charts">{"".join(drawn)}</div>')


def _confusion(results: Results, folder: Path) -> str:
    if "confusion" not in results.seen:
        return ""
    names = [str(each) for each in results.problem.inputs.classes]
    rows = results.metrics["classes"]
    cells = "".join(
        f"<tr><td>{escape(row['class'])}</td>"
        + "".join(f'<td class="n">{charts.percent(round(row[key], 3))}</td>' for key in ("precision", "recall", "f1"))
        + f'<td class="n">{row["rows"]:,}</td></tr>'
        for row in (rows if len(rows) <= MOST_CLASSES else sorted(rows, key=lambda row: row["f1"])[:MOST_CLASSES])
    )
    table = (
        '<div class="scroll"><table class="wide"><thead><tr><th>class</th><th class=n>precision</th>'
        f"<th class=n>recall</th><th class=n>F1</th><th class=n>rows</th></tr></thead>"
        f"<tbody>{cells}</tbody></table></div>"
    )
    parts = []
    if len(names) <= MOST_CLASSES:
        matrix = charts.matrix(results.seen["confusion"].tolist(), names)
        hint = f"Of the {results.part} rows: blue is right, red is wrong, the stronger the more of its row."
        parts.append(_section("Which classes it confuses", hint, matrix))
    some = "" if len(names) <= MOST_CLASSES else f" The {MOST_CLASSES} that are hardest are listed."
    hint = f"Precision: how often it is right when it says the class. Recall: how many of the class it finds.{some}"
    parts.append(_section("Class by class", hint, table))
    return f'<div class="two">{"".join(parts)}</div>'


def _numbers(results: Results, folder: Path) -> str:
    if "confusion" in results.seen:
        return ""
    name = results.problem.inputs.target
    true, said = (results.seen[key][:MOST_POINTS].tolist() for key in ("true", "said"))
    errors = [s - t for s, t in zip(said, true, strict=True)]
    left = _section(
        "Predicted and true",
        f"Each point is a {results.part} row; on the line all is right.",
        charts.scatter(true, said, name),
    )
    rmse = charts.number(results.metrics[results.part]["rmse"])
    hint = f"Predicted minus true. The root of the mean square is {rmse}."
    return f'<div class="two">{left}{_section("Errors", hint, charts.histogram(errors, "error"))}</div>'


def _looks(results: Results, folder: Path) -> str:
    inputs, parts = results.problem.inputs, []
    if results.boundary is not None and inputs.preparation is not None:
        across, up = (column.name for column in inputs.preparation.columns)
        picture = charts.plane(
            results.boundary, [str(each) for each in inputs.classes], results.seen["true"], (across, up)
        )
        hint = f"The background is what it says, the paler the less sure. Points are {results.part} rows."
        parts.append(_section("What it says where", hint, picture))
    if results.importance is not None:
        hint = "How much its answer changes with each input: the mean gradient, times how far the input varies."
        if inputs.preparation is not None:
            entries = list(results.metrics["importance"].items())[:20]
            parts.append(_section("Which columns it looks at", hint, charts.bars(entries, "importance of columns")))
        elif inputs.image:
            picture = charts.heat(results.importance.reshape(inputs.image).sum(axis=0), "importance of pixels")
            parts.append(_section("Where it looks", hint, f'<div class="look">{picture}</div>'))
            parts += [wrong] if (wrong := _mistakes(results, 12)) else []
    return f'<div class="two">{"".join(parts)}</div>' if parts else ""


def _rows(results: Results, folder: Path) -> str:
    return "" if results.problem.inputs.image else _mistakes(results, 10)


def _mistakes(results: Results, most: int) -> str:
    """The wrong answers that it was surest of, images as images and rows by their number."""
    import numpy as np

    inputs = results.problem.inputs
    if "chance" not in results.seen or inputs.kind == "tokens":
        return ""
    true, said, chance = (results.seen[key] for key in ("true", "said", "chance"))
    wrong = np.flatnonzero(true != said)
    wrong = wrong[np.argsort(-chance[wrong], kind="stable")][:most].tolist()
    if not wrong:
        return ""
    x, rows = results.problem.parts[results.part][0], results.problem.rows[results.part]
    hint = "The wrong answers that it was surest of: look for mistakes in the data, and for what is hard."
    if inputs.image:
        told = [
            f"<figure>{charts.image(x[i].reshape(inputs.image), f'row {rows[i] + 1}')}<br>"
            f"<b>{escape(str(inputs.classes[said[i]]))}</b> "
            f"{charts.percent(round(float(chance[i]), 3))}<br>is {escape(str(inputs.classes[true[i]]))}</figure>"
            for i in wrong
        ]
        return _section("Its surest mistakes", hint, f'<div class="mistakes">{"".join(told)}</div>')
    cells = "".join(
        f'<tr><td class="n">{rows[i] + 1:,}</td><td>{escape(str(inputs.classes[true[i]]))}</td>'
        f"<td>{escape(str(inputs.classes[said[i]]))}</td>"
        f"<td class=n>{charts.percent(round(float(chance[i]), 3))}</td></tr>"
        for i in wrong
    )
    head = "<th class=n>row</th><th>true</th><th>predicted</th><th class=n>sure by</th>"
    table = (
        f'<div class="scroll"><table class="wide"><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table></div>'
    )
    return _section("Its surest mistakes", hint, table)


def _data(results: Results, folder: Path) -> str:
    """How columns become numbers, what was noticed, what to type next; and the settings beside it."""
    inputs, parts = results.problem.inputs, []
    if results.problem.notes:
        notes = "".join(f"<li>{escape(_sentence(each.rstrip('.')))}</li>" for each in results.problem.notes)
        parts.append(_section("To look at", "What was noticed in the data.", f'<ul class="notes">{notes}</ul>'))
    parts.append(_use(results, folder))
    if inputs.preparation is not None:
        prepared = inputs.preparation
        rows = [
            (column.name, _of_categories(column) if hasattr(column, "values") else _of_number(column))
            for column in prepared.columns[:MOST_COLUMNS]
        ]
        rows += [(name, f"left out: {as_options(why)}") for name, why in list(prepared.left_out.items())[:MOST_COLUMNS]]
        more = len(prepared.columns) - MOST_COLUMNS
        rows += [(f"{more:,} more", "")] if more > 0 else []
        hint = "Rows to predict are prepared in the same way."
        parts.append(_section("The data", hint, _table(rows, ("column", "as the network sees it"))))
    shown = results.settings.as_config().items()
    settings = [(name.replace("_", " "), _setting(x)) for name, x in shown if x not in (None, ())]
    last = _section("The settings", "config.toml has them too, and repeats the run.", _table(settings))
    return f'<div class="two"><div class="stack">{"".join(parts)}</div>{last}</div>'


def _table(rows: Sequence[tuple[str, str]], head: tuple[str, ...] = ()) -> str:
    top = f"<thead><tr>{''.join(f'<th>{escape(each)}</th>' for each in head)}</tr></thead>" if head else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table class="wide">{top}<tbody>{body}</tbody></table></div>'


def _setting(x: Any) -> str:
    return " ".join(map(str, x)) if isinstance(x, (list, tuple)) else str(x)


def _of_categories(column: Any) -> str:
    return f"{len(column.values)} categories" + ("; all others together" if column.others else "")


def _of_number(column: Any) -> str:
    kind = "days" if column.dates else f"number in {column.unit}" if column.unit else "number"
    told = f"{kind}, mean {column.center:.4g}, spread {column.scale:.4g}"
    return told + ("; whether it is missing" if column.indicator else "")


def _sample(inputs: Inputs, new: str) -> str:
    """Rows that a network takes, as one writes them in Python."""
    if inputs.preparation is None or len(inputs.preparation.columns) > MOST_SHOWN:
        return repr(new)
    cells = {column.name: column.sample for column in inputs.preparation.columns}
    return "[{" + ", ".join(f"{name!r}: {cell!r}" for name, cell in cells.items()) + "}]"


def _use(results: Results, folder: Path) -> str:
    model = shlex.quote(str(folder))
    new = "new_images/" if results.problem.inputs.kind == "images" else "new.csv"
    out = "predictions.csv"
    lines = [f"micrograd predict {model} {new} --out {out}", f"micrograd inspect {model}"]
    lines += [f"micrograd train --config {shlex.quote(str(folder / 'config.toml'))}"]
    body = f"<pre>{escape(chr(10).join(lines))}</pre>"
    if ":" not in (results.settings.model or ""):
        code = "from micrograd_train import load_predictor\n\n"
        code += (
            f"predictor = load_predictor({str(folder)!r})\npredictor.predict({_sample(results.problem.inputs, new)})"
        )
        body += f"<pre>{escape(code)}</pre>"
    return _section("Use it", "", body)
