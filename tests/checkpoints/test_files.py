"""Checkpoint files: whole or not at all, readable by others; anything else is refused with a sentence."""

from __future__ import annotations

import io
import json
import pickle
import random
import re
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import asarray, nn, optim
from micrograd_core.checkpoints import Checkpoint, CheckpointError, container, load, load_model, save
from micrograd_core.dtypes import DTYPES
from micrograd_core.errors import MicrogradError, MissingExtra, ShapeError
from micrograd_core.support.files import CannotWrite
from tests.interrupts import EXHAUSTIVE, ROOT


def small(seed: int = 0) -> nn.Module:
    generator = mg.random.Generator(seed)
    return nn.Sequential(nn.Linear(3, 4, generator=generator), nn.ReLU(), nn.Linear(4, 2, generator=generator))


def bits(state: Any) -> dict[str, Any]:
    return {name: (x.dtype, x.shape, str(x.tolist())) for name, x in state.items()}


# ── what is in them ──────────────────────────────────────────────────────────────────────────────────────────


class Holder(nn.Module):
    """Any tensors."""

    def __init__(self, tensors: dict[str, Any]) -> None:
        self.held = tensors


NUMBERS: dict[str, list[Any]] = {
    "bool": [True, False, True],
    **{name: [0, 1, 100] for name, x in DTYPES.items() if x.is_integer},
    **{name: [0.0, -0.0, 1.5, float("inf"), -2.25] for name, x in DTYPES.items() if x.is_floating},
    "complex64": [1 + 2j, -0.5j],
    "complex128": [1 + 2j, -0.5j, 3.0],
}


def test_every_dtype_comes_back_bit_for_bit(tmp_path: Path) -> None:
    assert set(NUMBERS) == set(DTYPES)
    held = {name: asarray(values, dtype=name) for name, values in NUMBERS.items()}
    held |= {"none": mg.zeros((0, 3)), "one": asarray(2.5), "cube": mg.ones((2, 1, 3), dtype="int16")}
    save(tmp_path / "a", model=Holder(held))
    again = Holder({name: mg.zeros(x.shape, dtype=x.dtype) for name, x in held.items()})
    load(tmp_path / "a", model=again)
    assert bits(again.held) == bits(held)
    told = Checkpoint(tmp_path / "a").tensors
    assert told["held.complex128"] == ("complex128", (3,))
    assert told["held.cube"] == ("int16", (2, 1, 3))


def test_other_libraries_read_them(tmp_path: Path) -> None:
    from safetensors import safe_open
    from safetensors.numpy import load_file

    model = small()
    save(tmp_path / "a.safetensors", model=model, optimizer=optim.Adam(model.parameters()), meta={"epoch": 3})
    found = load_file(tmp_path / "a.safetensors")
    assert {name: x.tolist() for name, x in found.items()} == {
        name: x.tolist() for name, x in model.state_dict().items()
    }
    with safe_open(tmp_path / "a.safetensors", "numpy") as file:
        told = json.loads(file.metadata()["micrograd"])
        assert (told["meta"], told["micrograd"]["parts"]) == ({"epoch": 3}, ["model", "optimizer"])
    for name in NUMBERS:
        if name not in ("bfloat16", "complex64", "complex128"):  # which safetensors.numpy has not
            save(tmp_path / "b", model=Holder({"x": asarray(NUMBERS[name], dtype=name)}))
            assert load_file(tmp_path / "b")["held.x"].tolist() == NUMBERS[name]


def test_the_package_would_have_written_the_same_file(tmp_path: Path) -> None:
    import ctypes

    import safetensors

    held = {f'{name}é\n"{i}': asarray(values[:i], dtype=name) for name, values in NUMBERS.items() for i in (0, 1, 2)}
    held |= {"cube": mg.ones((2, 1, 3), dtype="int16"), "zero": asarray(2.5), "view": mg.ones((3, 2)).T}
    held = {name: x for name, x in held.items() if x.dtype.name != "complex128"}  # which it does not have
    path = tmp_path / "a"
    for some in ({}, *({name: x} for name, x in held.items()), held):
        container.write(path, some, {"told": "ü"})
        with safetensors.safe_open(path, "numpy") as opened:
            strings = opened.metadata()
        kept = {name: x.contiguous() for name, x in some.items()}
        data = {name: bytes(x._kernels.to_host(x._handle)) for name, x in kept.items()}
        whole = safetensors.serialize({
            name: safetensors.TensorSpec(
                dtype=x.dtype.name, shape=x.shape, data_len=len(data[name]),
                data_ptr=ctypes.cast(ctypes.c_char_p(data[name]), ctypes.c_void_p).value,
            )
            for name, x in kept.items()
        }, strings)  # fmt: skip
        ours = path.read_bytes()
        if len(some) < 2:  # it puts tensors of as large elements in an order of its own
            assert ours == whole
        assert len(ours) == len(whole)
        assert dict(safetensors.deserialize(ours)) == dict(safetensors.deserialize(whole))


