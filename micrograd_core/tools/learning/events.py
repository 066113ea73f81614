"""Figures by step, as files that TensorBoard reads; a few lines, so that nobody has to install it to write them.

A file is a row of records (length, checksum, bytes, checksum), each an ``Event`` in protocol buffers' encoding.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path

from micrograd_core.ground.files import CannotWrite


class Events:
    """An open file of events in a folder. It is closed at the end of a ``with``."""

    def __init__(self, folder: str | Path) -> None:
        path = Path(folder) / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab")
        except OSError as error:
            raise CannotWrite(path.parent, error) from error
        self._write(_text(3, b"brain.Event:2"))

    def add(self, step: int, **figures: float) -> None:
        """The figures of a step, by name."""
        values = b"".join(
            _text(1, _text(1, name.encode()) + b"\x15" + struct.pack("<f", figure)) for name, figure in figures.items()
        )
        self._write(b"\x10" + _varint(step) + _text(5, values))

    def _write(self, event: bytes) -> None:
        event = b"\x09" + struct.pack("<d", time.time()) + event
        length = struct.pack("<Q", len(event))
        self._file.write(length + _masked(length) + event + _masked(event))
        self._file.flush()

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *raised: object) -> None:
        self._file.close()


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _text(field: int, content: bytes) -> bytes:
    """A field of bytes, or of a message."""
    return bytes([field << 3 | 2]) + _varint(len(content)) + content


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)  # Castagnoli's polynomial
    return byte


_TABLE = [_entry(byte) for byte in range(256)]


def _masked(content: bytes) -> bytes:
    """The checksum CRC-32C, turned as TFRecord wants it."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
