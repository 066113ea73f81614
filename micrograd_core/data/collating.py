"""From examples to one batch, and from what the host holds to tensors on a device."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from micrograd_core.array.creation import from_dlpack
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.data.errors import DataError
from micrograd_core.device import Device
from micrograd_core.errors import DeviceUnavailable, DTypeError, ShapeError, UnsupportedDType

Path = tuple[Any, ...]
"""Where something stands in a batch: the keys and places that lead to it."""


def where(path: Path) -> str:
    """A place in a batch, for errors."""
    if not path:
        return "the data"
    first, *rest = path
    start = f"the column {first!r}" if isinstance(first, str) else f"part {first}"
    return start + "".join(f"[{each!r}]" for each in rest)


def rebuilt(like: Any, parts: list[Any]) -> Any:
    """A tuple of the kind of another one, which may be named."""
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)


def comes_from(data: Any, package: str, name: str = "") -> bool:
    """Whether the class of `data`, or one that it inherits from, is of a package; and is called so."""
    kinds = [kind.__name__ for kind in type(data).__mro__ if kind.__module__.partition(".")[0] == package]
    return name in kinds if name else bool(kinds)


def is_array(value: Any) -> bool:
    """Whether it is an array of some library."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


# ── many examples as one ─────────────────────────────────────────────────────────────────────────────────────


def collate(items: Sequence[Any], path: Path = ()) -> Any:
    """Examples that are alike, side by side: numbers and arrays along a new first axis, tuples and dicts part by part.

    Raises
    ------
    DataError
        When they are not alike.
    """
    first = items[0]
    if isinstance(first, Mapping):
        for i, item in enumerate(items):
            if not isinstance(item, Mapping) or item.keys() != first.keys():
                found = [*item] if isinstance(item, Mapping) else f"a {type(item).__name__}"
                raise _unlike(path, f"has the keys {[*first]}", i, f"{found}")
        return {key: collate([item[key] for item in items], (*path, key)) for key in first}
    if isinstance(first, tuple) or (isinstance(first, list) and any(is_array(part) for part in first)):
        for i, item in enumerate(items):
            if not isinstance(item, type(first)) or len(item) != len(first):
                found = f"{len(item)}" if isinstance(item, type(first)) else f"is a {type(item).__name__}"
                raise _unlike(path, f"has {len(first)} parts", i, found)
        return rebuilt(first, [collate([item[k] for item in items], (*path, k)) for k in range(len(first))])
    if not is_array(first):
        return list(items)
    shape = tuple(first.shape)
    for i, item in enumerate(items):
        if not is_array(item) or tuple(item.shape) != shape:
            found = f"{tuple(item.shape)}" if is_array(item) else f"is a {type(item).__name__}"
            raise _unlike(path, f"has shape {shape}", i, f"{found}. Pad them to one shape, or take batches of size 1")
    if isinstance(first, Tensor):
        return FUNCTIONS["stack"]([item.detach() for item in items])
    if comes_from(first, "torch"):
        return sys.modules["torch"].stack([item.detach() for item in items])
    return sys.modules["numpy"].stack(items)


def _unlike(path: Path, first: str, i: int, other: str) -> DataError:
    of = f" of {where(path)}" if path else ""
    return DataError(f"the examples of a batch are alike: the first{of} {first}, and number {i + 1} {other}")


# ── on a device ──────────────────────────────────────────────────────────────────────────────────────────────


def tensors(value: Any, device: Device, own: bool, path: Path = ()) -> Any:
    """What the host holds as tensors on a device: tuples and dicts part by part.

    Parameters
    ----------
    value
        Arrays, numbers, lists, and tuples and dicts of those.
    device : Device
        Where the tensors are to be.
    own : bool
        Whether the memory is nobody else's, so that tensors may share it.
    path : tuple
        Where `value` stands in the batch.

    Raises
    ------
    DataError
        For what is no number.
    """
    if isinstance(value, Mapping):
        return {key: tensors(part, device, own, (*path, key)) for key, part in value.items()}
    if isinstance(value, tuple) or (isinstance(value, list) and value and is_array(value[0])):
        return rebuilt(value, [tensors(part, device, own, (*path, k)) for k, part in enumerate(value)])
    try:
        if isinstance(value, Tensor):
            moved = value.detach().to(device)
            return moved if own or moved.device != value.device else moved.copy()
        if getattr(getattr(value, "dtype", None), "kind", None) == "O":
            return tensors(collate(value.tolist(), path), device, own, path)
        if comes_from(value, "torch"):
            value = value.detach()
            if str(value.dtype) == "torch.bfloat16":  # which neither NumPy nor its DLPack carries
                return asarray(value.float(), dtype="bfloat16", device=device)
        if own and hasattr(value, "__dlpack__"):
            # where DLPack does not carry it, the host can
            with suppress(DeviceUnavailable, UnsupportedDType, BufferError, TypeError, RuntimeError):
                return from_dlpack(value, device=device)
        return asarray(value, device=device, copy=None if own else True)
    except UnsupportedDType:
        raise
    except (DTypeError, ShapeError) as error:
        text = _not_a_number(value)
        if text is None:
            raise DataError(f"{where(path)} cannot be a tensor: {error}") from error
        raise DataError(
            f"{where(path)} holds {text}, and tensors hold numbers: leave it out, turn it into numbers in `transform`, "
            "or a table with Preparation"
        ) from error


def _not_a_number(value: Any) -> str | None:
    """The first element that is none, as a reader knows it."""
    if getattr(getattr(value, "dtype", None), "kind", None) in ("M", "m"):
        return "dates"
    waiting = [value.tolist() if hasattr(value, "tolist") else value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (list, tuple)):
            waiting += reversed(each)
        elif each is None:
            return "None where a number is missing"
        elif isinstance(each, str):
            return f"the text {each!r}"
        elif not isinstance(each, (int, float, complex)):
            return f"a {type(each).__name__}"
    return None