def test_saving_takes_one_tensor_more_in_memory(tmp_path: Path) -> None:
    model = nn.Sequential(*[nn.Linear(500, 500) for _ in range(8)])
    save(tmp_path / "a", model=model)
    tracemalloc.start()
    try:
        save(tmp_path / "a", model=model)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.2 * 500 * 500 * 4
    assert (tmp_path / "a").stat().st_size > 8 * 500 * 500 * 4


def test_what_other_libraries_wrote_is_loaded_and_has_no_structure(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    model, other = small(1), small(2)
    save_file({name: x.detach().numpy() for name, x in model.state_dict().items()}, tmp_path / "a")
    found = load(tmp_path / "a", model=other)
    assert bits(other.state_dict()) == bits(model.state_dict())
    assert (found.version, found.meta, found.parts) == ("", None, ("model",))
    assert bits(found.state_dict()) == bits(model.state_dict())
    with pytest.raises(CheckpointError, match=r"does not say what its model is made of.*load\(path, model=\.\.\.\)"):
        load_model(tmp_path / "a")
    with pytest.raises(CheckpointError, match="has no optimizer; it has model"):
        load(tmp_path / "a", model=other, optimizer=optim.SGD(other.parameters()))


def test_a_checkpoint_says_what_is_in_it(tmp_path: Path) -> None:
    model = small()
    rule = optim.SGD(model.parameters(), momentum=0.9)
    meta = {"loss": [0.5, float("nan")], "shape": (2, 3), 1: None, "mean": np.ones(2), "$odd": True}
    save(tmp_path / "a", model=model, optimizer={"only": rule}, random=True, meta=meta)
    found = load(tmp_path / "a")
    assert repr(found).startswith(f"<Checkpoint '{tmp_path / 'a'}': Sequential of 26 numbers, optimizer, random, meta=")
    assert (found.parts, found.device, found.version) == (("model", "optimizer", "random"), "cpu", mg.__version__)
    assert str(found.meta) == str({**meta, "mean": asarray(np.ones(2))})
    assert found.structure[""]["class"] == "nn.Sequential"
    assert found.structure["0"]["arguments"] == {"in_features": 3, "out_features": 4}
    save(tmp_path / "b", meta=1)
    assert repr(load(tmp_path / "b")) == f"<Checkpoint '{tmp_path / 'b'}': meta=1>"
    with pytest.raises(CheckpointError, match="has no model; it has nothing but meta"):
        load_model(tmp_path / "b")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"meta": {"a": [1, {2, 3}]}}, r"save: meta at a\.1 has an object of type set"),
        ({"meta": lambda: 1}, "save: meta has an object of type function"),
        ({"data": 3}, "data is an object with state_dict"),
        ({"optimizer": [optim.SGD([mg.ones(1, requires_grad=True)]), None]}, "optimizer is an object with state_dict"),
        ({"random": 3}, "random is a generator"),
    ],
)
def test_what_a_file_cannot_hold_is_refused(tmp_path: Path, given: Any, sentence: str) -> None:
    with pytest.raises(CheckpointError, match=sentence):
        save(tmp_path / "a", **given)
    assert list(tmp_path.iterdir()) == []


def test_what_holds_itself_is_refused(tmp_path: Path) -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(CheckpointError, match="holds itself"):
        save(tmp_path / "a", meta=circle)


# ── loading into objects ─────────────────────────────────────────────────────────────────────────────────────


def test_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    model, other = small(1), small(2)
    rule = optim.Adam(model.parameters())
    model(mg.ones((2, 3))).sum().backward()
    rule.step()
    save(tmp_path / "a", model=model, optimizer=rule, random=True)
    before, state = bits(other.state_dict()), mg.random.default_generator().state
    with pytest.raises(ShapeError):
        load(tmp_path / "a", model=other, optimizer=optim.Adam([mg.ones(3, requires_grad=True)]), random=True)
    assert bits(other.state_dict()) == before
    with pytest.raises(CheckpointError, match="the optimizer was saved as a single one|was saved as a dict"):
        load(tmp_path / "a", model=other, optimizer=[optim.Adam(other.parameters())])
    assert bits(other.state_dict()) == before
    assert mg.random.default_generator().state == state
    with pytest.raises(ShapeError, match="has shape"):
        load(tmp_path / "a", model=nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)))


