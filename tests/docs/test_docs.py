"""The examples in README, docs and docstrings run as written; links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import numpy as np
import pytest

import micrograd_core
from micrograd_core import Device, plugins
from micrograd_core.adapters.array_api import ArrayAPIBackend
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.conformance.cases import cases, is_differentiable
from micrograd_core.nn import functional
from micrograd_core.ops import CORE_KERNELS, TABLE, Array
from micrograd_core.plugins import hookimpl
from micrograd_core.suggestions import tables
from micrograd_core.tools import cli, doctor
from micrograd_cpu.storage import CPUBackend

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

import generate
import kernels as kernel_page
import stand_in_pip
import walk
from signatures import kernel_signature

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page for folder in (".", "docs", "backends/*", "plugins/*", "benchmarks") for page in ROOT.glob(f"{folder}/*.md")
)
LINKED = sorted([*PAGES, *ROOT.glob("backends/*/tests/*.md")])
ON_A_GPU = {ROOT / "docs" / "cuda.md", ROOT / "backends" / "cuda" / "README.md"}  # where there is none, nothing runs
FOR_AUTHORS = [page for page in PAGES if page.parent not in (ROOT, ROOT / "benchmarks") and page not in ON_A_GPU]
FLAGS = doctest.NORMALIZE_WHITESPACE


@pytest.fixture
def _only_the_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A page speaks of a fresh installation."""
    others = [name for name in plugins.names() if name != "cpu"]
    monkeypatch.setenv("MICROGRAD_DISABLE_PLUGINS", ",".join(others))
    for name in others:
        Device.forget(name)
    yield
    plugins.unregister("mine")
    Device.forget("mine")


@pytest.mark.usefixtures("_only_the_cpu")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_the_pages(page: Path) -> None:
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS, encoding="utf-8")
    assert failed == 0


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", prose):
        place = page.parent / target if target else page
        assert place.exists(), f"{page.name} links to {target}"
        if heading:
            headings = re.findall(r"^#+ (.*)$", place.read_text(), re.M)
            assert heading in map(generate.anchor, headings), f"{page.name} links to {target}#{heading}"


@pytest.mark.parametrize("module", [m.name for m in pkgutil.walk_packages(micrograd_core.__path__, "micrograd_core.")])
def test_examples_of_the_docstrings(module: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(module), optionflags=FLAGS)
    assert failed == 0


