"""Every module, called with and without `jit` in turns, in training and in evaluation: as without, one trace a mode."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from micrograd_core import jit, nn, random
from tests.interrupts import EXHAUSTIVE
from tests.nn.test_torch_modules import CASES, flat, given


def arguments(name: str, seed: int) -> tuple[list[Any], dict[str, Any], list[Any]]:
    rng, leaves = np.random.default_rng(seed), list[Any]()
    case = CASES[name]
    args = [given("ours", each, rng, leaves) for each in case.inputs]
    return args, {key: given("ours", each, rng, leaves) for key, each in case.given.items()}, leaves


def course(name: str, model: Any, order: list[int]) -> tuple[list[Any], Any]:
    """Results, gradients and the state over calls of which some are compiled."""
    compiled = jit(lambda *args, **others: model(*args, **others))
    found = list[Any]()
    random.manual_seed(0)
    for i, which in enumerate(order):
        if i % 6 == 0:
            model.train(i % 12 == 0)
        args, others, leaves = arguments(name, i)
        results = flat((compiled if which else model)(*args, **others))
        model.zero_grad()
        total = sum((each * each).sum() for each in results)
        if total.requires_grad:  # type: ignore[union-attr]
            total.backward()  # type: ignore[union-attr]
        kept = [*results, *(p.grad for p in (*leaves, *model.parameters())), *model.buffers()]
        found.append([None if x is None else x.detach().numpy().copy() for x in kept])
    return found, compiled


SAMPLE = [*[*CASES][::6], "CTCLoss", "BatchNorm1d", "BatchNorm1d, by all", "LSTM"]


@pytest.mark.parametrize("name", CASES if EXHAUSTIVE else dict.fromkeys(SAMPLE))
def test_calls_with_and_without_jit_may_alternate(name: str) -> None:
    with random.use_generator(0):
        model = CASES[name].make(nn).double()
    calls = 24 if EXHAUSTIVE else 14
    expected, _ = course(name, copy.deepcopy(model), [0] * calls)
    found, compiled = course(name, model, [0, 1] * (calls // 2))
    for mine, its in zip(found, expected, strict=True):
        for x, y in zip(mine, its, strict=True):
            assert (x is None) == (y is None)
            if x is not None:
                np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-8)
    assert compiled.traces <= 2, "one for each mode"


def test_a_function_may_change_the_mode_itself() -> None:
    def course(compiled: bool) -> list[Any]:
        with random.use_generator(0):
            model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
            x = random.normal((4, 3))

        def both(x: Any) -> Any:
            model.train()
            learned = model(x)
            model.eval()
            return learned, model(x)

        def only_evaluated(x: Any) -> Any:
            before = model.training
            model.eval()
            try:
                return model(x)
            finally:
                model.train(before)

        functions = [jit(f) if compiled else f for f in (both, only_evaluated)]
        found = list[Any]()
        for i in range(8):
            results = flat(functions[i % 2](x * i))
            found.append([*(y.tolist() for y in (*results, *model.buffers())), model.training, vars(model)["training"]])
            model.train(i % 3 == 0)
        assert not compiled or all(f.traces <= 4 for f in functions)  # type: ignore[attr-defined]
        return found

    for mine, its in zip(course(True), course(False), strict=True):
        for x, y in zip(mine, its, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
