"""Random numbers: the published generator, the same bits everywhere, streams that do not meet, likely distributions."""

from __future__ import annotations

import copy
import math
import pickle
import random as python_random
import threading
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Device, Tensor, random
from micrograd_core.errors import DTypeError, ShapeError, UnsupportedDType
from micrograd_core.ops.standard.random import philox, words
from micrograd_core.random import Generator

ONES = (1 << 64) - 1


@pytest.mark.parametrize(
    ("counter", "key", "expected"),  # the known answers of Random123 for philox4x64, ten rounds
    [
        ("0 0 0 0", "0 0", "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b"),
        (
            " ".join(["ffffffffffffffff"] * 4),
            " ".join(["ffffffffffffffff"] * 2),
            "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0",
        ),
        (
            "243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89",
            "452821e638d01377 be5466cf34e90c6c",
            "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6",
        ),
    ],
)
def test_known_answers(counter: str, key: str, expected: str) -> None:
    def number(text: str) -> int:
        return sum(int(word, 16) << 64 * i for i, word in enumerate(text.split()))

    found = philox(number(key), number(counter))
    assert [f"{word:016x}" for word in found] == expected.split()
    assert tuple(words(number(key), number(counter), 4)) == found  # by NumPy


def test_without_numpy_the_words_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = words(7, 3, 9).tolist()
    monkeypatch.setitem(__import__("sys").modules, "numpy.random", None)
    assert words(7, 3, 9).tolist() == expected


