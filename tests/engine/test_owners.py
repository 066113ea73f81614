"""Who shares a tensor's memory: the tensors that are alive say so, whatever the interpreter tells of its counts."""

from __future__ import annotations

import array
import gc
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import micrograd_core as mg
from micrograd_core import Device, Tensor, Value, jit, nn, no_grad
from micrograd_core.engine import write
from micrograd_core.engine.array import shared_beyond
from micrograd_core.errors import GraphError, TraceError
from micrograd_core.scalar import bridge as parameters
from micrograd_core.support import ownership

ROOT = Path(mg.__file__).parents[1]
COUNTS = {
    "as it is": "",
    "none": "del sys.getrefcount",
    "always 1": "sys.getrefcount = lambda x: 1",
    "far too many": "sys.getrefcount = lambda x: 2**30",
    "fewer": "sys.getrefcount = lambda x, count=sys.getrefcount: count(x) - 2",
    "every other": "sys.getrefcount = lambda x, count=sys.getrefcount: count(x) // 2",
}
PROGRAM = """
import sys
sys.path[:0] = {path!r}
{count}
from micrograd_core import Tensor, Value, nn
from micrograd_core.errors import GraphError

x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True, device="rawbuffer")
y = x * 2
view = y[0]
try:
    y.T[1] = 0.0
except GraphError:
    print("refused")
del view
y.T[1] = 0.0
print(y.tolist())
(y * y).sum().backward()
print(x.grad.tolist())

end = a = Value(1.0)
for i in range(600):
    end = end * 1.0
    if i == 100:
        held = end
end.backward()
print(held.grad, a.grad)

model = nn.MLP(1, [1, 1])
for p in model.parameters():
    p.data = 0.5
loss = model(Tensor([[2.0]])).sum()
for p in model.parameters():
    p.data = 7.0
loss.backward()
print([(p.data, p.grad) for p in model.parameters()])
"""

EXPECTED = """\
refused
[[2.0, 0.0], [6.0, 0.0]]
[[8.0, 0.0], [24.0, 0.0]]
1.0 1.0
[(7.0, 1.0), (7.0, 0.5), (7.0, 1.5), (7.0, 1.0)]
"""


def outcome(count: str) -> str:
    script = PROGRAM.format(path=sys.path, count=count)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform == "emscripten", reason="this system has no processes")
@pytest.mark.parametrize("count", COUNTS.values(), ids=COUNTS)
def test_nothing_depends_on_what_the_interpreter_counts(count: str) -> None:
    assert outcome(count) == EXPECTED


# ── the garbage collector knows who refers to a storage ─────────────────────────────────────────────────────────


def by_the_collector(*tensors: Any) -> bool:
    common = tensors[0]._storage
    if common is None:
        return False
    return any(isinstance(x, Tensor) and all(x is not y for y in tensors) for x in gc.get_referrers(common))


