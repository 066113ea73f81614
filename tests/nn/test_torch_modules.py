"""Every module equals torch's: names of the state, values, all gradients, by torch's own weights, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from micrograd_core import asarray, nn
from tests.against_torch import A, N, torch

T: Any = torch
Made = Callable[[Any], Any]


class Case:
    """A module, as a function of the library's ``nn``, and what it is called with."""

    def __init__(self, make: Made, *inputs: Any, modes: tuple[bool, ...] = (True, False), **given: Any) -> None:
        self.make, self.inputs, self.modes, self.given = make, inputs, modes, given


def positive(x: Any) -> Any:
    return np.abs(x) + 0.1


def shares(x: Any) -> Any:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def bits(*shape: int) -> A:
    return A(*shape, grad=False, kind=lambda x: (x > 0) * 1.0)


def signs(*shape: int) -> A:
    return A(*shape, grad=False, kind=np.sign)


IMAGES = {1: A(2, 4, 8), 2: A(2, 4, 6, 8), 3: A(2, 4, 4, 6, 5)}
CASES: dict[str, Case] = {}

for name in (
    "ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Sigmoid LogSigmoid Tanh Tanhshrink Softplus Softshrink Softsign "
    "Hardshrink Hardsigmoid Hardswish Hardtanh GLU Identity Flatten"
).split():
    CASES[name] = Case(lambda n, name=name: getattr(n, name)(), A(3, 4, 6))  # type: ignore[misc]
