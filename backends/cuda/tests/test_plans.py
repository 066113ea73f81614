"""What a call launches by plan is what it launches when all is decided anew. On a GPU, or played on the host."""

from __future__ import annotations

import importlib
import itertools
import math
import random
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import host
from cases import NO_COMPILER
from micrograd_core import Device, Tensor, set_matmul_precision

if find_spec("micrograd_cuda"):
    from micrograd_cuda import plans as plans_module
    from micrograd_cuda.biased import BiasedProducts

DEVICE = "cuda" if Device.is_cuda_available() else "played"
pytestmark = pytest.mark.skipif(DEVICE == "played" and host.COMPILER is None, reason=NO_COMPILER)
LAYOUTS = ("whole", "shifted", "turned", "stepped", "repeated", "backwards")
DTYPES = ("float16", "bfloat16", "float32", "float64")
WINDOWS = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1)}
POOLED = {"kernel_size": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}
IMAGES = (2, 4, 6, 6)
LOSS = {"ignore_index": -100, "label_smoothing": 0.0, "reduction": "mean"}
# By operation: shapes of the operands, where a tuple of a string and numbers is one of indices below the first number,
# a number itself; and parameters.
CALLS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "sum": [(((6, 8),), {"axis": axis, "keepdims": k}) for axis, k in ((None, False), ((0,), True), ((1,), False))],
    "mean": [((IMAGES,), {"axis": (0, 2, 3), "keepdims": False}), (((6, 8),), {"axis": (1,), "keepdims": True})],
    "max": [(((6, 8),), {"axis": (0,), "keepdims": False})],
    "matmul": [(((6, 8), (8, 5)), {}), (((2, 3, 6, 8), (2, 3, 8, 4)), {}), (((2, 6, 8), (8, 4)), {})],
    "linear": [(((6, 8), (4, 8), (4,)), {}), (((2, 6, 8), (4, 8), (4,)), {}), (((6, 8), (4, 8), 0.0), {})],
    "relu_gradient": [(((6, 8), (6, 8)), {})],
    "softmax": [(((2, 6, 8),), {"axis": 2}), (((2, 6, 8),), {"axis": 1})],
    "logsumexp": [(((6, 8),), {"axis": (1,), "keepdims": False})],
    "softmax_gradient": [(((6, 8), (6, 8)), {"axis": 1})],
    "attention_weights": [(((2, 6, 8), 0.0), {"is_causal": True}), (((2, 6, 8), (6, 8)), {"is_causal": False})],
    "attention_weights_gradient": [(((2, 6, 8), (2, 6, 8)), {"is_causal": True})],
    "layer_norm": [(((2, 6, 8), (8,), (8,)), {"axis": (2,), "eps": 1e-5})],
    "rms_norm": [(((2, 6, 8), (8,)), {"axis": (2,), "eps": 1e-5})],
    "standardize": [((IMAGES,), {"axis": (0, 2, 3), "eps": 1e-5})],
    "standardize_gradient": [(((2, 6, 8), (2, 6, 8), (8,)), {"axis": (2,), "eps": 1e-5})],
    "layer_norm_weight_gradient": [(((2, 6, 8), (2, 6, 8)), {"axis": (2,), "eps": 1e-5})],
    "cross_entropy": [(((6, 8), ("below", 8, 6), 1.0), LOSS)],
    "cross_entropy_gradient": [(((), (6, 8), ("below", 8, 6), 1.0), LOSS)],
    "embedding": [((("below", 7, 2, 5), (7, 8)), {})],
    "embedding_gradient": [(((2, 5, 8), ("below", 7, 2, 5)), {"num_embeddings": 7})],
    "conv2d": [((IMAGES, (3, 4, 3, 3), (3,)), {"groups": 1, **WINDOWS})],
    "conv_transpose2d": [((IMAGES, (4, 3, 3, 3), 0.0), {"groups": 1, "output_padding": (0, 0), **WINDOWS})],
    "conv2d_weight_gradient": [(((2, 3, 6, 6), IMAGES), {"groups": 1, "kernel_size": (3, 3), **WINDOWS})],
    "max_pool2d": [((IMAGES,), POOLED)],
    "max_pool2d_gradient": [(((2, 4, 3, 3), IMAGES), POOLED)],
    "batch_norm": [((IMAGES, 0.0, 1.0, (4,), (4,)), {"training": True, "eps": 1e-5})],
    "batch_norm_gradient": [((IMAGES, IMAGES, (4,)), {"eps": 1e-5})],
    "copy": [(((6, 8),), {})],
}


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The device's: none yet."""
    found = Device(DEVICE).kernels.backend.runtime.plans
    found.forget()
    yield found
    found.forget()


