"""Layers: equal to torch with torch's own weights, modes, buffers, and sentences for what does not fit."""

from __future__ import annotations

import inspect
import pickle
import pydoc
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Device, Tensor, asarray, checkpoint, nn, optim, vmap
from micrograd_core.errors import ShapeError, TransformError


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


LAYERS: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "conv2d": (lambda n: n.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), [drawn(2, 4, 7, 8)]),
    "conv1d": (lambda n: n.Conv1d(4, 6, 3, padding="same", dilation=2, bias=False), [drawn(2, 4, 9)]),
    "conv_transpose1d": (lambda n: n.ConvTranspose1d(2, 3, 3, stride=2), [drawn(2, 2, 5)]),
    "conv_transpose2d": (
        lambda n: n.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2),
        [drawn(2, 4, 5, 4)],
    ),
    "layer_norm": (lambda n: n.LayerNorm((3, 5)), [drawn(2, 3, 5)]),
    "rms_norm": (lambda n: n.RMSNorm(5, eps=1e-6), [drawn(2, 3, 5)]),
    "batch_norm1d": (lambda n: n.BatchNorm1d(3, momentum=None), [drawn(4, 3)]),
    "batch_norm2d": (lambda n: n.BatchNorm2d(3), [drawn(4, 3, 5, 5)]),
    "embedding": (lambda n: n.Embedding(5, 3), [np.array([[0, 4, 4], [1, 0, 2]])]),
    "attention": (
        lambda n: n.MultiheadAttention(8, 2, **({} if n is nn else {"batch_first": True})),
        [drawn(2, 5, 8), drawn(2, 4, 8, seed=1), drawn(2, 4, 8, seed=2)],
    ),
    "self-attention": (
        lambda n: n.MultiheadAttention(8, 2, **({} if n is nn else {"batch_first": True})),
        [drawn(2, 5, 8)] * 3,
    ),
    "pools": (lambda n: n.Sequential(n.MaxPool2d(2), n.AvgPool2d(3, stride=1, padding=1)), [drawn(2, 3, 6, 7)]),
    "activations": (
        lambda n: n.Sequential(
            n.LeakyReLU(0.2), n.ELU(), n.GELU(approximate="tanh"), n.SiLU(), n.Mish(), n.Softplus(), n.Hardtanh(-1, 2)
        ),
        [drawn(2, 30)],
    ),
    "more activations": (lambda n: n.Sequential(n.Tanh(), n.Sigmoid(), n.LogSigmoid(), n.GELU()), [drawn(2, 30)]),
    "flatten": (lambda n: n.Flatten(), [drawn(2, 3, 4)]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_equal_torch_while_learning_and_after(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, inputs = LAYERS[name]
    ours, theirs = make(nn), make(torch.nn)
    theirs.load_state_dict({key: torch.tensor(p.numpy()) for key, p in ours.state_dict().items()})
    for training in (True, False):
        assert ours.train(training).training is training
        theirs.train(training)
        xs = [Tensor(x) for x in inputs]
        ys = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs]
        if name == "self-attention":
            out, expected = ours(xs[0]), theirs(ys[0], ys[0], ys[0])
        else:
            out, expected = ours(*xs), theirs(*ys)
        expected = expected[0] if isinstance(expected, tuple) else expected
        np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), rtol=2e-5, atol=2e-6)
        (out * out * out).sum().backward()
        (expected**3).sum().backward()
        for p, q in zip([*xs, *ours.parameters()], [*ys, *theirs.parameters()], strict=True):
            assert (p.grad is None) == (q.grad is None)
            if p.grad is not None:
                np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=2e-4, atol=1e-4 * abs(q.grad).max())
        for (_, p), q in zip(ours.named_buffers(), theirs.buffers(), strict=True):
            np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-5, atol=1e-6)
        ours.zero_grad()
        theirs.zero_grad()


