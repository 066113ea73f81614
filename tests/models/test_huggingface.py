"""Folders as `transformers` saves them: numbers as plain NumPy and `transformers` itself give them, and refusals."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core.checkpoints import CheckpointError
from micrograd_models import from_huggingface

sys.path.insert(0, str(Path(__file__).parent))
import by_hand

safetensors = pytest.importorskip("safetensors.numpy")

GPT2 = {
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 11,
    "n_positions": 16,
    "n_embd": 8,
    "n_layer": 2,
    "n_head": 2,
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "vocab_size": 11, "hidden_size": 8, "intermediate_size": 12,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
    "max_position_embeddings": 16,
}  # fmt: skip
ENCODER = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2}
BERT = {"architectures": ["BertModel"], "vocab_size": 11, "max_position_embeddings": 16, **ENCODER}
VIT = {
    "architectures": ["ViTForImageClassification"], "image_size": 8, "patch_size": 4, **ENCODER,
    "id2label": {"0": "a", "1": "b", "2": "c"},
}  # fmt: skip
WHISPER = {
    "architectures": ["WhisperForConditionalGeneration"], "num_mel_bins": 4, "d_model": 8, "encoder_layers": 2,
    "encoder_attention_heads": 2, "encoder_ffn_dim": 12, "max_source_positions": 5,
}  # fmt: skip
RESNET = {
    "architectures": ["ResNetForImageClassification"], "embedding_size": 4, "hidden_sizes": [4, 6], "depths": [1, 1],
    "layer_type": "basic", "id2label": {"0": "a", "1": "b", "2": "c"},
}  # fmt: skip


def written(folder: Path, config: dict[str, Any], weights: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    safetensors.save_file({name: np.asarray(x, order="C") for name, x in weights.items()}, folder / "model.safetensors")
    return folder


def words(seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 11, (2, 7))


def numbers(*shape: int) -> Any:
    return np.random.default_rng(1).standard_normal(shape, dtype=np.float32)


MASK = np.array([[True] * 7, [True] * 4 + [False] * 3])
PLAIN: dict[str, tuple[dict[str, Any], dict[str, Any], list[Any], Callable[..., Any]]] = {
    "GPT-2": (GPT2, by_hand.gpt2_shapes(), [words()], lambda w, x: by_hand.gpt2(w, x, 2)),
    "Llama": (LLAMA, by_hand.llama_shapes(), [words()], lambda w, x: by_hand.llama(w, x, 4, 2, False)),
    "BERT": (BERT, by_hand.bert_shapes(), [words(), MASK], lambda w, x, mask: by_hand.bert(w, x, mask, 2)),
    "ViT": (VIT, by_hand.vit_shapes(), [numbers(2, 3, 8, 8)], lambda w, x: by_hand.vit(w, x, 2)),
    "Whisper": (WHISPER, by_hand.whisper_shapes(), [numbers(2, 4, 10)], lambda w, x: by_hand.whisper(w, x, 2)),
    "ResNet": (RESNET, by_hand.resnet_shapes(), [numbers(2, 3, 32, 32)], by_hand.resnet),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_folder_gives_the_numbers_of_plain_numpy(name: str, tmp_path: Path) -> None:
    config, shapes, inputs, plain = PLAIN[name]
    weights = by_hand.drawn(shapes)
    model = from_huggingface(written(tmp_path, config, weights))
    assert not model.training
    with mg.no_grad():
        found = model(*map(mg.asarray, inputs)).numpy()
    np.testing.assert_allclose(found, plain(weights, *inputs), rtol=1e-4, atol=2e-5)
    model(*map(mg.asarray, inputs)).sum().backward()
    assert all(p.grad is not None for n, p in model.named_parameters() if not n.startswith("pooler"))


def test_rotations_of_neighbours(tmp_path: Path) -> None:
    weights = by_hand.drawn(by_hand.llama_shapes())
    model = from_huggingface(written(tmp_path, LLAMA, weights), rope_interleaved=True)
    with mg.no_grad():
        found = model(mg.asarray(words())).numpy()
    np.testing.assert_allclose(found, by_hand.llama(weights, words(), 4, 2, True), rtol=1e-4, atol=2e-5)


def test_tied_weights_are_one_tensor(tmp_path: Path) -> None:
    weights = by_hand.drawn(by_hand.llama_shapes())
    del weights["lm_head.weight"]
    model = from_huggingface(written(tmp_path, {**LLAMA, "tie_word_embeddings": True}, weights))
    assert model.head.weight is model.words.weight
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    with mg.no_grad():
        found = model(mg.asarray(words())).numpy()
    np.testing.assert_allclose(found, by_hand.llama(weights, words(), 4, 2, False), rtol=1e-4, atol=2e-5)


def test_several_files_and_bfloat16(tmp_path: Path) -> None:
    weights = by_hand.drawn(by_hand.gpt2_shapes())
    rounded = {name: (x.view(np.uint32) >> 16 << 16).view(np.float32) for name, x in weights.items()}
    places: dict[str, str] = {}
    for i in range(2):
        file = f"model-0000{i + 1}-of-00002.safetensors"
        part = dict(list(rounded.items())[i::2])
        head: dict[str, Any] = {}
        body = b""
        for name, x in part.items():
            data = (x.view(np.uint32) >> 16).astype("<u2").tobytes()
            head[name] = {"dtype": "BF16", "shape": x.shape, "data_offsets": [len(body), len(body) + len(data)]}
            body += data
        text = json.dumps(head).encode()
        (tmp_path / file).write_bytes(len(text).to_bytes(8, "little") + text + body)
        places |= dict.fromkeys(part, file)
    (tmp_path / "config.json").write_text(json.dumps(GPT2))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    model = from_huggingface(tmp_path)
    assert {str(p.dtype) for p in model.parameters()} == {"float32"}
    with mg.no_grad():
        found = model(mg.asarray(words())).numpy()
    np.testing.assert_allclose(found, by_hand.gpt2(rounded, words(), 2), rtol=1e-4, atol=2e-5)
    half = from_huggingface(tmp_path, dtype="bfloat16")
    assert {str(p.dtype) for p in half.parameters()} == {"bfloat16"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../other.safetensors"}}))
    with pytest.raises(CheckpointError, match=r"names '\.\./other\.safetensors', which is no file of"):
        from_huggingface(tmp_path)


def test_layers_behind_the_blocks_can_be_new(tmp_path: Path) -> None:
    weights = by_hand.drawn(by_hand.vit_shapes())
    written(tmp_path, VIT, weights)
    model = from_huggingface(tmp_path, classes=5)
    assert model(mg.zeros((1, 3, 8, 8))).shape == (1, 5)
    np.testing.assert_array_equal(model.whole.detach().numpy(), weights["vit.embeddings.cls_token"])
    written(tmp_path, BERT, by_hand.drawn(by_hand.bert_shapes()))
    assert from_huggingface(tmp_path, head="classes", classes=4)(mg.asarray(words())).shape == (2, 4)
    written(tmp_path, GPT2, by_hand.drawn(by_hand.gpt2_shapes()))
    assert from_huggingface(tmp_path, head=False)(mg.asarray(words())).shape == (2, 7, 8)


def test_the_activation_is_that_of_the_config(tmp_path: Path) -> None:
    written(tmp_path, GPT2, by_hand.drawn(by_hand.gpt2_shapes()))
    with mg.no_grad():
        new, exact = (
            from_huggingface(tmp_path, activation_function=name)(mg.asarray(words())) for name in ("gelu_new", "gelu")
        )
    difference = float(mg.max(mg.abs(new - exact)).item())
    assert 1e-6 < difference < 1e-1


@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        ({**GPT2, "architectures": ["MambaModel"]}, {}, r"architecture 'MambaModel'; there are GPT2Model, .* or Res"),
        ({**GPT2, "architectures": None}, {}, "the architecture None"),
        ({**GPT2, "activation_function": "soft"}, {}, "json in .*: there is no activation 'soft'; there are gelu,"),
        ({**GPT2, "scale_attn_weights": False}, {}, "is known here with scale_attn_weights=True; .* has False"),
        ({**GPT2, "n_layer": 3}, {}, r"are not those of its config.json: 'blocks\.2\.norm1\.weight' is missing"),
        ({**GPT2, "n_layer": 1}, {}, r"'blocks\.1\.norm1\.weight' is not a parameter or buffer"),
        ({**GPT2, "n_positions": 9}, {}, r"'places\.weight' has shape \(16, 8\), not \(9, 8\)"),
        (GPT2, {"transformer.ln_f.bias": None}, r"'norm\.bias' is missing"),
        (GPT2, {"transformer.ln_g.bias": np.zeros(3, np.float32)}, r"'ln_g\.bias' is not a parameter"),
    ],
)
def test_what_does_not_fit_is_told(
    config: dict[str, Any], change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    weights = {**by_hand.drawn(by_hand.gpt2_shapes()), **change}
    written(tmp_path, config, {name: x for name, x in weights.items() if x is not None})
    with pytest.raises(CheckpointError, match=message):
        from_huggingface(tmp_path)


def test_a_scaling_of_rotations_that_is_not_known(tmp_path: Path) -> None:
    written(tmp_path, {**LLAMA, "rope_scaling": {"type": "yarn", "factor": 2.0}}, by_hand.drawn(by_hand.llama_shapes()))
    with pytest.raises(CheckpointError, match="no rope_type 'yarn'; there are default, linear or llama3"):
        from_huggingface(tmp_path)
    written(tmp_path, {**LLAMA, "rope_scaling": {"type": "linear"}}, by_hand.drawn(by_hand.llama_shapes()))
    with pytest.raises(CheckpointError, match="factor"):
        from_huggingface(tmp_path)


def test_files_that_are_not_there_and_pickles(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"cannot read config\.json .*: No such file.*; name a folder that"):
        from_huggingface(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="is no JSON"):
        from_huggingface(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(CheckpointError, match="holds no settings by name"):
        from_huggingface(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(GPT2))
    with pytest.raises(CheckpointError, match="holds neither model.safetensors nor model.safetensors.index.json"):
        from_huggingface(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin, a pickle, .*AutoModel\.from_pretrained\("):
        from_huggingface(tmp_path)
    with pytest.raises(TypeError, match="GPT2LMHeadModel has no setting 'clases'; there are vocab_size, "):
        from_huggingface(written(tmp_path, GPT2, by_hand.drawn(by_hand.gpt2_shapes())), clases=3)


# ── beside transformers ──────────────────────────────────────────────────────────────────────────────────────

SMALL: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4
}  # fmt: skip
TEXT = {"vocab_size": 50, **SMALL}
WHOLE: dict[str, Any] = {
    "vocab_size": 50, "num_mel_bins": 8, "d_model": 32, "encoder_layers": 2, "decoder_layers": 1,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
    "max_source_positions": 20, "max_target_positions": 10, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
THEIRS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config", {"vocab_size": 50, "n_positions": 32, "n_embd": 32, "n_layer": 2,
              "n_head": 4, "bos_token_id": 0, "eos_token_id": 0}),
    "GPT-2 without a head": ("GPT2Model", "GPT2Config", {"vocab_size": 50, "n_positions": 32, "n_embd": 32,
                             "n_layer": 2, "n_head": 4, "n_inner": 40, "bos_token_id": 0, "eos_token_id": 0}),
    "Llama": ("LlamaForCausalLM", "LlamaConfig", {**TEXT, "num_key_value_heads": 2}),
    "Llama, tied, with biases": ("LlamaForCausalLM", "LlamaConfig", {
        **TEXT, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "head_dim": 6}),
    "Llama 3.1": ("LlamaModel", "LlamaConfig", {**TEXT, "num_key_value_heads": 1, "rope_parameters": LLAMA3}),
    "Llama, stretched": ("LlamaForCausalLM", "LlamaConfig", {
        **TEXT, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}}),
    "BERT": ("BertModel", "BertConfig", TEXT),
    "BERT's words": ("BertForMaskedLM", "BertConfig", TEXT),
    "BERT's classes": ("BertForSequenceClassification", "BertConfig", {**TEXT, "num_labels": 5}),
    "ViT": ("ViTModel", "ViTConfig", {**SMALL, "image_size": 32, "patch_size": 8}),
    "ViT's classes": ("ViTForImageClassification", "ViTConfig", {
        **SMALL, "image_size": 32, "patch_size": 8, "qkv_bias": False, "num_labels": 5}),
    "Whisper": ("WhisperModel", "WhisperConfig", WHOLE),
    "ResNet": ("ResNetForImageClassification", "ResNetConfig", {
        "embedding_size": 8, "hidden_sizes": [16, 32], "depths": [2, 1], "num_labels": 3}),
    "ResNet of basic layers": ("ResNetModel", "ResNetConfig", {
        "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2], "layer_type": "basic"}),
    "ResNet that shrinks at once": ("ResNetModel", "ResNetConfig", {
        "embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 1], "downsample_in_first_stage": True,
        "downsample_in_bottleneck": True}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # what other libraries say of their own
@pytest.mark.parametrize("form", ["float32", "bfloat16 in several files"])
@pytest.mark.parametrize("name", THEIRS)
def test_a_model_gives_the_logits_that_it_gives_in_transformers(name: str, form: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    kind, config, settings = THEIRS[name]
    torch.manual_seed(0)
    theirs = getattr(transformers, kind)(getattr(transformers, config)(**settings)).eval()
    if form == "float32":
        theirs.save_pretrained(tmp_path)
    else:
        theirs.to(torch.bfloat16).save_pretrained(tmp_path, max_shard_size="2KB")
        assert (tmp_path / "model.safetensors.index.json").exists()
        theirs.float()
    inputs: dict[str, Any] = {"input_ids": np.random.default_rng(0).integers(0, 50, (2, 9))}
    if "Bert" in kind:
        inputs["attention_mask"] = np.array([[1] * 9, [1] * 5 + [0] * 4])
        inputs["token_type_ids"] = np.array([[0] * 4 + [1] * 5] * 2)
    if kind.startswith(("ViT", "ResNet")):
        inputs = {"pixel_values": numbers(2, 3, 32, 32)}
    elif kind.startswith("Whisper"):
        inputs, theirs = {"input_features": numbers(2, 8, 40)}, theirs.encoder
    ours = from_huggingface(tmp_path)
    with torch.no_grad():
        wanted = theirs(**{each: torch.from_numpy(x) for each, x in inputs.items()})
    with mg.no_grad():
        found = ours(*map(mg.asarray, inputs.values()))
    logits = wanted.logits if hasattr(wanted, "logits") else wanted.last_hidden_state
    np.testing.assert_allclose(found.numpy(), logits.numpy(), rtol=0, atol=1e-4)
    if getattr(wanted, "pooler_output", None) is not None and hasattr(ours, "pooled"):
        pooled = ours.pooled(ours.features(*map(mg.asarray, inputs.values())))
        np.testing.assert_allclose(pooled.detach().numpy(), wanted.pooler_output.numpy(), rtol=0, atol=1e-4)
