"""`Module`, what all layers and networks are; and those that only arrange others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, Self, TypeVar, overload

from micrograd_core.array.tensor import Tensor, asarray, is_frozen
from micrograd_core.device import Device, destination
from micrograd_core.dtypes import DType
from micrograd_core.engine.array import storage, wrap
from micrograd_core.engine.graph import Leaf
from micrograd_core.engine.hooks import HookHandle
from micrograd_core.errors import DTypeError, ShapeError
from micrograd_core.layout import resolve_axis
from micrograd_core.ops.shared import parameter_names
from micrograd_core.support.atomic import assign_all
from micrograd_core.support.escaping import printable
from micrograd_core.support.reconstruction import Remembered
from micrograd_core.support.states import check_state

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", covariant=True)


Hooks = dict[object, Callable[..., Any]]


class Members(list[T]):
    """What a module holds: a list that ``next(…)`` also takes, as it takes PyTorch's iterators."""

    _next = 0

    def __next__(self) -> T:
        if self._next == len(self):
            raise StopIteration
        self._next += 1
        return self[self._next - 1]


class Forward(Protocol[P, R]):
    """What has a `forward`: for type checkers, to which calling a module is calling that."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """As the module defines it."""


class IncompatibleKeys(NamedTuple):
    """What `Module.load_state_dict` gives: the names on which a module and what it loads do not agree."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        told = f"missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys}"
        return f"IncompatibleKeys({told})" if any(self) else "<All keys matched successfully>"


PLACE = {"device": ("str | Device | None", None), "dtype": ("Any", "float32")}
MADE = {"Unpack[Making]": {"generator": ("Generator | None", None), **PLACE}, "Unpack[Place]": PLACE}
"""What ``**made`` stands for in the constructors of layers: see `micrograd_core.nn.initialization`."""


def _made(kind: type[Any]) -> dict[str, Any]:
    """The types and defaults of the last arguments of a constructor, if it takes them as ``**made``."""
    return MADE.get(getattr(kind.__init__, "__annotations__", {}).get("made", ""), {})


class _Signature:
    """What `inspect` finds, and imports, of a class: its last arguments by their names."""

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        made = _made(owner)
        if instance is not None or not made:
            return Remembered.__dict__["__signature__"].__get__(instance, owner)
        from inspect import Parameter, Signature, signature

        whole, kind = signature(owner.__init__), Parameter.KEYWORD_ONLY
        last = [Parameter(name, kind, annotation=hint, default=value) for name, (hint, value) in made.items()]
        return Signature([*list(whole.parameters.values())[1:-1], *last], return_annotation=whole.return_annotation)


