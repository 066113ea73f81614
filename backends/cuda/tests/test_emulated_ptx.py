"""PTX on the host, instruction by instruction, against NumPy and Python's integers."""

from __future__ import annotations

import ctypes
import mmap
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulated import translate
from emulated.ptx import Untranslatable

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc to compile translated PTX with")
MAP_32BIT = 0x40
REGISTERS = {"int8": "r", "uint16": "h", "int32": "r", "uint32": "r", "float16": "h", "float32": "f"}
LOADED = {"int8": "s8", "uint16": "u16", "int32": "s32", "uint32": "u32", "int64": "s64", "uint64": "u64"}
LOADED |= {"float16": "b16", "float32": "f32", "float64": "f64"}
HEAD = """.version 8.0
.target sm_90
.address_size 64
"""
DECLARED = """
.reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<32>; .reg .b64 %d<32>; .reg .f32 %f<16>; .reg .f64 %g<16>;
mov.u32 %r31, %tid.x;
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("translated")


@pytest.fixture(scope="module")
def shared() -> Any:
    """Memory below 4 GiB."""
    return mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_32BIT)


@pytest.fixture
def launch(folder: Path, shared: Any) -> Callable[..., str | None]:
    """Run the kernel ``test`` on arrays by their addresses: what it says went wrong, or None."""

    def run(text: str, *arrays: Any, block: int = 1, grid: int = 1, dynamic: int = 0) -> str | None:
        library = ctypes.CDLL(str(translate.build(HEAD + text, folder)))
        library.kernel_test.restype = ctypes.c_char_p
        values = [ctypes.c_uint64(array.ctypes.data) for array in arrays]
        parameters = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        memory = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(shared)))
        sizes = (ctypes.c_uint * 6)(grid, 1, 1, block, 1, 1)
        failure = library.kernel_test(sizes, ctypes.c_size_t(dynamic), memory, parameters)
        return failure.decode() if failure else None

    return run


def kernel(body: str, parameters: int, before: str = "") -> str:
    """An entry whose parameters are in %d0, %d1, …"""
    listed = ", ".join(f".param .u64 p{i}" for i in range(parameters))
    loads = "".join(f"ld.param.u64 %d{i}, [p{i}];\n" for i in range(parameters))
    return f"{before}.visible .entry test({listed})\n{{{DECLARED}{loads}{body}\nret;\n}}\n"


def register(dtype: Any, number: int) -> str:
    letter = REGISTERS.get(str(dtype)) or ("g" if np.dtype(dtype).kind == "f" else "d")
    return f"%{letter}{number + (10 if letter == 'd' else 0)}"


def evaluate(launch: Callable[..., str | None], instruction: str, result: str, *operands: Any) -> Any:
    """One instruction on each element, in a thread of its own."""
    lines = []
    for i, x in enumerate(operands):
        lines.append(f"mad.wide.u32 %d9, %r31, {x.itemsize}, %d{i};")
        lines.append(f"ld.global.{LOADED[str(x.dtype)]} {register(x.dtype, i + 1)}, [%d9];")
    out = np.zeros(len(operands[0]), result)
    to = register(result, 0)
    lines.append(f"{instruction} {', '.join((to, *(register(x.dtype, i + 1) for i, x in enumerate(operands))))};")
    lines.append(f"mad.wide.u32 %d9, %r31, {out.itemsize}, %d{len(operands)};")
    lines.append(f"st.global.{LOADED[result].replace('s', 'u')} [%d9], {to};")
    body = kernel("\n".join(lines), len(operands) + 1)
    for start in range(0, len(out), 1024):  # no block has more threads
        part = slice(start, start + 1024)
        assert launch(body, *(x[part] for x in operands), out[part], block=len(out[part])) is None
    return out


RNG = np.random.default_rng(0)
INTEGERS = {
    dtype: np.array([*RNG.integers(info.min, info.max, 56, dtype), info.min, info.max, 0, 1, 2, 31, 7, 100], dtype)
    for dtype in ("int32", "uint32", "int64", "uint64")
    for info in [np.iinfo(dtype)]
}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1.0, -1.0]
NUMBERS = {dtype: np.array([*RNG.normal(size=56), *SPECIAL], dtype) for dtype in ("float32", "float64")}


def exactly(function: Callable[..., int], result: str, *operands: Any) -> Any:
    """Of Python's integers, and then as many bits as there are."""
    mask = (1 << 8 * np.dtype(result).itemsize) - 1
    unsigned = f"uint{8 * np.dtype(result).itemsize}"
    values = [function(*(int(each) for each in row)) & mask for row in zip(*operands, strict=True)]
    return np.array(values, unsigned).view(result)


def quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


WHOLE: list[tuple[str, str, str, int, Callable[..., int]]] = [
    ("add.s32", "int32", "int32", 2, lambda x, y: x + y),
    ("sub.s64", "int64", "int64", 2, lambda x, y: x - y),
    ("mul.lo.s32", "int32", "int32", 2, lambda x, y: x * y),
    ("mul.hi.u64", "uint64", "uint64", 2, lambda x, y: x * y >> 64),
    ("mul.hi.s32", "int32", "int32", 2, lambda x, y: x * y >> 32),
    ("mul.wide.s32", "int32", "int64", 2, lambda x, y: x * y),
    ("mul.wide.u32", "uint32", "uint64", 2, lambda x, y: x * y),
    ("mad.lo.s32", "int32", "int32", 3, lambda x, y, z: x * y + z),
    ("mad.hi.u32", "uint32", "uint32", 3, lambda x, y, z: (x * y >> 32) + z),
    ("neg.s32", "int32", "int32", 1, lambda x: -x),
    ("abs.s64", "int64", "int64", 1, abs),
    ("min.s32", "int32", "int32", 2, min),
    ("max.u64", "uint64", "uint64", 2, max),
    ("and.b32", "uint32", "uint32", 2, lambda x, y: x & y),
    ("or.b64", "uint64", "uint64", 2, lambda x, y: x | y),
    ("xor.b32", "uint32", "uint32", 2, lambda x, y: x ^ y),
    ("not.b32", "uint32", "uint32", 1, lambda x: ~x),
    ("popc.b32", "uint32", "uint32", 1, lambda x: x.bit_count()),
    ("clz.b64", "uint64", "uint32", 1, lambda x: 64 - x.bit_length()),
    ("brev.b32", "uint32", "uint32", 1, lambda x: int(f"{x:032b}"[::-1], 2)),
    ("cvt.s64.s32", "int32", "int64", 1, lambda x: x),
    ("cvt.u32.u64", "uint64", "uint32", 1, lambda x: x),
    ("cvt.s32.s8", "int32", "int32", 1, lambda x: (x & 0xFF) - (x & 0x80) * 2),
]


@pytest.mark.parametrize(
    ("instruction", "operand", "result", "count", "reference"), WHOLE, ids=[row[0] for row in WHOLE]
)
def test_integers(
    instruction: str, operand: str, result: str, count: int, reference: Callable[..., int], launch: Any
) -> None:
    operands = [np.roll(INTEGERS[operand], 5 * i) for i in range(count)]
    found = evaluate(launch, instruction, result, *operands)
    np.testing.assert_array_equal(found, exactly(reference, result, *operands))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_rounds_to_zero(dtype: str, launch: Any) -> None:
    x, y, kind = INTEGERS[dtype], np.roll(INTEGERS[dtype], 3), LOADED[dtype]
    y = np.where(y == 0, np.ones_like(y), y)
    np.testing.assert_array_equal(evaluate(launch, f"div.{kind}", dtype, x, y), exactly(quotient, dtype, x, y))
    remainders = exactly(lambda a, b: a - quotient(a, b) * b, dtype, x, y)
    np.testing.assert_array_equal(evaluate(launch, f"rem.{kind}", dtype, x, y), remainders)


def test_shifts_beyond_the_width(launch: Any) -> None:
    x, by = INTEGERS["int32"], np.arange(64, dtype="uint32")
    np.testing.assert_array_equal(
        evaluate(launch, "shl.b32", "int32", x, by), exactly(lambda a, n: a << n, "int32", x, by)
    )
    np.testing.assert_array_equal(
        evaluate(launch, "shr.s32", "int32", x, by), exactly(lambda a, n: a >> n, "int32", x, by)
    )
    u = x.view("uint32")
    np.testing.assert_array_equal(
        evaluate(launch, "shr.u32", "uint32", u, by), exactly(lambda a, n: a >> n, "uint32", u, by)
    )
    whole = exactly(lambda a, b, n: (b << 32 | a) >> (n & 31), "uint32", u, u[::-1], by)
    np.testing.assert_array_equal(evaluate(launch, "shf.r.wrap.b32", "uint32", u, u[::-1].copy(), by), whole)


