"""Under `jit`, kernels of rows read halves that are cast to float32, and write those that their result is cast to.

On a GPU, or an emulated one: the numbers are those of eager calls, in which each cast is a launch.
"""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, autocast, jit, nn, no_grad, optim, value_and_grad, vmap
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.dtypes import float32
from micrograd_core.engine.array import wrap
from micrograd_core.transforms import replay

pytestmark = pytest.mark.skipif(not Device.is_cuda_available(), reason="there is no GPU, and no emulated one")
HALVES = {"float16": 2e-3, "bfloat16": 1.6e-2}
"""And of what numbers may differ by: two units in the last place."""
SHAPES = [(3, 5), (4, 64), (2, 3, 130), (2, 9000)]
"""Rows that are read once, by whole packs and by elements, and one that no registers hold."""


@pytest.fixture
def gpu() -> Device:
    return Device("cuda")


def drawn(rng: Any, shape: tuple[int, ...], dtype: str, gpu: Device) -> Tensor:
    x = Tensor(rng.normal(size=shape).astype("float32"), device=gpu, requires_grad=False)
    with no_grad():
        return x.astype(dtype)


def numbers(x: Tensor) -> Any:
    return x.detach().astype("float32").numpy()


Function = Callable[..., Tensor]


def norm(name: str, half: str, reads: bool, writes: bool, weights: bool) -> Function:
    """A norm between casts, of which each may be missing."""

    def function(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        x = x.astype(half).astype("float32") if reads else x
        given = (w, b)[: 2 if name == "layer_norm" else 1] if weights else ()
        out = FUNCTIONS[name](x, *given, eps=1e-3)
        return out.astype(half) if writes else out

    return function


def compared(function: Function, given: list[Tensor], tolerance: float) -> None:
    """The value and all gradients, under `jit` and without, called until they are a graph."""
    plain = value_and_grad(function, argnums=tuple(range(len(given))))
    under_jit = jit(plain)
    value, gradients = plain(*given)
    for _ in range(6):
        found, its = under_jit(*given)
        for ours, expected in zip((found, *its), (value, *gradients), strict=True):
            assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
            scale = max(1.0, float(np.abs(numbers(expected)).max()))
            np.testing.assert_allclose(numbers(ours), numbers(expected), rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ways", [*itertools.product((False, True), repeat=3)])
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_a_norm_between_casts_is_the_same(
    name: str, half: str, ways: tuple[bool, bool, bool], shape: tuple[int, ...], gpu: Device
) -> None:
    rng = np.random.default_rng(0)
    inner, later = norm(name, half, *ways), drawn(rng, shape, "float32", gpu)

    def function(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        out = inner(x * 1.5, w, b)
        return (out.astype("float32") * later).sum() + (out * out).astype("float32").mean()

    given = [drawn(rng, each, "float32", gpu) for each in (shape, shape[-1:], shape[-1:])]
    compared(function, given, HALVES[half])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("classes", [5, 64, 9000])
@pytest.mark.parametrize("half", HALVES)
def test_a_loss_of_halves_is_that_of_their_casts(half: str, classes: int, reduction: str, gpu: Device) -> None:
    rng = np.random.default_rng(classes)
    targets = Tensor(rng.integers(classes, size=6), device=gpu)
    logits = drawn(rng, (6, classes), "float32", gpu)

    def function(x: Tensor) -> Tensor:
        x = x.astype(half) * 2.0
        loss = FUNCTIONS["cross_entropy"](x.astype("float32"), targets, reduction=reduction, ignore_index=1)
        return loss.sum() * 3.0

    compared(function, [logits], HALVES[half])


@pytest.mark.parametrize("given", ["weight", "label_smoothing", "both"])
@pytest.mark.parametrize("half", HALVES)
def test_a_loss_that_is_composed_takes_halves(half: str, given: str, gpu: Device) -> None:
    """Its kernels know of no other dtypes."""
    rng = np.random.default_rng(3)
    targets = Tensor(rng.integers(5, size=6), device=gpu)
    options: dict[str, Any] = {} if given == "weight" else {"label_smoothing": 0.1}
    weight = (
        [] if given == "label_smoothing" else [Tensor(rng.uniform(0.5, 2, 5).astype("float32"), device=gpu).detach()]
    )

    def function(x: Tensor) -> Tensor:
        x = (x.astype(half) * 2.0).astype("float32")
        return FUNCTIONS["cross_entropy"](x, targets, *weight, **options) * 3.0

    compared(function, [drawn(rng, (6, 5), "float32", gpu)], HALVES[half])


@pytest.mark.parametrize("half", HALVES)
def test_rows_with_weights_of_their_own_are_composed(half: str, gpu: Device) -> None:
    """A norm in a batch of `vmap`, whose weights differ: no kernel of rows takes it, and no cast is lost."""
    rng = np.random.default_rng(0)
    x, w, b = (drawn(rng, shape, "float32", gpu) for shape in ((3, 4, 32), (3, 32), (3, 32)))

    def one(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        out = FUNCTIONS["layer_norm"](x.astype(half).astype("float32"), w, b, eps=1e-3).astype(half)
        return (out.astype("float32") ** 2).sum()

    compared(lambda x, w, b: vmap(one)(x, w, b).sum(), [x, w, b], 4 * HALVES[half])


@pytest.mark.parametrize(("shape", "shared"), [((32,), True), ((3, 1, 32), False)])
def test_a_kernel_of_rows_takes_weights_that_all_rows_share(shape: tuple[int, ...], shared: bool, gpu: Device) -> None:
    """And only with these a cast may vanish: a composition knows nothing of other dtypes."""
    from micrograd_cuda.nests import mixes

    x, w = (drawn(np.random.default_rng(0), each, "float32", gpu) for each in ((3, 4, 32), shape))
    params = {"axis": (2,), "eps": 1e-3}
    found = gpu.kernels.backend.kernel("layer_norm")(x._handle, w._handle, 0.0, **params)
    assert (found is not NotImplemented) == shared
    specs = [TensorSpec(each.shape, float32) for each in (x, w)]
    assert mixes("layer_norm", (*specs, 0.0), params, specs[0]) == shared


def launched(work: Callable[[], Any]) -> list[str]:
    """The kernels of a call, as the emulated GPU lists them."""
    lines = importlib.import_module("emulated_cuda.boot").recorded(work)
    return [line.split()[0] for line in lines if line.startswith("micrograd")]


def test_what_is_used_otherwise_too_stays_float32(gpu: Device) -> None:
    """Of a result that is cast, and read as it is, both are there, to the last bit; it is computed once."""
    x = drawn(np.random.default_rng(0), (4, 64), "float32", gpu)

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        out = FUNCTIONS["layer_norm"](x, eps=1e-5)
        return out.astype("bfloat16"), out

    jitted = jit(function)
    with no_grad():
        for ours, plain in zip(jitted(x), function(x), strict=True):
            assert ours.dtype == plain.dtype
            np.testing.assert_array_equal(numbers(ours), numbers(plain))
        if find_spec("emulated_cuda"):
            assert sum("norm" in name for name in launched(lambda: jitted(x))) == 1


@pytest.mark.parametrize("offsets", [*itertools.product((0, 1, 2, 4), repeat=2)])
@pytest.mark.parametrize("half", HALVES)
def test_operands_that_begin_anywhere(half: str, offsets: tuple[int, int], gpu: Device) -> None:
    """Packs of float32 and of halves lie at multiples of different sizes."""
    rng, shape, kernel = np.random.default_rng(0), (5, 64), gpu.kernels.backend.kernel
    given = [drawn(rng, (4 + 320,), dtype, gpu) for dtype in (half, "float32")]
    g, x = (each[at : at + 320].reshape(shape) for each, at in zip(given, offsets, strict=True))
    params = {"axis": (1,), "eps": 1e-5}
    for name in ("standardize_gradient", "rms_norm_gradient", "layer_norm_weight_gradient", "rms_norm_weight_gradient"):
        for first, second in ((g, x), (x, g)):
            found = kernel(name)(first._handle, second._handle, **params, dtype=x._handle.dtype)
            wide = [each.astype("float32")._handle for each in (first, second)]
            np.testing.assert_allclose(found.get(), kernel(name)(*wide, **params).get(), rtol=1e-4, atol=1e-5)
    weight, more = drawn(rng, (64,), "float32", gpu), {"dtype": x._handle.dtype, "half": g._handle.dtype}
    whole = [each.astype("float32").astype(str(each.dtype)) for each in (g, x)]  # from the start of their memory
    for name in ("standardize_gradient", "rms_norm_gradient"):
        found = kernel(name)(whole[0]._handle, whole[1]._handle, weight._handle, x._handle, **params, **more)
        expected = kernel(name)(whole[0]._handle, whole[1]._handle, weight._handle, **params).get() + x._handle.get()
        np.testing.assert_allclose(found.get(), expected, rtol=1e-4, atol=1e-5)


Gradient = Callable[..., Tensor]
RESIDUALS: dict[str, tuple[bool, Callable[[Gradient, Tensor, Tensor, Tensor, Tensor, str], Any]]] = {
    "first": (True, lambda n, g, x, w, r, half: (n(g, x, w) + r).astype(half)),
    "second": (True, lambda n, g, x, w, r, half: (r + n(g, x, w)).astype(half)),
    "and as it is": (True, lambda n, g, x, w, r, half: ((y := r + n(g, x, w)), y.astype(half), y * 2.0)),
    "sums": (True, lambda n, g, x, w, r, half: ((y := r + n(g, x, w)).sum(axis=0), y.astype(half).sum(axis=0))),
    "no half": (True, lambda n, g, x, w, r, half: (r + n(g, x, w)) * 2.0),
    "no summand": (True, lambda n, g, x, w, r, half: ((y := n(g, x, w)), y.astype(half))),
    "both halves": (True, lambda n, g, x, w, r, half: tuple((r + n(g, x, w)).astype(each) for each in HALVES)),
    "and wider": (True, lambda n, g, x, w, r, half: ((y := r + n(g, x, w)).astype(half), y.astype("float64"))),
    "made before": (True, lambda n, g, x, w, r, half: r * 3.0 + n(g, x, w)),
    "an operand": (True, lambda n, g, x, w, r, half: (n(g, x, w) + x).astype(half)),
    "a chain": (True, lambda n, g, x, w, r, half: n((r + n(g, x, w)), x, w) + r),
    "two": (True, lambda n, g, x, w, r, half: (n(g, x, w) + r) + x),
    "of two": (True, lambda n, g, x, w, r, half: (n(g, x, w) + n(r, x, w)).astype(half)),
    "a stack": (False, lambda n, g, x, w, r, half: (n(g, x, w) + FUNCTIONS["stack"]([r, r])).astype(half)),
    "on a stack": (False, lambda n, g, x, w, r, half: FUNCTIONS["stack"]([r, x]) + n(g, x, w)),
    "a row": (False, lambda n, g, x, w, r, half: (n(g, x, w) + w) * 2.0),
    "itself": (False, lambda n, g, x, w, r, half: (y := n(g, x, w)) + y),
    "of itself": (False, lambda n, g, x, w, r, half: (y := n(g, x, w)) + y * 2.0),
    "a number": (False, lambda n, g, x, w, r, half: n(g, x, w) + 2.0),
    "also without": (False, lambda n, g, x, w, r, half: ((y := n(g, x, w)), y + r)),
    "in two sums": (False, lambda n, g, x, w, r, half: ((y := n(g, x, w)) + r, x + y)),
    "made later": (False, lambda n, g, x, w, r, half: n(g, x, w) + r.sin()),
    "no weight": (True, lambda n, g, x, w, r, half: (n(g, x, 1.0) + r).astype(half)),
    "one weight": (True, lambda n, g, x, w, r, half: (n(g, x, w[:1]) + r).astype(half)),
    "double": (False, lambda n, g, x, w, r, half: n(*(each.astype("float64") for each in (g, x, w))) + r),
}
"""By name: whether the gradient of a norm's input does more than it was; and what is made of it."""


@pytest.mark.parametrize("shape", [(3, 5), (300, 64), (2, 3, 130), (2, 9000)])
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("kind", RESIDUALS)
@pytest.mark.parametrize("name", ["standardize_gradient", "rms_norm_gradient"])
def test_what_is_added_to_a_norms_gradient_is_the_same(
    name: str, kind: str, half: str, shape: tuple[int, ...], gpu: Device
) -> None:
    rng, (more, function) = np.random.default_rng(0), RESIDUALS[kind]
    given = [drawn(rng, each, "float32", gpu) for each in (shape, shape, shape[-1:], shape)]
    gradient = partial(FUNCTIONS[name], axis=(len(shape) - 1,), eps=1e-3)
    jitted = jit(lambda *given: function(gradient, *given, half))
    with no_grad():
        expected = function(gradient, *given, half)
        for call in range(5):
            found = jitted(*given)
            for ours, plain in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
                assert (ours.dtype, ours.shape) == (plain.dtype, plain.shape)
                tolerance = HALVES.get(str(plain.dtype), 1e-4)
                scale = max(1.0, float(np.abs(numbers(plain)).max()))
                np.testing.assert_allclose(numbers(ours), numbers(plain), rtol=tolerance, atol=tolerance * scale)
            if call == 0 and find_spec("emulated_cuda"):
                kernels = launched(lambda: jitted(*given))
                assert any(re.search(r"norm_gradients_\w+_(true|false)_true_\d", x) for x in kernels) == more, kernels
                assert len(kernels) == 1 or kind not in ("first", "second"), kernels


@pytest.mark.skipif(find_spec("emulated_cuda") is None, reason="launches are listed by the emulated GPU")
@pytest.mark.parametrize("half", HALVES)
def test_a_step_under_autocast_casts_no_row(half: str, gpu: Device) -> None:
    """A norm, a product and a loss, forwards and backwards: what is launched reads and writes halves."""
    model = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 48)).to(gpu)
    rng = np.random.default_rng(0)
    x, targets = drawn(rng, (64, 32), "float32", gpu), Tensor(rng.integers(48, size=64), device=gpu)
    parameters = [*model.parameters()]

    @jit
    def step(x: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        with autocast(half):
            loss = nn.cross_entropy(model(x), targets)
        for p in parameters:
            p.grad = None
        loss.backward()
        return loss, *[p.grad for p in parameters]

    step(x, targets)
    kernels = launched(lambda: step(x, targets))
    name = {"float16": "Half", "bfloat16": "Bfloat16"}[half]
    families = [f"norm_float_float_{name}", f"norm_gradients_float_{name}", f"cross_entropy_{name}_Long_float"]
    for family in (*families, f"cross_entropy_gradient_{name}_Long_float_{name}"):
        assert sum(line.startswith(f"micrograd_{family}") for line in kernels) == 1, (family, kernels)
    assert sum("nest" in line for line in kernels) <= 3, kernels  # casts of parameters, and of their gradients


@pytest.mark.skipif(find_spec("emulated_cuda") is None, reason="launches are listed by the emulated GPU")
@pytest.mark.parametrize("trains", [False, True])
def test_weights_that_are_read_again_are_cast_in_one_launch(trains: bool, gpu: Device) -> None:
    """Before all else, and with them biases. Weights that are read once, as without gradients, are cast when they are:
    one is there at a time."""
    layers = [nn.Linear(n, m) for n, m in itertools.pairwise((64, 72, 80, 88))]
    model = nn.Sequential(*layers).to(gpu)
    x = drawn(np.random.default_rng(0), (64, 64), "bfloat16", gpu)
    weights = [*model.parameters()]

    for each in weights:
        each.requires_grad = trains

    @jit
    def step(x: Tensor) -> tuple[Tensor, ...]:
        with autocast("bfloat16"):
            out = model(x)
        if not trains:
            return (out,)
        for each in weights:
            each.grad = None
        (out * out).sum().backward()
        return out.detach(), *[each.grad for each in weights]

    for _ in range(2):  # once without gradients that there are
        step(x)
    recorded = importlib.import_module("emulated_cuda.boot").recorded
    lines = [line for line in recorded(lambda: step(x)) if line.startswith(("product", "micrograd"))]
    before = lines[: next(i for i, line in enumerate(lines) if line.startswith("product"))]
    assert [line[:14] for line in before] == ["micrograd_nest"], lines
    products = [i for i, line in enumerate(lines) if line.startswith("product")]
    between = lines[products[0] : products[2]]
    assert any("nest" in line for line in between) is not trains, lines


@pytest.mark.skipif(find_spec("emulated_cuda") is None, reason="launches are listed by the emulated GPU")
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("rule", [optim.Adam, partial(optim.SGD, lr=0.1, momentum=0.9)])
def test_an_optimisers_step_writes_weights_in_halves_too(
    rule: Callable[..., Any], half: str, gpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same launch, so the next step has one less: it begins with a product."""
    recorded, steps = importlib.import_module("emulated_cuda.boot").recorded, list[list[str]]()
    for least in (10**9, 1):
        monkeypatch.setattr(replay, "LARGE", least)
        layers = [nn.Linear(n, m, bias=False) for n, m in itertools.pairwise((64, 72, 80, 88))]
        model = nn.Sequential(*layers).to(gpu)
        x, optimiser = drawn(np.random.default_rng(0), (64, 64), half, gpu), rule([*model.parameters()])

        def step(x: Tensor, model: Any = model, optimiser: Any = optimiser) -> Tensor:
            optimiser.zero_grad()
            with autocast(half):
                loss: Tensor = (model(x) ** 2).mean()
            loss.backward()
            optimiser.step()
            return loss

        jitted = jit(step)
        for _ in range(4):
            lines = recorded(partial(jitted, x))
        steps.append([line.split()[0][:14] for line in lines if line.startswith(("product", "micrograd"))])
    before, after = steps
    assert (before[0], before[1:]) == ("micrograd_nest", after)
    last = [i for i, line in enumerate(after) if line == "product"][-1]
    assert after[last + 1 :] == ["micrograd_nest"]  # the rule of all three, and their casts
    for p in model.parameters():
        memory: Any = p._storage
        cast = wrap(Tensor, memory.cast[2], p._kernels, memory.cast[1], None)
        assert cast.tolist() == p.detach().astype(half).tolist()
