"""One trace of a function of tensors: everything it can reach stands for values of a program while it runs.

The function runs on its real arguments, so that shapes and errors are real; afterwards all is as it was. What it would
have changed is found by looking: tensors, gradients, what optimisers keep, attributes, generators. It becomes a result
of the program, and is changed for real when the program is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from micrograd_core.array.tensor import Tensor
from micrograd_core.compiler.program import Ref
from micrograd_core.device import default_device
from micrograd_core.engine.array import Storage
from micrograd_core.engine.graph import Leaf
from micrograd_core.engine.sweep import sweep
from micrograd_core.errors import DeviceMismatch, GraphError, TraceError
from micrograd_core.ground import trees
from micrograd_core.ground.context import generators, programs
from micrograd_core.random import Generator, default_generator
from micrograd_core.tables.host import Host, HostNumber, Position
from micrograd_core.tables.traced import Recorder, Traced, TracedTable, unseen, where, with_line
from micrograd_core.transforms.closures import Reach
from micrograd_core.transforms.foreign_random import Streams
from micrograd_core.transforms.watches import PLAIN, UNSET, Place

SLOTS = ("_handle", "_kernels", "_record", "_storage", "_origin", "_grad")


class Result(NamedTuple):
    """One leaf of what a function returns: its `kind`, and what that needs."""

    kind: str
    what: Any


class GradientOf(NamedTuple):
    """The gradient that a tensor (or the argument at a position) has when the program is called."""

    owner: Any


def at(owner: Any, flat: list[Any]) -> Any:
    """The tensor that a tensor, its `Place`, the position of an argument, or `GradientOf` one stands for in a call."""
    if owner.__class__ is int:
        return flat[owner]
    if owner.__class__ is Place:
        return owner.held()
    return at(owner.owner, flat)._grad if owner.__class__ is GradientOf else owner


class Trace(Recorder):
    """A program being written, and the state around it.

    `moving` are the places of which it is known that other tensors come there; those that the function binds anew join.
    """

    def __init__(self, reach: Reach, arguments: list[Tensor], moving: set[Any]) -> None:
        super().__init__()
        self.reach, self.host = reach, Host()
        self.made: list[Generator] = []
        self.ambient: Generator | None = None  # stands for the default generator
        self.fixed: Generator | None = None  # the default generator, where the function knows it otherwise, too
        self.ends: dict[int, int] = {}
        self.starts: dict[int, tuple[Generator, tuple[int, int, int]]] = {}
        self.given_tensors = len(arguments)
        self.places = {id(x): i for i, x in reversed(list(enumerate(arguments)))}
        self.tensors = {id(x): x for x in (*arguments, *reach.tensors.values())}
        self.entered: dict[int, Traced] = {}  # the handle that each tensor was given
        self.first: dict[int, Ref] = {}  # the values that these were
        self.moving = moving
        self.held: dict[int, list[tuple[Any, int, Place]]] = {}  # where a tensor is that is looked up at each call
        self.grads: dict[int, Tensor | None] = {}
        self.gradient_of: dict[int, int] = {}  # from the identity of a gradient to that of its tensor
        self.records = {key: x._record for key, x in self.tensors.items()}  # as they were
        self.leaves: dict[int, int] = {}  # from the identity of a leaf in the trace to that of its tensor
        self.actors: list[Any] = []  # whom actions change
        self._lent: dict[tuple[int, str], Any] = {}  # what changing attributes were inside, at first
        self._before: list[tuple[Any, str, Any]] = []
        self._streams = Streams(reach.foreign)
        self._changing: list[tuple[Any, dict[str, Any]]] = []

    @property
    def root(self) -> Any:
        """The device's own table."""
        assert self.table is not None
        return self.table.root_below

    # what is asked while the function runs

    def act(self, action: Callable[[], Any], *owners: Any) -> None:
        """A schedule goes on: at each call, once what comes before was read."""
        self.host.act(action)
        self.actors += owners
        for x in owners:
            self._lend_numbers(x)

    def position(self, generator: Generator, block: int) -> int:
        """Where in its stream a generator draws."""
        if any(generator is each for each in self.made):
            return block
        _, start = self.starts.setdefault(id(generator), (generator, (generator._key, block, generator._splits)))
        return Position.of(block, generator, block - start[1])

    def refuse_seed(self, generator: Generator) -> None:
        """What was there before the call goes on where it stands."""
        if not any(generator is each for each in self.made):
            raise TraceError(
                "jit: a traced function seeds or splits a generator that was there before; do so outside, or make a "
                f"new one inside{where()}"
            )

    # in, and out again

    def enter(self) -> None:
        """Let all tensors and optimisers stand for inputs of the program."""
        storages: dict[int, Storage] = {}
        together: dict[int, list[tuple[int, Any]]] = {}  # by their memory, tensors and what they are views of
        for key, x in list(self.tensors.items()):
            grad = x._grad if x._record.__class__ is Leaf else None
            if grad is not None and id(grad) not in self.tensors:
                self.tensors[id(grad)], self.gradient_of[id(grad)] = grad, key
                self.records[id(grad)] = grad._record
        for key, x in self.tensors.items():
            if x._kernels.__class__ is TracedTable:
                raise TraceError("jit: a tensor has left an earlier call of a function under jit; make it anew")
            if self.table is not None and x._kernels is not self.table.root_below and key not in self.places:
                continue  # on another device: whoever computes with it hears of it
            table = self.table_over(x._kernels)
            self._before += [(x, name, getattr(x, name, UNSET)) for name in SLOTS]
            owner = self.gradient_of.get(key, key)
            source: tuple[Any, ...] = ("tensor", self.tensors[owner])
            if owner in self.places:
                source = ("argument", self.places[owner])
            if owner != key:
                source = ("grad", *source)
            record, common = x._record, x._storage
            self.entered[key] = self.input(source, x._handle, ("tensor", key))
            self.first[key] = self.entered[key].ref
            grad = x._grad if record.__class__ is Leaf else None
            if record.__class__ is Leaf and (record.hooks or record.values is not None):
                raise TraceError(
                    "jit: a tensor has hooks, which a program does not call; remove them, or go without jit"
                )
            x._handle, x._kernels = self.entered[key], table
            if common is not None:
                together.setdefault(id(common), []).append((key, getattr(x, "_origin", None)))
                x._storage = storages.setdefault(id(common), Storage(common.tracked))
                x._storage.replaced = common.replaced
            if record is not None:
                x._record = leaf = Leaf(x)
                self.leaves[id(leaf)] = key
                x._grad = self.grads[key] = grad
        self._together = [group for group in together.values() if len(group) > 1]
        if self.table is None:
            self.table_over(default_device().kernels)
        for owner in self.reach.changing.values():
            self._changing.append((owner, {name: vars(owner)[name] for name in owner.changing}))
            self._lend_numbers(owner)
            for name in owner.changing:
                if isinstance(vars(owner)[name], list):
                    self._lent[id(owner), name] = lent = self._lend(owner, name)
                    vars(owner)[name] = lent.copy()

    def _relate(self, origins: dict[int, Any]) -> None:
        """Make handles of tensors that share memory views of each other, as the tensors are."""
        for key, origin in origins.items():
            steps = list[tuple[Any, dict[str, Any]]]()
            while origin is not None:
                living, op, params, before, _, _ = origin
                steps.append((op, params))
                base = living()
                if base is not None and id(base) in origins:
                    self._look(self.entered[key], self.entered[id(base)], steps[::-1])
                    break
                origin = before if base is None else getattr(base, "_origin", None)

    def _look(self, x: Traced, base: Traced, steps: list[tuple[Any, dict[str, Any]]]) -> None:
        """Make a handle what such steps lead to from another one."""
        for op, params in steps[:-1]:
            base = base if op is None else self.emit(op, base, **params)
        op, params = steps[-1]
        if x.root is not base.root and self.root.shares_memory(x.real, base.real):
            x.look_at(base, op, params)

    def refuse_overlap(self, root: Traced) -> None:
        """What lies in the same memory must be a view of something that the function reaches."""
        for group in self._together:
            roots = {id(self.entered[key].root): self.entered[key].root for key, _ in group}
            if id(root) not in roots:
                continue
            if any(x is not root and self.root.shares_memory(x.real, root.real) for x in roots.values()):
                raise TraceError(
                    "jit: the function writes to a tensor and uses another one that is in the same memory, but not "
                    "the tensor of which they are views; pass that one too, and make the views of it inside" + where()
                )

    def _look_up(self) -> None:
        """Find the tensors that are to be looked up at each call, for what holds them is bound anew; it is no other."""
        held: dict[int, list[tuple[Any, int, Place]]] = {}
        for watch in self.reach.watches:
            for i, x in watch.tensors():
                place = watch.slot(i)
                if place is not None:
                    held.setdefault(id(x), []).append((watch, i, place))
            bound = [place for _, place, _, now in watch.rebound() if place and isinstance(now, Tensor)]
            self.moving |= {place.identity for place in bound}
        for key, found in held.items():
            if len(found) == self.reach.met[key] and all(place.identity in self.moving for _, _, place in found):
                self.held[key] = found
        for number, (kind, *rest) in self.sources.items():
            if kind in ("tensor", "grad") and isinstance(rest[-1], Tensor):
                self.sources[number] = kind, *rest[:-1], self._place(id(rest[-1]))

    def _place(self, key: int) -> Any:
        return self.held[key][0][2] if key in self.held else self.tensors[key]

    def _lend_numbers(self, owner: Any) -> None:
        """Attributes that change from call to call, as numbers that are looked up at each call."""
        for name in owner.changing:
            now = _number(vars(owner)[name])
            if isinstance(now, (int, float)):
                read = self.host.read((id(owner), name), partial(getattr, owner, name), now)
                vars(owner)[name] = self._lent[id(owner), name] = read

    def _lend(self, owner: Any, name: str) -> list[dict[str, Any]]:
        """What an optimiser keeps, as values of the program. Counts that are equal are one number, and stay so."""
        states = vars(owner)[name]
        counts: dict[tuple[Any, ...], list[Any]] = {}
        for i, state in enumerate(states):
            for path, x in _entries(state):
                if x.__class__ is int:
                    counts.setdefault((path, x), []).append((i, path))
        lent = []
        for i, state in enumerate(states):
            inside: dict[str, Any] = {}
            for path, x in _entries(state):
                value = x
                if x.__class__ is int:
                    places = counts[path, x]
                    value = self.host.read((id(owner), places[0]), Count(owner, name, places), x)
                elif _is_handle(x):
                    value = self.input(("kept", owner, name, i, path), x, ("kept", id(owner), i, path))
                put(inside, path, value)
            lent.append(inside)
        return lent

    def lists(self) -> list[tuple[Any, str]]:
        """Attributes that hold what an optimiser keeps for each parameter."""
        return [(owner, name) for owner, kept in self._changing for name, x in kept.items() if isinstance(x, list)]

    def leave(self) -> None:
        """Everything as it was, also when an interrupt comes meanwhile."""
        try:
            self._restore()
        except BaseException:
            self._restore()
            raise

    def _restore(self) -> None:
        for watch in self.reach.watches:
            if not watch.holds():
                watch.put(watch.values)
        for owner, kept in self._changing:
            vars(owner).update(kept)
        for x, name, value in self._before:
            if value is not UNSET:
                setattr(x, name, value)
            elif getattr(x, name, UNSET) is not UNSET:
                delattr(x, name)
        for generator, (_, block, _) in self.starts.values():
            generator._block = block
        self._streams.restore()
        self._before = []  # whoever asks whether memory is shared counts who holds it
        self.close()
        self.host.close()

    def run(self, f: Callable[..., Any], args: Any, kwargs: Any) -> tuple[list[Result], Any]:
        """Call the function; what it returned."""
        ambient = default_generator()
        if id(ambient) in self.reach.generators:
            self.fixed = ambient
        else:  # another one may be the default at the next call
            self.ambient = Generator(0)
            self.ambient._key, self.ambient._block, self.ambient._splits = ambient.state
            generators.set(self.ambient)
        programs.set(self)
        for group in self._together:
            self._relate(dict(group))
        try:
            out = f(*args, **kwargs)
        except (GraphError, TraceError) as error:
            raise with_line(error) from None
        except DeviceMismatch as error:
            if len(error.devices) == 1:
                raise TraceError(unseen("an operation") + where()) from error
            raise
        self._look_up()
        self.ends = {key: generator._block for key, (generator, _) in self.starts.items()}
        if self._streams.restore():
            raise TraceError(
                "jit: the function draws random numbers of Python's random or of NumPy, which would be those of the "
                "first call for ever; draw with micrograd_core.random, or pass them as a tensor"
            )
        leaves, rebuild = trees.flatten(out)
        return list(map(self._result, leaves)), rebuild

    def _result(self, x: Any) -> Result:
        if isinstance(x, Tensor):
            key = id(x)
            if key in self.entered:
                return Result("given", self.owner(key))
            if x._handle.__class__ is not Traced or x._handle.trace is not self:
                raise TraceError(unseen("what the function returns"))
            if x._record.__class__ is Leaf and x._grad is not None:
                raise TraceError("jit: the function returns a tensor that it made, with a .grad; return that beside it")
            return Result("tensor", x)
        if x.__class__ is HostNumber:
            return Result("host", x.index)
        if isinstance(x, PLAIN):
            return Result("constant", x)
        raise TraceError(
            "jit: a traced function returns tensors, numbers, strings and None, and lists, tuples and dicts of them; "
            f"what is in a {type(x).__name__} would be that of the first call for ever"
        )

    # what it changed

    def changes(self) -> list[tuple[str, Any, Any]]:
        """Kind, owner and new value of everything that is to be changed at each call."""
        found: list[tuple[str, Any, Any]] = []
        handles = {id(entered): key for key, entered in self.entered.items()}
        for key, entered in self.entered.items():
            x = self.tensors[key]
            was, now = self.records[key], x._record
            if x._kernels is not self.table:
                raise TraceError("jit: a tensor is moved to another device inside a traced function; move it outside")
            if (now is None) != (was is None) or (now is not None and id(now) not in self.leaves):
                raise TraceError(
                    "jit: a tensor from outside is written to, or its requires_grad set, so that it records something "
                    "else than before; write `with no_grad():` around it, or .detach() what is written"
                )
            if entered.view is None and entered.writes:
                found.append(("written", self.owner(key), entered.ref))
            other = handles.get(id(x._handle), key)
            if other != key:
                found.append(("shared", self.owner(key), self.owner(other)))
            elif x._handle is not entered and x._handle.ref != self.first[key]:
                found.append(("tensor", self.owner(key), x._handle.ref))
            if now is None:
                continue
            before = self.grads.get(key)
            if x._grad is not before:
                if was.__class__ is not Leaf:
                    raise TraceError(
                        "jit: backward() inside a traced function goes on into a graph that began outside; call it "
                        "outside, or compute all of it inside"
                    )
                if x._grad is not None and x._grad._record is not None:
                    raise TraceError("jit: .grad of a traced function (create_graph=True) leads into its graph")
                found.append(("grad", self.owner(key), self._bound(x._grad)))
        for owner, kept in self._changing:
            for name in kept:
                found += self._kept(owner, name)
        for watch in self.reach.watches:
            found += self._rebound(watch)
        return found

    def owner(self, key: int) -> Any:
        """A tensor, the position of the argument that it is, or whose gradient it is."""
        if key in self.gradient_of:
            return GradientOf(self.owner(self.gradient_of[key]))
        return self.places[key] if key in self.places else self._place(key)

    def _bound(self, x: Any) -> Result:
        """What an attribute or the like is bound to: a tensor that is made, one from outside, or a constant."""
        if not isinstance(x, Tensor):
            return Result("constant", x)
        if id(x) in self.entered:
            return Result("given", self.owner(id(x)))
        if x._handle.__class__ is not Traced or x._handle.trace is not self:
            raise TraceError(unseen("what the function changes"))
        return Result("tensor", x)

    def _kept(self, owner: Any, name: str) -> Iterable[tuple[str, Any, Any]]:
        """What is new in an attribute that changes from call to call."""
        lent, now = self._lent[id(owner), name], vars(owner)[name]
        if not isinstance(now, list):
            if not (now.__class__ is HostNumber and now.index == lent.index):
                yield "attribute", (owner, name), _named(now)
            return
        changed = {}
        for i, (old, new) in enumerate(zip(lent, now, strict=True)):
            for path, x in _entries(new):
                if x is not (before := _entry(old, path)) and _named(x) != _named(before):
                    changed[i, path] = _named(x)
        if changed:
            yield "kept", (owner, name), changed

    def _rebound(self, watch: Any) -> Iterable[tuple[str, Any, Any]]:
        if watch.holds():
            return
        found = watch.rebound()
        if not found:
            raise TraceError(f"jit: the function adds to {watch.what(0)}, or takes something out; {RETURN}")
        for i, place, old, new in found:
            if place is None or not isinstance(new, (Tensor, bool, str, type(None))):
                how = "adds to" if old is UNSET else "changes"
                raise TraceError(
                    f"jit: the function {how} {watch.what(i)}{'' if old is UNSET else f', from {old!r}'}; {RETURN}"
                )
            yield "slot", place, self._bound(new)

    # derivatives of what is returned

    def derivative(self, x: Tensor) -> tuple[Ref, dict[int, Ref]]:
        """The cotangent of a result, and the values that are the gradients of tensors, by their identity."""
        real = self.root.full(shape=x.shape, fill_value=1, dtype=x.dtype)
        g = self.input(("cotangent",), real)
        found = sweep(x._record, g, True)
        return g.ref, {self.leaves[id(leaf)]: d.ref for leaf, d in found if id(leaf) in self.leaves}


