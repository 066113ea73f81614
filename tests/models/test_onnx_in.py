"""ONNX files as modules: the tests that onnx itself carries, training, and the way back."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import nn, optim
from micrograd_core.checkpoints import CheckpointError, export_onnx
from micrograd_core.errors import ShapeError
from micrograd_models import from_onnx
from micrograd_models.operators import OPERATORS, Refused

onnx = pytest.importorskip("onnx")
sys.path.insert(0, str(Path(__file__).parent))
import operator_cases  # noqa: E402

helper = onnx.helper


def file(nodes: list[Any], inputs: list[str], outputs: list[str], opset: int = 20, **tensors: Any) -> bytes:
    """A file of nodes, whose inputs and outputs are of any shape."""
    infos = [[helper.make_tensor_value_info(n, 1, ["n"]) for n in names] for names in (inputs, outputs)]
    stored = [onnx.numpy_helper.from_array(np.asarray(x), name) for name, x in tensors.items()]
    graph = helper.make_graph(nodes, "a", *infos, stored)
    made: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString()
    return made


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def test_the_cases_of_operators() -> None:
    found = list(operator_cases.outcomes())
    assert [x for x in found if x.result == "failed"] == []
    passed = {x.operator for x in found if x.result == "passed"}
    assert len([x for x in found if x.result == "passed"]) > 1000
    without = {"GlobalLpPool", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
    assert {*OPERATORS} - passed == without
    refused = {x.operator for x in found if x.result == "refused" and "not computed here" in x.why}
    assert {"Loop", "Scan", "StringConcat", "SequenceInsert"} <= refused


@pytest.mark.parametrize("folder", ["pytorch-converted", "pytorch-operator", "simple"])
def test_the_models_in_the_package_onnx(folder: str) -> None:
    root = Path(onnx.__file__).parent / "backend/test/data" / folder
    passed = 0
    for path in sorted(root.glob("*/model.onnx")):
        kinds = {each.op_type for each in onnx.load(path).graph.node}
        if any(word in kind for kind in kinds for word in ("Sequence", "String", "Gradient")):
            with pytest.raises(Refused):
                from_onnx(path)
            continue
        model = from_onnx(path)
        for data in path.parent.glob("test_data_set_*"):
            inputs, outputs = (
                [onnx.load_tensor(each) for each in sorted(data.glob(f"{kind}_*.pb"))] for kind in ("input", "output")
            )
            operator_cases.run(model, inputs, outputs, 1e-3, 1e-6)
        passed += 1
    assert passed >= {"pytorch-converted": 80, "pytorch-operator": 30, "simple": 7}[folder]


def test_operators_that_have_no_case() -> None:
    x = mg.random.normal((2, 3, 4, 5))
    found = from_onnx(file([node("GlobalLpPool", "x", "y", p=3)], ["x"], ["y"]))(x).numpy()
    wanted = (abs(x.numpy().astype(np.float64)) ** 3).sum((2, 3), keepdims=True) ** (1 / 3)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    uniform = node("RandomUniformLike", "x", "y", low=2.0, high=3.0)
    drawn = from_onnx(file([uniform, node("Sub", "y two", "z")], ["x"], ["z"], two=np.float32(2)))(mg.zeros((1000,)))
    assert 0 <= drawn.min().item() < 0.1
    assert 0.9 < drawn.max().item() <= 1
    mg.random.manual_seed(0)
    normal = from_onnx(file([node("RandomNormal", "", "y", shape=[4000], mean=5.0, scale=2.0)], [], ["y"]))
    drawn = normal()
    assert abs(drawn.mean().item() - 5) < 0.2
    assert abs(drawn.numpy().std() - 2) < 0.2
    assert drawn.tolist() != normal().tolist()


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3)
    )  # fmt: skip


def test_training_what_was_read_is_training_the_model(tmp_path: Path) -> None:
    mg.random.manual_seed(0)
    model = convolutions()
    model(mg.random.normal((8, 1, 8, 8)))  # the running statistics move
    export_onnx(model, mg.zeros((4, 1, 8, 8)), tmp_path / "a.onnx")
    read = from_onnx(tmp_path / "a.onnx")
    names = [name for name, _ in model.eval().named_parameters()]
    assert {*names} == {name for name, _ in read.named_parameters()}
    x, y = mg.random.normal((5, 1, 8, 8)), mg.asarray([0, 1, 2, 0, 1])
    losses: list[list[float]] = []
    for each in (model, read):
        rule = optim.SGD(each.parameters(), lr=0.1)
        losses.append([])
        for _ in range(5):
            rule.zero_grad()
            loss = mg.cross_entropy(each(x), y)
            loss.backward()
            rule.step()
            losses[-1].append(loss.item())
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    assert losses[1][-1] < losses[1][0]
    for name, p in model.named_parameters():
        np.testing.assert_allclose(read.get_parameter(name).detach().numpy(), p.detach().numpy(), rtol=1e-3, atol=1e-5)


def test_in_training_norms_follow_the_batch_and_dropout_drops(tmp_path: Path) -> None:
    model = convolutions()
    export_onnx(model, mg.zeros((4, 1, 8, 8)), tmp_path / "a.onnx")
    read, x = from_onnx(tmp_path / "a.onnx"), mg.random.normal((8, 1, 8, 8)) + 1
    kept = {name: x.numpy().copy() for name, x in read.named_buffers()}
    assert {*kept} >= {"1.running_mean", "1.running_var"}
    read(x)
    read.train()(x)
    model.train()(x)
    for name in ("1.running_mean", "1.running_var"):
        moved = dict(read.named_buffers())[name].numpy()
        assert abs(moved - kept[name]).max() > 1e-3
        np.testing.assert_allclose(moved, dict(model.named_buffers())[name].numpy(), rtol=1e-4, atol=1e-6)
    ratio = np.array(0.5, np.float32)
    dropping = from_onnx(file([node("Dropout", "x ratio", "y")], ["x"], ["y"], ratio=ratio))
    ones = mg.ones((100,))
    assert dropping(ones).tolist() == ones.tolist()
    assert {*dropping.train()(ones).tolist()} == {0.0, 2.0}


def test_what_was_read_is_written_again(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    mg.random.manual_seed(1)
    x = mg.random.normal((3, 1, 8, 8))
    model = convolutions().eval()
    export_onnx(model, x, tmp_path / "a.onnx")
    read = from_onnx(tmp_path / "a.onnx")
    told = export_onnx(read, x, tmp_path / "b.onnx")
    assert told.because == ""
    found = []
    for name in ("a.onnx", "b.onnx"):
        session = runtime.InferenceSession(tmp_path / name, providers=["CPUExecutionProvider"])
        found.append(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)
    again = from_onnx(tmp_path / "b.onnx")
    np.testing.assert_allclose(again(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_compiled_copied_and_pickled(tmp_path: Path) -> None:
    x = mg.random.normal((3, 1, 8, 8))
    export_onnx(convolutions(), x, tmp_path / "a.onnx")
    read = from_onnx(tmp_path / "a.onnx")
    wanted = read(x).detach().numpy()
    step = mg.jit(lambda x: read(x))
    for _ in range(3):
        np.testing.assert_allclose(step(x).detach().numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert step.traces == 1
    for other in (copy.deepcopy(read), pickle.loads(pickle.dumps(read))):
        np.testing.assert_array_equal(other(x).detach().numpy(), wanted)
    other.load_state_dict({name: x * 0 for name, x in read.state_dict().items()})
    assert abs(other(x)).sum().item() == 0
    np.testing.assert_array_equal(read(x).detach().numpy(), wanted)


def test_shapes_that_are_computed_are_known_under_jit() -> None:
    nodes = [
        node("Shape", "x", "shape"), node("Gather", "shape zero", "rows"), node("Unsqueeze", "rows axes", "first"),
        node("Concat", "first rest", "wanted", axis=0), node("Reshape", "x wanted", "flat"),
        node("MatMul", "flat w", "y"),
    ]  # fmt: skip
    tensors: dict[str, Any] = {
        "zero": np.int64(0), "axes": np.array([0]), "rest": np.array([-1]), "w": np.ones((6, 2), np.float32) / 3,
    }  # fmt: skip
    model = from_onnx(file(nodes, ["x"], ["y"], **tensors))
    assert [name for name, _ in model.named_tensors()] == ["w"]
    found = mg.jit(lambda x: model(x))(mg.ones((4, 2, 3)))
    assert found.shape == (4, 2)
    assert found.tolist() == [[2.0, 2.0]] * 4


def test_a_condition_that_is_known_chooses_a_branch() -> None:
    def branch(scale: float) -> Any:
        weight = onnx.numpy_helper.from_array(np.full((2,), scale, np.float32), "w")
        out = helper.make_tensor_value_info("z", 1, [2])
        return helper.make_graph([node("Mul", "x w", "z")], "b", [], [out], [weight])

    nodes = [
        node("Equal", "rate fast", "same"),
        node("If", "same", "y", then_branch=branch(2.0), else_branch=branch(3.0)),
    ]
    model = from_onnx(file(nodes, ["x", "rate"], ["y"], fast=np.int64(16)))
    assert [name for name, _ in model.named_parameters()] == ["w", "w_0"]
    x = mg.ones((2,))
    assert model(x, 16).tolist() == [2.0, 2.0]
    assert model(x, rate=8).tolist() == [3.0, 3.0]
    assert model(x, mg.asarray(16)).tolist() == [2.0, 2.0]
    assert mg.jit(lambda x: model(x, 16))(x).tolist() == [2.0, 2.0]
    model(x, 16).sum().backward()
    assert sum(p.grad is not None for p in model.parameters()) == 1


def test_functions_of_the_file_are_read() -> None:
    opset = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    double = helper.make_function("own", "Double", ["a"], ["b"], [node("Add", "a a", "b")], opset[:1])
    infos = [[helper.make_tensor_value_info(n, 1, [2])] for n in "xy"]
    graph = helper.make_graph([helper.make_node("Double", ["x"], ["y"], domain="own")], "a", *infos)
    made = helper.make_model(graph, opset_imports=opset, functions=[double])
    assert from_onnx(made.SerializeToString())(mg.ones((2,))).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("kind", "old"),
    [
        ("Squeeze", {"axes": [0]}), ("Unsqueeze", {"axes": [0]}), ("ReduceSum", {"axes": [1]}), ("Slice", {
            "starts": [1], "ends": [2]}), ("Clip", {"min": -0.5, "max": 0.5}), ("Softmax", {"axis": 1}),
        ("Pad", {"pads": [0, 1, 0, 0, 1, 0]}), ("TopK", {"k": 2}), ("Dropout", {"ratio": 0.5}),
    ],
)  # fmt: skip
def test_old_files_have_attributes_in_place_of_operands(kind: str, old: dict[str, Any]) -> None:
    runtime = pytest.importorskip("onnxruntime")
    outputs = ["y", "z"] if kind == "TopK" else ["y"]
    opset = 9
    types = [7 if name == "z" else 1 for name in outputs]
    infos = [helper.make_tensor_value_info(name, t, ["n"]) for name, t in zip(outputs, types, strict=True)]
    given = helper.make_tensor_value_info("x", 1, [1, 4, 5])
    graph = helper.make_graph([helper.make_node(kind, ["x"], outputs, **old)], "a", [given], infos)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()
    x = mg.random.normal((1, 4, 5))
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    wanted = runtime.InferenceSession(made, options, providers=["CPUExecutionProvider"]).run(None, {"x": x.numpy()})
    found = from_onnx(made)(x)
    for ours, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot read .*: No such file"):
        from_onnx(tmp_path / "none.onnx")
    (tmp_path / "a.onnx").write_bytes(b"\x08\x07nothing of it")
    with pytest.raises(CheckpointError, match="a.onnx' is no complete ONNX file"):
        from_onnx(tmp_path / "a.onnx")
    several = [node("StringConcat", "x x", "y"), node("SequenceConstruct", "x", "s"), node("Relu", "x", "z")]
    with pytest.raises(Refused, match="the file asks for SequenceConstruct, StringConcat, which is not computed here"):
        from_onnx(file(several, ["x"], ["z"]))
    with pytest.raises(
        Refused, match="Cast has the dtype FLOAT8E5M2, which micrograd does not have; there are float32,"
    ):
        from_onnx(file([node("Cast", "x", "y", to=19)], ["x"], ["y"]))(mg.ones((2,)))
    model = from_onnx(file([node("Add", "a b", "y")], ["a", "b"], ["y"]))
    assert (model.inputs, model.outputs) == (["a", "b"], ["y"])
    with pytest.raises(ShapeError, match="the inputs b are missing; there are a or b"):
        model(mg.ones((2,)))
    with pytest.raises(ShapeError, match=r"there are the inputs a or b; got 1 and \['c'\]"):
        model(mg.ones((2,)), c=mg.ones((2,)))
    with pytest.raises(ShapeError) as caught:
        model(mg.ones((2,)), mg.ones((3,)))
    assert "in Add of the ONNX file, which makes y" in caught.value.__notes__
