"""The plan of the house: rooms are layers, no rings, an evening's reading, and doors that stay where they were."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Any

import micrograd_core

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
import evening

ROOT = Path(__file__).parents[1]
CORE = ROOT / "micrograd_core"


def modules(core: Path) -> dict[str, Path]:
    """Files by the name of the module."""
    found = {}
    for path in sorted(core.rglob("*.py")):
        parts = (core.name, *path.relative_to(core).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(tree: ast.AST, types: bool = False) -> Iterator[ast.Import | ast.ImportFrom]:
    """All imports, late ones included; with `types` also those that only type checkers see."""
    for node in ast.iter_child_nodes(tree):
        if not types and isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for each in node.orelse:
                yield from imports(ast.Module([each], []))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        else:
            yield from imports(node, types)


def graph(core: Path, types: bool = False) -> dict[str, set[str]]:
    """Which modules of a package each of them imports; with `types` also what it names in annotations only."""
    known, found = modules(core), {}
    for name, path in known.items():
        targets = set()
        for node in imports(ast.parse(path.read_text(encoding="utf-8")), types):
            if isinstance(node, ast.Import):
                targets |= {each.name for each in node.names}
            else:
                assert not node.level, f"{name} imports relatively"
                base = node.module or ""
                targets |= {inner if (inner := f"{base}.{each.name}") in known else base for each in node.names}
        found[name] = targets & known.keys()
    return found


def rings(edges: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules of which each leads to each other one."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for each in edges[waiting.pop()] - seen:
                seen.add(each)
                waiting.append(each)
        return seen

    leads = {name: reached(name) for name in edges}
    found = {frozenset(other for other in leads[name] if name in leads[other]) for name in edges if name in leads[name]}
    return [set(each) for each in found]


def outsiders(source: str) -> set[str]:
    """Packages, besides Python's own, that importing a file imports, and other distributions of ours, late ones too."""
    tree = ast.parse(source)
    at_once = [each for each in tree.body if isinstance(each, (ast.Import, ast.ImportFrom))]
    found = set()
    for node in imports(tree):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
        for package in {name.partition(".")[0] for name in names} - sys.stdlib_module_names:
            if node in at_once or package.startswith("micrograd_"):
                found.add(package)
    return found


def test_the_core_needs_pluggy_only() -> None:
    """What else a file uses is imported where it is used, and says what to install where it is missing."""
    for name, path in modules(CORE).items():
        extra = {"pytest", "numpy"} if name.startswith("micrograd_core.conformance.") else set()
        extra = {"einops"} if name == "micrograd_core.torch.einops" else extra  # which serves those who have it
        assert outsiders(path.read_text(encoding="utf-8")) <= {"micrograd_core", "pluggy"} | extra, name
    assert outsiders("import numpy.linalg\nfrom json import loads") == {"numpy"}
    assert outsiders("def f():\n    import numpy\n    from micrograd_train import train") == {"micrograd_train"}


def test_no_ring_has_more_than_three_files() -> None:
    found = sorted(sorted(name.removeprefix("micrograd_core.") for name in ring) for ring in rings(graph(CORE)))
    assert found == [
        ["backend", "interpreters.boundary", "interpreters.raw"],  # its `compile` composes, its faults are looked for
        ["scalar.bridge", "scalar.value"],  # a `Value` on a device is one of the bridge's
    ]


def test_annotations_make_no_ring_of_more_than_five_files() -> None:
    """The engine, say, annotates with `BaseTensor` and the class of its operands, and never names `Tensor`."""
    largest = max(rings(graph(CORE, types=True)), key=len)
    assert len(largest) <= 5, sorted(largest)


def test_a_ring_would_be_seen(tmp_path: Path) -> None:
    core = tmp_path / "core"
    core.mkdir()
    (core / "__init__.py").touch()
    for i in range(4):  # one of them late, one under a condition
        line = f"from core import m{(i + 1) % 4}"
        (core / f"m{i}.py").write_text({0: f"def f():\n    {line}\n", 1: f"if f:\n    {line}\n"}.get(i, line + "\n"))
    assert rings(graph(core)) == [{f"core.m{i}" for i in range(4)}]
    (core / "m2.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from core import m3\n")
    assert rings(graph(core)) == []
    assert rings(graph(core, types=True)) == [{f"core.m{i}" for i in range(4)}]