@pytest.mark.parametrize("seed", [0, 1, (1 << 128) - 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_numbers_are_those_of_numpys_philox(seed: int, dtype: Any) -> None:
    expected = np.random.Generator(np.random.Philox(key=seed)).random(101, dtype)
    np.testing.assert_array_equal(random.uniform(101, dtype=dtype, generator=Generator(seed)).numpy(), expected)


EXACT = {
    "float64": lambda **on: random.uniform((3, 5), -1.0, 2.0, dtype="float64", **on),
    "float32": lambda **on: random.uniform((3, 5), dtype="float32", **on),
    "float16": lambda **on: random.uniform(7, dtype="float16", **on),
    "one": lambda **on: random.uniform((), **on),
    "empty": lambda **on: random.uniform((0, 3), **on),
    "dice": lambda **on: random.randint((4, 5), 1, 7, **on),
    "bytes": lambda **on: random.randint(9, 0, 256, dtype="uint8", **on),
    "negative": lambda **on: random.randint(9, -128, 128, dtype="int8", **on),
    "wide": lambda **on: random.randint(9, -(1 << 62), 1 << 62, **on),
    "words": lambda **on: random.randint(9, 0, 1 << 64, dtype="uint64", **on),
    "signed words": lambda **on: random.randint(9, -(1 << 63), 1 << 63, **on),
    "coins": lambda **on: random.bernoulli((4, 4), 0.3, **on),
    "weights": lambda **on: random.bernoulli((4, 4), 0.3, dtype="float32", **on),
    "order": lambda **on: random.permutation(20, **on),
    "no order": lambda **on: random.permutation(0, **on),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_seed_gives_the_same_bits_on_every_device(name: str, device: Device) -> None:
    one, other = Generator(5), Generator(5)
    for _ in range(2):
        here, there = EXACT[name](generator=one, device="cpu"), EXACT[name](generator=other, device=device)
        assert there.device is device
        assert (here.dtype, here.shape) == (there.dtype, there.shape)
        np.testing.assert_array_equal(here.numpy(), there.numpy())
    assert one.state == other.state


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_normal_numbers_agree_up_to_rounding(dtype: str, device: Device) -> None:
    here = random.normal((3, 5), 1.0, 2.0, dtype=dtype, generator=Generator(5), device="cpu").numpy()
    there = random.normal((3, 5), 1.0, 2.0, dtype=dtype, generator=Generator(5), device=device).numpy()
    assert there.dtype == dtype
    np.testing.assert_allclose(there, here, rtol=0, atol=2 * 8 * np.finfo(dtype).eps)  # of the standard deviation 2


@pytest.mark.parametrize("span", [1, 3, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 10**18, (1 << 63) + 5])
def test_integers_are_the_upper_half_of_a_product(span: int) -> None:
    found = random.randint(50, 5, 5 + span, dtype="uint64", generator=Generator(3)).tolist()
    assert found == [5 + (word * span >> 64) for word in words(3, 1, 50).tolist()]


def test_longer_draws_begin_with_shorter_ones() -> None:
    for draw in (random.uniform, random.normal, lambda n, **kw: random.randint(n, 0, 9, **kw)):
        short, long = (draw(n, generator=Generator(1)).numpy() for n in (5, 12))
        np.testing.assert_array_equal(short, long[:5])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_distributions(dtype: str) -> None:
    from scipy import stats

    g, n = Generator(11), 200_000
    u = random.uniform(n, dtype=dtype, generator=g).numpy().astype("float64")
    z = random.normal(n, dtype=dtype, generator=g).numpy().astype("float64")
    assert 0 <= u.min() < 1e-3
    assert 1 - 1e-3 < u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > 1e-3 or dtype == "float16"
    assert stats.kstest(z, "norm").pvalue > 1e-3 or dtype == "float16"
    assert abs(z.mean()) < 5 / math.sqrt(n)
    assert abs(z.std() - 1) < 5 / math.sqrt(2 * n)
    assert abs(np.mean(z**4) - 3) < 5 * math.sqrt(96 / n)
    dice = np.bincount(random.randint(n, 0, 6, generator=g).numpy())
    assert stats.chisquare(dice).pvalue > 1e-3
    assert abs(random.bernoulli(n, 0.3, generator=g).numpy().mean() - 0.3) < 5 * math.sqrt(0.21 / n)


def test_permutations_are_permutations_and_all_of_them() -> None:
    g = Generator(0)
    assert sorted(random.permutation(1000, generator=g).tolist()) == list(range(1000))
    seen = {tuple(random.permutation(3, generator=g).tolist()) for _ in range(100)}
    assert len(seen) == 6
    assert random.permutation(3, dtype="int32", generator=g).dtype is mg.int32


# ── generators ───────────────────────────────────────────────────────────────────────────────────────────────


def test_split_streams_differ_and_leave_the_parent_alone() -> None:
    parent, alone = Generator(9), Generator(9)
    children = [*parent.split(3), *parent.split()]
    draws = {random.randint((), 0, 1 << 62, generator=g).item() for g in (parent, *children)}
    assert len(draws) == 6
    assert random.randint((), 0, 1 << 62, generator=alone).item() in draws
    assert [g.state for g in Generator(9).split(5)] == [Generator(c.state[0]).state for c in children]


def test_generators_pickle_copy_and_go_back() -> None:
    g = Generator(4)
    random.uniform(3, generator=g)
    state, clones = g.state, [pickle.loads(pickle.dumps(g)), copy.copy(g)]
    expected = random.uniform(3, generator=g).tolist()
    g.state = state
    for each in (g, *clones):
        assert random.uniform(3, generator=each).tolist() == expected


def test_without_a_seed_generators_differ() -> None:
    assert Generator().state != Generator().state


def test_manual_seed_restarts_the_default() -> None:
    random.manual_seed(3)
    first = random.normal(4).tolist()
    assert random.normal(4).tolist() != first
    random.manual_seed(3)
    assert random.normal(4).tolist() == first
    assert random.normal(4, generator=Generator(3)).tolist() == first


def test_a_chosen_default_ends_with_its_block_and_stays_in_its_thread() -> None:
    random.manual_seed(0)
    outside = random.default_generator()
    seen: list[Any] = []
    with random.use_generator(5) as g:
        assert random.default_generator() is g
        inside = random.uniform(2).tolist()
        thread = threading.Thread(target=lambda: seen.append(random.default_generator()))
        thread.start()
        thread.join()
    assert seen == [outside]
    assert inside == random.uniform(2, generator=Generator(5)).tolist()
    assert outside.state == Generator(0).state


def test_threads_never_draw_the_same_numbers() -> None:
    g, found = Generator(0), []

    def work() -> None:
        found.extend(random.randint((), 0, 1 << 62, generator=g).item() for _ in range(300))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1200


# ── arguments ────────────────────────────────────────────────────────────────────────────────────────────────


def test_results_record_only_when_asked() -> None:
    assert not random.uniform(3).requires_grad
    x = random.normal((2, 2), 1.0, 0.5, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.is_leaf


def test_probabilities_may_differ_by_element() -> None:
    p = Tensor([[0.0], [1.0]])
    assert random.bernoulli(p=p).tolist() == [[False], [True]]
    assert random.bernoulli((2, 3), p).tolist() == [[False] * 3, [True] * 3]
    assert random.bernoulli((2, 3), p).requires_grad is False
    assert random.bernoulli(4, 0).tolist() == [False] * 4
    assert random.bernoulli(4, 1).tolist() == [True] * 4


@pytest.mark.parametrize(
    ("call", "error", "words_"),
    [
        (lambda: Generator(-1), ValueError, "seed must be from 0"),
        (lambda: Generator(1.5), TypeError, "float"),
        (lambda: random.uniform(2, 1.0, 0.0), ValueError, "low=1.0, high=0.0"),
        (lambda: random.uniform(2, 0.0, math.inf), ValueError, "finite"),
        (lambda: random.uniform(2, dtype="int64"), DTypeError, "dtype int64"),
        (lambda: random.uniform(-2), ShapeError, "negative"),
        (lambda: random.normal(2, std=-1.0), ValueError, "std must not be negative"),
        (lambda: random.normal(2, dtype="complex64"), DTypeError, "complex64"),
        (lambda: random.randint(2, 3, 3), ValueError, "no integer from low=3"),
        (lambda: random.randint(2, 0, 257, dtype="uint8"), DTypeError, "256 is outside uint8"),
        (lambda: random.randint(2, 0, 2, dtype="float32"), DTypeError, "does not hold integers"),
        (lambda: random.bernoulli(2, 1.5), ValueError, "probability"),
        (lambda: random.bernoulli(2, Tensor([0.5] * 3)), ShapeError, "broadcast"),
        (lambda: random.bernoulli((), Tensor([0.5] * 3)), ShapeError, "do not broadcast to shape"),
        (lambda: random.permutation(-1), ShapeError, "negative"),
        (lambda: random.permutation(300, dtype="int8"), DTypeError, "does not hold the integers below 300"),
        (lambda: random.uniform(2, generator=0), TypeError, r"got int 0. Make one with random.Generator\(seed\)"),
        (lambda: random.normal(2, generator=7), TypeError, "generator is a random.Generator; got int 7"),
        (lambda: random.permutation(2, generator=python_random.Random(0)), TypeError, "got Random"),
        (lambda: mg.nn.Linear(1, 1, generator=0), TypeError, "got int 0"),
        (lambda: mg.nn.Dropout(generator=0), TypeError, "got int 0"),
        (lambda: random.uniform(2, dtype="bfloat16", device="strict"), UnsupportedDType, "bfloat16"),
    ],
)
def test_mistakes_get_a_sentence(call: Any, error: type[Exception], words_: str) -> None:
    with pytest.raises(error, match=words_):
        call()
