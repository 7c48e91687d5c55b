"""Samplers: the order in which examples are visited, as indices or batches of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import weft
from weft._build.subscripted import subscripted
from weft.errors import ArgumentError, ArgumentTypeError, NotDefinedError, WeftError


class Sampler:
    """Yields indices: subclasses define `__iter__` and, where it is known, `__len__`."""

    __class_getitem__ = subscripted

    def __iter__(self) -> Iterator[Any]:
        raise NotDefinedError(
            "Subclasses of Sampler should implement __iter__.",
            expected="a method __iter__(self)",
            got=f"{type(self).__name__}",
            fix="define __iter__ in the subclass",
        )


def _need_count(argument: str, value: object, of_examples: str) -> None:
    """Errors: ValueError for anything but a positive integer."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ArgumentError(
            f"{argument} should be a positive integer value, but got {argument}={value}",
            expected="an integer > 0",
            got=repr(value),
            fix=f"pass how many examples {of_examples}",
        )


def _need_flag(argument: str, value: object, error: type[WeftError]) -> None:
    if not isinstance(value, bool):
        raise error(
            f"{argument} should be a boolean value, but got {argument}={value}",
            expected="True or False",
            got=repr(value),
            fix="pass a bool",
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
        _need_flag("replacement", replacement, ArgumentTypeError)
        if num_samples is not None and num_samples is not True:
            _need_count("num_samples", num_samples, "to draw")
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        """The number of indices that one pass yields."""
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
        _need_count("num_samples", num_samples, "to draw")
        _need_flag("replacement", replacement, ArgumentError)
        self.weights = weft.as_tensor(weights, dtype=weft.float64)
        if self.weights.dim() != 1:
            raise ArgumentError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}",
                expected="one weight for each example",
                got=str(list(self.weights.shape)),
                fix="flatten them",
            )
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
        _need_count("batch_size", batch_size, "make a batch")
        _need_flag("drop_last", drop_last, ArgumentError)
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


class TokenBatchSampler(Sampler):
    """Lists of indices whose examples have at most `max_tokens` tokens together: long examples come in small batches.

    `lengths[i]` is the length of example i, `sampler` the order (by default 0, 1, 2, ...). With `pool` > 1, that many
    indices at a time are sorted by length before they are put together, and the batches of a pool shuffled. With
    `padded`, a batch counts as its longest example times the number of examples, as it does where it will be padded.
    Errors: ValueError for an example that is longer than `max_tokens`.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        max_tokens: int,
        sampler: Iterable[int] | None = None,
        drop_last: bool = False,
        pool: int = 1,
        padded: bool = False,
        generator: Any = None,
    ) -> None:
        self.lengths = [int(length) for length in lengths]
        self.max_tokens, self.drop_last, self.pool, self.padded = (
            max_tokens,
            drop_last,
            pool,
            padded,
        )
        self.sampler = range(len(self.lengths)) if sampler is None else sampler
        self.generator = generator
        longest = max(self.lengths, default=0)
        if longest > max_tokens or pool < 1:
            raise ArgumentError(
                f"TokenBatchSampler: an example of {longest} tokens for a budget of {max_tokens}",
                expected="examples of at most max_tokens, pool >= 1",
                got=f"example {self.lengths.index(longest) if self.lengths else 0}, pool={pool}",
                fix="enlarge max_tokens, or cut or leave out long examples",
            )

    def __iter__(self) -> Iterator[list[int]]:
        kept: list[int] = []  # the last batch may be filled by the next pool
        for pool in self._pools():
            batches = list(self._filled([*kept, *pool]))
            kept = batches.pop() if batches else []
            if self.pool > 1 and len(batches) > 1:
                order = weft.randperm(len(batches), generator=self.generator).tolist()
                batches = [batches[place] for place in order]
            yield from batches
        if kept and not self.drop_last:
            yield kept

    def _pools(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while pool := list(itertools.islice(indices, self.pool)):
            yield sorted(pool, key=lambda index: self.lengths[index]) if self.pool > 1 else pool

    def _filled(self, indices: Sequence[int]) -> Iterator[list[int]]:
        """Indices in order, put together while the budget lasts."""
        batch: list[int] = []
        total = longest = 0
        for index in indices:
            length = self.lengths[index]
            longest, total = max(longest, length), total + length
            if batch and (longest * (len(batch) + 1) if self.padded else total) > self.max_tokens:
                yield batch
                batch, total, longest = [], length, length
            batch.append(index)
        if batch:
            yield batch
