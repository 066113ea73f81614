"""What most operations do to tangents, by what they are in their operands: linear, a product, or of symmetric Jacobian.

A tangent rule reads ``(op, k, tangents, out, *operands, **params)``, and gives the tangent of the result `out`, or
``None`` for zero. There is one tangent per operand, ``None`` for zero. Like a gradient rule it is written against a
kernel table `k`, and need not broadcast to the shape of the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from micrograd_core.ops.record import Op
    from micrograd_core.tables.table import Table


def linear(op: Op, k: Table, tangents: Any, out: Any, *operands: Any, **params: Any) -> Any:
    """The operation on tangents: of what is linear in all its operands together. Separate ones (indices) stay."""
    given = [
        x if i in op.separate else t if t is not None else _zero(k, x)
        for i, (t, x) in enumerate(zip(tangents, operands, strict=True))
    ]
    return getattr(k, op.name)(*given, **params)


def product(op: Op, k: Table, tangents: Any, out: Any, *operands: Any, **params: Any) -> Any:
    """The rule of Leibniz: each operand replaced by its tangent, the others as they are."""
    function = getattr(k, op.name)
    return total(
        k, (function(*operands[:i], t, *operands[i + 1 :], **params) for i, t in enumerate(tangents) if t is not None)
    )


def affine(op: Op, k: Table, tangents: Any, out: Any, x: Any, weight: Any, bias: Any, **params: Any) -> Any:
    """The same of two operands, to whose product the third is added."""
    first, second, third = tangents
    function, added = getattr(k, op.name), 0.0 if third is None else third
    if first is None and second is None:
        return function(_zero(k, x), weight, added, **params)
    found = None if first is None else function(first, weight, added, **params)
    return (
        found
        if second is None
        else total(k, (found, function(x, second, 0.0 if first is not None else added, **params)))
    )


def symmetric(op: Op, k: Table, tangents: Any, out: Any, *operands: Any, **params: Any) -> Any:
    """The gradient rules themselves: of elementwise operations, and others whose Jacobians are their own transposes."""
    assert isinstance(op.gradient, tuple)
    return total(
        k,
        (
            rule(k, t, out, *operands, **params)
            for t, rule in zip(tangents, op.gradient, strict=True)
            if t is not None and rule is not None
        ),
    )


def reduction(op: Op, k: Table, tangents: Any, out: Any, x: Any, *, axis: Any, keepdims: bool, **params: Any) -> Any:
    """The sum of slopes times tangents: of what combines the elements along axes, each of them into one result."""
    assert isinstance(op.gradient, tuple)
    assert op.gradient[0] is not None
    one = k.full(shape=out.shape, fill_value=1, dtype=out.dtype)
    slopes = op.gradient[0](k, one, out, x, axis=axis, keepdims=keepdims, **params)
    found = k.sum(k.multiply(slopes, tangents[0]), axis=axis, keepdims=keepdims)
    return found if found.dtype == out.dtype else k.real(found)


def total(k: Table, terms: Any) -> Any:
    """The sum of those terms that are not ``None``, which stands for zero."""
    found = None
    for term in terms:
        found = term if found is None else found if term is None else k.add(found, term)
    return found


def _zero(k: Table, x: Any) -> Any:
    return k.full(shape=x.shape, fill_value=0, dtype=x.dtype) if hasattr(x, "shape") else 0.0
