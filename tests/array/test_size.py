"""`x.size`: an integer wherever one is taken, and PyTorch's method when it is called."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor, Value, nn
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.conformance.cases import NAMESPACE, draw
from micrograd_core.errors import AxisError
from micrograd_core.ops import TABLE, Array, Op, Sample
from micrograd_core.support.size import Size
from tests.ops.definitions import needs_complex


def sized(tree: Any) -> Any:
    """A tree with a `Size` for each integer that may be one."""
    if type(tree) is int and tree >= 0:
        return Size((tree,))
    if type(tree) in (list, tuple):
        return type(tree)(map(sized, tree))
    return tree


def counts(tree: Any) -> int:
    return sum(map(counts, tree)) if type(tree) in (list, tuple) else type(tree) is Size


CASES = [
    pytest.param(op, sample, id=f"{op.name}-{i}")
    for op in TABLE.values()
    for i, sample in enumerate(op.samples)
    if not needs_complex(op) and counts(sized([*sample.params.values(), *draw(sample)]))
]


def test_it_is_a_number_and_a_method() -> None:
    x = mg.zeros((4, 3))
    assert x.size == 12
    assert isinstance(x.size, int)
    assert f"{x.size:4d} {x.size}" == "  12 12"
    assert {12: "twelve"}[x.size] == "twelve"
    assert (x.size(), x.size(0), x.size(-1), x.size(dim=1)) == ((4, 3), 4, 3, 3)
    rows, columns = x.size()
    assert x.view(x.size(0), -1).shape == (rows, columns)
    assert mg.zeros(()).size() == ()


def test_what_is_made_of_it_is_plain() -> None:
    size = mg.zeros((4, 3)).size
    made = [size + 0, -size, size // 1, copy.copy(size), copy.deepcopy([size])[0], pickle.loads(pickle.dumps(size))]
    assert {type(each) for each in made} == {int}
    assert json.loads(json.dumps({"size": size})) == {"size": 12}


def test_an_axis_that_is_not_there() -> None:
    x = mg.zeros((4, 3))
    for dim, named in ((2, "2"), (-3, "-3"), ("rows", "'rows'")):
        with pytest.raises(AxisError, match=rf"size: there is no axis {named}; this tensor's shape is \(4, 3\)"):
            x.size(dim)  # type: ignore[call-overload]


@pytest.mark.parametrize(("op", "sample"), CASES)
@pytest.mark.filterwarnings("ignore:jit")
def test_every_operation_takes_it_for_an_integer(op: Op, sample: Sample) -> None:
    def results(change: Callable[[Any], Any], how: Callable[..., Any] = lambda f: f) -> list[Any]:
        operands = [
            Tensor(np.array(x, dtype=given.dtype or "float32").reshape(given.shape))
            if isinstance(given, Array)
            else change(x)
            for given, x in zip(sample.operands, draw(sample), strict=True)
        ]
        params, function = {name: change(x) for name, x in sample.params.items()}, FUNCTIONS[op.name]

        def called(tensors: list[Tensor]) -> Tensor:
            left = iter(tensors)
            given = [next(left) if isinstance(x, Tensor) else x for x in operands]
            result = function(given, **params) if op.operands == -1 else function(*given, **params)
            return result if op.observe is None else op.observe(NAMESPACE, *result)

        out = how(called)([x for x in operands if isinstance(x, Tensor)])
        if out.requires_grad:
            mg.abs(out).sum().backward()
        grads = [x.grad for x in operands if isinstance(x, Tensor) and x.requires_grad]
        return [(x.dtype, x.shape, x.detach().numpy()) if x is not None else None for x in (out, *grads)]

    plain = results(lambda x: x)
    np.testing.assert_equal(results(sized), plain)
    if sample is op.samples[0]:
        np.testing.assert_equal(results(sized, mg.jit), results(lambda x: x, mg.jit))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize(
    ("dtype", "sign"),
    [(dtype, sign) for dtype in ("float32", "float16") for sign in "+ - * / ** < == // %".split()]
    + [("int8", sign) for sign in "+ - * ** <= // % &".split()]
    + [("complex64", sign) for sign in "+ - * / ** !=".split()],
)
def test_it_is_as_weak_as_an_integer(dtype: str, sign: str, left: bool) -> None:
    x = mg.asarray([1, 2, 3], dtype=dtype)
    line = f"n {sign} x" if left else f"x {sign} n"
    expected, found = (eval(line, {"x": x, "n": n}) for n in (3, x.size))
    assert found.dtype is expected.dtype
    np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())


def test_of_a_value() -> None:
    size = mg.zeros(3).size
    v = Value(2.0)
    out = v**size * size + size / v - size
    out.backward()
    w = Value(2.0)
    same = w**3 * 3 + 3 / w - 3
    same.backward()
    assert (out.data, v.grad) == (same.data, w.grad)


def test_in_programs() -> None:
    def mean(x: Tensor, n: int) -> Tensor:
        return (x * x).sum() / x.size + mg.arange(n).sum().astype("float32") * x.size(0)

    x = mg.asarray([[1.0, 2.0], [3.0, 4.0]])
    for compiled in (mg.jit(mean, static_argnames="n"), lambda x, n: mg.vmap(lambda row: mean(row, n))(x).sum()):
        assert float(compiled(x, x.size)) == float(compiled(x, 4))
    held = x.size
    assert mg.jit(lambda x: x / held)(x).tolist() == (x / 4).tolist()


def test_layers_made_with_it_are_kept(tmp_path: Path) -> None:
    x = mg.ones((2, 3))
    model = nn.Sequential(nn.Linear(x.size(1), x.size), nn.ReLU(), nn.Linear(x.size, 1))
    mg.checkpoints.save(tmp_path / "model", model=model)
    assert mg.checkpoints.load_model(tmp_path / "model")(x).tolist() == model(x).tolist()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mg.one_hot(mg.arange(3), 4.5)", "one_hot: num_classes is an integer; got 4.5"),
        ("mg.one_hot(mg.arange(3), '4')", "one_hot: num_classes is an integer; got '4'"),
        ("mg.tril(mg.ones((3, 3)), 1.5)", "tril: k is an integer; got 1.5"),
        ("mg.triu(mg.ones((3, 3)), diagonal=0.5)", "triu: k is an integer; got 0.5"),
        ("mg.linspace(0, 1, 2.5)", "linspace: num is an integer; got 2.5"),
        ("mg.eye(2.5)", "eye: n_rows is an integer; got 2.5"),
        ("mg.eye(2, '3')", "eye: n_cols is an integer; got '3'"),
        ("mg.eye(2, k=0.5)", "eye: k is an integer; got 0.5"),
    ],
)
def test_what_is_no_integer_is_refused_and_not_cut(line: str, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        eval(line, {"mg": mg})


MADE = """
import micrograd_core as mg
n, x = mg.zeros(3).size, mg.asarray([3.0, 1.0, 2.0])
for made, plain in (
    (mg.arange(n), mg.arange(3)), (mg.arange(n, n * 2, n), mg.arange(3, 6, 3)),
    (mg.linspace(0, n, n), mg.linspace(0, 3, 3)), (mg.zeros(n), mg.zeros(3)), (mg.eye(n, k=-1), mg.eye(3, k=-1)),
    (mg.full((n, n), n), mg.full((3, 3), 3)), (mg.full_like(x, n), mg.full_like(x, 3)),
    (mg.asarray([n, n]), mg.asarray([3, 3])), (mg.where(x > n - 1, n, x), mg.where(x > 2, 3, x)),
    (mg.hessian(lambda x: (x**n).sum())(x), mg.diag(6 * x)), (mg.jacfwd(lambda x: x * x.size)(x), mg.eye(3) * 3),
    (mg.nn.functional.one_hot(mg.arange(n), n), mg.eye(3, dtype="int64")), (x[:n], x), (mg.roll(x, n), x),
    (mg.tril(mg.ones((3, 3)), n), mg.ones((3, 3))),
):
    assert made.dtype is plain.dtype and made.tolist() == plain.tolist(), (made, plain)
"""


@pytest.mark.parametrize("device", ["cpu", "rawbuffer"])
def test_kernels_that_are_checked_at_each_call_see_integers(device: str) -> None:
    settings = {"MICROGRAD_CHECK": "1", "MICROGRAD_DEVICE": device}
    subprocess.run([sys.executable, "-c", MADE], check=True, env=os.environ | settings)
