"""Sums of products over chosen axes: `tensordot`, `vecdot`, `outer` and `einsum`, all by `matmul` or `multiply`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_letters
from typing import Any

from micrograd_core.errors import ShapeError
from micrograd_core.layout import Shape, broadcast_shapes, is_integer, resolve_axes, resolve_axis
from micrograd_core.ops.linalg.matrix_calculus import conj
from micrograd_core.ops.record import Array, Handle, Op, Sample, Table
from micrograd_core.ops.shared import calls

# ── tensordot, vecdot, outer ─────────────────────────────────────────────────────────────────────────────────


def _tensordot_parameters(x1: Any, x2: Any, /, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> dict[str, Any]:
    """Sum of products over pairs of `axes`.

    The last N of the first operand with the first N of the second, or two sequences of them.
    """
    shapes = tuple(x1.shape), tuple(x2.shape)
    both: Any = axes
    if is_integer(both):
        if not 0 <= both <= min(map(len, shapes)):
            raise ShapeError(f"tensordot: {axes} axes cannot be summed over in shapes {shapes[0]} and {shapes[1]}")
        both = range(len(shapes[0]) - both, len(shapes[0])), range(both)
    first, second = (each if is_integer(each) else tuple(each) for each in both)
    pair = tuple(resolve_axes("tensordot", each, len(x.shape)) or () for each, x in ((first, x1), (second, x2)))
    lengths = [tuple(shape[axis] for axis in chosen) for shape, chosen in zip(shapes, pair, strict=True)]
    if lengths[0] != lengths[1]:
        raise ShapeError(
            f"tensordot: shapes {shapes[0]} and {shapes[1]} do not fit: along axes {pair[0]} and {pair[1]} they have "
            f"lengths {lengths[0]} and {lengths[1]}, which must be equal"
        )
    return {"axes": pair}


def _tensordot(k: Table, x: Handle, y: Handle, *, axes: tuple[Shape, Shape]) -> Any:
    """One matrix product of the axes that remain, each with a letter of its own."""
    first, last = ascii_letters[: len(x.shape)], list(ascii_letters[len(x.shape) :][: len(y.shape)])
    for left, right in zip(*axes, strict=True):
        last[right] = first[left]
    second = "".join(last)
    return _contract(k, x, first, y, second, "".join(c for c in first + second if (c in first) is not (c in second)))[0]


def _vecdot_parameters(x1: Any, x2: Any, /, axis: int = -1) -> dict[str, Any]:
    """Sum of products along `axis`, the first operand conjugated; the other axes broadcast."""
    # The axis, counted from the end, which is the same for both operands.
    shapes = tuple(x1.shape), tuple(x2.shape)
    shortest = min(map(len, shapes))
    if axis >= 0 and len(shapes[0]) != len(shapes[1]):
        raise ShapeError(
            f"vecdot: axis {axis} of shapes {shapes[0]} and {shapes[1]} must be negative: counted from the end"
        )
    at = resolve_axis("vecdot", axis, shortest) - shortest
    if shapes[0][at] != shapes[1][at]:
        raise ShapeError(
            f"vecdot: shapes {shapes[0]} and {shapes[1]} have lengths {shapes[0][at]} and {shapes[1][at]} along axis "
            f"{axis}; they must be equal"
        )
    broadcast_shapes("vecdot", *shapes)
    return {"axis": at}


def _sum(k: Table, x: Handle, axis: Shape) -> Handle:
    """In the dtype of `x`: small integers wrap, as in a matrix product."""
    total = k.sum(x, axis=axis, keepdims=False)
    return total if k.dtype(x).is_floating else k.astype(total, dtype=x.dtype)


def _vecdot(k: Table, x: Handle, y: Handle, *, axis: int) -> Handle:
    product = k.multiply(conj(k, x), y)
    return _sum(k, product, (len(product.shape) + axis,))


def _check_outer(name: str, x1: Any, x2: Any) -> None:
    if not len(x1.shape) == len(x2.shape) == 1:
        raise ShapeError(f"outer: operands are 1-d; got shapes {tuple(x1.shape)} and {tuple(x2.shape)}")


def _outer(k: Table, x1: Handle, x2: Handle) -> Handle:
    """All products of the elements of two 1-d tensors."""
    return k.multiply(k.reshape(x1, shape=(x1.shape[0], 1)), x2)


# ── einsum ───────────────────────────────────────────────────────────────────────────────────────────────────


def _einsum_parameters(*operands: Any, subscripts: str) -> dict[str, Any]:
    """Einstein's sum: products of operands whose axes the letters of `subscripts` name.

    They are summed over the letters that the result lacks. ``...`` stands for axes that broadcast. Source:
    ``numpy.einsum``.
    """
    # The subscripts in full: one letter per axis, also those behind an ellipsis, and the result's written out.
    text = subscripts.replace(" ", "")
    inputs, arrow, result = text.partition("->")
    terms = inputs.split(",")
    shapes = [tuple(x.shape) for x in operands]

    def refuse(why: str) -> ShapeError:
        return ShapeError(f"einsum: subscripts {subscripts!r} with shapes {', '.join(map(str, shapes))}: {why}")

    if len(terms) != len(operands):
        raise refuse(f"there are {len(terms)} terms for {len(operands)} operands")
    for term in (*terms, result):
        stray = set(term.replace("...", "", 1)) - set(ascii_letters)
        if stray:
            raise refuse(f"{term!r} holds {', '.join(map(repr, sorted(stray)))}; a term is letters and one ellipsis")
    spare = [letter for letter in ascii_letters[::-1] if letter not in text]
    hidden = [len(shape) - len(term.replace("...", "")) for term, shape in zip(terms, shapes, strict=True)]
    for term, shape, rest in zip(terms, shapes, hidden, strict=True):
        if rest < 0 or (rest and "..." not in term):
            raise refuse(f"the term {term!r} names {len(shape) - rest} axes of shape {shape}")
    broadcast = "".join(spare[: max((n for term, n in zip(terms, hidden, strict=True) if "..." in term), default=0)])
    full = [term.replace("...", broadcast[len(broadcast) - rest :]) for term, rest in zip(terms, hidden, strict=True)]
    if arrow:
        result = result.replace("...", broadcast)
    else:
        named = "".join(full)
        result = broadcast + "".join(sorted(c for c in set(named) - set(broadcast) if named.count(c) == 1))
    lengths: dict[str, int] = {}
    for term, shape in zip(full, shapes, strict=True):
        for letter, length in zip(term, shape, strict=True):
            known = lengths.setdefault(letter, length)
            if known != length and 1 not in (known, length):
                where = "an axis behind the ellipsis" if letter in broadcast else f"the subscript {letter!r}"
                raise refuse(f"{where} has lengths {known} and {length}")
            lengths[letter] = length if known == 1 else known
    for letter in result:
        if result.count(letter) > 1 or letter not in lengths:
            raise refuse(f"the result's {letter!r} must stand there once, and in some term")
    return {"subscripts": (tuple(full), result)}


def _einsum(k: Table, *operands: Handle, subscripts: tuple[tuple[str, ...], str]) -> Handle:
    """Pairs of operands are contracted one after the other, always the one that leaves least behind."""
    terms, result = subscripts
    sizes = dict.fromkeys("".join(terms), 1)
    for term, x in zip(terms, operands, strict=True):
        sizes.update((letter, n) for letter, n in zip(term, x.shape, strict=True) if n != 1)
    rest = [_distinct(k, x, term, sizes) for term, x in zip(terms, operands, strict=True)]
    while len(rest) > 1:
        i, j = min(
            ((i, j) for i in range(len(rest)) for j in range(i + 1, len(rest))),
            key=lambda pair: _growth(rest[pair[0]][1], rest[pair[1]][1], _kept(rest, pair, result), sizes),
        )
        pair = _contract(k, *rest[i], *rest[j], _kept(rest, (i, j), result))
        rest = [*(each for n, each in enumerate(rest) if n not in (i, j)), pair]
    x, term = _summed(k, *rest[0], result)
    x = k.permute_dims(x, axes=tuple(map(term.index, result)))
    return k.copy(x) if len(operands) == 1 else x


def _distinct(k: Table, x: Handle, term: str, sizes: dict[str, int]) -> tuple[Any, str]:
    """An operand whose letters are distinct: the diagonal of axes that share one, without axes that broadcast."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first, second = term.index(letter), term.rindex(letter)
            others = tuple(axis for axis in range(len(term)) if axis not in (first, second))
            length = max(x.shape[first], x.shape[second])
            shape = tuple(length if axis in (first, second) else n for axis, n in enumerate(x.shape))
            x = k.diagonal(k.permute_dims(k.broadcast_to(x, shape=shape), axes=(*others, first, second)), offset=0)
            term = "".join(term[axis] for axis in others) + letter
    single = tuple(axis for axis, letter in enumerate(term) if x.shape[axis] == 1 != sizes[letter])
    if single:
        x = k.squeeze(x, axis=single)
        term = "".join(letter for axis, letter in enumerate(term) if axis not in single)
    return x, term


