"""``micrograd train``: its options, and what it says."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

from micrograd_core.errors import MicrogradError, MissingExtra
from micrograd_core.tools import arguments as common
from micrograd_core.tools.cli import INTERRUPTED
from micrograd_train import options as own
from micrograd_train.learning.settings import OPTIMIZERS, TASKS, NotSensible, Settings

BUILT_IN = (
    "digits", "iris", "wine", "breast_cancer", "diabetes", "moons", "circles", "spirals", "reverse", "copy", "addition",
    "characters",
)  # fmt: skip
"""The sets of `micrograd_core.data`, for help and completion, which import nothing."""
EXAMPLES = (
    "micrograd train digits",
    "micrograd train my.csv --target species",
    "micrograd train houses.parquet --target price --hidden 64 64 --device cuda",
    "micrograd train photos/ --model cnn --log photos.jsonl",
    "micrograd train my.csv --target species --resume",
    "micrograd train --config runs/my/config.toml --seed 1",
    "mpiexec -n 4 micrograd train my.csv --target species --world mpi",
)


def add_train(commands: common.Commands) -> None:
    """``micrograd train``."""
    parser = common.command(commands, "train", "train a network on a table, images or a built-in set", EXAMPLES)
    data = parser.add_argument(
        "data",
        nargs="?",
        metavar="DATA",
        help="a CSV, Parquet, Arrow or npz file, a folder with a folder of images for each class, or one of "
        + ", ".join(BUILT_IN),
    )
    data.suggested = BUILT_IN
    add = parser.add_argument
    add("--target", metavar="COLUMN", help="the column to be learned")
    add("--task", choices=TASKS[:2], help="what the target is (default: found from it)")
    add("--ignore", nargs="+", default=[], metavar="COLUMN", help="columns to leave out, such as numbers of customers")
    add("--categories", nargs="+", default=[], metavar="COLUMN", help="columns of numbers, or of names, that are kinds")
    add(
        "--model",
        metavar="MODEL",
        help="mlp, cnn, transformer, or module:function of your own, which is called with the shape of an example and "
        "the number of outputs (default: cnn for folders of images, transformer for sequences, else mlp)",
    ).suggested = ("mlp", "cnn", "transformer")
    add("--hidden", type=own.positive_int, nargs="*", default=[256], metavar="N", help="sizes of the hidden layers")
    add("--dropout", type=own.fraction, default=0.3, metavar="P", help="share of hidden units that are left out")
    add("--optimizer", choices=OPTIMIZERS, default="adam", help="update rule (sgd: momentum 0.9)")
    add("--lr", type=common.positive_float, default=2e-3, metavar="RATE", help="learning rate")
    add("--weight-decay", type=own.not_negative, default=0.0, metavar="X", help="how strongly weights shrink")
    add(
        "--epochs",
        type=own.positive_int,
        metavar="N",
        help="passes over the rows at most (default: 40, or as many as make 1,600 steps)",
    )
    add("--batch-size", type=own.positive_int, metavar="N", help="rows per step (default: 64; 32 or 16 of few rows)")
    add(
        "--patience",
        type=own.positive_int,
        metavar="N",
        help="stop after so many epochs without a lower validation loss (default: a quarter of all, at least 10)",
    )
    add("--validation", type=own.fraction, default=0.15, metavar="P", help="share of the rows to choose the epoch by")
    add("--test", type=own.fraction, default=0.15, metavar="P", help="share of the rows to judge by")
    common.add_device(parser, "train")
    add("--seed", type=int, default=0, metavar="N", help="of the split, the initial weights and the batches")
    add("--out", metavar="FOLDER", help="for the network, the report and the figures (default: runs/NAME)")
    add("--resume", action="store_true", help="go on where the same training stopped")
    add(
        "--world",
        choices=("mpi",),
        help="train with all processes that mpiexec has started, each on its part of a batch",
    )
    add("--log", metavar="FILE", help="write the figures of each epoch as a line of JSON")
    add("--tensorboard", metavar="FOLDER", help="write them for TensorBoard too")
    own.add_config(parser)
    common.add_json(parser)
    parser.set_defaults(run=_train)


def settings_of(options: argparse.Namespace) -> Settings:
    """The options as settings."""
    if options.data is None:
        raise NotSensible("train needs DATA: a file, a folder of images by class, or a built-in set, such as digits")
    names = Settings.__dataclass_fields__
    given = {name: getattr(options, name) for name in names if hasattr(options, name)}
    return Settings(**{**given, **{name: tuple(given[name]) for name in ("hidden", "ignore", "categories")}})


def _train(options: argparse.Namespace) -> int:
    settings = settings_of(options)
    from micrograd_train.learning.training import train

    group = _world() if options.world else None
    try:
        metrics = train(settings, options.resume, group)
    except MicrogradError as error:
        if group is not None:
            group.abort(f"micrograd: {error}", 2)
        raise
    except KeyboardInterrupt as interrupt:
        if group is not None and group.rank and interrupt.args:  # rank 0 says it
            return INTERRUPTED
        if interrupt.args:  # it is saved
            given = [*options.given, *(["--resume"] if not options.resume else [])]
            raise KeyboardInterrupt(f"{interrupt.args[0]}; go on with: micrograd {shlex.join(given)}") from None
        raise
    if not metrics:
        return 0
    for note in metrics.pop("notes"):
        common.say(f"micrograd: {note}", sys.stderr)
    common.tell(options, metrics, summary(metrics))
    return 0


def _world() -> Any:
    """The processes that train together."""
    try:
        from micrograd_mpi import world
    except ImportError:
        raise MissingExtra("--world mpi", "micrograd-mpi", "mpi") from None
    found = world()
    if found.size == 1:
        raise NotSensible(
            "--world mpi: there is one process only; start several: mpiexec -n 4 micrograd train … --world mpi "
            "(where mpiexec is missing, pip install 'micrograd-mpi[mpich]' brings it)"
        )
    return found


def summary(metrics: dict[str, Any]) -> str:
    """What is printed when a training is done."""
    from micrograd_train.learning.measures import ranked

    part = metrics["judged_on"]
    figures = metrics[part]
    if metrics["task"] == "regression":
        told = f"{part} R² {figures['r2']:.3f}, mean error {figures['mae']:.4g}"
    else:
        told = f"{part} accuracy {figures['accuracy']:.2%}{ranked(figures)}"
    kept = "" if metrics["best_epoch"] == metrics["epochs"] else f" (the best was epoch {metrics['best_epoch']})"
    return (
        f"{told} after {metrics['epochs']} epochs{kept} in {metrics['seconds']:.1f} s on {metrics['device']}; "
        f"wrote model.safetensors, curves.png, metrics.json and report.html to {metrics['out']}"
    )
