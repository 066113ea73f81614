"""The usual update rules: see `micrograd_core.optim.base` for what they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from micrograd_core.optim.base import Optimizer, Parameters, averaged, decayed

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table


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
