"""The command ``micrograd``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from reprlib import repr as brief

from micrograd_core import __version__
from micrograd_core.errors import MicrogradError

GONE = 128 + 13
"""The exit status of a program that SIGPIPE ended: who read its output has seen enough."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors of ours become one sentence on stderr, and the exit status 2."""
    if hasattr(sys.stdout, "reconfigure"):  # a terminal that lacks a character shows a question mark
        sys.stdout.reconfigure(errors="replace")
    options = _parser().parse_args(arguments)
    try:
        status = int(options.run(options))
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a full disk can still be told
    except BrokenPipeError:
        _drop_output()
        return GONE
    except (MicrogradError, OSError) as error:
        said = str(error) if isinstance(error, MicrogradError) or error.filename else f"cannot print: {error.strerror}"
        print("micrograd:", "; ".join([said, *getattr(error, "__notes__", ())]), file=sys.stderr)
        _drop_output()
        return 2
    except KeyboardInterrupt:
        print("micrograd: interrupted", file=sys.stderr)
        return 130
    return status


def _drop_output() -> None:
    """Where output cannot be written, leave none for the interpreter to try again when it ends."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("micrograd", description="A small autograd engine over any array library.")
    parser.add_argument("--version", action="version", version=f"micrograd-core {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    devices = commands.add_parser("devices", help="run a computation on every installed device, and say what works")
    devices.add_argument("--json", action="store_true", help="print JSON instead of a table")
    devices.set_defaults(run=_devices)

    suite = commands.add_parser("conformance", help="test a device against the op table, and print a matrix")
    suite.add_argument("device", help="such as cpu or mine:0")
    suite.add_argument("--json", default="", metavar="FILE", help="write the matrix as JSON")
    suite.add_argument("--markdown", default="", metavar="FILE", help="write the matrix as a Markdown table")
    suite.add_argument("-k", default="", metavar="EXPRESSION", help="only the tests whose names match, as in pytest")
    suite.add_argument(
        "-n", type=_workers, default="", metavar="WORKERS", help="run in parallel with pytest-xdist: a number, or auto"
    )
    suite.add_argument(
        "--profile", action="store_true", help="test nothing; say which kernels would save the most calls"
    )
    suite.add_argument("-x", action="store_true", help="stop at the first failure")
    suite.add_argument("-v", action="store_true", help="name each test, and show where it failed")
    suite.add_argument("-q", action="store_true", help="print less while tests run")
    suite.add_argument("--junitxml", default="", metavar="FILE", help="write each test's outcome as JUnit XML")
    suite.add_argument(
        "--time-limit", type=_positive_float, default=0.0, metavar="SECONDS", help="for one test (default: 300)"
    )
    suite.set_defaults(run=_conformance)

    new = commands.add_parser("new-backend", help="write a package for a backend that conforms as it is")
    new.add_argument("name", help="the device's name")
    new.add_argument("--folder", default=".", help="where its folder is made (default: here)")
    new.set_defaults(run=_new_backend)

    train = commands.add_parser("train", help="train a network on real data")
    datasets = train.add_subparsers(title="data", required=True, metavar="DATA")
    digits = datasets.add_parser(
        "digits", help="handwritten digits, 8x8 pixels", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    digits.add_argument(
        "--device", default=None, help="where to train, such as cpu or cuda:1 (default: MICROGRAD_DEVICE, else cpu)"
    )
    digits.add_argument("--epochs", type=_positive_int, default=40, help="passes over the training images")
    digits.add_argument("--batch-size", type=_positive_int, default=64, help="images per step")
    digits.add_argument("--lr", type=_positive_float, default=2e-3, help="learning rate")
    digits.add_argument(
        "--hidden", type=_positive_int, nargs="*", default=[256], metavar="N", help="sizes of the hidden layers"
    )
    digits.add_argument("--optimizer", choices=("adam", "sgd"), default="adam", help="update rule (sgd: momentum 0.9)")
    digits.add_argument("--seed", type=int, default=0, help="of the split, the initial weights and the batches")
    digits.add_argument("--out", default="runs/digits", help="folder for the checkpoint, the curves and the figures")
    digits.set_defaults(run=_train_digits)
    return parser


def _devices(options: argparse.Namespace) -> int:
    from micrograd_core.tools import doctor

    rows = doctor.examine_all()
    print(json.dumps(rows, indent=2, default=str) if options.json else doctor.table(rows))
    return 1 if any(row["status"] in ("broken", "wrong") for row in rows) else 0


def _conformance(options: argparse.Namespace) -> int:
    if options.profile:
        from micrograd_core.conformance.profile import report

        print(report(options.device))
        return 0
    from micrograd_core.conformance import run

    passed_on = [flag for flag, given in (("-x", options.x), ("-v", options.v), ("-q", options.q)) if given]
    passed_on += ["-v"] if options.v else []  # the first one undoes our -q
    passed_on += [f"--junitxml={options.junitxml}"] if options.junitxml else []
    passed_on += [f"--time-limit={options.time_limit:g}"] if options.time_limit else []
    return run(
        options.device,
        json_path=options.json,
        markdown_path=options.markdown,
        expression=options.k,
        workers=options.n,
        options=passed_on,
    )


def _new_backend(options: argparse.Namespace) -> int:
    from micrograd_core.tools.scaffold import new_backend

    target = new_backend(options.name, options.folder)
    print(f"wrote {target}; next: pip install -e '{target}[test]' && pytest {target}")
    return 0


def _train_digits(options: argparse.Namespace) -> int:
    from micrograd_core.tools.train import train_digits

    train_digits(
        device=options.device,
        epochs=options.epochs,
        batch_size=options.batch_size,
        lr=options.lr,
        hidden=options.hidden,
        optimizer=options.optimizer,
        seed=options.seed,
        out=options.out,
    )
    return 0


def _positive_int(text: str) -> int:
    if not text.isdecimal() or len(text) > 18 or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"must be a whole number of at least 1 and at most 18 digits; got {brief(text)}"
        )
    return int(text)


def _positive_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0; got {brief(text)}")
    return value


def _workers(text: str) -> str:
    if text not in ("", "0", "auto", "logical"):
        _positive_int(text)
    return text


if __name__ == "__main__":
    sys.exit(main())
