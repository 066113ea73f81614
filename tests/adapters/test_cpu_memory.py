"""What the cpu keeps of freed memory, and what goes back, each in a process of its own: the heap is the process's."""

import os
import subprocess
import sys

import pytest

from micrograd_core.errors import DeviceUnavailable
from micrograd_cpu import memory

pytestmark = pytest.mark.skipif(memory._library() is None, reason="the C library is not GNU's")

PREPARED = """
import ctypes, resource, threading
import numpy as np
from micrograd_core import Device, Tensor, asarray, full

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

cpu = Device("cpu")
x, y = (Tensor(np.full(1_000_000, value, "float32"), requires_grad=True) for value in (0.5, 0.25))

def step():
    x.grad = y.grad = None
    ((x * y + x) * y).sum().backward()
"""


def run(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PREPARED + script],
        env={name: value for name, value in os.environ.items() if name not in memory.OWN} | environment,
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


FAULTS = """
for _ in range(3):
    step()
before = faults()
for _ in range(10):
    step()
print((faults() - before) // 10)
"""


def test_a_step_takes_the_pages_of_the_one_before() -> None:
    assert int(run(FAULTS)) < 50


@pytest.mark.parametrize(
    "environment", [{"MICROGRAD_POOL": "off"}, {"MALLOC_TRIM_THRESHOLD_": "131072"}, {"MICROGRAD_POOL": "100000"}]
)
def test_one_may_do_without(environment: dict[str, str]) -> None:
    assert int(run(FAULTS, **environment)) > 1000


def test_release_memory_gives_back_what_is_free_and_only_that() -> None:
    found = run("""
arrays = [full((1_000_000,), float(i)) for i in range(40)]
full_size, told = resident(), cpu.memory()["reserved"]
kept, view = arrays[17], np.from_dlpack(arrays[31][5:])
del arrays
lying = resident()
cpu.release_memory()
print(full_size - lying < 10e6, lying - resident() > 140e6, told > 160e6)
print(kept.sum().item(), view.sum().item(), cpu.memory()["reserved"] <= told)
""")
    assert found.split() == ["True"] * 3 + ["17000000.0", "30999844.0", "True"]


def test_no_more_than_the_limit_stays() -> None:
    found = run(
        """
arrays = [full((1_000_000,), 1.0) for _ in range(40)]
before = resident()
del arrays
print(before - resident() > 130e6)
""",
        MICROGRAD_POOL="20000000",
    )
    assert found == "True"


def test_nobody_sees_memory_that_another_holds() -> None:
    found = run("""
def work(number, wrong):
    kept = []
    for i in range(60):
        value = float(number * 1000 + i)
        z = full((50_000 + 1000 * (i % 7),), value) * 1
        kept.append((value, z if i % 3 else z[::5], np.from_dlpack(z)))
        if i % 5 == 4:
            wrong += [value for value, z, seen in kept if (seen != value).any() or (z.detach().numpy() != value).any()]
            del kept[:: 2]

wrong = []
threads = [threading.Thread(target=work, args=(n, wrong)) for n in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(wrong)
""")
    assert found == "[]"


def test_a_limit_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROGRAD_POOL", "1 GB")
    with pytest.raises(
        DeviceUnavailable, match="MICROGRAD_POOL is '1 gb'.*a number of bytes, such as 1073741824, or off"
    ):
        memory.limit()
    monkeypatch.setenv("MICROGRAD_POOL", "10" * 9)
    assert memory.limit() == memory.LARGEST
