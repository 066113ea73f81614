"""Random numbers that a seed determines: the same on every backend and device, whatever was drawn elsewhere.

A `Generator` is a key and a position in that key's stream of numbers; `ops.standard.random` says which function of the
two the numbers are. `uniform`, `bernoulli`, `randint` and `permutation` give the same bits everywhere; `normal` goes
through the device's logarithm and sine, and agrees up to rounding: about 1e-6 standard deviations in float32.

Without ``generator=`` the functions draw from the default generator: that of the innermost `use_generator` of this
context, else the process's, which `manual_seed` restarts. Threads and asyncio tasks do not see each other's
`use_generator`; they share the process's generator, and which of them draws first decides who gets which numbers. Give
each its own, from `Generator.split`, where that must not be.
"""

from __future__ import annotations

import math
import operator
import os
from typing import Any

from micrograd_core.array.creation import finished
from micrograd_core.array.tensor import Tensor
from micrograd_core.device import Device, default_device
from micrograd_core.dtypes import DType, bool_, check_scalar, dtype as as_dtype, float32, int64, integer_range
from micrograd_core.engine.apply import create
from micrograd_core.errors import DTypeError, ShapeError
from micrograd_core.layout import Shape, as_shape
from micrograd_core.ops import TABLE
from micrograd_core.ops.arguments import advising
from micrograd_core.ops.standard.random import KEY_BITS, philox, start_of, words_of_uniform
from micrograd_core.suggestions import door
from micrograd_core.support import context
from micrograd_core.support.locks import lock

_SPLITS, _FORKS = 1 << 255, 3 << 254  # blocks from here on become keys of other generators; no stream gets that far
_lock = lock()

State = tuple[int, int, int]


