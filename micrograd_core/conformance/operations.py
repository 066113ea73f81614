"""Operations: value, shape, dtype, aliasing, and the gradients to second order, of every sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from micrograd_core import errors
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray, shares_memory
from micrograd_core.conformance.base import Suite
from micrograd_core.conformance.cases import HALF, ROUNDING, Case, apart, download, held, rounded, upload, wide
from micrograd_core.conformance.forms import ITERATED
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES, DType
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import TraceError
from micrograd_core.interpreters.traced import UNSHAPED
from micrograd_core.ops import SAME, TABLE
from micrograd_core.transforms.derivatives import grad
from micrograd_core.transforms.jit import jit

FACTOR: Final = 16
"""How many times NumPy's own error in a dtype (plus one rounding of the answer) a device may be off."""


class Operations(Suite):
    """One operation at a time."""

    def test_operation_is_available(self, op: str, opened: Device) -> None:
        """A kernel, or a composition whose parts the device has; or a refusal that names the capability it lacks."""
        if opened.kernels.provides(TABLE[op]):
            assert getattr(opened.kernels, op) is not None
            return
        with pytest.raises(errors.UnsupportedOp, match=f"{op} is not supported on .*'{TABLE[op].capability}'"):
            getattr(opened.kernels, op)

    def test_value(self, case: Case, opened: Device) -> None:
        """Shape, dtype and numbers; inputs unchanged, and not within reach of who writes to the result."""
        operands = case.tensors(opened)
        wanted = _dtype(case, operands)
        if _lacks(opened, wanted, lambda: case.call(operands)):
            return
        with np.errstate(all="ignore"):
            result = case.call(operands)
        expected = case.expected()
        assert result.device is opened, f"{case.id}: the result is on {result.device}"
        assert result.shape == expected.shape, f"{case.id}: shape {result.shape}, expected {expected.shape}"
        assert result.dtype is wanted, f"{case.id}: dtype {result.dtype}, expected {wanted}"
        native = opened.kernels.dtype(result._handle)
        assert native is wanted, f"{case.id}: the kernel's result has dtype {native}, expected {wanted}"
        narrow = case.dtype in ROUNDING
        factor = 4 * FACTOR if case.op.name in ITERATED else FACTOR
        _close(result, expected, case.expected(case.dtype) if narrow else expected, case.id, factor=factor)
        for position, (operand, array) in enumerate(zip(operands, case.arrays(), strict=True)):
            if isinstance(operand, Tensor):
                same = np.array_equal(download(operand), array, equal_nan=array.dtype.kind in "fc")
                assert same, f"{case.id}: the kernel changed its input {position}"
        if not case.op.view:
            aliases_nothing(case, operands, result)

    def test_first_gradient(self, case: Case, opened: Device) -> None:
        """Along a random direction, against a central difference; in narrow dtypes that of the definition in NumPy."""
        if case.dtype in ROUNDING:
            _against_definition(case, opened)
        else:
            _directional(case.vary, case, opened, step=1e-6, tolerance=1e-6)

    def test_second_gradient(self, case: Case, opened: Device) -> None:
        """The gradient's own gradient, likewise."""
        gradient = gradients_of(case.vary, case.tensors(opened, requires_grad=True))

        def gradients(xs: list[Any]) -> Any:
            return projected(gradient(xs))

        if case.dtype in ROUNDING:
            _against_definition(case, opened, gradients)
        else:
            _directional(gradients, case, opened, step=1e-5, tolerance=1e-5)


def gradients_of(f: Callable[[list[Any]], Any], operands: list[Any]) -> Callable[[list[Any]], Any]:
    """The gradients of `projected` results of `f`, by all operands that record."""
    varied = [i for i, x in enumerate(operands) if isinstance(x, Tensor) and x.requires_grad]
    found = grad(lambda *xs: projected(f(list(xs))), varied)
    return lambda xs: found(*xs)


def projected(results: Any) -> Any:
    """A fixed random projection of one or several results to one number."""
    parts = [_weighted(x) for x in (results if isinstance(results, (tuple, list)) else [results])]
    return sum(parts[1:], parts[0])


def aliases_nothing(case: Case, operands: list[Any], result: Tensor) -> None:
    """Only views may share an operand's memory."""
    for position, operand in enumerate(operands):
        if not (result.size and isinstance(operand, Tensor) and operand.size and shares_memory(result, operand)):
            continue
        before = operand.tolist()
        result[...] = ~result if result.dtype.kind == "bool" else result + 1
        assert operand.tolist() == before, f"{case.id}: a write to the result changes operand {position}"


