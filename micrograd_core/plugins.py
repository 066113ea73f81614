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
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pluggy

from micrograd_core import backend as boundary
from micrograd_core.errors import PROVIDERS, BackendBroken, BackendIncompatible, BackendNotFound, DeviceUnavailable
from micrograd_core.interpreters.raw import Kernels
from micrograd_core.support.open_devices import OPENING, forget
from micrograd_core.support.warning import warn

if TYPE_CHECKING:
    from importlib import metadata

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


def _are_addresses(result: Any) -> bool:
    return (
        isinstance(result, Sequence) and not isinstance(result, str) and all(isinstance(each, str) for each in result)
    )


_OPTIONAL: Final[dict[str, tuple[Any, Callable[[Any], bool], str]]] = {
    "micrograd_addresses": (("",), _are_addresses, "a list of strings"),
    "micrograd_priority": (0, lambda result: isinstance(result, int), "a whole number"),
}
"""Optional hooks: their default, and what they must return."""

_managers: dict[str, pluggy.PluginManager] = {}
"""By device name. One for each plugin, so that none is ever looked at, or compared, for another's sake."""


class _Blaming:
    """A context in which what a plugin raises becomes `BackendBroken`, but for `passed`: even ``SystemExit``.

    A class, since `contextlib.contextmanager` takes a ``RuntimeError`` that ``StopIteration`` caused for its own.
    """

    def __init__(self, name: str, doing: str, *passed: type[Exception]) -> None:
        self.name, self.doing = name, doing
        self.passed: tuple[type[BaseException], ...] = (KeyboardInterrupt, *passed)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None and not isinstance(error, self.passed):
            from traceback import format_exception_only

            said = " ".join("".join(format_exception_only(error)).split())
            raise BackendBroken(self.name, origin(self.name), [f"{self.doing} raised {said}"]) from error


def disabled() -> list[str]:
    """Names in ``MICROGRAD_DISABLE_PLUGINS`` (comma-separated; ``*`` stands for all)."""
    return [name.strip() for name in os.environ.get("MICROGRAD_DISABLE_PLUGINS", "").split(",") if name.strip()]


def _is_off(name: str) -> bool:
    off = disabled()
    return name in off or "*" in off


def entry_points() -> dict[str, list[metadata.EntryPoint]]:
    """Installed entry points by device name, disabled ones left out, in an order of their own. Imports no plugin."""
    found: dict[str, dict[tuple[str, str], metadata.EntryPoint]] = {}
    for entry in _readable():
        if not _is_off(entry.name):
            found.setdefault(entry.name, {}).setdefault((_distribution(entry), entry.value), entry)
    return {name: [entry for _, entry in sorted(claims.items())] for name, claims in sorted(found.items())}


def _readable() -> list[metadata.EntryPoint]:
    from importlib import metadata  # which takes as long as a third of NumPy

    found: dict[str, list[metadata.EntryPoint]] = {}  # by distribution: the first on the path counts
    for distribution in metadata.distributions():
        with suppress(Exception):  # of some distribution, which may be no plugin, the metadata are damaged
            if entries := distribution.entry_points.select(group=GROUP):
                found.setdefault(_canonical(str(distribution.name)), list(entries))
    return [entry for entries in found.values() for entry in entries]


def _distribution(entry: metadata.EntryPoint) -> str:
    with suppress(Exception):
        if entry.dist and entry.dist.name:
            return f"{entry.dist.name} {entry.dist.version}"
    return "an unnamed distribution"


def _split(name: str) -> tuple[list[metadata.EntryPoint], list[metadata.EntryPoint]]:
    """The entry points that a device name belongs to, more than one where nothing decides; and other claims to it.

    A name in `PROVIDERS` is its provider's: what is installed later takes no device from it.
    """
    claims = entry_points().get(name, [])
    provider = PROVIDERS.get(name, "").partition("[")[0]
    owned = [each for each in claims if _canonical(_distribution(each).partition(" ")[0]) == provider] or claims
    return owned, [each for each in claims if each not in owned]


def _canonical(name: str) -> str:
    """The name of a distribution, as package indexes compare it."""
    return re.sub("[-_.]+", "-", name).lower()


def distributions(name: str) -> str:
    """The distributions that a device name belongs to, with their versions."""
    return " and ".join(map(_distribution, _split(name)[0])) or "registered by hand"


def disregarded(name: str) -> str:
    """Claims to a device name that count for nothing, as a sentence; empty where there are none."""
    others = " and ".join(map(_described, _split(name)[1]))
    return others and f"{others} claims the name {name!r} too, and is not used: it is the name of {PROVIDERS[name]}"


