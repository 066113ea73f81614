"""Graphs as pictures."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from micrograd_core import MLP, Tensor, Value, draw


def graph() -> Value:
    a, b = Value(2.0), Value(-3.0)
    c = 10 - a * b
    d = (c + a).relu() ** 2
    d.backward()
    return d


def test_every_node_has_its_operation_data_and_gradient() -> None:
    picture = draw(graph())
    assert [node.op for node in picture.nodes] == ["**2", "ReLU", "+", "-", "", "", "*", ""]
    assert picture.nodes[0].lines == ("data 324", "grad 1")
    assert picture.nodes[5].lines == ("data 10",)
    assert ("data 2", "grad 144") in [node.lines for node in picture.nodes]
    assert len(picture.edges) == 8
    assert (1, 0) in picture.edges


def test_dot_and_mermaid_are_text() -> None:
    x = Value(1.0)
    picture = draw(x + 1)
    assert picture.dot == (
        'digraph {\n  rankdir=LR\n  node [shape=box fontname="monospace" fontsize=10]\n'
        '  n0 [label="+\\ndata 2\\ngrad 0"]\n  n1 [label="data 1\\ngrad 0" style=rounded]\n'
        '  n2 [label="data 1" style=rounded]\n  n1 -> n0\n  n2 -> n0\n}\n'
    )
    assert str(picture) == picture.mermaid
    assert '  n0["+<br/>data 2<br/>grad 0"]' in picture.mermaid
    assert repr(picture) == "<drawing of 3 nodes: .mermaid, .dot, .svg(), .save(path)>"


def test_tensors_show_operations_shapes_and_leaves() -> None:
    x = Tensor([[1.0, 2.0]])
    w = Tensor(2.0)
    y = ((x * w).relu() + x).sum()
    picture = draw(y)
    assert [node.op for node in picture.nodes] == ["sum", "add", "relu", "", "multiply", ""]
    assert picture.nodes[1].lines == ("float32 (1, 2)",)
    assert picture.nodes[3].lines == ("float32 (1, 2)",)
    assert picture.nodes[5].lines == ("float32 ()", "data 2")
    y.backward()
    assert draw(y).nodes[0].lines == ("freed by backward()",)
    assert draw(w).nodes[0].lines == ("float32 ()", "data 2", "grad 3")
    assert draw(Tensor([1, 2])).nodes[0].lines == ("int64 (2,)",)


def test_values_and_tensors_in_one_picture() -> None:
    a = Value(2.0)
    x = Tensor([1.0, 2.0], device="rawbuffer:0")
    v = Value.unstack((Value.stack([a, a]) * 2).sum()) * 3
    steps = ["*", "tensor", "", "tensor", "sum", "multiply", "stack of Values", "stack", ""]
    assert [node.op for node in draw(v).nodes] == steps
    u = draw(Value.unstack(x * 2)[0])
    assert "rawbuffer:0" in u.nodes[0].lines
    assert "rawbuffer:0" in u.nodes[-1].lines


def test_a_network_is_one_node_and_its_parameters_are_leaves() -> None:
    model = MLP(2, [3, 1])
    y = model([Value(1.0), Value(2.0)]) + model.parameters()[0]
    assert [node.op for node in draw(y).nodes] == ["+", "MLP", "", "MLP", "", ""]
    assert draw(y).nodes[3].lines == ("1 result",)


def test_large_graphs_are_cut_with_a_note() -> None:
    x = y = Value(1.0)
    for _ in range(100_000):
        y = y * x
    picture = draw(y, limit=20)
    assert len(picture.nodes) == 21
    assert picture.is_cut
    assert picture.nodes[-1].lines == ("cut after 20 nodes: draw(x, limit=...) shows more",)
    assert "20 nodes, cut" in repr(picture)
    assert all(a < 20 and b < 20 for a, b in picture.edges)


def test_a_notebook_gets_svg_where_dot_is_and_mermaid_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    picture = draw(graph())
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert picture._repr_svg_() is None
    assert set(picture._repr_mimebundle_()) == {"text/plain", "text/vnd.mermaid"}
    with pytest.raises(RuntimeError, match=r"needs Graphviz's program dot.*install it.*\.mermaid"):
        picture.svg()
    program = tmp_path / "dot"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nprint('<svg>', len(sys.stdin.read()), sys.argv[1], '</svg>')\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: str(program))
    assert picture._repr_mimebundle_()["image/svg+xml"] == f"<svg> {len(picture.dot)} -Tsvg </svg>\n"
    assert picture.save(tmp_path / "graph.svg").read_text().startswith("<svg>")


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_understands_it() -> None:
    assert "<svg" in draw(graph()).svg()


def test_files(tmp_path: Path) -> None:
    picture = draw(graph())
    assert picture.save(tmp_path / "graph.dot").read_text() == picture.dot
    assert picture.save(tmp_path / "graph.mmd").read_text() == picture.mermaid
    with pytest.raises(ValueError, match=r"saved as .svg, .dot or .mmd; got .*graph.gif"):
        picture.save(tmp_path / "graph.gif")


def test_what_has_no_graph_is_refused() -> None:
    with pytest.raises(TypeError, match="draw takes a Value or a Tensor; got float"):
        draw(1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1; got 0"):
        draw(Value(1.0), limit=0)


def test_importing_draw_starts_no_program() -> None:
    code = "import micrograd_core, sys; assert 'numpy' not in sys.modules; print(micrograd_core.draw)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).returncode == 0
