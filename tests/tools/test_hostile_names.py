"""Names in files of strangers: what reaches a terminal is text, and what is advised to be typed is one argument."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import micrograd_core as mg
from micrograd_core import nn
from micrograd_core.checkpoints import load, load_model, save
from micrograd_core.data import DataError
from micrograd_core.support.escaping import aligned
from micrograd_core.tools.cli import main
from micrograd_train import load_predictor, read
from micrograd_train.options import as_options

EVIL = "a\x1b]2owned\x07\x7f\x9b31m\u202eb"
"""Sets a terminal's title, its colour, and the direction of text."""
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of a stranger, and a network that was trained on it."""
    folder = tmp_path_factory.mktemp("hostile")
    name, kind = f"n{EVIL}", f"k{EVIL}"
    lines = [f'"{name}","{kind}","y{EVIL}"']
    lines += [f'{i % 3}.{i},"{"pq"[i % 2]}{EVIL}","{"uvw"[i % 3]}{EVIL}"' for i in range(90)]
    (folder / "my.csv").write_text("\n".join(lines) + "\n", newline="")
    words = ["--target", f"y{EVIL}", "--epochs", "2", "--hidden", "4", "--out", str(folder / "out")]
    assert main(["train", str(folder / "my.csv"), *words]) == 0
    return folder


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    main([*words])
    found = capsys.readouterr()
    assert "Traceback" not in found.err
    return found.out + found.err


@pytest.mark.parametrize(
    "words",
    [
        ["train", "FOLDER/my.csv", "--target", "none", "--out", "FOLDER/new"],
        ["train", "FOLDER/my.csv", "--target", f"y{EVIL}", "--epochs", "1", "--out", "FOLDER/new"],
        ["train", "FOLDER/my.csv", "--target", f"y{EVIL}", "--epochs", "1", "--out", "FOLDER/new", "--json"],
        ["train", "FOLDER/my.csv", "--target", f"y{EVIL}", "--epochs", "1", "--out", "FOLDER/new", "--model", "cnn"],
        ["inspect", "FOLDER/out"],
        ["inspect", "FOLDER/out", "--json"],
        ["evaluate", "FOLDER/out", "FOLDER/my.csv"],
        ["evaluate", "FOLDER/out", "FOLDER/my.csv", "--json"],
        ["predict", "FOLDER/out", "FOLDER/my.csv", "--json"],
        ["predict", "FOLDER/out", "FOLDER/other.csv"],
        ["predict", "FOLDER/out", "FOLDER/few.csv"],
        ["compare", "FOLDER/out", "--devices", "cpu"],
    ],
)
def test_a_terminal_obeys_nothing_that_a_file_says(
    words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (folder / "my.csv").read_text()
    (folder / "other.csv").write_text(text.replace("p", "new").replace("q", "new"), newline="")
    (folder / "few.csv").write_text("other\n1\n")
    found = shown(capsys, *(each.replace("FOLDER", str(folder)) for each in words))
    assert not CONTROL.findall(found)
    if "--json" in words:
        json.JSONDecoder().raw_decode(found[found.index("{") :])


def test_a_cell_of_a_table_is_one_line() -> None:
    assert aligned([("class",), ("a\nmicrograd: wrote",)]).count("\n") == 2


def test_json_says_the_same_in_other_letters(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(shown(capsys, "inspect", str(folder / "out"), "--json"))
    assert found["inputs"]["target"] == f"y{EVIL}"


def test_predictions_that_a_program_reads_keep_their_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"predicted y{EVIL}" in shown(capsys, "predict", str(folder / "out"), str(folder / "my.csv"))


def test_predictions_on_a_terminal_do_not(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert not CONTROL.findall(shown(capsys, "predict", str(folder / "out"), str(folder / "my.csv")))


def of_python(folder: Path, call: str) -> str:
    predictor = load_predictor(folder / "out")
    model = nn.Linear(2, 2)
    vars(model)[EVIL] = nn.ReLU()
    calls: dict[str, Callable[[], Any]] = {
        "repr of a predictor": lambda: repr(predictor),
        "a column too few": lambda: predictor.predict([{"x": 1.0}]),
        "a category": lambda: predictor.predict([{f"n{EVIL}": 1.0, f"k{EVIL}": "new"}]),
        "arrays": lambda: read_arrays(folder),
        "str of a model": lambda: str(model),
        "repr of a model": lambda: repr(model),
        "summary of a model": lambda: str(nn.summary(model, mg.zeros((1, 2)))),
        "device": lambda: repr(load(with_class(folder, "nn.Linear", EVIL))),
        "format": lambda: repr(load(with_class(folder, "nn.Linear", EVIL, format=2))),
        "tensor": lambda: load_model(with_class(folder, "nn.Linear", attributes={"weight": {f"${EVIL}": 1}})),
        "argument": lambda: load_model(with_class(folder, "nn.Linear", arguments={EVIL: {"$unknown": EVIL}})),
    }
    try:
        return str(calls[call]())
    except mg.MicrogradError as error:
        return str(error)


def read_arrays(folder: Path) -> Any:
    import numpy as np

    np.savez(folder / "x.npz", **{EVIL: np.zeros(3), "b": np.zeros(4)})
    return read(folder / "x.npz")


def with_class(folder: Path, kind: str, by: str = "cpu", format: int = 1, **others: Any) -> Path:
    from tests.checkpoints.test_files import parts, sealed, told_by

    path = folder / "model.safetensors"
    save(path, model=nn.Linear(2, 2))
    header, body = parts(path)
    told, tensors = told_by(header), load(path).tensors
    told["structure"][""] |= {"class": kind, **others}
    told["micrograd"] |= {"version": by, "device": by, "format": format}
    path.write_bytes(sealed(header, told, body, tensors))
    return path


@pytest.mark.parametrize(
    "call",
    ["repr of a predictor", "a column too few", "a category", "arrays", "str of a model", "repr of a model",
     "summary of a model", "device", "format", "tensor", "argument"],
)  # fmt: skip
def test_errors_and_descriptions_in_python_show_control_characters_too(folder: Path, call: str) -> None:
    found = of_python(folder, call)
    assert not CONTROL.findall(found)
    assert "owned" in found


def test_what_an_error_advises_to_type_is_one_argument() -> None:
    for name in ("a b", "$(touch x)", "it's", "--model=os:system", "-x", "a;b"):
        advised = as_options(f"leave it out with ignore=[{name!r}]").partition("leave it out with ")[2]
        assert shlex.split(advised) in (["--ignore", name], [f"--ignore={name}"])
        assert not (name.startswith("-") and shlex.split(advised)[1:])


def test_no_code_is_taken_from_a_file(folder: Path) -> None:
    with pytest.raises(mg.MicrogradError, match="makes no sense|does not say what") as caught:
        load_model(with_class(folder, "x:=__import__('os').system('id')"))
    assert "classes=" not in str(caught.value)


def test_advice_names_no_function_of_a_file(folder: Path, tmp_path: Path) -> None:
    checkpoint = load(folder / "out" / "model.safetensors")
    own = type("Own", (nn.Linear,), {})
    save(tmp_path / "model.safetensors", model=own(2, 2), meta={**checkpoint.meta, "model": "os:system"})
    with pytest.raises(mg.MicrogradError, match="--model MODULE:FUNCTION") as caught:
        load_predictor(tmp_path)
    assert "--model os:system" not in str(caught.value)


def test_files_with_such_names_are_data_errors(tmp_path: Path) -> None:
    (tmp_path / f"{EVIL}.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(DataError) as caught:
        read(tmp_path / f"{EVIL}.csv")
    assert not CONTROL.findall(str(caught.value))
