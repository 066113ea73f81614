"""A folder of images by class, as one array."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from micrograd_core.data.errors import DataError
from micrograd_core.engine.ingest import memory
from micrograd_train.dataset import Dataset

FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""What is opened, whatever a file is called: for others Pillow may start a program, such as Ghostscript."""
GREY = {"1", "L", "LA", "I", "I;16", "I;16B", "F"}
"""Pillow's modes without colour."""


def images(
    folder: str | Path, *, size: tuple[int, int] | None = None, grey: bool | None = None, dtype: str = "float32"
) -> Dataset:
    """The images of a folder that has a folder for each class, as ``folder/cat/1.png``.

    Parameters
    ----------
    folder : str or Path
        Hidden files, and those that are no image by their suffix, are ignored.
    size : (int, int), optional
        Height and width of all; by default those that most images have. Others are resized.
    grey : bool, optional
        Whether there is one channel rather than three; by default where no image has colours.
    dtype : str, default "float32"
        ``"float32"`` from 0 to 1, or ``"uint8"`` from 0 to 255, a quarter of the memory.

    Returns
    -------
    Dataset
        Whose `x` has shape (n, channels, height, width); classes are in the order of their names.

    Raises
    ------
    DataError
        When there are no images, or one class only, or a file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from micrograd_train import images
    >>> folder = Path(tempfile.mkdtemp())
    >>> for kind in ("cat", "dog"):
    ...     (folder / kind).mkdir()
    ...     Image.new("RGB", (8, 6), "red").save(folder / kind / "1.png")
    >>> images(folder)
    <Dataset for classification: 2 examples of 3 × 6 × 8, 2 classes>
    """
    root = Path(folder)
    if dtype not in ("float32", "uint8"):
        raise DataError(f"images are float32 or uint8; got dtype={dtype!r}")
    if size is not None and (len(size) != 2 or min(size) < 1):
        raise DataError(f"size is height and width, 1 or more each; got {size}")
    files = _files(root)
    modes, sizes = set(), Counter[tuple[int, int]]()
    for path, _ in files:
        mode, shape = _measured(path)
        modes.add(mode)
        sizes[shape] += 1
    height, width = size or max(sizes, key=lambda each: (sizes[each], each))
    one = grey if grey is not None else modes <= GREY
    takes = len(files) * (1 if one else 3) * height * width * (1 if dtype == "uint8" else 5)
    if takes > memory():
        raise DataError(
            f"{len(files):,} images of {height:,} × {width:,} pixels take {takes / 2**30:,.0f} GiB, and this machine "
            f"has {memory() / 2**30:,.0f}; say how large they are to be, as in size=(64, 64)"
        )
    x = np.empty((len(files), 1 if one else 3, height, width), dtype="uint8")
    for i, (path, _) in enumerate(files):
        x[i] = pixels(np, path, (height, width), one)
    classes = sorted({name for _, name in files})
    places = {name: i for i, name in enumerate(classes)}
    told = "grey" if one else "coloured"
    return Dataset(
        x=x if dtype == "uint8" else x.astype("float32") / 255,
        y=np.array([places[name] for _, name in files], dtype="int64"),
        names=(),
        classes=tuple(classes),
        task="classification",
        shape=x.shape[1:],
        description=f"{len(files):,} {told} images of {height} × {width} pixels from {root.name}.",
        target="class",
    )


def suffixes() -> set[str]:
    """How files of `FORMATS` end."""
    known = Image.registered_extensions()
    return {suffix for suffix, kind in known.items() if kind in FORMATS}


def _files(root: Path) -> list[tuple[Path, str]]:
    """Images, with the name of their class."""
    if not root.exists():
        raise DataError(f"there is no folder {str(root)!r}")
    if not root.is_dir():
        raise DataError(f"{str(root)!r} is a file; images are read from a folder that has a folder for each class")
    known = suffixes()
    folders = sorted(each for each in root.iterdir() if each.is_dir() and not each.name.startswith("."))
    found = [
        (path, each.name)
        for each in folders
        for path in sorted(each.rglob("*"))
        if path.is_file() and path.suffix.lower() in known and not path.name.startswith(".")
    ]
    if not found:
        loose = any(path.suffix.lower() in known for path in root.iterdir())
        raise DataError(
            f"there are no images in folders of {str(root)!r}: "
            + ("they lie in it directly; " if loose else "")
            + "each class has a folder of its own, as in cat/1.png and dog/1.png"
        )
    classes = {name for _, name in found}
    empty = [each.name for each in folders if each.name not in classes]
    if empty:
        raise DataError(f"the folder of the class {empty[0]!r} in {str(root)!r} has no images; add some, or remove it")
    if len(classes) == 1:
        raise DataError(
            f"all images of {str(root)!r} are of one class, {found[0][1]!r}; there is nothing to tell apart"
        )
    return found


def _measured(path: Path) -> tuple[str, tuple[int, int]]:
    """The mode of an image, and its height and width when it stands upright."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            on_its_side = image.getexif().get(0x0112, 1) >= 5
            return image.mode, image.size if on_its_side else image.size[::-1]
    except Exception as error:  # Pillow and its plugins raise all kinds
        raise _unreadable(path, error) from error


def pixels(np: Any, path: Path, size: tuple[int, int], one: bool) -> Any:
    """One image as (channels, height, width), upright."""
    try:
        with Image.open(path, formats=FORMATS) as opened:
            image: Any = ImageOps.exif_transpose(opened)
            if image.mode.startswith(("I", "F")):  # 16 bits and more, which Pillow would cut off
                numbers = np.asarray(image, dtype="float64")
                most = 65535 if numbers.max(initial=0) > 255 else 255
                image = Image.fromarray(np.clip(numbers * 255 / most, 0, 255).round().astype("uint8"))
            image = image.convert("L" if one else "RGB")
            if image.size != size[::-1]:
                image = image.resize(size[::-1], Image.Resampling.BILINEAR)
            pixels = np.asarray(image)
    except Exception as error:
        raise _unreadable(path, error) from error
    return pixels[None] if one else pixels.transpose(2, 0, 1)


def _unreadable(path: Path, error: Exception) -> DataError:
    said = str(error).partition("\n")[0].replace(str(path), path.name) or type(error).__name__
    return DataError(f"{str(path)!r} is not an image that can be read ({said}); mend it, or take it away")
