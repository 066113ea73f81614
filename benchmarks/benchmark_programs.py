"""Programs that others wrote, side by side: the numbers are compared first, then all are timed in turns.

    MICROGRAD_PORTS=folder python benchmarks/benchmark_programs.py [--repeat 5] [--cases gpt2 nanogpt] [--markdown]

The folder has clones of the programs' repositories, as ``owner/name``; a program that is not there is left out. Those
in C are compiled by ``cc`` as they are, with random weights in files of their own format, and the same model runs here.
Those for PyTorch are the ports of `tests/ports`: one training step with torch, and here with other imports, with and
without `jit`. All run on one core: seconds of the clock and of the processor are kept, as the latter tell on a busy
machine. ``--markdown`` prints the README's table.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

if __package__ in (None, ""):  # run as a file
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
if __name__ == "__main__" and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before any library counts the cores

import numpy as np

import micrograd_core as mg
from benchmarks import report
from benchmarks.report import ROOT, in_markdown
from benchmarks.run import RESULTS
from micrograd_core import optim
from micrograd_core.nn import functional

Run = Callable[[], Any]
FLAGS = ("-Ofast", "-march=native", "-fopenmp", "-fPIC", "-w")


def ported(path: str) -> Path | None:
    """A program's source, where somebody has it."""
    folder = os.environ.get("MICROGRAD_PORTS")
    found = None if folder is None else Path(folder) / path
    return found if found is not None and found.exists() else None


def library(source: Path, more: str, folder: Path) -> Any:
    """A program without its ``main``, and functions to call it by, as a library."""
    text = folder / f"{source.stem}_called.c"
    text.write_text(f'#define TESTING\n#include "{source}"\n{more}', encoding="utf-8")
    made = text.with_suffix(".so")
    subprocess.run(["cc", *FLAGS, "-c", text, "-o", text.with_suffix(".o")], check=True)
    # Linked without -Ofast, which would flush the smallest numbers to zero in this process.
    subprocess.run(["cc", "-shared", "-fopenmp", text.with_suffix(".o"), "-o", made, "-lm"], check=True)
    return ctypes.CDLL(str(made))


def saved(path: Path, header: Any, arrays: Sequence[np.ndarray]) -> bytes:
    """A file of weights, whose name is returned as C takes it."""
    with path.open("wb") as file:
        header.tofile(file)
        for each in arrays:
            each.tofile(file)
    return str(path).encode()


