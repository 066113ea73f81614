"""What operations of `micrograd_core.ops.network.attention` are, in NumPy."""

from __future__ import annotations

from typing import Any

from tests.ops.definitions.softmax import attention_weights_reference


def _attention_reference(
    np: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool = False, scale: float | None = None
) -> Any:
    scores = query @ np.swapaxes(key, -1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    return attention_weights_reference(np, scores, mask, is_causal) @ value


def _attention_gradients(
    np: Any, g: Any, out: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    weights = attention_weights_reference(np, scale * query @ np.swapaxes(key, -1, -2), mask, is_causal)
    slopes = weights * (g @ np.swapaxes(value, -1, -2) - np.sum(g * out, axis=-1, keepdims=True)) * scale
    return slopes @ key, np.swapaxes(slopes, -1, -2) @ query, np.swapaxes(weights, -1, -2) @ g


def _embedding_gradient(np: Any, g: Any, indices: Any, num_embeddings: int) -> Any:
    out = np.zeros((num_embeddings, g.shape[-1]))
    np.add.at(out, indices, g)
    return out


DEFINITIONS = {
    "attention_gradients": _attention_gradients,
    "embedding_gradient": _embedding_gradient,
    "scaled_dot_product_attention": _attention_reference,
}
