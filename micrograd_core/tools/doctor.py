"""The doctor: a real computation on every installed device, and the reason where there is none."""

from __future__ import annotations

from typing import Any

from micrograd_core import plugins
from micrograd_core.array.tensor import Tensor
from micrograd_core.backend import STANDS_ON
from micrograd_core.device import Device
from micrograd_core.errors import DeviceUnavailable, MicrogradError, install
from micrograd_core.ops import TABLE
from micrograd_core.support.escaping import aligned

COLUMNS = ("device", "status", "plugin", "dtypes", "native ops", "capabilities")


def examine(name: str, address: str) -> dict[str, Any]:
    """One device: a row with `COLUMNS`, and ``reason``: why it does not work, who else claims its name, or advice."""
    spec = f"{name}:{address}" if address else name
    row = _row(spec, "works", name, plugins.disregarded(name))
    try:
        device = Device(spec)
        row |= {"device": str(device), "dtypes": sorted(device.kernels.backend.dtypes)}
        row |= {"native ops": sum(device.kernels.is_native(op) for op in TABLE), "ops": len(TABLE)}
        row["capabilities"] = sorted(device.capabilities)
        row["memory"] = device.memory()
        row["reason"] = row["reason"] or getattr(device.kernels.backend, "advice", "")
        x = Tensor([[1.0, -2.0], [3.0, 4.0]], device=device)
        ((x.relu() @ x) * x).sum().backward()
        assert x.grad is not None
        found, expected = x.grad.tolist(), [[16.0, 8.0], [22.0, 51.0]]
        if found != expected:
            row |= {"status": "wrong", "reason": f"a gradient came out as {found} instead of {expected}; do not use it"}
    except DeviceUnavailable as error:
        row |= {"status": "unavailable", "reason": str(error)}
    except MicrogradError as error:
        row |= {"status": "broken", "reason": str(error)}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a kernel that fails is what this is here to find, whatever it raises
        row |= {"status": "broken", "reason": f"{type(error).__name__}: {error}"}
    return row


def _row(device: str, status: str, name: str, reason: str) -> dict[str, Any]:
    return {"device": device, "status": status, "plugin": plugins.distributions(name), "reason": reason}


def examine_all() -> list[dict[str, Any]]:
    """Every address of every installed plugin."""
    rows = []
    for name in plugins.names():
        try:
            plugins.call(name, "micrograd_priority")  # nothing else here would find it broken
            addresses = plugins.call(name, "micrograd_addresses")
        except MicrogradError as error:
            status = "unavailable" if isinstance(error, DeviceUnavailable) else "broken"
            rows.append(_row(name, status, name, str(error)))
            continue
        rows += [examine(name, address) for address in addresses]
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as text for a terminal; reasons stand below."""
    if not rows:
        off = ", ".join(plugins.disabled())
        reason = f": MICROGRAD_DISABLE_PLUGINS={off}" if off else f" are installed; {install('cpu')}"
        return f"no backends{reason}"
    cells: list[tuple[str, ...]] = [COLUMNS]
    for row in rows:
        native = f"{row['native ops']} of {row['ops']}" if "ops" in row else ""
        shown = {**row, "native ops": native, "dtypes": len(row["dtypes"]) if "dtypes" in row else ""}
        claimed = row.get("capabilities", ())
        implied = STANDS_ON["array-api"] if "array-api" in claimed else ()
        shown["capabilities"] = " ".join(word for word in claimed if word not in implied)
        cells.append(tuple(str(shown.get(column, "")) for column in COLUMNS))
    return "\n".join([aligned(cells), *(f"\n{row['device']}: {row['reason']}" for row in rows if row["reason"])])
