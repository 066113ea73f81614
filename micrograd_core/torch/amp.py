"""Mixed precision by PyTorch's arguments."""

from __future__ import annotations

from typing import Any

import micrograd_core as mg


def autocast(device_type: Any = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> Any:
    """Compute in half precision inside a ``with`` block: `micrograd_core.autocast` with PyTorch's arguments.

    Parameters
    ----------
    device_type : str, default "cuda"
        ``"cpu"`` chooses bfloat16 where no dtype is given, anything else float16; a bool is read as `enabled`.
    dtype : DType or str, optional
        bfloat16 or float16; float32 switches it off.
    enabled : bool, default True
        Whether anything changes.
    cache_enabled : bool, optional
        Ignored.

    Returns
    -------
    autocast
        A context manager.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> x = torch.ones(2, 2)
    >>> with torch.autocast("cpu"):
    ...     (x @ x).dtype
    micrograd_core.bfloat16
    """
    if isinstance(device_type, bool):  # torch.cuda.amp.autocast(enabled)
        device_type, enabled = "cuda", device_type
    half = ("bfloat16" if str(device_type).startswith("cpu") else "float16") if dtype is None else dtype
    enabled = enabled and half not in (mg.float32, "float32")
    return mg.autocast(half if enabled else "float16", enabled=enabled)


def GradScaler(device: Any = "cuda", init_scale: float = 2.0**16, enabled: bool = True, **settings: Any) -> Any:  # noqa: N802
    """Make a `micrograd_core.GradScaler` with PyTorch's arguments.

    Parameters
    ----------
    device : str
        Ignored: the gradients say where they are.
    init_scale : float, default 65536
        The first factor of the loss.
    enabled : bool, default True
        Whether anything is scaled.
    **settings
        ``growth_factor``, ``backoff_factor`` and ``growth_interval``.

    Returns
    -------
    GradScaler

    Raises
    ------
    KeyError
        For another setting.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> torch.amp.GradScaler(init_scale=4.0, growth_factor=3.0).growth
    3.0
    """
    names = {"growth_factor": "growth", "backoff_factor": "backoff", "growth_interval": "interval"}
    return mg.GradScaler(init_scale, enabled=enabled, **{names[name]: value for name, value in settings.items()})
