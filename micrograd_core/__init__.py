"""micrograd: gradients over any array library, on any device that has a plugin.

Importing this package imports neither an array library nor a plugin; the first tensor opens a device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from micrograd_core import amp, creation, errors, fft, functions, linalg, namespace, nn, optim, random
from micrograd_core.amp import GradScaler, autocast, set_matmul_precision
from micrograd_core.anomaly import detect_anomaly
from micrograd_core.autograd import enable_grad, is_grad_enabled, no_grad
from micrograd_core.batching import vmap
from micrograd_core.compound import COMPOUND
from micrograd_core.custom import checkpoint, custom_gradient
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
from micrograd_core.gradcheck import gradcheck, gradgradcheck
from micrograd_core.namespace import __array_namespace_info__, e, inf, nan, newaxis, pi
from micrograd_core.tensor import Tensor, shares_memory
from micrograd_core.transforms import hessian, hvp, jacobian, jvp, vjp

__version__ = "0.1.0"
__array_api_version__ = namespace.VERSION

# add, multiply, sum, softmax, …: one function per record of the op table; then what the standard has beside those.
globals().update({**functions.MAIN, **COMPOUND, **creation.CREATION, **namespace.NAMESPACE})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


__all__ = [
    "DType", "Device", "GradScaler", "MicrogradError", "Tensor", "amp", "autocast", "bfloat16",
    "bool", "checkpoint", "complex64", "complex128",
    "custom_gradient", "default_device", "detect_anomaly", "e", "enable_grad", "errors", "fft", "float16", "float32",
    "float64", "grad", "gradcheck", "gradgradcheck", "hessian", "hvp", "inf", "int8", "int16", "int32", "int64",
    "is_grad_enabled", "jacobian", "jvp", "linalg", "nan", "newaxis", "nn", "no_grad", "optim", "pi", "random",
    "set_default_device", "set_matmul_precision", "shares_memory",
    "uint8", "uint16", "uint32", "uint64", "use_device", "value_and_grad",
    "vjp", "vmap",
    "__array_namespace_info__", *functions.MAIN, *COMPOUND, *creation.CREATION, *namespace.NAMESPACE,
]  # fmt: skip
