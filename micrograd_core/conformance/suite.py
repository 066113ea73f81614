"""The tests. Each message names what is at fault: the operation, dtype and layout, and what came instead of what."""

from __future__ import annotations

import fnmatch
import gc
import threading
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np
import pytest

from micrograd_core import errors
from micrograd_core.autograd import no_grad
from micrograd_core.backend import CAPABILITIES, PROTOCOL
from micrograd_core.conformance.cases import LAYOUTS, Case, cases
from micrograd_core.device import Device
from micrograd_core.differentiate import value_and_grad
from micrograd_core.dtypes import DTYPES
from micrograd_core.functions import FUNCTIONS, zeros
from micrograd_core.ops import TABLE
from micrograd_core.tensor import Tensor, asarray, shares_memory

F = TypeVar("F", bound=Callable[..., None])

FACTOR = 16
"""How many times NumPy's own error in a dtype (plus one rounding of the answer) a device may be off."""


def since(protocol: int) -> Callable[[F], F]:
    """Mark a test with the protocol version it arrived with: older backends skip it."""

    def mark(test: F) -> F:
        test.since = protocol  # type: ignore[attr-defined]
        return test

    return mark


class Conformance:
    """The suite for one device. Subclass it with a name that pytest collects, and set `device`."""

    device: ClassVar[str] = ""
    conformance: ClassVar[bool] = True

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Cases by the device's dtypes; known failures become strict expected failures."""
        if not self.device:
            metafunc.cls.device = metafunc.config.getoption("--device", None) or "cpu"
        backend = Device(metafunc.cls.device).kernels.backend
        known = dict(getattr(backend, "known_failures", {}))
        name = metafunc.function.__name__
        arrived = getattr(metafunc.function, "since", 1)
        if "case" in metafunc.fixturenames:
            found = list(cases(backend.dtypes, floating_only="gradient" in name))
            if "gradient" in name:
                found = [case for case in found if _differentiable(case)]
            metafunc.parametrize("case", [_parameter(case, case.id, name, known, arrived, backend) for case in found])
        elif "dtype" in metafunc.fixturenames:
            names = [each for each in backend.dtypes if each != "bfloat16"]
            metafunc.parametrize("dtype", [_parameter(each, each, name, known, arrived, backend) for each in names])
        elif "op" in metafunc.fixturenames:
            metafunc.parametrize("op", [_parameter(each, each, name, known, arrived, backend) for each in TABLE])

    @pytest.fixture
    def opened(self) -> Device:
        """The device under test."""
        return Device(self.device)

    # ── operations ───────────────────────────────────────────────────────────────────────────────────────────

    @since(1)
    def test_operation_is_available(self, op: str, opened: Device) -> None:
        """A kernel, or a composition whose parts the device has."""
        assert getattr(opened.kernels, op) is not None

    @since(1)
    def test_value(self, case: Case, opened: Device) -> None:
        """Shape, dtype and numbers; inputs unchanged."""
        operands = case.tensors(opened)
        wanted = _dtype(case, operands)
        if wanted.name not in opened.kernels.backend.dtypes:
            with pytest.raises(errors.UnsupportedDType, match=wanted.name):
                case.call(operands)
            return
        with np.errstate(all="ignore"):
            result = case.call(operands)
        expected = case.expected()
        assert result.device is opened, f"{case.id}: the result is on {result.device}"
        assert result.shape == expected.shape, f"{case.id}: shape {result.shape}, expected {expected.shape}"
        assert result.dtype is wanted, f"{case.id}: dtype {result.dtype}, expected {wanted}"
        native = opened.kernels.dtype(result._handle)
        assert native is wanted, f"{case.id}: the kernel's result has dtype {native}, expected {wanted}"
        _close(
            result, expected, case.expected(case.dtype) if case.dtype in ("float16", "float32") else expected, case.id
        )
        for position, (operand, array) in enumerate(zip(operands, case.arrays(), strict=True)):
            if isinstance(operand, Tensor):
                assert operand.tolist() == array.tolist(), f"{case.id}: the kernel changed its input {position}"

    @since(1)
    def test_fresh_results_alias_nothing(self, case: Case, opened: Device) -> None:
        """Only views may share an operand's memory."""
        operands = case.tensors(opened)
        if case.op.view or _dtype(case, operands).name not in opened.kernels.backend.dtypes:
            return
        with np.errstate(all="ignore"):
            result = case.call(operands)
        for position, operand in enumerate(operands):
            if not (result.size and isinstance(operand, Tensor) and operand.size and shares_memory(result, operand)):
                continue
            before = operand.tolist()
            result[...] = ~result if result.dtype.kind == "bool" else result + 1
            assert operand.tolist() == before, f"{case.id}: a write to the result changes operand {position}"

    @since(1)
    def test_first_gradient(self, case: Case, opened: Device) -> None:
        """Along a random direction, against a central difference."""
        _directional(lambda xs: case.call(xs), case, opened, step=1e-6, tolerance=1e-6)

    @since(1)
    def test_second_gradient(self, case: Case, opened: Device) -> None:
        """The gradient's own gradient, likewise."""
        plain = case.tensors(opened)
        varied = [i for i, x in enumerate(plain) if isinstance(x, Tensor) and x.dtype.is_floating]

        def gradients(xs: list[Any]) -> Any:
            def total(*inner: Any) -> Any:
                return _weighted(case.call(list(inner)))

            _, found = value_and_grad(total, varied)(*xs)
            parts = [_weighted(g) for g in found]
            return sum(parts[1:], parts[0])

        _directional(gradients, case, opened, step=1e-5, tolerance=1e-5)

    # ── memory and moves ─────────────────────────────────────────────────────────────────────────────────────

    @since(1)
    def test_round_trip(self, dtype: str, opened: Device) -> None:
        """Host to device and back, for every layout, 0-d and empty."""
        for shape in ((3, 4), (5,), (), (0, 3)):
            size = int(np.prod(shape))
            array = (np.arange(size) % 2 == 1 if dtype == "bool" else np.arange(size)).astype(dtype).reshape(shape)
            for name, layout in LAYOUTS.items():
                if name == "broadcast" or (0 in shape and name == "offset"):
                    continue
                x = (
                    layout(array, lambda a: asarray(np.ascontiguousarray(a), device=opened))
                    if shape
                    else asarray(array, device=opened)
                )
                assert x.tolist() == array.tolist(), f"{dtype} {shape} {name}: came back as {x.tolist()}"
                assert str(x.dtype) == dtype, f"{dtype}: became {x.dtype}"

    @since(1)
    def test_moves_between_devices_keep_numbers_and_gradients(self, dtype: str, opened: Device) -> None:
        """To the host's backend and back, inside the graph."""
        if not Device.is_available("cpu") or dtype not in Device("cpu").kernels.backend.dtypes:
            pytest.skip("there is no cpu backend with this dtype to move to")
        x = asarray(np.arange(6).reshape(2, 3).T.astype(dtype), device=opened)
        assert x.mT.to("cpu").to(opened).tolist() == x.mT.tolist()
        if DTYPES[dtype].kind == "real floating":
            x = Tensor(x)
            (x.to("cpu") * 3).to(opened).sum().backward()
            assert x.grad is not None
            assert x.grad.device is opened
            assert x.grad.tolist() == [[3.0, 3.0]] * 3

    @since(1)
    def test_writing(self, opened: Device) -> None:
        """In place, and seen by views, or not at all: then the core copies."""
        x = zeros((3, 4), device=opened)
        x[1, ::2] = 5.0
        x[:, -1] = asarray([1.0, 2.0, 3.0], device=opened)
        assert x.tolist() == [[0.0, 0.0, 0.0, 1.0], [5.0, 0.0, 5.0, 2.0], [0.0, 0.0, 0.0, 3.0]]

    @since(1)
    def test_strided(self, opened: Device) -> None:
        """With the capability ``strided``: layouts are told as they are, and views share memory."""
        if "strided" not in opened.capabilities:
            pytest.skip("claim the capability 'strided' if views share memory and layout() tells their strides")
        x = asarray(np.arange(12.0).astype("float32").reshape(3, 4), device=opened)
        for view, strides, offset in (
            (x.mT, (1, 4), 0),
            (x[::2, 1:], (8, 1), 1),
            (x[::-1], (-4, 1), 8),
            (x[1], (1,), 4),
        ):
            assert (view.strides, view.offset) == (strides, offset), (
                f"layout() tells {view.layout}, not {strides} from {offset}"
            )
            assert shares_memory(view, x), f"a view with strides {strides} does not share memory with its base"
        row = x[1]
        x[1, 0] = 100.0
        assert row.tolist()[0] == 100.0, "a write to the base is not seen by its view"

    @since(1)
    def test_memory_returns_after_use(self, opened: Device) -> None:
        """What a graph held is given back when it dies, if the device tells."""
        opened.synchronize()
        if "in_use" not in opened.memory():
            pytest.skip("memory() does not tell 'in_use'")
        gc.collect()
        before = opened.memory()["in_use"]
        x = Tensor(np.ones((64, 64), "float32"), device=opened)
        (x.exp() * x).sum().backward()
        del x
        gc.collect()
        opened.synchronize()
        leaked = opened.memory()["in_use"] - before
        assert leaked <= 0, f"{leaked} bytes stay in use after a graph has died"

    @since(1)
    def test_deep_graphs(self, opened: Device) -> None:
        """A chain of 10⁵ operations builds, sweeps and dies."""
        x = Tensor(1.0, device=opened)
        y = x
        for _ in range(100_000):
            y = -y
        y.backward()
        assert x.grad is not None
        assert x.grad.item() == 1.0

    @since(1)
    def test_threads(self, opened: Device) -> None:
        """Four threads compute at the same time, each its own graph."""
        results: list[float] = []

        def work() -> None:
            x = Tensor(np.arange(1.0, 9.0, dtype="float32"), device=opened)
            for _ in range(20):
                x.zero_grad()
                (x * x).sum().backward()
            assert x.grad is not None
            results.append(x.grad.sum().item())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [72.0] * 4

    @since(1)
    def test_results_repeat(self, opened: Device) -> None:
        """The same inputs give the same bits."""
        x = asarray(np.random.default_rng(0).normal(size=(33, 17)).astype("float32"), device=opened)
        first, second = ((x @ x.mT).softmax().sum(axis=0).tolist() for _ in range(2))
        assert first == second

    # ── errors ───────────────────────────────────────────────────────────────────────────────────────────────

    @since(1)
    def test_shapes_that_do_not_fit_are_refused(self, opened: Device) -> None:
        """Naming the operation and both shapes."""
        x, y = zeros((2, 3), device=opened), zeros((2, 4), device=opened)
        for call in (lambda: x + y, lambda: x @ y, lambda: FUNCTIONS["where"](x > 0, x, y)):
            with pytest.raises(errors.ShapeError, match=r"(add|matmul|where).*\(2, 3\).*\(2, 4\)"):
                call()

    @since(1)
    def test_dtypes_that_do_not_fit_are_refused(self, opened: Device) -> None:
        """Naming the operation and the dtype."""
        with pytest.raises(errors.DTypeError, match=r"exp.*int64"):
            zeros(2, dtype="int64", device=opened).exp()
        missing = next((name for name in DTYPES if name not in opened.kernels.backend.dtypes), None)
        if missing is not None:
            with pytest.raises(errors.UnsupportedDType, match=f"does not support {missing}"):
                zeros(2, dtype=missing, device=opened)

    @since(1)
    def test_other_devices_are_refused(self, opened: Device) -> None:
        """Naming the operation, both devices and both shapes."""
        if not Device.is_available("cpu") or opened.is_cpu():
            pytest.skip("there is no other device to mix with")
        with pytest.raises(errors.DeviceMismatch, match=r"multiply.*\(2,\).*\(3,\)") as caught:
            zeros(2, device=opened) * zeros(3, device="cpu")
        assert str(opened) in str(caught.value)

    # ── the backend's word ───────────────────────────────────────────────────────────────────────────────────

    @since(1)
    def test_protocol_and_capabilities(self, opened: Device) -> None:
        """The version this core speaks; words of the vocabulary."""
        assert opened.kernels.backend.protocol <= PROTOCOL
        assert opened.capabilities <= set(CAPABILITIES)

    @since(1)
    def test_known_failures_match_tests(self, opened: Device, request: Any) -> None:
        """A pattern that matches nothing is a mistake, or a failure that is over."""
        known = getattr(opened.kernels.backend, "known_failures", {})
        ids = [case.id for case in cases(opened.kernels.backend.dtypes)] + [*TABLE, *DTYPES]
        tests = [name for name in dir(self) if name.startswith("test_")]
        for pattern in known:
            matched = any(fnmatch.fnmatch(f"{test}[{each}]", pattern) for test in tests for each in ids)
            assert matched, f"the known failure {pattern!r} matches no test"


