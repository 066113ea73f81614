"""What the entry point ``micrograd.commands`` gives: the commands of this distribution."""

from __future__ import annotations

from micrograd_core.tools.arguments import Commands
from micrograd_train.bench import add_bench
from micrograd_train.completion import add_completion
from micrograd_train.drawing import add_draw
from micrograd_train.learning.commands import add_train
from micrograd_train.options import in_options
from micrograd_train.using.commands import add_compare, add_evaluate, add_export, add_inspect, add_predict


def add(commands: Commands) -> None:
    """Add them to the command ``micrograd``, in the order in which help lists them."""
    before = [*commands.choices]
    for each in (
        add_train, add_predict, add_evaluate, add_inspect, add_compare, add_export, add_draw, add_bench,
        add_completion,
    ):  # fmt: skip
        each(commands)
    for name, parser in commands.choices.items():
        if name not in before:
            parser.set_defaults(run=in_options(parser.get_default("run")))
