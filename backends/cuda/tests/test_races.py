"""What the emulated GPU says of threads that nothing orders, and that the order of turns can be another one."""

from __future__ import annotations

import ctypes
import mmap
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import array_api_compat.numpy as xp
import numpy as np
import pytest

import compiled
import nvrtc
from counted import CountedRuntime, numbers
from emulated import translate
from host import FOLDER, Arrays
from micrograd_cuda import kernels, units

pytestmark = [
    pytest.mark.skipif(nvrtc.library() is None, reason=nvrtc.MISSING),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc to compile translated PTX with"),
]
LAST = """
    __shared__ bool last;
    if (threadIdx.x == 0) {
        x[1 + blockIdx.x] = 1;
        %s
        last = atomicAdd(x, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        %s
        x[40 + threadIdx.x] = x[1 + threadIdx.x %% 2];
    }
"""
NEIGHBOUR = "__shared__ int s[64]; s[t] = t; %s x[u] = s[t ^ %d];"
KERNELS: dict[str, tuple[str, str]] = {  # with the memory in which there is a race
    "each its own": ("x[u] = t;", ""),
    "each a byte of its own": ("((char*)x)[u] = 1;", ""),
    "two blocks write": ("x[t] = 1;", "global"),
    "two blocks count": ("atomicAdd(x, 1);", ""),
    "one block reads the count": ("if (blockIdx.x) atomicAdd(x, 1); else x[t + 1] = x[0];", "global"),
    "many read and one writes": ("if (blockIdx.x) { x[u] = x[0]; if (t == 7) x[0] = 1; }", "global"),
    "a neighbour's without a barrier": (NEIGHBOUR % ("", 1), "shared"),
    "a neighbour's after a barrier": (NEIGHBOUR % ("__syncthreads();", 32), ""),
    "a neighbour's of the same warp": (NEIGHBOUR % ("__syncwarp();", 1), ""),
    "a neighbour's of the other warp": (NEIGHBOUR % ("__syncwarp();", 32), "shared"),
    "a neighbour's after a shuffle": (NEIGHBOUR % ("x[200 + u] = __shfl_xor_sync(~0u, t, 1);", 1), "shared"),
    "the last adds up": (LAST % ("__threadfence();", "__threadfence();"), ""),
    "the last adds up too early": (LAST % ("__threadfence();", ""), "global"),
    "what the last adds up is late": (LAST % ("", "__threadfence();"), "global"),
}


def run(body: str, *flags: str) -> tuple[str | None, Any]:
    """What two blocks of 64 threads say, and what they write."""
    head = 'extern "C" __global__ void test(int* x) { const int t = threadIdx.x, u = blockIdx.x * 64 + t; (void)u; '
    text = nvrtc.compile_text(f"{head}{body} }}", "sm_90").ptx
    library, memory, x = ctypes.CDLL(str(translate.build(text, FOLDER, *flags))), low_memory(), np.zeros(400, "int32")
    library.kernel_test.restype = ctypes.c_char_p
    address = ctypes.c_uint64(x.ctypes.data)
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(address))
    shared = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    failure = library.kernel_test((ctypes.c_uint * 6)(2, 1, 1, 64, 1, 1), ctypes.c_size_t(0), shared, parameters)
    return failure and failure.decode(), x


def low_memory() -> mmap.mmap:
    return mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40)