def _kept(rest: list[tuple[Any, str]], pair: tuple[int, int], result: str) -> str:
    """The letters of a pair that the result or another operand still needs, in order."""
    needed = result + "".join(term for n, (_, term) in enumerate(rest) if n not in pair)
    return "".join(dict.fromkeys(c for n in pair for c in rest[n][1] if c in needed))


def _growth(first: str, second: str, kept: str, sizes: dict[str, int]) -> int:
    return math.prod(sizes[c] for c in kept) - sum(math.prod(sizes[c] for c in term) for term in (first, second))


def _summed(k: Table, x: Handle, term: str, kept: str) -> tuple[Any, str]:
    """Without the axes that nothing needs any more."""
    gone = tuple(axis for axis, letter in enumerate(term) if letter not in kept)
    if not gone:
        return x, term
    return _sum(k, x, gone), "".join(letter for letter in term if letter in kept)


def _contract(k: Table, x: Handle, first: str, y: Handle, second: str, kept: str) -> tuple[Any, str]:
    """The product of two operands, summed over the letters that are not kept."""
    x, first = _summed(k, x, first, kept + second)
    y, second = _summed(k, y, second, kept + first)
    batch = [c for c in first if c in second and c in kept]
    inner = [c for c in first if c in second and c not in kept]
    rows, columns = ([c for c in term if c not in other] for term, other in ((first, second), (second, first)))
    sizes = dict(zip(first + second, (*x.shape, *y.shape), strict=True))
    term = "".join((*batch, *rows, *columns))
    shape = tuple(sizes[c] for c in term)
    x = k.permute_dims(x, axes=tuple(first.index(c) for c in (*batch, *rows, *inner)))
    y = k.permute_dims(y, axes=tuple(second.index(c) for c in (*batch, *inner, *columns)))
    lengths = [tuple(sizes[c] for c in group) for group in (batch, rows, inner, columns)]
    if not inner:
        x = k.reshape(x, shape=(*lengths[0], *lengths[1], *(1,) * len(columns)))
        y = k.reshape(y, shape=(*lengths[0], *(1,) * len(rows), *lengths[3]))
        return k.multiply(x, y), term
    count = [math.prod(each) for each in lengths]
    front = (count[0],) if batch else ()
    x = k.reshape(x, shape=(*front, count[1], count[2]))
    y = k.reshape(y, shape=(*front, count[2], count[3]))
    return k.reshape(k.matmul(x, y), shape=shape), term


