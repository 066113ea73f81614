"""Every CUDA source compiles, for every element type, with warnings as errors; and what it costs in registers."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

import nvrtc
from micrograd_core.layout import Shape
from micrograd_core.ops.network.patches import lengths_of
from micrograd_cuda import attention, geometry, units
from micrograd_cuda.geometry import Place
from micrograd_cuda.runtime import OPTIONS
from micrograd_cuda.units import ELEMENT, FAMILIES, Unit, variant

pytestmark = pytest.mark.skipif(nvrtc.library() is None, reason=nvrtc.MISSING)
ARCHITECTURES = ("sm_80", "sm_90")
ALL = os.environ.get("MICROGRAD_EXHAUSTIVE") == "1"
REPORT: list[str] = []
INSTRUCTION = re.compile(r"^\s+(?:@!?%\w+ )?[a-z][\w.:]*\s[^;]*;|^\s+ret;", re.MULTILINE)


FUNCTIONS = [  # functor, operands, dtype of the result
    (functor, 1 if kind in ("UNARY", "PREDICATE") else 2, "bool" if kind in ("PREDICATE", "RELATION") else "")
    for functor, kind in units.FUNCTORS.items()
    if not functor.endswith("OfHalves")  # which stand for others
]


PACKED = "gather", "sorted_add", "sgd", "adam", "unscale", "global_norm"
"""Families whose instances have a width of packs."""


def elementwise_units(dtype: str) -> Iterator[Unit]:
    """Each function in packs, of float32 and of one other dtype; each way of walking with one function."""
    matrix, across = Place((64, 64), (64, 1), 16), Place((64, 64), (1, 64), 16)
    apart, anywhere = Place((2,) * 8, tuple(3**i << 30 for i in range(8)), 16), Place((64, 63), (64, 1), 16)
    others = sorted(ELEMENT.keys() - {"float32"})
    for number, (functor, operands, result) in enumerate(FUNCTIONS):
        if dtype in ("float32", others[number % 3]):
            places = (matrix,) * operands
            yield _elementwise(functor, dtype, "NEITHER" if operands == 2 else "", *places, result=result)
    for place in (across, apart, anywhere, matrix._replace(alignment=geometry.ITEMSIZE[dtype])):
        yield _elementwise("Exp", dtype, "", place)
        yield _elementwise("Add", dtype, "NEITHER", place, Place(place.shape[-1:], (1,), 16))
    yield _elementwise("Add", dtype, "FIRST", None, matrix)
    yield _elementwise("Add", dtype, "SECOND", anywhere, None)
    for result in {"float16", "bfloat16", "float32"} - {dtype}:
        if dtype != "float64":
            yield _elementwise("Copy", dtype, "", matrix, result=result)


def _elementwise(functor: str, dtype: str, scalar: str, *places: Place | None, result: str = "") -> Unit:
    found = geometry.elementwise(units.variant(functor, dtype), dtype, scalar, places, result)
    assert found is not None
    return found.unit


def row_units(dtype: str) -> Iterator[Unit]:
    """Rows in part of a warp, in a block, too long for registers, and not aligned."""
    families = [name for name, family in FAMILIES.items() if family.file == "rows"]
    for family, columns in itertools.product(families, (10, 4096, 100_000, 4097, 50_257)):
        operands, peel = RESIDENT.get(family, 1), not family.startswith(("norm", "attention"))
        launch = geometry.row_launch(1000, columns, dtype, operands, 16, peel=peel)
        if family == "attention_weights":
            for kind, read in ((ELEMENT[dtype], 0), (ELEMENT[dtype], launch.pack), ("Bool", 1)):
                yield geometry.instance(family, launch, ELEMENT[dtype], kind, str(read))
            continue
        template, facts = FAMILIES[family].template, {
            "I": "Long", "CENTERED": str(columns != 10).lower(), "WEIGHTS": str(columns < 4097).lower(),
            "MORE": str(columns < 50_000).lower(),
        }  # fmt: skip
        own = template[1 : template.index("G")]
        others = {"float32": "Bfloat16", "float16": "float", "bfloat16": "float"} if {"U", "R"} & {*own} else {}
        mixed = [others[dtype]] if dtype in others else []  # halves beside float32, and the other way
        for other in (ELEMENT[dtype], *mixed):
            yield geometry.instance(family, launch, ELEMENT[dtype], *[facts.get(each, other) for each in own])


def attention_units(dtype: str) -> Iterator[Unit]:
    """Of few features and of most, masked and causal; of many targets and of few."""
    for mask, causal, width in (("", "true", "8"), ("Bool", "false", "64"), (ELEMENT[dtype], "true", "128")):
        facts = ELEMENT[dtype], mask or ELEMENT[dtype], str(bool(mask)).lower(), causal, width
        if geometry.ITEMSIZE[dtype] == 2:
            yield Unit("attention_of_few", facts, 128)
            yield Unit("attention_of_parts", (facts[0], facts[2], width), 128)
    for (family, most), shape in attention.SHAPES.items() if geometry.ITEMSIZE[dtype] == 2 else ():
        for mask, causal, features in itertools.product(("", "Bool", ELEMENT[dtype]), ("true", "false"), (16, most)):
            facts = (mask or ELEMENT[dtype], str(bool(mask)).lower(), causal, str(features))
            for own in (attention.MASKED if mask else shape, attention.SMALL):
                yield Unit(family, (ELEMENT[dtype], *facts, *map(str, own)), own[0] * 32)


SPILLED = {"channels": 8, "rows": 16, "attention": 44}  # by divisions; by 1024 threads; small tiles take longer
RESIDENT = {"softmax_gradient": 2, "log_softmax_gradient": 2, "attention_weights_gradient": 2, "norm_gradients": 4}
POOLINGS = (  # what is pooled, kernel, stride, padding
    ((8, 8), (2, 2), (2, 2), (0, 0)), ((8, 7), (2, 2), (2, 2), (1, 1)), ((9, 9), (3, 3), (2, 2), (1, 1)),
    ((9, 9), (3, 3), (1, 1), (1, 1)), ((4, 9, 9), (2, 3, 5), (1, 2, 3), (1, 1, 0)),
    ((1 << 15, 1 << 15), (4, 4), (4, 4), (0, 0)),
)  # fmt: skip
PATCHES = (
    ((8, 8), (3, 3), (1, 1), (1, 1)), ((9, 9), (7, 7), (2, 2), (3, 3)), ((8, 9), (2, 5), (3, 1), (1, 0)),
    ((1 << 14, 1 << 15), (3, 3), (1, 1), (1, 1)), ((1 << 14, 1 << 14), (2, 5), (3, 1), (0, 0)),
)  # fmt: skip
CHANNELS = (
    ((1000, 128), (0,)),
    ((1000, 63), (0,)),
    ((8, 4, 16, 16), (0, 2, 3)),
    ((8, 4, 7, 7), (0, 2, 3)),
    ((1 << 20, 1 << 10), (0,)),
)


def windows_unit(family: str, kind: str, dtype: str, size: Shape, kernel: Shape, stride: Shape, padding: Shape) -> Unit:
    steps = kernel, stride, padding, (1,) * len(kernel)
    lengths = lengths_of(family, size, *steps)
    return geometry.windows(family, kind, dtype, 16, (2, 3, *size), lengths, steps).unit


def other_units(dtype: str) -> Iterator[Unit]:
    """All that have no shape among their arguments, and sums of columns."""
    element, itemsize = ELEMENT[dtype], geometry.ITEMSIZE[dtype]
    total = "float64" if dtype == "float64" else "float32"
    for name, family in FAMILIES.items():
        if family.file == "windows":
            for kind in geometry.KNOWN:
                for shape, kernel, stride, padding in PATCHES if kind == "PATCHES" else POOLINGS:
                    yield windows_unit(name, kind, dtype, shape, kernel, stride, padding)
        elif name == "merge_moments":
            yield Unit(name, (ELEMENT[total],), 1024)
        elif family.file == "channels":
            for shape, axes in CHANNELS:
                of = geometry.channels(shape, axes)
                assert of is not None
                launch = geometry.channel_launch(of, itemsize, 16)
                planes = str(of.planes).lower()
                if name == "gradient_columns" and not of.planes:
                    yield geometry.instance(name, launch, "ReluGradient", element, ELEMENT[total])
                    yield geometry.instance(name, launch, variant("GeluGradient", dtype), element, ELEMENT[total])
                elif name == "reduce_channels":
                    yield geometry.instance(name, launch, "Sum", element, ELEMENT[total], planes, "256")
                    yield geometry.instance(name, launch, "Max", element, element, planes, "256")
                elif name != "gradient_columns":
                    yield geometry.instance(name, launch, element, planes)
        elif family.file not in ("elementwise", "rows", "reductions", "attention") and name not in (*UNTYPED, *KEYED):
            index = ["Long"] if name == "gather" else []
            packs = (
                [str(16 // itemsize)]
                if name in ("gather", "sorted_add", "sgd", "adam", "unscale", "global_norm")
                else []
            )
            yield Unit(name, (element, *index, *packs))
    for key in ("int", "Long"):
        yield Unit("add_segments", (element, key, str(16 // itemsize)))
        yield Unit("row_starts", (key,))
        yield Unit("row_keys", (key, "short"))
    for columns in (4096, 4097):
        of = geometry.Channels(False, 100, columns, 1)
        launch = geometry.channel_launch(of, geometry.ITEMSIZE[total], 16, 100, 1024)
        yield geometry.instance("reduce_channels", launch, "Sum", ELEMENT[total], element, "false", "1024")
        for rows, kind, result, whole in (
            (100_000, dtype, total, False),
            (100, dtype, dtype, False),
            (100, total, dtype, True),
        ):
            pieces = geometry.piece_launch(100, rows, geometry.ITEMSIZE[kind], 16, whole=whole)
            functor = "Max" if columns == 4096 else "Product"
            yield geometry.instance("reduce_rows", pieces, functor, ELEMENT[kind], ELEMENT[result])


KEYED = ("add_segments", "row_starts", "row_keys")
UNTYPED = {"marked": [Unit("marked", ())], "integers": [Unit("integers", (index,)) for index in units.INDEX.values()]}


def element(unit: Unit) -> str:
    """What a unit computes with; nothing where that is integers."""
    return next((each for each in unit.arguments if each in ELEMENT.values()), "")


def all_units() -> dict[str, Unit]:
    found = [*itertools.chain(*UNTYPED.values())]
    for dtype in ELEMENT:
        found += [*elementwise_units(dtype), *row_units(dtype), *attention_units(dtype), *other_units(dtype)]
    return {f"{units.call(unit)}@{unit.block}": unit for unit in found}


@pytest.fixture(scope="module", autouse=True)
def _report() -> Iterator[None]:
    yield
    if REPORT:
        print("\nkernel, architecture: registers, bytes spilled, bytes of shared memory", *REPORT, sep="\n")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_unit_of_a_family_compiles(architecture: str, family: str) -> None:
    """Without a warning. Nothing is spilled, but for what calls: slow paths of float64, divisions of 64 bits."""
    found = {name: unit for name, unit in all_units().items() if unit.family == family}
    assert found
    if family.startswith("attention") and not ALL:  # prime to all counts: each kind of argument stays
        found = {name: unit for i, (name, unit) in enumerate(found.items()) if i % 5 == 0}
    for name, unit in found.items():
        if architecture == "sm_80" and element(unit) not in ("Half", ""):
            continue  # one type is enough for the older one
        made = nvrtc.compile_text(units.text(unit), architecture, OPTIONS)
        REPORT.append(f"{name}, {architecture}: {made.registers}, {made.spilled}, {made.shared}")
        assert made.registers * unit.block <= 65536, f"{name} has too many registers for its block"
        called = (family, unit.arguments[3:4]) == ("windows_gradient", ("0",))
        if element(unit) != "double" and not called:
            most = SPILLED.get(FAMILIES[family].file, 0)
            assert made.spilled <= most, f"{name} spills {made.spilled} bytes"


def test_generic_lambdas_are_for_the_device_whichever_nvrtc_compiles_them() -> None:
    """Before 13.2 it takes them for functions of the host, unless it is told; newer ones show no difference."""
    option = "--device-as-default-execution-space"
    unit = Unit("adam", ("float", "4"))
    refused = pytest.raises(RuntimeError, match="host functions are not allowed")
    with refused if nvrtc.version() < (13, 2) else nullcontext():
        nvrtc.compile_text(units.text(unit), "sm_90", [each for each in OPTIONS if each != option])
    assert option in OPTIONS


@pytest.mark.parametrize("dtype", ELEMENT)
def test_packs_travel_in_16_bytes(dtype: str) -> None:
    place = Place((1024, 1024), (2048, 1), 16)
    ptx = nvrtc.compile_text(units.text(_elementwise("Add", dtype, "NEITHER", place, place)), "sm_90", OPTIONS).ptx
    wide = re.findall(r"(ld|st)\.global\.(v\w+\.\w+)", ptx)
    assert [direction for direction, _ in wide] == ["ld", "ld", "st"]
    assert {width for _, width in wide} <= {"v4.f32", "v4.u32", "v2.f64"}
    assert not re.findall(r"st\.global\.[a-u]", ptx)  # loads of an element that a whole pack repeats remain


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", ["norm", "norm_gradients"])
def test_norms_load_their_weights_before_they_store(family: str, dtype: str) -> None:
    """A load behind a store waits for its turn, and each costs the time of a way to memory and back."""
    gradient = family != "norm"
    launch = geometry.row_launch(4096, 4096, dtype, 1 + gradient, 16)
    types = [ELEMENT[dtype]] * (5 if gradient else 3)
    unit = geometry.instance(family, launch, *types, "true", *["false"] * 2 * gradient)
    ptx = nvrtc.compile_text(units.text(unit), "sm_90", OPTIONS).ptx
    order = re.findall(r"\b(ld|st)\.global\b", ptx)
    assert order.count("st") == launch.items
    assert "ld" not in order[order.index("st") :]


@pytest.mark.parametrize("functor", ["ReluGradient", "GeluGradient", "GeluTanhGradient"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_of_activations_load_before_they_store(dtype: str, functor: str) -> None:
    """Four rows at a time: two loads each, and only then four stores."""
    launch = geometry.channel_launch(geometry.Channels(False, 2**16, 4096, 1), geometry.ITEMSIZE[dtype], 16)
    unit = geometry.instance("gradient_columns", launch, variant(functor, dtype), ELEMENT[dtype], "float")
    ptx = nvrtc.compile_text(units.text(unit), "sm_90", OPTIONS).ptx
    order = "".join(each[0] for each in re.findall(r"\b(ld|st)\.global\b", ptx))
    assert "llllllllssss" in order


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_four_blocks_that_add_up_rows_fit_a_multiprocessor(dtype: str) -> None:
    """With 32 registers a thread; two more, and the last of three rounds of blocks would be half empty."""
    launch = geometry.piece_launch(1, 2**26, geometry.ITEMSIZE[dtype], 16)
    unit = geometry.instance("reduce_rows", launch, "Sum", ELEMENT[dtype], "float")
    made = nvrtc.compile_text(units.text(unit), "sm_90", OPTIONS)
    assert made.registers * launch.block * 4 <= 65536


RANDOM_UNITS = [
    *(Unit("normal", (element,)) for element in ELEMENT.values()),
    *(Unit("integers", (index,)) for index in ("Long", "int", "short")),
    Unit("marked", ()),
]


@pytest.mark.parametrize("unit", RANDOM_UNITS, ids=units.name_of_kernel)
def test_random_numbers_are_stored_in_packs(unit: Unit) -> None:
    """A whole block's in as few stores as can be; beside these stands the end, one by one."""
    ptx = nvrtc.compile_text(units.text(unit), "sm_90", OPTIONS).ptx
    size = {"float": 4, "double": 8, "Half": 2, "Bfloat16": 2, "Long": 8, "int": 4, "short": 2}[
        unit.arguments[0] if unit.arguments else "Long"
    ]
    each = 8 if unit.family == "normal" and size < 8 else 4
    width = min(each * size, 16)
    assert len(re.findall(rf"st\.global\.v{width // 4}\.", ptx)) == each * size // width


