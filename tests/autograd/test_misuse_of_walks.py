"""What reverse walks refuse, and what Functions may do to views that they are given."""

import pytest

import weft

x = weft.ones(2, requires_grad=True)
EDGE = weft.autograd.graph.get_gradient_edge


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: weft.autograd.grad(x.sum(), []), RuntimeError, "`inputs` argument"),
        (lambda: weft.autograd.grad([], [x]), RuntimeError, "`outputs` argument"),
        (lambda: weft.autograd.grad("loss", [x]), RuntimeError, "have to be Tensors"),
        (lambda: weft.autograd.grad(x.sum(), 3), RuntimeError, "have to be Tensors"),
        (lambda: weft.autograd.backward(None), RuntimeError, "`tensors` argument"),
        (lambda: weft.autograd.backward([1.0]), RuntimeError, "have to be Tensors"),
        (
            lambda: weft.autograd.backward(x.sum(), inputs=[None]),
            RuntimeError,
            "have to be Tensors",
        ),
        (lambda: EDGE("x"), RuntimeError, "have to be Tensors"),
        (
            lambda: weft.autograd.grad(x * 2, x, weft.ones(3), is_grads_batched=True),
            RuntimeError,
            "we interpret the first dimension",
        ),
        (
            lambda: weft.autograd.grad(x * 2, x, is_grads_batched=True),
            RuntimeError,
            "we interpret the first dimension",
        ),
        (
            lambda: weft.autograd.grad(
                [x * 2, x * 3], x, [weft.ones(3, 2), weft.ones(2, 2)], is_grads_batched=True
            ),
            RuntimeError,
            "same size in their first dimension",
        ),
    ],
)
def test_arguments_that_make_no_sense(call, kind, text):
    with pytest.raises(kind, match=text) as caught:
        call()
    assert "test_misuse_of_walks.py" in str(caught.value) and "fix" in str(caught.value)


def doubled(several):
    """A Function that doubles its argument in place, and says so with a wrong gradient."""

    class Doubled(weft.autograd.Function):
        @staticmethod
        def forward(ctx, y):
            ctx.mark_dirty(y)
            y.mul_(2)
            return (y, y * 1) if several else y

        @staticmethod
        def backward(ctx, g, *more):
            return g * 3

    return Doubled.apply


def test_a_dirty_view_carries_its_base_along():
    leaf = weft.ones(3, requires_grad=True)
    base = leaf.clone()
    part, other = base[:2], base[1:]
    assert doubled(False)(part) is part
    assert base.tolist() == [2, 2, 1] and other.tolist() == [2, 1]
    assert base.grad_fn.name() == "torch::autograd::CopySlices"
    (slope,) = weft.autograd.grad((base * base).sum() + other.sum(), leaf)
    assert slope.tolist() == [12, 15, 3]
    with pytest.raises(RuntimeError, match="cannot return more than one Tensor"):
        doubled(True)(leaf.clone()[:2])
    with pytest.raises(RuntimeError, match="a view of a leaf"):
        doubled(False)(leaf[:2])
