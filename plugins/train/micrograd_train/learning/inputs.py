"""What a network is shown: how a table, images or sequences become its numbers. It is kept with the weights."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from micrograd_core.data import DataError
from micrograd_core.data.errors import listed
from micrograd_core.engine.ingest import memory
from micrograd_train.pictures import images as images_of, pixels, suffixes
from micrograd_train.tables.preparation import Preparation
from micrograd_train.tables.reading import read

SCALARS = (str, int, float, datetime.date, datetime.time, type(None))
"""What stands in one cell: a dict of such is one row."""


@dataclass(frozen=True)
class Rows:
    """Examples as numbers, their targets where those are known, and what they were."""

    x: Any
    y: Any
    table: Any
    """A pyarrow table; images have one with the names of their files."""


@dataclass(frozen=True)
class Inputs:
    """From what a user has to what a network takes, and back.

    Attributes
    ----------
    kind : str
        ``"table"``: columns, as the preparation says. ``"pixels"``: a column for each pixel. ``"images"``: files.
        ``"tokens"``: a column for each position of a sequence.
    task : str
        ``"classification"``, ``"regression"`` or ``"sequence"``.
    target : str
        What is said of an example.
    names : tuple of str
        Of the numbers of an example, where they have names.
    classes : tuple
        What the integers of targets stand for.
    shape : tuple of int
        Of an example, as the network takes it.
    preparation : Preparation or None
        Of a table.
    image : tuple of int
        Channels, height and width, where examples are images; the network may take them flat.
    """

    kind: str
    task: str
    target: str
    names: tuple[str, ...]
    classes: tuple[Any, ...]
    shape: tuple[int, ...]
    preparation: Preparation | None = None
    image: tuple[int, ...] = ()

    @property
    def outputs(self) -> int:
        """How many numbers the network gives."""
        return len(self.classes) or 1

    @property
    def tokens(self) -> int:
        """How many different tokens there are in sequences."""
        return len(self.classes) if self.kind == "tokens" else 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table that are looked at, in the order in which an array has them."""
        return self.names if self.preparation is None else tuple(each.name for each in self.preparation.columns)

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────

    def rows(self, source: Any) -> Rows:
        """The examples of a file, of a folder, or of what `read` takes; of an array, its columns in their order.

        Raises
        ------
        DataError
            When it is not what the network was trained on: with the row and the column.
        """
        is_path = isinstance(source, (str, Path))
        if hasattr(source, "__array_interface__") or hasattr(source, "__array_namespace__"):
            source = self._of_array(source)
        if self.kind == "images":
            return source if isinstance(source, Rows) else self._images(source)
        if is_path and Path(source).is_dir():
            raise DataError(f"{str(source)!r} is a folder, and this network was trained on a table; name a file")
        if isinstance(source, Mapping) and source and all(isinstance(x, SCALARS) for x in source.values()):
            source = [source]
        table = read(source, preparation=self.preparation)
        if self.preparation is not None:
            return Rows(*self.preparation.apply(table), table)
        return Rows(*self._cells(table), table)

    def _of_array(self, array: Any) -> Any:
        """A table of the rows of an array; of images, these."""
        import numpy as np
        import pyarrow as pa

        array = np.asarray(array)
        if array.dtype.names:  # which knows its columns
            return {name: array[name] for name in array.dtype.names}
        if self.kind == "images":
            if array.ndim != 4 or array.shape[1:] != self.image:
                raise DataError(f"images are an array of shape (rows, *{self.image}); got {array.shape}")
            x = array.astype("float32").reshape(-1, *self.shape)
            return Rows(x, None, pa.table({"image": [str(i) for i in range(len(x))]}))
        if array.ndim != 2 or array.shape[1] != len(self.columns):
            raise DataError(
                f"an array has the shape (rows, {len(self.columns)}), for {listed(map(repr, self.columns))}; got "
                f"{array.shape}. A dict or a frame, which names its columns, may have more"
            )
        return {name: array[:, i].tolist() for i, name in enumerate(self.columns)}

    def _cells(self, table: Any) -> tuple[Any, Any]:
        """Columns as they are: pixels or tokens."""
        import numpy as np

        absent = [name for name in self.names if name not in table.column_names]
        if absent:
            raise DataError(
                f"the table lacks {'the column' if len(absent) == 1 else f'{len(absent)} columns, such as'} "
                f"{absent[0]!r}, which the network was trained on"
            )
        places = {str(each): i for i, each in enumerate(self.classes)}
        if self.kind == "tokens":
            x = np.stack([self._known(table, name, places) for name in self.names], axis=1)
            return x, None
        x = self._numbers(table).reshape(-1, *self.shape)
        return x, self._known(table, self.target, places) if self.target in table.column_names else None

    def _numbers(self, table: Any) -> Any:
        import numpy as np

        from micrograd_train.tables.columns import numbers
        from micrograd_train.tables.reading import place

        made = np.stack([numbers(table, name, False) for name in self.names], axis=1)
        wrong = np.argwhere(np.isnan(made))
        if len(wrong):
            row, column = map(int, wrong[0])
            raise DataError(f"{place(table, row, self.names[column])}: nothing stands where a number belongs")
        return made.astype("float32")

    def _known(self, table: Any, name: str, places: dict[str, int]) -> Any:
        import numpy as np

        from micrograd_train.tables.reading import place

        cells = [str(each) for each in table[name].to_pylist()]
        for row, each in enumerate(cells):
            if each not in places:
                raise DataError(f"{place(table, row, name)}: {each!r} was never seen; known are {listed(places)}")
        return np.array([places[each] for each in cells], dtype="int64")

    def _images(self, source: Any) -> Rows:
        """The images of a folder by class, those that lie in a folder, or a single one."""
        import numpy as np
        import pyarrow as pa

        if not isinstance(source, (str, Path)):
            raise DataError(
                f"images are a folder, a file, or an array (rows, *{self.image}); got {type(source).__name__}"
            )
        folder = Path(source)
        channels, *size = self.image
        if folder.is_dir() and any(each.is_dir() and not each.name.startswith(".") for each in folder.iterdir()):
            found = images_of(folder, size=(size[0], size[1]), grey=channels == 1)
            places = {str(each): i for i, each in enumerate(self.classes)}
            unseen = [each for each in found.classes if each not in places]
            if unseen:
                raise DataError(
                    f"the class {unseen[0]!r} of {str(folder)!r} was never seen; known are {listed(places)}"
                )
            y = np.array([places[found.classes[i]] for i in found.y.tolist()], dtype="int64")
            names = [str(i) for i in range(len(y))]
            return Rows(found.x.reshape(-1, *self.shape), y, pa.table({"image": names}))
        if not folder.exists():
            raise DataError(f"there is no file or folder {str(folder)!r}")
        known = suffixes()
        paths = [folder] if folder.is_file() else sorted(p for p in folder.iterdir() if p.suffix.lower() in known)
        if not paths:
            raise DataError(f"there are no images in {str(folder)!r}")
        x = np.stack([pixels(np, path, (size[0], size[1]), channels == 1) for path in paths]).astype("float32") / 255
        return Rows(x.reshape(-1, *self.shape), None, pa.table({"image": [path.name for path in paths]}))

    # ── as JSON ──────────────────────────────────────────────────────────────────────────────────────────────

    def to_json(self) -> dict[str, Any]:
        """All of it in what JSON has."""
        told = {name: value for name, value in vars(self).items() if name != "preparation"}
        return {
            **{name: list(value) if isinstance(value, tuple) else value for name, value in told.items()},
            "preparation": None if self.preparation is None else self.preparation.to_json(),
        }

    @classmethod
    def from_json(cls, given: Any) -> Inputs:
        """The inputs that `to_json` was of.

        Raises
        ------
        DataError
            When they are none.
        """
        try:
            made: dict[str, Any] = {
                name: tuple(x) if isinstance(x, list) else x for name, x in given.items() if name != "preparation"
            }
            found = given["preparation"]
            numbers = (*made["shape"], *made["image"])
            if not (
                made["kind"] in ("table", "pixels", "images", "tokens")
                and made["task"] in ("classification", "regression", "sequence")
                and all(isinstance(each, str) for each in (made["target"], *made["names"]))
                and all(isinstance(each, (str, bool, int, float)) for each in made["classes"])
                and all(type(each) is int and each > 0 for each in numbers)
                and math.prod(made["shape"]) * 4 < memory()
                and len(made["image"]) in (0, 3)
                and (made["kind"] == "table") == (found is not None)
            ):
                raise ValueError("of its settings")
            return cls(**made, preparation=None if found is None else Preparation.from_json(found))
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"the file does not say how data become the network's numbers: {error}") from error
