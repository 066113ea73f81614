"""Built-in sets, parts to train and to test on, folders of images."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from micrograd_core.data import DataError
from micrograd_train import images, sets, split
from micrograd_train.dataset import Dataset

# ── sets ─────────────────────────────────────────────────────────────────────────────────────────────────────

EXPECTED = {
    "digits": ((1797, 1, 8, 8), 10), "iris": ((150, 4), 3), "wine": ((178, 13), 3), "breast_cancer": ((569, 30), 2),
    "diabetes": ((442, 10), 0), "moons": ((1000, 2), 2), "circles": ((1000, 2), 2), "spirals": ((1000, 2), 3),
    "reverse": ((2000, 10), 10), "copy": ((2000, 10), 10), "addition": ((5000, 6), 13), "characters": (None, None),
}  # fmt: skip


def test_all_are_known() -> None:
    assert set(EXPECTED) == set(sets.NAMES)


@pytest.mark.parametrize("name", sets.NAMES)
def test_a_set_is_what_it_says(name: str) -> None:
    found = sets.load(name)
    shape, classes = EXPECTED[name]
    assert found.x.shape == (shape or found.x.shape) == (len(found), *found.shape)
    assert len(found.classes) == (len(found.classes) if classes is None else classes)
    assert len(found.names) == math.prod(found.shape)
    assert found.task == ("sequence" if len(found.y.shape) == 2 else "classification" if classes else "regression")
    assert found.x.dtype == (np.int64 if found.task == "sequence" else np.float32)
    assert found.y.dtype == (np.float32 if found.task == "regression" else np.int64)
    assert found.x.flags.c_contiguous
    assert found.y.flags.c_contiguous
    if found.classes:
        assert set(np.unique(found.y)) <= set(range(len(found.classes)))
        assert all(isinstance(each, str) for each in (*found.classes, *found.names, found.target))
    assert found.description.endswith(".")
    assert name != "digits" or (found.x.min(), found.x.max()) == (0, 1)
    assert repr(found).startswith(f"<Dataset for {found.task}: {len(found):,} examples of ")
    again, other = sets.load(name, 0), sets.load(name, 1)
    assert (again.x.tobytes(), again.y.tobytes()) == (found.x.tobytes(), found.y.tobytes())
    made_here = name not in ("digits", "iris", "wine", "breast_cancer", "diabetes")
    assert (other.x.tobytes() != found.x.tobytes()) == made_here


def test_sets_made_here_are_those_of_always() -> None:
    np.testing.assert_allclose(sets.load("moons").x[:2], MOONS, rtol=1e-5)
    assert sets.load("reverse").x[0].tolist() == [5, 0, 3, 3, 7, 9, 3, 5, 2, 4]


MOONS = [[0.7505776882171631, 0.7780993580818176], [-0.8145321607589722, 0.6364027857780457]]


def test_points_lie_where_they_should() -> None:
    circles = sets.circles(400, noise=0, inner=0.25)
    np.testing.assert_allclose(np.hypot(*circles.x.T), np.where(circles.y, 0.25, 1), rtol=1e-5)
    moons = sets.moons(401, noise=0)
    x, y = np.where(moons.y[:, None], (1, 0.5) - moons.x, moons.x).T
    np.testing.assert_allclose(np.hypot(x, y), 1, rtol=1e-5)
    assert (y > -1e-6).all()
    spirals = sets.spirals(1001, classes=5, turns=0.5, noise=0)
    assert sorted(Counter(spirals.y.tolist()).values()) == [200, 200, 200, 200, 201]
    radius, angle = np.hypot(*spirals.x.T), np.arctan2(spirals.x[:, 1], spirals.x[:, 0])
    off = (angle / (2 * np.pi) - 0.5 * radius - spirals.y / 5 + 0.5) % 1 - 0.5
    np.testing.assert_allclose(off, 0, atol=1e-5)
    for made in (sets.moons, sets.circles, sets.spirals):
        assert made(50, noise=0.5).x.std() > made(50, noise=0).x.std()


def text(found: Dataset, numbers: Any) -> str:
    return "".join(found.classes[i] for i in numbers)


def test_sequences_mean_what_they_should() -> None:
    reverse = sets.reverse(5, length=4, tokens=3)
    assert (reverse.x[:, ::-1] == reverse.y).all()
    assert reverse.x.shape == (5, 4)
    copy = sets.load("copy", n=3)
    assert (copy.x == copy.y).all()
    sums = sets.addition(50, digits=3)
    for asked, answer in zip(sums.x, sums.y, strict=True):
        a, b = text(sums, asked).removesuffix("=").split("+")
        assert int(a) + int(b) == int(text(sums, answer))
        assert (len(a), len(b)) == (3, 3)


def test_characters_are_followed_by_the_next() -> None:
    words = "the quick brown fox"
    found = sets.characters(words, length=4, step=3)
    pieces = {text(found, each): text(found, after) for each, after in zip(found.x, found.y, strict=True)}
    assert pieces == {words[i : i + 4]: words[i + 1 : i + 5] for i in range(0, 15, 3)}
    assert found.classes == tuple(sorted(set(words)))
    assert len(sets.load("characters").classes) > 50


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: sets.load("irises"), r"no set is called 'irises'; there are digits, .* characters\. Did you mean 'iris'"),
    (lambda: sets.load("iris", n=3), r"iris is what it is, and takes no n"),
    (lambda: sets.load("spirals", classes=1), r"classes is 2 or more; got 1"),
    (lambda: sets.moons(1), r"n is 2 or more; got 1"),
    (lambda: sets.circles(noise=-1), r"noise is the spread around the curves, 0 or more; got -1"),
    (lambda: sets.reverse(length=0), r"length is 1 or more; got 0"),
    (lambda: sets.copy(tokens=1), r"tokens is 2 or more; got 1"),
    (lambda: sets.addition(digits=10), r"digits is 9 or less; got 10"),
    (lambda: sets.characters("short"), r"a text of 5 characters has no piece of 64 and one that follows it"),
    (lambda: sets.characters("short" * 50, step=0), r"step is 1 or more; got 0"),
    (lambda: sets.load("copy").table(), r"a table has a column for each number of an example; <Dataset for sequence"),
    (lambda: split(10, (0.5, 0.4)), r"fractions are from 0 to 1, and 1 together; got 0.5 and 0.4"),
    (lambda: split(10, (1.5, -0.5)), r"fractions are from 0 to 1, and 1 together"),
    (lambda: split(10, ()), r"fractions are from 0 to 1, and 1 together"),
    (lambda: split(0), r"there are no rows to split: got 0"),
    (lambda: split([]), r"there are no rows to split: no labels were given"),
    (lambda: split(2), r"2 rows are too few to split by 0.7, 0.15 and 0.15: part 2 would be empty"),
    (lambda: split(["a", "b", "a", None]), r"row 4 has no label; leave it out, or split with stratify=False"),
    (lambda: split(["a", "b", "a"], column="kind"), r"label 'b' of the column 'kind' occurs once, in row 2, and can"),
    (lambda: split([0.5, 1.5]), r"labels are classes, and row 1 has 0.5; .* split\(len\(y\)\)"),
    (lambda: split(np.ones((3, 2))), r"labels are classes, and row 1 has \[1.0, 1.0\]"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSED)), ids=[sentence[:40] for _, sentence in REFUSED])
def test_refusals_are_sentences(case: int) -> None:
    work, sentence = REFUSED[case]
    with pytest.raises(DataError, match=sentence):
        work()


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────

FRACTIONS = st.sampled_from([(0.7, 0.15, 0.15), (0.8, 0.2), (0.5, 0.5), (0.6, 0.4, 0.0), (0.2, 0.8), (1.0,)])


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=12, max_size=80), FRACTIONS, st.integers(0, 5), st.booleans())
def test_each_row_is_in_one_part_and_each_part_has_its_share(
    labels: list[int], fractions: tuple[float, ...], seed: int, stratify: bool
) -> None:
    labels = [each for each in labels for _ in range(2)]  # none occurs once
    n = len(labels)
    if stratify:
        parts = split(labels, fractions, seed=seed)
        same = split(np.array(labels), fractions, seed=seed)
    else:
        parts = split(labels, fractions, seed=seed, stratify=False)
        same = split(n, fractions, seed=seed)
    assert [each.tolist() for each in parts] == [each.tolist() for each in same]
    assert len(parts) == len(fractions)
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))
    assert all((np.diff(part) > 0).all() for part in parts)
    assert all(part.dtype == np.int64 for part in parts)
    classes = Counter(labels) if stratify else {None: n}
    for label, count in classes.items():
        for part, fraction in zip(parts, fractions, strict=True):
            here = sum(labels[row] == label for row in part) if stratify else len(part)
            assert abs(here - fraction * count) < 2
            assert here or not fraction or fraction * count < 1 or len(parts) > 1
        assert not stratify or any(labels[row] == label for row in parts[0])
    for part, fraction in zip(parts, fractions, strict=True):
        assert abs(len(part) - fraction * n) <= len(classes)


def test_each_label_is_among_those_to_train_on() -> None:
    labels = [*"abcdefgh", *"abcdefgh"]
    train, test = split(labels, (0.1, 0.9))
    assert sorted(labels[row] for row in train) == sorted(labels[row] for row in test) == [*"abcdefgh"]


def test_labels_of_all_kinds() -> None:
    pa, pl, pd = (pytest.importorskip(name) for name in ("pyarrow", "polars", "pandas"))
    labels = ["b", "a", "a", "b"] * 10
    expected = [each.tolist() for each in split(labels)]
    for given_labels in (
        np.array(labels), tuple(labels), pa.array(labels), pa.chunked_array([labels[:7], labels[7:]]),
        pl.Series("kind", labels), pd.Series(labels, name="kind"), pd.Series(labels, dtype="category"),
    ):  # fmt: skip
        assert [each.tolist() for each in split(given_labels)] == expected
    with pytest.raises(DataError, match="the label 'c' of the column 'kind' occurs once"):
        split(pl.Series("kind", [*labels, "c"]))
    assert [len(each) for each in split([True, False] * 5, (0.5, 0.5))] == [5, 5]


def test_parts_are_those_of_always_and_differ_by_seed() -> None:
    assert split(10)[0].tolist() == [0, 1, 2, 3, 5, 7, 9]
    assert len({tuple(split(50, seed=seed)[1].tolist()) for seed in range(5)}) == 5


# ── images ───────────────────────────────────────────────────────────────────────────────────────────────────

Image = pytest.importorskip("PIL.Image")


def save(folder: Path, name: str, size: tuple[int, int], colour: Any, mode: str = "RGB", **options: Any) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path, **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes; images of 4 × 6 pixels (width × height), and a larger one."""
    for i in range(3):
        save(tmp_path, f"red/{i}.png", (4, 6), (255, 0, 0))
    save(tmp_path, "blue/deep/x.bmp", (8, 12), (0, 0, 255))
    save(tmp_path, "blue/y.JPG", (4, 6), (0, 0, 255))
    (tmp_path / "blue" / "notes.txt").write_text("not an image")
    (tmp_path / "blue" / ".hidden.png").write_text("neither")
    (tmp_path / ".cache").mkdir()
    return tmp_path


