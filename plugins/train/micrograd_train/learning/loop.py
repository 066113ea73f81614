"""The loop: epochs of steps, the best network on the validation rows, checkpoints, and a stop that loses nothing."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from micrograd_core import checkpoints, no_grad, optim
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.checkpoints.refusals import read_with_care
from micrograd_core.data import batches
from micrograd_core.device import Device
from micrograd_core.errors import MicrogradError
from micrograd_core.nn import Module
from micrograd_core.optim import Optimizer
from micrograd_core.random import Generator, use_generator
from micrograd_train.learning.progress import Told

AT_ONCE = 1024
"""Rows that a network is asked about together; and seconds between checkpoints at least."""
PAUSE = 1.0


class TrainingDiverged(MicrogradError, ArithmeticError):
    """The loss is no longer a number."""


class CannotResume(MicrogradError, ValueError):
    """A training cannot be gone on with. Nothing was done."""


METRICS = {"classification": "accuracy", "sequence": "accuracy", "regression": "r2"}
"""What is shown beside the loss, by task."""

RULES: dict[str, Callable[[list[Tensor], float, float], Optimizer]] = {
    "adam": lambda parameters, lr, decay: optim.Adam(parameters, lr=lr, weight_decay=decay),
    "adamw": lambda parameters, lr, decay: optim.AdamW(parameters, lr=lr, weight_decay=decay),
    "sgd": lambda parameters, lr, decay: optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=decay),
}


def losses(task: str, out: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The mean loss, and what the metric is made of: how many are right, or the same loss."""
    if task == "regression":
        loss = FUNCTIONS["mse_loss"](out.reshape(y.shape), y)
        return loss, loss
    flat, labels = out.reshape((-1, out.shape[-1])), y.reshape((-1,))
    return FUNCTIONS["cross_entropy"](flat, labels), (flat.argmax(axis=1) == labels).astype("int64").sum()


@no_grad()
def outputs(model: Module, x: Any, device: Device) -> Any:
    """What a network says of rows, as NumPy; in evaluation mode, many rows at once."""
    import numpy as np

    model.eval()
    parts = [model(asarray(x[i : i + AT_ONCE], device=device)).detach().numpy() for i in range(0, len(x), AT_ONCE)]
    return np.concatenate(parts) if parts else np.zeros((0, 1), "float32")


@no_grad()
def judged(model: Module, task: str, x: Any, y: Any, device: Device) -> dict[str, float]:
    """The loss and the metric on rows."""
    model.eval()
    total, good, count = 0.0, 0.0, 0
    for i in range(0, len(x), AT_ONCE):
        part = asarray(y[i : i + AT_ONCE], device=device)
        loss, right = losses(task, model(asarray(x[i : i + AT_ONCE], device=device)), part)
        total, good, count = total + loss.item() * part.size, good + right.item(), count + part.size
    return figures(task, total / count, good / count, y)


def figures(task: str, loss: float, right: float, y: Any) -> dict[str, float]:
    """Loss and metric by name."""
    if task != "regression":
        return {"loss": loss, "accuracy": right}
    spread = float(y.astype("float64").var())
    return {"loss": loss, "r2": 1 - loss / spread if spread else math.nan}


