"""Functions whose arguments or results are PyTorch's, in terms of ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import micrograd_core as mg
from micrograd_core import checkpoints, random
from micrograd_core.array import manners
from micrograd_core.array.methods import MethodDoc
from micrograd_core.array.tensor import Tensor as _Tensor
from micrograd_core.device import Device
from micrograd_core.dtypes import dtype as as_dtype
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional import embedding as embedding
from micrograd_core.support.context import grad_modes

HERE: Final = ("layout", "pin_memory", "memory_format", "non_blocking")
"""Arguments that say how PyTorch keeps memory. They change no number, so they are dropped."""


class Pair(NamedTuple):
    """A standard deviation or a variance, and the mean.

    Parameters
    ----------
    spread : Tensor
        The deviation or the variance.
    mean : Tensor
        The mean.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.std_mean(torch.tensor([1.0, 1.0]))
    Pair(spread=Tensor(0.), mean=Tensor(1.))
    """

    spread: _Tensor
    mean: _Tensor


class StandIn(type):
    """The metaclass of `Tensor` and `device`, which have no objects of their own.

    `isinstance` asks the class `made`, and a call makes objects of it.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> isinstance(torch.zeros(2), torch.Tensor)
    True
    """

    made: Any

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, cls.made)


class Tensor(metaclass=StandIn):
    """The class of tensors; called, it makes a float32 tensor that records nothing.

    Parameters
    ----------
    *data : int, or one array or nested sequence of numbers
        The lengths of the axes of a tensor of zeros; or the elements.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.Tensor(2), torch.Tensor([1, 2])
    (Tensor([0., 0.]), Tensor([1., 2.]))
    """

    made = _Tensor

    def __new__(cls, *data: Any) -> _Tensor:  # type: ignore[misc]
        """A tensor."""
        return _legacy(data, mg.float32)


class device(metaclass=StandIn):  # noqa: N801
    """The class of devices; called, it opens one.

    Parameters
    ----------
    kind : str
        Such as ``"cpu"`` or ``"cuda:1"``.
    index : int, optional
        Which one of that kind.

    Returns
    -------
    Device

    Raises
    ------
    BackendNotFound, BackendBroken, BackendIncompatible, DeviceUnavailable

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.device("cpu", 0)
    Device('cpu')
    """

    made = Device

    def __new__(cls, kind: Any, index: int | None = None) -> Device:  # type: ignore[misc]
        """A device."""
        return Device(kind if index is None else f"{kind}:{index}")


class Generator(random.Generator):
    """A stream of random numbers, whose seed can be set later. It starts with the seed 0.

    Parameters
    ----------
    device : optional
        Ignored: a stream gives the same numbers on all devices.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> x = torch.rand(2, generator=torch.Generator().manual_seed(7))
    """

    def __init__(self, device: Any = None) -> None:
        super().__init__(0)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of a seed.

        Parameters
        ----------
        seed : int
            Taken modulo 2**128.

        Returns
        -------
        Generator
            This generator.

        Examples
        --------
        >>> import micrograd_core.torch as torch
        >>> g = torch.Generator().manual_seed(7)
        """
        self._restart(seed % 2**128)
        return self