def test_generators_of_any_library_go_on(tmp_path: Path) -> None:
    given = {
        "ours": mg.random.Generator(1), "python": random.Random(2), "numpy": np.random.default_rng(3),
        "pcg": np.random.Generator(np.random.MT19937(4)),
    }  # fmt: skip

    def draw() -> list[Any]:
        ours = mg.random.uniform(3, generator=given["ours"]).tolist()
        return [ours, given["python"].random(), given["numpy"].random(), given["pcg"].random(), random.random()]

    draw()
    save(tmp_path / "a", random=given)
    save(tmp_path / "b", random=True)
    first, default = draw(), mg.random.uniform(3).tolist()
    load(tmp_path / "a", random=given)
    load(tmp_path / "b", random=True)
    assert (draw(), mg.random.uniform(3).tolist()) == (first, default)


@pytest.mark.parametrize("device", ["cpu", "rawbuffer:0", "strict:0", "torch:cpu"])
def test_a_checkpoint_of_one_device_loads_on_another(tmp_path: Path, device: str) -> None:
    if not mg.Device.is_available(device):
        pytest.skip(f"{device} is not installed")
    for source, target in ((device, "cpu"), ("cpu", device)):
        with mg.use_device(source):
            model = nn.Sequential(small(1), nn.BatchNorm1d(2))
            rule = optim.Adam(model.parameters())
            model(mg.ones((2, 3))).sum().backward()
            rule.step()
        save(tmp_path / "a", model=model, optimizer=rule)
        assert load(tmp_path / "a").device == source
        again = load_model(tmp_path / "a", device=target)
        assert {str(x.device) for _, x in again.named_tensors()} == {target}
        assert bits(again.state_dict()) == bits(model.state_dict())
        other = nn.Sequential(small(2), nn.BatchNorm1d(2)).to(target)
        its = optim.Adam(other.parameters())
        load(tmp_path / "a", model=other, optimizer=its)
        assert bits(its.state_dict()) == bits(rule.state_dict())
        load(tmp_path / "a", model=nn.Sequential(small(2), nn.BatchNorm1d(2)), device=target)


# ── whole or not at all ──────────────────────────────────────────────────────────────────────────────────────

