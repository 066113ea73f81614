"""Layers and whole training steps on a GPU: micrograd eager, under `jit`, and that without CUDA graphs, beside torch.

    python benchmarks/benchmark_gpu_networks.py --out benchmarks/results

The programs are those of ``benchmarks.cases``, on the device, in larger sizes and in bfloat16 too. Whether the peers
compute the same numbers is looked at for every case, with ``--small`` whether these are the host's. It fails where they
do not, or where ours computes none. ``--device cpu --small`` shows on the host that it works.

With ``--profile`` it says what is launched, and nothing of times: a profiler makes each launch longer, for as long as
its process lives; and PyTorch's, beside CuPy, may end that process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

if __package__ in (None, ""):  # run as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import micrograd_core as mg
from benchmarks import benchmark_gpu as gpu, cases, peers
from benchmarks.cases import Arrays, Case
from benchmarks.check import Disagreement, check
from benchmarks.gpu import record
from benchmarks.gpu.activity import activity, told
from benchmarks.peers import Prepared
from micrograd_core.amp import matmul_precision


class Sizes(NamedTuple):
    """How large the cases are."""

    rows: tuple[int, int]  # of layers
    classes: tuple[int, int]  # of a loss
    images: tuple[int, int, tuple[int, ...]]  # batch, side, channels
    text: tuple[int, int, int, int, int]  # batch, length, width, blocks, vocabulary
    long: tuple[int, int, int, int, int]  # of GPT-2 124M
    layers: tuple[int, ...]


FULL = Sizes(
    (8192, 4096),
    (1024, 50257),
    (256, 32, (3, 64, 128)),
    (16, 512, 512, 6, 8192),
    (8, 1024, 768, 12, 50304),
    (64, 128, 10),
)
SMALL = Sizes((8, 64), (8, 65), (4, 8, (3, 4, 8)), (2, 8, 16, 1, 32), (1, 8, 16, 1, 33), (8, 16, 4))


# ── programs and their numbers ───────────────────────────────────────────────────────────────────────────────


def images(size: Sizes, rng: np.random.Generator) -> Arrays:
    """A batch, and the weights of two convolutions and a linear layer."""
    batch, side, channels = size.images
    arrays: Arrays = {
        "x": rng.uniform(size=(batch, channels[0], side, side)).astype("float32"),
        "targets": rng.integers(10, size=batch),
    }
    shapes: dict[str, tuple[int, ...]] = {
        f"convolution{i}": (outputs, inputs, 3, 3) for i, (inputs, outputs) in enumerate(pairwise(channels))
    }
    shapes["linear"] = (10, channels[-1] * (side // 4) ** 2)
    for name, shape in shapes.items():
        bound = np.prod(shape[1:]) ** -0.5
        arrays[f"{name}_weight"] = rng.uniform(-bound, bound, shape).astype("float32")
        arrays[f"{name}_bias"] = rng.uniform(-bound, bound, shape[0]).astype("float32")
    return arrays


def text(size: tuple[int, int, int, int, int], rng: np.random.Generator) -> Arrays:
    """Tokens and those after them, and the parameters of a transformer."""
    batch, length, width, blocks, count = size
    tokens = rng.integers(count, size=(batch, length + 1))
    arrays: Arrays = {"x": tokens[:, :-1].copy(), "targets": tokens[:, 1:].reshape(-1)}
    arrays["tokens"] = rng.normal(0, 0.1, (count, width)).astype("float32")
    arrays["places"] = rng.normal(0, 0.1, (length, width)).astype("float32")
    for i in range(blocks):
        arrays |= cases.block_parameters(rng, f"block{i}", width)
    arrays["norm_weight"], arrays["norm_bias"] = np.ones(width, "float32"), np.zeros(width, "float32")
    arrays["head_weight"] = rng.normal(0, width**-0.5, (count, width)).astype("float32")
    arrays["head_bias"] = np.zeros(count, "float32")
    return arrays


def table(size: Sizes) -> list[Case]:
    """Layers with their gradients, and training steps with Adam."""
    rows, found = size.rows, []
    for layer, (about, program, parameters) in cases.LAYERS.items():
        draw = cases.uniform(x=rows, **dict.fromkeys(parameters, rows[-1:]))
        found.append(Case(layer, "layers", "network", f"{about}, {rows}, and gradients", program, draw))
    loss, draw = (lambda p, logits, targets: p.cross_entropy(logits, targets)), cases.logits_and_classes(*size.classes)
    found.append(Case("cross-entropy", "layers", "network", f"cross_entropy, {size.classes}, and gradient", loss, draw))
    batch, side, channels = size.images
    for i in range(len(channels) - 1):
        shape, kernel = (batch, channels[i], side >> i, side >> i), (channels[i + 1], channels[i], 3, 3)
        draw = cases.uniform(x=shape, weight=kernel, bias=kernel[:1])
        about = f"sum(conv2d(x) ** 2), {shape} to {kernel[0]} channels by 3 × 3, and gradients"
        found.append(Case(f"conv2d-{i}", "layers", "network", about, convolved, draw))
    widths = "-".join(map(str, size.layers))
    steps: list[tuple[str, str, Callable[..., Any], Callable[[np.random.Generator], Arrays]]] = [
        ("mlp", f"an MLP {widths}, batch 64", cases.perceptron, cases.batch_and_parameters(64, *size.layers)),
        ("cnn", f"a CNN {size.images}", cases.convolutions, partial(images, size)),
        ("gpt", f"a GPT {size.text}", cases.gpt, partial(text, size.text)),
        ("gpt2", f"a GPT {size.long}", cases.gpt, partial(text, size.long)),
    ]
    return found + [
        Case(name, "models", "model", f"step of {about}, Adam", program, draw, "adam", 3e-2)
        for name, about, program, draw in steps
    ]


def convolved(p: Any, x: Any, weight: Any, bias: Any) -> Any:
    """A scalar of a convolution that keeps the size."""
    return cases.squared(p, p.conv2d(x, weight, bias, padding=1))


# ── peers on a device ────────────────────────────────────────────────────────────────────────────────────────


class OnDevice:
    """Where a peer's arrays are, and whether its products are in bfloat16."""

    half: bool
    place: Any

    def autocast(self) -> Any:
        """What a case is computed in."""
        return mg.autocast("bfloat16") if self.half else nullcontext()

    def within(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A loss, of which the forward part alone is autocast."""

        def loss(*operands: Any) -> Any:
            with self.autocast():
                return function(*operands)

        return loss if self.half else function

    def wait(self, result: Any) -> None:
        """Until the device has done what it was given."""
        mg.Device(self.place).synchronize()


class Micrograd(OnDevice, peers.Micrograd):
    """The project, eager."""

    def __init__(self, place: str, half: bool) -> None:
        super().__init__()
        self.place, self.half, self.compile = place, half, self.within

    def leaf(self, array: Any) -> Any:
        return mg.Tensor(array, device=self.place)

    def constant(self, array: Any) -> Any:
        return mg.asarray(array, device=self.place)

    def host(self, x: Any) -> np.ndarray:
        return np.array(x.detach().astype("float32").numpy())


class MicrogradJit(Micrograd):
    """Under `jit`."""

    name = "micrograd-jit"
    functions = peers.MicrogradJit.functions

    def __init__(self, place: str, half: bool) -> None:
        super().__init__(place, half)
        self.compile_step = mg.jit
        self._functions = type(sys)("functions")
        vars(self._functions).update(vars(self))


class MicrogradLaunches(MicrogradJit):
    """Under `jit`, as MICROGRAD_CUDA_GRAPHS=0 has it: one launch after the other."""

    name = "micrograd-launches"


class Torch(OnDevice, peers.Torch):
    """PyTorch, eager, with its fused Adam."""

    def __init__(self, place: str, half: bool) -> None:
        super().__init__()
        self.place, self.half, self.compile = place, half, self.within
        self.library.zeros(1, device=place)
        if place.startswith("cuda"):
            self.optimizers = {"adam": partial(self.library.optim.Adam, fused=True)}

    def autocast(self) -> Any:
        return self.library.autocast(self.place.partition(":")[0], self.library.bfloat16, enabled=self.half)

    def leaf(self, array: Any) -> Any:
        return self.library.tensor(array, device=self.place, requires_grad=True)

    def constant(self, array: Any) -> Any:
        return self.library.tensor(array, device=self.place)

    def host(self, x: Any) -> np.ndarray:
        return x.detach().float().cpu().detach().numpy()

    def wait(self, result: Any) -> None:
        if self.place.startswith("cuda"):
            self.library.cuda.synchronize()


WARMING = 10
"""Calls before any is timed: programs are captured as graphs from the fourth on, a training step at three calls."""
PEERS = (Micrograd, MicrogradJit, MicrogradLaunches, Torch)


def on_stream(peer: Any) -> str:
    """The device on whose current stream, CuPy's, a peer works."""
    return "cpu" if isinstance(peer, Torch) else str(peer.place)


@contextmanager
def graphs(peer: Any) -> Iterator[None]:
    """No program of a device is captured while a peer that wants none computes."""
    backend = mg.Device(peer.place).kernels.backend if isinstance(peer, MicrogradLaunches) else None
    before = getattr(backend, "graphs", False)
    try:
        if before:
            backend.graphs = False
        yield
    finally:
        if before:
            backend.graphs = True


# ── timing ───────────────────────────────────────────────────────────────────────────────────────────────────


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """Figures by case and peer; a case whose peers disagree says so, and is timed none the less."""
    left_out: dict[str, str] = {}
    found: dict[str, dict[str, Any]] = {}
    opened = {half: opening(chosen, half, left_out) for half in (False, True)}
    wanted = [case for case in table(SMALL if chosen.small else FULL) if case.name in chosen.cases or not chosen.cases]
    asked = [(half, case) for half in opened for case in wanted]
    for half, case in asked:
        label = f"{case.about}, {'bfloat16' if half else 'float32'}"
        arrays, prepared = case.arrays(), {}
        row = found[label] = {"seconds": {}, "activity": {}}
        for peer in opened[half]:
            with reported(left_out, f"{case.name} of {peer.name}"), graphs(peer):
                prepared[peer.name] = ready(peer, case, arrays)
                if chosen.profile:
                    row["activity"][peer.name] = activity(prepared[peer.name].run, peer.wait, on_stream(peer))
                else:
                    row["seconds"][peer.name] = gpu.seconds(prepared[peer.name].run, peer.wait, chosen.seconds)
        if chosen.small:
            prepared = {"the host": Micrograd("cpu", half).prepare(case, arrays), **prepared}
        if case.kind == "model":
            prepared = {name: replace(each, numbers=partial(loss, each)) for name, each in prepared.items()}
        try:
            check(replace(case, tolerance=0.1 if half else 2e-2), prepared)  # of TF32's and bfloat16's factors
        except Disagreement as error:
            left_out[f"agreement about {label}"] = str(error)
    for label, row in found.items():
        print(line(label, row), flush=True)
    return {"left_out": left_out, "cases": found}


def opening(chosen: argparse.Namespace, half: bool, left_out: dict[str, str]) -> list[Any]:
    """The peers that are there; of others, why not."""
    found = []
    for make in PEERS:
        if make.name in chosen.peers:
            with reported(left_out, make.name):
                found.append(make(chosen.device, half))
    return found


@contextmanager
def reported(left_out: dict[str, str], what: str) -> Iterator[None]:
    """An error within is a reason why something is left out."""
    try:
        yield
    except Exception as error:
        left_out[what] = f"{type(error).__name__}: {error}"


def ready(peer: Any, case: Case, arrays: Arrays) -> Prepared:
    """A case that has been called a few times."""
    prepared: Prepared = peer.prepare(case, arrays)
    for _ in range(WARMING):
        prepared.run()
    return prepared


def loss(prepared: Prepared) -> Arrays:
    """After three steps. Adam moves a parameter as far whose gradient is rounding alone as any other."""
    return {"loss": prepared.numbers()["loss"]}


def line(label: str, row: dict[str, Any]) -> str:
    """Microseconds of each peer, and of its kernels alone, with their number."""
    cells = [f"{name} {spent * 1e6:,.1f} µs" for name, spent in row["seconds"].items()]
    cells += [f"{name} {told(facts)}" for name, facts in row["activity"].items() if facts]
    return "\n    ".join([label, *cells])


def parser() -> argparse.ArgumentParser:
    """The command line."""
    names = [make.name for make in PEERS]
    found = argparse.ArgumentParser(description=__doc__)
    found.add_argument("--device", default="cuda:0", help="default: %(default)s")
    found.add_argument("--small", action="store_true", help="small sizes, to see that the program works")
    found.add_argument("--seconds", type=float, default=0.2, help="for each case and peer; default: %(default)s")
    found.add_argument("--peers", nargs="+", default=names, choices=names, help="default: all")
    found.add_argument("--profile", action="store_true", help="launches and their time in place of times")
    found.add_argument("--cases", nargs="+", default=[], help="default: all")
    found.add_argument("--out", type=Path, help="folder for the JSON; default: none is written")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Time, print, and keep the figures; of how many of ours there are none, or wrong numbers."""
    chosen = parser().parse_args(arguments)
    before = matmul_precision()
    mg.set_matmul_precision("high")
    try:
        import torch

        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    except ImportError:
        pass
    try:
        figures = measure(chosen)
    finally:
        mg.set_matmul_precision(before)
    for what, why in figures["left_out"].items():
        print(f"{what}: {why}")
    if chosen.out:
        print(f"written to {record.write('networks-profiled' if chosen.profile else 'networks', figures, chosen.out)}")
    return sum(not what.endswith(Torch.name) for what in figures["left_out"])


if __name__ == "__main__":
    sys.exit(main())
