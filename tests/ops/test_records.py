"""What is known of an operation stands in its record: each fact is true, and no module keeps a second list of them."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest

import micrograd_core
from micrograd_core import Device, Tensor, amp, bfloat16, float16, float32, float64
from micrograd_core.adapters import strided
from micrograd_core.adapters.array_api import KEYWORDS, STANDARD, ArrayAPIBackend, adjustments, respelled
from micrograd_core.backend import CAPABILITIES
from micrograd_core.compiler import python
from micrograd_core.compiler.program import Program, Ref, Step, typed
from micrograd_core.compiler.specs import TensorSpec
from micrograd_core.conformance.cases import Case, cases
from micrograd_core.engine.apply import _cast
from micrograd_core.interpreters.floats import EXACT, Floats
from micrograd_core.layout import broadcast_shapes
from micrograd_core.ops import CORE_KERNELS, TABLE, Op, batching
from micrograd_core.ops.record import APART, CALL, DEAR, FULL, HALF, LONG, NEST
from micrograd_core.transforms.vmap import _rule
from tests.ops.definitions import defined

CORE = Path(micrograd_core.__file__).parent
OPS = [pytest.param(op, id=op.name) for op in TABLE.values()]


def ops(holds: Callable[[Op], Any]) -> list[Any]:
    """Those of the table for which something holds, as parameters of a test."""
    return [pytest.param(op, id=op.name) for op in TABLE.values() if holds(op)]


def of(op: Op, dtype: str = "") -> Iterator[tuple[Case, list[Any], dict[str, Any]]]:
    """Cases of an operation as they are laid out first, with the operands and parameters that its kernel gets."""
    unsigned = op.accepts == frozenset({"unsigned integer"})
    dtypes = ("uint64",) if unsigned else ("float64", "int64", "bool", "complex128")
    for case in cases(dtypes, CAPABILITIES, only=op.name):
        if case.layout == "contiguous" and dtype in ("", case.dtype):
            operands: list[Any] = case.tensors(Device("cpu"))
            params = {} if op.parameters is None else op.parameters(*operands, **case.sample.params)
            if op.cast is not None:
                cast = op.cast
                operands = [
                    x.astype(cast(x.dtype)) if isinstance(x, Tensor) and i not in op.separate else x
                    for i, x in enumerate(operands)
                ]
            operands += op.optional[len(operands) - op.operands :] if 0 <= len(operands) < op.operands else ()
            yield case, operands, params


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_record_refuses_facts_that_there_are_not() -> None:
    with pytest.raises(TypeError, match="twice: a record has no combines, kinds"):
        Op("twice", kinds="elementwise", combines="add")


def test_a_composition_gives_the_parameters_and_refuses_gets_them_as_they_were_given() -> None:
    seen: list[Any] = []

    def compose(k: Any, x: Any, weight: Any, *, axis: int = -1, eps: float = 1e-5, turned: bool = False) -> Any: ...

    op = Op("weighed", optional=(1.0,), compose=compose, refuses=lambda *args, **params: seen.append((args, params)))
    x = np.zeros((2, 3))
    assert op.parameters is not None
    assert list(inspect.signature(op.parameters).parameters) == ["x", "weight", "axis", "eps", "turned"]
    assert op.parameters(x, None, 0, eps=1, turned=1) == {"axis": 0, "eps": 1.0, "turned": True}
    assert op.parameters(x) == {"axis": 1, "eps": 1e-5, "turned": False}
    assert [params["axis"] for _, params in seen] == [0, -1]
    assert seen[0][0][0] == "weighed"


@pytest.mark.parametrize("op", OPS)
def test_the_words_of_a_record_are_known(op: Op) -> None:
    assert op.autocast in ("", HALF, FULL)
    assert op.kind in ("", "elementwise", "reduction", "source")
    assert op.lowering in ("", CALL, APART, NEST)
    assert op.lowering in ("", CALL) or op.compose is not None
    assert op.cost in (1, DEAR, LONG)
    assert op.extension in ("", "linalg", "fft")
    assert op.capability in ("", *CAPABILITIES)
    assert op.batching is None or getattr(batching, op.batching.__name__) is op.batching
    assert (op.parts is None) is not isinstance(op.result, tuple)
    if isinstance(op.result, tuple):
        assert len(op.result) == len(op.parts._fields)
        assert op.shape is not None


# ── elementwise, reductions, shapes ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("op", ops(lambda op: op.kind == "elementwise"))
def test_an_elementwise_operation_looks_at_one_place_of_each_operand(op: Op) -> None:
    """Turned around, the operands give the result turned around; one element of each gives that of the result."""
    seen = 0
    for case, operands, params in of(op):
        arrays = [np.array(x.numpy()) if isinstance(x, Tensor) else x for x in operands]
        shape = broadcast_shapes(op.name, *(np.shape(x) for x in arrays))
        if 0 in shape:
            continue
        kernel = getattr(Device("cpu").kernels, op.name)
        whole = [np.array(np.broadcast_to(x, shape)) if isinstance(x, np.ndarray) else x for x in arrays]
        turned = [x[(slice(None, None, -1),) * len(shape)] if isinstance(x, np.ndarray) else x for x in whole]
        last = [x[(-1,) * len(shape)].reshape(()) if isinstance(x, np.ndarray) else x for x in whole]
        found = kernel(*arrays, **params)
        assert found.shape == shape, case.id
        backwards = found[(slice(None, None, -1),) * len(shape)]
        np.testing.assert_allclose(kernel(*turned, **params), backwards, rtol=1e-14, err_msg=case.id)
        alone = np.asarray(kernel(*last, **params))
        assert alone.shape == ()
        np.testing.assert_allclose(alone, found[(-1,) * len(shape)], rtol=1e-14, err_msg=case.id)
        seen += 1
    assert seen


@pytest.mark.parametrize("op", ops(lambda op: op.kind == "reduction"))
def test_a_reduction_takes_axis_and_keepdims_and_sees_all_elements_in_any_order(op: Op) -> None:
    assert op.operands == 1
    assert op.parameters is not None
    assert {"axis", "keepdims"} <= inspect.signature(op.parameters).parameters.keys()
    for case, (x,), params in of(op):
        if op.name not in ("argmax", "argmin") and 0 not in x.shape:
            turned = x[(slice(None, None, -1),) * x.ndim]
            kernel, axis = getattr(Device("cpu").kernels, op.name), params["axis"]
            kept = range(x.ndim) if axis is not None else ()
            found = kernel(x._handle, **{**params, "keepdims": True})
            again = kernel(turned._handle, **{**params, "keepdims": True})
            np.testing.assert_allclose(again[(slice(None, None, -1),) * len(kept)], found, rtol=1e-12, err_msg=case.id)


def test_every_shape_is_known_but_where_it_depends_on_the_elements() -> None:
    """By generation: each sample of each operation, its parts too, is a program of one step, typed as it runs."""
    unknown, seen = set(), set()
    for op in TABLE.values():
        for case, operands, params in of(op):
            arrays = [x for x in operands if isinstance(x, Tensor)]
            given = iter(range(len(arrays)))
            refs = tuple(Ref(next(given)) if isinstance(x, Tensor) else x for x in operands)
            program = Program(len(arrays), (Step(op.name, refs, params),), ())
            try:
                types = typed(program, [TensorSpec(x.shape, x.dtype) for x in arrays]).types[len(arrays) :]
            except micrograd_core.errors.ProgramError:
                unknown.add(op.name)
                continue
            kernels = Device("cpu").kernels
            with np.errstate(all="ignore"):
                made = getattr(kernels, op.name)(
                    *(x._handle if isinstance(x, Tensor) else x for x in operands), **params
                )
            found = [kernels.spec(each) for each in (made if op.parts is not None else (made,))]
            assert found == list(types), case.id
            seen.add(op.name)
    assert unknown == {"argwhere"}
    assert seen >= {op.name for op in TABLE.values() if op.samples} - unknown


def test_a_reduction_combines_two_elements_as_its_record_says() -> None:
    k = Device("cpu").kernels
    for op in TABLE.values():
        assert not op.combine or TABLE[op.combine].kind == "elementwise", op.name
        for x in ([2.5, -3.0], [0.5, 0.5], [-1.0, math.inf], [math.nan, 1.0]) if op.combine else ():
            reduced = getattr(k, op.name)(np.array(x), axis=None, keepdims=False)
            np.testing.assert_array_equal(reduced, getattr(k, op.combine)(*map(np.array, x)), err_msg=op.name)
    assert {op.combine for op in TABLE.values()} == {"", "add", "multiply", "maximum", "minimum"}


def test_sources_have_no_operands_and_calls_are_no_primitives_of_every_device() -> None:
    for op in TABLE.values():
        assert op.kind != "source" or (op.operands == 0 and op.shape is not None) or op.name == "full"
        assert op.lowering != CALL or op.name not in CORE_KERNELS, op.name


# ── what the adapters ask for ────────────────────────────────────────────────────────────────────────────────


def test_a_flat_device_maps_the_elementwise_core_and_the_rest_is_composed() -> None:
    device = Device("rawbuffer")
    for op in TABLE.values():
        if op.kind == "elementwise" and op.parameters is None:
            assert (op.name in strided.MAPS) is (op.name in CORE_KERNELS)
            own = device.kernels.backend.kernel(op.name) is not None
            assert own or op.compose is not None, op.name
            assert own or op.capability or device.kernels.provides(op)
    assert strided.MAPS | strided.REDUCTIONS < CORE_KERNELS


def test_the_package_has_every_function_of_the_standard() -> None:
    functions = [name for name, x in vars(array_api_strict).items() if inspect.isfunction(x) and name[0] != "_"]
    own = "set_array_api_strict_flags get_array_api_strict_flags reset_array_api_strict_flags"
    assert len(functions) > 130
    assert [name for name in functions if name not in own and not hasattr(micrograd_core, name)] == []


@pytest.mark.parametrize("op", ops(lambda op: op.standard))
def test_the_standard_has_the_function_with_the_parameters_of_the_record(op: Op) -> None:
    """Held against the namespace that follows the standard to the letter."""
    namespace = getattr(array_api_strict, op.extension) if op.extension else array_api_strict
    function = getattr(namespace, op.name)
    called: list[Any] = []

    def bound(*operands: Any, **params: Any) -> None:
        called.append(inspect.signature(function).bind(*operands, **params))

    calls = [(operands, params) for _, operands, params in of(op)]
    if op.operands == 0:
        calls = [
            ([5], {"dtype": None}) if op.name == "arange" else ([], {"shape": (2,), "fill_value": 1, "dtype": None})
        ]
    for operands, params in calls:
        respelled(bound, KEYWORDS.get(op.name, {}))(*operands, **params)
    assert len(called) == len(calls) > 0


def test_a_namespace_gives_the_kernels_that_records_call_standard() -> None:
    class Claiming(ArrayAPIBackend):
        capabilities = frozenset({"linalg", "fft"})

    plain, claiming = (kind(array_api_strict, "strict:0") for kind in (ArrayAPIBackend, Claiming))
    own = adjustments(array_api_strict).keys()
    for op in TABLE.values():
        there = op.name in own or (op.standard and not op.capability)
        assert (plain.kernel(op.name) is not None) is there, op.name
        there |= op.standard and op.capability in ("linalg", "fft")
        assert (claiming.kernel(op.name) is not None) is there, op.name
    assert {op.name for op in TABLE.values() if op.standard and not op.extension} == STANDARD


# ── autocast ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("half", [float16, bfloat16])
def test_autocast_does_what_the_record_says(op: Op, half: Any) -> None:
    given = [Tensor([1.0], dtype=dtype) for dtype in (float16, bfloat16, float32, float64, "int64")]
    with amp.autocast(half):
        found = [x.dtype for x in _cast(op, tuple(given))]
    wanted = {HALF: half, FULL: float32}.get(op.autocast)
    assert found == [x.dtype if wanted is None else wanted for x in given[:3]] + [float64, given[4].dtype]
    assert amp.POLICY.get(op.name, "") == op.autocast


# ── scalars ──────────────────────────────────────────────────────────────────────────────────────────────────

NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.25, 17.5, 1e-9, -1e-300, 1e300, math.inf, -math.inf, math.nan)


def printed(op: Op) -> Callable[..., Any]:
    """An operation as a program prints it."""
    refs = tuple(map(Ref, range(op.operands)))
    program = Program(op.operands, (Step(op.name, refs, {}),), (Ref(op.operands),))
    reads = [(n, None) for n in range(op.operands)]
    scope = {**python.CONSTANTS, **EXACT, **python.FUNCTIONS}
    exec(python.source(program, reads, [1]), scope)
    return lambda *numbers: scope["run"](*numbers)[0][0]


@pytest.mark.parametrize("op", ops(lambda op: op.scalar))
def test_the_scalar_spelling_is_the_operation_on_one_number(op: Op) -> None:
    """Of floats as a table, and printed, against the definition: within a rounding, NaN where NaN."""
    if op.accepts == frozenset({"bool"}):
        numbers: tuple[Any, ...] = (True, False)
    else:
        numbers = NUMBERS
    roundings = 4 if op.name in ("sigmoid", "pow") else 1  # whose definitions round more than once
    for operands in np.ndindex(*(len(numbers),) * op.operands):
        given = [numbers[i] for i in operands]
        if op.name == "where":
            given[0] = given[0] > 0
        with np.errstate(all="ignore"):
            arrays = [np.asarray([x]) for x in given]
            expected = np.asarray(defined(op, *arrays)).item()
        for function in (getattr(Floats, op.name), printed(op)):
            try:
                found = function(*given)
            except (ArithmeticError, ValueError):  # Python raises, and what is exact goes on
                assert function is not getattr(Floats, op.name)
                continue
            about = f"{op.name} of {given}: {found}, not {expected}"
            if expected != expected:
                assert found != found, about
            elif math.isinf(expected) or expected in (0, True, False):
                assert found == expected or abs(found - expected) < 5e-324 * roundings, about
            else:
                assert abs(found - expected) <= roundings * math.ulp(expected), about


def test_a_function_of_math_is_spelled_as_a_call() -> None:
    for name, op in TABLE.items():
        if op.scalar.endswith("({})") or op.scalar.endswith("({}, {})"):
            assert op.scalar.startswith(f"{name}(")
            assert name in {**python.FUNCTIONS, **EXACT} or name == "abs"
    assert EXACT.keys() <= {name for name, op in TABLE.items() if op.scalar}
    assert not hasattr(Floats, "tan")


# ── no second list ───────────────────────────────────────────────────────────────────────────────────────────

LISTS = {
    "backends/cpu/micrograd_cpu/kernels.py": "kernels",
    "backends/cpu/micrograd_cpu/mathematics.py": "definitions of functions",
    "backends/cpu/micrograd_cpu/pairs.py": "instructions of complex numbers",
    "backends/cpu/micrograd_cpu/random.py": "kernels",
    "backends/cpu/micrograd_cpu/recurrent.py": "kernels",
    "backends/cpu/micrograd_cpu/scalars.py": "instructions",
    "backends/cuda/micrograd_cuda/kernels.py": "what CuPy computes in too few digits",
    "backends/cuda/micrograd_cuda/rows.py": "kernels",
    "plugins/faulty/micrograd_faulty/plugin.py": "faults to plant",
    "plugins/models/micrograd_models/spellings.py": "how ONNX spells operations",
    "plugins/mpi/micrograd_mpi/collectives.py": "reductions over ranks",
    "plugins/mpi/micrograd_mpi/transport.py": "reductions of MPI",
    "plugins/rawbuffer/micrograd_rawbuffer/kernels.py": "kernels",
    "plugins/train/micrograd_train/drawing.py": "what an expression may call",
    "backends/cuda/micrograd_cuda/nests.py": "what the sources have functors of",
    "compiler/packs.py": "how primitives are printed",
    "compiler/text.py": "how primitives are printed",
    "compiler/languages.py": "how languages spell primitives",
    "adapters/array_api.py": "how libraries spell functions, and which of theirs hand back their operand",
    "adapters/integers.py": "what the host computes in the place of a flat device",
    "adapters/strided.py": "what the adapter does with layouts, and what reductions of nothing are",
    "array/methods.py": "the operators of a tensor that NumPy's functions stand for",
    "compiler/passes.py": "which numbers change nothing",
    "conformance/forms.py": "calls of the suite, and what no definition settles",
    "engine/keys.py": "what x.at[key] has",
    "nn/init.py": "gains before nonlinearities, which are the literature's",
    "linalg.py": "what the standard has in both namespaces",
    "scalar/value.py": "the methods of a Value",
    "interpreters/floats.py": "what IEEE 754 says where Python raises",
}
"""Files outside `ops` that name four operations or more in one place, and what they say there that is no record's.

