"""The conformance suite: sound backends pass, every planted fault is caught by a test whose message points at it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from micrograd_core import Device, plugins, zeros
from micrograd_core.backend import STANDS_ON
from micrograd_core.conformance.cases import LAYOUTS, Case, cases, is_differentiable, large, special
from micrograd_core.conformance.suite import Conformance
from micrograd_core.dtypes import DTYPES
from micrograd_core.errors import BackendBroken, BackendIncompatible, DeviceUnavailable
from micrograd_core.ops import TABLE

sys.path.insert(0, str(Path(__file__).parents[2] / "plugins" / "faulty"))

from micrograd_faulty import misspelt_hook, plugin as faulty_plugin

PLAIN = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]


@pytest.fixture(scope="module", autouse=True)
def _faulty() -> Iterator[None]:
    plugins.register("faulty", faulty_plugin)
    yield
    plugins.unregister("faulty")


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", *PLAIN, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


# ── ways in ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_by_the_command_with_matrices(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "micrograd_core.tools.cli",
        "conformance",
        "cpu",
        "-k",
        "exp- or strided",
        "--json",
        "m.json",
        "--markdown",
        "m.md",
    ]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.fullmatch(
        r"cpu passed what was run; of \d+ tests \d+ were deselected(; .* claim jit)?", run.stdout.splitlines()[-1]
    )
    matrix = json.loads((tmp_path / "m.json").read_text())
    assert matrix["operations"]["exp"]["provided"] == "native"
    assert matrix["operations"]["exp"]["passed"] > 50
    assert matrix["levels"]["core"]["failed"] == 0
    assert "| exp | native |" in (tmp_path / "m.md").read_text()


def test_by_pyargs_from_an_empty_folder(tmp_path: Path) -> None:
    words = ["--device", "rawbuffer:1", "-k", "tanh-0 or threads or level", "-rs"]
    run = pytest_in(tmp_path, "--pyargs", "micrograd_core.conformance", *words)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"^rawbuffer:1 passed what was run; .*; it does not claim complex", run.stdout, re.M)
    assert "add 'fft' to capabilities if the fft extension works" in run.stdout


@pytest.mark.parametrize("option", ["--device", "--time-limit"])
def test_another_project_may_have_options_of_these_names(tmp_path: Path, option: str) -> None:
    (tmp_path / "conftest.py").write_text(
        f"def pytest_addoption(parser):\n    parser.addoption({option!r}, default='none')\n"
    )
    (tmp_path / "test_theirs.py").write_text(
        f"def test_theirs(request):\n    assert request.config.getoption({option!r}) == 'theirs'\n"
    )
    run = pytest_in(tmp_path, option, "theirs")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout


def test_other_projects_get_no_options(tmp_path: Path) -> None:
    helped = pytest_in(tmp_path, "--help").stdout
    assert "micrograd" not in helped
    assert "--time-limit" in pytest_in(tmp_path, "--pyargs", "micrograd_core.conformance", "--help").stdout


def test_the_device_reaches_parallel_workers(tmp_path: Path) -> None:
    words = ["--device", "rawbuffer:1", "-n", "2", "-k", "tanh-0-float32 or threads", "--time-limit=100"]
    command = [sys.executable, "-m", "pytest", "-q", "--pyargs", "micrograd_core.conformance", *words]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"^rawbuffer:1 passed what was run", run.stdout, re.M)


def test_in_parallel_with_a_matrix_for_each_device(tmp_path: Path) -> None:
    """Workers run the tests; the controller, which sees only reports, prints."""
    (tmp_path / "test_both.py").write_text(
        "from micrograd_core.conformance.boundary import Boundary\n"  # a part, which is quickly collected
        "class TestHost(Boundary):\n    device = 'cpu'\n"
        "class TestRaw(Boundary):\n    device = 'rawbuffer'\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "-k", "threads or protocol"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "cpu passed what was run" in run.stdout
    assert "rawbuffer:0 passed what was run" in run.stdout


def test_memory_is_judged_without_what_a_first_use_caches(tmp_path: Path) -> None:
    (tmp_path / "test_memory.py").write_text(
        "from micrograd_core.conformance.boundary import Boundary\n"
        "class TestRaw(Boundary):\n    device = 'rawbuffer:1'\n"
    )
    run = pytest_in(tmp_path, "-k", "memory_returns")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout


def test_by_subclass_with_known_failures(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "from micrograd_core import plugins\n"
        "from micrograd_core.conformance import Conformance\n"
        "from micrograd_core.plugins import hookimpl\n"
        "from micrograd_cpu.storage import CPUBackend\n"
        "class Mine(CPUBackend):\n"
        "    known_failures = {'test_value[sin-*]': 'sines are out', 'test_value[cos-0-*]': 'wrongly feared'}\n"
        "    known_failures['test_x'] = 'typo'\n"
        "    known_failures['test_protocol*'] = 'without parameters, and wrongly feared'\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.device = 'mine:0'\n"
        "        self.dtypes = {name: self.dtypes[name] for name in ('bool', 'int64', 'float32', 'float64')}\n"
        "        self.kernels['sin'] = lambda x: x\n"
        "class Plugin:\n"
        "    @hookimpl\n"
        "    def micrograd_open(self, address): return Mine()\n"
        "plugins.register('mine', Plugin())\n"
        "class TestMine(Conformance):\n"
        "    device = 'mine:0'\n"
    )
    run = pytest_in(tmp_path, "-k", "(test_value and (sin-0 or cos-0)) or known_failures or protocol")
    assert run.returncode == 1
    assert "known failure" in run.stdout  # the sines
    assert "wrongly feared" in run.stdout  # a known failure that passes is a failure
    assert "XPASS(strict)] without parameters" in run.stdout
    assert "'test_x' matches no test" in run.stdout
    assert "mine:0 does not conform" in run.stdout


# ── faults ───────────────────────────────────────────────────────────────────────────────────────────────────

AT_THE_DOOR = {
    "newer-protocol": (BackendIncompatible, "protocol 2, this core speaks protocol 1"),
    "missing-members": (BackendBroken, r"'from_host' must accept \(data, shape, dtype\)"),
    "wrong-name": (BackendBroken, "opened as 'faulty' but calls its device 'cpu:0'"),
    "capability-as-text": (BackendBroken, "'capabilities' must be a set of words .*; it is 'strided'"),
    "no-such": (DeviceUnavailable, "there is no such fault"),
}


@pytest.mark.parametrize("fault", AT_THE_DOOR)
def test_faults_that_show_when_the_device_is_opened(fault: str) -> None:
    error, words = AT_THE_DOOR[fault]
    with pytest.raises(error, match=words):
        Device(f"faulty:{fault}")
    assert zeros(1).tolist() == [0.0]


def test_a_misspelt_hook_is_named() -> None:
    with pytest.raises(BackendBroken, match="adress"):
        plugins.register("faulty-hook", misspelt_hook)


CAUGHT = {
    "wrong-layout": ("test_value", "exp", "exp-0-.*-step-1: got"),
    "aliases": ("test_value", "copy", "copy-0-.*: a write to the result changes operand 0"),
    "mutates": ("test_value", "multiply", "multiply-0-.*: the kernel changed its input 0"),
    "loses-dtype": ("test_value", "sqrt", "kernel 'sqrt' returned float64 of shape .*; the op table says float16"),
    "imprecise": ("test_value", "tanh", "tanh-0-float32-.*: got"),
    "dies": ("test_value", "sigmoid", "the device fell off the bus"),
    "leaks": ("test_memory_returns_after_use", "", "bytes stay in use after a graph has died"),
    "lies-about-layout": ("test_level", "strided", r"layout\(\) tells"),
    "claims-too-much": ("test_level", "dlpack", "two exports of one handle are two copies"),
    "forgets-strides": ("test_round_trip", "float32", "float32 .*transposed: came back as"),
    "wavers": ("test_results_repeat", "", "assert"),
    "loses-nan": ("test_special_values", "maximum", "maximum in float16: .*, of 0.0 and nan, got 0.0, expected nan"),
    "reduces-without-nan": ("test_special_values", "max", r"max in float16: .*nan.*\], got 1.0, expected nan"),
    "reduces-down-without-nan": ("test_special_values", "min", r"min in float16: .*nan.*\], got 0.0, expected nan"),
    "log-of-zero": ("test_special_values", "log", "log in float16: .*, of 0.0, got 0.0, expected -inf"),
    "divides-by-zero": (
        "test_special_values",
        "divide",
        "divide in float16: .*, of 0.0 and 0.0, got 0.0, expected nan",
    ),
    "saturates": ("test_special_values", "exp", "exp in float32: .*, of 100.0, got 3.4.*e[+]38, expected inf"),
    "saturates-integers": (
        "test_special_values",
        "add",
        "add in int32: .* of 1 and 2147483647, got 2147483647, expected -2147483648",
    ),
    "truncates-to-bool": (
        "test_astype",
        "float32",
        "astype from float32 to bool: .*, of 0.5, got False, expected True",
    ),
    "sixteen-bits": ("test_sizes", "add", r"add in .* of \(66049,\) and \(66049,\): .*; at \(65536,\)"),
    "untried": ("test_value", "add", "add-0-int16-contiguous: got"),
    "twelve-axes": ("test_many_axes", "float32", "add in float32 of 13 axes, every other one reversed"),
    "single-precision-gradient": (
        "test_first_gradient",
        "relu",
        "relu-0-float16-contiguous: the gradient is .*, a finite difference of the definition",
    ),
    "forgets-the-correction": ("test_axes_and_keepdims", "std", "std with .* 'keepdims': True, 'correction': 1.0} is"),
    "sorted-axes": ("test_axes_and_keepdims", "sum", r"sum .*'axis': \(1, 0\)"),
    "random-repeats": ("test_random_numbers", "", "random_uniform gives other float32 numbers"),
    "keeps-host-memory": ("test_host_memory_stays_the_hosts", "int32", "int32: from_host keeps the host's memory"),
    "receives-as-it-lies": ("test_strided_memory_is_received", "", "transposed: arrived from cpu.* as"),
    "writes-forwards": ("test_assignments", "int8", r"x\[slice\(None, None, -1\)\] = an array gives"),
    "writes-one-by-one": ("test_assignments", "float32", "= itself, backwards gives"),
    "writes-floats": ("test_assignments", "int64", r"int64, contiguous: x\[Ellipsis\] = a number gives"),
    "writes-no-rows": ("test_assignments", "float32", r"= one for all gives"),
    "own-thread": ("test_other_threads_read", "", "there is no stream in this thread"),
    "stale-program": ("test_programs_called_again", "sums", "sums of contiguous and .* gives as result 0"),
    "merges-steps": ("test_programs_called_again", "nearly equal", "nearly equal of .* gives as result 1"),
    "no-copies": ("test_programs_called_again", "copies", "copies, after a write to its operands, gives as result 2"),
    "first-strides": ("test_programs_called_again", "sums", "sums of transposed and transposed memory gives"),
}


def first_failure(test: str, about: str, device: Device) -> BaseException | None:
    """What a test of the suite says of a device: of the cases of one operation, of one dtype, or as a whole."""
    suite = Conformance()
    run = getattr(suite, test)
    has = (device.kernels.backend.dtypes, device.capabilities)
    calls: list[tuple[Any, ...]] = [(about, device)] if about else [(device,)]
    if test in ("test_special_values", "test_sizes"):
        pairs = (special if test == "test_special_values" else large)(*has).values()
        calls = [((op, dtype), device) for op, dtype in pairs if op.name == about]
    elif about in TABLE and test != "test_axes_and_keepdims":
        calls = [(case, device) for case in cases(*has, floating_only="gradient" in test, only=about)]
    for call in calls:
        try:
            run(*call)
        except pytest.skip.Exception:
            return None
        except Exception as error:
            return error
    return None


@pytest.mark.parametrize("fault", CAUGHT)
def test_faults_that_the_suite_catches_with_a_message_that_points_there(fault: str) -> None:
    test, about, words = CAUGHT[fault]
    failure = first_failure(test, about, Device(f"faulty:{fault}"))
    assert re.search(words, str(failure))
    assert first_failure(test, about, Device("cpu")) is None


@pytest.mark.parametrize("op", ["add", "multiply", "exp", "sin", "where", "matmul", "sum", "max"])
def test_kernels_that_count_in_16_bits_are_caught_each(op: str) -> None:
    assert f"{op} in " in str(first_failure("test_sizes", op, Device("faulty:sixteen-bits")))
    assert first_failure("test_sizes", op, Device("cpu")) is None


@pytest.mark.parametrize("dtype", ["int16", "uint16", "uint32", "bfloat16", "complex64"])
@pytest.mark.parametrize("op", ["add", "multiply", "exp", "sin", "divide", "matmul"])
def test_kernels_of_seldom_dtypes_are_tried_each(op: str, dtype: str) -> None:
    """With a device that has no complex128 too."""
    device = Device("faulty:untried")
    dtypes = set(device.kernels.backend.dtypes) - {"complex128"}
    found = [case for case in cases(dtypes, device.capabilities, only=op) if case.dtype == dtype]
    assert bool(found) == (DTYPES[dtype].kind in TABLE[op].accepted(0))
    if found:
        with pytest.raises(AssertionError, match=f"{op}-0-{dtype}-contiguous: got"):
            Conformance().test_value(found[0], device)


def test_gradients_are_tested_on_devices_without_float64() -> None:
    device = Device("faulty:single-precision-gradient")
    found = [case for case in cases({"float32"}, device.capabilities, floating_only=True) if is_differentiable(case)]
    assert {case.op.name for case in found} >= {"add", "exp", "matmul", "softmax", "conv2d"}
    case = next(case for case in found if case.op.name == "relu")
    for test in (Conformance().test_first_gradient, Conformance().test_second_gradient):
        test(case, Device("cpu"))
    with pytest.raises(AssertionError, match="relu-0-float32-contiguous: the gradient is"):
        Conformance().test_first_gradient(case, device)


@pytest.mark.parametrize("op", ["astype", "max", "min", "sort", "vector_norm", "max_pool2d"])
def test_right_gradients_pass_on_devices_without_float64(op: str) -> None:
    device = Device("cpu")
    found = list(cases({"float32", "int64", "bool"}, device.capabilities, floating_only=True, only=op))
    assert found or op == "astype"  # which has samples in float64 alone
    for case in filter(is_differentiable, found):
        Conformance().test_first_gradient(case, device)
        Conformance().test_second_gradient(case, device)


@pytest.mark.parametrize("word", STANDS_ON)
def test_no_word_is_claimed_without_those_it_stands_on(word: str) -> None:
    device: Any = SimpleNamespace(capabilities=frozenset({word}))
    with pytest.raises(AssertionError, match=f"'{word}' is claimed without {', '.join(sorted(STANDS_ON[word]))}"):
        Conformance().test_level(word, device)


def test_every_fault_is_tested() -> None:
    assert set(faulty_plugin.FAULTS) == {*AT_THE_DOOR, *CAUGHT} - {"no-such"}


# ── cases ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_cases_cover_every_operation_dtype_and_layout() -> None:
    found = list(cases(Device("cpu").kernels.backend.dtypes, Device("cpu").capabilities))
    assert {case.op.name for case in found} == {name for name, op in TABLE.items() if op.operands}
    assert {case.layout for case in found} == set(LAYOUTS)
    assert {case.dtype for case in found} == set(DTYPES)
    assert len({case.id for case in found}) == len(found)
    assert any(0 in operand.shape for case in found for operand in case.sample.operands if hasattr(operand, "shape"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_hold_the_same_numbers_and_lie_as_they_say(layout: str) -> None:
    case = Case(TABLE["add"], 0, "float32", layout)
    tensor, array = case.tensors(Device("cpu"))[0], case.arrays()[0]
    assert tensor.tolist() == array.tolist()
    expected = {
        "contiguous": (3, 1),
        "transposed": (1, 2),
        "step 2": (6, 2),
        "step -1": (3, -1),
        "offset": (3, 1),
        "broadcast": (1, 0),
    }
    assert tensor.strides == expected[layout]
