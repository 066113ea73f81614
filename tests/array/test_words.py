"""Words of PyTorch and NumPy for dtypes, axes and shapes: they work, or the error says what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import random
from micrograd_core.dtypes import DTYPES
from micrograd_core.suggestions import table

WORDS = table("dtype")


@pytest.mark.parametrize("word", WORDS)
def test_a_word_for_a_dtype_says_its_name(word: str) -> None:
    with pytest.raises(mg.errors.DTypeError, match=f"'{re.escape(word)}' is not a dtype; use ") as info:
        mg.zeros(1, dtype=word)
    named = re.findall(r"'(\w+)'", str(info.value).partition("use ")[2])
    assert named
    assert set(named) <= DTYPES.keys()


@pytest.mark.parametrize("word", ["f2", "f4", "f8", "f", "d", "e", "i1", "i2", "i4", "i8", "i", "u1", "?", "c8", "c16",
                                  "double", "half", "single", "short", "longlong", "cdouble"])  # fmt: skip
def test_that_name_is_numpy_s(word: str) -> None:
    assert WORDS[word] == f"'{np.dtype(word).name}'"


def test_axes_of_a_transposition_have_torch_s_names() -> None:
    x = mg.reshape(mg.arange(24), (2, 3, 4))
    for call in (lambda: x.transpose(dim0=0, dim1=2), lambda: x.transpose(0, dim1=2), lambda: x.transpose(0, 2)):
        np.testing.assert_array_equal(call().numpy(), x.numpy().transpose(2, 1, 0))
    np.testing.assert_array_equal(x.transpose(2, 0, 1).numpy(), x.numpy().transpose(2, 0, 1))
    np.testing.assert_array_equal(x.transpose((2, 0, 1)).numpy(), x.numpy().transpose(2, 0, 1))
    np.testing.assert_array_equal(x.transpose().numpy(), x.numpy().T)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: random.uniform(0, 1), "such as uniform((), 0, 1); got 0"),
        (lambda: random.uniform(-1, 1), "such as uniform((), -1, 1); got -1"),
        (lambda: random.uniform(-1.0, 1.0, (2, 2)), "such as uniform((2, 2), -1.0, 1.0)"),
        (lambda: random.uniform(2, 3), "The shape comes first: uniform(2, low, high)"),
        (lambda: random.normal(0, 1), "such as normal((), 0, 1)"),
        (lambda: random.normal(0, 1, 100), "such as normal((), 0, 1)"),
        (lambda: random.uniform(0, 1, 5), "such as uniform((), 0, 1)"),
        (lambda: random.randint(0, 2, 100), "such as randint((), 0, 2)"),
        (lambda: random.normal(0, 1, (3, 4)), "such as normal((3, 4), 0, 1)"),  # type: ignore[arg-type]
        (lambda: random.normal(0.0, 1.0), "such as normal((), 0.0, 1.0)"),  # type: ignore[arg-type]
        (lambda: random.randint(0, 10, (3,)), "such as randint((3,), 0, 10)"),  # type: ignore[arg-type]
        (lambda: random.randint(5, 10, 3), "The shape comes first: randint(5, low, high)"),
        (lambda: random.normal(size=3), "instead of size=: write shape="),  # type: ignore[call-arg]
        (lambda: random.permutation([3, 1]), "write x[random.permutation(len(x))]"),  # type: ignore[arg-type]
        (lambda: random.permutation(mg.arange(3)), "write x[random.permutation(len(x))]"),  # type: ignore[arg-type]
        (lambda: random.bernoulli(0.5), "write bernoulli(p=p)"),  # type: ignore[arg-type]
    ],
)
def test_random_numbers_in_numpy_s_manner_say_that_the_shape_comes_first(call: Callable[[], Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        call()


def test_shapes_without_elements_are_shapes() -> None:
    assert random.uniform(0).shape == random.normal((0,), 1.0, 2.0).shape == random.uniform((0,), 1, 2).shape == (0,)
    assert random.randint((0, 2), 0, 3).shape == (0, 2)
    none = len([])  # a count that happens to be 0
    for found in (random.randint(none, 0, 10), random.uniform(none, -1.0, 1.0), random.normal(none, 0.0, 0.02)):
        assert found.shape == (0,)


def test_methods_are_called_by_their_names() -> None:
    for name in ("sum", "mean", "argmax", "relu", "exp", "add", "add_", "softmax", "transpose", "clamp_", "logsumexp"):
        assert getattr(mg.Tensor, name).__name__ == name
