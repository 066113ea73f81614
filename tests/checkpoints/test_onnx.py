"""Models as ONNX files: checked by onnx, and run by onnxruntime with the numbers that they give here."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import nn
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.checkpoints import ExportError, export_onnx, exported
from micrograd_core.conformance.cases import draw
from micrograd_core.errors import MissingExtra
from micrograd_core.ops import TABLE
from micrograd_core.ops.record import Array
from micrograd_models.spellings import _SPELLINGS
from tests.interrupts import EXHAUSTIVE

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def run(path: Path, xs: list[Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(
        None, {x.name: y.detach().numpy() for x, y in zip(session.get_inputs(), xs, strict=True)}
    )
    return found


def rows(x: Any, count: int) -> Any:
    return mg.take(x, mg.asarray([i % x.shape[0] for i in range(count)]), axis=0)


def compare(path: Path, model: nn.Module, xs: list[Any], **close: Any) -> None:
    with mg.no_grad():
        wanted, _ = mg.support.pytrees.flatten(model.eval()(*xs))
    for found, out in zip(run(path, xs), wanted, strict=True):
        assert (found.shape, str(found.dtype)) == (out.shape, str(out.dtype))
        np.testing.assert_allclose(found, out.detach().numpy(), **{"rtol": 1e-4, "atol": 1e-5} | close)


class Transformer(nn.Module):
    def __init__(self, causal: bool) -> None:
        self.words, self.places = nn.Embedding(11, 8), nn.parameter((5, 8), "normal")
        self.block, self.norm, self.out = nn.TransformerBlock(8, 2), nn.LayerNorm(8, eps=0.1), nn.Linear(8, 11)
        self.out.weight = self.words.weight
        self.causal = causal

    def forward(self, words: Any) -> Any:
        x = self.block(self.words(words) + self.places, is_causal=self.causal)
        return self.out(self.norm(x))


class Pair(nn.Module):
    def __init__(self) -> None:
        self.a, self.b = nn.Linear(3, 4), nn.Linear(2, 4)

    def forward(self, left: Any, right: Any) -> Any:
        both = self.a(left) + self.b(right)
        return {"sum": both, "mean": both.mean(axis=1), "again": both}


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4, eps=0.1), nn.LeakyReLU(0.1), nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, stride=2, groups=2, bias=False, padding=1), nn.ELU(), nn.AvgPool2d(2, padding=1),
        nn.Flatten(), nn.Linear(16, 2),
    )  # fmt: skip


def in_one_dimension() -> nn.Module:
    return nn.Sequential(nn.Conv1d(2, 4, 3, dilation=2), nn.BatchNorm1d(4), nn.SiLU(), nn.MaxPool1d(2), nn.RMSNorm(4))


def transposed() -> nn.Module:
    return nn.Sequential(
        nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), nn.Tanh(), nn.ConvTranspose2d(4, 1, 2)
    )


MODELS: dict[str, tuple[Callable[[], nn.Module], list[Any]]] = {
    "an MLP": (lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3)), [(2, 4)]),
    "micrograd's own": (lambda: nn.MLP(4, [8, 3], dtype="float32"), [(2, 4)]),
    "a CNN": (convolutions, [(2, 1, 8, 8)]),
    "a decoder": (transposed, [(2, 3, 4, 4)]),
    "a CNN of rows": (in_one_dimension, [(2, 2, 12)]),
    "a transformer": (lambda: Transformer(False), [(2, 5)]),
    "a causal one": (lambda: Transformer(True), [(2, 5)]),
    "two inputs": (Pair, [(2, 3), (2, 2)]),
}


def arguments(name: str, shapes: list[Any]) -> list[Any]:
    generator = mg.random.Generator(1)
    if name in ("a transformer", "a causal one"):
        return [mg.random.randint(shape, 0, 11, generator=generator) for shape in shapes]
    return [mg.random.normal(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_the_same_in_onnxruntime(tmp_path: Path, name: str) -> None:
    make, shapes = MODELS[name]
    mg.random.manual_seed(3)
    random.seed(3)
    model, xs = make(), arguments(name, shapes)
    model(*xs)  # running averages move
    modes = [module.training for _, module in model.named_modules()]
    told = export_onnx(model, xs, tmp_path / "a.onnx")
    assert [module.training for _, module in model.named_modules()] == modes
    assert told.because == ""
    assert all(shape[0] == "batch" for _, shape in [*told.inputs.values(), *told.outputs.values()])
    onnx.checker.check_model(onnx.load(tmp_path / "a.onnx"), full_check=True)
    for count in (1, 2, 7):
        compare(tmp_path / "a.onnx", model, [rows(x, count) for x in xs])
    fixed = export_onnx(model, xs, tmp_path / "b.onnx", batch=False)
    assert [shape for _, shape in fixed.inputs.values()] == [x.shape for x in xs]
    onnx.checker.check_model(onnx.load(tmp_path / "b.onnx"), full_check=True)
    compare(tmp_path / "b.onnx", model, xs)


def test_names_are_those_of_the_model(tmp_path: Path) -> None:
    told = export_onnx(Pair(), [mg.ones((2, 3)), mg.ones((2, 2))], tmp_path / "a.onnx")
    assert told.inputs == {"left": ("float32", ("batch", 3)), "right": ("float32", ("batch", 2))}
    assert told.outputs == {
        "sum": ("float32", ("batch", 4)), "mean": ("float32", ("batch",)), "again": ("float32", ("batch", 4)),
    }  # fmt: skip
    graph = onnx.load(tmp_path / "a.onnx").graph
    assert {x.name for x in graph.initializer} >= {"a.weight", "a.bias", "b.weight", "b.bias"}
    export_onnx(Transformer(False), mg.zeros((2, 5), dtype="int64"), tmp_path / "b.onnx")
    names = [x.name for x in onnx.load(tmp_path / "b.onnx").graph.initializer]
    assert "words.weight" in names
    assert "out.weight" not in names


class Sums(nn.Module):
    """Over all rows: their number is part of what is computed."""

    def forward(self, x: Any) -> Any:
        return (x - x.mean(axis=0)).reshape(-1)[1:]


def test_rows_that_cannot_stay_open_are_said_to_be_fixed(tmp_path: Path) -> None:
    x = mg.random.normal((3, 2))
    told = export_onnx(Sums(), x, tmp_path / "a.onnx")
    assert "depends on it" in told.because
    assert told.inputs == {"x": ("float32", (3, 2))}
    compare(tmp_path / "a.onnx", Sums(), [x])
    with pytest.raises(ExportError, match=r"the number of rows cannot stay open: .*; leave out batch=True"):
        export_onnx(Sums(), x, tmp_path / "a.onnx", batch=True)


class Inverted(nn.Module):
    def forward(self, x: Any) -> Any:
        return mg.linalg.inv(x)


class Drawn(nn.Module):
    def forward(self, x: Any) -> Any:
        return mg.dropout(x, 0.5)


class Counted(nn.Module):
    def __init__(self) -> None:
        self.calls = mg.zeros(())

    def forward(self, x: Any) -> Any:
        self.calls = self.calls + 1
        return x * self.calls


class Branching(nn.Module):
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


class Said(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2, "twice"


class Same(nn.Module):
    def __init__(self) -> None:
        self.weight = nn.parameter((2,))

    def forward(self, x: Any) -> Any:
        double = x * 2
        return x, self.weight, double, double


def test_what_was_there_before_is_a_result_too(tmp_path: Path) -> None:
    model, x = Same(), mg.ones((3, 2))
    told = export_onnx(model, x, tmp_path / "a.onnx")
    assert list(told.outputs) == ["output_0", "output_1", "output_2", "output_3"]
    compare(tmp_path / "a.onnx", model, [mg.ones((5, 2))])


class Averaged(nn.Module):
    """A number of rows as a number."""

    def forward(self, x: Any) -> Any:
        return x.sum(axis=0) / x.shape[0], mg.arange(x.shape[0]), mg.zeros((x.shape[0], 2)), x.shape[0] + x


def test_the_number_of_rows_may_be_computed_with(tmp_path: Path) -> None:
    told = export_onnx(Averaged(), mg.ones((3, 2)), tmp_path / "a.onnx")
    assert told.because == "", told.because
    for count in (1, 2, 5):
        compare(tmp_path / "a.onnx", Averaged(), [mg.random.normal((count, 2))])


REFUSED = {
    "inverses": (nn.Sequential(nn.Identity(), Inverted()), r"inv, in the layer 1, Inverted \(.*test_onnx\.py, line"),
    "random numbers": (Drawn(), "random"),
    "a count": (Counted(), "changes a tensor or an attribute of its own"),
    "a decision": (Branching(), "the numbers of a tensor are asked for"),
    "a word": (Said(), "returns something that is no tensor"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_onnx_cannot_say_is_refused_with_its_place(tmp_path: Path, kind: str) -> None:
    model, sentence = REFUSED[kind]
    with pytest.raises(ExportError, match=sentence):
        export_onnx(model, mg.asarray([[1.0, 0.5], [0.0, 1.0]]), tmp_path / "a.onnx")
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module, attribute, value in (
        ("onnx", sys.modules, "onnx", None),
        ("micrograd-models", vars(exported), "entry_points", lambda **kwargs: ()),
    ):
        wanted = rf"^export_onnx needs {name}; install it with: pip install 'micrograd-core\[models\]'"
        with monkeypatch.context() as patch:
            patch.setitem(module, attribute, value)
            with pytest.raises(MissingExtra, match=wanted):
                export_onnx(nn.Linear(2, 2), mg.ones((1, 2)), tmp_path / "a.onnx")


@pytest.mark.parametrize("device", ["rawbuffer:0", "strict:0"])
def test_a_model_of_any_device_is_exported(tmp_path: Path, device: str) -> None:
    if not mg.Device.is_available(device):
        pytest.skip(f"{device} is not installed")
    with mg.use_device(device):
        model, x = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4)), mg.ones((2, 3))
        export_onnx(model, x, tmp_path / "a.onnx")
        compare(tmp_path / "a.onnx", model, [x])


# ── operations ───────────────────────────────────────────────────────────────────────────────────────────────


class Of(nn.Module):
    """One call of an operation."""

    def __init__(self, name: str, sample: Any) -> None:
        self.name, self.sample = name, sample

    def forward(self, *xs: Any) -> Any:
        arrays = iter(xs)
        operands = [next(arrays) if isinstance(x, Array) else x for x in self.sample.operands]
        call = FUNCTIONS[self.name]
        if TABLE[self.name].operands == -1:
            return call(operands, **self.sample.params)
        return call(*operands, **self.sample.params)


# of what has no elements, onnxruntime refuses to make anything
BEYOND = {"repeat (2, 3), repeats=0, axis=0", "tile (2,), repetitions=(0,)"}
SAMPLES = [(name, sample) for name, op in TABLE.items() if not name.endswith("_gradient") for sample in op.samples]


def test_operations_give_the_same_in_onnxruntime(tmp_path: Path) -> None:
    rng = random.Random(0)
    spelled = [each for each in SAMPLES if each[0] in _SPELLINGS]
    composed = [each for each in SAMPLES if each[0] not in _SPELLINGS]
    chosen = SAMPLES if EXHAUSTIVE else rng.sample(spelled, 36) + rng.sample(composed, 14)
    done = refused = 0
    for name, sample in chosen:
        if f"{name} {sample}" in BEYOND:
            continue
        xs = [
            mg.asarray(np.array(numbers, dtype=x.dtype or "float32").reshape(x.shape))
            for x, numbers in zip(sample.operands, draw(sample), strict=True)
            if isinstance(x, Array)
        ]
        model = Of(name, sample)
        try:
            model(*xs)
        except mg.MicrogradError:  # a sample of another dtype than float32
            continue
        try:
            export_onnx(model, xs, tmp_path / "a.onnx", batch=False)
        except ExportError:
            assert name not in _SPELLINGS or name in ("argmax", "argmin"), (name, sample)
            refused += 1
            continue
        done += 1
        try:
            compare(tmp_path / "a.onnx", model, xs, rtol=2e-4)
        except Exception as error:
            error.add_note(f"{name} {sample}")
            raise
    assert done > 2 * refused
    print(done, refused)
