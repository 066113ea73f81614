"""Arguments as PyTorch and NumPy name them: each works, or the error says what to type."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.conformance.cases import cases
from micrograd_core.ops import TABLE
from micrograd_core.ops.shared import other_spellings
from micrograd_core.suggestions import table

torch = pytest.importorskip("torch")
BUILT: Final = frozenset(
    "asarray checkpoint custom_gradient custom_jvp detect_anomaly draw gradcheck jit jvp shares_memory".split()
)
NAMED: Final = ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY")


def named(function: Callable[..., Any]) -> set[str]:
    """What a function takes by name; what is written in C says in its docstring."""
    try:
        return {x.name for x in inspect.signature(function).parameters.values() if x.kind.name in NAMED}
    except (TypeError, ValueError):
        pass
    found = set()
    pattern = rf"^\s*(?:torch\.)?{re.escape(function.__name__)}\((.*?)\)\s*(?:->|$)"
    for each in re.finditer(pattern, function.__doc__ or "", re.MULTILINE):
        for part in each.group(1).split(","):
            word = part.partition("=")[0].partition(":")[0].strip(" *[]()").rpartition(" ")[2]
            found |= {word} if word.isidentifier() else set()
    return found


def typed() -> Iterator[tuple[str, str]]:
    """Public functions that PyTorch or NumPy have too, and words that those take."""
    for name in mg.__all__:
        function = getattr(mg, name)
        if callable(function) and not isinstance(function, type) and name not in BUILT:
            others = [getattr(place, name, None) for place in (torch, np)]
            words = {
                word
                for other in others
                if inspect.isroutine(other) or isinstance(other, np.ufunc)
                for word in named(other)
            }
            for word in sorted(words):
                yield name, word


TYPED: Final = sorted(typed())


def operands_of(name: str) -> list[Any]:
    if name not in FUNCTIONS:
        return []
    found = next(iter(cases({"float32", "int64", "bool"}, mg.Device("cpu").capabilities, only=name)), None)
    if found is None:
        return []
    operands = found.tensors(mg.Device("cpu"))
    return [operands] if TABLE[name].operands == -1 else operands


def test_each_word_works_or_is_answered() -> None:
    answered, silent = set(), []
    for name, word in TYPED:
        function = getattr(mg, name)
        own = named(function)
        if word in own or word in other_spellings(own) or word == "_complex":
            continue
        try:
            function(*operands_of(name), **{word: None})
            silent.append(f"{name}({word}=): taken")
        except TypeError as error:
            said = f"instead of {word}=: {table('argument').get(word, '?')}", f"it is called as {name}("
            if all(each in str(error) for each in said):
                answered.add(word)
            else:
                silent.append(f"{name}({word}=): {error}")
        except Exception as error:
            silent.append(f"{name}({word}=): {error!r}")
    assert not silent, "\n".join(silent)
    assert len(answered) > 80


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda x: mg.zeros(2, 3), r"several numbers are one tuple: zeros\(\(2, 3\)\)"),
        (lambda x: mg.ones(2, 3, 4), r"ones\(\(2, 3, 4\)\)"),
        (lambda x: mg.empty(2, 3), r"empty\(\(2, 3\)\)"),
        (lambda x: mg.zeros((2, 3), "float64"), "all else is named, such as dtype='float64'"),
        (lambda x: mg.reshape(x, 3, 2), r"reshape\(x, \(3, 2\)\)"),
        (lambda x: mg.permute_dims(x, 1, 0), r"permute_dims\(x, \(1, 0\)\)"),
        (lambda x: mg.tile(x, 2, 1), r"tile\(x, \(2, 1\)\)"),
        (lambda x: mg.var(x, unbiased=False), "unbiased=False is correction=0"),
        (lambda x: x.std(ddof=1), "ddof=n is correction=n"),
        (lambda x: np.sum(x, where=True), "mg.sum"),
        (lambda x: mg.linspace(0, 1, steps=5), "write num="),
        (lambda x: mg.arange(end=5), "instead of end=: give it by position"),
        (lambda x: mg.full(size=(2,), fill_value=1), "write shape="),
        (lambda x: mg.index_add(x, 0, mg.asarray([0]), x[:1]), r"is index_add\(x, index, source, axis=dim\)"),
        (lambda x: mg.index_set(x, 0, mg.asarray([0]), x[:1]), r"is index_set\(x, index, source, axis=dim\)"),
        (lambda x: mg.stack(tensors=[x]), "instead of tensors=: give it by position"),
        (lambda x: mg.add(input=x, other=x), r"it is called as add\(x1, x2, /\)"),
        (lambda x: mg.random.normal(size=(2,)), "write shape="),
        (lambda x: mg.vmap(mg.sin, in_dims=0), "write in_axes="),
        (lambda x: mg.softmax(input=x, dim=0), "instead of input="),
    ],
)
def test_the_error_says_what_to_type(act: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(TypeError, match=words) as told:
        act(mg.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    assert told.value.__context__ is None or told.value.__suppress_context__


def test_a_type_error_from_within_is_as_it_was() -> None:
    with pytest.raises(
        TypeError, match=r"^divide: operands are tensors and numbers; got object\. Wrap it with asarray\(\.\.\.\)$"
    ):
        mg.divide(1.0, object())
    with pytest.raises(TypeError, match="takes 3 operands; got 1; for the places"):
        mg.where(mg.asarray([True]))