def kernel(name: str) -> Callable[..., Any]:
    found = Device(DEVICE).kernels.backend.kernel(name)
    assert found is not None
    return found


def laid(shape: tuple[int, ...], dtype: str, layout: str, rng: np.random.Generator) -> Any:
    """An array of small numbers that lies so in its memory."""

    def whole(shape: tuple[int, ...]) -> Any:
        return Tensor(rng.integers(-4, 5, shape) / 4, dtype=dtype, device=DEVICE)._handle

    if layout == "whole" or not shape:
        return whole(shape)
    if layout == "shifted":
        return whole((math.prod(shape) + 1,))[1:].reshape(shape)
    if layout == "turned":
        return whole(shape[::-1]).transpose(tuple(range(len(shape)))[::-1])
    if layout == "stepped":
        return whole((*shape[:-1], 2 * shape[-1]))[..., ::2]
    if layout == "backwards":
        return whole(shape)[::-1]
    repeated = whole((1, *shape[1:]))
    return Device(DEVICE).kernels.backend.xp.broadcast_to(repeated, shape)


def operands(shapes: tuple[Any, ...], dtype: str, layouts: tuple[str, ...], seed: int) -> list[Any]:
    rng, found = np.random.default_rng(seed), []
    for shape, layout in zip(shapes, layouts, strict=True):
        if isinstance(shape, float):
            found.append(shape)
        elif shape[:1] == ("below",):
            found.append(Tensor(rng.integers(shape[1], size=shape[2:]), device=DEVICE)._handle)
        else:
            found.append(laid(shape, dtype, layout, rng))
    return found


def told(result: Any) -> list[Any]:
    """Bits, shape, dtype and strides."""
    parts = result if isinstance(result, tuple) else (result,)
    return [((x.get() if hasattr(x, "get") else x).tobytes(), x.shape, str(x.dtype), x.strides) for x in parts]


def check(name: str, given: list[Any], params: dict[str, Any], plans: Any) -> bool:
    """That a call gives what it gives when all is decided for it; whether it went by a plan."""
    Device(DEVICE).kernels.backend.runtime.remembered.forget()
    used: list[Any] = []
    kept = plans.kept
    plans.kept = Counting(kept, used)
    found = kernel(name)(*given, **params)
    Device(DEVICE).kernels.backend.runtime.remembered.forget()
    plans.kept, seen, plans._seen = {}, plans._seen, {}
    try:
        expected = kernel(name)(*given, **params)
    finally:
        plans.kept, plans._seen = kept, seen
    if found is NotImplemented or expected is NotImplemented:
        assert found is expected
        return False
    assert told(found) == told(expected)
    return bool(used)


class Counting(dict[Any, Any]):
    """Plans, and whether any was found."""

    def __init__(self, kept: dict[Any, Any], used: list[Any]) -> None:
        super().__init__(kept)
        self.kept, self.used = kept, used

    def get(self, key: Any, default: Any = None) -> Any:
        found = super().get(key, default)
        self.used += [found] if found is not None else []
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        self.kept[key] = value

    def clear(self) -> None:
        super().clear()
        self.kept.clear()


SAMPLES = [(name, i) for name, calls in CALLS.items() for i in range(len(calls))]
PLAIN_ONES = ("copy",)
"""Of which the decision is kept elsewhere, or for some dtypes."""