def test_losses_are_modules_whose_weights_are_buffers() -> None:
    loss = nn.CrossEntropyLoss(asarray([1.0, 2.0]), label_smoothing=0.1)
    assert [name for name, _ in loss.named_buffers()] == ["weight"]
    loss.load_state_dict({"weight": [1.0, 2.0]})
    assert not loss.parameters()
    logits, t = Tensor([[1.0, 2.0]]), asarray([1])
    assert loss(logits, t).item() == nn.cross_entropy(logits, t, asarray([1.0, 2.0]), label_smoothing=0.1).item()
    for made, x, y in (
        (nn.MSELoss(reduction="sum"), [1.0], [3.0]),
        (nn.L1Loss(), [1.0], [3.0]),
        (nn.HuberLoss(delta=0.5), [1.0], [3.0]),
        (nn.BCEWithLogitsLoss(), [0.0], [1.0]),
        (nn.KLDivLoss(log_target=True), [0.0], [0.0]),
    ):
        assert made(Tensor(x), asarray(y)).shape == ()
    assert nn.NLLLoss()(logits.log_softmax(), t).item() == pytest.approx(nn.cross_entropy(logits, t).item())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nn.GELU(slope=1), "GELU: got an unexpected keyword argument 'slope'; it takes approximate"),
        (lambda: nn.Tanh(1), "Tanh: too many positional arguments; it takes no arguments"),
        (
            lambda: nn.MaxPool1d(stride=2),
            "MaxPool1d: missing a required argument: 'kernel_size'; it takes kernel_size, ",
        ),
        (lambda: nn.Softmax(0, axis=1), "Softmax: multiple values for argument 'axis'; it takes axis"),
    ],
)
def test_arguments_that_do_not_fit_are_named(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(TypeError) as caught:
        make()
    assert str(caught.value).startswith(words)


CALLS = {name: kind for name, kind in vars(nn).items() if isinstance(kind, type) and issubclass(kind, nn.Call)}
ARGUMENTS: dict[str, dict[str, Any]] = {
    **{name: {} for name in CALLS if name != "Call"},
    **{name: {"kernel_size": 2} for name in CALLS if "Pool" in name},
    **{name: {"norm_type": 2.0, "kernel_size": 2} for name in CALLS if "LPPool" in name},
    **{name: {"output_size": 2} for name in CALLS if "Adaptive" in name},
    **{name: {"kernel_size": 2, "output_size": 2} for name in CALLS if "Fractional" in name},
    **{f"MaxUnpool{rank}d": {"kernel_size": 2} for rank in (1, 2, 3)},
    "Threshold": {"threshold": 0.1, "value": 2},
    "PixelShuffle": {"upscale_factor": 2},
    "PixelUnshuffle": {"downscale_factor": 2},
    "ChannelShuffle": {"groups": 2},
    "Fold": {"output_size": 3, "kernel_size": 2},
    "Unfold": {"kernel_size": 2},
    "LocalResponseNorm": {"size": 2},
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_modules_of_one_function_say_what_they_are(name: str) -> None:
    kind = CALLS[name]
    function = kind.function or mg.array.functions.FUNCTIONS[kind.operation]
    told = inspect.signature(kind).parameters
    known = inspect.signature(function).parameters
    assert set(told) <= set(known)
    assert {each: told[each].default for each in told} == {each: known[each].default for each in told}
    assert {each.kind for each in told.values()} <= {
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    }
    page = pydoc.render_doc(kind, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    squeezed = "".join(page.replace("|", "").split()).replace(",)", ")")  # since 3.13 signatures are wrapped
    assert not told or f"{name}{inspect.signature(kind)}".replace(" ", "").replace("|", "") in squeezed
    assert str(function.__doc__).strip().partition(".")[0].partition("\n")[0] in page
    made = kind(**ARGUMENTS[name])
    assert repr(made) == f"{name}({', '.join(f'{key}={value}' for key, value in ARGUMENTS[name].items())})"
    again = pickle.loads(pickle.dumps(made))
    assert (type(again), again.arguments) == (kind, made.arguments)
    assert isinstance(again, nn.Module)


@pytest.mark.parametrize("name", [name for name in ARGUMENTS if name not in ("Softmax", "LogSoftmax")])
def test_modules_of_one_function_take_their_arguments_in_the_order_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = list(inspect.signature(getattr(torch.nn, name).__init__).parameters)[1:]
    ours = list(inspect.signature(CALLS[name]).parameters)
    wanted = [each for each in theirs if each in ours]
    assert ours[: len(wanted)] == wanted
    others = {"args", "kwargs", "_random_samples", "min_value", "max_value", "size_average", "reduce"}
    assert {each for each in theirs if each not in ours} <= others


def test_a_module_of_one_operation_is_subclassed() -> None:
    class Steep(nn.LeakyReLU):
        def __init__(self, steepness: float) -> None:
            super().__init__(1 / steepness)

    class Cosine(nn.Call, operation="cos"):
        """Waves."""

    class Sine(nn.Call):  # as it was written before
        operation = "sin"

    assert str(inspect.signature(Steep)).startswith("(steepness:")
    assert Steep(4)(asarray([-1.0])).tolist() == [-0.25]
    assert repr(nn.Sequential(Steep(4), Cosine())) == "Sequential(Steep(negative_slope=0.25), Cosine())"
    assert Cosine.__doc__ == "Waves."
    assert [module(asarray([0.0])).tolist() for module in (Cosine(), Sine())] == [[1.0], [0.0]]


def test_training_mode_reaches_every_module() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2)))
    assert model.eval() is model
    assert not any(module.training for _, module in model.named_modules())
    assert [name for name, _ in model.named_modules()] == ["", "0", "1", "1.0"]
    names: list[str] = []
    model.apply(lambda module: names.append(type(module).__name__))
    assert names == ["BatchNorm1d", "Sequential", "Linear", "Sequential"]


