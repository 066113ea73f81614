"""micrograd: gradients over any array library, on any device that has a plugin.

Importing this package imports neither an array library nor a plugin; the first tensor opens a device.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from micrograd_core import creation, errors, functions, namespace
from micrograd_core.device import Device, default_device, set_default_device, use_device
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
from micrograd_core.engine.modes import enable_grad, is_grad_enabled, no_grad
from micrograd_core.errors import MicrogradError
from micrograd_core.namespace import __array_namespace_info__, e, inf, nan, newaxis, pi
from micrograd_core.standard import VERSION
from micrograd_core.tensor import Tensor, shares_memory

__version__ = "0.1.0"
__array_api_version__ = VERSION

# Imported when they are asked for: modules, and the names in them that stand at the top.
LATER = {
    "amp": "GradScaler autocast set_matmul_precision",
    "anomaly": "detect_anomaly",
    "compound": "broadcast_arrays diff einsum nonzero searchsorted topk unique_all unique_counts unique_inverse "
    "unique_values unstack",
    "custom": "checkpoint custom_gradient custom_jvp",
    "differentiate": "grad value_and_grad",
    "drawing": "draw",
    "fft": "",
    "gradcheck": "gradcheck gradgradcheck",
    "linalg": "",
    "nn": "",
    "nn.mlp": "Layer MLP Neuron",
    "optim": "",
    "random": "",
    "scalar_jit": "jit",
    "transforms": "hessian hvp jacfwd jacobian jacrev jvp linearize vjp",
    "value": "Value",
    "vectorized": "vmap",
}
_HOMES = {name: module for module, names in LATER.items() for name in names.split()}

# add, multiply, sum, softmax, …: one function per record of the op table; then what the standard has beside those.
_NOW = {**functions.MAIN, **creation.CREATION, **namespace.NAMESPACE}
globals().update((name, function) for name, function in _NOW.items() if name not in _HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        if name in LATER:
            return import_module(f"micrograd_core.{name}")
        raise AttributeError(f"module 'micrograd_core' has no attribute {name!r}")
    globals()[name] = getattr(import_module(f"micrograd_core.{_HOMES[name]}"), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "DType", "Device", "MicrogradError", "Tensor", "bfloat16", "bool", "complex64", "complex128", "default_device",
    "e", "enable_grad", "errors", "float16", "float32", "float64", "gradcheck", "gradgradcheck", "inf", "int8",
    "int16", "int32", "int64", "is_grad_enabled", "nan", "newaxis", "no_grad", "pi", "set_default_device",
    "shares_memory", "uint8", "uint16", "uint32", "uint64", "use_device",
    "__array_namespace_info__", "amp", "fft", "linalg", "nn", "optim", "random", *{**_NOW, **_HOMES},
]  # fmt: skip
