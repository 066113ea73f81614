"""The cpu backend of micrograd: NumPy arrays as tensors' memory. `plugin` is the entry point."""

__version__ = "0.1.0"
