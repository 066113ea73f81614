"""`ArrayAPIBackend`: a backend over any array API namespace.

A compliant namespace already *is* a kernel table; what is left is the handful of functions whose parameters the
standard takes by position, or that it spells with operators.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from micrograd_core.backend import PROTOCOL
from micrograd_core.dtypes import DTYPES, pack, uint64, unpack
from micrograd_core.layout import Key, Shape
from micrograd_core.ops import TABLE

ALIASING = ("floor", "ceil", "round", "trunc", "real", "imag", "conj")
"""Functions whose result is, in some libraries and for some dtypes, the operand or a view of it."""

STANDARD: Final = frozenset(op.name for op in TABLE.values() if op.standard and not op.extension)
"""Functions of the standard's main namespace that take handles by position and parameters as in the op table."""

LARGEST: Final = (1 << 64) - 1

CREATION = ("full", "arange")  # those that have no operand to tell them the device

KEYWORDS: Final[Mapping[str, Mapping[str, int | str | None]]] = {
    "astype": {"dtype": 0},
    "broadcast_to": {"shape": 0},
    "full": {"shape": 0, "fill_value": 1},
    "permute_dims": {"axes": 0},
    "reshape": {"shape": 0},
    "squeeze": {"axis": 0},
}
"""How a namespace's functions take parameters of the op table: a number is the place after the operands, a text the
library's own keyword, ``None`` leaves the parameter out, and what is not listed keeps its name. These are the
standard's: it has these by position, and libraries differ in what they call them."""


def functions(capability: str) -> list[str]:
    """The standard's functions that a capability such as ``linalg`` stands for, and that are kernels as they are."""
    return [op.name for op in TABLE.values() if op.standard and op.capability == capability]


def forwards(key: Key, shape: Shape) -> tuple[Key, tuple[int, ...]]:
    """The key of the same elements with positive steps only, and the axes of the result to reverse, from the end."""
    turned: list[Any] = []
    lengths = iter(shape)
    for entry in key:
        length = 0 if entry is None else next(lengths)
        if isinstance(entry, slice) and (entry.step or 1) < 0:
            taken = range(length)[entry]
            entry = slice(taken[-1], taken[0] + 1, -taken.step)
        turned.append(entry)
    kept = [(old, new) for old, new in zip(key, turned, strict=True) if not isinstance(old, int)]
    return tuple(turned), tuple(axis - len(kept) for axis, (old, new) in enumerate(kept) if old is not new)


def works(act: Callable[[], Any]) -> bool:
    """Whether a library can do something."""
    try:
        act()
    except Exception:  # each library has its own refusal
        return False
    return True


def steps_back(xp: Any) -> bool:
    """Whether keys may hold slices of negative step, which PyTorch refuses."""
    return works(lambda: xp.zeros(2)[::-1])


def put(xp: Any, x: Any, values: Any, key: Key) -> None:
    """``x[key] = values``, in place. The standard has new axes in keys that read, but not in keys that write."""
    if 0 in getattr(values, "shape", ()):
        return  # nothing to write, which Dask refuses
    if None in key:
        axes = [entry for entry in key if not isinstance(entry, int)]
        aligned = axes[len(axes) - len(getattr(values, "shape", ())) :]
        if None in aligned:
            kept = tuple(n for n, entry in zip(values.shape, aligned, strict=True) if entry is not None)
            values = xp.reshape(values, kept)
        key = tuple(entry for entry in key if entry is not None)
    x[key] = values


def put_forwards(xp: Any, x: Any, values: Any, key: Key) -> None:
    """As `put`, for namespaces that do not step back."""
    key, reversed_axes = forwards(key, x.shape)
    axes = tuple(axis for axis in reversed_axes if -axis <= len(getattr(values, "shape", ())))
    put(xp, x, xp.flip(values, axis=axes) if axes else values, key)


def respelled(function: Callable[..., Any], places: Mapping[str, int | str | None]) -> Callable[..., Any]:
    """`function` with its parameters where `places` says (see `KEYWORDS`)."""
    by_position = sorted((place, name) for name, place in places.items() if isinstance(place, int))
    names = tuple(name for _, name in by_position)

    def call(*operands: Any, **params: Any) -> Any:
        named = {place: value for name, value in params.items() if isinstance(place := places.get(name, name), str)}
        return function(*operands, *(params[name] for name in names if name in params), **named)

    return call


class Respelled:
    """The namespace `xp` with the standard's names for what its functions call differently."""

    def __init__(self, xp: Any, keywords: Mapping[str, Mapping[str, int | str | None]]) -> None:
        self._xp, self._keywords = xp, keywords

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._xp, name)
        places = {**self._keywords.get("*", {}), **self._keywords.get(name, {})} if name in TABLE else {}
        return respelled(found, places) if places else found


