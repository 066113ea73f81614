"""The kernel table: own kernels for floating-point tensors, cuBLAS for products, the array namespace for the rest.

Everything is written over a namespace `xp` and a `Runtime`: on a GPU that is CuPy; the tests run the same code with
NumPy and the sources compiled for the host.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from functools import lru_cache
from operator import is_
from typing import Any, Final
from weakref import ref

from micrograd_core.layout import Layout, Shape, broadcast_shapes
from micrograd_cuda import gemm, geometry
from micrograd_cuda.channels import Norms
from micrograd_cuda.convolution import Convolution
from micrograd_cuda.geometry import BLOCK, Place
from micrograd_cuda.indexing import Indexing
from micrograd_cuda.operands import Kernel, contiguous, copied, is_number, name_of, place
from micrograd_cuda.plans import Watched, planned
from micrograd_cuda.pooling import Pooling
from micrograd_cuda.random import Random
from micrograd_cuda.rows import ROW_OPERATIONS, Reductions, Rows
from micrograd_cuda.runtime import Runtime
from micrograd_cuda.units import ELEMENT, RESULT, Unit

UNARY: Final = {
    "negative": "Negative", "square": "Square", "exp": "Exp", "expm1": "Expm1", "log": "Log", "log1p": "Log1p",
    "sqrt": "Sqrt", "erf": "Erf", "erfc": "Erfc", "sin": "Sin", "cos": "Cos", "tanh": "Tanh", "sigmoid": "Sigmoid",
    "relu": "Relu", "silu": "Silu", "abs": "Abs", "sign": "Sign", "reciprocal": "Reciprocal", "floor": "Floor",
    "ceil": "Ceil", "trunc": "Trunc", "round": "Round", "log2": "Log2", "log10": "Log10", "tan": "Tan", "asin": "Asin",
    "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh",
    "atanh": "Atanh",
}  # fmt: skip
BINARY: Final = {
    "add": "Add", "subtract": "Subtract", "multiply": "Multiply", "divide": "Divide", "remainder": "Remainder",
    "floor_divide": "FloorDivide", "maximum": "Maximum", "minimum": "Minimum", "relu_gradient": "ReluGradient",
    "silu_gradient": "SiluGradient", "hypot": "Hypot", "atan2": "Atan2", "copysign": "Copysign",
    "logaddexp": "Logaddexp", "nextafter": "Nextafter",
}  # fmt: skip
PREDICATES: Final = {
    "isnan": "IsNan", "isinf": "IsInf", "isfinite": "IsFinite", "signbit": "SignBit", "logical_not": "Not",
}  # fmt: skip
RELATIONS: Final = {
    "less": "Less", "less_equal": "LessEqual", "greater": "Greater", "greater_equal": "GreaterEqual",
    "equal": "Equal", "not_equal": "NotEqual", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor",
}  # fmt: skip
"""Operation to its functor in ``elementwise.cuh``; predicates and relations give bools."""

OF_HALVES: Final = {"Gelu": "GeluOfHalves", "GeluGradient": "GeluGradientOfHalves"}
"""Functors for which float16 and bfloat16 have cheaper ones, with as many digits as they need."""

MOST_CACHED: Final = 8192  # launches kept by shape; beyond that the cache starts anew


def table(
    xp: Any, runtime: Runtime, precision: Callable[[], str] = lambda: "highest", *, atomic: bool = False
) -> dict[str, Kernel]:
    """The kernels by operation.

    `precision` says in what float32 products are computed, at each call; `atomic`, whether rows that indices name are
    added in the order in which threads arrive. Whoever writes in place has what is `remembered` forgotten.
    """
    elementwise, reductions = Elementwise(xp, runtime), Reductions(xp, runtime)
    rows, multiply_matrices = Rows(xp, runtime, reductions), Matmul(xp, runtime, precision)
    otherwise = {name: getattr(xp, name, _refused) for name in (*UNARY, *BINARY, *PREDICATES, *RELATIONS)}
    otherwise |= {"log": infinite(xp, xp.log), "log1p": infinite(xp, xp.log1p), "tanh": _refused}
    otherwise |= {"acosh": acosh(xp), **fresh(xp)}
    found: dict[str, Kernel] = {name: elementwise.unary(functor, otherwise[name]) for name, functor in UNARY.items()}
    found |= {name: elementwise.binary(functor, otherwise[name]) for name, functor in BINARY.items()}
    truth = xp.empty(0, dtype=xp.bool).dtype
    found |= {name: elementwise.unary(functor, otherwise[name], truth) for name, functor in PREDICATES.items()}
    found |= {name: elementwise.binary(functor, otherwise[name], truth) for name, functor in RELATIONS.items()}
    found["nextafter"] = single_and_double(found["nextafter"])
    found["pow"], found["astype"] = elementwise.power(), elementwise.astype()
    gelus = {"none": elementwise.unary("Gelu"), "tanh": elementwise.unary("GeluTanh")}
    slopes = {"none": elementwise.binary("GeluGradient"), "tanh": elementwise.binary("GeluTanhGradient")}
    found["gelu"] = lambda x, *, approximate: gelus[approximate](x)
    found["gelu_gradient"] = lambda g, x, *, approximate: slopes[approximate](g, x)
    found["matmul"], found["linear"] = multiply_matrices, Linear(multiply_matrices, found["add"])
    found["linear_relu"] = LinearRelu(multiply_matrices, elementwise.binary("AddRelu"))
    found["relu_gradient"] = reductions.relu_gradient(found["relu_gradient"])
    found["relu_gradient_sum"] = reductions.relu_gradient_sum
    double = xp.empty(0, dtype=xp.float64).dtype
    found |= {name: in_double(getattr(xp, name), found["astype"], double) for name in IN_DOUBLE}
    found |= {name: of_truths(getattr(xp, name), found["not_equal"]) for name in ("any", "all", "count_nonzero")}
    found["complex"] = complex_(xp)
    copy = found["copy"] = found["positive"] = elementwise.unary("Copy", lambda x: x.copy())
    # Methods, without what the namespace's functions of these names add to each call.
    found["reshape"], found["permute_dims"] = reshape(copy), lambda x, *, axes: x.transpose(axes)
    found |= {"real": lambda x: x.real.copy(), "imag": lambda x: x.imag.copy()}  # where the namespace gives views
    found |= {name: getattr(rows, name) for name in ROW_OPERATIONS}
    norms, indexing = Norms(xp, runtime, reductions, rows, found), Indexing(xp, runtime, atomic)
    convolution = Convolution(xp, runtime, multiply_matrices, found["add"], precision)
    found |= norms.table() | Random(xp, runtime).table() | indexing.table() | convolution.table()
    pooling = Pooling(runtime, found["patches_gradient"])
    found |= pooling.table()
    found |= {"sgd_step": Updates(xp, runtime).sgd, "adam_step": Updates(xp, runtime).adam}
    owners = reductions, rows, multiply_matrices, norms, indexing, convolution, pooling
    runtime.owners = {type(each): each for each in (*owners, found["linear"], found["linear_relu"])}
    if runtime.plans is not None:
        runtime.plans.precision = precision
        runtime.plans.kernels = lambda recorder: table(Watched(xp, recorder), recorder, precision, atomic=atomic)
    return found


# ── elementwise ──────────────────────────────────────────────────────────────────────────────────────────────


def _refused(*operands: Any) -> Any:
    """Neither an own kernel nor a function of the namespace: left to the op table's composition."""
    return NotImplemented