def test_buffers_are_saved_loaded_and_moved_but_not_optimised() -> None:
    a, b = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    a(Tensor([[1.0, 2.0], [3.0, 5.0]]))
    assert [name for name, _ in a.named_buffers()] == ["running_mean", "running_var", "num_batches_tracked"]
    assert len(a.parameters()) == 2
    b.load_state_dict(a.state_dict())
    assert b.running_mean.tolist() == a.running_mean.tolist() == pytest.approx([0.2, 0.35])
    assert b.num_batches_tracked.item() == 1
    assert all(x.device is Device("rawbuffer") for x in b.to("rawbuffer").buffers())
    b.running_mean.requires_grad = False
    a.weight.requires_grad = False  # type: ignore[union-attr]
    assert len(a.parameters()) == 2  # frozen, it is a parameter still
    assert len(b.parameters()) == 2


def test_running_averages_move_once_in_a_checkpoint() -> None:
    x = Tensor(drawn(8, 2))
    plain, saving = (nn.Sequential(nn.BatchNorm1d(2, dtype="float64"), nn.Dropout(0.5)) for _ in range(2))
    with mg.random.use_generator(0):
        plain(x).sum().backward()
    with mg.random.use_generator(0):
        checkpoint(saving, x).sum().backward()
    assert all((a == b).all() for a, b in zip(plain.buffers(), saving.buffers(), strict=True))
    assert saving.buffers()[2].item() == 1


def test_running_averages_of_half_inputs_are_computed_in_their_own_dtype() -> None:
    norm = nn.BatchNorm1d(1)
    x = asarray([[-600.0], [600.0], [1800.0]], dtype="float16")
    norm(x)
    assert norm.running_var.item() == pytest.approx(0.9 + 0.1 * 1200**2)
    assert norm.running_mean.item() == pytest.approx(60.0)


def test_running_averages_are_not_lost_inside_vmap() -> None:
    norm, batches = nn.BatchNorm1d(2), asarray(drawn(3, 4, 2), dtype="float32")
    with pytest.raises(TransformError, match=r"BatchNorm1d: inside vmap .* call eval\(\) first"):
        vmap(norm)(batches)
    assert norm.running_mean.tolist() == [0.0, 0.0]
    assert vmap(norm.eval())(batches).shape == (3, 4, 2)


def test_a_batch_of_no_examples_is_flattened_and_unflattened() -> None:
    empty = asarray(np.zeros((0, 6)))
    assert nn.Unflatten(1, (2, -1))(empty).shape == (0, 2, 3)
    assert nn.Flatten()(nn.Unflatten(1, (2, -1))(empty)).shape == (0, 6)


def test_layers_refuse_what_does_not_fit() -> None:
    for wrong, words in (
        (lambda: nn.Conv2d(3, 4, 3, groups=2), r"groups \(2\) must divide the channels, 3 and 4"),
        (lambda: nn.Conv2d(0, 4, 3), "in channels must be at least 1; got 0"),
        (lambda: nn.Conv2d(3, 4, (3, 3, 3)), "kernel_size is an integer, or 2 of them"),
        (lambda: nn.Conv2d(1, 1, 2, output_padding=1), "has no output_padding"),
        (lambda: nn.Conv2d(3, 4, 3)(Tensor(drawn(2, 3, 2, 2))), r"kernel of shape \(3, 3\).*\(2, 2\)"),
        (lambda: nn.Conv2d(3, 4, 3)(Tensor(drawn(2, 4, 5, 5))), r"input \(2, 4, 5, 5\).*must be 3"),
        (lambda: nn.Conv2d(3, 4, 3)(Tensor(drawn(5, 5))), r"axes \(batch, channels, height, width\)"),
        (lambda: nn.Conv1d(1, 1, 2, 2, padding="same")(Tensor(drawn(1, 1, 5))), "padding='same' needs stride 1"),
        (lambda: nn.BatchNorm2d(3)(Tensor(drawn(2, 3))), r"4 axes; got \(2, 3\)"),
        (lambda: nn.BatchNorm1d(1)(Tensor(drawn(2, 3))), r"made for 1 channels; got shape \(2, 3\) with 3"),
        (lambda: nn.BatchNorm1d(3)(Tensor(drawn(4, 1))), r"made for 3 channels; got shape \(4, 1\) with 1"),
        (lambda: nn.BatchNorm1d(3)(Tensor(drawn(1, 3))), "more than one number"),
        (lambda: nn.LayerNorm(4)(Tensor(drawn(2, 3))), r"weight of shape \(4,\).*\(2, 3\)"),
        (lambda: nn.MultiheadAttention(8, 3), "3 heads do not divide 8 features"),
        (lambda: nn.MultiheadAttention(8, 2)(Tensor(drawn(8))), r"\(batch, positions, 8\); got shape \(8,\)"),
        (lambda: nn.Flatten(2, 1)(Tensor(drawn(2, 3, 4))), "axis 1 lies before axis 2"),
        (lambda: nn.MaxPool2d(2, padding=2)(Tensor(drawn(1, 1, 4, 4))), "at most half the kernel"),
    ):
        with pytest.raises(ShapeError, match=words):
            wrong()
    with pytest.raises(ValueError, match="no initialisation named 'hee'"):
        nn.parameter((2, 2), "hee")


