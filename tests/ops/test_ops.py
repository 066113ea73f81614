"""Every sample of every operation: values against float64 NumPy, gradients against finite differences, twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, asarray, gradcheck, gradgradcheck, shares_memory
from micrograd_core.array import documentation, functions
from micrograd_core.backend import CAPABILITIES
from micrograd_core.conformance.cases import NAMESPACE, draw, symmetric
from micrograd_core.dtypes import complex128, float32, float64
from micrograd_core.errors import UnsupportedOp
from micrograd_core.ops import CORE_KERNELS, SAME, TABLE, Array, Op, Sample
from tests.ops.definitions import defined, needs_complex

CASES = [
    pytest.param(op, sample, id=f"{op.name}-{i}")
    for op in TABLE.values()
    for i, sample in enumerate(op.samples)
    if not needs_complex(op)  # those are in test_complex.py
]
DIFFERENTIABLE = [
    case
    for case in CASES
    if case.values[0].differentiable and any(o.dtype == "" for o in case.values[1].operands if isinstance(o, Array))
]


def arrays(sample: Sample, dtype: str) -> list[Any]:
    """The operands as NumPy arrays and Python scalars."""
    return [
        np.array(values, dtype=operand.dtype or dtype).reshape(operand.shape) if isinstance(operand, Array) else values
        for operand, values in zip(sample.operands, draw(sample), strict=True)
    ]


def call(op: Op, operands: list[Any], params: dict[str, Any]) -> Tensor:
    function = functions.FUNCTIONS[op.name]
    result = function(operands, **params) if op.operands == -1 else function(*operands, **params)
    return result if op.observe is None else op.observe(NAMESPACE, *result)


def vary(op: Op, sample: Sample, operands: tuple[Any, ...]) -> Tensor:
    """`call` on what stays symmetric if it is meant to be, however finite differences move it."""
    kinds = [getattr(operand, "kind", "") for operand in sample.operands]
    moved = [symmetric(x) if kind == "symmetric" else x for x, kind in zip(operands, kinds, strict=True)]
    return call(op, moved, sample.params)


def expected_of(op: Op, sample: Sample) -> Any:
    result = defined(op, *arrays(sample, "float64"), **sample.params)
    return np.asarray(result if op.observe is None else op.observe(np, *result))


def refused(op: Op, sample: Sample, device: Device) -> bool:
    """Whether the device lacks the capability that an operation needs; then it has to say so."""
    if device.kernels.provides(op):
        return False
    for requires_grad in (False, True):
        with pytest.raises(UnsupportedOp, match=f"{op.name} is not supported on .*capability '{op.capability}'"):
            call(op, tensors(sample, "float64", device, requires_grad), sample.params)
    return True


def tensors(sample: Sample, dtype: str, device: Device, requires_grad: bool = False) -> list[Any]:
    return [
        Tensor(x, device=device, requires_grad=requires_grad and x.dtype.kind == "f")
        if isinstance(x, np.ndarray)
        else x
        for x in arrays(sample, dtype)
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("op", "sample"), CASES)
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value", "ignore:Degrees of freedom")
def test_value_shape_and_dtype(op: Op, sample: Sample, dtype: str, device: Device) -> None:
    if refused(op, sample, device):
        return
    result = call(op, tensors(sample, dtype, device), sample.params)
    expected = expected_of(op, sample)
    assert result.shape == expected.shape
    assert result.device is device
    params = dict(sample.params)
    own = tensors(sample, dtype, device)
    common = next((x.dtype for i, x in enumerate(own) if isinstance(x, Tensor) and i not in op.separate), None)
    if op.result is SAME:
        assert result.dtype is (common if op.cast is None else op.cast(common))
    np.testing.assert_allclose(
        result.numpy().astype(expected.dtype),
        expected,
        rtol=1e-12 if dtype == "float64" else 2e-5,
        atol=1e-12 if dtype == "float64" else 2e-6,
    )
    assert params == sample.params


@pytest.mark.sampled
@pytest.mark.parametrize(("op", "sample"), CASES)
def test_inputs_are_unchanged(op: Op, sample: Sample, device: Device) -> None:
    if refused(op, sample, device):
        return
    operands = tensors(sample, "float64", device)
    call(op, operands, sample.params)
    for operand, original in zip(operands, arrays(sample, "float64"), strict=True):
        if isinstance(operand, Tensor):
            np.testing.assert_array_equal(operand.numpy(), original)


@pytest.mark.sampled
@pytest.mark.parametrize(("op", "sample"), DIFFERENTIABLE)
def test_first_gradient(op: Op, sample: Sample, device: Device) -> None:
    def f(*xs: Any) -> Tensor:
        return vary(op, sample, xs)

    if not refused(op, sample, device) and f(*tensors(sample, "float64", device)).dtype in (float64, complex128):
        assert gradcheck(f, tensors(sample, "float64", device, requires_grad=True))


@pytest.mark.sampled
@pytest.mark.parametrize(("op", "sample"), DIFFERENTIABLE)
def test_second_gradient(op: Op, sample: Sample, device: Device) -> None:
    def f(*xs: Any) -> Tensor:
        return vary(op, sample, xs)

    if not refused(op, sample, device) and f(*tensors(sample, "float64", device)).dtype in (float64, complex128):
        assert gradgradcheck(f, tensors(sample, "float64", device, requires_grad=True))


@pytest.mark.sampled
@pytest.mark.parametrize(("op", "sample"), DIFFERENTIABLE)
def test_gradient_has_the_operands_dtype_and_own_memory(op: Op, sample: Sample, device: Device) -> None:
    if refused(op, sample, device):
        return
    operands = tensors(sample, "float32", device, requires_grad=True)
    result = call(op, operands, sample.params)
    if not result.requires_grad:
        assert not any(isinstance(x, Tensor) and x.requires_grad for x in operands) or not result.dtype.is_floating
        return
    seed = asarray(np.ones(result.shape), dtype=result.dtype, device=device)
    result.backward(seed)
    leaves = [x for x in operands if isinstance(x, Tensor) and x.requires_grad]
    for leaf in leaves:
        assert leaf.grad is not None
        assert leaf.grad.dtype is float32
        assert leaf.grad.shape == leaf.shape
        assert leaf.grad.is_contiguous()
        assert not shares_memory(leaf.grad, seed)
        assert not any(
            shares_memory(leaf.grad, other.grad) for other in leaves if other is not leaf and other.grad is not None
        )


@pytest.mark.parametrize("name", sorted(name for name in functions.FUNCTIONS if TABLE[name].parameters is not None))
def test_an_unknown_argument_is_refused_in_the_name_of_the_function(name: str) -> None:
    op = TABLE[name]
    operands = tensors(op.samples[0], "float64", Device("cpu"))
    named = name if name not in ("clip", "spread") else "clip|broadcast_to"  # a function of its own; shared parameters
    with pytest.raises(TypeError, match=rf"^({named})\(\) got .*'nonsense'"):
        call(op, operands, {**op.samples[0].params, "nonsense": 1})


WITH_FLOATS = [case for case in CASES if any(isinstance(x, float) for x in case.values[1].params.values())]


@pytest.mark.parametrize("number", [np.float64, np.float32])
@pytest.mark.parametrize(("op", "sample"), WITH_FLOATS)
def test_parameters_of_numpy_do_not_widen_the_result(op: Op, sample: Sample, number: Any) -> None:
    operands = tensors(sample, "float32", Device("cpu"), requires_grad=True)
    params = {name: number(x) if isinstance(x, float) else x for name, x in sample.params.items()}
    result = call(op, operands, params)
    if result.requires_grad:
        result.sum().backward()
    found = [result, *(x.grad for x in operands if isinstance(x, Tensor) and x.grad is not None)]
    assert all(x.detach().numpy().dtype.name == str(x.dtype) for x in found)


LAYOUTS = {
    "transposed": lambda x: x.mT,
    "stepped": lambda x: x[..., ::2],
    "reversed": lambda x: x[..., ::-1],
    "offset": lambda x: x[1:, ...],
    "broadcast": lambda x: x[..., :1].broadcast_to(x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["exp", "sum", "relu", "copy", "softmax", "tanh", "max", "mean", "cos"])
def test_unary_operations_read_every_layout(name: str, layout: str, device: Device) -> None:
    data = np.linspace(-2, 2, 20).reshape(4, 5)
    view, expected = LAYOUTS[layout](Tensor(data, device=device)), np.array(LAYOUTS[layout](NumpyLike(data)))
    reference = defined(TABLE[name], expected)
    np.testing.assert_allclose(functions.FUNCTIONS[name](view).detach().numpy(), reference, rtol=1e-12, atol=1e-14)
    x = Tensor(data, device=device)
    assert gradcheck(lambda x: functions.FUNCTIONS[name](LAYOUTS[layout](x)), x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_matmul_reads_every_layout(layout: str, device: Device) -> None:
    data = np.linspace(-2, 2, 16).reshape(4, 4)
    a, b = (LAYOUTS[layout](Tensor(x, device=device)) for x in (data, data + 1))
    x, y = (np.array(LAYOUTS[layout](NumpyLike(each))) for each in (data, data + 1))
    np.testing.assert_allclose((a @ b.mT).detach().numpy(), x @ y.T, rtol=1e-12)


class NumpyLike(np.ndarray):
    """NumPy with the spellings that `LAYOUTS` uses."""

    def __new__(cls, data: Any) -> NumpyLike:
        return np.asarray(data).view(cls)

    def broadcast_to(self, shape: tuple[int, ...]) -> Any:
        return np.broadcast_to(self, shape)


@pytest.mark.parametrize("name", sorted(name for name, op in TABLE.items() if op.compose is not None))
def test_compositions_match_native_kernels(name: str) -> None:
    """The cpu has its own kernel for most operations; the table's composition must mean the same."""
    op = TABLE[name]
    assert op.compose is not None
    kernels = Device("cpu").kernels
    for sample in op.samples:
        if needs_complex(op):  # parts of a complex number need a kernel
            continue
        operands = arrays(sample, "float64")
        params = sample.params
        if op.parameters is not None:
            params = op.parameters(*operands, **params)
        if any(isinstance(x, np.ndarray) and x.size == 0 for x in operands) and name in ("mean", "var"):
            continue
        expected = defined(op, *arrays(sample, "float64"), **sample.params)
        if op.cast is not None and op.cast(float64) is complex128:
            operands = tuple(x.astype("complex128") for x in operands)
        found = op.compose(kernels, *operands, **params)
        if op.observe is not None:
            found, expected = op.observe(np, *found), op.observe(np, *expected)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_the_table_is_complete() -> None:
    assert set(TABLE) >= CORE_KERNELS
    for op in TABLE.values():
        assert op.doc.endswith(".")
        assert op.operands == 0 or op.samples, f"{op.name} has no samples"
        assert op.name in CORE_KERNELS or op.compose is not None or op.capability in CAPABILITIES
        if isinstance(op.gradient, tuple):
            assert len(op.gradient) == op.operands


