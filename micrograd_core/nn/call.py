"""`Call`: operations and functions as modules, such as activations, poolings and losses: ``LeakyReLU(0.2)``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar

from micrograd_core.array.documentation import module_docstring
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.errors import ShapeError
from micrograd_core.nn import functional
from micrograd_core.nn.functional.common import publish
from micrograd_core.nn.module import Module
from micrograd_core.ops import TABLE
from micrograd_core.ops.shared import other_spellings, parameter_names, respelled
from micrograd_core.suggestions import table

if TYPE_CHECKING:
    from inspect import Signature

    from micrograd_core.array.tensor import Tensor

NOT_KEPT = frozenset({"training", "out", "dtype"})
"""Arguments of functions that their modules do not have."""


def _arguments(kind: type[Call]) -> Signature:
    """What a `Call` takes: what the operation or function takes beside its operands, in this order or its own."""
    from inspect import Signature, signature

    if kind.function is None:
        op = TABLE[kind.operation]
        required = op.operands - len(op.optional)
        found = list(signature(FUNCTIONS[op.name]).parameters.values())[required:]
    else:
        found = list(signature(kind.function).parameters.values())[kind.inputs :]
        found = [each for each in found if each.name not in NOT_KEPT and not each.name.startswith("_")]
        found.sort(key=lambda each: kind.order.index(each.name) if each.name in kind.order else -1)
        return Signature(found)
    return Signature([each.replace(kind=each.POSITIONAL_OR_KEYWORD) for each in found])


class _Signature:
    """What `inspect` finds where a subclass of `Call` has no constructor of its own; only then is it imported."""

    def __get__(self, instance: Call | None, owner: type[Call]) -> Signature:
        if instance is not None or owner.__init__ is not Call.__init__ or owner is Call:
            raise AttributeError("__signature__")
        return _arguments(owner)


class Call(Module):
    """An operation of the op table, or a function of `nn.functional`, as a module, with its parameters.

    They are given by name or in their order, and kept in ``arguments``; tensors among them, such as the weight of a
    loss, are buffers. What a function takes as ``training`` is the module's mode. A subclass is one line, ``class
    Sine(Call, operation="sin"): ...`` or ``class CELU(Call, function=functional.celu): ...``; documentation and
    signature are those of the operation or function. A function of several tensors says how many (``inputs=2``).

    Parameters
    ----------
    *args, **kwargs
        The arguments of the operation or function besides its operands; those that the signature of the subclass shows.

    Raises
    ------
    TypeError
        When the arguments do not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> class Sine(mg.nn.Call, operation="sin"): ...
    >>> Sine()(mg.asarray([0.0]))
    Tensor([0.])
    """

    operation: ClassVar[str]
    function: ClassVar[Callable[..., Any] | None] = None
    inputs: ClassVar[int] = 1
    order: ClassVar[tuple[str, ...]] = ()
    __signature__ = _Signature()

    def __init_subclass__(
        cls, operation: str = "", function: Callable[..., Any] | None = None, inputs: int = 1, order: str = "",
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init_subclass__(**kwargs)
        if operation:
            cls.operation, op = operation, TABLE[operation]
            named, inputs = f"The operation `{operation}` as a module.", op.operands - len(op.optional)
            behind, left_out = FUNCTIONS[operation], frozenset[str]()
        elif function is not None:
            cls.function, cls.inputs, cls.order = staticmethod(function), inputs, tuple(order.split())
            named = f"The function `nn.functional.{function.__name__}` as a module, with its parameters."
            behind, left_out = function, NOT_KEPT
        else:
            return
        if cls.__doc__ is None:
            spelled = f"{'mg.nn.' * cls.__module__.startswith('micrograd_core.nn.')}{cls.__name__}"
            cls.__doc__ = module_docstring(behind, named, inputs, left_out, spelled)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes the arguments that the signature of the class shows."""
        takes = _arguments(type(self))
        if kwargs:
            kwargs = respelled(type(self).__name__, kwargs, other_spellings(takes.parameters))
        try:
            self.arguments: dict[str, Any] = dict(takes.bind(*args, **kwargs).arguments)
        except TypeError as error:
            names = ", ".join(takes.parameters) or "no arguments"
            words = {word: said for word, said in table("argument").items() if word not in takes.parameters}
            advice = [f"; instead of {word}=: {words[word]}" for word in kwargs if word in words]
            raise TypeError(f"{type(self).__name__}: {error}; it takes {names}{''.join(advice)}") from None

    def _contents(self) -> list[tuple[str, Any]]:
        """Tensors among the arguments by their own names, as in PyTorch."""
        others = [(name, value) for name, value in vars(self).items() if name != "arguments"]
        return [*self.arguments.items(), *others]

    def forward(self, *operands: Any, **others: Any) -> Any:
        """Call the operation or function.

        Parameters
        ----------
        *operands
            Its operands.
        **others
            Further arguments of a function, at this call.

        Returns
        -------
        Tensor, or what the function returns
        """
        if self.function is None:
            return FUNCTIONS[self.operation](*operands, **self.arguments, **others)
        if "training" in parameter_names(self.function):
            others["training"] = self.training
        return self.function(*operands, **{**self.arguments, **others})

    def facts(self) -> str:
        """The arguments that were given."""
        return ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())


