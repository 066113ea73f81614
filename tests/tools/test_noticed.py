"""What is said of a table before its figures are believed, in the terminal and in the report; and those figures."""

from __future__ import annotations

import html
import json
import random
import re
from pathlib import Path

import numpy as np
import pytest

from micrograd_core.tools.cli import main
from micrograd_train.learning import measures
from tests.tools.houses import houses

QUICK = ("--epochs", "2", "--hidden", "4")


def said(
    folder: Path, capsys: pytest.CaptureFixture[str], head: str, lines: list[str], *words: str
) -> tuple[list[str], str]:
    """The notes of a training, which its report has too; and what it prints."""
    path = folder / "my.csv"
    path.write_text("\n".join([head, *lines]) + "\n")
    capsys.readouterr()
    assert main(["train", str(path), "--target", "y", *QUICK, *words, "--out", str(folder / "run")]) == 0
    printed = capsys.readouterr()
    notes = re.findall(r"^micrograd: (.*)$", printed.err, re.M)
    page = html.unescape((folder / "run" / "report.html").read_text(encoding="utf-8"))
    for each in notes:
        assert each[1:] in page.partition("To look at")[2]
    return notes, printed.out


def drawn(count: int = 300) -> list[tuple[float, int]]:
    draw = random.Random(0)
    return [(draw.gauss(0, 1), draw.randrange(2)) for _ in range(count)]


def test_a_column_that_gives_the_answer_away_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{x:.3f},{'yes' if y else 'no'},{10 * y + 5},{y * 'b' or 'a'}" for x, y in drawn()]
    notes, _ = said(tmp_path, capsys, "x,paid,sum,y", rows)
    told = (
        "alone gives the answer, on rows that were kept back too; if it is not known yet when you predict, leave it out"
    )
    assert notes == [f"the column {name!r} {told} with --ignore {name}" for name in ("paid", "sum")]
    notes, _ = said(tmp_path, capsys, "x,paid,sum,y", rows, "--ignore", "paid", "sum")
    assert not any("alone gives" in each for each in notes)
    numbers = [f"{x:.4f},{1.19 * x:.4f},{y},{x:.4f}" for x, y in drawn()]
    notes, _ = said(
        tmp_path, capsys, "gross,other,z,y", [f"{y},{b},{c},{a}" for a, b, c, y in (r.split(",") for r in numbers)]
    )
    assert [each for each in notes if "alone" in each] == [
        f"the column {name!r} {told} with --ignore {name}" for name in ("gross", "other")
    ]


def test_rare_classes_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{x:.3f},{y},{'ill' if i % 25 == 0 else 'well'}" for i, (x, y) in enumerate(drawn())]
    notes, printed = said(tmp_path, capsys, "x,z,y", rows)
    assert notes == [
        "of 300 rows few are 'ill' (12, 4.0%): accuracy says little of such classes; look at their recall, and at the "
        "balanced accuracy"
    ]
    assert re.search(r"test accuracy [\d.]+% \(balanced [\d.]+%, AUC [\d.]+\) after", printed)
    even = [f"{x:.3f},{y},k{i % 30}" for i, (x, y) in enumerate(drawn(600))]
    assert said(tmp_path, capsys, "x,z,y", even)[0] == []  # of thirty classes all are small


def test_outliers_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ages = [999 if i == 17 else -999 if i == 40 else 20 + i * 7 % 50 for i in range(300)]
    rows = [f"{age},{x:.3f},{'ab'[y]}" for age, (x, y) in zip(ages, drawn(), strict=True)]
    notes, _ = said(tmp_path, capsys, "age,x,y", rows)
    assert len(notes) == 1
    assert re.fullmatch(
        r"row (18|41) \(line (19|42) of my.csv\), column 'age': -?999 is far from the others, of which half lie "
        r"between [\d.]+ and [\d.]+, and so are 1 more; if it is a slip, or stands for .*, mend or empty it",
        notes[0],
    )
    draw = random.Random(0)
    skewed = [f"{draw.lognormvariate(10, 1):.2f},{x:.3f},{'ab'[y]}" for x, y in drawn(2000)]
    assert said(tmp_path, capsys, "income,x,y", skewed)[0] == []  # few are rich, and nothing is wrong
    days = [
        f"{'9999-12-31' if i == 3 else f'2020-{i % 12 + 1:02}-0{i % 9 + 1}'},{x:.3f},{'ab'[y]}"
        for i, (x, y) in enumerate(drawn())
    ]
    notes, _ = said(tmp_path, capsys, "day,x,y", days)
    assert len(notes) == 1
    assert "column 'day': 9999-12-31 is far from the others, of which half lie between 2020-" in notes[0]


@pytest.mark.parametrize("classes", [2, 4])
def test_figures_of_classes_are_those_of_others(classes: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    random_ = np.random.RandomState(classes)
    y = random_.randint(0, classes, 200)
    chances = random_.dirichlet(np.ones(classes), 200).round(1 if classes == 2 else 3)
    chances /= chances.sum(axis=1, keepdims=True)

    class Inputs:
        pass

    inputs = Inputs()
    inputs.classes = tuple(range(classes))  # type: ignore[attr-defined]
    figures = measures._of_classes(inputs, chances, y)["figures"]  # type: ignore[arg-type]
    given = chances[:, 1] if classes == 2 else chances
    how = {} if classes == 2 else {"multi_class": "ovr"}
    assert figures["auc"] == pytest.approx(metrics.roc_auc_score(y, given, **how))
    assert figures["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(y, chances.argmax(axis=1)))
    assert np.isnan(measures._of_classes(inputs, chances[:1], y[:1])["figures"]["auc"])  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["price", "kind"])
def test_what_the_report_says_to_type_works(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = houses(tmp_path / "houses.csv")
    assert main(["train", str(path), "--target", target, *QUICK, "--out", "run"]) == 0
    page = html.unescape(Path("run/report.html").read_text(encoding="utf-8"))
    assert "load_model" not in page
    assert ("AUC" in page) == (target == "kind")
    (code,) = re.findall(r"<pre>(from micrograd_train.*?)</pre>", page, re.S)
    *before, last = code.splitlines()
    names: dict[str, object] = {}
    exec("\n".join(before), names)
    found = eval(last, names).tolist()
    rows = eval(last.partition(".predict")[2], {})
    Path("new.csv").write_text(",".join(rows[0]) + "\n" + ",".join(map(str, rows[0].values())) + "\n")
    capsys.readouterr()
    assert main(["predict", "run", "new.csv", "--json"]) == 0
    assert [row[f"predicted {target}"] for row in json.loads(capsys.readouterr().out)["predictions"]] == found


def test_too_many_classes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my.csv"
    path.write_text("x,y\n" + "".join(f"{i},code {i % 1200}\n" for i in range(2400)))
    assert main(["train", str(path), "--target", "y", "--out", str(tmp_path / "run")]) == 2
    assert (
        "the target 'y' holds 1,200 different values, and a network learns at most 1,000 classes"
        in capsys.readouterr().err
    )
