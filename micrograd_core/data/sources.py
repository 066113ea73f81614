"""What batches are made of: data whose rows are reached by their places, and data that come one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.data.collating import Path, collate, comes_from, is_array, rebuilt, where
from micrograd_core.data.dataset import Dataset
from micrograd_core.data.errors import DataError, listed, needed

Rows = Sequence[int]
"""Places of examples: a range where they stand in order."""


@dataclass(frozen=True)
class Indexed:
    """Examples with places."""

    length: int
    take: Callable[[Rows], tuple[Any, bool]]
    """The batch of these rows as the host has it, and whether its memory is nobody else's."""


@dataclass
class Streamed:
    """Examples, or whole batches, that come one after another."""

    data: Iterable[Any]
    length: int | None
    loader: bool = False
    read: bool = False

    def start(self) -> Iterator[Any]:
        """From the first one.

        Raises
        ------
        DataError
            When the data can be read once only, and have been.
        """
        found = iter(self.data)
        if found is self.data:
            if self.read:
                raise DataError(
                    f"a {type(self.data).__name__} is read once, and has been; to start again give a list, or an "
                    "object whose __iter__ starts anew"
                )
            self.read = True
        return found


def source(data: Any) -> Indexed | Streamed:
    """How the examples of `data` are reached.

    Raises
    ------
    DataError
        When they are not.
    """
    if isinstance(data, Dataset):
        data = data.x, data.y
    if any(comes_from(data, "datasets", name) for name in ("DatasetDict", "IterableDatasetDict")):
        raise DataError(f"a {type(data).__name__} holds sets; choose one of {listed(map(repr, data))}")
    if comes_from(data, "torch", "DataLoader"):
        return Streamed(data, len(data) if _has_length(data) else None, loader=True)
    if isinstance(data, (tuple, Mapping)) or is_array(data) or _is_of_columns(data):
        return _columns(data)
    if isinstance(data, (str, bytes)) or not any(hasattr(type(data), name) for name in ("__iter__", "__getitem__")):
        raise DataError(
            f"batches are made of arrays, tensors, lists, tables, data sets and iterables; got a {type(data).__name__}"
        )
    places = hasattr(type(data), "__getitem__") and not comes_from(data, "torch", "IterableDataset")
    if not places or not _has_length(data):
        return Streamed(data, len(data) if _has_length(data) else None)
    if hasattr(data, "column_names") and hasattr(data, "features"):  # Hugging Face: many rows at once
        return Indexed(len(data), lambda rows: (_listed(data[list(rows)]), False))
    return Indexed(len(data), lambda rows: (collate([data[i] for i in rows]), True))


def _has_length(data: Any) -> bool:
    try:
        len(data)
    except (TypeError, NotImplementedError):
        return False
    return True


def _listed(batch: Mapping[str, Any]) -> dict[str, Any]:
    return {key: collate(column, (key,)) if isinstance(column, list) else column for key, column in batch.items()}


# ── columns ──────────────────────────────────────────────────────────────────────────────────────────────────


def _is_of_columns(data: Any) -> bool:
    if type(data).__name__ == "LazyFrame":
        raise DataError("a LazyFrame has no rows yet; give its .collect()")
    if not any(comes_from(data, package) for package in ("pandas", "polars", "pyarrow")):
        return False
    return hasattr(data, "columns") or hasattr(data, "to_numpy")


def _columns(data: Any) -> Indexed:
    tree = _leaves(data, ())
    lengths = {where(path): length for path, length in _lengths(tree, ())}
    if not lengths:
        raise DataError(f"there are no columns in this {type(data).__name__}")
    if len(set(lengths.values())) > 1:
        told = listed(f"{name} has {length:,}" for name, length in lengths.items())
        raise DataError(f"columns have as many rows as each other; {told}")
    return Indexed(next(iter(lengths.values())), lambda rows: (_taken(tree, rows), type(rows) is list))


def _leaves(data: Any, path: Path) -> Any:
    """The same structure, whose leaves are NumPy arrays, tensors of ours or torch's, and lists."""
    if isinstance(data, Mapping):
        return {key: _leaves(part, (*path, key)) for key, part in data.items()}
    if isinstance(data, tuple):
        return rebuilt(data, [_leaves(part, (*path, k)) for k, part in enumerate(data)])
    if _is_of_columns(data):
        if hasattr(data, "columns"):
            return _frame(data, path)
        needed("numpy", f"a {type(data).__name__}")
        flat = comes_from(data, "pyarrow", "Array")
        return data.to_numpy(zero_copy_only=False) if flat else data.to_numpy()
    if isinstance(data, Tensor) or comes_from(data, "torch"):
        return data
    if hasattr(data, "__array_interface__"):
        return needed("numpy", "an array").asarray(data)
    if is_array(data):
        return asarray(data)
    if _has_length(data) and hasattr(data, "__getitem__") and not isinstance(data, (str, bytes)):
        return data
    raise DataError(f"{where(path)} is a {type(data).__name__}, and a column has rows: give an array or a list")


def _frame(data: Any, path: Path) -> dict[str, Any]:
    names = list(getattr(data, "column_names", None) or data.columns)
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise DataError(f"a table has each name once; {twice[0]!r} stands for more than one column")
    return {name: _leaves(data[name], (*path, name)) for name in names}


def _lengths(tree: Any, path: Path) -> Iterator[tuple[Path, int]]:
    if isinstance(tree, dict):
        for key, part in tree.items():
            yield from _lengths(part, (*path, key))
    elif isinstance(tree, tuple):
        for k, part in enumerate(tree):
            yield from _lengths(part, (*path, k))
    elif is_array(tree) and not tuple(tree.shape):
        raise DataError(f"{where(path)} is one number, and a column has rows")
    else:
        yield path, len(tree)


def _taken(tree: Any, rows: Rows) -> Any:
    if isinstance(tree, dict):
        return {key: _taken(part, rows) for key, part in tree.items()}
    if isinstance(tree, tuple):
        return rebuilt(tree, [_taken(part, rows) for part in tree])
    if is_array(tree):
        return tree[rows.start : rows.stop] if isinstance(rows, range) else tree[rows]
    return collate([tree[i] for i in rows])
