"""Programs with casts of weights taken out of them: the same numbers, from what goes from call to call."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device
from micrograd_core.compiler.casts import kept_casts
from micrograd_core.compiler.executor import straight_line
from micrograd_core.compiler.program import Program, Ref, Step, typed
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.dtypes import bfloat16, float16, float32, float64

W = TensorSpec((4, 4), float32)
HALF, BRAIN = {"dtype": float16}, {"dtype": bfloat16}


def run(program: Program, *handles: Any) -> tuple[Any, ...]:
    kernels = Device("cpu").kernels
    return straight_line(program, lambda op: getattr(kernels, op))(*handles)


def casts(program: Program) -> list[str]:
    return [str(step) for step in program.steps if step.op == "astype"]


def program(*made: Step, outputs: tuple[int, ...], types: tuple[TensorSpec, ...] = (W, W)) -> Program:
    return typed(Program(len(types), made, [Ref(n) for n in outputs]), types)


def test_what_an_output_takes_the_place_of_is_cast_as_that_is_made() -> None:
    """And what holds still is cast once."""
    found = kept_casts(
        program(
            Step("astype", (Ref(0),), HALF), Step("astype", (Ref(1),), HALF), Step("matmul", (Ref(2), Ref(3)), {}),
            Step("multiply", (Ref(1), 0.5), {}), outputs=(4, 5),
        ), [0, 1], {1: 1},
    )  # fmt: skip
    assert (found.casts, found.renewed) == (((1, float16), (0, float16)), 1)
    assert (found.taking.inputs, len(found.taking.outputs), len(found.making.outputs)) == (4, 3, 4)
    assert len(casts(found.making)) == 3
    assert len(casts(found.taking)) == 1


def test_a_cast_of_a_view_is_a_view_of_the_cast() -> None:
    """Both of one cast, where the view has all elements; of a few it is not worth that all are cast."""
    turned, flipped = {"axes": (1, 0)}, {"axis": (0,)}
    given = program(
        Step("permute_dims", (Ref(0),), turned), Step("astype", (Ref(2),), HALF), Step("flip", (Ref(2),), flipped),
        Step("astype", (Ref(4),), HALF), Step("matmul", (Ref(5), Ref(3)), {}), outputs=(6,),
    )  # fmt: skip
    found = kept_casts(given, [0], {})
    assert found.casts == ((0, float16),)
    assert (casts(found.making), casts(found.taking)) == (["astype(%0, dtype=float16)"], [])
    a = np.arange(16, dtype="float32").reshape(4, 4)
    (right,), (got, cast) = run(given, a, a), run(found.making, a, a)
    assert right.tolist() == got.tolist() == run(found.taking, a, a, cast)[0].tolist()
    part = program(
        Step("getitem", (Ref(0),), {"key": (slice(1, 3),)}), Step("astype", (Ref(2),), HALF),
        Step("add", (Ref(3), Ref(3)), {}), outputs=(4,),
    )  # fmt: skip
    assert kept_casts(part, [0], {}).casts == ()


def test_of_two_half_types_the_first_is_kept() -> None:
    made = Step("astype", (Ref(0),), HALF), Step("astype", (Ref(0),), BRAIN), Step("astype", (Ref(3),), HALF)
    found = kept_casts(program(*made, Step("add", (Ref(2), Ref(4)), {}), outputs=(5,)), [0], {})
    assert found.casts == ((0, float16),)
    assert casts(found.taking) == ["astype(%0, dtype=bfloat16)", "astype(%3, dtype=float16)"]


@pytest.mark.parametrize("view", [None, Step("permute_dims", (Ref(2),), {"axes": (1, 0)})])
@pytest.mark.parametrize("what", ["it", "what it becomes"])
def test_what_is_given_out_is_not_kept(what: str, view: Step | None) -> None:
    """Nor what is seen in it: whoever has it may write."""
    half, twice = Step("multiply", (Ref(0), 0.5), {}), Step("add", (Ref(2), Ref(2)), {})
    if what == "it":
        made = [Step("astype", (Ref(0),), HALF), *([] if view is None else [view]), twice]
        found = kept_casts(program(*made, outputs=(len(made), len(made) + 1)), [0], {})
    else:
        seen = Step("permute_dims", (Ref(4),), {"axes": (1, 0)})
        made = [Step("astype", (Ref(0),), HALF), half, Step("astype", (Ref(3),), HALF), twice]
        made += [] if view is None else [seen]
        found = kept_casts(program(*made, outputs=(3, 5, 6 if view else 4)), [0], {0: 0})
    assert found.casts == ()


def test_a_cast_of_what_another_weight_becomes_is_given_out() -> None:
    """Neither is kept: one memory would be the caller's, too."""
    made = (
        Step("astype", (Ref(1),), HALF), Step("flip", (Ref(1),), {"axis": (0,)}),
        Step("permute_dims", (Ref(1),), {"axes": (1, 0)}), Step("astype", (Ref(4),), HALF),
        Step("add", (Ref(5), Ref(5)), {}),
    )  # fmt: skip
    assert kept_casts(program(*made, outputs=(3, 2, 6)), [0, 1], {0: 0}).casts == ()


