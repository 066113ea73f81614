"""Every transform inside every other: values, and gradients through all of it, against nested dual numbers.

The functions work element by element, so each transform is one of a function of one number: `grad`, `jvp`, `jacobian`
and their kin are its derivative, times what they multiply by. Numbers that carry derivatives (duals, nested as deep as
derivatives are) say what is right; they share no code with what is tested.

All pairs run, and some triples; with MICROGRAD_EXHAUSTIVE=1 all triples.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import (
    Tensor,
    asarray,
    autocast,
    checkpoint,
    custom_gradient,
    custom_jvp,
    grad,
    hessian,
    hvp,
    jacfwd,
    jacobian,
    jvp,
    linearize,
    no_grad,
    value_and_grad,
    vjp,
    vmap,
    where,
)
from micrograd_core.errors import GraphError, TransformError

EVERY = os.environ.get("MICROGRAD_EXHAUSTIVE") == "1"

# ── what is right: numbers with derivatives ──────────────────────────────────────────────────────────────────


class Dual:
    """A number and its derivative along the variable that `tag` names; both may be duals of older tags."""

    def __init__(self, value: Any, slope: Any, tag: int) -> None:
        self.value, self.slope, self.tag = value, slope, tag

    def __add__(self, other: Any) -> Any:
        return combined(self, other, lambda a, b: a + b, lambda a, b: (1.0, 1.0))

    def __mul__(self, other: Any) -> Any:
        return combined(self, other, lambda a, b: a * b, lambda a, b: (b, a))

    __radd__, __rmul__ = __add__, __mul__


def parts(x: Any, tag: int) -> tuple[Any, Any]:
    return (x.value, x.slope) if isinstance(x, Dual) and x.tag == tag else (x, 0.0)


def combined(x: Any, y: Any, value: Callable[..., Any], slopes: Callable[..., Any]) -> Any:
    tag = max(each.tag for each in (x, y) if isinstance(each, Dual))
    (a, da), (b, db) = parts(x, tag), parts(y, tag)
    by_a, by_b = slopes(a, b)
    return Dual(value(a, b), by_a * da + by_b * db, tag)


def function(value: Callable[[float], float], slope: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of one number and its derivative, which takes duals."""

    def apply(x: Any) -> Any:
        if not isinstance(x, Dual):
            return value(x)
        return Dual(apply(x.value), slope(x.value) * x.slope, x.tag)

    return apply


sin = function(math.sin, lambda x: cos(x))
cos = function(math.cos, lambda x: -1.0 * sin(x))
tags = itertools.count()


def derivative(f: Callable[[Any], Any], x: Any) -> Any:
    tag = next(tags)
    return parts(f(Dual(x, 1.0, tag)), tag)[1]


def number(x: Any) -> float:
    return number(x.value) if isinstance(x, Dual) else x


# ── the function: of a number, and captured, integer and bool arguments ──────────────────────────────────────

X, V, N, M, W = [0.3, -0.7], [1.5, 0.4], [2, 3], [True, False], 0.8


def f(x: Any, e: Any) -> Any:
    count = e["n"].astype("float64")
    return mg.sin(e["w"] * x) * e["v"][0] + count * x * x * x * 0.2 + where(e["m"], x * x, e["w"] * x * x * 0.5)


def f_exact(x: Any, e: Any) -> Any:
    return sin(e["w"] * x) * e["v"] + e["n"] * 0.2 * (x * x * x) + (x * x if e["m"] else e["w"] * x * x * 0.5)


@custom_gradient
def by_gradient(y: Tensor, w: Tensor) -> Any:
    """The derivatives are not those of the value, so that it shows whether they were asked."""
    return y * y * w, lambda g: (g * y * w * 3, (g * y * y).sum() * 0.5)


@custom_jvp
def by_tangent(y: Tensor, w: Tensor) -> Any:
    return y * y * w, lambda ty, tw: ty * y * w * 3 + tw * y * y * 0.5


def custom_exact(y: Any, w: Any) -> Any:
    if not isinstance(y, Dual) and not isinstance(w, Dual):
        return y * y * w
    return combined(y, w, custom_exact, lambda a, b: (3.0 * a * b, 0.5 * a * a))


# ── transforms: of a function of (x, e) into another, and what that is for one number ────────────────────────

IN_AXES = {"v": (0,), "w": None, "n": 0, "m": 0}


def column_sums(j: Tensor) -> Tensor:
    return j.sum(axis=0) if j.ndim else j


def first(x: Any, e: Any) -> Any:
    """Arguments with an axis for `vmap`, whether or not an outer one has taken theirs."""
    if x.ndim:
        return x, e, lambda y: y
    e = {**e, "n": e["n"].reshape(1), "m": e["m"].reshape(1), "v": (e["v"][0].reshape(1),)}
    return x.reshape(1), e, lambda y: y.reshape(())


def batched(f: Any, x: Any, e: Any) -> Any:
    x, e, back = first(x, e)
    return back(vmap(f, in_axes=(0, IN_AXES))(x, e))


