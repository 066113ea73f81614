# Made by docs/stubs.py from the source and the op table.
from micrograd_core.array.tensor import ArrayLike, Tensor
from micrograd_core.nn.module import Call

class ReLU(Call):
    """``max(x, 0)``; the gradient at 0 is 0."""

    def __init__(self) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class LeakyReLU(Call):
    """``x`` where it is positive, else ``negative_slope * x``; the gradient at 0 is `negative_slope`."""

    def __init__(self, negative_slope: float = 0.01) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class ELU(Call):
    """``x`` where it is positive, else ``alpha * expm1(x)`` (Clevert et al. 2016); the gradient at 0 is `alpha`."""

    def __init__(self, alpha: float = 1.0) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class GELU(Call):
    """``x`` times the standard normal distribution function of ``x`` (Hendrycks & Gimpel 2016); with ``approximate='tanh'`` by their formula ``x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2``."""

    def __init__(self, approximate: str = 'none') -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class SiLU(Call):
    """``x * sigmoid(x)`` (Elfwing et al. 2018), also called swish."""

    def __init__(self) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class Mish(Call):
    """``x * tanh(softplus(x))`` (Misra 2020)."""

    def __init__(self) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class Sigmoid(Call):
    """Logistic function ``1 / (1 + e ** -x)``, without overflow in either tail."""

    def __init__(self) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class LogSigmoid(Call):
    """``log(sigmoid(x))``, which is ``-softplus(-x)``."""

    def __init__(self) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class Tanh(Call):
    """Hyperbolic tangent."""

    def __init__(self) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class Softplus(Call):
    """``log(1 + exp(x))``, without overflow, and without loss of digits in the left tail."""

    def __init__(self) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class Hardtanh(Call):
    """``x`` between `min_val` and `max_val`, else the nearer of the two; there, and at both, the gradient is 0."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class Softmax(Call):
    """``exp(x) / sum(exp(x))`` along `axis`, shifted by the maximum so that nothing overflows."""

    def __init__(self, axis: int = -1) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class LogSoftmax(Call):
    """``log(softmax(x))`` along `axis`, without taking the logarithm of a vanishing number."""

    def __init__(self, axis: int = -1) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]
