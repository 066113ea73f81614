"""`benchmarks/gpu/run.sh`: red without a GPU, and not to be stopped by other people's plugins."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest

from benchmarks.gpu import prove, record
from micrograd_core import Device
from micrograd_core.ops import TABLE
from micrograd_cuda.rows import FUNCTORS, Rows

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "gpu" / "run.sh"
pytestmark = pytest.mark.skipif(shutil.which("timeout") is None, reason="the script wants GNU's timeout")


def run(folder: Path, **environment: str) -> tuple[int, str]:
    known = {"PYTHON": sys.executable, "OUT": str(folder / "out"), "RESULTS": str(folder), "WHEELS": str(folder)}
    done = subprocess.run(
        ["bash", str(SCRIPT)], env={**os.environ, **known, **environment}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def outcomes(told: str) -> dict[str, str]:
    """By step, as the table in the end has them."""
    table = told[told.rindex("step               outcome") :]
    return dict(re.findall("^([a-z-]+) +(holds|FAILS|left out|not started)", table, re.MULTILINE))


SANITIZER = """#!/bin/sh
[ "$1 $3 $4" = "--tool --error-exitcode 9" ] || exit 3
shift 4
exec "$@"
"""
without_a_gpu = pytest.mark.skipif(Device.is_cuda_available(), reason="there is a GPU")


@without_a_gpu
def test_without_a_gpu_every_step_fails_but_the_hosts_own_tests(tmp_path: Path) -> None:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(SANITIZER, encoding="utf-8")
    tool.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    status, told = run(
        tmp_path,
        PATH=path,
        SMALL="1",
        LEAK_STEPS="1",
        KERNELS="functions_of_rows",
        CONFORMANCE="test_level",
        TESTS="tests/benchmarks/test_gpu_peers.py::test_what_the_device_did_is_counted_by_call_and_by_kernel",
    )
    assert status == 1
    steps = re.search(r'^steps=" (\S+) \$\{STEPS:-(.*)\} "$', SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
    assert steps
    assert outcomes(told) == {
        each: "holds" if each == "tests" else "FAILS" for each in f"{steps[1]} {steps[2]}".split()
    }
    for step in ("kernels", "memcheck", "peers", "networks"):
        assert "cuda:0' is unavailable" in (tmp_path / "out" / f"{step}.log").read_text(encoding="utf-8"), step


@without_a_gpu
@pytest.mark.parametrize(("step", "outcome"), [("tests", "holds"), ("racecheck", "left out")])
def test_what_asks_no_gpu_does_not_hold_without_one(step: str, outcome: str, tmp_path: Path) -> None:
    status, told = run(
        tmp_path,
        STEPS=step,
        TESTS="tests/benchmarks/test_gpu_peers.py::test_what_the_device_did_is_counted_by_call_and_by_kernel",
    )
    assert (status, outcomes(told)) == (1, {"devices": "FAILS", step: outcome})


PYTHON = """#!/bin/sh
case "$*" in
*"-m pytest"*|*benchmark_*|*gpu.attention*|*prove.py*)
    echo "$MICROGRAD_CUDA_POOL|$*" >> "$ASKED"
    exec "$REAL" -c "import of_a_wheel; {then}" ;;
