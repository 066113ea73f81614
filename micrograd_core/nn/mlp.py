"""micrograd's own networks: `Neuron`, `Layer`, `MLP`. Called with Values they give Values, with a tensor a tensor.

A layer keeps its weights as one matrix. Its scalar parameters are views of the elements, so that both kinds of call,
and an optimiser, work on the same numbers. A call with Values records one step per layer, not one node per product.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

from micrograd_core.array.creation import widest
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.device import Device, default_device
from micrograd_core.dtypes import dtype as as_dtype
from micrograd_core.engine.apply import apply
from micrograd_core.engine.backward import deposit
from micrograd_core.engine.modes import enable_grad
from micrograd_core.errors import DeviceMismatch, ShapeError
from micrograd_core.interpreters.floats import number
from micrograd_core.nn.module import Module
from micrograd_core.ops import TABLE, rules
from micrograd_core.scalar.bridge import Cells, kind_of, numbers_of, slope_of_relu, upload
from micrograd_core.scalar.sweep import Block
from micrograd_core.scalar.value import Value, leaf, node, results
from micrograd_core.support.context import tracing

LINEAR = TABLE["linear"]
INPUT_RULE, WEIGHT_RULE, BIAS_RULE = rules("linear")
(RELU_RULE,) = rules("relu")


if TYPE_CHECKING:

    class Outputs(Value, list[Value]):  # type: ignore[misc]
        """What a network gives for Values: one, or a list of several. Types do not know which: either use is right."""


class ScalarModule(Module):
    """What `Neuron`, `Layer` and `MLP` share: scalar parameters over matrices, and two ways to be called."""

    if TYPE_CHECKING:

        @overload
        def __call__(self, x: Tensor) -> Tensor: ...
        @overload
        def __call__(self, x: Iterable[Value | float]) -> Outputs: ...
        def __call__(self, x: Any) -> Any:
            """`forward`, which see."""

    def stages(self) -> Sequence[Layer]:
        """The layers, in order.

        Returns
        -------
        sequence of Layer

        Examples
        --------
        >>> import micrograd_core as mg
        >>> len(mg.nn.MLP(3, [4, 1]).stages())
        2
        """
        raise NotImplementedError

    def __str__(self) -> str:
        return repr(self)  # as micrograd prints them

    def parameters(self) -> list[Any]:  # type: ignore[override]
        """Weights and biases as scalars, views of the matrices' elements: assign to ``p.data`` and ``p.grad``.

        Returns
        -------
        list of Value

        Examples
        --------
        >>> import micrograd_core as mg
        >>> len(mg.nn.Layer(3, 2).parameters())
        8
        """
        return [p for layer in self.stages() for p in layer.cells.parameters]

    def tensors(self) -> list[Tensor]:
        """The matrices and bias vectors that `parameters` are the elements of: what optimisers take.

        Returns
        -------
        list of Tensor

        Examples
        --------
        >>> import micrograd_core as mg
        >>> [p.shape for p in mg.nn.Layer(3, 2).tensors()]
        [(2, 3), (2,)]
        """
        return [p for layer in self.stages() for p in (layer.weight, layer.bias)]

    def zero_grad(self) -> None:  # type: ignore[override]
        """Set all gradients to 0.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> model = mg.nn.MLP(3, [1])
        >>> model([1.0, 2.0, 3.0]).backward()
        >>> model.zero_grad()
        >>> model.parameters()[0].grad
        0.0
        """
        for p in self.tensors() if tracing.get() is None else self.parameters():
            p.zero_grad()

    def forward(self, x: Any) -> Any:
        """Compute on Values, or on a batch.

        Parameters
        ----------
        x : sequence of Values and numbers, or Tensor (..., nin)

        Returns
        -------
        Value or list of Value, or Tensor (..., nout)
            A single Value where there is one output, as in micrograd.

        Raises
        ------
        ShapeError, DeviceMismatch
        """
        stages = self.stages()
        if not isinstance(x, Tensor):
            out = on_values(type(self).__name__, stages, _listed(self, x))
            return out[0] if len(out) == 1 else out
        for layer in stages:
            x = apply(LINEAR, (x, layer.weight, layer.bias))
            x = x.relu() if layer.nonlin else x
        return x


class Layer(ScalarModule):
    """Neurons side by side.

    Parameters
    ----------
    nin, nout : int
        The numbers of inputs and of neurons.
    nonlin : bool
        Whether the result passes a ReLU.
    device : Device or str, optional
        Where the weights are made; by default on the default device.
    dtype : DType or str, optional
        By default float64 where the device has it.
    generator : random.Random, optional
        Source of the weights; by default the module `random`, in micrograd's order, so that ``random.seed`` rules.

    Attributes
    ----------
    weight : Tensor, (nout, nin)
        Uniform in [-1, 1] at first.
    bias : Tensor, (nout,)
        Zero at first.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> y = mg.nn.Layer(3, 2)(mg.ones((5, 3)))
    >>> y.shape
    (5, 2)
    """

    def __init__(
        self, nin: int, nout: int, nonlin: bool = True, *, device: str | Device | None = None, dtype: Any = None,
        generator: random.Random | None = None,
    ) -> None:  # fmt: skip
        if nin < 1 or nout < 1:
            raise ShapeError(f"{type(self).__name__}: sizes must be at least 1; got {nin} inputs and {nout} outputs")
        where = default_device() if device is None else Device(device)
        kind = widest(where.kernels) if dtype is None else as_dtype(dtype)
        uniform = (generator or random).uniform
        rows = [[uniform(-1, 1) for _ in range(nin)] for _ in range(nout)]
        self.weight = asarray(rows, dtype=kind, device=where, requires_grad=True)
        self.bias = asarray([0.0] * nout, dtype=kind, device=where, requires_grad=True)
        self.nonlin = nonlin

    def stages(self) -> Sequence[Layer]:
        """The layer itself, in a tuple.

        Returns
        -------
        tuple of Layer

        Examples
        --------
        >>> import micrograd_core as mg
        >>> layer = mg.nn.Layer(3, 2)
        >>> layer.stages() == (layer,)
        True
        """
        return (self,)

    @property
    def cells(self) -> Cells:
        """The `Cells` of the layer: its scalar parameters, in the order of `parameters`."""
        cells: Cells | None = self.__dict__.get("_cells")
        if cells is None or not cells.fits(self.weight, self.bias):
            cells = self._cells = Cells(self.weight, self.bias)
        return cells

    @property
    def neurons(self) -> list[Neuron]:
        """The rows, as a list of Neuron that share the layer's numbers."""
        return [Neuron._of(self, row) for row in range(self.bias.shape[0])]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_cells"}  # made anew when asked for

    def __repr__(self) -> str:
        return f"Layer of [{', '.join(map(repr, self.neurons))}]"


