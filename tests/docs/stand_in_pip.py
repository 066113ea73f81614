"""Stands in for ``pip install`` where there is no network: packages on disk become importable, others must be here.

``python stand_in_pip.py SITE install [-q] [-e] WHAT…`` gives each folder a place in `SITE`, with the metadata by which
its entry points are found.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path


def install(what: str, site: Path) -> None:
    """A folder, or a requirement that has to be met already, extras included."""
    name, _, extras = what.partition("[")
    if (Path(name) / "pyproject.toml").exists():
        install_folder(Path(name), site)
        return
    offered = metadata.metadata(re.split(r"[<>=]", name)[0]).get_all("Provides-Extra") or []
    for extra in filter(None, extras.rstrip("]").split(",")):
        assert extra in offered, f"{name} offers the extras {offered}, not {extra}"


def install_folder(folder: Path, site: Path) -> None:
    """Its packages by link, as with ``-e``."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    module = project["name"].replace("-", "_")
    found = next(each for each in (folder / module, folder / f"{module}.py") if each.exists())
    place = site / found.name
    if not place.is_symlink():
        place.symlink_to(found.resolve())


if __name__ == "__main__":
    assert sys.argv[2] == "install", sys.argv
    for argument in sys.argv[3:]:
        if not argument.startswith("-"):
            install(argument, Path(sys.argv[1]))
