"""The conformance suite: whether a device does what the op table says, in every dtype and memory layout.

Three ways in, none of which needs a file of ours beside the installed packages (pytest and NumPy do the judging):

- ``micrograd conformance mine:0``
- ``pytest --pyargs micrograd_core.conformance --device mine:0``
- in the backend's own tests::

      from micrograd_core.conformance import Conformance

      class TestMine(Conformance):
          device = "mine:0"

A backend may have an attribute ``known_failures``: patterns for test names, in which ``*`` and ``?`` are wild (such as
``"test_value[exp-*-float16-*]"`` or ``"test_threads"``), with reasons. They are strict: one that passes is a failure,
and so is a pattern that matches no test. A reason that begins with ``"not run: "`` keeps the test from running at all,
for those that would hang or end the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from micrograd_core.device import Device
from micrograd_core.errors import MissingExtra
from micrograd_core.support import files

__all__ = ["Conformance", "run"]


def run(
    device: str, *, json_path: str = "", markdown_path: str = "", expression: str = "", workers: str = "",
    options: Sequence[str] = (),
) -> int:  # fmt: skip
    """Run the suite for `device`, in this process unless `workers` is a number for pytest-xdist; pytest's exit status.

    `options` go to pytest as they are, such as ``-x`` or ``--junitxml=FILE``.

    Raises
    ------
    MissingExtra
        When pytest or NumPy is not installed, or pytest-xdist where workers were asked for.
    BackendNotFound, BackendBroken, BackendIncompatible, DeviceUnavailable
        When there is no such device to test.
    CannotWrite
        When there is no writing to a path.
    """
    needed = {"pytest": "pytest", "numpy": "numpy", **({"xdist": "pytest-xdist"} if workers else {})}
    missing = [package for name, package in needed.items() if find_spec(name) is None]
    if missing:
        raise MissingExtra("micrograd conformance", " and ".join(missing), "conformance")
    Device(device)  # say now what is wrong with it
    files.check(*(Path(path) for path in (json_path, markdown_path) if path))

    import pytest

    from micrograd_core.conformance.plugin import Matrices

    arguments = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    arguments += [] if "-v" in options else ["--tb=no", "-rN"]  # failures are told by their causes
    arguments += ["--pyargs", "micrograd_core.conformance", "--device", device]
    arguments += (["-k", expression] if expression else []) + (["-n", workers] if workers else [])
    arguments += options
    matrices = Matrices(device=device, json_path=json_path, markdown_path=markdown_path)
    return int(pytest.main(arguments, plugins=[matrices]))


# pytest rewrites the assertions of `suite` only if it is imported after pytest starts
def __getattr__(name: str) -> Any:
    if name == "Conformance":
        from micrograd_core.conformance.suite import Conformance

        return Conformance
    raise AttributeError(name)
