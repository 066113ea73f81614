"""How it is timed: rounds in which every peer has its turn, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import gc
import os
import random
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any


@dataclass(frozen=True)
class Timing:
    """Microseconds per call of one peer in one case."""

    inner: int
    """Calls per sample."""
    samples: tuple[float, ...]
    """The mean of the calls of each round, in the order of the rounds."""

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Lower quartile, median, upper quartile."""
        if len(self.samples) < 2:
            return (self.samples[0],) * 3
        low, middle, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return low, middle, high

    def ratio(self, other: Timing) -> float:
        """The median over the rounds of this peer's time divided by the other's in the same round."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.samples, other.samples, strict=True))


def time_calls(run: Callable[[], Any], count: int) -> int:
    """Nanoseconds that `count` calls take."""
    numbers = range(count)
    start = perf_counter_ns()
    for _ in numbers:
        run()
    return perf_counter_ns() - start


def calibrate(run: Callable[[], Any], nanoseconds: float) -> int:
    """How many calls fill a sample; also the warm-up, in which caches fill and compilers compile.

    Each count is timed twice: a step whose state is new after the first call is compiled again in the second.
    """
    run()
    count = 1
    while True:
        took = min(time_calls(run, count), time_calls(run, count))
        if took >= nanoseconds / 2:
            return max(1, round(count * nanoseconds / took))
        count *= 2


def seconds_of_others() -> float | None:
    """Processor seconds that other processes have used since the machine started; ``None`` where unknown."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _, _, irq, softirq, steal = (int(field) / os.sysconf("SC_CLK_TCK") for field in fields)
    return user + nice + system + irq + softirq + steal - sum(os.times()[:4])


class Disturbance:
    """How many cores other processes kept busy within a ``with`` block, as ``cores``; ``None`` where unknown."""

    cores: float | None = None

    def __enter__(self) -> Disturbance:
        self._before, self._start = seconds_of_others(), perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        after = seconds_of_others()
        if self._before is not None and after is not None:
            self.cores = round(max(after - self._before, 0.0) / (perf_counter() - self._start), 2)


Runs = Mapping[str, Callable[[], Any]]


def interleave(runs: Runs, *, repeat: int, seconds: float, seed: str = "") -> dict[str, Timing]:
    """Time several functions in turns.

    Parameters
    ----------
    runs : mapping of str to function
    repeat : int
        Rounds. In each, every function is called often enough to fill ``seconds / repeat``; the order is shuffled anew.
    seconds : float
        What each function gets in total.
    seed : str
        Of the order.
    """
    order = random.Random(seed)
    share = seconds / repeat * 1e9
    inner = {name: calibrate(run, share) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    gc.collect()  # what calibration left; from here the collector runs as it does in anyone's program
    for _ in range(repeat):
        for name in order.sample(list(runs), len(runs)):
            run = runs[name]
            run()  # untimed: the caches, and the threads of whoever came before
            samples[name].append(time_calls(run, inner[name]) / inner[name] / 1e3)
    return {name: Timing(inner[name], tuple(samples[name])) for name in runs}
