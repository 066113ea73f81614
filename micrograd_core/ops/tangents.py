"""What most operations do to tangents, by what they are in their operands: linear, a product, or of symmetric Jacobian.

A tangent rule reads ``(op, k, tangents, out, *operands, **params)``, and gives the tangent of the result `out`, or
``None`` for zero. There is one tangent per operand, ``None`` for zero. Like a gradient rule it is written against a
kernel table `k`, and need not broadcast to the shape of the result.
"""

from __future__ import annotations

from typing import Any

from micrograd_core.ops.record import Handle, Op, Operand, Table


def linear(op: Op, k: Table, tangents: Any, out: Handle, *operands: Operand, **params: Any) -> Any:
    """The operation on tangents: of what is linear in all its operands together. Separate ones (indices) stay."""
    given = [
        x if i in op.separate else t if t is not None else zero(k, x)
        for i, (t, x) in enumerate(zip(tangents, operands, strict=True))
    ]
    return getattr(k, op.name)(*given, **params)


def product(op: Op, k: Table, tangents: Any, out: Handle, *operands: Handle, **params: Any) -> Any:
    """The rule of Leibniz: each operand replaced by its tangent, the others as they are."""
    function, given = getattr(k, op.name), ((i, t) for i, t in enumerate(tangents) if t is not None)
    return total(k, (function(*operands[:i], t, *operands[i + 1 :], **params) for i, t in given))


def affine(op: Op, k: Table, tangents: Any, out: Any, x: Operand, weight: Handle, bias: Operand, **params: Any) -> Any:
    """The rule of Leibniz for a product of two operands to which the third is added."""
    first, second, third = tangents
    function, added = getattr(k, op.name), 0.0 if third is None else third
    if first is None and second is None:
        return function(zero(k, x), weight, added, **params)
    if first is None:
        return function(x, second, added, **params)
    found = function(first, weight, added, **params)
    return found if second is None else k.add(found, function(x, second, 0.0, **params))


def symmetric(op: Op, k: Table, tangents: Any, out: Any, *operands: Any, **params: Any) -> Any:
    """The gradient rules themselves: of elementwise operations, and others whose Jacobians are their own transposes."""
    given = ((rule, t) for rule, t in zip(op.gradient, tangents, strict=True) if rule is not None and t is not None)
    return total(k, (rule(k, t, out, *operands, **params) for rule, t in given))


def reduction(op: Op, k: Table, tangents: Any, out: Any, x: Handle, *, axis: Any, keepdims: bool, **params: Any) -> Any:
    """The sum of slopes times tangents: of what combines the elements along axes, each of them into one result."""
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


def zero(k: Table, x: Any) -> Any:
    """0 in the shape and dtype of `x`."""
    return k.full(shape=x.shape, fill_value=0, dtype=x.dtype) if hasattr(x, "shape") else 0.0
