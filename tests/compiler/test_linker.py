"""Object code in memory without LLVM: what it makes is what LLVM makes, and what it does not know LLVM links."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")
from micrograd_core.errors import DeviceUnavailable
from micrograd_cpu import linker, objects, target

pytestmark = pytest.mark.skipif("linker" in target.PLAIN, reason="objects of other systems are linked by LLVM")

IR = """
@factors = internal constant [2 x double] [double 3.0, double 5.0]
@calls = internal global i64 40
@zeros = internal global [9 x i64] zeroinitializer
declare double @fmod(double, double)
define internal double @scaled(double %x, i64 %i) noinline {
  %at = getelementptr [2 x double], ptr @factors, i64 0, i64 %i
  %factor = load double, ptr %at
  %y = fmul double %x, %factor
  ret double %y
}
define double @computed(double %x, i64 %i) {
  %zero = getelementptr [9 x i64], ptr @zeros, i64 0, i64 %i
  %old = load i64, ptr %zero
  %new = add i64 %old, 1
  store i64 %new, ptr %zero
  %y = call double @scaled(double %x, i64 %i)
  %z = call double @fmod(double %y, double 7.0)
  %t = sitofp i64 %new to double
  %s = fadd double %z, %t
  ret double %s
}
define i64 @counted() {
  %n = load i64, ptr @calls
  %m = add i64 %n, 1
  store i64 %m, ptr @calls
  ret i64 %m
}
"""

TRAINING = """
import sys
import numpy as np
from micrograd_core import Tensor, cross_entropy, jit, nn, optim, random
random.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 9))
rule = optim.Adam(model.parameters())
@jit
def step(x, targets):
    rule.zero_grad()
    loss = cross_entropy(model(nn.functional.dropout(x)), targets)
    loss.backward()
    rule.step()
    return loss
x, targets = random.normal((512, 64)), random.randint((512,), 0, 9)
print([step(x, targets).item() for _ in range(4)], nn.functional.softmax(random.normal((64, 300)), -1).sum().item())
print("llvmlite" in sys.modules)
"""


@pytest.fixture(autouse=True)
def _off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROGRAD_CACHE", "off")


def functions(library: Any) -> tuple[Any, Any]:
    computed = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64)(library["computed"])
    return computed, ctypes.CFUNCTYPE(ctypes.c_int64)(library["counted"])


def test_code_reads_constants_writes_its_own_data_and_calls_this_process() -> None:
    library = objects.library(IR, ["computed", "counted"])
    assert isinstance(library, linker.Image)
    computed, counted = functions(library)
    assert [computed(4.0, 0), computed(4.0, 0), computed(4.0, 1)] == [6.0, 7.0, 7.0]
    assert [counted(), counted()] == [41, 42]


def test_each_library_has_data_of_its_own() -> None:
    first, second = (objects.library(IR, ["computed", "counted"]) for _ in range(2))
    assert [functions(each)[1]() for each in (first, first, second)] == [41, 42, 41]


def test_code_cannot_be_written() -> None:
    image = linker.Image(objects.compiled(IR))
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    parts = [(*[int(each, 16) for each in line[0].split("-")], line[1]) for line in lines]
    assert [rights for first, end, rights in parts if first <= image["computed"] < end] == ["r-xp"]


def test_what_it_does_not_know_llvm_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linker, "FROM_TABLE", 99)
    with pytest.raises(linker.Unlinked, match="a relocation of kind 25"):
        linker.Image(objects.compiled(IR))
    library = objects.library(IR, ["computed", "counted"])
    assert not isinstance(library, linker.Image)
    assert functions(library)[0](4.0, 0) == 6.0


def test_a_function_that_nobody_has_is_named() -> None:
    ir = "declare void @micrograd_nowhere()\ndefine void @run() {\n  call void @micrograd_nowhere()\n  ret void\n}\n"
    with pytest.raises(linker.Unlinked, match="nothing here is called micrograd_nowhere"):
        linker.Image(objects.compiled(ir))


def test_a_process_whose_code_is_on_the_disk_gets_the_same_numbers_without_llvm(tmp_path: Path) -> None:
    environment = {**os.environ, "MICROGRAD_CACHE": str(tmp_path / "objects")}
    run = [sys.executable, "-c", TRAINING]
    said = [subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    (numbers, loaded), (again, loaded_again) = (each.splitlines() for each in said)
    assert loaded == "True"
    assert loaded_again == "False"
    assert again == numbers
    assert np.isfinite(eval(numbers.split("]")[0] + "]")).all()


def test_the_processor_is_told_apart_without_llvm() -> None:
    from micrograd_cpu.assembler import host

    words = target.processor().split()
    assert ("avx512f" in words) == ("+avx512f" in host()[1])
    if target.target() == target.NATIVE:
        assert target.vector_bytes() == (64 if "+avx512f" in host()[1] else 32 if "+avx," in host()[1] else 16)


TARGET = """
import hashlib, sys
from micrograd_cpu import objects, target
print(target.vector_bytes(), hashlib.sha256(objects._key("").encode()).hexdigest())
print(hashlib.sha256(objects.compiled(sys.argv[1])).hexdigest())
"""
ADDED = """
define void @added(ptr noalias %x, ptr noalias %y) {
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %from = getelementptr double, ptr %x, i64 %i
  %to = getelementptr double, ptr %y, i64 %i
  %number = load double, ptr %from
  %twice = fadd double %number, %number
  store double %twice, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 1024
  br i1 %more, label %body, label %done
done:
  ret void
}
"""


def of_target(name: str) -> list[str]:
    environment = {**os.environ, "MICROGRAD_CPU_TARGET": name}
    run = [sys.executable, "-c", TARGET, ADDED]
    return subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout.split()


def test_code_is_for_the_target_that_the_environment_names() -> None:
    assert of_target("") == of_target("native")
    levels = [name for name in target.LEVELS if not target._lacks(name)]
    found = {name: of_target(name.upper()) for name in levels}
    assert [int(size) for size, *_ in found.values()] == [target.LEVELS[name][1] for name in levels]
    assert len({key for _, key, _ in found.values()}) == len(levels)  # code on disk is never taken for another's
    if "x86-64-v3" in found:
        assert found["x86-64-v2"][2] != found["x86-64-v3"][2]  # AVX is for the second only


@pytest.mark.parametrize(
    ("name", "why"), [("haswell", "no such target is known"), ("x86-64-v4", "this processor has no avx512bw, avx512cd")]
)
def test_a_target_that_the_processor_does_not_run_is_refused(
    name: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MICROGRAD_CPU_TARGET", name)
    monkeypatch.setattr(target, "processor", lambda: "flags : ssse3 popcnt avx avx2 bmi2 fma")
    with pytest.raises(
        DeviceUnavailable, match=rf"'{name}', but {why}.*; set it to native or x86-64-v2 or x86-64-v3, or unset it"
    ):
        target.target.__wrapped__()


def test_the_device_says_so_when_it_is_opened() -> None:
    run = [sys.executable, "-c", "from micrograd_core import Tensor; Tensor(1.0)"]
    done = subprocess.run(run, env={**os.environ, "MICROGRAD_CPU_TARGET": "i386"}, capture_output=True, text=True)
    assert "MICROGRAD_CPU_TARGET is 'i386', but no such target is known; set it to native or" in done.stderr
