"""What users of PyTorch type and expect of modules: names in `state_dict`, layers named in errors, trees and tables."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import Tensor, asarray, nn
from micrograd_core.errors import ShapeError


class Tied(nn.Module):
    """An embedding whose table is the weight of the last layer, too."""

    def __init__(self) -> None:
        self.embed = nn.Embedding(5, 3)
        self.body = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, indices: Tensor) -> Tensor:
        return self.head(self.body(self.embed(indices)))


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tied_weights_keep_both_names() -> None:
    model = Tied()
    state = model.state_dict()
    assert list(state) == ["embed.weight", "body.0.weight", "body.0.bias", "head.weight"]
    assert state["embed.weight"] is state["head.weight"] is not model.embed.weight
    assert [name for name, _ in model.named_parameters()] == ["embed.weight", "body.0.weight", "body.0.bias"]
    again = Tied()
    assert again.load_state_dict(state) == ([], [])
    assert again.head.weight is again.embed.weight
    assert again.head.weight.tolist() == model.head.weight.tolist()


@pytest.mark.parametrize("kept", ["embed.weight", "head.weight"])
def test_one_name_of_tied_weights_is_enough_to_load_them(kept: str) -> None:
    model, again = Tied(), Tied()
    state = {name: x for name, x in model.state_dict().items() if name.startswith("body") or name == kept}
    assert again.load_state_dict(state).missing_keys == []
    assert again.embed.weight.tolist() == model.embed.weight.tolist()


def test_modules_that_hold_each_other_have_names_all_the_same() -> None:
    a: Any = nn.Linear(1, 1)
    b: Any = nn.Linear(1, 1)
    a.other, b.other, a.also = b, a, [b]
    assert list(a.state_dict()) == [
        "weight", "bias", "other.weight", "other.bias", "also.0.weight", "also.0.bias",
    ]  # fmt: skip
    assert [name for name, _ in a.named_tensors()] == ["weight", "bias", "other.weight", "other.bias"]


def networks(library: Any) -> dict[str, Any]:
    """Made of containers in containers, of this library and of torch alike."""
    n = library
    plain = n.Sequential(n.Linear(2, 3), n.ReLU(), n.BatchNorm1d(3))
    tied = n.Sequential(n.Linear(2, 2), n.Tanh(), n.Linear(2, 2))
    tied[2].weight = tied[0].weight
    inner = n.Sequential(n.Linear(2, 2))
    return {
        "plain": plain,
        "nested": n.Sequential(n.Sequential(n.Linear(2, 2), n.Sequential(n.Linear(2, 1))), n.Identity()),
        "tied": tied,
        "twice": n.Sequential(inner, n.ReLU(), inner),
    }


@pytest.mark.parametrize("name", ["plain", "nested", "tied", "twice"])
def test_names_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = networks(nn)[name], networks(torch.nn)[name]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [each for each, _ in ours.named_parameters()] == [each for each, _ in theirs.named_parameters()]
    assert [each for each, _ in ours.named_modules()] == [each for each, _ in theirs.named_modules()]
    assert ours.load_state_dict({key: x.numpy() for key, x in theirs.state_dict().items()}) == ([], [])
    x = np.random.default_rng(0).normal(size=(4, 2)).astype("float32")
    np.testing.assert_allclose(
        ours.eval()(asarray(x)).detach().numpy(), theirs.eval()(torch.tensor(x)).detach().numpy(), rtol=1e-5, atol=1e-6
    )


def test_without_strict_what_both_have_is_loaded_and_the_rest_is_told_as_torch_does() -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = networks(nn)["plain"], networks(torch.nn)["plain"]
    numbers = {"0.weight": np.ones((3, 2), "float32"), "1.weight": np.ones(1), "head.bias": np.ones(1)}
    found = ours.load_state_dict(numbers, strict=False)
    expected = theirs.load_state_dict({name: torch.tensor(x) for name, x in numbers.items()}, strict=False)
    counted = "2.num_batches_tracked"  # torch makes one up where a dict does not say which version wrote it
    assert [name for name in found.missing_keys if name != counted] == expected.missing_keys
    assert found.unexpected_keys == sorted(expected.unexpected_keys) == ["1.weight", "head.bias"]
    assert ours[0].weight.tolist() == [[1.0, 1.0]] * 3
    assert repr(found).startswith("IncompatibleKeys(missing_keys=['0.bias', ")
    assert repr(ours.load_state_dict(ours.state_dict())) == repr(theirs.load_state_dict(theirs.state_dict()))
    with pytest.raises(ShapeError, match=r"'0.weight' has shape \(1,\), not \(3, 2\)$"):
        ours.load_state_dict({"0.weight": np.ones(1)}, strict=False)
    with pytest.raises(ShapeError, match="'x' is not a parameter.*strict=False\\) loads what both have$"):
        ours.load_state_dict({**ours.state_dict(), "x": np.ones(1)})


def test_a_slice_of_a_sequential_is_one_and_shares_its_layers() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    body = model[:-1]
    assert isinstance(body, nn.Sequential)
    assert [*body] == [model[0], model[1]]
    assert (len(model[1:]), len(model[5:]), [*model[::-1]]) == (2, 0, [model[2], model[1], model[0]])
    assert list(body.state_dict()) == ["0.weight", "0.bias"]
    assert pickle.loads(pickle.dumps(model))[2].weight.tolist() == model[2].weight.tolist()  # type: ignore[attr-defined]
    with pytest.raises(IndexError):
        model[3]


def test_attributes_of_a_subclass_of_sequential_count() -> None:
    class Scaled(nn.Sequential):
        def __init__(self, *layers: nn.Module) -> None:
            super().__init__(*layers)
            self.scale = Tensor(2.0)

        def forward(self, x: Any) -> Any:
            return super().forward(x) * self.scale

    model = Scaled(nn.Linear(1, 1))
    assert list(model.state_dict()) == ["scale", "0.weight", "0.bias"]
    assert len(copy.deepcopy(model).parameters()) == 3


# ── where an error arose ─────────────────────────────────────────────────────────────────────────────────────


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        self.mlp = nn.Sequential(nn.Linear(width, 4), nn.GELU(), nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(x)


class Deep(nn.Module):
    def __init__(self, widths: list[int]) -> None:
        self.blocks = [Block(width) for width in widths]

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def notes(act: Callable[[], Any]) -> list[str]:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        act()
    return list(getattr(caught.value, "__notes__", []))


@pytest.mark.parametrize("place", range(4))
def test_an_error_says_which_layer_it_arose_in(place: int) -> None:
    model = Deep([5 if i == place else 4 for i in range(4)])
    with pytest.raises(ShapeError, match="linear") as caught:
        model(mg.ones((1, 4)))
    assert caught.value.__notes__ == [f"in the layer blocks.{place}.mlp.0 of Deep: Linear(5, 4)"]


def test_a_layer_that_is_called_itself_is_named_by_the_traceback_alone() -> None:
    assert notes(lambda: nn.Linear(2, 1)(mg.ones((3, 3)))) == []
    assert notes(lambda: nn.Sequential(nn.Linear(2, 1))(mg.ones((3, 3)))) == [
        "in the layer 0 of Sequential: Linear(2, 1)"
    ]


def test_errors_of_any_kind_keep_their_type_and_their_notes() -> None:
    class Failing(nn.Module):
        def __init__(self, error: BaseException) -> None:
            self.error = error

        def forward(self, x: Any) -> Any:
            raise self.error

        def facts(self) -> str:
            raise RuntimeError("not even this works")

    class Named(Failing):
        def facts(self) -> str:
            return "7"

    mine = KeyError("k")
    mine.add_note("mine")
    for _ in range(2):  # the same object again: one note
        assert notes(lambda: nn.Sequential(nn.Identity(), Named(mine))(1)) == [
            "mine",
            "in the layer 1 of Sequential: Named(7)",
        ]
    assert notes(lambda: nn.Sequential(nn.Sequential(Named(mine)))(1))[1:] == [
        "in the layer 0.0 of Sequential: Named(7)"
    ]
    assert notes(lambda: nn.Sequential(Failing(ValueError("x")))(1)) == []
    with pytest.raises(KeyboardInterrupt) as caught:
        nn.Sequential(Named(KeyboardInterrupt()))(1)
    assert not hasattr(caught.value, "__notes__")


def test_a_layer_that_nobody_holds_leaves_the_name_that_is_known() -> None:
    inner = nn.Sequential(nn.Linear(2, 2))

    class Hidden(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return inner(x)

    assert notes(lambda: Hidden()(mg.ones(3))) == ["in the layer 0 of Sequential: Linear(2, 2)"]


# ── what is printed ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_printed_module_is_a_tree_with_counts() -> None:
    model = Tied()
    assert str(model).splitlines() == [
        "Tied                              27 parameters",
        "  embed: Embedding(5, 3)          15",
        "  body: Sequential                12",
        "    0: Linear(3, 3)               12",
        "    1: ReLU",
        "  head: Linear(3, 5, bias=False)  15",
    ]
    model.embed.weight.requires_grad = False
    deep: Any = Deep([400])
    deep.norm, deep.tied = nn.BatchNorm2d(2), model
    assert str(deep).splitlines() == [
        "Deep                                             1,655 parameters + 5 in buffers",
        "  blocks.0: Block                                1,624",
        "    mlp: Sequential                              1,624",
        "      0: Linear(400, 4)                          1,604",
        "      1: GELU",
        "      2: Linear(4, 4)                               20",
        "  norm: BatchNorm2d(2, eps=1e-05, momentum=0.1)      4 + 5",
        "  tied: Tied                                        27",
        "    embed: Embedding(5, 3)                          15",
        "    body: Sequential                                12",
        "      0: Linear(3, 3)                               12",
        "      1: ReLU",
        "    head: Linear(3, 5, bias=False)                  15",
    ]
    assert str(nn.ReLU()) == "ReLU  0 parameters"
    assert f"{mg.MLP(1, [1])}" == "MLP of [Layer of [LinearNeuron(1)]]"  # as micrograd prints it


def test_a_summary_tells_shapes_and_parameters_and_changes_nothing() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten(), nn.Linear(64, 2))
    model[1].eval()
    before = {name: x.tolist() for name, x in model.state_dict().items()}
    attributes = [dict(vars(module)) for _, module in model.named_modules()]
    found = nn.summary(model, mg.ones((3, 1, 6, 6)))
    assert [(row.name, row.output, row.parameters) for row in found.rows] == [
        ("·", "(3, 2)", 178), ("0", "(3, 4, 4, 4)", 40), ("1", "(3, 4, 4, 4)", 8), ("2", "(3, 4, 4, 4)", 0),
        ("3", "(3, 64)", 0), ("4", "(3, 2)", 130),
    ]  # fmt: skip
    lines = str(found).splitlines()
    assert lines[0] == "layer  kind                                     output        parameters"
    assert lines[3] == "0      Conv2d(1, 4, kernel_size=(3, 3))         (3, 4, 4, 4)          40"
    assert lines[-1] == "178 parameters, and 9 numbers in buffers"
    assert repr(found) == str(found)
    with pytest.raises(ShapeError):
        nn.summary(model, mg.ones((3, 2, 6, 6)))
    assert [dict(vars(module)) for _, module in model.named_modules()] == attributes
    assert {name: x.tolist() for name, x in model.state_dict().items()} == before
    assert model.training
    assert not model[1].training


def test_a_summary_of_what_gives_several_tensors_or_is_not_called() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            self.one, self.other = nn.Linear(2, 3), nn.Linear(2, 3)
            self.other.weight = self.one.weight

        def forward(self, x: Tensor, factor: float) -> Any:
            return {"y": self.one(x), "n": (3, x * factor)}

    found = nn.summary(Both(), mg.ones(2), 2.0)
    assert [row.output for row in found.rows] == ["(3,), int, (2,)", "(3,)", "-"]
    assert (found.parameters, [row.parameters for row in found.rows]) == (12, [12, 9, 9])
