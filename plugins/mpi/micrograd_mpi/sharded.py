"""`Sharded`: each rank keeps, and computes, its own part of what an optimiser keeps (ZeRO, stage 1).

Gradients are added up so that each rank gets the sum for its part (Rajbhandari et al. 2020, https://arxiv.org/abs/1910.02054);
it moves that part of the parameters, and then every rank gets all parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from micrograd_core import Tensor, asarray, concat, no_grad, zeros
from micrograd_core.errors import ShapeError
from micrograd_core.nn import Module
from micrograd_core.optim import Optimizer
from micrograd_mpi.collectives import all_gather, all_reduce, reduce_scatter
from micrograd_mpi.job import World, world
from micrograd_mpi.parallel import DataParallel, start_alike

EPSILON = 1e-6
"""Beside a norm that is divided by, as in `optim.clip_grad_norm`."""


class Sharded:
    """An optimiser of whose state each rank keeps a part only.

    Parameters
    ----------
    model : DataParallel or Module
        Whose gradients are those of this rank: a `DataParallel` leaves it to `step` to average them.
    make : function
        From a list of tensors to the optimiser of them, as ``lambda params: optim.AdamW(params, lr=1e-3)``. Its rule
        must treat each number by itself: one that takes norms of whole parameters is refused.
    group : World, optional
        The ranks, by default those of the `DataParallel`, or all.
    max_norm : float, optional
        Gradients are scaled down to this norm of all of them together.

    Attributes
    ----------
    rule : Optimizer
        That of this rank's part; schedules take it, and ``rule.lr`` can be set.

    Raises
    ------
    ValueError
        For a model without parameters, complex ones, or a rule that does not treat each number by itself.
    WorldError
        When models differ, or a rank does not come.
    """

    def __init__(
        self, model: DataParallel | Module, make: Callable[[list[Tensor]], Optimizer], *, group: World | None = None,
        max_norm: float | None = None,
    ) -> None:  # fmt: skip
        if isinstance(model, DataParallel):
            model.synchronizes = False
            self.group = model.group
        else:
            self.group = world() if group is None else group
            start_alike(model, self.group)
        self.params = [p for p in model.parameters() if p.requires_grad]
        if not self.params or any(p.dtype.is_complex for p in self.params):
            raise ValueError("Sharded: the model needs parameters of real numbers")
        _refuse_mixing(make)
        kinds = dict.fromkeys((p.dtype, p.device) for p in self.params)
        self._parts = [_Part(self.group, [p for p in self.params if (p.dtype, p.device) == each]) for each in kinds]
        self.rule = make([part.shard for part in self._parts])
        self.max_norm = max_norm

    def __repr__(self) -> str:
        return f"Sharded({type(self.rule).__name__}, {self.group!r})"

    @no_grad()
    def step(self) -> None:
        """Move all parameters along the mean of the gradients of all ranks; those without one count as zero.

        Raises
        ------
        WorldError
            When a rank does not come.
        """
        for part in self._parts:
            part.take()
        if self.max_norm is not None:
            squares = [(part.gradient.astype("float32") ** 2).sum() for part in self._parts]
            total = all_reduce(sum(squares[1:], squares[0]), group=self.group) ** 0.5
            factor = (self.max_norm / (total + EPSILON)).minimum(1.0)
            for part in self._parts:
                part.gradient = part.gradient * factor.astype(part.gradient.dtype)
        for part in self._parts:
            part.shard.grad = part.gradient
        self.rule.step()
        for part in self._parts:
            part.give()

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for p in self.params:
            p.grad = None

    def state_dict(self) -> dict[str, Tensor]:
        """What the optimiser of all parameters would keep, on every rank; all ranks call it together.

        Returns
        -------
        dict of str to Tensor
            As of an optimiser that is not sharded: such a one loads it, and so do more ranks, or fewer.

        Raises
        ------
        WorldError
            When a rank does not come.
        """
        found: dict[str, Tensor] = {}
        for name, x in self.rule.state_dict().items():
            number, kept = name.split(".", 1)
            part = self._parts[int(number)]
            for p, piece in zip(part.params, part.whole(x) if x.ndim else [x] * len(part.params), strict=True):
                place = next(i for i, each in enumerate(self.params) if each is p)
                found[f"{place}.{kept}"] = piece
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict` of any number of ranks, or of an optimiser of the same kind that is not sharded.

        Parameters
        ----------
        state : mapping of str to Tensor or array

        Raises
        ------
        ShapeError
            When it is of other parameters.
        """
        own: dict[str, Any] = {}
        places = {id(p): i for i, p in enumerate(self.params)}
        for number, part in enumerate(self._parts):
            prefixes = [f"{places[id(p)]}." for p in part.params]
            for kept in [name.removeprefix(prefixes[0]) for name in state if name.startswith(prefixes[0])]:
                pieces = [state.get(prefix + kept) for prefix in prefixes]
                if any(x is None for x in pieces):
                    raise ShapeError(f"Sharded.load_state_dict: {kept!r} is there for some parameters only")
                own[f"{number}.{kept}"] = pieces[0] if kept == "step" else part.own([asarray(x) for x in pieces])
        self.rule.load_state_dict(own)


