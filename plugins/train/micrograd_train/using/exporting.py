"""A trained network as an ONNX file that takes rows and gives answers: preparation, network, and what its numbers mean.

Each column of a table is an input of its own, of as many cells as there are rows. Numbers are float64, NaN where one is
missing; dates are days since 1970; texts are strings, empty where one is missing. A text that was never seen counts as
missing, as with ``predict --unseen missing``: a graph cannot refuse.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from micrograd_core.checkpoints import CheckpointError, export_onnx
from micrograd_core.support import files
from micrograd_train.learning.inputs import Inputs
from micrograd_train.tables.columns import Category, key
from micrograd_train.tables.preparation import Preparation
from micrograd_train.using.inspection import sample
from micrograd_train.using.trained import load_predictor

PREFIX = "network/"
"""Before the names of the network itself, which might be those of columns."""
ML = 3
"""The version of ONNX's operations for tables; `LabelEncoder` is the only one."""


class Nodes:
    """A graph on its way; `rows` is how many there are, a name where that is open."""

    def __init__(self, onnx: Any, rows: Any) -> None:
        self.onnx, self.rows = onnx, rows
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def node(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """A node with one result, and the name of that."""
        name = name or f"rows/{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, values: Any) -> str:
        """An array, by its name."""
        name = f"rows/constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(values, name))
        return name

    def cast(self, x: str, dtype: str) -> str:
        """A value in another dtype, by ONNX's name of it."""
        return self.node("Cast", x, to=getattr(self.onnx.TensorProto, dtype))

    def input(self, name: str, dtype: str, told: str = "") -> str:
        """An input: a cell for each row."""
        self.inputs.append(self._info(name, dtype, (self.rows,), told))
        return name

    def output(
        self, name: str, kind: str, *inputs: str, dtype: str, shape: tuple[Any, ...] = (), told: str = ""
    ) -> None:
        """A result of the graph, which a node makes."""
        while name in [each.name for each in self.inputs]:
            name += "_"
        self.outputs.append(self._info(name, dtype, (self.rows, *shape), told))
        self.node(kind, *inputs, name=name)

    def _info(self, name: str, dtype: str, shape: tuple[Any, ...], told: str) -> Any:
        type_ = getattr(self.onnx.TensorProto, dtype)
        return self.onnx.helper.make_tensor_value_info(name, type_, shape, doc_string=told)


def export(path: str, out: str, own: str | None = None) -> dict[str, Any]:
    """Write a trained network as ONNX; of a table and of classes with all that lies between rows and answers.

    Raises
    ------
    CheckpointError
        When `out` is no name of an ONNX file, or the network cannot be said in ONNX.
    MissingExtra
    CannotWrite
    """
    if Path(out).suffix.lower() != ".onnx":
        raise CheckpointError(f"export writes ONNX; name a file that ends in .onnx; got {out!r}")
    files.check(Path(out))
    predictor = load_predictor(path, device="cpu", model=own)
    inputs = predictor.inputs
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder, "network.onnx")
        written = export_onnx(predictor.model, sample(inputs, 2, predictor.device), alone)
        import onnx  # which is there, since the network could be written

        model = onnx.load(alone)
    (entry,), (last,) = written.inputs, written.outputs
    g = Nodes(onnx, written.inputs[entry][1][0])
    if inputs.preparation is not None:
        model = onnx.compose.add_prefix(model, PREFIX)
        entry, last = PREFIX + entry, PREFIX + last
        _prepared(g, inputs.preparation, entry)
        del model.graph.input[:]
    graph = model.graph
    g.nodes += graph.node
    if inputs.task != "sequence":
        _answers(g, inputs, last)
        del graph.output[:]
    del graph.node[:]
    graph.node.extend(g.nodes)
    graph.initializer.extend(g.constants)
    graph.input.extend(g.inputs)
    graph.output.extend(g.outputs)
    model.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", ML))
    known = {"task": inputs.task, "target": inputs.target, "classes": json.dumps(inputs.classes, ensure_ascii=False)}
    onnx.helper.set_model_props(model, known)
    onnx.checker.check_model(model)
    files.write({Path(out): model.SerializeToString()})
    taken, given = ({x.name: _told(onnx, x) for x in each} for each in (graph.input, graph.output))
    return {"out": out, "inputs": taken, "outputs": given, "because": written.because}