class Neuron(ScalarModule):
    """``relu(w · x + b)``: a layer of one, or one row of a layer.

    Parameters
    ----------
    nin : int
        The number of inputs.
    nonlin : bool
        Whether the result passes a ReLU; without it, it is ``w · x + b``.
    **options
        `device`, `dtype` and `generator`, as for `Layer`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> y = mg.nn.Neuron(3)(mg.ones(3))
    >>> y.shape
    (1,)
    """

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __call__(self, x: Tensor) -> Tensor: ...
        @overload
        def __call__(self, x: Iterable[Value | float]) -> Value: ...
        def __call__(self, x: Any) -> Any:
            """`forward`, which see."""

    def __init__(self, nin: int, nonlin: bool = True, **options: Any) -> None:
        self._layer, self._row = Layer(nin, 1, nonlin, **options), 0

    @classmethod
    def _of(cls, layer: Layer, row: int) -> Neuron:
        neuron = object.__new__(cls)
        neuron._layer, neuron._row = layer, row
        return neuron

    @property
    def nonlin(self) -> bool:
        """Whether it ends in a ReLU."""
        return self._layer.nonlin

    @property
    def w(self) -> list[Value]:
        """The weights, as a list of Value."""
        return self.parameters()[:-1]

    @property
    def b(self) -> Value:
        """The bias, a Value."""
        bias: Value = self.parameters()[-1]
        return bias

    def stages(self) -> Sequence[Layer]:
        """The layer that the neuron is a row of, in a tuple.

        Returns
        -------
        tuple of Layer

        Examples
        --------
        >>> import micrograd_core as mg
        >>> len(mg.nn.Neuron(3).stages())
        1
        """
        return (self._layer,)

    def parameters(self) -> list[Any]:  # type: ignore[override]
        """The weights and the bias as scalars, views of the matrices' elements.

        Returns
        -------
        list of Value

        Examples
        --------
        >>> import micrograd_core as mg
        >>> len(mg.nn.Neuron(3).parameters())
        4
        """
        return self._layer.cells.of_row(self._row)

    def zero_grad(self) -> None:  # type: ignore[override]
        """Set all gradients to 0.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> neuron = mg.nn.Neuron(3)
        >>> neuron([1.0, 2.0, 3.0]).backward()
        >>> neuron.zero_grad()
        >>> neuron.b.grad
        0.0
        """
        for p in self.parameters():
            p.grad = 0.0

    def forward(self, x: Any) -> Any:
        """Compute on Values, or on a batch.

        Parameters
        ----------
        x : sequence of Values and numbers, or Tensor (..., nin)
            The inputs.

        Returns
        -------
        Value, or Tensor (..., 1)

        Raises
        ------
        ShapeError, DeviceMismatch
        """
        layer, row = self._layer, self._row
        if layer.bias.shape == (1,):
            return super().forward(x)
        if not isinstance(x, Tensor):
            return _in_scalars("Neuron", layer, _listed(self, x), [row])[0]
        y = apply(LINEAR, (x, layer.weight[row : row + 1], layer.bias[row : row + 1]))
        return y.relu() if layer.nonlin else y

    def __repr__(self) -> str:
        return f"{'ReLU' if self.nonlin else 'Linear'}Neuron({self._layer.weight.shape[1]})"


