"""How good ``micrograd train`` is with its own settings: beside scikit-learn on the same rows, and beside torch.

``python benchmarks/benchmark_learning.py tables``: perceptrons, convolutions and boosted trees on built-in sets. It
takes a quarter of an hour.
``python benchmarks/benchmark_learning.py sequences``: a transformer that says sequences backwards.
``python benchmarks/benchmark_learning.py text``: the losses of a small GPT on this repository's docs, and of its twin
in torch.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

if __name__ == "__main__":  # run as a file: the checkout, not this folder, is where to import from
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import micrograd_core as mg
from benchmarks import report
from benchmarks.run import RESULTS
from micrograd_core import optim
from micrograd_core.data import batches
from micrograd_train import sets
from micrograd_train.learning.loop import losses
from micrograd_train.learning.networks import SequenceTransformer
from micrograd_train.learning.problems import problem
from micrograd_train.learning.settings import Settings
from micrograd_train.learning.training import train

SEEDS = int(os.environ.get("SEEDS", "25"))
"""Splits of the small sets: where 27 rows are judged by, five say little."""
FEW = min(SEEDS, 5)
"""Of what takes longer."""
SETS = ("iris", "wine", "breast_cancer", "diabetes", "digits")


def ours(name: str, seeds: int, **settings: Any) -> list[float]:
    """Accuracy, or R², on the test rows, by seed."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [train(Settings(name, seed=seed, out=f"{folder}/{seed}", **settings)) for seed in range(seeds)]
    return [run["test"]["r2" if run["task"] == "regression" else "accuracy"] for run in runs]


