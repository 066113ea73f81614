"""`autocast`: which operations run in a half type.

`POLICY` says what `autocast` does with each operation. Operations that it does not name take their operands as they
come: where a half type meets float32, promotion makes it float32. Parameters stay as they are, float32 as a rule: what
is cast is the copy that an operation takes, the cast is recorded, and gradients arrive in the parameter's own dtype.
These float32 "master weights" are what the optimiser moves.
"""

from __future__ import annotations

from typing import Any, Final

from micrograd_core.dtypes import DType, bfloat16, float16, float32
from micrograd_core.dtypes import dtype as as_dtype
from micrograd_core.errors import DTypeError
from micrograd_core.ground.context import during, half_types

HALF, FULL = "half", "float32"
POLICY: Final[dict[str, str]] = {
    **dict.fromkeys(  # matrix units multiply half types and add in float32
        "matmul linear einsum tensordot conv1d conv2d conv_transpose1d conv_transpose2d "
        "scaled_dot_product_attention".split(),
        HALF,
    ),
    **dict.fromkeys(  # sums of many terms, powers, and what goes through an exponential or a logarithm
        "exp expm1 log log1p pow square sum mean var std logsumexp softmax log_softmax cross_entropy nll_loss mse_loss "
        "l1_loss huber_loss binary_cross_entropy_with_logits kl_div layer_norm rms_norm batch_norm standardize "
        "cumulative_sum prod vector_norm".split(),
        FULL,
    ),
}
"""Operation to the type its float16, bfloat16 and float32 operands are cast to: the context's half type, or float32."""

autocast_dtype = half_types.get
"""The half type of this context, or None."""
contexts: Final[list[bool]] = []
"""Not empty once there was any `autocast`. Until then operations do not look into the policy: it costs nothing."""


class autocast(during):  # noqa: N801
    """Within ``with autocast("float16"):`` operations compute in the dtype that `POLICY` gives them.

    Only this context is meant: threads and asyncio tasks do not see each other's. `backward` may run outside: the
    casts are part of the record.

    Parameters
    ----------
    dtype : DType or str
        ``float16`` (10 bits of mantissa; needs a `GradScaler`) or ``bfloat16`` (7 bits, the range of float32).
    enabled : bool
        ``False`` switches an outer ``autocast`` off.

    Raises
    ------
    DTypeError
        For a dtype that is neither.
    """

    def __init__(self, dtype: Any = "float16", *, enabled: bool = True) -> None:
        chosen = as_dtype(dtype)
        if chosen not in (float16, bfloat16):
            raise DTypeError(f"autocast: the dtype is float16 or bfloat16; got {chosen}")
        self.dtype = chosen if enabled else None
        super().__init__(half_types, self.dtype)
        contexts[:] = [True]


def suspended() -> during:
    """Nothing is cast inside: what an operation or a gradient rule computes has the dtypes it was begun with."""
    return during(half_types, None)


def cast_to(name: str) -> DType | None:
    """What `POLICY` wants the float16, bfloat16 and float32 operands of an operation cast to in this context."""
    half, policy = half_types.get(), POLICY.get(name)
    if half is None or policy is None:
        return None
    return half if policy is HALF else float32
