"""``micrograd train``: any data, what is wrong with them, and a stop that loses nothing."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from micrograd_core.checkpoints import load
from micrograd_core.tools.cli import main
from micrograd_train.learning import loop, threads
from micrograd_train.learning.networks import mlp
from micrograd_train.learning.progress import Told
from micrograd_train.learning.settings import Settings
from micrograd_train.learning.training import train
from tests.interrupts import EXHAUSTIVE
from tests.tools.flowers import QUICK, rows, table


def trained(out: Path, *words: str) -> dict[str, Any]:
    """The figures of a run."""
    assert main(["train", *words, "--out", str(out)]) == 0
    found: dict[str, Any] = json.loads((out / "metrics.json").read_text())
    return found


def figures(metrics: dict[str, Any]) -> dict[str, Any]:
    """Those that do not tell the time, or where it ran."""
    return {name: x for name, x in metrics.items() if name not in ("seconds", "samples_per_second", "data", "device")}


# ── data ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_kind_of_file_is_the_same_table(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    csv, parquet = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    path = table(tmp_path)
    made = csv.read_csv(path).drop_columns(["colour"])
    csv.write_csv(made, tmp_path / "t.csv")
    parquet.write_table(made, tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", **{name: np.array(made[name].to_pylist()) for name in made.column_names})
    found = [
        figures(trained(tmp_path / kind, str(tmp_path / f"t.{kind}"), "--target", "species", *QUICK))
        for kind in ("csv", "parquet", "npz")
    ]
    assert found[0] == found[1] == found[2]
    assert found[0]["task"] == "classification"


def test_the_task_is_that_of_the_target(tmp_path: Path) -> None:
    path = str(table(tmp_path))
    metrics = trained(tmp_path / "a", path, "--target", "length", *QUICK)
    assert metrics["task"] == "regression"
    assert {"r2", "mae", "rmse"} <= metrics["test"].keys()
    assert set(metrics["importance"]) == {"width", "colour", "species"}


def test_a_folder_of_images_is_learned_by_a_cnn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("PIL")
    from PIL import Image

    for name, shade in (("dark", 40), ("light", 210)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(12):
            Image.new("L", (8, 8), shade + 3 * i).save(tmp_path / "photos" / name / f"{i}.png")
    metrics = trained(tmp_path / "out", str(tmp_path / "photos"), "--epochs", "3", "--hidden", "8")
    assert metrics["model"] == "cnn"
    assert "importance" not in metrics
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "out"), str(tmp_path / "photos" / "dark")]) == 0
    head, first, *_ = capsys.readouterr().out.splitlines()
    assert head == "image,predicted class,probability of dark,probability of light"
    assert first.startswith("0.png,")
    assert main(["evaluate", str(tmp_path / "out"), str(tmp_path / "photos")]) == 0


def test_sequences_are_learned_by_a_transformer(tmp_path: Path) -> None:
    metrics = trained(tmp_path / "out", "copy", "--epochs", "1", "--batch-size", "128")
    assert (metrics["task"], metrics["model"]) == ("sequence", "transformer")
    assert 0 <= metrics["test"]["whole_sequences"] <= metrics["test"]["accuracy"] <= 1


@pytest.mark.parametrize("model", ["transformer", "tests.tools.own_network:network"])
def test_other_networks(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(table(tmp_path))
    metrics = trained(tmp_path / "out", path, "--target", "species", "--epochs", "2", "--model", model)
    assert metrics["model"] == model
    status = main(["predict", str(tmp_path / "out"), path])
    if ":" not in model:
        assert status == 0
        return
    assert status == 2
    assert "a file runs no code, so name the function yourself: --model MODULE:FUNCTION" in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "out"), path, "--model", model]) == 0
    assert main(["inspect", str(tmp_path / "out")]) == 0


@pytest.mark.parametrize("device", ["strict:0", "torch:cpu"])
def test_other_devices_come_to_nearly_the_same(device: str, tmp_path: Path) -> None:
    pytest.importorskip({"strict:0": "array_api_strict", "torch:cpu": "torch"}[device])
    path = str(table(tmp_path))
    words = ["--target", "species", *QUICK, "--dropout", "0"]
    expected = trained(tmp_path / "a", path, *words)
    found = trained(tmp_path / "b", path, *words, "--device", device)
    assert found["device"].startswith(device)
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-4)


# ── what is wrong ────────────────────────────────────────────────────────────────────────────────────────────

TARGET = ["--target", "species"]
WRONG: dict[str, tuple[dict[int, str], list[str], str]] = {
    "a cell too many": ({5: "1,2,red,setosa,x"}, TARGET, "line 6 of my.csv has 5 cells, and the first line 4"),
    "absent column": ({}, ["--target", "spcies"], "there is no column 'spcies' for target; there are"),
    "no target said": ({}, [], "which column of my.csv is to be learned? Say --target COLUMN; there are 'length'"),
    "text among numbers": ({7: "long,3.1,red,setosa"}, TARGET, "row 7 (line 8 of my.csv), column 'length'"),
    "an infinite number": (
        {7: "inf,3.1,red,setosa"},
        TARGET,
        "row 7 (line 8 of my.csv), column 'length': inf is no number",
    ),
    "no label": ({9: "1.2,3.1,red,"}, TARGET, "the target 'species' is missing in row 9"),
    "a label that occurs once": (
        {90: "1,2,red,rose"},
        TARGET,
        "the label 'rose' of the column 'species' occurs once, in row 90",
    ),
    "text to be predicted as a number": ({}, [*TARGET, "--task", "regression"], "column 'species'"),
    "a device that is not there": ({}, [*TARGET, "--device", "cpuu"], "Did you mean 'cpu'?"),
    "no such network": ({}, [*TARGET, "--model", "mpl"], "--model takes mlp, cnn, transformer"),
    "no such function": ({}, [*TARGET, "--model", "os:nothing"], "--model os:nothing: module 'os' has no attribute"),
    "no network": ({}, [*TARGET, "--model", "os:getcwd"], "--model os:getcwd"),
    "images wanted": ({}, [*TARGET, "--model", "cnn"], "--model cnn is for images (channels, height, width)"),
    "nothing to go on with": ({}, [*TARGET, "--resume"], "to go on with; leave --resume out to start"),
    "nothing to learn from": ({}, [*TARGET, "--validation", "0.5", "--test", "0.45"], "leave less than a tenth"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_a_sentence_and_nothing_is_written(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, words, said = WRONG[case]
    path = table(tmp_path, change)
    assert main(["train", str(path), *words, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("micrograd: ")
    assert "Traceback" not in error
    assert [each.name for each in tmp_path.iterdir()] == ["my.csv"]


def test_a_constant_column_is_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{line},{'one' if not i else 7}" for i, line in enumerate(rows())]
    path = tmp_path / "my.csv"
    path.write_text("\n".join(lines))
    trained(tmp_path / "out", str(path), *TARGET, *QUICK)
    assert "the column 'one' is left out: it is 7 in all rows" in capsys.readouterr().err
    assert "it is 7 in all rows" in (tmp_path / "out" / "report.html").read_text()
    path.write_text("one,species\n" + "7,a\n7,b\n" * 20)
    assert main(["train", str(path), *TARGET, "--out", str(tmp_path / "b")]) == 2
    assert "no column is left to learn from" in capsys.readouterr().err
    path.write_text("one,species\n" + "7,a\n8,a\n" * 20)
    assert main(["train", str(path), *TARGET, "--out", str(tmp_path / "b")]) == 2
    assert "the target 'species' is 'a' in all rows; there is nothing to learn" in capsys.readouterr().err


def test_missing_numbers_are_no_obstacle(tmp_path: Path) -> None:
    path = table(tmp_path, {4: ",3.1,red,setosa", 8: ",3.1,,setosa"})
    metrics = trained(tmp_path / "out", str(path), *TARGET, *QUICK)
    assert sum(metrics["rows"].values()) == 90
    assert set(metrics["importance"]) == {"length", "width", "colour"}


# ── stop and go on ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_seed_and_the_settings_of_a_run_repeat_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path)
    first = trained(tmp_path / "a", "my.csv", *TARGET, *QUICK, "--seed", "3", "--lr", "0.01")
    again = trained(tmp_path / "b", "--config", "a/config.toml")
    assert figures(first) == figures(again)
    assert figures(first) != figures(trained(tmp_path / "c", "--config", "a/config.toml", "--seed", "4"))


@pytest.mark.parametrize("stop", range(1, 13) if EXHAUSTIVE else [3, 4, 9])
def test_a_training_that_was_stopped_comes_to_the_same_bits(
    stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the middle of an epoch, at its last step, and at the first one of the next."""
    settings = Settings(
        str(table(tmp_path)), target="species", hidden=(8,), epochs=3, batch_size=16, dropout=0.5, patience=5
    )
    straight = train(Settings(**{**vars(settings), "out": str(tmp_path / "a")}))
    other = Settings(**{**vars(settings), "out": str(tmp_path / "b"), "log": str(tmp_path / "log.jsonl")})
    taken = 0
    real = loop.losses

    def counted(*given: Any) -> Any:
        nonlocal taken
        taken += 1
        if taken == stop:
            os.kill(os.getpid(), signal.SIGINT)
        return real(*given)

    monkeypatch.setattr(loop, "losses", counted)
    with pytest.raises(KeyboardInterrupt, match="in epoch"):
        train(other)
    monkeypatch.setattr(loop, "losses", real)
    assert not (tmp_path / "b" / "metrics.json").exists()
    resumed = train(other, resume=True)
    assert {**figures(resumed), "out": ""} == {**figures(straight), "out": ""}
    one, two = (load(tmp_path / each / "model.safetensors") for each in "ab")
    for name, x in one.state_dict().items():
        assert x.tolist() == two.state_dict()[name].tolist()
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in logged] == [1, 2, 3]
    assert [row["loss"] for row in logged] == straight["loss"]


