"""Rows and columns of matrices: softmaxes, cross-entropy, normalisation, their gradients; sums and their like."""

from __future__ import annotations

import math
from typing import Any, Final

from micrograd_core.layout import Shape, reduced_shape
from micrograd_cuda import geometry
from micrograd_cuda.geometry import Channels
from micrograd_cuda.operands import Kernels, element, is_number, name_of, of_elements, place, planned_of_elements
from micrograd_cuda.plans import planned
from micrograd_cuda.units import ELEMENT, GELU, INDEX, OWN, RESULT, variant

IGNORED: Final = -100  # the class number that a loss leaves out unless told otherwise

# ── sums, products, extremes ─────────────────────────────────────────────────────────────────────────────────

MANY: Final = 128
"""Columns of which a block of threads has something to do, all of its own or most."""
SMALL: Final = 2**16
"""Elements of a matrix that costs a launch rather than time."""
FEW: Final = 256
"""Rows of which there are no partial sums."""
MERGED: Final = 1024
"""Threads of the block that merges what others have found."""
FUNCTORS: Final = {"sum": "Sum", "mean": "Sum", "prod": "Product", "max": "Max", "min": "Min"}
"""Operation to what kernels do with two elements."""


class Reductions(Kernels):
    """Leading axes (as in the gradient of a bias) by columns, planes as they lie, others by rows: these come last."""

    @planned
    def reduced(self, name: str, x: Any, axis: Shape | None, keepdims: bool, dtype: Any = None) -> Any:
        """As the standard's function; a result has the dtype of the operand, unless columns are to have another."""
        axes, functor = tuple(range(len(x.shape))) if axis is None else axis, FUNCTORS[name]
        if not axes:
            return x.copy()
        if name_of(x.dtype) not in ELEMENT or not x.size:
            options = {"dtype": x.dtype} if name in ("sum", "prod") else {}  # else small integers grow
            if name == "prod" and name_of(x.dtype) == "complex64":
                options["dtype"] = self.xp.complex128  # parts of a long product overflow where all of it does not
            return getattr(self.xp, name)(x, axis=axis, keepdims=keepdims, **options).astype(x.dtype, copy=False)
        length = math.prod(x.shape[each] for each in axes)
        divisor = float(length) if name == "mean" else 1.0
        of = geometry.channels(x.shape, tuple(sorted(axes))) if x.flags.c_contiguous else None
        if of is not None and (of.planes or of.run == 1):
            out = self.channels(x, of, dtype or x.dtype, functor, divisor)
        else:
            out = self.rows(self.last(x, axes), x.size // length, length, dtype or x.dtype, functor, divisor)
        return out.reshape(reduced_shape(x.shape, axis, keepdims))

    def channels(self, x: Any, of: Channels, dtype: Any, functor: str = "Sum", divisor: float = 1.0, *,
                 whole: bool = False) -> Any:  # fmt: skip
        """Of columns or planes, in one launch or two; with `whole` in one, for some hundred rows."""
        facts = (of.rows, MERGED) if whole else (FEW,)
        launch = geometry.channel_launch(of, x.dtype.itemsize, self.alignment(x), *facts)
        several = launch.parts > 1
        found = self.runtime.empty((launch.parts, of.number), self.wide(dtype) if several else dtype)
        own = functor, element(x), element(found), str(of.planes).lower(), str(launch.block)
        self.run("reduce_channels", launch, own, found, x, 1.0 if several else divisor, *launch.numbers)
        return self.merged(found, dtype, functor, divisor)

    def merged(self, found: Any, dtype: Any, functor: str = "Sum", divisor: float = 1.0) -> Any:
        """Partial results, (parts, channels), as one."""
        if len(found) == 1:
            return found[0]
        return self.channels(found, Channels(False, len(found), found.shape[1], 1), dtype, functor, divisor, whole=True)

    def relu_gradient(self, g: Any, out: Any) -> Any:
        """The gradient of relu."""
        return self.gradient("relu_gradient", g, out)

    def gelu_gradient(self, g: Any, x: Any, *, approximate: str) -> Any:
        """Exact, or with ``tanh``."""
        return self.gradient(f"{GELU[approximate]}_gradient", g, x)

    def gradient(self, name: str, g: Any, x: Any) -> Any:
        """That of an activation; columns of matrices are added up on the way, for the bias that comes next.

        But where a matrix is large and so narrow that most threads of a block of columns would have none.
        """
        shape: Shape = getattr(x, "shape", ())
        fits = 1 < len(shape) < 4 and shape == getattr(g, "shape", ()) and (shape[-1] >= MANY or x.size <= SMALL)
        flat = fits and x.size and g.flags.c_contiguous and x.flags.c_contiguous
        if not flat or g.dtype != x.dtype or name_of(g.dtype) not in ELEMENT:
            return self.before[name](g, x)
        kept, sums = self._gradient_columns(name, g, x)
        dtype, axes = kept.dtype, tuple(range(len(shape) - 1))  # what is remembered must not keep the array itself
        self.runtime.remembered.keep((kept,), (axes, dtype), lambda: self.merged(sums, dtype), made=True)
        return kept

    @planned
    def _gradient_columns(self, name: str, g: Any, x: Any) -> tuple[Any, Any]:
        """The gradient, and sums of its columns, as many as there are bands of rows."""
        empty, dtype, start, columns = self.runtime.empty, g.dtype, self.alignment(g, x), g.shape[-1]
        launch = geometry.channel_launch(Channels(False, g.size // columns, columns, 1), dtype.itemsize, start, FEW)
        total = self.wide(dtype) if launch.parts > 1 else dtype
        kept, to = empty(g.shape, dtype), empty((launch.parts, columns), total)
        own = variant(OWN[name], name_of(dtype)), element(g), element(to)
        self.run("gradient_columns", launch, own, to, kept, g, x, *launch.numbers)
        return kept, to

    def rows(self, x: Any, rows: int, columns: int, dtype: Any, functor: str, divisor: float, *,
             whole: bool = False) -> Any:  # fmt: skip
        """Of the rows of a (rows, columns) matrix, in one launch or two; with `whole` in one."""
        launch = geometry.piece_launch(rows, columns, x.dtype.itemsize, self.alignment(x), whole=whole)
        several = launch.parts > 1
        found = self.runtime.empty((rows, launch.parts), self.wide(dtype) if several else dtype)
        numbers = 1.0 if several else divisor, rows, columns, launch.piece
        self.run("reduce_rows", launch, (functor, element(x), element(found)), found, x, *numbers)
        return self.rows(found, rows, launch.parts, dtype, functor, divisor, whole=True) if several else found


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────

MOST_PARTS: Final = 4096  # that one block adds up


def softmaxes(family: str) -> tuple[Any, Any]:
    """One read, one write; and the gradient by the result: two reads, one write."""

    @planned_of_elements
    def kernel(self: Rows, x: Any, *, axis: int) -> Any:
        return self._along(family, (x,), (axis,))

    @planned_of_elements
    def gradient(self: Rows, g: Any, out: Any, *, axis: int) -> Any:
        return self._along(f"{family}_gradient", (g, out), (axis,))

    return kernel, gradient


def norm(centered: str) -> Any:
    """One read, one write, weight and bias on the way."""

    @planned_of_elements
    def kernel(self: Rows, x: Any, weight: Any = 1.0, bias: Any = 0.0, *, axis: Shape, eps: float,
               dtype: Any = None) -> Any:  # fmt: skip
        if any(len(getattr(each, "shape", ())) > len(axis) for each in (weight, bias)):
            return NotImplemented  # rows have weights of their own
        shape = tuple([x.shape[each] for each in axis])  # null pointers change nothing
        given = [self.neutral_or_array(y, neutral, shape, x.dtype) for y, neutral in ((weight, 1), (bias, 0))]
        kinds = element(given[0] if given[0].__class__ is not int else x), ELEMENT[name_of(dtype or x.dtype)]
        return self._along("norm", (x,), axis, (*given, eps), *kinds, centered, dtype=dtype)

    return kernel


def norm_gradient(centered: str) -> Any:
    """Two reads, one write. What the gradients of weight and bias are made of is found on the way.

    With `added`, which is added to it, or as `half` also in that dtype, of last axes; then also sums of its columns.
    """

    @of_elements
    def kernel(self: Rows, g: Any, x: Any, weight: Any = 1.0, added: Any = None, *, axis: Shape, eps: float,
               dtype: Any = None, half: Any = None) -> Any:  # fmt: skip
        if len(getattr(weight, "shape", ())) > len(axis):
            return NotImplemented  # rows have weights of their own
        if not x.size:
            return x.copy()
        facts, keep, weights = (centered, axis, eps), self.runtime.remembered.keep, not is_number(weight)
        out, halves, sums = self._gradients(*facts, g, x, weight, added, dtype or x.dtype, half, weights)
        if weights:
            keep((g, x), facts, sums, made=False)
        if halves is not None:
            keep((out,), ("astype", halves.dtype), halves, made=True)
        if added is not None or halves is not None:
            own, shape = out if halves is None else halves, tuple([x.shape[each] for each in axis])
            axes, to = tuple(range(len(x.shape) - len(axis))), own.dtype
            keep((own,), (axes, to), lambda: self._summed(sums[-1:], shape, to)[0], made=True)
        return out

    return kernel


def norm_weight_gradient(centered: str) -> Any:
    """Two reads, or none after the gradient of the input; the gradient of a bias is found on the way."""

    @of_elements
    def kernel(self: Rows, g: Any, x: Any, *, axis: Shape, eps: float, dtype: Any = None) -> Any:
        shape, remembered, to = tuple([x.shape[each] for each in axis]), self.runtime.remembered, dtype or x.dtype
        if not x.size:
            return self.xp.zeros(shape, dtype=to)
        others = tuple([each for each in range(len(x.shape)) if each not in axis])
        sums = remembered.take((g, x), (centered, axis, eps))
        if sums is None:
            _, _, sums = self._gradients(centered, axis, eps, g, x)
        found = self._summed(sums[: 1 + (centered == "true")], shape, to)
        if others and centered == "true":
            bias = found[1].reshape(math.prod(shape))
            remembered.keep((g,), (others, bias.dtype), lambda: bias, made=False)
        return found[0]

    return kernel


class Rows(Reductions):
    """Functions along one axis, or several: as rows of a contiguous matrix. Other orders of axes cost a copy."""

    def _back(self, out: Any, axes: Shape) -> Any:
        """A view with the last axes at `axes`."""
        order, plain = geometry.axes_last(len(out.shape), axes), tuple(range(len(out.shape)))
        return out if order == plain else out.transpose(tuple(sorted(plain, key=order.__getitem__)))

    def _run(self, family: str, out: Any, operands: tuple[Any, ...], columns: int, resident: int = 1,
             *arguments: str) -> Any:  # fmt: skip
        """Launch a kernel of ``rows.cuh``: `out`, operands, then rows and columns.

        Of the operands those of the size of the first, `resident` many, are kept in registers. Norms do not peel: their
        weights would lie between packs. Nor does attention, which reads rows up to the diagonal.
        """
        first, peel = operands[0], not family.startswith(("norm", "attention"))
        rows = first.size // columns
        start = self.alignment(*(each for each in operands if hasattr(each, "shape")), out)
        launch = geometry.row_launch(rows, columns, name_of(first.dtype), resident, start, peel=peel)
        self.run(family, launch, (element(first), *arguments), out, *operands, rows, columns)
        return out

    def _along(
        self, family: str, operands: tuple[Any, ...], axes: Shape, more: tuple[Any, ...] = (), *arguments: str,
        dtype: Any = None,
    ) -> Any:  # fmt: skip
        """An operation whose result has the shape of its operands, and the dtype of the first or another."""
        first = operands[0]
        if not first.size:
            return first.copy()
        lasts = tuple(self.last(each, axes) for each in operands)
        out = self.runtime.empty(lasts[0].shape, dtype or first.dtype)
        columns = math.prod(first.shape[each] for each in axes)
        self._run(family, out, (*lasts, *more), columns, len(operands), *arguments)
        return self._back(out, axes)

    softmax, softmax_gradient = softmaxes("softmax")
    log_softmax, log_softmax_gradient = softmaxes("log_softmax")

    @planned_of_elements
    def logsumexp(self, x: Any, *, axis: Shape | None, keepdims: bool) -> Any:
        """One read; over all axes in the order of memory."""
        axes = tuple(range(len(x.shape))) if axis is None else axis
        shape, columns = reduced_shape(x.shape, axis, keepdims), math.prod(x.shape[each] for each in axes)
        out = self.runtime.empty(shape, x.dtype)
        return self._run("logsumexp", out, (self.last(x, axes),), columns) if out.size else out

    # attention

    @planned_of_elements
    def attention_weights(self, scores: Any, mask: Any = 0.0, *, is_causal: bool) -> Any:
        """One read, one write; causal rows are read up to the diagonal. ``NotImplemented`` for other masks."""
        masked, dtype, shape = hasattr(mask, "shape"), scores.dtype, scores.shape
        if masked and mask.dtype != dtype and name_of(mask.dtype) != "bool":
            return NotImplemented
        if not scores.size:
            return scores.copy()
        x, columns, runtime = self.contiguous(scores), shape[-1], self.runtime
        rows, out = x.size // columns, runtime.empty(shape, dtype)
        launch = geometry.row_launch(rows, columns, name_of(dtype), 1, self.alignment(x))
        kind, read, facts = RESULT[name_of(mask.dtype if masked else dtype)], 0, [1, 1, 0, 0, 0]
        if masked:
            mask, facts, read = self._mask(mask, shape, launch.pack)
        where, targets = runtime.struct(facts, "Long"), shape[-2] if is_causal else 0
        values = out, x, mask if masked else 0, where, targets, rows, columns
        self.run("attention_weights", launch, (element(x), kind, str(read)), *values)
        return out

    def _mask(self, mask: Any, shape: Shape, pack: int) -> tuple[Any, list[int], int]:
        """A mask with neighbours next to each other along rows; MaskRows; how many elements are read at once."""
        xp, runtime, itemsize, columns = self.xp, self.runtime, mask.dtype.itemsize, shape[-1]
        mask = xp.broadcast_to(mask, (*mask.shape[:-1], columns))
        if columns > 1 and mask.strides[-1] != itemsize:
            mask = self.contiguous(mask)
        own = geometry.broadcast_strides(place(runtime, mask), shape)
        lengths, (steps,) = geometry.collapse(shape[:-1], (own[:-1],))
        if len(lengths) > 3:
            return self._mask(self.contiguous(xp.broadcast_to(mask, shape)), shape, pack)
        lengths, steps = (*lengths, 1, 1)[:3], (*steps, 0, 0)[:3]
        whole = pack * itemsize
        fits = whole >= 4 and not runtime.address(mask) % whole and not any(step % pack for step in steps)
        return mask, [*lengths[1:], *steps], pack if fits else 1

    @planned_of_elements
    def attention_weights_gradient(self, g: Any, out: Any, *, is_causal: bool) -> Any:
        """Two reads, one write; the same."""
        last_axis, targets = (len(out.shape) - 1,), out.shape[-2] if is_causal else 0
        return self._along("attention_weights_gradient", (g, out), last_axis, (targets,))

    # cross-entropy

    def _classes(self, x: Any, targets: Any) -> tuple[Any, Any, str]:
        """Logits as rows of classes, class numbers to match, and the type of those."""
        return self.last(x, (1 if len(x.shape) > 1 else 0,)), self.contiguous(targets), INDEX[name_of(targets.dtype)]

    @planned
    def _losses(self, x: Any, targets: Any, ignored: int, reduction: str, to: Any) -> tuple[Any, Any]:
        """The losses, their sum or their mean, in one launch, and what the gradient needs of the rows."""
        (rows, numbers, index), mean = self._classes(x, targets), reduction == "mean"
        dtype, columns, runtime = rows.dtype, rows.shape[-1], self.runtime
        losses = runtime.empty(targets.shape, to) if reduction == "none" else 0
        count, total = rows.size // columns, self.wide(dtype)
        launch = geometry.row_launch(count, columns, name_of(dtype), 1, self.alignment(rows), peel=True, largest=512)
        grid = min(launch.grid[0], MOST_PARTS), 1
        out, partial = runtime.empty((), to), runtime.empty((2 * grid[0],), total)
        statistics = runtime.empty((2 * count + 1,), total)
        values = out, losses, statistics, partial, runtime.counter(), rows, numbers, ignored, int(mean), count, columns
        self.run("cross_entropy", launch._replace(grid=grid), (element(rows), index, element(out)), *values)
        return losses if reduction == "none" else out, statistics

    @of_elements
    def cross_entropy(self, x: Any, targets: Any, weight: Any = 1.0, *, ignore_index: int = IGNORED,
                      label_smoothing: float = 0.0, reduction: str, dtype: Any = None) -> Any:  # fmt: skip
        """Plain class indices: one read. ``NotImplemented`` for what has to be composed."""
        if not is_number(weight) or weight != 1 or label_smoothing or name_of(targets.dtype) not in INDEX or not x.size:
            return NotImplemented
        out, statistics = self._losses(x, targets, ignore_index, reduction, dtype or x.dtype)
        self.runtime.remembered.keep((x, targets), ignore_index, statistics, made=False)
        return out

    @of_elements
    def cross_entropy_gradient(self, g: Any, x: Any, targets: Any, weight: Any = 1.0, *, ignore_index: int = IGNORED,
                               label_smoothing: float = 0.0, reduction: str, dtype: Any = None) -> Any:  # fmt: skip
        """One read, one write, the first time after `cross_entropy`; else a read more. ``NotImplemented`` as above."""
        if not is_number(weight) or weight != 1 or label_smoothing or name_of(targets.dtype) not in INDEX or not x.size:
            return NotImplemented
        mean, statistics = reduction == "mean", self.runtime.remembered.take((x, targets), ignore_index)
        if statistics is None:
            _, statistics = self._losses(x, targets, ignore_index, "mean" if mean else "sum", x.dtype)
        return self._losses_gradient(g, x, targets, statistics, ignore_index, mean, dtype or x.dtype)

    @planned
    def _losses_gradient(self, g: Any, x: Any, targets: Any, statistics: Any, ignored: int, mean: bool,
                         to: Any) -> Any:  # fmt: skip
        rows, numbers, index = self._classes(x, targets)
        columns, g, out = rows.shape[-1], self.contiguous(g), self.runtime.empty(rows.shape, to)
        count, own = rows.size // columns, (element(rows), index, element(g), element(out))
        start = self.alignment(rows, out)
        launch = geometry.row_launch(count, columns, name_of(x.dtype), 1, start, peel=True, largest=512)
        values = out, g, statistics, rows, numbers, int(g.size > 1), int(mean), ignored, count, columns
        self.run("cross_entropy_gradient", launch, own, *values)
        return self._back(out, (1 if len(x.shape) > 1 else 0,))

    # normalisation: layers are centered, root mean squares are not

    layer_norm = standardize = norm("true")
    rms_norm = norm("false")
    standardize_gradient = norm_gradient("true")
    rms_norm_gradient = norm_gradient("false")
    layer_norm_weight_gradient = norm_weight_gradient("true")
    rms_norm_weight_gradient = norm_weight_gradient("false")

    @planned
    def _gradients(self, centered: str, axis: Shape, eps: float, g: Any, x: Any, weight: Any = 1.0, added: Any = None,
                   dtype: Any = None, half: Any = None, weights: bool = True) -> tuple[Any, Any, Any]:  # fmt: skip
        """The gradient of the input, unless no dtype is told; as `half`; and of each block the sums of some rows.

        Those for `weights` are two where there is a bias, as what is centered has. With `added` or `half` the last are
        those of the gradient.
        """
        shape, dtypes = tuple([x.shape[each] for each in axis]), (dtype, half)
        g, rows, columns = self.last(g, axis), self.last(x, axis), math.prod(shape)
        weight, added = self.neutral_or_array(weight, 1, shape, x.dtype), 0 if added is None else self.contiguous(added)
        out, halves = (0 if to is None else self.runtime.empty(rows.shape, to) for to in dtypes)
        given = x.size // columns, columns, name_of(x.dtype)
        kinds = [element(y if y.__class__ is not int else x) for y in (x, g, weight, out, halves)]
        start = self.alignment(rows, *(y for y in (g, weight, added, out, halves) if y.__class__ is not int))
        sums, more = weights * (1 + (centered == "true")), added.__class__ is not int or half is not None
        count = sums + more
        launch = geometry.row_sums_launch(*given, start, sums, more) if count else geometry.row_launch(*given, 2, start)
        partial = self.runtime.empty((count, launch.grid[0], columns), self.wide(x.dtype)) if count else 0
        own = *kinds, centered, str(weights).lower(), str(more).lower()
        self.run("norm_gradients", launch, own, out, halves, partial, g, rows, weight, added, eps, *given[:2])
        out, halves = (None if y.__class__ is int else self._back(y, axis) for y in (out, halves))
        return out, halves, partial

    @planned
    def _summed(self, partial: Any, shape: Shape, dtype: Any) -> Any:
        of = Channels(False, partial.shape[1], partial.shape[2], len(partial))
        return self.channels(partial, of, dtype, whole=True).reshape(-1, *shape)
