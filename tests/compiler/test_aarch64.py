"""Loops as code for aarch64, run by qemu where it and a cross compiler are installed, beside NumPy and this processor.

On Debian they come with ``apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross``.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import llvmlite.binding as llvm

from micrograd_core import Device
from micrograd_core.compiler.fusion import Run, plan
from micrograd_core.compiler.passes import optimized, written
from micrograd_core.dtypes import DTYPES
from micrograd_core.layout import Layout
from micrograd_core.ops import TABLE
from micrograd_cpu import target
from micrograd_cpu.llvm import module, tiles, units
from micrograd_cpu.scalars import covers

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
pytestmark = pytest.mark.skipif(
    not (shutil.which(COMPILER) and shutil.which(EMULATOR)), reason=f"needs {COMPILER} and {EMULATOR}"
)
SHAPE = (3, 67)
NUMBERS = ("float32", "float64", "float16", "bfloat16", "int32", "int8")
OTHERS: dict[str, Any] = {
    "softmax": lambda k, x: k.softmax(x, axis=1),
    "layer_norm": lambda k, x: k.layer_norm(x, 1.5, 0.5, axis=(1,), eps=1e-5),
    "logsumexp": lambda k, x: k.logsumexp(x, axis=(1,), keepdims=False),
    "columns": lambda k, x: k.sum(x, axis=(0,), keepdims=False),
    "to int8": lambda k, x: k.astype(x, dtype=DTYPES["int8"]),
    "to float16": lambda k, x: k.astype(x, dtype=DTYPES["float16"]),
    "to bfloat16": lambda k, x: k.astype(x, dtype=DTYPES["bfloat16"]),
}


class Case(NamedTuple):
    """A loop, its operands, and what this processor makes of it."""

    name: str
    run: Run
    arrays: list[Any]
    expected: list[Any]


@pytest.fixture
def cases() -> list[Case]:
    return list(made())


def made() -> Iterator[Case]:
    rng = np.random.default_rng(0)
    functions: dict[str, tuple[int, Any]] = {name: (1, f) for name, f in OTHERS.items()}
    for op in TABLE.values():
        if op.kind == "elementwise" and not op.parts:
            functions[op.name] = op.operands, lambda k, *xs, name=op.name: getattr(k, name)(*xs)
    for name, (count, f) in functions.items():
        for dtype in NUMBERS:
            if name in TABLE and any(DTYPES[dtype].kind not in TABLE[name].accepted(i) for i in range(count)):
                continue
            arrays = [(rng.normal(size=SHAPE) * 3).astype(np.dtype(dtype)) for _ in range(count)]
            try:
                program = written(f, [(SHAPE, DTYPES[dtype])] * count, {})
                if program is None or len(runs := planned(program)) != 1:
                    continue
                with np.errstate(all="ignore"):
                    expected = Device("cpu").kernels.compile(program)(*arrays)
            except (TypeError, AttributeError, KeyError, NotImplementedError, ValueError):
                continue  # operands or parameters of another kind
            yield Case(
                f"{name}-{dtype}", runs[0], [arrays[n] for n in runs[0].inputs], [np.asarray(x) for x in expected]
            )


def planned(program: Any) -> list[Run]:
    """The loops of a program; none where kernels are called, too."""
    found = plan(
        optimized(program, covers), [Layout.contiguous(x.shape) for x in program.types[: program.inputs]], covers
    )
    runs = [step for step in found.steps if isinstance(step, Run)]
    return runs if len(runs) == len(found.steps) and len(found.outputs) == len(runs[0].outputs if runs else ()) else []


def program_in_c(given: list[Case], counts: list[int]) -> str:
    """A main that reads operands, calls each loop and writes results."""
    lines = ["#include <stdio.h>", "#include <stdlib.h>", "int main(void) {"]
    for i, (case, count) in enumerate(zip(given, counts, strict=True)):
        names = [*(f"x{n}" for n in range(len(case.arrays))), *(f"y{n}" for n in range(len(case.expected)))]
        declared = ", ".join(["long", "long", *["void *"] * len(names)])
        lines.append(f"{{ extern void case{i}({declared});")
        for name, x in zip(names, [*case.arrays, *case.expected], strict=True):
            lines.append(f"void *{name} = malloc({x.nbytes});")
            if name.startswith("x"):
                lines.append(f"if (fread({name}, 1, {x.nbytes}, stdin) != {x.nbytes}) return 1;")
        lines.append(f"case{i}(0, {count}, {', '.join(names)});")
        lines += [
            f"fwrite({name}, 1, {x.nbytes}, stdout);"
            for name, x in zip(names[len(case.arrays) :], case.expected, strict=True)
        ]
        lines.append("}")
    return "\n".join([*lines, "return 0; }\n"])


@pytest.fixture
def aarch64(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The printer writes for such a processor, and this makes object code of what it writes."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(target, "processor", lambda: "")
    target.converts_float16.cache_clear()
    machine = llvm.Target.from_triple("aarch64-linux-gnu").create_target_machine(opt=3, reloc="pic")

    def compiled(ir: str) -> bytes:
        parsed = llvm.parse_assembly(ir)
        parsed.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = True
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(parsed, builder)
        return machine.emit_object(parsed)  # type: ignore[no-any-return]

    yield compiled
    monkeypatch.undo()
    target.converts_float16.cache_clear()


def test_every_loop_computes_what_it_does_here(cases: list[Case], aarch64: Any, tmp_path: Path) -> None:
    assert len(cases) > 200
    counts, objects = list[int](), list[str]()
    for i, case in enumerate(cases):
        nest = case.run.nest
        counts.append(units(nest, tiles(nest)))
        path = tmp_path / f"case{i}.o"
        path.write_bytes(aarch64(module([nest]).replace("@nest0(", f"@case{i}(")))
        objects.append(str(path))
    (tmp_path / "main.c").write_text(program_in_c(cases, counts))
    subprocess.run([COMPILER, "-static", "-o", "all", "main.c", *objects, "-lm"], cwd=tmp_path, check=True)
    operands = b"".join(x.tobytes() for case in cases for x in case.arrays)
    done = subprocess.run([EMULATOR, "./all"], cwd=tmp_path, input=operands, capture_output=True, check=True)
    rest, wrong = done.stdout, []
    for case in cases:
        for expected in case.expected:
            found = np.frombuffer(rest[: expected.nbytes], expected.dtype).reshape(expected.shape)
            rest = rest[expected.nbytes :]
            if expected.dtype.kind in "biu":
                same = bool((found == expected).all())
            else:
                eps = float(np.finfo(expected.dtype).eps) if expected.dtype.kind == "f" else 2.0**-7
                same = np.allclose(
                    found.astype("d"), expected.astype("d"), rtol=16 * eps, atol=16 * eps, equal_nan=True
                )
            if not same:
                wrong.append(case.name)
    assert not wrong
    assert not rest
