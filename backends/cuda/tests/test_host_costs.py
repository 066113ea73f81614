"""`benchmarks/gpu/host.py`, which counts what a call costs the host, without valgrind."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import host

emulated = pytest.mark.skipif(
    find_spec("emulated_cuda") is None, reason="there is no emulated GPU: python backends/cuda/tests/emulated/build.py"
)


@emulated
@pytest.mark.parametrize("dtype", host.DTYPES)
def test_each_operation_of_the_table_launches_or_multiplies(dtype: str) -> None:
    from micrograd_core import Device

    recorded: Callable[[Any], list[str]] = importlib.import_module("emulated_cuda.boot").recorded
    found = host.operations(dtype, Device("cuda"))
    assert {*found} == {name for names in host.ROWS.values() for name in names}
    for name, call in found.items():
        assert any("allocation" not in line for line in recorded(call)), name


def test_the_table_has_thousands_of_what_callgrind_counted() -> None:
    assert host.instructions("version: 1\ntotals: 99\nsummary: 4200000\n") == 4_200_000 / host.COUNTED
    names = [name for each in host.ROWS.values() for name in each]
    found = {dtype: {name: 1000.0 * i + 400 for i, name in enumerate(names)} for dtype in host.DTYPES}
    lines = list(host.table(found))
    assert lines[2] == "| a bare launch of a `RawKernel`; with an array allocated | 0; 1 | 0; 1 |"
    assert len(lines) == 2 + len(host.ROWS)


@pytest.mark.parametrize("there", [True, False])
def test_what_is_missing_is_said(there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_spec", lambda name: there or None)
    monkeypatch.setattr(os, "environ", {**os.environ, "PATH": str(tmp_path)})
    assert ("no valgrind" if there else "no emulated GPU") in host.missing()


def test_without_them_nothing_is_counted(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu.host", "--out", str(tmp_path)], cwd=host.ROOT,
        env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("there is no ")
    assert not [*tmp_path.iterdir()]
