"""The suite: all its parts in one class. Each message names what is at fault, and what came instead of what."""

from __future__ import annotations

from micrograd_core.conformance.boundary import Boundary, Handles, Refusals
from micrograd_core.conformance.kernels import Kernels
from micrograd_core.conformance.levels import Levels
from micrograd_core.conformance.operations import Compiled, Operations
from micrograd_core.conformance.values import Values


class Conformance(Operations, Values, Kernels, Compiled, Boundary, Handles, Levels, Refusals):
    """The suite for one device. Subclass it with a name that pytest collects, and set `device`."""
