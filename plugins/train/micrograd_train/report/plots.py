"""The pictures of a training as PNG files, for slides and other documents; the page has its own, `charts`."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from micrograd_train.report.charts import RGB

if TYPE_CHECKING:
    from micrograd_train.report.results import Results

METRICS = {"accuracy": "fraction correct", "r2": "R²"}
MOST_CLASSES = 40
"""Of a confusion matrix that is drawn."""


def pictures(results: Results) -> dict[str, bytes]:
    """The PNG files of a training, by name."""
    found = {"curves.png": _curves(results)}
    if "confusion" in results.seen:
        if len(results.problem.inputs.classes) <= MOST_CLASSES:
            found["confusion.png"] = _confusion(results)
    else:
        found["residuals.png"] = _residuals(results)
    if results.importance is not None:
        found["importance.png"] = _importance(results)
    if results.boundary is not None:
        found["boundary.png"] = _boundary(results)
    return found


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _png(figure: Any) -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    return picture.getvalue()


def _curves(results: Results) -> bytes:
    metrics, metric = results.metrics, results.metric
    epochs = range(1, len(metrics["loss"]) + 1)
    figure = _figure(9, 3.5)
    left, right = figure.subplots(1, 2)
    for axes, train, watched in ((left, "loss", "validation_loss"), (right, f"train_{metric}", f"validation_{metric}")):
        axes.plot(epochs, metrics[train], label="train, while learning")
        if watched in metrics:
            axes.plot(epochs, metrics[watched], label="validation")
            axes.axvline(metrics["best_epoch"], color="gray", linewidth=0.8, linestyle=":")
    unit = "mean square, standardised" if metric == "r2" else "cross-entropy (nats)"
    left.set(xlabel="epoch", ylabel=unit, yscale="log", title="loss")
    judged = metrics[metrics["judged_on"]][metric]
    shown = f"{judged:.2%}" if metric == "accuracy" else f"{judged:.3f}"
    right.set(xlabel="epoch", ylabel=METRICS[metric], title=f"{metrics['judged_on']} {METRICS[metric]} {shown}")
    right.legend(loc="lower right")
    return _png(figure)


def _confusion(results: Results) -> bytes:
    counts = results.seen["confusion"]
    names = [str(each) for each in results.problem.inputs.classes]
    side = min(3 + 0.35 * len(names), 12)
    figure = _figure(side + 1, side)
    axes = figure.subplots()
    shares = counts / counts.sum(axis=1, keepdims=True).clip(1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            if count and len(names) <= 25:
                colour = "white" if shares[i, j] > 0.5 else "black"
                axes.text(j, i, f"{count}", ha="center", va="center", color=colour, fontsize=9)
    places = range(len(names))
    axes.set_xticks(places, [_short(each) for each in names], rotation=45, ha="right", parse_math=False)
    axes.set_yticks(places, [_short(each) for each in names], parse_math=False)
    axes.set(xlabel="predicted", ylabel="true", title=f"confusion on the {results.part} rows")
    return _png(figure)


def _residuals(results: Results) -> bytes:
    true, said = results.seen["true"], results.seen["said"]
    figure = _figure(9, 3.5)
    left, right = figure.subplots(1, 2)
    left.scatter(true, said, s=12, alpha=0.6)
    ends = [min(true.min(), said.min()), max(true.max(), said.max())]
    left.plot(ends, ends, color="gray", linewidth=0.8, linestyle=":")
    left.set(xlabel="true", ylabel="predicted", title=f"{results.part} rows")
    right.hist(said - true, bins=30)
    right.set(xlabel="predicted − true", ylabel="rows", title="errors")
    return _png(figure)


def _importance(results: Results) -> bytes:
    inputs = results.problem.inputs
    if inputs.preparation is None:
        figure = _figure(4, 3.5)
        axes = figure.subplots()
        shown = results.importance.reshape(inputs.image).sum(axis=0)
        figure.colorbar(axes.imshow(shown, cmap="viridis"), ax=axes)
        axes.set(title="where it looks", xticks=[], yticks=[])
        return _png(figure)
    entries = list(results.metrics["importance"].items())[:20][::-1]
    figure = _figure(6, 1 + 0.3 * len(entries))
    axes = figure.subplots()
    axes.barh(range(len(entries)), [x for _, x in entries])
    axes.set_yticks(range(len(entries)), [_short(name) for name, _ in entries], parse_math=False)
    axes.set(xlabel="share of the gradient", title="which columns it looks at")
    return _png(figure)


def _boundary(results: Results) -> bytes:
    import numpy as np

    edge, classes = results.boundary, results.problem.inputs.classes
    assert edge is not None
    assert results.problem.inputs.preparation is not None
    figure = _figure(5, 4)
    axes = figure.subplots()
    colours = np.array([RGB[i % len(RGB)] for i in range(len(classes))]) / 255
    sure = edge["chances"].max(axis=-1, keepdims=True)
    shade = 1 - (1 - colours[edge["chances"].argmax(axis=-1)]) * 0.5 * sure
    extent = (edge["across"][0], edge["across"][-1], edge["up"][0], edge["up"][-1])
    axes.imshow(shade, origin="lower", extent=extent, aspect="auto")
    true = results.seen["true"][: len(edge["points"])]
    for i, name in enumerate(classes):
        x, y = edge["points"][true == i].T
        axes.scatter(x, y, s=12, color=colours[i], edgecolors="white", linewidths=0.4, label=_short(str(name)))
    if len(classes) <= 10:
        axes.legend(fontsize=8)
    across, up = results.problem.inputs.preparation.columns
    axes.set(title=f"what is said where; {results.part} rows")
    axes.set_xlabel(across.name, parse_math=False)
    axes.set_ylabel(up.name, parse_math=False)
    return _png(figure)


def _short(name: str) -> str:
    """A name for an axis: as it is, where it is short; characters that no font has are left to the page."""
    shown = "".join(each if each.isprintable() and ord(each) < 0x2000 else "?" for each in name)
    return shown if len(shown) <= 24 else f"{shown[:23]}…"
