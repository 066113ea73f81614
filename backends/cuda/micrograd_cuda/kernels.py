"""The kernel table: own kernels for floating-point tensors, cuBLAS for products, the array namespace for the rest.

Everything is written over a namespace `xp` and a `Runtime`: on a GPU that is CuPy; the tests run the same code with
NumPy and the sources compiled for the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from micrograd_core.layout import Shape, reduced_shape
from micrograd_cuda import gemm, geometry
from micrograd_cuda.convolution import Convolution
from micrograd_cuda.geometry import BLOCK, Place
from micrograd_cuda.indexing import Indexing
from micrograd_cuda.operands import Kernel, contiguous, is_number, of_elements, place, wide
from micrograd_cuda.random import Random
from micrograd_cuda.runtime import Runtime
from micrograd_cuda.units import ELEMENT, INDEX, Unit

UNARY: Final = {
    "negative": "Negative", "square": "Square", "exp": "Exp", "expm1": "Expm1", "log": "Log", "log1p": "Log1p",
    "sqrt": "Sqrt", "erf": "Erf", "erfc": "Erfc", "sin": "Sin", "cos": "Cos", "tanh": "Tanh", "sigmoid": "Sigmoid",
    "relu": "Relu", "silu": "Silu",
}  # fmt: skip
BINARY: Final = {
    "add": "Add", "subtract": "Subtract", "multiply": "Multiply", "divide": "Divide", "maximum": "Maximum",
    "minimum": "Minimum", "relu_gradient": "ReluGradient", "silu_gradient": "SiluGradient",
}  # fmt: skip
"""Operation to its functor in ``elementwise.cuh``."""

IGNORED: Final = -100  # the class number that a loss leaves out unless told otherwise
MOST_CACHED: Final = 8192  # launches kept by shape; beyond that the cache starts anew


def table(
    xp: Any, runtime: Runtime, precision: Callable[[], str] = lambda: "highest", *, atomic: bool = False
) -> dict[str, Kernel]:
    """The kernels by operation.

    `precision` says in what float32 products are computed, at each call; `atomic`, whether rows that indices name are
    added in the order in which threads arrive.
    """
    elementwise, rows = Elementwise(xp, runtime), Rows(xp, runtime)
    multiply_matrices = Matmul(xp, runtime, precision)
    sums = Sums(xp, runtime)
    found: dict[str, Kernel] = {name: elementwise.unary(functor, name) for name, functor in UNARY.items()}
    found |= {name: elementwise.binary(functor, name) for name, functor in BINARY.items()}
    found["pow"] = elementwise.power()
    gelus = {"none": elementwise.unary("Gelu", ""), "tanh": elementwise.unary("GeluTanh", "")}
    slopes = {"none": elementwise.binary("GeluGradient", ""), "tanh": elementwise.binary("GeluTanhGradient", "")}
    found["gelu"] = lambda x, *, approximate: gelus[approximate](x)
    found["gelu_gradient"] = lambda g, x, *, approximate: slopes[approximate](g, x)
    found["matmul"], found["linear"] = multiply_matrices, linear(multiply_matrices, found["add"])
    found["sum"], found["mean"] = sums, lambda x, *, axis, keepdims: xp.mean(x, axis=axis, keepdims=keepdims)
    found |= {"real": lambda x: x.real.copy(), "imag": lambda x: x.imag.copy()}  # where the namespace gives views
    found |= {name: of_elements(getattr(rows, name)) for name in ROW_OPERATIONS}
    found |= Random(xp, runtime).table() | Indexing(xp, runtime, atomic).table()
    found |= Convolution(xp, runtime, multiply_matrices, found["add"]).table()
    found |= {"sgd_step": Updates(xp, runtime).sgd, "adam_step": Updates(xp, runtime).adam}
    return found


# ── elementwise ──────────────────────────────────────────────────────────────────────────────────────────────


class Elementwise:
    """Functions of one or two operands. What is launched depends on dtype, shapes and strides only, and is kept."""

    def __init__(self, xp: Any, runtime: Runtime) -> None:
        self.xp, self.runtime = xp, runtime
        self._kept: dict[Any, Any] = {}

    def _launch(self, key: Any, functor: str, dtype: str, scalar: str, places: tuple[Place | None, ...]) -> Any:
        """(function, grid, shape of the result, struct); the function is ``None`` for an empty result."""
        found = geometry.elementwise(functor, dtype, scalar, places)
        if found is None:
            return None
        walk = found.walk
        launch = self.runtime.bind(found.unit) if walk.packs else None
        made = launch, found.grid, found.shape, self.runtime.struct(walk.numbers, walk.counter)
        if len(self._kept) >= MOST_CACHED:
            self._kept.clear()
        self._kept[key] = made
        return made

    def unary(self, functor: str, name: str) -> Kernel:
        """The kernel of a functor; where it does not apply, the namespace's function `name`, or ``NotImplemented``."""
        kept, runtime = self._kept, self.runtime
        empty, address, otherwise = runtime.empty, runtime.address, getattr(self.xp, name, _refused)

        def kernel(x: Any) -> Any:
            dtype = x.dtype
            key = functor, dtype, x.shape, x.strides, address(x) % 16
            made = kept.get(key)
            if made is None:
                if dtype.name in ELEMENT:
                    made = self._launch(key, functor, dtype.name, "", (place(runtime, x),))
                if made is None:
                    return otherwise(x)
            launch, grid, shape, struct = made
            out = empty(shape, dtype)
            if launch is not None:
                launch(grid, (out, x, struct))
            return out

        return kernel

    def binary(self, functor: str, name: str) -> Kernel:
        """The same of two operands, of which one may be a Python number."""
        kept, runtime = self._kept, self.runtime
        empty, address, otherwise = runtime.empty, runtime.address, getattr(self.xp, name, _refused)

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
                if dtype.name in ELEMENT:
                    places = tuple(None if is_number(each) else place(runtime, each) for each in (x, y))
                    made = self._launch(key, functor, dtype.name, scalar, places)
                if made is None:
                    return otherwise(x, y)
            launch, grid, shape, struct = made
            if out is None:
                out = empty(shape, dtype)
            if launch is not None:
                launch(grid, (out, 0 if scalar == "FIRST" else x, 0 if scalar == "SECOND" else y, number, struct))
            return out

        return kernel

    def power(self) -> Kernel:
        """Squares are common, and a multiplication each."""
        general, square = self.binary("Pow", "pow"), self.unary("Square", "square")
        return lambda x, n: square(x) if is_number(n) and n == 2 else general(x, n)


