"""The NumPy backend with one fault each: ``faulty:NAME`` has the fault of that name in `FAULTS`."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import numpy as np

from micrograd_core.backend import PROTOCOL
from micrograd_core.errors import DeviceUnavailable
from micrograd_core.layout import Layout
from micrograd_core.plugins import hookimpl
from micrograd_cpu.storage import CPUBackend

_ticks = itertools.count()


class Faulty(CPUBackend):
    """A sound backend but for what a subclass does to it."""

    replaced: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.device = f"faulty:{next(name for name, each in FAULTS.items() if each is type(self))}"
        self.kernels.update(self.replaced)


class NewerProtocol(Faulty):
    """Written for a core that does not exist yet."""

    protocol = PROTOCOL + 1


class MissingMembers(Faulty):
    """Cannot read back, and wants too few arguments to upload."""

    to_host = None
    from_host = staticmethod(lambda data: None)  # type: ignore[assignment]


class WrongName(Faulty):
    """Calls itself something else."""

    def __init__(self) -> None:
        super().__init__()
        self.device = "cpu:0"


class UnknownCapability(Faulty):
    """Claims a word that means nothing."""

    capabilities = frozenset({"strided", "teleportation"})


class WrongLayout(Faulty):
    """Reads reversed views forwards."""

    replaced: ClassVar = {"exp": lambda x: np.exp(x[..., ::-1] if x.ndim and x.strides[-1] < 0 else x)}


class Aliases(Faulty):
    """Returns its input as a fresh result."""

    replaced: ClassVar = {"copy": lambda x: x}


def _multiply_into(x: Any, y: Any) -> Any:
    product = np.multiply(x, y)
    if isinstance(x, np.ndarray) and x.shape == product.shape and x.flags.writeable:
        x[...] = product
    return product


class Mutates(Faulty):
    """Computes into its first input."""

    replaced: ClassVar = {"multiply": _multiply_into}


class LosesDtype(Faulty):
    """Gives doubles for floats."""

    replaced: ClassVar = {"sqrt": lambda x: np.sqrt(x.astype("float64"))}


class Imprecise(Faulty):
    """Computes in half precision and does not say so."""

    replaced: ClassVar = {"tanh": lambda x: np.tanh(x.astype("float16")).astype(x.dtype)}


class Leaks(Faulty):
    """Keeps every product for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Any] = []
        self.kernels["multiply"] = lambda x, y: self.kept.append(np.multiply(x, y)) or self.kept[-1]  # type: ignore[func-returns-value]

    def memory(self) -> dict[str, int]:
        """Tells on itself."""
        return {"in_use": sum(each.nbytes for each in self.kept)}


class LiesAboutLayout(Faulty):
    """Claims the capability ``strided`` and tells contiguous strides for everything."""

    def layout(self, x: Any) -> Layout:
        """Contiguous, whatever it is."""
        return Layout.contiguous(x.shape)


class ClaimsTooMuch(Faulty):
    """Claims DLPack and exports the memory of a copy, in the order it lies there."""

    capabilities = frozenset({"strided", "dlpack"})

    class Exports(np.ndarray):
        """An array that shows another."""

        def __dlpack__(self, **options: Any) -> Any:
            return np.asarray(self).copy().__dlpack__(**options)

    def from_host(self, data: Any, shape: Any, dtype: Any) -> Any:  # type: ignore[override]
        """As the sound backend, in a class of its own."""
        return super().from_host(data, shape, dtype).view(self.Exports)


class ForgetsStrides(Faulty):
    """Reads memory in the order it lies there."""

    to_host = staticmethod(lambda x: x.tobytes(order="A"))


class Dies(Faulty):
    """Loses its device in the middle of a kernel."""

    @staticmethod
    def _die(x: Any) -> Any:
        raise RuntimeError("the device fell off the bus")

    replaced: ClassVar = {"sigmoid": _die}


class Wavers(Faulty):
    """Gives other bits each time."""

    @staticmethod
    def _softmax(x: Any, *, axis: int) -> Any:
        e = np.exp(x)
        return e / e.sum(axis, keepdims=True) + next(_ticks) * 1e-7

    replaced: ClassVar = {"softmax": _softmax}


FAULTS: dict[str, type[Faulty]] = {
    "newer-protocol": NewerProtocol,
    "missing-members": MissingMembers,
    "wrong-name": WrongName,
    "unknown-capability": UnknownCapability,
    "wrong-layout": WrongLayout,
    "aliases": Aliases,
    "mutates": Mutates,
    "loses-dtype": LosesDtype,
    "imprecise": Imprecise,
    "leaks": Leaks,
    "lies-about-layout": LiesAboutLayout,
    "claims-too-much": ClaimsTooMuch,
    "forgets-strides": ForgetsStrides,
    "dies": Dies,
    "wavers": Wavers,
}


@hookimpl
def micrograd_open(address: str) -> Any:
    """The backend with the fault that the address names."""
    if address not in FAULTS:
        raise DeviceUnavailable(f"faulty:{address}", f"there is no such fault; there are {', '.join(FAULTS)}")
    return FAULTS[address]()


@hookimpl
def micrograd_addresses() -> list[str]:
    """All faults."""
    return list(FAULTS)


@hookimpl
def micrograd_priority() -> int:
    """Nobody should get one of these without asking."""
    return -1
