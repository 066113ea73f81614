"""What all commands share: kinds of options, help with examples, results as text and JSON."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from reprlib import repr as brief
from typing import Any

from micrograd_core.support.escaping import printable, printable_json

Commands = Any
"""What argparse's `add_subparsers` gives, which has no public type."""


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Defaults where there are such, and examples as they were written."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        shown = action.default is not None and action.default not in ("", False, [], argparse.SUPPRESS)
        return super()._get_help_string(action) if shown and not action.required else action.help


def installed(group: str, *arguments: Any) -> Iterator[Any]:
    """What the functions of a group of entry points return. One that is broken is said, and left out."""
    for each in sorted(entry_points(group=group), key=lambda each: each.name):
        try:
            yield each.load()(*arguments)
        except Exception as error:
            print(f"micrograd: the commands of {each.value!r} are left out: {error!r}", file=sys.stderr)


def command(commands: Commands, name: str, help: str, examples: Iterable[str], **options: Any) -> Any:
    """A parser for a command, whose help ends in examples."""
    shown = list(examples)
    parser = commands.add_parser(
        name,
        help=help,
        description=f"{help[:1].upper()}{help[1:]}.",
        epilog="\n".join(["examples:", *(f"  {each}" for each in shown)]),
        formatter_class=_Help,
        **options,
    )
    parser.examples = shown
    return parser


def add_json(parser: Any) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else, on stdout")


def add_device(parser: Any, doing: str) -> None:
    """``--device``."""
    parser.add_argument(
        "--device",
        metavar="DEVICE",
        help=f"where to {doing}, such as cpu or cuda:1 (default: MICROGRAD_DEVICE, else cpu)",
    )


# ── kinds ────────────────────────────────────────────────────────────────────────────────────────────────────


def positive_float(text: str) -> float:
    """A number above 0."""
    value = number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number above 0; got {brief(text)}")
    return value


def number(text: str) -> float:
    """A number, or NaN where the text is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def workers(text: str) -> str:
    """How many processes pytest-xdist starts."""
    if text not in ("", "auto", "logical") and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, auto or logical; got {brief(text)}")
    return text


# ── results ──────────────────────────────────────────────────────────────────────────────────────────────────


def tell(options: argparse.Namespace, result: Any, text: str) -> None:
    """Print what came of a command: the result as JSON where that was asked for, otherwise the text."""
    say(json_text(result) if options.json else text)


def say(text: str, file: Any = None) -> None:
    """Print what may have names from files in it."""
    print(printable(text, keep="\n"), file=file)


def json_text(result: Any, indent: int | None = 2) -> str:
    """JSON that every reader takes: what is no finite number is null."""
    return printable_json(json.dumps(_finite(result), indent=indent, ensure_ascii=False, default=str, allow_nan=False))


def _finite(x: Any) -> Any:
    if isinstance(x, dict):
        return {key: _finite(each) for key, each in x.items()}
    if isinstance(x, (list, tuple)):
        return [_finite(each) for each in x]
    return None if isinstance(x, float) and not math.isfinite(x) else x