def drawn(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Small random weights."""
    return np.float32(0.02) * rng.standard_normal(shape, dtype=np.float32)


def parameters(weights: Sequence[np.ndarray]) -> list[Any]:
    """Weights that are trained."""
    return [mg.asarray(each, requires_grad=True) for each in weights]


# ── GPT-2 ────────────────────────────────────────────────────────────────────────────────────────────────────

GPT2 = {"length": 1024, "words": 50257, "layers": 12, "heads": 12, "width": 768}
PADDED, STEPS = 128, 2
GPT2_CALLS = """
static GPT2 model; static int count;
void start(const char *path) { gpt2_build_from_checkpoint(&model, path); }
float step(int *x, int *y, int rows, int length) {
    gpt2_forward(&model, x, y, rows, length);
    gpt2_zero_grad(&model);
    gpt2_backward(&model);
    gpt2_update(&model, 1e-4f, 0.9f, 0.999f, 1e-8f, 0.0f, ++count);
    return model.mean_loss;
}
"""


def gpt2(source: Path, folder: Path, *, rows: int = 4, length: int = 64, **sizes: int) -> dict[str, Run]:
    """A training step of karpathy/llm.c's GPT-2; each returns its loss."""
    n = {**GPT2, **sizes}
    width, layers, words, rng = n["width"], n["layers"], n["words"], np.random.default_rng(0)
    padded = -(-words // PADDED) * PADDED

    def rows_of(fill: float, *shape: int) -> np.ndarray:
        return np.full(shape, fill, np.float32)

    def normed() -> list[np.ndarray]:
        return [rows_of(1, layers, width), rows_of(0, layers, width)]

    def affine(out: int, inner: int) -> list[np.ndarray]:
        return [drawn(rng, layers, out, inner), rows_of(0, layers, out)]

    blocks = [*normed(), *affine(3 * width, width), *affine(width, width), *normed(), *affine(4 * width, width)]
    blocks += affine(width, 4 * width)
    weights = [drawn(rng, padded, width), drawn(rng, n["length"], width), *blocks, rows_of(1, width), rows_of(0, width)]
    header = np.zeros(256, np.int32)
    header[:8] = 20240326, 3, n["length"], words, layers, n["heads"], width, padded
    program = library(source, GPT2_CALLS, folder)
    program.start(saved(folder / "gpt2.bin", header, weights))
    program.step.restype = ctypes.c_float
    x, y = rng.integers(0, words, (2, rows, length), dtype=np.int32)

    tokens, places = parameters([weights[0][:words], weights[1]])
    layered = [parameters(each) for each in zip(*blocks, strict=True)]
    last = parameters(weights[-2:])
    rule = optim.AdamW([tokens, places, *(p for each in layered for p in each), *last], lr=1e-4, weight_decay=0.0)
    inputs, targets = mg.asarray(x), mg.asarray(y.reshape(-1).astype(np.int64))

    @mg.jit
    def step() -> Any:
        rule.zero_grad()
        h = functional.embedding(inputs, tokens) + places[:length]
        for g1, b1, wqkv, bqkv, wo, bo, g2, b2, up, bup, down, bdown in layered:
            heads = functional.linear(functional.layer_norm(h, (width,), g1, b1), wqkv, bqkv).reshape(
                (rows, length, 3, n["heads"], -1)
            )
            q, k, v = (heads[:, :, i].permute_dims((0, 2, 1, 3)) for i in range(3))
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True).permute_dims((0, 2, 1, 3))
            h = h + functional.linear(seen.reshape((rows, length, width)), wo, bo)
            inner = functional.gelu(
                functional.linear(functional.layer_norm(h, (width,), g2, b2), up, bup), approximate="tanh"
            )
            h = h + functional.linear(inner, down, bdown)
        logits = functional.linear(functional.layer_norm(h, (width,), *last), tokens)
        loss = functional.cross_entropy(logits.reshape((-1, words)), targets)
        loss.backward()
        rule.step()
        return loss

    pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (x, y)]
    return {"program": lambda: program.step(*pointers, rows, length), "micrograd-jit": lambda: step().item()}


# ── Llama ────────────────────────────────────────────────────────────────────────────────────────────────────

LLAMA = {"width": 288, "inner": 768, "layers": 6, "heads": 6, "words": 32000, "length": 256}
LLAMA_CALLS = """
static Transformer model;
void start(char *path) { build_transformer(&model, path); }
int told(int token, int place) { return sample_argmax(forward(&model, token, place), model.config.vocab_size); }
"""