class MLP(ScalarModule):
    """Layers one after the other; all but the last end in a ReLU.

    Parameters
    ----------
    nin : int
    nouts : sequence of int
        Outputs of each layer.
    **options
        As for `Layer`.

    Examples
    --------
    >>> from micrograd_core import MLP, Tensor, Value
    >>> model = MLP(3, [4, 4, 1])
    >>> model
    MLP of [Layer of [ReLUNeuron(3), ReLUNeuron(3), ReLUNeuron(3), ReLUNeuron(3)], Layer of [ReLUNeuron(4), \
ReLUNeuron(4), ReLUNeuron(4), ReLUNeuron(4)], Layer of [LinearNeuron(4)]]
    >>> len(model.parameters())
    41
    >>> y = model([Value(1.0), Value(2.0), Value(-1.0)])
    >>> model(Tensor([[1.0, 2.0, -1.0]])).shape
    (1, 1)
    """

    def __init__(self, nin: int, nouts: Sequence[int], **options: Any) -> None:
        if isinstance(nouts, int):
            raise TypeError(f"MLP: nouts lists the outputs of each layer; got {nouts}. Write [{nouts}]")
        if not nouts:
            raise ShapeError("MLP: nouts must name the outputs of at least one layer; got none")
        sizes = [nin, *nouts]
        self.layers = [Layer(sizes[i], sizes[i + 1], nonlin=i != len(nouts) - 1, **options) for i in range(len(nouts))]

    def stages(self) -> Sequence[Layer]:
        """The layers, in order.

        Returns
        -------
        list of Layer

        Examples
        --------
        >>> import micrograd_core as mg
        >>> len(mg.nn.MLP(3, [4, 1]).stages())
        2
        """
        return self.layers

    def __repr__(self) -> str:
        return f"MLP of [{', '.join(map(repr, self.layers))}]"


