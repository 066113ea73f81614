"""The notebooks run from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs").glob("*.ipynb"))


@pytest.mark.filterwarnings("ignore")  # those of the notebook's machinery; the kernel has its own
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    kept = [bool(cell.get("outputs")) for cell in notebook.cells]
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    assert [bool(cell.get("outputs")) for cell in notebook.cells] == kept
    streams = [out for cell in notebook.cells for out in cell.get("outputs", []) if out.output_type == "stream"]
    assert all(out.name == "stdout" for out in streams), "a warning was printed"
