"""The cuda backend of micrograd: CuPy arrays as tensors' memory, own CUDA C++ kernels. `plugin` is the entry point."""

__version__ = "0.1.0"