# ── on Values ────────────────────────────────────────────────────────────────────────────────────────────────


def on_values(name: str, stages: Sequence[Layer], x: list[Any]) -> list[Any]:
    """The layers applied to scalars."""
    if tracing.get() is not None:
        for layer in stages:
            x = _in_scalars("Layer", layer, x, range(layer.bias.shape[0]))
        return x
    first = stages[0].weight
    kernels, dtype, kind = first._kernels, first.dtype, kind_of(first._kernels)
    numbers = [v._data for v in x if v.__class__ is Value]
    if len(numbers) == len(x) == first._handle.shape[1] and kind is Value and dtype.format in "df":
        inputs: list[Any] = x
        handle = kernels.upload(array(dtype.format, numbers), (len(x),), dtype)
    else:
        inputs = [v if isinstance(v, Value) else None for v in _checked(name, stages[0], x)]
        handle = upload(kernels, [number(v) if i is None else i._data for v, i in zip(x, inputs, strict=True)],
                        (len(x),), dtype)  # fmt: skip
    steps = []
    for layer in stages:
        weight, bias = layer.weight, layer.bias
        product = out = kernels.linear(handle, weight._handle, bias._handle)
        if layer.nonlin:
            out = kernels.relu(product)
        steps.append(
            (layer, weight._record, bias._record, handle, weight._handle, bias._handle, product, out, layer.nonlin)
        )
        handle = out
    return results(Pass(name, inputs, kernels, dtype, steps), numbers_of(kernels, steps[-1][-2], dtype), kind)


class Pass(Block):
    """One call of a network on Values: a step per layer, on whole vectors. Who looks inside gets a node per product."""

    __slots__ = ("dtype", "found", "kernels", "nodes", "steps")

    def __init__(self, label: str, inputs: Sequence[Value | None], kernels: Any, dtype: Any, steps: list[Any]) -> None:
        super().__init__(label, inputs, steps[-1][-2].shape[0])
        self.kernels, self.dtype, self.steps = kernels, dtype, steps
        self.nodes: list[Any] | None = None  # those of the results, once somebody has looked
        self.found: list[Any] | None = None  # the gradients of the results, as the last sweep found them

    def pull(self, gradients: list[Any]) -> Iterable[Any]:
        """Through all layers on the device: parameters get theirs here, those of the inputs are handed back."""
        self.found = gradients
        if self.nodes is not None:  # the sweep goes on through what is inside
            pairs = zip(gradients, self.nodes, strict=True)
            return [None if d is None else g * d for g, x in pairs for d in (x._da, x._db)]
        k = self.kernels
        g = upload(k, gradients, (self.width,), self.dtype)
        found = []  # the gradients of parameters, with what collects each
        for step in reversed(self.steps):
            _, weight_end, bias_end, x, weight, bias, product, out, nonlin = step
            if nonlin:
                g = RELU_RULE(k, g, out, product)
            if weight_end is not None:
                found.append((weight_end, WEIGHT_RULE(k, g, product, x, weight, bias)))
            if bias_end is not None:
                found.append((bias_end, BIAS_RULE(k, g, product, x, weight, bias)))
            g = INPUT_RULE(k, g, product, x, weight, bias)
        deposit(found, False)
        return numbers_of(k, g, self.dtype)

    def opened(self) -> Sequence[Any]:
        """The nodes that micrograd makes: each product, each sum, each ReLU, with gradients if there was a sweep."""
        if self.nodes is None:
            made: list[Any] = []
            numbers, nodes = numbers_of(self.kernels, self.steps[0][3], self.dtype), list(self.inputs)
            with enable_grad():
                for step in self.steps:
                    nodes, numbers = self._layer(step, nodes, numbers, made)
            if self.found is not None:
                _spread(made, nodes, self.found)
            inputs = [x for y in nodes for x in (y._a, y._b)]
            self.nodes, self.inputs, self.steps = nodes, inputs, []  # all or nothing, whatever interrupts
        return self.nodes

    def _layer(self, step: Any, nodes: list[Any], numbers: list[Any], made: list[Any]) -> tuple[list[Any], list[Any]]:
        """The nodes of one layer, and their numbers, from those of its inputs. All nodes are added to `made`."""
        layer, weight_end, bias_end, _, weight, bias, product, out, nonlin = step
        kind = kind_of(self.kernels)
        weights, sums, results = (numbers_of(self.kernels, x, self.dtype) for x in (weight, product, out))
        totals, width = numbers_of(self.kernels, bias, self.dtype), len(numbers)
        if layer.weight._record is weight_end and layer.bias._record is bias_end:
            ends = layer.cells.parameters
        else:  # the layer has got other parameters since
            ends = [leaf(x, kind) for row, b in enumerate(totals) for x in [*weights[row * width :][:width], b]]
        found = []
        for row, total in enumerate(totals):
            *cells, y = ends[row * (width + 1) :][: width + 1]
            for i, (w, x, data) in enumerate(zip(weights[row * width :][:width], nodes, numbers, strict=True)):
                term = w * data
                total = total + term if i < width - 1 else sums[row]
                times = node("*", term, cells[i], data, x, data if x is None else w, kind)
                y = node("+", total, y, 1.0, times, 1.0, kind)
                made += [times, y]
            if nonlin:
                y = node("relu", results[row], y, slope_of_relu(results[row]), kind=kind)
                made.append(y)
            found.append(y)
        return found, results


