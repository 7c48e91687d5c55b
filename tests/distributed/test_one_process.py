"""Collective operations of a group of one leave what PyTorch's leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from oracle import submodule, torch

CALLS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "all_reduce": lambda d, x, y, how: d.all_reduce(x, **how),
    "reduce": lambda d, x, y, how: d.reduce(x, dst=0, **how),
    "broadcast": lambda d, x, y, how: d.broadcast(x, src=0, **how),
    "all_gather": lambda d, x, y, how: d.all_gather([y], x, **how),
    "all_gather_into_tensor": lambda d, x, y, how: d.all_gather_into_tensor(y, x, **how),
    "gather": lambda d, x, y, how: d.gather(x, [y], dst=0, **how),
    "scatter": lambda d, x, y, how: d.scatter(y, [x], src=0, **how),
    "reduce_scatter_tensor": lambda d, x, y, how: d.reduce_scatter_tensor(y, x, **how),
    "all_to_all_single": lambda d, x, y, how: d.all_to_all_single(y, x, **how),
    "barrier": lambda d, x, y, how: d.barrier(**how),
}


@pytest.fixture(params=[weft, torch], ids=["weft", "torch"])
def lib(request: Any, tmp_path: Path) -> Iterator[Any]:
    lib = request.param
    distributed = submodule(f"{lib.__name__}.distributed")
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1
    )
    yield lib
    distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize("name", CALLS)
def test_what_is_sent_comes_back(lib: Any, name: str) -> None:
    x, y = lib.arange(4.0), lib.zeros(4)
    assert CALLS[name](lib.distributed, x, y, {}) is None
    assert x.tolist() == [0, 1, 2, 3]
    assert y.tolist() == ([0] * 4 if name in list(CALLS)[:3] or name == "barrier" else x.tolist())


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize("name", CALLS)
def test_an_operation_that_is_waited_for(lib: Any, name: str) -> None:
    work = CALLS[name](lib.distributed, lib.arange(4.0), lib.zeros(4), {"async_op": True})
    work.wait()
    assert lib is torch or work.is_completed()  # gloo says so later


def test_objects(lib: Any) -> None:
    gathered, scattered, everywhere = [None], [None], [None]
    lib.distributed.gather_object({"a": 1}, gathered, dst=0)
    lib.distributed.scatter_object_list(scattered, ["b"], src=0)
    lib.distributed.all_gather_object(everywhere, 3)
    assert (gathered, scattered, everywhere) == ([{"a": 1}], ["b"], [3])


def test_there_is_no_other_process() -> None:
    weft.distributed.init_process_group("gloo", rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match="all_gather: a list of 2 for one process"):
            weft.distributed.all_gather([weft.ones(1), weft.ones(1)], weft.ones(1))
        with pytest.raises(RuntimeError, match="there is no process 1"):
            weft.distributed.broadcast(weft.ones(1), src=1)
    finally:
        weft.distributed.destroy_process_group()