def theirs(name: str, seeds: int) -> dict[str, list[float]]:
    """The same of scikit-learn's, on the same rows, prepared in the same way. They also learn from validation rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    found: dict[str, list[float]] = {"MLP": [], "HistGradientBoosting": []}
    for seed in range(seeds):
        given = problem(Settings(name, seed=seed))
        flat = {part: (x.reshape(len(x), -1), y) for part, (x, y) in given.parts.items()}
        x, y = (np.concatenate([flat["train"][i], flat["validation"][i]]) for i in (0, 1))
        regression = given.inputs.task == "regression"
        made = (
            (MLPRegressor, HistGradientBoostingRegressor)
            if regression
            else (MLPClassifier, HistGradientBoostingClassifier)
        )
        for scores, kind in zip(found.values(), made, strict=True):
            scores.append(float(kind(random_state=seed).fit(x, y).score(*flat["test"])))
    return found


def tables() -> None:
    """A row for each set; all figures are kept, by seed."""
    print("| set | seeds | `micrograd train` | scikit-learn's MLP | HistGradientBoosting |\n|---|---:|---:|---:|---:|")
    cases: dict[str, dict[str, list[float]]] = {}
    for name in SETS:
        seeds = FEW if name == "digits" else SEEDS
        cases[name] = {"micrograd train": ours(name, seeds), **theirs(name, seeds)}
        _show(name, list(cases[name].values()))
    cases["digits, --model cnn"] = {"micrograd train": ours("digits", FEW, model="cnn")}
    _show("digits, `--model cnn`", list(cases["digits, --model cnn"].values()))
    environment = report.environment() | {"scikit-learn": version("scikit-learn")}
    result = {"cases": cases, "environment": environment, "settings": {"seeds": SEEDS}}
    print(f"written to {report.write(result, RESULTS, 'learning')}", file=sys.stderr)


def _show(name: str, columns: list[list[float]]) -> None:
    shown = [_told(each, name) for each in columns] + ["–"] * (3 - len(columns))
    print(f"| {name} | {len(columns[0])} | {' | '.join(shown)} |", flush=True)


def _told(scores: list[float], name: str) -> str:
    """The mean, and its standard error."""
    error = stdev(scores) / len(scores) ** 0.5
    return f"{mean(scores):.3f} ± {error:.3f}" if name == "diabetes" else f"{mean(scores):.1%} ± {100 * error:.1f}"


def sequences() -> None:
    """How many test sequences are said backwards without a mistake."""
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(FEW):
            run = train(Settings("reverse", seed=seed, epochs=5, out=f"{folder}/{seed}"))
            print(f"seed {seed}: {run['test']['whole_sequences']:.2%} of the sequences, {run['seconds']:.1f} s")


def text(steps: int = 300, length: int = 64, features: int = 64) -> None:
    """The losses of a GPT and its twin, on the same batches, from the same weights."""
    import torch

    pages = sorted(Path(__file__).parents[1].glob("docs/*.md"))
    dataset = sets.characters("\n".join(page.read_text(encoding="utf-8") for page in pages), length=length)
    tokens = len(dataset.classes)
    model = SequenceTransformer(length, tokens, tokens, features, 4, 2, causal=True, generator=mg.random.Generator(0))
    twin = _twin(torch, model, features)
    rule, other = optim.Adam(model.parameters(), lr=1e-3), torch.optim.Adam(twin.parameters(), lr=1e-3)
    data = batches(dataset, 16, seed=0, prefetch=0, drop_last=True)
    curves: tuple[list[float], list[float]] = ([], [])
    while len(curves[0]) < steps:
        for x, y in data:
            loss, _ = losses("sequence", model(x), y)
            rule.zero_grad()
            loss.backward()
            rule.step()
            out = twin(torch.tensor(x.detach().numpy()))
            expected = torch.nn.functional.cross_entropy(
                out.reshape(-1, tokens), torch.tensor(y.detach().numpy()).reshape(-1)
            )
            other.zero_grad()
            expected.backward()
            other.step()
            curves[0].append(loss.item())
            curves[1].append(expected.item())
            if len(curves[0]) == steps:
                break
    apart = [abs(a - b) / b for a, b in zip(*curves, strict=True)]
    print(f"{dataset!r}; {sum(p.size for p in model.parameters()):,} parameters")
    for step in (1, 10, 50, 100, 200, steps):
        print(f"step {step:4}: micrograd {curves[0][step - 1]:.4f}, torch {curves[1][step - 1]:.4f}")
    print(f"furthest apart: {max(apart):.4%} at step {apart.index(max(apart)) + 1}")


def _twin(torch: Any, model: SequenceTransformer, features: int) -> Any:
    """The same network of torch's own layers, with the same numbers."""

    class Twin(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            tokens = model.embedding.weight.shape[0]
            self.embedding = torch.nn.Embedding(tokens, features)
            self.positions = torch.nn.Parameter(torch.zeros(tuple(model.positions.shape)))
            self.blocks = torch.nn.ModuleList(
                torch.nn.TransformerEncoderLayer(
                    features, 4, 4 * features, 0.0, torch.nn.functional.gelu, batch_first=True, norm_first=True
                )
                for _ in model.blocks
            )
            self.norm, self.head = torch.nn.LayerNorm(features), torch.nn.Linear(features, tokens)

        def forward(self, x: Any) -> Any:
            mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            seen = self.embedding(x) + self.positions[: x.shape[1]]
            for block in self.blocks:
                seen = block(seen, src_mask=mask, is_causal=True)
            return self.head(self.norm(seen))

    names = {"attention.": "self_attn.", "perceptron.0.": "linear1.", "perceptron.2.": "linear2."}
    state = {}
    for name, x in model.state_dict().items():
        for ours_, theirs_ in names.items():
            name = name.replace(ours_, theirs_)
        state[name] = torch.tensor(x.detach().numpy())
    twin = Twin()
    twin.load_state_dict(state)
    return twin


if __name__ == "__main__":
    warnings.filterwarnings("ignore")  # that scikit-learn's perceptron wants more iterations
    for word in sys.argv[1:] or ["tables", "sequences", "text"]:
        {"tables": tables, "sequences": sequences, "text": text}[word]()