CASES |= {
    "LeakyReLU(0.3)": Case(lambda n: n.LeakyReLU(0.3), A(5)),
    "RReLU": Case(lambda n: n.RReLU(0.1, 0.3), A(5), modes=(False,)),
    "Softplus(2, 3)": Case(lambda n: n.Softplus(2, 3), A(9)),
    "Hardtanh(-0.5, 1.5)": Case(lambda n: n.Hardtanh(-0.5, 1.5), A(9)),
    "Threshold": Case(lambda n: n.Threshold(0.1, 3), A(9)),
    "Softmax": Case(lambda n: n.Softmax(dim=1), A(3, 4)),
    "LogSoftmax": Case(lambda n: n.LogSoftmax(dim=0), A(3, 4)),
    "Softmin": Case(lambda n: n.Softmin(dim=1), A(3, 4)),
    "Softmax2d": Case(lambda n: n.Softmax2d(), A(2, 3, 2, 2)),
    "PReLU": Case(lambda n: n.PReLU(), A(3, 4)),
    "PReLU(4)": Case(lambda n: n.PReLU(4, 0.1), A(2, 4, 3)),
    "Linear": Case(lambda n: n.Linear(4, 3), A(2, 5, 4)),
    "Linear, no bias": Case(lambda n: n.Linear(4, 3, bias=False), A(2, 4)),
    "Bilinear": Case(lambda n: n.Bilinear(3, 4, 2), A(5, 3), A(5, 4)),
    "Unflatten": Case(lambda n: n.Unflatten(1, (2, -1)), A(3, 4)),
    "PixelShuffle": Case(lambda n: n.PixelShuffle(2), A(2, 8, 3, 2)),
    "PixelUnshuffle": Case(lambda n: n.PixelUnshuffle(2), A(2, 2, 4, 6)),
    "ChannelShuffle": Case(lambda n: n.ChannelShuffle(2), A(2, 4, 3, 2)),
    "Fold": Case(lambda n: n.Fold((4, 5), 2), A(1, 8, 12)),
    "Unfold": Case(lambda n: n.Unfold(2, padding=1), A(1, 2, 4, 5)),
    "Upsample": Case(lambda n: n.Upsample(scale_factor=2), A(1, 2, 3, 4)),
    "Upsample, bicubic": Case(lambda n: n.Upsample((5, 7), mode="bicubic", align_corners=True), A(1, 2, 3, 4)),
    "UpsamplingNearest2d": Case(lambda n: n.UpsamplingNearest2d(scale_factor=2), A(1, 2, 3, 4)),
    "UpsamplingBilinear2d": Case(lambda n: n.UpsamplingBilinear2d((5, 6)), A(1, 2, 3, 4)),
    "LocalResponseNorm": Case(lambda n: n.LocalResponseNorm(3, 0.1), A(2, 4, 5)),
    "CosineSimilarity": Case(lambda n: n.CosineSimilarity(), A(3, 4), A(3, 4)),
    "PairwiseDistance": Case(lambda n: n.PairwiseDistance(3, keepdim=True), A(3, 4), A(3, 4)),
    "Embedding": Case(lambda n: n.Embedding(5, 3), N(2, 4, high=5)),
    "Embedding, padding": Case(lambda n: n.Embedding(5, 3, padding_idx=1), N(2, 4, high=5)),
    "Embedding, norm": Case(lambda n: n.Embedding(5, 3, None, 0.9, 2.0, True), N(2, 4, high=5)),
    "EmbeddingBag": Case(lambda n: n.EmbeddingBag(5, 3), N(2, 4, high=5)),
    "EmbeddingBag, sum": Case(lambda n: n.EmbeddingBag(5, 3, mode="sum", padding_idx=2), N(2, 4, high=5)),
    "EmbeddingBag, max": Case(lambda n: n.EmbeddingBag(5, 3, mode="max"), N(7, high=5), N(given=[0, 3])),
    "LayerNorm": Case(lambda n: n.LayerNorm(4), A(3, 4)),
    "LayerNorm, two axes": Case(lambda n: n.LayerNorm((3, 4), 1e-3, bias=False), A(2, 3, 4)),
    "LayerNorm, plain": Case(lambda n: n.LayerNorm(4, elementwise_affine=False), A(3, 4)),
    "RMSNorm": Case(lambda n: n.RMSNorm(4), A(3, 4)),
    "RMSNorm, plain": Case(lambda n: n.RMSNorm(4, 1e-3, elementwise_affine=False), A(3, 4)),
    "GroupNorm": Case(lambda n: n.GroupNorm(2, 4), A(3, 4, 2, 3)),
    "GroupNorm, plain": Case(lambda n: n.GroupNorm(2, 4, affine=False), A(3, 4, 5)),
    "Dropout": Case(lambda n: n.Dropout(0.0, True), A(3, 4)),
    "Dropout after": Case(lambda n: n.Dropout(0.4), A(3, 4), modes=(False,)),
    "AlphaDropout after": Case(lambda n: n.AlphaDropout(), A(3, 4), modes=(False,)),
    "FeatureAlphaDropout after": Case(lambda n: n.FeatureAlphaDropout(), A(3, 4, 2), modes=(False,)),
    "BatchNorm1d": Case(lambda n: n.BatchNorm1d(4), A(5, 4)),
    "BatchNorm1d, by all": Case(lambda n: n.BatchNorm1d(4, momentum=None, affine=False), A(5, 4, 3)),
    "BatchNorm2d, untracked": Case(lambda n: n.BatchNorm2d(4, track_running_stats=False), IMAGES[2]),
    "BatchNorm3d": Case(lambda n: n.BatchNorm3d(4, 1e-3, 0.3), IMAGES[3]),
    "ModuleList": Case(lambda n: listed(n)(), A(2, 3)),
    "tied": Case(lambda n: tied(n)(), N(2, 3, high=4)),
}  # fmt: skip
for rank in (1, 2, 3):
    x = IMAGES[rank]
    for name, arguments in {
        "MaxPool": (2, 1, 1, 1), "AvgPool": (2, 1, 1, True, False), "LPPool": (3, 2), "AdaptiveAvgPool": (3,),
        "AdaptiveMaxPool": (3,), "Dropout": (0.0,),
    }.items():  # fmt: skip
        positive_only = {"low": 0.1} if name == "LPPool" else {}
        CASES[f"{name}{rank}d"] = Case(
            lambda n, name=f"{name}{rank}d", arguments=arguments: getattr(n, name)(*arguments),  # type: ignore[misc]
            A(*x.shape, **positive_only),  # type: ignore[arg-type]
        )
    for name, arguments in {
        "ConstantPad": (1, 2.5), "ZeroPad": ((1, 2) * rank,), "ReflectionPad": (2,), "ReplicationPad": ((1, 2) * rank,),
        "CircularPad": (1,), "InstanceNorm": (4,),
    }.items():  # fmt: skip
        CASES[f"{name}{rank}d"] = Case(
            lambda n, name=f"{name}{rank}d", arguments=arguments: getattr(n, name)(*arguments),  # type: ignore[misc]
            x,
        )
    CASES |= {
        f"InstanceNorm{rank}d, tracked": Case(
            lambda n, rank=rank: getattr(n, f"InstanceNorm{rank}d")(4, 1e-3, 0.2, True, True), x  # type: ignore[misc]
        ),
        f"Conv{rank}d": Case(
            lambda n, rank=rank: getattr(n, f"Conv{rank}d")(4, 6, 3, 2, 1, 1, 2), x  # type: ignore[misc]
        ),
        f"Conv{rank}d, circular": Case(
            lambda n, rank=rank: getattr(n, f"Conv{rank}d")(  # type: ignore[misc]
                4, 2, 2, padding="same", bias=False, padding_mode="circular"
            ),
            x,
        ),
        f"Conv{rank}d, reflect": Case(
            lambda n, rank=rank: getattr(n, f"Conv{rank}d")(4, 2, 3, 1, 2, padding_mode="reflect"), x  # type: ignore[misc]
        ),
        f"ConvTranspose{rank}d": Case(
            lambda n, rank=rank: getattr(n, f"ConvTranspose{rank}d")(4, 6, 3, 2, 1, 1, 2), x  # type: ignore[misc]
        ),
        f"MaxUnpool{rank}d": Case(lambda n, rank=rank: unpooled(n, rank)(), x),  # type: ignore[misc]
    }  # fmt: skip

