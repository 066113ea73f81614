"""Finding and opening backends: pluggy hooks behind the entry-point group ``micrograd.backends``.

The entry's name is the device name. Listing reads package metadata and imports nothing; opening one device imports that
one plugin. pluggy validates the hooks; no operation ever goes through it.

A plugin is a module (or any object) with two hooks::

    from micrograd_core.plugins import hookimpl

    @hookimpl
    def micrograd_open(address):       # "" or what follows the colon in Device("mine:0")
        return MyBackend(...)

    @hookimpl
    def micrograd_addresses():         # cheap: must not import the array library
        return ["0"]
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import metadata
from typing import Any, Final

import pluggy

from micrograd_core import backend as boundary
from micrograd_core.errors import BackendBroken, BackendIncompatible, BackendNotFound, MicrogradError
from micrograd_core.kernels import Kernels

GROUP: Final = "micrograd.backends"

hookspec = pluggy.HookspecMarker("micrograd")
hookimpl = pluggy.HookimplMarker("micrograd")


@hookspec(firstresult=True)
def micrograd_open(address: str) -> Any:
    """Open one device and return its `Backend`.

    Parameters
    ----------
    address : str
        What follows the first colon in ``Device("mine:0")``; empty when nothing does.

    Raises
    ------
    DeviceUnavailable
        With the driver's own reason, when the device is not there.
    """


@hookspec(firstresult=True)
def micrograd_addresses() -> Sequence[str]:  # type: ignore[empty-body]
    """The addresses that can be tried, such as ``["0", "1"]``. Default: ``[""]``. Must not raise where no device is."""


@hookspec(firstresult=True)
def micrograd_priority() -> int:  # type: ignore[empty-body]
    """How eagerly ``Device("auto")`` picks this device: accelerators above 0, hosts 0 (default), below 0 never."""


_HOOKS: Final = {"micrograd_addresses": ("",), "micrograd_priority": 0}  # optional hooks and their defaults

_manager: pluggy.PluginManager | None = None
_registered: dict[str, Any] = {}


def disabled() -> list[str]:
    """Names in ``MICROGRAD_DISABLE_PLUGINS`` (comma-separated; ``*`` stands for all)."""
    return [name.strip() for name in os.environ.get("MICROGRAD_DISABLE_PLUGINS", "").split(",") if name.strip()]


def entry_points() -> dict[str, list[metadata.EntryPoint]]:
    """Installed entry points by device name, disabled ones left out. Imports no plugin."""
    off = disabled()
    found: dict[str, list[metadata.EntryPoint]] = {}
    for entry in metadata.entry_points(group=GROUP):
        if entry.name not in off and "*" not in off:
            claims = found.setdefault(entry.name, [])
            if (entry.value, _distribution(entry)) not in [(other.value, _distribution(other)) for other in claims]:
                claims.append(entry)
    return dict(sorted(found.items()))


def _distribution(entry: metadata.EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unnamed distribution"


def origin(name: str) -> str:
    """Where a plugin comes from: distribution, version, entry point."""
    entries = entry_points().get(name, [])
    return (
        " and ".join(f"{_distribution(entry)}, entry point {entry.name} = {entry.value}" for entry in entries)
        or "registered by hand"
    )


def register(name: str, plugin: Any) -> None:
    """Make `plugin` known under a device name without an entry point (for tests and notebooks)."""
    _forget(name)
    _validated(name, plugin)


def unregister(name: str) -> None:
    """Forget a plugin given to `register`. Tensors on its devices stay usable."""
    _forget(name)


def _forget(name: str) -> None:
    from micrograd_core.device import Device

    Device.forget(name)
    plugin = _registered.pop(name, None)
    if plugin is not None and _manager is not None:
        _manager.unregister(plugin)


def names() -> list[str]:
    """Names of the devices that some plugin provides. Imports none of them."""
    return sorted({*entry_points(), *_registered} - set(disabled()))


def call(name: str, hook: str, **arguments: Any) -> Any:
    """Call one hook of one plugin, loading the plugin if it is not loaded yet.

    Raises
    ------
    BackendNotFound
        No plugin of that name.
    BackendBroken
        It raised something other than an error of ours; the cause is chained.
    """
    plugin = _load(name)
    assert _manager is not None
    caller = _manager.subset_hook_caller(hook, [other for other in _registered.values() if other is not plugin])
    try:
        result = caller(**arguments)
    except MicrogradError:
        raise
    except Exception as error:
        raise BackendBroken(name, origin(name), [f"{hook} raised {type(error).__name__}: {error}"]) from error
    return _HOOKS[hook] if result is None and hook in _HOOKS else result


def open_backend(name: str, address: str) -> Kernels:
    """Open a device, check it against the protocol, and bind the op table to it.

    Raises
    ------
    BackendBroken
        With all faults in one message.
    BackendIncompatible
        When it was written against another protocol version.
    DeviceUnavailable
        From the plugin.
    """
    backend = call(name, "micrograd_open", address=address)
    if backend is None:
        raise BackendBroken(name, origin(name), ["micrograd_open returned None instead of a backend"])
    protocol = getattr(backend, "protocol", None)
    if protocol != boundary.PROTOCOL:
        if isinstance(protocol, int):
            raise BackendIncompatible(name, origin(name), protocol, boundary.PROTOCOL)
        faults = [f"'protocol' must be the integer {boundary.PROTOCOL}; it is {protocol!r}"]
        raise BackendBroken(name, origin(name), faults + boundary.faults(backend))
    faults = boundary.faults(backend)
    if not faults and backend.device.partition(":")[0] != name:
        faults = [f"it was opened as {name!r} but calls its device {backend.device!r}"]
    faults = faults or boundary.probe(backend)
    if faults:
        raise BackendBroken(name, origin(name), faults)
    return Kernels(backend)


def _load(name: str) -> Any:
    from micrograd_core.device import Device

    with Device._lock:  # another thread may be loading the same one
        if name in _registered and name not in disabled():
            return _registered[name]
        entries = entry_points().get(name, [])
        if not entries:
            raise BackendNotFound(name, names(), disabled())
        if len(entries) > 1:
            claim = "several distributions claim this device name; uninstall all but one"
            raise BackendBroken(name, origin(name), [claim])
        try:
            plugin = entries[0].load()
        except Exception as error:
            raise BackendBroken(name, origin(name), [f"its import raised {type(error).__name__}: {error}"]) from error
        return _validated(name, plugin)


def _validated(name: str, plugin: Any) -> Any:
    """Register `plugin` with pluggy, which checks its hooks against the specifications above."""
    global _manager
    if _manager is None:
        _manager = pluggy.PluginManager("micrograd")
        _manager.add_hookspecs(__import__(__name__, fromlist=["*"]))
    known = {hook.name for caller in _manager.hook.__dict__.values() for hook in [caller] if hasattr(caller, "name")}
    offered = [attribute for attribute in dir(plugin) if _manager.parse_hookimpl_opts(plugin, attribute) is not None]
    faults = [
        f"unknown hook {hook!r}; the hooks are {', '.join(sorted(known))}" for hook in offered if hook not in known
    ]
    if "micrograd_open" not in offered:
        faults.append("it implements no micrograd_open(address) hook (mark it with micrograd_core.plugins.hookimpl)")
    try:
        _manager.register(plugin, name)
    except (pluggy.PluginValidationError, ValueError) as error:
        faults.append(" ".join(str(error).split()))
        if _manager.has_plugin(name):
            _manager.unregister(name=name)
    else:
        if faults:
            _manager.unregister(plugin)
    if faults:
        raise BackendBroken(name, origin(name), faults)
    _registered[name] = plugin
    return plugin
