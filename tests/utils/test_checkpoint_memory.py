"""Checkpoints: what they keep, and checkpoints inside checkpoints."""

import pytest

import weft
from weft.engine.devices.cpu import pool
from weft.utils.checkpoint import checkpoint


def block(x):
    return ((x * 1.5).sin().exp() * x).cos()


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # inside, it is off
@pytest.mark.parametrize("reentrant", [True, False])
def test_nested_checkpoints_have_the_same_gradients(reentrant):
    x = weft.tensor([0.5, 0.25], requires_grad=True)
    expected = weft.autograd.grad(block(block(block(x))).sum(), x)[0]

    def outer(t):
        return block(checkpoint(block, block(t), use_reentrant=reentrant))

    checkpoint(outer, x, use_reentrant=reentrant).sum().backward()
    assert weft.allclose(x.grad, expected)


def kept_bytes(function):
    """How many bytes the graph of a forward pass keeps once everything has run."""
    x = weft.rand(100_000, requires_grad=True)
    weft.flush()
    before = pool.stats()["allocated"]
    y = x
    for _ in range(4):
        y = function(y)
    total = y.sum()
    del y
    total.item()
    return pool.stats()["allocated"] - before


def costly(x):
    """Two reductions, whose results the derivative needs and which are therefore kept, and elementwise operations."""
    return ((x.cumsum(0) * x).cumsum(0) * x).sin()


def test_a_checkpoint_keeps_its_arguments_only():
    checkpointed = kept_bytes(lambda t: checkpoint(costly, t, use_reentrant=False))
    assert checkpointed <= 4 * 400_000 + 4096 < kept_bytes(costly)
