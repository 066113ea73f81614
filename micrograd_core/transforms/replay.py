"""A traced function as it is called: inputs gathered, the program run, what it changes assigned, results made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import is_
from typing import Any, Final

from micrograd_core.array.tensor import Tensor
from micrograd_core.backend import member
from micrograd_core.compiler.program import Ref
from micrograd_core.dtypes import pack, uint64
from micrograd_core.engine.array import new
from micrograd_core.engine.graph import Leaf, is_node
from micrograd_core.engine.modes import grad_mode
from micrograd_core.errors import TraceError
from micrograd_core.ground.assignments import assign_all
from micrograd_core.ground.context import default_devices, half_types, levels, precisions, programs
from micrograd_core.ground.warning import unless_withheld
from micrograd_core.ops import TABLE
from micrograd_core.ops.standard.random import PLACE, place_of
from micrograd_core.random import default_generator
from micrograd_core.transforms.changes import Done, Memory, Slot, given, shared
from micrograd_core.transforms.closures import ANY, Place, same
from micrograd_core.transforms.printed import Text
from micrograd_core.transforms.pullback import Derivative
from micrograd_core.transforms.tracing import GradientOf, Result, Trace, at, entry_text, paths


class Replay:
    """One program, and the state around it."""

    def __init__(self, trace: Trace, results: list[Result], rebuild: Any, record: bool) -> None:
        self.kernels: Any = trace.root
        self.rebuild, self.host = rebuild, trace.host
        self.watches, self._owners, changes = trace.reach.watches, trace.actors, trace.changes()
        wanted = [ref for change in changes for ref in _refs(change)]
        self.written = len(wanted)
        bound = [x for _, _, x in changes if x.__class__ is Result]
        fresh = {id(x.what): x.what for x in (*results, *bound) if x.kind == "tensor"}
        tensors, numbers = list(fresh.values()), {key: i for i, key in enumerate(fresh)}
        self.results = [_numbered(x, numbers) for x in results]
        self.changes = [(kind, owner, _numbered(x, numbers)) for kind, owner, x in changes]
        wanted += [x._handle.ref for x in tensors]
        self.width, self.dtypes, self.copied = len(wanted), [x.dtype for x in tensors], _aliases(trace, wanted)
        before = len(trace.builder.steps)
        self.derivatives = [
            Derivative(trace, x, before) if record and is_node(x._record) and x._record else None for x in tensors
        ]
        self.leaves = [i for i, x in enumerate(tensors) if x._record.__class__ is Leaf]
        self.freed = [is_node(x._record) and not x._record for x in tensors]
        saved = dict.fromkeys(ref for each in self.derivatives if each is not None for ref in each.reads)
        # What is recorded keeps its numbers, whoever writes: a derivative may read a result itself.
        own = {
            wanted[self.written + i]: self.written + i for i, each in enumerate(self.derivatives) if each is not None
        }
        wanted += [ref for ref in saved if not trace.given(ref) and ref not in own]
        self.program, reads = trace.builder.program(wanted, trace.given)
        self.outputs = len(wanted)
        again = [ref for each in self.derivatives if each is not None for ref in each.inputs]
        inputs = list(dict.fromkeys([*reads, *(ref for ref in saved if trace.given(ref)), *again]))
        self.taken, self.sources = len(reads), [trace.sources[ref.number] for ref in inputs]
        made = own | {ref: i for i, ref in enumerate(wanted) if i >= self.width}
        known = {ref: (True, i) for i, ref in enumerate(inputs)} | {ref: (False, i) for ref, i in made.items()}
        for each in self.derivatives:
            if each is not None:
                each.settle(known, self.sources)
        self._compiled: Callable[..., Any] | None = None
        self._draws = {
            id(generator): (None if generator is trace.ambient else generator, trace.ends[id(generator)] - start[1])
            for generator, start in trace.starts.values()
        }

    def settle(self, trace: Trace) -> None:
        """Remember how things are, once the trace has left everything as it was."""
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
        self.holds: Callable[[tuple[Any, ...], dict[str, Any]], Sequence[Tensor] | None] = _unknown
        self._positions, self._given = list(trace.places.values()), trace.given_tensors
        self._owned = frozenset(trace.reach.tensors.keys() - trace.held.keys())
        self._aliased = [key in self._owned for key in trace.places]
        self._generators, self._fixed = trace.reach.generators, trace.fixed
        own = [key for key in trace.entered if key not in trace.gradient_of]
        grads = [key for key in own if trace.grads.get(key) is not None]
        self._entered = [*map(trace.owner, own), *(GradientOf(trace.owner(key)) for key in grads)]
        entered_now = [trace.tensors[key] for key in own] + [trace.grads[key] for key in grads]
        self._fixed_ids = frozenset(id(x) for x in self._entered if isinstance(x, Tensor))
        self._writes = writes = any(kind in ("tensor", "written", "shared") for kind, *_ in self.changes)
        shared = _sharing(entered_now, writes)
        # else each is read from where it is, whatever that is
        self._shared = shared if writes or shared or trace.held else None

    # whether this is the program to call

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

    # calling it

    def remember(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Print `holds`, for calls with such arguments; `differs` says in words what is otherwise."""
        if self.holds is not _unknown or len(self._positions) < self._given:  # some arguments are one tensor
            return
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
            known_as = _at_text(owner, text)
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
            text.refuse_unless([f"{place.text(name)} is {_at_text(owner, text)}"])
        for i, has_grad in zip(self._positions, self._grads, strict=True):
            text.refuse_unless([f"{name(_has_grad)}(x{i}) is {name(has_grad)}"])
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
        text.lines += ["except (AttributeError, LookupError, ValueError): return None", f"return {_tuple(known)}"]
        if not text.is_long:
            self.holds = text.function("def holds(args, kwargs):")

    def _sharing_text(self, text: Text, places: dict[int, str]) -> str:
        """That tensors are one, or share memory, as when the function was traced; at once where none shares any."""
        entered = [places.get(id(x)) or _at_text(x, text) for x in self._entered]
        plain = f"{text.name(_sharing)}([{', '.join(entered)}], {self._writes}) == {text.name(self._shared)}"
        if self._shared:
            return plain
        moving = [x for x, owner in zip(entered, self._entered, strict=True) if not isinstance(owner, Tensor)]
        ids = ", ".join([*(f"id({x})" for x in moving), f"*{text.name(self._fixed_ids)}"])
        distinct = [f"len({{{ids}}}) == {len(entered)}"] if moving else []
        alone = [f"{x}._storage is None" for x in entered if self._writes]
        return f"({' and '.join(alone + distinct)} or {plain})"

    @property
    def compiled(self) -> Callable[..., Any]:
        """The program as the device compiled it, when it was first needed."""
        if self._compiled is None:
            self._compiled = member(self.kernels.backend, "compile")(self.program)
        return self._compiled

    def run(self, flat: Sequence[Tensor]) -> Any:
        """Run the program on these tensors; `OTHERWISE` where a condition on Python's numbers comes out so."""
        run: Any = self._printed()
        self.run = run  # type: ignore[method-assign]
        return run(flat)

    def _printed(self) -> Callable[[Sequence[Tensor]], Any]:
        text = Text()
        name, lines = text.name, text.lines
        otherwise = f"raise {name(_Otherwise)}" if self._owners else f"return {name(OTHERWISE)}"
        if self._grads:
            lines.append(f"{', '.join(f'x{i}' for i in range(self._given))}, = flat")
        text.numbers(self.host.entries, otherwise)
        for i, (generator, blocks) in enumerate(self._draws.values()):
            drawn = f"{name(default_generator)}()" if generator is None else name(generator)
            lines.append(f"b{i} = {drawn}.take({4 * blocks})")
        handles = [self._read(source, text) for source in self.sources]
        outputs = [f"v{i}" for i in range(self.outputs)]
        derived = [i for i, each in enumerate(self.derivatives) if each is not None]
        if derived:
            lines.append(f"given = {_tuple(handles)}")
            handles = [f"given[{i}]" for i in range(len(handles))]
        compiled, taken, made = name(self.compiled, "compiled"), _tuple(handles[: self.taken]), f"{_tuple(outputs)} = "
        lines += [
            f"try: {made if outputs else ''}{compiled}({', '.join(handles[: self.taken])})",
            "except TypeError as error:",
            f"    {made if outputs else ''}{name(unless_withheld)}(error, {compiled}, {taken}, {{}})",
        ]
        lines += [f"v{i} = {name(self.kernels.copy, 'copy')}(v{i})" for i in self.copied]
        for i, (dtype, freed) in enumerate(zip(self.dtypes, self.freed, strict=True)):
            self._wrapped(text, f"r{i}", f"v{self.written + i}", name(dtype), "[]" if freed else "None")
        if derived:
            lines.append(f"found = {_tuple(outputs)}")
            lines += [f"r{i} = {name(self.derivatives[i])}.node(r{i}, flat, given, found)" for i in derived]
        lines += [f"r{i}.requires_grad = True" for i in self.leaves]
        results = []
        for i, x in enumerate(self.results):
            results.append(self._result(x, text))
            if x.kind == "given":  # as it is before anything is assigned
                lines.append(f"g{i} = {results[-1]}")
                results[-1] = f"g{i}"
        self._assign(text, outputs)
        marks = [object() for _ in results]
        built = self.rebuild(marks)
        if len(marks) == 1 and built is marks[0]:
            lines.append(f"return {results[0]}")
        elif type(built) is tuple and len(built) == len(marks) and all(map(is_, built, marks)):
            lines.append(f"return {_tuple(results)}")
        else:
            lines.append(f"return {name(self.rebuild)}({_tuple(results)})")
        if self._owners:  # who is told to go on does so before the program runs: back, where that fails
            before = ", ".join(
                f"({name(vars(owner))}, {{{', '.join(f'{x!r}: {name(owner)}.{x}' for x in owner.changing)}}})"
                for owner in self._owners
            )
            lines[:] = [
                f"before, done = [{before}], {name(Done)}()",
                "try:",
                *(f"    {line}" for line in lines),
                "except BaseException as error:",
                "    for space, kept in () if done.all else before: space.update(kept)",
                f"    if isinstance(error, {name(_Otherwise)}): return {name(OTHERWISE)}",
                "    raise",
            ]
        return text.function("def run(flat):")

    def _wrapped(self, text: Text, made: str, handle: str, dtype: str, record: str = "None") -> None:
        """`engine.array.wrap`, without the call."""
        text.lines.append(
            f"{made} = {text.name(new, 'new')}({text.name(Tensor)}); {made}._handle = {handle}; "
            f"{made}._kernels = {text.name(self.kernels)}; {made}.dtype = {dtype}; {made}._record = {record}; "
            f"{made}._storage = None"
        )

    def _result(self, x: Result, text: Text) -> str:
        if x.kind == "tensor":
            return f"r{x.what}"
        if x.kind == "given":
            return _at_text(x.what, text)
        return f"n{x.what}" if x.kind == "host" else text.name(x.what)

    def _read(self, source: tuple[Any, ...], text: Text) -> str:
        """Where a handle is that the program takes."""
        kind, *rest = source
        if kind == "argument" or kind == "tensor":
            return f"{_at_text(rest[0], text)}._handle"
        if kind == "constant":
            return text.name(rest[0])
        if kind == "grad":
            return f"{_at_text(rest[1], text)}._grad._handle"
        if kind == "kept":
            owner, attribute, i, path = rest
            return entry_text(owner, attribute, i, path, text.name)
        if kind == "host":
            return f"{text.name(_uploaded)}({text.name(self.kernels)}, n{rest[0]}, {text.name(rest[1])})"
        if kind == "place":
            generator, delta = rest
            drawn = f"b{[*self._draws].index(id(generator))}"
            return f"{text.name(_place)}({text.name(self.kernels)}, {drawn}, {delta})"
        op, params, generator, delta = rest
        draw = partial(getattr(self.kernels, op), **params)
        place = f"b{[*self._draws].index(id(generator))}"
        return f"{text.name(draw)}(key={place}['key'], block={place}['block'] + {delta})"

    # assigning

    def _assign(self, text: Text, outputs: list[str]) -> None:
        """All that the function changes, or after an interrupt nothing of it.

        An interrupt comes at the start of a line, or at a call: there are neither.
        """
        stores = list[str]()
        at_once = True  # whether nothing of Python's runs meanwhile
        handles = iter(outputs)
        whole: list[str] = []
        for n, (kind, owner, value) in enumerate(self.changes):
            x = "" if kind in ("slot", "attribute", "kept") else _at_text(owner, text)
            if kind in ("grad", "slot"):
                made = self._result(value, text)
                if value.kind == "given":
                    text.lines.append(f"d{n} = {made}")
                    made = f"d{n}"
            if kind == "tensor":
                handle = next(handles)
                stores.append(f"{x}._handle = {handle}; {x}._storage = {x}._origin = None")
                whole.append(f"*{text.name(given)}({x}, {handle})")
            elif kind == "written":
                at_once = False
                whole.append(f"({text.name(Memory)}({text.name(self.kernels)}, {x}), 'numbers', {next(handles)})")
            elif kind == "shared":
                at_once = False
                whole.append(f"*{text.name(shared)}({x}, {_at_text(value, text)})")
            elif kind == "grad":
                stores.append(f"{x}._grad = {made}")
                whole.append(f"({x}, '_grad', {made})")
            elif kind == "slot":
                at_once = at_once and owner.is_plain
                stores.append(f"{owner.text(text.name)} = {made}")
                space, key = text.name(owner.space), text.name(owner.key)
                to = f"{space}, {key}" if owner.is_attribute else f"{text.name(Slot)}({space}, {key}), 'entry'"
                whole.append(f"({to}, {made})")
            else:
                thing, attribute = owner
                text.lines.append(f"d{n} = {self._new_value(kind, thing, attribute, value, handles, text)}")
                stores.append(f"{text.name(vars(thing))}[{attribute!r}] = d{n}")
                whole.append(f"({text.name(thing)}, {attribute!r}, d{n})")
        done = ["done.all = True"] if self._owners else []
        whole = ["(done, 'all', True)"] * bool(self._owners) + whole
        if not at_once:
            text.lines.append(f"{text.name(assign_all)}([{', '.join(whole)}])")
        elif stores or done:
            text.lines.append("; ".join([*stores, *done]))

    def _new_value(self, kind: str, owner: Any, attribute: str, to: Any, handles: Iterator[str], text: Text) -> str:
        """What an attribute becomes, as Python."""

        def value(what: str, x: Any) -> str:
            return next(handles) if what == "value" else f"n{x}" if what == "host" else text.name(x)

        if kind == "attribute":
            return value(*to)
        changed = {place: value(*x) for place, x in to.items()}

        def state(at: str, within: list[tuple[tuple[str, ...], str]]) -> str:
            heads = dict.fromkeys(path[0] for path, _ in within)
            entries = [f"**{at}"]
            for head in heads:
                inner = [(path[1:], x) for path, x in within if path[0] == head]
                plain = [x for path, x in inner if not path]
                entries.append(f"{head!r}: {plain[0] if plain else state(f'{at}[{head!r}]', inner)}")
            return f"{{{', '.join(entries)}}}"

        now = f"{text.name(owner)}.{attribute}"
        count = len(getattr(owner, attribute))
        found = [state(f"{now}[{i}]", [(path, x) for (j, path), x in changed.items() if j == i]) for i in range(count)]
        return f"[{', '.join(found)}]"


