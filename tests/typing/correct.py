"""Programs as users write them, with types: all of it must pass. Each ``assert_type`` says what a checker must know."""

from collections.abc import Callable, Iterator
from typing import Any, assert_type

import numpy as np

import micrograd_core as mg
from micrograd_core import (
    MLP,
    Device,
    Layer,
    Neuron,
    Tensor,
    Value,
    asarray,
    grad,
    jit,
    linalg,
    nn,
    no_grad,
    optim,
    random,
    value_and_grad,
    vmap,
)
from micrograd_core.engine.apply import Recorded
from micrograd_core.fft import rfft
from micrograd_core.interpreters.expressions import Expressions
from micrograd_core.interpreters.floats import Floats
from micrograd_core.interpreters.raw import Kernels
from micrograd_core.nn import functional as F  # noqa: N812
from micrograd_core.ops.record import Handle, Table
from micrograd_core.transforms.vmap import BatchTable


def operators(x: Tensor, y: Tensor) -> Tensor:
    z = x @ y.mT + 1
    assert_type(z, Tensor)
    assert_type(z + 1, Tensor)
    assert_type(2.0 / z - z**2 // 3 % 5, Tensor)
    assert_type(-abs(z) < 0.5, Tensor)
    assert_type(z == y, Tensor)
    assert_type(z != 1, Tensor)
    z += 1
    z *= np.ones(3, dtype="float32")
    z[0, :, None, ...] = 0.0
    z[z > 0] = np.float32(1.0)
    assert_type(z[0], Tensor)
    assert_type(z[[0, 1], 1:], Tensor)
    assert_type(z[np.array([0])], Tensor)
    w = z.at[0].set(1.0)
    assert_type(z.shape, tuple[int, ...])
    for row in z:
        assert_type(row, Tensor)
    return w


def methods(x: Tensor) -> float:
    assert_type(x.exp().sum(axis=0, keepdims=True), Tensor)
    assert_type(x.mean((0, 1)).var(axis=-1, correction=1.0).softmax(-1), Tensor)
    assert_type(x.reshape(2, -1).transpose(0, 1).T, Tensor)
    assert_type(x.to("cuda:0", dtype="float16").cpu(), Tensor)
    assert_type(x.to(mg.float32).to(device=Device("cpu")), Tensor)
    x.backward(retain_graph=True)
    if x.grad is not None:
        assert_type(x.grad * 2, Tensor | Any)
        x.data -= 0.1 * x.grad
    handle = x.register_hook(lambda g: g * 2)
    handle.remove()
    with no_grad():
        x.zero_grad()
    return float(x.sum().item())


def spellings(x: Tensor) -> None:
    assert_type(F.softmax(x, -1) + F.softmax(x, dim=0) + F.softmax(x, axis=0), Tensor)
    assert_type(F.log_softmax(x, axis=1, dtype="float32"), Tensor)
    assert_type(F.softmin(x, axis=1), Tensor)
    assert_type(F.glu(x, axis=1), Tensor)
    assert_type(F.gumbel_softmax(x, axis=1, hard=True), Tensor)
    assert_type(F.normalize(x, p=1, axis=0), Tensor)
    assert_type(F.cosine_similarity(x, x, axis=0), Tensor)
    assert_type(F.pairwise_distance(x, x, keepdims=True), Tensor)
    assert_type(mg.sum(x, dim=0, keepdim=True), Tensor)
    assert_type(mg.permute_dims(x, dims=(1, 0)), Tensor)
    assert_type(mg.index_select(x, axis=0, index=x), Tensor)
    assert_type(mg.norm(x, p=1, dim=0, keepdim=True), Tensor)
    assert_type(x.softmax(dim=0).unsqueeze(axis=0).narrow(0, 0, 1), Tensor)
    assert_type(x.scatter_add(axis=0, index=x, src=x).unbind(axis=0)[0], Tensor)


def functions(x: Tensor) -> list[Tensor]:
    assert_type(mg.sin(x), Tensor)
    assert_type(mg.sin([1.0, 2.0]), Tensor)
    assert_type(mg.add(x, 1), Tensor)
    assert_type(mg.softmax(x, axis=-1), Tensor)
    assert_type(mg.where(x > 0, x, 0.0), Tensor)
    assert_type(mg.concat([x, x], axis=0), Tensor)
    assert_type(mg.einsum("ij,jk->ik", x, x), Tensor)
    assert_type(mg.clip(x, min=0), Tensor)
    assert_type(mg.conv2d(x, x, None, stride=2, padding="same"), Tensor)
    assert_type(mg.dropout(np.ones(3), 0.5, training=False), Tensor)
    assert_type(mg.zeros((2, 3), dtype="float64", device="cpu"), Tensor)
    assert_type(mg.pad(x, ((1, 1), (0, 0)), constant_values=1.0), Tensor)
    values, indices = mg.topk(x, 3)
    assert_type(values, Tensor)
    q, r = linalg.qr(x)
    assert_type(linalg.svd(x, full_matrices=False).S, Tensor)
    assert_type(linalg.solve(q, r), Tensor)
    assert_type(rfft(x, n=8), Tensor)
    assert_type(random.normal((2, 3), std=0.5), Tensor)
    assert_type(mg.linalg.det(x), Tensor)
    assert_type(mg.pi, float)
    return [values, indices, asarray([1, 2]), mg.arange(3)]


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(approximate="tanh"), nn.Linear(2 * width, width)
        )
        self.scale = nn.parameter((width,), "ones")

    def forward(self, x: Tensor, *, factor: float = 1.0) -> Tensor:
        return x + self.inner(self.norm(x)) * self.scale * factor


