"""Poolings as modules: one operation each, with its parameters, as in ``MaxPool2d(2, stride=1)``."""

from __future__ import annotations

from micrograd_core.nn.module import Call


class MaxPool1d(Call):
    """`max_pool1d`."""

    operation = "max_pool1d"


class MaxPool2d(Call):
    """`max_pool2d`."""

    operation = "max_pool2d"


class AvgPool1d(Call):
    """`avg_pool1d`."""

    operation = "avg_pool1d"


class AvgPool2d(Call):
    """`avg_pool2d`."""

    operation = "avg_pool2d"
