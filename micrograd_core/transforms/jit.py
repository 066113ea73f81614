"""``jit``: a function traced once, and from then on called as one program.

Of a function of tensors the trace is a `Program` of the op table's operations (`tracing`), which the device compiles;
`replay` is its call. Functions of scalar Values become Python code: `micrograd_core.scalar.jit`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from contextvars import copy_context
from types import MethodType
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

from micrograd_core.array.tensor import Tensor
from micrograd_core.compiler.program import Program
from micrograd_core.engine.modes import grad_mode
from micrograd_core.errors import TraceError
from micrograd_core.ground import trees
from micrograd_core.ground.context import levels, programs
from micrograd_core.ground.locks import lock
from micrograd_core.ground.owners import has_gil
from micrograd_core.ground.warning import warn
from micrograd_core.scalar.device_value import DeviceValue
from micrograd_core.scalar.jit import Jitted as JittedScalars
from micrograd_core.scalar.value import Value
from micrograd_core.transforms.closures import Reach
from micrograd_core.transforms.guards import MODES
from micrograd_core.transforms.printed import Static
from micrograd_core.transforms.replay import OTHERWISE, Replay
from micrograd_core.transforms.tracing import Trace
from micrograd_core.transforms.watches import PLAIN

P = ParamSpec("P")
R = TypeVar("R")

KEPT: Final = 128
"""So many kinds of calls are remembered."""
MANY: Final = 8
"""After so many traces a warning says why there was another one."""
RECENT: Final = 4
"""Of so many of them, the ones called last, a call looks at once whether it is such a one."""
_tracing = lock()  # tensors stand for values of a program meanwhile


class Jitted(JittedScalars, Generic[P, R]):
    """A function, and what it was compiled to.

    Attributes
    ----------
    program : Program or None
        What ran last. `str` shows it, a line for each step.
    traces : int
        How often the function was traced.
    """

    __slots__ = ("_moving", "_names", "_programs", "_recent", "_replay", "_static", "traces")

    def __init__(self, f: Callable[..., Any], static_argnames: str | Iterable[str] = ()) -> None:
        super().__init__(f)
        functools.update_wrapper(self, f)
        self._static = frozenset([static_argnames] if isinstance(static_argnames, str) else static_argnames)
        self._names: list[str] = []
        if self._static:
            self._names = list(inspect.signature(f).parameters)
            unknown = sorted(self._static - set(self._names))
            if unknown:
                raise ValueError(
                    f"jit: there is no parameter {unknown[0]!r}; the function has {', '.join(self._names)}"
                )
        self._programs: dict[Any, list[Replay]] = {}
        self._moving = set[Any]()  # places where tensors are bound anew
        self._replay: Replay | None = None
        self._recent: tuple[Replay, ...] = ()
        self.traces = 0

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        """The function, by its name or to be traced anew: programs refer to tensors of their own process and model."""
        name = getattr(self, "__qualname__", "")
        known: Any = sys.modules.get(getattr(self, "__module__", ""))
        for part in name.split("."):
            known = getattr(known, part, None)
        return name if known is self else (_again, (self.__wrapped__, tuple(self._static)))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the compiled function, after compiling it if need be."""
        for replay in self._recent:
            flat = replay.holds(args, kwargs)
            if flat is not None:
                found = replay.run(flat)
                if found is not OTHERWISE:
                    self._replay = replay
                    return found  # type: ignore[no-any-return]
        if programs.get() is not None or levels.get():  # part of what is around it
            return self.__wrapped__(*args, **kwargs)  # type: ignore[no-any-return]
        return self.call_with_tensors(args, kwargs)  # type: ignore[no-any-return]

    def call_with_tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call it as a function of tensors, unless it turns out to be one of Values."""
        flat: list[Any] = []
        roots: list[Any] = []
        kind = self._kind(args, kwargs, flat, roots)
        if self._is_scalar(kind, flat, roots):
            self.__class__ = _OfScalars  # so that no call has to ask again
            return self(*args, **kwargs)
        tensors = [x for x in flat if isinstance(x, Tensor)]
        known = self._programs.get(kind, [])
        why = "arguments of another kind" if self._programs else ""
        for replay in known:
            why = replay.guards.differs(tensors)
            if not why:
                result = replay.run(tensors)
                if result is not OTHERWISE:
                    if known[0] is not replay:
                        self._programs[kind] = [replay, *(each for each in known if each is not replay)]
                    self._remember(replay, args, kwargs)
                    return result
                why = "a learning rate or a number of steps has passed a limit that the function compares it with"
        replay = self._trace(kind, roots, tensors, args, kwargs, why)
        result = replay.run(tensors)
        assert result is not OTHERWISE
        self._remember(replay, args, kwargs)
        return result

    def _remember(self, replay: Replay, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The next call looks first whether it is one of this kind."""
        self._replay = replay
        replay.remember(*self._marked(args, kwargs))
        self._recent = (replay, *[each for each in self._recent if each is not replay])[:RECENT]

    def _trace(self, kind: Any, roots: list[Any], tensors: list[Tensor], args: Any, kwargs: Any, why: str) -> Replay:
        if not has_gil():
            raise TraceError(
                "jit: this Python runs without the GIL, and other threads could meet tensors that stand for values of "
                "a program; start it with `python -X gil=1` or PYTHON_GIL=1, or call the function without jit"
            )
        with _tracing:
            for known in self._programs.get(kind, []):
                self._moving |= known.guards.moved()
            replay = copy_context().run(_traced, self.__wrapped__, roots, tensors, args, kwargs, self._moving)
            self.traces += 1
            if self.traces > MANY:
                warn(
                    f"jit: {getattr(self, '__name__', 'a function')} is traced for the {self.traces}th time: {why}. "
                    "Each trace costs much more than a call; pass what changes as a tensor"
                )
            self._programs[kind] = [replay, *self._programs.get(kind, [])][:MANY]
            for old in list(self._programs)[:-KEPT]:
                self._programs.pop(old, None)
            self._replay = replay
        return replay

    def _kind(self, args: Any, kwargs: Any, flat: list[Any], roots: list[Any]) -> Any:
        args, kwargs = self._marked(args, kwargs)
        described = tuple([_described(x, flat, roots) for x in args])
        if kwargs:
            described = described, tuple((name, _described(x, flat, roots)) for name, x in kwargs.items())
        identities = list(map(id, flat))
        twice = len(set(identities)) < len(flat) and tuple(map(identities.index, identities))
        return described, twice, *[mode() for mode in MODES.values()]

    def _marked(self, args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Arguments with those marked that are static."""
        if self._static:
            names = [*self._names, *[""] * len(args)]
            args = [Static(x) if name in self._static else x for name, x in zip(names, args, strict=False)]
            kwargs = {name: Static(x) if name in self._static else x for name, x in kwargs.items()}
        return args, kwargs

    def _is_scalar(self, kind: Any, flat: list[Any], roots: list[Any]) -> bool:
        """Whether it is a function of Values: by its arguments, or where these do not tell, by what it closes over."""
        values = sum(not isinstance(x, Tensor) for x in flat)
        if values and values < len(flat):
            raise TypeError(
                "jit: the function gets Values and Tensors, which are compiled in different ways; make tensors of the "
                "Values with Value.stack([...]), or call it without jit"
            )
        if (flat and not values) or kind in self._programs:
            return False
        if not values:
            reach = Reach([self.__wrapped__, *roots])
            values = reach.values or (not reach.tensors and _has_float(kind[0]))
        return bool(values)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and compile for such arguments, without a call: `program`, and `source` in the device's language."""
        flat: list[Any] = []
        roots: list[Any] = []
        kind = self._kind(args, kwargs, flat, roots)
        tensors = [x for x in flat if isinstance(x, Tensor)]
        known = next((each for each in self._programs.get(kind, []) if not each.guards.differs(tensors)), None)
        return Lowered(known or self._trace(kind, roots, tensors, args, kwargs, "lower() was called"))

    @property
    def source(self) -> str:
        """What ran last, in the language it was compiled to."""
        return Lowered(self._replay).source if self._replay else super().source

    @property
    def program(self) -> Program | None:
        """The program that ran last. `str` shows it, a line for each step."""
        return self._replay.program if self._replay else super().program


def _again(f: Callable[..., Any], static: tuple[str, ...]) -> Jitted[..., Any]:
    return Jitted(f, static)


class _OfScalars(Jitted[P, R]):
    """A function that gets Values, or floats; with a tensor among them it is one of tensors that time."""

    __call__ = JittedScalars.__call__


class Lowered:
    """A compiled function that was not called."""

    def __init__(self, replay: Replay) -> None:
        self.program = replay.program
        self._replay = replay

    @property
    def source(self) -> str:
        """In the language that the device compiles; the program where it runs one kernel after the other."""
        source = getattr(self._replay.compiled, "source", None)
        return str(self.program) if source is None else str(source())

    def __str__(self) -> str:
        return str(self.program)


def _has_float(described: Any) -> bool:
    return described is float or (isinstance(described, tuple) and any(map(_has_float, described)))


def _described(x: Any, flat: list[Any], roots: list[Any]) -> Any:
    """The kind of one argument; tensors are appended to `flat`, and what may hold some to `roots`."""
    if x.__class__ is Tensor:
        flat.append(x)
        return x._handle.shape, x.dtype, x._kernels, x._record is None
    if isinstance(x, (list, tuple)):
        return type(x), tuple([_described(each, flat, roots) for each in x])
    if isinstance(x, dict):
        return type(x), tuple([(key, _described(each, flat, roots)) for key, each in x.items()])
    if isinstance(x, (Value, DeviceValue)):
        flat.append(x)
        return type(x)
    if x.__class__ is Static:
        x = x.x
        if isinstance(x, Tensor):
            raise TypeError("jit: a tensor is no static argument; take its name out of static_argnames")
    if isinstance(x, PLAIN):
        return type(x), repr(x) if isinstance(x, float) else x
    if hasattr(x, "__array_interface__") or hasattr(x, "__dlpack__"):
        raise TypeError(
            f"jit: an argument is a {type(x).__name__}, whose numbers may change unnoticed; make a tensor of it with "
            "asarray(...)"
        )
    roots.append(x)
    return type(x), _Identity(x)


class _Identity:
    """An object as a part of a key: the same only as itself, and kept so that nothing else gets its identity."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.x is other.x

    def __hash__(self) -> int:
        return id(self.x)


def _traced(
    f: Callable[..., Any], roots: list[Any], tensors: list[Tensor], args: Any, kwargs: Any, moving: set[Any]
) -> Replay:
    """Trace a function, in a context of its own; everything is as before then."""
    trace = Trace(Reach([f, *roots, Tensor]), tensors, moving)
    leaves, rebuild = trees.flatten((args, kwargs))
    args, kwargs = rebuild(leaves)  # containers of its own, so that a change of them is seen
    record = bool(grad_mode())
    try:
        trace.enter()
        results, build = trace.run(f, args, kwargs)
        found, _ = trees.flatten((args, kwargs))
        if len(found) != len(leaves) or any(x is not y for x, y in zip(found, leaves, strict=False)):
            raise TraceError("jit: the function changes a list or dict that it was given; return what it should hold")
        replay = Replay(trace, results, build, record)
    finally:
        trace.leave()
    replay.settle(trace)
    return replay


@overload
def jit(f: Callable[P, R], *, static_argnames: str | Iterable[str] = ()) -> Jitted[P, R]: ...
@overload
def jit(*, static_argnames: str | Iterable[str] = ()) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
def jit(f: Callable[..., Any] | None = None, *, static_argnames: str | Iterable[str] = ()) -> Any:
    """The same function, traced and compiled at its first call for each kind of arguments.

    Parameters
    ----------
    f : function
        Of tensors, and lists, tuples and dicts of them; or of Values and floats. Left out, `jit` is a decorator with
        options. It may close over tensors, modules, optimisers and schedules, call ``backward()`` and ``step()``, draw
        random numbers, and use every transform: a whole training step. What it changes is changed at each call.
    static_argnames : str or iterable of str
        Parameters of which each value is a kind of its own. Numbers, strings and objects are that anyway.

    Returns
    -------
    Jitted
        A function with the results of `f`, which has also ``program``, ``source``, ``lower(*args)`` and ``traces``.

    Raises
    ------
    TraceError
        When a decision in `f` depends on the numbers of a tensor, a shape does, or `f` changes what a program cannot.
    TypeError
        When `f` computes with Values and with Tensors, or gets an array of another library.

    Notes
    -----
    At most 128 kinds are kept. A kind is: shapes, dtypes, devices, which tensors record, Python's
    numbers and strings, the identity of other objects, and the modes around the call (``no_grad``, ``autocast``, the
    default device). Globals, closures and attributes that `f` reaches are looked at before each call; where one has
    changed, `f` is traced again.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> @mg.jit
    ... def loss(w, x):
    ...     return ((w * x) ** 2).sum()
    >>> mg.grad(loss)(mg.Tensor([1.0, 2.0]), mg.Tensor([3.0, 4.0])).tolist()
    [18.0, 64.0]
    >>> square = mg.jit(lambda x: x * x)
    >>> a = mg.Value(3.0)
    >>> y = square(a)
    >>> y.backward()
    >>> y.data, a.grad
    (9.0, 6.0)
    """
    if f is None:
        return functools.partial(jit, static_argnames=static_argnames)
    return Jitted(f, static_argnames)


__all__ = ["Jitted", "Lowered", "jit"]