def _legacy(data: tuple[Any, ...], dtype: Any) -> _Tensor:
    if all(isinstance(n, int) for n in data):
        return mg.zeros(data, dtype=dtype)
    return mg.asarray(data[0], dtype=dtype, copy=True)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function with its name, for which NAME stands in its docstring."""
    function.__name__, function.__doc__ = name, (function.__doc__ or "").replace("NAME", name)
    return function


def _of_dtype(name: str) -> Callable[..., _Tensor]:
    def function(*data: Any) -> _Tensor:
        """Make a NAME tensor.

        Parameters
        ----------
        *data : int, or one array, number or nested sequence of numbers
            The lengths of the axes of a tensor of zeros; or the elements.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import micrograd_core.torch as torch
        >>> torch.LongTensor([1, 2]), torch.FloatTensor(2)
        (Tensor([1, 2]), Tensor([0., 0.]))
        """
        return _legacy(data, getattr(mg, name))

    return _named(function, name)


FloatTensor, DoubleTensor, LongTensor, BoolTensor = map(_of_dtype, ("float32", "float64", "int64", "bool"))


def of_method(name: str) -> Callable[..., Any]:
    """Make a function of a method of tensors.

    Parameters
    ----------
    name : str
        The name of the method.

    Returns
    -------
    function
        Of the tensor, and the arguments of the method.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.of_method("narrow")(torch.arange(4), 0, 1, 2)
    Tensor([1, 2])
    """

    def function(input: _Tensor, *args: Any, **kwargs: Any) -> Any:
        return getattr(input, name)(*args, **kwargs)

    text = f"`micrograd_core.Tensor.{name}` as the function `{name}`, whose first argument, `input`, is the tensor."
    function.__name__, function.__doc__ = name, MethodDoc(text)
    return function


# ── making tensors ───────────────────────────────────────────────────────────────────────────────────────────


def _kept(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in HERE}


def tensor(data: Any, **options: Any) -> _Tensor:
    """Make a tensor with a copy of `data`, which records only if ``requires_grad`` says so.

    Parameters
    ----------
    data : Tensor, array, number or nested sequence of numbers
        The elements.
    **options
        ``dtype``, ``device`` and ``requires_grad``. What says how memory is kept, such as ``pin_memory``, is ignored.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.tensor([1.0, 2.0], requires_grad=True)
    Tensor([1., 2.], requires_grad=True)
    """
    return mg.asarray(data.detach() if isinstance(data, _Tensor) else data, copy=True, **_kept(options))


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> _Tensor:
    """Make a tensor of `data`; a tensor that already has the dtype and the device is returned as it is.

    Parameters
    ----------
    data : Tensor, array, number or nested sequence of numbers
        The elements.
    dtype : DType or str, optional
        By default that of an array, and bool, int64, float32 or complex64 for Python's numbers.
    device : Device or str, optional
        By default the one that a tensor is on, or the default device.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> x = torch.ones(2)
    >>> torch.as_tensor(x) is x
    True
    """
    return mg.asarray(data, dtype=dtype, device=device)


def from_numpy(ndarray: Any) -> _Tensor:
    """Make a tensor with a copy of a NumPy array.

    Parameters
    ----------
    ndarray : numpy.ndarray
        The elements.

    Returns
    -------
    Tensor
        Of the shape and dtype of the array.

    Examples
    --------
    >>> import numpy as np
    >>> import micrograd_core.torch as torch
    >>> torch.from_numpy(np.arange(3))
    Tensor([0, 1, 2])
    """
    return mg.asarray(ndarray)


def _sized(name: str, make: Callable[..., _Tensor]) -> Callable[..., _Tensor]:
    def function(*size: Any, **options: Any) -> _Tensor:
        """Make a tensor as `NAME` of PyTorch does: of zeros, ones, or uniform or normal random numbers.

        Parameters
        ----------
        *size : int, or one sequence of int
            The lengths of the axes; ``size=`` names the sequence.
        **options
            ``dtype``, ``device`` and ``requires_grad``, and of random numbers ``generator``. What says how memory is
            kept, such as ``layout``, is ignored.

        Returns
        -------
        Tensor
            Of dtype float32 unless `dtype` says otherwise.

        Examples
        --------
        >>> import micrograd_core.torch as torch
        >>> torch.NAME(2, 3).shape, torch.NAME((2, 3), dtype=torch.float64).dtype
        ((2, 3), micrograd_core.float64)
        """
        lengths = size or options.pop("size")
        return make(lengths[0] if len(lengths) == 1 else lengths, **_kept(options))

    return _named(function, name)


def _like(name: str, make: Callable[..., _Tensor]) -> Callable[..., _Tensor]:
    def function(input: _Tensor, **options: Any) -> _Tensor:
        """Make a tensor like another one, as `NAME` of PyTorch does.

        Parameters
        ----------
        input : Tensor
            Gives the shape and, by default, the dtype and the device.
        **options
            ``dtype``, ``device`` and ``requires_grad``, and of random numbers ``generator``. What says how memory is
            kept, such as ``layout``, is ignored.

        Returns
        -------
        Tensor

        Examples
        --------
        >>> import micrograd_core.torch as torch
        >>> torch.NAME(torch.zeros(2, 3)).shape
        (2, 3)
        """
        return make(input.shape, **{"dtype": input.dtype, "device": input.device, **_kept(options)})

    return _named(function, name)


zeros, ones, empty = _sized("zeros", mg.zeros), _sized("ones", mg.ones), _sized("empty", mg.empty)
rand, randn = _sized("rand", random.uniform), _sized("randn", random.normal)
zeros_like, ones_like = _like("zeros_like", mg.zeros), _like("ones_like", mg.ones)
empty_like = _like("empty_like", mg.empty)
rand_like, randn_like = _like("rand_like", random.uniform), _like("randn_like", random.normal)


def full(size: Any, fill_value: Any, **options: Any) -> _Tensor:
    """Make a tensor with the same number everywhere.

    Parameters
    ----------
    size : sequence of int
        The lengths of the axes.
    fill_value : number
        The element, which gives the dtype.
    **options
        ``dtype``, ``device`` and ``requires_grad``. What says how memory is kept, such as ``layout``, is ignored.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.full((2,), 7)
    Tensor([7, 7])
    """
    return mg.full(tuple(size), fill_value, **_kept(options))


def randint(low: int, high: Any = None, size: Any = None, **options: Any) -> _Tensor:
    """Draw integers: ``randint(10, (2, 3))`` from 0 to 9, ``randint(1, 10, (2, 3))`` from 1 to 9.

    Parameters
    ----------
    low : int
        The least number; or, without a second integer, the number that all are below.
    high : int
        The number that all are below.
    size : sequence of int
        The lengths of the axes.
    **options
        ``dtype``, ``device`` and ``generator``.

    Returns
    -------
    Tensor
        Of dtype int64 unless `dtype` says otherwise.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.randint(10, (2, 3)).shape
    (2, 3)
    """
    if size is None:
        low, high, size = (0, low, high) if not isinstance(high, int) else (low, high, ())
    return _integers(tuple(size), low, high, **_kept(options))


def _integers(size: tuple[int, ...], low: int, high: int, dtype: Any = None, **options: Any) -> _Tensor:
    """Draw integers, which may become floats."""
    wanted = as_dtype(dtype or "int64")
    drawn = wanted if wanted.is_integer else "int64"
    return random.randint(size, low, high, dtype=drawn, **options).astype(wanted)


def randint_like(input: _Tensor, low: int = 0, high: int | None = None, **options: Any) -> _Tensor:
    """Draw integers for a tensor like another one.

    Parameters
    ----------
    input : Tensor
        Gives the shape and, by default, the dtype and the device.
    low : int
        The least number, 0 by default; or, without `high`, the number that all are below.
    high : int, optional
        The number that all are below.
    **options
        ``dtype``, ``device`` and ``generator``. A dtype of floats holds the integers, too.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.randint_like(torch.arange(2), 10).dtype
    micrograd_core.int64
    """
    low, high = (0, low) if high is None else (low, high)
    return _integers(input.shape, low, high, **{"dtype": input.dtype, "device": input.device, **_kept(options)})


def randperm(n: int, **options: Any) -> _Tensor:
    """The integers from 0 to below `n` in a random order.

    Parameters
    ----------
    n : int
        How many.
    **options
        ``dtype``, ``device`` and ``generator``.

    Returns
    -------
    Tensor, (n,)
        Of dtype int64 unless `dtype` says otherwise.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.sort(torch.randperm(3)).values
    Tensor([0, 1, 2])
    """
    return random.permutation(n, **_kept(options))


def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, **options: Any) -> _Tensor:
    """Draw normal numbers.

    Parameters
    ----------
    mean, std : number or Tensor
        The mean, by default 0, and the standard deviation, by default 1; of tensors, one for each number.
    size : sequence of int, optional
        The lengths of the axes; by default those of `mean` and `std`.
    **options
        ``dtype``, ``device`` and ``generator``.

    Returns
    -------
    Tensor

    Raises
    ------
    TypeError
        When a generator is given by position.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.normal(torch.zeros(3), 1.0).shape
    (3,)
    """
    if isinstance(mean, random.Generator):
        raise TypeError(
            "normal: the generator is given by name: write torch.normal(0.0, 1.0, size, generator=generator)"
        )
    shape = size if size is not None else mg.broadcast_shapes(*(getattr(x, "shape", ()) for x in (mean, std)))
    return random.normal(tuple(shape), **_kept(options)) * std + mean


def bernoulli(input: _Tensor, *, generator: Any = None) -> _Tensor:
    """Draw 1 with the probability that each element says, else 0.

    Parameters
    ----------
    input : Tensor
        Probabilities between 0 and 1.
    generator : Generator, optional
        The source; by default the default generator.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.bernoulli(torch.ones(2))
    Tensor([1., 1.])
    """
    return random.bernoulli(None, input, dtype=input.dtype, generator=generator)


def multinomial(input: _Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None) -> _Tensor:
    """Draw places along the last axis, with probabilities in proportion to `input`.

    Parameters
    ----------
    input : Tensor, (classes,) or (rows, classes)
        Weights that are not negative.
    num_samples : int
        How many places are drawn from each row.
    replacement : bool, default False
        Whether a place may be drawn more than once.
    generator : Generator, optional
        The source; by default the default generator.

    Returns
    -------
    Tensor, (num_samples,) or (rows, num_samples), int64

    Raises
    ------
    ShapeError
        When there are fewer weights above 0 than places to draw without replacement.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.multinomial(torch.tensor([0.0, 1.0]), 2, replacement=True)
    Tensor([1, 1])
    """
    with no_grad():
        p = input.detach().astype("float64")
        if not replacement:  # the largest of log(p) + Gumbel noise are such a draw
            fewest = int(mg.min(mg.count_nonzero(p, axis=-1)).item())
            if fewest < num_samples:
                raise ShapeError(f"multinomial: {num_samples} places without replacement of {fewest} with weight")
            u = random.uniform(p.shape, dtype="float64", device=p.device, generator=generator)
            weight = mg.where(p > 0, mg.log(mg.where(p > 0, p, 1.0)), -math.inf)
            return mg.topk(weight - mg.log(-mg.log1p(-u)), num_samples).indices
        upto = mg.cumsum(p, -1)
        shape = (*p.shape[:-1], num_samples)
        u = random.uniform(shape, dtype="float64", device=p.device, generator=generator) * upto[..., -1:]
        return mg.sum(upto[..., None, :] <= u[..., None], -1)


def linspace(start: Any, end: Any, steps: int, **options: Any) -> _Tensor:
    """`steps` numbers from `start` to `end`, evenly apart.

    Parameters
    ----------
    start, end : number
        The first and the last number.
    steps : int
        How many.
    **options
        ``dtype``, ``device`` and ``requires_grad``. What says how memory is kept, such as ``layout``, is ignored.

    Returns
    -------
    Tensor, (steps,)

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.linspace(0, 1, 3)
    Tensor([ 0., 0.5,  1.])
    """
    return mg.linspace(start, end, steps, **_kept(options))


def arange(*bounds: Any, start: Any = None, end: Any = None, step: Any = 1, **options: Any) -> _Tensor:
    """Numbers from `start`, or 0, to below `end`.

    Parameters
    ----------
    *bounds : number
        The end; or start and end; or start, end and step.
    start, end : number, optional
        The bounds by name.
    step : number, default 1
        The distance between two numbers.
    **options
        ``dtype``, ``device`` and ``requires_grad``. What says how memory is kept, such as ``layout``, is ignored.

    Returns
    -------
    Tensor
        Of one axis.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.arange(1, 6, 2), torch.arange(end=2)
    (Tensor([1, 3, 5]), Tensor([0, 1]))
    """
    named = [x for x in (start, end) if x is not None]
    low, high, step = (0, *bounds, *named, step)[-3:] if len(bounds) < 3 else bounds
    return mg.arange(low, high, step, **_kept(options))


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[_Tensor, ...]:
    """The coordinates of a grid.

    Parameters
    ----------
    *tensors : Tensor, or one sequence of them
        The places along each axis, of one axis each.
    indexing : str, default "ij"
        ``"ij"`` lays the first along the first axis, ``"xy"`` along the second.

    Returns
    -------
    tuple of Tensor
        One for each tensor, of the shape of the grid.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> rows, columns = torch.meshgrid(torch.arange(2), torch.arange(3))
    >>> rows.shape
    (2, 3)
    """
    return mg.meshgrid(*(tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors), indexing=indexing)


# ── reductions and sorting ───────────────────────────────────────────────────────────────────────────────────


def _extreme(name: str, between: Any) -> Callable[..., Any]:
    def function(input: _Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        """The NAME of all elements; along an axis a pair, with places; of two tensors element by element.

        Parameters
        ----------
        input : Tensor
            Of real dtype.
        dim : int or Tensor, optional
            The axis; or the second of two tensors.
        keepdim : bool, default False
            Whether the axis stays, with length 1.
        other : Tensor, optional
            The second of two tensors, by name.

        Returns
        -------
        Tensor, or named tuple of Tensor: values, indices
            A pair where `dim` is an axis; the indices are int64.

        Raises
        ------
        ShapeError, AxisError

        Examples
        --------
        >>> import micrograd_core.torch as torch
        >>> values, places = torch.NAME(torch.tensor([[1.0, 2.0], [4.0, 3.0]]), 1)
        >>> places.shape
        (2,)
        """
        if isinstance(dim, _Tensor) or other is not None:
            return between(input, dim if other is None else other)
        return getattr(mg, name)(input) if dim is None else manners.extreme(name, input, dim, keepdim)

    return _named(function, name)


max, min = _extreme("max", mg.maximum), _extreme("min", mg.minimum)
sort, median, unique = of_method("sort"), manners.median, of_method("unique")


def _spread(name: str) -> Callable[..., _Tensor]:
    def function(input: _Tensor, *args: Any, **kwargs: Any) -> _Tensor:
        """The NAME over axes, by default with n - 1 as the divisor.

        Parameters
        ----------
        input : Tensor
            Of floating-point dtype.
        *args, **kwargs
            ``dim``, by default all axes; ``unbiased``, which is true by default; ``keepdim``; and ``correction``, the
            number to subtract from the count.

        Returns
        -------
        Tensor
            Of the dtype of `input`.

        Examples
        --------
        >>> import micrograd_core.torch as torch
        >>> torch.NAME(torch.tensor([[1.0, 1.0], [2.0, 2.0]]), 1)
        Tensor([0., 0.])
        """
        return manners.spread(name, input, *args, **kwargs)

    return _named(function, name)


std, var = _spread("std"), _spread("var")


def _with_mean(spread: Callable[..., _Tensor]) -> Callable[..., Pair]:
    def function(input: _Tensor, *args: Any, **kwargs: Any) -> Pair:
        """`NAME`, and the mean over the same axes.

        Parameters
        ----------
        input : Tensor
            Of floating-point dtype.
        *args, **kwargs
            ``dim``, ``unbiased``, ``keepdim`` and ``correction``, as for `NAME`.

        Returns
        -------
        Pair
            Two tensors of the dtype of `input`.

        Examples
        --------
        >>> import micrograd_core.torch as torch
        >>> found, mean = torch.NAME_mean(torch.tensor([1.0, 1.0]))
        >>> mean
        Tensor(1.)
        """
        dim = kwargs.get("dim", args[0] if args and not isinstance(args[0], bool) else None)
        mean = mg.mean(input, dim, kwargs.get("keepdim", args[2] if len(args) > 2 else False))
        return Pair(spread(input, *args, **kwargs), mean)

    function.__doc__ = (function.__doc__ or "").replace("NAME", spread.__name__)
    return function


std_mean, var_mean = _with_mean(std), _with_mean(var)


def norm(input: _Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False) -> _Tensor:
    """The `p`-norm of all elements, or along an axis.

    Parameters
    ----------
    input : Tensor
        Of floating-point dtype.
    p : number or str, default 2
        Which norm; ``"fro"`` is 2.
    dim : int or tuple of int, optional
        The axis; by default all elements are one vector.
    keepdim : bool, default False
        Whether the axis stays, with length 1.

    Returns
    -------
    Tensor
        Of the real dtype of `input`.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.norm(torch.tensor([3.0, 4.0]))
    Tensor(5.)
    """
    x = input.reshape(-1) if dim is None else input
    return mg.norm(x, 2 if p == "fro" else p, -1 if dim is None else dim, keepdim)


def nonzero(input: _Tensor, *, as_tuple: bool = False) -> Any:
    """The places of what is not 0.

    Parameters
    ----------
    input : Tensor
        Of at least one axis.
    as_tuple : bool, default False
        Whether there is an array for each axis, rather than a row for each place.

    Returns
    -------
    Tensor (places, axes), or tuple of Tensor
        Of dtype int64.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.nonzero(torch.tensor([0, 5, 7]))
    Tensor([[1],
            [2]])
    """
    return mg.nonzero(input) if as_tuple else mg.argwhere(input)


def where(condition: _Tensor, input: Any = None, other: Any = None) -> Any:
    """`input` where the condition holds, else `other`; without them the places where it holds.

    Parameters
    ----------
    condition : Tensor
        Of bool dtype.
    input, other : Tensor or number, optional
        The elements.

    Returns
    -------
    Tensor, or tuple of Tensor
        Of the common dtype, and the shape that all broadcast to; or an array of int64 for each axis.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> x = torch.tensor([-1.0, 2.0])
    >>> torch.where(x > 0, x, 0.0)
    Tensor([0., 2.])
    """
    return mg.nonzero(condition) if input is None else mg.where(condition, input, other)


def equal(input: _Tensor, other: _Tensor) -> bool:
    """Whether two tensors have the same shape and elements.

    Parameters
    ----------
    input, other : Tensor
        The tensors, of any shapes.

    Returns
    -------
    bool

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.equal(torch.ones(2), torch.ones(2)), torch.equal(torch.ones(2), torch.ones(3))
    (True, False)
    """
    return input.shape == other.shape and bool(mg.all(mg.equal(input, other)))


def searchsorted(sorted_sequence: _Tensor, input: Any, *, right: bool = False, side: str = "left") -> _Tensor:
    """Where to insert values so that a sequence stays in order.

    Parameters
    ----------
    sorted_sequence : Tensor
        In order along the last axis.
    input : Tensor or number
        The values.
    right : bool, default False
        Whether equal elements stay on the left of a value; the same as ``side="right"``.
    side : str, default "left"
        ``"left"`` or ``"right"``.

    Returns
    -------
    Tensor
        Of the shape of `input` and dtype int64.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 4]))
    Tensor([1, 2])
    """
    return mg.searchsorted(sorted_sequence, mg.asarray(input), side="right" if right else side)


def roll(input: _Tensor, shifts: Any, dims: Any = None) -> _Tensor:
    """Move elements along axes; those that leave at one end come in at the other.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype.
    shifts : int or tuple of int
        How far, for each axis.
    dims : int or tuple of int, optional
        The axes; by default the elements are moved as one vector.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.roll(torch.arange(3), 1)
    Tensor([2, 0, 1])
    """
    return mg.roll(input, shifts, dims)


# ── arithmetic ───────────────────────────────────────────────────────────────────────────────────────────────


add, subtract = of_method("add"), of_method("subtract")


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> _Tensor:
    """Divide element by element.

    Parameters
    ----------
    input, other : Tensor or number
        The dividend and the divisor.
    rounding_mode : str, optional
        ``"trunc"`` rounds towards zero, ``"floor"`` down.

    Returns
    -------
    Tensor
        Of the shape that both broadcast to.

    Raises
    ------
    DeviceMismatch, DTypeError, ShapeError

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.div(torch.tensor([7.0, -7.0]), 2, rounding_mode="floor")
    Tensor([ 3., -4.])
    """
    if rounding_mode == "floor":
        return input // other
    return input / other if rounding_mode is None else mg.trunc(input / other)


divide = div


def addmm(input: Any, mat1: _Tensor, mat2: _Tensor, *, beta: Any = 1, alpha: Any = 1) -> _Tensor:
    """Compute ``beta * input + alpha * (mat1 @ mat2)``.

    Parameters
    ----------
    input : Tensor or number
        What the product is added to.
    mat1, mat2 : Tensor, (..., n, k) and (..., k, m)
        The factors.
    beta, alpha : number, default 1
        The factors of `input` and of the product.

    Returns
    -------
    Tensor, (..., n, m)

    Raises
    ------
    DeviceMismatch, DTypeError, ShapeError

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.addmm(torch.zeros(1), torch.ones(1, 2), torch.ones(2, 1), alpha=3)
    Tensor([[6.]])
    """
    product = mat1 @ mat2
    return (input if beta == 1 else input * beta) + (product if alpha == 1 else product * alpha)


baddbmm = addmm


def clamp_min(input: _Tensor, min: Any) -> _Tensor:
    """Replace elements that are less than `min` by it.

    Parameters
    ----------
    input : Tensor
        Of real dtype.
    min : number or Tensor
        The least number.

    Returns
    -------
    Tensor
        Of the shape that both broadcast to.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.clamp_min(torch.tensor([-1.0, 2.0]), 0)
    Tensor([0., 2.])
    """
    return mg.clip(input, min, None)


def clamp_max(input: _Tensor, max: Any) -> _Tensor:
    """Replace elements that are greater than `max` by it.

    Parameters
    ----------
    input : Tensor
        Of real dtype.
    max : number or Tensor
        The greatest number.

    Returns
    -------
    Tensor
        Of the shape that both broadcast to.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.clamp_max(torch.tensor([-1.0, 2.0]), 0)
    Tensor([-1.,  0.])
    """
    return mg.clip(input, None, max)


def deg2rad(input: _Tensor) -> _Tensor:
    """Convert degrees to radians.

    Parameters
    ----------
    input : Tensor
        Degrees.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.deg2rad(torch.tensor([180.0])).shape
    (1,)
    """
    return input * (math.pi / 180)


def rad2deg(input: _Tensor) -> _Tensor:
    """Convert radians to degrees.

    Parameters
    ----------
    input : Tensor
        Radians.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.rad2deg(torch.zeros(1))
    Tensor([0.])
    """
    return input * (180 / math.pi)


def vstack(tensors: Sequence[_Tensor]) -> _Tensor:
    """Put tensors one below the other, along the first axis; vectors are rows.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of shapes that differ in the first axis only.

    Returns
    -------
    Tensor

    Raises
    ------
    DeviceMismatch, DTypeError, ShapeError

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.vstack([torch.zeros(2), torch.ones(2)])
    Tensor([[0., 0.],
            [1., 1.]])
    """
    return mg.concat([x[None] if x.ndim < 2 else x for x in tensors], 0)


def hstack(tensors: Sequence[_Tensor]) -> _Tensor:
    """Put tensors side by side, along the second axis; vectors one after the other.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of shapes that differ in that axis only.

    Returns
    -------
    Tensor

    Raises
    ------
    DeviceMismatch, DTypeError, ShapeError

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.hstack([torch.zeros(1), torch.ones(1)])
    Tensor([0., 1.])
    """
    return mg.concat(list(tensors), 0 if tensors[0].ndim < 2 else 1)


# ── questions, state, files ──────────────────────────────────────────────────────────────────────────────────


def is_tensor(obj: Any) -> bool:
    """Whether an object is a tensor.

    Parameters
    ----------
    obj
        Any object.

    Returns
    -------
    bool

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.is_tensor(torch.ones(2)), torch.is_tensor([1.0])
    (True, False)
    """
    return isinstance(obj, _Tensor)


def promote_types(type1: Any, type2: Any) -> Any:
    """The dtype that two dtypes promote to.

    Parameters
    ----------
    type1, type2 : DType
        The dtypes.

    Returns
    -------
    DType

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.promote_types(torch.float32, torch.float64)
    micrograd_core.float64
    """
    return mg.result_type(type1, type2)


def get_default_dtype() -> Any:
    """The dtype of Python's floats in tensors: float32, always.

    Returns
    -------
    DType

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.get_default_dtype()
    micrograd_core.float32
    """
    return mg.float32


def manual_seed(seed: int) -> random.Generator:
    """Restart the default generator. The same seed gives the same numbers, which are not PyTorch's.

    Parameters
    ----------
    seed : int
        Taken modulo 2**128.

    Returns
    -------
    Generator
        The default generator.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> g = torch.manual_seed(0)
    """
    return random.manual_seed(seed % 2**128)


class set_grad_enabled:  # noqa: N801
    """Record operations or not, from now on; as a context manager, until the end of its block.

    Parameters
    ----------
    mode : bool
        Whether to record.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.set_grad_enabled(False):
    ...     (x * 2).requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        self._before = grad_modes.get()
        grad_modes.set(bool(mode))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        grad_modes.set(self._before)


