"""The examples in README, docs and docstrings run as written; links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import micrograd_core
from micrograd_core import Device, doctor, plugins

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page for folder in (".", "docs", "backends/*", "plugins/*", "benchmarks") for page in ROOT.glob(f"{folder}/*.md")
)
FLAGS = doctest.NORMALIZE_WHITESPACE


@pytest.fixture
def _only_the_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A page speaks of a fresh installation."""
    others = [name for name in plugins.names() if name != "cpu"]
    monkeypatch.setenv("MICROGRAD_DISABLE_PLUGINS", ",".join(others))
    for name in others:
        Device.forget(name)
    yield
    plugins.unregister("mine")
    Device.forget("mine")


@pytest.mark.usefixtures("_only_the_cpu")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_the_pages(page: Path) -> None:
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS, encoding="utf-8")
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("module", [m.name for m in pkgutil.walk_packages(micrograd_core.__path__, "micrograd_core.")])
def test_examples_of_the_docstrings(module: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(module), optionflags=FLAGS)
    assert failed == 0


def test_the_core_reads_in_an_evening() -> None:
    """Files over 500 lines want a reason, and there is none so far."""
    lengths = {path: len(path.read_text().splitlines()) for path in (ROOT / "micrograd_core").rglob("*.py")}
    assert max(lengths.values()) <= 500, max(lengths, key=lengths.get)


def test_the_readme_shows_what_the_doctor_prints() -> None:
    printed = doctor.table([doctor.examine("cpu", "0")])
    assert printed in (ROOT / "README.md").read_text()
