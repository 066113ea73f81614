"""Object code in memory without LLVM, on Linux with an x86-64 processor. LLVM need not be loaded for it.

It reads ELF files as LLVM writes them for code that may lie anywhere ("large"): addresses have 64 bits, so few kinds of
places are to be filled in. What it does not know it refuses, and LLVM links that. The numbers are those of the System V
ABI, "AMD64 Architecture Processor Supplement".
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections import namedtuple
from functools import cache
from typing import Any, Final

SYMBOLS, WITHOUT_BYTES, RELOCATIONS = 2, 8, 4  # types of sections
WRITTEN, LOADED = 1, 2  # flags of sections
ABSOLUTE, RELATIVE, FROM_TABLE, ENTRY, TABLE = 1, 24, 25, 27, 29  # R_X86_64_64, _PC64, _GOTOFF64, _GOT64, _GOTPC64
SPECIAL: Final = 0xFF00
"""Numbers of sections from here on are none."""


class Unlinked(Exception):
    """Object code that is not read here."""


Section = namedtuple("Section", "name type flags address offset size link info align entry")
"""A part of a file, in the order of its header."""
Symbol = namedtuple("Symbol", "name info other section value size")
"""A name for a place in a section; of section 0, for what this process has."""


@cache
def _process() -> Any:
    return ctypes.CDLL(None)


def _outside(name: str) -> int:
    """Where this process has a function, such as ``memcpy``."""
    try:
        return ctypes.cast(getattr(_process(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        raise Unlinked(f"nothing here is called {name}") from None


class Image:
    """An object file in memory, for as long as it lives: ``image[name]`` is the address of a function.

    It has the functions of the image `before` it, too, and may refer to them.
    """

    def __init__(self, code: bytes, before: Image | None = None) -> None:
        self.before = before
        (start,), (count,) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<H", code, 60)
        self.code = code
        self.sections = [Section(*each) for each in struct.iter_unpack("<IIQQQQIIQQ", code[start : start + 64 * count])]
        table = next(each for each in self.sections if each.type == SYMBOLS)
        self.symbols = [Symbol(*each) for each in struct.iter_unpack("<IBBHQQ", self._bytes(table))]
        self.names = self._bytes(self.sections[table.link])
        self.entries: dict[int, int] = {}  # of the table of addresses, by symbol
        places, self.table, fixed, size = self._placed()
        self.memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.places = {i: self.base + at for i, at in places.items()}
        for i, at in places.items():
            if (section := self.sections[i]).type != WITHOUT_BYTES:
                self.memory[at : at + section.size] = self._bytes(section)
        for section in self.sections:
            if section.type == RELOCATIONS and section.info in places:
                for offset, info, addend in struct.iter_unpack("<QQq", self._bytes(section)):
                    self._fill(places[section.info] + offset, info & 0xFFFFFFFF, info >> 32, addend)
        protect = _process().mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        if protect(self.base, fixed, mmap.PROT_READ | mmap.PROT_EXEC):
            raise Unlinked("the system runs no code from memory that was written")
        where = {self._name(each): each for each in self.symbols if 0 < each.section < SPECIAL and each.info >> 4}
        self.found: dict[str, int] = dict(before.found) if before else {}
        self.found |= {name: self._address(each) for name, each in where.items() if each.section in places}
        del self.code, self.sections, self.symbols, self.names, self.entries

    def __getitem__(self, name: str) -> int:
        return self.found[name]

    def _bytes(self, section: Section) -> bytes:
        return self.code[section.offset : section.offset + section.size]

    def _name(self, symbol: Symbol) -> str:
        return self.names[symbol.name : self.names.index(0, symbol.name)].decode()

    def _placed(self) -> tuple[dict[int, int], int, int, int]:
        """Where sections begin, and the table; the size of what is never written, and of all."""
        places, at = dict[int, int](), 0
        loaded = [i for i, each in enumerate(self.sections) if each.flags & LOADED and each.size]
        for written in (0, WRITTEN):
            for i in loaded:
                section = self.sections[i]
                if section.flags & WRITTEN == written:
                    places[i] = at = -(-at // section.align) * section.align
                    at += section.size
            if not written:  # then the table, with room for each symbol
                table = -(-at // 8) * 8
                fixed = at = -(-(table + 8 * len(self.symbols)) // mmap.PAGESIZE) * mmap.PAGESIZE
        return places, table, fixed, max(at, fixed)

    def _address(self, symbol: Symbol) -> int:
        if symbol.section == 0:
            name = self._name(symbol)
            return self.before.found[name] if self.before and name in self.before.found else _outside(name)
        if symbol.section not in self.places:
            raise Unlinked(f"a symbol of section {symbol.section}")
        return int(self.places[symbol.section] + symbol.value)

    def _fill(self, at: int, kind: int, symbol: int, addend: int) -> None:
        """Write an address, or how far it is, where the code expects it."""
        here, table = self.base + at, self.base + self.table
        if kind == TABLE:
            value = table - here
        elif kind == ENTRY:
            entry = self.entries.setdefault(symbol, 8 * len(self.entries))
            struct.pack_into("<Q", self.memory, self.table + entry, self._address(self.symbols[symbol]))
            value = entry
        elif kind in (ABSOLUTE, RELATIVE, FROM_TABLE):
            origin = {ABSOLUTE: 0, RELATIVE: here, FROM_TABLE: table}[kind]
            value = self._address(self.symbols[symbol]) - origin
        else:
            raise Unlinked(f"a relocation of kind {kind}")
        struct.pack_into("<Q", self.memory, at, (value + addend) & 0xFFFFFFFFFFFFFFFF)
