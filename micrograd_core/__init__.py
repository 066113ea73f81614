"""micrograd: gradients over any array library, on any device that has a plugin.

Importing this package imports neither an array library nor a plugin; the first tensor opens a device.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from micrograd_core import errors, functions, linalg, nn, optim
from micrograd_core.autograd import enable_grad, is_grad_enabled, no_grad
from micrograd_core.device import Device, default_device, set_default_device, use_device
from micrograd_core.differentiate import grad, value_and_grad
from micrograd_core.dtypes import (
    DType,
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from micrograd_core.dtypes import bool_ as bool
from micrograd_core.errors import MicrogradError
from micrograd_core.functions import arange, full, ones, ones_like, zeros, zeros_like
from micrograd_core.gradcheck import gradcheck, gradgradcheck
from micrograd_core.mlp import MLP, Layer, Neuron
from micrograd_core.tensor import Tensor, asarray, shares_memory
from micrograd_core.value import Value

__version__ = "0.1.0"

globals().update(functions.MAIN)  # add, multiply, sum, softmax, …: one function per record of the op table

LATER = {"draw": "micrograd_core.drawing", "jit": "micrograd_core.scalar_jit"}  # imported when they are asked for


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module 'micrograd_core' has no attribute {name!r}")
    globals()[name] = getattr(import_module(LATER[name]), name)
    return globals()[name]


__all__ = [
    "DType", "Device", "Layer", "MLP", "MicrogradError", "Neuron", "Tensor", "Value", "arange", "asarray", "bfloat16",
    "bool", "complex64", "complex128",
    "default_device", "draw", "enable_grad", "errors", "float16", "float32", "float64", "full", "grad", "gradcheck",
    "gradgradcheck", "int8", "int16", "int32", "int64", "is_grad_enabled", "jit", "linalg", "nn", "no_grad", "ones",
    "ones_like", "optim",
    "set_default_device", "shares_memory", "uint8", "uint16", "uint32", "uint64", "use_device", "value_and_grad",
    "zeros", "zeros_like",
    *functions.MAIN,
]  # fmt: skip
