"""Optimisers. Each update rule is a function of handles against a kernel table ``k``, as gradient rules are.

A device may have a kernel that does the same to many parameters at once (`Optimizer.together`): it is asked for by
name, takes lists of handles, and returns lists of them. Parameters are never written in place, since graphs may hold
them; what the rule keeps between steps is its own, and the kernel may write it in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.dtypes import REAL_OF, float32, weak
from micrograd_core.engine.array import wrap
from micrograd_core.errors import GraphError, ShapeError
from micrograd_core.ground.assignments import assign_all

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table


class Optimizer:
    """Steps parameters along their gradients.

    Parameters
    ----------
    params : iterable of Tensor
        Leaves that require gradients.

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

    def __init__(self, params: Iterable[Tensor], lr: float, **hyper: Any) -> None:
        if isinstance(params, Tensor):
            raise TypeError(f"{type(self).__name__} takes a list of tensors; write [x] for a single one")
        self.params = list(params)
        if not self.params:
            raise ValueError(f"{type(self).__name__} got no parameters to optimise")
        for p in self.params:
            if not isinstance(p, Tensor) or not (p.requires_grad and p.is_leaf):
                raise GraphError(
                    f"{type(self).__name__} optimises tensors that require gradients and were not computed; got {p!r}"
                    + ("" if isinstance(p, Tensor) or not hasattr(p, "backward") else ". Use model.tensors()")
                )
        if len(set(map(id, self.params))) != len(self.params):
            raise ValueError(f"{type(self).__name__} got the same parameter twice")
        self._check(lr=lr, **hyper)
        self.lr = lr
        self.state = self._blank()
        """Per parameter: what the rule keeps between steps, as handles and numbers."""
        self._together = self._kernels_together()

    def _blank(self) -> list[dict[str, Any]]:
        """What is kept before the first step: where each parameter was, and of which dtype."""
        return [{"device": p.device, "dtype": p.dtype} for p in self.params]

    def _kernels_together(self) -> frozenset[Any]:
        """Devices that have a kernel; which is not kept here: it leads to all that the device keeps."""
        devices = {p._kernels for p in self.params} if self.together else set()
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
        """Hyperparameters may be set at any time, and are kept as Python's numbers."""
        super().__setattr__(name, _weak(value))

    def _check(self, below: float = math.inf, **hyper: Any) -> None:
        for name, value in hyper.items():
            if not isinstance(_weak(value), (int, float)) or not 0 <= value < below:
                limit = "" if below == math.inf else f", and less than {below}"
                raise ValueError(f"{type(self).__name__}: {name} must be a number, not negative{limit}; got {value!r}")

    def step(self) -> None:
        """Move every parameter that has a gradient. What was recorded with the old numbers keeps them.

        Whatever raises here, an interrupt or a lack of memory, finds each parameter and what is kept for it both as
        they were before the step, or both as they are after it; another step goes on from there. A device's own kernel
        for many parameters moves them all or none; what it keeps for them it may have written already (as on cuda).

        Raises
        ------
        GraphError
            When a parameter is on another device, or has another dtype, than when the optimiser was made; nothing is
            moved.
        """
        for p, state in zip(self.params, self.state, strict=True):
            if state["device"] is not p.device or state["dtype"] is not p.dtype:
                raise GraphError(
                    f"{type(self).__name__}: a parameter was {state['dtype']} on {state['device']}, and is now "
                    f"{p.dtype} on {p.device}; make the optimiser after moving or converting the network"
                )
        groups: dict[Any, list[Any]] = {}
        for i, (p, state) in enumerate(zip(self.params, self.state, strict=True)):
            g = p.grad
            if g is None:
                continue
            new = state.copy()
            if p._kernels in self._together and p.dtype.kind == "real floating":
                groups.setdefault((p._kernels, p.dtype, self.phase(state)), []).append((i, p, g._handle, new))
            else:
                update = self._update_parts if p.dtype.is_complex else self.update
                handle = update(p._kernels, p._handle, g._handle, new)
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
        for i, (p, state) in enumerate(zip(self.params, self.state, strict=True)):
            for part, own in _parts(state, p.dtype.is_complex).items():
                for name in self.keeps():
                    x = own.get(name)
                    if name == "step" and x is not None:
                        found[f"{i}.{part}{name}"] = asarray(x, dtype=float32, device=p.device)
                    elif x is not None:
                        found[f"{i}.{part}{name}"] = wrap(Tensor, x, p._kernels, p._kernels.dtype(x), None).copy()
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from the ``state_dict()`` of such a rule (tensors or arrays), with parameters of the same shapes.

        Raises
        ------
        ShapeError
            When names or shapes differ; all differences are listed and nothing is loaded, nor is it after an interrupt.
        """
        loaded = self._blank()
        faults: list[str] = []
        unknown = dict.fromkeys(state)
        for i, (p, new) in enumerate(zip(self.params, loaded, strict=True)):
            for part, own in _parts(new, p.dtype.is_complex).items():
                names = {f"{i}.{part}{name}": name for name in self.keeps()}
                given = {name: state[full] for full, name in names.items() if full in state}
                faults += [f"{full!r} is missing" for full, name in names.items() if given and name not in given]
                for full, name in names.items():
                    unknown.pop(full, None)
                    if name == "step" and name in given:
                        own[name] = int(given[name])
                    elif name in given:
                        x = asarray(given[name], dtype=REAL_OF.get(p.dtype, p.dtype), device=p.device, copy=True)
                        own[name] = x._handle
                        faults += [f"{full!r} has shape {x.shape}, not {p.shape}"] * (x.shape != p.shape)
        faults += [f"{name!r} is nothing that this {type(self).__name__} keeps" for name in unknown]
        if faults:
            raise ShapeError(f"load_state_dict: {'; '.join(faults)}")
        self.state = loaded

    def keeps(self) -> tuple[str, ...]:
        """Names of what the rule keeps for each parameter: the number of its steps, and arrays of its shape."""
        return ()


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
    params : iterable of Tensor
    lr : float
        Learning rate.
    momentum, dampening, weight_decay : float
    nesterov : bool
        Needs momentum, and no dampening.
    """

    together = "sgd_step"

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(params, lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay)
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
    params : iterable of Tensor
    lr : float
        Learning rate.
    betas : (float, float)
        Decay of the running means of the gradient and of its square, in [0, 1).
    eps : float
        Added to the root of the corrected second moment.
    weight_decay : float
        L2 penalty, added to the gradient.
    """

    together = "adam_step"

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, eps=eps, weight_decay=weight_decay)
        if not isinstance(betas, (tuple, list)) or len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"{type(self).__name__}: betas must be two numbers in [0, 1); got {betas}")
        self.betas, self.eps, self.weight_decay = tuple(betas), eps, weight_decay

    def keeps(self) -> tuple[str, ...]:
        """The number of steps, and the moments."""
        return "step", "m", "v"

    def update(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """By the first moment, over the root of the second; the decay is a part of the gradient."""
        if self.weight_decay:
            g = k.add(g, k.multiply(p, self.weight_decay))
        beta1, beta2 = self.betas
        t = state["step"] = state.get("step", 0) + 1
        m = k.multiply(g, 1 - beta1)
        v = k.multiply(k.multiply(g, g), 1 - beta2)
        if t > 1:
            m = k.add(k.multiply(state["m"], beta1), m)
            v = k.add(k.multiply(state["v"], beta2), v)
        state["m"], state["v"] = m, v
        step, eps = self.corrected(t)
        return k.add(p, k.multiply(k.divide(m, k.add(k.sqrt(v), eps)), -step))

    def corrected(self, t: int) -> tuple[float, float]:
        """Step size and `eps` at step `t`, with the bias corrections moved to them from both sides of the root."""
        beta1, beta2 = self.betas
        correction = (1 - beta2**t) ** 0.5
        return self.lr * correction / (1 - beta1**t), self.eps * correction

    @property
    def shrink(self) -> float:
        """What a step leaves of a parameter before the gradient moves it."""
        return 1.0

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
    params, lr, betas, eps
        As for `Adam`.
    weight_decay : float
        Fraction of a parameter that a step with ``lr=1`` takes away.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps)
        self._check(weight_decay=weight_decay)
        self.decay = weight_decay

    def update(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """Shrink, then `Adam` without decay."""
        return super().update(k, k.multiply(p, self.shrink) if self.decay else p, g, state)

    @property
    def shrink(self) -> float:
        """What a step leaves of a parameter before the gradient moves it."""
        return 1 - self.lr * self.decay


class RMSprop(Optimizer):
    """Gradients over the root of the running mean of their squares (Tieleman & Hinton 2012), in torch's formulation.

    Parameters
    ----------
    params : iterable of Tensor
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
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
    ) -> None:
        super().__init__(params, lr, eps=eps, weight_decay=weight_decay, momentum=momentum)
        self._check(below=1, alpha=alpha)
        self.alpha, self.eps, self.weight_decay, self.momentum = alpha, eps, weight_decay, momentum

    def keeps(self) -> tuple[str, ...]:
        """The mean of squares, and the velocity where there is momentum."""
        return ("square", "velocity") if self.momentum else ("square",)

    def update(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """The gradient over the root of its mean square; the decay is a part of it."""
        if self.weight_decay:
            g = k.add(g, k.multiply(p, self.weight_decay))
        square = k.multiply(k.multiply(g, g), 1 - self.alpha)
        if "square" in state:
            square = k.add(k.multiply(state["square"], self.alpha), square)
        state["square"] = square
        step = k.divide(g, k.add(k.sqrt(square), self.eps))
        if self.momentum:
            if "velocity" in state:
                step = k.add(k.multiply(state["velocity"], self.momentum), step)
            state["velocity"] = step
        return k.add(p, k.multiply(step, -self.lr))
