"""WebGPU devices for micrograd. `plugin` is the entry point."""

__version__ = "0.1.0"
