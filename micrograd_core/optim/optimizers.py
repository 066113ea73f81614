"""The usual update rules: see `micrograd_core.optim.base` for what they are made of."""

from __future__ import annotations

from typing import Any, ClassVar

from micrograd_core.ops.record import Handle, Operand, Table
from micrograd_core.optim.base import Parameters, Rule, at_once, averaged, rule, setting

LARGE = 1 << 16
"""Elements of a parameter from which on its step is one pass over memory."""


def _straight(k: Table, p: Handle, g: Handle, back: Operand) -> Handle:
    return k.add(p, k.multiply(g, back))


def _along(k: Table, p: Any, g: Any, v: Any, back: Any, momentum: Any, share: Any, nesterov: bool) -> Any:
    """The parameter and its velocity, of which the gradient is a share, or all for True."""
    v = k.add(k.multiply(v, momentum), g if share is True else k.multiply(g, share))
    return k.add(p, k.multiply(k.add(g, k.multiply(v, momentum)) if nesterov else v, back)), v


@rule
class SGD(Rule):
    """Stochastic gradient descent, with (Nesterov) momentum as in Sutskever et al. 2013 in torch's formulation.

    Parameters
    ----------
    params : iterable of Tensor, or of groups
        Leaves that require gradients; see `Optimizer`.
    lr : float
        Learning rate.
    momentum : float
        How much of the last step is kept.
    dampening : float
        How much less the gradient counts in the momentum.
    weight_decay : float
        L2 penalty: this fraction of a parameter is added to its gradient.
    nesterov : bool
        Whether the step looks ahead along the momentum; needs momentum, and no dampening.
    maximize : bool
        Whether to go up the gradient.

    Raises
    ------
    ValueError
        For no parameters, or a hyperparameter out of range.
    GraphError
        For a tensor that has no gradient of its own.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([1.0, -2.0])
    >>> rule = mg.optim.SGD([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> rule.step()
    >>> x
    Tensor([ 0.8, -1.6], requires_grad=True)
    """

    together = "sgd_step"
    begins = 0.0
    kept: ClassVar[tuple[str, ...]] = ("velocity",)

    lr: float = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self, params: Parameters) -> None:
        super().__post_init__(params)
        if self.nesterov and (self.momentum <= 0 or self.dampening != 0):
            raise ValueError("SGD: nesterov needs momentum > 0 and dampening = 0")

    def keeps(self) -> tuple[str, ...]:
        """The velocity, where there is momentum."""
        return self.kept if self.momentum else ()

    def update(self, k: Table, p: Handle, g: Handle, state: dict[str, Any]) -> Handle:
        """Heavy ball, or Nesterov's."""
        if not self.momentum:
            return at_once(k, _straight, p, LARGE)(k, p, g, -self.lr)  # type: ignore[no-any-return]
        fresh = "velocity" not in state
        v = k.full(shape=(), fill_value=0.0, dtype=k.dtype(g)) if fresh else state["velocity"]
        share = 1 - self.dampening if self.dampening and not fresh else True
        p, state["velocity"] = at_once(k, _along, p, LARGE)(k, p, g, v, -self.lr, self.momentum, share, self.nesterov)
        return p

    def settings_at(self, step: int) -> dict[str, Any]:
        """The settings under their own names."""
        return {name: getattr(self, name) for name in ("lr", "momentum", "dampening", "weight_decay", "nesterov")}


@rule
class WithMoments(Rule):
    """Rules that keep running means of the gradient and of its square."""

    kept: ClassVar[tuple[str, ...]] = ("step", "m", "v")

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def moments(self, k: Table, g: Handle, state: dict[str, Any]) -> tuple[Any, Any]:
        """Update the running means of the gradient and of its square.

        Parameters
        ----------
        k : Table
            The kernels of the parameter's device.
        g : Handle
            The gradient.
        state : dict
            What the rule keeps for this parameter; the new means are written into it.

        Returns
        -------
        tuple of Handle
            The new means, of the shape of the gradient.
        """
        state["m"] = averaged(k, state.get("m"), g, self.betas[0])
        state["v"] = averaged(k, state.get("v"), k.multiply(g, g), self.betas[1])
        return state["m"], state["v"]


