"""Either spelling of an axis: `dim` and `axis`, `keepdim` and `keepdims`, wherever a function has one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import fft, linalg
from micrograd_core.nn import functional as F  # noqa: N812
from micrograd_core.ops.shared import SPELLINGS

HOMES: dict[str, Any] = {"mg": mg, "linalg": linalg, "fft": fft, "F": F, "Tensor": mg.Tensor}
X = np.random.default_rng(0).uniform(0.5, 1.5, (2, 3, 4))
INDEX = np.array([1, 0])
PLACES = np.zeros((2, 3, 4), "int64")

ALONG_1 = (INDEX, X[:, :2])
MORE: dict[str, tuple[Any, ...]] = {
    "chunk": (2,), "cosine_similarity": (X[::-1].copy(),), "cross": (X[::-1].copy(),), "gather": (PLACES,),
    "index_select": (INDEX,), "kthvalue": (1,), "add_along_axis": (PLACES, X), "index_scale": (INDEX, mg.ones(2)),
    **dict.fromkeys(["index_add", "index_set", "index_min", "index_max", "index_multiply"], ALONG_1), "narrow": (0, 1),
    "pairwise_distance": (X[::-1].copy(),), "quantile": (0.3,), "repeat": (2,), "repeat_interleave": (2,), "roll": (1,),
    "scatter": (PLACES, X), "scatter_add": (PLACES, X), "scatter_reduce": (PLACES, X, "sum"), "select": (1,),
    "slice": (0, 1), "split": (1,), "take": (INDEX,), "take_along_axis": (PLACES,), "take_along_dim": (PLACES,),
    "layer_norm_gradients": (X, np.ones(4)), "tensordot": (X,), "topk": (1,), "unflatten": ((-1, 1),),
    "vecdot": (X[::-1].copy(),),
}  # fmt: skip
"""What a function takes beside a tensor."""

FIRST = {
    "irfft": X + 0j, "irfftn": X + 0j, "hfft": X + 0j, "squeeze": X[:, :1], "unstack": X, "concat": [X, X],
    "stack": [X, X],
}  # fmt: skip
"""What a function takes in place of three axes of real numbers."""

VALUES: dict[str, tuple[Any, ...]] = {
    "axis": (1, -1, (1,), (0, 1)), "dim": (1, -1), "axes": ((0, 1), (2, 0, 1), ((2,), (2,))), "axis1": (2,),
    "axis2": (2,), "keepdims": (True,), "keepdim": (True,),
}  # fmt: skip
"""Of which the first that a function takes is tried."""


def spelled() -> Iterator[tuple[str, str, str, str]]:
    """Each function, an argument, and another name of it."""
    for home, place in HOMES.items():
        for name in sorted(dir(place)):
            if name.startswith("_") or not inspect.isroutine(function := getattr(place, name, None)):
                continue
            try:
                taken = inspect.signature(behind(home, name, function)).parameters.values()
                own = [each.name for each in taken if each.kind is not each.VAR_POSITIONAL]
            except ValueError:  # written in C
                continue
            if name == "resample" or (home == "Tensor" and name in ("swapaxes", "swapdims")):
                continue  # what has other arguments that it does not do without
            if home == "mg" and name in ("max", "min", "std", "var"):
                continue  # which give PyTorch's result for its word: tests/array/test_names_numpy.py
            for each in own:
                if each in SPELLINGS and not (home == "Tensor" and name.endswith("_")):
                    yield from ((home, name, each, other) for other in SPELLINGS[each] if other not in own)


def behind(home: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that a method hands its arguments to, whose signature says which."""
    handed = home == "Tensor" and list(inspect.signature(function).parameters)[1:] == ["args", "kwargs"]
    return getattr(mg, function.__name__, function) if handed else function


ALL = list(spelled())


