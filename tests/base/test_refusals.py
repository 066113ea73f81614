"""What is refused at the door, at once and in a sentence: names, plugins, data without end, settings, full disks."""

from __future__ import annotations

import ast
import errno
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tomllib
import warnings
from collections import UserList, deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import micrograd_core as mg
from micrograd_core import Device, Tensor, Value, asarray, plugins, zeros
from micrograd_core.errors import (
    PROVIDERS,
    BackendBroken,
    BackendIncompatible,
    BackendNotFound,
    DeviceUnavailable,
    DTypeError,
    MicrogradError,
    ShapeError,
)
from micrograd_core.plugins import hookimpl
from micrograd_core.support import files
from micrograd_core.support.open_devices import OPENED
from micrograd_core.tools import doctor
from micrograd_core.tools.cli import main
from micrograd_core.tools.scaffold import ScaffoldError, new_backend
from micrograd_train import train
from micrograd_train.learning import loop, settings
from micrograd_train.learning.training import CHECKPOINT
from micrograd_train.report.results import ALWAYS

ROOT = Path(__file__).parents[2]
OTHERS = "dask,jax,rawbuffer,strict,torch"  # what a test of plugins need not open


# ── what is advised ──────────────────────────────────────────────────────────────────────────────────────────


def advised(message: str) -> set[str]:
    return {each.strip("'").rstrip(".;") for each in re.findall(r"pip install (?!-e)('[^']*'|\S+)", message)}


def test_the_list_of_providers_is_what_the_project_publishes() -> None:
    published = {}
    for file in sorted([*ROOT.glob("backends/*/pyproject.toml"), *ROOT.glob("plugins/*/pyproject.toml")]):
        project = tomllib.loads(file.read_text())["project"]
        extras = project.get("optional-dependencies", {})
        for device in project["entry-points"].get("micrograd.backends", ()):
            published[device] = f"{project['name']}[{device}]" if device in extras else project["name"]
    test_tools = {"faulty", "faulty-import", "faulty-hook"}
    stand_ins = {"auto", "gpu"}
    assert {name: PROVIDERS[name] for name in PROVIDERS if name not in stand_ins} == {
        name: published[name] for name in published if name not in test_tools
    }
    assert {PROVIDERS[name] for name in stand_ins} <= set(published.values())


def test_no_package_is_advised_but_those() -> None:
    draw = random.Random(0)
    words = (
        "mps hip rocm xpu tpu npu vulkan meta ipu directml float64 bfloat16 double half CUDA Cuda cuda0 tourch".split()
    )
    words += [name.upper() for name in PROVIDERS] + [f"{name} " for name in PROVIDERS]
    words += ["".join(draw.choices("abcdeprtu-_[]:; ./'\n", k=draw.randint(0, 9))) for _ in range(300)]
    installed = [[], ["cpu"], ["cpu", "mine", "rawbuffer"]]
    for name, here in itertools.product(words, installed):
        message = str(BackendNotFound(name, here))
        assert advised(message) <= set(PROVIDERS.values()), message
        assert "No known package provides it" in message or "Did you mean" in message or advised(message)
    for name in PROVIDERS:
        assert advised(str(BackendNotFound(name, []))) == {PROVIDERS[name]}
    with pytest.raises(
        BackendNotFound, match="device 'mps'; installed: cpu, .*rawbuffer.*No known package provides it"
    ):
        Device("mps")
    with pytest.raises(BackendNotFound, match=r"Did you mean 'cuda'\? It comes with: pip install micrograd-cuda$"):
        Device("CUDA")


def test_no_text_builds_the_name_of_a_package() -> None:
    """In no f-string does a package to install begin with something that is filled in."""
    allowed = {
        "errors.py: pip install {}",  # of PROVIDERS
        "scaffold.py: micrograd-{}",  # a folder
    }
    found = set()
    parts = ("micrograd_core", "backends/*/micrograd_*", "plugins/*/micrograd_*")
    for file in itertools.chain(*(ROOT.glob(f"{part}/**/*.py") for part in parts)):
        for node in ast.walk(ast.parse(file.read_text())):
            text = ""
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(x.value) if isinstance(x, ast.Constant) else "{}" for x in node.values)
            elif isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant):  # "…" + name, "…%s" % name
                text = f"{node.left.value}{{}}".replace("%s", "{}")
            for built in re.findall(r"pip install '?\{\}|micrograd-(?:\w+-)*\{\}", text):
                found.add(f"{file.name}: {built}")
    assert found == allowed


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_a_scaffold_takes_no_name_that_is_taken(name: str, tmp_path: Path) -> None:
    with pytest.raises(ScaffoldError, match=f"'{name}' is the name that"):
        new_backend(name, tmp_path)
    assert not list(tmp_path.iterdir())