def _parameter(value: Any, id: str, test: str, known: dict[str, str], arrived: int, backend: Any) -> Any:
    marks = []
    for pattern, reason in known.items():
        if fnmatch.fnmatch(f"{test}[{id}]", pattern):
            marks.append(pytest.mark.xfail(reason=reason, strict=True))
    if backend.protocol < arrived:
        marks.append(
            pytest.mark.skip(reason=f"this test came with protocol {arrived}; the backend speaks {backend.protocol}")
        )
    return pytest.param(value, id=id, marks=marks)


def _dtype(case: Case, operands: list[Any]) -> Any:
    own = [x.dtype for i, x in enumerate(operands) if isinstance(x, Tensor) and i not in case.op.separate]
    common = own[0] if own else DTYPES["float32"]
    common = case.op.cast(common) if case.op.cast is not None else common
    params = case.sample.params
    if "dtype" in params:
        return DTYPES[params["dtype"]]
    return common if isinstance(case.op.result, str) else case.op.result(common, {"dtype": DTYPES["float32"], **params})


def _close(result: Tensor, expected: Any, in_dtype: Any, id: str) -> None:
    """As near to the float64 answer as NumPy's own result in that dtype, within `FACTOR`."""
    found = np.asarray(result.detach().tolist(), dtype=expected.dtype if expected.dtype.kind in "bc" else "float64")
    found = found.reshape(expected.shape)
    if expected.dtype.kind in "biu":
        assert found.tolist() == expected.tolist(), f"{id}: got {found.tolist()}, expected {expected.tolist()}"
        return
    rounding = {"float16": 2.0**-10, "float32": 2.0**-23}.get(str(result.dtype), 2.0**-52)
    with np.errstate(all="ignore"):
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        allowed = FACTOR * (np.abs(in_dtype.astype("float64") - expected) + rounding * np.maximum(np.abs(expected), 1))
        wrong = ~(same | (np.abs(found - expected) <= allowed))
    assert not wrong.any(), f"{id}: got {found[wrong][:4].tolist()}, expected {expected[wrong][:4].tolist()}"


