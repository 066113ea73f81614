"""NumPy's warnings name the user's line from within every operation and its gradients, eager, compiled, in batches."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor
from micrograd_core.conformance.cases import Case, cases
from micrograd_core.errors import MicrogradError
from micrograd_core.ground.warning import WITHHELD, unless_withheld
from micrograd_core.ops import TABLE, Op

CPU: Final = mg.Device("cpu")
FILLS: Final = {
    "zero": [0.0],
    "infinite": [np.inf, -np.inf, 1.0],
    "huge": [1e30, -1e30, 2e38],
    "mixed": [-1.0, 0.0, np.inf, np.nan, 1e-30, 3e38],
}
EXHAUSTIVE: Final = os.environ.get("MICROGRAD_EXHAUSTIVE", "0") == "1"
DTYPES: Final = ("float32", "float64", "float16", "complex64", "int32") if EXHAUSTIVE else ("float32",)
REFUSALS: Final = (MicrogradError, ValueError, TypeError, ArithmeticError, NotImplementedError)
Seen = list[warnings.WarningMessage]


def drawn(names: list[str]) -> Iterator[tuple[Case, str]]:
    """Calls of operations, and what their operands are filled with; by turns, unless all are asked for."""
    turn = 0
    for name in names:
        for case in cases(CPU.kernels.backend.dtypes, CPU.capabilities, only=name):
            if case.layout != "contiguous" or case.dtype not in DTYPES:
                continue
            for i, fill in enumerate(["zero", "huge"] if iterates(case.op) else FILLS):
                if EXHAUSTIVE or (turn + i) % 4 == 0:
                    yield case, fill
            turn += 1


def iterates(op: Op) -> bool:
    """Whether it may look for singular values, which LAPACK does for ever where a number is infinite."""
    return op.extension == "linalg" or op.capability in ("linalg", "eig") or "matrix" in op.name


def filled(case: Case, fill: str, records: bool = False) -> list[Any]:
    """Operands of a case, of which all floating ones are made of such numbers."""
    found = []
    with np.errstate(all="ignore"):
        for i, x in enumerate(case.tensors(CPU)):
            if isinstance(x, Tensor) and x.dtype.is_floating:
                numbers = np.resize(np.array(FILLS[fill][i % 2 :] or FILLS[fill]), x.shape)
                x = mg.asarray(numbers, dtype=x.dtype)
                x.requires_grad = records
            found.append(x)
    return found


def seen(act: Callable[..., Any], *args: Any) -> tuple[Any, Seen]:
    """What a call gives, if it is not refused, and what it warns of."""
    found = None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with suppress(*REFUSALS):
            found = act(*args)
    return found, [each for each in told if "no batching rule" not in str(each.message)]


def call(case: Case, operands: list[Any]) -> Any:
    return case.call(operands)


def back(total: Tensor, again: bool) -> None:
    total.backward(create_graph=again)


def compiled(f: Any, operands: list[Any]) -> Any:
    return f(*operands)


def named(told: Seen, *acts: Callable[..., Any]) -> list[str]:
    """Those that name another line than that of one of these functions."""
    lines = [act.__code__.co_firstlineno + 1 for act in acts]
    return [f"{x.filename}:{x.lineno}: {x.message}" for x in told if x.filename != __file__ or x.lineno not in lines]


def total_of(out: Any) -> Tensor:
    with np.errstate(all="ignore"):
        total: Tensor = mg.real(out).sum() if out.dtype.is_complex else out.sum()
    return total


def eager(case: Case, fill: str) -> tuple[list[str], int]:
    """Forward, and both gradients."""
    operands = filled(case, fill, records=True)
    out, told = seen(call, case, operands)
    wrong, count = named(told, call), len(told)
    leaves = [x for x in operands if isinstance(x, Tensor) and x.requires_grad]
    if not isinstance(out, Tensor) or not out.requires_grad:
        return wrong, count
    total = total_of(out)
    _, told = seen(back, total, True)
    wrong, count = wrong + named(told, back), count + len(told)
    firsts = [x.grad for x in leaves if x.grad is not None and x.grad.requires_grad]
    if firsts:
        with np.errstate(all="ignore"):
            total = sum((total_of(g) for g in firsts), mg.asarray(0.0))
        _, told = seen(back, total, False)
        wrong, count = wrong + named(told, back), count + len(told)
    return wrong, count


def under_jit(case: Case, fill: str) -> tuple[list[str], int]:
    """A compiled function: its own line as it is traced, and that of its call as it runs."""
    operands, wrong, count = filled(case, fill), [], 0

    def inside(*xs: Any) -> Any:
        return call(case, list(xs))

    f = mg.jit(inside)
    for _ in range(3):
        _, told = seen(compiled, f, operands)
        wrong, count = wrong + named(told, call, compiled), count + len(told)
    return wrong, count


def in_batches(case: Case, fill: str) -> tuple[list[str], int]:
    """Inside `vmap`, over operands that are twice the same."""
    operands = filled(case, fill)
    axes = tuple(0 if isinstance(x, Tensor) and x.dtype.is_floating else None for x in operands)
    if case.op.operands < 1 or 0 not in axes:
        return [], 0
    given = [mg.stack([x, x]) if axis == 0 else x for x, axis in zip(operands, axes, strict=True)]
    _, told = seen(mg.vmap(lambda *xs: call(case, list(xs)), in_axes=axes), *given)
    return named(told, call), len(told)


GROUPS: Final = 4
WAYS: Final[dict[str, tuple[Callable[[Case, str], tuple[list[str], int]], int]]] = {
    "eager": (eager, 1),
    "in batches": (in_batches, 1 if EXHAUSTIVE else 3),
    "under jit": (under_jit, 1 if EXHAUSTIVE else 8),
}


@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.parametrize("way", WAYS)
def test_of_all_operations(way: str, group: int) -> None:
    act, every = WAYS[way]
    wrong, count = [], 0
    for case, fill in [*drawn([*TABLE][group::GROUPS])][::every]:
        found, told = act(case, fill)
        wrong += [f"{case.id} {fill}: {each}" for each in found]
        count += told
    assert not wrong, "\n".join(dict.fromkeys(wrong))
    assert count > {"eager": 100, "in batches": 10, "under jit": -1}[way]  # compiled loops say nothing


# ── what is called again, is called with the same ────────────────────────────────────────────────────────────


def tensor(*numbers: float, dtype: str = "float32", records: bool = False) -> Tensor:
    return Tensor(list(numbers), dtype=dtype, requires_grad=records)


def told_here(act: Callable[[], Any]) -> list[str]:
    """What a call warns of; each names its line."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        act()
    assert {(x.filename, x.lineno) for x in found} <= {(__file__, act.__code__.co_firstlineno + 1)}
    return [str(x.message) for x in found]