def test_bit_fields(launch: Any) -> None:
    x, y = INTEGERS["uint32"], np.roll(INTEGERS["uint32"], 1)
    start, length = (
        np.array(each, "uint32") for each in zip(*((i % 32, i % (33 - i % 32)) for i in range(64)), strict=True)
    )
    taken = exactly(lambda a, p, n: a >> p & (1 << n) - 1, "uint32", x, start, length)
    np.testing.assert_array_equal(evaluate(launch, "bfe.u32", "uint32", x, start, length), taken)
    mask = exactly(lambda p, n: ((1 << n) - 1) << p, "uint32", start, length)
    inserted = (y & ~mask) | (exactly(lambda a, p: a << p, "uint32", x, start) & mask)
    np.testing.assert_array_equal(evaluate(launch, "bfi.b32", "uint32", x, y, start, length), inserted)
    signed = exactly(lambda a, p: (a >> p & 0xF) - 2 * (a >> p & 8), "int32", x, start % 28)
    four = np.full(64, 4, "uint32")
    np.testing.assert_array_equal(evaluate(launch, "bfe.s32", "int32", x.view("int32"), start % 28, four), signed)
    swapped = evaluate(launch, "prmt.b32", "uint32", x, y, np.full(64, 0x0123, "uint32"))
    np.testing.assert_array_equal(swapped, x.byteswap())


def test_carries_run_through_128_bits(launch: Any) -> None:
    words = np.array([[0xFFFFFFFF, 0xFFFFFFFF, 0, 5], [1, 0, 1, 7]], "uint32")
    out = np.zeros(8, "uint32")
    load = "".join(f"ld.global.u32 %r{i}, [%d0+{4 * i}];" for i in range(8))
    add = "".join(f"{op} %r{10 + i}, %r{i}, %r{4 + i};" for i, op in enumerate(chain("add")))
    subtract = "".join(f"{op} %r{14 + i}, %r{i}, %r{4 + i};" for i, op in enumerate(chain("sub")))
    store = "".join(f"st.global.u32 [%d1+{4 * i}], %r{10 + i};" for i in range(8))
    assert launch(kernel(load + add + subtract + store, 2), words, out) is None
    a, b = (int.from_bytes(row.tobytes(), "little") for row in words)
    assert int.from_bytes(out[:4].tobytes(), "little") == (a + b) % (1 << 128)
    assert int.from_bytes(out[4:].tobytes(), "little") == (a - b) % (1 << 128)


def test_products_carry_into_the_upper_word(launch: Any) -> None:
    out = np.zeros(2, "uint32")
    body = """
    mov.u32 %r1, 0xFFFFFFFF;
    mov.u32 %r2, 3;
    mad.lo.cc.u32 %r3, %r1, %r2, %r1;
    madc.hi.u32 %r4, %r1, %r2, 40;
    st.global.v2.u32 [%d0], {%r3, %r4};"""
    assert launch(kernel(body, 1), out) is None
    assert int(out.view("uint64")[0]) == 0xFFFFFFFF * 3 + 0xFFFFFFFF + (40 << 32)


def chain(name: str) -> list[str]:
    return [f"{name}.cc.u32", f"{name}c.cc.u32", f"{name}c.cc.u32", f"{name}c.u32"]


