"""Sentences 60 to 72: autograd.Function."""

import pytest
from semantics_lib import is_weft, leaf, quiet, raises


def scale_by(lib, factor=2):
    """A Function that multiplies, with a gradient that can be told from the true one."""

    class Scale(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * (factor + 1)

    return Scale


def test_060_apply(lib):
    seen = []

    class Weighted(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight=1):
            seen.append(lib.is_grad_enabled())
            ctx.weight = weight
            return x * weight

        @staticmethod
        def backward(ctx, g):
            return g * ctx.weight, None

    x = leaf(lib, [1.0])
    y = Weighted.apply(x, weight=3)
    assert y.item() == 3 and y.requires_grad and seen == [False]
    assert y.grad_fn.name() == "WeightedBackward"
    y.sum().backward()
    assert x.grad.item() == 3
    with quiet(), raises(RuntimeError, "Legacy autograd function with non-static forward method"):
        scale_by(lib)()(x)  # PyTorch warns when it is made


def test_061_needs_input_grad(lib):
    seen = []

    class Looks(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, number):
            return a + b

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            return g, None, None

    Looks.apply(leaf(lib, [1.0]), lib.ones(1), 3).sum().backward()
    assert seen == [(True, False, False)]


def test_062_gradient_count(lib):
    def with_gradients(*gradients):
        class Two(lib.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                return a + b

            @staticmethod
            def backward(ctx, g):
                return tuple(g if known else None for known in gradients)

        return Two

    x, w = leaf(lib, [1.0]), leaf(lib, [1.0])
    with raises(RuntimeError, "returned an incorrect number of gradients (expected 2, got 1)"):
        with_gradients(True).apply(x, w).sum().backward()
    with raises(RuntimeError, "returned an incorrect number of gradients (expected 2, got 3)"):
        with_gradients(True, True, True).apply(x, w).sum().backward()
    with_gradients(True, True, False, False).apply(x, w).sum().backward()
    assert w.grad.item() == 1


def test_063_gradient_of_another_shape_or_dtype(lib):
    def giving(make):
        class Gives(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, g):
                return make()

        return Gives

    x = leaf(lib, [1.0, 2.0])
    with raises(RuntimeError, "got [7] but expected shape compatible with [2]"):
        giving(lambda: lib.ones(7)).apply(x).sum().backward()
    giving(lambda: lib.ones(3, 2)).apply(x).sum().backward()
    assert x.grad.tolist() == [3, 3]
    x.grad = None
    giving(lambda: lib.ones(2, dtype=lib.float64)).apply(x).sum().backward()
    assert x.grad.dtype is lib.float32 and x.grad.tolist() == [1, 1]


def test_064_no_gradient(lib):
    class Nothing(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    class Missing(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    x = leaf(lib, [1.0])
    Nothing.apply(x).sum().backward()
    assert x.grad is None
    with raises(NotImplementedError, "You must implement either the backward or vjp method"):
        Missing.apply(x).sum().backward()


def test_065_once_differentiable(lib):
    class Once(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        @lib.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = leaf(lib, [3.0])
    Once.apply(x).sum().backward()
    assert x.grad.item() == 6
    (first,) = lib.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    text = "trying to differentiate twice a function that was marked with @once_differentiable"
    if not first.requires_grad:  # PyTorch: the seed of sum() does not require grad
        seed = leaf(lib, 1.0)
        (first,) = lib.autograd.grad(Once.apply(x).sum(), x, seed, create_graph=True)
    with raises(RuntimeError, text):
        first.sum().backward()


def test_066_returning_an_input(lib):
    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    x = leaf(lib, [1.0])
    y = Same.apply(x)
    assert y is not x and y.data_ptr() == x.data_ptr() and y.grad_fn.name() == "SameBackward"
    y.sum().backward()
    assert x.grad.item() == 5
    with raises(RuntimeError, "is a view and is being modified inplace"):
        Same.apply(x * 1).add_(1)


def test_067_mark_dirty(lib):
    def in_place(returned=True):
        class Doubles(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x.mul_(2)
                ctx.mark_dirty(x)
                return x if returned else x.clone()

            @staticmethod
            def backward(ctx, g):
                return g * 2

        return Doubles

    x = leaf(lib, [1.0])
    y = x * 3
    z = in_place().apply(y)
    assert z is y and y.grad_fn.name() == "DoublesBackward" and y._version > 0
    z.sum().backward()
    assert x.grad.item() == 6
    with raises(RuntimeError, "dirty"):
        in_place(False).apply(x * 1)
    text = "a leaf Variable that requires grad"
    with raises(RuntimeError, text):
        in_place().apply(x)


def test_068_mark_non_differentiable(lib):
    seen = []

    class Sorts(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            half, sign = x * 0.5, x > 0
            weight = x * 1
            ctx.mark_non_differentiable(sign, weight)
            return half, sign, weight

        @staticmethod
        def backward(ctx, g, g_sign, g_weight):
            seen.append((g_sign.tolist(), g_weight.tolist()))
            return g * 0.5

    x = leaf(lib, [1.0, -1.0])
    half, sign, weight = Sorts.apply(x)
    assert half.requires_grad and not sign.requires_grad and not weight.requires_grad
    half.sum().backward()
    assert seen == [([False, False] if seen[0][0][0] is False else [0, 0], [0, 0])]
    assert x.grad.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("materialize", [True, False])
def test_069_unused_outputs(lib, materialize):
    seen = []

    class Two(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            seen.append(b if b is None else b.tolist())
            return a

    x = leaf(lib, [1.0])
    Two.apply(x)[0].sum().backward()
    assert seen == [[0] if materialize else None]


def test_070_save_for_backward(lib):
    class Saves(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, bad):
            ctx.save_for_backward(x, 3 if bad else None)
            return x * x

        @staticmethod
        def backward(ctx, g):
            x, nothing = ctx.saved_tensors
            assert nothing is None
            return 2 * x * g, None

    x = leaf(lib, [3.0])
    with raises(
        TypeError, "save_for_backward can only save variables, but argument 1 is of type int"
    ):
        Saves.apply(x, True)
    y = Saves.apply(x, False)
    assert y.grad_fn.saved_tensors[0] is x
    y.sum().backward()
    assert x.grad.item() == 6
    text = "Trying to backward through the graph a second time"
    with raises(RuntimeError, text):
        y.sum().backward()
    with raises(RuntimeError, text):
        y.grad_fn.saved_tensors  # noqa: B018
    base = x * 1
    z = Saves.apply(base, False)
    base.add_(1)
    if is_weft(lib):
        assert lib.autograd.grad(z.sum(), x)[0].item() == 6
    else:
        with raises(RuntimeError, "modified by an inplace operation"):
            lib.autograd.grad(z.sum(), x)


def test_071_outputs_that_are_no_tensors(lib):
    class Mixed(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1, "text", [x * 2], None

        @staticmethod
        def backward(ctx, g, *others):
            return g

    x = leaf(lib, [1.0])
    y, text, inside, nothing = Mixed.apply(x)
    assert y.requires_grad and text == "text" and nothing is None
    assert not inside[0].requires_grad
    y.sum().backward()
    assert x.grad.item() == 1


def test_072_functions_under_transforms(lib):
    class Old(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    class New(lib.autograd.Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            (x,) = inputs
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * g

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_tensors
            return 5 * x * tangent

        @staticmethod
        def vmap(info, in_dims, x):
            return New.apply(x), 0

    class Generated(New):
        generate_vmap_rule = True
        vmap = lib.autograd.Function.vmap

        @staticmethod
        def forward(x):
            return x * x

    x = lib.tensor(2.0)
    if is_weft(lib):  # forward runs once, at the call, in transforms as elsewhere
        assert lib.func.grad(lambda t: Old.apply(t))(x).item() == 1
    else:
        with raises(RuntimeError, "setup_context"):
            lib.func.grad(lambda t: Old.apply(t))(x)
    assert lib.func.grad(lambda t: New.apply(t))(x).item() == 6
    assert lib.func.vmap(New.apply)(lib.ones(3)).tolist() == [1, 1, 1]
    assert lib.func.vmap(Generated.apply)(lib.ones(3)).tolist() == [1, 1, 1]
    leafed = leaf(lib, 2.0)
    y = New.apply(leafed)
    y.backward()
    assert leafed.grad.item() == 6
    with quiet(), lib.autograd.forward_ad.dual_level():
        dual = lib.autograd.forward_ad.make_dual(x, lib.tensor(1.0))
        assert lib.autograd.forward_ad.unpack_dual(New.apply(dual)).tangent.item() == 10
