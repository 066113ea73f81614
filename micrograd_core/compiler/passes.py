"""Passes: small functions from program to program, which keep its numbers and leave fewer steps, or simpler ones.

A step that nothing wants, and one that is equal to an earlier one, vanish in each of them: `writer` sees to that.
With ``MICROGRAD_JIT_DUMP=1`` in the environment `optimized` prints the program after each pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import copysign, prod
from typing import Any, Final

from micrograd_core.compiler.lengths import Length, longest
from micrograd_core.compiler.program import Program, Ref, Step
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.compiler.views import role
from micrograd_core.compiler.writer import Unwritten, Writer, Written, rewritten
from micrograd_core.dtypes import bool_, int64
from micrograd_core.errors import MicrogradError
from micrograd_core.layout import Shape, broadcast_shapes, reduced_shape
from micrograd_core.ops import TABLE
from micrograd_core.ops.record import APART, CALL, NEST
from micrograd_core.ops.shared import is_scalar
from micrograd_core.support.dumping import dump
from micrograd_core.support.powers import POWERS


def expand(
    program: Program,
    covers: Callable[[str, tuple[Any, ...]], bool],
    stays: Collection[str] = (),
    missing: Collection[str] = (),
) -> Program:
    """Operations become the primitives that they are composed of; where one is missing, they stay calls.

    Parameters
    ----------
    covers : function
        Whether a line of a device's nests computes an operation, ``(name, operands)``.
    stays : names, optional
        Operations that stay calls though nests could compute them: a device's own kernels are better.
    missing : names, optional
        Operations that are taken apart though others call them: the device has no kernel for them.
    """

    def primitive(name: str, operands: tuple[Any, ...]) -> bool:
        return role(name, operands, covers) != CALL

    def rule(k: Writer, step: Step, operands: tuple[Any, ...], types: Sequence[TensorSpec]) -> Any:
        name, lowering = step.op, TABLE[step.op].lowering
        whole = len(types) > 1 and lowering != NEST
        arrays = [x for x in (*operands, types[0]) if not is_scalar(x)]
        if primitive(name, operands) or whole or any(x.dtype.is_complex for x in arrays):
            return None
        if name == "getitem_gradient":
            zeros = k.full(shape=types[0].shape, fill_value=0, dtype=types[0].dtype)
            name, operands = "scatter", (zeros, *operands)
        if name == "scatter" and primitive("where", operands[::-1]):
            k.kept = lambda name, operands: True
            return _placed(k, operands, step.params["key"], types[0].shape)
        lowering = APART if name in missing else lowering
        if lowering == CALL or name in stays:
            return None

        def kept(name: str, operands: tuple[Any, ...]) -> bool:
            if primitive(name, operands) or name in stays:
                return True
            called = TABLE[name].lowering == CALL and name not in missing
            if called and lowering != APART:
                raise Unwritten(f"{name} stays a call")
            return called

        k.kept = kept
        try:
            found = k.composed(name, operands, step.params)
        except (Unwritten, LookupError, AttributeError, TypeError, MicrogradError):  # it looks at numbers, or so
            return None
        made = found if isinstance(found, tuple) else (found,)
        same = len(made) == len(types) and all(isinstance(x, Written) for x in made)
        return found if same and all((x.shape, x.dtype) == type for x, type in zip(made, types, strict=True)) else None

    return rewritten(program, rule)


def _placed(k: Writer, operands: Sequence[Any], key: Sequence[Any], shape: Shape) -> Any:
    """A write at one place of an axis, and all of others, as a choice by counters, which fuses with what comes next."""
    x, values = operands
    if len(key) != len(shape) or not all(type(each) in (int, slice) for each in key):
        return None
    counters = [(axis, each) for axis, (each, n) in enumerate(zip(key, shape, strict=True)) if each != slice(0, n, 1)]
    if not isinstance(values, Written) or not counters or any(isinstance(each, slice) for _, each in counters):
        return None
    chosen: Any = None
    for axis, place in counters:
        along = tuple(n if i == axis else 1 for i, n in enumerate(shape))
        counter = k.broadcast_to(k.reshape(k.arange(shape[axis], dtype=int64), shape=along), shape=shape)
        here = k.equal(counter, place)
        chosen = here if chosen is None else k.bitwise_and(chosen, here)
    at = tuple(axis for axis, _ in counters)
    values = k.broadcast_to(values, shape=reduced_shape(shape, at, False))
    return k.where(chosen, k.broadcast_to(k.reshape(values, shape=reduced_shape(shape, at, True)), shape=shape), x)


def simplify(program: Program) -> Program:
    """Steps that return an operand as it is, for NaN, infinities and -0.0 too, are that operand."""
    made: dict[Ref, tuple[str, tuple[Any, ...]]] = {}

    def rule(k: Writer, step: Step, operands: tuple[Any, ...], types: Sequence[TensorSpec]) -> Any:
        found = _same(step, operands, made)
        if step.op == "pow" and is_scalar(operands[1]) and operands[1] in POWERS and types[0].dtype.is_floating:
            found = POWERS[operands[1]](k, operands[0])
        if found is None or (found.shape, found.dtype) != types[0]:
            found = k.step(step.op, operands, step.params, types)
            if isinstance(found, Written):
                made[found.ref] = step.op, operands
        return found

    return rewritten(program, rule)


NEUTRAL: Final[dict[str, Callable[[Any, int], bool]]] = {
    "multiply": lambda number, place: number == 1,
    "divide": lambda number, place: number == 1 and place == 1,
    "pow": lambda number, place: number == 1 and place == 1,
    "add": lambda number, place: number == 0 and (isinstance(number, int) or copysign(1.0, number) < 0),
    "subtract": lambda number, place: place == 1 and number == 0 and copysign(1.0, number) > 0,
}
"""Whether a number at a place changes nothing. ``-0.0 + 0.0`` is 0.0; integers have one zero."""


INVOLUTIONS: Final = frozenset(("negative", "bitwise_invert", "logical_not"))
"""What twice is nothing."""


def _same(step: Step, operands: tuple[Any, ...], made: dict[Ref, Any]) -> Any:
    x = operands[0] if operands else None
    if step.op in NEUTRAL:
        y = operands[1]
        for number, other, place in ((x, y, 0), (y, x, 1)):
            if is_scalar(number) and type(number) is not complex and isinstance(other, Written):
                plain = not (step.op == "add" and other.dtype.is_floating and isinstance(number, int))
                if plain and NEUTRAL[step.op](number, place):
                    return other
    if not isinstance(x, Written):
        return None
    if step.op == "copy" or (step.op == "astype" and step.params["dtype"] is x.dtype):
        return x
    name, before = made.get(x.ref, ("", ()))
    return before[0] if step.op == name and name in INVOLUTIONS else None


def constants(program: Program) -> Program:
    """A tensor of one known value, beside another operand, is the number."""
    numbers: dict[Ref, Any] = {}

    def rule(k: Writer, step: Step, operands: tuple[Any, ...], types: Sequence[TensorSpec]) -> Any:
        if step.op == "full":
            found = k.step(step.op, operands, step.params, types)
            numbers[found.ref] = step.params["fill_value"]
            return found
        if TABLE[step.op].view and operands[0].ref in numbers:
            number = numbers[operands[0].ref]
            found = k.full(shape=types[0].shape, fill_value=number, dtype=types[0].dtype)
            numbers[found.ref] = number
            return found
        if TABLE[step.op].kind == "elementwise" and len(operands) > 1:
            return k.step(step.op, _with_numbers(step.op, operands, numbers), step.params, types)
        return None

    return rewritten(program, rule)


def _with_numbers(op: str, operands: tuple[Any, ...], numbers: dict[Ref, Any]) -> tuple[Any, ...]:
    """The operands, tensors of one value as numbers where the others tell shape and dtype as before."""
    separate, chosen = TABLE[op].separate, list(operands)
    wanted = broadcast_shapes(op, *[x.shape for x in operands if isinstance(x, Written)])
    for i, x in enumerate(operands):
        if not isinstance(x, Written) or x.ref not in numbers or i in separate:
            continue
        others = [y for j, y in enumerate(chosen) if j != i and isinstance(y, Written)]
        decides = any(y.dtype is x.dtype for y in others if operands.index(y) not in separate)
        number = numbers[x.ref]
        if number.__class__ is not Length:
            number = bool(number) if x.dtype is bool_ else float(number) if x.dtype.is_floating else int(number)
        if decides and broadcast_shapes(op, *[y.shape for y in others]) == wanted:
            chosen[i] = number
    return tuple(chosen)


LARGE: Final = 500_000
"""Elements from which on a reduction of everything goes by rows first: threads share rows."""
ROWS: Final = 16
"""How many there are at least."""


def by_rows(program: Program) -> Program:
    """A reduction of all of a large array is one of each row, and one of the rows' results."""

    def rule(k: Writer, step: Step, operands: tuple[Any, ...], types: Sequence[TensorSpec]) -> Any:
        if not TABLE[step.op].combine:
            return None
        (x,), axis = operands, step.params["axis"]
        lengths, everything = [*map(longest, x.shape)], tuple(range(len(x.shape)))
        outer = next((i for i in everything[1:] if prod(lengths[:i]) >= ROWS), 0)
        if prod(lengths) < LARGE or not outer or prod(lengths[outer:]) < ROWS:
            return None
        if axis is not None and tuple(sorted(axis)) != everything:
            return None
        reduce = getattr(k, step.op)
        rows = reduce(x, axis=everything[outer:], keepdims=True)
        return reduce(rows, axis=everything, keepdims=step.params["keepdims"])

    return rewritten(program, rule)


