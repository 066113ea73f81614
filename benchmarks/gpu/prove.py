"""Proofs that need a GPU: no transfers in training, no leak, survival of a lack of memory, the README on cuda.

    python benchmarks/gpu/prove.py --device cuda:0

Each runs in a process of its own, which must end well, too; the one with PyTorch's profiler says that it left early.
With ``--device cpu`` those that have a meaning there run, to see that this program works.
"""

from __future__ import annotations

import argparse
import doctest
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

if __package__ in (None, ""):  # run as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from benchmarks.gpu import activity, record
from micrograd_core import Device, Tensor, jit, nn, optim, random as random_numbers, use_device
from micrograd_core.errors import OutOfMemory

ROOT = Path(__file__).resolve().parent.parent.parent


class Skipped(Exception):
    """A proof that has no meaning on the device."""


def trainer(device: Device, sizes: tuple[int, int, int] = (64, 128, 10)) -> Callable[[], Any]:
    """One step of training a network with Adam, as a function."""
    inputs, hidden, outputs = sizes
    rng, numbers = random.Random(0), np.random.default_rng(0)
    layers = nn.Linear(inputs, hidden, generator=rng), nn.ReLU(), nn.Linear(hidden, outputs, generator=rng)
    model = nn.Sequential(*layers).to(device)
    x = Tensor(numbers.normal(size=(64, inputs)).astype("float32"), device=device, requires_grad=False)
    targets = Tensor(numbers.integers(outputs, size=64), device=device)
    rule = optim.Adam(model.parameters())

    step = trained(model, rule)
    return lambda: step(x, targets)


COPIES = ("HtoD", "DtoH", "host to device", "device to host")


def no_transfers(device: Device, steps: int) -> str:
    """CUPTI, through torch's profiler, sees every copy of the process, CuPy's too; an emulated GPU lists them."""
    if not device.is_cuda():
        raise Skipped("copies to a device are counted on cuda")
    step, lists = trainer(device), activity.lister()
    if lists is None:
        raise AssertionError("nobody sees copies: the proof wants PyTorch, and its profiler")
    for _ in range(3):
        step()

    def copies(run: Callable[[], Any]) -> list[str]:
        device.synchronize()
        names = [name for name, _ in lists(lambda: (run(), device.synchronize()))]
        if not any(name.startswith("micrograd_") for name in names):
            raise AssertionError("the profiler saw no kernel of ours, and so would see no copy")
        return [name for name in names if any(way in name for way in COPIES)]

    if not copies(lambda: (step(), Tensor([1.0], device=device).exp().tolist())):
        raise AssertionError("the profiler does not see a copy that was made")
    found = copies(lambda: [step() for _ in range(10)])
    if found:
        raise AssertionError(f"10 steps of training made {len(found)} copies: {sorted(set(found))}")
    return "0 copies in 10 steps of forward, backward and Adam"


PARTS: Final = 4
"""Of many steps, after each of which memory is looked at."""


