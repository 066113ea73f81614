"""What torch's layers take ours take: arguments and inputs by generation, of which torch says what is legal.

An input may come without a batch where torch lets it. Values, shapes and gradients are torch's, with `jit` and without.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import asarray, jit, nn
from micrograd_core.errors import ShapeError
from tests.against_torch import torch
from tests.interrupts import EXHAUSTIVE

T: Any = torch
Draw = random.Random
Made = tuple[tuple[Any, ...], dict[str, Any], list[Any]]
"""Arguments of the layer, arguments by name, and its inputs: shapes of floats, or arrays."""


def each(rng: Draw, rank: int, *values: int) -> Any:
    """One number for all axes, or one for each."""
    return rng.choice(values) if rng.random() < 0.5 else tuple(rng.choice(values) for _ in range(rank))


def shape(rng: Draw, rank: int, channels: int, least: int = 3, most: int = 8) -> tuple[int, ...]:
    """Of an image, with its batch or without."""
    most = {1: most, 2: most, 3: min(most, 6)}[rank]
    return (*((rng.choice((1, 2)),) * rng.randrange(2)), channels, *(rng.randint(least, most) for _ in range(rank)))


def convolution(rng: Draw, rank: int) -> Made:
    groups = rng.choice((1, 1, 2, 4))
    given: dict[str, Any] = {
        "stride": each(rng, rank, 1, 2, 3), "padding": each(rng, rank, 0, 1, 2), "dilation": each(rng, rank, 1, 2),
        "groups": groups, "bias": rng.random() < 0.7,
    }  # fmt: skip
    if rng.random() < 0.4:
        given |= {"padding": rng.choice(("same", "valid"))}
        given |= {"stride": 1} if given["padding"] == "same" else {}
    if rng.random() < 0.4:
        given["padding_mode"] = rng.choice(("zeros", "reflect", "replicate", "circular"))
    return (4, rng.choice((4, 8)), each(rng, rank, 1, 2, 3)), given, [shape(rng, rank, 4)]


def transposed(rng: Draw, rank: int) -> Made:
    given = {
        "stride": each(rng, rank, 1, 2, 3), "padding": each(rng, rank, 0, 1), "dilation": each(rng, rank, 1, 2, 4),
        "output_padding": each(rng, rank, 0, 0, 1, 2, 3), "groups": rng.choice((1, 2, 4)), "bias": rng.random() < 0.7,
    }  # fmt: skip
    return (4, rng.choice((4, 8)), each(rng, rank, 1, 2, 3)), given, [shape(rng, rank, 4, 2, 5)]


def maximum(rng: Draw, rank: int) -> Made:
    given = {
        "stride": rng.choice((None, each(rng, rank, 1, 2, 3))), "padding": each(rng, rank, 0, 0, 1),
        "dilation": each(rng, rank, 1, 1, 2), "ceil_mode": rng.random() < 0.5, "return_indices": rng.random() < 0.3,
    }  # fmt: skip
    return (each(rng, rank, 1, 2, 3),), given, [shape(rng, rank, 2)]


def average(rng: Draw, rank: int) -> Made:
    given: dict[str, Any] = {
        "stride": rng.choice((None, each(rng, rank, 1, 2, 3))), "padding": each(rng, rank, 0, 0, 1),
        "ceil_mode": rng.random() < 0.5, "count_include_pad": rng.random() < 0.5,
    }  # fmt: skip
    if rank > 1 and rng.random() < 0.3:
        given["divisor_override"] = rng.choice((1, 3))
    return (each(rng, rank, 1, 2, 3),), given, [shape(rng, rank, 2)]


def norm_pool(rng: Draw, rank: int) -> Made:
    given = {"stride": rng.choice((None, each(rng, rank, 1, 2))), "ceil_mode": rng.random() < 0.5}
    return (rng.choice((1, 2, 3.0)), each(rng, rank, 1, 2, 3)), given, [shape(rng, rank, 2)]


def adaptive(rng: Draw, rank: int) -> Made:
    sizes = rng.choice((each(rng, rank, 1, 2, 5), None if rank > 1 else 2))
    if rank > 1 and rng.random() < 0.4:
        sizes = tuple(rng.choice((None, 1, 3, 9)) for _ in range(rank))
    return (sizes,), {}, [shape(rng, rank, 2)]


def padding(rng: Draw, rank: int) -> Made:
    widths = rng.randrange(3) if rng.random() < 0.5 else tuple(rng.randrange(-1, 3) for _ in range(2 * rank))
    return (widths,), {}, [shape(rng, rank, 2)]


def constant_padding(rng: Draw, rank: int) -> Made:
    (widths,), given, inputs = padding(rng, rank)
    return (widths, rng.choice((0.0, 1, -2.5))), given, inputs


def instance_norm(rng: Draw, rank: int) -> Made:
    given = {
        "eps": rng.choice((1e-5, 1e-2)), "momentum": rng.choice((0.1, 0.5, None)), "affine": rng.random() < 0.5,
        "track_running_stats": rng.random() < 0.5,
    }  # fmt: skip
    return (3,), given, [shape(rng, rank, 3)]


def batch_norm(rng: Draw, rank: int) -> Made:
    args, given, _ = instance_norm(rng, rank)
    rest = () if rank == 1 and rng.random() < 0.4 else tuple(rng.randint(1, 4) for _ in range(rank))
    return args, given, [(rng.choice((2, 3)), 3, *rest)]


def dropout(rng: Draw, rank: int) -> Made:
    return (0.0,), {}, [shape(rng, rank, 3)]


def recurrent(rng: Draw, rank: int, states: int = 1, **more: Any) -> Made:
    layers, both, first = rng.choice((1, 2)), rng.random() < 0.5, rng.random() < 0.5
    given = {"num_layers": layers, "bidirectional": both, "batch_first": first, "bias": rng.random() < 0.5, **more}
    batch, length = rng.randrange(3), rng.randint(1, 4)
    x = (length, 3) if not batch else (batch, length, 3) if first else (length, batch, 3)
    sizes = (layers * (1 + both), *((batch,) if batch else ()))
    held: list[Any] = [(*sizes, given.get("proj_size") or 5), (*sizes, 5)][:states]
    start = [] if rng.random() < 0.5 else held if states == 1 else [held]
    return (3, 5), given, [x, *start]


def lstm(rng: Draw, rank: int) -> Made:
    return recurrent(rng, rank, 2, **({"proj_size": 2} if rng.random() < 0.3 else {}))


def rnn(rng: Draw, rank: int) -> Made:
    return recurrent(rng, rank, nonlinearity=rng.choice(("tanh", "relu")))


def cell(rng: Draw, rank: int, states: int = 1) -> Made:
    batch = (2,) * rng.randrange(2)
    held: list[Any] = [(*batch, 5)] * states
    return (
        (3, 5, rng.random() < 0.5),
        {},
        [(*batch, 3), *([] if rng.random() < 0.5 else held if states == 1 else [held])],
    )


def sequences(rng: Draw, first: bool, *lengths: int, width: int = 8) -> list[tuple[int, ...]]:
    """Sequences of one batch or none."""
    batch = rng.randrange(3)
    return [(n, width) if not batch else (batch, n, width) if first else (n, batch, width) for n in lengths]


def hidden(rows: int, columns: int) -> Any:
    return np.triu(np.ones((rows, columns), bool), 1)


def attention(rng: Draw, rank: int) -> Made:
    first = rng.random() < 0.5
    given = {
        "bias": rng.random() < 0.5, "add_bias_kv": rng.random() < 0.3, "add_zero_attn": rng.random() < 0.3,
        "batch_first": first,
    }  # fmt: skip
    query, *others = sequences(rng, first, 3, 4, 4)
    mask = rng.choice((None, hidden(3, 4)))
    extra = {"need_weights": rng.random() < 0.5, "attn_mask": mask, "average_attn_weights": rng.random() < 0.5}
    if rng.random() < 0.4:
        batch = () if len(query) == 2 else (query[0 if first else 1],)
        extra["key_padding_mask"] = np.broadcast_to(np.array([False, False, False, True]), (*batch, 4)).copy()
    return (8, 2), given, [query, *others, extra]


def transformer_layer(rng: Draw, rank: int) -> Made:
    first = rng.random() < 0.5
    given = {
        "dim_feedforward": 6, "dropout": 0.0, "activation": rng.choice(("relu", "gelu")), "batch_first": first,
        "norm_first": rng.random() < 0.5, "bias": rng.random() < 0.5,
    }  # fmt: skip
    return (8, 2), given, [*sequences(rng, first, 3), *([hidden(3, 3)] if rng.random() < 0.5 else [])]


def decoder_layer(rng: Draw, rank: int) -> Made:
    args, given, _ = transformer_layer(rng, rank)
    return args, given, [*sequences(rng, given["batch_first"], 3, 4), *([hidden(3, 3)] if rng.random() < 0.5 else [])]


def transformer(rng: Draw, rank: int) -> Made:
    args, given, _ = transformer_layer(rng, rank)
    given |= {"num_encoder_layers": 1, "num_decoder_layers": 1}
    return args, given, sequences(rng, given["batch_first"], 3, 4)


def upsampling(rng: Draw, rank: int) -> Made:
    mode = rng.choice(
        ("nearest", {1: "linear", 2: "bilinear", 3: "trilinear"}[rank], *(["bicubic"] if rank == 2 else []))
    )
    size = {"size": each(rng, rank, 2, 5, 7)} if rng.random() < 0.5 else {"scale_factor": rng.choice((2, 0.5, 1.7))}
    size |= {"align_corners": rng.choice((True, False, None))} if mode != "nearest" else {}
    return (), {"mode": mode, **size}, [(2, 2, *shape(rng, rank, 2)[-rank:])]


def windows(rng: Draw, rank: int) -> Made:
    given = {"dilation": each(rng, 2, 1, 2), "padding": each(rng, 2, 0, 1), "stride": each(rng, 2, 1, 2)}
    return (each(rng, 2, 1, 2, 3),), given, [shape(rng, 2, 2)]


def shuffle(rng: Draw, rank: int) -> Made:
    leading = tuple(rng.randint(1, 2) for _ in range(rng.randrange(3)))
    return (2,), {}, [(*leading, 4, 2, 4)]


def of_features(rng: Draw, rank: int) -> Made:
    leading = tuple(rng.randint(1, 3) for _ in range(rng.randrange(4)))
    return (3, 4), {"bias": rng.random() < 0.5}, [(*leading, 3)]


def bilinear(rng: Draw, rank: int) -> Made:
    leading = tuple(rng.randint(1, 3) for _ in range(rng.randrange(3)))
    return (3, 4, 2), {"bias": rng.random() < 0.5}, [(*leading, 3), (*leading, 4)]


def layer_norm(rng: Draw, rank: int) -> Made:
    leading = tuple(rng.randint(1, 3) for _ in range(rng.randrange(3)))
    normalized = rng.choice((4, (4,), [3, 4]))
    given = {"elementwise_affine": rng.random() < 0.5}
    return (normalized,), given, [(*leading, 3, 4)]


def group_norm(rng: Draw, rank: int) -> Made:
    rest = tuple(rng.randint(2, 3) for _ in range(rng.randrange(1, 4)))
    return (rng.choice((1, 2, 4)), 4), {"affine": rng.random() < 0.5}, [(2, 4, *rest)]


def response_norm(rng: Draw, rank: int) -> Made:
    return (rng.choice((1, 2, 3)),), {"k": rng.choice((1.0, 2.0))}, [(2, 4, *(3,) * rng.randrange(1, 4))]


def flatten(rng: Draw, rank: int) -> Made:
    return (
        (rng.choice((0, 1, -2)), rng.choice((-1, 2, -2))),
        {},
        [tuple(rng.randint(1, 3) for _ in range(rng.randint(1, 4)))],
    )


def by_axis(rng: Draw, rank: int) -> Made:
    axes = rng.randint(1, 3)
    return (), {"dim": rng.randrange(-axes, axes)}, [tuple(rng.choice((2, 4)) for _ in range(axes))]


def elementwise(rng: Draw, rank: int) -> Made:
    return (), {}, [tuple(rng.randint(0, 3) for _ in range(rng.randrange(4)))]


def reduction(rng: Draw) -> dict[str, Any]:
    return {"reduction": rng.choice(("mean", "sum", "none"))}


def of_two(rng: Draw, rank: int) -> Made:
    x = tuple(rng.randint(1, 3) for _ in range(rng.randrange(4)))
    return (), reduction(rng), [x, x]


def of_signs(rng: Draw, rank: int) -> Made:
    x = tuple(rng.randint(1, 3) for _ in range(rng.randrange(4)))
    return (), reduction(rng), [x, np.array([rng.choice((-1.0, 1.0)) for _ in range(int(np.prod(x)))]).reshape(x)]


def of_classes(rng: Draw, rank: int) -> Made:
    x = rng.choice(((4,), (3, 4), (2, 4, 3), (2, 4, 2, 3)))
    places = x[:1] + x[2:] if len(x) > 1 else ()
    labels = np.array([rng.randrange(4) for _ in range(int(np.prod(places)))]).reshape(places)
    given = reduction(rng)
    if rng.random() < 0.3:
        given["ignore_index"] = rng.randrange(4)
    return (), given, [x, labels]


def cross_entropy(rng: Draw, rank: int) -> Made:
    args, given, inputs = of_classes(rng, rank)
    given |= {"label_smoothing": rng.choice((0.0, 0.2))}
    if rng.random() < 0.3 and "ignore_index" not in given:
        inputs = [inputs[0], inputs[0]]
    return args, given, inputs


def margins(rng: Draw, rank: int) -> Made:
    x = rng.choice(((4,), (3, 4)))
    labels = np.array([rng.randrange(4) for _ in range(int(np.prod(x[:-1])))]).reshape(x[:-1])
    return (), {**reduction(rng), "p": rng.choice((1, 2)), "margin": rng.choice((1.0, 0.5))}, [x, labels]


def multi_label(rng: Draw, rank: int) -> Made:
    x = rng.choice(((4,), (3, 4)))
    labels = np.broadcast_to(np.array([1, 3, -1, 0]), x).copy()
    return (), reduction(rng), [x, labels]


def multi_label_soft(rng: Draw, rank: int) -> Made:
    x = rng.choice(((4,), (3, 4), (2, 3, 4)))
    return (), reduction(rng), [x, np.array([float(rng.randrange(2)) for _ in range(int(np.prod(x)))]).reshape(x)]


def triplet(rng: Draw, rank: int) -> Made:
    x = rng.choice(((4,), (3, 4), (2, 3, 4)))
    return (), {**reduction(rng), "swap": rng.random() < 0.5, "p": rng.choice((1.0, 2.0))}, [x, x, x]


def cosine_embedding(rng: Draw, rank: int) -> Made:
    x = rng.choice(((4,), (3, 4)))
    return (), {**reduction(rng), "margin": 0.1}, [x, x, np.sign(np.array(rng.uniform(-1, 1)) + np.zeros(x[:-1]))]


def similarity(rng: Draw, rank: int) -> Made:
    x, y = rng.choice((((4,), (4,)), ((3, 4), (3, 4)), ((2, 3, 4), (3, 4)), ((2, 3, 4), (2, 3, 4))))
    return (), {"dim": rng.choice((-1, 0))}, [x, y]


def distance(rng: Draw, rank: int) -> Made:
    x, y = rng.choice((((4,), (4,)), ((3, 4), (3, 4)), ((3, 4), (4,)), ((2, 3, 4), (2, 3, 4))))
    return (rng.choice((1.0, 2.0, 3.0)),), {"keepdim": rng.random() < 0.5}, [x, y]


def embedding(rng: Draw, rank: int) -> Made:
    places = tuple(rng.randint(1, 3) for _ in range(rng.randrange(3)))
    names = np.array([rng.randrange(5) for _ in range(int(np.prod(places)))]).reshape(places)
    return (5, 3), {"padding_idx": rng.choice((None, 0, -1))}, [names]


def prelu(rng: Draw, rank: int) -> Made:
    return (rng.choice((1, 3)),), {}, [rng.choice(((3,), (2, 3), (2, 3, 4), ()))]


def halves(rng: Draw, rank: int) -> Made:
    return (rng.choice((0, -1)),), {}, [rng.choice(((4,), (2, 4), (4, 3, 2)))]


def plane_softmax(rng: Draw, rank: int) -> Made:
    return (), {}, [shape(rng, 2, 3)]


RANKS: dict[str, Callable[[Draw, int], Made]] = {
    "Conv": convolution, "ConvTranspose": transposed, "MaxPool": maximum, "AvgPool": average, "LPPool": norm_pool,
    "AdaptiveAvgPool": adaptive, "AdaptiveMaxPool": adaptive, "ReflectionPad": padding, "ReplicationPad": padding,
    "CircularPad": padding, "ZeroPad": padding, "ConstantPad": constant_padding, "InstanceNorm": instance_norm,
    "BatchNorm": batch_norm, "Dropout": dropout,
}  # fmt: skip
LAYERS: dict[str, tuple[Callable[[Draw, int], Made], int]] = {
    **{f"{name}{rank}d": (make, rank) for name, make in RANKS.items() for rank in (1, 2, 3)},
    **{f"Upsample of {rank}": (upsampling, rank) for rank in (1, 2, 3)},
    **{
        name: (make, 0)
        for names, make in {
            "RNN": rnn, "LSTM": lstm, "GRU": recurrent, "RNNCell GRUCell": cell,
            "LSTMCell": lambda rng, rank: cell(rng, rank, 2), "MultiheadAttention": attention,
            "TransformerEncoderLayer": transformer_layer, "TransformerDecoderLayer": decoder_layer,
            "Transformer": transformer, "Unfold": windows, "PixelShuffle": shuffle, "PixelUnshuffle": shuffle,
            "Linear": of_features, "Bilinear": bilinear, "LayerNorm RMSNorm": layer_norm, "GroupNorm": group_norm,
            "LocalResponseNorm": response_norm, "Flatten": flatten, "Softmax LogSoftmax Softmin": by_axis,
            "ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Sigmoid LogSigmoid Tanh Tanhshrink Softplus Softshrink "
            "Softsign Hardshrink Hardsigmoid Hardswish Hardtanh Identity Dropout AlphaDropout": elementwise,
            "MSELoss L1Loss SmoothL1Loss HuberLoss PoissonNLLLoss": of_two,
            "SoftMarginLoss HingeEmbeddingLoss": of_signs, "NLLLoss": of_classes, "CrossEntropyLoss": cross_entropy,
            "MultiMarginLoss": margins, "MultiLabelMarginLoss": multi_label,
            "MultiLabelSoftMarginLoss": multi_label_soft, "BCEWithLogitsLoss": multi_label_soft,
            "TripletMarginLoss": triplet, "CosineEmbeddingLoss": cosine_embedding, "CosineSimilarity": similarity,
            "PairwiseDistance": distance, "Embedding": embedding, "PReLU": prelu, "GLU": halves,
            "Softmax2d": plane_softmax,
        }.items()
        for name in names.split()
    },
}  # fmt: skip
BY_CHANCE = frozenset({"AlphaDropout", "Dropout"})


def flat(x: Any) -> list[Any]:
    return [y for each in x for y in flat(each)] if isinstance(x, (tuple, list)) else [] if x is None else [x]


def ours_of(name: str, inputs: list[Any]) -> list[Any]:
    """Our attention's mask says where a target may look, and torch's where it may not."""
    if name != "MultiheadAttention" or inputs[-1]["attn_mask"] is None:
        return inputs
    return [*inputs[:-1], {**inputs[-1], "attn_mask": ~inputs[-1]["attn_mask"]}]


def tensors(library: str, inputs: list[Any]) -> tuple[list[Any], dict[str, Any], list[Any]]:
    """Operands, operands by name, and those that have gradients; the same numbers for both libraries."""
    rng, leaves = np.random.default_rng(1), list[Any]()

    def one(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(one(each) for each in value)
        if not isinstance(value, (tuple, np.ndarray)):
            return value
        drawn = rng.uniform(-1, 1, value) if isinstance(value, tuple) else value
        made = T.tensor(drawn) if library == "torch" else asarray(drawn)
        if isinstance(value, tuple):
            made.requires_grad = True
            leaves.append(made)
        return made

    named = {key: one(value) for each in inputs if isinstance(each, dict) for key, value in each.items()}
    return [one(each) for each in inputs if not isinstance(each, dict)], named, leaves


def outcome(library: str, module: Any, call: Any, inputs: list[Any]) -> list[Any]:
    """Results and gradients."""
    args, named, leaves = tensors(library, inputs)
    found = flat(call(*args, **named))
    leaves = [*leaves, *module.parameters()]
    for x in leaves:
        x.grad = None
    total = [(x * x * x + x).sum() for x in found if "int" not in str(x.dtype)]
    if total[0].requires_grad:
        sum(total[1:], total[0]).backward()
    gradients = [np.zeros(tuple(x.shape)) if x.grad is None else x.grad.numpy() for x in leaves]
    return [*(np.asarray(x.detach().numpy()) for x in found), *gradients]


def wanted(name: str, made: Made) -> tuple[Any, list[Any]] | None:
    """Torch's module and what comes of it, or nothing where torch refuses it."""
    args, given, inputs = made
    T.manual_seed(0)
    try:
        theirs = getattr(T.nn, name.split()[0])(*args, **given).double()
        theirs.train(name not in BY_CHANCE)
        state = {key: value.numpy().copy() for key, value in theirs.state_dict().items()}
        with T.nn.attention.sdpa_kernel(T.nn.attention.SDPBackend.MATH):
            found = outcome("torch", theirs, theirs, inputs)
        return state, [*found, *(each.numpy() for each in theirs.buffers())]
    except (RuntimeError, ValueError, AssertionError, IndexError, TypeError, NotImplementedError):
        return None


