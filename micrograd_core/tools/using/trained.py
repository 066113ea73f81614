"""A file that ``micrograd train`` wrote, ready for use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from micrograd_core import checkpoints
from micrograd_core.checkpoints import Checkpoint, CheckpointError
from micrograd_core.device import Device, default_device
from micrograd_core.nn import Module
from micrograd_core.tools.learning import networks
from micrograd_core.tools.learning.inputs import Inputs


@dataclass(frozen=True)
class Trained:
    """A network, how data become its numbers, and what else its file says.

    Attributes
    ----------
    path : Path
    model : Module
        In evaluation mode.
    inputs : Inputs
    device : Device
    meta : dict
    """

    path: Path
    model: Module
    inputs: Inputs
    device: Device
    meta: dict[str, Any]


def found(path: str) -> Checkpoint:
    """A checkpoint; also by the folder that it is in.

    Raises
    ------
    CheckpointError
        When there is none.
    """
    place = Path(path)
    return Checkpoint(place / "model.safetensors" if place.is_dir() else place)


def load(path: str, device: str | None = None, model: str | None = None) -> Trained:
    """The network of a file, or of the folder of a training.

    Parameters
    ----------
    path : str
    device : str, optional
    model : str, optional
        ``module:function`` for a network of the user's own: a file names code, and never runs any.

    Raises
    ------
    CheckpointError
        When it is no network that ``micrograd train`` wrote.
    """
    checkpoint = found(path)
    meta = checkpoint.meta
    if not isinstance(meta, dict) or "inputs" not in meta:
        raise CheckpointError(
            f"{str(checkpoint.path)!r} does not say how data become the network's numbers, as what micrograd train "
            "writes does; micrograd inspect shows what is in it, and load_model loads it in Python"
        )
    inputs = Inputs.from_json(meta["inputs"])
    place = default_device() if device is None else Device(device)
    if model is not None:
        wanted = networks.Wanted(inputs.shape, inputs.outputs, inputs.tokens)
        made = networks.make(model, wanted, None, place).to(place)  # type: ignore[arg-type]
        checkpoints.load(checkpoint.path, model=made)
    else:
        own = str(meta.get("model", ""))
        try:
            made = checkpoints.load_model(checkpoint.path, place, classes=networks.CLASSES)
        except CheckpointError as error:
            if ":" in own:
                raise CheckpointError(
                    f"the network in {str(checkpoint.path)!r} was made by {own}; a file runs no code, so say that it "
                    f"may be called: --model {own}"
                ) from error
            raise
    return Trained(checkpoint.path, made.eval(), inputs, place, meta)
