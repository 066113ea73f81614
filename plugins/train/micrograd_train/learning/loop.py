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


def judged(model: Module, task: str, x: Any, y: Any, device: Device) -> dict[str, float]:
    """The loss and the metric on rows."""
    return figures(task, *mean(added(model, task, x, y, device)), y)


def mean(sums: list[Any]) -> tuple[float, float]:
    """What `added` gives, by its count."""
    total, good, count = sums
    return total / count, good / count


@no_grad()
def added(model: Module, task: str, x: Any, y: Any, device: Device) -> list[Any]:
    """The sum of the losses of rows, that of the metric, and how many numbers were to be found."""
    model.eval()
    total, good, count = 0.0, 0.0, 0
    for i in range(0, len(x), AT_ONCE):
        part = asarray(y[i : i + AT_ONCE], device=device)
        loss, right = losses(task, model(asarray(x[i : i + AT_ONCE], device=device)), part)
        total, good, count = total + loss.item() * part.size, good + right.item(), count + part.size
    return [total, good, count]


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
    group : micrograd_mpi.World, optional
        The processes that train together, each with its part of every batch.
    """

    def __init__(
        self,
        model: Module,
        task: str,
        parts: dict[str, tuple[Any, Any]],
        options: dict[str, Any],
        device: Device,
        identity: dict[str, Any],
        group: Any = None,
    ) -> None:
        self.group = group
        self.model, self.task, self.device, self.identity = model, task, device, identity
        self.epochs, self.patience = options["epochs"], options["patience"]
        self.rows, self.watched = parts["train"], parts.get("validation")
        self.rule = RULES[options["optimizer"]](model.parameters(), options["lr"], options["weight_decay"])
        self.batches = batches(
            self.rows, options["batch_size"], seed=options["seed"], device=device, prefetch=0 if device.is_cpu() else 2,
            part=(0, 1) if group is None else (group.rank, group.size),
        )  # fmt: skip
        self.generator = Generator(options["seed"]).split()[0]
        self.network: Any = model
        if group is not None:
            from micrograd_mpi import DataParallel

            self.network = DataParallel(model, group)
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
        sums = self._of_all(self.sums[:3]) + self.sums[3:]
        state = {"history": self.history, "best": self.best, "sums": sums, "identity": self.identity}
        self._on_first(
            lambda: checkpoints.save(
                path, model=self.model, optimizer=self.rule, data=self.batches, random=self.generator, meta=state
            )
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
        if self.group is not None and self.group.rank:  # those of an epoch that was begun are counted once
            self.sums = [0.0, 0.0, 0, self.sums[3]]

    # ── several processes ────────────────────────────────────────────────────────────────────────────────────────

    def _of_all(self, sums: list[Any]) -> list[Any]:
        """Numbers added up over all processes."""
        return sums if self.group is None else [sum(column) for column in zip(*self.group.gather(sums), strict=True)]

    def _on_first(self, f: Callable[[], Any]) -> Any:
        return f() if self.group is None else self.group.on_first(f)

    def _any(self, asked: bool) -> bool:
        """Whether any process wants something."""
        return asked if self.group is None else any(self.group.gather(asked))

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
        own = self.generator
        if self.group is not None and self.group.rank:  # what is left out at random differs from rank to rank
            own = Generator(hash((self.generator.state, self.group.rank)) % (1 << 64))
        with _stops() as asked, use_generator(own):
            stopped = asked if self.group is None else lambda: self._any(asked())
            while not self.is_done:
                whole, stop = self._epoch(told, stopped)
                if whole:
                    self._close(told)
                if self._any(stop or time.perf_counter() - saved > PAUSE):
                    if path is not None:
                        self.save(path)
                    saved = time.perf_counter()
                if stop:
                    raise KeyboardInterrupt(f"in epoch {len(self.history) + 1} of {self.epochs}")
            if path is not None:
                self.save(path)
        if self.best["weights"]:
            self.model.load_state_dict(self.best["weights"])
        self.model.eval()

    def _epoch(self, told: Told, stopped: Callable[[], bool]) -> tuple[bool, bool]:
        """Steps until the epoch ends, or somebody wants to stop; whether it ended, and whether somebody does."""
        self.model.train()
        rule, sums = self.rule, self.sums
        started, stop = time.perf_counter(), False
        for x, y in self.batches:
            loss, right = losses(self.task, self.network(x), y)
            rule.zero_grad()
            self._weighted(loss, y).backward()
            rule.step()
            value = loss.item()
            if not math.isfinite(value):
                raise TrainingDiverged(f"the loss became {value} in epoch {len(self.history) + 1}; use a smaller --lr")
            sums[0] += value * y.size
            sums[1] += right.item() * (y.size if right is loss else 1)
            sums[2] += y.size
            told.step()
            if stop := stopped():
                break
        sums[3] += time.perf_counter() - started
        return self._of_all([sums[2]])[0] >= self.rows[1].size, stop

    def _weighted(self, loss: Tensor, y: Tensor) -> Tensor:
        """The loss as it counts in the mean over all processes."""
        if self.group is None:
            return loss
        from micrograd_mpi import weighted

        return weighted(loss, y.shape[0], self.group)

    def _close(self, told: Told) -> None:
        """An epoch has ended."""
        epoch = len(self.history) + 1
        (loss, right, count), seconds = self._of_all(self.sums[:3]), self.sums[3]
        row: dict[str, Any] = {"epoch": epoch, **figures(self.task, loss / count, right / count, self.rows[1])}
        if self.watched is not None:
            x, y = self.watched
            part = slice(None) if self.group is None else slice(self.group.rank, None, self.group.size)
            found = added(self.model, self.task, x[part], y[part], self.device)
            seen = figures(self.task, *mean(self._of_all(found)), y)
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