# ── names of devices ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("", 'a device is a name such as "cpu", "cuda:1" or "auto"$'),
        (" ", "a device is a name"),
        (":0", "a device is a name"),
        ("CPU", "Did you mean 'cpu'\\?$"),
        ("cpu ", "Did you mean 'cpu'\\?$"),
        ("cpu\n", "Did you mean 'cpu'\\?$"),
        ("AUTO", "Did you mean 'auto'\\?$"),
        ("auto:1", "'auto' takes no address"),
        ("gpu:0", "'gpu' takes no address"),
        ("cpu:99", 'the host is one device; write Device\\("cpu"\\)'),
        ("cuda:-1", "CUDA device 'cuda'.*pip install micrograd-cuda"),
        ("gpu", "device 'gpu'.*pip install micrograd-cuda"),
        ("xpu", "No known package provides it"),
    ],
)
def test_a_name_that_is_none_gets_one_sentence(spec: str, words: str) -> None:
    for ask in (Device, zeros(1).to, lambda spec: zeros(1, device=spec), Value(1.0).to, mg.nn.Linear(1, 1).to):
        with pytest.raises(RuntimeError, match=words) as caught:
            ask(spec)
        assert isinstance(caught.value, BackendNotFound | DeviceUnavailable)
        assert "\n" not in str(caught.value)
    assert not Device.is_available(spec)
    with pytest.warns(RuntimeWarning, match=words.rstrip("$")):
        assert Device(spec, fallback="cpu").is_cpu()


@pytest.mark.parametrize("spec", [None, 0, True, b"cpu", ["cpu"], float, mg.float64, object()])
def test_what_is_no_name_is_no_device(spec: Any) -> None:
    with pytest.raises(TypeError, match="a device is a name such as|is a dtype") as caught:
        Device(spec)
    assert isinstance(caught.value, DTypeError) == (spec in (float, mg.float64))
    assert not Device.is_available(spec)


@pytest.mark.parametrize("spec", ["float64", "torch.float64", mg.float64])
def test_a_dtype_is_no_device(spec: Any) -> None:
    for ask in (Device, lambda spec: zeros(1, device=spec), Value(1.0).to):
        with pytest.raises(
            DTypeError, match=r"is a dtype, and here a device is meant.*\.to\(dtype='float64'\)"
        ) as caught:
            ask(spec)
        assert "pip install" not in str(caught.value)


def test_errors_about_devices_are_runtime_errors_that_say_cuda_where_cuda_was_asked_for() -> None:
    for device in ("cuda", "cuda:1", "torch:cuda:0", "mine", "cudaish"):
        name = device.partition(":")[0]
        said = device if name == "torch" else name
        for error in (
            BackendNotFound(said, []),
            BackendNotFound(said, [], [said]),
            DeviceUnavailable(device, "there is no driver"),
            BackendBroken(said, "here 1.0", ["no"]),
            BackendIncompatible(said, "here 1.0", 2, 1),
        ):
            assert isinstance(error, RuntimeError)
            assert ("CUDA" in str(error).replace("MICROGRAD_DISABLE", "")) == ("cuda" in device.split(":")), error
    for ask in (Device.cuda, Tensor([1.0]).cuda, Value(1.0).cuda, lambda: zeros(1, device="cuda:1")):
        with pytest.raises(RuntimeError, match="CUDA"):
            ask()


