"""What the tests of the cuda backend share."""

from __future__ import annotations

import pytest

import host

NO_COMPILER = "there is no g++ to compile the kernels for the host with"
played_only = pytest.mark.skipif(host.COMPILER is None, reason=NO_COMPILER)
