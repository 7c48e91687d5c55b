"""Operations with several outputs: one record for users, one for each output inside."""

import gc

import pytest

import weft
from weft.config import config
from weft.graph.making import count_live_nodes

WAYS = {
    "split": lambda x: x.split(2),
    "chunk": lambda x: x.chunk(3),
    "unbind": lambda x: x.unbind(),
    "iteration": lambda x: tuple(x),
    "tensor_split": lambda x: x.tensor_split(3),
}


@pytest.mark.parametrize("way", WAYS)
def test_one_record_with_numbered_outputs(way):
    x = weft.arange(6.0, requires_grad=True)
    base = x * 1
    parts = WAYS[way](base)
    whole = parts[0].grad_fn
    assert all(part.grad_fn is whole for part in parts)
    assert [part.output_nr for part in parts] == list(range(len(parts)))
    assert whole.next_functions == ((base.grad_fn, 0),)
    assert (parts[2] * 2).grad_fn.next_functions[0] == (whole, 2)
    whole.metadata["mine"] = 1
    assert parts[1].grad_fn.metadata == {"mine": 1}
    with pytest.raises(RuntimeError, match="register it on the outputs"):
        whole.register_prehook(print)
    sum((part * (number + 1)).sum() for number, part in enumerate(parts[:2])).backward()
    assert x.grad.sum() > 0


def test_edges_of_outputs_are_roots_inputs_and_watched():
    x = weft.arange(6.0, requires_grad=True)
    parts = (x * 1).split(2)
    edge = weft.autograd.graph.get_gradient_edge(parts[1])
    assert edge.node is parts[1].grad_fn and edge.output_nr == 1
    seen = []
    weft.autograd.graph.register_multi_grad_hook(parts[:2], seen.append)
    loss = (parts[0] * 2 + parts[1] * 3).sum()
    (slope,) = weft.autograd.grad(loss, [edge], retain_graph=True)
    assert slope.tolist() == [3, 3]
    loss.backward()
    assert [g.tolist() for g in seen[-1]] == [[2, 2], [3, 3]]
    assert x.grad.tolist() == [2, 2, 3, 3, 0, 0]
    again = weft.arange(6.0, requires_grad=True)
    edge = weft.autograd.graph.get_gradient_edge(again.split(2)[2])
    weft.autograd.backward(edge, weft.ones(2))
    assert again.grad.tolist() == [0, 0, 0, 0, 1, 1]
    with pytest.raises(RuntimeError, match="get_gradient_edge"):
        weft.autograd.grad(
            loss, [weft.autograd.graph.GradientEdge(parts[0].grad_fn, 0)], allow_unused=True
        )


def test_walks_still_batch_and_nothing_stays():
    def step():
        w = weft.ones(3, 4, requires_grad=True)
        losses = []
        for number in range(6):
            a, b = (weft.full((2, 3), float(number)) @ w).tanh().chunk(2, 1)
            losses.append((a * b.sigmoid()).sum())
        weft.stack(losses).sum().backward()
        return w.grad.tolist()

    config.batch = False
    try:
        alone = step()
    finally:
        config.batch = True
    for ours, expected in zip(step(), alone, strict=True):
        assert ours == pytest.approx(expected)
    gc.collect()
    gc.disable()
    try:
        step()
        before = count_live_nodes()
        for _ in range(20):
            step()
        assert count_live_nodes() == before
    finally:
        gc.enable()
