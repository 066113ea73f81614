"""Methods that end in ``_``: torch's numbers and gradients; leaves refuse, views write to their base, shapes stay."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core.array.methods import MADE
from micrograd_core.errors import DTypeError, GraphError, ShapeError

torch = pytest.importorskip("torch")

WRITTEN: Final = [word.partition("=")[0] for names in MADE.values() for word in names.split()]
IN_PLACE: Final = [name[:-1] for name in WRITTEN if name.endswith("_")]
RNG: Final = np.random.default_rng(0)
LOW, HIGH = RNG.uniform(0.2, 0.9, (2, 3)), RNG.uniform(1, 2, (2, 3))
MASK, PLACES = LOW > 0.5, np.array([[0, 2], [1, 0]])
ARGUMENTS: Final[dict[str, list[tuple[Any, ...]]]] = {
    "masked_fill": [(MASK, 2)],
    "cumsum": [(0,), (1,)],
    "cumprod": [(0,), (1,)],
    "logit": [(), (0.3,)],
    "scatter": [(1, PLACES, HIGH[:, :2])],
    "scatter_add": [(1, PLACES, HIGH[:, :2])],
    "scatter_reduce": [(1, PLACES, HIGH[:, :2], "amax")],
    "lerp": [(HIGH, 0.3)],
    "addcmul": [(HIGH, HIGH)],
    "addcdiv": [(HIGH, HIGH)],
}
"""How those are called that take more than a tensor, a number or nothing."""


def theirs(x: Any) -> Any:
    return torch.tensor(x) if isinstance(x, np.ndarray) else x


def ours(x: Any) -> Any:
    return mg.asarray(x) if isinstance(x, np.ndarray) else x


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "int64", "bool"])
@pytest.mark.parametrize("name", IN_PLACE)
def test_numbers_and_gradients_are_torch_s(name: str, dtype: str) -> None:
    compared, is_logical = 0, name.startswith("logical")  # of which torch says that y' = 1
    data = (LOW * 10 if dtype == "int64" else LOW).astype(dtype)
    for given in ARGUMENTS.get(name, [(), (HIGH,), (2,), (1,)]):
        args = [x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype == HIGH.dtype else x for x in given]
        t, x = torch.tensor(data), mg.asarray(data)
        if dtype == "float64":
            t, x = t.requires_grad_(), x.requires_grad_()
        y, z = t.clone(), x.clone()
        try:
            there = getattr(y, f"{name}_")(*map(theirs, args))
        except (TypeError, RuntimeError):
            continue
        try:
            here = getattr(z, f"{name}_")(*map(ours, args))
        except DTypeError:
            assert dtype == "bool", args  # the standard has no arithmetic of bools
            continue
        assert here is z
        assert str(there.dtype) == f"torch.{z.dtype}"
        np.testing.assert_allclose(z.detach().numpy(), there.detach().numpy(), rtol=1e-9)
        compared += 1
        if dtype == "float64" and y.requires_grad and name not in ("floor_divide", "scatter_reduce") and not is_logical:
            try:
                y.sum().backward()
            except NotImplementedError:  # of its own asinh_ and atanh_
                continue
            if z.requires_grad:
                z.sum().backward()
            found = np.zeros_like(data) if x.grad is None else x.grad.numpy()
            np.testing.assert_allclose(found, t.grad.numpy(), rtol=1e-9, atol=1e-12)
    assert compared or dtype != "float64" or name.startswith("bitwise")


def test_a_leaf_that_records_refuses_and_does_not_under_no_grad() -> None:
    x = mg.Tensor([1.0, 2.0])
    for name, args in (("add", (1.0,)), ("zero", ()), ("fill", (3.0,)), ("normal", ()), ("clamp", (0.0, 1.0))):
        with pytest.raises(GraphError):
            getattr(x, f"{name}_")(*args)
    assert x.tolist() == [1.0, 2.0]
    with mg.no_grad():
        assert x.mul_(2.0).tolist() == [2.0, 4.0]
    assert x.data.add_(1.0).tolist() == x.tolist() == [3.0, 5.0]
    x.data.fill_(7.0)
    assert x.tolist() == [7.0, 7.0]
    x.data.copy_(np.array([1.0, 2.0]))
    x.data.mul_(x.detach())
    assert x.tolist() == [1.0, 4.0]
    x.data.normal_()
    x.data.clamp_(100.0, 200.0)
    assert x.tolist() == [100.0, 100.0]
    assert x.requires_grad
    x.zero_grad()
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [200.0, 200.0]


def test_what_is_filled_in_has_its_gradient() -> None:
    v, w = mg.Tensor(2.0), mg.Tensor([1.0, 3.0])
    y = mg.zeros(2).fill_(v)
    z = (w * 1.0).copy_(w * w)
    (y.sum() + z.sum()).backward()
    assert v.grad is not None
    assert w.grad is not None
    assert (v.grad.tolist(), w.grad.tolist()) == (2.0, [2.0, 6.0])
    v.data.fill_(5.0)
    assert y.tolist() == [2.0, 2.0]
    x = mg.zeros(2, dtype="float64")
    assert x.copy_(mg.asarray([1, 2])).tolist() == [1.0, 2.0]
    assert x.fill_(mg.asarray(4.0, dtype="float64")).tolist() == [4.0, 4.0]
    data = mg.ones(2, dtype="float64")
    x.copy_(data)
    x.add_(1.0)
    assert data.tolist() == [1.0, 1.0]


def test_a_view_writes_to_what_it_views() -> None:
    x = mg.zeros((2, 2))
    x[0].add_(1.0)
    x.T[0].fill_(5.0)
    assert x.tolist() == [[5.0, 1.0], [5.0, 0.0]]


def test_what_was_saved_for_a_gradient_is_noticed() -> None:
    w, x = mg.Tensor([1.0, 2.0]), mg.asarray([3.0, 4.0])
    loss = (w * x).sum()
    x.mul_(2.0)
    with pytest.raises(GraphError, match="written in place"):
        loss.backward()


def test_a_shape_stays_as_it_is() -> None:
    x = mg.zeros(3)
    with pytest.raises(ShapeError):
        x.add_(mg.ones((2, 3)))
    assert x.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(AttributeError, match=r"a tensor keeps its shape; write x = x.squeeze\(...\)"):
        x.squeeze_()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_random_numbers_are_those_of_the_functions(dtype: str) -> None:
    x = mg.zeros((2, 3), dtype=dtype)
    mg.random.manual_seed(1)
    assert x.normal_(2.0, 0.5) is x
    first = x.tolist()
    assert x.uniform_(-1.0, 1.0).dtype == mg.zeros(1, dtype=dtype).dtype
    second = x.tolist()
    mg.random.manual_seed(1)
    assert first == mg.random.normal((2, 3), 2.0, 0.5, dtype=dtype).tolist()
    assert second == mg.random.uniform((2, 3), -1.0, 1.0, dtype=dtype).tolist()
    generator = mg.random.Generator(7)
    assert x.normal_(generator=generator).tolist() == mg.random.normal((2, 3), dtype=dtype,
        generator=mg.random.Generator(7)).tolist()  # fmt: skip


def test_attributes_are_torch_s() -> None:
    for dtype in ("float32", "complex64", "int8", "bool", "bfloat16"):
        x, t = mg.zeros((2, 3), dtype=dtype), torch.zeros((2, 3), dtype=getattr(torch, dtype))
        for name in ("itemsize", "nbytes", "ndim"):
            assert getattr(x, name) == getattr(t, name), (dtype, name)
        for name in ("element_size", "numel", "dim", "ndimension", "is_complex", "is_floating_point"):
            assert getattr(x, name)() == getattr(t, name)(), (dtype, name)
    z = np.array([[1 + 2j, 3 - 1j], [0.5j, 2.0]])
    x, t = mg.asarray(z), torch.tensor(z)
    for name in ("real", "imag", "H", "mH"):
        np.testing.assert_array_equal(getattr(x, name).numpy(), getattr(t, name).resolve_conj().numpy())
    y = mg.asarray([1.0, 2.0])
    assert y.real is y
    assert y.imag.tolist() == [0.0, 0.0]
    for name, dtype in (("char", "int8"), ("byte", "uint8"), ("cfloat", "complex64"), ("cdouble", "complex128")):
        assert str(getattr(y, name)().dtype) == dtype
    assert y.new_empty(2, 3).shape == (2, 3)
    np.testing.assert_allclose(y.polygamma(1).numpy(), torch.tensor([1.0, 2.0]).polygamma(1).numpy(), rtol=1e-5)
    assert mg.asarray([1.0, 2.0, 3.0]).searchsorted(mg.asarray([2.5])).tolist() == [2]
