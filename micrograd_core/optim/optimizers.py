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

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table


Parameters = Iterable[Tensor] | Iterable[dict[str, Any]]


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

    _given: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Keeps what it is made with, for further groups."""
        self = object.__new__(cls)
        vars(self)["_given"] = args[1:], {name: x for name, x in kwargs.items() if name != "params"}
        return self

    def __init__(self, params: Parameters, lr: float, *, maximize: bool = False, **hyper: Any) -> None:
        if isinstance(params, Tensor):
            raise TypeError(f"{type(self).__name__} takes a list of tensors; write [x] for a single one")
        given = list(params)
        if not given:
            raise ValueError(f"{type(self).__name__} got no parameters to optimise")
        self.groups: list[Self] = []
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
            first = object.__new__(type(self))
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
                handle = update(p._kernels, p._handle, way, new)
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


class SGD(Optimizer):
    """Stochastic gradient descent, with (Nesterov) momentum as in Sutskever et al. 2013 in torch's formulation.

    Parameters
    ----------
    params : iterable of Tensor, or of groups
    lr : float
        Learning rate.
    momentum, dampening, weight_decay : float
    nesterov : bool
        Needs momentum, and no dampening.
    maximize : bool
        Whether to go up the gradient.
    """

    together = "sgd_step"

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        decay = {"dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, lr, maximize=maximize, momentum=momentum, **decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: nesterov needs momentum > 0 and dampening = 0")
        self.momentum, self.dampening, self.weight_decay, self.nesterov = momentum, dampening, weight_decay, nesterov

    def keeps(self) -> tuple[str, ...]:
        """The velocity, where there is momentum."""
        return ("velocity",) if self.momentum else ()

    def update(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """Heavy ball, or Nesterov's; the decay is a part of the gradient."""
        if self.weight_decay:
            g = k.add(g, k.multiply(p, self.weight_decay))
        if self.momentum:
            velocity = state.get("velocity")
            if velocity is None:
                velocity = k.copy(g)  # the gradient belongs to the user
            else:
                velocity = k.add(k.multiply(velocity, self.momentum), k.multiply(g, 1 - self.dampening))
            state["velocity"] = velocity
            g = k.add(g, k.multiply(velocity, self.momentum)) if self.nesterov else velocity
        return k.add(p, k.multiply(g, -self.lr))

    def phase(self, state: dict[str, Any]) -> Any:
        """Whether there is a velocity yet."""
        return "velocity" in state

    def update_together(self, kernel: Any, params: list[Any], grads: list[Any], states: list[Any]) -> list[Any]:
        """By the kernel; velocities are made by the first step."""
        moved, velocities = kernel(
            params,
            grads,
            [state.get("velocity") for state in states],
            lr=self.lr,
            momentum=self.momentum,
            dampening=self.dampening,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
        )
        if self.momentum:
            for state, velocity in zip(states, velocities, strict=True):
                state["velocity"] = velocity
        return moved  # type: ignore[no-any-return]