class Elementwise:
    """Functions of one or two operands. What is launched depends on dtype, shapes and strides only, and is kept."""

    def __init__(self, xp: Any, runtime: Runtime) -> None:
        self.xp, self.runtime = xp, runtime
        self._kept: dict[Any, Any] = {}

    def _launch(
        self, key: Any, functor: str, dtype: str, scalar: str, places: tuple[Place | None, ...], result: str = ""
    ) -> Any:
        """(function, grid, shape of the result, struct); the function is ``None`` for an empty result."""
        functor = OF_HALVES.get(functor, functor) if dtype in ("float16", "bfloat16") else functor
        found = geometry.elementwise(functor, dtype, scalar, places, result)
        if found is None:
            return None
        walk = found.walk
        launch = self.runtime.bind(found.unit) if walk.packs else None
        made = launch, found.grid, found.shape, self.runtime.struct(walk.numbers, walk.counter)
        if len(self._kept) >= MOST_CACHED:
            self._kept.clear()
        self._kept[key] = made
        return made

    def unary(self, functor: str, otherwise: Kernel = _refused, result: Any = None) -> Kernel:
        """The kernel of a functor; `otherwise` is what to call where it does not apply, `result` another dtype."""
        kept, runtime, name = self._kept, self.runtime, "" if result is None else name_of(result)
        empty, address = runtime.empty, runtime.address

        def kernel(x: Any) -> Any:
            dtype = x.dtype
            key = functor, dtype, x.shape, x.strides, address(x) % 16
            made = kept.get(key)
            if made is None:
                if name_of(dtype) in ELEMENT:
                    made = self._launch(key, functor, name_of(dtype), "", (place(runtime, x),), name)
                if made is None:
                    return otherwise(x)
            launch, grid, shape, struct = made
            out = empty(shape, result or dtype)
            if launch is not None:
                launch(grid, (out, x, struct))
            return out

        return kernel

    def binary(self, functor: str, otherwise: Kernel = _refused, result: Any = None) -> Kernel:
        """The same of two operands, of which one may be a Python number."""
        kept, runtime, name = self._kept, self.runtime, "" if result is None else name_of(result)
        empty, address = runtime.empty, runtime.address

        def kernel(x: Any, y: Any, out: Any = None) -> Any:
            number = 0.0
            if is_number(y):
                dtype, scalar, number = x.dtype, "SECOND", float(y)
                key: Any = functor, scalar, dtype, x.shape, x.strides, address(x) % 16
            elif is_number(x):
                dtype, scalar, number = y.dtype, "FIRST", float(x)
                key = functor, scalar, dtype, y.shape, y.strides, address(y) % 16
            else:
                dtype, scalar = getattr(x, "dtype", None), "NEITHER"
                if dtype is None or getattr(y, "dtype", None) != dtype:
                    return otherwise(x, y)
                key = functor, dtype, x.shape, x.strides, address(x) % 16, y.shape, y.strides, address(y) % 16
            made = kept.get(key)
            if made is None:
                if name_of(dtype) in ELEMENT:
                    places = tuple(None if is_number(each) else place(runtime, each) for each in (x, y))
                    made = self._launch(key, functor, name_of(dtype), scalar, places, name)
                if made is None:
                    return otherwise(x, y)
            launch, grid, shape, struct = made
            if out is None:
                out = empty(shape, result or dtype)
            if launch is not None:
                launch(grid, (out, 0 if scalar == "FIRST" else x, 0 if scalar == "SECOND" else y, number, struct))
            return out

        return kernel

    def astype(self) -> Kernel:
        """Between floats, and to bool; the namespace converts all others, and rounds float64 to halves, once."""
        kept, runtime, xp = self._kept, self.runtime, self.xp

        def kernel(x: Any, *, dtype: Any) -> Any:
            key = "Copy", dtype, x.dtype, x.shape, x.strides, runtime.address(x) % 16
            made = kept.get(key)
            if made is None:
                names = name_of(x.dtype), name_of(dtype)
                halved = names[0] == "float64" and names[1] in ("float16", "bfloat16")
                if names[0] in ELEMENT and names[1] in RESULT and not halved:
                    made = self._launch(key, "Copy", names[0], "", (place(runtime, x),), names[1])
                if made is None:
                    return xp.astype(x, dtype)
            launch, grid, shape, struct = made
            out = runtime.empty(shape, dtype)
            if launch is not None:
                launch(grid, (out, x, struct))
            return out

        return kernel

    def power(self) -> Kernel:
        """Squares are common, and a multiplication each."""
        general, square = self.binary("Pow", self.xp.pow), self.unary("Square", self.xp.square)
        return lambda x, n: square(x) if is_number(n) and n == 2 else general(x, n)


