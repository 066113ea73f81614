"""Units: which kernels there are, and the text that a compiler gets for one of them.

A kernel is a template in `source/`, given its arguments when a tensor first needs them: element type, width of a pack,
number of axes. A `Unit` names one such instance; `text` writes its translation unit, all of it in one string, so that
the cache on disk knows it by its content, and the same text compiles with NVRTC, nvcc and, for the tests, g++.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Final, NamedTuple


class Family(NamedTuple):
    """One template: the file it is in, and the parameters that a launch passes."""

    file: str
    parameters: str

    @property
    def names(self) -> list[str]:
        """Of the parameters, in order."""
        return [re.findall(r"\w+", part)[-1] for part in _split(self.parameters)]


BARRIERS: Final = frozenset({"rows", "reductions", "channels"})
"""Files whose threads wait for each other."""

_ROW: Final = "Long rows, Long columns"
_CHANNELS: Final = "Long rows, Long columns, Long run, Long piece"
_MOMENTS: Final = "const Wide<T>* means, const Wide<T>* squares"

# In the parameters and template arguments T stands for the element type, I for an index type; the rest is literal.
FAMILIES: Final = {
    "unary": Family("elementwise", "{Result}* out, const T* x, const Geometry<{Index}, {NDIM}, 1> geometry"),
    "binary": Family(
        "elementwise",
        "{Result}* out, const T* x, const T* y, double number, const Geometry<{Index}, {NDIM}, 2> geometry",
    ),
    "softmax": Family("rows", f"T* out, const T* x, {_ROW}"),
    "log_softmax": Family("rows", f"T* out, const T* x, {_ROW}"),
    "logsumexp": Family("rows", f"T* out, const T* x, {_ROW}"),
    "softmax_gradient": Family("rows", f"T* to, const T* g, const T* out, {_ROW}"),
    "log_softmax_gradient": Family("rows", f"T* to, const T* g, const T* out, {_ROW}"),
    "attention_weights": Family(
        "rows", f"T* out, const T* x, const {{Mask}}* mask, const MaskRows where, Long targets, {_ROW}"
    ),
    "attention_weights_gradient": Family("rows", f"T* to, const T* g, const T* out, Long targets, {_ROW}"),
    "cross_entropy": Family(
        "rows",
        "T* out, T* losses, Wide<T>* statistics, Wide<T>* partial, unsigned* arrived, const T* x, const I* targets, "
        f"Long ignored, Long mean, {_ROW}",
    ),
    "cross_entropy_gradient": Family(
        "rows",
        "T* to, const T* g, const Wide<T>* statistics, const T* x, const I* targets, Long stride, Long mean, "
        f"Long ignored, {_ROW}",
    ),
    "norm": Family("rows", f"T* out, const T* x, const T* weight, const T* bias, double eps, {_ROW}"),
    "norm_gradient": Family("rows", f"T* to, const T* g, const T* x, const T* weight, double eps, {_ROW}"),
    "norm_weight_gradient": Family("rows", f"Wide<T>* to, const T* g, const T* x, double eps, {_ROW}"),
    "reduce_columns": Family("reductions", f"{{Result}}* to, const T* x, double divisor, {_ROW}, Long band"),
    "relu_gradient_columns": Family(
        "reductions", f"{{Result}}* to, T* kept, const T* g, const T* out, {_ROW}, Long band"
    ),
    "reduce_rows": Family("reductions", f"{{Result}}* to, const T* x, double divisor, {_ROW}, Long piece"),
    "sgd": Family(
        "optimizer",
        "const Table table, double lr, double momentum, double dampening, double decay, Long nesterov, Long fresh",
    ),
    "adam": Family(
        "optimizer",
        "const Table table, double step, double beta1, double beta2, double eps, double decay, double shrink, "
        "Long fresh",
    ),
    "uniform": Family("random", "T* out, const Stream stream, Long size"),
    "normal": Family("random", "T* out, const Stream stream, Long size"),
    "dropout": Family("random", "T* out, const T* x, double rate, const Stream stream, Long size"),
    "integers": Family("random", "I* out, const Stream stream, Long low, Long span, Long size"),
    "marked": Family("random", "Word* out, const Stream stream, Long mask, Long size"),
    "gather": Family("indexing", "T* to, const T* weight, const I* indices, Long count, Long rows, Long columns"),
    "placed": Family("indexing", "T* to, const T* g, const Placing<{Index}, {NDIM}> where"),
    "scatter_add": Family("indexing", "Wide<T>* to, const T* g, const I* indices, Long count, Long rows, Long columns"),
    "row_keys": Family("indexing", "{Key}* to, const I* indices, Long negative, Long count, Long rows"),
    "row_starts": Family("indexing", "Long* first, const {Key}* keys, const Long* order, Long count, Long rows"),
    "add_segments": Family(
        "indexing",
        "Wide<T>* partial, const T* g, const {Key}* keys, const Long* order, Long segments, Long segment, Long columns",
    ),
    "sorted_add": Family(
        "indexing",
        "T* to, const T* base, const T* g, const Long* order, const Long* first, const Wide<T>* partial, "
        "Long segment, Long rows, Long columns",
    ),
    "channel_moments": Family("channels", f"Wide<T>* to, const T* x, {_CHANNELS}"),
    "merge_moments": Family("channels", "T* to, const T* partial, Long length, Long piece, Long channels"),
    "channel_norm": Family(
        "channels",
        f"T* out, const T* x, {_MOMENTS}, const T* weight, const T* bias, double share, double eps, {_CHANNELS}",
    ),
    "channel_sums": Family(
        "channels", f"Wide<T>* to, const T* g, const T* x, {_MOMENTS}, double share, double eps, {_CHANNELS}"
    ),
    "channel_norm_gradient": Family(
        "channels",
        f"T* to, const T* g, const T* x, {_MOMENTS}, const Wide<T>* plain, const Wide<T>* weighted, const T* weight, "
        f"double share, double eps, {_CHANNELS}",
    ),
    "reduce_planes": Family("channels", f"{{Result}}* to, const T* x, double divisor, {_CHANNELS}"),
    "pool": Family("pooling", "T* to, const T* x, const Pooling<{Index}> windows"),
    "pool_gradient": Family("pooling", "T* to, const T* g, const T* x, const Pooling<{Index}> windows"),
    "im2col": Family("indexing", "T* to, const T* x, double fill, Long images_inside, const Windows<{Index}> windows"),
    "col2im": Family("indexing", "T* to, const T* columns, const Windows<{Index}> windows"),
}

ELEMENT: Final = {"float16": "Half", "bfloat16": "Bfloat16", "float32": "float", "float64": "double"}
"""Core dtype to the name in the sources, of the dtypes that the kernels compute in."""

RESULT: Final = {**ELEMENT, "bool": "Bool"}
"""The same of what elementwise functions give."""

INDEX: Final = {
    "int8": "signed char", "int16": "short", "int32": "int", "int64": "Long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned", "uint64": "unsigned long long",
}  # fmt: skip
"""The same for indices and class numbers."""


class Unit(NamedTuple):
    """One instance of a template, compiled for itself."""

    family: str
    arguments: tuple[str, ...]  # of the template, in its order
    block: int  # threads per block; the compiler may count on it
    element: str = ""  # what T stands for
    numbers: str = ""  # what I stands for
    values: tuple[tuple[str, str], ...] = ()  # what stands in braces in the family's parameters

    @property
    def parameters(self) -> str:
        """Of the kernel, as C++."""
        text = FAMILIES[self.family].parameters.format(**dict(self.values))
        return re.sub(r"\bI\b", self.numbers, re.sub(r"\bT\b", self.element, text))


@cache
def source(name: str) -> str:
    """A file of `source/`, with what it includes in place of the includes."""
    text = resources.files("micrograd_cuda").joinpath("source", f"{name}.cuh").read_text(encoding="utf-8")
    text = text.replace("#pragma once\n", "")
    return re.sub(r'^#include "(\w+)\.cuh"$', lambda found: source(found[1]), text, flags=re.MULTILINE)


def call(unit: Unit) -> str:
    """The instance as an expression: ``softmax<float, 32, 1, 4>``."""
    return f"{unit.family}<{', '.join(unit.arguments)}>" if unit.arguments else unit.family


def name_of_kernel(unit: Unit) -> str:
    """What profilers show: ``micrograd_softmax_float_32_1_4``."""
    return "micrograd_" + re.sub(r"\W+", "_", call(unit)).strip("_")


def text(unit: Unit, name: str = "", *, with_source: bool = True) -> str:
    """The translation unit: the sources, then the instance as a kernel without a mangled name."""
    family = FAMILIES[unit.family]
    body = source(family.file) if with_source else ""
    return (
        f'{body}\nextern "C" __global__ void __launch_bounds__({unit.block})\n'
        f"{name or name_of_kernel(unit)}({unit.parameters}) {{ {call(unit)}({', '.join(family.names)}); }}\n"
    )


def _split(parameters: str) -> list[str]:
    """At the commas outside of ``<>``."""
    return re.split(r",\s*(?![^<]*>)", parameters)