def test_gpu_is_the_best_accelerator() -> None:
    class Host:
        @hookimpl
        def micrograd_open(self, address: str) -> Any:
            from micrograd_rawbuffer.storage import RawBufferBackend

            return RawBufferBackend("fast:0")

        @hookimpl
        def micrograd_priority(self) -> int:
            return 3

    plugins.register("fast", Host())
    try:
        assert Device("gpu") is Device.gpu() is Device("fast")
        assert Device.is_gpu_available()
    finally:
        plugins.unregister("fast")
    assert not Device.is_gpu_available()


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("MICROGRAD_DEVICE", "mps", "No known package provides it; the default device comes from the environment"),
        ("MICROGRAD_DEVICE", " ", "a device is a name such as"),
        ("MICROGRAD_DEVICE", "float32", "'float32' is a dtype"),
        ("MICROGRAD_DISABLE_PLUGINS", "*", "every backend is switched off by MICROGRAD_DISABLE_PLUGINS; unset it"),
        ("MICROGRAD_DISABLE_PLUGINS", " cpu ,,", "the 'cpu' backend is switched off by MICROGRAD_DISABLE_PLUGINS"),
    ],
)
def test_the_environment_may_hold_nonsense(
    variable: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr(plugins, "_managers", {})
    for spec in list(OPENED):
        monkeypatch.delitem(OPENED, spec)
    assert main(["train", "digits", "--epochs", "1"]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


# ── plugins ──────────────────────────────────────────────────────────────────────────────────────────────────

HEAD = """
from micrograd_core.plugins import hookimpl
from micrograd_rawbuffer.storage import RawBufferBackend
@hookimpl
def micrograd_open(address): return RawBufferBackend("bad:0")
"""
RAISED = {
    "SystemExit": "raise SystemExit(3)",
    "SystemExit: bye": "raise SystemExit('bye')",
    "BaseException: all": "raise BaseException('all')",
    "GeneratorExit": "raise GeneratorExit",
    "StopIteration": "raise StopIteration",
    "ModuleNotFoundError: No module named 'lacking'": "import lacking",
    "KeyError: 'key'": "{}['key']",
    "unprintable": "raise type('Odd', (BaseException,), {'__str__': lambda self: 1 / 0})",
}
PLACES = {
    "its import": "{}",
    "its registration": HEAD + "def __dir__(): {}",
    "micrograd_addresses": HEAD + "@hookimpl\ndef micrograd_addresses(): {}",
    "micrograd_priority": HEAD + "@hookimpl\ndef micrograd_priority(): {}",
    "micrograd_open": HEAD.replace('return RawBufferBackend("bad:0")', "{}"),
    "a look at its backend": HEAD + "class Odd(RawBufferBackend):\n    def kernel(self, op): {}\n"
    "@hookimpl\ndef micrograd_open(address): return Odd('bad:0')",
}
MISFITS = {
    "misspelt argument": (HEAD.replace("address)", "adress)"), "adress"),
    "too many arguments": (HEAD.replace("address)", "address, more)"), "more"),
    "a keyword of its own": (HEAD.replace("address)", "address, *, more)"), "more"),
    "unknown hook": (HEAD + "@hookimpl\ndef micrograd_close(): pass", "unknown hook 'micrograd_close'"),
    "no hook": ("", "implements no micrograd_open"),
    "a generator": (HEAD.replace("return ", "yield "), "'device' must be its name"),
    "addresses: a string": (
        HEAD + "@hookimpl\ndef micrograd_addresses(): return '01'",
        "must return a list of strings",
    ),
    "addresses: numbers": (HEAD + "@hookimpl\ndef micrograd_addresses(): return [0]", "must return a list of strings"),
    "priority: a word": (HEAD + "@hookimpl\ndef micrograd_priority(): return 'high'", "must return a whole number"),
}


def install(folder: Path, distribution: str, entries: dict[str, str], source: str = "", metadata: str = "") -> Path:
    """What an installer leaves behind; to be put on the path."""
    folder.mkdir(exist_ok=True)
    for module in entries.values():
        (folder / f"{module}.py").write_text(source)
    info = folder / f"{distribution.replace('-', '_')}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata or f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
    lines = "".join(f"{name} = {module}\n" for name, module in entries.items())
    (info / "entry_points.txt").write_text(f"[micrograd.backends]\n{lines}")
    return folder


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MICROGRAD_DISABLE_PLUGINS", OTHERS)
    yield
    plugins.unregister("bad")
    sys.modules.pop("bad_module", None)


def assert_contained(words: str) -> None:
    """The plugin ``bad`` is named with what is wrong, by the error and by the doctor, and everything else works."""
    for _ in range(2):  # a second time, too
        with pytest.raises(BackendBroken, match=re.escape(words)) as caught:
            Device("bad")
        assert "(micrograd-bad 1.2, entry point bad = bad_module)" in str(caught.value)
        assert not Device.is_available("bad")
    rows = {row["device"].partition(":")[0]: row for row in doctor.examine_all()}
    assert rows["cpu"]["status"] == "works"
    assert rows["bad"]["status"] == "broken"
    assert rows["bad"]["plugin"] == "micrograd-bad 1.2"
    assert words in rows["bad"]["reason"]
    json.dumps([*rows.values()])
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        assert Device("auto").is_cpu()
        assert Device("bad", fallback="cpu").is_cpu()
    assert Device("cpu") in mg.__array_namespace_info__().devices()
    assert (Tensor([1.0]) + 1).tolist() == [2.0]


EVERY = list(itertools.product(PLACES, RAISED))
SAMPLE = EVERY if os.environ.get("MICROGRAD_EXHAUSTIVE") else [*EVERY[:: len(RAISED)], *EVERY[1::5]]


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(("place", "raised"), SAMPLE)
def test_a_plugin_may_raise_what_it_likes(
    place: str, raised: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "micrograd-bad", {"bad": "bad_module"}, PLACES[place].format(RAISED[raised]))
    monkeypatch.syspath_prepend(tmp_path)
    if place == "micrograd_priority":  # nobody who opens the device asks for it
        assert Device("bad").type == "bad"
        (row,) = [row for row in doctor.examine_all() if row["device"] == "bad"]
        assert row["status"] == "broken"
        with pytest.warns(RuntimeWarning, match="'bad' backend .micrograd-bad 1.2.*micrograd_priority raised"):
            assert Device("auto").is_cpu()
    elif place == "micrograd_addresses":
        (row,) = [row for row in doctor.examine_all() if row["device"] == "bad"]
        assert row["status"] == "broken"
        assert "micrograd_addresses raised" in row["reason"]
        assert Device("bad").type == "bad"
    elif place == "a look at its backend" and raised not in ("SystemExit", "SystemExit: bye", "BaseException: all"):
        assert_contained("raised ")
    else:
        assert_contained(f"{place} raised " + ("" if raised == "unprintable" else raised))


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("misfit", MISFITS)
def test_a_plugin_whose_hooks_do_not_fit(misfit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, words = MISFITS[misfit]
    install(tmp_path, "micrograd-bad", {"bad": "bad_module"}, source)
    monkeypatch.syspath_prepend(tmp_path)
    if misfit.startswith(("addresses", "priority")):
        (row,) = [row for row in doctor.examine_all() if row["device"] == "bad"]
        assert (row["status"], words in row["reason"]) == ("broken", True)
    else:
        assert_contained(words)


@pytest.mark.usefixtures("fresh")
def test_an_interrupt_is_nobodys_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "micrograd-bad", {"bad": "bad_module"}, "raise KeyboardInterrupt")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        Device("bad")


def test_no_plugin_is_looked_at_for_the_sake_of_another() -> None:
    class Prickly:
        @hookimpl
        def micrograd_open(self, address: str) -> Any:
            return None

        def __getattr__(self, name: str) -> Any:
            raise SystemExit(name)

        def __eq__(self, other: object) -> bool:
            raise SystemExit

        __hash__ = None  # type: ignore[assignment]

    with suppress(BackendBroken):
        plugins.register("prickly", Prickly())
    plugins.unregister("rawbuffer")
    assert Device("rawbuffer").type == "rawbuffer"
    assert plugins.call("rawbuffer", "micrograd_priority") == -1
    plugins.unregister("prickly")


def test_damaged_metadata_break_no_device(tmp_path: Path) -> None:
    for number, (metadata, entries) in enumerate(
        (
            ("Metadata-Version: 2.1\n", "[micrograd.backends]\nmine = nowhere\n"),
            ("", "[micrograd.backends]\nthis is no entry point\n"),
            ("", "[micrograd.backends]\nmine =\nmine = not a module!\n= x\n"),
        )
    ):
        folder = install(tmp_path / str(number), "odd", {}, "", metadata)
        (folder / "odd-1.2.dist-info" / "entry_points.txt").write_text(entries)
        code = "import micrograd_core as mg, micrograd_core.plugins as p; print(mg.Tensor([1.0]).device, p.names())"
        out = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert out.startswith("cpu [")


CLAIMS = """
import json, micrograd_core as mg
from micrograd_core import plugins
from micrograd_core.tools import doctor
said = {}
for name in ("cpu", "cuda", "twin"):
    try: said[name] = str(mg.Device(name))
    except mg.errors.BackendBroken as error: said[name] = str(error)
print(json.dumps([said, {row["device"]: row for row in doctor.examine_all()}]))
"""


def test_two_distributions_that_claim_one_name(tmp_path: Path) -> None:
    """The provider of a known name keeps it; where nothing decides, nobody gets it; in any order."""
    entries = {"cpu": "rogue_module", "cuda": "rogue_module", "twin": "rogue_module"}
    for distribution in ("one", "two"):
        install(tmp_path / distribution, f"rogue-{distribution}", entries, "raise SystemExit('taken over')")
    outputs = []
    for order in itertools.permutations(["one", "two"]):
        path = os.pathsep.join(str(tmp_path / each) for each in order)
        environment = {**os.environ, "PYTHONPATH": path, "MICROGRAD_DISABLE_PLUGINS": OTHERS}
        run = subprocess.run(
            [sys.executable, "-c", CLAIMS], env=environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        outputs.append(json.loads(run.stdout))
    for _, rows in outputs:
        rows["cpu"].pop("memory")
    assert outputs[0] == outputs[1]
    said, rows = outputs[0]
    assert said["cpu"] == "cpu"
    assert rows["cpu"]["status"] == "works"
    assert rows["cpu"]["plugin"].startswith("micrograd-cpu ")
    for name in ("cpu", "cuda", "twin"):
        for distribution in ("rogue-one 1.2", "rogue-two 1.2"):
            assert f"{distribution}, entry point {name} = rogue_module" in rows[name]["reason"]
            assert name == "cpu" or distribution in said[name]
        assert name == "cpu" or "several distributions claim this device name" in said[name]
        assert "taken over" not in rows[name]["reason"]


def test_a_provider_that_fails_names_who_else_claims_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    (ours,) = [each for each in metadata.entry_points(group=plugins.GROUP) if each.name == "cpu"]
    rogue = metadata.EntryPoint("cpu", "rogue_module", plugins.GROUP)
    for claims in itertools.permutations([ours, rogue]):
        monkeypatch.setattr(plugins, "_readable", lambda claims=claims: claims)
        assert plugins.distributions("cpu").startswith("micrograd-cpu ")
        assert re.search(
            "^micrograd-cpu .*; .*rogue_module claims the name 'cpu' too, and is not used", plugins.origin("cpu")
        )


# ── data ─────────────────────────────────────────────────────────────────────────────────────────────────────


def nested(depth: int, x: Any = 1.0) -> Any:
    for _ in range(depth):
        x = [x]
    return x


def holding_itself(*before: Any, times: int = 1) -> list[Any]:
    data: list[Any] = [*before]
    data += [data] * times
    return data


class Endless:
    """A sequence whose items are itself."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        return self


class EndlessArray(Endless):
    """The same, and says that it has a shape."""

    shape = (1,)

    def __iter__(self) -> Iterator[Any]:
        yield self


class Lengthless(Endless):
    def __len__(self) -> int:
        return len(self)


class PingPong:
    def __array__(self) -> Any:
        return PongPing()


class PongPing:
    def __array__(self) -> Any:
        return PingPong()


def shared(levels: int) -> Any:
    data: Any = [1.0, 2.0]
    for _ in range(levels - 1):
        data = [data, data]
    return data


def mutual() -> Any:
    a: list[Any] = []
    a.append((a,))
    return a


ENDLESS = {
    "itself": (lambda: holding_itself(), "does a list hold itself"),
    "itself twice": (lambda: holding_itself(times=2), "does a list hold itself"),
    "itself five times": (lambda: holding_itself(times=5), "does a list hold itself"),
    "through a tuple": (mutual, "does a list hold itself"),
    "itself beside a number": (lambda: holding_itself(1.0), "ragged"),
    "itself beside a row": (lambda: holding_itself([1.0, 2.0]), "ragged"),
    "100 000 deep": (lambda: nested(10**5), "nested more than 64 deep, and a tensor has at most 64 axes"),
    "65 deep": (lambda: nested(65), "at most 64 axes"),
    "2**64 of two numbers": (lambda: shared(64), "18,446,744,073,709,551,616 elements do not fit"),
    "an array of itself": (lambda: [EndlessArray()], "does a list hold itself"),
}


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("take", ["asarray", "Tensor", "stack", "rawbuffer", "index"])
def test_data_without_end_is_refused_at_once(kind: str, take: str) -> None:
    make, words = ENDLESS[kind]
    functions = {
        "asarray": asarray,
        "Tensor": Tensor,
        "stack": Value.stack,
        "rawbuffer": lambda data: asarray(data, device="rawbuffer"),
        "index": lambda data: zeros(3)[data],
    }
    with pytest.raises(ShapeError, match=re.escape(words)):
        functions[take](make())


@pytest.mark.parametrize("data", [Endless(), EndlessArray(), Lengthless(), PingPong(), [Endless()], [Lengthless()]])
def test_sequences_that_lead_to_themselves_are_refused(data: Any) -> None:
    for take in (asarray, Tensor, Value.stack):
        with pytest.raises(
            (ShapeError, TypeError), match="says that it has|hold itself|refers to itself|holds numbers|real"
        ):
            take(data)


def test_a_sequence_gives_as_many_items_as_it_says() -> None:
    class Lies(list):  # type: ignore[type-arg]
        pass

    class Short(Endless):
        def __getitem__(self, index: int) -> Any:
            raise IndexError

    class Long(Endless):
        def __getitem__(self, index: int) -> Any:
            return 1.0

    with pytest.raises(ShapeError, match="Short says that it has 1 items, and gives 0"):
        asarray(Short())
    with pytest.raises(ShapeError, match="Long says that it has 1 items, and gives more"):
        asarray(Long())
    assert (
        asarray(Lies([1, 2])).tolist()
        == asarray(deque([1, 2])).tolist()
        == asarray(UserList([1, 2])).tolist()
        == [1, 2]
    )
    assert asarray(range(3)).tolist() == [0, 1, 2]


def test_deep_but_legal_data_works() -> None:
    for device in ("cpu", "rawbuffer"):
        x = asarray(nested(64), device=device)
        assert x.ndim == 64
        assert x.sum().item() == 1.0
        assert x.tolist() == nested(64)
    deep = nested(62, [[1.0, 2.0], [3.0, 4.0]])
    assert asarray(deep).reshape((4,)).tolist() == [1.0, 2.0, 3.0, 4.0]
    a = Value(3.0)
    Value.stack(nested(64, a)).sum().backward()
    assert a.grad == 1.0
    assert asarray([]).shape == (0,)
    assert asarray([[], []]).shape == (2, 0)
    row = [0] * 100
    assert asarray([row] * 100).shape == (100, 100)  # lists may be shared
    assert asarray([asarray([1, 2]), asarray([3, 4])]).tolist() == [[1, 2], [3, 4]]


def test_shapes_have_at_most_64_axes() -> None:
    for make in (zeros, mg.ones, lambda shape: zeros(1).reshape(shape), lambda shape: zeros(shape, device="rawbuffer")):
        assert make((1,) * 64).ndim == 64
        with pytest.raises(ShapeError, match="a tensor has at most 64 axes; got a shape of 65"):
            make((1,) * 65)
    for shape in (nested(10**5), holding_itself(times=2), shared(64)):
        with pytest.raises(ShapeError, match="a shape is a sequence of integers"):
            zeros(shape)
        with pytest.raises(ShapeError, match="a shape is a sequence of integers"):
            zeros(1).reshape(shape)
    assert mg.__array_namespace_info__().capabilities()["max dimensions"] == 64


def test_values_stack_whatever_was_imported_before() -> None:
    code = (
        "from micrograd_core import Value; print(Value.stack([Value(1.0)]).tolist(), Value.unstack(Value.stack([2.0])))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.startswith("[1.0] [Value"), run.stderr


# ── training: settings, and what is written ──────────────────────────────────────────────────────────────────

ABSURD = [
    (["--hidden", "99999999999"], "a network of 7,499,999,999,935 parameters, which takes"),
    (
        ["--hidden", "9" * 18],
        "parameters, which takes over 1,000,000,000,000,000 MiB to train; sensible for 1,258 rows",
    ),
    (["--hidden", "9" * 5000], "at most 18 digits"),
    (["--hidden", "20000", "20000"], "at most 2,048 MiB"),
    (["--hidden", "1333333"], "at most 2,048 MiB"),
    (["--hidden", *["8"] * 101], "--hidden takes at most 100 layers; got 101"),
    (["--hidden", "-3"], "at least 1"),
    (["--batch-size", "1259"], "--batch-size takes 1 to 1,258 rows; there are no more to train on; got 1,259"),
    (["--batch-size", "9" * 5000], "at most 18 digits"),
    (["--epochs", "99999999999999"], "--epochs takes 1 to 100,000 passes over the rows; got 99,999,999,999,999"),
    (["--lr", "1e300"], "--lr takes 1e-08 to 100"),
    (["--lr", "1e-300"], "got 1e-300"),
    (["--lr", "inf"], "a number above 0"),
    (["--seed", "x"], "invalid int value"),
    (["--out", ""], "a folder has a name"),
    (["--out", "/dev/full"], "cannot write '/dev/full': it is not a folder"),
    (["--out", "/dev/full/below"], "cannot write '/dev/full/below': not a directory"),
    (["--device", ""], "a device is a name"),
]


@pytest.mark.parametrize(("arguments", "words"), ABSURD)
def test_absurd_settings_get_a_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = [] if "--out" in arguments else ["--out", str(tmp_path / "out")]
    try:
        status = main(["train", "digits", *out, *arguments])
    except SystemExit as left:  # argparse's
        status = left.code  # type: ignore[assignment]
    error = capsys.readouterr().err
    assert status == 2
    assert words in error
    assert len(error.splitlines()[-1]) < 300
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "setting",
    [
        {"hidden": [10**11]},
        {"hidden": [10**5000]},
        {"hidden": [0]},
        {"hidden": [-5]},
        {"epochs": 0},
        {"epochs": 10**5000},
        {"batch_size": 0},
        {"lr": float("nan")},
        {"lr": -1.0},
        {"optimizer": "lbfgs"},
    ],
)
def test_the_function_refuses_them_too(setting: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(train.NotSensible) as caught:
        train.train_digits(out=tmp_path / "out", **setting)
    assert isinstance(caught.value, ValueError)
    assert not list(tmp_path.iterdir())


def test_sensible_settings_pass() -> None:
    for hidden, optimizer in itertools.product(([], [1], [256], [512, 512, 512], [8000, 8000]), settings.OPTIMIZERS):
        chosen = settings.Settings("digits", hidden=tuple(hidden), optimizer=optimizer, epochs=100_000, batch_size=1258)
        settings.check(chosen)
        settings.check_size([64, *hidden, 10], chosen, 1258, 1258)
        assert settings.completed(chosen, 1258)["epochs"] == 100_000


QUICK = ["train", "digits", "--epochs", "1", "--hidden", "--out"]


def contents(folder: Path) -> dict[str, bytes]:
    """All but the checkpoint, which a run writes on the way."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != CHECKPOINT}


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run wrote."""
    out = tmp_path_factory.mktemp("former")
    assert main([*QUICK, str(out)]) == 0
    assert sorted(contents(out)) == sorted([*ALWAYS, "confusion.png", "importance.png"])
    return contents(out)


@pytest.fixture
def folder(former: dict[str, bytes], tmp_path: Path) -> Path:
    for name, content in former.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize(("call", "until"), [("fsync", 0), ("fsync", 2), ("fsync", 5), ("replace", 0), ("replace", 1)])
def test_a_full_disk_costs_nothing_of_a_former_run(
    call: str,
    until: int,
    folder: Path,
    former: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls = itertools.count()
    real: Any = os.fsync if call == "fsync" else Path.replace

    def full(*arguments: Any) -> Any:
        if next(calls) == until:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    monkeypatch.setattr(os if call == "fsync" else Path, call, full)
    assert main([*QUICK, str(folder), "--seed", "1"]) == 2
    error = capsys.readouterr().err
    assert f"micrograd: cannot write '{folder}" in error
    assert "no space left on device. Nothing there was changed" in error
    assert contents(folder) == former


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("name", ["model.safetensors", "report.html", "confusion.png"])
def test_a_device_that_is_full(
    name: str, folder: Path, former: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/full")
    assert main([*QUICK, str(folder), "--seed", "1"]) == 2
    assert "no space left on device" in capsys.readouterr().err
    assert (folder / name).is_symlink()
    (folder / name).unlink()
    assert contents(folder) == {other: content for other, content in former.items() if other != name}


def test_a_training_that_diverges_leaves_a_former_run(
    folder: Path, former: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lost(task: str, out: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return out.sum() * float("nan"), (y == y).astype("int64").sum()

    monkeypatch.setattr(loop, "losses", lost)
    assert main([*QUICK, str(folder)]) == 2
    assert "the loss became nan in epoch 1; use a smaller --lr" in capsys.readouterr().err
    assert contents(folder) == former


def test_what_is_in_the_way_is_said_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loop.Loop, "run", lambda *_: pytest.fail("it trained"))
    (tmp_path / "metrics.json").mkdir()
    assert main([*QUICK, str(tmp_path)]) == 2
    assert "metrics.json': it is a folder" in capsys.readouterr().err
    monkeypatch.setattr(os, "access", lambda *_: False)  # whoever runs the tests may write everywhere
    assert main([*QUICK, str(tmp_path / "new")]) == 2
    assert "model.safetensors': permission denied" in capsys.readouterr().err


def test_files_are_replaced_whole_and_links_and_permissions_stay(tmp_path: Path) -> None:
    real, link, device = tmp_path / "real", tmp_path / "link", Path(os.devnull)
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    before = real.stat().st_ino
    files.write({link: b"new", tmp_path / "other": b"more", device: b"gone"})
    assert (link.is_symlink(), real.read_bytes(), (tmp_path / "other").read_bytes()) == (True, b"new", b"more")
    assert real.stat().st_mode & 0o777 == 0o640
    assert real.stat().st_ino != before
    assert not device.is_file()
    with pytest.raises(files.CannotWrite) as caught:
        files.write({real: b"newer", tmp_path / "none" / "file": b""})
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value, MicrogradError)
    assert real.read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "other", "real"]


def test_a_scaffold_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(files.CannotWrite, match="no space left"):
        new_backend("mine", tmp_path)
    assert not list(tmp_path.iterdir())


# ── the command's own ways in and out ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("redirected", "status", "words"),
    [
        ("| head -1", 141, ""),
        ("| true", 141, ""),
        ("> /dev/full", 2, "micrograd: cannot print: No space left on device"),
        (">&-", 0, ""),
    ],
)
def test_output_that_nobody_takes(redirected: str, status: int, words: str) -> None:
    command = f"{sys.executable} -m micrograd_core.tools.cli devices --json {redirected}; exit ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "MICROGRAD_DISABLE_PLUGINS": OTHERS}
    run = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    # `head` may have read all there is before it leaves
    assert run.returncode in {status, 0 if status == 141 else status}
    assert run.stderr.strip() == words


def test_a_terminal_without_the_characters() -> None:
    environment = {**os.environ, "MICROGRAD_DISABLE_PLUGINS": OTHERS, "PYTHONIOENCODING": "ascii"}
    run = subprocess.run(
        [sys.executable, "-m", "micrograd_core.tools.cli", "devices"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[2].startswith("cpu ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["conformance", "mps"], "No known package provides it"),
        (["conformance", "cpu:9"], "the host is one device"),
        (["conformance", "cpu", "-n", "-3"], "a whole number of at least 1"),
        (["conformance", "cpu", "-n", "many"], "a whole number of at least 1"),
        (["conformance", "cpu", "--json", "."], "cannot write '.': it is a folder"),
        (["conformance", "cpu", "--markdown", "/dev/null/x.md"], "cannot write '/dev/null'"),
        (["new-backend", "cpu"], "choose another"),
        (["new-backend", "mine", "--folder", "/dev/null"], "cannot write '/dev/null/micrograd-mine"),
    ],
)
def test_commands_refuse_in_a_sentence(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(arguments)
    except SystemExit as left:
        status = left.code  # type: ignore[assignment]
    assert status == 2
    assert words in capsys.readouterr().err


def test_the_doctor_says_what_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.table([]) == "no backends are installed; pip install micrograd-cpu"
    monkeypatch.setenv("MICROGRAD_DISABLE_PLUGINS", "*")
    assert doctor.table(doctor.examine_all()) == "no backends: MICROGRAD_DISABLE_PLUGINS=*"


def test_data_that_is_no_numbers_is_a_type_error() -> None:
    for data in ("abc", None, {1}, [object()], ["a"], (i for i in range(2))):
        with pytest.raises(DTypeError, match="a tensor holds numbers"):
            asarray(data)
