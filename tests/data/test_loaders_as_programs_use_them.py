"""What packages rely on in loaders, with PyTorch's beside them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch

BOTH = pytest.mark.parametrize("lib", [weft, torch], ids=["weft", "torch"])


@BOTH
def test_one_order_with_workers_and_without(lib: Any) -> None:
    """Under one seed the order does not depend on the number of workers."""
    orders = []
    for workers in (0, 2):
        lib.manual_seed(3)
        loader = lib.utils.data.DataLoader(
            range(20), batch_size=4, shuffle=True, num_workers=workers
        )
        orders.append([batch.tolist() for _ in range(2) for batch in loader])
    assert orders[0] == orders[1]


@BOTH
def test_sequences_of_any_type(lib: Any) -> None:
    """Examples that are sequences make columns."""
    batch = lib.utils.data.default_collate([range(2), range(2, 4)])
    assert [column.tolist() for column in batch] == [[0, 2], [1, 3]]


@BOTH
def test_numbers_of_numpy_are_converted(lib: Any) -> None:
    """A single number is a tensor without dimensions."""
    one, word = lib.utils.data.default_convert([np.float32(1.5), np.str_("a")])
    assert one.shape == () and one.dtype == lib.float32 and word == "a"


@BOTH
def test_types_of_programs_among_those_known(lib: Any) -> None:
    """The map that programs extend has the types that are known."""

    class Point:
        pass

    place = lib.utils.data._utils.collate
    known = {**place.default_collate_fn_map, Point: lambda batch, **_: len(batch)}
    assert {float, int, str, bytes, np.ndarray} <= set(known)
    assert place.collate([{"p": Point(), "n": 1}] * 3, collate_fn_map=known)["p"] == 3
    with pytest.raises(TypeError, match="batch must contain tensors, numpy arrays"):
        place.collate([np.array(["a"])] * 2, collate_fn_map=known)


@BOTH
def test_memory_of_batches(lib: Any) -> None:
    """Objects that are no tensors are asked by their method, inside any structure."""

    class Batch:
        asked = False

        def pin_memory(self) -> Batch:
            self.asked = True
            return self

    place = lib.utils.data._utils.pin_memory
    given = {"a": [Batch(), 3], "b": "word"}
    found = place.pin_memory(given)
    assert found["a"][0].asked and found["a"][1] == 3 and found["b"] == "word"


class Told:
    """A data set that says whether the record of its worker can be changed."""

    def __init__(self, lib: Any) -> None:
        self.lib = lib

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> bool:
        info = self.lib.utils.data.get_worker_info()
        try:
            info.id = 5
        except (FrozenInstanceError, RuntimeError):
            return True
        return False


@BOTH
def test_the_record_of_a_worker_is_fixed(lib: Any) -> None:
    """It cannot be assigned to."""
    assert list(lib.utils.data.DataLoader(Told(lib), None, num_workers=1)) == [True]


@BOTH
def test_lengths_of_data_sets_in_a_row(lib: Any) -> None:
    """`cumsum` is a method of the class, for classes below it."""
    assert lib.utils.data.ConcatDataset.cumsum([[1, 2], [3]]) == [2, 3]


@pytest.mark.parametrize(
    "name",
    ["utils.data.DataLoader", "utils.data.Dataset", "utils.data.Sampler", "utils.data.Subset"]
    + ["nn.DataParallel", "distributions.Independent"],
)
def test_annotations_name_what_generic_classes_hold(name: str) -> None:
    """As in PyTorch, where these are generic: `DataLoader[int]` makes what the class makes."""
    kind = attrgetter(name)(weft)
    assert issubclass(getattr(kind[int], "__origin__", kind[int]), kind)


def test_reversible_layers_ask_whether_a_walk_reaches_all_leaves() -> None:
    answers = []
    x = weft.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: answers.append(weft.autograd._is_checkpoint_valid()))
    y.sum().backward(retain_graph=True)
    weft.autograd.grad(y.sum(), x)
    assert answers == [True, False]