@pytest.mark.parametrize("order", ["0", "1", "7"])
@pytest.mark.parametrize("name", KERNELS)
def test_what_nothing_orders_is_named(name: str, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body, where = KERNELS[name]
    monkeypatch.setenv("EMULATED_ORDER", order)
    failure, _ = run(body, "-DFIND_RACES")
    assert re.fullmatch(f"race: .* of {where} memory at .* in test", failure) if where else failure is None, failure


def test_a_race_is_a_sentence() -> None:
    assert run(KERNELS["a neighbour's after a shuffle"][0], "-DFIND_RACES")[0] == (
        "race: read after write of shared memory at 0x4, by thread 0 of block 0 and thread 1 of block 0, in test"
    )


def test_turns_are_taken_in_the_order_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for order in ("0", "1", "7", "7"):
        monkeypatch.setenv("EMULATED_ORDER", order)
        found.append(run("x[u] = atomicAdd(x + 300, 1);")[1][:128].tolist())
    assert (found[0], found[1]) == ([*range(128)], [*range(127, -1, -1)])
    assert sorted(found[2]) == found[0] != found[2] == found[3]


class RacesRuntime(CountedRuntime):
    flags = (*CountedRuntime.flags, "-DFIND_RACES")


MEETING = re.compile(r"__syncthreads\(\)|__threadfence\(\)")
PLANTED = [
    (path.name, number)
    for path in sorted(units.SOURCES.iterdir(), key=str)
    for number in range(len(MEETING.findall(path.read_text(encoding="utf-8"))))
]
MEET = (  # operations whose threads meet at each of these
    compiled.classes(4096, "float32", gradient=False),
    compiled.of_images("standardize", 1, "float32", (4, 4, 32, 32), axis=(0, 2, 3), eps=1e-5),
    compiled.along_rows("layer_norm_weight_gradient", 2, 32, "float32", 64, axis=(1,), eps=1e-5),
    compiled.attention(True),
    compiled.attention(True, 128),
    compiled.decoding(2, 96),
)


WHERE: dict[str, int] = {}
"""Source to the one of these operations in which its last missing barrier was noticed."""


def first_race(file: str) -> str:
    """What is said of a race in one of the operations whose threads meet, begun where the last of the file was."""
    for i in sorted(range(len(MEET)), key=lambda i: i != WHERE.get(file)):
        runtime = RacesRuntime()
        try:
            MEET[i].work(kernels.table(Arrays(xp), runtime), runtime)()
        except AssertionError as failure:
            WHERE[file] = i
            return str(failure)
    return ""


@pytest.mark.parametrize(("file", "number"), PLANTED)
def test_whatever_orders_threads_in_our_sources_is_missed(
    file: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in units.SOURCES.iterdir():
        text = path.read_text(encoding="utf-8")
        places = [*MEETING.finditer(text)]
        if path.name == file:
            text = text[: places[number].start()] + text[places[number].end() :]
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(units, "SOURCES", tmp_path)
    monkeypatch.setattr(units, "source", cache(units.source.__wrapped__))
    assert re.search("race: (read|write) after (read|write) of .* in micrograd_", first_race(file))


def test_no_family_of_kernels_has_races(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMULATED_ORDER", "7")
    runtime = RacesRuntime()
    k = kernels.table(Arrays(xp), runtime)
    some = [row for row in compiled.rows() if row.name.endswith("float32") and "50257" not in row.name]
    for row in (*some, compiled.residual(), *MEET):
        row.work(k, runtime)()
    x, many, index = (
        numbers(runtime, (512, 32), "float32"),
        numbers(runtime, (2048, 32), "float32"),
        np.zeros(2048, "int64"),
    )
    drawn: dict[str, Any] = {"key": 1, "block": 2}
    whole = {"shape": (64,), "dtype": index.dtype, **drawn}
    k["log_softmax"](x, axis=1)
    k["log_softmax_gradient"](x, x, axis=1)
    k["logsumexp"](x, axis=(1,), keepdims=False)
    k["dropout"](x, p=0.5, **drawn)
    k["random_integers"](low=0, high=9, **whole)
    k["random_permutation"](**whole)
    k["embedding"](index, x)
    k["index_add"](x, index, many, axis=0)
    k["standardize"](numbers(runtime, (16, 4, 64, 64), "float32"), axis=(0, 2, 3), eps=1e-5)
    rule = {"lr": 0.1, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False}
    k["sgd_step"]([x], [x.copy()], [x.copy()], **rule)
    k["unscale"]([x, many * np.float32("inf")], 0.5)
    k["global_norm"](x, many)
    assert {unit.family for unit in runtime._bound} == set(units.FAMILIES)