def test_a_folder_of_images(folder: Path) -> None:
    found = images(folder)
    assert (found.x.shape, found.shape, found.x.dtype) == ((5, 3, 6, 4), (3, 6, 4), np.float32)
    assert (found.classes, found.y.tolist(), found.task) == (("blue", "red"), [0, 0, 1, 1, 1], "classification")
    np.testing.assert_allclose(found.x[:, :, 3, 2], [[0, 0, 1]] * 2 + [[1, 0, 0]] * 3, atol=0.01)
    assert found.description == f"5 coloured images of 6 × 4 pixels from {folder.name}."
    small = images(str(folder), size=(2, 3), grey=True, dtype="uint8")
    assert (small.x.shape, small.x.dtype, small.x[-1, 0, 0, 0]) == ((5, 1, 2, 3), np.uint8, 76)
    with pytest.raises(DataError, match="has no names for them"):
        found.table()


def test_images_of_all_kinds(tmp_path: Path) -> None:
    save(tmp_path, "a/1.png", (2, 2), 128, "L")
    save(tmp_path, "a/2.png", (2, 2), 1, "1")
    save(tmp_path, "a/3.png", (2, 2), (128, 255), "LA")
    save(tmp_path, "b/4.png", (2, 2), 32896, "I;16")
    grey = images(tmp_path)
    assert grey.shape == (1, 2, 2)
    np.testing.assert_allclose(grey.x[:, 0, 0, 0], [128 / 255, 1, 128 / 255, 128 / 255], atol=0.003)
    save(tmp_path, "b/5.png", (2, 2), (255, 0, 0, 255), "RGBA")
    save(tmp_path, "b/6.gif", (2, 2), 0, "P")
    assert images(tmp_path).shape == (3, 2, 2)


