# Made by docs/stubs.py from the source and the op table.
from micrograd_core.array.tensor import Tensor
from micrograd_core.nn.functional.activations import celu as celu, celu_ as celu_, elu as elu, elu_ as elu_, gelu as gelu, hardshrink as hardshrink, hardsigmoid as hardsigmoid, hardswish as hardswish, hardtanh as hardtanh, hardtanh_ as hardtanh_, leaky_relu as leaky_relu, leaky_relu_ as leaky_relu_, logsigmoid as logsigmoid, mish as mish, prelu as prelu, relu as relu, relu6 as relu6, relu_ as relu_, rrelu as rrelu, rrelu_ as rrelu_, selu as selu, selu_ as selu_, sigmoid as sigmoid, silu as silu, softplus as softplus, softshrink as softshrink, softsign as softsign, tanh as tanh, tanhshrink as tanhshrink, threshold as threshold, threshold_ as threshold_
from micrograd_core.nn.functional.arrangement import channel_shuffle as channel_shuffle, fold as fold, native_channel_shuffle as native_channel_shuffle, one_hot as one_hot, pad as pad, pixel_shuffle as pixel_shuffle, pixel_unshuffle as pixel_unshuffle, unfold as unfold
from micrograd_core.nn.functional.attention import multi_head_attention_forward as multi_head_attention_forward, scaled_dot_product_attention as scaled_dot_product_attention
from micrograd_core.nn.functional.classes import cross_entropy as cross_entropy, ctc_loss as ctc_loss, linear_cross_entropy as linear_cross_entropy, multi_margin_loss as multi_margin_loss, multilabel_margin_loss as multilabel_margin_loss, multilabel_soft_margin_loss as multilabel_soft_margin_loss, nll_loss as nll_loss
from micrograd_core.nn.functional.convolution import bilinear as bilinear, conv1d as conv1d, conv2d as conv2d, conv3d as conv3d, conv_tbc as conv_tbc, conv_transpose1d as conv_transpose1d, conv_transpose2d as conv_transpose2d, conv_transpose3d as conv_transpose3d, linear as linear
from micrograd_core.nn.functional.distances import pdist as pdist
from micrograd_core.nn.functional.dropouts import alpha_dropout as alpha_dropout, dropout as dropout, dropout1d as dropout1d, dropout2d as dropout2d, dropout3d as dropout3d, feature_alpha_dropout as feature_alpha_dropout
from micrograd_core.nn.functional.embeddings import embedding as embedding, embedding_bag as embedding_bag
from micrograd_core.nn.functional.losses import binary_cross_entropy as binary_cross_entropy, binary_cross_entropy_with_logits as binary_cross_entropy_with_logits, cosine_embedding_loss as cosine_embedding_loss, gaussian_nll_loss as gaussian_nll_loss, hinge_embedding_loss as hinge_embedding_loss, huber_loss as huber_loss, kl_div as kl_div, l1_loss as l1_loss, margin_ranking_loss as margin_ranking_loss, mse_loss as mse_loss, poisson_nll_loss as poisson_nll_loss, smooth_l1_loss as smooth_l1_loss, soft_margin_loss as soft_margin_loss, triplet_margin_loss as triplet_margin_loss, triplet_margin_with_distance_loss as triplet_margin_with_distance_loss
from micrograd_core.nn.functional.normalization import batch_norm as batch_norm, group_norm as group_norm, instance_norm as instance_norm, layer_norm as layer_norm, local_response_norm as local_response_norm, rms_norm as rms_norm
from micrograd_core.nn.functional.resampling import affine_grid as affine_grid, grid_sample as grid_sample, interpolate as interpolate, upsample as upsample, upsample_bilinear as upsample_bilinear, upsample_nearest as upsample_nearest
from typing import Any

def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor: ...

def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor: ...

def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor: ...

def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any: ...

def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple[Tensor, Tensor]: ...

def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any: ...

def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple[Tensor, Tensor]: ...

def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any: ...

def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple[Tensor, Tensor]: ...

def avg_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> Tensor: ...

def avg_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Tensor: ...

def avg_pool3d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Tensor: ...

def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-08, *, axis: int = ...) -> Tensor: ...

def fractional_max_pool2d(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False, _random_samples: Tensor | None = None) -> Any: ...

def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False, _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]: ...

def fractional_max_pool3d(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False, _random_samples: Tensor | None = None) -> Any: ...

def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False, _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]: ...

def glu(input: Tensor, dim: int = -1, *, axis: int = ...) -> Tensor: ...

def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1, *, axis: int = ...) -> Tensor: ...

def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None, *, axis: int | None = ...) -> Tensor: ...

def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor: ...

def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor: ...

def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor: ...

def max_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any: ...

def max_pool1d_with_indices(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, return_indices: bool = False) -> tuple[Tensor, Tensor]: ...

def max_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any: ...

def max_pool2d_with_indices(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, return_indices: bool = False) -> tuple[Tensor, Tensor]: ...

def max_pool3d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any: ...

def max_pool3d_with_indices(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, return_indices: bool = False) -> tuple[Tensor, Tensor]: ...

def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor: ...

def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor: ...

def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Tensor: ...

def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None, *, axis: int = ...) -> Tensor: ...

def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False, *, keepdims: bool = ...) -> Tensor: ...

def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None, *, axis: int | None = ...) -> Tensor: ...

def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None, *, axis: int | None = ...) -> Tensor: ...

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
