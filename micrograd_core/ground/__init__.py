"""What every room stands on, and what knows nothing of arrays: context, locks, assignments as one, trees, files."""

__version__ = "0.1.0"
