"""Networks: modules that hold parameters, from layers to losses. `docs/networks.md` shows them at work."""

from __future__ import annotations

from micrograd_core.functions import FUNCTIONS
from micrograd_core.nn import initialization
from micrograd_core.nn.attention import MultiheadAttention, TransformerBlock
from micrograd_core.nn.calls import (
    ELU,
    GELU,
    AvgPool1d,
    AvgPool2d,
    BCEWithLogitsLoss,
    Call,
    CrossEntropyLoss,
    Hardtanh,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    MaxPool1d,
    MaxPool2d,
    Mish,
    MSELoss,
    NLLLoss,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from micrograd_core.nn.initialization import parameter
from micrograd_core.nn.layers import (
    BatchNorm1d,
    BatchNorm2d,
    Conv1d,
    Conv2d,
    ConvTranspose1d,
    ConvTranspose2d,
    Embedding,
    LayerNorm,
    Linear,
    RMSNorm,
)
from micrograd_core.nn.module import Flatten, Identity, Module, Sequential

mse_loss = FUNCTIONS["mse_loss"]
cross_entropy = FUNCTIONS["cross_entropy"]

__all__ = [
    "ELU", "GELU", "AvgPool1d", "AvgPool2d", "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "Call", "Conv1d",
    "Conv2d", "ConvTranspose1d", "ConvTranspose2d", "CrossEntropyLoss", "Embedding", "Flatten", "Hardtanh", "HuberLoss",
    "Identity", "KLDivLoss", "L1Loss", "LayerNorm", "LeakyReLU", "Linear", "LogSigmoid", "LogSoftmax", "MSELoss",
    "MaxPool1d", "MaxPool2d", "Mish", "Module", "MultiheadAttention", "NLLLoss", "RMSNorm", "ReLU", "Sequential",
    "SiLU", "Sigmoid", "Softmax", "Softplus", "Tanh", "TransformerBlock", "cross_entropy", "initialization", "mse_loss",
    "parameter",
]  # fmt: skip
