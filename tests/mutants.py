# ruff: noqa: E501, B023
"""Faults planted one at a time, to see which of them the conformance suite notices.

::

    python tests/mutants.py                            # every operation, every kind: minutes
    python tests/mutants.py --ops add,sum --kinds "NaN lost"
    python tests/mutants.py --sample 50 --seed 1
    python tests/mutants.py --write                    # the table of docs/conformance.md

A *mutant* is the NumPy backend with one kernel that is wrong in one way. It is *killed* when a test that concerns its
operation fails: one that is generated for that operation, or one of the device as a whole that calls that kernel. It
*survives* when none does. The suite is taken as it is (`tests_of_the_suite`), so that new tests need no change here.

Whether a fault can show at all is measured, not listed: every call is compared with what the sound kernel returns. A
fault that changes no result, neither in the suite nor in the calls of `probes` (which go to more dtypes, sizes, layouts
and special values than the suite need do), is *equivalent* to the sound kernel, and does not count. Of a survivor we
know with the same measurement whether the suite called for the fault and looked past it, or never called for it.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import itertools
import multiprocessing
import os
import random
import re
import signal
import sys
import threading
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import date
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from micrograd_core import Device, asarray, no_grad, plugins
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.conformance import cases
from micrograd_core.conformance.forms import OPEN
from micrograd_core.conformance.suite import Conformance
from micrograd_core.dtypes import DTYPES
from micrograd_core.errors import MicrogradError
from micrograd_core.ops import TABLE, Array, Op
from micrograd_core.plugins import hookimpl
from micrograd_cpu.storage import CPUBackend

PAGE = Path(__file__).parents[1] / "docs" / "conformance.md"
HEADING = "## Planted faults"
SECONDS = 60.0
"""How long one test may take before the mutant counts as killed by a hang."""


# ── the mutant ───────────────────────────────────────────────────────────────────────────────────────────────


class Planted:
    """One fault in one kernel: what faults keep between calls, and whether they have shown."""

    def __init__(self, op: Op, kernel: Callable[..., Any], fault: Fault) -> None:
        self.op, self.kernel, self.fault = op, kernel, fault
        self.fired = False
        self.possible = False  # a fault that only threads, or later writes, bring out
        self.kept: list[Any] = []
        self.buffers: dict[Any, Any] = {}
        self.pending: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self.calls = itertools.count()

    def __call__(self, *operands: Any, **params: Any) -> Any:
        sound = self.kernel(*operands, **params)
        if sound is NotImplemented:
            return sound
        before = bits(sound)
        found = self.fault(self, sound, operands, params)
        if found is NotImplemented:  # the composition is right
            return sound
        if not self.fired:
            self.fired = bits(found) != before
        return found


class Mutant(CPUBackend):
    """The sound backend, but for one kernel; it tells how much memory its faults keep."""

    planted: Planted | None = None

    def __init__(self) -> None:
        super().__init__()
        self.device = "mutant:0"
        self.flaw: Planted | None = None
        if PLANT is not None:
            name, fault = PLANT
            self.flaw = self.kernels[name] = Planted(TABLE[name], self.kernel(name), fault)

    def memory(self) -> dict[str, int]:
        return {"in_use": sum(x.nbytes for x in self.flaw.kept) if self.flaw is not None else 0}

    def synchronize(self) -> None:
        for result, operands, params in self.flaw.pending if self.flaw is not None else ():
            result[...] = self.flaw.kernel(*operands, **params)
        if self.flaw is not None:
            self.flaw.pending.clear()

    def assign(self, x: Any, values: Any, key: Any) -> bool:
        done = super().assign(x, values, key)
        for late in self.flaw.buffers.get("late", ()) if self.flaw is not None else ():
            late(x)
        return done


PLANT: tuple[str, Fault] | None = None


class Plugin:
    """Opens a `Mutant` with whatever is planted."""

    @hookimpl
    def micrograd_open(self, address: str) -> Any:
        return Mutant()

    @hookimpl
    def micrograd_priority(self) -> int:
        """Nobody should get one of these without asking."""
        return -1


def fresh(plant: tuple[str, Fault] | None) -> Device:
    """A device of its own for each mutant: caches that a fault has spoiled end with it."""
    global PLANT
    PLANT = plant
    Device.forget("mutant")
    if "mutant" not in plugins.names():
        plugins.register("mutant", Plugin())
    return Device("mutant:0")


def native_kernels() -> list[str]:
    """The operations that the NumPy backend has kernels for."""
    backend = CPUBackend()
    return [name for name in TABLE if backend.kernel(name) is not None]


# ── faults ───────────────────────────────────────────────────────────────────────────────────────────────────

Fault = Callable[[Planted, Any, tuple[Any, ...], dict[str, Any]], Any]
KINDS: dict[str, Fault] = {}


def kind(name: str) -> Callable[[Fault], Fault]:
    def add(fault: Fault) -> Fault:
        KINDS[name] = fault
        return fault

    return add


def of_result(name: str, change: Callable[[Any], Any]) -> None:
    """A fault that is a function of the sound result alone, part by part where there are several."""

    def fault(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
        with np.errstate(all="ignore"):
            if isinstance(sound, tuple):
                parts = [change(part) for part in sound]
                return type(sound)(*parts) if hasattr(sound, "_fields") else tuple(parts)
            return change(sound)

    KINDS[name] = fault


def of_operands(name: str, change: Callable[[Any], Any]) -> None:
    """A fault in how operands are read."""

    def fault(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
        changed = [change(x) if isinstance(x, np.ndarray) else x for x in operands]
        if all(x is y for x, y in zip(operands, changed, strict=True)):
            return sound
        return planted.kernel(*changed, **params)

    KINDS[name] = fault


def bits(x: Any) -> Any:
    """Everything that can be told of a result."""
    if isinstance(x, tuple):
        return tuple(map(bits, x))
    array = np.asarray(x)
    if is_float(array):  # a NaN is like any other
        array = np.where(array == array, array, array.dtype.type(np.nan))
    return array.dtype.str + array.dtype.name, array.shape, array.tobytes()


def copied(x: Any) -> Any:
    return np.array(x, subok=True)


def dtype_name(x: Any) -> str:
    return str(getattr(x, "dtype", ""))


def is_float(x: Any) -> bool:
    return dtype_name(x) in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def added(x: Any, where: Any = ...) -> Any:
    """Another number at some places: one more, or the other truth."""
    result = copied(x)
    plain = result.view(np.ndarray)
    if plain.dtype.kind == "b":
        plain[where] = ~plain[where]
    else:
        plain[where] = plain[where] + plain.dtype.type(1)
    return result


def flat_part(start: Callable[[int], int], value: Any = 0) -> Callable[[Any], Any]:
    """Zeros from some place on, in C order."""

    def change(x: Any) -> Any:
        result = np.ascontiguousarray(copied(x)).reshape(np.shape(x))
        result.reshape(-1)[start(result.size) :] = value
        return result

    return change


def other_dtype(x: Any) -> Any:
    to = {"float32": "float64", "float64": "float32", "complex64": "complex128", "complex128": "complex64"}
    name = dtype_name(x)
    to |= {"bool": "uint8", "int64": "int32", "float16": "float32", "bfloat16": "float32"}
    return np.asarray(x).astype(to.get(name, "int64"))


def last_wrong(x: Any) -> Any:
    if not np.size(x):
        return x
    result = np.ascontiguousarray(copied(x)).reshape(np.shape(x))
    result.reshape(-1)[-1:] = added(result.reshape(-1)[-1:])
    return result


def first_repeated(x: Any) -> Any:
    result = np.ascontiguousarray(copied(x)).reshape(np.shape(x))
    result.reshape(-1)[1:] = result.reshape(-1)[:1]
    return result


def replaced(where: Callable[[Any], Any], value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Another value where a floating result has a property."""

    def change(x: Any) -> Any:
        if not is_float(x) or dtype_name(x) == "bfloat16":
            return x
        plain = np.asarray(x)
        return (
            np.where(where(plain), np.asarray(value(plain), plain.dtype), plain).astype(plain.dtype).view(type(x))
            if isinstance(x, np.ndarray)
            else np.where(where(plain), value(plain), plain).astype(plain.dtype)[()]
        )

    return change


