"""Kernels that return what the op table does not say are named, and a kernel that declines a call is composed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, asarray, plugins
from micrograd_core.array import functions
from micrograd_core.compiler.program import Program, Ref, Step
from micrograd_core.compiler.specs import expected_parts
from micrograd_core.conformance.cases import cases
from micrograd_core.errors import BackendBroken, KernelBroken, ShapeError, UnreadableHandle
from micrograd_core.interpreters.guards import EACH, QUIET, Guard
from micrograd_core.interpreters.raw import compose
from micrograd_core.ops import CORE_KERNELS, TABLE
from micrograd_core.plugins import hookimpl
from micrograd_cpu.storage import CPUBackend

F = functions.FUNCTIONS


class Odd(CPUBackend):
    """NumPy, with some kernels replaced."""

    def __init__(self, **replaced: Any) -> None:
        super().__init__()
        self.device = "odd:0"
        self.kernels.update(replaced)


@pytest.fixture
def odd() -> Iterator[Callable[..., Device]]:
    def opened(**replaced: Any) -> Device:
        class Plugin:
            @hookimpl
            def micrograd_open(self, address: str) -> Any:
                return Odd(**replaced)

        plugins.register("odd", Plugin())
        return Device("odd")

    yield opened
    plugins.unregister("odd")


def narrow(x: Any, *, axis: Any, keepdims: bool) -> Any:
    return np.argmax(x, axis=axis, keepdims=keepdims).astype("uint32")


# ── what a kernel returns ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("op", "kernel", "params", "said"),
    [
        ("argmax", narrow, {"axis": 1}, r"returned uint32 of shape \(2,\); the op table says int64 of shape \(2,\)"),
        ("mean", lambda x, *, axis, **_: np.mean(x, axis, keepdims=True), {"axis": 1}, r"float32 of shape \(2, 1\)"),
        ("tanh", lambda x: np.tanh(x, dtype="float64"), {}, "returned float64 of shape"),
        ("exp", lambda x: 2.0, {}, "returned a float;"),
        ("exp", lambda x: None, {}, "returned a NoneType;"),
        ("exp", lambda x: NotImplemented, {}, "returned NotImplemented;"),
        ("exp", lambda x: np.exp(x).astype(object), {}, r"the dtype dtype\('O'\), none of the device's \(bool, "),
        ("softmax", lambda x, *, axis: x.T, {}, r"shape \(3, 2\); the op table says float32 of shape \(2, 3\)"),
    ],
)  # fmt: skip
def test_a_wrong_result_names_the_kernel(
    odd: Callable[..., Device], op: str, kernel: Any, params: Any, said: str
) -> None:
    x = asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=odd(**{op: kernel}))
    with pytest.raises(KernelBroken, match=rf"the backend of 'odd:0' is broken: its kernel '{op}' .*{said}") as caught:
        F[op](x, **params)
    composed = f"or return None for '{op}' from kernel()"
    assert (composed in str(caught.value)) is (op not in CORE_KERNELS)
    assert isinstance(caught.value, BackendBroken)


@pytest.mark.parametrize(
    ("op", "kernel", "params", "said"),
    [
        (
            "slogdet", lambda x: (np.linalg.det(x), np.linalg.det(x)[..., None]), {},
            r"returned float32 of shape \(2, 1\) as logabsdet; the op table says float32 of shape \(2,\) for",
        ),
        (
            "svd", lambda x, *, full_matrices: np.linalg.svd(x, full_matrices=False), {},
            r"returned float32 of shape \(2, 3, 2\) as U; the op table says float32 of shape \(2, 3, 3\)",
        ),
        (
            "eigh", lambda x: (np.linalg.eigh(x)[0] + 0j, np.linalg.eigh(x)[1]), {},
            r"returned complex64 of shape \(2, 3\) as eigenvalues; the op table says float32 of shape \(2, 3\)",
        ),
        ("qr", lambda x, *, mode: [x, x], {}, "returned a list; the op table says a tuple of Q, R"),
        (
            "fft", lambda x, *, n, axis, norm: np.fft.fft(x, n + 1), {},
            r"returned complex64 of shape \(2, 3, 4\); the op table says complex64 of shape \(2, 3, 3\)",
        ),
    ],
)  # fmt: skip
def test_a_wrong_part_of_a_result_is_named(
    odd: Callable[..., Device], op: str, kernel: Any, params: Any, said: str
) -> None:
    array = np.eye(3, 3 if op != "svd" else 2, dtype="float32") + np.zeros((2, 1, 1), "float32")
    x = asarray(array, device=odd(**{op: kernel}))
    with pytest.raises(KernelBroken, match=rf"its kernel '{op}' {said}"):
        F[op](x, **params)


def test_every_kernel_is_looked_at() -> None:
    """A dtype, and a shape, that each kernel of the NumPy device would be found out with."""
    unknown = set()
    for case in cases(("float32", "float64", "int64", "int32", "bool"), ()):
        if case.op.parts is None and case.layout == "contiguous":
            found = case.call(case.tensors(Device("cpu")))
            operands = case.tensors(Device("cpu"))
            if case.op.observe is None and case.op.compose is not None and not shaped(case, operands, found):
                unknown.add(case.op.name)
    assert unknown == {"argwhere"}  # how many there are depends on the numbers


def shaped(case: Any, operands: list[Any], found: Tensor) -> bool:
    """Whether the spec of a result is known; it is the right one, then."""
    kernels = found._kernels
    parameters = case.op.parameters
    params = {} if parameters is None else parameters(*operands, **case.sample.params)
    common = [x for i, x in enumerate(operands) if isinstance(x, Tensor) and i not in case.op.separate]
    if case.op.cast is not None:
        operands = [x.astype(case.op.cast(x.dtype)) if x in common else x for x in operands]
    operands += case.op.optional[len(operands) - case.op.operands :] if len(operands) < case.op.operands else ()
    specs = [kernels.spec(x._handle) if isinstance(x, Tensor) else x for x in operands]
    wanted, *_ = expected_parts(case.op, tuple(specs), params)
    assert wanted.dtype is found.dtype, case.id
    assert wanted.shape is None or tuple(wanted.shape) == found.shape, case.id
    return wanted.shape is not None


def test_a_kernel_is_taken_at_its_word_and_a_new_dtype_is_not(odd: Callable[..., Device]) -> None:
    device = odd(tanh=lambda x: np.tanh(x, dtype="float32"))
    kernels = device.kernels
    x = asarray([1.0], device=device)
    for _ in range(QUIET + 1):
        assert isinstance(kernels.__dict__.get("tanh", Guard.__new__(Guard)), Guard)
        F["tanh"](x)
    assert not isinstance(kernels.tanh, Guard)
    wide = asarray([1.0], dtype="float64", device=device)
    with pytest.raises(KernelBroken, match=r"'tanh' returned float32 .* says float64"):
        F["tanh"](wide)


def test_a_core_kernel_is_called_without_a_detour(odd: Callable[..., Device]) -> None:
    kernels = odd().kernels
    x = asarray([1.0, 2.0], device="odd")
    for _ in range(QUIET + 1):
        x * x, x - x
    assert kernels.multiply is kernels.backend.kernel("multiply") is np.multiply
    assert kernels.subtract is np.subtract  # a ufunc cannot decline


def test_the_environment_asks_for_every_call(odd: Callable[..., Device], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def late(x: Any) -> Any:
        calls.append(x)
        return np.exp(x).astype("float64" if len(calls) > 2 * QUIET else x.dtype)

    def run(device: Device) -> None:
        for _ in range(2 * QUIET + 1):
            F["exp"](asarray([1.0], device=device))

    run(odd(exp=late))
    calls.clear()
    monkeypatch.setenv("MICROGRAD_CHECK", "1")
    with pytest.raises(KernelBroken, match="'exp' returned float64"):
        run(odd(exp=late))


def test_a_tensor_is_not_read_as_what_it_is_not(odd: Callable[..., Device]) -> None:
    calls = []

    def late(x: Any, *, axis: Any, keepdims: bool) -> Any:
        calls.append(x)
        found = np.argmax(x, axis=axis, keepdims=keepdims)
        return found.astype("uint32") if len(calls) > 2 * QUIET else found

    x = asarray([[1.0, 2.0]] * 4, device=odd(argmax=late))
    for _ in range(2 * QUIET + 1):
        found = F["argmax"](x, axis=1)
    for read in (found.tolist, found.numpy, F["argmax"](x[:1], axis=1).item, partial(repr, found)):
        with pytest.raises(UnreadableHandle, match=r"int64 .* has dtype uint32 and to_host gave .*MICROGRAD_CHECK=1"):
            read()


def test_shapes_that_do_not_fit_are_the_users_error_and_the_kernels(odd: Callable[..., Device]) -> None:
    device = odd(add=lambda x, y: x)
    with pytest.raises(ShapeError, match="broadcast"):
        asarray([1.0, 2.0], device=device) + asarray([1.0, 2.0, 3.0], device=device)


def test_each_combination_of_dtypes_is_checked_a_few_times(
    odd: Callable[..., Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = []
    monkeypatch.setattr(Guard, "check", lambda self, operands, params, result: checked.append(operands[0].dtype.name))
    kernels = odd().kernels
    for dtype in ("float32", "int64") * (2 * QUIET):
        kernels.add(np.ones(1, dtype), np.ones(1, dtype))
    assert sorted(checked) == ["float32"] * EACH + ["int64"] * EACH


# ── kernels that decline ─────────────────────────────────────────────────────────────────────────────────────


def test_any_kernel_may_decline_a_call_at_any_time(odd: Callable[..., Device]) -> None:
    def only_contiguous(x: Any, *, axis: int) -> Any:
        if not x.flags.c_contiguous:
            return NotImplemented
        e = np.exp(x)
        return e / e.sum(axis, keepdims=True)

    x = asarray([[1.0, 2.0], [3.0, 5.0]], device=odd(softmax=only_contiguous))
    for _ in range(2 * QUIET):
        F["softmax"](x)
    np.testing.assert_allclose(
        F["softmax"](x.T).detach().numpy(), F["softmax"](asarray([[1.0, 3.0], [2.0, 5.0]])).detach().numpy()
    )
    leaf = Tensor([[1.0, 2.0], [3.0, 5.0]], device="odd")
    (F["softmax"](leaf.T)[0]).sum().backward()
    assert leaf.grad is not None


@pytest.mark.parametrize("op", sorted(set(TABLE) - CORE_KERNELS))
def test_a_device_that_declines_everything_has_the_compositions(op: str, odd: Callable[..., Device]) -> None:
    """By generation: each kernel that is asked for declines, in its first uses."""
    record = TABLE[op]
    if record.compose is None or record.capability or not record.operands:
        return
    device = odd(**{op: lambda *operands, **params: NotImplemented})
    case = next((each for each in cases(("float32", "int64", "int32", "bool"), (), only=op)), None)
    if case is not None:
        with np.errstate(all="ignore"):
            found, wanted = case.call(case.tensors(device)), case.call(case.tensors(Device("cpu")))
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_a_step_of_a_program_may_be_declined(odd: Callable[..., Device]) -> None:
    device = odd(tanh=lambda x: NotImplemented)
    program = Program(1, (Step("tanh", (Ref(0),), {}), Step("multiply", (Ref(1), 2.0), {})), (Ref(2),))
    (out,) = device.kernels.compile(program)(np.array([0.5]))
    np.testing.assert_allclose(out, 2 * np.tanh([0.5]))


def test_a_kernel_can_call_the_composition(odd: Callable[..., Device]) -> None:
    backend: list[Any] = []
    composed = lambda: compose("log_softmax", backend[0])  # noqa: E731

    def scaled(x: Any, *, axis: int) -> Any:
        return composed()(np.ascontiguousarray(x), axis=axis)

    device = odd(log_softmax=scaled)
    backend.append(device.kernels.backend)
    x = asarray([0.0, 0.0], device=device)
    np.testing.assert_allclose(F["log_softmax"](x).detach().numpy(), [-math.log(2)] * 2, rtol=1e-6)
    with pytest.raises(KeyError, match="'multiply' has no composition"):
        compose("multiply", device.kernels.backend)
    with pytest.raises(KeyError, match="no operation is called 'softmx'; did you mean 'softmax'"):
        compose("softmx", device.kernels.backend)


# ── our own kernels ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["cpu", "rawbuffer", "strict"])
def test_small_integers_keep_their_dtype_inside_a_composition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's sum widens them, and the elements were then read at the wrong width."""
    if not Device.is_available(name):
        pytest.skip(f"{name} is not installed")
    x = asarray(np.array([[100, 100], [3, 4]], "int8"), device=name)
    found = F["vecdot"](x, asarray(np.array([[1, 1], [1, 2]], "int8"), device=name))
    assert (found.dtype.name, found.tolist()) == ("int8", [-56, 11])
    assert F["sum"](x).tolist() == 207


def test_a_kernel_that_takes_more_than_its_operation_may_decline(odd: Callable[..., Device]) -> None:
    def silu(x: Any, out: Any = None) -> Any:
        return NotImplemented

    def softplus(x: Any, y: Any = 0, *, scale: float = 1.0) -> Any:
        return NotImplemented

    device = odd(silu=silu, softplus=softplus)
    x = asarray([1.0, -2.0], device=device)
    for _ in range(2 * QUIET):
        np.testing.assert_allclose(
            F["silu"](x).detach().numpy(), x.detach().numpy() / (1 + np.exp(-x.detach().numpy())), rtol=1e-6
        )
        np.testing.assert_allclose(F["softplus"](x).detach().numpy(), np.log1p(np.exp(x.detach().numpy())), rtol=1e-6)