A backend's table from names to what computes them is the backend itself; what is true on every device is a record's.
"""


def names(source: str) -> int:
    """How many operations stand in the longest literal that names little else."""
    longest = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = node.value.split()
        else:
            listed = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
            words = [each.value for each in listed if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        found = [word for word in words if word in TABLE]
        longest = max(longest, len(found) if 4 * len(found) >= 3 * len(words) else 0)
    return longest


def test_no_other_module_keeps_a_list_of_operations() -> None:
    """A new one wants a field of the record, or a reason here."""
    root = CORE.parent
    others = [*root.glob("backends/*/micrograd_*"), *root.glob("plugins/*/micrograd_*")]
    files = [
        (path, home) for top, home in ((CORE, CORE), *((each, root) for each in others)) for path in top.rglob("*.py")
    ]
    found = {
        path.relative_to(home).as_posix()
        for path, home in files
        if "ops" not in path.relative_to(home).parts and names(path.read_text(encoding="utf-8")) >= 4
    }
    assert found == LISTS.keys()
    assert names('POLICY = {"exp": 1, "log": 1, "sin": 1, "cos": 1}') == 4
    assert names('POLICY = "exp log sin cos".split()') == 4
    assert names('WORDS = ["exp", "log", "sin", "cos", "of", "a", "number"]') == 1


@pytest.mark.parametrize("op", ops(lambda op: op.operands))
def test_a_batch_is_known_to_the_record_or_composed(op: Op) -> None:
    assert _rule(op) is not None or op.compose is not None


def test_a_rule_that_does_not_cover_a_call_says_so() -> None:
    for rule, operands in ((batching.along_axis, 1), (batching.joined, 2)):
        op = TABLE["prod" if operands == 1 else "concat"]
        x = Tensor([[1.0, 2.0], [3.0, 4.0]])
        found = partial(rule, op, None, [True] * operands, 2)(*[x] * operands, axis=None)
        assert found is NotImplemented
