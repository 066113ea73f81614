"""Jobs from outside: all ranks' tests, and what a job does when one of its ranks fails. One rank is pytest itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from micrograd_mpi.commands import told

RANKS = Path(__file__).parent / "ranks"
MPIEXEC = Path(sys.executable).with_name("mpiexec")
if not MPIEXEC.exists():
    MPIEXEC = Path(shutil.which("mpiexec") or "")
pytestmark = pytest.mark.skipif(not MPIEXEC.name, reason="there is no mpiexec: pip install 'micrograd-mpi[mpich]'")


def job(ranks: int, *arguments: Any, limit: float = 120, **variables: str) -> subprocess.CompletedProcess[str]:
    """Start a job, and wait for it; one that hangs is ended, with all its ranks."""
    command = [str(MPIEXEC), "-n", str(ranks), sys.executable, *map(str, arguments)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **variables}
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"):
        environment.pop(name, None)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
            raise AssertionError(f"the job hangs:\n{out}\n{err}") from None
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def program(folder: Path, text: str) -> Path:
    """A program of all ranks, which have `world`, `rank` and `size`."""
    path = folder / "program.py"
    head = """
        import os, signal, sys, time
        import micrograd_core as mg
        from micrograd_mpi import *
        job = world()
        rank, size = job.rank, job.size
    """
    path.write_text(textwrap.dedent(head) + textwrap.dedent(text))
    return path


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_all_ranks_pass_their_tests(ranks: int) -> None:
    few = [] if ranks < 4 else ["-k", "numpy or whole_batch or bits or uneven or batch_norm or gone_on"]
    done = job(ranks, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", RANKS, *few, limit=400)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert len(re.findall(r"\d+ passed", done.stdout)) == ranks


def test_an_error_of_one_rank_ends_the_job_with_its_traceback_first(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        if rank == 1:
            raise ValueError("these data are broken")
        all_reduce(mg.ones(3))
        """,
    )
    done = job(2, path, limit=60)
    assert done.returncode != 0
    assert re.search(r"rank 1 of 2 failed, which ends the job:\nTraceback", done.stderr)
    assert "ValueError: these data are broken" in done.stderr


def test_a_rank_that_ends_early_is_named_by_those_that_wait(tmp_path: Path) -> None:
    path = program(tmp_path, "if rank == 0:\n    all_reduce(mg.ones(3))")
    done = job(2, path, limit=60)
    assert done.returncode != 0
    told = " ".join(done.stderr.split())
    assert "rank 0 waits in collective 1, all_reduce of 12 bytes, and rank 1 has ended: rank 1 has ended after" in told


def test_a_rank_that_does_not_come_is_named_after_the_timeout(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        job.timeout = 3
        all_reduce(mg.ones(3))
        if rank == 1:
            time.sleep(60)
        all_gather(mg.ones(5))
        """,
    )
    done = job(3, path, limit=60)
    assert done.returncode != 0
    told = " ".join(done.stderr.split())
    assert re.search(r"rank [02] waits in collective 2, all_gather of 20 bytes, and another rank did not come", told)
    assert "rank 1 is in code of its own after collective 1, all_reduce of 12 bytes" in told


def test_ranks_that_call_different_collectives_are_told_who_does_what(tmp_path: Path) -> None:
    path = program(tmp_path, "job.timeout = 3\nall_reduce(mg.ones(4)) if rank else job.barrier()")
    done = job(2, path, limit=60)
    told = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert re.search(
        "rank 0 waits in collective 1, barrier of 0 bytes, .* rank 1 waits in collective 1, all_reduce of 16 bytes"
        "|rank 1 waits in collective 1, all_reduce of 16 bytes, .* rank 0 waits in collective 1, barrier of 0 bytes",
        told,
    )


def test_checks_find_arrays_that_differ_from_rank_to_rank(tmp_path: Path) -> None:
    path = program(tmp_path, "all_reduce(mg.ones(4))\nall_reduce(mg.ones(4, dtype=('float32', 'float64')[rank]))")
    done = job(2, path, limit=60, MICROGRAD_MPI_CHECK="1")
    told = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert re.search(r"do not agree on collective \d+: rank 0 has 'all_reduce of 16 bytes, sum of float32'", told)
    assert "rank 1 has 'all_reduce of 32 bytes, sum of float64'" in told


def test_a_rank_that_is_killed_ends_the_job_within_seconds(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        for turn in range(10**6):
            all_reduce(mg.ones(3))
            if turn == 20 and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    done = job(2, path, limit=60)
    assert done.returncode != 0
    assert "KILLED" in (done.stdout + done.stderr).upper()


def test_ctrl_c_gets_through_to_a_rank_that_waits(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        if rank == 0:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 2)
            try:
                all_reduce(mg.ones(3))
            except KeyboardInterrupt:
                job.abort("stopped by the user", 3)
        time.sleep(60)
        """,
    )
    done = job(2, path, limit=40)
    assert "rank 0 of 2: stopped by the user" in done.stderr


