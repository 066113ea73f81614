"""Data sets, and a loader of batches over `micrograd_core.data`."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from micrograd_core import random
from micrograd_core.array.functions import FUNCTIONS
from micrograd_core.array.tensor import Tensor
from micrograd_core.data.collating import collate

PROCESSES = frozenset(
    "num_workers pin_memory pin_memory_device timeout worker_init_fn prefetch_factor persistent_workers in_order "
    "multiprocessing_context".split()
)
"""Arguments of a `DataLoader` about processes and memory, which change no batch."""


class Dataset:
    """Examples by their places: subclasses define ``__getitem__`` and ``__len__``."""

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __add__(self, other: Any) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Examples one after another: subclasses define ``__iter__``."""


class TensorDataset(Dataset):
    """Rows of several tensors, as tuples."""

    def __init__(self, *tensors: Tensor) -> None:
        if len({len(x) for x in tensors}) != 1:
            raise ValueError(f"TensorDataset: tensors have as many rows as each other; got {[len(x) for x in tensors]}")
        self.tensors = tensors

    def __getitem__(self, i: Any) -> tuple[Tensor, ...]:
        return tuple(x[i] for x in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class Subset(Dataset):
    """The examples of a set at some places."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, i: Any) -> Any:
        return self.dataset[self.indices[i]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """The examples of several sets, one set after the other."""

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
    """Sets of random examples, of so many each, or of such shares."""
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
    """Places in a random order, with replacement where asked for."""

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
    dataset
        What has ``__getitem__`` and ``__len__``, or `IterableDataset`.
    batch_size : int or None
        Examples in a batch; ``None`` gives single examples.
    shuffle : bool
        Whether each epoch has a random order, from the default generator or `generator`.
    sampler, batch_sampler : iterable, optional
        Places, or lists of places for each batch, in their place.
    collate_fn : function, optional
        From a list of examples to a batch.
    drop_last : bool
        Whether a last batch with fewer examples is left out.
    **options
        Those of PyTorch's processes and memory (``num_workers``, ``pin_memory``, …), which change no batch.
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
    """Examples stacked to a batch: tensors, arrays and numbers along a new axis, tuples and dicts part by part."""
    first = batch[0]
    if isinstance(first, Tensor):
        return FUNCTIONS["stack"](batch)
    if isinstance(first, (tuple, list)):
        return [default_collate(list(part)) for part in zip(*batch, strict=True)]
    if isinstance(first, dict):
        return {key: default_collate([each[key] for each in batch]) for key in first}
    if isinstance(first, str):
        return batch
    return collate(batch)


sys.modules[f"{__name__}.dataset"] = sys.modules[f"{__name__}.dataloader"] = sys.modules[__name__]
