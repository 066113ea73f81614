"""Functions that are written out for the parameters of others."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from micrograd_core.support.signatures import Parameters


def plain(x: Any, y: Any = 2, *, axis: Any, eps: Any = 0.5) -> Any:
    return x, y, axis, eps


class Owner:
    def method(self, x: Any, *, axis: Any = 1) -> Any:
        return self, x, axis


def handed_on(function: Any) -> Any:
    parameters = Parameters.of(function)
    assert parameters is not None
    return parameters.function([f"return _function({parameters.given()})"], {"_function": function})


def test_all_are_handed_on_with_their_defaults() -> None:
    same = handed_on(plain)
    for args, kwargs in (((1,), {"axis": 3}), ((1, 5), {"axis": 3, "eps": 4}), ((), {"x": 1, "y": 0, "axis": None})):
        assert same(*args, **kwargs) == plain(*args, **kwargs)
    for args, kwargs in (((), {"axis": 1}), ((1, 2, 3), {"axis": 1}), ((1,), {}), ((1,), {"axis": 1, "other": 2})):
        with pytest.raises(TypeError):
            same(*args, **kwargs)


def test_a_methods_own_object_is_no_parameter() -> None:
    owner = Owner()
    assert handed_on(owner.method)(3) == (owner, 3, 1)
    assert handed_on(Owner.method)(owner, 3, axis=2) == (owner, 3, 2)


def test_those_after_the_operands_are_handed_on_by_name() -> None:
    parameters = Parameters.of(lambda x, y, axis: None)
    assert parameters is not None
    assert parameters.given(2) == "x, y, axis=axis"
    assert parameters.given() == "x, y, axis"


@pytest.mark.parametrize("function", [lambda *x: x, lambda **x: x, len, partial(plain, 1), Owner, Owner()])
def test_what_packs_some_or_is_not_written_in_python_has_none(function: Any) -> None:
    assert Parameters.of(function) is None