FLOATING: list[tuple[str, str, int, Callable[..., Any]]] = [
    ("add.f32", "float32", 2, np.add),
    ("sub.f64", "float64", 2, np.subtract),
    ("mul.rn.f32", "float32", 2, np.multiply),
    ("div.rn.f32", "float32", 2, np.divide),
    ("sqrt.rn.f64", "float64", 1, np.sqrt),
    ("rcp.rn.f32", "float32", 1, np.reciprocal),
    ("neg.f32", "float32", 1, np.negative),
    ("abs.f64", "float64", 1, np.abs),
    ("min.f32", "float32", 2, np.fmin),
    ("max.f64", "float64", 2, np.fmax),
    ("max.NaN.f32", "float32", 2, np.maximum),
    ("copysign.f32", "float32", 2, lambda x, y: np.copysign(y, x)),
    ("ex2.approx.f32", "float32", 1, np.exp2),
    ("lg2.approx.f32", "float32", 1, np.log2),
    ("cvt.rmi.f64.f64", "float64", 1, np.floor),
    ("cvt.rni.f32.f32", "float32", 1, np.rint),
    ("cvt.sat.f32.f32", "float32", 1, lambda x: np.nan_to_num(np.clip(x, 0, 1))),
]


@pytest.mark.parametrize(("instruction", "dtype", "count", "reference"), FLOATING, ids=[row[0] for row in FLOATING])
def test_floats(instruction: str, dtype: str, count: int, reference: Callable[..., Any], launch: Any) -> None:
    operands = [np.roll(NUMBERS[dtype], 11 * i) for i in range(count)]
    with np.errstate(all="ignore"):
        expected = reference(*operands)
    tolerance = 1e-6 if "approx" in instruction else 0
    np.testing.assert_allclose(evaluate(launch, instruction, dtype, *operands), expected, rtol=tolerance)


def test_a_fused_product_rounds_once(launch: Any) -> None:
    x = np.array([1 + 2.0**-12], "float32")
    minus_square = -(x * x)
    assert evaluate(launch, "fma.rn.f32", "float32", x, x, minus_square)[0] == np.float32(2.0**-24)


def test_zero_in_place_of_what_is_too_small(launch: Any) -> None:
    x = np.array([1e-40, -1e-40, 1e-37], "float32")
    found = evaluate(launch, "mul.ftz.f32", "float32", x, np.array([1e20, 1e20, 1e-2], "float32"))
    assert found.tolist() == [0, 0, 0]
    assert np.signbit(found).tolist() == [False, True, False]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_rounding_modes(mode: str, launch: Any) -> None:
    x, y = (RNG.uniform(-2, 2, 64).astype("float32") for _ in range(2))
    for instruction, exact in (("add", x.astype("float64") + y), ("mul", x.astype("float64") * y)):
        nearest = exact.astype("float32")
        below = np.where(nearest > exact, np.nextafter(nearest, np.float32(-np.inf)), nearest)
        above = np.where(nearest < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)
        expected = {"rn": nearest, "rm": below, "rp": above, "rz": np.where(exact > 0, below, above)}[mode]
        np.testing.assert_array_equal(evaluate(launch, f"{instruction}.{mode}.f32", "float32", x, y), expected)
        np.testing.assert_array_equal(evaluate(launch, f"cvt.{mode}.f32.f64", "float32", exact), expected)


def test_floats_to_integers_stop_at_the_ends(launch: Any) -> None:
    x = np.array([1.5, -1.5, 2.5, 1e20, -1e20, np.nan, np.inf, 2147483520.0], "float32")
    least, most = -(2**31), 2**31 - 1
    truncated = [1, -1, 2, most, least, 0, most, 2147483520]
    assert evaluate(launch, "cvt.rzi.s32.f32", "int32", x).tolist() == truncated
    assert evaluate(launch, "cvt.rni.s32.f32", "int32", x).tolist() == [2, -2, 2, *truncated[3:]]
    assert evaluate(launch, "cvt.rzi.u32.f32", "uint32", x)[:5].tolist() == [1, 0, 2, 2**32 - 1, 0]


def test_every_half_is_widened_and_narrowed_as_numpy_does(launch: Any) -> None:
    halves = np.arange(1 << 16, dtype="uint16").view("float16")
    halves = halves[np.isfinite(halves)]
    wide = halves.astype("float32")
    np.testing.assert_array_equal(evaluate(launch, "cvt.f32.f16", "float32", halves), wide)
    between = np.nextafter((wide[:-1] + wide[1:]) / 2, RNG.choice([-np.inf, np.inf], len(wide) - 1).astype("float32"))
    with np.errstate(over="ignore"):
        expected = between.astype("float16")
    np.testing.assert_array_equal(evaluate(launch, "cvt.rn.f16.f32", "float16", between), expected)


