"""Ready-made halves of a backend: `ArrayAPIBackend` for any namespace, `StridedBackend` for any flat buffer."""
