"""The names of ``torch.nn.functional`` that are not here: what to use in their place, or why not."""

from __future__ import annotations

from typing import Final

_FLOAT8 = "it multiplies float8 numbers with tables of scales; there is no such dtype here. Use matmul, or amp.autocast"
_OVERRIDE = "it serves subclasses that override PyTorch's functions; there is nothing to override here"
_HELPER = "it is a helper of PyTorch's own source, with nothing to compute"
_TYPES = "it names a type of PyTorch's own source"
_DOCS = "it is a text for PyTorch's docstrings"

ABSENT: Final = {
    "scaled_mm": _FLOAT8,
    "scaled_grouped_mm": _FLOAT8,
    "grouped_mm": (
        "it multiplies groups of rows of different lengths in one kernel, of bfloat16 on CUDA; slice the rows and use "
        "matmul, or pad the groups to one length and multiply the stack"
    ),
    "has_torch_function": _OVERRIDE,
    "has_torch_function_unary": _OVERRIDE,
    "has_torch_function_variadic": _OVERRIDE,
    "handle_torch_function": _OVERRIDE,
    "boolean_dispatch": _HELPER,
    "assert_int_or_pair": _HELPER,
    "Optional": _TYPES,
    "BroadcastingList1": _TYPES,
    "BroadcastingList2": _TYPES,
    "BroadcastingList3": _TYPES,
    "Callable": _TYPES,
    "TYPE_CHECKING": _TYPES,
    "ScalingType": _FLOAT8,
    "SwizzleType": _FLOAT8,
    "DType": "use micrograd_core.DType",
    "Tensor": "use micrograd_core.Tensor",
    "grad": "use micrograd_core.grad, or conv1d_weight_gradient and conv2d_weight_gradient of micrograd_core",
    "GRID_SAMPLE_INTERPOLATION_MODES": "use the words: 'bilinear', 'nearest', 'bicubic'",
    "GRID_SAMPLE_PADDING_MODES": "use the words: 'zeros', 'border', 'reflection'",
    "reproducibility_notes": _DOCS,
    "sparse_support_notes": _DOCS,
    "tf32_notes": _DOCS,
    "dataclasses": "use Python's own module",
    "importlib": "use Python's own module",
    "math": "use Python's own module",
    "warnings": "use Python's own module",
    "np": "use numpy itself",
    "torch": "use micrograd_core",
}
