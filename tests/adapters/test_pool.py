"""Memory that is kept for whoever asks for as much next."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from micrograd_core.adapters.pool import Pool
from micrograd_core.errors import OutOfMemory
from tests.interrupts import each_line


class Memory:
    """A device that has so many bytes."""

    device = "small:0"

    def __init__(self, most: int = 100) -> None:
        self.most, self.made, self.freed = most, 0, list[Any]()

    def alloc(self, count: int, dtype: str) -> Any:
        size = count * int(dtype)
        if size > self.most:
            raise MemoryError
        self.most, self.made = self.most - size, self.made + 1
        return self.made, size

    def free(self, buffer: Any) -> None:
        self.freed.append(buffer)
        self.most += buffer[1]


def taken(pool: Pool, count: int, dtype: str = "4") -> tuple[Any, ...]:
    return count, dtype, count * int(dtype), pool.take(count, dtype, count * int(dtype))


def test_what_was_given_serves_whoever_asks_for_as_much_of_the_same_dtype() -> None:
    memory = Memory()
    pool = Pool(memory)
    x = taken(pool, 4)
    pool.give(*x)
    assert taken(pool, 4, "1")[-1] != x[-1]
    assert taken(pool, 4) == x
    assert memory.made == 2
    assert pool.memory() == {"in_use": 20, "reserved": 20, "peak": 20}


def test_as_much_is_kept_as_was_in_use_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("micrograd_core.adapters.pool.SPARE", 16)
    memory = Memory()
    pool = Pool(memory)
    for count in (3, 4, 5, 4, 5):  # never more than 20 bytes at once
        pool.give(*taken(pool, count))
    assert memory.made == 3
    assert [size for _, size in memory.freed] == [12]
    assert pool.memory() == {"in_use": 0, "reserved": 36, "peak": 20}
    pool.release()
    assert pool.memory() == {"in_use": 0, "reserved": 0, "peak": 20}
    assert memory.most == 100


def test_what_is_kept_is_given_back_before_memory_has_run_out() -> None:
    memory = Memory()
    pool = Pool(memory)
    pool.give(*taken(pool, 15))
    x = taken(pool, 20)
    assert memory.freed == [(1, 60)]
    with pytest.raises(OutOfMemory, match="out of memory on small:0: asked 24 bytes, in use 80 bytes"):
        pool.take(6, "4", 24)
    assert pool.memory()["in_use"] == 80
    pool.give(*x)
    assert pool.memory()["in_use"] == 0


def test_memory_may_be_given_back_in_the_middle_of_an_allocation() -> None:
    """As finalizers do, which the collector calls wherever it likes."""
    pool: Pool
    x: Any = None

    class Collecting(Memory):
        def alloc(self, count: int, dtype: str) -> Any:
            if x is not None:
                pool.give(*x)
            return super().alloc(count, dtype)

    pool = Pool(Collecting())
    x = taken(pool, 4)
    y = taken(pool, 5)
    assert pool.memory() == {"in_use": 20, "reserved": 36, "peak": 36}
    x, before = None, x
    assert taken(pool, 4) == before
    assert y[-1] != before[-1]


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lent_twice_and_memory_is_bounded(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("micrograd_core.adapters.pool.SPARE", 64)
    pick, memory, held = random.Random(seed), Memory(2000), list[Any]()
    pool = Pool(memory)
    for _ in range(300):
        if held and pick.random() < 0.5:
            pool.give(*held.pop(pick.randrange(len(held))))
        else:
            with suppress(OutOfMemory):
                held.append(taken(pool, pick.randint(1, 12), pick.choice("148")))
        assert len({each[-1] for each in held}) == len(held)
        found = pool.memory()
        assert found["in_use"] == sum(each[2] for each in held)
        assert found["in_use"] <= found["reserved"] <= found["peak"] + 64
        assert found["reserved"] + memory.most == 2000
    for each in held:
        pool.give(*each)
    pool.release()
    assert memory.most == 2000


def test_threads_take_and_give() -> None:
    pool, lent, twice = Pool(Memory(1 << 20)), set[Any](), list[Any]()

    def work(seed: int) -> None:
        pick = random.Random(seed)
        for _ in range(500):
            x = taken(pool, pick.randint(1, 4))
            if x[-1] in lent:
                twice.append(x)
            lent.add(x[-1])
            lent.discard(x[-1])
            pool.give(*x)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert not twice
    assert pool.memory()["in_use"] == 0


@pytest.mark.parametrize("at", range(60))
def test_an_interrupt_at_any_line_loses_a_buffer_at_most(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("micrograd_core.adapters.pool.SPARE", 8)
    pool, lines = Pool(Memory(10_000)), 0

    def interrupt(frame: Any) -> None:
        nonlocal lines
        lines += 1
        if lines == at:
            raise KeyboardInterrupt

    for _ in range(2):
        for each in [taken(pool, n) for n in (1, 2, 2, 3)]:
            pool.give(*each)
    held = list[Any]()
    with suppress(KeyboardInterrupt), each_line(interrupt, lambda frame: frame.f_code.co_filename.endswith("pool.py")):
        held.append(taken(pool, 2))
        held.append(taken(pool, 7))
        pool.give(*held.pop())
        pool.release()
    pick = random.Random(at)
    for _ in range(100):
        if held and pick.random() < 0.5:
            pool.give(*held.pop(pick.randrange(len(held))))
        else:
            held.append(taken(pool, pick.randint(1, 8)))
        assert len({each[-1] for each in held}) == len(held)
    pool.release()
