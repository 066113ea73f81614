"""One trained network on every installed device: what it says, its gradients, and how long that takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from micrograd_core import plugins
from micrograd_core.errors import DeviceUnavailable, MicrogradError
from micrograd_core.tools import arguments as common
from micrograd_train.using.inspection import sample
from micrograd_train.using.trained import load_predictor

ROUNDS = 5


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
    path: str, devices: Sequence[str] | None, rows: int, seed: int, tolerance: float, own: str | None = None
) -> list[dict[str, Any]]:
    """A row for each device: ``status``, the largest differences to the first one, and the time in milliseconds.

    Differences are shares of the largest number of the first device. The status is ``reference``, ``agrees``,
    ``differs``, ``unavailable`` or ``broken``.
    """
    found: list[dict[str, Any]] = []
    reference: tuple[Any, dict[str, Any]] | None = None
    for name in devices or installed():
        try:
            out, gradients, seconds = _computed(path, name, rows, seed, own)
        except MicrogradError as error:
            status = "unavailable" if isinstance(error, DeviceUnavailable) else "broken"
            if devices is not None or reference is None:
                raise
            found.append({"device": name, "status": status, "reason": str(error)})
            continue
        row: dict[str, Any] = {"device": name, "status": "reference", "milliseconds": 1000 * seconds}
        if reference is None:
            reference = out, gradients
        else:
            row["output difference"] = _difference(reference[0], out)
            differences = {each: _difference(x, gradients[each]) for each, x in reference[1].items()}
            worst = max(differences, key=lambda each: differences[each])
            row |= {"gradient difference": differences[worst], "largest at": worst}
            is_close = max(row["output difference"], row["gradient difference"]) <= tolerance
            row["status"] = "agrees" if is_close else "differs"
        found.append(row)
    return found


def _computed(path: str, device: str, rows: int, seed: int, own: str | None) -> tuple[Any, dict[str, Any], float]:
    trained = load_predictor(path, device=device, model=own)
    x = sample(trained.inputs, rows, trained.device, seed)
    times = []
    out: Any = None
    for _ in range(ROUNDS):
        started = time.perf_counter()
        trained.model.zero_grad()
        out = trained.model(x)
        (out * out).mean().backward()
        gradients = {name: p.grad.numpy() for name, p in trained.model.named_parameters() if p.grad is not None}
        times.append(time.perf_counter() - started)
        if sum(times) > 2:
            break
    return out.detach().numpy(), gradients, median(times)


def _difference(expected: Any, found: Any) -> float:
    import numpy as np

    scale = float(np.abs(expected).max()) or 1.0
    worst = float(np.abs(expected.astype("float64") - found.astype("float64")).max()) / scale
    return worst if worst == worst else float("inf")


def told(rows: list[dict[str, Any]]) -> str:
    """The rows as a table; reasons stand below."""
    head = ("device", "status", "outputs differ by", "gradients differ by", "largest at", "ms")
    cells: list[tuple[str, ...]] = [head]
    for row in rows:
        figures = [f"{row[name]:.1e}" if name in row else "–" for name in ("output difference", "gradient difference")]
        spent = f"{row['milliseconds']:.2f}" if "milliseconds" in row else "–"
        cells.append((row["device"], row["status"], *figures, row.get("largest at", ""), spent))
    reasons = [f"\n{row['device']}: {row['reason']}" for row in rows if "reason" in row]
    return "\n".join([common.aligned(cells), *reasons])
