"""The file itself: tensors and JSON in the format of safetensors, which the package of that name reads and checks.

What is here: tensors that go to the disk, and come from it, one by one, so that none but one is in memory twice (the
package wants all of them at once, and gives the file as a whole); a dtype that the format lacks; and a checksum of what
a file says of itself. Nothing in a file is run: what is read are numbers and names.
"""

from __future__ import annotations

import itertools
import json
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from micrograd_core.array.tensor import Tensor
from micrograd_core.checkpoints.refusals import CannotRead, CheckpointError, damaged, read_with_care, refuse_foreign
from micrograd_core.device import Device, default_device
from micrograd_core.dtypes import DTYPES, complex128
from micrograd_core.engine.array import wrap
from micrograd_core.engine.ingest import read
from micrograd_core.errors import MissingExtra
from micrograd_core.layout import MAX_DIMENSIONS
from micrograd_core.support import files
from micrograd_core.support.escaping import printable

_OURS: Final = {
    "BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8", "U16": "uint16",
    "U32": "uint32", "U64": "uint64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64",
}  # fmt: skip
"""Our dtypes by their names in the format. It has no complex128: such a tensor is one of float64, with an axis more."""
_THEIRS: Final = {ours: theirs for theirs, ours in _OURS.items()} | {"complex128": "F64"}
LIMIT: Final = 100_000_000
"""Bytes of a header that readers take."""
STRING: Final = "micrograd"
"""The only string of ours, which is JSON: several would come in any order, and equal runs would not be equal files."""
PARTS: Final = "complex128"
"""Where the JSON names the tensors whose last axis is real and imaginary part."""
CHECK: Final = "micrograd-crc32"
Listing = dict[str, tuple[str, tuple[int, ...]]]
"""Dtype and shape of each tensor, by name."""


def _sealed(text: str, tensors: Listing) -> str:
    """The JSON of a dict, with a checksum of it and of the tensors at its end."""
    checksum = zlib.crc32((text + json.dumps(sorted(tensors.items()))).encode())
    return f'{text[:-1]}, "{CHECK}": "{checksum:08x}"}}'


def write(path: Path, tensors: Mapping[str, Tensor], told: Mapping[str, Any]) -> None:
    """Write a file, whole or not at all; `told` is JSON.

    Raises
    ------
    CannotWrite
    CheckpointError
        When the format has no room for the names and the JSON.
    """
    parts = [name for name, x in tensors.items() if x.dtype is complex128]
    text = json.dumps({**told, PARTS: parts})
    sealed = _sealed(text, {name: (x.dtype.name, x.shape) for name, x in tensors.items()})
    # the largest elements first, so that each lies where its size divides its place; then by name
    ordered = dict(sorted(tensors.items(), key=lambda each: (-min(each[1].dtype.itemsize, 8), each[0])))
    try:
        head = _header(ordered, {STRING: sealed})
    except ValueError as error:
        raise CheckpointError(
            f"cannot write {str(path)!r}: {error}. Names are text, and take at most 100 MB with the metadata; keep "
            "large things as tensors, or in a file of their own"
        ) from error
    bodies = (read(x._kernels, x._handle, x.dtype) for x in ordered.values())
    files.write({path: itertools.chain([head], bodies)})