class Loop:
    """A training that can be stopped after any step, and gone on with.

    Parameters
    ----------
    model : Module
    task : str
    parts : dict
        Inputs and targets as NumPy, by ``"train"`` and ``"validation"``; the latter may be absent.
    options : dict
        ``optimizer, lr, weight_decay, epochs, batch_size, patience, seed``.
    device : Device
    identity : dict
        What a checkpoint must agree with; it is kept in it.
    """

    def __init__(
        self,
        model: Module,
        task: str,
        parts: dict[str, tuple[Any, Any]],
        options: dict[str, Any],
        device: Device,
        identity: dict[str, Any],
    ) -> None:
        self.model, self.task, self.device, self.identity = model, task, device, identity
        self.epochs, self.patience = options["epochs"], options["patience"]
        self.rows, self.watched = parts["train"], parts.get("validation")
        self.rule = RULES[options["optimizer"]](model.parameters(), options["lr"], options["weight_decay"])
        self.batches = batches(
            self.rows, options["batch_size"], seed=options["seed"], device=device, prefetch=0 if device.is_cpu() else 2
        )
        self.generator = Generator(options["seed"]).split()[0]
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Any] = {"epoch": 0, "loss": math.inf, "weights": {}}
        self.sums = [0.0, 0.0, 0, 0.0]
        """Of the epoch that runs: loss, what the metric is made of, rows, seconds."""

    @property
    def metric(self) -> str:
        """What stands beside the loss."""
        return METRICS[self.task]

    # ── checkpoints ──────────────────────────────────────────────────────────────────────────────────────────

    def save(self, path: Path) -> None:
        """All that it takes to go on, in one file."""
        state = {"history": self.history, "best": self.best, "sums": self.sums, "identity": self.identity}
        checkpoints.save(
            path, model=self.model, optimizer=self.rule, data=self.batches, random=self.generator, meta=state
        )

    def resume(self, path: Path) -> None:
        """Go on where `save` was called.

        Raises
        ------
        CannotResume
            When there is nothing to go on with, or it is another training.
        """
        if not path.exists():
            raise CannotResume(f"--resume: there is no {str(path)!r} to go on with; leave --resume out to start")
        with read_with_care(path):
            identity = dict((checkpoints.load(path).meta or {}).get("identity", {}))
        for name, now in self.identity.items():
            if identity.get(name) != now:
                option = f"--{name.replace('_', '-')}"
                raise CannotResume(
                    f"--resume: {str(path)!r} is of a training with {option} {_said(identity.get(name))}, and this one "
                    f"has {_said(now)}; say the same, or leave --resume out to start anew"
                    if name != "rows"
                    else f"--resume: {str(path)!r} is of a training on other rows; leave --resume out to start anew"
                )
        meta: Any = checkpoints.load(
            path, model=self.model, optimizer=self.rule, data=self.batches, random=self.generator, device=self.device
        ).meta
        with read_with_care(path):
            self.history, self.best, self.sums = list(meta["history"]), dict(meta["best"]), list(meta["sums"])

    # ── steps ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_done(self) -> bool:
        """Whether all epochs were taken, or the validation loss has not fallen for long enough."""
        waited = len(self.history) - self.best["epoch"]
        return len(self.history) >= self.epochs or (self.watched is not None and waited >= self.patience)

    def run(self, told: Told, path: Path | None = None) -> None:
        """Take the epochs that are left, and give the model the weights of the best one.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C, when the step is done and all is saved.
        TrainingDiverged
        """
        saved = time.perf_counter()
        with _stops() as stopped, use_generator(self.generator):
            while not self.is_done:
                if self._epoch(told, stopped):
                    self._close(told)
                if stopped() or time.perf_counter() - saved > PAUSE:
                    if path is not None:
                        self.save(path)
                    saved = time.perf_counter()
                if stopped():
                    raise KeyboardInterrupt(f"in epoch {len(self.history) + 1} of {self.epochs}")
            if path is not None:
                self.save(path)
        if self.best["weights"]:
            self.model.load_state_dict(self.best["weights"])
        self.model.eval()

    def _epoch(self, told: Told, stopped: Callable[[], bool]) -> bool:
        """Steps until the epoch ends, or somebody wants to stop; whether it was the former."""
        self.model.train()
        rule, sums = self.rule, self.sums
        started = time.perf_counter()
        for x, y in self.batches:
            loss, right = losses(self.task, self.model(x), y)
            rule.zero_grad()
            loss.backward()
            rule.step()
            value = loss.item()
            if not math.isfinite(value):
                raise TrainingDiverged(f"the loss became {value} in epoch {len(self.history) + 1}; use a smaller --lr")
            sums[0] += value * y.size
            sums[1] += right.item() * (y.size if right is loss else 1)
            sums[2] += y.size
            told.step()
            if stopped():
                break
        sums[3] += time.perf_counter() - started
        return bool(sums[2] >= self.rows[1].size)

    def _close(self, told: Told) -> None:
        """An epoch has ended."""
        epoch = len(self.history) + 1
        loss, right, count, seconds = self.sums
        row: dict[str, Any] = {"epoch": epoch, **figures(self.task, loss / count, right / count, self.rows[1])}
        if self.watched is not None:
            seen = judged(self.model, self.task, *self.watched, self.device)
            row |= {f"validation_{name}": x for name, x in seen.items()}
            if seen["loss"] < self.best["loss"]:
                self.best = {"epoch": epoch, "loss": seen["loss"], "weights": self.model.state_dict()}
        row |= {"seconds": seconds, "samples_per_second": len(self.rows[1]) / max(seconds, 1e-9)}
        self.history.append(row)
        self.sums = [0.0, 0.0, 0, 0.0]
        told.epoch(row)


def _said(x: Any) -> str:
    return " ".join(map(str, x)) if isinstance(x, (list, tuple)) else "nothing" if x is None else str(x)


@contextmanager
def _stops() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, or the system asked to end; pressed again, it interrupts at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    if threading.current_thread() is not threading.main_thread():  # which alone may handle signals
        yield lambda: False
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