def test_bfloat16_takes_the_nearest_even(launch: Any) -> None:
    x = RNG.integers(0, 1 << 32, 4096, "uint32").view("float32")
    x = np.concatenate([x[np.isfinite(x)], np.array([1.00390625, 1.01171875, np.inf], "float32")])  # two ties
    bits = x.view("uint32").astype("uint64")
    expected = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("uint16")
    np.testing.assert_array_equal(evaluate(launch, "cvt.rn.bf16.f32", "uint16", x), expected)
    assert evaluate(launch, "cvt.rn.bf16.f32", "uint16", np.array([np.nan], "float32"))[0] & 0x7FFF > 0x7F80


COMPARED = {"lt": np.less, "ge": np.greater_equal, "eq": np.equal, "neu": np.not_equal}


@pytest.mark.parametrize("comparison", ["lt", "ge", "eq", "neu", "ltu", "num", "ne"])
def test_comparisons_of_nan(comparison: str, launch: Any) -> None:
    x, y = NUMBERS["float32"], np.roll(NUMBERS["float32"], 1)
    unordered = np.isnan(x) | np.isnan(y)
    expected = {"ltu": (x < y) | unordered, "num": ~unordered, "ne": (x != y) & ~unordered}.get(comparison)
    if expected is None:
        expected = COMPARED[comparison](x, y)
    body = f"""
    mad.wide.u32 %d3, %r31, 4, %d0; ld.global.f32 %f1, [%d3];
    mad.wide.u32 %d3, %r31, 4, %d1; ld.global.f32 %f2, [%d3];
    setp.{comparison}.f32 %p1, %f1, %f2;
    selp.u32 %r1, 1, 0, %p1;
    mad.wide.u32 %d3, %r31, 4, %d2; st.global.u32 [%d3], %r1;"""
    out = np.zeros(len(x), "uint32")
    assert launch(kernel(body, 3), x, y, out, block=len(x)) is None
    np.testing.assert_array_equal(out.astype(bool), expected)


def test_predicates_combine_and_guard(launch: Any) -> None:
    body = """
    setp.lt.u32 %p1, %r31, 8;
    setp.ge.and.u32 %p2|%p3, %r31, 4, %p1;
    mov.u32 %r1, 0;
    @%p2 mov.u32 %r1, 1;
    @%p3 mov.u32 %r1, 2;
    @!%p1 bra $LATER;
    add.u32 %r1, %r1, 10;
    $LATER:
    mad.wide.u32 %d3, %r31, 4, %d0; st.global.u32 [%d3], %r1;"""
    out = np.zeros(12, "uint32")
    assert launch(kernel(body, 1), out, block=12) is None
    assert out.tolist() == [12] * 4 + [11] * 4 + [0] * 4


def test_vectors_and_halves_of_a_register(launch: Any) -> None:
    x, out = np.arange(10, 14, dtype="uint32"), np.zeros(4, "uint32")
    body = """
    ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0];
    mov.b64 %d3, {%r4, %r1};
    mov.b64 {%r5, _}, %d3;
    mov.b32 {%h1, %h2}, %r2;
    cvt.u32.u16 %r6, %h1;
    st.global.v2.u32 [%d1+8], {%r5, %r6};
    st.global.u64 [%d1], %d3;"""
    assert launch(kernel(body, 2), x, out) is None
    assert out.tolist() == [13, 10, 13, 11]


