"""Functions and methods that PyTorch has, by its names and arguments: values and both gradients are torch's.

One table says how each is called; the same call goes to both, as a function and, where a tensor has it, as a method.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from tests.against_torch import A, Call, N, compare, sampled, torch

X, SQUARE, ROW = A(3, 4), A(4, 4), A(5)
P = A(3, 4, low=0.1, high=0.9)
BITS = N(given=np.array([[True, False, True, True], [False, False, True, False], [True, True, False, False]]))
DISTINCT = N(given=[[0, 2, 1], [3, 1, 0]])
PLACES = N(given=[[0, 2, 1], [3, 3, 0]])
WITH_NAN = A(3, 4, kind=lambda x: np.where(x > 1.5, np.nan, np.where(x < -1.5, np.inf, x)), grad=False)


def exchanged(x: Any) -> Any:
    """Numbers of which some are equal."""
    return np.round(x)


SAME = {
    "cumsum": [Call(X, 0), Call(X, dim=1), Call(X, -1, dtype="float32")],
    "cumprod": [Call(X, 0), Call(X, dim=-1)],
    "cummax": [Call(X, 0), Call(X, dim=1), Call(A(6, 7, kind=exchanged, grad=False), 1), Call(A(2, 3, 9), -1)],
    "cummin": [Call(X, 0), Call(X, dim=1), Call(A(6, 7, kind=exchanged, grad=False), 1)],
    "logcumsumexp": [Call(X, 0), Call(X, dim=1), Call(A(3, 9, low=-50, high=50), 1)],
    "diag": [Call(SQUARE), Call(SQUARE, diagonal=1), Call(A(3, 4), 1), Call(ROW), Call(ROW, -2)],
    "diagonal": [Call(SQUARE), Call(A(2, 3, 4), 1, 0, 2), Call(A(2, 3, 4), offset=-1, dim1=1, dim2=2)],
    "trace": [Call(SQUARE), Call(A(3, 4))],
    "kron": [Call(A(2, 3), A(3, 2)), Call(A(2), A(2, 3))],
    "nan_to_num": [Call(X), Call(WITH_NAN), Call(WITH_NAN, 1.0, 2.0, 3.0)],
    "isclose": [Call(X, X), Call(WITH_NAN, WITH_NAN, equal_nan=True), Call(X, A(3, 4), 0.5, 0.5)],
    "logit": [Call(P), Call(A(3, 4, low=0.0, high=1.0), 0.2)],
    "lgamma": [Call(A(3, 4, low=0.1, high=12.0)), Call(A(9, low=-4.9, high=0.0))],
    "digamma": [Call(A(3, 4, low=0.1, high=12.0), tolerance=1e-8), Call(A(9, low=-4.9, high=0.0), tolerance=1e-8)],
    "erfinv": [Call(A(3, 4, low=-0.99, high=0.99))],
    "erf": [Call(X)], "erfc": [Call(X)],
    "i0": [Call(A(3, 4, low=-30.0, high=30.0))],
    "exp2": [Call(X)], "rsqrt": [Call(P)],
    "lerp": [Call(X, A(3, 4), 0.3), Call(X, A(3, 4), A(3, 4))],
    "fmod": [Call(X, 0.7), Call(X, A(3, 4, low=0.3)), Call(N(9, low=-9, high=9), 4)],
    "gather": [Call(X, 1, PLACES), Call(X, 0, N(given=[[0, 2, 1, 0]])), Call(X, dim=-1, index=PLACES)],
    "scatter": [Call(X, 1, DISTINCT, A(2, 3)), Call(X, 1, N(given=[[0, 2], [1, 3]]), 2.0),
        Call(A(3, 4, grad=False), 1, PLACES, 2.0, reduce="add"),
        Call(A(3, 4), dim=0, index=N(given=[[0, 2, 1, 0]]), value=3.0)],
    "scatter_add": [Call(X, 1, PLACES, A(2, 3)), Call(X, 0, N(given=[[0, 2, 2, 0]]), A(1, 4))],
    "scatter_reduce": [
        *(Call(X, 1, PLACES, A(2, 3), word, include_self=own, order=1)
          for word in ("sum", "mean", "amax", "amin") for own in (True, False)),
        Call(A(3, 4, low=0.5), 1, PLACES, A(2, 3, low=0.5), "prod", order=1),
    ],
    "index_select": [Call(X, 0, N(given=[2, 0, 2])), Call(X, dim=-1, index=N(given=[3, 3]))],
    "masked_fill": [Call(X, BITS, 3.0), Call(A(2, 3, 4), BITS, -1)],
    "masked_select": [Call(X, BITS), Call(A(4), BITS)],
    "topk": [Call(X, 2), Call(X, 3, 0), Call(X, 2, dim=1, largest=False), Call(X, 1, -1, True, True)],
    "kthvalue": [Call(X, 2), Call(X, 3, 0), Call(X, 1, dim=1, keepdim=True)],
    "quantile": [
        Call(X, 0.3), Call(X, 0.7, 1), Call(X, 0.5, dim=0, keepdim=True), Call(X, 0.3, interpolation="nearest"),
        Call(X, A(3, low=0.0, high=1.0, grad=False), 1),
        *(Call(X, 0.4, 1, interpolation=word) for word in ("lower", "higher", "midpoint")),
    ],
    "roll": [Call(X, 2), Call(X, -1, 1), Call(X, (1, 2), (0, 1))],
    "rot90": [Call(X), Call(A(2, 3, 4), 3, (0, 2)), Call(X, k=2, dims=(1, 0)), Call(X, 4)],
    "repeat_interleave": [Call(X, 2), Call(X, 3, 1), Call(X, 2, dim=0)],
    "tile": [Call(X, (2, 1)), Call(X, (2,))],
    "split": [Call(X, 2), Call(X, 3, 1), Call(X, [1, 2], dim=0)],
    "chunk": [Call(A(7, 2), 3), Call(X, 2, dim=1)],
    "unbind": [Call(X), Call(X, 1)],
    "flatten": [Call(A(2, 3, 4)), Call(A(2, 3, 4), 1), Call(A(2, 3, 4), 0, 1), Call(A(0, 3, 4), 1), Call(A())],
    "vander": [Call(ROW, order=0), Call(ROW, 3, order=0), Call(ROW, N=3, increasing=True, order=0)],
    "cross": [Call(A(4, 3), A(4, 3), dim=-1)],
    "cov": [Call(X), Call(ROW), Call(X, correction=0), Call(X, fweights=N(4, low=1, high=4)),
        Call(X, aweights=A(4, low=0.1, grad=False))],
    "corrcoef": [Call(X)],
    "trapezoid": [Call(X), Call(X, A(4)), Call(X, dim=0), Call(X, A(3, 4), dim=1)],
    "einsum": [
        Call("ij,jk", A(2, 3), A(3, 4)),
        Call("ij,jk->ki", [A(2, 3), A(3, 4)]), Call("ii->i", SQUARE), Call("ii", SQUARE),
        Call("...ij,...jk->...ik", A(5, 2, 3), A(3, 2)),
        Call("bii->b", A(2, 3, 3)), Call("i,i,i", ROW, A(5), A(5)),
    ],
    "tensordot": [Call(X, A(4, 2), 1), Call(X, A(3, 4), dims=([0, 1], [0, 1]))],
    "diff": [
        Call(X), Call(X, 2), Call(X, 1, 0), Call(X, dim=0), Call(X, n=2), Call(X, prepend=A(3, 1), append=A(3, 2))],
    "logical_and": [Call(N(3, 4), X), Call(BITS, BITS)], "logical_or": [Call(N(3, 4), X)],
    "logical_xor": [Call(N(3, 4), X)], "logical_not": [Call(N(3, 4)), Call(X)],
    "softmax": [Call(X, -1), Call(X, dim=0), Call(A(), -1), Call(A(), dim=0)],
    "log_softmax": [Call(X, -1), Call(X, dim=0), Call(A(), 0)],
    "logsumexp": [Call(X, 0), Call(X, dim=1, keepdim=True), Call(X, 1, True)],
    "sum": [Call(X, 0), Call(X, dim=(0, 1), keepdim=True), Call(A(), 0), Call(A(), -1), Call(X, 1, True)],
    "mean": [Call(X, 0), Call(X, dim=1, keepdim=True), Call(A(), 0)],
    "prod": [Call(X, 0), Call(X, dim=1, keepdim=True), Call(A(), -1)],
    "amax": [Call(X, 0), Call(X, dim=1, keepdim=True), Call(A(), 0)],
    "argmax": [Call(X, 0), Call(X, dim=1, keepdim=True), Call(A(), 0)],
    "argmin": [Call(X, 0), Call(X), Call(X, -1)],
    "argsort": [Call(X, 0), Call(X, -1, True), Call(X, dim=1, descending=True)],
    "count_nonzero": [Call(N(3, 4)), Call(N(3, 4), dim=0)],
    "flip": [Call(X, (0,)), Call(X, (0, 1))],
    "squeeze": [Call(A(1, 3, 1)), Call(A(1, 3, 1), 0), Call(A(1, 3, 1), dim=2)],
    "concat": [Call([X, A(2, 4)]), Call([X, A(3, 2)], 1), Call([X, A(3, 2)], dim=-1)],
    "stack": [Call([X, A(3, 4)], 1), Call([X, A(3, 4)], dim=-1)],
    "norm": [Call(X), Call(X, 1), Call(X, 2, 0), Call(X, p=3, dim=1), Call(X, float("inf"), -1, True)],
    "broadcast_to": [Call(A(4), (3, 4))],
    "moveaxis": [Call(A(2, 3, 4), 0, 2), Call(A(2, 3, 4), (0, 1), (1, 2))],
    "outer": [Call(A(3), A(4))],
    "tril": [Call(SQUARE), Call(SQUARE, 1)], "triu": [Call(SQUARE, -1), Call(SQUARE, diagonal=1)],
    "histogram": [Call(A(20, grad=False), 5), Call(A(20, grad=False), 4, range=(-1.0, 1.0)),
        Call(A(20, grad=False), 4, density=True)],
}  # fmt: skip

METHODS: dict[str, list[Call]] = {
    "unsqueeze": [Call(X, 0), Call(X, -1)], "view": [Call(X, 2, 6), Call(X, (-1,)), Call(X, -1, 3)],
    "take_along_dim": [Call(X, N(given=[[0, 2], [3, 1], [1, 1]]), 1), Call(X, N(given=[[0, 2, 1, 0]]), dim=0)],
    "view_as": [Call(X, A(4, 3))], "permute": [Call(A(2, 3, 4), 2, 0, 1), Call(A(2, 3, 4), (1, 2, 0))],
    "expand": [Call(A(3, 1), 3, 4), Call(A(3, 1), (2, -1, 4))], "expand_as": [Call(A(4), A(3, 4))],
    "reshape_as": [Call(X, A(2, 6))], "clone": [Call(X)], "contiguous": [Call(X)], "t": [Call(X), Call(ROW)],
    "unflatten": [Call(A(6, 2), 0, (2, 3)), Call(A(6, 2), 0, (-1, 3))], "ravel": [Call(X)],
    "swapaxes": [Call(A(2, 3, 4), 0, 2)], "swapdims": [Call(A(2, 3, 4), 0, -1)], "movedim": [Call(A(2, 3, 4), 0, 2)],
    "narrow": [Call(X, 1, 1, 2)], "select": [Call(X, 1, -1)], "unbind": [Call(X, 1)],
    "double": [Call(X)], "long": [Call(A(3, grad=False))], "bool": [Call(N(3))], "int": [Call(A(3, grad=False))],
    "type_as": [Call(N(3), A(1, grad=False))], "where": [Call(X, BITS, A(3, 4)), Call(X, BITS, 0.5)],
    "add": [Call(X, A(3, 4)), Call(X, 2)], "sub": [Call(X, A(4))], "mul": [Call(X, A(3, 4))], "div": [Call(X, P)],
    "pow": [Call(P, 2.5)], "neg": [Call(X)], "eq": [Call(X, X)], "ne": [Call(X, X)], "lt": [Call(X, 0)],
    "le": [Call(X, 0)], "gt": [Call(X, 0)], "ge": [Call(X, 0)], "clamp": [Call(X, -1, 1), Call(X, min=0.0)],
    "maximum": [Call(X, A(3, 4))], "minimum": [Call(X, A(3, 4))], "atan2": [Call(X, A(3, 4))], "mm": [Call(X, A(4, 2))],
    "bmm": [Call(A(2, 3, 4), A(2, 4, 2))], "mv": [Call(X, A(4))], "log2": [Call(P)], "log10": [Call(P)],
    "tan": [Call(P)],
    "asin": [Call(P)], "acos": [Call(P)], "atan": [Call(X)], "sinh": [Call(X)], "cosh": [Call(X)], "asinh": [Call(X)],
    "acosh": [Call(A(3, low=1.5, high=3.0))], "atanh": [Call(P)], "reciprocal": [Call(P)], "trunc": [Call(X)],
    "round": [Call(X)], "absolute": [Call(X)], "positive": [Call(X)], "hypot": [Call(X, A(3, 4))],
    "new_zeros": [Call(X, 2, 3), Call(X, (2,))], "new_ones": [Call(X, 2)], "new_full": [Call(X, (2, 2), 3.0)],
    "add_": [Call(X, 2.0)], "mul_": [Call(X, 2.0)], "sub_": [Call(X, 1.0)], "div_": [Call(X, 2.0)], "neg_": [Call(X)],
    "exp_": [Call(X)], "abs_": [Call(X)], "tanh_": [Call(X)], "sigmoid_": [Call(X)], "relu_": [Call(X)],
    "clamp_": [Call(X, -1.0, 1.0)], "fill_": [Call(X, 2.0)], "zero_": [Call(X)], "masked_fill_": [Call(X, BITS, 1.0)],
    "copy_": [Call(X, A(3, 4))], "scatter_add_": [Call(X, 1, PLACES, A(2, 3))], "log_": [Call(P)], "sqrt_": [Call(P)],
    "pow_": [Call(P, 2.0)],
    "dim": [Call(X)], "numel": [Call(X)], "is_floating_point": [Call(X)],
}  # fmt: skip
METHODS.update({name: calls for name, calls in SAME.items() if hasattr(mg.Tensor, name) and name != "norm"})


NUMPY_S = {"median", "quantile", "interp", "convolve", "equal", "less", "greater_equal", "allclose"}
"""What torch has otherwise, or not at all: held against NumPy, and differences, in `test_names_numpy`."""

NAMES = """
cummax cummin logcumsumexp cumprod diag diagonal trace kron nan_to_num isclose allclose logit lgamma digamma polygamma
erfinv i0 exp2 rsqrt lerp fmod gather scatter scatter_add scatter_reduce take_along_axis masked_fill masked_select
index_select topk kthvalue median quantile histogram roll rot90 repeat_interleave tile split chunk vander cross cov
corrcoef interp trapezoid convolve einsum diff logical_and logical_or logical_xor logical_not equal less greater_equal
cumsum softmax log_softmax logsumexp sum mean prod max argmax argmin argsort count_nonzero flip squeeze concat stack
norm flatten moveaxis outer tril triu broadcast_to
"""


def test_every_function_that_is_typed_is_held_against_another_and_stands_in_the_docs() -> None:
    folder = Path(__file__).parents[2] / "docs"
    text = "".join(
        (folder / page).read_text(encoding="utf-8") for page in ("functional.md", "operations.md", "linalg.md")
    )
    others = {"polygamma", "max", "take_along_axis"}  # in tests of their own, and as amax and take_along_dim
    for name in NAMES.split():
        assert callable(getattr(mg, name))
        assert name in SAME or name in NUMPY_S | others, name
        assert re.search(rf"`(linalg\.)?{name}[`(]", text), name


def named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives arrays as they come, and what is no array as one."""

    def call(*args: Any, **kwargs: Any) -> Any:
        out = function(*args, **kwargs)
        if isinstance(out, (int, float)):
            return mg.asarray(out) if isinstance(args[0], mg.Tensor) else torch.tensor(out)
        return tuple(out) if isinstance(out, (list, tuple)) else out

    call.__name__ = name
    return call


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "call"), sampled({k: v for k, v in SAME.items() if k != "unbind"}))
def test_a_function_is_torch_s(name: str, call: Call) -> None:
    ours = getattr(mg, name, None) or getattr(mg.Tensor, name)
    compare(call, named(name, ours), named(name, getattr(torch, name)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "call"), sampled(METHODS))
def test_a_method_is_torch_s(name: str, call: Call) -> None:
    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(x, name)(*args, **kwargs)

    compare(call, named(name, method), named(name, method))


def test_polygamma_is_torch_s_with_its_arguments_the_other_way_round() -> None:
    for n in range(5):
        call = Call(A(3, 4, low=0.2, high=12.0), tolerance=1e-7)
        compare(call, lambda x, n=n: mg.polygamma(x, n), lambda x, n=n: torch.polygamma(n, x))
    call = Call(A(8, low=-3.9, high=0.0), order=1, tolerance=1e-7)
    compare(call, lambda x: mg.polygamma(x, 1), lambda x: torch.polygamma(1, x))
    compare(call, mg.i1, torch.special.i1)
