"""Keys: what ``x[key]``, ``x[key] = value`` and ``x.at[key].add(value)`` mean in terms of operations.

A basic key (integers, slices, ``...``, ``None``) is one `getitem` or `scatter`. What a key that holds arrays means,
`engine.selection` says.
"""

from __future__ import annotations

from typing import Any, Final

from micrograd_core.dtypes import check_scalar, fits
from micrograd_core.engine.apply import SCALARS, apply, apply_single, converted
from micrograd_core.engine.array import BaseTensor, T
from micrograd_core.engine.ingest import as_array
from micrograd_core.errors import DTypeError, IndexingError
from micrograd_core.layout import holds_arrays, resolve_key
from micrograd_core.ops import TABLE

GETITEM, SCATTER = TABLE["getitem"], TABLE["scatter"]

UPDATES: Final = {
    "set": ("index_set", None),
    "add": ("index_add", "add"),
    "multiply": ("index_multiply", "multiply"),
    "min": ("index_min", "minimum"),
    "max": ("index_max", "maximum"),
}
"""What each update is where integers name the place, and what it does to elements that are named once."""


def getitem(x: T, key: Any) -> T:
    """``x[key]``: a view for a basic key, fresh memory for one that holds arrays.

    Raises
    ------
    IndexingError
        Out of range, too many indices, a mask of another shape, or what is no index.
    """
    try:
        resolved = resolve_key(key, x._handle.shape)
    except IndexingError:
        if not holds_arrays(key):
            raise
        from micrograd_core.engine.selection import Selection

        return Selection.of(x, key).read(x)
    return apply_single(GETITEM, x, {"key": resolved})


def fitting(x: BaseTensor, value: Any) -> Any:
    """What is written into `x`: a number, or a tensor of its dtype.

    Raises
    ------
    DTypeError
        Where the value's kind of number does not fit the tensor's.
    """
    if not isinstance(value, (BaseTensor, *SCALARS)):
        value = as_array(x.__class__, value, device=x.device)
    if value.__class__ is x.__class__ and value.dtype is not x.dtype:
        if not fits(value.dtype, x.dtype):
            raise DTypeError(
                f"a {value.dtype} value does not fit into a {x.dtype} tensor; convert it with .astype({str(x.dtype)!r})"
            )
        return converted(value, x.dtype)
    if value.__class__ is not x.__class__:
        check_scalar("x[key] = value", value, x.dtype)
    return value


def updated(x: T, key: Any, value: Any, update: str = "set") -> T:
    """A fresh tensor, `x` but for the elements that `key` names, on which `update` is done with `value`."""
    value = fitting(x, value)
    indexed, elementwise = UPDATES[update]
    if holds_arrays(key):
        from micrograd_core.engine.selection import updated_at

        return updated_at(x, key, value, indexed, elementwise)
    params = {"key": resolve_key(key, x.shape)}
    if elementwise is not None:
        value = apply(TABLE[elementwise], (apply_single(GETITEM, x, params), value))
    return apply(SCATTER, (x, value), SCATTER.parameters(x, value, **params))
