"""The command ``micrograd``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from micrograd_core import __version__
from micrograd_core.errors import MicrogradError, MissingExtra
from micrograd_core.tools import arguments as common
from micrograd_core.tools.devices import add_conformance, add_devices, add_new_backend

WRONG, MENDABLE, INTERRUPTED, GONE = 1, 2, 130, 128 + 13
"""Exit statuses beside 0: what was looked at is not as it should be; what the user can mend; Ctrl-C; and that of a
program that SIGPIPE ended: who read its output has seen enough."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors of ours become one sentence on stderr, and the exit status 2."""
    if hasattr(sys.stdout, "reconfigure"):  # a terminal that lacks a character shows a question mark
        sys.stdout.reconfigure(errors="replace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = parsed(given)
        status = int(options.run(options))
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a full disk can still be told
    except BrokenPipeError:
        _drop_output()
        return GONE
    except (MicrogradError, OSError) as error:
        said = str(error) if isinstance(error, MicrogradError) or error.filename else f"cannot print: {error.strerror}"
        common.say(f"micrograd: {'; '.join([said, *getattr(error, '__notes__', ())])}", sys.stderr)
        _drop_output()
        return MENDABLE
    except KeyboardInterrupt as interrupt:
        common.say(" ".join(["micrograd: interrupted", *map(str, interrupt.args)]), sys.stderr)
        return INTERRUPTED
    return status


def parsed(given: Sequence[str]) -> argparse.Namespace:
    """The options of a command line; `given` is kept with them, for commands that say how to go on."""
    parser, commands = _parser()
    if given and given[0] in OF_TRAIN and given[0] not in commands.choices:
        raise MissingExtra(f"micrograd {given[0]}", "micrograd-train", "train")
    options = parser.parse_args(given)
    options.given = list(given)
    return options


def _drop_output() -> None:
    """Where output cannot be written, leave none for the interpreter to try again when it ends."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


GROUP = "micrograd.commands"
"""The group of entry points of functions that add commands: each is called with the parsers of all commands."""
OF_TRAIN = ("train", "predict", "evaluate", "inspect", "compare", "export", "draw", "bench", "completion")
"""Commands that the extra ``train`` brings."""


def _parser() -> tuple[argparse.ArgumentParser, common.Commands]:
    parser = argparse.ArgumentParser(
        "micrograd",
        description="A small autograd engine over any array library: from a table to a trained network, and its tools.",
        epilog="micrograd COMMAND --help shows the options of a command, and examples.\n"
        "exit status: 0 done, 1 something was found to be wrong, 2 what you can mend, 130 interrupted",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"micrograd-core {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    list(common.installed(GROUP, commands))
    for add in (add_devices, add_conformance, add_new_backend):
        add(commands)
    return parser, commands


if __name__ == "__main__":
    sys.exit(main())
