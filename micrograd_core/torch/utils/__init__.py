"""PyTorch's utilities that have a counterpart here."""

from __future__ import annotations

from micrograd_core.torch.utils import checkpoint as checkpoint, data as data
