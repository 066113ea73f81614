"""One trained network on every installed device: what it says, its gradients, and how long that takes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from micrograd_core import jit, nn, plugins
from micrograd_core.device import Device
from micrograd_core.errors import DeviceUnavailable, MicrogradError, ProgramError
from micrograd_core.random import Generator
from micrograd_core.support.escaping import aligned
from micrograd_train.learning.inputs import Inputs
from micrograd_train.using.inspection import sample
from micrograd_train.using.trained import load_predictor

ROUNDS = 5
IN_C: Final = "C"
"""The row of the step as a program without Python: exported on the cpu, and compiled by the system's compiler."""
DIGITS = Inputs("images", "classification", "digit", (), tuple(range(10)), (1, 8, 8), image=(1, 8, 8))
"""What the network takes and gives that is made where no file is named."""


def installed() -> list[str]:
    """Every address of every installed plugin that can be asked, the cpu first."""
    found = []
    for name in plugins.names():
        try:
            found += [f"{name}:{each}" if each else name for each in plugins.call(name, "micrograd_addresses")]
        except MicrogradError:
            found.append(name)
    return sorted(found, key=lambda each: (each != "cpu", each))


def compare(
    path: str | None, devices: Sequence[str] | None, rows: int, seed: int, tolerance: float, own: str | None = None
) -> list[dict[str, Any]]:
    """A row for each device, one more where it compiles, and one for C: differences from the first, time and launches.

    Differences are the largest ones: as shares of the largest number of the first device, in units in the last place
    (``ulp``) of that number, and absolute. The status is ``reference``, ``agrees``, ``differs``, ``unavailable`` or
    ``broken``. Without a `path` the network is a small one, made from the seed.
    """
    found: list[dict[str, Any]] = []
    reference: tuple[Any, dict[str, Any]] | None = None
    for name in devices or [*installed(), IN_C]:
        try:
            device = Device("cpu" if name == IN_C else name)
            for compiled in (False, True)[: 1 + (name != IN_C and "jit" in device.capabilities)]:
                computed = _exported if name == IN_C else _compiled if compiled else _eager
                out, gradients, seconds, launches = computed(*_step(path, device, rows, seed, own))
                row: dict[str, Any] = {"device": name, "jit": compiled, "status": "reference"}
                row |= {"milliseconds": 1000 * seconds, "launches": launches}
                if reference is None:
                    reference = out, gradients
                else:
                    differences = {each: _difference(x, gradients[each]) for each, x in reference[1].items()}
                    worst = max(differences, key=lambda each: differences[each]["difference"])
                    both = {"output": _difference(reference[0], out), "gradient": differences[worst]}
                    row |= {f"{what} {name}": x for what, each in both.items() for name, x in each.items()}
                    is_close = all(each["difference"] <= tolerance for each in both.values())
                    row |= {"largest at": worst, "status": "agrees" if is_close else "differs"}
                found.append(row)
        except MicrogradError as error:
            status = "unavailable" if isinstance(error, (DeviceUnavailable, ProgramError)) else "broken"
            if devices is not None or reference is None:
                raise
            found.append({"device": name, "jit": False, "status": status, "reason": str(error)})
    return found


def _network(path: str | None, device: Device, seed: int, own: str | None) -> tuple[nn.Module, Inputs]:
    """The network of a file, or a small one."""
    if path is not None:
        trained = load_predictor(path, device=str(device), model=own)
        return trained.model, trained.inputs
    made: dict[str, Any] = {"generator": Generator(seed), "device": "cpu"}  # the same numbers on all devices
    layers = nn.Conv2d(1, 8, 3, **made), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 10, **made)
    return nn.Sequential(*layers).to(device), DIGITS


Step = Callable[[Any], tuple[Any, dict[str, Any]]]
Computed = tuple[Any, dict[str, Any], float, int | None]
"""Outputs, gradients, the median time of a step, and the launches of one where the backend tells them."""


