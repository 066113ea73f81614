"""From LLVM IR to functions in memory, by object code that `support.code_cache` keeps for the next process."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any, Final

import numpy as np

from micrograd_core.support.code_cache import read, write
from micrograd_core.support.locks import lock
from micrograd_cpu import __version__
from micrograd_cpu.target import PLAIN, processor, target

COMPILING: Final = lock(awaited=True)
"""Held for a module: LLVM's objects are shared, and a forked child could not go on with half of them."""
PLANNING: Final = lock()
"""Held while a program is planned for new layouts: what a thread of the parent had begun, a child begins anew."""


@cache
def _versions() -> tuple[Any, ...]:
    """What makes code here, and what the code reads: found without an import of LLVM.

    The library's size and time tell LLVM's versions apart, except in packages that are built reproducibly.
    """
    folder = Path(find_spec("llvmlite").origin).parent  # type: ignore[union-attr, arg-type]
    facts = [(each.name, each.stat()) for each in os.scandir(folder / "binding") if "llvmlite" in each.name]
    libraries = sorted((name, about.st_size, about.st_mtime_ns) for name, about in facts)
    return __version__, np.__version__, (folder / "_version.py").read_text(encoding="utf-8"), str(folder), libraries


def library(ir: str | Sequence[str], names: list[str]) -> Any:
    """The addresses of functions by name, for as long as it lives: of modules that may call those before them.

    A KeyboardInterrupt is raised between two modules; those that are compiled by then are on the disk.
    """
    codes = list[bytes]()
    for text in [ir] if isinstance(ir, str) else ir:
        with COMPILING:
            key = _key(text)
            code = read(key)
            if code is None:
                code = compiled(text)
                write(key, code)
        codes.append(code)
    with COMPILING:
        if "linker" not in PLAIN:
            from micrograd_cpu.linker import Image, Unlinked

            with contextlib.suppress(Unlinked):
                image: Image | None = None
                for code in codes:
                    image = Image(code, image)
                return image
        from micrograd_cpu.assembler import linked

        return linked(codes, names)


def source(name: str, /, **values: Any) -> str:
    """The IR of a file in `sources`, with these values in place of their names."""
    return Template((Path(__file__).parent / "sources" / f"{name}.ll").read_text(encoding="utf-8")).substitute(values)


def compiled(ir: str) -> bytes:
    """Object code for a module."""
    from micrograd_cpu.assembler import compiled

    return compiled(ir)


def _key(ir: str) -> str:
    return repr((_versions(), processor(), target(), sys.platform, ir))
