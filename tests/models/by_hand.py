"""The models again, as plain NumPy in float64: from the tensors of a file, by the names that the file gives them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any
Weights = dict[str, Array]


def drawn(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> Weights:
    """Random tensors; what is called a norm's weight is near 1, and variances are positive."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in shapes.items():
        x = rng.standard_normal(shape) * 0.3
        positive = "running_var" in name or (len(shape) == 1 and name.endswith("weight"))
        found[name] = (np.abs(x) + 0.7 if positive else x).astype(np.float32)
    return found


def layers(prefix: str, shapes: dict[str, tuple[int, ...]], count: int = 2) -> dict[str, tuple[int, ...]]:
    """The same shapes for several layers."""
    return {f"{prefix}{i}.{name}": shape for i in range(count) for name, shape in shapes.items()}


def both(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    """A weight, and a bias of its first length."""
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def linear(w: Weights, name: str, x: Array) -> Array:
    return x @ w[f"{name}.weight"].astype(np.float64).T + w.get(f"{name}.bias", 0.0)


def norm(w: Weights, name: str, x: Array, eps: float) -> Array:
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    return x * w[f"{name}.weight"] + w[f"{name}.bias"]


def rms(w: Weights, name: str, x: Array, eps: float) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * w[f"{name}.weight"]


def gelu(x: Array) -> Array:
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def gelu_new(x: Array) -> Array:
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attention(q: Array, k: Array, v: Array, heads: int, shared: int, mask: Any = None, turn: Any = None) -> Array:
    """(batch, positions, features) each; a mask is true where one may look."""
    q, k, v = (x.reshape(*x.shape[:2], n, -1).transpose(0, 2, 1, 3) for x, n in ((q, heads), (k, shared), (v, shared)))
    if turn is not None:
        q, k = turn(q), turn(k)
    k, v = (np.repeat(x, heads // shared, axis=1) for x in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    found = powers / powers.sum(-1, keepdims=True) @ v
    return found.transpose(0, 2, 1, 3).reshape(found.shape[0], found.shape[2], -1)


def causal(n: int) -> Array:
    return np.tril(np.ones((n, n), bool))


def conv(x: Array, weight: Array, stride: int, padding: int) -> Array:
    """(batch, channels, *spatial), by sums over the kernel."""
    weight = weight.astype(np.float64)
    axes = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * axes)
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=tuple(range(2, x.ndim)))
    windows = windows[(slice(None), slice(None), *[slice(None, None, stride)] * axes)]
    spatial, kernel = "xy"[:axes], "hw"[:axes]
    return np.einsum(f"bi{spatial}{kernel},oi{kernel}->bo{spatial}", windows, weight)


def gpt2_shapes(width: int = 8, words: int = 11, places: int = 16) -> dict[str, tuple[int, ...]]:
    block = {
        **both("ln_1", width), **both("ln_2", width),
        "attn.c_attn.weight": (width, 3 * width), "attn.c_attn.bias": (3 * width,),
        "attn.c_proj.weight": (width, width), "attn.c_proj.bias": (width,),
        "mlp.c_fc.weight": (width, 4 * width), "mlp.c_fc.bias": (4 * width,),
        "mlp.c_proj.weight": (4 * width, width), "mlp.c_proj.bias": (width,),
    }  # fmt: skip
    found = {"wte.weight": (words, width), "wpe.weight": (places, width), **layers("h.", block), **both("ln_f", width)}
    return {f"transformer.{name}": shape for name, shape in found.items()}


def gpt2(w: Weights, ids: Array, heads: int) -> Array:
    w = {name.removeprefix("transformer."): x.T if ".c_" in name else x for name, x in w.items()}
    x = w["wte.weight"][ids].astype(np.float64) + w["wpe.weight"][: ids.shape[1]]
    for i in range(2):
        q, k, v = np.split(linear(w, f"h.{i}.attn.c_attn", norm(w, f"h.{i}.ln_1", x, 1e-5)), 3, axis=-1)
        x = x + linear(w, f"h.{i}.attn.c_proj", attention(q, k, v, heads, heads, causal(ids.shape[1])))
        hidden = gelu_new(linear(w, f"h.{i}.mlp.c_fc", norm(w, f"h.{i}.ln_2", x, 1e-5)))
        x = x + linear(w, f"h.{i}.mlp.c_proj", hidden)
    return norm(w, "ln_f", x, 1e-5) @ w["wte.weight"].astype(np.float64).T


def llama_shapes(width: int = 8, shared: int = 4, words: int = 11) -> dict[str, tuple[int, ...]]:
    block = {
        "input_layernorm.weight": (width,), "post_attention_layernorm.weight": (width,),
        "self_attn.q_proj.weight": (width, width), "self_attn.k_proj.weight": (shared, width),
        "self_attn.v_proj.weight": (shared, width), "self_attn.o_proj.weight": (width, width),
        "mlp.gate_proj.weight": (12, width), "mlp.up_proj.weight": (12, width), "mlp.down_proj.weight": (width, 12),
    }  # fmt: skip
    found = {"embed_tokens.weight": (words, width), **layers("layers.", block), "norm.weight": (width,)}
    return {**{f"model.{name}": shape for name, shape in found.items()}, "lm_head.weight": (words, width)}


def llama(w: Weights, ids: Array, heads: int, shared: int, interleaved: bool) -> Array:
    head = w["lm_head.weight"].astype(np.float64)
    w = {name.removeprefix("model."): x for name, x in w.items()}

    def turn(x: Array) -> Array:
        features = x.shape[-1]
        pairs = x.reshape(*x.shape[:-1], features // 2, 2) if interleaved else np.stack(np.split(x, 2, -1), -1)
        angles = np.arange(x.shape[2])[:, None] * 10000.0 ** (-2 * np.arange(features // 2) / features)
        turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)
        parts = [turned.real, turned.imag]
        return np.stack(parts, -1).reshape(x.shape) if interleaved else np.concatenate(parts, -1)

    x = w["embed_tokens.weight"][ids].astype(np.float64)
    for i in range(2):
        name = f"layers.{i}."
        y = rms(w, f"{name}input_layernorm", x, 1e-6)
        q, k, v = (linear(w, f"{name}self_attn.{each}_proj", y) for each in "qkv")
        x = x + linear(w, f"{name}self_attn.o_proj", attention(q, k, v, heads, shared, causal(ids.shape[1]), turn))
        y = rms(w, f"{name}post_attention_layernorm", x, 1e-6)
        gate = linear(w, f"{name}mlp.gate_proj", y)
        x = x + linear(w, f"{name}mlp.down_proj", gate / (1 + np.exp(-gate)) * linear(w, f"{name}mlp.up_proj", y))
    return rms(w, "norm", x, 1e-6) @ head.T


def encoder_block(width: int) -> dict[str, tuple[int, ...]]:
    """What BERT and ViT have in common."""
    return {
        **both("attention.output.dense", width, width), **both("intermediate.dense", 12, width),
        **both("output.dense", width, 12),
    }  # fmt: skip


def bert_shapes(width: int = 8, words: int = 11) -> dict[str, tuple[int, ...]]:
    block = {
        **encoder_block(width), **both("attention.output.LayerNorm", width), **both("output.LayerNorm", width),
        **both("attention.self.query", width, width), **both("attention.self.key", width, width),
        **both("attention.self.value", width, width),
    }  # fmt: skip
    return {
        "embeddings.word_embeddings.weight": (words, width), "embeddings.position_embeddings.weight": (16, width),
        "embeddings.token_type_embeddings.weight": (2, width), **both("embeddings.LayerNorm", width),
        **layers("encoder.layer.", block), **both("pooler.dense", width, width),
    }  # fmt: skip


def bert(w: Weights, ids: Array, mask: Array, heads: int) -> Array:
    x = w["embeddings.word_embeddings.weight"][ids].astype(np.float64) + w["embeddings.token_type_embeddings.weight"][0]
    x = norm(w, "embeddings.LayerNorm", x + w["embeddings.position_embeddings.weight"][: ids.shape[1]], 1e-12)
    for i in range(2):
        name = f"encoder.layer.{i}."
        q, k, v = (linear(w, f"{name}attention.self.{each}", x) for each in ("query", "key", "value"))
        found = linear(w, f"{name}attention.output.dense", attention(q, k, v, heads, heads, mask[:, None, None]))
        x = norm(w, f"{name}attention.output.LayerNorm", x + found, 1e-12)
        found = linear(w, f"{name}output.dense", gelu(linear(w, f"{name}intermediate.dense", x)))
        x = norm(w, f"{name}output.LayerNorm", x + found, 1e-12)
    return x


def vit_shapes(width: int = 8) -> dict[str, tuple[int, ...]]:
    block = {
        **encoder_block(width), **both("layernorm_before", width), **both("layernorm_after", width),
        **both("attention.attention.query", width, width), **both("attention.attention.key", width, width),
        **both("attention.attention.value", width, width),
    }  # fmt: skip
    found = {
        "embeddings.cls_token": (1, 1, width), "embeddings.position_embeddings": (1, 5, width),
        **both("embeddings.patch_embeddings.projection", width, 3, 4, 4), **layers("encoder.layer.", block),
        **both("layernorm", width),
    }  # fmt: skip
    return {**{f"vit.{name}": shape for name, shape in found.items()}, **both("classifier", 3, width)}


def vit(w: Weights, images: Array, heads: int) -> Array:
    w = {name.removeprefix("vit."): x for name, x in w.items()}
    name = "embeddings.patch_embeddings.projection"
    x = conv(images.astype(np.float64), w[f"{name}.weight"], 4, 0) + w[f"{name}.bias"][:, None, None]
    x = x.reshape(*x.shape[:2], -1).transpose(0, 2, 1)
    x = np.concatenate([np.repeat(w["embeddings.cls_token"], len(x), 0), x], 1) + w["embeddings.position_embeddings"]
    for i in range(2):
        name = f"encoder.layer.{i}."
        y = norm(w, f"{name}layernorm_before", x, 1e-12)
        q, k, v = (linear(w, f"{name}attention.attention.{each}", y) for each in ("query", "key", "value"))
        x = x + linear(w, f"{name}attention.output.dense", attention(q, k, v, heads, heads))
        y = gelu(linear(w, f"{name}intermediate.dense", norm(w, f"{name}layernorm_after", x, 1e-12)))
        x = x + linear(w, f"{name}output.dense", y)
    return linear(w, "classifier", norm(w, "layernorm", x, 1e-12)[:, 0])


def whisper_shapes(width: int = 8) -> dict[str, tuple[int, ...]]:
    block = {
        **both("self_attn_layer_norm", width), **both("final_layer_norm", width),
        **both("self_attn.q_proj", width, width), "self_attn.k_proj.weight": (width, width),
        **both("self_attn.v_proj", width, width), **both("self_attn.out_proj", width, width),
        **both("fc1", 12, width), **both("fc2", width, 12),
    }  # fmt: skip
    found = {
        **both("conv1", width, 4, 3), **both("conv2", width, width, 3), "embed_positions.weight": (5, width),
        **layers("layers.", block), **both("layer_norm", width),
    }  # fmt: skip
    return {f"model.encoder.{name}": shape for name, shape in found.items()} | {"model.decoder.any.weight": (2, 2)}


def whisper(w: Weights, x: Array, heads: int) -> Array:
    w = {name.removeprefix("model.encoder."): x for name, x in w.items()}
    x = gelu(conv(x.astype(np.float64), w["conv1.weight"], 1, 1) + w["conv1.bias"][:, None])
    x = gelu(conv(x, w["conv2.weight"], 2, 1) + w["conv2.bias"][:, None])
    x = x.transpose(0, 2, 1) + w["embed_positions.weight"]
    for i in range(2):
        name = f"layers.{i}."
        y = norm(w, f"{name}self_attn_layer_norm", x, 1e-5)
        q, k, v = (linear(w, f"{name}self_attn.{each}_proj", y) for each in "qkv")
        x = x + linear(w, f"{name}self_attn.out_proj", attention(q, k, v, heads, heads))
        x = x + linear(w, f"{name}fc2", gelu(linear(w, f"{name}fc1", norm(w, f"{name}final_layer_norm", x, 1e-5))))
    return norm(w, "layer_norm", x, 1e-5)


def _convolution(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{name}.convolution.weight": shape, **both(f"{name}.normalization", shape[0]),
        f"{name}.normalization.running_mean": shape[:1], f"{name}.normalization.running_var": shape[:1],
        f"{name}.normalization.num_batches_tracked": (),
    }  # fmt: skip


def resnet_shapes() -> dict[str, tuple[int, ...]]:
    found = {
        **_convolution("embedder.embedder", 4, 3, 7, 7),
        **_convolution("encoder.stages.0.layers.0.layer.0", 4, 4, 3, 3),
        **_convolution("encoder.stages.0.layers.0.layer.1", 4, 4, 3, 3),
        **_convolution("encoder.stages.1.layers.0.layer.0", 6, 4, 3, 3),
        **_convolution("encoder.stages.1.layers.0.layer.1", 6, 6, 3, 3),
        **_convolution("encoder.stages.1.layers.0.shortcut", 6, 4, 1, 1),
    }  # fmt: skip
    return {**{f"resnet.{name}": shape for name, shape in found.items()}, **both("classifier.1", 3, 6)}


def resnet(w: Weights, images: Array) -> Array:
    def layer(name: str, x: Array, stride: int) -> Array:
        weight = w[f"resnet.{name}.convolution.weight"]
        x = conv(x, weight, stride, weight.shape[-1] // 2)
        kept = {each: w[f"resnet.{name}.normalization.{each}"][:, None, None].astype(np.float64) for each in (
            "running_mean", "running_var", "weight", "bias")}  # fmt: skip
        x = (x - kept["running_mean"]) / np.sqrt(kept["running_var"] + 1e-5)
        return x * kept["weight"] + kept["bias"]

    x = np.maximum(layer("embedder.embedder", images.astype(np.float64), 2), 0)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    x = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2].max((-1, -2))
    for stage, stride in ((0, 1), (1, 2)):
        name = f"encoder.stages.{stage}.layers.0."
        y = layer(f"{name}layer.1", np.maximum(layer(f"{name}layer.0", x, stride), 0), 1)
        x = np.maximum(y + (layer(f"{name}shortcut", x, 2) if stage else x), 0)
    return linear(w, "classifier.1", x.mean((2, 3)))
