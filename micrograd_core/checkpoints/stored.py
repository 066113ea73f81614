"""Saving and loading: which objects there are, and what of each is in the file."""

from __future__ import annotations

import math
import random as python_random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from micrograd_core.array.tensor import Tensor
from micrograd_core.checkpoints import container
from micrograd_core.checkpoints.refusals import CheckpointError, damaged, read_with_care
from micrograd_core.checkpoints.structure import Built, Described, generators, restore
from micrograd_core.checkpoints.trees import PLAIN, apart, together
from micrograd_core.device import Device, default_device
from micrograd_core.errors import MicrogradError, one_of
from micrograd_core.nn import Module
from micrograd_core.random import Generator, default_generator
from micrograd_core.support.escaping import printable

FORMAT: Final = 1
"""The version of what a file says of itself."""


States = Any
"""What has ``state_dict()`` and ``load_state_dict(state)``, or a list, tuple or dict of such objects."""


class Checkpoint:
    """The contents of a file. Numbers are read when they are used.

    Parameters
    ----------
    path : str or Path
        The file.

    Attributes
    ----------
    path : Path
    meta : Any
        The `meta` that `save` was given.
    version : str
        Of micrograd-core, which wrote it; empty where another library did.
    device : str
        Where the model was.
    parts : tuple of str
        Those of ``model``, ``optimizer``, ``schedule``, ``scaler``, ``data`` and ``random`` that the file has.
    tensors : dict
        Dtype and shape of each tensor, by name; those that belong to no model have a ``/`` in it.
    structure : dict
        The class, the arguments and the changed attributes of each module, by name.

    Raises
    ------
    CheckpointError
        When the file is missing, is no checkpoint, or is damaged.

    Examples
    --------
    >>> import os, tempfile
    >>> import micrograd_core as mg
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> model = mg.nn.Linear(2, 1)
    >>> mg.checkpoints.save(path, model=model, meta={"epoch": 3})
    >>> found = mg.checkpoints.Checkpoint(path)
    >>> found.parts, found.meta
    (('model',), {'epoch': 3})
    """

    def __init__(self, path: str | Path) -> None:
        self._contents = contents = container.Contents(path)
        self.path, self.tensors = contents.path, contents.tensors
        self._told = told = contents.told
        with read_with_care(self.path):
            facts = told.get("micrograd", {})
            if facts.get("format", FORMAT) != FORMAT:
                raise CheckpointError(
                    f"{str(self.path)!r} was written by micrograd-core {printable(facts.get('version'))}, in a format "
                    "that this one does not read; update it: pip install -U micrograd-core"
                )
            self.version, self.device = (printable(facts.get(name, "")) for name in ("version", "device"))
            self.structure: dict[str, Any] = told.get("structure", {})
            self._tied: dict[str, str] = told.get("tied", {})
            self.parts: tuple[str, ...] = tuple(part for part in PARTS if part in facts.get("parts", ["model"]))
            self.meta = self.state("meta") if "meta" in told else None
            self._kind = str(self.structure.get("", {}).get("class", "")).removeprefix("nn.")

    def state(self, part: str, device: str | Device | None = None) -> Any:
        """Read what was saved of a part, as its `state_dict` was.

        Parameters
        ----------
        part : str
            Such as ``"data"``, one of `parts`.
        device : Device or str, optional
            Where tensors are made; by default on the default device.

        Returns
        -------
        dict, or a list, tuple or dict of such

        Raises
        ------
        CheckpointError
            When the file has no such part.

        Examples
        --------
        >>> import os, tempfile
        >>> import micrograd_core as mg
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> mg.checkpoints.save(path, model=mg.nn.Linear(2, 1))
        >>> sorted(mg.checkpoints.Checkpoint(path).state("model"))
        ['bias', 'weight']
        """
        if part == "model":
            return self.state_dict(device)
        if part not in self._told:
            raise self._absent(part)
        own = self._contents.read([name for name in self.tensors if name.startswith(f"{part}/")], device)
        with read_with_care(self.path):
            return together(self._told[part], own.__getitem__)

    def state_dict(self, device: str | Device | None = None) -> dict[str, Tensor]:
        """Read the numbers of the model: what `Module.load_state_dict` takes.

        Parameters
        ----------
        device : Device or str, optional
            Where tensors are made; by default on the default device.

        Returns
        -------
        dict of str to Tensor

        Raises
        ------
        CheckpointError
            When the file has no model.

        Examples
        --------
        >>> import os, tempfile
        >>> import micrograd_core as mg
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> mg.checkpoints.save(path, model=mg.nn.Linear(2, 1))
        >>> mg.checkpoints.Checkpoint(path).state_dict()["weight"].shape
        (1, 2)
        """
        if "model" not in self.parts:
            raise self._absent("model")
        found = self._contents.read([name for name in self.tensors if "/" not in name or not self.version], device)
        with read_with_care(self.path):
            return found | {name: found[first] for name, first in self._tied.items()}

    def _absent(self, part: str) -> CheckpointError:
        return CheckpointError(
            f"{str(self.path)!r} has no {part}; it has {one_of(self.parts) if self.parts else 'nothing but meta'}. "
            f"It is saved by save(path, …, {part}=…)"
        )

    def __repr__(self) -> str:
        numbers = sum(math.prod(shape) for name, (_, shape) in self.tensors.items() if "/" not in name)
        facts = [
            f"{printable(self._kind) or 'a model'} of {numbers:,} numbers" if "model" in self.parts else "",
            *(part for part in self.parts if part != "model"),
            f"meta={self.meta!r}" if self.meta is not None else "",
            f"from {self.device}" if self.device else "",
        ]
        return f"<Checkpoint {str(self.path)!r}: {', '.join(filter(None, facts))}>"