Y = A(3, 4)
CASES |= {
    "MSELoss": Case(lambda n: n.MSELoss(), Y, Y),
    "MSELoss, sum": Case(lambda n: n.MSELoss(reduction="sum"), Y, Y),
    "L1Loss": Case(lambda n: n.L1Loss(reduction="none"), Y, Y),
    "SmoothL1Loss": Case(lambda n: n.SmoothL1Loss(beta=0.5), Y, Y),
    "HuberLoss": Case(lambda n: n.HuberLoss("sum", 0.5), Y, Y),
    "CrossEntropyLoss": Case(lambda n: n.CrossEntropyLoss(label_smoothing=0.1), Y, N(3, high=4)),
    "CrossEntropyLoss, weight": Case(
        lambda n: n.CrossEntropyLoss(own(n, [1.0, 2.0, 0.5, 3.0]), ignore_index=1), Y, N(given=[0, 1, 3])
    ),
    "NLLLoss": Case(lambda n: n.NLLLoss(), Y, N(3, high=4)),
    "BCELoss": Case(lambda n: n.BCELoss(), A(3, 4, low=0.1, high=0.9), bits(3, 4)),
    "BCEWithLogitsLoss": Case(
        lambda n: n.BCEWithLogitsLoss(pos_weight=own(n, [1.0, 2.0, 0.5, 3.0])), Y, bits(3, 4)
    ),
    "KLDivLoss": Case(lambda n: n.KLDivLoss(reduction="batchmean"), Y, A(3, 4, kind=shares)),
    "CTCLoss": Case(
        lambda n: ctc(n)(), A(6, 2, 4), N(given=[[1, 2], [3, 1]]), N(given=[6, 5]), N(given=[2, 1])
    ),
    "PoissonNLLLoss": Case(lambda n: n.PoissonNLLLoss(full=True), Y, A(3, 4, grad=False, kind=positive)),
    "GaussianNLLLoss": Case(lambda n: n.GaussianNLLLoss(), Y, Y, A(3, 4, kind=positive)),
    "HingeEmbeddingLoss": Case(lambda n: n.HingeEmbeddingLoss(0.5), Y, signs(3, 4)),
    "CosineEmbeddingLoss": Case(lambda n: n.CosineEmbeddingLoss(0.1), Y, Y, signs(3)),
    "MarginRankingLoss": Case(lambda n: n.MarginRankingLoss(0.2), A(3), A(3), signs(3)),
    "MultiMarginLoss": Case(lambda n: n.MultiMarginLoss(2, 0.5), Y, N(3, high=4)),
    "MultiLabelMarginLoss": Case(lambda n: n.MultiLabelMarginLoss(), Y, N(given=[[1, -1, 0, 0]] * 3)),
    "MultiLabelSoftMarginLoss": Case(lambda n: n.MultiLabelSoftMarginLoss(), Y, bits(3, 4)),
    "SoftMarginLoss": Case(lambda n: n.SoftMarginLoss(), Y, signs(3, 4)),
    "TripletMarginLoss": Case(lambda n: n.TripletMarginLoss(0.5, swap=True), Y, Y, Y),
    "TripletMarginWithDistanceLoss": Case(lambda n: n.TripletMarginWithDistanceLoss(margin=0.5), Y, Y, Y),
}  # fmt: skip

