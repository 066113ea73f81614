# Made by docs/stubs.py from the source and the op table.
import builtins
from collections.abc import Sequence
from micrograd_core import amp as amp, checkpoints as checkpoints, data as data, errors as errors, fft as fft, linalg as linalg, nn as nn, optim as optim, random as random
from micrograd_core.amp import set_matmul_precision as set_matmul_precision
from micrograd_core.array.composed import TopK, broadcast_arrays as broadcast_arrays, einsum as einsum, nonzero as nonzero, searchsorted as searchsorted, unique_all as unique_all, unique_counts as unique_counts, unique_inverse as unique_inverse, unique_values as unique_values
from micrograd_core.array.creation import arange as arange, empty as empty, empty_like as empty_like, eye as eye, from_dlpack as from_dlpack, full as full, full_like as full_like, linspace as linspace, meshgrid as meshgrid, ones as ones, ones_like as ones_like, zeros as zeros, zeros_like as zeros_like
from micrograd_core.array.namespace import __array_namespace_info__ as __array_namespace_info__, astype as astype, broadcast_shapes as broadcast_shapes, can_cast as can_cast, e as e, finfo as finfo, iinfo as iinfo, inf as inf, isdtype as isdtype, nan as nan, newaxis as newaxis, pi as pi, reshape as reshape, result_type as result_type
from micrograd_core.array.numeric import allclose as allclose, masked_fill as masked_fill
from micrograd_core.array.selection import masked_select as masked_select
from micrograd_core.array.shapes import flatten as flatten
from micrograd_core.array.statistics import histogram as histogram
from micrograd_core.array.tensor import ArrayLike, Tensor as Tensor, asarray as asarray, shares_memory as shares_memory
from micrograd_core.device import Device as Device, default_device as default_device, set_default_device as set_default_device, use_device as use_device
from micrograd_core.dtypes import DType as DType, bfloat16 as bfloat16, bool_ as bool, complex128 as complex128, complex64 as complex64, float16 as float16, float32 as float32, float64 as float64, int16 as int16, int32 as int32, int64 as int64, int8 as int8, uint16 as uint16, uint32 as uint32, uint64 as uint64, uint8 as uint8
from micrograd_core.engine.autocast import autocast as autocast
from micrograd_core.engine.modes import enable_grad as enable_grad, is_grad_enabled as is_grad_enabled, no_grad as no_grad
from micrograd_core.errors import MicrogradError as MicrogradError
from micrograd_core.nn.mlp import Layer as Layer, MLP as MLP, Neuron as Neuron
from micrograd_core.optim.scaling import GradScaler as GradScaler
from micrograd_core.scalar.drawing import draw as draw
from micrograd_core.scalar.value import Value as Value
from micrograd_core.transforms.anomaly import detect_anomaly as detect_anomaly
from micrograd_core.transforms.checkpoint import checkpoint as checkpoint
from micrograd_core.transforms.custom import custom_gradient as custom_gradient, custom_jvp as custom_jvp
from micrograd_core.transforms.derivatives import hessian as hessian, hvp as hvp, jacfwd as jacfwd, jacobian as jacobian, jacobian as jacrev, jvp as jvp, linearize as linearize, vjp as vjp
from micrograd_core.transforms.grad import grad as grad, value_and_grad as value_and_grad
from micrograd_core.transforms.gradcheck import gradcheck as gradcheck, gradgradcheck as gradgradcheck
from micrograd_core.transforms.jit import jit as jit
from micrograd_core.transforms.vmap import vmap as vmap
from typing import Any, NamedTuple

class NormGradients(NamedTuple):
    x: Tensor
    weight: Tensor
    bias: Tensor

class RNNResult(NamedTuple):
    states: Tensor
    gates: Tensor

class LSTMResult(NamedTuple):
    states: Tensor
    cells: Tensor
    gates: Tensor

class GRUResult(NamedTuple):
    states: Tensor
    gates: Tensor

class Extremes(NamedTuple):
    values: Tensor
    indices: Tensor

class Pooled(NamedTuple):
    values: Tensor
    indices: Tensor