def _told(onnx: Any, x: Any) -> tuple[str, tuple[Any, ...]]:
    type_ = x.type.tensor_type
    name = onnx.TensorProto.DataType.Name(type_.elem_type).lower()
    return name, tuple(each.dim_param or each.dim_value for each in type_.shape.dim)


def _prepared(g: Nodes, preparation: Preparation, name: str) -> None:
    """From columns to the numbers of the network."""
    import numpy as np

    parts = []
    for column in preparation.columns:
        if isinstance(column, Category):
            parts.append(_places(g, column))
            continue
        cells = g.input(column.name, "DOUBLE", "days since 1970-01-01" if column.dates else column.unit)
        absent = g.node("IsNaN", cells)
        filled = g.node("Where", absent, g.constant(np.array(column.fill)), cells)
        centred = g.node("Sub", filled, g.constant(np.array(column.center)))
        made = g.node("Div", centred, g.constant(np.array(column.scale)))
        both = [g.cast(made, "FLOAT"), *[g.cast(absent, "FLOAT")] * column.indicator]
        parts += [g.node("Unsqueeze", each, g.constant(np.array([1]))) for each in both]
    g.node("Concat", *parts, name=name, axis=1)


def _places(g: Nodes, column: Category) -> str:
    """A column of categories as one number for each of them."""
    import numpy as np

    features = [*range(1, len(column.values) + 1), *[0] * column.missing, *[len(column.values) + 1] * column.others]
    other = features[-1] if column.others else 0
    if column.type == "text":
        cells = g.input(column.name, "STRING")
        known = {"": 0, **_spellings(column)}
        places = g.node(
            "LabelEncoder", cells, domain="ai.onnx.ml",
            keys_strings=[*known], values_int64s=[*known.values()], default_int64=other,
        )  # fmt: skip
    else:
        values = np.array([float(each) for each in column.values])
        cells = g.node("Unsqueeze", g.input(column.name, "DOUBLE"), g.constant(np.array([1])))
        hits = g.cast(g.node("Equal", cells, g.constant(values[None])), "INT64")
        places = g.node("Mul", hits, g.constant(np.arange(1, len(values) + 1)[None]))
        places = g.node("ReduceSum", places, g.constant(np.array([1])), keepdims=0)
    places = g.node("Unsqueeze", places, g.constant(np.array([1])))
    return g.cast(g.node("Equal", places, g.constant(np.array(features)[None])), "FLOAT")


def _spellings(column: Category) -> dict[str, int]:
    """Texts and their places; where the case of letters tells nothing, in the usual ones."""
    known = {}
    for write in (str.title, str.capitalize, str.upper, str.lower, str) if column.folded else (str,):
        for i, each in enumerate(column.values):
            if key(write(str(each)), column.folded) == key(str(each), column.folded):
                known[write(str(each))] = i + 1
    return known


def _answers(g: Nodes, inputs: Inputs, scores: str) -> None:
    """From what the network says to numbers in the target's unit, or to classes by name and how sure they are."""
    import numpy as np

    scores = g.cast(scores, "DOUBLE")
    if inputs.task == "regression":
        goal = inputs.preparation.goal if inputs.preparation is not None else None
        assert goal is not None
        flat = g.node("Reshape", scores, g.constant(np.array([-1])))
        scaled = g.node("Mul", flat, g.constant(np.array(goal.scale)))
        g.output("prediction", "Add", scaled, g.constant(np.array(goal.center)), dtype="DOUBLE", told=goal.unit)
        return
    classes = np.array(inputs.classes)
    dtype = {"i": "INT64", "b": "BOOL", "f": "DOUBLE"}.get(classes.dtype.kind, "STRING")
    names = g.constant(classes.astype(object) if dtype == "STRING" else classes)
    chances = g.node("Softmax", scores, axis=-1)
    best = g.node("ArgMax", chances, axis=-1, keepdims=0)
    g.output("prediction", "Gather", names, best, dtype=dtype)
    told = ", ".join(map(str, inputs.classes))
    g.output("probabilities", "Identity", chances, dtype="DOUBLE", shape=(len(classes),), told=told)
