"""The commands for trained networks: ``predict``, ``evaluate``, ``inspect``, ``compare`` and ``export``."""

from __future__ import annotations

import argparse
import sys

from micrograd_core.support.escaping import printable
from micrograd_core.tools import arguments as common
from micrograd_train import options as own

MODEL = "model.safetensors, or the folder of a training"


def _add_model(parser: common.Commands) -> None:
    parser.add_argument("model", metavar="MODEL", help=MODEL)


def _add_own(parser: common.Commands) -> None:
    parser.add_argument(
        "--model", dest="own", metavar="MODULE:FUNCTION", help="what makes the network, where it is one of your own"
    )


def add_predict(commands: common.Commands) -> None:
    """``micrograd predict``."""
    parser = common.command(
        commands,
        "predict",
        "say what a trained network says of new rows",
        [
            "micrograd predict runs/my new.csv",
            "micrograd predict runs/my new.csv --out predictions.csv",
            "micrograd predict runs/photos new_photos/ --json",
        ],
    )
    _add_model(parser)
    parser.add_argument("table", metavar="TABLE", help="new rows: a table as it was trained on, or a folder of images")
    parser.add_argument(
        "--out", metavar="FILE", help=".csv, .tsv, .parquet or .json, by its suffix (default: CSV on stdout)"
    )
    parser.add_argument(
        "--unseen", choices=("error", "missing"), default="error", help="what a category that was never seen counts as"
    )
    _add_own(parser)
    common.add_device(parser, "compute")
    own.add_config(parser)
    common.add_json(parser)
    parser.set_defaults(run=_predict)


def add_evaluate(commands: common.Commands) -> None:
    """``micrograd evaluate``."""
    parser = common.command(
        commands,
        "evaluate",
        "judge a trained network by rows whose target is known",
        ["micrograd evaluate runs/my more.csv", "micrograd evaluate runs/my more.csv --json"],
    )
    _add_model(parser)
    parser.add_argument("table", metavar="TABLE", help="rows with the target, or a folder of images by class")
    _add_own(parser)
    common.add_device(parser, "compute")
    own.add_config(parser)
    common.add_json(parser)
    parser.set_defaults(run=_evaluate)


def add_inspect(commands: common.Commands) -> None:
    """``micrograd inspect``."""
    parser = common.command(
        commands,
        "inspect",
        "show what is in a file of weights: layers, shapes, parameters, how data are prepared",
        ["micrograd inspect runs/my", "micrograd inspect other.safetensors --json"],
    )
    parser.add_argument("model", metavar="MODEL", help=f"{MODEL}; or any safetensors file")
    _add_own(parser)
    common.add_json(parser)
    parser.set_defaults(run=_inspect)


def add_compare(commands: common.Commands) -> None:
    """``micrograd compare``."""
    parser = common.command(
        commands,
        "compare",
        "run one network on every installed device, and compare outputs, gradients, launches and time",
        [
            "micrograd compare runs/my",
            "micrograd compare runs/my --devices cpu torch:cpu --rows 256",
            "micrograd compare --json",
        ],
    )
    parser.add_argument("model", nargs="?", metavar="MODEL", help=f"{MODEL}; without it, a small CNN of random weights")
    parser.add_argument(
        "--devices",
        nargs="+",
        metavar="DEVICE",
        help="which (default: all that are installed, and C: the step as a program without Python)",
    )
    parser.add_argument("--rows", type=own.positive_int, default=16, metavar="N", help="random rows to compute with")
    parser.add_argument(
        "--tolerance",
        type=common.positive_float,
        default=1e-4,
        metavar="X",
        help="difference, as a share of the largest number, from which a device is wrong",
    )
    _add_own(parser)
    own.add_seed(parser, "the rows")
    own.add_config(parser)
    common.add_json(parser)
    parser.set_defaults(run=_compare)


def add_export(commands: common.Commands) -> None:
    """``micrograd export``."""
    parser = common.command(
        commands,
        "export",
        "write a trained network as ONNX, which other programs run",
        ["micrograd export runs/my my.onnx"],
    )
    _add_model(parser)
    parser.add_argument("file", metavar="FILE", help="the .onnx file to write")
    _add_own(parser)
    common.add_json(parser)
    parser.set_defaults(run=_export)


def _predict(options: argparse.Namespace) -> int:
    from micrograd_train.using import predictions

    out = options.out
    table, text = predictions.predict(options.model, options.table, out, options.device, options.own, options.unseen)
    if options.json:
        common.tell(options, {"rows": table.num_rows, "out": out, "predictions": table.to_pylist()}, "")
    elif out is None:
        sys.stdout.write(printable(text, keep="\n\t") if sys.stdout.isatty() else text)  # a program gets all of it
    else:
        common.say(f"wrote {table.num_rows:,} predictions to {out}")
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    from micrograd_train.using import predictions

    result = predictions.evaluate(options.model, options.table, options.device, options.own)
    common.tell(options, result, predictions.judgement(result))
    return 0


def _inspect(options: argparse.Namespace) -> int:
    from micrograd_train.using import inspection

    result = inspection.inspect(options.model, options.own)
    common.tell(options, result, inspection.told(result))
    return 0


def _compare(options: argparse.Namespace) -> int:
    from micrograd_train.using import comparison

    rows = comparison.compare(
        options.model, options.devices, options.rows, options.seed, options.tolerance, options.own
    )
    common.tell(options, rows, comparison.told(rows))
    return 1 if any(row["status"] in ("differs", "broken") for row in rows) else 0


def _export(options: argparse.Namespace) -> int:
    from micrograd_train.using.exporting import export

    result = export(options.model, options.file, options.own)
    told = ", ".join(f"{name} {dtype} {shape}" for name, (dtype, shape) in result["inputs"].items())
    fixed = f"; the number of rows is fixed: {result['because']}" if result["because"] else ""
    common.tell(options, result, f"wrote {result['out']}, which takes {told}{fixed}")
    return 0
