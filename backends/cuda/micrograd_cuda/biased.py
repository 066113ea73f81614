"""Products by cuBLASLt, which CuPy does not wrap: a bias is added as they are written, and short ones count nothing.

What cuBLASLt has no algorithm for, and a machine without the library, take cuBLAS and a launch that adds the bias.
"""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar, Final, NamedTuple

from micrograd_cuda.gemm import TYPE, Operand, Product
from micrograd_cuda.library import Library, one_and_zero

TYPES: Final = ("float16", "bfloat16", "float32")
"""Of which cuBLASLt adds a bias; of float64 and complex numbers it does not."""
WORKSPACE: Final = 32 << 20
"""Bytes that an algorithm may ask for, taken from the pool for the call: two streams never share them."""
FLOAT32: Final = 0  # cudaDataType_t of the factors of product and bias
ADDRESS: Final = ctypes.sizeof(ctypes.c_void_p)
BIAS: Final = 4  # CUBLASLT_EPILOGUE_BIAS: to each row of the product as cuBLAS stores it, which is a column of ours
TRANSA, TRANSB, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8  # cublasLtMatmulDescAttributes_t
MOST_WORKSPACE, REDUCTIONS = 1, 3  # cublasLtMatmulPreferenceAttributes_t, as are those of alignments
ALIGNMENTS: Final = (5, 6, 7, 8)  # of A, B, C and D
IN_COMPUTE_TYPE: Final = 2  # CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: parts of a sum are not rounded to halves


def short(call: Product, kind: int) -> bool:
    """Whether a product of halves has results enough for a GPU, and is done before its parts need be given out by need.

    Which blocks of some kernels do by a counter: a launch of its own sets that to 0, and on an H200 costs 3 to 6 µs,
    more than is won in products of less than about 50 µs. Without memory there is no counter, nor are sums in parts.
    """
    results = call.m * call.n
    return kind != TYPE["float32"] and results >= 2**20 and results * call.k <= 2**35


class Found(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_: ClassVar = [
        ("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
        ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4),
    ]  # fmt: skip


class Plan(NamedTuple):
    """One product, as cuBLASLt is told of it: its description, its matrices, and the algorithm."""

    description: ctypes.c_void_p
    matrices: tuple[ctypes.c_void_p, ...]  # A, B, and the result
    algorithm: Any  # as an argument, which keeps alive what it is in
    workspace: int


class BiasedProducts(Library):
    """cuBLASLt on one device, beside cuBLAS of that version, which has loaded it."""

    def __init__(self, version: int, device: int) -> None:
        library = ctypes.CDLL(f"libcublasLt.so.{version // 10000}")
        super().__init__(library, "cublasLtCreate")
        self._one, self._zero, _ = one_and_zero("float32")
        # With the types told, numbers are handed on as they are.
        self._multiply, self._describe = library.cublasLtMatmul, library.cublasLtMatmulDescSetAttribute
        self._multiply.argtypes = [*[ctypes.c_void_p] * 14, ctypes.c_size_t, ctypes.c_void_p]
        self._describe.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
        self._bias = ctypes.c_void_p()
        self._bias_at = ctypes.byref(self._bias)

    def _described(self, kind: str, attributes: dict[int, Any], *facts: Any) -> ctypes.c_void_p:
        """A description of some kind, with these attributes."""
        made = self._made(f"cublasLt{kind}Create", *facts)
        for attribute, value in attributes.items():
            size = ctypes.c_size_t(ctypes.sizeof(value))
            self._call(f"cublasLt{kind}SetAttribute", made, attribute, ctypes.byref(value), size)
        return made

    def plan_at(self, call: Product, dtype: str, compute: int, addresses: tuple[int, int, int, int]) -> Any:
        """For matrices, bias and result that lie as these do; ``None`` where there is no algorithm.

        `addresses` are those of A, B, the result and the bias; 0 for none.
        """
        alignments, bias = tuple([at & -at & 255 or 256 for at in addresses]), addresses[3]
        return self.plan(call, TYPE[dtype], compute, alignments, bias > 0, more=(bias,))

    def _planned(self, call: Product, kind: int, compute: int, alignments: tuple[int, ...], biased: bool,
                 bias: int) -> Plan | None:  # fmt: skip
        integer, size = ctypes.c_int32, ctypes.c_uint64
        facts: dict[int, Any] = {TRANSA: integer(call.first.transposed), TRANSB: integer(call.second.transposed)}
        if biased:
            facts |= {EPILOGUE: integer(BIAS), BIAS_POINTER: ctypes.c_void_p(bias)}  # its alignment is looked at
        description = self._described("MatmulDesc", facts, compute, FLOAT32)

        def matrix(rows: int, columns: int, operand: Operand) -> ctypes.c_void_p:
            stored = (columns, rows) if operand.transposed else (rows, columns)
            return self._made("cublasLtMatrixLayoutCreate", kind, *map(size, stored), ctypes.c_int64(operand.leading))

        m, n, k = call.m, call.n, call.k
        a, b, to = matrix(m, k, call.first), matrix(k, n, call.second), matrix(m, n, Operand(False, m, 0))
        most, whole = size(0 if short(call, kind) else WORKSPACE), ctypes.c_uint32(IN_COMPUTE_TYPE)
        of_each = zip(ALIGNMENTS, map(ctypes.c_uint32, (*alignments[:3], alignments[2])), strict=True)
        wanted = self._described("MatmulPreference", {MOST_WORKSPACE: most, REDUCTIONS: whole, **dict(of_each)})
        found, count = Found(), ctypes.c_int()
        try:
            self._call(
                "cublasLtMatmulAlgoGetHeuristic", self._handle, description, a, b, to, to, wanted, 1,
                ctypes.byref(found), ctypes.byref(count),
            )  # fmt: skip
        finally:
            self._call("cublasLtMatmulPreferenceDestroy", wanted)
        if not count.value or found.state:
            return None
        return Plan(description, (a, b, to), ctypes.byref(found.algorithm), found.workspace)

    def run(self, plan: Plan, addresses: tuple[int, ...], workspace: int, stream: int) -> bool:
        """The product and its bias, on a stream; False where that was refused."""
        (a, b, to, bias), (first, second, result) = addresses, plan.matrices
        with self._lock:  # the description is the plan's, and calls leave the interpreter's
            self._bias.value = bias
            if bias and self._describe(plan.description, BIAS_POINTER, self._bias_at, ADDRESS):
                return False
            return not self._multiply(
                self._handle, plan.description, self._one, a, first, b, second, self._zero, to, result, to, result,
                plan.algorithm, workspace, plan.workspace, stream,
            )  # fmt: skip