# ── those of networks ────────────────────────────────────────────────────────────────────────────────────────

OF_OPERATIONS = "Softmax=softmax LogSoftmax=log_softmax"
OF_FUNCTIONS = """
    ReLU=relu ReLU6=relu6 LeakyReLU=leaky_relu RReLU=rrelu ELU=elu SELU=selu CELU=celu GELU=gelu GLU=glu SiLU=silu
    Mish=mish Sigmoid=sigmoid LogSigmoid=logsigmoid Tanh=tanh Tanhshrink=tanhshrink Threshold=threshold
    Softplus=softplus Softshrink=softshrink Softsign=softsign Softmin=softmin Hardshrink=hardshrink
    Hardsigmoid=hardsigmoid Hardswish=hardswish Hardtanh=hardtanh

    PixelShuffle=pixel_shuffle PixelUnshuffle=pixel_unshuffle ChannelShuffle=channel_shuffle Fold=fold Unfold=unfold
    Upsample=interpolate UpsamplingNearest2d=upsample_nearest UpsamplingBilinear2d=upsample_bilinear
    LocalResponseNorm=local_response_norm AlphaDropout=alpha_dropout FeatureAlphaDropout=feature_alpha_dropout

    MaxPool#=max_pool# MaxUnpool#=max_unpool# AvgPool#=avg_pool# LPPool#=lp_pool# Dropout#=dropout#
    FractionalMaxPool#=fractional_max_pool# AdaptiveAvgPool#=adaptive_avg_pool# AdaptiveMaxPool#=adaptive_max_pool#

    MSELoss=mse_loss L1Loss=l1_loss SmoothL1Loss=smooth_l1_loss HuberLoss=huber_loss CrossEntropyLoss=cross_entropy
    NLLLoss=nll_loss BCELoss=binary_cross_entropy BCEWithLogitsLoss=binary_cross_entropy_with_logits KLDivLoss=kl_div
    CTCLoss=ctc_loss PoissonNLLLoss=poisson_nll_loss GaussianNLLLoss=gaussian_nll_loss
    HingeEmbeddingLoss=hinge_embedding_loss CosineEmbeddingLoss=cosine_embedding_loss
    MarginRankingLoss=margin_ranking_loss MultiMarginLoss=multi_margin_loss MultiLabelMarginLoss=multilabel_margin_loss
    MultiLabelSoftMarginLoss=multilabel_soft_margin_loss SoftMarginLoss=soft_margin_loss
    TripletMarginLoss=triplet_margin_loss TripletMarginWithDistanceLoss=triplet_margin_with_distance_loss
    CosineSimilarity=cosine_similarity PairwiseDistance=pairwise_distance
"""
"""Classes, and the operations and functions of `nn.functional` that they call; ``#`` is ``1d``, ``2d`` and ``3d``."""
MAXIMUM = "kernel_size stride padding dilation return_indices ceil_mode"
"""The order of arguments that PyTorch's modules ``MaxPool…`` have, and its functions have not."""


def _over_channels(input: Tensor) -> Tensor:
    """Softmax over the channels.

    Parameters
    ----------
    input : Tensor, (batch, channels, height, width)
        Or (channels, height, width).

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    ShapeError
        When the input has other axes.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.nn.Softmax2d()(mg.zeros((2, 1, 1))).flatten()
    Tensor([0.5, 0.5])
    """
    if input.ndim not in (3, 4):
        raise ShapeError(f"Softmax2d: the input has 3 or 4 axes; got shape {input.shape}")
    return functional.softmax(input, -3)


class Softmax2d(Call, function=_over_channels):
    """Softmax over the channels of (batch, channels, height, width) or (channels, height, width).

    Raises
    ------
    ShapeError
        At a call, when the input has other axes.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.zeros((1, 4, 2, 2))
    >>> y = mg.nn.Softmax2d()(x)
    >>> y[0, :, 0, 0]
    Tensor([0.25, 0.25, 0.25, 0.25])
    """


for _name, _called in (each.split("=") for each in OF_OPERATIONS.split()):
    globals()[_name] = type(_name, (Call,), {"__module__": __name__}, operation=_called)
for _axes in ("1d", "2d", "3d"):
    for _name, _called in (each.replace("#", _axes).split("=") for each in OF_FUNCTIONS.split()):
        if (_function := getattr(functional, _called, None)) and _name not in globals():
            _inputs = [*takewhile(("Tensor", "Tensor | float").__contains__, _function.__annotations__.values())]
            _facts = {"inputs": len(_inputs), "order": MAXIMUM * _name.startswith("MaxPool")}
            globals()[_name] = type(_name, (Call,), {"__module__": __name__}, function=_function, **_facts)
publish(globals())

if TYPE_CHECKING:  # what is made above

    def __getattr__(name: str) -> Any: ...
