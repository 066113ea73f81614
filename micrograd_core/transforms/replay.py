"""A traced function as it is called: inputs gathered, the program run, what it changes assigned, results made."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, Final

from micrograd_core.array.tensor import Tensor
from micrograd_core.compiler.casts import kept_casts
from micrograd_core.compiler.program import Ref
from micrograd_core.dtypes import pack, uint64
from micrograd_core.engine.array import Storage, cast_of, keep_cast, storage, wrap
from micrograd_core.engine.graph import Leaf, is_node
from micrograd_core.errors import GraphError
from micrograd_core.ops import TABLE
from micrograd_core.ops.standard.random import PLACE, place_of
from micrograd_core.random import default_generator
from micrograd_core.support.atomic import insist
from micrograd_core.transforms.codegen import Text, entry_text, tuple_text
from micrograd_core.transforms.conditions import Holds, at_text, printed_guards
from micrograd_core.transforms.pullback import Derivative
from micrograd_core.transforms.tracing import Result, Trace


class Replay:
    """One program, and the state around it."""

    def __init__(self, trace: Trace, results: list[Result], rebuild: Any, record: bool) -> None:
        self.kernels: Any = trace.root
        self.rebuild, self.host = rebuild, trace.host
        self._owners, changes = trace.actors, trace.changes()
        values, tensors, numbers = list[Ref](), list[Tensor](), dict[int, int]()
        numbered = partial(_numbered, values, tensors, numbers)
        self.results = numbered(results)
        self.changes = [(kind, owner, numbered(x)) for kind, owner, x in changes]
        self.written, wanted = len(values), values + [x._handle.ref for x in tensors]
        self.width, self.dtypes, self.copied = len(wanted), [x.dtype for x in tensors], _aliases(trace, wanted)
        before = len(trace.builder.steps)
        self.derivatives = {
            i: Derivative(trace, x, before)
            for i, x in enumerate(tensors)
            if record and is_node(x._record) and x._record
        }
        self.leaves = [i for i, x in enumerate(tensors) if x._record.__class__ is Leaf]
        self.freed = [is_node(x._record) and not x._record for x in tensors]
        saved = dict.fromkeys(ref for each in self.derivatives.values() for ref in each.reads if ref is not None)
        # What is recorded keeps its numbers, whoever writes: a derivative may read a result itself.
        made = {wanted[self.written + i]: self.written + i for i in self.derivatives}
        wanted += [ref for ref in saved if not trace.given(ref) and ref not in made]
        self.program, reads = trace.builder.program(wanted, trace.given, before)
        self.outputs = len(wanted)
        again = [ref for each in self.derivatives.values() for ref in each.inputs]
        inputs = list(dict.fromkeys([*reads, *(ref for ref in saved if trace.given(ref)), *again]))
        self.taken, self.sources = len(reads), [trace.sources[ref.number] for ref in inputs]
        made |= {ref: i for i, ref in enumerate(wanted) if i >= self.width}
        known = {ref: i for i, ref in enumerate(inputs)} | {ref: len(inputs) + i for ref, i in made.items()}
        for each in self.derivatives.values():
            each.settle(known, self.sources)
        self.kept = kept_casts(self.program, *self._weights())
        self.donate(())
        self._given = trace.given_tensors
        self._draws = {
            id(generator): (None if generator is trace.ambient else generator, trace.ends[id(generator)] - start[1])
            for generator, start in trace.starts.values()
        }

    def donate(self, positions: Iterable[int]) -> None:
        """Give arguments away, but for those that are there after the call."""
        results = [*self.results, *(x for *_, new in self.changes for x in (new if isinstance(new, list) else [new]))]
        stay = [x.what for x in results if x.kind == "given"] + [owner for _, owner, _ in self.changes]
        self.donated = [] if self.derivatives else sorted({*positions} - {x for x in stay if x.__class__ is int})
        used = [*self.program.outputs, *(x for step in self.program.steps for x in step.operands)]
        read = Counter([x.number for x in used if isinstance(x, Ref)])
        self.over = frozenset([
            n for n, (kind, what, *_) in enumerate(self.sources[: self.taken])
            if kind == "tensor" and what.__class__ is int and what in self.donated and read[n] == 1
        ])  # fmt: skip
        self._making, self._taking = (
            cache(partial(self.kernels.compile, program._replace(donated=self.over))) for program in self.kept[:2]
        )

    def _weights(self) -> tuple[list[int], dict[int, int]]:
        """Inputs that are large and there at the next call, too; and which of these an output takes the place of."""
        changes = {id(owner): (kind, x) for kind, owner, x in self.changes if kind in ("tensor", "written", "shared")}
        weights, renewed = list[int](), dict[int, int]()
        for i, (kind, owner, *_) in enumerate(self.sources[: self.taken]):
            if kind == "tensor" and owner.__class__ is Tensor and math.prod(self.program.types[i].shape) >= LARGE:
                how, x = changes.get(id(owner), ("", None))
                if how == "tensor":
                    renewed[i] = x.what
                weights += [i] if how in ("", "tensor") else []
        return weights, renewed

    def settle(self, trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Print the guards, once the trace has left everything as it was."""
        writes = any(kind in ("tensor", "written", "shared") for kind, *_ in self.changes)
        self.guards = trace.captured.guards
        self.holds: Holds = printed_guards(trace, writes, args, kwargs)

    @property
    def compiled(self) -> Callable[..., Any]:
        """The program as the device compiled it, when it was first needed."""
        return self._making()  # type: ignore[no-any-return]

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
        handles = [
            f"{name(alone)}(x{source[1]})" if n in self.over else self._read(source, text)
            for n, source in enumerate(self.sources)
        ]
        outputs = [f"v{i}" for i in range(self.outputs)]
        if (self.derivatives or self.kept.casts or self.donated) and handles:
            lines.append(f"{''.join(f'h{i}, ' for i in range(len(handles)))}= {tuple_text(handles)}")
            handles = [f"h{i}" for i in range(len(handles))]
        lines += [f"x{i}._handle = x{i}._kernels = {name(GONE)}" for i in self.donated]
        call = self._call(handles[: self.taken], outputs, text)
        if self._draws:  # of a call that fails nothing stays
            back = [f"s{i}.give_back(b{i}, {4 * blocks})" for i, (_, blocks) in enumerate(self._draws.values())]
            call = ["try:", *_indented(call), "except BaseException:", f"    {'; '.join(back)}", "    raise"]
        lines += call
        lines += [f"v{i} = {name(self.kernels.copy, 'copy')}(v{i})" for i in self.copied]
        for i, (dtype, freed) in enumerate(zip(self.dtypes, self.freed, strict=True)):
            made, record = f"{name(Tensor)}, v{self.written + i}, {name(self.kernels)}", "[]" if freed else "None"
            lines.append(f"r{i} = {name(wrap)}({made}, {name(dtype)}, {record})")
        if self.derivatives:
            lines.append(f"seen = {tuple_text(handles + outputs)}")
            lines += [f"r{i} = {name(each)}.node(r{i}, flat, seen)" for i, each in self.derivatives.items()]
        lines += [f"r{i}.requires_grad = True" for i in self.leaves]
        results = [self._result(x, text) for x in self.results]
        for i, x in enumerate(self.results):
            if x.kind == "given":  # as it is before anything is assigned
                lines.append(f"g{i} = {results[i]}")
                results[i] = f"g{i}"
        self._assign(text)
        built = self.rebuild(results)
        if len(results) == 1 and built is results[0]:
            lines.append(f"return {results[0]}")
        elif built == tuple(results) and type(built) is tuple:
            lines.append(f"return {tuple_text(results)}")
        else:
            lines.append(f"return {name(self.rebuild)}({tuple_text(results)})")
        if self._owners:  # who is told to go on does so before the program runs: back, where that fails
            before = ", ".join(
                f"({name(vars(owner))}, {{{', '.join(f'{x!r}: {name(owner)}.{x}' for x in owner.changing)}}})"
                for owner in self._owners
            )
            lines[:] = [
                f"before = [{before}]",
                "try:",
                *_indented(lines),
                "except BaseException as error:",
                "    for space, kept in before: space.update(kept)",
                f"    if isinstance(error, {name(_Otherwise)}): return {name(OTHERWISE)}",
                "    raise",
            ]
        return text.function("def run(flat):")

    def _call(self, handles: list[str], outputs: list[str], text: Text) -> list[str]:
        """The call of the program, or where casts of weights are kept, of one of two."""
        name, casts, renewed = text.name, self.kept.casts, self.kept.renewed
        if not casts:
            made = f"{tuple_text(outputs)} = " if outputs else ""
            return [f"{made}{name(self.compiled, 'compiled')}({', '.join(handles)})"]
        there, still = [f"c{n}" for n in range(len(casts))], range(renewed, len(casts))
        about = [(name(self.sources[i][1]), handles[i], name(dtype)) for i, dtype in casts]
        return [
            *(f"c{n} = {name(cast_of)}({', '.join(each)})" for n, each in enumerate(about)),
            f"if {' or '.join(f'{c} is None' for c in there)}:",
            *(f"    e{n} = {name(storage)}({about[n][0]}).version()" for n in still),
            f"    {tuple_text(outputs + there)} = {name(self._making)}()({', '.join(handles)})",
            *(f"    {name(keep_cast)}({', '.join(about[n])}, c{n}, e{n})" for n in still),
            "else:",
            f"    {tuple_text(outputs + there[:renewed])} = {name(self._taking)}()({', '.join(handles + there)})",
        ]

    def _result(self, x: Result, text: Text) -> str:
        if x.kind == "given":
            return at_text(x.what, text)
        if x.kind == "constant":
            return text.name(x.what)
        return entry_text(text.name, *x.what) if x.kind == "entry" else f"{LOCALS[x.kind]}{x.what}"

    def _read(self, source: tuple[Any, ...], text: Text) -> str:
        """Where a handle is that the program takes."""
        kind, *rest = source
        if kind == "tensor":
            return f"{at_text(rest[0], text)}._handle"
        if kind == "constant":
            return text.name(rest[0])
        if kind == "kept":
            return entry_text(text.name, *rest)
        if kind == "host":
            return f"{text.name(_uploaded)}({text.name(self.kernels)}, n{rest[0]}, {text.name(rest[1])})"
        *made, generator, delta = rest
        start = f"b{[*self._draws].index(id(generator))}"
        if kind == "place":
            return f"{text.name(_place)}({text.name(self.kernels)}, {start}, {delta})"
        op, params = made
        draw = partial(getattr(self.kernels, op), **params)
        return f"{text.name(draw)}(key={start}['key'], block={start}['block'] + {delta})"

    # assigning

    def _assign(self, text: Text) -> None:
        """All that the function changes, or after an interrupt nothing of it.

        An interrupt comes at the start of a line, or at a call: there are neither. Where one calls, `insist` does.
        """
        stores = ["before = ()"] if self._owners else []
        calls = False
        name, lines, casts = text.name, text.lines, self.kept.casts[: self.kept.renewed]
        renewed = {id(self.sources[i][1]): f"{name(dtype)}, c{n}" for n, (i, dtype) in enumerate(casts)}
        for n, (kind, owner, value) in enumerate(self.changes):
            local, x = f"d{n}", "" if kind in ("slot", "kept") else at_text(owner, text)
            new = value if isinstance(value, list) else self._result(value, text)
            if kind == "tensor":
                if (cast := renewed.get(id(owner))) is not None:
                    lines.append(f"{local} = {name(Storage)}({x}._record is not None); {local}.cast = {new}, {cast}")
                stores.append(f"{x}._handle = {new}; {x}._storage = {local if cast else None}; {x}._origin = None")
            elif kind == "written":
                calls = True
                lines.append(f"{local} = {x}._handle")
                stores.append(f"{name(write)}({name(self.kernels)}, {x}, {local}, {new})")
            elif kind == "shared":
                lines.append(f"{local} = {name(shared)}({new})")
                stores.append(f"{x}._handle, {x}._storage = {local}; {x}._origin = None")
            elif kind == "kept":
                place, rebuild = owner
                lines.append(f"{local} = {_literal(rebuild(self._result(each, text) for each in value))}")
                stores.append(f"{place.text(name)} = {local}")
            else:
                if value.kind == "given":  # as it is before anything is assigned
                    lines.append(f"{local} = {new}")
                    new = local
                calls = calls or (kind == "slot" and not owner.is_plain)
                stores.append(f"{f'{x}._grad' if kind == 'grad' else owner.text(name)} = {new}")
        if calls:
            nonlocal_before = ["    nonlocal before"] if self._owners else []
            lines += ["def assign():", *nonlocal_before, f"    {'; '.join(stores)}", f"{name(insist)}(assign)"]
        elif stores:
            lines.append("; ".join(stores))


