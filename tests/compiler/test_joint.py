"""Nests that run in one launch: nothing moves before what it reads, and everything still runs once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from micrograd_core.compiler.fusion import Call, Limits, Plan, Run, plan
from micrograd_core.compiler.joint import Joint, joined, units
from micrograd_core.compiler.languages import OPENCL
from micrograd_core.compiler.nests import Draw, Load, Store, size
from micrograd_core.compiler.passes import optimized, written
from micrograd_core.compiler.program import Ref
from micrograd_core.dtypes import float32
from micrograd_core.layout import Layout

SEVERAL = range(3)
"""Seeds of programs in which some nests need nothing of each other."""
SHAPES = [(4, 6), (4, 6), (6,), (4, 1), (6, 6)]


def planned(seed: int, limits: Limits) -> Plan:
    """A plan of elementwise steps, reductions and products in any order."""
    rng = random.Random(seed)

    def f(k: Any, *given: Any) -> Any:
        values = [*given]
        for _ in range(30):
            x = rng.choice(values)
            match rng.choice(("unary", "binary", "sum", "product", "source")):
                case "unary":
                    made = k.exp(x)
                case "binary":
                    made = k.add(x, rng.choice([y for y in values if y.shape == x.shape]))
                case "sum":
                    made = k.sum(x, axis=(0,), keepdims=False) if x.shape else k.exp(x)
                case "source":
                    counted = k.arange(start=0, stop=rng.randint(2, 9), step=1, dtype=float32)
                    made = k.sum(counted, axis=(0,), keepdims=False)
                case _:
                    made = k.matmul(x, given[4]) if x.shape[-1:] == (6,) else k.exp(x)
            values.append(made)
        return tuple(rng.sample(values[len(given) :], 6))

    program = written(f, [(shape, float32) for shape in SHAPES], {})
    assert program is not None
    layouts = [Layout.contiguous(shape) for shape in SHAPES]
    return plan(optimized(program, OPENCL.covers), layouts, OPENCL.covers, limits)


def reads(step: Call | Run) -> set[int]:
    return set(step.inputs) if isinstance(step, Run) else {x.number for x in step.operands if isinstance(x, Ref)}


def makes(step: Call | Run) -> tuple[int, ...]:
    return step.outputs if isinstance(step, Run) else step.results


@pytest.mark.parametrize("most", [1 << 30, 8, 4])
@pytest.mark.parametrize("seed", range(20))
def test_what_a_launch_reads_was_made_before(seed: int, most: int) -> None:
    limits = Limits(buffers=most, row_bytes=0)
    apart = planned(seed, limits)
    found = joined(apart, limits)
    there = {*range(len(SHAPES))}
    for step in found.steps:
        assert reads(step) <= there
        there |= {*makes(step)}
    assert sorted(n for x in found.steps for n in makes(x)) == sorted(n for x in apart.steps for n in makes(x))
    assert [x for x in found.steps if isinstance(x, Call)] == [x for x in apart.steps if isinstance(x, Call)]
    assert (found.outputs, found.contiguous) == (apart.outputs, apart.contiguous)


@pytest.mark.parametrize("steps", [256, 6])
@pytest.mark.parametrize("seed", range(20))
def test_a_launch_has_the_nests_of_the_plan_with_their_buffers(seed: int, steps: int) -> None:
    """Each line still names the buffer of the same value, and no launch is larger than a nest may be."""
    limits = Limits(buffers=8, row_bytes=0, steps=steps)
    apart = {x.outputs: x for x in planned(seed, limits).steps if isinstance(x, Run)}
    several = 0
    for step in joined(planned(seed, limits), limits).steps:
        if isinstance(step, Run) and isinstance(step.nest, Joint):
            values, first = (*step.inputs, *step.outputs), 0
            assert len(values) == len(set(values)) == len(step.nest.buffers) <= 8
            assert sum(map(size, step.nest.nests)) <= limits.lines
            assert [x.role for x in step.nest.buffers] == ["in"] * len(step.inputs) + ["out"] * len(step.outputs)
            assert len(str(step.nest).split("nest(")) == 1 + len(step.nest.nests)
            for nest in step.nest.nests:
                one = next(x for made, x in apart.items() if made[0] == step.outputs[first])
                first += len(one.outputs)
                before = (*one.inputs, *one.outputs)
                for part, old in zip(nest.parts, one.nest.parts, strict=True):
                    for line, other in zip(part.lines, old.lines, strict=True):
                        if isinstance(line, (Load, Store, Draw)) and line.buffer is not None:
                            assert values[line.buffer] == before[other.buffer]
                        else:
                            assert line == other
            several += 1
            total = sum(-(-units(x, (), 4) // 4) * 4 for x in step.nest.nests)
            assert units(step.nest, (), 4) == total
    assert several or seed not in SEVERAL or steps < 256


def test_a_row_with_scratch_memory_is_a_launch_of_its_own() -> None:
    limits = Limits()  # scratch memory for rows

    def f(k: Any, x: Any, y: Any) -> Any:
        return tuple([k.multiply(k.exp(z), k.sum(k.exp(z), axis=(1,), keepdims=True)) for z in (x, y)])

    program = written(f, [((4, 6), float32), ((5, 6), float32)], {})
    assert program is not None
    layouts = [Layout.contiguous((4, 6)), Layout.contiguous((5, 6))]
    found = plan(optimized(program, OPENCL.covers), layouts, OPENCL.covers, limits)
    assert [b.role for x in found.steps if isinstance(x, Run) for b in x.nest.buffers].count("scratch") == 2
    assert joined(found, limits) == found
