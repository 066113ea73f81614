"""Statistics over axes that are not the last ones, as batch norm takes them: of arrays as they lie, not transposed."""

from __future__ import annotations

import math
from typing import Any

from micrograd_core.layout import Shape, reduced_shape
from micrograd_cuda import geometry
from micrograd_cuda.geometry import Channels, Pieces, ceil_div
from micrograd_cuda.operands import Kernel, element, is_number, name_of, of_elements
from micrograd_cuda.plans import planned
from micrograd_cuda.rows import FUNCTORS, MERGED, Reductions
from micrograd_cuda.units import ELEMENT, Unit


class Norms(Reductions):
    """What is of channels here is so; what reduces last axes is of those before."""

    def table(self) -> dict[str, Kernel]:
        """By operation."""
        reductions = {name: self.reduction(name) for name in FUNCTORS}
        return reductions | super().table() | {name: self.variance(name) for name in ("var", "std")}

    # what there is to know of an array

    def _channels(self, x: Any, axes: Shape) -> Channels | None:
        """``None`` for last axes, and for what lies transposed, of which they are the last."""
        turned = not x.flags.c_contiguous and x.transpose(geometry.axes_last(len(x.shape), axes)).flags.c_contiguous
        return None if turned or not x.size else geometry.channels(x.shape, tuple(sorted(axes)))

    def _of_images(self, x: Any) -> tuple[Shape, Channels | None]:
        """All axes but the second, and what is to know of these."""
        axes = (0, *range(2, len(x.shape)))
        return axes, self._channels(x, axes)

    def _launch(self, of: Channels, *arrays: Any) -> Pieces:
        """The launch over arrays that lie alike."""
        return geometry.channel_launch(of, arrays[0].dtype.itemsize, self.alignment(*arrays))

    def _run(self, family: str, of: Channels, launch: Pieces, x: Any, *arguments: Any) -> None:
        self.run(family, launch, (element(x), str(of.planes).lower()), *arguments, *launch.numbers)

    def _moments(self, x: Any, axes: Shape, of: Channels) -> Any:
        """(2, channels): means, and sums of squares of what deviates; kept for whoever asks next."""
        remembered, axes = self.runtime.remembered, tuple(sorted(axes))
        found = remembered.take((x,), ("moments", axes))
        if found is None:
            found = self._taken_moments(x, of)
        remembered.keep((x,), ("moments", axes), found, made=False)
        return found

    @planned
    def _taken_moments(self, x: Any, of: Channels) -> Any:
        given, dtype = self.contiguous(x), self.wide(x.dtype)
        launch = self._launch(of, given)
        partial = self.runtime.empty((launch.parts, 2, of.number), dtype)
        self._run("channel_moments", of, launch, given, partial, given)
        if launch.parts == 1:
            return partial[0]
        found = self.runtime.empty((2, of.number), dtype)
        piece = launch.piece * (launch.pack if of.planes else 1)
        merge = self.runtime.bind(Unit("merge_moments", (ELEMENT[name_of(dtype)],), MERGED))
        merge((ceil_div(of.number, 32), 1), (found, partial, of.length, piece, of.number))
        return found

    def _sums(self, g: Any, x: Any, axes: Shape, of: Channels, eps: float) -> tuple[Any, Any]:
        """Moments of `x`, and (2, channels): sums of `g`, and of `g` times the standardised numbers; also kept."""
        remembered, axes = self.runtime.remembered, tuple(sorted(axes))
        moments, facts = self._moments(x, axes, of), ("sums", axes, eps)
        found = remembered.take((g, x), facts)
        if found is None:
            found, dtype = self._taken_sums(g, x, moments, of, eps), x.dtype
            if g.dtype == dtype:
                remembered.keep((g,), (axes, dtype), lambda: self._narrow(found[0], dtype), made=False)
        remembered.keep((g, x), facts, found, made=False)
        return moments, found

    @planned
    def _taken_sums(self, g: Any, x: Any, moments: Any, of: Channels, eps: float) -> Any:
        cotangent, given, dtype = self.contiguous(g), self.contiguous(x), self.wide(x.dtype)
        launch = self._launch(of, given, cotangent)
        partial = self.runtime.empty((2, launch.parts, of.number), dtype)
        self._run("channel_sums", of, launch, given, partial, cotangent, given, *moments, 1 / of.length, eps)
        if launch.parts > 1:
            partial = self.channels(partial, Channels(False, launch.parts, of.number, 2), dtype, whole=True)
        return partial.reshape(2, of.number)

    def _narrow(self, x: Any, dtype: Any) -> Any:
        return x if x.dtype == dtype else self.before["astype"](x, dtype=dtype)

    def _parameter(self, parameter: Any, neutral: float, count: int, dtype: Any) -> Any:
        """One for each channel; a null pointer for the number that changes nothing."""
        narrow = parameter if is_number(parameter) else self._narrow(parameter, dtype)
        return self.neutral_or_array(narrow, neutral, (count,), dtype)

    # forward

    @planned
    def _norm(self, x: Any, of: Channels, mean: Any, var: Any, eps: float, weight: Any, bias: Any) -> Any:
        """By given statistics, or without `var` by moments."""
        if var is None:
            share, means, squares = 1 / of.length, mean[0], mean[1]
        else:
            share, wide = 1.0, self.wide(x.dtype)
            means, squares = (self._parameter(each, math.nan, of.columns, wide) for each in (mean, var))
        parameters = tuple(self._parameter(*each, of.columns, x.dtype) for each in ((weight, 1), (bias, 0)))
        given, out = self.contiguous(x), self.runtime.empty(x.shape, x.dtype)
        self._run("channel_norm", of, self._launch(of, given), x, out, given, means, squares, *parameters, share, eps)
        return out

    @of_elements
    def standardize(self, x: Any, *, axis: Shape, eps: float, dtype: Any = None) -> Any:
        """Two reads, one write."""
        of = self._channels(x, axis)
        if of is None:
            return self.before["standardize"](x, axis=axis, eps=eps, dtype=dtype)
        return self._norm(x, of, self._moments(x, axis, of), None, eps, 1.0, 0.0)

    @of_elements
    def batch_norm(self, x: Any, mean: Any, var: Any, weight: Any, bias: Any, *, training: bool, eps: float) -> Any:
        """Two reads, one write; of given statistics one."""
        axes, of = self._of_images(x)
        if of is None:
            return NotImplemented
        mean, var = (self._moments(x, axes, of), None) if training else (mean, var)
        return self._norm(x, of, mean, var, eps, weight, bias)

    # gradients

    @planned
    def _gradient(self, g: Any, x: Any, weight: Any, moments: Any, sums: Any, of: Channels, eps: float) -> Any:
        weight = self._parameter(weight, 1, of.columns, x.dtype)
        cotangent, given = self.contiguous(g), self.contiguous(x)
        out = self.runtime.empty(x.shape, x.dtype)
        arguments = out, cotangent, given, *moments, *sums, weight, 1 / of.length, eps
        self._run("channel_norm_gradient", of, self._launch(of, given, cotangent), x, *arguments)
        return out

    @of_elements
    def standardize_gradient(self, g: Any, x: Any, weight: Any = 1.0, added: Any = None, *, axis: Shape, eps: float,
                             dtype: Any = None, half: Any = None) -> Any:  # fmt: skip
        """Two reads of both, one write."""
        of = self._channels(x, axis) if is_number(weight) and weight == 1 else None
        if of is None:
            return self.before["standardize_gradient"](g, x, weight, added, axis=axis, eps=eps, dtype=dtype, half=half)
        return self._gradient(g, x, 1.0, *self._sums(g, x, axis, of, eps), of, eps)

    @of_elements
    def batch_norm_gradient(self, g: Any, x: Any, weight: Any = 1.0, *, eps: float) -> Any:
        """Two reads of both, one write; the sums are those of weight and bias, too."""
        axes, of = self._of_images(x)
        return NotImplemented if of is None else self._gradient(g, x, weight, *self._sums(g, x, axes, of, eps), of, eps)

    @of_elements
    def batch_norm_weight_gradient(self, g: Any, x: Any, *, eps: float) -> Any:
        """What `batch_norm_gradient` has found on its way; else a read of both."""
        axes, of = self._of_images(x)
        if of is None:
            return NotImplemented
        _, sums = self._sums(g, x, axes, of, eps)
        return self._narrow(sums[1], x.dtype)

    # reductions

    def reduction(self, name: str) -> Kernel:
        """Of planes without a copy; a mean is also what `var` has found before."""
        remembered = self.runtime.remembered

        def kernel(x: Any, *, axis: Shape | None, keepdims: bool, dtype: Any = None) -> Any:
            if name in ("sum", "mean") and len(remembered):
                found = self._known(name, x, tuple(range(len(x.shape))) if axis is None else axis, dtype or x.dtype)
                if found is not None:
                    return found.reshape(reduced_shape(x.shape, axis, keepdims))
            return self.reduced(name, x, axis, keepdims, dtype)

        return kernel

    def _known(self, name: str, x: Any, axes: Shape, dtype: Any) -> Any:
        """What others have found on their way."""
        remembered, facts = self.runtime.remembered, ("moments", tuple(sorted(axes)))
        found = remembered.take((x,), (axes, dtype) if name == "sum" else facts)
        if found is None or name == "sum":
            return found and found()
        remembered.keep((x,), facts, found, made=False)
        return self._narrow(found[0], x.dtype)

    def variance(self, name: str) -> Kernel:
        """From the moments, which a normalisation then has; of last axes in float64."""

        def kernel(x: Any, *, axis: Shape | None, correction: float, keepdims: bool) -> Any:
            axes = tuple(range(len(x.shape))) if axis is None else axis
            of = self._channels(x, axes) if axes and name_of(x.dtype) in ELEMENT else None
            if of is None or of.length <= correction:
                return self.before[name](x, axis=axis, correction=correction, keepdims=keepdims)
            found = self.before["divide"](self._moments(x, axes, of)[1], float(of.length - correction))
            found = self.before["sqrt"](found) if name == "std" else found
            return self._narrow(found, x.dtype).reshape(reduced_shape(x.shape, axis, keepdims))

        return kernel
