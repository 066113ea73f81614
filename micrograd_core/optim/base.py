"""Optimisers. Each update rule is a function of handles against a kernel table ``k``, as gradient rules are.

A device may have a kernel that does the same to many parameters at once (`Optimizer.together`): it is asked for by
name, takes lists of handles, and returns lists of them. Parameters are never written in place, since graphs may hold
them; what the rule keeps between steps is its own, and the kernel may write it in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.dtypes import REAL_OF, float32, weak
from micrograd_core.engine.array import wrap
from micrograd_core.errors import GraphError, ShapeError
from micrograd_core.ground.assignments import assign_all
from micrograd_core.ground.warning import unless_withheld

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table


Parameters = Iterable[Tensor | Mapping[str, Any]]


class Optimizer:
    """Steps parameters along their gradients.

    Parameters
    ----------
    params : iterable of Tensor, or of dicts
        Leaves that require gradients. Each dict is a group: its ``params``, and those hyperparameters that are not as
        the others: ``[{"params": body}, {"params": head, "lr": 0.01}]``.

    Raises
    ------
    ValueError
        For no parameters, or a hyperparameter out of range.
    GraphError
        For a tensor that has no gradient of its own.

    Notes
    -----
    What is copied or pickled together keeps its parameters in common: ``copy.deepcopy((model, rule))``.
    """

    changing: ClassVar[tuple[str, ...]] = ("lr", "state")
    """Attributes that may be others at each step, also in a function under `jit`."""
    together: ClassVar[str] = ""
    """The name of the kernel that steps many parameters at once."""
    maximize: bool = False
    """Whether parameters go up their gradients."""
    scalars: ClassVar[tuple[str, ...]] = ()
    """Of what is kept, that which is one number for each parameter."""
    spelled: ClassVar[dict[str, str]] = {}
    """Attributes of hyperparameters that are kept under another name."""

    lr: float
    """The learning rate; of several groups, that which was set last for all."""
    _given: tuple[tuple[Any, ...], dict[str, Any]] = (), {}

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Keeps what it is made with, for further groups."""
        self = object.__new__(cls)
        vars(self)["_given"] = args[1:], {name: x for name, x in kwargs.items() if name != "params"}
        return self

    def __init__(self, params: Parameters, lr: float, *, maximize: bool = False, **hyper: Any) -> None:
        if isinstance(params, Tensor):
            raise TypeError(f"{type(self).__name__} takes a list of tensors; write [x] for a single one")
        given: list[Any] = list(params)
        if not given:
            raise ValueError(f"{type(self).__name__} got no parameters to optimise")
        self.groups: list[Optimizer] = []
        """Rules for each group of parameters, with hyperparameters of their own; none where there is one group."""
        if all(isinstance(each, dict) for each in given):
            self.groups, given = [self._group(each) for each in given], []
        self._own: list[Tensor] = given
        for p in self._own:
            if not isinstance(p, Tensor) or not (p.requires_grad and p.is_leaf):
                raise GraphError(
                    f"{type(self).__name__} optimises tensors that require gradients and were not computed; got {p!r}"
                    + ("" if isinstance(p, Tensor) or not hasattr(p, "backward") else ". Use model.tensors()")
                )
        self._check_once(self.params)
        self._check(lr=lr, **hyper)
        vars(self).update(lr=_weak(lr), maximize=bool(maximize))
        self.state = self._blank()
        """Per parameter: what the rule keeps between steps, as handles and numbers."""
        self._together = self._kernels_together()

    # groups

    @property
    def params(self) -> list[Tensor]:
        """All parameters, those of all groups."""
        return [*self._own, *(p for rule in self.groups for p in rule._own)]

    @property
    def parts(self) -> Sequence[Optimizer]:
        """The rules that move the parameters: one for each group, or this one."""
        return self.groups or (self,)

    @property
    def param_groups(self) -> list[ParameterGroup]:
        """Each group as a dict of its ``params`` and its hyperparameters, which may be set there, as ``["lr"]``."""
        return [ParameterGroup(rule) for rule in self.parts]

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Optimise more parameters: ``{"params": [...], "lr": 0.01}``; what is not given is as when the rule was made.

        Raises
        ------
        TypeError, ValueError, GraphError
            As when a rule is made; nothing is added then.
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
        if "params" in found:  # as it was kept before there were groups
            found = {**found, "_own": found["params"], "groups": []}
            del found["params"]
        vars(self).update(found)
        self.state = [_replaced(each, _hidden) for each in self.state]
        self._together = self._kernels_together()

    def __setattr__(self, name: str, value: Any) -> None:
        """Hyperparameters may be set at any time, for all groups at once, and are kept as Python's numbers."""
        super().__setattr__(name, _weak(value))
        if vars(self).get("groups") and name not in ("groups", "state", "_own", "_together", "initial_lr"):
            for rule in self.groups:
                setattr(rule, name, value)

    def _check(self, below: float = math.inf, **hyper: Any) -> None:
        for name, value in hyper.items():
            if not isinstance(_weak(value), (int, float)) or not 0 <= value < below:
                limit = "" if below == math.inf else f", and less than {below}"
                raise ValueError(f"{type(self).__name__}: {name} must be a number, not negative{limit}; got {value!r}")

    def _two(self, betas: Any, name: str = "betas") -> tuple[float, float]:
        """Two decays of running means."""
        if not isinstance(betas, (tuple, list)) or len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"{type(self).__name__}: {name} must be two numbers in [0, 1); got {betas}")
        return betas[0], betas[1]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient. What was recorded with the old numbers keeps them.

        With a `closure`, which computes the loss and its gradients anew, that is called first, and its result returned.

        Whatever raises here, an interrupt or a lack of memory, finds each parameter and what is kept for it both as
        they were before the step, or both as they are after it; another step goes on from there. A device's own kernel
        for many parameters moves them all or none; what it keeps for them it may have written already (as on cuda).

        Raises
        ------
        GraphError
            When a parameter is on another device, or has another dtype, than when the optimiser was made; nothing is
            moved.
        """
        for rule in self.parts:
            rule._check_places()
        loss = None if closure is None else closure()
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
        """Step the parameters of one group."""
        groups: dict[Any, list[Any]] = {}
        for i, (p, state) in enumerate(zip(self._own, self.state, strict=True)):
            g = p.grad
            if g is None:
                continue
            new, way = state.copy(), g._handle
            if self.maximize:
                way = p._kernels.negative(way)
            if p._kernels in self._together and p.dtype.kind == "real floating":
                groups.setdefault((p._kernels, p.dtype, self.phase(state)), []).append((i, p, way, new))
            else:
                update = self._update_parts if p.dtype.is_complex else self.update
                try:
                    handle = update(p._kernels, p._handle, way, new)
                except TypeError as error:
                    new = state.copy()
                    handle = unless_withheld(error, update, (p._kernels, p._handle, way, new), {})
                p._handle, p._storage, self.state[i] = handle, None, new  # one line: no interrupt comes in between
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

    def update(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """The new parameter, from kernels, parameter, gradient, and a copy of its state that this is to update."""
        raise NotImplementedError

    def _update_parts(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """`update` for complex numbers: real and imaginary parts are parameters of their own."""
        parts = state["parts"] = {name: own.copy() for name, own in _parts(state, True).items()}
        both = zip((k.real, k.imag), parts.values(), strict=True)
        return k.complex(*(self.update(k, part(p), part(g), own) for part, own in both))

    def update_together(self, kernel: Any, params: list[Any], grads: list[Any], states: list[Any]) -> list[Any]:
        """The same for parameters of one device, dtype and `phase`, by the device's own kernel `together`."""
        raise NotImplementedError

    def phase(self, state: dict[str, Any]) -> Any:
        """What states must agree in to be stepped together."""
        return None

    def zero_grad(self) -> None:
        """Forget all gradients. After an interrupt some may be left; call it again."""
        for p in self.params:
            p.zero_grad()

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of what the rule keeps between steps, by position of the parameter and name: ``"0.m"``, ``"0.step"``.

        A parameter that was not stepped yet has nothing there. Hyperparameters are not part of it.
        """
        found: dict[str, Tensor] = {}
        for i, (rule, p, state) in enumerate(self._kept()):
            for part, own in _parts(state, p.dtype.is_complex).items():
                for name in rule.keeps():
                    x = own.get(name)
                    if name == "step" and x is not None:
                        found[f"{i}.{part}{name}"] = asarray(x, dtype=float32, device=p.device)
                    elif x is not None:
                        found[f"{i}.{part}{name}"] = wrap(Tensor, x, p._kernels, p._kernels.dtype(x), None).copy()
        return found

    def _kept(self) -> Iterator[tuple[Optimizer, Tensor, dict[str, Any]]]:
        """Each parameter with its rule and what that keeps, by position."""
        for rule in self.parts:
            for p, state in zip(rule._own, rule.state, strict=True):
                yield rule, p, state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from the ``state_dict()`` of such a rule (tensors or arrays), with parameters of the same shapes.

        Raises
        ------
        ShapeError
            When names or shapes differ; all differences are listed and nothing is loaded, nor is it after an interrupt.
        """
        loaded = [rule._blank() for rule in self.parts]
        faults: list[str] = []
        unknown = dict.fromkeys(state)
        blanks = [new for each in loaded for new in each]
        for i, ((rule, p, _), new) in enumerate(zip(self._kept(), blanks, strict=True)):
            for part, own in _parts(new, p.dtype.is_complex).items():
                names = {f"{i}.{part}{name}": name for name in rule.keeps()}
                given = {name: state[full] for full, name in names.items() if full in state}
                faults += [f"{full!r} is missing" for full, name in names.items() if given and name not in given]
                for full, name in names.items():
                    unknown.pop(full, None)
                    if name == "step" and name in given:
                        own[name] = int(given[name])
                    elif name in given:
                        x = asarray(given[name], dtype=REAL_OF.get(p.dtype, p.dtype), device=p.device, copy=True)
                        own[name] = x._handle
                        wanted = () if name in rule.scalars else p.shape
                        faults += [f"{full!r} has shape {x.shape}, not {wanted}"] * (x.shape != wanted)
        faults += [f"{name!r} is nothing that this {type(self).__name__} keeps" for name in unknown]
        if faults:
            raise ShapeError(f"load_state_dict: {'; '.join(faults)}")
        assign_all([(rule, "state", new) for rule, new in zip(self.parts, loaded, strict=True)])

    def keeps(self) -> tuple[str, ...]:
        """Names of what the rule keeps for each parameter: the number of its steps, and arrays of its shape."""
        return ()


