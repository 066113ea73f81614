"""Kernels of a `CompiledBackend` that are no nests: each from a text in ``compiler/templates``, for all languages.

Products of matrices by tiles, windows, elements and sums by index, merge sorts, running sums, and random numbers.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from string import Template
from typing import Any, Final

from micrograd_core.adapters.strided import Strided, cut
from micrograd_core.compiler import joint, nests
from micrograd_core.compiler.languages import TEMPLATES, Language
from micrograd_core.compiler.text import stream_at
from micrograd_core.dtypes import bool_, int64, pack, uint64
from micrograd_core.layout import Shape, broadcast_shapes
from micrograd_core.ops.network.patches import lengths_of
from micrograd_core.ops.standard.random import PLACE, place_of

TILES: Final = ((8, 8), (8, 4), (8, 2), (8, 1), (4, 1), (2, 1), (1, 1))
"""Rows and columns of a product that a unit may compute."""
LARGE: Final = 1 << 21
"""Multiplications for which an operand is copied, so that units beside each other read numbers beside each other."""
PART, MERGED = 128, 4
"""Numbers that are added up before they join a sum; runs that are merged at once."""
LONGEST: Final = 1 << 14
"""Turns that a unit takes at most: some drivers end loops silently after 65,535."""


def launch(
    backend: Any, name: str, units: int, integers: Sequence[int], handles: Sequence[Strided], **facts: Any
) -> Any:
    """Run the kernel of a template, whose first line names the `integers`; of the handles it returns the first.

    The facts fill the template. Of those of a product `shared` are the elements of memory that a workgroup has for
    each input, and `whole` says that `units` are those of whole workgroups.
    """
    key = name, *facts.values(), *(x.dtype.name for x in handles)
    buffers = tuple([nests.Buffer("in" if i else "out", backend._core[x.dtype], 0) for i, x in enumerate(handles)])
    shared = facts.get("shared", 0)
    memory = [nests.Buffer("shared", x.dtype, shared) for x in buffers[1:] if shared]
    nest = nests.Nest((), (), (*buffers, *memory), (), ())

    def text() -> str:
        names, _, body = TEMPLATES.joinpath(f"{name}.txt").read_text(encoding="utf-8").partition("\n")
        found = facts | spellings(backend.language, [x.dtype for x in buffers])
        given = [backend.language.integer.format(n=n) for n in range(len(handles), len(handles) + len(integers))]
        lines = [f"{found['let']} {each} = {x};" for each, x in zip(names.split(), given, strict=True)]
        lines.append(Template(unrolled(body, facts.get("tile", 1), facts.get("columns", 1))).substitute(found))
        return joint.guarded("\n".join(lines), 0 if facts.get("whole") else backend.group)

    if units:
        backend.run(key, lambda: nest, units, integers, handles, text=text)
    return handles[0]


def spellings(language: Language, dtypes: Sequence[Any]) -> dict[str, str]:
    """What templates may use: definitions of counters, and of elements of each buffer; indices are in the third one."""
    facts = {how: language.begun(how, language.counter) for how in ("let", "var")}
    for i, dtype in enumerate(dtypes):
        facts |= {f"{how}{i}": language.begun(how, language.memory_of(dtype)) for how in ("let", "var")}
    first, row = dtypes[0], dtypes[min(2, len(dtypes) - 1)]
    place = language.places.get(row.name, "")
    wide = language.types["int64"] if row.bits == 64 and not place else language.counter
    cast = {T: language.cast.format(T=T, x="").removesuffix("()") for T in (wide, language.counter)}
    facts |= {"wide": cast[wide], "index": cast[language.counter], "place": place or cast[wide]}
    facts |= {"row": language.begun("var", wide), "zero": language.cast.format(T=language.memory_of(first), x="0")}
    for fact, op, names in (("added", "add", ("total", "value")), ("multiplied", "multiply", ("x", "y"))):
        facts[fact] = language.spelled(op, names, (first, first), first)
    return facts


def unrolled(text: str, rows: int, columns: int) -> str:
    """A text in which a line such as ``a b: x#a = #b;`` stands for one for each ``a`` and ``b``."""
    lines = list[str]()
    for line in text.splitlines():
        names = re.match(r"\s*((?:[ab] ?)+): ", line)
        given = names[1].split() if names else []
        for values in itertools.product(*[range(rows if name == "a" else columns) for name in given]):
            found = line[names.end() if names else 0 :]
            for name, value in zip(given, values, strict=True):
                found = found.replace(f"#{name}", str(value))
            lines.append(found)
    return "\n".join(lines)


