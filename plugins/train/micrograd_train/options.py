"""Options that the commands here share: whole numbers, settings from a file, sentences in terms of options."""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import math
import re
import shlex
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from reprlib import repr as brief
from typing import Any

from micrograd_core.data import DataError
from micrograd_core.errors import MicrogradError
from micrograd_core.tools.arguments import number

Run = Callable[[argparse.Namespace], int]


class ConfigError(MicrogradError, ValueError):
    """A file of settings has one that there is not, or a value that it cannot have. Nothing was done."""


def add_seed(parser: Any, of: str) -> None:
    """``--seed``."""
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help=f"of {of}")


def add_config(parser: Any) -> None:
    """``--config``: the file's settings become the parser's defaults before it parses."""
    parser.add_argument(
        "--config", metavar="FILE", help="settings in TOML, named as the options; those of the command line win"
    )
    early = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    early.add_argument("--config")
    parse = parser.parse_known_args

    def configured(given: Any = None, namespace: Any = None) -> Any:
        with suppress(argparse.ArgumentError):  # `--config` without a file: the parser itself says so
            path = early.parse_known_args(given)[0].config
            if path is not None:
                parser.set_defaults(**_settings(parser, path))
        return parse(given, namespace)

    parser.parse_known_args = configured


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


def fraction(text: str) -> float:
    """A number from 0 to below 1."""
    value = number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to below 1; got {brief(text)}")
    return value


def not_negative(text: str) -> float:
    """A number from 0 on."""
    value = number(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number from 0 on; got {brief(text)}")
    return value


# ── settings from a file ─────────────────────────────────────────────────────────────────────────────────────


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


def in_options(run: Run) -> Run:
    """A command whose errors of data speak of options."""

    def speaking(options: argparse.Namespace) -> int:
        try:
            return run(options)
        except DataError as error:
            error.args = (as_options(str(error)),)
            raise

    return speaking


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
