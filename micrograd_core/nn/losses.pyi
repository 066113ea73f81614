# Made by docs/stubs.py from the source and the op table.
from micrograd_core.array.tensor import ArrayLike, Tensor
from micrograd_core.nn.module import Call

class MSELoss(Call):
    """Squared differences, reduced by ``'mean'``, ``'sum'`` or ``'none'``."""

    def __init__(self, reduction: str = 'mean') -> None: ...
    def forward(self, x: ArrayLike, y: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class L1Loss(Call):
    """Absolute differences, reduced by ``'mean'``, ``'sum'`` or ``'none'``; the gradient where there is none is 0."""

    def __init__(self, reduction: str = 'mean') -> None: ...
    def forward(self, x: ArrayLike, y: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class HuberLoss(Call):
    """Half the squared difference up to `delta`, then ``delta * (|difference| - delta / 2)`` (Huber 1964), reduced by ``'mean'``, ``'sum'`` or ``'none'``."""

    def __init__(self, delta: float = 1.0, reduction: str = 'mean') -> None: ...
    def forward(self, x: ArrayLike, y: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class CrossEntropyLoss(Call):
    """Minus the log-probability that logits (classes along axis 1; axis 0 if 1-d) give to `targets`: integer class indices, or probabilities of the shape of the logits. `weight` has a number for each class; positions whose index is `ignore_index` do not count; `label_smoothing` mixes the targets with equal probabilities (Szegedy et al. 2016). Reduced by ``'mean'`` (for indices weighted; NaN, with gradient 0, if none counts), ``'sum'`` or ``'none'``. A target that names no class raises ``IndexError`` on devices that can tell at once, and gives NaN on others."""

    def __init__(self, weight: ArrayLike | None = None, ignore_index: int = -100, label_smoothing: float = 0.0, reduction: str = 'mean') -> None: ...
    def forward(self, logits: ArrayLike, targets: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class NLLLoss(Call):
    """Minus the log-probability ``x`` of integer class `targets` (classes along axis 1; axis 0 if 1-d): what `cross_entropy` does after `log_softmax`, with the same parameters."""

    def __init__(self, weight: ArrayLike | None = None, ignore_index: int = -100, reduction: str = 'mean') -> None: ...
    def forward(self, log_probabilities: ArrayLike, targets: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class BCEWithLogitsLoss(Call):
    """``-pos_weight * y * log(p) - (1 - y) * log(1 - p)`` with ``p = sigmoid(x)``, times `weight`, reduced by ``'mean'``, ``'sum'`` or ``'none'``."""

    def __init__(self, weight: ArrayLike | None = None, pos_weight: ArrayLike | None = None, reduction: str = 'mean') -> None: ...
    def forward(self, x: ArrayLike, y: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class KLDivLoss(Call):
    """``y * (log(y) - x)`` of log-probabilities `x` and probabilities `y` (their logarithms with `log_target`): the Kullback-Leibler divergence, reduced by ``'mean'``, ``'sum'``, ``'batchmean'`` (the sum over the length of the first axis) or ``'none'``."""

    def __init__(self, log_target: bool = False, reduction: str = 'mean') -> None: ...
    def forward(self, x: ArrayLike, y: ArrayLike, /) -> Tensor: ...  # type: ignore[override]
