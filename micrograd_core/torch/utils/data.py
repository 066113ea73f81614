"""Data sets, and a loader of batches over `micrograd_core.data`."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from micrograd_core import random
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor, asarray
from micrograd_core.data.collating import collate

PROCESSES = frozenset(
    "num_workers pin_memory pin_memory_device timeout worker_init_fn prefetch_factor persistent_workers in_order "
    "multiprocessing_context".split()
)
"""Arguments of a `DataLoader` about processes and memory, which change no batch."""


class Dataset:
    """Examples by their places: subclasses define ``__getitem__`` and ``__len__``.

    Examples
    --------
    >>> from micrograd_core.torch.utils.data import Dataset
    >>> class Squares(Dataset):
    ...     def __getitem__(self, i):
    ...         return i * i
    ...
    ...     def __len__(self):
    ...         return 5
    >>> len(Squares() + Squares())
    10
    """

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __add__(self, other: Any) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Examples one after another: subclasses define ``__iter__``.

    Examples
    --------
    >>> from micrograd_core.torch.utils.data import DataLoader, IterableDataset
    >>> class Squares(IterableDataset):
    ...     def __iter__(self):
    ...         return (i * i for i in range(3))
    >>> list(DataLoader(Squares(), batch_size=2))
    [Tensor([0, 1]), Tensor([4])]
    """


