"""The file itself: tensors in the format of safetensors, with strings beside them. Read without believing any of it.

Eight bytes say how long the header is; the header is JSON, and says for each tensor its dtype, its shape and where its
bytes are; the bytes follow, one tensor behind the other, without gaps. Other libraries read these files. Nothing in
them is run: what is read are numbers and names.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from micrograd_core.array.tensor import Tensor
from micrograd_core.checkpoints.refusals import HEAD, CheckpointError, damaged, foreign
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES, REAL_OF, DType, complex128
from micrograd_core.engine.array import wrap
from micrograd_core.engine.ingest import read
from micrograd_core.ground import files

NAMES: Final = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16",
    "uint32": "U32", "uint64": "U64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "complex64": "C64",
}  # fmt: skip
"""What the format calls our dtypes. It has no complex128: such a tensor is one of float64, with an axis more."""
_OURS: Final = {theirs: DTYPES[ours] for ours, theirs in NAMES.items()}
MOST_HEADER: Final = 100_000_000  # bytes; the limit of safetensors itself
MOST_AXES: Final = 64
ALIGNED: Final = 8
PARTS: Final = "complex128"
"""The string that names the tensors whose last axis is real and imaginary part."""
CHECK: Final = "crc32"
_BLANK: Final = "00000000"
_AGAIN: Final = "The copy or the download was not complete; take another"


class Entry(NamedTuple):
    """One tensor of a file: its dtype and shape, and where its bytes begin."""

    dtype: DType
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        """In bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────


def write(path: Path, tensors: Mapping[str, Tensor], strings: Mapping[str, str]) -> None:
    """Write a file, whole or not at all.

    Raises
    ------
    CannotWrite
    """
    ordered = sorted(tensors, key=lambda name: -_stored(tensors[name])[0].itemsize)  # each starts at a multiple of that
    whole = [name for name in ordered if tensors[name].dtype is complex128]
    strings = {**strings, **({PARTS: json.dumps(whole)} if whole else {}), CHECK: _BLANK}
    header: dict[str, Any] = {"__metadata__": strings}
    end = 0
    for name in ordered:
        dtype, shape = _stored(tensors[name])
        start, end = end, end + math.prod(shape) * dtype.itemsize
        header[name] = {"dtype": NAMES[dtype.name], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED)
    if len(text) > MOST_HEADER:
        raise CheckpointError(
            f"cannot write {str(path)!r}: its names and metadata take {len(text):,} bytes, and the format has room for "
            f"{MOST_HEADER:,}; keep large things as tensors, or in a file of their own"
        )
    files.write({path: _pieces(_checked(text), [tensors[name] for name in ordered])})


def _stored(x: Tensor) -> tuple[DType, tuple[int, ...]]:
    return (REAL_OF[x.dtype], (*x.shape, 2)) if x.dtype is complex128 else (x.dtype, x.shape)


def _pieces(header: bytes, tensors: list[Tensor]) -> Iterator[bytes]:
    yield len(header).to_bytes(8, "little")
    yield header
    for x in tensors:  # one at a time: a host need not have room for all
        yield read(x._kernels, x._handle, x.dtype)


def _mark(checksum: str) -> bytes:
    return f'"{CHECK}":"{checksum}"'.encode()


def _checked(header: bytes) -> bytes:
    """A header that carries its own checksum."""
    before, mark, after = header.partition(_mark(_BLANK))
    return before + _mark(f"{zlib.crc32(header):08x}") + after if mark else header


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────


