"""Operations with several outputs: one record for users, one for each output inside."""

import gc

import pytest

import weft
from live_nodes import settled_count
from weft.config import config
from weft.engine.frontend.node_factory import count_live_nodes

WAYS = {
    "split": lambda x: x.split(2),
    "chunk": lambda x: x.chunk(3),
    "unbind": lambda x: x.unbind(),
    "iteration": lambda x: tuple(x),
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
    record = again.split([2, 1, 3])[0].grad_fn
    weft.autograd.backward(weft.autograd.graph.GradientEdge(record, 2), weft.ones(3))
    assert again.grad.tolist() == [0, 0, 0, 1, 2, 2]
    with pytest.raises(RuntimeError, match="(?s)SplitBackward0 has no output 3.*get_gradient_edge"):
        weft.autograd.backward(weft.autograd.graph.GradientEdge(record, 3), weft.ones(2))


@pytest.mark.parametrize("way", WAYS)
def test_hooks_on_the_record_of_all_outputs(way):
    """It runs once, behind all its outputs: hooks before it see all their gradients, hooks after it their sum."""
    x = weft.arange(6.0, requires_grad=True)
    parts = WAYS[way](x + 0)
    whole, seen = parts[1].grad_fn, []
    parts[1].register_hook(lambda g: seen.append("tensor"))
    before = whole.register_prehook(
        lambda grads: seen.append([None if g is None else g.sum().item() for g in grads])
    )
    after = whole.register_hook(lambda inputs, outputs: (inputs[0] * 10,))
    loss = sum((part * (number + 1)).sum() for number, part in enumerate(parts[:2]))
    size = parts[0].numel()
    weights = [1.0] * size + [2.0] * size + [0.0] * (6 - 2 * size)
    loss.backward(retain_graph=True)
    assert seen == ["tensor", [size, 2.0 * size, *[None] * (len(parts) - 2)]]
    assert x.grad.tolist() == [10 * weight for weight in weights]
    before.remove()
    halved = whole.register_prehook(
        lambda grads: tuple(None if g is None else g / 2 for g in grads)
    )
    found = weft.autograd.grad(loss, [x, parts[0]], retain_graph=True)
    assert found[0].tolist() == [5 * weight for weight in weights]
    assert found[1].flatten().tolist() == [1.0] * size
    halved.remove(), after.remove()
    whole.register_prehook(lambda grads: grads[:1])
    with pytest.raises(RuntimeError, match="incorrect number of values"):
        loss.backward()


def test_the_record_of_all_outputs_is_differentiated_again():
    x = weft.arange(6.0, requires_grad=True)
    parts = (x**3).split(2)
    parts[0].grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 2,))
    (slope,) = weft.autograd.grad((parts[0] * parts[1]).sum(), x, create_graph=True)
    assert slope.tolist() == [0, 162, 0, 54, 0, 0]
    assert weft.autograd.grad(slope.sum(), x)[0].tolist() == [0, 648, 0, 360, 0, 0]


def test_an_edge_made_by_hand_is_an_input():
    parts = weft.arange(6.0, requires_grad=True).split(2)
    edge = weft.autograd.graph.GradientEdge(parts[0].grad_fn, 1)
    (slope,) = weft.autograd.grad((parts[0] + parts[1] * 3).sum(), [edge])
    assert slope.tolist() == [3, 3]


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
    settled_count()
    gc.disable()
    try:
        for _ in range(20):
            step()
        before = count_live_nodes()
        for _ in range(20):
            step()
        assert count_live_nodes() == before
    finally:
        gc.enable()
