"""What batches are made of: data whose rows are reached by their places, and data that come one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.data.collating import Path, collate, comes_from, is_array, rebuilt, where
from micrograd_core.data.errors import DataError, listed, numpy_for

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
    if comes_from(data, "micrograd_train", "Dataset"):
        data = data.x, data.y
    if any(comes_from(data, "datasets", name) for name in ("DatasetDict", "IterableDatasetDict")):
        raise DataError(f"a {type(data).__name__} holds sets; choose one of {listed(map(repr, data))}")
    if comes_from(data, "torch", "DataLoader"):
        return Streamed(data, _length_of(data), loader=True)
    if isinstance(data, (tuple, Mapping)) or is_array(data) or _is_of_columns(data):
        return _columns(data)
    if isinstance(data, (str, bytes)) or not any(hasattr(type(data), name) for name in ("__iter__", "__getitem__")):
        raise DataError(
            f"batches are made of arrays, tensors, lists, tables, data sets and iterables; got a {type(data).__name__}"
        )
    places, length = hasattr(type(data), "__getitem__"), _length_of(data)
    if not places or length is None or comes_from(data, "torch", "IterableDataset"):
        return Streamed(data, length)
    if hasattr(data, "column_names") and hasattr(data, "features"):  # Hugging Face: many rows at once
        return Indexed(length, lambda rows: (_listed(data[list(rows)]), False))
    return Indexed(length, lambda rows: (collate([data[i] for i in rows]), True))


def _length_of(data: Any) -> int | None:
    try:
        return len(data)
    except (TypeError, NotImplementedError):
        return None


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
    leaves: dict[Path, Any] = {}
    build = _taken_apart(data, (), leaves)
    lengths = {where(path): _length(leaf, path) for path, leaf in leaves.items()}
    if not lengths:
        raise DataError(f"there are no columns in this {type(data).__name__}")
    if len(set(lengths.values())) > 1:
        told = listed(f"{name} has {length:,}" for name, length in lengths.items())
        raise DataError(f"columns have as many rows as each other; {told}")

    def take(rows: Rows) -> tuple[Any, bool]:
        return build(iter([_rows(leaf, rows) for leaf in leaves.values()])), type(rows) is list

    return Indexed(next(iter(lengths.values())), take)


def _taken_apart(data: Any, path: Path, leaves: dict[Path, Any]) -> Callable[[Iterator[Any]], Any]:
    """Add the columns to `leaves`; the function that puts others in their places."""
    if _is_of_columns(data) and hasattr(data, "columns"):
        names = list(getattr(data, "column_names", None) or data.columns)
        twice = [name for i, name in enumerate(names) if name in names[:i]]
        if twice:
            raise DataError(f"a table has each name once; {twice[0]!r} stands for more than one column")
        data = {name: data[name] for name in names}
    if isinstance(data, Mapping):
        parts = {key: _taken_apart(part, (*path, key), leaves) for key, part in data.items()}
        return lambda rest: {key: part(rest) for key, part in parts.items()}
    if isinstance(data, tuple):
        items = [_taken_apart(part, (*path, k), leaves) for k, part in enumerate(data)]
        return lambda rest: rebuilt(data, [part(rest) for part in items])
    leaves[path] = _leaf(data, path)
    return next


def _leaf(data: Any, path: Path) -> Any:
    """A column as a NumPy array, a tensor of ours or torch's, or a list."""
    if _is_of_columns(data):
        numpy_for(f"a {type(data).__name__}")
        return data.to_numpy(zero_copy_only=False) if comes_from(data, "pyarrow", "Array") else data.to_numpy()
    if isinstance(data, Tensor) or comes_from(data, "torch"):
        return data
    if hasattr(data, "__array_interface__"):
        return numpy_for("an array").asarray(data)
    if is_array(data):
        return asarray(data)
    if _length_of(data) is not None and hasattr(data, "__getitem__") and not isinstance(data, (str, bytes)):
        return data
    raise DataError(f"{where(path)} is a {type(data).__name__}, and a column has rows: give an array or a list")


def _length(leaf: Any, path: Path) -> int:
    if is_array(leaf) and not tuple(leaf.shape):
        raise DataError(f"{where(path)} is one number, and a column has rows")
    return len(leaf)


def _rows(leaf: Any, rows: Rows) -> Any:
    if is_array(leaf):
        return leaf[rows.start : rows.stop] if isinstance(rows, range) else leaf[rows]
    return collate([leaf[i] for i in rows])
