"""Poolings without patches: on a GPU, or played on the host, against the cpu backend in float64."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import host
from cases import NO_COMPILER
from micrograd_core import Device, Tensor
from micrograd_core.array.functions import FUNCTIONS

DEVICE = "cuda" if Device.is_cuda_available() else "played"
pytestmark = pytest.mark.skipif(DEVICE == "played" and host.COMPILER is None, reason=NO_COMPILER)

TOLERANCE = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-13}
SPACES = {1: [(9,), (16,)], 2: [(6, 8), (7, 7), (5, 10)], 3: [(4, 3, 5), (3, 4, 4)]}
MANY = os.environ.get("MICROGRAD_EXHAUSTIVE", "0") not in ("", "0")


def launched() -> list[Any]:
    """Since the last time; only the played device keeps a list."""
    found: list[Any] = []
    if DEVICE == "played":
        runtime = Device(DEVICE).kernels.backend.runtime
        found, runtime.launched[:] = list(runtime.launched), []
    return found


def windows(rank: int) -> Iterator[dict[str, Any]]:
    """What is known to the compiler, and what is not."""
    for kernel, stride, padding, dilation in product((1, 2, 3, 4), (1, 2, 3), (0, 1), (1, 2)):
        if 2 * padding <= kernel:
            yield {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    if rank > 1:
        kernel = (3, 1, 2)[:rank]
        yield {"kernel_size": kernel, "stride": (2, 1, 1)[:rank], "padding": (1, 0, 1)[:rank], "dilation": 1}


def layouts(x: Any) -> dict[str, Any]:
    """The same numbers, lying in memory in several ways: transposed, apart, and not at a multiple of 16 bytes."""
    device, apart = DEVICE, np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    apart[..., ::2] = x
    odd = np.zeros(x.size + 1, x.dtype)
    odd[1:] = x.ravel()
    order = tuple(reversed(range(x.ndim)))
    return {
        "contiguous": lambda: Tensor(x, device=device, requires_grad=False),
        "transposed": lambda: Tensor(x.transpose(order).copy(), device=device, requires_grad=False).permute(*order),
        "apart": lambda: Tensor(apart, device=device, requires_grad=False)[..., ::2],
        "odd": lambda: Tensor(odd, device=device, requires_grad=False)[1:].reshape(x.shape),
    }


def compare(name: str, x: Any, seed: int, layout: str, params: dict[str, Any]) -> None:
    """The function, and its gradient, beside those of the host in float64."""
    dtype = str(x.dtype)
    ours, wide = layouts(x)[layout](), Tensor(x.astype("float64"), requires_grad=True)
    ours.requires_grad = True
    expected = FUNCTIONS[name](wide, **params)
    g = np.random.default_rng(seed).normal(size=expected.shape).astype(dtype)
    launched()
    found = FUNCTIONS[name](ours, **params)
    cotangent = layouts(g)[layout]()
    found.backward(cotangent)
    written = [unit for unit in launched() if "PATCHES" in unit.arguments]
    expected.backward(Tensor(g.astype("float64"), requires_grad=False))
    assert not written, (name, params, written)
    for a, b in ((found, expected), (ours.grad, wide.grad)):
        tolerance = TOLERANCE[dtype] * 4
        assert (str(a.dtype), a.shape) == (dtype, b.shape)
        np.testing.assert_allclose(
            np.asarray(a.tolist()), np.asarray(b.tolist()), rtol=tolerance, atol=tolerance, err_msg=f"{name} {params}"
        )


def some() -> list[Any]:
    """Of all combinations one in so many."""
    found = [
        (rank, name, space, params, dtype, layout)
        for rank in SPACES
        for name in ("max", "avg")
        for space in SPACES[rank]
        for params in windows(rank)
        for dtype in TOLERANCE
        for layout in ("contiguous", "transposed", "apart", "odd")
        if name == "max" or params["dilation"] == 1
    ]
    return found if MANY else found[::131]


def test_numbers_and_gradients_are_those_of_the_host() -> None:
    compared = 0
    for i, (rank, name, space, params, dtype, layout) in enumerate(some()):
        kernel, dilation = params["kernel_size"], params["dilation"]
        span = [dilation * (k - 1) + 1 for k in (kernel if isinstance(kernel, tuple) else (kernel,) * rank)]
        around = params["padding"] if isinstance(params["padding"], tuple) else (params["padding"],) * rank
        if any(n + 2 * p < each for n, p, each in zip(space, around, span, strict=True)):
            continue
        given = {key: value for key, value in params.items() if key != "dilation" or name == "max"}
        x = np.random.default_rng(i).integers(-3, 4, size=(2, 3, *space)).astype(dtype)  # many of them tied
        compare(f"{name}_pool{rank}d", x, i, layout, given)
        compared += 1
    assert compared >= 30


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "params",
    [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 3, "dilation": 2, "stride": 1}],
)
def test_what_is_not_finite(params: dict[str, Any], dtype: str) -> None:
    """NaN wins its window, and all in it get NaN; infinities are compared; the padding ties with -inf."""
    x = np.random.default_rng(0).normal(size=(2, 2, 8, 8)).astype(dtype)
    x[0, 0, 3, 3] = np.nan
    x[0, 1, 2:5] = -np.inf
    x[1, 0, 4, 4] = np.inf
    x[1, 1] = -np.inf
    compare("max_pool2d", x, 0, "contiguous", params)


def test_each_is_one_launch_and_repeats_to_the_bit() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype("float32")
    for name in ("max_pool2d", "avg_pool2d"):
        results = []
        for _ in range(2):
            ours = Tensor(x, device=DEVICE)
            launched()
            out = FUNCTIONS[name](ours, 2)
            forward = [unit.family for unit in launched()]
            g = Tensor(np.ones((2, 3, 4, 4), "float32"), device=DEVICE, requires_grad=False)
            out.backward(g)
            backward = [unit.family for unit in launched()]
            results.append((out.tolist(), ours.grad.tolist()))
            if DEVICE == "played":
                assert forward == ["windows"]
                assert backward == ["binary"] * (name == "avg_pool2d") + ["windows_gradient"]
        assert results[0] == results[1]


def test_large_windows_that_overlap_are_patches() -> None:
    x = np.random.default_rng(0).normal(size=(1, 1, 14, 14)).astype("float32")
    ours, wide = Tensor(x, device=DEVICE), Tensor(x.astype("float64"))
    launched()
    FUNCTIONS["max_pool2d"](ours, 7, stride=1).sum().backward()
    if DEVICE == "played":
        assert any("PATCHES" in unit.arguments for unit in launched())
    FUNCTIONS["max_pool2d"](wide, 7, stride=1).sum().backward()
    np.testing.assert_allclose(np.asarray(ours.grad.tolist()), np.asarray(wide.grad.tolist()), atol=1e-5)


def test_second_gradients_are_those_of_the_host() -> None:
    from micrograd_core import grad

    x = np.random.default_rng(0).normal(size=(1, 2, 6, 6))
    for name in ("max_pool2d", "avg_pool2d"):
        loss = lambda t: (FUNCTIONS[name](t, 3, stride=2, padding=1) ** 3).sum()  # noqa: B023, E731
        twice = lambda t: (grad(loss)(t) ** 2).sum()  # noqa: B023, E731
        found, expected = (grad(twice)(Tensor(x, device=device)) for device in (DEVICE, "cpu"))
        np.testing.assert_allclose(np.asarray(found.tolist()), np.asarray(expected.tolist()), rtol=1e-10, atol=1e-10)
