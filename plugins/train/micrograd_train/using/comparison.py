"""One trained network on every installed device: what it says, its gradients, and how long that takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from micrograd_core import jit, nn, plugins
from micrograd_core.device import Device
from micrograd_core.errors import DeviceUnavailable, MicrogradError
from micrograd_core.random import Generator
from micrograd_core.support.escaping import aligned
from micrograd_train.learning.inputs import Inputs
from micrograd_train.using.inspection import sample
from micrograd_train.using.trained import load_predictor

ROUNDS = 5
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
    """A row for each device, and one more where it compiles: how far it is from the first one, its time and launches.

    Differences are the largest ones: as shares of the largest number of the first device, in units in the last place
    (``ulp``) of that number, and absolute. The status is ``reference``, ``agrees``, ``differs``, ``unavailable`` or
    ``broken``. Without a `path` the network is a small one, made from the seed.
    """
    found: list[dict[str, Any]] = []
    reference: tuple[Any, dict[str, Any]] | None = None
    for name in devices or installed():
        try:
            device = Device(name)
            for compiled in (False, True)[: 1 + ("jit" in device.capabilities)]:
                out, gradients, seconds, launches = _computed(path, device, rows, seed, own, compiled)
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
            status = "unavailable" if isinstance(error, DeviceUnavailable) else "broken"
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


def _computed(
    path: str | None, device: Device, rows: int, seed: int, own: str | None, compiled: bool
) -> tuple[Any, dict[str, Any], float, int | None]:
    """Outputs, gradients, the median time of a step, and the launches of one where the backend tells them."""
    model, inputs = _network(path, device, seed, own)
    x = sample(inputs, rows, device, seed)

    def step() -> Any:
        model.zero_grad()
        out = model(x)
        (out * out).mean().backward()
        return out

    run = jit(step) if compiled else step
    times = list[float]()
    while len(times) < 2 or (len(times) <= ROUNDS and sum(times[1:]) < 2):  # the first call compiles
        started = time.perf_counter()
        out = run()
        gradients = {name: p.grad.numpy() for name, p in model.named_parameters() if p.grad is not None}
        times.append(time.perf_counter() - started)
    return out.detach().numpy(), gradients, median(times[1:]), _launches(device.kernels.backend, run)


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
