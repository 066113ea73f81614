"""One trace of a function of tensors: everything it can reach stands for values of a program while it runs.

The function runs on its real arguments, so that shapes and errors are real; afterwards all is as it was. What it would
have changed is found by looking: tensors, gradients, what optimisers keep, attributes, generators. It becomes a result
of the program, and is changed for real when the program is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from micrograd_core.array.tensor import Tensor
from micrograd_core.compiler.program import Ref
from micrograd_core.device import default_device
from micrograd_core.engine.array import Storage, shared_beyond
from micrograd_core.engine.graph import Leaf
from micrograd_core.engine.sweep import sweep
from micrograd_core.errors import DeviceMismatch, GraphError, TraceError
from micrograd_core.interpreters.host import Host, HostNumber, Position
from micrograd_core.interpreters.traced import Recorder, Traced, TracedTable, unseen, with_line
from micrograd_core.random import Generator, default_generator
from micrograd_core.support import pytrees
from micrograd_core.support.context import generators, programs
from micrograd_core.transforms.captured import Captured, Streams
from micrograd_core.transforms.codegen import Count, refuse_others
from micrograd_core.transforms.guards import PLAIN, UNSET, Guard, Place

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

    def __init__(self, captured: Captured, arguments: list[Tensor], moving: set[Any]) -> None:
        super().__init__()
        self.captured, self.host = captured, Host()
        self.made: list[Generator] = []
        self.ambient: Generator | None = None  # stands for the default generator
        self.fixed: Generator | None = None  # the default generator, where the function knows it otherwise, too
        self.ends: dict[int, int] = {}
        self.starts: dict[int, tuple[Generator, tuple[int, int, int]]] = {}
        self.given_tensors = len(arguments)
        self.places = {id(x): i for i, x in reversed(list(enumerate(arguments)))}
        self.tensors = {id(x): x for x in (*arguments, *captured.tensors.values())}
        self.entered: dict[int, Traced] = {}  # the handle that each tensor was given
        self.first: dict[int, Ref] = {}  # the values that these were
        self.moving = moving
        self.held: dict[int, list[tuple[Any, int, Place]]] = {}  # where a tensor is that is looked up at each call
        self.grads: dict[int, Tensor | None] = {}
        self.gradient_of: dict[int, int] = {}  # from the identity of a gradient to that of its tensor
        self.leaves: dict[int, int] = {}  # from the identity of a leaf in the trace to that of its tensor
        self.actors: list[Any] = []  # whom actions change
        self._lent: dict[tuple[int, str], Any] = {}  # what changing attributes were inside, at first
        self._before: list[tuple[Any, str, Any]] = []
        self._streams = Streams(captured.foreign)
        self._changing: list[tuple[Any, dict[str, Any]]] = []
        self._unseen: list[Storage] = []

    @property
    def root(self) -> Any:
        """The device's own table."""
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
                "new one inside"
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
        self.records = {key: x._record for key, x in self.tensors.items()}  # as they were
        sharing: dict[int, list[Tensor]] = {}
        for x in self.tensors.values():
            sharing.setdefault(id(x._storage), []).append(x)
        # of memory that tensors see which the function does not reach
        seen = {id(x._storage) for x in [group[0] for group in sharing.values() if shared_beyond(*group)]}
        for key, x in self.tensors.items():
            if x._kernels.__class__ is TracedTable:
                raise TraceError("jit: a tensor has left an earlier call of a function under jit; make it anew")
            if self.table is not None and x._kernels is not self.table.root_below and key not in self.places:
                continue  # on another device: whoever computes with it hears of it
            table = self.table_over(x._kernels)
            self._before += [(x, name, getattr(x, name, UNSET)) for name in SLOTS]
            record, common = x._record, x._storage
            self.entered[key] = self.input(("tensor", key), x._handle, ("tensor", key))
            self.first[key] = self.entered[key].ref
            is_leaf = record.__class__ is Leaf
            if is_leaf and (record.hooks or record.values is not None):
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
                x._grad = self.grads[key] = x._grad if is_leaf else None
        for number, group in together.items():
            tracked = any(self.tensors[key]._record is not None for key, _ in group)
            storages[number].tracked = tracked  # who records beyond them sees a write in the memory where it happens
            if tracked and number in seen:  # where none happens, who should see it is somebody who holds the memory
                self._unseen.append(storages[number])
        self._together = [group for group in together.values() if len(group) > 1]
        for owner in self.captured.changing.values():
            self._changing.append((owner, {name: vars(owner)[name] for name in owner.changing}))
            self._lend_numbers(owner)
            for name in owner.changing:
                if isinstance(vars(owner)[name], list):
                    self._lend(owner, name)

    def _relate(self, origins: dict[int, Any]) -> None:
        """Make handles of tensors that share memory views of each other, as the tensors are."""
        for key, origin in origins.items():
            steps, x = list[tuple[Any, dict[str, Any]]](), self.entered[key]
            while origin is not None:
                living, op, params, before, _, _ = origin
                steps.append((op, params))
                base = living()
                if base is not None and id(base) in origins:
                    seen = self.entered[id(base)]
                    for between, given in steps[:0:-1]:
                        seen = seen if between is None else self.emit(between, seen, **given)
                    if x.root is not seen.root and self.root.shares_memory(x.real, seen.real):
                        x.look_at(seen, *steps[0])
                    break
                origin = before if base is None else getattr(base, "_origin", None)

    def refuse_overlap(self, root: Traced) -> None:
        """What lies in the same memory must be a view of something that the function reaches."""
        for group in self._together:
            roots = {id(self.entered[key].root): self.entered[key].root for key, _ in group}
            if id(root) not in roots:
                continue
            if any(x is not root and self.root.shares_memory(x.real, root.real) for x in roots.values()):
                raise TraceError(
                    "jit: the function writes to a tensor and uses another one that is in the same memory, but not "
                    "the tensor of which they are views; pass that one too, and make the views of it inside"
                )

    def _look_up(self) -> None:
        """Find the tensors that are to be looked up at each call, for what holds them is bound anew; it is no other."""
        held: dict[int, list[tuple[Any, int, Place]]] = {}
        for guard in self.captured.guards:
            for i, (place, x) in enumerate(zip(guard.places, guard.values, strict=False)):
                if isinstance(x, Tensor):
                    held.setdefault(id(x), []).append((guard, i, place))
            bound = [place for _, place, _, now in guard.rebound() if place and isinstance(now, Tensor)]
            self.moving |= {place.identity for place in bound}
        for key, found in held.items():
            if len(found) == self.captured.met[key] and all(place.identity in self.moving for _, _, place in found):
                self.held[key] = found
        for number, (kind, *rest) in self.sources.items():
            if kind == "tensor":
                self.sources[number] = kind, self.owner(rest[0])

    def _lend_numbers(self, owner: Any) -> None:
        """Attributes that change from call to call, as numbers that are looked up at each call."""
        for name in owner.changing:
            now = vars(owner)[name]
            now = now.value if now.__class__ is HostNumber else now
            if isinstance(now, (int, float)):
                read = self.host.read((id(owner), name), Count(owner, name, [()]), now)
                vars(owner)[name] = self._lent[id(owner), name] = read

    def _lend(self, owner: Any, name: str) -> None:
        """What an optimiser keeps, as values of the program. Counts that are equal are one number, and stay so."""
        entries = dict(entries_of(vars(owner)[name]))
        counts: dict[tuple[Any, ...], Count] = {}
        lent = self._lent[id(owner), name] = dict(entries)
        for path, x in entries.items():
            if x.__class__ is int:
                same = counts.setdefault((path[1:], x), Count(owner, name, []))
                same.paths.append(path)
                lent[path] = self.host.read((id(owner), same.paths[0]), same, x)
            elif hasattr(x, "shape") and hasattr(x, "dtype"):
                lent[path] = self.input(("kept", owner, name, path), x, ("kept", id(owner), path))
        vars(owner)[name] = pytrees.flatten(vars(owner)[name])[1](lent.values())

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
        for guard in self.captured.guards:
            if not guard.holds():
                guard.restore()
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

    def let_go(self) -> None:
        """Know only that it is over: what it knew refers back to it, and has memory of the first call."""
        vars(self).clear()
        self.over = True

    def run(self, f: Callable[..., Any], args: Any, kwargs: Any) -> tuple[list[Result], Any]:
        """Call the function; what it returned."""
        ambient = default_generator()
        if id(ambient) in self.captured.generators:
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
        except DeviceMismatch as error:
            if len(error.devices) > 1:
                raise
            raise with_line(TraceError(unseen("an operation")).with_traceback(error.__traceback__)) from None
        except (GraphError, TraceError) as error:
            raise with_line(error) from None
        if self.table is None:  # no tensor was given, and none was made
            self.table_over(default_device().kernels)
        self._look_up()
        self.ends = {key: generator._block for key, (generator, _) in self.starts.items()}
        if self._streams.restore():
            raise TraceError(
                "jit: the function draws random numbers of Python's random or of NumPy, which would be those of the "
                "first call for ever; draw with micrograd_core.random, or pass them as a tensor"
            )
        leaves, rebuild = pytrees.flatten(out)
        results = [self._result(x, "what the function returns") for x in leaves]
        for x, (kind, _) in zip(leaves, results, strict=True):
            if kind == "tensor" and x._record.__class__ is Leaf and x._grad is not None:
                raise TraceError("jit: the function returns a tensor that it made, with a .grad; return that beside it")
            if kind == "constant":
                refuse_others(x, PLAIN, "tensors")
        return results, rebuild

    def _result(self, x: Any, what: str) -> Result:
        """What an object will be at each call."""
        if isinstance(x, Tensor):
            if id(x) in self.entered:
                return Result("given", self.owner(id(x)))
            if x._handle.__class__ is not Traced or x._handle.trace is not self:
                raise TraceError(unseen(what))
            return Result("tensor", x)
        if x.__class__ is Traced:
            return Result("value", x.ref)
        return Result("host", x.index) if x.__class__ is HostNumber else Result("constant", x)

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
                found.append(("written", self.owner(key), Result("value", entered.ref)))
            other = handles.get(id(x._handle), key)
            if other != key:
                found.append(("shared", self.owner(key), Result("given", self.owner(other))))
            elif x._handle is not entered and x._handle.ref != self.first[key]:
                found.append(("tensor", self.owner(key), Result("value", x._handle.ref)))
            if now is None:
                continue
            if x._grad is not self.grads.get(key):
                if was.__class__ is not Leaf:
                    raise TraceError(
                        "jit: backward() inside a traced function goes on into a graph that began outside; call it "
                        "outside, or compute all of it inside"
                    )
                if x._grad is not None and x._grad._record is not None:
                    raise TraceError("jit: .grad of a traced function (create_graph=True) leads into its graph")
                found.append(("grad", self.owner(key), self._result(x._grad, CHANGED)))
        for owner, kept in self._changing:
            for name in kept:
                found += self._kept(owner, name)
        for guard in self.captured.guards:
            if not guard.holds():
                found += self._rebound(guard)
        return found

    def owner(self, key: int) -> Any:
        """A tensor, the position of the argument that it is, or whose gradient it is."""
        if key in self.gradient_of:
            return GradientOf(self.owner(self.gradient_of[key]))
        if key in self.places:
            return self.places[key]
        return self.held[key][0][2] if key in self.held else self.tensors[key]

    def _kept(self, owner: Any, name: str) -> Iterable[tuple[str, Any, Any]]:
        """What is new in an attribute that changes from call to call."""
        lent, now, place = self._lent[id(owner), name], vars(owner)[name], Place(vars(owner), name)
        if not isinstance(now, list):
            found = self._result(now, CHANGED)
            if found.kind == "value":
                raise TraceError(f"jit: the attribute {name!r} of a {type(owner).__name__} becomes a tensor")
            if found != self._result(lent, CHANGED):
                yield "slot", place, found
            return
        results = [
            self._result(x, CHANGED) if x is not lent.get(path, UNSET) else Result("entry", (owner, name, path))
            for path, x in entries_of(now)
        ]
        if any(each.kind != "entry" for each in results):
            yield "kept", (place, pytrees.flatten(now)[1]), results

    def _rebound(self, guard: Guard) -> Iterable[tuple[str, Any, Any]]:
        found = guard.rebound()
        if not found:
            raise TraceError(f"jit: the function adds to {guard.label()}, or takes something out; {RETURN}")
        for label, place, old, new in found:
            owners = isinstance(new, tuple) and all(hasattr(each, "changing") for each in new)
            if place is None or not (owners or isinstance(new, (Tensor, bool, str, type(None)))):
                how = "adds to" if old is UNSET else "changes"
                raise TraceError(
                    f"jit: the function {how} {label}{'' if old is UNSET else f', from {old!r}'}; {RETURN}"
                )
            yield "slot", place, self._result(new, CHANGED)

    # derivatives of what is returned

    def derivative(self, x: Tensor) -> tuple[Ref, dict[int, Ref]]:
        """The cotangent of a result, and the values that are the gradients of tensors, by their identity."""
        g = self.input(("cotangent",), self.root.full(shape=x.shape, fill_value=1, dtype=x.dtype))
        found = sweep(x._record, g, True)
        return g.ref, {self.leaves[id(leaf)]: d.ref for leaf, d in found if id(leaf) in self.leaves}


CHANGED = "what the function changes"
RETURN = "what is changed at the first call only would go unnoticed later; return it, or keep it in a tensor"


def entries_of(x: Any, path: tuple[Any, ...] = ()) -> Iterable[tuple[tuple[Any, ...], Any]]:
    """The leaves of dicts and lists in each other, in order, with the keys that lead there."""
    if not isinstance(x, (dict, list)):
        yield path, x
        return
    for key, each in x.items() if isinstance(x, dict) else enumerate(x):
        yield from entries_of(each, (*path, key))
