"""`Device`: the name of an opened backend, as users write and compare it; and the default device."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from micrograd_core.backend import CAPABILITIES
from micrograd_core.dtypes import DType, dtype as as_dtype
from micrograd_core.errors import UNUSABLE, BackendNotFound, DTypeError, MicrogradError
from micrograd_core.support.context import default_devices, during
from micrograd_core.support.open_devices import OPENED, OPENING, REFUSED, forget
from micrograd_core.support.warning import warn

if TYPE_CHECKING:
    from micrograd_core.interpreters.raw import Kernels

_CHOSEN = {"auto": 0, "gpu": 1}  # names that stand for the best device, and the least priority it must have


class Device:
    """An opened device: ``Device("cpu")``, ``Device("cuda:1")``, ``Device("auto")``.

    There is one object per device, so that devices compare by identity; they are hashable and print as ``cpu``,
    ``cuda:0``. Making one opens it: a device that cannot be used says so here, not at the first operation.

    Parameters
    ----------
    spec : str or Device
        ``name`` or ``name:address``; ``"auto"`` is the best device that works, ``"gpu"`` the best accelerator.
    fallback : str or Device, optional
        The device to use where `spec` cannot be used; one warning says why.

    Raises
    ------
    BackendNotFound, BackendBroken, BackendIncompatible, DeviceUnavailable
    DTypeError
        When `spec` names a dtype.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.Device("cpu") is mg.Device("cpu:0")
    True
    >>> mg.zeros(2, device="cpu").device
    Device('cpu')
    """

    __slots__ = ("__weakref__", "_label", "kernels")
    kernels: Kernels
    _label: str

    def __new__(cls, spec: str | Device, *, fallback: str | Device | None = None) -> Device:
        """The one object there is for the device, opened if it was not."""
        if isinstance(spec, Device):
            return spec
        if not isinstance(spec, str):
            refuse_dtype(spec)
            raise TypeError(f'a device is a name such as "cpu", "cuda:1" or "auto"; got {spec!r}')
        opened: Device | None = OPENED.get(spec)
        if opened is not None:
            return opened
        try:
            return cls._best(spec) if spec in _CHOSEN else cls._open(spec)
        except UNUSABLE as error:
            if fallback is None:
                raise
            substitute = cls(fallback)
            warn(f"{error}. Using {substitute} instead, as asked")
            return substitute

    @classmethod
    def _open(cls, spec: str) -> Device:
        from micrograd_core.plugins import open_backend

        with OPENING:
            if spec in OPENED:
                return OPENED[spec]
            name, _, address = spec.partition(":")
            try:
                kernels = open_backend(name, address)
            except BackendNotFound:
                refuse_dtype(spec)
                raise
            label = kernels.backend.device
            device: Device | None = OPENED.get(label)
            if device is None:
                device = object.__new__(cls)
                device._label, device.kernels = label, kernels
                kernels.device = device
            OPENED[spec] = OPENED[label] = device
            REFUSED.pop(spec, None)
            return device

    @classmethod
    def _best(cls, spec: str) -> Device:
        """The device of highest priority that opens; a warning says which better ones did not."""
        from micrograd_core import plugins

        ranked, failures = [], []
        for name in plugins.names():
            try:
                ranked.append((-plugins.call(name, "micrograd_priority"), name))
            except MicrogradError as error:
                failures.append(error)
        for rank, name in sorted(ranked):
            if -rank < _CHOSEN[spec]:
                continue
            try:
                device = cls._open(name)
            except MicrogradError as error:
                failures.append(error)
                continue
            if failures:
                reasons = "; ".join(str(failure).partition("\n")[0] for failure in failures)
                warn(f"Device({spec!r}) uses {device}, because {reasons}")
            return device
        if failures:
            raise failures[0]
        raise BackendNotFound(spec, plugins.names(), plugins.disabled())

    forget = staticmethod(forget)

    # ── the spellings of the Rust engine ─────────────────────────────────────────────────────────────────────

    @classmethod
    def cpu(cls) -> Device:
        """Open the host.

        Returns
        -------
        Device

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.Device.cpu()
        Device('cpu')
        """
        return cls("cpu")

    @classmethod
    def cuda(cls, index: int = 0) -> Device:
        """Open an NVIDIA GPU.

        Parameters
        ----------
        index : int, default 0
            Which one.

        Returns
        -------
        Device

        Raises
        ------
        BackendNotFound, BackendBroken, BackendIncompatible, DeviceUnavailable
            When there is no such GPU, or no plugin for it.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> device = mg.Device.cuda() if mg.Device.is_cuda_available() else mg.Device.cpu()
        """
        return cls(f"cuda:{index}")

    @classmethod
    def gpu(cls) -> Device:
        """Open the best accelerator that works, of any make.

        Returns
        -------
        Device

        Raises
        ------
        BackendNotFound, BackendBroken, BackendIncompatible, DeviceUnavailable
            When no accelerator works.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> device = mg.Device.gpu() if mg.Device.is_gpu_available() else mg.Device.cpu()
        """
        return cls("gpu")

    @classmethod
    def is_available(cls, spec: str) -> bool:
        """Whether ``Device(spec)`` would work. It never raises; a refusal is remembered and costs nothing to repeat.

        Parameters
        ----------
        spec : str
            The name of a device, such as ``"cuda:1"``.

        Returns
        -------
        bool

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.Device.is_available("cpu"), mg.Device.is_available("abacus")
        (True, False)
        """
        try:
            if spec in REFUSED:
                return False
            cls(spec)
        except MicrogradError as error:
            REFUSED[spec] = error
            return False
        except TypeError:  # no name at all
            return False
        return True

    @classmethod
    def is_cuda_available(cls) -> bool:
        """Whether ``Device("cuda")`` would work.

        Returns
        -------
        bool

        Examples
        --------
        >>> import micrograd_core as mg
        >>> available = mg.Device.is_cuda_available()
        """
        return cls.is_available("cuda")

    @classmethod
    def is_gpu_available(cls) -> bool:
        """Whether any accelerator works.

        Returns
        -------
        bool

        Examples
        --------
        >>> import micrograd_core as mg
        >>> available = mg.Device.is_gpu_available()
        """
        return cls.is_available("gpu")

    def is_cpu(self) -> bool:
        """Whether this is the host.

        Returns
        -------
        bool

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.Device("cpu").is_cpu()
        True
        """
        return self.type == "cpu"

    def is_cuda(self) -> bool:
        """Whether this is an NVIDIA GPU.

        Returns
        -------
        bool

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.Device("cpu").is_cuda()
        False
        """
        return self.type == "cuda"

    # ── the device itself ────────────────────────────────────────────────────────────────────────────────────

    @property
    def type(self) -> str:
        """The plugin's name, as a str: ``"cuda"`` of ``cuda:1``."""
        return self._label.partition(":")[0]

    @property
    def capabilities(self) -> frozenset[str]:
        """What the device claims, as a frozenset of str; the words are in `micrograd_core.backend.CAPABILITIES`."""
        return frozenset(CAPABILITIES).intersection(self.kernels.capabilities)

    def synchronize(self) -> None:
        """Wait until all work submitted to the device is done.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.Device("cpu").synchronize()
        """
        self.kernels.synchronize()

    def memory(self) -> dict[str, int]:
        """Ask how much memory the device uses.

        Returns
        -------
        dict of str to int
            Bytes ``in_use``, ``reserved`` and ``peak``, as far as the device tells.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> figures = mg.Device("cpu").memory()
        """
        return self.kernels.memory()

    def release_memory(self) -> None:
        """Give cached memory back to the system.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.Device("cpu").release_memory()
        """
        self.kernels.release_memory()

    def stream(self) -> AbstractContextManager[Any]:
        """Put the work of a ``with`` block into a queue of its own, after what was given to the device before.

        What is given to the device after the block waits for the block. Devices without queues run it as it is.

        Returns
        -------
        context manager

        Examples
        --------
        >>> import micrograd_core as mg
        >>> with mg.Device("cpu").stream():
        ...     y = mg.ones(2) + 1
        """
        return self.kernels.stream()

    def __str__(self) -> str:
        return "cpu" if self._label == "cpu:0" else self._label

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self._label,)


