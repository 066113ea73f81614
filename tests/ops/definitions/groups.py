"""What operations of `micrograd_core.ops.network.groups` are, in NumPy."""

from __future__ import annotations

from typing import Any


def _group_reference(np: Any, x: Any, weight: Any, bias: Any, num_groups: int | None = None, eps: float = 1e-5) -> Any:
    groups = x.reshape(x.shape[0], num_groups or x.shape[1], -1)
    mean, var = groups.mean(-1, keepdims=True), groups.var(-1, keepdims=True)
    along = (-1, *(1,) * (x.ndim - 2))
    return ((groups - mean) / np.sqrt(var + eps)).reshape(x.shape) * np.reshape(weight, along) + np.reshape(bias, along)


def _response_reference(np: Any, x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    near = [slice(max(c - size // 2, 0), c + (size - 1) // 2 + 1) for c in range(x.shape[1])]
    total = np.stack([(x[:, each] ** 2).sum(1) for each in near], axis=1)
    return x / (k + alpha * total / size) ** beta


def _norm(np: Any, x: Any, p: float, axis: int, keepdims: bool = False) -> Any:
    return np.linalg.vector_norm(x, axis=axis, ord=p, keepdims=keepdims)


def _similarity_reference(np: Any, x: Any, y: Any, axis: int = 1, eps: float = 1e-8) -> Any:
    parts = [each / np.maximum(_norm(np, each, 2, axis, True), eps) for each in np.broadcast_arrays(x, y)]
    return (parts[0] * parts[1]).sum(axis)


DEFINITIONS = {
    "group_norm": _group_reference,
    "instance_norm": _group_reference,
    "local_response_norm": _response_reference,
    "normalize": lambda np, x, axis=1, p=2.0, eps=1e-12: x / np.maximum(_norm(np, x, p, axis, True), eps),
    "cosine_similarity": _similarity_reference,
    "pairwise_distance": lambda np, x, y, p=2.0, eps=1e-6, keepdims=False: _norm(np, x - y + eps, p, -1, keepdims),
    "pdist": lambda np, x, p=2.0: np.array(
        [_norm(np, x[i] - x[j], p, 0) for i in range(len(x)) for j in range(i + 1, len(x))]
    ),
    "cdist": lambda np, x, y, p=2.0: _norm(np, x[..., :, None, :] - y[..., None, :, :], p, -1),
    "bilinear": lambda np, x, y, weight, bias: np.einsum("...i,oij,...j->...o", x, weight, y) + bias,
}
