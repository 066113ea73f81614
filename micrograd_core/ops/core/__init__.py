"""The operations of an evening: elementwise arithmetic, shapes and selection, reductions, matrix products."""
