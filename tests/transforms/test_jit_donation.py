"""Arguments that are given away: the function may write over their memory, and nobody who may look sees it."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor, nn
from micrograd_core.errors import GraphError
from micrograd_cpu import target

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64")


def put(x: Tensor, place: Tensor, values: Tensor) -> Tensor:
    """One row of a table is another one."""
    return mg.index_set(x, place, values, axis=1)


def at(place: int) -> Tensor:
    return mg.asarray([place], dtype="int64")


def memory(x: Tensor) -> Any:
    """Where a tensor of the cpu lies; nobody is told that somebody looks."""
    return x._handle.ctypes.data


def gone(x: Tensor) -> bool:
    try:
        _ = x.shape
    except GraphError:
        return True
    return False


# ── the memory ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_table_is_written_where_it_lies(dtype: str) -> None:
    """Where programs are compiled: halves are not on each processor."""
    pytest.importorskip("llvmlite")
    if dtype == "float16" and not target.converts_float16():
        pytest.skip("this processor has no instruction for it")
    write = mg.jit(put, donate_argnames="x")
    x, expected = mg.zeros((3, 5), dtype=dtype), np.zeros((3, 5))
    where = memory(x)
    for place in range(5):
        x = write(x, at(place), mg.full((3, 1), place + 1, dtype=dtype))
        expected[:, place] = place + 1
        assert memory(x) == where
        np.testing.assert_array_equal(np.asarray(x.tolist()), expected)
        where = memory(x)  # `tolist` and the like export nothing
    assert write.traces == 1


def test_without_it_nothing_is_written_over() -> None:
    write, x = mg.jit(put), mg.zeros((3, 5))
    y = write(x, at(1), mg.ones((3, 1)))
    assert memory(y) != memory(x)
    assert not x.any()
    assert y.sum().item() == 3


SEEN: dict[str, Callable[[Tensor], Any]] = {
    "view": lambda x: x[1:],
    "transpose": lambda x: x.mT,
    "detach": lambda x: x.detach(),
    "numpy": lambda x: np.asarray(x),
    "dlpack": lambda x: np.from_dlpack(x),
    "reshape": lambda x: x.reshape(-1),
    "data": lambda x: x.data,
}


@pytest.mark.parametrize("sight", SEEN)
def test_what_others_see_stays(sight: str) -> None:
    write, x = mg.jit(put, donate_argnames="x"), mg.zeros((3, 5))
    seen = SEEN[sight](x)
    y = write(x, at(1), mg.ones((3, 1)))
    assert not np.asarray(seen).any()
    z = write(y, at(2), mg.ones((3, 1)))
    assert gone(x)
    assert gone(y)
    assert not np.asarray(seen).any()
    assert z.tolist() == [[0, 1, 1, 0, 0]] * 3


def test_who_made_the_memory_keeps_it() -> None:
    mine = np.zeros((3, 5), "float32")
    mg.jit(put, donate_argnames="x")(mg.from_dlpack(mine), at(1), mg.ones((3, 1)))
    assert not mine.any()


@pytest.mark.parametrize("seed", range(40))
def test_programs_by_generation_are_those_that_keep_all(seed: int) -> None:
    """Tables that are written, read before and after, returned; some are seen by others. Five calls in a row."""
    draw = random.Random(seed)
    dtypes = [draw.choice(DTYPES) for _ in range(3)]
    steps = [(draw.choice("wwwrsodv"), draw.randrange(3), draw.randrange(3)) for _ in range(draw.randint(1, 7))]

    def f(tables: list[Tensor], place: Tensor, values: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        tables, first, out = list(tables), list(tables), []
        for what, i, j in steps:
            if what == "w":  # written
                tables[i] = put(tables[i], (place + j) % 6, values.astype(tables[i].dtype))
            elif what == "r":  # read as it is by now, and as it was
                out += [tables[i].sum(), first[j].max()]
            elif what == "s":
                tables[i] = tables[i] + first[j].astype(tables[i].dtype)
            else:  # as it was
                out.append({"o": first[i], "d": first[i].detach(), "v": first[i].reshape(-1)}[what])
        return tables, out

    given = [np.random.default_rng(seed).integers(0, 4, (2, 6)).astype("float32") for _ in range(3)]
    plain, giving = (mg.jit(f, donate_argnames=names) for names in ((), ("tables",)))
    expected, found = ([mg.asarray(x, dtype=each) for x, each in zip(given, dtypes, strict=True)] for _ in range(2))
    held: list[tuple[Any, Any]] = []
    for call in range(5):
        values = mg.full((2, 1), call + 5.0)
        for x in found:
            if draw.random() < 0.3:
                seen = SEEN[draw.choice([*SEEN])](x) if x.dtype.name != "bfloat16" else x[:1]
                held.append((seen, np.array(seen.tolist())))
        before = found
        (expected, one), (found, other) = plain(expected, at(call), values), giving(found, at(call), values)
        for x, y in zip([*expected, *one], [*found, *other], strict=True):
            np.testing.assert_array_equal(np.array(x.tolist()), np.array(y.tolist()))
        stay = {id(x) for x in (*found, *other)}
        assert all(gone(x) for x in before if id(x) not in stay)
    for seen, numbers in held:
        if not (isinstance(seen, Tensor) and gone(seen)):
            np.testing.assert_array_equal(np.array(seen.tolist()), numbers)


@pytest.mark.parametrize("device", ["cpu", "rawbuffer"])
def test_every_device_takes_them(device: str) -> None:
    """Those that write over nothing, too: what is gone does not depend on the device."""
    x = mg.zeros((3, 5), device=device)
    y = mg.jit(put, donate_argnames="x")(
        x, mg.asarray([1], dtype="int64", device=device), mg.ones((3, 1), device=device)
    )
    assert y.tolist() == [[0, 1, 0, 0, 0]] * 3
    assert gone(x)


# ── who is gone, and who stays ──────────────────────────────────────────────────────────────────────────────────


USES: dict[str, Callable[[Tensor], Any]] = {
    "shape": lambda x: x.shape,
    "add": lambda x: x + 1,
    "other": lambda x: mg.ones(5) + x,
    "repr": repr,
    "tolist": lambda x: x.tolist(),
    "item": lambda x: x[0, 0].item(),
    "numpy": np.asarray,
    "device": lambda x: x.device,
    "detach": lambda x: x.detach(),
    "write": lambda x: x.__setitem__(0, 1),
    "program": lambda x: mg.jit(lambda: x * 2)(),
    "argument": lambda x: mg.jit(lambda x: x * 2)(x),
    "matmul": lambda x: x @ mg.ones((5, 2)),
    "grad": lambda x: mg.grad(lambda x: x.sum())(x),
}


@pytest.mark.parametrize("use", USES)
def test_what_is_gone_says_so(use: str) -> None:
    write, x = mg.jit(put, donate_argnames="x"), mg.zeros((3, 5))
    write(x, at(1), mg.ones((3, 1)))
    with pytest.raises(GraphError, match="given away to a function under jit.*take the parameter out of donate_argn"):
        USES[use](x)
    with pytest.raises(GraphError, match="given away"):
        write(x, at(1), mg.ones((3, 1)))


def test_what_is_returned_as_it_is_stays() -> None:
    f = mg.jit(lambda x, y: (x, y + 1), donate_argnames=("x", "y"))
    x, y = mg.ones(3), mg.ones(3)
    for _ in range(2):
        same, y = f(x, y)
        assert same is x
    assert x.tolist() == [1, 1, 1]
    assert y.tolist() == [3, 3, 3]


def test_what_the_function_keeps_or_writes_stays() -> None:
    class Box:
        x: Tensor | None = None

    box = Box()

    def keep(x: Tensor) -> Tensor:
        box.x = x
        return x + 1

    def write(x: Tensor) -> Tensor:
        x[0] = 5
        return x.sum()

    box.x = mg.zeros(3)
    x = mg.ones(3)
    assert mg.jit(keep, donate_argnames="x")(x).tolist() == [2, 2, 2]
    assert box.x is x
    assert x.tolist() == [1, 1, 1]
    y = mg.ones(3)
    assert mg.jit(write, donate_argnames="x")(y).item() == 7
    assert y.tolist() == [5, 1, 1]


def test_one_tensor_twice() -> None:
    """Given away by one name, and read by another."""
    f, x = mg.jit(lambda x, y: put(x, at(0), y[:, 1:2]) + y, donate_argnames="x"), mg.asarray([[1.0, 2.0]])
    assert f(x, x).tolist() == [[3, 4]]
    assert gone(x)


def test_names_reach_into_what_an_argument_holds() -> None:
    def f(caches: dict[str, list[Tensor]], *more: Tensor, scale: float = 1.0, last: Tensor) -> Any:
        return [put(x, at(0), last) * scale for x in (*caches["a"], *more)]

    g = mg.jit(f, donate_argnames=["caches", "more", "last"])
    caches, more, last = (
        {"a": [mg.zeros((2, 2)), mg.zeros((2, 2))]},
        (mg.zeros((2, 2)), mg.zeros((2, 2))),
        mg.ones((2, 1)),
    )
    found = g(caches, *more, scale=2.0, last=last)
    assert [x.tolist() for x in found] == [[[2, 0], [2, 0]]] * 4
    assert all(map(gone, (*caches["a"], *more, last)))


def test_calls_that_record_keep_all() -> None:
    w, x = Tensor(np.ones((2, 3), "float32")), mg.zeros((2, 3))
    f = mg.jit(lambda x, w: put(x, at(0), w[:, :1]), donate_argnames="x")
    f(x, w).sum().backward()
    assert not x.any()
    assert w.grad.tolist() == [[1, 0, 0], [1, 0, 0]]  # type: ignore[union-attr]
    with mg.no_grad():
        assert f(x, w).tolist() == [[1, 0, 0], [1, 0, 0]]
    assert gone(x)


def test_a_call_within_another_function_keeps_all() -> None:
    inner, x = mg.jit(put, donate_argnames="x"), mg.zeros((2, 3))
    mg.jit(lambda x: inner(x, at(0), mg.ones((2, 1))) + x)(x)
    mg.vmap(lambda x: inner(x[None], at(0), mg.ones((1, 1))))(x)
    mg.grad(lambda x: inner(x, at(0), mg.ones((2, 1))).sum())(x)
    assert not x.any()


def test_a_call_that_fails_has_taken_them_all_the_same() -> None:
    f, x = mg.jit(put, donate_argnames="x"), mg.zeros((2, 3))
    x = f(x, at(0), mg.ones((2, 1)))
    with pytest.raises(IndexError, match="index 7"):
        f(x, at(7), mg.ones((2, 1)))
    assert gone(x)


def test_lower_takes_nothing() -> None:
    f, x = mg.jit(put, donate_argnames="x"), mg.zeros((2, 3))
    assert f.lower(x, at(0), mg.ones((2, 1))).program.donated == frozenset()
    assert not x.any()


def test_a_name_that_is_none() -> None:
    with pytest.raises(ValueError, match="there is no parameter 'cache'; the function has x, place, values"):
        mg.jit(put, donate_argnames="cache")


def test_a_copy_by_pickle_gives_away_too() -> None:
    f = pickle.loads(pickle.dumps(mg.jit(put, donate_argnames="x")))
    x = mg.zeros((2, 3))
    assert f(x, at(0), mg.ones((2, 1))).sum().item() == 2
    assert gone(x)


def test_methods_and_decorators() -> None:
    class Writer(nn.Module):
        @mg.jit(donate_argnames="x")  # type: ignore[type-var]
        def put(self, x: Tensor) -> Tensor:
            return put(x, at(0), mg.ones((2, 1)))

    x = mg.zeros((2, 3))
    assert Writer().put(x).sum().item() == 2
    assert gone(x)


def test_memory_of_what_is_given_away_is_free_before_the_next_call() -> None:
    """Nothing refers to it: neither the tensor nor the program."""
    import weakref

    f, x = mg.jit(lambda x: x.sum(), donate_argnames="x"), mg.zeros((200, 300))
    seen = weakref.ref(x._handle)
    f(x)
    assert seen() is None
