"""The pytest side: the options, a matrix per device, and the verdict as the last line.

Every pytest run loads it, so it imports little. Tests tell which device they are for in their user properties, which
reach the controller of parallel workers too.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: Any, args: list[str]) -> Generator[None, Any, Any]:
    """Which device ``--pyargs micrograd_core.conformance`` tests, and for how long.

    Options are global in pytest, and other projects have a ``--device`` of their own. So these are added only where the
    command line names the suite, and after the options of a project.
    """
    loaded = yield
    if any("micrograd_core.conformance" in each.replace(os.sep, ".") for each in args):
        _add(parser, "--device", help="the device micrograd's conformance suite tests, such as mine:0")
        told = "how long one test of micrograd's conformance suite may take (default: 300)"
        _add(parser, "--time-limit", type=float, metavar="SECONDS", help=told)
    return loaded


def _add(parser: Any, name: str, **settings: Any) -> None:
    with suppress(ValueError):  # the project has one of that name
        parser.addoption(name, default=None, **settings)


def pytest_configure(config: Any) -> None:
    """Count outcomes by device."""
    from micrograd_core.conformance.limit import remember_terminal

    remember_terminal()
    known = any(isinstance(plugin, Matrices) for plugin in config.pluginmanager.get_plugins())
    if not known and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Matrices())


class Matrices:
    """One `Matrix` for each device that had tests, printed at the end and written to files if asked."""

    def __init__(self, *, device: str = "", json_path: str = "", markdown_path: str = "") -> None:
        self.device, self.json_path, self.markdown_path = device, json_path, markdown_path
        self.by_device: dict[str, Any] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count one test. Of one that took its process along there is only this report, without a device."""
        told = dict(report.user_properties)
        device = told.get("micrograd device")
        if device is None and report.when == "???" and len(self.by_device) == 1:
            device, report.when = next(iter(self.by_device)), "call"
        if device is not None:
            if device not in self.by_device:
                from micrograd_core.conformance.matrix import Matrix

                self.by_device[device] = Matrix()
            self.by_device[device].facts.update(told.get("micrograd facts", {}))
            self.by_device[device].broken.update(told.get("micrograd broken", {}))
            self.by_device[device].count(report)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Levels, operations and causes of failures; files if asked."""
        for matrix in self.by_device.values():
            terminalreporter.section(f"conformance of {matrix.facts['device']}")
            terminalreporter.write_line(matrix.text())
            matrix.save(self.json_path, self.markdown_path)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: Any) -> Generator[None, None, None]:
        """The verdict, after all that pytest has to say."""
        yield
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.ensure_newline()
            for matrix in self.by_device.values():
                terminal.write_line(matrix.verdict())
            if self.device and not self.by_device:
                terminal.write_line(f"no test was run: nothing is said of {self.device}")