def test_a_forked_child_is_no_rank_and_ends_nobody(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        all_reduce(mg.ones(3))
        import multiprocessing
        child = multiprocessing.get_context("fork").Process(target=lambda: 1 / rank)  # that of rank 0 fails
        child.start()
        child.join()
        assert (child.exitcode == 0) == (rank == 1)
        assert all_reduce(mg.ones(3)).tolist() == [2.0] * 3
        """,
    )
    done = job(2, path, limit=60)
    assert done.returncode == 0, done.stderr


def test_what_an_interrupt_left_keeps_its_memory(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        if rank == 0:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 1)
            try:
                all_reduce(mg.ones(10**5))
            except KeyboardInterrupt:
                assert len(job.state.left) == 1
            job.timeout = 30
        else:
            time.sleep(3)
            assert all_reduce(mg.ones(10**5)).tolist()[0] == 2.0
        assert all_gather(mg.asarray([1.0 * rank])).tolist() == [0.0, 1.0]
        """,
    )
    done = job(2, path, limit=60)
    assert done.returncode == 0, done.stderr


def test_the_world_is_shown(tmp_path: Path) -> None:
    done = job(2, "-m", "micrograd_core.tools.cli", "world", "--json")
    facts = json.loads(done.stdout)
    assert [row["rank"] for row in facts["ranks"]] == [0, 1]
    assert facts["works"] is True
    done = job(2, "-m", "micrograd_core.tools.cli", "devices")
    assert "world: 2 ranks on" in done.stdout
    assert not told()


def test_another_mpis_mpiexec_is_noticed(tmp_path: Path) -> None:
    path = program(tmp_path, "")
    environment = {**os.environ, "OMPI_COMM_WORLD_SIZE": "4"}
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "Open MPI's mpiexec has started 4 processes, and each of them is alone" in done.stderr


# ── micrograd train --world mpi ──────────────────────────────────────────────────────────────────────────────

TRAIN = ("-m", "micrograd_core.tools.cli", "train", "digits", "--dropout", "0", "--hidden", "16")


def history(folder: Path) -> list[float]:
    found: list[float] = json.loads((folder / "metrics.json").read_text())["loss"]
    return found


def hit(folder: Path, name: str) -> Path:
    """The command, of which rank 1 gets a signal after its fourth epoch."""
    return program(
        folder,
        f"""
        from micrograd_core.tools.cli import main
        from micrograd_train.learning import loop

        loop.PAUSE = 0.0
        close = loop.Loop._close

        def hit_after_the_fourth(self, told):
            close(self, told)
            if len(self.history) == 4 and rank == 1:
                os.kill(os.getpid(), signal.{name})

        loop.Loop._close = hit_after_the_fourth
        sys.exit(main(sys.argv[1:]))
        """,
    )


def test_ctrl_c_on_one_rank_stops_all_of_a_training_when_it_is_saved(tmp_path: Path) -> None:
    pytest.importorskip("micrograd_train")
    out = tmp_path / "out"
    done = job(2, hit(tmp_path, "SIGINT"), *TRAIN[2:], "--epochs", 6, "--out", out, "--world", "mpi")
    assert done.returncode == 130
    assert done.stderr.count("micrograd: interrupted in epoch 5 of 6; go on with: micrograd train digits") == 1
    assert (out / "checkpoint.safetensors").exists()


def test_a_killed_training_goes_on_with_more_ranks_and_has_the_curve_of_one_process(tmp_path: Path) -> None:
    pytest.importorskip("micrograd_train")
    whole = tmp_path / "whole"
    assert job(1, *TRAIN, "--epochs", 6, "--out", whole).returncode == 0
    stopped = tmp_path / "stopped"
    killer = hit(tmp_path, "SIGKILL")
    done = job(2, killer, *TRAIN[2:], "--epochs", 6, "--out", stopped, "--world", "mpi")
    assert done.returncode != 0
    assert (stopped / "checkpoint.safetensors").exists()
    assert not (stopped / "metrics.json").exists()
    done = job(3, *TRAIN, "--epochs", 6, "--out", stopped, "--world", "mpi", "--resume")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test accuracy") == 1
    assert done.stderr.count("epoch 6/6") == 1
    assert history(stopped) == pytest.approx(history(whole), rel=1e-4)


def test_training_says_what_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("micrograd_train")
    done = job(1, *TRAIN, "--world", "mpi", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "there is one process only; start several: mpiexec -n 4 micrograd train" in done.stderr
    done = job(2, *TRAIN, "--world", "mpi", "--out", tmp_path / "out", "--lr", "0", limit=60)
    assert done.returncode == 2
    differing = program(
        tmp_path,
        """
        from micrograd_core.tools.cli import main

        sys.exit(main([*sys.argv[1:], "--seed", str(rank)]))
        """,
    )
    done = job(2, differing, *TRAIN[2:], "--epochs", 1, "--out", tmp_path / "out", "--world", "mpi")
    assert done.returncode == 2
    assert "do not agree on seed: rank 0 has 0; rank 1 has 1" in " ".join(done.stderr.split())
