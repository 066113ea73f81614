"""LLVM: from its text to object code, and to functions in memory where `linker` does not make these.

Nothing else imports llvmlite: its library takes 40 MB of memory and half as long to load as NumPy, which a process does
not pay whose code is all on the disk.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm

from micrograd_cpu.target import NATIVE, target


@cache
def _machine() -> Any:
    """The processor that runs this, with all it can, or the `target` that was asked for."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = host() if target() == NATIVE else (target(), "")
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="pic", jit=True
    )


def host() -> tuple[str, str]:
    """The name of the processor that runs this, and what it can, such as ``+avx2``."""
    try:
        return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # where LLVM cannot ask, code for any of the kind
        return "", ""


def compiled(ir: str) -> bytes:
    """Object code, optimised for the target."""
    machine = _machine()
    module = llvm.parse_assembly(ir)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization, options.slp_vectorization = True, False
    options.loop_unrolling = False  # twice the code, and the time to make it, for little
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


@cache
def _linker() -> Any:
    _machine()
    return llvm.create_lljit_compiler(llvm.Target.from_default_triple().create_target_machine(jit=True))


_COUNT: Final = iter(range(sys.maxsize))


def linked(codes: Iterable[bytes], names: list[str]) -> Any:
    """Object code in memory, for as long as what is returned lives: the addresses of functions by name."""
    builder = llvm.JITLibraryBuilder().add_current_process()
    for code in codes:
        builder.add_object_img(code)
    for name in names:
        builder.export_symbol(name)
    return builder.link(_linker(), f"micrograd{next(_COUNT)}")
