"""What every package stands on, and what knows nothing of arrays: contexts, locks, pytrees, assignments, files."""

__version__ = "0.1.0"
