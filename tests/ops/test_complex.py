"""Complex numbers: values against NumPy, gradients against finite differences and torch, and what users see of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, asarray, complex64, complex128, gradcheck, gradgradcheck, value_and_grad
from micrograd_core.array import functions
from micrograd_core.conformance.cases import NAMESPACE, draw, symmetric
from micrograd_core.errors import DTypeError, GraphError, UnsupportedDType
from micrograd_core.ops import SAME, TABLE, Array, Op, Sample
from tests.ops.definitions import defined

F = functions.FUNCTIONS


def takes_complex(op: Op, sample: Sample) -> bool:
    """Whether all operands of a sample may be complex, and some array among them has no other dtype."""
    free = [isinstance(o, Array) and o.dtype in ("", "complex128") for o in sample.operands]
    promoted = [i for i in range(len(free)) if i not in op.separate]
    return any(free[i] for i in promoted) and all(
        "complex floating" in op.accepted(i) and (free[i] or not isinstance(sample.operands[i], Array))
        for i in promoted
        if op.operands != -1 or i == 0
    )


SAMPLES = [
    pytest.param(op, sample, id=f"{op.name}-{i}")
    for op in TABLE.values()
    for i, sample in enumerate(op.samples)
    if takes_complex(op, sample) and sample.params.get("dtype", "complex") not in ("float32", "float64")
]
RECORDED = [
    case
    for case in SAMPLES
    if case.values[0].differentiable and case.values[1].params.get("dtype", "complex128") == "complex128"
]


def arrays(sample: Sample) -> list[Any]:
    """Operands off the branch cuts, as NumPy arrays and Python scalars."""
    rng = np.random.default_rng(0)
    found: list[Any] = []
    for o, values in zip(sample.operands, draw(sample), strict=True):
        if not isinstance(o, Array):
            found.append(values)
            continue
        x = np.array(values, dtype=o.dtype or "complex128").reshape(o.shape)
        imaginary = rng.uniform(0.3, 1.2, o.shape) * (o.high if o.kind else 1)
        if o.kind == "symmetric":
            imaginary = (imaginary - imaginary.mT) / 2  # Hermitian
        found.append(np.asarray(x + 1j * imaginary) if x.dtype.kind == "c" else x)
    return found


def call(op: Op, operands: list[Any], params: dict[str, Any]) -> Tensor:
    result = F[op.name](operands, **params) if op.operands == -1 else F[op.name](*operands, **params)
    return result if op.observe is None else op.observe(NAMESPACE, *result)


def vary(op: Op, sample: Sample, operands: tuple[Any, ...]) -> Tensor:
    """`call` on what stays Hermitian if it is meant to be, however finite differences move it."""
    kinds = [getattr(operand, "kind", "") for operand in sample.operands]
    moved = [symmetric(x) if kind == "symmetric" else x for x, kind in zip(operands, kinds, strict=True)]
    return call(op, moved, sample.params)


def leaves(sample: Sample) -> list[Any]:
    return [Tensor(x, requires_grad=x.dtype.kind == "c") if isinstance(x, np.ndarray) else x for x in arrays(sample)]


@pytest.mark.sampled
@pytest.mark.parametrize(("op", "sample"), SAMPLES)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning", "ignore:Mean of empty", "ignore:invalid value")
def test_values_equal_numpys(op: Op, sample: Sample) -> None:
    result = call(op, leaves(sample), sample.params)
    expected = defined(op, *arrays(sample), **sample.params)
    expected = np.asarray(expected if op.observe is None else op.observe(np, *expected))
    assert result.shape == expected.shape
    if op.result is SAME and op.cast is None:
        assert result.dtype is complex128
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.sampled
@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize(("op", "sample"), RECORDED)
def test_gradients_equal_finite_differences(op: Op, sample: Sample, check: Any) -> None:
    def f(*xs: Any) -> Tensor:
        return vary(op, sample, xs)

    if f(*leaves(sample)).dtype.is_floating:
        assert check(f, leaves(sample))


HOLOMORPHIC = ["exp", "log", "sqrt", "sin", "cos", "tanh", "square", "expm1"]
OTHERS = ["abs", "conj", "sign", "real", "imag"]
PAIRS = ["add", "subtract", "multiply", "divide", "pow", "matmul"]


def same_as_torch(ours: Any, theirs: Any, data: list[Any]) -> None:
    """A real function of complex numbers, and its gradients as users see them."""
    torch = pytest.importorskip("torch")
    xs, ys = [Tensor(x) for x in data], [torch.tensor(x, requires_grad=True) for x in data]
    a, b = ours(*xs), theirs(torch, *ys)
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-14)
    a.backward()
    b.backward()
    for x, y in zip(xs, ys, strict=True):
        assert x.grad is not None
        assert str(x.grad.dtype) == x.detach().numpy().dtype.name
        np.testing.assert_allclose(x.grad.numpy(), y.grad.resolve_conj().numpy(), rtol=1e-10, atol=1e-12)


@pytest.fixture
def z() -> Any:
    rng = np.random.default_rng(1)
    return rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))


@pytest.mark.parametrize("name", HOLOMORPHIC + OTHERS)
def test_functions_equal_torch(name: str, z: Any) -> None:
    spelt = {"sign": "sgn"}.get(name, name)
    same_as_torch(
        lambda x: F["sum"](F["square"](F["abs"](F[name](x) + 0.5))),
        lambda torch, x: torch.sum(torch.square(torch.abs(getattr(torch, spelt)(x) + 0.5))),
        [z],
    )


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("real", [False, True])
def test_pairs_equal_torch(name: str, real: bool, z: Any) -> None:
    other = z.imag + 2 if real else 1j * z + 2
    same_as_torch(
        lambda x, y: F["real"](F["sum"](F[name](x, y) * (1 + 2j))),
        lambda torch, x, y: torch.real(torch.sum(getattr(torch, name)(x, y.to(x.dtype)) * (1 + 2j))),
        [z, other],
    )


def test_a_real_leaf_of_a_complex_computation_gets_a_real_gradient() -> None:
    same_as_torch(
        lambda x: F["imag"](F["sum"]((x * 2j + 1) ** 3)),
        lambda torch, x: torch.imag(torch.sum((x * 2j + 1) ** 3)),
        [np.array([1.0, -2.0])],
    )


def test_a_complex_gradient_is_given_as_users_see_it(z: Any) -> None:
    torch = pytest.importorskip("torch")
    x, y = Tensor(z), torch.tensor(z, requires_grad=True)
    x.exp().backward(asarray(z.T))
    torch.exp(y).backward(torch.tensor(z.T.copy()))
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-12)


def test_the_gradient_is_the_direction_of_steepest_ascent() -> None:
    z = Tensor(3 - 4j, dtype="complex128")
    F["abs"](z).backward()
    assert z.grad is not None
    assert z.grad.item() == pytest.approx((3 - 4j) / 5)
    loss, found = value_and_grad(F["abs"])(z)
    assert (loss.item(), found.item()) == (5.0, z.grad.item())


def test_steepest_descent_finds_a_root() -> None:
    z = Tensor(1 + 1j, dtype="complex128")
    for _ in range(200):
        z.zero_grad()
        F["square"](F["abs"](z * z + 1)).backward()
        assert z.grad is not None
        z.data = z.data - 0.02 * z.grad
    assert z.item() == pytest.approx(1j, abs=1e-3)


def test_second_derivatives_through_backward_equal_torch(z: Any) -> None:
    torch = pytest.importorskip("torch")
    x, y = Tensor(z), torch.tensor(z, requires_grad=True)
    F["square"](F["abs"](F["sin"](x))).sum().backward(create_graph=True)
    assert x.grad is not None
    first, x.grad = x.grad, None
    F["square"](F["abs"](first)).sum().backward()
    (g,) = torch.autograd.grad(torch.sin(y).abs().square().sum(), y, create_graph=True)
    g.abs().square().sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-10)


def test_gradients_at_zero_are_zero() -> None:
    for name in ("abs", "sign"):
        z = Tensor([0j, 1 + 0j])
        F["real"](F[name](z)).sum().backward()
        assert z.grad is not None
        assert z.grad.tolist()[0] == 0


def test_backward_from_a_complex_number_wants_a_direction() -> None:
    with pytest.raises(GraphError, match=r"starts from a real number; this tensor is complex64.*abs\(x\) or real\(x\)"):
        Tensor(1j).exp().backward()


def test_parts_make_a_complex_number() -> None:
    same_as_torch(
        lambda x, y: F["abs"](F["complex"](x, y) ** 3).sum(),
        lambda torch, x, y: torch.abs(torch.complex(x, y) ** 3).sum(),
        [np.array([1.0, -2.0]), np.array([0.5, 3.0])],
    )
    x, y = Tensor([1.0, 2.0], dtype="float64"), Tensor([[3.0], [-1.0]], dtype="float64")
    for check in (gradcheck, gradgradcheck):
        assert check(F["complex"], [x, y])
    assert F["complex"](np.inf, asarray([-0.0])).tolist() == [complex(np.inf, -0.0)]
    composed = TABLE["complex"].compose(x._kernels, x._handle, y._handle)  # type: ignore[misc]
    np.testing.assert_array_equal(composed, F["complex"](x, y).detach().numpy())


def test_real_numbers_meet_complex_ones() -> None:
    x = asarray([1.0, 2.0], dtype="float32")
    assert (x * 1j).dtype is complex64
    assert (2j + asarray([1.0], dtype="float64")).dtype is complex128
    assert F["where"](asarray([True, False]), x, 1j).tolist() == [1, 1j]
    assert (x + asarray([1j], dtype="complex64")).dtype is complex64
    assert (asarray([1]) * 1j).dtype is complex64
    with pytest.raises(DTypeError, match="complex 1j does not go with a int64 tensor"):
        F["maximum"](asarray([1]), 1j)
    with pytest.raises(DTypeError, match="complex 1j does not go with a float32 tensor"):
        F["maximum"](x, 1j)
    with pytest.raises(DTypeError, match="complex"):
        x[0] = 1j
    assert x.dtype is not complex64


def test_complex_numbers_do_not_lose_their_imaginary_part_unasked() -> None:
    z = asarray([1 + 2j, 0j])
    with pytest.raises(DTypeError, match=r"a complex64 tensor does not become float32.*real\(x\), imag\(x\) or abs"):
        z.astype("float32")
    assert z.astype("bool").tolist() == [True, False]
    assert [F["real"](z).tolist(), F["imag"](z).tolist(), F["abs"](z).tolist()] == [
        [1, 0], [2, 0], [pytest.approx(5**0.5), 0],
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["less", "maximum", "floor", "max", "std", "softmax", "sigmoid"])
def test_what_has_no_order_is_refused(name: str) -> None:
    z = asarray([1j, 2j])
    with pytest.raises(DTypeError, match=f"{name} takes .*; got complex64"):
        F[name](z, z) if TABLE[name].operands == 2 else F[name](z)


def test_a_device_without_complex_numbers_says_so() -> None:
    with pytest.raises(UnsupportedDType, match="rawbuffer:0 does not support complex64"):
        asarray(1j, device="rawbuffer")


def test_moduli_neither_overflow_nor_vanish() -> None:
    z = asarray([3e200 + 4e200j, 3e-200 - 4e-200j, complex(np.inf, np.nan)], dtype="complex128")
    for modulus in (F["abs"](z), TABLE["abs"].compose(z._kernels, z._handle)):  # type: ignore[misc]
        np.testing.assert_allclose(asarray(modulus).numpy(), [5e200, 5e-200, np.inf], rtol=1e-15)
    with np.errstate(all="ignore"):
        assert not np.isfinite(np.sqrt((z.numpy() * z.numpy().conj()).real))[0]
        phase = TABLE["sign"].compose(z._kernels, z._handle)  # type: ignore[misc]
    np.testing.assert_allclose(phase[:2], [0.6 + 0.8j, 0.6 - 0.8j], rtol=1e-15)


COMPOSED = [
    name
    for name, op in TABLE.items()
    if op.compose is not None
    and op.operands == 1
    and op.parameters is None
    and name not in ("real", "imag", "argwhere")
    if "complex floating" in op.accepted(0)
]


@pytest.mark.parametrize("name", COMPOSED)
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
def test_compositions_hold_for_complex_numbers(name: str) -> None:
    """Whether or not a device here needs them."""
    op, kernels = TABLE[name], Device("cpu").kernels
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 3.0):
        z = scale * (rng.normal(size=40) + 1j * rng.normal(size=40))
        assert op.compose is not None
        np.testing.assert_allclose(op.compose(kernels, z), op.reference(np, z), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_gradient_of_a_part_is_of_the_dtype_of_the_part(dtype: str) -> None:
    x, y = (Tensor([1.0, 2.0, 3.0], dtype=dtype, requires_grad=True) for _ in range(2))
    z = F["complex"](x, y)
    F["real"](z * z).sum().backward()
    for part, expected in ((x, [2.0, 4.0, 6.0]), (y, [-2.0, -4.0, -6.0])):
        assert str(part.grad.dtype) == dtype
        assert part.grad.tolist() == expected
