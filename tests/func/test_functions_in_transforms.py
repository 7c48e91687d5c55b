"""Custom Functions inside function transforms: their own `vmap` and `jvp` are called, as in PyTorch."""

from typing import Any

import pytest

import weft
from weft.func import grad, jacfwd, jvp, linearize, vmap


def scaled(log: list[Any], **members: Any) -> Any:
    """x * y * k and x + y, which note what is called."""

    class Scaled(weft.autograd.Function):
        @staticmethod
        def forward(x: Any, y: Any, k: Any) -> Any:
            log.append(("forward", tuple(x.shape)))
            return x * y * k, x + y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, y, ctx.k = inputs
            ctx.save_for_backward(x, y)

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            log.append(("backward", tuple(g.shape)))
            x, y = ctx.saved_tensors
            return g * y * ctx.k + h, g * x * ctx.k + h, None

        @staticmethod
        def jvp(ctx: Any, a: Any, b: Any, k: Any) -> Any:
            log.append(("jvp", tuple(a.shape), tuple(b.shape), k))
            x, y = ctx.saved_tensors
            return (a * y + x * b) * ctx.k, a + b

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, y: Any, k: Any) -> Any:
            log.append(("vmap", *info, in_dims))
            x = x if in_dims[0] is not None else x.unsqueeze(0)
            y = y if in_dims[1] is not None else y.unsqueeze(0)
            return Scaled.apply(x, y, k), (0, 0)

    for name, member in members.items():
        setattr(Scaled, name, member)
    return Scaled


X, Y = weft.arange(6.0).reshape(2, 3), weft.ones(3)


def test_vmap_is_called_once_with_all_examples() -> None:
    log: list[Any] = []
    function = scaled(log)
    product, total = vmap(lambda x: function.apply(x, Y, 2))(X)
    assert product.tolist() == (X * 2).tolist() and total.tolist() == (X + 1).tolist()
    assert log == [("vmap", 2, "error", (0, None, None)), ("forward", (2, 3))]


def test_a_gradient_inside_is_backward_of_an_example_and_one_outside_that_of_all() -> None:
    log: list[Any] = []
    function = scaled(log)
    inside = vmap(grad(lambda x: function.apply(x, x * x, 2)[0].sum()))(X)
    assert inside.tolist() == (6 * X * X).tolist()
    assert [entry for entry in log if entry[0] == "backward"] == [("backward", (3,))]
    log.clear()
    outside = grad(lambda x: vmap(lambda row: function.apply(row * 1, Y, 2)[0])(x).sum())(X)
    assert outside.tolist() == [[2.0] * 3] * 2
    assert log[-1] == ("backward", (2, 3))


def test_maps_in_maps() -> None:
    log: list[Any] = []
    function = scaled(log)
    found = vmap(vmap(lambda a: function.apply(a, a, 2)[0]))(X)
    assert found.tolist() == (2 * X * X).tolist()
    assert [entry[1] for entry in log if entry[0] == "vmap"] == [3, 2]


def test_vmap_may_read_all_examples() -> None:
    calls: list[Any] = []

    class Sorted(weft.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return weft.from_numpy(x.detach().numpy()[::-1].copy())

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return Sorted.apply(g)

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            calls.append(tuple(x.shape))
            return weft.from_numpy(x.detach().numpy()[:, ::-1].copy()), 0

    weights = weft.tensor([1.0, 2.0, 3.0])
    loss = lambda x: (Sorted.apply(x * x) * weights * x).sum()  # noqa: E731
    found = vmap(grad(loss))(X)
    rows = weft.stack([grad(loss)(row) for row in X])
    assert found.tolist() == rows.tolist()
    assert calls == [(2, 3), (2, 3)]


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"vmap": staticmethod(lambda info, dims, x, y, k: x)}, "two returns"),
        ({"vmap": staticmethod(lambda info, dims, x, y, k: ((x, y), (0,)))}, "incompatible"),
        ({"generate_vmap_rule": True}, "both generate_vmap_rule=True and an overridden"),
        ({"setup_context": None}, "must override the setup_context staticmethod"),
    ],
)
def test_what_vmap_has_to_return(members: Any, text: str) -> None:
    function = scaled([], **members)
    with pytest.raises(RuntimeError, match=text):
        vmap(lambda x: function.apply(x, Y, 2))(X)


def test_jvp_is_the_derivative_in_every_forward_transform() -> None:
    log: list[Any] = []
    function = scaled(log)
    (_, pushed) = jvp(lambda x: function.apply(x, Y, 2), (X,), (X,))
    assert pushed[0].tolist() == (2 * X).tolist() and pushed[1].tolist() == X.tolist()
    assert log == [("forward", (2, 3)), ("jvp", (2, 3), (3,), None)]
    _, push = linearize(lambda x: function.apply(x, x * x, 2)[0], X)
    assert push(X).tolist() == (6 * X * X * X).tolist()
    columns = jacfwd(lambda x: function.apply(x, Y, 2)[0])(X[1])
    assert columns.tolist() == (2 * weft.eye(3)).tolist()
    assert not [entry for entry in log if entry[0] == "backward"]


def test_nested_levels_differentiate_what_jvp_computes() -> None:
    function = scaled([])

    def inner(x: Any) -> Any:
        return jvp(lambda z: function.apply(z, z * z, 2), (x,), (x,))[1]

    _, (product, total) = jvp(inner, (X,), (X,))
    assert product.tolist() == (18 * X * X * X).tolist()
    assert total.tolist() == ((1 + 4 * X) * X).tolist()
    with weft.autograd.forward_ad.dual_level():
        outer = weft.autograd.forward_ad.make_dual(X, X)
        with weft.autograd.forward_ad.dual_level():
            dual = weft.autograd.forward_ad.make_dual(outer, outer)
            pair = weft.autograd.forward_ad.unpack_dual(function.apply(dual, dual * dual, 2)[0])
        again = weft.autograd.forward_ad.unpack_dual(pair.tangent)
        assert again.primal.tolist() == (6 * X * X * X).tolist()
        assert again.tangent.tolist() == (18 * X * X * X).tolist()


def test_what_jvp_has_to_return() -> None:
    for result, text in (((1.0, 2.0), "got float"), ((X, X, X), "invalid number")):
        function = scaled([], jvp=staticmethod(lambda ctx, *tangents, made=result: made))
        with pytest.raises((RuntimeError, TypeError), match=text):
            jvp(lambda x, made=function: made.apply(x, Y, 2), (X,), (X,))
        with (
            weft.autograd.forward_ad.dual_level(),
            pytest.raises((RuntimeError, TypeError), match=text),
        ):
            function.apply(weft.autograd.forward_ad.make_dual(X, X), Y, 2)
