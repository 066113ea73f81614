"""A traced function as it is called: inputs gathered, the program run, what it changes assigned, results made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from micrograd_core.array.tensor import Tensor
from micrograd_core.backend import member
from micrograd_core.compiler.program import Program, Ref
from micrograd_core.engine.apply import Recorded
from micrograd_core.engine.array import shared_beyond, storage, wrap
from micrograd_core.engine.graph import Leaf, Version, is_node
from micrograd_core.engine.hooks import conjugate
from micrograd_core.engine.modes import recording, records_at
from micrograd_core.errors import GraphError, TraceError
from micrograd_core.ground.assignments import assign_all
from micrograd_core.ops import TABLE, Op
from micrograd_core.random import default_generator
from micrograd_core.transforms.closures import same
from micrograd_core.transforms.custom import node_of, rule
from micrograd_core.transforms.grad import variable
from micrograd_core.transforms.linearized import Linearized
from micrograd_core.transforms.tracing import GradientOf, Result, Trace, at, paths, put

JIT = Op("jit", "A function under `jit`.", gradient=rule, gradient_aliases=True)
WHOLE = TABLE["scatter"].parameters


class Replay:
    """One program, and the state around it."""

    def __init__(self, trace: Trace, results: list[Result], rebuild: Any, record: bool) -> None:
        self.kernels: Any = trace.root
        self.rebuild, self.host = rebuild, trace.host
        self.results = [Result(x.kind, None) if x.kind == "tensor" else x for x in results]
        self.watches, self._owners, self.changes = trace.reach.watches, trace.actors, trace.changes()
        wanted = [ref for change in self.changes for ref in _refs(change)]
        self.written = len(wanted)
        tensors = [x.what for x in results if x.kind == "tensor"]
        wanted += [x._handle.ref for x in tensors]
        self.width, self.dtypes, self.copied = len(wanted), [x.dtype for x in tensors], _aliases(trace, wanted)
        before = len(trace.builder.steps)
        self.derivatives = [
            Derivative(trace, x, before, self.written + i) if record and is_node(x._record) and x._record else None
            for i, x in enumerate(tensors)
        ]
        self.leaves = [i for i, x in enumerate(tensors) if x._record.__class__ is Leaf]
        self.freed = [is_node(x._record) and not x._record for x in tensors]
        saved = dict.fromkeys(ref for each in self.derivatives if each is not None for ref in each.reads)
        wanted += [ref for ref in saved if not trace.given(ref)]
        self.program, reads = trace.builder.program(wanted, trace.given)
        inputs = list(dict.fromkeys([*reads, *(ref for ref in saved if trace.given(ref))]))
        self.taken, self.sources = len(reads), [trace.sources[ref.number] for ref in inputs]
        known = {ref: (True, i) for i, ref in enumerate(inputs)} | {
            ref: (False, i) for i, ref in enumerate(wanted) if i >= self.width
        }
        for each in self.derivatives:
            if each is not None:
                each.settle(known, self.program, self.sources)
        self._compiled: Callable[..., Any] | None = None
        self._draws = {
            id(generator): (None if generator is trace.ambient else generator, trace.ends[id(generator)] - start[1])
            for generator, start in trace.starts.values()
        }

    def settle(self, trace: Trace) -> None:
        """Remember how things are, once the trace has left everything as it was."""
        entered = [(key, trace.tensors[key]) for key in trace.entered if key not in trace.gradient_of]
        self._state = [
            (x, x.shape, x.dtype, x._kernels, x._record.__class__, _has_grad(x))
            for key, x in entered
            if key not in trace.places
        ]
        self._kept = [(owner, name, _names(getattr(owner, name))) for owner, name in trace.lists()]
        self._grads = [_has_grad(trace.tensors[key]) for key in trace.places]
        self._positions = list(trace.places.values())
        self._owned = frozenset(trace.reach.tensors)
        self._aliased = [key in self._owned for key in trace.places]
        self._generators, self._fixed = trace.reach.generators, trace.fixed
        own = [key for key in trace.entered if key not in trace.gradient_of]
        grads = [key for key in own if trace.grads.get(key) is not None]
        self._entered = [*map(trace.owner, own), *(GradientOf(trace.owner(key)) for key in grads)]
        entered_now = [trace.tensors[key] for key in own] + [trace.grads[key] for key in grads]
        writes = any(kind in ("tensor", "rebound") for kind, *_ in self.changes)
        self._writes = writes
        shared = _sharing(entered_now, writes)
        self._shared = shared if writes or shared else None  # else each is read from where it is, whatever that is

    # whether this is the program to call

    def differs(self, flat: list[Any]) -> str:
        """What is not as it was when the function was traced, in words; nothing if all is."""
        for watch in self.watches:
            if not watch.holds():
                return _changed(watch)
        for x, shape, dtype, kernels, kind, has_grad in self._state:
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

    def __call__(self, flat: list[Any]) -> Any:
        """Run the program; ``None`` where a condition on Python's numbers comes out otherwise."""
        before = [(owner, {name: vars(owner)[name] for name in owner.changing}) for owner in self._owners]
        done = _Done()
        try:
            numbers = self.host.run()
            if numbers is None:
                raise _Otherwise
            return self._run(flat, numbers, done)
        except BaseException as error:
            for owner, kept in before if not done.all else ():
                vars(owner).update(kept)
            if isinstance(error, _Otherwise):
                return None
            raise

    @property
    def compiled(self) -> Callable[..., Any]:
        """The program as the device compiled it, when it was first needed."""
        if self._compiled is None:
            self._compiled = member(self.kernels.backend, "compile")(self.program)
        return self._compiled

    def _run(self, flat: list[Any], numbers: list[Any], done: _Done) -> Any:
        blocks = {key: (g or default_generator()).take(4 * blocks) for key, (g, blocks) in self._draws.items()}
        given = [self._read(source, flat, numbers, blocks) for source in self.sources]
        found = list(self.compiled(*given[: self.taken]))
        for i in self.copied:
            found[i] = self.kernels.copy(found[i])
        tensors = [
            wrap(Tensor, x, self.kernels, dtype, [] if freed else None)
            for x, dtype, freed in zip(found[self.written : self.width], self.dtypes, self.freed, strict=True)
        ]
        made = [
            x if derivative is None else derivative.node(x, flat, given, found)
            for x, derivative in zip(tensors, self.derivatives, strict=True)
        ]
        for i in self.leaves:
            made[i].requires_grad = True
        rest = iter(made)
        leaves = [self._result(x, rest, made, flat, numbers) for x in self.results]
        self._assign(found, flat, numbers, done)
        return (self.rebuild(leaves),)

    def _result(self, x: Result, rest: Any, made: list[Tensor], flat: list[Any], numbers: list[Any]) -> Any:
        if x.kind == "tensor":
            return next(rest)
        if x.kind == "again":
            return made[x.what]
        if x.kind == "given":
            return at(x.what, flat)
        return numbers[x.what] if x.kind == "host" else x.what

    def _read(self, source: tuple[Any, ...], flat: list[Any], numbers: list[Any], blocks: Any) -> Any:
        kind, *rest = source
        if kind == "argument":
            return flat[rest[0]]._handle
        if kind == "tensor" or kind == "constant":
            return rest[0]._handle if kind == "tensor" else rest[0]
        if kind == "grad":
            owner = flat[rest[1]] if rest[0] == "argument" else rest[1]
            return owner._grad._handle
        if kind == "kept":
            owner, name, i, path = rest
            found = getattr(owner, name)[i]
            for each in path:
                found = found[each]
            return found
        if kind == "host":
            return self.kernels.constant((numbers[rest[0]],), (), rest[1])
        op, params, generator, delta = rest
        place = blocks[id(generator)]
        return getattr(self.kernels, op)(**{**params, "key": place["key"], "block": place["block"] + delta})

    def _assign(self, found: list[Any], flat: list[Any], numbers: list[Any], done: _Done) -> None:
        """All that the function changes, or after an interrupt nothing of it."""
        changes: list[Any] = [(done, "all", True)]
        handles = iter(found)
        for kind, owner, new in self.changes:
            if kind == "rebound":
                changes += _given(owner, next(handles))
            elif kind == "tensor":
                changes += self._written(at(owner, flat), next(handles))
            elif kind == "grad":
                x, grad = at(owner, flat), None
                if isinstance(new, Ref):
                    grad = wrap(Tensor, next(handles), self.kernels, x.dtype, None)
                elif new is not None:
                    grad = at(new[1], flat)
                changes.append((x, "_grad", grad))
            elif kind == "slot":
                space, name = owner
                handle = next(handles)
                x = wrap(Tensor, handle, self.kernels, self.kernels.dtype(handle), None)
                changes.append((_Slot(space), name, x))
            elif kind == "attribute":
                what, x = new
                changes.append((*owner, numbers[x] if what == "host" else x))
            else:
                states = [dict(state) for state in getattr(*owner)]
                for (i, path), (what, x) in new.items():
                    value = next(handles) if what == "value" else numbers[x] if what == "host" else x
                    put(states[i], path, value)
                changes.append((*owner, states))
        assign_all(changes)

    def _written(self, x: Tensor, handle: Any) -> list[Any]:
        """New numbers for a tensor: in place where others look at its memory and nothing was recorded."""
        common = x._storage
        if common is not None and x._record is None and shared_beyond(x):
            assert WHOLE is not None
            key = WHOLE(x, wrap(Tensor, handle, self.kernels, x.dtype, None), key=...)["key"]
            if not common.tracked:
                return [(_Memory(self.kernels, x, key), "numbers", handle)]
        return _given(x, handle)


