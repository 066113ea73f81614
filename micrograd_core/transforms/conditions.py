"""When a compiled program may be called: its guards, and what else must be as it was, printed as one function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from micrograd_core.array.tensor import Tensor
from micrograd_core.engine.graph import Leaf
from micrograd_core.engine.modes import grad_mode
from micrograd_core.random import default_generator
from micrograd_core.support.context import default_devices, half_types, levels, precisions, programs
from micrograd_core.transforms.codegen import Text, tuple_text
from micrograd_core.transforms.guards import ANY, Guard, Place
from micrograd_core.transforms.tracing import GradientOf, Trace, entries_of

Holds = Callable[[tuple[Any, ...], dict[str, Any]], Sequence[Tensor] | str | Guard]


def printed_guards(trace: Trace, writes: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Holds:
    """All conditions of a program as a function of the arguments of a call.

    It gives the tensors among these; or else the reason why not, a sentence or the guard that does not hold. To be
    called once a trace has left everything as it was. `writes` says whether the function does.
    """
    text = Text()
    name = text.name
    text.lines.append("try:")
    text.require([f"{name(programs.get, 'program')}() is None", f"not {name(levels.get, 'levels')}()"])
    text.require([text.is_same(f"{name(mode, what)}()", mode()) for what, mode in MODES.items()])
    _arguments(trace, text, args, kwargs)
    for found in trace.held.values():
        for guard, i, _ in found:
            guard.values[i] = ANY
    text.guards(trace.captured.guards)
    owners = _tensors(trace, text)
    for owner, attribute in trace.lists():
        text.require(
            [f"{name(_names)}({name(owner)}.{attribute}) == {name(_names(getattr(owner, attribute)))}"],
            f"a {type(owner).__name__} keeps something else between steps now than before its first step",
        )
    _sharing_of(trace, text, owners, writes)
    if trace.starts:
        now = f"{name(default_generator)}()"
        fixed = trace.fixed
        text.require(
            [f"{now} is {name(fixed)}" if fixed is not None else f"id({now}) not in {name(trace.captured.generators)}"],
            "another generator is the default now, and the function draws from it by name, too",
        )
    text.lines[1:] = [f"    {line}" for line in text.lines[1:]]
    gone = f"{name(_gone)}({name(trace.captured.guards)})"
    text.lines += [
        f"except (AttributeError, LookupError, ValueError): return {gone}",
        f"return {tuple_text([f'x{i}' for i in range(trace.given_tensors)])}",
    ]
    return text.function("def holds(args, kwargs):")


def _arguments(trace: Trace, text: Text, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The arguments are of the kind that they were, and as many of them are one tensor."""
    name = text.name

    def leaf(x: Any, local: str) -> list[str] | None:
        if x.__class__ is not Tensor:
            return None
        return [
            f"{local}.__class__ is {name(Tensor)}",
            f"{local}._handle.shape == {tuple(x._handle.shape)}",
            f"{local}.dtype is {name(x.dtype)}",
            f"{local}._kernels is {name(x._kernels)}",
            f"{local}._record is {'' if x._record is None else 'not '}None",
        ]

    tensors = text.arguments(args, kwargs, leaf)
    positions = trace.places
    text.require([f"x{i} is x{positions[id(x)]}" for i, x in enumerate(tensors) if positions[id(x)] != i])
    if len(positions) > 1:
        text.require([f"len({{{', '.join(f'id(x{i})' for i in positions.values())}}}) == {len(positions)}"])
    owned = frozenset(trace.captured.tensors.keys() - trace.held.keys())
    for key, i in positions.items():
        text.require(
            [f"id(x{i}) {'' if key in owned else 'not '}in {name(owned)}" if owned else ""],
            "the function closes over one of its arguments now, or no longer",
        )
        x = trace.tensors[key]
        text.require(_grad_text(text, f"x{i}", x), "the .grad of an argument is there now, or no longer")


def _tensors(trace: Trace, text: Text) -> list[tuple[Any, Any, str]]:
    """Captured tensors are of the kind that they were; all that entered: what each is, its owner and its Python."""
    name, texts = text.name, dict[int, str]()
    own = [key for key in trace.entered if key not in trace.gradient_of]
    for n, key in enumerate(own):
        x, owner = trace.tensors[key], trace.owner(key)
        texts[key] = known_as = at_text(owner, text)
        if key in trace.places:
            continue
        if owner.__class__ is Place:
            text.lines.append(f"p{n} = {known_as}")
            texts[key] = known_as = f"p{n}"
            text.require([f"{known_as}.__class__ is {name(Tensor)}"], "what was a tensor is something else now")
        text.require(
            [
                f"{known_as}.dtype is {name(x.dtype)}",
                f"{known_as}._kernels is {name(x._kernels)}",
                f"{known_as}._handle.shape == {tuple(x.shape)}",
            ],
            "a tensor that the function closes over has another shape or dtype now, or is on another device",
        )
        text.require(
            [f"{known_as}._record.__class__ is {name(x._record.__class__)}"],
            "a tensor that the function closes over records gradients now, or no longer does",
        )
        text.require(_grad_text(text, known_as, x), f"a .grad is {'None' if _has_grad(x) else 'there'} now")
    for key, found in trace.held.items():
        text.require(
            [f"{place.text(name)} is {texts[key]}" for _, _, place in found if place is not trace.owner(key)],
            "what was one tensor is another one elsewhere now",
        )
    entered = [(trace.tensors[key], trace.owner(key), texts[key]) for key in own]
    return entered + [
        (trace.grads[key], GradientOf(trace.owner(key)), f"{texts[key]}._grad")
        for key in own
        if trace.grads.get(key) is not None
    ]


def _sharing_of(trace: Trace, text: Text, entered: list[tuple[Any, Any, str]], writes: bool) -> None:
    """Tensors are one, or share memory, as when the function was traced; at once where none shares any."""
    shared = _sharing([x for x, _, _ in entered], writes)
    if not (writes or shared or trace.held):
        return  # each is read from where it is, whatever that is
    condition = f"{text.name(_sharing)}([{', '.join(x for *_, x in entered)}], {writes}) == {text.name(shared)}"
    text.require([condition], "the function writes to tensors, and others share memory now than did")


def _gone(guards: list[Guard]) -> Guard | str:
    """The reason where to look at something raises."""
    return next((guard for guard in guards if not guard.holds()), "something that the function reads is gone")


MODES: Final[dict[str, Callable[[], Any]]] = {
    "grad_mode": grad_mode, "half_type": half_types.get, "default_device": default_devices.get,
    "precision": precisions.get,
}  # fmt: skip
"""Around a call, what its kind depends on."""


def at_text(owner: Any, text: Text) -> str:
    """What `at` gives, as Python."""
    if owner.__class__ is int:
        return f"x{owner}"
    if owner.__class__ is Place:
        return owner.text(text.name)
    return f"{at_text(owner.owner, text)}._grad" if owner.__class__ is GradientOf else text.name(owner)


def _grad_text(text: Text, known_as: str, x: Tensor) -> list[str]:
    """That `_has_grad` says the same as before of a tensor."""
    return [] if x._record is None else [f"{text.name(_has_grad)}({known_as}) is {text.name(_has_grad(x))}"]


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
    if any("parts" in each for each in states):
        return [[path for path, _ in entries_of(state)] for state in states]
    return list(map(tuple, states))
