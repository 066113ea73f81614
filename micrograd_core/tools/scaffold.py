"""``micrograd new-backend NAME``: a ready package for a backend, from the files in ``template/``.

What it writes passes the conformance suite as it is: a backend over NumPy, in the rooms that every backend has. The
author replaces what is in them, one at a time, with the suite green in between.
"""

from __future__ import annotations

import re
from datetime import date
from importlib.resources import files as resources
from pathlib import Path
from shutil import rmtree

from micrograd_core import __version__
from micrograd_core.errors import PROVIDERS, MicrogradError
from micrograd_core.ground import files

PLACES = {
    "pyproject.toml.txt": "pyproject.toml",
    "README.md.txt": "README.md",
    "LICENSE.txt": "LICENSE",
    "plugin.py.txt": "micrograd_NAME/plugin.py",
    "storage.py.txt": "micrograd_NAME/storage.py",
    "transfer.py.txt": "micrograd_NAME/transfer.py",
    "kernels.py.txt": "micrograd_NAME/kernels.py",
    "init.py.txt": "micrograd_NAME/__init__.py",
    "test.py.txt": "tests/test_conformance.py",
}
"""Template file → where it goes in the new package."""


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
    template = resources("micrograd_core.tools") / "template"
    words = {"DISTRIBUTION": target.name, "VERSION": __version__, "BREAKING": _breaking(__version__), "NAME": name}
    words["YEAR"] = str(date.today().year)
    contents = {target / f"micrograd_{name}" / "py.typed": b""}
    for source, place in PLACES.items():
        text = (template / source).read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        contents[target / place.replace("NAME", name)] = text.encode()
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
