"""What a call costs the host on cuda: instructions, as valgrind counts them, on the emulated GPU while it idles.

    python -m benchmarks.gpu.host

It runs with the Python of the emulated environment (backends/cuda/tests/emulated/build.py), and wants valgrind. The
table that it prints is the one in docs/cuda.md. Instructions are the same on a busy machine; two runs differ by what
hashes and addresses decide. A GPU's driver is not among them.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

import micrograd_core as mg
from benchmarks import benchmark_gpu_networks as networks
from benchmarks.gpu import record
from micrograd_core import Device

ROOT: Final = Path(__file__).resolve().parents[2]
Calls = dict[str, Callable[[], Any]]

DTYPES: Final = ("float32", "bfloat16")
"""Of arrays. Training steps have parameters of float32, and autocast to the other one."""
STEPS: Final = ("mlp", "cnn", "gpt")
ROWS: Final = {
    "a bare launch of a `RawKernel`; with an array allocated": ("bare", "bare and array"),
    "relu": ("relu",),
    "softmax; its gradient": ("softmax", "softmax_gradient"),
    "layer_norm; the gradients of its input, and of weight and bias": (
        "layer_norm", "standardize_gradient", "layer_norm_weight_gradient",
    ),
    "cross_entropy; with its gradient": ("cross_entropy", "cross_entropy and gradient"),
    "sum over axis 0; over all": ("sum over axis 0", "sum"),
    "attention's weights; their gradient": ("attention_weights", "attention_weights_gradient"),
    "matmul; of a batch; linear": ("matmul", "matmul of a batch", "linear"),
    "conv2d; the gradients of its input, and of its weight": ("conv2d", "conv_transpose2d", "conv2d_weight_gradient"),
    "batch_norm; its three gradients": ("batch_norm", "batch_norm's gradients"),
    "max_pool2d; its gradient": ("max_pool2d", "max_pool2d_gradient"),
    "embedding; its gradient, which CuPy sorts for": ("embedding", "embedding_gradient"),
    "Adam, 4 parameters": ("adam",),
    "a training step: MLP; CNN; GPT of one block": STEPS,
}  # fmt: skip
"""Of the table, and the operations whose figures stand there."""
WARMING: Final = 36
"""Calls before any is counted: kernels are bound, plans made, what Python and CuPy cache is there."""
COUNTED: Final = 20
START, END = "getpgrp", "getppid"
"""Functions of libc that nobody else calls: at the one valgrind starts to count, after the other it writes down."""
MACHINE: Final = "x86-64-v3"
"""What the emulated GPU's kernels are compiled for: valgrind knows no AVX-512."""


# ── what is counted ──────────────────────────────────────────────────────────────────────────────────────────