class Adam(Optimizer):
    """Adam (Kingma & Ba 2015, algorithm 1), with the bias corrections folded into the step size.

    Parameters
    ----------
    params : iterable of Tensor, or of groups
    lr : float
        Learning rate.
    betas : (float, float)
        Decay of the running means of the gradient and of its square, in [0, 1).
    eps : float
        Added to the root of the corrected second moment.
    weight_decay : float
        L2 penalty, added to the gradient; or, with `decoupled_weight_decay`, as of `AdamW`.
    amsgrad : bool
        Whether to divide by the greatest second moment there was (Reddi et al. 2018).
    maximize : bool
        Whether to go up the gradient.
    """

    together = "adam_step"
    amsgrad: bool = False
    decay: float = 0.0

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(params, lr, maximize=maximize, eps=eps, weight_decay=weight_decay)
        self.betas, self.eps, self.amsgrad = self._two(betas), eps, bool(amsgrad)
        self.decoupled_weight_decay = bool(decoupled_weight_decay)
        self.weight_decay, self.decay = (0.0, weight_decay) if decoupled_weight_decay else (weight_decay, 0.0)

    def keeps(self) -> tuple[str, ...]:
        """The number of steps, and the moments."""
        return ("step", "m", "v", "greatest") if self.amsgrad else ("step", "m", "v")

    def update(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """Shrink; then by the first moment, over the root of the second, where the decay is a part of the gradient."""
        p, g = k.multiply(p, self.shrink) if self.decay else p, decayed(k, p, g, self.weight_decay)
        beta1, beta2 = self.betas
        t = state["step"] = state.get("step", 0) + 1
        m = k.multiply(g, 1 - beta1)
        v = k.multiply(k.multiply(g, g), 1 - beta2)
        if t > 1:
            m = k.add(k.multiply(state["m"], beta1), m)
            v = k.add(k.multiply(state["v"], beta2), v)
        state["m"], state["v"] = m, v
        step, eps = self.corrected(t)
        if self.amsgrad:
            v = state["greatest"] = k.maximum(state["greatest"], v) if t > 1 else k.copy(v)
        return k.add(p, k.multiply(k.divide(m, k.add(k.sqrt(v), eps)), -step))

    def corrected(self, t: int) -> tuple[float, float]:
        """Step size and `eps` at step `t`, with the bias corrections moved to them from both sides of the root."""
        beta1, beta2 = self.betas
        correction = (1 - beta2**t) ** 0.5
        return self.lr * correction / (1 - beta1**t), self.eps * correction

    @property
    def shrink(self) -> float:
        """What a step leaves of a parameter before the gradient moves it."""
        return 1 - self.lr * self.decay if self.decay else 1.0

    def _kernels_together(self) -> frozenset[Any]:
        return frozenset() if self.amsgrad else super()._kernels_together()

    def phase(self, state: dict[str, Any]) -> Any:
        """The number of the step."""
        return state.get("step", 0)

    def update_together(self, kernel: Any, params: list[Any], grads: list[Any], states: list[Any]) -> list[Any]:
        """By the kernel; moments are made by the first step."""
        t = self.phase(states[0]) + 1
        step, eps = self.corrected(t)
        kept = [[state.get(name) for state in states] for name in ("m", "v")]
        hyper = {
            "step": step,
            "betas": self.betas,
            "eps": eps,
            "weight_decay": self.weight_decay,
            "shrink": self.shrink,
        }
        moved, firsts, seconds = kernel(params, grads, *kept, **hyper)
        for state, m, v in zip(states, firsts, seconds, strict=True):
            state |= {"step": t, "m": m, "v": v}
        return moved  # type: ignore[no-any-return]


class AdamW(Adam):
    """`Adam` with weight decay beside the gradient, not in it (Loshchilov & Hutter 2019).

    Parameters
    ----------
    params, lr, betas, eps, amsgrad, maximize
        As for `Adam`.
    weight_decay : float
        Fraction of a parameter that a step with ``lr=1`` takes away.
    """

    spelled: ClassVar[dict[str, str]] = {"weight_decay": "decay"}

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True)


class RMSprop(Optimizer):
    """Gradients over the root of the running mean of their squares (Tieleman & Hinton 2012), in torch's formulation.

    Parameters
    ----------
    params : iterable of Tensor, or of groups
    lr : float
        Learning rate.
    alpha : float
        Decay of the running mean.
    eps : float
        Added to the root.
    weight_decay : float
        L2 penalty, added to the gradient.
    momentum : float
        Of the quotients.
    centered : bool
        Whether the mean of squares is less the square of the mean, a variance.
    maximize : bool
        Whether to go up the gradient.
    """

    centered: bool = False

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, maximize=maximize, eps=eps, weight_decay=weight_decay, momentum=momentum)
        self._check(below=1, alpha=alpha)
        self.alpha, self.eps, self.weight_decay, self.momentum = alpha, eps, weight_decay, momentum
        self.centered = bool(centered)

    def keeps(self) -> tuple[str, ...]:
        """The mean of squares, the mean where it is subtracted, and the velocity where there is momentum."""
        return ("square", *["mean"] * self.centered, *["velocity"] * bool(self.momentum))

    def update(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """The gradient over the root of its mean square; the decay is a part of it."""
        if self.weight_decay:
            g = k.add(g, k.multiply(p, self.weight_decay))
        square = k.multiply(k.multiply(g, g), 1 - self.alpha)
        if "square" in state:
            square = k.add(k.multiply(state["square"], self.alpha), square)
        state["square"] = square
        if self.centered:
            mean = state["mean"] = averaged(k, state.get("mean"), g, self.alpha)
            square = k.subtract(square, k.multiply(mean, mean))
        step = k.divide(g, k.add(k.sqrt(square), self.eps))
        if self.momentum:
            if "velocity" in state:
                step = k.add(k.multiply(state["velocity"], self.momentum), step)
            state["velocity"] = step
        return k.add(p, k.multiply(step, -self.lr))
