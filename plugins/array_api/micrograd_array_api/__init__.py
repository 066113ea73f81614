"""Backends of micrograd over array API namespaces. `plugin` holds the entry points, `namespaces` the peculiarities."""

__version__ = "0.1.0"
