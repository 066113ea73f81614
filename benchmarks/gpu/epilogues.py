"""What epilogues of cuBLASLt cost on a GPU, and what memory wins, for products of a step of GPT-2's size in bfloat16.

    python -m benchmarks.gpu.epilogues

Microseconds of each product, 8,192 rows of tokens long: plain with the memory that the library asks for, plain without
any, and with a bias's gradient (BGRADB), a bias and a gelu of which the operand is kept (GELU_AUX_BIAS), or a gelu's
gradient (DGELU) on the way. Each between two small kernels in a CUDA graph, as in a step; medians.
"""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from micrograd_cuda.biased import (
    BIAS,
    BIAS_POINTER,
    EPILOGUE,
    FLOAT32,
    IN_COMPUTE_TYPE,
    MOST_WORKSPACE,
    REDUCTIONS,
    TRANSA,
    TRANSB,
    WORKSPACE,
    BiasedProducts,
    Found,
)  # fmt: skip
from micrograd_cuda.gemm import COMPUTE_32F, TYPE

PLAIN, GELU_AUX_BIAS, DGELU, DGELU_BGRAD, BGRADB = 1, 164, 192, 208, 512  # cublasLtEpilogue_t
AUX_POINTER, AUX_LEADING = 11, 12  # cublasLtMatmulDescAttributes_t
TIMES: Final = 8
TOKENS: Final = 8192


class Product(NamedTuple):
    """(m, k) times (k, n), as cuBLAS stores matrices: column after column. Which of them it reads transposed."""

    name: str
    m: int
    n: int
    k: int
    first: bool
    second: bool
    epilogues: dict[str, int]


def products() -> list[Product]:
    """Of a block, 768 wide, and of the words' scores: forwards, by the input, by the weight."""
    found = []
    for name, outputs, inputs in (
        ("query, key, value", 2304, 768), ("attention's result", 768, 768), ("up", 3072, 768), ("down", 768, 3072),
        ("scores", 50304, 768),
    ):  # fmt: skip
        forward = {"bias": BIAS} | ({"bias and gelu": GELU_AUX_BIAS} if name == "up" else {})
        back = {"gelu's gradient": DGELU, "and the bias's": DGELU_BGRAD} if name == "down" else {}
        found.append(Product(name, outputs, TOKENS, inputs, True, False, forward))
        found.append(Product(f"{name}, by its input", inputs, TOKENS, outputs, False, False, back))
        found.append(
            Product(f"{name}, by its weight", inputs, outputs, TOKENS, False, True, {"bias's gradient": BGRADB})
        )
    return found


class Library(BiasedProducts):
    """cuBLASLt over CuPy's arrays."""

    def __init__(self, cupy: Any) -> None:
        super().__init__(cupy.cuda.cublas.getVersion(cupy.cuda.device.get_cublas_handle()), 0)
        self.cupy, self.workspace = cupy, cupy.empty(WORKSPACE, "uint8")

    def matrix(self, rows: int, columns: int) -> tuple[Any, ctypes.c_void_p]:
        """Random numbers, and how they lie."""
        drawn = self.cupy.random.standard_normal(rows * columns, dtype="float32")
        sizes = ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows)
        return drawn.view("uint16")[1::2].copy(), self._made("cublasLtMatrixLayoutCreate", TYPE["bfloat16"], *sizes)

    def prepared(self, product: Product, epilogue: int, workspace: int) -> Callable[[], None]:
        """By the first algorithm that the library names."""
        _, m, n, k, first, second, _ = product
        (a, a_at), (b, b_at) = (self.matrix(*(each[::-1] if turned else each))
                                for each, turned in (((m, k), first), ((k, n), second)))  # fmt: skip
        to, to_at = self.matrix(m, n)
        bias, more = self.matrix(max(m, n), 1)[0], self.matrix(m, n)[0]
        integer, pointer = ctypes.c_int32, ctypes.c_void_p
        facts: dict[int, Any] = {TRANSA: integer(first), TRANSB: integer(second), EPILOGUE: integer(epilogue)}
        if epilogue in (BIAS, GELU_AUX_BIAS, DGELU_BGRAD, BGRADB):
            facts |= {BIAS_POINTER: pointer(bias.data.ptr)}
        if epilogue in (GELU_AUX_BIAS, DGELU, DGELU_BGRAD):
            facts |= {AUX_POINTER: pointer(more.data.ptr), AUX_LEADING: ctypes.c_int64(m)}
        description = self._described("MatmulDesc", facts, COMPUTE_32F, FLOAT32)
        limits = {MOST_WORKSPACE: ctypes.c_uint64(workspace), REDUCTIONS: ctypes.c_uint32(IN_COMPUTE_TYPE)}
        wanted = self._described("MatmulPreference", limits)
        found, count = Found(), ctypes.c_int()
        self._call("cublasLtMatmulAlgoGetHeuristic", self._handle, description, a_at, b_at, to_at, to_at, wanted, 1,
                  ctypes.byref(found), ctypes.byref(count))  # fmt: skip

        def run() -> None:
            result, stream = (to.data.ptr, to_at), self.cupy.cuda.get_current_stream().ptr
            factors = (self._one, a.data.ptr, a_at, b.data.ptr, b_at, self._zero)
            chosen = ctypes.byref(found.algorithm), self.workspace.data.ptr, found.workspace
            self._call("cublasLtMatmul", self._handle, description, *factors, *result, *result, *chosen, stream)
            _ = bias, more  # which are kept alive

        return run


def microseconds(cupy: Any, run: Callable[[], None]) -> float:
    """Of one of several runs in a graph, each between two small kernels; their own time included."""
    small, stream = cupy.zeros(1 << 16, "float32"), cupy.cuda.Stream(non_blocking=True)
    run()
    small += 1
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        for _ in range(TIMES):
            cupy.add(small, 1, out=small)
            run()
        graph = stream.end_capture()
        found = []
        for _ in range(7):
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record(stream)
            graph.launch(stream)
            end.record(stream)
            end.synchronize()
            found.append(cupy.cuda.get_elapsed_time(start, end) * 1e3 / TIMES)
    return statistics.median(found)


def main() -> None:
    """A line for each product."""
    import cupy

    library = Library(cupy)
    print(
        f"{cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}, cuBLASLt {library._library.cublasLtGetVersion()}"
    )
    print(f"between products alone: {microseconds(cupy, lambda: None):.1f}")
    for product in products():
        ways = {"plain": (PLAIN, WORKSPACE), "without memory": (PLAIN, 0)}
        ways |= {name: (epilogue, WORKSPACE) for name, epilogue in product.epilogues.items()}
        cells = [f"{name} {microseconds(cupy, library.prepared(product, *way)):.1f}" for name, way in ways.items()]
        print(f"{product.name} ({product.m}, {product.k}) ({product.k}, {product.n}): {'; '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