IN_DOUBLE: Final = ("argmax", "argmin", "var", "std", "cumulative_sum", "cumulative_prod")
"""Functions that are CuPy's. In float32 it takes what is subnormal for 0."""


def in_double(function: Kernel, astype: Kernel, double: Any) -> Kernel:
    """`function` of narrower floats as of float64, and rounded at the end."""

    def kernel(x: Any, **params: Any) -> Any:
        if name_of(x.dtype) not in ("float16", "bfloat16", "float32"):
            return function(x, **params)
        result = function(astype(x, dtype=double), **params)
        return astype(result, dtype=x.dtype) if result.dtype.kind == "f" else result

    return kernel


def of_truths(function: Kernel, not_equal: Kernel) -> Kernel:
    """A function that asks floats only whether they are 0."""

    def kernel(x: Any, **params: Any) -> Any:
        return function(not_equal(x, 0) if name_of(x.dtype) in ELEMENT else x, **params)

    return kernel


# Of complex numbers CuPy misses some of the standard's special cases.


def complex_(xp: Any) -> Kernel:
    """Part by part: arithmetic would spoil infinities and the sign of zero."""

    def kernel(x: Any, y: Any) -> Any:
        dtype = xp.result_type(*(each.dtype for each in (x, y) if not is_number(each)), xp.complex64)
        out = xp.empty(broadcast_shapes("complex", getattr(x, "shape", ()), getattr(y, "shape", ())), dtype=dtype)
        out.real, out.imag = x, y
        return out

    return kernel


