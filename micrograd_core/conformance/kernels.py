"""Kernels: the device's own, on other numbers and shapes than the samples', called again, late, and at once."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np

from micrograd_core import errors, random
from micrograd_core.array.creation import arange, full
from micrograd_core.array.tensor import Tensor
from micrograd_core.conformance.base import Suite, kept
from micrograd_core.conformance.cases import HALF, ROUNDING, Case, apart, contiguous, download, held, rounded, usual
from micrograd_core.conformance.forms import FORMS, NUMBERS, OPEN, TWICE
from micrograd_core.conformance.operations import FACTOR, aliases_nothing
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES
from micrograd_core.engine.modes import no_grad
from micrograd_core.ops import TABLE, Array, Op

REFUSALS = (errors.ShapeError, errors.DTypeError, errors.IndexingError, errors.LinAlgError, errors.UnsupportedDType)
"""What the core itself says of operands that an operation does not take."""


LONGEST = 1_000_000
"""Numbers in a result that are worth their time."""


class Kernels(Suite):
    """Kernels of the device's own; compositions are made of them."""

    def test_forms(self, formed: tuple[Op, str], opened: Device) -> None:
        """Other numbers (NaN, infinities, zeros of both signs, large integers), and other shapes."""
        op, dtype = formed
        if not opened.kernels.is_native(op.name):
            return
        shapes = dtype in usual(opened.kernels.backend.dtypes)
        for plain in contiguous(op, dtype, opened):
            for form in FORMS if shapes else NUMBERS:
                if op.name in OPEN.get(form, ()) or (form == TWICE and not _pair(plain)):
                    continue
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")  # NumPy's, about the mean of nothing
                    _check(plain._replace(form=form), opened)

    def test_creation(self, dtype: str, opened: Device) -> None:
        """Filled with a number, or counted up, to any length; and each result in memory of its own."""
        value = rounded(1 if dtype == "bool" else 3 if DTYPES[dtype].is_integer else 0.1, dtype)
        number = value.item()
        for shape in ((), (3,), (0,), (40, 50)):
            first, other = (full(shape, each, dtype=dtype, device=opened) for each in (number, type(number)(0)))
            assert np.array_equal(download(first), np.full(shape, value)), f"full of {shape} in {dtype}"
            assert not download(other).any(), f"full of {shape} in {dtype}, with 0"
            first[...] = type(number)(0)
            again = download(full(shape, number, dtype=dtype, device=opened))
            assert np.array_equal(again, np.full(shape, value)), f"full of {shape} in {dtype}, after a write to another"
        for count in () if dtype == "bool" or DTYPES[dtype].is_complex else (0, 1, 103, 2003):
            expected = rounded(np.arange(count).astype("int64"), dtype)
            if dtype not in ("int8", "uint8") or count <= 103:
                found = download(arange(count, dtype=dtype, device=opened))
                assert np.array_equal(found, expected), f"arange({count}) in {dtype}"

    def test_calls(self, op: str, opened: Device) -> None:
        """The same call gives the same bits; a later write to an operand does not reach a result; nothing is kept."""
        with no_grad(), np.errstate(all="ignore"):
            for each in (max(those, key=_count) for _, those in groupby(_cases(op, opened), attrgetter("dtype"))):
                found = _called(each, opened)
                if found is None:  # its result has a dtype that the device does not have
                    continue
                first, again = _bits(found), _bits(each.call(each.tensors(opened)))
                assert first == again, f"{each.id}: other bits in a second call: {again}, and {first} in the first"
            for case in _usual(op, opened):
                first = _bits(case.call(case.tensors(opened)))
                result = case.call(case.tensors(opened))
                for other in _others(case, "rough", "zeros", "ones", "backwards", "doubled"):
                    late = _called(other, opened)
                    assert _bits(result) == first, (
                        f"{case.id}: after a call with other numbers it is {_bits(result)}, not {first}"
                    )
                    if not TABLE[op].view and late is not None:
                        _overwrite(case, other, first, opened)
                work = partial(case.call, case.tensors(opened))
                leaked = kept(opened, work, 2, 50) if "in_use" in opened.memory() else 0
                assert leaked <= 0, f"{case.id}: {leaked} bytes stay in use after 50 calls whose results are gone"

    def test_calls_at_once(self, op: str, opened: Device) -> None:
        """Threads call the kernel, each with numbers of its own."""
        for usual_case in _usual(op, opened):
            own = _others(usual_case, "", "backwards", "rough", "zeros", "ones", "doubled")
            with no_grad(), np.errstate(all="ignore"):
                own = [case for case in own if _called(case, opened) is not None]
            calls = {case.id: partial(_called, case, opened) for case in own}
            at_once({**calls, f"{usual_case.id} again": calls[usual_case.id]})

    def test_creation_at_once(self, opened: Device) -> None:
        """Threads make arrays of one shape, each with numbers of its own."""
        calls: dict[str, Callable[[], Tensor]] = {
            f"full of {n}": partial(full, (3,), float(n), device=opened) for n in range(3)
        }
        calls |= {f"arange from {n}": partial(arange, n, n + 3, device=opened) for n in range(3)}
        if "random" in opened.capabilities:
            for make in (random.uniform, random.permutation, partial(random.randint, low=0, high=1000)):
                for seed in range(3):
                    calls[f"{make} of seed {seed}"] = partial(_drawn, make, seed, opened)
        at_once(calls)


