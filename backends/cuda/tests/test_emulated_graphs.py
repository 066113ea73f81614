"""Programs captured as CUDA graphs, on the emulated GPU: the same numbers as without, and nothing held is written."""

from __future__ import annotations

import gc
import importlib
import os
import random as choices
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, autocast, concat, jit, nn, no_grad, optim, random, stack, zeros
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.errors import OutOfMemory
from micrograd_core.transforms import replay
from tests.interrupts import each_line

pytestmark = pytest.mark.skipif(
    find_spec("emulated_cuda") is None, reason="there is no emulated GPU: python backends/cuda/tests/emulated/build.py"
)


@pytest.fixture
def boot() -> Any:
    return importlib.import_module("emulated_cuda.boot")


@pytest.fixture
def gpu() -> Device:
    return Device("cuda")


@contextmanager
def without_graphs(gpu: Device) -> Iterator[None]:
    """As MICROGRAD_CUDA_GRAPHS=0 has it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gpu.kernels.backend, "graphs", False)
        yield


def tensor(a: Any, gpu: Device) -> Tensor:
    return Tensor(np.asarray(a, "float32"), device=gpu, requires_grad=False)


class Training:
    """A small network with dropout and Adam, and one jitted step of it."""

    def __init__(self, gpu: Device, make: Callable[[list[Tensor]], Any] = optim.Adam, dropout: float = 0.2) -> None:
        self.rng, self.gpu = np.random.default_rng(0), gpu
        random.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 10)).to(gpu)
        rule, model = make(list(self.model.parameters())), self.model

        def step(x: Tensor, targets: Tensor) -> Tensor:
            rule.zero_grad()
            loss = nn.cross_entropy(model(x), targets)
            loss.backward()
            rule.step()
            return loss

        self.step = jit(step)

    def run(self, steps: int) -> tuple[list[Any], list[Any]]:
        """Losses, and parameters with gradients. Losses are held until the end."""
        losses = []
        for _ in range(steps):
            x, targets = tensor(self.rng.normal(size=(16, 20)), self.gpu), self.rng.integers(10, size=16)
            losses.append(self.step(x, Tensor(targets, device=self.gpu)))
        found = [x for p in self.model.parameters() for x in (p.detach(), p.grad)]
        return [each.item() for each in losses], [x.numpy().tolist() for x in found]


RULES: dict[str, Callable[[list[Tensor]], Any]] = {
    "adam": optim.Adam,
    "momentum": lambda params: optim.SGD(params, lr=0.1, momentum=0.9),
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_a_training_step_is_one_graph(rule: str, late: bool, gpu: Device, boot: Any) -> None:
    with without_graphs(gpu):
        expected = Training(gpu, RULES[rule]).run(12)
    training = Training(gpu, RULES[rule])
    before = boot.count("graph launch")
    with boot.late() if late else nullcontext():
        assert training.run(12) == expected
    assert boot.count("graph launch") - before == 8  # the first call makes the state, three are watched
    lists = [boot.recorded(lambda: training.run(1)) for _ in range(6)]
    lists = [asked for asked in lists if not any(line.startswith("product") for line in asked)]
    assert len(lists) > 2  # an input that happened to lie at one place while it was watched is found out later
    for asked in lists:
        assert asked.count("graph") == 1
        kinds = {line.split()[0] for line in asked if not line.startswith(("graph", "host to", "device to"))}
        assert not kinds  # the mask of a dropout is drawn in the nest that uses it
        assert not any("allocation" in line for line in asked)


class Language:
    """A small GPT, whose embedding's gradient is sorted, with Adam; and one jitted step of it."""

    def __init__(self, gpu: Device) -> None:
        random.manual_seed(0)
        self.gpu, self.rng = gpu, np.random.default_rng(0)
        parts = nn.Embedding(11, 16), nn.TransformerBlock(16, 2), nn.LayerNorm(16), nn.Linear(16, 11)
        embed, block, norm, head = (part.to(gpu) for part in parts)
        self.parameters = [p for part in (embed, block, norm, head) for p in part.parameters()]
        rule = optim.Adam(self.parameters)

        def step(tokens: Tensor, targets: Tensor) -> Tensor:
            rule.zero_grad()
            loss = nn.cross_entropy(head(norm(block(embed(tokens), is_causal=True))).reshape(-1, 11), targets)
            loss.backward()
            rule.step()
            return loss

        self.step = jit(step)

    def run(self, steps: int) -> tuple[list[Any], list[Any]]:
        losses = []
        for _ in range(steps):
            tokens = self.rng.integers(11, size=(4, 9))
            x, targets = Tensor(tokens[:, :-1], device=self.gpu), Tensor(tokens[:, 1:].ravel(), device=self.gpu)
            losses.append(self.step(x, targets))
        return [each.item() for each in losses], [p.detach().tolist() for p in self.parameters]