*tools.cli*) echo "cuda:0  works" ;;
*) exec "$REAL" "$@" ;;
esac
"""


def asked(folder: Path, then: str = "", **environment: str) -> tuple[int, str, dict[str, str]]:
    """What the script says where a GPU works, and what it asks for by step; in place of which Python runs `then`."""
    for name, text in {"python": PYTHON.format(then=then), "compute-sanitizer": SANITIZER}.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    with ZipFile(folder / "of_a_wheel-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("of_a_wheel.py", "")
        wheel.writestr("xdist.py", "")
    lines = folder / "asked"
    lines.touch()
    environment |= {"PYTHON": str(folder / "python"), "REAL": sys.executable, "ASKED": str(lines)}
    status, told = run(folder, PATH=f"{folder}{os.pathsep}{os.environ['PATH']}", **environment)
    steps = [step for step in outcomes(told) if step != "devices"]
    return status, told, dict(zip(steps, lines.read_text(encoding="utf-8").splitlines(), strict=True))


def test_every_step_finds_the_wheels_and_suites_use_all_cores(tmp_path: Path) -> None:
    status, told, steps = asked(tmp_path)
    assert status == 0, told  # the wheel's module was there
    first, last = (
        "kernels graphs races attention peers networks devices-compared proofs",
        "memcheck racecheck synccheck conformance tests",
    )
    assert [*steps] == f"{first} {last}".split()
    assert [step for step, line in steps.items() if re.search(r" -n \d+$", line)] == [
        "kernels", "graphs", "conformance", "tests",
    ]  # fmt: skip


def test_races_are_asked_about_and_memory_has_no_pool_then(tmp_path: Path) -> None:
    """Each word of what is chosen is part of the name of some test: a test that is renamed would be left out."""
    steps = asked(tmp_path, STEPS="races memcheck racecheck synccheck")[2]
    assert [*steps] == ["races", "memcheck", "racecheck", "synccheck"]
    assert [line.partition("|")[0] for line in steps.values()] == ["", "0", "0", "0"]
    chosen = {step: line.partition(" -k ")[2].split(" or ") for step, line in steps.items()}
    assert chosen["racecheck"] == chosen["synccheck"]
    assert {"functions_of_rows", "norm", "sums_over_rows"} <= {*chosen["racecheck"]}
    words = sorted({*chosen["races"], *chosen["memcheck"], *chosen["racecheck"]})
    tests = [each for step in ("races", "memcheck") for each in steps[step].split() if "/test_" in each]
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "--collect-only", *tests, "-k", " or ".join(words)],
        cwd=SCRIPT.parents[2], env={**os.environ, "MICROGRAD_SAMPLE": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    for word in words:
        assert re.search(f"::.*{word}", collected.stdout), word


def test_what_takes_too_long_is_interrupted_and_says_what_it_found(tmp_path: Path) -> None:
    then = (
        "import signal, sys, time; signal.signal(signal.SIGINT, lambda *_: sys.exit('7 passed before the interrupt')); "
        "time.sleep(60)"
    )
    status, told, _ = asked(tmp_path, then, STEPS="kernels", LIMIT="7")
    assert status == 1
    assert re.search("kernels +FAILS .*7 passed before the interrupt", told), told


def test_a_proof_whose_process_ends_badly_fails() -> None:
    dies = "print('holds    4 examples', flush=True); import os; os.abort()"
    ends = [
        subprocess.run([sys.executable, "-c", code], stdout=-1, text=True, check=False) for code in (dies, dies[:-12])
    ]
    assert prove.told(ends[0]) == ("FAILS", "the process ended with -6, after: holds 4 examples")
    assert prove.told(ends[1]) == ("holds", "4 examples")


@pytest.mark.parametrize(
    ("in_use", "reserved", "leaks"),
    [([1] * 5, [8] * 5, False), ([1] * 5, [8, 8, 9, 9, 9], True), ([1, 1, 1, 1, 2], [8] * 5, True)],
)
def test_memory_that_grows_once_is_a_leak(
    in_use: list[int], reserved: list[int], leaks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = iter([{"in_use": used, "reserved": held} for used, held in zip(in_use, reserved, strict=True)])
    device: Any = SimpleNamespace(memory=lambda: next(seen), synchronize=lambda: None)
    monkeypatch.setattr(prove, "trainer", lambda device: lambda: None)
    with pytest.raises(AssertionError, match="memory grew in 8 steps") if leaks else nullcontext():
        assert "8 steps" in prove.no_leak(device, 8)


ABORTS = """
import atexit, os, sys, types
{loaded}
atexit.register(os.abort)
from benchmarks.gpu import prove
prove.no_transfers = lambda device, steps: {found}
sys.exit(prove.main(["--device", "cpu", "--proof", "no_transfers"]))
"""


@pytest.mark.parametrize("found", ["'0 copies'", "1 / 0"])
@pytest.mark.parametrize("profiled", [True, False])
def test_what_the_profiler_frees_twice_does_not_end_its_process_otherwise_than_the_proof(
    profiled: bool, found: str
) -> None:
    """Only where the profiler was loaded; and a proof that fails still does."""
    loaded = "sys.modules['torch.profiler'] = types.ModuleType('torch.profiler')" if profiled else ""
    done = subprocess.run(
        [sys.executable, "-c", ABORTS.format(loaded=loaded, found=found)],
        cwd=SCRIPT.parents[2], stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    outcome, words = prove.told(done)
    assert outcome == ("holds" if profiled and found == "'0 copies'" else "FAILS")
    assert (prove.AT_ONCE in words) == profiled
    assert done.returncode == (int(found == "1 / 0") if profiled else -6)


def test_figures_carry_the_commit_that_they_are_of(tmp_path: Path) -> None:
    written = json.loads(record.write("nothing", {}, tmp_path).read_text(encoding="utf-8"))
    assert re.fullmatch("[0-9a-f]{40}( and changes)?|unknown", written["commit"])


def test_plugins_that_warn_do_not_end_a_step(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(
        "import warnings\ndef pytest_configure(config): warnings.warn('xdist is active')\n", encoding="utf-8"
    )
    python_path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    status, told = run(
        tmp_path, DEVICE="cpu", STEPS="kernels", KERNELS="test_older_cusolvers", PYTEST_PLUGINS="noisy",
        PYTHONPATH=python_path,
    )  # fmt: skip
    assert status == 0, told
    assert "kernels            holds" in told


def test_on_the_emulated_gpu_each_sample_of_what_has_kernels_of_rows_runs() -> None:
    """Their launches depend on shapes; a fault in two samples of batch_norm once waited for a GPU."""
    script = (SCRIPT.parents[2] / ".ci" / "full").read_text(encoding="utf-8")
    found = re.search(r'^ *own="(.*)"$', script, re.MULTILINE)
    assert found
    words = found[1].split(" or ")
    assert "(test_value or test_first_gradient) and ($own)" in script
    of_rows = [name for name in vars(Rows) if name in TABLE]
    assert "softmax" in of_rows
    for name in (*of_rows, *FUNCTORS, "batch_norm", "embedding", "embedding_gradient", "index_add"):
        assert any(word in f"[{name}-0-float32-contiguous]" for word in words), name


LACKING = {
    "test_module.py": "import einops.layers\n",
    "test_inside.py": """
