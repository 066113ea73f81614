"""Make the parts of the documentation that come from the source.

::

    python docs/generate.py               # the tables in protocol.md, operations.md and kernels.md: a second
    python docs/generate.py conformance   # conformance.md: runs the suite on each device, some minutes

A table stands between ``<!-- NAME -->`` and ``<!-- end -->``; the tests compare it with what this makes.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import date
from importlib import metadata
from pathlib import Path

import kernels
import operations

from micrograd_core.array.functions import kernel_signature
from micrograd_core.backend import CAPABILITIES, OPTIONAL, Backend
from micrograd_core.dtypes import DTYPES
from micrograd_core.errors import one_of
from micrograd_core.ops import CORE_KERNELS, SAME, TABLE, Op
from micrograd_core.ops.core.movement import requested
from micrograd_core.ops.record import ANY, BITS, FLOATING, INEXACT, NUMERIC, REAL

DOCS = Path(__file__).parent
DEVICES = {"cpu:0": ("numpy",), "rawbuffer:0": (), "strict:0": ("array-api-strict",), "torch:cpu": ("torch",)}
"""The devices of `conformance.md`, with the libraries whose versions matter."""

KINDS = {ANY: "any", NUMERIC: "numeric", REAL: "real", INEXACT: "floating", FLOATING: "real floating", BITS: "bits"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """In Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def members() -> dict[str, str]:
    """Each member of `Backend` as it is written: facts by name, methods with their parameters."""
    methods = {
        name: ", ".join(list(inspect.signature(method).parameters)[1:])
        for name, method in vars(Backend).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }
    return {name: name for name in Backend.__annotations__} | {k: f"{k}({v})" for k, v in methods.items()}


def members_table() -> str:
    """Which members there are, and which a backend has to have."""
    rows = [
        (f"[`{text}`](#{anchor(text)})", "optional" if name in OPTIONAL else "required", described(name))
        for name, text in members().items()
    ]
    return table(("member", "kind", "what it is"), rows)


def described(member: str) -> str:
    """The first sentence of its documentation."""
    if member in Backend.__annotations__:
        found = re.search(rf"^{member} : .*((?:\n    .*)+)", inspect.cleandoc(Backend.__doc__ or ""), re.M)
        assert found is not None, f"Backend's docstring does not describe {member}"
        text = " ".join(found[1].split())
    else:
        text = " ".join((getattr(Backend, member).__doc__ or "").split())
    return first_sentence(text)


def first_sentence(text: str) -> str:
    """In Markdown, without its full stop."""
    return re.split(r"(?<=\.) (?=[A-Z`])", text)[0].replace("``", "`").removesuffix(".")


def anchor(heading: str) -> str:
    """Of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def kernels_table() -> str:
    """The kernels that every device provides, from their records."""
    core = [TABLE[name] for name in sorted(CORE_KERNELS)]
    rows = [
        (f"`{kernel_signature(op)}`", first_sentence(op.doc).replace("|", r"\|"), accepted(op), result(op))
        for op in core
    ]
    return table(("kernel", "what it computes", "dtypes it is given", "result"), rows)


def accepted(op: Op) -> str:
    """The kinds of dtype that reach the kernel, after what the core converts."""
    kinds = op.accepts if isinstance(op.accepts, tuple) else (op.accepts,)
    if op.cast is not None:
        kinds = tuple(frozenset(op.cast(each).kind for each in DTYPES.values() if each.kind in kind) for kind in kinds)
    return "; ".join(KINDS.get(each, one_of(sorted(each))) for each in kinds)


def result(op: Op) -> str:
    """Dtype and memory of the result."""
    dtype = "same dtype" if op.result is SAME else "`dtype`" if op.result is requested else "bool"
    return f"{dtype}; {'a view, or fresh' if op.view else 'fresh'}"


def capabilities_table() -> str:
    """The vocabulary, and what ``test_level`` asks of whoever claims a word."""
    from micrograd_core.conformance.levels import LEVELS

    rows = []
    for word, promise in CAPABILITIES.items():
        test = first_sentence(LEVELS[word].__doc__ or "") if word in LEVELS else "Its operations, with their samples"
        rows.append((f"`{word}`", re.sub(r"([_*])", r"\\\1", promise), test))
    return table(("word", "what it promises", "what `test_level` checks"), rows)


TABLES = {
    "members": members_table, "kernels": kernels_table, "capabilities": capabilities_table, "axis": kernels.axes,
}  # fmt: skip


def filled(page: str) -> str:
    """A page with its tables made anew."""
    for name, make in TABLES.items():
        before, mark, rest = page.partition(f"<!-- {name} -->\n")
        assert mark, f"the page has no place for the table {name}"
        _, end, after = rest.partition("<!-- end -->")
        page = f"{before}{mark}\n{make()}\n\n{end}{after}"
    return page


def conformance() -> str:
    """The page of matrices, as ``micrograd conformance DEVICE --markdown`` writes them."""
    parts = [
        "# The backends' matrices",
        "What `micrograd conformance DEVICE` finds for the backends in this repository: for each operation whether\n"
        "the device has a kernel of its own or the core composes it, and how its tests came out. Made by\n"
        f"`python docs/generate.py conformance` on {date.today()}, with micrograd-core "
        f"{metadata.version('micrograd-core')} and Python {sys.version.split()[0]}.",
    ]
    for device, libraries in DEVICES.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "matrix.md"
            command = ["micrograd_core.tools.cli", "conformance", device, "--markdown", str(file), "-n", "auto"]
            command = [sys.executable, "-m", *command]
            run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if not file.exists():
                sys.exit(f"{device}: no matrix\n{run.stdout}{run.stderr}")
            matrix = file.read_text(encoding="utf-8").strip()
        versions = ", ".join(f"{name} {metadata.version(name).partition('+')[0]}" for name in libraries)
        parts += [f"## {device}", *([f"With {versions}."] if versions else []), matrix]
    mark = "## Planted faults\n"  # from here on the page is that of tests/mutants.py
    _, mark, rest = (DOCS / "conformance.md").read_text(encoding="utf-8").partition(mark)
    return "\n\n".join(parts) + "\n" + (f"\n{mark}{rest}" if mark else "")


if __name__ == "__main__":
    if sys.argv[1:] == ["conformance"]:
        (DOCS / "conformance.md").write_text(conformance(), encoding="utf-8")
    else:
        protocol = DOCS / "protocol.md"
        protocol.write_text(filled(protocol.read_text(encoding="utf-8")), encoding="utf-8")
        for each in (operations, kernels):
            each.PAGE.write_text(each.page(), encoding="utf-8")
