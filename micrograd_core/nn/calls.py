"""Modules that are one operation with its parameters: activations, poolings and losses.

Arguments are those of the operation, by name or in their order: ``LeakyReLU(0.2)``, ``MaxPool2d(2, stride=1)``,
``CrossEntropyLoss(label_smoothing=0.1)``.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from micrograd_core.functions import FUNCTIONS
from micrograd_core.nn.module import Module
from micrograd_core.ops import TABLE
from micrograd_core.tensor import Tensor


class Call(Module):
    """An operation of the op table as a module. Optional operands, such as the weight of a loss, are its buffers."""

    operation: ClassVar[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        op = TABLE[self.operation]
        names = list(inspect.signature(FUNCTIONS[op.name]).parameters)
        takes = names[op.operands - len(op.optional) :] if op.parameters is not None else []
        unknown = [name for name in kwargs if name not in takes]
        if unknown or len(args) > len(takes):
            what = f"no argument {unknown[0]!r}" if unknown else f"no more than {len(takes)} arguments"
            raise TypeError(f"{type(self).__name__} takes {what}; it takes {', '.join(takes) or 'none'}")
        self.arguments = {**dict(zip(takes, args, strict=False)), **kwargs}

    def forward(self, *operands: Tensor) -> Tensor:
        """The operation on its operands."""
        return FUNCTIONS[self.operation](*operands, **self.arguments)

    def facts(self) -> str:  # noqa: D102
        return ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())


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


class MaxPool1d(Call):
    """`max_pool1d`."""

    operation = "max_pool1d"


class MaxPool2d(Call):
    """`max_pool2d`."""

    operation = "max_pool2d"


class AvgPool1d(Call):
    """`avg_pool1d`."""

    operation = "avg_pool1d"


class AvgPool2d(Call):
    """`avg_pool2d`."""

    operation = "avg_pool2d"


class MSELoss(Call):
    """`mse_loss`."""

    operation = "mse_loss"


class L1Loss(Call):
    """`l1_loss`."""

    operation = "l1_loss"


class HuberLoss(Call):
    """`huber_loss`."""

    operation = "huber_loss"


class CrossEntropyLoss(Call):
    """`cross_entropy`."""

    operation = "cross_entropy"


class NLLLoss(Call):
    """`nll_loss`."""

    operation = "nll_loss"


class BCEWithLogitsLoss(Call):
    """`binary_cross_entropy_with_logits`."""

    operation = "binary_cross_entropy_with_logits"


class KLDivLoss(Call):
    """`kl_div`."""

    operation = "kl_div"
