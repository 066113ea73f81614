"""What the messages of an Arrow file declare, before pyarrow unpacks one.

A message is a flatbuffer, which says where in its body the buffers of a batch are; a compressed buffer begins with the
length that it unpacks to: https://arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow.ipc as ipc


def messages(file: Any, is_file: bool) -> Iterator[Any]:
    """The messages of a stream; of a file, those that its footer names, as these are what is read."""
    file.seek(0)
    if not is_file:
        yield from ipc.MessageReader.open_stream(file)
        return
    file.seek(file.size() - 10)
    size = _number("<i", file.read(4), 0)
    file.seek(file.size() - 10 - size)
    footer = file.read(size)
    for index in (2, 3):  # dictionaries, batches
        for offset, *_ in struct.iter_unpack("<qi4xq", _vector(footer, _field(footer, _target(footer, 0), index), 24)):
            file.seek(offset)
            yield ipc.read_message(file)


def declared(message: Any) -> int:
    """Bytes that the buffers of a message unpack to, which pyarrow allocates for them."""
    if message.type not in ("record batch", "dictionary"):
        return 0
    raw, body, total = message.metadata, message.body, 0
    batch = _target(raw, _field(raw, _target(raw, 0), 2))
    if message.type == "dictionary":
        batch = _target(raw, _field(raw, batch, 1))
    compressed = _field(raw, batch, 3)
    for offset, length in struct.iter_unpack("<qq", _vector(raw, _field(raw, batch, 2), 16)):
        unpacked = _number("<q", body, offset) if compressed and length else -1  # -1: it is not compressed
        total += length if unpacked == -1 else unpacked
    return total


# ── flatbuffers ──────────────────────────────────────────────────────────────────────────────────────────────


def _number(kind: str, raw: Any, at: int) -> int:
    return int(struct.unpack_from(kind, raw, at)[0])


def _target(raw: Any, at: int) -> int:
    """Where what is referred to at a place begins."""
    return at + _number("<I", raw, at)


def _field(raw: Any, table: int, index: int) -> int:
    """Where a field of a table is; 0 of one that the table lacks."""
    fields, entry = table - _number("<i", raw, table), 4 + 2 * index
    offset = _number("<H", raw, fields + entry) if entry < _number("<H", raw, fields) else 0
    return table + offset if offset else 0


def _vector(raw: Any, at: int, width: int) -> bytes:
    """The elements of the vector that a field refers to, of `width` bytes each; none where the field is missing."""
    if not at:
        return b""
    start = _target(raw, at)
    return bytes(raw[start + 4 : start + 4 + width * _number("<I", raw, start)])