def _refused(*operands: Any) -> Any:
    """Neither an own kernel nor a function of the namespace: left to the op table's composition."""
    return NotImplemented


# ── products ─────────────────────────────────────────────────────────────────────────────────────────────────


class Matmul:
    """``x @ y`` through cuBLAS; an operand is copied only where neither of its last two axes has neighbours."""

    def __init__(self, xp: Any, runtime: Runtime, precision: Callable[[], str]) -> None:
        self.xp, self.runtime, self.precision = xp, runtime, precision

    def __call__(self, x: Any, y: Any) -> Any:
        """Any shapes that the standard allows."""
        runtime, dtype = self.runtime, x.dtype
        if dtype.name not in gemm.TYPE:
            return self.xp.matmul(x, y)
        call = gemm.product(_place(x), _place(y))
        while isinstance(call, int):
            x, y = (each.copy() if i == call else each for i, each in enumerate((x, y)))
            call = gemm.product(_place(x), _place(y))
        if call is None:
            return self.xp.matmul(x, y)
        if 0 in call.shape or call.k == 0:
            return self.xp.zeros(call.shape, dtype=dtype)
        out = runtime.empty(call.shape, dtype)
        runtime.gemm(call, dtype.name, gemm.compute_type(dtype.name, self.precision()), x, y, out)
        return out


