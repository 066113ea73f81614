"""What CuPy is asked for, with somebody else in its place; and CuPy's own pointer class, where CuPy is."""

from __future__ import annotations

import array
import ctypes
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from micrograd_cuda import gemm, units
from micrograd_cuda.geometry import Place
from micrograd_cuda.runtime import OPTIONS, CuPyRuntime, pointer_class
from micrograd_cuda.units import Unit

# The parameters of cupy_backends.cuda.libs.cublas, which are cuBLAS's.
GEMM = "handle transa transb m n k alpha A Atype lda B Btype ldb beta C Ctype ldc computeType algo"
BATCHED = (
    "handle transa transb m n k alpha A Atype lda strideA B Btype ldb strideB beta C Ctype ldc strideC "
    "batchCount computeType algo"
)


class CPointer:
    def __init__(self, address: int = 0) -> None:
        self.ptr = address


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """A runtime on a CuPy that writes down what it is asked for."""
    found = SimpleNamespace(compiled=[], loaded=[], launches=[], products=[], modes=[], attributes=[], folder=tmp_path)

    class Module:
        def load(self, binary: bytes) -> None:
            found.loaded.append(binary)

        def get_function(self, name: str) -> Any:
            function = partial(lambda *given: found.launches.append(given), name)
            function.ptr = 5  # type: ignore[attr-defined]
            return function

    def compile_using_nvrtc(code: str, options: tuple[str, ...], capability: str) -> tuple[bytes, None]:
        found.compiled.append((code, options, capability))
        return b"machine code", None

    def writes_down(parameters: str) -> Any:
        return lambda *given: found.products.append(dict(zip(parameters.split(), given, strict=True)))

    cublas = SimpleNamespace(
        gemmEx=writes_down(GEMM),
        gemmStridedBatchedEx=writes_down(BATCHED),
        setMathMode=lambda handle, mode: found.modes.append((handle, mode)),
    )
    monkeypatch.setitem(sys.modules, "cupy_backends", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs", SimpleNamespace(cublas=cublas))
    monkeypatch.setenv("MICROGRAD_CACHE", str(tmp_path))
    found.cupy = SimpleNamespace(
        __version__="14.2.0",
        ndarray=np.ndarray,
        cuda=SimpleNamespace(
            function=SimpleNamespace(CPointer=CPointer, Module=Module),
            device=SimpleNamespace(get_cublas_handle=lambda: 7),
            compiler=SimpleNamespace(compile_using_nvrtc=compile_using_nvrtc),
            nvrtc=SimpleNamespace(getVersion=lambda: (13, 2)),
            driver=SimpleNamespace(
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
                funcSetAttribute=lambda *given: found.attributes.append(given),
            ),
            Device=lambda: SimpleNamespace(compute_capability="90"),
        ),
    )
    found.runtime = CuPyRuntime(found.cupy)
    return found


def handle(address: int) -> Any:
    return SimpleNamespace(data=SimpleNamespace(ptr=address), dtype=SimpleNamespace(itemsize=4))


def test_a_unit_is_compiled_once_and_launched_with_its_block(asked: SimpleNamespace) -> None:
    unit = Unit("marked", ())
    for _ in range(2):
        asked.runtime.bind(unit)((3, 1), (1, 2))
    assert asked.compiled == [(units.text(unit), OPTIONS, "90")]
    assert asked.launches == [("micrograd_marked", (3, 1), (256,), (1, 2))] * 2


def test_shared_memory_is_asked_for_before_a_launch_that_has_it(asked: SimpleNamespace) -> None:
    for shared in (0, 100_000):
        asked.runtime.bind(Unit("marked", (), 128, shared))((1, 1), ())
    assert asked.attributes == [(5, 8, 100_000)]
    assert [launch[3:] for launch in asked.launches] == [((),), ((), 100_000)]


def test_what_is_compiled_stays_on_disk_and_what_is_cut_off_there_is_not_taken(asked: SimpleNamespace) -> None:
    unit = Unit("marked", ())
    for _ in range(2):
        CuPyRuntime(asked.cupy).bind(unit)
    assert len(asked.compiled) == 1
    assert asked.loaded == [b"machine code"] * 2
    (kept,) = asked.folder.iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    CuPyRuntime(asked.cupy).bind(unit)
    assert len(asked.compiled) == 2
    asked.cupy.cuda.nvrtc.getVersion = lambda: (13, 3)
    CuPyRuntime(asked.cupy).bind(unit)
    assert len(asked.compiled) == 3


def test_a_folder_that_nobody_can_write_to_is_no_obstacle(
    asked: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MICROGRAD_CACHE", str(asked.folder / "file" / "below"))
    (asked.folder / "file").write_text("")
    CuPyRuntime(asked.cupy).bind(Unit("marked", ()))
    assert asked.loaded == [b"machine code"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_no_mode_that_others_set_decides_how_sums_are_rounded(dtype: str, asked: SimpleNamespace) -> None:
    call = gemm.product(Place((5, 7), (7, 1), 16), Place((7, 3), (3, 1), 16))
    assert isinstance(call, gemm.Product)
    asked.runtime.gemm(call, dtype, gemm.COMPUTE_32F)(handle(100), handle(200), handle(300))
    assert asked.modes == [(7, 16)]  # no TF32, and parts of sums of halves are not rounded to halves


def test_a_kernel_is_named_by_its_family_and_what_it_is_an_instance_of() -> None:
    units_ = [Unit("unary", (functor, "float", "float", "int", "1", "4", "4")) for functor in ("Exp", "Log")]
    assert [units.name_of_kernel(unit) for unit in units_] == [
        "micrograd_unary_Exp_float_float_int_1_4_4", "micrograd_unary_Log_float_float_int_1_4_4",
    ]  # fmt: skip


def test_a_product_is_asked_for_as_cublas_counts(asked: SimpleNamespace) -> None:
    call = gemm.product(Place((5, 7), (7, 1), 16), Place((7, 3), (1, 7), 16))
    assert isinstance(call, gemm.Product)
    asked.runtime.gemm(call, "bfloat16", gemm.COMPUTE_32F)(handle(100), handle(200), handle(300))
    (found,) = asked.products
    one, zero = (ctypes.c_float.from_address(found[name]).value for name in ("alpha", "beta"))
    assert (one, zero) == (1.0, 0.0)
    expected = {"handle": 7, "transa": 1, "transb": 0, "m": 3, "n": 5, "k": 7, "A": 200, "lda": 7, "B": 100, "ldb": 7}
    expected |= {"C": 300, "ldc": 3, "Atype": 14, "Btype": 14, "Ctype": 14, "computeType": 68, "algo": -1}
    assert expected.items() <= found.items()


def test_a_batch_of_products_has_strides(asked: SimpleNamespace) -> None:
    call = gemm.product(Place((4, 5, 7), (40, 7, 1), 16), Place((7, 3), (3, 1), 16))
    assert isinstance(call, gemm.Product)
    asked.runtime.gemm(call, "float64", gemm.COMPUTE_64F)(handle(100), handle(200), handle(300))
    (found,) = asked.products
    assert ctypes.c_double.from_address(found["alpha"]).value == 1.0
    expected = {"A": 200, "strideA": 0, "B": 100, "strideB": 40, "C": 300, "strideC": 15, "batchCount": 4, "ldc": 3}
    assert expected.items() <= found.items()


def test_a_batch_of_two_strides_is_several_calls(asked: SimpleNamespace) -> None:
    """Heads of 8 features, next to each other at each of 1000 positions."""
    call = gemm.product(Place((2, 99, 1000, 8), (99 * 8000, 8, 792, 1), 16), Place((8, 3), (3, 1), 16))
    assert isinstance(call, gemm.Product)
    asked.runtime.gemm(call, "float32", gemm.COMPUTE_TF32)(handle(100), handle(200), handle(300))
    where = [(each["A"], each["B"], each["C"], each["strideB"], each["strideC"]) for each in asked.products]
    assert where == [(200, 100 + 4 * 99 * 8000 * i, 300 + 4 * 99 * 3000 * i, 8, 3000) for i in range(2)]


def test_a_struct_travels_as_the_address_of_its_bytes(asked: SimpleNamespace) -> None:
    for index, size in (("int", 4), ("Long", 8)):
        pointer = asked.runtime.struct([1, -2, 3], index)
        assert ctypes.string_at(pointer.ptr, 3 * size) == np.array([1, -2, 3], f"i{size}").tobytes()


def test_cupy_takes_a_class_of_ours_for_a_pointer() -> None:
    cupy = pytest.importorskip("cupy")
    pointer = pointer_class(cupy)(array.array("q", [5]))
    assert isinstance(pointer, cupy.cuda.function.CPointer)