def assigned_elsewhere(source: str) -> list[str]:
    """Assignments to attributes of modules that a file imports."""
    tree = ast.parse(source)
    imported = {
        (each.asname or each.name).partition(".")[0]
        for node in imports(tree)
        for each in node.names
        if isinstance(node, ast.Import) or (each.asname or each.name).islower()
    }
    found = []
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in imported:
                    found.append(ast.unparse(each))
    return found


def test_no_module_sets_a_global_of_another() -> None:
    found = {name: assigned_elsewhere(path.read_text(encoding="utf-8")) for name, path in modules(CORE).items()}
    assert not {name: each for name, each in found.items() if each}
    assert assigned_elsewhere("from core import dispatch\ndispatch.Tensor, y = 1, 2") == ["dispatch.Tensor"]


def readers(source: str) -> list[str]:
    """Where a file indexes records, or looks at how they are made."""
    found = []
    for each in ast.walk(ast.parse(source)):
        if isinstance(each, ast.Subscript):
            name = ast.unparse(each.value).rpartition(".")[2]
            place = ast.unparse(each.slice)
            if place in ("4::2", "5::2") or (place[0] in "-:0123456789" and name in ("record", "_record", "parent")):
                found.append(ast.unparse(each))
    return found


def test_one_file_knows_how_a_record_is_laid_out() -> None:
    found = {name: readers(path.read_text(encoding="utf-8")) for name, path in modules(CORE).items()}
    assert {name for name, each in found.items() if each} == {"micrograd_core.engine.graph"}
    assert readers("x._record[4], f(record[:4]), params['key']") == ["x._record[4]", "record[:4]"]
    assert readers("each[4::2]") == ["each[4::2]"]


def files_of(work: Callable[[], Any]) -> set[str]:
    """The files of the core whose functions run in `work`."""
    seen = set()

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(CORE)):
            seen.add(Path(frame.f_code.co_filename).relative_to(CORE).as_posix())

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(before)
    return seen


def test_an_operation_and_its_gradient_are_followed_in_six_files() -> None:
    x, y = micrograd_core.Tensor([1.0, 2.0]), micrograd_core.Tensor([3.0, 4.0])
    for _ in range(100):  # kernels that are new are looked at, in other files
        (x * y).sum().backward()
    found = files_of(lambda: (x * y).sum().backward())
    assert found == {
        "engine/apply.py",  # the operator, the method; their records
        "engine/array.py",  # a tensor around a handle
        "engine/backward.py",  # from the tensor to the sweep, and from there to .grad
        "engine/sweep.py",
        "ops/core/elementwise.py",  # the rule of multiply
        "ops/core/reductions.py",  # the rule of sum
    }
    assert len(files_of(lambda: micrograd_core.Tensor([1.0]).softmax())) > len(found)


def test_context_variables_have_one_home() -> None:
    makers = {name for name, path in modules(CORE).items() if "] = ContextVar(" in path.read_text(encoding="utf-8")}
    assert makers == {"micrograd_core.support.context"}


def test_nobody_below_imports_the_package_itself() -> None:
    importers = {name.split(".")[1] for name, targets in graph(CORE).items() if "micrograd_core" in targets}
    assert importers <= {"tools", "conformance", "torch"}


def test_every_room_says_what_it_is_for() -> None:
    rooms = [path for path in CORE.rglob("*") if path.is_dir() and list(path.glob("*.py"))]
    assert len(rooms) > 12
    for room in rooms:
        assert ast.get_docstring(ast.parse((room / "__init__.py").read_text())), room


def test_the_core_reads_in_an_evening() -> None:
    printed, total = evening.table()
    assert total <= evening.LIMIT, printed
    imported = evening.closed()
    assert sum(imported.values()) <= evening.CLOSED_LIMIT, imported
    families = {name for name in imported if re.match(r"ops/\w+/", name)}
    assert families == {f"ops/core/{name}.py" for name in ("elementwise", "matmul", "movement", "reductions")}
    listed = set(evening.READING)
    rooms = {f"{room}/{path.name}" for room in ("ops/core", "engine") for path in (CORE / room).glob("*.py")}
    assert {name for name in rooms if not name.endswith("__init__.py")} <= listed