MODES: Final[dict[str, Callable[[], Any]]] = {
    "grad_mode": grad_mode, "half_type": half_types.get, "default_device": default_devices.get,
    "precision": precisions.get,
}  # fmt: skip
"""Around a call, what its kind depends on."""
OTHERWISE: Final = type("Otherwise", (), {})()
"""Instead of a result: a condition on Python's numbers comes out otherwise than when the function was traced."""


def _unknown(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Nobody has asked yet."""


def _is_tensor(x: Any) -> bool:
    return x.__class__ is Tensor


def _tuple(texts: Sequence[str]) -> str:
    return f"({''.join(f'{x}, ' for x in texts)})"


def _at_text(owner: Any, text: Text) -> str:
    """What `at` gives, as Python."""
    if owner.__class__ is int:
        return f"x{owner}"
    if owner.__class__ is Place:
        return owner.text(text.name)
    return f"{_at_text(owner.owner, text)}._grad" if owner.__class__ is GradientOf else text.name(owner)


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


def _uploaded(kernels: Any, number: Any, dtype: Any) -> Any:
    """A number as a 0-d handle; it is another one at each call, so that nothing keeps it."""
    return kernels.upload(pack([number], dtype), (), dtype)


def _place(kernels: Any, start: dict[str, int], delta: int) -> Any:
    """A place in a generator's stream as a handle."""
    return kernels.upload(pack(place_of(start["key"], start["block"] + delta), uint64), (PLACE,), uint64)


class _Otherwise(Exception):
    """Like `OTHERWISE`, after something was told to go on."""


def _aliases(trace: Trace, wanted: list[Ref]) -> list[int]:
    """Positions of outputs whose memory would be that of an input, or of another output."""
    taken: set[int] = set()
    found = []
    steps = trace.builder.steps
    for i, ref in enumerate(wanted):
        number = ref.number
        while steps[number].op in TABLE and TABLE[steps[number].op].view:
            number = steps[number].operands[0].number
        if trace.given(Ref(number)) or number in taken:
            found.append(i)
        taken.add(number)
    return found


def _numbered(x: Any, numbers: dict[int, int]) -> Any:
    """A result, of a tensor which of those that are made."""
    return Result("tensor", numbers[id(x.what)]) if x.__class__ is Result and x.kind == "tensor" else x


def _refs(change: tuple[str, Any, Any]) -> list[Ref]:
    """The values that one change takes."""
    kind, owner, new = change
    if kind == "kept":
        return [x for what, x in new.values() if what == "value"]
    if kind == "attribute" and new[0] == "value":
        raise TraceError(f"jit: the attribute {owner[1]!r} of a {type(owner[0]).__name__} becomes a tensor")
    return [new] if isinstance(new, Ref) else []


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


__all__ = ["Replay"]
