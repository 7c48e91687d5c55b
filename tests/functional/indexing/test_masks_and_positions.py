"""Masks and positions together as an index, against PyTorch; arrays of any layout as tensors over their memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
from oracle import torch

QUICK = settings(
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)


@st.composite
def indices(draw: Any, shape: tuple[int, ...]) -> list[Any]:
    """Masks over one or two dimensions, positions, slices and numbers, for the first dimensions of a shape."""
    found: list[Any] = []
    axis = 0
    while axis < len(shape) and len(found) < 3:
        kind = draw(st.sampled_from(["mask", "mask", "positions", "slice", "number", "end"]))
        random = np.random.default_rng(draw(st.integers(0, 99)))
        if kind == "end":
            break
        if kind == "mask":
            rank = draw(st.integers(1, min(2, len(shape) - axis)))
            found.append(random.random(shape[axis : axis + rank]) < draw(st.floats(0, 1)))
            axis += rank
            continue
        if kind == "positions":
            count = draw(st.integers(1, 3))
            found.append(random.integers(-shape[axis], shape[axis], count))
        elif kind == "slice":
            found.append(slice(draw(st.integers(0, 2)), None))
        else:
            found.append(draw(st.integers(0, shape[axis] - 1)))
        axis += 1
    return found


@settings(QUICK, max_examples=200)
@given(data=st.data(), shape=st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple))
def test_any_index_is_pytorchs(data: Any, shape: tuple[int, ...]) -> None:
    """Values, gradients and what is written; on the host and as tensors; the kind of error where there is one."""
    index = data.draw(indices(shape))
    as_tensors = data.draw(st.booleans())
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    results = []
    for lib in (weft, torch):
        own = tuple(
            lib.tensor(item.tolist()) if as_tensors and isinstance(item, np.ndarray) else item
            for item in index
        )
        own = own[0] if len(own) == 1 else own
        x = lib.tensor(values.tolist(), requires_grad=True)
        try:
            taken = x[own]
            (taken * taken).sum().backward()
            y = x.detach().clone()
            y[own] = 7.0
            results.append([taken.tolist(), x.grad.tolist(), y.tolist()])
        except IndexError:
            results.append(["IndexError"])
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a,
        lambda a: a.T,
        lambda a: a[1:, ::2],
        lambda a: a[:1],
        lambda a: a[:, 2],
        lambda a: a[:0],
        lambda a: a[1, 2:3],
        lambda a: a.reshape(1, 4, 1, 6),
        lambda a: a.reshape(2, 2, 6)[:, :, :1],
        lambda a: np.asfortranarray(a),
        lambda a: np.array(a[0, 0]),
    ],
)
@pytest.mark.parametrize("kind", ["float32", "int64", "uint8", "bool", "complex64"])
def test_arrays_are_shared(make: Any, kind: str) -> None:
    """What either writes, the other sees; strides are those that PyTorch shows."""
    array = make(np.arange(24).reshape(4, 6).astype(kind))
    tensor, theirs = weft.from_numpy(array), torch.from_numpy(array)
    assert tuple(tensor.shape) == array.shape
    assert tensor.stride() == theirs.stride()
    assert tensor.tolist() == array.tolist()
    if array.size:
        array[...] = 1
        assert tensor.tolist() == array.tolist()
        tensor.zero_()
        assert not array.any()
        assert np.shares_memory(tensor.numpy(), array)
    assert (tensor + tensor).tolist() == (array + array).tolist()
