"""Whether a backend has what the protocol asks for: looked at once, when its device is opened."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Set
from types import FunctionType
from typing import Any, Final

from micrograd_core.backend import REQUIRED, REQUIRED_DTYPES, Backend, member
from micrograd_core.dtypes import DTYPES, pack
from micrograd_core.ops import CORE_KERNELS

_ARGUMENTS: Final = {
    name: method.__code__.co_argcount - 1
    for name, method in vars(Backend).items()
    if isinstance(method, FunctionType) and not name.startswith("_")
}
"""How many arguments each method takes."""


def faults(backend: Any) -> list[str]:
    """Everything in which `backend` misses the protocol, one sentence each."""
    found: list[str] = []
    device = getattr(backend, "device", None)
    if not isinstance(device, str) or not device:
        found.append(f"'device' must be its name as a str, such as 'mine:0'; it is {device!r}")
    found += _dtype_faults(getattr(backend, "dtypes", None))
    capabilities = member(backend, "capabilities")
    if not (isinstance(capabilities, (Set, list, tuple)) and all(isinstance(word, str) for word in capabilities)):
        found.append(f"'capabilities' must be a set of words such as {{'linalg'}}; it is {capabilities!r}")
    for name, arguments in _ARGUMENTS.items():
        method = getattr(backend, name, None) if name in REQUIRED else member(backend, name)
        found += _method_faults(method, name, arguments)
    if callable(getattr(backend, "kernel", None)) and not any("'kernel'" in fault for fault in found):
        found += _kernel_faults(backend)
    return found


def _dtype_faults(dtypes: Any) -> list[str]:
    if not isinstance(dtypes, Mapping):
        return [f"'dtypes' must map core dtype names to native dtypes; it is {dtypes!r}"]
    found = [f"'dtypes' has the unknown name {name!r}" for name in dtypes if name not in DTYPES]
    return found + [
        f"'dtypes' lacks {name!r}, which every device has" for name in REQUIRED_DTYPES if name not in dtypes
    ]


def _method_faults(method: Any, name: str, arguments: int) -> list[str]:
    if not callable(method):
        return [f"'{name}' is missing or not a method"]
    try:
        inspect.signature(method).bind(*range(arguments))
    except TypeError:
        wanted = ", ".join(list(inspect.signature(getattr(Backend, name)).parameters)[1:])
        return [f"'{name}' must accept ({wanted}); it is {name}{inspect.signature(method)}"]
    except ValueError:  # a builtin without a signature
        pass
    return []


def _kernel_faults(backend: Any) -> list[str]:
    missing, wrong = [], []
    for name in sorted(CORE_KERNELS):
        try:
            kernel = backend.kernel(name)
        except Exception as error:
            return [f"kernel({name!r}) raised {type(error).__name__}: {error}"]
        if kernel is None:
            missing.append(name)
        elif not callable(kernel):
            wrong.append(name)
    found = [f"no kernel for {', '.join(missing)}: the level 'core' has no composition for them"] if missing else []
    return found + ([f"kernel() gave something that is not callable for {', '.join(wrong)}"] if wrong else [])


def probe(backend: Any) -> list[str]:
    """Faults that show when one number of each required dtype goes to the device and comes back."""
    found = []
    for name in REQUIRED_DTYPES:
        sent, native = pack([1], DTYPES[name]), backend.dtypes[name]
        try:
            x = backend.from_host(sent, (1,), native)
            shape, dtype, back = tuple(x.shape), x.dtype, bytes(backend.to_host(x))
        except Exception as error:
            found.append(f"a {name} did not come back from the device: {type(error).__name__}: {error}")
            continue
        if shape != (1,) or back != sent:
            found.append(f"a {name} 1 of shape (1,) came back with shape {shape} and bytes {back!r}, not {sent!r}")
        if dtype != native or hash(dtype) != hash(native):
            found.append(f"'dtypes' maps {name!r} to {native!r}, but handles have the dtype {dtype!r}: map to that")
    return found
