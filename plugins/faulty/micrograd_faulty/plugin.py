"""The NumPy backend with one fault each: ``faulty:NAME`` has the fault of that name in `FAULTS`."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from micrograd_core.backend import PROTOCOL
from micrograd_core.compiler.program import Program
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


class CapabilityAsText(Faulty):
    """Claims a word, and not a set of words."""

    def __init__(self) -> None:
        super().__init__()
        self.capabilities = "strided"  # type: ignore[assignment]


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


# ── numbers that are lost ────────────────────────────────────────────────────────────────────────────────────


class LosesNaN(Faulty):
    """Takes NaN for no number at all."""

    replaced: ClassVar = {"maximum": np.fmax}


def _without_nan(name: str) -> Any:
    sound = _sound(name)

    def kernel(x: Any, **params: Any) -> Any:
        return sound(np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf) if x.dtype.kind == "f" else x, **params)

    return kernel


def _sound(name: str) -> Any:
    return CPUBackend().kernels[name]


class ReducesWithoutNaN(Faulty):
    """Likewise, along an axis: to the greatest."""

    replaced: ClassVar = {"max": _without_nan("max")}


class ReducesDownWithoutNaN(Faulty):
    """And to the least."""

    replaced: ClassVar = {"min": _without_nan("min")}


class LogOfZero(Faulty):
    """Gives 0 where the logarithm has no number."""

    replaced: ClassVar = {
        "log": lambda x: np.where(x > 0, np.log(x), x.dtype.type(0)) if x.dtype.kind == "f" else np.log(x)
    }


class DividesByZero(Faulty):
    """Gives 0 for a quotient by 0."""

    @staticmethod
    def _divide(x: Any, y: Any) -> Any:
        result = np.divide(x, y)
        return np.where(np.equal(y, 0), result.dtype.type(0), result)

    replaced: ClassVar = {"divide": _divide}


class Saturates(Faulty):
    """Stops at the largest number instead of overflowing."""

    replaced: ClassVar = {
        "exp": lambda x: np.minimum(np.exp(x), np.finfo(x.dtype).max) if x.dtype.char in "fd" else np.exp(x)
    }


class SaturatesIntegers(Faulty):
    """Stops at the ends of int32 instead of wrapping."""

    @staticmethod
    def _add(x: Any, y: Any) -> Any:
        result = np.add(x, y)
        if result.dtype != "int32":
            return result
        facts = np.iinfo("int32")
        return np.clip(np.add(x, y, dtype="int64"), facts.min, facts.max).astype("int32")

    replaced: ClassVar = {"add": _add}


class TruncatesToBool(Faulty):
    """Drops the fraction first."""

    @staticmethod
    def _astype(x: Any, *, dtype: Any) -> Any:
        whole = np.dtype(dtype) == "bool" and x.dtype.kind == "f"
        return _sound("astype")(np.trunc(x) if whole else x, dtype=dtype)

    replaced: ClassVar = {"astype": _astype}


def _sixteen_bits(name: str) -> Any:
    sound = _sound(name)

    def kernel(*operands: Any, **params: Any) -> Any:
        result = np.array(sound(*operands, **params))
        result.reshape(-1)[65_536:] = 0
        return result

    return kernel


def _sixteen_bits_of_input(name: str) -> Any:
    sound = _sound(name)

    def kernel(x: Any, **params: Any) -> Any:
        if x.size > 65_536:
            x = x.copy()
            x.reshape(-1)[65_536:] = 0
        return sound(x, **params)

    return kernel


class SixteenBits(Faulty):
    """Counts elements in 16 bits."""

    replaced: ClassVar = {
        **{name: _sixteen_bits(name) for name in ("add", "multiply", "exp", "sin", "where", "matmul")},
        **{name: _sixteen_bits_of_input(name) for name in ("sum", "max")},
    }


_UNTRIED = ("int16", "uint16", "uint32", "bfloat16", "complex64")


def _zeros(name: str) -> Any:
    sound = _sound(name)

    def kernel(*operands: Any, **params: Any) -> Any:
        result = sound(*operands, **params)
        return result * 0 if str(result.dtype) in _UNTRIED else result

    return kernel


class Untried(Faulty):
    """Gives zeros in the dtypes that are seldom tried."""

    replaced: ClassVar = {name: _zeros(name) for name in ("add", "multiply", "exp", "sin", "divide", "matmul")}


class TwelveAxes(Faulty):
    """Takes what has more axes for contiguous."""

    @staticmethod
    def _add(x: Any, y: Any) -> Any:
        if np.ndim(x) > 12 and not x.flags.c_contiguous:
            x = x.ravel(order="K").reshape(x.shape)
        return np.add(x, y)

    replaced: ClassVar = {"add": _add}


class SinglePrecisionGradient(Faulty):
    """Has no float64, and a kernel for a gradient that is half of what it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes = {name: native for name, native in self.dtypes.items() if name not in ("float64", "complex128")}

    replaced: ClassVar = {"relu_gradient": lambda g, out: np.where(out > 0, g, np.zeros_like(g)) * g.dtype.type(0.5)}


