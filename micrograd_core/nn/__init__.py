"""Networks: modules that hold parameters, from layers to losses. `docs/networks.md` shows them at work."""

from __future__ import annotations

from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.nn import functional, initialization
from micrograd_core.nn.activations import (  # fmt: skip
    ELU,
    GELU,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from micrograd_core.nn.attention import MultiheadAttention, TransformerBlock
from micrograd_core.nn.initialization import parameter
from micrograd_core.nn.layers import (
    BatchNorm1d,
    BatchNorm2d,
    Conv1d,
    Conv2d,
    ConvTranspose1d,
    ConvTranspose2d,
    Dropout,
    Embedding,
    LayerNorm,
    Linear,
    RMSNorm,
)
from micrograd_core.nn.losses import BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, NLLLoss
from micrograd_core.nn.mlp import MLP, Layer, Neuron
from micrograd_core.nn.module import Call, Flatten, Identity, Module, Sequential
from micrograd_core.nn.pooling import AvgPool1d, AvgPool2d, MaxPool1d, MaxPool2d
from micrograd_core.nn.summaries import summary

mse_loss = FUNCTIONS["mse_loss"]
cross_entropy = FUNCTIONS["cross_entropy"]

__all__ = [
    "ELU",
    "GELU",
    "MLP",
    "AvgPool1d",
    "AvgPool2d",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Call",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "Hardtanh",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "Layer",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "Mish",
    "Module",
    "MultiheadAttention",
    "NLLLoss",
    "Neuron",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "TransformerBlock",
    "cross_entropy",
    "functional",
    "initialization",
    "mse_loss",
    "parameter",
    "summary",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
