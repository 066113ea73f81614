"""`micrograd_core.nn.functional` held against ``torch.nn.functional``: names, signatures, values, both gradients.

One table says how each function is called; the very same call goes to both. CI takes some calls of each function,
``MICROGRAD_EXHAUSTIVE=1`` all.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

from micrograd_core.nn import functional as F  # noqa: N812
from micrograd_core.suggestions import table
from tests.against_torch import A, Call, N, compare, sampled, torch

TF = torch.nn.functional


def softmaxed(x: Any) -> Any:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def log_softmaxed(x: Any) -> Any:
    return np.log(softmaxed(x))


X, IMAGE = A(3, 4), A(2, 4, 5, 6)
P = A(3, 4, low=0.05, high=0.95)
SIGNS = A(3, 4, grad=False, kind=np.sign)
REDUCTIONS = ({}, {"reduction": "sum"}, {"reduction": "none"})


def each(*args: Any, ways: Any = REDUCTIONS, **kwargs: Any) -> list[Call]:
    """A call in each way."""
    return [Call(*args, **kwargs, **way) for way in ways]


def poolings(rank: int) -> dict[str, list[Call]]:
    """Calls of the poolings over some axes."""
    size = (5, 6, 4)[-rank:]
    x, unbatched = A(2, 3, *size), A(3, *size)
    k2, k3 = 2, (3, 2, 3)[-rank:]
    found = {
        f"max_pool{rank}d": [
            Call(x, k2), Call(x, k3, 2, 1), Call(x, 2, stride=1, dilation=2), Call(unbatched, 3, 2, ceil_mode=True),
            Call(x, 3, 2, 1, ceil_mode=True), Call(x, 3, 2, 1, 1, True, return_indices=True),
        ],
        f"max_pool{rank}d_with_indices": [Call(x, 3, 2, 1), Call(unbatched, k2, 1, 0, 2, True)],
        f"avg_pool{rank}d": [
            Call(x, k2), Call(x, 3, 2, 1), Call(unbatched, 3, 2, 1, True), Call(x, 3, 2, 1, True, False),
            Call(x, 3, 2, 1, False, False), Call(x, 3, 2, ceil_mode=True),
            *([Call(x, 2, divisor_override=3), Call(x, 3, 2, 1, True, divisor_override=5)] if rank > 1 else ()),
        ],
        f"lp_pool{rank}d": [
            Call(A(2, 3, *size, low=0.5), 2, 2), Call(A(2, 3, *size, low=0.5), 3.0, 3, 2, True),
            Call(A(2, 3, *size, low=0.5), 1.5, 2, 1),
        ],
        f"adaptive_avg_pool{rank}d": [Call(x, 3), Call(unbatched, (2, 4, 1)[:rank]), Call(x, 1)],
        f"adaptive_max_pool{rank}d": [Call(x, 3), Call(x, 2, return_indices=True), Call(unbatched, 2)],
        f"adaptive_max_pool{rank}d_with_indices": [Call(x, 3)],
        f"max_unpool{rank}d": [
            Call(A(1, 2, *(2,) * rank), N(given=places(rank)), 2),
            Call(A(2, *(2,) * rank), N(given=places(rank)[0]), 2, 2, 0, (5,) * rank),
        ],
    }  # fmt: skip
    if rank > 1:
        samples = A(2, 3, rank, low=0.0, high=1.0, grad=False)
        x = A(2, 3, *(7, 8, 6)[-rank:])
        found[f"fractional_max_pool{rank}d"] = [
            Call(x, 2, 3, _random_samples=samples),
            Call(x, 2, output_ratio=(0.6,) * rank, return_indices=True, _random_samples=samples),
        ]
        found[f"fractional_max_pool{rank}d_with_indices"] = [Call(x, (2,) * rank, 2, _random_samples=samples)]
        if rank == 2:
            found[f"adaptive_avg_pool{rank}d"] += [Call(x, (None, 2))]
    return found


def places(rank: int) -> Any:
    """Distinct places of maxima, as a pooling of (1, 2, 4, …) by 2 gives them."""
    grid = np.arange(4**rank).reshape((4,) * rank)
    return np.broadcast_to(grid[(slice(1, None, 2),) * rank], (1, 2, *(2,) * rank)).copy()


def convolutions(rank: int) -> dict[str, list[Call]]:
    """Calls of the convolutions over some axes."""
    size = (4, 5, 4)[-rank:]
    kernel = (2, 3, 2)[-rank:]
    x, w, b = A(2, 4, *size), A(6, 4, *kernel), A(6)
    transposed = A(4, 3, *kernel)
    return {
        f"conv{rank}d": [
            Call(x, w), Call(x, w, b, 2, 1), Call(x, A(6, 2, *kernel), b, 1, (1,) * rank, 2, 2),
            Call(A(4, *size), w, b),
            Call(x, w, b, padding="same"), Call(x, w, padding="valid"), Call(x, w, padding="same", dilation=2),
        ],
        f"conv_transpose{rank}d": [
            Call(x, transposed), Call(x, transposed, A(3), 2, 1, 1), Call(x, transposed, A(6), 2, 1, 0, 2, 2),
            Call(A(4, *size), transposed, A(3)),
        ],
    }  # fmt: skip


def activations() -> dict[str, list[Call]]:
    """Calls of what works element by element, or along an axis."""
    alone = ("relu relu6 selu gelu silu mish sigmoid tanh logsigmoid softsign tanhshrink").split()
    found = {name: [Call(A(3, 4, low=-7.0, high=7.0)), Call(A())] for name in alone}
    for name in ("hardsigmoid", "hardswish"):
        found[name] = [Call(A(3, 4, low=-7.0, high=7.0), order=1), Call(A(), order=1)]
    found["gelu"] += [Call(X, approximate="tanh")]
    for name in ("elu", "celu", "leaky_relu"):
        found[name] = [Call(X), Call(X, 0.3)]
    found |= {
        "hardtanh": [Call(X), Call(X, -0.5, 1.5)],
        "softplus": [Call(A(3, 4, low=-9.0, high=9.0)), Call(A(3, 4, low=-9.0, high=9.0), 2, 5)],
        "softshrink": [Call(X), Call(X, 1.0)],
        "hardshrink": [Call(X), Call(X, 1.0)],
        "threshold": [Call(X, 0.1, 20.0), Call(X, threshold=-1, value=-1)],
        "glu": [Call(X), Call(A(2, 6, 3), 1)],
        "prelu": [Call(A(2, 3, 4), A(3)), Call(X, A(1)), Call(A(4), A(1))],
        "rrelu": [Call(X), Call(X, 0.1, 0.2)],
        "softmax": [Call(X, -1), Call(X, dim=0), Call(A(2, 3, 4), 1, dtype="float32"), Call(A(), -1)],
        "softmin": [Call(X, 1), Call(A(2, 3, 4), dim=0)],
        "log_softmax": [Call(X, -1), Call(X, dim=0), Call(A(), 0)],
    }
    for name in ("relu", "elu", "celu", "selu", "leaky_relu", "hardtanh", "threshold"):
        found[f"{name}_"] = [Call(X, *([0.2, 0.7] if name == "threshold" else ()))]
        found[name] += [Call(X, *([0.2, 0.7] if name == "threshold" else ()), inplace=True)]
    for name in ("relu6", "silu", "mish", "hardsigmoid", "hardswish"):
        found[name] += [Call(X, inplace=True, order=found[name][0].order)]
    found["rrelu_"] = [Call(X, 0.1, 0.2, False)]
    return found


def interpolations() -> list[Call]:
    """Modes, sizes, scales, corners."""
    line, volume = A(2, 3, 5), A(1, 2, 3, 4, 3)
    found = []
    for mode in ("nearest", "nearest-exact", "area"):
        found += [Call(x, size, None, mode) for x, size in ((line, 8), (IMAGE, (3, 9)), (volume, 5))]
        found += [Call(IMAGE, None, 1.7, mode), Call(line, None, 0.6, mode, recompute_scale_factor=True)]
    for mode, x in (("linear", line), ("bilinear", IMAGE), ("bicubic", IMAGE), ("trilinear", volume)):
        for align in (None, True, False):
            found += [Call(x, 7, None, mode, align), Call(x, None, 0.7, mode, align)]
        found += [
            Call(x, scale_factor=2.3, mode=mode),
            Call(x, scale_factor=2.3, mode=mode, recompute_scale_factor=True),
        ]
        found += [Call(x, 1, mode=mode, align_corners=True)]
    for mode in ("bilinear", "bicubic"):
        found += [
            Call(IMAGE, (3, 9), mode=mode, antialias=True),
            Call(IMAGE, scale_factor=0.4, mode=mode, antialias=True),
        ]
    return found


def grids() -> list[Call]:
    """Modes, paddings, corners."""
    grid = A(2, 3, 3, 2, low=-1.4, high=1.4)
    volume = Call(A(2, 2, 3, 4, 3), A(2, 2, 3, 2, 3, low=-1.3, high=1.3), align_corners=True, order=1)
    found = [volume, Call(A(1, 1, 2, 3, 4), A(1, 1, 2, 2, 3, low=-1.3, high=1.3), "nearest", "reflection", order=1)]
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            found += [Call(IMAGE, grid, mode, padding, align, order=1) for align in (None, True)]
    return found


def attention() -> list[Call]:
    """Masks, causes, scales, shared heads."""
    q, k, v = A(2, 4, 3, 5), A(2, 4, 6, 5), A(2, 4, 6, 2)
    mask = N(given=np.array([[1, 0, 1, 1, 0, 1], [1, 1, 1, 0, 0, 1], [0, 1, 0, 0, 1, 0]], bool))
    return [
        Call(q, k, v), Call(q, k, v, mask), Call(q, k, v, A(3, 6)), Call(q, k, v, is_causal=True),
        Call(q, k, v, scale=0.3), Call(q, A(2, 2, 6, 5), A(2, 2, 6, 2), enable_gqa=True),
        Call(A(3, 5), A(6, 5), A(6, 2)),
    ]  # fmt: skip


def heads() -> list[Call]:
    """Of six features in two heads."""
    q = A(4, 2, 6)
    weights = (A(18, 6), A(18), None, None, False, 0.0, A(6, 6), A(6))
    padding = N(given=np.array([[False, False, True, False], [False, False, False, False]]))
    causal = N(given=np.triu(np.ones((4, 4), bool), 1))
    separate = {"q_proj_weight": A(6, 6), "k_proj_weight": A(6, 3), "v_proj_weight": A(6, 5)}
    return [
        Call(q, q, q, 6, 2, *weights),
        Call(q, A(5, 2, 6), A(5, 2, 6), 6, 2, *weights, need_weights=False),
        Call(q, q, q, 6, 2, *weights, key_padding_mask=padding, attn_mask=causal, average_attn_weights=False),
        Call(q, q, q, 6, 2, *weights, attn_mask=A(4, 4), need_weights=False),
        Call(q, q, q, 6, 2, A(18, 6), None, A(1, 1, 6), A(1, 1, 6), True, 0.0, A(6, 6), None, attn_mask=A(4, 4, 4)),
        Call(A(4, 6), A(3, 6), A(3, 6), 6, 2, *weights),
        Call(q, A(5, 2, 3), A(5, 2, 5), 6, 2, None, *weights[1:], use_separate_proj_weight=True, **separate),
    ]


SOFT = A(3, 4, low=0.05, high=0.95)
TARGETS, PROBABILITIES = N(3, high=4), A(3, 4, grad=False, kind=softmaxed)
ROWS = A(6, 4)

CALLS: dict[str, list[Call]] = {
    **activations(), **poolings(1), **poolings(2), **poolings(3), **convolutions(1), **convolutions(2),
    **convolutions(3),
    "linear": [Call(X, A(2, 4)), Call(A(2, 3, 4), A(2, 4), A(2)), Call(A(4), A(2, 4), A(2)), Call(X, A(4))],
    "bilinear": [Call(A(2, 3), A(2, 4), A(5, 3, 4)), Call(A(2, 2, 3), A(2, 2, 4), A(5, 3, 4), A(5))],
    "conv_tbc": [Call(A(5, 2, 3), A(3, 3, 4), A(4)), Call(A(5, 2, 3), A(3, 3, 4), A(4), 1)],
    "unfold": [Call(A(2, 3, 5, 6), 2), Call(A(3, 5, 6), (2, 3), 1, 1, 2), Call(A(2, 3, 5, 6), 2, 2)],
    "fold": [Call(A(2, 12, 20), (5, 6), 2), Call(A(18, 9), (6, 6), 3, 1, 1, 2), Call(A(2, 12, 16), 6, 2, 2)],
    "pad": [
        Call(X, (1, 2)), Call(X, (1, 0, 2, 1), "constant", 3.0), Call(IMAGE, (2, 1, 0, 3), "reflect"),
        Call(IMAGE, (2, 1, 0, 3), "replicate"), Call(IMAGE, (2, 1, 0, 3), "circular"), Call(X, (-1, 1, 1, -2)),
        Call(A(2, 3, 5), [-1, 2], mode="circular"), Call(A(3, 5), [2, 3], mode="reflect"), Call(X, ()),
    ],
    "pixel_shuffle": [Call(A(2, 8, 2, 3), 2), Call(A(9, 2, 3), 3)],
    "pixel_unshuffle": [Call(A(2, 3, 4, 6), 2), Call(A(3, 4, 6), 2)],
    "channel_shuffle": [Call(IMAGE, 2)],
    "native_channel_shuffle": [Call(A(2, 4, 5, 6, grad=False), 2)],
    "one_hot": [Call(N(2, 3, high=4)), Call(N(5), 4), Call(N(2, 2), num_classes=3)],
    "interpolate": interpolations(),
    "upsample": [Call(IMAGE, (3, 8)), Call(IMAGE, None, 2, "bilinear", True)],
    "upsample_nearest": [Call(IMAGE, (3, 8)), Call(IMAGE, scale_factor=2)],
    "upsample_bilinear": [Call(IMAGE, (3, 8)), Call(IMAGE, scale_factor=2)],
    "grid_sample": grids(),
    "affine_grid": [
        Call(A(2, 2, 3), (2, 3, 4, 5)), Call(A(2, 2, 3), [2, 3, 4, 5], True), Call(A(1, 3, 4), (1, 2, 3, 1, 2), False),
    ],
    "batch_norm": [
        Call(IMAGE, A(4, grad=False), A(4, low=0.5, grad=False)), Call(X, None, None, training=True),
        Call(IMAGE, A(4, grad=False), A(4, low=0.5, grad=False), A(4), A(4), True, 0.3, 1e-3),
    ],
    "instance_norm": [
        Call(IMAGE), Call(IMAGE, A(4, grad=False), A(4, low=0.5, grad=False), A(4), A(4), True, 0.3, 1e-3),
        Call(IMAGE, A(4, grad=False), A(4, low=0.5, grad=False), use_input_stats=False),
    ],
    "group_norm": [Call(IMAGE, 2), Call(IMAGE, 4, A(4), A(4), 1e-3), Call(A(3, 4), 2)],
    "layer_norm": [Call(X, (4,)), Call(A(2, 3, 4), (3, 4), A(3, 4), A(3, 4), 1e-3), Call(X, [4], bias=A(4), order=1)],
    "rms_norm": [Call(X, (4,)), Call(A(2, 3, 4), [3, 4], A(3, 4), 1e-3)],
    "local_response_norm": [Call(IMAGE, 3), Call(A(2, 6, 4), 2, 0.1, 0.5, 2.0)],
    "normalize": [Call(X), Call(A(2, 3, 4), 3.0, -1), Call(X, 1, 0), Call(X, p=float("inf"))],
    "cosine_similarity": [Call(X, A(3, 4)), Call(A(2, 3, 4), A(3, 4), -1), Call(A(4), A(4), dim=0)],
    "pairwise_distance": [Call(X, A(3, 4)), Call(X, A(3, 4), 1.0, 1e-3, True), Call(A(4), A(3, 4), p=3)],
    "pdist": [Call(ROWS, order=1), Call(ROWS, 1, order=1), Call(ROWS, p=3.5, order=1)],
    "embedding": [
        Call(N(2, 3, high=6), ROWS), Call(N(given=[0, 2, 2, 5]), ROWS, 2), Call(N(given=[0, 2, 2]), ROWS, -4),
        Call(N(given=[[0, 2, 2], [1, 2, 0]]), ROWS, None, None, 2.0, True),
        Call(N(given=[0, 2]), A(6, 4, grad=False), max_norm=1.0),
        Call(N(given=[0, 2]), A(6, 4, grad=False), None, 1.5, 1.0),
    ],
    "embedding_bag": [
        Call(N(3, 4, high=6), ROWS, order=1),
        *(Call(N(9, high=6), ROWS, N(given=[0, 3, 3, 7]), mode=mode, order=1) for mode in ("sum", "mean", "max")),
        Call(N(9, high=6), ROWS, N(given=[0, 3, 3, 7, 9]), mode="sum", include_last_offset=True, order=1),
        Call(N(9, high=6), ROWS, N(given=[0, 4]), mode="sum", per_sample_weights=A(9), order=1),
        *(Call(N(3, 4, high=6), ROWS, mode=mode, padding_idx=2, order=1) for mode in ("sum", "mean", "max")),
        Call(N(3, 4, high=6), A(6, 4, grad=False), None, 1.0, 2.0),
    ],
    "scaled_dot_product_attention": attention(),
    "multi_head_attention_forward": heads(),
    "mse_loss": [*each(X, A(3, 4)), Call(X, A(3, 4), weight=P)],
    "l1_loss": [*each(X, A(3, 4)), Call(X, A(3, 4), weight=P)],
    "huber_loss": [*each(X, A(3, 4)), Call(X, A(3, 4), delta=0.3, weight=P)],
    "smooth_l1_loss": [*each(X, A(3, 4)), Call(X, A(3, 4), beta=0.3), Call(X, A(3, 4), beta=0.0)],
    "kl_div": [
        *each(A(3, 4, kind=log_softmaxed), A(3, 4, kind=softmaxed, grad=False)),
        Call(A(3, 4, kind=log_softmaxed), A(3, 4, kind=softmaxed), reduction="batchmean"),
        Call(A(3, 4, kind=log_softmaxed), A(3, 4, kind=log_softmaxed), log_target=True, reduction="none"),
    ],
    "binary_cross_entropy": [*each(P, A(3, 4, low=0.05, high=0.95)), Call(P, SOFT, A(4, low=0.1, grad=False))],
    "binary_cross_entropy_with_logits": [*each(X, P),
        Call(X, P, A(4, low=0.1, grad=False), pos_weight=A(4, low=0.1, grad=False))],
    "poisson_nll_loss": [
        *each(X, A(3, 4, low=0.0, high=4.0, grad=False)),
        Call(A(3, 4, low=0.2), A(3, 4, low=0.0, high=4.0, grad=False), False, True),
    ],
    "gaussian_nll_loss": [
        *each(X, A(3, 4), P), Call(X, A(3, 4), A(3, low=0.1), True), Call(X, A(3, 4), 0.5),
        Call(X, A(3, 4), A(3, 1, low=0.0), eps=0.8),
    ],
    "soft_margin_loss": each(X, SIGNS),
    "hinge_embedding_loss": [*each(X, SIGNS), Call(X, SIGNS, 0.3)],
    "margin_ranking_loss": [*each(X, A(3, 4), SIGNS), Call(X, A(3, 4), SIGNS, 0.3)],
    "cosine_embedding_loss": [
        *each(X, A(3, 4), A(3, grad=False, kind=np.sign)), Call(A(4), A(4), N(given=-1), 0.1),
    ],
    "triplet_margin_loss": [
        *each(X, A(3, 4), A(3, 4)), Call(X, A(3, 4), A(3, 4), 0.5, 3, swap=True),
    ],
    "triplet_margin_with_distance_loss": [
        *each(X, A(3, 4), A(3, 4)), Call(X, A(3, 4), A(3, 4), margin=2.0, swap=True),
    ],
    "cross_entropy": [
        *each(X, TARGETS), Call(X, TARGETS, A(4, low=0.1, grad=False), label_smoothing=0.2), Call(X, PROBABILITIES),
        Call(A(2, 4, 3), N(2, 3, high=4), ignore_index=2), Call(A(4), N(given=2)),
    ],
    "nll_loss": [*each(A(3, 4, kind=log_softmaxed), TARGETS), Call(A(2, 4, 3), N(2, 3, high=4), ignore_index=2)],
    "linear_cross_entropy": [
        Call(X, A(5, 4), N(3, high=5)), Call(X, A(5, 4), N(3, high=5), linear_bias=A(5), label_smoothing=0.1),
    ],
    "multi_margin_loss": [
        *each(X, TARGETS, order=1), Call(X, TARGETS, 2, 0.5, A(4, low=0.1, grad=False), order=1),
        Call(A(4), N(given=1), order=1),
    ],
    "multilabel_margin_loss": [
        *each(X, N(given=[[3, 0, -1, 1], [-1, 2, 2, 2], [0, 1, 2, 3]]), order=1),
        Call(A(4), N(given=[1, 3, -1, 0]), order=1),
    ],
    "multilabel_soft_margin_loss": [
        *each(X, N(given=[[1.0, 0.0, 1.0, 1.0]] * 3)),
        Call(X, N(given=[[1.0, 0.0, 1.0, 0.0]] * 3), A(4, low=0.1, grad=False)),
    ],
    "ctc_loss": [
        *each(A(7, 3, 5), N(3, 3, low=1, high=5), N(given=[7, 6, 7]), N(given=[3, 2, 1]),
              order=1),
        Call(A(7, 2, 5), N(given=[2, 2, 1, 3]), (7, 7), (3, 1), 4, order=1),
        Call(A(7, 5), N(given=[2, 2]), N(given=7), N(given=2), order=1),
        Call(A(3, 2, 5), N(given=[[2, 2, 2], [1, 2, 3]]), (3, 3), (3, 3), zero_infinity=True, order=1),
    ],
}  # fmt: skip

RANDOM = {
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "gumbel_softmax",
}  # fmt: skip
"""What draws, and is held against what can be said of it below."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "call"), sampled(CALLS))
def test_a_function_is_torch_s_in_value_and_both_gradients(name: str, call: Call) -> None:
    compare(call, getattr(F, name), getattr(TF, name))


