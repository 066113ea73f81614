"""`jit` of functions of tensors: the same as the function, whatever it reads, changes and draws."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor, Value, grad, hessian, jit, jvp, nn, no_grad, optim, random, value_and_grad, vmap
from micrograd_core.errors import GraphError, ShapeError, TraceError
from tests.near import Near

X, Y = Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([[0.5, -1.0], [2.0, 0.25]])


def numbers(tree: Any) -> Any:
    """Everything in a result as something to compare."""
    if isinstance(tree, Tensor):
        return tree.shape, tree.dtype.name, Near(tree.detach().numpy())
    if isinstance(tree, dict):
        return {name: numbers(x) for name, x in tree.items()}
    return [numbers(x) for x in tree] if isinstance(tree, (list, tuple)) else tree


# ── a function ───────────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_traced_once_for_each_kind_of_arguments() -> None:
    calls = 0

    @jit
    def f(x: Any, y: Any) -> Any:
        nonlocal calls
        return (x * y + mg.exp(x)).sum(axis=0)

    def plain(x: Any, y: Any) -> Any:
        return (x * y + mg.exp(x)).sum(axis=0)

    for x, y in itertools.product((X, X * 2, X[:1].detach()), repeat=2):
        np.testing.assert_allclose(f(x, y).tolist(), plain(x, y).tolist(), rtol=1e-6)
    assert f.traces == 5, "shapes of two arguments, whether they record, and whether they are one"
    assert calls == 0
    assert f.__name__ == "f"


def test_trees_go_in_and_come_out() -> None:
    @jit
    def f(tree: Any, scale: float, *, name: str) -> Any:
        a, (b, c) = tree["a"], tree["bc"]
        return {"sum": a + b * scale, "rest": [c, (a, name, None, 3)], name: b}

    tree = {"a": X, "bc": (Y, [X][0])}
    found = f(tree, 2.0, name="z")
    assert numbers(found["sum"]) == numbers(X + Y * 2.0)
    assert found["rest"][0] is X
    assert found["rest"][1][0] is X, "an argument comes back as itself"
    assert found["rest"][1][1:] == ("z", None, 3)
    assert found["z"] is Y
    assert f(tree, 3.0, name="z")["sum"].tolist() == (X + Y * 3.0).tolist(), "a number is part of the kind"
    assert f.traces == 2


def test_decorator_method_static_names_and_partial() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = Tensor(3.0)

        @jit
        def __call__(self, x: Any) -> Any:
            return x * self.w

    model, other = Model(), Model()
    other.w = Tensor(5.0)
    assert model(X).tolist() == (X * 3.0).tolist()
    assert other(X).tolist() == (X * 5.0).tolist()
    model.w = Tensor(7.0)
    assert model(X).tolist() == (X * 7.0).tolist(), "what is bound anew is noticed"

    @jit(static_argnames="power")
    def f(x: Any, power: Any) -> Any:
        return x ** power["n"]

    assert f(X, {"n": 2}).tolist() == (X**2).tolist()
    assert f(X, power={"n": 3}).tolist() == (X**3).tolist()
    with pytest.raises(ValueError, match=r"there is no parameter 'powr'; the function has x, power"):
        jit(lambda x, power: x, static_argnames="powr")
    with pytest.raises(TypeError, match="a tensor is no static argument"):
        f(X, X)
    assert jit(functools.partial(lambda x, y: x * y, Y))(X).tolist() == (X * Y).tolist()


def test_the_program_can_be_read() -> None:
    f = jit(lambda x: (x * 2.0).sum())
    assert f.program is None
    lowered = f.lower(X)
    assert str(lowered) == str(lowered.program)
    f(X)
    assert f.traces == 1
    assert str(f.program).splitlines()[0] == "program(%0: float32[2, 2])"
    assert "multiply(%0, 2.0)" in str(f.program)
    assert "fmul" in f.source if "jit" in X.device.capabilities else f.source == str(f.program)


def test_results_do_not_share_memory_with_anything() -> None:
    x = mg.zeros((2, 3))
    f = jit(lambda x: (x.reshape((3, 2)), x.T, x[0]))
    for result in f(x):
        result[...] = 1.0
    assert x.tolist() == [[0.0] * 3] * 2
    a, b = jit(lambda x: (lambda y: (y, y.T))(x + 1))(x)
    a[...] = 5.0
    assert b.tolist() == [[1.0] * 2] * 3


def test_it_is_freed_by_reference_counts() -> None:
    model = nn.Linear(2, 2)
    rule = optim.Adam(model.parameters())

    def step(x: Any) -> Any:
        rule.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        rule.step()
        return loss

    gc.collect()
    gc.disable()
    try:
        f = jit(step)
        for _ in range(3):
            f(X)
        gc.collect()  # the traces' own
        held = weakref.ref(f)
        for _ in range(3):
            f(X)
        assert gc.collect() == 0, "a call leaves nothing behind"
        del f
        assert held() is None
    finally:
        gc.enable()


# ── what it closes over ──────────────────────────────────────────────────────────────────────────────────────

SCALE = 2.0
WEIGHT = Tensor([[1.0, 0.0], [0.0, 1.0]])


@pytest.mark.filterwarnings("ignore:jit")
def test_nothing_that_it_reaches_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    held: dict[str, Any] = {"w": Tensor(2.0), "n": 3}
    layers = [nn.Linear(2, 2)]
    local = Tensor(1.0)

    def f(x: Any) -> Any:
        return layers[0](x) * held["w"] * held["n"] * local * SCALE + WEIGHT

    jitted = jit(f)

    def check() -> None:
        assert numbers(jitted(X)) == numbers(f(X))

    check()
    held["w"].data = 5.0
    check()
    assert jitted.traces == 1, "numbers of a tensor are looked up"
    held["w"] = Tensor(7.0)
    check()
    held["n"] = 4
    check()
    layers[0] = nn.Linear(2, 2)
    check()
    layers[0].weight.data = layers[0].weight.data * 2
    check()
    layers[0].bias = Tensor([9.0, 9.0])
    check()
    local = Tensor(11.0)
    check()
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    check()
    monkeypatch.setitem(globals(), "WEIGHT", Tensor([[5.0, 0.0], [0.0, 1.0]]))
    check()
    held["w"] = Tensor([1.0, 2.0])
    check()
    held["w"].requires_grad = False
    check()


def test_training_and_evaluation_are_noticed() -> None:
    model = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    f = jit(model)
    assert numbers(f(X)) != numbers(f(X)), "dropout draws each time"
    model.eval()
    assert numbers(f(X)) == numbers(model(X))
    model.train()
    assert numbers(f(X)) != numbers(f(X))


def test_modes_around_the_call_count() -> None:
    f = jit(lambda x: (x @ x).sum())
    assert f(X).requires_grad
    with no_grad():
        assert not f(X).requires_grad
    with mg.amp.autocast("float16"):
        assert f(X).dtype.name == (X @ X).sum().dtype.name
    assert f(X).dtype.name == "float32"


def test_what_is_neither_argument_nor_found_is_refused() -> None:
    class Hidden:
        def __getattr__(self, name: str) -> Any:
            return SECRET[0]

    hidden = Hidden()
    with pytest.raises(TraceError, match="neither an argument of the function nor found in what it closes over"):
        jit(lambda x: x * _secrets.x)(X)
    with pytest.raises(TraceError, match=r"test_jit_tensors\.py, line \d+"):
        jit(lambda x: x * _secrets.x)(X)
    assert jit(lambda x: x * hidden.w)(X).tolist() == (X * 4.0).tolist(), "through globals of a method it is found"


SECRET = [Tensor(4.0)]
_secrets = threading.local()
_secrets.x = Tensor(4.0)


# ── what it changes ──────────────────────────────────────────────────────────────────────────────────────────

RULES: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: optim.SGD(p, 0.1),
    "momentum": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: optim.Adam(p, 0.01),
    "adamw": lambda p: optim.AdamW(p, 0.01),
    "rmsprop": lambda p: optim.RMSprop(p, 0.01, momentum=0.5),
}


def training(rule: Callable[[Any], Any], schedule: str, clip: float) -> tuple[Any, Any, Any]:
    """A network with everything that changes, and a step of it."""
    with random.use_generator(0):
        layers = nn.Linear(3, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2)
        model = nn.Sequential(*layers)  # a bias before a norm has rounding for a gradient, which Adam makes large
    steps = rule(model.parameters())
    rates = optim.Schedule(steps, optim.cosine(20) if schedule == "cosine" else optim.step_decay(2, 0.5))

    def step(x: Any, t: Any) -> Any:
        steps.zero_grad()
        loss = mg.cross_entropy(model(x), t)
        loss.backward()
        if clip:
            optim.clip_grad_norm(model.parameters(), clip)
        steps.step()
        if schedule:
            rates.step()
        return loss

    return model, steps, step


WAYS = [(0.0, ""), (0.5, "cosine"), (1e6, "step")]
EXHAUSTIVE = os.environ.get("MICROGRAD_EXHAUSTIVE") == "1"


@pytest.mark.parametrize(
    ("clip", "schedule"), itertools.product([0.0, 0.5, 1e6], ["", "cosine", "step"]) if EXHAUSTIVE else WAYS
)
@pytest.mark.parametrize("name", RULES)
def test_a_whole_training_step(name: str, clip: float, schedule: str) -> None:
    rng = np.random.default_rng(0)
    batches = [
        (mg.asarray(rng.normal(size=(16, 3)).astype("f4")), mg.asarray(rng.integers(0, 2, 16))) for _ in range(6)
    ]
    found = []
    for compiled in (False, True):
        model, rule, step = training(RULES[name], schedule, clip)
        f = jit(step) if compiled else step
        with random.use_generator(5):
            losses = [f(x, t).item() for x, t in batches]
            after = random.default_generator().state
        found.append((losses, numbers(model.state_dict()), numbers(rule.state_dict()), rule.lr, after))
    eager, jitted = found
    np.testing.assert_allclose(jitted[0], eager[0], rtol=1e-5)
    for a, b in zip(eager[1:3], jitted[1:3], strict=True):
        assert a.keys() == b.keys()
        for key in a:
            np.testing.assert_allclose(b[key][2], a[key][2], rtol=1e-4, atol=1e-6, err_msg=key)
    assert eager[3:] == jitted[3:], "the learning rate, and where the generator stands"
    assert f.traces == 2, "before there are gradients and moments, and then"


def test_eager_and_compiled_steps_may_alternate() -> None:
    models = []
    for order in ([0] * 6, [1] * 6, [0, 1, 1, 0, 1, 0]):
        p = Tensor([1.0, 2.0])
        rule = optim.Adam([p], 0.1)

        def step(x: Any, p: Any = p, rule: Any = rule) -> Any:
            rule.zero_grad()
            loss = ((p - x) ** 2).sum()
            loss.backward()
            rule.step()
            return loss

        either = (step, jit(step))
        for i, which in enumerate(order):
            either[which](mg.asarray([float(i), 1.0]))
        models.append((p.tolist(), p.grad.tolist(), rule.state[0]["step"]))  # type: ignore[union-attr]
    assert models[0] == models[1] == models[2]


def test_gradients_are_left_as_backward_leaves_them() -> None:
    w = Tensor([1.0, 2.0])

    def f(x: Any) -> Any:
        (w * x).sum().backward()

    g = jit(f)
    for expected in ([3.0, 4.0], [6.0, 8.0], [9.0, 12.0]):
        assert g(Tensor([3.0, 4.0])) is None
        assert w.grad is not None
        assert w.grad.tolist() == expected
    w.zero_grad()
    g(Tensor([3.0, 4.0]))
    assert w.grad.tolist() == [3.0, 4.0]
    x = Tensor([5.0, 6.0])
    g(x)
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 2.0]


def test_plain_descent_without_an_optimiser() -> None:
    for way in range(3):
        found = []
        for compiled in (False, True):
            p = Tensor([1.0, 2.0])

            def step(x: Any, p: Any = p, way: int = way) -> None:
                (p * x).sum().backward()
                assert p.grad is not None
                if way == 0:
                    p.data = p.data - 0.1 * p.grad
                elif way == 1:
                    p.data -= 0.1 * p.grad
                else:
                    with no_grad():
                        p -= 0.1 * p.grad
                p.grad = None

            f = jit(step) if compiled else step
            for i in range(4):
                f(Tensor([1.0, float(i)], requires_grad=False))
            found.append((p.tolist(), p.grad, p.requires_grad))
        assert found[0] == found[1]


def test_writes_are_seen_by_views() -> None:
    buffer = mg.zeros((4,))
    view = buffer[1:3]

    @jit
    def f(x: Any) -> None:
        buffer[...] = buffer + x

    f(mg.asarray([1.0, 2.0, 3.0, 4.0]))
    assert buffer.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert view.tolist() == [2.0, 3.0]


def test_an_argument_is_written() -> None:
    @jit
    def f(x: Any) -> None:
        x[0] = 7.0

    x = mg.zeros((3,))
    f(x)
    assert x.tolist() == [7.0, 0.0, 0.0]
    with pytest.raises(GraphError, match="leaf that records"):
        f(Tensor([1.0, 2.0, 3.0]))


def test_a_computed_tensor_that_a_module_keeps_is_no_parameter_at_the_next_call() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.loss = nn.Linear(3, 2, generator=random.Generator(0)), None

        def forward(self, x: mg.Tensor) -> mg.Tensor:
            self.loss = (self.linear(x) ** 2).mean()
            return self.loss

    found = []
    for compiled in (False, True):
        model = Model()
        rule = optim.SGD(model.parameters(), lr=0.1)

        def step(x: mg.Tensor, model: Model = model, rule: optim.SGD = rule) -> tuple[mg.Tensor, int]:
            rule.zero_grad()
            model(x)
            count = len(list(model.parameters()))
            model.loss.backward()
            rule.step()
            return model.loss, count

        call = mg.jit(step) if compiled else step
        results = [call(mg.full((4, 3), 0.5)) for _ in range(4)]
        assert [count for _, count in results] == [2] * 4
        found.append([loss.item() for loss, _ in results])
    assert found[1] == pytest.approx(found[0], rel=1e-5)


def test_attributes_that_become_tensors() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            self.total: Any = None

        def forward(self, x: Any) -> Any:
            x = x.detach()
            self.total = x if self.total is None else self.total + x
            return self.total * 1

    eager, counter = Counter(), Counter()
    f = jit(counter)
    for i in range(4):
        assert numbers(f(X * i)) == numbers(eager(X * i))
        assert numbers(counter.total) == numbers(eager.total)


def test_draws_go_on_where_eager_ones_would() -> None:
    f = jit(lambda x: x + random.normal((3,)) * random.uniform((3,)) + random.randint((3,), 0, 9).astype("float32"))
    own = random.Generator(3)
    g = jit(lambda x: x + random.uniform((2,), generator=own))
    fixed = jit(lambda x: x + random.uniform((2,), generator=random.Generator(8)))
    zero = mg.zeros((3,))
    for compiled in (f, f.__wrapped__):
        random.manual_seed(1)
        found = [compiled(zero).tolist(), random.uniform((2,)).tolist(), compiled(zero).tolist()]
        if compiled is f:
            first = found
    assert found == first
    drawn = [g(zero[:2]).tolist() for _ in range(3)]
    own = random.Generator(3)
    assert [random.uniform((2,), generator=own).tolist() for _ in range(3)] == drawn
    assert fixed(zero[:2]).tolist() == fixed(zero[:2]).tolist(), "a generator made inside begins anew"
    with pytest.raises(TraceError, match="seeds or splits a generator"):
        jit(lambda x: (random.manual_seed(0), x)[1])(X)


def test_a_failed_trace_has_changed_nothing() -> None:
    model, rule, step = training(RULES["adam"], "step", 0.0)
    x, t = mg.asarray(np.ones((4, 3), "f4")), mg.asarray([0, 1, 0, 1])
    step(x, t)
    before = numbers(model.state_dict()), numbers(rule.state_dict()), rule.lr, random.default_generator().state

    def fails(x: Any, t: Any) -> Any:
        loss = step(x, t)
        return float(loss)

    with pytest.raises(TraceError, match="numbers of a tensor"):
        jit(fails)(x, t)
    after = numbers(model.state_dict()), numbers(rule.state_dict()), rule.lr, random.default_generator().state
    assert before == after
    step(x, t)


# ── derivatives ──────────────────────────────────────────────────────────────────────────────────────────────


def f_of(x: Any, y: Any) -> Any:
    return (mg.sin(x) * y**2 / (1 + x * x)).sum()


F, G = jit(f_of), jit(lambda x, y: (x * y, mg.exp(x) @ y))
D = Tensor([[1.0, 0.5], [-0.25, 2.0]], dtype="float64"), Tensor([[0.3, 1.5], [0.7, -1.0]], dtype="float64")

TRANSFORMS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "value": lambda f: lambda x, y: f(x, y),
    "grad": lambda f: grad(f, argnums=(0, 1)),
    "value_and_grad": lambda f: value_and_grad(f),
    "jvp": lambda f: lambda x, y: jvp(f, [x, y], [y, x])[1],
    "hessian": lambda f: lambda x, y: hessian(lambda x: f(x, y))(x),
    "second": lambda f: grad(lambda x, y: (grad(f)(x, y) * y).sum()),
    "jacrev": lambda f: lambda x, y: mg.jacrev(lambda x: grad(f)(x, y))(x),
    "vmap": lambda f: vmap(f),
    "vmap of grad": lambda f: vmap(grad(f)),
    "grad of vmap": lambda f: grad(lambda x, y: vmap(f)(x, y).sum()),
    "checkpoint": lambda f: grad(lambda x, y: mg.checkpoint(f, x, y)),
    "linear": lambda f: lambda x, y: mg.vjp(f, x, y)[1](Tensor(2.0, dtype="float64")),
}


PAIRS = [
    (inner, outer)
    for (i, inner), (j, outer) in itertools.product(enumerate(TRANSFORMS), repeat=2)
    if EXHAUSTIVE or (5 * i + j) % 6 == 0
]


@pytest.mark.parametrize(("inner", "outer"), PAIRS)
def test_jit_inside_and_around_every_transform(outer: str, inner: str) -> None:
    def summed(f: Any) -> Any:
        def scalar(x: Any, y: Any) -> Any:
            found = f(x, y)
            parts = found if isinstance(found, (tuple, list)) else [found]
            return functools.reduce(lambda a, b: a + b, [mg.sin(each).sum() for each in _flat(parts)])

        return scalar

    batched = {"vmap", "vmap of grad", "grad of vmap"}
    if outer in batched and inner in batched:
        args = tuple(x[None] * Tensor([[[1.0]], [[0.5]]], dtype="float64", requires_grad=False) for x in D)
    else:
        args = D
    transformed = TRANSFORMS[outer], TRANSFORMS[inner]
    expected = numbers(transformed[0](summed(transformed[1](f_of)))(*args))
    for found in (
        transformed[0](summed(transformed[1](F)))(*args),
        transformed[0](jit(summed(transformed[1](F))))(*args),
        jit(transformed[0](summed(transformed[1](F))))(*args),
        jit(transformed[0](jit(summed(transformed[1](f_of)))))(*args),
    ):
        _close(numbers(found), expected)


def _flat(parts: Any) -> list[Any]:
    return [each for x in parts for each in (_flat(x) if isinstance(x, (tuple, list)) else [x])]


def _close(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple) and len(expected) == 3 and isinstance(expected[1], str):
        assert found[:2] == expected[:2]
        np.testing.assert_allclose(found[2], expected[2], rtol=1e-9, atol=1e-12)
        return
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        _close(a, b)


def test_backward_through_results_reaches_arguments_and_closures() -> None:
    w = Tensor([[2.0, 0.0], [1.0, 1.0]])
    f = jit(lambda x, y: (x @ w + y, (x * w).sum()))
    for _ in range(2):
        grads = []
        for function in (f, f.__wrapped__):
            x, y = X.detach() * 1, Y.detach() * 1
            x.requires_grad = True
            w.zero_grad()
            a, b = function(x, y)
            (a.sum() * 2 + b).backward()
            assert y.grad is None if y.requires_grad else True
            grads.append((numbers(x.grad), numbers(w.grad)))
        assert grads[0] == grads[1]
    assert f.traces == 1


def test_what_was_saved_is_not_written_unnoticed() -> None:
    f = jit(lambda x, y: (x * y).sum())
    x, y = Tensor([1.0, 2.0]), mg.asarray([3.0, 4.0])
    out = f(x, y)
    y[0] = 100.0
    with pytest.raises(GraphError, match="written in place"):
        out.backward()


def test_complex_gradients() -> None:
    z = Tensor([1 + 2j, 0.5 - 1j], dtype="complex128")
    h = lambda z: (mg.real(z * z * mg.conj(z)) + mg.imag(mg.exp(z))).sum()  # noqa: E731
    _close(numbers(grad(jit(h))(z)), numbers(grad(h)(z)))


# ── what cannot be traced ────────────────────────────────────────────────────────────────────────────────────


def _hooked(x: Any) -> Any:
    w = Tensor([1.0, 2.0])
    w.register_hook(lambda g: g * 2)
    return jit(lambda x: x * w)(x)


LIST: list[Any] = []
BOX: dict[str, Any] = {"n": 1}

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "bool": (lambda: jit(lambda x: x if x.sum() > 0 else -x)(X), r"numbers .*test_jit_tensors\.py, line \d+"),
    "item": (lambda: jit(lambda x: x * x.sum().item())(X), "numbers of a tensor"),
    "float": (lambda: jit(lambda x: x * float(x.sum()))(X), "numbers of a tensor"),
    "numpy": (lambda: jit(lambda x: x.detach().numpy())(X), "numbers of a tensor"),
    "tolist": (lambda: jit(lambda x: x.tolist())(X), "numbers of a tensor"),
    "print": (lambda: jit(lambda x: print(x))(X), "numbers of a tensor"),
    "mask": (lambda: jit(lambda x: x[x > 1])(X), "depends on numbers, and a program has fixed shapes"),
    "unique": (lambda: jit(lambda x: mg.unique_values(x))(X), "depends on numbers, and a program has fixed shapes"),
    "list": (lambda: jit(lambda x: LIST.append(x))(X), "adds to entry 0 of a list"),
    "count": (lambda: jit(lambda x: BOX.__setitem__("n", BOX["n"] + 1))(X), "changes a dict 'n', from 1"),
    "argument": (lambda: jit(lambda d: d.pop("x"))({"x": X}), "changes a list or dict that it was given"),
    "object": (lambda: jit(lambda x: object())(X), "what is in a object would be that of the first call"),
    "hook": (lambda: _hooked(Tensor([1.0, 1.0])), "has hooks"),
    "grad": (lambda: jit(lambda x: setattr(x, "requires_grad", False))(Tensor(1.0)), "requires_grad set"),
    "outside": (lambda: jit(lambda x: (x * 2).sum().backward())(X * X), "a graph that began outside"),
    "elsewhere": (lambda: jit(lambda x: x.to("rawbuffer:0"))(X), "runs on one device"),
    "two devices": (lambda: jit(lambda x, y: x)(X, X.to("rawbuffer:0")), "runs on one device"),
    "array": (lambda: jit(lambda x: x)(np.ones(2)), "make a tensor of it with asarray"),
    "values": (lambda: jit(lambda x, v: x)(X, Value(1.0)), "gets Values and Tensors"),
    "rate": (
        lambda: (lambda r: jit(lambda x: x * (r.lr * x).sum())(X))(optim.SGD([Tensor(1.0)], 0.1)),
        "keep it in a 0-d tensor",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_what_to_do(case: str) -> None:
    call, words = REFUSED[case]
    before = BOX.copy(), LIST.copy()
    with pytest.raises((TraceError, TypeError), match=words):
        call()
    assert before == (BOX, LIST)
    assert X.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert X._kernels is Tensor(0.0)._kernels


def test_a_tensor_that_left_is_refused() -> None:
    def f(x: Any) -> Any:
        _secrets.left = x + 1
        return x + 2

    jit(f)(X)
    with pytest.raises(TraceError, match="has left the function under jit"):
        _secrets.left * 2


def test_errors_of_operations_are_theirs() -> None:
    with pytest.raises(ShapeError, match="matmul"):
        jit(lambda x: x @ mg.zeros((3, 3)))(X)
    f = jit(lambda x: x + 1)
    with pytest.raises(ShapeError):
        jit(lambda x, y: x + y)(X, mg.zeros((3,)))
    assert f(X).tolist() == (X + 1).tolist()


def test_too_many_traces_are_told_with_the_reason() -> None:
    f = jit(lambda x, n: x * n)
    for i in range(8):
        f(X, float(i))
    with pytest.warns(RuntimeWarning, match=r"is traced for the 9th time: .*pass what changes as a tensor"):
        f(X, 8.0)


# ── devices ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("device", ["cpu", "rawbuffer:0", "strict:0"])
def test_every_device_has_it(device: str) -> None:
    place = mg.Device(device)
    with random.use_generator(0):
        model = nn.Sequential(nn.Linear(3, 4, device=place), nn.Tanh(), nn.Linear(4, 1, device=place))
    rule = optim.Adam(model.parameters(), 0.05)

    @jit
    def step(x: Any, t: Any) -> Any:
        rule.zero_grad()
        loss = mg.mse_loss(model(x), t)
        loss.backward()
        rule.step()
        return loss

    with random.use_generator(1):
        x = random.normal((8, 3), device=place)
    t = x.sum(axis=1, keepdims=True)
    losses = [step(x, t).item() for _ in range(30)]
    assert losses[-1] < losses[0] / 3
    assert step.traces == 2


@pytest.mark.parametrize("make", [lambda on: mg.ones(3, device=on) * 2, lambda on: random.uniform((3,), device=on)])
def test_a_function_of_no_tensors_computes_where_it_makes_them(make: Any) -> None:
    made = jit(lambda: make("rawbuffer:0"))
    with random.use_generator(0):
        found = [made() for _ in range(2)]
    with random.use_generator(0):
        wanted = [make("rawbuffer:0") for _ in range(2)]
    assert [x.tolist() for x in found] == [x.tolist() for x in wanted]
    assert {str(x.device) for x in found} == {"rawbuffer:0"}


# ── what surrounds the tensors ───────────────────────────────────────────────────────────────────────────────


def test_a_model_that_is_converted_or_moved_is_traced_anew() -> None:
    model = nn.Linear(2, 2)
    f = jit(lambda x: model(x))
    places: tuple[Any, ...] = (("cpu", "float32"), ("cpu", "float64"), ("rawbuffer:0", "float64"), ("cpu", "float32"))
    for device, dtype in places:
        model.to(device, dtype)
        x = X.detach().to(device, dtype)
        found, wanted = f(x), model(x)
        assert (found.dtype, found.device) == (wanted.dtype, wanted.device)
        np.testing.assert_allclose(found.tolist(), wanted.tolist(), rtol=1e-6)
    bare = jit(lambda: model.weight * 2)
    for each in ("float32", "float64", "float32"):
        model.to(dtype=each)
        assert bare().dtype.name == each


def test_parameters_may_have_taken_different_numbers_of_steps() -> None:
    found = []
    for compiled in (False, True):
        p, q = Tensor([1.0, 2.0]), Tensor([3.0])
        rule = optim.Adam([p, q], 0.1)

        def step(x: Any, p: Any = p, q: Any = q, rule: Any = rule) -> None:
            rule.zero_grad()
            ((p * x).sum() * q).sum().backward()
            rule.step()

        def alone(p: Any = p, rule: Any = rule) -> None:
            rule.zero_grad()
            (p * p).sum().backward()
            rule.step()

        f = jit(step) if compiled else step
        x = mg.asarray([1.0, -1.0])
        for own in (1, 3, 1):
            for _ in range(3):
                f(x)
            for _ in range(own):
                alone()
        found.append((p.tolist(), q.tolist(), [state["step"] for state in rule.state]))
    assert found[0][2] == found[1][2] == [14, 9]
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-5)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-5)


def test_what_an_optimiser_kept_before_a_call_stays_as_it_was() -> None:
    p = Tensor([1.0, 2.0])
    rule = optim.Adam([p], 0.1)

    @jit
    def step(x: Any) -> None:
        rule.zero_grad()
        (p * x).sum().backward()
        rule.step()

    for _ in range(3):
        step(mg.asarray([1.0, 2.0]))
    before = rule.state
    held = [dict(state) for state in before]
    step(mg.asarray([1.0, 2.0]))
    assert [state["step"] for state in rule.state] == [4]
    for state, was in zip(before, held, strict=True):
        assert all(state[name] is was[name] for name in was)


# ── gradients of what is returned ────────────────────────────────────────────────────────────────────────────


def spun(x: Any, y: Any) -> Any:
    return x * x * (1 + 2j) + mg.conj(x) * y


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_of_complex_results_are_those_without_jit(create_graph: bool) -> None:
    def gradients(f: Any) -> list[Any]:
        x = Tensor([1.0 + 2.0j, -0.5 + 0.25j], dtype="complex128")
        y = Tensor([0.5 - 1.5j, 2.0 + 1.0j], dtype="complex128")
        mg.real(f(x, y) * (0.5 - 3j)).sum().backward(create_graph=create_graph)
        return [x.grad.tolist(), y.grad.tolist()]

    found, expected = gradients(jit(spun)), gradients(spun)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert abs(np.imag(expected)).min() > 0.1, "a conjugate shows"


def test_second_gradients_of_complex_results_are_those_without_jit() -> None:
    def gradients(f: Any) -> list[Any]:
        x = Tensor([1.0 + 2.0j, -0.5 + 0.25j], dtype="complex128")
        y = Tensor([0.5 - 1.5j, 2.0 + 1.0j], dtype="complex128")
        mg.real(f(x, y) * f(x, y) * (0.5 - 3j)).sum().backward(create_graph=True)
        first, x.grad = x.grad, None
        mg.imag(first * first * (2 + 1j)).sum().backward()
        return [first.tolist(), x.grad.tolist(), y.grad.tolist()]

    np.testing.assert_allclose(gradients(jit(spun)), gradients(spun), rtol=1e-12)


def test_a_gradient_that_is_recorded_leads_on_to_every_argument() -> None:
    def gradients(f: Any) -> list[Any]:
        x, y = (Tensor(numbers, dtype="float64") for numbers in ([0.3, -1.2, 2.0], [1.5, 0.5, -0.7]))
        a, b = f(x, y)
        (a * mg.sin(b)).sum().backward(create_graph=True)
        dx, dy, x.grad, y.grad = x.grad, y.grad, None, None
        (dx * dx + mg.cos(dy) * x).sum().backward()
        return [dx.tolist(), dy.tolist(), x.grad.tolist(), y.grad.tolist()]

    def two(x: Any, y: Any) -> Any:
        return x * mg.exp(y), x**3 * y

    np.testing.assert_allclose(gradients(jit(two)), gradients(two), rtol=1e-12)


def test_views_of_memory_that_a_tensor_was_given_as_its_data_see_writes() -> None:
    def scene(wrap: Any) -> list[Any]:
        base = mg.zeros((4,))
        early = base[:2]
        base.data = mg.zeros((4,))
        view = base[1:3]

        @wrap
        def fill(x: Any) -> Any:
            view[...] = view * 2.0 + x[1:3]
            return base * 1.0, view + early.sum()

        found = [[each.tolist() for each in fill(mg.asarray([1.0, 2.0, 3.0, 4.0]))] for _ in range(3)]
        return [found, base.tolist(), view.tolist(), early.tolist()]

    assert scene(jit) == scene(lambda f: f)


def test_what_a_traced_call_was_given_goes_without_the_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        f, x = jit(lambda x: {"double": [x * 2.0]}), mg.ones((4,))
        f(x)
        gone = weakref.ref(x)
        del x
        assert gone() is None
    finally:
        gc.enable()
