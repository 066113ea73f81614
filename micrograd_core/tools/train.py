"""``micrograd train digits``: a network on scikit-learn's bundled handwritten digits, start to finish.

It needs the extra ``train`` (scikit-learn, rich, safetensors, matplotlib, and NumPy with the cpu backend).
"""

from __future__ import annotations

import importlib
import io
import itertools
import json
import math
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from micrograd_core import no_grad
from micrograd_core.array import functions
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.device import Device, default_device
from micrograd_core.errors import MicrogradError, MissingExtra, one_of
from micrograd_core.ground import files
from micrograd_core.nn import Linear, Module, ReLU, Sequential
from micrograd_core.optim import SGD, Adam, Optimizer


class TrainingDiverged(MicrogradError, ArithmeticError):
    """The loss is no longer a number."""


class NotSensible(MicrogradError, ValueError):
    """A setting that cannot end well. Nothing was done."""


_NEEDED = {
    "sklearn": "scikit-learn",
    "rich": "rich",
    "safetensors": "safetensors",
    "matplotlib": "matplotlib",
    "numpy": "numpy",
}

WRITTEN = ("model.safetensors", "metrics.json", "curves.png")

OPTIMIZERS: dict[str, Callable[[list[Tensor], float], Optimizer]] = {
    "adam": lambda parameters, lr: Adam(parameters, lr=lr),
    "sgd": lambda parameters, lr: SGD(parameters, lr=lr, momentum=0.9),
}


TRAINING_IMAGES, TEST_IMAGES = 1437, 360
MOST_LAYERS, MOST_BYTES = 100, 2 << 30


def _check(epochs: int, batch_size: int, lr: float, hidden: Sequence[int], optimizer: str) -> None:
    """Refuse what would fill the memory, or run for days, over images that a network learns in seconds."""
    if optimizer not in OPTIMIZERS:
        raise NotSensible(f"--optimizer takes {one_of(OPTIMIZERS)}; got {optimizer!r}")
    for option, value, least, most, unit in (
        ("--epochs", epochs, 1, 100_000, "passes over the images"),
        ("--batch-size", batch_size, 1, TRAINING_IMAGES, "images; there are no more to train on"),
        ("--lr", lr, 1e-8, 100, "as the size of a step; others teach nothing"),
        ("--hidden", min(hidden, default=1), 1, math.inf, "units in a layer"),
    ):
        if not least <= value <= most:
            raise NotSensible(f"{option} takes {least:,} to {most:,} {unit}; got {_figure(value)}")
    if len(hidden) > MOST_LAYERS:
        raise NotSensible(f"--hidden takes at most {MOST_LAYERS} layers; got {len(hidden):,}")
    sizes = [64, *hidden, 10]
    parameters = sum((inputs + 1) * outputs for inputs, outputs in itertools.pairwise(sizes))
    copies = {"adam": 4, "sgd": 3}[optimizer]  # weights, gradients, moments
    activations = 3 * max(batch_size, TEST_IMAGES) * sum(sizes)  # before and after ReLU, and a gradient
    takes = 4 * (copies * parameters + activations)
    if takes > MOST_BYTES:
        raise NotSensible(
            f"--hidden {' '.join(map(_figure, hidden))}: a network of {_figure(parameters)} parameters, which takes "
            f"{_figure(takes >> 20)} MiB to train; sensible for {TRAINING_IMAGES:,} images are at most "
            f"{MOST_BYTES >> 20:,} MiB"
        )


def _figure(number: float) -> str:
    return f"{number:,}" if not number > 10**15 else "over 1,000,000,000,000,000"


