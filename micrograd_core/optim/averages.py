"""Averages of parameters over the steps of a run: they are often better than the last ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.engine.modes import no_grad
from micrograd_core.errors import ShapeError
from micrograd_core.support.atomic import assign_all

if TYPE_CHECKING:
    from micrograd_core.nn.module import Module


class EMA:
    """Exponential moving averages of parameters, or of what a module has: ``decay * average + (1 - decay) * p``.

    ::

        average = optim.EMA(model, decay=0.999)
        ...
        rule.step()
        average.update()                # after each step, also in a function under jit
        with average.applied():         # the model has the averages here, and its own numbers afterwards
            evaluate(model)

    Parameters
    ----------
    parameters : Module, or iterable of Tensor
        Of a module also the floating-point buffers, such as running means, are averaged.
    decay : float
        How much of the average stays at each update.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([1.0])
    >>> average = mg.optim.EMA([x], decay=0.5)
    >>> with mg.no_grad():
    ...     x += 1.0
    >>> average.update()
    >>> with average.applied():
    ...     print(x.tolist())
    [1.5]
    """

    def __init__(self, parameters: Module | Iterable[Tensor], decay: float = 0.999) -> None:
        if not 0 <= decay <= 1:
            raise ValueError(f"EMA: decay is between 0 and 1; got {decay}")
        self.decay = decay
        self.source: Any = parameters if hasattr(parameters, "named_tensors") else list(parameters)
        self.averages = [p.detach().copy() for _, p in self._named()]
        """In the order of the parameters."""

    def _named(self) -> list[tuple[str, Tensor]]:
        if isinstance(self.source, list):
            return [(str(i), p) for i, p in enumerate(self.source)]
        return [(name, p) for name, p in self.source.named_tensors() if p.dtype.is_floating]

    @no_grad()
    def update(self) -> None:
        """Move the averages towards the parameters as they are now.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Tensor([1.0])
        >>> average = mg.optim.EMA([x], decay=0.5)
        >>> average.update()
        """
        pairs = zip(self.averages, self._named(), strict=True)
        assign_all([(old, "data", old + (p.detach() - old) * (1 - self.decay)) for old, (_, p) in pairs])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the parameters hold the averages inside a ``with`` block; afterwards they hold their own numbers again.

        Returns
        -------
        context manager

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Tensor([1.0])
        >>> with mg.optim.EMA([x]).applied():
        ...     numbers = x.tolist()
        """
        tensors = [p for _, p in self._named()]
        before = [p.detach() for p in tensors]
        try:
            self._put(tensors, self.averages)
            yield
        finally:
            self._put(tensors, before)

    def copy_to(self, parameters: Module | Iterable[Tensor] | None = None) -> None:
        """Write the averages into parameters.

        Parameters
        ----------
        parameters : Module, or iterable of Tensor, optional
            By default those that are averaged.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x, y = mg.Tensor([1.0]), mg.Tensor([0.0])
        >>> mg.optim.EMA([x]).copy_to([y])
        >>> y.tolist()
        [1.0]
        """
        whose = self if parameters is None else EMA(parameters, self.decay)
        self._put([p for _, p in whose._named()], self.averages)

    @staticmethod
    def _put(tensors: list[Tensor], numbers: list[Tensor]) -> None:
        assign_all([(p, "data", x.detach().copy()) for p, x in zip(tensors, numbers, strict=True)])

    def state_dict(self) -> dict[str, Tensor]:
        """Copy the averages.

        Returns
        -------
        dict of str to Tensor
            By the names of the module's tensors, or by their places.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> list(mg.optim.EMA(mg.nn.Linear(2, 1)).state_dict())
        ['weight', 'bias']
        """
        return {name: x.copy() for (name, _), x in zip(self._named(), self.averages, strict=True)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the ``state_dict()`` of averages of the same parameters.

        Parameters
        ----------
        state : mapping of str to Tensor or array
            With the names and shapes of this object's own.

        Raises
        ------
        ShapeError
            When names or shapes differ; nothing is loaded then.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> average = mg.optim.EMA([mg.Tensor([1.0])])
        >>> average.load_state_dict({"0": [2.0]})
        >>> average.averages
        [Tensor([2.])]
        """
        names = [name for name, _ in self._named()]
        if sorted(state) != sorted(names):
            raise ShapeError(f"EMA.load_state_dict: the names are {', '.join(names)}; got {', '.join(state)}")
        changes: list[tuple[Any, str, Any]] = []
        for name, old in zip(names, self.averages, strict=True):
            x = asarray(state[name], dtype=old.dtype, device=old.device, copy=True)
            if x.shape != old.shape:
                raise ShapeError(f"EMA.load_state_dict: {name!r} has shape {x.shape}, not {old.shape}")
            changes.append((old, "data", x))
        assign_all(changes)
