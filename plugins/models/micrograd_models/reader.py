"""A module of an ONNX file: it computes what the file says, and can be trained and exported again."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import micrograd_core as mg
from micrograd_core import Device, Tensor, nn
from micrograd_core.checkpoints import CheckpointError
from micrograd_core.errors import MissingExtra, ShapeError, one_of
from micrograd_models.operators import HOST, OPERATORS, Call, Refused, dtype_of

STATISTICS: Final = {"BatchNormalization": (3, 4)}
"""Operands that are no parameters: running means and variances."""
BRANCHES: Final = "If"


class Constant(NamedTuple):
    """An array that cannot change."""

    data: bytes
    dtype: str
    shape: tuple[int, ...]

    @property
    def array(self) -> Any:
        """The array."""
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)


Pairs = tuple[tuple[str, Any], ...]


class Node(NamedTuple):
    """An operator, the names of what it takes and makes, and its attributes."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Pairs
    opset: int
    proto: bytes
    done: tuple[str, ...] = ()
    """Names that no later node takes."""


class Graph(NamedTuple):
    """Nodes in their order, and what goes in and comes out, by name.

    Nothing in it can change, so that `jit` need not look whether it has.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Pairs
    single: frozenset[str]
    """Constants of one element, as exporters write numbers of the program, not weights."""
    parameters: Pairs = ()
    """Names of tensors of the module, by the names that they have in this graph."""


def from_onnx(path: str | Path | bytes, *, device: str | Device | None = None) -> ONNXModel:
    """A module that computes what an ONNX file says.

    Parameters
    ----------
    path : str, Path or bytes
        The file, or its bytes. Weights in files beside it are read, too.
    device : str or Device, optional
        Where its parameters are; by default the default device.

    Returns
    -------
    ONNXModel
        In ``eval()`` mode.

    Raises
    ------
    CheckpointError
        When it is no ONNX file, or asks for operators or dtypes that are not computed here: all of them are named.

    Examples
    --------
    >>> import os, tempfile
    >>> import micrograd_core as mg
    >>> from micrograd_models import from_onnx
    >>> path = os.path.join(tempfile.mkdtemp(), "model.onnx")
    >>> _ = mg.checkpoints.export_onnx(mg.nn.Linear(2, 1), mg.zeros((4, 2)), path)
    >>> model = from_onnx(path)
    >>> [name for name, _ in model.named_parameters()]
    ['weight', 'bias']
    >>> model(mg.zeros((3, 2))).shape
    (3, 1)
    """
    try:
        import onnx
        import onnx.inliner
    except ImportError as error:
        raise MissingExtra("from_onnx", "onnx", "models") from error
    try:
        proto = onnx.load_from_string(path) if isinstance(path, bytes) else onnx.load(path)
        onnx.checker.check_model(proto if isinstance(path, bytes) else path)
        proto = onnx.inliner.inline_local_functions(proto) if proto.functions else proto
    except OSError as error:
        raise CheckpointError(f"from_onnx: cannot read {str(path)!r}: {error.strerror or error}") from error
    except Exception as error:  # of the checker, of protocol buffers, and of what they find
        raise CheckpointError(f"from_onnx: {_named(path)} is no complete ONNX file: {error}") from error
    opsets = {each.domain or "ai.onnx": each.version for each in proto.opset_import}
    unknown = sorted(_unknown(proto.graph, opsets))
    if unknown:
        raise Refused(f"from_onnx: {_named(path)} asks for {', '.join(unknown)}, which is not computed here")
    for each in proto.graph.input:
        if each.type.WhichOneof("value") != "tensor_type":
            raise Refused(f"from_onnx: the input {each.name!r} of {_named(path)} is no tensor")
        dtype_of(each.type.tensor_type.elem_type, f"the input {each.name!r}")
    return ONNXModel(_graph(proto.graph, opsets), device)


def _named(path: Any) -> str:
    return "the file" if isinstance(path, bytes) else repr(str(path))


def _unknown(graph: Any, opsets: dict[str, int]) -> set[str]:
    """Operators that neither the table nor a definition of onnx knows, also inside of branches."""
    found: set[str] = set()
    for node in graph.node:
        if node.domain not in ("", "ai.onnx"):
            found.add(f"{node.domain}.{node.op_type}")
        elif node.op_type == BRANCHES:
            for each in node.attribute:
                found |= _unknown(each.g, opsets)
        elif node.op_type not in {*OPERATORS, *HOST, "Constant"} and not defined(node.op_type, opsets):
            found.add(node.op_type)
    return found


@lru_cache(None)
def _definition(kind: str, opset: int) -> bool:
    """Whether onnx defines an operator by others that are all computed here."""
    import onnx

    try:
        schema = onnx.defs.get_schema(kind, opset)
    except Exception:  # the package's own
        return False
    if schema.has_context_dependent_function:
        return kind not in UNDEFINED
    if not schema.has_function:
        return False
    nodes = schema.function_body.node
    return all(n.op_type in OPERATORS or n.op_type == "Constant" or _definition(n.op_type, opset) for n in nodes)


UNDEFINED: Final = frozenset({"LinearAttention", "SequenceMap"})
"""Operators whose definitions have loops or sequences in them."""


def defined(kind: str, opsets: dict[str, int]) -> bool:
    """Whether onnx defines an operator by others that are all computed here."""
    return _definition(kind, opsets.get("ai.onnx", 1))


def _graph(graph: Any, opsets: dict[str, int]) -> Graph:
    constants = {each.name: _array(each, f"the tensor {each.name!r}") for each in graph.initializer}
    for each in graph.sparse_initializer:
        constants[each.values.name] = _dense(each)
    inputs = [each.name for each in graph.input if each.name not in constants]
    nodes, single = [], set()
    for each in graph.node:
        node = _node(each, opsets)
        if node.kind == "Constant":
            constants[node.outputs[0]] = value = _constant(node)
            single |= set(node.outputs) if len(value.shape) < 2 and value.shape in ((), (1,)) else set()
        else:
            nodes.append(node)
    return Graph(
        tuple(nodes),
        tuple(inputs),
        tuple(each.name for each in graph.output),
        tuple(constants.items()),
        frozenset(single),
    )


def _constant(node: Node) -> Any:
    ((name, value),) = node.attributes
    if name in ("value", "sparse_value"):
        return value
    kinds = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
    return _kept(np.array(value, kinds[name]))


def _kept(x: Any) -> Any:
    """What cannot change, of an array."""
    return x if isinstance(x, Tensor) else Constant(x.tobytes(), x.dtype.str, x.shape)


def _node(node: Any, opsets: dict[str, int]) -> Node:
    import onnx

    opset = opsets.get("ai.onnx", 1)
    schema = onnx.defs.get_schema(node.op_type, opset)
    defaults = [each.default_value for each in schema.attributes.values() if each.default_value.name]
    attributes = {each.name: _attribute(each, opsets) for each in [*defaults, *node.attribute]}
    names = tuple(node.input), tuple(node.output)
    return Node(node.op_type, *names, tuple(attributes.items()), opset, node.SerializeToString())


def _attribute(attribute: Any, opsets: dict[str, int]) -> Any:
    import onnx

    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.GraphProto):
        return _graph(value, opsets)
    if isinstance(value, onnx.TensorProto):
        return _array(value, f"the attribute {attribute.name!r}")
    if isinstance(value, onnx.SparseTensorProto):
        return _dense(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)) or hasattr(value, "__iter__"):
        return tuple(each.decode() if isinstance(each, bytes) else each for each in value)
    return value


def _array(tensor: Any, where: str) -> Any:
    import onnx

    if onnx.TensorProto.DataType.Name(tensor.data_type) == "BFLOAT16":
        return mg.asarray(onnx.numpy_helper.to_array(tensor).astype(np.float32)).astype("bfloat16")
    dtype_of(tensor.data_type, where)
    return _kept(onnx.numpy_helper.to_array(tensor))


def _dense(tensor: Any) -> Any:
    import onnx

    values, places = onnx.numpy_helper.to_array(tensor.values), onnx.numpy_helper.to_array(tensor.indices)
    found = np.zeros(tuple(tensor.dims), values.dtype)
    found[tuple(places.T) if places.ndim > 1 else np.unravel_index(places, found.shape)] = values
    return _kept(found)


class ONNXModel(nn.Module):
    """The nodes of an ONNX file as a module: see `from_onnx`.

    Its parameters are the file's tensors of floating-point numbers that have axes, by their names there; running
    means and variances are buffers. Everything else that the file holds is constant. In ``train()`` mode dropout drops,
    and batch norms take and follow the statistics of the batch.

    Parameters
    ----------
    graph : Graph
        What `from_onnx` read.
    device : Device or str, optional
        Where the parameters are; by default the default device.

    Examples
    --------
    >>> import os, tempfile
    >>> import micrograd_core as mg
    >>> from micrograd_models import from_onnx
    >>> path = os.path.join(tempfile.mkdtemp(), "model.onnx")
    >>> _ = mg.checkpoints.export_onnx(mg.nn.Linear(2, 1), mg.zeros((4, 2)), path)
    >>> model = from_onnx(path)
    >>> type(model).__name__, len(model.inputs), len(model.outputs)
    ('ONNXModel', 1, 1)
    """

    def __init__(self, graph: Graph, device: str | Device | None = None) -> None:
        self._tensors: dict[str, Tensor] = {}
        self._graph = self._claimed(graph, device)
        self.training = False

    def _claimed(self, graph: Graph, device: str | Device | None) -> Graph:
        """The graph, of which the tensors that can be trained are the module's, and what is constant is computed."""
        constants = {name: x.array if isinstance(x, Constant) else x for name, x in graph.constants}
        parameters: dict[str, str] = {}
        uses = [(name, node, i) for node in graph.nodes for i, name in enumerate(node.inputs) if name in constants]
        statistics = {name for name, node, i in uses if i in STATISTICS.get(node.kind, ())}
        shown = dict.fromkeys(name for name, node, i in uses if i not in OPERATORS.get(node.kind, ("", ()))[1])
        for name in shown:
            x = constants[name]
            if not (isinstance(x, Tensor) or x.dtype.kind == "f") or not x.ndim or name in graph.single:
                continue
            own, count = name, 0
            while own in self._tensors:  # in another branch
                own, count = f"{name}_{count}", count + 1
            tensor = mg.asarray(constants.pop(name), device=device, copy=True)
            tensor.requires_grad = name not in statistics
            self._tensors[own], parameters[name] = tensor, own
        nodes = []
        for node in graph.nodes:
            attributes = tuple(
                (name, self._claimed(x, device) if isinstance(x, Graph) else x) for name, x in node.attributes
            )
            taken = [constants.get(name, self) if name else None for name in node.inputs]
            if taken and not any(x is self or isinstance(x, Tensor) for x in taken) and node.kind != BRANCHES:
                constants.update(zip(node.outputs, _folded(node, taken), strict=False))
            else:
                nodes.append(node._replace(attributes=attributes))
        last = {name: i for i, node in enumerate(nodes) for name in _taken(node) if name not in graph.outputs}
        ends = [tuple(dict.fromkeys(n for n in _taken(node) if last.get(n) == i)) for i, node in enumerate(nodes)]
        return graph._replace(
            nodes=tuple(node._replace(done=done) for node, done in zip(nodes, ends, strict=True)),
            constants=tuple((name, _kept(x)) for name, x in constants.items()), parameters=tuple(parameters.items()),
        )  # fmt: skip

    def _contents(self) -> list[tuple[str, Any]]:
        return list(self._tensors.items())

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs, as a list of str."""
        return list(self._graph.inputs)

    @property
    def outputs(self) -> list[str]:
        """The names of the results, as a list of str."""
        return list(self._graph.outputs)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Compute the results of inputs in the file's order, or by name.

        Inputs that are no tensors, but numbers, lists or arrays of NumPy, are known before anything is computed: shapes
        and conditions may depend on them, under `jit` and in exported files, too.

        Parameters
        ----------
        *inputs, **named : Tensor, array, list or number
            Of the shapes and dtypes that the file says.

        Returns
        -------
        Tensor, or tuple of Tensor

        Raises
        ------
        ShapeError
            When inputs are missing, or there are others.
        """
        names = self._graph.inputs
        given = {**dict(zip(names, inputs, strict=False)), **named}
        if len(inputs) > len(names) or given.keys() - {*names}:
            raise ShapeError(f"ONNXModel: there are the inputs {one_of(names)}; got {len(inputs)} and {sorted(named)}")
        values = {name: x if isinstance(x, Tensor) or x is None else np.asarray(x) for name, x in given.items()}
        missing = [name for name in names if name not in values]
        if missing and any(name in missing for node in self._graph.nodes for name in _taken(node)):
            raise ShapeError(f"ONNXModel: the inputs {one_of(missing)} are missing; there are {one_of(names)}")
        found = [self._tensor(x) for x in self._run(self._graph, values)]
        return found[0] if len(found) == 1 else tuple(found)

    def _tensor(self, x: Any) -> Any:
        if x is None or isinstance(x, Tensor):
            return x
        place = next((p.device for p in self._tensors.values()), None)
        return mg.asarray(x, device=place)

    def _run(self, graph: Graph, values: dict[str, Any]) -> list[Any]:
        values |= {name: x.array if isinstance(x, Constant) else x for name, x in graph.constants}
        values |= {name: self._tensors[own] for name, own in graph.parameters}
        for node in graph.nodes:
            taken = [values[name] if name else None for name in node.inputs]
            try:
                found = self._called(node, taken, values)
            except Refused:
                raise
            except Exception as error:
                error.add_note(f"in {node.kind} of the ONNX file, which makes {one_of(node.outputs)}")
                raise
            values.update(zip(node.outputs, found, strict=False))
            for name in node.done:
                values.pop(name, None)
        return [values.get(name) for name in graph.outputs]

    def _called(self, node: Node, taken: list[Any], values: dict[str, Any]) -> Any:
        """The results of a node."""
        if node.kind == BRANCHES:
            (condition,) = taken
            branch = dict(node.attributes)["then_branch" if _known(condition) else "else_branch"]
            return self._run(branch, dict(values))
        operator = OPERATORS.get(node.kind)
        if node.kind in HOST or (taken and not any(isinstance(x, Tensor) for x in taken)):
            return _folded(node, [None if x is None else _known(x) for x in taken])
        if operator is None:
            return self._defined(node, taken)
        call = Call(node.kind, dict(node.attributes), node.opset, len(node.outputs), self.training)
        operands = [
            x if x is None else _known(x) if i in operator.known else self._tensor(x) for i, x in enumerate(taken)
        ]
        while operands and operands[-1] is None:
            operands.pop()
        result = operator.function(call, *operands)
        return result if isinstance(result, tuple) else (result,)

    def _defined(self, node: Node, taken: list[Any]) -> list[Any]:
        """By the definition that onnx has of an operator, for operands of these types."""
        types = tuple(None if x is None else (_number(x), x.shape) for x in taken)
        body = _body(node.proto, node.opset, types)
        given = dict(zip(body.inputs, taken, strict=False))
        return self._run(body, {name: given.get(name) for name in ("", *body.inputs)})


