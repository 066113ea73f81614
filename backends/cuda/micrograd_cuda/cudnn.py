"""Convolutions without a matrix of patches, by cuDNN, which CuPy does not wrap any more.

Only algorithms that multiply and add what the definition does, in an order that is the same each time. What cuDNN has
none for, and a machine without the library, take patches and a product.
"""

from __future__ import annotations

import ctypes
import math
import os
from typing import Any, ClassVar, Final, NamedTuple

from micrograd_core.layout import Shape, contiguous_strides
from micrograd_cuda.library import Library, one_and_zero

SWITCH: Final = "MICROGRAD_CUDA_CUDNN"
"""The environment variable that, at 0, leaves all convolutions to patches. Read at a device's first convolution."""
WORKSPACE: Final = 256 << 20
"""Bytes that an algorithm may ask for, taken from the pool for the call: two streams never share them."""
MOST: Final = 2**31 - 1  # cuDNN counts lengths and strides in ints, and elements no further

TYPE: Final = {"float16": 2, "bfloat16": 9, "float32": 0, "float64": 1}  # cudnnDataType_t
PLAIN, TENSOR_CORES, CONVERTING, NO_TENSOR_CORES = 0, 1, 2, 3
"""cudnnMathType_t: what is default takes float32 as TF32 where the GPU has it; ``CONVERTING`` takes it as float16."""
DETERMINISTIC: Final = 1  # cudnnDeterminism_t
CROSS_CORRELATION: Final = 1  # cudnnConvolutionMode_t
NCHW: Final = 0  # cudnnTensorFormat_t

MADE: Final = ("BackwardData", "BackwardFilter", "Forward")
"""What is computed of the two others: the image, the weight, or the result."""
ALGORITHMS: Final = {"Forward": (0, 1, 2, 3), "BackwardData": (1,), "BackwardFilter": (1,)}
"""Those that are products, by what is computed. Others transform images first, by Fourier or Winograd, where one
infinity or NaN spoils its whole neighbourhood, or add in the order in which threads arrive."""


def math_type(dtype: str, precision: str) -> int:
    """How factors may be rounded: of float32 as `set_matmul_precision` says, "medium" as "high"."""
    if dtype == "float32":
        return NO_TENSOR_CORES if precision == "highest" else PLAIN
    return PLAIN if dtype == "float64" else TENSOR_CORES


class Found(ctypes.Structure):
    """cudnnConvolutionFwdAlgoPerf_t, and those of both gradients, which are alike."""

    _fields_: ClassVar = [
        ("algorithm", ctypes.c_int), ("status", ctypes.c_int), ("time", ctypes.c_float), ("memory", ctypes.c_size_t),
        ("determinism", ctypes.c_int), ("math", ctypes.c_int), ("reserved", ctypes.c_int * 3),
    ]  # fmt: skip


class Convolved(NamedTuple):
    """An image, a weight and a result, of which one is computed from the two others. All lie in C order."""

    made: str  # one of `MADE`
    image: Shape
    weight: Shape
    result: Shape
    stride: Shape
    padding: Shape
    dilation: Shape
    groups: int
    dtype: str
    math: int

    @property
    def shape(self) -> Shape:
        """Of what is computed."""
        return (self.image, self.weight, self.result)[MADE.index(self.made)]

    def as_images(self) -> Convolved:
        """With two spatial axes at least: a line is an image of height 1."""
        if len(self.stride) > 1:
            return self
        image, weight, result = ((*shape[:2], 1, *shape[2:]) for shape in (self.image, self.weight, self.result))
        stride, padding, dilation = (1, *self.stride), (0, *self.padding), (1, *self.dilation)
        return Convolved(self.made, image, weight, result, stride, padding, dilation, *self[-3:])


class Plan(NamedTuple):
    """One convolution, as cuDNN is told of it."""

    made: str
    told: tuple[ctypes.c_void_p, ...]  # descriptors of both operands, the windows and the result
    algorithm: int
    workspace: int
    wide: str  # the dtype in which sums are


