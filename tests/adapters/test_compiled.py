"""Devices that compile: a toy over the system's C compiler, and what nests look like in each language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Device, Tensor, jit, nn, optim, plugins, random
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.compiler import languages
from micrograd_core.compiler.fusion import Limits, Run, plan
from micrograd_core.compiler.languages import Language
from micrograd_core.compiler.passes import optimized, written
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.compiler.text import Printer
from micrograd_core.conformance.cases import cases
from micrograd_core.dtypes import DTYPES
from micrograd_core.layout import Layout
from micrograd_core.ops import CORE_KERNELS, TABLE
from micrograd_core.ops.record import Array
from tests.adapters import toy_c, toy_groups
from tests.ops.definitions import needs_complex

LANGUAGES = {name: x for name, x in vars(languages).items() if isinstance(x, Language)}
with_compiler = pytest.mark.skipif(toy_c.COMPILER is None, reason="there is no C compiler")


def opened(device: str) -> Iterator[Device]:
    name = device.partition(":")[0]
    plugins.register(name, (toy_groups if name == "toy-groups" else toy_c).Plugin())
    backend: Any = Device(device).kernels.backend
    build = backend.build

    def complete(text: str, nest: Any) -> Any:
        """WebGPU leaves out buffers that a kernel has and does not use."""
        used = {int(n) for n in re.findall(r"\bp(\d+)\b", text)}
        assert used >= {i for i, x in enumerate(nest.buffers) if x.role != "scratch"}, text
        return build(text, nest)

    backend.build = complete
    yield Device(device)
    plugins.unregister(name)


@pytest.fixture(scope="module")
def toy() -> Iterator[Device]:
    yield from opened("toy-c")


@pytest.fixture(scope="module", params=["toy-c", "toy-groups", "toy-groups:1"], ids=["units", "groups", "sharing"])
def each_toy(request: pytest.FixtureRequest) -> Iterator[Device]:
    """Without workgroups, with them, and where they share memory."""
    yield from opened(request.param)


def numbers(x: Any) -> Any:
    return x.detach().to("cpu").numpy()


CASES = [
    each for each in cases(tuple(languages.C.types), frozenset({"boolean-indexing", "data-dependent-shapes", "jit"}))
    if each.layout == "contiguous" and each.id.split("-")[1] == "0" and each.dtype in ("float32", "int32", "bool")
]  # fmt: skip


@with_compiler
@pytest.mark.parametrize("case", CASES[:: 1 + len(CASES) // 90], ids=lambda case: case.id)
def test_an_operation_gives_what_the_cpu_gives(case: Any, toy: Device) -> None:
    found, expected = (case.call(case.tensors(each)) for each in (toy, Device("cpu")))
    for x, y in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, expected)), strict=True):
        np.testing.assert_allclose(numbers(x), numbers(y), rtol=2e-5, atol=1e-6)


@with_compiler
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "gelu", "silu"])
@pytest.mark.parametrize("shape", [(4, 7), (3, 5, 11), (2, 300)])
def test_fused_compositions_have_one_text_for_all_lengths(name: str, shape: tuple[int, ...], toy: Device) -> None:
    values = np.random.default_rng(0).normal(size=shape).astype("float32")
    params = {"axis": -1} if "softmax" in name else {}
    found, expected = [], []
    for device, to in ((toy, found), (Device("cpu"), expected)):
        x = Tensor(values, device=device)
        y = getattr(nn.functional, name)(x, **params)
        (y * y).sum().backward()
        to += [numbers(y), numbers(x.grad)]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)


@with_compiler
def test_reductions_longer_than_a_unit_adds_up_go_by_chunks(toy: Device) -> None:
    values = np.random.default_rng(0).uniform(0, 0.1, (3, 10_001)).astype("float32")
    x = mg.asarray(values, device=toy)
    np.testing.assert_allclose(numbers(x.sum(axis=1)), values.astype("float64").sum(1), rtol=3e-7)
    np.testing.assert_array_equal(numbers(x.T.max(axis=0)), values.max(1))
    assert numbers(mg.zeros((0, 4), device=toy).sum(axis=0)).tolist() == [0, 0, 0, 0]
    assert [f(mg.asarray(2.5, device=toy)).item() for f in (mg.sum, mg.max, mg.prod)] == [2.5, 2.5, 2.5]


@with_compiler
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 0), (0, 2)), ((0, 3), (3, 2)),
        ((70, 33), (33, 67)), ((2, 65, 5), (5, 63)), ((3, 40_000), (40_000,)), ((1, 150, 4), (3, 4, 150)),
    ],
)  # fmt: skip
def test_products_of_matrices(x: tuple[int, ...], y: tuple[int, ...], each_toy: Device) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=x).astype("float32"), rng.normal(size=y).astype("float32")
    found = mg.asarray(a, device=each_toy) @ mg.asarray(b, device=each_toy)
    exact = a.astype("float64") @ b.astype("float64")
    np.testing.assert_allclose(numbers(found), exact, rtol=1e-5, atol=1e-6 * x[-1] ** 0.5)
    turned = mg.asarray(np.ascontiguousarray(b.T), device=each_toy)
    np.testing.assert_array_equal(
        numbers(mg.asarray(a, device=each_toy) @ turned.permute(*range(b.ndim)[::-1])), numbers(found)
    )


BATCHES = [((2, 3), (2, 3)), ((2, 3, 2), (2, 3, 2)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((1, 4), (4,)), ((), (2, 2))]


@with_compiler
@pytest.mark.parametrize(("first", "second"), BATCHES)
@pytest.mark.parametrize("seed", range(4))
def test_products_of_batches_that_lie_anyhow(first: Any, second: Any, seed: int, each_toy: Device) -> None:
    rng = np.random.default_rng(seed)
    given = []
    for batch, matrix in ((first, (9, 17)), (second, (17, 11))):
        shape = (*batch, *matrix)
        order = rng.permutation(len(shape))
        values = rng.integers(-4, 5, [shape[axis] for axis in order]).astype("float32")
        steps = tuple(slice(None, None, -1 if rng.random() < 0.3 else 1) for _ in shape)
        back = tuple(np.argsort(order).tolist())
        given.append((values.transpose(back)[steps], mg.asarray(values, device=each_toy).permute(*back)[steps]))
    (a, x), (b, y) = given
    np.testing.assert_array_equal(numbers(x @ y), a @ b)


@with_compiler
def test_products_of_batches_with_an_axis_of_length_1(each_toy: Device) -> None:
    a = np.arange(96, dtype="float32").reshape(2, 3, 4, 2, 2)
    b = np.arange(32, dtype="float32").reshape(2, 1, 4, 1, 2, 2)
    x, y = mg.asarray(a, device=each_toy)[:, :, :, None], mg.asarray(b, device=each_toy)
    np.testing.assert_array_equal(numbers(x @ y), a[:, :, :, None] @ b)


WINDOWS = [
    ((5,), (2,), (1,), (0,), (1,)), ((7,), (3,), (2,), (1,), (2,)), ((5, 6), (3, 2), (1, 2), (1, 0), (1, 1)),
    ((4, 6), (2, 2), (2, 2), (0, 0), (1, 1)), ((3, 4, 5), (2, 1, 3), (1, 1, 2), (1, 0, 1), (1, 2, 1)),
    ((5, 4, 3), (2, 2, 1), (2, 1, 1), (0, 0, 0), (1, 1, 1)), ((6, 6), (2, 2), (3, 3), (2, 1), (3, 1)),
    ((3, 3, 2, 2), (2, 1, 2, 1), (1, 1, 1, 1), (0, 1, 1, 0), (1, 1, 1, 1)),
]  # fmt: skip


@with_compiler
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("windows", WINDOWS)
def test_windows_and_their_sums(windows: Any, dtype: str, toy: Device) -> None:
    size, kernel, stride, padding, dilation = windows
    params = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    values = np.random.default_rng(0).integers(-9, 9, (2, 3, *size)).astype(dtype)
    found = []
    for device in (toy, Device("cpu")):
        x = mg.asarray(values, device=device)
        seen = FUNCTIONS["patches"](x.mT.mT, fill=7.0, **params)
        found.append((seen, FUNCTIONS["patches_gradient"](seen, size=size, **params)))
    for x, y in zip(*found, strict=True):
        np.testing.assert_array_equal(numbers(x), numbers(y))


@with_compiler
def test_a_program_takes_apart_what_the_device_has_no_kernel_for(toy: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, device=toy), nn.ReLU(), nn.MaxPool2d(2))
    x = mg.asarray(np.random.default_rng(0).normal(size=(2, 1, 4, 6)).astype("float32"), device=toy)
    backend, launched = toy.kernels.backend, list[Any]()
    expected, run = model(x), jit(model)
    run(x)
    launch = backend.launch
    monkeypatch.setattr(backend, "launch", lambda *given: (launched.append(given[1]), launch(*given)))
    np.testing.assert_array_equal(numbers(run(x)), numbers(expected))
    assert len(launched) == 4  # patches, the product, the bias with the rectifier, and maxima of a view


@with_compiler
def test_memory_is_kept_for_the_next_and_given_back(toy: Device) -> None:
    toy.release_memory()
    before = toy.memory()["in_use"]
    x = mg.zeros(1000, device=toy)
    assert toy.memory()["in_use"] == before + 4000
    buffer = x._handle.buffer
    del x
    assert toy.memory()["in_use"] == before
    assert toy.memory()["reserved"] == before + 4000
    assert mg.ones(1000, device=toy)._handle.buffer is buffer
    toy.release_memory()
    assert toy.memory()["reserved"] == toy.memory()["in_use"]


@with_compiler
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((1,), 0), ((37,), 0), ((2, 9), 0), ((3, 63, 2), 1), ((2, 700), 1), ((0, 3), 1)]
)
def test_sorts_are_stable_with_nan_at_the_end(
    shape: tuple[int, ...], axis: int, dtype: str, descending: bool, toy: Device
) -> None:
    values = np.random.default_rng(0).integers(0, 5, shape).astype(dtype)
    if dtype == "float32":
        values[values == 2] = np.nan
    key = -values.astype("float64") if descending else values
    order = np.argsort(key, axis=axis, kind="stable")
    x = mg.asarray(values, device=toy)
    params = {"axis": axis, "descending": descending}
    np.testing.assert_array_equal(numbers(mg.argsort(x, **params)), order)
    np.testing.assert_array_equal(numbers(mg.sort(x, **params)), np.take_along_axis(values, order, axis))


@with_compiler
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
@pytest.mark.parametrize("length", [0, 1, 40])
def test_places_in_what_is_sorted(length: int, dtype: str, side: str, toy: Device) -> None:
    rng = np.random.default_rng(length)
    edges, wanted = (rng.integers(0, 30, shape).astype(dtype) for shape in ((length,), (5, 7)))
    if dtype == "float32":
        edges[length // 2 :: 3], wanted[:, 2] = np.nan, np.nan
    edges = np.sort(edges)
    found = mg.searchsorted(mg.asarray(edges, device=toy), mg.asarray(wanted.T, device=toy).T, side=side)
    np.testing.assert_array_equal(numbers(found), np.searchsorted(edges, wanted, side=side))
    assert found.dtype == mg.int64


@with_compiler
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
@pytest.mark.parametrize(
    ("shape", "axis", "named"),
    [
        ((5, 3), 0, (9,)), ((4, 7, 3), 1, (2, 3)), ((2, 3, 6), 2, (40,)), ((1,), 0, (3,)), ((3, 2), 0, (0,)),
        ((3, 0), 0, (4,)),
    ],
)  # fmt: skip
def test_what_is_added_by_index_is_added_in_order(
    shape: tuple[int, ...], axis: int, named: tuple[int, ...], dtype: str, toy: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("micrograd_core.adapters.templates.LONGEST", 7)  # in parts
    rng = np.random.default_rng(0)
    x, least = rng.normal(size=shape).astype("float32"), 0 if dtype.startswith("u") else -shape[axis]
    indices = rng.integers(least, shape[axis], named).astype(dtype)
    values = rng.normal(size=(*shape[:axis], *named, *shape[axis + 1 :])).astype("float32")
    expected = x.copy()
    flat = values.reshape(*shape[:axis], -1, *shape[axis + 1 :]) if values.size else values[..., :0]
    for i, each in enumerate(indices.ravel().tolist()) if x.size else ():
        expected[(slice(None),) * axis + (each,)] += flat.take(i, axis)
    x, indices, values = (mg.asarray(each, device=toy) for each in (x, indices, values))
    np.testing.assert_array_equal(numbers(mg.index_add(x, indices, values, axis=axis)), expected)
    ones = mg.ones(values.shape, dtype="float32", device=toy)
    for one in (1.0, ones[..., :1]) if 0 not in values.shape else ():
        again = mg.index_add(x, indices, one, axis=axis)
        np.testing.assert_array_equal(numbers(again), numbers(mg.index_add(x, indices, ones, axis=axis)))


@with_compiler
@pytest.mark.parametrize("threads", [1, 64, 1 << 20])
def test_rows_that_are_used_twice_get_the_gradients_of_both(
    threads: int, toy: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy.kernels.backend, "threads", threads)
    indices = np.random.default_rng(0).integers(0, 50, (4, 30))
    found = []
    for device in (toy, Device("cpu")):
        weight = Tensor(np.ones((60, 8)), device=device, dtype="float32")
        rows = nn.functional.embedding(mg.asarray(indices, device=device), weight)
        (rows * mg.arange(8, device=device, dtype="float32")).sum().backward()
        found.append(numbers(weight.grad))
    np.testing.assert_array_equal(*found)


@with_compiler
@pytest.mark.parametrize("threads", [1, 2, 64, 1 << 20])
def test_no_row_is_named_by_an_integer_beyond_them(
    threads: int, each_toy: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(each_toy.kernels.backend, "threads", threads)
    weight = Tensor([[1.0], [2.0], [3.0]], device=each_toy)
    found = nn.functional.embedding(mg.asarray([2, -1, 3], device=each_toy), weight)
    assert str(found.tolist()) == "[[3.0], [nan], [nan]]"
    found.sum().backward()
    assert weight.grad.tolist() == [[0.0], [0.0], [1.0]]


@with_compiler
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 1000, 17_000])
@pytest.mark.parametrize("initial", [False, True])
def test_running_sums_go_by_parts(length: int, dtype: str, initial: bool, toy: Device) -> None:
    values = np.random.default_rng(0).integers(0, 4, (2, length, 3)).astype(dtype)
    for x, axis in ((values, 1), (values.T, 1), (values[0, :, 0], 0)):
        expected = x.cumsum(axis, dtype=dtype)
        if initial:
            expected = np.insert(expected, 0, 0, axis)
        found = mg.cumulative_sum(mg.asarray(x, device=toy), axis=axis, include_initial=initial, dtype=dtype)
        np.testing.assert_array_equal(numbers(found), expected)


@with_compiler
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32", "uint64"])
def test_elements_by_index_are_one_launch(dtype: str, toy: Device) -> None:
    values = np.random.default_rng(0).normal(size=(4, 5, 3)).astype("float32")
    x, indices = mg.asarray(values, device=toy), np.array([[0, 4], [1, 2]]).astype(dtype)
    backend = toy.kernels.backend
    for axis in range(3):
        given = np.minimum(indices, values.shape[axis] - 1)
        found = backend.kernel("take")(x._handle, mg.asarray(given, device=toy)._handle, axis=axis)
        expected = np.take(values, given.astype("int64"), axis)
        np.testing.assert_array_equal(np.frombuffer(backend.to_host(found), "float32").reshape(found.shape), expected)
    outside = mg.asarray(np.array([-1, 5, -6]).astype(dtype), device=toy)
    found = np.frombuffer(backend.to_host(backend.kernel("take")(x._handle, outside._handle, axis=1)), "float32")
    last = values[:, -1] if dtype.startswith("i") else np.nan
    np.testing.assert_array_equal(
        found.reshape(4, 3, 3), np.stack([last + 0 * values[:, 0]] + [np.nan * values[:, 0]] * 2, 1)
    )
    np.testing.assert_array_equal(
        numbers(mg.take_along_axis(x, mg.asarray(np.array([[[2], [0]]]).astype(dtype), device=toy), axis=1)),
        np.take_along_axis(values, np.broadcast_to([[[2], [0]]], (4, 2, 3)), 1),
    )


@with_compiler
def test_long_sums_of_programs_go_by_chunks(toy: Device) -> None:
    values = np.random.default_rng(0).uniform(0, 1, 30_000).astype("float32")
    x, units = mg.asarray(values, device=toy), []
    function = jit(lambda x: (x * x).sum())
    np.testing.assert_allclose(function(x).item(), (values.astype("float64") ** 2).sum(), rtol=1e-6)
    backend = toy.kernels.backend
    launch, backend.launch = backend.launch, lambda *given: units.append(given[1]) or launch(*given)
    try:
        function(x)
    finally:
        del backend.launch
    assert units[0] == 30_000  # the products; then sums of chunks, of the last chunk, and of these
    assert units[1:] == [7, 1, 1]


@with_compiler
def test_what_a_kernel_declines_is_composed_also_after_many_calls(toy: Device) -> None:
    x = mg.asarray([1.5, -2.5], dtype="float32", device=toy)
    mg.ceil(mg.asarray([1], dtype="int16", device=toy))
    for _ in range(100):
        mg.trunc(x)
    assert numbers(mg.trunc(mg.asarray([3, -4], dtype="int16", device=toy))).tolist() == [3, -4]


@with_compiler
def test_numbers_share_a_kernel_and_zero_keeps_its_sign(toy: Device) -> None:
    x = mg.asarray([1.0, -2.0], dtype="float32", device=toy)
    assert numbers(x * 2.0).tolist() == [2, -4]
    built = len(toy.kernels.backend._built)
    assert numbers(x * 3.0).tolist() == [3, -6]
    assert len(toy.kernels.backend._built) == built
    assert np.signbit(numbers(mg.asarray([0.0], dtype="float32", device=toy) * -0.0)).tolist() == [True]


def trained(device: Device, compiled: bool) -> list[float]:
    rng = random.Generator(0)
    with mg.use_device(device):
        model = nn.Sequential(
            nn.Linear(2, 8, generator=rng), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 1, generator=rng)
        )
        x = mg.asarray([[0, 0], [0, 1], [1, 0], [1, 1]], dtype="float32")
        t = mg.asarray([[0], [1], [1], [0]], dtype="float32")
        rule = optim.Adam(model.parameters(), lr=0.05)

        def step(x: Any, t: Any) -> Any:
            loss = nn.mse_loss(model(x), t)
            rule.zero_grad()
            loss.backward()
            rule.step()
            return loss

        act = jit(step) if compiled else step
        return [act(x, t).item() for _ in range(10)]


@with_compiler
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_a_network_trains_as_on_the_cpu(compiled: bool, each_toy: Device) -> None:
    np.testing.assert_allclose(trained(each_toy, compiled), trained(Device("cpu"), False), rtol=1e-3)


OPTIMISERS = {
    "Adam": lambda params: optim.Adam(params, 0.1, weight_decay=0.3),
    "AdamW": lambda params: optim.AdamW(params, 0.1, betas=(0.5, 0.9)),
    "amsgrad": lambda params: optim.Adam(params, 0.1, amsgrad=True),
    "SGD": lambda params: optim.SGD(params, 0.1, momentum=0.9, nesterov=True),
    "dampened": lambda params: optim.SGD(params, 0.1, momentum=0.9, dampening=0.3, weight_decay=0.1),
    "straight": lambda params: optim.SGD(params, 0.1),
}


@with_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_optimiser_moves_parameters_as_on_the_cpu(name: str, dtype: str, each_toy: Device) -> None:
    """Of every size, and none; gradients that lie otherwise; a learning rate that changes; two models in turn."""
    shapes, found = [(3, 4), (5,), (), (0, 2), (1, 1), (300, 300)], dict[str, list[Any]]()
    for device in (each_toy, Device("cpu")):
        rng = np.random.default_rng(0)
        for of_a_model in (shapes, shapes[::-1]):
            params = [Tensor(rng.normal(size=n).astype(dtype), device=device, requires_grad=True) for n in of_a_model]
            rule = OPTIMISERS[name](params)
            for step in range(3):
                rule.zero_grad()
                for p in params:
                    weight = mg.asarray(rng.normal(size=p.shape[::-1]).astype(dtype), device=device)
                    (p * (weight.mT if p.ndim == 2 else weight)).sum().backward()
                rule.lr = 0.1 / (step + 1)
                rule.step()
            found.setdefault(str(device), []).extend(np.asarray(x.detach().to("cpu")) for x in params)
    for x, y in zip(*found.values(), strict=True):
        np.testing.assert_allclose(x, y, *(1e-5, 1e-5) if dtype == "float32" else (1e-12, 1e-12))


@with_compiler
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", ["Adam", "SGD"])
def test_a_step_of_an_optimiser_is_one_launch_of_workgroups(
    name: str, compiled: bool, each_toy: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each parameter has workgroups of its own, where there are any; else it has a launch."""
    backend: Any = each_toy.kernels.backend
    params = [Tensor(np.ones(n, np.float32), device=each_toy, requires_grad=True) for n in ((3,), (5,), (2, 4))]
    rule, launched, launch = OPTIMISERS[name](params), list[int](), backend.launch
    step = jit(rule.step) if compiled else rule.step
    for _ in range(3):
        sum((p.sum() for p in params), start=mg.zeros((), device=each_toy)).backward()
        step()
        rule.zero_grad()
    for p in params:
        p.grad = mg.ones_like(p)
    monkeypatch.setattr(backend, "launch", lambda *given: (launched.append(given[1]), launch(*given)))
    step()
    assert [n for n in launched if n > 1] == ([4 + 8 + 8] if backend.group else [3, 5, 8])