class Generator:
    """A stream of random numbers.

    Parameters
    ----------
    seed : int, optional
        From 0 to 2**128 - 1, the key of Philox4x64-10; by default the system's entropy.

    Raises
    ------
    ValueError, TypeError
        For any other seed.

    Notes
    -----
    Uniform numbers and raw words are those of ``numpy.random.Philox(key=seed)``.

    Examples
    --------
    >>> from micrograd_core import random
    >>> g = random.Generator(0)
    >>> a, b = g.split()
    >>> random.randint((5,), 0, 100, generator=a).tolist() == random.randint((5,), 0, 100, generator=b).tolist()
    False
    """

    __slots__ = ("_block", "_forks", "_key", "_splits")
    _key: int
    _block: int
    _splits: int

    def __init__(self, seed: int | None = None) -> None:
        key = int.from_bytes(os.urandom(KEY_BITS // 8)) if seed is None else operator.index(seed)
        trace = context.programs.get()
        if trace is not None:  # its numbers are the same at each call
            trace.made.append(self)
        self._restart(key)

    def _restart(self, key: int) -> None:
        self.state = (*start_of(key).values(), 0)  # type: ignore[assignment]
        self._forks = 0  # of this process, since then

    @property
    def state(self) -> State:
        """Key, next block, and how many generators were split off, as a tuple of int: all there is. Settable."""
        stream = self._stream()
        return stream._key, stream._block, stream._splits

    @state.setter
    def state(self, state: State) -> None:
        trace = context.programs.get()
        if trace is not None:
            trace.refuse_seed(self)
        stream = self._stream()
        stream._key, stream._block, stream._splits = state

    def split(self, count: int = 2) -> tuple[Generator, ...]:
        """Make generators with streams of their own. This one's stream continues as if nothing had happened.

        Parameters
        ----------
        count : int, default 2
            How many to make.

        Returns
        -------
        tuple of Generator

        Examples
        --------
        >>> import micrograd_core as mg
        >>> first, second, third = mg.random.Generator(0).split(3)
        """
        trace = context.programs.get()
        if trace is not None:
            trace.refuse_seed(self)
        with _lock:
            stream = self._noted()
            first, stream._splits = stream._splits, stream._splits + count  # in one line: no signal handler in between
        return tuple(Generator(_descendant(stream._key, _SPLITS + first + i)) for i in range(count))

    def take(self, words: int) -> dict[str, int]:
        """Reserve the next words of the stream, for a kernel that computes them. The next draw starts a new block.

        Parameters
        ----------
        words : int
            How many words of 64 bits.

        Returns
        -------
        dict of str to int
            ``key`` and ``block``, as kernels take them.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> mg.random.Generator(5).take(8)
        {'key': 5, 'block': 1}
        """
        with _lock:
            stream = self._noted()
            block, stream._block = stream._block, stream._block + -(-words // 4)  # in one line, as above
        trace = context.programs.get()
        return {"key": stream._key, "block": block if trace is None else trace.position(self, block)}

    def give_back(self, place: dict[str, int], words: int) -> None:
        """Undo a `take` of words that were not used, unless somebody else has drawn since.

        Parameters
        ----------
        place : dict of str to int
            What `take` returned.
        words : int
            How many words that were.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> g = mg.random.Generator(5)
        >>> g.give_back(g.take(8), 8)
        >>> g.take(8)
        {'key': 5, 'block': 1}
        """
        with _lock:
            stream = self._stream()
            if (stream._key, stream._block) == (place["key"], place["block"] + -(-words // 4)):
                stream._block = place["block"]

    def _stream(self) -> Generator:
        """What to draw from in this context: the generator itself, or what stands for it after `restore_states`."""
        others = context.restored_generators.get()
        return self if others is None else others.get(self, self)

    def _noted(self) -> Generator:
        """`_stream`, after telling each `saving_states` where the generator stands."""
        for seen in context.saved_states.get():
            seen.setdefault(self, self.state)
        return self._stream()

    def __repr__(self) -> str:
        return f"<Generator key={self._key:#x} block={self._block}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, self.state


def _descendant(key: int, block: int) -> int:
    """The key of another stream: the numbers of a block that no stream gets to."""
    low, high, *_ = philox(key, block)
    return low | high << 64


def _restore(*state: int) -> Generator:
    generator = Generator(0)
    generator.state = state  # type: ignore[assignment]
    return generator


# ── the default generator ────────────────────────────────────────────────────────────────────────────────────

_process = Generator()


def default_generator() -> Generator:
    """The generator that functions draw from without ``generator=``.

    Returns
    -------
    Generator
        That of `use_generator`, or else the process's own.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> with mg.random.use_generator(0) as g:
    ...     print(mg.random.default_generator() is g)
    True
    """
    return context.generators.get() or _process


def chosen_generator(generator: Generator | None) -> Generator:
    """The one given, or the default one."""
    if generator is None:
        return default_generator()
    if not isinstance(generator, Generator):
        raise TypeError(
            f"generator is a random.Generator; got {type(generator).__name__} {generator!r}. Make one with "
            "random.Generator(seed), and keep it: what is drawn later goes on where it stands"
        )
    return generator


def manual_seed(seed: int) -> Generator:
    """Restart the default generator with a seed, and return it.

    Parameters
    ----------
    seed : int
        From 0 to 2**128 - 1.

    Returns
    -------
    Generator
        The default generator.

    Raises
    ------
    ValueError, TypeError
        For any other seed.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> with mg.random.use_generator(1):
    ...     g = mg.random.manual_seed(0)
    ...     print(mg.random.default_generator() is g)
    True
    """
    generator = default_generator()
    generator._restart(Generator(seed)._key)
    return generator


class use_generator(context.during):  # noqa: N801
    """The default generator inside a ``with`` block, or inside a decorated function; ``as`` gives the generator.

    Parameters
    ----------
    generator : Generator or int
        The generator, or the seed of a new one.

    Raises
    ------
    ValueError, TypeError
        For a seed that `Generator` refuses.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> with mg.random.use_generator(0):
    ...     x = mg.random.uniform(3)
    >>> with mg.random.use_generator(0):
    ...     y = mg.random.uniform(3)
    >>> (x == y).all()
    Tensor(True)
    """

    def __init__(self, generator: Generator | int) -> None:
        super().__init__(context.generators, generator)

    def __enter__(self) -> Generator:  # type: ignore[override]
        self._value = self._value if isinstance(self._value, Generator) else Generator(self._value)
        return super().__enter__()  # type: ignore[no-any-return]


# ── in forked children ───────────────────────────────────────────────────────────────────────────────────────


def _before_fork() -> None:
    """Give the child that is about to be a number."""
    numbered = []
    for generator in {_process, default_generator()}:
        number, generator._forks = generator._forks, generator._forks + 1
        numbered.append((generator, number))
    context.forking.set(numbered)


def _in_child() -> None:
    """Give the default generators streams of the child's own."""
    for generator, number in context.forking.get():
        generator._restart(_descendant(generator._key, _FORKS + number))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)

# ── drawing the same numbers again ───────────────────────────────────────────────────────────────────────────


def saving_states(seen: dict[Generator, State]) -> context.during:
    """Collect in `seen` the generators that are drawn from inside a ``with`` block, and where each stood before."""
    return context.during(context.saved_states, (*context.saved_states.get(), seen))


def restore_states(states: dict[Generator, State]) -> None:
    """From here on in this context, generators start from `states`. Nobody outside of it sees them elsewhere."""
    context.restored_generators.set({generator: _restore(*state) for generator, state in states.items()})


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────


def _draw(
    name: str, words: int, shape: Shape, dtype: DType, device: Any, generator: Generator | None, **params: Any
) -> Tensor:
    root = (default_device() if device is None else Device(device)).kernels
    root.native(dtype)
    context.about_to_make(math.prod(shape))
    place = chosen_generator(generator).take(words * context.draws())
    return create(Tensor, TABLE[name], context.at_depth(root), shape=shape, dtype=dtype, **place, **params)


def _shape(name: str, shape: Any, *numbers: Any) -> Shape:
    """The shape, which comes first; NumPy's users give the numbers first, and 0 would be a shape without elements."""
    last = next((x for x in numbers if isinstance(x, (tuple, list))), None)
    if isinstance(shape, Generator):
        raise TypeError(f"{name}: the generator is given by name: write {name}({last or (2, 3)}, generator=generator)")
    if last is not None or isinstance(shape, float) or _seems_numpys(shape, *numbers):
        given = [x for x in (shape, *numbers) if not isinstance(x, (tuple, list))]
        call = ", ".join(map(repr, (tuple(last or ()), *given[:2])))
        raise TypeError(
            f"{name}: the shape comes first, such as {name}({call}); got {shape!r}. Of no elements it is (0,)"
        )
    return as_shape(name, shape)


def _seems_numpys(shape: Any, *numbers: Any) -> bool:
    """Whether it would be ``low, high, size`` or ``mean, std, size``; else 0 is a count that happens to be 0."""
    if not numbers or not isinstance(shape, int) or shape > 0:
        return False
    second, size = numbers
    return bool(second > shape) and (isinstance(size, int) or (isinstance(second, int) and size == 1.0))


def _floating(name: str, dtype: Any) -> DType:
    found = as_dtype(dtype)
    if found.kind != "real floating":
        raise DTypeError(f"{name}: the numbers are real; dtype {found} does not hold them. Use dtype='float32'")
    return found


def _scaled(x: Tensor, scale: float, offset: float, requires_grad: bool) -> Tensor:
    x = x if scale == 1 else x * float(scale)
    return finished(x if offset == 0 else x + float(offset), requires_grad)


@advising
def uniform(
    shape: int | tuple[int, ...] = (),
    low: float = 0.0,
    high: float = 1.0,
    *,
    dtype: Any = float32,
    device: str | Device | None = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers of the uniform distribution on ``[low, high)``.

    They are multiples of 2**-24 (float32; 2**-53 for float64, 2**-11 for float16, 2**-8 for bfloat16), times
    ``high - low``, plus `low`: the same bits on every device. Rounding may make the largest equal to `high`.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of the result; ``()``, one number, by default.
    low, high : float
        The ends of the interval.
    dtype : DType or str
        A real floating dtype.
    device : Device or str, optional
        Where the tensor is made; by default on the default device.
    generator : Generator, optional
        Where the numbers come from; by default the default generator.
    requires_grad : bool
        Whether gradients of the result are recorded.

    Returns
    -------
    Tensor
        Of `shape`.

    Raises
    ------
    DTypeError, ValueError
        When `dtype` is not real floating, or `high` less than `low`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> g = mg.random.Generator(0)
    >>> mg.random.uniform((2, 3), -1.0, 1.0, generator=g).shape
    (2, 3)
    """
    chosen = _floating("uniform", dtype)
    wanted = _shape("uniform", shape, *([low, high] if (low, high) != (0.0, 1.0) else ()))
    if not low <= high or not math.isfinite(high - low):
        raise ValueError(
            f"uniform: low must not be above high, and both finite; got low={low}, high={high}. The shape comes first: "
            f"uniform({shape}, low, high)"
        )
    words = words_of_uniform(math.prod(wanted), chosen)
    return _scaled(_draw("random_uniform", words, wanted, chosen, device, generator), high - low, low, requires_grad)


@advising
def normal(
    shape: int | tuple[int, ...] = (),
    mean: float = 0.0,
    std: float = 1.0,
    *,
    dtype: Any = float32,
    device: str | Device | None = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers of the normal distribution. Devices agree on them up to rounding.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of the result; ``()``, one number, by default.
    mean, std : float
        The mean and the standard deviation.
    dtype : DType or str
        A real floating dtype.
    device : Device or str, optional
        Where the tensor is made; by default on the default device.
    generator : Generator, optional
        Where the numbers come from; by default the default generator.
    requires_grad : bool
        Whether gradients of the result are recorded.

    Returns
    -------
    Tensor
        Of `shape`.

    Raises
    ------
    DTypeError, ValueError
        When `dtype` is not real floating, or `std` is negative.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> g = mg.random.Generator(0)
    >>> mg.random.normal(4, generator=g).shape
    (4,)
    """
    chosen = _floating("normal", dtype)
    wanted = _shape("normal", shape, *([mean, std] if (mean, std) != (0.0, 1.0) else ()))
    if not std >= 0:
        raise ValueError(f"normal: std must not be negative; got {std}")
    words = words_of_uniform(math.prod(wanted) + 1, chosen if chosen.bits > 32 else float32)
    return _scaled(_draw("random_normal", words, wanted, chosen, device, generator), std, mean, requires_grad)


@advising
def randint(
    shape: int | tuple[int, ...],
    low: int,
    high: int,
    *,
    dtype: Any = int64,
    device: str | Device | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Integers from `low` to ``high - 1``, all equally likely to within ``(high - low) / 2**64``.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of the result.
    low, high : int
        The least integer, and the one after the greatest.
    dtype : DType or str
        An integer dtype.
    device : Device or str, optional
        Where the tensor is made; by default on the default device.
    generator : Generator, optional
        Where the numbers come from; by default the default generator.

    Returns
    -------
    Tensor
        Of `shape`.

    Raises
    ------
    DTypeError, ValueError
        When `dtype` is not an integer dtype that holds the integers, or `high` is not above `low`.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> g = mg.random.Generator(0)
    >>> x = mg.random.randint(100, 0, 6, generator=g)
    >>> ((x >= 0) & (x < 6)).all()
    Tensor(True)
    """
    chosen, wanted = as_dtype(dtype), _shape("randint", shape, low, high)
    first, stop = operator.index(low), operator.index(high)
    if not chosen.is_integer:
        raise DTypeError(f"randint: dtype {chosen} does not hold integers; use dtype='int64'")
    if first >= stop:
        raise ValueError(
            f"randint: there is no integer from low={low} up to but without high={high}. The shape comes first: "
            f"randint({shape}, low, high)"
        )
    for bound in (first, stop - 1):
        check_scalar("randint", bound, chosen)
    return _draw("random_integers", math.prod(wanted), wanted, chosen, device, generator, low=first, high=stop)


@advising
def bernoulli(
    shape: int | tuple[int, ...] | None = None,
    p: float | Tensor = 0.5,
    *,
    dtype: Any = bool_,
    device: str | Device | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """True with probability `p`, to within 2**-24.

    Parameters
    ----------
    shape : int or tuple of int, optional
        By default that of `p`.
    p : float or Tensor
        Probabilities, which broadcast to `shape`.
    dtype : DType or str
        The dtype of the result, bool by default.
    device : Device or str, optional
        Where the tensor is made; by default on that of `p`, or the default device.
    generator : Generator, optional
        Where the numbers come from; by default the default generator.

    Returns
    -------
    Tensor
        Of `shape`.

    Raises
    ------
    ValueError, ShapeError
        When the number `p` is no probability, or the tensor does not broadcast.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> g = mg.random.Generator(0)
    >>> mg.random.bernoulli((2, 2), 1.0, generator=g)
    Tensor([[True, True],
            [True, True]])
    """
    if isinstance(shape, (float, Tensor)):
        raise TypeError("bernoulli: the shape comes first; of probabilities alone write bernoulli(p=p)")
    given = p.shape if isinstance(p, Tensor) else ()
    wanted = as_shape("bernoulli", given if shape is None else shape)
    if isinstance(p, Tensor):
        device, p = device or p.device, p.detach()
    elif not 0 <= p <= 1:
        raise ValueError(f"bernoulli: p is a probability, from 0 to 1; got {p}")
    below: Any = uniform(wanted, device=device, generator=generator) < p
    if below.shape != wanted:
        raise ShapeError(f"bernoulli: probabilities of shape {given} do not broadcast to shape {wanted}")
    chosen = as_dtype(dtype)
    return below if chosen is bool_ else below.astype(chosen)  # type: ignore[no-any-return]


@advising
def permutation(
    n: int, *, dtype: Any = int64, device: str | Device | None = None, generator: Generator | None = None
) -> Tensor:
    """The integers ``0 .. n - 1`` in random order: to shuffle the rows of `x`, index it with ``permutation(len(x))``.

    Parameters
    ----------
    n : int
        How many integers.
    dtype : DType or str
        An integer dtype.
    device : Device or str, optional
        Where the tensor is made; by default on the default device.
    generator : Generator, optional
        Where the numbers come from; by default the default generator.

    Returns
    -------
    Tensor
        Of shape (n,).

    Raises
    ------
    DTypeError, ShapeError
        When `dtype` is not an integer dtype that holds them, or `n` is negative.

    Examples
    --------
    >>> import micrograd_core as mg
    >>> g = mg.random.Generator(0)
    >>> mg.sort(mg.random.permutation(4, generator=g))
    Tensor([0, 1, 2, 3])
    """
    if not hasattr(n, "__index__") or (isinstance(n, Tensor) and n.ndim):
        raise TypeError(
            "permutation: n is a number of rows; to shuffle those of x, write x[random.permutation(len(x))]"
        )
    chosen, wanted = as_dtype(dtype), as_shape("permutation", operator.index(n))
    if not chosen.is_integer or n - 1 > integer_range(chosen)[1]:
        raise DTypeError(f"permutation: dtype {chosen} does not hold the integers below {n}; use dtype='int64'")
    return _draw("random_permutation", -(-n // 4) * 4, wanted, chosen, device, generator)


__all__ = [
    "Generator", "bernoulli", "default_generator", "manual_seed", "normal", "permutation", "randint", "uniform",
    "use_generator",
]  # fmt: skip

door(globals())
