"""DataLoader: batches of a data set, in order or shuffled, made here or in worker processes."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import weft
from weft._build.subscripted import subscripted
from weft.data.collate import default_collate, default_convert
from weft.data.dataset import IterableDataset
from weft.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from weft.data.worker import Failure, Pool
from weft.data.worker import get_worker_info as get_worker_info  # PyTorch's place for it
from weft.engine.devices import trace
from weft.errors import ArgumentError

if TYPE_CHECKING:
    from weft.data.sampler import Sampler


_collate_fn_t = Callable[[list[Any]], Any]  # in annotations, as below
_worker_init_fn_t = Callable[[int], None]
# What the samplers were made of.
_FIXED = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset"})


class DataLoader:
    """Iterates over batches of a data set.

    `shuffle`, `sampler` or `batch_sampler` give the order; `num_workers` processes make batches
    ahead of their use; the order and, under one seed, the random numbers do not depend on how fast
    the workers are. Errors: ValueError for options that exclude each other; a worker's exception is
    raised here.
    """

    __class_getitem__ = subscripted

    _ready = False
    _IterableDataset_len_called: int | None = None  # batches, when their number was asked for last

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: list[list[int]] | Sampler | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[object], object] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: str | None = None,
        generator: weft.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.worker_init_fn, self.generator = worker_init_fn, generator
        self.pin_memory, self.persistent_workers = pin_memory, persistent_workers
        self.pin_memory_device, self.in_order = pin_memory_device, in_order
        self.multiprocessing_context = multiprocessing_context
        _context(multiprocessing_context)  # an unknown one is refused here
        self._pool: Pool | None = None
        self._streams = isinstance(dataset, IterableDataset)
        self._check_options(bool(shuffle), sampler, batch_sampler, prefetch_factor)
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ArgumentError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last",
                    expected="batch_sampler alone",
                    got=f"batch_size={batch_size}, shuffle={shuffle}, sampler={sampler!r}, drop_last={drop_last}",
                    fix="leave the others out: a batch sampler decides them all",
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ArgumentError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last",
                expected="drop_last=False where batch_size is None",
                got="drop_last=True",
                fix="leave drop_last out",
            )
        if sampler is None:
            sampler = self._default_sampler(bool(shuffle))
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.prefetch_factor = (prefetch_factor or 2) if num_workers else None  # as PyTorch says it
        batched = batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)
        self._ready = True

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FIXED and self._ready:
            raise ArgumentError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized",
                expected="a new loader: this one has its order already",
                got=f"an assignment to {name}",
                fix=f"pass {name} when the loader is made",
            )
        object.__setattr__(self, name, value)

    def _check_options(
        self, shuffle: bool, sampler: object, batch_sampler: object, ahead: int | None
    ) -> None:
        if self.num_workers < 0:
            raise ArgumentError(
                "num_workers option should be non-negative; use num_workers=0",
                expected="num_workers >= 0",
                got=str(self.num_workers),
                fix="use num_workers=0 to load in this process",
            )
        if self.timeout < 0:
            raise ArgumentError(
                "timeout option should be non-negative",
                expected="timeout >= 0",
                got=str(self.timeout),
                fix="use timeout=0 to wait without end",
            )
        if self.num_workers == 0 and (ahead is not None or self.persistent_workers):
            text = (
                "persistent_workers option needs num_workers > 0"
                if ahead is None
                else "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
                "multiprocessing, otherwise set prefetch_factor to None."
            )
            raise ArgumentError(
                text,
                expected="num_workers > 0 with prefetch_factor or persistent_workers",
                got="num_workers=0",
                fix="leave the two out, or load with workers",
            )
        if ahead is not None and ahead < 0:
            raise ArgumentError(
                "prefetch_factor option should be non-negative",
                expected="prefetch_factor >= 0",
                got=str(ahead),
                fix="use prefetch_factor=2",
            )
        options = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
        for name, option in options.items():
            if self._streams and option is not None:
                raise ArgumentError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={option}",
                    expected="the order that the data set gives",
                    got=f"{name}={option!r}",
                    fix="shuffle within the data set",
                )
        if sampler is not None and shuffle:
            raise ArgumentError(
                "sampler option is mutually exclusive with shuffle",
                expected="sampler or shuffle=True",
                got=f"sampler={sampler!r} and shuffle=True",
                fix="leave shuffle out",
            )

    def _default_sampler(self, shuffle: bool) -> Any:
        if self._streams:
            return _Forever()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    @property
    def _dataset_kind(self) -> int:
        return _DatasetKind.Iterable if self._streams else _DatasetKind.Map

    def __len__(self) -> int:
        if self._streams:
            count = len(self.dataset)
            full, rest = divmod(count, self.batch_size or 1)
            self._IterableDataset_len_called = full if self.drop_last or not rest else full + 1
            return self._IterableDataset_len_called
        return len(self._index_sampler)

    def __iter__(self) -> _BaseDataLoaderIter:
        return self._get_iterator()

    def _get_iterator(self) -> _BaseDataLoaderIter:
        """A pass over the data."""
        passes = (
            _MultiProcessingDataLoaderIter if self.num_workers else _SingleProcessDataLoaderIter
        )
        return passes(self)

    def __del__(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.close()


class _DatasetKind:
    """The way in which a loader asks its data set: by index, or for the next."""

    Map, Iterable = 0, 1


class _BaseDataLoaderIter:
    """A pass over the batches of a loader: what `iter(loader)` gives. It ends its workers when it is forgotten. A
    stream that is longer than it has said is warned of. The loader may be another class's that has the attributes of
    PyTorch's: packages make passes over loaders of their own."""

    def __init__(self, loader: Any) -> None:
        self._loader, sampled = loader, iter(loader._index_sampler)
        # Drawn with workers or without: the order, which is drawn next, is that of one seed in both.
        self._base_seed = int(weft.randint(0, 2**31 - 1, (), generator=loader.generator).item())
        self._batches = self._start(loader, sampled, self._base_seed)
        self._reported, self._taken = loader._IterableDataset_len_called, 0

    @staticmethod  # a pass that its own generator held would outlive its last user
    def _start(loader: DataLoader, sampled: Iterator[object], seed: int) -> Generator[Any]:
        raise NotImplementedError

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        began = trace.clock() if trace.is_on() else 0
        batch = next(self._batches)
        if isinstance(batch, Failure):  # a pass goes on behind it
            raise batch.taken()
        if began:
            name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"
            trace.note("range", began, (name, None))
        self._taken += 1
        if self._reported is not None and self._taken > self._reported:
            warnings.warn(
                f"Length of IterableDataset {self._loader.dataset} was reported to be {self._reported} (when "
                f"accessing len(dataloader)), but {self._taken} samples have been fetched. With several workers, each "
                "has to give its part only: see get_worker_info.",
                stacklevel=2,
            )
        return batch

    def __len__(self) -> int:
        return len(self._loader)

    def close(self) -> None:
        """End the pass, and workers that do not stay."""
        self._batches.close()


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """A pass whose batches are made here."""

    @staticmethod
    def _start(loader: DataLoader, sampled: Iterator[object], seed: int) -> Generator[Any]:
        fetch = _fetcher_of(loader)()
        for indices in sampled:
            try:
                batch = fetch(indices)
            except StopIteration:
                return
            except Exception as error:
                batch = Failure(error)
            yield batch


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """A pass whose batches workers make."""

    @staticmethod
    def _start(loader: DataLoader, sampled: Iterator[object], seed: int) -> Generator[Any]:
        pool = getattr(loader, "_pool", None)
        if pool is None:
            pool = _new_pool(loader, seed)
            # A sampler may shuffle when it is asked: PyTorch asks again here.
            sampled = iter(loader._index_sampler)
        if loader.persistent_workers:
            loader._pool = pool
        complete = False
        try:
            yield from pool.batches(sampled, loader.prefetch_factor or 2)
            complete = True
        except GeneratorExit:  # left in the middle: what is still coming is of an old pass
            complete = loader.persistent_workers
            raise
        finally:
            if not (complete and loader.persistent_workers):
                loader._pool = None
                pool.close()


