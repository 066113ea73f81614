"""The default generator."""

from __future__ import annotations

from typing import Any

from micrograd_core.random import default_generator as default_generator
from micrograd_core.torch.functions import manual_seed as manual_seed


def get_rng_state() -> Any:
    """Where the default generator is in its stream.

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> state = torch.random.get_rng_state()
    """
    return default_generator().state


def set_rng_state(state: Any) -> None:
    """Let the default generator continue from a place in its stream.

    Parameters
    ----------
    state : tuple of int
        From `get_rng_state`.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> state = torch.random.get_rng_state()
    >>> x = torch.rand(3)
    >>> torch.random.set_rng_state(state)
    >>> torch.equal(x, torch.rand(3))
    True
    """
    default_generator().state = state
