"""`benchmarks/gpu/run.sh`: red without a GPU, and not to be stopped by other people's plugins."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import prove, record
from micrograd_core import Device
from micrograd_cuda.rows import FUNCTORS, ROW_OPERATIONS

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "gpu" / "run.sh"
pytestmark = pytest.mark.skipif(shutil.which("timeout") is None, reason="the script wants GNU's timeout")


def run(folder: Path, **environment: str) -> tuple[int, str]:
    known = {"PYTHON": sys.executable, "OUT": str(folder / "out"), "RESULTS": str(folder), "WHEELS": str(folder)}
    done = subprocess.run(
        ["bash", str(SCRIPT)], env={**os.environ, **known, **environment}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.skipif(Device.is_cuda_available(), reason="there is a GPU")
def test_without_a_gpu_the_kernels_fail_and_the_reason_is_said(tmp_path: Path) -> None:
    status, told = run(tmp_path, STEPS="kernels")
    assert status == 1
    assert "kernels            FAILS" in told
    assert "CUDA device 'cuda:0' is unavailable" in told


def test_a_proof_whose_process_ends_badly_fails() -> None:
    dies = "print('holds    4 examples', flush=True); import os; os.abort()"
    ends = [
        subprocess.run([sys.executable, "-c", code], stdout=-1, text=True, check=False) for code in (dies, dies[:-12])
    ]
    assert prove.told(ends[0]) == ("FAILS", "the process ended with -6, after: holds 4 examples")
    assert prove.told(ends[1]) == ("holds", "4 examples")


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
        tmp_path, DEVICE="cpu", STEPS="kernels", PYTEST_ADDOPTS="-n0 -k test_older_cusolvers", PYTEST_PLUGINS="noisy",
        PYTHONPATH=python_path,
    )  # fmt: skip
    assert status == 0, told
    assert "kernels            holds" in told


def test_on_the_emulated_gpu_each_sample_of_what_has_kernels_of_rows_runs() -> None:
    """Their launches depend on shapes; a fault in two samples of batch_norm once waited for a GPU."""
    script = (SCRIPT.parents[2] / ".ci" / "run").read_text(encoding="utf-8")
    found = re.search(r'^ *own="(.*)"$', script, re.MULTILINE)
    assert found
    words = found[1].split(" or ")
    assert "(test_value or test_first_gradient) and ($own)" in script
    for name in (*ROW_OPERATIONS, *FUNCTORS, "batch_norm", "embedding", "embedding_gradient", "index_add"):
        assert any(word in f"[{name}-0-float32-contiguous]" for word in words), name
