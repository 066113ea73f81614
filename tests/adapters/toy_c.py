"""A device out of the system's C compiler: what an author of a `CompiledBackend` writes, and nothing else."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from micrograd_core.adapters.compiled import CompiledBackend
from micrograd_core.compiler.languages import C
from micrograd_core.compiler.nests import Nest
from micrograd_core.dtypes import DType
from micrograd_core.plugins import hookimpl

COMPILER = shutil.which("cc")
FOLDER = Path(tempfile.gettempdir()) / "micrograd-toy-c"
FLAGS = ["-O1", "-ffp-contract=off", "-w", "-shared", "-fPIC", "-pthread"]
KERNEL = """{preamble}
void run(long n, const long* m, void** p) {{
{pointers}
for (long u = 0; u < n; u++) {{
{text}
}} }}
"""


class CBackend(CompiledBackend):
    """Host memory, and kernels that one thread runs."""

    language = C

    def alloc(self, count: int, dtype: DType) -> Any:
        return (ctypes.c_char * (count * dtype.itemsize))()

    def write(self, buffer: Any, data: Any) -> None:
        flat = memoryview(data).cast("B")
        ctypes.memmove(buffer, bytes(flat), len(flat))

    def read_range(self, buffer: Any, start: int, end: int) -> bytes:
        return memoryview(buffer).cast("B")[start:end].tobytes()

    def build(self, text: str, nest: Nest) -> Any:
        given = [(i, C.types[b.dtype.name]) for i, b in enumerate(nest.buffers) if b.role != "scratch"]
        pointers = "\n".join(f"{T}* p{i} = p[{i}]; const long at{i} = m[{i}];" for i, T in given)
        return self.compiled(KERNEL.format(preamble=C.preamble, pointers=pointers, text=text))

    def compiled(self, source: str) -> Any:
        made = FOLDER / f"{hashlib.sha256(source.encode()).hexdigest()[:32]}.so"
        if not made.exists():
            FOLDER.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(dir=FOLDER) as work:
                unit, library = Path(work) / "unit.c", Path(work) / "unit.so"
                unit.write_text(source)
                subprocess.run([str(COMPILER), *FLAGS, "-o", library, unit, "-lm"], check=True)
                library.replace(made)
        return ctypes.CDLL(str(made)).run

    def launch(self, function: Any, units: int, integers: Sequence[int], buffers: Sequence[Any]) -> None:
        numbers = array("q", integers)
        pointers = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
        function(ctypes.c_long(units), ctypes.c_void_p(numbers.buffer_info()[0]), pointers)


class Plugin:
    """The hook."""

    @hookimpl
    def micrograd_open(self, address: str) -> CBackend:
        return CBackend("toy-c:0")
