"""Programs with mistakes. A checker must find each line that ends in ``# no``, and no other."""

from typing import Any

import micrograd_core as mg
from micrograd_core import (
    MLP,
    Device,
    Neuron,
    Tensor,
    Value,
    grad,
    jit,
    linalg,
    nn,
    optim,
    random,
    value_and_grad,
    vmap,
)
from micrograd_core.nn import functional as F  # noqa: N812
from micrograd_core.ops.record import Handle, Table


def cube(x: Tensor) -> Tensor:
    return x**3


def scaled(x: Tensor, factor: float, *, power: int = 2) -> Tensor:
    return factor * x**power


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        self.inner = nn.Linear(width, width)

    def forward(self, x: Tensor, *, factor: float = 1.0) -> Tensor:
        return x + self.inner(x) * factor


def names(x: Tensor) -> None:
    mg.sine(x)  # no
    mg.relu_gradient(x, x)  # no
    mg.import_module("os")  # no
    print(mg.float31)  # no
    x.summ()  # no
    x.grad.tolst()  # no
    x.shapes  # no
    linalg.determinant(x)  # no
    mg.linalg.Any  # no
    mg.fft.rfftt(x)  # no
    random.normals((2,))  # no
    nn.Relu()  # no
    nn.mean_loss(x, x)  # no
    optim.Adan([x])  # no
    optim.annotations  # no
    linalg.svd(x).V  # no
    mg.topk(x, 3).value  # no
    x.at[0].put(1.0)  # no
    mg.errors.ShapesError  # no
    mg.amp.auto_cast()  # no


def arguments(x: Tensor) -> None:
    mg.sin()  # no
    mg.sin(x, x)  # no
    mg.sin("1")  # no
    mg.sin(y=x)  # no
    mg.softmax(x, dimension=1)  # no
    F.softmax(x, axes=1)  # no
    F.normalize(x, axis="0")  # no
    F.pairwise_distance(x, x, keep=True)  # no
    F.rellu(x)  # no
    x.unsqueeze(axis="0")  # no
    mg.sum(x, axes=0)  # no
    mg.concat(x, axs=0)  # no
    mg.where(x)  # no
    mg.conv2d(x, x, strides=2)  # no
    mg.zeros()  # no
    mg.zeros((2,), dtyp="float32")  # no
    mg.arange(3, stepp=2)  # no
    mg.dropout(x, 0.5, train=True)  # no
    mg.einsum(3, x)  # no
    linalg.qr(x, modus="reduced")  # no
    linalg.eigh(x, upper=True)  # no
    random.normal((2,), sd=1.0)  # no
    x.sum(axes=0)  # no
    x.sum(0, False, 1)  # no
    x.exp(2)  # no
    x.softmax(axis="0")  # no
    x.var(correct=1.0)  # no
    x.to(devise="cpu")  # no
    x.backward(retain=True)  # no
    x.transpose(dim=0)  # no
    x["a"]  # no
    x[0] = "a"  # no
    Tensor([1.0], require_grad=True)  # no
    Device(3)  # no


def operators(x: Tensor) -> int:
    x + "a"  # no
    x @ "a"  # no
    x < "a"  # no
    x += "a"  # no
    for i in x.shape:
        i.real.sqrt()  # no
    if mg.any(x).item():
        return x  # no
    return mg.argmax(x)  # no


