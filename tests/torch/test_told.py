"""Where PyTorch's readers mean something else than what is computed here, they are told, once and with their line."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
import micrograd_core.torch as torch
from micrograd_core import Value, nn, optim
from micrograd_core.errors import GraphError


def square() -> Any:
    """A matrix that records nothing."""
    return mg.asarray([[1.0, 2.0], [3.0, 4.0]])


def leaf() -> Any:
    """A matrix that records."""
    return mg.Tensor([[1.0, 2.0], [3.0, 4.0]])


def descended() -> Any:
    """A parameter that was moved as NumPy's users move numbers."""
    w = leaf()
    (w * w).sum().backward()
    w = w - 0.1 * w.grad
    (w * w).sum().backward()
    return w.grad


WARNINGS: dict[str, tuple[Callable[[], Any], str]] = {
    "std": (lambda: square().std(), "divides by n"),
    "var": (lambda: square().var(0), "divides by n"),
    "mg.std": (lambda: mg.std(square(), 0), "divides by n"),
    "max": (lambda: square().max(1), "write axis=1 for the values, or dim=1 for the pair"),
    "min": (lambda: square().min(0, True), "write axis=0 for the values, or dim=0 for the pair"),
    "mg.max": (lambda: mg.max(square(), 1), "write axis=1"),
    "mg.sort": (lambda: mg.sort(square(), 1), "sort along axis 1.* write axis=1"),
    "median along": (lambda: square().median(1), "write axis=1"),
    "median": (lambda: square().median(), "PyTorch's is the lower one"),
    "nonzero": (lambda: square().nonzero(), "write as_tuple=True"),
    "math.exp": (lambda: math.exp(Value(0.0)), r"no gradient comes through: write x\.exp\(\), or x\.data where"),
    "math.sin": (lambda: 1 + math.sin(mg.Tensor(0.0)) * 2, r"or x\.item\(\) where the number is meant"),
    "float": (lambda: float(leaf().sum()), r"or x\.item\(\) where the number is meant"),
    "grad of a computed tensor": (lambda: (leaf() * 2).grad, "register_hook"),
    "w = w - lr * w.grad": (descended, r"with no_grad\(\): w -= lr \* w\.grad"),
    "step": (lambda: optim.SGD([leaf()], 0.1).step(), r"no parameter has a gradient. Call loss\.backward\(\) before"),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning_names_the_line(name: str) -> None:
    call, said = WARNINGS[name]
    with pytest.warns(RuntimeWarning, match=said) as seen:
        call()
    assert len(seen) == 1
    lines, first = inspect.getsourcelines(call)
    assert seen[0].filename == __file__
    assert first <= seen[0].lineno < first + len(lines)


def test_a_warning_comes_once_for_a_line() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            square().max(1)
    assert len(seen) == 1


def test_what_is_meant_is_not_warned_of() -> None:
    x = leaf()
    for call in (
        lambda: math.exp(x.sum().item()) + x.sum().item(),
        lambda: math.exp(square().sum()) + float(square().sum()),
        lambda: math.isfinite(x.detach().sum()),
        lambda: x.grad,
        lambda: square().grad,
        lambda: square().max(axis=1),
        lambda: square().max(axis=1, keepdim=True),
        lambda: mg.max(square(), axis=1),
        lambda: square().median(axis=None),
        lambda: mg.asarray([1.0, 2.0, 3.0]).median(),
        lambda: square().nonzero(as_tuple=True),
        lambda: mg.std(square()),
    ):
        call()
    with mg.no_grad():
        math.exp(x.sum())
        float(Value(1.0))


def test_pytorchs_words_give_pytorchs_results() -> None:
    x = square()
    for pair in (x.max(dim=1), x.max(1, keepdim=False), mg.max(x, dim=1), torch.max(x, 1), mg.sort(x, dim=1)):
        assert len(pair) == 2
        assert pair.indices.dtype is mg.int64
    assert x.max(1, keepdim=True).values.shape == (2, 1)
    assert x.median(dim=0).values.tolist() == [1.0, 2.0]
    assert x.nonzero(as_tuple=False).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert torch.sort(x)[1].tolist() == [[0, 1], [0, 1]]
    y = x.clone()
    assert y.add_(x, alpha=2) is y
    assert y.tolist() == (3 * x).tolist() == x.add(x, alpha=2).tolist()
    assert y.sub_(x, alpha=2).tolist() == x.tolist()
    assert y.addcmul_(x, x, value=0.5).tolist() == [[1.5, 4.0], [7.5, 12.0]]
    assert y.addcdiv_(x, x, value=-1).tolist() == [[0.5, 3.0], [6.5, 11.0]]
    assert not torch.Tensor([1.0]).requires_grad
    assert torch.equal(x, x) is True
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype is mg.bfloat16


def entered() -> None:
    """A grad mode without brackets."""
    with mg.no_grad:  # type: ignore[attr-defined]
        pass


REFUSALS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "SGD(model)": (lambda: optim.SGD(nn.Linear(2, 1), 0.1), TypeError, r"write SGD\(model\.parameters\(\)\)"),  # type: ignore[arg-type]
    "SGD(MLP)": (lambda: optim.SGD(nn.MLP(2, [1]), 0.1), TypeError, r"write SGD\(model\.tensors\(\)\)"),  # type: ignore[arg-type]
    "SGD(method)": (lambda: optim.SGD(nn.Linear(2, 1).parameters, 0.1), TypeError, r"write SGD\(parameters\(\)\)"),  # type: ignore[arg-type]
    "SGD(None)": (lambda: optim.SGD(None, 0.1), TypeError, r"or model\.parameters\(\)"),  # type: ignore[arg-type]
    "SGD(dict)": (lambda: optim.SGD({"params": [leaf()]}, 0.1), TypeError, "a list of tensors, or of groups"),  # type: ignore[arg-type]
    "SGD(names)": (
        lambda: optim.SGD(nn.Linear(2, 1).named_parameters(), 0.1),  # type: ignore[arg-type]
        GraphError,
        r"Use model\.parameters\(\)",
    ),
    "no_grad": (entered, TypeError, r"write `with no_grad\(\):`"),
    "load_state_dict": (lambda: nn.Linear(2, 1).load_state_dict("file"), TypeError, r"torch\.load\(path\)"),  # type: ignore[arg-type]
    "load_state_dict of a rule": (
        lambda: optim.SGD([leaf()], 0.1).load_state_dict(Path("file")),  # type: ignore[arg-type]
        TypeError,
        r"torch\.load\(path\)",
    ),
    "MLP": (lambda: nn.MLP(2, [3, 1])(np.ones((5, 2))), TypeError, r"Write model\(mg\.asarray\(x\)\)"),
    "jvp": (lambda: mg.jvp(lambda x: x, square(), square()), TypeError, r"write jvp\(f, \(x,\), \(v,\)\)"),
    "normal": (lambda: mg.random.normal(mg.random.Generator(0), (2, 3)), TypeError, r"write normal\(\(2, 3\), gener"),  # type: ignore[arg-type]
    "torch.normal": (lambda: torch.normal(torch.Generator(), (2, 3)), TypeError, r"write torch\.normal\(0\.0, 1\.0"),
    "values": (lambda: mg.max(square(), axis=1).values, AttributeError, r"x\.max\(dim=1\)"),
    "indices": (lambda: mg.sort(square()).indices, AttributeError, r"x\.sort\(\) give the pair"),
    "autocast": (lambda: mg.autocast("cpu", dtype=mg.bfloat16), TypeError, r"write autocast\('bfloat16'\)"),  # type: ignore[misc]
    "numpy": (lambda: leaf().numpy(), GraphError, r"write x\.detach\(\)\.numpy\(\)"),
    "np.asarray": (lambda: np.asarray(leaf()), TypeError, r"x\.detach\(\)\.numpy\(\)"),
    "grad": (lambda: mg.grad(lambda x: x.sum(), square()), TypeError, r"write grad\(f\)\(x\)"),  # type: ignore[call-overload]
    "vmap": (lambda: mg.vmap(lambda x: x, square()), TypeError, r"write vmap\(f\)\(x\)"),
    "jacfwd": (lambda: mg.jacfwd(lambda x: x, square()), TypeError, r"write jacfwd\(f\)\(x\)"),
    "sum": (lambda: square().sum(0, 1), TypeError, r"x\.sum\(\(0, 1\)\)"),
    "mg.mean": (lambda: mg.mean(square(), 0, 1), TypeError, r"x\.mean\(\(0, 1\)\)"),
    "equal": (lambda: square().equal(square()), AttributeError, r"bool\(\(x == y\)\.all\(\)\)"),
    "state_dict": (
        lambda: nn.Linear(2, 1).state_dict()["weight"].copy_(mg.ones((1, 2))),
        GraphError,
        "no module sees a write",
    ),
    "data of state_dict": (lambda: nn.Linear(2, 1).state_dict()["bias"].data.fill_(0.0), GraphError, "load_state_dict"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_an_error_says_what_to_type(name: str) -> None:
    call, kind, said = REFUSALS[name]
    with pytest.raises(kind, match=said):
        call()


def test_a_copy_of_a_state_can_be_used_and_changed_when_it_is_cloned() -> None:
    model, other = nn.Linear(2, 1), nn.Linear(2, 1)
    state = model.state_dict()
    clone = state["weight"].clone()
    clone.fill_(0.0)
    other.weight.data = state.pop("weight")
    other.bias = nn.Parameter(state["bias"])
    with mg.no_grad():
        other.weight += 1
        other.bias += 1
    assert model.weight.tolist() == (other.weight - 1).tolist()
    state["bias"].requires_grad_(True)
    with mg.no_grad():
        state["bias"].zero_()


def test_frozen_parameters_stay_parameters() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    names = [name for name, _ in model.named_parameters()]
    buffers = [name for name, _ in model.named_buffers()]
    model[0].requires_grad_(False)
    model[1].weight.requires_grad = False
    assert [name for name, _ in model.named_parameters()] == names
    assert [name for name, _ in model.named_buffers()] == buffers
    assert isinstance(model[0].weight, nn.Parameter)
    assert not isinstance(model[0].weight, nn.Buffer)
    rule = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    before = {name: x.tolist() for name, x in model.state_dict().items()}
    rule.zero_grad()
    model.zero_grad()
    model(mg.asarray([[1.0, 2.0], [3.0, 5.0]])).sum().backward()
    rule.step()
    moved = {name for name, p in model.named_parameters() if p.tolist() != before[name]}
    assert moved == {"1.bias"}
    with pytest.raises(TypeError, match="is a parameter"):
        model[0].weight = mg.ones((2, 2))
    model.requires_grad_(True)
    assert all(p.requires_grad for p in model.parameters())
    assert not any(x.requires_grad for x in model.buffers())


def test_frozen_parameters_are_known_after_a_copy(tmp_path: Path) -> None:
    import copy
    import pickle

    model = nn.Linear(2, 1).requires_grad_(False)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert [name for name, _ in other.named_parameters()] == ["weight", "bias"]
        assert not other.weight.requires_grad