class _Part:
    """Parameters of one dtype on one device, one after the other, and this rank's part of that."""

    def __init__(self, group: World, params: list[Tensor]) -> None:
        self.group, self.params = group, params
        self.length = -(-sum(p.size for p in params) // group.size)
        self.shard = Tensor(self.own([p.detach() for p in params]), dtype=params[0].dtype, device=params[0].device)
        self.gradient: Any = None

    def _ranges(self) -> Iterator[tuple[int, int, int]]:
        """Of each parameter in this rank's part: its number, and from where to where in it."""
        first, start = self.group.rank * self.length, 0
        for i, p in enumerate(self.params):
            low, high = max(first - start, 0), min(first + self.length - start, p.size)
            if low < high:
                yield i, low, high
            start += p.size

    def own(self, tensors: Sequence[Tensor]) -> Tensor:
        """Of tensors like the parameters, the part of this rank."""
        for x, p in zip(tensors, self.params, strict=True):
            if x.shape != p.shape:
                raise ShapeError(
                    f"Sharded: a tensor of shape {tuple(x.shape)} stands for a parameter of {tuple(p.shape)}"
                )
        return self._filled([tensors[i].reshape(-1)[low:high] for i, low, high in self._ranges()], self.length)

    def _filled(self, pieces: Sequence[Tensor], length: int) -> Tensor:
        """One after the other, and zeros up to a length."""
        missing = length - sum(x.size for x in pieces)
        like = self.params[0] if not pieces else pieces[0]
        made: Tensor = concat(
            [*pieces, *([zeros((missing,), dtype=like.dtype, device=like.device)] if missing else [])]
        )
        return made

    def take(self) -> None:
        """Get the part of this rank: of the mean gradient, and of the parameters as they are."""
        grads = [zeros(p.shape, dtype=p.dtype, device=p.device) if p.grad is None else p.grad for p in self.params]
        flat = self._filled([g.reshape(-1) for g in grads], self.length * self.group.size)
        self.gradient = reduce_scatter(flat, "mean", self.group)
        self.shard.data = self.own([p.detach() for p in self.params])

    def whole(self, x: Tensor) -> list[Tensor]:
        """From each rank's part to tensors like the parameters."""
        flat, start, found = all_gather(x, self.group), 0, []
        for p in self.params:
            found.append(flat[start : start + p.size].reshape(p.shape))
            start += p.size
        return found

    def give(self) -> None:
        """All parameters get what all ranks made of their parts."""
        for p, x in zip(self.params, self.whole(self.shard.detach()), strict=True):
            p.data = x


def _refuse_mixing(make: Callable[[list[Tensor]], Optimizer]) -> None:
    """Try the rule on a matrix, and on its halves: numbers that move differently depend on each other."""
    matrix = asarray([[1.0, -2.0, 0.5, 3.0], [0.25, -1.0, 2.0, -0.5]])
    flat = matrix.reshape(-1)
    results = []
    for pieces in ([matrix], [flat[:4], flat[4:]]):
        tensors = [Tensor(x.copy()) for x in pieces]
        rule = make(tensors)
        for turn in (1.0, -0.3):
            for x, piece in zip(tensors, pieces, strict=True):
                x.grad = piece * turn
            rule.step()
        results.append(concat([x.detach().reshape(-1) for x in tensors]).tolist())
    if any(abs(a - b) > 1e-6 for a, b in zip(*results, strict=True)):
        raise ValueError(
            f"Sharded: {type(rule).__name__} does not treat each number by itself, and a rank has parts of parameters "
            "only; take Adam, AdamW, SGD or another rule that does, or the rule without Sharded"
        )
