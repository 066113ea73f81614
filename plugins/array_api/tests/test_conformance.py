"""The conformance suite on the libraries that are installed and compute as they are called.

JAX compiles each primitive for each shape, and Dask makes a graph of tasks for each number: the whole suite takes them
a long time. ``micrograd conformance jax:cpu`` and ``micrograd conformance dask:0`` run it when wanted.
"""

from importlib.util import find_spec

from micrograd_core.conformance import Conformance

if find_spec("array_api_strict"):

    class TestStrict(Conformance):
        """What the standard promises and nothing else."""

        device = "strict:0"


if find_spec("torch"):

    class TestTorch(Conformance):
        """PyTorch on the host."""

        device = "torch:cpu"
