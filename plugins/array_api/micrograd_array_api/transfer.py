"""Transfer: C-order bytes into arrays, arrays into what has C-order bytes. NumPy is imported when it is needed."""

from __future__ import annotations

from typing import Any

from micrograd_core.layout import Shape


def upload(xp: Any, data: Any, shape: Shape, name: str, place: Any) -> Any:
    """Through a fresh NumPy array of the dtype's name, on the device `place`."""
    import numpy as np

    array = np.array(np.frombuffer(data, name)).reshape(shape)
    return xp.asarray(array, dtype=getattr(xp, name), device=place)


def download(xp: Any, x: Any) -> Any:
    """Through ``__array__``."""
    import numpy as np

    return np.asarray(x)


def dlpack_download(xp: Any, x: Any) -> Any:
    """The same memory, as NumPy sees it."""
    import numpy as np

    return np.from_dlpack(x)


def dlpack_shares(x: Any, y: Any) -> bool:
    """Whether some element of one lies in the memory of the other."""
    import numpy as np

    return x is y or bool(np.shares_memory(np.from_dlpack(x), np.from_dlpack(y)))


def torch_upload(xp: Any, data: Any, shape: Shape, name: str, place: Any) -> Any:
    """From bytes: NumPy has no bfloat16."""
    dtype = getattr(xp, name)
    if 0 in shape:
        return xp.empty(shape, dtype=dtype, device=place)
    return xp.frombuffer(bytearray(data), dtype=dtype).reshape(shape).to(place)


def torch_download(xp: Any, x: Any) -> Any:
    """As bytes, likewise. The clone is there for single elements, which keep any stride and pass for contiguous."""
    return x.cpu().resolve_conj().reshape(-1).clone(memory_format=xp.contiguous_format).view(xp.uint8).numpy()
