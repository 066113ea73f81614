"""Docstrings: every function of the op table says what it takes and gives, and its example runs; the others follow."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import micrograd_core as mg
from micrograd_core.array.documentation import meanings, sections
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.ops import TABLE

MADE = [name for name in FUNCTIONS if getattr(mg, name, None) is FUNCTIONS[name]]
WITHOUT = 0
"""How many public callables do not describe a parameter or their result. It only falls."""
WITHOUT_EXAMPLE = 2
"""How many public callables have no example: readers of context variables, which are Python's. It only falls."""


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


def public(module: ModuleType = mg, seen: frozenset[str] = frozenset()) -> Iterator[tuple[str, Any]]:
    """Public functions and classes, of public modules too, which nothing makes from the table."""
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, ModuleType) and value.__name__ not in seen and value.__name__.startswith("micrograd_core"):
            yield from public(value, seen | {module.__name__})
        elif callable(value) and value is not FUNCTIONS.get(name) and not isinstance(value, mg.DType):
            yield f"{module.__name__}.{name}", value


def lacks(value: Any) -> list[str]:
    """Which parameters a docstring does not describe, and whether it has no result or no example."""
    found = sections(inspect.getdoc(value) or "")
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    taken = {name for name in signature.parameters if name not in ("args", "kwargs", "self") and name[0] != "_"}
    missing = sorted(taken - documented(found.get("Parameters", "")))
    told = {"Returns", "Yields"} & found.keys() or signature.return_annotation in (None, "None")
    return missing if told or inspect.isclass(value) else [*missing, "Returns"]


PUBLIC = dict(public())


def test_public_callables_describe_what_they_take() -> None:
    found = {name: missing for name, value in PUBLIC.items() if (missing := lacks(value))}
    assert len(found) <= WITHOUT, found


def test_public_callables_show_how_they_are_called() -> None:
    found = [name for name, value in PUBLIC.items() if "Examples" not in sections(inspect.getdoc(value) or "")]
    assert len(found) <= WITHOUT_EXAMPLE, found


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_public_callable_runs(name: str) -> None:
    assert not wrong_examples(name, PUBLIC[name])


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
