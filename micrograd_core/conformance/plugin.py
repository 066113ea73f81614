"""The pytest side: the option ``--device``, and the matrix at the end. Every pytest run loads it: it imports little."""

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
    """Count outcomes if a device was named; the controller of parallel workers sees nothing else of the tests."""
    device = config.getoption("--device", None)
    if device is not None:
        add_matrix(config, device)


def pytest_collection_finish(session: Any) -> None:
    """Count outcomes if a subclass of the suite was collected."""
    for item in session.items:
        device = getattr(item.cls, "device", None)
        if device and getattr(item.cls, "conformance", False):
            add_matrix(session.config, device)
            return


def add_matrix(config: Any, device: str, **paths: str) -> None:
    """Print a matrix for `device` at the end of the run, once."""
    from micrograd_core.conformance.matrix import Matrix

    if not any(isinstance(plugin, Matrix) for plugin in config.pluginmanager.get_plugins()):
        config.pluginmanager.register(Matrix(device, **paths), "micrograd-matrix")
