"""Modules that hold others, or tensors, as lists and dicts do."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Generic, Self, TypeVar

from micrograd_core.array.tensor import Tensor, asarray, is_frozen
from micrograd_core.nn.functional.common import publish
from micrograd_core.nn.module import Module

T = TypeVar("T")


class _List(Module, Generic[T]):
    """A list whose elements have their numbers as names."""

    held: type[Any]
    what: str

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._list: list[T] = []
        self.extend(items)

    def _contents(self) -> list[tuple[str, Any]]:
        others = [(name, value) for name, value in vars(self).items() if name != "_list"]
        return [*((str(i), item) for i, item in enumerate(self._list)), *others]

    def _checked(self, item: Any) -> Any:
        if not isinstance(item, self.held):
            raise TypeError(f"{type(self).__name__} holds {self.what}; got an object of type {type(item).__name__}")
        return item

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
        self._list.append(self._checked(item))
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
        self._list.extend([self._checked(item) for item in items])
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
        self._list.insert(index, self._checked(item))

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
        return self._list.pop(index)

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[T]:
        return iter(self._list)

    def __getitem__(self, index: Any) -> Any:
        """One of them; of a slice, another such list of the same."""
        return type(self)(self._list[index]) if isinstance(index, slice) else self._list[index]

    def __setitem__(self, index: int, item: T) -> None:
        self._list[index] = self._checked(item)

    def __delitem__(self, index: int | slice) -> None:
        del self._list[index]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._list))})"


class _Dict(Module, Generic[T]):
    """A dict whose keys are names."""

    held: type[Any]
    what: str

    def __init__(self, items: Mapping[str, T] | Iterable[tuple[str, T]] = ()) -> None:
        self._dict: dict[str, T] = {}
        self.update(items)

    def _contents(self) -> list[tuple[str, Any]]:
        return [*self._dict.items(), *((name, value) for name, value in vars(self).items() if name != "_dict")]

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
        return self._dict.pop(key)

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
        return self._dict.keys()

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
        return self._dict.values()

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
        return self._dict.items()

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
        self._dict.clear()

    def __getattr__(self, name: str) -> Any:
        held = vars(self).get("_dict", {})
        if name not in held:
            raise AttributeError(f"{type(self).__name__} has no attribute and no key {name!r}")
        return held[name]

    def __len__(self) -> int:
        return len(self._dict)

    def __iter__(self) -> Iterator[str]:
        return iter(self._dict)

    def __contains__(self, key: str) -> bool:
        return key in self._dict

    def __getitem__(self, key: str) -> T:
        return self._dict[key]

    def __setitem__(self, key: str, item: T) -> None:
        if not isinstance(item, self.held):
            raise TypeError(f"{type(self).__name__} holds {self.what}; got an object of type {type(item).__name__}")
        self._dict[key] = item

    def __delitem__(self, key: str) -> None:
        del self._dict[key]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self._dict.items())})"


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