S, H = A(5, 3, 4), A(1, 3, 6)
LENGTHS = [5, 1, 3]
for kind in ("RNN", "LSTM", "GRU"):
    state = {"RNN": [H], "GRU": [H], "LSTM": [(H, H)]}[kind]
    cell = {"RNN": [A(3, 6)], "GRU": [A(3, 6)], "LSTM": [(A(3, 6), A(3, 6))]}[kind]
    deep: Any = A(4, 3, 6)
    deep = (deep, deep) if kind == "LSTM" else deep
    for label, arguments, inputs in (
        ("", (4, 6), [S]),
        (" from a state", (4, 6), [S, *state]),
        (", deep", (4, 6, 2, *(("relu",) if kind == "RNN" else ()), True, True, 0.0, True), [A(3, 5, 4), deep]),
        (", no bias", (4, 6, 1, *(("tanh",) if kind == "RNN" else ()), False), [A(5, 4)]),
    ):
        CASES[f"{kind}{label}"] = Case(
            lambda n, kind=kind, arguments=arguments: getattr(n, kind)(*arguments),
            *inputs,  # type: ignore[misc]
        )
        if len(inputs) == 1 and inputs[0] is S:
            CASES[f"{kind}{label}, lengths"] = Case(
                lambda n, kind=kind: packed(n, kind)(),
                S,  # type: ignore[misc]
            )
    CASES[f"{kind}Cell"] = Case(lambda n, kind=kind: getattr(n, f"{kind}Cell")(4, 6), A(3, 4), *cell)  # type: ignore[misc]
    CASES[f"{kind}Cell alone"] = Case(
        lambda n, kind=kind: getattr(n, f"{kind}Cell")(4, 6, False),
        A(4),  # type: ignore[misc]
    )
CASES["LSTM, projected"] = Case(lambda n: n.LSTM(4, 6, 2, bidirectional=True, proj_size=3), S)

D = A(2, 5, 8)
HIDDEN = N(given=np.triu(np.ones((5, 5), bool), 1))
PADDED = N(given=[[False] * 5, [False, False, False, True, True]])
layer = {"d_model": 8, "nhead": 2, "dim_feedforward": 12, "dropout": 0.0, "batch_first": True}
CASES |= {
    "MultiheadAttention": Case(
        lambda n: n.MultiheadAttention(8, 2, batch_first=True), D, A(2, 4, 8), A(2, 4, 8), need_weights=True
    ),
    "MultiheadAttention, all": Case(
        lambda n: n.MultiheadAttention(8, 2, 0.0, True, True, True, 6, 7, False), A(5, 2, 8), A(4, 2, 6), A(4, 2, 7),
        key_padding_mask=N(given=[[False] * 4, [False, False, False, True]]), need_weights=True,
    ),
    "TransformerEncoderLayer": Case(lambda n: n.TransformerEncoderLayer(**layer), D, HIDDEN, PADDED),
    "TransformerEncoderLayer, first": Case(
        lambda n: n.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", 1e-4, False, True, False), A(5, 2, 8)
    ),
    "TransformerDecoderLayer": Case(lambda n: n.TransformerDecoderLayer(**layer), D, A(2, 4, 8), HIDDEN),
    "TransformerEncoder": Case(
        lambda n: n.TransformerEncoder(n.TransformerEncoderLayer(**layer), 2, n.LayerNorm(8)), D
    ),
    "TransformerDecoder": Case(
        lambda n: n.TransformerDecoder(n.TransformerDecoderLayer(**layer, norm_first=True), 2), D, A(2, 4, 8)
    ),
    "Transformer": Case(lambda n: n.Transformer(8, 2, 1, 1, 12, 0.0, batch_first=True), D, A(2, 4, 8)),
}  # fmt: skip


