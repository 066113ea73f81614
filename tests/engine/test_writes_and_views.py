"""Writes among views of one memory: all see them, with the right gradients, or they are refused and nothing happens.

Programs, systematic and random ones, run on tensors and in step on NumPy. Beside NumPy's array each tensor has a
`Mirror` of its own: a memory of numbers and of their derivatives by the leaf's elements, and the positions in it. So
derivatives are carried forwards by the very writes, and `backward` has to agree.
"""

from __future__ import annotations

import operator
import os
import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Device, Tensor, no_grad, vmap
from micrograd_core.errors import GraphError

EXHAUSTIVE = os.environ.get("MICROGRAD_EXHAUSTIVE") == "1"
SIDE = 3
SIZE = SIDE * SIDE
START = np.arange(1.0, SIZE + 1).reshape(SIDE, SIDE) / 4
COUNTS: dict[str, int] = {"written": 0, "refused": 0, "stale": 0}
IN_PLACE = {"+": operator.iadd, "-": operator.isub, "*": operator.imul}
FRESH = {"+": operator.add, "-": operator.sub, "*": operator.mul}

# name, on tensors, on arrays
VIEWS: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = [
    ("itself", lambda x: x, lambda a: a),
    ("[1:]", lambda x: x[1:], lambda a: a[1:]),
    ("[:-1]", lambda x: x[:-1], lambda a: a[:-1]),
    ("[::-1]", lambda x: x[::-1], lambda a: a[::-1]),
    ("[..., ::-2]", lambda x: x[..., ::-2], lambda a: a[..., ::-2]),
    ("[0]", lambda x: x[0], lambda a: a[0]),
    ("[-1, 1]", lambda x: x[..., -1:], lambda a: a[..., -1:]),
    ("[None]", lambda x: x[None], lambda a: a[None]),
    ("[...]", lambda x: x[...], lambda a: a[...]),
    ("mT", lambda x: x.mT if x.ndim > 1 else x, lambda a: a.swapaxes(-1, -2) if a.ndim > 1 else a),
    ("permute", lambda x: x.permute_dims(tuple(range(x.ndim))[::-1]), lambda a: a.transpose()),
    ("flip", lambda x: x.flip(), lambda a: np.flip(a)),
    ("flip 0", lambda x: x.flip(axis=0), lambda a: np.flip(a, 0)),
    ("reshape", lambda x: x.reshape(-1), lambda a: a.reshape(-1)),
    ("reshape back", lambda x: x.reshape(x.shape[::-1]), lambda a: a.reshape(a.shape[::-1])),
    ("expand_dims", lambda x: x.expand_dims(-1), lambda a: np.expand_dims(a, -1)),
    ("squeeze", lambda x: x.squeeze(), lambda a: a.squeeze()),
    ("moveaxis", lambda x: mg.moveaxis(x, 0, -1), lambda a: np.moveaxis(a, 0, -1)),
    ("matrix_transpose", lambda x: x.T if x.ndim == 2 else x, lambda a: a.T if a.ndim == 2 else a),
    ("mT[1:]", lambda x: x.permute_dims(tuple(range(x.ndim))[::-1])[1:], lambda a: a.transpose()[1:]),
    ("flip mT", lambda x: x.flip().permute_dims(tuple(range(x.ndim))[::-1]), lambda a: np.flip(a).transpose()),
]
BROADCAST = ("broadcast_to", lambda x: x[:1].broadcast_to(x.shape), lambda a: np.broadcast_to(a[:1], a.shape))
DETACHED = {"detach": lambda x: x.detach(), "data": lambda x: x.data}
KEYS: list[Any] = [
    ...,
    slice(1, None),
    slice(None, None, -1),
    0,
    (..., slice(None, None, 2)),
    (None, slice(0, 2)),
    [0, -1],
    [1, 1, 0],
    "mask",
]


def key_for(key: Any, shape: tuple[int, ...]) -> Any:
    return np.arange(int(np.prod(shape))).reshape(shape) % 2 == 0 if isinstance(key, str) else key


