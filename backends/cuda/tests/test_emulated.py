"""What only an emulated GPU can tell: how often training copies or waits, and whether anything leaves its memory.

Left out but in the environment that backends/cuda/tests/emulated/build.py makes.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu.prove import trainer
from micrograd_core import (
    Device,
    GradScaler,
    Tensor,
    asarray,
    autocast,
    float32,
    global_norm,
    jit,
    nn,
    no_grad,
    optim,
    random,
    set_matmul_precision,
)
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.errors import OutOfMemory
from micrograd_core.tools.cli import main

if find_spec("micrograd_cuda"):
    from micrograd_cuda import biased, gemm, storage
    from micrograd_cuda.biased import BiasedProducts

pytestmark = pytest.mark.skipif(
    find_spec("emulated_cuda") is None, reason="there is no emulated GPU: python backends/cuda/tests/emulated/build.py"
)
ROOT = Path(__file__).resolve().parents[3]
WAITS = ("host to device", "device to host", "synchronisation")


@pytest.fixture
def counted() -> Callable[[str], int]:
    """How often something has happened."""
    count: Callable[[str], int] = importlib.import_module("emulated_cuda.boot").count
    return count


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Device:
    """Whose memory nobody else has seen, whatever tests before have shared: what kernels find is kept."""
    found = Device("cuda")
    monkeypatch.setattr(found.kernels.backend.runtime.remembered, "_exposed", False)
    return found


def test_training_neither_copies_nor_waits(gpu: Device, counted: Callable[[str], int]) -> None:
    step = trainer(gpu)
    for _ in range(3):
        loss = step()
    before = {event: counted(event) for event in (*WAITS, "allocation", "launch")}
    for _ in range(10):
        loss = step()
    after = {event: counted(event) - count for event, count in before.items()}
    assert {event: after[event] for event in (*WAITS, "allocation")} == dict.fromkeys((*WAITS, "allocation"), 0)
    assert after["launch"] > 0
    loss.item()
    assert counted("device to host") == before["device to host"] + 1


def losses(gpu: Device) -> tuple[Tensor, Tensor, Any]:
    """Logits, targets, and the cross-entropy of both."""
    rng = np.random.default_rng(0)
    x = Tensor(rng.normal(size=(600, 5)).astype("float32"), device=gpu)
    targets = Tensor(rng.integers(5, size=600), device=gpu)
    return x, targets, FUNCTIONS["cross_entropy"](x, targets)


@pytest.fixture
def remembered(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the device remembers: nothing yet, and as if no memory had ever been shared."""
    found = gpu.kernels.backend.runtime.remembered
    found.forget()
    monkeypatch.setattr(found, "_exposed", False)
    return found


def test_the_gradient_of_a_loss_is_one_launch_after_it(
    gpu: Device, remembered: Any, counted: Callable[[str], int]
) -> None:
    x, targets, _ = losses(gpu)
    assert len(remembered) == 1
    one, kernel = Tensor(1.0, dtype="float32", device=gpu), gpu.kernels.cross_entropy_gradient
    settings: dict[str, Any] = {"ignore_index": -100, "label_smoothing": 0.0, "reduction": "mean"}
    operands = one._handle, x._handle, targets._handle
    found = []
    for again in (False, True):  # it is given out once
        before = counted("launch")
        found.append(kernel(*operands, 1.0, **settings).get())
        assert counted("launch") - before == 1 + again
    assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize("inside", [(True, True), (True, False), (False, True)])
def test_what_one_stream_found_is_nothing_to_another(
    inside: tuple[bool, bool], gpu: Device, remembered: Any, counted: Callable[[str], int]
) -> None:
    """Its memory may be given to others of that stream while this one still reads."""
    with gpu.stream() if inside[0] else nullcontext():
        x, _, loss = losses(gpu)
        if inside[1] and inside[0]:
            before = counted("launch")
            loss.backward()
    if inside != (True, True):
        with gpu.stream() if inside[1] else nullcontext():
            before = counted("launch")
            loss.backward()
    assert counted("launch") - before == 1 + (inside[0] != inside[1])
    assert x.grad is not None


def test_what_a_capture_finds_is_nothing_to_others(gpu: Device, remembered: Any) -> None:
    """Its memory is written again by each launch of the graph."""
    backend, cupy = gpu.kernels.backend, gpu.kernels.backend.cupy
    before, within = (cupy.zeros(3, "float32") for _ in range(2))
    stream, workspace = cupy.cuda.Stream(non_blocking=True), cupy.zeros(1 << 10, "uint8")
    for _ in range(2):
        with stream:
            remembered.keep((before,), (0,), 1, made=True)
        with stream, backend.runtime.capturing(stream, workspace):
            assert remembered.take((before,), (0,)) is None
            assert remembered.take((within,), (0,)) is None
            remembered.keep((within,), (0,), 2, made=True)
        assert len(remembered) == 0


