"""What a file is that is no checkpoint, and how to make one of it: told by its first bytes, none of which is run."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from micrograd_core.errors import MicrogradError
from micrograd_core.support.escaping import printable


class CheckpointError(MicrogradError, ValueError):
    """A file is no checkpoint, is damaged, or does not hold what was asked for. Nothing was loaded.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> try:
    ...     mg.checkpoints.load("missing.safetensors")
    ... except mg.checkpoints.CheckpointError as error:
    ...     print(type(error).__name__)
    CannotRead
    """


class CannotRead(CheckpointError, OSError):
    """A file is not there, or may not be read."""

    def __init__(self, path: Path, reason: Exception | str) -> None:
        said = reason if isinstance(reason, str) else getattr(reason, "strerror", None) or str(reason)
        super().__init__(f"cannot read {str(path)!r}: {said[:1].lower() + said[1:]}")


_CONVERT = "safetensors.torch.save_file(torch.load(path, weights_only=True), new), and load the new one"

_KINDS: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"PK\x03\x04", "a zip archive, such as torch.save and numpy.savez write",
     f"Of a file of torch: {_CONVERT}. Of an .npz: model.load_state_dict(dict(numpy.load(path)))"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, such as Keras writes",
     "Read it with h5py, and give its arrays to model.load_state_dict"),
    (0, b"\x93NUMPY", "one array of NumPy", "Read it with numpy.load"),
    (0, b"\x1f\x8b", "compressed by gzip", "Unpack it first: gunzip"),
    (0, b"GGUF", "a GGUF file of llama.cpp", "Convert it to safetensors first"),
    (0, b"PAR1", "a table in Parquet", "It is data to train on, not a model"),
    (0, b"ARROW1", "a table in Arrow", "It is data to train on, not a model"),
    (0, b"\x89PNG", "a picture", "Name the checkpoint, which ends in .safetensors"),
    (0, b"%PDF", "a PDF", "Name the checkpoint, which ends in .safetensors"),
    (257, b"ustar", "a tar archive, such as old versions of torch.save wrote", f"Of a file of torch: {_CONVERT}"),
    *((0, b"\x80" + bytes([protocol]),
       "a pickle, such as pickle.dump and old versions of torch.save wrote: to open it may run any program, so that "
       "micrograd does not",
       f"If you trust it, and it is torch's: {_CONVERT}") for protocol in range(2, 6)),
)  # fmt: skip
"""Where in a file which bytes are, what it is then, and what to type."""


def damaged(path: str | Path, what: str) -> CheckpointError:
    """The error for a file that contradicts itself."""
    return CheckpointError(f"{str(path)!r} is damaged: {printable(what)}. Take another copy, or save it anew")


@contextmanager
def read_with_care(path: str | Path) -> Iterator[None]:
    """Whatever goes wrong inside comes of what the file says, which may be anything."""
    try:
        yield
    except MicrogradError:
        raise
    except Exception as error:
        raise damaged(path, f"what it says of itself makes no sense ({type(error).__name__}: {error})") from error


def refuse_foreign(path: Path, file: Any) -> None:
    """Say what a file is that does not begin as one of safetensors: with the length of a header, and the header.

    Parameters
    ----------
    path : Path
        Its name, for the error.
    file : binary file
        At its beginning.

    Raises
    ------
    CheckpointError
    """
    head = file.read(512)
    if not head:
        raise CheckpointError(f"{str(path)!r} is empty: it was never written, or the disk was full. Take another copy")
    if head[8:9] == b"{" or len(head) < 3 or (len(head) < 9 and 0 in head):  # those that are short may be cut off
        return
    kinds = [each for place, mark, *each in _KINDS if head.startswith(mark, place)]
    if head[:1] == b"\x08" and head[2:3] == b"\x12":  # protocol buffers: the version of the format, then who made it
        kinds.append(["seems to be an ONNX file", "Read it with micrograd_models.from_onnx"])
    if _is_text(head):
        kinds.append(["text", "Name the checkpoint, which ends in .safetensors"])
    if kinds:
        raise CheckpointError(f"{str(path)!r} is no checkpoint but {'. '.join(kinds[0])}")
    raise CheckpointError(
        f"{str(path)!r} is no checkpoint: it does not begin as a safetensors file does. It may be damaged; name "
        "another file, or save it anew with micrograd_core.checkpoints.save"
    )


def _is_text(head: bytes) -> bool:
    try:
        text = getincrementaldecoder("utf-8")().decode(head)  # which may end within a letter
    except UnicodeDecodeError:
        return False
    return all(each.isprintable() or each.isspace() for each in text)
