"""Every error micrograd raises on purpose. A class owns its wording: what was asked, what is possible, what to type.

Each inherits from the built-in exception that a user of NumPy or PyTorch would already be catching.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

__all__ = [
    "AxisError",
    "BackendBroken",
    "BackendIncompatible",
    "BackendNotFound",
    "DTypeError",
    "DeviceMismatch",
    "DeviceUnavailable",
    "GradcheckError",
    "GraphError",
    "KernelBroken",
    "LinAlgError",
    "MicrogradError",
    "MissingExtra",
    "OutOfMemory",
    "ProgramError",
    "ShapeError",
    "TraceError",
    "UnsupportedDType",
    "UnsupportedOp",
]


class MicrogradError(Exception):
    """The base of every error defined here."""


def caused(ours: MicrogradError, by: Exception) -> MicrogradError:
    """`ours`, to be raised without ``from``."""
    ours.__cause__ = by
    return ours


def one_of(names: Iterable[str]) -> str:
    """``a, b or c``, for sentences that list what is possible."""
    *head, last = [*names] or ["nothing"]
    return f"{', '.join(head)} or {last}" if head else last


# ── plugins and devices ──────────────────────────────────────────────────────────────────────────────────────


PROVIDERS: Final = {
    "cpu": "micrograd-cpu",
    "cuda": "micrograd-cuda",
    "dask": "micrograd-array-api[dask]",
    "jax": "micrograd-array-api[jax]",
    "rawbuffer": "micrograd-rawbuffer",
    "strict": "micrograd-array-api[strict]",
    "torch": "micrograd-array-api[torch]",
    "auto": "micrograd-cpu",  # these two are no device's own name
    "gpu": "micrograd-cuda",
}
"""What to install for a device, of all that the project publishes. A name made up from what a user typed could be
registered by anyone; so none but these is ever advised, and of several claims to a name that of its provider counts."""


def install(device: str) -> str:
    """The command that adds a device of `PROVIDERS`."""
    requirement = PROVIDERS[device]
    return f"pip install {requirement!r}" if "[" in requirement else f"pip install {requirement}"


def _cuda(device: str) -> str:
    """The word that programs written for torch look for in an error about a CUDA device."""
    return "CUDA " if "cuda" in device.split(":") else ""


class BackendNotFound(MicrogradError, LookupError, RuntimeError):
    """No installed plugin provides the device that was asked for.

    ``because`` is what else is wrong with the name, where more is known.
    """

    def __init__(self, name: str, installed: Sequence[str], disabled: Sequence[str] = (), because: str = "") -> None:
        self.name = name
        if because:
            message = f"no device is called {name!r}: {because}"
        elif name in disabled or "*" in disabled:
            off = "every backend" if "*" in disabled else f"the {_cuda(name)}{name!r} backend"
            message = f"{off} is switched off by MICROGRAD_DISABLE_PLUGINS; unset it to use {_cuda(name)}{name!r}"
        else:
            message = (
                f"no installed backend provides the {_cuda(name)}device {name!r}; "
                f"installed: {', '.join(installed) or 'none'}. {self._advice(name, installed)}"
            )
        super().__init__(message)

    @staticmethod
    def _advice(name: str, installed: Sequence[str]) -> str:
        import difflib

        if name in PROVIDERS:
            return f"To add it: {install(name)}"
        known = [*installed, *(device for device in PROVIDERS if device not in installed)]
        close = difflib.get_close_matches(name.strip().lower(), known, n=1, cutoff=0.7)
        if not close:
            return "No known package provides it"
        here = close[0] in (*installed, "auto", "gpu")
        return f"Did you mean {close[0]!r}?" + ("" if here else f" It comes with: {install(close[0])}")


class BackendBroken(MicrogradError, RuntimeError):
    """A plugin is installed but unusable: it fails to import, to open, or to meet the protocol.

    The cause, where there is one, is chained; ``faults`` lists all that is wrong, not just the first thing.
    """

    def __init__(self, name: str, origin: str, faults: Sequence[str]) -> None:
        self.name, self.faults = name, tuple(faults)
        listed = faults[0] if len(faults) == 1 else "".join(f"\n  - {fault}" for fault in faults)
        super().__init__(
            f"the {_cuda(name)}{name!r} backend ({origin}) is broken: {listed}\n"
            f"Other devices are unaffected. Update or uninstall that distribution, "
            f"or set MICROGRAD_DISABLE_PLUGINS={name}"
        )


class KernelBroken(BackendBroken):
    """A kernel returned what the op table does not say: another dtype or shape, or no handle at all."""

    def __init__(self, device: str, op: str, returned: str, expected: str, remedy: str) -> None:
        self.name, self.op = device.partition(":")[0], op
        self.faults = (f"kernel({op!r}) returned {returned}; the op table says {expected}",)
        MicrogradError.__init__(
            self,
            f"the backend of {_cuda(self.name)}{device!r} is broken: its kernel {op!r} returned {returned}; "
            f"the op table says {expected}. {remedy}. Until then compute it elsewhere with .to('cpu')",
        )


class UnreadableHandle(BackendBroken):
    """A tensor cannot be read: its handle is not what the operations that led to it make."""

    def __init__(self, device: str, dtype: str, shape: tuple[int, ...], bytes: int, native: object, count: int) -> None:
        self.name = device.partition(":")[0]
        self.faults = (
            f"a tensor of {dtype} and shape {shape} has {bytes} bytes, but its handle has dtype {native} and "
            f"to_host gave {count} bytes",
        )
        MicrogradError.__init__(
            self,
            f"the backend of {_cuda(self.name)}{device!r} is broken: {self.faults[0]}. Run it again with "
            "MICROGRAD_CHECK=1 in the environment to see which kernel returned what it should not",
        )


class BackendIncompatible(MicrogradError, RuntimeError):
    """A backend was written against a protocol version that this core does not speak."""

    def __init__(self, name: str, origin: str, theirs: object, ours: int) -> None:
        self.name, self.theirs, self.ours = name, theirs, ours
        update = "micrograd-core" if isinstance(theirs, int) and theirs > ours else "that distribution"
        super().__init__(
            f"the {_cuda(name)}{name!r} backend ({origin}) speaks protocol {theirs!r}, "
            f"this core speaks protocol {ours}; update {update}"
        )


class DeviceUnavailable(MicrogradError, RuntimeError):
    """The plugin works, the device does not: no driver, no such index, no free hardware. ``reason`` is the driver's."""

    def __init__(self, device: str, reason: str, remedy: str = "") -> None:
        self.device, self.reason = device, reason
        remedy = remedy or f'use another device, or ask for a substitute with Device("{device}", fallback="cpu")'
        super().__init__(f"{_cuda(device)}device {device!r} is unavailable: {reason}; {remedy}")