def _place(x: Any) -> Place:
    """For cuBLAS, which takes any alignment."""
    itemsize = x.dtype.itemsize
    return Place(x.shape, tuple(stride // itemsize for stride in x.strides), True)


def linear(matmul: Kernel, add: Kernel) -> Kernel:
    """``x @ weight.T + bias``; the bias goes into the memory of the product."""

    def kernel(x: Any, weight: Any, bias: Any) -> Any:
        if len(x.shape) > 2:  # one product, not a batch of them
            product = matmul(x.reshape(math.prod(x.shape[:-1]), x.shape[-1]), weight.T)
        else:
            product = matmul(x, weight.T)
        if not is_number(bias):
            product = add(product, bias, out=product) if product.dtype.name in ELEMENT else product + bias
        elif bias != 0:
            product = add(product, bias)
        return product.reshape(*x.shape[:-1], weight.shape[0])

    return kernel


# ── sums ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Sums:
    """Sums over the leading axes of contiguous arrays (the gradient of a bias) with own kernels; others are CuPy's."""

    def __init__(self, xp: Any, runtime: Runtime) -> None:
        self.xp, self.runtime = xp, runtime

    def __call__(self, x: Any, *, axis: Shape | None, keepdims: bool) -> Any:
        """As the standard's ``sum``."""
        leading = axis is not None and 0 < len(axis) < len(x.shape) and sorted(axis) == list(range(len(axis)))
        if not leading or x.dtype.name not in ELEMENT or 0 in x.shape or not x.flags.c_contiguous:
            return self.xp.sum(x, axis=axis, keepdims=keepdims)
        assert axis is not None
        rows = math.prod(x.shape[: len(axis)])
        out = self.columns("column_sum", (x,), rows, x.size // rows, x.dtype)
        return out.reshape(reduced_shape(x.shape, axis, keepdims))

    def columns(self, family: str, operands: tuple[Any, ...], rows: int, columns: int, dtype: Any) -> Any:
        """Column sums of a (rows, columns) matrix by one of the kernels of ``columns.cuh``."""
        element = ELEMENT[dtype.name]
        launch = geometry.column_launch(rows, columns)
        partial = self.runtime.empty((launch.bands, columns), wide(self.xp, dtype))
        out = self.runtime.empty((columns,), dtype)
        first = Unit(family, (element,), launch.block, element)
        self.runtime.bind(first)(launch.grid, (partial, *operands, rows, columns, launch.band))
        second = Unit("sum_bands", (element,), BLOCK, element)
        self.runtime.bind(second)((geometry.blocks(columns), 1), (out, partial, launch.bands, columns))
        return out


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────

ROW_OPERATIONS: Final = (
    "softmax", "log_softmax", "logsumexp", "softmax_gradient", "cross_entropy", "cross_entropy_gradient",
    "standardize", "standardize_gradient", "layer_norm",
)  # fmt: skip


class Rows:
    """Functions along one axis, or several: as rows of a contiguous matrix. Other orders of axes cost a copy."""

    def __init__(self, xp: Any, runtime: Runtime) -> None:
        self.xp, self.runtime = xp, runtime

    def _last(self, x: Any, axes: Shape) -> Any:
        """`x`, contiguous, with `axes` last; in their order."""
        order = (*(each for each in range(len(x.shape)) if each not in axes), *axes)
        return self.xp.ascontiguousarray(x.transpose(order))

    def _back(self, out: Any, axes: Shape) -> Any:
        """A view with the last axes at `axes`."""
        ndim = len(out.shape)
        order = (*(each for each in range(ndim) if each not in axes), *axes)
        return out.transpose(tuple(sorted(range(ndim), key=order.__getitem__)))

    def _run(
        self, family: str, out: Any, operands: tuple[Any, ...], columns: int, more: tuple[Any, ...] = (),
        *, resident: int = 1, dtype: Any = None, index: str = "",
    ) -> Any:  # fmt: skip
        """Launch a kernel of ``rows.cuh``: `out`, operands, `more`, then rows and columns.

        Of the operands those of the size of the first, `resident` many, are kept in registers.
        """
        dtype = operands[0].dtype if dtype is None else dtype
        rows = operands[0].size // columns
        addresses = [self.runtime.address(each) for each in (out, *operands) if hasattr(each, "shape")]
        aligned = all(address % 16 == 0 for address in addresses)
        launch = geometry.row_launch(rows, columns, dtype.name, resident, aligned)
        run = self.runtime.bind(launch.unit(family, ELEMENT[dtype.name], index))
        run(launch.grid, (out, *operands, *more, rows, columns))
        return out

    def _along(self, family: str, operands: tuple[Any, ...], axes: Shape, more: tuple[Any, ...] = ()) -> Any:
        """An operation whose result has the shape of its operands."""
        first = operands[0]
        if not first.size:
            return first.copy()
        lasts = tuple(self._last(each, axes) for each in operands)
        out = self.runtime.empty(lasts[0].shape, first.dtype)
        columns = math.prod(first.shape[each] for each in axes)
        self._run(family, out, lasts, columns, more, resident=len(operands))
        return self._back(out, axes)

    def softmax(self, x: Any, *, axis: int) -> Any:
        """One read, one write."""
        return self._along("softmax", (x,), (axis,))

    def log_softmax(self, x: Any, *, axis: int) -> Any:
        """One read, one write."""
        return self._along("log_softmax", (x,), (axis,))

    def softmax_gradient(self, g: Any, out: Any, *, axis: int) -> Any:
        """Two reads, one write."""
        return self._along("softmax_gradient", (g, out), (axis,))

    def logsumexp(self, x: Any, *, axis: Shape | None, keepdims: bool) -> Any:
        """One read; over all axes in the order of memory."""
        axes = tuple(range(len(x.shape))) if axis is None else axis
        shape, columns = reduced_shape(x.shape, axis, keepdims), math.prod(x.shape[each] for each in axes)
        out = self.runtime.empty(shape, x.dtype)
        return self._run("logsumexp", out, (self._last(x, axes),), columns) if out.size else out

    # cross-entropy

    def _classes(self, x: Any, targets: Any) -> tuple[Any, Any, str]:
        """Logits as rows of classes, class numbers to match, and the type of those."""
        axis = 1 if len(x.shape) > 1 else 0
        return self._last(x, (axis,)), self.xp.ascontiguousarray(targets), INDEX[targets.dtype.name]

    def _counted(self, targets: Any, ignore_index: int, dtype: Any) -> Any:
        """How many positions take part in a mean; all of them where the dtype cannot hold the number left out."""
        if targets.dtype.kind == "u" and ignore_index < 0:
            return self.xp.full((), targets.size, dtype=dtype)
        return self.xp.sum(self.xp.not_equal(targets, ignore_index).astype(dtype))

    def cross_entropy(self, x: Any, targets: Any, weight: Any = 1.0, *, ignore_index: int = IGNORED,
                      label_smoothing: float = 0.0, reduction: str) -> Any:  # fmt: skip
        """Plain class indices: one read. ``NotImplemented`` for what the op table has to compose."""
        if not is_number(weight) or weight != 1 or label_smoothing or targets.dtype.name not in INDEX or not x.size:
            return NotImplemented
        rows, numbers, index = self._classes(x, targets)
        losses = self.runtime.empty(targets.shape, x.dtype)
        self._run("cross_entropy", losses, (rows, numbers), rows.shape[-1], (ignore_index,), index=index)
        if reduction == "none":
            return losses
        total = self.xp.sum(losses, dtype=wide(self.xp, x.dtype))
        if reduction == "mean":
            total = self.xp.divide(total, self._counted(targets, ignore_index, total.dtype))
        return total.astype(x.dtype)

    def cross_entropy_gradient(self, g: Any, x: Any, targets: Any, weight: Any = 1.0, *, ignore_index: int = IGNORED,
                               label_smoothing: float = 0.0, reduction: str) -> Any:  # fmt: skip
        """One read, one write. ``NotImplemented`` as above."""
        if not is_number(weight) or weight != 1 or label_smoothing or targets.dtype.name not in INDEX or not x.size:
            return NotImplemented
        rows, numbers, index = self._classes(x, targets)
        share = self.xp.ascontiguousarray(g).astype(wide(self.xp, x.dtype))
        if reduction == "mean":  # where nothing counts, nothing moves
            share = self.xp.divide(share, self.xp.maximum(self._counted(targets, ignore_index, share.dtype), 1))
        axis = 1 if len(x.shape) > 1 else 0
        out = self.runtime.empty(rows.shape, x.dtype)
        columns, stride = rows.shape[-1], int(share.size > 1)
        # g comes first in the signature, and the logits decide the dtype and the number of rows
        launch = geometry.row_launch(rows.size // columns, columns, x.dtype.name, 1, self._aligned(out, rows))
        run = self.runtime.bind(launch.unit("cross_entropy_gradient", ELEMENT[x.dtype.name], index))
        run(launch.grid, (out, share, rows, numbers, stride, ignore_index, rows.size // columns, columns))
        return self._back(out, (axis,))

    def _aligned(self, *arrays: Any) -> bool:
        return all(self.runtime.address(each) % 16 == 0 for each in arrays)

    # normalisation

    def standardize(self, x: Any, *, axis: Shape, eps: float) -> Any:
        """One read, one write."""
        return self._along("layer_norm", (x,), axis, (0, 0, eps))

    def standardize_gradient(self, g: Any, x: Any, *, axis: Shape, eps: float) -> Any:
        """Two reads, one write."""
        return self._along("layer_norm_gradient", (g, x), axis, (0, eps))

    def layer_norm(self, x: Any, weight: Any = 1.0, bias: Any = 0.0, *, axis: Shape, eps: float) -> Any:
        """One read, one write, weight and bias on the way. Numbers other than 1 and 0 are spread out first."""
        if not x.size:
            return x.copy()
        shape = tuple(x.shape[each] for each in axis)
        operands = []
        for parameter, neutral in ((weight, 1), (bias, 0)):
            if is_number(parameter):
                spread = self.xp.full(shape, parameter, dtype=x.dtype)
                operands.append(0 if parameter == neutral else spread)
            else:
                operands.append(self.xp.ascontiguousarray(self.xp.broadcast_to(parameter, shape)))
        rows = self._last(x, axis)
        out = self.runtime.empty(rows.shape, x.dtype)
        self._run("layer_norm", out, (rows, *operands), math.prod(shape), (eps,))
        return self._back(out, axis)


# ── optimisers ───────────────────────────────────────────────────────────────────────────────────────────────

MOST_TENSORS: Final = 48  # of a Table in ``optimizer.cuh``: as many as fit a kernel's parameters
PIECE: Final = 256 * 16  # elements per block


def pieces(sizes: list[int]) -> list[int]:
    """Of each tensor the number of its first block, and how many there are."""
    first = [0]
    for size in sizes:
        first.append(first[-1] + geometry.ceil_div(size, PIECE))
    return first


class Updates:
    """Optimisers' steps, `MOST_TENSORS` tensors in one launch. States are the optimiser's own, and written in place."""

    def __init__(self, xp: Any, runtime: Runtime) -> None:
        self.xp, self.runtime = xp, runtime

    def _step(self, family: str, lists: list[list[Any]], hyper: tuple[Any, ...]) -> list[Any]:
        """The new parameters, from lists of parameters, gradients and states."""
        lists = [[contiguous(x) for x in each] for each in lists[:2]] + lists[2:]
        results = [self.runtime.empty(p.shape, p.dtype) for p in lists[0]]
        element = ELEMENT[results[0].dtype.name]
        launch = self.runtime.bind(Unit(family, (element,), BLOCK, element))
        for start in range(0, len(results), MOST_TENSORS):
            part = slice(start, start + MOST_TENSORS)
            first = pieces([p.size for p in results[part]])
            columns = [[p.size for p in results[part]], first]
            addressed = [lists[0], lists[1], results, *lists[2:]]
            columns += [[self.runtime.address(x) for x in each[part]] for each in addressed]
            columns += [[0]] * (7 - len(columns))
            lengths = [MOST_TENSORS, MOST_TENSORS + 1] + [MOST_TENSORS] * 5
            numbers = [len(first) - 1]
            for column, length in zip(columns, lengths, strict=True):
                numbers += column + [0] * (length - len(column))
            if first[-1]:
                launch((first[-1], 1), (self.runtime.struct(numbers, "Long"), *hyper))
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
