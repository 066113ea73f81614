"""What is done with a trained network: predict, evaluate, inspect, compare, export."""

from __future__ import annotations

import csv
import importlib
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import micrograd_core as mg
from micrograd_core import nn, plugins
from micrograd_core.checkpoints import load, load_model, save
from micrograd_core.tools.cli import main
from micrograd_train.using import comparison
from tests.tools.flowers import table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``my.csv``, ``species`` that tells its rows apart, and ``length`` that predicts a number."""
    folder = tmp_path_factory.mktemp("using")
    path = str(table(folder))
    words = ["--epochs", "30", "--hidden", "16", "--lr", "0.02"]
    for target in ("species", "length"):
        assert main(["train", path, "--target", target, *words, "--out", str(folder / target)]) == 0
    return folder


def said(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints."""
    capsys.readouterr()
    assert main([each.replace("FOLDER", str(folder)) for each in words]) == 0
    return capsys.readouterr().out


def refused(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What it says, when it does nothing."""
    before = sorted(path.name for path in folder.iterdir())
    assert main([each.replace("FOLDER", str(folder)) for each in words]) == 2
    assert sorted(path.name for path in folder.iterdir()) == before
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error


# ── predict ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_predictions_stand_beside_the_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(folder, capsys, "predict", "FOLDER/species", "FOLDER/my.csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 90
    names = [f"probability of {name}" for name in ("setosa", "versicolor", "virginica")]
    assert list(rows[0]) == ["length", "width", "colour", "species", "predicted species", *names]
    for row in rows:
        chances = {name: float(row[name]) for name in names}
        assert sum(chances.values()) == pytest.approx(1, abs=1e-5)
        assert max(chances, key=lambda name: chances[name]) == f"probability of {row['predicted species']}"
    assert sum(row["species"] == row["predicted species"] for row in rows) > 80


def test_predictions_are_those_of_the_network(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from micrograd_core.checkpoints import load
    from micrograd_train import Preparation, read

    path = folder / "length" / "model.safetensors"
    preparation = Preparation.from_json(load(path).meta["inputs"]["preparation"])
    x, _ = preparation.apply(read(folder / "my.csv"))
    expected = preparation.inverse(load_model(path)(mg.asarray(x)).reshape((-1,)))
    rows = json.loads(said(folder, capsys, "predict", "FOLDER/length", "FOLDER/my.csv", "--json"))["predictions"]
    assert [row["predicted length"] for row in rows] == pytest.approx(expected.tolist(), rel=1e-6)


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "json"])
def test_predictions_are_written_as_the_suffix_says(
    kind: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / f"p.{kind}"
    told = said(folder, capsys, "predict", "FOLDER/length", "FOLDER/my.csv", "--out", str(out))
    assert told == f"wrote 90 predictions to {out}\n"
    if kind == "json":
        found = json.loads(out.read_text())
    else:
        from micrograd_train import read

        found = read(out).to_pylist()
    assert len(found) == 90
    assert found[0]["predicted length"] == pytest.approx(1.4, abs=0.8)


def test_new_rows_need_no_target(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = tmp_path / "new.csv"
    new.write_text("width,colour,length\n3.4,red,1.4\n2.8,blue,4.3\n3.0,,5.6\n".replace("3.0,,", "3.0,red,"))
    rows = list(csv.DictReader(io.StringIO(said(folder, capsys, "predict", "FOLDER/species", str(new)))))
    assert [row["predicted species"] for row in rows] == ["setosa", "versicolor", "virginica"]


def test_what_rows_get_wrong_is_said(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = tmp_path / "new.csv"
    for text, words in (
        (
            "length,width,colour\n1,2,green\n",
            "row 1 (line 2 of new.csv), column 'colour': the category 'green' was never",
        ),
        ("length,colour\n1,red\n", "the table lacks the column 'width'"),
        (
            "length,width,colour\n1,wide,red\n",
            "row 1 (line 2 of new.csv), column 'width': the text 'wide' stands where",
        ),
        ("length,width,colour\n1,1e999,red\n", "row 1 (line 2 of new.csv), column 'width': inf is no number"),
        ("", "'new.csv' is empty"),
        ("length,width,colour\n", "without rows"),
    ):
        new.write_text(text)
        out = tmp_path / "p.csv"
        assert words in refused(folder, capsys, "predict", "FOLDER/species", str(new), "--out", str(out))
        assert not out.exists()
    new.write_text("length,width,colour\n1,2,green\n")
    assert "predicted" in said(folder, capsys, "predict", "FOLDER/species", str(new), "--unseen", "missing")
    for words, told in (
        (["predict", "FOLDER/none", "FOLDER/my.csv"], "none"),
        (["predict", "FOLDER/my.csv", "FOLDER/my.csv"], "is no checkpoint but text"),
        (["predict", "FOLDER/species", "FOLDER/none.csv"], "there is no file"),
        (["predict", "FOLDER/species", "FOLDER"], "is a folder, and this network was trained on a table"),
        (["predict", "FOLDER/species", "FOLDER/my.csv", "--out", "p.xls"], "written as .csv, .tsv, .parquet, .json"),
        (["predict", "FOLDER/species", "FOLDER/my.csv", "--out", "FOLDER/my.csv/p.csv"], "cannot write"),
    ):
        assert told in refused(folder, capsys, *words)


# ── evaluate, inspect ────────────────────────────────────────────────────────────────────────────────────────


def test_evaluate_judges_by_what_is_known(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(folder, capsys, "evaluate", "FOLDER/species", "FOLDER/my.csv", "--json"))
    rows = csv.DictReader(io.StringIO(said(folder, capsys, "predict", "FOLDER/species", "FOLDER/my.csv")))
    right = [row["species"] == row["predicted species"] for row in rows]
    assert found["accuracy"] == pytest.approx(sum(right) / 90)
    assert sum(map(sum, found["confusion"])) == found["rows"] == 90
    assert "accuracy" in said(folder, capsys, "evaluate", "FOLDER/species", "FOLDER/my.csv")
    assert "R²" in said(folder, capsys, "evaluate", "FOLDER/length", "FOLDER/my.csv")


def test_evaluate_needs_the_target(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = tmp_path / "new.csv"
    new.write_text("width,colour,length\n3.4,red,1.4\n")
    words = refused(folder, capsys, "evaluate", "FOLDER/species", str(new))
    assert "does not have the target 'species', which evaluate compares with; micrograd predict needs none" in words


def test_inspect_shows_layers_columns_and_figures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(folder, capsys, "inspect", "FOLDER/species")
    for words in (
        "mlp for classification of 'species'",
        "Linear(4, 16)",
        "(1, 3)",
        "classes: setosa",
        "2 categories: blue",
    ):
        assert words in text
    found = json.loads(said(folder, capsys, "inspect", "FOLDER/species", "--json"))
    assert found["parameters"] == 4 * 16 + 16 + 16 * 3 + 3
    assert found["tensors"]["0.weight"] == {"dtype": "float32", "shape": [16, 4]}


def test_inspect_shows_any_file_of_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.safetensors"
    save(path, model=nn.Linear(3, 2), meta={"by": "hand"})
    text = said(tmp_path, capsys, "inspect", "FOLDER/other.safetensors")
    assert "8 parameters" in text
    assert '"by": "hand"' in text
    assert main(["predict", str(path), str(path)]) == 2
    assert "does not say how data become the network's numbers" in capsys.readouterr().err


# ── other devices, other formats ─────────────────────────────────────────────────────────────────────────────


def test_compare_runs_the_network_everywhere(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(said(folder, capsys, "compare", "FOLDER/species", "--rows", "4", "--json"))
    by_device = {row["device"].partition(":")[0]: row for row in rows}
    assert rows[0]["device"].startswith("cpu")
    assert rows[0]["status"] == "reference"
    assert by_device["rawbuffer"]["status"] == "agrees"
    assert by_device["rawbuffer"]["gradient difference"] < 1e-5
    assert "agrees" in said(
        folder, capsys, "compare", "FOLDER/species", "--devices", "cpu", "rawbuffer:0", "--rows", "2"
    )


def test_compare_says_how_far_how_long_and_how_often(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    devices = ["--devices", "cpu", "strict:0", "--rows", "3"]
    rows = json.loads(said(folder, capsys, "compare", "FOLDER/species", *devices, "--json"))
    assert [(row["device"], row["jit"]) for row in rows] == [("cpu", False), ("cpu", True), ("strict:0", False)]
    for row in rows[1:]:
        assert 0 <= row["output ulp"] < 100
        assert 0 <= row["gradient ulp"] < 100
        assert row["output absolute"] < 1e-4
        assert row["milliseconds"] > 0
    table = said(folder, capsys, "compare", "FOLDER/species", *devices).splitlines()
    assert "outputs differ by" in table[0]
    assert [line.split()[0] for line in table[2:]] == ["cpu", "cpu", "strict:0"]
    assert " jit " in table[3]


def test_compare_runs_the_step_as_a_program_in_c(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for model in (["FOLDER/species"], []):
        if shutil.which("cc") is None:
            break
        rows = json.loads(said(folder, capsys, "compare", *model, "--devices", "cpu", "C", "--json"))
        assert [(row["device"], row["status"]) for row in rows[::2]] == [("cpu", "reference"), ("C", "agrees")]
        assert 0 <= rows[-1]["gradient ulp"] < 100
        assert rows[-1]["milliseconds"] > 0
    monkeypatch.setenv("PATH", "")
    assert "'C' is unavailable: there is no C compiler" in refused(folder, capsys, "compare", "--devices", "cpu", "C")


def test_compare_makes_a_network_where_no_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(said(Path(), capsys, "compare", "--devices", "cpu", "rawbuffer:0", "--rows", "1", "--json"))
    assert [row["status"] for row in rows] == ["reference", "agrees", "agrees"]


def test_a_wrong_kernel_is_a_large_difference(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "plugins" / "faulty")
    plugins.register("faulty", importlib.import_module("micrograd_faulty.plugin"))
    name = "faulty:single-precision-gradient"  # that of relu is half of what it should be
    try:
        assert main(["compare", str(folder / "species"), "--devices", "cpu", name, "--rows", "8", "--json"]) == 1
        rows = json.loads(capsys.readouterr().out)
        assert main(["compare", str(folder / "species"), "--devices", "cpu", name]) == 1
        assert re.search(rf"^{name} +differs ", capsys.readouterr().out, re.MULTILINE)
    finally:
        plugins.unregister("faulty")
    (row,) = (row for row in rows if row["device"] == name and not row["jit"])
    assert row["status"] == "differs"
    assert row["gradient ulp"] > 1e6
    assert row["output ulp"] < 100
    assert row["largest at"].startswith("0.")


def test_launches_are_those_of_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    class Counts:
        made = 0

        def launch(self, *arguments: Any) -> None:
            self.made += 1

    backend = Counts()
    assert comparison._launches(backend, lambda: [backend.launch(1), backend.launch(2)]) == 2
    assert vars(backend) == {"made": 2}
    assert comparison._launches(object(), lambda: None) is None


@pytest.mark.parametrize("arguments", [["FOLDER/none"], ["FOLDER/species", "--devices", "cpu", "cpuu"]])
def test_compare_refuses_what_there_is_not(
    folder: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = refused(folder, capsys, "compare", *arguments)
    assert "no such file" in words or "Did you mean 'cpu'?" in words


def test_export_refuses_other_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "name a file that ends in .onnx" in refused(folder, capsys, "export", "FOLDER/species", "m.txt")


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.pop("figures"),
        lambda meta: meta.pop("model"),
        lambda meta: meta.update(judged_on=3),
        lambda meta: meta["figures"].update(loss="low"),
        lambda meta: meta.update(inputs=[]),
        lambda meta: meta["inputs"].pop("classes"),
        lambda meta: meta["inputs"].pop("preparation"),
        lambda meta: meta["inputs"].update(shape="4"),
        lambda meta: meta["inputs"].update(shape=[10**9, 10**9]),
        lambda meta: meta["inputs"].update(preparation=None),
        lambda meta: meta["inputs"].update(classes=[[]]),
        lambda meta: meta["inputs"].update(kind=["table"]),
    ],
)
def test_what_a_file_says_of_its_training_may_be_anything(
    change: Callable[[Any], Any], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "species" / "model.safetensors"
    meta = load(path).meta
    change(meta)
    save(tmp_path / "other.safetensors", model=load_model(path), meta=meta)
    for given in (["inspect"], ["inspect", "--json"], ["predict", "FOLDER/my.csv"], ["evaluate", "FOLDER/my.csv"]):
        words = refused(folder, capsys, given[0], str(tmp_path / "other.safetensors"), *given[1:])
        assert re.search("makes no sense|does not say how data become|no preparation as to_json gives it", words)
