"""Activations that are computed a second time in place of being kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import micrograd_core as mg


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: Any = None, **kwargs: Any) -> Any:
    """Compute a function without keeping what is inside: the backward sweep computes it a second time.

    Parameters
    ----------
    function : function
        Of tensors, to tensors.
    *args, **kwargs
        Its arguments.
    use_reentrant : bool, optional
        Ignored.

    Returns
    -------
    What the function returns

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> from micrograd_core.torch.utils.checkpoint import checkpoint
    >>> x = torch.ones(2, requires_grad=True)
    >>> checkpoint(torch.exp, x).sum().backward()
    >>> x.grad.shape
    (2,)
    """
    return mg.checkpoint(function, *args, **kwargs)
