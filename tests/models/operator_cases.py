"""The tests of operators that the package onnx carries, run here; as a script, the table of them in docs/models.md."""

from __future__ import annotations

import collections
import re
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

import micrograd_core as mg
from micrograd_models import from_onnx
from micrograd_models.operators import Refused

PAGE = Path(__file__).parents[2] / "docs/models.md"
DRAWS = re.compile(r"test_(bernoulli|training_dropout(?!_zero))")
"""What depends on the random numbers of another library."""
ROUNDED = {"float16": 4e-3, "bfloat16": 2e-2}
"""Relative errors of results of so few bits, of which the reference rounds at other places."""


class Outcome(NamedTuple):
    """What came of a case."""

    name: str
    operator: str
    result: str
    """passed, refused, draws or failed."""
    why: str = ""


def _array(x: Any) -> Any:
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def _given(x: Any) -> Any:
    x = _array(x)
    return mg.asarray(x.astype(np.float32)).astype("bfloat16") if x.dtype.name == "bfloat16" else mg.asarray(x)


def compare(found: Any, wanted: Any, rtol: float, atol: float) -> None:
    wanted = _array(wanted)
    name = wanted.dtype.name
    assert (found.shape, str(found.dtype)) == (wanted.shape, name)
    if name == "bfloat16":
        found, wanted = found.astype("float32"), wanted.astype(np.float32)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=ROUNDED.get(name, rtol), atol=atol)


def run(model: Any, inputs: Any, outputs: Any, rtol: float, atol: float) -> None:
    given = [_given(x) for x in inputs]
    with mg.no_grad(), np.errstate(all="ignore"):
        found = model(*given)
    for x, wanted in zip(found if isinstance(found, tuple) else (found,), outputs, strict=True):
        compare(x, wanted, rtol, atol)


def outcomes() -> Iterator[Outcome]:
    """All cases for single operators."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what onnx says of its own
        import onnx.backend.test.case.node as node

        cases = node.collect_testcases(None)
        for case in cases:
            kinds = [x.op_type for x in case.model.graph.node]
            operator = kinds[0] if len(kinds) == 1 and case.model.graph.node[0].domain in ("", "ai.onnx") else ""
            try:
                model = from_onnx(case.model.SerializeToString())
                if DRAWS.match(case.name):
                    yield Outcome(case.name, operator, "draws")
                    continue
                for inputs, outputs in case.data_sets:
                    run(model, inputs, outputs, case.rtol, case.atol)
            except Refused as error:
                yield Outcome(case.name, operator, "refused", str(error))
            except Exception as error:
                yield Outcome(case.name, operator, "failed", f"{type(error).__name__}: {error}")
            else:
                yield Outcome(case.name, operator, "passed")


def table() -> str:
    """The operators by what became of their cases, as a part of a page."""
    found = list(outcomes())
    counts = collections.Counter(x.result for x in found)
    by: dict[str, collections.Counter[str]] = {}
    for x in found:
        by.setdefault(x.operator, collections.Counter())[x.result] += 1
    passed = f"{counts['passed']:,} pass, {counts['refused']} are refused, and {counts['draws']} draw random numbers"
    first = f"onnx {onnx.__version__} carries {len(found):,} cases: {passed}. These operators have cases that pass; "
    last = "so many each, and of how many where some are refused, most of them for dtypes that micrograd does not have:"
    rows = ["", *_wrapped(first + last), ""]
    computed = []
    for name in sorted(filter(None, by)):
        passes, whole = by[name]["passed"], by[name].total()
        if passes or by[name]["draws"]:
            computed.append(f"{name} {passes}" + (f"/{whole}" if by[name]["refused"] else ""))
    refused = sorted(name for name in filter(None, by) if not (by[name]["passed"] or by[name]["draws"]))
    rows += [
        *_wrapped(f"{', '.join(computed)}."),
        "",
        "These are refused by name:",
        "",
        *_wrapped(f"{', '.join(refused)}."),
    ]
    return "\n".join(rows) + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 120, break_long_words=False)


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition("<!-- table: operators -->\n")
    _, _, after = rest.partition("<!-- end -->")
    PAGE.write_text(f"{before}<!-- table: operators -->\n{table()}\n<!-- end -->{after}")