def test_control_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    table(tmp_path)
    words = ["train", "my.csv", *TARGET, "--epochs", "100000", "--patience", "100000", "--log", "log"]
    command = [sys.executable, "-m", "micrograd_core", *words]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        ends = time.monotonic() + 60
        while not ((tmp_path / "log").exists() and (tmp_path / "log").stat().st_size):
            assert time.monotonic() < ends
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    line = error.splitlines()[-1]
    assert line.startswith("micrograd: interrupted in epoch ")
    assert line.endswith(f"of 100000; go on with: micrograd {' '.join(words)} --resume")
    assert (tmp_path / "runs" / "my" / "checkpoint.safetensors").exists()
    assert not (tmp_path / "runs" / "my" / "report.html").exists()
    epochs = len((tmp_path / "log").read_text().splitlines()) + 1
    subprocess.run([*command, "--resume", "--epochs", str(epochs)], cwd=tmp_path, check=True)
    assert json.loads((tmp_path / "runs" / "my" / "metrics.json").read_text())["epochs"] == epochs


def test_another_training_is_not_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path)
    words = ["train", str(path), *TARGET, *QUICK, "--out", str(tmp_path / "out")]
    assert main(words) == 0
    capsys.readouterr()
    for change, said in (
        (["--lr", "0.1"], "is of a training with --lr 0.002, and this one has 0.1; say the same"),
        (["--seed", "1"], "--seed 0, and this one has 1"),
        (["--hidden", "4"], "--hidden 8, and this one has 4"),
    ):
        assert main([*words, *change, "--resume"]) == 2
        assert said in capsys.readouterr().err
    table(tmp_path, {3: "9,9,red,setosa"})
    assert main([*words, "--resume"]) == 2
    assert "is of a training on other rows" in capsys.readouterr().err
    table(tmp_path)
    assert main([*words, "--resume", "--epochs", "5"]) == 0
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["epochs"] == 5