@pytest.mark.parametrize("loops", [True, False], ids=["loops", "kernels in a row"])
def test_of_a_compiled_function_by_the_line_that_calls_it(loops: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not loops:
        monkeypatch.setattr("micrograd_cpu.compiled.available", lambda: False)
    x = tensor(0.0, -1.0, 3e38, records=True)
    f = mg.jit(lambda x: (mg.softmax(x * x * x) * x).sum() + mg.log(x).sum())
    with np.errstate(all="ignore"):
        f(x)

    def act() -> None:
        f(x)

    assert bool(told_here(act)) is not loops
    with np.errstate(all="ignore"):
        total = f(x)

    def swept() -> None:
        total.backward()

    assert bool(told_here(swept)) is not loops


def test_of_gradients_each_once_and_added_once() -> None:
    w = tensor(1.0, 2.0, records=True)
    with np.errstate(all="ignore"):
        roots = [(w * 0).sqrt().sum() for _ in range(2)]

    def first() -> None:
        roots[0].backward()

    def second() -> None:
        roots[1].backward()

    assert sorted(set(told_here(first))) == [
        "divide by zero encountered in divide",
        "invalid value encountered in multiply",
    ]
    assert w.grad is not None
    assert np.isnan(w.grad.numpy()).all()
    told_here(second)
    x = tensor(3e38, records=True)
    (x * 1.0).backward(np.array([3e38], "float32"))
    total = (x * 1.0).sum()

    def add() -> None:
        total.backward(tensor(3e38).sum())

    assert told_here(add) == ["overflow encountered in add"]
    assert x.grad is not None
    assert x.grad.tolist() == [np.inf]


def test_of_cotangents_that_meet() -> None:
    x = tensor(1.0, records=True)
    y = x * 1.0
    with np.errstate(all="ignore"):
        total = (y * 3e38 + y * 3e38).sum()

    def act() -> None:
        total.backward()

    assert told_here(act) == ["overflow encountered in add"]
    assert x.grad is not None
    assert x.grad.tolist() == [np.inf]
    x = tensor(1.0, records=True)
    with np.errstate(all="ignore"):
        more = (x * mg.full((5,), 3e38)).sum()

    def widened() -> None:
        more.backward()

    assert told_here(widened) == ["overflow encountered in reduce"]


def test_of_several_results_whose_cotangents_meet() -> None:
    x = mg.asarray([[2.0, 0.0], [0.0, 1.0]])
    x.requires_grad = True
    values = mg.linalg.eigh(x).eigenvalues
    with np.errstate(all="ignore"):
        total = (values * 3e38 + values * 3e38).sum()

    def act() -> None:
        total.backward()

    assert "overflow encountered in add" in told_here(act)


def test_of_an_assignment() -> None:
    x = mg.zeros(3)

    def act() -> None:
        x[0] = 1e300

    assert told_here(act) == ["overflow encountered in cast"]
    assert x.tolist() == [np.inf, 0.0, 0.0]


@pytest.mark.parametrize("rule", [mg.optim.SGD, mg.optim.Adam, mg.optim.RMSprop, mg.optim.Adagrad, mg.optim.Rprop])
def test_of_an_optimiser_which_steps_once(rule: Any) -> None:
    def stepped() -> tuple[Any, Any]:
        p = tensor(3e38, -1.0, records=True)
        p.grad = tensor(3e38, 1.0)
        opt = rule([p], lr=3.0)
        return p, opt

    (p, opt), (q, other) = stepped(), stepped()

    def act() -> None:
        opt.step()

    told_here(act)
    with np.errstate(all="ignore"):
        other.step()
    assert np.array_equal(p.numpy(), q.numpy(), equal_nan=True)
    assert {name: x.tolist() for name, x in opt.state_dict().items()} == {
        name: x.tolist() for name, x in other.state_dict().items()
    }


def test_of_a_network_of_values_and_of_their_numbers() -> None:
    network = mg.MLP(2, [2, 1])
    with mg.no_grad():
        for layer in network.layers:
            layer.weight[...] = 1e300
    x = [mg.Value(1e300), mg.Value(1e300)]
    made: list[Any] = []

    def act() -> None:
        made.append(network(x))

    assert any("overflow" in each for each in told_here(act))

    def swept() -> None:
        made[0].backward()

    told_here(swept)


def test_random_numbers_are_drawn_once() -> None:
    mg.random.manual_seed(3)
    first = [mg.random.normal(4) * 1e30 for _ in range(2)]
    mg.random.manual_seed(3)

    def act() -> list[Tensor]:
        return [(x := mg.random.normal(4) * 1e30), x * x, mg.random.normal(4) * 1e30]

    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        again = act()
    assert again[0].tolist() == first[0].tolist()
    assert again[2].tolist() == first[1].tolist()


def test_a_hook_and_a_custom_rule_run_once() -> None:
    seen_by: list[str] = []

    @mg.custom_gradient
    def f(x: Tensor) -> Any:
        def pull(g: Tensor) -> Tensor:
            seen_by.append("rule")
            return g * 3e38 * 3e38

        return x * 1.0, pull

    x = tensor(0.0, 1.0, records=True)
    y = f(x)
    y.register_hook(lambda g: seen_by.append("hook"))
    with np.errstate(all="ignore"):
        total = (y**0.5).sum()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        total.backward()
    assert told
    assert {x.filename for x in told} == {__file__}
    assert seen_by == ["hook", "rule"]


@pytest.mark.parametrize(
    ("function", "numbers"),
    [
        (mg.fft.fft, [3e38, 3e38, -3e38]),
        (mg.fft.rfftn, [[3e38, 3e38], [3e38, 3e38]]),
        (mg.linalg.det, [[1e300, 1.0], [1.0, 1e300]]),
        (mg.linalg.slogdet, [[np.nan, 1.0], [1.0, 1.0]]),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_of_what_numpy_has_written_in_python(function: Any, numbers: Any) -> None:
    x = mg.asarray(numbers, dtype="float64" if function in (mg.linalg.det, mg.linalg.slogdet) else "float32")

    def act() -> Any:
        return function(x)

    told = told_here(act)
    assert told
    with np.errstate(all="ignore"):
        plain = getattr(np.fft, function.__name__, None) or getattr(np.linalg, function.__name__)
        expected = plain(x.numpy())
        found = function(x)
    for one, other in zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]:
        np.testing.assert_array_equal(np.asarray(one), other)
    with warnings.catch_warnings(record=True) as own:
        warnings.simplefilter("always")
        plain(x.numpy())
    assert [str(each.message) for each in own] == told
    assert all(each.filename.startswith(np.__path__[0]) for each in own)


def test_refusals_of_what_numpy_has_written_in_python_are_numpy_s() -> None:
    with pytest.raises(MicrogradError) as info:
        mg.linalg.inv(mg.zeros((2, 2)))
    assert isinstance(info.value.__cause__, np.linalg.LinAlgError)


def test_an_error_of_a_warning_leaves_the_graph_and_the_gradients() -> None:
    x = tensor(3e38, 1.0, records=True)
    y = x * 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="overflow encountered in power") as told:
            y**3
    assert told.value.__context__ is None
    assert told.traceback[0].path.name == "test_lines_of_warnings.py"
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0]
    z = (x * 1.0).sum()
    x.grad = tensor(3e38, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="overflow encountered in add"):
            z.backward(tensor(3e38).sum())
    assert x.grad.tolist() == [float(np.float32(3e38)), 0.0]