@pytest.mark.parametrize(
    "made",
    [
        (Step("astype", (Ref(1),), HALF), Step("add", (Ref(2), Ref(2)), {})),  # no weight
        (Step("astype", (Ref(0),), {"dtype": float64}), Step("add", (Ref(2), Ref(2)), {})),  # nothing smaller
        (Step("negative", (Ref(0),), {}), Step("astype", (Ref(2),), HALF)),  # of something else
        (Step("negative", (Ref(1),), {}), Step("astype", (Ref(0),), HALF)),  # somebody keeps it already
    ],
)
def test_other_casts_stay(made: tuple[Step, ...]) -> None:
    given = program(*made, outputs=(1 + len(made),))
    found = kept_casts(given, [0], {})
    assert (found.making, found.taking, found.casts) == (given, given, ())


def test_a_weight_that_becomes_a_view_of_another_is_cast_anew() -> None:
    """As the weights of a network that follows another one do; what it was is no cast of what it becomes."""
    found = kept_casts(
        program(
            Step("astype", (Ref(0),), HALF), Step("permute_dims", (Ref(1),), {"axes": (1, 0)}), outputs=(2, 3)
        ), [0, 1], {0: 1},
    )  # fmt: skip
    assert found.casts == ()
    found = kept_casts(
        program(
            Step("astype", (Ref(0),), HALF), Step("add", (Ref(2), Ref(2)), {}),
            Step("permute_dims", (Ref(1),), {"axes": (1, 0)}), outputs=(3, 4),
        ), [0, 1], {0: 1},
    )  # fmt: skip
    a, b = (np.arange(16, dtype="float32").reshape(4, 4) + i for i in range(2))
    assert (
        run(found.making, a, b)[2].tolist() == b.T.tolist() == run(found.taking, a, b, a.astype("float16"))[2].tolist()
    )


@pytest.mark.parametrize("seed", range(150))
def test_generated_programs_give_the_same(seed: int) -> None:
    """Three calls of each, weights that go on from call to call, beside the program as it was."""
    rng = random.Random(seed)
    made, types = list[Step](), [W] * 4
    for _ in range(rng.randrange(6, 20)):
        x = rng.choice(
            [*map(Ref, range(len(types)))] + [Ref(n) for n, each in enumerate(types) if each.dtype is float32]
        )
        narrow = types[x.number].dtype is float16
        step = rng.choice(
            [
                Step("astype", (x,), {"dtype": float32 if narrow else float16}),
                Step("astype", (x,), {"dtype": float32 if narrow else float16}),
                Step("permute_dims", (x,), {"axes": (1, 0)}), Step("flip", (x,), {"axis": (0,)}),
                Step("getitem", (x,), {"key": (slice(1, None),)}),
                Step("getitem", (x,), {"key": (slice(None), slice(0, 3))}),
                Step("sin", (x,), {}),
            ]
        )  # fmt: skip
        made.append(step)
        types = list(typed(Program(4, made, []), types[:4]).types)
    numbers = [n for n, x in enumerate(types) if n >= 4]
    wide = [n for n in numbers if types[n] == W]
    weights = rng.sample(range(3), rng.randrange(1, 4))
    renewed = {i: k for k, i in enumerate(weights[: rng.randrange(len(weights) + 1)]) if wide}
    outputs = [rng.choice(wide) for _ in renewed] + rng.sample(numbers, min(2, len(numbers)))
    whole = program(*made, outputs=tuple(outputs), types=(W,) * 4)
    found = kept_casts(whole, weights, renewed)
    assert all(i in renewed for i, _ in found.casts[: found.renewed])
    arrays = [np.random.default_rng(seed + i).normal(size=(4, 4)).astype("float32") for i in range(4)]
    kept: list[Any] = []
    for call in range(3):
        right = run(whole, *arrays)
        if call == 0:
            got = run(found.making, *arrays)
            kept = [*got[len(outputs) :]]
        else:
            got = run(found.taking, *arrays, *kept)
            kept[: found.renewed] = got[len(outputs) :]
        for x, y in zip(right, got, strict=False):
            np.testing.assert_array_equal(x, y)
            assert not any(np.shares_memory(y, cast) for cast in kept)
        for i, k in renewed.items():
            arrays[i] = right[k]
        arrays[3] = arrays[3] + 1
        for (i, _), x in zip(found.casts, kept, strict=True):
            np.testing.assert_array_equal(x, arrays[i].astype("float16"))
