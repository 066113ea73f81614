"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from micrograd_core.errors import MicrogradError


class CannotWrite(MicrogradError, OSError):
    """A file cannot be written. What was there before is as it was."""

    def __init__(self, path: str | Path, reason: OSError | str) -> None:
        said = reason if isinstance(reason, str) else reason.strerror or str(reason)
        super().__init__(
            f"cannot write {str(path)!r}: {said[:1].lower() + said[1:]}. Nothing there was changed; "
            "mend that, or name another place"
        )


def check(*paths: Path) -> None:
    """Say before the work, rather than after it, that files cannot be written; their folder is made if there is none.

    Raises
    ------
    CannotWrite
    """
    for path in paths:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise CannotWrite(path.parent, "it is not a folder") from error
        except OSError as error:
            raise CannotWrite(path.parent, error) from error
        if path.is_dir():
            raise CannotWrite(path, "it is a folder")
        if not os.access(path if _is_special(path) else path.parent, os.W_OK):
            raise CannotWrite(path, "permission denied")


def write(contents: Mapping[Path, bytes | Iterable[bytes]]) -> None:
    """Write files, given whole or piece by piece, so that all of them change or none.

    Each is written beside its place first, and takes the place when all are complete and on the disk. What is no
    regular file, such as ``/dev/stdout``, is written directly: nothing can take its place.

    Raises
    ------
    CannotWrite
        When the disk is full, and the like.
    """
    complete: dict[Path, Path] = {}
    path = Path()
    try:
        for path, content in contents.items():
            place = Path(os.path.realpath(path))  # a link stays one
            pieces = (content,) if isinstance(content, bytes) else content
            if _is_special(place):
                with place.open("wb") as file:
                    file.writelines(pieces)
                continue
            part = place.with_name(f".{os.urandom(8).hex()}.part")
            complete[part] = place
            with part.open("wb") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())  # some file systems find out only here that the disk is full
            if place.exists():
                part.chmod(place.stat().st_mode & 0o7777)
        for part, place in complete.items():
            part.replace(place)
        for folder in {place.parent for place in complete.values()}:
            _settle(folder)
    except OSError as error:
        raise CannotWrite(path, error) from error
    finally:
        for part in complete:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _settle(folder: Path) -> None:
    """Wait until the names in a folder are on the disk: a file that has taken its place stays there if power fails."""
    with suppress(OSError):  # some systems do not open folders; the files themselves are there
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()