# ── changes for which plain assignments do not do ────────────────────────────────────────────────────────────


def shared(x: Tensor) -> tuple[Any, Any]:
    """The handle and the memory of a tensor, for another one, as ``other.data = x``."""
    common = storage(x)
    common.replaced += 1
    return x._handle, common


def alone(x: Tensor) -> Any:
    """The handle of a tensor that is given away; a copy, where others may see the same memory."""
    return x._handle if x._storage is None else x._kernels.copy(x._handle)


class Gone:
    """Instead of the memory of a tensor that was given away, and of its device."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # who looks what it is
            raise AttributeError(name)
        raise GraphError(
            "this tensor was given away to a function under jit, which may have written over it; use what the function "
            "returned, or take the parameter out of donate_argnames"
        )


GONE: Final = Gone()


def write(kernels: Any, x: Tensor, memory: Any, handle: Any) -> None:
    """Write into the memory of a tensor; where the device cannot write, the tensor gets memory of its own."""
    if not kernels.assign(memory, handle, (slice(None),) * len(memory.shape)):
        x._handle, x._storage, x._origin = handle, None, None
    elif x._storage is not None:
        x._storage.written()


LARGE: Final = 2**18
"""Elements of a weight from which on what it is cast to is kept from call to call."""
LOCALS: Final = {"tensor": "r", "value": "v", "host": "n"}
"""How the results of each kind are called in what is printed."""
OTHERWISE: Final = type("Otherwise", (), {})()
"""Instead of a result: a condition on Python's numbers comes out otherwise than when the function was traced."""


def _numbered(values: list[Ref], tensors: list[Tensor], numbers: dict[int, int], x: Any) -> Any:
    """A result, by the number of the output that it is, and not by what there is in the trace."""
    if isinstance(x, list):
        return [_numbered(values, tensors, numbers, each) for each in x]
    if x.kind == "value":
        values.append(x.what)
        return Result("value", len(values) - 1)
    if x.kind == "tensor":
        number = numbers.setdefault(id(x.what), len(tensors))
        tensors[number:] = tensors[number:] or [x.what]
        return Result("tensor", number)
    return x


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


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _literal(x: Any) -> str:
    """Dicts and lists of texts as Python."""
    if isinstance(x, dict):
        return f"{{{', '.join(f'{key!r}: {_literal(each)}' for key, each in x.items())}}}"
    return f"[{', '.join(map(_literal, x))}]" if isinstance(x, list) else str(x)