# ── what is forgotten between two calls ──────────────────────────────────────────────────────────────────────


class ForgetsTheCorrection(Faulty):
    """Divides by the count where it keeps the axes."""

    @staticmethod
    def _std(x: Any, *, axis: Any, correction: float, keepdims: bool) -> Any:
        return np.std(x, axis=axis, ddof=0 if keepdims else correction, keepdims=keepdims)

    replaced: ClassVar = {"std": _std}


class SortedAxes(Faulty):
    """Takes the first axis for the least."""

    @staticmethod
    def _sum(x: Any, *, axis: Any, keepdims: bool) -> Any:
        return _sound("sum")(x, axis=axis and tuple(range(axis[0], axis[-1] + 1)), keepdims=keepdims)

    replaced: ClassVar = {"sum": _sum}


class RandomRepeats(Faulty):
    """Begins again after a thousand random numbers."""

    @staticmethod
    def _uniform(**params: Any) -> Any:
        drawn = _sound("random_uniform")(**params)
        return np.resize(drawn.reshape(-1)[:1000], drawn.shape)

    replaced: ClassVar = {"random_uniform": _uniform}


class KeepsHostMemory(Faulty):
    """Uploads nothing, and looks at the host's memory."""

    from_host = staticmethod(lambda data, shape, dtype: np.frombuffer(data, dtype).reshape(shape))


class ReceivesAsItLies(Faulty):
    """Copies memory of other devices in the order in which it lies there."""

    def receive(self, x: Any, source: Any) -> Any:
        """All elements, somewhere."""
        return np.frombuffer(x.tobytes(order="A"), x.dtype).reshape(x.shape).copy()


class WritesForwards(Faulty):
    """Writes parts that are backwards from their start."""

    def assign(self, x: Any, values: Any, key: Any) -> bool:
        """As the sound backend where each step is positive."""
        entries = key if isinstance(key, tuple) else (key,)
        if np.ndim(values) and any(isinstance(entry, slice) and (entry.step or 1) < 0 for entry in entries):
            values = np.flip(values, -1)
        return super().assign(x, values, key)


class WritesOneByOne(Faulty):
    """Reads what it has just written, where values overlap."""

    def assign(self, x: Any, values: Any, key: Any) -> bool:
        """As the sound backend where they do not."""
        if not np.ndim(values) or not np.may_share_memory(x, values):
            return super().assign(x, values, key)
        places = np.arange(x.size).reshape(x.shape)[key]
        for place, at in zip(places.flat, np.ndindex(places.shape), strict=True):
            x.flat[place] = np.broadcast_to(values, places.shape)[at]
        return True


class WritesFloats(Faulty):
    """Writes float32 alone, and says that all went well."""

    def assign(self, x: Any, values: Any, key: Any) -> bool:
        """Nothing, of other dtypes."""
        return x.dtype != "float32" or super().assign(x, values, key)


class WritesNoRows(Faulty):
    """Writes the first of values that are for all."""

    def assign(self, x: Any, values: Any, key: Any) -> bool:
        """As the sound backend where there is a value for each element."""
        if np.ndim(values) and values.shape != x[key].shape:
            values = values.reshape(-1)[0]
        return super().assign(x, values, key)


class OwnThread(Faulty):
    """Reads only what the same thread made."""

    def __init__(self) -> None:
        super().__init__()
        self.makers: dict[int, tuple[int, Any]] = {}  # by identity, which lasts as long as what is kept

    def from_host(self, data: Any, shape: Any, dtype: Any) -> Any:  # type: ignore[override]
        """As the sound backend; it notes the thread."""
        made = super().from_host(data, shape, dtype)
        self.makers[id(made)] = threading.get_ident(), made
        return made

    def to_host(self, x: Any) -> Any:  # type: ignore[override]
        """As the sound backend, in that thread."""
        if id(x) in self.makers and self.makers[id(x)][0] != threading.get_ident():
            raise RuntimeError("there is no stream in this thread")
        return super().to_host(x)