@pytest.mark.parametrize("shared", ["logits", "targets", "before"])
def test_what_another_library_writes_is_what_a_losss_gradient_reads(shared: str, gpu: Device, remembered: Any) -> None:
    cupy = gpu.kernels.backend.cupy
    rng = np.random.default_rng(0)
    a, numbers = rng.normal(size=(6, 5)).astype("float32"), np.array([0, 1, 2, -100, 3, 4])
    x, targets = Tensor(a, device=gpu), Tensor(numbers, device=gpu)
    before = cupy.from_dlpack(x.detach()) if shared == "before" else None
    loss = FUNCTIONS["cross_entropy"](x, targets)
    if before is not None:
        before[0] = a[0] = 7.0
        before[0, 0] = a[0, 0] = 9.0
    elif shared == "logits":
        cupy.from_dlpack(x.detach())[0, 0] = a[0, 0] = 9.0
    else:
        cupy.from_dlpack(targets)[3] = numbers[3] = 1
    loss.backward()
    wide = Tensor(a, dtype="float64", device="cpu")
    FUNCTIONS["cross_entropy"](wide, Tensor(numbers, device="cpu")).backward()
    assert x.grad is not None
    assert wide.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), wide.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_streams_count_apart(gpu: Device) -> None:
    """Blocks of two launches that run at the same time must not take each other for their own."""
    runtime = gpu.kernels.backend.runtime
    first = runtime.counter()
    assert runtime.counter() is first
    with gpu.stream():
        assert runtime.counter() is not first
        inside = losses(gpu)[2].item()
    assert inside == losses(gpu)[2].item()


# Of a network with one hidden layer, with two, with autocast to bfloat16; and under jit: forward, backward, Adam.
# Products are cuBLAS's, and not among them.
MOST_LAUNCHES = {
    (1, False, False): 6, (2, False, False): 8, (2, True, False): 23,
    (1, False, True): 6, (2, False, True): 8, (2, True, True): 23,
}  # fmt: skip


@pytest.mark.parametrize(("hidden", "half", "jitted"), MOST_LAUNCHES)
def test_a_step_takes_no_more_launches_than_it_did(
    hidden: int, half: bool, jitted: bool, gpu: Device, remembered: Any, counted: Callable[[str], int]
) -> None:
    rng = np.random.default_rng(0)
    sizes = [20, *[32] * hidden, 10]
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    model = nn.Sequential(*layers[:-1]).to(gpu)
    rule = optim.Adam(model.parameters())
    x = Tensor(rng.normal(size=(16, 20)).astype("float32"), device=gpu, requires_grad=False)
    targets = Tensor(rng.integers(10, size=16), device=gpu)

    def step() -> None:
        rule.zero_grad()
        with autocast("bfloat16") if half else nullcontext():
            loss = nn.cross_entropy(model(x), targets)
        loss.backward()
        rule.step()

    called = jit(step) if jitted else step
    for _ in range(3):
        called()
    before = counted("launch")
    called()
    assert counted("launch") - before <= MOST_LAUNCHES[hidden, half, jitted]