def modules(x: Tensor, labels: Tensor) -> None:
    model = Residual(4)
    assert_type(model(x), Tensor)
    assert_type(model(x, factor=2.0), Tensor)
    assert_type(model.inner(x), Tensor)
    assert_type(model.inner[0], nn.Module)
    assert_type(model.inner[:2], nn.Sequential)
    assert_type(nn.ReLU()(x), Tensor)
    assert_type(nn.LeakyReLU(0.2)(x), Tensor)
    assert_type(nn.CrossEntropyLoss(label_smoothing=0.1)(x, labels), Tensor)
    assert_type(nn.MaxPool2d(2, stride=1)(x), Tensor)
    assert_type(nn.MultiheadAttention(8, 2)(x, is_causal=True), Tensor)
    assert_type(nn.Identity()(x), Tensor)
    assert_type(model.to(dtype="float64").half().eval(), Residual)
    assert_type(nn.mse_loss(x, labels, reduction="sum"), Tensor)
    state = model.state_dict()
    missing, _ = model.load_state_dict(state, strict=False)
    assert_type(missing, list[str])
    for name, p in model.named_parameters():
        assert_type(p, Tensor)
        print(name, p.shape)
    print(nn.summary(model, x), model)


def learning(model: nn.Module, batches: Iterator[tuple[Tensor, Tensor]]) -> list[float]:
    rule = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = optim.Schedule(rule, optim.linear_warmup(5, optim.cosine(100)))
    losses = []
    for x, labels in batches:
        loss = nn.cross_entropy(model(x), labels)
        rule.zero_grad()
        loss.backward()
        optim.clip_grad_norm(model.parameters(), 1.0)
        rule.step()
        schedule.step()
        losses.append(float(loss.item()))
    return losses


def cube(x: Tensor) -> Tensor:
    return x**3


def scaled(x: Tensor, factor: float, *, power: int = 2) -> Tensor:
    return factor * x**power


def loss_of(params: dict[str, Tensor], x: Tensor) -> Tensor:
    return ((x @ params["w"] + params["b"]) ** 2).mean()


