"""`Dataset`: examples with what is to be learned from them, and what is known of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from micrograd_core.data.errors import DataError


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Examples as NumPy arrays: inputs, targets, and what they are called.

    Parameters
    ----------
    x : numpy.ndarray
        Inputs, float32, or int64 where they are tokens: ``x.shape == (len(dataset), *shape)``.
    y : numpy.ndarray
        Classes as int64 (n,), numbers as float32 (n,), or classes of each position of a sequence, int64 (n, length).
    names : tuple of str
        Of the columns of ``x.reshape(n, -1)``; empty for images.
    classes : tuple of str
        What the integers of `y` stand for; empty for regression. For sequences also what those of `x` stand for.
    task : str
        ``"classification"``, ``"regression"`` or ``"sequence"``.
    shape : tuple of int
        Of one example.
    description : str
        Where the data come from, in a sentence or two.
    target : str, default "target"
        What `y` is called.

    Examples
    --------
    >>> from micrograd_train import sets
    >>> iris = sets.load("iris")
    >>> iris.x.shape, iris.classes, iris.target
    ((150, 4), ('setosa', 'versicolor', 'virginica'), 'species')
    """

    x: Any
    y: Any
    names: tuple[str, ...]
    classes: tuple[str, ...]
    task: str
    shape: tuple[int, ...]
    description: str
    target: str = "target"

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.shape))
        classes = f", {len(self.classes)} classes" if self.classes else ""
        return f"<Dataset for {self.task}: {len(self):,} examples of {shape}{classes}>"

    def table(self) -> Any:
        """Make a table of the examples: a column for each number of an example, and the target under its name.

        Returns
        -------
        pyarrow.Table

        Raises
        ------
        DataError
            When the examples have no columns.

        Examples
        --------
        >>> from micrograd_train import sets
        >>> sets.load("iris").table().num_columns
        5
        """
        if self.task == "sequence" or not self.names:
            raise DataError(f"a table has a column for each number of an example; {self!r} has no names for them")
        import pyarrow as pa

        flat = self.x.reshape(len(self), -1)
        columns = {name: pa.array(flat[:, i]) for i, name in enumerate(self.names)}
        columns[self.target] = pa.array([self.classes[i] for i in self.y] if self.classes else self.y)
        return pa.table(columns)