def _differentiable(case: Case) -> bool:
    first = next((o for o in case.sample.operands if not isinstance(o, (int, float))), None)
    floating = case.dtype == "float64" and case.sample.params.get("dtype") not in ("bool", "float32")
    singular = case.op.name == "std" and case.layout == "broadcast"  # no deviation, and so no derivative
    return (
        case.op.differentiable
        and floating
        and not singular
        and (first is None or not first.dtype or case.op.name == "where")
    )


def _weighted(x: Tensor) -> Any:
    """A fixed random projection to a scalar."""
    weights = np.random.default_rng(len(x.shape)).uniform(0.5, 1.5, x.shape)
    return (x * asarray(weights, dtype=x.dtype, device=x.device)).sum()


def _directional(f: Any, case: Case, device: Device, *, step: float, tolerance: float) -> None:
    """The derivative of the weighted result along a random direction: reverse mode against a central difference."""
    operands = case.tensors(device, requires_grad=True)
    varied = [i for i, x in enumerate(operands) if isinstance(x, Tensor) and x.dtype.is_floating]
    rng = np.random.default_rng(1)
    directions = {i: np.asarray(rng.uniform(-1, 1, operands[i].shape)) for i in varied}
    if case.layout == "broadcast":  # elements that are tied by repetition stay tied: max has no other derivative there
        directions = {i: np.broadcast_to(d[..., :1], d.shape) if d.ndim else d for i, d in directions.items()}
    with np.errstate(all="ignore"):
        value = _weighted(f(operands))
        if value.requires_grad:
            value.backward()
        analytic = sum(
            float((np.asarray(operands[i].grad.tolist()).reshape(d.shape) * d).sum())
            for i, d in directions.items()
            if operands[i].grad is not None
        )
        sides = []
        with no_grad():
            for sign in (1, -1):
                moved = case.tensors(device)
                for i, d in directions.items():
                    moved[i] = moved[i] + asarray(sign * step * d, device=device)
                sides.append(_weighted(f(moved)).item())
    numeric = (sides[0] - sides[1]) / (2 * step)
    limit = tolerance * max(1.0, abs(numeric), abs(sides[0]))
    assert abs(analytic - numeric) <= limit, f"{case.id}: the gradient is {analytic}, a finite difference {numeric}"