def scatter_by_choice(xp: Any, x: Any, values: Any, key: Key) -> Any:
    """A copy of `x` with ``x[key]`` replaced, where nothing can be written: elements chosen from one of two arrays."""
    lengths = iter(x.shape)
    entries = [(entry, 1 if entry is None else next(lengths)) for entry in key]
    taken = [range(n)[e] if isinstance(e, slice) else range(e, e + 1) for e, n in entries if e is not None]
    if 0 in map(len, taken):
        return xp.asarray(x, copy=True)
    kept = tuple(len(range(n)[e]) if isinstance(e, slice) else 1 for e, n in entries if not isinstance(e, int))
    options = {"device": x.device} if hasattr(x, "device") else {}
    if not hasattr(values, "shape"):
        values = xp.astype(xp.asarray(values, **options), x.dtype)
    values = xp.reshape(xp.broadcast_to(values, kept), tuple(map(len, taken)))
    chosen = None
    for axis, (length, positions) in enumerate(zip(x.shape, taken, strict=True)):
        where = {position: i for i, position in enumerate(positions)}
        order = xp.asarray([where.get(i, 0) for i in range(length)], dtype=xp.int64, **options)
        values = xp.take(values, order, axis=axis)
        line = xp.asarray([i in where for i in range(length)], dtype=xp.bool, **options)
        line = xp.reshape(line, tuple(length if each == axis else 1 for each in range(len(x.shape))))
        chosen = line if chosen is None else xp.logical_and(chosen, line)
    return xp.asarray(values, copy=True) if chosen is None else xp.where(chosen, values, x)


def adjustments(xp: Any) -> dict[str, Callable[..., Any]]:
    """The functions that a namespace spells differently from the op table."""
    turns = not steps_back(xp)
    in_place = works(lambda: xp.zeros(2).__setitem__(slice(0, 1), 1.0))
    functional = works(lambda: xp.zeros(2).at[0:1].set.__call__)  # that arrays have ``at`` is not enough
    assign = put_forwards if turns else put

    def getitem_forwards(x: Any, *, key: Key) -> Any:
        key, axes = forwards(key, x.shape)
        return xp.flip(x[key], axis=axes) if axes else x[key]

    def scatter(x: Any, values: Any, *, key: Key) -> Any:
        if functional:
            return x.at[key].set(values)
        if not in_place:
            return scatter_by_choice(xp, x, values, key)
        result = xp.asarray(x, copy=True)
        assign(xp, result, values, key)
        return result

    def expand_dims(x: Any, *, axis: Shape) -> Any:
        for each in sorted(axis):
            x = xp.expand_dims(x, axis=each)
        return x

    def copy(x: Any) -> Any:
        return xp.asarray(x, copy=True)

    def fresh(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: xp.asarray(function(x), copy=True)

    def take(x: Any, indices: Any, *, axis: int) -> Any:
        """The standard takes one axis of indices, and leaves it open what negative ones mean."""
        flat = xp.reshape(indices, (-1,))
        flat = xp.astype(xp.where(flat < 0, flat + x.shape[axis], flat), xp.int64)
        taken = xp.take(x, flat, axis=axis)
        return xp.reshape(taken, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))

    return {
        **{name: fresh(getattr(xp, name)) for name in ALIASING if hasattr(xp, name)},
        "concat": lambda *xs, axis: xp.concat(xs, axis=axis),
        "copy": copy,
        "positive": copy,
        "expand_dims": expand_dims,
        "getitem": getitem_forwards if turns else lambda x, *, key: x[key],
        "scatter": scatter,
        "take": take,
        "stack": lambda *xs, axis: xp.stack(xs, axis=axis),
        # The standard's default widens small integers; here the core has done so where the user asked for a sum.
        "sum": lambda x, *, axis, keepdims: xp.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype),
    }


def native_dtypes(xp: Any, place: Any = None) -> dict[str, Any]:
    """The dtypes that arrays of `xp` can have on its device `place`, as they tell them.

    That need not be what `xp` has attributes for.
    """
    found = {}
    options = {} if place is None else {"device": place}
    for name in DTYPES:
        with suppress(AttributeError, TypeError, ValueError, RuntimeError):
            own = getattr(xp, "bool_" if name == "bool" and not hasattr(xp, "bool") else name)
            native = xp.zeros((), dtype=own, **options).dtype
            if name in str(native):  # some libraries give another one without a word
                found[name] = native
    return found