def _spread(made: list[Any], results: list[Any], gradients: list[Any]) -> None:
    """Give nodes, which come after their operands, the gradients that a sweep would have found at them."""
    inside = {id(x) for x in made}
    for x in made:
        x._grad = 0.0
    for x, g in zip(results, gradients, strict=True):
        x._grad = g
    for x in reversed(made):
        for operand, d in ((x._a, x._da), (x._b, x._db)):
            if id(operand) in inside:
                operand._grad = operand._grad + x._grad * d


def _listed(network: ScalarModule, x: Any) -> list[Any]:
    """Inputs as a list."""
    name = type(network).__name__
    if len(getattr(x, "shape", ())) > 1:
        raise TypeError(
            f"{name}: a batch is a Tensor; got {type(x).__name__} of shape {x.shape}. Write model(mg.asarray(x))"
        )
    try:
        return list(x)
    except TypeError:
        if hasattr(type(x), "__iter__"):
            raise  # in the midst of it
    raise TypeError(f"{name} takes a sequence of Values and numbers, or a Tensor; got {type(x).__name__} {x!r}")


def _checked(name: str, layer: Layer, x: list[Any]) -> list[Any]:
    """Inputs, after a look at how many there are and where."""
    nin = layer.weight.shape[1]
    if len(x) != nin:
        raise ShapeError(f"{name} takes {nin} inputs; got {len(x)}")
    place = str(layer.weight.device)
    for v in x:
        if isinstance(v, Value) and v._place() != place:
            raise DeviceMismatch(name, [(place, layer.weight.shape), (v._place(), ())])
    return x


def _in_scalars(name: str, layer: Layer, x: list[Any], rows: Iterable[int]) -> list[Any]:
    """One node per product, as micrograd computes: what a trace unrolls, and what a single neuron does."""
    out, inputs = [], _checked(name, layer, x)
    for row in rows:
        *weights, total = layer.cells.of_row(row)
        for w, each in zip(weights, inputs, strict=True):
            total = w * each + total
        out.append(total.relu() if layer.nonlin else total)
    return out


__all__ = ["MLP", "Layer", "Neuron"]