def test_filters_and_modes_are_those_of_numpy() -> None:
    x = mg.full((2, 2), 3e38)

    def act() -> Tensor:
        return x @ x

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            act()
    assert len(told) == 1
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("ignore")
        act()
    assert not told
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module=__name__)
        assert act().tolist()[0][0] == np.inf
    assert not told
    calls: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(over="call", invalid="raise", call=lambda *each: calls.append(each)):
            act()
    assert len(calls) >= 1


def test_of_two_modes_at_once_each_goes_its_way() -> None:
    """NumPy has one object for what it logs, calls; and the rest is warned of."""

    class Log:
        def __init__(self) -> None:
            self.lines: list[str] = []
            self.calls: list[str] = []

        def write(self, text: str) -> None:
            self.lines.append(text)

        def __call__(self, kind: str, flag: int) -> None:
            self.calls.append(kind)

    x = tensor(3e38, 0.0, -1.0)
    for modes, lines, calls, messages in (
        ({"over": "warn", "invalid": "log"}, 1, 0, 1),
        ({"over": "log", "invalid": "warn"}, 1, 0, 1),
        ({"over": "call", "invalid": "warn"}, 0, 1, 1),
        ({"over": "warn", "invalid": "warn"}, 0, 0, 2),
    ):
        log = Log()
        with np.errstate(**modes, call=log):  # type: ignore[arg-type]

            def act() -> None:
                x.astype("float32").pow(2.5)

            told = told_here(act)
        assert (len(set(log.lines)), len(set(log.calls)), len(told)) == (lines, calls, messages), modes


