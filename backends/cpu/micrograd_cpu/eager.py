"""Operations as compiled nests, one by one: what `jit` does for programs, for those that are worth it alone.

A kernel here is made from a composition. It is compiled once for all sizes: the program is planned with symbolic
lengths (`compiler.lengths`), whose values the nests load from memory. Which numbers come out is decided by shapes,
dtypes and layouts alone: small arrays, those of other dtypes, and what no nest computes go to another kernel, always.
"""

from __future__ import annotations

import ctypes
import sys
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from inspect import unwrap
from typing import Any, Final, NamedTuple

import numpy as np

from micrograd_core.compiler.lengths import Axis, Length, actual
from micrograd_core.compiler.nests import compositions_of_nests
from micrograd_core.dtypes import DTYPES
from micrograd_core.errors import ShapeError
from micrograd_cpu.half import rounding_once

Kernel = Callable[..., Any]
Compose = Callable[..., Any]

COMPILES: Final = find_spec("llvmlite") is not None
SMALL: Final = 1 << 14
"""Elements below which NumPy's kernels are left alone: they take less than 0.1 ms, and a compiler 50 MB of memory.

What NumPy has no function for is a nest at every size.
"""
KINDS: Final = 512
"""Shapes, layouts and parameters that are remembered of a kernel."""
TIERS: Final = (1, 256, 2048, 8192, sys.maxsize)
"""Lengths above one of these, up to the next, share a text: rows that fit the nearest cache are computed otherwise."""
FLOATS: Final = ("float32", "float64")
SHARED: Final = 250_000
"""Elements, weighed as `compiled.work` does, from which on threads share a nest: helpers look for work between two."""
OTHERS: Final = tuple([name for name, dtype in DTYPES.items() if dtype.is_integer])
"""Of what stands beside them: indices, and words that say where in a stream random numbers begin."""


def operation(name: str) -> Compose:
    """An operation of the op table as a composition of itself: passes take it apart."""
    return lambda k, *operands, **params: getattr(k, name)(*operands, **params)


def declines(*operands: Any, **params: Any) -> Any:
    """The kernel of what the core's composition computes."""
    return NotImplemented


def compiled(compose: Compose, otherwise: Kernel, always: bool = False) -> Kernel:
    """A kernel that computes a composition in nests, and leaves to another what these do not cover.

    Parameters
    ----------
    always : bool, optional
        Whether small arrays have a nest, too: one of what takes NumPy dozens of passes.
    """
    if not COMPILES:
        return otherwise
    array, large, plain = np.ndarray, _runs(partial(specialised, compose), otherwise), unwrap(otherwise)

    def kernel(*operands: Any, **params: Any) -> Any:
        if always and isinstance(operands[0], (np.float32, np.float64)):  # arrays without axes
            operands = tuple([np.asarray(y) if isinstance(y, np.floating) else y for y in operands])
        x = operands[0]
        if x.__class__ is not array:
            return otherwise(*operands, **params)
        if x.size >= SMALL or always:
            return large(operands, params)
        return (plain if x.itemsize > 2 else otherwise)(*operands, **params)

    return kernel