def test_images_are_turned_upright(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    (tmp_path / "a").mkdir()
    image = Image.new("L", (16, 4))
    image.paste(255, (0, 0, 8, 4))
    image.save(tmp_path / "a" / "1.png", exif=turned)
    image.save(tmp_path / "a" / "2.png", exif=turned)
    save(tmp_path, "b/1.png", (16, 4), 9, "L")
    found = images(tmp_path)
    assert found.shape == (1, 16, 4)
    assert found.x[0, 0, :, 0].tolist() == [1] * 8 + [0] * 8


def test_folders_that_are_refused(folder: Path, tmp_path: Path) -> None:
    def refused(sentence: str, place: Path = folder, **options: Any) -> None:
        with pytest.raises(DataError, match=sentence):
            images(place, **options)

    refused(r"images are float32 or uint8; got dtype='int8'", dtype="int8")
    refused(r"size is height and width, 1 or more each; got \(0, 3\)", size=(0, 3))
    refused(
        r"5 images of 1,000,000 × 999,999 pixels take .* GiB, and this machine has .* size=\(64, 64\)",
        size=(10**6, 999_999),
    )
    refused(r"there is no folder '.*nowhere'", folder / "nowhere")
    refused(r"'.*0.png' is a file; images are read from a folder", folder / "red" / "0.png")
    refused(r"they lie in it directly; each class has a folder of its own, as in cat/1.png", folder / "red")
    refused(r"there are no images in folders of '.*': each class has a folder", folder / ".cache")
    (folder / "green").mkdir()
    refused(r"the folder of the class 'green' in '.*' has no images; add some, or remove it")
    (folder / "green").rmdir()
    whole = (folder / "red" / "1.png").read_bytes()
    for broken in (b"words", whole[:40], b""):
        (folder / "red" / "1.png").write_bytes(broken)
        refused(r"'.*red/1.png' is not an image that can be read \(.*\); mend it, or take it away")
    damaged = bytearray(whole)
    damaged[-20:-12] = b"\0" * 8
    (folder / "red" / "1.png").write_bytes(damaged)
    refused(r"red/1.png' is not an image that can be read")
    (folder / "red" / "1.png").write_bytes(whole[:16] + struct.pack(">II", 60_000, 60_000) + whole[24:])
    refused(r"red/1.png' is not an image that can be read")
    (folder / "red" / "1.png").unlink()
    for path in (folder / "blue").rglob("*.*"):
        path.unlink()
    (folder / "blue" / "deep").rmdir()
    (folder / "blue").rmdir()
    refused(r"all images of '.*' are of one class, 'red'; there is nothing to tell apart")


def test_a_picture_that_is_a_program_is_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import EpsImagePlugin

    started = list[Any]()
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *given: started.append(given))
    path = next(folder.rglob("*.png"))
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n%%EOF\n")
    with pytest.raises(DataError, match=f"{path.name}' is not an image that can be read"):
        images(folder, size=(4, 4))
    assert not started


def test_only_files_that_are_opened_count_as_images(folder: Path) -> None:
    before = len(images(folder).x)
    (next(folder.rglob("*.png")).parent / "drawing.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n")
    assert len(images(folder).x) == before
