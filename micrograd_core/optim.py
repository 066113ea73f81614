"""Optimisers. Each update rule is a function of handles against a kernel table ``k``, as gradient rules are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from micrograd_core.errors import GraphError
from micrograd_core.tensor import Tensor


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
    """

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
        for name, value in {"lr": lr, **hyper}.items():
            if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
                raise ValueError(f"{type(self).__name__}: {name} must be a number, not negative; got {value!r}")
        self.lr = lr
        self.state: list[dict[str, Any]] = [{"device": p.device} for p in self.params]
        """Per parameter: what the rule keeps between steps, as handles and numbers."""

    def step(self) -> None:
        """Move every parameter that has a gradient. What was recorded with the old numbers keeps them."""
        for p, state in zip(self.params, self.state, strict=True):
            g = p.grad
            if state["device"] is not p.device:
                raise GraphError(
                    f"{type(self).__name__}: a parameter moved from {state['device']} to {p.device}; "
                    "make the optimiser after moving the network"
                )
            if g is not None:
                p._handle = self.update(p._kernels, p._handle, g._handle, state)
                p._storage = None

    def update(self, k: Any, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """The new parameter, from kernels, parameter, gradient and the parameter's state."""
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for p in self.params:
            p.zero_grad()


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

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(params, lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: nesterov needs momentum > 0 and dampening = 0")
        self.momentum, self.dampening, self.weight_decay, self.nesterov = momentum, dampening, weight_decay, nesterov

    def update(self, k: Any, p: Any, g: Any, state: dict[str, Any]) -> Any:  # noqa: D102
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
        return k.subtract(p, k.multiply(g, self.lr))


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
            raise ValueError(f"Adam: betas must be two numbers in [0, 1); got {betas}")
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay

    def update(self, k: Any, p: Any, g: Any, state: dict[str, Any]) -> Any:  # noqa: D102
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
        correction = (1 - beta2**t) ** 0.5  # of the root, moved to the scalars on either side
        step = k.divide(m, k.add(k.sqrt(v), self.eps * correction))
        return k.subtract(p, k.multiply(step, self.lr * correction / (1 - beta1**t)))