def scaled(factor: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def change(x: Any) -> Any:
        if not is_float(x):
            return x
        epsilon = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "complex64": 2.0**-23}
        step = epsilon.get(dtype_name(x), 2.0**-52)
        result = copied(x)
        result.view(np.ndarray)[...] = np.asarray(result.view(np.ndarray) * factor(step), result.dtype)
        return result

    return change


def wrong_in(*names: str) -> Fault:
    def fault(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
        seen = {dtype_name(x) for x in operands} or {dtype_name(sound)}
        return last_part(sound, last_wrong) if seen & set(names) else sound

    return fault


def last_part(sound: Any, change: Callable[[Any], Any]) -> Any:
    if not isinstance(sound, tuple):
        return change(sound)
    parts = [change(part) for part in sound]
    return type(sound)(*parts) if hasattr(sound, "_fields") else tuple(parts)


of_result("wrong dtype", other_dtype)
of_result("zeros returned", lambda x: np.zeros_like(copied(x)))
of_result("tail ignored (after the last multiple of 4)", flat_part(lambda size: size // 4 * 4))
of_result("last element wrong", last_wrong)
of_result("only the first element right", first_repeated)
of_result("an axis too many in the shape", lambda x: np.asarray(x)[None])
of_result("NaN lost", replaced(np.isnan, lambda x: 0))
of_result(
    "infinity lost",
    replaced(
        lambda x: np.isinf(x) & (x.dtype.kind == "f"), lambda x: np.finfo(x.dtype).max * np.where(x.real < 0, -1, 1)
    ),
)
of_result("sign of zero lost", replaced(lambda x: (x == 0) & (x.dtype.kind == "f"), lambda x: 0))
of_result(
    "subnormal numbers flushed",
    replaced(lambda x: (np.abs(x) < np.finfo(x.dtype).tiny) & (x.dtype.kind == "f"), lambda x: 0),
)
of_result("100 ulp off", scaled(lambda epsilon: 1 + 100 * epsilon))
of_result("computed in half precision", lambda x: (
    np.asarray(x).astype("float16").astype(x.dtype) if dtype_name(x) in ("float32", "float64") else x
))  # fmt: skip
of_result("computed in single precision", lambda x: (
    np.asarray(x).astype("float32" if dtype_name(x) == "float64" else "complex64").astype(x.dtype)
    if dtype_name(x) in ("float64", "complex128") else x
))  # fmt: skip
of_result("imaginary part lost", lambda x: (
    np.asarray(x).real.astype(x.dtype) if np.asarray(x).dtype.kind == "c" else x
))  # fmt: skip
of_result("integers through float64", lambda x: (
    np.asarray(x).astype("float64").astype(x.dtype) if dtype_name(x) in ("int64", "uint64") else x
))  # fmt: skip
of_result("axes of the result swapped", lambda x: (
    np.ascontiguousarray(copied(x).swapaxes(-1, -2)).reshape(np.shape(x)) if np.ndim(x) > 1 else x
))  # fmt: skip

for name, dtypes in {
    "float16": ["float16"],
    "bfloat16": ["bfloat16"],
    "float64": ["float64"],
    "complex": ["complex64"],
    "bool": ["bool"],
    "int16": ["int16"],
    "int64": ["int64"],
    "uint8": ["uint8"],
    "wide unsigned integers": ["uint16", "uint32", "uint64"],
}.items():
    KINDS[f"wrong in {name}"] = wrong_in(*dtypes)


def read_from_the_start(x: Any) -> Any:
    """As a kernel does that takes the address of the memory, not of the first element."""
    base = x.base
    if not isinstance(base, np.ndarray) or min(x.strides, default=-1) < 0 or base.dtype != x.dtype:
        return x
    if x.__array_interface__["data"][0] == base.__array_interface__["data"][0] or not base.flags.c_contiguous:
        return x
    return np.lib.stride_tricks.as_strided(base, x.shape, x.strides)


def read_in_a_row(x: Any) -> Any:
    """As a kernel does that takes every operand for contiguous."""
    if x.flags.c_contiguous or not x.size or min(x.strides) <= 0:
        return x
    strides = np.empty(x.shape, "b").strides
    return np.lib.stride_tricks.as_strided(x, x.shape, tuple(s * x.itemsize for s in strides))


of_operands("offset lost", read_from_the_start)
of_operands("strides ignored", read_in_a_row)
of_operands(
    "negative strides read forward",
    lambda x: x[tuple(slice(None, None, -1) if s < 0 else slice(None) for s in x.strides)] if x.size and min(x.strides, default=0) < 0 else x,
)  # fmt: skip
of_operands("broadcast memory read as if it were full", lambda x: (
    added(x, (..., slice(1, None))) if x.size and x.ndim and x.strides[-1] == 0 and x.shape[-1] > 1 else x
))  # fmt: skip


@kind("operands swapped")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    return planted.kernel(operands[1], operands[0], *operands[2:], **params) if len(operands) > 1 else sound


@kind("second operand ignored")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    if len(operands) < 2 or not isinstance(operands[1], np.ndarray) or not operands[1].size:
        return sound
    first = operands[1].reshape(-1)[:1]
    return planted.kernel(operands[0], np.broadcast_to(first, operands[1].shape), *operands[2:], **params)


@kind("last operand ignored")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    if len(operands) < 3 or not isinstance(operands[-1], np.ndarray) or not operands[-1].size:
        return sound
    first = operands[-1].reshape(-1)[:1]
    return planted.kernel(*operands[:-1], np.broadcast_to(first, operands[-1].shape), **params)


@kind("broadcasting wrong")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    shapes = {x.shape for x in operands if isinstance(x, np.ndarray)}
    if len(shapes) < 2 or isinstance(sound, tuple):
        return sound
    small = [i for i, x in enumerate(operands) if isinstance(x, np.ndarray) and x.ndim and x.shape != np.shape(sound)]
    return planted.kernel(*(x[::-1] if [i] == small[:1] else x for i, x in enumerate(operands)), **params)


@kind("a Python number rounded")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    if not any(x.__class__ is float for x in operands):
        return sound
    return planted.kernel(
        *(float(round(x)) if x.__class__ is float and np.isfinite(x) else x for x in operands), **params
    )


@kind("one operand twice is wrong")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    return last_part(sound, last_wrong) if len(operands) > 1 and operands[0] is operands[1] else sound


@kind("an operand returned as a fresh result")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    if planted.op.view or isinstance(sound, tuple) or not np.size(sound):
        return sound
    for x in operands:
        if isinstance(x, np.ndarray) and bits(x) == bits(sound) and not np.shares_memory(x, np.asarray(sound)):
            planted.fired = True
            return x
    return sound


@kind("input changed")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    x = operands[0] if operands else None
    result = (
        tuple(map(copied, sound)) if type(sound) is tuple else copied(sound) if not isinstance(sound, tuple) else sound
    )
    if isinstance(x, np.ndarray) and x.size and x.flags.writeable and not planted.op.view:
        x.reshape(-1)[:1] if x.flags.c_contiguous else None
        x[...] = added(x)
        planted.fired = True
        return result
    return sound


@kind("last input changed")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    x = operands[-1] if len(operands) > 1 else None
    if (
        isinstance(x, np.ndarray)
        and x.size
        and x.flags.writeable
        and not isinstance(sound, tuple)
        and not planted.op.view
    ):
        sound = copied(sound)
        x[...] = added(x)
        planted.fired = True
    return sound


@kind("second axis ignored")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    axis = params.get("axis")
    if not isinstance(axis, tuple) or len(axis) < 2 or not operands or not np.size(sound):
        return sound
    if "keepdims" not in params:
        return planted.kernel(*operands, **{**params, "axis": axis[:1]})
    found = planted.kernel(*operands, **{**params, "axis": axis[:1], "keepdims": True})
    rest = {each % found.ndim for each in axis[1:]}
    return found[tuple(slice(0, 1) if i in rest else slice(None) for i in range(found.ndim))].reshape(np.shape(sound))


@kind("axis ignored: the first")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    return other_axis(planted, sound, operands, params, 0)


@kind("axis ignored: the last")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    return other_axis(planted, sound, operands, params, -1)


def other_axis(planted: Planted, sound: Any, operands: Any, params: Any, axis: int) -> Any:
    given = params.get("axis")
    ndim = max((np.ndim(x) for x in operands), default=0)
    if given is None or ndim < 2 or (isinstance(given, tuple) and len(given) != 1):
        return sound
    axis = axis % ndim
    return planted.kernel(*operands, **{**params, "axis": (axis,) if isinstance(given, tuple) else axis})


@kind("keepdims ignored")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    return planted.kernel(*operands, **{**params, "keepdims": False}) if params.get("keepdims") else sound


@kind("parameters ignored: their defaults taken")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(FUNCTIONS.get(planted.op.name, planted.kernel)).parameters.items()
        if parameter.default is not inspect.Parameter.empty and parameter.default is not None
    }
    changed = {
        name: defaults[name]
        for name in params
        if name in defaults and name not in ("axis", "keepdims") and type(defaults[name]) in (bool, int, float, str)
    }
    return planted.kernel(*operands, **{**params, **changed}) if changed else sound


@kind("parameters kept from the first call")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    own = {name: value for name, value in params.items() if name not in ("axis", "keepdims", "shape", "dtype", "key")}
    first = planted.buffers.setdefault("params", own)
    if not own or first == own:
        return sound
    try:
        return planted.kernel(*operands, **{**params, **{k: v for k, v in first.items() if k in own}})
    except (ValueError, IndexError, TypeError):
        return sound  # the first call's parameters mean nothing here


@kind("leak")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    planted.fired = True
    if len(planted.kept) < 1_000_000:
        planted.kept.extend(sound if isinstance(sound, tuple) else [np.asarray(sound)])
    return sound


@kind("not thread-safe")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    if isinstance(sound, tuple):
        return sound
    planted.possible = True
    if threading.active_count() == 1:
        return sound
    shared = planted.buffers
    shared["result", np.shape(sound)] = sound
    time.sleep(1e-3)
    found = shared["result", np.shape(sound)]
    planted.fired |= found is not sound
    return found


@kind("one scratch buffer for all results")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    if isinstance(sound, tuple) or planted.op.view or not np.size(sound):
        return sound
    key = np.shape(sound), dtype_name(sound), type(sound)
    buffer = planted.buffers.get(key)
    if buffer is None:
        buffer = planted.buffers[key] = copied(sound)
    elif sys.getrefcount(buffer) > 3 and bits(buffer) != bits(sound):
        planted.fired = True
    buffer[...] = sound
    return buffer


@kind("the last call's result again")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    key = repr([(np.shape(x), dtype_name(x)) for x in operands]) + repr(params)
    found = planted.buffers.get(key, sound)
    planted.buffers[key] = sound
    return found


@kind("done only at synchronize()")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    if isinstance(sound, tuple) or planted.op.view or not isinstance(sound, np.ndarray):
        return sound
    result = np.zeros_like(sound)
    planted.pending.append((result, operands, params))
    return result


@kind("a later write to an operand overtakes it")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    if isinstance(sound, tuple) or planted.op.view or not isinstance(sound, np.ndarray) or not sound.flags.writeable:
        return sound
    planted.possible |= bool(operands)

    def late(written: Any) -> None:
        if any(isinstance(x, np.ndarray) and np.may_share_memory(x, written) for x in operands):
            before = bits(sound)
            sound[...] = planted.kernel(*operands, **params)
            planted.fired |= bits(sound) != before

    recent = planted.buffers.setdefault("late", [])
    recent.append(late)
    del recent[:-20]
    return sound


@kind("integers saturate")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    kind = np.asarray(sound if not isinstance(sound, tuple) else sound[0]).dtype
    if kind.kind not in "iu" or kind.itemsize > 4 or isinstance(sound, tuple):
        return sound
    if not all(dtype_name(x) == kind.name for x in operands if isinstance(x, np.ndarray)) or "dtype" in params:
        return sound
    wide = planted.kernel(*(x.astype("int64") if isinstance(x, np.ndarray) else x for x in operands), **params)
    return np.clip(wide, np.iinfo(kind).min, np.iinfo(kind).max).astype(kind)


@kind("rounds the wrong way")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    """Quotients towards zero, halves away from zero."""
    with np.errstate(all="ignore"):
        if planted.op.name == "round" and np.asarray(sound).dtype.kind == "f":
            x = np.asarray(operands[0])
            return (np.sign(x) * np.floor(np.abs(x) + x.dtype.type(0.5))).astype(x.dtype)
        if planted.op.name in ("floor_divide", "remainder") and np.asarray(sound).dtype.kind in "if":
            x, y = np.asarray(operands[0]), np.asarray(operands[1])
            away = (np.fmod(x, y) != 0) & ((x < 0) != (y < 0)) & (y != 0)
            change = 1 if planted.op.name == "floor_divide" else -y
            return np.where(away, np.asarray(sound) + change, sound).astype(dtype_name(sound))
    return sound


@kind("the last of equal elements")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    axis = params.get("axis")
    if planted.op.name not in ("argmax", "argmin", "argsort", "last_position") or not np.ndim(operands[0]):
        return sound
    x = np.asarray(operands[0])
    if planted.op.name == "argsort":
        found = planted.kernel(np.flip(x, axis), **params)
        return x.shape[axis] - 1 - np.asarray(found)
    if axis is None:
        return sound.dtype.type(
            x.size - 1 - planted.kernel(x[::-1].reshape(-1)[::1] if x.ndim == 1 else x.reshape(-1)[::-1], **params)
        )
    return (x.shape[axis] - 1 - np.asarray(planted.kernel(np.flip(x, axis), **params))).astype(sound.dtype)


def when(name: str, condition: Callable[[Any, Any], bool], raises: bool = False) -> None:
    def fault(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
        if not condition(operands, sound):
            return sound
        planted.fired = True
        if raises:
            raise RuntimeError(f"planted: {name}")
        return last_part(sound, last_wrong)

    KINDS[name] = fault


def sizes(operands: Any, sound: Any) -> Iterator[Any]:
    return (x for x in (*operands, *(sound if isinstance(sound, tuple) else [sound])) if hasattr(x, "dtype"))


when("wrong in arrays above 1000 elements", lambda xs, y: any(np.size(x) > 1000 for x in sizes(xs, y)))
when("wrong in arrays above 40 elements", lambda xs, y: any(np.size(x) > 40 for x in sizes(xs, y)))
when("fails for empty arrays", lambda xs, y: any(np.size(x) == 0 for x in sizes(xs, y)), raises=True)
when("fails for 0-d", lambda xs, y: any(np.ndim(x) == 0 for x in xs if hasattr(x, "dtype")), raises=True)
when("fails for one element", lambda xs, y: any(np.size(x) == 1 and np.ndim(x) for x in sizes(xs, y)), raises=True)
when("fails for three axes and more", lambda xs, y: any(np.ndim(x) > 2 for x in sizes(xs, y)), raises=True)
when("fails for five axes and more", lambda xs, y: any(np.ndim(x) > 4 for x in sizes(xs, y)), raises=True)


@kind("other bits each time")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    if isinstance(sound, tuple) or dtype_name(sound) not in ("float32", "float64") or next(planted.calls) % 2:
        return sound
    planted.possible = True
    with np.errstate(all="ignore"):
        return np.asarray(np.nextafter(sound, sound + sound.dtype.type(1)))


@kind("infinite operands give NaN")
def _(planted: Planted, sound: Any, operands: Any, params: Any) -> Any:
    if isinstance(sound, tuple) or not is_float(sound) or not np.size(sound):
        return sound
    with np.errstate(all="ignore"):
        if not any(is_float(x) and np.isinf(np.asarray(x)).any() for x in operands):
            return sound
    result = copied(sound)
    result[...] = np.nan
    return result


CONTROL = "no fault"
KINDS[CONTROL] = lambda planted, sound, operands, params: sound


# ── the suite's tests ────────────────────────────────────────────────────────────────────────────────────────


class Test(NamedTuple):
    """One test of the suite: its name as pytest prints it, the operation it is generated for, and how to run it."""

    name: str
    op: str
    function: str
    arguments: dict[str, Any]

    def run(self, device: Device) -> None:
        run = getattr(OnMutant(), self.function)
        wanted = inspect.signature(run).parameters
        run(**self.arguments, **({"opened": device} if "opened" in wanted else {}))


class OnMutant(Conformance):
    device = "mutant:0"
    __test__ = False


class Asking:
    """What the suite asks of pytest where it generates tests."""

    cls = OnMutant
    config = None

    def __init__(self, function: Any) -> None:
        self.function = function
        self.fixturenames = [name for name in inspect.signature(function).parameters if name != "self"]
        self.found: list[tuple[str, dict[str, Any]]] = [("", {})]
        for mark in getattr(function, "pytestmark", ()):
            if mark.name == "parametrize":
                self.parametrize(*mark.args, **mark.kwargs)

    def parametrize(self, names: Any, values: Iterable[Any], ids: Any = None, **_: Any) -> None:
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        values = list(values)
        labels = [ids(v) for v in values] if callable(ids) else list(ids or map(str, values))
        self.found = [
            (f"{before}-{label}" if before else label, {**given, **dict(zip(names, [value] if len(names) == 1 else value, strict=True))})
            for before, given in self.found
            for label, value in zip(labels, values, strict=True)
        ]  # fmt: skip


def tests_of_the_suite() -> tuple[list[Test], list[str]]:
    """All tests, and the names of those that need a fixture that only pytest can give."""
    device = fresh(None)
    found, left_out = [], []
    for name, function in inspect.getmembers(OnMutant, inspect.isfunction):
        if not name.startswith("test_") or name == "test_known_failures_match_tests":
            continue
        asking = Asking(function)
        OnMutant().pytest_generate_tests(asking)
        for label, arguments in asking.found:
            if set(asking.fixturenames) - set(arguments) - {"opened"}:
                left_out.append(name)
                break
            op = re.split(r"[-\]]", label)[0]
            found.append(Test(f"{name}[{label}]" if label else name, op if op in TABLE else "", name, arguments))
    assert device is Device("mutant:0")
    return found, left_out


def by_operation(tests: list[Test]) -> dict[str, list[Test]]:
    """The tests that concern each operation. Which of the whole device's call a kernel is seen by running them."""
    found: dict[str, list[Test]] = defaultdict(list)
    for test in tests:
        if test.op:
            found[test.op].append(test)
    called: set[str] = set()
    for test in tests:
        if test.op:
            continue
        device = fresh(None)
        backend = device.kernels.backend
        for name in native_kernels():
            backend.kernels[name] = _noting(name, backend.kernel(name), called)
        device = fresh_with(backend)
        called.clear()
        began = time.perf_counter()
        if outcome(test, device) == "passed" and time.perf_counter() - began < 5:
            for name in called:
                found[name].append(test)
    return found


def fresh_with(backend: Any) -> Device:
    Device.forget("mutant")
    original = Plugin.micrograd_open
    Plugin.micrograd_open = hookimpl(lambda self, address: backend)  # type: ignore[method-assign]
    try:
        plugins.unregister("mutant")
        plugins.register("mutant", Plugin())
        return Device("mutant:0")
    finally:
        Plugin.micrograd_open = original  # type: ignore[method-assign]
        plugins.unregister("mutant")
        plugins.register("mutant", Plugin())


def _noting(name: str, kernel: Any, called: set[str]) -> Any:
    def noting(*operands: Any, **params: Any) -> Any:
        called.add(name)
        return kernel(*operands, **params)

    return noting


class Overdue(BaseException):
    """A test that hangs."""


def outcome(test: Test, device: Device) -> str:
    """``passed``, ``skipped``, or what the test said."""

    def ring(*_: Any) -> None:
        raise Overdue

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        test.run(device)
    except pytest.skip.Exception:
        return "skipped"
    except Overdue:
        return "hangs"
    except (Exception, pytest.fail.Exception) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return "passed"


# ── probes ───────────────────────────────────────────────────────────────────────────────────────────────────

SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, -1.5, 2.5, 1e30, -1.0)
WHOLE = (7, -7, 2, -2, 0, 3, 2**53 + 1, 2**31 - 1, -(2**63), 2**63 - 1, 255, 1)


PALETTES = (("drawn", ""), ("special", ""), ("again", ""))
VIEWS = tuple(
    ("drawn", each)
    for each in ("long", "large", "back", "offset", "turned", "broadcast", "flat", "empty", "deep", "0-d", "same")
)


def probes(op: Op, device: Device) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Calls in every dtype of the device, with numbers, sizes and layouts that bring faults out."""
    rng = np.random.default_rng(0)
    for sample in op.samples or ():
        for dtype in device.kernels.backend.dtypes:
            for palette, view in PALETTES if dtype not in ("float32", "int32") else PALETTES + VIEWS:
                operands: list[Any] = []
                for operand, values in zip(sample.operands, cases.draw(sample), strict=True):
                    if not isinstance(operand, Array):
                        operands.append(
                            operand + 0.25 if palette == "again" and operand.__class__ is float else operand
                        )
                        continue
                    own = operand.dtype or dtype
                    shape = tuple(operand.shape)
                    array = np.asarray(values, "float64").reshape(shape)
                    if palette == "again":
                        array = array[..., ::-1] if array.ndim else array + 1
                    if palette == "special" and not operand.dtype:
                        floating = "floating" in DTYPES[own].kind
                        pool: Any = rng.permutation(
                            np.asarray(SPECIAL if floating else WHOLE, "float64" if floating else object)
                        )
                        if not floating and own != "bool":
                            low, high = np.iinfo(own).min, np.iinfo(own).max
                            pool = np.asarray(
                                [(low <= int(x) <= high and int(x)) or (high if x > 0 else low) for x in pool], own
                            )
                        array = np.resize(pool, shape)
                    if DTYPES[own].kind == "bool":
                        array = array.astype("float64") > 0
                    elif "integer" in DTYPES[own].kind and palette != "special" and not operand.dtype:
                        array = np.abs(np.round(2 * array))
                    with np.errstate(all="ignore"):
                        array = array.astype(own)
                    if view == "large" and array.ndim:
                        array = np.tile(array, [20] * min(array.ndim, 2))
                    elif view == "long" and array.ndim:
                        array = np.concatenate([array] * 500)
                    elif view == "flat" and array.ndim:
                        array = array[:1, ...][..., :1]
                    elif view == "empty" and array.ndim:
                        array = array[:0]
                    elif view == "deep":
                        array = array.reshape((1,) * (5 - array.ndim) + array.shape) if array.ndim < 5 else array
                    elif view == "0-d":
                        array = array.reshape(-1)[:1].reshape(()) if array.size else array
                    tensor = asarray(np.ascontiguousarray(array).reshape(array.shape), device=device)
                    if array.ndim:
                        tensor = {
                            "back": lambda t: t[..., ::-1],
                            "offset": lambda t: asarray(np.concatenate([array, array]), device=device)[len(array) :],
                            "turned": lambda t: asarray(np.ascontiguousarray(array.T), device=device).transpose(),
                            "broadcast": lambda t: t[..., :1].broadcast_to(t.shape),
                        }.get(view, lambda t: t)(tensor)
                    operands.append(tensor)
                if view == "same" and len(operands) > 1:
                    operands[1] = operands[0]
                yield operands, sample.params


def probe(op: Op, device: Device, enough: Callable[[], bool]) -> None:
    """Make the calls of `probes`, until it is enough."""
    function = FUNCTIONS.get(op.name)
    if function is None:  # made by `zeros` and the like, which have no operands to vary
        return
    until = time.monotonic() + SECONDS
    calls = probes(op, device)
    with no_grad(), np.errstate(all="ignore"):
        while time.monotonic() < until and not enough():
            try:
                operands, params = next(calls)
            except Exception:  # the end, or a probe that cannot be made
                break
            with suppress(Exception):  # what the operation refuses shows nothing
                function(operands, **params) if op.operands == -1 else function(*operands, **params)


# ── the judgement ────────────────────────────────────────────────────────────────────────────────────────────


class Judged(NamedTuple):
    """`verdict` is killed, equivalent, ``never called for`` or ``looked past``; `by` is the test that killed it."""

    op: str
    kind: str
    verdict: str
    by: str = ""
    said: str = ""


STATEFUL = frozenset((
    "input changed", "last input changed", "leak", "not thread-safe", "done only at synchronize()",
    "a later write to an operand overtakes it", "one scratch buffer for all results", "parameters kept from the first call",
))  # fmt: skip
"""Kinds that leave something behind, and cannot be watched beside others."""


class Watching:
    """The sound kernel, which tries what each fault would have returned: whether it shows in the test at hand."""

    def __init__(self, op: Op, kernel: Callable[..., Any], kinds: Iterable[str]) -> None:
        self.kernel = kernel
        self.planted = {kind: Planted(op, kernel, KINDS[kind]) for kind in kinds if kind not in STATEFUL}
        self.shown: set[str] = set()
        self.calls = 0  # in the test at hand; those that call very often say no more later

    def __call__(self, *operands: Any, **params: Any) -> Any:
        sound = self.kernel(*operands, **params)
        self.calls += 1
        if sound is NotImplemented or self.calls > 500:
            return sound
        before = bits(sound)
        for kind, planted in self.planted.items():
            if kind not in self.shown:
                try:
                    found = planted.fault(planted, sound, operands, params)
                    differs = found is not NotImplemented and bits(found) != before
                except Exception:
                    differs = True
                if differs or planted.fired:
                    planted.fired = False
                    self.shown.add(kind)
        return sound


def watched(name: str, kinds: tuple[str, ...], tests: list[Test]) -> tuple[dict[str, list[Test]], set[str]]:
    """For each kind the tests in which it changes a result; and the kinds that change one in a probe."""
    found: dict[str, list[Test]] = defaultdict(list)
    device = fresh((name, KINDS[CONTROL]))
    watching = Watching(TABLE[name], device.kernels.backend.flaw.kernel, kinds)
    device.kernels.backend.kernels[name] = watching
    device.kernels.__dict__.pop(name, None)
    for test in tests:
        watching.shown.clear()
        watching.calls = 0
        said = outcome(test, device)
        if said not in ("passed", "skipped"):
            raise AssertionError(f"the sound kernel of {name} fails {test.name}: {said}")
        for kind in watching.shown:
            found[kind].append(test)
    watching.shown.clear()
    watching.calls = -sys.maxsize
    probe(TABLE[name], device, lambda: len(watching.shown) == len(watching.planted))
    return found, set(watching.shown)


def judge(name: str, kind: str, tests: list[Test], probed: bool = False) -> Judged:
    """Plant one fault, and run the tests until one notices."""
    try:
        device = fresh((name, KINDS[kind]))
    except Exception as error:
        return Judged(name, kind, "killed", "at the door", str(error))
    planted = device.kernels.backend.flaw
    for test in tests:
        said = outcome(test, device)
        if said not in ("passed", "skipped"):
            return Judged(name, kind, "killed", test.name, said[:300])
    if planted.fired:
        return Judged(name, kind, "looked past")
    if kind in STATEFUL and not planted.possible:
        probe(TABLE[name], device, lambda: planted.fired)
    shows = probed or planted.fired or planted.possible
    return Judged(name, kind, "never called for" if shows else "equivalent")


TESTS: dict[str, list[Test]] = {}
CONTEXT = multiprocessing.get_context("fork")
BACKENDS = "boundary and programs"


def judge_operation(job: tuple[str, tuple[str, ...]]) -> list[Judged]:
    """All kinds of one operation, in one process."""
    name, kinds = job
    tests = sorted(TESTS[name], key=lambda test: (test.function != "test_value", bool(test.op)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            showing, probed = watched(name, kinds, tests)
        except AssertionError as error:
            return [Judged(name, CONTROL, "killed", "without any fault", str(error))]
        found = [judge(name, kind, tests if kind in STATEFUL else showing[kind], kind in probed) for kind in kinds]
    gc.collect()
    return found


def judge_apart(job: tuple[str, tuple[str, ...]]) -> list[Judged]:
    """As `judge_operation`, in a process of its own. One that a fault breaks has noticed it."""
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=lambda: sender.send(judge_operation(job)))
    process.start()
    sender.close()
    try:
        found = receiver.recv()
    except EOFError:
        found = []
    process.join()
    name, kinds = job
    if len(kinds) == 1 and not found:
        return [Judged(name, kinds[0], "killed", "the process", f"ended with {process.exitcode}")]
    if len(kinds) > 1 and len(found) < len(kinds):  # it may have written into memory that is not its own
        return [judged for kind in kinds for judged in judge_apart((name, (kind,)))]
    return found


def judge_backend(name: str, tests: list[Test]) -> Judged:
    """A backend of `micrograd_faulty`, which have a fault each in what is no kernel: the boundary, and programs."""
    Device.forget("faulty")
    try:
        device = Device(f"faulty:{name}")
    except MicrogradError as error:
        return Judged(name, BACKENDS, "killed", "at the door", str(error))
    for test in tests:
        if test.arguments.get("dtype", "float32") not in device.kernels.dtypes:
            continue
        said = outcome(test, device)
        if said not in ("passed", "skipped"):
            return Judged(name, BACKENDS, "killed", test.name, said[:300])
    return Judged(name, BACKENDS, "looked past")


def judge_backends() -> list[Judged]:
    """All of them; and the sound backend, by the tests of no operation."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "plugins" / "faulty"))
    from micrograd_faulty import plugin

    class Unlisted(Plugin):  # a sound one would be moved to those with faults
        @hookimpl
        def micrograd_open(self, address: str) -> Any:
            return plugin.micrograd_open(address)

    plugins.register("faulty", Unlisted())
    tests = sorted(tests_of_the_suite()[0], key=lambda test: bool(test.op))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [judge_backend(name, tests) for name in plugin.FAULTS]
        plugin.FAULTS["none"] = plugin.Faulty
        sound = judge_backend("none", [test for test in tests if not test.op])
    plugins.unregister("faulty")
    assert sound.verdict == "looked past", f"the sound backend fails {sound.by}: {sound.said}"
    return found


def run(
    chosen: list[tuple[str, str]], *, jobs: int = 1, told: Callable[[str], None] = lambda line: None
) -> list[Judged]:
    """Judge mutants, an operation at a time; each operation first without a fault, which must pass."""
    by_op: dict[str, tuple[str, ...]] = {}
    for name, kind in chosen:
        by_op[name] = (*by_op.get(name, ()), kind)
    if not TESTS:
        TESTS.update(by_operation(tests_of_the_suite()[0]))
    todo = list(by_op.items())
    found: list[Judged] = []
    if jobs == 1:
        results: Iterable[list[Judged]] = map(judge_operation, todo)
        for each in results:
            found += each
        return found
    with ThreadPool(jobs) as pool:
        for number, each in enumerate(pool.imap_unordered(judge_apart, todo), 1):
            found += each
            counts = Counter(judged.verdict for judged in each)
            told(f"{number}/{len(todo)} {each[0].op}: {dict(counts)}")
    return found


def mutants(operations: Iterable[str] = (), kinds: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Operation and kind of every mutant."""
    chosen = [each for each in (kinds or KINDS) if each != CONTROL]
    return [(name, each) for name in (operations or native_kernels()) for each in chosen]


SURVIVED = ("looked past", "never called for")

FORMS = {
    "NaN lost": ("rough",), "infinity lost": ("rough", "huge"), "infinite operands give NaN": ("rough",),
    "sign of zero lost": ("sign of zero",), "subnormal numbers flushed": ("subnormal",),
    "broadcast memory read as if it were full": ("tiled",), "operands swapped": ("sign of zero",),
}  # fmt: skip
"""Kinds of fault that show in some forms of operands alone, which the suite leaves open for some operations."""

REASONS = {
    "NaN lost": "no sample brings NaN there",
    "infinity lost": "an infinite weight or cotangent is not tried, and gives NaN beside it",
    "sign of zero lost": "no sample brings a negative zero there",
    "subnormal numbers flushed": "NumPy's own loses it in the dtype, or no sample has such a result",
    "negative strides read forward": "other results only by the rounding of a sum in another order",
    "broadcast memory read as if it were full": "its samples have cotangents of full size",
    "operands swapped": "other results only in the bits of NaN",
    "broadcasting wrong": "indices and values turn together: the same sums in another order",
    "one operand twice is wrong": "a matrix is not solved for itself, nor are logits targets",
    "an operand returned as a fresh result": "only of a matrix of a single 1, or where the count is the number",
    "parameters ignored: their defaults taken": "the test looks at what is determined, the same for every shape of Q",
    "parameters kept from the first call": "the test looks at what is determined, the same for every shape of Q",
    "not thread-safe": "their results are the same for all numbers that the threads have",
    "a later write to an operand overtakes it": "numbers written later leave it undefined, or alike",
    "wrong in arrays above 1000 elements": "samples that long overflow, take too long, or fit no parameter",
    "wrong in arrays above 40 elements": "samples that long take too long, or fit no parameter",
    "infinite operands give NaN": "an infinite operand gives NaN nearly everywhere",
    "tail ignored (after the last multiple of 4)": "only the cases with a small result reach the kernel",
    "offset lost": "the numbers that lie before have the same mean but for float16's rounding",
    "strides ignored": "cotangents that reach the kernel are numbers",
    "fails for empty arrays": "an empty batch does not reach the kernel",
    "fails for one element": "a loss of one position does not reach the kernel",
}
"""Why the suite does not notice faults of a kind in the operations where it does not."""


def is_open(judged: Judged) -> bool:
    """Whether the fault breaks no promise: the suite leaves open what the operation makes of such operands."""
    if judged.kind == "subnormal numbers flushed" and TABLE[judged.op].extension:  # these are right to the size of all
        return judged.verdict in SURVIVED
    return judged.verdict in SURVIVED and any(judged.op in OPEN[form] for form in FORMS.get(judged.kind, ()))


def table(found: list[Judged]) -> str:
    """By kind: how many were noticed, and which were not, and why."""
    order = dict.fromkeys((judged.op for judged in found), 0) | {name: i for i, name in enumerate(TABLE)}
    rows = [
        "| fault | noticed | not noticed | left open | equivalent | which, and why |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for each in (*KINDS, BACKENDS):
        of_kind = sorted((judged for judged in found if judged.kind == each), key=lambda judged: order[judged.op])
        if each == CONTROL or not of_kind:
            continue
        counts = Counter("left open" if is_open(judged) else judged.verdict for judged in of_kind)
        names = [judged.op for judged in of_kind if judged.verdict in SURVIVED and not is_open(judged)]
        why = f"{', '.join(names)}: {REASONS.get(each, 'not looked into')}" if names else ""
        rows.append(
            f"| {each} | {counts['killed']} | {len(names)} | {counts['left open']} | {counts['equivalent']} | {why} |"
        )
    return "\n".join(rows)


def summary(found: list[Judged]) -> str:
    counts = Counter("left open" if is_open(judged) else judged.verdict for judged in found)
    total = counts["killed"] + sum(counts[verdict] for verdict in SURVIVED)
    return (
        f"Of {total} faults that can show, {counts['killed']} are noticed ({counts['killed'] / max(total, 1):.2%}). "
        f"{counts['equivalent']} more change no result,\nand {counts['left open']} break no promise: they do not count."
    )


def section(found: list[Judged]) -> str:
    """What the page says."""
    return (
        f"{HEADING}\n\n"
        "How sharp the suite is: the NumPy backend with one kernel made wrong in one way, for every operation with a kernel\n"
        "of its own and every kind of fault below. A fault is noticed when a test that concerns the operation fails. One that\n"
        "changes no result is equivalent to the sound kernel. Left open is what no definition settles, such as which of two\n"
        "zeros is the greater (`OPEN` in `micrograd_core/conformance/forms.py`). The last row are the backends of `plugins/faulty`,\n"
        "each with a fault in what is no kernel. Made by `python tests/mutants.py --write` on\n"
        f"{date.today()}, with NumPy {np.__version__} and Python {sys.version.split()[0]}.\n\n{summary(found)}\n\n{table(found)}\n"
    )


def write(found: list[Judged]) -> None:
    """Into the page, in the place of what it said."""
    page = PAGE.read_text(encoding="utf-8").partition(f"{HEADING}\n")[0].rstrip()
    PAGE.write_text(f"{page}\n\n{section(found)}", encoding="utf-8")


def listed() -> set[tuple[str, str]]:
    """Operation and kind of those that the page says nobody notices."""
    rows = re.findall(r"^\| (.*?) \|(?: \d+ \|){4} ([\w, ]+): ", PAGE.read_text(encoding="utf-8"), re.M)
    return {(name, kind) for kind, names in rows for name in names.split(", ")}


def main() -> int:
    parser = argparse.ArgumentParser(description="Which planted faults does the conformance suite notice?")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="only N of them, drawn with --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ops", default="", help="names with commas between them (default: all native kernels)")
    parser.add_argument("--kinds", default="", help="kinds with semicolons between them, or parts of their names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--verbose", action="store_true", help="say which test killed which mutant")
    parser.add_argument("--write", action="store_true", help="put the table into docs/conformance.md")
    options = parser.parse_args()
    parts = [part for part in options.kinds.split(";") if part]
    chosen = mutants(
        [name for name in options.ops.split(",") if name],
        [each for each in KINDS if any(part in each for part in parts)],
    )
    if options.sample:
        chosen = sorted(random.Random(options.seed).sample(chosen, min(options.sample, len(chosen))))
    began = time.monotonic()
    found = run(chosen, jobs=options.jobs, told=lambda line: print(line, file=sys.stderr, flush=True))
    if not (options.ops or options.kinds or options.sample):
        found += judge_backends()
    for judged in found:
        if options.verbose:
            print(f"{judged.op}: {judged.kind}: {judged.verdict} {judged.by} {judged.said[:100]}")
    print(f"{table(found)}\n\n{summary(found)} ({time.monotonic() - began:.0f} s)")
    if options.write:
        write(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