def modules(x: Tensor) -> None:
    model = Residual("4")  # no
    model(x, 2.0)  # no
    model(x, scale=2.0)  # no
    model("x")  # no
    model()  # no
    model.iner(x)  # no
    model.extra = 3  # no
    nn.Linear(2)  # no
    nn.Linear(2, 3, biass=False)  # no
    nn.Linear(2, 3)(x, x)  # no
    nn.GELU(aproximate="tanh")  # no
    nn.GELU()(x, x)  # no
    nn.LeakyReLU("a")  # no
    nn.CrossEntropyLoss(smoothing=0.1)  # no
    nn.CrossEntropyLoss()(x)  # no
    nn.MaxPool2d()  # no
    nn.Dropout(rate=0.5)  # no
    nn.MultiheadAttention(8, 2)(x, causal=True)  # no
    nn.Sequential(3)  # no
    nn.Sequential(nn.ReLU())["a"]  # no
    nn.summary(3)  # no
    nn.mse_loss(x, x, reduce="sum")  # no
    model.load_state_dict({}, stric=False)  # no
    model.load_state_dict({}).missing  # no
    model.double(3)  # no
    optim.Adam(model.parameters(), learning_rate=0.1)  # no
    optim.SGD(model.parameters()).stepp()  # no
    optim.clip_grad_norm(model.parameters(), norm=1.0)  # no


def transforms(x: Tensor) -> None:
    grad(3)  # no
    grad(cube, argnum=1)  # no
    grad(cube)(x, x)  # no
    grad(cube)("x")  # no
    grad(cube)(x).tolst()  # no
    grad(scaled)(x)  # no
    grad(scaled)(x, 2.0, pow=3)  # no
    value_and_grad(cube)(x)[0].tolst()  # no
    vmap(cube)("x")  # no
    vmap(cube, in_axis=0)  # no
    vmap(cube)(x).tolst()  # no
    jit(cube)(x, x)  # no
    jit(cube)(x).tolst()  # no
    jit(cube).lowr(x)  # no
    jit(cube, static=("x",))  # no
    mg.hessian(cube, argnum=0)  # no


def scalars(v: Value) -> Any:
    v + "a"  # no
    v.relo()  # no
    v.relu(1)  # no
    v.exp().sinn()  # no
    v.data.exp()  # no
    Value()  # no
    Value(1.0, devise="cpu")  # no
    v.backward(1)  # no
    MLP(2)  # no
    MLP(2, [1])(3)  # no
    MLP(2, [1])("ab")  # no
    MLP(2, [1])([v, "a"])  # no
    MLP(2, [1])([v, 1.0]).backwrd()  # no
    MLP(2, [1])([v, 1.0])["a"]  # no
    MLP(2, [2])([v, 1.0])[0].dat  # no
    Neuron(2)([v, 1.0])[0]  # no
    Neuron(2)([v, 1.0]).summ  # no
    Neuron(2).b.shape  # no
    MLP(2, [1])(Tensor([[1.0, 2.0]])).tolst()  # no
    return v.exp


def rules(k: Table, g: Handle, x: Handle) -> Handle:
    k.multply(g, x)  # no
    k.multiply(g)  # no
    k.multiply(g, "x")  # no
    k.multiply(x1=g, x2=x)  # no
    k.sum(x, axes=(0,), keepdims=False)  # no
    k.sum(x, axis=(0,))  # no
    k.sum(x, axis="0", keepdims=False)  # no
    k.sum(x, (0,), False)  # no
    k.softmax(x, dim=-1)  # no
    k.reshape(2.0, shape=(1,))  # no
    k.svd(x, full_matrices=False).shape  # no
    k.exp(x).shapes  # no
    k.allocate((2,))  # no
    x.strides  # no
    return x.shape  # no


def words_of_others(x: Tensor) -> None:
    x.size("rows")  # no
    x.size(0, 1)  # no
    x.size().shape  # no
    x.nbytes()  # no
    x.squeeze_()  # no
    x.add_()  # no
    x.normal_(mu=0.0)  # no
    x.transpose(dim=0)  # no
    x.clamp_(minimum=0)  # no
    mg.cat([x, x])  # no
    mg.randn(2, 3)  # no
    mg.random.rand(3)  # no
    mg.random.normal(size=3)  # no
    nn.LazyLinear(3)  # no
    mg.optim.swa_utils  # no
    mg.linalg.norm(x)  # no
    mg.fft.fft2(x)  # no
