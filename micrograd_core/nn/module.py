"""`Module`, what all layers and networks are; and those that only arrange others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, Self, TypeVar, overload

from micrograd_core.array.tensor import Tensor, asarray, is_frozen
from micrograd_core.device import Device, destination
from micrograd_core.dtypes import DType
from micrograd_core.engine.array import storage, wrap
from micrograd_core.engine.graph import Leaf
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


class ModuleHook:
    """A function that runs when a module is called, until `remove`; as a context, until its end."""

    def __init__(self, module: Module, when: str, hook: Callable[..., Any]) -> None:
        hooks = getattr(module, when) or {}
        setattr(module, when, hooks)
        self._hooks = hooks
        hooks[self] = hook

    def remove(self) -> None:
        """From now on the function is not called. Removing it twice is no error."""
        self._hooks.pop(self, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


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
        """What calling the module computes."""
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
        stack: list[tuple[Any, str, Iterator[tuple[str, Any]]]] = [(self, "", _items(self) or iter(()))]
        while stack:
            owner, path, contents = stack[-1]
            entry = next(contents, None)
            if entry is None:
                stack.pop()
                if every_name:
                    seen.discard(id(owner))  # what is left are those around the next one: nothing is inside itself
                continue
            name, value = f"{path}{entry[0]}", entry[1]
            items = _items(value)
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
        """The module itself, named ``""``, and all below it, such as ``"layers.0"``; each comes once."""
        return Members((name, value) for name, value in self._walk() if isinstance(value, Module))

    def modules(self) -> Members[Module]:
        """The module itself, and all below it."""
        return Members(module for _, module in self.named_modules())

    def named_children(self) -> Members[tuple[str, Module]]:
        """The modules among the attributes, by name."""
        return Members((name, value) for name, value in self._contents() if isinstance(value, Module))

    def children(self) -> Members[Module]:
        """The modules among the attributes."""
        return Members(module for _, module in self.named_children())

    def named_tensors(self, recurse: bool = True) -> Members[tuple[str, Tensor]]:
        """Parameters and buffers with their dotted names, such as ``"layers.0.weight"``."""
        found = self._walk() if recurse else self._contents()
        return Members((name, x) for name, x in found if isinstance(x, Tensor) and x.is_leaf)

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Members[tuple[str, Tensor]]:
        """What is optimised, each name after `prefix` and a dot; with `recurse` also that of modules inside."""
        begin = f"{prefix}." if prefix else ""
        return Members((begin + name, p) for name, p in self.named_tensors(recurse) if is_parameter(p))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Members[tuple[str, Tensor]]:
        """Those that do not."""
        begin = f"{prefix}." if prefix else ""
        return Members((begin + name, p) for name, p in self.named_tensors(recurse) if not is_parameter(p))

    def parameters(self, recurse: bool = True) -> Members[Tensor]:
        """The tensors to optimise."""
        return Members(p for _, p in self.named_parameters(recurse=recurse))

    def buffers(self, recurse: bool = True) -> Members[Tensor]:
        """The tensors that are kept beside them, such as running means."""
        return Members(p for _, p in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Any:
        """The module with a dotted name, such as ``"layers.0"``.

        Raises
        ------
        AttributeError
            When there is none.
        """
        return self._found(target, Module, "module")

    def get_parameter(self, target: str) -> Any:
        """The parameter with a dotted name, such as ``"layers.0.weight"``.

        Raises
        ------
        AttributeError
            When there is none.
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
        tensor : Tensor or None
        persistent : bool
            Whether `state_dict` has it.
        """
        setattr(self, name, None if tensor is None else tensor.detach())
        self._unsaved = self._unsaved - {name} if persistent else self._unsaved | {name}

    def register_parameter(self, name: str, param: Tensor | None) -> None:
        """``setattr(module, name, param)``."""
        setattr(self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """``setattr(module, name, other)``."""
        setattr(self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """`add_module`."""
        setattr(self, name, module)

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> ModuleHook:
        """Call ``hook(module, args)`` before each `forward`; what it returns, unless ``None``, is the arguments.

        Returns
        -------
        ModuleHook
            With a method `remove`; as a context it removes the hook at its end.
        """
        return ModuleHook(self, "_before", hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> ModuleHook:
        """Call ``hook(module, args, result)`` after each `forward`; what it returns, unless ``None``, is the result.

        Returns
        -------
        ModuleHook
            With a method `remove`; as a context it removes the hook at its end.
        """
        return ModuleHook(self, "_after", hook)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set ``requires_grad`` of all parameters."""
        for p in self.parameters():
            p.requires_grad = requires_grad
        return self

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call a function with every module below this one, and with this one last."""
        for module in reversed([module for _, module in self.named_modules()]):
            function(module)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set `training` here and in all modules below."""
        for _, module in self.named_modules():
            module.training = bool(mode)
        return self

    def eval(self) -> Self:
        """The opposite of `train`."""
        return self.train(False)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters; without `set_to_none` they become zeros."""
        for p in self.parameters():
            p.grad = None if set_to_none or p.grad is None else p.grad * 0

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of parameters and buffers by name, outside the graph. Writing into one raises GraphError: `clone` it.

        A tensor that is held twice, as tied weights are, has both names, and one copy.
        """
        own = self._every_tensor()
        copies = {id(p): _saved(p) for p in own.values()}
        return {name: copies[id(p)] for name, p in own.items()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Replace the numbers of all parameters and buffers by those in `state` (tensors or arrays).

        Of a tensor that has several names, one is enough; of several, the last counts.

        Parameters
        ----------
        state : mapping from names to arrays
        strict : bool
            Whether the names must be those of this module. If not, what both have is loaded.

        Returns
        -------
        IncompatibleKeys
            ``missing_keys`` and ``unexpected_keys``; empty lists if `strict`.

        Raises
        ------
        ShapeError
            When shapes differ, or names do and `strict` is true; all differences are listed and nothing is loaded.
        """
        check_state(f"{type(self).__name__}.load_state_dict", state)
        own = self._every_tensor()
        given = {id(own[name]) for name in state if name in own}
        missing = [name for name, p in own.items() if name not in state and id(p) not in given]
        unexpected = [name for name in state if name not in own]
        loaded = {
            name: asarray(state[name], dtype=own[name].dtype, device=own[name].device, copy=True)
            for name in state
            if name in own
        }
        faults = [f"{name!r} is missing" for name in missing] if strict else []
        if strict:
            faults += [f"{name!r} is not a parameter or buffer of this {type(self).__name__}" for name in unexpected]
        ways = "; load_state_dict(state, strict=False) loads what both have" if faults else ""
        faults += [
            f"{name!r} has shape {x.shape}, not {own[name].shape}"
            for name, x in loaded.items()
            if x.shape != own[name].shape
        ]
        if faults:
            raise ShapeError(f"load_state_dict: {'; '.join(faults)}{ways}")
        changes: list[Any] = []
        for name, x in loaded.items():
            p = own[name]
            changes += [(p, "_handle", x._handle), (p, "_storage", None), (p, "_origin", None)]
        assign_all(changes)
        return IncompatibleKeys(missing, unexpected)

    def to(self, device: str | Device | DType | None = None, dtype: Any = None) -> Self:
        """Move parameters and buffers to another device, convert those with floating-point numbers, or both.

        They stay the same tensors, with their hooks and gradients; a graph that was recorded before no longer leads to
        them. Make optimisers afterwards. Integers keep their dtype, and complex numbers do where `dtype` is real. What
        fails or is interrupted has done nothing, or all of it.

        Raises
        ------
        DTypeError
            When `dtype` is not floating-point.
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
        """``to(dtype="float32")``."""
        return self.to(dtype="float32")

    def double(self) -> Self:
        """``to(dtype="float64")``."""
        return self.to(dtype="float64")

    def half(self) -> Self:
        """``to(dtype="float16")``."""
        return self.to(dtype="float16")

    def bfloat16(self) -> Self:
        """``to(dtype="bfloat16")``."""
        return self.to(dtype="bfloat16")

    def facts(self) -> str:
        """What `repr` tells beside the modules inside."""
        return ""

    def __repr__(self) -> str:
        inner = [f"{printable(name)}={value!r}" for name, value in vars(self).items() if isinstance(value, Module)]
        return f"{type(self).__name__}({', '.join(filter(None, [self.facts(), *inner]))})"

    def __str__(self) -> str:
        """The modules as a tree, each with how many numbers its parameters have, and its buffers."""
        rows, depths = [], {"": 0}
        for name, module in self._walk(every_name=True):
            if not isinstance(module, Module):
                continue
            above = name
            while above:  # to the module around it; between them are lists and dicts
                above = above.rpartition(".")[0]
                if above in depths:
                    break
            depths[name] = depths[above] + 1 if name else 0
            label = f"{printable(name[len(above) :].lstrip('.'))}: " if name else ""
            rows.append((f"{'  ' * depths[name]}{label}{module._line()}", *module._sizes()))
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


def _items(value: Any) -> Iterator[tuple[str, Any]] | None:
    """What a module, or a collection of modules and tensors, holds by name."""
    if isinstance(value, Module):
        own_tensors_first = sorted(value._contents(), key=lambda entry: not isinstance(entry[1], Tensor))
        return iter(own_tensors_first)
    if isinstance(value, dict):
        return ((str(key), item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ((str(i), item) for i, item in enumerate(value))
    return None


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
        """The input of the first, the result of the last."""
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
        """Anything."""
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
        """(batch, ...) to (batch, elements)."""
        start, end = (resolve_axis("Flatten", axis, x.ndim) for axis in (self.start, self.end))
        if end < start:
            raise ShapeError(f"Flatten: axis {self.end} lies before axis {self.start} in shape {x.shape}")
        return x.reshape((*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


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
        """Any shape with that axis."""
        axis = resolve_axis("Unflatten", self.dim, x.ndim)
        return x.reshape((*x.shape[:axis], *self.unflattened_size, *x.shape[axis + 1 :]))

    def facts(self) -> str:
        """The axis, and its lengths."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


__all__ = ["Flatten", "Identity", "Module", "Sequential", "Unflatten"]
