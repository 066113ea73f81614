"""Raise an error at a chosen line of what a call executes, as Ctrl-C or a lack of memory may at any."""

from __future__ import annotations

import contextvars
import dis
import gc
import os
import random
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

import micrograd_core
from micrograd_core.interpreters.guards import Guard
from micrograd_core.interpreters.raw import Kernels

EXHAUSTIVE = os.environ.get("MICROGRAD_EXHAUSTIVE") == "1"
ROOT = Path(micrograd_core.__file__).parents[1]
OURS = tuple(f"{ROOT / folder}{os.sep}" for folder in ("micrograd_core", "backends", "plugins", "tests"))
ERRORS: tuple[type[BaseException], ...] = (KeyboardInterrupt, MemoryError)
Subject = TypeVar("Subject")


@cache
def ends_of_with(code: CodeType) -> frozenset[int]:
    """Where blocks of ``with`` end: Python comes back to their line, but hears no signal before ``__exit__``."""
    if None not in code.co_consts[:256]:
        return frozenset()
    three = bytes([dis.opmap["LOAD_CONST"], code.co_consts.index(None)]) * 3  # what `__exit__` gets
    swapped = bytes([dis.opmap["SWAP"], 2])  # of a value that is returned from within
    return frozenset(
        each.start() for each in re.finditer(b"(%b)?%b" % tuple(map(re.escape, (swapped, three))), code.co_code)
    )


@contextmanager
def each_line(react: Callable[[FrameType], None], ours: Callable[[FrameType], bool]) -> Iterator[None]:
    """Inside the block, `react` before each line of frames that are `ours`; what it raises, the line raises."""
    here = each_line.__wrapped__.__code__  # type: ignore[attr-defined]

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and frame.f_lasti not in ends_of_with(frame.f_code):
            react(frame)
        return local

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return local if frame.f_code is not here and ours(frame) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def lines(call: Callable[[], Any], stop: int | None = None, error: type[BaseException] | None = None) -> list[str]:
    """The files of the lines of this project that a call runs through, one after the other.

    With `stop` it raises `error` before the line of that number, once.
    """
    seen: list[str] = []

    def react(frame: FrameType) -> None:
        seen.append(frame.f_code.co_filename)
        if len(seen) - 1 == stop:
            assert error is not None
            raise error

    def ours(frame: FrameType) -> bool:
        assert frame.f_back is not None
        finalizes = frame.f_back.f_code.co_filename == weakref.__file__  # what raises there Python only reports
        return frame.f_code.co_filename.startswith(OURS) and not finalizes

    gc.disable()  # it would run the finalizers of others in between
    try:
        with each_line(react, ours):
            call()
    finally:
        gc.enable()
    return seen


def settle_kernels() -> None:
    """Kernels that are still looked at would run through other lines each time."""
    for kernels in list(Kernels._of.values()):
        for guard in [each for each in vars(kernels).values() if isinstance(each, Guard)]:
            kernels.settle(guard)


def interrupted(
    make: Callable[[], Subject], act: Callable[[Subject], Any], whole: tuple[str, ...]
) -> Iterator[tuple[int, Subject]]:
    """Subjects, newly made each, on which `act` was interrupted: by each error, at each line that it runs through.

    Of the lines in files other than `whole` 8 are taken, and errors take turns; with ``MICROGRAD_EXHAUSTIVE=1`` 400,
    which for a step on the cpu is all of them, and each with both errors.
    """
    for _ in range(2):  # what is done once in a process is done the first time
        subject = make()
        act(subject)
        settle_kernels()
    subject = make()
    files = lines(lambda: act(subject))
    beneath = [i for i, file in enumerate(files) if not file.endswith(whole)]
    few = min(400 if EXHAUSTIVE else 8, len(beneath))
    left_out = set(beneath) - set(random.Random(0).sample(beneath, few))
    assert len(left_out) < len(files)
    for i in range(len(files)):
        for error in ERRORS if EXHAUSTIVE else ERRORS[i % 2 : i % 2 + 1]:
            if i in left_out:
                continue
            subject = make()
            try:
                contextvars.copy_context().run(lines, lambda subject=subject: act(subject), i, error)
            except error:
                yield i, subject
            else:
                raise AssertionError(f"line {i} of {len(files)} was not reached")
