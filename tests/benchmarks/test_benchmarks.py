"""The benchmark runner: what it keeps, and that it times nobody who computes something else. Nothing here is timed."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import benchmark_process, benchmark_value, cases, check, peers, readme, report, run, timing

QUICK = ["--repeat", "2", "--seconds", "0.001"]


def kept(folder: Path) -> Any:
    """The one record in a folder."""
    (path,) = folder.glob("*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_run_keeps_timings_ratios_and_where_it_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--peers", "numpy", "micrograd", "--cases", "add", "multiply-sum", "--out", str(tmp_path)]
    assert run.main([*QUICK, *chosen]) == 0
    record = kept(tmp_path)
    assert set(record["cases"]) == {"add", "multiply-sum"}
    for case in record["cases"].values():
        assert set(case["peers"]) == {"numpy", "micrograd"}
        for timed in case["peers"].values():
            assert 0 < timed["q1_us"] <= timed["median_us"] <= timed["q3_us"]
            assert timed["inner"] >= 1
        assert case["peers"]["micrograd"]["ratio_to"]["numpy"] > 0
    assert record["settings"] == {"repeat": 2, "seconds": 0.001}
    assert {"date", "processor", "python", "commit", "dirty", "variables", "load_average"} <= set(record["environment"])
    assert "x + y, (4, 4)" in capsys.readouterr().out


def test_no_write_leaves_nothing_and_markdown_is_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--peers", "numpy", "--cases", "sum", "--out", str(tmp_path), "--no-write", "--markdown"]
    assert run.main([*QUICK, *chosen]) == 0
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr().out.startswith("| µs | numpy |\n|---|---:|\n| sum(x), (4, 4) | ")


def test_the_readmes_tables_are_of_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--peers", "numpy", "micrograd", "micrograd-jit", "--cases", "add", "multiply-sum", "gelu"]
    assert run.main([*QUICK, *chosen, "--out", str(tmp_path)]) == 0
    record = kept(tmp_path)
    engines, compilers = readme.table(record, "engines"), readme.table(record, "compilers")
    assert [line.split(" | ")[0] for line in engines.splitlines()[2:]] == [
        "| x + y, (4, 4)",
        "| sum(x \\* y), (4, 4), and gradients",
    ]
    ratio = record["cases"]["add"]["peers"]["micrograd"]["ratio_to"]["numpy"]
    assert engines.splitlines()[2].endswith(f" | {ratio:.2f} | – |")  # torch took no part
    assert [line.split(", ")[0] for line in compilers.splitlines()[2:]] == ["| sum(x \\* y)", "| sum(gelu(x) \\*\\* 2)"]
    quick = {"micrograd-jit": {"ratio_to": {"torch": 0.5, "jax-jit": 0.75}}}
    timed = quick | {"torch": {"median_us": 20.0}, "jax-jit": {"median_us": 15.0}}
    assert readme.TABLES["compilers"][2]["`jit` ÷ quickest"](timed) == "0.75"

    page = (report.ROOT / "README.md").read_text(encoding="utf-8")
    for name in readme.TABLES:
        page = readme.insert(page, name, "| new |")
    assert page.count("| new |") == 2
    assert "| x \\* y, (4, 4) |" not in page
    with pytest.raises(ValueError, match="no place for the table 'engines': a line <!-- table: engines -->"):
        readme.insert("nothing", "engines", "| new |")


class Wrong(peers.Micrograd):
    """Doubles every array that it is asked for."""

    name = "micrograd"

    def host(self, x: Any) -> Any:
        found = super().host(x)
        return found * 2 if found.ndim else found


@pytest.mark.parametrize("case", ["multiply-sum", "mlp-small-sgd"])
def test_a_peer_that_computes_other_numbers_is_named_and_stops_the_run(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(peers.PEERS, "micrograd", Wrong)
    assert run.main([*QUICK, "--peers", "numpy", "micrograd", "--cases", case, "--out", str(tmp_path)]) == 1
    assert f"stopped: {case}: micrograd and numpy disagree about" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_missing_peer_is_left_out_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers.MyGrad, "module", "a_library_nobody_has")
    chosen = ["--peers", "numpy", "mygrad", "--cases", "add", "--out", str(tmp_path)]
    assert run.main([*QUICK, *chosen]) == 0
    assert "mygrad is left out: No module named 'a_library_nobody_has'\n" in capsys.readouterr().err
    assert set(kept(tmp_path)["left_out"]) == {"mygrad"}


def test_an_unknown_case_is_refused_with_the_names_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["--cases", "ad"])
    assert "no case or group is named ad; there are cases add, multiply" in capsys.readouterr().err


def test_numpy_and_micrograd_agree_in_every_case_both_run() -> None:
    opened, _ = run.open_peers(["numpy", "micrograd"])
    for case in cases.TABLE:
        if case.name not in ("mlp-large-sgd", "mlp-digits-adam", "elementwise-3200"):  # as smaller ones, and slow
            prepared = {name: peer.prepare(case, case.arrays()) for name, peer in opened.items() if peer.runs(case)}
            check.check(case, prepared)


@pytest.mark.parametrize("name", ["add", "relu-sum", "mlp-deep-adam", "softmax-large"])
def test_what_is_compiled_agrees_in_a_case_of_each_kind(name: str) -> None:
    opened, case = run.open_peers(["micrograd", "micrograd-jit"])[0], cases.CASES[name]
    prepared = {name: peer.prepare(case, case.arrays()) for name, peer in opened.items()}
    check.check(case, prepared)
    assert all(each.run() is not None for each in prepared.values())


@pytest.mark.parametrize(("name", "count"), [("mlp-deep-sgd", 8), ("attention-block", 18)])
def test_the_limit_computes_every_product_of_a_program(name: str, count: int) -> None:
    """Of a perceptron of three layers, whose input has no gradient; of a block with six products."""
    opened, case = run.open_peers(["micrograd-jit", "products"])[0], cases.CASES[name]
    prepared = {name: peer.prepare(case, case.arrays()) for name, peer in opened.items() if peer.runs(case)}
    check.check(case, prepared)
    step: Any = prepared["micrograd-jit"].run
    step()
    found = peers.factors(step.program)
    assert len(found) == count
    assert all(x.shape[-1] == y.shape[-2] for x, y in found)
    assert not opened["products"].runs(cases.CASES["gelu"])


def test_every_round_calls_everyone_and_ratios_pair_the_rounds() -> None:
    calls: list[str] = []
    runs = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    found = timing.interleave(runs, repeat=3, seconds=1e-4)
    assert set(calls) == {"a", "b"}
    assert len(found["a"].samples) == len(found["b"].samples) == 3
    assert timing.Timing(1, (2.0, 40.0, 6.0)).ratio(timing.Timing(1, (1.0, 20.0, 1.0))) == 2.0


def test_what_compiles_at_the_second_call_too_is_timed_by_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, compiling = [0], [500_000_000, 500_000_000]

    def step() -> None:
        clock[0] += compiling.pop() if compiling else 70_000

    monkeypatch.setattr(timing, "perf_counter_ns", lambda: clock[0])
    assert timing.calibrate(step, 3.5e7) == 500


def test_a_record_names_neither_user_nor_host() -> None:
    text = json.dumps(report.environment())
    assert str(Path.home()) not in text
    assert platform.node() not in text.split()


def test_the_scalars_agree_and_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark_value, "NODES", 1000)
    chosen = ["--peers", "value", "jit", "--out", str(tmp_path)]
    assert benchmark_value.main([*QUICK, *chosen]) == 0
    record = kept(tmp_path)
    assert set(record["cases"]) == set(benchmark_value.ABOUT)
    assert set(record["cases"]["readme"]["peers"]) == {"value", "jit"}
    assert record["cases"]["chain"]["peers"]["value"]["median_us"] > 0
    assert "| expression in micrograd's README, and gradients | " in capsys.readouterr().out


def test_scalars_that_disagree_stop_the_run() -> None:
    with pytest.raises(SystemExit, match="stopped: readme: the peers disagree"):
        benchmark_value.compare("readme", {"a": lambda: 1.0, "b": lambda: 2.0})


def test_what_a_process_pays_once_is_measured_in_processes_of_their_own() -> None:
    assert benchmark_process.figure("first array, ms", "numpy", "off") > 1
    assert benchmark_process.figure("memory of the batch-1024 Adam step, MiB", "numpy", "off") > 1