@with_compiler
@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_settings_that_change_at_each_step_need_no_kernel(name: str, each_toy: Device) -> None:
    p = Tensor(np.ones(7, np.float32), device=each_toy, requires_grad=True)
    rule: Any = {"SGD": optim.SGD, "Adam": optim.Adam}[name](
        [p], weight_decay=0.1, **{"momentum": 0.5} if name == "SGD" else {}
    )
    backend, known = each_toy.kernels.backend, list[tuple[int, int]]()
    for step in range(6):
        rule.lr, rule.weight_decay = 0.1 / (step + 1), 0.01 * (step + 1)
        if name == "SGD":
            rule.momentum = 0.5 + step / 100
        else:
            rule.betas, rule.eps = (0.9 - step / 100, 0.99 - step / 1000), 1e-8 * (step + 1)
        (p * p).sum().backward()
        rule.step()
        rule.zero_grad()
        known.append((len(backend._plans), len(backend._built)))
    assert known[2:] == known[1:-1]


@with_compiler
@pytest.mark.parametrize("most", [0, 1])
def test_lists_of_parameters_that_are_too_many_have_a_launch_for_each(
    most: int, each_toy: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("micrograd_core.adapters.compiled.MODELS", most)
    found = []
    for device in (each_toy, Device("cpu")):
        params = [Tensor(np.full(n, 2.0, np.float32), device=device, requires_grad=True) for n in (3, 5, 6)]
        rule = optim.Adam(params, 0.1)
        for step in range(5):
            rule.zero_grad()
            for p in params[step % 3 :]:
                (p * p).sum().backward()
            rule.step()
        found.append(np.concatenate([numbers(p) for p in params]))
    np.testing.assert_allclose(*found, rtol=1e-6)


@with_compiler
@pytest.mark.parametrize("size", [1, 7, 8, 1003])
def test_random_numbers_are_the_same_bits_everywhere(size: int, toy: Device) -> None:
    made = [
        ("random_uniform", "float32", {}), ("random_uniform", "float64", {}), ("random_permutation", "int64", {}),
        ("random_integers", "int64", {"low": -(1 << 63), "high": 1 << 63}),
        ("random_integers", "uint8", {"low": 3, "high": 9}),
    ]  # fmt: skip
    assert "random" in toy.capabilities
    for name, dtype, params in made:
        place = {"shape": (size,), "dtype": DTYPES[dtype], "key": 7 << 64 | 5, "block": (1 << 192) - 2, **params}
        assert toy.kernels.is_native(name)
        found, expected = (bytes(x.kernels.to_host(getattr(x.kernels, name)(**place))) for x in (toy, Device("cpu")))
        assert found == expected, name


@with_compiler
def test_random_numbers_of_a_program_are_made_in_the_nest_that_uses_them(toy: Device) -> None:
    def dropped(x: Any) -> Any:
        return mg.dropout(x, 0.5, generator=rng)

    x, found = mg.ones((50, 30), device=toy), []
    for function in (dropped, jit(dropped)):
        rng = random.Generator(3)
        found.append([numbers(function(x)).tolist() for _ in range(3)])
    assert found[0] == found[1]
    backend, launched = toy.kernels.backend, []
    launch, backend.launch = backend.launch, lambda *arguments: launched.append(arguments) or launch(*arguments)
    try:
        function(x)
    finally:
        del backend.launch
    assert len(launched) == 1


# ── programs and their text ──────────────────────────────────────────────────────────────────────────────────


def loss(k: Any, x: Any, y: Any, z: Any, w: Any) -> Any:
    total = k.add(k.multiply(k.exp(x), y), k.multiply(k.sin(z), w))
    return k.sum(k.divide(total, k.add(k.square(w), 1.0)), axis=(1,), keepdims=False), k.multiply(total, x)


def nests(language: Language, **limits: int) -> list[Run]:
    program = written(loss, [((3, 5), DTYPES["float32"])] * 4, {})
    assert program is not None
    layouts = [Layout.contiguous((3, 5))] * 4
    found = plan(optimized(program, language.covers), layouts, language.covers, Limits(**limits))
    return [step for step in found.steps if isinstance(step, Run)]


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_nest_is_printed_in_each_language(name: str) -> None:
    (step,) = nests(LANGUAGES[name])
    text = Printer(step.nest, LANGUAGES[name], 6).body()
    assert text.count("{") == text.count("}") == 1  # the loop over a row
    for function in ("exp", "sin"):
        assert LANGUAGES[name].primitives(DTYPES["float32"])[function].partition("{")[0] in text
    assert "None" not in text


METAL_WORDS = frozenset(
    """bool char short int long uchar ushort uint ulong float half const for if return true false INFINITY NAN u m
    fabs exp log log2 log10 sqrt sin cos tan tanh sinh cosh asinh acosh atanh asin acos atan atan2 pow copysign rint
    floor ceil trunc signbit using namespace metal include metal_stdlib result x n""".split()
)


def metal(nest: Any) -> set[str]:
    """The words of a nest in Metal that neither the language has nor the text declares."""
    text = Printer(nest, languages.METAL, 64).body()
    assert text.count("{") == text.count("}")
    assert "double" not in text
    words = set(re.findall(r"\b[A-Za-z_]\w*", re.sub(r"\b0x[\w.+-]+|\b\d\w*", "0", text)))
    return {each for each in words if not re.fullmatch(r"[cvpte]\d+|at\d+|power_u?int\d+", each)} - METAL_WORDS


def test_metal_knows_every_word_of_what_is_printed() -> None:
    covers, printed = languages.METAL.covers, set[str]()
    for name, op in TABLE.items():
        if not op.samples or needs_complex(op) or not all(isinstance(x, Array) for x in op.samples[0].operands):
            continue
        sample = op.samples[0]
        params = op.parameters(*map(_like, sample.operands), **sample.params) if op.parameters else sample.params
        operands = [(x.shape, DTYPES[x.dtype or "float32"]) for x in sample.operands]  # type: ignore[union-attr]
        program = written(lambda k, *xs, name=name, params=params: getattr(k, name)(*xs, **params), operands, {})
        if program is not None and all(x.dtype.name in languages.METAL.types for x in program.types):
            layouts = [Layout.contiguous(shape) for shape, _ in operands]
            for step in plan(optimized(program, covers), layouts, covers).steps:
                if isinstance(step, Run):
                    assert not metal(step.nest), name
                    printed.add(name)
    assert {"softmax", "layer_norm", "where", "sum", "tanh", "multiply"} <= printed
    assert len(printed) > 100


def _like(x: Any) -> Any:
    return mg.zeros(x.shape, dtype=x.dtype or "float32")


def test_metal_spells_every_core_primitive_and_no_double() -> None:
    for name in sorted(CORE_KERNELS & {each for each, op in TABLE.items() if op.kind == "elementwise"}):
        for dtype in ("float32", "int32"):
            operand = TensorSpec((2,), DTYPES[dtype])
            operands = (operand,) * max(1, TABLE[name].operands)
            covered = [x.covers(name, operands) for x in (languages.METAL, languages.OPENCL)]
            assert covered[0] == covered[1], (name, dtype)
    assert not languages.METAL.covers("add", (TensorSpec((2,), DTYPES["float64"]),) * 2)
    preamble = languages.METAL.preamble
    assert preamble.count("{") == preamble.count("}")
    known = METAL_WORDS | {f"power_{each}" for each in languages.METAL.types}
    assert set(re.findall(r"[A-Za-z_]\w*", preamble)) <= known


@pytest.mark.parametrize("most", [6, 4, 3])
def test_a_nest_has_no_more_buffers_than_a_device_takes(most: int) -> None:
    found = nests(languages.C, buffers=most)
    assert len(found) == {6: 1}.get(most, len(found))
    assert len(found) > (most < 6)
    assert all(len(step.inputs) + len(step.outputs) <= max(most, 3) for step in found)
