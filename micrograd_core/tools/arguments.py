"""What all commands share: kinds of options, help with examples, settings from a file, results as JSON."""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import math
import re
import shlex
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from reprlib import repr as brief
from typing import Any

from micrograd_core.errors import MicrogradError
from micrograd_core.ground.printed import printable, printable_json

Commands = Any
"""What argparse's `add_subparsers` gives, which has no public type."""


class ConfigError(MicrogradError, ValueError):
    """A file of settings has one that there is not, or a value that it cannot have. Nothing was done."""


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Defaults where there are such, and examples as they were written."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        shown = action.default is not None and action.default not in ("", False, [], argparse.SUPPRESS)
        return super()._get_help_string(action) if shown and not action.required else action.help


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


def add_device(parser: Any, doing: str) -> None:
    """``--device``."""
    parser.add_argument(
        "--device",
        metavar="DEVICE",
        help=f"where to {doing}, such as cpu or cuda:1 (default: MICROGRAD_DEVICE, else cpu)",
    )


def add_seed(parser: Any, of: str) -> None:
    """``--seed``."""
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help=f"of {of}")


def add_config(parser: Any) -> None:
    """``--config``."""
    parser.add_argument(
        "--config", metavar="FILE", help="settings in TOML, named as the options; those of the command line win"
    )


def add_json(parser: Any) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else, on stdout")


# ── kinds ────────────────────────────────────────────────────────────────────────────────────────────────────


def positive_int(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or len(text) > 18 or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"must be a whole number of at least 1 and at most 18 digits; got {brief(text)}"
        )
    return int(text)


def whole_number(text: str) -> int:
    """A whole number, from 0 on."""
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 on, of at most 18 digits; got {brief(text)}")
    return int(text)


def positive_float(text: str) -> float:
    """A number above 0."""
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number above 0; got {brief(text)}")
    return value


def fraction(text: str) -> float:
    """A number from 0 to below 1."""
    value = _number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to below 1; got {brief(text)}")
    return value


def not_negative(text: str) -> float:
    """A number from 0 on."""
    value = _number(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number from 0 on; got {brief(text)}")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def workers(text: str) -> str:
    """How many processes pytest-xdist starts."""
    if text not in ("", "0", "auto", "logical"):
        positive_int(text)
    return text


# ── settings from a file ─────────────────────────────────────────────────────────────────────────────────────


def configure(commands: Commands, arguments: Sequence[str]) -> None:
    """Let the file that ``--config`` names say the defaults of the command that is about to be parsed."""
    name = next((each for each in arguments if not each.startswith("-")), None)
    parser = commands.choices.get(name)
    if parser is None or not any(action.dest == "config" for action in parser._actions):
        return
    early = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    early.add_argument("--config")
    try:
        path = early.parse_known_args(list(arguments))[0].config
    except argparse.ArgumentError:  # `--config` without a file: the parser itself says so
        return
    if path is not None:
        parser.set_defaults(**_settings(parser, path))


def _settings(parser: Any, path: str) -> dict[str, Any]:
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {path}: the file is no TOML: {error}") from error
    known = {
        (action.option_strings[-1].lstrip("-") if action.option_strings else action.dest): action
        for action in parser._actions
        if action.dest not in ("help", "config", "json", "resume")
    }
    settings = {}
    for key, value in found.items():
        action = known.get(key.replace("_", "-")) or known.get(key)
        if action is None:
            close = difflib.get_close_matches(key, known, n=1)
            meant = f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(known)}"
            raise ConfigError(f"--config {path}: there is no option {key!r}. {meant}")
        settings[action.dest] = _converted(action, value, f"--config {path}: {key}")
    return settings


def _converted(action: argparse.Action, value: Any, where: str) -> Any:
    if isinstance(action.const, bool) or isinstance(action, argparse.BooleanOptionalAction):
        if not isinstance(value, bool):
            raise ConfigError(f"{where} is true or false; got {value!r}")
        return value
    if action.nargs in ("*", "+"):
        if not isinstance(value, list):
            raise ConfigError(f"{where} is a list, such as [64, 64]; got {value!r}")
        return [_single(action, each, where) for each in value]
    return _single(action, value, where)


def _single(action: argparse.Action, value: Any, where: str) -> Any:
    if isinstance(value, (bool, list, dict)):
        raise ConfigError(f"{where} is one number or text; got {value!r}")
    kind: Any = action.type or str
    try:
        made = kind(str(value))
    except argparse.ArgumentTypeError as error:
        raise ConfigError(f"{where} {error}") from error
    if action.choices is not None and made not in action.choices:
        raise ConfigError(f"{where} is one of {', '.join(map(str, action.choices))}; got {value!r}")
    return made


def as_options(said: str) -> str:
    """A sentence for those who write Python, for those who type commands: ``--ignore id`` for ``ignore=['id']``."""
    for advice in (", or split with stratify=False", ", or say which encoding it has, as in encoding='latin-1'"):
        said = said.replace(advice, "")

    def option(found: re.Match[str]) -> str:
        value = ast.literal_eval(found[2])  # which may look like an option
        return f"--{found[1]}{'=' if value.startswith('-') else ' '}{shlex.quote(value)}"

    quoted = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    return re.sub(rf"\b(ignore|categories|unseen)=\[?{quoted}\]?", option, said)


def as_toml(settings: dict[str, Any], comment: str) -> str:
    """Settings as a file that ``--config`` takes; those without a value are left out."""
    lines = [f"# {comment}"]
    for name, value in settings.items():
        if value is not None:
            lines.append(f"{name.replace('_', '-')} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # as TOML's: strings, numbers, booleans


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


def aligned(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as a table for a terminal, the first one its head; numbers stand at the right."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [
        all(isinstance(cell, (int, float)) or _is_figure(str(cell)) for cell in column)
        for column in zip(*rows[1:], strict=True)
    ] or [False] * len(widths)
    lines = [
        "  ".join(
            cell.rjust(width) if end else cell.ljust(width) for cell, width, end in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)


def _is_figure(text: str) -> bool:
    return bool(text) and all(part[:1] in "0123456789-+.–~" for part in text.split())
