"""What a module is made of, as JSON: names of classes, their arguments, and what was assigned since. No code.

Each module in a network has a name, `modules` says of each its ``class`` (``nn.Linear`` for those that this package
has, else the name alone), its ``arguments``, and its ``attributes``. To build it, the class is called with the
arguments; then the attributes are put back, so that what was changed after a module was made is so again. Where the
arguments cannot be told, as those of a list of modules, and all attributes can, these make the ``whole``. Modules,
tensors and generators are referred to by name: what two places hold in common they have in common again.
"""

from __future__ import annotations

import inspect
import random as python_random
from collections.abc import Callable, Mapping
from typing import Any

from micrograd_core import nn
from micrograd_core.array.tensor import Tensor, is_frozen
from micrograd_core.checkpoints import trees
from micrograd_core.checkpoints.refusals import CheckpointError, damaged
from micrograd_core.device import Device, use_device
from micrograd_core.nn import Module
from micrograd_core.random import Generator, use_generator
from micrograd_core.support.context import during, making
from micrograd_core.support.escaping import printable
from micrograd_core.support.reconstruction import Other, arguments, rebuild

DROPPED = ("device", "generator")
"""Arguments that are given anew: what is loaded may live elsewhere, and its initial numbers are not the generator's."""
UNKNOWN = "$unknown"
SPARE_THINGS, SPARE_NUMBERS = 100, 1 << 24
"""How many more modules and tensors, and numbers, a constructor may make than the file holds: a model may have been
given smaller layers than it was made with."""


def generators(model: Module) -> dict[str, Generator]:
    """The generators that modules hold, by the names of their attributes; each once."""
    found: dict[int, tuple[str, Generator]] = {}
    for name, module in model.named_modules():
        for attribute, x in vars(module).items():
            if isinstance(x, Generator):
                found.setdefault(id(x), (f"{name}.{attribute}".lstrip("."), x))
    return dict(found.values())


class Described:
    """What a module is made of."""

    def __init__(self, model: Module) -> None:
        self._names = {id(module): name for name, module in model.named_modules()}
        saved = model._every_tensor()
        self._tensors = {id(x): name for name, x in model.named_tensors() if name in saved}
        self._generators = {id(x): name for name, x in generators(model).items()}
        self.modules = {name: self._module(module) for name, module in model.named_modules()}

    def _module(self, module: Module) -> dict[str, Any]:
        attributes = {name: trees.encoded(x, self._referred) for name, x in vars(module).items() if name != "_made"}
        kept = {name: x for name, x in attributes.items() if not _unknown(x)}
        name = type(module).__name__
        told: dict[str, Any] = {"class": f"nn.{name}" if getattr(nn, name, None) is type(module) else name}
        given = self._arguments(module)
        if len(kept) == len(attributes) and (given is None or _unknown(given)):
            told["whole"] = True
            given = None
        elif given is not None:
            told["arguments"] = given
        same = {name for name, x in (given or {}).items() if isinstance(x, trees.PLAIN) and kept.get(name) == x}
        told["attributes"] = {name: x for name, x in kept.items() if name not in same}
        return told

    def _arguments(self, module: Module) -> dict[str, Any] | None:
        given = arguments(module)
        if isinstance(module, nn.Call) and type(module).__init__ is nn.Call.__init__:
            given = module.arguments  # as they are now, with tensors among them
        if given is None:
            return None
        found = {}
        parameters = inspect.signature(type(module)).parameters
        for name, x in given.items():
            if name in DROPPED:
                continue
            if parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                x = {key: each for key, each in x.items() if key not in DROPPED}
            found[name] = trees.encoded(x, self._referred)
            if _unknown(found[name]) and name in vars(module):  # modules, which are looked for where they are now
                found[name] = trees.encoded(vars(module)[name], self._referred)
        return found

    def _referred(self, x: Any, place: str) -> Any:
        if isinstance(x, Module) and id(x) in self._names:
            return {"$module": self._names[id(x)]}
        if isinstance(x, Tensor) and id(x) in self._tensors:
            kind = "$parameter" if x.requires_grad else "$frozen" if is_frozen(x) else "$buffer"
            return {kind: self._tensors[id(x)]}
        if isinstance(x, Generator) and id(x) in self._generators:
            return {"$generator": self._generators[id(x)]}
        return {UNKNOWN: x.kind if isinstance(x, Other) else type(x).__name__}


def _unknown(encoded: Any) -> str:
    """The type of the first thing in what is encoded that a file does not hold; empty where it holds all."""
    if isinstance(encoded, dict) and UNKNOWN in encoded:
        return str(encoded[UNKNOWN]) or "nothing"
    parts = encoded.values() if isinstance(encoded, dict) else encoded if isinstance(encoded, list) else ()
    return next(filter(None, map(_unknown, parts)), "")


