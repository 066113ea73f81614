"""Recurrent networks: `RNN`, `LSTM` and `GRU` over sequences, and one step of each.

All steps of a layer in one direction are one record (see `micrograd_core.ops.network.recurrent`), after one product for
the inputs of all of them.
"""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

from micrograd_core.array.creation import arange, zeros
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.errors import ShapeError
from micrograd_core.nn.functional.common import publish
from micrograd_core.nn.initialization import Making, check_counts, parameter
from micrograd_core.nn.module import Module
from micrograd_core.ops.shared import chosen

WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
"""What the names of parameters begin with: those of inputs and of states."""


class _Kind(Module):
    """What a layer and a step share, by the kind of network."""

    operation: ClassVar[str]
    blocks: ClassVar[int]
    """Rows of a weight for each feature of the state."""
    cells: ClassVar[bool] = False
    """Whether there is a second state."""

    input_size: int
    hidden_size: int
    options: dict[str, Any]

    def _take_sizes(self, input_size: int, hidden_size: int) -> None:
        if input_size < 1 or hidden_size < 1:
            name = type(self).__name__
            raise ShapeError(f"{name}: input and hidden size must be at least 1; got {input_size} and {hidden_size}")
        self.input_size, self.hidden_size, self.options = input_size, hidden_size, {}

    def _make(self, suffix: str, inputs: int, outputs: int, bias: bool, made: Making) -> None:
        """The parameters whose names end in `suffix`, from so many features of inputs and of states."""
        rows = self.blocks * self.hidden_size
        shapes = ((rows, inputs), (rows, outputs), *((rows,),) * (2 * bias))
        for name, shape in zip(WEIGHTS, shapes, strict=False):
            setattr(self, f"{name}{suffix}", parameter(shape, fan_in=self.hidden_size, **made))

    def _weights(self, suffix: str) -> list[Any]:
        """Those parameters, with ``None`` for biases that are not there."""
        return [getattr(self, f"{name}{suffix}", None) for name in WEIGHTS]

    def _run(self, x: Tensor, states: tuple[Tensor, ...], suffix: str, lengths: Any, reverse: bool) -> Any:
        """The states of all steps, from inputs (time, batch, features)."""
        from_input, from_state, bias, state_bias = self._weights(suffix)
        beside: list[Any] = [] if lengths is None else [lengths]
        if self.operation == "gru":
            beside.insert(0, 0.0 if state_bias is None else state_bias)
        elif bias is not None and state_bias is not None:
            bias = bias + state_bias
        contributed = FUNCTIONS["linear"](x, from_input, 0.0 if bias is None else bias)
        return FUNCTIONS[self.operation](contributed, *states, from_state, *beside, reverse=reverse, **self.options)