def infinite(xp: Any, logarithm: Kernel) -> Kernel:
    """A logarithm whose real part is infinite where one part of its operand is, even if the other is NaN."""

    def kernel(x: Any) -> Any:
        out = logarithm(x)
        out.real = xp.where(xp.isinf(x.real) | xp.isinf(x.imag), math.inf, out.real)
        return out

    return kernel


def acosh(xp: Any) -> Kernel:
    """The namespace's, but for the angle of 0 + NaN j, which is known."""

    def kernel(x: Any) -> Any:
        out = xp.acosh(x)
        if x.dtype.kind == "c":
            out.imag = xp.where((x.real == 0) & xp.isnan(x.imag), math.pi / 2, out.imag)
        return out

    return kernel


def single_and_double(kernel: Kernel) -> Kernel:
    """Of the others the neighbours are further apart than those in the type that they are computed in."""

    def chosen(x: Any, y: Any) -> Any:
        dtype = y.dtype if is_number(x) else x.dtype
        return kernel(x, y) if name_of(dtype) in ("float32", "float64") else NotImplemented

    return chosen


def fresh(xp: Any) -> dict[str, Kernel]:
    """Roundings of integers, which the namespace may give back as they are."""

    def copied(function: Kernel) -> Kernel:
        return lambda x: xp.asarray(function(x), copy=True)

    return {name: copied(getattr(xp, name)) for name in ("floor", "ceil", "trunc", "round")}


def reshape(copy: Kernel) -> Kernel:
    """A view where strides allow it; else of a copy by an own kernel, not the array library's."""

    @lru_cache(maxsize=4096)
    def takes_a_copy(old: Shape, strides: Shape, new: Shape) -> bool:
        return Layout(old, strides).reshape(new) is None

    def kernel(x: Any, *, shape: Any) -> Any:
        if not x.flags.c_contiguous and takes_a_copy(x.shape, x.strides, shape):
            x = copy(x)
        return x.reshape(shape)

    return kernel


# ── products ─────────────────────────────────────────────────────────────────────────────────────────────────


class Matmul:
    """``x @ y`` through cuBLAS; an operand is copied only where neither of its last two axes has neighbours."""

    def __init__(self, xp: Any, runtime: Runtime, precision: Callable[[], str]) -> None:
        self.xp, self.runtime, self.precision = xp, runtime, precision

    @planned
    def __call__(self, x: Any, y: Any) -> Any:
        """Any shapes that the standard allows."""
        return self.with_bias(x, y, None)[0]

    def with_bias(self, x: Any, y: Any, bias: Any) -> tuple[Any, bool]:
        """The same, and whether `bias`, one number for each column, was added on the way."""
        runtime, dtype, name = self.runtime, x.dtype, name_of(x.dtype)
        call = gemm.product(_place(x), _place(y)) if name in gemm.TYPE else None
        if isinstance(call, int):
            copy = packed(runtime, y if call else x)
            return self.with_bias(x if call else copy, copy if call else y, bias)
        if call is None:
            return self.xp.matmul(x, y).astype(x.dtype, copy=False), False
        if not call.k:
            return self.xp.zeros(call.shape, dtype=dtype), False
        out, compute = runtime.empty(call.shape, dtype), gemm.compute_type(name, self.precision())
        biased = runtime.biased_gemm(call, name, compute) if out.size and bias is not None else None
        if biased is not None and biased(x, y, bias, out):
            return out, True
        runtime.gemm(call, name, compute)(x, y, out)
        return out, False


