"""`vmap`: a function of single examples as a function of batches. What operations do to them stands in `batching`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.engine.apply import apply_single
from micrograd_core.errors import ShapeError, TransformError, one_of
from micrograd_core.layout import resolve_axis
from micrograd_core.ops import TABLE
from micrograd_core.ops.arguments import advising
from micrograd_core.support import pytrees
from micrograd_core.support.context import depth, during, levels
from micrograd_core.transforms.batching import RANDOMNESS, BatchTable, Level, inside, materialized

P = ParamSpec("P")
R = TypeVar("R")


@advising
def vmap(f: Callable[P, R], in_axes: Any = 0, out_axes: Any = 0, *, randomness: str = "error") -> Callable[P, R]:
    """The function that applies `f` to each example of a batch, and stacks what it returns.

    Parameters
    ----------
    f : function
        Of tensors, and dicts, lists and tuples of them; returning the same. It sees one example: shapes without the
        batch axis. Tensors that it closes over are the same for all examples.
    in_axes : int, None, or a tuple of them, one per positional argument
        Along which axis the batch lies; ``None`` for what is the same for all examples. In place of an entry there may
        be a dict, list or tuple like the argument. Keyword arguments are batched along axis 0.
    out_axes : int, or a structure like the result
        Where the batch goes.
    randomness : str
        What random numbers (dropout, `micrograd_core.random`) that `f` draws are: ``"different"`` for each example,
        the ``"same"`` for all, or an ``"error"``.

    Returns
    -------
    function

    Raises
    ------
    ShapeError, TypeError, TransformError
        When batches differ in length, nothing is batched, `f` reads the numbers of its arguments, or draws random ones
        although `randomness` does not say which.
    ValueError
        For another word for `randomness`.

    Warns
    -----
    RuntimeWarning
        When an operation has no batching rule and is run once per example.

    Examples
    --------
    >>> from micrograd_core import Tensor, grad, vmap
    >>> per_example = vmap(grad(lambda w, x: (w * x).sum() ** 2), in_axes=(None, 0))
    >>> per_example(Tensor([1.0, 2.0]), Tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])).tolist()
    [[2.0, 0.0], [0.0, 4.0], [6.0, 6.0]]
    """
    if randomness not in RANDOMNESS:
        raise ValueError(f"vmap: randomness is {one_of(map(repr, RANDOMNESS))}; got {randomness!r}")

    if not all(axis is None or isinstance(axis, int) for axis in pytrees.flatten(in_axes)[0]):
        raise TypeError(f"vmap(f) is a function: write vmap(f)(x); in_axes are places of axes; got {in_axes!r}")

    @wraps(f)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        axes = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)
        if len(axes) != len(args):
            raise TypeError(f"vmap: in_axes has {len(axes)} entries, but the function was called with {len(args)}")
        wanted = [axis for entry, arg in zip(axes, args, strict=True) for axis in pytrees.prefix(entry, arg, "in_axes")]
        leaves, rebuild = pytrees.flatten((args, kwargs))
        wanted += [0] * (len(leaves) - len(wanted))
        leaves, level = _batch(leaves, wanted, randomness)
        deeper = depth() + 1
        with during(levels, (*levels.get(), level)):
            args, kwargs = rebuild(
                x if axis is None else inside(_moved(x, axis, 0), level, BatchTable.over(x._kernels.root, deeper))
                for x, axis in zip(leaves, wanted, strict=True)
            )
            result = f(*args, **kwargs)
        found, rebuild = pytrees.flatten(result)
        places = pytrees.prefix(out_axes, result, "out_axes")
        return rebuild(_leave(x, axis, level, deeper) for x, axis in zip(found, places, strict=True))

    return mapped


def _batch(leaves: list[Any], axes: list[Any], randomness: str) -> tuple[list[Any], Level]:
    """The leaves, batched ones as tensors, and the length they agree on."""
    sizes: dict[int, str] = {}
    for i, (x, axis) in enumerate(zip(leaves, axes, strict=True)):
        if axis is None:
            continue
        if not isinstance(axis, int):
            raise TypeError(f"vmap: in_axes holds integers and None; got {axis!r}")
        if not isinstance(x, Tensor):
            if not hasattr(x, "__array__"):
                raise TypeError(f"vmap: only tensors have a batch; got {type(x).__name__}. Give it None in in_axes")
            leaves[i] = x = asarray(x)
        if not x.ndim:
            raise ShapeError("vmap: a tensor of shape () has no axis for the batch; give it None in in_axes")
        sizes.setdefault(x.shape[resolve_axis("vmap", axis, x.ndim)], f"shape {x.shape} along axis {axis}")
    if len(sizes) != 1:
        told = " and ".join(f"{size} examples ({place})" for size, place in sizes.items())
        raise ShapeError(f"vmap: batches differ in length: {told}" if sizes else "vmap: nothing is batched")
    return leaves, Level(next(iter(sizes)), randomness)


def _leave(x: Any, axis: Any, level: Level, deeper: int) -> Tensor:
    """A result, with the batch along `axis`."""
    if not isinstance(x, Tensor):
        if not isinstance(x, (bool, int, float, complex)):
            raise TypeError(f"vmap: the function must return tensors; it returned {type(x).__name__}")
        x = asarray(x)
    value, batched = x, False
    if x._kernels.depth == deeper:
        handle = x._handle
        if handle.level not in (None, level):
            raise TransformError("vmap: the function returned a tensor of another call of vmap")
        value, batched = handle.value, handle.level is not None
    value = materialized(value, batched, level.size)
    return _moved(value, 0, axis)


def _moved(x: Tensor, source: int, place: int) -> Tensor:
    """One axis in another place."""
    source, place = resolve_axis("vmap", source, x.ndim), resolve_axis("vmap", place, x.ndim)
    if source == place:
        return x
    order = [axis for axis in range(x.ndim) if axis != source]
    order.insert(place, source)
    return apply_single(TABLE["permute_dims"], x, {"axes": tuple(order)})
