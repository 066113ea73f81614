"""Docstrings: every function of the op table says what it takes and gives, and its example runs; the others follow."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import pytest

import micrograd_core as mg
import micrograd_models
import micrograd_train
from micrograd_core import torch
from micrograd_core.adapters.array_api import ArrayAPIBackend
from micrograd_core.adapters.compiled import CompiledBackend
from micrograd_core.adapters.strided import StridedBackend
from micrograd_core.array.documentation import meanings, sections
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.methods import MethodDoc
from micrograd_core.backend import Backend
from micrograd_core.ops import TABLE

MADE = [name for name in FUNCTIONS if getattr(mg, name, None) is FUNCTIONS[name]]
WITHOUT_EXAMPLE = ["micrograd_core.amp.autocast_dtype", "micrograd_core.amp.matmul_precision"]
"""Public callables without an example: readers of context variables, whose docstrings are Python's."""


def documented(text: str) -> set[str]:
    """The parameters that a section describes."""
    heads = re.findall(r"^(\S[^\n:]*?)(?: :[^\n]*)?$", text, flags=re.M)
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


@pytest.mark.parametrize("name", MADE)
def test_a_function_of_the_table_says_all_of_it(name: str) -> None:
    function = FUNCTIONS[name]
    found = sections(function.__doc__ or "")
    assert found.keys() == {"", "Parameters", "Returns", "Raises", "Examples"}
    assert documented(found["Parameters"]) == set(inspect.signature(function).parameters)
    assert "Of the operation." not in found["Parameters"]  # as those of operations that are not ours
    assert not re.search(r"``x[1-9]``", found[""])


def wrong_examples(name: str, value: Any) -> int:
    """How many examples of a docstring do not run, or print something else, where nothing else is imported."""
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(value) or "", {}, name, None, None)
    return doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", MADE)
def test_its_example_runs(name: str) -> None:
    assert not wrong_examples(name, FUNCTIONS[name])


def test_each_meaning_is_of_a_parameter() -> None:
    taken = {
        each for name, function in FUNCTIONS.items() for one in inspect.signature(function).parameters
        for each in (one, f"{name}.{one}")
    }  # fmt: skip
    of_pytorch = (mg.nn.functional.hardtanh, mg.nn.functional.pairwise_distance, mg.nn.functional.glu)
    taken |= {one for function in of_pytorch for one in inspect.signature(function).parameters}
    assert meanings().keys() <= taken


FACADE = ["micrograd_core.torch", *(m.name for m in walk_packages(torch.__path__, "micrograd_core.torch."))]
"""The modules that have PyTorch's names: what they define themselves is public."""
HOOKS = {"facts", "update", "update_together", "settings_at", "keeps"}
"""Methods that the library calls: where a subclass defines one anew, the docstring of its base says the rest."""
NOT_BY_HAND = HOOKS | {"forward", "moments", "corrected"}
"""Methods that need no example, as no reader calls them."""
TYPES = "bool|bytes|DType|dict|float|int|None|str|string|Tensor|tuple"
"""One of these, or the name of a class, stands in the sentence of a property."""
EMPTY = re.compile(r"(The same|Theirs|All|Both|Any shape|Itself|As [^.]*)\.")