class Built:
    """A module made from what a file says of it.

    Parameters
    ----------
    path : str
        For errors.
    modules : mapping
        What `Described.modules` was.
    classes : mapping from names to classes
        The user's.
    device : Device
    fetch : function
        From the name of a tensor to the tensor, the same one each time.
    states : mapping from names to states
        Of generators.
    held : (int, int)
        How many tensors the file has for the model, and how many numbers. A constructor that would make many more is
        refused, since a file of a kilobyte can ask for any number of layers of any size.
    """

    def __init__(
        self, path: str, modules: Any, classes: Mapping[str, type[Module]], device: Device,
        fetch: Callable[[str], Tensor], states: Mapping[str, Any], held: tuple[int, int],
    ) -> None:  # fmt: skip
        self.path, self.modules, self.classes, self.device = path, modules, classes, device
        self._fetch, self._states, self._held = fetch, states, held
        self._made: dict[str, Module] = {}
        self._making: set[str] = set()
        self._generators: dict[str, Generator] = {}

    def model(self) -> Module:
        """The whole. Neither the default generator nor Python's goes on by it."""
        before = python_random.getstate()
        try:
            with use_device(self.device), use_generator(0):
                return self._module("", None)
        finally:
            python_random.setstate(before)

    def _module(self, name: str, present: Any) -> Module:
        """The module of a name; `present` is used where it is such a one already."""
        if name in self._made:
            return self._made[name]
        told = self.modules.get(name) if isinstance(self.modules, dict) else None
        if not isinstance(told, dict) or not _is_name(told.get("class")) or name in self._making:
            raise damaged(self.path, f"it does not say what the module {name!r} is")
        self._making.add(name)
        where = f"the module {name!r}" if name else "the model"
        kind = self._class(where, told["class"])
        given, attributes = told.get("arguments"), told.get("attributes", {})
        if not (isinstance(given, dict | None) and isinstance(attributes, dict)):
            raise damaged(self.path, f"it does not say how the module {name!r} is made")
        if told.get("whole") is True:
            present = kind.__new__(kind)
            vars(present).clear()  # that it was made with nothing is not so
        elif not (type(present) is kind and Described(present)._arguments(present) == given):
            present = self._called(where, kind, given)
        self._made[name] = present
        held = vars(present)
        for attribute, x in attributes.items():
            if inspect.isroutine(getattr(kind, attribute, None)):
                raise damaged(self.path, f"it assigns to {attribute}, a method of {kind.__name__}")
            held[attribute] = self._decoded(x, held.get(attribute))
        return self._made[name]

    def _called(self, where: str, kind: type[Module], given: dict[str, Any] | None) -> Module:
        if given is None:
            raise CheckpointError(
                f"load_model: with which arguments {where}, a {kind.__name__}, was made is not known in {self.path!r}; "
                f"make it yourself: load(path, model={kind.__name__}(...))"
            )
        for argument, x in given.items():
            if unknown := _unknown(x):
                raise CheckpointError(
                    f"load_model: {where}, a {kind.__name__}, was made with a {printable(unknown)} as "
                    f"{printable(argument)}, and a file holds none; make it yourself: load(path, model=...)"
                )
        try:
            decoded = {key: self._decoded(x, None) for key, x in given.items()}
            with during(making, self._limit(f"{where}, a {kind.__name__},")):
                made = rebuild(kind, decoded)
        except CheckpointError:
            raise
        except Exception as error:
            raise CheckpointError(
                f"load_model: {where} in {self.path!r} cannot be made: {kind.__name__} refuses its arguments: "
                f"{printable(error)}"
            ) from error
        if not isinstance(made, Module):
            raise damaged(self.path, f"{where} is no module")
        return made

    def _limit(self, what: str) -> Callable[[int], None]:
        """What refuses to make more than the file holds, for one constructor."""
        tensors, numbers = self._held
        things, elements = tensors + len(self.modules) + SPARE_THINGS, numbers + SPARE_NUMBERS

        def limit(more: int) -> None:
            nonlocal things, elements
            things, elements = things - 1, elements - more
            if things < 0 or elements < 0:
                holds = f"the {tensors:,} tensors of {numbers:,} numbers that the file holds"
                raise damaged(self.path, f"{what} declares more than {holds}")

        return limit

    def _class(self, where: str, called: str) -> type[Module]:
        module, _, own = called.rpartition(".")
        kind = getattr(nn, own, None) if module == "nn" and own in dir(nn) else self.classes.get(called)
        if isinstance(kind, type) and issubclass(kind, Module):
            return kind
        if module == "nn":
            raise CheckpointError(
                f"load_model: {where} in {self.path!r} is a {own}, which this version of micrograd-core does not have; "
                "update it: pip install -U micrograd-core"
            )
        raise CheckpointError(
            f"load_model: {where} in {self.path!r} is a {called}, a class of your own, and a checkpoint holds no code; "
            f"give the class: load_model(path, classes={{{called!r}: {called}}}), or make the model yourself: "
            "load(path, model=...)"
        )

    def _decoded(self, x: Any, present: Any) -> Any:
        """What stands for an attribute; modules are taken from `present` where they are as they should be."""
        if isinstance(x, dict) and "$module" in x:
            return self._module(x["$module"], present)
        if isinstance(x, list) and isinstance(present, list) and len(x) == len(present):
            return [self._decoded(each, old) for each, old in zip(x, present, strict=True)]
        return trees.decoded(x, self._referred)

    def _referred(self, mark: str, name: Any) -> Any:
        if mark == "$module":
            return self._module(name, None)
        if mark in ("$parameter", "$frozen", "$buffer") and isinstance(name, str):
            x = self._fetch(name)  # the same one each time
            if mark != "$buffer":
                x.requires_grad = True
            if mark == "$frozen":  # a parameter whose recording was switched off
                x.requires_grad = False
            return x
        if mark == "$generator" and isinstance(name, str) and name in self._states:
            if name not in self._generators:
                self._generators[name] = Generator(0)
                restore(self._generators[name], self._states[name], self.path)
            return self._generators[name]
        raise damaged(self.path, f"it has {mark} {name!r}, which stands for nothing")


def restore(generator: Generator, state: Any, path: str) -> None:
    """Let a generator go on where a file says."""
    if not (isinstance(state, list) and len(state) == 3 and all(type(x) is int and 0 <= x < 1 << 256 for x in state)):
        raise damaged(path, f"{state!r} is no place in a stream of random numbers")
    generator.state = tuple(state)


def _is_name(x: Any) -> bool:
    """Whether this can be what a class is called: errors show it as Python."""
    return isinstance(x, str) and all(map(str.isidentifier, x.split(".")))
