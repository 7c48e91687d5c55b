"""Samplers: the order in which examples are visited, as indices or batches of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import weft
from weft.errors import ArgumentError, ArgumentTypeError, NotDefinedError


class Sampler:
    """Yields indices: subclasses define `__iter__` and, where it is known, `__len__`."""

    def __class_getitem__(cls, item: Any) -> type[Sampler]:
        return cls

    def __iter__(self) -> Iterator[Any]:
        raise NotDefinedError(
            "Subclasses of Sampler should implement __iter__.",
            expected="a method __iter__(self)",
            got=f"{type(self).__name__}",
            fix="define __iter__ in the subclass",
        )


class SequentialSampler(Sampler):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """All indices in random order, or `num_samples` of them, with or without replacement."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise ArgumentTypeError(
                f"replacement should be a boolean value, but got {replacement=}",
                expected="True or False",
                got=repr(replacement),
                fix="pass a bool",
            )
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples <= 0):
            raise ArgumentError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}",
                expected="an integer > 0",
                got=repr(num_samples),
                fix="pass how many examples to draw",
            )
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        """How many indices one pass yields."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, wanted = len(self.data_source), self.num_samples
        if self.replacement:
            yield from weft.randint(0, count, (wanted,), generator=self.generator).tolist()
            return
        while wanted > 0:
            order = weft.randperm(count, generator=self.generator).tolist()[:wanted]
            wanted -= len(order)
            yield from order

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        order = weft.randperm(len(self.indices), generator=self.generator).tolist()
        return iter([self.indices[i] for i in order])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Indices drawn with the given weights."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Any = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ArgumentError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}",
                expected="an integer > 0",
                got=repr(num_samples),
                fix="pass how many examples to draw",
            )
        self.weights = weft.as_tensor(weights, dtype=weft.float64)
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        drawn = weft.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` indices of another sampler."""

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ArgumentError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}",
                expected="an integer > 0",
                got=repr(batch_size),
                fix="pass how many examples make a batch",
            )
        if not isinstance(drop_last, bool):
            raise ArgumentError(
                f"drop_last should be a boolean value, but got drop_last={drop_last}",
                expected="True or False",
                got=repr(drop_last),
                fix="pass a bool",
            )
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        batch: list[Any] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return full if self.drop_last or not rest else full + 1
