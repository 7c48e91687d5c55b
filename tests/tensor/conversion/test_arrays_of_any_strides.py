"""Arrays that tensors share: of dimensions of 1, without elements, from behind the beginning of their memory."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from oracle import torch

BASE = np.arange(60, dtype=np.float32)
ARRAYS = {
    "plain": BASE.reshape(3, 4, 5),
    "turned": BASE.reshape(3, 4, 5).transpose(2, 0, 1),
    "from behind": BASE[7:47].reshape(4, 10),
    "every second": BASE.reshape(6, 10)[::2, 1::3],
    "repeated": np.broadcast_to(BASE[:4], (3, 4)),
    "dimensions of 1": BASE.reshape(1, 60, 1)[:, ::7],
    "row of one": BASE.reshape(6, 10)[2:3],
    "number": BASE[5:6].reshape(()),
    "no elements": BASE[:0].reshape(0, 3),
}


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("case", ARRAYS)
def test_tensor_and_array_are_one_memory(case: str) -> None:
    array = ARRAYS[case]
    ours, theirs = weft.from_numpy(array), torch.from_numpy(array)
    assert (tuple(ours.shape), ours.stride()) == (tuple(theirs.shape), theirs.stride())
    assert ours.tolist() == array.tolist()
    assert np.shares_memory(ours.numpy(), array) == (array.size > 0)
    copied = weft.tensor(array)
    assert (ours * 2).tolist() == (copied * 2).tolist()
    if array.flags.writeable and array.size:
        kept = array.copy()
        ours.mul_(3)
        np.testing.assert_array_equal(array, kept * 3)
        array[...] = kept
        assert ours.tolist() == kept.tolist()


def test_negative_strides_are_refused_also_of_one_element() -> None:
    for array in (BASE[::-1], BASE.reshape(60, 1)[:, ::-1]):
        with pytest.raises(ValueError, match="negative"):
            weft.from_numpy(array)
        with pytest.raises(ValueError, match="negative"):
            torch.from_numpy(array)
