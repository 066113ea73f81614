"""Methods that those type who come from PyTorch or NumPy: another name for what a tensor has, or for a function.

A name that a tensor cannot have, as it means two things or nothing here, says what to use in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from micrograd_core.array.operators import Operators, unary
from micrograd_core.device import Device
from micrograd_core.engine.apply import apply_single, reduction
from micrograd_core.engine.array import refuse_leaf
from micrograd_core.engine.write import write
from micrograd_core.errors import ShapeError
from micrograd_core.layout import resolve_axis
from micrograd_core.ops import TABLE
from micrograd_core.ops.shared import both_spellings

if TYPE_CHECKING:
    from micrograd_core.array.tensor import Tensor

Method = Callable[..., Any]
EXPAND_DIMS: Final = TABLE["expand_dims"]


class MethodDoc(str):
    """A docstring that names a function and a method. `inspect.getdoc`, and so `help`, adds what the function says.

    Only then is the docstring of the function made, and its family of operations imported.
    """

    def function(self) -> Any:
        """The function."""
        from pkgutil import resolve_name

        return resolve_name(self.split("`")[1])

    def expandtabs(self, tabsize: Any = 8) -> str:
        """What `inspect.getdoc` calls first: here it gives the whole docstring."""
        from micrograd_core.array.documentation import method_docstring

        return method_docstring(self, self.split("`")[3], self.function())


def along(name: str) -> Method:
    """A method that works along one axis, the last by default."""

    def method(x: Any, axis: Any = -1, *, dtype: Any = None) -> Any:
        if dtype is not None:
            x = x.astype(dtype)
        if not x.ndim:
            return getattr(x.__array_namespace__(), name)(x, axis)
        return apply_single(TABLE[name], x, {"axis": resolve_axis(name, axis, x.ndim)})

    method.__name__ = name
    return both_spellings(method)


def by_words(name: str) -> Method:
    """A reduction that is PyTorch's where its words are used, and NumPy's otherwise: see `manners`."""
    plain = reduction(name)

    def method(x: Any, *args: Any, **named: Any) -> Any:
        if not args and not named and name in ("max", "min"):
            return plain(x)
        from micrograd_core.array import manners

        return manners.by_words(plain, name, x, args, named)

    method.__name__ = name
    return method


def in_manner(name: str) -> Method:
    """A method that `manners` has."""

    def method(x: Any, *args: Any, **named: Any) -> Any:
        from micrograd_core.array import manners

        return getattr(manners, name)(x, *args, **named)

    method.__name__ = name
    return method


def of_package(name: str) -> Method:
    """The function of that name of `micrograd_core`, whose first argument is the tensor."""

    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(x.__array_namespace__(), name)(x, *args, **kwargs)

    method.__name__ = name
    return method


def in_place(name: str) -> Method:
    """The method of that name, whose result is written into the tensor: PyTorch's methods that end in ``_``."""

    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_leaf(x)
        found = getattr(x.copy(), name)(*args, **kwargs)
        truth = found.dtype.kind == "bool"  # of comparisons
        return _became(x, found.astype(x.dtype) if truth else found, *args[:1])

    method.__name__ = f"{name}_"
    return method


def _became(x: Any, found: Any, operand: Any = 0) -> Any:
    """`x`, once `found`, which nobody else has, is written into it, by the rules of ``x += operand``."""
    write(x, ..., found, operand)
    return x


def converted(dtype: str) -> Method:
    """A method that converts elements."""

    def method(x: Any) -> Any:
        return x.astype(dtype)

    method.__doc__ = f"``x.astype({dtype!r})``."
    return method


def _axes(axes: tuple[Any, ...]) -> Any:
    return axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes


def _drawn(x: Any, name: str, first: Any, second: Any, generator: Any) -> Tensor:
    draw = getattr(x.__array_namespace__().random, name)
    return draw(x.shape, first, second, dtype=x.dtype, device=x.device, generator=generator)


