"""Backends that are broken on purpose. See `micrograd_faulty.plugin`."""

__version__ = "0.1.0"
