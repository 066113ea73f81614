"""What only an emulated GPU can tell: how often training copies or waits, and whether anything leaves its memory.

Left out but in the environment that backends/cuda/tests/emulated/build.py makes.
"""

from __future__ import annotations

import importlib
import itertools
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu.prove import trainer
from micrograd_core import Device, Tensor, autocast, nn, optim
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.errors import OutOfMemory

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
def gpu() -> Device:
    return Device("cuda")


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


# Of a network with one hidden layer, with two, and with autocast to bfloat16: forward, backward, Adam.
# Products are cuBLAS's, and not among them.
MOST_LAUNCHES = {(1, False): 11, (2, False): 15, (2, True): 30}


@pytest.mark.parametrize(("hidden", "half"), MOST_LAUNCHES)
def test_a_step_takes_no_more_launches_than_it_did(
    hidden: int, half: bool, gpu: Device, counted: Callable[[str], int]
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

    for _ in range(2):
        step()
    before = counted("launch")
    step()
    assert counted("launch") - before <= MOST_LAUNCHES[hidden, half]


def test_a_device_without_enough_memory_says_so_and_goes_on(gpu: Device) -> None:
    x = Tensor(np.ones(1 << 20, "float32"), device=gpu)
    with pytest.raises(OutOfMemory) as caught:
        FUNCTIONS["copy"](FUNCTIONS["broadcast_to"](x, (1 << 12, 1 << 20)))
    assert caught.value.asked == 1 << 34
    y = (x * 2).sum()
    y.backward()
    assert x.grad is not None
    assert x.grad[:3].tolist() == [2.0, 2.0, 2.0]


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


def guarded(code: str, monkeypatch: pytest.MonkeyPatch) -> subprocess.CompletedProcess[str]:
    """A program in which whatever touches a byte beyond a block of memory dies."""
    monkeypatch.setenv("EMULATED_GUARD", "1")
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


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


def test_no_kernel_leaves_its_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of kernels on a GPU, but for those that want the pool."""
    tests = str(Path(__file__).with_name("test_gpu.py"))
    options = ["-q", "-p", "no:cacheprovider", tests, "-k", "not lack_of_memory and not than_an_int"]
    done = guarded(f"import sys, pytest; sys.exit(pytest.main({options!r}))", monkeypatch)
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-1000:]}"
    assert " passed" in done.stdout
