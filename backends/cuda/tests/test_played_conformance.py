"""The conformance suite on the cuda backend's kernels, compiled for the host and launched as on a GPU."""

from __future__ import annotations

import pytest

import host

if host.COMPILER is None:
    pytest.skip("there is no g++ to compile the kernels for the host with", allow_module_level=True)

from micrograd_core.conformance import Conformance


class TestPlayed(Conformance):
    device = "played:0"
