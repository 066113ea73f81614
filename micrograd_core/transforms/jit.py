"""``jit``: a function traced once, and from then on called as one program.

The trace is a `Program` of the op table's operations (`tracing`), which the device compiles; `replay` is its call. For
functions of scalar Values, both are in `micrograd_core.scalar`: `tracing` and `jit`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from pathlib import Path
from types import MethodType
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

from micrograd_core.array.tensor import Tensor
from micrograd_core.compiler.program import Program
from micrograd_core.engine.modes import grad_mode
from micrograd_core.errors import TraceError
from micrograd_core.scalar.jit import Replay as ScalarReplay
from micrograd_core.scalar.value import Value
from micrograd_core.support import pytrees
from micrograd_core.support.context import levels, programs, tracing, without_collection
from micrograd_core.support.locks import lock
from micrograd_core.support.ownership import has_gil
from micrograd_core.support.warning import warn
from micrograd_core.transforms.captured import Captured
from micrograd_core.transforms.codegen import OTHER_ARGUMENTS, Static
from micrograd_core.transforms.guards import PLAIN, Guard
from micrograd_core.transforms.replay import OTHERWISE, Replay
from micrograd_core.transforms.tracing import Trace

P = ParamSpec("P")
R = TypeVar("R")
Names = str | Iterable[str]

KEPT: Final = 128
"""So many programs are remembered."""
MANY: Final = 8
"""So many of them differ only in what the function captured; after so many traces a warning says why."""
_tracing = lock()  # tensors stand for values of a program meanwhile


class Jitted(Generic[P, R]):
    """A function, and what it was compiled to.

    Attributes
    ----------
    program : Program or None
        What ran last. `str` shows it, a line for each step.
    traces : int
        How often the function was traced.
    """

    # Not in `__dict__`, which `functools.wraps` copies to what is made of this.
    __slots__ = (
        "__dict__", "__weakref__", "_donated", "_moving", "_names", "_programs", "_replay", "_static", "traces",
    )  # fmt: skip
    __wrapped__: Callable[..., Any]

    def __init__(self, f: Callable[..., Any], static_argnames: Names = (), donate_argnames: Names = ()) -> None:
        if not callable(f):
            raise TypeError(f"jit takes a function; got {type(f).__name__} {f!r}")
        functools.update_wrapper(self, f)
        self._static, self._donated = (
            frozenset([x] if isinstance(x, str) else x) for x in (static_argnames, donate_argnames)
        )
        given = self._static | self._donated
        self._names = list(inspect.signature(f).parameters) if given else []
        if unknown := sorted(given - set(self._names)):
            raise ValueError(f"jit: there is no parameter {unknown[0]!r}; the function has {', '.join(self._names)}")
        self._programs: list[Replay | ScalarReplay] = []  # the one called last first
        self._moving = set[Any]()  # places where tensors are bound anew
        self._replay: Replay | ScalarReplay | None = None
        self.traces = 0

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        """The function, by its name or to be traced anew: programs refer to tensors of their own process and model."""
        name = getattr(self, "__qualname__", "")
        known: Any = sys.modules.get(getattr(self, "__module__", ""))
        for part in name.split("."):
            known = getattr(known, part, None)
        return name if known is self else (Jitted, (self.__wrapped__, *map(tuple, (self._static, self._donated))))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the compiled function, after compiling it if need be."""
        for replay in self._programs:
            flat = replay.holds(args, kwargs)
            if flat.__class__ is tuple:
                found = replay.run(flat)
                if found is not OTHERWISE:
                    if replay is not self._replay:
                        self._use(replay)
                    return found  # type: ignore[no-any-return]
        if programs.get() is not None or levels.get() or tracing.get() is not None:  # part of what is around it
            return self.__wrapped__(*args, **kwargs)  # type: ignore[no-any-return]
        return self.call_with_tensors(args, kwargs)  # type: ignore[no-any-return]

    def call_with_tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call it where none of the programs is for such arguments."""
        rivals, reason = list[Any](), OTHER_ARGUMENTS
        for replay in self._programs:
            found: Any = replay.holds(args, kwargs)
            if found.__class__ is tuple:
                found = "a learning rate or a number of steps has passed a limit that the function compares it with"
            if found != OTHER_ARGUMENTS:
                rivals.append(replay)
                reason = found
        made, flat = self._trace(args, kwargs, rivals, reason)
        result = made.run(flat)
        assert result is not OTHERWISE
        return result

    def _use(self, replay: Replay | ScalarReplay) -> None:
        """The next call looks first whether it is one for this program."""
        self._replay = replay
        self._programs = [replay, *(each for each in self._programs if each is not replay)][:KEPT]

    def _trace(
        self, args: Any, kwargs: Any, rivals: Sequence[Any], reason: Any
    ) -> tuple[Replay | ScalarReplay, Sequence[Any]]:
        """A new program, for arguments and modes like those of its `rivals`, which do not hold for some `reason`.

        Beside it, what it takes of these arguments.
        """
        marked = self._marked(args, kwargs)
        flat, roots = _tensors_and_others(*marked)
        if self._is_scalar(flat, roots, args, kwargs):
            with without_collection():  # or half of the time is spent on looking through steps
                made = ScalarReplay(self.__wrapped__, *marked)
            self.traces += 1
            self._use(made)
            return made, made.holds(args, kwargs)
        if not has_gil():
            raise TraceError(
                "jit: this Python runs without the GIL, and other threads could meet tensors that stand for values of "
                "a program; start it with `python -X gil=1` or PYTHON_GIL=1, or call the function without jit"
            )
        with _tracing:
            for guard in (guard for replay in rivals for guard in replay.guards):
                self._moving |= guard.moved()
            replay = copy_context().run(_traced, self.__wrapped__, roots, flat, args, kwargs, marked, self._moving)
            if self._donated:
                named = inspect.signature(self.__wrapped__).bind(*args, **kwargs).arguments
                donated = {id(x) for x in pytrees.flatten([named.get(name) for name in self._donated])[0]}
                replay.donate([i for i, x in enumerate(flat) if id(x) in donated])
            self.traces += 1
            if self.traces > MANY:
                why = reason.changed() if isinstance(reason, Guard) else reason
                warn(
                    f"jit: {getattr(self, '__name__', 'a function')} is traced for the {self.traces}th time: {why}. "
                    "Each trace costs much more than a call; pass what changes as a tensor"
                )
            self._programs = [each for each in self._programs if each not in rivals[MANY - 1 :]]
            self._use(replay)
        return replay, flat

    def _marked(self, args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Arguments with those marked that are static."""
        if self._static:
            names = [*self._names, *[""] * len(args)]
            args = [Static(x) if name in self._static else x for name, x in zip(names, args, strict=False)]
            kwargs = {name: Static(x) if name in self._static else x for name, x in kwargs.items()}
        return args, kwargs

    def _is_scalar(self, flat: list[Any], roots: list[Any], args: Any, kwargs: Any) -> bool:
        """Whether it is a function of Values: by its arguments, or where these do not tell, by what it captured."""
        values = sum(not isinstance(x, Tensor) for x in flat)
        if values and values < len(flat):
            raise TypeError(
                "jit: the function gets Values and Tensors, which are compiled in different ways; make tensors of the "
                "Values with Value.stack([...]), or call it without jit"
            )
        if flat:
            return bool(values)
        captured = Captured([self.__wrapped__, *roots], until_values=True)
        has_float = any(x.__class__ is float for x in pytrees.flatten((args, kwargs))[0])
        return captured.values or (not captured.tensors and has_float)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and compile for such arguments, without a call: `program`, and `source` in the device's language."""
        for replay in self._programs:
            if replay.holds(args, kwargs).__class__ is tuple:
                return Lowered(replay)
        return Lowered(self._trace(args, kwargs, [], "lower() was called")[0])

    @property
    def source(self) -> str:
        """What ran last, in the language it was compiled to."""
        return Lowered(self._replay).source if self._replay else ""

    @property
    def program(self) -> Program | None:
        """The program that ran last. `str` shows it, a line for each step."""
        return self._replay.program if self._replay else None


