"""`batches`: examples in batches, shuffled by a seed, fetched ahead by a thread, and resumed where an epoch stopped.

The thread and the loop share two queues, which signal handlers and the garbage collector may use too: requests, one for
each batch that may lie ready, and batches. The loop's generator holds a `_Line`. When the generator ends, by a
``break``, an exception, an interrupt or its last reference, the line dies, and then the thread ends.
"""

from __future__ import annotations

import atexit
import hashlib
import operator
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any
from weakref import ref

from micrograd_core.data.collating import collate, tensors
from micrograd_core.data.errors import DataError, NoLength
from micrograd_core.data.sources import Indexed, Rows, Streamed, source
from micrograd_core.device import Device, default_device
from micrograd_core.random import Generator, use_generator


class Batches:
    """Examples in batches of `size`, as tensors on a device; each ``for`` over the result is an epoch.

    `state_dict` says where the last one is. Leaving a ``for`` starts a new epoch next time, unless `load_state_dict`
    was called.

    Parameters
    ----------
    data
        A tuple or a dict of arrays (NumPy's, tensors, torch's, lists), one row an example; one array; a pandas, polars
        or pyarrow table; a `Dataset`; a list, or what has ``__len__`` and ``__getitem__``, of examples (numbers,
        arrays, tuples, dicts); a Hugging Face dataset; an iterable of examples; a torch ``DataLoader``.
    size : int or None
        Examples in a batch. ``None`` where `data` come in batches: a ``DataLoader``, or an iterable of batches.
    shuffle : bool or int
        Whether each epoch has an order of its own, made from the seed and the number of the epoch. What has no places
        is shuffled in part, through a buffer of so many examples, or not at all. A ``DataLoader`` has its own order.
    seed : int
        The same seed gives the same batches, on every device and with every version of every library.
    drop_last : bool
        Whether the last batch is left out where it is smaller than the others.
    device : str or Device, optional
        Where the tensors are to be; by default the default device.
    prefetch : int
        How many batches a background thread has ready; 0 is without a thread.
    transform : callable, optional
        Is given each batch before it goes to the device (NumPy arrays stay such), in the background thread, and
        returns what is to come instead. Random numbers from `micrograd_core.random` that are drawn there, or in
        ``data[i]``, are those of the batch: whoever takes it up again gets them again.
    part : (int, int)
        Which part of each batch comes, and of how many: ``(rank, ranks)`` where several processes train together.
        Parts differ by at most one example.

    Raises
    ------
    DataError
        When there is nothing to make batches of, or settings do not fit the data.

    Examples
    --------
    >>> from micrograd_core import data
    >>> epoch = data.batches(([[1.0], [2.0], [3.0]], [10, 20, 30]), 2, seed=1)
    >>> for x, y in epoch:
    ...     print(x.tolist(), y.tolist())
    [[2.0], [3.0]] [20, 30]
    [[1.0]] [10]
    """

    epoch: int
    """Which epoch this is: they are counted from 0."""
    position: int
    """How many batches of the epoch were handed out."""

    def __init__(
        self, data: Any, size: int | None, *, shuffle: bool | int = True, seed: int = 0, drop_last: bool = False,
        device: str | Device | None = None, prefetch: int = 2, transform: Callable[[Any], Any] | None = None,
        part: tuple[int, int] = (0, 1),
    ) -> None:  # fmt: skip
        self._source = source(data)
        self._size = None if size is None else operator.index(size)
        self._shuffle, self._drop_last = shuffle, drop_last
        self._seed = operator.index(seed)
        self._device = None if device is None else Device(device)
        self._prefetch = operator.index(prefetch)
        self._transform, self._part = transform, part
        self.epoch = self.position = 0
        self._resumed = False
        self._current: object = None
        self._check(type(data).__name__)

    def _check(self, kind: str) -> None:
        found, size = self._source, self._size
        if size is not None and size < 1:
            raise DataError(f"a batch has 1 example or more; got size={size}")
        if not 0 <= self._part[0] < self._part[1] or (self._part[1] > 1 and size is None):
            raise DataError(f"part is (rank, ranks), of batches that are made here; got {self._part}, size={size}")
        if self._prefetch < 0:
            raise DataError(f"prefetch is how many batches lie ready, 0 or more; got {self._prefetch}")
        buffer = not isinstance(self._shuffle, bool)
        if buffer and self._shuffle < 2:
            raise DataError(f"a shuffle buffer has 2 examples or more; got shuffle={self._shuffle}")
        if isinstance(found, Streamed):
            if found.loader and (size is not None or buffer):
                raise DataError("a DataLoader makes the batches and their order: write batches(loader, None)")
            if size is None and self._drop_last:
                raise DataError("drop_last is for batches that are made here; with size=None they come as they are")
            if size is None and buffer:
                raise DataError("with size=None batches come as they are, in their order: write shuffle=False")
            if not found.loader and self._shuffle is True:
                raise DataError(
                    f"a {kind} has no places to shuffle: write shuffle=False, or shuffle=1000 for a buffer of 1000 "
                    "examples of which one is drawn at a time"
                )
            return
        if size is None:
            raise DataError(
                f"a {kind} does not come in batches: say how many examples one has, as in batches(data, 32)"
            )
        if buffer:
            raise DataError(f"a {kind} is shuffled whole: write shuffle=True; a buffer is for what has no places")
        if not found.length:
            raise DataError(f"there are no examples in this {kind}")
        self._own(range(min(size, found.length) if self._drop_last else found.length % size or size))
        if self._drop_last and size > found.length:
            raise DataError(
                f"no batch of {size:,} can be made of {found.length:,} examples, and drop_last leaves out smaller "
                "ones; take a smaller size, or drop_last=False"
            )

    @property
    def examples(self) -> int | None:
        """How many examples an epoch goes through, as an int, or None where that is not known."""
        if self._size is None or self._source.length is None:
            return None
        return len(self) * self._size if self._drop_last else self._source.length

    @property
    def seed(self) -> int:
        """The seed of the orders, as an int."""
        return self._seed

    def __len__(self) -> int:
        length, size = self._source.length, self._size
        if length is None:
            raise NoLength("the data have no length, so that nobody knows how many batches there will be")
        if size is None:
            return length
        return length // size if self._drop_last else -(-length // size)

    def __repr__(self) -> str:
        of = "batches" if self._source.length is None else f"{len(self):,} batches"
        size = "" if self._size is None else f" of {self._size:,}"
        return f"<{of}{size}: epoch {self.epoch}, {self.position:,} handed out>"

    # ── where one stopped ────────────────────────────────────────────────────────────────────────────────────

    def state_dict(self) -> dict[str, Any]:
        """Where the last ``for`` is. Batches that lie ready do not count.

        Returns
        -------
        dict of str to int, bool or None

        Examples
        --------
        >>> import micrograd_core as mg
        >>> epoch = mg.data.batches([1, 2, 3], 2)
        >>> epoch.state_dict()["position"]
        0
        """
        given = {name: getattr(self, f"_{name}") for name in ("seed", "shuffle", "size", "drop_last")}
        return {"epoch": self.epoch, "position": self.position, **given, "length": self._source.length}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next ``for`` continue where another one was, with exactly the same batches.

        The seed is taken over. Data that come one after another are read again up to that place.

        Parameters
        ----------
        state : dict
            From ``state_dict()`` of batches of the same data and settings.

        Raises
        ------
        DataError
            When it is not such a state; nothing has changed then.

        Examples
        --------
        >>> import micrograd_core as mg
        >>> first, second = (mg.data.batches([1, 2, 3], 2) for _ in range(2))
        >>> second.load_state_dict(first.state_dict())
        """
        own = self.state_dict()
        wrong = [name for name in own if name not in state] if isinstance(state, dict) else [*own]
        if wrong:
            raise DataError(f"this is no state of batches: it lacks {' and '.join(wrong)}")
        meanings = {"size": "examples in a batch", "length": "as the length of the data"}
        for name in ("size", "length", "shuffle", "drop_last"):
            if state[name] != own[name]:
                meant = meanings.get(name, f"for {name}")
                raise DataError(
                    f"the state is of batches with {state[name]} {meant}, and these have {own[name]}: what would have "
                    "come there cannot come here"
                )
        if not all(type(state[name]) is int for name in ("epoch", "position", "seed")) or not (
            state["epoch"] >= 0 and 0 <= state["position"] <= (len(self) if own["length"] is not None else 1 << 62)
        ):
            raise DataError(f"this is no state of batches: epoch {state['epoch']!r}, position {state['position']!r}")
        self.epoch, self.position, self._seed = state["epoch"], state["position"], state["seed"]
        self._resumed, self._current = True, None

    # ── an epoch ─────────────────────────────────────────────────────────────────────────────────────────────

    def __iter__(self) -> Iterator[Any]:
        if self.position and not self._resumed:
            self.epoch, self.position = self.epoch + 1, 0
        self._current = token = object()
        return self._handed_out(token, self.epoch, self.position)

    def _handed_out(self, token: object, epoch: int, position: int) -> Iterator[Any]:
        for batch in self._ahead(epoch, position) if self._prefetch else self._made(epoch, position):
            position += 1
            if self._current is token:
                self.position, self._resumed = position, False
            yield batch
            del batch
        if self._current is token:
            self.epoch, self.position = epoch + 1, 0

    def _ahead(self, epoch: int, position: int) -> Iterator[Any]:
        """The batches of `_made`, made in a thread."""
        process, line = 0, None
        try:
            while True:
                if line is None or process != os.getpid():  # a forked child has none of its parent's threads
                    process, line = os.getpid(), _Line(self._made(epoch, position), self._prefetch)
                try:
                    batch, error = line.ready.get(timeout=0.1)
                except Empty:  # interrupts get through in between, on every system
                    continue
                if error is not None:
                    try:
                        raise error
                    finally:
                        del error  # whose traceback has this frame
                if batch is _END:
                    return
                line.requests.put(None)
                position += 1
                yield batch
                del batch
        finally:
            del line  # also where an error keeps this frame

    def _made(self, epoch: int, position: int) -> Iterator[Any]:
        """The batches of an epoch from a position on, as tensors."""
        device = default_device() if self._device is None else self._device
        if isinstance(self._source, Indexed):
            size = self._size or 1
            order = self._order(epoch, self._source.length)
            for i in range(position, len(self)):
                with self._drawing(epoch, i):
                    batch = self._finished(*self._source.take(self._own(order[i * size : (i + 1) * size])), device)
                yield batch
                del batch
            return
        groups, i = self._groups(self._source, epoch), 0
        while True:
            with self._drawing(epoch, i):
                group = next(groups, _END)
                if group is _END:
                    break
                if i >= position:
                    made = collate(self._own(group)) if self._size is not None else group
                    batch = self._finished(made, self._size is not None or self._source.loader, device)
            if i >= position:
                yield batch
                del batch
            i += 1
        if not i:
            raise DataError("no batch came: the data have no examples" + ", or fewer than one batch" * self._drop_last)

    def _own(self, examples: Any) -> Any:
        """The part of a batch that is this rank's."""
        rank, ranks = self._part
        if len(examples) < ranks:
            raise DataError(f"a batch has {len(examples)} examples for {ranks} ranks; take another size, or drop_last")
        return examples[len(examples) * rank // ranks : len(examples) * (rank + 1) // ranks]

    def _order(self, epoch: int, length: int) -> Rows:
        if not self._shuffle:
            return range(length)
        draw = random.Random(f"{self._seed}/{epoch}").random  # whose numbers Python promises never to change
        return sorted(range(length), key=lambda i: draw())

    def _groups(self, found: Streamed, epoch: int) -> Iterator[Any]:
        """Lists of examples that are a batch each; or batches, as they come."""
        items = found.start()
        if self._size is None:
            yield from items
            return
        if self._shuffle:
            items = _through_a_buffer(items, self._shuffle, random.Random(f"{self._seed}/{epoch}").random)
        while group := list(islice(items, self._size)):
            if len(group) == self._size or not self._drop_last:
                yield group

    def _drawing(self, epoch: int, position: int) -> use_generator:
        """Random numbers that belong to a batch, wherever and whenever it is made."""
        told = f"{self._seed}/{epoch}/{position}".encode()
        return use_generator(Generator(int.from_bytes(hashlib.blake2b(told, digest_size=16).digest())))

    def _finished(self, host: Any, own: bool, device: Device) -> Any:
        if self._transform is None:
            return tensors(host, device, own)
        return tensors(self._transform(host), device, own=False)


batches = Batches


def _through_a_buffer(items: Iterator[Any], size: int, draw: Callable[[], float]) -> Iterator[Any]:
    """Each example changes places with one that waits, drawn at random."""
    waiting = list(islice(items, size))
    for item in items:
        i = int(draw() * size)
        waiting[i], item = item, waiting[i]
        yield item
    yield from sorted(waiting, key=lambda item: draw())


# ── a thread that fetches ────────────────────────────────────────────────────────────────────────────────────

_END: Any = object()


class _Line:
    """Held by the loop that takes batches; the thread that makes them ends when the line is gone.

    A weak reference tells the thread, so there is no line of Python in which an interrupt could come.
    """

    __slots__ = ("__weakref__", "ready", "requests")

    def __init__(self, made: Iterator[Any], ahead: int) -> None:
        self.requests: SimpleQueue[Any] = SimpleQueue()
        self.ready: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        for _ in range(ahead):
            self.requests.put(None)
        known = ref(self, self.requests.put)
        thread = threading.Thread(
            target=copy_context().run,  # with the default device and the like of the loop
            args=(_work, made, known, self.requests, self.ready),
            name="micrograd batches",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError as error:  # of a lock of `threading`, whose wait an interrupt ended
            if not isinstance(error.__context__, KeyboardInterrupt):
                raise
            error.__traceback__ = None  # whose frames have the interrupt, which is to be raised: a cycle
            raise error.__context__ from None


def _work(
    made: Iterator[Any], known: ref[_Line], requests: SimpleQueue[Any],
    ready: SimpleQueue[tuple[Any, BaseException | None]],
) -> None:  # fmt: skip
    """Make a batch for each request, as long as somebody takes them."""
    thread = threading.current_thread()
    _running[thread] = requests
    try:
        while requests.get() is None and known() is not None and not _over.is_set():
            batch = next(made, _END)
            ready.put((batch, None))
            if batch is _END:
                return
            del batch
    except BaseException as error:
        ready.put((_END, error))
    finally:
        del _running[thread]


_running: dict[threading.Thread, SimpleQueue[Any]] = {}
_over = threading.Event()


@atexit.register
def _end_all() -> None:
    """Before the interpreter takes itself down around the threads; one that waits for its data is left behind."""
    _over.set()
    for thread, requests in list(_running.items()):
        requests.put(_END)
        thread.join(1)
