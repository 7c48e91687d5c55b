"""Arrays over memory: of every dtype and layout they show what the tensor has, and keep its memory alive."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import weft

DTYPES = [
    weft.bool, weft.uint8, weft.int8, weft.int16, weft.int32, weft.int64, weft.float16, weft.float32, weft.float64,
    weft.complex64, weft.complex128,
]  # fmt: skip
LAYOUTS: dict[str, Any] = {
    "all": lambda x: x,
    "a row": lambda x: x[1],
    "turned": lambda x: x.mT,
    "a step": lambda x: x[:, ::2],
    "one": lambda x: x[1, 2],
    "none": lambda x: x[:0],
    "expanded": lambda x: x[0:1].expand(3, 4),
    "an empty part at the end": lambda x: x[3:, 1:],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_an_array_shows_a_region(dtype: weft.dtype, layout: str) -> None:
    whole = np.arange(12).reshape(3, 4)
    x = weft.tensor(whole.tolist()).to(dtype)
    array, expected = LAYOUTS[layout](x).numpy(), whole.astype(x.numpy().dtype)
    expected = {
        "turned": expected.T, "a row": expected[1], "a step": expected[:, ::2], "one": expected[1, 2],
        "none": expected[:0], "expanded": np.broadcast_to(expected[0:1], (3, 4)),
        "an empty part at the end": expected[3:, 1:],
    }.get(layout, expected)  # fmt: skip
    assert array.dtype == expected.dtype and array.flags.aligned
    np.testing.assert_array_equal(array, expected)
    if layout in ("all", "a row", "turned", "a step", "one"):  # writes arrive
        array[...] = 1
        assert bool((LAYOUTS[layout](x) == 1).all())


def test_flags_are_those_of_the_strides() -> None:
    x = weft.zeros(3, 4)
    assert x.numpy().flags.c_contiguous and x.mT.numpy().flags.f_contiguous
    assert not x[:, ::2].numpy().flags.c_contiguous and x.numpy().flags.writeable


def test_memory_lives_as_long_as_the_last_array() -> None:
    array = weft.arange(1000.0).numpy()
    part = array[10:20][2:4]
    del array
    gc.collect()
    junk = [weft.ones(1000) * k for k in range(50)]
    weft.realize(*junk)
    assert part.tolist() == [12.0, 13.0]


def test_a_read_only_array_stays_read_only() -> None:
    given = np.arange(4.0)
    given.flags.writeable = False
    with pytest.warns(UserWarning, match="not writ"):
        x = weft.from_numpy(given)
    assert not x.numpy().flags.writeable
    assert x.numpy().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (0,), (2, 0, 3), (1, 5), (5, 1)])
def test_small_and_empty_arrays_come_and_go(shape: tuple[int, ...]) -> None:
    given = np.ones(shape, np.float32)
    x = weft.from_numpy(given)
    assert x.shape == shape and x.numpy().shape == shape
    given[...] = 3
    assert (x == 3).all()
    np.testing.assert_array_equal((x + 1).numpy(), given + 1)


def test_too_many_dimensions() -> None:
    x = weft.zeros(1)
    for _ in range(64):
        x = x.unsqueeze(0)
    with pytest.raises((ValueError, RuntimeError)):
        (x + 1).numpy()