def _drawn(make: Callable[..., Tensor], seed: int, device: Device) -> Tensor:
    """Forty random numbers of a seed."""
    return make(40, generator=random.Generator(seed), device=device)


def _cases(op: str, device: Device) -> list[Case]:
    """The cases of a native kernel in a dtype of each kind."""
    if not device.kernels.is_native(op) or not TABLE[op].operands:
        return []
    dtypes = device.kernels.backend.dtypes
    found = [case for dtype in (*usual(dtypes), "uint64") for case in contiguous(TABLE[op], dtype, device)]
    return [case for case in found if case.sample.params.get("dtype", case.dtype) in dtypes]


def _usual(op: str, device: Device) -> list[Case]:
    """The cases of a native kernel in one dtype, which reaches it without a cast if one does; it may decline some."""
    cast = TABLE[op].cast or (lambda dtype: dtype)
    found = _cases(op, device)
    best = max(found, key=lambda case: (cast(DTYPES[case.dtype]) is DTYPES[case.dtype], *_count(case)), default=None)
    return [case for case in found if case.dtype == best.dtype] if best else []


def at_once(calls: Mapping[str, Callable[[], Any]]) -> None:
    """Each call gives in a thread of its own, beside the others, what it gives alone."""
    wrong: list[str] = []
    together = threading.Barrier(len(calls))

    def work(name: str, alone: str) -> None:
        together.wait()
        try:
            with no_grad(), np.errstate(all="ignore"):
                for _ in range(4):
                    now = _bits(calls[name]())
                    if now != alone:
                        wrong.append(f"{name}: beside other threads the result is {now}, alone {alone}")
        except Exception as error:
            wrong.append(f"{name}: beside other threads: {error!r}")

    with no_grad(), np.errstate(all="ignore"):
        threads = [threading.Thread(target=work, args=(name, _bits(call()))) for name, call in calls.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]


def _others(case: Case, *forms: str) -> list[Case]:
    """The case with other numbers, of which its operation makes something definite."""
    return [case._replace(form=form) for form in forms if case.op.name not in OPEN.get(form, ())]


def _count(case: Case) -> tuple[int, int]:
    """Numbers in the result, and in all operands."""
    operands = case.sample.operands
    return case.expected().size, sum(int(np.prod(x.shape)) for x in operands if isinstance(x, Array))


def _pair(case: Case) -> bool:
    """Whether the second operand may stand in the place of the first."""
    operands = case.sample.operands
    dtypes = {x.dtype if isinstance(x, Array) else None for x in operands[:2]}
    return len(operands) > 1 and len(dtypes) == 1 and None not in dtypes and not {0, 1} & {*case.op.separate}


