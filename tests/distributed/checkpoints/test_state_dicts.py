"""States of parallel models have PyTorch's names and values, and go into models that lie otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from weft.distributed.checkpoint.state_dict import get_state_dict, set_optimizer_state_dict

import weft
from ranks import agree, needs_mpi
from weft import nn

PROGRAM = "state_dicts.py"
PARTS = [
    *("data parallel to sharded", "sharded to tensor parallel", "tensor parallel to alone"),
    *("alone to data parallel", "details"),
]
Results = Callable[[str, str, int], list[Any]]


@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("part", PARTS)
def test_names_values_and_what_follows_are_those_of_pytorch(
    results: Results, part: str, size: int
) -> None:
    pytest.importorskip("torch")
    ours, theirs = (results(lib, PROGRAM, size) for lib in ("as_torch", "torch"))
    for own, other in zip(ours, theirs, strict=True):
        wrong = [name for name in other[part] if not agree(own[part][name], other[part][name])]
        assert not wrong


def test_one_process_needs_no_group() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = model[0].weight.tolist()
    state, of_optimizer = get_state_dict(model, optimizer, submodules={model[0]})
    assert list(state) == ["0.weight", "0.bias"] and model[0].weight.tolist() == before
    assert of_optimizer["param_groups"][0]["params"][:2] == ["0.weight", "0.bias"]
    other = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    with pytest.raises(ValueError, match=r"no group of the state has 0\.weight"):
        set_optimizer_state_dict(
            other,
            weft.optim.SGD(other.parameters(), lr=0.1),
            {"state": {}, "param_groups": [{"params": ["1.weight"]}]},
        )