def _step(path: str | None, device: Device, rows: int, seed: int, own: str | None) -> tuple[Step, Any]:
    """A function that gives outputs and gradients, and its argument."""
    model, inputs = _network(path, device, seed, own)

    def step(x: Any) -> tuple[Any, dict[str, Any]]:
        out = model(x)
        (out * out).mean().backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        model.zero_grad()
        return out, gradients

    return step, sample(inputs, rows, device, seed)


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What a function returns, and the median time of a few calls; the first one compiles."""
    times = list[float]()
    while len(times) < 2 or (len(times) <= ROUNDS and sum(times[1:]) < 2):
        started = time.perf_counter()
        found = run()
        times.append(time.perf_counter() - started)
    return found, median(times[1:])


def _eager(step: Step, x: Any) -> Computed:
    def run() -> tuple[Any, dict[str, Any]]:
        out, gradients = step(x)
        return out.detach().numpy(), {name: each.numpy() for name, each in gradients.items()}

    (out, gradients), seconds = _timed(run)
    return out, gradients, seconds, _launches(x.device.kernels.backend, run)


def _compiled(step: Step, x: Any) -> Computed:
    return _eager(jit(step), x)


def _exported(step: Step, x: Any) -> Computed:
    """The step in C; the caller's memory holds its arrays."""
    import numpy as np

    compiler, traced = shutil.which("cc"), jit(step)
    if compiler is None:
        raise DeviceUnavailable(IN_C, "there is no C compiler named cc", "install one (Debian: apt install gcc)")
    out, gradients = traced(x)
    results = [np.empty(each.shape, str(each.dtype)) for each in (out, *gradients.values())]
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "step.c"), Path(folder, "step.so")
        state = [ctypes.create_string_buffer(each, len(each)) for each in traced.lower(x).export(source)]
        command = [compiler, "-O3", "-w", "-shared", "-fPIC", "-o", str(library), str(source), "-lm"]
        said = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace")
        if said.returncode:
            raise DeviceUnavailable(IN_C, f"cc does not compile the step: {said.stderr.strip()}", "see its message")
        function, given = ctypes.CDLL(str(library)).step, np.ascontiguousarray(x.numpy())
    places = [given.ctypes.data], [*map(ctypes.addressof, state)], [each.ctypes.data for each in results]
    arguments = [(ctypes.c_void_p * (len(each) + 1))(*each) for each in places]
    status, seconds = _timed(lambda: function(*arguments))
    if status:
        raise MicrogradError("the step in C has run out of memory")
    return results[0], dict(zip(gradients, results[1:], strict=True)), seconds, None


def _launches(backend: Any, run: Callable[[], Any]) -> int | None:
    """How many kernels a step launches, of backends that have a function for it."""
    launch, count = getattr(backend, "launch", None), 0
    if launch is None:
        return None

    def counted(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        return launch(*arguments)

    backend.launch = counted
    try:
        run()
    finally:
        del backend.launch
    return count


def _difference(expected: Any, found: Any) -> dict[str, float]:
    import numpy as np

    largest = np.abs(expected).max()
    worst = float(np.abs(expected.astype("float64") - found.astype("float64")).max())
    worst = worst if worst == worst else float("inf")
    return {
        "difference": worst / (float(largest) or 1.0), "ulp": worst / float(np.spacing(largest)), "absolute": worst,
    }  # fmt: skip


def told(rows: list[dict[str, Any]]) -> str:
    """The rows as a table; reasons stand below."""
    head = (
        "device",
        "status",
        "outputs differ by",
        "ulp",
        "gradients differ by",
        "ulp",
        "largest at",
        "launches",
        "ms",
    )
    cells: list[tuple[str, ...]] = [head]
    for row in rows:
        figures = [
            f"{row[name]:{form}}" if name in row else "–"
            for what in ("output", "gradient")
            for name, form in ((f"{what} absolute", ".1e"), (f"{what} ulp", ",.1f"))
        ]
        launches = f"{row['launches']:,}" if row.get("launches") is not None else "–"
        spent = f"{row['milliseconds']:,.2f}" if "milliseconds" in row else "–"
        name = row["device"] + " jit" * row["jit"]
        cells.append((name, row["status"], *figures, row.get("largest at", ""), launches, spent))
    reasons = [f"\n{row['device']}: {row['reason']}" for row in rows if "reason" in row]
    return "\n".join([aligned(cells), *reasons])
