"""Data sets: things with a length and examples by index, or things that yield examples."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft._build.subscripted import subscripted
from weft.engine.api.deprecation import warn_deprecated
from weft.errors import (
    ArgumentError,
    AssertedError,
    AssertedKindError,
    DimensionError,
    NotDefinedError,
)
from weft.tensor.arguments import need_rank, need_tensor

if TYPE_CHECKING:
    from weft.functional.random.generator import Generator


class Dataset:
    """Examples by index: subclasses define `__getitem__` and `__len__`."""

    __class_getitem__ = subscripted

    def __getitem__(self, index: int) -> Any:
        raise NotDefinedError(
            "Subclasses of Dataset should implement __getitem__.",
            expected="a method __getitem__(self, index)",
            got=f"{type(self).__name__}",
            fix="define __getitem__ in the subclass",
        )

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """A stream of examples: subclasses define `__iter__`; in workers see `get_worker_info`."""

    def __add__(self, other: Dataset) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])

    def __iter__(self) -> Iterator[Any]:
        raise NotDefinedError(
            "Subclasses of IterableDataset should implement __iter__.",
            expected="a method __iter__(self)",
            got=f"{type(self).__name__}",
            fix="define __iter__ in the subclass",
        )


class TensorDataset(Dataset):
    """Tensors of equal length, one example being a tuple of their rows."""

    def __init__(self, *tensors: Tensor) -> None:
        for number, tensor in enumerate(tensors):
            need_rank(
                "TensorDataset", need_tensor("TensorDataset", tensor, "tensors", number + 1), 1
            )
        if any(tensor.shape[0] != tensors[0].shape[0] for tensor in tensors):
            raise AssertedError(
                "Size mismatch between tensors",
                expected="tensors of one first size",
                got=", ".join(str(list(tensor.shape)) for tensor in tensors),
                fix="cut the tensors to one length",
            )
        self.tensors = tensors

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class Subset(Dataset):
    """Some examples of another data set."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """Data sets one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertedError(
                "datasets should not be an empty iterable",
                expected="at least one data set",
                got="none",
                fix="pass a list of data sets",
            )
        for number, part in enumerate(self.datasets):
            if not hasattr(type(part), "__len__"):
                raise AssertedKindError(
                    f"ConcatDataset does not support IterableDataset: data set {number} has no length",
                    expected="data sets with __len__ and __getitem__",
                    got=type(part).__name__,
                    fix="chain streams in an IterableDataset of your own",
                )
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Sized]) -> list[int]:
        """The number of examples up to the end of each data set.

        Args:
            sequence: the data sets.
        """
        return list(itertools.accumulate(len(part) for part in sequence))

    @property
    def cummulative_sizes(self) -> list[int]:
        """`cumulative_sizes` under its older name; warns."""
        warn_deprecated("`cummulative_sizes` attribute is renamed to `cumulative_sizes`")
        return self.cumulative_sizes

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise DimensionError(
                f"index {index} is out of range for {len(self)} examples",
                expected=f"-{len(self)} <= index < {len(self)}",
                got=str(index),
                fix="check the index against len(dataset)",
            )
        index %= len(self)
        part = bisect.bisect_right(self.cumulative_sizes, index)
        start = self.cumulative_sizes[part - 1] if part else 0
        return self.datasets[part][index - start]


class ChainDataset(IterableDataset):
    """Streams one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for part in self.datasets:
            if not isinstance(part, IterableDataset):
                raise AssertedError(
                    "ChainDataset only supports IterableDataset",
                    expected="streams",
                    got=type(part).__name__,
                    fix="join data sets with indices in a ConcatDataset",
                )
            yield from part

    def __len__(self) -> int:
        return sum(len(part) for part in self.datasets)


class StackDataset(Dataset):
    """Data sets side by side: tuples of their examples, or dictionaries where they are given by name."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        if bool(args) == bool(kwargs):
            raise ArgumentError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like input/output, "
                "but both types are given."
                if args
                else "At least one dataset should be passed",
                expected="data sets by position, or by name",
                got="both" if args else "none",
                fix="pass them one way",
            )
        self.datasets: Any = args or kwargs
        lengths = {len(part) for part in self._parts()}
        if len(lengths) != 1:
            raise ArgumentError(
                "Size mismatch between datasets",
                expected="data sets of one length",
                got=str(sorted(lengths)),
                fix="cut them with Subset",
            )
        self._length = lengths.pop()

    def _parts(self) -> list[Any]:
        given = self.datasets
        return list(given.values() if isinstance(given, dict) else given)

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple(part[index] for part in self.datasets)

    def __len__(self) -> int:
        return int(self._length)


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset]:
    """Random parts of the given sizes, or of the given shares that sum to one."""
    count = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        sizes = [math.floor(count * share) for share in lengths]
        for i in range(count - sum(sizes)):
            sizes[i % len(sizes)] += 1
    else:
        sizes = [int(length) for length in lengths]
    if sum(sizes) != count:
        raise ArgumentError(
            "Sum of input lengths does not equal the length of the input dataset!",
            expected=f"lengths that add up to {count}",
            got=f"{sizes}, which add up to {sum(sizes)}",
            fix="pass fractions that add up to 1",
        )
    order = weft.randperm(count, generator=generator).tolist()
    ends = list(itertools.accumulate(sizes))
    for number, size in enumerate(sizes):
        if size == 0:
            warnings.warn(
                f"Length of split at index {number} is 0. This might result in an empty dataset.",
                stacklevel=2,
            )
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, sizes, strict=True)]
