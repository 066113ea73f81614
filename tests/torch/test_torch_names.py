"""`micrograd_core.torch` beside PyTorch, where that is installed; and what needs no PyTorch to be known."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
import micrograd_core.torch as torch
from micrograd_core.checkpoints import CheckpointError
from micrograd_core.errors import GraphError, ShapeError
from micrograd_core.torch import nn

X = np.array([[3.0, -1.0, 2.0], [0.5, 2.0, 2.0]], dtype="float32")
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda t, x: t.add(x, x, alpha=2),
    "addcdiv": lambda t, x: t.addcdiv(x, x, x + 4, value=0.5),
    "addcmul": lambda t, x: t.addcmul(x, x, x, value=0.5),
    "addmm": lambda t, x: t.addmm(t.ones(2, 2), x, x.T, beta=2, alpha=3),
    "arange": lambda t, x: t.cat([t.arange(3), t.arange(1, 7, 2), t.arange(end=2)]),
    "arange of floats": lambda t, x: t.arange(0.0, 1.0, 0.25),
    "as_tensor": lambda t, x: t.as_tensor([1, 2]),
    "baddbmm": lambda t, x: t.baddbmm(t.ones(1, 2, 2), x[None], x.T[None]),
    "bmm": lambda t, x: t.bmm(x[None], x.T[None]),
    "cat": lambda t, x: t.cat([x, x], dim=1),
    "chunk": lambda t, x: t.chunk(x, 3, dim=1)[1],
    "clamp": lambda t, x: t.clamp(x, min=0.0, max=2.0),
    "clamp_max": lambda t, x: t.clamp_max(x, 1.0),
    "clamp_min": lambda t, x: t.clamp_min(x, 1.0),
    "cumsum": lambda t, x: t.cumsum(x, dim=1),
    "deg2rad": lambda t, x: t.deg2rad(x),
    "div": lambda t, x: t.div(x, 2.0, rounding_mode="floor"),
    "div, trunc": lambda t, x: t.div(x, 2.0, rounding_mode="trunc"),
    "dot": lambda t, x: t.dot(x[0], x[1]),
    "einsum": lambda t, x: t.einsum("ij,kj->ik", x, x),
    "empty_like": lambda t, x: t.empty_like(x).fill_(1.0),
    "eq": lambda t, x: t.eq(x, 2.0),
    "equal": lambda t, x: t.tensor(t.equal(x, x.clone())),
    "eye": lambda t, x: t.eye(2, 3),
    "flatten": lambda t, x: t.flatten(x[None], 1),
    "full": lambda t, x: t.full((2, 2), 3.5),
    "full_like": lambda t, x: t.full_like(x, 2.0),
    "gather": lambda t, x: t.gather(x, 1, t.tensor([[0], [2]])),
    "hstack": lambda t, x: t.hstack([x, x]),
    "isnan": lambda t, x: t.isnan(x),
    "linspace": lambda t, x: t.linspace(0, 1, steps=5),
    "logical_not": lambda t, x: t.logical_not(x > 0),
    "masked_fill": lambda t, x: x.masked_fill(x > 1, -1.0),
    "max": lambda t, x: t.max(x),
    "max along": lambda t, x: t.max(x, 1)[1],
    "max, keepdim": lambda t, x: t.max(x, dim=0, keepdim=True).values,
    "max of two": lambda t, x: t.max(x, t.zeros(2, 3)),
    "mean": lambda t, x: t.mean(x, [0, 1]),
    "median": lambda t, x: t.median(x),
    "median along": lambda t, x: t.median(x, 1).values,
    "meshgrid": lambda t, x: t.meshgrid(t.arange(2), t.arange(3), indexing="ij")[1],
    "min along": lambda t, x: x.min(dim=1).indices,
    "mm": lambda t, x: t.mm(x, x.T),
    "mul": lambda t, x: t.mul(x, x),
    "ne": lambda t, x: t.ne(x, 2.0),
    "nonzero": lambda t, x: t.nonzero(x > 1),
    "nonzero, tuple": lambda t, x: t.nonzero(x > 1, as_tuple=True)[1],
    "norm": lambda t, x: t.norm(x),
    "norm along": lambda t, x: t.norm(x, p=1, dim=1, keepdim=True),
    "ones": lambda t, x: t.ones(2, 3),
    "ones_like": lambda t, x: t.ones_like(x, dtype=t.long),
    "outer": lambda t, x: t.outer(x[0], x[1]),
    "permute": lambda t, x: t.permute(x[None], (2, 0, 1)),
    "pow": lambda t, x: t.pow(x, 2),
    "rad2deg": lambda t, x: t.rad2deg(x),
    "repeat": lambda t, x: x.repeat(2, 1),
    "roll": lambda t, x: t.roll(x, shifts=1, dims=1),
    "searchsorted": lambda t, x: t.searchsorted(t.tensor([1.0, 2.0, 3.0]), t.tensor([2.0]), right=True),
    "softmax": lambda t, x: t.softmax(x, dim=-1),
    "sort": lambda t, x: t.sort(x, dim=1, descending=True)[0],
    "split": lambda t, x: t.split(x, [1, 2], dim=1)[1],
    "squeeze": lambda t, x: t.squeeze(x[None], 0),
    "stack": lambda t, x: t.stack([x, x], dim=1),
    "std": lambda t, x: t.std(x),
    "std along": lambda t, x: t.std(x, dim=1, keepdim=True),
    "std, biased": lambda t, x: t.std(x, 0, False),
    "std_mean": lambda t, x: t.stack(list(t.std_mean(x, dim=0))),
    "sub": lambda t, x: t.sub(x, 1, alpha=3),
    "sum": lambda t, x: t.sum(x, 1, True),
    "tensor": lambda t, x: t.tensor([[1, 2], [3, 4]], dtype=t.float),
    "tile": lambda t, x: t.tile(x, (2, 1)),
    "topk": lambda t, x: t.topk(x, k=2, dim=1).values,
    "transpose": lambda t, x: t.transpose(x, 0, 1),
    "tril": lambda t, x: t.tril(x, diagonal=-1),
    "triu": lambda t, x: t.triu(x, 1),
    "unbind": lambda t, x: t.unbind(x, dim=1)[2],
    "unique": lambda t, x: t.unique(x, return_counts=True)[1],
    "unsqueeze": lambda t, x: t.unsqueeze(x, 1),
    "var": lambda t, x: t.var(x, dim=(0, 1), correction=0),
    "var_mean": lambda t, x: t.stack(list(t.var_mean(x, dim=1, keepdim=True))),
    "vstack": lambda t, x: t.vstack([x[0], x[1]]),
    "where": lambda t, x: t.where(x > 1, x, 0.0),
    "where, places": lambda t, x: t.where(x > 1)[0],
    "zeros": lambda t, x: t.zeros((2, 3), dtype=t.double),
    "zeros_like": lambda t, x: t.zeros_like(x),
    "x.float": lambda t, x: (x > 1).float() * 2,
    "x.to": lambda t, x: x.long().to(x),
    "integers": lambda t, x: t.arange(3) * 0.5 + t.arange(3) / 2 + x.sum().long(),
    "F.pad": lambda t, x: t.nn.functional.pad(x, (1, 0)),
    "F.one_hot": lambda t, x: t.nn.functional.one_hot(t.tensor([0, 2]), 3),
    "F.gelu": lambda t, x: t.nn.functional.gelu(x),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_gives_what_torch_gives(name: str) -> None:
    theirs = pytest.importorskip("torch")
    found, wanted = CALLS[name](torch, torch.tensor(X)), CALLS[name](theirs, theirs.tensor(X))
    assert tuple(found.shape) == tuple(wanted.shape)
    assert str(found.dtype) == str(wanted.dtype).removeprefix("torch.")
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-6)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_runs(name: str) -> None:
    assert isinstance(CALLS[name](torch, torch.tensor(X)), torch.Tensor)


def test_names_are_there() -> None:
    assert torch.float32 is mg.float32 is torch.float
    assert torch.long is mg.int64
    assert isinstance(torch.device("cpu"), torch.device)
    assert torch.is_tensor(torch.Tensor(2, 3)) and torch.Tensor(2, 3).shape == (2, 3)  # noqa: PT018
    assert not torch.FloatTensor([1.0]).requires_grad
    assert torch.cuda.device_count() == int(torch.cuda.is_available()) or torch.cuda.is_available()
    torch.backends.cudnn.benchmark = True
    with pytest.raises(AttributeError, match="lstsq"):
        torch.lstsq  # noqa: B018
    with torch.inference_mode():
        assert not (torch.ones(2, requires_grad=True) * 2).requires_grad
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_integers_may_be_floats() -> None:
    x, f = torch.zeros(50), torch.float32
    for drawn in (torch.randint_like(x, 5), torch.randint_like(x, high=5), torch.randint(5, (50,), dtype=f)):
        assert drawn.dtype == torch.float32
        assert set(drawn.tolist()) == {0.0, 1.0, 2.0, 3.0, 4.0}
    assert torch.randint(5, (2,), dtype=torch.int16).dtype == torch.int16
    assert torch.randint(5, (2,), dtype=None).dtype == torch.int64


def test_a_tensor_of_a_tensor_is_a_copy_as_asked() -> None:
    x = torch.ones(2, requires_grad=True)
    copy = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    assert (copy.dtype, copy.requires_grad, copy.is_leaf) == (torch.float64, True, True)
    assert not torch.tensor(x).requires_grad


def test_random_numbers_repeat_with_their_seed() -> None:
    def drawn(generator: Any = None) -> list[Any]:
        options = {} if generator is None else {"generator": generator}
        return [
            torch.rand(2, 3, **options).tolist(),
            torch.randn((4,), **options).tolist(),
            torch.randint(3, (5,), **options).tolist(),
            torch.randperm(6, **options).tolist(),
            torch.bernoulli(torch.full((4,), 0.5), **options).tolist(),
            torch.multinomial(torch.tensor([1.0, 2.0, 3.0]), 2, **options).tolist(),
        ]

    torch.manual_seed(3)
    first = drawn()
    torch.manual_seed(3)
    assert drawn() == first
    generators = [torch.Generator().manual_seed(5) for _ in range(2)]
    assert drawn(generators[0]) == drawn(generators[1])


def test_multinomial_draws_by_weight() -> None:
    torch.manual_seed(0)
    weights = torch.tensor([[0.0, 1.0, 3.0], [2.0, 2.0, 0.0]])
    for replacement, samples in ((True, 4000), (False, 2)):
        places = torch.multinomial(weights, samples, replacement=replacement).numpy()
        assert not (places[0] == 0).any()
        assert not (places[1] == 2).any()
        if replacement:
            assert abs((places[0] == 2).mean() - 0.75) < 0.03
        else:
            assert sorted(places[0].tolist()) == [1, 2]
    with pytest.raises(ShapeError, match="3 places without replacement of 2"):
        torch.multinomial(weights, 3)


def test_modules_answer_as_torchs_do() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)
            self.scale = nn.Parameter(torch.ones(2))
            self.fixed = nn.Parameter(torch.zeros(2), requires_grad=False)
            self.register_buffer("mask", torch.ones(2))
            self.register_buffer("passing", torch.ones(2), persistent=False)
            self.plain, self.several = torch.ones(2), [nn.Linear(1, 1)]

        def forward(self, x: Any) -> Any:
            return self.inner(x) * self.scale

    model = Block()
    assert [name for name, _ in model.named_parameters()] == ["scale", "fixed", "inner.weight", "inner.bias"]
    assert list(model.state_dict()) == ["scale", "fixed", "mask", "inner.weight", "inner.bias"]
    assert [name for name, _ in model.named_children()] == ["inner"]
    assert isinstance(model.inner, nn.Module)
    assert isinstance(model.scale, nn.Parameter)
    assert isinstance(model.fixed, nn.Parameter)
    assert isinstance(model.mask, nn.Buffer)
    assert not isinstance(model.inner, Block)
    parameters = model.parameters()
    assert next(parameters) is model.scale
    assert next(parameters) is model.fixed
    assert model.get_submodule("inner") is model.inner
    assert model.get_parameter("inner.bias") is model.inner.bias
    with pytest.raises(AttributeError, match="no module 'outer'; it has inner"):
        model.get_submodule("outer")
    model.requires_grad_(False)
    assert len(model.parameters()) == 4
    assert all(p.requires_grad for p in model.requires_grad_(True).parameters())
    model.load_state_dict(model.state_dict())
    with torch.no_grad():
        model.state_dict()["scale"].copy_(torch.tensor([7.0, 8.0]))
        model.state_dict()["inner.bias"].fill_(3.0)
    assert model.scale.tolist() == [7.0, 8.0]
    assert model.inner.bias.tolist() == [3.0, 3.0]


def test_hooks_of_modules_run_until_they_are_removed() -> None:
    model = nn.Linear(1, 1, bias=False)
    model.weight.data = torch.tensor([[2.0]])
    seen: list[Any] = []
    before = model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    with model.register_forward_hook(lambda module, args, out: seen.append((args[0].item(), out.item()))):
        assert model(torch.tensor([[1.0]])).item() == 4.0
    assert seen == [(2.0, 4.0)]
    after = model.register_forward_hook(lambda module, args, out: out * 10)
    assert model(torch.tensor([[1.0]])).item() == 40.0
    before.remove()
    after.remove()
    after.remove()
    assert model(torch.tensor([[1.0]])).item() == 2.0


def test_a_dict_of_modules_has_them_as_attributes() -> None:
    held = nn.ModuleDict({"a": nn.Linear(1, 1)})
    assert held.a is held["a"]
    with pytest.raises(AttributeError, match="no attribute and no key 'b'"):
        held.b  # noqa: B018


SCHEMES: dict[str, Callable[[Any, Any], Any]] = {
    "uniform_": lambda init, w: init.uniform_(w, -0.5, 1.0),
    "normal_": lambda init, w: init.normal_(w, 1.0, 0.5),
    "trunc_normal_": lambda init, w: init.trunc_normal_(w, 0.0, 1.0, -1.0, 2.0),
    "xavier_uniform_": lambda init, w: init.xavier_uniform_(w, 2.0),
    "xavier_normal_": lambda init, w: init.xavier_normal_(w),
    "kaiming_uniform_": lambda init, w: init.kaiming_uniform_(w, 0.2),
    "kaiming_normal_": lambda init, w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"),
    "orthogonal_": lambda init, w: init.orthogonal_(w, 1.5),
    "constant_": lambda init, w: init.constant_(w, 3.0),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_initial_numbers_have_torchs_distribution(name: str) -> None:
    theirs = pytest.importorskip("torch")
    torch.manual_seed(0)
    theirs.manual_seed(0)
    w = nn.Parameter(torch.empty(64, 32, 3, 3))
    assert SCHEMES[name](nn.init, w) is w
    found, wanted = w.detach().numpy(), SCHEMES[name](theirs.nn.init, theirs.empty(64, 32, 3, 3)).numpy()
    for measure in (np.mean, np.std, np.min, np.max):
        assert measure(found) == pytest.approx(measure(wanted), rel=0.15, abs=0.02)
    if name == "orthogonal_":
        rows = found.reshape(64, -1)
        np.testing.assert_allclose(rows @ rows.T, 2.25 * np.eye(64), atol=1e-4)


def test_initial_numbers_of_wrong_shapes_are_refused() -> None:
    for scheme in (nn.init.xavier_normal_, nn.init.orthogonal_, nn.init.eye_, nn.init.dirac_):
        with pytest.raises(ShapeError):
            scheme(torch.empty(3))
    with pytest.raises(ValueError, match="there is no gain of 'swish'"):
        nn.init.calculate_gain("swish")
    with pytest.raises(ValueError, match="the mode is 'fan_in' or 'fan_out'"):
        nn.init.kaiming_normal_(torch.empty(3, 3), mode="fan")


SCHEDULES: dict[str, Callable[[Any, Any], Any]] = {
    "LambdaLR": lambda s, rule: s.LambdaLR(rule, lambda step: 0.9**step),
    "MultiplicativeLR": lambda s, rule: s.MultiplicativeLR(rule, lambda step: 0.9),
    "StepLR": lambda s, rule: s.StepLR(rule, 3, gamma=0.5),
    "MultiStepLR": lambda s, rule: s.MultiStepLR(rule, [2, 5], gamma=0.5),
    "ConstantLR": lambda s, rule: s.ConstantLR(rule, 0.5, 4),
    "LinearLR": lambda s, rule: s.LinearLR(rule, 0.25, 1.0, 4),
    "ExponentialLR": lambda s, rule: s.ExponentialLR(rule, 0.9),
    "PolynomialLR": lambda s, rule: s.PolynomialLR(rule, 6, 2.0),
    "CosineAnnealingLR": lambda s, rule: s.CosineAnnealingLR(rule, 5, eta_min=0.01),
    "CosineAnnealingWarmRestarts": lambda s, rule: s.CosineAnnealingWarmRestarts(rule, 3, 2, eta_min=0.01),
    "OneCycleLR": lambda s, rule: s.OneCycleLR(rule, 0.5, epochs=3, steps_per_epoch=5),
    "SequentialLR": lambda s, rule: s.SequentialLR(
        rule, [s.LinearLR(rule, 0.1, 1.0, 3), s.CosineAnnealingLR(rule, 6)], milestones=[3]
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_torchs(name: str) -> None:
    theirs = pytest.importorskip("torch")
    found = []
    for each in (torch, theirs):
        rule = each.optim.SGD([each.ones(1, requires_grad=True)], lr=0.1, momentum=0.9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of steps without gradients, and of its own deprecations
            schedule, rates = SCHEDULES[name](each.optim.lr_scheduler, rule), []
            for _ in range(14):
                rates.append(rule.param_groups[0]["lr"])
                rule.zero_grad()
                (rule.param_groups[0]["params"][0] * 1.0).sum().backward()
                rule.step()
                schedule.step()
            found.append([*rates, *schedule.get_last_lr()])
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_gradients_of_tensors() -> None:
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0], requires_grad=True)
    x.grad = torch.ones(2)
    gx, gy = torch.autograd.grad((x * x * y).sum(), (x, y), create_graph=True)
    assert gx.tolist() == [6.0, 12.0]
    assert gy.tolist() == [5.0]
    assert torch.autograd.grad(gx.sum(), x)[0].tolist() == [6.0, 6.0]
    assert x.grad.tolist() == [1.0, 1.0]
    assert y.grad is None
    with pytest.raises(GraphError, match="allow_unused=True"):
        torch.autograd.grad(x.sum(), y)
    assert torch.autograd.grad(x.sum(), (x, y), allow_unused=True)[1] is None
    middle = x * 2
    assert torch.autograd.grad((middle * middle).sum(), middle, torch.tensor(2.0))[0].tolist() == [8.0, 16.0]
    value, found = torch.autograd.functional.vjp(lambda x: x * x, x, torch.ones(2))
    assert (value.tolist(), found.tolist()) == ([1.0, 4.0], [2.0, 4.0])
    assert torch.autograd.functional.jacobian(lambda x: x * x, x).tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_a_function_has_the_gradient_of_its_backward() -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, by: float, other: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.by = by
            return x * by + other

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * x * 100, None, g if ctx.needs_input_grad[2] else None

    x, other = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([1.0, 1.0], requires_grad=True)
    out = Scaled.apply(x, 3.0, other)
    assert out.tolist() == [4.0, 7.0]
    out.sum().backward()
    assert x.grad.tolist() == [100.0, 200.0]
    assert other.grad.tolist() == [1.0, 1.0]


def test_attention_is_torchs() -> None:
    theirs = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    query, key = rng.standard_normal((5, 2, 8), dtype="f"), rng.standard_normal((7, 2, 8), dtype="f")
    hidden, padding = rng.random((5, 7)) < 0.3, np.zeros((2, 7), dtype=bool)
    hidden[:, 0], padding[1, 5:] = False, True
    layer = theirs.nn.MultiheadAttention(8, 2)
    own = nn.MultiheadAttention(8, 2)
    own.load_state_dict({name: x.detach().numpy() for name, x in layer.state_dict().items()})
    results = []
    for each, module in ((torch, own), (theirs, layer)):
        given = map(each.tensor, (query, key, key))
        options = {"attn_mask": each.tensor(hidden), "key_padding_mask": each.tensor(padding)}
        results.append([x.detach().numpy() for x in module(*given, **options)])
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-6)


def test_loaders_give_batches() -> None:
    data = torch.utils.data
    rows = data.TensorDataset(torch.arange(7), torch.arange(7) * 2)
    assert [x.tolist() for x, _ in data.DataLoader(rows, batch_size=3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert len(data.DataLoader(rows, batch_size=3, drop_last=True)) == 2
    torch.manual_seed(0)
    shuffled = [x.tolist() for x, _ in data.DataLoader(rows, batch_size=7, shuffle=True, num_workers=2)]
    assert sorted(shuffled[0]) == list(range(7)) != shuffled[0]
    first, second = data.random_split(rows, [0.6, 0.4])
    assert sorted(x.item() for part in (first, second) for x, _ in part) == list(range(7))
    assert next(iter(data.DataLoader([(1, "a"), (2, "b")], batch_size=2)))[1] == ["a", "b"]
    assert len(data.ConcatDataset([rows, rows])) == 14
    with pytest.raises(TypeError, match="unexpected keyword arguments .'batchsize'."):
        data.DataLoader(rows, batchsize=3)


def test_a_checkpoint_leaves_out_what_is_not_saved(tmp_path: Path) -> None:
    model = mg.nn.Sequential(mg.nn.Linear(2, 2))
    model[0].register_buffer("kept", mg.ones((2,)))
    model[0].register_buffer("passing", mg.ones((2,)), persistent=False)
    model[0].register_forward_hook(lambda module, args, out: None)
    mg.checkpoints.save(tmp_path / "model.safetensors", model=model)
    found = mg.checkpoints.load_model(tmp_path / "model.safetensors")
    assert list(found.state_dict()) == ["0.weight", "0.bias", "0.kept"]
    assert found[0].weight.tolist() == model[0].weight.tolist()


def test_files_hold_tensors_in_dicts(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    torch.save({"model": model.state_dict(), "step": 7, "names": ["a"]}, tmp_path / "run.pt")
    found = torch.load(tmp_path / "run.pt", map_location="cpu")
    assert (found["step"], found["names"]) == (7, ["a"])
    assert found["model"]["weight"].tolist() == model.weight.tolist()
    with pytest.raises(CheckpointError):
        torch.save({"model": model}, tmp_path / "no.pt")
    (tmp_path / "pickle.pt").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(CheckpointError):
        torch.load(tmp_path / "pickle.pt")
