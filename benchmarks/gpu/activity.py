"""What a device does while a function runs: its launches and copies, and how long they take by its own clock.

CUPTI sees all of the process, through PyTorch's profiler; an emulated GPU lists what it was asked for. Where neither is
there, or no time is told, events around the calls tell how long the device was at them, gaps between launches included.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

Run = Callable[[], Any]
Listed = list[tuple[str, float | None]]


def by_profiler(run: Run) -> Listed:
    """By CUPTI. From then on each launch of this process takes longer."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.zeros(1, device="cuda")  # so that the profiler finds a context
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            run()
    on_device = torch.autograd.DeviceType.CUDA
    return [(e.name, e.device_time_total * 1e-6) for e in seen.events() if e.device_type == on_device]


def by_emulation(run: Run) -> Listed:
    """As an emulated GPU lists it, which has no clock of its own."""
    lines = import_module("emulated_cuda.boot").recorded(run)
    return [(re.split(r" (?=\d)", line)[0], None) for line in lines if "allocation" not in line]


def lister() -> Callable[[Run], Listed] | None:
    """Who sees what happens on the GPU; ``None`` where nobody does."""
    if find_spec("emulated_cuda") is not None:
        return by_emulation
    if find_spec("torch") is not None and import_module("torch").cuda.is_available():
        return by_profiler
    return None


def by_events(run: Run, device: str, calls: int) -> float:
    """Seconds of one call, from before the first launch to after the last one of several, on CuPy's current stream."""
    import cupy

    with cupy.cuda.Device(int(device.partition(":")[2] or 0)):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end)) * 1e-3 / calls


def activity(run: Run, wait: Callable[[Any], None], device: str = "cpu", calls: int = 5) -> dict[str, Any]:
    """Of one call. What is not known is left out, and on the host nothing is.

    Parameters
    ----------
    run, wait : function
        What is looked at, and what waits for its result.
    device : str
        That of CuPy on whose current stream it works. Of others no event tells anything.
    calls : int
    """
    found: dict[str, Any] = {}
    lists = lister()
    if lists:
        found = summary(lists(lambda: wait([run() for _ in range(calls)][-1])), calls)
    if device.startswith("cuda") and "device_seconds" not in found:
        found["seconds_between_events"] = by_events(run, device, calls)
    return found


def summary(listed: Listed, calls: int) -> dict[str, Any]:
    """Of each launch and its seconds: how many there were in one call, their sum, and the 40 longest, by kernel.

    >>> summary([("a", 1.0), ("a", 2.0), ("b", 4.0), ("b", 4.0)], 2)
    {'launches': 2.0, 'device_seconds': 5.5, 'longest': {'b': [1.0, 4.0], 'a': [1.0, 1.5]}}
    >>> summary([("a", None), ("b", None)], 2)  # whose time nobody told
    {'launches': 1.0}
    """
    spent: dict[str, list[float]] = {}
    for name, seconds in listed:
        if seconds is not None:
            spent.setdefault(name, []).append(seconds)
    found: dict[str, Any] = {"launches": len(listed) / calls} if listed else {}
    if spent:
        longest = sorted(spent, key=lambda name: -sum(spent[name]))[:40]
        found["device_seconds"] = sum(map(sum, spent.values())) / calls
        found["longest"] = {name[:80]: [len(spent[name]) / calls, sum(spent[name]) / calls] for name in longest}
    return found


def told(facts: dict[str, Any]) -> str:
    """In words; empty where nothing is known.

    >>> told({"launches": 2.0, "device_seconds": 5.5e-6})
    '2 launches, 5.5 µs of them'
    >>> told({"launches": 2.0, "seconds_between_events": 5.5e-6})
    '2 launches, 5.5 µs between events'
    """
    words = [f"{facts['launches']:.0f} launches"] if "launches" in facts else []
    for key, what in (("device_seconds", "of them"), ("seconds_between_events", "between events")):
        words += [f"{facts[key] * 1e6:,.1f} µs {what}"] if key in facts else []
    return ", ".join(words)