KILLED = '''
import errno, io, os, resource, signal, sys
import micrograd_core as mg
from micrograd_core import nn
from micrograd_core.checkpoints import load, save
from micrograd_core.support.files import CannotWrite

folder = sys.argv[1]
path = os.path.join(folder, "model.safetensors")
old, new = nn.Linear(90, 90), nn.Linear(90, 90)
save(path, model=old)
order, opened_, order_file = [], open, sys.argv[2]


def numbers():
    found = nn.Linear(90, 90)
    load(path, model=found)
    return found.weight.tolist()


def in_child(work):
    """Whether a child that does `work` lives to the end."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(3)
    status = os.waitpid(child, 0)[1]
    return status


def happens(fault, at):
    """Call `fault` at the call number `at` of those that write; half of what that writes is written."""
    seen = 0

    def counted(name, call, half=None):
        def wrapped(*args, **kwargs):
            nonlocal seen
            seen += 1
            if at == 0:
                order.append(name)
            if seen == at:
                if half is not None:
                    half(*args)
                fault()
            return call(*args, **kwargs)
        return wrapped

    class Raw(io.FileIO):
        def write(self, data):
            plain = super().write
            piece = memoryview(data)[:8192]  # as a system may: the rest comes in further calls
            return counted("write", plain, lambda piece: plain(piece[: len(piece) // 2]))(piece)

    opened = io.open

    def open_(file, mode="r", *args, **kwargs):
        return io.BufferedWriter(Raw(file, "w")) if mode == "wb" else opened(file, mode, *args, **kwargs)

    io.open = open_
    os.fsync = counted("fsync", os.fsync)
    os.replace = os.rename = counted("replace", os.replace)


def in_order():
    happens(None, 0)
    save(path, model=new)
    with opened_(order_file, "w") as file:
        file.write(" ".join(name for i, name in enumerate(order) if order[i - 1 : i] != [name]))
    os._exit(0)


def killed(at):
    def work():
        happens(lambda: os.kill(os.getpid(), signal.SIGKILL), at)
        save(path, model=new)
        os._exit(0)
    return work


def full(at):
    def fault():
        raise OSError(errno.ENOSPC, "No space left on device")
    def work():
        happens(fault, at)
        try:
            save(path, model=new)
        except CannotWrite as error:
            os._exit(7 if "no space left on device" in str(error) else 5)
        os._exit(0)
    return work


def limited(size):
    def work():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if size % 2 else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        try:
            save(path, model=new)
        except CannotWrite as error:
            os._exit(7 if "file too large" in str(error) else 5)
        os._exit(0)
    return work


assert os.waitstatus_to_exitcode(in_child(in_order)) == 0
save(path, model=old)
print(open(order_file).read())
before, after = old.weight.tolist(), new.weight.tolist()
size = os.path.getsize(path)
for fault, ends in ((killed, {-9}), (full, {7})):
    outcomes = []
    for at in range(1, 100):
        ended = os.waitstatus_to_exitcode(in_child(fault(at)))
        if ended == 0:
            break
        now = numbers()
        outcomes.append("old" if now == before else "new" if now == after else "broken")
        assert ended in ends, (fault.__name__, at, ended)
        left = [name for name in os.listdir(folder) if name != "model.safetensors"]
        assert not left or fault is killed, left
        for name in left:
            os.remove(os.path.join(folder, name))
        save(path, model=old)
    assert numbers() == after
    print(fault.__name__, *outcomes)
    save(path, model=old)
outcomes = []
for bytes_ in [0, 1, 7, 8, 9, 100, 4096, 8191, 8192, size // 2, size - 2, size - 1]:
    ended = os.waitstatus_to_exitcode(in_child(limited(bytes_)))
    assert ended == (-25 if bytes_ % 2 else 7), (bytes_, ended)
    outcomes.append("old" if numbers() == before else "broken")
assert os.waitstatus_to_exitcode(in_child(limited(size + size % 2))) == 0
assert numbers() == after
print("limited", *outcomes)
'''


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it forks, and sets limits of the system")
def test_a_former_file_outlives_a_kill_and_a_full_disk_at_every_write(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", KILLED, str(folder), str(tmp_path / "order")],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert run.returncode == 0, run.stderr
    order, killed, full, limited = (line.split() for line in run.stdout.splitlines())
    assert order == ["write", "fsync", "replace", "fsync"]  # the file is on the disk before it has its name
    killed, full, limited = killed[1:], full[1:], limited[1:]
    assert killed[-1:] == ["new"]  # as the folder is waited for
    assert set(killed[:-1]) == {"old"}
    assert len(killed) > 5
    assert set(full) <= {"old"}
    assert len(full) == len(killed) - 1  # that the folder cannot be waited for is no reason to raise
    assert set(limited) == {"old"}


def test_what_cannot_be_written_says_why(tmp_path: Path) -> None:
    model = small()
    with pytest.raises(CannotWrite, match="no such file or directory"):
        save(tmp_path / "none" / "a", model=model)
    with pytest.raises(CannotWrite, match="cannot write"):
        save(tmp_path, model=model)
    if Path("/dev/full").exists():
        with pytest.raises(CannotWrite, match="no space left on device"):
            save("/dev/full", model=model)


def test_names_and_strings_that_the_format_has_no_room_for_are_refused(tmp_path: Path) -> None:
    for held in ({"__metadata__": mg.ones(1)}, {"\ud800": mg.ones(1)}):
        with pytest.raises(CheckpointError, match=r"cannot write .*(called __metadata__|surrogates not allowed)"):
            container.write(tmp_path / "a", held, {})
    with pytest.raises(CheckpointError, match=r"header too large.*keep large things as tensors"):
        save(tmp_path / "a", meta="x" * 100_000_000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["safetensors", "numpy"])
def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    save(tmp_path / "a", model=small())
    monkeypatch.setitem(sys.modules, package, None)
    wanted = rf"needs {package}; install it with: pip install 'micrograd-core\[checkpoints\]'"
    with pytest.raises(MissingExtra, match=wanted):
        load(tmp_path / "a")
    if package == "safetensors":
        save(tmp_path / "b", model=small())  # which needs none


# ── what is no checkpoint ────────────────────────────────────────────────────────────────────────────────────


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def written(call: Callable[[Any], Any]) -> bytes:
    file = io.BytesIO()
    call(file)
    return file.getvalue()


def zipped(file: Any) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02.")


def in_tar(file: Any) -> None:
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("storages"))