@pytest.mark.parametrize("copied", [0, 2**20])
@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("half", [False, True])
def test_a_transformers_step_is_of_own_kernels(
    half: bool, jitted: bool, copied: int, gpu: Device, anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of CuPy's, but eager ones that put query, key and value where their gradients belong.

    Products in the precision asked for. Between those of attention is one kernel each way, or there are none: halves
    are multiplied where the weights are, whichever way heads lie.
    """
    recorded = importlib.import_module("emulated_cuda.boot").recorded
    monkeypatch.setattr(gemm, "COPIED", copied)
    length = 20
    model = nn.TransformerBlock(32, 4).to(gpu)
    rule = optim.Adam(model.parameters())
    x = Tensor(np.random.default_rng(0).normal(size=(3, length, 32)).astype("float32"), device=gpu)

    def step() -> None:
        rule.zero_grad()
        with autocast("bfloat16") if half else nullcontext():
            loss = (model(x, is_causal=True) ** 2).mean()
        loss.backward()
        rule.step()

    called = jit(step) if jitted else step
    set_matmul_precision("high")
    try:
        for _ in range(3):
            called()
        lines = recorded(called)
    finally:
        set_matmul_precision("highest")
    names = [line.split()[0] for line in lines]
    others = [name for name in names if name.startswith("cupy")]
    assert len(others) == (0 if jitted else 3)
    assert all(name.startswith("cupy_copy") for name in others)
    found = sum("attention" in name or "softmax" in name for name in names)
    assert found == (3 if half else 2)
    computed = {line.partition(" bias")[0].split()[-1] for line in lines if line.startswith("product")}
    assert computed == {str(gemm.COMPUTE_32F if half else gemm.COMPUTE_TF32)}
    own = "Bfloat16" if half else "float"
    copies = sum(name.startswith(f"micrograd_unary_Copy_{own}_{own}_") for name in names)
    assert copies == (0 if half else 7 if copied else 1)  # of heads beside each other, and of small operands
    assert names.count("product") == 4 + 8 + (0 if half else 6 if copied else 6 + 5 * 2)


def layer(gpu: Device, dtype: str) -> tuple[list[Any], list[Any]]:
    """What a linear layer gives, and its gradients; and in float64."""
    rng = np.random.default_rng(0)
    numbers = [rng.integers(-4, 5, shape) / 4 for shape in ((7, 5), (3, 5), (3,))]
    found, exact = [], []
    for device, kind, into in ((gpu, dtype, found), (Device("cpu"), "float64", exact)):
        x, w, b = (Tensor(each, device=device).astype(kind).detach() for each in numbers)
        for each in (x, w, b):
            each.requires_grad = True
        y = nn.functional.linear(x, w, b)
        (y * y).sum().backward()
        into += [np.asarray(each.astype("float64").tolist()) for each in (y, x.grad, w.grad, b.grad)]
    return found, exact


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("refusal", ["none", "library", "algorithm", "call", "workspace"])
def test_a_bias_that_the_product_does_not_add_is_added_after_it(
    refusal: str, dtype: str, gpu: Device, anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever cuBLASLt says to it."""
    recorded = importlib.import_module("emulated_cuda.boot").recorded
    monkeypatch.setattr(BiasedProducts, "_known", {})
    if refusal == "library":
        monkeypatch.setattr(BiasedProducts, "__init__", lambda self, *facts: (_ for _ in ()).throw(OSError("none")))
    elif refusal == "algorithm":
        monkeypatch.setattr(biased, "IN_COMPUTE_TYPE", 0)
    elif refusal == "call":
        monkeypatch.setattr(BiasedProducts, "run", lambda self, *rest: False)
    elif refusal == "workspace":
        monkeypatch.setattr(biased, "WORKSPACE", 0)  # then it takes none
    answers: list[Any] = []
    lines = recorded(lambda: answers.extend(layer(gpu, dtype)))
    for ours, exact in zip(*answers, strict=True):
        np.testing.assert_allclose(ours, exact, rtol=2e-2 if dtype == "bfloat16" else 2e-3, atol=1e-2)
    on_the_way = sum(" bias " in line for line in lines if line.startswith("product"))
    assert on_the_way == int(refusal in ("none", "workspace") and dtype != "float64")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("refused", [False, True])
def test_short_products_of_halves_take_no_memory_of_their_own(
    refused: bool, dtype: str, gpu: Device, anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a bias and without, as matrices and as a batch of them; where cuBLASLt refuses, cuBLAS multiplies."""
    taken: list[int] = []
    run = BiasedProducts.run

    def noted(self: Any, plan: Any, *rest: Any) -> bool:
        taken.append(plan.workspace)
        return not refused and run(self, plan, *rest)

    monkeypatch.setattr(BiasedProducts, "run", noted)
    rng = np.random.default_rng(0)
    a, w, b = (rng.integers(-4, 5, shape) / 4 for shape in ((1024, 8), (1024, 8), (1024,)))
    x, weight, bias = (Tensor(each, device=gpu).astype(dtype).detach() for each in (a, w, b))
    for _ in range(3):  # the second is recorded, the third a plan
        for found in (x @ weight.T, x.reshape(4, 256, 8) @ weight.T):
            np.testing.assert_array_equal(found.astype("float64").numpy().reshape(1024, 1024), a @ w.T)
        for added in (bias, Tensor(np.repeat(b, 2), device=gpu).astype(dtype).detach()[::2]):  # which is no column
            found = nn.functional.linear(x, weight, added).astype("float64").numpy()
            np.testing.assert_allclose(found, a @ w.T + b, rtol=4e-3, atol=1e-2)
    halves = dtype != "float32"
    assert set(taken) == ({0} if halves else {16}), "what the emulated library takes where there is any"
    assert len(taken) >= (12 if halves else 3)


def test_not_a_number_stays_so_through_a_layer_and_relu(gpu: Device) -> None:
    x = Tensor([[np.nan, 1.0], [1.0, -9.0]], dtype="float32", device=gpu, requires_grad=False)
    w, b = (Tensor(each, dtype="float32", device=gpu, requires_grad=False) for each in ([[1.0, 1.0]], [0.5]))
    f = jit(lambda x: nn.functional.linear(x, w, b).relu())
    for _ in range(3):
        assert np.isnan(f(x).tolist()[0][0])
        assert f(x).tolist()[1] == [0.0]


def trained(gpu: Device, steps: int, decorated: Callable[..., Any] = lambda f: f) -> tuple[list[float], list[Any]]:
    """Losses and parameters of a small network, trained with data uploaded anew at each step."""
    rng = np.random.default_rng(0)
    random.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10)).to(gpu)
    rule = optim.Adam(model.parameters(), lr=0.01)

    @decorated
    def step(x: Tensor, targets: Tensor) -> Tensor:
        rule.zero_grad()
        loss = nn.cross_entropy(model(x), targets)
        loss.backward()
        rule.step()
        return loss

    losses = []
    for _ in range(steps):
        x = Tensor(rng.normal(size=(16, 20)).astype("float32"), device=gpu, requires_grad=False)
        losses.append(step(x, Tensor(rng.integers(10, size=16), device=gpu)))
    return [each.item() for each in losses], [p.detach().numpy() for p in model.parameters()]


def test_a_training_step_is_traced_once_the_state_is_there(gpu: Device) -> None:
    """What the device keeps beside, as of uploads that are under way, is none of the function's."""
    made: list[Any] = []

    def jitted(f: Any) -> Any:
        made.append(jit(f))
        return made[-1]

    (losses, params), (expected, others) = trained(gpu, 6, jitted), trained(gpu, 6)
    assert made[0].traces == 2
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for x, y in zip(params, others, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-5)


def test_a_device_without_enough_memory_says_so_and_goes_on(gpu: Device) -> None:
    x = Tensor(np.ones(1 << 20, "float32"), device=gpu)
    with pytest.raises(OutOfMemory) as caught:
        FUNCTIONS["copy"](FUNCTIONS["broadcast_to"](x, (1 << 12, 1 << 20)))
    assert caught.value.asked == 1 << 34
    y = (x * 2).sum()
    y.backward()
    assert x.grad is not None
    assert x.grad[:3].tolist() == [2.0, 2.0, 2.0]


@pytest.fixture
def late() -> Iterator[None]:
    """Work is done when somebody waits for it, and no other work than that."""
    with importlib.import_module("emulated_cuda.boot").late():
        yield


def in_another_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.mark.usefixtures("late")
def test_work_is_done_when_somebody_waits(gpu: Device) -> None:
    x = Tensor(np.ones(4, "float32"), device=gpu, requires_grad=False)
    y = x * 12345.0
    memory = (ctypes.c_float * 4).from_address(y._handle.data.ptr)
    assert list(memory) != [12345.0] * 4
    gpu.synchronize()
    assert list(memory) == [12345.0] * 4


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("way", ["alone", "within another", "after many calls", "in a list"])
def test_what_a_stream_still_reads_is_given_to_no_other_thread(
    way: str, gpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, sgd = 1 << 20, gpu.kernels.backend.kernel("sgd_step")
    x = Tensor(np.ones(size, "float32"), device=gpu, requires_grad=False)
    gpu.synchronize()
    if way == "after many calls":  # after each the streams around are told to wait, and nothing is held
        monkeypatch.setattr(storage, "MOST_HELD", 1)

    def overwrite() -> None:
        others = [Tensor(np.full(size, 7, "float32"), device=gpu, requires_grad=False) for _ in range(3)]
        assert others[-1].sum().item() == 7.0 * size  # waits for this thread's work only

    with gpu.stream():
        with gpu.stream() if way == "within another" else nullcontext():
            if way == "in a list":
                hyper = {"momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False}
                given = [x._handle]
                y = sgd(given, given, [None], lr=-1.0, **hyper)[0][0]
                given.clear()
            else:
                y = (x * 2.0)._handle
            del x
        in_another_thread(overwrite)
    in_another_thread(overwrite)
    assert y.get().sum() == 2.0 * size


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("size", [1, 1 << 16])
def test_pinned_memory_is_used_again_when_it_has_been_read(
    gpu: Device, size: int, counted: Callable[[str], int]
) -> None:
    """However small an upload is: nothing is left to when the driver reads memory that is not pinned."""
    before = counted("from pageable memory")
    arrays = [np.full(size, i, "float32") for i in range(5)]
    copies = [gpu.kernels.backend.uploads.upload(each, each.shape, "float32") for each in arrays]
    for each in arrays:
        each[:] = -1.0  # nobody reads it any more
    assert counted("from pageable memory") == before
    assert [float(each[0]) for each in copies] == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.usefixtures("late")
def test_streams_wait_for_what_is_around_them_and_the_other_way(gpu: Device) -> None:
    x = Tensor(np.ones(4, "float32"), device=gpu, requires_grad=False)
    for _ in range(3):
        y = x * 2.0
        with gpu.stream():
            y = y + 1.0
            with gpu.stream():
                y = y * 2.0
            y = y - 5.0
        x = y * 3.0
    with gpu.stream():
        assert (x + 1.0).tolist() == [316.0] * 4  # waits for the inner stream
    assert x.tolist() == [315.0] * 4  # 12 x - 9, three times


def test_from_one_device_to_the_other_without_the_host(gpu: Device, counted: Callable[[str], int]) -> None:
    if gpu.kernels.backend.cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("EMULATED_DEVICES=2 makes two")

    def there_and_back() -> Tensor:
        x = Tensor(np.arange(6.0, dtype="float32"), device="cuda:0")
        x_there = x.to("cuda:1")
        (x_there * x_there).sum().backward()
        assert str(x_there.device) == "cuda:1"
        return x

    there_and_back()  # the first time kernels are tried out
    before = {event: counted(event) for event in WAITS}
    x = there_and_back()
    copies = {event: counted(event) - count for event, count in before.items()}
    assert copies == {"host to device": 1, "device to host": 0, "synchronisation": 0}  # x itself
    assert x.grad is not None
    assert str(x.grad.device) == "cuda:0"
    assert x.grad.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def test_what_one_device_knows_of_its_optimiser_is_not_the_others(gpu: Device) -> None:
    """Tables of addresses, plans of products and sums, of two networks that are trained by turns."""
    if gpu.kernels.backend.cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("EMULATED_DEVICES=2 makes two")
    data = np.random.default_rng(0).normal(size=(9, 6)).astype("float32")

    def network(device: str) -> tuple[Callable[[], None], list[Tensor]]:
        layers = nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2)
        model = nn.Sequential(*layers)
        with no_grad():
            for k, p in enumerate(model.parameters()):
                p[...] = np.random.default_rng(k).normal(size=p.shape).astype("float32")
        model = model.to(device)
        rule, x = optim.Adam(model.parameters(), lr=0.01), Tensor(data, device=device, requires_grad=False)

        def step() -> None:
            rule.zero_grad()
            (model(x) ** 2).mean().backward()
            rule.step()

        return step, list(model.parameters())

    networks = [network(device) for device in ("cuda:0", "cuda:1", "cpu")]
    for _ in range(4):
        for step, _ in networks:
            step()
    exact = [p.tolist() for p in networks[2][1]]
    for _, parameters in networks[:2]:
        for p, expected in zip(parameters, exact, strict=True):
            np.testing.assert_allclose(p.tolist(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("late")
def test_copies_between_devices_are_in_order_with_the_work_of_both(gpu: Device) -> None:
    if gpu.kernels.backend.cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("EMULATED_DEVICES=2 makes two")
    x = Tensor(np.ones(1000, "float32"), device="cuda:0", requires_grad=False)
    there = x.to("cuda:1")
    assert there.tolist() == [1.0] * 1000  # waits for the second device
    x = x * 2.0
    there = x.to("cuda:1")
    del x
    others = [Tensor(np.zeros(1000, "float32"), device="cuda:0", requires_grad=False) for _ in range(4)]
    assert others[-1].tolist() == [0.0] * 1000
    assert there.tolist() == [2.0] * 1000


def guarded(code: str, monkeypatch: pytest.MonkeyPatch) -> subprocess.CompletedProcess[str]:
    """A program in which whatever touches a byte beyond a block of memory dies."""
    monkeypatch.setenv("EMULATED_GUARD", "1")
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_more_batches_than_a_grid_has_along_y(gpu: Device) -> None:
    x = np.random.default_rng(0).standard_normal((70_000, 3, 2)).astype(np.float32)
    on_gpu, wanted = Tensor(x, device=gpu).detach(), x.astype(np.float64)
    for name in ("sum", "mean", "var", "std"):
        found = FUNCTIONS[name](on_gpu, axis=1).numpy()
        np.testing.assert_allclose(found, getattr(np, name)(wanted, axis=1), rtol=1e-5, atol=1e-6)
    scaled = (wanted - wanted.mean(1, keepdims=True)) / wanted.std(1, keepdims=True)
    found = FUNCTIONS["standardize"](on_gpu, axis=(1,), eps=0.0).numpy()
    np.testing.assert_allclose(found, scaled, rtol=1e-3, atol=1e-3)


def test_a_kernel_that_leaves_its_array_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import cupy
f = cupy.RawKernel('extern "C" __global__ void f(float* x, int i) { x[i] = 1; }', "f")
x = cupy.zeros(4, "float32")
f((1,), (1,), (x, %d))
print(x)
"""
    within, beyond = (guarded(code % i, monkeypatch) for i in (3, 4))
    assert within.stdout == "[0. 0. 0. 1.]\n", within.stderr
    assert beyond.returncode == -signal.SIGSEGV


def test_what_the_pool_takes_back_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMULATED_POISON", "1")
    code = """
import cupy
memory = cupy.cuda.memory.alloc(64)
x = cupy.ndarray(16, "float32", cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(memory.ptr, 64, None), 0))
x[...] = 1
print(x[0])
del memory
print(x[0], cupy.empty(16, "int32")[0])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "1.0\nnan -1\n", done.stderr


def test_a_streams_handle_is_the_next_ones(gpu: Device) -> None:
    cupy = gpu.kernels.backend.cupy
    first, second = cupy.cuda.Stream(), cupy.cuda.Stream()
    handle = first.ptr
    assert second.ptr != handle
    del first
    assert cupy.cuda.Stream(non_blocking=True).ptr == handle


def test_a_race_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import cupy
f = cupy.RawKernel('extern "C" __global__ void f(int* x) { x[threadIdx.x %% %d] = 1; }', "f")
f((1,), (8,), (cupy.zeros(8, "int32"),))
"""
    monkeypatch.setenv("EMULATED_ORDER", "0")
    monkeypatch.setenv("EMULATED_RACES", "1")
    clean, racing = (
        subprocess.run([sys.executable, "-c", code % n], cwd=ROOT, capture_output=True, text=True, check=False).stderr
        for n in (8, 7)
    )
    assert clean == ""
    assert "race: write after write of global memory" in racing
    assert "by thread 7 of block 0 and thread 0 of block 0, in f" in racing


def test_memory_of_one_device_is_not_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMULATED_DEVICES", "2")
    code = """
import cupy
f = cupy.RawKernel('extern "C" __global__ void f(const float* x, float* y) { *y = *x; }', "f")
with cupy.cuda.Device(1):
    x, y = cupy.ones(1, "float32"), cupy.zeros(1, "float32")
with cupy.cuda.Device(%d):
    f((1,), (1,), (x, y))
    cupy.cuda.runtime.deviceSynchronize()
print(y)
"""
    own, foreign = (guarded(code % i, monkeypatch) for i in (1, 0))
    assert own.stdout == "[1.]\n", own.stderr
    assert foreign.returncode == -signal.SIGSEGV


def test_no_kernel_leaves_its_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of kernels on a GPU, but for those that want the pool."""
    tests = str(Path(__file__).with_name("test_gpu.py"))
    options = ["-q", "-p", "no:cacheprovider", tests, "-k", "not lack_of_memory and not than_an_int"]
    done = guarded(f"import sys, pytest; sys.exit(pytest.main({options!r}))", monkeypatch)
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-1000:]}"
    assert " passed" in done.stdout


@pytest.mark.parametrize("jitted", [False, True])
def test_a_step_with_batch_norm_and_pooling_moves_nothing_for_them(jitted: bool, gpu: Device) -> None:
    """No patches but those of convolutions, no copies but those, no reading of an array more than it takes."""
    record = importlib.import_module("emulated_cuda.boot").recorded
    rng, layers = np.random.default_rng(0), [nn.Conv2d(3, 8, 3, padding=1, device=gpu)]
    after = [nn.BatchNorm2d(8, device=gpu), nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(2), nn.Flatten()]
    model = nn.Sequential(*layers, *after, nn.Linear(32, 64, device=gpu), nn.BatchNorm1d(64, device=gpu))
    x = Tensor(rng.normal(size=(16, 3, 8, 8)).astype("float32"), device=gpu, requires_grad=False)
    targets = Tensor(rng.integers(64, size=16), device=gpu, requires_grad=False)
    rule = optim.Adam(model.parameters())

    def step() -> Tensor:
        rule.zero_grad()
        loss: Tensor = nn.cross_entropy(model(x), targets)
        loss.backward()
        rule.step()
        return loss

    step = jit(step) if jitted else step
    for _ in range(3):
        step()
    names = [line.split()[0] for line in record(step) if line.startswith(("micrograd", "cupy"))]
    pooled = ["MAXIMUM" in name or "MEAN" in name for name in names]
    between = [i for i, name in enumerate(names) if pooled[i] or "channel_" in name]
    inside = names[between[0] : between[-1] + 1]
    assert not [name for name in inside if "cupy_copy" in name or "PATCHES" in name], inside
    planes = [name for name in names if "reduce_channels" in name and "_true_" in name]
    assert (sum(pooled), sum("channel_" in name for name in names), len(planes)) == (4, 8, 1), names


@pytest.mark.parametrize("name", ["RMSprop", "Lion"])
def test_a_step_under_jit_takes_as_many_launches_for_all_parameters(
    name: str, gpu: Device, counted: Callable[[str], int]
) -> None:
    params = [Tensor(np.ones((3, n), "float32"), device=gpu) for n in range(1, 9)]
    rule = getattr(optim, name)(params, lr=0.01)
    step = jit(rule.step)
    for i in range(4):
        for p in params:
            p.grad = Tensor(np.full(p.shape, i - 1.5, "float32"), device=gpu, requires_grad=False)
        before = counted("launch")
        step()
    assert counted("launch") - before == 1


def test_every_command_about_a_model_works_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, model = tmp_path / "my.csv", str(tmp_path / "model")
    draw = np.random.default_rng(0)
    rows = [f"{x:.3f},{y:.3f},{'left' if x + y < 1 else 'right'}" for x, y in draw.random((60, 2))]
    table.write_text("\n".join(["x,y,side", *rows]) + "\n")

    def said(*words: str) -> Any:
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    training = ["train", str(table), "--target", "side", "--hidden", "16", "--device", "cuda"]
    straight = said(*training, "--epochs", "6", "--out", str(tmp_path / "straight"))
    said(*training, "--epochs", "2", "--out", model)
    resumed = said(*training, "--epochs", "6", "--out", model, "--resume")
    assert resumed["device"] == "cuda:0"
    assert len(resumed["loss"]) == 6
    assert (resumed["loss"], resumed["test"]) == (straight["loss"], straight["test"])
    assert resumed["loss"][-1] < resumed["loss"][0]
    here, there = (
        said("predict", model, str(table), "--device", device, "--out", str(tmp_path / f"{device}.csv")) and device
        for device in ("cuda", "cpu")
    )
    assert (tmp_path / f"{here}.csv").read_text().count("\n") == (tmp_path / f"{there}.csv").read_text().count("\n")
    judged = [said("evaluate", model, str(table), "--device", device) for device in ("cuda", "cpu")]
    assert judged[0]["accuracy"] == judged[1]["accuracy"]
    assert said("inspect", model)["parameters"] == 82
    assert [row["status"] for row in said("compare", model, "--devices", "cpu", "cuda")] == [
        "reference",
        *["agrees"] * 3,
    ]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("fault", [None, np.inf, -np.inf, np.nan])
def test_gradients_are_unscaled_and_looked_at_in_one_launch(dtype: str, fault: float | None, gpu: Device) -> None:
    """48 at a time; and one number is read."""
    rng, shapes = np.random.default_rng(0), [(3, 5), (4097,), (), (0, 2), (7,)] * 12
    parameters = [Tensor(np.zeros(shape), dtype=dtype, device=gpu) for shape in shapes]
    for i, p in enumerate(parameters):
        drawn = rng.normal(size=p.shape) * 100
        if fault is not None and i == 51:
            drawn.reshape(-1)[4096] = fault
        p.grad = Tensor(drawn, dtype=dtype, device=gpu).detach()
    before = [p.grad.astype("float64").numpy() for p in parameters]
    scaler, rule = GradScaler(64.0), optim.SGD(parameters, lr=1.0)
    boot = importlib.import_module("emulated_cuda.boot")
    lines = [line.split()[0] for line in boot.recorded(lambda: scaler.unscale(rule))]
    launches = [line for line in lines if line.startswith(("micrograd", "cupy"))]
    assert len(launches) == 2, launches
    assert all("unscale" in line for line in launches)
    for p, x in zip(parameters, before, strict=True):
        np.testing.assert_array_equal(p.grad.astype("float64").numpy(), x / 64)
    assert scaler.step(rule) is (fault is None)


@pytest.mark.parametrize("number", [60000.0, -60000.0])
def test_what_becomes_infinite_where_a_scale_is_below_one_is_found(number: float, gpu: Device) -> None:
    p = Tensor(np.zeros(9), dtype="float16", device=gpu)
    p.grad = Tensor(np.full(9, number), dtype="float16", device=gpu).detach()
    assert not GradScaler(0.5).step(optim.SGD([p], lr=1.0))
    assert p.tolist() == [0.0] * 9


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30, np.inf, np.nan])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_norm_of_all_gradients_is_one_launch(dtype: str, scale: float, gpu: Device) -> None:
    """160 at a time; whatever their order in memory, and wherever they begin."""
    rng, shapes = np.random.default_rng(0), [(3, 5), (16_385,), (), (0, 2), (7,)] * 41
    with np.errstate(all="ignore"):
        drawn = [(scale * rng.normal(size=shape)).astype("float32") for shape in shapes]
    given = [asarray(x, device=gpu).astype(dtype) for x in drawn]
    given[0], given[5], given[6] = (
        asarray(drawn[0].T.copy(), device=gpu).astype(dtype).mT,
        given[5][:, ::2],
        given[6][3:],
    )
    exact = np.concatenate([x.astype("float64").numpy().ravel() for x in given])
    global_norm(given)  # which copies what has holes
    boot, found = importlib.import_module("emulated_cuda.boot"), []
    lines = [line.split()[0] for line in boot.recorded(lambda: found.append(global_norm(given)))]
    assert sum("global_norm" in line for line in lines) == 2  # for 164 that have elements
    assert found[0].dtype is float32
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found[0].numpy(), np.sqrt(np.sum(exact**2)).astype("float32"), rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
def test_clipping_reads_all_gradients_in_one_launch(compiled: bool, gpu: Device) -> None:
    rng, shapes = np.random.default_rng(0), [(30, 50), (4097,), (), (7,)] * 8
    drawn = [rng.normal(size=shape).astype("float32") for shape in shapes]
    parameters = [Tensor(np.zeros(shape), dtype="float32", device=gpu) for shape in shapes]
    boot, clip = importlib.import_module("emulated_cuda.boot"), lambda: optim.clip_grad_norm(parameters, 0.5)
    work: Any = jit(clip) if compiled else clip
    for _ in range(2):  # at first it is traced
        for p, x in zip(parameters, drawn, strict=True):
            p.grad = asarray(x, device=gpu)
        lines = [line.split()[0] for line in boot.recorded(work)]
    launches = [line for line in lines if line.startswith(("micrograd", "cupy"))]
    assert sum("global_norm" in line for line in launches) == 1
    assert len(launches) <= (4 if compiled else 2), launches
    norm = np.sqrt(sum(float(np.sum(x.astype("float64") ** 2)) for x in drawn))
    for p, x in zip(parameters, drawn, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), x * (0.5 / (norm + 1e-6)), rtol=1e-6)