@pytest.mark.filterwarnings("ignore")  # torch's
@pytest.mark.parametrize("name", LAYERS)
def test_what_torch_takes_gives_the_same(name: str) -> None:
    make, rank = LAYERS[name]
    legal, count = 0, 100 if EXHAUSTIVE else 6 if name.startswith(("Conv", "MaxPool")) else 3
    for seed in range(8 * count):
        if legal == count:
            break
        rng = random.Random(f"{name}{seed}")
        made = make(rng, rank)
        expected = wanted(name, made)
        if expected is None:
            continue
        legal += 1
        args, given, inputs = made
        inputs = ours_of(name, inputs)
        about = f"{name}: seed {seed}, {args}, {given}, of {inputs}"
        for compiled in (False, True) if legal == 1 or EXHAUSTIVE else (False,):
            try:
                ours = getattr(nn, name.split()[0])(*args, **given).double().train(name not in BY_CHANCE)
                ours.load_state_dict(expected[0])
                found = outcome(
                    "ours", ours, jit(lambda *x, ours=ours, **y: ours(*x, **y)) if compiled else ours, inputs
                )
                found += [each.numpy() for each in ours.buffers()]
            except Exception as error:
                raise AssertionError(f"{about}, jit {compiled}: refused: {error}") from error
            assert [x.shape for x in found] == [x.shape for x in expected[1]], about
            for mine, its in zip(found, expected[1], strict=True):
                np.testing.assert_allclose(mine, its, rtol=1e-7, atol=1e-8, err_msg=about)
    assert legal >= min(count, 3), f"{name}: torch takes too little of what is drawn"