class _Layers(_Kind):
    """Layers over sequences, as their subclasses say."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, *, proj_size: int = 0, **made: Unpack[Making],
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self._take_sizes(input_size, hidden_size)
        self.num_layers, self.proj_size = num_layers, proj_size
        check_counts(name, the_number_of_layers=num_layers)
        if not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout, the probability of a zero, is between 0 and 1; got {dropout}")
        if proj_size and (not self.cells or not 0 < proj_size < hidden_size):
            raise ShapeError(
                f"{name}: only an LSTM projects its states, to fewer features than they have; got proj_size "
                f"{proj_size} for hidden size {hidden_size}"
            )
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, dropout, bidirectional
        out = proj_size or hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else out * (1 + bidirectional)
            for suffix in self._suffixes(layer):
                self._make(suffix, inputs, out, bias, made)
                if proj_size:
                    setattr(self, f"weight_hr{suffix}", parameter((out, hidden_size), fan_in=hidden_size, **made))

    def _suffixes(self, layer: int) -> list[str]:
        """What the names of the parameters of a layer end in, for each direction."""
        return [f"_l{layer}", f"_l{layer}_reverse"][: 1 + self.bidirectional]

    def forward(self, x: Tensor, state: Any = None, lengths: Any = None) -> tuple[Tensor, Any]:
        """The last layer's state at every step, and the last state of every layer.

        Parameters
        ----------
        x : Tensor, (time, batch, input_size)
            Or (batch, time, input_size) with `batch_first`, or one sequence (time, input_size).
        state : Tensor or (Tensor, Tensor), optional
            The initial states (layers * directions, batch, features), of an LSTM with its cells; by default zeros.
        lengths : Tensor of int or list of int, optional
            How long each sequence is, from its start; what comes after is not looked at. There the result is 0, and
            the last states are those at the end of each sequence.

        Returns
        -------
        tuple
            Tensor like `x` with the states of the last layer, both directions side by side; and states as given.
        """
        name, x = type(self).__name__, asarray(x)
        single = x.ndim == 2
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name}: the input is ({'batch, time' if self.batch_first else 'time, batch'}, {self.input_size}), or "
                f"one sequence (time, {self.input_size}); got shape {x.shape}"
            )
        if single:
            x = x.expand_dims(1)
        elif self.batch_first:
            x = FUNCTIONS["permute_dims"](x, (1, 0, 2))
        initial = self._initial(x, state, single)
        limits, kept = self._limits(x, lengths)
        last: list[list[Tensor]] = [[] for _ in initial]
        place = 0
        direction = self._projected if self.proj_size else self._direction
        for layer in range(self.num_layers):
            found = []
            for reverse, suffix in enumerate(self._suffixes(layer)):
                states, ends = direction(x, tuple(each[place] for each in initial), suffix, limits, bool(reverse))
                found.append(states)
                for ended, end in zip(last, ends, strict=True):
                    ended.append(end)
                place += 1
            x = found[0] if len(found) == 1 else FUNCTIONS["concat"](found, axis=-1)
            if kept is not None:
                x = FUNCTIONS["where"](kept, x, 0)
            if self.dropout and self.training and layer + 1 < self.num_layers:
                x = FUNCTIONS["dropout"](x, self.dropout) if self.dropout < 1 else x * 0
        final = [FUNCTIONS["stack"](each, axis=0) for each in last]
        if single:
            x, final = x[:, 0], [each[:, 0] for each in final]
        elif self.batch_first:
            x = FUNCTIONS["permute_dims"](x, (1, 0, 2))
        return x, tuple(final) if self.cells else final[0]

    def _initial(self, x: Tensor, state: Any, single: bool) -> list[Tensor]:
        """Initial states (layers * directions, batch, features), and cells."""
        count = self.num_layers * (1 + self.bidirectional)
        shapes = [(count, x.shape[1], self.proj_size or self.hidden_size)]
        shapes += [(count, x.shape[1], self.hidden_size)] * self.cells
        if state is None:
            return [zeros(shape, dtype=x.dtype, device=x.device) for shape in shapes]
        given = list(state) if self.cells and isinstance(state, (tuple, list)) else [state]
        given = [each.expand_dims(1) if single else each for each in given]
        if [tuple(each.shape) for each in given] != shapes:
            wanted = " and ".join(str(shape[:1] + shape[2:] if single else shape) for shape in shapes)
            raise ShapeError(
                f"{type(self).__name__}: the initial state has shape {wanted}; got "
                f"{' and '.join(str(tuple(each.shape)) for each in given)}"
            )
        return given

    def _limits(self, x: Tensor, lengths: Any) -> tuple[Any, Any]:
        """The lengths as a tensor, and whether each step belongs to its sequence, (time, batch, 1)."""
        if lengths is None:
            return None, None
        limits = asarray(lengths, device=x.device)
        if limits.shape != x.shape[1:2] or not limits.dtype.is_integer:
            raise ShapeError(
                f"{type(self).__name__}: lengths are integers, one for each of {x.shape[1]} sequences; got "
                f"{limits.dtype} of shape {limits.shape}"
            )
        steps = arange(x.shape[0], dtype=limits.dtype, device=x.device).reshape(-1, 1, 1)
        return limits, steps < limits.reshape(-1, 1)

    def _direction(
        self, x: Tensor, states: tuple[Tensor, ...], suffix: str, lengths: Any, reverse: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The states of all steps of one layer in one direction, and the last."""
        made = self._run(x, states, suffix, lengths, reverse)
        end = 0 if reverse else -1
        return made.states, tuple(part[end] for part in made[: len(states)])

    def _projected(
        self, x: Tensor, states: tuple[Tensor, ...], suffix: str, lengths: Any, reverse: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Step by step, since each state goes through the projection (Sak et al. 2014)."""
        h, c = states
        from_input, from_state, *biases = self._weights(suffix)
        projection = getattr(self, f"weight_hr{suffix}")
        steps: list[Any] = [None] * x.shape[0]
        nothing = zeros((self.hidden_size * 4, self.hidden_size), dtype=x.dtype, device=x.device)
        contributed = FUNCTIONS["linear"](x, from_input, 0.0 if biases[0] is None else biases[0] + biases[1])
        for t in range(x.shape[0])[:: -1 if reverse else 1]:
            gates = contributed[t] + h @ from_state.mT
            made: Any = FUNCTIONS["lstm"](gates.expand_dims(0), x.new_zeros(c.shape), c, nothing)
            new, cell = made.states[0] @ projection.mT, made.cells[0]
            if lengths is not None:
                here = (lengths > t).reshape(-1, 1)
                new, cell = FUNCTIONS["where"](here, new, h), FUNCTIONS["where"](here, cell, c)
            h, c = new, cell
            steps[t] = h
        return FUNCTIONS["stack"](steps, axis=0), (h, c)

    def facts(self) -> str:
        """The sizes, and what was asked for."""
        usual = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        told = [f"{name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        return ", ".join([str(self.input_size), str(self.hidden_size), *told])


class RNN(_Layers):
    """Layers of ``h = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)``, or with `relu` (Elman 1990).

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input, and of the states.
    num_layers : int
        The number of layers; each after the first reads the states of the one before.
    nonlinearity : str
        ``'tanh'`` or ``'relu'``.
    bias : bool
        Whether the layers have biases.
    batch_first : bool
        Whether input and result are (batch, time, features); states never are.
    dropout : float
        The probability of a zero between layers, while training.
    bidirectional : bool
        Whether each layer also runs from the last step to the first; the states of both are side by side.
    generator : Generator or random.Random, optional
        Where the initial numbers come from; by default the default generator. All parameters start
        uniform in ``[-1/sqrt(hidden_size), 1/sqrt(hidden_size)]``.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 : Tensor
        (hidden_size, features) and (hidden_size,), of layer 0; with ``_reverse`` of the other direction.

    Raises
    ------
    ShapeError, ValueError
        When a size is less than 1, `dropout` is no probability, or another argument does not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((7, 2, 4))
    >>> states, last = mg.nn.RNN(4, 3)(x)
    >>> states.shape, last.shape
    ((7, 2, 3), (1, 2, 3))
    """

    operation, blocks = "rnn", 1

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, **made: Unpack[Making],
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, **made)
        self.options = {"nonlinearity": chosen("RNN", "nonlinearity", nonlinearity, ("tanh", "relu"))}


class LSTM(_Layers):
    """Layers of long short-term memory (Hochreiter & Schmidhuber 1997): see the operation `lstm`.

    The state is a pair, of states and cells.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input, and of the states.
    num_layers : int
        The number of layers; each after the first reads the states of the one before.
    bias : bool
        Whether the layers have biases.
    batch_first : bool
        Whether input and result are (batch, time, features); states never are.
    dropout : float
        The probability of a zero between layers, while training.
    bidirectional : bool
        Whether each layer also runs from the last step to the first; the states of both are side by side.
    proj_size : int
        Features that states are projected to after each step (Sak et al. 2014); 0 for no projection.
    generator : Generator or random.Random, optional
        Where the initial numbers come from; by default the default generator. All parameters start
        uniform in ``[-1/sqrt(hidden_size), 1/sqrt(hidden_size)]``.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 : Tensor
        (4 * hidden_size, features) and (4 * hidden_size,), of layer 0; with ``_reverse`` of the other direction.

    Raises
    ------
    ShapeError, ValueError
        When a size is less than 1, `dropout` is no probability, or another argument does not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((7, 2, 4))
    >>> states, (last, cells) = mg.nn.LSTM(4, 3)(x)
    >>> states.shape, last.shape, cells.shape
    ((7, 2, 3), (1, 2, 3), (1, 2, 3))
    """

    operation, blocks, cells = "lstm", 4, True


class GRU(_Layers):
    """Layers of gated recurrent units (Cho et al. 2014): see the operation `gru`.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input, and of the states.
    num_layers : int
        The number of layers; each after the first reads the states of the one before.
    bias : bool
        Whether the layers have biases.
    batch_first : bool
        Whether input and result are (batch, time, features); states never are.
    dropout : float
        The probability of a zero between layers, while training.
    bidirectional : bool
        Whether each layer also runs from the last step to the first; the states of both are side by side.
    proj_size : int
        Must be 0: only an LSTM projects its states.
    generator : Generator or random.Random, optional
        Where the initial numbers come from; by default the default generator. All parameters start
        uniform in ``[-1/sqrt(hidden_size), 1/sqrt(hidden_size)]``.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 : Tensor
        (3 * hidden_size, features) and (3 * hidden_size,), of layer 0; with ``_reverse`` of the other direction.

    Raises
    ------
    ShapeError, ValueError
        When a size is less than 1, `dropout` is no probability, or another argument does not fit.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((7, 2, 4))
    >>> states, last = mg.nn.GRU(4, 3)(x)
    >>> states.shape, last.shape
    ((7, 2, 3), (1, 2, 3))
    """

    operation, blocks = "gru", 3


class _Cell(_Kind):
    """One step."""

    bias_ih: Tensor | None = None
    bias_hh: Tensor | None = None

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, **made: Unpack[Making]) -> None:
        self._take_sizes(input_size, hidden_size)
        self._make("", input_size, hidden_size, bias, made)

    def forward(self, x: Tensor, state: Any = None) -> Any:
        """Compute the next state.

        Parameters
        ----------
        x : Tensor, (batch, input_size)
            Or (input_size,), without the batch.
        state : Tensor, (batch, hidden_size), optional
            By default zeros; of an `LSTMCell` a pair of state and cell.

        Returns
        -------
        Tensor, (batch, hidden_size)
            Of an `LSTMCell` a pair; without the batch where `x` has none.

        Raises
        ------
        ShapeError
            When `x` has another shape.
        """
        x = asarray(x)
        single = x.ndim == 1
        rows = x.expand_dims(0) if single else x
        if rows.ndim != 2 or rows.shape[1] != self.input_size:
            raise ShapeError(f"{type(self).__name__}: the input is (batch, {self.input_size}); got shape {x.shape}")
        shape = (rows.shape[0], self.hidden_size)
        if state is None:
            given = [zeros(shape, dtype=x.dtype, device=x.device) for _ in range(1 + self.cells)]
        else:
            given = [each.expand_dims(0) if single else each for each in (state if self.cells else (state,))]
        made = self._run(rows.expand_dims(0), tuple(given), "", None, False)
        found = tuple(part[0, 0] if single else part[0] for part in made[: len(given)])
        return found if self.cells else found[0]

    def facts(self) -> str:
        """The sizes."""
        return f"{self.input_size}, {self.hidden_size}{'' if self.bias_ih is not None else ', bias=False'}"


class RNNCell(_Cell):
    """One step of an `RNN`.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input, and of the state.
    bias : bool
        Whether the layer has biases.
    nonlinearity : str
        ``'tanh'`` or ``'relu'``.
    generator : Generator or random.Random, optional
        Where the initial numbers come from; by default the default generator.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Attributes
    ----------
    weight_ih, weight_hh : Tensor, (hidden_size, features)
    bias_ih, bias_hh : Tensor, (hidden_size,), or None

    Raises
    ------
    ShapeError
        When a size is less than 1.
    ValueError
        When `nonlinearity` is another word.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x, state = mg.ones((2, 4)), mg.zeros((2, 3))
    >>> mg.nn.RNNCell(4, 3)(x, state).shape
    (2, 3)
    """

    operation, blocks = "rnn", 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", **made: Unpack[Making]
    ) -> None:
        super().__init__(input_size, hidden_size, bias, **made)
        self.options = {"nonlinearity": chosen("RNNCell", "nonlinearity", nonlinearity, ("tanh", "relu"))}


class LSTMCell(_Cell):
    """One step of an `LSTM`. The state is a pair, of states and cells.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input, and of the state.
    bias : bool
        Whether the layer has biases.
    generator : Generator or random.Random, optional
        Where the initial numbers come from; by default the default generator.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Attributes
    ----------
    weight_ih, weight_hh : Tensor, (4 * hidden_size, features)
    bias_ih, bias_hh : Tensor, (4 * hidden_size,), or None

    Raises
    ------
    ShapeError
        When a size is less than 1.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x = mg.ones((2, 4))
    >>> state, cell = mg.nn.LSTMCell(4, 3)(x)
    >>> state.shape, cell.shape
    ((2, 3), (2, 3))
    """

    operation, blocks, cells = "lstm", 4, True


class GRUCell(_Cell):
    """One step of a `GRU`.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input, and of the state.
    bias : bool
        Whether the layer has biases.
    generator : Generator or random.Random, optional
        Where the initial numbers come from; by default the default generator.
    device : Device or str, optional
        Where the parameters are made; by default on the default device.
    dtype : DType or str
        The dtype of the parameters.

    Attributes
    ----------
    weight_ih, weight_hh : Tensor, (3 * hidden_size, features)
    bias_ih, bias_hh : Tensor, (3 * hidden_size,), or None

    Raises
    ------
    ShapeError
        When a size is less than 1.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> x, state = mg.ones((2, 4)), mg.zeros((2, 3))
    >>> mg.nn.GRUCell(4, 3)(x, state).shape
    (2, 3)
    """

    operation, blocks = "gru", 3


publish(globals())