class CuDNN(Library):
    """cuDNN on one device, which is the current one."""

    def __init__(self, device: int) -> None:
        self.runs = 0
        """How many convolutions it has taken."""
        super().__init__(loaded(), "cudnnCreate")

    def _tensor(self, shape: Shape, dtype: str) -> ctypes.c_void_p:
        made = self._made("cudnnCreateTensorDescriptor")
        strides = ints(contiguous_strides(shape))
        self._call("cudnnSetTensorNdDescriptor", made, TYPE[dtype], len(shape), ints(shape), strides)
        return made

    def _planned(self, call: Convolved) -> Plan | None:
        call = call.as_images()
        around = (n + 2 * p for n, p in zip(call.image[2:], call.padding, strict=True))
        if max(*map(math.prod, (call.image, call.weight, call.result)), *call.stride, *call.dilation, *around) > MOST:
            return None
        weight, windows = self._made("cudnnCreateFilterDescriptor"), self._made("cudnnCreateConvolutionDescriptor")
        kind, lengths = TYPE[call.dtype], ints(call.weight)
        self._call("cudnnSetFilterNdDescriptor", weight, kind, NCHW, len(lengths), lengths)
        wide = "float64" if call.dtype == "float64" else "float32"  # in which sums are, whatever the dtype
        self._call(
            "cudnnSetConvolutionNdDescriptor", windows, len(call.stride), ints(call.padding), ints(call.stride),
            ints(call.dilation), CROSS_CORRELATION, TYPE[wide],
        )  # fmt: skip
        self._call("cudnnSetConvolutionGroupCount", windows, call.groups)
        given = [self._tensor(call.image, call.dtype), weight, self._tensor(call.result, call.dtype)]
        made = given.pop(MADE.index(call.made))
        told = (*given, windows, made)
        for found in self._found(call, windows, told):
            size = ctypes.c_size_t()
            name = f"cudnnGetConvolution{call.made}WorkspaceSize"
            refused = getattr(self._library, name)(self._handle, *told, found, ctypes.byref(size))
            if not refused and size.value <= WORKSPACE:
                return Plan(call.made, told, found, size.value, wide)
        return None

    def _found(self, call: Convolved, windows: ctypes.c_void_p, told: tuple[ctypes.c_void_p, ...]) -> Any:
        """Algorithms, the one that should be fastest first; meanwhile `windows` has the kind of factors for each."""
        count, most = ctypes.c_int(), ctypes.c_int()
        self._call("cudnnSetConvolutionMathType", windows, call.math)
        get = f"cudnnGetConvolution{call.made}Algorithm"
        self._call(f"{get}MaxCount", self._handle, ctypes.byref(most))
        results = (Found * most.value)()
        self._call(f"{get}_v7", self._handle, *told, most, ctypes.byref(count), results)
        for each in results[: count.value]:
            wanted = each.algorithm in ALGORITHMS[call.made] and each.determinism == DETERMINISTIC
            if wanted and not each.status and each.math != CONVERTING:
                # The algorithm that is found for one kind of factors is run with it, but never with a coarser one.
                kind = call.math if call.math == NO_TENSOR_CORES else each.math
                self._call("cudnnSetConvolutionMathType", windows, kind)
                yield each.algorithm

    def run(self, plan: Plan, addresses: tuple[int, ...], workspace: int, stream: int) -> bool:
        """The convolution, on a stream; False where that was refused. `addresses` are multiples of 16."""
        (x, y, windows, to), (one, zero, _) = plan.told, one_and_zero(plan.wide)
        first, second, result, place = map(ctypes.c_void_p, (*addresses, workspace))
        convolve = getattr(self._library, f"cudnnConvolution{plan.made}")
        with self._lock:  # the handle has one stream at a time, and calls leave the interpreter's lock
            refused = self._library.cudnnSetStream(self._handle, ctypes.c_void_p(stream)) or convolve(
                self._handle, one, x, first, y, second, windows,
                plan.algorithm, place, ctypes.c_size_t(plan.workspace), zero, to, result,
            )  # fmt: skip
            self.runs += not refused
        return not refused


def ints(numbers: Any) -> Any:
    """As an array of C."""
    return (ctypes.c_int * len(numbers))(*numbers)


def loaded() -> Any:
    """The library, version 9, if it is wanted: from NVIDIA's wheel or wherever else libraries are."""
    if os.environ.get(SWITCH) == "0":
        raise OSError(f"{SWITCH} is 0")
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib  # which comes with CuPy
    except ImportError:
        return ctypes.CDLL("libcudnn.so.9")
    return ctypes.CDLL(load_nvidia_dynamic_lib("cudnn").abs_path)
