"""Counts, offsets and pivots that do not fit what they are about are refused, where else another result would come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from oracle import torch

Call = Callable[[Any], Any]
AS_ON_PYTORCH: dict[str, Call] = {
    "too many by number": lambda w: w.repeat_interleave(w.ones(2), 2, output_size=1),
    "few by one": lambda w: w.repeat_interleave(w.ones(2), w.tensor([2]), output_size=9),
    "few by counts": lambda w: w.repeat_interleave(w.ones(2), w.tensor([1, 2]), output_size=5),
    "places": lambda w: w.repeat_interleave(w.tensor([1, 2]), output_size=2**62),
    "right by counts": lambda w: w.repeat_interleave(w.ones(2), w.tensor([1, 2]), output_size=3),
    "right by number": lambda w: w.repeat_interleave(w.ones(2), 2, output_size=4),
    "short lengths": lambda w: w.segment_reduce(w.ones(4), "sum", lengths=w.tensor([3, 0])),
    "long lengths": lambda w: w.segment_reduce(w.ones(4), "sum", lengths=w.tensor([3, 2**62])),
    "negative lengths": lambda w: w.segment_reduce(w.ones(4), "max", lengths=w.tensor([5, -1])),
    "falling offsets": lambda w: w.segment_reduce(w.ones(4), "sum", offsets=w.tensor([0, 3, 2])),
    "part by offsets": lambda w: w.segment_reduce(w.ones(4), "sum", offsets=w.tensor([1, 3])),
    "lengths of rows": lambda w: w.segment_reduce(
        w.ones(2, 3), "sum", lengths=w.tensor([[1, 2], [3, 0]]), axis=1
    ),
    "pivot 0": lambda w: w.linalg.lu_solve(w.eye(2), w.tensor([1, 0]).int(), w.ones(2, 1)),
    "pivot 3": lambda w: w.linalg.lu_solve(w.eye(2), w.tensor([1, 3]).int(), w.ones(2, 1)),
    "unpacked 0": lambda w: w.lu_unpack(w.eye(2), w.tensor([0, 2]).int())[0],
    "unpacked 3": lambda w: w.lu_unpack(w.eye(2), w.tensor([1, 3]).int())[0],
}


def shown(call: Call, framework: Any) -> Any:
    """The result, or that there is none."""
    try:
        return call(framework).tolist()
    except RuntimeError:
        return "refused"


@pytest.mark.parametrize("name", AS_ON_PYTORCH)
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    call = AS_ON_PYTORCH[name]
    assert shown(call, weft) == shown(call, torch)


@pytest.mark.parametrize("offsets", [[0, 9], [-1, 4], [2**62, 2**63 - 1]])
def test_offsets_outside_the_data_are_refused(offsets: list[int]) -> None:
    """PyTorch reads what lies there."""
    with pytest.raises(RuntimeError, match="offsets must be between 0 and 4"):
        weft.segment_reduce(weft.ones(4), "sum", offsets=weft.tensor(offsets))
