"""Programs and inputs for them, drawn at random: every operation that a nest holds, in chains, over views, reduced.

`exact` programs compute with small integers, in whatever dtype, so that all who run one must agree to the last bit,
in whichever order they add. `smooth` ones go through functions whose results may differ in the last digits.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from micrograd_core.compiler.program import Program, Ref, Step, typed
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.dtypes import DTYPES, DType, bool_, int64
from micrograd_core.layout import broadcast_shapes

LENGTHS = (0, 1, 1, 2, 3, 3, 4, 5, 7)
DTYPE_NAMES = ("float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "uint32", "bool")
SMOOTH = "exp expm1 log1p log2 log10 tanh sin cos erf erfc sigmoid softplus silu gelu square".split()
ROWS = "softmax log_softmax logsumexp mean var".split()
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, float("inf"), -float("inf"), float("nan"), 1e-40, -7.25, 65504.0)


class Drawing:
    """A program that is being drawn."""

    def __init__(self, rng: random.Random, types: list[TensorSpec]) -> None:
        self.rng, self.types, self.steps = rng, list(types), list[Step]()
        self.inputs = len(types)

    def emit(self, op: str, *operands: Any, **params: Any) -> Ref | None:
        """One more step, unless it does not fit."""
        step = Step(op, operands, params)
        try:
            program = typed(Program(len(self.types), (step,), ()), self.types)
        except Exception:
            return None
        if len(program.types[-1].shape) > 5 or np.prod(program.types[-1].shape, dtype=float) > 20_000:
            return None
        self.steps.append(step)
        self.types.append(program.types[-1])
        return Ref(len(self.types) - 1)

    def any(self, *kinds: str) -> Ref | None:
        """A value of such a kind of dtype; late ones more often."""
        found = [n for n, x in enumerate(self.types) if not kinds or x.dtype.kind in kinds]
        return Ref(found[-1 - int(len(found) * self.rng.random() ** 2)]) if found else None

    def partner(self, x: Ref) -> Any:
        """Something of the same dtype that broadcasts with a value, or a number."""
        type = self.types[x.number]
        fitting = [Ref(n) for n, y in enumerate(self.types) if y.dtype is type.dtype and fits(type, y)]
        if self.rng.random() < 0.25 and type.dtype is not bool_:
            return self.rng.choice((0, 1, 2, 3)) if type.dtype.is_integer else self.rng.choice((0.0, 1.0, -1.0, 2.0))
        return self.rng.choice(fitting)

    def program(self) -> Program:
        """With some of its values as outputs, the last among them."""
        count = len(self.types)
        chosen = sorted({*self.rng.sample(range(count), min(2, count)), count - 1})
        return Program(self.inputs, self.steps, [Ref(n) for n in chosen], self.types)


def fits(x: TensorSpec, y: TensorSpec) -> bool:
    try:
        broadcast_shapes("", x.shape, y.shape)
    except Exception:
        return False
    return True


def view(d: Drawing, x: Ref) -> None:
    """Another look at a value."""
    rng, shape = d.rng, d.types[x.number].shape
    kind = rng.choice(("reshape", "permute_dims", "getitem", "flip", "expand_dims", "squeeze", "broadcast_to"))
    if kind == "permute_dims":
        d.emit(kind, x, axes=tuple(rng.sample(range(len(shape)), len(shape))))
    elif kind == "flip" and shape:
        d.emit(kind, x, axis=(rng.randrange(len(shape)),))
    elif kind == "expand_dims":
        d.emit(kind, x, axis=(rng.randrange(len(shape) + 1),))
    elif kind == "squeeze" and 1 in shape:
        d.emit(kind, x, axis=(shape.index(1),))
    elif kind == "broadcast_to":
        d.emit(rng.choice((kind, "spread")), x, shape=(rng.choice((2, 3)), *shape))
    elif kind == "reshape":
        lengths = [n for n in shape if n != 1] or [1]
        if rng.random() < 0.5 and len(lengths) > 1:
            i = rng.randrange(len(lengths) - 1)
            lengths[i : i + 2] = [lengths[i] * lengths[i + 1]]
        elif lengths[0] % 2 == 0 and lengths[0]:
            lengths[:1] = [2, lengths[0] // 2]
        d.emit(kind, x, shape=tuple(lengths))
    elif kind == "getitem":
        key: list[Any] = []
        for n in shape:
            start = rng.choice((None, 0, 1)) if n > 1 else None
            entry = rng.choice((slice(start, None, 1), slice(None, None, -1), slice(None, None, 2), 0 if n else None))
            key.append(slice(None, None, 1) if entry is None else entry)
        d.emit(kind, x, key=tuple(key))


def tame(d: Drawing, x: Ref | None) -> None:
    """Numbers stay small, so that integers do not wrap differently in float."""
    if x is not None and d.types[x.number].dtype is not bool_:
        dtype = d.types[x.number].dtype
        low: Any = 0 if dtype.kind == "unsigned integer" else -8
        y = d.emit("maximum", x, float(low) if dtype.is_floating else low)
        if y is not None:
            d.emit("minimum", y, 8.0 if dtype.is_floating else 8)


def exact(rng: random.Random, length: int, dtypes: tuple[str, ...] = DTYPE_NAMES, reduced: bool = True) -> Program:
    """A program of small integers in any dtype."""
    d = Drawing(rng, drawn_types(rng, dtypes))
    while len(d.steps) < length:
        x = d.any()
        assert x is not None
        dtype = d.types[x.number].dtype
        what = rng.random()
        if what < 0.2:
            view(d, x)
        elif what < 0.4 and reduced and dtype is not bool_:
            shape = d.types[x.number].shape
            for _ in range(rng.choice((1, 1, 2))):  # of one value over these axes and those
                chosen = tuple(sorted(rng.sample(range(len(shape)), rng.randrange(len(shape) + 1)))) or None
                op = rng.choice(("sum", "sum", "max", "min"))
                if op == "sum" or 0 not in shape:
                    tame(d, d.emit(op, x, axis=chosen, keepdims=rng.random() < 0.5))
        elif what < 0.5:
            y = d.emit("astype", x, dtype=DTYPES[rng.choice(dtypes)]) if not negative_to_unsigned(dtype) else None
            tame(d, y)
        elif what < 0.6:
            y = d.partner(x)
            condition = d.any("bool")
            if condition is not None:
                d.emit("where", condition, *((x, y) if rng.random() < 0.5 else (y, x)))
        elif dtype is bool_:
            op = rng.choice(("logical_and", "logical_or", "logical_not", "bitwise_xor", "equal"))
            d.emit(op, x, *([] if op == "logical_not" else [d.partner(x)]))
        elif what < 0.75:
            d.emit(rng.choice(("less", "less_equal", "greater", "equal", "not_equal")), x, d.partner(x))
        elif what < 0.85 and dtype.kind != "unsigned integer":
            d.emit(rng.choice(("negative", "abs", "floor", "ceil", "trunc", "positive", "copy")), x)
        elif dtype.is_integer and what < 0.9:
            d.emit(rng.choice(("bitwise_and", "bitwise_or", "bitwise_xor")), x, d.partner(x))
        elif what < 0.92:
            divisor = rng.choice((1, 2, 3, 7))
            d.emit(rng.choice(("floor_divide", "remainder")), x, float(divisor) if dtype.is_floating else divisor)
        else:
            tame(d, d.emit(rng.choice(("add", "subtract", "multiply", "maximum", "minimum")), x, d.partner(x)))
        if rng.random() < 0.05:
            shape = d.types[x.number].shape
            d.emit("full", shape=shape, fill_value=rng.choice((0, 1, 2)), dtype=int64)
            d.emit("arange", stop=shape[-1] if shape else 1, dtype=int64)
    return d.program()


def negative_to_unsigned(dtype: DType) -> bool:
    """Casts from floats to unsigned integers are undefined below 0."""
    return dtype.is_floating


def smooth(rng: random.Random, length: int, dtype: str) -> Program:
    """Functions of one float dtype, and what normalises rows."""
    d = Drawing(rng, [TensorSpec(x.shape, DTYPES[dtype]) for x in drawn_types(rng, (dtype,), empty=False)])
    while len(d.steps) < length:
        x = d.any()
        assert x is not None
        shape = d.types[x.number].shape
        what = rng.random()
        if what < 0.15:
            view(d, x)
        elif what < 0.4 and shape:
            op, axis = rng.choice(ROWS), rng.randrange(len(shape))
            if op in ("softmax", "log_softmax"):
                d.emit(op, x, axis=axis)
            elif 0 not in shape:
                more: dict[str, Any] = {"correction": 0.0} if op == "var" else {}
                d.emit(op, x, axis=(axis,), keepdims=rng.random() < 0.7, **more)
        elif what < 0.75:
            op = rng.choice(SMOOTH)
            y = d.emit("tanh", x) if op in ("exp", "expm1", "square") else x
            y = d.emit("square", y) if op.startswith("log") and y is not None else y
            y = d.emit("add", y, 1.0) if op in ("log2", "log10") and y is not None else y
            if y is not None:
                d.emit(op, y, **({"approximate": rng.choice(("none", "tanh"))} if op == "gelu" else {}))
        else:
            d.emit(rng.choice(("add", "subtract", "multiply")), x, d.partner(x))
    return d.program()


def special(rng: random.Random, length: int, dtype: str) -> Program:
    """Elementwise arithmetic, which IEEE 754 says to the last bit, of NaN, infinities and both zeros."""
    d = Drawing(rng, [TensorSpec(x.shape, DTYPES[dtype]) for x in drawn_types(rng, (dtype,), empty=False)])
    unary = ("negative", "abs", "sqrt", "floor", "relu", "isnan", "isfinite", "isinf", "signbit", "reciprocal")
    binary = ("add", "subtract", "multiply", "divide", "less", "equal", "not_equal", "copysign", "relu_gradient")
    binary += ("floor_divide", "remainder")
    while len(d.steps) < length:
        x = d.any("real floating")
        assert x is not None
        if rng.random() < 0.2:
            view(d, x)
        elif rng.random() < 0.4:
            d.emit(rng.choice(unary), x)
        elif rng.random() < 0.3 and (condition := d.any("bool")) is not None:
            d.emit("where", condition, x, d.partner(x))
        else:
            d.emit(rng.choice(binary), x, d.partner(x))
    return d.program()


def drawn_types(rng: random.Random, dtypes: tuple[str, ...], empty: bool = True) -> list[TensorSpec]:
    """Inputs that broadcast with each other, most of them."""
    lengths = LENGTHS if empty and rng.random() < 0.1 else LENGTHS[1:]
    shape = tuple(rng.choice(lengths) for _ in range(rng.choice((0, 1, 2, 2, 2, 3, 3, 4))))
    if rng.random() < 0.1:
        shape = rng.choice(((700,), (3, 600), (600, 3), (130, 9)))
    found = []
    for _ in range(rng.choice((1, 2, 3))):
        less = tuple(1 if rng.random() < 0.3 else n for n in shape)
        found.append(TensorSpec(less[rng.choice((0, 0, 0, len(less) // 2)) :], DTYPES[rng.choice(dtypes)]))
    return found


def handles(rng: random.Random, program: Program, device: Any, numbers: str) -> list[Any]:
    """Inputs with such numbers, in memory of any layout."""
    kernels, found = device.kernels, []
    for shape, dtype in program.types[: program.inputs]:
        seed = np.random.default_rng(rng.randrange(1 << 30))
        wide = tuple(2 * n for n in shape)
        if numbers == "special":
            array = seed.choice(SPECIAL, size=wide)
        elif numbers == "smooth":
            array = seed.normal(size=wide)
        else:
            array = seed.integers(0 if dtype.kind == "unsigned integer" else -3, 4, size=wide).astype("float64")
        if dtype is bool_:
            array = array > 0
        x = kernels.astype(np.asarray(array), dtype=dtype)
        key = [rng.choice((slice(n), slice(None, None, 2), slice(None, n - 1 if n else None, -1))) for n in shape]
        axes = rng.sample(range(len(shape)), len(shape)) if rng.random() < 0.4 else range(len(shape))
        if rng.random() < 0.5 and len(shape) > 1:  # the same elements, with other axes next to each other
            back = sorted(range(len(shape)), key=list(axes).__getitem__)
            x = kernels.permute_dims(kernels.copy(kernels.permute_dims(x, axes=tuple(axes))), axes=tuple(back))
        x = x[(*key, ...)]
        if rng.random() < 0.4:
            x = kernels.copy(x)
        if rng.random() < 0.15 and shape and shape[-1]:
            x = kernels.broadcast_to(x[..., :1], shape=shape)
        assert x.shape == shape, (x.shape, shape)
        found.append(x)
    return found
