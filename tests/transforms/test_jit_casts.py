"""Under `jit` what large weights are cast to is kept from call to call, until anybody writes into them."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import gc
import random
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor, autocast, nn, no_grad, optim
from micrograd_core.transforms import replay


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of any size are large."""
    monkeypatch.setattr(replay, "LARGE", 1)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, large: None) -> Iterator[list[bool]]:
    """Whether a cast was there, each time that one was looked for."""
    seen: list[bool] = []

    def cast_of(*given: Any) -> Any:
        cast = real(*given)
        seen.append(cast is not None)
        return cast

    real = replay.cast_of
    monkeypatch.setattr(replay, "cast_of", cast_of)
    return seen


def told(found: list[bool]) -> str:
    """What was seen since the last time."""
    text = "".join("yes " if each else "no " for each in found)
    found.clear()
    return text


def weight(seed: int = 0, **options: Any) -> Tensor:
    return mg.Tensor(np.random.default_rng(seed).normal(size=(4, 4)).astype("float32"), **options)


def halved(w: Tensor, dtype: str = "float16") -> Callable[[], Tensor]:
    """What a product in halves makes of a weight, without gradients."""

    @mg.jit
    def product() -> Tensor:
        with autocast(dtype), no_grad():
            return mg.eye(4) @ w

    return product


def check(made: Tensor, w: Tensor) -> None:
    assert made.tolist() == w.detach().astype(made.dtype).tolist()


def handed_out(x: Tensor) -> Any:
    """The memory of a tensor, as another library may write into it. NumPy lets nobody; it tells the address."""
    array = np.from_dlpack(x)
    pointer = ctypes.cast(array.ctypes.data, ctypes.POINTER(ctypes.c_float))
    return np.ctypeslib.as_array(pointer, array.shape)


X = mg.asarray(np.random.default_rng(1).normal(size=(3, 4)).astype("float32"))


class Trained:
    """A small network with an optimiser, a step of both under `jit`, and what is computed without gradients."""

    def __init__(self) -> None:
        mg.random.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4))
        self.tied = weight()
        self.optimiser = optim.Adam([*self.model.parameters(), self.tied], lr=0.1)
        self.step, self.value = mg.jit(self._step), mg.jit(self._value)

    def _loss(self) -> Tensor:
        with autocast("float16"):
            return ((self.model(X) @ self.tied.mT) ** 2).mean()

    def _step(self) -> Tensor:
        self.optimiser.zero_grad()
        loss = self._loss()
        loss.backward()
        self.optimiser.step()
        return loss

    def _value(self) -> Tensor:
        with no_grad():
            return self._loss()


def test_a_step_casts_what_it_makes_and_takes_what_the_last_one_cast(found: list[bool]) -> None:
    """Three matrices, two biases, and the rows, which hold still."""
    trained = Trained()
    trained.step()
    assert told(found) == "no " * 6
    trained.step()  # a program of its own: the optimiser has a state now
    assert told(found) == "yes " * 6
    for _ in range(3):
        trained.step()
        trained.value()
        assert told(found) == "yes " * 12


def test_what_holds_still_is_cast_once(found: list[bool]) -> None:
    w = weight()
    product = halved(w)
    for expected in ("no ", "yes ", "yes "):
        check(product(), w)
        assert told(found) == expected


@pytest.mark.parametrize(
    ("what", "write"),
    [
        ("an element", lambda w: w.__setitem__((0, 0), 5.0)),
        ("through a view", lambda w: w.mT[0].__setitem__(1, 5.0)),
        ("through what is detached", lambda w: w.detach().__setitem__(0, 5.0)),
        ("in place", lambda w: w.__imul__(2.0)),
        ("as data", lambda w: setattr(w, "data", weight(7))),
        ("by another function under jit", mg.jit(lambda w: w.__setitem__(0, 5.0))),
        ("by one that adds", mg.jit(lambda w: w.__iadd__(1.0))),
    ],
)
@pytest.mark.parametrize("frozen", [False, True])
def test_who_writes_lets_it_be_cast_again(what: str, write: Any, frozen: bool, found: list[bool]) -> None:
    w = weight(requires_grad=not frozen)
    product = halved(w)
    product()
    product()
    with no_grad():
        write(w)
    told(found)
    check(product(), w)
    assert told(found) == "no "
    check(product(), w)
    assert told(found) == "yes "


def test_a_copy_for_another_library_is_not_the_weights_memory(found: list[bool]) -> None:
    w = weight(requires_grad=False)
    product = halved(w)
    product()
    w.__dlpack__(copy=True)
    product()
    assert told(found) == "no yes "


