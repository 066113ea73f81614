"""Plugins and devices: discovery, every way a plugin can be wrong, fallback, the default device, the doctor."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from micrograd_core import Device, Tensor, asarray, default_device, plugins, set_default_device, use_device, zeros
from micrograd_core.backend import CAPABILITIES, PROTOCOL, Backend
from micrograd_core.compiler.program import Program, Ref, Step
from micrograd_core.errors import (
    BackendBroken,
    BackendIncompatible,
    BackendNotFound,
    DeviceUnavailable,
    MicrogradError,
    OutOfMemory,
    UnsupportedOp,
)
from micrograd_core.plugins import hookimpl
from micrograd_core.tools import doctor
from micrograd_rawbuffer.storage import RawBufferBackend


def plugin(backend: Any = None, **hooks: Any) -> Any:
    """An object with hooks; by default ``micrograd_open`` gives `backend` (made now, if it is a class)."""

    class Made:
        @hookimpl
        def micrograd_open(self, address: str) -> Any:
            return backend() if isinstance(backend, type) else backend

    for name, function in hooks.items():
        setattr(Made, name, staticmethod(hookimpl(function)))
    return Made()


class Mine(RawBufferBackend):
    """A sound backend for the device name ``mine``."""

    def __init__(self) -> None:
        super().__init__("mine:0")


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    plugins.unregister("mine")
    Device.forget("mine")
    set_default_device(None)


def offer(backend: Any, **hooks: Any) -> None:
    plugins.register("mine", plugin(backend, **hooks))


# ── the name of a device ─────────────────────────────────────────────────────────────────────────────────────


def test_devices_are_equal_hashable_and_print_short() -> None:
    assert Device("cpu") is Device("cpu:0") is Device.cpu() is Device(Device("cpu"))
    assert str(Device("cpu")) == "cpu"
    assert repr(Device("rawbuffer:1")) == "Device('rawbuffer:1')"
    assert len({Device("cpu"), Device("cpu:0"), Device("rawbuffer")}) == 2
    assert Device("rawbuffer:0") != Device("rawbuffer:1")
    assert pickle.loads(pickle.dumps(Device("rawbuffer:1"))) is Device("rawbuffer:1")
    assert Device("cpu").is_cpu()
    assert not Device("cpu").is_cuda()
    assert Device("rawbuffer").type == "rawbuffer"


@pytest.mark.parametrize("spec", [None, 3, b"cpu"])
def test_a_device_is_a_name(spec: Any) -> None:
    with pytest.raises(TypeError, match="a device is a name"):
        Device(spec)


def test_an_index_that_is_not_there() -> None:
    with pytest.raises(DeviceUnavailable, match='the host is one device; write Device\\("cpu"\\)'):
        Device("cpu:1")


def test_a_name_nobody_provides_suggests_and_tells_what_to_install() -> None:
    with pytest.raises(BackendNotFound, match="installed: cpu, .*rawbuffer.*. Did you mean 'cpu'"):
        Device("cpuu")
    with pytest.raises(BackendNotFound, match="pip install micrograd-cuda$"):
        Device("cuda:3")
    assert isinstance(BackendNotFound("x", []), LookupError)


def test_cuda_without_a_plugin_is_simply_not_available() -> None:
    assert Device.is_cuda_available() is False
    assert Device.is_gpu_available() is False
    with pytest.raises(BackendNotFound):
        Device.gpu()


def test_fallback_warns_once_with_the_reason() -> None:
    with pytest.warns(
        RuntimeWarning, match="no installed backend provides the CUDA device 'cuda'.*Using cpu instead, as asked"
    ) as seen:
        assert Device("cuda", fallback="cpu") is Device("cpu")
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Device("cpu", fallback="cpu").is_cpu()


def test_auto_takes_the_best_that_works() -> None:
    assert Device("auto").is_cpu()
    offer(Mine, micrograd_priority=lambda: 10)
    assert str(Device("auto")) == "mine:0"
    assert Device.gpu() is Device("mine")
    Device.forget("mine")

    def unavailable(address: str) -> Any:
        raise DeviceUnavailable("mine", "the driver is asleep")

    plugins.register("mine", plugin(None, micrograd_open=unavailable, micrograd_priority=lambda: 10))
    with pytest.warns(RuntimeWarning, match="uses cpu, because .*the driver is asleep"):
        assert Device("auto").is_cpu()
    assert not Device.is_gpu_available()


# ── the default device ───────────────────────────────────────────────────────────────────────────────────────


def test_default_device_is_local_to_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_device().is_cpu()
    seen = []
    with use_device("rawbuffer:1") as chosen:
        assert zeros(2).device is chosen is default_device()
        thread = threading.Thread(target=lambda: seen.append(default_device()))
        thread.start()
        thread.join()
    assert seen == [Device("cpu")]
    assert Tensor([1.0]).device.is_cpu()
    set_default_device("rawbuffer")
    assert asarray([1.0]).device is Device("rawbuffer:0")
    set_default_device(None)
    monkeypatch.setenv("MICROGRAD_DEVICE", "rawbuffer:1")
    assert default_device() is Device("rawbuffer:1")


def test_disabled_plugins_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROGRAD_DISABLE_PLUGINS", "mine, other")
    offer(Mine)
    assert "mine" not in plugins.names()
    with pytest.raises(BackendNotFound, match="switched off by MICROGRAD_DISABLE_PLUGINS"):
        Device("mine")


# ── broken plugins ───────────────────────────────────────────────────────────────────────────────────────────


def test_all_faults_come_in_one_message() -> None:
    class Wrong:
        device = 7
        dtypes = {"float32": 1, "float33": 2}  # noqa: RUF012
        protocol = PROTOCOL
        capabilities = "strided"

        def from_host(self, data: Any) -> Any: ...

        def kernel(self, op: str) -> Any:
            return 5 if op == "add" else None

    offer(Wrong)
    with pytest.raises(BackendBroken) as caught:
        Device("mine")
    message = str(caught.value)
    for words in (
        "'device' must be its name",
        "unknown name 'float33'",
        "lacks 'int64'",
        "'capabilities' must be a set of words such as {'linalg'}; it is 'strided'",
        "'from_host' must accept (data, shape, dtype); it is from_host(data",
        "'to_host' is missing",
        "no kernel for astype, bitwise_and",
        "not callable for add",
        "MICROGRAD_DISABLE_PLUGINS=mine",
    ):
        assert words in message
    assert len(caught.value.faults) == 9
    assert zeros(1).tolist() == [0.0]  # other devices are unaffected


def test_a_capability_of_a_version_to_come_is_ignored_with_a_warning() -> None:
    offer(type("Newer", (Mine,), {"capabilities": frozenset({"strided", "teleport"})}))
    with pytest.warns(RuntimeWarning, match="mine: this core does not know the capabilities 'teleport', and ignores"):
        device = Device("mine")
    assert device.capabilities == {"strided"}
    assert zeros(2, device=device).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("backend", "error", "words"),
    [
        (None, BackendBroken, "returned None instead of a backend"),
        (
            type("Newer", (Mine,), {"protocol": PROTOCOL + 1}),
            BackendIncompatible,
            "protocol 2, this core speaks protocol 1; update micrograd-core",
        ),
        (type("Older", (Mine,), {"protocol": 0}), BackendIncompatible, "update that distribution"),
        (type("Bool", (Mine,), {"protocol": True}), BackendBroken, "'protocol' must be the integer 1; it is True"),
        (type("Silent", (Mine,), {"protocol": None}), BackendBroken, "'protocol' must be the integer 1"),
        (RawBufferBackend, BackendBroken, "micrograd_open raised TypeError"),
    ],
)
def test_backends_that_do_not_fit(backend: Any, error: type[Exception], words: str) -> None:
    offer(backend)
    with pytest.raises(error, match=words):
        Device("mine")


def test_a_backend_that_lies_about_its_name() -> None:
    offer(lambda: None)
    plugins.register("mine", plugin(RawBufferBackend("rawbuffer:0")))
    with pytest.raises(BackendBroken, match="opened as 'mine' but calls its device 'rawbuffer:0'"):
        Device("mine")


def test_a_backend_whose_kernels_raise_when_asked() -> None:
    class Raises(Mine):
        def kernel(self, op: str) -> Any:
            raise OSError("no compiler")

    offer(Raises)
    with pytest.raises(BackendBroken, match=r"kernel\('add'\) raised OSError: no compiler"):
        Device("mine")


def test_hooks_are_validated() -> None:
    class Misspelt:
        @hookimpl
        def micrograd_open(self, adress: str) -> Any: ...

    class Unknown:
        @hookimpl
        def micrograd_open(self, address: str) -> Any: ...

        @hookimpl
        def micrograd_close(self) -> None: ...

    for wrong, words in (
        (Misspelt, "adress"),
        (Unknown, "unknown hook 'micrograd_close'"),
        (object, "implements no micrograd_open"),
    ):
        with pytest.raises(BackendBroken, match=words):
            plugins.register("mine", wrong())
    offer(Mine)  # a failed registration leaves no trace
    assert Device("mine").type == "mine"


def test_optional_members_have_defaults() -> None:
    class Least:
        """The six required members and nothing else, inheriting from nobody."""

        device, protocol = "mine:0", PROTOCOL

        def __init__(self) -> None:
            self.inner = Mine()
            self.dtypes = self.inner.dtypes

        def from_host(self, data: Any, shape: Any, dtype: Any) -> Any:
            return self.inner.from_host(data, shape, dtype)

        def to_host(self, x: Any) -> Any:
            return self.inner.to_host(x)

        def kernel(self, op: str) -> Any:
            return self.inner.kernel(op)

    offer(Least)
    device = Device("mine")
    x = Tensor([[1.0, 2.0]], device=device)
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.cpu().tolist() == [[2.0, 4.0]]
    assert x.strides == (2, 1)
    assert device.capabilities == frozenset()
    assert device.memory() == {}
    device.synchronize()
    device.release_memory()
    y = asarray([1.0, 2.0], device=device)
    y[0] = 5.0  # no in-place assignment: the core copies
    assert y.tolist() == [5.0, 2.0]
    program = Program(2, (Step("add", (Ref(0), Ref(1)), {}), Step("multiply", (Ref(2), 3.0), {})), (Ref(3),))
    (out,) = device.kernels.compile(program)(y._handle, y._handle)
    assert list(device.kernels.to_host(out)) == list(device.kernels.to_host((y * 6)._handle))
    with pytest.raises(TypeError, match="takes 2 handles"):
        device.kernels.compile(program)(y._handle)
    with pytest.raises(KeyError, match="'teleport'"):
        device.kernels.compile(Program(1, (Step("teleport", (Ref(0),), {}),), ()))


def test_a_backend_may_subclass_the_protocol_for_its_defaults() -> None:
    class Inherits(Mine, Backend):
        pass

    offer(Inherits)
    Device("mine").synchronize()
    assert asarray([1.0, 2.0]).to("mine").tolist() == [1.0, 2.0]  # received through the host
    assert {"strided", "linalg", "fft", "complex", "random", "dlpack"} < set(CAPABILITIES)


def test_an_operation_without_kernel_or_composition_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from micrograd_core.ops import TABLE

    offer(Mine)
    monkeypatch.setattr(TABLE["tanh"], "compose", None)
    with pytest.raises(UnsupportedOp, match=r"tanh is not supported on mine:0.*\.to\('cpu'\)"):
        Tensor([1.0], device="mine").tanh()


def test_a_kernel_that_dies_says_where() -> None:
    class Dies(Mine):
        def map(self, op: str, out: Any, *operands: Any) -> None:
            if op == "exp":
                raise RuntimeError("the kernel died")
            if op == "log":
                raise MemoryError
            super().map(op, out, *operands)

        def memory(self) -> dict[str, int]:
            return {"in_use": 1000, "reserved": 2000}

    offer(Dies)
    x = Tensor([1.0, 2.0], device="mine")
    with pytest.raises(RuntimeError, match="the kernel died") as caught:
        x.exp()
    assert any("exp on mine:0: shapes [(2,)]" in note for note in caught.value.__notes__)
    with pytest.raises(OutOfMemory, match="in use 1,000 bytes, reserved 2,000 bytes.*release_memory"):
        x.log()
    assert (x + 1).tolist() == [2.0, 3.0]


# ── entry points, in processes of their own ──────────────────────────────────────────────────────────────────


def install(folder: Path, name: str, module: str, source: str, distribution: str = "") -> None:
    """What an installer leaves behind for a plugin: a module, and metadata with an entry point."""
    distribution = distribution or f"micrograd-{name}"
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{distribution.replace('-', '_')}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[micrograd.backends]\n{name} = {module}\n")


def python(code: str, path: Path, **environment: str) -> str:
    import os

    completed = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(path), *sys.path]), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def test_a_broken_plugin_breaks_nothing_else(tmp_path: Path) -> None:
    install(tmp_path, "bad", "bad_plugin", "raise ImportError('libbad.so is missing')")
    install(tmp_path, "unused", "unused_plugin", "raise SystemExit('nobody asked for this import')")
    out = python(
        "import micrograd_core as mg\n"
        "print(mg.Tensor([1.0]).device, mg.Device.is_available('bad'))\n"
        "try: mg.Device('bad')\n"
        "except mg.errors.BackendBroken as e: print(e, type(e.__cause__).__name__)\n",
        tmp_path,
    )
    assert "cpu False" in out
    assert "micrograd-bad 1.2, entry point bad = bad_plugin" in out
    assert "its import raised ImportError: libbad.so is missing" in out
    assert out.strip().endswith("ImportError")


def test_two_distributions_with_one_device_name(tmp_path: Path) -> None:
    install(tmp_path, "twin", "twin_a", "", "micrograd-twin-a")
    install(tmp_path, "twin", "twin_b", "", "micrograd-twin-b")
    out = python(
        "import micrograd_core as mg\ntry: mg.Device('twin')\nexcept mg.errors.BackendBroken as e: print(e)", tmp_path
    )
    assert "micrograd-twin-a 1.2" in out
    assert "micrograd-twin-b 1.2" in out
    assert "several distributions claim this device name" in out


def test_without_any_plugin_the_error_says_what_to_install(tmp_path: Path) -> None:
    code = "import micrograd_core as mg\ntry: mg.Tensor([1.0])\nexcept mg.MicrogradError as e: print(e)"
    for off in ("cpu", "*"):
        assert "MICROGRAD_DISABLE_PLUGINS; unset it" in python(code, tmp_path, MICROGRAD_DISABLE_PLUGINS=off)
    none = (
        "import os\nseen = os.listdir\nos.listdir = lambda x: [each for each in seen(x) if 'micrograd' not in each]\n"
    )
    assert "installed: none. To add it: pip install micrograd-cpu" in python(none + code, tmp_path)


def test_importing_the_core_imports_no_array_library_and_no_plugin() -> None:
    code = (
        "import sys, micrograd_core as mg\n"
        "heavy = {'numpy', 'torch', 'pluggy', 'micrograd_cpu', 'importlib.metadata'}\n"
        "heavy = (heavy | {'micrograd_rawbuffer'}) & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from micrograd_core import plugins\n"
        "assert 'cpu' in plugins.names()\n"
        "import micrograd_cpu.plugin, micrograd_rawbuffer.plugin\n"
        "assert not {'numpy', 'micrograd_rawbuffer.storage'} & set(sys.modules)\n"
    )
    python(code, Path())


def test_importing_the_core_leaves_slow_modules_for_when_they_are_needed() -> None:
    slow = "asyncio dataclasses decimal fractions inspect json logging pathlib pickle random subprocess tempfile"
    later = "compiler conformance drawing fft linalg nn optim ops.standard ops.network random transforms value"
    code = (
        "import sys; before = set(sys.modules); import micrograd_core\n"
        f"names = set({slow!r}.split()) | {{'micrograd_core.' + each for each in {later!r}.split()}}\n"
        "early = names & (set(sys.modules) - before)\n"
        "assert not early, early\n"
        "ours = [name for name in sys.modules if name.startswith('micrograd_core')]\n"
        "assert len(ours) <= 50, ours\n"
    )
    python(code, Path())


def test_the_first_tensor_leaves_slow_modules_for_when_they_are_needed() -> None:
    code = (
        "import sys, micrograd_core as mg\n"
        "x = mg.Tensor([[1.0, 2.0]], requires_grad=True)\n"
        "(x * x + mg.relu(x @ x.mT)).sum().backward()\n"
        "slow = {'llvmlite', 'numpy.testing', 'unittest'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
        "assert mg.unique_values(x).tolist() == [1.0, 2.0]\n"
    )
    python(code, Path())


# ── the doctor ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_doctor_examines_every_device() -> None:
    rows = {row["device"]: row for row in doctor.examine_all()}
    assert rows["cpu"]["status"] == rows["rawbuffer:0"]["status"] == rows["rawbuffer:1"]["status"] == "works"
    version = metadata.version("micrograd-cpu")
    assert rows["cpu"]["plugin"] == f"micrograd-cpu {version}"
    assert rows["rawbuffer:0"]["native ops"] < rows["cpu"]["native ops"] <= rows["cpu"]["ops"]
    json.dumps(list(rows.values()))


def test_the_doctor_finds_wrong_numbers_and_deaths() -> None:
    class Wrong(Mine):
        def map(self, op: str, out: Any, *operands: Any) -> None:
            super().map("add" if op == "multiply" else op, out, *operands)

    offer(Wrong)
    row = doctor.examine("mine", "0")
    assert row["status"] == "wrong"
    assert "do not use it" in row["reason"]
    Device.forget("mine")
    offer(None, micrograd_addresses=lambda: 1 / 0)
    broken = next(row for row in doctor.examine_all() if row["device"] == "mine")
    assert "ZeroDivisionError" in broken["reason"]
    assert "mine: the 'mine' backend" in doctor.table([broken])


def test_errors_have_one_base() -> None:
    with pytest.raises(MicrogradError):
        Device("nowhere")
