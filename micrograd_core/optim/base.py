"""Optimisers. Each update rule is a function of handles against a kernel table ``k``, as gradient rules are.

A device may have a kernel that does the same to many parameters at once (`Optimizer.together`): it is asked for by
name, takes lists of handles, and returns lists of them. Parameters are never written in place, since graphs may hold
them; what the rule keeps between steps is its own, and the kernel may write it in place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import MISSING, InitVar, dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform

from micrograd_core.array.tensor import Tensor, asarray, is_frozen
from micrograd_core.dtypes import REAL_OF, float32, weak
from micrograd_core.engine.array import wrap
from micrograd_core.errors import GraphError, ShapeError
from micrograd_core.interpreters.host import DeviceNumber
from micrograd_core.ops.record import Handle, Table
from micrograd_core.support.atomic import assign_all
from micrograd_core.support.context import programs
from micrograd_core.support.states import check_state
from micrograd_core.support.warning import warn

Parameters = Iterable[Tensor | Mapping[str, Any]]
R = TypeVar("R")


class Optimizer:
    """Steps parameters along their gradients.

    Parameters
    ----------
    params : iterable of Tensor, or of dicts
        Leaves that require gradients. Each dict is a group: its ``params``, and the hyperparameters that differ from
        those of the other groups: ``[{"params": body}, {"params": head, "lr": 0.01}]``.
    lr : float
        The learning rate.
    maximize : bool, default False
        Whether parameters go up their gradients.
    **settings
        The hyperparameters of the subclass.

    Raises
    ------
    ValueError
        For no parameters, or a hyperparameter out of range.
    GraphError
        For a tensor that has no gradient of its own.

    Notes
    -----
    Copy or pickle a model and its optimiser together, so that they still share the parameters:
    ``copy.deepcopy((model, rule))``.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([1.0, -2.0])
    >>> rule = mg.optim.SGD([{"params": [x], "lr": 0.5}], lr=0.1)
    >>> x.sum().backward()
    >>> rule.step()
    >>> x.tolist()
    [0.5, -2.5]
    """

    changing: ClassVar[tuple[str, ...]] = ("lr", "state")
    """Attributes that may change at each step, also in a function under `jit`."""
    together: ClassVar[str] = ""
    """The name of the kernel that steps many parameters at once."""
    maximize: bool = False
    """Whether parameters go up their gradients."""
    begins: ClassVar[float | str | None] = None
    """The number that all it keeps begins with, or the hyperparameter that says it: then a program can leave out the
    first step, too. A class with an `update` of its own says it anew."""
    scalars: ClassVar[tuple[str, ...]] = ()
    """Names in `kept` of single numbers, of shape ()."""
    kept: ClassVar[tuple[str, ...]] = ()
    """Names of what is kept for each parameter: ``"step"``, the number of its steps, and arrays of its shape."""
    weight_decay: float = 0.0
    """The decay that `update` finds done: in the gradient, or in the parameter where it is decoupled."""
    decoupled_weight_decay: bool = False

    lr: float
    """The learning rate; of several groups, that which was set last for all."""
    betas: tuple[float, float]
    eps: float
    momentum: float
    _given: tuple[tuple[Any, ...], dict[str, Any]] = (), {}

    def __init_subclass__(cls) -> None:
        if "update" in vars(cls):
            cls.begins = vars(cls).get("begins")

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Keeps what it is made with, for further groups."""
        self = object.__new__(cls)
        vars(self)["_given"] = args[1:], {name: x for name, x in kwargs.items() if name != "params"}
        return self

    def __init__(self, params: Parameters, lr: float, *, maximize: bool = False, **settings: Any) -> None:
        name = type(self).__name__
        if isinstance(params, (Tensor, Mapping)):
            raise TypeError(f"{name} takes a list of tensors, or of groups; write [x] for a single one")
        if not isinstance(params, Iterable):
            model = getattr(params, "tensors", getattr(params, "parameters", None))
            way = f"model.{model.__name__}()" if callable(model) else "[x, ...], or model.parameters()"
            way = f"{params.__name__}()" if callable(params) and not callable(model) else way
            raise TypeError(f"{name} takes parameters, not {type(params).__name__}: write {name}({way})")
        given: list[Any] = list(params)
        if not given:
            raise ValueError(f"{name} got no parameters to optimise")
        self.groups: list[Optimizer] = []
        """An optimiser for each group of parameters, with its own hyperparameters; empty where there is one group."""
        if all(isinstance(each, dict) for each in given):
            self.groups, given = [self._group(each) for each in given], []
        self._own: list[Tensor] = given
        for p in self._own:
            if isinstance(p, Tensor) and p.is_leaf and (p.requires_grad or is_frozen(p)):
                continue
            way = ""
            if isinstance(p, tuple):
                way = ". Use model.parameters()"
            elif not isinstance(p, Tensor) and hasattr(p, "backward"):
                way = ". Use model.tensors()"
            raise GraphError(f"{name} optimises tensors that require gradients and were not computed; got {p!r}{way}")
        self._check_once(self.params)
        settings = {name: self._checked(name, x) for name, x in {"lr": lr, **settings}.items()}
        vars(self).update(maximize=bool(maximize), **settings)
        self.state = self._blank()
        """What the rule keeps between steps for each parameter, as handles and numbers."""
        self._together = self._kernels_together()

    # groups

    @property
    def params(self) -> list[Tensor]:
        """The parameters of all groups, as a list of Tensor."""
        return [*self._own, *(p for rule in self.groups for p in rule._own)]

    @property
    def parts(self) -> Sequence[Optimizer]:
        """The optimisers that move the parameters, as a list or tuple of Optimizer: one for each group, or this one."""
        return self.groups or (self,)

    @property
    def param_groups(self) -> list[ParameterGroup]:
        """Each group as a dict of its ``params`` and its hyperparameters, which can be set: ``group["lr"] = 0.1``."""
        return [ParameterGroup(rule) for rule in self.parts]

    @property
    def defaults(self) -> dict[str, Any]:
        """The hyperparameters that groups have unless they say otherwise, as a dict of str to their values."""
        return {name: getattr(self, name) for name in hyperparameters(type(self))}

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Optimise more parameters.

        Parameters
        ----------
        group : dict
            ``params``, a list of tensors, and hyperparameters; the others are those that the optimiser was made with.

        Raises
        ------
        TypeError, ValueError, GraphError
            As when an optimiser is made; nothing is added then.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> rule = mg.optim.SGD([mg.Tensor([1.0])], lr=0.1)
        >>> rule.add_param_group({"params": [mg.Tensor([2.0])], "lr": 0.01})
        >>> [group["lr"] for group in rule.param_groups]
        [0.1, 0.01]
        """
        new = self._group(group)
        self._check_once([*self.params, *new.params])
        groups = self.groups
        if not groups:
            first: Optimizer = object.__new__(type(self))
            vars(first).update(vars(self), groups=[])
            groups = [first]
        assign_all([(self, "_own", []), (self, "state", []), (self, "groups", [*groups, new])])

    def _group(self, group: Any) -> Self:
        """A rule of the same kind, with other hyperparameters where the group has them."""
        name = type(self).__name__
        if not isinstance(group, Mapping) or "params" not in group:
            raise TypeError(f"{name}: a group is a dict with 'params'; got {group!r}")
        known = hyperparameters(type(self))
        unknown = [key for key in group if key not in ("params", *known)]
        if unknown:
            raise TypeError(f"{name}: a group has params, {', '.join(known)}; got {', '.join(map(repr, unknown))}")
        args, kwargs = self._given
        own = {key: value for key, value in group.items() if key != "params"}
        params = group["params"]
        return type(self)([params] if isinstance(params, Tensor) else params, **{
            **dict(zip(known, args, strict=False)), **kwargs, **own
        })  # fmt: skip

    def _check_once(self, params: list[Tensor]) -> None:
        if len(set(map(id, params))) != len(params):
            raise ValueError(f"{type(self).__name__} got the same parameter twice")

    def _blank(self) -> list[dict[str, Any]]:
        """What is kept before the first step: where each parameter was, and of which dtype."""
        return [{"device": p.device, "dtype": p.dtype} for p in self._own]

    def _kernels_together(self) -> frozenset[Any]:
        """Devices that have a kernel; which is not kept here: it leads to all that the device keeps."""
        devices = {p._kernels for p in self._own} if self.together else set()
        return frozenset(k for k in devices if k.backend.kernel(self.together) is not None)

    def __getstate__(self) -> dict[str, Any]:
        """Handles as tensors, which know how to be copied and pickled; kernels are looked up anew."""
        state = [_replaced(each, partial(_shown, each["device"].kernels)) for each in self.state]
        return {**{name: x for name, x in vars(self).items() if name != "_together"}, "state": state}

    def __setstate__(self, found: dict[str, Any]) -> None:
        vars(self).update(found)
        self.state = [_replaced(each, _hidden) for each in self.state]
        self._together = self._kernels_together()

    def __setattr__(self, name: str, value: Any) -> None:
        """Hyperparameters may be set at any time, for all groups at once, and are kept as Python's numbers."""
        super().__setattr__(name, _weak(value))
        if vars(self).get("groups") and name not in ("groups", "state", "_own", "_together", "initial_lr"):
            for rule in self.groups:
                setattr(rule, name, value)

    def _checked(self, name: str, value: Any) -> Any:
        """A setting as Python's numbers: a flag, two decays of running means, one, or a number that is not negative."""
        found = _weak(value)
        if found is True or found is False:
            return found
        if name == "betas":
            if not isinstance(value, (tuple, list)) or len(value) != 2 or not all(0 <= beta < 1 for beta in value):
                raise ValueError(f"{type(self).__name__}: {name} must be two numbers in [0, 1); got {value}")
            return _weak(tuple(value))
        below = 1 if name in ("alpha", "rho") else math.inf
        if not isinstance(found, (int, float)) or not 0 <= found < below:
            limit = "" if below == math.inf else f", and less than {below}"
            raise ValueError(f"{type(self).__name__}: {name} must be a number, not negative{limit}; got {value!r}")
        return found

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient. Graphs recorded before keep the old numbers.

        An interrupt or a lack of memory leaves each parameter and its state either as they were before the step or as
        they are after it; the next step continues from there. A device's kernel for many parameters moves all of them
        or none, but may have written their states already (as on cuda).

        Parameters
        ----------
        closure : callable, optional
            Computes the loss and its gradients; called before the parameters move.

        Returns
        -------
        Any
            What the closure returned, or ``None``.

        Raises
        ------
        GraphError
            When a parameter has changed its device or dtype since the optimiser was made; nothing is moved.

        Warns
        -----
        RuntimeWarning
            When no parameter has a gradient.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Tensor([1.0])
        >>> rule = mg.optim.SGD([x], lr=0.5)
        >>> x.sum().backward()
        >>> rule.step()
        >>> x.tolist()
        [0.5]
        """
        for rule in self.parts:
            rule._check_places()
        loss = None if closure is None else closure()
        if all(p._record is None or p._grad is None for p in self.params):
            warn(
                f"{type(self).__name__}.step() moves nothing: no parameter has a gradient. Call loss.backward() before"
            )
        for rule in self.parts:
            rule._move()
        return loss

    def _check_places(self) -> None:
        for p, state in zip(self._own, self.state, strict=True):
            if state["device"] is not p.device or state["dtype"] is not p.dtype:
                raise GraphError(
                    f"{type(self).__name__}: a parameter was {state['dtype']} on {state['device']}, and is now "
                    f"{p.dtype} on {p.device}; make the optimiser after moving or converting the network"
                )

    def _move(self) -> None:
        """Move the parameters of one group."""
        groups: dict[Any, list[Any]] = {}
        for i, (p, state) in enumerate(zip(self._own, self.state, strict=True)):
            if p.grad is None:
                continue
            if p._kernels in self._together and p.dtype.kind == "real floating":
                new = state.copy()
                if "counted" in state:
                    new["step"] = steps_of(p._kernels, new)
                phase = new.get("step"), *[name in state for name in self.kept]
                groups.setdefault((p._kernels, p.dtype, phase), []).append((i, p, self._way(p), new))
            else:
                self._move_one(i)
        for (k, _, _), group in groups.items():
            places, tensors, grads, kept = (list(column) for column in zip(*group, strict=True))
            moved = self.update_together(k.backend.kernel(self.together), [p._handle for p in tensors], grads, kept)
            states = self.state.copy()
            for i, new in zip(places, kept, strict=True):
                states[i] = new
            changes: list[Any] = [(self, "state", states)]
            for p, handle in zip(tensors, moved, strict=True):
                changes += [(p, "_handle", handle), (p, "_storage", None)]
            assign_all(changes)

    def _way(self, p: Tensor) -> Any:
        """The gradient, or where parameters go up its negative."""
        g: Any = p.grad
        return p._kernels.negative(g._handle) if self.maximize else g._handle

    def _move_one(self, i: int) -> None:
        """Move a parameter that has a gradient."""
        p, new = self._own[i], self.state[i].copy()
        update = self._update_parts if p.dtype.is_complex else self._updated
        update = self._update_wide if p.dtype.itemsize == 2 else update
        handle = update(p._kernels, p._handle, self._way(p), new)
        p._handle, p._storage, self.state[i] = handle, None, new  # one line: no interrupt comes in between

    def update(self, k: Table, p: Handle, g: Handle, state: dict[str, Any]) -> Handle:
        """Compute a new parameter; each subclass defines its own.

        Parameters
        ----------
        k : Table
            The kernels of the parameter's device.
        p, g : Handle
            The parameter and its gradient, of one shape and dtype.
        state : dict
            A copy of what the rule keeps for this parameter; `update` writes the new entries into it.

        Returns
        -------
        Handle
            The new parameter, of the same shape and dtype.

        Raises
        ------
        NotImplementedError
            When the subclass does not define it.
        """
        raise NotImplementedError

    def _updated(self, k: Table, p: Handle, g: Handle, state: dict[str, Any]) -> Handle:
        """`update`, with the step counted and the weight decayed before it."""
        if "step" in self.kept:
            state["step"] = steps_of(k, state) + 1
        if self.weight_decay and self.decoupled_weight_decay:
            p = k.multiply(p, self.shrink)
        elif self.weight_decay:
            g = k.add(g, k.multiply(p, self.weight_decay))
        moved = self.update(k, p, g, state)
        if state.get("step").__class__ is DeviceNumber:
            state["counted"] = state.pop("step").handle
        return moved

    @property
    def shrink(self) -> float:
        """The factor of a parameter that a decoupled decay leaves before the gradient moves it, as a float."""
        return 1 - self.lr * self.weight_decay

    def _update_parts(self, k: Table, p: Handle, g: Handle, state: dict[str, Any]) -> Handle:
        """`_updated` for complex numbers: real and imaginary parts are parameters of their own."""
        parts = state["parts"] = {name: own.copy() for name, own in _parts(state, True).items()}
        both = zip((k.real, k.imag), parts.values(), strict=True)
        return k.complex(*(self._updated(k, part(p), part(g), own) for part, own in both))

    def _update_wide(self, k: Table, p: Handle, g: Handle, state: dict[str, Any]) -> Handle:
        """`_updated` of half precision in float32, as what is kept is: a running mean would stand still."""
        moved = self._updated(k, k.astype(p, dtype=float32), k.astype(g, dtype=float32), state)
        return k.astype(moved, dtype=k.dtype(p))

    def update_together(self, kernel: Any, params: list[Any], grads: list[Any], states: list[Any]) -> list[Any]:
        """Compute new parameters of one device, dtype and number of steps, by the device's kernel `together`.

        Parameters
        ----------
        kernel : function
            Takes lists: parameters, gradients, and what is `kept` of each (``None`` before the first step).
        params, grads : list of Handle
            The parameters and their gradients.
        states : list of dict
            Copies of what the rule keeps for each parameter; the new entries are written into them.

        Returns
        -------
        list of Handle
            The new parameters.
        """
        step = states[0].get("step", 0) + 1
        names = [name for name in self.kept if name != "step"]
        kept = [[state.get(name) for state in states] for name in names]
        moved, *columns = kernel(params, grads, *kept, **self.settings_at(step))
        if "step" in self.kept:
            names, columns = [*names, "step"], [*columns, [step] * len(states)]
        for name, column in zip(names, columns, strict=True):
            for state, x in zip(states, column, strict=True):
                if name in self.keeps():
                    state[name] = x
        return moved  # type: ignore[no-any-return]

    def settings_at(self, step: int) -> dict[str, Any]:
        """What the kernel `together` takes by keyword at a step; subclasses that have such a kernel define it.

        Parameters
        ----------
        step : int
            The number of the step, 1 for the first.

        Returns
        -------
        dict of str to number

        Raises
        ------
        NotImplementedError
            When the subclass does not define it.
        """
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients. An interrupt may leave some of them; call it again.

        Parameters
        ----------
        set_to_none : bool, default True
            Whether ``.grad`` becomes ``None``, rather than zeros.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Tensor([1.0])
        >>> x.sum().backward()
        >>> mg.optim.SGD([x], lr=0.5).zero_grad()
        >>> x.grad is None
        True
        """
        for p in self.params:
            p.grad = None if set_to_none or p.grad is None else p.grad * 0

    def state_dict(self) -> dict[str, Tensor]:
        """Copy what the rule keeps between steps; hyperparameters are not part of it.

        Returns
        -------
        dict of str to Tensor
            By position of the parameter and name: ``"0.m"``, ``"0.step"``. A parameter without a step has no entries;
            where `GradScaler` left steps out under `jit`, it has what the rule begins with.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> x = mg.Tensor([1.0])
        >>> rule = mg.optim.Adam([x])
        >>> x.sum().backward()
        >>> rule.step()
        >>> sorted(rule.state_dict())
        ['0.m', '0.step', '0.v']
        """
        found: dict[str, Tensor] = {}
        for rule, p, own, prefix in self._kept([rule.state for rule in self.parts]):
            for name in rule.keeps():
                x = own.get(name)
                if name == "step" and not own.keys().isdisjoint(("step", "counted")):
                    found[prefix + name] = asarray(steps_of(p._kernels, own.copy()), dtype=float32, device=p.device)
                elif x is not None:
                    found[prefix + name] = wrap(Tensor, x, p._kernels, p._kernels.dtype(x), None).copy()
        return found

    def _kept(self, states: list[list[dict[str, Any]]]) -> Iterator[tuple[Optimizer, Tensor, dict[str, Any], str]]:
        """Each parameter, or part of a complex one, with its rule, its own of the states, and their prefix."""
        rules = [rule for rule in self.parts for _ in rule._own]
        for i, (rule, p, state) in enumerate(zip(rules, self.params, itertools.chain(*states), strict=True)):
            for part, own in _parts(state, p.dtype.is_complex).items():
                yield rule, p, own, f"{i}.{part}"

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the ``state_dict()`` of an optimiser of the same kind.

        Parameters
        ----------
        state : mapping of str to Tensor or array
            For parameters of the same shapes.

        Raises
        ------
        ShapeError
            When names or shapes differ: all differences are listed. Nothing is loaded then, nor after an interrupt.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> first, second = (mg.optim.Adam([mg.Tensor([1.0])]) for _ in range(2))
        >>> second.load_state_dict(first.state_dict())
        """
        check_state(f"{type(self).__name__}.load_state_dict", state)
        loaded = [rule._blank() for rule in self.parts]
        faults: list[str] = []
        unknown = dict.fromkeys(state)
        for rule, p, own, prefix in self._kept(loaded):
            given = [name for name in rule.keeps() if prefix + name in state]
            faults += [f"{prefix + name!r} is missing" for name in rule.keeps() if given and name not in given]
            for name in given:
                full = prefix + name
                unknown.pop(full)
                if name == "step":
                    own[name] = int(state[full])
                    continue
                dtype = float32 if p.dtype.itemsize == 2 else REAL_OF.get(p.dtype, p.dtype)
                x = asarray(state[full], dtype=dtype, device=p.device, copy=True)
                own[name] = x._handle
                wanted = () if name in rule.scalars else p.shape
                faults += [f"{full!r} has shape {x.shape}, not {wanted}"] * (x.shape != wanted)
        faults += [f"{name!r} is nothing that this {type(self).__name__} keeps" for name in unknown]
        if faults:
            raise ShapeError(f"load_state_dict: {'; '.join(faults)}")
        assign_all([(rule, "state", new) for rule, new in zip(self.parts, loaded, strict=True)])

    def keeps(self) -> tuple[str, ...]:
        """The names in `kept` that these settings need.

        Returns
        -------
        tuple of str
        """
        return self.kept


def setting(*, default: Any = MISSING, init: bool = True, kw_only: bool = False, alias: str = "") -> Any:
    """A hyperparameter that is not just a default; type checkers read what is said of it, also the `alias`."""
    return field(default=default, init=init, kw_only=kw_only)


@dataclass_transform(eq_default=False, field_specifiers=(setting,))
def rule(kind: type[R]) -> type[R]:
    """A class of optimisers whose fields are hyperparameters."""
    return dataclass(eq=False, repr=False)(kind)


@rule
class Rule(Optimizer):
    """An optimiser whose hyperparameters are the fields of its class."""

    if TYPE_CHECKING:
        _params: InitVar[Parameters] = setting(alias="params")
    else:
        params: InitVar[Parameters] = setting()
    lr: float
    maximize: bool = setting(default=False, kw_only=True)

    def __post_init__(self, params: Parameters) -> None:
        Optimizer.__init__(self, params, **{each.name: getattr(self, each.name) for each in fields(self)})


class ParameterGroup(MutableMapping[str, Any]):
    """A group of parameters as a dict; setting an entry sets the hyperparameter."""

    def __init__(self, rule: Optimizer) -> None:
        self.rule = rule

    def __getitem__(self, key: str) -> Any:
        if key not in [*self]:
            raise KeyError(key)
        return self.rule.params if key == "params" else getattr(self.rule, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "params" or key not in [*self]:
            raise KeyError(f"{key!r} is no hyperparameter of {type(self.rule).__name__}")
        setattr(self.rule, key, value)

    def __delitem__(self, key: str) -> None:
        raise TypeError("a hyperparameter cannot be deleted; set it")

    def __iter__(self) -> Iterator[str]:
        return iter(["params", *hyperparameters(type(self.rule))])

    def __len__(self) -> int:
        return 1 + len(hyperparameters(type(self.rule)))

    def __repr__(self) -> str:
        return repr({**self, "params": f"{len(self.rule.params)} tensors"})


def hyperparameters(kind: type[Optimizer]) -> list[str]:
    """The names of an optimiser's hyperparameters, from the signature of its class."""
    from inspect import signature

    return list(signature(kind.__init__).parameters)[2:]