def test_memory_that_another_library_sees_is_cast_each_time(found: list[bool]) -> None:
    """It writes without a word; also where only a part was handed out, and what was read through DLPack itself."""
    w, v = weight(requires_grad=False), weight(requires_grad=False)
    given = np.random.default_rng(5).normal(size=(4, 4)).astype("float32")
    taken = mg.from_dlpack(given)
    for x, array in ((w, handed_out(w)), (v, handed_out(v[1:])), (taken, given)):
        product = halved(x)
        for i in range(3):
            array[0] = i
            check(product(), x)
            assert told(found) == "no "
            assert x._storage.cast is None  # nor is any memory taken for one


def test_what_was_handed_out_while_casts_were_kept(found: list[bool]) -> None:
    w = weight(requires_grad=False)
    product = halved(w)
    product()
    product()
    array = handed_out(w.detach())
    array[...] = 3.0
    check(product(), w)
    w[0] = 1.0  # which forgets no more than that
    array[1] = 2.0
    check(product(), w)
    array[2] = 7.0
    check(product(), w)


def test_a_part_of_what_was_handed_out_that_was_written_from_another_part(large: None) -> None:
    """Which leaves the one in memory that is the other library's, too, and the other in memory of its own."""
    flat = mg.asarray(np.arange(32, dtype="float32"))
    array = handed_out(flat)
    u, v = flat[:16].reshape(4, 4), flat[16:].reshape(4, 4)
    del flat
    v.requires_grad = True
    product = halved(v)
    product()
    u[...] = v
    for i in range(3):
        array[20] = i
        check(product(), v)


def test_memory_of_a_parameter_is_known_to_be_one(large: None) -> None:
    """Whoever writes past the graph into what was recorded is refused, or writes elsewhere, as after an eager step."""
    for step in ("step", "_step"):
        trained = Trained()
        for _ in range(3):
            getattr(trained, step)()
        w = trained.tied
        w.grad, before = None, 2 * w.detach().numpy()
        loss, detached = (w * w).sum(), w.detach()
        with contextlib.suppress(mg.errors.GraphError):
            detached[...] = 9.0
        loss.backward()
        assert w.grad is not None
        np.testing.assert_allclose(w.grad.numpy(), before)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x, "turned": lambda x: x.T, "rows": lambda x: x[1:], "flipped": lambda x: mg.flip(x),
    "flat": lambda x: x.reshape(-1), "detached": lambda x: x.detach().T, "diagonal": lambda x: x.diagonal(),
    "one of": lambda x: mg.unstack(x)[0],
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("device", ["cpu", "rawbuffer"])
def test_who_gets_a_cast_may_write_into_it(device: str, changes: bool, view: str, large: None) -> None:
    """Nobody else's numbers change, neither those of other results nor those of later calls."""
    w = mg.asarray(np.ones((4, 4), "float32"), device=device)

    @mg.jit
    def given() -> tuple[Tensor, Tensor]:
        half = w.astype("float16")
        twice = half.T * 2
        if changes:
            w.data = w * 1.0
            half = w.astype("float16")
        return twice, VIEWS[view](half)

    given()
    results = [given()[1] for _ in range(4)]
    results[1] *= 3
    assert [x.reshape(-1)[0].item() for x in results] == [1, 3, 1, 1]
    again, seen = given()
    assert {x for row in again.tolist() for x in row} == {2.0}
    assert seen.reshape(-1)[0].item() == 1


def test_what_stands_for_a_weight_is_seen_to_be_written(large: None) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            self.w = weight()
            self.product = mg.jit(self._product)

        def _product(self, x: Tensor) -> Tensor:
            with autocast("float16"), no_grad():
                return x @ self.w

        def forward(self, x: Tensor, given: Tensor) -> Any:
            self.product(x)
            given[0] = 9.0
            return self.product(x)

    given = mg.asarray(np.ones((4, 4), "float32"))
    check(nn.functional_call(Twice(), {"w": given}, mg.eye(4), given), given)


def test_of_a_weight_that_the_function_writes_nothing_is_kept(found: list[bool]) -> None:
    """Nor of one of which it casts a few elements: all would be cast, for nothing."""
    w, rows = weight(requires_grad=False), weight()

    @mg.jit
    def write() -> Tensor:
        with no_grad():
            half = (w.astype("float16") * 2).sum() + (rows[:1].astype("float16") * 2).sum()
            w[0] = w[0] * 0.5
            return half

    for _ in range(3):
        write()
    assert found == []


