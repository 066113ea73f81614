"""``micrograd completion bash|zsh|fish``: a script that lets the shell complete commands, options and their values.

The script is made from the parser itself, and holds all of it: nothing is started while somebody types.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

from micrograd_core.tools import arguments as common

SHELLS = {
    "bash": "source <(micrograd completion bash)",
    "zsh": "source <(micrograd completion zsh)",
    "fish": "micrograd completion fish | source",
}
"""What to write into the shell's start file, by shell."""
FIRST = {"--help": "show what commands there are", "--version": "show the version"}
"""What may stand in the place of a command."""


class Option(NamedTuple):
    """One option of a command, or its argument where there is no name."""

    names: tuple[str, ...]
    help: str
    choices: tuple[str, ...]
    takes_value: bool


def options_of(parser: Any) -> list[Option]:
    """What can stand after a command."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
            continue
        choices = tuple(map(str, getattr(action, "suggested", None) or action.choices or ()))
        help = (action.help or "").partition(" (")[0].replace("%%", "%").replace("%(default)s", str(action.default))
        found.append(Option(tuple(action.option_strings), help, choices, action.nargs != 0))
    return found


def script(shell: str, commands: Any) -> str:
    """The script for a shell."""
    helps = {action.dest: action.help or "" for action in commands._choices_actions}
    tree = {name: (helps[name], options_of(parser)) for name, parser in commands.choices.items() if name in helps}
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](tree)


Tree = dict[str, tuple[str, list[Option]]]


def _bash(tree: Tree) -> str:
    cases, values = [], []
    for name, (_, options) in tree.items():
        words = [*(each for option in options for each in option.names), *_free(options)]
        cases.append(f'    {name}) words="{" ".join(words)}" ;;')
        for option in options:
            if option.names and option.choices:
                keys = "|".join(f"{name}:{each}" for each in option.names)
                values.append(f'    {keys}) words="{" ".join(option.choices)}" ;;')
            elif option.names and option.takes_value:
                values.append(f'    {"|".join(f"{name}:{each}" for each in option.names)}) words="" ;;')
    return f"""# bash completion for micrograd: {SHELLS["bash"]}
_micrograd() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{" ".join([*tree, *FIRST])}"
  else
    case "${{COMP_WORDS[1]}}" in
{_indented(cases)}
    esac
    case "${{COMP_WORDS[1]}}:$previous" in
{_indented(values)}
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o default -F _micrograd micrograd
"""


def _zsh(tree: Tree) -> str:
    commands = " ".join(_single(f"{name}:{help}") for name, (help, _) in tree.items())
    first = " ".join(_single(f"{name}:{help}") for name, help in FIRST.items())
    cases = []
    for name, (_, options) in tree.items():
        free = _free(options)
        named = f'"name:name:({" ".join(free)})" ' if free else ""
        specs = [_single(f'*:value:_alternative {named}"file:file:_files"')]
        for option in options:
            after = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files"
            about = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
            specs += [_single(f"{each}[{about}]{after if option.takes_value else ''}") for each in option.names]
        cases.append(f"    {name}) _arguments {' '.join(specs)} ;;")
    return f"""#compdef micrograd
# zsh completion for micrograd: {SHELLS["zsh"]}
_micrograd() {{
  local -a commands first
  commands=({commands})
  first=({first})
  if (( CURRENT == 2 )); then
    _describe command commands -- first
    return
  fi
  local name=$words[2]
  shift words
  (( CURRENT-- ))
  case $name in
{chr(10).join(cases)}
  esac
}}
if [[ $funcstack[1] == _micrograd ]]; then # a file of $fpath, which is read at the first use
  _micrograd "$@"
else
  (( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}
  compdef _micrograd micrograd
fi
"""


def _fish(tree: Tree) -> str:
    lines = [f"# fish completion for micrograd: {SHELLS['fish']}"]
    for name, help in FIRST.items():
        lines.append(f"complete -c micrograd -n __fish_use_subcommand -f -l {name[2:]} -d {_single(help)}")
    for name, (help, options) in tree.items():
        lines.append(f"complete -c micrograd -n __fish_use_subcommand -f -a {name} -d {_single(help)}")
        when = f"-n {_single(f'contains -- {name} (commandline -opc)[2]')}"
        for option in options:
            values = f"-a {_single(' '.join(option.choices))}" if option.choices else ""
            names = " ".join(f"-l {each[2:]}" if each.startswith("--") else f"-s {each[1:]}" for each in option.names)
            takes = ("-r -f" if values else "-r") if names and option.takes_value else ""
            if names or values:
                told = [when, names, takes, values, f"-d {_single(option.help)}" if names else ""]
                lines.append(" ".join(["complete -c micrograd", *filter(None, told)]))
    return "\n".join(lines) + "\n"


def _free(options: list[Option]) -> tuple[str, ...]:
    """What may stand where no option does."""
    return tuple(each for option in options if not option.names for each in option.choices)


def _single(text: str) -> str:
    return "'" + text.replace("'", "’") + "'"


def _indented(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


def add_completion(commands: common.Commands) -> None:
    """Add ``completion``."""
    shell = common.command(
        commands,
        "completion",
        "print a script that completes commands and options in your shell",
        [f"micrograd completion {shell:<5} # use it: {line}" for shell, line in SHELLS.items()],
    )
    shell.add_argument("shell", choices=tuple(SHELLS), metavar="SHELL", help="bash, zsh or fish")
    shell.set_defaults(run=lambda options: print(script(options.shell, commands), end="") or 0)