PARTS: Final = ("model", "optimizer", "schedule", "scaler", "data", "random")


def save(
    path: str | Path, *, model: Module | None = None, optimizer: States = None, schedule: States = None,
    scaler: States = None, data: States = None, random: Any = None, meta: Any = None,
) -> None:  # fmt: skip
    """Write all that a run needs to go on to one safetensors file, whole or not at all.

    Other libraries read it, and find the parameters by the names of ``model.state_dict()``. A former file of that name
    stays as it is until the new one is complete and on the disk, whatever happens.

    Parameters
    ----------
    path : str or Path
    model : Module, optional
        Its numbers, its structure, whether it is in training, and the places of its generators.
    optimizer, schedule, scaler, data : optional
        Objects with ``state_dict()``, or lists, tuples or dicts of such.
    random : bool, generator, or list, tuple or dict of generators
        Where random numbers stand. ``True``: those of the default generator, and of Python's ``random``. A generator is
        one of `micrograd_core.random`, of Python's ``random``, or of NumPy.
    meta : optional
        Anything of numbers, strings, tensors, and lists, tuples and dicts of them.

    Raises
    ------
    CannotWrite
        When the disk is full, the folder is not there, and the like.
    CheckpointError
        When there is something in a state that a file cannot hold.

    Examples
    --------
    >>> import os, tempfile
    >>> import micrograd_core as mg
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> model = mg.nn.Linear(2, 1)
    >>> mg.checkpoints.save(path, model=model, meta={"epoch": 3})
    >>> sorted(mg.checkpoints.Checkpoint(path).tensors)
    ['bias', 'weight']
    """
    parts = {"optimizer": optimizer, "schedule": schedule, "scaler": scaler, "data": data, "random": _meant(random)}
    try:
        container.write(Path(path), *_taken_apart(model, parts, meta))
    except RecursionError as error:
        raise CheckpointError("save: what is to be saved holds itself, or lies too deep in lists and dicts") from error


