"""What a run of the conformance suite says at its end: what failed and why, what did not run, and the verdict."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, plugins
from micrograd_core.conformance import base
from micrograd_core.conformance.cases import apart
from micrograd_core.conformance.limit import limited
from micrograd_core.conformance.matrix import Failure, Matrix, cause, facts, groups
from micrograd_core.conformance.suite import Conformance
from micrograd_core.plugins import hookimpl
from micrograd_core.tools.cli import main
from micrograd_cpu.storage import CPUBackend

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class OnCPU(Conformance):
    __test__ = False
    device = "cpu"


def report(test: str, outcome: str = PASSED, message: str = "", **more: Any) -> Any:
    longrepr: Any = ("file", 1, f"Skipped: {message}") if outcome == SKIPPED else message
    return SimpleNamespace(nodeid=f"a.py::T::{test}", when="call", outcome=outcome, longrepr=longrepr,
                           skipped=outcome == SKIPPED, **more)  # fmt: skip


def matrix_of(*reports: Any, tests: int = 0, selected: int = 0, **told: Any) -> Matrix:
    matrix = Matrix()
    count = len({each.nodeid for each in reports})
    counted = {"tests": tests or count, "selected": selected or tests or count}
    matrix.facts = {**facts(Device("cpu")), "unclaimed": ["jit"], **counted, **told}
    for each in reports:
        matrix.count(each)
    return matrix


# ── the verdict ──────────────────────────────────────────────────────────────────────────────────────────────


def test_only_a_whole_run_conforms() -> None:
    assert matrix_of(report("test_threads")).verdict() == "cpu conforms; it does not claim jit"


def test_what_was_deselected_or_not_reached_is_said() -> None:
    said = matrix_of(report("test_threads"), tests=10, selected=3).verdict()
    assert said.startswith("cpu passed what was run; of 10 tests 7 were deselected and 2 were not reached")
    failed = matrix_of(report("test_threads", FAILED, "assert 0"), tests=10, selected=1).verdict()
    assert failed.startswith("1 test failed: cpu does not conform; of 10 tests 9 were deselected;")


def test_missing_dtypes_and_capabilities_are_said() -> None:
    said = matrix_of(report("test_threads"), lacks=["float16", "int8"], unclaimed=["fft"]).verdict()
    assert said == "cpu conforms; it does not claim fft; it does not have float16, int8"


def test_skips_are_said_by_reason_but_not_those_of_unclaimed_words() -> None:
    reports = [report(f"test_x[add-{n}]", SKIPPED, "no other device") for n in range(3)]
    said = matrix_of(*reports, report("test_level[jit]", SKIPPED, "add 'jit' to capabilities")).verdict()
    assert said.endswith("; 3 tests skipped: no other device")


def test_known_failures_are_said() -> None:
    known = report("test_value[sin-0-float32-contiguous]", SKIPPED, wasxfail="x")
    assert matrix_of(known).verdict().startswith("cpu conforms but for 1 known failure;")


def test_all_tests_of_the_suite_are_counted_even_those_that_a_subclass_drops() -> None:
    class Less(OnCPU):
        test_threads = None  # type: ignore[assignment]

        def test_of_its_own(self) -> None: ...

    whole = OnCPU.whole()
    assert Less.whole() == whole
    assert "test_threads" in whole
    assert "test_of_its_own" not in whole
    assert "test_value[add-0-float32-contiguous]" in whole
    assert len(whole) > 30_000


# ── failures by cause ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("TypeError: var() got an unexpected keyword argument 'correction'",
         "unexpected keyword: return None for it, or take `correction`"),
        ("AssertionError: exp-0-float32-offset: got [1.0], expected [2.0]", "wrong numbers"),
        ("AssertionError: exp-0-float32-offset: dtype float64, expected float32", "wrong dtype"),
        ("AssertionError: copy-0-bool-offset: a write to the result changes operand 0", "returns an operand's memory"),
        ("AssertionError: multiply-0-bool-offset: the kernel changed its input 0", "changes an operand"),
        ("[XPASS(strict)] wrongly feared", "passes, though a known failure"),
        ("Failed: hangs: it was stopped after 3 s (--time-limit)", "hangs: look at what it waits for"),
        ("RuntimeError: the device fell off the bus", "RuntimeError: the device fell off the bus"),
    ],
)  # fmt: skip
def test_causes_are_told_with_what_to_do(message: str, words: str) -> None:
    assert cause(message)[1].startswith(words)


def test_one_complaint_of_a_library_is_told_once() -> None:
    failures = [
        Failure(f"test_value[{op}-0-bfloat16-contiguous]", op, "TypeError: no such dtype in NumPy")
        for op in ("add", "exp", "sin", "sum", "max", "min", "where")
    ]
    (found,) = groups(failures, set(), {})
    assert (found["about"], found["tests"], found["cause"]) == ("7 operations", 7, "TypeError: no such dtype in NumPy")
    assert found["names"] == [each.test for each in failures]
    assert len(groups(failures[:3], set(), {})) == 3


def test_failures_are_grouped_and_the_likeliest_cause_comes_first() -> None:
    failures = [
        *(Failure(f"test_first_gradient[mish-{n}-float64-contiguous]", "mish",
                  f"AssertionError: mish-{n}-float64-contiguous: the gradient is {n}.5, a finite difference 1")
          for n in range(9)),
        *(Failure(f"test_value[mish-{n}-float64-contiguous]", "mish",
                  f"AssertionError: mish-{n}-float64-contiguous: got [{n}], expected [1]") for n in range(5)),
        Failure("test_value[exp-0-float64-step-1]", "exp",
                "AssertionError: exp-0-float64-step-1: got [3], expected [1]"),
    ]  # fmt: skip
    passed = {"test_value[exp-0-float64-contiguous]", "test_value[exp-0-float64-step2]"}
    found = groups(failures, passed, {"exp": "native", "mish": "composed"})
    assert [(each["about"], each["cause"], each["tests"]) for each in found] == [
        ("exp", "wrong numbers, only in the layout step-1", 1),
        ("mish", "wrong numbers", 5),
        ("mish", "wrong gradient", 9),
    ]


def test_a_thousand_failures_are_few_lines() -> None:
    reports = [
        report(f"test_value[{op}-{n}-float32-contiguous]", FAILED,
               f"TypeError: unexpected keyword argument 'k{n % 40}'")
        for op in ("add", "sum", "var") for n in range(400)
    ]  # fmt: skip
    text = matrix_of(*reports).text()
    assert text.count("unexpected keyword") < 50
    assert "and 100 more causes of 1000 tests" in text


# ── time limits ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no signals here")
def test_a_test_that_hangs_fails_and_the_next_runs() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(pytest.fail.Exception, match=r"hangs: it was stopped after 0\.05 s"), limited("t", "cpu", 0.05):
        time.sleep(10)
    with limited("t", "cpu", 10):
        pass
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_where_no_signal_reaches_the_test_is_named_and_the_run_ends() -> None:
    program = (
        "import signal, time; from micrograd_core.conformance import limit\n"
        "limit.GRACE = 0.1\n"
        "with limit.limited('test_value[exp-0]', 'mine:0', 0.2):\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); time.sleep(30)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=25)
    assert run.returncode == 3
    assert "test_value[exp-0] hangs, where no signal reaches it" in run.stderr
    assert run.stderr.splitlines()[-1] == "mine:0 does not conform"


# ── devices beside it ────────────────────────────────────────────────────────────────────────────────────────


class Siblings:
    """``family:0`` works, ``family:1`` cannot multiply, ``family:2`` forgets."""

    @hookimpl
    def micrograd_open(self, address: str) -> Any:
        backend = CPUBackend()
        backend.device = f"family:{address or 0}"
        if address == "1":
            backend.kernels["multiply"] = lambda x, y: 1 // 0
        if address == "2":
            backend.kernels["multiply"] = lambda x, y: x
        return backend

    @hookimpl
    def micrograd_addresses(self) -> list[str]:
        return ["0", "1", "2"]


def test_a_broken_sibling_is_noted_and_not_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins.register("family", Siblings())
    monkeypatch.setattr(base, "BROKEN", {})
    try:
        names = [str(device) for device in base.others(Device("family:0"))]
        assert "family:1" not in names
        assert "family:2" not in names
        assert base.BROKEN["family:2"] == "3 times [1, 2, 3] is [1.0, 2.0, 3.0] there"
        Conformance().test_moves_between_devices_keep_numbers_and_gradients("float32", Device("family:0"))
    finally:
        plugins.unregister("family")
    matrix = matrix_of(report("test_threads"))
    matrix.broken = dict(base.BROKEN)
    assert "family:1 beside it is broken: " in matrix.verdict()


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────


def command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "micrograd_core.tools.cli", "conformance", *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_verdict_is_the_last_line_and_options_reach_pytest(tmp_path: Path) -> None:
    run = command("cpu", "-k", "repeat and exp or results_repeat", "-v", "-x", "--junitxml", "j.xml", folder=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "test_results_repeat PASSED" in run.stdout
    assert "test_results_repeat" in (tmp_path / "j.xml").read_text()
    assert re.match(r"cpu passed what was run; of \d+ tests \d+ were deselected", run.stdout.splitlines()[-1])


def test_a_run_of_nothing_says_nothing(tmp_path: Path) -> None:
    run = command("cpu", "-k", "nosuchtest", "-q", folder=tmp_path)
    assert run.returncode == 5
    assert run.stdout.splitlines()[-1] == "no test was run: nothing is said of cpu"


def test_time_limits_are_positive(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["conformance", "cpu", "--time-limit", "0"])
    assert "must be a number above 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("found", "expected", "wrong"),
    [
        (3.0, np.inf, True), (np.inf, 3.0, True), (-np.inf, np.inf, True), (np.nan, 1.0, True), (1.0, np.nan, True),
        (np.inf, np.inf, False), (np.nan, np.nan, False), (1.5, 1.0, False), (3.5, 1.0, True),
    ],
)  # fmt: skip
def test_numbers_are_apart(found: float, expected: float, wrong: bool) -> None:
    """What is allowed grows with what is expected: to infinity."""
    allowed = 2.0 * max(abs(expected), 1.0)
    assert apart(np.array([found]), np.array([expected]), np.array([allowed])).tolist() == [wrong]