def test_two_half_types_and_two_views_of_one_memory(found: list[bool]) -> None:
    """Never one for the other."""
    flat = mg.asarray(np.random.default_rng(3).normal(size=32).astype("float32"))
    u, v = flat[:16].reshape(4, 4), flat[16:].reshape(4, 4)
    products = [(halved(w, dtype), w) for w in (u, v) for dtype in ("float16", "bfloat16")]
    for i in range(24):
        product, w = random.Random(i).choice(products)
        check(product(), w)
        if i % 5 == 4:
            flat[i] = 9.0


def test_a_write_while_the_program_runs_is_not_lost(large: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread: what was cast is older than that, and nobody takes it later."""
    w = weight(requires_grad=False)
    product, real = halved(w), replay.keep_cast

    def late(*given: Any) -> None:
        w[...] = 2.0
        real(*given)

    monkeypatch.setattr(replay, "keep_cast", late)
    product()
    monkeypatch.setattr(replay, "keep_cast", real)
    check(product(), w)


def test_a_call_that_fails_keeps_nothing_new(found: list[bool]) -> None:
    trained = Trained()
    trained.step()
    trained.step()
    before = [x.tolist() for x in trained.model.parameters()]
    making, replayed = trained.step._replay, trained.step._replay.run
    with pytest.MonkeyPatch.context() as patch:

        def broken(flat: Any) -> Any:
            raise RuntimeError("out of order")

        patch.setattr(making, "run", broken)
        with pytest.raises(RuntimeError):
            trained.step()
    assert making.run is replayed
    assert [x.tolist() for x in trained.model.parameters()] == before
    told(found)
    trained.step()
    assert told(found) == "yes " * 6


def test_it_goes_with_the_weight(large: None) -> None:
    """No cycle holds it, and no function; a copy of a model has none of it."""
    trained = Trained()
    trained.step()
    trained.step()
    cast = trained.tied._storage.cast
    assert cast[1] is mg.float16
    alive = weakref.ref(cast[2])
    del cast
    other = copy.deepcopy(trained.model)
    assert all(not (x._storage and x._storage.cast) for x in other.parameters())
    gc.disable()
    try:
        with no_grad():
            trained.tied.data = weight(4)
        assert alive() is None
    finally:
        gc.enable()


def test_small_weights_are_cast_at_each_call() -> None:
    w = weight()
    product = halved(w)
    product()
    check(product(), w)
    assert not (w._storage and w._storage.cast)


def test_gradients_outside_a_function_are_those_of_its_casts(large: None) -> None:
    """Which the graph of its result keeps, and nobody else."""
    w = weight()

    @mg.jit
    def loss() -> Tensor:
        with autocast("float16"):
            return ((X @ w) ** 2).sum()

    for _ in range(3):
        value = loss()
        value.backward()
        with no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        assert value.item() > loss().item()


# ── in any order ─────────────────────────────────────────────────────────────────────────────────────────────


def eager(trained: Trained, rng: random.Random) -> Any:
    return trained._step().item()


def step(trained: Trained, rng: random.Random) -> Any:
    return trained.step().item()


def value(trained: Trained, rng: random.Random) -> Any:
    return trained.value().item()


def written(trained: Trained, rng: random.Random) -> Any:
    w = rng.choice([*trained.model.parameters(), trained.tied])
    with no_grad():
        w[0] = rng.uniform(-1, 1)


def scaled(trained: Trained, rng: random.Random) -> Any:
    w = rng.choice([*trained.model.parameters(), trained.tied])
    with no_grad():
        w *= 0.5


def reset(trained: Trained, rng: random.Random) -> Any:
    trained.model.load_state_dict(saved)


def through(trained: Trained, rng: random.Random) -> Any:
    array = handed_out(trained.tied.detach())
    array[rng.randrange(4)] = rng.uniform(-1, 1)


def swapped(trained: Trained, rng: random.Random) -> Any:
    """Another tensor in the place of a weight."""
    first = trained.model[0]
    first.weight.data = mg.asarray(np.random.default_rng(rng.randrange(99)).normal(size=(6, 4)).astype("float32"))


saved = copy.deepcopy(Trained().model.state_dict())
ACTIONS = [eager, step, step, step, value, value, written, scaled, reset, through, swapped]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_done_in_between(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers as where nothing is kept."""
    made = []
    for least in (1, 10**9):
        monkeypatch.setattr(replay, "LARGE", least)
        trained, rng = Trained(), random.Random(seed)
        told = [rng.choice(ACTIONS)(trained, rng) for _ in range(14)]
        made.append([x for x in told if x is not None] + [trained.step().item(), trained.value().item()])
    np.testing.assert_allclose(*made, rtol=2e-3, atol=1e-4)
