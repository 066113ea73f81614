"""Numbers, strings, lists and dicts with tensors among them, as JSON and tensors apart, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.checkpoints.refusals import CheckpointError
from micrograd_core.device import Device
from micrograd_core.dtypes import DType, dtype as as_dtype, weak
from micrograd_core.nn import functional
from micrograd_core.support.escaping import printable
from micrograd_core.support.open_devices import OPENED
from micrograd_core.support.size import Size

PLAIN = (type(None), bool, int, float, str)
MARK = "$"
"""What stands for something that JSON has not is a dict of one entry, whose key begins so."""


def encoded(tree: Any, other: Callable[[Any, str], Any], place: str = "") -> Any:
    """A tree as JSON. `other` gets what is none of JSON, and where it stands, and gives what stands for it."""
    tree = tree if isinstance(tree, Tensor) else int(tree) if type(tree) is Size else weak(tree)
    if type(tree) in PLAIN:
        return tree
    if type(tree) is list:
        return [encoded(x, other, f"{place}.{i}".lstrip(".")) for i, x in enumerate(tree)]
    if type(tree) is tuple:
        return {"$tuple": encoded(list(tree), other, place)}
    if isinstance(tree, dict):
        pairs = [(key, encoded(x, other, f"{place}.{key}".lstrip("."))) for key, x in tree.items()]
        if all(type(key) is str and not key.startswith(MARK) for key in tree):
            return dict(pairs)
        return {"$dict": [[encoded(key, other, place), x] for key, x in pairs]}
    if isinstance(tree, DType):
        return {"$dtype": tree.name}
    if isinstance(tree, Device):
        return {"$device": str(tree)}
    name = getattr(tree, "__name__", None)
    if isinstance(name, str):
        for module in ("", "nn.functional."):
            if _function(f"{module}{name}") is tree:
                return {"$function": f"{module}{name}"}
    return other(tree, place)


def _function(name: str) -> Any:
    """What is called so among the functions of `micrograd_core`, or of ``nn.functional``."""
    module, _, own = name.rpartition(".")
    return getattr(functional, own) if module == "nn.functional" and own in functional.__all__ else FUNCTIONS.get(name)


def _open(name: str) -> Device:
    """A device that is open: to open one runs its plugin, and which is not a file's to say."""
    device: Device | None = OPENED.get(name)
    if device is None:
        raise CheckpointError(
            f"the checkpoint names the device {name!r}, which is not open, and a file opens none. If you trust it, "
            "open the device first, with micrograd_core.Device"
        )
    return device


def decoded(tree: Any, other: Callable[[str, Any], Any]) -> Any:
    """A tree from its JSON; `other` gets marks that are not known here, and what they mark."""
    if isinstance(tree, list):
        return [decoded(x, other) for x in tree]
    if not isinstance(tree, dict):
        return tree
    mark, inner = next(iter(tree.items()), ("", None))
    if len(tree) != 1 or not mark.startswith(MARK):
        return {key: decoded(x, other) for key, x in tree.items()}
    known: dict[str, Callable[[Any], Any]] = {
        "$tuple": lambda parts: tuple(decoded(parts, other)),
        "$dict": lambda pairs: {decoded(key, other): decoded(x, other) for key, x in pairs},
        "$dtype": as_dtype,
        "$device": _open,
        "$function": _function,
    }
    try:
        found = known[mark](inner) if mark in known and inner is not None else None
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint is damaged: it has {printable(mark)} {inner!r}") from error
    return other(mark, inner) if found is None else found


def apart(name: str, tree: Any, tensors: dict[str, Tensor]) -> Any:
    """A tree as JSON; the tensors that were in it are put into `tensors`, as ``name/…`` by where they stood."""

    def other(x: Any, place: str) -> Any:
        if isinstance(x, Tensor) or hasattr(x, "__array_interface__") or hasattr(x, "__dlpack__"):
            full = f"{name}/{place}"
            tensors[full] = asarray(x)
            return {"$tensor": full}
        raise CheckpointError(
            f"save: {name}{f' at {place}' if place else ''} has an object of type {type(x).__name__}; a checkpoint "
            "holds numbers, strings, None, tensors and arrays, and lists, tuples and dicts of them"
        )

    return encoded(tree, other)


def together(tree: Any, fetch: Callable[[str], Tensor]) -> Any:
    """A tree from the JSON of `apart`; `fetch` gives the tensor of a name."""

    def other(mark: str, inner: Any) -> Any:
        if mark == "$tensor" and isinstance(inner, str):
            return fetch(inner)
        raise CheckpointError(f"the checkpoint is damaged, or of a newer version: it has {printable(mark)}")

    return decoded(tree, other)
