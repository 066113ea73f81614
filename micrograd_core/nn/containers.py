"""Modules that hold others, or tensors, as lists and dicts do."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Generic, Self, TypeVar

from micrograd_core.array.tensor import Tensor, asarray, is_frozen
from micrograd_core.nn.functional.common import publish
from micrograd_core.nn.module import Module, items_of

T = TypeVar("T")


class _Holder(Module, Generic[T]):
    """What lists and dicts share: their items stand among the contents by their own names."""

    held: type[Any]
    what: str
    _held: Any

    def _contents(self) -> list[tuple[str, Any]]:
        others = [(name, value) for name, value in vars(self).items() if name != "_held"]
        return [*(items_of(self._held) or ()), *others]

    def _checked(self, item: Any) -> Any:
        if not isinstance(item, self.held):
            raise TypeError(f"{type(self).__name__} holds {self.what}; got an object of type {type(item).__name__}")
        return item

    def __len__(self) -> int:
        return len(self._held)

    def __setitem__(self, key: Any, item: T) -> None:
        self._held[key] = self._checked(item)

    def __delitem__(self, key: Any) -> None:
        del self._held[key]


class _List(_Holder[T]):
    """A list whose elements have their numbers as names."""

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._held: list[T] = []
        self.extend(items)

    def append(self, item: T) -> Self:
        """Put an item at the end.

        Parameters
        ----------
        item : Module or Tensor
            What the list holds.

        Returns
        -------
        This list

        Raises
        ------
        TypeError
            When the item is of another class.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> len(mg.nn.ModuleList().append(mg.nn.ReLU()))
        1
        """
        self._held.append(self._checked(item))
        return self

    def extend(self, items: Iterable[T]) -> Self:
        """Put several items at the end.

        Parameters
        ----------
        items : iterable of Module or Tensor
            What the list holds.

        Returns
        -------
        This list

        Raises
        ------
        TypeError
            When an item is of another class; nothing is put in then.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.ModuleList().extend([mg.nn.ReLU(), mg.nn.Tanh()])
        ModuleList(ReLU(), Tanh())
        """
        self._held.extend([self._checked(item) for item in items])
        return self

    def insert(self, index: int, item: T) -> None:
        """Put an item before another.

        Parameters
        ----------
        index : int
            The place that it gets. Negative ones count from the end.
        item : Module or Tensor
            What the list holds.

        Raises
        ------
        TypeError
            When the item is of another class.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> layers = mg.nn.ModuleList([mg.nn.ReLU()])
        >>> layers.insert(0, mg.nn.Tanh())
        >>> layers
        ModuleList(Tanh(), ReLU())
        """
        self._held.insert(index, self._checked(item))

    def pop(self, index: int = -1) -> T:
        """Remove an item, and return it.

        Parameters
        ----------
        index : int, default -1
            Its place; by default the last.

        Returns
        -------
        Module or Tensor

        Raises
        ------
        IndexError
            When the list has no such place.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.ModuleList([mg.nn.ReLU()]).pop()
        ReLU()
        """
        return self._held.pop(index)

    def __iter__(self) -> Iterator[T]:
        return iter(self._held)

    def __getitem__(self, index: Any) -> Any:
        """One of them; of a slice, another such list of the same."""
        return type(self)(self._held[index]) if isinstance(index, slice) else self._held[index]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._held))})"


class _Dict(_Holder[T]):
    """A dict whose keys are names."""

    def __init__(self, items: Mapping[str, T] | Iterable[tuple[str, T]] = ()) -> None:
        self._held: dict[str, T] = {}
        self.update(items)

    def update(self, items: Mapping[str, T] | Iterable[tuple[str, T]]) -> None:
        """Put several items in, under their names.

        Parameters
        ----------
        items : mapping, or iterable of pairs
            Names, and modules or tensors.

        Raises
        ------
        TypeError
            When an item is of another class.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> layers = mg.nn.ModuleDict()
        >>> layers.update({"act": mg.nn.ReLU()})
        >>> layers
        ModuleDict(act=ReLU())
        """
        for key, item in dict(items).items():
            self[key] = item

    def pop(self, key: str) -> T:
        """Remove an item, and return it.

        Parameters
        ----------
        key : str
            Its name.

        Returns
        -------
        Module or Tensor

        Raises
        ------
        KeyError
            When the dict has no such name.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.ModuleDict({"act": mg.nn.ReLU()}).pop("act")
        ReLU()
        """
        return self._held.pop(key)

    def keys(self) -> KeysView[str]:
        """The names.

        Returns
        -------
        view of str

        Examples
        --------
        >>> import micrograd_core as mg
        >>> list(mg.nn.ModuleDict({"act": mg.nn.ReLU()}).keys())
        ['act']
        """
        return self._held.keys()

    def values(self) -> ValuesView[T]:
        """The modules or tensors.

        Returns
        -------
        view of Module or Tensor

        Examples
        --------
        >>> import micrograd_core as mg
        >>> list(mg.nn.ModuleDict({"act": mg.nn.ReLU()}).values())
        [ReLU()]
        """
        return self._held.values()

    def items(self) -> ItemsView[str, T]:
        """Pairs of a name and its module or tensor.

        Returns
        -------
        view of tuple

        Examples
        --------
        >>> import micrograd_core as mg
        >>> list(mg.nn.ModuleDict({"act": mg.nn.ReLU()}).items())
        [('act', ReLU())]
        """
        return self._held.items()

    def clear(self) -> None:
        """Remove all items.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> layers = mg.nn.ModuleDict({"act": mg.nn.ReLU()})
        >>> layers.clear()
        >>> len(layers)
        0
        """
        self._held.clear()

    def __getattr__(self, name: str) -> Any:
        held = vars(self).get("_held", {})
        if name not in held:
            raise AttributeError(f"{type(self).__name__} has no attribute and no key {name!r}")
        return held[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __contains__(self, key: str) -> bool:
        return key in self._held

    def __getitem__(self, key: str) -> T:
        return self._held[key]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self._held.items())})"


class ModuleList(_List[Module]):
    """Modules in a list, as parts of the module that holds it. It has no forward of its own.

    Parameters
    ----------
    items : iterable of Module
        The first modules.

    Raises
    ------
    TypeError
        When an item is not a module.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> layers = mg.nn.ModuleList([mg.nn.Linear(2, 3), mg.nn.ReLU()])
    >>> len(layers), layers[1]
    (2, ReLU())
    """

    held, what = Module, "modules"


class ModuleDict(_Dict[Module]):
    """Modules by name, as parts of the module that holds it. It has no forward of its own.

    Parameters
    ----------
    items : mapping, or iterable of pairs
        Names, and the first modules.

    Raises
    ------
    TypeError
        When an item is not a module.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> layers = mg.nn.ModuleDict({"act": mg.nn.ReLU()})
    >>> layers["act"]
    ReLU()
    """

    held, what = Module, "modules"


class ParameterList(_List[Tensor]):
    """Tensors in a list; those that record gradients are parameters of the module that holds it.

    Parameters
    ----------
    items : iterable of Tensor
        The first tensors.

    Raises
    ------
    TypeError
        When an item is not a tensor.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> weights = mg.nn.ParameterList([mg.Tensor([1.0]), mg.Tensor([2.0])])
    >>> len(weights.parameters())
    2
    """

    held, what = Tensor, "tensors"


class ParameterDict(_Dict[Tensor]):
    """Tensors by name; those that record gradients are parameters of the module that holds it.

    Parameters
    ----------
    items : mapping, or iterable of pairs
        Names, and the first tensors.

    Raises
    ------
    TypeError
        When an item is not a tensor.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> weights = mg.nn.ParameterDict({"scale": mg.Tensor([1.0])})
    >>> weights["scale"].shape
    (1,)
    """

    held, what = Tensor, "tensors"


# ── tensors by PyTorch's words ────────────────────────────────────────────────────────────────────────────────


class _Tensors(type):
    """Of classes that have no objects of their own: calling one makes a tensor, and `isinstance` asks one."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.is_leaf and (x.requires_grad or is_frozen(x)) is issubclass(cls, Parameter)


class Parameter(metaclass=_Tensors):
    """A tensor with the numbers of `data` that a module optimises: ``Tensor(data)``, in PyTorch's words.

    Parameters
    ----------
    data : Tensor, array, number or nested sequence
        Copied.
    requires_grad : bool
        Whether gradients are recorded.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.nn.Parameter(mg.ones((2,)))
    Tensor([1., 1.], requires_grad=True)
    """

    def __new__(cls, data: Any = (), requires_grad: bool = True) -> Tensor:  # type: ignore[misc]
        """A tensor."""
        made = Tensor(data, requires_grad=requires_grad)
        made._frozen = not requires_grad
        return made


class Buffer(metaclass=_Tensors):
    """A tensor with the numbers of `data` that a module keeps, and does not optimise.

    Parameters
    ----------
    data : Tensor, array, number or nested sequence
        Copied.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.nn.Buffer(mg.ones((2,)))
    Tensor([1., 1.])
    """

    def __new__(cls, data: Any) -> Tensor:  # type: ignore[misc]
        """A tensor."""
        return asarray(data.detach() if isinstance(data, Tensor) else data, copy=True)


publish(globals())
