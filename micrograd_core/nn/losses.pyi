# Made by docs/stubs.py from the source and the op table.
from collections.abc import Callable
from micrograd_core.array.tensor import Tensor
from micrograd_core.nn.call import Call
from typing import Any

class MSELoss(Call):
    """Squared differences. The function `nn.functional.mse_loss` as a module."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean', weight: Tensor | None = None) -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class L1Loss(Call):
    """Absolute differences. The function `nn.functional.l1_loss` as a module."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean', weight: Tensor | None = None) -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class SmoothL1Loss(Call):
    """`huber_loss` over `beta`; for 0 it is `l1_loss`. The function `nn.functional.smooth_l1_loss` as a module."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean', beta: float = 1.0) -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class HuberLoss(Call):
    """Half the squared difference up to `delta`, then straight on (Huber 1964). The function `nn.functional.huber_loss` as a module."""

    def __init__(self, reduction: str = 'mean', delta: float = 1.0, weight: Tensor | None = None) -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class CrossEntropyLoss(Call):
    """Minus the log-probability that logits (classes along axis 1) give to class indices or probabilities. The function `nn.functional.cross_entropy` as a module."""

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100, reduce: bool | None = None, reduction: str = 'mean', label_smoothing: float = 0.0) -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class NLLLoss(Call):
    """`cross_entropy` of log-probabilities. The function `nn.functional.nll_loss` as a module."""

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100, reduce: bool | None = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class BCELoss(Call):
    """Of probabilities; their logarithms are no less than -100, so that certain mistakes stay finite. The function `nn.functional.binary_cross_entropy` as a module."""

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class BCEWithLogitsLoss(Call):
    """`binary_cross_entropy` of ``sigmoid(input)``; `pos_weight` counts targets of 1. The function `nn.functional.binary_cross_entropy_with_logits` as a module."""

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean', pos_weight: Tensor | None = None) -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class KLDivLoss(Call):
    """``target * (log(target) - input)`` of log-probabilities `input`: the Kullback-Leibler divergence. The function `nn.functional.kl_div` as a module."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean', log_target: bool = False) -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class CTCLoss(Call):
    """Minus the log-probability of label sequences, over all ways to lay them out (Graves et al. 2006). Parameters ---------- log_probs : Tensor (length, batch, classes), or without the batch. targets : Tensor Labels (batch, longest), or all of them one after the other, 1-d. input_lengths, target_lengths : Tensor or sequence of int How much of each example counts. They are read. blank : int The class that stands for no label. reduction : str ``'mean'`` divides each loss by its target's length first. zero_infinity : bool Whether an impossible target has loss 0, rather than infinity. Raises ------ ShapeError, ValueError The function `nn.functional.ctc_loss` as a module."""

    def __init__(self, blank: int = 0, reduction: str = 'mean', zero_infinity: bool = False) -> None: ...
    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class PoissonNLLLoss(Call):
    """Of a rate, or its logarithm; `full` adds Stirling's approximation of the logarithm of the count's factorial. The function `nn.functional.poisson_nll_loss` as a module."""

    def __init__(self, log_input: bool = True, full: bool = False, size_average: bool | None = None, eps: float = 1e-08, reduce: bool | None = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class GaussianNLLLoss(Call):
    """Of a mean and a variance, which is at least `eps`. The function `nn.functional.gaussian_nll_loss` as a module."""

    def __init__(self, full: bool = False, eps: float = 1e-06, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor, var: Tensor | float, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class HingeEmbeddingLoss(Call):
    """The distance itself of target 1; how far it is short of `margin` of target -1. The function `nn.functional.hinge_embedding_loss` as a module."""

    def __init__(self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class CosineEmbeddingLoss(Call):
    """One less the cosine of target 1; how far it is above `margin` of target -1. The function `nn.functional.cosine_embedding_loss` as a module."""

    def __init__(self, margin: float = 0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean') -> None: ...
    def forward(self, input1: Tensor, input2: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class MarginRankingLoss(Call):
    """How far the first is short of being `margin` above the second (target 1), or below it (target -1). The function `nn.functional.margin_ranking_loss` as a module."""

    def __init__(self, margin: float = 0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean') -> None: ...
    def forward(self, input1: Tensor, input2: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class MultiMarginLoss(Call):
    """Of each wrong class, to the power `p`, how far it is short of being `margin` below the right one. The function `nn.functional.multi_margin_loss` as a module."""

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class MultiLabelMarginLoss(Call):
    """Each wrong class against each right one. The right ones stand first in a row of `target`, up to the first -1. The function `nn.functional.multilabel_margin_loss` as a module."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class MultiLabelSoftMarginLoss(Call):
    """The binary cross entropy of each class, from logits, averaged over the last axis. The function `nn.functional.multilabel_soft_margin_loss` as a module."""

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class SoftMarginLoss(Call):
    """``log(1 + exp(-target * input))`` of targets 1 and -1. The function `nn.functional.soft_margin_loss` as a module."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean') -> None: ...
    def forward(self, input: Tensor, target: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class TripletMarginLoss(Call):
    """How far the negative is short of being `margin` further from the anchor than the positive. The function `nn.functional.triplet_margin_loss` as a module."""

    def __init__(self, margin: float = 1.0, p: float = 2, eps: float = 1e-06, swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean') -> None: ...
    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class TripletMarginWithDistanceLoss(Call):
    """The same, with any distance; with `swap` the negative's from the positive counts where that is less. The function `nn.functional.triplet_margin_with_distance_loss` as a module."""

    def __init__(self, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False, reduction: str = 'mean') -> None: ...
    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class CosineSimilarity(Call):
    """``sum(x1 * x2) / (max(|x1|, eps) * max(|x2|, eps))`` along `dim`. The function `nn.functional.cosine_similarity` as a module."""

    def __init__(self, dim: int = 1, eps: float = 1e-08) -> None: ...
    def forward(self, x1: Tensor, x2: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class PairwiseDistance(Call):
    """The p-norm of ``x1 - x2 + eps`` along the last axis. The function `nn.functional.pairwise_distance` as a module."""

    def __init__(self, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False) -> None: ...
    def forward(self, x1: Tensor, x2: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]
