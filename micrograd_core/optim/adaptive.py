"""More update rules, each as in its paper and in torch's formulation: see `micrograd_core.optim.base`."""

from __future__ import annotations

from typing import Any, ClassVar

from micrograd_core.ops.record import Handle, Table
from micrograd_core.optim.base import Rule, averaged, rule
from micrograd_core.optim.optimizers import WithMoments


def _zeros(k: Table, p: Handle, value: float = 0.0) -> Handle:
    return k.full(shape=p.shape, fill_value=value, dtype=p.dtype)


@rule
class Adagrad(Rule):
    """Gradients over the root of the sum of their squares (Duchi et al. 2011).

    Parameters
    ----------
    params : iterable of Tensor, or of groups
        Leaves that require gradients; see `Optimizer`.
    lr : float
        Learning rate.
    weight_decay : float
        L2 penalty: this fraction of a parameter is added to its gradient.
    maximize : bool
        Whether to go up the gradient.
    lr_decay : float
        The rate is divided by ``1 + (step - 1) * lr_decay``.
    initial_accumulator_value : float
        The first value of the sum.
    eps : float
        Added to the root.

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
    >>> rule = mg.optim.Adagrad([x])
    >>> (x * x).sum().backward()
    >>> rule.step()
    >>> x
    Tensor([ 0.99, -1.99], requires_grad=True)
    """

    begins = "initial_accumulator_value"
    kept: ClassVar[tuple[str, ...]] = ("step", "sum")

    lr: float = 1e-2
    lr_decay: float = 0.0
    weight_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10

    def update(self, k: Table, p: Handle, g: Handle, state: dict[str, Any]) -> Handle:
        """The gradient over the root of the sum."""
        total = state["sum"] if "sum" in state else _zeros(k, p, self.initial_accumulator_value)
        state["sum"] = total = k.add(total, k.multiply(g, g))
        rate = self.lr / (1 + (state["step"] - 1) * self.lr_decay)
        return k.add(p, k.multiply(k.divide(g, k.add(k.sqrt(total), self.eps)), -rate))


@rule
class Adadelta(Rule):
    """Gradients times the root of the mean square of what parameters moved, over that of gradients (Zeiler 2012).

    Parameters
    ----------
    params : iterable of Tensor, or of groups
        Leaves that require gradients; see `Optimizer`.
    lr : float
        Learning rate.
    weight_decay : float
        L2 penalty: this fraction of a parameter is added to its gradient.
    maximize : bool
        Whether to go up the gradient.
    rho : float
        Decay of the running means.
    eps : float
        Added under both roots.

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
    >>> rule = mg.optim.Adadelta([x])
    >>> (x * x).sum().backward()
    >>> rule.step()
    >>> x
    Tensor([0.9968, -1.997], requires_grad=True)
    """

    begins = 0.0
    kept: ClassVar[tuple[str, ...]] = ("square", "moved")

    lr: float = 1.0
    rho: float = 0.9
    eps: float = 1e-6
    weight_decay: float = 0.0

    def update(self, k: Table, p: Handle, g: Handle, state: dict[str, Any]) -> Handle:
        """The gradient, in the unit of the parameter."""
        square = state["square"] = averaged(k, state.get("square"), k.multiply(g, g), self.rho)
        moved = state.get("moved")
        scale = k.sqrt(k.add(_zeros(k, p) if moved is None else moved, self.eps))
        way = k.multiply(k.divide(scale, k.sqrt(k.add(square, self.eps))), g)
        state["moved"] = averaged(k, moved, k.multiply(way, way), self.rho)
        return k.add(p, k.multiply(way, -self.lr))


