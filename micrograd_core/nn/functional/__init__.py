"""The functions of ``torch.nn.functional``: its names, arguments, keywords and defaults, over the op table.

``from micrograd_core.nn import functional as F``. A name that is missing says what to use in its place; they are all in
docs/functional.md.
"""

from __future__ import annotations

from typing import Any

from micrograd_core.elsewhere import missing
from micrograd_core.nn.functional.activations import (  # fmt: skip
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    glu,
    gumbel_softmax,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
    threshold_,
)
from micrograd_core.nn.functional.arrangement import (  # fmt: skip
    channel_shuffle,
    fold,
    native_channel_shuffle,
    one_hot,
    pad,
    pixel_shuffle,
    pixel_unshuffle,
    unfold,
)
from micrograd_core.nn.functional.attention import (  # fmt: skip
    multi_head_attention_forward,
    scaled_dot_product_attention,
)
from micrograd_core.nn.functional.classes import (  # fmt: skip
    cross_entropy,
    ctc_loss,
    linear_cross_entropy,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
)
from micrograd_core.nn.functional.convolution import (  # fmt: skip
    bilinear,
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    linear,
)
from micrograd_core.nn.functional.distances import cosine_similarity, pairwise_distance, pdist  # fmt: skip
from micrograd_core.nn.functional.dropouts import (  # fmt: skip
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from micrograd_core.nn.functional.embeddings import embedding, embedding_bag  # fmt: skip
from micrograd_core.nn.functional.losses import (  # fmt: skip
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from micrograd_core.nn.functional.normalization import (  # fmt: skip
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    normalize,
    rms_norm,
)
from micrograd_core.nn.functional.pooling import POOLINGS
from micrograd_core.nn.functional.resampling import (  # fmt: skip
    affine_grid,
    grid_sample,
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)

max_pool1d = POOLINGS["max_pool1d"]
max_pool1d_with_indices = POOLINGS["max_pool1d_with_indices"]
max_unpool1d = POOLINGS["max_unpool1d"]
avg_pool1d = POOLINGS["avg_pool1d"]
lp_pool1d = POOLINGS["lp_pool1d"]
adaptive_avg_pool1d = POOLINGS["adaptive_avg_pool1d"]
adaptive_max_pool1d = POOLINGS["adaptive_max_pool1d"]
adaptive_max_pool1d_with_indices = POOLINGS["adaptive_max_pool1d_with_indices"]
max_pool2d = POOLINGS["max_pool2d"]
max_pool2d_with_indices = POOLINGS["max_pool2d_with_indices"]
max_unpool2d = POOLINGS["max_unpool2d"]
avg_pool2d = POOLINGS["avg_pool2d"]
lp_pool2d = POOLINGS["lp_pool2d"]
adaptive_avg_pool2d = POOLINGS["adaptive_avg_pool2d"]
adaptive_max_pool2d = POOLINGS["adaptive_max_pool2d"]
adaptive_max_pool2d_with_indices = POOLINGS["adaptive_max_pool2d_with_indices"]
fractional_max_pool2d = POOLINGS["fractional_max_pool2d"]
fractional_max_pool2d_with_indices = POOLINGS["fractional_max_pool2d_with_indices"]
max_pool3d = POOLINGS["max_pool3d"]
max_pool3d_with_indices = POOLINGS["max_pool3d_with_indices"]
max_unpool3d = POOLINGS["max_unpool3d"]
avg_pool3d = POOLINGS["avg_pool3d"]
lp_pool3d = POOLINGS["lp_pool3d"]
adaptive_avg_pool3d = POOLINGS["adaptive_avg_pool3d"]
adaptive_max_pool3d = POOLINGS["adaptive_max_pool3d"]
adaptive_max_pool3d_with_indices = POOLINGS["adaptive_max_pool3d_with_indices"]
fractional_max_pool3d = POOLINGS["fractional_max_pool3d"]
fractional_max_pool3d_with_indices = POOLINGS["fractional_max_pool3d_with_indices"]


def __getattr__(name: str) -> Any:
    raise missing(__name__, name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "native_channel_shuffle",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]