def _header(tensors: Mapping[str, Tensor], strings: Mapping[str, str]) -> bytes:
    """The length of the JSON that says where each tensor lies, and that.

    Raises
    ------
    ValueError
        For names that are no text, and too many.
    """
    entries: dict[str, Any] = {"__metadata__": strings}
    at = 0
    for name, x in tensors.items():
        if name in entries:
            raise ValueError("no tensor can be called __metadata__")
        end = at + x.size * x.dtype.itemsize
        shape = [*x.shape, 2] if x.dtype is complex128 else x.shape
        entries[name] = {"dtype": _THEIRS[x.dtype.name], "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LIMIT:
        raise ValueError(f"header too large: {len(text):,} bytes")
    return len(text).to_bytes(8, "little") + text


class Contents:
    """What is in a file: what it tells, and its tensors by name, which are read when they are asked for.

    Raises
    ------
    CheckpointError
        When it is anything but a complete file in the format.
    MissingExtra
        When the package safetensors is not installed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with _opened(self.path) as file:
            refuse_foreign(self.path, file)
        self.told: dict[str, Any] = {}
        self.tensors: Listing = {}
        self._starts: dict[str, int] = {}
        try:
            import safetensors

            with safetensors.safe_open(self.path, "numpy") as opened:  # which imports NumPy
                self._take(opened)
        except ImportError as error:
            raise MissingExtra("micrograd_core.checkpoints", error.name or "safetensors", "checkpoints") from error
        except safetensors.SafetensorError as error:
            raise CheckpointError(
                f"{str(self.path)!r} is damaged or cut off: {printable(error)}. Take another copy, or save it anew"
            ) from error
        with _opened(self.path) as file:
            length = file.read(8)
            self._header: bytes = length + file.read(int.from_bytes(length, "little"))

    def _take(self, opened: Any) -> None:
        strings = opened.metadata() or {}
        text = strings.get(STRING, "{}")
        with read_with_care(self.path):
            self.told = json.loads(text)
            parts = frozenset(self.told.get(PARTS, []))
        at = 0
        for name in opened.offset_keys():  # in the order of their bytes, between which there are no gaps
            told = opened.get_slice(name)
            kind, shape = told.get_dtype(), tuple(told.get_shape())
            if kind not in _OURS:
                raise CheckpointError(
                    f"{str(self.path)!r}: the tensor {name!r} has dtype {kind!r}, which micrograd does not have; there "
                    f"are {', '.join(_OURS)}. Convert it with the library that wrote it"
                )
            if len(shape) > MAX_DIMENSIONS or math.prod(filter(None, shape)) >= 1 << 59:  # of up to 16 bytes each
                raise damaged(self.path, f"the tensor {name!r} has a shape that none can have: {shape}")
            is_complex = kind == "F64" and shape[-1:] == (2,) and name in parts
            self.tensors[name] = ("complex128", shape[:-1]) if is_complex else (_OURS[kind], shape)
            self._starts[name] = at
            at += self._size(name)
        whole = _sealed(text.rpartition(f', "{CHECK}"')[0] + "}", self.tensors)
        if text != whole and any(name == STRING or CHECK in each for name, each in strings.items()):
            raise damaged(self.path, "its header is not what was written")

    def _size(self, name: str) -> int:
        """The bytes of a tensor."""
        dtype, shape = self.tensors[name]
        return math.prod(shape) * DTYPES[dtype].itemsize

    def read(self, names: list[str], device: str | Device | None) -> dict[str, Tensor]:
        """Tensors of a device with the numbers of these names.

        Raises
        ------
        CheckpointError
            When the file has become another since it was opened.
        UnsupportedDType
            When the device lacks a dtype.
        """
        kernels, found = (default_device() if device is None else Device(device)).kernels, {}
        with _opened(self.path) as file:
            same = file.read(len(self._header)) == self._header
            for name in names:
                file.seek(len(self._header) + self._starts[name])
                data = file.read(self._size(name)) if same else b""
                if not same or len(data) != self._size(name):
                    raise CheckpointError(f"{str(self.path)!r} was written to since it was opened; load it again")
                dtype, shape = DTYPES[self.tensors[name][0]], self.tensors[name][1]
                found[name] = wrap(Tensor, kernels.upload(data, shape, dtype), kernels, dtype, None)
        return found


def _opened(path: Path) -> Any:
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:  # a name with a null in it
        folder = isinstance(error, IsADirectoryError)
        raise CannotRead(path, "it is a folder; name a file in it" if folder else error) from error
