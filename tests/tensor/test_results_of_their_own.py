"""Functions that have nothing to do: what they return is the input, shares its memory or is a copy, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from oracle import torch

Call = Callable[[Any, Any], Any]  # of a framework and an image

CALLS: dict[str, Call] = {
    "broadcast_tensors": lambda w, x: w.broadcast_tensors(x, w.ones(1))[0],
    "broadcast_tensors of fewer dimensions": lambda w, x: w.broadcast_tensors(x[0], x)[0],
    "expand": lambda w, x: x.expand(x.shape),
    "broadcast_to": lambda w, x: w.broadcast_to(x, x.shape),
    "reshape": lambda w, x: x.reshape(x.shape),
    "flatten": lambda w, x: x.flatten(1, 1),
    "contiguous": lambda w, x: x.contiguous(),
    "to": lambda w, x: x.to(x.dtype),
    "type_as": lambda w, x: x.type_as(x),
    "conj": lambda w, x: x.conj(),
    "roll": lambda w, x: x.roll(0, 0),
    "flip": lambda w, x: x.flip(()),
    "repeat": lambda w, x: x.repeat(1, 1, 1, 1),
    "tile": lambda w, x: x.tile(1),
    "rot90": lambda w, x: x.rot90(0),
    "sum_to_size": lambda w, x: x.sum_to_size(x.shape),
    "sum_to_size of a number": lambda w, x: x[0, 0, 0, 0].sum_to_size(()),
    "cat": lambda w, x: w.cat([x]),
    "atleast_3d": lambda w, x: w.atleast_3d(x),
    "unsafe_split": lambda w, x: w.unsafe_split(x, 2, -1)[0],
    "unsafe_chunk": lambda w, x: x.unsafe_chunk(2, -1)[0],
    "split_copy": lambda w, x: w.split_copy(x, 2, -1)[0],
    "chain_matmul": lambda w, x: w.chain_matmul(x[0, 0]),
    "fill": lambda w, x: w.fill(x[0, 0, 0, 0], x[0, 0, 0, 0]),
    "fill of several": lambda w, x: w.fill(x, x[0, 0, 0, 0]),
    "pad": lambda w, x: w.nn.functional.pad(x, (0, 0)),
    "pad that cuts": lambda w, x: w.nn.functional.pad(x, (-1, 0)),
    "pad by reflection": lambda w, x: w.nn.functional.pad(x, (0, 0, 0, 0), mode="reflect"),
    "pad around": lambda w, x: w.nn.functional.pad(x, (0, 0, 0, 0), mode="circular"),
    "nearest": lambda w, x: w.nn.functional.interpolate(x, 4),
    "bilinear": lambda w, x: w.nn.functional.interpolate(x, 4, mode="bilinear"),
    "nearest bytes": lambda w, x: w.nn.functional.interpolate(x.to(w.uint8), 4),
    "dropout of nothing": lambda w, x: w.nn.functional.dropout(x, 0.0, training=False),
    "nan_to_num": lambda w, x: x.nan_to_num(),
    "masked_fill": lambda w, x: x.masked_fill(x < 0, 1),
    "repeat_interleave": lambda w, x: x.repeat_interleave(1, 0),
    "clamp": lambda w, x: x.clamp(-10, 10),
}


def facts(framework: Any, call: Call) -> tuple[bool, bool]:
    """Whether a result is the input itself, and whether a write into it shows there."""
    x = framework.ones(1, 2, 4, 4)
    result = call(framework, x)
    result.reshape(-1)[:1].fill_(7) if result.dim() == 0 else result[..., :1].fill_(7)
    return result is x, bool((x == 7).any())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_a_result_is_shared_where_it_is_in_pytorch(name: str) -> None:
    assert facts(weft, CALLS[name]) == facts(torch, CALLS[name])


def test_a_common_shape_is_no_new_tensor() -> None:
    """What an operation on metadata in place does, a tensor of the common shape shows as well."""
    for framework in (weft, torch):
        x = framework.arange(6).reshape(2, 3)
        shown, _ = framework.broadcast_tensors(x, framework.ones(3))
        x.t_()
        assert tuple(shown.shape) == (3, 2)
