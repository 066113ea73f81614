"""Poolings as modules: one operation each, with its parameters, as in ``MaxPool2d(2, stride=1)``."""

# What each does, and its parameters, the op table says.
# ruff: noqa: D101

from __future__ import annotations

from micrograd_core.nn.module import Call


# fmt: off
class MaxPool1d(Call, operation="max_pool1d"): ...
class MaxPool2d(Call, operation="max_pool2d"): ...
class AvgPool1d(Call, operation="avg_pool1d"): ...
class AvgPool2d(Call, operation="avg_pool2d"): ...
