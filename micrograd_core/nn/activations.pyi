# Made by docs/stubs.py from the source and the op table.
from micrograd_core.array.tensor import ArrayLike, Tensor
from micrograd_core.nn.call import Call
from typing import Any

class ReLU(Call):
    """``max(x, 0)``; the gradient at 0 is 0. The function `nn.functional.relu` as a module."""

    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class ReLU6(Call):
    """``x`` between 0 and 6, else the nearer of the two. The function `nn.functional.relu6` as a module."""

    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class LeakyReLU(Call):
    """``x`` where it is positive, else ``negative_slope * x``. The function `nn.functional.leaky_relu` as a module."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class RReLU(Call):
    """`leaky_relu` with slopes drawn from `lower` to `upper` while `training`; else with their mean. The function `nn.functional.rrelu` as a module."""

    def __init__(self, lower: float = 0.125, upper: float = 0.3333333333333333, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class ELU(Call):
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)`` (Clevert et al. 2016). The function `nn.functional.elu` as a module."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class SELU(Call):
    """`elu` with the two numbers that keep mean 0 and variance 1 (Klambauer et al. 2017). The function `nn.functional.selu` as a module."""

    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class CELU(Call):
    """``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)`` (Barron 2017). The function `nn.functional.celu` as a module."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class GELU(Call):
    """``x`` times the normal distribution function of ``x``; with ``approximate='tanh'`` by that formula. The function `nn.functional.gelu` as a module."""

    def __init__(self, approximate: str = 'none') -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class GLU(Call):
    """The first half along `dim` times the sigmoid of the second (Dauphin et al. 2016). The function `nn.functional.glu` as a module."""

    def __init__(self, dim: int = -1) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class SiLU(Call):
    """``x * sigmoid(x)``, also called swish. The function `nn.functional.silu` as a module."""

    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Mish(Call):
    """``x * tanh(softplus(x))`` (Misra 2020). The function `nn.functional.mish` as a module."""

    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Sigmoid(Call):
    """``1 / (1 + exp(-x))``. The function `nn.functional.sigmoid` as a module."""

    def __init__(self) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class LogSigmoid(Call):
    """``log(sigmoid(x))``. The function `nn.functional.logsigmoid` as a module."""

    def __init__(self) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Tanh(Call):
    """Hyperbolic tangent. The function `nn.functional.tanh` as a module."""

    def __init__(self) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Tanhshrink(Call):
    """``x - tanh(x)``. The function `nn.functional.tanhshrink` as a module."""

    def __init__(self) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Threshold(Call):
    """`x` where it is above `threshold`, else `value`. The function `nn.functional.threshold` as a module."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Softplus(Call):
    """``log(1 + exp(beta x)) / beta``; `x` itself where ``beta x`` is above `threshold`. The function `nn.functional.softplus` as a module."""

    def __init__(self, beta: float = 1, threshold: float = 20) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Softshrink(Call):
    """``x`` brought nearer to 0 by `lambd`, and 0 within that. The function `nn.functional.softshrink` as a module."""

    def __init__(self, lambd: float = 0.5) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Softsign(Call):
    """``x / (1 + |x|)``. The function `nn.functional.softsign` as a module."""

    def __init__(self) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Hardshrink(Call):
    """``x`` where its size is above `lambd`, else 0. The function `nn.functional.hardshrink` as a module."""

    def __init__(self, lambd: float = 0.5) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Hardsigmoid(Call):
    """``relu6(x + 3) / 6``: a sigmoid of straight lines. The function `nn.functional.hardsigmoid` as a module."""

    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Hardswish(Call):
    """``x * hardsigmoid(x)`` (Howard et al. 2019). The function `nn.functional.hardswish` as a module."""

    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Hardtanh(Call):
    """``x`` between `min_val` and `max_val`, else the nearer of the two. The function `nn.functional.hardtanh` as a module."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Softmax(Call):
    """``exp(x) / sum(exp(x))`` along `axis`, shifted by the maximum so that nothing overflows."""

    def __init__(self, axis: int = -1) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class LogSoftmax(Call):
    """``log(softmax(x))`` along `axis`, without taking the logarithm of a vanishing number."""

    def __init__(self, axis: int = -1) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class Softmin(Call):
    """``softmax(-x)``. The function `nn.functional.softmin` as a module."""

    def __init__(self, dim: int | None = None) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Softmax2d(Call):
    """Softmax over the channels of (batch, channels, height, width) or (channels, height, width)."""

    def __init__(self) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]