def _given(x: Tensor, handle: Any) -> list[Any]:
    """New memory for a tensor; who looks at the old one goes on to."""
    return [(x, "_handle", handle), (x, "_storage", None), (x, "_origin", None)]


class _Done:
    """Whether what a call changes is being assigned: from then on nothing is taken back."""

    all = False


class _Memory:
    """The memory that a tensor shares, for `assign_all`; a device that cannot write there gives the tensor its own."""

    def __init__(self, kernels: Any, x: Tensor, key: Any) -> None:
        vars(self).update(kernels=kernels, x=x, key=key)

    def __setattr__(self, name: str, handle: Any) -> None:
        kernels, x, key = vars(self).values()
        if kernels.assign(x._handle, handle, key):
            if x._storage is not None:
                x._storage.written()
        else:
            for owner, slot, value in _given(x, handle):
                setattr(owner, slot, value)


class _Otherwise(Exception):
    """A condition on Python's numbers comes out otherwise than when the function was traced."""


class _Slot:
    """An entry of a dict, for `assign_all`."""

    __slots__ = ("_space",)
    _space: dict[Any, Any]

    def __init__(self, space: dict[Any, Any]) -> None:
        object.__setattr__(self, "_space", space)

    def __setattr__(self, name: Any, value: Any) -> None:
        self._space[name] = value