def _taken(node: Node) -> list[str]:
    """Names that a node takes, or its branches do."""
    found = [name for name in node.inputs if name]
    for _, each in node.attributes:
        if isinstance(each, Graph):
            found += [name for inner in each.nodes for name in _taken(inner)] + [*each.outputs]
    return found


def _known(x: Any) -> Any:
    return x if not isinstance(x, Tensor) else x.detach().numpy()


def _number(x: Any) -> int:
    """ONNX's number of a dtype."""
    import onnx

    name = {"float32": "FLOAT", "float64": "DOUBLE"}.get(str(x.dtype), str(x.dtype).upper())
    return int(getattr(onnx.TensorProto, name))


@lru_cache(1024)
def _evaluator(proto: bytes, opset: int) -> Any:
    import onnx
    from onnx.reference import ReferenceEvaluator

    node = onnx.NodeProto.FromString(proto)
    empty = [
        [onnx.helper.make_tensor_value_info(name, 1, None) for name in dict.fromkeys(names) if name]
        for names in (node.input, node.output)
    ]
    return ReferenceEvaluator(onnx.helper.make_graph([node], "one", *empty), opsets={"": opset})


def _folded(node: Node, taken: list[Any]) -> list[Any]:
    """What is known is computed by onnx itself: the arithmetic of shapes, mostly."""
    given = {name: x for name, x in zip(node.inputs, taken, strict=True) if name}
    made = iter(_evaluator(node.proto, node.opset).run(None, given))
    return [np.asarray(next(made)) if name else None for name in node.outputs]