def batched_along_others(f: Any, x: Any, e: Any) -> Any:
    """The batch last, and in front of the result; the second argument by keyword."""
    x, e, back = first(x, e)
    pairs = mg.stack([x, x * 2], axis=0)
    out = vmap(lambda pair, **rest: mg.stack([f(pair[0], e_of(e, rest)), pair[1]]), in_axes=(1,), out_axes=1)
    found = out(pairs, n=e["n"], m=e["m"], v=e["v"][0])
    return back(found[0] + found[1] * 0.0)


def e_of(e: Any, rest: Any) -> Any:
    return {"w": e["w"], "n": rest["n"], "m": rest["m"], "v": (rest["v"],)}


def with_hook(f: Any, x: Any, e: Any) -> Any:
    y = f(x, e)
    if y.requires_grad:
        y.register_hook(lambda g: g * 1.0)
    return y * 1.0


def value_grad_and_aux(f: Any, x: Any, e: Any) -> Any:
    def pair(x: Any) -> Any:
        y = f(x, e)
        return y.sum(), y

    (_, aux), g = value_and_grad(pair, has_aux=True)(x)
    return aux + g


def of_a_tree(f: Any, x: Any, e: Any) -> Any:
    tree = {"x": x, "rest": (x * 1.0,)}
    g = grad(lambda e, p: (f(p["x"], e) + p["rest"][0] * p["x"]).sum(), argnums=1)(e, tree)
    return g["x"] + g["rest"][0]


def of_two(f: Any, x: Any, e: Any) -> Any:
    gx, gv = grad(lambda x, v, e: f(x, {**e, "v": (v,)}).sum(), argnums=(0, 1))(x, e["v"][0], e)
    return gx + gv


def two_pushes(f: Any, x: Any, e: Any) -> Any:
    y, push = linearize(lambda x: f(x, e), x)
    return y + push(x) + push(mg.ones_like(x))


def swept(f: Any, x: Any, e: Any) -> Any:
    z = Tensor(x.detach())
    f(z, e).sum().backward(create_graph=True)
    return x if z.grad is None else z.grad + x


def without_recording(f: Any, x: Any, e: Any) -> Any:
    with no_grad():
        y = f(x, e)
    return y + x


def cast(f: Any, x: Any, e: Any) -> Any:
    with autocast("bfloat16"):
        return f(x, e)


def constants(e: Any) -> Any:
    return {name: number(x) for name, x in e.items()}


def d(f: Any) -> Any:
    return lambda x, e: derivative(lambda x: f(x, e), x)


TRANSFORMS: dict[str, tuple[Any, Any]] = {
    "grad": (lambda f, x, e: grad(lambda x, e: f(x, e).sum())(x, e), lambda f, x, e: d(f)(x, e)),
    "grad of a tree": (of_a_tree, lambda f, x, e: d(f)(x, e) + x + x),
    "grad by two": (of_two, lambda f, x, e: d(f)(x, e) + derivative(lambda v: f(x, {**e, "v": v}), e["v"])),
    "value_and_grad": (value_grad_and_aux, lambda f, x, e: f(x, e) + d(f)(x, e)),
    "vjp": (lambda f, x, e: vjp(lambda x: f(x, e), x)[1](x * x)[0], lambda f, x, e: x * x * d(f)(x, e)),
    "jvp": (
        lambda f, x, e: sum(jvp(lambda x: f(x, e), (x,), (x * x,)), start=x * 0),
        lambda f, x, e: f(x, e) + x * x * d(f)(x, e),
    ),
    "linearize": (two_pushes, lambda f, x, e: f(x, e) + (x + 1.0) * d(f)(x, e)),
    "jacobian": (lambda f, x, e: column_sums(jacobian(f)(x, e)), lambda f, x, e: d(f)(x, e)),
    "jacfwd": (lambda f, x, e: column_sums(jacfwd(f)(x, e)), lambda f, x, e: d(f)(x, e)),
    "hessian": (lambda f, x, e: column_sums(hessian(lambda x, e: f(x, e).sum())(x, e)), lambda f, x, e: d(d(f))(x, e)),
    "hvp": (lambda f, x, e: hvp(lambda x: f(x, e).sum(), x, x * x), lambda f, x, e: x * x * d(d(f))(x, e)),
    "vmap": (batched, lambda f, x, e: f(x, e)),
    "vmap along other axes": (batched_along_others, lambda f, x, e: f(x, e)),
    "checkpoint": (lambda f, x, e: checkpoint(f, x, e), lambda f, x, e: f(x, e)),
    "custom_gradient": (lambda f, x, e: by_gradient(f(x, e), e["w"]), lambda f, x, e: custom_exact(f(x, e), e["w"])),
    "custom_jvp": (lambda f, x, e: by_tangent(f(x, e), e["w"]), lambda f, x, e: custom_exact(f(x, e), e["w"])),
    "backward": (swept, lambda f, x, e: d(f)(number(x), e) + x),
    "hook": (with_hook, lambda f, x, e: f(x, e)),
    "no_grad": (without_recording, lambda f, x, e: number(f(x, e)) + x),
    "detach": (lambda f, x, e: f(x, e).detach() * x, lambda f, x, e: number(f(x, e)) * x),
    "autocast": (cast, lambda f, x, e: f(x, e)),
}


