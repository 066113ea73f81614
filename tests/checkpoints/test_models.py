"""Models made again from what a file says of them: every layer, every change since, nothing but data."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import micrograd_core as mg
from micrograd_core import asarray, nn
from micrograd_core.checkpoints import CheckpointError, load, load_model, save
from micrograd_core.support import pytrees
from tests.interrupts import EXHAUSTIVE

# ── every layer ──────────────────────────────────────────────────────────────────────────────────────────────

NEEDED: dict[str, Any] = {
    "d_model": 6, "dim_feedforward": 4, "embed_dim": 6, "embedding_dim": 6, "features": 6, "hidden_size": 4,
    "in1_features": 6, "in2_features": 6, "in_channels": 6, "in_features": 6, "input_size": 6, "kernel_size": 2,
    "nhead": 2, "nin": 6, "normalized_shape": 6, "nout": 3, "nouts": [4, 3], "num_channels": 6, "num_embeddings": 9,
    "num_features": 6, "num_groups": 2, "num_heads": 2, "num_layers": 2, "out_channels": 4, "out_features": 4,
    "output_size": 2, "p": 0.25, "scale_factor": 2, "size": 2, "threshold": 0.5, "upscale_factor": 1, "value": 0.25,
    "downscale_factor": 1, "lower": 0.1, "upper": 0.3, "dim": 1, "num_parameters": 6, "shape": (2, 3),
    "unflattened_size": (2, 3), "padding": 1, "groups": 2, "norm_type": 2.0,
}  # fmt: skip
"""Arguments that constructors cannot do without, by the names of their parameters, whatever the layer."""

SMALL = {"d_model": 6, "nhead": 2, "dim_feedforward": 4, "num_encoder_layers": 1, "num_decoder_layers": 1}
"""Other arguments than defaults that would take long."""

OTHERWISE: dict[str, Any] = {
    "bias": False, "dtype": "float64", "eps": 0.25, "momentum": 0.75, "affine": False, "p": 0.75, "stride": 1,
    "padding": 1, "dilation": 2, "groups": 2, "hidden": 5, "nonlin": False, "negative_slope": 0.5, "alpha": 2.0,
    "approximate": "tanh", "min_val": -0.5, "axis": 0, "reduction": "sum", "label_smoothing": 0.25, "delta": 2.0,
    "start": 0, "dropout": 0.25, "bidirectional": True, "batch_first": True, "num_layers": 2,
    "elementwise_affine": False,
}  # fmt: skip
"""Other arguments than the defaults."""

LAYERS = {
    name: kind
    for name in nn.__all__
    if inspect.isclass(kind := getattr(nn, name)) and issubclass(kind, nn.Module) and kind not in (nn.Module, nn.Call)
}


ALSO: dict[str, dict[str, Any]] = {
    **{key: {"scale_factor": 2} for key in ("Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d")},
    **{key: {"output_size": 2} for key in ("FractionalMaxPool2d", "FractionalMaxPool3d")},
}
"""What only some need, as they take one of two arguments."""


def modules() -> list[nn.Module]:
    return [nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2)]


def base(kind: type[nn.Module]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments to make a layer with."""
    args: tuple[Any, ...] = ()
    named: dict[str, Any] = dict(ALSO.get(kind.__name__, {}))
    for each in inspect.signature(kind).parameters.values():
        if each.kind is each.VAR_POSITIONAL:
            args = tuple(modules())
        elif each.name == "items":
            held: list[Any] = modules() if "Module" in kind.__name__ else [nn.parameter((2, 3)), nn.parameter((4,))]
            named["items"] = {f"x{i}": x for i, x in enumerate(held)} if "Dict" in kind.__name__ else held
        elif each.name in SMALL:
            named[each.name] = SMALL[each.name]
        elif each.default is each.empty and each.kind is not each.VAR_KEYWORD:
            inner = {"encoder_layer": "TransformerEncoderLayer", "decoder_layer": "TransformerDecoderLayer"}
            assert each.name in {**inner, **NEEDED}, f"say in NEEDED what {each.name} of {kind.__name__} may be"
            named[each.name] = make(inner[each.name]) if each.name in inner else NEEDED[each.name]
    return args, named


def make(name: str, **more: Any) -> nn.Module:
    args, named = base(LAYERS[name])
    return LAYERS[name](*args, **named | more)


