"""Makes a checkout importable, entry points and all, where nothing can be installed: ``python links.py FOLDER``.

Writes into the folder what an editable installation writes: metadata of each distribution, and where its code is. What
it prints goes into PYTHONPATH. Folders of distributions named after that are left out: ``python links.py FOLDER cuda``.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def link(folder: Path, left_out: Collection[str] = ()) -> list[Path]:
    """The folders to import from. The plugin that is broken on purpose is never among them."""
    places = [folder]
    for path in sorted([ROOT / "pyproject.toml", *ROOT.glob("*/*/pyproject.toml")]):
        if path.parent.name in ("faulty", *left_out):
            continue
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        name, version = project["name"], project["version"]
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
        groups = {**project.get("entry-points", {}), "console_scripts": project.get("scripts", {})}
        lines = [
            line
            for group, found in groups.items()
            for line in (f"[{group}]", *(f"{k} = {v}" for k, v in found.items()))
        ]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        places.append(path.parent)
    return places


if __name__ == "__main__":
    print(":".join(map(str, link(Path(sys.argv[1]).resolve(), sys.argv[2:]))))