def own(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public names of a module: those in ``__all__``, or those that it defines."""
    listed = getattr(module, "__all__", None)
    for name in dir(module) if listed is None else listed:
        value = getattr(module, name)
        if name != "TensorBackend" and (  # which einops finds by its base, and calls
            listed is not None or (name[0] != "_" and getattr(value, "__module__", "") == module.__name__)
        ):
            yield name, value


def public(module: ModuleType = mg, seen: frozenset[str] = frozenset()) -> Iterator[tuple[str, Any]]:
    """Public functions and classes, of public modules too, which nothing makes from the table."""
    for name, value in own(module):
        if isinstance(value, ModuleType) and value.__name__ not in seen and value.__name__.startswith("micrograd"):
            yield from public(value, seen | {module.__name__})
        elif callable(value) and value is not FUNCTIONS.get(name) and not isinstance(value, mg.DType):
            yield f"{module.__name__}.{name}", value


def members(classes: Iterable[type]) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of classes, each under the name of the class that defines it."""
    for kind in dict.fromkeys(base for each in classes for base in each.__mro__):
        for name, value in vars(kind).items() if kind.__module__.startswith("micrograd") else ():
            function = isinstance(value, (staticmethod, classmethod)) or inspect.isfunction(value)
            told = name in HOOKS and any(hasattr(base, name) for base in kind.__bases__)
            if name[0] != "_" and (isinstance(value, property) or function) and not told:
                yield f"{kind.__module__}.{kind.__name__}.{name}", value


def of_backends() -> Iterator[tuple[str, Any]]:
    """What the author of a backend writes; what an adapter defines, the protocol's docstring describes."""
    seen: set[str] = set()
    for kind in (Backend, StridedBackend, CompiledBackend, ArrayAPIBackend):
        yield from ((name, value) for name, value in members([kind]) if name.rpartition(".")[2] not in seen)
        seen |= vars(kind).keys()


def arguments(value: Any) -> tuple[list[str], Any]:
    """The names of what a caller gives, without the object of a method, and the annotation of the result."""
    function = getattr(value, "__func__", value)
    method = function is not value or value in METHODS.values()
    while isinstance(function.__doc__, MethodDoc):
        function, method = function.__doc__.function(), True
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return [], None
    names = [each.name for each in signature.parameters.values()]
    return names[1:] if method and not isinstance(value, staticmethod) else names, signature.return_annotation


def lacks(value: Any) -> list[str]:
    """Which parameters a docstring does not describe, and whether it has no result."""
    found = sections(inspect.getdoc(value) or "")
    names, result = arguments(value)
    taken = {name for name in names if name not in ("args", "kwargs", "self") and name[0] != "_"}
    missing = sorted(taken - documented(found.get("Parameters", "")))
    told = {"Returns", "Yields"} & found.keys() or result in (None, "None", "NoReturn")
    return missing if told or inspect.isclass(value) else [*missing, "Returns"]


def invents(value: Any) -> list[str]:
    """Which names a docstring describes as parameters that there are not."""
    found = documented(sections(inspect.getdoc(value) or "").get("Parameters", ""))
    made = inspect.signature(value.__init__).parameters if inspect.isclass(value) else ()  # where `__new__` shows less
    return sorted(found - {*arguments(value)[0], *made})


PLUGINS = [*map(import_module, FACADE), micrograd_train, micrograd_models]
PUBLIC = dict(public()) | {name: value for module in PLUGINS for name, value in public(module)}
OF_BACKENDS = dict(of_backends())
MEMBERS = dict(members(value for value in PUBLIC.values() if inspect.isclass(value))) | OF_BACKENDS
METHODS = {name: value for name, value in MEMBERS.items() if not isinstance(value, property)}
CALLABLE = {**PUBLIC, **METHODS}


def shown(name: str, value: Any) -> bool:
    """Whether there is an example of a callable: its own, or of its class one that calls it."""
    method = name.rpartition(".")[2]
    kinds = [kind for kind in PUBLIC.values() if inspect.isclass(kind) and vars(kind).get(method) is value]
    of_class = any(f".{method}(" in sections(inspect.getdoc(kind) or "").get("Examples", "") for kind in kinds)
    return of_class or "Examples" in sections(inspect.getdoc(value) or "")


def test_public_callables_describe_what_they_take() -> None:
    assert not {name: missing for name, value in CALLABLE.items() if (missing := lacks(value))}


def test_public_callables_describe_nothing_that_they_do_not_take() -> None:
    assert not {name: others for name, value in CALLABLE.items() if (others := invents(value))}


def test_a_docstring_speaks_for_itself() -> None:
    assert not [name for name, value in (PUBLIC | MEMBERS).items() if EMPTY.fullmatch(inspect.getdoc(value) or "")]


def test_properties_say_of_what_type_they_are() -> None:
    said = {name: inspect.getdoc(value) or "" for name, value in MEMBERS.items() if isinstance(value, property)}
    assert not {name: text for name, text in said.items() if not re.search(rf"\b({TYPES}|[A-Z]\w+)\b", text[1:])}


def test_public_callables_show_how_they_are_called() -> None:
    by_hand = {
        name: value
        for name, value in CALLABLE.items()
        if name.rpartition(".")[2] not in NOT_BY_HAND and name not in OF_BACKENDS
    }
    assert [name for name, value in by_hand.items() if not shown(name, value)] == WITHOUT_EXAMPLE


@pytest.mark.filterwarnings("ignore:x.nonzero", "ignore:x.std", "ignore:x.var", "ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CALLABLE)
def test_the_example_of_a_public_callable_runs(name: str) -> None:
    assert not wrong_examples(name, CALLABLE[name])


def test_the_docstring_of_a_layer_tells_arguments_from_operands() -> None:
    found = sections(mg.nn.CTCLoss.__doc__ or "")
    assert documented(found["Parameters"]) == {"blank", "reduction", "zero_infinity"}
    assert documented(found["Shapes"]) == {"log_probs", "targets", "input_lengths", "target_lengths", "result"}
    assert "y = mg.nn.CTCLoss()(x, labels, lengths, counts)" in found["Examples"]
    found = sections(mg.nn.MaxUnpool1d.__doc__ or "")
    assert documented(found["Shapes"]) == {"input", "indices", "result"}
    assert "x = mg.ones((1, 1, 8))" in found["Examples"]
    assert "F.max_pool1d(x, 2, return_indices=True)" in found["Examples"]


def test_a_gap_would_be_seen() -> None:
    def waves(x: float, height: float) -> float:
        """Waves.

        Parameters
        ----------
        x : float
            Where.
        """
        return x * height

    assert lacks(waves) == ["height", "Returns"]
    assert TABLE["sin"].doc in (mg.sin.__doc__ or "")