def _dtype(case: Case, operands: list[Any]) -> Any:
    own = [x.dtype for i, x in enumerate(operands) if isinstance(x, Tensor) and i not in case.op.separate]
    common = own[0] if own else DTYPES["float32"]
    common = case.op.cast(common) if case.op.cast is not None else common
    told = case.op.result
    if isinstance(told, tuple):  # of parts, which make one tensor
        told = SAME if SAME in told else told[0]
    if isinstance(told, str):
        return common
    parameters = case.op.parameters
    return told(common, {} if parameters is None else parameters(*operands, **case.sample.params))


def _close(result: Tensor, expected: Any, in_dtype: Any, id: str, *, factor: float) -> None:
    """As near to the float64 answer as NumPy's own result in that dtype, within `factor`."""
    found, allowed, name = held(result, expected), 0, str(result.dtype)
    if expected.dtype.kind not in "biu":
        rounding = ROUNDING.get(name, 2.0**-52)
        with np.errstate(all="ignore"):
            error = np.abs(in_dtype.astype(expected.dtype) - expected)
            error = error * rounding / ROUNDING[HALF[name]] if name in HALF else error
            allowed = factor * (error + rounding * np.maximum(np.abs(expected), 1))
    wrong = apart(found, expected, allowed)
    assert not wrong.any(), f"{id}: got {found[wrong][:4].tolist()}, expected {expected[wrong][:4].tolist()}"


def _random(shape: tuple[int, ...], dtype: Any, low: float, seed: int) -> Any:
    """Fixed random numbers from `low` to the other side of 0.5, complex where the dtype is."""
    rng = np.random.default_rng(seed)
    numbers = np.asarray(rng.uniform(low, 1.5 if low > 0 else 1.0, shape))
    return numbers + 1j * rng.uniform(-1, 1, shape) if dtype.is_complex else numbers


def _weights(shape: tuple[int, ...], dtype: Any) -> Any:
    """Fixed random numbers that a dtype holds."""
    return rounded(_random(shape, dtype, 0.5, len(shape)), dtype.name)


def _weighted(x: Tensor) -> Any:
    """A fixed random projection to a real scalar."""
    weights = upload(_weights(x.shape, x.dtype), x.device, x.dtype.name)
    total = (x * weights).sum()
    return FUNCTIONS["real"](total) if x.dtype.is_complex else total


def _derivative(f: Any, case: Case, device: Device) -> tuple[dict[int, Any], list[Any]]:
    """A random direction for each operand that varies, and the terms of the derivative of the real `f` along them.

    Of a complex operand the gradient is the direction of steepest ascent, so that the derivative along `d` is the real
    part of ``conj(gradient) * d``.
    """
    operands = case.tensors(device, requires_grad=True)
    varied = [i for i, x in enumerate(operands) if isinstance(x, Tensor) and x.requires_grad]
    directions = {i: _random(operands[i].shape, operands[i].dtype, -1.0, i + 1) for i in varied}
    if case.layout == "broadcast":  # elements that are tied by repetition stay tied: max has no other derivative there
        directions = {i: np.broadcast_to(d[..., :1], d.shape) if d.ndim else d for i, d in directions.items()}
    value = f(operands)
    if value.requires_grad:
        value.backward()
    gradients = [(operands[i].grad, d) for i, d in directions.items()]
    terms = [(np.conj(np.asarray(g.tolist()).reshape(d.shape)) * d).real for g, d in gradients if g is not None]
    return directions, terms


def _against_definition(case: Case, device: Device, gradients: Any = None) -> None:
    """What the device says of a derivative, in a dtype too narrow for differences, against the definition's.

    The numbers of a narrow dtype are numbers of a wide one too: there NumPy computes the operation's definition beside
    them, and divides the differences. The first derivative is that of the weighted result along a random direction;
    the second goes once more along the weights that the test gives the gradients.
    """
    operands, arrays = case.tensors(device), case.arrays()
    kinds = [getattr(operand, "kind", "") for operand in case.sample.operands]
    with np.errstate(all="ignore"):
        result = case.vary(operands)
        weights = np.conj(_weights(result.shape, result.dtype)).astype("complex128")
        directions, terms = _derivative(gradients or (lambda xs: _weighted(case.vary(xs))), case, device)

        def at(*steps: tuple[float, dict[int, Any]]) -> float:
            """The weighted result of the definition, some steps from where the case is."""
            moved = [wide(x) if i in directions else x for i, x in enumerate(arrays)]
            for size, along in steps:
                for i in directions:
                    moved[i] = moved[i] + size * along[i]
            moved = [
                (x + np.conj(np.swapaxes(x, -1, -2))) / 2 if kind == "symmetric" else x
                for x, kind in zip(moved, kinds, strict=True)
            ]
            return float((np.conj(weights) * case.define(moved)).sum().real)

        if gradients is None:
            step = 1e-6
            numeric = (at((step, directions)) - at((-step, directions))) / (2 * step)
        else:
            step = 1e-4
            along = {i: np.conj(_weights(arrays[i].shape, operands[i].dtype)) for i in directions}
            numeric = sum(a * b * at((a * step, along), (b * step, directions)) for a in (1, -1) for b in (1, -1)) / (
                4 * step * step
            )
    analytic, size = float(sum(x.sum() for x in terms)), float(sum(np.abs(x).sum() for x in terms))
    limit = max(FACTOR * ROUNDING[case.dtype], 1e-4) * max(1.0, abs(numeric), size)
    which = "gradient" if gradients is None else "second gradient"
    assert abs(analytic - numeric) <= limit, (
        f"{case.id}: the {which} is {analytic}, a finite difference of the definition {numeric}"
    )