def operations(dtype: str, device: Device) -> Calls:
    """Kernels on small arrays, none of which is given twice to one: that is no plan's."""
    import cupy

    rng, k, steps = np.random.default_rng(0), device.kernels, networks.Micrograd(str(device), dtype != "float32")

    def x(*shape: int) -> Any:
        return mg.asarray(rng.standard_normal(shape, "float32"), device=device).astype(dtype)._handle

    def whole(below: int, *shape: int) -> Any:
        return mg.asarray(rng.integers(below, size=shape), device=device)._handle

    code = 'extern "C" __global__ void bare(float* to, const float* x, const float* y) { to[0] = x[0] + y[0]; }'
    bare, numbers = cupy.RawKernel(code, "bare"), (cupy.empty(64, "float32"),) * 3
    rows, weight, bias = x(8, 64), x(64, 64), x(64)
    tokens, tokens_cotangent, scale, shift = x(2, 8, 64), x(2, 8, 64), x(64), x(64)
    scores, scores_cotangent, queries, keys = x(2, 4, 8, 8), x(2, 4, 8, 8), x(2, 4, 8, 16), x(2, 4, 8, 16)
    images, images_cotangent, pooled = x(2, 16, 8, 8), x(2, 16, 8, 8), x(2, 16, 4, 4)
    kernels, kernels_bias, made, gains, offsets = x(32, 16, 3, 3), x(32), x(2, 32, 8, 8), x(16), x(16)
    one, classes, indices, words = x(), whole(64, 8), whole(65, 2, 8), x(65, 64)
    loss = {"ignore_index": -100, "label_smoothing": 0.0, "reduction": "mean"}
    norm = {"axis": (2,), "eps": 1e-5}
    window = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    pool = {"kernel_size": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}
    found = {
        "bare": lambda: bare((1,), (64,), numbers),
        "bare and array": lambda: (cupy.ndarray((8, 64), rows.dtype), bare((1,), (64,), numbers)),
        "relu": lambda: k.relu(rows),
        "softmax": lambda: k.softmax(scores, axis=3),
        "softmax_gradient": lambda: k.softmax_gradient(scores, scores_cotangent, axis=3),
        "layer_norm": lambda: k.layer_norm(tokens, scale, shift, **norm),
        "standardize_gradient": lambda: k.standardize_gradient(tokens, tokens_cotangent, scale, **norm),
        "layer_norm_weight_gradient": lambda: k.layer_norm_weight_gradient(tokens, tokens_cotangent, **norm),
        "cross_entropy": lambda: k.cross_entropy(rows, classes, 1.0, **loss),
        "cross_entropy and gradient": lambda: (
            k.cross_entropy(rows, classes, 1.0, **loss),
            k.cross_entropy_gradient(one, rows, classes, 1.0, **loss),
        ),
        "sum over axis 0": lambda: k.sum(rows, axis=(0,), keepdims=False),
        "sum": lambda: k.sum(rows, axis=None, keepdims=False),
        "attention_weights": lambda: k.attention_weights(scores, 0.0, is_causal=True),
        "attention_weights_gradient": lambda: k.attention_weights_gradient(scores, scores_cotangent, is_causal=True),
        "matmul": lambda: k.matmul(rows, weight),
        "matmul of a batch": lambda: k.matmul(queries, keys.transpose(0, 1, 3, 2)),
        "linear": lambda: k.linear(rows, weight, bias),
        "conv2d": lambda: k.conv2d(images, kernels, kernels_bias, **window),
        "conv_transpose2d": lambda: k.conv_transpose2d(made, kernels, 0.0, output_padding=(0, 0), **window),
        "conv2d_weight_gradient": lambda: k.conv2d_weight_gradient(made, images, kernel_size=(3, 3), **window),
        "batch_norm": lambda: k.batch_norm(images, 0.0, 1.0, gains, offsets, training=True, eps=1e-5),
        "batch_norm's gradients": lambda: (
            k.batch_norm_gradient(images_cotangent, images, gains, eps=1e-5),
            k.batch_norm_weight_gradient(images_cotangent, images, eps=1e-5),
            k.sum(images_cotangent, axis=(0, 2, 3), keepdims=False),
        ),
        "max_pool2d": lambda: k.max_pool2d(images, **pool),
        "max_pool2d_gradient": lambda: k.max_pool2d_gradient(pooled, images, **pool),
        "embedding": lambda: k.embedding(indices, words),
        "embedding_gradient": lambda: k.embedding_gradient(tokens, indices, num_embeddings=65),
        "adam": adam(k, [[x(64, 64) for _ in range(4)] for _ in range(2)]),
    }
    trained = {case.name: case for case in networks.table(networks.SMALL) if case.name in STEPS}
    return found | {name: steps.prepare(case, case.arrays()).run for name, case in trained.items()}


def adam(k: Any, arrays: list[list[Any]]) -> Callable[[], Any]:
    """A step of parameters and gradients, which goes on from the last one."""
    step, none = k.backend.kernel("adam_step"), [None] * len(arrays[0])
    state = [arrays[0], none, none]
    hyper = {"step": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "shrink": 1.0}

    def run() -> None:
        state[:] = step(state[0], arrays[1], *state[1:], **hyper)

    return run