def at_once(k: Any, compose: Callable[..., Any], x: Handle, least: int) -> Callable[..., Any]:
    """Find what computes a composition in one pass over memory: the device's kernel ``fused``, where `x` is large.

    Parameters
    ----------
    k : Kernels
        The kernels of the device.
    compose : function
        ``(k, *operands)`` → a handle or a tuple of them: a function of a module, by which compiled code is kept.
    x : Handle
        Its first operand.
    least : int
        Elements of `x` from which on one pass is worth a call of compiled code.

    Returns
    -------
    function
        Of the same arguments: the composition itself, or what hands its numbers, but no bools, over as handles, since
        they may change at each call, and nothing shall be compiled anew then.
    """
    if math.prod(x.shape) < least or (fused := k.backend.kernel("fused")) is None:
        return compose

    def computed(k: Any, *operands: Any) -> Any:
        given = [k.full(shape=(), fill_value=n, dtype=k.dtype(x)) if type(n) in (int, float) else n for n in operands]
        found = fused(compose)(*given)
        return compose(k, *operands) if found is NotImplemented else found

    return computed


def steps_of(k: Any, state: dict[str, Any]) -> Any:
    """How many steps there were, as a number: what a program has ``"counted"`` on the device is taken out, and read.

    Parameters
    ----------
    k : Kernels
        The kernels of the device.
    state : dict
        What is kept for a parameter.

    Returns
    -------
    int, or in a function under `jit` a HostNumber or a DeviceNumber
    """
    counted = state.pop("counted", None)
    if counted is None:
        return state.get("step", 0)
    return DeviceNumber(k, counted) if programs.get() is not None else round(_shown(k, counted).item())