def variants() -> list[tuple[str, str]]:
    found = []
    for name, kind in LAYERS.items():
        parameters = inspect.signature(kind).parameters
        options = [option for option in OTHERWISE if option in parameters and option not in base(kind)[1]]
        if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            options.append("dtype")
        found += [(name, option) for option in ["", *options]]
    return found


def disturbed(model: nn.Module, draw: random.Random) -> nn.Module:
    """Other numbers in all tensors, and modules in both modes."""
    for _, x in model.named_tensors():
        if x.dtype.is_floating:
            x.data = mg.random.uniform(
                x.shape, 0.5, 2.0, generator=mg.random.Generator(draw.randrange(99)), dtype="float64"
            ).astype(x.dtype)
        elif x.dtype.is_integer:
            x.data = asarray([draw.randrange(9) for _ in range(x.size)], dtype=x.dtype).reshape(x.shape)
    for _, module in model.named_modules():
        if draw.random() < 0.5:
            module.training = draw.random() < 0.5
    return model


def facts(model: nn.Module) -> dict[str, Any]:
    """All that there is to say of a model."""
    tensors = model._every_tensor()
    first = {id(x): name for name, x in reversed(tensors.items())}
    return {
        "text": f"{model!r} {model}",
        "tensors": {
            name: (x.dtype, x.shape, x.tolist(), x.requires_grad, x.is_leaf, str(x.device), first[id(x)])
            for name, x in tensors.items()
        },
        "modules": {
            name: (type(x), x.training, sorted(vars(x).keys() - {"_made"}), plain(x))
            for name, x in model.named_modules()
        },
    }


def plain(module: nn.Module) -> dict[str, Any]:
    return {name: x for name, x in vars(module).items() if type(x) in (int, float, str, bool, type(None))}


INPUTS: list[Callable[[], Any]] = [
    lambda: mg.random.uniform((2, 6), generator=mg.random.Generator(0)),
    lambda: mg.random.uniform((2, 6, 6), generator=mg.random.Generator(0)),
    lambda: mg.random.uniform((2, 6, 6, 6), generator=mg.random.Generator(0)),
    lambda: mg.random.uniform((2, 6, 6, 6, 6), generator=mg.random.Generator(0)),
    lambda: asarray([[1, 2], [3, 0]]),
    lambda: mg.random.uniform((2, 6), generator=mg.random.Generator(0), dtype="float64"),
]


def result(model: nn.Module, inputs: list[Any]) -> list[str]:
    """What a model gives, with the same random numbers each time."""
    mg.random.manual_seed(5)
    with mg.no_grad():
        leaves, _ = pytrees.flatten(model(*inputs))
    return [str(x.tolist() if isinstance(x, mg.Tensor) else x) for x in leaves]


def accepted(model: nn.Module) -> list[Any] | None:
    """Something that a model takes."""
    for count in (1, 2):
        for made in INPUTS:
            inputs = [made() for _ in range(count)]
            with suppress(Exception):
                result(copy.deepcopy(model), inputs)
                return inputs
    return None


SILENT = "ModuleList ModuleDict ParameterList ParameterDict".split()
"""Those that only hold."""
ODD = "Fold MaxUnpool1d MaxUnpool2d MaxUnpool3d".split()
"""Those that take what does not come by chance."""


def sampled() -> list[tuple[str, str]]:
    """Each layer, and some of those with other arguments."""
    found = variants()
    options = [each for each in found if each[1]]
    return found if EXHAUSTIVE else [each for each in found if not each[1]] + random.Random(0).sample(options, 40)


@pytest.mark.parametrize(("name", "option"), sampled())
def test_each_layer_comes_back_as_it_was(tmp_path: Path, name: str, option: str) -> None:
    draw = random.Random(f"{name}{option}")
    model = disturbed(make(name, **{option: OTHERWISE[option]} if option else {}), draw)
    save(tmp_path / "a", model=model)
    again = load_model(tmp_path / "a")
    assert facts(again) == facts(model)
    inputs = accepted(model)
    if inputs is not None:
        assert result(again, inputs) == result(model, inputs)
    assert inputs is not None or "Loss" in name or name in SILENT or name in ODD, "nothing was computed"