class TensorDataset(Dataset):
    """Rows of several tensors, as tuples.

    Parameters
    ----------
    *tensors : Tensor
        With the same length of the first axis.

    Raises
    ------
    ValueError
        When lengths differ.

    Examples
    --------
    >>> import micrograd_core.torch as torch
    >>> rows = torch.utils.data.TensorDataset(torch.arange(3), torch.zeros(3))
    >>> rows[1]
    (Tensor(1), Tensor(0.))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if len({len(x) for x in tensors}) != 1:
            raise ValueError(f"TensorDataset: tensors have as many rows as each other; got {[len(x) for x in tensors]}")
        self.tensors = tensors

    def __getitem__(self, i: Any) -> tuple[Tensor, ...]:
        return tuple(x[i] for x in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class Subset(Dataset):
    """The examples of a data set at some places.

    Parameters
    ----------
    dataset : Dataset
        What has ``__getitem__``.
    indices : sequence of int
        The places, in the order of the subset.

    Examples
    --------
    >>> from micrograd_core.torch.utils.data import Subset
    >>> Subset([10, 20, 30], [2, 0])[0]
    30
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, i: Any) -> Any:
        return self.dataset[self.indices[i]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """The examples of several data sets, one set after the other.

    Parameters
    ----------
    datasets : iterable of Dataset
        What has ``__getitem__`` and ``__len__``.

    Examples
    --------
    >>> from micrograd_core.torch.utils.data import ConcatDataset
    >>> both = ConcatDataset([[10, 20], [30]])
    >>> len(both), both[2]
    (3, 30)
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __getitem__(self, i: int) -> Any:
        for dataset in self.datasets:
            if i < len(dataset):
                return dataset[i]
            i -= len(dataset)
        raise IndexError("there is no such example")

    def __len__(self) -> int:
        return sum(map(len, self.datasets))


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset]:
    """Split a data set at random.

    Parameters
    ----------
    dataset : Dataset
        What has ``__getitem__`` and ``__len__``.
    lengths : sequence of int or float
        How many examples each part has, or which shares, between 0 and 1.
    generator : Generator, optional
        The source of the order; by default the default generator.

    Returns
    -------
    list of Subset

    Raises
    ------
    ValueError
        When the lengths do not add up to the number of examples.

    Examples
    --------
    >>> from micrograd_core.torch.utils.data import random_split
    >>> [len(part) for part in random_split(range(10), [0.8, 0.2])]
    [8, 2]
    """
    count = len(dataset)
    sizes = [int(n * count) if 0 < n < 1 else int(n) for n in lengths]
    if any(0 < n < 1 for n in lengths):
        for i in range(count - sum(sizes)):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != count:
        raise ValueError(f"random_split: lengths add up to the {count} examples; got {list(lengths)}")
    order = iter(random.permutation(count, generator=generator).tolist())
    return [Subset(dataset, list(itertools.islice(order, n))) for n in sizes]


class RandomSampler:
    """Places of a data set in a random order, a new one at each ``for``.

    Parameters
    ----------
    data_source : Dataset
        What has ``__len__``.
    replacement : bool, default False
        Whether a place may come more than once.
    num_samples : int, optional
        How many places come; by default as many as there are examples.
    generator : Generator, optional
        The source of the order; by default the default generator.

    Examples
    --------
    >>> from micrograd_core.torch.utils.data import RandomSampler
    >>> sorted(RandomSampler(range(3)))
    [0, 1, 2]
    """

    def __init__(
        self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self.num_samples = len(data_source) if num_samples is None else num_samples

    def __iter__(self) -> Iterator[int]:
        if self.replacement:
            drawn = random.randint((self.num_samples,), 0, len(self.data_source), generator=self.generator)
            return iter(drawn.tolist())
        return iter(random.permutation(len(self.data_source), generator=self.generator).tolist()[: self.num_samples])

    def __len__(self) -> int:
        return self.num_samples


class DataLoader:
    """Batches of a data set, collated to tensors on the default device; each ``for`` is an epoch.

    Parameters
    ----------
    dataset : Dataset
        What has ``__getitem__`` and ``__len__``, or `IterableDataset`.
    batch_size : int or None, default 1
        Examples in a batch; ``None`` gives single examples.
    shuffle : bool, default False
        Whether each epoch has a random order, from `generator`.
    sampler, batch_sampler : iterable, optional
        The places of examples, or lists of places for each batch; they replace `shuffle`, and `batch_size`.
    collate_fn : function, optional
        From a list of examples to a batch; by default `default_collate`.
    drop_last : bool, default False
        Whether a last batch with fewer examples is left out.
    generator : Generator, optional
        The source of the order; by default the default generator.
    **options
        Those of PyTorch's processes and memory (``num_workers``, ``pin_memory``, …), which change no batch.

    Raises
    ------
    TypeError
        For another argument.

    Examples
    --------
    >>> from micrograd_core.torch.utils.data import DataLoader
    >>> list(DataLoader([1, 2, 3], batch_size=2))
    [Tensor([1, 2]), Tensor([3])]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Any = None,
        batch_sampler: Any = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        drop_last: bool = False,
        generator: Any = None,
        **options: Any,
    ) -> None:
        if unknown := options.keys() - PROCESSES:
            raise TypeError(f"DataLoader() got unexpected keyword arguments {sorted(unknown)}")
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.sampler = RandomSampler(dataset, generator=generator) if shuffle and sampler is None else sampler
        self.batch_sampler, self.collate_fn = batch_sampler, collate_fn or default_collate

    def _examples(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            return iter(self.dataset)  # type: ignore[call-overload]
        return (self.dataset[i] for i in (range(len(self.dataset)) if self.sampler is None else self.sampler))

    def __iter__(self) -> Iterator[Any]:
        if self.batch_sampler is not None:
            yield from (self.collate_fn([self.dataset[i] for i in places]) for places in self.batch_sampler)
            return
        examples = self._examples()
        if self.batch_size is None:
            yield from examples
            return
        while batch := list(itertools.islice(examples, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield self.collate_fn(batch)

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        count = len(self.dataset if self.sampler is None else self.sampler)
        size = self.batch_size or 1
        return count // size if self.drop_last else -(-count // size)


def default_collate(batch: list[Any]) -> Any:
    """Stack examples to a batch: tensors, arrays and numbers along a new axis, tuples and dicts part by part.

    Parameters
    ----------
    batch : list
        Examples of one kind and shape.

    Returns
    -------
    Tensor, or a list or dict of such
        Strings stay a list.

    Examples
    --------
    >>> from micrograd_core.torch.utils.data import default_collate
    >>> default_collate([(1, 2.0), (3, 4.0)])
    [Tensor([1, 3]), Tensor([2., 4.])]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return FUNCTIONS["stack"](batch)
    if isinstance(first, (tuple, list)):
        return [default_collate(list(part)) for part in zip(*batch, strict=True)]
    if isinstance(first, dict):
        return {key: default_collate([each[key] for each in batch]) for key in first}
    return batch if isinstance(first, str) else asarray(collate(batch))


sys.modules[f"{__name__}.dataset"] = sys.modules[f"{__name__}.dataloader"] = sys.modules[__name__]
