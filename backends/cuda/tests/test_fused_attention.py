"""Attention by tensor cores: numbers against float64, what is not finite, memory. On a GPU, else the emulated one."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pytest

from micrograd_core import Device, Tensor, jit, scaled_dot_product_attention as attend, vmap
from micrograd_core.array.functions import FUNCTIONS

if find_spec("micrograd_cuda"):
    from micrograd_cuda import attention

pytestmark = pytest.mark.skipif(not Device.is_cuda_available(), reason="there is no GPU, and no emulated one")
ALL = os.environ.get("MICROGRAD_EXHAUSTIVE") == "1"
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2}  # of the largest number
FIELDS = ("query", "key", "value")


@pytest.fixture
def gpu() -> Device:
    return Device("cuda")


@pytest.fixture(autouse=True)
def _of_few_targets(monkeypatch: pytest.MonkeyPatch, gpu: Device) -> Iterator[None]:
    """Also where others would be faster; nothing is kept that was decided otherwise."""
    monkeypatch.setattr(attention, "FEWEST", 1)
    gpu.kernels.backend.runtime.plans.forget()
    yield
    gpu.kernels.backend.runtime.plans.forget()


class Case(NamedTuple):
    """A call by its numbers, in float64; and tensors on the device."""

    arrays: list[Any]
    mask: Any
    g: Any
    tensors: list[Tensor]
    mask_tensor: Tensor | None
    g_tensor: Tensor
    params: dict[str, Any]


def tensor(a: Any, dtype: str, gpu: Device) -> Tensor:
    x = Tensor(a, device=gpu, requires_grad=False)
    return x if a.dtype == bool else x.astype(dtype).detach()


def numbers(x: Any) -> Any:
    return np.asarray(x.detach().astype("float64").tolist(), "float64").reshape(x.shape)


def heads(pick: random.Random, rng: Any, shapes: list[tuple[int, ...]], dtype: str, gpu: Device) -> list[Tensor]:
    """Leaves (batch, heads, positions, features): each alone, positions before heads, or all beside each other."""
    kind, made = pick.choice(["alone", "positions", "packed"]), []
    for i, (batch, count, length, features) in enumerate(shapes):
        if kind == "alone":
            x = tensor(rng.normal(size=(batch, count, length, features)), dtype, gpu)
        elif kind == "positions":
            x = tensor(rng.normal(size=(batch, length, count, features)), dtype, gpu).permute_dims((0, 2, 1, 3))
        else:
            x = tensor(rng.normal(size=(batch, length, 3, count, features)), dtype, gpu)[:, :, i].permute_dims(
                (0, 2, 1, 3)
            )
        x = x.detach()
        x.requires_grad = True
        made.append(x)
    return made


def case(seed: int, gpu: Device, **fixed: Any) -> Case:
    pick, rng = random.Random(seed), np.random.default_rng(seed)
    dtype = fixed.get("dtype") or pick.choice(["float16", "bfloat16"])
    targets, sources = (
        fixed.get(name) or pick.choice([pick.randrange(1, 201), 64, 128]) for name in ("targets", "sources")
    )
    features = fixed.get("features") or pick.choice(range(8, 129, 8) if ALL else [24, 64, 72, 128])
    batch, count = pick.choice([1, 2]), pick.choice([1, 3])
    shared = pick.random() < 0.2  # heads that share key and value
    shapes = [(batch, count, targets, features), *[(batch, 1 if shared else count, sources, features)] * 2]
    tensors = heads(pick, rng, shapes, dtype, gpu)
    kind = fixed.get("mask", pick.choice(["", "", "bools", "numbers"]))
    mask = None
    if kind:
        of = pick.choice(
            [(targets, sources), (batch, 1, 1, sources), (count, targets, 1), (batch, count, targets, sources)]
        )
        mask = rng.random(of) < 0.7
        if of[-2] > 1:
            mask[..., of[-2] // 2, :] = False  # a target that sees nothing
        mask = mask if kind == "bools" else np.where(mask, rng.integers(-4, 5, of) / 4, -np.inf)
    causal = fixed.get("causal", pick.random() < 0.5)
    params = {"is_causal": causal, "scale": pick.choice([None, 0.3])}
    g = tensor(rng.normal(size=(batch, targets, count, features)), dtype, gpu).permute_dims((0, 2, 1, 3))
    given = None if mask is None else tensor(mask, dtype, gpu)
    return Case([*map(numbers, tensors)], mask, numbers(g), tensors, given, g, params)


def exact(of: Case, g: Any = None) -> list[Any]:
    """The result and the gradients, by their definitions."""
    q, k, v = of.arrays
    scale = of.params["scale"] or q.shape[-1] ** -0.5
    scores = scale * q @ k.swapaxes(-1, -2)
    if of.params["is_causal"]:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if of.mask is not None:
        scores = np.where(of.mask, scores, -np.inf) if of.mask.dtype == bool else scores + of.mask
    top = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=-1, keepdims=True)
    weights = e / np.where(total == 0, 1, total)
    moved = of.g @ v.swapaxes(-1, -2)
    slopes = scale * weights * (moved - (moved * weights).sum(axis=-1, keepdims=True))
    found = [slopes @ k, slopes.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ of.g]
    summed = [
        x if x.shape == own.shape else x.sum(axis=1, keepdims=True) for x, own in zip(found, of.arrays, strict=True)
    ]
    return [weights @ v, *summed]


def found(of: Case) -> list[Any]:
    out = attend(*of.tensors, of.mask_tensor, **of.params)
    for x in of.tensors:
        x.grad = None
    out.backward(of.g_tensor)
    return [out, *(x.grad for x in of.tensors)]


def compare(of: Case, made: list[Any]) -> None:
    for name, x, wanted in zip(("result", *FIELDS), made, exact(of), strict=True):
        error = np.abs(numbers(x) - wanted).max() / max(1e-3, np.abs(wanted).max())
        assert error < TOLERANCE[str(x.dtype)], f"{name}: {error}"


@pytest.mark.parametrize("targets", [1, 2, 15] if ALL else [1, 15])
@pytest.mark.parametrize("seed", range(100 if ALL else 3))
def test_few_targets_share_their_sources_between_blocks(
    seed: int, targets: int, gpu: Device, monkeypatch: pytest.MonkeyPatch, launches: Callable[[Any], list[str]]
) -> None:
    """Of heads that lie in any order, any number of features, and masks; gradients take what was found on the way."""
    monkeypatch.setattr(attention, "FEWEST", 16)
    sources = random.Random(seed).choice([1, 7, 64, 200, 1100])
    of, made = case(seed + 1000, gpu, targets=targets, sources=sources), list[Any]()
    names = launches(lambda: made.extend(found(of)))
    assert names == [f"attention_{name}" for name in ("of_few", "of_parts", "query_gradient", "source_gradients")]
    compare(of, made)


def test_few_targets_of_very_many_heads_are_composed(
    gpu: Device, monkeypatch: pytest.MonkeyPatch, launches: Callable[[Any], list[str]]
) -> None:
    """There are blocks enough then, and each would leave a row of float32."""
    monkeypatch.setattr(attention, "FEWEST", 16)
    for count, kernels in ((2112, 2), (2113, 0)):
        xs = [tensor(np.random.default_rng(i).normal(size=(count, 1, 8)), "float16", gpu) for i in range(3)]
        assert len(launches(lambda xs=xs: attend(*xs))) == kernels


@pytest.mark.parametrize("seed", range(400 if ALL else 12))
def test_the_result_and_its_gradients(seed: int, gpu: Device, launches: Callable[[Any], list[str]]) -> None:
    """Three times: as decided, as recorded, and by plan; the same bits each time."""
    of = case(seed, gpu)
    made: list[Any] = []
    for _ in range(3):
        names = launches(lambda: made.append([numbers(x) for x in found(of)]))
        assert names == ["attention", "attention_query_gradient", "attention_source_gradients"]
    for x, again in zip(made[0] * 2, [*made[1], *made[2]], strict=True):
        np.testing.assert_array_equal(x, again)
    compare(of, found(of))


@pytest.mark.parametrize("mask", ["", "bools"])
def test_gradients_of_many_features_fit_less_shared_memory(
    mask: str, gpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a GPU whose blocks have 99 KiB."""
    runtime, sizes = gpu.kernels.backend.runtime, []
    monkeypatch.setattr(runtime, "capability", 86)
    bind = type(runtime).bind
    monkeypatch.setattr(runtime, "bind", lambda unit: [sizes.append(unit.shared), bind(runtime, unit)][1])
    of = case(4, gpu, targets=150, sources=140, features=128, mask=mask)
    compare(of, found(of))
    assert 48 << 10 < max(sizes) <= 99 << 10


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch, gpu: Device) -> Callable[[Any], list[str]]:
    """The kernels of this module that some work launches, also by a plan or a program."""
    runtime = gpu.kernels.backend.runtime
    names, bind = list[str](), type(runtime).bind
    plain = runtime._units

    def noted(unit: Any) -> Any:
        launch = bind(runtime, unit)
        if not unit.family.startswith("attention") or "weights" in unit.family:
            return launch

        def run(*given: Any) -> None:
            names.append(unit.family)
            launch(*given)

        return run

    monkeypatch.setattr(runtime, "_units", dict(plain))
    monkeypatch.setattr(runtime, "bind", noted, raising=False)

    def during(work: Callable[[], Any]) -> list[str]:
        del names[:]
        work()
        return list(names)

    return during


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_under_jit_and_captured(seed: int, graphs: bool, gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu.kernels.backend, "graphs", graphs)
    of = case(seed, gpu)

    def step(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> list[Tensor]:
        leaves = [x.detach() for x in (q, k, v)]
        for x in leaves:
            x.requires_grad = True
        out = attend(*leaves, of.mask_tensor, **of.params)
        out.backward(g)
        return [out, *(x.grad for x in leaves)]

    plain, called = [numbers(x) for x in found(of)], jit(step)
    for _ in range(4):
        made = called(*(x.detach() for x in of.tensors), of.g_tensor)
        for x, wanted in zip(made, plain, strict=True):
            np.testing.assert_array_equal(numbers(x), wanted)


@pytest.mark.skipif(os.environ.get("MICROGRAD_CUDA_POOL") == "0", reason="only a pool says what is asked of it")
def test_no_array_of_all_scores_is_allocated(gpu: Device) -> None:
    """Forward and backward take no more than an eighth of it at once."""
    import cupy

    length = 512
    of = case(0, gpu, targets=length, sources=length, features=64, mask="", causal=True, dtype="bfloat16")
    sizes = []

    class Noted(cupy.cuda.MemoryHook):  # type: ignore[misc]
        name = "sizes"

        def malloc_preprocess(self, device_id: int, size: int, mem_size: int) -> None:
            sizes.append(size)

    with Noted():
        made = found(of)
    count = math.prod(of.arrays[0].shape[:2])
    assert 0 < max(sizes) <= count * length * 64 * 2
    assert max(sizes) * 8 <= count * length * length * 2
    compare(of, made)


@pytest.mark.parametrize("targets", [40, 8])
def test_a_target_that_sees_nothing_gives_and_gets_nothing(
    targets: int, gpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "FEWEST", 16)
    of = case(3, gpu, targets=targets, sources=40, features=24, mask="bools", causal=False)
    hidden = np.broadcast_to(~of.mask.any(axis=-1), of.arrays[0].shape[:-1])
    hidden = hidden | np.zeros_like(hidden)
    made = [numbers(x) for x in found(of)]
    if hidden.any():
        assert not made[0][hidden].any()
        assert not made[1][hidden].any()
    nothing = np.zeros((targets, 40), bool)
    blind = of._replace(mask=nothing, mask_tensor=tensor(nothing, "", gpu))
    assert not any(numbers(x).any() for x in found(blind))


@pytest.mark.parametrize("targets", [40, 8])
@pytest.mark.parametrize("least", [-1e5, -1e7, -1e9, -3.3e38])
def test_a_row_that_is_masked_by_large_numbers_has_weights_that_sum_to_one(
    least: float, targets: int, gpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also backward: the sum of a row has digits of its own beside the largest score."""
    monkeypatch.setattr(attention, "FEWEST", 16)
    query, key = (tensor(np.zeros((1, 1, n, 16)), "bfloat16", gpu) for n in (targets, 6))
    value = tensor(np.arange(96.0).reshape(1, 1, 6, 16), "bfloat16", gpu)
    value.requires_grad = True
    mask = np.zeros((targets, 6))
    mask[::2] = least
    out = attend(query, key, value, tensor(mask, "bfloat16", gpu))
    out.sum().backward()
    assert value.grad is not None
    np.testing.assert_allclose(numbers(out), np.broadcast_to(40.0 + np.arange(16.0), out.shape), rtol=1e-2)
    np.testing.assert_allclose(numbers(value.grad), np.full(value.shape, targets / 6), rtol=1e-2)


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("targets", [1, 20, 64])
def test_a_key_that_nobody_sees_gets_nothing(
    targets: int, number: float, gpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is in it, also where targets fill no tile."""
    monkeypatch.setattr(attention, "FEWEST", 16)
    rng = np.random.default_rng(0)
    query, key, value = (rng.normal(size=(1, 1, n, 16)) for n in (targets, 9, 9))
    key[0, 0, 4] = number
    tensors = [tensor(x, "float16", gpu) for x in (query, key, value)]
    for x in tensors:
        x.requires_grad = True
    mask = np.ones((targets, 9), bool)
    mask[:, 4] = False
    attend(*tensors, tensor(mask, "", gpu)).sum().backward()
    for x in tensors[1:]:
        assert x.grad is not None
        assert np.isfinite(numbers(x.grad)).all()
        assert not numbers(x.grad)[0, 0, 4].any()


def composed(of: Case, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    with monkeypatch.context() as patch:
        patch.setattr(of.tensors[0].device.kernels.backend.runtime, "capability", 0)
        return [numbers(x) for x in found(of)]


@pytest.mark.parametrize("mask", ["", "bools", "numbers"])
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("where", "targets"), [(0, 40), (1, 40), (2, 40), (1, 8), (2, 8)])
def test_what_is_not_finite_is_as_composed(
    targets: int, where: int, number: float, mask: str, gpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "FEWEST", 16)
    of = case(5, gpu, targets=targets, sources=40, features=24, mask=mask, causal=False, dtype="float16")
    array = of.arrays[where].copy()
    array[0, 0, 7, 3] = number
    x = tensor(array, "float16", gpu)
    x.requires_grad = True
    of.tensors[where] = x
    for name, own, wanted in zip(("result", *FIELDS), found(of), composed(of, monkeypatch), strict=True):
        np.testing.assert_array_equal(np.isfinite(numbers(own)), np.isfinite(wanted), err_msg=name)


def test_a_second_gradient_is_that_of_the_composition(gpu: Device) -> None:
    of = case(7, gpu, targets=20, sources=30, features=24, mask="", dtype="float16")

    def twice(arrays: list[Any], g: Any, device: Device, dtype: str) -> list[Any]:
        xs = [Tensor(a, device=device).astype(dtype).detach() for a in arrays]
        for x in xs:
            x.requires_grad = True
        out = attend(*xs, **of.params)
        (out * Tensor(g, device=device).astype(dtype)).sum().backward(create_graph=True)
        first = [x.grad for x in xs]
        for x in xs:
            x.grad = None
        sum(((x.astype("float32") ** 2).sum() for x in first), Tensor(0.0, device=device)).backward()
        return [numbers(x.grad) for x in xs]

    own, wanted = twice(of.arrays, of.g, gpu, "float16"), twice(of.arrays, of.g, Device("cpu"), "float64")
    for x, y in zip(own, wanted, strict=True):
        assert np.abs(x - y).max() / np.abs(y).max() < 2e-2


def test_what_it_does_not_take_is_composed(gpu: Device, launches: Callable[[Any], list[str]]) -> None:
    """Other dtypes and features, packs that lie elsewhere, a mask with a gradient, a factor below 0."""
    rng = np.random.default_rng(0)

    def leaf(*shape: int, dtype: str = "float16") -> Tensor:
        x = tensor(rng.normal(size=shape), dtype, gpu)
        x.requires_grad = True
        return x

    apart = tensor(rng.normal(size=(2, 20, 25)), "float16", gpu)[:, :, 1:]
    apart.requires_grad = True
    same, mask = leaf(2, 20, 24), leaf(20, 20)
    for query, key, value, more in (
        (*[leaf(2, 20, 24, dtype="float32")] * 3, {}),
        (*[leaf(2, 20, 12)] * 3, {}),
        (*[leaf(2, 20, 136)] * 3, {}),
        (same, same, leaf(2, 20, 8), {}),
        (apart, same, same, {}),
        (same, same, same, {"attn_mask": mask}),
        (same, same, same, {"scale": -1.0}),
        (same, leaf(2, 0, 24), leaf(2, 0, 24), {}),
    ):

        def both(query: Any = query, key: Any = key, value: Any = value, more: Any = more) -> None:
            attend(query, key, value, **more).sum().backward()

        assert launches(both) == []
    assert mask.grad is not None
    assert launches(lambda: attend(same, same, same)) == ["attention"]


def test_a_batch_of_vmap_is_composed(gpu: Device) -> None:
    x = tensor(np.random.default_rng(0).normal(size=(3, 2, 20, 24)), "float16", gpu)
    whole = attend(x, x, x)
    each = vmap(lambda x: attend(x, x, x))(x)
    assert np.abs(numbers(whole) - numbers(each)).max() < 4e-3


def test_gradients_without_a_result_just_made(gpu: Device) -> None:
    """What a row adds up to is computed once more."""
    of = case(11, gpu, targets=30, sources=50, features=24, dtype="float16", mask="")
    out = attend(*of.tensors, **of.params).detach()
    gpu.kernels.backend.runtime.remembered.forget()
    params = {"is_causal": of.params["is_causal"], "scale": of.params["scale"] or 24**-0.5}
    made = FUNCTIONS["attention_gradients"](of.g_tensor, out, *(x.detach() for x in of.tensors), 0.0, **params)
    for x, y in zip(made, [x.grad for x in of.tensors] if found(of) else (), strict=True):
        summed = numbers(x) if x.shape == y.shape else numbers(x).sum(axis=1, keepdims=True)
        assert np.abs(summed - numbers(y)).max() < 1e-2
