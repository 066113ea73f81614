"""Every error micrograd raises on purpose. A class owns its wording: what was asked, what is possible, what to type.

Each inherits from the built-in exception that a user of NumPy or PyTorch would already be catching.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

__all__ = [
    "AxisError", "BackendBroken", "BackendIncompatible", "BackendNotFound", "DTypeError", "DeviceMismatch",
    "DeviceUnavailable", "GradcheckError", "GraphError", "KernelBroken", "LinAlgError", "MicrogradError",
    "MissingExtra", "OutOfMemory", "ProgramError", "ShapeError", "TraceError", "UnsupportedDType", "UnsupportedOp",
]  # fmt: skip


class MicrogradError(Exception):
    """The base of every error defined here.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> try:
    ...     mg.zeros(3) + mg.zeros(4)
    ... except mg.errors.MicrogradError as error:
    ...     print(error)
    add: shapes (3,) and (4,) do not broadcast: axis -1 has lengths 3 and 4; each axis must be equal, or 1,
    or missing on the left
    """


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
    "cpu": "micrograd-cpu", "cuda": "micrograd-cuda", "opencl": "micrograd-opencl", "rawbuffer": "micrograd-rawbuffer",
    "wgpu": "micrograd-wgpu", **{name: f"micrograd-array-api[{name}]" for name in ("dask", "jax", "strict", "torch")},
    "auto": "micrograd-cpu", "gpu": "micrograd-cuda",  # these two are no device's own name
}  # fmt: skip
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

    Parameters
    ----------
    name : str
        The device that was asked for.
    installed : sequence of str
        The devices that plugins provide.
    disabled : sequence of str
        Those that ``MICROGRAD_DISABLE_PLUGINS`` switches off.
    because : str
        What else is wrong with the name, where more is known.

    Examples
    --------
    >>> from micrograd_core.errors import BackendNotFound
    >>> print(BackendNotFound("abacus", ["cpu"]))
    no installed backend provides the device 'abacus'; installed: cpu. No known package provides it
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

    Its cause, if another exception is the cause, is chained.

    Parameters
    ----------
    name : str
        The device's name.
    origin : str
        The distribution and the entry point that provide it.
    faults : sequence of str
        All that is wrong, not just the first thing. ``.faults`` holds it.

    Examples
    --------
    >>> from micrograd_core.errors import BackendBroken
    >>> print(BackendBroken("mine", "micrograd-mine 0.1", ["it has no to_host"]))
    the 'mine' backend (micrograd-mine 0.1) is broken: it has no to_host
    Other devices are unaffected. Update or uninstall that distribution, or set
    MICROGRAD_DISABLE_PLUGINS=mine
    """

    def __init__(self, name: str, origin: str, faults: Sequence[str]) -> None:
        self.name, self.faults = name, tuple(faults)
        listed = faults[0] if len(faults) == 1 else "".join(f"\n  - {fault}" for fault in faults)
        super().__init__(
            f"the {_cuda(name)}{name!r} backend ({origin}) is broken: {listed}\n"
            f"Other devices are unaffected. Update or uninstall that distribution, "
            f"or set MICROGRAD_DISABLE_PLUGINS={name}"
        )

    def _tell(self, device: str, fault: str, said: str) -> None:
        """One fault, which showed on a device: the message says how."""
        self.name, self.faults = device.partition(":")[0], (fault,)
        MicrogradError.__init__(self, f"the backend of {_cuda(self.name)}{device!r} is broken: {said}")


class KernelBroken(BackendBroken):
    """A kernel returned another dtype or shape than the op table says, or no handle at all.

    Parameters
    ----------
    device : str
        The device, with its address.
    op : str
        The operation.
    returned, expected : str
        What the kernel returned, and what the op table says.
    remedy : str
        A sentence that says how to repair the kernel, without a full stop.

    Examples
    --------
    >>> from micrograd_core.errors import KernelBroken
    >>> print(KernelBroken("mine:0", "sin", "float64", "float32", "Cast its result"))
    the backend of 'mine:0' is broken: its kernel 'sin' returned float64; the op table says float32. Cast
    its result. Until then compute it elsewhere with .to('cpu')
    """

    def __init__(self, device: str, op: str, returned: str, expected: str, remedy: str) -> None:
        self.op, fault = op, f"returned {returned}; the op table says {expected}"
        said = f"its kernel {op!r} {fault}. {remedy}. Until then compute it elsewhere with .to('cpu')"
        self._tell(device, f"kernel({op!r}) {fault}", said)