@rule
class NAdam(WithMoments):
    """`Adam` with Nesterov's momentum (Dozat 2016).

    Parameters
    ----------
    params : iterable of Tensor, or of groups
        Leaves that require gradients; see `Optimizer`.
    lr : float
        Learning rate.
    betas : (float, float)
        Decay of the running means of the gradient and of its square, in [0, 1).
    eps : float
        Added to the divisor.
    weight_decay : float
        L2 penalty: this fraction of a parameter is added to its gradient.
    decoupled_weight_decay : bool
        Whether the weight decay acts beside the gradient, as in `AdamW`.
    maximize : bool
        Whether to go up the gradient.
    momentum_decay : float
        Of the momentum's own schedule.

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
    >>> rule = mg.optim.NAdam([x])
    >>> (x * x).sum().backward()
    >>> rule.step()
    >>> x
    Tensor([0.9979, -1.998], requires_grad=True)
    """

    kept: ClassVar[tuple[str, ...]] = (*WithMoments.kept, "mu_product")
    scalars: ClassVar[tuple[str, ...]] = ("mu_product",)

    lr: float = 2e-3
    momentum_decay: float = 4e-3
    decoupled_weight_decay: bool = False

    def update(self, k: Table, p: Handle, g: Handle, state: dict[str, Any]) -> Handle:
        """By this gradient, and by the moment as it will be."""
        t, (beta1, beta2) = state["step"], self.betas
        mu, following = (beta1 * (1 - 0.5 * 0.96 ** (n * self.momentum_decay)) for n in (t, t + 1))
        product = state["mu_product"] if "mu_product" in state else k.full(shape=(), fill_value=1.0, dtype=g.dtype)
        state["mu_product"] = product = k.multiply(product, mu)
        m, v = self.moments(k, g, state)
        root = k.add(k.sqrt(k.multiply(v, 1 / (1 - beta2**t))), self.eps)
        now = k.divide(self.lr * (1 - mu), k.subtract(1, product))
        then = k.divide(self.lr * following, k.subtract(1, k.multiply(product, following)))
        return k.subtract(p, k.divide(k.add(k.multiply(g, now), k.multiply(m, then)), root))


