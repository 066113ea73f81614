"""``micrograd new-backend NAME``: a ready package for a backend, from the files in ``template/``.

What it writes passes the conformance suite as it is: a backend over NumPy, in the rooms that every backend has. The
author replaces what is in them, one at a time, with the suite green in between.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from micrograd_core import __version__
from micrograd_core.errors import MicrogradError

PLACES = {
    "pyproject.toml.txt": "pyproject.toml",
    "README.md.txt": "README.md",
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
    ScaffoldError
        When the name is no identifier, or the folder exists. Nothing is overwritten.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ScaffoldError(
            f"{name!r} cannot be a device name; use lower-case letters, digits and _, starting with a letter"
        )
    target = Path(folder) / f"micrograd-{name.replace('_', '-')}"
    if target.exists():
        raise ScaffoldError(f"{target} exists already; choose another name or folder")
    template = files("micrograd_core") / "template"
    for source, place in PLACES.items():
        path = target / place.replace("NAME", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (template / source).read_text(encoding="utf-8")
        text = text.replace("DISTRIBUTION", target.name).replace("VERSION", __version__).replace("NAME", name)
        path.write_text(text, encoding="utf-8")
    (target / f"micrograd_{name}" / "py.typed").touch()
    return target