def test_the_readme_lists_the_evening_in_order() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("An evening's reading, in order:")[2]
    folder, found = "", []
    for line in text.split("```")[1].strip().splitlines():
        first, *others = line.split()
        folder = "" if first.endswith(".py") and line[0] != " " else first if first.endswith("/") else folder
        found += [folder + name for name in ([first, *others] if first.endswith(".py") else others)]
    assert found == evening.READING


def test_the_readme_shows_the_folders_that_there_are() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    tree = page.partition("```\nmicrograd_core/\n")[2].partition("```")[0]
    shown: dict[str, set[str]] = {"": set(), "  ": set()}  # by what is before them
    for line in filter(re.compile(r" ? ?\w").match, tree.splitlines()):
        names = takewhile(re.compile(r"\w+/?$").match, re.split(" {2,}", line.strip()))
        shown["  " if line[0] == " " else ""].update(name.rstrip("/") for name in names)
    files = {path.stem for path in CORE.glob("[a-z]*.py")}
    assert shown["  "] == files | {path.parent.name for path in CORE.glob("*/__init__.py")}
    assert shown[""] == {"backends", "plugins", "tests", "benchmarks", "docs"}
    assert all((ROOT / name).is_dir() for name in shown[""])
    members = {path.parent.name for path in ROOT.glob("*/*/pyproject.toml")} - {"faulty"}
    assert members <= set(re.findall(r"\b(\w+) \(", tree.partition("\nbackends/")[2]))


def test_a_docstring_says_what_it_is_about() -> None:
    """It does not refer to its neighbour, which a reader of ``help()`` does not see."""
    vague = re.compile(
        r'"""(The same(\.|,| of | for | by | where | which | with )|Theirs\b|All\.|Of `\w+`\."""|As above)'
    )
    sources = [*CORE.rglob("*.py"), *ROOT.glob("*/*/micrograd_*/**/*.py")]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sources
        for line in path.read_text("utf8").splitlines()
        if vague.search(line)
    ]
    assert not found


def test_files_are_short() -> None:
    """Files over 500 lines, without docstrings, want a reason, and there is none so far."""

    def lines(source: str) -> int:
        texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr)]
        told = [each for each in texts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        return len(source.splitlines()) - sum((each.end_lineno or each.lineno) - each.lineno + 1 for each in told)

    lengths = {path: lines(path.read_text()) for path in CORE.rglob("*.py")}
    assert max(lengths.values()) <= 500, max(lengths, key=lambda path: lengths[path])


def test_public_doors_stay_where_they_were() -> None:
    doors = "adapters.array_api adapters.strided amp backend conformance data device dtypes errors fft layout linalg nn"
    for name in [*doors.split(), "checkpoints", "optim", "plugins", "random"]:
        assert __import__(f"micrograd_core.{name}", fromlist=["*"]).__name__ == f"micrograd_core.{name}"


# ── what backends stand on ───────────────────────────────────────────────────────────────────────────────────

AUTHORS = frozenset(
    "adapters.array_api adapters.compiled adapters.strided backend dtypes errors support.locks support.signatures "
    "support.warning layout plugins compiler.assembly compiler.executor compiler.fusion compiler.languages "
    "compiler.lengths compiler.nests compiler.packs compiler.runs compiler.specs compiler.passes compiler.program "
    "compiler.views compiler.writer support.code_cache support.dumping".split()
)
"""What authors of backends import from, those of compilers from the last fifteen."""

DEFINITIONS = {
    "ops.network.activations.CUBIC", "ops.network.activations.FAR", "ops.network.activations.TAIL",
    "ops.network.convolution.transposed_size", "ops.network.patches.lengths_of", "ops.standard.random.MULTIPLIERS",
    "ops.standard.random.PLACE", "ops.standard.random.WEYL", "ops.standard.random.place_of",
    "ops.standard.random.start_at", "support.powers.POWERS",
}  # fmt: skip
"""What a kernel has in common with the definition of its operation: constants, how many windows fit, how large what a
transpose gives is, how the place of a random number is written."""


TABLES = {"interpreters.raw.compose", "interpreters.raw.renew"}
"""What docs/protocol.md tells them of."""


def beyond_the_boundary(source: str) -> set[str]:
    """What a file imports from the core that is not for authors."""
    names = set()
    for node in imports(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {f"{each.name}." for each in node.names}
        else:
            names |= {f"{node.module}.{each.name}" for each in node.names}
    core = {name.removeprefix("micrograd_core.") for name in names if name.startswith("micrograd_core.")}
    return {
        name
        for name in core - DEFINITIONS - {"interpreters.raw.compose", "interpreters.raw.renew"}
        if name.rpartition(".")[0] not in AUTHORS
    }


def test_backends_import_what_is_for_authors() -> None:
    packages = [*ROOT.glob("backends/*/micrograd_*"), *ROOT.glob("plugins/*/micrograd_*")]
    for name in ("models", "mpi", "train"):  # which are no backends
        packages.remove(ROOT / "plugins" / name / f"micrograd_{name}")
    files = {path: path.read_text(encoding="utf-8") for package in packages for path in package.rglob("*.py")}
    assert {path.parts[-2] for path in files} >= {"micrograd_cpu", "micrograd_cuda", "micrograd_rawbuffer"}
    assert not {str(path): found for path, source in files.items() if (found := beyond_the_boundary(source))}
    assert beyond_the_boundary("from micrograd_core.amp import POLICY\nfrom micrograd_core.ops import TABLE") == {
        "amp.POLICY", "ops.TABLE",
    }  # fmt: skip
    assert beyond_the_boundary("import micrograd_core.ops\nfrom micrograd_core.interpreters.raw import Kernels") == {
        "ops.", "interpreters.raw.Kernels",
    }  # fmt: skip
    assert not beyond_the_boundary("import numpy\nfrom micrograd_core.interpreters.raw import compose")


OUTSIDE = frozenset(
    "checkpoints dtypes engine.apply engine.array errors nn ops ops.record ops.tangents optim support.context "
    "tools".split()
)
"""What distributions beside backends import from, and the package itself."""


def test_several_processes_need_nothing_of_the_core_that_another_author_could_not_use() -> None:
    package = ROOT / "plugins/mpi/micrograd_mpi"
    found = {name for path in package.glob("*.py") for name in beyond_the_boundary(path.read_text(encoding="utf-8"))}
    beyond = {name for name in found if name.rpartition(".")[0] not in {*OUTSIDE, ""}}
    assert found
    assert not beyond
    core = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "micrograd_core").rglob("*.py"))
    assert "mpi4py" not in core
    assert "micrograd_mpi" not in core