MULTIPROCESSORS, THREADS, REGISTERS = 132, 2048, 65536  # of an H100, of each multiprocessor


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(4096, 4096), (16384, 1024), (65536, 256), (8192, 8192), (2**20, 64)])
def test_sums_for_a_norms_weight_fill_a_gpu(rows: int, columns: int, more: bool, dtype: str) -> None:
    """Two fifths of all threads are under way, a quarter where they do more, and no block waits for another to end.

    As blocks and as registers go. There is less to add up than was read.
    """
    launch = geometry.row_sums_launch(rows, columns, dtype, 16, 2, more)
    types = [ELEMENT[dtype], "Bfloat16", ELEMENT[dtype], ELEMENT[dtype], "Bfloat16"]
    unit = geometry.instance("norm_gradients", launch, *types, "true", "true", str(more).lower())
    made = nvrtc.compile_text(units.text(unit), "sm_90", OPTIONS)
    room, blocks = REGISTERS // (made.registers * launch.block), launch.grid[0] / MULTIPROCESSORS
    REPORT.append(f"{units.call(unit)}: {launch.grid[0]} blocks, {blocks * launch.block / THREADS:.0%} of the threads")
    assert blocks <= room
    assert blocks * launch.block / THREADS >= (0.24 if more else 0.4)
    assert launch.grid[0] * 2 * 4 * 2 <= rows * geometry.ITEMSIZE[dtype] * 2  # sums written and read; both operands