def test_a_compiled_step_with_a_scaler_reads_nothing(gpu: Device) -> None:
    """As a graph, with clipping; steps with an infinite gradient are left out, also the first one."""

    def trained(device: Any) -> tuple[list[Any], list[bool]]:
        random.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3)).to(device)
        rule, scaler = optim.AdamW(model.parameters(), lr=0.01), GradScaler(2.0**10, interval=3)

        @jit
        def step(x: Tensor) -> Tensor:
            rule.zero_grad()
            with autocast("float16"):
                loss = (model(x) ** 2).mean()
            scaler.scale(loss).backward()
            scaler.unscale(rule)
            optim.clip_grad_norm(model.parameters(), 0.1)
            stepped: Tensor = scaler.step(rule)
            scaler.update()
            return stepped

        found = []
        for i in range(12):
            x = np.random.default_rng(i).normal(size=(5, 8)).astype("float32")
            x[0, 0] = np.inf if i in (0, 4, 9) else x[0, 0]
            given = asarray(x, device=device)
            if device is not gpu:
                found.append(step(given))
                continue
            lines = importlib.import_module("emulated_cuda.boot").recorded(lambda x=given: found.append(step(x)))
            assert not any(line.startswith("device to host") for line in lines)
        numbers = [p.detach().numpy() for p in model.parameters()]
        kept = [rule.state_dict()["0.step"].item(), *scaler.state_dict().values()]
        return [*numbers, np.asarray(kept, "float64")], [bool(x) for x in found]

    with np.errstate(all="ignore"):
        (ours, steps), (others, expected) = trained(gpu), trained("cpu")
    assert steps == expected == [i not in (0, 4, 9) for i in range(12)]
    for x, y in zip(ours, others, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-4)


def test_the_norm_of_no_elements_is_nothing(gpu: Device) -> None:
    p = Tensor(np.zeros((0, 3)), device=gpu)
    p.grad = asarray(np.zeros((0, 3)), device=gpu)
    assert optim.clip_grad_norm([p], 1.0) == 0
    assert global_norm([asarray(np.zeros((0, 3), "float16"), device=gpu)]).item() == 0
