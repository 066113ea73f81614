"""micrograd: gradients over any array library, on any device that has a plugin.

Importing this package imports neither an array library nor a plugin; the first tensor opens a device.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from micrograd_core import errors
from micrograd_core.array import creation, functions, namespace
from micrograd_core.array.namespace import __array_namespace_info__, e, inf, nan, newaxis, pi
from micrograd_core.array.operators import VERSION
from micrograd_core.array.tensor import Tensor, shares_memory
from micrograd_core.device import Device, default_device, set_default_device, use_device
from micrograd_core.dtypes import DTYPES, DType
from micrograd_core.engine.modes import enable_grad, is_grad_enabled, no_grad
from micrograd_core.errors import MicrogradError
from micrograd_core.ops import TABLE
from micrograd_core.ops.shared import both_spellings
from micrograd_core.suggestions import CallableName, Finder, missing, refuse
from micrograd_core.support import __version__ as __version__

__array_api_version__ = VERSION

sys.meta_path.append(Finder)
for _module in ("array", "device"):  # as in np.array(data), torch.device("cpu")
    sys.modules[f"{__name__}.{_module}"].__class__ = CallableName

# Imported when they are asked for: modules (and where else a name may be), and names by the module they stand in.
MODULES = ("amp", "checkpoints", "data", "fft", "linalg", "nn", "optim", "random", "torch")
NAMESPACES = ("linalg", "fft", "random", "nn.functional", "nn", "optim", "data", "checkpoints")
LATER = {
    "amp": "GradScaler autocast set_matmul_precision",
    "array.composed": "allclose broadcast_arrays cumprod cumsum diff einsum histogram masked_fill nonzero norm "
    "searchsorted topk unique_all unique_counts unique_inverse unique_values unstack",
    "array.selection": "chunk diagonal flatten gather index_select masked_select repeat_interleave scatter "
    "scatter_add scatter_reduce split trace",
    "linalg": "cross",
    "nn.mlp": "Layer MLP Neuron",
    "drawing": "draw",
    "transforms.jit": "jit",
    "scalar.value": "Value",
    "transforms.anomaly": "detect_anomaly",
    "transforms.custom": "checkpoint custom_gradient custom_jvp",
    "transforms.derivatives": "grad hessian hvp jacfwd jacobian jacrev jvp linearize value_and_grad vjp gradcheck "
    "gradgradcheck",
    "transforms.vmap": "vmap",
}
_HOMES = {name: module for module, names in LATER.items() for name in names.split()}

refuse(Tensor, "Tensor")
_NOW = {**creation.CREATION, **namespace.NAMESPACE}
globals().update(DTYPES | {name: function for name, function in _NOW.items() if name not in _HOMES})


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return import_module(f"micrograd_core.{name}")
    if name == "__all__":
        return _all()
    if name not in _HOMES:
        if name in functions.FUNCTIONS and not TABLE[name].extension:  # add, multiply, sum, softmax, …
            globals()[name] = functions.FUNCTIONS[name]
            return globals()[name]
        namespaces = [] if name.startswith("_") else [import_module(f"micrograd_core.{each}") for each in NAMESPACES]
        raise missing(__name__, name, namespaces, [("x", Tensor)])
    found = getattr(import_module(f"micrograd_core.{_HOMES[name]}"), name)
    globals()[name] = both_spellings(found) if _HOMES[name].startswith("array.") else found
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*_all(), "__version__", "__array_api_version__"})


__all__ = [
    "DType", "Device", "MicrogradError", "Tensor", "__array_namespace_info__", "amp", "bfloat16", "bool", "checkpoints",
    "complex64", "complex128", "data", "default_device", "e", "enable_grad", "errors", "fft", "float16", "float32",
    "float64", "inf", "int8", "int16", "int32", "int64", "is_grad_enabled", "linalg", "nan", "newaxis", "nn", "no_grad",
    "optim", "pi", "random", "set_default_device", "shares_memory", "uint8", "uint16", "uint32", "uint64", "use_device",
]  # fmt: skip
_PUBLIC = __all__
del __all__  # complete only with the names of all operations, whose families `__getattr__` imports for it


def _all() -> list[str]:
    """What `__all__` is: also the operations, whose families are imported for it, but for those of sweeps."""
    operations = [name for name in functions.FUNCTIONS if not TABLE[name].extension and not name.endswith("_gradient")]
    return _PUBLIC + list(dict.fromkeys([*operations, *_NOW, *_HOMES]))
