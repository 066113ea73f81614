"""``micrograd new-backend NAME``: a ready package for a backend, from the files in ``template/``.

The package passes the conformance suite as it is: a backend over NumPy, in the files that every backend has. The
author replaces them one at a time, with the suite green in between.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from shutil import rmtree
from typing import Final

from micrograd_core import __version__
from micrograd_core.errors import PROVIDERS, MicrogradError
from micrograd_core.support import files

TEMPLATE: Final = Path(__file__).parent / "template"
"""Files by where they go in the new package, each with ``.txt`` at its end and NAME for the device's name."""


class ScaffoldError(MicrogradError, ValueError):
    """The package cannot be written."""


def new_backend(name: str, folder: str | Path = ".") -> Path:
    """Write the package ``micrograd-NAME`` into a new folder of that name.

    Parameters
    ----------
    name : str
        The device's name: lower-case letters, digits and underscores, starting with a letter.
    folder : path
        Where the package's own folder is made.

    Returns
    -------
    Path
        Of the package's folder.

    Raises
    ------
    CannotWrite
        When the folder cannot be written; then none is left.
    ScaffoldError
        When the name is no identifier, or taken, or the folder exists. Nothing is overwritten.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ScaffoldError(
            f"{name!r} cannot be a device name; use lower-case letters, digits and _, starting with a letter"
        )
    if name in PROVIDERS:
        raise ScaffoldError(f"{name!r} is the name that {PROVIDERS[name]} answers to; choose another")
    target = Path(folder) / f"micrograd-{name.replace('_', '-')}"
    if target.exists():
        raise ScaffoldError(f"{target} exists already; choose another name or folder")
    words = {"DISTRIBUTION": target.name, "VERSION": __version__, "BREAKING": _breaking(__version__), "NAME": name}
    words["YEAR"] = str(date.today().year)
    contents = {target / f"micrograd_{name}" / "py.typed": b""}
    for source in sorted(TEMPLATE.rglob("*.txt")):
        text = source.read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        place = str(source.relative_to(TEMPLATE)).removesuffix(".txt").replace("NAME", name)
        contents[target / place] = text.encode()
    try:
        files.check(*contents)
        files.write(contents)
    except files.CannotWrite:
        rmtree(target, ignore_errors=True)  # or it would exist already, when tried again
        raise
    return target


def _breaking(version: str) -> str:
    """The first version that may have another protocol: before 1.0 the minor number tells, then the major one.

    >>> _breaking("0.1.0"), _breaking("1.4.2")
    ('0.2', '2')
    """
    major, minor, *_ = map(int, version.split("."))
    return f"{major + 1}" if major else f"0.{minor + 1}"