class DeviceMismatch(MicrogradError, ValueError):
    """Operands of one operation live on different devices. Nothing is ever moved implicitly."""

    def __init__(self, op: str, operands: Sequence[tuple[object, tuple[int, ...]]]) -> None:
        self.devices = {str(device) for device, _ in operands}
        places = ", ".join(f"{device} (shape {shape})" for device, shape in operands)
        super().__init__(
            f"{op}: the operands are on different devices: {places}; move one of them with .to({str(operands[0][0])!r})"
        )


class UnsupportedOp(MicrogradError, NotImplementedError):
    """The device has neither a kernel for an operation nor the kernels to compose it from."""

    def __init__(self, op: str, device: str, *, because: str = "") -> None:
        self.op, self.device = op, device
        why = because or "it provides no kernel of that name and the op table has no composition for it"
        super().__init__(f"{op} is not supported on {device}: {why}; compute it elsewhere with .to('cpu')")


class UnsupportedDType(MicrogradError, TypeError):
    """The device does not have a dtype."""

    def __init__(self, dtype: str, device: str, supported: Iterable[str]) -> None:
        super().__init__(f"{device} does not support {dtype}; it has {one_of(supported)}")


class OutOfMemory(MicrogradError, MemoryError):
    """A device could not allocate. All figures are bytes; ``None`` where the device does not tell.

    Raised by a backend, or by the core when a kernel raises ``MemoryError`` or says so in words. What was computed
    before is unharmed; a sweep that ran out has consumed part of its graph, which has to be computed again.
    """

    @staticmethod
    def meant_by(error: Exception) -> bool:
        """Whether that is what another error says: some array libraries (PyTorch, JAX) have only words for it."""
        return isinstance(error, MemoryError) or bool(
            re.search("out of memory|can't allocate memory", str(error), re.IGNORECASE)
        )

    @classmethod
    def on(cls, kernels: Any) -> OutOfMemory:
        """The error of a device, with the figures it tells."""
        figures = kernels.memory()
        return cls(str(kernels.device), None, figures.get("in_use"), figures.get("reserved"))

    def __init__(
        self, device: str, asked: int | None = None, in_use: int | None = None, reserved: int | None = None
    ) -> None:
        self.device, self.asked, self.in_use, self.reserved = device, asked, in_use, reserved
        figures = [
            f"{label} {count:,} bytes"
            for label, count in (("asked", asked), ("in use", in_use), ("reserved", reserved))
            if count is not None
        ]
        super().__init__(
            f"out of memory on {device}{': ' + ', '.join(figures) if figures else ''}; "
            "drop tensors you no longer need, use a smaller batch, or call device.release_memory()"
        )