def transforms(x: Tensor, params: dict[str, Tensor]) -> None:
    assert_type(grad(cube)(x), Tensor)
    assert_type(grad(grad(cube))(x) + 1, Tensor)
    assert_type(grad(scaled)(x, 2.0, power=3), Tensor)
    print(grad(lambda x: x**3)(x), grad(grad(lambda x: x**3))(x), grad(lambda p: p["w"] ** 2)(params))
    value, slope = value_and_grad(cube)(x)
    assert_type(value, Tensor)
    assert_type(slope, Tensor)
    gradients = grad(loss_of)(params, x)
    print(gradients["w"].shape)
    both = grad(loss_of, argnums=(0, 1))(params, x)
    print(both[1].shape)
    assert_type(vmap(cube)(x), Tensor)
    print(vmap(lambda a, b: a @ b, in_axes=(0, None))(x, x))
    compiled = jit(cube)
    assert_type(compiled(x), Tensor)
    print(compiled.traces, compiled.program)
    assert_type(step(x, 0.5), Tensor)
    print(mg.jvp(cube, (x,), (x,)), mg.hessian(cube)(x), mg.vjp(cube, x))
    assert_type(mg.checkpoint(cube, x), Tensor)


@jit
def step(x: Tensor, rate: float) -> Tensor:
    return x - rate * grad(cube)(x)


def scalars(n: Neuron) -> float:
    a, b = Value(2.0), Value(-3)
    c = a * b + b**3 - 1 / a
    assert_type(c, Value)
    assert_type(2 * c.relu().exp().tanh() + 1, Value)
    assert_type(c < 1.0, bool)
    total = sum([a, b], Value(0.0))
    c.backward()
    model = MLP(2, [4, 1])
    y = model([a, 1.0])
    y.backward()
    assert_type(y.data + y.relu().grad, float)
    assert_type((y - 1.0) ** 2, Value)
    several = Layer(2, 2)([a, b])
    assert_type(several[0], Value)
    assert_type([v.data for v in several], list[float])
    taken: Value | list[Value] = model(v for v in several)
    assert_type(sum(several[1:], Value(0.0)), Value)
    assert_type(n([a, b]), Value)
    assert_type(n(Tensor([[1.0, 2.0]])), Tensor)
    assert_type(n.w[0] * n.b, Value)
    assert_type(model(Tensor([[1.0, 2.0]])), Tensor)
    for p in model.parameters():
        p.data -= 0.1 * p.grad
    nodes: set[Any] = c._prev
    print(c._op, nodes, n.w, total, taken)
    return a.grad + a.data


def rule(k: Table, g: Handle, out: Handle, x: Handle, axis: tuple[int, ...]) -> Handle:
    slope = k.multiply(k.subtract(1, out), 0.5)
    assert_type(slope, Handle)
    assert_type(x.shape, tuple[int, ...])
    vectors, values, _ = k.svd(k.where(k.less(0, x), x, 0.0), full_matrices=False)
    return k.sum(k.add(k.multiply(g, slope), k.matmul(vectors, values)), axis=axis, keepdims=True)


class Sine(nn.Call, operation="sin"): ...


activation: Callable[[Tensor], Tensor] = Sine()


def words_of_others(x: Tensor) -> Tensor:
    size: int = x.element_size() * x.numel() + x.nbytes + x.size + x.size(0) + x.size(dim=-1) + len(x.size())
    real: bool = x.is_floating_point() and not x.is_complex()
    x.data.normal_(0.0, 0.02)
    x.copy_(x.transpose(dim0=0, dim1=1)).zero_()
    x.eq_(1.0).logical_not_()
    print(size, real)
    return x.add_(1.0).mul_(2).clamp_(0, 1).H + x.real + x.new_empty(2, 3).fill_(1.0) + x.byte().double()


def interpreters(a: Kernels, b: Recorded, c: BatchTable, d: Floats, e: Expressions) -> tuple[Table, ...]:
    """All interpreters of the op table do what `Table` asks for."""
    return a, b, c, d, e  # pyright: ignore  # it takes no `__getattr__` for members of a protocol
