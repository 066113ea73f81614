"""Selection by integers and masks with PyTorch's arguments: the axis first, 0-d tensors as if they had one."""

from __future__ import annotations

from typing import Any, Final

from micrograd_core.array.functions import FUNCTIONS, both_spellings
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.ops.arguments import advising

F: Final = FUNCTIONS


@both_spellings
def gather(x: Any, /, dim: int, index: Any) -> Tensor:
    """Along `dim`, the elements that `index` names, place by place: ``out[i][j] = x[index[i][j]][j]`` for `dim` 0.

    Raises
    ------
    ShapeError
        When the index does not fit. See `take_along_axis` for one that broadcasts.
    """
    x, index = asarray(x), asarray(index)
    if x.ndim:
        return F["gather"](x, index, axis=dim)
    return F["gather"](x.reshape(1), index.reshape(-1), axis=dim).reshape(index.shape)


@both_spellings
def index_select(x: Any, /, dim: int, index: Any) -> Tensor:
    """The slices along `dim` that integers name: ``take(x, index, axis=dim)``."""
    x = asarray(x)
    found = F["take"](x if x.ndim else x.reshape(1), asarray(index).reshape(-1), axis=dim)
    return found if x.ndim else found.reshape(())


@both_spellings
def scatter_reduce(
    x: Any, /, dim: int, index: Any, src: Any, reduce: str = "replace", *, include_self: bool = True
) -> Tensor:
    """A copy of `x` in which the elements that `index` names along `dim` are reduced with those of `src`.

    Parameters
    ----------
    x : Tensor
    dim : int
    index : Tensor
        Integers, of as many axes as `x`.
    src : Tensor or number
    reduce : str
        ``'sum'``, ``'prod'``, ``'amax'``, ``'amin'``, ``'mean'``; ``'replace'`` has the last one stand.
    include_self : bool
        Whether what stands there takes part.

    Raises
    ------
    ShapeError, ValueError
        When the index does not fit, or the reduction is another word.
    """
    x, index = asarray(x), asarray(index)
    given = {"axis": dim, "reduce": reduce, "include_self": include_self}
    if x.ndim:
        return F["scatter_reduce"](x, index, src, **given)
    src = src if isinstance(src, (bool, int, float)) else asarray(src).reshape(-1)
    return F["scatter_reduce"](x.reshape(1), index.reshape(-1), src, **given).reshape(())


@both_spellings
def scatter(
    x: Any,
    /,
    dim: Any,
    index: Any = None,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
    key: Any = None,
) -> Tensor:
    """A copy of `x` in which `src` stands where `index` says along `dim`, or the second argument where `key` says.

    Parameters
    ----------
    x : Tensor
    dim : int
        With `key`, what takes the place of ``x[key]``.
    index : Tensor
        Integers, of as many axes as `x`.
    src : Tensor or number
    value : number, optional
        The same, by PyTorch's other name.
    reduce : str, optional
        ``'add'`` or ``'multiply'``: with what is there.
    key : optional
        As from `x[key]`; then there is no `index`.

    Raises
    ------
    ShapeError, TypeError
        When the index does not fit, or there is none.
    """
    if key is not None:
        return F["scatter"](x, dim, key=key)
    given = src if value is None else value
    if index is None or given is None:
        raise TypeError(
            "scatter: give dim, index and src, as scatter(x, 1, index, src), or scatter(x, values, key=key)"
        )
    word = {"add": "sum", "multiply": "prod"}.get(reduce, reduce) if reduce else "replace"
    return scatter_reduce(x, dim, index, given, word)


@both_spellings
def scatter_add(x: Any, /, dim: int, index: Any, src: Any) -> Tensor:
    """A copy of `x` with the elements of `src` added where `index` says along `dim`."""
    return scatter_reduce(x, dim, index, src, "sum")


@advising
def masked_select(x: Any, /, mask: Any) -> Tensor:
    """The elements where the mask is true, in one row; `x` and the mask broadcast."""
    from micrograd_core.array.composed import broadcast_arrays

    wide, chosen = broadcast_arrays(x, mask)
    return wide[chosen]


@both_spellings
def kthvalue(x: Any, /, k: int, axis: int = -1, keepdims: bool = False) -> Any:
    """The `k`-th smallest element along `axis`, counted from 1, and where it is."""
    x = asarray(x)
    if x.ndim:
        return F["kthvalue"](x, k, axis, keepdims)
    found: Any = F["kthvalue"](x.reshape(1), k, axis)
    return type(found)(*(each.reshape(()) for each in found))
