"""Batches: each example once an epoch, the same ones after a resumption, and a thread that leaves when it should."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
import time
import traceback
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import micrograd_core as mg
from micrograd_core import Device, Tensor
from micrograd_core.data import Batches, DataError, batches
from micrograd_train import sets

X = np.arange(20, dtype="float32").reshape(10, 2)
Y = np.arange(10)


def flat(batches_: Any) -> list[Any]:
    return [each for batch in batches_ for each in batch.tolist()]


def fetchers() -> int:
    return sum(thread.name == "micrograd batches" for thread in threading.enumerate())


def soon(condition: Callable[[], bool]) -> bool:
    """Threads end by themselves, and nobody waits for them."""
    until = time.monotonic() + 20
    while not condition() and time.monotonic() < until:
        time.sleep(0.001)
    return condition()


# ── epochs ───────────────────────────────────────────────────────────────────────────────────────────────────

SIZES = st.integers(1, 12)
PREFETCH = st.sampled_from([0, 1, 3])


class Examples:
    """Examples with places, one by one."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        return range(self.n)[i]


class Stream:
    """Examples without places, as often as one likes."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.n))


KINDS: dict[str, tuple[Callable[[int], Any], bool | int]] = {
    "array": (lambda n: np.arange(n), True),
    "in order": (lambda n: np.arange(n), False),
    "examples": (Examples, True),
    "list": (lambda n: list(range(n)), True),
    "stream": (Stream, False),
    "buffer": (Stream, 4),
}


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.sampled_from([*KINDS]), st.integers(1, 23), SIZES, st.booleans(), PREFETCH, st.integers(-3, 3), st.data())
def test_each_example_comes_once_an_epoch_and_a_resumption_goes_on(
    kind: str, n: int, size: int, drop_last: bool, prefetch: int, seed: int, data: st.DataObject
) -> None:
    make, shuffle = KINDS[kind]
    if drop_last and size > n:
        size = n

    def made(ahead: int = prefetch, number: int = seed) -> Batches:
        return batches(make(n), size, shuffle=shuffle, seed=number, drop_last=drop_last, prefetch=ahead)

    whole = made()
    epochs = [[batch.tolist() for batch in whole] for _ in range(3)]
    for epoch in epochs:
        lengths = [len(batch) for batch in epoch]
        rest = [n % size] if n % size and not drop_last else []
        assert lengths == [size] * (n // size) + rest
        seen = [each for batch in epoch for each in batch]
        assert len(set(seen)) == len(seen)
        assert drop_last or sorted(seen) == list(range(n))
        if shuffle is False:
            assert seen == list(range(len(seen)))
    if kind not in ("stream", "buffer"):
        assert len(whole) == len(epochs[0])
    assert [[batch.tolist() for batch in made(ahead=2 - prefetch % 2)] for _ in range(1)] == epochs[:1]

    epoch = data.draw(st.integers(0, 2))
    stop = data.draw(st.integers(0, len(epochs[0])))
    first = made()
    for _ in range(epoch):
        list(first)
    came = []
    state = first.state_dict()
    for batch in first if stop else ():
        came.append(batch.tolist())
        state = json.loads(json.dumps(first.state_dict()))
        assert (state["epoch"], state["position"]) == (epoch, len(came))
        if len(came) == stop:
            break
    assert came == epochs[epoch][:stop]
    second = made(ahead=data.draw(PREFETCH), number=seed + 1)  # the state brings the seed
    second.load_state_dict(state)
    assert [batch.tolist() for batch in second] == epochs[epoch][stop:]
    if epoch < 2:
        assert [batch.tolist() for batch in second] == epochs[epoch + 1]


def test_orders_differ_by_epoch_and_by_seed() -> None:
    made = batches(np.arange(50), 10)
    orders = [flat(made) for _ in range(3)] + [flat(batches(np.arange(50), 10, seed=seed)) for seed in (1, -1, 10**30)]
    assert len({tuple(order) for order in orders}) == 6


def test_the_order_is_that_of_always() -> None:
    """Checkpoints of other versions go on with it."""
    assert flat(batches(np.arange(10), 5, seed=3)) == [3, 8, 9, 1, 0, 5, 4, 7, 2, 6]
    assert flat(batches(iter(range(10)), 5, shuffle=4, seed=3)) == [2, 4, 3, 0, 5, 8, 9, 6, 1, 7]


def test_what_was_left_is_not_gone_on_with() -> None:
    made = batches(np.arange(10), 3)
    for _ in made:
        break
    assert (made.epoch, made.position) == (0, 1)
    assert sorted(flat(made)) == list(range(10))
    assert (made.epoch, made.position) == (2, 0)


def test_a_loop_that_did_not_begin_does_not_count() -> None:
    made = batches(np.arange(10), 3, shuffle=False)
    made.load_state_dict({**made.state_dict(), "position": 2})
    for _ in range(2):
        iter(made)
    assert [batch.tolist() for batch in made] == [[6, 7, 8], [9]]
    iter(made)
    assert (made.epoch, made.position) == (1, 0)
    made.load_state_dict({**made.state_dict(), "position": 4})
    assert list(made) == []
    assert (made.epoch, made.position, len(list(made))) == (2, 0, 4)


def test_two_loops_over_the_same_batches() -> None:
    made = batches(np.arange(6), 2, shuffle=False)
    assert [(a.tolist(), b.tolist()) for a in made for b in made if a[0].item() == b[0].item()] == [
        ([0, 1], [0, 1]), ([2, 3], [2, 3]), ([4, 5], [4, 5]),
    ]  # fmt: skip


def test_the_last_loop_is_what_counts() -> None:
    made = batches(np.arange(6), 2)
    first = iter(made)
    next(first)
    second = iter(made)
    next(second)
    assert len(list(first)) == 2
    assert (made.epoch, made.position) == (1, 1)
    state = batches(np.arange(6), 2).state_dict()
    made.load_state_dict(state)
    next(second)
    assert made.state_dict() == state


# ── what data are ────────────────────────────────────────────────────────────────────────────────────────────


def only(data: Any, size: int | None = 4, **options: Any) -> Any:
    """The first batch in order."""
    return next(iter(batches(data, size, shuffle=False, **options)))


Pair = namedtuple("Pair", "x y")


def test_batches_are_what_the_data_are(device: Device) -> None:
    mg_x = mg.asarray(X, device=device)
    for data in (X, mg_x, X.tolist()):
        batch = only(data, device=device)
        assert isinstance(batch, Tensor)
        assert (batch.device, batch.dtype, batch.tolist()) == (device, mg.float32, X[:4].tolist())
    x, (y, z) = only((mg_x, ({"a": Y}, Y.tolist())), device=device)
    assert (x.tolist(), y["a"].tolist(), z.tolist()) == (X[:4].tolist(), [0, 1, 2, 3], [0, 1, 2, 3])
    named = only(Pair(X, Y), device=device)
    assert type(named) is Pair
    assert named.y.tolist() == [0, 1, 2, 3]
    shuffled = next(iter(batches({"x": X, "t": mg_x, "l": X.tolist()}, 4, device=device)))
    assert shuffled["x"].tolist() == shuffled["t"].tolist() == shuffled["l"].tolist()
    assert {each.device for each in shuffled.values()} == {device}


def test_examples_are_put_side_by_side() -> None:
    assert only([1, 2, 3]).tolist() == [1, 2, 3]
    assert only([1.5, True]).dtype is mg.float32
    x, y = only([(np.ones(2), 3), (np.zeros(2), 4)])
    assert (x.tolist(), y.tolist(), x.dtype) == ([[1, 1], [0, 0]], [3, 4], mg.float64)
    assert only([Pair([1, 2], 3)]).x.tolist() == [[1, 2]]
    assert only([{"a": mg.ones(2), "b": (1, 2.0)}])["b"][1].tolist() == [2.0]
    assert only([[np.ones(2), 3]])[1].tolist() == [3]


def test_tensors_of_batches_are_nobody_elses() -> None:
    numbers, tensor = X.copy(), mg.asarray(X)
    for shuffle in (True, False):
        for batch, also in batches((numbers, tensor), 3, shuffle=shuffle):
            batch += 1
            also += 1
    assert (numbers == X).all()
    assert (tensor.detach().numpy() == X).all()
    for batch in batches([1, 2, 3], 1, transform=lambda _: (numbers, tensor)):
        for each in batch:
            each += 1
    assert (numbers == X).all()
    assert (tensor.detach().numpy() == X).all()


def test_tensors_that_record_gradients_give_batches_that_do_not() -> None:
    x = Tensor([1.0, 2.0])
    assert not only(x).requires_grad
    assert not only([x, x]).requires_grad
    assert not only([1, 2], transform=lambda _: 2 * x).requires_grad


def test_a_built_in_set() -> None:
    x, y = only(sets.load("digits"))
    assert (x.shape, y.dtype) == ((4, 1, 8, 8), mg.int64)


def test_frames_are_dicts_of_columns() -> None:
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    pd = pytest.importorskip("pandas")
    columns = {"n": [1, 2, 3], "x": [1.5, None, 2.5], "t": [True, False, True]}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        batch = only(frame)
        assert [*batch] == ["n", "x", "t"]
        assert batch["n"].tolist() == [1, 2, 3]
        assert batch["x"].dtype is mg.float64
        assert batch["x"].isnan().tolist() == [False, True, False]
        assert batch["t"].tolist() == [True, False, True]
        assert sorted(flat(batch["n"] for batch in batches(frame, 2))) == [1, 2, 3]
    for column in (pd.Series([1, 2]), pl.Series([1, 2]), pa.array([1, 2]), pa.chunked_array([[1], [2]])):
        assert only(column).tolist() == only((column,))[0].tolist() == [1, 2]
    lists = pa.table({"x": [[1.0, 2.0], [3.0, 4.0]]})
    assert only(lists)["x"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(DataError, match=r"LazyFrame has no rows yet; give its .collect\(\)"):
        batches(pl.LazyFrame(columns), 2)
    with pytest.raises(DataError, match="'n' stands for more than one column"):
        batches(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["n", "n"]), 2)


class Hub:
    """What Hugging Face's `Dataset` is to us: rows by number, many at once, as lists of columns."""

    column_names = ("x", "y")

    def __init__(self) -> None:
        self.features = {"x": "Sequence", "y": "int64"}
        self.asked: list[Any] = []

    def __len__(self) -> int:
        return 10

    def __getitem__(self, rows: Any) -> Any:
        self.asked.append(rows)
        return {"x": X[rows].tolist(), "y": Y[rows].tolist()}


