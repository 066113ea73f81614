"""Fixtures: devices that the core's tests run on; the same draws for a test, whatever ran before it."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest

import micrograd_core as mg
from micrograd_core import Device
from tests import sampling

with suppress(ImportError):  # not on Pyodide
    import hypothesis

    hypothesis.settings.register_profile("any machine", deadline=None)  # how long an example takes is no verdict
    hypothesis.settings.load_profile("any machine")

os.environ["SCIPY_ARRAY_API"] = "1"  # SciPy looks once, when it is imported


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take samples of the generated cases."""
    sampling.leave_out(sampling.left(items), config, items)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every default generator begins anew: what a test draws does not depend on which tests ran before it."""
    random.seed(0)
    mg.random.manual_seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture(params=["cpu", "rawbuffer"])
def device(request: pytest.FixtureRequest) -> Device:
    """Each device in turn."""
    return Device(request.param)


@pytest.fixture
def rawbuffer_device() -> Device:
    """The pure Python device."""
    return Device("rawbuffer")


OF_DEVELOPERS = frozenset(
    """
    PIL array_api_extra array_api_strict einops grimp hypothesis importlinter ipykernel llvmlite matplotlib mpmath
    nbclient nbformat onnx onnxruntime pandas polars pyarrow safetensors scipy selenium sklearn tensorboardX
    threadpoolctl
    """.split()
)
"""What the group dev brings, by the names of its modules."""


def missing(call: pytest.CallInfo[Any]) -> str | None:
    """The package of the group dev for want of which something failed, where `MICROGRAD_TESTS_WITHOUT_DEV` is 1.

    On a machine where nothing can be installed that is no failure. Everywhere else it is.
    """
    error = call.excinfo.value if call.excinfo and os.environ.get("MICROGRAD_TESTS_WITHOUT_DEV") == "1" else None
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in OF_DEVELOPERS:
            return f"{error.name} is not installed"
        error = error.__cause__ or error.__context__
    return None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """A module of tests that cannot be imported without it is skipped."""
    report = yield
    if report.call and (why := missing(report.call)):
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, f"Skipped: {why}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """A test, or what it is given, as well."""
    report = yield
    if report.failed and (why := missing(call)):
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {why}")
    return report
