# Made by docs/stubs.py from the source and the op table.
from collections.abc import Sequence
from micrograd_core.array.tensor import Tensor
from micrograd_core.nn.call import Call
from micrograd_core.nn.module import Module
from typing import Any, ClassVar

class PixelShuffle(Call):
    """(…, channels * r**2, height, width) to (…, channels, height * r, width * r) (Shi et al. 2016). The function `nn.functional.pixel_shuffle` as a module."""

    def __init__(self, upscale_factor: int) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class PixelUnshuffle(Call):
    """The inverse of `pixel_shuffle`. The function `nn.functional.pixel_unshuffle` as a module."""

    def __init__(self, downscale_factor: int) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class ChannelShuffle(Call):
    """Channels (axis 1) of the groups taken in turn (Zhang et al. 2018). The function `nn.functional.channel_shuffle` as a module."""

    def __init__(self, groups: int) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Fold(Call):
    """Columns added up where `unfold` found them: (batch, channels * kernel, positions) to (batch, channels, *size). The function `nn.functional.fold` as a module."""

    def __init__(self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Unfold(Call):
    """The patches of an image as columns: (batch, channels, height, width) to (batch, channels * kernel, positions). The function `nn.functional.unfold` as a module."""

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Upsample(Call):
    """(batch, channels, *spatial) at another `size`, or `scale_factor` times as large. Parameters ---------- input : Tensor size, scale_factor : number, or one for each spatial axis One of the two. mode : str ``'nearest'``, ``'nearest-exact'``, ``'area'``; ``'linear'``, ``'bilinear'`` or ``'trilinear'`` by the number of spatial axes; ``'bicubic'``. align_corners : bool, optional Whether the first and last elements keep their places, rather than the edges of the image. recompute_scale_factor : bool, optional Whether elements are as far apart as the sizes say, rather than `scale_factor`. antialias : bool Whether, of ``'bilinear'`` and ``'bicubic'``, all elements of a larger input count. Raises ------ ShapeError, ValueError When both or neither of size and scale are given, or the mode is not for so many axes. The function `nn.functional.interpolate` as a module."""

    def __init__(self, size: Any = None, scale_factor: Any = None, mode: str = 'nearest', align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class UpsamplingNearest2d(Call):
    """`interpolate` by the nearest element. The function `nn.functional.upsample_nearest` as a module."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class UpsamplingBilinear2d(Call):
    """`interpolate` by straight lines, with the corners aligned. The function `nn.functional.upsample_bilinear` as a module."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class LocalResponseNorm(Call):
    """``x / (k + alpha * mean of squares of size channels around) ** beta`` (Krizhevsky et al. 2012). The function `nn.functional.local_response_norm` as a module."""

    def __init__(self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Dropout1d(Call):
    """Whole channels of (batch, channels, length) or (channels, length). The function `nn.functional.dropout1d` as a module."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Dropout2d(Call):
    """Whole channels of (batch, channels, height, width); of three axes the first two are taken for these. The function `nn.functional.dropout2d` as a module."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class Dropout3d(Call):
    """Whole channels of (batch, channels, depth, height, width) or (channels, depth, height, width). The function `nn.functional.dropout3d` as a module."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class AlphaDropout(Call):
    """Selu's least value with probability `p`; mean and variance stay (Klambauer et al. 2017). The function `nn.functional.alpha_dropout` as a module."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class FeatureAlphaDropout(Call):
    """`alpha_dropout` of whole channels. The function `nn.functional.feature_alpha_dropout` as a module."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor, /, **others: Any) -> Tensor: ...  # type: ignore[override]

class _Pad(Module):
    axes: ClassVar[int]
    mode: ClassVar[str]
    def __init__(self, padding: int | Sequence[int]) -> None: ...
    def forward(self, x: Tensor) -> Tensor: ...
    def facts(self) -> str: ...

class _ConstantPad(_Pad):
    def __init__(self, padding: int | Sequence[int], value: float) -> None: ...

class _ZeroPad(_Pad):
    ...

class _ReflectionPad(_Pad):
    ...

class _ReplicationPad(_Pad):
    ...

class _CircularPad(_Pad):
    ...

class ConstantPad1d(_ConstantPad):
    ...

class ConstantPad2d(_ConstantPad):
    ...

class ConstantPad3d(_ConstantPad):
    ...

class ZeroPad1d(_ZeroPad):
    ...

class ZeroPad2d(_ZeroPad):
    ...

class ZeroPad3d(_ZeroPad):
    ...

class ReflectionPad1d(_ReflectionPad):
    ...

class ReflectionPad2d(_ReflectionPad):
    ...

class ReflectionPad3d(_ReflectionPad):
    ...

class ReplicationPad1d(_ReplicationPad):
    ...

class ReplicationPad2d(_ReplicationPad):
    ...

class ReplicationPad3d(_ReplicationPad):
    ...

class CircularPad1d(_CircularPad):
    ...

class CircularPad2d(_CircularPad):
    ...

class CircularPad3d(_CircularPad):
    ...