def _runs(make: Callable[..., Any], otherwise: Kernel) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """What runs nests on operands and parameters: what `make` makes for each kind of them, or the other kernel."""
    runs: dict[Any, Kernel] = {}
    array = np.ndarray

    def large(operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        key = (
            *params.values(),
            *[(y.shape, y.strides, y.dtype.char) if y.__class__ is array else (y.__class__, repr(y)) for y in operands],
        )
        run = runs.get(key)
        if run is None:
            if len(runs) >= KINDS:
                runs.clear()
            run = runs[key] = make(operands, params) or otherwise
        return run(*operands, **params)

    return large


@cache
def fused(compose: Compose) -> Kernel:
    """The kernel of a function of the core, such as an optimiser's rule: of large arrays only."""
    return compiled(compose, declines)


def reduction(name: str) -> Kernel:
    """A reduction of large arrays that lie in order; ``NotImplemented`` for others."""
    reduce = compiled(operation(name), declines)
    return lambda x, **params: reduce(x, **params) if x.flags.c_contiguous else NotImplemented


def layer_norm_gradients() -> Kernel:
    """A nest by rows for the input, which keeps their means and scales, and one by columns for weight and bias.

    As one composition they would pass products to each other, as many as there are elements.
    """

    def by_rows(k: Any, g: Any, x: Any, weight: Any, *, axis: tuple[int, ...], eps: float) -> Any:
        mean = k.mean(x, axis=axis, keepdims=True)
        scale = k.divide(1, k.sqrt(k.add(k.mean(k.square(k.subtract(x, mean)), axis=axis, keepdims=True), eps)))
        return k.standardize_gradient(g, x, weight, axis=axis, eps=eps), mean, scale

    def by_columns(k: Any, g: Any, x: Any, mean: Any, scale: Any, *, axis: tuple[int, ...]) -> Any:
        others = tuple(range(len(x.shape) - len(axis)))
        y = k.multiply(k.subtract(x, mean), scale)
        return k.sum(k.multiply(g, y), axis=others, keepdims=False), k.sum(g, axis=others, keepdims=False)

    rows, columns = (_runs(partial(specialised, each), declines) for each in (by_rows, by_columns))

    def kernel(g: Any, x: Any, weight: Any, *, axis: tuple[int, ...], eps: float) -> Any:
        if x.__class__ is np.ndarray and x.ndim > len(axis):
            found = rows((g, x, weight), {"axis": axis, "eps": eps})
            if found is not NotImplemented:
                by_x, mean, scale = found
                sums = columns((g, x, mean, scale), {"axis": axis})
                if sums is not NotImplemented:
                    return by_x, *sums
        return NotImplemented

    return kernel


GRADIENTS: Final = {"layer_norm_gradients": layer_norm_gradients}
"""Those with a program of their own."""


def kernels(others: Mapping[str, Kernel]) -> dict[str, Kernel]:
    """Those that records say are nests. Of `others` small arrays have one, too."""
    if not COMPILES:
        return {}
    nests = {name: operation(name) for name in compositions_of_nests()}
    small = {name: compiled(compose, others[name]) for name, compose in nests.items() if name in others}
    alone = {name: compiled(compose, declines, always=True) for name, compose in nests.items() if name not in others}
    alone |= {name: kernel() for name, kernel in GRADIENTS.items()}
    return small | {name: rounding_once(kernel) for name, kernel in alone.items()}


# ── from a call to a run of nests ────────────────────────────────────────────────────────────────────────────


class Made(NamedTuple):
    """Nests of a program with symbolic lengths, as text."""

    plan: Any
    text: str
    sizes: tuple[Length, ...]
    """What the text reads from memory."""


AWAITED: Final[list[Callable[[], None]]] = []
"""Who waits for the first nest: from then on there is a compiler."""
_FUNCTIONS: Final[dict[str, Any]] = {}
"""By text, for as long as the process lives."""
_MADE: Final[dict[Any, Made | None]] = {}
"""By composition, parameters, dtypes, layouts, and shapes: many lengths are of the same kind."""


def specialised(compose: Compose, operands: Sequence[Any], params: dict[str, Any]) -> Kernel | None:
    """The function for arrays of these shapes, dtypes and layouts, if nests compute it."""
    from micrograd_cpu.entries import compiles

    arrays = [x for x in operands if isinstance(x, np.ndarray)]
    plain = all(type(x) in (np.ndarray, bool, int, float) for x in operands)
    lengths = [*dict.fromkeys([n for x in arrays for n in x.shape if n != 1])]
    if not plain or 0 in lengths or any(x.dtype.name not in (*FLOATS, *OTHERS) for x in arrays) or not compiles():
        return None
    named = {n: _symbolic(i, n) for i, n in enumerate(lengths)}
    given = [
        (tuple([named.get(n, 1) for n in x.shape]), DTYPES[x.dtype.name], _laid(x)) if isinstance(x, np.ndarray) else x
        for x in operands
    ]
    kind = (compose, *params.items(), *[x if isinstance(x, tuple) else repr(x) for x in given])
    from micrograd_cpu.objects import PLANNING

    with PLANNING:
        if kind not in _MADE:
            if len(_MADE) >= KINDS:
                _MADE.clear()
            try:
                _MADE[kind] = _made(compose, given, params)
            except (ShapeError, TypeError):  # something else depends on a length
                _MADE[kind] = None
        made = _MADE[kind]
        if made is None:
            return None
        if made.text not in _FUNCTIONS:
            _FUNCTIONS[made.text] = _functions(made)
        waiting = [AWAITED.pop() for _ in range(len(AWAITED))]
    for tell in waiting:
        tell()
    return _run(made, _FUNCTIONS[made.text], lengths, operands)


def _symbolic(number: int, n: int) -> Length:
    """A length of which only the tier is known."""
    tier = bisect_left(TIERS, n)
    return Length([Axis(number, TIERS[tier - 1] + 1, TIERS[tier])])


def _laid(x: Any) -> str:
    """How an array lies: everything else is copied first."""
    if x.flags.c_contiguous:
        return "contiguous"
    return "repeated" if not any(x.strides) else "copied"


def _made(compose: Compose, given: Sequence[Any], params: dict[str, Any]) -> Made | None:
    from micrograd_core.compiler.fusion import Run, plan
    from micrograd_core.compiler.passes import optimized, written
    from micrograd_core.compiler.program import Ref
    from micrograd_core.layout import Layout
    from micrograd_cpu.entries import arrays, share
    from micrograd_cpu.llvm import module
    from micrograd_cpu.scalars import covers

    layouts = [
        Layout(shape, (0,) * len(shape), 0) if laid == "repeated" else Layout.contiguous(shape)
        for shape, _, laid in (x for x in given if isinstance(x, tuple))
    ]
    found = written(compose, [x[:2] if isinstance(x, tuple) else x for x in given], params)
    if found is None:
        return None
    planned = plan(optimized(found, covers), layouts, covers)
    runs = [step for step in planned.steps if isinstance(step, Run)]
    if len(runs) < len(planned.steps) or not all(isinstance(x, Ref) for x in planned.outputs):
        return None
    sizes = dict[Length, int]()
    shares = [share(f"share{i}", f"nest{i}", arrays(step), ", ptr %sizes") for i, step in enumerate(runs)]
    text = "\n".join([module([step.nest for step in runs], sizes), *shares])
    return Made(planned, text, tuple(sizes))


def _functions(made: Made) -> list[Any]:
    """Of each nest, what computes a range of its units, and what computes some while ranges are left."""
    from micrograd_cpu.entries import arrays, function_of_range, function_of_share
    from micrograd_cpu.objects import library

    names = [f"share{i}" for i in range(len(made.plan.steps))]
    held = library(made.text, [*names, *(f"{name}.part" for name in names)])
    return [
        (function_of_range(held, f"{name}.part", arrays(step), ctypes.c_void_p), function_of_share(held, name))
        for name, step in zip(names, made.plan.steps, strict=True)
    ]


def _run(made: Made, functions: Sequence[Any], named: Sequence[int], operands: Sequence[Any]) -> Kernel:
    """What is called, for arrays of the very shapes and layouts of `operands`.

    It is printed, as in `compiled`: a loop over steps and operands would take as long as the calls themselves.
    """
    from micrograd_cpu.compiled import work
    from micrograd_cpu.llvm import tiles, units
    from micrograd_cpu.threads import ranges_of, together

    def lengths(values: Sequence[Any]) -> tuple[int, ...]:
        return tuple([actual(x, named) for x in values])

    sizes = (ctypes.c_int64 * max(len(made.sizes), 1))(*lengths(made.sizes))
    scope: dict[str, Any] = {"empty": np.empty, "array": np.array, "together": together, "sizes": sizes}
    scope["where"] = ctypes.addressof(sizes)
    names = [f"x{i}" for i in range(len(operands))]
    arrays = [name for name, x in zip(names, operands, strict=True) if isinstance(x, np.ndarray)]
    value = dict(enumerate(arrays))
    lines = [
        f"{name} = array({name}, order='C')"
        for name, x in zip(names, operands, strict=True)
        if isinstance(x, np.ndarray) and _laid(x) == "copied"
    ]
    for i, (step, (part, share)) in enumerate(zip(made.plan.steps, functions, strict=True)):
        nest = step.nest._replace(kept=lengths(step.nest.kept), reduced=lengths(step.nest.reduced))
        for n, type in zip(step.outputs, step.types, strict=True):
            value[n] = f"v{n}"
            scope[f"s{n}"], scope[f"d{n}"] = lengths(type.shape), np.dtype(type.dtype.name)
            lines.append(f"v{n} = empty(s{n}, d{n})")
        given = ", ".join(value[n] for n in (*step.inputs, *step.outputs))
        count = units(nest, tiles(step.nest))
        if count > 1 and work(nest) >= SHARED:
            scope[f"f{i}"] = share
            lines.append(f"together(f{i}, {count}, {ranges_of(work(nest))}, where, {given})")
        else:
            scope[f"f{i}"] = part
            lines.append(f"f{i}(0, {count}, where, {given})")
    results = [value[x.number] for x in made.plan.outputs]
    lines.append(f"return {results[0]}" if len(results) == 1 else f"return {', '.join(results)}")
    exec("\n    ".join([f"def run({', '.join(names)}, **params):", *lines]), scope)
    found: Kernel = scope["run"]
    return found