FUNCTIONS = {
    **{f"conv{rank}d": (lambda x, rank=rank: (x.ones((6, 2, *(2,) * rank)), None)) for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d": (lambda x, rank=rank: (x.ones((4, 3, *(2,) * rank)), None)) for rank in (1, 2, 3)},
    **{f"{kind}_pool{rank}d": (lambda x: (2,)) for kind in ("max", "avg") for rank in (1, 2, 3)},
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_an_input_without_a_batch(name: str, compiled: bool) -> None:
    """Those of the main namespace too, inside `vmap`, and with gradients to second order."""
    operands = FUNCTIONS[name](mg)
    given = {"groups": 2, "stride": 2} if name.startswith("conv") else {"stride": 1}
    shape = (4, *range(3, 3 + int(name[-2])))
    x = mg.Tensor(np.random.default_rng(0).integers(-9, 9, shape).astype("float32"))

    def of_squares(x: mg.Tensor) -> mg.Tensor:
        return getattr(mg, name)(x * x, *operands, **given)

    def at_once(x: mg.Tensor) -> mg.Tensor:
        return getattr(mg, name)((x * x)[None], *operands, **given)[0]

    for change in (
        lambda f: f,
        lambda f: mg.grad(lambda x: (f(x) ** 2).sum()),
        lambda f: mg.grad(lambda x: (mg.grad(lambda x: f(x).sum())(x) ** 2).sum()),
        lambda f: lambda x: mg.vmap(f)(mg.stack([x, 2 * x])),
    ):
        found, expected = change(of_squares), change(at_once)
        y = (jit(found) if compiled else found)(x)
        np.testing.assert_allclose(y.detach().numpy(), expected(x).detach().numpy(), rtol=1e-6)


def test_an_output_padding_is_less_than_the_stride_or_the_dilation() -> None:
    x, w, b = mg.ones((1, 1, 3)), mg.ones((1, 1, 2)), mg.ones(1)
    for function in (mg.conv_transpose1d, nn.functional.conv_transpose1d):
        assert function(x, w, b, output_padding=2, dilation=3).shape == (1, 1, 8)
        for wrong, words in (
            ({"output_padding": 2}, r"less than the stride \(1,\) or the dilation \(1,\) of its axis; got \(2,\)"),
            ({"output_padding": 3, "stride": 2, "dilation": 3}, r"stride \(2,\) or the dilation \(3,\).*got \(3,\)"),
            ({"output_padding": -1, "dilation": 2}, "output_padding is an integer"),
            ({"output_padding": 1, "dilation": 2, "padding": 3}, r"nothing is left of input \(1, 1, 3\).*\(3,\)"),
            ({"output_padding": 1, "dilation": 2, "groups": 2}, "groups"),
        ):
            with pytest.raises(ShapeError, match=words):
                function(x, w, b, **wrong)
        with pytest.raises(ShapeError, match=r"bias of shape \(2,\) does not fit 1 output channels"):
            function(x, w, mg.ones(2), output_padding=1, dilation=2)
    x2, w2 = mg.ones((1, 1, 3, 3)), mg.ones((1, 1, 2, 2))
    with pytest.raises(ShapeError, match=r"stride \(3, 1\) or the dilation \(1, 1\) of its axis; got \(2, 2\)"):
        mg.conv_transpose2d(x2, w2, stride=(3, 1), output_padding=2)
