"""More update rules, each as in its paper and in torch's formulation: see `micrograd_core.optim.base`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from micrograd_core.optim.base import Optimizer, Parameters, averaged, decayed

if TYPE_CHECKING:
    from micrograd_core.tables.table import Table


def _zeros(k: Table, p: Any, value: float = 0.0) -> Any:
    return k.full(shape=p.shape, fill_value=value, dtype=p.dtype)


class Adagrad(Optimizer):
    """Gradients over the root of the sum of their squares (Duchi et al. 2011).

    Parameters
    ----------
    params, lr, weight_decay, maximize
        As for `Adam`.
    lr_decay : float
        The rate is divided by ``1 + (step - 1) * lr_decay``.
    initial_accumulator_value : float
        What the sum starts with.
    eps : float
        Added to the root.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
    ) -> None:
        more = {"initial_accumulator_value": initial_accumulator_value, "lr_decay": lr_decay}
        super().__init__(params, lr, maximize=maximize, weight_decay=weight_decay, eps=eps, **more)
        self.lr_decay, self.weight_decay, self.eps = lr_decay, weight_decay, eps
        self.initial_accumulator_value = initial_accumulator_value

    def keeps(self) -> tuple[str, ...]:
        """The number of steps, and the sum of squares."""
        return "step", "sum"

    def update(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """The gradient over the root of the sum."""
        g = decayed(k, p, g, self.weight_decay)
        t = state["step"] = state.get("step", 0) + 1
        total = state.get("sum")
        total = _zeros(k, p, self.initial_accumulator_value) if total is None else total
        state["sum"] = total = k.add(total, k.multiply(g, g))
        rate = self.lr / (1 + (t - 1) * self.lr_decay)
        return k.add(p, k.multiply(k.divide(g, k.add(k.sqrt(total), self.eps)), -rate))


class Adadelta(Optimizer):
    """Gradients times the root of the mean square of what parameters moved, over that of gradients (Zeiler 2012).

    Parameters
    ----------
    params, lr, weight_decay, maximize
        As for `Adam`.
    rho : float
        Decay of the running means.
    eps : float
        Added under both roots.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, maximize=maximize, eps=eps, weight_decay=weight_decay)
        self._check(below=1, rho=rho)
        self.rho, self.eps, self.weight_decay = rho, eps, weight_decay

    def keeps(self) -> tuple[str, ...]:
        """Both means of squares."""
        return "square", "moved"

    def update(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """The gradient, in the unit of the parameter."""
        g = decayed(k, p, g, self.weight_decay)
        square = state["square"] = averaged(k, state.get("square"), k.multiply(g, g), self.rho)
        moved = state.get("moved")
        scale = k.sqrt(k.add(_zeros(k, p) if moved is None else moved, self.eps))
        way = k.multiply(k.divide(scale, k.sqrt(k.add(square, self.eps))), g)
        state["moved"] = averaged(k, moved, k.multiply(way, way), self.rho)
        return k.add(p, k.multiply(way, -self.lr))


class _WithMoments(Optimizer):
    """What the variants of `Adam` share."""

    decay: float
    weight_decay: float

    def __init__(
        self,
        params: Parameters,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        decoupled: bool,
        maximize: bool,
        **more: float,
    ) -> None:
        super().__init__(params, lr, maximize=maximize, eps=eps, weight_decay=weight_decay, **more)
        self.betas, self.eps, self.decoupled_weight_decay = self._two(betas), eps, bool(decoupled)
        self.weight_decay = weight_decay

    def _decay(self, k: Table, p: Any, g: Any) -> tuple[Any, Any]:
        """Parameter and gradient with the decay in one of them."""
        if self.decoupled_weight_decay and self.weight_decay:
            return k.multiply(p, 1 - self.lr * self.weight_decay), g
        return p, decayed(k, p, g, self.weight_decay)

    def _moments(self, k: Table, g: Any, state: dict[str, Any]) -> tuple[Any, Any]:
        state["m"] = averaged(k, state.get("m"), g, self.betas[0])
        state["v"] = averaged(k, state.get("v"), k.multiply(g, g), self.betas[1])
        return state["m"], state["v"]

    def keeps(self) -> tuple[str, ...]:
        """The number of steps, and the moments."""
        return "step", "m", "v"


class NAdam(_WithMoments):
    """`Adam` with Nesterov's momentum (Dozat 2016).

    Parameters
    ----------
    params, lr, betas, eps, weight_decay, decoupled_weight_decay, maximize
        As for `Adam`.
    momentum_decay : float
        Of the momentum's own schedule.
    """

    scalars: ClassVar[tuple[str, ...]] = ("mu_product",)

    def __init__(
        self,
        params: Parameters,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, decoupled_weight_decay, maximize, momentum_decay=momentum_decay
        )
        self.momentum_decay = momentum_decay

    def keeps(self) -> tuple[str, ...]:
        """The moments, the number of steps, and the product of the momenta so far."""
        return "step", "m", "v", "mu_product"

    def update(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """By this gradient, and by the moment as it will be."""
        p, g = self._decay(k, p, g)
        t = state["step"] = state.get("step", 0) + 1
        beta1, beta2 = self.betas
        mu, following = (beta1 * (1 - 0.5 * 0.96 ** (n * self.momentum_decay)) for n in (t, t + 1))
        product = state.get("mu_product")
        product = k.full(shape=(), fill_value=1.0, dtype=g.dtype) if product is None else product
        state["mu_product"] = product = k.multiply(product, mu)
        m, v = self._moments(k, g, state)
        root = k.add(k.sqrt(k.multiply(v, 1 / (1 - beta2**t))), self.eps)
        now = k.divide(self.lr * (1 - mu), k.subtract(1, product))
        then = k.divide(self.lr * following, k.subtract(1, k.multiply(product, following)))
        return k.subtract(p, k.divide(k.add(k.multiply(g, now), k.multiply(m, then)), root))


class RAdam(_WithMoments):
    """`Adam` whose second moment counts once its variance is small enough (Liu et al. 2020).

    Parameters
    ----------
    params, lr, betas, eps, weight_decay, decoupled_weight_decay, maximize
        As for `Adam`.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, decoupled_weight_decay, maximize)

    def update(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """By the first moment alone, until there is something to say of the second."""
        p, g = self._decay(k, p, g)
        t = state["step"] = state.get("step", 0) + 1
        beta1, beta2 = self.betas
        m, v = self._moments(k, g, state)
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * t * beta2**t / (1 - beta2**t)
        rate = self.lr / (1 - beta1**t)
        if not length > 5:
            return k.add(p, k.multiply(m, -rate))
        rectified = ((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) ** 0.5
        rate = rate * rectified * (1 - beta2**t) ** 0.5
        return k.add(p, k.multiply(k.divide(m, k.add(k.sqrt(v), self.eps)), -rate))


class Adamax(_WithMoments):
    """`Adam` by the greatest gradient rather than the root of squares (Kingma & Ba 2015, algorithm 2).

    Parameters
    ----------
    params, lr, betas, eps, weight_decay, maximize
        As for `Adam`.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, False, maximize)

    def update(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """The first moment over the greatest gradient, which fades."""
        p, g = self._decay(k, p, g)
        t = state["step"] = state.get("step", 0) + 1
        m = state["m"] = averaged(k, state.get("m"), g, self.betas[0])
        size = k.add(k.abs(g), self.eps)
        size = state["v"] = k.maximum(k.multiply(state["v"], self.betas[1]), size) if t > 1 else size
        return k.add(p, k.multiply(k.divide(m, size), -(self.lr / (1 - self.betas[0] ** t))))


class Rprop(Optimizer):
    """A step size for each number, which grows while its gradient keeps its sign (Riedmiller & Braun 1993).

    Parameters
    ----------
    params, lr, maximize
        As for `Adam`; `lr` is the first step size.
    etas : (float, float)
        What a step size is multiplied with when the sign changes, and when it stays.
    step_sizes : (float, float)
        The least and the greatest.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, maximize=maximize)
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"Rprop: etas are a number between 0 and 1, and one above 1; got {etas}")
        self.etas, self.step_sizes = tuple(etas), tuple(step_sizes)

    def keeps(self) -> tuple[str, ...]:
        """The gradients before, and step sizes."""
        return "before", "size"

    def update(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """By the sign of the gradient; where it changed, not at all."""
        before, size = state.get("before"), state.get("size")
        before, size = (
            _zeros(k, p) if before is None else before,
            k.multiply(_zeros(k, p, 1.0), self.lr) if size is None else size,
        )
        agreement = k.multiply(before, g)
        turned = k.less(agreement, 0)
        factor = k.where(turned, self.etas[0], k.where(k.less(0, agreement), self.etas[1], _zeros(k, p, 1.0)))
        least, most = self.step_sizes
        state["size"] = size = k.minimum(k.maximum(k.multiply(size, factor), least), most)
        state["before"] = g = k.where(turned, 0, g)
        return k.subtract(p, k.multiply(k.sign(g), size))


class Lion(Optimizer):
    """The sign of a mean of gradient and momentum (Chen et al. 2023), with decoupled weight decay.

    Parameters
    ----------
    params, lr, weight_decay, maximize
        As for `AdamW`.
    betas : (float, float)
        How much the momentum counts in the step, and in the momentum to come.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, maximize=maximize, weight_decay=weight_decay)
        self.betas, self.weight_decay = self._two(betas), weight_decay

    def keeps(self) -> tuple[str, ...]:
        """The momentum."""
        return ("m",)

    def update(self, k: Table, p: Any, g: Any, state: dict[str, Any]) -> Any:
        """``p - lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * p)``."""
        m = state.get("m")
        way = k.sign(averaged(k, m, g, self.betas[0]))
        state["m"] = averaged(k, m, g, self.betas[1])
        p = k.multiply(p, 1 - self.lr * self.weight_decay) if self.weight_decay else p
        return k.add(p, k.multiply(way, -self.lr))


__all__ = ["Adadelta", "Adagrad", "Adamax", "Lion", "NAdam", "RAdam", "Rprop"]
