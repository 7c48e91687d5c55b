"""Forward mode: levels inside levels, over and under reverse mode, and with custom Functions."""

import pytest

import weft
from weft.autograd import forward_ad as fwd


def test_levels_nest():
    one = weft.tensor(1.0, dtype=weft.float64)
    with fwd.dual_level() as outer:
        x = fwd.make_dual(weft.tensor(2.0, dtype=weft.float64), one)
        with fwd.dual_level() as inner:
            cube = fwd.make_dual(x, one) ** 3
            slope = fwd.unpack_dual(cube, level=inner).tangent
            assert slope.item() == 12
            assert fwd.unpack_dual(slope, level=outer).tangent.item() == 12
            assert fwd.unpack_dual(cube, level=outer).tangent.item() == 12
        assert fwd.unpack_dual(slope).tangent.item() == 12


def test_an_inner_level_does_not_see_the_outer_direction():
    """d/dx (x * d/dy (x + y)) is 1: confusing the levels would make it 2."""
    one = weft.tensor(1.0)
    with fwd.dual_level():
        x = fwd.make_dual(weft.tensor(3.0), one)
        with fwd.dual_level():
            total = x + fwd.make_dual(weft.tensor(5.0), one)
            slope = fwd.unpack_dual(total).tangent
        assert fwd.unpack_dual(x * slope).tangent.item() == 1


def test_forward_over_reverse_is_reverse_over_forward():
    x = weft.tensor([0.3, 0.7], dtype=weft.float64)
    v = weft.tensor([1.0, -2.0], dtype=weft.float64)

    def function(t):
        return (t.sin() * t.exp()).sum() + t.prod()

    with fwd.dual_level():
        dual = fwd.make_dual(x, v)
        point = dual.view_as(dual)
        point.requires_grad = True
        (slope,) = weft.autograd.grad(function(point), point, create_graph=True)
        over = fwd.unpack_dual(slope).tangent
    leaf = x.clone().requires_grad_()
    with fwd.dual_level():
        tangent = fwd.unpack_dual(function(fwd.make_dual(leaf, v))).tangent
        (under,) = weft.autograd.grad(tangent, leaf)
    _, product = weft.autograd.functional.hvp(function, x, v)
    assert weft.allclose(over, product) and weft.allclose(under, product)


def test_a_function_without_jvp_says_so():
    class Twice(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with fwd.dual_level(), pytest.raises(NotImplementedError, match="jvp function"):
        Twice.apply(fwd.make_dual(weft.ones(2), weft.ones(2)))


def test_the_tangents_of_a_level_go_with_it():
    from weft.engine.frontend.node_factory import count_live_nodes

    weft.flush()
    before = count_live_nodes()
    with fwd.dual_level():
        y = fwd.make_dual(weft.ones(3), weft.ones(3))
        for _ in range(50):
            y = (y * 1.5).exp().tanh()
        assert fwd.unpack_dual(y).tangent.shape == (3,)
    del y
    assert count_live_nodes() <= before + 2


def test_a_view_taken_while_a_level_computes_loses_no_tangent():
    """The first view puts a value with strides into a storage."""

    class Tripled(weft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x * 3

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * 3 + 0 * ctx.x[0].sum()

    point, direction = weft.randn(3, 2), weft.randn(3, 2)
    with fwd.dual_level():
        turned = fwd.make_dual(point, direction).t() * 2
        assert turned.stride() == (1, 2)
        Tripled.apply(turned)
        assert fwd.unpack_dual(turned).tangent.tolist() == (direction.t() * 2).tolist()
        square = fwd.unpack_dual(turned.square()).tangent
        assert weft.allclose(square, 8 * point.t() * direction.t())


def _written(name, base, source):
    """A write whose indices repeat: the last of the sources that name a place stays."""
    index = weft.tensor([1, 3, 1, 1])
    if name == "scatter":
        return base.scatter(1, index.expand(2, 4), source)
    if name == "scatter of columns":
        return base.t().scatter(0, index.unsqueeze(1).expand(4, 2), source.t())
    if name == "index_copy":
        return base.index_copy(1, index, source)
    if name == "index_put":
        return base.index_put((weft.tensor([0, 1, 0, 0]),), source[0].unsqueeze(1).expand(4, 5))
    return (
        weft.nn.functional.max_unpool1d(source, index.expand(2, 4), 2, output_size=(2, 7))
        * base.sum()
    )


@pytest.mark.parametrize(
    "name", ["scatter", "scatter of columns", "index_copy", "index_put", "max_unpool1d"]
)
@pytest.mark.parametrize("mode", ["dual", "func.jvp", "vmap of func.jvp"])
def test_the_tangent_of_a_place_written_twice_is_that_of_its_value(name, mode):
    rows = weft.arange(1.0, 19.0, dtype=weft.float64)
    base, source = rows[:10].reshape(2, 5), rows[10:].reshape(2, 4)
    v, w = base.cos(), source.sin()
    step = 1e-6
    ahead = _written(name, base + step * v, source + step * w)
    expected = (ahead - _written(name, base - step * v, source - step * w)) / (2 * step)
    if mode == "dual":
        with fwd.dual_level():
            dual = _written(name, fwd.make_dual(base, v), fwd.make_dual(source, w))
            found = fwd.unpack_dual(dual).tangent
    elif mode == "func.jvp":
        found = weft.func.jvp(lambda b, s: _written(name, b, s), (base, source), (v, w))[1]
    else:
        pushed = weft.func.vmap(
            lambda b, s, v, w: weft.func.jvp(lambda b, s: _written(name, b, s), (b, s), (v, w))[1]
        )
        found = pushed(*[weft.stack([t, t * 0.5]) for t in (base, source, v, w)])[0]
    assert weft.allclose(found, expected, atol=1e-6)


def test_the_gradient_of_a_write_by_repeated_indices_is_as_in_pytorch():
    source = weft.ones(3, requires_grad=True)
    written = weft.zeros(2).scatter(0, weft.tensor([0, 0, 1]), source)
    written.backward(weft.tensor([2.0, 3.0]))
    assert source.grad.tolist() == [2, 2, 3]
