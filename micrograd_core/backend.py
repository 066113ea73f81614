"""The boundary: what a device must provide, and the check that it does.

A `Backend` *is* one opened device (``cuda:1``, not "CUDA"): no method takes a device. Its handles are opaque to the
core, which asks them for ``.shape`` (a tuple) and ``.dtype`` (a value of `Backend.dtypes`) only. See docs/backends.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from micrograd_core.layout import Key, Layout, Shape
from micrograd_core.support.context import precisions

if TYPE_CHECKING:
    from micrograd_core.compiler.program import Program

PROTOCOL: Final = 1
"""The protocol version this core speaks. It changes when a member is added that backends must have, or one changes."""

CAPABILITIES: Final = {
    "array-api": "every function of the array API standard's main namespace works, in the dtypes of the device",
    "boolean-indexing": "x[mask] selects, and x[mask] = values writes",
    "complex": "the complex dtypes work in every numeric operation",
    "data-dependent-shapes": "nonzero and unique_* work",
    "dlpack": "handles have __dlpack__ and __dlpack_device__, and from_dlpack() takes what has",
    "eig": "eig and eigvals of the linalg extension work",
    "fft": "the fft extension works",
    "jit": "compile() does better than straight-line Python",
    "linalg": "the linalg extension works, eig and eigvals aside",
    "random": "random numbers are made on the device",
    "strided": "layout() tells real strides, and views share memory",
}
"""The fixed vocabulary of `Backend.capabilities`, with what each word promises."""

STANDS_ON: Final = {
    "array-api": frozenset({"boolean-indexing", "data-dependent-shapes"}),
    "eig": frozenset({"complex", "linalg"}),
}
"""Words that a word cannot be claimed without."""


class Backend(Protocol):
    """One opened device. Subclass it to inherit the defaults, or match it by structure and get the same ones.

    Attributes
    ----------
    device : str
        Its canonical name, such as ``"cuda:0"``; printed in every error.
    dtypes : mapping
        Core dtype name to native dtype, as ``handle.dtype`` gives it. Absence is the answer "unsupported"; ``float32``,
        ``int64`` and ``bool`` must be there.
    protocol : int
        The protocol version the author wrote against: `PROTOCOL` at the time.
    capabilities : frozenset of str
        Words from `CAPABILITIES`.
    """

    device: str
    dtypes: Mapping[str, Any]
    protocol: int
    capabilities: frozenset[str] = frozenset()

    def from_host(self, data: Any, shape: Shape, dtype: Any) -> Any:
        """Copy bytes from the host to a fresh handle.

        Parameters
        ----------
        data : buffer
            The elements in C order, as what supports the buffer protocol.
        shape : tuple of int
            The lengths of the axes.
        dtype
            A native dtype, a value of `dtypes`.

        Returns
        -------
        handle
            With ``.shape`` and ``.dtype``.
        """

    def to_host(self, x: Any) -> Any:
        """Copy the elements of a handle to the host. Waits until they are there.

        Parameters
        ----------
        x : handle
            With any strides.

        Returns
        -------
        buffer
            The elements in C order, as what supports the buffer protocol.
        """

    def kernel(self, op: str) -> Callable[..., Any] | None:
        """The function for one operation, or ``None`` for "compose it from the others". Asked once per name.

        A kernel takes handles (or Python scalars) by position and parameters by keyword, with the names in the op
        table. It never mutates an input, and returns a fresh result or a view. The inputs of one call share a dtype.
        Shapes that do not fit must raise (any exception: the core words the error).

        Parameters
        ----------
        op : str
            The name of the operation, such as ``"matmul"``.

        Returns
        -------
        function or None
        """

    def layout(self, x: Any) -> Layout:
        """Strides and offset of a handle, in elements. With the capability ``strided``.

        Parameters
        ----------
        x : handle
            Of any shape.

        Returns
        -------
        Layout
        """
        return Layout.contiguous(tuple(x.shape))

    def shares_memory(self, x: Any, y: Any) -> bool:
        """Whether writing to one handle could change the other.

        Parameters
        ----------
        x, y : handle
            Of any shapes.

        Returns
        -------
        bool
        """
        return x is y

    def assign(self, x: Any, values: Any, key: Key) -> bool:
        """Write into a handle in place.

        Parameters
        ----------
        x : handle
            What is written to.
        values : handle or number
            The elements, which broadcast to the shape of ``x[key]``.
        key : tuple
            Integers, slices and ``None``.

        Returns
        -------
        bool
            ``False``: `x` cannot be written, and nothing happened.
        """
        return False

    def receive(self, x: Any, source: Backend) -> Any:
        """Copy a handle from another device. By default through the host.

        Parameters
        ----------
        x : handle
            A handle of `source`.
        source : Backend
            The other device.

        Returns
        -------
        handle
            A fresh handle of this device.
        """
        name = next(name for name, native in source.dtypes.items() if native == x.dtype)
        return self.from_host(source.to_host(x), tuple(x.shape), self.dtypes[name])

    def from_dlpack(self, x: Any) -> Any:
        """Make a handle over the memory of another library's array. With the capability ``dlpack``.

        Parameters
        ----------
        x
            What has DLPack's methods.

        Returns
        -------
        handle
        """
        raise NotImplementedError(f"{self.device} claims 'dlpack' without from_dlpack")

    def to_dlpack(self, x: Any) -> Any:
        """Hand a handle to another library, which may then see its memory, and write into it.

        Parameters
        ----------
        x : handle
            Of any shape.

        Returns
        -------
        What has DLPack's methods
        """
        return x

    def synchronize(self) -> None:
        """Wait until all work submitted to the device is done."""

    def memory(self) -> dict[str, int]:
        """How much memory is used.

        Returns
        -------
        dict of str to int
            Bytes ``in_use``, ``reserved`` and ``peak``, as far as the device tells.
        """
        return {}

    def release_memory(self) -> None:
        """Give cached memory back to the system."""

    def stream(self) -> AbstractContextManager[Any]:
        """A context in which work goes to a queue of its own, in order with what came before and comes after it.

        Returns
        -------
        context manager
        """
        return nullcontext()

    def compile(self, program: Program) -> Callable[..., Any]:
        """Make one callable of a recorded program. By default it calls one kernel after the other.

        Parameters
        ----------
        program : Program
            Its steps are operations of the op table.

        Returns
        -------
        function
            Of handles, to the handles of the results.
        """
        from micrograd_core.compiler.executor import straight_line
        from micrograd_core.interpreters.raw import compose

        return straight_line(program, self.kernel, partial(compose, backend=self), self.dtypes)


REQUIRED: Final = ("device", "dtypes", "protocol", "from_host", "to_host", "kernel")
matmul_precision = precisions.get
"""In what `set_matmul_precision` allows float32 matrix products to be computed, for backends to ask at each product."""

REQUIRED_DTYPES: Final = ("float32", "int64", "bool")


def member(backend: Any, name: str) -> Any:
    """A member of `backend`, or the protocol's default for it."""
    value = getattr(backend, name, None)
    if value is not None:
        return value
    default = getattr(Backend, name)
    return default.__get__(backend) if callable(default) else default


def faults(backend: Any) -> list[str]:
    """Everything in which `backend` misses the protocol, one sentence each."""
    from micrograd_core.interpreters import boundary

    return boundary.faults(backend)


def probe(backend: Any) -> list[str]:
    """Faults that show when one number of each required dtype goes to the device and comes back."""
    from micrograd_core.interpreters import boundary

    return boundary.probe(backend)


__all__ = ["CAPABILITIES", "PROTOCOL", "STANDS_ON", "Backend", "faults", "matmul_precision", "member", "probe"]