# ── products ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def matmul(backend: Any, x: Strided, y: Strided) -> Any:
    """Multiply matrices, with a unit for each tile of the result.

    Parameters
    ----------
    x, y : Strided
        Of one dtype; leading axes are broadcast.

    Returns
    -------
    Strided or NotImplemented
        The latter for dtypes that the device cannot multiply.

    Raises
    ------
    ValueError
        When the shapes do not fit.
    """
    if x.dtype is not y.dtype or not backend._covers("multiply", x, y):
        return NotImplemented
    left = x if len(x.shape) > 1 else x.view(x.layout.index((None, slice(0, x.shape[0], 1))))
    right = y if len(y.shape) > 1 else y.view(y.layout.index((slice(0, y.shape[0], 1), None)))
    (m, k), n, lanes = left.shape[-2:], right.shape[-1], backend.lanes
    if right.shape[-2] != k:
        raise ValueError(f"matmul: shapes {x.shape} and {y.shape} do not fit")
    if k > LONGEST:
        halves = (0, k // 2), (k // 2, k)
        cuts = [(cut(x, -1, *at), cut(y, max(-2, -len(y.shape)), *at)) for at in halves]
        return backend.kernels["add"](*[matmul(backend, *each) for each in cuts])
    out = backend.empty((*broadcast_shapes("matmul", left.shape[:-2], right.shape[:-2]), m, n), x.dtype)
    result = out.view(out.layout.reshape((*out.shape[:-2], *(m,) * (len(x.shape) > 1), *(n,) * (len(y.shape) > 1))))
    if (n < lanes and m > n) or (left.layout.strides[-2] == 1 != right.layout.strides[-1] and m >= lanes):
        left, right, out = map(_turned, (right, left, out))
    *batch, m, n = out.shape
    if right.layout.strides[-1] != 1 and n >= lanes and m * n * k >= LARGE and 0 not in right.layout.strides[:-2]:
        right = backend.kernels["copy"](right)
    given = [each.view(each.layout.broadcast_to((*batch, *each.shape[-2:]))) for each in (left, right)]
    groups = nests.neighbours(batch, [each.layout.strides[:-2] for each in given])
    if len(groups) > 2:
        given = [*map(backend._contiguous, given)]
        groups = nests.neighbours(batch, [each.layout.strides[:-2] for each in given])
    outer, inner = ([list[int](), *groups] if len(groups) < 2 else groups)[-2:] if groups else ([], [])
    first, second = (each.layout.strides for each in given)
    lead = [each[group[-1]] if group else 0 for group in (outer, inner) for each in (first, second)]
    steps = [*out.layout.strides[-2:], *first[-2:], *second[-2:]]
    numbers = m, n, k, math.prod([batch[axis] for axis in inner]), *lead, *steps
    _tiled(backend, numbers, math.prod(batch), [out, *given])
    return result


def _tiled(backend: Any, numbers: Sequence[int], batch: int, handles: Sequence[Strided]) -> None:
    """Launch a product, by tiles as large as leave enough units: through memory that workgroups share, or in lanes."""
    language, (m, n), (column0, column2) = backend.language, numbers[:2], numbers[9::4]

    def units(rows: int, span: int, lanes: int) -> int:
        return -(-m // rows) * -(-n // span) * batch * lanes

    lanes, side, room = backend.group, math.isqrt(backend.group), backend.group_memory // handles[0].dtype.itemsize // 2
    tile = next((x for x in (8, 4, 2) if batch * m * n >= backend.threads * x * x and 2 * min(m, n) > x * side), 0)
    facts: dict[str, Any] = {"some": PART, "tile": tile}
    if side * side == lanes and 0 < tile * lanes <= room:
        rows = span = tile * side
        facts |= {"columns": tile, "side": side, "shared": tile * lanes, "barrier": language.barrier}
    else:
        lanes = min(backend.lanes, 1 << (n - 1).bit_length())
        tiles = [
            (rows, x) for rows, x in TILES if rows * x <= backend.tile and rows < 2 * m and (x == 1 or lanes * x <= n)
        ]
        busy = [each for each in tiles if units(each[0], each[1] * lanes, lanes) >= backend.threads]
        rows, columns = (*busy, (1, 1))[0]
        begun, span = language.begun("let", language.counter), lanes * columns
        facts |= {"tile": rows, "columns": columns, "lanes": lanes, "folded": "% size1" * (n < span)}
        facts |= {f"column{i}": "1" if x == 1 else f"column{i}" for i, x in ((0, column0), (2, column2))}
        facts["lane"] = f"{begun} w = u / {lanes}; {begun} t = u % {lanes};" * (lanes != backend.group)
        last = f"size1 - {span}"
        facts["shifted"] = "start" if n < span else language.chosen(f"start > {last}", last, "start")
    facts |= {"span": span, "whole": lanes == backend.group}
    name = "matmul_group" if "side" in facts else "matmul"
    launch(backend, name, units(rows, span, lanes), numbers, handles, **facts)


def _turned(x: Strided) -> Strided:
    """Transposed matrices."""
    axes = [*range(len(x.shape))]
    return x.view(x.layout.permute((*axes[:-2], axes[-1], axes[-2])))


# ── windows ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def patches(backend: Any, x: Strided, *, kernel_size: Shape, fill: float, **steps: Shape) -> Any:
    """What a kernel sees at each of its positions."""
    size, fill_ = x.shape[2:], backend.language.number(fill, backend._core[x.dtype])
    lengths = lengths_of("patches", size, kernel_size, **steps)
    return _windowed(backend, "patches", (*kernel_size, *lengths), x, (size, kernel_size), steps, lengths, fill=fill_)


def patches_gradient(backend: Any, g: Strided, *, size: Shape, kernel_size: Shape, **steps: Shape) -> Any:
    """For each element of the input, the sum of what it was seen as."""
    return _windowed(backend, "patches_gradient", size, g, (size, kernel_size), steps, g.shape[2 + len(size) :])


def _windowed(
    backend: Any, name: str, shape: Shape, x: Strided, sizes: Any, steps: Any, lengths: Shape, **facts: Any
) -> Any:
    """Windows of up to three axes, before which there are axes of length 1."""
    if len(lengths) > 3:
        return NotImplemented
    found = *sizes, steps["stride"], steps["padding"], steps["dilation"], lengths
    numbers = [n for each, one in zip(found, (1, 1, 1, 0, 1, 1), strict=True) for n in (one, one, *each)[-3:]]
    out = backend.empty((*x.shape[:2], *shape), x.dtype)
    return launch(backend, name, out.layout.size, numbers, [out, backend._contiguous(x)], **facts)


# ── by index ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def take(backend: Any, x: Strided, indices: Strided, *, axis: int, along: bool = False, wraps: bool = True) -> Strided:
    """Elements that integers name along an axis, `along` lane by lane; NaN, or 0, where one names none.

    Where it `wraps`, negative ones count from the end.
    """
    after, length = math.prod(x.shape[axis + 1 :]), x.shape[axis]
    out = backend.empty(indices.shape if along else (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    language, dtype = backend.language, backend._core[x.dtype]
    lost = language.cast.format(T=language.memory_of(dtype), x=language.nan if dtype.is_floating else "0")
    facts = {"at": "ui"[not along], "wrap": _wrap(backend, indices, wraps), "lost": lost}
    numbers = after, indices.shape[axis] if along else indices.layout.size, length
    given = map(backend._contiguous, (x, indices))
    return launch(backend, "take", out.layout.size, numbers, [out, *given], **facts)  # type: ignore[no-any-return]


def _wrap(backend: Any, indices: Strided, wraps: bool) -> str:
    """What is added to a negative integer."""
    return "length" if wraps and backend._core[indices.dtype].kind == "signed integer" else "0"


def embedding(backend: Any, indices: Strided, weight: Strided) -> Strided:
    """Rows that integers name."""
    return take(backend, weight, indices, axis=0, wraps=False)


def take_along_axis(backend: Any, x: Strided, indices: Strided, *, axis: int) -> Strided:
    """Lane by lane; the other axes are broadcast."""
    shape = broadcast_shapes("", *((*each.shape[:axis], 1, *each.shape[axis + 1 :]) for each in (x, indices)))
    wide = [(*shape[:axis], each.shape[axis], *shape[axis + 1 :]) for each in (x, indices)]
    x, indices = (h.view(h.layout.broadcast_to(each)) for h, each in zip((x, indices), wide, strict=True))
    return take(backend, x, indices, axis=axis, along=True)


def index_add(backend: Any, x: Strided, indices: Strided, values: Any, *, axis: int, wraps: bool = True) -> Any:
    """Each unit goes through all integers and adds what names one of its own rows: in their order, without atomics."""
    before, length, after, n = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :], indices.layout.size
    values = values if isinstance(values, Strided) else backend._number(values, repr(values), x.dtype)
    values = values.view(values.layout.broadcast_to((*before, *indices.shape, *after)))
    out = backend._fresh("copy", x.shape, x.dtype, x)
    columns, given = math.prod((*before, *after)), [out, *map(backend._contiguous, (values, indices))]
    parts = max(1, min(length, backend.threads // max(columns, 1)))
    wrap = _wrap(backend, indices, wraps)
    for start in range(0, n, LONGEST) if length else ():
        part = start, min(start + LONGEST, n)
        launch(backend, "index_add", columns * parts, (math.prod(after), length, n, *part, parts), given, wrap=wrap)
    return out


def embedding_gradient(backend: Any, g: Strided, indices: Strided, *, num_embeddings: int) -> Any:
    """Rows that integers name get theirs added."""
    zeros = backend._number(0.0, "0.0", g.dtype)
    zeros = zeros.view(zeros.layout.broadcast_to((num_embeddings, g.shape[-1])))
    return index_add(backend, zeros, indices, g, axis=0, wraps=False)


# ── in order ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def running(backend: Any, op: str, x: Strided, *, axis: int, include_initial: bool = False) -> Any:
    """Running sums or products: a unit for each part of an axis, begun with that of the parts before."""
    if include_initial or not backend._covers(op, x, x):
        return NotImplemented
    x, dtype, language = backend._contiguous(x), backend._core[x.dtype], backend.language
    joined = language.spelled(op, ("total", "value"), (dtype, dtype), dtype)
    facts = {"start": language.number(int(op == "multiply"), dtype), "joined": joined}
    length, parts, size = x.shape[axis], -(-x.shape[axis] // PART), x.layout.size
    out, carry, numbers = backend.empty(x.shape, x.dtype), x, (length, math.prod(x.shape[axis + 1 :]), PART, parts)
    if parts > 1 and size:
        sums = backend.empty((*x.shape[:axis], parts, *x.shape[axis + 1 :]), x.dtype)
        launch(backend, "scan", sums.layout.size, (*numbers, 1), [sums, x, x], **facts)
        carry = running(backend, op, sums, axis=axis)
    units = size // length * parts if length else 0
    return launch(backend, "scan", units, (*numbers, 0), [out, x, carry], **facts)


def _order(backend: Any, x: Strided, axis: int, descending: bool, sort: bool = False) -> Strided:
    """A merge sort of positions, `MERGED` runs at a time; NaN comes last, equal elements stay in order."""
    order = (*(each for each in range(len(x.shape)) if each != axis), axis)
    rows, n = backend._contiguous(x.view(x.layout.permute(order))), x.shape[axis]
    facts, places, run = _ahead(backend, x.dtype, descending), list[Any](), 1
    facts |= {"own": "u % length", "other": "middle"}
    while run < max(n, 2):  # the first merger counts, the others read where elements are
        given = [backend.empty(rows.shape, backend.dtypes["int32"]), rows, *places]
        places, run = [launch(backend, "merge", x.layout.size, (n, run), given, runs=MERGED, **facts)], run * MERGED
        facts |= {"own": "p2[at2 + u]", "other": "p2[at2 + row + middle]"}
    out = take(backend, rows, *places, axis=len(order) - 1, along=True) if sort else places[0]
    return out.view(out.layout.permute([order.index(i) for i in range(len(order))]))


def _ahead(backend: Any, dtype: Any, descending: bool = False) -> dict[str, str]:
    """Whether ``x`` comes before ``y``, and the other way round: NaN comes last."""
    language, core = backend.language, backend._core[dtype]
    nan, found = language.isnan if core.is_floating else "false", {}
    for name, (x, y) in (("ahead", "xy"), ("behind", "yx")):
        first = language.spelled("greater" if descending else "less", (x, y), (core, core), bool_)
        found[name] = f"({first} || (!{nan.format(x)} && {nan.format(y)}))"
    return found


def argsort(backend: Any, x: Strided, *, axis: int, descending: bool, stable: bool) -> Any:
    """See `_order`."""
    return backend.kernels["astype"](_order(backend, x, axis, descending), dtype=backend.dtypes["int64"])


def sort(backend: Any, x: Strided, *, axis: int, descending: bool, stable: bool) -> Strided:
    """See `_order`."""
    return _order(backend, x, axis, descending, sort=True)


def searchsorted(backend: Any, x1: Any, x2: Any, *, side: str) -> Any:
    """By halves."""
    if any(not isinstance(x, Strided) or x.dtype is not x1.dtype for x in (x1, x2)):
        return NotImplemented
    ahead, out = _ahead(backend, x1.dtype), backend.empty(x2.shape, backend.dtypes["int64"])
    comes = ahead["ahead"] if side == "left" else f"!{ahead['behind']}"
    facts = {"comes": comes, "low": backend.language.converted("low", int64, "int32")}
    return launch(backend, "search", out.layout.size, x1.shape, [out, *map(backend._contiguous, (x1, x2))], **facts)


# ── random numbers: a unit makes those of a block of four words ──────────────────────────────────────────────────────


def random_uniform(backend: Any, *, shape: Shape, dtype: Any, key: int, block: int) -> Any:
    """See `micrograd_core.ops.standard.random`, as of the others."""
    return random_uniform_from(backend, _stream(backend, key, block), shape=shape, dtype=dtype)


def random_uniform_from(backend: Any, place: Strided, *, shape: Shape, dtype: Any) -> Any:
    """From a place of the device's own on; fractions of 16 bits are the host's."""
    each = {4: 8, 8: 4}.get(dtype.itemsize)
    number = f"fraction_{backend._core[dtype]}(x[i * 4 / {each}], i % 2)"
    return _drawn(backend, number, each, backend._contiguous(place), shape, dtype) if each else NotImplemented


def random_integers(backend: Any, *, shape: Shape, dtype: Any, key: int, block: int, low: int, high: int) -> Any:
    """A span of 2**64 is 0."""
    drawn = f"scaled(x[i], p1[at1 + {PLACE}], p1[at1 + {PLACE + 1}])"
    number = backend.language.nearest(drawn, uint64, backend._core[dtype])
    return _drawn(backend, number, 4, _stream(backend, key, block, low, high - low), shape, dtype)


def random_permutation(backend: Any, *, shape: Shape, dtype: Any, key: int, block: int) -> Any:
    """The device sorts words in whose lowest bits stands their position."""
    word, mask = backend.dtypes["uint64"], (1 << (shape[0] - 1).bit_length()) - 1 if shape[0] else 0
    number = f"marked(x[i], p1[at1 + {PLACE}], {backend.language.converted('(u * 4 + i)', uint64, 'int32')})"
    words = _drawn(backend, number, 4, _stream(backend, key, block, mask), shape, word)
    marks = backend.kernels["bitwise_and"](_order(backend, words, 0, False, sort=True), mask)
    return backend.kernels["astype"](marks, dtype=dtype)


def _stream(backend: Any, key: int, block: int, *more: int) -> Any:
    """A place in a stream, and more words."""
    words = [each % (1 << 64) for each in (*place_of(key, block), *more)]
    return backend.from_host(pack(words, uint64), (len(words),), backend.dtypes["uint64"])


def _drawn(backend: Any, number: str, each: int, stream: Strided, shape: Shape, dtype: Any) -> Any:
    """An array of what `number` makes of the words ``x``, for `each` ``i`` of a block."""
    out, language, place = backend.empty(shape, dtype), backend.language, stream_at("p1", "at1")
    draws = language.draws.format(place=place, block=language.converted("u", uint64, "int32"))
    facts = {"draws": draws, "each": each, "number": number}
    return launch(backend, "draw", -(-out.layout.size // each), [out.layout.size], [out, stream], **facts)


KERNELS: Final[Mapping[str, Callable[..., Any]]] = {
    "cumulative_sum": lambda backend, x, **params: running(backend, "add", x, **params),
    "cumulative_prod": lambda backend, x, **params: running(backend, "multiply", x, **params),
    **{each.__name__: each for each in (matmul, patches, patches_gradient, sort, argsort, searchsorted)},
    **{each.__name__: each for each in (take, take_along_axis, index_add, embedding, embedding_gradient)},
}
RANDOM: Final = (random_uniform, random_uniform_from, random_integers, random_permutation)
"""Kernels of devices that have 64-bit integers, and a language with words of random numbers."""