# ── networks ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_changed_since_is_so_again(tmp_path: Path) -> None:
    model = nn.Sequential(
        nn.Linear(4, 4), nn.Dropout(0.5), nn.TransformerBlock(4, 2), nn.BatchNorm1d(4), nn.Conv1d(4, 4, 3)
    )
    model.layers[0].bias = None
    model.layers[1].p = 0.125
    model.layers[2].perceptron.layers[1] = nn.Tanh()
    model.layers[2].attention.out_proj = nn.Linear(4, 4, bias=False)
    model.layers[3].weight.requires_grad = False
    model.layers[3].half()
    model.layers[4].options["padding"] = 1
    model.layers.append(nn.Identity())
    model.note = {"epochs": 3, "shape": (1, 2)}
    model.extra = nn.parameter((3,))
    model.eval()
    save(tmp_path / "a", model=model)
    again = load_model(tmp_path / "a")
    assert facts(again) == facts(model)
    assert again.note == {"epochs": 3, "shape": (1, 2)}
    assert again.layers[4].options == model.layers[4].options


def test_what_is_shared_is_shared_again(tmp_path: Path) -> None:
    shared, generator = nn.Linear(4, 4), mg.random.Generator(3)
    model = nn.Sequential(
        shared, nn.Dropout(generator=generator), shared, nn.Dropout(generator=generator), nn.Linear(4, 4)
    )
    model.layers[4].weight = shared.weight
    model(mg.ones((2, 4)))
    save(tmp_path / "a", model=model)
    again = load_model(tmp_path / "a")
    assert again[0] is again[2]
    assert again[4].weight is again[0].weight
    assert again[4].bias is not again[0].bias
    assert again[1].generator is again[3].generator
    assert again[1].generator.state == generator.state
    assert again(mg.ones((2, 4))).tolist() == model(mg.ones((2, 4))).tolist()
    one = load(tmp_path / "a")
    assert sorted(one.tensors) == ["0.bias", "0.weight", "4.bias"]
    assert sorted(one.state_dict()) == sorted(model.state_dict())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes_are_kept(tmp_path: Path, dtype: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).to(dtype=dtype)
    save(tmp_path / "a", model=model)
    assert facts(load_model(tmp_path / "a")) == facts(model)


def test_making_a_model_again_draws_no_random_numbers(tmp_path: Path) -> None:
    save(tmp_path / "a", model=nn.Sequential(nn.Linear(2, 2), nn.MLP(2, [2])))
    mg.random.manual_seed(0)
    random.seed(0)
    before = mg.random.default_generator().state, random.getstate()
    load_model(tmp_path / "a")
    assert (mg.random.default_generator().state, random.getstate()) == before


class Mine(nn.Module):
    """A user's own."""

    def __init__(self, width: int, act: Any = None, *, depth: int = 1, **more: Any) -> None:
        self.inner = nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)])
        self.act = act or mg.relu
        self.more = more

    def forward(self, x: Any) -> Any:
        return self.act(self.inner(x))


class Outer(nn.Module):
    def __init__(self) -> None:
        self.parts = {"mine": Mine(2, depth=2), "tuple": (nn.Linear(2, 1), None)}

    def forward(self, x: Any) -> Any:
        return self.parts["tuple"][0](self.parts["mine"](x))


def test_a_class_of_your_own_is_asked_for(tmp_path: Path) -> None:
    model = Outer()
    save(tmp_path / "a", model=model)
    with pytest.raises(
        CheckpointError, match=r"the model in .* is a Outer.*load_model\(path, classes=\{'Outer': Outer\}\)"
    ):
        load_model(tmp_path / "a")
    with pytest.raises(CheckpointError, match=r"the module 'parts.mine' in .* is a Mine.*load\(path, model=\.\.\.\)"):
        load_model(tmp_path / "a", classes=[Outer])
    for classes in ([Outer, Mine], {"Outer": Outer, "Mine": Mine}):
        assert facts(load_model(tmp_path / "a", classes=classes)) == facts(model)
    again = Outer()
    load(tmp_path / "a", model=again)
    assert facts(again)["tensors"] == facts(model)["tensors"]


class Linear(nn.Module):
    """Named as one of ours."""

    def __init__(self, a: int, b: int) -> None:
        self.a, self.b = a, b