def save(obj: Any, f: Any) -> None:
    """Write tensors, numbers and strings, alone or in dicts, lists and tuples, to a safetensors file.

    Parameters
    ----------
    obj : Tensor, number, str, or dict, list or tuple of such
        What is written.
    f : str or Path
        The file.

    Raises
    ------
    CheckpointError
        For anything else, such as a whole module: save its ``state_dict()``.

    Examples
    --------
    >>> import os, tempfile
    >>> import micrograd_core.torch as torch
    >>> path = os.path.join(tempfile.mkdtemp(), "state.safetensors")
    >>> torch.save({"x": torch.ones(2), "epoch": 3}, path)
    >>> torch.load(path)
    {'x': Tensor([1., 1.]), 'epoch': 3}
    """
    checkpoints.save(f, meta=obj)


def load(f: Any, map_location: Any = None, weights_only: bool = True) -> Any:
    """Read what `save` wrote; of another library's safetensors file, its tensors by name. Pickles are refused.

    Parameters
    ----------
    f : str or Path
        The file.
    map_location : Device or str, optional
        Where tensors are made; by default on the default device.
    weights_only : bool
        Ignored: nothing else is ever read.

    Returns
    -------
    Tensor, number, str, or dict, list or tuple of such

    Raises
    ------
    CheckpointError
        When the file is missing, is a pickle, or is damaged.

    Examples
    --------
    >>> import os, tempfile
    >>> import micrograd_core.torch as torch
    >>> path = os.path.join(tempfile.mkdtemp(), "state.safetensors")
    >>> torch.save([torch.ones(2)], path)
    >>> torch.load(path)
    [Tensor([1., 1.])]
    """
    found = checkpoints.Checkpoint(f)
    return found.state("meta" if found.meta is not None else "model", map_location)


def compile(model: Any = None, **options: Any) -> Any:
    """Compile a function by `micrograd_core.jit`. A module stays as it is: compile the function of a whole step.

    Parameters
    ----------
    model : function or Module, optional
        What to compile; without it the result is a decorator.
    **options
        Ignored.

    Returns
    -------
    function or Module

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> @torch.compile
    ... def double(x):
    ...     return x + x
    >>> double(torch.ones(2))
    Tensor([2., 2.])
    """
    if model is None:
        return lambda function: compile(function, **options)
    return model if hasattr(model, "parameters") else mg.jit(model)


def set_float32_matmul_precision(precision: str) -> None:
    """Choose how exact products of float32 are: see `micrograd_core.set_matmul_precision`.

    Parameters
    ----------
    precision : str
        ``"highest"``, ``"high"`` or ``"medium"``.

    Raises
    ------
    ValueError
        For another word.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.set_float32_matmul_precision("highest")
    """
    mg.set_matmul_precision(precision)


__all__ = sorted(
    name for name, value in list(globals().items())
    if not name.startswith("_") and getattr(value, "__module__", "") in (__name__, manners.__name__) and callable(value)
)  # fmt: skip
