"""Build all distributions as package indices show them: with the repository's address, and absolute links in READMEs.

::

    python docs/release.py [--address https://host/owner/name] [--out-dir dist]

The sources name no address, and what is built from them as they are carries the classifier "Private :: Do Not Upload",
which indices refuse. This builds from a copy. By default the address is that of git's remote `origin`; links to files
are written as GitHub and GitLab read them.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"^```.*?^```$|(?<=\]\()(?![a-z]+:|#)([^)#\s]+)", re.M | re.S)
_PRIVATE = re.compile(r'^ *"Private :: Do Not Upload",.*\n', re.M)
_REMOTE = re.compile(r"(?:\w+://)?(?:[^@/]+@)?([\w.-]+\.\w+)(?::\d+)?[:/](.+?)(?:\.git)?/?$")


def remote() -> str:
    """What git knows as `origin`; nothing where it knows none, or there is no git."""
    try:
        command = ["git", "config", "remote.origin.url"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""


def address_of(origin: str) -> str:
    """The address of a git remote for browsers, without the name or the token that it may hold.

    Raises
    ------
    ValueError
        When the remote is none on another machine.

    Examples
    --------
    >>> address_of("git@host.org:owner/name.git")
    'https://host.org/owner/name'
    """
    found = _REMOTE.match(origin.strip())
    if not found:
        raise ValueError(
            f"no address: git's remote origin is {origin.strip()!r}; give one: --address https://host/owner/name"
        )
    return "https://{}/{}".format(*found.groups())


def copy(folder: Path) -> None:
    """Copy what is uploaded into a folder: not what git ignores, and not the plugin that is broken on purpose."""
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text("utf8").split()]
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", "faulty", *ignored), dirs_exist_ok=True)


def address(folder: Path, where: str) -> None:
    """Write an address into a copy of the repository: `project.urls`, and the links of each README.

    Raises
    ------
    FileNotFoundError
        When a README links to a file that is not in the repository.
    """
    where = where.rstrip("/")
    for each in (path.parent for path in (folder / "pyproject.toml", *folder.glob("*/*/pyproject.toml"))):

        def absolute(link: re.Match[str], of: Path = each) -> str:
            if not link[1]:
                return link[0]  # a block of code
            path = posixpath.normpath(posixpath.join(of.relative_to(folder).as_posix(), link[1]))
            if not (folder / path).exists():
                raise FileNotFoundError(
                    f"{of.relative_to(folder) / 'README.md'} links to {link[1]!r}, which does not exist"
                )
            return f"{where}/blob/HEAD/{path}"

        readme, project = each / "README.md", each / "pyproject.toml"
        readme.write_text(_LINK.sub(absolute, readme.read_text("utf8")), "utf8")
        files = {"Documentation": "README.md", "Changelog": "CHANGELOG.md", "Security": "SECURITY.md"}
        urls = {"Repository": where, **{name: f"{where}/blob/HEAD/{path}" for name, path in files.items()}}
        table = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
        project.write_text(f"{_PRIVATE.sub('', project.read_text('utf8'))}\n[project.urls]\n{table}", "utf8")


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--address", help="where the repository is read; by default git's remote origin")
    parser.add_argument("--out-dir", type=Path, default=ROOT / "dist")
    options = parser.parse_args(arguments)
    try:
        where = options.address or address_of(remote())
    except ValueError as error:
        sys.exit(str(error))
    with tempfile.TemporaryDirectory() as temporary:
        copy(Path(temporary))
        address(Path(temporary), where)
        build = ["uv", "build", "--quiet", "--all-packages", "--out-dir", str(options.out_dir.resolve())]
        subprocess.run(build, cwd=temporary, check=True)


if __name__ == "__main__":
    main()