def llama(source: Path, folder: Path, **sizes: int) -> dict[str, Run]:
    """All tokens that karpathy/llama2.c's smallest model tells, the most probable ones; each returns them."""
    n = {**LLAMA, **sizes}
    width, layers, heads, length, rng = n["width"], n["layers"], n["heads"], n["length"], np.random.default_rng(0)
    inner, size = n["inner"], n["width"] // n["heads"]
    square, ones = (layers, width, width), np.ones((layers, width), np.float32)
    weights = [drawn(rng, n["words"], width), ones, *(drawn(rng, *square) for _ in range(4)), ones]
    weights += [drawn(rng, layers, *shape) for shape in ((inner, width), (width, inner), (inner, width))]
    weights += [np.ones(width, np.float32), drawn(rng, length, size)]
    header = np.array([width, inner, layers, heads, heads, n["words"], length], np.int32)
    program = library(source, LLAMA_CALLS, folder)
    program.start(saved(folder / "llama.bin", header, weights))

    tokens, last = mg.asarray(weights[0]), mg.asarray(weights[-2])
    blocks = [[mg.asarray(x) for x in each] for each in zip(*weights[1:10], strict=True)]
    angles = np.arange(length)[:, None] / 10000.0 ** (np.arange(0, size, 2) / size)
    both = (np.cos(angles), np.cos(angles)), (-np.sin(angles), np.sin(angles))
    cosines, sines = (mg.asarray(np.stack(x, axis=-1, dtype=np.float32).reshape(length, size)) for x in both)
    numbers = mg.asarray(np.arange(length))
    empty = mg.asarray(np.zeros((heads, length, size), np.float32))

    def turned(x: Any, cosine: Any, sine: Any) -> Any:
        x, cosine, sine = (each.reshape((-1, size // 2, 2)) for each in (x, cosine, sine))
        return (x * cosine + mg.flip(x, axis=-1) * sine).reshape((heads, 1, size))

    linear = functional.linear

    @mg.jit
    def told(token: Any, place: Any, seen: Any) -> Any:
        x, cosine, sine = (
            functional.embedding(i, rows) for i, rows in ((token, tokens), (place, cosines), (place, sines))
        )
        here, later, kept = (numbers == place)[:, None], numbers > place, []
        for (g1, wq, wk, wv, wo, g2, gate, down, up), (keys, values) in zip(blocks, seen, strict=True):
            h = functional.rms_norm(x, (width,), g1, eps=1e-5)
            keys = mg.where(here, turned(linear(h, wk), cosine, sine), keys)
            values = mg.where(here, linear(h, wv).reshape((heads, 1, size)), values)
            scores = turned(linear(h, wq), cosine, sine) @ keys.mT / size**0.5
            weighted = mg.softmax(mg.where(later, -np.inf, scores), axis=-1) @ values
            x = x + linear(weighted.reshape((1, width)), wo)
            h = functional.rms_norm(x, (width,), g2, eps=1e-5)
            x = x + linear(functional.silu(linear(h, gate)) * linear(h, up), down)
            kept.append((keys, values))
        return mg.argmax(linear(functional.rms_norm(x, (width,), last, eps=1e-5), tokens)), kept

    def ours() -> list[int]:
        token, seen, found = 1, [(empty, empty)] * layers, []
        for place in range(length):
            next_token, seen = told(mg.asarray([token]), mg.asarray([place]), seen)
            found.append(token := int(next_token))
        return found

    def theirs() -> list[int]:
        token, found = 1, []
        for place in range(length):
            found.append(token := program.told(token, place))
        return found

    return {"program": theirs, "micrograd-jit": ours}


# ── LeNet ────────────────────────────────────────────────────────────────────────────────────────────────────


def lenet(*, count: int = 60_000, batch: int = 100, epochs: int = 10) -> dict[str, Run]:
    """Ten epochs on as many images as MNIST has, compiling included; each returns the last loss."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((count, 1, 28, 28), dtype=np.float32)
    classes = rng.integers(0, 10, count)
    shapes = [(6, 1, 5, 5), (6,), (16, 6, 5, 5), (16,), (120, 256), (120,), (84, 120), (84,), (10, 84), (10,)]
    weights = [rng.standard_normal(s, dtype=np.float32) / np.float32(np.prod(s[1:]) ** 0.5) for s in shapes]

    def losses(nn: Any, p: Any, x: Any, y: Any) -> Any:
        for w, b in ((p[0], p[1]), (p[2], p[3])):
            x = nn.max_pool2d(nn.relu(nn.conv2d(x, w, b)), 2)
        x = x.reshape((-1, 256))
        for w, b in ((p[4], p[5]), (p[6], p[7])):
            x = nn.relu(nn.linear(x, w, b))
        return nn.cross_entropy(nn.linear(x, p[8], p[9]), y)

    def trained(step: Callable[[Any, Any], Any], turn: Callable[[Any], Any]) -> float:
        for _ in range(epochs):
            for start in range(0, count, batch):
                loss = step(turn(images[start : start + batch]), turn(classes[start : start + batch]))
        return float(loss.detach())

    def stepping(nn: Any, p: list[Any], rule: Any) -> Callable[[Any, Any], Any]:
        def step(x: Any, y: Any) -> Any:
            rule.zero_grad()
            loss = losses(nn, p, x, y)
            loss.backward()
            rule.step()
            return loss

        return step

    def ours() -> float:
        p = parameters(weights)
        return trained(mg.jit(stepping(functional, p, optim.Adam(p, lr=1e-3))), mg.asarray)

    def theirs() -> float:
        import torch

        p = [torch.tensor(each, requires_grad=True) for each in weights]
        return trained(stepping(torch.nn.functional, p, torch.optim.Adam(p, lr=1e-3)), torch.from_numpy)

    return {"torch": theirs, "micrograd-jit": ours}


# ── programs for PyTorch ─────────────────────────────────────────────────────────────────────────────────────


def _nanogpt(m: Any, torch: Any) -> Any:
    return m.GPT(m.GPTConfig(block_size=64, vocab_size=65, n_layer=4, n_head=4, n_embd=128, dropout=0.0, bias=False))


def _mingpt(m: Any, torch: Any) -> Any:
    config = m.GPT.get_default_config()
    config.model_type, config.vocab_size, config.block_size = "gpt-nano", 10, 32
    config.embd_pdrop = config.resid_pdrop = config.attn_pdrop = 0.0
    return m.GPT(config)


def _llama(m: Any, torch: Any) -> Any:
    return m.Transformer(m.ModelArgs(dim=64, n_layers=5, n_heads=8, n_kv_heads=4, vocab_size=512, max_seq_len=128))


def _vit(m: Any, torch: Any) -> Any:
    sizes = {"dim": 128, "depth": 4, "heads": 4, "mlp_dim": 256, "dim_head": 32}
    return m.ViT(image_size=32, patch_size=4, num_classes=10, **sizes)


def _ode(m: Any, torch: Any) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(2, 50), torch.nn.Tanh(), torch.nn.Linear(50, 2))


def _pictures(rng: np.random.Generator) -> dict[str, Any]:
    return {"x": rng.random((128, 784), dtype=np.float32), "noise": rng.standard_normal((128, 20), dtype=np.float32)}


def _spiral(rng: np.random.Generator) -> dict[str, Any]:
    return {"x": rng.standard_normal((20, 2), dtype=np.float32), "t": np.linspace(0.0, 1.0, 10, dtype=np.float32)}


PORTS: dict[str, tuple[str, str, Callable[[Any, Any], Any], Callable[[Any], dict[str, Any]] | tuple[int, ...]]] = {
    "nanogpt": ("nanoGPT", "4 blocks 128 wide, 12 × 64 characters", _nanogpt, (12, 64, 65)),
    "mingpt": ("minGPT", "gpt-nano, 64 × 32 digits", _mingpt, (64, 32, 10)),
    "llama-training": ("llama2.c", "model.py, 5 blocks 64 wide, 4 × 128 tokens", _llama, (4, 128, 512)),
    "lstm": (
        "word model, LSTM", "2 layers 200 wide, 35 × 20 of 2,000 words",
        lambda m, torch: m.RNNModel("LSTM", 2000, 200, 200, 2, 0.0, False), (35, 20, 2000),
    ),
    "vit": ("ViT", "4 blocks 128 wide, 16 images 3 × 32 × 32", _vit, lambda ports: ports.images(16, 3, 32, 32)),
    "mnist": ("MNIST, CNN", "64 images", lambda m, torch: m.Net().eval(), lambda ports: ports.images(64, 1, 28, 28)),
    "vae": ("VAE", "128 images", lambda m, torch: m.VAE(), lambda ports: _pictures),
    "dopri5": ("torchdiffeq, dopri5", "2-50-2, 20 points at 10 times", _ode, lambda ports: _spiral),
}  # fmt: skip
"""Programs of `tests/ports` in sizes that their authors use: their names there, the sizes, models and inputs."""
UNTRACED = ("dopri5",)
"""What decides by its numbers how to go on, which `jit` refuses."""


def port(name: str, folder: Path) -> dict[str, Run] | str:
    """A training step of a program; each returns its loss."""
    try:
        import torch
    except ImportError as error:
        return str(error)
    sys.path.insert(0, str(ROOT / "tests" / "ports"))
    import programs

    import micrograd_core.torch as ours

    known, _, make, inputs = PORTS[name]
    drawn = programs.tokens(*inputs) if isinstance(inputs, tuple) else inputs(programs)
    program = programs.PROGRAMS[known]._replace(make=make, inputs=drawn)
    if (root := programs.source_of(program)) is None:
        return f"{program.repository} is not in the folder that MICROGRAD_PORTS names"
    given, state, runs = drawn(np.random.default_rng(0)), None, dict[str, Run]()
    torch.manual_seed(0)
    for column in ("torch", "micrograd", *(() if name in UNTRACED else ("micrograd-jit",))):
        module = ours if column.startswith("micrograd") else torch
        with programs.loaded(program, root, folder / f"{name}-{column}", ported=module is ours) as m:
            step, state = programs.training(program, m, module, given, state)
        runs[column] = mg.jit(step) if column.endswith("jit") else step
    return {column: lambda run=run: run().item() for column, run in runs.items()}


# ── the run ──────────────────────────────────────────────────────────────────────────────────────────────────

PROGRAMS = {
    "gpt2": ("karpathy/llm.c/train_gpt2.c", "training step of GPT-2 124M, 4 × 64 tokens, AdamW", gpt2),
    "llama": ("karpathy/llama2.c/run.c", "256 tokens of a Llama of 15 million weights, one after the other", llama),
}
ABOUT = {name: f"{known}: {about}" for name, (known, about, _, _) in PORTS.items()}
ABOUT |= {name: about for name, (_, about, _) in PROGRAMS.items()}
ABOUT["lenet"] = "LeNet, ten epochs of 60,000 images, compiling included"


def runs_of(name: str, folder: Path) -> dict[str, Run] | str:
    """Whom a row has; or why it is left out."""
    if name in PROGRAMS:
        path, _, make = PROGRAMS[name]
        source = ported(path)
        return f"{path} is not in the folder that MICROGRAD_PORTS names" if source is None else make(source, folder)
    return port(name, folder) if name in PORTS else lenet()


def measure(runs: dict[str, Run], repeat: int) -> report.Result:
    """Medians of seconds; the numbers of the first calls are compared, and those are not timed where others follow."""
    found: dict[str, list[Any]] = {name: [] for name in runs}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(repeat + STEPS if repeat > 1 else 1):
        for name, run in runs.items():
            start, cpu = time.perf_counter(), time.process_time()
            found[name].append(run())
            times[name].append((time.perf_counter() - start, time.process_time() - cpu))
    first, *others = found.values()
    for each in others:
        np.testing.assert_allclose(first[:STEPS], each[:STEPS], rtol=1e-2)
    kept = {name: each[STEPS:] or each for name, each in times.items()}  # the first ones compile
    columns = {name: [statistics.median(x) for x in zip(*each, strict=True)] for name, each in kept.items()}
    base, *ours = columns
    return {name: dict(zip(("seconds", "cpu_seconds"), each, strict=True)) for name, each in columns.items()} | {
        f"{name} by {base}": statistics.median(x[1] / y[1] for x, y in zip(kept[name], kept[base], strict=True))
        for name in ours
    }


def table(cases: report.Result) -> str:
    """The README's: milliseconds of the processor, and the ratios to those of the program beside."""
    rows = [["on one core", "beside", "its ms", "micrograd", "`jit`"]]
    for case in [cases[name] for name in ABOUT if name in cases]:
        base = "torch" if "torch" in case else "program"
        ratios = [case.get(f"{name} by {base}") for name in ("micrograd", "micrograd-jit")]
        cells = ["–" if x is None else f"{x:.2f}" for x in ratios]
        rows.append(
            [case["about"], "C" if base == "program" else base, f"{case[base]['cpu_seconds'] * 1e3:,.1f}", *cells]
        )
    return in_markdown(rows).rstrip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, show, keep."""
    parser = argparse.ArgumentParser(prog="benchmark_programs", description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5, help="calls of each; lenet's are one; default: %(default)s")
    parser.add_argument("--cases", nargs="+", choices=ABOUT, default=[*ABOUT], metavar="CASE", help="default: all")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON; default: %(default)s")
    parser.add_argument("--no-write", action="store_true", help="keep nothing")
    parser.add_argument("--markdown", action="store_true", help="print the README's table")
    chosen = parser.parse_args(arguments)
    cases: report.Result = {}
    with TemporaryDirectory() as folder:
        for name in chosen.cases:
            runs = runs_of(name, Path(folder))
            if isinstance(runs, str):
                print(f"{name} is left out: {runs}", file=sys.stderr)
                continue
            cases[name] = {"about": ABOUT[name], **measure(runs, 1 if name == "lenet" else chosen.repeat)}
            print(name, *(f"{key} {value}" for key, value in cases[name].items()), sep="  ", flush=True)
    if chosen.markdown:
        print(table(cases))
    if cases and not chosen.no_write:
        result = {"cases": cases, "environment": report.environment(), "settings": {"repeat": chosen.repeat}}
        print(f"written to {report.write(result, chosen.out, 'programs')}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
