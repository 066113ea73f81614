"""Make the parts of the documentation that come from the source.

::

    python docs/generate.py               # all tables but the next: a second
    python docs/generate.py conformance [FOLDER]   # conformance.md: runs the suite on each device, an hour

A table stands between ``<!-- NAME -->`` and ``<!-- end -->``; the tests compare it with what this makes.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import functional
import kernels
import operations
from signatures import kernel_signature

from micrograd_core import Device
from micrograd_core.backend import CAPABILITIES, REQUIRED, Backend
from micrograd_core.conformance.base import known_failures
from micrograd_core.conformance.matrix import OUTCOMES
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
        (f"[`{text}`](#{anchor(text)})", "required" if name in REQUIRED else "optional", described(name))
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


def tests_table() -> str:
    """The tests of the conformance suite, by what each is repeated for."""
    from micrograd_core.conformance.suite import Conformance

    parts = [each for each in Conformance.__mro__ if any(name.startswith("test_") for name in vars(each))]
    found = [(part, name, test) for part in parts for name, test in vars(part).items() if name.startswith("test_")]
    rows = [(f"`{name}`", repeated(test), first_sentence(" ".join(test.__doc__.split()))) for _, name, test in found]
    return table(("test", "for each", "what it checks"), rows)


def repeated(test: Any) -> str:
    """What a test of the suite is repeated for, by its first parameter."""
    return REPEATED.get(list(inspect.signature(test).parameters)[1], "")


REPEATED = {
    "case": "sample of an operation, dtype and layout", "op": "operation", "dtype": "dtype", "word": "capability",
    "formed": "operation with a kernel of the device's own, and dtype", "special": "operation and dtype",
    "large": "operation with a kernel of the device's own, and a dtype of each kind", "program": "program",
}  # fmt: skip
TABLES = {
    "members": members_table, "kernels": kernels_table, "capabilities": capabilities_table, "axis": kernels.axes,
    "tests": tests_table,
}  # fmt: skip
PAGES = {"protocol.md": ("members", "kernels", "capabilities", "axis"), "conformance.md": ("tests",)}


def filled(page: str, names: Sequence[str]) -> str:
    """A page with its tables made anew."""
    for name in names:
        make, (before, mark, rest) = TABLES[name], page.partition(f"<!-- {name} -->\n")
        assert mark, f"the page has no place for the table {name}"
        _, end, after = rest.partition("<!-- end -->")
        page = f"{before}{mark}\n{make()}\n\n{end}{after}"
    return page


def judged(device: str, record: Path) -> dict[str, Any]:
    """What the suite finds for a device; the whole of it goes to files of `record`, if that is a folder."""
    with tempfile.TemporaryDirectory() as folder:
        place = record if record.is_dir() else Path(folder)
        files = [str(place.absolute() / f"{device.replace(':', '-')}.{kind}") for kind in ("json", "md")]
        command = [
            "micrograd_core.tools.cli",
            "conformance",
            device,
            "--json",
            files[0],
            "--markdown",
            files[1],
            "-n",
            "auto",
        ]
        command = [sys.executable, "-m", *command]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if not Path(files[0]).exists():
            sys.exit(f"{device}: no record\n{run.stdout}{run.stderr}")
        found: dict[str, Any] = json.loads(Path(files[0]).read_text(encoding="utf-8"))
        return found


def conformance(record: Path) -> str:
    """The page with its verdicts made anew: what each backend has, how many tests, and what the suite says of it."""
    parts = [
        "## The backends, judged",
        "What `micrograd conformance DEVICE` says of the backends in this repository. Made by\n"
        f"`python docs/generate.py conformance` on {date.today()}, with micrograd-core "
        f"{metadata.version('micrograd-core')} and Python {sys.version.split()[0]}. With a folder after it, that\n"
        "command leaves the whole record there, operation by operation, as JSON and as Markdown.",
    ]
    rows, said = [], []
    for device, libraries in DEVICES.items():
        found = judged(device, record)
        counts = Counter[str]()
        for each in found["levels"].values():
            counts.update(each)
        kinds = Counter(each["provided"] for each in found["operations"].values())
        versions = ", ".join(f"{name} {metadata.version(name).partition('+')[0]}" for name in libraries)
        numbers = (*(kinds[kind] for kind in ("native", "composed")), *(counts[kind] for kind in OUTCOMES))
        rows.append((f"`{device}`", versions, *map(str, numbers)))
        said.append(f"- {found['verdict']}.")
        reasons = known_failures(Device(device).kernels.backend)
        said += [f"  - `{pattern}`: {reason}" for pattern, reason in reasons.items()]
    head = ("device", "over", "native operations", "composed", *OUTCOMES)
    parts += [table(head, rows), "In the suite's own words, with the patterns of known failures:", "\n".join(said)]
    before, rest = (DOCS / "conformance.md").read_text(encoding="utf-8").split("## The backends, judged\n")
    _, mark, after = rest.partition("## Planted faults\n")  # from here on the page is that of tests/mutants.py
    return before + "\n\n".join(parts) + f"\n\n{mark}{after}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["conformance"]:
        (DOCS / "conformance.md").write_text(conformance(Path(*sys.argv[2:3] or ["-"])), encoding="utf-8")
    else:
        for name, names in PAGES.items():
            page = DOCS / name
            page.write_text(filled(page.read_text(encoding="utf-8"), names), encoding="utf-8")
        for each in (operations, kernels, functional):
            each.PAGE.write_text(each.page(), encoding="utf-8")