def test_a_class_with_a_name_of_ours_is_not_taken_for_ours(tmp_path: Path) -> None:
    save(tmp_path / "a", model=Linear(2, 3))
    with pytest.raises(CheckpointError, match="a class of your own"):
        load_model(tmp_path / "a")
    assert type(load_model(tmp_path / "a", classes=[Linear])) is Linear


def test_arguments_are_kept_where_a_file_holds_them(tmp_path: Path) -> None:
    for act in (mg.gelu, mg.tanh):
        model = Mine(2, act, depth=3, note="kept")
        save(tmp_path / "a", model=model)
        again: Any = load_model(tmp_path / "a", classes=[Mine])
        assert again.act is act
        assert again.more == {"note": "kept"}
    save(tmp_path / "a", model=nn.Sequential(Mine(2, lambda x: x)))
    with pytest.raises(
        CheckpointError, match=r"module '0', a Mine, was made with a function as act.*load\(path, model"
    ):
        load_model(tmp_path / "a", classes=[Mine])


def test_copies_know_what_they_were_made_with(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        save(tmp_path / "a", model=twin)
        assert facts(load_model(tmp_path / "a")) == facts(model)
    bare = nn.Linear.__new__(nn.Linear)
    del bare.__dict__["_made"]  # as what was pickled by former versions
    vars(bare).update(weight=model[0].weight, bias=model[0].bias)
    save(tmp_path / "a", model=bare)
    assert facts(load_model(tmp_path / "a")) == facts(bare)
    bare.act = lambda x: x  # what a file does not hold, and no argument would make
    save(tmp_path / "a", model=bare)
    with pytest.raises(CheckpointError, match=r"with which arguments the model, a Linear, was made is not known"):
        load_model(tmp_path / "a")


def test_a_layer_that_a_later_version_has_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a", model=nn.Sequential(nn.Tanh()))
    monkeypatch.setattr(nn, "__all__", [name for name in nn.__all__ if name != "Tanh"])
    with pytest.raises(CheckpointError, match="module '0' in .* is a Tanh, which this version.*pip install -U"):
        load_model(tmp_path / "a")


def test_what_a_module_is_made_with_does_not_live_on_with_it() -> None:
    import gc
    import weakref

    layer = nn.Linear(2, 2)
    model, seen = nn.Sequential(layer), weakref.ref(layer)
    model.layers[0] = nn.ReLU()
    del layer
    gc.collect()
    assert seen() is None


def test_arguments_of_a_class_without_a_constructor_are_refused() -> None:
    class Bare(nn.Module): ...

    assert str(inspect.signature(Bare)) == "()"
    for wrong in (lambda: Bare(3), lambda: Bare(a=3)):
        with pytest.raises(TypeError, match="takes no arguments"):
            wrong()


# ── networks by chance ───────────────────────────────────────────────────────────────────────────────────────

PLAIN = [(name, option) for name, option in variants() if not LAYERS[name].__name__.endswith("Loss")]


def grown(draw: random.Random, depth: int, known: list[nn.Module]) -> nn.Module:
    if known and draw.random() < 0.15:
        return draw.choice(known)
    if depth and draw.random() < 0.5:
        made: nn.Module = nn.Sequential(*[grown(draw, depth - 1, known) for _ in range(draw.randrange(1, 4))])
        if draw.random() < 0.3:
            vars(made)["also"] = {"deep": [grown(draw, depth - 1, known)], "n": (1, None)}
    else:
        name, option = draw.choice(PLAIN)
        made = make(name, **{option: OTHERWISE[option]} if option else {})
    known.append(made)
    return made


def test_any_network_comes_back_as_it_was(tmp_path: Path) -> None:
    for seed in range(2_000 if EXHAUSTIVE else 30):
        draw = random.Random(seed)
        known: list[nn.Module] = []
        model = disturbed(nn.Sequential(grown(draw, 3, known), grown(draw, 3, known)), draw)
        holders = [m for _, m in model.named_modules() if isinstance(vars(m).get("weight"), mg.Tensor)]
        for one, other in itertools.pairwise(holders):
            if one.weight.shape == other.weight.shape and one.weight.requires_grad is other.weight.requires_grad:
                one.weight = other.weight
            other.weight.requires_grad = draw.random() < 0.7
        save(tmp_path / "a", model=model)
        again = load_model(tmp_path / "a")
        assert facts(again) == facts(model), seed
        save(tmp_path / "b", model=again)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes(), seed