def test_a_dataset_of_hugging_face() -> None:
    hub = Hub()
    assert only(hub)["x"].tolist() == X[:4].tolist()
    assert soon(lambda: hub.asked[:1] == [[0, 1, 2, 3]])
    assert sorted(flat(batch["y"] for batch in batches(hub, 3))) == list(range(10))
    real, pa = pytest.importorskip("datasets"), pytest.importorskip("pyarrow")
    rows = real.table.InMemoryTable(pa.table({"x": X.tolist(), "y": Y.tolist()}))
    made = real.Dataset(rows, fingerprint="rows")
    assert only(made)["x"].tolist() == X[:4].tolist()
    assert only(made.with_format("numpy"))["y"].tolist() == [0, 1, 2, 3]
    with pytest.raises(DataError, match="a DatasetDict holds sets; choose one of 'train'"):
        batches(real.DatasetDict(train=made), 2)


def test_a_loader_of_torch() -> None:
    torch = pytest.importorskip("torch")
    utils = torch.utils.data
    of = utils.TensorDataset(torch.arange(20.0).reshape(10, 2), torch.arange(10))
    assert [y.tolist() for _, y in batches(utils.DataLoader(of, 4), None)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(batches(utils.DataLoader(of, 4), None)) == 3
    made = batches(utils.DataLoader(of, 4), None)
    made.load_state_dict({**made.state_dict(), "position": 1})
    assert [y.tolist() for _, y in made] == [[4, 5, 6, 7], [8, 9]]
    with pytest.raises(DataError, match=r"write batches\(loader, None\)"):
        batches(utils.DataLoader(of, 4), 4)
    assert sorted(flat(y for _, y in batches(of, 3))) == list(range(10))
    assert only(torch.arange(6.0), 3).tolist() == [0, 1, 2]
    assert only(torch.ones(3, requires_grad=True)).tolist() == [1, 1, 1]
    held = torch.ones(3)
    shared = next(iter(batches(utils.DataLoader([held], None), None)))
    shared += 1
    assert held.tolist() == [2, 2, 2]  # its memory was not copied
    assert only([torch.ones(2, dtype=torch.bfloat16)] * 2, 2).dtype is mg.bfloat16

    class Streaming(utils.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[int]:
            return iter(range(5))

        def __len__(self) -> int:
            return 5

    made = batches(Streaming(), 2, shuffle=False)
    assert (flat(made), len(made)) == ([0, 1, 2, 3, 4], 3)


def test_iterables() -> None:
    made = batches((i for i in range(5)), 2, shuffle=False)
    with pytest.raises(TypeError, match="nobody knows how many batches"):
        len(made)
    assert [batch.tolist() for batch in made] == [[0, 1], [2, 3], [4]]
    with pytest.raises(DataError, match="a generator is read once, and has been"):
        list(made)
    assert [y.tolist() for _, y in batches([(X, Y), (X, Y)].__iter__(), None, shuffle=False)] == [Y.tolist()] * 2
    assert flat(batches({3: 0, 4: 0}.keys(), 1, shuffle=False)) == [3, 4]
    mixed = flat(batches(Stream(100), 7, shuffle=10))
    assert sorted(mixed) == list(range(100)) != mixed
    assert all(i <= place + 10 for place, i in enumerate(mixed))  # what has been read by then


def test_a_transform_sees_what_the_host_has_and_gives_what_comes(device: Device) -> None:
    seen: list[Any] = []

    def twice(batch: Any) -> Any:
        seen.append(type(batch[0]))
        return {"x": batch[0] * 2, "words": batch[1] + 1}

    batch = only((X, Y), transform=twice, device=device)
    assert batch["x"].tolist() == (2 * X[:4]).tolist()
    assert batch["words"].device == device
    assert seen[0] is np.ndarray
    lengths = [np.ones(1), np.ones(3)]
    padded = only([1, 2], 2, transform=lambda rows: np.stack([np.pad(lengths[i - 1], (0, 3))[:3] for i in rows]))
    assert padded.tolist() == [[1, 0, 0], [1, 1, 1]]


class Noisy(Examples):
    """Draws when it is looked at."""

    def __getitem__(self, i: int) -> Any:
        return mg.random.uniform(()) + i


@pytest.mark.parametrize("prefetch", [0, 2])
def test_random_numbers_are_those_of_the_batch(prefetch: int) -> None:
    def noise(x: Any) -> Any:
        return x + mg.random.normal(x.shape)

    def made() -> Batches:
        return batches(Noisy(6), 2, prefetch=prefetch, transform=noise)

    before = mg.random.default_generator().state
    whole = made()
    first, second = ([batch.tolist() for batch in whole] for _ in range(2))
    assert first != second
    assert mg.random.default_generator().state == before
    resumed = made()
    resumed.load_state_dict({**resumed.state_dict(), "epoch": 1, "position": 1})
    assert [batch.tolist() for batch in resumed] == second[1:]
    zeros = batches(np.zeros(4), 2, shuffle=False, prefetch=prefetch, transform=noise)
    assert len({tuple(batch.tolist()) for _ in range(2) for batch in zeros}) == 4


def test_the_thread_knows_the_device_of_who_iterates(rawbuffer_device: Device) -> None:
    made = batches(X, 5)
    with mg.use_device(rawbuffer_device):
        assert {batch.device for batch in made} == {rawbuffer_device}
    assert {batch.device for batch in made} == {mg.default_device()}


# ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────


def test_it_fetches_ahead_and_no_further() -> None:
    class Counted(Examples):
        asked = 0

        def __getitem__(self, i: int) -> int:
            self.asked += 1
            return i

    data = Counted(100)
    running = iter(batches(data, 1, prefetch=3))
    assert data.asked == 0
    for handed in range(1, 5):
        next(running)
        assert soon(lambda: data.asked == handed + 3)  # noqa: B023
        time.sleep(0.005)
        assert data.asked == handed + 3


def test_a_loop_that_is_left_ends_its_thread() -> None:
    assert soon(lambda: not fetchers())
    made = batches(np.arange(1000), 1, prefetch=4)
    for _ in made:
        assert fetchers() == 1
        break
    assert soon(lambda: not fetchers())
    with pytest.raises(ZeroDivisionError):
        [1 / 0 for _ in made]
    assert soon(lambda: not fetchers())
    several = [iter(made) for _ in range(5)]
    for each in several:
        next(each)
    assert fetchers() == 5
    del several, each
    assert soon(lambda: not fetchers())
    list(made)
    assert soon(lambda: not fetchers())


def test_a_loop_in_a_cycle_ends_its_thread_when_that_is_collected() -> None:
    cycle: list[Any] = [iter(batches(np.arange(100), 1))]
    next(cycle[0])
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert soon(lambda: not fetchers())


def test_errors_come_out_of_the_thread_with_their_traceback() -> None:
    class Broken(Examples):
        def __getitem__(self, i: int) -> int:
            if i == 3:
                raise LookupError("row 3 is broken")
            return i

    made = batches(Broken(10), 2, shuffle=False)
    came = []
    with pytest.raises(LookupError, match="row 3 is broken") as caught:
        came.extend(batch.tolist() for batch in made)
    assert came == [[0, 1]]
    assert any(frame.name == "__getitem__" for frame in traceback.extract_tb(caught.tb))
    assert made.state_dict()["position"] == 1
    assert soon(lambda: not fetchers())
    with pytest.raises(SystemExit):
        only([1], transform=lambda batch: sys.exit(3))
    with pytest.raises(RuntimeError, match="StopIteration"):
        only([1], transform=lambda batch: next(iter(())))


def test_an_interrupt_while_waiting_reaches_who_waits() -> None:
    program = """
import signal, threading, time, _thread
from micrograd_core.data import batches
def slow():
    yield 1
    time.sleep(60)
made = batches(slow(), 1, shuffle=False)
interrupt = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
started = time.monotonic()
try:
    for batch in made:
        interrupt.start()
except KeyboardInterrupt:
    print("interrupted", made.position, time.monotonic() - started < 30)
"""
    assert run(program) == "interrupted 1 True\n"


def test_an_interrupt_of_the_start_of_a_thread_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `threading` raises it, out of a wait: nobody but the garbage collector would end the thread."""
    real = threading.Thread.start

    def leave(interrupt: BaseException) -> None:
        raise RuntimeError("release unlocked lock")

    def start(thread: threading.Thread) -> None:
        real(thread)
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            leave(interrupt)

    def running() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "micrograd batches"]

    before = running()
    monkeypatch.setattr(threading.Thread, "start", start)
    gc.disable()
    try:
        with pytest.raises(KeyboardInterrupt):
            next(iter(batches(list(range(8)), 2)))
        until = time.monotonic() + 20
        while running() != before and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        gc.enable()
    assert running() == before


def test_an_interrupt_at_any_time_leaves_no_thread() -> None:
    program = """
import random, signal, sys, threading, time
import numpy as np
from micrograd_core.data import batches
sys.unraisablehook = lambda told: None  # threading's own callbacks lose an interrupt now and then; another one comes
def interrupt(*args):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
X = np.arange(200.0)
list(batches(X, 10))
interrupted = 0
for i in range(150):
    made = batches(X, 4, prefetch=3)
    try:
        signal.setitimer(signal.ITIMER_REAL, random.Random(i).uniform(0.0001, 0.006), 1)
        try:
            while True:
                for batch in made:
                    pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
    if i % 30 == 0:
        plain = batches(X, 4, prefetch=0)
        plain.load_state_dict(made.state_dict())
        made.load_state_dict(made.state_dict())
        assert [batch.tolist() for batch in made] == [batch.tolist() for batch in plain]
def running():  # one whose start was interrupted is listed and never was
    return [thread for thread in threading.enumerate() if thread.is_alive()]
until = time.monotonic() + 20
while len(running()) > 1 and time.monotonic() < until:
    time.sleep(0.01)
print(interrupted, running())
"""
    printed = run(program)
    assert printed.startswith("150 [<_MainThread")
    assert printed.count("micrograd batches") == 0


def run(program: str) -> str:
    """What a process of its own prints; which ends well, says nothing else, and in time."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_interpreter_ends_while_batches_are_fetched() -> None:
    program = """
import sys
import numpy as np
from micrograd_core.data import batches
class Data:
    def __len__(self): return 10**4
    def __getitem__(self, i): return np.full(10, i)
kept = [iter(batches(Data(), 100, prefetch=50)) for _ in range(4)]
print(*[next(each).shape for each in kept])
sys.kept = kept
"""
    assert run(program).startswith("(100, 10)")


@pytest.mark.skipif(not hasattr(sys, "platform") or sys.platform == "win32", reason="forks")
def test_a_forked_child_goes_on_by_itself() -> None:
    program = """
import os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from micrograd_core.data import DataError, batches
def child(work):
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        try:
            work()
            sys.stdout.flush()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
for prefetch in (0, 3):
    running = iter(batches(np.arange(8), 2, prefetch=prefetch, shuffle=False))
    next(running)
    child(lambda: print([batch.tolist() for batch in running]))
    print([batch.tolist() for batch in running])
once = iter(batches(iter(range(8)), 2, shuffle=False))
next(once)
def refused():
    try:
        next(once)
    except DataError as error:
        print(error)
child(refused)
child(lambda: print(len(list(batches(np.arange(8), 2)))))
"""
    rest = "[[2, 3], [4, 5], [6, 7]]\n"
    assert run(program) == 4 * rest + (
        "a range_iterator is read once, and has been; to start again give a list, or an object whose __iter__ starts "
        "anew\n4\n"
    )


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: batches(X, 0), r"a batch has 1 example or more; got size=0"),
    (lambda: batches(X, 2, prefetch=-1), r"prefetch is how many batches lie ready, 0 or more; got -1"),
    (lambda: batches(X, None), r"a ndarray does not come in batches: say how many .* batches\(data, 32\)"),
    (lambda: batches(X, 2, shuffle=5), r"a ndarray is shuffled whole: write shuffle=True"),
    (lambda: batches(iter(X), 2, shuffle=1), r"a shuffle buffer has 2 examples or more; got shuffle=1"),
    (lambda: batches(iter(X), 2), r"no places to shuffle: write shuffle=False, or shuffle=1000 for a buffer"),
    (lambda: batches(iter(X), None, shuffle=9), r"with size=None batches come as they are, in their order"),
    (lambda: batches(iter(X), None, shuffle=False, drop_last=True), r"drop_last is for batches that are made here"),
    (lambda: batches((), 2), r"there are no columns in this tuple"),
    (lambda: batches([], 2), r"there are no examples in this list"),
    (lambda: batches(X[:0], 2), r"there are no examples in this ndarray"),
    (lambda: batches(X, 11, drop_last=True), r"no batch of 11 can be made of 10 examples, and drop_last"),
    (lambda: batches((X, Y[:9]), 2), r"as many rows as each other; part 0 has 10 and part 1 has 9"),
    (lambda: batches({"x": X, "y": (Y, Y[1:])}, 2), r"the column 'x' has 10, .* and the column 'y'\[1\] has 9"),
    (lambda: batches((X, 3), 2), r"part 1 is a int, and a column has rows"),
    (lambda: batches(np.float32(3), 2), r"the data is one number, and a column has rows"),
    (lambda: batches("text", 2), r"batches are made of arrays, tensors, lists, .* and iterables; got a str"),
    (lambda: batches(None, 2), r"got a NoneType"),
    (lambda: list(batches(iter(()), 2, shuffle=False)), r"no batch came: the data have no examples$"),
    (lambda: list(batches(iter([1]), 2, shuffle=False, drop_last=True)), r"no examples, or fewer than one batch"),
    (lambda: only({"n": ["a", "b"]}), r"column 'n' holds the text 'a', .* `transform`, or a table with Preparation"),
    (lambda: only([1, None]), r"the data holds None where a number is missing, and tensors hold numbers"),
    (lambda: only(([1, 2], np.array(["2020-01-01"] * 2, "M8[s]"))), r"part 1 holds dates"),
    (lambda: only([{"a": object()}]), r"the column 'a' holds a object"),
    (lambda: only([[1], [1, 2]]), r"the data cannot be a tensor: ragged data"),
    (lambda: only([np.ones(2), np.ones(3)]), r"the first has shape \(2,\), and number 2 \(3,\)\. Pad them"),
    (lambda: only([(1, np.ones(2)), (1, 2)]), r"the first of part 1 has shape \(2,\), and number 2 is a int"),
    (lambda: only([(1, 2), (1, 2, 3)]), r"the first has 2 parts, and number 2 3$"),
    (lambda: only([(1, 2), 5]), r"the first has 2 parts, and number 2 is a int$"),
    (lambda: only([{"a": 1}, {"b": 1}]), r"the first has the keys \['a'\], and number 2 \['b'\]"),
    (lambda: batches(X, 3).load_state_dict({"epoch": 1}), r"it lacks position and seed and shuffle"),
    (lambda: batches(X, 3).load_state_dict(batches(X, 4).state_dict()), r"with 4 examples in a batch, .* have 3"),
    (lambda: batches(X, 3).load_state_dict(batches(Y[:5], 3).state_dict()), r"with 5 as the length of the data, .* 10"),
    (lambda: batches(X, 3).load_state_dict({**batches(X, 3).state_dict(), "position": 5}), r"epoch 0, position 5"),
    (lambda: batches(X, 3).load_state_dict({**batches(X, 3).state_dict(), "epoch": True}), r"epoch True, position 0"),
    (lambda: batches(X, 3).load_state_dict(None), r"this is no state of batches"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSED)), ids=[sentence[:40] for _, sentence in REFUSED])
