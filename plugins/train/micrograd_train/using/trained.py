"""`load_predictor`: what ``micrograd train`` wrote, ready for rows as the user has them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from micrograd_core import checkpoints
from micrograd_core.checkpoints import Checkpoint, CheckpointError
from micrograd_core.checkpoints.refusals import damaged
from micrograd_core.data import DataError
from micrograd_core.device import Device, default_device
from micrograd_core.nn import Module
from micrograd_core.support.escaping import printable
from micrograd_train.learning import measures, networks
from micrograd_train.learning.inputs import Inputs
from micrograd_train.learning.loop import outputs


@dataclass(frozen=True, repr=False)
class Predictor:
    """A network, how data become its numbers, and how its numbers become answers: made by `load_predictor`.

    Rows are a dict of columns, a list of dicts, a pandas, polars or pyarrow table, the path of a file, or a NumPy array
    whose columns are `columns`. They may have more columns, in any order; a cell that is None or NaN is missing.

    Parameters
    ----------
    path : Path
        The file that the network was read from.
    model : Module
        In evaluation mode. It takes prepared numbers, and not rows.
    inputs : Inputs
        From rows to numbers, and back.
    device : Device
        Where the network computes.
    meta : dict
        What else the file says: ``meta["figures"]`` are those of the rows that were kept to judge by.

    Examples
    --------
    >>> import contextlib, io, tempfile
    >>> import numpy as np
    >>> from micrograd_core.tools.cli import main
    >>> from micrograd_train import load_predictor
    >>> folder = tempfile.mkdtemp()
    >>> with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    ...     status = main(["train", "iris", "--epochs", "1", "--out", folder])
    >>> predictor = load_predictor(folder)
    >>> rows = np.array([[5.1, 3.5, 1.4, 0.2]])
    >>> predictor.predict(rows).shape, predictor.probabilities(rows).shape
    ((1,), (1, 3))
    >>> predictor.answers(predictor.outputs(rows)) == predictor.predict(rows)
    array([ True])
    """

    path: Path
    model: Module
    inputs: Inputs
    device: Device
    meta: dict[str, Any]

    def __repr__(self) -> str:
        return (
            f"<Predictor of {self.inputs.target!r} ({self.inputs.task}) from {', '.join(map(printable, self.columns))}>"
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are looked at, as a tuple of str."""
        return self.inputs.columns

    @property
    def classes(self) -> tuple[Any, ...]:
        """The possible answers, as a tuple; empty for regression."""
        return self.inputs.classes

    def predict(self, rows: Any) -> Any:
        """The answer for each row, as ``micrograd predict`` gives it: a class, or a number in the target's unit.

        Parameters
        ----------
        rows
            As `Predictor` says.

        Returns
        -------
        numpy.ndarray
            (rows,); of sequences (rows, length).

        Raises
        ------
        DataError
            When a column is absent, or holds what the network cannot know: with the row and the column.
        """
        return self.answers(self.outputs(rows))

    def probabilities(self, rows: Any) -> Any:
        """How sure the network is of each class.

        Parameters
        ----------
        rows
            As `Predictor` says.

        Returns
        -------
        numpy.ndarray
            float64, (rows, classes), in the order of `classes`.

        Raises
        ------
        DataError
            As `predict` does; and where numbers are predicted.
        """
        if not self.classes:
            raise DataError(f"{self.inputs.target!r} is a number, and has no probabilities; use predict")
        return measures.probabilities(self.outputs(rows))

    def outputs(self, rows: Any) -> Any:
        """What the network itself computes from rows.

        Parameters
        ----------
        rows
            As `Predictor` says.

        Returns
        -------
        numpy.ndarray
            float32, (rows, classes); of regression (rows, 1), of sequences (rows, length, classes).

        Raises
        ------
        DataError
            As `predict` does.
        """
        return outputs(self.model, self.inputs.rows(rows).x, self.device)

    def answers(self, out: Any) -> Any:
        """The answers that the network's numbers stand for.

        Parameters
        ----------
        out : numpy.ndarray
            From `outputs`.

        Returns
        -------
        numpy.ndarray
            (rows,); of sequences (rows, length).
        """
        import numpy as np

        if self.inputs.task == "regression":
            assert self.inputs.preparation is not None
            return self.inputs.preparation.inverse(out.reshape(-1))
        return np.array(self.classes)[out.argmax(axis=-1)]