def averaged(k: Table, old: Any, new: Handle, decay: float) -> Handle:
    """A running mean, from 0 before the first step."""
    new = k.multiply(new, 1 - decay)
    return new if old is None else k.add(k.multiply(old, decay), new)


def _parts(state: dict[str, Any], is_complex: bool) -> dict[str, dict[str, Any]]:
    """The states of a parameter by prefix: one, or for a complex parameter those of its real and imaginary part."""
    return state.setdefault("parts", {"real.": {}, "imag.": {}}) if is_complex else {"": state}


def _replaced(state: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """A state with each value changed, also in the states of parts."""
    return {name: _replaced(x, change) if isinstance(x, dict) else change(x) for name, x in state.items()}


def _shown(kernels: Any, x: Any) -> Any:
    """A handle as a tensor; anything else as it is."""
    return wrap(Tensor, x, kernels, kernels.dtype(x), None) if hasattr(x, "shape") else x


def _hidden(x: Any) -> Any:
    """A tensor as its handle; anything else as it is."""
    return x._handle if isinstance(x, Tensor) else x


def _weak(value: Any) -> Any:
    """A scalar of NumPy (also in a tuple) as a Python number: its dtype would become that of the parameters."""
    return tuple(map(weak, value)) if isinstance(value, tuple) else weak(value)
