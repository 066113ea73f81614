"""What goes wrong between processes."""

from micrograd_core.errors import MicrogradError


class WorldError(MicrogradError, RuntimeError):
    """The ranks of a job do not go together: one is missing, has ended, or does something else."""
