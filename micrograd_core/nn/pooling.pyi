# Made by docs/stubs.py from the source and the op table.
from micrograd_core.array.tensor import ArrayLike, Tensor
from micrograd_core.nn.module import Call
from typing import Any

class MaxPool1d(Call):
    """Maximum in each window of an input (batch, channels, length); windows are `stride` apart, by default their own size. Tied elements share the gradient evenly."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class MaxPool2d(Call):
    """Maximum in each window of an input (batch, channels, height, width); windows are `stride` apart, by default their own size. Tied elements share the gradient evenly."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class AvgPool1d(Call):
    """Mean of each window of an input (batch, channels, length); windows are `stride` apart, by default their own size. The zeros of the padding count."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]

class AvgPool2d(Call):
    """Mean of each window of an input (batch, channels, height, width); windows are `stride` apart, by default their own size. The zeros of the padding count."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None: ...
    def forward(self, x: ArrayLike, /) -> Tensor: ...  # type: ignore[override]
