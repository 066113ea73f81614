"""A device of workgroups out of the system's C compiler: threads that wait for one another and share memory."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

from micrograd_core.compiler.languages import C
from micrograd_core.compiler.nests import Nest
from micrograd_core.dtypes import DType
from micrograd_core.plugins import hookimpl
from tests.adapters.toy_c import CBackend

GROUP = 4
KERNEL = """{preamble}
#include <pthread.h>
static pthread_barrier_t gate;
static long n; static const long* m; static void** p;
{shared}
static void* unit(void* place) {{
long t = (long)place;
{pointers}
for (long w = 0; w * {group} < n; w++) {{
long u = w * {group} + t;
{text}
{barrier}
}}
return 0;
}}
void run(long count, const long* integers, void** buffers) {{
n = count; m = integers; p = buffers;
pthread_t threads[{group}];
pthread_barrier_init(&gate, 0, {group});
for (long t = 0; t < {group}; t++) pthread_create(threads + t, 0, unit, (void*)t);
for (long t = 0; t < {group}; t++) pthread_join(threads[t], 0);
pthread_barrier_destroy(&gate);
}}
"""


class GroupsBackend(CBackend):
    """Each unit of a workgroup is a thread; workgroups come one after the other.

    A buffer ends where memory does: to read or write behind it ends the process.
    """

    language = C._replace(barrier="pthread_barrier_wait(&gate);")
    group = lanes = GROUP

    def alloc(self, count: int, dtype: DType) -> Any:
        size = count * dtype.itemsize
        whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = mmap.mmap(-1, whole + mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        assert not ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + whole), mmap.PAGESIZE, 0)
        return (ctypes.c_char * size).from_buffer(memory, whole - size)

    def build(self, text: str, nest: Nest) -> Any:
        types = [(i, C.types[b.dtype.name], b) for i, b in enumerate(nest.buffers)]
        shared = "\n".join(f"static {T} p{i}[{b.size}];" for i, T, b in types if b.role == "shared")
        pointers = "\n".join(
            f"{T}* p{i} = p[{i}]; const long at{i} = m[{i}];" for i, T, b in types if b.role in ("in", "out")
        )
        return self.compiled(
            KERNEL.format(
                preamble=C.preamble,
                shared=shared,
                pointers=pointers,
                group=GROUP,
                text=text,
                barrier=self.language.barrier if shared else "",
            )
        )


class SharingBackend(GroupsBackend):
    """Products go through memory that a workgroup shares."""

    group_memory, lanes = 1 << 10, 2


class Plugin:
    """The hook."""

    @hookimpl
    def micrograd_open(self, address: str) -> GroupsBackend:
        return (SharingBackend if address else GroupsBackend)(f"toy-groups:{address}")