PROJECTS = [
    tomllib.loads(path.read_text())["project"] for path in (ROOT / "pyproject.toml", *ROOT.glob("*/*/pyproject.toml"))
]
EXTRAS = {each["name"]: {*each.get("optional-dependencies", ())} for each in PROJECTS}


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command that a page shows, in a block or indented, without a ``uv run`` before them."""
    shown = re.findall(r"^```(?:console|bash|sh|)\n(.*?)^```$", text, flags=re.M | re.S)
    shown += re.findall(r"^ {4}(\S.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), flags=re.M)
    for line in "\n".join(shown).replace("\\\n", " ").replace(" && ", "\n").replace(" || ", "\n").splitlines():
        bare = re.sub(r"^(uv run|--group \S+)\s+", "", re.sub(r"^uv run\s+", "", line.strip().removeprefix("$ ")))
        if bare.partition(" ")[0] in ("micrograd", "python", "bash", "pytest", "pip", "source"):
            yield shlex.split(bare, comments=True)


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_the_pages_can_be_typed(page: Path) -> None:
    for words in commands(page.read_text()):
        if words[0] == "micrograd":
            cli._parser()[0].parse_args(words[1:])  # an unknown command or option exits
        for name, extras in re.findall(r"(micrograd-[\w-]+)\[([\w,]+)\]", shlex.join(words)):
            assert {*extras.split(",")} <= EXTRAS.get(name, {"test"}), f"{page.name}: {shlex.join(words)}"
        folders = r"(docs|tests|benchmarks|backends|plugins|\.ci)/[\w./-]+"
        files = [found[0] for word in words if (found := re.match(folders, word)) and "{" not in word]
        missing = [each for each in files if not any((place / each).exists() for place in (ROOT, page.parent))]
        assert not missing, f"{page.name}: {shlex.join(words)}"


def test_the_readme_shows_what_the_doctor_prints() -> None:
    printed = doctor.table([doctor.examine("cpu", "0")])
    assert printed in (ROOT / "README.md").read_text()


# ── what backend authors read ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", FOR_AUTHORS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_run_or_quoted(page: Path) -> None:
    loose = [block.line for block in walk.blocks(page.read_text()) if not block.kind]
    assert not loose, f"{page.name}: the blocks on lines {loose} are no file, passage, doctest or commands"


def test_passages_stand_in_the_source_they_name() -> None:
    page = ROOT / "docs" / "backends.md"
    lines = page.read_text().splitlines()
    passages = [block for block in walk.blocks(page.read_text()) if block.kind == "passage"]
    for block in passages:
        source = dedent((page.parent / block.target).read_text())
        quotes = [block.text, indent(block.text, "    ")]
        assert any(each in source for each in quotes), f"line {block.line} is not in {block.target}"
    whole = 0
    for block in walk.blocks(page.read_text()):
        named = re.search(r"which is \[.*\]\((.*)\):", lines[block.line - 3])
        if block.kind == "file" and named:
            whole += 1
            assert block.text == (page.parent / named[1]).read_text(), f"line {block.line} is not {named[1]}"
    assert (len(passages), whole) == (3, 1)


def test_the_page_shows_the_templates_test() -> None:
    shown = {block.target: block.text for block in walk.blocks((ROOT / "docs/backends.md").read_text())}
    template = (
        (ROOT / "micrograd_core/tools/template/tests/test_conformance.py.txt").read_text().replace("NAME", "example")
    )
    assert shown["micrograd-example/tests/test_conformance.py"] == template


def stand_ins(site: Path) -> str:
    """For bash: `pip` without a network, and little of the suite where the reader runs all."""
    here = Path(__file__).parent
    python, pip, folder = (shlex.quote(str(each)) for each in (sys.executable, here / "stand_in_pip.py", site))
    return f"""
        unset PYTEST_XDIST_WORKER
        export PYTHONPATH={folder}:{shlex.quote(str(here))} PYTEST_ADDOPTS="-p stand_in_suite -p no:cacheprovider"
        export MICROGRAD_DISABLE_PLUGINS=dask,jax,rawbuffer,strict,torch
        python() {{ {python} "$@"; }}
        python3() {{ mkdir -p .venv/bin && touch .venv/bin/activate; }}
        pip() {{ {python} {pip} {folder} "$@"; }}
        micrograd() {{ {python} -m micrograd_core.tools.cli "$@"; }}
        pytest() {{ {python} -m pytest -q "$@"; }}
    """


@pytest.mark.parametrize(
    "page",
    [page for page in FOR_AUTHORS if "```console" in page.read_text()],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_following_the_page_works(page: Path, tmp_path: Path) -> None:
    folder, site = tmp_path / "folder", tmp_path / "site"
    folder.mkdir()
    site.mkdir()
    (folder / "plugins").symlink_to(ROOT / "plugins")
    preamble = stand_ins(site)
    own = page.parent.name.replace("array_api", "strict")
    wrong = walk.follow(page, folder, preamble.replace(f",{own}", ""))
    assert not wrong, "\n\n".join(wrong)


def test_a_page_that_says_something_else_is_found_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`here/file.txt`:\n\n```text\nwords\n```\n\n"
        "```console\n$ cat here/file.txt\nwords\n$ echo 3\n4\n$ false\n$ cd here\n$ cat file.txt\nwo...\n```\n"
    )
    wrong = walk.follow(page, tmp_path)
    assert len(wrong) == 2
    assert wrong[0].startswith("page.md, line 7: `echo 3` ended with status 0 and printed\n3\n")
    assert "`false` ended with status 1" in wrong[1]
    page.write_text("```console\n$ exit 0\n$ echo never\n```\n")
    assert [sentence.count("status none") for sentence in walk.follow(page, tmp_path)] == [1, 1]


def test_blocks_are_what_the_line_before_them_says() -> None:
    page = "`a/b.py`, which is new:\n```python\nx\n```\nFrom [c](d/e.py):\n```python\ny\n```\n`word` and so on:\n\n"
    page += "```python\n>>> 1\n1\n\n```\n```console\n$ ls\n```\n```\nloose\n```\n"
    kinds = [(block.kind, block.target) for block in walk.blocks(page)]
    assert kinds == [("file", "a/b.py"), ("passage", "d/e.py"), ("doctest", ""), ("console", ""), ("", "")]


def test_the_stand_in_knows_what_can_be_installed(tmp_path: Path) -> None:
    stand_in_pip.install("micrograd-core[conformance]", tmp_path)
    with pytest.raises(AssertionError, match="not telepathy"):
        stand_in_pip.install("micrograd-core[telepathy]", tmp_path)
    with pytest.raises(ModuleNotFoundError):
        stand_in_pip.install("micrograd-telepathy", tmp_path)


# ── the contract ─────────────────────────────────────────────────────────────────────────────────────────────


def test_tables_are_what_the_source_says() -> None:
    for name, held in generate.PAGES.items():
        page = (ROOT / "docs" / name).read_text()
        assert generate.filled(page, held) == page, "run: python docs/generate.py"


def test_every_member_has_its_contract_and_no_other() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text()
    assert re.findall(r"^### `(.*)`$", page, re.M) == list(generate.members().values())


@pytest.mark.parametrize("name", [name for name, op in TABLE.items() if op.parameters is not None and op.operands > 0])
def test_kernel_signatures_name_the_parameters_that_kernels_get(name: str) -> None:
    op = TABLE[name]
    named = kernel_signature(op)[:-1].partition("*, ")[2].split(", ") if "*, " in kernel_signature(op) else []
    for sample in op.samples:
        operands = [
            micrograd_core.zeros(o.shape, dtype=o.dtype or "float32") if isinstance(o, Array) else o
            for o in sample.operands
        ]
        assert list(op.parameters(*operands, **sample.params)) == named  # type: ignore[misc]


def test_the_page_of_verdicts_has_every_device_and_all_conform() -> None:
    page = (ROOT / "docs" / "conformance.md").read_text()
    assert re.findall(r"^\| `(\S+:\S+)` \|", page, re.M) == list(generate.DEVICES)
    conforming = [name.removesuffix(":0") for name in re.findall(r"^- (\S+) conforms\b", page, re.M)]
    assert conforming == [name.removesuffix(":0") for name in generate.DEVICES]


def test_the_page_of_planted_faults_says_that_they_are_noticed() -> None:
    page = (ROOT / "docs" / "conformance.md").read_text().partition("## Planted faults")[2]
    found = re.search(r"Of ([\d,]+) faults that can show, ([\d,]+) are noticed", page)
    assert found is not None
    possible, noticed = (int(number.replace(",", "")) for number in found.groups())
    assert noticed >= 0.995 * possible
    assert "not looked into" not in page  # each one that is not has its reason


def test_the_page_of_what_one_types_is_written_from_the_functions() -> None:
    found = generate.functional.PAGE.read_text(encoding="utf-8")
    assert found == generate.functional.page(), "a function has changed: python docs/generate.py"
    for name in functional.__all__:
        assert f"`{name}(" in found
    for name in {name for section, names in tables().items() if section not in ("argument", "dtype") for name in names}:
        assert f"| `{name}` |" in found


def test_the_page_of_operations_is_written_from_the_table() -> None:
    found = generate.operations.PAGE.read_text(encoding="utf-8")
    assert found == generate.operations.page(), "the op table has changed: python docs/generate.py"
    assert all(f"{name}(" in found for name in FUNCTIONS)


# ── what kernels get ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_of_kernels_is_written_from_the_table() -> None:
    found = kernel_page.PAGE.read_text(encoding="utf-8")
    assert found == kernel_page.page(), "the op table has changed: python docs/generate.py"
    assert all(f"`{kernel_signature(op)}`" in found for op in TABLE.values())


def not_as_the_page_says(op: str, positional: int, params: dict[str, Any]) -> list[str]:
    """In what one call differs from the page."""
    listed, first = kernel_page.parameters(TABLE[op]), kernel_signature(TABLE[op]).partition("(")[2]
    before = [name for name in first.partition("*")[0].rstrip(", )").split(", ") if name]
    wrong = [] if "*arrays" in first or positional == len(before) else [f"{op}: {positional} operands"]
    for name, value in params.items():
        what = "key" if name == "key" and isinstance(value, tuple) else kernel_page.kind(value)
        if what not in listed.get(name, {}):
            wrong.append(f"{op}: {name} is {what}, not {list(listed.get(name, {}))}")
    return wrong


@pytest.mark.usefixtures("_only_the_cpu")
def test_kernels_get_what_their_page_says() -> None:
    """Seen by the kernels themselves, over every operation and gradient; test_protocol.py watches the core alone."""
    complaints: set[str] = set()
    called: set[str] = set()

    class Watched(CPUBackend):
        def kernel(self, op: str) -> Any:
            function = super().kernel(op)

            def watched(*operands: Any, **params: Any) -> Any:
                called.add(op)
                complaints.update(not_as_the_page_says(op, len(operands), params))
                return function(*operands, **params)

            return function and watched

    class Plugin:
        @hookimpl
        def micrograd_open(self, address: str) -> Any:
            backend = Watched()
            backend.device = "mine:0"
            return backend

    plugins.register("mine", Plugin())
    device = Device("mine")
    for case in cases(("bool", "int64", "float64"), device.capabilities):
        if case.layout != "contiguous":
            continue
        with np.errstate(all="ignore"):
            operands = case.tensors(device, requires_grad=True)
            result = case.call(operands)
            if is_differentiable(case) and result.requires_grad:
                (abs(result) ** 2).sum().backward()
    assert not complaints
    assert called > CORE_KERNELS


def test_a_call_that_the_page_does_not_list_is_noticed() -> None:
    assert not_as_the_page_says("softmax", 1, {"axis": (1,)}) == ["softmax: axis is tuple of integers, not ['integer']"]
    assert not_as_the_page_says("softmax", 1, {"axis": -1})
    assert not_as_the_page_says("vecdot", 2, {"axis": 1})
    assert not_as_the_page_says("sum", 1, {"axis": 1, "keepdims": False})
    assert not_as_the_page_says("sum", 1, {"axes": (1,)})
    assert not_as_the_page_says("arange", 0, {"stop": 3, "dtype": None})
    assert not not_as_the_page_says("vecdot", 2, {"axis": -1})


@pytest.mark.usefixtures("_only_the_cpu")
def test_a_kernel_written_from_its_signature_is_called() -> None:
    took = []

    def arange(stop: int, *, dtype: Any) -> Any:
        took.append(stop)
        return np.arange(stop, dtype=dtype)

    class Plugin:
        @hookimpl
        def micrograd_open(self, address: str) -> Any:
            return ArrayAPIBackend(np, "mine:0", kernels={"arange": arange})

    plugins.register("mine", Plugin())
    assert micrograd_core.arange(4, device="mine").tolist() == [0, 1, 2, 3]
    assert took == [4]
