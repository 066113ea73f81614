"""What NumPy's users type: functions beside the standard, keys of lists and tuples, NumPy's functions of tensors."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor, asarray, gradcheck, gradgradcheck
from micrograd_core.errors import DTypeError, ShapeError

DRAWN = np.random.default_rng(0)
X, Y = DRAWN.uniform(-2, 2, (3, 4)), DRAWN.uniform(-2, 2, (3, 4))
POINTS = np.array([-1.5, -0.5, 0.2, 1.4]), np.array([1.0, -2.0, 0.5, 3.0])


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("median", (X,), {}), ("median", (X, 1), {}), ("median", (X,), {"axis": 0, "keepdims": True}),
    ("quantile", (X, 0.3), {}), ("quantile", (X, [0.1, 0.9], 1), {}), ("quantile", (X, 0.4, 0), {"method": "higher"}),
    ("interp", (X, *POINTS), {}), ("interp", (X, *POINTS), {"left": 7.0, "right": -7.0}),
    *(("convolve", (X[0], Y[0, :k]), {"mode": mode}) for k in (1, 2, 3, 4) for mode in ("full", "same", "valid")),
    ("convolve", (X[0, :2], Y[0]), {}),
    ("diff", (X,), {"prepend": 0.5}), ("diff", (X,), {"axis": 0, "append": Y}),
    ("trapezoid", (X,), {"axis": 0}), ("trapezoid", (X, Y), {}), ("trapezoid", (X,), {"dx": 0.5}),
    ("diagonal", (X, 1), {}), ("trace", (X,), {"offset": -1}), ("diag", (X, -1), {}), ("diag", (X[0], 2), {}),
    ("kron", (X[0], Y), {}), ("vander", (X[0], 3), {}), ("rot90", (X, -1), {}), ("roll", (X, 5), {}),
    ("take_along_axis", (X, np.argsort(X, 1), 1), {}), ("isclose", (X, X + 1e-9), {}), ("isclose", (X, Y, 0.3), {}),
    ("nan_to_num", (np.array([np.nan, np.inf, -np.inf, 1.0]),), {}), ("cov", (X,), {}), ("corrcoef", (X,), {}),
    ("cross", (X[:, :3], Y[:, :3]), {}), ("fmod", (X, 0.7), {}), ("fmod", (np.arange(-5, 6), 3), {}),
    ("exp2", (X,), {}), ("i0", (X,), {}), ("sum", (np.float64(3.0), 0), {}), ("max", (np.float64(3.0), -1), {}),
    ("tile", (X, [2, 1]), {}), ("argmax", (np.float64(3.0),), {"axis": 0}),
    ("logical_and", (X > 0, X), {}), ("logical_or", (np.arange(3), 0), {}), ("logical_xor", (X > 0, 1), {}),
    ("logical_not", (np.arange(3),), {}), ("less", (X > 0, Y > 0), {}), ("less", (X > 0, 0.5), {}),
    ("equal", (X > 0, np.ones((3, 4))), {}), ("greater_equal", (np.arange(3), True), {}),
    ("add", ([1, 2], [3, 4]), {}), ("maximum", (X, [0.0, 0.1, 0.2, 0.3]), {}),
    ("where", ([True, False], [1, 2], [3, 4]), {}), ("multiply", (X, [[0.1], [0.2], [0.3]]), {}),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*given by position")  # whose reader may mean PyTorch's pair
@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
def test_a_function_is_numpy_s(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    tensors = [asarray(x) if isinstance(x, (np.ndarray, np.float64)) else x for x in args]
    options = {key: asarray(x) if isinstance(x, np.ndarray) else x for key, x in kwargs.items()}
    found, expected = np.array(getattr(mg, name)(*tensors, **options).numpy()), getattr(np, name)(*args, **kwargs)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.shape == np.shape(expected)
    assert found.dtype.kind == np.asarray(expected).dtype.kind


@pytest.mark.filterwarnings("ignore:.*given by position")  # whose reader may mean PyTorch's pair
@pytest.mark.parametrize(
    "function",
    [
        lambda x: mg.interp(x, *map(asarray, POINTS)),
        lambda x: mg.interp(asarray([0.0, 1.0], dtype="float64"), asarray(POINTS[0]), x[0]),
        lambda x: mg.convolve(x[0], x[1, :3], "same"),
        lambda x: mg.median(x, 1),
        lambda x: mg.median(x) * x,
        lambda x: mg.quantile(x, [0.2, 0.7], 1) ** 2,
        lambda x: mg.take_along_axis(x, asarray(np.argsort(X, 1)), 1) ** 2,
        lambda x: mg.diff(x, prepend=0.5, append=x[:, :2]) ** 2,
        lambda x: mg.trapezoid(x, x[0] ** 2, axis=1),
        lambda x: mg.vander(x[0], 3),
        lambda x: mg.cov(x) ** 2,
        lambda x: mg.cross(x[:, :3], x[:, 1:]),
        lambda x: mg.corrcoef(x),
        lambda x: mg.scatter_reduce(x, 1, asarray([[0], [2]]), x[:2, :1] * 2, "mean"),
        lambda x: mg.logit(mg.sigmoid(x)) + mg.lerp(x, 1.0, x),
        lambda x: mg.isclose(x, x).astype("float64") * x,
    ],
)
def test_its_gradient_is_that_of_differences(function: Callable[[Any], Any]) -> None:
    assert gradcheck(function, [Tensor(X)])
    assert gradgradcheck(function, [Tensor(X)])


def test_allclose_is_a_bool() -> None:
    assert mg.allclose(asarray(X), asarray(X + 1e-10)) is True
    assert asarray(X).allclose(asarray(Y)) is False
    assert mg.allclose(asarray([np.nan]), asarray([np.nan]), equal_nan=True)


def test_histograms_count_as_numpy_s() -> None:
    for kwargs in ({"bins": 5}, {"bins": 4, "range": (-1.0, 1.0)}, {"bins": np.array([-1.0, 0.0, 0.3, 2.5])}):
        for more in ({}, {"density": True}, {"weights": Y.ravel()}):
            hist, edges = np.histogram(X.ravel(), **kwargs, **more)
            options = {k: asarray(v) if isinstance(v, np.ndarray) else v for k, v in {**kwargs, **more}.items()}
            found = mg.histogram(asarray(X), **options)
            np.testing.assert_allclose(found.hist.numpy(), hist, rtol=1e-12)
            np.testing.assert_allclose(found.bin_edges.numpy(), edges, rtol=1e-12)


ENTRIES: list[Any] = [
    1, -1, slice(None), slice(1, None), slice(None, None, -1), None, ..., [0, 1], [[0], [1]], (0, 1), (1,), [-1, 0],
    [True, False], np.array([0, 1]), np.int64(1), True, [],
]  # fmt: skip


def test_keys_of_lists_and_tuples_are_numpy_s() -> None:
    """By generation: keys of up to three entries of every kind. Both select the same, or both refuse."""
    x = np.arange(24.0).reshape(2, 3, 4)
    t, leaf = asarray(x), Tensor(x, requires_grad=True)
    keys = [key for n in (1, 2, 3) for key in itertools.product(ENTRIES, repeat=n)]
    selected = refused = 0
    for key in random.Random(0).sample(keys, 700):
        try:
            expected = x[key]
        except IndexError:
            refused += 1
            with pytest.raises(IndexError):
                t[key]
            continue
        assert np.array_equal(t[key].numpy(), expected), key
        weights, wanted = np.random.default_rng(0).uniform(1, 2, np.shape(expected)), np.zeros_like(x)
        np.add.at(wanted, key, weights)
        (leaf[key] * asarray(weights)).sum().backward()
        np.testing.assert_allclose(leaf.grad.numpy(), wanted, err_msg=str(key))
        leaf.grad = None
        selected += 1
    assert min(selected, refused) > 100


def test_both_spellings_of_an_argument_are_one() -> None:
    x = Tensor(X)
    for name in ("sum", "mean", "prod", "any", "all", "argmax", "logsumexp"):
        function, expected = getattr(mg, name), getattr(mg, name)(x, axis=1, keepdims=True).tolist()
        assert function(x, dim=1, keepdim=True).tolist() == function(x, 1, keepdims=True).tolist() == expected
        if name != "prod":
            assert getattr(x, name)(dim=1, keepdim=True).tolist() == expected
        with pytest.raises(TypeError, match="(same argument|given twice)"):
            function(x, axis=1, dim=1)
    with pytest.raises(TypeError, match="sum: axis .dim. or keepdims .keepdim. was given twice"):
        x.sum(1, dim=1)
    assert mg.sum(x, 0, dtype="float32").dtype is mg.float32
    assert mg.concat([x, x], 1).shape == mg.concat([x, x], dim=-1).shape == (3, 8)
    assert mg.tril(x, 1).tolist() == mg.tril(x, k=1).tolist()
    assert mg.linear(x, asarray(Y)).tolist() == mg.linear(x, asarray(Y), None).tolist() == (x @ asarray(Y).T).tolist()
    assert mg.squeeze(x[None]).shape == (3, 4)


def test_pytorchs_word_gives_pytorchs_result() -> None:
    x = Tensor(X)
    for name in ("max", "min"):
        values, places = getattr(x, name)(dim=1, keepdim=True)
        assert values.tolist() == getattr(mg, name)(x, axis=1, keepdims=True).tolist()
        assert places.tolist() == getattr(mg, f"arg{name}")(x, 1, keepdims=True).tolist()
        assert getattr(mg, name)(x, dim=1).values.tolist() == getattr(x, name)(axis=1).tolist()
    for name in ("std", "var"):
        wanted = getattr(mg, name)(x, axis=0, correction=1)
        assert getattr(x, name)(dim=0).tolist() == getattr(mg, name)(x, dim=0).tolist() == wanted.tolist()
        assert getattr(x, name)(unbiased=False).tolist() == getattr(mg, name)(x).tolist()
        with pytest.warns(RuntimeWarning, match="divides by n, as NumPy's"):
            assert getattr(x, name)(0).tolist() == getattr(x, name)(axis=0).tolist()
    values, places = x.sort(descending=True)
    assert values.tolist() == np.sort(X)[:, ::-1].tolist()
    assert mg.take_along_axis(x, places).tolist() == values.tolist()
    assert x.repeat(2, 1).tolist() == np.tile(X, (2, 1)).tolist()
    assert x.repeat(2, axis=1).tolist() == np.repeat(X, 2, axis=1).tolist()
    assert asarray([3, 1, 3]).unique(return_counts=True)[1].tolist() == [1, 2]
    assert x.amax(dim=1).tolist() == x.max(axis=1).tolist()
    for name in ("max", "var"):
        with pytest.raises(TypeError, match="dim and axis are the same argument"):
            getattr(mg, name)(x, dim=1, axis=1)
    with pytest.raises(TypeError, match="PyTorch repeats the tensor"):
        x.repeat(2)


def test_a_list_beside_float64_keeps_its_digits() -> None:
    assert mg.add(asarray([0.0], dtype="float64"), [0.1]).item() == 0.1
    assert mg.add(asarray([0.0], dtype="float32"), [0.1]).dtype is mg.float32
    with pytest.raises(TypeError, match="operands are tensors and numbers; got dict"):
        mg.add(asarray([0.0]), {})


def test_numpy_s_functions_say_what_to_call() -> None:
    t = Tensor([1.0, 2.0])
    for call, says in (
        (lambda: np.exp(t), "write mg.exp.x., with mg for micrograd_core, or np.exp.x.detach"),
        (lambda: np.arctan(t), "write mg.atan"),
        (lambda: np.add(t, t), "write mg.add"),
        (lambda: np.cbrt(t), "write np.cbrt.x.detach"),
        (lambda: np.mean(t), "write mg.mean"),
        (lambda: np.sum(t.detach()), "write mg.sum"),
        (lambda: np.max(t), "write mg.max"),
        (lambda: np.add.reduce(t), "np.add takes NumPy's arrays"),
        (lambda: t.sum(out=t), "there is no out="),
    ):
        with pytest.raises(TypeError, match=says):
            call()
    array = np.ones(2)
    with pytest.raises(TypeError, match="np.add takes NumPy's arrays"):
        array += t


def test_operators_with_numpy_on_the_left_are_the_tensor_s() -> None:
    t = Tensor([1.0, 2.0], dtype="float64")
    for left in (np.array([3.0, 4.0]), np.float64(3.0), np.array(3.0)):
        for operate in (
            lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a**b,
            lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a < b, lambda a, b: a >= b, lambda a, b: a == b,
        ):  # fmt: skip
            found = operate(left, t)
            assert isinstance(found, Tensor)
            assert found.tolist() == operate(left, t.detach().numpy()).tolist()
    assert isinstance(np.ones((2, 2)) @ t, Tensor)
    (np.array([3.0, 4.0]) * t).sum().backward()
    assert t.grad is not None


def test_errors_of_the_new_functions() -> None:
    x = asarray(X)
    for call, kind, says in (
        (lambda: mg.gather(x, 0, asarray([[0] * 5])), ShapeError, "gather: an index of shape"),
        (lambda: mg.scatter_reduce(x, 0, asarray([[0]]), 1.0, "max"), ValueError, "reduce is 'sum', 'prod', 'amax'"),
        (lambda: mg.masked_fill(x, x, 0), DTypeError, "a mask holds bools"),
        (lambda: mg.quantile(x, 1.5), ValueError, "q is between 0 and 1"),
        (lambda: mg.quantile(x, 0.5, method="x"), ValueError, "method is 'linear'"),
        (lambda: mg.kthvalue(x, 5), ShapeError, "k is 1 to 4"),
        (lambda: mg.split(x, [1, 1]), ShapeError, "do not add up to 3"),
        (lambda: mg.chunk(x, 0), ShapeError, "at least one piece"),
        (lambda: mg.where(x > 0), TypeError, "for the places where it is true, nonzero"),
        (lambda: mg.scatter(x, 1), TypeError, "give dim, index and src"),
        (lambda: mg.diag(x[None]), ShapeError, "Use diagonal"),
        (lambda: mg.diagonal(x, 0, 1, 1), ShapeError, "are the same"),
        (lambda: mg.vander(x), ShapeError, "a vector is needed"),
        (lambda: mg.convolve(x, x), ShapeError, "two vectors with elements"),
        (lambda: mg.convolve(x[0], x[0], "x"), ValueError, "mode is 'full'"),
        (lambda: mg.interp(x, x, x), ShapeError, "two vectors of one length"),
        (lambda: mg.cov(x[None]), ShapeError, "rows of a matrix"),
        (lambda: mg.polygamma(x, -1), ValueError, "an integer from 0 on"),
        (lambda: mg.norm(x, "nuc"), ShapeError, "is of matrices"),
        (lambda: x.view("float32"), TypeError, "To convert elements"),
        (lambda: x.expand(2), ShapeError, "expand: sizes"),
        (lambda: x.detach_(), TypeError, "write x = x.detach"),
    ):
        with pytest.raises(kind, match=says):
            call()
