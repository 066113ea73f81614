"""Programs written for PyTorch run here with other imports, and learn the same."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import programs

STEPS = 20


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_a_program_learns_what_it_learns_with_torch(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import micrograd_core.torch as ours

    program = programs.PROGRAMS[name]
    root = programs.source_of(program)
    if root is None:
        pytest.skip(f"{program.repository} is not in the folder that MICROGRAD_PORTS names")
    inputs = program.inputs(np.random.default_rng(0))
    torch.manual_seed(0)
    with programs.loaded(program, root, tmp_path / "theirs", ported=False) as m, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PyTorch says of its own
        wanted = programs.trained(program, m, torch, inputs, None, STEPS)
    with programs.loaded(program, root, tmp_path / "ours", ported=True) as m, np.errstate(divide="ignore"):
        found = programs.trained(program, m, ours, inputs, wanted.state, STEPS)
    assert found.gradients.keys() == wanted.gradients.keys()
    for each, g in wanted.gradients.items():
        np.testing.assert_allclose(
            found.gradients[each], g, rtol=1e-3, atol=1e-4 * max(abs(g).max(), 1e-3), err_msg=each
        )
    np.testing.assert_allclose(found.losses, wanted.losses, rtol=program.tolerance)
