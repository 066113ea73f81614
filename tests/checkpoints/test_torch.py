"""Numbers go to PyTorch and come back, under the same names, bit for bit."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import micrograd_core as mg
from micrograd_core import nn
from micrograd_core.checkpoints import from_torch, load, save, to_torch
from micrograd_core.errors import ShapeError
from tests.checkpoints.test_models import LAYERS, base

torch = pytest.importorskip("torch")

HOLD = ("Transformer", "TransformerEncoder", "TransformerDecoder")  # made of the layers that are here, too
PAIRS = [name for name in LAYERS if hasattr(torch.nn, name) and name not in HOLD]


def pair(name: str, dtype: str = "float32") -> tuple[nn.Module, Any]:
    """A layer of ours, and torch's of the same arguments."""
    args, named = base(LAYERS[name])
    theirs = getattr(torch.nn, name)
    if args or "items" in named:
        return nn.Sequential(nn.Linear(6, 6), nn.ReLU()).to(dtype=dtype), torch.nn.Sequential(
            torch.nn.Linear(6, 6), torch.nn.ReLU()
        ).to(getattr(torch, dtype))
    if not any(x.kind is x.VAR_KEYWORD for x in inspect.signature(theirs).parameters.values()):
        assert set(named) <= set(inspect.signature(theirs).parameters), name
    return LAYERS[name](**named).to(dtype=dtype), theirs(**named).to(getattr(torch, dtype))


def same(ours: Any, theirs: Any) -> bool:
    values = theirs.tolist()
    return bool(ours.shape == tuple(theirs.shape) and str(ours.tolist()) == str(values))


@pytest.mark.parametrize("name", PAIRS)
def test_each_layer_takes_numbers_from_torch_and_gives_them_back(name: str) -> None:
    dtypes = ("float32", "float64", "bfloat16", "float16") if name in ("Linear", "BatchNorm1d") else ("float32",)
    for dtype in dtypes:
        ours, theirs = pair(name, dtype)
        for x in theirs.state_dict().values():
            x.copy_(torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) * 8)
        from_torch(theirs, ours)
        assert list(ours.state_dict()) == list(theirs.state_dict())
        assert all(same(x, theirs.state_dict()[key]) for key, x in ours.state_dict().items())
        for _, x in ours.named_tensors():
            x.data = x * 0 + 3 if x.dtype.is_floating else mg.full(x.shape, 3, dtype=x.dtype)
        state = to_torch(ours)
        assert {key: str(x.dtype) for key, x in state.items()} == {
            key: str(x.dtype) for key, x in theirs.state_dict().items()
        }
        theirs.load_state_dict(state)
        assert all(same(x, theirs.state_dict()[key]) for key, x in ours.state_dict().items())


def test_results_are_the_same() -> None:
    ours = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Linear(64, 3))
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.GELU(), torch.nn.Flatten(),
        torch.nn.Linear(64, 3),
    )  # fmt: skip
    x = mg.random.normal((2, 2, 4, 4))
    for _ in range(2):
        from_torch(theirs.state_dict(), ours)
        found, wanted = ours.eval()(x), theirs.eval()(torch.tensor(x.tolist()))
        assert mg.allclose(found, mg.asarray(wanted.detach().numpy()), atol=1e-5)
        theirs.load_state_dict(to_torch(nn.Sequential(*ours.layers)))


def test_tied_weights_stay_tied() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model.layers[1].weight = model.layers[0].weight
    state = to_torch(model)
    assert state["0.weight"].data_ptr() == state["1.weight"].data_ptr()
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    theirs[1].weight = theirs[0].weight
    from_torch(theirs, model)
    assert model[1].weight is model[0].weight
    assert same(model[0].weight, theirs[0].weight)


def test_nothing_is_shared_and_empty_ones_come_along() -> None:
    model = nn.Linear(2, 2)
    model.none = mg.zeros((0, 2))
    state = to_torch(model)
    state["weight"].zero_()
    assert model.weight.tolist() != [[0.0, 0.0], [0.0, 0.0]]
    assert tuple(state["none"].shape) == (0, 2)


def test_differences_are_listed() -> None:
    with pytest.raises(ShapeError, match="'bias' is missing"):
        from_torch({"weight": torch.ones(2, 2)}, nn.Linear(2, 2))
    model = from_torch({"weight": torch.ones(2, 2, requires_grad=True)}, nn.Linear(2, 2), strict=False)
    assert model.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_file_that_torch_wrote_is_loaded(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    theirs, ours = torch.nn.Linear(3, 2).bfloat16(), nn.Linear(3, 2).bfloat16()
    save_file(theirs.state_dict(), tmp_path / "a")
    load(tmp_path / "a", model=ours)
    assert same(ours.weight, theirs.weight)
    save(tmp_path / "b", model=ours)
    assert load_file(tmp_path / "b")["weight"].tolist() == theirs.weight.tolist()
