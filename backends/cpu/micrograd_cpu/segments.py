"""Steps of a plan that are one call: nests, and products of matrices by BLAS, in a row.

What only they see of each other is in one piece of memory, the arena, where each value has a place for as long as it is
needed. A transpose is no step: the product is told of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from micrograd_core.compiler.fusion import Call, Plan, Run, plan
from micrograd_core.compiler.nests import neighbours
from micrograd_core.compiler.program import Program, Ref, Step, typed
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.compiler.views import is_view, viewed
from micrograd_core.layout import Layout
from micrograd_cpu.llvm import units
from micrograd_cpu.products import ALONE, FEW, PACKED
from micrograd_cpu.scalars import covers

STEPS: Final = 256
"""Steps of a segment at most: the function that calls them takes more than linear time to compile."""
ALIGNED: Final = 64
"""Bytes: where values in an arena begin."""
NEAR: Final = 1 << 16
"""Elements of a matrix which may be expected in a cache: BLAS is quicker then."""


class Matrix(NamedTuple):
    """A value as BLAS takes it: from an element on; rows, or columns where it is `transposed`, are `step` apart.

    Along each axis of a stack of matrices they are so many elements apart as `jumps` says.
    """

    value: int
    offset: int
    transposed: bool
    step: int
    jumps: tuple[int, ...] = ()


class Product(NamedTuple):
    """``result = left @ right``, with the sizes m, n, k; of each pair in a `stack`, whose axes have these lengths."""

    outputs: tuple[int]
    types: tuple[TensorSpec]
    left: Matrix
    right: Matrix
    sizes: tuple[int, int, int]
    stack: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple[int, int]:
        """The values that it takes."""
        return self.left.value, self.right.value

    @property
    def routine(self) -> str:
        """Which one of BLAS computes it: that of a matrix and a vector copies no matrix."""
        return routine(self.sizes)


class Segment(NamedTuple):
    """Steps that are one call. It takes the arrays of its inputs, fresh ones for its outputs, and the arena.

    `types` are those of its results; `places` says where in the arena, of `size` bytes, values are.
    """

    steps: tuple[Run | Product, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    types: tuple[TensorSpec, ...]
    places: dict[int, int]
    size: int


Planned = Call | Run | Product | Segment


def segments(
    plan: Plan,
    inputs: Sequence[tuple[Layout, TensorSpec]],
    alone: Callable[[Run | Product], bool],
    multiplies: Callable[[TensorSpec], bool],
) -> list[Planned]:
    """The steps of a plan, those in segments that may be.

    Parameters
    ----------
    inputs : sequence of (Layout, TensorSpec)
        How they lie in memory, each from its own first element, and what they are.
    alone : function
        Whether a nest, or a stack of products, is to be called for itself: threads share it.
    multiplies : function
        Whether there is BLAS for a value.
    """
    lies = {n: (n, layout) for n, (layout, _) in enumerate(inputs)}  # whose memory a value is in, and where
    types = {n: spec for n, (_, spec) in enumerate(inputs)}
    steps: list[Call | Run | Product] = []
    for step in plan.steps:
        numbers = makes(step)
        types.update(zip(numbers, step.types, strict=True))
        product = _product(step, lies, types) if isinstance(step, Call) and multiplies(step.types[0]) else None
        view = _view(step, lies) if isinstance(step, Call) else None
        if view is not None:
            lies[numbers[0]] = view
        elif isinstance(step, Run) or product is not None or plan.contiguous.issuperset(numbers):
            lies.update((n, (n, Layout.contiguous(types[n].shape))) for n in numbers)
        steps.append(product or step)
    return _grouped(_without_views(steps, plan, lies), plan, alone)


def _view(step: Call, lies: dict[int, tuple[int, Layout]]) -> tuple[int, Layout] | None:
    """Where the elements of a view lie, which a call would make."""
    if not is_view(step.op) or not isinstance(x := step.operands[0], Ref) or x.number not in lies:
        return None
    base, layout = lies[x.number]
    found = viewed(layout, SimpleNamespace(op=step.op, shape=step.types[0].shape, params=step.params))  # type: ignore[arg-type]
    return None if found is None else (base, found)


def _product(step: Call, lies: dict[int, tuple[int, Layout]], types: dict[int, TensorSpec]) -> Product | Run | None:
    """A call as products that BLAS computes, if it is such."""
    (made,) = step.types if len(step.types) == 1 else (None,)
    if step.op != "matmul" or made is None or len(made.shape) < 2 or 0 in made.shape:
        return None
    found = []
    for x in step.operands:
        if not isinstance(x, Ref) or x.number not in lies or types[x.number].dtype is not made.dtype:
            return None
        base, layout = lies[x.number]
        if len(layout.shape) < 2 or 0 in layout.shape:
            return None
        found.append((base, layout))
    (x, left), (y, right) = found
    stack = made.shape[:-2]
    if stack and len(right.shape) == 2:  # one product, where all rows are as far apart
        rows = left.reshape((math.prod(left.shape[:-1]), left.shape[-1]))
        left, stack = (left, stack) if rows is None else (rows, ())
    (m, k), n = left.shape[-2:], right.shape[-1]
    if stack and m * n * k > ALONE[0]:
        return None
    near = right if m <= n else left.permute((1, 0))
    vectors = routine((m, n, k)) == "gemv" and m * n * k > NEAR and near.strides[0] == 1
    if vectors and not (stack or left.offset or right.offset):
        rows = Layout((m, 1, k), (left.strides[0], 0, left.strides[1]), 0)
        return _sums(step, (x, y), (rows, right.permute((1, 0))))
    layouts = left.broadcast_to((*stack, m, k)), right.broadcast_to((*stack, k, n))
    axes = neighbours(stack, [each.strides[:-2] for each in layouts])
    x_matrix, y_matrix = (
        _matrix(base, layout, tuple([layout.strides[group[-1]] for group in axes]))
        for base, layout in zip((x, y), layouts, strict=True)
    )
    if x_matrix is None or y_matrix is None:
        return None
    lengths = tuple([math.prod([stack[axis] for axis in group]) for group in axes])
    return Product((step.results[0],), (made,), x_matrix, y_matrix, (m, n, k), lengths)


def _sums(step: Call, values: tuple[int, int], layouts: tuple[Layout, Layout]) -> Run | None:
    """Few vectors times a matrix as a nest: BLAS does not read rows in order, from memory at a third of the pace."""
    specs = [TensorSpec(each.shape, step.types[0].dtype) for each in layouts]
    steps = Step("multiply", (Ref(0), Ref(1)), {}), Step("sum", (Ref(2),), {"axis": (2,), "keepdims": False})
    (made,) = plan(typed(Program(2, steps, (Ref(3),)), specs), layouts, covers).steps
    if isinstance(made, Call):
        return None
    return made._replace(inputs=tuple([values[n] for n in made.inputs]), outputs=step.results, types=step.types)


def _matrix(base: int, layout: Layout, jumps: tuple[int, ...]) -> Matrix | None:
    (rows, columns), (down, across) = layout.shape[-2:], layout.strides[-2:]
    if (across == 1 or columns == 1) and (down >= columns or rows == 1):
        return Matrix(base, layout.offset, False, max(down, columns) if rows > 1 else columns, jumps)
    if (down == 1 or rows == 1) and (across >= rows or columns == 1):
        return Matrix(base, layout.offset, True, max(across, rows) if columns > 1 else rows, jumps)
    return None


def reads(step: Planned) -> tuple[int, ...]:
    """The values that a step takes."""
    return tuple([x.number for x in step.operands if isinstance(x, Ref)]) if isinstance(step, Call) else step.inputs


def makes(step: Planned) -> tuple[int, ...]:
    """The values that a step gives."""
    return step.results if isinstance(step, Call) else step.outputs


def _without_views(
    steps: Sequence[Call | Run | Product], plan: Plan, lies: dict[int, tuple[int, Layout]]
) -> list[Call | Run | Product]:
    """The steps without the views that only products read, which know of them."""
    wanted = {x.number for x in plan.outputs if isinstance(x, Ref)}
    kept: list[Call | Run | Product] = []
    for step in reversed(steps):
        made = makes(step)
        is_view = isinstance(step, Call) and lies.get(made[0], made)[0] != made[0]
        if not is_view or not wanted.isdisjoint(made):
            wanted.update(reads(step))
            kept.append(step)
    return kept[::-1]


def _grouped(
    steps: Sequence[Call | Run | Product], plan: Plan, alone: Callable[[Run | Product], bool]
) -> list[Planned]:
    groups: list[Any] = [[]]  # the first looks at the inputs, too
    for step in steps:
        if isinstance(step, Call) or alone(step):
            groups += [step, []]
        else:
            if len(groups[-1]) == STEPS:
                groups.append([])
            groups[-1].append(step)
    groups[1:] = [each for each in groups[1:] if each != []]
    wanted = {x.number for x in plan.outputs if isinstance(x, Ref)}
    found: list[Planned] = []
    for group in reversed(groups):
        found.append(_segment(group, wanted) if isinstance(group, list) else group)
        wanted.update(reads(found[-1]))
    return found[::-1]


def _segment(steps: Sequence[Run | Product], wanted: set[int]) -> Segment:
    """Steps in a row as one, of whose results others want some."""
    types = {n: type for step in steps for n, type in zip(makes(step), step.types, strict=True)}
    given = tuple(dict.fromkeys(n for step in steps for n in reads(step) if n not in types))
    last = {n: i for i, step in enumerate(steps) for n in (*makes(step), *reads(step))}
    places: dict[int, int] = {}
    there: list[tuple[int, int, int]] = []  # from where to where, and until which step
    whole = 0
    for i, step in enumerate(steps):
        there = [each for each in there if each[2] >= i]
        for n in makes(step):
            if n not in wanted:
                size = -(-math.prod(types[n].shape) * types[n].dtype.itemsize // ALIGNED) * ALIGNED
                places[n] = start = _gap(there, size)
                whole = max(whole, start + size)
                there = sorted([*there, (start, start + size, last[n])])
    fresh = {n: type for n, type in types.items() if n in wanted}
    return Segment(tuple(steps), given, tuple(fresh), tuple(fresh.values()), places, whole)


def _gap(there: Sequence[tuple[int, int, int]], size: int) -> int:
    """The first place that is free."""
    start = 0
    for begin, end, _ in there:
        if begin - start >= size:
            break
        start = max(start, end)
    return start


def count(step: Run | Product) -> int:
    """How many units a step has, which threads may share: those of a nest, or pairs of matrices."""
    if isinstance(step, Run):
        return units(step.nest)
    return math.prod(step.stack)


def routine(sizes: tuple[int, int, int]) -> str:
    """Which of BLAS computes a product of these `m`, `n` and `k`: ``gemv`` for few vectors, else ``gemm``."""
    few = min(sizes[:2])
    return "gemv" if few == 1 or (few <= FEW and math.prod(sizes) > PACKED) else "gemm"


def empty(step: Run | Product) -> bool:
    """Whether a step has nothing to do."""
    return not count(step) or all(math.prod(x.shape) == 0 for x in step.types)