class UnreadableHandle(BackendBroken):
    """A tensor cannot be read: its handle is not what the operations that led to it make."""

    def __init__(self, device: str, dtype: str, shape: tuple[int, ...], bytes: int, native: object, count: int) -> None:
        fault = f"a tensor of {dtype} and shape {shape} has {bytes} bytes, but its handle has dtype {native} and "
        fault += f"to_host gave {count} bytes"
        advice = (
            "Run it again with MICROGRAD_CHECK=1 in the environment to see which kernel returned what it should not"
        )
        self._tell(device, fault, f"{fault}. {advice}")


class BackendIncompatible(MicrogradError, RuntimeError):
    """A backend was written against a protocol version that this core does not speak.

    Parameters
    ----------
    name : str
        The device's name.
    origin : str
        The distribution and the entry point that provide it.
    theirs : object
        The protocol version of the backend.
    ours : int
        That of this core.

    Examples
    --------
    >>> from micrograd_core.errors import BackendIncompatible
    >>> print(BackendIncompatible("mine", "micrograd-mine 0.1", 1, 2))
    the 'mine' backend (micrograd-mine 0.1) speaks protocol 1, this core speaks protocol 2; update that
    distribution
    """

    def __init__(self, name: str, origin: str, theirs: object, ours: int) -> None:
        self.name, self.theirs, self.ours = name, theirs, ours
        update = "micrograd-core" if isinstance(theirs, int) and theirs > ours else "that distribution"
        super().__init__(
            f"the {_cuda(name)}{name!r} backend ({origin}) speaks protocol {theirs!r}, "
            f"this core speaks protocol {ours}; update {update}"
        )


class DeviceUnavailable(MicrogradError, RuntimeError):
    """The plugin works, but the device does not: it has no driver, no such index, or no free hardware.

    Parameters
    ----------
    device : str
        The device, with its address.
    reason : str
        What the driver says.
    remedy : str
        What to do; by default to ask for another device.

    Examples
    --------
    >>> from micrograd_core.errors import DeviceUnavailable
    >>> print(DeviceUnavailable("cuda:7", "there are 2 GPUs"))
    CUDA device 'cuda:7' is unavailable: there are 2 GPUs; use another device, or ask for a substitute with
    Device("cuda:7", fallback="cpu")
    """

    def __init__(self, device: str, reason: str, remedy: str = "") -> None:
        self.device, self.reason = device, reason
        remedy = remedy or f'use another device, or ask for a substitute with Device("{device}", fallback="cpu")'
        super().__init__(f"{_cuda(device)}device {device!r} is unavailable: {reason}; {remedy}")


UNUSABLE: Final = (BackendNotFound, BackendBroken, BackendIncompatible, DeviceUnavailable)
"""Why a device cannot be used."""


class DeviceMismatch(MicrogradError, ValueError):
    """The operands of one operation are on different devices. Nothing is ever moved implicitly.

    Parameters
    ----------
    op : str
        The operation.
    operands : sequence of (device, shape)
        Where each operand is, and its shape.

    Examples
    --------
    >>> from micrograd_core.errors import DeviceMismatch
    >>> print(DeviceMismatch("add", [("cpu", (2,)), ("cuda:0", (2,))]))
    add: the operands are on different devices: cpu (shape (2,)), cuda:0 (shape (2,)); move one of them with
    .to('cpu')
    """

    def __init__(self, op: str, operands: Sequence[tuple[object, tuple[int, ...]]]) -> None:
        self.devices = {str(device) for device, _ in operands}
        places = ", ".join(f"{device} (shape {shape})" for device, shape in operands)
        super().__init__(
            f"{op}: the operands are on different devices: {places}; move one of them with .to({str(operands[0][0])!r})"
        )