def _taken_apart(model: Module | None, given: dict[str, States], meta: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file, and what is told beside them."""
    tensors: dict[str, Tensor] = {}
    told: dict[str, Any] = {}
    parts: list[str] = []
    facts: dict[str, Any] = {"format": FORMAT, "version": version("micrograd-core"), "device": "", "parts": parts}
    if model is not None:
        names = {id(x): name for name, x in model.named_tensors()}
        every = model._every_tensor()
        for name, x in every.items():
            if "/" in name:
                raise CheckpointError(
                    f"save: the model has a tensor named {name!r}; names with a / are those of optimisers and the like"
                )
            if names[id(x)] == name:
                tensors[name] = x
        told["tied"] = {name: names[id(x)] for name, x in every.items() if names[id(x)] != name}
        told["structure"] = Described(model).modules
        told["generators"] = {name: list(generator.state) for name, generator in generators(model).items()}
        facts["device"] = str(next((x.device for x in every.values()), default_device()))
        parts.append("model")
    for part, x in given.items():
        if x is not None:
            told[part] = apart(part, _states(part, x), tensors)
            parts.append(part)
    if meta is not None:
        told["meta"] = apart("meta", meta, tensors)
    return tensors, {"micrograd": facts, **told}


def load(
    path: str | Path, *, model: Module | None = None, optimizer: States = None, schedule: States = None,
    scaler: States = None, data: States = None, random: Any = None, device: str | Device | None = None,
) -> Checkpoint:  # fmt: skip
    """Let objects go on from what `save` wrote; what is not given stays in the file.

    Parameters
    ----------
    path : str or Path
        Also a safetensors file of another library, which has numbers for a model.
    model, optimizer, schedule, scaler, data, random : optional
        As they were given to `save`: made in the same way, with any numbers. They keep their device and dtype.
    device : str or Device, optional
        Where the model is moved to first; make optimisers after that.

    Returns
    -------
    Checkpoint
        The other contents of the file: ``meta``, ``version``, ``device``, ``structure``, ``state(part)``.

    Raises
    ------
    CheckpointError
        When the file is not there, is no checkpoint, is damaged, or lacks what is asked for.
    ShapeError
        When the numbers do not fit the objects; none of them has changed then.

    Examples
    --------
    >>> import os, tempfile
    >>> import micrograd_core as mg
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> model = mg.nn.Linear(2, 1)
    >>> mg.checkpoints.save(path, model=model, meta={"epoch": 3})
    >>> other = mg.nn.Linear(2, 1)
    >>> mg.checkpoints.load(path, model=other).meta
    {'epoch': 3}
    >>> (other.weight == model.weight).all()
    Tensor(True)
    """
    found = Checkpoint(path)
    given = {"optimizer": optimizer, "schedule": schedule, "scaler": scaler, "data": data, "random": _meant(random)}
    wanted = {part: x for part, x in given.items() if x is not None}
    for part in (["model"] if model is not None else []) + [*wanted]:
        if part not in found.parts:
            raise found._absent(part)
    undo: list[Callable[[], Any]] = []
    several = len(wanted) + (model is not None) > 1 or (model is not None and bool(generators(model)))
    try:
        if model is not None:
            if device is not None:
                model.to(device)
            place = next((x.device for _, x in model.named_tensors()), default_device())
            state = found.state_dict(place)
            if several:
                before, places = model.state_dict(), {name: [*x.state] for name, x in generators(model).items()}
                undo.append(partial(_load_model, model, before, places, ""))
            _load_model(model, state, found._told.get("generators", {}), str(found.path))
        for part, x in wanted.items():
            state = found.state(part, device)
            if several:
                undo.append(partial(_restore, part, x, _states(part, x), ""))
            _restore(part, x, state, f"{str(found.path)!r}: the {part}")
    except BaseException:
        for each in reversed(undo):
            each()
        raise
    return found


def load_model(
    path: str | Path, device: str | Device | None = None, *,
    classes: Mapping[str, type[Module]] | Iterable[type[Module]] = (),
) -> Module:  # fmt: skip
    """The model that a file holds, made from what the file says of its structure. No code is in it, and none is run.

    Layers of `micrograd_core.nn` are known; of a class of your own the file has the name and the arguments.

    Parameters
    ----------
    path : str or Path
    device : str or Device, optional
        Where it is to live; by default the default device, wherever it was saved.
    classes : mapping from names to classes, or classes
        Your own that are in it.

    Returns
    -------
    Module
        With the numbers, dtypes, tied weights and mode, ``train()`` or ``eval()``, that it was saved with.

    Raises
    ------
    CheckpointError
        When the file is not there, is no checkpoint, is damaged, or has a class that is not known: it says what to do.
    UnsupportedDType
        When the device lacks a dtype.

    Examples
    --------
    >>> import os, tempfile
    >>> import micrograd_core as mg
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> model = mg.nn.Linear(2, 1)
    >>> mg.checkpoints.save(path, model=model, meta={"epoch": 3})
    >>> mg.checkpoints.load_model(path)
    Linear(2, 1)
    """
    found = Checkpoint(path)
    if "model" not in found.parts:
        raise found._absent("model")
    if not found.structure:
        raise CheckpointError(
            f"{str(found.path)!r} does not say what its model is made of, as another library wrote it; make the model "
            "yourself: load(path, model=...)"
        )
    place = default_device() if device is None else Device(device)
    known = classes if isinstance(classes, Mapping) else {each.__name__: each for each in classes}
    names = [name for name in found.tensors if "/" not in name]
    tensors = found._contents.read(names, place)
    used: set[str] = set()

    def fetch(name: str) -> Tensor:
        if name not in tensors:
            raise damaged(found.path, f"the tensor {name!r} is not there")
        used.add(name)
        return tensors[name]

    states = found._told.get("generators", {})
    held = len(names), sum(math.prod(found.tensors[name][1]) for name in names)
    with read_with_care(found.path):
        model = Built(str(found.path), found.structure, known, place, fetch, states, held).model()
    if left := [name for name in names if name not in used]:
        raise damaged(found.path, f"nothing in its structure takes the tensor {left[0]!r}")
    return model


# ── what is kept of each ─────────────────────────────────────────────────────────────────────────────────────


def _meant(random: Any) -> Any:
    """The generators whose places are to be kept: ``True`` stands for those that nobody names."""
    return [default_generator(), python_random] if random is True else None if random is False else random


def _states(part: str, x: Any) -> Any:
    """The state of an object, or of each in a list, tuple or dict."""
    if isinstance(x, (list, tuple)):
        return [_states(part, each) for each in x]
    if isinstance(x, dict):
        return {key: _states(part, each) for key, each in x.items()}
    wanted = ("getstate", "bit_generator") if part == "random" else ("state_dict", "changing")
    if not (part == "random" and isinstance(x, Generator)) and not any(hasattr(x, name) for name in wanted):
        what = "a generator" if part == "random" else "an object with state_dict() and load_state_dict(state)"
        raise CheckpointError(f"{part} is {what}, or a list or dict of such; got {type(x).__name__}")
    return _position(x) if part == "random" else _state(x)


def _restore(part: str, x: Any, state: Any, what: str) -> None:
    """Let an object, or each in a list, tuple or dict, go on from its state."""
    if isinstance(x, (list, tuple, dict)):
        keys = list(x) if isinstance(x, dict) else list(range(len(x)))
        saved = list(state) if isinstance(state, dict) else list(range(len(state))) if isinstance(state, list) else None
        if keys != saved:
            raise CheckpointError(f"{what} was saved as {_shape(state)}, and is to be loaded into {_shape(x)}")
        for key in keys:
            _restore(part, x[key], state[key], what)
        return
    try:
        (_placed if part == "random" else _restored)(x, state, what)
    except MicrogradError:
        raise
    except Exception as error:
        raise CheckpointError(
            f"{what} cannot go on from its state as a {type(x).__name__}: {type(error).__name__}: {error}"
        ) from error


def _shape(x: Any) -> str:
    if isinstance(x, dict):
        return f"a dict of {', '.join(map(repr, x))}"
    return f"a list of {len(x)}" if isinstance(x, (list, tuple)) else "a single one"


def _state(x: Any) -> dict[str, Any]:
    """What an object goes on from: its `state_dict`, and the public numbers that it says to change at each step."""
    held = {name: value for name, value in vars(x).items() if name[:1] != "_"} if hasattr(x, "__dict__") else {}
    changing = {name: held[name] for name in getattr(x, "changing", ()) if isinstance(held.get(name, ...), PLAIN)}
    state = {"state": x.state_dict()} if hasattr(x, "state_dict") else {}
    return state | ({"changing": changing} if changing else {})


def _restored(x: Any, state: Any, what: str) -> None:
    if "state" in state:
        x.load_state_dict(state["state"])
    for name, value in state.get("changing", {}).items():
        if name in getattr(x, "changing", ()):
            setattr(x, name, value)


def _position(x: Any) -> Any:
    """Where a generator stands."""
    if hasattr(x, "getstate"):
        return x.getstate()
    state = (x.bit_generator if hasattr(x, "bit_generator") else x).state
    return list(state) if isinstance(state, tuple) else state


def _placed(x: Any, state: Any, what: str) -> None:
    if isinstance(x, Generator):
        restore(x, state, what)
    elif hasattr(x, "setstate"):
        x.setstate(state)
    else:
        (x.bit_generator if hasattr(x, "bit_generator") else x).state = state


def _load_model(model: Module, state: dict[str, Tensor], places: Any, path: str) -> None:
    model.load_state_dict(state)
    with read_with_care(path):
        for name, generator in generators(model).items():
            if name in places:
                restore(generator, places[name], path)
