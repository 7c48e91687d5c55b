"""Index tensors with positions outside their dimension: which functions count negative ones from the end, who is
blamed, and that nobody else is."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import weft
from live_nodes import settled_count
from oracle import torch
from weft.engine.frontend.node_factory import count_live_nodes
from weft.engine.ir.tape import tape

X = [1.0, 2.0, 3.0]
WRAPS: dict[str, Any] = {
    "take": lambda lib, x, k: lib.take(x, k),
    "x[k]": lambda lib, x, k: x[k],
    "x[:, k]": lambda lib, x, k: x.expand(2, 3)[:, k],
    "x[k, k]": lambda lib, x, k: x.expand(3, 3)[k, k],
    "x[k] = 5": lambda lib, x, k: lib.index_put(x, (k,), lib.tensor(5.0)),
    "index_fill": lambda lib, x, k: x.index_fill(0, k, 5.0),
    "take_along_dim": lambda lib, x, k: lib.take_along_dim(x, k, 0),
}
REFUSES: dict[str, Any] = {
    "gather": lambda lib, x, k: lib.gather(x, 0, k),
    "index_select": lambda lib, x, k: lib.index_select(x, 0, k),
    "index_add": lambda lib, x, k: x.index_add(0, k, x[:1]),
    "index_copy": lambda lib, x, k: x.index_copy(0, k, x[:1]),
    "scatter": lambda lib, x, k: x.scatter(0, k, x[:1]),
    "scatter_add": lambda lib, x, k: x.scatter_add(0, k, x[:1]),
    "scatter_reduce": lambda lib, x, k: x.scatter_reduce(0, k, x[:1], "sum"),
    "embedding": lambda lib, x, k: lib.nn.functional.embedding(k, x.unsqueeze(1)),
    "nll_loss": lambda lib, x, k: lib.nn.functional.nll_loss(x.unsqueeze(0), k),
    "cross_entropy": lambda lib, x, k: lib.nn.functional.cross_entropy(x.unsqueeze(0), k),
}


def result(lib: Any, function: Any, place: int) -> Any:
    return function(lib, lib.tensor(X), lib.tensor([place])).tolist()


@pytest.mark.parametrize("name", WRAPS)
def test_negative_positions_count_from_the_end_where_they_do_in_pytorch(name: str) -> None:
    for place in (-3, -1, 2):
        assert result(weft, WRAPS[name], place) == result(torch, WRAPS[name], place)
    for place in (-4, 3):
        with pytest.raises(IndexError):
            result(weft, WRAPS[name], place)
        if name != "take_along_dim":  # there the position is taken modulo the size
            with pytest.raises(IndexError):
                result(torch, WRAPS[name], place)


@pytest.mark.parametrize("name", REFUSES)
def test_negative_positions_are_out_of_range_where_they_are_in_pytorch(name: str) -> None:
    for place in (-4, -3, -1, 3):
        with pytest.raises((IndexError, RuntimeError)) as refused:
            result(torch, REFUSES[name], place)
        with pytest.raises(
            type(refused.value), match="is out of bounds|out of range|Class values"
        ) as caught:
            result(weft, REFUSES[name], place)
        assert "test_index_ranges.py" in str(caught.value) and "fix" in str(caught.value)


def looked_up(number: int, table: Any, bad: int) -> Any:
    """One example: the index is pending, so that only its kernel can see what is wrong with it."""
    places = weft.tensor([number, number + 1]) + (50 if number == bad else 0)
    return table[:].index_select(0, places).square().sum()  # the line to blame


EXAMPLES: dict[str, Any] = {
    "embedding": lambda i, x, k: weft.nn.functional.embedding(k, x).square().sum(),
    "gather": lambda i, x, k: (x[:, 0] * (i + 1)).gather(0, k).square().sum(),
    "scatter_add": lambda i, x, k: x[:, 0].mul(i).scatter_add(0, k, x[:2, 1]).square().sum(),
}


def run(name: str, bad: int, walk: bool) -> tuple[Any, list[Any]]:
    table = weft.arange(16.0).reshape(8, 2).requires_grad_()
    losses = []
    for i in range(5):
        places = weft.tensor([i, i + 1]) + (50 if i == bad else 0)
        losses.append(EXAMPLES[name](i, table, places))
    if walk:
        for i, loss in enumerate(losses):
            if i != bad:
                loss.backward(retain_graph=True)
    return table, losses


@pytest.mark.parametrize("walk", (False, True))
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_bad_index_in_a_batch_blames_its_own_example(name: str, walk: bool) -> None:
    wanted = [loss.item() for loss in run(name, -1, walk)[1]]
    _, losses = run(name, 2, walk)
    for i in (4, 0, 1, 3):
        assert losses[i].item() == wanted[i]
    for _ in range(2):
        with pytest.raises(
            IndexError, match="(?s)(index 5[23] is|index) out .*test_index_ranges.py"
        ):
            losses[2].item()
    assert losses[3].item() == wanted[3]


def test_the_others_of_a_failed_batch_can_be_differentiated() -> None:
    table, losses = run("embedding", 2, False)
    with pytest.raises(IndexError):
        losses[2].item()
    for i in (0, 1, 3, 4):
        losses[i].backward()
    reference, others = run("embedding", -1, False)
    for i in (0, 1, 3, 4):
        others[i].backward()
    assert table.grad.tolist() == reference.grad.tolist()


def test_memory_of_a_failed_batch_is_as_it_was() -> None:
    """A region write in the same program, which could have been made in place."""
    base = weft.zeros(64)
    weft.realize(base)
    for _ in range(2):
        base[3:5] += 1.0
        losses = [looked_up(i, weft.arange(16.0).reshape(8, 2), 1) for i in range(4)]
        with pytest.raises(IndexError):
            losses[1].item()
        assert [losses[0].item(), losses[2].item()] == [14.0, 126.0]
    assert base[3:5].tolist() == [2.0, 2.0] and base.sum().item() == 4.0


def test_a_known_program_blames_its_own_example() -> None:
    for bad in (-1, -1, -1, 3, 0, -1):
        table = weft.arange(16.0).reshape(8, 2)
        losses = [looked_up(i, table, bad) for i in range(4)]
        for i, loss in enumerate(losses):
            if i == bad:
                with pytest.raises(IndexError):
                    loss.item()
            else:
                assert loss.item() == sum(float(n) ** 2 for n in range(2 * i, 2 * i + 4))


def test_an_error_that_was_caught_holds_nothing() -> None:
    """Neither memory nor pending work: the failed node must not lead back to the frames that saw it fail."""

    def fail() -> None:
        losses = run("embedding", 2, True)[1]
        with pytest.raises(IndexError):
            losses[2].item()

    for _ in range(4):
        fail()  # until what runs has been stored, with the numbers in it
    before = settled_count()
    fail()
    gc.collect()
    assert count_live_nodes() == before and not tape().pending()
