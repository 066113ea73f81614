"""Plans: what a function of arrays allocates and launches, kept, so that the next call does that and decides nothing.

The second call that is alike is recorded: the same code runs over a `Recorder`, a runtime that notes what it is asked
for. A plan is those notes as a function of the operands. Calls are alike where all is that kernels may decide by: the
function, numbers and other parameters with their classes, matmul's precision, and of each array dtype, shape, strides
and the address modulo 16. Nothing else is in a plan, and everything else is asked anew: memory, the stream, whether it
captures, cuBLAS's handle, what memory a counter has.

What cannot be told so is not kept, and is decided at each call: where a function of the array library computes, or two
operands are one array, or memory is used of which it is not known whose it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial, wraps
from inspect import unwrap
from typing import Any, Final

from micrograd_core.layout import Shape
from micrograd_core.support.signatures import Parameters

MOST_PLANS: Final = 8192
"""Beyond that they are forgotten, all at once; so are calls that were seen without one, and launches by shape."""
VIEWS: Final = ("broadcast_to", "result_type")
"""Functions of the array library that compute nothing."""


def keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    """As one of at most `MOST_PLANS`."""
    if len(kept) >= MOST_PLANS:
        kept.clear()
    kept[key] = value


def planned(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a class of kernels, that is a function of its operands and launches: called by plan."""
    parameters = Parameters.of(unwrap(method))
    assert parameters is not None, method
    _, *operands = parameters.positional
    every, params = [*operands, *parameters.keyword], ", ".join(f"{name!r}: {name}" for name in parameters.keyword)
    facts = ", ".join(
        f"({x}.dtype, {x}.shape, {x}.strides, _address({x}) & 15) if {x}.__class__ is _plans.array "
        f"else ({x}.__class__, {x} if {x} and {x} == {x} else str({x}))"  # -0.0 is not 0.0, and NaN is NaN
        for x in every
    )
    given, called = parameters.given(), ", ".join(operands)
    lines = (
        "_plans = self.runtime.plans",
        f"if _plans is None: return _method({given})",  # it is being recorded, as part of another
        "_address = _plans.address",
        f"_key = (_method, self.__class__, _plans.precision(), {facts})",
        "_plan = _plans.kept.get(_key)",
        f"if _plan is not None: return _plan({called})",
        f"return _plans.without(self, _method, _key, ({called}{',' * (len(operands) == 1)}), {{{params}}})",
    )
    return wraps(method)(parameters.function(lines, {"_method": method}))


