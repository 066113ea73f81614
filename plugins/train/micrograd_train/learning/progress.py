"""What somebody who waits sees, and what a program that watches reads: a bar, a log, TensorBoard."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from micrograd_core.errors import MissingExtra
from micrograd_core.support.files import CannotWrite
from micrograd_core.tools.arguments import json_text


class Told:
    """The bar on stderr, and the files that get a line for each epoch. It is closed at the end of a ``with``.

    Parameters
    ----------
    epochs, steps : int
        How many there will be, and how many steps are in each.
    metric : str
        What the bar calls the figure beside the loss.
    log : str
        The file for JSON lines, or empty.
    events : str
        The folder for TensorBoard, or empty.
    shown : bool
        Whether there is a bar.
    """

    def __init__(
        self, epochs: int, steps: int, metric: str, log: str = "", events: str = "", shown: bool = True
    ) -> None:
        self._visible = shown
        self._epochs, self._steps, self._metric = epochs, steps, metric
        self._log, self._log_path = None, log
        self._events = _events(events) if events else None
        if log:
            try:
                Path(log).parent.mkdir(parents=True, exist_ok=True)
                self._log = open(log, "w", encoding="utf-8")  # noqa: SIM115
            except OSError as error:
                raise CannotWrite(log, error) from error
        self._epoch, self._figures = 1, ""
        self._done = self._first = 0
        self._began, self._shown = time.monotonic(), 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._visible:
            self._show(time.monotonic(), "\n")
        if self._log is not None:
            self._log.close()
        if self._events is not None:
            self._events.close()

    def resume(self, history: list[dict[str, Any]], position: int) -> None:
        """Say again what was said of former epochs, so that files have each of them once."""
        for row in history:
            self._line(row)
        self._done = self._first = len(history) * self._steps + position

    def step(self) -> None:
        """A batch was learned from."""
        self._done += 1
        now = time.monotonic()
        if self._visible and now - self._shown > 0.1 and sys.stderr.isatty():
            self._show(now, "")

    def epoch(self, row: dict[str, Any]) -> None:
        """An epoch has ended; `row` has its figures by name."""
        self._line(row)
        if self._events is not None:
            for name, x in row.items():
                if name != "epoch" and isinstance(x, float):
                    self._events.add_scalar(name, x, row["epoch"])
            self._events.flush()
        name, value = next(
            ((key, row[key]) for key in (f"validation_{self._metric}", self._metric) if key in row), ("", 0.0)
        )
        shown = f"{value:.2%}" if self._metric == "accuracy" else f"{value:.4f}"
        self._figures = (
            f"loss {row['loss']:.4f}  {name.replace('_', ' ')} {shown}  {row['samples_per_second']:,.0f} samples/s"
        )
        self._done, self._epoch = row["epoch"] * self._steps, row["epoch"]

    def _show(self, now: float, end: str) -> None:
        """Write the bar over the former one: how far the training is, its last figures, how long the rest takes."""
        total, columns = self._epochs * self._steps, shutil.get_terminal_size().columns - 1
        rest = (now - self._began) * (total - self._done) / max(self._done - self._first, 1)
        left = f"epoch {self._epoch}/{self._epochs} "
        right = f" {self._figures}  {rest // 60:.0f}:{rest % 60:02.0f}"
        width = max(columns - len(left) - len(right), 0)
        bar = ("━" * (width * self._done // total)).ljust(width)
        line = f"{left}{bar}{right}"[:columns] if sys.stderr.isatty() else f"{left}{right}"
        print(f"\r{line}" if sys.stderr.isatty() else line, end=end, file=sys.stderr, flush=True)
        self._shown = now

    def _line(self, row: dict[str, Any]) -> None:
        if self._log is not None:
            try:
                self._log.write(json.dumps(json.loads(json_text(row, None))) + "\n")
                self._log.flush()
            except OSError as error:
                raise CannotWrite(self._log_path, error) from error


def _events(folder: str) -> Any:
    """What writes TensorBoard's files into a folder."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise MissingExtra("--tensorboard", "tensorboardX", "tensorboard") from None
    try:
        return SummaryWriter(folder)
    except OSError as error:
        raise CannotWrite(Path(folder), error) from error
