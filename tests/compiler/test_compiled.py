"""What the cpu backend compiles: the same numbers as its kernels in a row, on programs by generation."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device
from micrograd_core.compiler.outlines import Outline
from micrograd_core.compiler.program import Program, Ref, Step, straight_line, typed
from micrograd_core.dtypes import DTYPES

sys.path.insert(0, str(Path(__file__).parent))
import generated

pytest.importorskip("llvmlite")

MANY = os.environ.get("MICROGRAD_EXHAUSTIVE", "0") not in ("", "0")
ROUNDING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MICROGRAD_CACHE", "off")
    with np.errstate(all="ignore"):
        yield


def in_a_row(program: Program, *handles: Any) -> tuple[Any, ...]:
    """What a program means."""
    kernels = Device("cpu").kernels
    return straight_line(program, lambda op: getattr(kernels, op))(*handles)


def one(op: str, *types: Outline, **params: Any) -> Program:
    """A program of one step."""
    refs = tuple(Ref(n) for n in range(len(types)))
    return typed(Program(len(types), (Step(op, refs, params),), (Ref(len(types)),)), types)


def assert_bits(found: Any, expected: Any, about: Any) -> None:
    """The same dtype, shape and numbers; zeros have the same sign."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), about
    f, e = np.asarray(found), np.asarray(expected)
    if f.dtype.name in ROUNDING:
        f, e = f.astype("float64"), e.astype("float64")
        same = (f == e) & (np.signbit(f) == np.signbit(e)) | (np.isnan(f) & np.isnan(e))
    else:
        same = f == e
    assert same.all(), f"{about}\n{found}\n{expected}"


def check(program: Program, handles: list[Any], about: str) -> None:
    found = Device("cpu").kernels.compile(program)(*handles)
    for x, y, ref in zip(found, in_a_row(program, *handles), program.outputs, strict=True):
        assert_bits(x, y, f"{about}: {ref} of\n{program}")


@pytest.mark.parametrize("seed", range(600 if MANY else 60))
def test_programs_of_small_integers_agree_to_the_last_bit(seed: int) -> None:
    """Signs of zeros aside, which sums of integers in floats have as it comes."""
    rng = random.Random(seed)
    program = generated.exact(rng, rng.randrange(1, 14))
    handles = generated.handles(rng, program, Device("cpu"), "integers")
    found = Device("cpu").kernels.compile(program)(*handles)
    for x, y, ref in zip(found, in_a_row(program, *handles), program.outputs, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape), program
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y), err_msg=f"{ref} of\n{program}")


@pytest.mark.parametrize("seed", range(300 if MANY else 30))
def test_arithmetic_of_special_values_agrees_to_the_last_bit(seed: int) -> None:
    rng = random.Random(seed)
    program = generated.special(rng, rng.randrange(1, 10), rng.choice(("float32", "float64", "float16", "bfloat16")))
    check(program, generated.handles(rng, program, Device("cpu"), "special"), f"seed {seed}")


@pytest.mark.parametrize("seed", range(400 if MANY else 40))
def test_smooth_programs_agree_as_far_as_kernels_are_right(seed: int) -> None:
    """Within what the kernels' own distance from float64 is, and some roundings."""
    rng = random.Random(seed)
    dtype = rng.choice(("float32", "float64", "float16", "bfloat16"))
    program = generated.smooth(rng, rng.randrange(1, 8), dtype)
    handles = generated.handles(rng, program, Device("cpu"), "smooth")
    found, usual = Device("cpu").kernels.compile(program)(*handles), in_a_row(program, *handles)
    types = [Outline(x.shape, DTYPES["float64"]) for x in program.types[: program.inputs]]
    exact = in_a_row(typed(program._replace(types=()), types), *[np.asarray(x).astype("float64") for x in handles])
    for x, y, truth, ref in zip(found, usual, exact, program.outputs, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape), program
        x, y = (np.asarray(each).astype("float64") for each in (x, y))
        allowed = 4 * np.abs(y - truth).max(initial=0) + 64 * ROUNDING[dtype] * (1 + np.abs(truth))
        wrong = ~(np.abs(x - y) <= allowed) & ~(np.isnan(x) & np.isnan(y)) & (x != y)
        assert not wrong.any(), f"{ref} of\n{program}\n{x[wrong]}\n{y[wrong]}\n{truth[wrong]}"
