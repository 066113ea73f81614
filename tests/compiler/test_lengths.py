"""Symbolic lengths: what holds for one holds for all its values, and everything else is refused."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from micrograd_core.compiler.lengths import Axis, Length, actual, longest

AXES = (Axis(0, 2, 256), Axis(1, 2, 256), Axis(2, 257, 2048))
LENGTHS = st.tuples(st.integers(2, 256), st.integers(2, 256), st.integers(257, 2048)).filter(lambda x: x[0] != x[1])
PRODUCTS = st.builds(Length, st.lists(st.sampled_from(AXES), min_size=1, max_size=3), st.sampled_from((1, 1, 1, 2, -1)))
NUMBERS = st.integers(-2, 3) | st.sampled_from((100, 256, 257, 2049, 1 << 20, 1 << 40))
RELATIONS: tuple[Callable[[Any, Any], Any], ...] = (
    operator.mul, operator.floordiv, operator.mod, operator.sub, operator.add, operator.truediv, operator.pow,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, divmod, max, min,
)  # fmt: skip


@settings(deadline=None, max_examples=500)
@given(x=PRODUCTS, y=PRODUCTS | NUMBERS, swap=st.booleans(), relation=st.sampled_from(RELATIONS), lengths=LENGTHS)
def test_what_is_said_of_lengths_is_true_of_all(
    x: Any, y: Any, swap: bool, relation: Callable[[Any, Any], Any], lengths: tuple[int, ...]
) -> None:
    x, y = (y, x) if swap else (x, y)
    try:
        found = relation(x, y)
    except (TypeError, ZeroDivisionError):
        return
    expected = relation(actual(x, lengths), actual(y, lengths))
    assert actual(found, lengths) == expected
    if isinstance(found, Length):
        assert expected <= longest(found)


def test_products_are_divided_and_compared() -> None:
    a, b, c = (Length([axis]) for axis in AXES)
    assert [a * b // b, a * b % b, a % (a * b), math.prod((a, b, c)), max(a, 1), a - 0] == [a, 0, a, c * b * a, a, a]
    assert [a != b, a * b != a * c, a < a * b, a < c, a == 1, 0 in (a, b), -a < 0] == [True] * 4 + [False] * 2 + [True]
    assert (a * b, a * -b, longest(a * c), {a * b: 1}[b * a]) == (b * a, -a * b, 256 * 2048, 1)


@pytest.mark.parametrize(
    "leak",
    [
        lambda n: n - 1,
        lambda n: n + n,
        lambda n: 1 - n,
        lambda n: n // 2,
        lambda n: -(-n // 4),
        lambda n: n % 7,
        lambda n: 7 % n,
        lambda n: 1 / n,
        lambda n: 2.0 * n,
        lambda n: n**2,
        lambda n: n & 1,
        lambda n: n << 1,
        lambda n: n < 100,
        lambda n: n == 100,
        lambda n: n == 100.0,
        lambda n: n < 256,
        lambda n: n * n == Length([AXES[2]]),
        lambda n: n < Length([AXES[1]]),
        lambda n: sorted([n, Length([AXES[1]])]),
        lambda n: [0] * n,
        lambda n: len(range(n)),
        lambda n: slice(None).indices(n),
        lambda n: operator.index(n),
        lambda n: round(n),
        lambda n: abs(n),
        str,
        int,
        float,
        lambda n: f"{n}",
        math.log2,
        math.sqrt,
        math.isqrt,
        lambda n: math.gcd(n, 2),
    ],
)
def test_what_needs_the_number_is_refused(leak: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        leak(Length([AXES[0]]))