class MissingExtra(MicrogradError, ImportError):
    """A command needs packages beyond the core."""

    def __init__(self, what: str, missing: str, extra: str) -> None:
        super().__init__(f"{what} needs {missing}; install it with: pip install 'micrograd-core[{extra}]'")


# ── operands ─────────────────────────────────────────────────────────────────────────────────────────────────


class ShapeError(MicrogradError, ValueError):
    """Shapes, axes or lengths do not fit an operation."""


class LinAlgError(MicrogradError, ValueError):
    """The numbers of a matrix leave an operation without an answer: a singular one has no inverse."""


class AxisError(ShapeError, IndexError):
    """An operation was given an axis that the tensor does not have. As NumPy's, it can be caught as either kind."""


class MissingAxes(ShapeError, AttributeError):
    """A property needs more axes than the tensor has. To ``hasattr`` it is absent."""


class IndexingError(MicrogradError, IndexError):
    """A key does not fit the tensor that it indexes."""


class DTypeError(MicrogradError, TypeError):
    """A dtype does not fit an operation, or two do not promote."""


# ── autograd ─────────────────────────────────────────────────────────────────────────────────────────────────


class GraphError(MicrogradError, RuntimeError):
    """The recorded graph cannot give a right gradient: it is absent, freed, or was written to."""


class TraceError(MicrogradError, RuntimeError):
    """A function that is being traced does what a trace cannot hold: a decision that depends on a number."""


class ProgramError(MicrogradError, ValueError):
    """The steps of a `Program` do not fit together."""


def not_copied(what: str, way: str) -> GraphError:
    """What is copied or pickled was computed: `way` says what to take instead."""
    return GraphError(
        f"{what} was computed, and the graph that it is part of is not copied or pickled with it; take {way}"
    )


class TransformError(MicrogradError, RuntimeError):
    """A function does what a transform (`vmap`, …) cannot see through."""


class AnomalyError(MicrogradError, ArithmeticError):
    """A gradient turned into NaN, under `detect_anomaly`. The message names the operation and the line that made it."""


class GradcheckError(MicrogradError, AssertionError):
    """An analytic gradient differs from the finite difference."""

    def __init__(self, **facts: Any) -> None:
        self.facts = facts
        super().__init__("gradcheck failed: " + ", ".join(f"{name} = {value}" for name, value in facts.items()))
