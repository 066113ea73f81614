"""Statistics over axes that are not the last ones, as batch norm takes them: of arrays as they lie, not transposed."""

from __future__ import annotations

import math
from typing import Any, Final

from micrograd_core.layout import Shape, reduced_shape
from micrograd_cuda import geometry
from micrograd_cuda.geometry import ChannelLaunch, Channels, ceil_div
from micrograd_cuda.operands import Kernel, alignment, contiguous, is_number, name_of, of_elements
from micrograd_cuda.rows import FUNCTORS, Reductions, Rows
from micrograd_cuda.runtime import Runtime
from micrograd_cuda.units import ELEMENT, Unit

MERGED: Final = 1024
"""Threads of the block that merges statistics."""


class Norms:
    """What is of channels here is so; what reduces last axes is of `rows`, or of the functions in `found`."""

    def __init__(self, xp: Any, runtime: Runtime, reductions: Reductions, rows: Rows, found: dict[str, Kernel]) -> None:
        self.xp, self.runtime, self.reductions, self.rows = xp, runtime, reductions, rows
        self.astype, self.divide, self.sqrt = found["astype"], found["divide"], found["sqrt"]
        self.single = xp.empty(0, dtype=xp.float32).dtype
        self.otherwise = {name: found[name] for name in (*FUNCTORS, "var", "std")}

    def table(self) -> dict[str, Kernel]:
        """By operation."""
        found: dict[str, Kernel] = {name: self.reduction(name) for name in FUNCTORS}
        found |= {"var": self.variance("var"), "std": self.variance("std")}
        names = (
            "standardize", "standardize_gradient", "batch_norm", "batch_norm_gradient", "batch_norm_weight_gradient",
        )  # fmt: skip
        return found | {name: of_elements(getattr(self, name)) for name in names}

    def _wide(self, dtype: Any) -> Any:
        """In which elements are added up."""
        return dtype if name_of(dtype) == "float64" else self.single

    # what there is to know of an array

    def _channels(self, x: Any, axes: Shape) -> Channels | None:
        """``None`` for last axes, and for what lies transposed, of which they are the last."""
        if not x.size:
            return None
        if not x.flags.c_contiguous:
            order = (*(each for each in range(len(x.shape)) if each not in axes), *axes)
            if x.transpose(order).flags.c_contiguous:
                return None
        return geometry.channels(x.shape, tuple(sorted(axes)))

    def _launch(self, of: Channels, *arrays: Any) -> tuple[ChannelLaunch, tuple[int, int, int, int]]:
        """The launch over arrays that lie alike, and what all its kernels are told."""
        launch = geometry.channel_launch(of, arrays[0].dtype.itemsize, alignment(self.runtime, *arrays))
        return launch, (of.rows, of.columns, launch.run, launch.piece)

    def _run(self, family: str, of: Channels, launch: ChannelLaunch, x: Any, *arguments: Any) -> None:
        unit = launch.unit(family, of.planes, ELEMENT[name_of(x.dtype)])
        self.runtime.bind(unit)(launch.grid, arguments)

    def _moments(self, x: Any, axes: Shape, of: Channels) -> Any:
        """(2, channels): means, and sums of squares of what deviates; kept for whoever asks next."""
        remembered, axes = self.runtime.remembered, tuple(sorted(axes))
        found = remembered.take((x,), ("moments", axes))
        if found is None:
            given, dtype = contiguous(x), self._wide(x.dtype)
            launch, numbers = self._launch(of, given)
            partial = self.runtime.empty((launch.parts, 2, of.number), dtype)
            self._run("channel_moments", of, launch, given, partial, given, *numbers)
            found = partial[0]
            if launch.parts > 1:
                found = self.runtime.empty((2, of.number), dtype)
                piece = launch.piece * (launch.pack if of.planes else 1)
                element = ELEMENT[name_of(dtype)]
                merge = self.runtime.bind(Unit("merge_moments", (element,), MERGED, element))
                merge((ceil_div(of.number, 32), 1), (found, partial, of.length, piece, of.number))
        remembered.keep((x,), ("moments", axes), found, made=False)
        return found

    def _sums(self, g: Any, x: Any, axes: Shape, of: Channels, eps: float) -> tuple[Any, Any]:
        """Moments of `x`, and (2, channels): sums of `g`, and of `g` times the standardised numbers; also kept."""
        remembered, axes = self.runtime.remembered, tuple(sorted(axes))
        moments, facts = self._moments(x, axes, of), ("sums", axes, eps)
        found = remembered.take((g, x), facts)
        if found is None:
            cotangent, given, dtype = contiguous(g), contiguous(x), self._wide(x.dtype)
            launch, numbers = self._launch(of, given, cotangent)
            partial = self.runtime.empty((2, launch.parts, of.number), dtype)
            known = moments[0], moments[1], 1 / of.length, eps
            self._run("channel_sums", of, launch, given, partial, cotangent, given, *known, *numbers)
            if launch.parts > 1:
                found = self.reductions.matrices(partial, 2, launch.parts, of.number, dtype)
            else:
                found = partial.reshape(2, of.number)
            if g.dtype == x.dtype:
                plain = found[0]
                remembered.keep((g,), axes, lambda: self._narrow(plain, x.dtype), made=False)
        remembered.keep((g, x), facts, found, made=False)
        return moments, found

    def _narrow(self, x: Any, dtype: Any) -> Any:
        return x if x.dtype == dtype else self.astype(x, dtype=dtype)

    def _parameter(self, parameter: Any, neutral: float, count: int, dtype: Any) -> Any:
        """One for each channel; a null pointer for the number that changes nothing."""
        if is_number(parameter):
            return 0 if parameter == neutral else self.xp.full((count,), parameter, dtype=dtype)
        return contiguous(self.xp.broadcast_to(self._narrow(parameter, dtype), (count,)))

    # forward

    def _norm(self, x: Any, of: Channels, means: Any, squares: Any, share: float, eps: float, *parameters: Any) -> Any:
        given, out = contiguous(x), self.runtime.empty(x.shape, x.dtype)
        launch, numbers = self._launch(of, given)
        self._run("channel_norm", of, launch, x, out, given, means, squares, *parameters, share, eps, *numbers)
        return out

    def standardize(self, x: Any, *, axis: Shape, eps: float) -> Any:
        """Two reads, one write."""
        of = self._channels(x, axis)
        if of is None:
            return self.rows.standardize(x, axis=axis, eps=eps)
        moments = self._moments(x, axis, of)
        return self._norm(x, of, moments[0], moments[1], 1 / of.length, eps, 0, 0)

    def batch_norm(self, x: Any, mean: Any, var: Any, weight: Any, bias: Any, *, training: bool, eps: float) -> Any:
        """Two reads, one write; of given statistics one."""
        axes = (0, *range(2, len(x.shape)))
        of = self._channels(x, axes)
        if of is None:
            return NotImplemented
        parameters = tuple(self._parameter(*each, of.columns, x.dtype) for each in ((weight, 1), (bias, 0)))
        if training:
            moments = self._moments(x, axes, of)
            return self._norm(x, of, moments[0], moments[1], 1 / of.length, eps, *parameters)
        given = (self._parameter(each, math.nan, of.columns, self._wide(x.dtype)) for each in (mean, var))
        return self._norm(x, of, *given, 1.0, eps, *parameters)

    # gradients

    def _gradient(self, g: Any, x: Any, weight: Any, axes: Shape, of: Channels, eps: float) -> Any:
        moments, sums = self._sums(g, x, axes, of, eps)
        cotangent, given, out = contiguous(g), contiguous(x), self.runtime.empty(x.shape, x.dtype)
        launch, numbers = self._launch(of, given, cotangent)
        arguments = out, cotangent, given, moments[0], moments[1], sums[0], sums[1], weight, 1 / of.length, eps
        self._run("channel_norm_gradient", of, launch, x, *arguments, *numbers)
        return out

    def standardize_gradient(self, g: Any, x: Any, weight: Any = 1.0, *, axis: Shape, eps: float) -> Any:
        """Two reads of both, one write."""
        of = self._channels(x, axis) if is_number(weight) and weight == 1 else None
        if of is None:
            return self.rows.standardize_gradient(g, x, weight, axis=axis, eps=eps)
        return self._gradient(g, x, 0, axis, of, eps)

    def batch_norm_gradient(self, g: Any, x: Any, weight: Any = 1.0, *, eps: float) -> Any:
        """Two reads of both, one write; the sums are those of weight and bias, too."""
        axes = (0, *range(2, len(x.shape)))
        of = self._channels(x, axes)
        if of is None:
            return NotImplemented
        return self._gradient(g, x, self._parameter(weight, 1, of.columns, x.dtype), axes, of, eps)

    def batch_norm_weight_gradient(self, g: Any, x: Any, *, eps: float) -> Any:
        """What `batch_norm_gradient` has found on its way; else a read of both."""
        axes = (0, *range(2, len(x.shape)))
        of = self._channels(x, axes)
        if of is None:
            return NotImplemented
        _, sums = self._sums(g, x, axes, of, eps)
        return self._narrow(sums[1], x.dtype)

    # reductions

    def reduction(self, name: str) -> Kernel:
        """Of planes without a copy; a mean is also what `var` has found before."""
        otherwise, functor, remembered = self.otherwise[name], FUNCTORS[name], self.runtime.remembered

        def kernel(x: Any, *, axis: Shape | None, keepdims: bool) -> Any:
            if axis is None or len(axis) == len(x.shape) or not axis or name_of(x.dtype) not in ELEMENT:
                return otherwise(x, axis=axis, keepdims=keepdims)
            of = geometry.channels(x.shape, tuple(sorted(axis))) if x.size and x.flags.c_contiguous else None
            if of is None:
                return otherwise(x, axis=axis, keepdims=keepdims)
            shape = reduced_shape(x.shape, axis, keepdims)
            if name == "mean" and len(remembered):
                facts = "moments", tuple(sorted(axis))
                found = remembered.take((x,), facts)
                if found is not None:
                    remembered.keep((x,), facts, found, made=False)
                    return self._narrow(found[0], x.dtype).reshape(shape)
            if name == "sum" and (known := remembered.take((x,), axis)) is not None:
                return known().reshape(shape)
            if not of.planes:
                return otherwise(x, axis=axis, keepdims=keepdims)
            return self._planes(x, of, functor, float(of.length) if name == "mean" else 1.0).reshape(shape)

        return kernel

    def _planes(self, x: Any, of: Channels, functor: str, divisor: float) -> Any:
        """In one launch or two."""
        launch, numbers = self._launch(of, x)
        several = launch.parts > 1
        dtype = self._wide(x.dtype) if several else x.dtype
        partial = self.runtime.empty((launch.parts, of.number), dtype)
        names = ELEMENT[name_of(x.dtype)], ELEMENT[name_of(dtype)]
        unit = launch.unit("reduce_planes", True, names[0], functor, result=names[1])
        self.runtime.bind(unit)(launch.grid, (partial, x, 1.0 if several else divisor, *numbers))
        if not several:
            return partial[0]
        return self.reductions.whole(partial, launch.parts, of.number, x.dtype, functor, divisor)

    def variance(self, name: str) -> Kernel:
        """From the moments, which a normalisation then has; of last axes in float64."""
        otherwise = self.otherwise[name]

        def kernel(x: Any, *, axis: Shape | None, correction: float, keepdims: bool) -> Any:
            axes = tuple(range(len(x.shape))) if axis is None else axis
            of = self._channels(x, axes) if axes and name_of(x.dtype) in ELEMENT else None
            if of is None or of.length <= correction:
                return otherwise(x, axis=axis, correction=correction, keepdims=keepdims)
            found = self.divide(self._moments(x, axes, of)[1], float(of.length - correction))
            found = self.sqrt(found) if name == "std" else found
            return self._narrow(found, x.dtype).reshape(reduced_shape(x.shape, axis, keepdims))

        return kernel