def composed(names: tuple[str, ...], which: int, f: Any) -> Any:
    for name in reversed(names):
        transform = TRANSFORMS[name][which]
        f = lambda x, e, transform=transform, f=f: transform(f, x, e)  # noqa: E731
    return f


RECORDING = ("wxv", "w", "")


def ours(names: tuple[str, ...], recording: str) -> dict[str, Any]:
    """The value, and gradients of a loss on it by a captured parameter, the argument, and another argument.

    By those that record; sweeps over graphs that lead to no outer one take another path.
    """
    w, x, v = (
        Tensor(each, dtype="float64", requires_grad=name in recording)
        for name, each in zip("wxv", (W, X, V), strict=True)
    )
    y = composed(names, 0, f)(x, {"w": w, "v": (v,), "n": asarray(N), "m": asarray(M)})
    loss = (y * y).sum() + w + x.sum() + v.sum()
    leaves = {name: leaf for name, leaf in (("w", w), ("x", x), ("v", v)) if name in recording}
    for leaf in leaves.values():  # a backward() inside has been there
        leaf.zero_grad()
    if leaves:
        loss.backward()
    return {"y": y.detach().numpy(), **{name: leaf.grad.numpy() for name, leaf in leaves.items()}}


def exact(names: tuple[str, ...]) -> dict[str, Any]:
    g = composed(names, 1, f_exact)

    def loss(x: Any, v: Any, w: Any, i: int) -> Any:
        y = g(x, {"w": w, "v": v, "n": N[i], "m": M[i]})
        return y * y + x + v

    rows = [
        (
            number(g(X[i], {"w": W, "v": V[i], "n": N[i], "m": M[i]})),
            derivative(lambda w, i=i: loss(X[i], V[i], w, i), W),
            derivative(lambda x, i=i: loss(x, V[i], W, i), X[i]),
            derivative(lambda v, i=i: loss(X[i], v, W, i), V[i]),
        )
        for i in range(2)
    ]
    y, w, x, v = (np.array(column) for column in zip(*rows, strict=True))
    return {"y": y, "w": w.sum() + 1, "x": x, "v": v}


def check(names: tuple[str, ...]) -> None:
    """Compare, unless it is refused as it must be: `backward` inside `vmap`, or of what records nothing."""
    last = len(names) - names[::-1].index("backward") - 1 if "backward" in names else 0
    inside_vmap = any("vmap" in name for name in names[:last])
    records_nothing = "no_grad" in names or "detach" in names or names.count("backward") > 1
    expected = exact(names)
    for recording in RECORDING:
        try:
            found = ours(names, recording)
        except (TransformError, GraphError) as refusal:
            if not (inside_vmap and "backward() inside vmap" in str(refusal)) and not (
                records_nothing and "nothing was recorded" in str(refusal)
            ):
                raise
            continue
        for name, each in found.items():
            np.testing.assert_allclose(each, expected[name], rtol=1e-9, atol=1e-9, err_msg=f"{names} by {name}")


def test_what_is_right_agrees_with_finite_differences() -> None:
    """Of the function itself, and of its derivatives of every order that a triple takes."""
    e, step = {"w": W, "v": V[0], "n": N[0], "m": M[0]}, 1e-5
    f = f_exact
    for _ in range(6):
        slope = (f(X[0] + step, e) - f(X[0] - step, e)) / (2 * step)
        f = d(f)
        np.testing.assert_allclose(f(X[0], e), slope, rtol=1e-6, atol=1e-8)


TRIPLES = list(itertools.product(TRANSFORMS, repeat=3))


SHARP = [
    tuple(names.split(", "))
    for names in (
        "no_grad, vmap, grad",
        "vmap, grad, custom_gradient",
        "vmap, jvp, custom_jvp",
        "vmap, value_and_grad, custom_jvp",
        "jacfwd, vmap, custom_gradient",
        "jacfwd, checkpoint, custom_jvp",
        "jacobian, vmap, custom_gradient",
        "jacobian, vmap along other axes, custom_jvp",
        "hessian, custom_jvp, grad",
        "grad, vmap, custom_jvp",
    )
]
"""Triples that told apart what no pair did."""


@pytest.mark.parametrize("names", SHARP, ids=", ".join)
def test_triples_that_found_something(names: tuple[str, ...]) -> None:
    check(names)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_each_transform(name: str) -> None:
    check((name,))


@pytest.mark.parametrize("outer", TRANSFORMS)
def test_every_transform_inside_every_other(outer: str) -> None:
    for inner in TRANSFORMS:
        check((outer, inner))


@pytest.mark.parametrize("outer", TRANSFORMS)
def test_transforms_three_deep(outer: str) -> None:
    every = [names for names in TRIPLES if names[0] == outer]
    for names in every if EVERY else random.Random(outer).sample(every, 12):
        check(names)