@pytest.mark.parametrize(
    ("mode", "by", "bounds", "expected"),
    [
        ("bfly", 1, 31, lambda lane: lane ^ 1),
        ("up", 3, 0, lambda lane: lane - 3 if lane >= 3 else lane),
        ("down", 2, 31, lambda lane: lane + 2 if lane < 30 else lane),
        ("idx", 5, 31, lambda lane: 5),
        ("idx", 1, 0x1C03, lambda lane: lane // 4 * 4 + 1),  # in segments of four
    ],
)
def test_shuffles(mode: str, by: int, bounds: int, expected: Callable[[int], int], launch: Any) -> None:
    body = f"""
    shfl.sync.{mode}.b32 %r1|%p1, %r31, {by}, {bounds}, -1;
    mad.wide.u32 %d3, %r31, 4, %d0; st.global.u32 [%d3], %r1;"""
    out = np.zeros(64, "uint32")
    assert launch(kernel(body, 1), out, block=64) is None
    assert out.tolist() == [expected(i % 32) + i // 32 * 32 for i in range(64)]


def test_a_warp_is_summed_by_butterflies_in_a_loop(launch: Any) -> None:
    body = """
    mov.u32 %r1, %r31;
    mov.u32 %r2, 16;
    $AGAIN:
    shfl.sync.bfly.b32 %r3, %r1, %r2, 31, -1;
    add.u32 %r1, %r1, %r3;
    shr.u32 %r2, %r2, 1;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra $AGAIN;
    setp.gt.u32 %p2, %r31, 9;
    vote.sync.ballot.b32 %r4, %p2, -1;
    mad.wide.u32 %d3, %r31, 8, %d0;
    st.global.v2.u32 [%d3], {%r1, %r4};"""
    out = np.zeros((32, 2), "uint32")
    assert launch(kernel(body, 1), out, block=32) is None
    assert out.tolist() == [[496, 0xFFFFFC00]] * 32


def test_a_block_is_reversed_through_shared_memory(launch: Any) -> None:
    variables = """
    .shared .align 4 .b8 padding[20];
    .extern .shared .align 16 .b8 exchanged[];
    """
    body = """
    mov.u32 %r1, exchanged;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r4, %r2, %r3, %r31;
    mad.lo.u32 %r5, %r31, 4, %r1;
    st.shared.u32 [%r5], %r4;
    bar.sync 0;
    sub.u32 %r6, %r3, %r31;
    mad.lo.u32 %r7, %r6, 4, %r1;
    ld.shared.u32 %r8, [%r7+-4];
    mad.wide.u32 %d3, %r4, 4, %d0;
    st.global.u32 [%d3], %r8;"""
    out = np.zeros((3, 100), "uint32")
    assert launch(kernel(body, 1, variables), out, block=100, grid=3, dynamic=400) is None
    np.testing.assert_array_equal(out, np.arange(300).reshape(3, 100)[:, ::-1])


def test_atomics(launch: Any) -> None:
    body = """
    atom.global.add.u32 %r1, [%d0], 1;
    red.global.max.u32 [%d0+4], %r31;
    atom.global.cas.b32 %r2, [%d0+8], 7, %r1;
    mad.wide.u32 %d3, %r31, 4, %d1;
    st.global.u32 [%d3], %r1;"""
    counters, seen = np.array([0, 5, 7], "uint32"), np.zeros(40, "uint32")
    assert launch(kernel(body, 2), counters, seen, block=40) is None
    assert counters.tolist() == [40, 39, 0]
    assert sorted(seen.tolist()) == list(range(40))


def test_functions_constants_and_scopes(launch: Any) -> None:
    before = """
    .const .align 4 .f32 scale[2] = {0f40000000, 0f40400000};
    .func (.param .b32 result) scaled(.param .b32 x, .param .b32 which)
    {
    .reg .f32 %f<4>; .reg .b32 %r<2>; .reg .b64 %d<3>;
    ld.param.f32 %f1, [x];
    ld.param.u32 %r1, [which];
    mov.u64 %d1, scale;
    mad.wide.u32 %d2, %r1, 4, %d1;
    ld.const.f32 %f2, [%d2];
    mul.f32 %f3, %f1, %f2;
    st.param.f32 [result], %f3;
    ret;
    }
    """
    body = """
    mov.f32 %f2, 0f3F800000;
    {
    .reg .b32 temporary; .reg .f32 %f2;
    .param .b32 first; .param .b32 second; .param .b32 returned;
    mov.u32 temporary, 1;
    mov.f32 %f2, 0f40A00000;
    st.param.f32 [first], %f2;
    st.param.u32 [second], temporary;
    call.uni (returned), scaled, (first, second);
    ld.param.f32 %f1, [returned];
    }
    add.f32 %f1, %f1, %f2;
    st.global.f32 [%d0], %f1;"""
    out = np.zeros(1, "float32")
    assert launch(kernel(body, 1, before), out) is None
    assert out[0] == 16.0


def test_a_branch_by_a_table(launch: Any) -> None:
    body = """
    $table: .branchtargets $A, $B, $A;
    brx.idx %r31, $table;
    $A: mov.u32 %r1, 1; bra $END;
    $B: mov.u32 %r1, 2;
    $END:
    mad.wide.u32 %d3, %r31, 4, %d0; st.global.u32 [%d3], %r1;"""
    out = np.zeros(3, "uint32")
    assert launch(kernel(body, 1), out, block=3) is None
    assert out.tolist() == [1, 2, 1]


def test_a_misaligned_address_is_said(launch: Any) -> None:
    failure = launch(kernel("ld.global.u32 %r1, [%d0+2];", 1), np.zeros(4, "uint32"))
    assert failure is not None
    assert failure.startswith("misaligned address: 0x")
    assert failure.endswith("is no multiple of 4")


def test_threads_that_wait_for_each_other_are_said(launch: Any) -> None:
    body = """
    setp.eq.u32 %p1, %r31, 0;
    @%p1 bra $BARRIER;
    shfl.sync.bfly.b32 %r1, %r31, 1, 31, -1;
    ret;
    $BARRIER: bar.sync 0;"""
    assert launch(kernel(body, 0), block=32) == "deadlock: threads of test wait for each other"


def test_those_that_ended_are_not_waited_for(launch: Any) -> None:
    body = """
    setp.ge.u32 %p1, %r31, 20;
    @%p1 ret;
    bar.sync 0;
    mad.wide.u32 %d3, %r31, 4, %d0; st.global.u32 [%d3], 1;"""
    out = np.zeros(32, "uint32")
    assert launch(kernel(body, 1), out, block=32) is None
    assert out.sum() == 20


def test_a_trap_is_said(launch: Any) -> None:
    assert launch(kernel("trap;", 0)) == "trap in test"


@pytest.mark.parametrize(
    "instruction", ["wgmma.fence.sync.aligned", "dp4a.u32.u32 %r1, %r2, %r3, %r1", "bar.sync 0, 64"]
)
def test_what_is_not_known_is_named_and_kept(instruction: str, tmp_path: Path) -> None:
    with pytest.raises(Untranslatable) as caught:
        translate.build(HEAD + kernel(f"{instruction};", 0), tmp_path)
    assert repr(instruction) in str(caught.value)
    kept = list(tmp_path.glob("*.ptx"))
    assert str(kept[0]) in str(caught.value)
    assert instruction in kept[0].read_text()


def test_a_translation_is_made_once(tmp_path: Path) -> None:
    text = HEAD + kernel("", 0)
    first = translate.build(text, tmp_path)
    made = first.stat().st_mtime_ns
    assert translate.build(text, tmp_path) == first
    assert first.stat().st_mtime_ns == made


def test_instructions_and_bytes_are_counted_if_asked_for(folder: Path, shared: Any) -> None:
    """Of the device's memory: neither parameters nor what a block shares."""
    body = """
        ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d0];
        st.shared.f32 [some], %f0;
        setp.eq.u32 %p0, %r31, 5;
        @%p0 st.global.u16 [%d1], %h1;
        atom.global.add.u32 %r1, [%d1+4], 1;
    """
    text = HEAD + kernel(body, 2, ".shared .align 4 .b8 some[64];\n")
    library = ctypes.CDLL(str(translate.build(text, folder, "-DCOUNTED")))
    arrays = np.zeros(4, "float32"), np.zeros(4, "uint32")
    values = [ctypes.c_uint64(array.ctypes.data) for array in arrays]
    parameters = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
    memory = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(shared)))
    assert not library.kernel_test((ctypes.c_uint * 6)(1, 1, 1, 8, 1, 1), ctypes.c_size_t(0), memory, parameters)
    counted = list((ctypes.c_uint64 * 3).in_dll(library, "counted"))
    assert counted == [8 * (1 + 2 + 5 + 1), 8 * (16 + 4), 2 + 8 * 4]  # of eight threads one stores


