"""Convolutions on a GPU, or on the emulated one: by cuDNN where it is there, and by patches where it is not."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, jit, set_matmul_precision
from micrograd_core.array.functions import FUNCTIONS

if find_spec("micrograd_cuda"):
    from micrograd_cuda import convolution, cudnn
    from micrograd_cuda.cudnn import CuDNN

    patches_are_better = convolution.patches_are_better

pytestmark = pytest.mark.skipif(not Device.is_cuda_available(), reason="there is no CUDA device")
emulated = pytest.mark.skipif(find_spec("emulated_cuda") is None, reason="only an emulated GPU tells it")
DTYPES = ("float16", "bfloat16", "float32", "float64")
CASES = 400 if os.environ.get("MICROGRAD_EXHAUSTIVE") == "1" else 24
PLAIN: Any = ("conv2d", [(2, 4, 6, 5), (6, 2, 3, 2), (6,)], {"groups": 2, "padding": 1})
LINE: Any = ("conv_transpose1d", [(2, 3, 5), (3, 4, 3), (4,)], {"stride": 2, "output_padding": 1})


COMMON: Any = ("conv2d", [(2, 8, 6, 5), (16, 8, 3, 3), (16,)], {"padding": 1})  # which no cuDNN lacks
THINNER: Any = ("conv_transpose1d", [(2, 8, 5), (8, 16, 3), (16,)], {"stride": 2, "output_padding": 1})
CUBE: Any = ("conv_transpose3d", [(2, 2, 3, 2, 3), (2, 3, 2, 3, 2), (3,)], {"padding": 1, "stride": (1, 2, 1)})


@pytest.fixture
def gpu() -> Device:
    return Device("cuda")


@pytest.fixture(autouse=True)
def _never_patches(anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is faster: shapes here are small."""
    monkeypatch.setattr(convolution, "patches_are_better", lambda *facts: False)


@pytest.fixture
def library(gpu: Device) -> Any:
    return CuDNN.of(0) or pytest.skip("there is no cuDNN here")


@pytest.fixture
def recorded() -> Callable[[Callable[[], Any]], list[str]]:
    """What cuDNN is asked to compute meanwhile."""
    boot = importlib.import_module("emulated_cuda.boot")
    return lambda work: [line for line in boot.recorded(work) if line.startswith("convolution")]


def drawn(seed: int) -> tuple[str, list[tuple[int, ...]], dict[str, Any]]:
    """A function of the family, shapes of its image, weight and bias, and parameters."""
    rng = np.random.default_rng(seed)
    rank = int(rng.choice([1, 2, 2, 2, 3]))

    def numbers(*choices: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.choice(choices, rank))

    groups, images, inputs, outputs = (int(rng.integers(1, most)) for most in (4, 4, 4, 5))
    kernel, size = numbers(1, 2, 3), numbers(5, 6, 7, 8)
    params: dict[str, Any] = {
        "groups": groups, "stride": numbers(1, 2, 3), "padding": numbers(0, 1, 2), "dilation": numbers(1, 2),
    }  # fmt: skip
    if rng.integers(3):
        shapes = [(images, inputs * groups, *size), (outputs * groups, inputs, *kernel), (outputs * groups,)]
        return f"conv{rank}d", shapes, params
    params["output_padding"] = tuple(int(rng.integers(s)) for s in params["stride"])
    shapes = [(images, inputs * groups, *size), (inputs * groups, outputs, *kernel), (outputs * groups,)]
    return f"conv_transpose{rank}d", shapes, params


def laid(a: Any, device: Device | str, dtype: str, how: str) -> Tensor:
    """The numbers in memory that starts anywhere, or whose last axes are exchanged."""
    if how == "anywhere":
        flat = Tensor(np.concatenate([np.zeros(1), a.ravel()]), device=device, requires_grad=False).astype(dtype)
        x = flat[1:].reshape(*a.shape)
    elif how == "turned" and a.ndim > 1:
        x = Tensor(np.ascontiguousarray(a.swapaxes(-1, -2)), device=device, requires_grad=False).astype(dtype).mT
    else:
        x = Tensor(a, device=device, requires_grad=False).astype(dtype)
    x.requires_grad = True
    return x