def _described(entry: metadata.EntryPoint) -> str:
    return f"{_distribution(entry)}, entry point {entry.name} = {entry.value}"


def origin(name: str) -> str:
    """Where a plugin comes from: distribution, version, entry point; and who else claims the name."""
    owned = " and ".join(map(_described, _split(name)[0])) or "registered by hand"
    return "; ".join(filter(None, (owned, disregarded(name))))


def register(name: str, plugin: Any) -> None:
    """Make `plugin` known under a device name without an entry point (for tests and notebooks)."""
    unregister(name)
    _managers[name] = _validated(name, plugin)


def unregister(name: str) -> None:
    """Forget a plugin given to `register`. Tensors on its devices stay usable."""
    forget(name)
    _managers.pop(name, None)


def names() -> list[str]:
    """Names of the devices that some plugin provides. Imports none of them."""
    return sorted({*entry_points(), *(name for name in _managers if not _is_off(name))})


def call(name: str, hook: str, **arguments: Any) -> Any:
    """Call one hook of one plugin, loading the plugin if it is not loaded yet.

    Raises
    ------
    BackendNotFound
        No plugin of that name.
    BackendBroken
        It raised something else, which is chained, or returned what the hook must not.
    DeviceUnavailable
        From the plugin.
    """
    manager = _load(name)
    with _Blaming(name, hook, DeviceUnavailable):
        result = getattr(manager.hook, hook)(**arguments)
    if hook not in _OPTIONAL:
        return result
    default, fits, wanted = _OPTIONAL[hook]
    if result is None:
        return default
    with _Blaming(name, hook):
        fitting = fits(result)
    if not fitting:
        raise BackendBroken(name, origin(name), [f"{hook} must return {wanted}; it returned {type(result).__name__}"])
    return result


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
    with _Blaming(name, "a look at its backend", BackendBroken, BackendIncompatible):
        protocol = getattr(backend, "protocol", None)
        if type(protocol) is int and protocol != boundary.PROTOCOL:
            raise BackendIncompatible(name, origin(name), protocol, boundary.PROTOCOL)
        faults = boundary.faults(backend)
        if type(protocol) is not int:
            faults = [f"'protocol' must be the integer {boundary.PROTOCOL}; it is {protocol!r}", *faults]
        elif not faults and backend.device.partition(":")[0] != name:
            faults = [f"it was opened as {name!r} but calls its device {backend.device!r}"]
        faults = faults or boundary.probe(backend)
        if faults:
            raise BackendBroken(name, origin(name), faults)
        kernels = Kernels(backend)
        unknown = sorted({*boundary.member(backend, "capabilities")} - boundary.CAPABILITIES.keys())
    if unknown:
        warn(
            f"{name}: this core does not know the capabilities {', '.join(map(repr, unknown))}, and ignores them; the "
            f"words are {', '.join(boundary.CAPABILITIES)}. Of a newer version? Update micrograd-core"
        )
    return kernels


def _load(name: str) -> pluggy.PluginManager:
    with OPENING:  # another thread may be loading the same one
        if name in _managers and not _is_off(name):
            return _managers[name]
        owned, _ = _split(name)
        if not owned:
            because = "" if name.strip() else 'a device is a name such as "cpu", "cuda:1" or "auto"'
            because = f"{name!r} takes no address" if name in ("auto", "gpu") else because
            raise BackendNotFound(name, names(), disabled(), because)
        if len(owned) > 1:
            claim = "several distributions claim this device name; uninstall all but one"
            raise BackendBroken(name, origin(name), [claim])
        with _Blaming(name, "its import"):
            plugin = owned[0].load()
        _managers[name] = _validated(name, plugin)
        return _managers[name]


def _validated(name: str, plugin: Any) -> pluggy.PluginManager:
    """A manager for `plugin`: pluggy has checked its hooks against the specifications above."""
    manager = pluggy.PluginManager("micrograd")
    manager.add_hookspecs(__import__(__name__, fromlist=["*"]))
    known = sorted(hook for hook in vars(manager.hook) if hook.startswith("micrograd_"))
    with _Blaming(name, "its registration", BackendBroken):
        offered = [attribute for attribute in dir(plugin) if manager.parse_hookimpl_opts(plugin, attribute) is not None]
        faults = [f"unknown hook {hook!r}; the hooks are {', '.join(known)}" for hook in offered if hook not in known]
        if "micrograd_open" not in offered:
            faults += ["it implements no micrograd_open(address) hook (mark it with micrograd_core.plugins.hookimpl)"]
        try:
            manager.register(plugin, name)
        except pluggy.PluginValidationError as error:
            faults.append(" ".join(str(error).split()))
        if faults:
            raise BackendBroken(name, origin(name), faults)
    return manager