class Mirror:
    """What a tensor ought to be: NumPy's array, and positions in a memory of numbers and derivatives."""

    def __init__(self, array: Any, memory: Any, at: Any, detached: bool = False) -> None:
        self.array, self.memory, self.at, self.detached = array, memory, at, detached

    @classmethod
    def fresh(cls, dual: Any) -> Mirror:
        size = int(np.prod(dual.shape[1:]))
        return cls(dual[0].copy(), dual.reshape(len(dual), size).copy(), np.arange(size).reshape(dual.shape[1:]))

    @classmethod
    def of(cls, array: Any, derivatives: float) -> Mirror:
        array = np.asarray(array, float)
        return cls.fresh(np.stack([array, *(derivatives * np.eye(SIZE).reshape(SIZE, *array.shape))]))

    def read(self) -> Any:
        dual = self.memory[:, np.asarray(self.at)].copy()
        if self.detached:
            dual[1:] = 0
        return dual

    def view(self, function: Callable[[Any], Any], copied: bool, detached: bool) -> Mirror:
        made = Mirror(function(self.array), self.memory, function(self.at), self.detached or detached)
        if copied:
            return Mirror.fresh(made.read())
        return made

    def numbers_only(self) -> Mirror:
        return Mirror(self.array, self.memory, self.at, True)


def times(x: Any, y: Any) -> Any:
    """The product of numbers with derivatives."""
    return np.concatenate([x[:1] * y[:1], x[:1] * y[1:] + x[1:] * y[:1]])


def combined(op: str, x: Any, y: Any) -> Any:
    if op == "*":
        lengths = np.broadcast_shapes(x.shape[1:], y.shape[1:])
        x, y = (each.reshape(len(each), *(1,) * (len(lengths) - each.ndim + 1), *each.shape[1:]) for each in (x, y))
        return times(x, y)
    y = y.reshape(len(y), *(1,) * (x.ndim - y.ndim), *y.shape[1:])
    x = x.reshape(len(x), *(1,) * (y.ndim - x.ndim), *x.shape[1:])
    return x + y if op == "+" else x - y