@pytest.mark.parametrize("family", ["windows", "windows_gradient"])
def test_patches_divide_for_a_window_and_not_for_each_of_its_taps(family: str) -> None:
    """As often for 49 taps as for 9, and never by a stride of 2."""
    counts = []
    for kernel, stride in (((3, 3), (1, 1)), ((7, 7), (2, 2)), ((2, 5), (3, 1))):
        unit = windows_unit(family, "PATCHES", "float32", (9, 9), kernel, stride, (0, 0))
        ptx = nvrtc.compile_text(units.text(unit), "sm_90", OPTIONS).ptx
        counts.append(len(re.findall(r"\b(?:div|rem)\.", ptx)))
    # Patches are there twice, with the images inside and outside; dilations are divided by strides before all loops.
    assert counts[0] == counts[1] == (6 if family == "windows" else 2)
    assert counts[2] == (5 if family == "windows" else 9)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_patches_of_three_by_three_take_few_instructions(dtype: str) -> None:
    """For each of the nine elements that a thread writes; a gradient adds nine for each of its own."""
    for family, most in (("windows", 40), ("windows_gradient", 240)):
        unit = windows_unit(family, "PATCHES", dtype, (9, 9), (3, 3), (1, 1), (1, 1))
        ptx = nvrtc.compile_text(units.text(unit), "sm_90", OPTIONS).ptx
        found = len(INSTRUCTION.findall(ptx.partition("{")[2])) / (9 if family == "windows" else 1)
        assert found <= most


def test_a_mistake_in_a_source_is_seen() -> None:
    unit = Unit("marked", ())
    with pytest.raises(RuntimeError, match="undefined"):
        nvrtc.compile_text(units.text(unit).replace("= philox(", "= philos("), "sm_90", OPTIONS)
    unused = units.text(unit).replace("{ marked(", "{ int unused; marked(")
    with pytest.raises(RuntimeError, match="never used|never referenced"):
        nvrtc.compile_text(unused, "sm_90", OPTIONS)
