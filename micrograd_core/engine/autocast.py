"""`autocast`: which operations run in a half type.

What it does with each operation says the record, `Op.autocast`. Most take their operands as they come: where a half
type meets float32, promotion makes it float32. Parameters stay as they are, float32 as a rule: what
is cast is the copy that an operation takes, the cast is recorded, and gradients arrive in the parameter's own dtype.
These float32 "master weights" are what the optimiser moves.
"""

from __future__ import annotations

from typing import Any, Final

from micrograd_core.dtypes import DType, bfloat16, float16, float32
from micrograd_core.dtypes import dtype as as_dtype
from micrograd_core.errors import DTypeError
from micrograd_core.ops.record import HALF, Op
from micrograd_core.support.context import during, half_types

autocast_dtype = half_types.get
"""The half type of this context, or None."""
contexts: Final[list[bool]] = []
"""Not empty once there was any `autocast`. Until then operations do not look at what to cast: it costs nothing."""


class autocast(during):  # noqa: N801
    """Within ``with autocast("float16"):`` operations compute in the dtype that their records say.

    Only this context is meant: threads and asyncio tasks do not see each other's. `backward` may run outside: the
    casts are part of the record.

    Parameters
    ----------
    half, dtype : DType or str
        By position or by name: ``float16`` (10 bits of mantissa; needs a `GradScaler`) or ``bfloat16`` (7 bits, the
        range of float32).
    enabled : bool
        ``False`` switches an outer ``autocast`` off.

    Raises
    ------
    DTypeError
        For a dtype that is neither.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((2, 3))
    >>> with mg.autocast("float16"):
    ...     y = x @ x.mT
    >>> y.dtype
    micrograd_core.float16
    """

    def __init__(self, half: Any = "float16", /, *, dtype: Any = None, enabled: bool = True) -> None:
        if isinstance(half, str) and half.partition(":")[0] in ("cpu", "cuda"):
            raise TypeError(f"autocast casts on every device: write autocast('{as_dtype(dtype or 'bfloat16')}')")
        chosen = as_dtype(half if dtype is None else dtype)
        if chosen not in (float16, bfloat16):
            raise DTypeError(f"autocast: the dtype is float16 or bfloat16; got {chosen}")
        self.dtype = chosen if enabled else None
        super().__init__(half_types, self.dtype)
        contexts[:] = [True]


def suspended() -> during:
    """Nothing is cast inside: what an operation or a gradient rule computes has the dtypes it was begun with."""
    return during(half_types, None)


def cast_to(op: Op) -> DType | None:
    """What float16, bfloat16 and float32 operands of an operation are cast to in this context, by its record."""
    half = half_types.get()
    if half is None or not op.autocast:
        return None
    return half if op.autocast == HALF else float32