class ArrayAPIBackend:
    """A backend over the namespace `xp`.

    Parameters
    ----------
    xp : namespace
        Of an array library that follows the array API standard (directly, or through array-api-compat).
    device : str
        Canonical name, such as ``"mine:0"``.
    dtypes : mapping, optional
        Core dtype name to native dtype; by default what `xp` has attributes for. Leave out those that a library
        computes in narrower ones.
    kernels : mapping, optional
        Operations to take from here rather than from `xp`: faster ones, or ones it gets wrong. ``None`` for an
        operation that the core should compose.
    place : object, optional
        The namespace's own device object, which its creation functions take; by default its default device.
    keywords : mapping, optional
        What its functions call parameters, by operation, beside `KEYWORDS`; ``"*"`` stands for all operations. So
        ``{"*": {"keepdims": "keep_dims"}, "var": {"correction": "ddof"}}``.
    casts : collection of str, optional
        Operations whose results come in another dtype than the op table says: they are converted.
    evaluate : function, optional
        Of a lazy library, whose results are promises: takes a list of arrays, and computes them. It is called by
        `synchronize`, and after every `promises` results, so that what they hold on to cannot grow without end.
    promises : int
        How many results may be left uncomputed.
    """

    protocol = PROTOCOL
    capabilities: frozenset[str] = frozenset()

    def __init__(
        self,
        xp: Any,
        device: str,
        *,
        dtypes: Mapping[str, Any] | None = None,
        kernels: Mapping[str, Callable[..., Any] | None] | None = None,
        place: Any = None,
        keywords: Mapping[str, Mapping[str, int | str | None]] | None = None,
        casts: Collection[str] = (),
        evaluate: Callable[[list[Any]], Any] | None = None,
        promises: int = 1000,
    ) -> None:
        xp = Respelled(xp, keywords) if keywords else xp
        self.xp, self.device, self.place = xp, device, place
        self._casts, self._evaluate, self._most = casts, evaluate, promises
        self._promised: deque[Callable[[], Any]] = deque()
        self.dtypes = native_dtypes(xp, place) if dtypes is None else dtypes
        self._options = {} if place is None else {"device": place}
        self.kernels = {**adjustments(xp), **(kernels or {})}
        self._lends = "uint64" in self.dtypes and not works(  # that only uint64 holds
            lambda: xp.add(xp.zeros(1, dtype=self.dtypes["uint64"], **self._options), LARGEST)
        )

    def kernel(self, op: str) -> Callable[..., Any] | None:
        """One of `kernels`, or the namespace's own function with its parameters as it spells them."""
        found = self._found(op)
        if found is None:
            return None
        if self._lends:
            found = self._lending(found)
        if op in self._casts:
            found = self._casting(op, found)
        return found if self._evaluate is None else partial(self._promising, found)

    def _found(self, op: str) -> Callable[..., Any] | None:
        if op in self.kernels:
            return self.kernels[op]
        record = TABLE.get(op)
        if record is None or not record.standard or (record.capability and record.capability not in self.capabilities):
            return None
        function = getattr(getattr(self.xp, record.extension) if record.extension else self.xp, op, None)
        if function is None:
            return None
        if op in CREATION and self._options:
            function = partial(function, **self._options)
        return respelled(function, KEYWORDS[op]) if op in KEYWORDS else function

    def _lending(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """A kernel that gets integers from 2**63 as arrays."""

        def lent(x: Any) -> Any:
            is_large = x.__class__ is int and x >> 63 > 0
            return self.from_host(pack([x], uint64), (), self.dtypes["uint64"]) if is_large else x

        return lambda *operands, **params: kernel(*map(lent, operands), **params)

    def _casting(self, op: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """A kernel whose result is given the dtype of the op table."""
        told: Any = TABLE[op].result
        convert = self.kernel("astype")
        core = {native: DTYPES[name] for name, native in self.dtypes.items()}

        def casting(x: Any, *others: Any, **params: Any) -> Any:
            result = kernel(x, *others, **params)
            if result is NotImplemented:
                return result
            wanted = x.dtype if isinstance(told, str) else self.dtypes[told(core[x.dtype], params).name]
            return result if result.dtype == wanted else convert(result, dtype=wanted)  # type: ignore[misc]

        return casting

    def _promising(self, kernel: Callable[..., Any], *operands: Any, **params: Any) -> Any:
        """What a kernel gives, remembered until it is computed, or nobody has it any more."""
        result = kernel(*operands, **params)
        if result is NotImplemented:
            return result
        for each in result if isinstance(result, tuple) else (result,):
            try:
                self._promised.append(weakref.ref(each))
            except TypeError:  # not every class has weak references
                self._promised.append(lambda each=each: each)  # type: ignore[misc]
        if len(self._promised) >= self._most:
            self.synchronize()
        return result

    def synchronize(self) -> None:
        """Compute what a lazy library has promised; override it where others have to be waited for."""
        found = []
        with suppress(IndexError):  # another thread took the last one
            while self._promised:
                found.append(self._promised.popleft()())
        arrays = [array for array in found if array is not None]
        if arrays and self._evaluate is not None:
            self._evaluate(arrays)

    def from_host(self, data: Any, shape: Shape, dtype: Any) -> Any:
        """Through a list, which every namespace takes; override it where the library can read bytes."""
        name = next(name for name, native in self.dtypes.items() if native == dtype)
        flat = self.xp.asarray(unpack(data, DTYPES[name]), dtype=dtype, **self._options)
        return self.xp.reshape(flat, shape)

    def from_dlpack(self, x: Any) -> Any:
        """As the namespace does it."""
        return self.xp.from_dlpack(x)

    def to_host(self, x: Any) -> Any:
        """Through the buffer protocol or ``__array__``; override it where the library has neither."""
        return memoryview(x.__array__() if hasattr(x, "__array__") else x).tobytes()


__all__ = [
    "KEYWORDS", "STANDARD", "ArrayAPIBackend", "adjustments", "functions", "native_dtypes", "put", "put_forwards",
    "respelled", "steps_back",
]  # fmt: skip