# ── tensor cores ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("turned", [False, True])
def test_matrices_of_halves_are_read_by_a_warp(turned: bool, launch: Any) -> None:
    """Lane i points to row i of four matrices below each other; it gets two neighbours of row i / 4 of each."""
    body = f"""
    mad.wide.u32 %d3, %r31, 16, %d0; ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%d3];
    mov.u32 %r4, some; mad.lo.u32 %r4, %r31, 16, %r4;
    st.shared.v4.u32 [%r4], {{%r0, %r1, %r2, %r3}};
    bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x4{".trans" * turned}.shared.b16 {{%r5, %r6, %r7, %r8}}, [%r4];
    mad.wide.u32 %d3, %r31, 16, %d1; st.global.v4.u32 [%d3], {{%r5, %r6, %r7, %r8}};"""
    x, out = np.arange(4 * 8 * 8, dtype="uint16").reshape(4, 8, 8), np.zeros((32, 4, 2), "uint16")
    assert launch(kernel(body, 2, ".shared .align 16 .b8 some[512];\n"), x, out, block=32) is None
    wanted = (x.swapaxes(1, 2) if turned else x).reshape(4, 32, 2)
    np.testing.assert_array_equal(out, wanted.swapaxes(0, 1))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_tensor_cores_multiply_halves_and_add_in_float32(kind: str, launch: Any) -> None:
    """Lanes hold fragments: of rows lane / 4 and 8 more, of columns twice lane % 4 and the next, and 8 more."""
    body = f"""
    mad.wide.u32 %d4, %r31, 16, %d0; ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%d4];
    mad.wide.u32 %d4, %r31, 8, %d1; ld.global.v2.u32 {{%r4, %r5}}, [%d4];
    mad.wide.u32 %d4, %r31, 16, %d2; ld.global.v4.f32 {{%f0, %f1, %f2, %f3}}, [%d4];
    mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32
        {{%f0, %f1, %f2, %f3}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}};
    mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32
        {{%f0, %f1, %f2, %f3}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}};
    st.global.v4.f32 [%d4], {{%f0, %f1, %f2, %f3}};"""
    rng = np.random.default_rng(0)
    x, y, c = (rng.integers(-8, 9, shape) / 4 for shape in ((16, 16), (16, 8), (16, 8)))
    lane, i = np.arange(32)[:, None], np.arange(8)
    rows, columns = lane // 4 + i // 2 % 2 * 8, lane % 4 * 2 + i % 2 + i // 4 * 8
    left, right = x[rows, columns], y[(lane % 4 * 2 + i % 2 + i // 2 * 8)[:, :4], lane // 4]
    at = (lane // 4 + i // 2 * 8)[:, :4], (lane % 4 * 2 + i % 2)[:, :4]

    def bits(a: Any) -> Any:
        return a.astype("float16") if kind == "f16" else (a.astype("float32").view("uint32") >> 16).astype("uint16")

    out = c[at].astype("float32")
    assert launch(kernel(body, 3), np.ascontiguousarray(bits(left)), bits(right), out, block=32) is None
    np.testing.assert_array_equal(out, (c + 2 * (x @ y))[at])


def test_what_is_fetched_is_there_when_it_is_waited_for(launch: Any) -> None:
    """Of two groups the first; of 16 bytes eight, and zeros behind them."""
    body = """
    mov.u32 %r4, some;
    cp.async.cg.shared.global [%r4], [%d0], 16, 8;
    cp.async.commit_group;
    cp.async.cg.shared.global [%r4+16], [%d0], 16;
    cp.async.commit_group;
    cp.async.wait_group 1;
    ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r4]; st.global.v4.u32 [%d1], {%r5, %r6, %r7, %r8};
    ld.shared.u32 %r9, [%r4+16]; st.global.u32 [%d1+16], %r9;
    cp.async.wait_group 0;
    ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r4+16]; st.global.v4.u32 [%d1+32], {%r5, %r6, %r7, %r8};"""
    x, out = np.arange(1, 5, dtype="uint32"), np.zeros(12, "uint32")
    padded = np.zeros(8, "uint32")
    start = -padded.ctypes.data % 16 // 4
    padded[start : start + 4] = x
    assert launch(kernel(body, 2, ".shared .align 16 .b8 some[64];\n"), padded[start:], out) is None
    assert list(out) == [1, 2, 0, 0, 0xFFFFFFFF, 0, 0, 0, 1, 2, 3, 4]
