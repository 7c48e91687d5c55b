"""What loaders and samplers refuse, and the types that batches keep: in both libraries."""

import warnings
from collections import OrderedDict
from typing import Any

import pytest

import weft


@pytest.mark.parametrize("name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset"])
def test_what_decided_the_order_is_not_assigned_later(lib, name):
    loader = lib.utils.data.DataLoader(range(4), batch_size=2)
    with pytest.raises(ValueError, match=f"{name} attribute should not be set after"):
        setattr(loader, name, 1)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified"),
        (
            {"prefetch_factor": -1, "num_workers": 1},
            "prefetch_factor option should be non-negative",
        ),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
    ],
)
def test_options_of_workers(lib, options, text):
    with pytest.raises(ValueError, match=text):
        lib.utils.data.DataLoader(range(4), **options)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([0.5], 3, "x"), "replacement should be a boolean value"),
        (([[1.0, 2.0]], 3), "weights should be a 1d sequence"),
    ],
)
def test_weights_that_say_no_order(lib, arguments, text):
    with pytest.raises(ValueError, match=text):
        lib.utils.data.WeightedRandomSampler(*arguments)


def test_streams_are_not_put_behind_each_other_by_index(lib):
    class Stream(lib.utils.data.IterableDataset):
        def __iter__(self):
            return iter([1])

    with pytest.raises(AssertionError, match="ConcatDataset does not support IterableDataset"):
        lib.utils.data.ConcatDataset([Stream()])


def test_mappings_keep_their_type(lib):
    class Example(OrderedDict):
        pass

    batch = lib.utils.data.default_collate([Example(a=1), Example(a=2)])
    assert type(batch) is Example
    assert batch["a"].tolist() == [1, 2]


class Stream(weft.utils.data.IterableDataset):
    """Five numbers that say they are two."""

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Any:
        return iter(range(5))


def test_a_stream_longer_than_it_has_said_is_warned_of() -> None:
    loader = weft.utils.data.DataLoader(Stream())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len([*iter(loader)]) == 5  # nobody has asked for its length
    assert len(loader) == 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len([*iter(loader)]) == 5
    texts = [str(warning.message) for warning in caught]
    assert all(f"but {count} samples" in text for count, text in zip((3, 4, 5), texts, strict=True))
    assert all("was reported to be 2 " in text for text in texts)


class Marked(weft.Tensor):
    """A user's type."""


class Images(weft.utils.data.Dataset):
    """Tensors of a user's type: small and large ones, and halves."""

    def __init__(self, size: int, dtype: Any) -> None:
        self.size, self.dtype = size, dtype

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return weft.full((self.size,), float(index), dtype=self.dtype).as_subclass(Marked), index


@pytest.mark.parametrize("size", (3, 70_000))
@pytest.mark.parametrize("dtype", (weft.float32, weft.bfloat16))
@pytest.mark.parametrize("workers", (0, 1))
def test_batches_keep_the_type_of_tensors(size: int, dtype: Any, workers: int) -> None:
    loader = weft.utils.data.DataLoader(Images(size, dtype), batch_size=2, num_workers=workers)
    for number, (batch, places) in enumerate(loader):
        assert type(batch) is Marked and type(places) is weft.Tensor
        assert batch.dtype == dtype
        assert batch[:, 0].tolist() == places.tolist() == [2 * number, 2 * number + 1]


@pytest.mark.parametrize(
    "options", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}], ids=str
)
def test_a_stream_has_its_own_order(lib, options):
    class Stream(lib.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(4))

    ((name, option),) = options.items()
    with pytest.raises(ValueError) as caught:
        lib.utils.data.DataLoader(Stream(), **options)
    assert f"expected unspecified {name} option, but got {name}={option}" in str(caught.value)


class _Fails:
    def __len__(self):
        return 6

    def __getitem__(self, index):
        if index in (2, 3):
            raise NotImplementedError(f"no example {index}")
        return index


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pass_goes_on_behind_a_batch_that_fails(lib, workers):
    batches = iter(lib.utils.data.DataLoader(_Fails(), batch_size=2, num_workers=workers))
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(NotImplementedError, match="no example 2"):
        next(batches)
    assert next(batches).tolist() == [4, 5]
    with pytest.raises(StopIteration):
        next(batches)