import pytest
def test_lacks(): import array_api_strict
def test_says_what_to_install():
    try: import safetensors
    except ModuleNotFoundError as error: raise RuntimeError("pip install it") from error
@pytest.fixture
def given(): import mpmath
def test_is_given(given): pass
def test_lacks_what_is_ours(): import micrograd_nothing
def test_is_wrong(): assert 1 == 2
""",
}


@pytest.mark.parametrize("allowed", [True, False])
def test_what_lacks_a_package_of_developers_is_skipped_by_name_where_that_is_said(
    allowed: bool, tmp_path: Path
) -> None:
    names = ("einops", "array_api_strict", "safetensors", "mpmath")
    hidden = f"import sys\nfor name in {names}: sys.modules[name] = None\n"
    for name, text in {"hidden.py": hidden, **LACKING}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    python_path = os.pathsep.join([str(tmp_path), str(SCRIPT.parents[2])])
    environment = {**os.environ, "MICROGRAD_TESTS_WITHOUT_DEV": str(int(allowed)), "PYTHONPATH": python_path}
    options = (
        "-q -rs -n0 -p hidden -p tests.conftest -p no:cacheprovider -p no:micrograd --continue-on-collection-errors"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options.split(), "-c", os.devnull, str(tmp_path)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    last = done.stdout.splitlines()[-1]
    assert last.startswith("2 failed, 4 skipped" if allowed else "4 failed, 2 errors"), done.stdout
    assert all((f"{name} is not installed" in done.stdout) == allowed for name in names[1:])
    assert ("einops.layers is not installed" in done.stdout) == allowed


def test_the_script_says_it_of_the_cores_own_tests() -> None:
    (line,) = (each for each in SCRIPT.read_text(encoding="utf-8").splitlines() if each.startswith("step tests"))
    assert "MICROGRAD_TESTS_WITHOUT_DEV=1" in line
    assert "MICROGRAD_TESTS_WITHOUT_DEV" not in (SCRIPT.parents[2] / ".ci" / "full").read_text(encoding="utf-8")
