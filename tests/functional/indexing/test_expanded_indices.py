"""Indices that are one vector, expanded along the other dimensions: whole slices are read and written."""

import numpy as np
import pytest

import weft
from oracle import torch

CALLS = {
    "gather": lambda x, dim, index, s: x.gather(dim, index),
    "scatter": lambda x, dim, index, s: x.scatter(dim, index, s),
    "scatter of a number": lambda x, dim, index, s: x.scatter(dim, index, 2.5),
    "scatter_add": lambda x, dim, index, s: x.scatter_add(dim, index, s),
    "scatter_reduce": lambda x, dim, index, s: x.scatter_reduce(dim, index, s, "mean"),
}
SHAPES = {
    "rows": (0, (5, 3), lambda i: i[:, None].expand(-1, 3)),
    "columns": (1, (3, 5), lambda i: i.expand(3, -1)),
    "in the middle": (-2, (2, 5, 3), lambda i: i[None, :, None].expand(2, -1, 3)),
    "some of the columns": (0, (5, 3), lambda i: i[:, None].expand(-1, 2)),
    "every other": (0, (5, 3), lambda i: i.repeat_interleave(2)[::2][:, None].expand(-1, 3)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("case", SHAPES.values(), ids=SHAPES)
def test_values_and_gradients_are_pytorchs(call, case):
    """Repeated positions included; gradients of the operand and of what is written."""
    dim, shape, expand = case

    def run(lib):
        generator = np.random.default_rng(4)
        x = lib.tensor(generator.random(shape), requires_grad=True)
        index = expand(lib.tensor([4, 1, 2, 1]))
        source = lib.tensor(generator.random(tuple(index.shape)), requires_grad=True)
        result = call(x, dim, index, source)
        result.square().sum().backward()
        name = result.grad_fn.name()
        grads = [None if one.grad is None else one.grad.tolist() for one in (x, source)]
        return result.tolist(), grads, name

    (mine, my_grads, name), (theirs, grads, expected) = run(weft), run(torch)
    assert name == expected
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    for one, other in zip(my_grads, grads, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("call", ["gather", "scatter_add"])
def test_an_expanded_index_out_of_range_is_refused(call):
    """The text is that of the call, not of the slices."""
    x, index = weft.rand(5, 3), weft.tensor([0, 7])[:, None].expand(-1, 3)
    with pytest.raises(IndexError, match="7 is out of bounds for dimension 0 with size 5"):
        weft.gather(x, 0, index) if call == "gather" else x.scatter_add(0, index, weft.ones(2, 3))