def packed(runtime: Runtime, x: Any) -> Any:
    """A copy whose matrices follow each other; those that are read transposed stay so, which is a faster copy."""
    turned = len(x.shape) > 1 and abs(x.strides[-1]) > abs(x.strides[-2])
    return copied(runtime, x.swapaxes(-1, -2)).swapaxes(-1, -2) if turned else copied(runtime, x)


def _place(x: Any) -> Place:
    """For cuBLAS, which takes any alignment."""
    itemsize = x.dtype.itemsize
    return Place(x.shape, tuple(stride // itemsize for stride in x.strides), 16)


class Linear:
    """``x @ weight.T + bias``: added by the product itself where it can be, else into its memory by `add`."""

    on_the_way = True

    def __init__(self, matmul: Matmul, add: Kernel) -> None:
        self.runtime, self.matmul, self.add = matmul.runtime, matmul, add

    @planned
    def __call__(self, x: Any, weight: Any, bias: Any) -> Any:
        """Leading axes of `x` are those of the result."""
        rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1]) if len(x.shape) > 2 else x  # one product, not a batch
        fits = self.on_the_way and not is_number(bias) and bias.shape == weight.shape[:1] and bias.dtype == x.dtype
        if fits and len(rows.shape) == 2 and bias.flags.c_contiguous:
            product, added = self.matmul.with_bias(rows, weight.T, bias)
        else:
            product, added = self.matmul(rows, weight.T), False
        if not added and not is_number(bias):
            product = self.add(product, bias, out=product) if name_of(product.dtype) in ELEMENT else product + bias
        elif not added and bias != 0:
            product = self.add(product, bias)
        return product.reshape(*x.shape[:-1], weight.shape[0])


class LinearRelu(Linear):
    """With relu, by `add`: a launch is there anyway, and cuBLASLt's takes NaN for 0."""

    on_the_way = False


# ── optimisers ───────────────────────────────────────────────────────────────────────────────────────────────

MOST_TENSORS: Final = 48  # of a Table in ``optimizer.cuh``: as many as fit a kernel's parameters
PIECE: Final = 256 * 16  # elements per block


def pieces(sizes: list[int]) -> list[int]:
    """Of each tensor the number of its first block, and how many there are."""
    first = [0]
    for size in sizes:
        first.append(first[-1] + geometry.ceil_div(size, PIECE))
    return first


class Addresses:
    """The struct Table of some tensors, as far as it is that of the last step: sizes, and where the states lie.

    States are written in place, and are the same arrays each time; parameters are what the last step gave. An array is
    known by its identity, of which nobody can move the memory; gradients and results are new, and asked.
    """

    def __init__(self, runtime: Runtime, params: list[Any], states: list[list[Any]]) -> None:
        self._runtime, self.count = runtime, len(params)
        sizes = [p.size for p in params]
        first = pieces(sizes)
        self.blocks = first[-1]
        self._others = [x for each in states for x in each][1:]  # with the first, which is not held, this is gone
        self._numbers = array("q", [self.count, *_padded(sizes), *first, *[0] * (MOST_TENSORS - self.count)])
        self._tail = array("q", [])
        for k in range(2):
            self._tail.extend(_padded([*map(runtime.address, states[k])] if k < len(states) else []))
        self._results: list[Any] = []
        self._written = array("q", [])

    def fit(self, states: list[list[Any]]) -> bool:
        """Whether these are the states, of which the first is known."""
        others = [x for each in states for x in each][1:]
        return len(others) == len(self._others) and all(map(is_, others, self._others))

    def table(self, params: list[Any], grads: list[Any], results: list[Any]) -> tuple[Any, list[Any]]:
        """The struct, and what has to be there until it is launched."""
        address, numbers = self._runtime.address, self._numbers[:]
        known = [each() for each in self._results]
        if len(known) == len(params) and all(map(is_, params, known)):
            numbers.extend(self._written)
        else:
            params = [contiguous(p, self._runtime) for p in params]
            numbers.extend(_padded([*map(address, params)]))
        numbers.extend(_padded([*map(address, grads)]))
        written = array("q", _padded([*map(address, results)]))
        numbers.extend(written)
        numbers.extend(self._tail)
        self._results, self._written = [*map(ref, results)], written
        return self._runtime.struct(numbers, "Long"), params


