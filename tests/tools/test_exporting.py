"""An exported network takes rows and gives answers, as `load_predictor` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from micrograd_core.tools.cli import main
from micrograd_train import Predictor, load_predictor, read, sets
from tests.tools.flowers import table
from tests.tools.houses import houses

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
BEFORE = Path(__file__).parent / "before"
WORDS = ("--epochs", "4", "--hidden", "8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exporting")
    path = houses(folder / "houses.csv")
    known = folder / "known.csv"
    known.write_text(path.read_text().replace(",,small", ",true,small").replace(",,large", ",false,large"))
    for target, data, more in (
        ("price", path, []), ("kind", path, []), ("heated", known, []), ("rooms", path, ["--task", "classification"]),
    ):  # fmt: skip
        assert main(["train", str(data), "--target", target, *WORDS, *more, "--out", str(folder / target)]) == 0
    return folder


def session(predictor: Predictor, out: Path) -> Any:
    assert main(["export", str(predictor.path), str(out)]) == 0
    return onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])


def fed(predictor: Predictor, rows: Any) -> dict[str, Any]:
    """The inputs of the graph, made of a table by what the documentation says of them."""
    preparation = predictor.inputs.preparation
    assert preparation is not None
    rows = read(rows, preparation=preparation)
    made: dict[str, Any] = {}
    for column in preparation.columns:
        cells = rows[column.name].to_pylist()
        if getattr(column, "type", "") == "text":
            made[column.name] = np.array(["" if each is None else each.strip() for each in cells], dtype=object)
        elif hasattr(column, "values"):
            made[column.name] = np.array([np.nan if each is None else float(each) for each in cells])
        else:
            made[column.name] = column.read(rows)
    return made


def same(predictor: Predictor, rows: Any, out: Path) -> Any:
    """What the file says, which is what the predictor says."""
    graph = session(predictor, out)
    found = dict(zip([each.name for each in graph.get_outputs()], graph.run(None, fed(predictor, rows)), strict=True))
    expected = predictor.predict(rows)
    if predictor.inputs.task == "regression":
        np.testing.assert_allclose(found["prediction"], expected, rtol=1e-5)
    else:
        assert found["prediction"].tolist() == expected.tolist()
        np.testing.assert_allclose(found["probabilities"], predictor.probabilities(rows), atol=1e-5)
        assert json.loads(graph.get_modelmeta().custom_metadata_map["classes"]) == list(predictor.classes)
    return graph


@pytest.mark.parametrize("target", ["price", "kind", "heated", "rooms"])
def test_rows_have_the_same_answers(target: str, folder: Path, tmp_path: Path) -> None:
    predictor = load_predictor(folder / target)
    path = folder / "known.csv" if target == "heated" else houses(tmp_path / "new.csv", seed=1)
    graph = same(predictor, path, tmp_path / "m.onnx")
    assert [each.name for each in graph.get_inputs()] == list(predictor.columns)
    one = {name: x[:1] for name, x in fed(predictor, path).items()}
    assert graph.run(None, one)[0].tolist() == graph.run(None, fed(predictor, path))[0][:1].tolist()


def test_missing_and_unseen_cells_are_what_unseen_missing_makes_of_them(folder: Path, tmp_path: Path) -> None:
    predictor = load_predictor(folder / "price", unseen="missing")
    path = houses(tmp_path / "new.csv", 12, seed=2)
    text = path.read_text().replace("01001", "99999").replace("90210", "").replace(",large,", ",huge,")
    path.write_text(text.replace("No,", "NO,"))
    same(predictor, path, tmp_path / "m.onnx")


@pytest.mark.parametrize("target", ["species", "length"])
def test_what_the_version_before_wrote_is_exported(target: str, tmp_path: Path) -> None:
    same(load_predictor(BEFORE / f"{target}.safetensors"), table(tmp_path), tmp_path / "m.onnx")


def test_rare_texts_share_an_input_there_too(tmp_path: Path) -> None:
    path = tmp_path / "my.csv"
    lines = [f"k{i // 2 % 300 if i % 2 else i % 3},{i * 37 % 101},{'ab'[i % 3 == 0]}" for i in range(1500)]
    path.write_text("\n".join(["k,x,y", *lines]) + "\n")
    assert main(["train", str(path), "--target", "y", *WORDS, "--out", str(tmp_path / "run")]) == 0
    path.write_text("\n".join(["k,x,y", *lines[:50], "never seen,1,a"]) + "\n")
    same(load_predictor(tmp_path / "run"), path, tmp_path / "m.onnx")


def test_images_have_classes(tmp_path: Path) -> None:
    assert main(["train", "digits", "--epochs", "1", "--hidden", "8", "--out", str(tmp_path / "run")]) == 0
    predictor = load_predictor(tmp_path / "run")
    x = sets.load("digits").x[:9].reshape(9, -1)
    graph = session(predictor, tmp_path / "m.onnx")
    prediction, chances = graph.run(None, {graph.get_inputs()[0].name: x})
    assert prediction.tolist() == predictor.predict(x).tolist()
    np.testing.assert_allclose(chances, predictor.probabilities(x), atol=1e-5)


@pytest.mark.parametrize("name", ["prediction", "input", "0.weight", "rows", "batch"])
def test_columns_may_be_called_as_parts_of_the_graph(name: str, tmp_path: Path) -> None:
    path = table(tmp_path)
    path.write_text(path.read_text().replace("width", name, 1))
    assert main(["train", str(path), "--target", "species", *WORDS, "--out", str(tmp_path / "run")]) == 0
    predictor = load_predictor(tmp_path / "run")
    graph = session(predictor, tmp_path / "m.onnx")
    assert graph.run(None, fed(predictor, path))[0].tolist() == predictor.predict(path).tolist()