class Methods(Operators):
    """What a tensor has beside the standard's operators, and beside its own methods."""

    __slots__ = ()

    __array__, _without_gradient = map(in_manner, ("as_ndarray", "without_gradient"))

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """``ndarray * Tensor`` comes to the tensor's own operators; NumPy's functions say what to call instead."""
        reflected = REFLECTED.get(function.__name__)
        if method == "__call__" and reflected and not options and not isinstance(inputs[0], Methods):
            return getattr(inputs[1], reflected)(inputs[0])
        name = NUMPY.get(function.__name__, function.__name__)
        ours = f"mg.{name}(x), with mg for micrograd_core, or " if name in TABLE else ""
        raise TypeError(
            f"np.{function.__name__} takes NumPy's arrays; write {ours}np.{function.__name__}(x.detach().numpy())"
        )

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The methods of `MADE`, for checkers that read no stubs."""

    # ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────

    @both_spellings
    def expand_dims(self: Any, axis: int | tuple[int, ...]) -> Tensor:
        """Axes of length 1 inserted. A view."""
        return apply_single(EXPAND_DIMS, self, EXPAND_DIMS.parameters(self, axis))  # type: ignore[misc]

    unsqueeze = expand_dims

    def view(self: Any, *shape: Any) -> Tensor:
        """``x.reshape(shape)``, which is a view where it can be; of a dtype, refused: bits are not read anew."""
        if len(shape) == 1 and not isinstance(shape[0], (int, tuple, list)):
            raise TypeError(f"view: a shape is integers; got {shape[0]!r}. To convert elements, x.astype(dtype)")
        return self.reshape(*shape)

    def view_as(self: Any, other: Any) -> Tensor:
        """``x.reshape(other.shape)``."""
        return self.reshape(other.shape)

    reshape_as = view_as

    def permute(self: Any, *dims: Any, **named: Any) -> Tensor:
        """``x.permute_dims(dims)``: axes in another order. A view."""
        if named:
            return self.__array_namespace__().permute_dims(self, *dims, **named)
        return self.permute_dims(_axes(dims))

    def expand(self: Any, *sizes: Any) -> Tensor:
        """``x.broadcast_to(sizes)``, where -1 leaves a length as it is. A view."""
        wanted = tuple(_axes(sizes))
        missing = len(wanted) - self.ndim
        if missing < 0 or any(n == -1 for n in wanted[:missing]):
            raise ShapeError(f"expand: sizes {wanted} do not fit shape {self.shape}; there are at least as many, and a "
                             "new axis has a length")  # fmt: skip
        own = (*wanted[:missing], *self.shape)
        return self.broadcast_to(tuple(own[i] if n == -1 else n for i, n in enumerate(wanted)))

    def expand_as(self: Any, other: Any) -> Tensor:
        """``x.broadcast_to(other.shape)``."""
        return self.broadcast_to(other.shape)

    def flatten(self: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """The axes from `start_dim` to `end_dim` made one."""
        if not self.ndim:
            return self.reshape(1)
        start, end = (resolve_axis("flatten", each, self.ndim) for each in (start_dim, end_dim))
        return self.reshape((*self.shape[:start], -1, *self.shape[end + 1 :])) if start <= end else self

    @both_spellings
    def unflatten(self: Any, dim: int, sizes: Any) -> Tensor:
        """An axis made several; one of `sizes` may be -1."""
        at = resolve_axis("unflatten", dim, self.ndim)
        lengths = list(sizes)
        if -1 in lengths:
            known = math.prod(n for n in lengths if n != -1)
            lengths[lengths.index(-1)] = self.shape[at] // max(known, 1)
        return self.reshape((*self.shape[:at], *lengths, *self.shape[at + 1 :]))

    def ravel(self: Any) -> Tensor:
        """``x.reshape(-1)``."""
        return self.reshape(-1)

    def transpose(self: Any, *axes: Any, dim0: Any = None, dim1: Any = None) -> Tensor:
        """Two axes exchanged: ``x.transpose(0, 1)``; without arguments, all axes reversed. A view.

        Three or more axes, or a tuple of them, give the whole new order; `dim0` and `dim1` are PyTorch's words for two.
        """
        axes = tuple(axis for axis in (*axes, dim0, dim1) if axis is not None)
        if len(axes) == 2:
            order = list(range(self.ndim))
            i, j = (resolve_axis("transpose", axis, self.ndim) for axis in axes)
            order[i], order[j] = j, i
            return self.permute_dims(tuple(order))
        return self.permute_dims(*axes) if axes else self.permute_dims(tuple(range(self.ndim))[::-1])

    def t(self: Any) -> Tensor:
        """The transpose of a matrix; a vector as it is. A view."""
        return self.T if self.ndim > 1 else self

    @both_spellings
    def swapaxes(self: Any, axis1: int, axis2: int) -> Tensor:
        """``x.transpose(axis1, axis2)``. A view."""
        return self.transpose(axis1, axis2)

    swapdims = swapaxes

    @both_spellings
    def narrow(self: Any, dim: int, start: int, length: int) -> Tensor:
        """``x[start:start + length]`` along the axis `dim`. A view."""
        return self.slice(dim, start, start + length)

    @both_spellings
    def select(self: Any, dim: int, index: int) -> Tensor:
        """``x[index]`` along the axis `dim`. A view."""
        at = resolve_axis("select", dim, self.ndim)
        return self[(*(slice(None),) * at, index)]

    @both_spellings
    def slice(self: Any, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
        """``x[start:stop:step]`` along the axis `dim`. A view."""
        at = resolve_axis("slice", dim, self.ndim)
        return self[(*(slice(None),) * at, slice(start, stop, step))]

    @both_spellings
    def unbind(self: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """``mg.unstack(x, axis=dim)``."""
        return self.__array_namespace__().unstack(self, axis=dim)

    # ── numbers of axes and elements, types, places ──────────────────────────────────────────────────────────

    def dim(self: Any) -> int:
        """``x.ndim``."""
        return self.ndim

    def numel(self: Any) -> int:
        """``x.size``: the number of elements."""
        return self.size

    nelement = numel
    ndimension = dim

    @property
    def itemsize(self: Any) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self: Any) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    def element_size(self: Any) -> int:
        """``x.itemsize``."""
        return self.dtype.itemsize

    @property
    def real(self: Any) -> Tensor:
        """``mg.real(x)``; of real numbers `x` itself."""
        return self.__array_namespace__().real(self) if self.dtype.is_complex else self

    @property
    def imag(self: Any) -> Tensor:
        """``mg.imag(x)``; of real numbers zeros."""
        return self.__array_namespace__().imag(self) if self.dtype.is_complex else self.new_zeros(self.shape)

    @property
    def mH(self: Any) -> Tensor:  # noqa: N802
        """``x.mT.conj()``: the last two axes exchanged, of conjugates."""
        return self.mT.conj()

    @property
    def H(self: Any) -> Tensor:  # noqa: N802
        """``x.T.conj()``, of a matrix."""
        return self.T.conj()

    def clone(self: Any) -> Tensor:
        """``x.copy()``, through which gradients flow."""
        return self.copy()

    def contiguous(self: Any) -> Tensor:
        """The tensor itself if it is contiguous, else a contiguous copy."""
        return self if self.is_contiguous() else self.copy()

    def type(self: Any, dtype: Any = None) -> Any:
        """``x.astype(dtype)``; without a dtype the name of the tensor's own."""
        return str(self.dtype) if dtype is None else self.astype(dtype)

    def type_as(self: Any, other: Any) -> Tensor:
        """``x.astype(other.dtype)``."""
        return self.astype(other.dtype)

    def is_floating_point(self: Any) -> bool:
        """Whether the numbers are real floating: not of complex ones, as torch has it."""
        return self.dtype.is_floating and not self.dtype.is_complex

    def is_complex(self: Any) -> bool:
        """``x.dtype.is_complex``."""
        return self.dtype.is_complex

    def cpu(self: Any) -> Tensor:
        """``to("cpu")``."""
        return self.to("cpu")

    def cuda(self: Any, index: Any = 0) -> Tensor:
        """``to("cuda:index")``."""
        return self.to(Device.cuda(index))

    def requires_grad_(self: Any, requires_grad: Any = True) -> Tensor:
        """``x.requires_grad = …``, and `x`."""
        self.requires_grad = requires_grad
        return self

    def detach_(self: Any) -> Any:
        """Refuse: a tensor stays part of what it was computed by."""
        raise TypeError("a tensor stays part of its graph; write x = x.detach()")

    def new_tensor(
        self: Any, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False
    ) -> Tensor:
        """A tensor of the dtype, and on the device, of this one."""
        return self.__array_namespace__().asarray(
            data, dtype=dtype or self.dtype, device=device or self.device, copy=True, requires_grad=requires_grad
        )

    def new_full(self: Any, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
        """``mg.full`` of the dtype, and on the device, of this one."""
        make = self.__array_namespace__().full
        return make(size, fill_value, dtype=dtype or self.dtype, device=device or self.device)

    def new_zeros(self: Any, *size: Any, dtype: Any = None, device: Any = None) -> Tensor:
        """``mg.zeros`` of the dtype, and on the device, of this one."""
        return self.new_full(_axes(size), 0, dtype=dtype, device=device)

    new_empty = new_zeros

    def new_ones(self: Any, *size: Any, dtype: Any = None, device: Any = None) -> Tensor:
        """``mg.ones`` of the dtype, and on the device, of this one."""
        return self.new_full(_axes(size), 1, dtype=dtype, device=device)

    # ── selection, reductions ────────────────────────────────────────────────────────────────────────────────

    def where(self: Any, condition: Any, other: Any) -> Tensor:
        """``mg.where(condition, x, other)``."""
        return self.__array_namespace__().where(condition, self, other)

    softmax = along("softmax")
    log_softmax = along("log_softmax")

    @both_spellings
    def polygamma(self: Any, n: Any) -> Tensor:
        """``mg.polygamma(x, n)``: the n-th derivative of `digamma`."""
        return self.__array_namespace__().polygamma(self, n)

    # ── in place ─────────────────────────────────────────────────────────────────────────────────────────────

    def fill_(self: Any, value: Any) -> Tensor:
        """``x[...] = value``, and `x`."""
        refuse_leaf(self)
        if isinstance(value, self.__class__):
            return _became(self, value.broadcast_to(self.shape).copy())
        return _became(self, self.__array_namespace__().full_like(self, value))

    def normal_(self: Any, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None) -> Tensor:
        """``x[...] = mg.random.normal(x.shape, mean, std)``, and `x`."""
        return self.fill_(_drawn(self, "normal", mean, std, generator))

    def uniform_(self: Any, low: Any = 0.0, high: Any = 1.0, *, generator: Any = None) -> Tensor:
        """``x[...] = mg.random.uniform(x.shape, low, high)``, and `x`."""
        return self.fill_(_drawn(self, "uniform", low, high, generator))

    def zero_(self: Any) -> Tensor:
        """``x[...] = 0``, and `x`."""
        return self.fill_(0)

    def copy_(self: Any, other: Any) -> Tensor:
        """``x[...] = other``, of any dtype, and `x`."""
        return self.fill_(self.__array_namespace__().asarray(other, device=self.device).astype(self.dtype))

    @property
    def is_cuda(self: Any) -> bool:
        """Whether the tensor is on a device of CUDA."""
        return self.device.is_cuda()

    is_xpu = is_mps = is_meta = is_sparse = is_quantized = property(lambda x: False)


REFLECTED: Final = {
    "add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__",
    "true_divide": "__rtruediv__", "floor_divide": "__rfloordiv__", "remainder": "__rmod__", "power": "__rpow__",
    "matmul": "__rmatmul__", "bitwise_and": "__rand__", "bitwise_or": "__ror__", "bitwise_xor": "__rxor__",
    "left_shift": "__rlshift__", "right_shift": "__rrshift__", "less": "__gt__", "less_equal": "__ge__",
    "greater": "__lt__", "greater_equal": "__le__", "equal": "__eq__", "not_equal": "__ne__",
}  # fmt: skip
"""NumPy's functions behind its operators, and what of a tensor on the right does the same."""

NUMPY: Final = {
    "power": "pow", "absolute": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "conjugate": "conj", "rint": "round",
    "invert": "bitwise_invert", "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
    "true_divide": "divide", "mod": "remainder",
}  # fmt: skip
"""NumPy's names of operations that the standard calls otherwise."""

MADE: Final = {
    converted: """
        float=float32 double=float64 half=float16 bfloat16 int=int32 long=int64 short=int16 char=int8 byte=uint8 bool
        cfloat=complex64 cdouble=complex128
    """,
    reduction: "sum mean any all argmax logsumexp amax=max amin=min",
    by_words: "max min var std",
    in_manner: "sort unique repeat nonzero add_ subtract_ sub_=subtract addcmul_ addcdiv_ numpy median=middle",
    unary: """
        abs_ sign_ floor_ ceil_ isnan isfinite exp_ expm1_ log_ log1p_ sqrt_ square_ sin_ cos_ tanh_ sigmoid_ relu_
        copy negative_ positive reciprocal_ round_ trunc_ log2_ log10_ tan_ asin_ acos_ atan_ sinh_ cosh_ asinh_
        acosh_ atanh_ isinf signbit conj bitwise_not_=bitwise_invert neg_=negative absolute_=abs
    """,
    of_package: """
        squeeze flip moveaxis roll tile rot90 split chunk repeat_interleave diag diagonal trace tril_ triu_ gather
        index_select masked_fill_ masked_select scatter_ scatter_add_ scatter_reduce_ argwhere searchsorted
        argmin argsort prod count_nonzero cumsum_ cumprod_ cummax cummin logcumsumexp diff topk kthvalue
        quantile cov corrcoef norm multiply_ divide_ floor_divide_ remainder_ fmod_ pow_ maximum
        minimum atan2_ hypot_ logaddexp lerp_ nextafter isclose allclose greater_ greater_equal_ less_ less_equal_
        not_equal_ logical_and_ logical_or_ logical_xor_ logical_not_ bitwise_and_ bitwise_or_ bitwise_xor_
        bitwise_left_shift_ bitwise_right_shift_ clip_ nan_to_num_ logit_ rsqrt_ exp2_ copysign_ outer kron cross erf_
        erfc_ erfinv_ lgamma_ digamma_ i0_ movedim=moveaxis take_along_dim=take_along_axis
        mul_=multiply div_=divide true_divide_=divide eq_=equal ne_=not_equal lt_=less le_=less_equal
        gt_=greater ge_=greater_equal clamp_=clip matmul dot=matmul mm=matmul bmm=matmul mv=matmul
    """,
}
"""Names of methods by what makes them; ``name=target`` is another name of a target.

A name with a ``_`` at the end has two methods: ``name``, and PyTorch's ``name_``, which writes in place.
"""

for _make, _words in MADE.items():
    _home = "micrograd_core.array.manners" if _make is in_manner else "micrograd_core"
    for _word in _words.split():
        _written, _, _target = _word.partition("=")
        _name = _written.removesuffix("_")
        for _each in dict.fromkeys((_name, _written)):
            _method = _make(_target or _name) if _each == _name else in_place(_name)
            if _make is not converted:
                _effect = ", which writes its result into the tensor and returns the tensor" * (_each != _name)
                _method.__doc__ = MethodDoc(f"`{_home}.{_target or _name}` as the method `{_each}`{_effect}.")
            setattr(Methods, _each, _method)
