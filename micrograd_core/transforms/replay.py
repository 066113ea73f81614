"""A traced function as it is called: inputs gathered, the program run, what it changes assigned, results made."""

from __future__ import annotations

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
from micrograd_core.errors import TraceError
from micrograd_core.ground.assignments import assign_all
from micrograd_core.ground.warning import unless_withheld
from micrograd_core.ops import TABLE
from micrograd_core.ops.standard.random import PLACE, place_of
from micrograd_core.random import default_generator
from micrograd_core.transforms.changes import Done, Memory, Slot, given, shared
from micrograd_core.transforms.guards import Guards, Holds, at_text, tuple_text
from micrograd_core.transforms.printed import Text
from micrograd_core.transforms.pullback import Derivative
from micrograd_core.transforms.tracing import Result, Trace, entry_text


class Replay:
    """One program, and the state around it."""

    def __init__(self, trace: Trace, results: list[Result], rebuild: Any, record: bool) -> None:
        self.kernels: Any = trace.root
        self.rebuild, self.host = rebuild, trace.host
        self._owners, changes = trace.actors, trace.changes()
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
        self.holds: Holds = _unknown
        self._given = trace.given_tensors
        self._draws = {
            id(generator): (None if generator is trace.ambient else generator, trace.ends[id(generator)] - start[1])
            for generator, start in trace.starts.values()
        }

    def settle(self, trace: Trace) -> None:
        """Remember how things are, once the trace has left everything as it was."""
        self.guards = Guards(trace, any(kind in ("tensor", "written", "shared") for kind, *_ in self.changes))

    def remember(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Print `holds`, for calls with such arguments; `Guards.differs` says in words what is otherwise."""
        if self.holds is _unknown:
            self.holds = self.guards.printed(args, kwargs) or _unknown

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
        if self._given:
            lines.append(f"{', '.join(f'x{i}' for i in range(self._given))}, = flat")
        text.numbers(self.host.entries, otherwise)
        for i, (generator, blocks) in enumerate(self._draws.values()):
            drawn = f"{name(default_generator)}()" if generator is None else name(generator)
            lines.append(f"s{i} = {drawn}; b{i} = s{i}.take({4 * blocks})")
        handles = [self._read(source, text) for source in self.sources]
        outputs = [f"v{i}" for i in range(self.outputs)]
        derived = [i for i, each in enumerate(self.derivatives) if each is not None]
        if derived:
            lines.append(f"given = {tuple_text(handles)}")
            handles = [f"given[{i}]" for i in range(len(handles))]
        compiled, taken, made = (
            name(self.compiled, "compiled"),
            tuple_text(handles[: self.taken]),
            f"{tuple_text(outputs)} = ",
        )
        call = [
            f"try: {made if outputs else ''}{compiled}({', '.join(handles[: self.taken])})",
            "except TypeError as error:",
            f"    {made if outputs else ''}{name(unless_withheld)}(error, {compiled}, {taken}, {{}})",
        ]
        if self._draws:  # of a call that fails nothing stays
            back = [f"s{i}.give_back(b{i}, {4 * blocks})" for i, (_, blocks) in enumerate(self._draws.values())]
            call = ["try:", *(f"    {x}" for x in call), "except BaseException:", f"    {'; '.join(back)}", "    raise"]
        lines += call
        lines += [f"v{i} = {name(self.kernels.copy, 'copy')}(v{i})" for i in self.copied]
        for i, (dtype, freed) in enumerate(zip(self.dtypes, self.freed, strict=True)):
            self._wrapped(text, f"r{i}", f"v{self.written + i}", name(dtype), "[]" if freed else "None")
        if derived:
            lines.append(f"found = {tuple_text(outputs)}")
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
            lines.append(f"return {tuple_text(results)}")
        else:
            lines.append(f"return {name(self.rebuild)}({tuple_text(results)})")
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
            return at_text(x.what, text)
        return f"n{x.what}" if x.kind == "host" else text.name(x.what)

    def _read(self, source: tuple[Any, ...], text: Text) -> str:
        """Where a handle is that the program takes."""
        kind, *rest = source
        if kind == "argument" or kind == "tensor":
            return f"{at_text(rest[0], text)}._handle"
        if kind == "constant":
            return text.name(rest[0])
        if kind == "grad":
            return f"{at_text(rest[1], text)}._grad._handle"
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
            x = "" if kind in ("slot", "attribute", "kept") else at_text(owner, text)
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
                whole.append(f"*{text.name(shared)}({x}, {at_text(value, text)})")
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


OTHERWISE: Final = type("Otherwise", (), {})()
"""Instead of a result: a condition on Python's numbers comes out otherwise than when the function was traced."""


def _unknown(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Nobody has asked yet."""


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


__all__ = ["Replay"]
