"""What `dir`, tab and `help` offer: what is public, and nothing else."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import micrograd_core as mg
from micrograd_core import nn
from micrograd_core.ops import TABLE

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
import stubs

DOORS = stubs.doors()
VERSIONS = {"__version__", "__array_api_version__"}


def test_the_doors_are_found() -> None:
    names = {door.__name__.removeprefix("micrograd_core").lstrip(".") for door in DOORS}
    assert names >= {"", "amp", "data", "errors", "fft", "linalg", "nn", "nn.initialization", "optim", "random"}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_a_door_lists_each_name_once_and_has_it(door: ModuleType) -> None:
    assert len(set(door.__all__)) == len(door.__all__)
    assert [name for name in door.__all__ if not hasattr(door, name)] == []


@pytest.mark.parametrize("door", [door for door in DOORS if door is not mg.errors], ids=lambda door: door.__name__)
def test_dir_offers_what_is_public_and_nothing_else(door: ModuleType) -> None:
    offered = dir(door)
    assert set(offered) == set(door.__all__) | (VERSIONS if door is mg else set())
    assert [name for name in offered if name.startswith("_") and not name.startswith("__")] == []
    for name in offered:
        value: Any = getattr(door, name)
        home = (
            value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or "micrograd_core"
        )
        ours = home.startswith("micrograd_core")
        assert ours or not (inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value)), name


def test_kernels_of_gradients_are_there_and_not_offered() -> None:
    hidden = [name for name in TABLE if name.endswith("_gradient")]
    assert len(hidden) > 10
    for name in hidden:
        assert callable(getattr(mg, name))
        assert name not in dir(mg)
    assert "custom_gradient" in dir(mg)


def test_looking_around_imports_no_more_than_the_families_of_operations() -> None:
    program = (
        "import sys, micrograd_core as mg; before = set(sys.modules); dir(mg); "
        "new = set(sys.modules) - before; known = ('micrograd_core.ops.', 'numpy', 'micrograd_cpu'); "
        "print(*[name for name in new if '.' in name and not name.startswith(known[0]) or name in known[1:]])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


CLASSES = [getattr(nn, name) for name in dir(nn) if inspect.isclass(getattr(nn, name))]
CALLS = [kind for kind in CLASSES if issubclass(kind, nn.Call) and kind is not nn.Call]


@pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.__name__)
def test_help_shows_the_signature_and_what_is_computed(kind: Any) -> None:
    page = pydoc.render_doc(kind, renderer=pydoc.plaintext)
    signature = inspect.signature(kind)
    shown = "".join(page.replace(" |  ", "").split())  # Python 3.13 breaks long ones
    assert "".join(f"{kind.__name__}{signature}".split()) in shown or not signature.parameters  # which pydoc leaves out
    assert "*args" not in str(signature)
    if kind.function is None:
        assert TABLE[kind.operation].doc.split("\n")[0] in page
        assert f"The operation `{kind.operation}` as a module." in page
    else:
        assert str(kind.function.__doc__).strip().split("\n")[0] in page


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_each_class_says_what_it_is(kind: Any) -> None:
    assert kind.__doc__
    assert not issubclass(kind, nn.Module) or kind.forward.__doc__