@pytest.mark.parametrize("late", [False, True])
def test_a_language_models_step_is_one_graph(late: bool, gpu: Device, boot: Any) -> None:
    with without_graphs(gpu):
        expected = Language(gpu).run(8)
    model, before = Language(gpu), boot.count("graph launch")
    with boot.late() if late else nullcontext():
        assert model.run(8) == expected
    assert boot.count("graph launch") - before == 4
    assert boot.recorded(lambda: model.run(1)).count("graph") == 1


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("count", [8, 9, 20, 70])
def test_many_arrays_are_joined_in_a_graph(count: int, axis: int, gpu: Device, boot: Any) -> None:
    """Of more than eight CuPy copies the addresses from the host, which no graph can."""
    arrays = [np.full((2, 3), i, "float32") for i in range(count)]
    f, before = jit(lambda *xs: (concat(xs, axis=axis), stack(xs, axis=axis))), boot.count("graph launch")
    given = [tensor(a, gpu) for a in arrays]
    for _ in range(6):
        joined, stacked = f(*given)
        np.testing.assert_array_equal(joined.numpy(), np.concatenate(arrays, axis))
        np.testing.assert_array_equal(stacked.numpy(), np.stack(arrays, axis))
    assert boot.count("graph launch") - before == 3


def test_two_steps_read_and_write_the_same_memory(gpu: Device, boot: Any) -> None:
    """What is asked of the device beside the graph: copies to where it reads, of inputs that come from elsewhere."""
    training = Training(gpu, dropout=0.0)
    training.run(6)
    x, targets = tensor(np.ones((16, 20)), gpu), Tensor(np.zeros(16, "int64"), device=gpu)
    lists = [boot.recorded(lambda: training.step(x, targets)) for _ in range(12)]
    assert lists[-1] == lists[-3]
    assert lists[-2] == lists[-4]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("seed", range(100) if os.environ.get("MICROGRAD_EXHAUSTIVE") == "1" else (0, 3, 14, 49))