@lru_cache(1024)
def _body(proto: bytes, opset: int, types: tuple[Any, ...]) -> Graph:
    """The definition of a node, with its attributes filled in."""
    import onnx

    node = onnx.NodeProto.FromString(proto)
    schema = onnx.defs.get_schema(node.op_type, opset)
    if schema.has_context_dependent_function:
        told = [onnx.TypeProto() if each is None else onnx.helper.make_tensor_type_proto(*each) for each in types]
        version = max(v for v in schema.context_dependent_function_opset_versions if v <= opset)
        text = schema.get_context_dependent_function_with_opset_version(
            version, proto, [each.SerializeToString() for each in told]
        )
        function = onnx.FunctionProto.FromString(text)
    else:
        function = schema.function_body
    opsets = {each.domain or "ai.onnx": each.version for each in function.opset_import} or {"ai.onnx": opset}
    own = {each.name: each.default_value for each in schema.attributes.values() if each.default_value.name}
    own |= {each.name: each for each in node.attribute}
    body = onnx.GraphProto(
        input=[onnx.ValueInfoProto(name=name) for name in function.input],
        output=[onnx.ValueInfoProto(name=name) for name in function.output],
    )
    for each in function.node:
        copy = body.node.add()
        copy.CopyFrom(each)
        del copy.attribute[:]
        for attribute in each.attribute:
            if not attribute.ref_attr_name:
                copy.attribute.append(attribute)
            elif attribute.ref_attr_name in own:
                filled = copy.attribute.add()
                filled.CopyFrom(own[attribute.ref_attr_name])
                filled.name = attribute.name
    unknown = sorted(_unknown(body, opsets))
    if unknown:
        raise Refused(f"from_onnx: {node.op_type} is defined by {', '.join(unknown)}, which is not computed here")
    return _graph(body, opsets)
