"""Data: batches on their way to a device.

It imports no array library until a function needs one; an error then says what to install.
"""

from __future__ import annotations

from micrograd_core.data.batches import Batches, batches
from micrograd_core.data.errors import DataError
from micrograd_core.suggestions import door

__all__ = ["Batches", "DataError", "batches"]

door(globals())