class Lowered:
    """A compiled function that was not called."""

    def __init__(self, replay: Replay | ScalarReplay) -> None:
        self.program = replay.program
        self._replay: Any = replay

    @property
    def source(self) -> str:
        """In the language that the device compiles; the program where it runs one kernel after the other."""
        source = getattr(self._replay.compiled, "source", None)
        return str(self.program) if source is None else str(source())

    def __str__(self) -> str:
        return str(self.program)

    def export(self, path: str | Path, *, name: str = "", blas: bool = False) -> list[bytes]:
        """Write the function as one C file, which needs no Python: ``cc -O3 main.c step.c -lm``.

        What the function closes over and changes (parameters, what optimisers keep, the place of a generator in its
        stream) is state: arrays that C's caller keeps, and that each call overwrites. A comment at the top of the file
        lists all arrays with their shapes and dtypes.

        Parameters
        ----------
        path : str or Path
            The file to write.
        name : str, optional
            The name of the function in C; by default that of the file.
        blas : bool, default False
            Whether products of matrices are calls of ``cblas_sgemm`` and ``cblas_dgemm``, and not loops.

        Returns
        -------
        list of bytes
            The state as it is now, an entry for each of its arrays.

        Raises
        ------
        ProgramError
            When C has no lines for a step, or what the function changes is no array; the message names it.
        CannotWrite
            When the file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> import micrograd_core as mg
        >>> inner = mg.jit(lambda w, x: (w * x).sum())
        >>> inner.lower(mg.ones(3), mg.ones(3)).export(tempfile.mkdtemp() + "/inner.c")
        []
        """
        from micrograd_core.transforms.exported import exported

        return exported(self._replay, path, name, blas)