class Contents:
    """What is in a file: its strings, and its tensors by name, which are read when they are asked for.

    Raises
    ------
    CheckpointError
        When it is anything but a complete file in the format.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with _opened(self.path) as file:
            size = file.seek(0, 2)
            file.seek(0)
            self.header = _header(self.path, file, size)
        found = _parsed(self.path, self.header)
        strings = found.pop("__metadata__", {})
        if not (isinstance(strings, dict) and all(isinstance(each, str) for each in strings.values())):
            raise self._damaged("its metadata are not strings by name")
        self.strings: dict[str, str] = strings
        self._check()
        self.first = 8 + len(self.header)
        self.entries = self._laid_out(found, size - self.first)

    def _damaged(self, what: str) -> CheckpointError:
        return damaged(self.path, what)

    def _check(self) -> None:
        told = self.strings.get(CHECK)
        if told is not None and self.header.count(_mark(told)) == 1:
            blank = self.header.replace(_mark(told), _mark(_BLANK))
            if f"{zlib.crc32(blank):08x}" == told:
                return
        if told is not None or "micrograd" in self.strings:
            raise self._damaged("its header is not what was written")

    def _laid_out(self, found: dict[str, Any], room: int) -> dict[str, Entry]:
        """The tensors, after a look whether they fill the file exactly."""
        entries, ends = {}, []
        for name, told in found.items():
            entries[name] = entry = self._entry(name, told)
            ends.append((entry.start, entry.start + entry.size))
        at = 0
        for start, end in sorted(ends):
            if start != at:
                raise self._damaged("its tensors overlap, or there are gaps between them")
            at = end
        if at > room:
            raise CheckpointError(
                f"{str(self.path)!r} is cut off: its tensors take {at:,} bytes, and {room:,} are there. {_AGAIN}"
            )
        if at < room:
            raise self._damaged(f"{room - at:,} bytes come after its last tensor")
        return entries

    def _entry(self, name: str, told: Any) -> Entry:
        if not (isinstance(told, dict) and told.keys() == {"dtype", "shape", "data_offsets"}):
            raise self._damaged(f"what it says of the tensor {name!r} is not a dtype, a shape and a place")
        kind, shape, place = told["dtype"], told["shape"], told["data_offsets"]
        if not isinstance(kind, str) or kind not in _OURS:
            raise CheckpointError(
                f"{str(self.path)!r}: the tensor {name!r} has dtype {kind!r}, which micrograd does not have; there are "
                f"{', '.join(_OURS)}. Convert it with the library that wrote it"
            )
        if not (_counts(shape) and len(shape) <= MOST_AXES and _counts(place) and len(place) == 2):
            raise self._damaged(f"the shape or the place of the tensor {name!r} are not lists of sizes")
        entry = Entry(_OURS[kind], tuple(shape), place[0])
        if math.prod(filter(None, shape)) * entry.dtype.itemsize >= 1 << 63 or entry.size != place[1] - place[0]:
            raise self._damaged(f"the tensor {name!r} has shape {entry.shape}, and not so many bytes")
        return entry

    @property
    def tensors(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Dtype and shape of each tensor, by name."""
        parts = self._in_parts()
        return {
            name: ("complex128", x.shape[:-1]) if name in parts else (x.dtype.name, x.shape)
            for name, x in self.entries.items()
        }

    def _in_parts(self) -> frozenset[str]:
        """The names of those that are complex128."""
        named = decoded(self.path, self.strings.get(PARTS, "[]"))
        if not isinstance(named, list):
            raise self._damaged("it does not say which tensors are complex")
        known = [name for name in named if isinstance(name, str) and name in self.entries]
        return frozenset(name for name in known if self.entries[name].shape[-1:] == (2,))

    def read(self, names: list[str], device: Device) -> dict[str, Tensor]:
        """Tensors of a device with the numbers of these names.

        Raises
        ------
        CheckpointError
            When the file has become another since it was opened.
        UnsupportedDType
            When the device lacks a dtype.
        """
        parts, kernels = self._in_parts(), device.kernels
        found = {}
        with _opened(self.path) as file:
            if file.read(self.first) != len(self.header).to_bytes(8, "little") + self.header:
                raise CheckpointError(f"{str(self.path)!r} was written to since it was opened; load it again")
            for name in names:
                entry = self.entries[name]
                dtype, shape = (complex128, entry.shape[:-1]) if name in parts else (entry.dtype, entry.shape)
                file.seek(self.first + entry.start)
                data = file.read(entry.size)
                if len(data) != entry.size:
                    raise CheckpointError(f"{str(self.path)!r} became shorter since it was opened; load it again")
                found[name] = wrap(Tensor, kernels.upload(data, shape, dtype), kernels, dtype, None)
        return found


def _opened(path: Path) -> Any:
    try:
        return path.open("rb")
    except IsADirectoryError as error:
        raise CannotRead(path, "it is a folder; name a file in it") from error
    except (OSError, ValueError) as error:  # a name with a null in it
        raise CannotRead(path, error) from error


class CannotRead(CheckpointError, OSError):
    """A file is not there, or may not be read."""

    def __init__(self, path: Path, reason: Exception | str) -> None:
        said = reason if isinstance(reason, str) else getattr(reason, "strerror", None) or str(reason)
        super().__init__(f"cannot read {str(path)!r}: {said[:1].lower() + said[1:]}")


def _header(path: Path, file: Any, size: int) -> bytes:
    """The bytes of the header."""
    head = file.read(HEAD)
    if not head:
        raise CheckpointError(f"{str(path)!r} is empty: it was never written, or the disk was full. Take another copy")
    length = int.from_bytes(head[:8], "little")
    if head[8:9] != b"{" and (len(head) > 8 or _begins_otherwise(head)):
        raise foreign(path, head)
    if length > MOST_HEADER:
        raise CheckpointError(
            f"{str(path)!r} says that its header takes {length:,} bytes; in a safetensors file it takes at most "
            f"{MOST_HEADER:,}. It is damaged, or no checkpoint"
        )
    if length > size - 8:
        raise CheckpointError(
            f"{str(path)!r} is cut off: its header takes {length:,} bytes, and {max(size - 8, 0):,} are there. {_AGAIN}"
        )
    file.seek(8)
    header: bytes = file.read(length)
    return header


def _begins_otherwise(head: bytes) -> bool:
    """Whether less than nine bytes cannot be the length of a header, or a part of it."""
    return len(head) > 2 and 0 not in head


def _counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(each) is int and 0 <= each < 1 << 63 for each in values)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def decoded(path: Path, text: str | bytes) -> Any:
    """JSON from a file."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"what it says of itself is not JSON ({error})") from error


def _parsed(path: Path, header: bytes) -> dict[str, Any]:
    found = decoded(path, header)
    if not isinstance(found, dict):
        raise damaged(path, "its header is not a table")
    return found