def test_refusals_are_sentences(case: int) -> None:
    work, sentence = REFUSED[case]
    with pytest.raises(DataError, match=sentence):
        work()


def test_a_state_that_is_refused_changes_nothing() -> None:
    made = batches(X, 3)
    list(made)
    before = made.state_dict()
    with pytest.raises(DataError):
        made.load_state_dict({**before, "position": 99})
    assert made.state_dict() == before


def test_what_it_says_of_itself() -> None:
    made = batches(X, 3)
    assert repr(made) == "<4 batches of 3: epoch 0, 0 handed out>"
    assert (made.examples, batches(X, 3, drop_last=True).examples, made.seed) == (10, 9, 0)
    assert batches(iter(X), 3, shuffle=False).examples is None
    assert repr(batches(iter(X), 3, shuffle=False)) == "<batches of 3: epoch 0, 0 handed out>"


def test_parts_of_batches_are_the_batches_of_one() -> None:
    rows = np.arange(23)
    whole = [x.tolist() for x in batches(rows, 7, seed=3)]
    parts = [[x.tolist() for x in batches(rows, 7, seed=3, part=(rank, 2))] for rank in range(2)]
    assert [a + b for a, b in zip(*parts, strict=True)] == whole
    stream = [[x.tolist() for x in batches(iter(range(23)), 7, shuffle=False, part=(rank, 2))] for rank in range(2)]
    assert [a + b for a, b in zip(*stream, strict=True)] == [list(range(i, min(i + 7, 23))) for i in range(0, 23, 7)]
    resumed = batches(rows, 7, seed=3, part=(1, 2))
    for _ in resumed:
        break
    state = resumed.state_dict()
    other = batches(rows, 7, seed=3, part=(0, 2))
    other.load_state_dict(state)
    assert [x.tolist() for x in other] == parts[0][1:]


@pytest.mark.parametrize("part", [(2, 2), (-1, 2), (0, 0)])
def test_a_part_is_one_of_several(part: tuple[int, int]) -> None:
    with pytest.raises(DataError, match=r"part is \(rank, ranks\), of batches that are made here"):
        batches(np.arange(8), 4, part=part)


def test_every_rank_has_an_example_of_every_batch() -> None:
    with pytest.raises(DataError, match="a batch has 1 examples for 3 ranks; take another size, or drop"):
        batches(np.arange(9), 4, part=(0, 3))
    assert len(batches(np.arange(9), 4, part=(0, 3), drop_last=True)) == 2
    with pytest.raises(
        DataError, match=r"part is \(rank, ranks\), of batches that are made here; got \(0, 2\), size=None"
    ):
        batches(iter([[1, 2], [3, 4]]), None, shuffle=False, part=(0, 2))
    with pytest.raises(DataError, match="a batch has 1 examples for 3 ranks"):
        list(batches(iter(range(9)), 4, shuffle=False, part=(0, 3)))