class Module(Remembered):
    """A function with parameters. Subclasses assign tensors and modules as attributes and define ``forward``.

    The tensors of a module are its attributes that are tensors and were not computed, those of modules among the
    attributes, and those in lists, tuples and dicts of either, in the order of assignment. Those that record gradients
    are its parameters, and stay so when ``requires_grad`` is switched off; the others are its buffers: they are saved,
    loaded and moved, but not optimised. Only another parameter, a module or ``None`` can be assigned where a parameter
    is.

    Attributes
    ----------
    training : bool
        Whether layers that behave differently while learning do so; true until `eval` is called.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> class Double(mg.nn.Module):
    ...     def __init__(self):
    ...         self.inner = mg.nn.Linear(2, 2)
    ...
    ...     def forward(self, x):
    ...         return 2 * self.inner(x)
    >>> [name for name, _ in Double().named_parameters()]
    ['inner.weight', 'inner.bias']
    """

    training: bool = True
    _unsaved: frozenset[str] = frozenset()  # names of buffers that `state_dict` leaves out
    _before: Hooks = {}  # noqa: RUF012 (what runs at each call; a module with hooks has its own)
    _after: Hooks = {}  # noqa: RUF012
    __signature__ = _Signature()

    if not TYPE_CHECKING:

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            """An object without attributes yet."""
            if kwargs and (made := _made(cls)):
                for name in kwargs.keys() - made.keys() - {*parameter_names(cls.__init__)}:
                    raise TypeError(f"{cls.__init__.__qualname__}() got an unexpected keyword argument {name!r}")
            return super().__new__(cls, *args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result of a call; each subclass defines its own.

        Parameters
        ----------
        *args, **kwargs
            The arguments of the call.

        Returns
        -------
        Tensor, or whatever the subclass returns

        Raises
        ------
        NotImplementedError
            When the subclass does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")

    def __call__(self: Forward[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """`forward`, with the same arguments. An error gets a note that names the layer it arose in."""
        try:
            module: Any = self
            if module._before or module._after:
                return module._hooked(*args, **kwargs)  # type: ignore[no-any-return]
            return self.forward(*args, **kwargs)
        except Exception as error:
            _name_the_layer(error, self)
            raise

    def _hooked(self, *args: Any, **kwargs: Any) -> Any:
        """`forward` between the hooks that come before and after it."""
        for hook in [*self._before.values()]:
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook in [*self._after.values()]:
            changed = hook(self, args, result)
            result = result if changed is None else changed
        return result

    if not TYPE_CHECKING:  # to checkers it would say that any attribute may be assigned

        def __setattr__(self, name: str, value: Any) -> None:
            fits = value is None or isinstance(value, Module) or is_parameter(value)
            if not fits and is_parameter(vars(self).get(name)):
                raise TypeError(_no_parameter(f"{type(self).__name__}.{name}", name, value))
            super().__setattr__(name, value)

    def _contents(self) -> list[tuple[str, Any]]:
        """What is held, by name."""
        return list(vars(self).items())  # a copy: who walks may assign

    def _walk(self, every_name: bool = False) -> Iterator[tuple[str, Any]]:
        """The module, and the modules and tensors it holds, with their dotted names: each once, or by each name."""
        yield "", self
        seen = {id(self)}
        stack: list[tuple[Any, str, Iterator[tuple[str, Any]]]] = [(self, "", items_of(self) or iter(()))]
        while stack:
            owner, path, contents = stack[-1]
            entry = next(contents, None)
            if entry is None:
                stack.pop()
                if every_name:
                    seen.discard(id(owner))  # what is left are those around the next one: nothing is inside itself
                continue
            name, value = f"{path}{entry[0]}", entry[1]
            items = items_of(value)
            if id(value) in seen or (items is None and not (isinstance(value, Tensor) and value.is_leaf)):
                continue
            if items is not None or not every_name:
                seen.add(id(value))
            if items is None or isinstance(value, Module):
                yield name, value
            if items is not None:
                stack.append((value, f"{name}.", items))

    def _every_tensor(self) -> dict[str, Tensor]:
        """Parameters and buffers that are saved, those with several names by each of them."""
        found = list(self._walk(every_name=True))
        unsaved = {f"{name}.{each}".lstrip(".") for name, x in found if isinstance(x, Module) for each in x._unsaved}
        return {name: x for name, x in found if isinstance(x, Tensor) and name not in unsaved}

    def named_modules(self) -> Members[tuple[str, Module]]:
        """List this module, named ``""``, and all modules below it, such as ``"layers.0"``; each comes once.

        Returns
        -------
        Members of tuple of str and Module
            A list that ``next(…)`` also takes.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> [name for name, module in mg.nn.Sequential(mg.nn.ReLU(), mg.nn.Tanh()).named_modules()]
        ['', '0', '1']
        """
        return Members((name, value) for name, value in self._walk() if isinstance(value, Module))

    def modules(self) -> Members[Module]:
        """List this module and all modules below it; each comes once.

        Returns
        -------
        Members of Module
            A list that ``next(…)`` also takes.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.Sequential(mg.nn.ReLU(), mg.nn.Tanh()).modules()[1:]
        [ReLU(), Tanh()]
        """
        return Members(module for _, module in self.named_modules())

    def named_children(self) -> Members[tuple[str, Module]]:
        """List the modules among the attributes, with their names.

        Returns
        -------
        Members of tuple of str and Module
            A list that ``next(…)`` also takes.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.Sequential(mg.nn.ReLU(), mg.nn.Tanh()).named_children()
        [('0', ReLU()), ('1', Tanh())]
        """
        return Members((name, value) for name, value in self._contents() if isinstance(value, Module))

    def children(self) -> Members[Module]:
        """List the modules among the attributes.

        Returns
        -------
        Members of Module
            A list that ``next(…)`` also takes.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.Sequential(mg.nn.ReLU(), mg.nn.Tanh()).children()
        [ReLU(), Tanh()]
        """
        return Members(module for _, module in self.named_children())

    def named_tensors(self, recurse: bool = True) -> Members[tuple[str, Tensor]]:
        """List parameters and buffers with their dotted names, such as ``"layers.0.weight"``.

        Parameters
        ----------
        recurse : bool, default True
            Whether those of the modules below are listed too.

        Returns
        -------
        Members of tuple of str and Tensor
            A list that ``next(…)`` also takes.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> [name for name, x in mg.nn.BatchNorm1d(2).named_tensors()]
        ['weight', 'bias', 'running_mean', 'running_var', 'num_batches_tracked']
        """
        found = self._walk() if recurse else self._contents()
        return Members((name, x) for name, x in found if isinstance(x, Tensor) and x.is_leaf)

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Members[tuple[str, Tensor]]:
        """List the tensors to optimise, with their dotted names.

        Parameters
        ----------
        prefix : str, default ""
            What comes before each name, followed by a dot.
        recurse : bool, default True
            Whether those of the modules below are listed too.

        Returns
        -------
        Members of tuple of str and Tensor
            A list that ``next(…)`` also takes.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> [name for name, p in mg.nn.Linear(2, 3).named_parameters(prefix="head")]
        ['head.weight', 'head.bias']
        """
        begin = f"{prefix}." if prefix else ""
        return Members((begin + name, p) for name, p in self.named_tensors(recurse) if is_parameter(p))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Members[tuple[str, Tensor]]:
        """List the tensors that are saved but not optimised, such as running means, with their dotted names.

        Parameters
        ----------
        prefix : str, default ""
            What comes before each name, followed by a dot.
        recurse : bool, default True
            Whether those of the modules below are listed too.

        Returns
        -------
        Members of tuple of str and Tensor
            A list that ``next(…)`` also takes.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> [name for name, x in mg.nn.BatchNorm1d(2).named_buffers()]
        ['running_mean', 'running_var', 'num_batches_tracked']
        """
        begin = f"{prefix}." if prefix else ""
        return Members((begin + name, p) for name, p in self.named_tensors(recurse) if not is_parameter(p))

    def parameters(self, recurse: bool = True) -> Members[Tensor]:
        """List the tensors to optimise: what an optimiser takes.

        Parameters
        ----------
        recurse : bool, default True
            Whether those of the modules below are listed too.

        Returns
        -------
        Members of Tensor
            A list that ``next(…)`` also takes.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> [p.shape for p in mg.nn.Linear(2, 3).parameters()]
        [(3, 2), (3,)]
        """
        return Members(p for _, p in self.named_parameters(recurse=recurse))

    def buffers(self, recurse: bool = True) -> Members[Tensor]:
        """List the tensors that are saved but not optimised, such as running means.

        Parameters
        ----------
        recurse : bool, default True
            Whether those of the modules below are listed too.

        Returns
        -------
        Members of Tensor
            A list that ``next(…)`` also takes.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> [x.shape for x in mg.nn.BatchNorm1d(2).buffers()]
        [(2,), (2,), ()]
        """
        return Members(p for _, p in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Any:
        """Find a module by its dotted name.

        Parameters
        ----------
        target : str
            Such as ``"layers.0"``.

        Returns
        -------
        Module

        Raises
        ------
        AttributeError
            When no module has that name.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.Sequential(mg.nn.ReLU(), mg.nn.Tanh()).get_submodule("1")
        Tanh()
        """
        return self._found(target, Module, "module")

    def get_parameter(self, target: str) -> Any:
        """Find a parameter or a buffer by its dotted name.

        Parameters
        ----------
        target : str
            Such as ``"layers.0.weight"``.

        Returns
        -------
        Tensor

        Raises
        ------
        AttributeError
            When no tensor of this module has that name.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.Linear(2, 3).get_parameter("weight").shape
        (3, 2)
        """
        return self._found(target, Tensor, "parameter")

    def _found(self, target: str, kind: type, what: str) -> Any:
        found = {name: value for name, value in self._walk(every_name=True) if isinstance(value, kind)}
        if target not in found:
            raise AttributeError(
                f"{type(self).__name__} has no {what} {target!r}; it has {', '.join(filter(None, found))}"
            )
        return found[target]

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Keep a tensor that is not optimised as the attribute `name`.

        Parameters
        ----------
        name : str
            The name of the attribute.
        tensor : Tensor or None
            The tensor; the attribute shares its memory, outside the graph.
        persistent : bool, default True
            Whether `state_dict` has it.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> layer = mg.nn.Identity()
        >>> layer.register_buffer("scale", mg.ones(2), persistent=False)
        >>> layer.scale, list(layer.state_dict())
        (Tensor([1., 1.]), [])
        """
        setattr(self, name, None if tensor is None else tensor.detach())
        self._unsaved = self._unsaved - {name} if persistent else self._unsaved | {name}

    def register_parameter(self, name: str, param: Tensor | None) -> None:
        """Keep a tensor to optimise as an attribute, as ``setattr(module, name, param)`` does.

        Parameters
        ----------
        name : str
            The name of the attribute.
        param : Tensor or None
            A tensor that records gradients.

        Raises
        ------
        TypeError
            When the attribute is a parameter, and `param` cannot be one.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> layer = mg.nn.Identity()
        >>> layer.register_parameter("scale", mg.Tensor([1.0]))
        >>> [name for name, p in layer.named_parameters()]
        ['scale']
        """
        setattr(self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Keep a module as an attribute, as ``setattr(self, name, module)`` does.

        Parameters
        ----------
        name : str
            The name of the attribute.
        module : Module or None
            The module.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> model = mg.nn.Sequential()
        >>> model.add_module("last", mg.nn.ReLU())
        >>> model.last
        ReLU()
        """
        setattr(self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Keep a module as an attribute; another name of `add_module`.

        Parameters
        ----------
        name : str
            The name of the attribute.
        module : Module or None
            The module.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> model = mg.nn.Sequential()
        >>> model.register_module("last", mg.nn.ReLU())
        >>> model.last
        ReLU()
        """
        setattr(self, name, module)

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call a function before each `forward`.

        Parameters
        ----------
        hook : function
            Called as ``hook(module, args)``. What it returns, unless ``None``, replaces the arguments: a tuple, or one
            of them.

        Returns
        -------
        HookHandle
            With a method `remove`; as a context it removes the hook at its end.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> layer = mg.nn.Identity()
        >>> hook = layer.register_forward_pre_hook(lambda module, args: args[0] * 2)
        >>> layer(mg.ones(2))
        Tensor([2., 2.])
        """
        return self._hook("_before", hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call a function after each `forward`.

        Parameters
        ----------
        hook : function
            Called as ``hook(module, args, result)``. What it returns, unless ``None``, replaces the result.

        Returns
        -------
        HookHandle
            With a method `remove`; as a context it removes the hook at its end.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> layer = mg.nn.Identity()
        >>> with layer.register_forward_hook(lambda module, args, result: result + 1):
        ...     layer(mg.ones(2))
        Tensor([2., 2.])
        """
        return self._hook("_after", hook)

    def _hook(self, when: str, hook: Callable[..., Any]) -> HookHandle:
        hooks: Hooks = getattr(self, when) or {}
        setattr(self, when, hooks)
        return HookHandle(hooks, hook)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set ``requires_grad`` of all parameters.

        Parameters
        ----------
        requires_grad : bool, default True
            Whether they record gradients; false freezes them, and they stay parameters.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> layer = mg.nn.Linear(2, 1).requires_grad_(False)
        >>> layer(mg.ones(2)).requires_grad, len(layer.parameters())
        (False, 2)
        """
        for p in self.parameters():
            p.requires_grad = requires_grad
        return self

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call a function with every module below this one, and with this one last.

        Parameters
        ----------
        function : function
            Called with one module at a time; its result is ignored.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> model = mg.nn.Sequential(mg.nn.ReLU()).apply(lambda module: print(type(module).__name__))
        ReLU
        Sequential
        """
        for module in reversed([module for _, module in self.named_modules()]):
            function(module)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set `training` here and in all modules below.

        Parameters
        ----------
        mode : bool, default True
            Whether layers such as `Dropout` behave as they do while learning.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.Dropout(0.5).eval().train().training
        True
        """
        for _, module in self.named_modules():
            module.training = bool(mode)
        return self

    def eval(self) -> Self:
        """Set `training` to false here and in all modules below: dropout passes, norms use their running statistics.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.Dropout(0.5).eval()(mg.ones(2))
        Tensor([1., 1.])
        """
        return self.train(False)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters.

        Parameters
        ----------
        set_to_none : bool, default True
            Whether ``.grad`` becomes ``None``, rather than zeros.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> layer = mg.nn.Linear(2, 1)
        >>> layer(mg.ones((1, 2))).sum().backward()
        >>> layer.zero_grad(set_to_none=False)
        >>> layer.weight.grad
        Tensor([[0., 0.]])
        """
        for p in self.parameters():
            p.grad = None if set_to_none or p.grad is None else p.grad * 0

    def state_dict(self) -> dict[str, Tensor]:
        """Copy parameters and buffers, outside the graph.

        A tensor that is held twice, as tied weights are, has both names, and one copy.

        Returns
        -------
        dict of str to Tensor
            By dotted names. Writing into a copy raises GraphError; write into a ``clone()`` of it.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> list(mg.nn.Sequential(mg.nn.Linear(2, 3)).state_dict())
        ['0.weight', '0.bias']
        """
        own = self._every_tensor()
        copies = {id(p): _saved(p) for p in own.values()}
        return {name: copies[id(p)] for name, p in own.items()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Replace the numbers of all parameters and buffers by those in `state`.

        Of a tensor that has several names, one is enough; of several, the last counts.

        Parameters
        ----------
        state : mapping from names to arrays
            Tensors, or other arrays, of the shapes of this module's; they are converted to its dtypes, and copied.
        strict : bool, default True
            Whether the names must be those of this module. If not, what both have is loaded.

        Returns
        -------
        IncompatibleKeys
            ``missing_keys`` and ``unexpected_keys``; empty lists if `strict`.

        Raises
        ------
        ShapeError
            When shapes differ, or names do and `strict` is true; all differences are listed and nothing is loaded.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> first, second = mg.nn.Linear(2, 3), mg.nn.Linear(2, 3)
        >>> second.load_state_dict(first.state_dict())
        <All keys matched successfully>
        """
        check_state(f"{type(self).__name__}.load_state_dict", state)
        own = self._every_tensor()
        given = {name: own[name] for name in state if name in own}
        found = set(map(id, given.values()))
        missing = [name for name, p in own.items() if name not in state and id(p) not in found]
        unexpected = [name for name in state if name not in own]
        faults = [f"{name!r} is missing" for name in missing] if strict else []
        if strict:
            faults += [f"{name!r} is not a parameter or buffer of this {type(self).__name__}" for name in unexpected]
        ways = "; load_state_dict(state, strict=False) loads what both have" if faults else ""
        changes: list[Any] = []
        for name, p in given.items():
            x = asarray(state[name], dtype=p.dtype, device=p.device, copy=True)
            faults += [f"{name!r} has shape {x.shape}, not {p.shape}"] * (x.shape != p.shape)
            changes += [(p, "_handle", x._handle), (p, "_storage", None), (p, "_origin", None)]
        if faults:
            raise ShapeError(f"load_state_dict: {'; '.join(faults)}{ways}")
        assign_all(changes)
        return IncompatibleKeys(missing, unexpected)

    def to(self, device: str | Device | DType | None = None, dtype: Any = None) -> Self:
        """Move parameters and buffers to another device, convert those with floating-point numbers, or both.

        They stay the same tensors, with their hooks and gradients; a graph that was recorded before no longer leads to
        them. Make optimisers afterwards. Integers keep their dtype, and complex numbers do where `dtype` is real. A
        call that
        fails or is interrupted has changed nothing, or everything.

        Parameters
        ----------
        device : Device, str or None
            Where they go; a dtype, or a tensor whose device and dtype are taken, may stand here too.
        dtype : DType or str, optional
            A floating-point dtype.

        Returns
        -------
        Module
            This module.

        Raises
        ------
        DTypeError
            When `dtype` is not floating-point.
        TypeError
            When neither a device nor a dtype is given.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.Linear(2, 3).to(dtype="float64").weight.dtype
        micrograd_core.float64
        """
        place, kind = destination(device, dtype)
        if kind is not None and not kind.is_floating:
            raise DTypeError(
                f"{type(self).__name__}.to: parameters are floating-point numbers, and {kind} is not such a dtype; "
                "use dtype='float32'"
            )
        assign_all([change for _, p in self.named_tensors() for change in _changes(p, place, kind)])
        return self

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32, as ``to(dtype="float32")`` does.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.Linear(2, 3, dtype="float64").float().weight.dtype
        micrograd_core.float32
        """
        return self.to(dtype="float32")

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64, as ``to(dtype="float64")`` does.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.Linear(2, 3).double().weight.dtype
        micrograd_core.float64
        """
        return self.to(dtype="float64")

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16, as ``to(dtype="float16")`` does.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.Linear(2, 3).half().weight.dtype
        micrograd_core.float16
        """
        return self.to(dtype="float16")

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16, as ``to(dtype="bfloat16")`` does.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.nn.Linear(2, 3).bfloat16().weight.dtype
        micrograd_core.bfloat16
        """
        return self.to(dtype="bfloat16")

    def facts(self) -> str:
        """Describe this module alone: `repr` prints it beside the modules inside.

        Returns
        -------
        str
            Such as ``"in_features=2, out_features=3"``; empty by default.
        """
        return ""

    def __repr__(self) -> str:
        inner = [f"{printable(name)}={value!r}" for name, value in vars(self).items() if isinstance(value, Module)]
        return f"{type(self).__name__}({', '.join(filter(None, [self.facts(), *inner]))})"

    def __str__(self) -> str:
        """The modules as a tree, each with how many numbers its parameters have, and its buffers."""
        rows = [(self._line(), *self._sizes())]
        around = [""]  # what the names of the modules around the next one begin with
        for name, module in self._walk(every_name=True):
            if name and isinstance(module, Module):
                while not name.startswith(around[-1]):
                    around.pop()
                label = printable(name[len(around[-1]) :])
                rows.append((f"{'  ' * len(around)}{label}: {module._line()}", *module._sizes()))
                around.append(f"{name}.")
        width = max(len(text) for text, _, _ in rows)
        digits = max(len(f"{own:,}") for _, own, _ in rows)
        lines = []
        for i, (text, own, kept) in enumerate(rows):
            words = (" parameters", " in buffers") if i == 0 else ("", "")
            buffers = f" + {kept:,}{words[1]}" if kept else ""
            lines.append(f"{text:{width}}  {own:>{digits},}{words[0]}{buffers}" if own or kept or i == 0 else text)
        return "\n".join(lines)

    def _sizes(self) -> tuple[int, int]:
        """How many numbers there are in the parameters, and in the buffers."""
        return sum(p.size for _, p in self.named_parameters()), sum(p.size for _, p in self.named_buffers())

    def _line(self) -> str:
        """The module itself, without those inside."""
        facts = self.facts()
        return f"{type(self).__name__}({facts})" if facts else type(self).__name__


LAYER = "in the layer "


def _name_the_layer(error: Exception, outer: Any) -> None:
    """Note which of the layers of `outer` an error arose in: the innermost whose call it comes out of."""
    with suppress(Exception):  # what a module says of itself is its author's, and must not hide the error
        names = {id(module): name for name, module in outer.named_modules()}
        inner, entry = outer, error.__traceback__
        while entry is not None:
            if entry.tb_frame.f_code is Module.__call__.__code__:
                module = entry.tb_frame.f_locals["self"]
                inner = module if id(module) in names else inner
            entry = entry.tb_next
        if name := names[id(inner)]:  # the layers around it know a longer one
            others = [note for note in getattr(error, "__notes__", ()) if not note.startswith(LAYER)]
            error.__notes__ = [*others, f"{LAYER}{name} of {type(outer).__name__}: {inner._line()}"]


def is_parameter(value: Any) -> bool:
    """Whether a module that has `value` as an attribute optimises it."""
    return isinstance(value, Tensor) and value.is_leaf and (value.requires_grad or is_frozen(value))


def _saved(x: Tensor) -> Tensor:
    """A copy for a `state_dict`, which refuses writes."""
    copy: Tensor = x.detach().copy()
    storage(copy).saved = True
    return copy


def _no_parameter(where: str, name: str, value: Any) -> str:
    """Why a value cannot be assigned where a parameter is."""
    if not isinstance(value, Tensor):
        what = f"an object of type {type(value).__name__}"
    else:
        what = "a tensor that records no gradients" if value.is_leaf else "a computed tensor"
    return (
        f"{where} is a parameter, and {what} would not be one. To change its numbers assign to .{name}.data; to have "
        f"another parameter assign Tensor(...), or None for none; for anything else, `del` the attribute first"
    )


def _changes(x: Tensor, device: Device | None, dtype: DType | None) -> list[tuple[Any, str, Any]]:
    """What is to be assigned so that this very tensor is on another device, or has another dtype."""
    if dtype is not None and (not x.dtype.is_floating or (x.dtype.is_complex and not dtype.is_complex)):
        dtype = None

    def there(x: Tensor) -> Tensor:
        same = wrap(Tensor, x._handle, x._kernels, x.dtype, None)
        return same if device is None and dtype is None else same.to(device, dtype)

    new = there(x)
    if new._handle is x._handle:
        return []
    changes: list[tuple[Any, str, Any]] = [(x, name, getattr(new, name)) for name in ("_handle", "_kernels", "dtype")]
    changes += [(x, name, None) for name in ("_storage", "_origin")]
    if isinstance(x._record, Leaf):
        leaf = Leaf(x)
        leaf.kernels, leaf.hooks = new._kernels, x._record.hooks
        changes += [(x, "_record", leaf), (x, "_grad", None if x.grad is None else there(x.grad))]
    return changes


def items_of(value: Any) -> Iterator[tuple[str, Any]] | None:
    """What a module, or a collection of modules and tensors, holds by name."""
    if isinstance(value, Module):
        # its own tensors come first
        return iter(sorted(value._contents(), key=lambda entry: not isinstance(entry[1], Tensor)))
    if isinstance(value, dict):
        return ((str(key), item) for key, item in value.items())
    return ((str(i), item) for i, item in enumerate(value)) if isinstance(value, (list, tuple)) else None


class Sequential(Module):
    """Modules applied one after the other.

    Parameters
    ----------
    *layers : Module
        Each takes what the one before gives.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> from micrograd_core import nn
    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> model(mg.ones((2, 3))).shape
    (2, 1)
    """

    def __init__(self, *layers: Module) -> None:
        self.layers = list(layers)

    def _contents(self) -> list[tuple[str, Any]]:
        """The layers by their numbers, as in PyTorch, and what else there is."""
        numbered = [(str(i), layer) for i, layer in enumerate(self.layers)]
        return numbered + [(name, value) for name, value in vars(self).items() if name != "layers"]

    def forward(self, x: Any) -> Tensor:
        """Call one module after the other.

        Parameters
        ----------
        x : Tensor, or what the first module takes
            The input of the first.

        Returns
        -------
        Tensor
            The result of the last.
        """
        for layer in self.layers:
            x = layer(x)
        return x  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self.layers)

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> Module:
        """One layer; of a slice, a `Sequential` of the same layers."""
        found = self.layers[index]
        return Sequential(*found) if isinstance(found, list) else found

    def __iter__(self) -> Iterator[Module]:
        return iter(self.layers)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.layers))})"


class Identity(Module):
    """A module that returns its input.

    Parameters
    ----------
    *args, **kwargs
        Ignored, so that it can stand in the place of another module.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> mg.nn.Identity()(mg.ones(2))
    Tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is kept."""

    if TYPE_CHECKING:

        def __call__(self, x: T) -> T:
            """Return the argument."""

    def forward(self, x: Any) -> Any:
        """Return the argument.

        Parameters
        ----------
        x
            Any object.

        Returns
        -------
        The same object
        """
        return x


class Flatten(Module):
    """Merges several axes into one; by default all but that of the batch.

    Parameters
    ----------
    start, end : int
        The first and the last axis to merge.
    start_dim, end_dim : int, optional
        PyTorch's names of the two.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((2, 3, 4))
    >>> y = mg.nn.Flatten()(x)
    >>> y.shape
    (2, 12)
    """

    def __init__(
        self, start: int = 1, end: int = -1, *, start_dim: int | None = None, end_dim: int | None = None
    ) -> None:
        self.start = start if start_dim is None else start_dim
        self.end = end if end_dim is None else end_dim

    def forward(self, x: Tensor) -> Tensor:
        """Merge the axes from `start` to `end`.

        Parameters
        ----------
        x : Tensor, (batch, ...)
            Of any dtype.

        Returns
        -------
        Tensor, (batch, elements)
            A view where it can be.

        Raises
        ------
        ShapeError
            When the last axis lies before the first.
        AxisError
            When the tensor has no such axis.
        """
        start, end = (resolve_axis("Flatten", axis, x.ndim) for axis in (self.start, self.end))
        if end < start:
            raise ShapeError(f"Flatten: axis {self.end} lies before axis {self.start} in shape {x.shape}")
        return x.flatten(start, end)


class Unflatten(Module):
    """Splits one axis into several.

    Parameters
    ----------
    dim : int
        The axis.
    unflattened_size : iterable of int
        The lengths; one of them may be -1, for what is left.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((2, 4))
    >>> y = mg.nn.Unflatten(1, (2, -1))(x)
    >>> y.shape
    (2, 2, 2)
    """

    def __init__(self, dim: int, unflattened_size: Iterable[int]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, x: Tensor) -> Tensor:
        """Split the axis `dim`.

        Parameters
        ----------
        x : Tensor
            Of any shape with that axis, and any dtype.

        Returns
        -------
        Tensor
            A view where it can be.

        Raises
        ------
        AxisError, ShapeError
            When there is no such axis, or the lengths do not make up its own.
        """
        return x.unflatten(resolve_axis("Unflatten", self.dim, x.ndim), self.unflattened_size)

    def facts(self) -> str:
        """The axis, and its lengths."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


__all__ = ["Flatten", "Identity", "Module", "Sequential", "Unflatten"]