def _tensors_and_others(args: Any, kwargs: Any) -> tuple[list[Any], list[Any]]:
    """The tensors, or Values, among arguments; and what else may hold some."""
    tensors, others = [], []
    for x in pytrees.flatten((args, kwargs))[0]:
        if x.__class__ is Tensor or isinstance(x, Value):
            tensors.append(x)
            continue
        if x.__class__ is Static:
            x = x.x
            if isinstance(x, Tensor):
                raise TypeError("jit: a tensor is no static argument; take its name out of static_argnames")
        if isinstance(x, PLAIN):
            continue
        if hasattr(x, "__array_interface__") or hasattr(x, "__dlpack__"):
            raise TypeError(
                f"jit: an argument is a {type(x).__name__}, whose numbers may change unnoticed; make a tensor of it "
                "with asarray(...)"
            )
        others.append(x)
    return tensors, others


def _traced(
    f: Callable[..., Any], roots: list[Any], tensors: list[Any], args: Any, kwargs: Any, marked: Any, moving: set[Any]
) -> Replay:
    """Trace a function, in a context of its own; everything is as before then."""
    trace = Trace(Captured([f, *roots, Tensor]), tensors, moving)
    leaves, rebuild = pytrees.flatten((args, kwargs))
    args, kwargs = rebuild(leaves)  # containers of its own, so that a change of them is seen
    record = bool(grad_mode())
    try:
        trace.enter()
        results, build = trace.run(f, args, kwargs)
        found, _ = pytrees.flatten((args, kwargs))
        if len(found) != len(leaves) or any(x is not y for x, y in zip(found, leaves, strict=False)):
            raise TraceError("jit: the function changes a list or dict that it was given; return what it should hold")
        replay = Replay(trace, results, build, record)
    finally:
        trace.leave()
    replay.settle(trace, *marked)
    trace.let_go()
    return replay


@overload
def jit(f: Callable[P, R], *, static_argnames: Names = (), donate_argnames: Names = ()) -> Jitted[P, R]: ...
@overload
def jit(*, static_argnames: Names = (), donate_argnames: Names = ()) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
def jit(f: Callable[..., Any] | None = None, *, static_argnames: Names = (), donate_argnames: Names = ()) -> Any:
    """Trace and compile a function at its first call for each kind of arguments.

    Parameters
    ----------
    f : function
        Of tensors, and lists, tuples and dicts of them; or of Values and floats. Left out, `jit` is a decorator with
        options. It may close over tensors, modules, optimisers and schedules, call ``backward()`` and ``step()``, draw
        random numbers, and use every transform: a whole training step. What it changes is changed at each call.
    static_argnames : str or iterable of str
        Parameters of which each value is a kind of its own. Numbers, strings and objects are that anyway.
    donate_argnames : str or iterable of str
        Parameters whose tensors nobody needs after the call: it may write its results over them. One that the function
        returns as it is stays; any other is gone, and to use it is a `GraphError`, also where the call fails. Calls
        that record gradients, and calls that are part of another function, leave all tensors as they are.

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
    GraphError
        When a Value that `f` assigns to comes by two names: twice as an argument, or as one and closed over.

    Notes
    -----
    At most 128 programs are kept, one for each kind of call. A kind is: shapes, dtypes, devices, which tensors record,
    Python's numbers and strings, the identity of other objects, and the modes around the call (``no_grad``,
    ``autocast``, the default device). Globals, closures and attributes that `f` reaches are looked at before each call;
    where one has changed, `f` is traced again.

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
    made: Any = functools.partial(Jitted, static_argnames=static_argnames, donate_argnames=donate_argnames)
    return made if f is None else made(f)