class Program:
    """Tensors beside their mirrors, and the statements that change both."""

    def __init__(self, device: Device, kind: str, start: Any = START, data: Any = None) -> None:
        """`data` is what the tensors come from inside `vmap`, where their numbers cannot be read."""
        self.device, self.blind = device, data is not None
        self.leaf = Tensor(start, device=device) if data is None else data
        self.living: dict[str, tuple[Tensor, Mirror]] = {}
        self.kind = kind
        self.memory_of_leaf: Any = None
        self.wrote_plain = False
        if kind == "leaf":
            self.living["x"] = self.leaf, Mirror.of(start, 1.0)
            self.memory_of_leaf = self.living["x"][1].memory
        elif kind == "computed":
            self.living["x"] = self.leaf * 1.0, Mirror.of(start, 1.0)
        else:
            plain = mg.asarray(start, device=device) if data is None else data.detach() * 1.0
            self.living["x"] = plain, Mirror.of(start, 0.0)

    def look(self, name: str, view: Any, quiet: bool = False) -> tuple[Tensor, Mirror]:
        """A view, which is not kept."""
        x, mirror = self.living[name]
        if view[0] in DETACHED:
            return view[1](x), mirror.numbers_only()
        with no_grad() if quiet else nullcontext():
            made = view[1](x)
        detached = quiet and x.requires_grad and made is not x
        copied = "reshape" in view[0] and not self.shares(made, x, mirror)
        seen = mirror.view(view[2], copied, detached)
        if "reshape" in view[0] and np.shares_memory(seen.array, mirror.array) is copied and made.size:
            raise LookupError("whether reshape copies depends on strides, which differ")
        if seen.array.ndim == 0:
            raise LookupError("NumPy gives a scalar")
        return made, seen

    def shares(self, made: Tensor, x: Tensor, mirror: Mirror) -> bool:
        if not self.blind:
            return bool(mg.shares_memory(made, x))
        return bool(np.array_equal(mirror.at.ravel(), np.arange(mirror.memory.shape[1])))

    def write(self, target: tuple[Tensor, Mirror], key: Any, value: Any, *, op: str = "", quiet: bool = False) -> None:
        """``target[key] = value``, or ``target[key] += value`` and the like; `value` a number or such a pair."""
        x, mirror = target
        v, dual = (value[0], value[1].read()) if isinstance(value, tuple) else (value, None)
        whole = key is None
        key = key_for(... if whole else key, mirror.array.shape)
        if dual is None:
            dual = np.zeros((SIZE + 1,))
            dual[0] = value
        own = Mirror(mirror.array, mirror.memory, mirror.at[key], mirror.detached).read()
        if op:
            dual = combined(op, own, dual)
        shape = own.shape[1:]
        trailing = dual.reshape(len(dual), *(1,) * (len(shape) + 1 - dual.ndim), *dual.shape[1:])
        new = np.broadcast_to(trailing, (len(dual), *shape)).copy()  # or ValueError
        recorded = isinstance(v, Tensor) and v.requires_grad and not quiet
        plain = not x.requires_grad
        refusal = None
        with no_grad() if quiet else nullcontext():
            try:
                if whole:
                    result = IN_PLACE[op](x, v)
                    assert result is x
                elif op:
                    place = x[key]
                    place = IN_PLACE[op](place, v)
                    x[key] = place
                else:
                    x[key] = v
            except GraphError as error:
                refusal = str(error)
        if refusal is not None:
            COUNTS["refused"] += 1
            assert "copy()" in refusal
            return
        COUNTS["written"] += 1
        self.wrote_plain |= plain
        mirror.array[key] = new[0]
        if recorded and mirror.detached:
            self.move(mirror)
        if quiet or mirror.detached:
            mirror.memory[0, mirror.at[key]] = new[0]
        else:
            mirror.memory[:, mirror.at[key]] = new

    def move(self, mirror: Mirror) -> None:
        """A detached tensor that gets recorded numbers leaves those that record behind: it had to be the last one."""
        old, new = mirror.memory, mirror.memory.copy()
        new[1:] = 0
        for _, each in [*self.living.values(), (None, mirror)]:
            if each.memory is old and not each.detached and np.intersect1d(each.at, mirror.at).size:
                assert old is self.memory_of_leaf, "a recorded tensor missed a write"
                raise LookupError("the leaf has the numbers, its former data derivatives: no one memory has both")
            if each.memory is old and each.detached:
                each.memory, each.detached = new, False

    def check_numbers(self, said: str) -> None:
        for name, (x, mirror) in self.living.items():
            np.testing.assert_allclose(mirror.memory[0, mirror.at], mirror.array, rtol=1e-9, err_msg="the test")
            if not self.blind:
                np.testing.assert_allclose(
                    x.detach().numpy(), mirror.array, rtol=1e-9, atol=1e-12, err_msg=f"{name} {said}"
                )

    def check_gradient(self, said: str) -> None:
        """That of a loss over all living tensors."""
        loss, wanted = None, np.zeros(SIZE)
        for factor, (x, mirror) in enumerate(self.living.values(), 2):
            if x.size:
                part = (x * x).sum() * (factor / 7)
                loss = part if loss is None else loss + part
                dual = mirror.read().reshape(SIZE + 1, -1)
                wanted += (dual[1:] * dual[0]).sum(-1) * 2 * factor / 7
        if loss is None or not loss.requires_grad:
            assert not wanted.any(), said
            return
        self.leaf.grad = None
        refusal = None
        try:
            loss.backward()
        except GraphError as error:
            refusal = str(error)
        if refusal is not None:
            assert "written in place" in refusal
            assert self.wrote_plain, said
            COUNTS["stale"] += 1
            return
        found = np.zeros(SIZE) if self.leaf.grad is None else self.leaf.grad.numpy().ravel()
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10, err_msg=said)