@pytest.mark.parametrize(("name", "number"), SAMPLES, ids=[f"{name}-{i}" for name, i in SAMPLES])
def test_a_plan_does_what_would_be_decided(name: str, number: int, plans: Any) -> None:
    """For other arrays that lie the same; among those that lie otherwise, and are of other dtypes."""
    shapes, params = CALLS[name][number]
    pick = random.Random(f"{name}{number}")
    every = list(itertools.product(LAYOUTS, repeat=len(shapes)))
    chosen = [("whole",) * len(shapes), *pick.sample(every, min(6, len(every)))]
    dtypes = ["float32", pick.choice(DTYPES)]
    by_plan = []
    for seed in range(4):
        for dtype, layouts in itertools.product(dtypes, chosen):
            by_plan.append(check(name, operands(shapes, dtype, layouts, seed), params, plans))
    count = len(dtypes) * len(chosen)
    if name not in PLAIN_ONES:
        assert by_plan[2 * count], "the third call goes by plan"


def test_a_plan_that_is_not_the_calls_own_is_noticed(plans: Any) -> None:
    """The test above can fail: of each fact that decides, what was kept for another is planted."""
    shape = (6, 8)
    other: dict[str, tuple[Any, dict[str, Any]]] = {
        "axis": (shape, {"axis": (0,), "keepdims": False}),
        "keepdims": (shape, {"axis": (1,), "keepdims": True}),
        "shape": ((12, 8), {"axis": (1,), "keepdims": False}),
    }
    for what, (its_shape, params) in other.items():
        plans.forget()
        for seed in range(3):
            check("sum", operands((its_shape,), "float32", ("whole",), seed), params, plans)
        (planted,) = plans.kept.values()
        for seed in range(3):
            own = {"axis": (1,), "keepdims": False}
            check("sum", operands((shape,), "float32", ("whole",), seed), own, plans)
        for key in plans.kept:
            plans.kept[key] = planted
        with pytest.raises(AssertionError):
            check("sum", operands((shape,), "float32", ("whole",), 9), own, plans)
        assert what


def test_how_it_lies_decides(plans: Any) -> None:
    """Strides, dtype, alignment: for each a plan of its own."""
    for seed in range(3):
        for dtype in ("float16", "float32"):
            for layout in ("whole", "shifted", "turned", "backwards"):
                check("softmax", operands(((6, 8),), dtype, (layout,), seed), {"axis": 1}, plans)
    assert len(plans.kept) == 8


def test_numbers_decide_with_their_class_and_sign(plans: Any) -> None:
    x = operands(((6, 8),), "float32", ("whole",), 0)[0]
    norm = kernel("layer_norm")
    for eps in (1e-5, 1e-3, 1e-5, 1e-3, 1e-5, 1e-3):
        norm(x, 1.0, 0.0, axis=(1,), eps=eps)
    assert len(plans.kept) == 2
    patches = kernel("patches")
    windows = {"kernel_size": (2, 2), "stride": (1, 1), "padding": (1, 1), "dilation": (1, 1)}
    image = operands(((1, 1, 2, 2),), "float32", ("whole",), 0)[0]
    for fill in (0.0, -0.0) * 3:
        corner = np.frombuffer(told(patches(image, fill=fill, **windows))[0][0], "float32")[0]
        assert str(corner) == str(fill)


def test_precision_decides(plans: Any) -> None:
    x, y = operands(((6, 8), (8, 5)), "float32", ("whole", "whole"), 0)
    try:
        for precision in ("highest", "high") * 3:
            set_matmul_precision(precision)
            kernel("matmul")(x, y)
    finally:
        set_matmul_precision("highest")
    assert len(plans.kept) == 2


def test_one_array_in_two_places_makes_no_plan_and_takes_one(plans: Any) -> None:
    for seed in range(3):
        (x,) = operands(((6, 8),), "float32", ("whole",), seed)
        check("softmax_gradient", [x, x], {"axis": 1}, plans)
    assert not plans.kept
    for seed in range(3):
        check("softmax_gradient", operands(((6, 8), (6, 8)), "float32", ("whole",) * 2, seed), {"axis": 1}, plans)
    (x,) = operands(((6, 8),), "float32", ("whole",), 5)
    assert check("softmax_gradient", [x, x], {"axis": 1}, plans)


