"""``micrograd draw`` and ``micrograd bench``."""

from __future__ import annotations

import itertools
import json
import random
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from micrograd_core import Value
from micrograd_core.drawing import draw
from micrograd_core.tools.cli import main
from micrograd_train import bench, drawing as module
from tests.tools.flowers import QUICK, table

WHAT = ("(a * b + c).relu() * tanh(a) - 2 ** -c", "a=2", "b=-3", "c=10")


def test_an_expression_is_drawn_with_its_gradients(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", *WHAT, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    a, b, c = Value(2.0), Value(-3.0), Value(10.0)
    value = (a * b + c).relu() * a.tanh() - 2**-c
    value.backward()
    assert found["value"] == value.data
    shown = {node["lines"][0]: node["lines"][-1] for node in found["nodes"] if node["lines"][0] in ("a", "b", "c")}
    assert shown == {name: f"grad {x.grad:.4g}" for name, x in (("a", a), ("b", b), ("c", c))}


@pytest.mark.parametrize("kind", module.FORMATS)
def test_pictures_need_no_graphviz(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    out = tmp_path / f"g{kind}"
    assert main(["draw", *WHAT, "--out", str(out)]) == 0
    content = out.read_bytes()
    if kind == ".svg":
        texts = [each.text for each in ElementTree.fromstring(content).iter("{http://www.w3.org/2000/svg}text")]
        assert {"a", "tanh", "ReLU", "data 2"} <= set(texts)
    else:
        assert content.startswith({".png": b"\x89PNG", ".dot": b"digraph", ".mmd": b"flowchart"}[kind])


def test_boxes_do_not_overlap_and_operands_stand_at_the_left() -> None:
    for seed in range(20):
        numbers = random.Random(seed)
        values = [Value(numbers.random()) for _ in range(4)]
        for _ in range(12):
            x, y = numbers.choices(values[-6:], k=2)
            values.append(numbers.choice([x * y, x + y, x.tanh(), x - 1]))
        drawing = draw(values[-1])
        boxes, ways = module.arranged(drawing)
        for one, other in itertools.combinations(boxes, 2):
            apart = one.x + one.width <= other.x or other.x + other.width <= one.x
            assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y
        for (a, b), way in zip(drawing.edges, ways, strict=True):
            assert boxes[a].x + boxes[a].width < boxes[b].x
            assert (way[0], way[-1]) == (boxes[a], boxes[b])
            for box in boxes:  # an edge goes around boxes
                middles = [(each.x + each.width / 2, each.y) for each in way[1:-1]]
                assert not any(box.x < x < box.x + box.width and box.y < y < box.y + box.height for x, y in middles)


def test_a_network_is_drawn_with_the_names_of_its_parameters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(table(tmp_path)), "--target", "species", *QUICK, "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert main(["draw", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    for words in ("0.weight", "float32 (8, 4)", "linear", "relu"):
        assert words in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a + q", "a=1"], "what is q? Write q=NUMBER after the expression"),
        (["(a", "a=1"], "is neither a file nor an expression: '(' was never closed"),
        (["__import__('os').getcwd()"], "there is no function"),
        (["a.__class__", "a=1"], "'a.__class__' cannot be drawn"),
        (["a[0]", "a=1"], "'a[0]' cannot be drawn"),
        (["a < 2", "a=1"], "'a < 2' cannot be drawn"),
        (["1 + 2"], "has no names in it"),
        (["1 / 0 + a", "a=1"], "cannot be computed: division by zero"),
        (["a", "a=x"], "write what a name stands for as name=number"),
        (["a * a", "a=1", "--out", "g.gif"], "--out g.gif: a drawing is written as .svg, .png, .dot, .mmd"),
        (["none.safetensors"], "none.safetensors"),
    ],
)
def test_what_cannot_be_drawn_gets_a_sentence(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["draw", *words]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_bench_times_each_kind_in_each_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "_has", lambda name: name in ("micrograd", "numpy"))
    assert main(["bench", "--seconds", "0.001", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["work"] for row in rows] == list(bench.KINDS)
    assert all(row["microseconds"]["micrograd"] > 0 for row in rows)
    assert "µs" in bench.told(rows)