EINSUMS: tuple[tuple[Any, ...], ...] = (
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk,ki->j", (2, 3), (3, 4), (4, 2)), ("ii", (3, 3)), ("...ii->i...", (2, 3, 3)),
    ("b...i,bij", (2, 2, 3), (2, 3, 4)), ("ab,ab->ba", (1, 3), (2, 3)), ("ij,k->", (2, 3), (2,)),
    ("ij,jk", (2, 0), (0, 3)), ("ij,j->i", Array((2, 3), -5, 5, "int32"), Array((3,), -5, 5, "int32")),
)  # fmt: skip
"""Subscripts and operands of `einsum` in its samples."""

OPS = calls(
    Op(
        "tensordot",
        autocast="half",
        parameters=_tensordot_parameters,
        compose=_tensordot,
        samples=(
            Sample((2, 3, 4), (3, 4, 2)),
            Sample((2,), (3,), axes=0),
            Sample((2, 3, 4), (4, 2, 3), axes=((2, -2), (0, 2))),
            Sample((2, 0), (0, 3), axes=1),
        ),
    ),
    Op(
        "vecdot",
        parameters=_vecdot_parameters,
        compose=_vecdot,
        samples=(Sample((2, 3), (2, 3)), Sample((2, 1, 3), (4, 3)), Sample((3, 2), (3, 2), axis=0), Sample((0,), (0,))),
        reference=lambda np, x, y, axis=-1: (np.conj(x) * y).sum(axis=axis),
    ),
    Op("outer", refuses=_check_outer, compose=_outer, samples=(Sample((2,), (3,)), Sample((0,), (3,)))),
    Op(
        "einsum",
        autocast="half",
        operands=-1,
        parameters=_einsum_parameters,
        compose=_einsum,
        samples=tuple([Sample(*operands, subscripts=text) for text, *operands in EINSUMS]),
        reference=lambda np, *xs, subscripts: np.einsum(subscripts, *xs),
    ),
)