class UnsupportedOp(MicrogradError, NotImplementedError):
    """The device has neither a kernel for an operation nor the kernels to compose it from.

    Parameters
    ----------
    op : str
        The operation.
    device : str
        The device, with its address.
    because : str
        Why, if it is another reason than a missing kernel.

    Examples
    --------
    >>> from micrograd_core.errors import UnsupportedOp
    >>> print(UnsupportedOp("sort", "mine:0"))
    sort is not supported on mine:0: it provides no kernel of that name and the op table has no composition
    for it; compute it elsewhere with .to('cpu')
    """

    def __init__(self, op: str, device: str, *, because: str = "") -> None:
        self.op, self.device = op, device
        why = because or "it provides no kernel of that name and the op table has no composition for it"
        super().__init__(f"{op} is not supported on {device}: {why}; compute it elsewhere with .to('cpu')")


class UnsupportedDType(MicrogradError, TypeError):
    """The device does not have a dtype.

    Parameters
    ----------
    dtype : str
        The dtype that was asked for.
    device : str
        The device, with its address.
    supported : iterable of str
        The dtypes that the device has.

    Examples
    --------
    >>> from micrograd_core.errors import UnsupportedDType
    >>> print(UnsupportedDType("float64", "mine:0", ["float32", "int64"]))
    mine:0 does not support float64; it has float32 or int64
    """

    def __init__(self, dtype: str, device: str, supported: Iterable[str]) -> None:
        super().__init__(f"{device} does not support {dtype}; it has {one_of(supported)}")


class OutOfMemory(MicrogradError, MemoryError):
    """A device could not allocate.

    Backends raise it; so does the core when a kernel raises ``MemoryError``, or an error whose words say so. Results
    that were computed before are unharmed. A sweep that ran out has consumed part of its graph: compute it again.

    Parameters
    ----------
    device : str
        The device, with its address.
    asked, in_use, reserved : int, optional
        Bytes that were asked for, that tensors use, and that the device keeps; ``None`` where it does not tell.

    Examples
    --------
    >>> from micrograd_core.errors import OutOfMemory
    >>> print(OutOfMemory("cuda:0", 4096, 1024))
    out of memory on cuda:0: asked 4,096 bytes, in use 1,024 bytes; drop tensors you no longer need, use a
    smaller batch, or call device.release_memory()
    """

    @staticmethod
    def meant_by(error: Exception) -> bool:
        """Whether another error says that memory is used up. PyTorch and JAX, for example, say it in words only.

        Parameters
        ----------
        error : Exception
            The other error.

        Returns
        -------
        bool

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.errors.OutOfMemory.meant_by(MemoryError())
        True
        """
        return isinstance(error, MemoryError) or bool(
            re.search("out of memory|can't allocate memory", str(error), re.IGNORECASE)
        )

    @classmethod
    def on(cls, kernels: Any) -> OutOfMemory:
        """Make the error of a device, with the figures that the device tells.

        Parameters
        ----------
        kernels : Kernels
            Those of the device.

        Returns
        -------
        OutOfMemory

        Examples
        --------
        >>> import micrograd_core as mg
        >>> error = mg.errors.OutOfMemory.on(mg.Device("cpu").kernels)
        >>> error.device
        'cpu'
        """
        figures = kernels.memory()
        return cls(str(kernels.device), None, figures.get("in_use"), figures.get("reserved"))

    def __init__(
        self, device: str, asked: int | None = None, in_use: int | None = None, reserved: int | None = None
    ) -> None:
        self.device, self.asked, self.in_use, self.reserved = device, asked, in_use, reserved
        counts = {"asked": asked, "in use": in_use, "reserved": reserved}
        figures = [f"{label} {count:,} bytes" for label, count in counts.items() if count is not None]
        super().__init__(
            f"out of memory on {device}{': ' + ', '.join(figures) if figures else ''}; "
            "drop tensors you no longer need, use a smaller batch, or call device.release_memory()"
        )


