"""What package indices show: an address and absolute links, where one is given; in the sources, neither."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

import release

ROOT = release.ROOT
WHERE = "https://host.example/owner/name"


@pytest.mark.parametrize(
    "remote",
    [
        "https://host.example/owner/name.git\n",
        "https://host.example/owner/name/",
        "https://someone:secret@host.example/owner/name.git",
        "ssh://git@host.example:2222/owner/name.git",
        "git@host.example:owner/name.git",
    ],
)
def test_a_remote_gives_the_address_for_browsers(remote: str) -> None:
    assert release.address_of(remote) == WHERE


@pytest.mark.parametrize("remote", ["", "/srv/name", "../name.git", "file:///srv/name.git", "C:/name"])
def test_a_remote_on_this_machine_gives_none(remote: str) -> None:
    with pytest.raises(ValueError, match="no address: .*--address https://host/owner/name"):
        release.address_of(remote)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What is uploaded."""
    release.copy(tmp_path)
    return tmp_path


def test_every_distribution_gets_an_address_and_absolute_links(copy: Path) -> None:
    release.address(copy, WHERE + "/")
    folders = [each.parent for each in copy.glob("**/pyproject.toml")]
    sources = [
        *ROOT.glob("pyproject.toml"),
        *ROOT.glob("backends/*/pyproject.toml"),
        *ROOT.glob("plugins/*/pyproject.toml"),
    ]
    assert len(folders) == len(sources) - 1  # without `micrograd-faulty`
    links = 0
    for folder in folders:
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf8"))["project"]
        assert project["urls"]["Repository"] == WHERE
        assert not [each for each in project["classifiers"] if each.startswith("Private")]
        for link in re.findall(r"\]\(([^)#]*)", (folder / "README.md").read_text("utf8")):
            assert link.startswith("https://") or not link
            if link.startswith(WHERE):
                assert (copy / link.removeprefix(f"{WHERE}/blob/HEAD/")).exists()
                links += 1
    assert links > 30


def test_a_link_that_leads_nowhere_is_refused(copy: Path) -> None:
    (copy / "README.md").write_text("[gone](docs/gone.md)", "utf8")
    with pytest.raises(FileNotFoundError, match=r"README\.md links to 'docs/gone\.md'"):
        release.address(copy, WHERE)