def _padded(numbers: list[int]) -> list[int]:
    """As long as a column of the struct."""
    return numbers + [0] * (MOST_TENSORS - len(numbers))


class Updates:
    """Optimisers' steps, `MOST_TENSORS` tensors in one launch. States are the optimiser's own, and written in place.

    All that may fail, memory above all, comes before the first launch: what raises there has written nothing.
    """

    def __init__(self, xp: Any, runtime: Runtime) -> None:
        self.xp, self.runtime = xp, runtime
        self._kept: dict[int, tuple[Any, Addresses]] = {}  # by the identity of the first state

    def _addresses(self, params: list[Any], states: list[list[Any]]) -> Addresses:
        """Those of the last step, where the states are the same."""
        if not states:
            return Addresses(self.runtime, params, states)
        key = id(states[0][0])
        kept = self._kept.get(key)
        if kept is None or kept[0]() is not states[0][0] or not kept[1].fit(states):
            kept = ref(states[0][0], lambda _: self._kept.pop(key, None)), Addresses(self.runtime, params, states)
            self._kept[key] = kept
        return kept[1]

    def _step(self, family: str, lists: list[list[Any]], hyper: tuple[Any, ...]) -> list[Any]:
        """The new parameters, from lists of parameters, gradients and states."""
        params, grads, *states = lists
        grads = [contiguous(g, self.runtime) for g in grads]
        results = [self.runtime.empty(p.shape, p.dtype) for p in params]
        dtype = results[0].dtype
        element = ELEMENT[name_of(dtype)]
        launch = self.runtime.bind(Unit(family, (element, str(16 // dtype.itemsize)), BLOCK, element))
        launches = []
        for start in range(0, len(results), MOST_TENSORS):
            part = slice(start, start + MOST_TENSORS)
            found = self._addresses(params[part], [each[part] for each in states])
            table, held = found.table(params[part], grads[part], results[part])
            if found.blocks:
                launches.append(((found.blocks, 1), (table, *hyper), held))
        for blocks, arguments, _ in launches:
            launch(blocks, arguments)
        return results

    def _states(self, params: list[Any], states: list[Any]) -> tuple[list[Any], bool]:
        """The states, made if there are none yet: then nothing has to be read from them."""
        fresh = states[0] is None
        return ([self.runtime.empty(p.shape, p.dtype) for p in params] if fresh else states), fresh

    def sgd(
        self, params: list[Any], grads: list[Any], velocities: list[Any], *, lr: float, momentum: float,
        dampening: float, weight_decay: float, nesterov: bool,
    ) -> tuple[list[Any], list[Any]]:  # fmt: skip
        """New parameters and velocities."""
        if not momentum:
            hyper = (float(lr), 0.0, 0.0, float(weight_decay), 0, 0)
            return self._step("sgd", [params, grads], hyper), velocities
        velocities, fresh = self._states(params, velocities)
        hyper = (float(lr), float(momentum), float(dampening), float(weight_decay), int(nesterov), int(fresh))
        return self._step("sgd", [params, grads, velocities], hyper), velocities

    def adam(
        self, params: list[Any], grads: list[Any], firsts: list[Any], seconds: list[Any], *, step: float,
        betas: tuple[float, float], eps: float, weight_decay: float, shrink: float,
    ) -> tuple[list[Any], list[Any], list[Any]]:  # fmt: skip
        """New parameters and moments. `step` and `eps` hold the bias corrections."""
        firsts, fresh = self._states(params, firsts)
        seconds, _ = self._states(params, seconds)
        hyper = (float(step), *map(float, betas), float(eps), float(weight_decay), float(shrink), int(fresh))
        return self._step("adam", [params, grads, firsts, seconds], hyper), firsts, seconds