def counted_calls() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Dtype, operation and call of all that is counted; the first is nothing, which is taken off the others."""
    yield "", "nothing", lambda: None
    for dtype in DTYPES:
        for name, call in operations(dtype, Device("cuda")).items():
            yield dtype, name, call


def as_it_is_trained(name: str) -> None:
    """Steps multiply in TF32."""
    mg.set_matmul_precision("high" if name in STEPS else "highest")


def calls() -> None:
    """Make them, between calls of `START` and `END`."""
    found = list(counted_calls())
    for _, name, call in found:
        as_it_is_trained(name)
        for _ in range(WARMING):
            call()
    gc.collect()
    gc.freeze()
    gc.disable()
    with import_module("emulated_cuda.boot").idle():
        os.getpgrp()  # found by the linker here
        os.getppid()
        for _, name, call in found:
            as_it_is_trained(name)
            call()
            os.getpgrp()
            for _ in range(COUNTED):
                call()
            os.getppid()
    print("counted", *(f"{dtype}|{name}" for dtype, name, _ in found), sep="\n")


# ── how it is counted ────────────────────────────────────────────────────────────────────────────────────────


def instructions(dump: str) -> float:
    """Of one call, from what callgrind wrote down."""
    total = re.search(r"^summary: (\d+)", dump, re.MULTILINE)
    assert total, f"callgrind wrote no summary: {dump[:200]}"
    return int(total[1]) / COUNTED


def measured() -> dict[str, dict[str, float]]:
    """Instructions of a call, by dtype and operation."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        python = [sys.executable, "-m", "benchmarks.gpu.host", "--calls"]
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        environment = {**os.environ, "EMULATED_MACHINE": MACHINE, "PYTHONHASHSEED": "0"}
        for before in ([], [*valgrind, f"--zero-before={START}", f"--dump-after={END}"]):  # the first time to compile
            done = subprocess.run(
                [*before, *python], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise SystemExit(f"{' '.join([*before, *python])} fails:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        keys = [line.split("|") for line in done.stdout.partition("counted\n")[2].splitlines()]
        dumps = [instructions(Path(f"{out}.{i}").read_text(encoding="utf-8")) for i, _ in zip(count(2), keys)]
    found: dict[str, dict[str, float]] = {dtype: {} for dtype in DTYPES}
    for (dtype, name), each in zip(keys[1:], dumps[1:], strict=True):
        found[dtype][name] = each - dumps[0]
    return found


def table(found: dict[str, dict[str, float]]) -> Iterator[str]:
    """In Markdown, in thousands."""
    yield f"| | {' | '.join(DTYPES)} |"
    yield f"|---|{'---:|' * len(DTYPES)}"
    for about, names in ROWS.items():
        cells = ("; ".join(f"{found[dtype][name] / 1000:.0f}" for name in names) for dtype in DTYPES)
        yield f"| {about} | {' | '.join(cells)} |"


def missing() -> str:
    """What is not there to count with, and where it comes from."""
    if find_spec("emulated_cuda") is None:
        return "there is no emulated GPU: python backends/cuda/tests/emulated/build.py, in an environment of its own"
    if shutil.which("valgrind") is None:
        return "there is no valgrind to count with: it is a package of most Linux distributions"
    return ""


def main(arguments: list[str] | None = None) -> int:
    """Print the table, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="default: %(default)s")
    parser.add_argument("--calls", action="store_true", help="only make the calls, as valgrind is to see them")
    chosen = parser.parse_args(arguments)
    if chosen.calls:
        calls()
        return 0
    if reason := missing():
        print(reason, file=sys.stderr)
        return 1
    found = measured()
    print(*table(found), sep="\n")
    print(f"kept: {record.write('host', {'instructions': found}, chosen.out)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