@pytest.mark.parametrize("name", sorted(functions.FUNCTIONS))
def test_every_function_documents_itself(name: str) -> None:
    doc = functions.FUNCTIONS[name].__doc__ or ""
    for section in ("Parameters", "Returns", "Raises"):
        assert section in doc


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("exp", "Tensor\n    Of the operands' common dtype."),
        ("sum", "Tensor\n    Of the dtype that the operands are computed in."),
        ("equal", "Tensor\n    Of bool dtype."),
        ("argmax", "Tensor\n    Of int64 dtype."),
        ("abs", "Tensor\n    Of the dtype of the operands' real parts."),
        ("rfft", "Tensor\n    Of the complex dtype that goes with the operands'."),
        ("one_hot", "Tensor\n    Of the dtype asked for."),
        ("trace", "Tensor\n    Of the dtype told above."),
        ("qr", "named tuple of Tensor: Q, R\n    A matrix with orthonormal columns, and an upper triangular one."),
    ],
)
def test_a_docstring_tells_what_is_returned(name: str, words: str) -> None:
    assert f"-------\n{words}\n" in (functions.FUNCTIONS[name].__doc__ or "")


def test_the_dtype_of_every_result_has_words() -> None:
    told = {op.name: op.result if isinstance(op.result, tuple) else (op.result,) for op in TABLE.values()}
    assert [name for name, each in told.items() if not documentation.RESULTS.keys() >= {*each}] == ["trace"]