FOREIGN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "is empty"),
    "a zip, as torch.save writes": (written(zipped), r"torch\.load\(path, weights_only=True\)"),
    "npz": (written(lambda file: np.savez(file, a=np.ones(3))), r"model\.load_state_dict\(dict\(numpy"),
    "npy": (written(lambda file: np.save(file, np.ones(3))), "one array of NumPy"),
    "HDF5": (b"\x89HDF\r\n\x1a\n" + bytes(100), "h5py"),
    "gzip": (b"\x1f\x8b\x08" + bytes(100), "gunzip"),
    "tar": (written(in_tar), "a tar archive"),
    "csv": (b"a,b,c\n1,2,3\n", "is no checkpoint but text"),
    "text with accents": ("größe,länge\n".encode() * 60, "is no checkpoint but text"),
    "a letter": (b"a", "is damaged or cut off: .* header too small"),
    "JSON": (b'{"a": 1}', "is no checkpoint but text"),
    "Parquet": (b"PAR1" + bytes(range(100)), "a table in Parquet"),
    "GGUF": (b"GGUF\3\0\0\0" + bytes(100), "GGUF"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(100), "a picture"),
    "noise": (bytes(random.Random(0).randbytes(200)), "does not begin as a safetensors file"),
    "zeros": (bytes(100), "does not begin as a safetensors file"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_another_kind_is_named(tmp_path: Path, kind: str) -> None:
    data, sentence = FOREIGN[kind]
    (tmp_path / "a").write_bytes(data)
    for read in (load, load_model):
        with pytest.raises(CheckpointError, match=sentence):
            read(tmp_path / "a")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_not_opened(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "opened"
    (tmp_path / "a").write_bytes(pickle.dumps(Bomb(mark), protocol=protocol))
    with pytest.raises(CheckpointError, match="a pickle.*may run any program" if protocol > 1 else "is no checkpoint"):
        load_model(tmp_path / "a")
    assert not mark.exists()


def test_files_of_torch_are_named(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    state = torch.nn.Linear(3, 2).state_dict()
    for modern, said in ((True, "a zip archive"), (False, "a pickle")):
        torch.save(state, tmp_path / "a.pt", _use_new_zipfile_serialization=modern)
        with pytest.raises(CheckpointError, match=rf"{said}.*safetensors\.torch\.save_file"):
            load(tmp_path / "a.pt")
    from safetensors.torch import save_file

    save_file(torch.load(tmp_path / "a.pt", weights_only=True), tmp_path / "a.safetensors")  # as the sentence says
    model = nn.Linear(3, 2)
    load(tmp_path / "a.safetensors", model=model)
    assert model.weight.tolist() == state["weight"].tolist()


def test_an_onnx_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    from micrograd_core.checkpoints import export_onnx

    export_onnx(small(), mg.ones((2, 3)), tmp_path / "a.onnx")
    with pytest.raises(CheckpointError, match="seems to be an ONNX file"):
        load(tmp_path / "a.onnx")


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    for path, sentence in ((tmp_path / "none", "no such file"), (tmp_path, "it is a folder")):
        with pytest.raises(CheckpointError, match=sentence) as caught:
            load(path)
        assert isinstance(caught.value, OSError)


# ── damaged ones ─────────────────────────────────────────────────────────────────────────────────────────────


def parts(path: Path) -> tuple[dict[str, Any], bytes]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def joined(header: Any, body: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def entry(dtype: Any = "F32", shape: Any = (2,), place: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": place}


EIGHT = bytes(8)
DAMAGED: dict[str, tuple[bytes, str]] = {
    "a header longer than the file": ((1000).to_bytes(8, "little") + b"{}", "cut off: .* invalid header length"),
    "a header longer than any": ((1 << 62).to_bytes(8, "little") + b"{}", "header too large"),
    "no JSON": (joined(b"{]", b""), "invalid JSON"),
    "no table": (joined(b"{}", b"")[:8] + b"[]", "does not begin|is no checkpoint"),
    "a deep one": (joined(b'{"a":' + b"[" * 99_999, b""), "recursion limit"),
    "a long number": (joined(b'{"a":' + b"9" * 9_999 + b"}", b""), "number out of range"),
    "no letters": (joined(b'{"\xff": 1}', b""), "invalid UTF-8"),
    "a name twice": (joined(b'{"a":1,"a":1}', b""), "invalid type: integer `1`"),
    "tensors that are none": (joined({"a": 3}, b""), "invalid type: integer `3`"),
    "a key twice": (joined(b'{"a":{"dtype":"F32","dtype":"F32","shape":[2]}}', EIGHT), "duplicate field"),
    "a key too few": (joined({"a": {"dtype": "F32", "shape": [2]}}, EIGHT), "missing field `data_offsets`"),
    "another dtype": (joined({"a": entry("F8_E4M3", [8])}, EIGHT), "'F8_E4M3', which micrograd does not have"),
    "a dtype that is a number": (joined({"a": entry(3)}, EIGHT), "invalid type: integer `3`"),
    "a dtype that is a list": (joined({"a": entry(["F32"])}, EIGHT), "invalid type: sequence"),
    "a shape that is none": (joined({"a": entry(shape="2")}, EIGHT), "invalid type: string"),
    "a negative shape": (joined({"a": entry(shape=[-2])}, EIGHT), "integer `-2`"),
    "a shape of bools": (joined({"a": entry(shape=[True, 2])}, EIGHT), "invalid type: boolean"),
    "a shape of floats": (joined({"a": entry(shape=[2.0])}, EIGHT), "invalid type: floating"),
    "a thousand axes": (joined({"a": entry(shape=[2] + [1] * 1000)}, EIGHT), "a shape that none can have"),
    "a shape beyond memory": (joined({"a": entry(shape=[0, 1 << 62, 4], place=[0, 0])}, b""), "that none can have"),
    "a shape of more": (joined({"a": entry(shape=[3])}, EIGHT), "invalid shape"),
    "a place that runs back": (joined({"a": entry(place=[8, 0])}, EIGHT), "invalid offset"),
    "a place of three": (joined({"a": entry(place=[0, 8, 9])}, EIGHT), "invalid length 3"),
    "tensors beyond the end": (joined({"a": entry()}, bytes(7)), "file not fully covered"),
    "bytes beyond the tensors": (joined({"a": entry()}, bytes(9)), "file not fully covered"),
    "a gap": (joined({"a": entry(place=[1, 9])}, bytes(9)), "invalid offset"),
    "an overlap": (joined({"a": entry(), "b": entry(place=[4, 12])}, bytes(12)), "invalid offset"),
    "strings that are none": (joined({"__metadata__": {"a": 1}}, b""), "expected a string"),
    "no strings by name": (joined({"__metadata__": ["a"]}, b""), "expected a map"),
    "ours without a checksum": (joined({"__metadata__": {"micrograd": "{}"}}, b""), "not what was written"),
    "ours under another name": (joined({"__metadata__": {"m": '{"micrograd-crc32": 1}'}}, b""), "not what was written"),
    "ours that is no JSON": (joined({"__metadata__": {"micrograd": "{"}}, b""), "makes no sense"),
    "ours that is no table": (joined({"__metadata__": {"micrograd": "[]"}}, b""), "makes no sense"),
    "ours that is deep": (joined({"__metadata__": {"micrograd": "[" * 99_999}}, b""), "makes no sense"),
    "complex of nowhere": (joined({"__metadata__": {"micrograd": '{"complex128": 3}'}}, b""), "makes no sense"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_file_is_refused_with_a_sentence(tmp_path: Path, kind: str) -> None:
    data, sentence = DAMAGED[kind]
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(CheckpointError, match=sentence):
        load(tmp_path / "a")


def of_a_run(path: Path) -> bytes:
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(generator=mg.random.Generator(1)), nn.BatchNorm1d(2))
    rule = optim.Adam(model.parameters())
    model(mg.ones((4, 3))).sum().backward()
    rule.step()
    save(path, model=model, optimizer=rule, random=True, meta={"epoch": 3, "tail": asarray([1.0])})
    return path.read_bytes()


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    data = of_a_run(tmp_path / "a")
    for length in range(0, len(data), 1 if EXHAUSTIVE else 67):
        (tmp_path / "a").write_bytes(data[:length])
        with pytest.raises(CheckpointError, match="is damaged or cut off|is empty|is no checkpoint"):
            load(tmp_path / "a")


def test_a_flipped_byte_of_the_header_is_noticed(tmp_path: Path) -> None:
    data, draw = of_a_run(tmp_path / "a"), random.Random(0)
    header = 8 + int.from_bytes(data[:8], "little")
    for place in [*range(16), *(draw.randrange(header) for _ in range(20_000 if EXHAUSTIVE else 200))]:
        changed = bytearray(data)
        changed[place] ^= 1 << draw.randrange(8)
        (tmp_path / "a").write_bytes(changed)
        with pytest.raises(CheckpointError):
            load_model(tmp_path / "a")


def test_a_file_that_changes_after_it_was_looked_at_is_not_read(tmp_path: Path) -> None:
    save(tmp_path / "a", model=small(1))
    found, data = load(tmp_path / "a"), (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(data[:-1])
    with pytest.raises(CheckpointError, match="was written to since it was opened; load it again"):
        found.state_dict()
    for shape in ((2, 3), (3, 2)):  # of one size, with headers of one size
        save(tmp_path / "a", model=Holder({"x": mg.ones(shape)}))
        found = load(tmp_path / "a") if shape == (2, 3) else found
    with pytest.raises(CheckpointError, match="was written to since it was opened; load it again"):
        found.state_dict()


def test_only_what_can_be_complex_is_taken_for_it(tmp_path: Path) -> None:
    header = {"a": entry("F64", [2, 2], [0, 32]), "b": entry("F64", [3], [32, 56]), "c": entry("F32", [2], [56, 64])}
    tensors = {"a": ("complex128", (2,)), "b": ("float64", (3,)), "c": ("float32", (2,))}
    (tmp_path / "a").write_bytes(sealed(header, {"complex128": ["a", "b", "c", "d"]}, bytes(64), tensors))
    assert load(tmp_path / "a").tensors == tensors


def test_only_what_is_asked_for_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a", model=Holder({"x": mg.zeros(1 << 20)}), meta=mg.ones(3))
    given = []
    kernels = mg.Device("cpu").kernels
    upload = type(kernels).upload
    monkeypatch.setattr(
        type(kernels), "upload", lambda self, data, *a: given.append(len(data)) or upload(self, data, *a)
    )
    found = load(tmp_path / "a")
    assert given == [12]
    found.state_dict()
    assert given == [12, 4 << 20]


def mutated(x: Any, draw: random.Random) -> Any:
    """JSON with one thing in it that is something else."""
    if isinstance(x, (dict, list)) and x and draw.random() < 0.9:
        found = dict(x) if isinstance(x, dict) else list(x)
        key = draw.choice(list(found) if isinstance(found, dict) else range(len(found)))
        if draw.random() < 0.1:
            del found[key]
        elif isinstance(found, dict) and draw.random() < 0.1:
            found[draw.choice(["$module", "$tuple", "forward", "layers", "__class__", "$dict", ""])] = found.pop(key)
        else:
            found[key] = mutated(found[key], draw)
        return found
    others: list[Any] = [
        None, True, -1, 0, 3, 1e400, "", "nn.Linear", "nn.functional", "os.system", "0", [], {}, [[]], {"$module": ""},
        {"$module": "0"}, {"$buffer": "0.weight"}, {"$parameter": "2.bias"}, {"$tuple": 3}, {"$dict": [[[], 1]]},
        {"$dict": 3}, {"$dtype": "float99"}, {"$dtype": 3}, {"$device": "nowhere"}, {"$function": "__import__"},
        {"$tensor": "meta/tail"}, {"$generator": "1.generator"}, {"$unknown": "x"}, {"$": 1}, 1 << 300, "\ud800",
    ]  # fmt: skip
    return draw.choice(others)


def told_by(header: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(header["__metadata__"]["micrograd"])
    del told[container.CHECK]
    return told


def sealed(header: dict[str, Any], told: dict[str, Any], body: bytes, tensors: Any) -> bytes:
    """A file that says other things of itself, with a checksum that is right."""
    return joined(header | {"__metadata__": {"micrograd": container._sealed(json.dumps(told), tensors)}}, body)


def test_a_file_assigns_to_no_method(tmp_path: Path) -> None:
    save(tmp_path / "a", model=nn.Linear(2, 2))
    header, body = parts(tmp_path / "a")
    told = told_by(header)
    tensors = load(tmp_path / "a").tensors
    (tmp_path / "a").write_bytes(sealed(header, told, body, tensors))
    load_model(tmp_path / "a")
    for name in ("forward", "__call__", "state_dict"):
        told["structure"][""]["attributes"][name] = {"$function": "relu"}
        (tmp_path / "a").write_bytes(sealed(header, told, body, tensors))
        with pytest.raises(CheckpointError, match=f"it assigns to {name}, a method of Linear"):
            load_model(tmp_path / "a")
        del told["structure"][""]["attributes"][name]


def test_what_a_file_says_of_itself_is_not_believed(tmp_path: Path) -> None:
    of_a_run(tmp_path / "a")
    header, body = parts(tmp_path / "a")
    draw = random.Random(1)
    told = told_by(header)
    tensors = load(tmp_path / "a").tensors
    outcomes = {"refused": 0, "loaded": 0}
    for _ in range(20_000 if EXHAUSTIVE else 200):
        name = draw.choice(["structure"] * 6 + sorted(told))
        changed = told | {name: mutated(told[name], draw)}
        (tmp_path / "b").write_bytes(sealed(header, changed, body, tensors))
        model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(generator=mg.random.Generator(1)), nn.BatchNorm1d(2))
        for attempt in (
            lambda: load_model(tmp_path / "b"),
            lambda model=model: load(
                tmp_path / "b", model=model, optimizer=optim.Adam(model.parameters()), random=True
            ),
            lambda: repr(load(tmp_path / "b")),
        ):
            try:
                attempt()
                outcomes["loaded"] += 1
            except MicrogradError:
                outcomes["refused"] += 1
    assert min(outcomes.values()) > 60


def claiming(path: Path, model: nn.Module, change: Callable[[dict[str, Any]], Any], name: str = "") -> None:
    """Write a file whose structure says something else of one module than is so."""
    save(path, model=model)
    header, body = parts(path)
    told, tensors = told_by(header), load(path).tensors
    change(told["structure"][name])
    path.write_bytes(sealed(header, told, body, tensors))


@pytest.mark.parametrize(
    ("model", "claims"),
    [
        (lambda: nn.LSTM(1, 1), {"num_layers": 10**9}),
        (lambda: nn.Linear(2, 2), {"in_features": 10**5, "out_features": 10**5}),
        (lambda: nn.BatchNorm1d(2), {"num_features": 10**12}),
        (
            lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(2, 1, 2), 1),
            {"encoder_layer": {"$module": "layers.0"}, "num_layers": 10**9},
        ),
        (lambda: nn.Transformer(2, 1, 1, 1, 2), {"num_decoder_layers": 10**9}),
    ],
)
def test_a_file_that_declares_more_than_it_holds_is_refused_before_it_is_made(
    tmp_path: Path, model: Callable[[], nn.Module], claims: dict[str, Any]
) -> None:
    def claim(told: dict[str, Any]) -> None:
        told["arguments"] = told.get("arguments", {}) | claims
        told.pop("whole", None)

    claiming(tmp_path / "a", model(), claim)
    assert (tmp_path / "a").stat().st_size < 32_000
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "from micrograd_core.checkpoints import load_model; load_model(sys.argv[1])"
    )
    run = [sys.executable, "-c", program, str(tmp_path / "a")]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=60)
    assert re.search(
        r"CheckpointError: .* declares more than the \d+ tensors of \d+ numbers that the file", ended.stderr
    )


def test_a_model_that_was_given_smaller_layers_comes_back(tmp_path: Path) -> None:
    model = nn.Sequential(nn.TransformerEncoder(nn.TransformerEncoderLayer(2, 1, 2), 3))
    model[0].layers = nn.ModuleList(list(model[0].layers)[:1])
    save(tmp_path / "a", model=model)
    assert len(load_model(tmp_path / "a")[0].layers) == 1


@pytest.mark.parametrize("part", ["structure", "meta"])
def test_a_file_opens_no_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    from micrograd_core import plugins

    named = {"$device": "nowhere:0"}
    claiming(tmp_path / "a", nn.Linear(2, 2), lambda told: told["attributes"].update(home=named))
    if part == "meta":
        save(tmp_path / "a", meta={"home": 3})
        header, body = parts(tmp_path / "a")
        told = told_by(header)
        told["meta"]["home"] = named
        (tmp_path / "a").write_bytes(sealed(header, told, body, {}))
    opened = list[str]()
    monkeypatch.setattr(plugins, "open_backend", lambda name, address: opened.append(name))
    with pytest.raises(CheckpointError, match="names the device 'nowhere:0', which is not open, and a file opens none"):
        load_model(tmp_path / "a")
    assert not opened


def test_a_device_that_is_open_comes_back(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    model.home = mg.Device("cpu")  # type: ignore[assignment]
    save(tmp_path / "a", model=model)
    assert load_model(tmp_path / "a").home is mg.Device("cpu")
