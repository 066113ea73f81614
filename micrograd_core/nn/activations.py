"""Activations as modules: one operation each, with its parameters, by name or in their order: ``LeakyReLU(0.2)``."""

from __future__ import annotations

from micrograd_core.nn.module import Call


class ReLU(Call):
    """``max(x, 0)``."""

    operation = "relu"


class LeakyReLU(Call):
    """`leaky_relu`."""

    operation = "leaky_relu"


class ELU(Call):
    """`elu`."""

    operation = "elu"


class GELU(Call):
    """`gelu`."""

    operation = "gelu"


class SiLU(Call):
    """`silu`."""

    operation = "silu"


class Mish(Call):
    """`mish`."""

    operation = "mish"


class Sigmoid(Call):
    """`sigmoid`."""

    operation = "sigmoid"


class LogSigmoid(Call):
    """`log_sigmoid`."""

    operation = "log_sigmoid"


class Tanh(Call):
    """`tanh`."""

    operation = "tanh"


class Softplus(Call):
    """`softplus`."""

    operation = "softplus"


class Hardtanh(Call):
    """`hardtanh`."""

    operation = "hardtanh"


class Softmax(Call):
    """`softmax`."""

    operation = "softmax"


class LogSoftmax(Call):
    """`log_softmax`."""

    operation = "log_softmax"
