"""The cache of compiled code takes nothing that others can have written, and deletes nothing that is not its own."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from micrograd_core.support import code_cache

KEY = hashlib.sha256(b"a program").hexdigest()
MINE, PLANTED = b"my code", b"planted code"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that has code under `KEY`."""
    monkeypatch.setenv("MICROGRAD_CACHE", str(tmp_path / "kept"))
    code_cache.write(KEY, MINE)
    assert code_cache.read(KEY) == MINE
    return tmp_path / "kept"


def plant(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another folder with other code under the same key, as whoever knows the key can write it."""
    with monkeypatch.context() as patch:
        patch.setenv("MICROGRAD_CACHE", str(place))
        code_cache.write(KEY, PLANTED)
        assert code_cache.read(KEY) == PLANTED
    place.chmod(0o777)


@pytest.mark.parametrize("swapped", ["folder", "file"])
@pytest.mark.parametrize("after", [1, 2])
def test_what_takes_the_place_of_what_was_checked_is_not_read(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, swapped: str
) -> None:
    plant(tmp_path / "planted", monkeypatch)
    (mine,), (theirs,) = kept.iterdir(), (tmp_path / "planted").iterdir()
    theirs.chmod(0o666)
    place, planted = (kept, tmp_path / "planted") if swapped == "folder" else (mine, theirs)
    checks = list[int]()

    def swapping(check: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*args: Any, **settings: Any) -> Any:
            found = check(*args, **settings)
            checks.append(1)
            if len(checks) == after:
                place.rename(tmp_path / "aside")
                planted.rename(place)
            return found

        return checked

    with monkeypatch.context() as patch:
        for name in ("stat", "fstat"):
            patch.setattr(os, name, swapping(getattr(os, name)))
        found = code_cache.read(KEY)
    assert len(checks) >= after
    assert found in (MINE, None)


@pytest.mark.parametrize("linked", ["folder", "file"])
def test_a_link_is_not_followed(kept: Path, tmp_path: Path, linked: str) -> None:
    (file,) = kept.iterdir()
    place = kept if linked == "folder" else file
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    assert code_cache.read(KEY) is None


def test_what_another_user_owns_is_not_read(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    monkeypatch.setattr(os, "getuid", lambda: other)
    assert code_cache.read(KEY) is None


@pytest.mark.parametrize("settings", [{}, {"XDG_CACHE_HOME": "cache"}, {"MICROGRAD_CACHE": "build"}])
def test_a_relative_path_is_no_place_for_code(
    settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be another folder wherever a process starts, and whoever owns that folder could plant code."""
    monkeypatch.chdir(tmp_path)
    for name in ("MICROGRAD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as it is without HOME and an entry in passwd
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert code_cache.folder() is None
    code_cache.write(KEY, MINE)
    assert code_cache.read(KEY) is None
    assert not [*tmp_path.iterdir()]


def test_where_folders_have_no_descriptors_nothing_is_kept(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "supports_dir_fd", set())
    assert code_cache.folder() is None
    assert code_cache.read(KEY) is None


def test_only_what_the_library_wrote_is_deleted(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = [kept / name for name in ("main.o", "notes.txt", f"{KEY}.obj", "tmpx.part")]
    for path in theirs:
        path.write_bytes(bytes(1000))
        os.utime(path, (1, 1))
    (kept / "folder").mkdir()
    (left,) = [path for path in kept.iterdir() if path.is_file() and path not in theirs]
    interrupted = left.with_name(f"{left.stem}.0123456789abcdef.part")  # by a process that was killed as it wrote
    interrupted.write_bytes(b"")
    for path in (left, interrupted):
        os.utime(path, (2, 2))
    monkeypatch.setattr(code_cache, "LIMIT", 100)
    code_cache.write(hashlib.sha256(b"another").hexdigest(), bytes(40))
    assert all(path.exists() for path in theirs)
    assert not left.exists()
    assert not interrupted.exists()


def test_a_folder_that_is_read_only_is_used(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **settings: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert code_cache.read(KEY) == MINE


@pytest.mark.parametrize("maker", ["micrograd_core.support.code_cache.__version__", "sys.version"])
def test_code_of_another_version_of_the_library_or_of_python_is_not_taken(
    kept: Path, maker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maker, "0.0.9")
    assert code_cache.read(KEY) is None


def test_nobody_else_may_look_into_the_folder(kept: Path) -> None:
    (file,) = kept.iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("maker", ["numpy.__version__", "micrograd_cpu.objects.__version__"])
def test_code_of_another_version_of_the_backend_or_of_numpy_is_not_taken(
    maker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from micrograd_cpu import objects

    objects._versions.cache_clear()
    before = objects._key("")
    monkeypatch.setattr(maker, "0.0.9")
    objects._versions.cache_clear()
    assert objects._key("") != before
    objects._versions.cache_clear()


def test_code_of_another_llvmlite_is_not_taken_though_its_library_looks_the_same(tmp_path: Path) -> None:
    """Packages that are built reproducibly have one and the same time on all files."""
    package = tmp_path / "llvmlite"
    (package / "binding").mkdir(parents=True)
    keys = set()
    for version in ("0.50.0", "0.50.1"):
        (package / "__init__.py").write_text("")
        (package / "_version.py").write_text(f"version_version = '{version}'\n")
        (package / "binding" / "libllvmlite.so").write_bytes(b"the library")
        os.utime(package / "binding" / "libllvmlite.so", (1, 1))
        program = "from micrograd_cpu import objects; print(objects._key(''))"
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "MICROGRAD_CPU_TARGET": "native"}
        keys.add(
            subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True).stdout
        )
    assert len(keys) == 2