class MissingExtra(MicrogradError, ImportError):
    """A command needs packages beyond the core.

    Parameters
    ----------
    what : str
        The command or the function.
    missing : str
        The package that is not installed.
    extra : str
        The extra of micrograd-core that brings it.

    Examples
    --------
    >>> from micrograd_core.errors import MissingExtra
    >>> print(MissingExtra("micrograd train", "micrograd-train", "train"))
    micrograd train needs micrograd-train; install it with: pip install 'micrograd-core[train]'
    """

    def __init__(self, what: str, missing: str, extra: str) -> None:
        super().__init__(f"{what} needs {missing}; install it with: pip install 'micrograd-core[{extra}]'")


# ── operands ─────────────────────────────────────────────────────────────────────────────────────────────────


class ShapeError(MicrogradError, ValueError):
    """Shapes, axes or lengths do not fit an operation.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> try:
    ...     mg.zeros(3) + mg.zeros(4)
    ... except mg.errors.ShapeError as error:
    ...     print(error)
    add: shapes (3,) and (4,) do not broadcast: axis -1 has lengths 3 and 4; each axis must be equal, or 1,
    or missing on the left
    """


class LinAlgError(MicrogradError, ValueError):
    """The numbers of a matrix leave an operation without an answer: a singular one has no inverse.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> try:
    ...     mg.linalg.inv(mg.zeros((2, 2)))
    ... except mg.errors.LinAlgError as error:
    ...     print(error)
    inv: the matrix is singular, and has no inverse (pinv has the one of least norm); got shape (2, 2)
    """


class AxisError(ShapeError, IndexError):
    """An operation was given an axis that the tensor does not have. It can be caught as IndexError too, like NumPy's.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> try:
    ...     mg.zeros(3).sum(axis=1)
    ... except mg.errors.AxisError as error:
    ...     print(error)
    sum: axis 1 is out of range; a tensor of 1 dimensions has axes -1 to 0
    """


class MissingAxes(ShapeError, AttributeError):
    """A property needs more axes than the tensor has. To ``hasattr`` it is absent."""


class IndexingError(MicrogradError, IndexError):
    """A key does not fit the tensor that it indexes."""


class DTypeError(MicrogradError, TypeError):
    """A dtype does not fit an operation, or two do not promote.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> try:
    ...     mg.bitwise_and(mg.zeros(2), 1)
    ... except mg.errors.DTypeError as error:
    ...     print(error)
    bitwise_and takes bool, signed integer or unsigned integer dtypes as operand 1; got float32 (shape (2,))
    """


# ── autograd ─────────────────────────────────────────────────────────────────────────────────────────────────


class GraphError(MicrogradError, RuntimeError):
    """The recorded graph cannot give a right gradient: it is absent or freed, or a tensor in it has changed.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> try:
    ...     mg.zeros(()).backward()
    ... except mg.errors.GraphError as error:
    ...     print(error)
    nothing was recorded for this tensor: none of its operands required a gradient, or it was made under
    no_grad(); make the operands with Tensor(data) or set x.requires_grad = True before computing
    """


class TraceError(MicrogradError, RuntimeError):
    """A function that is being traced needs a number that is not known yet, as in a decision that depends on it.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> try:
    ...     mg.jit(lambda x: x if x > 0 else -x)(mg.ones(()))
    ... except mg.errors.TraceError as error:
    ...     print(str(error).partition(",")[0])
    jit: the numbers of a tensor are asked for inside a traced function
    """


class ProgramError(MicrogradError, ValueError):
    """The steps of a `Program` do not fit together.

    Examples
    --------
    >>> from micrograd_core.errors import ProgramError
    >>> print(ProgramError("step 2 reads value 7, which no step before it made"))
    step 2 reads value 7, which no step before it made
    """


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
    """An analytic gradient differs from the finite difference.

    Parameters
    ----------
    **facts
        The input, the element, and the numbers that differ. ``.facts`` holds them.

    Examples
    --------
    >>> from micrograd_core.errors import GradcheckError
    >>> print(GradcheckError(element=3, analytic=1.0, numeric=2.0))
    gradcheck failed: element = 3, analytic = 1.0, numeric = 2.0
    """

    def __init__(self, **facts: Any) -> None:
        self.facts = facts
        super().__init__("gradcheck failed: " + ", ".join(f"{name} = {value}" for name, value in facts.items()))