def test_in_threads() -> None:
    x = mg.full((2, 2), 3e38)

    def act(i: int) -> Any:
        return (x @ x).tolist()

    with ThreadPoolExecutor(4) as pool, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        list(pool.map(act, range(40)))
    assert {(each.filename, each.lineno) for each in told} == {(__file__, act.__code__.co_firstlineno + 1)}
    assert len(told) == 40


def test_what_is_not_of_numbers_is_warned_of_too() -> None:
    """Deep inside a kernel nobody can word it: a line of the library's, and the kernel's result."""
    scope: dict[str, Any] = {"np": np, "__warningregistry__": WITHHELD, "__name__": "micrograd_core.made_up"}
    exec("def kernel(x):\n    calls.append(1)\n    return inner(x)\ndef inner(x): return x.astype('f4')", scope)
    scope["calls"] = list[int]()
    x = np.array([1 + 2j])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = scope["kernel"](x)
        except TypeError as error:
            found = unless_withheld(error, scope["kernel"], (x,), {})
    assert found.tolist() == [1.0]
    assert [each.category.__name__ for each in told] == ["ComplexWarning"]
    assert scope["__warningregistry__"] is WITHHELD
    with pytest.raises(TypeError) as refusal:
        scope["kernel"](x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(np.exceptions.ComplexWarning):
            unless_withheld(refusal.value, scope["kernel"], (x,), {})
    assert scope["__warningregistry__"] is WITHHELD


def test_a_type_error_of_a_kernel_is_told() -> None:
    with pytest.raises(TypeError, match="mine"):
        unless_withheld(TypeError("mine"), print, (), {})