class ParameterGroup(MutableMapping[str, Any]):
    """A group of parameters: what its rule has, as a dict."""

    def __init__(self, rule: Optimizer) -> None:
        self.rule = rule

    def __getitem__(self, key: str) -> Any:
        if key not in [*self]:
            raise KeyError(key)
        return self.rule.params if key == "params" else getattr(self.rule, self.rule.spelled.get(key, key))

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "params" or key not in [*self]:
            raise KeyError(f"{key!r} is no hyperparameter of {type(self.rule).__name__}")
        setattr(self.rule, self.rule.spelled.get(key, key), value)

    def __delitem__(self, key: str) -> None:
        raise TypeError("a hyperparameter cannot be deleted; set it")

    def __iter__(self) -> Iterator[str]:
        return iter(["params", *hyperparameters(type(self.rule))])

    def __len__(self) -> int:
        return 1 + len(hyperparameters(type(self.rule)))

    def __repr__(self) -> str:
        return repr({**self, "params": f"{len(self.rule.params)} tensors"})


def hyperparameters(kind: type[Optimizer]) -> list[str]:
    """The names of what a rule is made with, beside its parameters."""
    from inspect import signature

    return list(signature(kind.__init__).parameters)[2:]


def decayed(k: Table, p: Any, g: Any, weight_decay: float) -> Any:
    """A gradient with that of an L2 penalty."""
    return k.add(g, k.multiply(p, weight_decay)) if weight_decay else g


def averaged(k: Table, old: Any, new: Any, decay: float) -> Any:
    """A running mean, from 0 before the first step."""
    new = k.multiply(new, 1 - decay)
    return new if old is None else k.add(k.multiply(old, decay), new)


def _parts(state: dict[str, Any], is_complex: bool) -> dict[str, dict[str, Any]]:
    """What is kept for a parameter; for a complex one, for its real and for its imaginary part."""
    return state.setdefault("parts", {"real.": {}, "imag.": {}}) if is_complex else {"": state}


def _replaced(state: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """A state, and those of the parts in it, with other values."""
    return {name: _replaced(x, change) if isinstance(x, dict) else change(x) for name, x in state.items()}


def _shown(kernels: Any, x: Any) -> Any:
    """A handle as a tensor; anything else as it is."""
    return wrap(Tensor, x, kernels, kernels.dtype(x), None) if hasattr(x, "shape") else x


def _hidden(x: Any) -> Any:
    """The reverse."""
    return x._handle if isinstance(x, Tensor) else x


def _weak(value: Any) -> Any:
    """A scalar of NumPy (also in a tuple) as a Python number: its dtype would become that of the parameters."""
    return tuple(map(weak, value)) if isinstance(value, tuple) else weak(value)
