"""What must be as it was when a function was traced, so that its program can be called: the guards of the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from micrograd_core.array.tensor import Tensor
from micrograd_core.engine.graph import Leaf
from micrograd_core.engine.modes import grad_mode
from micrograd_core.ground.context import default_devices, half_types, levels, precisions, programs
from micrograd_core.random import default_generator
from micrograd_core.transforms.printed import Text
from micrograd_core.transforms.tracing import GradientOf, Trace, at, paths
from micrograd_core.transforms.watches import ANY, Place, same

Holds = Callable[[tuple[Any, ...], dict[str, Any]], Sequence[Tensor] | None]


class Guards:
    """How things were, once a trace has left everything as it was; `writes` says whether the function does."""

    def __init__(self, trace: Trace, writes: bool) -> None:
        self.watches, self._draws = trace.reach.watches, bool(trace.starts)
        entered = [(key, trace.tensors[key]) for key in trace.entered if key not in trace.gradient_of]
        for found in trace.held.values():
            for watch, i, _ in found:
                watch.values[i] = ANY
        self._state = [
            (trace.owner(key), x.shape, x.dtype, x._kernels, x._record.__class__, _has_grad(x))
            for key, x in entered
            if key not in trace.places
        ]
        self._same = [
            (place, trace.owner(key))
            for key, found in trace.held.items()
            for _, _, place in found
            if place is not trace.owner(key)
        ]
        self._kept = [(owner, name, _names(getattr(owner, name))) for owner, name in trace.lists()]
        self._grads = [_has_grad(trace.tensors[key]) for key in trace.places]
        self._records = [trace.tensors[key]._record is not None for key in trace.places]
        self._positions, self._given = list(trace.places.values()), trace.given_tensors
        self._owned = frozenset(trace.reach.tensors.keys() - trace.held.keys())
        self._aliased = [key in self._owned for key in trace.places]
        self._generators, self._fixed = trace.reach.generators, trace.fixed
        own = [key for key in trace.entered if key not in trace.gradient_of]
        grads = [key for key in own if trace.grads.get(key) is not None]
        self._entered = [*map(trace.owner, own), *(GradientOf(trace.owner(key)) for key in grads)]
        entered_now = [trace.tensors[key] for key in own] + [trace.grads[key] for key in grads]
        self._fixed_ids = frozenset(id(x) for x in self._entered if isinstance(x, Tensor))
        self._writes = writes
        shared = _sharing(entered_now, writes)
        # else each is read from where it is, whatever that is
        self._shared = shared if writes or shared or trace.held else None

    def moved(self) -> set[Any]:
        """Places where another tensor is than was."""
        found = set[Any]()
        for watch in self.watches:
            pairs = [(place, was, now) for _, place, was, now in watch.rebound() if place is not None]
            found |= {place.identity for place, *both in pairs if all(isinstance(x, Tensor) for x in both)}
        return found

    def differs(self, flat: list[Any]) -> str:
        """What is not as it was when the function was traced, in words; nothing if all is."""
        for watch in self.watches:
            if not watch.holds():
                return _changed(watch)
        for place, owner in self._same:
            if place.held() is not at(owner, flat):
                return "what was one tensor is another one elsewhere now"
        for owner, shape, dtype, kernels, kind, has_grad in self._state:
            x = at(owner, flat)
            if not isinstance(x, Tensor):
                return f"what was a tensor is a {type(x).__name__} now"
            if x.dtype is not dtype or x._kernels is not kernels or x._handle.shape != shape:
                return f"a tensor that the function closes over is {x.dtype} of shape {x.shape} on {x.device} now"
            if x._record.__class__ is not kind:
                return "a tensor that the function closes over records gradients now, or no longer does"
            if _has_grad(x) is not has_grad:
                return f"a .grad is {'None' if has_grad else 'there'} now"
        for owner, name, names in self._kept:
            if _names(getattr(owner, name)) != names:
                return f"a {type(owner).__name__} keeps something else between steps now than before its first step"
        arguments = [flat[i] for i in self._positions]
        if list(map(_has_grad, arguments)) != self._grads:
            return "the .grad of an argument is there now, or no longer"
        if [id(x) in self._owned for x in arguments] != self._aliased:
            return "the function closes over one of its arguments now, or no longer"
        if self._shared is not None and _sharing([at(x, flat) for x in self._entered], self._writes) != self._shared:
            return "the function writes to tensors, and others share memory now than did"
        if self._draws:
            now = default_generator()
            if now is not self._fixed if self._fixed is not None else id(now) in self._generators:
                return "another generator is the default now, and the function draws from it by name, too"
        return ""

    def printed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Holds | None:
        """The conditions as a function, for calls with such arguments: the tensors among these, or ``None``."""
        if len(self._positions) < self._given:  # some arguments are one tensor
            return None
        text, tensors, places = Text(), list[str](), dict[int, str]()
        name, known = text.name, [f"x{i}" for i in range(self._given)]
        text.lines.append("try:")
        text.refuse_unless([f"{name(programs.get, 'program')}() is None", f"not {name(levels.get, 'levels')}()"])
        text.refuse_unless([text.is_same(f"{name(mode, what)}()", mode()) for what, mode in MODES.items()])
        text.refuse_unless([f"len(args) == {len(args)}", f"[*kwargs] == {name([*kwargs])}" if kwargs else "not kwargs"])
        for i, x in enumerate(args):
            text.argument(x, f"args[{i}]", tensors, _is_tensor)
        for key, x in kwargs.items():
            text.argument(x, f"kwargs[{key!r}]", tensors, _is_tensor)
        if len(known) > 1:
            text.refuse_unless([f"len({{{', '.join(f'id({x})' for x in known)}}}) == {len(known)}"])
        for i, aliased in zip(self._positions, self._aliased, strict=True):
            text.refuse_unless([f"id(x{i}) {'' if aliased else 'not '}in {name(self._owned)}" if self._owned else ""])
        for watch in self.watches:
            text.watch(watch)
        for n, (owner, shape, dtype, kernels, kind, has_grad) in enumerate(self._state):
            known_as = at_text(owner, text)
            if owner.__class__ is Place:
                text.lines.append(f"p{n} = {known_as}")
                known_as = places[id(owner)] = f"p{n}"
            text.refuse_unless([
                f"{known_as}.__class__ is {name(Tensor)}" if owner.__class__ is Place else "",
                f"{known_as}.dtype is {name(dtype)}",
                f"{known_as}._kernels is {name(kernels)}",
                f"{known_as}._handle.shape == {tuple(shape)}",
                f"{known_as}._record.__class__ is {name(kind)}",
                *_grad_text(text, known_as, kind, has_grad),
            ])  # fmt: skip
        for place, owner in self._same:
            text.refuse_unless([f"{place.text(name)} is {at_text(owner, text)}"])
        for i, has_grad, records in zip(self._positions, self._grads, self._records, strict=True):
            text.refuse_unless([f"{name(_has_grad)}(x{i}) is {name(has_grad)}" if records else ""])
        for owner, attribute, names in self._kept:
            now = f"{name(owner)}.{attribute}"
            plain = all(each.__class__ is tuple for each in names)
            now = f"[*map(tuple, {now})]" if plain else f"{name(_names)}({now})"
            text.refuse_unless([f"{now} == {name(names)}"])
        if self._shared is not None:
            text.refuse_unless([self._sharing_text(text, places)])
        if self._draws:
            now = f"{name(default_generator)}()"
            fixed = self._fixed
            text.refuse_unless(
                [f"{now} is {name(fixed)}" if fixed is not None else f"id({now}) not in {name(self._generators)}"]
            )
        text.lines[1:] = [f"    {line}" for line in text.lines[1:]]
        text.lines += ["except (AttributeError, LookupError, ValueError): return None", f"return {tuple_text(known)}"]
        return None if text.is_long else text.function("def holds(args, kwargs):")

    def _sharing_text(self, text: Text, places: dict[int, str]) -> str:
        """That tensors are one, or share memory, as when the function was traced; at once where none shares any."""
        entered = [places.get(id(x)) or at_text(x, text) for x in self._entered]
        plain = f"{text.name(_sharing)}([{', '.join(entered)}], {self._writes}) == {text.name(self._shared)}"
        if self._shared:
            return plain
        moving = [x for x, owner in zip(entered, self._entered, strict=True) if not isinstance(owner, Tensor)]
        ids = ", ".join([*(f"id({x})" for x in moving), f"*{text.name(self._fixed_ids)}"])
        distinct = [f"len({{{ids}}}) == {len(entered)}"] if moving else []
        alone = [f"{x}._storage is None" for x in entered if self._writes]
        return f"({' and '.join(alone + distinct)} or {plain})"


MODES: Final[dict[str, Callable[[], Any]]] = {
    "grad_mode": grad_mode, "half_type": half_types.get, "default_device": default_devices.get,
    "precision": precisions.get,
}  # fmt: skip
"""Around a call, what its kind depends on."""


def _is_tensor(x: Any) -> bool:
    return x.__class__ is Tensor


def tuple_text(texts: Sequence[str]) -> str:
    """A tuple as Python."""
    return f"({''.join(f'{x}, ' for x in texts)})"


def at_text(owner: Any, text: Text) -> str:
    """What `at` gives, as Python."""
    if owner.__class__ is int:
        return f"x{owner}"
    if owner.__class__ is Place:
        return owner.text(text.name)
    return f"{at_text(owner.owner, text)}._grad" if owner.__class__ is GradientOf else text.name(owner)


def _grad_text(text: Text, x: str, kind: type, has_grad: Any) -> list[str]:
    """That `_has_grad` says the same as before of a tensor with a record of a `kind`."""
    if kind is not Leaf:
        return []
    if has_grad not in (True, False):
        return [f"{text.name(_has_grad)}({x}) is {text.name(has_grad)}"]
    plain = [f"not {x}._record.hooks", f"{x}._record.values is None"]
    if not has_grad:
        return [*plain, f"{x}._grad is None"]
    return [*plain, f"{x}._grad is not None", f"{x}._grad._record is None"]


def _has_grad(x: Tensor) -> Any:
    """Whether there is a gradient; something else where that, or what becomes of it, is special."""
    record = x._record
    if record.__class__ is not Leaf:
        return False
    if record.hooks or record.values is not None:
        return "hooks"
    grad = x._grad
    return grad is not None and (grad._record is None or "recorded")


def _sharing(tensors: list[Any], memory: bool) -> list[Any]:
    """Which tensors are one, or share `memory`: where the first such is, for each, and how it lies; or nothing."""
    keys = [id(x._storage or x) for x in tensors] if memory else list(map(id, tensors))
    if len(set(keys)) == len(keys):
        return []
    first: dict[int, int] = {}
    found: list[Any] = [first.setdefault(key, i) for i, key in enumerate(keys)]
    several = Counter(keys)
    return found + [_lies(x) for x, key in zip(tensors, keys, strict=True) if memory and several[key] > 1]


def _lies(x: Tensor) -> Any:
    """How a tensor lies in memory, to be compared with another one in the same memory."""
    if "strided" in x._kernels.capabilities:
        return x._kernels.layout(x._handle)
    origin = getattr(x, "_origin", None)
    return origin and (origin[1], repr(origin[2]))


def _names(states: list[dict[str, Any]]) -> list[Any]:
    """The names of what is kept."""
    names: list[Any] = list(map(tuple, states))
    return names if not any("parts" in each for each in names) else [paths(state) for state in states]


def _changed(watch: Any) -> str:
    now, values = watch.now(), watch.values
    if len(now) != len(values):
        return f"{watch.what(0)} has other entries now"
    return next(f"{watch.what(i)} has changed" for i, x in enumerate(now) if not same(x, values[i]))


__all__ = ["MODES", "Guards", "Holds", "at_text", "tuple_text"]
