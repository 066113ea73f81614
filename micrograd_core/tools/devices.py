"""The commands for devices: ``devices``, ``conformance`` and ``new-backend``."""

from __future__ import annotations

import argparse
from shlex import quote

from micrograd_core.tools import arguments as common

GROUP = "micrograd.doctor"
"""The group of entry points of functions that return what ``micrograd devices`` says below its table."""


def add_devices(commands: common.Commands) -> None:
    """``micrograd devices``."""
    parser = common.command(
        commands,
        "devices",
        "run a computation on every installed device, and say what works",
        ["micrograd devices", "micrograd devices --json"],
    )
    common.add_json(parser)
    parser.set_defaults(run=_devices)


def add_conformance(commands: common.Commands) -> None:
    """``micrograd conformance``."""
    suite = common.command(
        commands,
        "conformance",
        "test a device against the op table, and print a matrix",
        ["micrograd conformance cpu -k matmul", "micrograd conformance mine:0 -n auto --markdown matrix.md"],
    )
    suite.add_argument("device", help="such as cpu or mine:0")
    suite.add_argument("--json", default="", metavar="FILE", help="write the matrix as JSON")
    suite.add_argument("--markdown", default="", metavar="FILE", help="write the matrix as a Markdown table")
    suite.add_argument("-k", default="", metavar="EXPRESSION", help="only the tests whose names match, as in pytest")
    suite.add_argument(
        "-n",
        type=common.workers,
        default="",
        metavar="WORKERS",
        help="run in parallel with pytest-xdist: a number, or auto",
    )
    suite.add_argument(
        "--profile", action="store_true", help="test nothing; say which kernels would save the most calls"
    )
    suite.add_argument("-x", action="store_true", help="stop at the first failure")
    suite.add_argument("-v", action="store_true", help="name each test, and show where it failed")
    suite.add_argument("-q", action="store_true", help="print less while tests run")
    suite.add_argument("--junitxml", default="", metavar="FILE", help="write each test's outcome as JUnit XML")
    suite.add_argument(
        "--time-limit", type=common.positive_float, default=0.0, metavar="SECONDS", help="for one test (default: 300)"
    )
    suite.set_defaults(run=_conformance)


def add_new_backend(commands: common.Commands) -> None:
    """``micrograd new-backend``."""
    new = common.command(
        commands,
        "new-backend",
        "write a package for a backend that conforms as it is",
        ["micrograd new-backend mine", "micrograd new-backend mine --folder plugins"],
    )
    new.add_argument("name", help="the device's name")
    new.add_argument("--folder", default=".", help="where its folder is made (default: here)")
    new.set_defaults(run=_new_backend)


def _devices(options: argparse.Namespace) -> int:
    from micrograd_core.tools import doctor

    rows = doctor.examine_all()
    common.tell(options, rows, "\n".join([doctor.table(rows), *filter(None, common.installed(GROUP))]))
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
    common.say(f"wrote {target}; next: pip install -e {quote(f'{target}[test]')} && pytest {quote(str(target))}")
    return 0
