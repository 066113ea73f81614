"""A time limit for each test of the suite, without another package.

At the limit a signal fails the test, and the run goes on. Where no signal gets through (native code that does not come
back, threads, Windows) a second thread names the test a little later and ends the process: what hangs there cannot be
stopped. Native code that keeps the interpreter's lock for ever stops that thread too; ``-v`` shows which test it was.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

SECONDS: Final = 300.0
GRACE: Final = 5.0
"""Seconds between the signal and the end of the process."""

HUNG: Final = 3
"""The exit status then."""

_terminal = 2  # where a last word is read; while pytest captures, its file descriptor is another


def remember_terminal() -> None:
    """Called before pytest captures what tests print."""
    global _terminal
    with suppress(OSError):
        _terminal = os.dup(2)


@contextmanager
def limited(test: str, device: str, seconds: float) -> Iterator[None]:
    """Fail what takes longer, or end the process if that does not work."""
    import pytest

    hangs = f"hangs: it was stopped after {seconds:g} s (--time-limit)"

    def fail(*_: Any) -> None:
        pytest.fail(hangs, pytrace=False)

    def end() -> None:
        words = f"\n{test} hangs, where no signal reaches it, for more than {seconds:g} s; this ends its process.\n"
        os.write(_terminal, f"{words}{device} does not conform\n".encode())
        os._exit(HUNG)

    signals = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
    last = threading.Timer(seconds + GRACE if signals else seconds, end)
    last.daemon = True
    last.start()
    previous: Any = None
    if signals:
        previous = signal.signal(signal.SIGALRM, fail), signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        if signals:
            signal.setitimer(signal.ITIMER_REAL, *previous[1])
            signal.signal(signal.SIGALRM, previous[0])
        last.cancel()
