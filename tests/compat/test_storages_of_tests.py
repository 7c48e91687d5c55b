"""Storages as PyTorch's tests take hold of them: names of their types, methods under inner names, the device meta."""

from __future__ import annotations

import pytest

import weft
from oracle import torch
from weft.compat import absent


def test_types_of_storages_have_the_names_of_pytorch() -> None:
    theirs = torch.storage._dtype_to_storage_type_map()
    ours = weft.storage._dtype_to_storage_type_map()
    named = {str(dtype).removeprefix("torch."): name for dtype, name in theirs.items()}
    assert {dtype.name: name for dtype, name in ours.items()}.items() >= named.items()
    assert weft.storage._storage_type_to_dtype_map()["FloatStorage"] is weft.float32


def test_inner_names_are_the_methods() -> None:
    memory = weft.FloatStorage(4)
    memory._setitem(slice(0, 4), 2)
    assert memory.tolist() == [2.0] * 4 and memory._size() == 4 and memory._nbytes() == 16
    assert memory._element_size() == 4 and memory._data_ptr() == memory.data_ptr()
    assert memory._resize_(6).size() == 6 and memory._deepcopy({}).size() == 6
    assert memory._pickle_storage_type() == "FloatStorage" and not memory._is_shared()
    assert weft.FloatStorage._dtype is weft.float32


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("library", [weft, torch], ids=["weft", "torch"])
def test_a_storage_without_memory_has_no_elements(library: object) -> None:
    for memory in (
        library.TypedStorage([1, 2], dtype=library.float32, device="meta"),  # type: ignore[attr-defined]
        library.UntypedStorage(3, device="meta"),  # type: ignore[attr-defined]
    ):
        with pytest.raises(NotImplementedError, match="Not available"):
            memory[0]
        with pytest.raises(NotImplementedError, match="Not available"):
            memory.tolist()


def test_types_that_no_tensor_has_are_types() -> None:
    assert all(isinstance(found, weft.dtype) for found in absent.TYPES.values())
    assert isinstance(weft.per_tensor_affine, weft.qscheme)
    assert repr(weft.per_tensor_affine) == "weft.per_tensor_affine"