def _fetcher_of(loader: DataLoader) -> _Fetcher:
    streams = loader._dataset_kind == _DatasetKind.Iterable
    batched = loader._auto_collation
    return _Fetcher(loader.dataset, loader.collate_fn, batched, streams, loader.drop_last)


def _new_pool(loader: DataLoader, seed: int) -> Pool:
    context = _context(loader.multiprocessing_context)
    fetch, init = _fetcher_of(loader), loader.worker_init_fn
    return Pool(context, fetch, loader.num_workers, seed, init, loader.timeout)


def _context(context: str | None) -> Any:
    """The context of a name, a context itself, or that of fork. Errors: ValueError for an unknown name."""
    if context is not None and not isinstance(context, str):
        return context
    names = multiprocessing.get_all_start_methods()
    if context not in (None, *names):
        raise ArgumentError(
            f"multiprocessing_context option should specify a valid start method in {names!r}, but got "
            f"multiprocessing_context={context!r}",
            expected=", ".join(names),
            got=repr(context),
            fix="choose one of these",
        )
    return multiprocessing.get_context(context or "fork")


class _Forever:
    """The sampler of streams: indices without meaning, without end."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


@dataclass(frozen=True)
class _Fetcher:
    """Makes batches, here or in a worker; it can be pickled if the data set can."""

    dataset: Any
    collate: Callable[[Any], Any]
    batched: bool
    streams: bool
    drop_last: bool

    def __call__(self) -> Callable[[Any], Any]:
        """A function from indices to a batch; for streams StopIteration ends it."""
        dataset, collate = self.dataset, self.collate
        if self.streams:
            return functools.partial(self._next, iter(dataset))
        if not self.batched:
            return lambda index: collate(dataset[index])
        at_once = getattr(dataset, "__getitems__", None)
        if at_once is not None:
            return lambda indices: collate(at_once(indices))
        return lambda indices: collate([dataset[index] for index in indices])

    def _next(self, stream: Iterator[object], indices: Any) -> Any:
        """The next examples of a stream, collated."""
        if not self.batched:
            return self.collate(next(stream))
        examples = list(itertools.islice(stream, len(indices)))
        if not examples or (self.drop_last and len(examples) < len(indices)):
            raise StopIteration
        return self.collate(examples)