RETURN = "what is changed at the first call only would go unnoticed later; return it, or keep it in a tensor"


def _number(x: Any) -> Any:
    return x.value if x.__class__ is HostNumber else x


def _named(x: Any) -> tuple[str, Any]:
    """What an entry is at each call: a value of the program, a number of the host's, or always the same."""
    if x.__class__ is Traced:
        return "value", x.ref
    return ("host", x.index) if x.__class__ is HostNumber else ("constant", x)


class Count:
    """A number that several entries of what an optimiser keeps have in common; where they differ, it is another trace.

    `texts` are the entries as Python, for who prints that.
    """

    def __init__(self, owner: Any, attribute: str, places: list[tuple[int, tuple[str, ...]]]) -> None:
        self.owner, self.attribute, self.places = owner, attribute, places

    def texts(self, name: Callable[[Any], str]) -> list[str]:
        """Each entry."""
        return [entry_text(self.owner, self.attribute, i, path, name) for i, path in self.places]


def entry_text(owner: Any, attribute: str, i: int, path: tuple[str, ...], name: Callable[[Any], str]) -> str:
    """An entry of what an optimiser keeps, as Python."""
    return f"{name(owner)}.{attribute}[{i}]" + "".join(f"[{each!r}]" for each in path)


def _is_handle(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, PLAIN)


def _entries(state: dict[str, Any], path: tuple[str, ...] = ()) -> Iterable[tuple[tuple[str, ...], Any]]:
    for name, x in state.items():
        if isinstance(x, dict):
            yield from _entries(x, (*path, name))
        else:
            yield (*path, name), x


def paths(state: dict[str, Any]) -> list[tuple[str, ...]]:
    """Where the entries of a state are; some are in a dict of it."""
    return [path for path, _ in _entries(state)]


def put(state: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set an entry of a state; the dicts on the way are copies, for others may hold them."""
    *outer, last = path
    for name in outer:
        state[name] = state = dict(state.get(name, {}))
    state[last] = value


def _entry(state: dict[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = state
    for name in path:
        found = found.get(name, UNSET) if isinstance(found, dict) else UNSET
    return found


__all__ = ["Count", "GradientOf", "Result", "Trace", "at", "entry_text", "paths", "put"]