def test_a_kernel_declines_in_one_way() -> None:
    """It answers `NotImplemented`; nothing says beforehand that it may."""
    told = "declin" + "es"
    for path in [
        *ROOT.glob("backends/**/*.py"),
        *ROOT.glob("plugins/**/*.py"),
        *ROOT.glob("tests/**/*.py"),
        *CORE.rglob("*.py"),
    ]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.Attribute) and node.attr == told), path
            assert not (isinstance(node, ast.Constant) and node.value == told), path


# ── what is published ────────────────────────────────────────────────────────────────────────────────────────

FOLDERS = {
    tomllib.loads(path.read_text(encoding="utf-8"))["project"]["name"]: path.parent
    for folder in ("", "backends/*/", "plugins/*/")
    for path in ROOT.glob(f"{folder}pyproject.toml")
}
PROJECTS = {
    name: tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, folder in FOLDERS.items()
}


def test_only_what_names_its_address_can_be_uploaded() -> None:
    """An index shows the README, whose links need an address; and `micrograd-faulty` is broken on purpose."""
    for name, project in PROJECTS.items():
        private = "Private :: Do Not Upload" in project.get("classifiers", [])
        assert private == (name == "micrograd-faulty" or "urls" not in project), name
        if not private:
            page = (FOLDERS[name] / project["readme"]).read_text(encoding="utf-8")
            assert not re.findall(r"\]\((?!https://|#)[^)]*\)", page), name


def installed_by_name(text: str) -> set[str]:
    """What of ours a page says to install from the index."""
    lines = [re.sub(r"-e \S+", "", line) for line in re.findall(r"pip install ([^`\n]*)", text)]
    return {name for line in lines for name in re.findall(r"(?<![\w./-])micrograd-[\w-]+", line.partition("&&")[0])}


def test_pages_install_by_name_only_what_the_project_publishes() -> None:
    """Whatever else is called micrograd could be registered by anybody."""
    assert installed_by_name("pip install 'micrograd-mine[test]' -e micrograd-his && x") == {"micrograd-mine"}
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/*/README.md"), *CORE.rglob("*.txt")]:
        found = installed_by_name(page.read_text(encoding="utf-8"))
        assert found <= PROJECTS.keys() - {"micrograd-faulty"}, page