@pytest.mark.parametrize(
    ("scheme", "deviation"),
    [
        ("glorot_uniform", (2 / 500) ** 0.5),
        ("glorot_normal", (2 / 500) ** 0.5),
        ("he_uniform", (2 / 400) ** 0.5),
        ("he_normal", (2 / 400) ** 0.5),
        ("fan_in_uniform", (1 / 1200) ** 0.5),
        ("normal", 1.0),
        ("zeros", 0.0),
    ],
)
def test_initial_numbers_have_the_deviation_of_their_scheme(scheme: str, deviation: float) -> None:
    x = nn.parameter((100, 400), scheme, generator=random.Random(0))
    assert x.requires_grad
    assert x.detach().numpy().std() == pytest.approx(deviation, rel=0.02)
    assert abs(x.detach().numpy().mean()) <= 0.02 * deviation
    assert nn.initialization.fans((8, 4, 3, 3)) == (36, 72)


def test_networks_start_alike_after_the_same_seed_on_every_device(device: Device) -> None:
    layers = []
    for where in ("cpu", device):
        mg.random.manual_seed(3)
        layers.append(nn.Linear(4, 3, device=where))
    a, b = ([p.tolist() for p in layer.parameters()] for layer in layers)
    assert a == b
    assert nn.Linear(4, 3).weight.tolist() != a[0]


def test_dropout_draws_the_same_mask_in_both_directions_and_on_every_device(device: Device) -> None:
    layer = nn.Dropout(0.25, generator=mg.random.Generator(5))
    x = Tensor(np.ones((40, 50)), device=device)
    y = layer(x)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == y.tolist()
    assert set(np.unique(y.detach().numpy())) == {0.0, 1 / 0.75}
    assert np.mean(y.detach().numpy() == 0) == pytest.approx(0.25, abs=0.03)
    again = nn.Dropout(0.25, generator=mg.random.Generator(5))
    assert again(Tensor(np.ones((40, 50)))).tolist() == y.tolist()
    assert again(x).tolist() != y.tolist()
    assert layer.eval()(x) is x
    for wrong in (lambda: nn.Dropout(1.0), lambda: mg.dropout(x, -0.1)):
        with pytest.raises(ValueError, match="at least 0 and less than 1"):
            wrong()


def test_dropout_does_not_multiply_what_it_drops(device: Device) -> None:
    x = asarray([np.inf] * 20, device=device)
    assert set(mg.dropout(x, generator=0).tolist()) == {0.0, np.inf}


def test_a_transformer_learns_to_copy_what_came_before(device: Device) -> None:
    rng = random.Random(0)
    made: dict[str, Any] = {"generator": rng, "device": device}
    block = nn.TransformerBlock(8, 2, 16, **made)
    embedding, head = nn.Embedding(5, 8, **made), nn.Linear(8, 5, **made)
    tokens = [[rng.randrange(5) for _ in range(6)] for _ in range(4)]
    x, t = asarray(tokens, device=device), asarray([[-100, *row[:-1]] for row in tokens], device=device)
    rule = optim.Adam([*embedding.parameters(), *block.parameters(), *head.parameters()], lr=0.03)
    losses = []
    slow = not device.is_cpu()
    for _ in range(3 if slow else 40):
        logits = head(block(embedding(x), is_causal=True))
        loss = nn.cross_entropy(logits.reshape((24, 5)), t.reshape((24,)))
        rule.zero_grad()
        loss.backward()
        rule.step()
        losses.append(loss.item())
    assert losses[-1] < (0.98 if slow else 0.6) * losses[0]


def test_a_causal_block_does_not_look_ahead() -> None:
    block = nn.TransformerBlock(8, 2, generator=random.Random(0))
    x = drawn(1, 4, 8)
    y = x.copy()
    y[:, 3] += 1
    a, b = (block(Tensor(each), is_causal=True).detach().numpy() for each in (x, y))
    np.testing.assert_array_equal(a[:, :3], b[:, :3])
    assert abs(a[:, 3] - b[:, 3]).max() > 0.1