def mlp(sizes: Sequence[int], generator: random.Random, device: Device) -> Sequential:
    """Linear layers of these sizes with ReLU between them."""
    layers: list[Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [Linear(inputs, outputs, generator=generator, device=device), ReLU()]
    return Sequential(*layers[:-1])


def train_digits(
    *,
    device: str | Device | None = None,
    epochs: int = 40,
    batch_size: int = 64,
    lr: float = 2e-3,
    hidden: Sequence[int] = (256,),
    optimizer: str = "adam",
    seed: int = 0,
    out: str | Path = "runs/digits",
) -> dict[str, Any]:
    """Train a multilayer perceptron, and write what came of it to the folder `out`.

    ``model.safetensors`` holds the weights, ``curves.png`` loss and accuracy by epoch, ``metrics.json`` the same as
    numbers. The same seed gives the same numbers on one device. All three take the place of a former run's together,
    when the training is done; until then, and if anything fails, those stay as they are.

    Parameters
    ----------
    device, epochs, batch_size, lr, hidden, optimizer, seed, out
        As the options of the command.

    Returns
    -------
    dict
        ``loss`` and ``train_accuracy`` and ``test_accuracy`` by epoch, ``seconds``, ``samples_per_second``, ``device``.

    Raises
    ------
    MissingExtra
        When a package of the extra is not installed; nothing was done.
    NotSensible
        When the settings would fill the memory, or cannot teach anything; nothing was done.
    CannotWrite
        When `out` cannot be written: before the training, unless the disk is full.
    TrainingDiverged
        When the loss is no longer a number.
    BackendNotFound, DeviceUnavailable
        For a device that cannot be used.
    """
    missing = [package for module, package in _NEEDED.items() if not _importable(module)]
    if missing:
        raise MissingExtra("micrograd train digits", ", ".join(missing), "train")
    import numpy as np

    _check(epochs, batch_size, lr, hidden, optimizer)
    where = default_device() if device is None else Device(device)
    if not str(out).strip():
        raise files.CannotWrite(out, "a folder has a name")
    folder = Path(out)
    files.check(*(folder / name for name in WRITTEN))

    (train_x, train_y), (test_x, test_y) = _digits(seed)
    generator = random.Random(seed)
    model = mlp([64, *hidden, 10], generator, where)
    rule = OPTIMIZERS[optimizer](model.parameters(), lr)
    test = asarray(test_x, device=where), test_y
    history: dict[str, Any] = {"loss": [], "train_accuracy": [], "test_accuracy": []}
    started = time.perf_counter()
    with np.errstate(all="ignore"), _progress(epochs) as (progress, task):  # a loss that overflows is reported below
        for _ in range(epochs):
            epoch_started = time.perf_counter()
            loss, accuracy = _epoch(model, rule, train_x, train_y, batch_size, generator, where)
            rate = len(train_y) / (time.perf_counter() - epoch_started)
            if not math.isfinite(loss):
                raise TrainingDiverged(
                    f"the loss became {loss} in epoch {len(history['loss']) + 1}; use a smaller --lr"
                )
            history["loss"].append(loss)
            history["train_accuracy"].append(accuracy)
            history["test_accuracy"].append(_accuracy(model, *test))
            progress.update(task, advance=1, loss=loss, accuracy=history["test_accuracy"][-1], rate=rate)
    seconds = time.perf_counter() - started
    metrics = {
        **history,
        "seconds": round(seconds, 3),
        "samples_per_second": round(epochs * len(train_y) / seconds),
        "device": str(where),
        "hidden": list(hidden),
        "seed": seed,
    }
    _save(model, metrics, folder)
    print(
        f"test accuracy {history['test_accuracy'][-1]:.2%} after {epochs} epochs in {seconds:.1f} s on {where}; "
        f"wrote model.safetensors, curves.png and metrics.json to {folder}"
    )
    return metrics


def _importable(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def _digits(seed: int) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Images in [0, 1] as float32 (n, 64), labels as int64 (n,); four fifths to train on, stratified by digit."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype("float32")
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels.astype("int64"), test_size=0.2, random_state=seed % 2**32, stratify=labels
    )
    return (train_x, train_y), (test_x, test_y)


def _epoch(
    model: Module, rule: Optimizer, images: Any, labels: Any, batch_size: int, generator: random.Random, device: Device
) -> tuple[float, float]:
    """One pass over shuffled batches: mean loss, and accuracy while learning."""
    order = list(range(len(labels)))
    generator.shuffle(order)
    total, correct = 0.0, 0
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        x, y = asarray(images[batch], device=device), asarray(labels[batch], device=device)
        logits = model(x)
        loss = functions.FUNCTIONS["cross_entropy"](logits, y)
        rule.zero_grad()
        loss.backward()
        rule.step()
        total += loss.item() * len(batch)
        correct += int((logits.argmax(axis=1) == y).astype("int64").sum().item())
    return total / len(order), correct / len(order)


@no_grad()
def _accuracy(model: Module, images: Tensor, labels: Any) -> float:
    return float((model(images).argmax(axis=1).numpy() == labels).mean())


def _progress(epochs: int) -> Any:
    """A bar with loss, accuracy and speed, as a context manager that gives (progress, task)."""
    from contextlib import contextmanager

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    @contextmanager
    def bar() -> Any:
        columns = (
            TextColumn("epoch"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn(
                "loss {task.fields[loss]:.4f}  test accuracy {task.fields[accuracy]:.2%}  "
                "{task.fields[rate]:,.0f} samples/s"
            ),
            TimeRemainingColumn(),
        )
        with Progress(*columns) as progress:
            yield progress, progress.add_task("train", total=epochs, loss=float("nan"), accuracy=0.0, rate=0.0)

    return bar()


def _save(model: Module, metrics: dict[str, Any], folder: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from safetensors.numpy import save

    weights = {name: p.numpy() for name, p in model.state_dict().items()}
    saved = save(weights, metadata={"hidden": json.dumps(metrics["hidden"])})
    epochs = range(1, len(metrics["loss"]) + 1)
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    left.plot(epochs, metrics["loss"], label="train")
    left.set(xlabel="epoch", ylabel="cross-entropy (nats)", yscale="log", title="loss")
    right.plot(epochs, metrics["train_accuracy"], label="train, while learning")
    right.plot(epochs, metrics["test_accuracy"], label="test")
    right.set(xlabel="epoch", ylabel="fraction correct", title=f"test accuracy {metrics['test_accuracy'][-1]:.2%}")
    right.legend(loc="lower right")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    contents = saved, (json.dumps(metrics, indent=2) + "\n").encode(), picture.getvalue()
    files.write({folder / name: content for name, content in zip(WRITTEN, contents, strict=True)})