class Derivative:
    """The program that carries the cotangent of one result, `output` of the whole, back to what was given."""

    def __init__(self, trace: Trace, result: Tensor, before: int, output: int) -> None:
        g, slopes = trace.derivative(result)
        self.kernels: Any = trace.root
        self.owners, self.output = [trace.owner(key) for key in slopes], output
        self.program, reads = trace.builder.program(
            list(slopes.values()), lambda ref: ref.number < before or trace.given(ref)
        )
        self._at = [i for i, ref in enumerate(reads) if ref == g]
        constant = {i: trace.sources[ref.number][1] for i, ref in enumerate(reads) if _is_constant(trace, ref)}
        self._handles = [constant.get(i) for i in range(len(reads))]
        self._places = [i for i in range(len(reads)) if i not in constant and i not in self._at]
        self.reads = [reads[i] for i in self._places]
        self._compiled: Callable[..., Any] | None = None

    def settle(self, known: dict[Ref, tuple[bool, int]], forward: Program, sources: list[tuple[Any, ...]]) -> None:
        """Where in a call what is read comes from, and the program that a second derivative differentiates."""
        self._saved = [known[ref] for ref in self.reads]
        self.forward = forward
        self._kept = _places([sources[i] for is_input, i in self._saved if is_input])
        self._computed_from = _places(sources[: forward.inputs])
        places = [("argument", x) if isinstance(x, int) else ("tensor", x) for x in self.owners]
        self.variables = [
            next((i for i, source in enumerate(sources) if _is_source(source, place)), None) for place in places
        ]

    def node(self, value: Tensor, flat: list[Any], given: list[Any], found: list[Any]) -> Tensor:
        """The result as what the function made of the tensors that record."""
        inputs = [at(x, flat) for x in self.owners]
        count = len(inputs)  # what is recorded holds no tensor
        handles, versions = list(self._handles), _versions(self._computed_from, flat)
        for place, (is_input, i) in zip(self._places, self._saved, strict=True):
            handles[place] = given[i] if is_input else found[i]

        def pull(g: Tensor, operands: Sequence[Tensor]) -> Sequence[Any]:
            own = list(operands[:count])
            if records_at(self.kernels.depth) or g._kernels is not self.kernels:
                if any(each.stale for each in versions):
                    raise GraphError(
                        "jit: what the function computed from was written in place since, so its gradient cannot be "
                        "recorded any more; write into x.copy(), or write after backward(create_graph=True)"
                    )
                return self._pull_recorded(g, own, given)
            filled = list(handles)
            for i in self._at:
                filled[i] = conjugate(g)._handle
            if self._compiled is None:
                self._compiled = member(self.kernels.backend, "compile")(self.program)
            return [
                conjugate(wrap(Tensor, d, self.kernels, x.dtype, None))
                for d, x in zip(self._compiled(*filled), own, strict=True)
            ]

        return node_of(JIT, value, inputs, pull, versions=_versions(self._kept, flat))

    def _pull_recorded(self, g: Tensor, operands: list[Tensor], given: list[Any]) -> Sequence[Any]:
        """The program run on tensors that record, and swept: what can be differentiated again."""
        variables = [variable("jit", x, "an argument") for x in operands]
        filled = [wrap(Tensor, x, self.kernels, self.kernels.dtype(x), None) for x in given[: self.forward.inputs]]
        for i, x in zip(self.variables, variables, strict=True):
            if i is not None and i < len(filled):
                filled[i] = x
        with recording(True, variables[0]._kernels.depth):
            value = interpret(self.forward, filled, self.kernels)[self.output]
        create = records_at(value._kernels.depth)
        again = Linearized("jit", [value], variables, create)
        again.larger = create
        return again.pull([g])