class Plans:
    """Those of one device."""

    def __init__(self, runtime: Any) -> None:
        self.runtime, self.array, self.address = runtime, runtime.array, runtime.address
        self.kept: dict[Any, Callable[..., Any]] = {}
        self.precision: Callable[[], str] = lambda: "highest"
        self.kernels: Callable[[Any], Any] = lambda recorder: None
        """Makes all kernels once more, over a recorder."""
        self._seen: dict[Any, bool] = {}  # calls without a plan; whether one may be made
        self._lock = threading.Lock()
        self._recorder: Recorder | None = None

    def forget(self) -> None:
        """Drop all plans."""
        self.kept.clear()
        self._seen.clear()

    def without(self, owner: Any, method: Any, key: Any, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The result of a call for which there is no plan; the second time one is made, if that can be."""
        seen, arrays = self._seen.get(key), [x for x in operands if x.__class__ is self.array]
        if seen is None:
            keep(self._seen, key, True)
        alike = len({*map(id, arrays)}) < len(arrays)  # which of them an address is of nobody could tell
        if not seen or alike or not self._lock.acquire(blocking=False):
            return method(owner, *operands, **params)
        try:  # by the method of an object of the same class that knows the recorder only
            recorder = self._recorder = self._recorder or Recorder(self.runtime, self.kernels)
            recorder.start(operands)
            result = method(recorder.owners[type(owner)], *operands, **params)
            plan = recorder.finished(result, lambda *operands: method(owner, *operands, **params))
        finally:
            if self._recorder is not None:
                self._recorder.start(())  # nothing is kept alive
            self._lock.release()
        if plan is None:
            self._seen[key] = False
        else:
            keep(self.kept, key, plan)
            self._seen.pop(key, None)
        return result


class Recorder:
    """A runtime that does what it is asked for, and notes it: as lines of a function of ``x0``, ``x1``."""

    plans = None
    remembered = None  # it is of arrays, not of how they lie

    def __init__(self, runtime: Any, kernels: Callable[[Recorder], Any]) -> None:
        self._runtime, self.array, self.capability = runtime, runtime.array, runtime.capability
        self.address, self.struct, self.view = runtime.address, runtime.struct, runtime.view
        products = runtime.gemm, runtime.biased_gemm, runtime.convolve
        self.gemm, self.biased_gemm, self.convolve = (partial(self._noted, each) for each in products)
        self.owners: dict[type, Any] = {}
        self.start(())
        kernels(self)

    def start(self, operands: Sequence[Any]) -> None:
        """Of a call: nothing is noted yet."""
        self.fit, self._given = True, tuple([f"x{i}" for i in range(len(operands))])
        self._arrays = [(f"x{i}", x) for i, x in enumerate(operands) if x.__class__ is self.array]
        self._lines: list[str] = []
        self._shapes: dict[str, str] = {}  # of arrays made here, under which name they are known
        self._known = {name: getattr(self._runtime, name) for name in ("empty", "counter", "address", "view")}

    def _constant(self, x: Any) -> str:
        if x.__class__ is int:
            return repr(x)
        name = f"c{len(self._known)}"
        self._known[name] = x
        return name

    def _place(self, x: Any) -> tuple[str, int]:
        """Whose memory the array is in, and how many bytes from the first element."""
        for name, known in self._arrays:
            if known is x:
                return name, 0
        at, address = self.address(x), self.address
        # Among their elements, or between them.
        near = [each for each in self._arrays if x.size and at in range(*span(each[1], address))]
        self.fit &= len(near) == 1
        return (near[0][0], at - address(near[0][1])) if len(near) == 1 else ("x0", 0)

    def _at(self, x: Any) -> str:
        """The address of an array, of a plan's call."""
        name, offset = self._place(x)
        return f"address({name})" + (f" + {offset}" if offset else "")

    def _argument(self, x: Any) -> str:
        """Of a launch."""
        if x.__class__ is not self.array:
            return self._constant(x)
        name, offset = self._place(x)
        return self._at(x) if offset else name

    # what kernels ask for

    def empty(self, shape: Shape, dtype: Any) -> Any:
        """As the runtime, which it asks."""
        made, name = self._runtime.empty(shape, dtype), f"o{len(self._arrays)}"
        self._arrays.append((name, made))
        self._shapes[name] = self._constant(made.shape)
        self._lines.append(f"{name} = empty({self._shapes[name]}, {self._constant(made.dtype)})")
        return made

    def bind(self, unit: Any) -> Callable[..., None]:
        """A launch, noted."""
        return partial(self._launched, self._runtime.bind(unit))

    def _launched(self, launch: Callable[..., None], grid: tuple[int, int], arguments: tuple[Any, ...]) -> None:
        given = ", ".join(map(self._argument, arguments))
        self._lines.append(f"{self._constant(launch)}({self._constant(grid)}, ({given},))")
        launch(grid, arguments)

    def counter(self) -> Any:
        """Asked for anew by each call."""
        made, name = self._runtime.counter(), f"o{len(self._arrays)}"
        self._arrays.append((name, made))
        self._lines.append(f"{name} = counter()")
        return made

    def _noted(self, asked: Callable[..., Any], *call: Any) -> Any:
        """A product or a convolution, as a function of arrays; where the library refuses it, all is decided again."""
        function = asked(*call)

        def noted(*arrays: Any) -> Any:
            given, anew = (", ".join(each) for each in (map(self._at, arrays), self._given))
            self._lines.append(f"if {self._constant(function)}({given}) is False: return plain({anew})")
            done = function(*arrays)
            self.fit &= done is not False
            return done

        return None if function is None else noted

    def watched(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function of the array library; whoever has it compute cannot be recorded."""
        self.fit = False
        return function(*args, **kwargs)

    # the plan

    def finished(self, result: Any, plain: Callable[..., Any]) -> Any:
        """The function; ``None`` where there is none. `plain` decides."""
        several, results = result.__class__ is tuple, list[str]()
        for x in result if several else (result,):
            results.append(self._result(x, results))
        if not self.fit:
            return None
        given = f"({', '.join(results)},)" if several else results[0]
        parameters = Parameters(self._given, (), {})
        return parameters.function([*self._lines, f"return {given}"], self._known | {"plain": plain})

    def _result(self, x: Any, before: Sequence[str]) -> str:
        """What gives it; `before` are those that come before it."""
        if x is None or x.__class__ in (int, float):
            return self._constant(x)
        if x.__class__ is not self.array:
            self.fit = False
            return ""
        name, offset = self._place(x)
        made = next((known for other, known in self._arrays if other == name), None)
        if made is x:
            return name
        if name.startswith("x") or made is None:
            self.fit = False
            return ""
        if name not in before and not offset and made.nbytes == x.nbytes and x.flags.c_contiguous:
            self._known[self._shapes[name]] = x.shape  # it is made like that: only addresses have been told
            return name
        return f"view({name}, {offset}, {self._constant(x.shape)}, {self._constant(x.strides)})"


def span(x: Any, address: Callable[[Any], int]) -> tuple[int, int]:
    """The addresses of an array's first byte and of what follows its last; those of an empty one are equal."""
    start, reach = address(x), [(n - 1) * s for n, s in zip(x.shape, x.strides, strict=True)]
    if not x.size:
        return start, start
    return start + sum(min(r, 0) for r in reach), start + sum(max(r, 0) for r in reach) + int(x.dtype.itemsize)
