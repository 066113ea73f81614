# Made by docs/stubs.py from the source and the op table.
from micrograd_core.array.tensor import Tensor
from micrograd_core.nn.call import Call
from typing import Any
MAXIMUM: str

class MaxPool1d(Call):
    """The maximum of each window; with `return_indices` and where each is among the flattened spatial axes. The function `nn.functional.max_pool1d` as a module."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, return_indices: bool = False, ceil_mode: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Any: ...  # type: ignore[override]

class MaxUnpool1d(Call):
    """Zeros but for maxima, back where `max_pool1d` found them. The function `nn.functional.max_unpool1d` as a module."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> None: ...
    def forward(self, input: Tensor, indices: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class AvgPool1d(Call):
    """The mean of each window. The function `nn.functional.avg_pool1d` as a module."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class LPPool1d(Call):
    """The root of the sum of powers of each window. The function `nn.functional.lp_pool1d` as a module."""

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class AdaptiveAvgPool1d(Call):
    """The means of windows that cover the input evenly. The function `nn.functional.adaptive_avg_pool1d` as a module."""

    def __init__(self, output_size: Any) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class AdaptiveMaxPool1d(Call):
    """The maxima of windows that cover the input evenly. The function `nn.functional.adaptive_max_pool1d` as a module."""

    def __init__(self, output_size: Any, return_indices: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Any: ...  # type: ignore[override]

class MaxPool2d(Call):
    """The maximum of each window; with `return_indices` and where each is among the flattened spatial axes. The function `nn.functional.max_pool2d` as a module."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, return_indices: bool = False, ceil_mode: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Any: ...  # type: ignore[override]

class MaxUnpool2d(Call):
    """Zeros but for maxima, back where `max_pool2d` found them. The function `nn.functional.max_unpool2d` as a module."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> None: ...
    def forward(self, input: Tensor, indices: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class AvgPool2d(Call):
    """The mean of each window. The function `nn.functional.avg_pool2d` as a module."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class LPPool2d(Call):
    """The root of the sum of powers of each window. The function `nn.functional.lp_pool2d` as a module."""

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class AdaptiveAvgPool2d(Call):
    """The means of windows that cover the input evenly. The function `nn.functional.adaptive_avg_pool2d` as a module."""

    def __init__(self, output_size: Any) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class AdaptiveMaxPool2d(Call):
    """The maxima of windows that cover the input evenly. The function `nn.functional.adaptive_max_pool2d` as a module."""

    def __init__(self, output_size: Any, return_indices: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Any: ...  # type: ignore[override]

class FractionalMaxPool2d(Call):
    """The maxima of windows that lie by chance (Graham 2014); with `return_indices` and where each is among the flattened spatial axes. The function `nn.functional.fractional_max_pool2d` as a module."""

    def __init__(self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Any: ...  # type: ignore[override]

class MaxPool3d(Call):
    """The maximum of each window; with `return_indices` and where each is among the flattened spatial axes. The function `nn.functional.max_pool3d` as a module."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, return_indices: bool = False, ceil_mode: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Any: ...  # type: ignore[override]

class MaxUnpool3d(Call):
    """Zeros but for maxima, back where `max_pool3d` found them. The function `nn.functional.max_unpool3d` as a module."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> None: ...
    def forward(self, input: Tensor, indices: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class AvgPool3d(Call):
    """The mean of each window. The function `nn.functional.avg_pool3d` as a module."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class LPPool3d(Call):
    """The root of the sum of powers of each window. The function `nn.functional.lp_pool3d` as a module."""

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class AdaptiveAvgPool3d(Call):
    """The means of windows that cover the input evenly. The function `nn.functional.adaptive_avg_pool3d` as a module."""

    def __init__(self, output_size: Any) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class AdaptiveMaxPool3d(Call):
    """The maxima of windows that cover the input evenly. The function `nn.functional.adaptive_max_pool3d` as a module."""

    def __init__(self, output_size: Any, return_indices: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Any: ...  # type: ignore[override]

class FractionalMaxPool3d(Call):
    """The maxima of windows that lie by chance (Graham 2014); with `return_indices` and where each is among the flattened spatial axes. The function `nn.functional.fractional_max_pool3d` as a module."""

    def __init__(self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Any: ...  # type: ignore[override]