def test_views_of_one_memory_are_operands_of_their_own(plans: Any) -> None:
    """As queries and keys are that one product has given."""
    for seed in range(3):
        (both,) = operands(((2, 6, 2, 8),), "float32", ("whole",), seed)
        used = check("matmul", [both[:, :, 0], both[:, :, 1].swapaxes(-1, -2)], {}, plans)
    assert used
    (both,) = operands(((2, 6, 2, 8),), "float32", ("whole",), 7)
    apart = [operands(((2, 6, 2, 8),), "float32", ("whole",), seed)[0] for seed in (8, 9)]
    assert check("matmul", [both[:, :, 1], both[:, :, 0].swapaxes(-1, -2)], {}, plans)
    assert check("matmul", [apart[0][:, :, 1], apart[1][:, :, 0].swapaxes(-1, -2)], {}, plans)


def test_results_have_memory_of_their_own(plans: Any) -> None:
    (x,) = operands(((6, 8),), "float32", ("whole",), 0)
    results = [kernel("softmax")(x, axis=1) for _ in range(4)]
    assert len({Device(DEVICE).kernels.backend.runtime.address(each) for each in results}) == 4


def test_what_the_array_library_computes_is_not_planned(plans: Any) -> None:
    """A weight that is a number is made an array by it."""
    for seed in range(4):
        given = operands(((6, 8), (6, 8)), "float32", ("whole",) * 2, seed)
        assert not check("standardize_gradient", [*given, 2.0], {"axis": (1,), "eps": 1e-5}, plans)
    assert not plans.kept


def test_there_are_so_many_at_most(plans: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans_module, "MOST_PLANS", 4)
    for length, _ in itertools.product(range(1, 12), range(3)):
        check("softmax", operands(((2, length),), "float32", ("whole",), length), {"axis": 1}, plans)
        assert max(len(plans.kept), len(plans._seen)) <= 4


def test_errors_are_those_of_who_decides_and_leave_nothing(plans: Any) -> None:
    for _ in range(3):
        with pytest.raises(ValueError, match="do not fit"):
            kernel("matmul")(*operands(((6, 8), (7, 5)), "float32", ("whole",) * 2, 0))
    assert not plans.kept
    for seed in range(3):  # nor is anything still being recorded
        check("matmul", operands(((6, 8), (8, 5)), "float32", ("whole",) * 2, seed), {}, plans)
    assert len(plans.kept) == 1


@pytest.mark.skipif(DEVICE == "played", reason="the host plays one launch at a time")
def test_threads_share_plans(plans: Any) -> None:
    given = {n: operands(((n, 8),), "float32", ("whole",), n)[0] for n in range(1, 9)}
    expected = {n: told(kernel("softmax")(x, axis=1)) for n, x in given.items()}
    wrong: list[Any] = []

    def work(seed: int) -> None:
        pick = random.Random(seed)
        for _ in range(60):
            n = pick.choice(list(given))
            if pick.random() < 0.05:
                plans.forget()
            if told(kernel("softmax")(given[n], axis=1)) != expected[n]:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


@pytest.mark.skipif(DEVICE == "played", reason="the host adds every bias on the way")
def test_a_product_that_is_refused_later_is_decided_again(plans: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = (6, 8), (4, 8), (4,)
    for seed in range(3):
        used = check("linear", operands(shapes, "float32", ("whole",) * 3, seed), {}, plans)
    assert used
    monkeypatch.setattr(BiasedProducts, "run", lambda self, *rest: False)
    found = kernel("linear")(*operands(shapes, "float32", ("whole",) * 3, 4))
    x, w, b = (np.asarray(each.get()) for each in operands(shapes, "float32", ("whole",) * 3, 4))
    np.testing.assert_array_equal(found.get(), x @ w.T + b)


@pytest.mark.skipif(DEVICE != "played", reason="a device of its own, which has made no plan yet, is played")
def test_the_first_call_that_adds_up_in_float32_has_a_plan() -> None:
    """To know a dtype the array library computes nothing. What blocks have found is one plan, their sum another."""
    backend = importlib.import_module("played").PlayedBackend()
    g, x = (backend.from_host(np.full((6, 8), n, "float32"), (6, 8), backend.dtypes["float32"]) for n in (1, 2))
    for _ in range(2):
        backend.kernel("layer_norm_weight_gradient")(g, x, axis=(1,), eps=1e-5)
    assert len(backend.runtime.plans.kept) == 2