def found(path: str | Path) -> Checkpoint:
    """A checkpoint; also by the folder that it is in.

    Raises
    ------
    CheckpointError
        When there is none.
    """
    place = Path(path)
    return Checkpoint(place / "model.safetensors" if place.is_dir() else place)


def described(checkpoint: Checkpoint) -> tuple[dict[str, Any], Inputs] | None:
    """What a file that ``micrograd train`` wrote says beside the network; None of other files.

    Raises
    ------
    CheckpointError, DataError
        When it does not say it as a training does.
    """
    meta = checkpoint.meta
    if not (isinstance(meta, dict) and "inputs" in meta):
        return None
    texts = all(isinstance(meta.get(name), str) for name in ("model", "data", "judged_on"))
    figures = meta.get("figures")
    if not (texts and isinstance(figures, dict) and all(isinstance(each, (int, float)) for each in figures.values())):
        raise damaged(checkpoint.path, "what it says of its training makes no sense")
    return meta, Inputs.from_json(meta["inputs"])


def load_predictor(
    path: str | Path, *, device: str | None = None, model: str | None = None, unseen: str = "error"
) -> Predictor:
    """Read what ``micrograd train`` wrote, ready to predict.

    Parameters
    ----------
    path : str or Path
        The folder of a training, or its ``model.safetensors``.
    device : str, optional
        Where to compute, such as ``"cuda:1"``; by default on the default device.
    model : str, optional
        ``module:function`` for a network of the user's own: a file names code, and never runs any.
    unseen : {"error", "missing"}, default "error"
        What a category that was never seen counts as.

    Returns
    -------
    Predictor

    Raises
    ------
    CheckpointError
        When it is no network that ``micrograd train`` wrote.

    Examples
    --------
    >>> import contextlib, io, tempfile
    >>> from micrograd_core.tools.cli import main
    >>> from micrograd_train import load_predictor
    >>> folder = tempfile.mkdtemp()
    >>> with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    ...     status = main(["train", "moons", "--epochs", "1", "--out", folder])
    >>> load_predictor(folder).predict({"x": [0.0, 1.0], "y": [1.0, -0.5]}).shape
    (2,)
    """
    if unseen not in ("error", "missing"):
        raise DataError(f"unseen is one of 'error' and 'missing'; got {unseen!r}")
    checkpoint = found(path)
    told = described(checkpoint)
    if told is None:
        raise CheckpointError(
            f"{str(checkpoint.path)!r} does not say how data become the network's numbers, as what micrograd train "
            "writes does; micrograd inspect shows what is in it, and load_model loads it in Python"
        )
    meta, inputs = told
    if inputs.preparation is not None:
        inputs = replace(inputs, preparation=replace(inputs.preparation, unseen=unseen))
    place = default_device() if device is None else Device(device)
    if model is not None:
        wanted = networks.Wanted(inputs.shape, inputs.outputs, inputs.tokens)
        made = networks.make(model, wanted, None, place).to(place)  # type: ignore[arg-type]
        checkpoints.load(checkpoint.path, model=made)
    else:
        try:
            made = checkpoints.load_model(checkpoint.path, place, classes=networks.CLASSES)
        except CheckpointError as error:
            if ":" in meta["model"]:
                raise CheckpointError(
                    f"the network in {str(checkpoint.path)!r} was made by {meta['model']!r}, as the file says; a file "
                    "runs no code, so name the function yourself: --model MODULE:FUNCTION"
                ) from error
            raise
    return Predictor(checkpoint.path, made.eval(), inputs, place, meta)