def called(home: str, name: str, **given: Any) -> Any:
    rest = [mg.asarray(each) if isinstance(each, np.ndarray) else each for each in MORE.get(name, ())]
    first = FIRST.get(name, X)
    x = [mg.asarray(each) for each in first] if isinstance(first, list) else mg.asarray(first)
    function = getattr(HOMES[home], name)
    names = list(inspect.signature(behind(home, name, function)).parameters)[1:]
    if {"dim", "axis"} & set(names[: len(rest)]):  # the axis comes before the others, which are given by name then
        spare = [each for each in names if each not in SPELLINGS]
        return function(x, **given, **dict(zip(spare, rest, strict=False)))
    return function(x, *rest, **given)


def numbers(found: Any) -> list[Any]:
    return [each.numpy() for each in (found if isinstance(found, tuple) else (found,))]


def working(home: str, name: str, own: str) -> tuple[Any, Any]:
    """A value that a function takes, and what it gives."""
    refused = []
    for value in VALUES[own]:
        try:
            mg.random.manual_seed(0)
            return value, called(home, name, **{own: value})
        except (ValueError, TypeError, IndexError) as error:
            refused.append(error)
    raise AssertionError(f"{home}.{name}: {refused}")


@pytest.mark.parametrize(("home", "name", "own", "other"), ALL, ids=lambda x: x)
def test_either_spelling_gives_the_same(home: str, name: str, own: str, other: str) -> None:
    value, expected = working(home, name, own)
    mg.random.manual_seed(0)
    found = called(home, name, **{other: value})
    assert all(map(np.array_equal, numbers(found), numbers(expected)))
    with pytest.raises(TypeError, match="the same argument; give one of them|given twice"):
        called(home, name, **{own: value, other: value})


def test_the_functions_are_all_that_have_an_axis() -> None:
    """Whatever is called by an axis is in the list above, the functions of `F` by torch's names."""
    found = {(home, name) for home, name, _, _ in ALL}
    assert len(found) >= 140
    assert {name for home, name in found if home == "F"} == {
        "cosine_similarity", "glu", "gumbel_softmax", "log_softmax", "normalize", "pairwise_distance", "softmax",
        "softmin",
    }  # fmt: skip
    alike = [
        (home, name, each)
        for home, place in HOMES.items()
        for name in dir(place)
        if not name.startswith("_") and inspect.isfunction(function := getattr(place, name, None))
        for each in inspect.signature(function).parameters
        if ("dim" in each or "axi" in each or "axe" in each) and each not in SPELLINGS
    ]
    assert {each for _, _, each in alike} <= {
        "start_dim", "end_dim", "in_axes", "out_axes", "embed_dim_to_check", "dim0", "dim1", "dims",
    }, alike  # fmt: skip


def test_by_position_and_by_another_name_is_refused() -> None:
    x = mg.asarray(X)
    for act in (
        lambda: F.softmax(x, 1, axis=0),  # type: ignore[call-arg]
        lambda: mg.sum(x, 0, dim=1),
        lambda: x.softmax(0, dim=1),
        lambda: x.sum(0, dim=1),
        lambda: mg.gather(x, 0, axis=0, index=PLACES),
        lambda: x.unsqueeze(0, axis=1),
    ):
        with pytest.raises(TypeError, match="multiple values for argument|given twice"):
            act()


def test_modules_take_either() -> None:
    for kind in (mg.nn.Softmax, mg.nn.LogSoftmax, mg.nn.GLU, mg.nn.Softmin, mg.nn.CosineSimilarity):
        x = (mg.asarray(X),) * (2 if kind is mg.nn.CosineSimilarity else 1)
        dim, axis = (kind(**{name: 2})(*x).numpy() for name in ("dim", "axis"))
        assert np.array_equal(dim, axis)
        with pytest.raises(TypeError, match="give one of them"):
            kind(dim=1, axis=1)
    assert mg.asarray(X).swapaxes(dim1=0, axis2=2).shape == (4, 3, 2)
    assert mg.asarray(X).permute(dims=(2, 0, 1)).shape == (4, 2, 3)


def test_an_axis_that_is_not_there_is_named_as_before() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'axs'"):
        F.softmax(mg.asarray(X), axs=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="axis 3"):
        F.softmax(mg.asarray(X), axis=3)
