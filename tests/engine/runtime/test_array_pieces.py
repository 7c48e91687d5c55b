"""Large arrays in pieces: together they are the array, in order, and few elements each."""

from __future__ import annotations

import numpy as np
import pytest

from weft.engine.runtime import array_pieces


@pytest.mark.parametrize("shape", [(), (0,), (7,), (1, 30), (3, 1, 17), (40, 3), (2, 2, 2, 5)])
@pytest.mark.parametrize("turned", [False, True])
def test_pieces_are_the_array_in_order(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], turned: bool
) -> None:
    monkeypatch.setattr(array_pieces, "MOST_ELEMENTS", 6)
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    array = array.T if turned else array
    found = list(array_pieces.pieces(array))
    assert all(piece.size <= 6 for piece in found)
    assert b"".join(piece.tobytes() for piece in found) == array.tobytes()
    if array.size:
        assert all(np.shares_memory(piece, array) for piece in found)


@pytest.mark.parametrize("bad", [None, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64])
def test_what_is_not_finite_is_seen(dtype: type, bad: float | None) -> None:
    array = np.full((5, 1), np.finfo(dtype).max, dtype)
    if bad is not None:
        array[3] = bad
    wide = np.broadcast_to(array, (5, 1 << 40))  # more than any memory holds
    assert array_pieces.is_finite(wide) == (bad is None)