def _directional(f: Any, case: Case, device: Device, *, step: float, tolerance: float) -> None:
    """The derivative of the weighted result along a random direction: reverse mode against a central difference."""
    with np.errstate(all="ignore"):
        directions, terms = _derivative(lambda xs: _weighted(f(xs)), case, device)
        sides = []
        with no_grad():
            for sign in (1, -1):
                moved = case.tensors(device)
                for i, d in directions.items():
                    moved[i] = moved[i] + asarray(sign * step * d, dtype=moved[i].dtype, device=device)
                sides.append(_weighted(f(moved)).item())
    analytic, numeric = float(sum(x.sum() for x in terms)), (sides[0] - sides[1]) / (2 * step)
    limit = tolerance * max(1.0, abs(numeric), abs(sides[0]))
    assert abs(analytic - numeric) <= limit, f"{case.id}: the gradient is {analytic}, a finite difference {numeric}"


# ── under jit ─────────────────────────────────────────────────────────────────────────────────────────────────

ROUNDINGS = 64
"""By how many a compiled program may differ, relative to the greatest number of the result: its sums have an order of
their own, and what is fused is rounded less often."""


class Compiled(Suite):
    """Each sample inside a traced function."""

    def test_jit(self, case: Case, opened: Device) -> None:
        """The result, and that it is traced once."""
        operands = case.tensors(opened)
        if case.op.name in UNSHAPED:
            with pytest.raises(TraceError, match="depends on numbers"):
                jit(_taking(case.call))(*operands)
            return
        if _lacks(opened, _dtype(case, operands), lambda: jit(_taking(case.call))(*operands)):
            return
        _agree(case, case.call, operands)

    def test_jit_first_gradient(self, case: Case, opened: Device) -> None:
        """The gradients of all operands, taken inside and outside."""
        _derived(case, opened, gradients_of)

    def test_jit_second_gradient(self, case: Case, opened: Device) -> None:
        """The gradients of the gradients, likewise."""
        _derived(case, opened, lambda f, operands: gradients_of(gradients_of(f, operands), operands))


def _lacks(device: Device, dtype: DType, act: Callable[[], Any]) -> bool:
    """Whether a device has no such dtype; then what asks for it must say so."""
    if dtype.name in device.kernels.backend.dtypes:
        return False
    with pytest.raises(errors.UnsupportedDType, match=dtype.name):
        act()
    return True


def _taking(f: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    return lambda *operands: f(list(operands))


def _derived(case: Case, device: Device, derive: Callable[[Any, list[Any]], Any]) -> None:
    """What is derived from a sample: itself compiled, and derived from the compiled sample."""
    operands = case.tensors(device, requires_grad=True)
    plain, compiled = derive(case.vary, operands), jit(_taking(case.vary))
    _agree(case, plain, operands)
    _agree(case, derive(lambda xs: compiled(*xs), operands), operands, plain)


def _agree(case: Case, f: Callable[[list[Any]], Any], operands: list[Any], plain: Any = None) -> None:
    """Compiled twice over, in two calls: shapes, dtypes, and numbers but for rounding."""
    with np.errstate(all="ignore"):
        wanted = (plain or f)(operands)
        compiled = jit(_taking(f)) if plain is None else _taking(f)
        for _ in range(2):
            for one, other in zip(_results(compiled(*operands)), _results(wanted), strict=True):
                _agreeing(case.id, one, other)


def _results(x: Any) -> list[Tensor]:
    return list(x) if isinstance(x, (tuple, list)) else [x]


def _agreeing(name: str, found: Tensor, wanted: Tensor) -> None:
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), (
        f"{name}: jit gives {found.dtype} of shape {found.shape}, and without it {wanted.dtype} of shape {wanted.shape}"
    )
    other = download(wanted)
    one = held(found, other)
    other = other.astype(one.dtype)
    size = np.abs(other[np.isfinite(other)]).max(initial=1)
    wrong = apart(one, other, ROUNDINGS * ROUNDING.get(str(found.dtype), 2.0**-52) * size)
    assert not wrong.any(), f"{name}: jit gives {one[wrong][:4].tolist()}, and without it {other[wrong][:4].tolist()}"