def test_it_stops_early_and_keeps_the_best_epoch(tmp_path: Path) -> None:
    words = [str(table(tmp_path)), *TARGET, "--hidden", "32", "--lr", "0.05", "--epochs", "200", "--patience", "4"]
    metrics = trained(tmp_path / "out", *words)
    best = min(range(metrics["epochs"]), key=lambda i: metrics["validation_loss"][i]) + 1
    assert metrics["best_epoch"] == best
    assert metrics["epochs"] == best + 4 < 200
    assert metrics["validation"]["loss"] == pytest.approx(min(metrics["validation_loss"]), rel=1e-6)
    everything = trained(tmp_path / "b", *words, "--validation", "0", "--epochs", "9")
    assert everything["epochs"] == everything["best_epoch"] == 9


# ── what is told ─────────────────────────────────────────────────────────────────────────────────────────────


def test_tensorboard_gets_events(tmp_path: Path) -> None:
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    trained(tmp_path / "out", str(table(tmp_path)), *TARGET, *QUICK, "--tensorboard", str(tmp_path / "events"))
    (file,) = (tmp_path / "events").iterdir()
    raw, found = file.read_bytes(), []
    while raw:  # a length and its checksum, an event and its checksum
        (length,) = struct.unpack("<Q", raw[:8])
        event = event_pb2.Event.FromString(raw[12 : 12 + length])
        found += [(event.step, each.tag, each.simple_value) for each in event.summary.value]
        raw = raw[16 + length :]
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    losses = [(step, pytest.approx(x, rel=1e-6)) for step, x in enumerate(metrics["validation_loss"], 1)]
    assert [(step, x) for step, tag, x in found if tag == "validation_loss"] == losses


def test_without_the_package_tensorboard_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    words = ["train", str(table(tmp_path)), *TARGET, *QUICK, "--tensorboard", "x", "--out", str(tmp_path / "out")]
    assert main(words) == 2
    assert "pip install 'micrograd-core[tensorboard]'" in capsys.readouterr().err


def test_small_products_get_one_thread() -> None:
    from threadpoolctl import threadpool_info

    import micrograd_core as mg

    def made(*sizes: int) -> Any:
        return mlp(sizes, mg.random.Generator(0), mg.Device("cpu"))

    assert threads.chosen(made(64, 256, 10), 64) == 1
    assert threads.chosen(made(1024, 2048, 10), 64) == 0
    with threads.limited(1):
        assert {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"} <= {1}


def test_who_waits_sees_how_far_the_training_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for terminal, file in ((True, Terminal()), (False, io.StringIO())):
        with contextlib.redirect_stderr(file), Told(2, 5, "accuracy") as told:
            for epoch in (1, 2):
                for _ in range(5):
                    told._shown = 0.0  # as if the last bar had stood for long
                    told.step()
                told.epoch({"epoch": epoch, "loss": 0.5 / epoch, "accuracy": 0.9, "samples_per_second": 1e4})
        lines = file.getvalue().split("\r")
        assert lines[-1].startswith("epoch 2/2 ")
        assert lines[-1].endswith(" loss 0.2500  accuracy 90.00%  10,000 samples/s  0:00\n")
        assert len(lines) == (12 if terminal else 1)
        assert all(len(line.rstrip("\n")) <= 79 for line in lines)
