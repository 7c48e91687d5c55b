"""What loaders and samplers refuse, and the types that batches keep: in both libraries."""

from collections import OrderedDict

import pytest

import weft


@pytest.fixture(params=["weft", "torch"])
def lib(request):
    return weft if request.param == "weft" else pytest.importorskip("torch")


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