class Compiling(Faulty):
    """Compiles as the sound backend does, but for what a subclass makes of programs and calls."""

    def compile(self, program: Program) -> Callable[..., Any]:
        """A function of the program's inputs."""
        sound = super().compile(self.rewritten(program))
        state: dict[str, Any] = {}
        return lambda *inputs: self.called(sound, inputs, program, state)

    def rewritten(self, program: Program) -> Program:
        """The program that is compiled."""
        return program

    def called(self, sound: Any, inputs: Any, program: Program, state: dict[str, Any]) -> Any:
        """A call of what was compiled."""
        return sound(*inputs)


class StaleProgram(Compiling):
    """Returns the results of the last call where the operands are the same objects."""

    def called(self, sound: Any, inputs: Any, program: Program, state: dict[str, Any]) -> Any:
        """The former results."""
        if state.get("inputs") is None or any(x is not y for x, y in zip(inputs, state["inputs"], strict=True)):
            state.update(inputs=inputs, results=sound(*inputs))
        return tuple(np.copy(x) for x in state["results"])


class MergesSteps(Compiling):
    """Takes constants for one that are equal before the point."""

    def rewritten(self, program: Program) -> Program:
        """The program without fractions."""
        whole = [
            step._replace(operands=tuple(float(int(x)) if isinstance(x, float) else x for x in step.operands))
            for step in program.steps
        ]
        return program._replace(steps=tuple(whole))


class NoCopies(Compiling):
    """Returns an operand where nothing was added to it."""

    def called(self, sound: Any, inputs: Any, program: Program, state: dict[str, Any]) -> Any:
        """The results, or operands."""
        same = {
            program.inputs + i: step.operands[0].number
            for i, step in enumerate(program.steps)
            if step.op in ("add", "multiply") and step.operands[1] == {"add": 0.0, "multiply": 1.0}[step.op]
        }
        results = sound(*inputs)
        return tuple(
            inputs[same[ref.number]] if same.get(ref.number, program.inputs) < program.inputs else x
            for ref, x in zip(program.outputs, results, strict=True)
        )


class FirstStrides(Compiling):
    """Reads all operands as the first ones lay in memory."""

    def called(self, sound: Any, inputs: Any, program: Program, state: dict[str, Any]) -> Any:
        """As the sound backend where they lie so."""
        first = state.setdefault("strides", [x.strides for x in inputs])
        read = [
            x if x.strides == strides else np.ravel(x, order="K").reshape(x.shape)
            for x, strides in zip(inputs, first, strict=True)
        ]
        return sound(*read)


FAULTS: dict[str, type[Faulty]] = {
    "newer-protocol": NewerProtocol,
    "missing-members": MissingMembers,
    "wrong-name": WrongName,
    "capability-as-text": CapabilityAsText,
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
    "loses-nan": LosesNaN,
    "reduces-without-nan": ReducesWithoutNaN,
    "reduces-down-without-nan": ReducesDownWithoutNaN,
    "log-of-zero": LogOfZero,
    "divides-by-zero": DividesByZero,
    "saturates": Saturates,
    "saturates-integers": SaturatesIntegers,
    "truncates-to-bool": TruncatesToBool,
    "sixteen-bits": SixteenBits,
    "untried": Untried,
    "twelve-axes": TwelveAxes,
    "single-precision-gradient": SinglePrecisionGradient,
    "forgets-the-correction": ForgetsTheCorrection,
    "sorted-axes": SortedAxes,
    "random-repeats": RandomRepeats,
    "keeps-host-memory": KeepsHostMemory,
    "receives-as-it-lies": ReceivesAsItLies,
    "writes-forwards": WritesForwards,
    "writes-one-by-one": WritesOneByOne,
    "writes-floats": WritesFloats,
    "writes-no-rows": WritesNoRows,
    "own-thread": OwnThread,
    "stale-program": StaleProgram,
    "merges-steps": MergesSteps,
    "no-copies": NoCopies,
    "first-strides": FirstStrides,
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