def run(case: Any, device: Device | str, dtype: str, how: str = "plain", seed: int = 0) -> list[Any]:
    """The result and the gradients of all operands, of small whole quarters: sums of products are exact in float32."""
    name, shapes, params = case
    rng = np.random.default_rng(seed)
    operands = [laid(rng.integers(-3, 4, shape) / 4, device, dtype, how) for shape in shapes]
    y = FUNCTIONS[name](*operands, **params)
    y.backward(laid(rng.integers(-3, 4, y.shape) / 4, device, dtype, how).detach())
    assert str(y.dtype) == dtype
    return [np.asarray(each.detach().astype("float64").tolist()) for each in (y, *(x.grad for x in operands))]


def near(found: list[Any], exact: list[Any], dtype: str) -> None:
    """Rounded once, but that a bias is added after that."""
    digits = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype, 0.0)
    for ours, theirs in zip(found, exact, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=digits * float(np.max(np.abs(theirs), initial=0)))


@pytest.mark.parametrize("seed", range(CASES))
def test_results_and_gradients_are_those_of_float64(seed: int, gpu: Device) -> None:
    case, dtype, how = drawn(seed), DTYPES[seed % 4], ("plain", "anywhere", "turned")[seed % 3]
    if dtype not in gpu.kernels.backend.dtypes:
        pytest.skip(f"there is no {dtype} here")
    near(run(case, gpu, dtype, how, seed), run(case, "cpu", "float64", seed=seed), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", ["plain", "anywhere", "turned"])
@pytest.mark.parametrize("case", [COMMON, THINNER], ids=["image", "line"])
def test_cudnn_is_used_for_the_result_and_both_gradients(
    case: Any, how: str, dtype: str, gpu: Device, library: Any
) -> None:
    before = library.runs
    found = run(case, gpu, dtype, how)
    assert library.runs - before == 3
    near(found, run(case, "cpu", "float64"), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_bits_every_time(dtype: str, gpu: Device) -> None:
    rng = np.random.default_rng(0)
    shapes = (16, 6, 17, 15), (8, 3, 3, 3), (8,)
    x, w, b = (Tensor(rng.normal(size=shape), device=gpu).astype(dtype).detach() for shape in shapes)
    for each in (x, w, b):
        each.requires_grad = True
    cotangent = Tensor(rng.normal(size=(16, 8, 17, 15)), device=gpu, requires_grad=False).astype(dtype)

    def bits() -> list[Any]:
        y = FUNCTIONS["conv2d"](x, w, b, groups=2, padding=1)
        x.grad = w.grad = b.grad = None
        y.backward(cotangent)
        return [each.detach().tolist() for each in (y, x.grad, w.grad, b.grad)]

    first = bits()
    assert all(bits() == first for _ in range(3))


def test_half_types_are_added_up_in_float32(gpu: Device) -> None:
    """The sum over the first images is lost in float16 where it is rounded before what takes most of it away."""
    x = np.ones((64, 1, 12, 12))
    g = np.where(np.arange(64) < 32, 1.0, -1.0)[:, None, None, None] * np.ones((64, 1, 12, 12))
    g[3, 0, 5, 5] += 0.25
    image = Tensor(x, device=gpu, requires_grad=False).astype("float16")
    weight = Tensor(np.ones((1, 1, 1, 1)), device=gpu).astype("float16").detach()
    weight.requires_grad = True
    y = FUNCTIONS["conv2d"](image, weight)
    y.backward(Tensor(g, device=gpu, requires_grad=False).astype("float16"))
    assert weight.grad.tolist() == [[[[0.25]]]]


def test_precision_of_float32(gpu: Device, library: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 64, 9, 9)).astype("float32"), rng.normal(size=(8, 64, 3, 3)).astype("float32")
    (x, w), (wide, exact) = (
        [Tensor(each, dtype=dtype, device=device, requires_grad=False) for each in (a, b)]
        for dtype, device in (("float32", gpu), ("float64", "cpu"))
    )
    expected = np.asarray(FUNCTIONS["conv2d"](wide, exact).tolist())
    errors = {}
    for precision in ("highest", "high", "medium"):
        set_matmul_precision(precision)
        try:
            errors[precision] = (
                np.abs(FUNCTIONS["conv2d"](x, w).detach().numpy() - expected).max() / np.abs(expected).max()
            )
        finally:
            set_matmul_precision("highest")
    assert errors["highest"] < 2e-6
    assert max(errors.values()) < 2e-3


@emulated
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("refusal", ["none", "switch", "library", "algorithm", "plans", "workspace", "call"])
def test_what_cudnn_refuses_takes_patches(
    refusal: str, dtype: str, gpu: Device, recorded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*arguments: Any) -> Any:
        raise OSError("none")

    monkeypatch.setattr(CuDNN, "_known", {})
    if refusal == "switch":
        monkeypatch.setenv(cudnn.SWITCH, "0")
    elif refusal == "library":
        monkeypatch.setattr(cudnn, "loaded", none)
    elif refusal == "algorithm":
        monkeypatch.setattr(cudnn, "ALGORITHMS", dict.fromkeys(cudnn.ALGORITHMS, ()))
    elif refusal == "plans":
        monkeypatch.setattr("micrograd_cuda.library.MOST_PLANS", 0)
    elif refusal == "workspace":
        monkeypatch.setattr(cudnn, "WORKSPACE", 0)
    elif refusal == "call":
        monkeypatch.setattr(CuDNN, "run", lambda self, *rest: False)
    answers: list[Any] = []
    lines = recorded(lambda: [answers.append(run(case, gpu, dtype)) for case in (PLAIN, LINE, CUBE)])
    for case, found in zip((PLAIN, LINE, CUBE), answers, strict=True):
        near(found, run(case, "cpu", "float64"), dtype)
    assert len(lines) == (9 if refusal == "none" else 0)


def test_the_library_is_found_without_the_finder_that_cupy_brings(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    assert cudnn.loaded().cudnnCreate


@emulated
@pytest.mark.parametrize(
    ("dtype", "precision", "type_", "math"),
    [("float32", "highest", 0, 3), ("float32", "high", 0, 0), ("float32", "medium", 0, 0), ("float64", "high", 1, 0),
     ("float16", "highest", 2, 1), ("bfloat16", "highest", 9, 1)],
)  # fmt: skip
def test_how_factors_may_be_rounded(
    dtype: str, precision: Any, type_: int, math: int, gpu: Device, recorded: Any
) -> None:
    set_matmul_precision(precision)
    try:
        lines = recorded(lambda: run(PLAIN, gpu, dtype))
    finally:
        set_matmul_precision("highest")
    told = [line.split()[1:10] for line in lines]
    expected = f"type {type_} groups 2 math {math} algorithm 1".split()
    assert sorted(told) == [[made, *expected] for made in ("BackwardData", "BackwardFilter", "Forward")]


@emulated
def test_what_is_empty_or_too_large_is_not_given_to_cudnn(gpu: Device, library: Any, recorded: Any) -> None:
    empty = ("conv2d", [(0, 4, 6, 5), (6, 2, 3, 2), (6,)], {"groups": 2, "padding": 1})
    assert recorded(lambda: near(run(empty, gpu, "float32"), run(empty, "cpu", "float64"), "float32")) == []
    image = cudnn.Convolved(
        "Forward", (16, 2, 32, 32), (2, 2, 3, 3), (16, 2, 30, 30), (1, 1), (0, 0), (1, 1), 1, "float32", 3
    )
    assert library.plan(image) is not None
    assert library.plan(image._replace(image=(2**20, 2, 32, 32), result=(2**20, 2, 30, 30))) is None
    beyond = 2**32 + 8  # which an int takes for 8
    line = image._replace(image=(1, 1, 8), weight=(1, 1, 1), result=(1, 1, 8), stride=(1,), padding=(0,), dilation=(1,))
    assert library.plan(line) is not None
    assert library.plan(line._replace(image=(1, 1, beyond), result=(1, 1, beyond))) is None
    assert library.plan(line._replace(stride=(beyond,), result=(1, 1, 1))) is None
    assert library.plan(line._replace(dilation=(beyond,))) is None
    assert library.plan(line._replace(padding=(2**30,), stride=(2**30,), result=(1, 1, 3))) is None
    assert library.plan(line._replace(weight=(beyond, 1, 1), result=(1, beyond, 8))) is None


@emulated
def test_a_kernel_of_one_reads_pixels_where_they_lie(gpu: Device, recorded: Any) -> None:
    """As a product: cuDNN takes the gradient by the weight alone, for which patches would be written."""
    case = ("conv2d", [(3, 4, 3, 2), (6, 4, 1, 1), (6,)], {})
    assert [line.split()[1] for line in recorded(lambda: run(case, gpu, "float32"))] == ["BackwardFilter"]


@emulated
@pytest.mark.parametrize("late", [False, True])
def test_convolutions_are_captured(late: bool, gpu: Device, library: Any, recorded: Any) -> None:
    """With a workspace of the graph's own: memory that others ask for meanwhile is not written by it."""
    boot = importlib.import_module("emulated_cuda.boot")
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (2, 3, 6, 6)) / 4, rng.integers(-3, 4, (4, 3, 3, 3)) / 4
    x, w = (Tensor(each.astype("float32"), device=gpu, requires_grad=False) for each in (a, b))
    f = jit(lambda x, w: FUNCTIONS["conv2d"](FUNCTIONS["conv2d"](x, w, padding=1)[:, :3], w).sum(axis=(0,)))
    expected = f(x, w).tolist()
    before = boot.count("graph launch")
    others = []
    with boot.late() if late else nullcontext():
        for _ in range(5):
            others.append(Tensor(np.ones(64, "uint8"), device=gpu, requires_grad=False))  # as long as a workspace
            assert f(x, w).tolist() == expected
    assert boot.count("graph launch") - before == 3
    assert recorded(lambda: f(x, w)) == []
    assert all(each.tolist() == [1] * 64 for each in others)


@emulated
@pytest.mark.parametrize("late", [False, True])
def test_convolutions_are_in_order_with_their_stream_on_their_device(late: bool, gpu: Device, library: Any) -> None:
    exact = run(PLAIN, "cpu", "float64")
    devices = gpu.kernels.backend.cupy.cuda.runtime.getDeviceCount()
    with importlib.import_module("emulated_cuda.boot").late() if late else nullcontext():
        for number in range(devices):
            near(run(PLAIN, Device(f"cuda:{number}"), "float32"), exact, "float32")
            with Device(f"cuda:{number}").stream():
                near(run(PLAIN, Device(f"cuda:{number}"), "float32"), exact, "float32")
            assert CuDNN.of(number).runs >= 6
    assert len({id(CuDNN.of(number)) for number in range(devices)}) == devices


@emulated
@pytest.mark.parametrize(
    ("precision", "dtype", "channels", "by_cudnn"),
    [
        ("high", "float32", 3, []),
        ("high", "float32", 8, ["BackwardFilter"]),
        ("highest", "float16", 16, ["Forward", "BackwardFilter"]),
        ("high", "float32", 32, ["Forward", "BackwardData", "BackwardFilter"]),
        ("highest", "float32", 3, ["Forward"]),
        ("highest", "float32", 129, []),
        ("highest", "float64", 64, ["Forward"]),
    ],
)
def test_whichever_is_faster_is_taken(
    precision: str, dtype: str, channels: int, by_cudnn: list[str],
    gpu: Device, recorded: Any, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(convolution, "patches_are_better", patches_are_better)
    set_matmul_precision(precision)
    try:
        case = ("conv2d", [(2, channels, 3, 3), (2, channels, 2, 2), (2,)], {})
        asked = sorted(line.split()[1] for line in recorded(lambda: run(case, gpu, dtype)))
    finally:
        set_matmul_precision("highest")
    assert asked == sorted(by_cudnn)
    weight, result = (8, 64, 7, 7), (1 << 14, 8, 8, 8)
    assert patches_are_better("BackwardData", weight, (64, *result[1:]), 1, "float32", cudnn.NO_TENSOR_CORES)
    assert not patches_are_better(
        "BackwardData", weight, result, 1, "float32", cudnn.NO_TENSOR_CORES
    )  # too many of them
    for kind in ("float16", "bfloat16"):  # in groups, of which cuDNN loses NaN
        assert patches_are_better("Forward", weight, result, 2, kind, cudnn.TENSOR_CORES)
    assert not patches_are_better("Forward", weight, result, 2, "float32", cudnn.PLAIN)