def side_by_side(program: Program) -> Program:
    """Windows that neither overlap nor leave anything out, as those of most poolings, are a view."""

    def rule(k: Writer, step: Step, operands: tuple[Any, ...], types: Sequence[TensorSpec]) -> Any:
        if step.op not in ("patches", "patches_gradient"):
            return None
        (x,), kernel, params = operands, step.params["kernel_size"], step.params
        lanes, size, rank = x.shape[:2], params.get("size", x.shape[2:]), len(kernel)
        if params["stride"] != kernel or any(params["padding"]) or {*params["dilation"]} != {1}:
            return None
        if any(n % m for n, m in zip(size, kernel, strict=True)):
            return None
        if step.op == "patches":
            lengths = [each for n, m in zip(size, kernel, strict=True) for each in (n // m, m)]
            axes = (0, 1, *range(3, 3 + 2 * rank, 2), *range(2, 2 + 2 * rank, 2))
            return k.permute_dims(k.reshape(x, shape=(*lanes, *lengths)), axes=axes)
        axes = (0, 1, *[axis for i in range(2, 2 + rank) for axis in (rank + i, i)])
        return k.reshape(k.copy(k.permute_dims(x, axes=axes)), shape=(*lanes, *size))

    return rewritten(program, rule)


def apart(program: Program, original: Program) -> Program:
    """Outputs that were memory of their own in `original` are so again: not an input, and not each other."""
    owner, owner_before = _owners(program), _owners(original)
    taken, steps, outputs, types = set[int](), list(program.steps), list[Any](), list(program.types)
    for x, before in zip(program.outputs, original.outputs, strict=True):
        own = not isinstance(before, Ref) or owner_before[before.number] == before.number >= original.inputs
        if isinstance(x, Ref) and own:
            if owner[x.number] < program.inputs or owner[x.number] in taken:
                steps.append(Step("copy", (x,), {}))
                types.append(types[x.number])
                x = Ref(len(types) - 1)
            else:
                taken.add(owner[x.number])
        outputs.append(x)
    return Program(program.inputs, steps, outputs, types)


def _owners(program: Program) -> list[int]:
    """By value, the one in whose memory it may lie: an input, itself, or what it is a view of."""
    owner = [*range(program.inputs)]
    for step, made in program.numbered():
        first = step.operands[0] if step.operands else None
        owner += [owner[first.number] if TABLE[step.op].view and isinstance(first, Ref) else n for n in made]
    return owner


PASSES: Final[tuple[Callable[[Program], Program], ...]] = (constants, simplify, by_rows)


def optimized(
    program: Program,
    covers: Callable[[str, tuple[Any, ...]], bool],
    stays: Collection[str] = (),
    missing: Collection[str] = (),
) -> Program:
    """A typed program after all passes, for a device whose nests compute what it `covers`; the rest as of `expand`."""
    found = expand(program, covers, stays, missing)
    after = {"as traced": program, "expand": found}
    for each in (*PASSES, *(side_by_side,) * bool(missing)):  # other devices have kernels of poolings
        found = after[each.__name__] = each(found)
    after["apart"] = found = apart(found, program)
    dump(lambda: "\n".join(_told(after)))
    return found


def _told(after: Mapping[str, Program]) -> Iterator[str]:
    """A program after each pass, and what that is for; of one that changed nothing only that."""
    abouts = {each.__name__: each.__doc__ or "" for each in (expand, *PASSES, side_by_side, apart)}
    last = ""
    for name, program in after.items():
        about, text = abouts.get(name, "").partition("\n")[0], str(program)
        yield f"# {name}: {about}" if about else f"# {name}"
        yield text if text != last else "    (nothing changes)"
        last = text


def written(compose: Callable[..., Any], operands: Sequence[Any], params: dict[str, Any]) -> Program | None:
    """What a composition does, as a program; ``None`` where one is not possible, or the composition refuses.

    Parameters
    ----------
    compose : function
        ``(k, *operands, **params)`` → a value or a tuple of them, as compositions in the op table.
    operands : sequence
        A pair of shape and dtype stands for an array; numbers are as they are.
    """
    k = Writer(lambda name, operands: True)
    given = [k.input(TensorSpec(*x)) if isinstance(x, tuple) else x for x in operands]
    try:
        found = compose(k, *given, **params)
    except (Unwritten, LookupError, AttributeError, TypeError, ValueError, MicrogradError):
        return None
    return k.program(found if type(found) is tuple else (found,))