def add(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Sum ``x1 + x2``."""

def subtract(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Difference ``x1 - x2``."""

def multiply(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Product ``x1 * x2``."""

def divide(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Quotient ``x1 / x2`` of floating-point operands."""

def pow(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Power ``x1 ** x2``. Anything ``** 0`` is 1, constant in the base, 0 and NaN included."""

def maximum(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The greater of two elements; NaN if either is NaN. At a tie each side gets half the gradient."""

def minimum(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The lesser of two elements; NaN if either is NaN. At a tie each side gets half the gradient."""

def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``sqrt(x1**2 + x2**2)`` without overflow or underflow on the way; the gradient at the origin is 0."""

def negative(x: ArrayLike, /) -> Tensor:
    """``-x``."""

def positive(x: ArrayLike, /) -> Tensor:
    """``+x``: the same numbers."""

def square(x: ArrayLike, /) -> Tensor:
    """``x * x``."""

def reciprocal(x: ArrayLike, /) -> Tensor:
    """``1 / x``."""

def clip(x: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Tensor:
    """Elements below `min` replaced by it, those above `max` by that. Inside, bounds included, the gradient goes to `x`, outside to the bound."""

def less(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 < x2``."""

def less_equal(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 <= x2``."""

def greater(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 > x2``."""

def greater_equal(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 >= x2``."""

def equal(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 == x2``."""

def not_equal(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 != x2``."""

def bitwise_and(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 & x2`` of integers or bools."""

def bitwise_or(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 | x2`` of integers or bools."""

def bitwise_xor(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 ^ x2`` of integers or bools."""

def bitwise_invert(x: ArrayLike, /) -> Tensor:
    """``~x`` of integers or bools."""

def logical_not(x: ArrayLike, /) -> Tensor:
    """``not x`` of bools."""

def logical_and(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 and x2`` of bools."""

def logical_or(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 or x2`` of bools."""

def logical_xor(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Whether one of two bools is true."""

def isnan(x: ArrayLike, /) -> Tensor:
    """Whether elements are NaN."""

def isinf(x: ArrayLike, /) -> Tensor:
    """Whether elements are infinite; of complex numbers, whether a part is."""

def isfinite(x: ArrayLike, /) -> Tensor:
    """Whether elements are neither infinite nor NaN."""

def relu(x: ArrayLike, /) -> Tensor:
    """``max(x, 0)``; the gradient at 0 is 0."""

def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The greatest integer not above ``x1 / x2``; an integer by 0 gives 0."""

def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 - x2 * floor_divide(x1, x2)``, with the sign of ``x2``; an integer by 0 gives 0."""

def floor(x: ArrayLike, /) -> Tensor:
    """The greatest integer not above `x`."""

def ceil(x: ArrayLike, /) -> Tensor:
    """The least integer not below `x`."""

def trunc(x: ArrayLike, /) -> Tensor:
    """The integer next to `x` towards 0."""

def round(x: ArrayLike, /) -> Tensor:
    """The nearest integer, the even one half way between two; of complex numbers both parts."""

def signbit(x: ArrayLike, /) -> Tensor:
    """Whether the sign bit is set, as it is of -0.0. Compositions take NaN as positive."""

def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The magnitude of ``x1`` with the sign of ``x2``; the gradient at 0 is 0."""

def nextafter(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The next number of the dtype after ``x1`` in the direction of ``x2``."""

def bitwise_left_shift(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 << x2``: bits shifted out are lost; negative counts are undefined."""

def bitwise_right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1 >> x2``, which keeps the sign; negative counts are undefined."""

def exp(x: ArrayLike, /) -> Tensor:
    """``e ** x``."""

def expm1(x: ArrayLike, /) -> Tensor:
    """``e ** x - 1``, accurate near 0."""

def log(x: ArrayLike, /) -> Tensor:
    """Natural logarithm."""

def log1p(x: ArrayLike, /) -> Tensor:
    """``log(1 + x)``, accurate near 0."""

def log2(x: ArrayLike, /) -> Tensor:
    """Logarithm to base 2."""

def log10(x: ArrayLike, /) -> Tensor:
    """Logarithm to base 10."""

def sqrt(x: ArrayLike, /) -> Tensor:
    """Square root; the gradient at 0 is infinite."""

def sigmoid(x: ArrayLike, /) -> Tensor:
    """Logistic function ``1 / (1 + e ** -x)``, without overflow in either tail."""

def sin(x: ArrayLike, /) -> Tensor:
    """Sine of radians."""

def cos(x: ArrayLike, /) -> Tensor:
    """Cosine of radians."""

def tan(x: ArrayLike, /) -> Tensor:
    """Tangent of radians."""

def asin(x: ArrayLike, /) -> Tensor:
    """Arc sine, in radians; infinite gradients at -1 and 1."""

def acos(x: ArrayLike, /) -> Tensor:
    """Arc cosine, in radians; infinite gradients at -1 and 1."""

def atan(x: ArrayLike, /) -> Tensor:
    """Arc tangent, in radians."""

def sinh(x: ArrayLike, /) -> Tensor:
    """Hyperbolic sine."""

def cosh(x: ArrayLike, /) -> Tensor:
    """Hyperbolic cosine."""

def tanh(x: ArrayLike, /) -> Tensor:
    """Hyperbolic tangent."""

def asinh(x: ArrayLike, /) -> Tensor:
    """Inverse hyperbolic sine."""

def acosh(x: ArrayLike, /) -> Tensor:
    """Inverse hyperbolic cosine; an infinite gradient at 1."""

def atanh(x: ArrayLike, /) -> Tensor:
    """Inverse hyperbolic tangent; infinite gradients at -1 and 1."""

def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``log(exp(x1) + exp(x2))``, without overflow."""

def atan2(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The angle, in radians, of the point of ordinate ``x1`` and abscissa ``x2``; at the origin the gradient is 0."""

def abs(x: ArrayLike, /) -> Tensor:
    """Absolute value, or modulus; the gradient at 0 is 0."""

def sign(x: ArrayLike, /) -> Tensor:
    """-1, 0 or 1; of complex numbers ``z / |z|``, or 0; NaN for NaN."""

def real(x: ArrayLike, /) -> Tensor:
    """Real part; real numbers as they are."""

def imag(x: ArrayLike, /) -> Tensor:
    """Imaginary part of complex numbers."""

def complex(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The complex number of real part ``x1`` and imaginary part ``x2``, as torch's."""

def conj(x: ArrayLike, /) -> Tensor:
    """Complex conjugate; real numbers as they are."""

def sum(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, keepdims: builtins.bool = False, *, dtype: Any = None, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """Sum over `axis`. Integer results are 64 bits wide; bools are counted."""

def mean(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, keepdims: builtins.bool = False, *, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """Arithmetic mean over `axis`."""

def max(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, keepdims: builtins.bool = False, *, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """Maximum over `axis` (`argmax` says where); NaN where any element is. Tied elements share the gradient evenly."""

def min(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, keepdims: builtins.bool = False, *, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """Minimum over `axis` (`argmin` says where); NaN where any element is. Tied elements share the gradient evenly."""

def var(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, *, correction: float = 0.0, keepdims: builtins.bool = False, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """Variance over `axis`, by the two-pass formula; divides by the count less `correction`."""

def std(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, *, correction: float = 0.0, keepdims: builtins.bool = False, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """Standard deviation over `axis`: the root of `var`. Without deviation, as of one element, the gradient is 0."""

def any(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, keepdims: builtins.bool = False, *, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """Whether any element over `axis` is true (nonzero)."""

def all(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, keepdims: builtins.bool = False, *, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """Whether all elements over `axis` are true (nonzero)."""

def argmax(x: ArrayLike, /, axis: int | None = None, keepdims: builtins.bool = False, *, dim: int | None = ..., dims: int | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """Position of the first maximum along `axis` (of the flattened tensor for ``None``), as int64."""

def argmin(x: ArrayLike, /, axis: int | None = None, keepdims: builtins.bool = False, *, dim: int | None = ..., dims: int | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """Position of the first minimum along `axis` (of the flattened tensor for ``None``), as int64."""

def count_nonzero(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, keepdims: builtins.bool = False, *, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """How many elements over `axis` are not 0, as int64."""

def prod(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, keepdims: builtins.bool = False, *, dtype: Any = None, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """Product over `axis`. Integer results are 64 bits wide."""

def cumulative_sum(x: ArrayLike, /, axis: int | None = None, *, dtype: Any = None, include_initial: builtins.bool = False, dim: int | None = ..., dims: int | None = ...) -> Tensor:
    """Sums of the first 1, 2, … elements along `axis`; with `include_initial` the sum of none, 0, comes first."""

def cumulative_prod(x: ArrayLike, /, axis: int | None = None, *, dtype: Any = None, include_initial: builtins.bool = False, dim: int | None = ..., dims: int | None = ...) -> Tensor:
    """Products of the first 1, 2, … elements along `axis`; with `include_initial` that of none, 1, comes first."""

def logsumexp(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, keepdims: builtins.bool = False, *, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """``log(sum(exp(x)))`` over `axis`, shifted by the maximum so that nothing overflows."""

def permute_dims(x: ArrayLike, /, axes: tuple[int, ...] = ..., *, dim: tuple[int, ...] = ..., dims: tuple[int, ...] = ...) -> Tensor:
    """Axes in another order. A view."""

def broadcast_to(x: ArrayLike, /, shape: int | tuple[int, ...]) -> Tensor:
    """Axes of length 1, or missing on the left, repeated to `shape`. A view."""

def spread(x: ArrayLike, /, shape: int | tuple[int, ...]) -> Tensor:
    """As `broadcast_to`, but a view or fresh memory, whichever the device finds faster: the gradient of a sum."""

def expand_dims(x: ArrayLike, /, axis: int | tuple[int, ...] = 0, *, dim: int | tuple[int, ...] = ..., dims: int | tuple[int, ...] = ...) -> Tensor:
    """Axes of length 1 inserted at `axis`. A view."""

def squeeze(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, *, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ...) -> Tensor:
    """Without the axes `axis` of length 1. A view."""

def flip(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, *, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ...) -> Tensor:
    """Elements in reverse order along `axis` (default: all axes). A view."""

def getitem(x: ArrayLike, /, key: Any) -> Tensor:
    """Basic indexing, ``x[key]``, with integers, slices, ``...`` and ``None``. A view."""

def scatter(x: Any, /, dim: Any = ..., index: Any = None, src: Any = None, *, value: Any = None, reduce: str | None = None, key: Any = None, axis: Any = ...) -> Tensor: ...

def concat(arrays: Sequence[ArrayLike], /, axis: int | None = 0, *, dim: int | None = ..., dims: int | None = ...) -> Tensor:
    """Tensors joined along the existing `axis`; flattened and joined for ``None``."""

def stack(arrays: Sequence[ArrayLike], /, axis: int | None = 0, *, dim: int | None = ..., dims: int | None = ...) -> Tensor:
    """Tensors of equal shape joined along a new `axis`."""

def where(condition: ArrayLike, x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Elements of ``x1`` where the condition is true, of ``x2`` where it is not."""

def copy(x: ArrayLike, /) -> Tensor:
    """A fresh, contiguous copy."""

def one_hot(x: ArrayLike, /, num_classes: int, *, dtype: Any = ...) -> Tensor:
    """1 where the class along a new last axis equals the index, else 0."""

def moveaxis(x: ArrayLike, /, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Tensor:
    """The axes `source` moved to the places `destination`, the others in their order. A view."""

def matrix_transpose(x: ArrayLike, /) -> Tensor:
    """The last two axes exchanged. A view."""

def roll(x: ArrayLike, /, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None, *, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ...) -> Tensor:
    """Elements moved `shift` places along `axis` (in the flattened tensor for ``None``), the last ones first."""

def tile(x: ArrayLike, /, repetitions: int | tuple[int, ...]) -> Tensor:
    """Copies of the tensor side by side, `repetitions` along each axis, counted from the last."""

def repeat(x: ArrayLike, /, repeats: Any, axis: int | None = None, *, dim: int | None = ..., dims: int | None = ...) -> Tensor:
    """Each element (each slice along `axis`) repeated `repeats` times, or as often as its count in `repeats` says."""

def pad(x: ArrayLike, /, pad_width: Any, mode: str = 'constant', *, constant_values: builtins.complex = 0) -> Tensor:
    """Elements added around the tensor: `pad_width` before and after each axis (a number, a pair, or a pair per axis), which are `constant_values`, or continue it by ``'edge'``, ``'wrap'``, ``'reflect'`` (about the edge) or ``'symmetric'`` (including the edge). Source: ``numpy.pad``."""

def take(x: ArrayLike, indices: ArrayLike, /, axis: int | None = None, *, dim: int | None = ..., dims: int | None = ...) -> Tensor:
    """The slices of `x` along `axis` (which may be left out if it is the only one) that integers name; `indices` may have any shape, which replaces the axis."""

def take_along_axis(x: ArrayLike, indices: ArrayLike, /, axis: int = -1, *, dim: int = ..., dims: int = ...) -> Tensor:
    """Along `axis`, the elements that integers name, lane by lane; the other axes broadcast."""

def add_along_axis(x: ArrayLike, indices: ArrayLike, values: ArrayLike, /, axis: int = -1, *, dim: int = ..., dims: int = ...) -> Tensor:
    """A fresh copy of `x`, to whose elements that integers name along `axis`, lane by lane, values are added."""

def last_position(indices: ArrayLike, /, *, length: int) -> Tensor:
    """For each position of an axis of `length`, where in the flattened indices it is named last; -1 if nowhere."""

def linear_index(arrays: Sequence[ArrayLike], /, *, shape: tuple[int, ...]) -> Tensor:
    """Positions in the flattened tensor of `shape`, from one tensor of indices per axis, which broadcast."""

def argwhere(x: ArrayLike, /) -> Tensor:
    """The indices of the elements that are not 0, one row each, in C order. The number of rows depends on the elements: a device without a kernel of that name sends the truth values, and nothing else, to the host."""

def index_add(x: ArrayLike, indices: ArrayLike, values: ArrayLike, /, axis: int = 0, *, dim: int = ..., dims: int = ...) -> Tensor:
    """A fresh copy of ``x``, to whose slices along `axis` that integers name the values are added; a slice that is named twice gets both. Source: ``numpy.add.at``."""

def index_set(x: ArrayLike, indices: ArrayLike, values: ArrayLike, /, axis: int = 0, *, dim: int = ..., dims: int = ...) -> Tensor:
    """A fresh copy of ``x``, whose slices along `axis` that integers name are replaced by the values; for a slice that is named twice the last one counts."""

def index_max(x: ArrayLike, indices: ArrayLike, values: ArrayLike, /, axis: int = 0, *, dim: int = ..., dims: int = ...) -> Tensor:
    """A fresh copy of ``x``, whose slices along `axis` that integers name are the elementwise maximum of themselves and all values for them. Elements tied for it share the gradient evenly."""

def index_min(x: ArrayLike, indices: ArrayLike, values: ArrayLike, /, axis: int = 0, *, dim: int = ..., dims: int = ...) -> Tensor:
    """A fresh copy of ``x``, whose slices along `axis` that integers name are the elementwise minimum of themselves and all values for them. Elements tied for it share the gradient evenly."""

def index_multiply(x: ArrayLike, indices: ArrayLike, values: ArrayLike, /, axis: int = 0, *, dim: int = ..., dims: int = ...) -> Tensor:
    """A fresh copy of ``x``, whose slices along `axis` that integers name are multiplied by all values for them. Gradients are right to second order also where factors are 0."""

def index_scale(x: ArrayLike, indices: ArrayLike, values: ArrayLike, /, axis: int = 0, *, dim: int = ..., dims: int = ...) -> Tensor:
    """As `index_multiply`, but with a gradient that divides by the factors, none of which may be 0."""

def argsort(x: ArrayLike, /, axis: int = -1, descending: builtins.bool = False, *, stable: builtins.bool = True, dim: int = ..., dims: int = ...) -> Tensor:
    """The positions that sort the elements along `axis`. NaN comes last; equal elements keep their order. Complex numbers are ordered by their real parts, then by their imaginary ones."""

def sort(x: ArrayLike, /, axis: int = -1, descending: builtins.bool = False, *, stable: builtins.bool = True, dim: int = ..., dims: int = ...) -> Tensor:
    """The elements in order along `axis`, as `argsort` has it."""

def isin(x1: ArrayLike, x2: ArrayLike, /, *, invert: builtins.bool = False) -> Tensor:
    """Whether elements of ``x1`` are among those of ``x2`` (`invert`: are not). NaN is among none."""

def diff(x: Any, /, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None, *, dim: int = ..., dims: int = ...) -> Tensor: ...

def tensordot(x1: ArrayLike, x2: ArrayLike, /, axes: int | tuple[Sequence[int], Sequence[int]] = 2, *, dim: int | tuple[Sequence[int], Sequence[int]] = ..., dims: int | tuple[Sequence[int], Sequence[int]] = ...) -> Tensor:
    """Sum of products over pairs of `axes`: the last N of the first operand with the first N of the second, or two sequences of them."""

def vecdot(x1: ArrayLike, x2: ArrayLike, /, axis: int = -1, *, dim: int = ..., dims: int = ...) -> Tensor:
    """Sum of products along `axis`, the first operand conjugated; the other axes broadcast."""

def outer(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """All products of the elements of two 1-d tensors."""

def random_uniform_from(place: ArrayLike, /, shape: int | tuple[int, ...], *, dtype: Any = ...) -> Tensor:
    """Fractions, uniform in [0, 1), from a place in a stream on: its counter's four words and its key's two, lowest first. What `random.uniform` draws inside a program."""

def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Matrix product of the last two axes, broadcast over the others; 1-d operands are a row and a column."""

def linear(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, /) -> Tensor:
    """``x1 @ x2.T + x3``: inputs (..., i), weight (o, i) and bias (o,), or 0 for none."""

def erf(x: ArrayLike, /) -> Tensor:
    """Error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to `x` (DLMF 7.2.1)."""

def erfc(x: ArrayLike, /) -> Tensor:
    """``1 - erf(x)``, to full precision where that is small (DLMF 7.2.2)."""

def leaky_relu(x: ArrayLike, /, *, negative_slope: float = 0.01) -> Tensor:
    """``x`` where it is positive, else ``negative_slope * x``; the gradient at 0 is `negative_slope`."""

def elu(x: ArrayLike, /, *, alpha: float = 1.0) -> Tensor:
    """``x`` where it is positive, else ``alpha * expm1(x)`` (Clevert et al. 2016); the gradient at 0 is `alpha`."""

def gelu(x: ArrayLike, /, *, approximate: str = 'none') -> Tensor:
    """``x`` times the standard normal distribution function of ``x`` (Hendrycks & Gimpel 2016); with ``approximate='tanh'`` by their formula ``x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2``."""

def times_normal(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1`` times the standard normal distribution function of ``x2``: the exact `gelu` of one operand."""

def silu(x: ArrayLike, /) -> Tensor:
    """``x * sigmoid(x)`` (Elfwing et al. 2018), also called swish."""

def mish(x: ArrayLike, /) -> Tensor:
    """``x * tanh(softplus(x))`` (Misra 2020)."""

def softplus(x: ArrayLike, /) -> Tensor:
    """``log(1 + exp(x))``, without overflow, and without loss of digits in the left tail."""

def log_sigmoid(x: ArrayLike, /) -> Tensor:
    """``log(sigmoid(x))``, which is ``-softplus(-x)``."""

def hardtanh(x: ArrayLike, /, *, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``x`` between `min_val` and `max_val`, else the nearer of the two; there, and at both, the gradient is 0."""

def softmax(x: ArrayLike, /, axis: int = -1, *, dim: int = ..., dims: int = ...) -> Tensor:
    """``exp(x) / sum(exp(x))`` along `axis`, shifted by the maximum so that nothing overflows."""

def attention_weights(scores: ArrayLike, mask: ArrayLike | None = None, /, *, is_causal: builtins.bool = False) -> Tensor:
    """``softmax(x1 + x2)`` over sources, the last axis of scores (..., targets, sources). A boolean mask ``x2`` is true where a target may look; with `is_causal` it looks at no later source. A target that the mask leaves nothing gets 0, with gradient 0."""

def log_softmax(x: ArrayLike, /, axis: int = -1, *, dim: int = ..., dims: int = ...) -> Tensor:
    """``log(softmax(x))`` along `axis`, without taking the logarithm of a vanishing number."""

def standardize(x: ArrayLike, /, axis: int | tuple[int, ...] | None = -1, *, eps: float = 1e-05, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ...) -> Tensor:
    """``(x - mean) / sqrt(variance + eps)`` over `axis`: mean 0 and variance 1."""

def layer_norm(x: ArrayLike, /, weight: ArrayLike | None = None, bias: ArrayLike | None = None, *, axis: int | tuple[int, ...] | None = -1, eps: float = 1e-05, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ...) -> Tensor:
    """``standardize(x) * weight + bias`` over `axis`, the last by default (Ba et al. 2016). `weight` and `bias` have the lengths of the normalised axes."""

def rms_norm(x: ArrayLike, /, weight: ArrayLike | None = None, *, axis: int | tuple[int, ...] | None = -1, eps: float = 1e-06, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ...) -> Tensor:
    """``x / sqrt(mean(x**2) + eps) * weight`` over `axis`, the last by default (Zhang & Sennrich 2019)."""

def batch_norm(x: ArrayLike, /, mean: ArrayLike | None = None, var: ArrayLike | None = None, weight: ArrayLike | None = None, bias: ArrayLike | None = None, *, training: builtins.bool = False, eps: float = 1e-05) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` for each channel, axis 1 of `x` (Ioffe & Szegedy 2015). With `training`, mean and variance are those of the batch, and `mean` and `var` are not looked at."""

def layer_norm_gradients(g: ArrayLike, x: ArrayLike, weight: ArrayLike, /, *, axis: int | tuple[int, ...] | None = -1, eps: float = 1e-05, dim: int | tuple[int, ...] | None = ..., dims: int | tuple[int, ...] | None = ...) -> NormGradients:
    """The vector-Jacobian products of `layer_norm` of ``x2`` with weight ``x3`` by its input, weight and bias, with ``x1``."""

def batch_norm_gradients(g: ArrayLike, x: ArrayLike, weight: ArrayLike, /, *, eps: float = 1e-05) -> NormGradients:
    """The vector-Jacobian products of `batch_norm` of ``x2`` in training with weight ``x3`` by its input, weight and bias, with ``x1``."""

def patches(x: ArrayLike, /, *, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, fill: float = 0.0) -> Tensor:
    """For each position of a kernel of spatial shape `kernel_size`, the elements it sees: (batch, channels, *spatial) to (batch, channels, *kernel, *positions). `fill` stands for the padding on both sides."""

def conv1d(x: ArrayLike, weight: ArrayLike, /, bias: ArrayLike | None = None, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """Cross-correlation of (batch, channels, length) with a weight (outputs, inputs / groups, *kernel), plus a bias (outputs,): the convolution of networks. `stride`, `padding` (zeros on both sides, or 'valid' or 'same') and `dilation` are integers, or one for each spatial axis."""

def conv_transpose1d(x: ArrayLike, weight: ArrayLike, /, bias: ArrayLike | None = None, *, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """The transpose of `conv1d` in its input, from (batch, channels, length) and a weight (inputs, outputs / groups, *kernel), plus a bias (outputs,). `output_padding`, less than the stride, chooses among the sizes that the convolution would take to that of the input; the function takes one that is less than the dilation, too."""

def conv2d(x: ArrayLike, weight: ArrayLike, /, bias: ArrayLike | None = None, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """Cross-correlation of (batch, channels, height, width) with a weight (outputs, inputs / groups, *kernel), plus a bias (outputs,): the convolution of networks. `stride`, `padding` (zeros on both sides, or 'valid' or 'same') and `dilation` are integers, or one for each spatial axis."""

def conv_transpose2d(x: ArrayLike, weight: ArrayLike, /, bias: ArrayLike | None = None, *, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """The transpose of `conv2d` in its input, from (batch, channels, height, width) and a weight (inputs, outputs / groups, *kernel), plus a bias (outputs,). `output_padding`, less than the stride, chooses among the sizes that the convolution would take to that of the input; the function takes one that is less than the dilation, too."""

def conv3d(x: ArrayLike, weight: ArrayLike, /, bias: ArrayLike | None = None, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """Cross-correlation of (batch, channels, depth, height, width) with a weight (outputs, inputs / groups, *kernel), plus a bias (outputs,): the convolution of networks. `stride`, `padding` (zeros on both sides, or 'valid' or 'same') and `dilation` are integers, or one for each spatial axis."""

def conv_transpose3d(x: ArrayLike, weight: ArrayLike, /, bias: ArrayLike | None = None, *, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """The transpose of `conv3d` in its input, from (batch, channels, depth, height, width) and a weight (inputs, outputs / groups, *kernel), plus a bias (outputs,). `output_padding`, less than the stride, chooses among the sizes that the convolution would take to that of the input; the function takes one that is less than the dilation, too."""

def max_pool1d(x: ArrayLike, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Tensor:
    """Maximum in each window of an input (batch, channels, length); windows are `stride` apart, by default their own size. Tied elements share the gradient evenly."""

def avg_pool1d(x: ArrayLike, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0) -> Tensor:
    """Mean of each window of an input (batch, channels, length); windows are `stride` apart, by default their own size. The zeros of the padding count."""

def max_pool2d(x: ArrayLike, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Tensor:
    """Maximum in each window of an input (batch, channels, height, width); windows are `stride` apart, by default their own size. Tied elements share the gradient evenly."""

def avg_pool2d(x: ArrayLike, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0) -> Tensor:
    """Mean of each window of an input (batch, channels, height, width); windows are `stride` apart, by default their own size. The zeros of the padding count."""

def max_pool3d(x: ArrayLike, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Tensor:
    """Maximum in each window of an input (batch, channels, depth, height, width); windows are `stride` apart, by default their own size. Tied elements share the gradient evenly."""

def avg_pool3d(x: ArrayLike, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0) -> Tensor:
    """Mean of each window of an input (batch, channels, depth, height, width); windows are `stride` apart, by default their own size. The zeros of the padding count."""

def dropout(x: ArrayLike, /, p: float = 0.5, *, training: builtins.bool = True, generator: Any = None) -> Tensor:
    """Zeros with probability `p`, all else times ``1 / (1 - p)``, so that the mean stays (Srivastava et al. 2014). The mask comes from `generator`, by default the default one, or an integer: the seed of one for this call alone. It is the same on every device. Without `training` nothing is changed."""

def embedding(indices: ArrayLike, weight: ArrayLike, /) -> Tensor:
    """The rows of ``x2`` (number of embeddings, features) that the integers ``x1`` name. An index that names none raises ``IndexError`` on devices that can tell at once, and gives NaN on others."""

def scaled_dot_product_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, /, attn_mask: ArrayLike | None = None, *, is_causal: builtins.bool = False, scale: float | None = None) -> Tensor:
    """``softmax(scale * query @ key.T + attn_mask) @ value`` over the last two axes (Vaswani et al. 2017): query (..., targets, features), key (..., sources, features), value (..., sources, outputs). `scale` is by default ``features ** -0.5``. A boolean mask is true where a target may look; with `is_causal` it looks at no later source. A target that may look nowhere gets 0, with gradient 0."""

def rnn(x: ArrayLike, h: ArrayLike, weight: ArrayLike, /, lengths: ArrayLike | None = -1, *, reverse: builtins.bool = False, nonlinearity: str = 'tanh') -> RNNResult:
    """``h = tanh(x + h @ weight.T)``, or of `relu`, at each step of sequences (time, batch, features), from initial states (batch, features) (Elman 1990). `lengths` are those of the sequences, by default all that there is of them; `reverse` goes from the last step to the first."""

def lstm(x: ArrayLike, h: ArrayLike, c: ArrayLike, weight: ArrayLike, /, lengths: ArrayLike | None = -1, *, reverse: builtins.bool = False) -> LSTMResult:
    """Long short-term memory (Hochreiter & Schmidhuber 1997; Gers et al. 2000) over sequences (time, batch, 4 * features): of ``x + h @ weight.T`` the blocks are i, f, g, o, and ``c = sigmoid(f) * c + sigmoid(i) * tanh(g)``, ``h = sigmoid(o) * tanh(c)``, from initial states and cells (batch, features). `lengths` and `reverse` as of `rnn`."""

def gru(x: ArrayLike, h: ArrayLike, weight: ArrayLike, /, bias: ArrayLike | None = 0.0, lengths: ArrayLike | None = -1, *, reverse: builtins.bool = False) -> GRUResult:
    """Gated recurrent units (Cho et al. 2014) over sequences (time, batch, 3 * features): of ``x`` and ``h @ weight.T + bias`` the blocks are r, z, n, and ``n = tanh(x_n + sigmoid(r) * h_n)``, ``h = (1 - sigmoid(z)) * n + sigmoid(z) * h``, from initial states (batch, features). `lengths` and `reverse` as of `rnn`."""

def mse_loss(x: ArrayLike, y: ArrayLike, /, *, reduction: str = 'mean') -> Tensor:
    """Squared differences, reduced by ``'mean'``, ``'sum'`` or ``'none'``."""

def l1_loss(x: ArrayLike, y: ArrayLike, /, *, reduction: str = 'mean') -> Tensor:
    """Absolute differences, reduced by ``'mean'``, ``'sum'`` or ``'none'``; the gradient where there is none is 0."""

def huber_loss(x: ArrayLike, y: ArrayLike, /, *, delta: float = 1.0, reduction: str = 'mean') -> Tensor:
    """Half the squared difference up to `delta`, then ``delta * (|difference| - delta / 2)`` (Huber 1964), reduced by ``'mean'``, ``'sum'`` or ``'none'``."""

def kl_div(x: ArrayLike, y: ArrayLike, /, *, log_target: builtins.bool = False, reduction: str = 'mean') -> Tensor:
    """``y * (log(y) - x)`` of log-probabilities `x` and probabilities `y` (their logarithms with `log_target`): the Kullback-Leibler divergence, reduced by ``'mean'``, ``'sum'``, ``'batchmean'`` (the sum over the length of the first axis) or ``'none'``."""

def binary_cross_entropy_with_logits(x: ArrayLike, y: ArrayLike, /, weight: ArrayLike | None = None, pos_weight: ArrayLike | None = None, *, reduction: str = 'mean') -> Tensor:
    """``-pos_weight * y * log(p) - (1 - y) * log(1 - p)`` with ``p = sigmoid(x)``, times `weight`, reduced by ``'mean'``, ``'sum'`` or ``'none'``."""

def cross_entropy(logits: ArrayLike, targets: ArrayLike, /, weight: ArrayLike | None = None, *, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: str = 'mean') -> Tensor:
    """Minus the log-probability that logits (classes along axis 1; axis 0 if 1-d) give to `targets`: integer class indices, or probabilities of the shape of the logits. `weight` has a number for each class; positions whose index is `ignore_index` do not count; `label_smoothing` mixes the targets with equal probabilities (Szegedy et al. 2016). Reduced by ``'mean'`` (for indices weighted; NaN, with gradient 0, if none counts), ``'sum'`` or ``'none'``. A target that names no class raises ``IndexError`` on devices that can tell at once, and gives NaN on others."""

def nll_loss(log_probabilities: ArrayLike, targets: ArrayLike, /, weight: ArrayLike | None = None, *, ignore_index: int = -100, reduction: str = 'mean') -> Tensor:
    """Minus the log-probability ``x`` of integer class `targets` (classes along axis 1; axis 0 if 1-d): what `cross_entropy` does after `log_softmax`, with the same parameters."""

def tril(x: ArrayLike, /, k: int = 0, *, diagonal: int | None = None) -> Tensor:
    """The lower triangle of matrices; zeros above the `k`-th diagonal."""

def triu(x: ArrayLike, /, k: int = 0, *, diagonal: int | None = None) -> Tensor:
    """The upper triangle of matrices; zeros below the `k`-th diagonal."""

def lgamma(x: ArrayLike, /) -> Tensor:
    """Logarithm of the absolute value of the gamma function (DLMF 5.2)."""

def digamma(x: ArrayLike, /) -> Tensor:
    """Derivative of `lgamma` (DLMF 5.2.2)."""

def polygamma(x: ArrayLike, /, n: int) -> Tensor:
    """The `n`-th derivative of `digamma` (DLMF 5.15)."""

def erfinv(x: ArrayLike, /) -> Tensor:
    """The inverse of `erf`: infinite at -1 and 1, NaN beyond."""

def i0(x: ArrayLike, /) -> Tensor:
    """Modified Bessel function of the first kind, of order 0 (DLMF 10.25)."""

def i1(x: ArrayLike, /) -> Tensor:
    """Modified Bessel function of the first kind, of order 1 (DLMF 10.25)."""

def exp2(x: ArrayLike, /) -> Tensor:
    """``2 ** x``."""

def rsqrt(x: ArrayLike, /) -> Tensor:
    """``1 / sqrt(x)``."""

def logit(x: ArrayLike, /, eps: float | None = None) -> Tensor:
    """``log(x / (1 - x))``, the inverse of `sigmoid`; with `eps` of `x` between `eps` and ``1 - eps``, beyond which the gradient is 0."""

def lerp(x1: ArrayLike, x2: ArrayLike, x3: ArrayLike, /) -> Tensor:
    """``x1 + x3 * (x2 - x1)``: from the first to the second by a weight."""

def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The rest of a division that rounds towards 0: it has the sign of ``x1``. An integer by 0 gives 0."""

def nan_to_num(x: ArrayLike, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """NaN replaced by `nan`, infinities by `posinf` and `neginf`, by default the greatest and least numbers of the dtype; there the gradient is 0. Of complex numbers both parts."""

def isclose(x1: ArrayLike, x2: ArrayLike, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: builtins.bool = False) -> Tensor:
    """Whether ``|x1 - x2| <= atol + rtol * |x2|``, or both are the same infinity, or with `equal_nan` both NaN."""

def cummax(x: ArrayLike, /, axis: int = 0, *, dim: int = ..., dims: int = ...) -> Extremes:
    """The greatest of the first 1, 2, … elements along `axis`, and where it is: of equal ones the last."""

def cummin(x: ArrayLike, /, axis: int = 0, *, dim: int = ..., dims: int = ...) -> Extremes:
    """The least of the first 1, 2, … elements along `axis`, and where it is: of equal ones the last."""

def logcumsumexp(x: ArrayLike, /, axis: int = 0, *, dim: int = ..., dims: int = ...) -> Tensor:
    """``log(cumsum(exp(x)))`` along `axis`, without overflow."""

def relu6(x: ArrayLike, /) -> Tensor:
    """``x`` between 0 and 6, else the nearer of the two."""

def hardsigmoid(x: ArrayLike, /) -> Tensor:
    """``relu6(x + 3) / 6``: a sigmoid of straight lines."""

def hardswish(x: ArrayLike, /) -> Tensor:
    """``x * hardsigmoid(x)`` (Howard et al. 2019)."""

def selu(x: ArrayLike, /) -> Tensor:
    """`elu` with the two numbers that keep mean 0 and variance 1 (Klambauer et al. 2017)."""

def celu(x: ArrayLike, /, *, alpha: float = 1.0) -> Tensor:
    """``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)`` (Barron 2017)."""

def softsign(x: ArrayLike, /) -> Tensor:
    """``x / (1 + |x|)``."""

def tanhshrink(x: ArrayLike, /) -> Tensor:
    """``x - tanh(x)``."""

def softshrink(x: ArrayLike, /, *, lambd: float = 0.5) -> Tensor:
    """``x`` brought nearer to 0 by `lambd`, and 0 within that."""

def hardshrink(x: ArrayLike, /, *, lambd: float = 0.5) -> Tensor:
    """``x`` where its size is above `lambd`, else 0."""

def threshold(x: ArrayLike, /, threshold: float, value: float) -> Tensor:
    """``x`` where it is above `threshold`, else `value`."""

def prelu(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``x1`` where it is positive, else ``x1 * x2`` (He et al. 2015)."""

def scaled_softplus(x: ArrayLike, /, *, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``softplus(beta x) / beta``; ``x`` itself where ``beta x`` is above `threshold`."""

def softmin(x: ArrayLike, /, axis: int = -1, *, dim: int = ..., dims: int = ...) -> Tensor:
    """``softmax(-x)`` along `axis`."""

def glu(x: ArrayLike, /, axis: int = -1, *, dim: int = ..., dims: int = ...) -> Tensor:
    """The first half along `axis` times the sigmoid of the second (Dauphin et al. 2016)."""

def gather(x: Any, /, dim: int = ..., index: Any = ..., *, axis: int = ...) -> Tensor: ...

def scatter_reduce(x: Any, /, dim: int = ..., index: Any = ..., src: Any = ..., reduce: str = 'replace', *, include_self: builtins.bool = True, axis: int = ...) -> Tensor: ...

def kthvalue(x: Any, /, k: int, axis: int = -1, keepdims: builtins.bool = False, *, dim: int = ..., dims: int = ..., keepdim: builtins.bool = ...) -> Any: ...

def quantile(x: ArrayLike, /, q: Any, axis: int | None = None, keepdims: builtins.bool = False, method: str = 'linear', *, interpolation: str | None = None, dim: int | None = ..., dims: int | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """The element at a share `q`, between 0 and 1, of the order along `axis`, or of all elements; several stand along a new first axis. `method` says what is between two elements: ``'linear'``, ``'lower'``, ``'higher'``, ``'nearest'`` or ``'midpoint'``. NaN if any element is."""

def median(x: ArrayLike, /, axis: int | None = None, keepdims: builtins.bool = False, *, dim: int | None = ..., dims: int | None = ..., keepdim: builtins.bool = ...) -> Tensor:
    """The middle element along `axis`, or of all; of an even number the mean of the two in the middle. Where it is, `kthvalue` says."""

def diag(x: ArrayLike, /, k: int = 0, *, diagonal: int | None = None) -> Tensor:
    """The `k`-th diagonal of a matrix; of a vector the matrix that has it there, and zeros elsewhere."""

def rot90(x: ArrayLike, /, k: int = 1, axes: Sequence[int] = ..., *, dim: Sequence[int] = ..., dims: Sequence[int] = ...) -> Tensor:
    """Turned by `k` quarters, from the first of two `axes` towards the second. A view."""

def kron(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Kronecker's product: each element of ``x1`` times all of ``x2``, in its place."""

def vander(x: ArrayLike, /, N: int | None = None, increasing: builtins.bool = False) -> Tensor:
    """The powers of a vector's elements as `N` columns, the highest first unless `increasing`."""

def cov(x: ArrayLike, fweights: ArrayLike | None = None, aweights: ArrayLike | None = None, /, *, correction: float = 1) -> Tensor:
    """The covariances of variables, rows of ``x``, over observations, its columns. `fweights` say how often an observation counts, `aweights` how much; `correction` is subtracted from the number of observations."""

def corrcoef(x: ArrayLike, /) -> Tensor:
    """The correlations of variables, rows of ``x``, over observations, its columns."""

def interp(x: ArrayLike, xp: ArrayLike, fp: ArrayLike, /, left: float | None = None, right: float | None = None) -> Tensor:
    """The line through the points (``x2``, ``x3``) at ``x1``; `left` and `right` of them the nearest point's, or what is told."""

def trapezoid(y: ArrayLike, x: ArrayLike | None = None, /, dx: float = 1.0, axis: int = -1, *, dim: int = ..., dims: int = ...) -> Tensor:
    """The integral of ``x1`` along `axis` by trapezoids, at places ``x2``, or `dx` apart."""

def convolve(x1: ArrayLike, x2: ArrayLike, /, mode: str = 'full') -> Tensor:
    """The convolution of two vectors: ``'full'``, ``'same'`` as the longer, ``'valid'`` where they overlap whole."""

def resample(x: ArrayLike, /, *, axis: int = ..., length: int, count: int, mode: str = 'linear', scale: float = 1.0, align_corners: builtins.bool = False, antialias: builtins.bool = False, dim: int = ..., dims: int = ...) -> Tensor:
    """Elements along `axis`, of `length`, as weighted sums of neighbours, `count` of them: `interpolate` along one axis. `scale` is the distance of two of the result in the input."""

def interpolate(x: ArrayLike, /, size: Any = None, scale_factor: Any = None, mode: str = 'nearest', align_corners: builtins.bool | None = None, recompute_scale_factor: builtins.bool | None = None, antialias: builtins.bool = False) -> Tensor:
    """(batch, channels, *spatial) at another `size`, or `scale_factor` times as large. `mode` is ``'nearest'``, ``'nearest-exact'`` or ``'area'``; ``'linear'``, ``'bilinear'`` or ``'trilinear'`` by the number of spatial axes; ``'bicubic'``. `align_corners`: the first and last elements keep their places, rather than the edges of the image. `recompute_scale_factor`: elements are as far apart as the sizes say. `antialias`: of ``'bilinear'`` and ``'bicubic'`` all elements of a larger input count."""

def adaptive_avg_pool(x: ArrayLike, /, output_size: Any) -> Tensor:
    """The means of `output_size` windows that cover the spatial axes of (batch, channels, *spatial) evenly."""

def affine_grid(theta: ArrayLike, /, size: Any, align_corners: builtins.bool | None = None) -> Tensor:
    """Where the elements of an output of `size` come from: (batch, 2, 3) to (batch, height, width, 2), or in 3-d."""

def grid_sample(x: ArrayLike, grid: ArrayLike, /, mode: str = 'bilinear', padding_mode: str = 'zeros', align_corners: builtins.bool | None = None) -> Tensor:
    """Elements of (batch, channels, *spatial) at the places of a grid (batch, *output, 2 or 3), between -1 and 1, whose last axis counts the last spatial axis first. `mode` is ``'bilinear'`` (of three axes too), ``'nearest'`` or, of two axes, ``'bicubic'``; `padding_mode`, what is outside, ``'zeros'``, ``'border'`` or ``'reflection'``. `align_corners`: -1 and 1 are the places of the first and last elements, rather than the edges of the image."""

def pixel_shuffle(x: ArrayLike, /, upscale_factor: int) -> Tensor:
    """(…, channels * r**2, height, width) to (…, channels, height * r, width * r) (Shi et al. 2016)."""

def pixel_unshuffle(x: ArrayLike, /, downscale_factor: int) -> Tensor:
    """The inverse of `pixel_shuffle`."""

def channel_shuffle(x: ArrayLike, /, groups: int) -> Tensor:
    """Channels (axis 1) of the groups taken in turn (Zhang et al. 2018)."""

def max_pool_with_indices(x: ArrayLike, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: builtins.bool = False) -> Pooled:
    """The greatest element in each window, and where it is among the flattened spatial axes. With `ceil_mode` also of windows that reach beyond the padding."""

def adaptive_max_pool_with_indices(x: ArrayLike, /, output_size: Any) -> Pooled:
    """The greatest elements of `output_size` windows that cover the spatial axes evenly, and where they are."""

def fractional_max_pool_with_indices(x: ArrayLike, samples: ArrayLike, /, kernel_size: Any, output_size: Any) -> Pooled:
    """The greatest elements of windows whose distances vary between two whole numbers, as ``x2`` (batch, channels, spatial axes), between 0 and 1, has it (Graham 2014), and where they are."""

def max_unpool(x: ArrayLike, indices: ArrayLike, /, size: Any) -> Tensor:
    """Zeros of spatial shape `size` with the elements of ``x1`` where ``x2`` says: the other way round than `max_pool_with_indices`."""

def padded_avg_pool(x: ArrayLike, /, kernel_size: Any, *, stride: Any = None, padding: Any = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: int | None = None) -> Tensor:
    """Mean of each window of (batch, channels, *spatial). With `ceil_mode` also of windows that reach beyond the padding; without `count_include_pad` the zeros of the padding do not count; `divisor_override` is what sums are divided by."""

def lp_pool(x: ArrayLike, /, norm_type: float, kernel_size: Any, *, stride: Any = None, ceil_mode: builtins.bool = False) -> Tensor:
    """The p-norm of each window of (batch, channels, *spatial), `p` being `norm_type`."""

def group_norm(x: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None, /, *, num_groups: int, eps: float = 1e-05) -> Tensor:
    """Each of `num_groups` groups of channels (axis 1) of each example by its own mean and variance (Wu & He 2018), times ``weight``, plus ``bias``, of one number for each channel."""

def instance_norm(x: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None, /, *, eps: float = 1e-05) -> Tensor:
    """Each channel (axis 1) of each example by its own mean and variance (Ulyanov et al. 2016), times ``weight``, plus ``bias``."""

def local_response_norm(x: ArrayLike, /, size: int, *, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """``x / (k + alpha * mean of squares of size channels around) ** beta`` (Krizhevsky et al. 2012)."""

def normalize(x: ArrayLike, /, axis: int = 1, *, p: float = 2.0, eps: float = 1e-12, dim: int = ..., dims: int = ...) -> Tensor:
    """Over the p-norms along `axis`, or `eps` where they are less."""

def cosine_similarity(x1: ArrayLike, x2: ArrayLike, /, axis: int = 1, *, eps: float = 1e-08, dim: int = ..., dims: int = ...) -> Tensor:
    """``sum(x1 * x2) / (max(|x1|, eps) * max(|x2|, eps))`` along `axis`."""

def pairwise_distance(x1: ArrayLike, x2: ArrayLike, /, *, p: float = 2.0, eps: float = 1e-06, keepdims: builtins.bool = False, keepdim: builtins.bool = ...) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last axis."""

def pdist(x: ArrayLike, /, *, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows, by the p-norm, those of the first row first."""

def cdist(x1: ArrayLike, x2: ArrayLike, /, *, p: float = 2.0) -> Tensor:
    """The distances of all rows of ``x1`` from all of ``x2``, by the p-norm: (..., n, features) and (..., m, features) to (..., n, m)."""

def bilinear(x1: ArrayLike, x2: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, /) -> Tensor:
    """``x1 @ weight[o] @ x2 + bias[o]`` for each output feature `o`: the third operand and the fourth."""

def smooth_l1_loss(x: ArrayLike, y: ArrayLike, /, *, beta: float = 1.0, reduction: str = 'mean') -> Tensor:
    """`huber_loss` over `beta`; for 0 it is `l1_loss`."""

def binary_cross_entropy(p: ArrayLike, target: ArrayLike, /, weight: ArrayLike | None = None, *, reduction: str = 'mean') -> Tensor:
    """``-y * log(p) - (1 - y) * log(1 - p)`` of probabilities, times `weight`; logarithms are no less than -100, so that certain mistakes stay finite."""

def poisson_nll_loss(x: ArrayLike, target: ArrayLike, /, *, log_input: builtins.bool = True, full: builtins.bool = False, eps: float = 1e-08, reduction: str = 'mean') -> Tensor:
    """``exp(x) - y * x`` of the logarithm of a rate, or without `log_input` ``x - y * log(x + eps)`` of the rate; `full` adds Stirling's approximation of the logarithm of the factorial of the count."""

def gaussian_nll_loss(x: ArrayLike, target: ArrayLike, var: ArrayLike, /, *, full: builtins.bool = False, reduction: str = 'mean') -> Tensor:
    """``(log(x3) + (x1 - x2)**2 / x3) / 2`` of a mean, a target and a variance; `full` adds the constant."""

def soft_margin_loss(x: ArrayLike, target: ArrayLike, /, *, reduction: str = 'mean') -> Tensor:
    """``log(1 + exp(-x2 * x1))`` of targets ``x2``, 1 and -1."""

def hinge_embedding_loss(x: ArrayLike, target: ArrayLike, /, *, margin: float = 1.0, reduction: str = 'mean') -> Tensor:
    """The distance ``x1`` itself of target 1; how far it is short of `margin` of target -1."""

def margin_ranking_loss(x1: ArrayLike, x2: ArrayLike, target: ArrayLike, /, *, margin: float = 0.0, reduction: str = 'mean') -> Tensor:
    """How far ``x1`` is short of being `margin` above ``x2`` (target 1), or below it (target -1)."""

def cosine_embedding_loss(x1: ArrayLike, x2: ArrayLike, target: ArrayLike, /, *, margin: float = 0.0, reduction: str = 'mean') -> Tensor:
    """One less the cosine of ``x1`` and ``x2`` of target 1; how far it is above `margin` of target -1."""

def triplet_margin_loss(anchor: ArrayLike, positive: ArrayLike, negative: ArrayLike, /, *, margin: float = 1.0, p: float = 2.0, eps: float = 1e-06, swap: builtins.bool = False, reduction: str = 'mean') -> Tensor:
    """How far the negative ``x3`` is short of being `margin` further from the anchor ``x1`` than the positive ``x2``, by `pairwise_distance`; with `swap` its distance from the positive counts where that is less."""

def multi_margin_loss(x: ArrayLike, target: ArrayLike, /, weight: ArrayLike | None = None, *, p: int = 1, margin: float = 1.0, reduction: str = 'mean') -> Tensor:
    """Of each wrong class, to the power `p`, how far its score is short of being `margin` below that of the right one, which ``x2`` names, times the right one's `weight`; over the number of classes."""

def multilabel_margin_loss(x: ArrayLike, target: ArrayLike, /, *, reduction: str = 'mean') -> Tensor:
    """How far each wrong class is short of being 1 below each right one, over the number of classes. The right ones stand first in a row of ``x2``, up to the first -1."""

def multilabel_soft_margin_loss(x: ArrayLike, target: ArrayLike, /, weight: ArrayLike | None = None, *, reduction: str = 'mean') -> Tensor:
    """`binary_cross_entropy_with_logits` of each class, times `weight`, averaged over the last axis."""

def bags(rows: ArrayLike, starts: ArrayLike, counted: ArrayLike | None = None, /, *, mode: str = 'sum') -> Tensor:
    """The sum, mean or maximum, by `mode`, of the rows of ``x1`` in each bag; ``x2`` says where bags start, and ``x3``, bools, which rows count."""

def topk(x: Tensor, k: int, /, axis: int = -1, largest: builtins.bool = True, sorted: builtins.bool = True, *, dim: int = ..., dims: int = ...) -> TopK: ...

def unstack(x: Tensor, /, axis: int = 0, *, dim: int = ..., dims: int = ...) -> tuple[Tensor, ...]: ...

def cumprod(x: Any, /, axis: int | None = None, *, dtype: Any = None, dim: int | None = ..., dims: int | None = ...) -> Tensor: ...

def cumsum(x: Any, /, axis: int | None = None, *, dtype: Any = None, dim: int | None = ..., dims: int | None = ...) -> Tensor: ...

def norm(x: Any, /, ord: Any = 2, axis: Any = None, keepdims: builtins.bool = False, *, p: Any = None, dim: Any = ..., dims: Any = ..., keepdim: builtins.bool = ...) -> Tensor: ...

def index_select(x: Any, /, dim: int = ..., index: Any = ..., *, axis: int = ...) -> Tensor: ...

def scatter_add(x: Any, /, dim: int = ..., index: Any = ..., src: Any = ..., *, axis: int = ...) -> Tensor: ...

def chunk(x: Any, chunks: int, /, axis: int = 0, *, dim: int = ..., dims: int = ...) -> tuple[Tensor, ...]: ...

def diagonal(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1, *, dim1: int = ..., dim2: int = ...) -> Tensor: ...

def repeat_interleave(x: Any, repeats: Any, /, axis: int | None = None, *, dim: int | None = ..., dims: int | None = ...) -> Tensor: ...

def split(x: Any, split_size_or_sections: Any, /, axis: int = 0, *, dim: int = ..., dims: int = ...) -> tuple[Tensor, ...]: ...

def trace(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1, *, dim1: int = ..., dim2: int = ...) -> Tensor: ...

def cross(x1: ArrayLike, x2: ArrayLike, /, axis: int = -1, *, dim: int = ..., dims: int = ...) -> Tensor:
    """The cross product of vectors of three elements along `axis`."""

__all__ = [
    "DType",
    "Device",
    "GradScaler",
    "Layer",
    "MLP",
    "MicrogradError",
    "Neuron",
    "Tensor",
    "Value",
    "__array_namespace_info__",
    "abs",
    "acos",
    "acosh",
    "adaptive_avg_pool",
    "adaptive_max_pool_with_indices",
    "add",
    "add_along_axis",
    "affine_grid",
    "all",
    "allclose",
    "amp",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "attention_weights",
    "autocast",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "bags",
    "batch_norm",
    "batch_norm_gradients",
    "bfloat16",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "can_cast",
    "cdist",
    "ceil",
    "celu",
    "channel_shuffle",
    "checkpoint",
    "checkpoints",
    "chunk",
    "clip",
    "complex",
    "complex128",
    "complex64",
    "concat",
    "conj",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolve",
    "copy",
    "copysign",
    "corrcoef",
    "cos",
    "cosh",
    "cosine_embedding_loss",
    "cosine_similarity",
    "count_nonzero",
    "cov",
    "cross",
    "cross_entropy",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "custom_gradient",
    "custom_jvp",
    "data",
    "default_device",
    "detect_anomaly",
    "diag",
    "diagonal",
    "diff",
    "digamma",
    "divide",
    "draw",
    "dropout",
    "e",
    "einsum",
    "elu",
    "embedding",
    "empty",
    "empty_like",
    "enable_grad",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "errors",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "eye",
    "fft",
    "finfo",
    "flatten",
    "flip",
    "float16",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "fmod",
    "fractional_max_pool_with_indices",
    "from_dlpack",
    "full",
    "full_like",
    "gather",
    "gaussian_nll_loss",
    "gelu",
    "getitem",
    "glu",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "greater",
    "greater_equal",
    "grid_sample",
    "group_norm",
    "gru",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hessian",
    "hinge_embedding_loss",
    "histogram",
    "huber_loss",
    "hvp",
    "hypot",
    "i0",
    "i1",
    "iinfo",
    "imag",
    "index_add",
    "index_max",
    "index_min",
    "index_multiply",
    "index_scale",
    "index_select",
    "index_set",
    "inf",
    "instance_norm",
    "int16",
    "int32",
    "int64",
    "int8",
    "interp",
    "interpolate",
    "is_grad_enabled",
    "isclose",
    "isdtype",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "kl_div",
    "kron",
    "kthvalue",
    "l1_loss",
    "last_position",
    "layer_norm",
    "layer_norm_gradients",
    "leaky_relu",
    "lerp",
    "less",
    "less_equal",
    "lgamma",
    "linalg",
    "linear",
    "linear_index",
    "linearize",
    "linspace",
    "local_response_norm",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_sigmoid",
    "log_softmax",
    "logaddexp",
    "logcumsumexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logsumexp",
    "lp_pool",
    "lstm",
    "margin_ranking_loss",
    "masked_fill",
    "masked_select",
    "matmul",
    "matrix_transpose",
    "max",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool_with_indices",
    "max_unpool",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "mish",
    "moveaxis",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "multiply",
    "nan",
    "nan_to_num",
    "negative",
    "newaxis",
    "nextafter",
    "nll_loss",
    "nn",
    "no_grad",
    "nonzero",
    "norm",
    "normalize",
    "not_equal",
    "one_hot",
    "ones",
    "ones_like",
    "optim",
    "outer",
    "pad",
    "padded_avg_pool",
    "pairwise_distance",
    "patches",
    "pdist",
    "permute_dims",
    "pi",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "polygamma",
    "positive",
    "pow",
    "prelu",
    "prod",
    "quantile",
    "random",
    "random_uniform_from",
    "real",
    "reciprocal",
    "relu",
    "relu6",
    "remainder",
    "repeat",
    "repeat_interleave",
    "resample",
    "reshape",
    "result_type",
    "rms_norm",
    "rnn",
    "roll",
    "rot90",
    "round",
    "rsqrt",
    "scaled_dot_product_attention",
    "scaled_softplus",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "selu",
    "set_default_device",
    "set_matmul_precision",
    "shares_memory",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "sin",
    "sinh",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "sort",
    "split",
    "spread",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "standardize",
    "std",
    "subtract",
    "sum",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tanhshrink",
    "tensordot",
    "threshold",
    "tile",
    "times_normal",
    "topk",
    "trace",
    "trapezoid",
    "tril",
    "triplet_margin_loss",
    "triu",
    "trunc",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "use_device",
    "value_and_grad",
    "vander",
    "var",
    "vecdot",
    "vjp",
    "vmap",
    "where",
    "zeros",
    "zeros_like",
]
