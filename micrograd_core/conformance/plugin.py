"""The pytest side: the option ``--device``, and a matrix per device at the end.

Every pytest run loads it, so it imports little. Tests tell which device they are for in their user properties, which
reach the controller of parallel workers too.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any


def pytest_addoption(parser: Any) -> None:
    """Which device ``--pyargs micrograd_core.conformance`` tests."""
    with suppress(ValueError):  # the option of that name belongs to somebody else here; subclasses name their device
        parser.addoption(
            "--device", default=None, help="the device micrograd's conformance suite tests, such as mine:0"
        )


def pytest_configure(config: Any) -> None:
    """Count outcomes by device."""
    known = any(isinstance(plugin, Matrices) for plugin in config.pluginmanager.get_plugins())
    if not known and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Matrices())


class Matrices:
    """One `Matrix` for each device that had tests, printed at the end and written to files if asked."""

    def __init__(self, *, json_path: str = "", markdown_path: str = "") -> None:
        self.json_path, self.markdown_path = json_path, markdown_path
        self.by_device: dict[str, Any] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count one test."""
        told = dict(report.user_properties)
        device = told.get("micrograd device")
        if device is not None:
            if device not in self.by_device:
                from micrograd_core.conformance.matrix import Matrix

                self.by_device[device] = Matrix()
            self.by_device[device].facts.update(told.get("micrograd facts", {}))
            self.by_device[device].count(report)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Levels, operations and the verdict; files if asked."""
        for matrix in self.by_device.values():
            terminalreporter.section(f"conformance of {matrix.facts['device']}")
            terminalreporter.write_line(
                matrix.text(terminalreporter._tw.fullwidth, colour=terminalreporter._tw.hasmarkup)
            )
            matrix.save(self.json_path, self.markdown_path)