def memories(tensors: Any) -> list[int]:
    """Which of them have the storage of which: by their positions, so that nothing here holds one."""
    keys = [id(getattr(x, "_storage", None)) for x in tensors]
    return list(map(keys.index, keys))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What each write was told; it is compared with the garbage collector."""
    answers: list[bool] = []

    def compared(*tensors: Any) -> bool:
        expected, before = by_the_collector(*tensors), memories(tensors)
        found = shared_beyond(*tensors)
        assert found == expected
        assert memories(tensors) == before
        answers.append(found)
        return found

    monkeypatch.setattr(write, "shared_beyond", compared)
    return answers


STEPS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x[1:],
    lambda x: x[::-1],
    lambda x: x.mT,
    lambda x: x.reshape(-1).reshape(x.shape),
    lambda x: x.detach(),
    lambda x: x[...][None][0],
    lambda x: x * 2.0,
    lambda x: x.copy(),
)


def run(seed: int, place: str) -> None:
    choice = random.Random(seed)
    start = Tensor([[float(3 * i + j) for j in range(3)] for i in range(3)], device=place)
    start.requires_grad = choice.random() < 0.7
    alive = [start * 1.0 if choice.random() < 0.8 else start]
    for _ in range(14):
        x = choice.choice(alive)
        action = choice.random()
        if action < 0.5:
            alive.append(choice.choice(STEPS)(x))
        elif action < 0.65 and len(alive) > 1:
            del alive[choice.randrange(len(alive))]
        elif x.shape[0] and x.shape[-1]:
            value = choice.choice([2.0, x[0] * 1.0 if x.ndim else 1.0, start[0, 0]])
            try:
                with no_grad() if choice.random() < 0.2 else mg.enable_grad():
                    if choice.random() < 0.5:
                        x[0] = value
                    else:
                        x[0][...] = value
            except (GraphError, mg.errors.ShapeError):
                pass


@pytest.mark.parametrize("place", ["cpu", "rawbuffer"])
def test_a_write_is_told_of_every_tensor_that_is_alive_and_of_no_other(place: str, asked: list[bool]) -> None:
    for seed in range(60):
        run(seed, place)
    assert min(asked.count(True), asked.count(False)) > 20


def raising(*_: Any) -> None:
    raise MemoryError


def recorded(device: Device) -> tuple[Tensor, Tensor]:
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
    return x, x * 2


def test_a_view_that_has_died_is_nobody(device: Device, asked: list[bool]) -> None:
    _, y = recorded(device)
    views = [y[i:] for i in range(3)]
    with pytest.raises(GraphError):
        y[0] = 5.0
    views.clear()
    y[0] = 5.0
    assert asked == [True, False]
    assert y.tolist() == [5.0, 4.0, 6.0]


def test_a_refused_write_leaves_the_memory_shared(device: Device) -> None:
    _, y = recorded(device)
    view = y[1:]
    for _ in range(2):
        with pytest.raises(GraphError):
            y[0] = 5.0
    view[0] = 7.0
    assert y.tolist() == [2.0, 7.0, 6.0]


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[Tensor, Tensor], None]:
    """A write of a recorded number, which fails after it was found legal."""

    def write_to(x: Tensor, value: Tensor) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(write, "_replace", raising)
            with pytest.raises(MemoryError):
                x[0] = value

    return write_to


def test_after_a_write_that_failed_the_next_one_is_noticed(device: Device, no_memory: Any) -> None:
    x, factor = Tensor([1.0, 2.0], device=device), Tensor([3.0, 4.0], device=device, requires_grad=False)
    y = x * factor
    no_memory(factor, x[0])
    factor[0] = 100.0
    with pytest.raises(GraphError, match="written in place after"):
        y.sum().backward()


def test_after_a_write_that_failed_the_next_one_spares_what_was_recorded(device: Device, no_memory: Any) -> None:
    x, y = recorded(device)
    loss, alone = (y * y).sum(), y.detach()
    del y
    no_memory(alone, x[0])
    with no_grad():
        alone[0] = 100.0
    loss.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [8.0, 16.0, 24.0]


# ── without the GIL ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def without_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a free-threaded Python says, and the counts that it has not."""
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    monkeypatch.setattr(parameters, "references", ownership.counter())


def test_what_dies_later_hinders_no_write(device: Device, without_gil: None) -> None:
    x, y = recorded(device)
    late = [y[1:]._storage]  # as long as the thread that made the storage has not seen that a view of another has gone
    y[0] = 5.0
    assert late
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 2.0, 2.0]


def test_living_views_still_do(device: Device, without_gil: None) -> None:
    _, y = recorded(device)
    view = y[1:]
    with pytest.raises(GraphError):
        y[0] = 5.0
    assert view.tolist() == [4.0, 6.0]


def test_parameters_are_copied_when_written(without_gil: None) -> None:
    p = nn.MLP(2, [1]).parameters()[0]
    handles = []
    for x in (3.0, 4.0):
        p.data = x
        handles.append(p._a.tensor._handle)
        assert p.data == x
    assert handles[0] is not handles[1]


def test_parameters_are_else_written_in_place_until_somebody_holds_their_memory() -> None:
    tensor: Any = SimpleNamespace(_handle=bytearray(16), dtype=mg.float64, _kernels=SimpleNamespace(copy=bytearray))
    window = parameters.Window()
    for x in (3.0, 4.0):
        window.write(tensor, 1, x)
        before = id(tensor._handle)
        window.write(tensor, 0, x)
        assert id(tensor._handle) == before
    kept = tensor._handle
    window.write(tensor, 1, 5.0)
    assert [array.array("d", x).tolist() for x in (kept, tensor._handle)] == [[4.0, 4.0], [4.0, 5.0]]


def test_functions_of_tensors_are_not_compiled(device: Device, without_gil: None) -> None:
    double = jit(lambda x: x * 2)
    with pytest.raises(TraceError, match=r"without the GIL.*PYTHON_GIL=1, or call the function without jit"):
        double(mg.ones(3, device=device))
    assert double(Value(3.0)).data == 6.0
