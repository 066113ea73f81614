"""PyTorch's names: programs that were written for it run with ``import micrograd_core.torch as torch``.

Tensors, layers, optimisers and gradients are those of `micrograd_core`; here are names, and adapters where a signature
or a result differs. `docs/torch.md` lists what still differs.

Examples
--------
>>> import micrograd_core.torch as torch
>>> values, places = torch.max(torch.tensor([[1.0, 3.0], [4.0, 2.0]]), 1)
>>> places
Tensor([1, 0])
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import micrograd_core as mg
from micrograd_core.array.tensor import Tensor as _Tensor
from micrograd_core.nn import functional as _functional
from micrograd_core.suggestions import missing
from micrograd_core.torch import functions

DTYPES = {
    "float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32", "short": "int16",
    "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip
RENAMED = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "bitwise_not": "bitwise_invert", "bmm": "matmul", "cat": "concat",
    "clamp": "clip", "concatenate": "concat", "conj_physical": "conj", "eq": "equal", "fix": "trunc",
    "ge": "greater_equal", "ger": "outer", "gt": "greater", "inference_mode": "no_grad", "le": "less_equal",
    "lt": "less", "mm": "matmul", "movedim": "moveaxis", "mul": "multiply", "mv": "matmul", "ne": "not_equal",
    "neg": "negative", "permute": "permute_dims", "sgn": "sign", "spmm": "matmul", "swapaxes": "transpose",
    "true_divide": "divide", "unbind": "unstack", "unsqueeze": "expand_dims",
}  # fmt: skip
"""PyTorch's name and ours, where nothing else differs."""
MODULES = ("amp", "autograd", "backends", "cuda", "linalg", "fft", "func", "nn", "optim", "random", "utils")
HOMES = {"autocast": "amp", "vmap": "func"}

dtype = mg.DType
Size = tuple[int, ...]


def __getattr__(name: str) -> Any:
    found = _lookup(name)
    if found is None:
        raise missing("micrograd_core", name)
    globals()[name] = found
    return found


def _lookup(name: str) -> Any:
    if name in MODULES:
        return import_module(f"{'micrograd_core' if name in ('fft', 'linalg') else __name__}.{name}")
    if name in HOMES:
        return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
    if name in functions.__all__:
        return getattr(functions, name)
    if name in DTYPES:
        return getattr(mg, DTYPES[name])
    own = RENAMED.get(name, name)
    for home in (_functional, mg):
        if own in home.__all__:
            return getattr(home, own)
    return functions.of_method(own) if not own.startswith("_") and callable(getattr(_Tensor, own, None)) else None


for _name in ("linalg", "fft"):
    sys.modules[f"{__name__}.{_name}"] = import_module(f"micrograd_core.{_name}")
