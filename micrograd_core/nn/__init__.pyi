# Made by docs/stubs.py from the source and the op table.
from micrograd_core.array.tensor import ArrayLike, Tensor
from micrograd_core.nn import functional as functional, initialization as initialization
from micrograd_core.nn.activations import ELU as ELU, GELU as GELU, Hardtanh as Hardtanh, LeakyReLU as LeakyReLU, LogSigmoid as LogSigmoid, LogSoftmax as LogSoftmax, Mish as Mish, ReLU as ReLU, SiLU as SiLU, Sigmoid as Sigmoid, Softmax as Softmax, Softplus as Softplus, Tanh as Tanh
from micrograd_core.nn.attention import MultiheadAttention as MultiheadAttention, TransformerBlock as TransformerBlock
from micrograd_core.nn.initialization import parameter as parameter
from micrograd_core.nn.layers import BatchNorm1d as BatchNorm1d, BatchNorm2d as BatchNorm2d, Conv1d as Conv1d, Conv2d as Conv2d, ConvTranspose1d as ConvTranspose1d, ConvTranspose2d as ConvTranspose2d, Dropout as Dropout, Embedding as Embedding, LayerNorm as LayerNorm, Linear as Linear, RMSNorm as RMSNorm
from micrograd_core.nn.losses import BCEWithLogitsLoss as BCEWithLogitsLoss, CrossEntropyLoss as CrossEntropyLoss, HuberLoss as HuberLoss, KLDivLoss as KLDivLoss, L1Loss as L1Loss, MSELoss as MSELoss, NLLLoss as NLLLoss
from micrograd_core.nn.mlp import Layer as Layer, MLP as MLP, Neuron as Neuron
from micrograd_core.nn.module import Call as Call, Flatten as Flatten, Identity as Identity, Module as Module, Sequential as Sequential
from micrograd_core.nn.pooling import AvgPool1d as AvgPool1d, AvgPool2d as AvgPool2d, MaxPool1d as MaxPool1d, MaxPool2d as MaxPool2d
from micrograd_core.nn.summaries import summary as summary

def cross_entropy(logits: ArrayLike, targets: ArrayLike, /, weight: ArrayLike | None = None, *, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: str = 'mean') -> Tensor:
    """Minus the log-probability that logits (classes along axis 1; axis 0 if 1-d) give to `targets`: integer class indices, or probabilities of the shape of the logits. `weight` has a number for each class; positions whose index is `ignore_index` do not count; `label_smoothing` mixes the targets with equal probabilities (Szegedy et al. 2016). Reduced by ``'mean'`` (for indices weighted; NaN, with gradient 0, if none counts), ``'sum'`` or ``'none'``. A target that names no class raises ``IndexError`` on devices that can tell at once, and gives NaN on others."""

def mse_loss(x: ArrayLike, y: ArrayLike, /, *, reduction: str = 'mean') -> Tensor:
    """Squared differences, reduced by ``'mean'``, ``'sum'`` or ``'none'``."""

__all__ = [
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
    "ELU",
    "Embedding",
    "Flatten",
    "GELU",
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
    "MLP",
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
]
