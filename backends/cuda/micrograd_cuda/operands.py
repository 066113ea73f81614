"""What kernels ask of their operands, and the few ways to make them fit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from typing import Any

from micrograd_core.compiler.program import operation
from micrograd_core.layout import Shape
from micrograd_core.support.signatures import Parameters
from micrograd_cuda.geometry import Launch, Pieces, Place, axes_last, blocks, elementwise, instance, power_of_two
from micrograd_cuda.plans import planned
from micrograd_cuda.runtime import CuPyRuntime
from micrograd_cuda.units import ELEMENT, Unit

Kernel = Callable[..., Any]


def is_operation(name: str) -> bool:
    """Whether the op table has that name."""
    with suppress(KeyError):
        return bool(operation(name))
    return False


class Kernels:
    """Kernels over a namespace and a runtime: the methods that have the name of an operation.

    `before` are kernels that others have, by operation; `precision` says how matrices are multiplied.
    """

    def __init__(self, xp: Any, runtime: CuPyRuntime, before: dict[str, Kernel], precision: Callable[[], str]) -> None:
        self.xp, self.runtime, self.before, self.precision = xp, runtime, before.copy(), precision
        self.single = xp.result_type(xp.float32)
        runtime.owners[type(self)] = self

    def run(self, family: str, launch: Pieces, own: tuple[str, ...], *arguments: Any) -> None:
        """Launch the instance of a template; `own` are its arguments before those of the launch."""
        self.runtime.bind(instance(family, launch, *own))(launch.grid, arguments)

    def table(self) -> dict[str, Kernel]:
        """The kernels by operation."""
        return {name: getattr(self, name) for name in vars(type(self)) if is_operation(name)}

    def alignment(self, first: Any, *others: Any) -> int:
        """Bytes of which the addresses of all arrays are multiples, at most 16; as elements of the first."""
        found = [(power_of_two(self.runtime.address(x), 16), x.dtype.itemsize) for x in (first, *others)]
        return min(own if own == 16 else own * first.dtype.itemsize // size for own, size in found)

    def contiguous(self, x: Any) -> Any:
        """`x` itself, or a copy in C order."""
        return contiguous(self.runtime, x)

    def last(self, x: Any, axes: Shape) -> Any:
        """`x`, contiguous, with `axes` last; in their order."""
        order = axes_last(len(x.shape), axes)
        return self.contiguous(x if order == tuple(range(len(order))) else x.transpose(order))

    def wide(self, dtype: Any) -> Any:
        """The dtype in which elements of `dtype` are added up."""
        return dtype if name_of(dtype) == "float64" else self.single

    def neutral_or_array(self, x: Any, neutral: float, shape: Shape, dtype: Any) -> Any:
        """A parameter of this shape, contiguous; a null pointer for the number that changes nothing."""
        if is_number(x):
            return 0 if x == neutral else self.xp.full(shape, x, dtype=dtype)
        return self.contiguous(x if x.shape == shape else self.xp.broadcast_to(x, shape))

    def launch(self, unit: Unit, threads: int, *arguments: Any) -> None:
        """A unit along one axis of the grid, with a thread for each of so many."""
        self.runtime.bind(unit)((blocks(threads), 1), arguments)


@cache
def name_of(dtype: Any) -> str:
    """Of a dtype; NumPy's own attribute puts it together anew each time, which costs more than a launch."""
    return str(dtype.name)


def element(x: Any) -> str:
    """What the sources call the dtype of an array of floats."""
    return ELEMENT[name_of(x.dtype)]


def of_elements(kernel: Kernel) -> Kernel:
    """A method for the dtypes of `ELEMENT`; ``NotImplemented`` for others, which the op table composes."""
    parameters = Parameters.of(kernel)
    assert parameters is not None, kernel
    line = f"return _kernel({parameters.given()}) if _name_of({parameters.positional[1]}.dtype) in _known else _not"
    known = {"_kernel": kernel, "_name_of": name_of, "_known": ELEMENT, "_not": NotImplemented}
    return wraps(kernel)(parameters.function([line], known))


def planned_of_elements(kernel: Kernel) -> Kernel:
    """A method `of_elements`, called by plan."""
    return planned(of_elements(kernel))


def launched(runtime: CuPyRuntime, found: Launch, out: Any, *arguments: Any) -> Any:
    """Fill `out` by a launch whose last argument is a struct, where there is anything to fill."""
    if out.size:
        given = out, *arguments, runtime.struct(found.numbers, found.counter)
        runtime.bind(found.unit)((blocks(found.threads), 1), given)
    return out


def place(runtime: CuPyRuntime, x: Any) -> Place:
    """Where an array lies, for the geometry."""
    itemsize = x.dtype.itemsize
    return Place(x.shape, tuple(stride // itemsize for stride in x.strides), power_of_two(runtime.address(x), 16))


def is_number(x: Any) -> bool:
    """A Python number that a floating dtype takes."""
    return x.__class__ is float or x.__class__ is int


def copied(runtime: CuPyRuntime, x: Any) -> Any:
    """A copy in C order, of floats by an own kernel."""
    name = name_of(x.dtype)
    found = elementwise("Copy", name, "", (place(runtime, x),)) if name in ELEMENT and x.size else None
    return x.copy() if found is None else launched(runtime, found, runtime.empty(x.shape, x.dtype), x)


def contiguous(runtime: CuPyRuntime, x: Any) -> Any:
    """`x` itself, or a copy in C order."""
    return x if x.flags.c_contiguous else copied(runtime, x)