@rule
class RAdam(WithMoments):
    """`Adam` whose second moment counts once its variance is small enough (Liu et al. 2020).

    Parameters
    ----------
    params : iterable of Tensor, or of groups
        Leaves that require gradients; see `Optimizer`.
    lr : float
        Learning rate.
    betas : (float, float)
        Decay of the running means of the gradient and of its square, in [0, 1).
    eps : float
        Added to the divisor.
    weight_decay : float
        L2 penalty: this fraction of a parameter is added to its gradient.
    decoupled_weight_decay : bool
        Whether the weight decay acts beside the gradient, as in `AdamW`.
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
    >>> rule = mg.optim.RAdam([x])
    >>> (x * x).sum().backward()
    >>> rule.step()
    >>> x
    Tensor([ 0.998, -1.996], requires_grad=True)
    """

    lr: float = 1e-3
    decoupled_weight_decay: bool = False

    def update(self, k: Table, p: Handle, g: Handle, state: dict[str, Any]) -> Handle:
        """By the first moment alone, until there is something to say of the second."""
        t, (beta1, beta2) = state["step"], self.betas
        m, v = self.moments(k, g, state)
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * t * beta2**t / (1 - beta2**t)
        rate = self.lr / (1 - beta1**t)
        if not length > 5:
            return k.add(p, k.multiply(m, -rate))
        rectified = ((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) ** 0.5
        rate = rate * rectified * (1 - beta2**t) ** 0.5
        return k.add(p, k.multiply(k.divide(m, k.add(k.sqrt(v), self.eps)), -rate))


@rule
class Adamax(WithMoments):
    """`Adam` by the greatest gradient rather than the root of squares (Kingma & Ba 2015, algorithm 2).

    Parameters
    ----------
    params : iterable of Tensor, or of groups
        Leaves that require gradients; see `Optimizer`.
    lr : float
        Learning rate.
    betas : (float, float)
        Decay of the running means of the gradient and of its square, in [0, 1).
    eps : float
        Added to the divisor.
    weight_decay : float
        L2 penalty: this fraction of a parameter is added to its gradient.
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
    >>> rule = mg.optim.Adamax([x])
    >>> (x * x).sum().backward()
    >>> rule.step()
    >>> x
    Tensor([ 0.998, -1.998], requires_grad=True)
    """

    begins = 0.0

    lr: float = 2e-3

    def update(self, k: Table, p: Handle, g: Handle, state: dict[str, Any]) -> Handle:
        """The first moment over the greatest gradient, which fades."""
        m = state["m"] = averaged(k, state.get("m"), g, self.betas[0])
        size = k.add(k.abs(g), self.eps)
        size = state["v"] = k.maximum(k.multiply(state["v"], self.betas[1]), size) if "v" in state else size
        return k.add(p, k.multiply(k.divide(m, size), -(self.lr / (1 - self.betas[0] ** state["step"]))))


@rule
class Rprop(Rule):
    """A step size for each number, which grows while its gradient keeps its sign (Riedmiller & Braun 1993).

    Parameters
    ----------
    params : iterable of Tensor, or of groups
        Leaves that require gradients; see `Optimizer`.
    lr : float
        The first step size.
    maximize : bool
        Whether to go up the gradient.
    etas : (float, float)
        The factors of a step size when the sign of the gradient changes, and when it stays.
    step_sizes : (float, float)
        The least and the greatest.

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
    >>> rule = mg.optim.Rprop([x])
    >>> (x * x).sum().backward()
    >>> rule.step()
    >>> x
    Tensor([ 0.99, -1.99], requires_grad=True)
    """

    kept: ClassVar[tuple[str, ...]] = ("before", "size")

    lr: float = 1e-2
    etas: tuple[float, float] = (0.5, 1.2)
    step_sizes: tuple[float, float] = (1e-6, 50.0)

    def _checked(self, name: str, value: Any) -> Any:
        if name == "etas" and not 0 < value[0] < 1 < value[1]:
            raise ValueError(f"Rprop: etas are a number between 0 and 1, and one above 1; got {value}")
        return tuple(value) if name in ("etas", "step_sizes") else super()._checked(name, value)

    def update(self, k: Table, p: Handle, g: Handle, state: dict[str, Any]) -> Handle:
        """By the sign of the gradient; where it changed, not at all."""
        before = state["before"] if "before" in state else _zeros(k, p)
        size = state["size"] if "size" in state else k.multiply(_zeros(k, p, 1.0), self.lr)
        agreement = k.multiply(before, g)
        turned = k.less(agreement, 0)
        factor = k.where(turned, self.etas[0], k.where(k.less(0, agreement), self.etas[1], _zeros(k, p, 1.0)))
        least, most = self.step_sizes
        state["size"] = size = k.minimum(k.maximum(k.multiply(size, factor), least), most)
        state["before"] = g = k.where(turned, 0, g)
        return k.subtract(p, k.multiply(k.sign(g), size))


@rule
class Lion(Rule):
    """The sign of a mean of gradient and momentum (Chen et al. 2023), with decoupled weight decay.

    Parameters
    ----------
    params : iterable of Tensor, or of groups
        Leaves that require gradients; see `Optimizer`.
    lr : float
        Learning rate.
    weight_decay : float
        Fraction of a parameter that a step with ``lr=1`` takes away.
    maximize : bool
        Whether to go up the gradient.
    betas : (float, float)
        How much the momentum counts in the step, and in the momentum to come.

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
    >>> rule = mg.optim.Lion([x])
    >>> (x * x).sum().backward()
    >>> rule.step()
    >>> x
    Tensor([0.9999,    -2.], requires_grad=True)
    """

    begins = 0.0
    kept: ClassVar[tuple[str, ...]] = ("m",)
    decoupled_weight_decay = True

    lr: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0

    def update(self, k: Table, p: Handle, g: Handle, state: dict[str, Any]) -> Handle:
        """``p - lr * sign(beta1 * m + (1 - beta1) * g)``, of a parameter that has decayed."""
        m = state.get("m")
        way = k.sign(averaged(k, m, g, self.betas[0]))
        state["m"] = averaged(k, m, g, self.betas[1])
        return k.add(p, k.multiply(way, -self.lr))