def _called(case: Case, device: Device) -> Tensor | None:
    """The result of a case, unless its numbers have none."""
    try:
        return case.call(case.tensors(device))
    except REFUSALS:
        return None


def _overwrite(case: Case, other: Case, first: str, device: Device) -> None:
    """A later write to an operand, of the numbers of another case, does not reach the result."""
    operands = case.tensors(device)
    result = case.call(operands)
    for operand, numbers in zip(operands, other.tensors(device), strict=True):
        if isinstance(operand, Tensor) and operand.size:
            operand[...] = numbers
    late = _bits(result)
    assert late == first, f"{case.id}: after a later write to its operands the result is {late}, not {first}"


def _bits(x: Tensor) -> str:
    return f"{x.dtype} {x.tolist()}"


def _check(case: Case, device: Device) -> None:
    """The numbers of the definition, unless either it or the core refuses such operands."""
    try:
        expected = case.expected()
    except (ValueError, IndexError, TypeError, ZeroDivisionError):  # NumPy's own refusals
        return
    if expected.size > LONGEST:
        return
    operands = case.tensors(device)
    try:
        with no_grad():
            found = case.call(operands)
    except REFUSALS:
        return
    assert found.shape == expected.shape, f"{case.id}: shape {found.shape}, expected {expected.shape}"
    numbers = held(found, expected)
    exact = expected.dtype.kind in "biu"
    wrong = numbers != expected if exact else _wrong(case, numbers, expected, str(found.dtype))
    if wrong.any():
        raise AssertionError(
            f"{case.id}: got {numbers[wrong][:4].tolist()}, expected {expected[wrong][:4].tolist()}, of "
            + " and ".join(str(x) for x in case.arrays())
        )
    if not case.op.view:
        aliases_nothing(case, operands, found)


def _wrong(case: Case, found: Any, expected: Any, dtype: str) -> Any:
    """Where a number is neither near the definition's nor what NumPy makes of it in the dtype itself."""
    exact = rounded(expected, dtype).astype(found.dtype)
    rounding = ROUNDING.get(dtype, 2.0**-52)
    name = case.op.name
    size = np.maximum(np.where(np.isfinite(exact), np.abs(exact), 1), 1)
    if case.op.extension or case.form in ("long", "longer", "tiled"):  # the order of long sums is the library's
        size = (64 if case.op.extension else 16) * np.maximum(size, size.max(initial=1) if case.op.extension else 1)
    size = FACTOR * rounding * size

    def judged(slack: Any) -> tuple[Any, Any]:
        """Which numbers are near, in real and imaginary part, and which have lost a sign or a subnormal value."""
        near, lost = np.ones(found.shape, "bool"), np.zeros(found.shape, "bool")
        for x, y in zip(_parts(found), _parts(exact), strict=True):
            near &= ~apart(x, y, slack)
            if found.dtype.kind == "f" and name not in OPEN["sign of zero"]:
                lost |= (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
            if found.dtype.kind == "f" and not case.op.extension:
                lost |= (x == 0) & (y != 0)
        return near, lost

    near, lost = judged(size)
    if found.dtype.kind == "c":  # which parts of it are NaN or infinite each library has its own way with
        near |= ~np.isfinite(found) & ~np.isfinite(exact)
    if near.all() and not lost.any():
        return lost
    own = case.expected(case.dtype).astype(found.dtype)
    slack = FACTOR * np.abs(own - exact) / (ROUNDING[HALF[dtype]] / rounding if dtype in HALF else 1)
    nearer, lost = judged(size + np.where(np.isfinite(slack), slack, 0))
    near |= nearer
    for x, y in zip(_parts(own), _parts(exact), strict=True):
        near |= (np.isnan(x) != np.isnan(y)) | (np.isinf(x) != np.isinf(y))
        lost &= (x == y) & ((x != 0) | (np.signbit(x) == np.signbit(y)))
    return ~near | lost


def _parts(x: Any) -> list[Any]:
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]