def test_whatever_is_held_stays_as_it_was(seed: int, late: bool, gpu: Device, boot: Any) -> None:
    """Inputs that are fed back, new, the same, or not contiguous; results that are held for any time, or as views."""

    def f(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        d = a * 0.5 + b @ c
        return d, (b + 1.0) * 0.25, c.mT.softmax(axis=1), d.sum(), (d * d).mT

    def expected(a: Any, b: Any, c: Any) -> tuple[Any, ...]:
        d = a * np.float32(0.5) + b @ c
        e = np.exp(c.T - c.T.max(axis=1, keepdims=True))
        return d, (b + 1) * np.float32(0.25), e / e.sum(axis=1, keepdims=True), d.sum(), (d * d).T

    gc.collect()  # programs of other seeds, with their memory
    pick, rng, jitted = choices.Random(seed), np.random.default_rng(seed), jit(f)
    fresh = lambda: rng.integers(-4, 5, (8, 8)).astype("float32")  # noqa: E731
    held: list[tuple[Tensor, Any]] = []
    now = [(tensor(x, gpu), x) for x in (fresh(), fresh(), fresh())]
    launched = boot.count("graph launch")
    with boot.late() if late else nullcontext(), no_grad():
        for _ in range(30):
            with gpu.stream() if pick.random() < 0.1 else nullcontext():
                found = jitted(*(x for x, _ in now))
            wanted = expected(*(x for _, x in now))
            pairs = list(zip(found, wanted, strict=True))
            if pick.random() < 0.5:
                held.append(pick.choice(pairs))
            if pick.random() < 0.3:
                x, y = pick.choice(pairs[:3])
                held.append((x[1:, ::2], y[1:, ::2]))
            if held and pick.random() < 0.5:
                held.pop(pick.randrange(len(held)))
            for x, y in held if pick.random() < 0.2 else ():
                np.testing.assert_allclose(x.detach().numpy(), y, rtol=1e-4, atol=1e-3)
            for i in range(3):
                kind = pick.choice(["back", "back", "back", "same", "new", "turned"])
                if kind == "back":
                    now[i] = pairs[i]
                elif kind == "new":
                    x = fresh()
                    now[i] = tensor(x, gpu), x
                elif kind == "turned":
                    x = fresh()
                    now[i] = tensor(x, gpu).mT, x.T
            del found, pairs
    for x, y in held:
        np.testing.assert_allclose(x.detach().numpy(), y, rtol=1e-4, atol=1e-3)
    assert boot.count("graph launch") > launched


class InHalves(Training):
    """The network under autocast, a loss without gradients, and what happens between steps."""

    def __init__(self, gpu: Device) -> None:
        super().__init__(gpu, dropout=0.0)
        model = self.model

        def value(x: Tensor) -> Tensor:
            with autocast("bfloat16"), no_grad():
                return model(x).astype("float32").sum()

        self.value, step = jit(value), self.step.__wrapped__
        self.step = jit(self.within(step))
        self.held: list[Any] = []

    @staticmethod
    def within(step: Callable[..., Any]) -> Callable[..., Any]:
        def under(x: Tensor, targets: Tensor) -> Any:
            with autocast("bfloat16"):
                return step(x, targets)

        return under

    def between(self, pick: choices.Random) -> None:
        """Weights are looked at, held, written in place, or others."""
        w, how = pick.choice([*self.model.parameters()]), pick.choice(["", "", "hold", "write", "data", "drop"])
        with no_grad():
            if how == "hold":
                self.held.append((w.detach(), w.detach().numpy()))
            elif how == "write":
                w[..., 0] = pick.uniform(-1, 1)
            elif how == "data":
                w.data = w.copy() * 0.5
            elif how == "drop":
                self.held.clear()

    def check(self) -> None:
        for x, numbers in self.held:
            np.testing.assert_array_equal(x.numpy(), numbers)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("seed", range(100) if os.environ.get("MICROGRAD_EXHAUSTIVE") == "1" else (0, 1, 2))
def test_casts_of_weights_go_from_graph_to_graph(
    seed: int, late: bool, gpu: Device, boot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same numbers as where each call casts them, one launch after the other, whatever is done in between."""
    made = []
    for least in (10**9, 1):
        monkeypatch.setattr(replay, "LARGE", least)
        training, pick, found = InHalves(gpu), choices.Random(seed), list[float]()
        launched = boot.count("graph launch")
        with without_graphs(gpu) if least > 1 else boot.late() if late else nullcontext():
            for i in range(36):
                found += training.run(1)[0]
                if i % 12 > 8:  # a while without, so that there are graphs
                    training.between(pick)
                if pick.random() < 0.3:
                    found.append(training.value(tensor(np.ones((16, 20)), gpu)).item())
                training.check()
        made.append(found)
    assert boot.count("graph launch") - launched > 12
    np.testing.assert_allclose(*made, rtol=1e-2, atol=1e-3)


def test_parameters_are_written_where_the_other_graph_reads_them(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """No copy is part of a graph, but for sums that a kernel had found on its way."""
    from micrograd_cuda import graphs as module

    copied, plain = list[Any](), module._copy

    def copy(x: Any, to: Any, stream: Any) -> None:
        copied.append((x.shape, stream.is_capturing()))
        plain(x, to, stream)

    monkeypatch.setattr(module, "_copy", copy)
    Training(gpu).run(8)
    assert ((16, 20), False) in copied
    assert {shape for shape, captured in copied if captured} <= {(32,)}


def test_weights_that_become_others_are_read(gpu: Device) -> None:
    w = tensor(np.ones(1000), gpu)
    f, x, first = jit(lambda x: x * w), tensor(np.arange(1000), gpu), w[:2]
    for n in range(6):
        if n > 3:
            w.data = tensor(np.full(1000, float(n)), gpu)
        assert f(x)[3].item() == 3.0 * (n if n > 3 else 1)
        assert first.tolist() == [1.0, 1.0]


def test_a_stream_of_ones_own_has_no_graph(gpu: Device, boot: Any) -> None:
    """The graph's memory is in order with the stream that it was launched on."""
    x, f = tensor([1.0, 2.0], gpu), jit(lambda x: x * 2.0)
    for _ in range(4):
        f(x)
    before = boot.count("graph launch")
    with gpu.kernels.backend.cupy.cuda.Stream():
        assert f(x).tolist() == [2.0, 4.0]
    assert boot.count("graph launch") == before
    assert f(x).tolist() == [2.0, 4.0]
    assert boot.count("graph launch") == before + 1


def test_what_is_fed_back_is_not_copied(gpu: Device, boot: Any) -> None:
    """Also where a step takes other memory before that of its result."""
    f, x = jit(lambda x: x.mT.softmax(axis=1)), tensor(np.eye(8), gpu)
    for _ in range(6):
        x = f(x)

    def twice() -> None:
        nonlocal x
        x = f(x)
        x = f(x)

    assert boot.recorded(twice) == ["graph"] * 2


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_batches_of_products_are_captured(dtype: str, gpu: Device, boot: Any) -> None:
    a = np.random.default_rng(0).integers(-2, 3, (3, 4, 4))
    f, x = jit(lambda x: x @ x), tensor(a, gpu).astype(dtype)
    before = boot.count("graph launch")
    assert [f(x).tolist() for _ in range(5)] == [(a @ a).tolist()] * 5
    assert boot.count("graph launch") == before + 2


def test_a_view_of_an_input_is_no_memory_of_the_graph(gpu: Device) -> None:
    f = jit(lambda x: (x.mT, x.reshape(4)))
    x = [tensor([[i, 2.0], [3.0, 4.0]], gpu) for i in range(6)]
    f(x[0])
    compiled = gpu.kernels.backend.compile(f.program)  # jit itself copies what is a view
    found = [compiled(each._handle) for each in x]
    for i, (turned, flat) in enumerate(found):
        assert turned.tolist() == [[i, 3.0], [2.0, 4.0]]
        assert flat.tolist() == [i, 2.0, 3.0, 4.0]


def test_inputs_at_one_address_with_other_strides(gpu: Device) -> None:
    w, big = tensor(np.arange(9.0).reshape(3, 3), gpu), tensor(np.arange(32.0).reshape(16, 2), gpu)
    f, g = jit(lambda x: x * 2.0 + 1.0), jit(lambda x: x * 3.0)
    for _ in range(5):
        f(w), g(big[:8])
    for _ in range(4):
        assert f(w.mT).tolist() == (w.numpy().T * 2.0 + 1.0).tolist()
        assert g(big[:16:2]).tolist() == (big.numpy()[::2] * 3.0).tolist()
        assert f(w).tolist() == (w.numpy() * 2.0 + 1.0).tolist()
        assert g(big[:8]).tolist() == (big.numpy()[:8] * 3.0).tolist()


def test_inputs_that_shared_memory_may_differ_later(gpu: Device) -> None:
    f = jit(lambda x, y: x * 2.0 + y)
    f(tensor([1.0, 2.0], gpu), tensor([3.0, 4.0], gpu))
    assert f.program is not None
    backend = gpu.kernels.backend
    program = importlib.import_module("micrograd_cuda.graphs").Graphed(backend, f.program)
    (x,) = program(*[backend.cupy.ones(2, "float32")] * 2)
    for _ in range(6):
        (x,) = program(x, x)
    assert x.tolist() == [3.0**7] * 2
    del x  # or nothing is written where it lies
    for i in range(4):
        (found,) = program(backend.cupy.full(2, float(i), "float32"), backend.cupy.full(2, 10.0, "float32"))
        assert found.tolist() == [i * 2.0 + 10.0] * 2


def test_a_result_stays_where_streams_have_one_handle(gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers give a handle again when its stream is gone, and CuPy's pools keep free memory by handle."""
    cuda = gpu.kernels.backend.cupy.cuda
    kept = cuda.Stream(non_blocking=True)
    monkeypatch.setattr(cuda, "Stream", lambda **options: kept)
    f = jit(lambda x: ((x * 2.0).sum(axis=0) + 1.0, (x @ x.mT @ x).sum(axis=0) * 0.5))
    before: list[Any] = []
    for i in range(12):
        x = np.random.default_rng(i).normal(size=(6, 6)).astype("float32")
        found = f(tensor(x, gpu))
        for result, wanted in before:
            np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-4, atol=1e-4)
        before = [*zip(found, ((x * 2.0).sum(axis=0) + 1.0, (x @ x.T @ x).sum(axis=0) * 0.5), strict=True)]


def test_an_eager_optimisers_parameters_are_read_where_they_are(gpu: Device, boot: Any) -> None:
    """They alternate between two places: there is a graph for each."""
    random.manual_seed(0)
    model = nn.Linear(600, 600, bias=False).to(gpu)
    rule, loss = optim.SGD(model.parameters(), lr=0.1), jit(lambda x: (model(x) ** 2).mean())

    def step() -> None:
        rule.zero_grad()
        loss(tensor(np.ones((4, 600)), gpu)).backward()
        rule.step()

    for _ in range(12):
        step()
    asked = boot.recorded(step)
    assert "graph" in asked
    assert not [line for line in asked if line.startswith("device to device") and str(600 * 600 * 4) in line]


def test_graphs_share_memory_which_is_the_pools(gpu: Device) -> None:
    gc.collect()
    gpu.release_memory()  # of graphs before, which these would share
    x, before = tensor(np.ones((512, 512)), gpu), gpu.memory()["in_use"]
    chain = lambda k: jit(lambda x: (x.mT.softmax(axis=1).mT.softmax(axis=1).mT * k).sum())  # noqa: E731
    functions = [chain(k) for k in (1.0, 2.0, 3.0)]
    used = []
    for f in functions:
        for _ in range(5):
            f(x)
        used.append(gpu.memory()["in_use"] - before)
    assert used[0] > 2 * x.nbytes
    assert used[2] - used[0] < x.nbytes
    gpu.release_memory()
    assert gpu.memory()["in_use"] <= before
    assert [round(f(x).item()) for f in functions for _ in range(3)] == [512 * k for k in (1, 2, 3) for _ in range(3)]


def test_a_program_that_is_gone_leaves_no_memory(gpu: Device) -> None:
    """Without a collector, and whatever it read."""
    gc.collect()
    gc.disable()
    try:
        f, x = jit(lambda x: x * 2.0), tensor(np.ones(2**20), gpu)
        for _ in range(6):
            f(x)
        before = gpu.memory()["in_use"]
        del x
        assert gpu.memory()["in_use"] == before - 2**22
        del f
        assert gpu.memory()["in_use"] == before - 2**23
    finally:
        gc.enable()


def test_graphs_go_where_memory_runs_out(gpu: Device, boot: Any) -> None:
    gpu.release_memory()
    backend, f, x = gpu.kernels.backend, jit(lambda x: x.mT.softmax(axis=1).sum()), tensor(np.ones((512, 512)), gpu)
    for _ in range(5):
        f(x)
    used = gpu.memory()["in_use"]
    try:
        backend.pool.set_limit(size=gpu.memory()["reserved"] + 2**20)
        y = zeros((used - 2**24,), dtype="uint8", device=gpu)
        assert gpu.memory()["in_use"] < used + y.nbytes - 2**25
        with pytest.raises(OutOfMemory, match="asked"):
            zeros((2**30,), dtype="uint8", device=gpu)
        assert f(x).item() == 512.0
    finally:
        backend.pool.set_limit(size=0)


@pytest.mark.parametrize("most", ["1000000", "0.01%"])
def test_beyond_a_limit_there_is_no_graph_and_a_sentence(
    most: str, gpu: Device, boot: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu.release_memory()
    monkeypatch.setenv("MICROGRAD_CUDA_GRAPHS", most)
    f, x, before = (
        jit(lambda x: x.mT.softmax(axis=1).sum()),
        tensor(np.ones((512, 512)), gpu),
        boot.count("graph launch"),
    )
    monkeypatch.setenv("MICROGRAD_JIT_DUMP", "1")
    assert [f(x).item() for _ in range(6)] == [512.0] * 6
    assert boot.count("graph launch") == before
    assert "no CUDA graph of this program: out of memory on cuda:0: asked 1,048,576 bytes" in capsys.readouterr().err
    gpu.release_memory()


def test_a_program_beyond_the_limit_takes_no_memory_from_graphs(
    gpu: Device, boot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CuPy's pools give back what is free before they refuse; graphs write there none the less."""
    gpu.release_memory()
    monkeypatch.setenv("MICROGRAD_CUDA_GRAPHS", str(2**23))
    small, large = (jit(lambda x: (x.mT.softmax(axis=1).mT.softmax(axis=1)).sum()) for _ in range(2))
    x, y = (tensor(np.ones((n, n)), gpu) for n in (512, 1536))
    for _ in range(5):
        assert (small(x).item(), large(y).item()) == (512.0, 1536.0)
    gpu.kernels.backend.pool.free_all_blocks()
    before = boot.count("graph launch")
    assert (small(x).item(), large(y).item()) == (512.0, 1536.0)
    assert boot.count("graph launch") == before + 1
    gpu.release_memory()


def test_another_threads_call_places_nothing_in_a_captured_programs_memory(
    gpu: Device, boot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs the same program without a graph while this thread captures it."""
    from micrograd_cuda import graphs as module

    here = module.Aim.__call__

    def called(self: Any, place: int) -> None:
        here(self, place)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(here, self, (place + 1) % 3).result()

    monkeypatch.setattr(module.Aim, "__call__", called)
    f, x = jit(lambda x: (x.softmax(axis=1), x.mT.softmax(axis=1), (x * 2.0).softmax(axis=1))), tensor(np.eye(8), gpu)
    before = boot.count("graph launch")
    results = [[y.tolist() for y in f(x)] for _ in range(6)]
    assert boot.count("graph launch") > before
    assert results == results[:1] * 6


@pytest.mark.parametrize("most", ["off", "2GB", "-1", "20 %", "%"])
def test_a_limit_that_is_none_is_refused(most: str, gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    from micrograd_cuda.graphs import Graphs

    monkeypatch.setenv("MICROGRAD_CUDA_GRAPHS", most)
    with pytest.raises(ValueError, match=f"MICROGRAD_CUDA_GRAPHS is 0, a number of bytes, .*; got '{most}'"):
        Graphs(gpu.kernels.backend)


@pytest.mark.parametrize("calls", [3, 7])
def test_an_interrupt_at_any_line_leaves_graphs_as_useful(calls: int, gpu: Device, boot: Any) -> None:
    """Of a call that captures, and of one that launches; no lock stays held, and the next calls launch graphs."""
    from micrograd_cuda import graphs as module

    x, at = tensor(np.eye(4), gpu), 0
    left = [at]

    def interrupt(frame: Any) -> None:
        left[0] -= 1
        if left[0] == -1:
            raise KeyboardInterrupt

    while left[0] < 0 or not at:
        f, left[0], at = jit(lambda x: (x.softmax(axis=1), x * 2.0)), at, at + 1
        expected = [y.tolist() for y in f(x)]
        for _ in range(calls):
            f(x)
        with (
            suppress(KeyboardInterrupt),
            each_line(interrupt, lambda frame: frame.f_code.co_filename == module.__file__),
        ):
            f(x)
        for _ in range(3):
            assert [y.tolist() for y in f(x)] == expected
        launched = boot.count("graph launch")
        assert [y.tolist() for y in f(x)] == expected
        assert boot.count("graph launch") == launched + 1, at
    assert at > 20


def test_what_cannot_be_captured_runs_as_ever(gpu: Device, boot: Any) -> None:
    f = FUNCTIONS["inv"]  # by cuSOLVER
    jitted, x = jit(f), tensor(np.eye(4) * 2, gpu)
    before = boot.count("graph launch")
    with no_grad():
        assert [jitted(x).tolist() for _ in range(5)] == [f(x).tolist()] * 5
    assert boot.count("graph launch") == before
    assert (x + 1.0)[0, 0].item() == 3.0


def test_fourier_transforms_are_no_part_of_a_graph(gpu: Device) -> None:
    """CuPy forgets plans of cuFFT, whose memory a graph would go on to write."""
    programs, x = gpu.kernels.backend.shared.programs, tensor(np.arange(8.0, dtype="float32"), gpu)
    for f, graphs in ((lambda x: FUNCTIONS["rfft"](x) * 2, 0), (lambda x: x + 1.0, 1)):
        before, jitted = {*programs}, jit(f)
        jitted(x)
        assert len({*programs} - before) == graphs


def test_copies_from_and_to_the_host_are_no_part_of_a_graph(gpu: Device) -> None:
    """What they read or write on the host is memory that others get before the graph is launched again."""
    backend = gpu.kernels.backend
    x, a = tensor([1.0, 2.0], gpu), np.zeros(2, "float32")
    with backend.cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        for copy in (lambda: backend.from_host(a, a.shape, a.dtype), lambda: backend.to_host(x._handle)):
            with pytest.raises(RuntimeError, match="cannot be part of a CUDA graph"):
                copy()
        stream.end_capture()
    assert x.tolist() == [1.0, 2.0]


def test_a_graph_whose_memory_is_gone_is_not_launched(gpu: Device, capfd: pytest.CaptureFixture[str]) -> None:
    cupy = gpu.kernels.backend.cupy
    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc), cupy.cuda.Stream(non_blocking=True) as stream:
        x, y = cupy.ones(1000), cupy.ones(1000)
        cupy.add(x, y, out=y)
        stream.begin_capture()
        cupy.add(x, y, out=y)
        graph = stream.end_capture()
        graph.launch(stream)
        assert y[0] == 3.0
        del x
        pool.free_all_blocks()
        for _ in range(2):
            with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="IllegalAddress"):
                graph.launch(stream)
            y = cupy.ones(1000)  # it may lie where x did
    assert "a graph is launched whose memory is freed: cupy_add" in capfd.readouterr().err
