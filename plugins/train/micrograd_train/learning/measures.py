"""How good a network is, on rows that it did not learn from, and which inputs it looks at."""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import asarray
from micrograd_core.device import Device
from micrograd_core.nn import Module
from micrograd_train.learning.inputs import Inputs
from micrograd_train.learning.loop import outputs

MOST_ROWS = 2000
"""Rows that gradients are taken of, and points of a picture."""


def probabilities(scores: Any) -> Any:
    """Softmax of the last axis, in float64."""
    import numpy as np

    scores = scores.astype("float64")
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def judge(inputs: Inputs, model: Module, x: Any, y: Any, device: Device) -> dict[str, Any]:
    """Everything that is said of a network and rows whose targets are known; arrays are NumPy's."""
    out = outputs(model, x, device)
    if inputs.task == "regression":
        return _of_numbers(inputs, out.reshape(-1), y)
    return _of_classes(inputs, probabilities(out), y)


def _of_numbers(inputs: Inputs, out: Any, y: Any) -> dict[str, Any]:
    import numpy as np

    assert inputs.preparation is not None
    said, true = (np.asarray(inputs.preparation.inverse(each), dtype="float64") for each in (out, y))
    errors = said - true
    spread = float(((true - true.mean()) ** 2).sum())
    return {
        "figures": {
            "r2": 1 - float((errors**2).sum()) / spread if spread else math.nan,
            "rmse": float(np.sqrt((errors**2).mean())),
            "mae": float(np.abs(errors).mean()),
            "rows": len(true),
        },
        "said": said,
        "true": true,
    }


def _of_classes(inputs: Inputs, chances: Any, y: Any) -> dict[str, Any]:
    import numpy as np

    count = len(inputs.classes)
    flat, labels = chances.reshape(-1, count), y.reshape(-1)
    said = flat.argmax(axis=1)
    confusion = np.zeros((count, count), dtype="int64")
    np.add.at(confusion, (labels, said), 1)
    chance = flat[np.arange(len(labels)), labels]
    right = np.diag(confusion)
    truly, claimed = confusion.sum(axis=1), confusion.sum(axis=0)
    precision = right / np.maximum(claimed, 1)
    recall = right / np.maximum(truly, 1)
    f1 = 2 * right / np.maximum(truly + claimed, 1)
    figures: dict[str, Any] = {
        "accuracy": float((said == labels).mean()),
        "balanced_accuracy": float(recall[truly > 0].mean()),
        "loss": float(-np.log(np.maximum(chance, 1e-30)).mean()),
        "f1": float(f1[truly > 0].mean()),
        "rows": len(y),
    }
    if y.ndim == 1:
        figures["auc"] = _auc(flat, labels, truly)
    else:
        figures["whole_sequences"] = float((chances.argmax(axis=-1) == y).all(axis=1).mean())
    return {
        "figures": figures,
        "confusion": confusion,
        "by_class": [
            {
                "class": str(name),
                "precision": float(precision[i]),
                "recall": float(recall[i]),
                "f1": float(f1[i]),
                "rows": int(truly[i]),
            }
            for i, name in enumerate(inputs.classes)
        ],
        "said": said,
        "true": labels,
        "chance": flat.max(axis=1),
    }


def _auc(chances: Any, labels: Any, truly: Any) -> float:
    """How often a row of a class is given more of it than a row of another, ties half; the mean over the classes."""
    import numpy as np

    found = []
    for i in np.flatnonzero((truly > 0) & (truly < len(labels)))[-1 if len(truly) == 2 else 0 :]:
        _, places, counts = np.unique(chances[:, i], return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2)[places.reshape(-1)]
        least = truly[i] * (truly[i] + 1) / 2
        found.append(float((ranks[labels == i].sum() - least) / (truly[i] * (len(labels) - truly[i]))))
    return sum(found) / len(found) if found else math.nan


def ranked(figures: dict[str, Any]) -> str:
    """Balanced accuracy and AUC, for a terminal; nothing of sequences."""
    if "auc" not in figures:
        return ""
    return f" (balanced {figures['balanced_accuracy']:.2%}, AUC {figures['auc']:.3f})"


def importance(inputs: Inputs, model: Module, x: Any, device: Device) -> Any:
    """How much what is said changes with each input: the mean size of its gradient, times how far the input varies.

    For each column of a table, or, of images, for each pixel; together they are 1. None where tokens come in.
    """
    import numpy as np

    if inputs.kind == "tokens":
        return None
    x = x[:MOST_ROWS]
    model.eval()
    rows = asarray(x, device=device)
    rows.requires_grad = True
    out = model(rows)
    if inputs.task == "classification":
        out = FUNCTIONS["max"](FUNCTIONS["log_softmax"](out, axis=-1), axis=-1)
    out.sum().backward()
    assert rows.grad is not None
    moved = rows.grad.numpy().astype("float64").reshape(len(x), -1) * x.reshape(len(x), -1).std(axis=0)
    for p in model.parameters():
        p.zero_grad()
    if inputs.preparation is None:
        found = np.abs(moved).mean(axis=0)
    else:
        ends = np.cumsum([len(column.names) for column in inputs.preparation.columns])
        found = np.array([np.sqrt((part**2).sum(axis=1)).mean() for part in np.split(moved, ends[:-1], axis=1)])
    total = found.sum()
    return found / total if total > 0 else found


def boundary(inputs: Inputs, model: Module, x: Any, device: Device, steps: int = 120) -> dict[str, Any] | None:
    """What is said on a grid over two inputs; None where there are more or fewer, or these are no numbers."""
    import numpy as np

    if inputs.task != "classification" or inputs.preparation is None or inputs.shape != (2,):
        return None
    columns = inputs.preparation.columns
    if len(columns) != 2:  # one column of categories
        return None
    low, high = x.min(axis=0), x.max(axis=0)
    margin = 0.08 * (high - low)
    axes = [np.linspace(low[i] - margin[i], high[i] + margin[i], steps) for i in range(2)]
    across, up = np.meshgrid(*axes)
    grid = np.stack([across.ravel(), up.ravel()], axis=1).astype("float32")
    chances = probabilities(outputs(model, grid, device)).reshape(steps, steps, -1)
    scale = [(getattr(each, "scale", 1.0), getattr(each, "center", 0.0)) for each in columns]
    real = [axis * scale[i][0] + scale[i][1] for i, axis in enumerate(axes)]
    points = x[:MOST_ROWS] * np.array([each[0] for each in scale]) + np.array([each[1] for each in scale])
    return {"chances": chances, "across": real[0], "up": real[1], "points": points}
