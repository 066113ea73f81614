"""A backend of micrograd in pure Python: bytes as tensors' memory. `plugin` is the entry point."""

__version__ = "0.1.0"