@rule
class Adam(WithMoments):
    """Adam (Kingma & Ba 2015, algorithm 1), with the bias corrections folded into the step size.

    Parameters
    ----------
    params : iterable of Tensor, or of groups
        Leaves that require gradients; see `Optimizer`.
    lr : float
        Learning rate.
    betas : (float, float)
        Decay of the running means of the gradient and of its square, in [0, 1).
    eps : float
        Added to the root of the corrected second moment.
    weight_decay : float
        L2 penalty, added to the gradient.
    amsgrad : bool
        Whether to divide by the greatest second moment so far (Reddi et al. 2018).
    maximize : bool
        Whether to go up the gradient.
    decoupled_weight_decay : bool
        Whether the weight decay acts beside the gradient, as in `AdamW`.

    Raises
    ------
    ValueError
        For no parameters, or a hyperparameter out of range.
    GraphError
        For a tensor that has no gradient of its own.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([1.0, -2.0])
    >>> rule = mg.optim.Adam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> rule.step()
    >>> x
    Tensor([ 0.9, -1.9], requires_grad=True)
    """

    together = "adam_step"
    begins = 0.0

    lr: float = 1e-3
    amsgrad: bool = False
    decoupled_weight_decay: bool = setting(default=False, kw_only=True)

    def keeps(self) -> tuple[str, ...]:
        """The number of steps, and the moments."""
        return (*self.kept, "greatest") if self.amsgrad else self.kept

    def update(self, k: Table, p: Handle, g: Handle, state: dict[str, Any]) -> Handle:
        """By the first moment, over the root of the second."""
        step, eps = self.corrected(state["step"])
        m, v = self.moments(k, g, state)
        if self.amsgrad:
            v = state["greatest"] = k.maximum(state["greatest"], v) if "greatest" in state else k.copy(v)
        return k.add(p, k.multiply(k.divide(m, k.add(k.sqrt(v), eps)), -step))

    def corrected(self, t: int) -> tuple[float, float]:
        """Step size and `eps` at a step, with the bias corrections moved to them from both sides of the root.

        Parameters
        ----------
        t : int
            The number of the step, 1 for the first.

        Returns
        -------
        tuple of float
        """
        beta1, beta2 = self.betas
        correction = (1 - beta2**t) ** 0.5
        return self.lr * correction / (1 - beta1**t), self.eps * correction

    def _kernels_together(self) -> frozenset[Any]:
        return frozenset() if self.amsgrad else super()._kernels_together()

    def settings_at(self, step: int) -> dict[str, Any]:
        """The step size with its corrections, and the decay of the gradient or that of the parameter."""
        size, eps = self.corrected(step)
        decay, shrink = (0.0, self.shrink) if self.decoupled_weight_decay else (self.weight_decay, 1.0)
        return {"step": size, "betas": self.betas, "eps": eps, "weight_decay": decay, "shrink": shrink}


@rule
class AdamW(Adam):
    """`Adam` with weight decay beside the gradient, not in it (Loshchilov & Hutter 2019).

    Parameters
    ----------
    params : iterable of Tensor, or of groups
        Leaves that require gradients; see `Optimizer`.
    lr : float
        Learning rate.
    betas : (float, float)
        Decay of the running means of the gradient and of its square, in [0, 1).
    eps : float
        Added to the root of the corrected second moment.
    weight_decay : float
        Fraction of a parameter that a step with ``lr=1`` takes away.
    amsgrad : bool
        Whether to divide by the greatest second moment so far (Reddi et al. 2018).
    maximize : bool
        Whether to go up the gradient.

    Raises
    ------
    ValueError
        For no parameters, or a hyperparameter out of range.
    GraphError
        For a tensor that has no gradient of its own.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([1.0, -2.0])
    >>> rule = mg.optim.AdamW([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> rule.step()
    >>> x
    Tensor([ 0.899, -1.898], requires_grad=True)
    """

    weight_decay: float = 1e-2
    decoupled_weight_decay: bool = setting(default=True, init=False)


@rule
class RMSprop(Rule):
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

    Raises
    ------
    ValueError
        For no parameters, or a hyperparameter out of range.
    GraphError
        For a tensor that has no gradient of its own.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.Tensor([1.0, -2.0])
    >>> rule = mg.optim.RMSprop([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> rule.step()
    >>> x
    Tensor([5.96e-08,      -1.], requires_grad=True)
    """

    begins = 0.0

    lr: float = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False

    def keeps(self) -> tuple[str, ...]:
        """The mean of squares, the mean where it is subtracted, and the velocity where there is momentum."""
        return ("square", *["mean"] * self.centered, *["velocity"] * bool(self.momentum))

    def update(self, k: Table, p: Handle, g: Handle, state: dict[str, Any]) -> Handle:
        """The gradient over the root of its mean square."""
        square = state["square"] = averaged(k, state.get("square"), k.multiply(g, g), self.alpha)
        if self.centered:
            mean = state["mean"] = averaged(k, state.get("mean"), g, self.alpha)
            square = k.subtract(square, k.multiply(mean, mean))
        step = k.divide(g, k.add(k.sqrt(square), self.eps))
        if self.momentum:
            if "velocity" in state:
                step = k.add(k.multiply(state["velocity"], self.momentum), step)
            state["velocity"] = step
        return k.add(p, k.multiply(step, -self.lr))