def destination(device: Any, dtype: Any) -> tuple[Device | None, DType | None]:
    """What ``to(device, dtype)`` was given, with ``None`` for what is to stay; a `DType` or a tensor may come first.

    Raises
    ------
    TypeError
        When there is neither.
    """
    device, dtype = (device.device, device.dtype) if hasattr(device, "requires_grad") else (device, dtype)
    if isinstance(device, DType) and dtype is None:
        device, dtype = None, device
    if device is None and dtype is None:
        raise TypeError('to() takes a device, a dtype or both: .to("cpu"), .to(dtype="float64")')
    return None if device is None else Device(device), None if dtype is None else as_dtype(dtype)


def refuse_dtype(spec: Any) -> None:
    """Raise DTypeError if `spec` names a dtype; it says what to type. Called when there is no such device."""
    try:
        name = as_dtype(spec).name
    except DTypeError:
        return
    raise DTypeError(
        f"{name!r} is a dtype, and here a device is meant, such as 'cpu'. To convert a tensor or a network write "
        f".to(dtype={name!r}), or x.astype({name!r}); to make one, dtype={name!r}"
    )


# ── the default device ───────────────────────────────────────────────────────────────────────────────────────


def default_device() -> Device:
    """The device of tensors that are made without naming one.

    `use_device` or `set_default_device` sets it, else the environment variable ``MICROGRAD_DEVICE``; by default it is
    the cpu. The setting belongs to the context: threads and asyncio tasks do not see each other's.

    Returns
    -------
    Device
        Opened: making it the first time is where a missing driver shows.

    Raises
    ------
    BackendNotFound, BackendBroken, BackendIncompatible, DeviceUnavailable
        When the environment names a device that cannot be used.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.default_device()
    Device('cpu')
    """
    device: Device | None = default_devices.get()
    if device is None:
        chosen = os.environ.get("MICROGRAD_DEVICE") or "cpu"
        try:
            device = Device(chosen)
        except UNUSABLE as error:
            if chosen != "cpu":
                error.add_note(f"the default device comes from the environment: MICROGRAD_DEVICE={chosen}")
            raise
    return device


def set_default_device(device: str | Device | None) -> None:
    """Set the default device of this context.

    Parameters
    ----------
    device : Device, str or None
        The device; ``None`` returns to the environment's.

    Raises
    ------
    BackendNotFound, BackendBroken, BackendIncompatible, DeviceUnavailable
        When the device cannot be used.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.set_default_device("cpu")
    >>> mg.zeros(2).device
    Device('cpu')
    >>> mg.set_default_device(None)
    """
    default_devices.set(None if device is None else Device(device))


class use_device(during):  # noqa: N801
    """The default device inside a ``with`` block, or inside a decorated function; ``as`` gives the device.

    Parameters
    ----------
    device : Device or str
        Is opened when the block is entered.

    Raises
    ------
    BackendNotFound, BackendBroken, BackendIncompatible, DeviceUnavailable
        On entering, when the device cannot be used.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> with mg.use_device("cpu") as device:
    ...     x = mg.zeros(2)
    >>> x.device is device
    True
    """

    def __init__(self, device: str | Device) -> None:
        super().__init__(default_devices, device)

    def __enter__(self) -> Device:  # type: ignore[override]
        self._value = Device(self._value)  # not before: a decorated function may never be called
        return super().__enter__()