def no_leak(device: Device, steps: int) -> str:
    """The memory in use after many steps is that after a few; what the pool holds, that after a quarter of them.

    Which blocks a pool cuts for the first steps depends on what was compiled and recorded meanwhile: it may ask the
    driver once more, as it has on an H200 for 64 KiB. A leak asks again and again.
    """
    import gc

    step = trainer(device)
    for _ in range(100):
        step()
    gc.collect()
    device.synchronize()
    seen = [device.memory()]
    for _ in range(PARTS):
        for _ in range(max(steps // PARTS, 1)):
            step()
        device.synchronize()
        seen.append(device.memory())
    if any(seen[-1].get(kind, 0) > seen[at].get(kind, 0) for kind, at in (("in_use", 0), ("reserved", 1))):
        raise AssertionError(f"memory grew in {steps} steps: {seen}")
    return f"{steps} steps; in use {seen[0].get('in_use', 'unknown')} bytes before and after"


def survives_a_lack_of_memory(device: Device, steps: int) -> str:
    """An error with figures, after which an older graph still gives its gradient."""
    if not device.is_cuda():
        raise Skipped("the memory of cuda can be limited")
    pool = device.kernels.backend.pool
    x = Tensor(np.full(1000, 2.0, "float32"), device=device)
    y = (x * x).sum()
    device.release_memory()
    limit = pool.get_limit()
    pool.set_limit(size=device.memory()["reserved"] + (1 << 28))
    try:
        large = Tensor(np.ones(1 << 24, "float32"), device=device)
        kept = []
        try:
            for _ in range(100):
                kept.append(large * 2.0)
        except OutOfMemory as error:
            told = (error.asked, error.in_use, error.reserved)
        else:
            raise AssertionError("100 tensors of 64 MiB fitted into 256 MiB")
        if error_is_vague(told):
            raise AssertionError(f"the error does not tell what was asked, in use and reserved: {told}")
        del kept
        (large * 2.0).sum().item()  # what was dropped is there again
    finally:
        pool.set_limit(size=limit)
    y.backward()
    assert x.grad is not None
    if x.grad.tolist() != [4.0] * 1000:
        raise AssertionError("the gradient of a graph from before is wrong")
    return f"asked {told[0]:,}, in use {told[1]:,}, reserved {told[2]:,} bytes; older graphs are intact"


def error_is_vague(told: tuple[int | None, ...]) -> bool:
    """Whether a figure is missing, or not the one asked for."""
    return told[0] != 1 << 26 or not told[1] or not told[2]


def the_readme(device: Device, steps: int) -> str:
    """Its examples on the device, but for those about the names of devices."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace('Device("cpu")', f'Device("{device}")')
    examples = [example for example in doctest.DocTestParser().get_examples(text) if "cpuu" not in example.source]
    test = doctest.DocTest(examples, {}, "README.md", None, 0, None)
    with use_device(device):
        results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(test)
    if results.failed:
        raise AssertionError(f"{results.failed} of {results.attempted} examples differ")
    return f"{results.attempted} examples"


def graphs_change_no_number(device: Device, steps: int) -> str:
    """Training with dropout under `jit`, captured as CUDA graphs, bit for bit as without."""
    if not device.is_cuda():
        raise Skipped("cuda has graphs")
    backend, count = device.kernels.backend, 30
    before, found = backend.graphs, []
    try:
        for backend.graphs in (False, True):
            random_numbers.manual_seed(0)
            numbers, rng = np.random.default_rng(0), random.Random(0)
            first, second = nn.Linear(64, 128, generator=rng), nn.Linear(128, 10, generator=rng)
            model = nn.Sequential(first, nn.ReLU(), nn.Dropout(0.2), second).to(device)
            step, losses = jit(trained(model, optim.Adam(model.parameters()))), []
            for _ in range(count):
                x = Tensor(numbers.normal(size=(64, 64)).astype("float32"), device=device, requires_grad=False)
                losses.append(step(x, Tensor(numbers.integers(10, size=64), device=device)))
            found.append([each.item() for each in losses] + [p.tolist() for p in model.parameters()])
    finally:
        backend.graphs = before
    if found[0] != found[1]:
        raise AssertionError(f"losses without graphs and with them: {found[0][:count]}, {found[1][:count]}")
    return f"{count} steps of Adam with dropout: the same losses and parameters"


def trained(model: nn.Module, rule: optim.Optimizer) -> Callable[[Tensor, Tensor], Tensor]:
    """A step of training, as a function of a batch."""

    def step(x: Tensor, targets: Tensor) -> Tensor:
        rule.zero_grad()
        loss = nn.cross_entropy(model(x), targets)
        loss.backward()
        rule.step()
        return loss

    return step


PROOFS = (no_transfers, no_leak, survives_a_lack_of_memory, graphs_change_no_number, the_readme)


def proved(proof: Callable[[Device, int], str], device: Device, steps: int) -> tuple[str, str]:
    """The outcome, and what there is to say."""
    try:
        return "holds", proof(device, steps)
    except Skipped as reason:
        return "skipped", str(reason)
    except Exception as error:
        return "FAILS", f"{type(error).__name__}: {error}"


def told(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """The same of a process: its last line, and how it ended."""
    outcome, _, words = (done.stdout.strip().splitlines() or ["nothing was said"])[-1].partition(" ")
    if done.returncode and outcome != "FAILS":
        return "FAILS", f"the process ended with {done.returncode}, after: {outcome} {words.strip()}"
    return outcome, words.strip()


PROFILER: Final = "torch.profiler"
AT_ONCE: Final = "its process left without taking down PyTorch's profiler, which may free twice beside CuPy"


def ended(outcome: str, words: str) -> int:
    """Say the outcome of the one proof of this process; its exit status.

    On an H100 a process with CuPy and PyTorch's profiler has aborted twice after it had said that its proof holds, in
    what runs after Python: `free(): invalid pointer`, `double free or corruption`. None without the profiler has. What
    frees twice is in neither of our packages, so such a process ends where it has said all, and says that, too.
    """
    profiled = PROFILER in sys.modules
    print(f"{outcome:8} {words}{f' ({AT_ONCE})' if profiled else ''}", flush=True)
    status = int(outcome == "FAILS")
    if profiled:
        sys.stderr.flush()
        os._exit(status)
    return status


def main(arguments: list[str] | None = None) -> int:
    """Run all proofs; how many failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0", help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=10_000, help="for the leak check; default: %(default)s")
    parser.add_argument("--out", type=Path, help="folder for the JSON; default: none is written")
    parser.add_argument("--proof", choices=[each.__name__ for each in PROOFS], help="one alone, in this process")
    chosen = parser.parse_args(arguments)
    if chosen.proof:
        return ended(*proved(globals()[chosen.proof], Device(chosen.device), chosen.steps))
    failed, figures = 0, {}
    for proof in PROOFS:
        name, start = proof.__name__.replace("_", " "), time.perf_counter()
        alone = ["--device", chosen.device, "--steps", str(chosen.steps), "--proof", proof.__name__]
        outcome, words = told(
            subprocess.run([sys.executable, __file__, *alone], stdout=subprocess.PIPE, text=True, check=False)
        )
        failed += outcome == "FAILS"
        figures[name] = {"outcome": outcome, "words": words, "seconds": round(time.perf_counter() - start, 1)}
        print(f"{outcome:8} {name}: {words}", flush=True)
    if chosen.out:
        print(f"written to {record.write('proofs', {'proofs': figures}, chosen.out)}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