# ── in words ─────────────────────────────────────────────────────────────────────────────────────────────────


def numbers(*tensors: Any) -> list[Any]:
    return [x.tolist() for x in tensors]


def gradient_of(leaf: Tensor, loss: Tensor) -> Any:
    leaf.grad = None
    loss.backward()
    assert leaf.grad is not None
    return leaf.grad.tolist()


def test_a_tensor_sees_that_its_view_was_given_its_numbers(device: Device) -> None:
    w = Tensor([1.0, 2.0, 3.0], device=device)
    a = w * 1
    c = a.flip()
    c[:] = a
    assert numbers(a, c) == [[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]]
    assert gradient_of(w, (a * mg.asarray([1.0, 10.0, 100.0], device=device)).sum()) == [100.0, 10.0, 1.0]
    m = Tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    a = m * 1
    b = a.T
    b[...] = a
    assert numbers(a, b) == [[[1.0, 3.0], [2.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]]
    assert gradient_of(m, (a[0] * b[1]).sum()) == [[3.0, 0.0], [1.0 + 4.0, 3.0]]


def test_a_view_sees_what_it_is_the_value_of(device: Device) -> None:
    p = Tensor([1.0, 2.0, 4.0], device=device)
    f = p.flip()
    with no_grad():
        p[:] = f
    assert numbers(p, f) == [[4.0, 2.0, 1.0], [1.0, 2.0, 4.0]]
    assert p.is_leaf
    assert gradient_of(p, (f * p).sum()) == [2.0, 4.0, 8.0]
    y = p * 1
    v = y.expand_dims(0)
    d = y.detach()
    del v
    y[1:] = d[:-1]
    with pytest.raises(GraphError, match="copy"):
        y[0] = 1.0  # the detached one could not see it
    assert numbers(y, d) == [[4.0, 4.0, 2.0], [4.0, 4.0, 2.0]]
    assert gradient_of(p, y.sum() + d.sum()) == [1.0, 0.0, 0.0]


def test_a_detached_target_is_refused_its_own_tensor(device: Device) -> None:
    w = Tensor([1.0, 2.0, 3.0], device=device)
    a = w * 1
    d = a.detach()
    for write in (
        lambda: operator.setitem(d, slice(None, None, -1), a),
        lambda: operator.setitem(d, slice(None, None, -1), a.flip()),
        lambda: operator.iadd(d, 1.0),
        lambda: operator.iadd(d, a),
    ):
        with pytest.raises(GraphError, match="copy"):
            write()
        assert numbers(a, d) == [[1.0, 2.0, 3.0]] * 2
    assert gradient_of(w, (a * a).sum()) == [2.0, 4.0, 6.0]


def test_writes_through_views_of_any_kind_reach_the_tensor(device: Device) -> None:
    w = Tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    y = w * w
    y.T[0] = 5.0
    y.flip()[0, 0] *= 2.0
    y.reshape(4)[1:2] += w[0, :1]
    y[None][0, 0] = y.T[1]
    assert y.tolist() == [[5.0, 32.0], [5.0, 32.0]]
    assert gradient_of(w, y.sum()) == [[1.0, 4.0], [0.0, 32.0]]


def test_values_that_nobody_holds_may_come_from_any_view_of_the_target(device: Device) -> None:
    w = Tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    y = w * 1
    y[...] = y.flip()
    y[0] = y.T.T[1]
    y *= y.T
    y[:] = y.T.reshape(2, 2)  # a copy, where strides tell it
    assert y.tolist() == [[4.0, 2.0], [2.0, 1.0]]


@pytest.mark.parametrize("name", ["cpu", "rawbuffer:0", "strict:0"])
def test_one_element_is_written_in_place(name: str) -> None:
    if not Device.is_available(name):
        pytest.skip(f"{name} is not here")
    x = mg.asarray([[1.0, 2.0], [3.0, 4.0]], device=name)
    x[0, 1] *= 5.0
    row = x[1]
    row[0] += 1.0  # a device may give a copy of one element
    assert x.tolist() == [[1.0, 10.0], [4.0, 4.0]]


def test_a_view_of_everything_may_be_written_to_other_places(device: Device) -> None:
    w = Tensor([1.0, 2.0], device=device)
    y = w * 1
    every = y[...]
    y[[1, 0]] = every
    assert numbers(y, every) == [[2.0, 1.0]] * 2
    assert gradient_of(w, (y * every).sum()) == [2.0, 4.0]


def test_a_part_that_is_replaced_by_its_own_detached_numbers_has_no_gradient(device: Device) -> None:
    w = Tensor([1.0, 2.0], device=device)
    y = w * w
    with no_grad():
        part = y[:1]
        y[:1] = part
    assert gradient_of(w, (y * y).sum()) == [4.0, 32.0]
    y = w * w
    with no_grad():
        part = y[:1]
    y[:1] = part
    assert gradient_of(w, (y * y).sum() + part.sum()) == [0.0, 32.0]


def test_the_data_of_a_leaf_are_changed_in_place(device: Device) -> None:
    p = Tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    same = p.data
    same -= 1.0
    assert numbers(p, same) == [[[0.0, 1.0], [2.0, 3.0]]] * 2
    del same
    p.data *= p * 0 + 2  # recorded, but data are numbers
    p.data[0] += 1.0
    assert p.tolist() == [[1.0, 3.0], [4.0, 6.0]]
    assert p.is_leaf
    assert gradient_of(p, (p * p).sum()) == [[2.0, 6.0], [8.0, 12.0]]
    view = p.T
    with pytest.raises(GraphError, match="copy"):
        p.data -= 1.0  # the view could not see it
    assert numbers(p, view) == [[[1.0, 3.0], [4.0, 6.0]], [[1.0, 4.0], [3.0, 6.0]]]
    with no_grad():
        p.T[0] = view[1]
    assert numbers(p) == [[[3.0, 3.0], [6.0, 6.0]]]


def test_views_of_data_that_were_replaced_are_views_no_more() -> None:
    p = Tensor([1.0, 2.0, 3.0])
    f = p.flip()
    p.data = f
    assert p.tolist() == [3.0, 2.0, 1.0]
    with no_grad(), pytest.raises(GraphError, match="copy"):
        p[1:] = f[1:]
    del f
    with no_grad():
        p[1:] = p[:-1]
    assert p.tolist() == [3.0, 3.0, 2.0]


def test_chains_of_views_are_followed_a_long_way_but_not_for_ever() -> None:
    w = Tensor([1.0, 2.0, 3.0])
    y = w * 1
    view = y
    for _ in range(20):
        view = view.flip()
    view[0] = 5.0
    assert numbers(y, view) == [[5.0, 2.0, 3.0]] * 2
    with no_grad():
        for _ in range(1000):
            view = view.flip()
        before = y.tolist()
        with pytest.raises(GraphError, match="copy"):
            y[1:] = view[:-1]
    assert numbers(y, view) == [before] * 2


# ── every pair ───────────────────────────────────────────────────────────────────────────────────────────────

STATES = ["plain", "computed", "leaf quiet", "computed quiet", "leaf", "plain tracked"]
KINDS = [*VIEWS, BROADCAST, *((name, view, None) for name, view in DETACHED.items())]


def pairs() -> Iterator[tuple[Any, ...]]:
    for target in KINDS:
        for value in KINDS:
            for state in STATES:
                for key in [*KEYS, None]:
                    for op in ("", "+", "*"):
                        for held in ("neither", "value", "target", "both"):
                            if key is not None or op:
                                yield target, value, state, key, op, held


def run_pair(device: Device, case: tuple[Any, ...]) -> None:
    target, value, state, key, op, held = case
    said = f"{target[0]} {value[0]} {state} {key} {op} {held} {device}"
    kind, *others = state.split()
    quiet = "quiet" in others
    program = Program(device, kind)
    try:
        if others == ["tracked"]:
            y = (program.leaf * 1.0, Mirror.of(START, 1.0))
            program.living["x"] = y[0].detach(), y[1].numbers_only()
            del y
        seen = program.look("x", value, quiet)
        if held in ("value", "both"):
            program.living["v"] = seen
        place = program.look("x", target, quiet)
        if held in ("target", "both"):
            program.living["t"] = place
        if not place[1].array.flags.writeable:
            return
        program.write(place, key, seen, op=op, quiet=quiet)
    except (LookupError, ValueError):  # what NumPy refuses, too
        return
    del place, seen
    program.check_numbers(said)
    for name in list(program.living):  # whoever was left behind shows it now
        program.write(program.living[name], (..., 0), 7.0, quiet=quiet)
        program.check_numbers(said + " again " + name)
    program.check_gradient(said)


def sample(everything: Any, count: int, seed: int) -> list[Any]:
    cases = list(everything)
    return cases if EXHAUSTIVE else random.Random(seed).sample(cases, count)


def test_every_pair_of_views_sees_a_write_or_refuses_it() -> None:
    for case in sample(pairs(), 2000, 1):
        run_pair(Device("cpu"), case)


@pytest.mark.parametrize("name", ["rawbuffer:0", "strict:0"])
def test_pairs_of_views_on_other_devices(name: str) -> None:
    if not Device.is_available(name):
        pytest.skip(f"{name} is not here")
    device = Device(name)
    for case in random.Random(2).sample(list(pairs()), 4000 if EXHAUSTIVE else 250):
        run_pair(device, case)


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────────


class Chance:
    """Random statements for a `Program`. Which ones depends on shapes alone, so that a batch runs them in step."""

    def __init__(self, program: Program, seed: int) -> None:
        self.program, self.rng, self.said = program, random.Random(seed), ""
        program.living["w"] = program.leaf, Mirror.of(program.living["x"][1].array, 1.0)
        program.memory_of_leaf = program.living["w"][1].memory
        if program.kind == "leaf":
            del program.living["x"]  # it is the same tensor

    def quiet(self, chance: float) -> bool:
        return self.rng.random() < chance and not self.program.blind

    def name(self) -> str:
        return self.rng.choice(sorted(self.program.living))

    def kind(self, value: bool = True) -> Any:
        others = [] if self.program.blind else list(DETACHED.items())
        return self.rng.choice([*VIEWS, *VIEWS, *([BROADCAST] if value else []), *((*each, None) for each in others)])

    def value(self) -> Any:
        kind = self.rng.random()
        if kind < 0.15:
            return self.rng.choice([2.0, -0.5])
        seen = self.program.look(self.name(), self.kind())
        return seen if kind < 0.8 else self.arithmetic(seen)

    def arithmetic(self, seen: tuple[Tensor, Mirror]) -> tuple[Tensor, Mirror]:
        other, op = self.program.living[self.name()], self.rng.choice("+-*")
        if other[1].array.shape != seen[1].array.shape:
            other = seen
        return FRESH[op](seen[0], other[0]) * 0.5, Mirror.fresh(combined(op, seen[1].read(), other[1].read()) * 0.5)

    def step(self) -> None:
        program, rng = self.program, self.rng
        kind = rng.random()
        spare = [each for each in "abcde" if each not in program.living]
        if spare and kind < 0.3:
            program.living[spare[0]] = program.look(self.name(), self.kind(), self.quiet(0.2))
        elif spare and kind < 0.4:
            program.living[spare[0]] = self.arithmetic(program.living[self.name()])
        elif kind < 0.5 and len(program.living) > 2:
            del program.living[rng.choice(sorted({*program.living} - {"w"}))]
        elif kind < 0.53 and not program.blind:
            self.replace_data()
        else:
            name, view = self.name(), self.kind(value=False) if rng.random() < 0.3 else VIEWS[0]
            op, key = rng.choice(["", "", "+", "-", "*"]), rng.choice([*KEYS, None])
            op = op or ("+" if key is None else "")
            quiet = self.quiet(0.8 if program.living[name][0] is program.leaf else 0.2)
            place = program.look(name, view)
            if place[1].array.flags.writeable:
                program.write(place, key, self.value(), op=op, quiet=quiet)

    def replace_data(self) -> None:
        """``x.data = y`` among tensors that record nothing: from then on `x` is another name for what `y` looks at."""
        living = self.program.living
        plain = [name for name in sorted(living) if not living[name][0].requires_grad]
        if plain:
            x, y = self.rng.choice(plain), self.rng.choice(plain)
            if living[x][1].array.shape == living[y][1].array.shape:
                seen = living[y][1]
                living[x][0].data = living[y][0]
                living[x] = living[x][0], Mirror(seen.array, seen.memory, seen.at, seen.detached)

    def run(self, steps: int, said: str) -> None:
        program = self.program
        for number in range(steps):
            for _ in range(4):
                try:
                    self.step()
                    break
                except (LookupError, ValueError) as error:  # shapes that do not fit, for NumPy neither
                    if "no one memory" in str(error):
                        return
            program.check_numbers(f"{said} after {number}")
            if any(np.abs(mirror.memory).max(initial=0) > 1e4 for _, mirror in program.living.values()):
                break
        if not program.blind:
            program.check_gradient(said)


def run_program(device: Device, seed: int) -> None:
    kind = ("plain", "computed", "leaf")[seed % 3]
    Chance(Program(device, kind), seed).run(14, f"program {seed} on {device}")


def run_batch(seed: int) -> None:
    """A program inside `vmap`, for two starts, and the gradient of all that is alive at its end."""
    starts = np.stack([START, START[::-1] - 1.5])
    batch, plain = Tensor(starts), mg.asarray(starts)
    kind = ("plain", "computed")[seed % 2]
    expected: list[Program] = []

    def function(leaf: Tensor, data: Tensor) -> dict[str, Tensor]:
        program = Program(leaf.device, kind, starts[len(expected)], leaf)
        if kind == "plain":
            program.living["x"] = data * 1.0, program.living["x"][1]
        expected.append(program)
        Chance(program, seed).run(14, f"batch {seed}")
        return {name: x for name, (x, _) in program.living.items()}

    for example in range(2):
        results = vmap(function)(batch, plain)
        program = expected[example]
        for name, (_, mirror) in program.living.items():
            np.testing.assert_allclose(
                results[name].detach().numpy()[example],
                mirror.array,
                rtol=1e-9,
                atol=1e-12,
                err_msg=f"batch {seed}: {name}",
            )
            program.living[name] = results[name][example], mirror
        program.leaf = batch
        loss = sum((x * x).sum() for x, _ in program.living.values() if x.size)
        batch.grad = None
        loss.backward()  # type: ignore[union-attr]
        wanted = sum(
            (mirror.read()[1:] * mirror.array).reshape(SIZE, -1).sum(-1) * 2 for _, mirror in program.living.values()
        )
        np.testing.assert_allclose(batch.grad.numpy()[example].ravel(), wanted, rtol=1e-8, atol=1e-9)


def test_programs_of_views_and_writes_compute_what_numpy_does() -> None:
    for seed in range(30_000 if EXHAUSTIVE else 250):
        run_program(Device("cpu"), seed)


@pytest.mark.parametrize("name", ["rawbuffer:0", "strict:0"])
def test_programs_on_other_devices(name: str) -> None:
    if not Device.is_available(name):
        pytest.skip(f"{name} is not here")
    for seed in range(4000 if EXHAUSTIVE else 60):
        run_program(Device(name), seed)


def test_programs_inside_vmap() -> None:
    for seed in range(4000 if EXHAUSTIVE else 60):
        run_batch(seed)