def interpret(program: Program, tensors: Sequence[Any], kernels: Any) -> list[Any]:
    """The outputs of a program of tensors, recorded as any operations are."""
    values, k = list(tensors), Recorded.of(Tensor, kernels)
    for step in program.steps:
        op = TABLE[step.op]
        operands = [values[x.number] if isinstance(x, Ref) else x for x in step.operands]
        made = getattr(k, op.name)(*operands, **step.params)
        values.extend(made) if op.parts is not None else values.append(made)
    return [values[x.number] if isinstance(x, Ref) else x for x in program.outputs]


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


def _refs(change: tuple[str, Any, Any]) -> list[Ref]:
    """The values that one change takes."""
    kind, owner, new = change
    if kind == "kept":
        return [x for what, x in new.values() if what == "value"]
    if kind == "attribute" and new[0] == "value":
        raise TraceError(f"jit: the attribute {owner[1]!r} of a {type(owner[0]).__name__} becomes a tensor")
    return [new] if isinstance(new, Ref) else []


def _places(sources: list[tuple[Any, ...]]) -> list[Any]:
    """The tensors that inputs are, as `at` takes them."""
    found: list[Any] = [x[1] for x in sources if x[0] in ("tensor", "argument")]
    return found + [GradientOf(x[2]) for x in sources if x[0] == "grad"]


def _versions(places: list[Any], flat: list[Any]) -> list[Version]:
    """What notices that one of these tensors is written to."""
    return [storage(x).version() for x in (at(place, flat) for place in places) if x._record is None]


def _is_source(source: tuple[Any, ...], place: tuple[str, Any]) -> bool:
    return source[0] == place[0] and source[1] is place[1]


def _is_constant(trace: Trace, ref: Ref) -> bool:
    return trace.given(ref) and trace.sources[ref.number][0] == "constant"


def _has_grad(x: Tensor) -> Any:
    """Whether there is a gradient; something else where that, or what becomes of it, is special."""
    record = x._record
    if record.__class__ is not Leaf:
        return False
    if record.hooks or record.values is not None:
        return "hooks"
    grad = x._grad
    return grad is not None and (grad._record is None or "recorded")


def _sharing(tensors: list[Any], memory: bool) -> list[int]:
    """Which tensors are one, or share `memory`: where the first such is, for each; nothing if none do."""
    keys = [id(x._storage or x) for x in tensors] if memory else list(map(id, tensors))
    if len(set(keys)) == len(keys):
        return []
    first: dict[int, int] = {}
    return [first.setdefault(key, i) for i, key in enumerate(keys)]


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
