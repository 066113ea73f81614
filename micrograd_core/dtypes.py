"""The dtype table: names, kinds, sizes, how they promote, and how they look as bytes in host memory.

Promotion follows the array API standard, section "Type Promotion Rules": inside a kind, and signed with unsigned
integers; integers that meet floats become floats; Python scalars are weak.
"""

from __future__ import annotations

import array
import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

from micrograd_core.errors import DTypeError, one_of

KINDS: Final = ("bool", "signed integer", "unsigned integer", "real floating", "complex floating")


class DType:
    """One data type. Dtypes are compared by identity, as in ``x.dtype is float32``; `DTYPES` holds all of them.

    Parameters
    ----------
    name : str
        Such as ``"float32"``.
    kind : str
        ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"real floating"`` or ``"complex floating"``.
    bits : int
        The size of one element.
    format : str
        The letter of the `struct` module for one element, or for one of its two parts.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.float32.kind, mg.float32.bits
    ('real floating', 32)
    >>> mg.zeros(2, dtype="float32").dtype is mg.float32
    True
    """

    __slots__ = ("bits", "format", "is_complex", "is_floating", "is_integer", "kind", "name")

    def __init__(self, name: str, kind: str, bits: int, format: str) -> None:
        self.name, self.kind, self.bits, self.format = name, kind, bits, format
        self.is_floating = kind in ("real floating", "complex floating")  # gradients flow through these
        self.is_complex = kind == "complex floating"
        self.is_integer = kind in ("signed integer", "unsigned integer")

    def __repr__(self) -> str:
        return f"micrograd_core.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype, (self.name,)

    @property
    def itemsize(self) -> int:
        """Bytes of an element, as an int."""
        return max(self.bits // 8, 1)


# name, kind, bits, the struct format of one element (complex: of one part; bfloat16 has none)
_TABLE = (
    ("bool", "bool", 1, "?"),
    ("int8", "signed integer", 8, "b"),
    ("int16", "signed integer", 16, "h"),
    ("int32", "signed integer", 32, "i"),
    ("int64", "signed integer", 64, "q"),
    ("uint8", "unsigned integer", 8, "B"),
    ("uint16", "unsigned integer", 16, "H"),
    ("uint32", "unsigned integer", 32, "I"),
    ("uint64", "unsigned integer", 64, "Q"),
    ("float16", "real floating", 16, "e"),
    ("bfloat16", "real floating", 16, ""),
    ("float32", "real floating", 32, "f"),
    ("float64", "real floating", 64, "d"),
    ("complex64", "complex floating", 64, "f"),
    ("complex128", "complex floating", 128, "d"),
)

DTYPES: Final[dict[str, DType]] = {row[0]: DType(*row) for row in _TABLE}
(
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64, complex64, complex128,
) = DTYPES.values()  # fmt: skip

REAL_OF: Final = {complex64: float32, complex128: float64}
"""The dtype of the parts of a complex number."""
COMPLEX_OF: Final = {float16: complex64, bfloat16: complex64, float32: complex64, float64: complex128}
"""The narrowest complex dtype whose parts hold a real one: what a Python complex number makes of it."""

# What a Python scalar becomes where no tensor decides: torch's choice for real numbers, NumPy's for integers.
DEFAULTS: Final[dict[type, DType]] = {bool: bool_, int: int64, float: float32, complex: complex64}

RANKS: Final = {bool: 0, int: 1, float: 2, complex: 3}
"""Python's numbers, and the rank of their kind."""
_KIND_RANK: Final = dict(zip(KINDS, (0, 1, 1, 2, 3), strict=True))


def dtype(spec: Any) -> DType:
    """The `DType` that `spec` names: one of ours, a name, a Python type, or another library's dtype object.

    Raises
    ------
    DTypeError
        When nothing by that name is in `DTYPES`.
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, type) and spec in DEFAULTS:
        return DEFAULTS[spec]
    name = (
        spec if isinstance(spec, str) else getattr(spec, "name", None) or getattr(spec, "__name__", None) or str(spec)
    )
    name = name.rsplit(".", 1)[-1].removesuffix("_")
    if name not in DTYPES:
        from micrograd_core.suggestions import table

        raise DTypeError(f"{spec!r} is not a dtype; use {table('dtype').get(name) or one_of(DTYPES)}")
    return DTYPES[name]


def _promote(a: DType, b: DType) -> DType | None:
    if a is b:
        return a
    if a.kind == b.kind:
        return float32 if a.bits == b.bits else max(a, b, key=lambda each: each.bits)  # float16 with bfloat16
    if a.is_floating and b.is_floating:
        real, complex_ = (a, b) if a.kind == "real floating" else (b, a)
        return complex128 if real is float64 else complex_
    if a.is_integer and b.is_integer:
        signed, unsigned = (a, b) if a.kind == "signed integer" else (b, a)
        return DTYPES.get(f"int{max(signed.bits, 2 * unsigned.bits)}")
    return None


_PROMOTION: Final = {(a, b): _promote(a, b) for a in DTYPES.values() for b in DTYPES.values()}


def promote(op: str, a: DType, b: DType) -> DType:
    """The common dtype of two tensors.

    Where the standard leaves it undefined, as of integers and floats, it is that of the higher kind, as in PyTorch.

    Raises
    ------
    DTypeError
        For uint64 with signed integers, which no dtype holds.
    """
    common = _PROMOTION[a, b]
    if common is not None:
        return common
    if _KIND_RANK[a.kind] == _KIND_RANK[b.kind]:
        raise DTypeError(
            f"{op}: {a} and {b} do not promote (the array API leaves that mixture undefined); "
            "say what you mean, for example x.astype('float64')"
        )
    return max(a, b, key=lambda each: _KIND_RANK[each.kind])


def promotes(a: DType, b: DType) -> bool:
    """Whether the standard defines what two dtypes promote to, and it is the second."""
    return _PROMOTION[a, b] is b


def rank_of(kind: type) -> int:
    """The rank of a type of numbers, perhaps of NumPy's; -1 of one that is none."""
    rank = RANKS.get(kind)
    return next((rank for base, rank in RANKS.items() if issubclass(kind, base)), -1) if rank is None else rank


def default_of(kind: type) -> DType:
    """What numbers of a type are by default."""
    return DEFAULTS[tuple(RANKS)[rank_of(kind)]]


def beside(number: Any, dtype: DType) -> DType:
    """What a tensor becomes that meets a Python number: of a higher kind, the default dtype of that kind."""
    rank = rank_of(type(number))
    higher = rank > _KIND_RANK[dtype.kind] and not (rank == 3 and dtype.is_floating)
    return default_of(type(number)) if higher else dtype


def weak(x: Any) -> Any:
    """A scalar of NumPy, or a 0-d array, as a Python number, which takes the dtype of what it meets; others as is."""
    is_scalar = getattr(x, "shape", None) == () and hasattr(x, "item") and not getattr(x, "requires_grad", False)
    return x.item() if is_scalar else x


def check_scalar(op: str, scalar: Any, dtype: DType) -> None:
    """A Python scalar takes the dtype of the tensor it meets; refuse one of a higher kind, or out of range."""
    rank = rank_of(type(scalar))
    if rank < 0:
        raise TypeError(
            f"{op} takes a number here; got {type(scalar).__name__} {scalar!r}. A tensor's number is .item(), a "
            "Value's .data; no gradient goes through either"
        )
    if rank > _KIND_RANK[dtype.kind] or (rank == 0 and dtype.kind != "bool"):
        advice = f"write {int(scalar)}" if rank == 0 else f"use x.astype({default_of(type(scalar)).name!r})"
        raise DTypeError(
            f"{op}: the Python {type(scalar).__name__} {scalar!r} does not go with a {dtype} tensor "
            f"(the array API leaves that mixture undefined); {advice}"
        )
    if rank == 1 and dtype.is_integer:
        low, high = integer_range(dtype)
        if not low <= scalar <= high:
            raise DTypeError(f"{op}: the Python int {scalar} is outside {dtype}, which holds {low} to {high}")


def fits(source: DType, target: DType) -> bool:
    """Whether numbers of one dtype are of a kind that another can hold, if perhaps with fewer digits."""
    return _KIND_RANK[source.kind] <= _KIND_RANK[target.kind]


def integer_range(dtype: DType) -> tuple[int, int]:
    """Smallest and largest value of an integer dtype."""
    if dtype.kind == "signed integer":
        return -(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1
    return 0, (1 << dtype.bits) - 1


# ── host memory ──────────────────────────────────────────────────────────────────────────────────────────────


def pack(values: Sequence[Any], dtype: DType) -> bytes:
    """C-order bytes of a flat sequence of Python numbers.

    Raises
    ------
    DTypeError
        When a value is not a number, or does not fit the dtype.
    """
    try:
        if dtype.kind == "complex floating":
            values = [part for value in map(complex, values) for part in (value.real, value.imag)]
        elif dtype.kind == "real floating":
            values = list(map(float, values))
        elif dtype.is_integer:
            values = list(map(int, values))
        if dtype is bfloat16:
            return array.array("H", map(_bfloat16_bits, values)).tobytes()
        if dtype in (bool_, float16):
            return struct.pack(f"{len(values)}{dtype.format}", *values)
        return array.array(dtype.format, values).tobytes()
    except (TypeError, ValueError, OverflowError, struct.error) as error:
        raise DTypeError(f"data does not fit {dtype}: {error}") from error


def unpack(data: Any, dtype: DType) -> list[Any]:
    """The flat list of Python numbers in C-order bytes: the inverse of `pack`."""
    view = memoryview(data).cast("B")
    if dtype is bfloat16:
        return [struct.unpack("f", struct.pack("I", bits << 16))[0] for bits in view.cast("H").tolist()]
    if dtype is float16:
        return list(struct.unpack(f"{len(view) // 2}e", view))
    flat: list[Any] = view.cast(dtype.format).tolist()  # type: ignore[call-overload]
    if dtype.kind == "complex floating":
        return [complex(*pair) for pair in zip(flat[::2], flat[1::2], strict=True)]
    return flat


def _bfloat16_bits(value: float) -> int:
    """The upper half of a float32, rounded to nearest, ties to even."""
    if math.isnan(value):
        return 0x7FC0
    try:
        bits: int = struct.unpack("I", struct.pack("f", value))[0]
    except OverflowError:
        bits = 0x7F800000 | (0x80000000 if value < 0 else 0)
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


FORMATS: Final = {"float16": (11, -14), "bfloat16": (8, -126), "float32": (24, -126), "float64": (53, -1022)}
"""Of real floating dtypes the digits of the significand, and the exponent of the smallest normal number."""


def greatest(dtype: DType) -> float:
    """The greatest number of a floating dtype, or of the parts of a complex one."""
    digits, lowest = FORMATS[REAL_OF.get(dtype, dtype).name]
    return (2.0 - 2.0 ** (1 - digits)) * 2.0 ** (1 - lowest)


def infer(values: Iterable[Any]) -> DType:
    """The default dtype of Python numbers: the highest kind among them decides; no numbers at all are float32."""
    kinds = set(map(type, values))
    for kind in kinds:
        if rank_of(kind) < 0 and not hasattr(kind, "__float__"):
            raise DTypeError(f"a tensor holds numbers; got {kind.__name__}")
    return default_of(max([kind if rank_of(kind) >= 0 else float for kind in kinds] or [float], key=rank_of))