def own(n: Any, values: list[float]) -> Any:
    return asarray(values, dtype="float64") if n is nn else T.tensor(values, dtype=T.float64)


def listed(n: Any) -> Any:
    class Held(n.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = n.ModuleList([n.Linear(3, 3), n.Tanh()])
            self.layers.append(n.Linear(3, 2))
            self.named = n.ModuleDict({"a": n.Linear(2, 2)})
            weight = n.Linear(2, 2).weight
            self.more = n.ParameterList([weight])
            self.by_name = n.ParameterDict({"w": n.Linear(2, 2).weight})

        def forward(self, x: Any) -> Any:
            for each in self.layers:
                x = each(x)
            return self.named["a"](x) @ self.more[0] @ self.by_name["w"]

    return Held


def tied(n: Any) -> Any:
    class Tied(n.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = n.Embedding(4, 3), n.Linear(3, 4, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, x: Any) -> Any:
            return self.head(self.embedding(x))

    return Tied


def unpooled(n: Any, rank: int) -> Any:
    class Unpooled(n.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.pool = getattr(n, f"MaxPool{rank}d")(2, return_indices=True)
            self.back = getattr(n, f"MaxUnpool{rank}d")(2)

        def forward(self, x: Any) -> Any:
            y, places = self.pool(x)
            return self.back(y * y, places, output_size=x.shape)

    return Unpooled


def ctc(n: Any) -> Any:
    class Normalized(n.CTCLoss):  # type: ignore[misc]
        def forward(self, x: Any, *args: Any) -> Any:  # torch's gradient is that of normalised numbers
            return super().forward(n.LogSoftmax(dim=-1)(x), *args)

    return Normalized


def packed(n: Any, kind: str) -> Any:
    """The same sequences of several lengths: packed by torch, told their lengths here."""
    made = getattr(n, kind)

    class Packed(made):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(4, 6, 2, bidirectional=True)

        def forward(self, x: Any, *args: Any) -> Any:
            if n is nn:
                return super().forward(x, lengths=LENGTHS)
            if not isinstance(x, T.Tensor):  # torch calls forward again for a packed sequence
                return super().forward(x, *args)
            rnn = T.nn.utils.rnn
            given = rnn.pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
            out, state = super().forward(given)
            return rnn.pad_packed_sequence(out)[0], state

    return Packed


def flat(x: Any) -> list[Any]:
    return [y for each in x for y in flat(each)] if isinstance(x, (tuple, list)) else [] if x is None else [x]


def given(library: str, value: Any, rng: Any, leaves: list[Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(given(library, each, rng, leaves) for each in value)
    if not isinstance(value, (A, N)):
        return value
    drawn = value.draw(rng)
    tensor = T.tensor(drawn) if library == "torch" else asarray(drawn)
    if isinstance(value, A) and value.grad:
        tensor.requires_grad = True
        leaves.append(tensor)
    return tensor


@pytest.mark.parametrize("name", CASES)
def test_a_module_equals_that_of_torch(name: str) -> None:
    case = CASES[name]
    T.manual_seed(0)
    theirs, ours = case.make(T.nn).double(), case.make(nn).double()
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict({key: value.numpy() for key, value in state.items()})
    for training in case.modes:
        theirs.train(training)
        ours.train(training)
        results, gradients = {}, {}
        for library, module in (("torch", theirs), ("ours", ours)):
            rng, leaves = np.random.default_rng(1), list[Any]()
            args = [given(library, each, rng, leaves) for each in case.inputs]
            others = {key: given(library, each, rng, leaves) for key, each in case.given.items()}
            found = flat(module(*args, **others))
            results[library] = [each.detach().numpy() for each in found]
            module.zero_grad()
            sum((each * each * each).sum() for each in found).backward()
            parameters = list(module.parameters())
            gradients[library] = [None if p.grad is None else p.grad.numpy() for p in [*leaves, *parameters]]
        for a, b in zip(results["ours"], results["torch"], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
        for a, b in zip(gradients["ours"], gradients["torch"], strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                rtol = 1e-7 if name == "Hardsigmoid" else 1e-8  # torch's sixth is that of float32
                np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-9 * max(abs(b).max(), 1))
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[key].numpy(), value.numpy(), rtol=1e-9, err_msg=key)
    assert repr(ours)