# ── names and signatures ─────────────────────────────────────────────────────────────────────────────────────


def test_every_name_of_torch_works_or_says_what_to_use() -> None:
    names = {name for name in dir(TF) if not name.startswith("_")}
    assert set(F.__all__) | table(F.__name__).keys() == names
    assert not set(F.__all__) & table(F.__name__).keys()
    assert CALLS.keys() | RANDOM == set(F.__all__)
    assert not CALLS.keys() & RANDOM
    for name in table(F.__name__):
        with pytest.raises(AttributeError, match=f"functional' has no attribute '{name}': .{{9}}"):
            getattr(F, name)
    with pytest.raises(AttributeError, match="has no attribute 'rellu'"):
        _ = F.rellu


def signature_of(name: str) -> list[tuple[str, Any]]:
    """Names and defaults of torch's parameters; of functions without a signature from the line that documents them."""
    function = getattr(TF, name)
    if name in OVERLOADED:
        function = getattr(TF, f"{name}_with_indices")
    try:
        found = inspect.signature(function)
        return [(each.name, each.default) for each in found.parameters.values()]
    except ValueError:
        text = " ".join((function.__doc__ or "").split())
        listed = re.search(rf"{name}\((.*?)\) ->", text)
        if listed is None:
            return DOCUMENTED[name]
        parts = [each.strip() for each in listed[1].split(",") if "=" in each or each.strip().isidentifier()]
        pairs = [part.partition("=") for part in parts]
        return [(a.strip(), eval(b, {}) if b else inspect.Parameter.empty) for a, _, b in pairs]


DOCUMENTED = {"conv_tbc": [(each, inspect.Parameter.empty) for each in ("input", "weight", "bias")] + [("pad", 0)]}
OVERLOADED = {f"{kind}_max_pool{n}d" for kind in ("adaptive", "fractional") for n in (1, 2, 3)} | {
    f"max_pool{n}d" for n in (1, 2, 3)
}


@pytest.mark.parametrize("name", F.__all__)
def test_the_arguments_are_torch_s_in_their_order_with_their_defaults(name: str) -> None:
    ours = [(each.name, each.default) for each in inspect.signature(getattr(F, name)).parameters.values()]
    theirs = [each for each in signature_of(name) if each[0] not in ("size_average", "reduce")]
    assert ours == theirs
    assert (getattr(F, name).__doc__ or inspect.getmodule(getattr(F, name)).__doc__ or "").strip()  # type: ignore[union-attr]
