"""What type checkers know: stubs are what is made now, correct programs and those of the docs pass, mistakes do not."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import micrograd_core as mg
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.nn import functional
from micrograd_core.ops import TABLE
from micrograd_core.ops.shared import other_spellings

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
import stubs

ROOT, HERE = Path(__file__).parents[2], Path(__file__).parent
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in
         "devices jit layout linalg networks tensors transforms values".split())]  # fmt: skip
"""Pages whose programs are a user's. `interop` is about libraries without types, `backends` for authors."""
LOOSE = """
disallow_untyped_defs = False
disallow_incomplete_defs = False
disallow_untyped_calls = False
disallow_untyped_decorators = False
allow_redefinition_new = True
"""
"""Sessions define functions without types, and give a name to one thing after the other."""


def session(page: Path) -> str:
    """The examples of a page as a program with the same lines, without those that show an error."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * len(text.splitlines())
    for example in doctest.DocTestParser().get_examples(text):
        if example.exc_msg is None:
            for i, line in enumerate(example.source.splitlines()):
                lines[example.lineno + i] = line
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all programs."""
    folder = tmp_path_factory.mktemp("programs")
    for path in (HERE / "correct.py", HERE / "wrong.py"):
        (folder / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    for page in PAGES:
        (folder / f"page_{page.stem}.py").write_text(session(page), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def mypys(programs: Path) -> dict[str, dict[int, str]]:
    """The errors of each file by line, from one run, of the stubs' too."""
    pytest.importorskip("mypy")
    config = programs / "mypy.ini"
    sessions = ",".join(f"page_{page.stem}" for page in PAGES)
    config.write_text(f"[mypy]\nstrict = True\nlocal_partial_types = True\n[mypy-{sessions}]{LOOSE}")
    files = [*sorted(programs.glob("*.py")), *sorted((ROOT / "micrograd_core").rglob("*.pyi"))]
    command = ["-m", "mypy", "--config-file", str(config), "--cache-dir", str(programs / "cache"), "--no-error-summary"]
    run = subprocess.run(
        [sys.executable, *command, *map(str, files)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found: dict[str, dict[int, str]] = {}
    for line in run.stdout.splitlines():
        match = re.match(r"(.+?):(\d+): error: (.*)", line)
        if match:
            found.setdefault(Path(match[1]).name, {})[int(match[2])] = match[3]
    return found


@pytest.fixture(scope="module")
def pyrights(programs: Path) -> dict[str, dict[int, str]]:
    """The errors of each file by line, from one run."""
    pytest.importorskip("pyright", reason="pip install 'pyright[nodejs]'")
    settings = {
        "include": ["*.py"], "pythonVersion": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "typeCheckingMode": "standard", "reportPossiblyUnboundVariable": False, "reportUnusedExpression": False,
    }  # fmt: skip
    (programs / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    run = subprocess.run(command, cwd=programs, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found: dict[str, dict[int, str]] = {}
    for each in json.loads(run.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            found.setdefault(Path(each["file"]).name, {})[each["range"]["start"]["line"] + 1] = each["message"]
    return found


CHECKERS = ["mypys", "pyrights"]


@pytest.mark.parametrize("checker", CHECKERS)
def test_correct_programs_pass(checker: str, request: pytest.FixtureRequest) -> None:
    found = dict(request.getfixturevalue(checker))
    found.pop("wrong.py", None)
    assert found == {}


@pytest.mark.parametrize("checker", CHECKERS)
def test_each_mistake_is_found(checker: str, request: pytest.FixtureRequest) -> None:
    lines = (HERE / "wrong.py").read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# no")}
    found = request.getfixturevalue(checker)["wrong.py"]
    assert {number: lines[number - 1] for number in marked - found.keys()} == {}
    assert {number: found[number] for number in found.keys() - marked} == {}


def test_mistakes_are_mistakes() -> None:
    """What is marked as wrong in names does not run either."""
    tree = ast.parse((HERE / "wrong.py").read_text(encoding="utf-8"))
    (body,) = [node.body for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "names"]
    scope = {"mg": mg, "x": mg.ones((3, 3), requires_grad=True)}
    for name in ("linalg", "nn", "optim", "random"):
        scope[name] = getattr(mg, name)
    hidden = {"mg.relu_gradient(x, x)", "mg.import_module('os')", "mg.linalg.Any", "optim.annotations"}
    for line in map(ast.unparse, body):
        if line not in hidden:  # what is there, and nobody's business
            with pytest.raises(AttributeError):
                eval(line, scope)
        assert not any(line == f"mg.{name}" for name in dir(mg))


def test_correct_programs_run() -> None:
    spec = importlib.util.spec_from_file_location("correct", HERE / "correct.py")
    assert spec is not None
    assert spec.loader is not None
    correct = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(correct)
    x = mg.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 1.0]])
    correct.operators(x.copy(), x)
    wide = mg.random.normal((2, 4), requires_grad=True)
    batches = [(wide.detach(), mg.asarray([0, 1]))] * 3
    assert len(correct.learning(correct.Residual(4), iter(batches))) == 3
    assert correct.step(mg.ones(()), 0.5).item() == -0.5
    assert correct.scalars(mg.Neuron(2)) != 0.0


# ── the stubs themselves ─────────────────────────────────────────────────────────────────────────────────────


def test_the_stubs_are_what_is_made_now() -> None:
    assert stubs.differences() == [], "run python docs/stubs.py, or uv sync"


def test_signatures_are_those_of_the_running_functions() -> None:
    """Read back from the stub: names, kinds and defaults of parameters."""
    scope: dict[str, Any] = {}
    tree = ast.parse((ROOT / "micrograd_core" / "__init__.pyi").read_text(encoding="utf-8"))
    found = {node.name: node.args for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert len(found) > 100
    for name, args in found.items():
        exec(f"def f({ast.unparse(bare(args))}): ...", scope)
        ours, theirs = (inspect.signature(f).parameters.values() for f in (scope["f"], getattr(mg, name)))
        others = other_spellings(each.name for each in theirs)
        same = [each for each in ours if each.name not in others]
        assert [(p.name, p.kind) for p in same] == [(p.name, p.kind) for p in theirs], name
        pairs = [(a.default, b.default) for a, b in zip(same, theirs, strict=True) if a.default is not ...]
        assert all(a == b for a, b in pairs), name


def bare(args: ast.arguments) -> ast.arguments:
    for each in ast.walk(args):
        if isinstance(each, ast.arg):
            each.annotation = None
    return args


@pytest.fixture
def _restored() -> Any:
    saved = dict(TABLE), dict(vars(mg))
    yield
    TABLE.clear()
    TABLE.update(saved[0])
    FUNCTIONS._made.clear()
    vars(mg).clear()
    vars(mg).update(saved[1])


def renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    FUNCTIONS["softmax"].__wrapped__ = lambda x, /, *, dim=-1: None  # type: ignore[attr-defined]


def added(monkeypatch: pytest.MonkeyPatch) -> None:
    vars(mg)["__all__"] = [*mg.__all__, "wave"]
    vars(mg)["wave"] = FUNCTIONS._made["wave"] = FUNCTIONS["sin"]
    TABLE["wave"] = TABLE["sin"]


def removed(monkeypatch: pytest.MonkeyPatch) -> None:
    vars(mg)["__all__"] = [name for name in mg.__all__ if name != "sin"]


def a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mg.Tensor, "erf", mg.Tensor.sin, raising=False)


def a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functional.leaky_relu, "__defaults__", (0.5, False))


@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize(
    ("change", "where"),
    [
        (renamed, "__init__"),
        (added, "__init__"),
        (removed, "__init__"),
        (a_method, "tensor"),
        (a_default, "activations"),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_a_change_is_noticed(change: Callable[[Any], None], where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapped = vars(FUNCTIONS["softmax"])["__wrapped__"]
    try:
        change(monkeypatch)
        assert any(path.endswith(f"{where}.pyi") for path in stubs.differences())
    finally:
        FUNCTIONS["softmax"].__wrapped__ = wrapped  # type: ignore[attr-defined]


def test_every_package_says_that_it_has_types() -> None:
    packages = {path.parent for path in ROOT.glob("[bmp]*/**/__init__.py") if "micrograd_" in path.parent.name}
    packages = {path for path in packages if "template" not in path.parts and "tests" not in path.parts}
    assert {path.name for path in packages} >= {
        "micrograd_core",
        "micrograd_cpu",
        "micrograd_cuda",
        "micrograd_rawbuffer",
    }
    assert [path for path in packages if not (path / "py.typed").exists()] == []
