"""How ONNX spells operations: a table from the op table's names to functions that write nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from micrograd_core.dtypes import DType, bool_, int64, pack, promote
from micrograd_core.ops.shared import is_scalar

OPSET: Final = 20
"""The newest operations that are used are GELU and rounding, of ONNX 1.15."""
IR: Final = 9


class Fixed(Exception):
    """The number of rows is part of what is computed: the message says how, of an "it" that is this number."""


class Rows(NamedTuple):
    """A length, or a part of a shape: so many times as many as there are rows."""

    times: int

    def __str__(self) -> str:
        return "batch" if self.times == 1 else f"{self.times}*batch"


Dim = int | Rows


class Value(NamedTuple):
    """A value of the graph."""

    name: str
    dtype: DType
    shape: tuple[Any, ...]


class Graph:
    """Nodes, and what they compute with."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.inputs: dict[str, tuple[str, tuple[int | str, ...]]] = {}
        self.outputs: dict[str, tuple[str, tuple[int | str, ...]]] = {}
        self._nodes: list[Any] = []
        self._tensors: dict[str, Any] = {}
        self._known: dict[Any, str] = {}
        self._given: list[Any] = []
        self._made: list[Any] = []
        self.size = 0  # bytes of all numbers

    def type(self, dtype: DType) -> int:
        """The number of a dtype."""
        name = {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype.name, dtype.name.upper())
        return int(getattr(self.onnx.TensorProto, name))

    def _info(self, name: str, dtype: DType, shape: Sequence[Dim], known: dict[str, Any]) -> Any:
        told = tuple(str(n) if isinstance(n, Rows) else n for n in shape)
        known[name] = dtype.name, told
        return self.onnx.helper.make_tensor_value_info(name, self.type(dtype), told)

    def input(self, name: str, dtype: DType, shape: Sequence[Dim]) -> Value:
        """An argument."""
        self._given.append(self._info(name, dtype, shape, self.inputs))
        return Value(name, dtype, tuple(shape))

    def output(self, name: str, x: Value) -> None:
        """A result."""
        while name in self.inputs or name in self.outputs or name in self._tensors:
            name += "_"
        self._nodes.append(self.onnx.helper.make_node("Identity", [x.name], [name]))
        self._made.append(self._info(name, x.dtype, x.shape, self.outputs))

    def tensor(self, name: str, data: bytes, shape: Sequence[int], dtype: DType) -> Value:
        """Numbers: a parameter by its name, or a constant, of which equal ones are one."""
        key = None if name else (data, tuple(shape), dtype)
        if key in self._known:
            return Value(self._known[key], dtype, tuple(shape))
        name = name or f"constant_{len(self._tensors)}"
        while name in self.inputs:
            name += "_"
        if name not in self._tensors:
            self.size += len(data)
            self._tensors[name] = self.onnx.helper.make_tensor(name, self.type(dtype), list(shape), data, raw=True)
        if key is not None:
            self._known[key] = name
        return Value(name, dtype, tuple(shape))

    def ints(self, values: Sequence[int]) -> str:
        """A list of integers."""
        return self.tensor("", pack(list(values), int64), (len(values),), int64).name

    def scalar(self, value: Any, dtype: DType) -> str:
        """A single number, which may be a number of rows."""
        if isinstance(value, Rows):
            return self.cast(Value(self.node("Squeeze", self.rows(value), self.ints([0])), int64, ()), dtype)
        return self.tensor("", pack([value], dtype), (), dtype).name

    def shape(self, dims: Sequence[Dim]) -> str:
        """A shape, of which some lengths may only be known when it runs."""
        if not any(isinstance(n, Rows) for n in dims):
            return self.ints([n for n in dims if not isinstance(n, Rows)])
        parts = [self.rows(n) if isinstance(n, Rows) else self.ints([n]) for n in dims]
        return self.node("Concat", *parts, axis=0)

    def rows(self, n: Rows) -> str:
        """How many these are, as a list of one."""
        first = next(iter(self.inputs))
        if ("rows", n.times) not in self._known:
            rows = self.node("Shape", first, start=0, end=1)
            self._known["rows", n.times] = rows if n.times == 1 else self.node("Mul", rows, self.ints([n.times]))
        return self._known["rows", n.times]

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one result, and the name of that."""
        name = f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def cast(self, x: Value, dtype: DType) -> str:
        """A value in another dtype."""
        return x.name if x.dtype is dtype else self.node("Cast", x.name, to=self.type(dtype))

    def alike(self, operands: Sequence[Any]) -> list[str]:
        """Operands in the dtype that they promote to; numbers take it, too."""
        dtypes = [x.dtype for x in operands if isinstance(x, Value)]
        common = dtypes[0]
        for each in dtypes[1:]:
            common = promote("export_onnx", common, each)
        return [self.cast(x, common) if isinstance(x, Value) else self.scalar(x, common) for x in operands]

    def model(self, version: str) -> Any:
        """The whole, for a file."""
        helper = self.onnx.helper
        graph = helper.make_graph(self._nodes, "model", self._given, self._made, list(self._tensors.values()))
        return helper.make_model(
            graph,
            producer_name="micrograd-core",
            producer_version=version,
            ir_version=IR,
            opset_imports=[helper.make_opsetid("", OPSET)],
        )


Write = Callable[[Graph, list[Any], dict[str, Any], Any], str]
Fits = Callable[[tuple[Any, ...], dict[str, Any]], bool]

# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────

SAME = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "add": "Add", "asin": "Asin", "asinh": "Asinh", "atan": "Atan",
    "atanh": "Atanh", "ceil": "Ceil", "copy": "Identity", "cos": "Cos", "cosh": "Cosh", "divide": "Div",
    "equal": "Equal", "erf": "Erf", "exp": "Exp", "floor": "Floor", "greater": "Greater",
    "greater_equal": "GreaterOrEqual", "isnan": "IsNaN", "less": "Less", "less_equal": "LessOrEqual", "log": "Log",
    "matmul": "MatMul", "maximum": "Max", "minimum": "Min", "multiply": "Mul", "negative": "Neg",
    "positive": "Identity", "reciprocal": "Reciprocal", "relu": "Relu", "sigmoid": "Sigmoid", "sign": "Sign",
    "sin": "Sin", "sinh": "Sinh", "softplus": "Softplus", "sqrt": "Sqrt", "subtract": "Sub", "tan": "Tan",
    "tanh": "Tanh",
}  # fmt: skip
"""Operations without parameters that ONNX has under another name."""
LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "logical_not": "Not"}
BITWISE = {"bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor", "bitwise_invert": "Not"}
"""Of bools; those of integers have another name."""
REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd"}


def _same(kind: str) -> Write:
    return lambda g, x, p, out: g.node(kind, *g.alike(x))


def _logical(kind: str) -> Write:
    def write(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
        taken = [g.cast(each, bool_) if isinstance(each, Value) else g.scalar(bool(each), bool_) for each in x]
        return g.node(kind, *taken)

    return write


def _bitwise(kind: str) -> Write:
    return lambda g, x, p, out: g.node(kind if out.dtype is bool_ else f"Bitwise{kind}", *g.alike(x))


def _reduced(kind: str) -> Write:
    def write(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
        (value,) = x
        axes = range(len(value.shape)) if p["axis"] is None else p["axis"]
        found = g.node(kind, value.name, g.ints(axes), keepdims=int(p["keepdims"]), noop_with_empty_axes=1)
        return g.cast(Value(found, value.dtype, ()), out.dtype)

    return write


def _pow(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
    """ONNX has it of wide integers only."""
    taken = g.alike(x)
    if out.dtype.is_floating:
        return g.node("Pow", *taken)
    wide = g.node("Pow", *[g.node("Cast", each, to=g.type(int64)) for each in taken])
    return g.cast(Value(wide, int64, ()), out.dtype)


def _where(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
    condition, *both = x
    both = [each if isinstance(each, Value) else Value(g.scalar(each, out.dtype), out.dtype, ()) for each in both]
    return g.node("Where", g.cast(condition, bool_), *[g.cast(each, out.dtype) for each in both])


def _full(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
    value = p.get("fill_value", x[0] if x else 0)
    return g.node("Expand", g.scalar(value, out.dtype), g.shape(out.shape))


def _arange(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
    start, stop, step = p.get("start", 0), p["stop"], p.get("step", 1)
    if isinstance(start, Rows) or isinstance(step, Rows) or (isinstance(stop, Rows) and (start, step) != (0, 1)):
        raise Fixed("a row of numbers depends on it")
    if isinstance(stop, Rows):
        counted = g.node("Range", g.scalar(0, int64), g.scalar(stop, int64), g.scalar(1, int64))
        return g.cast(Value(counted, int64, ()), out.dtype)
    return g.tensor("", pack([start + i * step for i in range(out.shape[0])], out.dtype), out.shape, out.dtype).name


def _reshape(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
    dims = list(out.shape)
    open_ = [i for i, n in enumerate(dims) if isinstance(n, Rows)]
    if len(open_) == 1 and 0 not in dims:
        dims[open_[0]] = -1
    return g.node("Reshape", x[0].name, g.shape(dims), allowzero=int(0 in dims))


def _getitem(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
    name, shape = x[0].name, x[0].shape
    starts, stops, steps, axes, gone, new = [], [], [], [], [], []
    axis = place = 0
    for each in p["key"]:
        if each is None:
            new.append(place)
            place += 1
            continue
        if isinstance(each, Rows):
            raise Fixed("an index depends on it")
        if not isinstance(each, slice):
            each, at = slice(each, each + 1, 1), axis
            gone.append(at)
        else:
            place += 1
        if each != slice(0, shape[axis], 1):
            starts.append(each.start)
            stops.append(-(1 << 62) if each.stop is None else each.stop)
            steps.append(each.step)
            axes.append(axis)
        axis += 1
    if axes:
        name = g.node("Slice", name, g.shape(starts), g.shape(stops), g.ints(axes), g.ints(steps))
    if gone:
        name = g.node("Squeeze", name, g.ints(gone))
    return g.node("Unsqueeze", name, g.ints(new)) if new else name


def _scatter(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
    """At places that are known."""
    if any(isinstance(n, Rows) for each in x if isinstance(each, Value) for n in each.shape):
        raise Fixed("where something is written depends on it")
    target, values = [each if isinstance(each, Value) else None for each in x]
    assert target is not None
    import numpy as np

    places = np.arange(np.prod(target.shape, dtype=np.int64)).reshape(target.shape)[p["key"]]
    written = g.cast(values, target.dtype) if values else g.scalar(x[1], target.dtype)
    written = g.node("Expand", written, g.ints(places.shape))
    flat = g.node("Reshape", target.name, g.ints([-1]))
    flat = g.node(
        "ScatterElements", flat, g.ints(places.reshape(-1).tolist()), g.node("Reshape", written, g.ints([-1]))
    )
    return g.node("Reshape", flat, g.ints(target.shape))


def _pad(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
    widths = [before for before, _ in p["pad_width"]] + [after for _, after in p["pad_width"]]
    more = [g.scalar(p["constant_values"], out.dtype)] if p["mode"] == "constant" else []
    return g.node("Pad", x[0].name, g.ints(widths), *more, mode=p["mode"])


def _fits_pad(operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    """ONNX reflects once only."""
    if params["mode"] not in ("constant", "edge"):
        return False
    return bool(params["pad_width"]) and operands[0].dtype.kind not in ("bool", "complex floating")


def _with(kind: str, **attributes: str) -> Write:
    """One operand, and attributes that are parameters of another name or of the same; alpha is a float."""

    def write(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
        told = {theirs: p[ours] if theirs != "alpha" else float(p[ours]) for theirs, ours in attributes.items()}
        return g.node(kind, x[0].name, **told)

    return write


def _linear(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
    value, weight, bias = x
    if len(value.shape) == 2 and isinstance(bias, Value):
        return g.node("Gemm", *g.alike(x), transB=1)
    value, weight = [Value(name, out.dtype, ()) for name in g.alike([value, weight])]
    product = g.node("MatMul", value.name, g.node("Transpose", weight.name, perm=[1, 0]))
    if not isinstance(bias, Value):
        return product if bias == 0 else g.node("Add", product, g.scalar(bias, out.dtype))
    return g.node("Add", product, g.cast(bias, out.dtype))


def _batch_norm(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
    value, mean, var, weight, bias = g.alike(x)
    return g.node("BatchNormalization", value, weight, bias, mean, var, epsilon=p["eps"])


def _convolution(kind: str) -> Write:
    def write(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
        taken = g.alike(x if isinstance(x[2], Value) else x[:2])
        pads = [n if isinstance(n, tuple) else (n, n) for n in p["padding"]]
        told: dict[str, Any] = {
            "strides": list(p["stride"]),
            "pads": [first for first, _ in pads] + [last for _, last in pads],
            "dilations": list(p["dilation"]),
            "group": p["groups"],
            "kernel_shape": list(x[1].shape[2:]),
        }
        if "output_padding" in p:
            told["output_padding"] = list(p["output_padding"])
        return g.node(kind, *taken, **told)

    return write


def _pooling(kind: str) -> Write:
    def write(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
        told: dict[str, Any] = {
            "kernel_shape": list(p["kernel_size"]),
            "strides": list(p["stride"]),
            "pads": [*p["padding"], *p["padding"]],
        }
        if kind == "MaxPool":
            told["dilations"] = list(p["dilation"])
        else:
            told["count_include_pad"] = 1
        return g.node(kind, x[0].name, **told)

    return write


def _arg(kind: str) -> Write:
    def write(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
        (axis,) = p["axis"] if isinstance(p["axis"], tuple) else (p["axis"],)
        return g.node(kind, x[0].name, axis=axis, keepdims=int(p["keepdims"]))

    return write


def _fits_norm(operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    axes, (x, weight, _) = sorted(params["axis"]), operands
    last = list(range(len(x.shape) - len(axes), len(x.shape)))
    return not any(map(is_scalar, operands)) and axes == last and len(weight.shape) == len(axes)


def _fits_batch_norm(operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    return not params["training"] and not any(map(is_scalar, operands)) and len(operands[0].shape) > 1


def _fits_bias(operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    bias = operands[2]
    return bias == 0 if is_scalar(bias) else len(bias.shape) == 1


def _fits_arg(operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    axis = params["axis"]
    return axis is not None and (not isinstance(axis, tuple) or len(axis) == 1)


def _not_complex(operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    return not any(x.dtype.is_complex for x in operands if not is_scalar(x))


def _floating(operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    return all(x.dtype.kind == "real floating" for x in operands if not is_scalar(x))


def _expand(g: Graph, x: list[Any], p: dict[str, Any], out: Any) -> str:
    return g.node("Expand", x[0].name, g.shape(out.shape))


_SPELLINGS: dict[str, tuple[Write, Fits]] = {
    **{name: (_same(kind), _not_complex) for name, kind in SAME.items()},
    **{name: (_logical(kind), _not_complex) for name, kind in LOGICAL.items()},
    **{name: (_bitwise(kind), _not_complex) for name, kind in BITWISE.items()},
    **{name: (_reduced(kind), _not_complex) for name, kind in REDUCTIONS.items()},
    "arange": (_arange, _not_complex),
    "argmax": (_arg("ArgMax"), _fits_arg),
    "argmin": (_arg("ArgMin"), _fits_arg),
    "astype": (lambda g, x, p, out: g.node("Cast", x[0].name, to=g.type(out.dtype)), _not_complex),
    "avg_pool1d": (_pooling("AveragePool"), _floating),
    "avg_pool2d": (_pooling("AveragePool"), _floating),
    "batch_norm": (_batch_norm, _fits_batch_norm),
    "broadcast_to": (_expand, _not_complex),
    "concat": (
        lambda g, x, p, out: g.node("Concat", *[g.cast(each, out.dtype) for each in x], axis=p["axis"]),
        lambda operands, params: params["axis"] is not None and _not_complex(operands, params),
    ),
    "conv1d": (_convolution("Conv"), _fits_bias),
    "conv2d": (_convolution("Conv"), _fits_bias),
    "conv_transpose1d": (_convolution("ConvTranspose"), _fits_bias),
    "conv_transpose2d": (_convolution("ConvTranspose"), _fits_bias),
    "elu": (_with("Elu", alpha="alpha"), _floating),
    "embedding": (lambda g, x, p, out: g.node("Gather", x[1].name, g.cast(x[0], int64), axis=0), _not_complex),
    "expand_dims": (_reshape, _not_complex),
    "full": (_full, _not_complex),
    "gelu": (_with("Gelu", approximate="approximate"), _floating),
    "getitem": (_getitem, _not_complex),
    "integers": (
        lambda g, x, p, out: g.tensor("", pack(list(p["values"]), out.dtype), out.shape, out.dtype).name,
        _not_complex,
    ),
    "layer_norm": (
        lambda g, x, p, out: g.node("LayerNormalization", *g.alike(x), axis=min(p["axis"]), epsilon=p["eps"]),
        _fits_norm,
    ),
    "leaky_relu": (_with("LeakyRelu", alpha="negative_slope"), _floating),
    "linear": (_linear, _not_complex),
    "log_softmax": (_with("LogSoftmax", axis="axis"), _floating),
    "max_pool1d": (_pooling("MaxPool"), _floating),
    "max_pool2d": (_pooling("MaxPool"), _floating),
    "pad": (_pad, _fits_pad),
    "permute_dims": (
        lambda g, x, p, out: g.node("Transpose", x[0].name, perm=list(p["axes"])) if p["axes"] else x[0].name,
        _not_complex,
    ),
    "pow": (_pow, _not_complex),
    "reshape": (_reshape, _not_complex),
    "round": (lambda g, x, p, out: g.node("Round" if out.dtype.is_floating else "Identity", x[0].name), _not_complex),
    "scatter": (_scatter, _not_complex),
    "softmax": (_with("Softmax", axis="axis"), _floating),
    "spread": (_expand, _not_complex),
    "squeeze": (_reshape, _not_complex),
    "take": (lambda g, x, p, out: g.node("Gather", x[0].name, g.cast(x[1], int64), axis=p["axis"]), _not_complex),
    "where": (_where, _not_complex),
}
"""By name: what writes an operation, and for which operands and parameters; for others it is composed."""


def spelled(name: str, operands: tuple[Any, ...], params: dict[str, Any]) -> bool:
    """Whether ONNX has an operation, for such operands and parameters."""
    known = _SPELLINGS.get(name)
    return known is not None and known[1](operands, params)


def spelling(name: str) -> Write:
    """What writes an operation."""
    return _SPELLINGS[name][0]
