"""Modules: what can be put in the place of a parameter, and conversion to another dtype."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import MLP, Device, Tensor, Value, asarray, nn, optim
from micrograd_core.errors import BackendNotFound, DTypeError, GraphError, UnsupportedDType

# ── in the place of a parameter ──────────────────────────────────────────────────────────────────────────────

PLACES: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "Linear.weight": (lambda: nn.Linear(2, 3), "weight"),
    "Linear.bias": (lambda: nn.Linear(2, 3), "bias"),
    "Conv2d.weight": (lambda: nn.Conv2d(1, 2, 3), "weight"),
    "BatchNorm1d.weight": (lambda: nn.BatchNorm1d(2), "weight"),
    "Embedding.weight": (lambda: nn.Embedding(3, 2), "weight"),
    "MultiheadAttention.in_proj_weight": (lambda: nn.MultiheadAttention(2, 1), "in_proj_weight"),
    "Layer.weight": (lambda: mg.Layer(2, 2), "weight"),
}
WRONG: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "an array": (lambda p: np.ones(p.shape), "an object of type ndarray"),
    "a list": (lambda p: p.tolist(), "an object of type list"),
    "a number": (lambda p: 0.0, "an object of type float"),
    "a tensor that records nothing": (lambda p: mg.ones(p.shape), "a tensor that records no gradients"),
    "a detached one": (lambda p: p.detach(), "a tensor that records no gradients"),
    "a computed one": (lambda p: p * 2, "a computed tensor"),
    "an integer tensor": (lambda p: mg.zeros(p.shape, dtype="int64"), "a tensor that records no gradients"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("place", PLACES)
def test_what_would_not_be_a_parameter_is_refused(place: str, wrong: str) -> None:
    (make, name), (value, what) = PLACES[place], WRONG[wrong]
    layer = make()
    before = getattr(layer, name)
    with pytest.raises(TypeError) as caught:
        setattr(layer, name, value(before))
    assert str(caught.value) == (
        f"{place} is a parameter, and {what} would not be one. To change its numbers assign to .{name}.data; to have "
        "another parameter assign Tensor(...), or None for none; for anything else, `del` the attribute first"
    )
    assert getattr(layer, name) is before
    assert any(p is before for _, p in layer.named_parameters())


def test_the_ways_that_the_sentence_names() -> None:
    layer: Any = nn.Linear(2, 2)
    weight = layer.weight
    layer.weight.data = np.ones((2, 2))
    assert layer.weight is weight
    assert weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    layer.weight = Tensor([[2.0, 0.0], [0.0, 2.0]])
    layer.bias = None
    assert layer.parameters() == [layer.weight]
    assert layer(asarray([[1.0, 3.0]])).tolist() == [[2.0, 6.0]]
    del layer.weight
    layer.weight = np.eye(2)
    assert layer.parameters() == []


@pytest.mark.parametrize("place", PLACES)
def test_another_leaf_becomes_the_parameter(place: str) -> None:
    make, name = PLACES[place]
    layer = make()
    old = getattr(layer, name)
    new = Tensor(np.full(old.shape, 0.5), dtype=old.dtype)
    setattr(layer, name, new)
    found = dict(layer.named_parameters())
    assert found[name] is new
    assert not any(p is old for p in found.values())
    assert layer.state_dict()[name].tolist() == new.tolist()
    if isinstance(layer, mg.Layer):
        layer([Value(1.0), Value(2.0)])[0].backward()
        assert new.grad is not None
        assert layer.parameters()[0].data == 0.5


def test_buffers_can_be_anything_and_frozen_parameters_stay_parameters() -> None:
    layer: Any = nn.BatchNorm1d(2)
    layer.running_mean = mg.ones((2,))
    layer.running_mean = None
    layer.weight.requires_grad = False
    with pytest.raises(TypeError, match="weight is a parameter"):
        layer.weight = mg.zeros((2,))
    layer.weight = None
    layer.head = nn.Linear(1, 1)
    layer.head = Tensor([1.0])
    layer.head = nn.Linear(1, 1)
    assert [name for name, _ in layer.named_parameters()] == ["bias", "head.weight", "head.bias"]


# ── dtypes ───────────────────────────────────────────────────────────────────────────────────────────────────

DTYPES = ("float16", "bfloat16", "float32", "float64")
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "perceptron": lambda: nn.Sequential(
        nn.Linear(4, 3, generator=random.Random(0)), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2)
    ),
    "attention": lambda: nn.TransformerBlock(4, 2),
    "scalars": lambda: MLP(4, [3, 2], generator=random.Random(0)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_converted_in_place(name: str, dtype: str) -> None:
    model, short = NETWORKS[name](), {"float16": "half", "float32": "float", "float64": "double"}
    shape = (2, 3, 4) if name == "attention" else (3, 4)
    x = asarray(np.random.default_rng(0).normal(size=shape), dtype=next(iter(model.state_dict().values())).dtype)
    (model(x) ** 2).sum().backward()
    before = [(p, p.dtype, p.tolist(), p.grad) for _, p in model.named_tensors()]
    assert getattr(model, short.get(dtype, dtype))() is model
    for (p, old, numbers, grad), (_, now) in zip(before, model.named_tensors(), strict=True):
        assert now is p
        assert str(p.dtype) == (dtype if old.is_floating else "int64")
        np.testing.assert_array_equal(p.tolist(), asarray(numbers, dtype=old).astype(p.dtype).tolist())
        if grad is not None:
            assert p.grad is not None
            assert p.grad.dtype is p.dtype
            assert p.grad.tolist() == grad.astype(p.dtype).tolist()
    out = model(x.astype(dtype))
    assert str(out.dtype) == dtype
    model.zero_grad()
    (out**2).sum().backward()
    rule = optim.SGD([p for _, p in model.named_parameters()], momentum=0.9)
    rule.step()
    rule.step()
    assert {str(p.dtype) for p in rule.params} == {dtype}


def test_as_torch_does() -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2)
    acts: list[Callable[[Any, Any], Any]] = [
        lambda m, _: m.double(), lambda m, _: m.half(), lambda m, _: m.float(), lambda m, _: m.bfloat16(),
        lambda m, lib: m.to(lib.float64), lambda m, lib: m.to(dtype=lib.float32),
        lambda m, lib: m.to("cpu", lib.float16), lambda m, _: m.to("cpu"),
    ]  # fmt: skip
    for act in acts:
        act(ours, mg)
        act(theirs, torch)
        found = {name: str(x.dtype) for name, x in ours.state_dict().items()}
        assert found == {name: str(x.dtype).removeprefix("torch.") for name, x in theirs.state_dict().items()}


def test_complex_numbers_stay_complex() -> None:
    model: Any = nn.Module()
    model.z, model.x, model.n = Tensor([1 + 2j]), Tensor([1.0]), mg.arange(2)
    for dtype, expected in (("float64", ["complex64", "float64"]), ("complex128", ["complex128", "complex128"])):
        model.to(dtype=dtype)
        assert [str(x.dtype) for x in (model.z, model.x, model.n)] == [*expected, "int64"]
    assert model.z.tolist() == [1 + 2j]
    for dtype in ("int64", "bool"):
        with pytest.raises(DTypeError, match=f"Module.to: parameters are floating-point numbers, and {dtype} is not"):
            model.to(dtype=dtype)


def test_hooks_of_parameters_stay() -> None:
    for to in ({"dtype": "float64"}, {"device": "rawbuffer"}):
        model = nn.Linear(1, 1, bias=False)
        handle = model.weight.register_hook(lambda g: g * 10)
        model.to(**to)
        for expected in (10.0, 1.0):
            model.zero_grad()
            model.weight.sum().backward()
            assert model.weight.grad is not None
            assert model.weight.grad.item() == expected
            handle.remove()


def test_an_optimiser_made_before_refuses_and_goes_on_after_the_way_back() -> None:
    model = nn.Linear(2, 1)
    rule = optim.Adam(model.parameters())
    (model(mg.ones((1, 2))) ** 2).sum().backward()
    rule.step()
    model.double()
    with pytest.raises(GraphError, match="was float32 on cpu, and is now float64 on cpu; make the optimiser after"):
        rule.step()
    model.float()
    rule.step()
    assert {name: x.item() for name, x in rule.state_dict().items() if name.endswith("step")} == {
        "0.step": 2.0, "1.step": 2.0,
    }  # fmt: skip


def test_a_graph_from_before_leads_nowhere() -> None:
    model = nn.Linear(2, 1)
    loss = model(mg.ones((1, 2))).sum()
    model.double()
    loss.backward()
    assert [p.grad for p in model.parameters()] == [None, None]


def test_a_dtype_that_the_device_lacks_changes_nothing() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to("strict")
    with pytest.raises(UnsupportedDType, match="bfloat16"):
        model.bfloat16()
    assert {str(x.dtype) for x in model.parameters()} == {"float32"}


def test_scalar_parameters_follow() -> None:
    model = MLP(2, [2, 1], generator=random.Random(0))
    held = model.parameters()
    model.float()
    for p in (held[0], model.parameters()[0]):
        model.zero_grad()
        p.data = 0.1
        assert p.data == float(np.float32(0.1))
        (p * 2.0).backward()
        assert p.grad == 2.0
        assert str(model.tensors()[0].dtype) == "float32"


# ── tensors, and dtypes where devices are meant ──────────────────────────────────────────────────────────────


def test_a_tensor_goes_to_a_dtype_a_device_or_both() -> None:
    x = Tensor([1.0, 2.0])
    for y, dtype, device in (
        (x.to(dtype="float64"), "float64", "cpu"),
        (x.to(mg.float16), "float16", "cpu"),
        (x.to("rawbuffer", "float64"), "float64", "rawbuffer:0"),
        (x.to("rawbuffer", dtype=mg.int32), "int32", "rawbuffer:0"),
        (x.to("rawbuffer"), "float32", "rawbuffer:0"),
        (mg.asarray([1, 2]).to("cpu", "float32"), "float32", "cpu"),
        (Tensor([1.0, 2.0], dtype="bfloat16").to("rawbuffer", "float32"), "float32", "rawbuffer:0"),
        (Tensor([1.0, 2.0], device="rawbuffer").to("cpu", "bfloat16"), "bfloat16", "cpu"),
    ):
        assert (str(y.dtype), str(y.device), [float(each) for each in y.tolist()]) == (dtype, device, [1.0, 2.0])
    assert x.to(dtype="float32") is x is x.to("cpu", "float32")
    (x.to("rawbuffer", "float64") * 3).sum().backward()
    assert x.grad is not None
    assert (x.grad.tolist(), str(x.grad.dtype)) == ([3.0, 3.0], "float32")
    for wrong in (x.to, nn.Linear(1, 1).to):
        with pytest.raises(TypeError, match=r"to\(\) takes a device, a dtype or both: "):
            wrong()


SENTENCE = (
    "'float64' is a dtype, and here a device is meant, such as 'cpu'. To convert a tensor or a network write "
    ".to(dtype='float64'), or x.astype('float64'); to make one, dtype='float64'"
)


@pytest.mark.parametrize(
    "act",
    [
        lambda: nn.Linear(1, 1).to("float64"),
        lambda: Tensor([1.0]).to("float64"),
        lambda: Tensor([1.0]).to(np.float64),
        lambda: Tensor([1.0], device="float64"),
        lambda: Value(1.0).to("float64"),
        lambda: mg.zeros(3, device=mg.float64),
        lambda: Device("float64", fallback="cpu"),
        lambda: MLP(1, [1]).to("float64"),
    ],
    ids=range(8),
)
def test_a_dtype_where_a_device_is_meant(act: Callable[[], Any]) -> None:
    with pytest.raises(DTypeError) as caught:
        act()
    assert str(caught.value) == SENTENCE


def test_other_words_are_still_unknown_devices() -> None:
    for word in ("tpu", "float65", "f8", ""):
        with pytest.raises(BackendNotFound):
            Device(word)
    with pytest.raises(TypeError, match="a device is a name such as"):
        Device(3)  # type: ignore[arg-type]
    assert not Device.is_available("float64")


def test_a_subclass_of_a_padding_pads_as_that_does() -> None:
    class Mirrored(nn.ReflectionPad1d): ...

    assert Mirrored(1)(mg.asarray([[[1.0, 2.0, 3.0]]])).tolist() == [[[2.0, 1.0, 2.0, 3.0, 2.0]]]


def test_a_layer_refuses_names_that_no_constructor_has() -> None:
    with pytest.raises(TypeError, match=r"__init__\(\) got an unexpected keyword argument 'devise'"):
        nn.LSTM(2, 3, devise="cpu")  # type: ignore[call-arg]
