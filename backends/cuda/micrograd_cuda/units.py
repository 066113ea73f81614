"""Units: which kernels there are, and the text that a compiler gets for one of them.

A kernel is a template in `source/`, marked ``KERNEL``. It gets its arguments when a tensor first needs them: element
type, width of a pack, number of axes. A `Unit` names one such instance; `text` writes its translation unit, all of it
in one string, so that the cache on disk knows it by its content, and the same text compiles with NVRTC, nvcc and, for
the tests, g++.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

BLOCK: Final = 256
"""Threads of a block, for most kernels."""

ELEMENT: Final = {"float16": "Half", "bfloat16": "Bfloat16", "float32": "float", "float64": "double"}
"""Core dtype to the name in the sources, of the dtypes that the kernels compute in."""

RESULT: Final = {**ELEMENT, "bool": "Bool"}
"""Core dtype to the name in the sources, of the dtypes that elementwise functions give."""

INDEX: Final = {
    "int8": "signed char", "int16": "short", "int32": "int", "int64": "Long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned", "uint64": "unsigned long long",
}  # fmt: skip
"""Core dtype to the name in the sources, of indices and class numbers."""


SOURCES: Final = resources.files("micrograd_cuda").joinpath("source")


class Family(NamedTuple):
    """One template: the file it is in, the names of its arguments, and the parameters that a launch passes."""

    file: str
    template: list[str]
    parameters: list[str]


def families(file: str, text: str) -> dict[str, Family]:
    """The templates in a file, by name. Structs that they take by reference are passed by value.

    >>> families("random", "template <class T, int V> KERNEL void draw(T* out, const Stream& stream) {")
    {'draw': Family(file='random', template=['T', 'V'], parameters=['T* out', 'const Stream stream'])}
    """
    found, commas = re.findall(r"(?:template <([^>]*)>\s+)?KERNEL void (\w+)\(\s*([^)]*)\)", text), r",\s*(?![^<]*>)"
    return {
        name: Family(file, re.findall(r"\w+ (\w+)", template), re.split(commas, parameters.replace("&", "")))
        for template, name, parameters in found
    }


FAMILIES: Final = {
    name: family
    for path in sorted(SOURCES.iterdir(), key=str)
    for name, family in families(path.name.removesuffix(".cuh"), path.read_text(encoding="utf-8")).items()
}
"""All templates that are launched."""


class Unit(NamedTuple):
    """One instance of a template, compiled for itself."""

    family: str
    arguments: tuple[str, ...]  # of the template, in its order
    block: int = BLOCK  # threads per block; the compiler may count on it
    shared: int = 0  # bytes of shared memory beside what the sources declare

    @property
    def parameters(self) -> list[str]:
        """Of the kernel, as C++, each with its name."""
        family = FAMILIES[self.family]
        given = dict(zip(family.template, self.arguments, strict=False))  # the rest have defaults
        return [re.sub(r"\w+", lambda word: given.get(word[0], word[0]), each) for each in family.parameters]


@cache
def source(name: str) -> str:
    """A file of `source/`, with what it includes in place of the includes."""
    text = SOURCES.joinpath(f"{name}.cuh").read_text(encoding="utf-8").replace("#pragma once\n", "")
    return re.sub(r'^#include "(\w+)\.cuh"$', lambda found: source(found[1]), text, flags=re.MULTILINE)


FUNCTORS: Final = {
    name: kind
    for kind, name in re.findall(r"^(UNARY|BINARY|PREDICATE|RELATION)\((\w+),", source("elementwise"), re.MULTILINE)
}
"""Functions of elements, and what they are: predicates and relations give bools, of one operand and of two."""


OWN: Final = {re.sub(r"\B(?=[A-Z])", "_", functor).lower(): functor for functor in FUNCTORS}
"""Operation to the functor that is named after it: ``FloorDivide`` of ``floor_divide``; and by such a name also those
for one parameter or one dtype of an operation."""
GELU: Final = {"none": "gelu", "tanh": "gelu_tanh"}
"""Of `gelu`, by what is approximate."""


def variant(functor: str, dtype: str) -> str:
    """The functor for a dtype: halves may have a cheaper one, with as many digits as they need."""
    found = f"{functor}OfHalves"
    return found if dtype in ("float16", "bfloat16") and found in FUNCTORS else functor


def call(unit: Unit) -> str:
    """The instance as an expression: ``softmax<float, 32, 1, 4>``."""
    return f"{unit.family}<{', '.join(unit.arguments)}>" if unit.arguments else unit.family


def name_of_kernel(unit: Unit) -> str:
    """What profilers show: ``micrograd_softmax_float_32_1_4``."""
    return "micrograd_" + re.sub(r"\W+", "_", call(unit)).strip("_")


def text(unit: Unit, name: str = "", *, with_source: bool = True) -> str:
    """The translation unit: the sources, then the instance as a kernel without a mangled name."""
    body = source(FAMILIES[unit.family].file) if with_source else ""
    names = ", ".join(parameter.split()[-1] for parameter in unit.parameters)
    return (
        f'{body}\nextern "C" __global__ void __launch_bounds__({unit.block})\n'
        f"{name or name_of_kernel(unit)}({', '.join(unit.parameters)}) {{ {call(unit)}({names}); }}\n"
    )
